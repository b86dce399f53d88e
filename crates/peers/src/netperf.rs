//! netperf (HewlettPackard/netperf), from 2.5 on: TCP and UDP streams, requests and responses, connections, all by its
//! omni tests.

pub mod client;
pub mod mapping;
pub mod message;
pub mod omni;
pub mod results;
pub mod server;
pub mod sockets;

use linerate_trial::spec::Workload::{TcpCrr, TcpRr, TcpStream, UdpRr, UdpStream};

use crate::abilities::{ANY, Abilities};
use crate::protocol::Protocol;

/// The protocol.
pub const PROTOCOL: Protocol = Protocol {
    abilities: Abilities { workloads: &[TcpStream, UdpStream, TcpRr, UdpRr, TcpCrr], ..ANY },
    fit: mapping::fit,
    check: mapping::check,
    measure: client::measure,
    server: || Box::new(server::Server),
};
