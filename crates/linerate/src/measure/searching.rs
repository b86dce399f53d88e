//! A campaign whose trials a search asks for: one search for each configuration, one after the other.
//! Knows how a step becomes a trial; which comes next, and what was found, `results::search` knows.

use std::time::Duration;

use linerate_machine::units::{OfferedLoad, format_duration, format_size};
use linerate_plan::PlannedTrial;
use linerate_results::record::Record;
use linerate_results::search::{Purpose, Replay, SearchAsked, SearchPlace, SearchRecords, Step};
use linerate_trial::spec::{Extent, Workload};

use super::agenda::Agenda;
use super::time_left::TimeLeft;

/// The searches of a campaign.
pub(crate) struct Searching {
    all: Vec<OneSearch>,
    /// Each load of each search is a configuration of its own, by its place here.
    configurations: Vec<(usize, u32, Purpose)>,
    trials: u32,
}

/// The search for one configuration.
struct OneSearch {
    base: PlannedTrial,
    replay: Replay,
}

impl Searching {
    /// One search for each of these configurations; the least and the most load of the first one that cannot be searched are the
    /// error.
    pub(crate) fn new(bases: Vec<(PlannedTrial, SearchAsked)>) -> Result<Searching, [f64; 2]> {
        let one = |(base, asked): (PlannedTrial, SearchAsked)| {
            let between = [asked.least_bps, asked.most_bps];
            Replay::new(asked).map(|replay| OneSearch { base, replay }).ok_or(between)
        };
        let all = bases.into_iter().map(one).collect::<Result<_, _>>()?;
        Ok(Searching { all, configurations: Vec::new(), trials: 0 })
    }

    /// The trials of a campaign that is carried on. `None`: they are of another search.
    pub(crate) fn carry_on(&mut self, records: &[Record]) -> Option<()> {
        for record in records {
            let place = record.trial.search.as_ref()?;
            let at = place.number as usize;
            let one = self.all.get_mut(at).filter(|one| *one.replay.asked() == place.asked)?;
            one.replay.carry_on(record, place);
            self.configuration(at, &place.step);
            self.trials = self.trials.max(record.trial.index + 1);
        }
        Some(())
    }

    /// What is known by now.
    pub(crate) fn searched(&self) -> Vec<SearchRecords> {
        let of = |OneSearch { base, replay }: &OneSearch| {
            replay.searched(base.spec.workload, base.spec.direction, base.factors.iter().cloned().collect())
        };
        self.all.iter().map(of).collect()
    }

    fn configuration(&mut self, at: usize, step: &Step) -> u32 {
        let wanted = (at, step.rung, step.purpose);
        let known = self.configurations.iter().position(|known| *known == wanted);
        known.unwrap_or_else(|| {
            self.configurations.push(wanted);
            self.configurations.len() - 1
        }) as u32
    }
}

impl Agenda for Searching {
    fn planned(&self) -> Option<usize> {
        None
    }

    fn next(&mut self) -> Option<PlannedTrial> {
        let all = self.all.iter_mut().enumerate();
        let (at, step) = all.filter_map(|(at, one)| Some((at, one.replay.ask()?))).next()?;
        let one = &self.all[at];
        let mut trial = one.base.clone();
        (trial.index, trial.repeat) = (self.trials, one.replay.repeats(&step));
        let each = five_digits(step.load_bps / f64::from(trial.spec.streams.max(1)));
        trial.spec.rate = OfferedLoad::BitsPerSecond(each);
        trial.spec.extent = match step.packets {
            None => Extent::Time(Duration::from_secs_f64(step.trial_s)),
            Some(packets) => {
                let each = packets.div_ceil(u64::from(trial.spec.streams.max(1)));
                let octets = match trial.spec.workload {
                    Workload::Frames => trial.spec.frame_sizes().octets(each),
                    _ => each * u64::from(trial.spec.message_octets()),
                };
                trial.factors.push(("bytes".to_owned(), format_size(octets)));
                Extent::Octets(octets)
            }
        };
        for (name, value) in &step.options {
            trial.spec.set(name, value).expect("what a stage asks for are options");
        }
        // Factors that a stage asks for itself are its own.
        trial.factors.retain(|(name, _)| !step.options.iter().any(|(own, _)| own == name));
        trial.factors.extend(step.options.iter().filter(|(name, value)| name != "rate" && value != "auto").cloned());
        trial.factors.push(("rate".to_owned(), trial.spec.rate.to_string()));
        let asked = one.replay.asked().clone();
        trial.configuration = self.configuration(at, &step);
        trial.search = Some(Box::new(SearchPlace { number: at as u32, asked, step }));
        self.trials += 1;
        Some(trial)
    }

    fn place(&self) -> usize {
        self.trials as usize
    }

    fn words(&self, trial: &PlannedTrial) -> String {
        let Extent::Time(time) = trial.spec.extent else { return trial.words() };
        format!("{} duration={}", trial.words(), format_duration(time))
    }

    fn after(&self) -> &[PlannedTrial] {
        &[]
    }

    fn left(&self) -> Option<TimeLeft> {
        None
    }

    fn begins(&mut self, _: &PlannedTrial, _: (u32, Option<Duration>)) {}

    fn ended(&mut self, trial: &PlannedTrial, record: &Record, _: Duration) {
        let Some(place) = &trial.search else { return };
        self.all[place.number as usize].replay.heard(&place.step, record);
    }
}

/// A load that people can read: it is off by less than 0.005 %.
fn five_digits(bps: f64) -> u64 {
    let unit = 10_f64.powf(bps.max(1.0).log10().floor() - 4.0).max(1.0);
    ((bps / unit).round() * unit).max(1.0) as u64
}
