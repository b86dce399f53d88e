//! A search as its records tell it: each trial given once more to the logic that asked for it. What a search finds, a report and
//! a search that is carried on all come from here.
//! Knows which field of a record is what; which load comes next, `trial::search` knows.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use linerate_machine::end::Direction;
use linerate_machine::units::OfferedLoad;
use linerate_machine::words;
use linerate_trial::doubt::DoubtKind;
use linerate_trial::search::bounds::Trial;
use linerate_trial::search::goal::{BadGoal, Goal};
use linerate_trial::search::{Found, Search};
use linerate_trial::spec::Workload;
use serde::{Deserialize, Serialize};

use crate::figure::Source;
use crate::record::Record;

/// So many trials of a load fail, and its search ends.
const MOST_FAILED: u32 = 3;
/// A result so near to what the tester itself can do, as a part of that, says nothing of the path.
const NEAR_TESTER: f64 = 0.97;

/// What a search was asked for. Loads in bits of payload per second, in each direction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SearchAsked {
    /// What was searched for, at the same time.
    pub goals: Vec<Goal>,
    /// The lowest load.
    pub least_bps: f64,
    /// The highest load.
    pub most_bps: f64,
    /// Trials were carried on to their end though their loss had decided them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub whole_trials: bool,
    /// What is found is measured once more for so many seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirm_s: Option<f64>,
    /// The most that the tester carries without what is measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tester_limit_bps: Option<f64>,
}

words! {
    /// What a trial of a search is for.
    Purpose {
        /// To find the bounds.
        Bound = "bound",
        /// To measure what was found once more.
        Confirmation = "confirmation",
    }
}

/// A trial that a search asks for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// What for.
    pub purpose: Purpose,
    /// The load's place among those of the search, from 0, the lowest.
    pub rung: u32,
    /// The load, bits of payload per second in each direction.
    pub load_bps: f64,
    /// The time that was intended, seconds.
    pub trial_s: f64,
    /// The part of the packets with whose loss the trial is decided, and ends; absent: it does not end before its time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_at_loss: Option<f64>,
}

/// Where a trial stands in a search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SearchPlace {
    /// Which search of the campaign, from 0.
    pub number: u32,
    /// What it was asked for.
    #[serde(flatten)]
    pub asked: SearchAsked,
    /// Which of its trials this is.
    #[serde(flatten)]
    pub step: Step,
}

/// A trial that was tried.
#[derive(Clone, Debug, PartialEq)]
pub struct Tried {
    /// The record's identifier.
    pub record: String,
    /// What was asked.
    pub step: Step,
    /// The part of the packets that should have been sent and did not arrive; absent: the trial failed.
    pub loss_ratio: Option<f64>,
    /// The measured time, seconds.
    pub effective_s: Option<f64>,
    /// It ended before its time.
    pub ended_early: bool,
}

/// What there is to doubt of a goal's bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SearchDoubt {
    /// Not both bounds are known, or they are farther apart than was asked for.
    Irregular,
    /// The path holds packets back, and was measured with longer trials.
    DeepBuffer {
        /// For how long, at most, seconds.
        held_s: f64,
        /// How long trials had to be at last, seconds.
        trial_s: f64,
    },
    /// The tester itself carries hardly more.
    TesterLimit {
        /// How much it carries, bits of payload per second.
        bps: f64,
    },
    /// Trials seemed to have lost what then arrived late, so that they were carried on to their end from then on.
    LateArrivals,
}

impl SearchDoubt {
    /// As programs read it.
    pub const fn name(&self) -> &'static str {
        match self {
            SearchDoubt::Irregular => "irregular",
            SearchDoubt::DeepBuffer { .. } => "deep-buffer",
            SearchDoubt::TesterLimit { .. } => "tester-limit",
            SearchDoubt::LateArrivals => "late-arrivals",
        }
    }
}

/// What a search has to find for a goal: that so much is carried, or that no more is.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchExpectation {
    /// The goal's name.
    pub goal: String,
    /// The lower bound is no less than this; else the upper one is no more.
    pub is_least: bool,
    /// Bits of payload per second, in each direction.
    pub bps: u64,
}

impl SearchExpectation {
    /// Whether it came about; `None`: there is no such goal.
    pub fn is_met(&self, searched: &Searched) -> Option<bool> {
        let found = searched.found.iter().find(|found| found.goal.name == self.goal)?;
        let bps = self.bps as f64;
        Some(match self.is_least {
            true => found.lower.is_some_and(|lower| lower >= bps),
            false => found.upper.is_some_and(|upper| upper <= bps),
        })
    }
}

impl FromStr for SearchExpectation {
    type Err = String;

