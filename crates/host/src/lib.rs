//! A Linux machine, as a trial sees it: its interfaces, counters and environment.
//! Knows the operating system; nothing of controllers, records and formats.

pub mod counters;
pub mod environment;
mod ethtool;
pub mod interfaces;
mod netlink;
pub mod sys;

pub use linerate_trial as trial;
