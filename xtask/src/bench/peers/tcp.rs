//! One TCP stream: how much arrives, and what that costs both machines.
//! Knows which pair of socket interfaces is the fastest, as the work `apis` found it.

use super::iperf::IPERF;
use super::iperf3::{IPERF3, IPERF3_Z, IPERF3_Z_SKIP, has};
use super::nuttcp::NUTTCP;
use super::run::Look;
use super::tool::{Load, Peer};
use super::work::{Better, Contender, GIGABITS, Limit, Metric, Target, Work};

/// What an ordinary program uses, as the peers do by default.
const PLAIN: (&str, &str) = ("plain", "plain");
/// The sender's and the receiver's interface that move the most.
const BEST: (&str, &str) = ("splice", "trunc");
/// Who copies each octet twice, as plain does.
const COPYING: &[&str] = &["iperf3", "iperf", "nuttcp"];

const CPU_BY_GIB: Metric = Metric {
    name: "CPU seconds of both machines for each GiB",
    better: Better::Less,
    digits: 3,
    of: |run, _| Some(run.busy_s? / (run.account.octets / f64::from(1 << 30))),
};

pub(super) fn works() -> Vec<Work> {
    let load = Load::Tcp;
    let (sparing, note, least): (&Peer, &str, Limit) = if has("--skip-rx-copy") {
        (
            &IPERF3_Z_SKIP,
            "its equal is iperf3 with both options",
            Limit::TimesBestOf(1.6, &["iperf3 -Z --skip-rx-copy"]),
        )
    } else {
        (&IPERF3_Z, "this iperf3 has no --skip-rx-copy, so there is no equal here", Limit::TimesBest(1.6))
    };
    vec![Work {
        name: "tcp",
        title: "One TCP stream".to_owned(),
        about: format!(
            "Plain, where each byte is copied by a write and by a read, is linerate's default and that of iperf3, iperf and \
             nuttcp, and these are held against each other. The best pair neither copies at the sender nor at the receiver: \
             {note} (`-Z` sends by sendfile(2), `--skip-rx-copy` receives by MSG_TRUNC). Both machines are one, so the CPU \
             time is the busy time of all its CPUs (/proc/stat) from the start of the tool's client (of linerate: of \
             linerate and both its agents) to its end, less what the machine takes while nothing runs."
        ),
        contenders: vec![
            Contender::linerate_by(PLAIN, load),
            Contender::linerate_by(BEST, load),
            Contender::peer(&IPERF3, load),
            Contender::peer(sparing, load),
            Contender::peer(&IPERF, load),
            Contender::peer(&NUTTCP, load),
        ],
        metrics: vec![GIGABITS, CPU_BY_GIB],
        targets: vec![
            Target {
                text: "one TCP stream, plain both ways: 1.3 × the best of the peers' defaults",
                contender: 0,
                metric: 0,
                limit: Limit::TimesBestOf(1.3, COPYING),
            },
            Target {
                text: "one TCP stream, best pair of interfaces: 1.6 × the best peer",
                contender: 1,
                metric: 0,
                limit: least,
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
