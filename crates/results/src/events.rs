//! What happened at a time in a trial, as far as both ends' time slices show it: stalls, flows that died, others' traffic.
//! Knows nothing of what the machines noticed by themselves; those events are merged in here.

use linerate_machine::end::{Direction, End};
use linerate_stats::least_variance;
use linerate_trial::event::{Event, EventKind};
use linerate_trial::outcome::Outcome;
use linerate_trial::spec::Workload;
use linerate_trial::timeline::{Columns, FlowColumn, FlowTimeline, MachineColumn, Timeline};

use crate::time_budget::TCP_RTO_MIN_S;

/// A direction of the trial, for its stalls.
pub(crate) struct Arrivals<'a> {
    /// Which; of requests, which way they went.
    pub(crate) direction: Direction,
    /// Its flows, by number.
    pub(crate) flows: Vec<u16>,
    /// What the receiver saw; of requests, the requester.
    pub(crate) seen: &'a Timeline,
    /// Seconds that usually pass between two messages, at the asked rate.
    pub(crate) gap_s: f64,
    /// The longest time between two arrivals that each of its flows had, seconds, where that was measured: exact, as slices are
    /// not.
    pub(crate) longest_s: Option<f64>,
    /// What makes a silence an event.
    pub(crate) least: LeastSilence,
    /// Who tells when something was lost, and in which column.
    pub(crate) losing: Option<(&'a Timeline, FlowColumn)>,
}

/// How long nothing arrives, at least, of what has stalled or died, seconds.
#[derive(Clone, Copy)]
pub(crate) struct LeastSilence {
    /// Between arrivals.
    pub(crate) stall_s: f64,
    /// Before the trial's end.
    pub(crate) death_s: f64,
}

impl LeastSilence {
    /// Of requests, one that is lost alone keeps the next waiting: for a time-out (of a second), TCP's timer, or that of a SYN,
    /// which is a second (RFC 6298).
    pub(crate) const fn of(workload: Workload) -> LeastSilence {
        let (stall_s, death_s) = match workload {
            Workload::TcpStream | Workload::UdpStream | Workload::Frames => (0.25, 0.4),
            Workload::TcpRr => (2.5 * TCP_RTO_MIN_S, 4.0 * TCP_RTO_MIN_S),
            Workload::UdpRr => (1.2, 1.2),
            Workload::TcpCrr => (1.3, 1.5),
        };
        LeastSilence { stall_s, death_s }
    }
}

impl Arrivals<'_> {
    /// How long the threads of this direction waited for a CPU, by both ends.
    fn waits(&self) -> Vec<Waits<'_>> {
        let ends = [Some(self.seen), self.losing.map(|(timeline, _)| timeline)];
        let of = |timeline| self.of_timeline(timeline).filter_map(|flow| Waits::of(flow, timeline));
        ends.into_iter().flatten().flat_map(of).collect()
    }

    fn of_timeline<'t>(&self, timeline: &'t Timeline) -> impl Iterator<Item = &'t FlowTimeline> {
        timeline.flows.iter().filter(|flow| self.flows.contains(&flow.id))
    }

    /// What a column of a timeline sums up to over the flows of this direction, by slice; `None`: one of them has none.
    fn sums(&self, timeline: &Timeline, column: FlowColumn) -> Option<Vec<f64>> {
        let mut sums = vec![0.0; timeline.ends_ns.len()];
        for flow in self.of_timeline(timeline) {
            let values = flow.columns.0.get(&column).filter(|values| values.len() == sums.len())?;
            sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += *value as f64);
        }
        Some(sums)
    }

    /// Of what was lost in the measured part, the share from the slice in which a silence began to its end and what a recovery takes.
    fn lost_share(&self, from_s: f64, to_s: f64) -> Option<f64> {
        let (timeline, column) = self.losing?;
        let end_s = seconds(*timeline.ends_ns.last()?);
        let (mut within, mut all) = (0.0, 0.0);
        let went_on = to_s < end_s;
        let to_s = to_s + self.recovery_s(to_s - from_s);
        for flow in self.of_timeline(timeline) {
            for (slice, lost) in flow.columns.0.get(&column)?.iter().enumerate() {
                let at_s = seconds(*timeline.ends_ns.get(slice)?);
                all += *lost as f64;
                within += if (from_s..=to_s).contains(&at_s) { *lost as f64 } else { 0.0 };
            }
        }
        let share = (all > 0.0).then_some(within / all)?;
        // Nearly all of a trial has most of its losses, whatever they are due to: unless it went on, and hardly any of the traffic fell
        // into it, or not so much that chance would have put nearly all of them there.
        let is_most_of_it = to_s - from_s > MOST_OF_IT * end_s;
        let is_of_few = || {
            let is_no_chance = |moved: f64| share >= NEARLY_ALL && moved.powf(within) <= IMPROBABLE;
            let moved = self.moved_share(from_s, to_s).filter(|_| went_on);
            moved.is_some_and(|moved| moved <= FEW_OF_IT * share || is_no_chance(moved))
        };
        (share < MOST_OF_THEM || !is_most_of_it || is_of_few()).then_some(share)
    }

    /// How long behind a silence what fell into it is still noticed, or sent again: TCP's timer has doubled meanwhile.
    fn recovery_s(&self, silence_s: f64) -> f64 {
        match self.losing {
            Some((_, FlowColumn::Retransmitted)) => RECOVERY_S.max(silence_s / 2.0),
            _ => RECOVERY_S,
        }
    }

    /// Of what arrived in the measured part, the share that did so between two moments.
    fn moved_share(&self, from_s: f64, to_s: f64) -> Option<f64> {
        let octets = self.sums(self.seen, FlowColumn::Octets)?;
        let is_within = |slice: usize| (from_s..=to_s).contains(&seconds(self.seen.ends_ns[slice]));
        let within: f64 =
            octets.iter().enumerate().filter(|(slice, _)| is_within(*slice)).map(|(_, octets)| octets).sum();
        let all: f64 = octets.iter().sum();
        (all > 0.0).then_some(within / all)
    }
}

/// How long the thread of one flow waited for a CPU.
struct Waits<'a> {
    flow: u16,
    ends_ns: &'a [u64],
    /// Until before each slice, and until the end, seconds.
    until_s: Vec<f64>,
}

