//! What the trials of a load decide, and which loads bound the answer (RFC 9971, section 4.7 and appendices A and B).
//! Knows neither ladder nor clock.

use std::collections::BTreeMap;

/// A trial that has been measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trial {
    /// Its rung.
    pub rung: u32,
    /// Seconds that were asked for.
    pub intended_s: f64,
    /// Seconds that it counts: those and what it cost beside.
    pub effective_s: f64,
    /// The part of the packets, of those that should have been sent, that did not arrive, 0 to 1.
    pub loss_ratio: f64,
    /// The part of those that arrived that came when as much time was over as it took to send them all, 0 to 1: the path
    /// had held them back.
    pub held_ratio: f64,
}

/// What a goal asks of a load at this point of a search: the goal's own figures, or smaller ones at first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Target {
    pub(super) loss_ratio: f64,
    pub(super) exceed_ratio: f64,
    pub(super) trial_s: f64,
    pub(super) sum_s: f64,
    /// In rungs.
    pub(super) width: u32,
}

/// What a load is, by its trials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadVerdict {
    /// It cannot but keep to the goal.
    Lower,
    /// It cannot keep to it any more.
    Upper,
    /// More trials are needed.
    NotYet,
}

/// Seconds of trials, by how long and how good they were.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    good: f64,
    bad: f64,
    good_short: f64,
    bad_short: f64,
}

impl Target {
    /// What these trials, all of one load, decide.
    pub fn decides<'a>(&self, trials: impl IntoIterator<Item = &'a Trial>) -> LoadVerdict {
        let mut sums = Sums::default();
        for trial in trials {
            let is_good = trial.loss_ratio <= self.loss_ratio;
            *match (trial.intended_s >= self.trial_s, is_good) {
                (true, true) => &mut sums.good,
                (true, false) => &mut sums.bad,
                (false, true) => &mut sums.good_short,
                (false, false) => &mut sums.bad_short,
            } += trial.effective_s;
        }
        // Short trials of high loss count, less those that short ones of low loss forgive.
        let forgiven = sums.good_short * self.exceed_ratio / (1.0 - self.exceed_ratio);
        let bad = sums.bad + (sums.bad_short - forgiven).max(0.0);
        let whole = (sums.good + bad).max(self.sum_s);
        let allowed = whole * self.exceed_ratio;
        let at_best = bad <= allowed;
        let at_worst = whole - sums.good <= allowed;
        match (at_best, at_worst) {
            (false, _) => LoadVerdict::Upper,
            (true, true) => LoadVerdict::Lower,
            (true, false) => LoadVerdict::NotYet,
        }
    }

    /// The loss of the trial that stands where the forgiven ones begin: what is missing of the time has lost all.
    pub fn quantile_loss<'a>(&self, trials: impl IntoIterator<Item = &'a Trial>) -> f64 {
        let mut long: Vec<&Trial> = trials.into_iter().filter(|trial| trial.intended_s >= self.trial_s).collect();
        long.sort_by(|a, b| a.loss_ratio.total_cmp(&b.loss_ratio));
        let whole = long.iter().map(|trial| trial.effective_s).sum::<f64>().max(self.sum_s);
        let mut left = whole * (1.0 - self.exceed_ratio);
        for trial in long {
            left -= trial.effective_s;
            // What is equal but for the last bit is equal.
            if left <= whole * 1e-12 {
                return trial.loss_ratio;
            }
        }
        1.0
    }
}

/// The relevant bounds: the smallest upper one, and the largest lower one below it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// The rung of the lower bound.
    pub lower: Option<u32>,
    /// The rung of the upper bound.
    pub upper: Option<u32>,
}

impl Bounds {
    /// By all trials, rung by rung.
    pub fn of(target: &Target, trials: &BTreeMap<u32, Vec<Trial>>) -> Bounds {
        let mut bounds = Bounds::default();
        for (rung, trials) in trials {
            match target.decides(trials) {
                LoadVerdict::Lower => bounds.lower = Some(*rung),
                LoadVerdict::NotYet => {}
                LoadVerdict::Upper => {
                    bounds.upper = Some(*rung);
                    break;
                }
            }
        }
        bounds
    }

    /// Whether to know what this rung is would tell anything.
    pub(super) fn lack(&self, rung: u32) -> bool {
        self.lower.is_none_or(|lower| rung > lower) && self.upper.is_none_or(|upper| rung < upper)
    }
}
