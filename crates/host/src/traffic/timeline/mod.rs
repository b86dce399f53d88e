//! Cuts the measured part into short slices, and writes down of each what grew and how things stand.
//! Knows when to look, and how long looking takes; [`flow`] and [`machine`] know what is looked at.

mod flow;
mod machine;

use linerate_trial::spec::Spec;
use linerate_trial::timeline::{Columns, FlowColumn, FlowTimeline, MachineColumn, Timeline};

use super::clock::Window;
use super::ledger::Reader;

pub use flow::FlowSampler;
pub use machine::{EventSources, LinkState};
use machine::{MachineReading, MachineSample, MachineSampler};

/// Looks at flows and machine, in the measured part and around it.
pub struct TimelineRecorder {
    timeline: Timeline,
    flows: Vec<FlowSampler>,
    machine: MachineSampler,
    before: MachineReading,
    period_ns: u64,
    most: usize,
    /// What the last looks took.
    took_ns: [u64; 8],
    looks: usize,
    span: Option<Span>,
    due_ns: u64,
}

/// The measured part.
struct Span {
    window: Window,
    is_over: bool,
}

/// A look may take such a part of the time until the next one; on a slow machine there are fewer.
const MOST_COST: u64 = 250;
/// Slices are no longer than this for what they cost.
const LONGEST_FOR_COST_NS: u64 = 400_000_000;
/// Where it is `off` a trial is one slice, against which `cargo xtask bench slices` measures what the others cost.
const VARIABLE: &str = "LINERATE_SLICES";
const HOUR_NS: u64 = 3_600_000_000_000;

impl TimelineRecorder {
    /// A cutter of a trial that is about to begin. `is_soaked`: threads of ours fill the idle time of the CPUs.
    pub fn new(spec: &Spec, flows: Vec<FlowSampler>, interface: Option<&str>, is_soaked: bool) -> TimelineRecorder {
        let most = Timeline::most_slices(flows.len());
        let expected_ns = spec.expected_time().map_or(0, |time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        let mut machine = MachineSampler::open(interface, is_soaked);
        let is_off = std::env::var_os(VARIABLE).is_some_and(|value| value == "off");
        let least_ns = if is_off { HOUR_NS } else { Timeline::PERIOD_NS };
        TimelineRecorder {
            timeline: Timeline::default(),
            flows: Vec::from_iter(flows.into_iter().take(Timeline::MOST_FLOWS)),
            before: machine.read(Timeline::PERIOD_NS, false),
            machine,
            period_ns: least_ns.max(expected_ns.div_ceil(most)),
            most: most as usize,
            took_ns: [u64::MAX; 8],
            looks: 0,
            span: None,
            due_ns: 0,
        }
    }

    /// The measured part begins.
    pub fn begin<'a>(&mut self, window: Window, now_ns: u64, counts: impl Iterator<Item = &'a Reader>) {
        self.flows.iter_mut().zip(counts).for_each(|(flow, counts)| flow.begin(counts));
        self.before = self.machine.read(self.period_ns, false);
        self.span = Some(Span { window, is_over: false });
        self.due_ns = self.next_due(now_ns);
    }

    /// When to look next, by the clock of the window.
    pub fn due_ns(&self) -> u64 {
        self.due_ns
    }

