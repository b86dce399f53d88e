//! A flow, and what both of its ends saw of it.

use linerate_machine::end::End;
use linerate_trial::flow::Flow;
use linerate_trial::outcome::{FlowOutcome, Outcome};
use linerate_trial::spec::Spec;

/// A flow as both of its ends saw it.
#[derive(Clone, Copy)]
pub(super) struct Pair<'a> {
    pub(super) flow: Flow,
    /// The end that sends, or asks.
    pub(super) source: &'a FlowOutcome,
    /// The end that receives, or answers.
    pub(super) sink: &'a FlowOutcome,
}

impl<'a> Pair<'a> {
    /// What it sent, from which end, and in whose time.
    pub(super) fn sent(&self) -> (End, u64, &'a FlowOutcome) {
        (self.flow.source, self.source.octets, self.source)
    }
}

pub(super) fn pairs<'a>(spec: &Spec, target: &'a Outcome, host: &'a Outcome) -> Vec<Pair<'a>> {
    Flow::of(spec)
        .into_iter()
        .filter_map(|flow| {
            let of = |outcome: &'a Outcome| outcome.flows.iter().find(|one| one.id == flow.id);
            let (target, host) = (of(target)?, of(host)?);
            let (source, sink) = if flow.source == End::Target { (target, host) } else { (host, target) };
            Some(Pair { flow, source, sink })
        })
        .collect()
}
