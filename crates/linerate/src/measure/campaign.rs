//! A plan being carried out: trial after trial, each stored the moment it ends.
//! Knows no renderer: records go to whoever wants to hear of them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use linerate_results::record::{Record, TrialPlace};
use linerate_results::store::{Campaign, Store, StoreError};
use linerate_trial::flow::End;
use linerate_trial::spec::{Extent, Spec};

use super::boot::Boots;
use super::conduct::{Conducted, TrialError, conduct};
use super::join::{self, Label};
use super::pair::Pair;
use super::settings::Settings;
use crate::interrupt;
use crate::plan::{Plan, PlannedTrial};
use crate::progress::Progress;

/// What is to be carried out.
pub(crate) struct Order<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) trials: Vec<PlannedTrial>,
    /// The plan and all that was changed in it, so that a later process can carry on.
    pub(crate) plan_text: String,
    /// The unfinished campaign to carry on, instead of beginning one.
    pub(crate) resume: Option<Campaign>,
}

/// Why a campaign ended before its last trial. Records made until then are kept.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CampaignError {
    #[error("{0}")]
    Store(#[from] StoreError),
    #[error("{sentence}{}", kept(*.finished))]
    Lost { sentence: String, finished: usize },
    #[error("trials fail one after the other; the last said: {sentence}{}", kept(*.finished))]
    Failing { sentence: String, finished: usize },
    #[error("{}{}", .sentences.join("; "), kept(*.finished))]
    NotPutBack { sentences: Vec<String>, finished: usize },
    #[error("interrupted{}; --resume carries on where it stopped", kept(*.finished))]
    Interrupted { finished: usize },
}

fn kept(finished: usize) -> String {
    match finished {
        0 => String::new(),
        1 => "; the trial that finished before is kept".to_owned(),
        n => format!("; the {n} trials that finished before are kept"),
    }
}

/// Trials in a row that may fail because traffic does not pass, before there is no use in going on.
const FAILURES_IN_A_ROW: u32 = 2;

/// Carries the plan out, and puts settings back. `heard` gets each record once it is stored. Returns how many trials
/// failed.
pub(crate) fn run(
    order: &Order<'_>,
    pair: &mut Pair,
    store: &mut Store,
    progress: &Progress,
    heard: &mut dyn FnMut(&Record),
) -> Result<usize, CampaignError> {
    let mut machines = Machines::default();
    let mut finished = 0;
    let ended = trials(order, pair, store, progress, &mut machines, &mut |record| {
        finished += usize::from(record.error.is_none());
        heard(record);
    });
    let sentences = machines.settings.end(pair);
    machines.boots.stays().iter().for_each(|sentence| progress.say(&format!("linerate: {sentence}")));
    match ended {
        Ok(_) if !sentences.is_empty() => Err(CampaignError::NotPutBack { sentences, finished }),
        ended => {
            sentences.iter().for_each(|sentence| progress.say(&format!("linerate: {sentence}")));
            ended
        }
    }
}

/// What is changed on both machines at the moment.
#[derive(Default)]
struct Machines {
    settings: Settings,
    boots: Boots,
}

fn trials(
    order: &Order<'_>,
    pair: &mut Pair,
    store: &mut Store,
    progress: &Progress,
    machines: &mut Machines,
    heard: &mut dyn FnMut(&Record),
) -> Result<usize, CampaignError> {
    let mut ids = Ids::default();
    let endpoints = pair.names.clone();
    let (campaign, done) = match &order.resume {
        Some(campaign) => (campaign.id.clone(), store.finished_trials(&campaign.id)?),
        None => {
            let (id, now) = ids.next();
            store.campaign_begin(&Campaign {
                id: id.clone(),
                plan: order.plan.name.clone(),
                plan_text: order.plan_text.clone(),
                target: endpoints[0].clone(),
                host: endpoints[1].clone(),
                started_at: now,
                planned: order.trials.len() as u32,
                finished_at: None,
            })?;
            (id, Default::default())
        }
    };
    let todo: Vec<&PlannedTrial> = order.trials.iter().filter(|trial| !done.contains(&trial.index)).collect();
    let mut pace = Pace::of(&todo);
    let (mut finished, mut failed, mut failed_in_a_row) = (done.len(), 0, 0);
    for (place, trial) in todo.iter().enumerate() {
        if interrupt::requested() {
            return Err(CampaignError::Interrupted { finished });
        }
        let Machines { settings, boots } = &mut *machines;
        let booted = boots.reach(pair, &order.plan.boots, trial, settings, progress);
        pace.boots = (boots.needed(todo[place..].iter().copied()), boots.usual());
        let began = Instant::now();
        let (id, started_at) = ids.next();
        progress.trial(place, todo.len(), &describe(trial), pace.left());
        let mut conducted = match booted {
            Ok(()) => conduct(pair, &trial.spec, &trial.settings, settings, &|elapsed_s| {
                progress.tick(elapsed_s, pace.left());
            }),
            Err(error) => Conducted::without(&trial.spec, error),
        };
        for (end, told) in [End::Target, End::Host].into_iter().zip(&mut conducted.settings) {
            told.splice(0..0, boots.changed(end).cloned());
        }
        let error = conducted.outcomes.as_ref().err().cloned();
        if matches!(error, Some(TrialError::Interrupted)) {
            return Err(CampaignError::Interrupted { finished });
        }
        let label = Label {
            id,
            started_at,
            campaign: campaign.clone(),
            plan: order.plan.name.clone(),
            trial: TrialPlace {
                index: trial.index,
                repeat: trial.repeat,
                factors: trial.factors.iter().cloned().collect::<BTreeMap<_, _>>(),
            },
            endpoints: endpoints.clone(),
        };
        let record = join::record(label, conducted);
        store.insert(&record)?;
        heard(&record);
        pace.trial_ended(&trial.spec, began.elapsed());
        match error {
            None => (finished, failed_in_a_row) = (finished + 1, 0),
            Some(error) => {
                failed += 1;
                let sentence = error.to_string();
                match error {
                    TrialError::Lost(_) => return Err(CampaignError::Lost { sentence, finished }),
                    TrialError::Traffic(_) => failed_in_a_row += 1,
                    TrialError::Refused(_) | TrialError::Interrupted => {}
                }
                let more = place + 1 < todo.len();
                if more && failed_in_a_row >= FAILURES_IN_A_ROW {
                    return Err(CampaignError::Failing { sentence, finished });
                }
                progress.say(&format!("linerate: {}: {sentence}", describe(trial)));
            }
        }
    }
    store.campaign_finish(&campaign, &now().to_string())?;
    Ok(failed)
}

