//! The bytes that linerate puts on the network: the probe in every UDP datagram, the handshake that opens a
//! flow, and how many octets a payload costs on an Ethernet.
//! Knows no sockets, no clocks and no operating system.
#![no_std]
#![forbid(unsafe_code)]

mod handshake;
mod overhead;
mod probe;

pub use handshake::{HANDSHAKE_LEN, Handshake, HandshakeKind, Token};
pub use overhead::{EthernetOverhead, IpVersion};
pub use probe::{PROBE_LEN, Probe};
