//! What a board without an operating system answers: ARP, ping, frames to be echoed, and iperf2's datagrams.
//! Knows no board: a frame and the time go in, a frame comes out.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

mod bytes;
pub mod iperf2;
pub mod ipv4;
pub mod responder;
pub mod statistics;
