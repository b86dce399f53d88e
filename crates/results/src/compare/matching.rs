//! Which observations of the two sides belong together: those of one configuration, and in it those of one round.
//! Knows facts and names; what they mean for a figure is judged elsewhere.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use linerate_machine::words;
use serde::Serialize;

use super::Judged;
use super::verdict::{Round, Sides};
use crate::figure::Metric;
use crate::observation::{Name, Observation, TrialContext, TrialRequest};
use crate::record::NullSide;

/// Observations of one configuration, both sides; none of failed trials.
pub(super) struct Configuration<'a> {
    /// What tells it from others, as `rate=100M direction=tx`.
    pub(super) name: String,
    pub(super) baseline: Vec<&'a Observation>,
    pub(super) candidate: Vec<&'a Observation>,
    /// How many trials of each side failed beside these.
    failed: [usize; 2],
    /// The identifiers of both sides' records, for every metric that all of them have.
    ids: [Arc<[String]>; 2],
}

/// All configurations.
pub(super) struct Matched<'a> {
    /// Those that both sides have.
    pub(super) both: Vec<Configuration<'a>>,
    only_baseline: Vec<String>,
    only_candidate: Vec<String>,
    /// What failed, in the order of `both` and then of what one side lacks.
    pub(super) failed: Vec<FailedTrials>,
}

impl Matched<'_> {
    pub(super) fn unmatched(&self) -> Vec<(String, String)> {
        let of = |whose: &str, names: &[String]| -> Vec<(String, String)> {
            names.iter().map(|name| (whose.to_owned(), name.clone())).collect()
        };
        [of("baseline", &self.only_baseline), of("candidate", &self.only_candidate)].concat()
    }
}

words! {
    /// One of the two sides.
    ComparedSide {
        /// What the other is compared with.
        Baseline = "baseline",
        /// What is compared with it.
        Candidate = "candidate",
    }
}

/// Trials of a configuration that failed on one side.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FailedTrials {
    /// The side.
    pub of: ComparedSide,
    /// The configuration, as in [`Judged::configuration`].
    pub configuration: String,
    /// How many failed.
    pub failed: usize,
    /// Of how many.
    pub trials: usize,
}

/// Where so large a part of a side's trials failed, those that did not are no picture of it.
const MANY_FAILED: f64 = 0.2;

impl FailedTrials {
    /// Whether they are so many that the candidate was not measured as it is.
    pub fn hide_candidate(&self) -> bool {
        self.of == ComparedSide::Candidate && self.failed as f64 >= MANY_FAILED * self.trials as f64
    }
}

impl fmt::Display for FailedTrials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FailedTrials { of, configuration: _, failed, trials } = self;
        write!(f, "{failed} of {trials} trials of the {} failed", of.name())
    }
}

impl<'a> Configuration<'a> {
    /// The observations of one side.
    pub(super) fn side(&self, which: ComparedSide) -> &[&'a Observation] {
        match which {
            ComparedSide::Baseline => &self.baseline,
            ComparedSide::Candidate => &self.candidate,
        }
    }

    /// Whether one side's trials all came before the other's.
    pub(super) fn one_after_the_other(&self) -> bool {
        let ends = |side: &[&'a Observation]| {
            let ids = || side.iter().map(|one| one.id.as_str());
            Some((ids().min()?, ids().max()?))
        };
        let sides = ends(&self.baseline).zip(ends(&self.candidate));
        sides.is_some_and(|(a, b)| a.1 < b.0 || b.1 < a.0)
    }

    /// The values of these sides in the order in which they were measured.
    pub(super) fn in_time(&self, sides: &[ComparedSide], metric: &Metric) -> Vec<f64> {
        let mut all: Vec<&Observation> = sides.iter().flat_map(|which| self.side(*which)).copied().collect();
        all.sort_by(|a, b| a.id.cmp(&b.id));
        all.iter().filter_map(|one| one.value(metric)).collect()
    }

