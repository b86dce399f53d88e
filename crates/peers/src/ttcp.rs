//! Classic ttcp (BRL, SGI, PCAUSA; that of routers too): one stream, from the end that connects to the end that listens.

pub mod client;
pub mod datagram;
pub mod receive;
pub mod server;

use crate::abilities::{ANY, Abilities};
use crate::protocol::Protocol;

/// The protocol.
pub const PROTOCOL: Protocol = Protocol {
    abilities: Abilities { both_directions: false, parallel: &[], least_datagram: 5, ..ANY },
    fit: |_| (),
    check: |_| Ok(()),
    measure: client::measure,
    server: || Box::new(server::Server),
};
