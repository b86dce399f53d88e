//! The machines of a trial: its two ends, the one between them, and which way traffic goes.

use std::ops::{Index, IndexMut};

use serde::{Deserialize, Serialize};

use crate::words;

words! {
    /// One of the two machines of a trial.
    End {
        /// The machine under test.
        Target = "target",
        /// The machine at the other end of the cable.
        Host = "host",
    }
}

impl End {
    /// The target first.
    pub const BOTH: [End; 2] = End::ALL;

    /// The other one.
    pub const fn other(self) -> End {
        match self {
            End::Target => End::Host,
            End::Host => End::Target,
        }
    }
}

words! {
    /// A machine that takes part in a trial: one of its two ends, or the one between them.
    Party {
        /// The machine under test.
        Target = "target",
        /// The machine at the other end.
        Host = "host",
        /// The machine that forwards the test traffic: a bridge, a router, a NAT.
        Middle = "middle",
    }
}

impl Party {
    /// Which end it is; `None` of the one between them.
    pub const fn end(self) -> Option<End> {
        match self {
            Party::Target => Some(End::Target),
            Party::Host => Some(End::Host),
            Party::Middle => None,
        }
    }
}

impl From<End> for Party {
    fn from(end: End) -> Party {
        match end {
            End::Target => Party::Target,
            End::Host => Party::Host,
        }
    }
}

impl PartialEq<End> for Party {
    fn eq(&self, end: &End) -> bool {
        self.end() == Some(*end)
    }
}

/// A thing of each end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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

words! {
    /// Which way, seen from the target. For requests and responses: who asks.
    Direction {
        /// The target sends (or asks).
        Tx = "tx",
        /// The target receives (or answers).
        Rx = "rx",
        /// Both at the same time.
        Both = "both",
    }
}