    /// What failed of each side.
    pub(super) fn failed(&self) -> Vec<FailedTrials> {
        let of = |which: ComparedSide| FailedTrials {
            of: which,
            configuration: self.name.clone(),
            failed: self.failed[which as usize],
            trials: self.failed[which as usize] + self.side(which).len(),
        };
        [of(ComparedSide::Baseline), of(ComparedSide::Candidate)].into_iter().filter(|one| one.failed > 0).collect()
    }

    /// The identifiers of one side's records that have the metric.
    pub(super) fn ids(&self, which: ComparedSide, metric: &Metric) -> Arc<[String]> {
        let side = self.side(which);
        if side.iter().all(|one| one.value(metric).is_some()) {
            return Arc::clone(&self.ids[which as usize]);
        }
        side.iter().filter(|one| one.value(metric).is_some()).map(|one| one.id.clone()).collect()
    }

    /// The values of a metric, and the rounds among them.
    pub(super) fn sides(&self, metric: &Metric) -> Sides {
        let values = |side: &[&Observation]| side.iter().filter_map(|one| one.value(metric)).collect();
        let mut rounds = Vec::new();
        let mut of_round: HashMap<(&str, u32), &Observation> = HashMap::new();
        for one in self.baseline.iter().filter(|one| one.value(metric).is_some()) {
            of_round.insert((&one.campaign, one.repeat), one);
        }
        for one in &self.candidate {
            let Some(other) = of_round.get(&(one.campaign.as_str(), one.repeat)) else { continue };
            if let (Some(baseline), Some(candidate)) = (other.value(metric), one.value(metric)) {
                rounds.push(Round { baseline, candidate, baseline_first: other.index < one.index });
            }
        }
        Sides { baseline: values(&self.baseline), candidate: values(&self.candidate), rounds }
    }
}

/// Puts together what is of one configuration: what has the same of everything that varies within a side, but for
/// what the two are compared by. What is alike within each side, and differs between them, tells no configurations
/// apart; it is among the differences.
pub(super) fn matched<'a>(
    baseline: &[&'a Observation],
    candidate: &[&'a Observation],
    compared: &[String],
) -> Matched<'a> {
    let mut names: BTreeMap<&str, Name<'_>> = BTreeMap::new();
    for side in [baseline, candidate] {
        let mut seen = BTreeSet::new();
        let asked = side.iter().map(|one| &*one.around.asked).filter(|asked| seen.insert(std::ptr::from_ref(*asked)));
        for name in TrialRequest::varying(&asked.collect::<Vec<_>>()) {
            names.entry(name.name).and_modify(|one| one.is_factor |= name.is_factor).or_insert(name);
        }
    }
    names.retain(|name, _| *name != "latency_of" && !compared.iter().any(|other| other == name));
    let names: Vec<Name<'_>> = names.into_values().collect();

    let mut keys: HashMap<*const TrialRequest, Arc<str>> = HashMap::new();
    let mut grouped: BTreeMap<Arc<str>, Configuration<'a>> = BTreeMap::new();
    for (is_candidate, side) in [(false, baseline), (true, candidate)] {
        for &one in side {
            let asked = &one.around.asked;
            let key = keys.entry(Arc::as_ptr(asked)).or_insert_with(|| asked.named(&names));
            let empty = || Configuration {
                name: key.to_string(),
                baseline: Vec::new(),
                candidate: Vec::new(),
                failed: [0; 2],
                ids: Default::default(),
            };
            let configuration = grouped.entry(Arc::clone(key)).or_insert_with(empty);
            match (one.failed, is_candidate) {
                (true, _) => configuration.failed[usize::from(is_candidate)] += 1,
                (false, true) => configuration.candidate.push(one),
                (false, false) => configuration.baseline.push(one),
            }
        }
    }
    let mut matched =
        Matched { both: Vec::new(), only_baseline: Vec::new(), only_candidate: Vec::new(), failed: Vec::new() };
    let mut failed = Vec::new();
    for configuration in grouped.into_values() {
        let lacks = (configuration.baseline.is_empty(), configuration.candidate.is_empty());
        if lacks != (false, false) {
            failed.extend(configuration.failed());
        }
        match lacks {
            (false, false) => matched.both.push(configuration),
            (true, true) => {}
            (_, true) => matched.only_baseline.push(configuration.name),
            _ => matched.only_candidate.push(configuration.name),
        }
    }
    for one in &mut matched.both {
        one.ids = [&one.baseline, &one.candidate].map(|side| side.iter().map(|one| one.id.clone()).collect());
    }
    // In the plan's order, which the order of measuring is not where that was left to chance.
    let place = |one: &Configuration<'_>| one.baseline[0].configuration.unwrap_or(one.baseline[0].index);
    matched.both.sort_by(|a, b| place(a).cmp(&place(b)).then_with(|| a.name.cmp(&b.name)));
    matched.failed = matched.both.iter().flat_map(Configuration::failed).chain(failed).collect();
    matched
}