    fn from_str(text: &str) -> Result<SearchExpectation, String> {
        let bad = || {
            format!("'{text}' is no expectation of a search; write a goal and a rate, like ndr >= 900M or ndr <= 1G")
        };
        let signs = [(">=", true), ("<=", false)];
        let (sign, is_least) = signs.into_iter().find(|(sign, _)| text.contains(sign)).ok_or_else(bad)?;
        let (goal, rate) = text.rsplit_once(sign).ok_or_else(bad)?;
        let goal: Goal = goal.trim().parse().map_err(|error: BadGoal| error.to_string())?;
        match rate.trim().parse() {
            Ok(OfferedLoad::BitsPerSecond(bps)) => Ok(SearchExpectation { goal: goal.name, is_least, bps }),
            _ => Err(bad()),
        }
    }
}

impl Display for SearchExpectation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let sign = if self.is_least { ">=" } else { "<=" };
        write!(f, "{} {sign} {}", self.goal, OfferedLoad::BitsPerSecond(self.bps))
    }
}

/// What is known of one search.
#[derive(Clone, Debug, PartialEq)]
pub struct Searched {
    /// The configuration: its workload, its direction, and the levels that tell it from others.
    pub workload: Workload,
    /// Which way.
    pub direction: Direction,
    /// By name.
    pub factors: BTreeMap<String, String>,
    /// What it was asked for.
    pub asked: SearchAsked,
    /// A row for each goal.
    pub found: Vec<Found>,
    /// All trials, in their order.
    pub tried: Vec<Tried>,
    /// The least load that the sender did not send whole, bits of payload per second.
    pub unsent_bps: Option<f64>,
    /// What was lost came late.
    pub has_late_arrivals: bool,
}

impl Searched {
    /// The most that the tester carries by itself, bits of payload per second in each direction.
    pub fn tester_limit_bps(&self) -> Option<f64> {
        [self.asked.tester_limit_bps, self.unsent_bps].into_iter().flatten().min_by(f64::total_cmp)
    }

    /// What there is to doubt of what was found.
    pub fn doubts(&self, found: &Found) -> Vec<SearchDoubt> {
        let irregular = (!found.is_regular && !found.is_unlimited).then_some(SearchDoubt::Irregular);
        let deep = found.held_s.map(|held_s| SearchDoubt::DeepBuffer { held_s, trial_s: found.trial_s });
        let reached = found.upper.or(found.lower);
        let limit = self.tester_limit_bps().filter(|limit| reached.is_some_and(|bps| bps >= limit * NEAR_TESTER));
        let tester = limit.map(|bps| SearchDoubt::TesterLimit { bps });
        let late = self.has_late_arrivals.then_some(SearchDoubt::LateArrivals);
        [irregular, deep, tester, late].into_iter().flatten().collect()
    }

    /// Whether all that was found is known to its width, and of the path.
    pub fn is_known(&self) -> bool {
        self.found.iter().all(|found| found.is_regular || found.is_unlimited)
    }

    /// The trial that measured what was found for a goal once more.
    pub fn confirmation(&self, found: &Found) -> Option<&Tried> {
        let is_it =
            |tried: &&Tried| tried.step.purpose == Purpose::Confirmation && Some(tried.step.load_bps) == found.lower;
        self.tried.iter().rev().find(is_it)
    }

    /// Seconds that all trials measured.
    pub fn measured_s(&self) -> f64 {
        self.tried.iter().filter_map(|tried| tried.effective_s).sum()
    }
}

/// A search that is under way, or read again from its records.
#[derive(Clone, Debug)]
pub struct Replay {
    asked: SearchAsked,
    search: Search,
    failed: u32,
    /// Of each load the trials in which it was sent whole, and those in which it was not.
    sent: BTreeMap<u32, (u32, u32)>,
    tried: Vec<Tried>,
    has_late_arrivals: bool,
}

impl Replay {
    /// A search; `None`: nothing lies between the least and the most, or there is no goal.
    pub fn new(asked: SearchAsked) -> Option<Replay> {
        let search = Search::new(asked.goals.clone(), asked.least_bps, asked.most_bps)?;
        let (failed, sent, tried) = (0, BTreeMap::new(), Vec::new());
        Some(Replay { asked, search, failed, sent, tried, has_late_arrivals: false })
    }

    /// What it was asked for.
    pub fn asked(&self) -> &SearchAsked {
        &self.asked
    }

    /// How often a load was measured.
    pub fn repeats(&self, step: &Step) -> u32 {
        let is_alike = |tried: &&Tried| tried.step.purpose == step.purpose && tried.step.rung == step.rung;
        self.tried.iter().filter(is_alike).count() as u32
    }

