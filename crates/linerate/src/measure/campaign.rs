//! A plan being carried out: trial after trial, each stored the moment it ends.
//! Knows no renderer: what happens are events, and records go to listeners.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Instant;

use linerate_machine::end::End;
use linerate_machine::text::shell_word;
use linerate_results::join::{self, EndedTrial, Label};
use linerate_results::record::{Record, TrialPlace};
use linerate_results::search::Purpose;
use linerate_results::store::{Campaign, Store, StoreError, TRIES, is_url};
use linerate_trial::spec::Spec;

use super::abort_policy::AbortPolicy;
use super::agenda::{Agenda, Listed};
use super::boot::Boots;
use super::carrier::{self, CarrierWait};
use super::conduct::{TrialExtras, TrialProgress, conduct};
use super::error::TrialError;
use super::events::{CampaignEvent, IntervalTracker, Listener};
use super::examine::Examined;
use super::ids::{Ids, now};
use super::live::Live;
use super::local_fallback::keep_here;
use super::pair::Pair;
use super::precision::Repeats;
use super::settings::Settings;
use crate::interrupt;
use linerate_plan::{Changes, Plan, PlannedTrial};

/// What is to be carried out.
pub(crate) struct Order<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) trials: Vec<PlannedTrial>,
    /// What this run changed in the plan.
    pub(crate) changes: Changes,
    /// The plan and all that was changed in it, so that a later process can carry on.
    pub(crate) plan_text: String,
    /// The unfinished campaign to carry on, instead of beginning one.
    pub(crate) resume: Option<Campaign>,
    /// The identifier of a new campaign; otherwise one is made.
    pub(crate) id: Option<String>,
}

/// Why a campaign ended before its last trial. Records made until then are kept.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CampaignError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(
        "{why}; the record {id} is kept in {path}: linerate records push {} --store {} brings it there",
        shell_word(url),
        shell_word(path)
    )]
    KeptHere { why: Box<StoreError>, url: String, id: String, path: String },
    #[error("{why}; the record {id} is lost, for this machine does not keep it either: {error}")]
    NotKept { why: Box<StoreError>, id: String, error: String },
    #[error("{sentence}{}", kept(*.finished))]
    Lost { sentence: String, finished: usize },
    #[error("{why}; the last trial said: {sentence}{}", kept(*.finished))]
    Failing { why: String, sentence: String, finished: usize },
    #[error("{}{}", .sentences.join("; "), kept(*.finished))]
    NotPutBack { sentences: Vec<String>, finished: usize },
    #[error("the second trial failed for the same reason, as all others would; {left} of them were not tried")]
    NoRoute { left: usize },
    #[error("interrupted{}; {}", kept(*.finished), next_step(*.is_resumed))]
    Interrupted { finished: usize, is_resumed: bool },
}

#[cfg(feature = "nats")]
impl CampaignError {
    /// Whether it is the store that fails, whatever is kept in it.
    pub(crate) fn is_of_the_store(&self) -> bool {
        match self {
            CampaignError::Store(why) => why.is_of_its_place(),
            CampaignError::KeptHere { why, .. } | CampaignError::NotKept { why, .. } => why.is_of_its_place(),
            _ => false,
        }
    }
}

/// The end of a campaign whose store did not take this record, for this reason.
fn not_taken(why: StoreError, store: &Path, campaign: &Campaign, record: &Record) -> CampaignError {
    let (url, id) = (store.display().to_string(), record.id.clone());
    if !is_url(&url) {
        return why.into();
    }
    let why = Box::new(why);
    match keep_here(campaign, record) {
        Ok(path) => CampaignError::KeptHere { why, url, id, path },
        Err(error) => CampaignError::NotKept { why, id, error: error.to_string() },
    }
}

fn kept(finished: usize) -> String {
    match finished {
        0 => String::new(),
        1 => "; the trial that finished before is kept".to_owned(),
        n => format!("; the {n} trials that finished before are kept"),
    }
}

fn next_step(is_resumed: bool) -> &'static str {
    match is_resumed {
        true => "--resume carries on where it stopped",
        false => "run the same command again to begin anew",
    }
}