/// A side in two halves that should be alike: of each configuration the first, fourth, fifth, eighth … in time and
/// the others, so that a steady drift hits both alike.
pub fn split<'a>(side: &[&'a Observation]) -> (Vec<&'a Observation>, Vec<&'a Observation>) {
    let (mut one, mut other) = (Vec::new(), Vec::new());
    for mut configuration in matched(side, side, &[]).both {
        configuration.baseline.sort_by(|a, b| a.id.cmp(&b.id));
        for (at, observation) in configuration.baseline.into_iter().enumerate() {
            if matches!(at % 4, 0 | 3) { one.push(observation) } else { other.push(observation) }
        }
    }
    (one, other)
}

/// What of a side counts as its trials, without what was measured only for A/A pairs.
pub fn counted<'a>(side: &[&'a Observation]) -> Vec<&'a Observation> {
    side.iter().copied().filter(|one| one.null_side != Some(NullSide::B)).collect()
}

/// The two sides of the A/A pairs that a side's campaigns carry; `None` where they carry none.
pub fn null_sides<'a>(side: &[&'a Observation]) -> Option<(Vec<&'a Observation>, Vec<&'a Observation>)> {
    let of = |wanted| side.iter().copied().filter(|one| one.null_side == Some(wanted)).collect::<Vec<_>>();
    let (a, b) = (of(NullSide::A), of(NullSide::B));
    (!a.is_empty() && !b.is_empty()).then_some((a, b))
}

/// What a reader should know of the comparison as a whole.
pub(super) fn notes(matched: &Matched<'_>, judged: &[Judged]) -> Vec<String> {
    let mut notes = Vec::new();
    let all = |which| matched.both.iter().flat_map(move |one| one.side(which));
    let ends = |which| {
        let ids = || all(which).map(|one| one.id.as_str());
        Some((ids().min()?, ids().max()?))
    };
    let (baseline, candidate) = (ends(ComparedSide::Baseline), ends(ComparedSide::Candidate));
    if let (Some(a), Some(b)) = (baseline, candidate)
        && (a.1 < b.0 || b.1 < a.0)
    {
        let campaigns: BTreeSet<&str> =
            all(ComparedSide::Baseline).chain(all(ComparedSide::Candidate)).map(|one| &*one.campaign).collect();
        let is_once = matched.both.iter().all(|one| {
            [ComparedSide::Baseline, ComparedSide::Candidate].iter().all(|which| one.side(*which).len() < 2)
        });
        // Of one campaign with repeats, levels that are dear to change come one after the other all the same.
        let what_would = match campaigns.len() {
            1 if is_once => " Repeats of the campaign are measured in turns.",
            1 => "",
            _ => " A campaign with both as levels of a factor measures in turns.",
        };
        notes.push(format!(
            "One side was measured after the other, not in turns: whatever changed between them is in the \
             difference.{what_would}"
        ));
    }
    let paired = judged.iter().filter(|judged| judged.found.is_some_and(|found| found.paired)).count();
    if paired > 0 {
        notes.push(format!(
            "In {paired} of {} judgements the values of one round were taken as pairs, because the rounds drift.",
            judged.len()
        ));
    }
    notes
}

/// The different surroundings of a side.
pub(super) fn arounds<'a>(side: &[&'a Observation]) -> Vec<&'a TrialContext> {
    let mut seen = BTreeSet::new();
    side.iter().map(|one| &one.around).filter(|around| seen.insert(around.place())).collect()
}
