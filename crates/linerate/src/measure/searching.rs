//! A campaign whose trials a search asks for: one search for each configuration, one after the other.
//! Knows what a record says of a trial; which load comes next, `trial::search` knows.

use std::collections::BTreeMap;
use std::time::Duration;

use linerate_machine::units::OfferedLoad;
use linerate_plan::PlannedTrial;
use linerate_results::figure::Source;
use linerate_results::record::Record;
use linerate_trial::doubt::DoubtKind;
use linerate_trial::search::bounds::Trial;
use linerate_trial::search::goal::Goal;
use linerate_trial::search::{Asked, Found, Search};
use linerate_trial::spec::Extent;

use super::agenda::Agenda;
use super::time_left::TimeLeft;

/// So many trials of a load fail, and its search ends.
const MOST_FAILED: u32 = 3;

/// The searches of a campaign.
pub(crate) struct Searching {
    ways: Vec<Way>,
    trials: u32,
    asked: Option<(usize, Asked)>,
}

/// The search for one configuration.
struct Way {
    base: PlannedTrial,
    search: Search,
    failed: u32,
    /// Of each load the trials in which it was sent whole, and those in which it was not.
    sent: BTreeMap<u32, (u32, u32)>,
}

/// What came of one of them.
pub(crate) struct Searched {
    /// Its configuration.
    pub(crate) base: PlannedTrial,
    /// A row for each goal.
    pub(crate) found: Vec<Found>,
    /// The least load that the sender did not send whole, bits of payload per second.
    pub(crate) unsent_bps: Option<f64>,
}

impl Searching {
    /// One search for each of these configurations, from `least_bps` to `most_bps` of payload in each direction; `None`: nothing
    /// lies between the two.
    pub(crate) fn new(bases: &[PlannedTrial], goals: &[Goal], least_bps: f64, most_bps: f64) -> Option<Searching> {
        let way = |base: &PlannedTrial| {
            let search = Search::new(goals.to_vec(), least_bps, most_bps)?;
            Some(Way { base: base.clone(), search, failed: 0, sent: BTreeMap::new() })
        };
        Some(Searching { ways: bases.iter().map(way).collect::<Option<_>>()?, trials: 0, asked: None })
    }

    /// What is known by now.
    pub(crate) fn searched(&self) -> Vec<Searched> {
        let of =
            |way: &Way| Searched { base: way.base.clone(), found: way.search.found(), unsent_bps: way.unsent_bps() };
        self.ways.iter().map(of).collect()
    }
}

impl Way {
    /// The least load from which on the sender does not send all: a trial in which it did not is an accident.
    fn unsent_bps(&self) -> Option<f64> {
        let is_unsent = |(whole, part): &(u32, u32)| part > whole;
        let unsent = self.sent.iter().rev().take_while(|(_, sent)| is_unsent(sent)).last();
        unsent.map(|(rung, _)| self.search.load(*rung))
    }
}

impl Agenda for Searching {
    fn planned(&self) -> Option<usize> {
        None
    }

    fn next(&mut self) -> Option<PlannedTrial> {
        let open = self.ways.iter_mut().enumerate().filter(|(_, way)| way.failed < MOST_FAILED);
        let (place, asked) = open.filter_map(|(place, way)| Some((place, way.search.ask()?))).next()?;
        let mut trial = self.ways[place].base.clone();
        trial.index = self.trials;
        trial.repeat = 0;
        // Every load is a configuration of its own.
        trial.configuration = place as u32 * (MOST_LOADS + 1) + asked.rung.min(MOST_LOADS);
        let each = five_digits(asked.load / f64::from(trial.spec.streams.max(1)));
        trial.spec.rate = OfferedLoad::BitsPerSecond(each);
        trial.spec.extent = Extent::Time(Duration::from_secs_f64(asked.trial_s));
        trial.factors.push(("rate".to_owned(), trial.spec.rate.to_string()));
        self.trials += 1;
        self.asked = Some((place, asked));
        Some(trial)
    }

    fn words(&self, trial: &PlannedTrial) -> String {
        let Extent::Time(time) = trial.spec.extent else { return trial.words() };
        format!("{} duration={}", trial.words(), linerate_machine::units::format_duration(time))
    }

    fn after(&self) -> &[PlannedTrial] {
        &[]
    }

    fn left(&self) -> Option<TimeLeft> {
        None
    }

    fn begins(&mut self, _: &PlannedTrial, _: (u32, Option<Duration>)) {}

    fn ended(&mut self, _: &PlannedTrial, record: &Record, _: Duration) {
        let Some((place, asked)) = self.asked.take() else { return };
        let way = &mut self.ways[place];
        let Some((loss_ratio, is_unsent)) = loss(record) else {
            way.failed += 1;
            return;
        };
        way.failed = 0;
        let (whole, part) = way.sent.entry(asked.rung).or_default();
        *if is_unsent { part } else { whole } += 1;
        let (intended_s, effective_s) = (asked.trial_s, asked.trial_s);
        way.search.heard(Trial { rung: asked.rung, intended_s, effective_s, loss_ratio });
    }
}

/// A load that people can read: it is off by less than 0.005 %.
fn five_digits(bps: f64) -> u64 {
    let unit = 10_f64.powf(bps.max(1.0).log10().floor() - 4.0).max(1.0);
    ((bps / unit).round() * unit).max(1.0) as u64
}

/// More than a ladder has.
const MOST_LOADS: u32 = 1_000_000;

/// The part of what should have been sent that did not arrive, in all directions together (RFC 9971: what was not sent is lost),
/// and whether any was not sent; `None`: the trial failed.
fn loss(record: &Record) -> Option<(f64, bool)> {
    let figures = record.result.as_ref()?;
    let flows = match &figures.directions {
        Some(directions) => vec![&directions.tx, &directions.rx],
        None => vec![&figures.flow],
    };
    let asked = Source::all(record).first()?.offered_bps()? / flows.len() as f64;
    // What is within the sender's own precision is sent.
    let is_unsent = record.has_doubt(DoubtKind::SenderFellBehind);
    let mut passed = 0.0;
    for flow in &flows {
        let sent = if is_unsent { (flow.achieved_load_bps? / asked).min(1.0) } else { 1.0 };
        passed += sent * (1.0 - flow.loss_ratio?);
    }
    Some((1.0 - passed / flows.len() as f64, is_unsent))
}
