//! A Linux machine: sockets, CPU accounting, counters, environment.
//! Knows nothing of the controller's conversation.

pub mod cpu;
mod inflate;
pub mod soak;
pub mod sys;
