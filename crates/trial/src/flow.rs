//! The flows of a trial, worked out alike by both ends from what was asked.
//! Knows no sockets and no addresses.

use linerate_machine::end::{Direction, End};

use crate::outcome::Role;
use crate::spec::{Spec, Workload};

/// One conversation of test traffic: a stream, or a series of requests and responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Its number, alike on both ends.
    pub id: u16,
    /// What it carries.
    pub workload: Workload,
    /// The end that sends the stream, or the requests.
    pub source: End,
    /// It is the probe beside the streams, not one of them.
    pub probe: bool,
}

impl Flow {
    /// The end that waits for the other to open the flow. A responder always does; of a stream, the target
    /// does, for boards seldom have a firewall and engineers' machines often do.
    pub const fn listener(&self) -> End {
        if self.workload.is_stream() { End::Target } else { self.source.other() }
    }

    /// What an end does in it.
    pub fn role(&self, end: End) -> Role {
        match (self.workload.is_stream(), end == self.source) {
            (true, true) => Role::Sender,
            (true, false) => Role::Receiver,
            (false, true) => Role::Requester,
            (false, false) => Role::Responder,
        }
    }

    /// The direction of this flow, seen from the target.
    pub const fn direction(&self) -> Direction {
        match self.source {
            End::Target => Direction::Tx,
            End::Host => Direction::Rx,
        }
    }

    /// The flows of a trial.
    pub fn of(spec: &Spec) -> Vec<Flow> {
        let sources: &[End] = match spec.direction {
            Direction::Tx => &[End::Target],
            Direction::Rx => &[End::Host],
            Direction::Both => &[End::Target, End::Host],
        };
        let mut flows = Vec::new();
        for &source in sources {
            for _ in 0..spec.streams {
                flows.push(Flow { id: flows.len() as u16, workload: spec.workload, source, probe: false });
            }
        }
        if spec.probe {
            // The host asks, whichever way the streams go: the question is always how the target answers.
            flows.push(Flow { id: flows.len() as u16, workload: Workload::UdpRr, source: End::Host, probe: true });
        }
        flows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_see_the_same_flows() {
        let mut spec = Spec::new(Workload::UdpStream);
        (spec.direction, spec.streams, spec.probe) = (Direction::Both, 2, true);
        let flows = Flow::of(&spec);
        assert_eq!(flows.iter().map(|f| f.id).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
        assert_eq!(flows.iter().filter(|f| f.source == End::Target).count(), 2);
        assert_eq!(flows.iter().filter(|f| f.listener() == End::Target).count(), 5);
        assert!(flows[4].probe);
    }

    #[test]
    fn a_responder_listens() {
        let mut spec = Spec::new(Workload::TcpCrr);
        spec.direction = Direction::Tx;
        assert_eq!(Flow::of(&spec)[0].listener(), End::Host);
    }
}
