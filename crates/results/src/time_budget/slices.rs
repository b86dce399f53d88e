//! Both ends' slices of one flow, side by side.
//! Knows how columns of two clocks are held against each other: both count from the start of the measured part.

use linerate_trial::timeline::{Columns, FlowColumn, MachineColumn, Timeline};

/// What an end saw is held against the other's for so long after its last slice.
const SHORTLY_NS: u64 = 200_000_000;

/// One end's slices of a flow, with its machine's.
#[derive(Clone, Copy)]
pub(crate) struct FlowSlices<'a> {
    pub(crate) ends_ns: &'a [u64],
    /// Absent where this flow is not among those that were watched.
    flow: Option<&'a Columns<FlowColumn>>,
    machine: &'a Columns<MachineColumn>,
}

impl<'a> FlowSlices<'a> {
    /// What this end saw of the flow of this number.
    pub(crate) fn of(timeline: &'a Timeline, id: u16) -> FlowSlices<'a> {
        let flow = timeline.flows.iter().find(|flow| flow.id == id).map(|flow| &flow.columns);
        FlowSlices { ends_ns: &timeline.ends_ns, flow, machine: &timeline.machine }
    }

    /// Whether the flow was watched.
    pub(crate) fn is_watched(&self) -> bool {
        self.flow.is_some_and(|flow| !flow.0.is_empty()) && !self.ends_ns.is_empty()
    }

    /// Where a slice begins and ends, nanoseconds.
    pub(crate) fn span(&self, slice: usize) -> (u64, u64) {
        let end = self.ends_ns[slice];
        // A clock that runs backwards is a liar's.
        (slice.checked_sub(1).map_or(0, |before| self.ends_ns[before].min(end)), end)
    }

    /// How long a slice is, seconds.
    pub(crate) fn seconds(&self, slice: usize) -> f64 {
        let (start, end) = self.span(slice);
        end.saturating_sub(start) as f64 / 1e9
    }

    /// The slice at this moment; the last one of what lies shortly behind it, for no two clocks begin at once.
    pub(crate) fn at(&self, moment_ns: u64) -> Option<usize> {
        let last = self.ends_ns.last()?;
        let slice = self.ends_ns.partition_point(|end| *end <= moment_ns);
        (moment_ns <= last.saturating_add(SHORTLY_NS)).then(|| slice.min(self.ends_ns.len() - 1))
    }

    pub(crate) fn flow(&self, column: FlowColumn, slice: usize) -> Option<u64> {
        self.flow?.get(column, slice)
    }

    /// A column of microseconds, as seconds.
    pub(crate) fn flow_s(&self, column: FlowColumn, slice: usize) -> Option<f64> {
        self.flow(column, slice).map(|us| us as f64 / 1e6)
    }

    /// A column of microseconds, as a share of the slice, 0 to 1; 0 where nobody tells.
    pub(crate) fn share(&self, column: FlowColumn, slice: usize) -> f64 {
        self.of_slice(self.flow(column, slice), slice)
    }

    /// The shares of the slice in which the flow's thread ran, and in which it could have run and had no CPU: others had it, or
    /// the quota of its control group was used up.
    pub(crate) fn thread(&self, slice: usize) -> (f64, f64) {
        let quota = self.of_slice(self.machine(MachineColumn::ThrottledUs, slice), slice);
        (self.share(FlowColumn::RunUs, slice), self.share(FlowColumn::RunDelayUs, slice).max(quota))
    }

    fn of_slice(&self, us: Option<u64>, slice: usize) -> f64 {
        // A slice without length is a liar's.
        (us.unwrap_or(0) as f64 / 1e6 / self.seconds(slice).max(1e-9)).min(1.0)
    }

    pub(crate) fn machine(&self, column: MachineColumn, slice: usize) -> Option<u64> {
        self.machine.get(column, slice)
    }
}
