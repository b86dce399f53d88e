//! How streams of one trial differ in what they lose.
//! Knows their counts, and no cause.

use linerate_trial::outcome::FlowCounts;
use linerate_trial::spec::Workload;

use super::case::{Case, FEW, percent};
use crate::record::{FrameSize, StreamFigures};

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
        let within = case.flow()?.frames.as_ref().and_then(|frames| frames.flows).and_then(DeadFlows::within);
        if within.is_some() {
            return within;
        }
        let counts = counts(case, |one| Some((one.flow.packets_sent?, one.flow.packets_lost?)));
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

    /// Flows within streams of frames.
    fn within(flows: FlowCounts) -> Option<DeadFlows> {
        let FlowCounts { all, dead, dead_sent, dead_lost, others_sent, others_lost } = flows;
        let others = share((others_sent, others_lost));
        let is_most = dead_lost as f64 >= MOST * dead_lost.saturating_add(others_lost) as f64;
        let found = DeadFlows { dead: dead as usize, all: all as usize, sent: dead_sent, others };
        (dead > 0 && dead < all && others <= ALIVE && is_most).then_some(found)
    }
}

/// So much at least the streams that are hit lose, and so little the others.
const HIT: f64 = 0.02;
const UNHIT: f64 = 0.1;
/// Streams that send in step with a queue that is full lose nearly all, and the others nothing.
const MOSTLY: f64 = 0.6;
/// So many would be missing of the others if they lost as much: none of them is no accident.
const EXPECTED: f64 = 30.0;

/// Some streams lose, and others do not.
pub(super) struct UnevenFlows {
    hit: usize,
    all: usize,
    /// What those that are hit lose of theirs, and the others.
    ratio: f64,
    others: f64,
}

impl UnevenFlows {
    pub(super) fn of(case: &Case<'_>) -> Option<UnevenFlows> {
        let counts = match case.record.workload {
            Workload::UdpStream | Workload::Frames => {
                counts(case, |one| Some((one.flow.packets_sent?, one.flow.packets_lost?)))
            }
            Workload::TcpStream => counts(case, |one| {
                let tcp = one.flow.tcp.as_ref()?;
                Some((tcp.segments_sent?, tcp.segments_lost.unwrap_or(tcp.retransmissions)))
            }),
            _ => return None,
        };
        let (hit, others) = hit_and_others(&counts, |one| *one)?;
        let (ratio, of_others) = (share(all_of(&hit)), share(all_of(&others)));
        let is_uneven = ratio < MOSTLY && others.len() >= 2;
        is_uneven.then_some(UnevenFlows { hit: hit.len(), all: counts.len(), ratio, others: of_others })
    }

    pub(super) fn clause(&self) -> String {
        let others = if self.others > 0.0 { percent(self.others) } else { "nothing".to_owned() };
        format!("{} of {} streams lost {} of theirs, and the others {others}", self.hit, self.all, percent(self.ratio))
    }
}

/// Of several that sent and lost so much those that lose as the most lossy one does, about, and those that lose next to nothing beside it,
/// though they sent enough to tell; none may be in between.
fn hit_and_others<T: Copy>(all: &[T], counts: impl Fn(&T) -> (u64, u64)) -> Option<(Vec<T>, Vec<T>)> {
    let most = all.iter().map(|one| share(counts(one))).fold(0.0, f64::max);
    let (hit, others): (Vec<T>, Vec<T>) = all.iter().copied().partition(|one| share(counts(one)) >= most / 3.0);
    let sums = |those: &[T]| all_of(&those.iter().map(&counts).collect::<Vec<_>>());
    let (of_hit, of_others) = (sums(&hit), sums(&others));
    let ratio = share(of_hit);
    let is_told =
        of_hit.1 >= FEW && ratio >= HIT && share(of_others) <= UNHIT * ratio && of_others.0 as f64 * ratio >= EXPECTED;
    is_told.then_some((hit, others))
}

fn all_of(those: &[(u64, u64)]) -> (u64, u64) {
    those.iter().fold((0, 0), |sum, one| (sum.0.saturating_add(one.0), sum.1.saturating_add(one.1)))
}

/// Of a mix of frames of several sizes the longer ones, or the shorter ones, are lost, and the others are not.
pub(super) struct UnevenSizes {
    hit: Vec<FrameSize>,
    others: Vec<FrameSize>,
}

