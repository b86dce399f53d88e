//! iperf3 (esnet/iperf), from 3.0 on: TCP and UDP streams, either way or both.
//! Knows its protocol only; the data goes through the same code as linerate's own.

#[cfg(feature = "authentication")]
pub mod authentication;
#[cfg(not(feature = "authentication"))]
#[path = "iperf3/without_authentication.rs"]
pub mod authentication;
#[cfg(feature = "authentication")]
mod base64;
pub mod client;
pub mod datagram;
pub mod mapping;
pub mod message;
pub mod parameters;
pub mod results;
pub mod server;
pub mod sockets;
