//! Every pair of socket interfaces that linerate has: which is the fastest on this machine.
//! Knows the options' names and no peer.

use super::run::Look;
use super::tool::Load;
use super::work::{Contender, GIGABITS, Work};

const TCP_SENDERS: [&str; 6] = ["plain", "sendfile", "zerocopy", "splice", "io-uring", "io-uring-zerocopy"];
const TCP_RECEIVERS: [&str; 5] = ["plain", "trunc", "splice", "zerocopy", "io-uring"];
const UDP_SENDERS: [&str; 5] = ["plain", "sendmmsg", "udp-segment", "sendmmsg-udp-segment", "io-uring"];
const UDP_RECEIVERS: [&str; 4] = ["plain", "recvmmsg", "udp-gro", "busy-poll"];

pub(super) fn works() -> Vec<Work> {
    let work = |name, title: &str, senders: &[&'static str], receivers: &[&'static str], load| {
        let pairs = senders.iter().flat_map(|sender| receivers.iter().map(move |receiver| (*sender, *receiver)));
        Work {
            name,
            title: format!("linerate's socket interfaces: {title}"),
            about: "Sender → receiver. The default is in the row without a pair.".to_owned(),
            contenders: std::iter::once(Contender::linerate(load))
                .chain(pairs.map(|pair| Contender::linerate_by(pair, load)))
                .collect(),
            metrics: vec![GIGABITS],
            targets: Vec::new(),
            look: Look::default(),
            on_demand: true,
        }
    };
    let udp = |octets| Load::Udp { octets, rate_bps: None };
    vec![
        work("apis-tcp", "one TCP stream", &TCP_SENDERS, &TCP_RECEIVERS, Load::Tcp),
        work("apis-udp-1470", "UDP, 1470 bytes a datagram", &UDP_SENDERS, &UDP_RECEIVERS, udp(1470)),
        work("apis-udp-64", "UDP, 64 bytes a datagram", &UDP_SENDERS, &UDP_RECEIVERS, udp(64)),
    ]
}
