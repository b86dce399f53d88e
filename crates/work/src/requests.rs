//! What people ask of a queue: to submit, to list, to cancel, to keep a bench for themselves.
//! Knows no server; values are JSON, and one that cannot be read is as if it were not there.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use linerate_machine::text::is_plain_name;
use linerate_machine::words;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::bench::Bench;
use crate::broker::{Broker, Bucket, Unavailable};
use crate::fair::Shares;
use crate::job::{BadJob, Job, Ticket};

/// A bench as the queue knows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BenchRecord {
    /// As the worker's file says that announced it last.
    pub bench: Bench,
    /// Nothing is begun there meanwhile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub maintenance: Option<Maintenance>,
    /// The greatest fence that a controller has had. A later one is greater.
    #[serde(default)]
    pub fence: u64,
    /// What its users had of it.
    #[serde(default)]
    pub shares: Shares,
}

/// Why nothing is begun on a bench.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Maintenance {
    /// Who said so.
    pub by: String,
    /// Why.
    pub reason: String,
}

words! {
    /// Where a job stands.
    JobState {
        /// It has not begun, or it is to be begun again.
        Waiting = "waiting",
        /// A worker carries it out.
        Running = "running",
        /// All its trials are in the store.
        Done = "done",
        /// The bench does not take it.
        Refused = "refused",
        /// It was begun as often as it may be, and never came to its end.
        Dead = "dead",
        /// Somebody took it back.
        Cancelled = "cancelled",
    }
}

impl JobState {
    /// Nothing more becomes of it.
    pub const fn has_ended(self) -> bool {
        !matches!(self, JobState::Waiting | JobState::Running)
    }
}

/// A job, and what became of it: who ran what, where, with which options.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobRecord {
    /// As it was submitted.
    pub job: Job,
    /// Where it stands.
    pub state: JobState,
    /// How often it was begun.
    #[serde(default)]
    pub attempt: u32,
    /// The worker that has begun it last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// The fence with which it did.
    #[serde(default)]
    pub fence: u64,
    /// When, milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub began_ms: Option<i64>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_ms: Option<i64>,
    /// How many of its trials have no figures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_trials: Option<usize>,
    /// Why it stands so, in a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Who wants it to end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cancelled_by: Option<String>,
}

impl JobRecord {
    /// One that waits.
    pub fn waiting(job: Job) -> JobRecord {
        JobRecord {
            job,
            state: JobState::Waiting,
            attempt: 0,
            worker: None,
            fence: 0,
            began_ms: None,
            ended_ms: None,
            failed_trials: None,
            why: None,
            cancelled_by: None,
        }
    }
}

/// A worker that is there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkerCard {
    /// Its name, new with each start.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its benches.
    pub benches: Vec<String>,
    /// Which of them it measures on, and the job.
    pub runs: BTreeMap<String, String>,
    /// Since when it is there, milliseconds since 1970.
    pub since_ms: i64,
}

/// Who has a bench.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LeaseCard {
    /// The worker.
    pub worker: String,
    /// Since when, milliseconds since 1970.
    pub since_ms: i64,
}

/// Why something cannot be had of the queue.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// No answer.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// Nothing is called so.
    #[error("there is no {what} '{name}'; `linerate jobs{list}` lists them", list = if *.what == "bench" { " benches" } else { "" })]
    Unknown {
        /// `job` or `bench`.
        what: &'static str,
        /// What was asked for.
        name: String,
    },
    /// Several are.
    #[error("'{0}' begins several jobs; give more of it")]
    Ambiguous(String),
    /// It cannot be queued.
    #[error(transparent)]
    BadJob(#[from] BadJob),
}

/// What became of a cancelling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// It had not begun, and will not.
    BeforeItBegan,
    /// Its worker will end it: settings are put back, records kept.
    WhileItRuns,
    /// It had ended before.
    TooLate(JobState),
}

/// What became of a submission.
pub type Submitted = Result<(), RequestError>;

/// A change of a value that somebody else may change at the same time is tried so often.
const TRIES: usize = 50;

/// Changes a value: `with` gets what is there and says what shall be; `None` leaves it. What is there afterwards.
pub(crate) fn change<T: Serialize + DeserializeOwned>(
    broker: &mut dyn Broker,
    bucket: Bucket,
    key: &str,
    mut with: impl FnMut(Option<T>) -> Option<T>,
) -> Result<Option<T>, Unavailable> {
    for _ in 0..TRIES {
        let entry = broker.get(bucket, key)?;
        let revision = entry.as_ref().map_or(0, |entry| entry.revision);
        let before = entry.and_then(|entry| serde_json::from_slice(&entry.value).ok());
        let Some(after) = with(before) else { return Ok(None) };
        let value = serde_json::to_vec(&after).expect("what is kept has texts for keys");
        if broker.put(bucket, key, &value, revision)?.is_some() {
            return Ok(Some(after));
        }
    }
    Err(Unavailable::Silent(format!("{key} is written by others all the time")))
}

fn all<T: DeserializeOwned>(broker: &mut dyn Broker, bucket: Bucket) -> Result<Vec<(String, T)>, Unavailable> {
    let entries = broker.all(bucket)?.into_iter();
    Ok(entries.filter_map(|entry| Some((entry.key, serde_json::from_slice(&entry.value).ok()?))).collect())
}

