//! What an end of a trial tells and cannot have seen, so that it makes no record.
//! Knows no agent; both outcomes are arguments.

use std::fmt::{self, Display, Formatter};

use linerate_machine::end::End;

use crate::outcome::{FlowOutcome, Outcome, Role};
use crate::spec::{MAX_DATAGRAM, Spec, Workload};

/// Datagrams that a receiver may have beyond twice what its sender sent, for nothing is held against a count that is
/// merely odd.
const SPARE: u64 = 1000;
/// No jitter is longer, seconds.
const LONGEST_S: f64 = 1e6;

/// A figure that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Impossible {
    /// The end that told it.
    pub end: End,
    /// What it told.
    pub what: ImpossibleCount,
}

/// What cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImpossibleCount {
    /// More datagrams arrived than were sent.
    Datagrams {
        /// What the receiver told.
        received: u64,
        /// What the other end told.
        sent: u64,
    },
    /// More payload did.
    Bytes {
        /// What the receiver told.
        received: u64,
        /// What the other end told.
        sent: u64,
    },
    /// A jitter that is negative, or longer than any trial.
    Jitter,
}

impl Display for Impossible {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (end, other) = (self.end, self.end.other());
        match self.what {
            ImpossibleCount::Datagrams { received, sent } => {
                write!(f, "the {end} told that it received {received} datagrams, of {sent} that the {other} sent")
            }
            ImpossibleCount::Bytes { received, sent } => {
                write!(f, "the {end} told that it received {received} bytes, of {sent} that the {other} sent")
            }
            ImpossibleCount::Jitter => write!(f, "the {end} told a jitter below 0 or above {LONGEST_S} s"),
        }?;
        f.write_str(", which cannot be; install the same version of linerate on both machines")
    }
}

/// The first figure of two ends, the target and the host, that cannot be.
pub fn impossible(spec: &Spec, [target, host]: [&Outcome; 2]) -> Option<Impossible> {
    let told = |own: &Outcome, other: &Outcome| {
        let of_flow = |flow: &FlowOutcome| {
            let sender = other.flows.iter().find(|one| one.id == flow.id && one.role == Role::Sender);
            let more = sender.filter(|_| spec.workload == Workload::UdpStream);
            jitter(flow).or_else(|| more_than_sent(more?, flow))
        };
        own.flows.iter().find_map(of_flow).map(|what| Impossible { end: own.end, what })
    };
    told(target, host).or_else(|| told(host, target))
}

fn jitter(flow: &FlowOutcome) -> Option<ImpossibleCount> {
    let jitter_s = flow.arrivals.as_ref()?.jitter_s?;
    (!(0.0..=LONGEST_S).contains(&jitter_s)).then_some(ImpossibleCount::Jitter)
}

/// Copies are in neither count: a loop on the way makes many.
fn more_than_sent(sender: &FlowOutcome, receiver: &FlowOutcome) -> Option<ImpossibleCount> {
    let arrivals = receiver.arrivals.as_ref()?;
    let beyond = |received: u64, sent: u64, spare: u64| received > sent.saturating_mul(2).saturating_add(spare);
    let (received, sent) =
        (arrivals.received.max(arrivals.received_total).max(receiver.messages), sender.messages_total);
    if beyond(received, sent, SPARE) {
        return Some(ImpossibleCount::Datagrams { received, sent });
    }
    let (received, sent) = (receiver.octets, sender.octets_total);
    beyond(received, sent, SPARE * u64::from(MAX_DATAGRAM)).then_some(ImpossibleCount::Bytes { received, sent })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrivals::Arrivals;

    /// What is said of a UDP stream of 100 datagrams from the host, of which the target tells this.
    fn said(change: impl FnOnce(&mut FlowOutcome, &mut Arrivals)) -> Option<String> {
        let sender = FlowOutcome {
            octets: 100_000,
            octets_total: 100_000,
            messages: 100,
            messages_total: 100,
            ..FlowOutcome::new(0, Role::Sender)
        };
        let mut receiver = FlowOutcome { octets: 90_000, messages: 90, ..FlowOutcome::new(0, Role::Receiver) };
        let mut arrivals = Arrivals { received: 90, received_total: 90, jitter_s: Some(1e-5), ..Arrivals::default() };
        change(&mut receiver, &mut arrivals);
        receiver.arrivals = Some(arrivals);
        let [target, host] =
            [(End::Target, receiver), (End::Host, sender)].map(|(end, flow)| Outcome::of_flows(end, vec![flow]));
        impossible(&Spec::new(Workload::UdpStream), [&target, &host]).map(|told| told.to_string())
    }

    #[track_caller]
    fn check(change: impl FnOnce(&mut FlowOutcome, &mut Arrivals), contains: &str) {
        let said = said(change).unwrap();
        assert!(said.starts_with("the target told ") && said.contains(contains), "{said}");
    }

    #[test]
    fn a_receiver_has_no_more_than_was_sent() {
        check(|_, arrivals| arrivals.received = u64::MAX, "18446744073709551615 datagrams, of 100 that the host sent");
        check(|_, arrivals| arrivals.received_total = 1201, "1201 datagrams");
        check(|flow, _| flow.messages = 1 << 53, "9007199254740992 datagrams");
        check(|flow, _| flow.octets = 1 << 63, "9223372036854775808 bytes, of 100000 that the host sent");
    }

    #[test]
    fn a_jitter_is_a_time() {
        check(|_, arrivals| arrivals.jitter_s = Some(-1.0), "a jitter below 0 or above 1000000 s, which cannot be");
        check(|_, arrivals| arrivals.jitter_s = Some(1e18), "a jitter below 0");
        check(|_, arrivals| arrivals.jitter_s = Some(f64::NAN), "a jitter below 0");
    }

    #[test]
    fn what_is_merely_odd_is_a_record() {
        assert_eq!(said(|_, _| {}), None);
        assert_eq!(said(|_, arrivals| (arrivals.received, arrivals.received_total) = (1200, 1200)), None);
        // A loop on the way.
        assert_eq!(said(|flow, arrivals| (flow.messages_total, arrivals.duplicated) = (1 << 30, 1 << 30)), None);
        assert_eq!(said(|_, arrivals| arrivals.jitter_s = None), None);
    }
}
