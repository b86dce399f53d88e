//! What is searched for: how much may be lost, for how long that has to hold, and how exactly it shall be known.
//! Knows nothing of loads.

use std::ops::RangeInclusive;
use std::str::FromStr;

use linerate_machine::units::parse_duration;
use serde::{Deserialize, Serialize};

/// A search goal (RFC 9971, section 4.6).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Goal {
    /// What people call it.
    pub name: String,
    /// A trial is of low loss where no larger part of its packets was lost, 0 to less than 1.
    pub loss_ratio: f64,
    /// The part of the time in which trials of high loss are forgiven, 0 to less than 1.
    pub exceed_ratio: f64,
    /// Seconds of a trial that counts in full.
    pub trial_s: f64,
    /// Seconds of trials after which a load is decided.
    pub sum_s: f64,
    /// Seconds of the first, short trials.
    pub initial_s: f64,
    /// The distance of the two bounds, as a part of the upper one, more than 0 and less than 1.
    pub width: f64,
}

/// Why a goal cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadGoal {
    /// No name of a goal, and no list of its parts.
    #[error(
        "'{0}' is not a goal; say ndr, pdr, rfc2544 or tst009, or its parts, such as 'loss=0.1 %,trial=10s,sum=30s,exceed=50 %,width=1 %'"
    )]
    Unknown(String),
    /// A part with a value that it cannot have.
    #[error("{part} cannot be '{value}'; it is {allowed}")]
    Value {
        /// Its name.
        part: String,
        /// As it was given.
        value: String,
        /// What it can be.
        allowed: &'static str,
    },
}

const RATIO: &str = "a part of all, such as 0, 0.5 % or 0.005, and less than 1";
const WIDTH: &str = "a part of the rate, such as 0.5 % or 0.005, from 0.01 % to 50 %";
const SECONDS: &str = "a time from 100ms to 24h, such as 1s; a sum is no shorter than one trial";
/// Longer than any lab has.
const LONGEST_S: f64 = 86_400.0;
const SHORTEST_S: f64 = 0.1;
const WIDTHS: RangeInclusive<f64> = 0.000_1..=0.5;

impl Goal {
    /// Names of goals that are known, with what they mean.
    pub const PRESETS: [(&'static str, &'static str); 4] = [
        ("ndr", "nothing lost, in more than half of 21 trials of 1 s (CSIT's NDR)"),
        ("pdr", "at most 0.5 % lost, in more than half of 21 trials of 1 s (CSIT's PDR)"),
        ("rfc2544", "nothing lost in one trial of 60 s (RFC 2544)"),
        ("tst009", "nothing lost, in half of 120 s of trials of 60 s (ETSI GS NFV-TST 009)"),
    ];

    /// A goal by its name; `None`: there is none of this name.
    pub fn preset(name: &str) -> Option<Goal> {
        let (loss_ratio, exceed_ratio, trial_s, sum_s) = match name {
            "ndr" => (0.0, 0.5, 1.0, 21.0),
            "pdr" => (0.005, 0.5, 1.0, 21.0),
            "rfc2544" => (0.0, 0.0, 60.0, 60.0),
            "tst009" => (0.0, 0.5, 60.0, 120.0),
            _ => return None,
        };
        let (initial_s, width) = (1.0, 0.005);
        Some(Goal { name: name.to_owned(), loss_ratio, exceed_ratio, trial_s, sum_s, initial_s, width })
    }

    /// Whether its figures are such as a goal can have: a record may come from anybody.
    pub fn is_sound(&self) -> bool {
        let are_ratios = [self.loss_ratio, self.exceed_ratio].iter().all(|ratio| (0.0..1.0).contains(ratio));
        let are_times = [self.trial_s, self.sum_s, self.initial_s].iter().all(|s| (SHORTEST_S..=LONGEST_S).contains(s));
        are_ratios && are_times && self.initial_s <= self.sum_s && WIDTHS.contains(&self.width)
    }

    /// Whether a trial with this loss is a good one.
    pub fn forgives(&self, loss_ratio: f64) -> bool {
        loss_ratio <= self.loss_ratio
    }
}

