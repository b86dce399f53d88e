//! netperf (HewlettPackard/netperf), from 2.5 on: TCP and UDP streams, requests and responses, connections, all by its
//! omni tests.
//! Knows its protocol only; the data goes through the same code as linerate's own.

pub mod client;
pub mod mapping;
pub mod message;
pub mod omni;
pub mod results;
pub mod server;
pub mod session;
pub mod sockets;
