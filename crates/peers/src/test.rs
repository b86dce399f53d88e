//! Where a test with another tool takes place, and how its end is awaited.
//! Knows no protocol.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use linerate_host::traffic::Trial;

/// The two ends of a test.
#[derive(Clone, Debug)]
pub struct Place {
    /// This machine's address.
    pub local: IpAddr,
    /// The interface that has it.
    pub interface: Option<String>,
    /// The other tool's server.
    pub server: SocketAddr,
}

/// How often it is looked whether a test is to go on: seldom, for it takes a CPU from what is measured.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Waits until this end's flows have ended; those that take longer than `most` are ended. `false`: `stopped` said so first.
pub fn await_end(trial: &Trial, most: Duration, stopped: &dyn Fn() -> bool) -> bool {
    let began = Instant::now();
    while !trial.ends_within(LOOK_AGAIN) {
        if stopped() {
            return false;
        }
        if began.elapsed() > most {
            trial.stopper().finish();
        }
    }
    true
}
