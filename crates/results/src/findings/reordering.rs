//! TCP retransmits what was not lost: packets overtake each other.
//! Knows TCP's counters at both ends.

use linerate_trial::spec::Workload;

use super::case::{Case, percent};
use super::words::were;
use super::{Finding, Rule, Sureness};
use crate::time_budget::Limit;

pub(super) const RULE: Rule = Rule {
    name: "reordering",
    says: "Packets overtake each other; TCP sends segments again that were not lost.",
    rests_on: "Datagrams: at least 0.1 % of those that arrived, and 10, came after one with a higher number. TCP: at least 0.1 % of the segments retransmitted; no counter of either machine saw a tenth as many dropped; and the \
               receiver said that it had at least half of them twice (DSACK), or saw at least as many out of order. Not \
               where fewer than 1 % were retransmitted, and that took under 10 % of the time while CPUs limited the stream for 70 % of it, \
               or all of the sender's were busy 90 %, or fewer than 0.2 % were retransmitted; nor then, whatever it took, where both ends share \
               a machine and CPUs can have been the limit.",
    source: "RFC 2883 (DSACK), RFC 4737 (reordering); Linux TcpExt TCPDSACKRecv, TCPSACKReorder.",
    suggests: &["sysctl.net.ipv4.tcp_reordering"],
    find,
};

/// From this share of a stream's time on nothing else limits it.
const MOSTLY: f64 = 0.7;
/// A machine without idle time moves threads, and with them packets of one stream, from CPU to CPU.
const BUSY: f64 = 0.9;
/// A few segments of a hundred, and this much of the time, of a stream that CPUs kept from going faster: it would not be faster
/// without.
const FEW: f64 = 0.01;
const LITTLE_TIME: f64 = 0.1;
/// Of a stream that it took no more of the time either, a segment or two of a thousand are nothing, whatever limits it.
const NEXT_TO_NOTHING: f64 = 0.002;

/// Where so large a part of the segments comes out of order, and none is lost, what holds them back is no queue.
const OF_MANY: f64 = 0.2;

/// Little was retransmitted, and CPUs had the stream's time, or were all busy, so that it took little time. Or both ends share a machine
/// whose CPUs can have been the limit: it moves their threads, and packets with them, all the time.
fn costs_nothing(case: &Case<'_>, retransmitted: f64) -> bool {
    let of_cpu = [Limit::SenderCpu, Limit::SenderCpuWait, Limit::ReceiverCpu, Limit::ReceiverCpuWait, Limit::Softirq];
    let all_busy = || case.sender.cpu().is_some_and(|cpu| cpu.machine.busy >= BUSY);
    let took_little = || {
        case.share_of(&[Limit::Reordering]) < LITTLE_TIME
            && (retransmitted < NEXT_TO_NOTHING || case.share_of(&of_cpu) >= MOSTLY || all_busy())
    };
    retransmitted < FEW && (case.shares_machine() && case.may_be_cpu() || took_little())
}