/// Queues a job.
pub fn submit(broker: &mut dyn Broker, job: &Job) -> Submitted {
    job.check()?;
    let payload = serde_json::to_vec(job).expect("a job has texts for keys");
    // The ticket is the job; what is written after it is only what people see.
    broker.queue(&job.ticket(), &payload)?;
    let is_new = |before: Option<JobRecord>| before.is_none().then(|| JobRecord::waiting(job.clone()));
    let written = change(broker, Bucket::Jobs, &job.id, is_new);
    // Nobody would see it, and its submitter has heard that it was not taken.
    if let Err(Unavailable::Forbidden(_)) = &written {
        broker.remove(&job.ticket())?;
    }
    Ok(written.map(drop)?)
}

/// All benches, by name.
pub fn benches(broker: &mut dyn Broker) -> Result<Vec<BenchRecord>, Unavailable> {
    let mut all: Vec<BenchRecord> = all(broker, Bucket::Benches)?.into_iter().map(|(_, one)| one).collect();
    all.sort_by(|a, b| a.bench.name.cmp(&b.bench.name));
    Ok(all)
}

/// Those of which all words are true.
pub fn selected<'a>(benches: &'a [BenchRecord], words: &[(String, String)]) -> Vec<&'a BenchRecord> {
    benches.iter().filter(|one| one.bench.is_meant(words)).collect()
}

/// Workers that are there, by name.
pub fn workers(broker: &mut dyn Broker) -> Result<Vec<WorkerCard>, Unavailable> {
    let mut all: Vec<WorkerCard> = all(broker, Bucket::Workers)?.into_iter().map(|(_, one)| one).collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(all)
}

/// Who has which bench.
pub fn leases(broker: &mut dyn Broker) -> Result<BTreeMap<String, LeaseCard>, Unavailable> {
    Ok(all(broker, Bucket::Leases)?.into_iter().collect())
}

/// All jobs that the queue remembers, the oldest first.
pub fn jobs(broker: &mut dyn Broker) -> Result<Vec<JobRecord>, Unavailable> {
    let mut all: Vec<JobRecord> = all(broker, Bucket::Jobs)?.into_iter().map(|(_, one)| one).collect();
    all.sort_by(|a, b| a.job.id.cmp(&b.job.id));
    Ok(all)
}

/// How many jobs wait or run, by bench.
pub fn waiting(broker: &mut dyn Broker) -> Result<BTreeMap<String, usize>, Unavailable> {
    let mut count = BTreeMap::new();
    for ticket in broker.tickets(None)? {
        *count.entry(ticket.bench.clone()).or_default() += 1;
    }
    Ok(count)
}

/// All that a queue holds, as it was when it was looked at last.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overview {
    /// By name.
    pub benches: Vec<BenchRecord>,
    /// By bench.
    pub leases: BTreeMap<String, LeaseCard>,
    /// How many jobs wait or run, by bench.
    pub waiting: BTreeMap<String, usize>,
    /// By name.
    pub workers: Vec<WorkerCard>,
    /// The oldest first; also those that have ended.
    pub jobs: Vec<JobRecord>,
    /// Where the jobs stood when they were read.
    mark: Option<u64>,
}

impl Overview {
    /// Looks again. Jobs, of which there may be many with much text, are read where one has changed.
    pub fn refresh(&mut self, broker: &mut dyn Broker) -> Result<(), Unavailable> {
        self.benches = benches(broker)?;
        self.leases = leases(broker)?;
        self.waiting = waiting(broker)?;
        self.workers = workers(broker)?;
        let mark = broker.mark(Bucket::Jobs)?;
        if self.mark != Some(mark) {
            self.jobs = jobs(broker)?;
            self.mark = Some(mark);
        }
        Ok(())
    }
}

/// Takes a job back.
pub fn cancel(broker: &mut dyn Broker, id: &str, by: &str) -> Result<Cancelled, RequestError> {
    let unknown = || RequestError::Unknown { what: "job", name: id.to_owned() };
    // It becomes a part of a subject.
    if !is_plain_name(id) {
        return Err(unknown());
    }
    let found = Cell::new(None);
    let with = |before: Option<JobRecord>| {
        let mut record = before?;
        let state = record.state;
        found.set(Some((state, record.job.ticket())));
        if state.has_ended() {
            return None;
        }
        record.cancelled_by = Some(by.to_owned());
        if state == JobState::Waiting {
            record.state = JobState::Cancelled;
        }
        Some(record)
    };
    let changed = change(broker, Bucket::Jobs, id, with);
    let (state, ticket): (JobState, Ticket) = match (changed, found.take()) {
        // No room to say so. The ticket is the job: without it nothing begins, whatever is said of it until there is room.
        (Err(Unavailable::Full(_)), Some((JobState::Waiting, ticket))) => (JobState::Waiting, ticket),
        (changed, found) => {
            changed?;
            found.ok_or_else(unknown)?
        }
    };
    Ok(match state {
        JobState::Waiting => {
            broker.remove(&ticket)?;
            Cancelled::BeforeItBegan
        }
        JobState::Running => Cancelled::WhileItRuns,
        ended => Cancelled::TooLate(ended),
    })
}

/// Keeps a bench from new jobs, or gives it free.
pub fn maintain(broker: &mut dyn Broker, bench: &str, why: Option<Maintenance>) -> Result<(), RequestError> {
    let unknown = || RequestError::Unknown { what: "bench", name: bench.to_owned() };
    // It becomes a part of a subject.
    if !is_plain_name(bench) {
        return Err(unknown());
    }
    let with = |before: Option<BenchRecord>| before.map(|record| BenchRecord { maintenance: why.clone(), ..record });
    change(broker, Bucket::Benches, bench, with)?.map(drop).ok_or_else(unknown)
}

/// Names of benches.
pub(crate) fn names<'a>(benches: impl Iterator<Item = &'a Bench>) -> BTreeSet<String> {
    benches.map(|bench| bench.name.clone()).collect()
}
