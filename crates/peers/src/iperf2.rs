//! iperf2 (sourceforge.net/projects/iperf2), from 2.0.5 on: TCP and UDP streams, either way or both, and bounce-back.
//! Knows its protocol only; the data goes through the same code as linerate's own.

pub mod bounce_back;
pub mod client;
pub mod datagram;
pub mod header;
pub mod mapping;
pub mod report;
pub mod server;
pub mod session;
pub mod sockets;