impl<'a> Waits<'a> {
    fn of(flow: &FlowTimeline, timeline: &'a Timeline) -> Option<Waits<'a>> {
        let delays = flow.columns.0.get(&FlowColumn::RunDelayUs)?;
        let step = |sum: &mut f64, us: &u64| {
            *sum += *us as f64 / 1e6;
            Some(*sum)
        };
        let until_s = std::iter::once(0.0).chain(delays.iter().scan(0.0, step)).collect();
        Some(Waits { flow: flow.id, ends_ns: &timeline.ends_ns, until_s })
    }

    /// Seconds of it in the slices that end between two moments.
    fn between(&self, from_s: f64, to_s: f64) -> f64 {
        let before = |slice: usize| self.until_s[slice.min(self.until_s.len() - 1)];
        let first = self.ends_ns.partition_point(|end| seconds(*end) < from_s);
        let behind = self.ends_ns.partition_point(|end| seconds(*end) <= to_s + 0.01);
        before(behind) - before(first)
    }

    /// Whether it waited for so much of a silence that it made it.
    fn made(&self, from_s: f64, to_s: f64) -> bool {
        self.between(from_s, to_s) >= STARVED * (to_s - from_s)
    }
}

/// Nothing is a stall that lasts so many times what usually passes between two messages.
const UNUSUAL: f64 = 20.0;
/// A flow has died by what it does not bring for a twentieth of the trial at least.
const DEAD: f64 = 0.05;
/// What falls into an outage is noticed so much later, or sent again, seconds at least.
const RECOVERY_S: f64 = 0.3;
/// Chance that is none.
const IMPROBABLE: f64 = 1e-3;
/// Losses in more of the trial than this tell nothing by when they fell.
const MOST_OF_IT: f64 = 0.5;
/// They do where so many times less of the traffic than of the losses fell into it.
const FEW_OF_IT: f64 = 0.3;
/// Of what was lost: a smaller share in a silence shows that loss goes on outside of it.
pub(crate) const MOST_OF_THEM: f64 = 0.5;
/// Threads that waited for a CPU for this share of a silence made it.
const STARVED: f64 = 0.3;
/// Loss that began before this part of a trial was there from its beginning.
const BEGAN_LATE: f64 = 0.1;
/// Of what was lost, so much may have been lost before.
const FEW_BEFORE: f64 = 0.05;
/// Loss stays that is in so many of the slices, of which there are so many; of several times each has so many at least.
const STAYS: f64 = 0.8;
const LOSSY_SLICES: usize = 6;
const LEAST_SLICES: usize = 3;
/// So many standard deviations from what chance makes are none, of counts whose own variance is this at least.
const IMPROBABLE_DEVIATIONS: f64 = 3.1;
const LEAST_VARIANCE: f64 = 4.0;
/// What TCP lost it lost at once, if so much of it falls into so many seconds, of so small a part of the trial. Of fewer segments chance
/// makes that now and then.
const NEARLY_ALL: f64 = 0.9;
const ONCE_S: f64 = 0.5;
const ONCE_PART: f64 = 0.2;
const LEAST_AT_ONCE: f64 = 6.0;
/// A rate has changed that is so many times the other one, each for this part of the trial at least, and so many slices; and so many
/// of each are nearer to their own than to the other's.
const CHANGED: f64 = 1.5;
const CHANGED_FOR: f64 = 0.1;
const CHANGED_SLICES: usize = 5;
const NEAR: f64 = 0.8;
/// At once: a rate that grows little by little is TCP's window.
const AT_ONCE: usize = 2;
/// Less than this part of the other rate is a silence, which is told otherwise.
const SILENT: f64 = 0.005;
/// A trial that has more stalls than this has something else.
const MOST: usize = 50;
/// Others' traffic is worth a word from this rate on, octets a second, and from this part of the trial's own.
const OTHERS: f64 = 250_000.0;
const OTHERS_PART: f64 = 0.2;
/// A retransmitted segment, with its headers, octets.
const SEGMENT: f64 = 1514.0;
/// And for so many slices.
const OTHERS_SLICES: usize = 2;

/// Every event of a trial, in the order of time. `seen` says of an end which part of what it missed its interface counted all the
/// same, and its own counters saw dropped after that.
pub(crate) fn events(
    workload: Workload,
    target: &Outcome,
    host: &Outcome,
    ways: &[Arrivals<'_>],
    seen: impl Fn(End) -> f64,
) -> Vec<Event> {
    let mut events: Vec<Event> = target.events.iter().chain(&host.events).cloned().collect();
    for way in ways {
        let silences = silences(way);
        if workload == Workload::TcpStream {
            events.extend(lost_at_once(way, &silences));
        }
        events.extend(silences);
        if matches!(workload, Workload::UdpStream | Workload::Frames) {
            events.extend(losses_began(way).into_iter().take(MOST));
        }
        events.extend(slow_for_a_while(way).or_else(|| rate_changed(way)).filter(|_| workload.is_stream()));
    }
    for (outcome, other) in [(target, host), (host, target)] {
        let sent = workload.is_stream().then_some(&other.timeline);
        events.extend(others(outcome, sent, headers_of(workload), seen(outcome.end)).into_iter().take(MOST));
    }
    events.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
    events
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// The slices in which a column is zero, as runs from slice to slice.
fn runs_of(silent: impl Iterator<Item = bool>) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for (slice, _) in silent.enumerate().filter(|(_, silent)| *silent) {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == slice => *last = slice,
            _ => runs.push((slice, slice)),
        }
    }
    runs
}

fn moved(columns: &Columns<FlowColumn>) -> Option<&Vec<u64>> {
    columns.0.get(&FlowColumn::Octets).or_else(|| columns.0.get(&FlowColumn::Messages))
}

/// Stalls of a direction, and flows that died; so many at most.
fn silences(way: &Arrivals<'_>) -> Vec<Event> {
    let ends = &way.seen.ends_ns;
    let flows = || way.of_timeline(way.seen);
    let columns: Vec<(u16, &Vec<u64>)> = flows().filter_map(|flow| Some((flow.id, moved(&flow.columns)?))).collect();
    let Some(end_ns) = ends.last().filter(|_| !columns.is_empty()) else { return Vec::new() };
    let start = |slice: usize| if slice == 0 { 0.0 } else { seconds(ends[slice - 1]) };
    let within_s = start(1.min(ends.len() - 1)).max(seconds(ends[0]));
    let least = way.least.stall_s.max(UNUSUAL * way.gap_s);
    let event = |at_s: f64, for_s: Option<f64>, what: EventKind| Event { at_s, for_s, within_s, end: None, what };
    let waits = way.waits();
    // Flows that died, and not for want of a CPU.
    let (mut dead, mut alive) = (Vec::new(), Vec::new());
    for (flow, octets) in &columns {
        let last = octets.iter().rposition(|octets| *octets > 0);
        let Some(last) = last else { continue };
        let died_s = seconds(ends[last.min(ends.len() - 1)]);
        let silent = seconds(*end_ns) - died_s;
        let is_long = silent >= least.max(way.least.death_s) && silent >= DEAD * seconds(*end_ns);
        let starved = || waits.iter().any(|waits| waits.flow == *flow && waits.made(died_s, seconds(*end_ns)));
        if is_long && !starved() {
            dead.push((*flow, died_s));
        } else {
            alive.push(*octets);
        }
    }
    let died = dead.into_iter().map(|(flow, died_s)| {
        // A receiver misses a datagram when a later one comes, which none did.
        let is_noticed = way.losing.is_some_and(|(_, column)| column == FlowColumn::Retransmitted);
        let lost_share = way.lost_share(died_s, seconds(*end_ns)).filter(|_| is_noticed);
        event(died_s, None, EventKind::FlowDied { flow, direction: Some(way.direction), lost_share })
    });
    // All of those that live stood still at once.
    if alive.is_empty() {
        alive = columns.iter().map(|(_, octets)| *octets).collect();
    }
    let silent = (0..ends.len()).map(|slice| alive.iter().all(|octets| octets.get(slice) == Some(&0)));
    let span = |(first, last): (usize, usize)| seconds(ends[last]) - start(first);
    let runs = runs_of(silent);
    let longest = runs.iter().copied().max_by(|a, b| span(*a).total_cmp(&span(*b)));
    let stalls = runs.iter().filter_map(|run| {
        let (first, last) = *run;
        let (from, to) = (start(first), seconds(ends[last]));
        // It began in the slice before, and ended in the one behind.
        let most = span((first.saturating_sub(1), (last + 1).min(ends.len() - 1)));
        let exact = way.longest_s.filter(|exact| longest == Some(*run) && (to - from..=most).contains(exact));
        let to = from + exact.unwrap_or(to - from);
        // What began late, or ended early, is no stall.
        let is_within = first > 0 && last + 1 < ends.len();
        let starved = || waits.iter().any(|waits| waits.made(from, to));
        (is_within && to - from >= least && !starved()).then_some((from, to))
    });
    // Each looks at every slice: only as many as are told may.
    let stalls = stalls.take(MOST).map(|(from, to)| {
        let lost_share = way.lost_share(from, to);
        event(from, Some(to - from), EventKind::Stall { direction: Some(way.direction), lost_share })
    });
    died.chain(stalls).take(MOST).collect()
}

/// The moments from which on a stream loses all the time, where it lost next to nothing before: a bucket that was full, a filter that
/// somebody made. And how long, where it loses next to nothing again behind that.
fn losses_began(way: &Arrivals<'_>) -> Vec<Event> {
    let columns = way.losing.and_then(|(timeline, column)| {
        let sum = |column| way.sums(timeline, column);
        Some((&timeline.ends_ns, sum(column)?, sum(FlowColumn::Messages)?, sum(FlowColumn::Octets)?))
    });
    let Some((ends, missing, arrived, octets)) = columns else { return Vec::new() };
    let ratio = |slices: std::ops::Range<usize>| {
        let (missing, arrived): (f64, f64) = (missing[slices.clone()].iter().sum(), arrived[slices].iter().sum());
        missing / (missing + arrived).max(1.0)
    };
    let of_all = ratio(0..ends.len());
    let loses = |slice: usize| missing[slice] > 0.0 && ratio(slice..slice + 1) >= 0.5 * of_all;
    let end_s = ends.last().map_or(0.0, |end| seconds(*end));
    // As many slices without loss part two such times.
    let mut times: Vec<(usize, usize)> = Vec::new();
    for slice in (1..ends.len()).filter(|slice| loses(*slice)) {
        match times.last_mut() {
            Some((_, last)) if slice - *last <= LOSSY_SLICES => *last = slice,
            _ => times.push((slice, slice)),
        }
    }
    let final_slice = times.last().map_or(0, |(_, last)| *last);
    let (mut inside, mut slices) = (0.0, 0);
    let mut events = Vec::new();
    for (first, last) in times {
        let Some(first) = (first..last).find(|slice| loses(*slice) && loses(slice + 1)) else { continue };
        let is_over = last != final_slice || end_s - seconds(ends[last]) >= BEGAN_LATE * end_s;
        // The first and the last may have lost for a part of their time.
        let within = first + 1..if is_over { last } else { ends.len() - 1 };
        let lossy = within.clone().filter(|slice| loses(*slice)).count();
        if within.len() < LEAST_SLICES || (lossy as f64) < STAYS * within.len() as f64 {
            continue;
        }
        inside += missing[first..=last].iter().sum::<f64>();
        slices += within.len();
        let at_s = seconds(ends[first - 1]);
        let span_s = seconds(ends[within.end - 1]) - seconds(ends[first]);
        let bps = octets[within.clone()].iter().sum::<f64>() * 8.0 / span_s.max(1e-6);
        let direction = Some(way.direction);
        let lost_and_arrived = within.clone().map(|slice| (missing[slice], arrived[slice]));
        let spans = within.clone().map(|slice| seconds(ends[slice]) - seconds(ends[slice - 1]));
        let steady = is_steady(&lost_and_arrived.zip(spans).collect::<Vec<_>>());
        let what = EventKind::LossBegan { direction, loss_ratio: ratio(within), throughput_bps: bps.round(), steady };
        let for_s = is_over.then(|| seconds(ends[last]) - at_s);
        events.push(Event { at_s, for_s, within_s: seconds(ends[first]) - at_s, end: None, what });
    }
    let all: f64 = missing.iter().sum();
    let is_late = events.first().is_some_and(|first| first.at_s >= BEGAN_LATE * end_s);
    if is_late && slices >= LOSSY_SLICES && all - inside <= FEW_BEFORE * all { events } else { Vec::new() }
}

/// Whether what arrived of datagrams, slice by slice, with what was lost and the slice's seconds, varies by far less than it does where each
/// is lost by chance, which makes its variance that of a binomial distribution.
fn is_steady(slices: &[((f64, f64), f64)]) -> bool {
    let (lost, arrived, span_s) = slices
        .iter()
        .fold((0.0, 0.0, 0.0), |sum, ((lost, arrived), span_s)| (sum.0 + lost, sum.1 + arrived, sum.2 + span_s));
    let passes = arrived / (lost + arrived).max(1.0);
    let of_chance = |(lost, arrived): (f64, f64)| (lost + arrived) * passes * (1.0 - passes);
    if slices.iter().any(|(counts, _)| of_chance(*counts) < LEAST_VARIANCE) {
        return false;
    }
    let excess =
        |(counts, own_s): &((f64, f64), f64)| (counts.1 - arrived * own_s / span_s).powi(2) / of_chance(*counts);
    let freedom = slices.len().saturating_sub(1);
    let ratio = slices.iter().map(excess).sum::<f64>() / freedom.max(1) as f64;
    freedom > 0 && ratio < least_variance(freedom, IMPROBABLE_DEVIATIONS)
}

/// The short time into which nearly all falls that TCP retransmitted, where none of its silences says so: what lost it did so once.
fn lost_at_once(way: &Arrivals<'_>, silences: &[Event]) -> Option<Event> {
    let (timeline, column) = way.losing?;
    let (ends, again) = (&timeline.ends_ns, way.sums(timeline, column)?);
    let all: f64 = again.iter().sum();
    // What had arrived all the same was not lost: packets overtook each other.
    let spurious: f64 = way.sums(timeline, FlowColumn::Spurious).into_iter().flatten().sum();
    let end_s = seconds(*ends.last()?);
    let start = |slice: usize| if slice == 0 { 0.0 } else { seconds(ends[slice - 1]) };
    let span = |(first, last): (usize, usize)| seconds(ends[last]) - start(first);
    // The shortest run of slices with so many; each that is lossy may be its first.
    let run_from = |first: usize| {
        let mut within = 0.0;
        let last = (first..again.len()).find(|slice| {
            within += again[*slice];
            within >= NEARLY_ALL * all
        })?;
        Some(((first, last), within))
    };
    let runs = (0..again.len()).filter(|first| again[*first] > 0.0).map_while(run_from);
    let (run, within) = runs.min_by(|a, b| span(a.0).total_cmp(&span(b.0)))?;
    let is_short = span(run) <= ONCE_S.min(ONCE_PART * end_s);
    // What a silence lost is retransmitted within it and behind it.
    let (from_s, to_s) = (start(run.0), seconds(ends[run.1]));
    let is_told = |silence: &Event| {
        silence.at_s <= to_s && silence.for_s.is_none_or(|for_s| from_s <= silence.at_s + for_s + way.recovery_s(for_s))
    };
    if !is_short || all - spurious < LEAST_AT_ONCE.max(all / 2.0) || silences.iter().any(is_told) {
        return None;
    }
    let what = EventKind::LossAtOnce { direction: Some(way.direction), segments: within as u64, share: within / all };
    Some(Event { at_s: from_s, for_s: Some(to_s - from_s), within_s: seconds(ends[0]), end: None, what })
}

/// What arrived of a direction, to be held against itself at other times.
struct Arrived<'a> {
    ends: &'a [u64],
    /// Until before each slice, and until the end.
    until: Vec<f64>,
    /// The whole slices: the first and the last are none.
    whole: std::ops::Range<usize>,
}

