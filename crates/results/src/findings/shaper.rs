//! A queueing discipline of the sender keeps to a rate, and that is what limits.
//! Knows the time budget, and the disciplines' names.

use linerate_machine::end::Direction;
use linerate_trial::doubt::{Doubted, SenderLimit};
use linerate_trial::spec::Workload;

use super::case::{Case, percent, tidy};
use super::refused::RefusedFrames;
use super::{Finding, Rule, Sureness};
use crate::time_budget::Limit;

/// From this share of the time on.
const SHARE: f64 = 0.3;
/// Or from this one, where no more is missing of what was to come through.
const PART: f64 = 0.1;
/// From this share of its packets on a discipline holds requests or answers back.
const HELD: f64 = 0.1;
/// A sender of datagrams that waits for room works no more than this part of the time.
const WORKED: f64 = 0.5;

pub(super) const RULE: Rule = Rule {
    name: "shaper",
    says: "A queueing discipline at the sender's egress keeps to a rate, and is what limits.",
    rests_on: "The time budget's line shaper with at least 30 % of the time, or 10 % and as much as is missing of what was to come \
               through: frames stood in a discipline that keeps to a rate, or \
               it held them back (overlimits) and let out 60 % of its rate, where that is known and TCP loses segments, or of a stream of frames it refused many, which the sender tried again. Of requests: at least 30 % of the time in queues, and at an end a discipline that keeps \
               to a rate and held back at least 10 % of its packets. Or datagrams of which none was lost, and fewer were sent than asked, for the sender waited \
               for room in its socket (sender-fell-behind, no-room; the time budget's line qdisc as long) and worked half of the time at most: then \
               what keeps to a rate is not where it was looked for.",
    source: "tc(8), tc-tbf(8); Linux struct gnet_stats_queue (linux/gen_stats.h).",
    suggests: &["qdisc"],
    find,
};

/// Of requests: either end's shaper, that of the answers too.
fn find_of_requests(case: &Case<'_>) -> Option<Finding> {
    let (_, queued) = case.queued().filter(|(_, share)| *share >= SHARE && !case.record.workload.is_stream())?;
    let held = case.sides().into_iter().filter_map(|side| Some((side, side.held_at_egress()?)));
    let (side, (kind, share)) = held.max_by(|a, b| a.1.1.total_cmp(&b.1.1)).filter(|(_, (_, share))| *share >= HELD)?;
    let what = if side.end == case.sender.end { "requests" } else { "answers" };
    let sentence = format!("A shaper at the {}'s own egress holds {what} back.", side.end);
    Some(
        RULE.finds(case, Some(side.end), Sureness::Likely, queued, sentence)
            .because(format!("{kind} held a packet back {} times for each that it sent", tidy(share)))
            .because(format!("queues and slow wake-ups took {} of the transactions' time", percent(queued)))
            .because_of(case.seldom())
            .attempt(side.setting("qdisc"), "default", "latency_p50")
            .wrong_if("It is wrong if answers take as long without it.")
            .explains(&["slow-answers", "idle-states", "coalescing-latency"]),
    )
}

/// Of frames that it refuses the sender has each again, and its thread never waits.
fn find_refused(case: &Case<'_>) -> Option<Finding> {
    let refused = RefusedFrames::of(case).filter(|refused| refused.by_qdisc > refused.by_link)?;
    let side = case.sender;
    let (kind, held) = side.held_at_egress()?;
    let short = case.short()?;
    let sentence = format!("A shaper at the {}'s own egress limits.", side.end);
    Some(
        RULE.finds(case, Some(side.end), Sureness::Likely, refused.ratio() * 0.9, sentence)
            .because(refused.clause())
            .because(format!("{kind} held a packet back {} times for each that it sent", tidy(held)))
            .because(short)
            .attempt(side.setting("qdisc"), "default", "throughput")
            .wrong_if("It is wrong if no more comes through without it.")
            .explains(&["host-limits", "sender-starved", "application-limited", "bottleneck"]),
    )
}

