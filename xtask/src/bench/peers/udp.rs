//! One UDP stream as fast as it goes: what the receiving application gets of it.
//! Knows no sender's figure; what was sent and not received is nobody's success.

use super::iperf::IPERF;
use super::iperf3::IPERF3;
use super::nuttcp::NUTTCP;
use super::run::Look;
use super::sockperf::SOCKPERF;
use super::tool::Load;
use super::work::{Better, Contender, GIGABITS, Limit, Metric, Target, Work};

const ONE_BY_ONE: (&str, &str) = ("sendmmsg", "recvmmsg");
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

pub(super) fn works() -> Vec<Work> {
    let work = |name, octets, first: fn(Load) -> Contender, targets| {
        let load = Load::Udp { octets, rate_bps: None };
        Work {
            name,
            title: format!("UDP, {octets} octets a datagram, unpaced"),
            about: "By the receiver's account alone. The second linerate sends one datagram a packet on the wire, as all \
                    peers do; the first leaves it to the kernel to cut a large buffer into datagrams (UDP_SEGMENT), and to \
                    hand several at once to the receiver (UDP_GRO). sockperf's server counts and does not time: its time \
                    is its client's."
                .to_owned(),
            contenders: vec![
                first(load),
                Contender::linerate_by(ONE_BY_ONE, load),
                Contender::peer(&IPERF3, load),
                Contender::peer(&IPERF, load),
                Contender::peer(&NUTTCP, load),
                Contender::peer(&SOCKPERF, load),
            ],
            metrics: vec![GIGABITS, DATAGRAMS],
            targets,
            look: Look::default(),
            on_demand: false,
        }
    };
    let target = |text, contender, times| Target { text, contender, metric: 1, limit: Limit::TimesBest(times) };
    vec![
        work(
            "udp-1470",
            1470,
            Contender::linerate,
            vec![
                target("UDP 1470 B unpaced, received by the application: 8 × the best peer", 0, 8.0),
                target("UDP 1470 B, one datagram a packet: 1.25 × received packets/s", 1, 1.25),
            ],
        ),
        work(
            "udp-64",
            64,
            |load| Contender::linerate_by(SEGMENTED, load),
            vec![
                target("UDP 64 B, segmentation and GRO: 20 × received datagrams/s", 0, 20.0),
                target("UDP 64 B, one datagram a packet: 1.1 × received datagrams/s", 1, 1.1),
            ],
        ),
    ]
}