impl UnevenSizes {
    pub(super) fn of(case: &Case<'_>) -> Option<UnevenSizes> {
        let sizes = &case.flow()?.frames.as_ref()?.sizes;
        let (hit, others) = hit_and_others(sizes, counts_of)?;
        let is_apart = |short: &[FrameSize], long: &[FrameSize]| {
            short.iter().map(|one| one.octets).max() < long.iter().map(|one| one.octets).min()
        };
        (is_apart(&hit, &others) || is_apart(&others, &hit)).then_some(UnevenSizes { hit, others })
    }

    /// Those that are lost: `of 594 and 1518 bytes`.
    pub(super) fn hit(&self) -> String {
        let names: Vec<String> = self.hit.iter().map(|one| one.octets.to_string()).collect();
        format!("of {} bytes", and(&names))
    }

    pub(super) fn clause(&self) -> String {
        let [hit, others] =
            [&self.hit, &self.others].map(|those| share(all_of(&those.iter().map(counts_of).collect::<Vec<_>>())));
        let names: Vec<String> = self.others.iter().map(|one| one.octets.to_string()).collect();
        format!("of those {} were lost, and {} of those of {} bytes", percent(hit), percent(others), and(&names))
    }
}

fn counts_of(size: &FrameSize) -> (u64, u64) {
    (size.sent, size.sent.saturating_sub(size.received))
}

fn and(names: &[String]) -> String {
    match names {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        _ => names.concat(),
    }
}

/// What each stream of this direction sent and lost.
fn counts(case: &Case<'_>, count: impl Fn(&StreamFigures) -> Option<(u64, u64)>) -> Vec<(u64, u64)> {
    let streams = case.record.result.iter().flat_map(|figures| &figures.streams);
    let counts = streams.filter(|one| one.direction == case.way).filter_map(count);
    counts.filter(|(sent, _)| *sent >= FEW).collect()
}

fn share((sent, lost): (u64, u64)) -> f64 {
    lost as f64 / sent.max(1) as f64
}

/// The datagrams that the trial sends at a time, where most of these bursts lost many in a row.
pub(super) fn own_bursts(case: &Case<'_>) -> Option<u32> {
    let burst = case.asked.as_ref().filter(|asked| asked.workload == Workload::UdpStream)?.burst;
    let (runs, lost) = case.loss_runs()?;
    let bursts = case.flow()?.packets_sent? as f64 / f64::from(burst.max(1));
    let each = lost as f64 / runs.max(1) as f64;
    let is_of_each =
        (0.5 * bursts..=1.5 * bursts).contains(&(runs as f64)) && (SEVERAL..=f64::from(burst)).contains(&each);
    is_of_each.then_some(burst)
}

/// Of losses by chance fewer follow one another.
const SEVERAL: f64 = 3.0;

/// Whether several streams together have so much of them lost, and what passes is as much all the time.
pub(super) fn is_above_a_rate(case: &Case<'_>, ratio: f64) -> bool {
    case.is(Workload::UdpStream)
        && case.streams() > 1.0
        && ratio >= MUCH_LOST
        && UnevenFlows::of(case).is_none()
        && case.is_steady() != Some(false)
}

/// So much of all streams is lost to a limit of rate more often than to chance.
const MUCH_LOST: f64 = 0.3;

#[cfg(test)]
mod tests {
    use super::super::{cases, findings};
    use crate::record::Record;

    #[test]
    fn frames_that_are_lost_by_their_size_are_told_with_it() {
        let all = cases::cases();
        let record = &all.iter().find(|case| case.name == "the longest frames of a mix").unwrap().record;
        let first = |record: &Record| {
            let one = findings(record).remove(0);
            (one.name, one.sentence)
        };
        let (name, sentence) = first(record);
        assert_eq!(name, "lossy-path");
        assert!(
            sentence.starts_with("Frames of 1518 bytes are lost between the two ends, and the others are not"),
            "{sentence}"
        );
        // Half as many of the middle ones, as damage has it.
        let mut damaged = record.clone();
        damaged.result.as_mut().unwrap().flow.frames.as_mut().unwrap().sizes[1].received /= 2;
        assert!(!first(&damaged).1.contains("of 1518 bytes"), "{:?}", first(&damaged));
    }
}
