//! What happens in a campaign, while it happens: one enum, which the line of progress, `--events`, a browser and the console
//! read alike. Facts only; sentences are made where they are shown, but for those that machines sent.
//!
//! ```text
//!   began ─→ ( booting… trial_began ─→ elapsed…, passed… ─→ trial_ended ─→ narrowed ─→ refused, said )… ─→ said… ─→ ended
//! ```

use linerate_machine::end::End;
use linerate_plan::Precision;
use linerate_results::record::Record;
use linerate_stats::sequential::{LEAST_MAX, MOST_MAX};
use serde::{Deserialize, Serialize};

use super::live::Interval;
use super::precision::{Repeats, main_metric};
use super::time_left::TimeLeft;

/// A listener to a campaign's events. It runs in the campaign's own thread, between and within trials: it must not wait.
pub(crate) type Listener<'a> = &'a dyn Fn(&CampaignEvent);

/// One of them; `event` names it in JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum CampaignEvent {
    /// The first: the machines are reached, and the campaign stands in the store.
    Began {
        campaign: String,
        plan: String,
        target: String,
        host: String,
        /// How many trials this process will carry out; absent where the trials themselves decide.
        planned: Option<usize>,
        left: Option<TimeLeft>,
        /// Trials of the campaign that were finished before.
        done: usize,
    },
    /// A machine is being booted; so long now, and it may take so long.
    Booting { end: End, level: String, elapsed_s: f64, at_most_s: f64 },
    /// A trial begins.
    TrialBegan {
        /// Among those of this process, from 1.
        place: usize,
        planned: Option<usize>,
        /// Its workload and levels.
        words: String,
        /// Its number in the campaign and its repeat, as its record will have them.
        index: u32,
        repeat: u32,
        configuration: u32,
        /// How long its traffic takes, seconds; absent where that depends on the traffic.
        expected_s: Option<f64>,
        /// Payload bits per second that the sender is asked for, of all streams; absent where it sends as much as it can.
        offered_bps: Option<f64>,
        /// What the campaign takes from here on.
        left: Option<TimeLeft>,
    },
    /// So many seconds of the trial have passed. Comes many times a second; no one but a moving line needs it.
    Elapsed { elapsed_s: f64, left: Option<TimeLeft> },
    /// What passed in about a second, as agents say anyway.
    Passed(Interval),
    /// The trial has ended, and its record is stored: figures, losses by stage, doubts, or why it has none.
    TrialEnded {
        place: usize,
        planned: Option<usize>,
        /// What tells it from the other trials.
        words: String,
        record: Box<Record>,
    },
    /// What its configuration has come to by now.
    Narrowed(IntervalUpdate),
    /// The trial that ended has no figures, for this reason, and the campaign goes on.
    Refused { words: String, sentence: String },
    /// A machine or a setting has something to say; `sentence` is as people read it.
    Said { sentence: String },
    /// The last: settings are put back. `failed`: how many trials have no figures, of a campaign that ran to its end;
    /// `error`: why it did not; `not_put_back`: how many settings could not be.
    Ended {
        failed: Option<usize>,
        error: Option<String>,
        #[serde(default, skip_serializing_if = "is_none")]
        not_put_back: usize,
    },
}

/// What the repeats of a configuration have come to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct IntervalUpdate {
    pub(crate) configuration: u32,
    /// The figure, as `results::figures` names it, in the record's unit.
    pub(crate) metric: String,
    pub(crate) repeats: usize,
    pub(crate) median: f64,
    /// The median's 95 % interval; absent while there are too few repeats. Looking after each repeat is reckoned with.
    pub(crate) interval: Option<(f64, f64)>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_none(count: &usize) -> bool {
    *count == 0
}

impl CampaignEvent {
    /// Whether it comes so often that a line each would only fill a pipe.
    pub(crate) fn is_frequent(&self) -> bool {
        matches!(self, CampaignEvent::Elapsed { .. } | CampaignEvent::Booting { .. })
    }
}

