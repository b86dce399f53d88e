//! Every system call that std and socket2 do not offer, behind safe functions: the crate's one place for `unsafe`.
//! Knows no trials; numbers go in, numbers come out.
#![allow(unsafe_code, reason = "this module is the crate's one address for unsafe; each block carries its proof")]

pub mod datagrams;
pub mod ethtool;
pub mod machine;
pub mod namespace;
pub mod netlink;
pub mod pacing;
pub mod poll;
pub mod socket_state;
pub mod thread;
