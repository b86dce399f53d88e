//! How streams of one trial differ in what they lose.
//! Knows their counts, and no cause.

use linerate_trial::spec::Workload;

use super::case::{Case, FEW};
use crate::record::StreamFigures;

/// From this share on a stream is dead, and up to this one it lives.
const DEAD: f64 = 0.98;
const ALIVE: f64 = 0.5;
/// From this share of all that was lost on, the dead streams explain it.
const MOST: f64 = 0.8;

/// Streams that lost everything, beside others.
pub(super) struct DeadFlows {
    pub(super) dead: usize,
    pub(super) all: usize,
    /// What the dead ones sent.
    pub(super) sent: u64,
    /// The share that the others lost of theirs.
    pub(super) others: f64,
}

impl DeadFlows {
    pub(super) fn of(case: &Case<'_>) -> Option<DeadFlows> {
        if !case.is(Workload::UdpStream) && !case.is(Workload::Frames) {
            return None;
        }
        let streams = &case.record.result.as_ref()?.streams;
        let count = |one: &StreamFigures| Some((one.flow.packets_sent?, one.flow.packets_lost?));
        let counts = streams.iter().filter(|one| one.direction == case.way).filter_map(count);
        let counts: Vec<(u64, u64)> = counts.filter(|(sent, _)| *sent >= FEW).collect();
        let share = |(sent, lost): (u64, u64)| lost as f64 / sent.max(1) as f64;
        let sum = |of: &dyn Fn(f64) -> bool| {
            let those = counts.iter().filter(|one| of(share(**one)));
            those.fold((0, 0_u64, 0_u64), |(n, sent, lost), one| {
                (n + 1, sent.saturating_add(one.0), lost.saturating_add(one.1))
            })
        };
        let (dead, sent, lost) = sum(&|share| share >= DEAD);
        let (others, others_sent, others_lost) = sum(&|share| share < DEAD);
        let lives = counts.iter().any(|one| share(*one) <= ALIVE);
        let is_most = lost as f64 >= MOST * lost.saturating_add(others_lost) as f64;
        let found = DeadFlows { dead, all: dead + others, sent, others: share((others_sent, others_lost)) };
        (dead > 0 && lives && is_most).then_some(found)
    }
}
