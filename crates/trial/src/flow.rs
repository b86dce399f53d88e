//! The flows of a trial, worked out alike by both ends from what was asked.
//! Knows no sockets and no addresses.

use std::ops::{Index, IndexMut};

use serde::{Deserialize, Serialize};

use crate::spec::{Direction, Spec, Workload};

/// One of the two machines of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// The machine under test.
    Target,
    /// The machine at the other end of the cable.
    Host,
}

impl End {
    /// The target first.
    pub const BOTH: [End; 2] = [End::Target, End::Host];

    /// The other one.
    pub const fn other(self) -> End {
        match self {
            End::Target => End::Host,
            End::Host => End::Target,
        }
    }

    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            End::Target => "target",
            End::Host => "host",
        }
    }
}

/// A thing of each end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct PerEnd<T> {
    pub target: T,
    pub host: T,
}

impl<T> PerEnd<T> {
    /// What this makes of each end.
    pub fn of(mut make: impl FnMut(End) -> T) -> PerEnd<T> {
        PerEnd { target: make(End::Target), host: make(End::Host) }
    }
}

impl<T> Index<End> for PerEnd<T> {
    type Output = T;

    fn index(&self, end: End) -> &T {
        match end {
            End::Target => &self.target,
            End::Host => &self.host,
        }
    }
}

impl<T> IndexMut<End> for PerEnd<T> {
    fn index_mut(&mut self, end: End) -> &mut T {
        match end {
            End::Target => &mut self.target,
            End::Host => &mut self.host,
        }
    }
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

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
