//! The way marks segments as congested instead of losing them, and TCP slows down for each mark.
//! Knows both ends' counts of marks, and how fast TCP can go at such a share of them.

use linerate_trial::spec::Workload;

use super::case::{Case, FEW, percent, tidy};
use super::lossy_path::{ABOUT, permitted_bps};
use super::{Finding, Rule, Sureness};

/// From this share of the segments on.
const MARKED: f64 = 0.001;

pub(super) const RULE: Rule = Rule {
    name: "congestion-marks",
    says: "A queue on the way marks segments as congested (ECN) instead of losing them; TCP goes no faster than such marks permit.",
    rests_on: "TCP that came short: at least 0.1 % of its segments, and 10, arrived marked, by the receiver's IpExt and Ip6 InCEPkts, or \
               the sender's TcpExt TCPDeliveredCE; and no more than three times came through of what a loss of that share permits, for TCP answers a \
               mark as it answers a loss. Not for BBR, which goes by rate.",
    source: "RFC 3168, sections 5 and 6.1.2 (congestion experienced; the sender's response).",
    suggests: &["sysctl.net.ipv4.tcp_ecn"],
    find,
};

fn find(case: &Case<'_>) -> Option<Finding> {
    if !case.is(Workload::TcpStream) {
        return None;
    }
    let (short, tcp) = (case.short()?, case.tcp()?);
    let (sender, receiver) = (case.sender, case.receiver);
    // A sender takes all for marked that is acknowledged until it has answered a mark (RFC 3168, section 6.1.3).
    let (marked, end, counter) = match receiver.of_ip("InCEPkts") {
        0 => (sender.counter("TcpExt TCPDeliveredCE").unwrap_or(0), sender.end, "TcpExt TCPDeliveredCE"),
        marked => (marked, receiver.end, "InCEPkts"),
    };
    let sent = case.losses().map(|losses| losses.sent).or(tcp.segments_sent)?;
    let share = (marked as f64 / sent.max(1) as f64).min(1.0);
    let permitted = permitted_bps(tcp, share)? * case.streams();
    let got = case.throughput_bps()?;
    if marked < FEW || share < MARKED || got > permitted * ABOUT {
        return None;
    }
    let sentence = "A queue on the way marks segments as congested (ECN), and TCP slows down for it.".to_owned();
    let kind = tcp.congestion_control.as_deref().unwrap_or("TCP");
    Some(
        RULE.finds(case, None, Sureness::Likely, 0.9, sentence)
            .because(format!("{marked} of {sent} segments were marked, {} ({end}: {counter})", percent(share)))
            .because_of(tcp.rtt_s.map(|rtt_s| {
                format!(
                    "{kind} reaches about {} Mbit/s with so many marks and a round trip of {} ms, and {} came through",
                    tidy(permitted / 1e6),
                    tidy(rtt_s * 1e3),
                    tidy(got / 1e6)
                )
            }))
            .because(short)
            .attempt(sender.setting("sysctl.net.ipv4.tcp_ecn"), "0", "throughput")
            .wrong_if(
                "It is wrong if as little comes through without ECN (net.ipv4.tcp_ecn=0) and nothing is lost then.",
            )
            .explains(&[
                "bottleneck",
                "sender-cpu",
                "receiver-cpu",
                "application-limited",
                "host-limits",
                "send-buffer",
                "segmentation",
            ]),
    )
}