/// Carries the plan out, and puts settings back. `tell` hears what happens, and `heard` gets each record once it is stored.
/// Returns how many trials failed.
pub(crate) fn run(
    order: &Order<'_>,
    pair: &mut Pair,
    store: &mut Store,
    tell: Listener<'_>,
    heard: &mut dyn FnMut(&Record),
) -> Result<usize, CampaignError> {
    let begun = begun(order, pair, store)?;
    let mut repeats = order.changes.precision.map(Repeats::new);
    if let Some(repeats) = &mut repeats {
        begun.before.iter().for_each(|record| repeats.before(record));
    }
    let mut agenda = Listed::new(&order.trials, &begun.done, repeats);
    carry_out(order, &begun, &mut agenda, pair, store, tell, heard)
}

/// The same for trials each of which depends on those before it.
pub(crate) fn run_by(
    order: &Order<'_>,
    agenda: &mut dyn Agenda,
    pair: &mut Pair,
    store: &mut Store,
    tell: Listener<'_>,
    heard: &mut dyn FnMut(&Record),
) -> Result<usize, CampaignError> {
    let begun = begun(order, pair, store)?;
    carry_out(order, &begun, agenda, pair, store, tell, heard)
}

/// A campaign in the store.
struct Begun {
    campaign: Campaign,
    /// The trials of it that were finished before.
    done: BTreeSet<u32>,
    /// Its records of before, in brief, and why not, of each that cannot be read.
    before: Vec<Record>,
    unreadable: Vec<StoreError>,
}

fn begun(order: &Order<'_>, pair: &Pair, store: &mut Store) -> Result<Begun, StoreError> {
    if let Some(campaign) = &order.resume {
        let (before, unreadable) = store.records_of(&campaign.id)?;
        let done = before.iter().filter(|record| record.result.is_some()).map(|record| record.trial.index).collect();
        let before = before.into_iter().map(Record::into_brief).collect();
        return Ok(Begun { campaign: campaign.clone(), done, before, unreadable });
    }
    let (made, now) = Ids::default().next();
    let id = order.id.clone().unwrap_or(made);
    let campaign = Campaign {
        id,
        plan: order.plan.name.clone(),
        plan_text: order.plan_text.clone(),
        target: pair.names.target.clone(),
        host: pair.names.host.clone(),
        started_at: now,
        planned: order.trials.len() as u32,
        finished_at: None,
    };
    store.campaign_begin(&campaign)?;
    Ok(Begun { campaign, done: BTreeSet::new(), before: Vec::new(), unreadable: Vec::new() })
}

fn carry_out(
    order: &Order<'_>,
    begun: &Begun,
    agenda: &mut dyn Agenda,
    pair: &mut Pair,
    store: &mut Store,
    tell: Listener<'_>,
    heard: &mut dyn FnMut(&Record),
) -> Result<usize, CampaignError> {
    let mut machines = Machines::default();
    let mut finished = 0;
    let ended = trials(order, begun, agenda, pair, store, tell, &mut machines, &mut |record| {
        finished += usize::from(record.error.is_none());
        heard(record);
    });
    let sentences = machines.settings.end(pair);
    let not_put_back = sentences.len();
    let say = |sentence: String| tell(&CampaignEvent::Said { sentence });
    machines.boots.stays().into_iter().for_each(say);
    let ended = match ended {
        Ok(_) if !sentences.is_empty() => Err(CampaignError::NotPutBack { sentences, finished }),
        ended => {
            sentences.into_iter().for_each(say);
            ended
        }
    };
    tell(&CampaignEvent::Ended {
        failed: ended.as_ref().ok().copied(),
        error: ended.as_ref().err().map(ToString::to_string),
        not_put_back,
    });
    ended
}

/// The load that a trial asks for, of all streams.
fn offered_bps(spec: &Spec) -> Option<f64> {
    let each = spec.rate.bits_per_second(spec.message_octets().into())?;
    spec.workload.is_stream().then(|| each * f64::from(spec.streams.max(1)))
}

/// Whether the route between the machines depends on nothing in these trials that is not so in this one.
fn depend_alike(trial: &PlannedTrial, others: &[PlannedTrial]) -> bool {
    others.iter().all(|other| other.spec.ip == trial.spec.ip && other.settings == trial.settings)
}

