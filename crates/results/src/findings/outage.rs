//! Nothing passed for a while, or from a moment on, though no link was down.
//! Knows events; a carrier that was lost is another rule.

use linerate_machine::end::End;
use linerate_path::budget::{DropCause, LossLine};
use linerate_path::stage::Stage;
use linerate_trial::event::{Event, EventKind};
use linerate_trial::spec::Workload;

use super::case::{Case, percent, tidy};
use super::neighbour_changed::begins_with;
use super::{Finding, Rule, Sureness};
use crate::events::MOST_OF_THEM;
use crate::outage::{died_with_link, is_link_changed};

pub(super) const RULE: Rule = Rule {
    name: "outage",
    says: "Nothing passed for a while, and then something did again: an outage on the way, or an end that stood still.",
    rests_on: "The event stall: no flow of a direction brought anything in mid-trial for at least 0.25 s, or 20 times what usually \
               passes between two messages (tcp-rr 0.5 s, udp-rr 1.2 s, tcp-crr 1.3 s: one lost request, or SYN, takes less; tcp-rr 0.25 s where all that was \
               retransmitted, twice or more, was so in one wait), though its threads had a CPU and no carrier changed. Where counters name most of what TCP lost, or it lost as \
               much at other times, or the silence was of three round trips or fewer, it is its timer's, and comes behind; of udp-rr it is none where so many time-outs in a row are no \
               accident (0.02 of them or more to be expected) at the loss outside of it. Likely: that it stood still is seen, and why only where \
               other events lie beside it: a route to the other end, or an address, that changed as it began (to 0.15 s and a slice) is named.",
    source: "RFC 2680, section 2.5 (loss in periods of outage).",
    suggests: &[],
    find,
};

pub(super) const DIED: Rule = Rule {
    name: "flow-died",
    says: "A flow brought nothing any more from a moment on: the way went, or the program at one end did.",
    rests_on: "The event flow-died: nothing arrived of it before the trial's end for at least 0.4 s (tcp-rr 0.8 s, udp-rr 1.2 s, \
               tcp-crr 1.5 s), 5 % of the trial, and as long as a stall takes at least, though its threads had a CPU. Where most of what TCP lost was lost before, or round trips waited \
               for its timer and came to their end, the silence may be its timer's, and comes behind.",
    source: "RFC 2680, section 2.5.",
    suggests: &[],
    find: find_died,
};

/// What else happened at about this time.
fn near(case: &Case<'_>, at_s: f64) -> Vec<String> {
    let others = case.events().filter(|event| {
        !matches!(event.what, EventKind::Stall { .. } | EventKind::FlowDied { .. }) && (event.at_s - at_s).abs() <= 1.0
    });
    let said = |event: &Event| {
        let whose = event.end.map_or(String::new(), |end| format!("{end}: "));
        format!("{whose}{} at {} s", event.what, tidy(event.at_s))
    };
    others.map(said).take(4).collect()
}

/// A route to the other end, or an address, that changed as a silence began: at which end, and a clause.
fn change_at(case: &Case<'_>, at_s: f64) -> Option<(End, String)> {
    let event = case.way_changes().find(|event| begins_with(event, at_s))?;
    let end = event.end?;
    Some((end, format!(", when at the {end} {}", event.what)))
}

/// Whether counters name where most of TCP's segments were lost: its timer then makes a silence of its own, in which no more is
/// sent than is lost again.
fn counted_elsewhere(case: &Case<'_>) -> bool {
    (case.is(Workload::TcpStream) || case.is(Workload::TcpRr))
        && case.missing().is_some_and(|missing| missing > 0 && case.segments_dropped() >= missing.div_ceil(2).max(1))
}

/// Whether TCP loses so much that its silences are its timer's, which backs off: while nothing passes it sends next to nothing, and
/// can lose no more.
fn is_lossy(case: &Case<'_>) -> bool {
    case.is(Workload::TcpStream) && case.retransmitted().is_some_and(|share| share >= A_FIFTH)
}

/// Whether a stack's counters name for sure what most of it was lost by, or of a steady stream of datagrams IP gave it to nobody.
fn is_of_a_stack(case: &Case<'_>) -> bool {
    let is_reckoned = |line: &LossLine| matches!(line.cause, Some(DropCause::Undelivered | DropCause::Untransmitted));
    let is_counted = |stage: Stage| {
        let at = case.lost_at(stage).filter(|at| at.part >= MOST_OF_THEM);
        at.is_some_and(|at| match at.any(is_reckoned) {
            true => case.is(Workload::UdpStream),
            false => case.sure_of(&at) == Sureness::Sure,
        })
    };
    [Stage::SenderStack, Stage::ReceiverStack].into_iter().any(is_counted)
}