impl<'a> Arrived<'a> {
    fn of(way: &'a Arrivals<'_>) -> Option<Arrived<'a>> {
        let octets = way.sums(way.seen, FlowColumn::Octets)?;
        let step = |sum: &mut f64, octets: &f64| {
            *sum += octets;
            Some(*sum)
        };
        let until = std::iter::once(0.0).chain(octets.iter().scan(0.0, step)).collect();
        let ends: &[u64] = &way.seen.ends_ns;
        Some(Arrived { ends, until, whole: 1..ends.len().checked_sub(1)? })
    }

    /// When this slice begins.
    fn start(&self, slice: usize) -> f64 {
        seconds(self.ends[slice - 1])
    }

    fn span(&self, from: usize, to: usize) -> f64 {
        self.start(to) - self.start(from)
    }

    /// Octets a second in the slices from one to before the other.
    fn rate(&self, from: usize, to: usize) -> f64 {
        (self.until[to] - self.until[from]) / self.span(from, to).max(1e-6)
    }

    /// Of all whole slices but these.
    fn rate_beside(&self, from: usize, to: usize) -> f64 {
        let (first, last) = (self.whole.start, self.whole.end);
        let octets = self.until[from] - self.until[first] + self.until[last] - self.until[to];
        octets / (self.span(first, from) + self.span(to, last)).max(1e-6)
    }

    /// Whether these are enough to have a rate of their own.
    fn is_long(&self, from: usize, to: usize) -> bool {
        let whole_s = self.ends.last().map_or(0.0, |end| seconds(*end));
        to >= from + CHANGED_SLICES && self.span(from, to) >= CHANGED_FOR * whole_s
    }

    /// Whether most of these slices are nearer to their own rate than to the other one.
    fn is_near(&self, from: usize, to: usize, own: f64, other: f64) -> bool {
        let middle = (own + other) / 2.0;
        let near = (from..to).filter(|slice| (self.rate(*slice, slice + 1) > middle) == (own > middle)).count();
        near as f64 >= NEAR * (to - from) as f64
    }

    /// Whether it changed by half of that from the slices before this one to those from it on.
    fn is_at_once(&self, at: usize, by: f64) -> bool {
        (self.rate(at - AT_ONCE, at) - self.rate(at, at + AT_ONCE)).abs() >= by.abs() / 2.0
    }
}

