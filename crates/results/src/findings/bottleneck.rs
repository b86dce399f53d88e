//! A queue stands between the two ends: something on the way is slower than both.
//! Knows the time budget and round trips; what stands there nobody at the ends can see.

use linerate_machine::end::Direction;
use linerate_trial::outcome::TcpSummary;
use linerate_trial::spec::Workload;

use super::case::{Case, Side, percent, tidy};
use super::lossy_path::permitted_bps;
use super::streams::{DeadFlows, UnevenFlows, UnevenSizes, is_above_a_rate, own_bursts};
use super::unaccounted::{Missing, Pattern};
use super::{Finding, Rule, Sureness};
use crate::time_budget::Limit;

/// From this share of the time on.
const SHARE: f64 = 0.3;
/// From this share on a queue was seen at all.
const SEEN: f64 = 0.1;
/// So many seconds of what was sent wait at the end, or more.
const LEAST_LATE_S: f64 = 0.15;
/// Up to this share of its time a receiving thread may work, or wait for a CPU, and still be said to have time left.
const MOST_BUSY: f64 = 0.5;

/// At this loss and above a window is of some eight segments (Mathis), which fill no queue.
const STEADY_LOSS: f64 = 0.02;
/// What brings nothing for this share of the time is not busy.
const SILENT: f64 = 0.4;
/// No queue that a stream of TCP fills by itself loses so much of it.
const MORE_THAN_A_QUEUE_LOSES: f64 = 0.2;
/// As far as a window is known that loss makes.
const TWICE: f64 = 2.0;

pub(super) const RULE: Rule = Rule {
    name: "bottleneck",
    says: "A queue stands between the two ends: a slower link, a shaper or a busy switch on the way limits, not the ends.",
    rests_on: "The time budget's line path with at least 30 % of the time: round trips took 1.5 times the shortest and 1 ms more, \
               while nothing stood at the sender's egress and both ends had CPU time left; in the machine in the middle (--middle), or where the receiver takes packets in (an ifb), a discipline that keeps to a \
               rate and held packets back (overlimits) is named. Not where most time slices with such round trips had less than 70 % of the best slice's throughput and delivery rate, nor where loss kept the window small: of one stream that \
               loses segments, round trips count where 70 % of the delivery rate arrives and two segments and a half wait; of both ways at once, \
               not where nothing came through for 40 % of the time, nor where 2 % were retransmitted, the window is as small as that makes it, and three times as much went the other way, nor where that one loses segments and this one none. Before lossy-path where it took 1.5 times as long as \
               what loss took, and behind it where a fifth was lost; a discipline of the middle's whose rate is known is named from 70 % of it on. Of datagrams: a loss between the two links, 70 % of all at least, whose runs are \
               shorter than chance makes, or of at least half of them while 75 % of the rest arrived at 0.6 to 1.6 times the mean distance. \
               Where loss began in mid-trial (loss-began), the share and the rate while it lasted, and whether that varied from slice to slice by \
               far less than chance makes (`steady`); of TCP the rate that its throughput fell to and kept \
               (rate-changed). Or none is lost, and they were read more than 5 % slower than they were sent, by a receiver that had half of its \
               time left. The rate is that of the time in which something arrived. What drops each of so many \
               looks the same at one rate, and is named too where the share is one of a whole number. Of several streams together at least \
               30 % lost, none of them spared, and no slice far from the mean, as far as slices tell. Possible, of a rate that was asked: round trips \
               that are long while little comes through.",
    source: "RFC 6349, section 3.2 (bottleneck bandwidth, buffer delay); tcp_info's rtt and min_rtt.",
    suggests: &["qdisc"],
    find,
};

