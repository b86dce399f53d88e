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

use linerate_trial::spec::Workload;

use crate::abilities::{ANY, Abilities};
use crate::protocol::Protocol;

/// The protocol.
pub const PROTOCOL: Protocol = Protocol {
    abilities: Abilities {
        workloads: &[Workload::TcpStream, Workload::UdpStream, Workload::TcpRr],
        least_datagram: 18,
        spacing: false,
        bursts: false,
        congestion_control: false,
        ..ANY
    },
    fit: mapping::fit,
    check: mapping::check,
    measure: client::measure,
    server: || Box::<server::Server>::default(),
};
