//! What an observer of a campaign knows of it: its events, folded.
//! Knows no clock; when an event came is an argument.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use linerate_machine::printable::in_line;
use linerate_results::record::Record;

use super::events::{CampaignEvent, IntervalUpdate};
use super::live::Interval;
use super::time_left::TimeLeft;
use crate::render::explain::FirstFinding;

/// The most trials and sentences that are kept; the store has all trials.
const TRIALS: usize = 200;
const SENTENCES: usize = 100;
/// The most configurations that are kept, and the longest text of another machine.
const CONFIGURATIONS: usize = 10_000;
const WORDS: usize = 2000;
/// The most seconds of a trial that are kept, and the most repeats of a configuration.
const SECONDS: usize = 3600;
const REPEATS: usize = 1000;

/// A campaign as far as it is known.
#[derive(Default)]
pub(crate) struct Watched {
    /// Its identifier, once it stands in the store.
    pub(crate) campaign: Option<String>,
    pub(crate) plan: String,
    pub(crate) target: String,
    pub(crate) host: String,
    /// How many trials there are, where that is known, and how many were finished before.
    pub(crate) planned: Option<usize>,
    pub(crate) done: usize,
    /// What is being done instead of a trial.
    pub(crate) doing: Option<String>,
    /// The trial that runs.
    pub(crate) trial: Option<Running>,
    /// Of the trial that runs, else of the last one.
    pub(crate) passed: Vec<Interval>,
    pub(crate) offered_bps: Option<f64>,
    pub(crate) expected_s: Option<f64>,
    /// The last trials, oldest first.
    pub(crate) ended: VecDeque<Finished>,
    /// How many there were of them, and how many of those have no figures.
    pub(crate) counts: [usize; 2],
    /// The record of the last one.
    pub(crate) last: Option<Box<Record>>,
    /// What each of them shows first.
    pub(crate) firsts: Vec<FirstFinding>,
    /// By configuration: what it measures, and what its repeats came to, one after the other.
    pub(crate) narrowed: BTreeMap<u32, (String, Vec<IntervalUpdate>)>,
    /// The configuration that narrowed last.
    pub(crate) latest: Option<u32>,
    pub(crate) said: VecDeque<String>,
    pub(crate) outcome: Option<Outcome>,
    words: BTreeMap<u32, String>,
    left: Option<(TimeLeft, Instant)>,
}

/// The trial that runs.
pub(crate) struct Running {
    pub(crate) place: usize,
    pub(crate) planned: Option<usize>,
    pub(crate) words: String,
    pub(crate) expected_s: Option<f64>,
    pub(crate) began: Instant,
}

/// A trial that ended.
pub(crate) struct Finished {
    pub(crate) place: usize,
    pub(crate) words: String,
    /// In brief.
    pub(crate) record: Box<Record>,
}

/// How it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) failed: Option<usize>,
    pub(crate) error: Option<String>,
}

impl Watched {
    /// Its process ended, for this reason, and may have told nobody.
    pub(crate) fn broke_off(&mut self, why: &str) {
        let error = Some(short(why));
        self.outcome.get_or_insert(Outcome { failed: None, error });
    }

    /// Something happened.
    pub(crate) fn hear(&mut self, event: CampaignEvent, now: Instant) {
        match event {
            CampaignEvent::Began { campaign, plan, target, host, planned, left, done } => {
                (self.campaign, self.plan, self.target, self.host) = (Some(campaign), plan, target, host);
                (self.planned, self.done) = (planned, done);
                self.left = left.map(|left| (left, now));
            }
            CampaignEvent::Booting { end, level, .. } => self.doing = Some(format!("booting the {end} as {level}")),
            CampaignEvent::TrialBegan {
                place, planned, words, configuration, expected_s, offered_bps, left, ..
            } => {
                self.doing = None;
                let words = short(&words);
                if self.words.len() < CONFIGURATIONS {
                    self.words.insert(configuration, words.clone());
                }
                self.trial = Some(Running { place, planned, words, expected_s, began: now });
                self.passed.clear();
                (self.offered_bps, self.expected_s) = (offered_bps, expected_s);
                self.left = left.map(|left| (left, now));
            }
            CampaignEvent::Elapsed { .. } => {}
            CampaignEvent::Passed(interval) => {
                if self.passed.len() < SECONDS {
                    self.passed.push(interval);
                }
            }
            CampaignEvent::TrialEnded { place, words, record, .. } => {
                self.trial = None;
                self.counts[0] += 1;
                self.counts[1] += usize::from(record.error.is_some());
                let record_in_brief = Box::new(record.in_brief());
                keep(&mut self.ended, TRIALS, Finished { place, words: short(&words), record: record_in_brief });
                if self.firsts.len() < CONFIGURATIONS {
                    self.firsts.push(FirstFinding::of(&record));
                }
                self.last = Some(record);
            }
            CampaignEvent::Narrowed(narrowed) => {
                if self.narrowed.len() >= CONFIGURATIONS {
                    return;
                }
                let words = self.words.get(&narrowed.configuration).cloned().unwrap_or_default();
                self.latest = Some(narrowed.configuration);
                let (_, all) = self.narrowed.entry(narrowed.configuration).or_insert((words, Vec::new()));
                if all.len() < REPEATS {
                    all.push(narrowed);
                }
            }
            CampaignEvent::Refused { words, sentence } => {
                keep(&mut self.said, SENTENCES, short(&format!("{words}: {sentence}")))
            }
            CampaignEvent::Said { sentence } => keep(&mut self.said, SENTENCES, short(&sentence)),
            CampaignEvent::Ended { failed, error, .. } => {
                (self.trial, self.doing, self.left) = (None, None, None);
                self.outcome = Some(Outcome { failed, error: error.as_deref().map(short) });
            }
        }
    }

