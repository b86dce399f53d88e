//! A team's queue as its observers see it: benches, jobs and workers, and how the campaigns that run go.
//! Knows no browser and no terminal; what is seen, they show.
//!
//! A thread looks while somebody asks, once a second, and hears what workers tell of their campaigns. Nobody asks for a while: it
//! ends, and its connection with it. So a server or a console that has a queue costs nothing until somebody looks at it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use linerate_machine::sync::{Condvar, Mutex};
use linerate_machine::text::is_plain_name;
use linerate_work::{Access, Cancelled, JobRecord, Nats, Overview, QueueError, RequestError, cancel};

use crate::measure::events::CampaignEvent;
use crate::measure::watched::Watched;

/// Between two looks.
const EVERY: Duration = Duration::from_secs(1);
/// Between two tries to reach a server that does not answer.
const AGAIN: Duration = Duration::from_secs(2);
/// After so long without a request nobody is watching any more.
const ALONE: Duration = Duration::from_secs(30);
/// How long the first request waits for the first look; to reach a server takes no longer.
const FIRST: Duration = Duration::from_secs(12);
/// The most campaigns that are followed at once.
const CAMPAIGNS: usize = 64;
/// As long as a worker sends them.
const LONGEST_EVENT: usize = 512 << 10;

/// A queue, and what is known of it.
pub(crate) struct Team {
    access: Access,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    known: Mutex<TeamState>,
    looked: Condvar,
}

/// What is known.
#[derive(Default)]
pub(crate) struct TeamState {
    pub(crate) queue: Overview,
    /// By job.
    pub(crate) campaigns: BTreeMap<String, Campaign>,
    /// Why the queue could not be looked at, when it was tried last.
    pub(crate) error: Option<String>,
    /// Grows with everything that happens.
    pub(crate) version: u64,
    /// The first look has been, well or not.
    has_looked: bool,
    is_looking: bool,
    asked: Option<Instant>,
}

/// A campaign that runs, or ran while somebody looked.
#[derive(Default)]
pub(crate) struct Campaign {
    pub(crate) watched: Watched,
    /// Grows with everything that is told of it.
    pub(crate) version: u64,
    /// When its last event came.
    pub(crate) heard: Option<Instant>,
}

impl TeamState {
    /// The job of this identifier.
    pub(crate) fn job(&self, id: &str) -> Option<&JobRecord> {
        self.queue.jobs.iter().find(|one| one.job.id == id)
    }

    /// What a job that runs is about, in a few words.
    pub(crate) fn progress(&self, job: &str) -> Option<String> {
        let watched = &self.campaigns.get(job)?.watched;
        // An observer that missed the campaign's beginning has the number from the trial.
        let planned = watched.trial.as_ref().and_then(|trial| trial.planned).or(watched.planned);
        let of = planned.map_or(String::new(), |planned| format!(" of {planned}"));
        match (&watched.trial, &watched.doing, watched.ended.back()) {
            (Some(trial), ..) => Some(format!("trial {}{of}: {}", trial.place, trial.words)),
            (None, Some(doing), _) => Some(doing.clone()),
            (None, None, Some(last)) => Some(format!("trial {}{of} ended", last.place)),
            (None, None, None) => None,
        }
    }

    /// An event that came under this job's name, from anybody.
    fn hear(&mut self, job: String, event: &[u8], now: Instant) {
        let is_open = self.job(&job).is_none_or(|one| !one.state.has_ended());
        if event.len() > LONGEST_EVENT || !is_plain_name(&job) || !is_open {
            return;
        }
        let Ok(event) = serde_json::from_slice::<CampaignEvent>(event) else { return };
        if !self.campaigns.contains_key(&job) && self.campaigns.len() >= CAMPAIGNS {
            let oldest = self.campaigns.iter().min_by_key(|(_, one)| one.heard).map(|(id, _)| id.clone());
            oldest.iter().for_each(|id| drop(self.campaigns.remove(id)));
        }
        let campaign = self.campaigns.entry(job.clone()).or_default();
        // Its beginning may be missed: the job's identifier is the campaign's.
        campaign.watched.campaign = Some(job.clone());
        campaign.watched.hear(event, now);
        campaign.watched.campaign = Some(job);
        campaign.version += 1;
        campaign.heard = Some(now);
        self.version += 1;
    }
}