    /// The trial to measure now; `None`: there is none.
    pub fn ask(&mut self) -> Option<Step> {
        if self.failed >= MOST_FAILED {
            return None;
        }
        let Some(asked) = self.search.ask() else { return self.unconfirmed() };
        Some(Step {
            purpose: Purpose::Bound,
            rung: asked.rung,
            load_bps: asked.load,
            trial_s: asked.trial_s,
            stop_at_loss: asked.forgiven.filter(|_| !self.asked.whole_trials && !self.has_late_arrivals),
        })
    }

    /// The first load that was found and not measured once more.
    fn unconfirmed(&self) -> Option<Step> {
        let trial_s = self.asked.confirm_s?;
        let loads = self.search.found().into_iter().filter_map(|found| found.lower);
        loads
            .map(|load_bps| {
                let rung = self.search.rung(load_bps);
                Step { purpose: Purpose::Confirmation, rung, load_bps, trial_s, stop_at_loss: None }
            })
            .find(|step| self.repeats(step) == 0)
    }

    /// What came of a trial that was asked for.
    pub fn heard(&mut self, step: &Step, record: &Record) {
        let passed = passed(record);
        self.tried.push(Tried {
            record: record.id.clone(),
            step: step.clone(),
            loss_ratio: passed.as_ref().map(|passed| passed.loss_ratio),
            effective_s: record.duration_s.filter(|_| passed.is_some()),
            ended_early: record.ended_early,
        });
        let Some(passed) = passed else {
            self.failed += 1;
            return;
        };
        self.failed = 0;
        if step.purpose == Purpose::Confirmation || step.rung > self.search.top() {
            return;
        }
        if record.ended_early && step.stop_at_loss.is_none_or(|forgiven| passed.loss_ratio <= forgiven) {
            // What seemed lost came late: this trial decides nothing, nor can a look at what is missing end another.
            self.has_late_arrivals = true;
            return;
        }
        if !record.ended_early {
            let (whole, part) = self.sent.entry(step.rung).or_default();
            *if passed.is_unsent { part } else { whole } += 1;
        }
        self.search.heard(Trial {
            rung: step.rung,
            intended_s: step.trial_s,
            effective_s: step.trial_s,
            loss_ratio: passed.loss_ratio,
            held_ratio: if record.ended_early { 0.0 } else { passed.held_ratio },
        });
    }

    /// A record of a campaign that is carried on.
    pub fn carry_on(&mut self, record: &Record, place: &SearchPlace) {
        // What it was asked for follows from what it had heard.
        let _ = self.ask();
        self.heard(&place.step, record);
        self.failed = 0;
    }

    /// What is known by now of this configuration.
    pub fn searched(&self, workload: Workload, direction: Direction, factors: BTreeMap<String, String>) -> Searched {
        Searched {
            workload,
            direction,
            factors,
            asked: self.asked.clone(),
            found: self.search.found(),
            tried: self.tried.clone(),
            unsent_bps: self.unsent_bps(),
            has_late_arrivals: self.has_late_arrivals,
        }
    }

    /// The least load from which on the sender does not send all: a trial in which it did not is an accident.
    fn unsent_bps(&self) -> Option<f64> {
        let is_unsent = |(whole, part): &(u32, u32)| part > whole;
        let unsent = self.sent.iter().rev().take_while(|(_, sent)| is_unsent(sent)).last();
        unsent.map(|(rung, _)| self.search.load(*rung))
    }
}

/// The searches that these records are of, in the order in which they began.
pub fn searched<'a>(records: impl IntoIterator<Item = &'a Record>) -> Vec<Searched> {
    let mut searches: Vec<((&str, u32), &Record, Replay)> = Vec::new();
    for record in records {
        let Some(place) = &record.trial.search else { continue };
        let which = (record.campaign.as_str(), place.number);
        let at = match searches.iter().position(|(other, ..)| *other == which) {
            Some(at) => at,
            None => {
                let Some(replay) = Replay::new(place.asked.clone()) else { continue };
                searches.push((which, record, replay));
                searches.len() - 1
            }
        };
        searches[at].2.carry_on(record, place);
    }
    let of = |(_, record, replay): ((&str, u32), &Record, Replay)| {
        let factors = record.trial.factors.iter().filter(|(name, _)| *name != "rate");
        let factors = factors.map(|(name, level)| (name.clone(), level.clone())).collect();
        replay.searched(record.workload, record.direction, factors)
    };
    searches.into_iter().map(of).collect()
}

