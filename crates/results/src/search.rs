//! A search as its records tell it: each trial given once more to the logic that asked for it. What a search finds, a report and
//! a search that is carried on all come from here.
//! Knows which field of a record is what; which load comes next, `trial::search` knows.

pub mod calibration;
pub mod rfc6349;
pub mod stages;

mod replay;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use linerate_machine::end::Direction;
use linerate_machine::units::OfferedLoad;
use linerate_machine::words;
use linerate_stats::median;
use linerate_trial::outcome::TcpSummary;
use linerate_trial::search::GoalResult;
use linerate_trial::search::goal::{BadGoal, Goal};
use linerate_trial::spec::Workload;
use serde::{Deserialize, Serialize};

use crate::record::{Latency, Record};

pub use replay::Replay;
use stages::Stage;

/// A result so near to what the tester itself can do, as a part of that, says nothing of the path.
const NEAR_TESTER: f64 = 0.97;
/// What loses less is no limit of rate.
const FEW: f64 = 0.05;
/// At so many times the load that a limit of rate lets pass, three of four are lost.
const FAR: f64 = 4.0;

/// What a search was asked for. Loads in bits of payload per second, of frames with their FCS, in each direction.
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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confirm_s: Option<f64>,
    /// The most that the tester carries without what is measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tester_limit_bps: Option<f64>,
    /// The campaign of the calibration that found it; absent: somebody said it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calibration: Option<String>,
    /// It is itself a calibration: what was measured is the tester, with nothing between its ports.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub calibrates: bool,
    /// What is measured beside the bounds, in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<Stage>,
    /// For how long each time, seconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub stage_s: f64,
    /// Payload of a packet, octets; of a frame all of it, FCS counted, and of a mix of sizes the mean.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packet_octets: Option<u32>,
    /// What such a packet takes of an Ethernet, octets: preamble, headers, FCS and gap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wire_octets: Option<u32>,
    /// What the slower of the two links does, bits per second, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line_bps: Option<f64>,
    /// The device on the way is reset by this command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reset: Option<String>,
    /// Packets are Ethernet frames, and loads count all of each, with its FCS; else datagrams.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_of_frames: bool,
}

impl SearchAsked {
    /// Packets a second of a load.
    pub fn packets_per_s(&self, bps: f64) -> Option<f64> {
        self.packet_octets.filter(|octets| *octets > 0).map(|octets| bps / 8.0 / f64::from(octets))
    }

    /// What a load takes of the slower link, preamble and gap included.
    pub fn of_line(&self, bps: f64) -> Option<f64> {
        Some(self.packets_per_s(bps)? * 8.0 * f64::from(self.wire_octets?) / self.line_bps.filter(|line| *line > 0.0)?)
    }
}

fn is_zero(seconds: &f64) -> bool {
    *seconds == 0.0
}

