//! Some streams of many lose everything, and the others little: something on the way goes by flow.
//! Knows streams' own losses, and between which places they vanished.

use linerate_trial::spec::Workload;

use super::case::{Case, FEW, percent};
use super::unaccounted::Missing;
use super::{Finding, Rule, Sureness};

/// From this share on a stream is dead, and up to this one it lives.
const DEAD: f64 = 0.98;
const ALIVE: f64 = 0.5;
/// From this share of all that was lost on, the dead streams explain it.
const MOST: f64 = 0.8;

pub(super) const RULE: Rule = Rule {
    name: "dead-flows",
    says: "Some streams of many lose everything, from the first packet to the last, and the others little: something on the way goes by \
           flow, such as a dead member of a link aggregation, or of equal-cost routes, or a filter by port.",
    rests_on: "Datagrams or frames in several streams: at least one lost 98 % or more of what it sent (10 at least), another at most \
               50 %, and of all that was lost at least 80 % was lost by the dead ones; no counter saw it.",
    source: "IEEE 802.1AX, 6.2.4 (frame distribution by conversation); RFC 2992 (equal-cost multi-path by hash).",
    suggests: &[],
    find,
};

/// Streams that lost everything, beside others.
pub(super) struct DeadFlows {
    dead: usize,
    all: usize,
    sent: u64,
    /// What the others lost of theirs.
    others: f64,
}

impl DeadFlows {
    pub(super) fn of(case: &Case<'_>) -> Option<DeadFlows> {
        if !case.is(Workload::UdpStream) && !case.is(Workload::Frames) {
            return None;
        }
        let streams = &case.record.result.as_ref()?.streams;
        let count = |one: &crate::record::StreamFigures| Some((one.flow.packets_sent?, one.flow.packets_lost?));
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

fn find(case: &Case<'_>) -> Option<Finding> {
    let flows = DeadFlows::of(case)?;
    let missing = Missing::of(case)?;
    let DeadFlows { dead, all, sent, others } = flows;
    let place = if missing.is_between() { format!(" {}", missing.links) } else { String::new() };
    let sentence = format!(
        "{dead} of {all} streams lose everything{place}, and the others hardly anything: something there goes by flow, such as a dead \
         member of a link aggregation or of equal-cost routes, or a filter by port."
    );
    Some(
        RULE.finds(case, None, Sureness::Likely, 1.0, sentence)
            .because(format!("of the {sent} {} of these streams none arrived, or next to none", case.noun()))
            .because(format!("the others lost {}", percent(others)))
            .because_of(missing.evidence(case))
            .wrong_if("It is wrong if other streams lose everything each time: then it is no matter of the ports that they have.")
            .explains(&["lossy-path", "bottleneck", "unaccounted", "outage"]),
    )
}
