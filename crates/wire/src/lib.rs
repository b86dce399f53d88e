//! The bytes that linerate puts on the network: the probe in every UDP datagram, the handshake that opens a
//! flow, whole test frames, and how many octets a payload costs on an Ethernet.
//! Knows no sockets, no clocks and no operating system.
#![no_std]
#![forbid(unsafe_code)]

pub mod frame;
mod handshake;
mod overhead;
mod probe;
pub mod template;

pub use handshake::{HANDSHAKE_LEN, Handshake, HandshakeKind, Token};
pub use overhead::{EthernetOverhead, IpVersion, tcp_header_len};
pub use probe::{PROBE_LEN, Probe};