/// Keeps what each configuration's repeats come to.
pub(super) struct IntervalTracker {
    repeats: Repeats,
}

impl IntervalTracker {
    /// `most`: how many repeats a configuration may have.
    pub(super) fn new(precision: Option<Precision>, most: u32) -> IntervalTracker {
        let max_repeats = most.clamp(LEAST_MAX, MOST_REPEATS.min(MOST_MAX));
        IntervalTracker { repeats: Repeats::new(precision.unwrap_or(Precision { part: 1.0, max_repeats })) }
    }

    /// A record of the campaign; what its configuration has come to with it, where that is more than itself.
    pub(super) fn heard(&mut self, record: &Record) -> Option<CampaignEvent> {
        let configuration = record.trial.configuration?;
        let before = self.repeats.reached(configuration).map_or(0, |reached| reached.repeats);
        self.repeats.before(record);
        let reached = self.repeats.reached(configuration).filter(|reached| reached.repeats > before)?;
        Some(CampaignEvent::Narrowed(IntervalUpdate {
            configuration,
            metric: main_metric(record.workload).name.clone(),
            repeats: reached.repeats,
            median: reached.median,
            interval: reached.interval,
        }))
    }
}

/// The rule for looking after each repeat is worked out for so many at most; it takes milliseconds.
const MOST_REPEATS: u32 = 200;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use linerate_machine::end::Direction;
    use linerate_results::sample;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn an_event_is_an_object_that_names_it() {
        let left = Some(TimeLeft { time: Duration::from_millis(1500), at_most: true });
        let told = serde_json::to_value(CampaignEvent::Elapsed { elapsed_s: 0.5, left }).unwrap();
        assert_eq!(told, json!({"event": "elapsed", "elapsed_s": 0.5, "left": {"s": 1.5, "at_most": true}}));
        let passed = Interval { until_s: 1.0, direction: Direction::Rx, bps: 4e8, is_sent: false };
        let told = serde_json::to_value(CampaignEvent::Passed(passed)).unwrap();
        assert_eq!(told["event"], "passed");
        let CampaignEvent::Passed(read) = serde_json::from_value(told).unwrap() else { panic!("another event") };
        assert_eq!(read, passed);
        let ended = CampaignEvent::TrialEnded {
            place: 1,
            planned: Some(2),
            words: "udp-stream".to_owned(),
            record: Box::new(sample::udp(0, Direction::Rx, 600, 400.0)),
        };
        let told: Value = serde_json::to_value(&ended).unwrap();
        let lost = sample::udp(0, Direction::Rx, 600, 400.0).result.and_then(|figures| figures.flow.loss_ratio);
        assert_eq!((&told["event"], told["record"]["result"]["loss_ratio"].as_f64()), (&json!("trial_ended"), lost));
        let CampaignEvent::TrialEnded { record, .. } = serde_json::from_value(told).unwrap() else { panic!("another") };
        assert_eq!(*record, sample::udp(0, Direction::Rx, 600, 400.0));
    }

    #[test]
    fn repeats_narrow_an_interval() {
        let mut narrowing = IntervalTracker::new(None, 20);
        let mut heard = |at: u32, mbit: f64| {
            let mut record = sample::tcp(at, Direction::Rx, mbit, false);
            record.trial.configuration = Some(3);
            narrowing.heard(&record)
        };
        let all: Vec<IntervalUpdate> = (0..12)
            .map(|at| match heard(at, 900.0 + f64::from(at % 3)) {
                Some(CampaignEvent::Narrowed(narrowed)) => narrowed,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!((all[0].repeats, all[11].repeats, all[11].configuration), (1, 12, 3));
        assert_eq!((all[0].interval, all[11].median), (None, 901e6));
        let (low, high) = all[11].interval.expect("twelve are enough");
        assert!((900e6..=901e6).contains(&low) && (901e6..=902e6).contains(&high), "{low} {high}");
        let mut failed = sample::failed(20);
        failed.trial.configuration = Some(3);
        assert!(narrowing.heard(&failed).is_none(), "it has no figure");
    }
}