/// What a trial let through, in all directions together.
struct Passed {
    /// The part of what should have been sent that did not arrive (RFC 9971: what was not sent is lost).
    loss_ratio: f64,
    /// Of what arrived, the part that came after the measured time.
    held_ratio: f64,
    /// Not all was sent.
    is_unsent: bool,
}

/// `None`: the trial failed.
fn passed(record: &Record) -> Option<Passed> {
    let sources = Source::each(record);
    if sources.is_empty() {
        return None;
    }
    let (mut arrived, mut held, mut is_unsent) = (0.0, 0.0, false);
    for source in &sources {
        let flow = source.flow?;
        let (achieved_bps, arrived_ratio) = (flow.achieved_load_bps?, 1.0 - flow.loss_ratio?);
        let offered_bps = source.offered_bps()?;
        // What is within the sender's own precision is sent.
        let is_behind = record.has_doubt(DoubtKind::SenderFellBehind) && achieved_bps < offered_bps;
        is_unsent |= is_behind;
        let sent = if is_behind { achieved_bps / offered_bps } else { 1.0 };
        arrived += sent * arrived_ratio;
        let all_bps = achieved_bps * arrived_ratio;
        held += flow.throughput_bps.filter(|_| all_bps > 0.0).map_or(0.0, |bps| (1.0 - bps / all_bps).max(0.0));
    }
    let each = sources.len() as f64;
    Some(Passed { loss_ratio: 1.0 - arrived / each, held_ratio: held / each, is_unsent })
}

#[cfg(test)]
mod tests {
    use linerate_trial::doubt::{Doubted, HeldUp};

    use super::*;
    use crate::record::{Figures, FlowFigures};
    use crate::sample;

    const CAPACITY: f64 = 60e6;

    fn asked() -> SearchAsked {
        SearchAsked {
            goals: ["ndr", "pdr"].map(|name| name.parse().unwrap()).to_vec(),
            least_bps: 100e3,
            most_bps: 100e6,
            whole_trials: false,
            confirm_s: Some(60.0),
            tester_limit_bps: None,
        }
    }

    /// What a path of [`CAPACITY`] makes of a step; the sender sends no more than so much.
    fn record(number: u32, asked: &SearchAsked, step: &Step, sends_bps: f64) -> Record {
        let mut record = sample::blank(
            number,
            Workload::UdpStream,
            Direction::Rx,
            &[("rate", &format!("{}", step.load_bps as u64))],
        );
        let sent = step.load_bps.min(sends_bps);
        let passed = sent.min(CAPACITY);
        let loss_ratio = 1.0 - passed / sent;
        record.ended_early = step.stop_at_loss.is_some_and(|forgiven| loss_ratio > forgiven);
        record.duration_s = Some(if record.ended_early { 0.2 } else { step.trial_s });
        let flow = FlowFigures {
            throughput_bps: Some(passed),
            achieved_load_bps: Some(sent),
            loss_ratio: Some(loss_ratio),
            ..FlowFigures::default()
        };
        record.result = Some(Figures { flow, ..Figures::default() });
        if sent < step.load_bps * 0.99 {
            let (asked_bps, offered_bps) = (step.load_bps, sent);
            record
                .doubts
                .push(Doubted::SenderFellBehind { asked_bps, offered_bps, held_up: Some(HeldUp::Unknown) }.into());
        }
        let place = SearchPlace { number: 0, asked: asked.clone(), step: step.clone() };
        record.trial.search = Some(Box::new(place));
        record
    }

    fn carried_out(asked: SearchAsked, sends_bps: f64) -> (Replay, Vec<Record>) {
        let mut replay = Replay::new(asked.clone()).unwrap();
        let mut records = Vec::new();
        while let Some(step) = replay.ask() {
            records.push(record(records.len() as u32, &asked, &step, sends_bps));
            replay.heard(&step, records.last().unwrap());
            assert!(records.len() < 200);
        }
        (replay, records)
    }

    #[test]
    fn records_tell_what_the_search_found() {
        let (replay, records) = carried_out(asked(), f64::INFINITY);
        let [found] = &searched(&records)[..] else { panic!() };
        let known = replay.searched(Workload::UdpStream, Direction::Rx, found.factors.clone());
        assert_eq!(*found, known);
        for goal in &found.found {
            let (lower, upper) = (goal.lower.unwrap(), goal.upper.unwrap());
            let carries = CAPACITY / (1.0 - goal.goal.loss_ratio);
            assert!(goal.is_regular && lower <= carries && upper > carries, "{goal:?}");
            assert_eq!(found.doubts(goal), []);
            // Each was measured once more, whole.
            let confirmation = found.confirmation(goal).unwrap();
            assert_eq!((confirmation.step.trial_s, confirmation.step.stop_at_loss), (60.0, None));
            assert!(goal.goal.forgives(confirmation.loss_ratio.unwrap()));
        }
        assert!(found.tried.iter().any(|tried| tried.ended_early) && found.measured_s() < 200.0);
        // Read from what a store has.
        let read = records.iter().map(|record| serde_json::from_value(record.to_json()).unwrap());
        assert_eq!(searched(&read.collect::<Vec<Record>>())[0].found, found.found);
    }

