//! nuttcp (nuttcp.net), from 3.3.1 on: TCP and UDP streams, either way.
//! Knows its protocol only; the data goes through the same code as linerate's own.

pub mod client;
pub mod datagram;
pub mod hall;
pub mod line;
pub mod report;
pub mod server;
pub mod session;
pub mod sockets;
pub mod terms;
pub mod told;
