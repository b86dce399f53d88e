//! The way drops what says that it may be marked: data of a connection with ECN does not pass, and what TCP retransmits does.
//! Knows the connection's options, and how the receiver's IP counts what arrived by that field.

use linerate_trial::spec::Workload;

use super::case::{Case, percent, tidy};
use super::{Finding, Rule, Sureness};
use crate::total::Total;

/// Whether to ask for it, and to agree to it (linux Documentation/networking/ip-sysctl.rst).
const TCP_ECN: &str = "net.ipv4.tcp_ecn";
/// Each segment is sent twice: once so that it is dropped, once so that it passes.
const AGAIN: f64 = 0.2;

pub(super) const RULE: Rule = Rule {
    name: "ecn-dropped",
    says: "Something on the way drops the packets that say that they may be marked (ECN-capable): data does not pass until TCP \
           retransmits it.",
    rests_on: "A TCP connection with ECN (tcpi_options), of whose segments at least a fifth were retransmitted, and whose receiver counted \
               packets that are not ECN-capable (IpExt or Ip6 InNoECTPkts), and none that are (InECT0Pkts, InECT1Pkts, InCEPkts).",
    source: "RFC 3168, sections 5, 6.1.5 (retransmitted segments are not ECN-capable) and 18.",
    suggests: &["sysctl.net.ipv4.tcp_ecn"],
    find,
};

fn find(case: &Case<'_>) -> Option<Finding> {
    let (sent, again) = match case.tcp() {
        Some(tcp) => (tcp.segments_sent.filter(|_| tcp.ecn == Some(true))?, tcp.retransmissions),
        // Of many short connections there are the machines' counts alone; who asks for ECN agrees to it, and so does who is usual.
        None => {
            let asks = case.sides().into_iter().any(|side| side.sysctl(TCP_ECN) == Some("1"));
            let agrees = case.sides().into_iter().all(|side| side.sysctl(TCP_ECN).is_some_and(|value| value != "0"));
            let sent = case.sides().into_iter().filter_map(|side| side.counter("Tcp OutSegs")).total();
            (Some(sent).filter(|_| case.is(Workload::TcpCrr) && asks && agrees)?, case.retransmitted_by_any())
        }
    };
    let again = again as f64 / sent.max(1) as f64;
    let is_capable = ["InECT0Pkts", "InECT1Pkts", "InCEPkts"].into_iter().any(|field| case.receiver.of_ip(field) > 0);
    let others = case.receiver.of_ip("InNoECTPkts");
    if again < AGAIN || is_capable || others == 0 {
        return None;
    }
    let (sender, receiver) = (case.sender.end, case.receiver.end);
    let sentence = format!(
        "Something between the two ends drops what is ECN-capable: of what the {sender} sends nothing arrives until TCP retransmits it, \
         which it does without that mark."
    );
    Some(
        RULE.finds(case, None, Sureness::Likely, 0.97, sentence)
            .because(format!(
                "the connection has ECN, and of what the {receiver} received {others} packets were not ECN-capable, and none was"
            ))
            .because(format!("{} of the segments were retransmitted", percent(again.min(1.0))))
            .because_of(case.short())
            .because_of(
                case.latency()
                    .and_then(|latency| latency.percentiles.get("p50"))
                    .map(|s| format!("half of the answers took {} ms or more", tidy(s * 1e3))),
            )
            .attempt(case.sender.setting(&format!("sysctl.{TCP_ECN}")), "0", case.metric())
            .wrong_if("It is wrong if as much is retransmitted without ECN (net.ipv4.tcp_ecn=0).")
            .explains(&[
                "acknowledgements",
                "bottleneck",
                "lossy-path",
                "outage",
                "flow-died",
                "dead-flows",
                "retransmission-timeout",
                "unaccounted",
                "no-sack",
            ]),
    )
}