    /// How long it still takes.
    pub(crate) fn left(&self, now: Instant) -> Option<TimeLeft> {
        let (left, since) = self.left?;
        let passed = now.saturating_duration_since(since);
        Some(TimeLeft { time: left.time.checked_sub(passed).unwrap_or(Duration::ZERO), ..left })
    }
}

fn short(text: &str) -> String {
    in_line(text, WORDS).into_owned()
}

fn keep<T>(all: &mut VecDeque<T>, most: usize, one: T) {
    if all.len() == most {
        all.pop_front();
    }
    all.push_back(one);
}

#[cfg(test)]
mod tests {
    use linerate_machine::end::Direction;
    use linerate_results::sample;

    use super::*;

    fn began(place: usize) -> CampaignEvent {
        CampaignEvent::TrialBegan {
            place,
            planned: Some(2),
            words: format!("udp-stream rate={place}00M"),
            index: place as u32 - 1,
            repeat: 0,
            configuration: place as u32,
            expected_s: Some(2.0),
            offered_bps: Some(1e8),
            left: Some(TimeLeft { time: Duration::from_secs(9), at_most: false }),
        }
    }

    #[test]
    fn a_campaign_from_its_events() {
        let (mut watched, now) = (Watched::default(), Instant::now());
        watched.hear(began(1), now);
        let interval = Interval { until_s: 1.0, direction: Direction::Rx, bps: 9e7, is_sent: false };
        watched.hear(CampaignEvent::Passed(interval), now);
        assert_eq!(watched.left(now + Duration::from_secs(4)).unwrap().time, Duration::from_secs(5));
        assert_eq!(watched.left(now + Duration::from_secs(40)).unwrap().time, Duration::ZERO);
        assert_eq!((watched.passed.len(), watched.trial.as_ref().map(|trial| trial.place)), (1, Some(1)));
        let record = |at| Box::new(sample::udp(at, Direction::Rx, 100, 90.0));
        let ended = |place, record| CampaignEvent::TrialEnded { place, planned: None, words: String::new(), record };
        watched.hear(ended(1, record(0)), now);
        let narrowed =
            IntervalUpdate { configuration: 1, metric: "x".to_owned(), repeats: 1, median: 9e7, interval: None };
        watched.hear(CampaignEvent::Narrowed(narrowed), now);
        assert_eq!(watched.narrowed[&1].0, "udp-stream rate=100M");
        assert!(watched.trial.is_none() && watched.passed.len() == 1, "the last trial is still shown");
        watched.hear(began(2), now);
        assert!(watched.passed.is_empty());
        watched.hear(ended(2, Box::new(sample::failed(1))), now);
        watched.hear(CampaignEvent::Ended { failed: Some(1), error: None, not_put_back: 0 }, now);
        assert_eq!((watched.counts, watched.left(now)), ([2, 1], None));
    }

    #[test]
    fn what_is_kept_has_an_end() {
        let (mut watched, now) = (Watched::default(), Instant::now());
        for at in 0..10_000 {
            watched.hear(CampaignEvent::Said { sentence: at.to_string() }, now);
            let bps = f64::from(at);
            let interval = Interval { until_s: bps, direction: Direction::Rx, bps, is_sent: false };
            watched.hear(CampaignEvent::Passed(interval), now);
        }
        assert_eq!((watched.said.len(), watched.passed.len()), (SENTENCES, SECONDS));
        assert_eq!(watched.said.back().unwrap(), "9999");
    }
}
