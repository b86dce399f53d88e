//! What client and server do alike with a test's datagrams, and to what came of them.
//! Knows no connections.

use std::sync::Arc;

use linerate_host::traffic::{Foreign, Framing};
use linerate_trial::outcome::{Outcome, Role};

use super::datagram::{self, Counters};
use super::parameters::Parameters;

/// What the datagrams look like with these parameters.
pub fn framing(parameters: &Parameters) -> Framing {
    let foreign = if parameters.udp_counters_64bit {
        Foreign {
            head: Vec::new(),
            emit: |probe, octets| datagram::emit(Counters::Long, probe, octets),
            parse: Box::new(|octets| datagram::parse(Counters::Long, octets)),
            end: None,
            exchange: None,
            bare: false,
        }
    } else {
        Foreign {
            head: Vec::new(),
            emit: |probe, octets| datagram::emit(Counters::Short, probe, octets),
            parse: Box::new(|octets| datagram::parse(Counters::Short, octets)),
            end: None,
            exchange: None,
            bare: false,
        }
    };
    Framing::Foreign(Arc::new(foreign))
}

/// What each end alone cannot know: how many datagrams the sender sent, and how many of them are of the measured part.
/// Each end leaves its first seconds out by its own clock, so what was on its way at that moment would be lost, or never
/// sent: what counts is the receiver's part, by the numbers that it had seen until then.
pub fn settle(ours: &mut Outcome, theirs: &mut Outcome) {
    for flow in &mut ours.flows {
        let Some(other) = theirs.flows.iter_mut().find(|one| one.id == flow.id) else { continue };
        let (sender, receiver) = if flow.role == Role::Sender { (flow, other) } else { (other, flow) };
        let (received, received_total) = (receiver.messages, receiver.messages_total);
        let Some(arrivals) = &mut receiver.arrivals else { continue };
        arrivals.sent_by_end_mark = Some(sender.messages_total);
        let before = received_total.saturating_sub(received);
        if before > 0
            && let Some(missing) = arrivals.missing_before
        {
            sender.messages = sender.messages_total.saturating_sub(before + missing).max(received);
        }
    }
}
