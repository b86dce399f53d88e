//! nuttcp (nuttcp.net), from 3.3.1 on: TCP and UDP streams, either way.
//! Knows its protocol only; the data goes through the same code as linerate's own.

pub mod client;
pub mod datagram;
pub mod line;
pub mod mapping;
pub mod port_pool;
pub mod report_writer;
pub mod server;
pub mod server_report;
pub mod session;
pub mod sockets;
