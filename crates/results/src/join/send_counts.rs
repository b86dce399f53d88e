//! Frames that were handed to the kernel, and those among them that its interface dropped instead of sending them.
//! Knows two counts of each end; which of the frames it were, nobody knows.

use linerate_machine::end::End;
use linerate_trial::outcome::{FlowOutcome, Unsent};

use super::pair::Pair;
use crate::total::Total;

/// What became of what was handed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SendCounts {
    /// Messages that left, as far as this machine can tell.
    pub(super) sent: u64,
    /// Those that did not.
    pub(super) unsent: u64,
}

/// Of which part of the trial.
#[derive(Clone, Copy)]
pub(super) enum Part {
    Measured,
    Whole,
}

impl Part {
    fn handed(self, flow: &FlowOutcome) -> u64 {
        match self {
            Part::Measured => flow.messages,
            Part::Whole => flow.messages_total,
        }
    }

    fn received(self, flow: &FlowOutcome) -> Option<u64> {
        let arrivals = flow.arrivals.as_ref()?;
        Some(match self {
            Part::Measured => arrivals.received,
            Part::Whole => arrivals.received_total,
        })
    }

    fn dropped(self, unsent: Unsent) -> u64 {
        match self {
            Part::Measured => unsent.measured,
            Part::Whole => unsent.total,
        }
    }
}

impl SendCounts {
    /// Of some of the trial's flows. An end's interface counts for all of its flows together: where it dropped as many as are
    /// missing, those of each flow are its own.
    pub(super) fn of(pairs: &[&Pair<'_>], all: &[Pair<'_>], part: Part) -> SendCounts {
        let mut handed = SendCounts::default();
        for source in End::BOTH {
            let some: Vec<&Pair<'_>> = pairs.iter().copied().filter(|pair| pair.flow.source == source).collect();
            let all: Vec<&Pair<'_>> = all.iter().filter(|pair| pair.flow.source == source).collect();
            let unsent = unsent(&some, &all, part);
            let taken: u64 = some.iter().map(|pair| part.handed(pair.source)).total();
            handed.sent = handed.sent.saturating_add(taken - unsent);
            handed.unsent = handed.unsent.saturating_add(unsent);
        }
        handed
    }

    /// The part that left of what was handed over.
    pub(super) fn share(self) -> f64 {
        match self.unsent {
            0 => 1.0,
            unsent => self.sent as f64 / self.sent.saturating_add(unsent) as f64,
        }
    }
}

/// At most what is missing: what more the interface dropped was not the trial's.
fn unsent(some: &[&Pair<'_>], all: &[&Pair<'_>], part: Part) -> u64 {
    let missing = |pairs: &[&Pair<'_>]| -> Option<u64> {
        let handed: u64 = pairs.iter().map(|pair| part.handed(pair.source)).total();
        let received: Option<u64> = pairs.iter().map(|pair| part.received(pair.sink)).total();
        Some(handed.saturating_sub(received?))
    };
    let dropped = all.iter().filter_map(|pair| Some(part.dropped(pair.source.frames.as_ref()?.unsent?))).total();
    match (missing(some), missing(all)) {
        (Some(own), Some(of_all)) if dropped >= of_all => own,
        (Some(_), Some(_)) if some.len() == all.len() => dropped,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use linerate_trial::arrivals::Arrivals;
    use linerate_trial::flow::Flow;
    use linerate_trial::outcome::{FrameCounts, Role};
    use linerate_trial::spec::{Spec, Workload};

    use super::*;

    /// Two streams: handed over and received, each; and what the interface dropped.
    #[track_caller]
    fn check(streams: [(u64, u64); 2], dropped: u64, both: (u64, u64), first: (u64, u64)) {
        let flows = Flow::of(&Spec { streams: 2, ..Spec::new(Workload::Frames) });
        let ends: Vec<(FlowOutcome, FlowOutcome)> = flows
            .iter()
            .zip(streams)
            .map(|(flow, (messages, received))| {
                let mut source = FlowOutcome { messages, ..FlowOutcome::new(flow.id, Role::Sender) };
                let unsent = (flow.id == flows[0].id).then_some(Unsent { measured: dropped, total: dropped });
                source.frames = Some(Box::new(FrameCounts { unsent, ..FrameCounts::default() }));
                let arrivals = Some(Arrivals { received, ..Arrivals::default() });
                (source, FlowOutcome { arrivals, ..FlowOutcome::new(flow.id, Role::Receiver) })
            })
            .collect();
        let pairs: Vec<Pair<'_>> =
            flows.iter().zip(&ends).map(|(flow, (source, sink))| Pair { flow: *flow, source, sink }).collect();
        let handed = |some: &[&Pair<'_>]| {
            let SendCounts { sent, unsent } = SendCounts::of(some, &pairs, Part::Measured);
            (sent, unsent)
        };
        assert_eq!(handed(&pairs.iter().collect::<Vec<_>>()), both);
        assert_eq!(handed(&[&pairs[0]]), first);
    }

    #[test]
    fn what_the_interface_dropped_was_not_sent_and_what_arrived_was() {
        check([(100, 90), (50, 50)], 0, (150, 0), (100, 0));
        check([(100, 90), (50, 45)], 15, (135, 15), (90, 10));
        // Others' frames were dropped as well.
        check([(100, 90), (50, 45)], 40, (135, 15), (90, 10));
        // Some were lost on the way; whose the others are, nobody knows.
        check([(100, 90), (50, 45)], 6, (144, 6), (100, 0));
        // More came than was handed over: somebody made that up.
        check([(10, 90), (50, 50)], 6, (60, 0), (10, 0));
    }
}