/// Whether two rates are two, and neither is a silence.
fn is_another(before: f64, after: f64) -> bool {
    let (less, more) = (before.min(after), before.max(after));
    more > CHANGED * less && less > SILENT * more
}

fn rate_event(way: &Arrivals<'_>, at_s: f64, for_s: Option<f64>, within_s: f64, rates: [f64; 2]) -> Event {
    let [from_bps, to_bps] = rates.map(|rate| (rate * 8.0).round());
    let what = EventKind::RateChanged { direction: Some(way.direction), from_bps, to_bps };
    Event { at_s, for_s, within_s, end: None, what }
}

/// The moment from which on a stream has another rate, which it keeps: a link that negotiated anew, a shaper that was set, another
/// way.
fn rate_changed(way: &Arrivals<'_>) -> Option<Event> {
    let arrived = Arrived::of(way)?;
    let (first, last) = (arrived.whole.start, arrived.whole.end);
    // Where the two sides differ most, for their lengths.
    let parted = |at: usize| {
        let by = arrived.rate(first, at) - arrived.rate(at, last);
        arrived.span(first, at) * arrived.span(at, last) * by.powi(2)
    };
    let may_be = (first + 1..last).filter(|at| arrived.is_long(first, *at) && arrived.is_long(*at, last));
    let at = may_be.max_by(|a, b| parted(*a).total_cmp(&parted(*b)))?;
    let (before, after) = (arrived.rate(first, at), arrived.rate(at, last));
    let stays = arrived.is_near(first, at, before, after) && arrived.is_near(at, last, after, before);
    (is_another(before, after) && stays && arrived.is_at_once(at, after - before))
        .then(|| rate_event(way, arrived.start(at), None, arrived.span(at, at + 1), [before, after]))
}

/// The time in which a stream was slower than before and after: a shaper that came and went, others' traffic.
fn slow_for_a_while(way: &Arrivals<'_>) -> Option<Event> {
    let arrived = Arrived::of(way)?;
    let (first, last) = (arrived.whole.start + CHANGED_SLICES, arrived.whole.end.checked_sub(CHANGED_SLICES)?);
    // Where it differs most from the rest, for their lengths.
    let whole_s = arrived.span(arrived.whole.start, arrived.whole.end);
    let parted = |(from, to): (usize, usize)| {
        let (within_s, by) = (arrived.span(from, to), arrived.rate(from, to) - arrived.rate_beside(from, to));
        within_s * (whole_s - within_s) * by.min(0.0).powi(2)
    };
    let spans = (first..last).flat_map(|from| (from + CHANGED_SLICES..=last).map(move |to| (from, to)));
    let span =
        spans.max_by(|a, b| parted(*a).total_cmp(&parted(*b))).filter(|(from, to)| arrived.is_long(*from, *to))?;
    let (from, to) = span;
    let (slow, usual) = (arrived.rate(from, to), arrived.rate_beside(from, to));
    let stays = arrived.is_near(from, to, slow, usual)
        && arrived.is_near(arrived.whole.start, from, usual, slow)
        && arrived.is_near(to, arrived.whole.end, usual, slow);
    // What waits for TCP's timer brings nothing most of the time.
    let passing = (from..to).filter(|slice| arrived.rate(*slice, slice + 1) >= slow / 2.0).count();
    let passes = passing as f64 >= NEAR * (to - from) as f64;
    let changes = || arrived.is_at_once(from, usual - slow) && arrived.is_at_once(to, usual - slow);
    (slow < usual && is_another(usual, slow) && stays && passes && changes()).then(|| {
        let (at_s, for_s) = (arrived.start(from), Some(arrived.span(from, to)));
        rate_event(way, at_s, for_s, arrived.span(from, from + 1), [usual, slow])
    })
}

/// Octets that a message needs beside itself, at most: headers of its packet and of its acknowledgement. A connection of its own has
/// three packets to begin and four to end besides (RFC 9293, section 3.5 and 3.6), of up to 78 octets each.
fn headers_of(workload: Workload) -> f64 {
    if workload == Workload::TcpCrr { 120.0 + 7.0 * 78.0 } else { 120.0 }
}

/// Octets of payload in a segment of a stream, on average, as this end counts them.
fn of_segment(outcome: &Outcome, flow: u16) -> Option<f64> {
    let flow = outcome.flows.iter().find(|one| one.id == flow)?;
    let segments = flow.segments?;
    let count = segments.sent.max(segments.received);
    (count > 0 && flow.octets_total > 0).then(|| flow.octets_total as f64 / count as f64)
}