/// Datagrams that vanish between the ends as a limit of rate has it: more is offered than passes.
fn find_datagrams(case: &Case<'_>) -> Option<Finding> {
    let missing = Missing::of(case).filter(Missing::is_between).filter(|_| DeadFlows::of(case).is_none())?;
    let pattern = missing.pattern(case).filter(|_| own_bursts(case).is_none() && UnevenSizes::of(case).is_none())?;
    // Of several streams each alone has no pattern: what passes of all together does not change.
    let together = is_above_a_rate(case, missing.loss.ratio);
    if !pattern.is_of_a_rate() && !together {
        return None;
    }
    let from = case.loss_from();
    let mbit = from.as_ref().map(|from| from.bps).or(case.passing_bps())? / 1e6;
    // Of one rate nobody can tell a limit from what counts.
    let or = match pattern {
        _ if together => format!(", or something there drops {}, whatever the rate", percent(missing.loss.ratio)),
        Pattern::Regular(Some(of)) => format!(", or something there {}, whatever the rate", of.drops()),
        _ => String::new(),
    };
    // Of a limit that came, and perhaps went, the evidence has the times.
    let part = if from.is_some() { "for a part of the trial " } else { "" };
    let sentence =
        format!("A limit of rate {} {part}drops what is above about {} Mbit/s{or}.", missing.links, tidy(mbit));
    Some(
        RULE.finds(case, None, Sureness::Likely, missing.part, sentence)
            .because_of(missing.evidence(case))
            .because_of((!together).then(|| pattern.clause()))
            .because_of(UnevenFlows::of(case).map(|uneven| uneven.clause()))
            .because_of(from.map(|from| from.clause()))
            .wrong_if("It is wrong if as large a share is lost at half the rate: then it is no limit of rate."),
    )
}

/// Datagrams that wait on the way and are not lost: its queue is deep.
fn find_waiting(case: &Case<'_>) -> Option<Finding> {
    let (share, late) = case.read_late()?;
    // What jitter alone keeps from arriving in time is not this much.
    if share * case.span_s()? < LEAST_LATE_S {
        return None;
    }
    let busy = |side: Side<'_>| side.thread_shares(case).map_or(0.0, |(worked, waited)| worked + waited);
    // A receiver that reads slowly, and a shaper of the sender's own, are other rules'.
    if busy(case.receiver) >= MOST_BUSY || case.sender.held_at_egress().is_some_and(|(_, share)| share >= SEEN) {
        return None;
    }
    let mbit = case.passing_bps()? / 1e6;
    let holder = Holder::of(case);
    let sentence = format!(
        "{} limits: about {} Mbit/s pass it, and what is above waits there and comes late.",
        place(case, holder),
        tidy(mbit)
    );
    let finding = RULE
        .finds(case, None, Sureness::Likely, 0.8, sentence)
        .because(late)
        .because(format!("nothing was lost, and the {} had CPU time left", case.receiver.end))
        .wrong_if("It is wrong if as little arrives in time at half the rate: then it is no limit of rate.");
    Some(held_by(case, finding, holder).explains(&["host-limits", "sender-cpu"]))
}

/// What holds packets back on the way and tells so: the interface, its discipline, and how often it did.
#[derive(Clone, Copy)]
enum Holder<'a> {
    /// At the machine in the middle, where it sends towards the receiver.
    Middle(&'a str, &'a str, u64),
    /// At the receiver, where packets are redirected to on their way in.
    Receiver(&'a str, &'a str, u64),
}

