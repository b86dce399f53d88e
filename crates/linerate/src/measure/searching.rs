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
    all: Vec<OneSearch>,
    /// Each load of each search is a configuration of its own, by its place here.
    configurations: Vec<(usize, u32)>,
    trials: u32,
    asked: Option<(usize, Asked)>,
}

/// The search for one configuration.
struct OneSearch {
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
    /// One search for each of these configurations, between the least and the most bits of payload per second in each direction
    /// that stand beside it; the first one between which nothing lies is the error.
    pub(crate) fn new(bases: Vec<(PlannedTrial, [f64; 2])>, goals: &[Goal]) -> Result<Searching, [f64; 2]> {
        let one = |(base, [least, most]): (PlannedTrial, [f64; 2])| -> Result<OneSearch, [f64; 2]> {
            let search = Search::new(goals.to_vec(), least, most).ok_or([least, most])?;
            Ok(OneSearch { base, search, failed: 0, sent: BTreeMap::new() })
        };
        let all = bases.into_iter().map(one).collect::<Result<_, _>>()?;
        Ok(Searching { all, configurations: Vec::new(), trials: 0, asked: None })
    }

    /// What is known by now.
    pub(crate) fn searched(&self) -> Vec<Searched> {
        let of = |one: &OneSearch| Searched {
            base: one.base.clone(),
            found: one.search.found(),
            unsent_bps: one.unsent_bps(),
        };
        self.all.iter().map(of).collect()
    }
}

impl OneSearch {
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
        let open = self.all.iter_mut().enumerate().filter(|(_, one)| one.failed < MOST_FAILED);
        let (at, asked) = open.filter_map(|(at, one)| Some((at, one.search.ask()?))).next()?;
        let one = &self.all[at];
        let mut trial = one.base.clone();
        trial.index = self.trials;
        trial.repeat = one.sent.get(&asked.rung).map_or(0, |(whole, part)| whole + part);
        let is_known = self.configurations.iter().position(|known| *known == (at, asked.rung));
        trial.configuration = is_known.unwrap_or_else(|| {
            self.configurations.push((at, asked.rung));
            self.configurations.len() - 1
        }) as u32;
        let each = five_digits(asked.load / f64::from(trial.spec.streams.max(1)));
        trial.spec.rate = OfferedLoad::BitsPerSecond(each);
        trial.spec.extent = Extent::Time(Duration::from_secs_f64(asked.trial_s));
        trial.factors.push(("rate".to_owned(), trial.spec.rate.to_string()));
        self.trials += 1;
        self.asked = Some((at, asked));
        Some(trial)
    }

    fn place(&self) -> usize {
        self.trials as usize
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
        let Some((at, asked)) = self.asked.take() else { return };
        let one = &mut self.all[at];
        let Some((loss_ratio, is_unsent)) = loss(record) else {
            one.failed += 1;
            return;
        };
        one.failed = 0;
        let (whole, part) = one.sent.entry(asked.rung).or_default();
        *if is_unsent { part } else { whole } += 1;
        let (intended_s, effective_s) = (asked.trial_s, asked.trial_s);
        one.search.heard(Trial { rung: asked.rung, intended_s, effective_s, loss_ratio });
    }
}

/// A load that people can read: it is off by less than 0.005 %.
fn five_digits(bps: f64) -> u64 {
    let unit = 10_f64.powf(bps.max(1.0).log10().floor() - 4.0).max(1.0);
    ((bps / unit).round() * unit).max(1.0) as u64
}

/// The part of what should have been sent that did not arrive, in all directions together (RFC 9971: what was not sent is lost),
/// and whether any was not sent; `None`: the trial failed.
fn loss(record: &Record) -> Option<(f64, bool)> {
    // What is within the sender's own precision is sent.
    let is_unsent = record.has_doubt(DoubtKind::SenderFellBehind);
    let passed = |source: &Source<'_>| {
        let flow = source.flow?;
        let sent = if is_unsent { (flow.achieved_load_bps? / source.offered_bps()?).min(1.0) } else { 1.0 };
        Some(sent * (1.0 - flow.loss_ratio?))
    };
    let each = Source::each(record).iter().map(passed).collect::<Option<Vec<f64>>>().filter(|each| !each.is_empty())?;
    Some((1.0 - each.iter().sum::<f64>() / each.len() as f64, is_unsent))
}