    /// Looks, `late_ns` after the time for which the thread had gone to sleep. In the measured part a slice ends here.
    pub fn look<'a>(&mut self, now_ns: u64, late_ns: u64, counts: impl Iterator<Item = &'a Reader>) -> EventSources {
        let is_last = self.span.as_ref().is_some_and(|span| span.is_over || now_ns >= span.window.end_ns);
        let reading = self.machine.read(self.period_ns, is_last);
        let look = reading.since(&self.before);
        if let Some(span) = self.span.as_mut().filter(|span| !span.is_over) {
            span.is_over = now_ns >= span.window.end_ns;
            let end_ns = now_ns.saturating_sub(span.window.start_ns);
            if end_ns > self.timeline.ends_ns.last().copied().unwrap_or(0) {
                self.cut(end_ns, late_ns, &look, counts);
            }
        }
        self.before = reading;
        self.due_ns = self.next_due(now_ns);
        look.signs
    }

    /// A look took so long.
    pub fn handle_cost(&mut self, took_ns: u64) {
        self.took_ns[self.looks % self.took_ns.len()] = took_ns;
        self.looks += 1;
        // The quickest: what others do to this thread meanwhile is no cost of looking.
        let took_ns = self.took_ns.iter().min().copied().unwrap_or(0);
        let is_dear = self.looks >= self.took_ns.len() && took_ns.saturating_mul(MOST_COST) > self.period_ns;
        if is_dear && self.period_ns < LONGEST_FOR_COST_NS {
            self.period_ns = (2 * self.period_ns).min(LONGEST_FOR_COST_NS);
            self.looks = 0;
        }
    }

    /// The flows have ended: the slice that was under way ends with them.
    pub fn close<'a>(&mut self, now_ns: u64, counts: impl Iterator<Item = &'a Reader>) -> Option<EventSources> {
        let span = self.span.as_mut().filter(|span| !span.is_over)?;
        span.window.end_ns = now_ns;
        let signs = self.look(now_ns, 0, counts);
        let ends = &self.timeline.ends_ns;
        let length = |slice: usize| ends[slice] - slice.checked_sub(1).map_or(0, |before| ends[before]);
        if ends.len() > 1 && length(ends.len() - 1) < self.period_ns / 2 {
            let last = ends.len() - 1;
            self.merge(|slice| slice == last);
        }
        Some(signs)
    }

    /// What was seen.
    pub fn finish(self) -> Timeline {
        self.timeline
    }

    fn next_due(&self, now_ns: u64) -> u64 {
        let Some(Span { window, is_over: false }) = &self.span else { return now_ns + self.period_ns };
        let gone = now_ns.saturating_sub(window.start_ns) / self.period_ns;
        let due = window.start_ns + (gone + 1) * self.period_ns;
        // No sliver after a late look, nor before the end.
        let due = if due - now_ns < self.period_ns / 2 { due + self.period_ns } else { due };
        if window.end_ns.saturating_sub(due) < self.period_ns / 2 { window.end_ns } else { due }
    }

    fn cut<'a>(&mut self, end_ns: u64, late_ns: u64, look: &MachineSample, counts: impl Iterator<Item = &'a Reader>) {
        let slice = self.timeline.ends_ns.len();
        self.timeline.ends_ns.push(end_ns);
        for (at, (flow, counts)) in self.flows.iter_mut().zip(counts).enumerate() {
            if slice == 0 {
                self.timeline.flows.push(FlowTimeline { id: flow.id(), ..FlowTimeline::default() });
            }
            self.timeline.flows[at].columns.push(slice, flow.cut(counts));
        }
        let columns = &mut self.timeline.machine;
        columns.push(slice, look.columns(late_ns));
        // The CPUs are read less often where there are many: one reading is of all the slices since the last.
        if let Some((cpus, slices)) = look.cpus {
            for (column, share) in cpus {
                let values = columns.0.get_mut(&column).into_iter().flatten();
                values.rev().take(slices as usize).for_each(|value| *value = share);
            }
        }
        if slice + 1 >= self.most {
            self.merge(|slice| slice % 2 == 1);
            self.period_ns *= 2;
        }
    }

    /// Puts every slice of which `into_last` is true into the one before it.
    fn merge(&mut self, into_last: impl Fn(usize) -> bool) {
        let timeline = &mut self.timeline;
        let ends = &timeline.ends_ns;
        let lengths: Vec<u64> =
            ends.iter().enumerate().map(|(at, end)| end - at.checked_sub(1).map_or(0, |at| ends[at])).collect();
        for flow in &mut timeline.flows {
            merge_columns(&mut flow.columns, FlowColumn::how, &lengths, &into_last);
        }
        merge_columns(&mut timeline.machine, MachineColumn::how, &lengths, &into_last);
        merge_values(&mut timeline.ends_ns, How::Last, &lengths, &into_last);
    }
}

/// What two slices' values are together.
#[derive(Clone, Copy)]
enum How {
    Sum,
    Last,
    Mean,
    Most,
}

trait Merged: Ord + Copy {
    fn how(self) -> How;
}

impl Merged for FlowColumn {
    fn how(self) -> How {
        if self.name().ends_with("_now") { How::Last } else { How::Sum }
    }
}

impl Merged for MachineColumn {
    fn how(self) -> How {
        match self {
            MachineColumn::BusiestCpu | MachineColumn::BusiestSoftirq | MachineColumn::Steal => How::Mean,
            MachineColumn::LateUs => How::Most,
            MachineColumn::Backlog => How::Last,
            _ => How::Sum,
        }
    }
}

fn merge_columns<C: Ord + Copy>(
    columns: &mut Columns<C>,
    how: impl Fn(C) -> How,
    lengths: &[u64],
    into_last: &impl Fn(usize) -> bool,
) {
    for (column, values) in &mut columns.0 {
        merge_values(values, how(*column), lengths, into_last);
    }
}