impl<'a> Holder<'a> {
    fn of(case: &Case<'a>) -> Option<Holder<'a>> {
        let at_middle = case.held_in_middle().map(|(interface, kind, held)| Holder::Middle(interface, kind, held));
        let at_receiver =
            || case.receiver.held_at_ingress().map(|(interface, kind, held)| Holder::Receiver(interface, kind, held));
        at_middle.or_else(at_receiver)
    }
}

/// What limits, as far as a machine tells that it does.
fn place(case: &Case<'_>, holder: Option<Holder<'_>>) -> String {
    match holder {
        Some(Holder::Middle(interface, kind, _)) => format!("The middle's {kind} at {interface} keeps to a rate and"),
        Some(Holder::Receiver(interface, kind, _)) => {
            format!(
                "The {}'s {kind} at {interface}, by which it takes packets in, keeps to a rate and",
                case.receiver.end
            )
        }
        None if case.passes_elsewhere(case.sender.end) => format!(
            "A slower link or a shaper between the two ends, or a shaper of the interface by which the {} sends (another one than \
             its address's: ip route get),",
            case.sender.end
        ),
        None => "A slower link or a shaper between the two ends".to_owned(),
    }
}

fn held_by(case: &Case<'_>, finding: Finding, holder: Option<Holder<'_>>) -> Finding {
    let Some(Holder::Middle(.., held) | Holder::Receiver(.., held)) = holder else { return finding };
    let finding = finding.because(format!("it held a packet back {held} times"));
    match holder {
        Some(Holder::Middle(..)) => finding.on_middle().attempt("middle.qdisc", "default", case.metric()),
        _ => finding.on(case.receiver.end),
    }
}

/// Whether the queue in the round trips, which are both ways', is the other one's as likely. Many times as much went that way, while
/// segments are lost here all the time, and the window is as small as that makes it. Or nothing came through here for much of the time:
/// behind a queue that stands something is busy. Or that one runs over, or is a shaper of the receiver's own, and nothing is lost here, where
/// acknowledgements wait in it.
fn is_other_ways_queue(case: &Case<'_>) -> bool {
    if case.record.direction != Direction::Both {
        return false;
    }
    let runs_over = |other: &Case<'_>| other.way != case.way && !other.loses_no_segments();
    let is_shaped = || case.receiver.held_at_egress().is_some_and(|(_, share)| share >= SEEN);
    let is_whole = case.loses_no_segments() && case.held_in_middle().is_none();
    if is_whole && (is_shaped() || Case::of(case.record).iter().any(runs_over)) {
        return true;
    }
    let is_small = |tcp: &TcpSummary, this: f64| {
        let ratio = tcp.needed_retransmissions() as f64 / tcp.segments_sent.unwrap_or(0).max(1) as f64;
        ratio >= STEADY_LOSS && permitted_bps(tcp, ratio).is_some_and(|permitted| this <= TWICE * permitted)
    };
    let small = || case.tcp().zip(case.throughput_bps()).is_some_and(|(tcp, this)| is_small(tcp, this));
    case.silent_share() >= SILENT || (case.carries_little() && small())
}

fn trips(tcp: &TcpSummary) -> Option<String> {
    let (last, least) = tcp.rtt_s.zip(tcp.min_rtt_s)?;
    Some(format!("a round trip took {} ms at last, and {} ms at least", tidy(last * 1e3), tidy(least * 1e3)))
}

/// Round trips that are long while little comes through: no queue of data, which would be busy.
fn find_varying(case: &Case<'_>, tcp: &TcpSummary, queued: f64) -> Finding {
    let sentence = "Round trips are long, and nothing shows a queue that the data keeps busy: acknowledgements wait on their way back, or the \
                    delay of the way varies."
        .to_owned();
    RULE.finds(case, None, Sureness::Possible, queued, sentence)
        .of_kind("varying")
        .because(format!("round trips were far longer than the shortest {} of the time", percent(queued)))
        .because_of(trips(tcp))
        .wrong_if("It is wrong if udp-stream at this rate arrives late too, the other way as well as this one.")
}

fn find(case: &Case<'_>) -> Option<Finding> {
    if !case.is(Workload::TcpStream) {
        return find_datagrams(case).or_else(|| find_waiting(case));
    }
    let queued = case.share_of(&[Limit::Path]);
    // BBR empties the queue that it finds, and keeps to the rate that it found.
    let share = queued + if queued >= SEEN { case.share_of(&[Limit::Pacing]) } else { 0.0 };
    let of_cpu = [Limit::SenderCpu, Limit::SenderCpuWait, Limit::ReceiverCpu, Limit::ReceiverCpuWait];
    let slowed = case.slowed();
    // Where throughput fell and stayed so, the rate that was asked limited before.
    let is_other = |limit: Limit| match limit {
        Limit::Path | Limit::Pacing | Limit::Unaccounted => false,
        Limit::AskedRate => slowed.is_none(),
        _ => true,
    };
    let others = case.time().filter(|line| is_other(line.limit));
    let largest = others.map(|line| line.share).fold(0.0, f64::max);
    if share < SHARE || share < case.share_of(&of_cpu) || share < largest {
        return None;
    }
    if is_other_ways_queue(case) {
        return None;
    }
    // A way whose packets take now this long and now that has no queue that stands.
    let short = case.short()?;
    let tcp = case.tcp()?;
    if slowed.is_none() && case.passes_less_when_queued() {
        return (!case.is_unlimited()).then(|| find_varying(case, tcp, queued).because(short));
    }
    let mbit = slowed.as_ref().map(|(_, bps)| *bps).or(case.busy_bps())? / 1e6;
    let holder = Holder::of(case);
    let sentence = format!("{} limits: about {} Mbit/s pass it.", place(case, holder), tidy(mbit));
    // What drops nothing may hold back what acknowledges: a round trip is both ways'.
    let is_full = case.retransmitted().is_some() || holder.is_some() || case.record.direction == Direction::Both;
    let may_be_back = (!is_full).then(|| {
        "next to nothing was lost: the queue may be on the way back as well, where acknowledgements wait".to_owned()
    });
    // Of a stream that loses so much, TCP's timer makes round trips long as well.
    let is_of_timer = case.lost_share() >= MORE_THAN_A_QUEUE_LOSES && holder.is_none();
    let weight = share * if is_of_timer { 0.4 } else { 0.8 };
    let finding = RULE.finds(case, None, Sureness::Likely, weight, sentence);
    Some(
        held_by(case, finding, holder)
            .because(format!("a queue stood on the way {} of the time", percent(queued)))
            .because_of(slowed.map(|(clause, _)| clause))
            .because_of(trips(tcp))
            .because_of(may_be_back)
            .because(short)
            .wrong_if("It is wrong if round trips are as long without any traffic, or as much comes through several ways at once.")
            .explains(&["send-buffer", "receive-window", "host-limits", "sender-cpu"])
            .explains(if case.outlasts_loss(share) && !is_of_timer { &["lossy-path", "unaccounted"] } else { &[] }),
    )
}

#[cfg(test)]
mod tests {
    use linerate_machine::end::{End, Party};
    use linerate_path::stage::Stage;

