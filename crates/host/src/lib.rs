//! A Linux machine: sockets and traffic, CPU accounting, counters, its environment.
//! Knows nothing of the conversation with a controller, of plans or of records.

pub mod sys;
pub mod traffic;
