//! A search that is under way, or read again from its records: the trials given to the logic that asks for them.
//! Knows which field of a record is what; which load comes next, `trial::search` knows, and which stage, `stages`.

use std::collections::BTreeMap;

use linerate_machine::end::Direction;
use linerate_trial::doubt::DoubtKind;
use linerate_trial::search::Search;
use linerate_trial::search::bounds::Trial;
use linerate_trial::spec::{Extent, Workload};

use super::{
    Purpose, SearchAsked, SearchPlace, SearchRecords, Step, TrialFigures, TriedLoad, rfc6349, stages, throughput_bps,
};
use crate::figure::Source;
use crate::record::Record;

/// A search ends when this many trials of a load have failed.
const MOST_FAILED: u32 = 3;

/// A search that is under way, or read again from its records.
#[derive(Clone, Debug)]
pub struct Replay {
    asked: SearchAsked,
    search: Search,
    failed: u32,
    /// Of each load the trials in which it was sent whole, and those in which it was not.
    sent: BTreeMap<u32, (u32, u32)>,
    tried: Vec<TriedLoad>,
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
        let is_alike = |tried: &&TriedLoad| tried.step.purpose == step.purpose && tried.step.rung == step.rung;
        self.tried.iter().filter(is_alike).count() as u32
    }

    /// The trial to measure now; `None`: there is none.
    pub fn ask(&mut self) -> Option<Step> {
        if self.failed >= MOST_FAILED {
            return None;
        }
        if rfc6349::unfit(&self.tried).is_some() {
            return None;
        }
        if let Some(step) = rfc6349::before(&self.asked, &self.tried) {
            return Some(step);
        }
        let Some(asked) = self.search.ask() else { return self.unconfirmed().or_else(|| self.after()) };
        let may_stop = !self.asked.whole_trials && !self.has_late_arrivals;
        let step = stages::step(Purpose::Bound, asked.rung, asked.load, asked.trial_s);
        Some(Step { stop_at_loss: asked.forgiven.filter(|_| may_stop), ..step })
    }

    /// The first load that was found and not measured once more.
    fn unconfirmed(&self) -> Option<Step> {
        let trial_s = self.asked.confirm_s?;
        let loads = self.search.found().into_iter().filter_map(|found| found.lower);
        let once = |load_bps| stages::step(Purpose::Confirmation, self.search.rung(load_bps), load_bps, trial_s);
        loads.map(once).find(|step| self.repeats(step) == 0)
    }

    /// The next trial of the stages that follow.
    fn after(&self) -> Option<Step> {
        let throughput_bps = throughput_bps(&self.search.found());
        self.asked.stages.iter().find_map(|stage| stages::after(*stage, &self.asked, &self.tried, throughput_bps))
    }

    /// What came of a trial that was asked for.
    pub fn heard(&mut self, step: &Step, record: &Record) {
        let passed = passed(record);
        self.tried.push(TriedLoad {
            record: record.id.clone(),
            step: step.clone(),
            loss_ratio: passed.as_ref().map(|passed| passed.loss_ratio),
            effective_s: record.duration_s.filter(|_| record.result.is_some()),
            ended_early: record.ended_early,
            on_busy_machine: [DoubtKind::BusyMachine, DoubtKind::NoisyMachine]
                .iter()
                .any(|kind| record.has_doubt(*kind)),
            seen: TrialFigures {
                sent_ratio: passed.as_ref().map(|passed| passed.sent_ratio),
                loss_of_sent: passed.as_ref().map(|passed| passed.loss_of_sent),
                ..TrialFigures::of(record)
            },
        });
        if record.result.is_none() || (step.purpose == Purpose::Bound && passed.is_none()) {
            self.failed += 1;
            return;
        }
        self.failed = 0;
        let is_bound = step.purpose == Purpose::Bound && step.rung <= self.search.top();
        let Some(passed) = passed.filter(|_| is_bound) else { return };
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
    pub fn searched(
        &self,
        workload: Workload,
        direction: Direction,
        factors: BTreeMap<String, String>,
    ) -> SearchRecords {
        SearchRecords {
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

/// What a trial let through, in all directions together.
struct Passed {
    /// The part of what should have been sent that did not arrive (RFC 9971: what was not sent is lost).
    loss_ratio: f64,
    /// The part of what should have been sent that was.
    sent_ratio: f64,
    /// The part of what was sent that did not arrive.
    loss_of_sent: f64,
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
    let is_timed = matches!(record.asked_spec()?.extent, Extent::Time(_));
    let (mut arrived, mut all_sent, mut lost, mut held, mut is_unsent) = (0.0, 0.0, 0.0, 0.0, false);
    for source in &sources {
        let flow = source.flow?;
        let (achieved_bps, arrived_ratio) = (flow.achieved_load_bps?, 1.0 - flow.loss_ratio?);
        let offered_bps = source.offered_bps()?;
        // What is within the sender's own precision is sent; of a burst all is, however slowly.
        let is_behind = is_timed && record.has_doubt(DoubtKind::SenderFellBehind) && achieved_bps < offered_bps;
        is_unsent |= is_behind;
        let sent = if is_behind { achieved_bps / offered_bps } else { 1.0 };
        arrived += sent * arrived_ratio;
        all_sent += sent;
        lost += 1.0 - arrived_ratio;
        let all_bps = achieved_bps * arrived_ratio;
        held += flow.throughput_bps.filter(|_| all_bps > 0.0).map_or(0.0, |bps| (1.0 - bps / all_bps).max(0.0));
    }
    let each = sources.len() as f64;
    Some(Passed {
        loss_ratio: 1.0 - arrived / each,
        sent_ratio: all_sent / each,
        loss_of_sent: lost / each,
        held_ratio: held / each,
        is_unsent,
    })
}
