//! TCP's acknowledgements are lost on their way back, or wait there, and data waits for them.
//! Knows counters of the way back; a queue that stands between the two ends is another rule.

use linerate_machine::end::{Direction, Party};
use linerate_path::budget::{Chain, DropCause, LossLine, drops_seen};
use linerate_path::stage::Stage;
use linerate_trial::spec::Workload;

use super::case::{Case, percent, tidy};
use super::unaccounted::Missing;
use super::{Finding, Rule, Sureness};
use crate::time_budget::Limit;
use crate::total::Total;

/// TCP bears the loss of a smaller share: each acknowledgement says what those before it did (RFC 9293, section 3.4).
const LOST: f64 = 0.2;
/// Up to this share, where data waits in a queue on its own way for this share of the time, TCP bears it all the same.
const BORNE: f64 = 0.7;
const FULL: f64 = 0.85;
/// Of a connection that hardly gets anywhere there are few.
const LEAST: u64 = 5;
/// From this share of its packets on a discipline holds acknowledgements back.
const HELD: f64 = 0.1;
/// From this share of the time on data waits for them.
const SHARE: f64 = 0.3;

pub(super) const RULE: Rule = Rule {
    name: "acknowledgements",
    says: "TCP's acknowledgements are lost, or wait in a shaper, on their way back to the sender: data waits for them.",
    rests_on: "TCP that came short. Lost, of one direction: at least 5 and 20 % of the packets that the receiver's link sent, by counters \
               of drops of either machine on the way back, and by the receiver's link tx_packets less the sender's link rx_packets (and less what came after the sender had counted: segments that had to be retransmitted and that the links do not show as lost); and a \
               smaller part of the data, by the other two counts. \
               Waiting: a discipline at the receiver's egress, or the middle's towards the sender, keeps to a rate and held back at least 10 % of its packets, while \
               a queue on the way, or a window, limited at least 30 % of the time; of both ways at once, where none of its segments were lost.",
    source: "RFC 3449, section 2 (imperfect and slow acknowledgement ways); tc(8), overlimits.",
    suggests: &["qdisc"],
    find,
};

fn find(case: &Case<'_>) -> Option<Finding> {
    if !case.is(Workload::TcpStream) {
        return None;
    }
    let short = case.short();
    if short.is_none() && !case.stood_still() {
        return None;
    }
    // Of both ways at once the links count data and acknowledgements together, and what loses segments may have a queue of its own.
    let is_both = case.record.direction == Direction::Both;
    let lost = if is_both { None } else { lost(case, short.clone()) };
    lost.or_else(|| held(case, short).filter(|_| !is_both || case.loses_no_segments()))
}

/// What the way back lost of the packets that the receiver's link sent.
pub(super) struct ReturnLoss {
    sent: u64,
    /// By counters of drops.
    dropped: Vec<LossLine>,
    /// Between the two links.
    between: u64,
}

impl ReturnLoss {
    /// `None`: TCP bears it, or it is not counted.
    pub(super) fn of(case: &Case<'_>) -> Option<ReturnLoss> {
        let sent = case.receiver.link_sent()?;
        let mut dropped = drops_seen(
            case.shares_machine(),
            Some(sent),
            Chain::direct(&case.seen(case.receiver), &case.seen(case.sender)),
        );
        // The kernel counts for all namespaces together whom it waits for an address of.
        dropped.lines.retain(|line| !(case.shares_machine() && line.cause == Some(DropCause::Neighbours)));
        let arrived = case.sender.link_received()?;
        // Where more came than left on the way there, the two ends counted at different times.
        let there = case.sender.link_sent().zip(case.receiver.link_received());
        if there.is_some_and(|(left, came)| came > left.saturating_add(left / 20).saturating_add(LEAST)) {
            return None;
        }
        let between = sent.saturating_sub(arrived).saturating_sub(acknowledged_later(case));
        // They came by another interface, as a stack has them that its interface has not (of many it makes fewer, never more).
        let in_stack = case.sender.sum(Stage::ReceiverStack, |name| name == "Tcp InSegs");
        if in_stack.is_some_and(|stack| stack.saturating_sub(arrived) > between / 2) {
            return None;
        }
        let back = ReturnLoss { sent, dropped: dropped.lines, between };
        (back.packets() >= LEAST && back.share() >= LOST).then_some(back)
    }

    fn packets(&self) -> u64 {
        self.dropped.iter().map(|line| line.packets).chain([self.between]).total()
    }

    fn share(&self) -> f64 {
        self.packets() as f64 / self.on_way().max(1) as f64
    }

    /// What left the receiver's link, and what was dropped before it.
    fn on_way(&self) -> u64 {
        let before = self.dropped.iter().filter(|line| line.stage <= Stage::DriverTxRing);
        before.map(|line| line.packets).chain([self.sent]).total()
    }

    /// Whether the two links lost as large a part of the data: then it is the way that loses, and TCP waits for its data.
    pub(super) fn is_of_both_ways(&self, case: &Case<'_>) -> bool {
        let ahead = case.sender.link_sent().zip(case.receiver.link_received());
        let Some((sent, lost)) = ahead.map(|(sent, arrived)| (sent, sent.saturating_sub(arrived))) else {
            return false;
        };
        // By the links alone, where nobody counted segments to the end.
        let ratio = match Missing::of(case) {
            Some(missing) if missing.is_between() => missing.loss.ratio,
            Some(_) => return false,
            None => lost as f64 / sent.max(1) as f64,
        };
        lost >= LEAST && ratio >= self.share()
    }