impl Team {
    pub(crate) fn new(access: Access) -> Team {
        Team { access, shared: Arc::default() }
    }

    /// Where the queue is, for people.
    pub(crate) fn shown(&self) -> &str {
        self.access.shown()
    }

    /// Looks at what is known, which is a second old at most; the first time, and after a while without, that takes a moment.
    pub(crate) fn look<T>(&self, with: impl FnOnce(&TeamState) -> T) -> T {
        let mut known = self.shared.known.lock();
        known.asked = Some(Instant::now());
        if !known.is_looking {
            known.is_looking = true;
            known.has_looked = false;
            let (access, shared) = (self.access.clone(), Arc::clone(&self.shared));
            let begun = thread::Builder::new().name("linerate-team".to_owned()).spawn(move || watch(&access, &shared));
            if let Err(error) = begun {
                (known.is_looking, known.has_looked) = (false, true);
                known.error = Some(QueueError::NoThread(error).to_string());
            }
        }
        let (known, _) = self.shared.looked.wait_timeout_while(known, FIRST, |known| !known.has_looked);
        with(&known)
    }

    /// Takes a job back.
    #[cfg_attr(not(feature = "web"), expect(dead_code, reason = "pages alone take jobs back"))]
    pub(crate) fn cancel(&self, job: &str, by: &str) -> Result<Cancelled, CancelError> {
        let mut queue = Nats::visit(&self.access)?;
        let cancelled = cancel(&mut queue, job, by)?;
        // Who did it sees it at once.
        let mut overview = Overview::default();
        if overview.refresh(&mut queue).is_ok() {
            let mut known = self.shared.known.lock();
            known.queue = overview;
            known.version += 1;
        }
        Ok(cancelled)
    }
}

/// Why a job was not taken back.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CancelError {
    #[error(transparent)]
    Queue(#[from] QueueError),
    #[error(transparent)]
    Request(#[from] RequestError),
}

impl Shared {
    /// Nobody has asked for a while: then nobody looks from here on.
    fn is_over(&self) -> bool {
        let mut known = self.known.lock();
        let is_over = known.asked.is_none_or(|asked| asked.elapsed() > ALONE);
        if is_over {
            // What is heard now is missed, so what was heard is not shown as if it were whole.
            known.campaigns.clear();
            known.is_looking = false;
        }
        is_over
    }

    fn looked(&self, found: Result<&Overview, String>) {
        let mut known = self.known.lock();
        let before = known.error.take();
        match found {
            Ok(queue) => {
                if *queue != known.queue {
                    known.queue = queue.clone();
                    known.version += 1;
                }
                known.version += u64::from(before.is_some());
            }
            Err(error) => {
                known.version += u64::from(before.as_ref() != Some(&error));
                known.error = Some(error);
            }
        }
        known.has_looked = true;
        self.looked.notify_all();
    }
}

/// Looks until nobody asks any more.
fn watch(access: &Access, shared: &Shared) {
    while !shared.is_over() {
        match Nats::visit(access) {
            Ok(queue) => {
                if look_again_and_again(queue, shared) {
                    return;
                }
            }
            Err(error) => {
                shared.looked(Err(error.to_string()));
                thread::sleep(AGAIN);
            }
        }
    }
}

/// Whether nobody asks any more; else the queue has to be reached anew.
fn look_again_and_again(mut queue: Nats, shared: &Shared) -> bool {
    let heard = queue.hear(None);
    let mut overview = Overview::default();
    loop {
        let found = overview.refresh(&mut queue).map_err(|error| error.to_string());
        shared.looked(found.map(|()| &overview));
        let next = Instant::now() + EVERY;
        loop {
            let left = next.saturating_duration_since(Instant::now());
            match heard.next(left) {
                Ok(Some((job, event))) => shared.known.lock().hear(job, &event, Instant::now()),
                Ok(None) => break,
                Err(_) => return false,
            }
            if left.is_zero() {
                break;
            }
        }
        if shared.is_over() {
            return true;
        }
    }
}
