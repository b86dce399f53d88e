//! Classic ttcp (BRL, SGI, PCAUSA; that of routers too): one stream, from whoever connects to whoever listens.
//! Knows its protocol only; the data goes through the same code as linerate's own.

pub mod client;
pub mod datagram;
pub mod mapping;
pub mod receive;
pub mod server;
