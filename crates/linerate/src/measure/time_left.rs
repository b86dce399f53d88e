//! How long a campaign still takes: the time that its trials ask for, and what trials cost beside it so far.
//! Knows no clock; how long each trial took is an argument.

use std::time::Duration;

use linerate_trial::spec::Extent;
use serde::{Deserialize, Serialize};

use linerate_plan::{BESIDE_A_TRIAL, PlannedTrial, WantedSetting};

/// What is known of the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TimeLeft {
    #[serde(rename = "s", with = "seconds")]
    pub(crate) time: Duration,
    /// Trials that turn out not to be needed will be left out.
    pub(crate) at_most: bool,
}

/// A time as seconds, in JSON.
mod seconds {
    use std::time::Duration;

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_f64(time.as_secs_f64())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        Duration::try_from_secs_f64(f64::deserialize(from)?).map_err(D::Error::custom)
    }
}

/// Keeps the account. Trials before which settings change cost more, and an order by chance does not spread them
/// evenly: so they have a mean of their own.
pub(crate) struct Pace {
    left: Vec<Kind>,
    place: usize,
    /// By kind: what its trials cost beside the time they asked for, or at all where they asked for none.
    seen: [Seen; 4],
    settings: Vec<WantedSetting>,
    at_most: bool,
    /// Boots that are still needed, and what one takes.
    pub(crate) boots: (u32, Option<Duration>),
}

/// What a trial is for its time.
#[derive(Clone, Copy, Debug)]
struct Kind {
    asked: Option<Duration>,
    changes: bool,
}

#[derive(Clone, Copy, Default)]
struct Seen {
    took: Duration,
    trials: u32,
}

impl Kind {
    fn of(trial: &PlannedTrial, before: &[WantedSetting]) -> Kind {
        let asked = match trial.spec.extent {
            Extent::Time(_) => trial.spec.expected_time(),
            Extent::Octets(_) => None,
        };
        Kind { asked, changes: trial.settings != before }
    }

    fn place(self) -> usize {
        2 * usize::from(self.asked.is_none()) + usize::from(self.changes)
    }
}

impl Pace {
    /// For these trials. `at_most`: some of them will be left out.
    pub(crate) fn of(trials: &[&PlannedTrial], at_most: bool) -> Pace {
        let mut before: &[WantedSetting] = &[];
        let mut left = Vec::with_capacity(trials.len());
        for trial in trials {
            left.push(Kind::of(trial, before));
            before = &trial.settings;
        }
        // The next trial is at the end, so that it can be taken away.
        left.reverse();
        Pace { left, place: 0, seen: Default::default(), settings: Vec::new(), at_most, boots: (0, None) }
    }

    /// The next trial is not needed.
    pub(crate) fn trial_left_out(&mut self) {
        self.left.pop();
    }

    /// The next trial begins; what it costs depends on how the machines are set by now.
    pub(crate) fn trial_begins(&mut self, trial: &PlannedTrial) {
        self.place = Kind::of(trial, &self.settings).place();
        self.settings.clone_from(&trial.settings);
    }

    pub(crate) fn trial_ended(&mut self, took: Duration) {
        let Some(kind) = self.left.pop() else { return };
        let seen = &mut self.seen[self.place];
        seen.took += took.saturating_sub(kind.asked.unwrap_or_default());
        seen.trials += 1;
    }

    /// Counted from the start of the present trial; `None` while nobody can know.
    pub(crate) fn left(&self) -> Option<TimeLeft> {
        let mut time = match self.boots {
            (0, _) => Duration::ZERO,
            (more, usual) => usual? * more,
        };
        for kind in &self.left {
            time += kind.asked.unwrap_or_default() + self.beside(*kind)?;
        }
        Some(TimeLeft { time, at_most: self.at_most })
    }

    /// What such a trial costs beside what it asks for.
    fn beside(&self, kind: Kind) -> Option<Duration> {
        let mean = |place: usize| self.seen[place].took.checked_div(self.seen[place].trials);
        let place = kind.place();
        // As long as there was none of its kind, one with changes is taken for one without, and the other way.
        match mean(place).or_else(|| mean(place ^ 1)) {
            Some(mean) => Some(mean),
            None if kind.asked.is_some() => Some(BESIDE_A_TRIAL),
            None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_plan::Plan;

    fn trials(text: &str, repeat: u32) -> Vec<PlannedTrial> {
        let plan = Plan::parse(&format!("format = 'linerate.plan/1'\n{text}"), "t.toml", "t").unwrap();
        plan.trials(&[], Some(repeat)).unwrap()
    }

    const S: Duration = Duration::from_secs(1);

    #[test]
    fn what_trials_cost_beside_their_time_is_learnt_by_kind() {
        let trials = trials(
            "workload = 'tcp-stream'\n[options]\nduration = '10s'\n[factors]\ntarget.mtu = [1500, 9000]\n\
             direction = 'tx,rx'\n",
            1,
        );
        let mut pace = Pace::of(&trials.iter().collect::<Vec<_>>(), false);
        let check = |pace: &Pace, seconds: u32| {
            assert_eq!(pace.left(), Some(TimeLeft { time: seconds * S, at_most: false }));
        };
        assert_eq!(pace.left(), Some(TimeLeft { time: 41 * S, at_most: false }));
        pace.trial_begins(&trials[0]);
        pace.trial_ended(15 * S);
        check(&pace, 3 * 15);
        pace.trial_begins(&trials[1]);
        pace.trial_ended(11 * S);
        check(&pace, 15 + 11);
        pace.trial_left_out();
        check(&pace, 11);
    }

    #[test]
    fn trials_by_bytes_take_as_long_as_those_before() {
        let trials = trials("workload = 'tcp-stream'\n[options]\nbytes = '1M'\n", 3);
        let mut pace = Pace::of(&trials.iter().collect::<Vec<_>>(), true);
        assert_eq!(pace.left(), None);
        pace.trial_begins(&trials[0]);
        pace.trial_ended(4 * S);
        assert_eq!(pace.left(), Some(TimeLeft { time: 8 * S, at_most: true }));
    }
}
