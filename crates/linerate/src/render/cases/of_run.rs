//! The cases of a run: each expectation, and each trial that failed; where nothing is expected, each trial.
//! Judges nothing but whether a trial has figures.

use std::collections::{BTreeMap, BTreeSet};

use linerate_plan::{ExpectationResult, PlannedTrial};
use linerate_results::record::{NullSide, Record};

use super::{Cases, Measurement, Outcome};
use crate::measure::precision::main_metric;
use crate::render::brief;
use crate::render::number::{counted, figure};

/// A run, as far as cases are made of it.
pub(crate) struct Run<'a> {
    pub(crate) plan: &'a str,
    pub(crate) trials: &'a [PlannedTrial],
    pub(crate) expected: &'a [ExpectationResult],
    /// In the order of the trials.
    pub(crate) records: &'a [Record],
    /// Every trial that was to be measured has been.
    pub(crate) is_whole: bool,
    /// How many repeats there are depends on what they measure.
    pub(crate) repeats_until: bool,
}

/// Why nothing is said of what a run has not come to.
const BROKEN_OFF: &str = "cannot tell: the run ended before its last trial";

pub(crate) fn of_run(run: &Run<'_>) -> Cases {
    let mut cases = Cases::new(&format!("run {}", run.plan), run.plan);
    let doubts = Doubts::of(run);
    for met in run.expected {
        expectation(&mut cases, run, met, &doubts);
    }
    let by_index: BTreeMap<u32, &Record> = run.records.iter().map(|record| (record.trial.index, record)).collect();
    let is_repeated = run.trials.iter().any(|trial| trial.repeat > 0);
    for planned in run.trials {
        let record = by_index.get(&planned.index);
        let failed = record.is_some_and(|record| record.error.is_some() || record.result.is_none());
        if !failed && !run.expected.is_empty() {
            continue;
        }
        let mut name = planned.words();
        if is_repeated {
            name += &format!(", repeat {}", planned.repeat + 1);
        }
        if planned.null_side == Some(NullSide::B) {
            name += ", side b";
        }
        match record {
            Some(record) => trial(&mut cases, &name, record),
            // Without an end that is known, nobody knows whether there would have been one.
            None if run.is_whole || run.repeats_until && planned.repeat >= planned.least => {}
            None => cases.add(&name, Outcome::Skipped, BROKEN_OFF, None, None),
        }
    }
    cases
}

fn expectation(cases: &mut Cases, run: &Run<'_>, met: &ExpectationResult, doubts: &Doubts<'_>) {
    let metric = met.expectation.metric;
    let Some(configuration) = &met.configuration else {
        let sentence = "cannot tell: this run measures no configuration that it is for";
        return cases.add(&met.expectation.to_string(), Outcome::Skipped, sentence, None, None);
    };
    let name = format!("{}, {configuration}", met.expectation);
    if !run.is_whole {
        return cases.add(&name, Outcome::Skipped, BROKEN_OFF, None, None);
    }
    let outcome = if met.is_met() == Some(true) { Outcome::Passed } else { Outcome::Failed };
    let measurement = Measurement::of(metric, met.median);
    let mut sentence = match (met.median, met.repeats) {
        (None, _) => format!("{}: no trial has it", metric.title),
        (Some(median), repeats) => {
            let median = figure(median * metric.unit.scale(), 4);
            let trials = counted(repeats, "trial");
            format!("{}: the median of {trials} is {median} {}", metric.title, metric.unit.name())
        }
    };
    if outcome == Outcome::Failed {
        sentence += &format!("; expected is {}", met.expectation);
    }
    sentence += &doubted(doubts.0.get(configuration));
    cases.add(&name, outcome, &sentence, measurement, None);
}

fn trial(cases: &mut Cases, name: &str, record: &Record) {
    let metric = main_metric(record.workload);
    let measurement = Measurement::of(metric, metric.of(record));
    match (&record.error, &record.result) {
        (Some(error), _) => cases.add(name, Outcome::Error, error, measurement, record.duration_s),
        (None, None) => cases.add(name, Outcome::Error, "the trial has no figures", measurement, record.duration_s),
        (None, Some(_)) => {
            let sentence =
                brief::line(record) + &doubted(Some(&record.doubts.iter().map(|doubt| doubt.kind().name()).collect()));
            cases.add(name, Outcome::Passed, &sentence, measurement, record.duration_s);
        }
    }
}

/// The kinds of doubts that the records of each configuration carry, by the configuration's words.
struct Doubts<'a>(BTreeMap<String, BTreeSet<&'a str>>);

impl<'a> Doubts<'a> {
    fn of(run: &Run<'a>) -> Doubts<'a> {
        let words: BTreeMap<u32, &PlannedTrial> = run.trials.iter().map(|trial| (trial.configuration, trial)).collect();
        let mut doubts: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
        // Side b of A/A trials is no part of what is judged.
        for record in run.records.iter().filter(|record| record.trial.is_repeat()) {
            let trial = record.trial.configuration.and_then(|number| words.get(&number));
            if let Some(trial) = trial.filter(|_| !record.doubts.is_empty()) {
                doubts.entry(trial.words()).or_default().extend(record.doubts.iter().map(|doubt| doubt.kind().name()));
            }
        }
        Doubts(doubts)
    }
}

/// What is doubted, behind a sentence.
fn doubted(kinds: Option<&BTreeSet<&str>>) -> String {
    let kinds: Vec<&str> = kinds.into_iter().flatten().copied().collect();
    if kinds.is_empty() { String::new() } else { format!("; doubted: {}", kinds.join(", ")) }
}
