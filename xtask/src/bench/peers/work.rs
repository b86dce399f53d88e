//! What a benchmark compares: who does what, which figures are taken, and what is aimed at.
//! Knows no work by name; each family of works is a file of its own.

use super::run::{Look, Run, Who};
use super::tool::{Load, Peer};

/// The same work for several tools.
pub(super) struct Work {
    /// For the command line, and its place in the document.
    pub name: &'static str,
    pub title: String,
    /// What the reader must know, a paragraph.
    pub about: String,
    pub contenders: Vec<Contender>,
    pub metrics: Vec<Metric>,
    pub targets: Vec<Target>,
    pub look: Look,
    /// Only when named, because it takes long.
    pub on_demand: bool,
}

/// A tool, and how it does the work.
pub(super) struct Contender {
    pub name: String,
    pub who: Who,
    pub load: Load,
}

impl Contender {
    pub(super) fn peer(peer: &'static Peer, load: Load) -> Contender {
        Contender { name: peer.name.to_owned(), who: Who::Peer(peer), load }
    }

    /// linerate as it comes.
    pub(super) fn linerate(load: Load) -> Contender {
        Contender { name: "linerate".to_owned(), who: Who::Linerate(Vec::new()), load }
    }

    /// linerate with a pair of socket interfaces.
    pub(super) fn linerate_by(pair: (&str, &str), load: Load) -> Contender {
        let options = vec![("sender_api", pair.0.to_owned()), ("receiver_api", pair.1.to_owned())];
        Contender { name: format!("linerate, {} → {}", pair.0, pair.1), who: Who::Linerate(options), load }
    }

    pub(super) fn is_linerate(&self) -> bool {
        !matches!(self.who, Who::Peer(_))
    }
}

/// A figure that is compared.
pub(super) struct Metric {
    /// With its unit.
    pub name: &'static str,
    pub better: Better,
    /// Digits behind the point.
    pub digits: usize,
    /// In that unit; `None`: this tool does not tell.
    pub of: fn(&Run, &Contender) -> Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Better {
    More,
    Less,
}

/// What is aimed at.
pub(super) struct Target {
    pub text: &'static str,
    /// The contender's and the metric's place in the work.
    pub contender: usize,
    pub metric: usize,
    pub limit: Limit,
}

/// How much is enough.
#[derive(Clone, Copy, Debug)]
pub(super) enum Limit {
    /// So many times the best peer of the same round, or more.
    TimesBest(f64),
    /// The same of the best of the peers of these names.
    TimesBestOf(f64, &'static [&'static str]),
    /// At most so many times the best of the peers of these names; of all peers where none is named.
    AtMostTimes(f64, &'static [&'static str]),
    /// At most this, in the metric's unit.
    AtMost(f64),
    /// At most this, in each round.
    Always(f64),
}

/// Payload at the receiver.
pub(super) const GIGABITS: Metric = Metric {
    name: "Gbit/s of payload received",
    better: Better::More,
    digits: 2,
    of: |run, _| Some(run.account.bps() / 1e9),
};