/// A sender of datagrams that waits for room in its socket, where no discipline of the interface that is looked at keeps to a rate: what
/// took no more is below it, or at another one.
fn find_no_room(case: &Case<'_>) -> Option<Finding> {
    let worked = case.record.doubts.iter().find_map(|doubt| match &doubt.what {
        Doubted::SenderFellBehind { held_up: Some(SenderLimit::NoRoom { worked, shaper: None }), .. } => Some(*worked),
        _ => None,
    });
    // Of a thread that works more, by a clock that counts ticks, nobody knows whether it had time left.
    let worked = worked.filter(|worked| {
        *worked <= WORKED && case.is(Workload::UdpStream) && case.record.direction != Direction::Both
    })?;
    let waited = Some(case.share_of(&[Limit::Qdisc])).filter(|waited| is_what_is_missing(case, *waited))?;
    let (short, sent) = (case.short().filter(|_| case.loss().is_none())?, case.flow()?.achieved_load_bps?);
    let (end, mbit) = (case.sender.end, tidy(sent / 1e6));
    // A packet that waits in the same kernel is still in its sender's socket.
    let at_receiver = case.receiver.held_at_ingress().filter(|_| case.shares_machine());
    let place = match at_receiver {
        Some((interface, kind, _)) => {
            format!("the {}'s {kind} at {interface}, by which it takes packets in,", case.receiver.end)
        }
        None if case.passes_elsewhere(end) => {
            "the interface by which it sends, which is another one than its address's (ip route get),".to_owned()
        }
        None => "its interface, or one below that (the parent of a VLAN, a port of a bridge, a tunnel's),".to_owned(),
    };
    let machine = if at_receiver.is_some() { case.receiver.end } else { end };
    Some(
        RULE.finds(
            case,
            Some(machine),
            Sureness::Likely,
            case.missing_share().unwrap_or(0.5),
            format!("The {end}'s socket often has no room: {place} takes no more than about {mbit} Mbit/s."),
        )
        .because(short)
        .because(format!(
            "all that was sent arrived; the sending threads waited for room {} of the time, and worked {}",
            percent(waited),
            percent(worked)
        ))
        .wrong_if("It is wrong if no queueing discipline there keeps to a rate (tc qdisc), and its link carries more.")
        .explains(&["host-limits", "application-limited"]),
    )
}

/// Whether so much of the time is much, or explains all that did not come through.
fn is_what_is_missing(case: &Case<'_>, share: f64) -> bool {
    share >= SHARE || share >= PART && case.missing_share().is_some_and(|missing| share >= missing)
}

fn find(case: &Case<'_>) -> Option<Finding> {
    if let Some(finding) = find_refused(case).or_else(|| find_no_room(case)) {
        return Some(finding);
    }
    if !case.record.workload.is_stream() {
        return find_of_requests(case);
    }
    let line = case.time().find(|line| line.limit == Limit::Shaper && is_what_is_missing(case, line.share))?;
    let short = case.short()?;
    let side = case.sender;
    let nic = side.nic()?;
    let kinds = if nic.qdiscs.is_empty() { nic.qdisc.clone() } else { Some(nic.qdiscs.join(", ")) };
    let sentence = format!("A shaper at the {}'s own egress limits.", side.end);
    Some(
        RULE.finds(case, Some(side.end), Sureness::Likely, line.share * 0.85, sentence)
            .because(format!("frames waited in it {} of the time", percent(line.share)))
            .because_of(case.slowed().map(|(clause, _)| clause))
            .because_of(kinds.map(|kinds| format!("the discipline is {kinds}")))
            .because(short)
            .attempt(side.setting("qdisc"), "default", "throughput")
            .wrong_if("It is wrong if no more comes through without it.")
            .explains(&[
                "host-limits",
                "send-buffer",
                "receive-window",
                "application-limited",
                "sender-cpu",
                "bottleneck",
                "small-buffer",
            ])
            .explains(if case.outlasts_loss(line.share) { &["lossy-path"] } else { &[] })
            // Those of the other way wait in the same one.
            .explains(if case.record.direction == Direction::Both { &["acknowledgements"] } else { &[] }),
    )
}

#[cfg(test)]
mod tests {
    use super::super::{cases, findings};
    use super::*;
    use crate::record::Record;

    #[test]
    fn a_sender_that_works_or_keeps_its_rate_most_of_the_time_waits_for_no_room() {
        let name = "a shaper below the interface that is looked at";
        let of_case = cases::cases().into_iter().find(|case| case.name == name).unwrap().record;
        let is_told = |change: fn(&mut Record)| {
            let mut record = of_case.clone();
            change(&mut record);
            findings(&record).iter().any(|one| one.name == RULE.name)
        };
        assert!(is_told(|_| ()));
        assert!(!is_told(|record| record.time_budget[0].limit = Limit::AskedRate));
        assert!(!is_told(|record| record.time_budget[0].share = 0.12));
        assert!(!is_told(|record| {
            let Some(Doubted::SenderFellBehind { held_up: Some(SenderLimit::NoRoom { worked, .. }), .. }) =
                record.doubts.last_mut().map(|doubt| &mut doubt.what)
            else {
                panic!("{:?}", record.doubts)
            };
            *worked = 0.67;
        }));
    }
}
