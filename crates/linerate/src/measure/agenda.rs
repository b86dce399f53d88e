//! Which trial comes next: one of a list, or one that the trials before it ask for.
//! Knows no machine.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use linerate_plan::PlannedTrial;
use linerate_results::record::Record;

use super::precision::Repeats;
use super::time_left::{Pace, TimeLeft};

/// The trials of a campaign, one after the other.
pub(crate) trait Agenda {
    /// How many there are; `None`: nobody knows before.
    fn planned(&self) -> Option<usize>;
    /// The next one, or none.
    fn next(&mut self) -> Option<PlannedTrial>;
    /// The place of that one among all, from 1: those that turned out not to be needed count.
    fn place(&self) -> usize;
    /// What tells it from the others.
    fn words(&self, trial: &PlannedTrial) -> String;
    /// Those that are known to come after it.
    fn after(&self) -> &[PlannedTrial];
    /// How long all of it still takes, from the start of the present trial on.
    fn left(&self) -> Option<TimeLeft>;
    /// The present trial begins; so many boots are needed until the end, and one takes this long.
    fn begins(&mut self, trial: &PlannedTrial, boots: (u32, Option<Duration>));
    /// What came of it, and how long it took.
    fn ended(&mut self, trial: &PlannedTrial, record: &Record, took: Duration);
}

/// A list.
pub(crate) struct Listed {
    trials: Vec<PlannedTrial>,
    /// The next one's place among them.
    place: usize,
    /// Where each is repeated until it is known well enough.
    repeats: Option<Repeats>,
    pace: Pace,
    /// The factors of which trials have different levels.
    varied: BTreeSet<String>,
}

impl Listed {
    /// Those of `all` that are still to do.
    pub(crate) fn new(all: &[PlannedTrial], done: &BTreeSet<u32>, repeats: Option<Repeats>) -> Listed {
        let trials: Vec<PlannedTrial> = all.iter().filter(|trial| !done.contains(&trial.index)).cloned().collect();
        let pace = Pace::of(&trials.iter().collect::<Vec<_>>(), repeats.is_some());
        Listed { trials, place: 0, repeats, pace, varied: varied(all) }
    }
}

impl Agenda for Listed {
    fn planned(&self) -> Option<usize> {
        Some(self.trials.len())
    }

    fn next(&mut self) -> Option<PlannedTrial> {
        loop {
            let trial = self.trials.get(self.place)?;
            self.place += 1;
            if !self.repeats.as_ref().is_some_and(|repeats| repeats.has_enough(trial)) {
                return Some(trial.clone());
            }
            self.pace.trial_left_out();
        }
    }

    fn place(&self) -> usize {
        self.place
    }

    fn words(&self, trial: &PlannedTrial) -> String {
        let levels = trial.factors.iter().filter(|(name, _)| self.varied.contains(name) && name != "workload");
        let mut words = vec![trial.spec.workload.to_string()];
        words.extend(levels.map(|(name, level)| format!("{name}={level}")));
        words.join(" ")
    }

    fn after(&self) -> &[PlannedTrial] {
        &self.trials[self.place..]
    }

    fn left(&self) -> Option<TimeLeft> {
        self.pace.left()
    }

    fn begins(&mut self, trial: &PlannedTrial, boots: (u32, Option<Duration>)) {
        self.pace.boots = boots;
        self.pace.trial_begins(trial);
    }

    fn ended(&mut self, trial: &PlannedTrial, record: &Record, took: Duration) {
        self.pace.trial_ended(took);
        if let Some(repeats) = &mut self.repeats {
            repeats.heard(record, trial.least);
        }
    }
}

/// The factors of which trials have different levels.
fn varied(trials: &[PlannedTrial]) -> BTreeSet<String> {
    let mut levels: BTreeMap<&str, &str> = BTreeMap::new();
    let mut varied = BTreeSet::new();
    for (name, level) in trials.iter().flat_map(|trial| &trial.factors) {
        if *levels.entry(name).or_insert(level) != level {
            varied.insert(name.clone());
        }
    }
    varied
}
