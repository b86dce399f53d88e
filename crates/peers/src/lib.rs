//! Other tools' protocols, both roles: what they say, and how a test of theirs goes.
//! Knows no plans, no records and no terminal.

use linerate_trial::spec::Spec;
use linerate_trial::tool::Tool;

pub mod abilities;
pub mod allow;
pub mod client;
pub mod connection_limit;
pub mod counters_before;
pub mod deadline;
pub mod early_datagrams;
pub mod error;
pub mod iperf2;
pub mod iperf3;
pub mod limits;
pub mod listener;
pub mod netperf;
pub mod nuttcp;
pub mod plausible;
pub mod protocol;
pub mod remote_end;
pub mod served_test;
pub mod server;
pub mod socket_options;
pub mod test_limit;
pub mod ttcp;
pub mod twamp;
pub mod wait;

pub use client::{Route, run};
pub use error::Error;

/// Makes a trial one that the tool can express, where the difference is small: the record has what it became.
pub fn fit(tool: Tool, spec: &mut Spec) {
    (protocol::of(tool).fit)(spec);
}

/// Whether the tool's server can be the other end of such a trial.
pub fn check(tool: Tool, spec: &Spec) -> Result<(), Error> {
    abilities::check(tool, spec)?;
    (protocol::of(tool).check)(spec)
}