words! {
    /// What a trial of a search is for.
    Purpose {
        /// To find the bounds.
        Bound = "bound",
        /// To measure what was found once more.
        Confirmation = "confirmation",
        /// Delay at a part of what was found.
        Latency = "latency",
        /// Loss at a part of the highest load.
        LossRate = "loss-rate",
        /// A burst at the highest load.
        BackToBack = "back-to-back",
        /// An overload, and half of what was found after it.
        Recovery = "recovery",
        /// A reset of the device on the way.
        Reset = "reset",
        /// Whether TCP's throughput says anything of the path.
        Quality = "quality",
        /// The round trip of the idle path.
        BaselineRtt = "baseline-rtt",
        /// TCP with a window.
        Window = "window",
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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_at_loss: Option<f64>,
    /// It is a burst of so many packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets: Option<u64>,
    /// What is asked otherwise than of the trials that find the bounds, as `--set` takes it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<(String, String)>,
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
pub struct TriedLoad {
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
    /// Others used the CPUs of an end meanwhile.
    pub on_busy_machine: bool,
    /// What else it showed.
    pub seen: TrialFigures,
}

impl TriedLoad {
    /// Whether the load keeps to a goal; `None`: the trial failed, or only what was not sent is more than may be lost.
    pub fn keeps_to(&self, goal: &Goal) -> Option<bool> {
        let [all, of_sent] = [self.loss_ratio?, self.seen.loss_of_sent?].map(|loss| goal.forgives(loss));
        (all == of_sent).then_some(all)
    }
}

/// What a trial showed beside its loss. Absent where it was not measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TrialFigures {
    /// The part of what should have been sent that was.
    pub sent_ratio: Option<f64>,
    /// The part of what was sent that did not arrive.
    pub loss_of_sent: Option<f64>,
    /// Bits of payload per second.
    pub throughput_bps: Option<f64>,
    /// How much arrivals varied, seconds.
    pub jitter_s: Option<f64>,
    /// From request to response.
    pub delay: Option<Delay>,
    /// TCP's own account.
    pub tcp: Option<TcpSummary>,
    /// How long after an overload packets were lost, seconds.
    pub recovery_s: Option<f64>,
}

/// Times from request to response, seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Delay {
    /// The shortest.
    pub min_s: Option<f64>,
    /// Their mean.
    pub mean_s: Option<f64>,
    /// That of which half are no longer.
    pub p50_s: Option<f64>,
    /// That of which 99 % are no longer.
    pub p99_s: Option<f64>,
    /// The longest.
    pub max_s: Option<f64>,
}

impl TrialFigures {
    fn of(record: &Record) -> TrialFigures {
        let Some(figures) = &record.result else { return TrialFigures::default() };
        let delay = |latency: &Latency| Delay {
            min_s: latency.min_s,
            mean_s: latency.mean_s,
            p50_s: latency.percentiles.get("p50").copied(),
            p99_s: latency.percentiles.get("p99").copied(),
            max_s: latency.max_s,
        };
        TrialFigures {
            throughput_bps: figures.flow.throughput_bps,
            jitter_s: figures.flow.jitter_s,
            delay: figures.latency.as_ref().or(figures.one_way.as_ref()).map(delay),
            tcp: figures.flow.tcp.clone(),
            recovery_s: figures.flow.recovery_s,
            ..TrialFigures::default()
        }
    }
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
    /// Some are lost at loads far above the bound too, and no more than there.
    LossAtAnyLoad {
        /// The middle one of the shares that were lost.
        loss_ratio: f64,
        /// The least and the highest of these loads, bits of payload per second.
        loads_bps: [f64; 2],
    },
    /// The load that was too much was tried while other programs, or other guests of a hypervisor, used the CPUs of an end.
    BusyTester,
}

impl SearchDoubt {
    /// As programs read it.
    pub const fn name(&self) -> &'static str {
        match self {
            SearchDoubt::Irregular => "irregular",
            SearchDoubt::DeepBuffer { .. } => "deep-buffer",
            SearchDoubt::TesterLimit { .. } => "tester-limit",
            SearchDoubt::LateArrivals => "late-arrivals",
            SearchDoubt::LossAtAnyLoad { .. } => "loss-at-any-load",
            SearchDoubt::BusyTester => "busy-tester",
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
    /// In each direction.
    pub rate: OfferedLoad,
}

impl SearchExpectation {
    /// Whether it came about; `None`: there is no such goal.
    pub fn is_met(&self, searched: &SearchRecords) -> Option<bool> {
        let found = searched.found.iter().find(|found| found.goal.name == self.goal)?;
        let bps = self.rate.bits_per_second(searched.asked.packet_octets.unwrap_or(0).into())?;
        Some(match self.is_least {
            true => found.lower.is_some_and(|lower| lower >= bps),
            // Of the path nothing is known above what the tester carries.
            false => !searched.is_limited_by_tester(found) && found.upper.is_some_and(|upper| upper <= bps),
        })
    }
}

impl FromStr for SearchExpectation {
    type Err = String;

