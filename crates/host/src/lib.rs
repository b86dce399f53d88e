//! A Linux machine: sockets and traffic, CPU accounting, counters, its environment.
//! Knows nothing of the conversation with a controller, of plans or of records.

pub mod counters;
pub mod cpu;
mod egress;
pub mod environment;
mod ethtool;
pub mod guard;
pub mod interfaces;
mod netlink;
pub mod profile;
pub mod settings;
pub mod soak;
pub mod sys;
pub mod traffic;
