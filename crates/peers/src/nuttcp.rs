//! nuttcp (nuttcp.net), from 3.3.1 on: TCP and UDP streams, either way.

pub mod client;
pub mod datagram;
pub mod line;
pub mod mapping;
pub mod port_pool;
pub mod report_writer;
pub mod server;
pub mod server_report;
pub mod sockets;

use linerate_trial::outcome::Outcome;
use linerate_trial::spec::{Spec, Workload};

use crate::abilities::{ANY, Abilities};
use crate::client::Client;
use crate::error::Error;
use crate::protocol::{Notify, Protocol, Serve};

/// The protocol.
pub struct Nuttcp;

impl Protocol for Nuttcp {
    fn abilities(&self) -> Abilities {
        Abilities {
            both_directions: false,
            parallel: &[Workload::TcpStream],
            least_datagram: mapping::LEAST_DATAGRAM,
            spacing: false,
            bursts: false,
            congestion_control: false,
            ..ANY
        }
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
        Box::<server::Server>::default()
    }
}
