//! The other end's address, or an end's own interface, got another hardware address, and nothing passed from then on.
//! Knows events; a table of neighbours that has no room is another rule.

use linerate_trial::doubt::DoubtKind;
use linerate_trial::event::{Event, EventKind};
use linerate_trial::spec::Workload;

use super::case::{Case, tidy};
use super::{Finding, Rule, Sureness};

pub(super) const RULE: Rule = Rule {
    name: "neighbour-changed",
    says: "The other end's address got another hardware address in mid-trial, and nothing passed from then on, or until it changed \
           back: a duplicate address, a forged answer, an entry that somebody made, or an interface that was given another one.",
    rests_on: "The event neighbour-changed, or hardware-changed of an end's own interface, and the event stall or flow-died that begins with it, to 0.15 s and a slice. Or, of datagrams, \
               a change so late that neither is seen, and half to twice as many lost as were sent from then on, with the marks of the end.",
    source: "RFC 826 (the last answer is believed); RFC 4861, section 7.2.5; RFC 5227 (duplicate addresses).",
    suggests: &[],
    find,
};

/// What began together is told apart by so much at most, beside the length of a slice, seconds.
const TOGETHER_S: f64 = 0.15;
/// So many times what was sent from then on, as far as a slice tells.
const LEAST_OF_REST: f64 = 0.5;
const MOST_OF_REST: f64 = 2.0;

fn find(case: &Case<'_>) -> Option<Finding> {
    case.events().find_map(|event| of_change(case, event))
}

/// Whether what began at this time did so with the event, as far as slices tell.
pub(super) fn begins_with(event: &Event, at_s: f64) -> bool {
    (event.at_s - at_s).abs() <= event.within_s.clamp(0.0, 1.0) + TOGETHER_S
}

/// A change so late that no silence behind it is long enough to be one: as much was lost as was sent from then on.
fn lost_to_the_end(case: &Case<'_>, event: &Event) -> Option<String> {
    let (span_s, loss) = (case.span_s()?, case.loss()?);
    let left = 1.0 - event.at_s / span_s;
    // Whoever has the address at the end has the marks of it, too.
    let is_lost = case.is(Workload::UdpStream) && case.doubts(DoubtKind::EndMarkLost);
    let is_late = event.end == Some(case.sender.end) && left > 0.0;
    (is_lost && is_late && (LEAST_OF_REST..=MOST_OF_REST).contains(&(loss.ratio / left)))
        .then(|| format!("{} datagrams were lost, about as many as were sent from then on", loss.packets))
}

fn of_change(case: &Case<'_>, event: &Event) -> Option<Finding> {
    let end = event.end?;
    let other = end.other();
    let at = tidy(event.at_s);
    let (sentence, own) = match &event.what {
        EventKind::NeighbourChanged { address, from, to } => {
            let own = case.sides().into_iter().find(|side| side.end == other)?.nic().and_then(|nic| nic.mac.as_deref());
            // One that is put right stops nothing.
            if own.is_some_and(|own| own.eq_ignore_ascii_case(to)) {
                return None;
            }
            let sentence = format!(
                "From {at} s on the {end} sent to another hardware address, and nothing passed: {address} changed from {from} to {to}."
            );
            (sentence, own.map(|own| format!("the {other}'s own hardware address is {own}")))
        }
        EventKind::HardwareChanged { interface, from, to } => {
            let sentence = format!(
                "At {at} s the {end}'s {interface} got another hardware address, and nothing passed: the {other} went on sending to \
                 {from}, and it is {to} now."
            );
            (sentence, None)
        }
        _ => return None,
    };
    let next = case.events().find(|later| is_of_same(event, later) && later.at_s > event.at_s);
    let silent = case.events().find(|other| {
        let is_silent = matches!(other.what, EventKind::Stall { .. } | EventKind::FlowDied { .. });
        is_silent && begins_with(event, other.at_s)
    });
    let silence = match silent {
        Some(Event { at_s, for_s: Some(seconds), .. }) => {
            format!("nothing arrived for {} s, from {} s on", tidy(*seconds), tidy(*at_s))
        }
        Some(Event { at_s, for_s: None, .. }) => format!("nothing arrived any more from {} s on", tidy(*at_s)),
        None => lost_to_the_end(case, event)?,
    };
    Some(
        RULE.finds(case, Some(end), Sureness::Likely, 0.95, sentence)
            .because(silence)
            .because_of(own)
            .because_of(next.map(|next| format!("it changed again at {} s", tidy(next.at_s))))
            .wrong_if(
                "It is wrong if the way stands still too with a permanent entry for the other end \
                 (ip neigh replace … nud permanent).",
            )
            .explains(&[
                "outage",
                "flow-died",
                "neighbours",
                "unaccounted",
                "lossy-path",
                "stack-drops",
                "retransmission-timeout",
                "receive-window",
                "send-buffer",
                "application-limited",
                "bottleneck",
                "host-limits",
                "contradiction",
            ]),
    )
}

/// Whether both events tell of the same entry, or of the same interface.
fn is_of_same(event: &Event, other: &Event) -> bool {
    let is_same = match (&event.what, &other.what) {
        (EventKind::NeighbourChanged { address, .. }, EventKind::NeighbourChanged { address: other, .. }) => {
            address == other
        }
        (EventKind::HardwareChanged { .. }, EventKind::HardwareChanged { .. }) => true,
        _ => false,
    };
    is_same && event.end == other.end
}