fn find(case: &Case<'_>) -> Option<Finding> {
    if let Some((late, share)) = case.overtaken() {
        let sentence = "Packets overtake each other on the way.".to_owned();
        let of_those = percent(share);
        // A segment is counted while an earlier one is missing: one that is late makes many of them.
        let clause = match case.is(Workload::TcpStream) {
            true => {
                format!("{late} segments, {of_those} of those that arrived, came while an earlier one was on its way")
            }
            false => format!("{late} datagrams, {of_those} of those that arrived, came after one with a higher number"),
        };
        return Some(RULE.finds(case, None, Sureness::Likely, 0.9, sentence).because(clause).wrong_if(
            "It is wrong if the receiver spreads one flow over several CPUs or queues: then it overtakes there.",
        ));
    }
    let share = case.retransmitted()?;
    let tcp = case.tcp()?;
    let again = tcp.retransmissions;
    let count = |name: &str| case.sender.counter(&format!("TcpExt {name}")).unwrap_or(0);
    let (twice, reorders) = (count("TCPDSACKRecv"), count("TCPSACKReorder").saturating_add(count("TCPTSReorder")));
    let out_of_order = tcp.reordered_segments.unwrap_or(0);
    // What follows a lost segment arrives out of order as well.
    let none_lost = tcp.segments_lost == Some(0);
    let shown = twice >= again.div_ceil(2) || (none_lost && out_of_order >= again && twice > 0);
    // By both ends' counts of segments most of what was retransmitted had been lost.
    let lost = tcp.segments_lost.is_some_and(|lost| lost >= again.div_ceil(2));
    if case.drops_seen() >= again.div_ceil(10) || !shown || lost || costs_nothing(case, share) {
        return None;
    }
    let tolerated = case.sender.sysctl_number("net.ipv4.tcp_reordering").unwrap_or(3);
    // A copy that the way made is reported as what arrived again, too.
    let sentence = match reorders > 0 || none_lost {
        true => "TCP retransmits what was not lost: packets overtake each other on the way.",
        false => {
            "The receiver had most of what TCP retransmitted: packets overtake each other on the way, or some are doubled there while \
             others are lost."
        }
    };
    let sentence = sentence.to_owned();
    // No queue overtakes: what makes a good part of the segments late makes round trips long as well.
    let arrived = case.losses().map_or(0, |losses| losses.arrived);
    let is_of_many = arrived > 0 && out_of_order as f64 >= OF_MANY * arrived as f64 && reorders > 0 && none_lost;
    Some(
        RULE.finds(case, None, Sureness::Likely, (twice as f64 / again as f64).clamp(0.5, 1.0), sentence)
            .because(format!("{} retransmitted, {} of all", were(again, "segment"), percent(share)))
            .because(format!(
                "{}: TcpExt TCPDSACKRecv {twice} (the receiver had them already), reordering seen {reorders} times",
                case.sender.end
            ))
            .because(format!("{out_of_order} segments reached the {} out of order", case.receiver.end))
            .because(format!("counters of both machines saw {} packets dropped", case.drops_seen()))
            .attempt(case.sender.setting("sysctl.net.ipv4.tcp_reordering"), (tolerated * 10).to_string(), "throughput")
            .wrong_if("It is wrong if udp-stream at this rate shows lost datagrams and none reordered.")
            .explains(if is_of_many { &["bottleneck"] } else { &[] }),
    )
}

#[cfg(test)]
mod tests {
    use linerate_machine::end::Direction;

    use super::super::{cases, findings};
    use super::*;
    use crate::record::{Counted, Losses};
    use crate::time_budget::TimeLine;

    #[test]
    fn what_makes_most_segments_late_comes_before_the_queue_that_it_looks_like() {
        let all = cases::cases();
        let record = &all.iter().find(|case| case.name == "packets overtake each other").unwrap().record;
        let first = |out_of_order: u64| {
            let mut record = record.clone();
            let line = TimeLine { direction: Direction::Tx, limit: Limit::Path, end: None, seconds: 1.9, share: 0.98 };
            record.time_budget = vec![line];
            record.losses = vec![Losses {
                direction: Direction::Tx,
                of: Counted::Segments,
                sent: 100_000,
                arrived: 100_000,
                unaccounted: 0,
            }];
            let tcp = record.result.as_mut().unwrap().flow.tcp.as_mut().unwrap();
            (tcp.retransmissions, tcp.segments_lost, tcp.reordered_segments) = (4_500, Some(0), Some(out_of_order));
            (tcp.rtt_s, tcp.min_rtt_s) = (Some(4.5e-3), Some(1e-3));
            findings(&record).into_iter().map(|one| one.name).collect::<Vec<_>>()
        };
        assert_eq!(first(70_000)[..2], [RULE.name, "bottleneck"]);
        assert_eq!(first(3_000)[..2], ["bottleneck", RULE.name]);
    }
}
