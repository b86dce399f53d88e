//! When to send what: departures under a limited offered load.
//! Knows no clock; `now` is an argument.
