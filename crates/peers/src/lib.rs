//! Other tools' protocols, both roles: what they say, and how a test of theirs goes.
//! Knows no plans, no records and no terminal.

use std::time::Duration;

use linerate_host::traffic::Progress;
use linerate_trial::outcome::Outcome;
use linerate_trial::spec::Spec;
use linerate_trial::tool::Tool;

pub mod allow;
pub mod connection_limit;
pub mod deadline;
pub mod early_datagrams;
pub mod iperf2;
pub mod iperf3;
pub mod listener;
pub mod netperf;
pub mod nuttcp;
pub mod reachability;
pub mod remote_end;
pub mod served_test;
pub mod socket_options;
pub mod test;
pub mod test_limit;
pub mod ttcp;

/// Makes a trial one that the tool can express, where the difference is small: the record has what it became.
pub fn fit(tool: Tool, spec: &mut Spec) {
    match tool {
        // A server leaves out whole seconds.
        Tool::Iperf3 => spec.warmup = Duration::from_secs(spec.warmup.as_secs_f64().ceil() as u64),
        Tool::Iperf2 => iperf2::mapping::fit(spec),
        Tool::Netperf => netperf::mapping::fit(spec),
        Tool::Nuttcp => nuttcp::mapping::fit(spec),
        Tool::Ttcp => {}
    }
}

/// Whether the tool's server can be the other end of such a trial; or one sentence about what it cannot do.
pub fn can(tool: Tool, spec: &Spec) -> Result<(), String> {
    match tool {
        Tool::Iperf3 => iperf3::mapping::parameters_of(spec).map(drop),
        Tool::Iperf2 => iperf2::mapping::check_client(spec),
        Tool::Netperf => netperf::mapping::check_client(spec),
        Tool::Nuttcp => nuttcp::mapping::check_client(spec),
        Tool::Ttcp => ttcp::mapping::check_client(spec),
    }
}

/// One trial of this machine, the host, against the tool's server, the target: what the server told of its end, and what
/// this end saw. `tokens` say who asks, where the tool's servers can want to know. The error is one sentence that ends in
/// what to try.
pub fn run(
    tool: Tool,
    tokens: &[String],
    spec: &Spec,
    place: &test::Place,
    notify: impl Fn(Progress) + Send + 'static,
    stopped: &dyn Fn() -> bool,
) -> Result<[Outcome; 2], String> {
    match tool {
        Tool::Iperf3 => iperf3::client::run_as(tokens, spec, place, notify, stopped),
        Tool::Iperf2 => iperf2::client::run(spec, place, notify, stopped),
        Tool::Netperf => netperf::client::run(spec, place, notify, stopped),
        Tool::Nuttcp => nuttcp::client::run(spec, place, notify, stopped),
        Tool::Ttcp => ttcp::client::run(spec, place, notify, stopped),
    }
}