fn merge_values(values: &mut Vec<u64>, how: How, lengths: &[u64], into_last: &impl Fn(usize) -> bool) {
    let mut merged: Vec<(u64, u64)> = Vec::with_capacity(values.len());
    for (slice, (value, length)) in values.iter().zip(lengths).enumerate() {
        match merged.last_mut().filter(|_| into_last(slice)) {
            None => merged.push((*value, *length)),
            Some((before, weight)) => {
                *before = match how {
                    How::Sum => *before + value,
                    How::Last => *value,
                    How::Most => (*before).max(*value),
                    How::Mean => (*before * *weight + value * length) / (*weight + length).max(1),
                };
                *weight += length;
            }
        }
    }
    *values = merged.into_iter().map(|(value, _)| value).collect();
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_trial::spec::{Extent, Workload};
    use std::time::Duration;

    fn cutter(extent: Extent) -> TimelineRecorder {
        let mut spec = Spec::new(Workload::TcpStream);
        spec.extent = extent;
        TimelineRecorder::new(&spec, Vec::new(), None, false)
    }

    const MS: u64 = 1_000_000;

    #[test]
    fn slices_end_when_they_should_and_none_is_a_sliver() {
        let mut cutter = cutter(Extent::Time(Duration::from_millis(1020)));
        let window = Window { start_ns: 7 * MS, end_ns: 1027 * MS };
        cutter.begin(window, 8 * MS, [].iter());
        let mut late = 0;
        while !cutter.span.as_ref().unwrap().is_over {
            // Once it is late by most of a slice.
            late = if cutter.timeline.ends_ns.len() == 5 { 40 * MS } else { late % 3 };
            cutter.look(cutter.due_ns() + late, late, [].iter());
        }
        let ends = &cutter.timeline.ends_ns;
        let lengths: Vec<u64> = ends.windows(2).map(|two| two[1] - two[0]).collect();
        assert!(lengths.iter().all(|length| *length >= 25 * MS && *length <= 100 * MS), "{lengths:?}");
        assert_eq!((ends[0], *ends.last().unwrap() / MS), (50 * MS, 1020));
        let columns = &cutter.timeline.machine.0;
        assert!(columns.values().all(|values| values.len() == ends.len()));
        assert_eq!(cutter.timeline.machine.get(MachineColumn::LateUs, 5), Some(40_000));
    }

    #[test]
    fn a_long_trial_has_longer_slices_and_one_without_a_time_has_them_in_the_end() {
        assert_eq!(cutter(Extent::Time(Duration::from_secs(3600))).period_ns, 9_000 * MS);
        let mut cutter = cutter(Extent::Octets(1 << 40));
        cutter.begin(Window { start_ns: 0, end_ns: u64::MAX }, 0, [].iter());
        for _ in 0..5000 {
            cutter.look(cutter.due_ns(), 0, [].iter());
        }
        let ends = &cutter.timeline.ends_ns;
        assert!(ends.len() < 400 && ends.len() >= 200, "{}", ends.len());
        assert!(ends.windows(2).all(|two| two[1] - two[0] == ends[0]), "all are as long: {ends:?}");
        let end = cutter.due_ns() - cutter.period_ns + 3 * MS;
        cutter.close(end, [].iter());
        assert_eq!(*cutter.timeline.ends_ns.last().unwrap(), end);
        assert!(cutter.timeline.machine.0.values().all(|values| values.len() == cutter.timeline.ends_ns.len()));
    }

    #[test]
    fn values_are_merged_by_what_they_mean() {
        let check = |how, want: &[u64]| {
            let mut values = vec![1, 2, 30, 10, 5];
            merge_values(&mut values, how, &[1, 3, 1, 1, 1], &|slice| slice % 2 == 1);
            assert_eq!(values, want);
        };
        check(How::Sum, &[3, 40, 5]);
        check(How::Last, &[2, 10, 5]);
        check(How::Mean, &[1, 20, 5]);
        check(How::Most, &[2, 30, 5]);
    }

    #[test]
    fn a_machine_to_which_looking_is_dear_is_looked_at_less() {
        let mut cutter = cutter(Extent::Time(Duration::from_secs(10)));
        (0..100).for_each(|_| cutter.handle_cost(50_000));
        assert_eq!(cutter.period_ns, 50 * MS);
        // Preempted most of the time, and quick once.
        (0..100).for_each(|look| cutter.handle_cost(if look % 7 == 0 { 50_000 } else { 5 * MS }));
        assert_eq!(cutter.period_ns, 50 * MS);
        (0..100).for_each(|_| cutter.handle_cost(350_000));
        assert_eq!(cutter.period_ns, 100 * MS);
        (0..100).for_each(|_| cutter.handle_cost(5 * MS));
        assert_eq!(cutter.period_ns, 400 * MS);
    }
}
