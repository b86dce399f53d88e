//! `--precision`: which configurations have been repeated until their interval is narrow.
//! Knows no machine; whether a trial is needed is asked before it, and what came of it is told after.

use std::collections::BTreeMap;

use linerate_results::figure::Metric;
use linerate_results::record::Record;
use linerate_stats::median;
use linerate_stats::sequential::Sequential;
use linerate_trial::spec::Workload;

use linerate_plan::{PlannedTrial, Precision};

/// The figure that a workload is run for.
pub(crate) fn main_metric(workload: Workload) -> &'static Metric {
    let name = if workload.is_stream() { "throughput_bps" } else { "transactions_per_s" };
    Metric::find(name).expect("every workload's main metric is one")
}

/// What is known of each configuration by now.
pub(crate) struct Repeats {
    precision: Precision,
    rule: Sequential,
    values: BTreeMap<u32, Vec<f64>>,
    /// In which round it became narrow; `None`: before this process began.
    since: BTreeMap<u32, Option<u32>>,
}

/// What a configuration came to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct MedianSoFar {
    pub(crate) repeats: usize,
    pub(crate) median: f64,
    pub(crate) interval: Option<(f64, f64)>,
}

impl MedianSoFar {
    /// The larger distance of an end of the interval from the median, as a part of that.
    pub(crate) fn part(&self) -> Option<f64> {
        let (low, high) = self.interval?;
        let part = (high - self.median).max(self.median - low) / self.median.abs();
        part.is_finite().then_some(part)
    }

    pub(crate) fn is_within(&self, precision: Precision) -> bool {
        self.part().is_some_and(|part| part <= precision.part)
    }
}

impl Repeats {
    pub(crate) fn new(precision: Precision) -> Repeats {
        let rule = Sequential::new(precision.max_repeats);
        Repeats { precision, rule, values: BTreeMap::new(), since: BTreeMap::new() }
    }

    /// A record of the campaign from before it was broken off, in the order of its trials.
    pub(crate) fn before(&mut self, record: &Record) {
        let Some(configuration) = self.add(record) else { return };
        self.since.remove(&configuration);
        if self.reached(configuration).is_some_and(|reached| reached.is_within(self.precision)) {
            self.since.insert(configuration, None);
        }
    }

    /// A trial has ended; `least`: how many repeats its configuration has in any case.
    pub(crate) fn heard(&mut self, record: &Record, least: u32) {
        let Some(configuration) = self.add(record) else { return };
        let Some(reached) = self.reached(configuration) else { return };
        if reached.repeats >= least as usize && reached.is_within(self.precision) {
            self.since.entry(configuration).or_insert(Some(record.trial.repeat));
        }
    }

    /// Whether a trial is not needed any more. What a round has begun it ends, for the sake of A/A pairs.
    pub(crate) fn has_enough(&self, trial: &PlannedTrial) -> bool {
        let narrow = match self.since.get(&trial.configuration) {
            None => false,
            Some(None) => true,
            Some(Some(round)) => *round < trial.repeat,
        };
        narrow && trial.repeat >= trial.least
    }

    /// What a configuration has come to by now.
    pub(crate) fn reached(&self, configuration: u32) -> Option<MedianSoFar> {
        let values = self.values.get(&configuration)?;
        Some(MedianSoFar { repeats: values.len(), median: median(values)?, interval: self.rule.interval(values) })
    }

    fn add(&mut self, record: &Record) -> Option<u32> {
        if !record.trial.is_repeat() {
            return None;
        }
        let configuration = record.trial.configuration?;
        let value = main_metric(record.workload).of(record)?;
        self.values.entry(configuration).or_default().push(value);
        Some(configuration)
    }
}

#[cfg(test)]
mod tests {
    use linerate_machine::end::Direction;
    use linerate_results::sample;

    use super::*;
    use linerate_plan::{Changes, Plan};

    /// The trials that are run when each configuration measures as this says, in the order in which they are.
    fn run(null: bool, least: u32, of: impl Fn(u32, u32) -> f64) -> (Vec<(u32, u32)>, Repeats) {
        let precision = Precision { part: 0.01, max_repeats: 20 };
        let text = "format = 'linerate.plan/1'\nworkload = 'tcp-stream'\n[factors]\ndirection = 'tx,rx'\n";
        let changes =
            Changes { precision: Some(precision), null, seed: Some(5), repeat: Some(least), ..Changes::default() };
        let trials = Plan::parse(text, "t.toml", "t").unwrap().trials_of(&changes).unwrap();
        let mut repeats = Repeats::new(precision);
        let mut ran = Vec::new();
        for trial in &trials {
            if repeats.has_enough(trial) {
                continue;
            }
            ran.push((trial.configuration, trial.repeat));
            let mut record = sample::tcp(trial.index, Direction::Rx, of(trial.configuration, trial.repeat), false);
            (record.trial.configuration, record.trial.repeat) = (Some(trial.configuration), trial.repeat);
            record.trial.null_side = trial.null_side;
            repeats.heard(&record, trial.least);
        }
        (ran, repeats)
    }

    /// 900 Mbit/s, give or take 0.1 %; and configuration 1 give or take 10 %.
    fn noisy(configuration: u32, repeat: u32) -> f64 {
        900.0 * (1.0 + [0.001, 0.1][configuration as usize] * (f64::from(repeat * 7 % 10) / 5.0 - 1.0))
    }

    #[test]
    fn each_is_repeated_until_it_is_narrow() {
        let (ran, repeats) = run(false, 1, noisy);
        let count = |configuration| ran.iter().filter(|(other, _)| *other == configuration).count();
        let precision = repeats.precision;
        let (quiet, noisy) = (repeats.reached(0).unwrap(), repeats.reached(1).unwrap());
        assert_eq!((count(0), count(1)), (quiet.repeats, 20));
        assert!((6..=8).contains(&quiet.repeats) && quiet.is_within(precision), "{quiet:?}");
        assert!(!noisy.is_within(precision) && noisy.interval.is_some(), "{noisy:?}");
    }

    #[test]
    fn no_fewer_than_the_plan_asks_for() {
        let (ran, _) = run(false, 12, |_, _| 900.0);
        assert_eq!(ran.len(), 24);
    }

    #[test]
    fn both_sides_of_a_pair_have_as_many() {
        let (ran, _) = run(true, 1, noisy);
        let of_quiet: Vec<u32> = ran.iter().filter(|one| one.0 == 0).map(|one| one.1).collect();
        assert!(of_quiet.chunks(2).all(|pair| pair[0] == pair[1]) && of_quiet.len().is_multiple_of(2), "{of_quiet:?}");
    }
}
