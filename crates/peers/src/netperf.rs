//! netperf (HewlettPackard/netperf), from 2.5 on: TCP and UDP streams, requests and responses, connections, all by its
//! omni tests.

pub mod client;
pub mod mapping;
pub mod message;
pub mod omni;
pub mod results;
pub mod server;
pub mod sockets;

use linerate_trial::outcome::Outcome;
use linerate_trial::spec::Spec;
use linerate_trial::spec::Workload::{TcpCrr, TcpRr, TcpStream, UdpRr, UdpStream};

use crate::abilities::{ANY, Abilities};
use crate::client::Client;
use crate::error::Error;
use crate::protocol::{Notify, Protocol, Serve};

/// The protocol.
pub struct Netperf;

impl Protocol for Netperf {
    fn abilities(&self) -> Abilities {
        Abilities { workloads: &[TcpStream, UdpStream, TcpRr, UdpRr, TcpCrr], ..ANY }
    }

    fn fit(&self, spec: &mut Spec) {
        mapping::fit(spec);
    }

    fn check(&self, spec: &Spec) -> Result<(), Error> {
        mapping::check(spec)
    }

    fn measure(&self, client: &Client<'_>, notify: Notify) -> Result<[Outcome; 2], Error> {
        client::measure(client, notify)
    }

    fn server(&self) -> Box<dyn Serve> {
        Box::new(server::Server)
    }
}
