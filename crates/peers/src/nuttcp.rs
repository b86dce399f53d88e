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

use linerate_trial::spec::Workload;

use crate::abilities::{ANY, Abilities};
use crate::protocol::Protocol;

/// The protocol.
pub const PROTOCOL: Protocol = Protocol {
    abilities: Abilities {
        both_directions: false,
        parallel: &[Workload::TcpStream],
        least_datagram: mapping::LEAST_DATAGRAM,
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
