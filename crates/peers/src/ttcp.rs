//! Classic ttcp (BRL, SGI, PCAUSA; that of routers too): one stream, from whoever connects to whoever listens.

pub mod client;
pub mod datagram;
pub mod receive;
pub mod server;

use linerate_trial::outcome::Outcome;

use crate::abilities::{ANY, Abilities};
use crate::client::Client;
use crate::error::Error;
use crate::protocol::{Notify, Protocol, Serve};

/// The protocol.
pub struct Ttcp;

impl Protocol for Ttcp {
    fn abilities(&self) -> Abilities {
        Abilities { both_directions: false, parallel: &[], least_datagram: 5, ..ANY }
    }

    fn measure(&self, client: &Client<'_>, notify: Notify) -> Result<[Outcome; 2], Error> {
        client::measure(client, notify)
    }

    fn server(&self) -> Box<dyn Serve> {
        Box::new(server::Server)
    }
}
