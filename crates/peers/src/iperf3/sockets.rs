//! What client and server do alike with a test's datagrams, and to what came of them.
//! Knows no connections.

use std::sync::Arc;

use linerate_host::traffic::{Foreign, Framing};
use linerate_trial::outcome::Outcome;

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

/// What each end alone cannot know: how many datagrams the sender sent.
pub fn settle(ours: &mut Outcome, theirs: &Outcome) {
    for flow in &mut ours.flows {
        let sent = theirs.flows.iter().find(|one| one.id == flow.id).map(|one| one.messages_total);
        if let Some(arrivals) = &mut flow.arrivals {
            arrivals.sent_by_end_mark = sent;
        }
    }
}