/// A trial in a few words: its factors, or its workload and direction.
fn describe(trial: &PlannedTrial) -> String {
    if trial.factors.is_empty() {
        return format!("{} {}", trial.spec.workload, trial.spec.direction);
    }
    let mut words: Vec<String> = trial.factors.iter().map(|(name, level)| format!("{name}={level}")).collect();
    if !trial.factors.iter().any(|(name, _)| name == "workload") {
        words.insert(0, trial.spec.workload.to_string());
    }
    words.join(" ")
}

/// How long the rest will take: the time that trials ask for, and what each cost beside it so far.
struct Pace {
    asked_left: Duration,
    trials_left: u32,
    by_bytes_left: u32,
    extra: Duration,
    by_bytes: Duration,
    trials: u32,
    byte_trials: u32,
    /// Boots that are still needed, and what one takes.
    boots: (u32, Option<Duration>),
}

impl Pace {
    fn of(trials: &[&PlannedTrial]) -> Pace {
        let by_bytes = trials.iter().filter(|trial| matches!(trial.spec.extent, Extent::Octets(_))).count();
        Pace {
            asked_left: trials.iter().filter_map(|trial| trial.spec.expected_time()).sum(),
            trials_left: trials.len() as u32,
            by_bytes_left: by_bytes as u32,
            extra: Duration::ZERO,
            by_bytes: Duration::ZERO,
            trials: 0,
            byte_trials: 0,
            boots: (0, None),
        }
    }

    fn trial_ended(&mut self, spec: &Spec, took: Duration) {
        self.trials_left -= 1;
        match spec.expected_time() {
            Some(expected) => {
                self.asked_left = self.asked_left.saturating_sub(expected);
                self.extra += took.saturating_sub(expected);
                self.trials += 1;
            }
            None => {
                self.by_bytes_left -= 1;
                self.by_bytes += took;
                self.byte_trials += 1;
            }
        }
    }

    /// Counted from the start of the present trial; `None` while nobody can know.
    fn left(&self) -> Option<Duration> {
        let mut left = self.asked_left;
        match self.boots {
            (0, _) => {}
            (more, usual) => left += usual? * more,
        }
        if self.trials > 0 {
            left += self.extra / self.trials * (self.trials_left - self.by_bytes_left);
        }
        match (self.by_bytes_left, self.byte_trials) {
            (0, _) => Some(left),
            (_, 0) => None,
            (more, seen) => Some(left + self.by_bytes / seen * more),
        }
    }
}

/// Identifiers in the order of time, also within a millisecond and across a step of the clock.
#[derive(Default)]
struct Ids {
    last_ms: u64,
}

impl Ids {
    /// An identifier, and the time it was made, RFC 3339.
    fn next(&mut self) -> (String, String) {
        let now = now();
        let unix_ms = u64::try_from(now.as_millisecond()).unwrap_or(0);
        self.last_ms = unix_ms.max(self.last_ms + 1);
        let mut random = [0; 10];
        let _ = getrandom::fill(&mut random);
        (linerate_results::id::id(self.last_ms, random), now.to_string())
    }
}

fn now() -> jiff::Timestamp {
    jiff::Timestamp::try_from(SystemTime::now()).unwrap_or(jiff::Timestamp::UNIX_EPOCH)
}
