//! One UDP stream as fast as it goes: what the receiving application gets of it.
//! Knows no sender's figure; what was sent and not received is nobody's success.

use super::iperf::IPERF;
use super::iperf3::{IPERF3, IPERF3_GSRO, has};
use super::nuttcp::NUTTCP;
use super::run::Look;
use super::sockperf::SOCKPERF;
use super::tool::Load;
use super::work::{Better, Contender, GIGABITS, Limit, Metric, Target, Work};

/// What an ordinary program uses, as the peers do by default.
const PLAIN: (&str, &str) = ("plain", "plain");
const BATCHES: (&str, &str) = ("sendmmsg", "recvmmsg");
const SEGMENTED: (&str, &str) = ("sendmmsg-udp-segment", "udp-gro");

const DATAGRAMS: Metric = Metric {
    name: "thousand datagrams received a second",
    better: Better::More,
    digits: 0,
    of: |run, contender| match contender.load {
        Load::Udp { octets, .. } => Some(run.account.bps() / 8.0 / f64::from(octets) / 1e3),
        _ => None,
    },
};

/// Whose each datagram is a system call at either end.
const ONE_A_CALL: &[&str] = &["iperf3", "iperf", "nuttcp", "sockperf"];

pub(super) fn works() -> Vec<Work> {
    let has_gsro = has("--gsro");
    let work = |name, octets, targets: Vec<Target>| {
        let load = Load::Udp { octets, rate_bps: None };
        let note = if has_gsro {
            "Its equal is `iperf3 --gsro`."
        } else {
            "No peer here has an equal: iperf3 has had `--gsro` since 3.18, and this one has not."
        };
        let mut contenders = vec![
            Contender::linerate_by(PLAIN, load),
            Contender::linerate_by(BATCHES, load),
            Contender::linerate_by(SEGMENTED, load),
            Contender::peer(&IPERF3, load),
            Contender::peer(&IPERF, load),
            Contender::peer(&NUTTCP, load),
            Contender::peer(&SOCKPERF, load),
        ];
        if has_gsro {
            contenders.push(Contender::peer(&IPERF3_GSRO, load));
        }
        Work {
            name,
            title: format!("UDP, {octets} bytes a datagram, unpaced"),
            about: format!(
                "By the receiver's account alone. The first linerate sends and receives one datagram by a system call, as all \
                 peers do by default, and as a target does. The second puts the same packets on the wire by batches, which \
                 no peer has. The third leaves it to the kernel to cut a large buffer into datagrams (UDP_SEGMENT), and to \
                 hand several at once to the receiver (UDP_GRO); between two namespaces they are never cut apart. {note} \
                 sockperf's server counts and does not time: its time is its client's."
            ),
            contenders,
            metrics: vec![GIGABITS, DATAGRAMS],
            targets,
            look: Look::default(),
            on_demand: false,
        }
    };
    let target = |text, contender, limit| Target { text, contender, metric: 1, limit };
    let targets = |plain, batches, segmented| {
        let mut targets = vec![
            target(plain, 0, Limit::TimesBestOf(1.0, ONE_A_CALL)),
            target(batches, 1, Limit::TimesBestOf(1.1, ONE_A_CALL)),
        ];
        if has_gsro {
            targets.push(target(segmented, 2, Limit::TimesBestOf(1.0, &["iperf3 --gsro"])));
        }
        targets
    };
    vec![
        work(
            "udp-1470",
            1470,
            targets(
                "UDP 1470 B, plain both ways: no fewer datagrams than the best peer's default",
                "UDP 1470 B, batches of datagrams: 1.1 × the best peer's default",
                "UDP 1470 B, segmentation: no fewer than iperf3 --gsro",
            ),
        ),
        work(
            "udp-64",
            64,
            targets(
                "UDP 64 B, plain both ways: no fewer datagrams than the best peer's default",
                "UDP 64 B, batches of datagrams: 1.1 × the best peer's default",
                "UDP 64 B, segmentation: no fewer than iperf3 --gsro",
            ),
        ),
    ]
}