    fn from_str(text: &str) -> Result<SearchExpectation, String> {
        let bad = || {
            format!(
                "'{text}' is not an expectation of a search; write a goal and a rate, like ndr >= 900M, ndr <= 1G or ndr >= 10kpps"
            )
        };
        let signs = [(">=", true), ("<=", false)];
        let (sign, is_least) = signs.into_iter().find(|(sign, _)| text.contains(sign)).ok_or_else(bad)?;
        let (goal, rate) = text.rsplit_once(sign).ok_or_else(bad)?;
        let goal: Goal = goal.trim().parse().map_err(|error: BadGoal| error.to_string())?;
        // 900 bit/s are found in any search: Mbit/s are meant.
        if rate.trim().parse::<f64>().is_ok_and(|bps| bps != 0.0) {
            let rate = rate.trim();
            return Err(format!(
                "a rate is written with its unit, and {rate} has none; write {rate}K, {rate}M, {rate}G or {rate}pps"
            ));
        }
        match rate.trim().parse() {
            Ok(OfferedLoad::Unlimited | OfferedLoad::OfLine(_)) | Err(_) => Err(bad()),
            Ok(rate) => Ok(SearchExpectation { goal: goal.name, is_least, rate }),
        }
    }
}

impl Display for SearchExpectation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let sign = if self.is_least { ">=" } else { "<=" };
        write!(f, "{} {sign} {}", self.goal, self.rate)
    }
}

/// What is known of one search.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchRecords {
    /// The configuration: its workload, its direction, and the levels that tell it from others.
    pub workload: Workload,
    /// Which way.
    pub direction: Direction,
    /// By name.
    pub factors: BTreeMap<String, String>,
    /// What it was asked for.
    pub asked: SearchAsked,
    /// A row for each goal.
    pub found: Vec<GoalResult>,
    /// All trials, in their order.
    pub tried: Vec<TriedLoad>,
    /// The least load that the sender did not send whole, bits of payload per second.
    pub unsent_bps: Option<f64>,
    /// What was lost came late.
    pub has_late_arrivals: bool,
}

impl SearchRecords {
    /// The most that the tester carries by itself, bits of payload per second in each direction.
    pub fn tester_limit_bps(&self) -> Option<f64> {
        [self.asked.tester_limit_bps, self.unsent_bps].into_iter().flatten().min_by(f64::total_cmp)
    }

    /// What there is to doubt of what was found.
    pub fn doubts(&self, found: &GoalResult) -> Vec<SearchDoubt> {
        // Of a goal for which no load was tried long enough there is nothing to doubt.
        let has_bound = found.lower.or(found.upper).is_some();
        let irregular = (has_bound && !found.is_regular && !found.is_unlimited).then_some(SearchDoubt::Irregular);
        let deep = found.held_s.map(|held_s| SearchDoubt::DeepBuffer { held_s, trial_s: found.trial_s });
        let reached = found.upper.or(found.lower);
        let limit = self.tester_limit_bps().filter(|_| !self.asked.calibrates);
        let limit = limit.filter(|limit| reached.is_some_and(|bps| bps >= limit * NEAR_TESTER));
        let tester = limit.map(|bps| SearchDoubt::TesterLimit { bps });
        let late = self.has_late_arrivals.then_some(SearchDoubt::LateArrivals);
        [irregular, deep, tester, late, self.loss_at_any_load(found), self.busy_tester(found)]
            .into_iter()
            .flatten()
            .collect()
    }

