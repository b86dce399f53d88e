//! Round trips over TCP that waited for the retransmission timer.
//! Knows the histogram of round trips, and both ends' segment counts.

use linerate_trial::spec::Workload;

use super::case::{Case, Side, percent, tidy};
use super::words::were;
use super::{Finding, Rule, Sureness};
use crate::total::Total;

/// Whether to ask for ECN (linux Documentation/networking/ip-sysctl.rst): 1, each SYN does.
const TCP_ECN: &str = "net.ipv4.tcp_ecn";

pub(super) const RULE: Rule = Rule {
    name: "retransmission-timeout",
    says: "Some round trips took as long as TCP waits before it sends a lost segment again, or SYN: a few losses, long waits.",
    rests_on: "Round trips of tcp-rr or tcp-crr of 0.2 s or more, and three times the shortest; likely with segments that were lost or \
               retransmitted, else possible; not where both machines tell that none was. A limit of connections where SYNs alone were retransmitted, four at least. Or each transaction of tcp-crr took a second or more, and as many SYNs were retransmitted.",
    source: "RFC 6298 (retransmission timer; 1 s for SYN); Linux TCP_RTO_MIN, 200 ms.",
    suggests: &["sysctl.net.ipv4.tcp_ecn"],
    find,
};

/// So many SYNs that were retransmitted, and nothing else, are no accident: a connection has six segments or so that would be.
const FEW_SYNS: u64 = 4;

/// Whether SYNs alone were retransmitted.
fn is_of_syns(syn: u64, again: u64) -> bool {
    syn >= FEW_SYNS && syn == again
}

/// Whether fewer packets reached either link than the other sent, and no counter of either machine saw any dropped.
fn is_between(case: &Case<'_>) -> bool {
    let missing = |from: Side<'_>, to: Side<'_>| Some(from.link_sent()?.saturating_sub(to.link_received()?));
    let (there, back) = (missing(case.sender, case.receiver), missing(case.receiver, case.sender));
    case.drops_seen() == 0 && there.max(back) > Some(0)
}

fn find(case: &Case<'_>) -> Option<Finding> {
    let waited = case.waited_for_timer()?;
    let (all, timed) = (waited.of(), waited.timed);
    let again = case.retransmitted_by_any();
    // An end that stood still is as slow, and sends nothing again.
    let slow = match waited.all() {
        slow if (1..slow).contains(&again) => format!("at most {again}"),
        slow => slow.to_string(),
    };
    let syn: u64 = case.sides().iter().filter_map(|side| side.counter("TcpExt TCPSynRetrans")).total();
    let lost: u64 = case.record.losses.iter().map(|losses| losses.lost()).total();
    let sure = if again.max(lost) > 0 { Sureness::Likely } else { Sureness::Possible };
    let what = if case.is(Workload::TcpCrr) && syn > 0 { "connections or answers" } else { "answers" };
    let ways: Vec<String> = case
        .record
        .losses
        .iter()
        .filter(|losses| losses.lost() > 0)
        .map(|losses| {
            let (from, to) = if losses.direction == linerate_machine::end::Direction::Tx {
                ("target", "host")
            } else {
                ("host", "target")
            };
            let verb = if losses.lost() == 1 { "was" } else { "were" };
            format!("{} of {} segments from the {from} to the {to} {verb} lost", losses.lost(), losses.sent)
        })
        .collect();
    let where_lost = if is_between(case) { "lost between the two ends" } else { "lost" };
    let each = case.waits_for_each_syn();
    let only_syns = case.is(Workload::TcpCrr) && is_of_syns(syn, again);
    let sentence = match each {
        false if only_syns => format!(
            "Only the first packets of connections (SYN) are {where_lost}, and {slow} of {all} connections waited until TCP sent them \
             again: something limits new connections, such as a packet filter or a full table of connections."
        ),
        true => format!(
            "The first SYN of each connection is {where_lost}, and the next one passes: something on the way goes by what the first \
             alone has, such as ECN, or by how many come at once."
        ),
        false => format!("Packets are {where_lost}, and {slow} of {all} {what} waited until TCP sent them again."),
    };
    let asker = case.sides().into_iter().max_by_key(|side| side.counter("TcpExt TCPSynRetrans"));
    let asks_for_ecn = asker.filter(|asker| each && asker.sysctl_number(TCP_ECN) == Some(1));
    let finding = RULE.finds(case, None, sure, 0.8, sentence);
    let finding = match asks_for_ecn {
        Some(asker) => finding.attempt(asker.setting(&format!("sysctl.{TCP_ECN}")), "0", "latency_p50"),
        None => finding,
    };
    Some(
        finding
            .because_of((timed > 0).then(|| {
                format!("{timed} round trips took 0.2 s or more, {} of them", percent(timed as f64 / all.max(1) as f64))
            }))
            .because_of(waited.is_left.then(|| "the last one still waited when the trial ended".to_owned()))
            .because_of(ways)
            .because(format!("{} retransmitted, {syn} of them SYN", were(again, "segment")))
            .because_of(
                case.latency()
                    .and_then(|latency| latency.max_s)
                    .filter(|_| timed > 0)
                    .map(|s| format!("the longest took {} ms", tidy(s * 1e3))),
            )
            .wrong_if("It is wrong if udp-rr loses no request at this rate.")
            .explains(&["idle-states", "coalescing-latency", "cpu-wait", "far-path"]),
    )
}
