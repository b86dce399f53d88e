//! One TCP stream: how much arrives, and what that costs both machines.
//! Knows which pair of socket interfaces is the fastest, as the work `apis` found it.

use super::iperf::IPERF;
use super::iperf3::{IPERF3, IPERF3_Z};
use super::nuttcp::NUTTCP;
use super::run::Look;
use super::tool::Load;
use super::work::{Better, Contender, GIGABITS, Limit, Metric, Target, Work};

/// The sender's and the receiver's interface that move the most.
const BEST: (&str, &str) = ("splice", "trunc");

const CPU_BY_GIB: Metric = Metric {
    name: "CPU seconds of both machines for each GiB",
    better: Better::Less,
    digits: 3,
    of: |run, _| Some(run.busy_s? / (run.account.octets / f64::from(1 << 30))),
};

pub(super) fn works() -> Vec<Work> {
    let load = Load::Tcp;
    vec![Work {
        name: "tcp",
        title: "One TCP stream".to_owned(),
        about: "Each tool as it comes; `-Z` lets iperf3 send by sendfile(2). Both machines are one, so the CPU time is \
                the busy time of all its CPUs (/proc/stat) from the start of the tool's client (of linerate: of linerate \
                and both its agents) to its end, less what the machine takes while nothing runs."
            .to_owned(),
        contenders: vec![
            Contender::linerate(load),
            Contender::linerate_by(BEST, load),
            Contender::peer(&IPERF3, load),
            Contender::peer(&IPERF3_Z, load),
            Contender::peer(&IPERF, load),
            Contender::peer(&NUTTCP, load),
        ],
        metrics: vec![GIGABITS, CPU_BY_GIB],
        targets: vec![
            Target {
                text: "one TCP stream, defaults: 1.3 × the best peer",
                contender: 0,
                metric: 0,
                limit: Limit::TimesBest(1.3),
            },
            Target {
                text: "one TCP stream, best pair of interfaces: 1.6 × the best peer",
                contender: 1,
                metric: 0,
                limit: Limit::TimesBest(1.6),
            },
            Target {
                text: "CPU seconds for each GiB, best pair of interfaces: at most 0.7 × the best peer's",
                contender: 1,
                metric: 1,
                limit: Limit::AtMostTimes(0.7, &[]),
            },
        ],
        look: Look::default(),
        on_demand: false,
    }]
}
