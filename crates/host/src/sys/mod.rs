//! The system calls that std does not offer, each behind a safe function.
//! Knows how to ask the kernel; what the answers mean is for the rest of the crate.
#![allow(unsafe_code, reason = "the one place of this crate where system calls are made by hand")]

pub mod ethtool;
pub mod machine;
pub mod namespace;
pub mod netlink;