    /// What carries so much, and no more, loses most of a load that is a multiple of it.
    fn loss_at_any_load(&self, found: &GoalResult) -> Option<SearchDoubt> {
        let far = found.upper? * FAR;
        let is_few = |tried: &&TriedLoad| {
            let is_lost = tried.loss_ratio.is_some_and(|loss| loss < FEW && !found.goal.forgives(loss));
            tried.step.purpose == Purpose::Bound && tried.step.load_bps >= far && is_lost && !tried.ended_early
        };
        let lost: Vec<&TriedLoad> = self.tried.iter().filter(is_few).collect();
        let shares: Vec<f64> = lost.iter().filter_map(|tried| tried.loss_ratio).collect();
        let loads = || lost.iter().map(|tried| tried.step.load_bps);
        let loads_bps = [loads().reduce(f64::min)?, loads().reduce(f64::max)?];
        (lost.len() > 1).then_some(SearchDoubt::LossAtAnyLoad { loss_ratio: median(&shares)?, loads_bps })
    }

    /// A trial that ended early is too short to tell of CPUs: those around it do.
    fn busy_tester(&self, found: &GoalResult) -> Option<SearchDoubt> {
        let is_too_much = |tried: &TriedLoad| {
            tried.step.purpose == Purpose::Bound
                && Some(tried.step.load_bps) == found.upper
                && tried.loss_ratio.is_some_and(|loss| !found.goal.forgives(loss))
        };
        let is_busy = |at: usize| {
            let around = if self.tried[at].ended_early { at.saturating_sub(1)..at + 2 } else { at..at + 1 };
            self.tried[around.start..around.end.min(self.tried.len())].iter().any(|tried| tried.on_busy_machine)
        };
        let mut decided = self.tried.iter().enumerate().filter(|(_, tried)| is_too_much(tried));
        decided.any(|(at, _)| is_busy(at)).then_some(SearchDoubt::BusyTester)
    }

    /// Whether what was found for a goal is the tester's own limit, so that of the path no more is known than that it carries as
    /// much. A calibration measures the tester: what it finds is what it looked for.
    pub fn is_limited_by_tester(&self, found: &GoalResult) -> bool {
        self.doubts(found).iter().any(|doubt| matches!(doubt, SearchDoubt::TesterLimit { .. }))
    }

    /// What was found for the strictest goal, bits of payload per second in each direction.
    pub fn throughput_bps(&self) -> Option<f64> {
        throughput_bps(&self.found)
    }

    /// Whether all that was found is known to its width, and of the path.
    pub fn is_known(&self) -> bool {
        rfc6349::unfit(&self.tried).is_none() && self.found.iter().all(|found| found.is_regular || found.is_unlimited)
    }

    /// The trial that measured what was found for a goal once more.
    pub fn confirmation(&self, found: &GoalResult) -> Option<&TriedLoad> {
        let is_it = |tried: &&TriedLoad| {
            tried.step.purpose == Purpose::Confirmation && Some(tried.step.load_bps) == found.lower
        };
        self.tried.iter().rev().find(is_it)
    }

    /// Seconds that all trials measured.
    pub fn measured_s(&self) -> f64 {
        self.tried.iter().filter_map(|tried| tried.effective_s).sum()
    }
}

/// The lower bound of the goal that forgives least.
fn throughput_bps(found: &[GoalResult]) -> Option<f64> {
    found.iter().min_by(|a, b| a.goal.loss_ratio.total_cmp(&b.goal.loss_ratio))?.lower
}

/// The searches that these records are of, in the order in which they began.
pub fn searched<'a>(records: impl IntoIterator<Item = &'a Record>) -> Vec<SearchRecords> {
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
        // What the search itself asked of its first trial is none of its configuration.
        let own = record.trial.search.iter().flat_map(|place| &place.step.options).map(|(name, _)| name);
        let own: Vec<&String> = own.collect();
        let factors = record.trial.factors.iter().filter(|(name, _)| *name != "rate" && !own.contains(name));
        let factors = factors.map(|(name, level)| (name.clone(), level.clone())).collect();
        // A stage may have been asked for before the search itself, which is of datagrams then.
        let is_own = !own.iter().any(|name| name.as_str() == "workload");
        let workload = if is_own { record.workload } else { Workload::UdpStream };
        replay.searched(workload, record.direction, factors)
    };
    searches.into_iter().map(of).collect()
}
