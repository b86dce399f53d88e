//! What it costs to look at counters while a trial runs.
//! Knows the name of the thread that does it.

use super::run::Look;
use super::tool::Load;
use super::work::{Better, Contender, Limit, Metric, Target, Work};

const SHARE: Metric = Metric {
    name: "CPU of the busier agent's sampling thread, % of one core",
    better: Better::Less,
    digits: 3,
    of: |run, _| Some(run.sampler? * 100.0),
};

pub(super) fn works() -> Vec<Work> {
    let contender = |name: &str, load| {
        let mut contender = Contender::linerate(load);
        if let super::run::Who::Linerate(options) = &mut contender.who {
            options.push(("interval", "100ms".to_owned()));
        }
        Contender { name: format!("linerate, {name}"), ..contender }
    };
    let paced = Load::Udp { octets: 1470, rate_bps: Some(100_000_000) };
    let target = |text, contender| Target { text, contender, metric: 0, limit: Limit::AtMost(0.5) };
    vec![Work {
        name: "sampling",
        title: "Sampling at intervals of 100 ms".to_owned(),
        about:
            "The CPU time of the thread `sampler` (/proc/PID/task/TID/schedstat) of both agents, by the time it ran."
                .to_owned(),
        contenders: vec![contender("one TCP stream", Load::Tcp), contender("UDP at 100 Mbit/s", paced)],
        metrics: vec![SHARE],
        targets: vec![
            target("sampling beside a TCP stream under 0.5 % of one core", 0),
            target("sampling beside UDP at 100 Mbit/s under 0.5 % of one core", 1),
        ],
        look: Look { departures: false, processes: true },
        on_demand: false,
    }]
}