/// How much of the trouble a silence explains, and which findings: those of TCP's timer explain none; what a stack's counters name comes
/// before it, unless the way is known to have changed.
fn explained(case: &Case<'_>, by_loss: bool, is_known: bool, part: f64) -> (f64, &'static [&'static str]) {
    match () {
        () if by_loss => (BEHIND, &[]),
        () if is_known => (part, &EXPLAINS),
        () if is_of_a_stack(case) => (BEHIND, &EXPLAINS[2..]),
        () => (part, &EXPLAINS[1..]),
    }
}

/// Whether so many time-outs in a row as each silence of requests over UDP takes are to be expected of the requests that were lost
/// outside of it: with few outstanding, they are silent by themselves.
fn is_chance(case: &Case<'_>) -> bool {
    let Some(latency) = case.latency().filter(|_| case.is(Workload::UdpRr)) else { return false };
    let at_once = case.at_once();
    let (answered, lost) = (latency.count as f64, latency.timeouts.unwrap_or(0) as f64);
    let is_to_be_expected = |times: f64| {
        let in_a_row = times.max(1.0) * at_once;
        let outside = (lost - in_a_row).max(0.0);
        let tries = answered + outside;
        // Of a few, one more is as likely.
        let ratio = if outside > 0.0 { (outside + 1.0) / tries.max(1.0) } else { 0.0 };
        tries / at_once * ratio.powf(in_a_row) >= IMPROBABLE
    };
    let span_s = case.span_s().unwrap_or(0.0);
    let silences = case.events().filter_map(|event| match event.what {
        EventKind::Stall { .. } => Some((event.for_s? / REQUEST_TIMEOUT_S).round()),
        // At the end one is not given up yet.
        EventKind::FlowDied { .. } => Some(((span_s - event.at_s - SOON_S) / REQUEST_TIMEOUT_S).floor() + 1.0),
        _ => None,
    });
    silences.map(is_to_be_expected).reduce(|all, one| all && one).unwrap_or(false)
}

fn find(case: &Case<'_>) -> Option<Finding> {
    let is_stall = |event: &Event| matches!(event.what, EventKind::Stall { .. });
    let (seconds, times) = case.held(is_stall);
    let first = case.events().find(|event| is_stall(event))?;
    if is_link_changed(case.record) || times == 0 || is_chance(case) {
        return None;
    }
    let share = (seconds / case.span_s()?).min(1.0);
    // Of a steady stream as much is lost, or missing, as there was silence.
    let part = match (case.loss(), case.missing_share()) {
        (Some(loss), _) => (share / loss.ratio.max(1e-9)).min(1.0),
        (None, Some(missing)) => (share / missing).min(1.0),
        (None, None) => share.max(0.3),
    };
    if part < 0.05 {
        return None;
    }
    // TCP that loses segments all the time stands still by itself, until its timer runs out.
    let lost_share: Option<f64> = case
        .events()
        .filter_map(|event| match event.what {
            EventKind::Stall { lost_share, .. } => lost_share,
            _ => None,
        })
        .reduce(|sum, share| sum + share);
    let change = change_at(case, first.at_s);
    let by_loss = match lost_share {
        _ if change.is_some() => false,
        _ if counted_elsewhere(case) || is_lossy(case) || case.is_of_round_trips(seconds / times as f64) => true,
        Some(share) => share < MOST_OF_THEM,
        // Requests wait for the timer of TCP one after the other.
        None => {
            times > 1
                || case.retransmitted().is_some_and(|share| share >= MUCH)
                || case.waited_for_timer().is_some_and(|waited| waited.all() > 2)
        }
    };
    let (end, when) = change.unzip();
    let when = when.unwrap_or_default();
    let (seconds, at) = (tidy(seconds), tidy(first.at_s));
    let sentence = match times {
        1 => format!("Nothing passed for {seconds} s, from {at} s on{when}."),
        _ => format!("Nothing passed for {seconds} s in all, {times} times, first at {at} s{when}."),
    };
    let (weight, explains) = explained(case, by_loss, end.is_some(), part.max(0.7));
    Some(
        RULE.finds(case, end, Sureness::Likely, weight, sentence)
            .because(format!("nothing arrived for {} of the measured time", percent(share)))
            .because_of(
                lost_share.map(|share| format!("{} of what was lost fell into that time", percent(share.min(1.0)))),
            )
            .because_of(near(case, first.at_s))
            .because_of(case.short())
            .wrong_if("It is wrong if no slice is without arrivals in the next trial, and as much is lost.")
            .explains(explains),
    )
}

/// A request that was sent this long ago should have its answer.
const SOON_S: f64 = 0.1;
/// A request over UDP is given up after this time.
const REQUEST_TIMEOUT_S: f64 = 1.0;
/// What a silence weighs that is another finding's.
const BEHIND: f64 = 0.3;
/// Of chance alone a trial has fewer such silences than this.
const IMPROBABLE: f64 = 0.02;
/// What an outage looks like besides.
const EXPLAINS: [&str; 13] = [
    // Where the way is known to have changed: the socket refuses what has none to go.
    "transmit-ring",
    // Where the stack itself does not count why.
    "stack-drops",
    "unaccounted",
    "lossy-path",
    "neighbours",
    "retransmission-timeout",
    "receive-window",
    "send-buffer",
    "application-limited",
    "bottleneck",
    "host-limits",
    "outage",
    "contradiction",
];
/// No outage makes TCP retransmit so many of its segments.
const A_FIFTH: f64 = 0.2;
/// Of TCP's segments so many are not retransmitted because the way went.
const MUCH: f64 = 0.05;
/// Nor so many because it went for good: TCP sends next to nothing again then.
const SOME: f64 = 0.02;

fn find_died(case: &Case<'_>) -> Option<Finding> {
    let died: Vec<&Event> = case.events().filter(|event| matches!(event.what, EventKind::FlowDied { .. })).collect();
    let first = died.first().filter(|_| !is_chance(case) && died_with_link(case.record).is_none())?;
    let shares = case.events().filter_map(|event| match event.what {
        EventKind::FlowDied { lost_share, .. } => lost_share,
        _ => None,
    });
    // TCP that loses much all the time waits for its timer longer and longer. On a way that went it sends next to nothing again.
    let silent_s = case.span_s()? - first.at_s;
    let change = change_at(case, first.at_s);
    let by_loss = match shares.reduce(f64::max) {
        _ if change.is_some() => false,
        _ if is_lossy(case) || case.is_of_round_trips(silent_s) => true,
        Some(share) => share < MOST_OF_THEM,
        // Round trips that waited for the timer and came to their end were lost before.
        None => case.retransmitted().is_some_and(|share| share >= SOME) || case.waited_for_timer().is_some(),
    };
    let at = tidy(first.at_s);
    // The path went, not a flow: TCP notices the end of an outage with its next try, after as long again.
    let all = died.len() as f64 >= case.streams();
    let (end, when) = change.unzip();
    let sentence = match died.len() {
        _ if let Some(when) = &when => format!("Nothing arrived from {at} s on{when}."),
        _ if all => format!("Nothing arrived from {at} s to the end: the way went, or an outage had not ended for it."),
        1 => format!("A flow died in mid-trial: nothing arrived from {at} s on."),
        many => format!("{many} flows died in mid-trial: nothing arrived from {at} s on."),
    };
    let kind = if all { "all" } else { "some" };
    let (weight, explains) = explained(case, by_loss, end.is_some(), 1.0);
    Some(
        DIED.finds(case, end, Sureness::Likely, weight, sentence)
            .of_kind(kind)
            .because_of((died.len() > 1).then(|| format!("{} of {} flows stopped", died.len(), case.streams())))
            .because(format!("the trial went on for {} s", tidy(silent_s)))
            .because_of(near(case, first.at_s))
            .wrong_if("It is wrong if the flow brings as much to its end in the next trial.")
            .explains(explains),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::LeastSilence;
    use crate::sample;

    #[test]
    fn two_time_outs_in_a_row_beside_two_others_are_chance() {
        let is_chance_of = |lost: u64, silent_s: f64| {
            let mut record = sample::rr(0, "64");
            (record.workload, record.duration_s) = (Workload::UdpRr, Some(4.0));
            let latency = record.result.as_mut().unwrap().latency.as_mut().unwrap();
            (latency.count, latency.timeouts) = (209, Some(lost));
            let what = EventKind::FlowDied { flow: 0, direction: None, lost_share: None };
            record.events = vec![Event { at_s: 4.0 - silent_s, for_s: None, within_s: 0.05, end: None, what }];
            is_chance(&Case::of(&record)[0])
        };
        assert!(is_chance_of(4, 1.6));
        assert!(!is_chance_of(2, 1.6) && !is_chance_of(5, 3.0));
        // Two, the second of which was not given up when the trial ended.
        assert!(!is_chance_of(2, 1.3));
    }

    #[test]
    fn the_rules_tell_how_long_a_silence_is() {
        for workload in Workload::ALL {
            let LeastSilence { stall_s, death_s } = LeastSilence::of(workload);
            for (rule, seconds) in [(&RULE, stall_s), (&DIED, death_s)] {
                assert!(rule.rests_on.contains(&format!("{seconds} s")), "{}: {seconds} s", rule.name);
                let is_named = !workload.is_stream();
                assert!(!is_named || rule.rests_on.contains(workload.name()), "{}: {workload:?}", rule.name);
            }
        }
    }
}
