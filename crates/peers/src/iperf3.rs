//! iperf3 (esnet/iperf), from 3.0 on: TCP and UDP streams, either way or both.

#[cfg(feature = "authentication")]
pub mod authentication;
#[cfg(not(feature = "authentication"))]
#[path = "iperf3/without_authentication.rs"]
pub mod authentication;
pub mod client;
pub mod datagram;
pub mod mapping;
pub mod message;
pub mod parameters;
pub mod reconcile;
pub mod results;
pub mod server;

use std::time::Duration;

use crate::abilities::{ANY, Abilities};
use crate::protocol::Protocol;

/// The protocol.
pub const PROTOCOL: Protocol = Protocol {
    abilities: Abilities { least_datagram: 16, spacing: false, ..ANY },
    // A server leaves out whole seconds.
    fit: |spec| spec.warmup = Duration::from_secs(spec.warmup.as_secs_f64().ceil() as u64),
    check: mapping::check,
    measure: client::measure,
    server: || Box::<server::Server>::default(),
};