    use super::super::{cases, findings};
    use super::*;
    use crate::record::{Counted, Losses};
    use crate::time_budget::TimeLine;

    #[test]
    fn what_loses_a_fifth_of_a_stream_comes_before_the_queue_that_its_timer_looks_like() {
        let all = cases::cases();
        let record = &all.iter().find(|case| case.name == "one segment of fifty lost on the way").unwrap().record;
        let first = |lost: u64| {
            let mut record = record.clone();
            let tcp = record.result.as_mut().unwrap().flow.tcp.as_mut().unwrap();
            let sent = tcp.segments_sent.unwrap();
            (tcp.retransmissions, tcp.segments_lost) = (sent / lost, Some(sent / lost));
            (tcp.rtt_s, tcp.min_rtt_s) = (Some(9e-3), Some(1e-3));
            let (direction, of, arrived) = (record.direction, Counted::Segments, sent - sent / lost);
            record.losses = vec![Losses { direction, of, sent, arrived, unaccounted: (sent / lost) as i64 }];
            (record.loss_budget, record.unaccounted) = (Some(Vec::new()), Some((sent / lost) as i64));
            let line = TimeLine { direction, limit: Limit::Path, end: None, seconds: 1.8, share: 0.9 };
            record.time_budget = vec![line];
            findings(&record).into_iter().find(|one| [RULE.name, "lossy-path"].contains(&one.name)).map(|one| one.name)
        };
        assert_eq!((first(50), first(4)), (Some(RULE.name), Some("lossy-path")));
    }

    #[test]
    fn long_round_trips_without_a_busy_queue_are_told_where_a_rate_was_asked() {
        let all = cases::cases();
        let name = "a way whose packets take now this long and now that";
        let mut record = all.iter().find(|case| case.name == name).unwrap().record.clone();
        assert_eq!(findings(&record), []);
        record.asked.insert("rate".to_owned(), "10G".to_owned());
        let told: Vec<_> = findings(&record).into_iter().map(|one| (one.name, one.kind, one.sure)).collect();
        assert_eq!(told, [(RULE.name, Some("varying"), Sureness::Possible)]);
    }

    #[test]
    fn a_discipline_by_which_the_receiver_takes_packets_in_is_named() {
        let all = cases::cases();
        let name = "a shaper by which the receiver takes packets in";
        let record = &all.iter().find(|case| case.name == name).unwrap().record;
        let told = |field: &str| {
            let mut record = record.clone();
            record.host.counters.0.remove(&Stage::DriverRxRing);
            record.host.counters.add(Stage::DriverRxRing, field, 10_029);
            findings(&record)
                .into_iter()
                .find(|one| one.name == RULE.name)
                .map(|one| (one.machine, one.sentence))
                .unwrap()
        };
        let (machine, sentence) = told("ifb0 tbf overlimits");
        assert_eq!(machine, Some(Party::from(End::Host)));
        assert!(
            sentence.starts_with("The host's tbf at ifb0, by which it takes packets in, keeps to a rate"),
            "{sentence}"
        );
        // What keeps to no rate holds nothing back.
        let (machine, sentence) = told("eth0 ingress overlimits");
        assert!(machine.is_none() && sentence.starts_with("A slower link or a shaper between"), "{sentence}");
    }
}