impl FromStr for Goal {
    type Err = BadGoal;

    fn from_str(text: &str) -> Result<Goal, BadGoal> {
        if let Some(goal) = Goal::preset(text) {
            return Ok(goal);
        }
        let mut goal = Goal { name: text.to_owned(), ..Goal::preset("ndr").expect("it is one") };
        (goal.trial_s, goal.sum_s) = (1.0, 0.0);
        for part in text.split(',') {
            let Some((name, value)) = part.split_once('=') else { return Err(BadGoal::Unknown(text.to_owned())) };
            let bad =
                |allowed| BadGoal::Value { part: name.trim().to_owned(), value: value.trim().to_owned(), allowed };
            let ratio = || ratio(value).filter(|ratio| (0.0..1.0).contains(ratio)).ok_or_else(|| bad(RATIO));
            let seconds = || {
                let seconds = parse_duration(value.trim()).ok().map(|time| time.as_secs_f64());
                seconds.filter(|seconds| (SHORTEST_S..=LONGEST_S).contains(seconds)).ok_or_else(|| bad(SECONDS))
            };
            match name.trim() {
                "loss" => goal.loss_ratio = ratio()?,
                "exceed" => goal.exceed_ratio = ratio()?,
                "width" => {
                    goal.width = ratio().ok().filter(|width| WIDTHS.contains(width)).ok_or_else(|| bad(WIDTH))?
                }
                "trial" => goal.trial_s = seconds()?,
                "sum" => goal.sum_s = seconds()?,
                _ => return Err(BadGoal::Unknown(text.to_owned())),
            }
        }
        // One trial decides where nothing else is said.
        if goal.sum_s == 0.0 {
            goal.sum_s = goal.trial_s;
        }
        if goal.sum_s < goal.trial_s {
            return Err(BadGoal::Value {
                part: "sum".to_owned(),
                value: format!("{} s", goal.sum_s),
                allowed: SECONDS,
            });
        }
        goal.initial_s = goal.trial_s.min(1.0);
        Ok(goal)
    }
}

/// From `0.5 %`, `0.5%` or `0.005`.
fn ratio(text: &str) -> Option<f64> {
    let text = text.trim();
    match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().ok().map(|percent| percent / 100.0),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_are_read() {
        for (name, _) in Goal::PRESETS {
            let goal: Goal = name.parse().unwrap();
            assert!(goal.name == name && goal.is_sound());
            assert!(!Goal { width: f64::NAN, ..goal.clone() }.is_sound() && !Goal { sum_s: 0.5, ..goal }.is_sound());
        }
        let goal: Goal = "loss=0.1 %, trial=10s, sum=30s, exceed=0.5, width=1%".parse().unwrap();
        let (loss_ratio, exceed_ratio, width) = (0.001, 0.5, 0.01);
        let name = "loss=0.1 %, trial=10s, sum=30s, exceed=0.5, width=1%".to_owned();
        assert_eq!(goal, Goal { name, loss_ratio, exceed_ratio, trial_s: 10.0, sum_s: 30.0, initial_s: 1.0, width });
        assert_eq!("loss=0,trial=500ms".parse::<Goal>().unwrap().sum_s, 0.5);
    }

    #[test]
    fn bad_goals_are_a_sentence() {
        for (text, said) in [
            ("", "'' is not a goal"),
            ("nrd", "'nrd' is not a goal"),
            ("loss=1", "loss cannot be '1'; it is a part of all"),
            ("loss=-1 %", "loss cannot be '-1 %'"),
            ("loss=nan", "loss cannot be 'nan'"),
            ("width=0", "width cannot be '0'"),
            ("trial=10ms", "trial cannot be '10ms'"),
            ("trial=10s,sum=5s", "sum cannot be '5 s'"),
            ("colour=5", "'colour=5' is not a goal"),
        ] {
            let error = text.parse::<Goal>().unwrap_err().to_string();
            assert!(error.starts_with(said), "{text}: {error}");
        }
    }
}
