//! Other tools' protocols: is linerate as a server no slower than the tool's own, and against its server no slower than
//! its own client?
//! Knows no protocol.

use super::iperf::{IPERF, IPERF_R};
use super::iperf3::{IPERF3, IPERF3_R};
use super::nuttcp::{NUTTCP, NUTTCP_R};
use super::run::{Direction, Look, Who};
use super::tool::{Load, Peer};
use super::work::{Better, Contender, GIGABITS, Limit, Metric, Target, Work};

const TCP: Load = Load::Tcp;
const UDP: Load = Load::Udp { octets: 1470, rate_bps: None };

pub(super) fn works() -> Vec<Work> {
    vec![
        served_udp(),
        work("others-iperf3-tcp", &IPERF3, TCP, Direction::Rx),
        work("others-iperf3-tcp-back", &IPERF3_R, TCP, Direction::Tx),
        work("others-iperf3-udp", &IPERF3, UDP, Direction::Rx),
        work("others-iperf2-tcp", &IPERF, TCP, Direction::Rx),
        work("others-iperf2-tcp-back", &IPERF_R, TCP, Direction::Tx),
        work("others-iperf2-udp", &IPERF, UDP, Direction::Rx),
        work("others-nuttcp-tcp", &NUTTCP, TCP, Direction::Rx),
        work("others-nuttcp-tcp-back", &NUTTCP_R, TCP, Direction::Tx),
        work("others-nuttcp-udp", &NUTTCP, UDP, Direction::Rx),
    ]
}

/// What a client with a receive buffer of the usual size gets of a paced load.
fn served_udp() -> Work {
    let load = Load::Udp { octets: 1448, rate_bps: Some(1_000_000_000) };
    let contender = |name: &str, who: Who| Contender { name: name.to_owned(), who, load };
    Work {
        name: "served-udp",
        title: "iperf3 -u -b 1G -R: what a paced server's client loses".to_owned(),
        about: "Datagrams of 1448 bytes, by the client's account. Its receive buffer is the system's usual 208 KiB, 92 such \
                datagrams: what a server sends back to back to make up for a delay may be more."
            .to_owned(),
        contenders: vec![
            contender("iperf3 -R → its own server", Who::Peer(&IPERF3_R)),
            contender("iperf3 -R → linerate serve", Who::Served(&IPERF3_R)),
        ],
        metrics: vec![
            Metric {
                name: "datagrams that arrived, % of those sent",
                better: Better::More,
                digits: 3,
                of: |run, _| {
                    let arrived = run.account.octets / 1448.0;
                    Some(100.0 * arrived / (arrived + run.account.lost?))
                },
            },
            GIGABITS,
        ],
        targets: vec![
            Target { text: "loss no higher than a real server's", contender: 1, metric: 0, limit: Limit::TimesBest(1.0) },
        ],
        look: Look::default(),
        on_demand: false,
    }
}

fn work(name: &'static str, peer: &'static Peer, load: Load, direction: Direction) -> Work {
    let what = match load {
        Load::Udp { octets, .. } => format!("UDP of {octets} bytes, unpaced"),
        _ => "one TCP stream".to_owned(),
    };
    let contender = |name: String, who: Who| Contender { name, who, load };
    Work {
        name,
        title: format!("{}: {what}", peer.name),
        about: "The tool between its own two ends; its client served by linerate; and linerate against its server. What the \
                receiving end tells counts."
            .to_owned(),
        contenders: vec![
            contender(format!("{} → its own server", peer.name), Who::Peer(peer)),
            contender(format!("{} → linerate serve", peer.name), Who::Served(peer)),
            contender(format!("linerate → {}'s server", peer.program), Who::Against(peer, direction)),
        ],
        metrics: vec![GIGABITS],
        targets: vec![
            Target { text: "served by linerate, no slower", contender: 1, metric: 0, limit: Limit::TimesBest(1.0) },
            Target { text: "linerate as client, no slower", contender: 2, metric: 0, limit: Limit::TimesBest(1.0) },
        ],
        look: Look::default(),
        on_demand: false,
    }
}
