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

use linerate_trial::outcome::Outcome;
use linerate_trial::spec::Spec;

use crate::abilities::{ANY, Abilities};
use crate::client::Client;
use crate::error::Error;
use crate::protocol::{Notify, Protocol, Serve};

/// The protocol.
pub struct Iperf3;

impl Protocol for Iperf3 {
    fn abilities(&self) -> Abilities {
        Abilities { least_datagram: 16, spacing: false, ..ANY }
    }

    /// A server leaves out whole seconds.
    fn fit(&self, spec: &mut Spec) {
        spec.warmup = Duration::from_secs(spec.warmup.as_secs_f64().ceil() as u64);
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