    /// A clause that says so.
    pub(super) fn clause(&self) -> String {
        format!("of {} packets on the way back {} were lost, {}", self.on_way(), self.packets(), percent(self.share()))
    }
}

/// About how many segments came to the receiver after the sender had counted, which did so with segments on their way: the two links
/// show fewer of them lost than had to be retransmitted, and each may have been acknowledged. What arrived twice the receiver says itself
/// (TcpExt TCPDSACKOldSent, TCPDSACKOfoSent), for acknowledgements that say so may be lost.
fn acknowledged_later(case: &Case<'_>) -> u64 {
    let links = case.sender.link_sent().zip(case.receiver.link_received());
    let Some((tcp, (left, came))) = case.tcp().filter(|tcp| tcp.segments_lost.is_none()).zip(links) else { return 0 };
    let again = ["TCPDSACKOldSent", "TCPDSACKOfoSent"].map(|name| case.receiver.counter(&format!("TcpExt {name}")));
    let twice: u64 = again.into_iter().flatten().total();
    let needed = tcp.needed_retransmissions().min(tcp.retransmissions.saturating_sub(twice));
    needed.saturating_add(came).saturating_sub(left)
}

fn lost(case: &Case<'_>, short: Option<String>) -> Option<Finding> {
    let back = ReturnLoss::of(case).filter(|back| !back.is_of_both_ways(case))?;
    let largest = back.dropped.iter().max_by_key(|line| line.packets).filter(|line| line.packets >= back.between);
    let (machine, place) = match largest {
        Some(line) => (Some(line.end), format!("at the {}: {}", line.end, line.stage)),
        None => (None, "between the two ends".to_owned()),
    };
    // Each that comes acknowledges what those before it did: a queue that is full of data nearly all of the time misses none.
    let is_borne = largest.is_none() && back.share() < BORNE && case.share_of(&[Limit::Path]) >= FULL;
    let sentence = match is_borne {
        true => format!("TCP's acknowledgements are lost {place}, and the queue of data there is full all the same."),
        false => format!("TCP's acknowledgements are lost {place}, and the {} waits for them.", case.sender.end),
    };
    let weight = if is_borne { 0.2 } else { 0.95 };
    let finding = RULE
        .finds(case, machine.and_then(Party::end), Sureness::Likely, weight, sentence)
        .because(back.clause())
        .because_of(back.dropped.iter().map(|line| line.evidence()))
        .because_of(short)
        .wrong_if("It is wrong if as little comes through where nothing is lost on the way back.");
    Some(if is_borne { finding } else { finding.explains(&EXPLAINS) })
}

fn held(case: &Case<'_>, short: Option<String>) -> Option<Finding> {
    let side = case.receiver;
    let in_middle = || case.held_back_in_middle().map(|(interface, kind, share)| (Some(interface), kind, share));
    let held = side.held_at_egress().map(|(kind, share)| (None, kind, share)).or_else(in_middle);
    let (interface, kind, share) = held.filter(|(.., share)| *share >= HELD)?;
    let waits =
        case.share_of(&[Limit::Path, Limit::Pacing, Limit::WindowGrowth, Limit::CongestionWindow, Limit::SlowStart]);
    if waits < SHARE {
        return None;
    }
    let (place, setting) = match interface {
        Some(interface) => (format!("of the middle, at {interface}"), "middle.qdisc".to_owned()),
        None => (format!("at the {}'s egress", side.end), side.setting("qdisc")),
    };
    let sentence = format!("TCP's acknowledgements wait in a shaper {place}.");
    let finding = RULE
        .finds(case, Some(side.end), Sureness::Likely, waits.max(0.8), sentence)
        .because(format!("{kind} held a packet back {} times for each that it sent", tidy(share)))
        .because(format!("a queue on the way, or TCP's window, limited {} of the time", percent(waits)))
        .because_of(short)
        .attempt(setting, "default", "throughput")
        .wrong_if("It is wrong if no more comes through without it.")
        .explains(&EXPLAINS);
    Some(if interface.is_some() { finding.on_middle() } else { finding })
}

/// What data that waits for acknowledgements looks like. TCP takes for lost what was not acknowledged, and all of it may have
/// arrived.
const EXPLAINS: [&str; 10] = [
    "unaccounted",
    "outage",
    "flow-died",
    "bottleneck",
    "lossy-path",
    "send-buffer",
    "receive-window",
    "application-limited",
    "host-limits",
    "far-path",
];

#[cfg(test)]
mod tests {
    use super::super::{cases, findings};
    use super::*;
    use crate::record::{Counted, Directions, Losses};

    #[test]
    fn the_other_ways_data_holds_acknowledgements_back_too() {
        let all = cases::cases();
        let case = all.iter().find(|case| case.name == "acknowledgements behind a token bucket").unwrap();
        let of_rx = |lost: u64| {
            let mut record = case.record.clone();
            let figures = record.result.as_mut().unwrap();
            figures.directions = Some(Directions { tx: figures.flow.clone(), rx: figures.flow.clone() });
            record.direction = Direction::Both;
            let (sent, of) = (50_000, Counted::Segments);
            record.losses = vec![Losses { direction: Direction::Rx, of, sent, arrived: sent - lost, unaccounted: 0 }];
            let found = findings(&record);
            let rx: Vec<_> = found.iter().filter(|one| one.direction == Direction::Rx).collect();
            (rx[0].name, rx[0].machine, rx.iter().any(|one| one.name == "bottleneck"))
        };
        assert_eq!(of_rx(0), (RULE.name, Some(Party::Target), false));
        // What loses segments may be a queue on their own way.
        assert_eq!(of_rx(2_000), ("bottleneck", None, true));
    }
}
