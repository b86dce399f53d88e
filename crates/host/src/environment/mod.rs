//! Writes down the state of this machine.
//! Knows where each part is read; nothing here changes anything.