/// Times in which others used an end's interface: what it counted beyond the trial's own, whose messages need so many octets of
/// headers. `sent` is what the other end saw of a stream: of what this end misses, the part `seen` came to its interface all the
/// same, also in slices in which nothing was delivered; and all that it retransmitted may have.
fn others(outcome: &Outcome, sent: Option<&Timeline>, headers: f64, seen: f64) -> Vec<Event> {
    let timeline = &outcome.timeline;
    let ends = &timeline.ends_ns;
    let machine = |column, slice| timeline.machine.get(column, slice);
    let (Some(first), true) = (ends.first(), timeline.flows.len() == outcome.flows.len()) else { return Vec::new() };
    // What the trial may have moved either way at most: headers, acknowledgements and retransmissions included.
    let own = |slice: usize| -> Option<f64> {
        let mut sum = 0.0;
        for flow in &timeline.flows {
            let octets = flow.columns.get(FlowColumn::Octets, slice)? as f64;
            let messages = flow.columns.get(FlowColumn::Messages, slice)? as f64;
            // What never arrived was as large as what did.
            let missing = seen * flow.columns.get(FlowColumn::Missing, slice).unwrap_or(0) as f64;
            let whole = if messages > 0.0 { 1.0 + missing / messages } else { 1.0 };
            // A read of TCP's takes many segments, where they are small.
            let segments = |octets: f64| octets / of_segment(outcome, flow.id).unwrap_or(f64::INFINITY);
            let with_headers =
                |octets: f64, messages: f64| octets * 1.1 + messages.max(segments(octets)).min(octets) * headers;
            let delivered = with_headers(octets, messages);
            let at_sender = |column| {
                let sent = sent?;
                let flow = sent.flows.iter().find(|other| other.id == flow.id)?;
                // Of a trial that failed an end may tell less: it went on as it had last.
                let slice = if slice < sent.ends_ns.len() { slice } else { sent.ends_ns.len().checked_sub(2)? };
                Some(flow.columns.get(column, slice)? as f64)
            };
            let of_sender = at_sender(FlowColumn::Octets).filter(|_| seen > 0.0).map(|octets| {
                let sent = with_headers(octets, at_sender(FlowColumn::Messages).unwrap_or(0.0));
                delivered + seen * (sent - delivered).max(0.0)
            });
            // What TCP retransmits was given to it once, and what arrives though it had is delivered once.
            let again = flow.columns.get(FlowColumn::Retransmitted, slice).map(|count| count as f64);
            let again = again.or_else(|| at_sender(FlowColumn::Retransmitted)).unwrap_or(0.0) * SEGMENT;
            sum += (delivered * whole).max(of_sender.unwrap_or(0.0)) + again;
        }
        Some(sum)
    };
    // Traffic comes in trains, and slices of flows and of interfaces are not cut at the same moment.
    let with_next = |slice: usize| {
        let around = slice.saturating_sub(1)..(slice + 2).min(ends.len());
        around.map(own).collect::<Option<Vec<f64>>>().map(|own| own.into_iter().fold(0.0, f64::max))
    };
    let excess = |slice: usize| -> f64 {
        let from = if slice == 0 { 0 } else { ends[slice - 1] };
        let span = seconds(ends[slice].saturating_sub(from)).max(1e-6);
        let Some(own) = with_next(slice) else { return 0.0 };
        let counted = [MachineColumn::RxOctets, MachineColumn::TxOctets].map(|column| machine(column, slice));
        let most = counted.into_iter().flatten().max().unwrap_or(0) as f64;
        let more = (most - own) / span;
        if more >= OTHERS && most - own >= OTHERS_PART * own { more } else { 0.0 }
    };
    let excesses: Vec<f64> = (0..ends.len()).map(excess).collect();
    let runs = runs_of(excesses.iter().map(|more| *more > 0.0));
    let runs = runs.into_iter().filter(|(first, last)| last + 1 - first >= OTHERS_SLICES);
    runs.map(|(from, to)| {
        let start = if from == 0 { 0.0 } else { seconds(ends[from - 1]) };
        let mean = excesses[from..=to].iter().sum::<f64>() / (to + 1 - from) as f64;
        Event {
            at_s: start,
            for_s: Some(seconds(ends[to]) - start),
            within_s: seconds(*first),
            end: Some(outcome.end),
            what: EventKind::OthersTraffic { octets_per_s: mean.round() },
        }
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use linerate_trial::outcome::Segments;

    use super::*;

    const SLICE: u64 = 50_000_000;

    fn timeline(flows: &[&[u64]]) -> Timeline {
        let ends_ns = (1..=flows[0].len() as u64).map(|k| k * SLICE).collect();
        let mut timeline = Timeline { ends_ns, ..Timeline::default() };
        for (id, octets) in flows.iter().enumerate() {
            let mut flow = FlowTimeline { id: id as u16, ..FlowTimeline::default() };
            for (slice, octets) in octets.iter().enumerate() {
                let values = [(FlowColumn::Octets, Some(*octets)), (FlowColumn::Messages, Some(octets / 1000))];
                flow.columns.push(slice, values);
            }
            timeline.flows.push(flow);
        }
        timeline
    }

    fn silences_of(flows: &[&[u64]], gap_s: f64) -> Vec<(String, f64, Option<f64>)> {
        silences_with(flows, gap_s, None)
    }

    fn silences_with(flows: &[&[u64]], gap_s: f64, longest_s: Option<f64>) -> Vec<(String, f64, Option<f64>)> {
        let seen = timeline(flows);
        let way = Arrivals {
            direction: Direction::Rx,
            flows: (0..flows.len() as u16).collect(),
            seen: &seen,
            gap_s,
            longest_s,
            least: LeastSilence { stall_s: 0.2, death_s: 0.4 },
            losing: None,
        };
        let told =
            |event: Event| (event.what.name().to_owned(), event.at_s, event.for_s.map(|s| (s * 1e3).round() / 1e3));
        silences(&way).into_iter().map(told).collect()
    }

    #[test]
    fn stalls_lie_between_arrivals() {
        let stall = |at, seconds| vec![("stall".to_owned(), at, Some(seconds))];
        assert_eq!(silences_of(&[&[9, 0, 0, 0, 0, 9]], 0.0), stall(0.05, 0.2));
        assert_eq!(silences_of(&[&[9, 0, 0, 0, 9, 9]], 0.0), [], "150 ms a busy machine may take");
        assert_eq!(silences_of(&[&[0, 0, 0, 0, 0, 9]], 0.0), [], "it began late");
        assert_eq!(silences_of(&[&[9, 0, 0, 0, 0, 9]], 0.02), [], "twenty a second, in trains");
        // One of two streams moves on.
        assert_eq!(silences_of(&[&[9, 0, 0, 0, 0, 9], &[9, 9, 9, 9, 9, 9]], 0.0), []);
    }

    #[test]
    fn the_longest_gap_tells_how_long_a_stall_was() {
        let told = |longest_s: f64| -> Vec<f64> {
            // Three slices of 50 ms, and one elsewhere.
            let octets = [9, 9, 0, 0, 0, 9, 9, 0, 9];
            silences_with(&[&octets], 0.0, Some(longest_s)).into_iter().filter_map(|(.., seconds)| seconds).collect()
        };
        assert_eq!(told(0.21), [0.21]);
        assert_eq!(told(0.19), [0.0; 0], "shorter than what is told");
        assert_eq!(told(0.3), [0.0; 0], "longer than the slices allow: it lay elsewhere");
    }

    #[test]
    fn a_flow_that_never_comes_back_has_died() {
        let mut dead = vec![9; 10];
        dead.extend([0; 10]);
        let died = vec![("flow-died".to_owned(), 0.5, None)];
        assert_eq!(silences_of(&[&dead], 0.0), died);
        assert_eq!(silences_of(&[&dead, &[9; 20]], 0.0), died);
        assert_eq!(silences_of(&[&[0; 20]], 0.0), [], "it never lived");
        let ended = [&[9; 15][..], &[0; 5]].concat();
        assert_eq!(silences_of(&[&ended], 0.0), [], "a quarter of a second before the end");
    }

    #[test]
    fn requests_that_two_time_outs_end_have_died() {
        let died = |silent: usize| {
            let answered: Vec<u64> = (0..80).map(|slice| if slice >= 80 - silent { 0 } else { 9_000 }).collect();
            let (seen, sent) = (timeline(&[&answered]), timeline(&[&[0; 80]]));
            silences(&Arrivals { least: LeastSilence::of(Workload::UdpRr), losing: None, ..of_tcp(&seen, &sent) }).len()
        };
        // Of 50 ms each: one request alone is given up after 1 s.
        assert_eq!((died(26), died(22)), (1, 0));
    }

    /// A column of the sender's, by the slice's number.
    type Made = (FlowColumn, fn(usize) -> u64);

    /// Nothing arrives from 0.5 s to 1.0 s, of 4 s; what the sender saw meanwhile.
    fn outage(columns: &[Made]) -> (Timeline, Timeline) {
        let arrived: Vec<u64> = (0..80).map(|slice| if (10..20).contains(&slice) { 0 } else { 9_000 }).collect();
        let (received, mut sent) = (timeline(&[&arrived]), timeline(&[&[9_000; 80]]));
        for (column, value) in columns {
            sent.flows[0].columns.0.insert(*column, (0..80).map(value).collect());
        }
        (received, sent)
    }

    /// One stream of TCP, as its receiver and its sender saw it.
    fn of_tcp<'a>(seen: &'a Timeline, sent: &'a Timeline) -> Arrivals<'a> {
        Arrivals {
            direction: Direction::Tx,
            flows: vec![0],
            seen,
            gap_s: 0.0,
            longest_s: None,
            least: LeastSilence::of(Workload::TcpStream),
            losing: Some((sent, FlowColumn::Retransmitted)),
        }
    }

    fn of_outage(columns: &[Made]) -> Vec<Event> {
        let (seen, sent) = outage(columns);
        silences(&of_tcp(&seen, &sent))
    }

    #[test]
    fn what_was_lost_falls_into_a_stall_or_beside_it() {
        let share = |columns: &[Made]| match &of_outage(columns)[..] {
            [Event { what: EventKind::Stall { direction: Some(Direction::Tx), lost_share }, .. }] => *lost_share,
            other => panic!("{other:?}"),
        };
        assert_eq!(share(&[]), None, "nobody tells");
        assert_eq!(share(&[(FlowColumn::Retransmitted, |_| 0)]), None, "nothing was lost");
        assert_eq!(share(&[(FlowColumn::Retransmitted, |slice| u64::from((10..23).contains(&slice)))]), Some(1.0));
        assert_eq!(share(&[(FlowColumn::Retransmitted, |slice| u64::from(slice >= 40))]), Some(0.0));
        // Those that end from 0.5 s to 1.3 s: the silence, the slice in which it began, and 0.3 s after it.
        assert_eq!(share(&[(FlowColumn::Retransmitted, |_| 2)]).map(|share| (share * 80.0).round()), Some(17.0));
    }

    #[test]
    fn of_most_of_a_trial_nothing_is_told_by_when_it_was_lost() {
        let arrived: Vec<u64> = (0..80).map(|slice| if slice >= 40 { 0 } else { 9_000 }).collect();
        let (seen, mut sent) = (timeline(&[&arrived]), timeline(&[&[9_000; 80]]));
        let mut check = |lost: &dyn Fn(usize) -> u64, lost_share: Option<f64>| {
            sent.flows[0].columns.0.insert(FlowColumn::Retransmitted, (0..80).map(lost).collect());
            let died = EventKind::FlowDied { flow: 0, direction: Some(Direction::Tx), lost_share };
            let events = silences(&of_tcp(&seen, &sent));
            assert_eq!(events.into_iter().map(|event| event.what).collect::<Vec<_>>(), [died]);
        };
        check(&|_| 1, None);
        check(&|slice| u64::from(slice >= 40), None);
        // What was lost before tells that loss goes on outside of it.
        check(&|slice| if slice == 50 { 1 } else { u64::from(slice < 3) }, Some(0.25));
    }

    #[test]
    fn of_most_of_a_trial_that_went_on_it_is_told_where_hardly_any_of_its_traffic_fell_into_it() {
        // From 0.75 s to 3 s of 6 s, and half as long of recovery.
        let share = |recovery: u64, lost: &dyn Fn(usize) -> u64| {
            let of = |slice: usize| match slice {
                15..60 => 0,
                60..82 => recovery,
                _ => 9_000,
            };
            let arrived: Vec<u64> = (0..120).map(of).collect();
            let (seen, mut sent) = (timeline(&[&arrived]), timeline(&[&[9_000; 120]]));
            sent.flows[0].columns.0.insert(FlowColumn::Retransmitted, (0..120).map(lost).collect());
            match &silences(&of_tcp(&seen, &sent))[..] {
                [Event { what: EventKind::Stall { lost_share, .. }, .. }] => {
                    lost_share.map(|share| (share * 100.0).round())
                }
                other => panic!("{other:?}"),
            }
        };
        let more_within = |slice: usize| if (14..82).contains(&slice) { 5 } else { 1 };
        assert_eq!(share(2_000, &more_within), Some(87.0));
        assert_eq!(share(30_000, &more_within), None);
        // Chance does not put all of many into three fifths of the traffic; of a few it may.
        assert_eq!(share(30_000, &|slice| u64::from(slice == 70) * 40), Some(100.0));
        assert_eq!(share(30_000, &|slice| u64::from(slice == 70) * 8), None);
    }

    #[test]
    fn a_thread_that_had_no_cpu_made_the_silence_itself() {
        let found = |waits: fn(usize) -> u64| of_outage(&[(FlowColumn::RunDelayUs, waits)]).len();
        assert_eq!(found(|_| 0), 1);
        // 30 % of 0.5 s, within it and elsewhere.
        assert_eq!(found(|slice| if (10..20).contains(&slice) { 16_000 } else { 0 }), 0);
        assert_eq!(found(|slice| if (10..20).contains(&slice) { 14_000 } else { 0 }), 1);
        assert_eq!(found(|slice| if (10..20).contains(&slice) { 0 } else { 50_000 }), 1);
        // A column that is shorter than the slices, as a hostile agent may have it.
        let (seen, mut sent) = outage(&[]);
        sent.flows[0].columns.0.insert(FlowColumn::RunDelayUs, vec![50_000; 3]);
        let way = of_tcp(&seen, &sent);
        assert_eq!(silences(&way).len(), 1);
    }

    #[test]
    fn a_flow_whose_thread_had_no_cpu_to_the_end_has_not_died() {
        let arrived: Vec<u64> = (0..40).map(|slice| if slice >= 20 { 0 } else { 9_000 }).collect();
        let (seen, mut sent) = (timeline(&[&arrived, &[9_000; 40]]), timeline(&[&[9_000; 40], &[9_000; 40]]));
        let mut found = |flow: usize, waited_us: u64| {
            sent.flows.iter_mut().for_each(|flow| _ = flow.columns.0.remove(&FlowColumn::RunDelayUs));
            sent.flows[flow].columns.0.insert(FlowColumn::RunDelayUs, vec![waited_us; 40]);
            let mut way = of_tcp(&seen, &sent);
            way.flows = vec![0, 1];
            silences(&way).len()
        };
        assert_eq!(found(0, 16_000), 0);
        assert_eq!(found(0, 14_000), 1);
        assert_eq!(found(1, 50_000), 1, "another's thread");
    }

    #[test]
    fn no_more_stalls_are_told_than_are_worth_it() {
        let arrived: Vec<u64> = (0..2_000).map(|slice| u64::from(slice % 10 == 0)).collect();
        let lengths: Vec<f64> = silences_of(&[&arrived], 0.0).into_iter().filter_map(|(.., seconds)| seconds).collect();
        assert_eq!(lengths, [0.45; MOST]);
    }

    #[test]
    fn others_traffic_is_what_the_interface_counted_beyond_the_trial_s() {
        let mut outcome = Outcome::of_flows(End::Target, vec![]);
        outcome.flows = vec![linerate_trial::outcome::FlowOutcome::new(0, linerate_trial::outcome::Role::Receiver)];
        outcome.timeline = timeline(&[&[1_000_000; 8]]);
        let count = |outcome: &mut Outcome, octets: [u64; 8]| {
            outcome.timeline.machine = Columns::default();
            for (slice, octets) in octets.into_iter().enumerate() {
                outcome.timeline.machine.push(slice, [(MachineColumn::RxOctets, Some(octets))]);
            }
        };
        count(&mut outcome, [1_060_000; 8]);
        assert_eq!(others(&outcome, None, 120.0, 0.0), []);
        count(&mut outcome, [1_060_000, 1_060_000, 3_000_000, 3_000_000, 3_000_000, 1_060_000, 1_060_000, 1_060_000]);
        let found = others(&outcome, None, 120.0, 0.0);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].at_s, found[0].for_s, found[0].end), (0.1, Some(0.15), Some(End::Target)));
        let EventKind::OthersTraffic { octets_per_s } = found[0].what else { panic!() };
        assert!((30e6..40e6).contains(&octets_per_s), "{octets_per_s}");
        // Segments of 90 octets, in reads of many: with their headers and acknowledgements.
        let mut small = outcome.clone();
        count(&mut small, [2_300_000; 8]);
        assert_eq!(others(&small, None, 120.0, 0.0).len(), 1);
        small.flows[0].octets_total = 8_000_000;
        small.flows[0].segments = Some(Segments { received: 8_000_000 / 90, ..Segments::default() });
        assert_eq!(others(&small, None, 120.0, 0.0), []);
        // Two of three datagrams came as far as the interface and no further: a thousand of a thousand octets arrived.
        outcome.timeline.flows[0].columns.0.insert(FlowColumn::Missing, vec![2000; 8]);
        count(&mut outcome, [3_180_000; 8]);
        assert_eq!(others(&outcome, None, 120.0, 0.0).len(), 1, "on the way: then somebody else's came here");
        assert_eq!(others(&outcome, None, 120.0, 1.0), []);
    }

    #[test]
    fn what_tcp_sent_twice_is_its_own_at_both_ends() {
        let mut outcome = Outcome::of_flows(End::Target, vec![]);
        outcome.flows = vec![linerate_trial::outcome::FlowOutcome::new(0, linerate_trial::outcome::Role::Receiver)];
        outcome.timeline = timeline(&[&[1_000_000; 8]]);
        (0..8).for_each(|slice| outcome.timeline.machine.push(slice, [(MachineColumn::RxOctets, Some(1_600_000))]));
        let mut sent = timeline(&[&[1_000_000; 8]]);
        let mut others_of = |again: u64| {
            sent.flows[0].columns.0.insert(FlowColumn::Retransmitted, vec![again; 8]);
            others(&outcome, Some(&sent), 120.0, 0.0).len()
        };
        assert_eq!((others_of(0), others_of(300)), (1, 0));
    }

    #[test]
    fn what_dies_behind_the_interface_is_nobody_else_s_traffic() {
        let mut outcome = Outcome::of_flows(End::Target, vec![]);
        outcome.flows = vec![linerate_trial::outcome::FlowOutcome::new(0, linerate_trial::outcome::Role::Receiver)];
        // Of eight slices three bring nothing to the application, and all of them as much to the interface.
        outcome.timeline = timeline(&[&[1_000_000, 1_000_000, 0, 0, 0, 0, 1_000_000, 1_000_000]]);
        let sent = timeline(&[&[1_000_000; 8]]);
        let mut count = |octets: u64, seen: f64| {
            outcome.timeline.machine = Columns::default();
            for slice in 0..8 {
                outcome.timeline.machine.push(slice, [(MachineColumn::RxOctets, Some(octets))]);
            }
            others(&outcome, Some(&sent), 120.0, seen).len()
        };
        assert_eq!(count(1_060_000, 1.0), 0);
        assert_eq!(count(1_060_000, 0.0), 1, "it died on the way: somebody else's came here");
        assert_eq!(count(3_000_000, 1.0), 1, "others' came besides");
        assert_eq!(count(1_060_000, 0.4), 1, "of what died a part came here");
        // Three slices of the sender's: it goes on.
        let (mut outcome, sent) = (outcome, timeline(&[&[1_000_000; 3]]));
        outcome.timeline.machine = Columns::default();
        (0..8).for_each(|slice| outcome.timeline.machine.push(slice, [(MachineColumn::RxOctets, Some(1_060_000))]));
        assert_eq!(others(&outcome, Some(&sent), 120.0, 1.0), []);
    }

    #[test]
    fn loss_that_begins_and_stays_is_told_with_the_rate_after_it() {
        let check = |lost: fn(usize) -> u64, began: &[(f64, Option<f64>, f64, f64)]| {
            // A hundred datagrams of a thousand octets in each slice, or what is left of them.
            let arrived: Vec<u64> = (0..40).map(|slice| 1000 * (100 - lost(slice))).collect();
            let (mut seen, sent) = (timeline(&[&arrived]), timeline(&[&[100_000; 40]]));
            seen.flows[0].columns.0.insert(FlowColumn::Missing, (0..40).map(lost).collect());
            let way = Arrivals { losing: Some((&seen, FlowColumn::Missing)), ..of_tcp(&seen, &sent) };
            let told = losses_began(&way).into_iter().map(|event| match event.what {
                EventKind::LossBegan { loss_ratio, throughput_bps, .. } => {
                    let thousandths = |value: f64| (value * 1e3).round() / 1e3;
                    (event.at_s, event.for_s.map(thousandths), thousandths(loss_ratio), throughput_bps / 1e6)
                }
                other => panic!("{other:?}"),
            });
            assert_eq!(told.collect::<Vec<_>>(), began);
        };
        check(|slice| if slice < 20 { 0 } else { 40 }, &[(1.0, None, 0.4, 9.6)]);
        // One that was lost before, and a first slice of which a part was.
        check(|slice| [u64::from(slice == 3), 25, 40][slice.saturating_sub(19).min(2)], &[(1.0, None, 0.4, 9.6)]);
        check(|_| 40, &[]);
        check(|slice| if slice < 2 { 0 } else { 40 }, &[]);
        check(|slice| if (10..20).contains(&slice) { 40 } else { 0 }, &[(0.5, Some(0.5), 0.4, 9.6)]);
        check(|slice| if (10..20).contains(&slice) { 40 } else { u64::from(slice > 30) * 5 }, &[]);
        check(|slice| if (10..14).contains(&slice) { 40 } else { 0 }, &[]);
        check(|slice| if slice >= 20 && slice % 3 == 0 { 40 } else { 0 }, &[]);
        check(|slice| if slice < 36 { 0 } else { 40 }, &[]);
        check(|_| 0, &[]);
        // Twice, with few slices between; and beside what is lost all the time.
        check(
            |slice| if (8..18).contains(&slice) || (26..40).contains(&slice) { 40 } else { 0 },
            &[(0.4, Some(0.5), 0.4, 9.6), (1.3, None, 0.4, 9.6)],
        );
        check(
            |slice| if (8..14).contains(&slice) || (26..32).contains(&slice) { 40 } else { 0 },
            &[(0.4, Some(0.3), 0.4, 9.6), (1.3, Some(0.3), 0.4, 9.6)],
        );
        check(|slice| if (8..18).contains(&slice) || (26..36).contains(&slice) { 40 } else { 4 }, &[]);
    }

    #[test]
    fn what_passes_a_limit_of_rate_varies_less_than_chance_makes() {
        let mut chance = linerate_trial::pace::SplitMix64::new(7);
        // Of 200 datagrams a slice 20 pass, or each by chance, or all that fit a bucket that is full each fourth slice.
        let check = |passes: &mut dyn FnMut(usize) -> u64, slices: usize| {
            let counts = (0..slices).map(|slice| {
                let arrived = passes(slice).min(200);
                ((200.0 - arrived as f64, arrived as f64), 0.05)
            });
            is_steady(&counts.collect::<Vec<_>>())
        };
        assert!(check(&mut |_| 20, 12) && check(&mut |slice| 19 + slice as u64 % 3, 20));
        assert!(!check(&mut |_| 20, 3) && !check(&mut |slice| 50 * u64::from(slice % 4 == 0), 20));
        assert!(!check(&mut |_| 1, 20), "too few to tell");
        let by_chance =
            (0..1000).filter(|_| check(&mut |_| (0..200).filter(|_| chance.below(10) == 0).count() as u64, 20));
        assert!(by_chance.count() <= 5);
    }

    #[test]
    fn a_rate_that_is_less_for_a_while_is_told_with_both() {
        let check = |octets: &dyn Fn(u64) -> u64, slow: Option<(f64, f64, f64, f64)>| {
            let arrived: Vec<u64> = (0..80).map(octets).collect();
            let (seen, sent) = (timeline(&[&arrived]), timeline(&[&[100_000; 80]]));
            let way = of_tcp(&seen, &sent);
            let told = slow_for_a_while(&way).map(|event| match event.what {
                EventKind::RateChanged { from_bps, to_bps, .. } => {
                    (event.at_s, (event.for_s.unwrap() * 1e3).round() / 1e3, from_bps / 1e6, to_bps / 1e6)
                }
                other => panic!("{other:?}"),
            });
            assert_eq!(told, slow);
        };
        // Slices of 50 ms: 6250 octets are 1 Mbit/s.
        check(&|slice| if (24..50).contains(&slice) { 6250 } else { 62_500 }, Some((1.2, 1.3, 10.0, 1.0)));
        check(&|slice| if (24..68).contains(&slice) { 6250 } else { 62_500 }, Some((1.2, 2.2, 10.0, 1.0)));
        // To the end, more for a while, too little less, too short, silent, little by little, and now and then.
        check(&|slice| if slice < 24 { 62_500 } else { 6250 }, None);
        check(&|slice| if (24..50).contains(&slice) { 62_500 } else { 6250 }, None);
        check(&|slice| if (24..50).contains(&slice) { 45_000 } else { 62_500 }, None);
        check(&|slice| if (24..30).contains(&slice) { 6250 } else { 62_500 }, None);
        check(&|slice| if (24..50).contains(&slice) { 0 } else { 62_500 }, None);
        check(&|slice| 1000 + 2000 * slice.abs_diff(40), None);
        check(&|slice| if slice % 10 < 5 { 6250 } else { 62_500 }, None);
        // TCP's timer, which is tried now and then.
        check(&|slice| if (24..50).contains(&slice) { 9_000 * u64::from(slice % 4 == 0) } else { 62_500 }, None);
    }

    fn told_at_once(way: &Arrivals<'_>) -> Option<Event> {
        lost_at_once(way, &silences(way))
    }

    #[test]
    fn what_is_retransmitted_at_once_is_told() {
        let check = |again: &dyn Fn(usize) -> u64, told: Option<(f64, f64, u64)>| {
            let (seen, mut sent) = (timeline(&[&[9_000; 40]]), timeline(&[&[9_000; 40]]));
            sent.flows[0].columns.0.insert(FlowColumn::Retransmitted, (0..40).map(again).collect());
            let found = told_at_once(&of_tcp(&seen, &sent)).map(|event| match event.what {
                EventKind::LossAtOnce { segments, .. } => (event.at_s, event.for_s.unwrap(), segments),
                other => panic!("{other:?}"),
            });
            assert_eq!(found.map(|(at_s, for_s, count)| (at_s, (for_s * 1e3).round() / 1e3, count)), told);
        };
        check(&|slice| if (20..24).contains(&slice) { 10 } else { 0 }, Some((1.0, 0.2, 40)));
        // One before it is none of them; three are not nearly all.
        check(&|slice| [0, 1, 30][usize::from(slice == 3) + 2 * usize::from(slice == 25)], Some((1.25, 0.05, 30)));
        check(&|slice| [0, 4, 30][usize::from(slice == 3) + 2 * usize::from(slice == 25)], None);
        // Chance, a good part of the trial, all the time, and never.
        check(&|slice| if slice == 20 { 5 } else { 0 }, None);
        check(&|slice| if (20..30).contains(&slice) { 10 } else { 0 }, None);
        check(&|_| 5, None);
        check(&|_| 0, None);
    }

    #[test]
    fn of_datagrams_nothing_is_sent_again_behind_a_silence() {
        let share = |column: FlowColumn| {
            let (seen, mut sent) = outage(&[]);
            // Half of it 0.9 s behind a silence of 2 s, which only TCP's recovery reaches.
            sent.flows[0].columns.0.insert(column, (0..80).map(|slice| u64::from(slice == 5 || slice == 77)).collect());
            Arrivals { losing: Some((&sent, column)), ..of_tcp(&seen, &sent) }.lost_share(1.0, 3.0)
        };
        assert_eq!(share(FlowColumn::Missing), Some(0.0));
        assert_eq!(share(FlowColumn::Retransmitted), None, "half of it, in three quarters of the trial");
    }

    #[test]
    fn of_datagrams_that_came_no_more_nobody_noticed_the_loss() {
        let arrived: Vec<u64> = (0..80).map(|slice| if slice >= 60 { 0 } else { 9_000 }).collect();
        let (mut seen, sent) = (timeline(&[&arrived]), timeline(&[&[9_000; 80]]));
        seen.flows[0].columns.0.insert(FlowColumn::Missing, (0..80).map(|slice| u64::from(slice == 5)).collect());
        let of = |column| Arrivals { losing: Some((&seen, column)), ..of_tcp(&seen, &sent) };
        let share = |way: Arrivals<'_>| match &silences(&way)[..] {
            [Event { what: EventKind::FlowDied { lost_share, .. }, .. }] => *lost_share,
            other => panic!("{other:?}"),
        };
        assert_eq!(share(of(FlowColumn::Missing)), None);
        let mut again = seen.clone();
        again.flows[0]
            .columns
            .0
            .insert(FlowColumn::Retransmitted, (0..80).map(|slice| u64::from(slice == 5)).collect());
        let losing = Some((&again, FlowColumn::Retransmitted));
        assert_eq!(share(Arrivals { losing, ..of_tcp(&seen, &sent) }), Some(0.0));
    }

    #[test]
    fn what_had_arrived_all_the_same_was_not_lost_at_once() {
        let is_told = |spurious: u64| {
            let (seen, mut sent) = (timeline(&[&[9_000; 40]]), timeline(&[&[9_000; 40]]));
            let at_once = |count: u64| (0..40).map(|slice| if slice == 20 { count } else { 0 }).collect::<Vec<_>>();
            sent.flows[0].columns.0.insert(FlowColumn::Retransmitted, at_once(40));
            sent.flows[0].columns.0.insert(FlowColumn::Spurious, at_once(spurious));
            told_at_once(&of_tcp(&seen, &sent)).is_some()
        };
        assert!(is_told(0) && is_told(15) && !is_told(30));
    }

    #[test]
    fn what_a_silence_tells_is_not_told_again() {
        let (seen, mut sent) = outage(&[]);
        sent.flows[0]
            .columns
            .0
            .insert(FlowColumn::Retransmitted, (0..80).map(|slice| u64::from(slice == 20) * 9).collect());
        assert_eq!(told_at_once(&of_tcp(&seen, &sent)), None);
        assert!(told_at_once(&of_tcp(&timeline(&[&[9_000; 80]]), &sent)).is_some());
        // Nor by a silence of so much of the trial that nobody can tell what it lost, or by one elsewhere.
        let quiet = |slices: std::ops::Range<usize>| -> Vec<u64> {
            (0..80).map(|slice| if slices.contains(&slice) { 0 } else { 9_000 }).collect()
        };
        let (long, elsewhere) = (timeline(&[&quiet(1..19)]), timeline(&[&quiet(50..60)]));
        assert_eq!(told_at_once(&of_tcp(&long, &sent)), None);
        assert!(told_at_once(&of_tcp(&elsewhere, &sent)).is_some());
    }

    #[test]
    fn a_rate_that_changes_at_once_and_stays_is_told() {
        let check = |octets: &dyn Fn(u64) -> u64, changed: Option<(f64, f64, f64)>| {
            let arrived: Vec<u64> = (0..40).map(octets).collect();
            let (seen, sent) = (timeline(&[&arrived]), timeline(&[&[100_000; 40]]));
            let told = rate_changed(&of_tcp(&seen, &sent)).map(|event| match event.what {
                EventKind::RateChanged { from_bps, to_bps, .. } => (event.at_s, from_bps / 1e6, to_bps / 1e6),
                other => panic!("{other:?}"),
            });
            assert_eq!(told, changed);
        };
        // Slices of 50 ms: 6250 octets are 1 Mbit/s.
        check(&|slice| if slice < 24 { 62_500 } else { 6250 }, Some((1.2, 10.0, 1.0)));
        check(&|slice| if slice < 10 { 6250 } else { 62_500 }, Some((0.5, 1.0, 10.0)));
        // Not by a half; too late; a silence; and back again.
        check(&|slice| if slice < 24 { 62_500 } else { 45_000 }, None);
        check(&|slice| if slice < 37 { 62_500 } else { 6250 }, None);
        check(&|slice| if slice < 24 { 62_500 } else { 0 }, None);
        check(&|slice| if (15..25).contains(&slice) { 6250 } else { 62_500 }, None);
        // A window that grows, and one that goes up and down.
        check(&|slice| 2000 * slice, None);
        check(&|slice| 20_000 + 4000 * (slice % 10), None);
        check(&|_| 0, None);
    }

    #[test]
    fn packets_that_begin_and_end_connections_are_the_trial_s_own() {
        let mut outcome = Outcome::of_flows(End::Target, vec![]);
        outcome.flows = vec![linerate_trial::outcome::FlowOutcome::new(0, linerate_trial::outcome::Role::Responder)];
        outcome.timeline = timeline(&[&[64_000; 8]]);
        outcome.timeline.flows[0].columns.0.insert(FlowColumn::Messages, vec![1000; 8]);
        for slice in 0..8 {
            outcome.timeline.machine.push(slice, [(MachineColumn::RxOctets, Some(470_000))]);
        }
        assert_eq!(others(&outcome, None, headers_of(Workload::TcpCrr), 0.0), []);
        assert_eq!(others(&outcome, None, headers_of(Workload::TcpRr), 0.0).len(), 1);
    }
}
