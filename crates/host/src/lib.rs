//! A Linux machine: sockets and traffic, CPU accounting, counters, its environment.
//! Knows nothing of the conversation with a controller, of plans or of records.

pub mod counters;
pub mod cpu;
pub mod drop_reasons;
mod egress;
pub mod environment;
mod ethtool;
pub mod guard;
pub mod interfaces;
mod netlink;
pub mod settings;
pub mod soak;
pub mod sys;
pub mod traffic;