fn beside(trial: &PlannedTrial) -> TrialExtras<'_> {
    let place = trial.search.as_ref();
    let resets = place.filter(|place| place.step.purpose == Purpose::Reset);
    TrialExtras {
        settings: &trial.settings,
        stop_at_loss: place.and_then(|place| place.step.stop_at_loss),
        reset: resets.and_then(|place| place.asked.reset.as_deref()),
    }
}

/// What is changed on both machines at the moment.
#[derive(Default)]
struct Machines {
    settings: Settings,
    boots: Boots,
}

#[allow(clippy::too_many_arguments, reason = "all that a campaign touches, each once")]
fn trials(
    order: &Order<'_>,
    begun: &Begun,
    agenda: &mut dyn Agenda,
    pair: &mut Pair,
    store: &mut Store,
    tell: Listener<'_>,
    machines: &mut Machines,
    heard: &mut dyn FnMut(&Record),
) -> Result<usize, CampaignError> {
    let mut ids = Ids::default();
    let endpoints = pair.names.clone();
    let Begun { campaign, done, before, unreadable } = begun;
    let worked: BTreeSet<u32> =
        order.trials.iter().filter(|trial| done.contains(&trial.index)).map(|trial| trial.configuration).collect();
    let mut policy = AbortPolicy::new(worked);
    let (mut finished, mut failed) = (done.len(), 0);
    // What `explain --try` begins no command carries on.
    let interrupted = |finished| CampaignError::Interrupted { finished, is_resumed: order.plan.name != TRIES };
    let mut no_route: Option<String> = None;
    let mut examined = Examined::default();
    let most = order.trials.iter().map(|trial| trial.repeat + 1).max().unwrap_or(0);
    let mut narrowing = IntervalTracker::new(order.changes.precision, most);
    before.iter().for_each(|record| drop(narrowing.heard(record)));
    tell(&CampaignEvent::Began {
        campaign: campaign.id.clone(),
        plan: order.plan.name.clone(),
        target: endpoints.target.clone(),
        host: endpoints.host.clone(),
        planned: agenda.planned(),
        left: agenda.left(),
        done: finished,
    });
    for why in unreadable {
        tell(&CampaignEvent::Said { sentence: format!("{why}; its trial counts as not measured") });
    }
    while let Some(trial) = agenda.next() {
        let (trial, place) = (&trial, agenda.place());
        if interrupt::requested() {
            return Err(interrupted(finished));
        }
        let Machines { settings, boots } = &mut *machines;
        let booted = boots.reach(pair, &order.plan.boots, trial, settings, tell);
        let needed = boots.needed(std::iter::once(trial).chain(agenda.after()));
        agenda.begins(trial, (needed, boots.usual()));
        let began = Instant::now();
        let (id, started_at) = ids.next();
        let live = RefCell::new(Live::default());
        let left = agenda.left();
        tell(&CampaignEvent::TrialBegan {
            place,
            planned: agenda.planned(),
            words: trial.words(),
            index: trial.index,
            repeat: trial.repeat,
            configuration: trial.configuration,
            expected_s: trial.spec.expected_time().map(|time| time.as_secs_f64()),
            offered_bps: offered_bps(&trial.spec),
            left,
        });
        let is_stream = trial.spec.workload.is_stream();
        let mut conducted = match booted {
            Ok(()) => conduct(pair, &trial.spec, beside(trial), settings, &|heard| match heard {
                TrialProgress::Elapsed(elapsed_s) => tell(&CampaignEvent::Elapsed { elapsed_s, left }),
                TrialProgress::SoFar(end, so_far) if is_stream => {
                    let passed = live.borrow_mut().heard(end, so_far, pair.foreign.is_some());
                    passed.into_iter().for_each(|interval| tell(&CampaignEvent::Passed(interval)));
                }
                TrialProgress::SoFar(..) => {}
            }),
            Err(error) => EndedTrial::without(&trial.spec, error),
        };
        for (end, told) in End::BOTH.into_iter().zip(&mut conducted.settings) {
            told.splice(0..0, boots.changed(end).cloned());
        }
        let examination = examined.of(pair, &mut conducted);
        let mut error = conducted.outcomes.as_ref().err().cloned();
        if matches!(error, Some(TrialError::Interrupted)) {
            return Err(interrupted(finished));
        }
        let route = conducted.route;
        let label = Label {
            id,
            started_at,
            campaign: campaign.id.clone(),
            plan: order.plan.name.clone(),
            trial: TrialPlace {
                index: trial.index,
                repeat: trial.repeat,
                factors: trial.factors.iter().cloned().collect::<BTreeMap<_, _>>(),
                configuration: Some(trial.configuration),
                order_seed: order.changes.seed,
                null_side: trial.null_side,
                search: trial.search.clone(),
            },
            endpoints: endpoints.clone(),
        };
        let spec = conducted.spec.clone();
        let mut record = join::record(label.clone(), conducted);
        record.examination = match (examination, &record.error) {
            (None, None) => examined.of_deaths(pair, &spec, route, &record.events),
            (examination, _) => examination,
        };
        let mut stored = store.insert(&record);
        if let Err(StoreError::BadRecord { why, .. }) = &stored {
            let sentence = format!(
                "what the agents told makes no record: {why}; install the same version of linerate on both machines"
            );
            let refused = TrialError::Refused(sentence);
            record = join::record(label, EndedTrial::without(&spec, refused.clone()));
            error = Some(refused);
            stored = store.insert(&record);
        }
        match stored {
            Ok(()) => {}
            // Another process carried this campaign on while this one was stopped; its record stays.
            Err(StoreError::Measured { id, .. }) => record = store.record(&id)?,
            Err(why) => return Err(not_taken(why, store.path(), campaign, &record)),
        }
        let reached = narrowing.heard(&record);
        let ended = CampaignEvent::TrialEnded {
            place,
            planned: agenda.planned(),
            words: agenda.words(trial),
            record: Box::new(record),
        };
        tell(&ended);
        reached.iter().for_each(tell);
        let CampaignEvent::TrialEnded { record, .. } = ended else { continue };
        heard(&record);
        agenda.ended(trial, &record, began.elapsed());
        let is_last = agenda.planned() == Some(place);
        match error {
            None => {
                finished += 1;
                policy.worked(trial.configuration);
            }
            Some(error) => {
                failed += 1;
                let sentence = error.to_string();
                match error {
                    TrialError::Lost(_) => return Err(CampaignError::Lost { sentence, finished }),
                    TrialError::NotOpened(_) | TrialError::Traffic(_) => {
                        let say = |what: &str| {
                            let sentence = format!("{}: {sentence}; {what}", trial.words());
                            tell(&CampaignEvent::Said { sentence });
                        };
                        match route.filter(|_| !is_last).map(|route| carrier::wait(pair, route, &say)) {
                            // What ended the trial is over, and says nothing of the next.
                            Some(CarrierWait::IsBack) => continue,
                            Some(CarrierWait::StaysDown) if !interrupt::requested() => {
                                let why = format!("the link was down for {} s", carrier::LINK_TIME.as_secs());
                                return Err(CampaignError::Failing { why, sentence, finished });
                            }
                            _ => policy.failed(trial.configuration),
                        }
                    }
                    TrialError::Refused(_) if route.is_none() && finished == 0 => {
                        let is_hopeless = no_route.as_ref() == Some(&sentence) && depend_alike(trial, agenda.after());
                        if is_hopeless && !is_last {
                            let left = agenda.planned().map_or(0, |planned| planned.saturating_sub(place));
                            return Err(CampaignError::NoRoute { left });
                        }
                        no_route = Some(sentence.clone());
                    }
                    TrialError::Refused(_) | TrialError::Interrupted => {}
                }
                if let Some(why) = policy.has_left().filter(|_| !is_last) {
                    return Err(CampaignError::Failing { why, sentence, finished });
                }
                tell(&CampaignEvent::Refused { words: trial.words(), sentence });
            }
        }
    }
    store.campaign_finish(&campaign.id, &now().to_string())?;
    Ok(failed)
}
