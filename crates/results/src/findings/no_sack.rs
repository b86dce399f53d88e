//! TCP repairs losses without selective acknowledgements.
//! Knows the connection's options; who took them off its SYNs nobody at the ends sees.

use linerate_trial::spec::Workload;

use super::case::{Case, percent, tidy};
use super::lossy_path::is_as_permitted;
use super::{Finding, Rule, Sureness};

/// Whether to offer it (linux Documentation/networking/ip-sysctl.rst).
const TCP_SACK: &str = "net.ipv4.tcp_sack";

/// From this share of its segments on TCP goes slowly with SACK, too.
const MUCH: f64 = 0.1;

pub(super) const RULE: Rule = Rule {
    name: "no-sack",
    says: "TCP acknowledges without saying which segments it has: of what is lost in a window it repairs one segment a round trip, or waits \
           for its timer.",
    rests_on: "A TCP stream that came short, of whose segments at least 0.1 % were retransmitted, on a connection without SACK \
               (tcpi_options). Behind lossy-path where about as much came through as such a loss permits with SACK, or 10 % were retransmitted, \
               which no SACK makes good.",
    source: "RFC 2018 (selective acknowledgements), section 1; RFC 6675.",
    suggests: &["sysctl.net.ipv4.tcp_sack"],
    find,
};

fn find(case: &Case<'_>) -> Option<Finding> {
    let tcp = case.tcp().filter(|tcp| case.is(Workload::TcpStream) && tcp.sack == Some(false))?;
    let (share, short) = (case.retransmitted()?, case.short()?);
    let off = case.sides().into_iter().find(|side| side.sysctl(TCP_SACK) == Some("0"));
    let (machine, who) = match off {
        Some(side) => (Some(side.end), format!("the {} does not offer it ({TCP_SACK} is 0)", side.end)),
        None => (None, "both ends offer it, so something on the way takes it off their SYNs".to_owned()),
    };
    let sentence = format!("TCP repairs what is lost without selective acknowledgements (SACK): {who}.");
    // The loss is the cause then, and without SACK it costs more.
    let is_of_loss = share >= MUCH || is_as_permitted(case);
    let (weight, explains): (f64, &'static [&'static str]) =
        if is_of_loss { (0.7, &[]) } else { (0.9, &["lossy-path"]) };
    let finding = RULE
        .finds(case, machine, Sureness::Likely, weight, sentence)
        .because(format!("{} of the segments were retransmitted", percent(share)))
        .because_of(tcp.rtt_s.map(|rtt_s| format!("each costs a round trip of {} ms, or more", tidy(rtt_s * 1e3))))
        .because(short)
        .wrong_if("It is wrong if as little comes through by another way with SACK and as many losses.")
        .explains(explains)
        .explains(&["bottleneck", "outage", "unaccounted"]);
    Some(match off {
        Some(side) => finding.attempt(side.setting(&format!("sysctl.{TCP_SACK}")), "1", "throughput"),
        None => finding,
    })
}
