//! iperf2 (sourceforge.net/projects/iperf2), from 2.0.5 on: TCP and UDP streams, either way or both, and bounce-back.

pub mod bounce_back;
pub mod client;
pub mod datagram;
pub mod header;
pub mod mapping;
pub mod report;
pub mod server;
pub mod session;
pub mod sockets;

use linerate_trial::outcome::Outcome;
use linerate_trial::spec::{Spec, Workload};

use crate::abilities::{ANY, Abilities};
use crate::client::Client;
use crate::error::Error;
use crate::protocol::{Notify, Protocol, Serve};

/// The protocol.
pub struct Iperf2;

impl Protocol for Iperf2 {
    fn abilities(&self) -> Abilities {
        Abilities {
            workloads: &[Workload::TcpStream, Workload::UdpStream, Workload::TcpRr],
            least_datagram: 18,
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