    #[test]
    fn a_search_is_carried_on_where_it_stopped() {
        let (_, records) = carried_out(asked(), f64::INFINITY);
        for kept in [1, 2, 5, 17, records.len() - 1] {
            let mut replay = Replay::new(asked()).unwrap();
            for record in &records[..kept] {
                replay.carry_on(record, record.trial.search.as_ref().unwrap());
            }
            let next = records[kept].trial.search.as_ref().unwrap();
            assert_eq!(replay.ask().as_ref(), Some(&next.step), "{kept}");
        }
    }

    #[test]
    fn what_the_tester_does_not_send_is_its_limit() {
        let (replay, _) = carried_out(asked(), 40e6);
        let found = replay.searched(Workload::UdpStream, Direction::Rx, BTreeMap::new());
        for goal in &found.found {
            assert!(goal.upper.is_some_and(|upper| (39e6..42e6).contains(&upper)), "{goal:?}");
            let [SearchDoubt::TesterLimit { bps }] = found.doubts(goal)[..] else { panic!("{:?}", found.doubts(goal)) };
            assert!((40e6..42e6).contains(&bps), "{bps}");
        }
        // As a calibration found it: 3 % is near.
        for (limit, is_near) in [(61.5e6, true), (62.5e6, false)] {
            let (replay, _) = carried_out(SearchAsked { tester_limit_bps: Some(limit), ..asked() }, f64::INFINITY);
            let found = replay.searched(Workload::UdpStream, Direction::Rx, BTreeMap::new());
            assert_eq!(!found.doubts(&found.found[0]).is_empty(), is_near, "{limit}");
        }
    }

    #[test]
    fn what_came_late_ends_no_trial_again() {
        let mut replay = Replay::new(asked()).unwrap();
        for number in 0..3 {
            let step = replay.ask().unwrap();
            replay.heard(&step, &record(number, &asked(), &step, f64::INFINITY));
        }
        let step = replay.ask().unwrap();
        assert!(step.stop_at_loss.is_some());
        let mut late = record(3, &asked(), &Step { load_bps: 50e6, ..step.clone() }, f64::INFINITY);
        late.ended_early = true;
        replay.heard(&step, &late);
        assert_eq!(replay.ask(), Some(Step { stop_at_loss: None, ..step }), "the same load, to its end");
        let found = replay.searched(Workload::UdpStream, Direction::Rx, BTreeMap::new());
        assert!(found.doubts(&found.found[0]).contains(&SearchDoubt::LateArrivals));
    }

    #[test]
    fn what_nobody_can_have_searched_is_no_search() {
        let (_, mut records) = carried_out(asked(), f64::INFINITY);
        for record in &mut records {
            record.trial.search.as_mut().unwrap().step.rung = u32::MAX;
        }
        assert!(searched(&records)[0].found.iter().all(|goal| goal.lower.is_none()));
        for bad in [
            SearchAsked { goals: Vec::new(), ..asked() },
            SearchAsked { least_bps: f64::NAN, ..asked() },
            SearchAsked { most_bps: 1.0, ..asked() },
            SearchAsked { goals: vec![Goal { width: 1e-9, ..asked().goals[0].clone() }], ..asked() },
        ] {
            assert!(Replay::new(bad.clone()).is_none(), "{bad:?}");
        }
    }

    #[test]
    fn expectations_are_read() {
        let (replay, _) = carried_out(asked(), f64::INFINITY);
        let found = replay.searched(Workload::UdpStream, Direction::Rx, BTreeMap::new());
        for (text, met) in [
            ("ndr >= 59M", Some(true)),
            ("ndr >= 61M", Some(false)),
            ("pdr <= 61M", Some(true)),
            ("pdr <= 50M", Some(false)),
            ("rfc2544 >= 1M", None),
        ] {
            let expected: SearchExpectation = text.parse().unwrap();
            assert_eq!((expected.to_string().as_str(), expected.is_met(&found)), (text, met));
        }
        for text in ["ndr", "ndr > 5M", "ndr >= fast", "best >= 5M", "ndr >= 5kpps"] {
            assert!(text.parse::<SearchExpectation>().is_err(), "{text}");
        }
    }
}
