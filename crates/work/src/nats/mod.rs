//! The queue on a NATS server with JetStream, 2.9 or later.
//!
//! ```text
//!   stream LINERATE_JOBS (work queue)      linerate.job.BENCH.USER.PRIORITY.NOT-BEFORE.ATTEMPTS.ID    a ticket, and in it the job
//!   a durable consumer for each job that was claimed: explicit acknowledgement, its ack wait is the lease's time
//!   stream LINERATE_DEAD                   the server's advisories of jobs that were delivered too often
//!   buckets linerate-leases, -workers      their entries vanish after the lease's time
//!   buckets linerate-benches, -jobs
//!   linerate.event.ID                      what happens in a campaign, for listeners
//! ```
//!
//! A consumer for each job, and none for each bench, because what is next is chosen and not what is oldest; a work queue allows one
//! consumer for a subject, so a job has one holder. Its runtime has a thread of its own; callers wait for it, and never for ever.

mod access;
mod jetstream;

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use futures_util::StreamExt as _;
use serde_json::{Value, json};
use tokio::runtime::Handle;

pub use access::{Access, QueueError};

use crate::broker::{Broker, Bucket, Claim, ClaimResult, Entry, Unavailable};
use crate::job::Ticket;
use jetstream::{FULL, Fault, JetStream, NO_CONSUMER, NO_STREAM, WRONG_LAST, numbers};

const JOBS: &str = "LINERATE_JOBS";
const DEAD: &str = "LINERATE_DEAD";
const TICKET: &str = "linerate.job.";
const EVENT: &str = "linerate.event.";
const ADVISORY: &str = "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.LINERATE_JOBS.";
/// After how long leases end, where nobody says otherwise.
const LEASE: Duration = Duration::from_secs(30);
/// What has ended is remembered for so long.
const MEMORY: Duration = Duration::from_secs(90 * 24 * 3600);
/// A server that is there answers in milliseconds.
const PATIENCE: Duration = Duration::from_secs(2);
/// To reach it takes longer.
const REACH: Duration = Duration::from_secs(5);

/// The queue.
#[derive(Debug)]
pub struct Nats {
    jetstream: JetStream,
    handle: Handle,
    lease: Duration,
    /// The streams are there, as far as is known.
    is_ready: bool,
    /// It makes them where they are not.
    makes: bool,
    tickets: Receiver<()>,
    /// Dropped to end the runtime.
    _end: tokio::sync::oneshot::Sender<()>,
}

impl Nats {
    /// For a worker: reaches the server, and makes the streams that it lacks. `lease`: after how long leases end; the first worker of
    /// a queue says so.
    pub fn open(access: &Access, lease: Option<Duration>) -> Result<Nats, QueueError> {
        let mut nats = Nats::reach(access)?;
        let refused = |error| QueueError::of(access, error);
        let there = nats.ask(|jetstream| async move { lease_of(&jetstream).await }).map_err(refused)?;
        if let Some((there, _)) = there.zip(lease).filter(|(there, asked)| there != asked) {
            return Err(QueueError::OtherLease { url: access.shown().to_owned(), there });
        }
        nats.agree(there.or(lease).unwrap_or(LEASE));
        nats.makes = true;
        nats.make_ready().map_err(refused)?;
        Ok(nats)
    }

    /// For everybody else: reaches a queue that a worker has begun. Makes nothing.
    pub fn visit(access: &Access) -> Result<Nats, QueueError> {
        let mut nats = Nats::reach(access)?;
        let refused = |error| QueueError::of(access, error);
        let there = nats.ask(|jetstream| async move { lease_of(&jetstream).await }).map_err(refused)?;
        nats.agree(there.ok_or_else(|| QueueError::Empty { url: access.shown().to_owned() })?);
        Ok(nats)
    }

    /// A claim is renewed each sixth of the lease's time; an answer must come before.
    fn agree(&mut self, lease: Duration) {
        self.lease = lease;
        self.jetstream.patience = PATIENCE.min(lease / 6);
    }

    fn reach(access: &Access) -> Result<Nats, QueueError> {
        let (end, ended) = tokio::sync::oneshot::channel::<()>();
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(QueueError::NoThread)?;
        let handle = runtime.handle().clone();
        let serving = move || {
            runtime.block_on(async {
                let _ = ended.await;
            });
        };
        thread::Builder::new().name("linerate-queue".to_owned()).spawn(serving).map_err(QueueError::NoThread)?;
        let no_server = |why: String| QueueError::NoServer { url: access.shown().to_owned(), why };
        let (refusals, refused) = tokio::sync::watch::channel(String::new());
        let options = access.options(REACH, refusals).map_err(|error| no_server(error.to_string()))?;
        let address = access.address().to_owned();
        let connected = wait(&handle, 2 * REACH, async move { options.connect(address).await });
        let client = connected.map_err(&no_server)?.map_err(|error| access.refused(&error))?;
        let (woken, tickets) = mpsc::sync_channel(1);
        let listening = client.clone();
        handle.spawn(async move {
            let Ok(mut heard) = listening.subscribe(format!("{TICKET}>")).await else { return };
            // Full: it is known already that there is something new.
            while heard.next().await.is_some() {
                let _ = woken.try_send(());
            }
        });
        let jetstream = JetStream { client, refused, patience: PATIENCE };
        Ok(Nats { jetstream, handle, lease: LEASE, is_ready: false, makes: false, tickets, _end: end })
    }

    /// After how long leases end.
    pub fn lease(&self) -> Duration {
        self.lease
    }

    /// Waits until there may be something new in the queue, and no longer than this; whether there is.
    pub fn wait(&self, at_most: Duration) -> bool {
        match self.tickets.recv_timeout(at_most) {
            Ok(()) => true,
            Err(RecvTimeoutError::Timeout) => false,
            Err(RecvTimeoutError::Disconnected) => {
                thread::sleep(at_most);
                false
            }
        }
    }

    /// Who can tell events of campaigns, from any thread.
    pub fn teller(&self) -> EventPublisher {
        EventPublisher { client: self.jetstream.client.clone(), handle: self.handle.clone() }
    }

    /// Hears what happens in a job's campaign, or in all of them, from now on.
    pub fn hear(&self, job: Option<&str>) -> EventSubscription {
        let (sent, events) = mpsc::sync_channel(256);
        let (client, subject) = (self.jetstream.client.clone(), format!("{EVENT}{}", job.unwrap_or("*")));
        let listening = self.handle.spawn(async move {
            let Ok(mut heard) = client.subscribe(subject).await else { return };
            while let Some(message) = heard.next().await {
                let Some(job) = message.subject.strip_prefix(EVENT) else { continue };
                let event = (job.to_owned(), message.payload.to_vec());
                // A slow listener misses some.
                if sent.try_send(event).is_err_and(|error| matches!(error, mpsc::TrySendError::Disconnected(_))) {
                    return;
                }
            }
        });
        EventSubscription { events, listening }
    }

    /// How often the server was reached, the first time counted, and whether it is now.
    pub fn connections(&self) -> (u64, bool) {
        let client = &self.jetstream.client;
        let connects = client.statistics().connects.load(std::sync::atomic::Ordering::Relaxed);
        (connects, client.connection_state() == async_nats::connection::State::Connected)
    }

    fn ask<T, F>(&self, what: impl FnOnce(JetStream) -> F) -> Result<T, Unavailable>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Fault>> + Send + 'static,
    {
        // What has several requests in it may take several times as long.
        match wait(&self.handle, 4 * self.jetstream.patience, what(self.jetstream.clone()))
            .map_err(Unavailable::Silent)?
        {
            Ok(answer) => Ok(answer),
            Err(Fault::Silent(why)) => Err(Unavailable::Silent(why)),
            Err(Fault::Says(number, why)) if FULL.contains(&number) => Err(Unavailable::Full(why)),
            Err(Fault::Says(_, why)) => Err(Unavailable::Refused(why)),
            Err(Fault::Forbidden(subject)) => Err(Unavailable::Forbidden(subject)),
        }
    }

    /// The same where the streams are needed: makes them anew if the server has lost them.
    fn with_streams<T, F>(&mut self, what: impl FnOnce(JetStream) -> F) -> Result<T, Unavailable>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Fault>> + Send + 'static,
    {
        if self.makes && !self.is_ready {
            self.make_ready()?;
        }
        let answer = self.ask(what);
        self.is_ready = answer.is_ok();
        answer
    }

    fn make_ready(&mut self) -> Result<(), Unavailable> {
        let configs = streams(self.lease);
        self.ask(|jetstream| async move {
            for config in configs {
                let name = config["name"].as_str().unwrap_or_default().to_owned();
                match jetstream.ask(&format!("STREAM.INFO.{name}"), json!({})).await {
                    Err(Fault::Says(NO_STREAM, _)) => {
                        drop(jetstream.ask(&format!("STREAM.CREATE.{name}"), config).await?)
                    }
                    other => drop(other?),
                }
            }
            Ok(())
        })?;
        self.is_ready = true;
        Ok(())
    }
}

/// Hears what happens in campaigns, until it is dropped.
#[derive(Debug)]
pub struct EventSubscription {
    events: Receiver<(String, Vec<u8>)>,
    listening: tokio::task::JoinHandle<()>,
}

impl EventSubscription {
    /// The next event, and whose it is as its subject says: one JSON object, of anybody who may publish there. `None`: there was none
    /// for so long.
    pub fn next(&self, at_most: Duration) -> Result<Option<(String, Vec<u8>)>, Unavailable> {
        match self.events.recv_timeout(at_most) {
            Ok(event) => Ok(Some(event)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(Unavailable::Silent("nothing can be heard".to_owned())),
        }
    }
}

impl Drop for EventSubscription {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

/// Tells what happens in campaigns.
#[derive(Clone, Debug)]
pub struct EventPublisher {
    client: async_nats::Client,
    handle: Handle,
}

impl EventPublisher {
    /// An event of a job's campaign: one JSON object. Best effort: who does not listen has missed it.
    pub fn tell(&self, job: &str, event: &[u8]) {
        let (client, subject, event) = (self.client.clone(), format!("{EVENT}{job}"), event.to_vec());
        self.handle.spawn(async move {
            // While the server is away nothing is kept for it.
            if client.connection_state() == async_nats::connection::State::Connected {
                let _ = client.publish(subject, event.into()).await;
            }
        });
    }
}

/// Carries something out in the runtime's thread, and waits for it here.
fn wait<T: Send + 'static>(
    handle: &Handle,
    patience: Duration,
    what: impl Future<Output = T> + Send + 'static,
) -> Result<T, String> {
    let (sent, answer) = mpsc::sync_channel(1);
    handle.spawn(async move {
        let _ = sent.send(tokio::time::timeout(patience, what).await);
    });
    match answer.recv_timeout(patience + Duration::from_secs(1)) {
        Ok(Ok(answer)) => Ok(answer),
        _ => Err(format!("no answer within {} s", patience.as_secs_f64())),
    }
}

/// The lease's time that was agreed on.
async fn lease_of(jetstream: &JetStream) -> Result<Option<Duration>, Fault> {
    match jetstream.ask(&format!("STREAM.INFO.{}", stream_of(Bucket::Leases)), json!({})).await {
        Ok(answer) => Ok(answer["config"]["max_age"].as_u64().map(Duration::from_nanos)),
        Err(Fault::Says(NO_STREAM, _)) => Ok(None),
        Err(fault) => Err(fault),
    }
}

fn stream_of(bucket: Bucket) -> String {
    format!("KV_linerate-{}", bucket.name())
}

fn subject_of(bucket: Bucket, key: &str) -> String {
    format!("$KV.linerate-{}.{key}", bucket.name())
}

/// What the server has to keep, and how.
fn streams(lease: Duration) -> Vec<Value> {
    let nanoseconds = |time: Duration| time.as_nanos() as u64;
    let mut all = vec![
        json!({
            "name": JOBS, "subjects": [format!("{TICKET}>")], "retention": "workqueue", "storage": "file", "discard": "new",
            "max_msgs_per_subject": 1, "discard_new_per_subject": true, "max_msg_size": 1 << 20, "num_replicas": 1,
        }),
        json!({
            "name": DEAD, "subjects": [format!("{ADVISORY}*")], "retention": "limits", "storage": "file", "discard": "old",
            "max_msgs_per_subject": 1, "max_age": nanoseconds(MEMORY), "num_replicas": 1,
        }),
    ];
    all.extend(Bucket::ALL.map(|bucket| {
        let age = match bucket {
            Bucket::Benches => Duration::ZERO,
            Bucket::Jobs => MEMORY,
            _ => lease,
        };
        let window = if age.is_zero() { Duration::from_secs(120) } else { age.min(Duration::from_secs(120)) };
        // As a bucket of keys and values is kept (ADR-8).
        json!({
            "name": stream_of(bucket), "subjects": [subject_of(bucket, ">")], "retention": "limits", "storage": "file",
            "discard": "new", "max_msgs_per_subject": 1, "max_age": nanoseconds(age), "duplicate_window": nanoseconds(window),
            "allow_rollup_hdrs": true, "deny_delete": true, "allow_direct": true, "num_replicas": 1,
        })
    }));
    all
}

fn subject_of_ticket(ticket: &Ticket) -> String {
    format!("{TICKET}{}", ticket.words())
}

async fn forget_consumer(jetstream: &JetStream, id: &str) -> Result<(), Fault> {
    match jetstream.ask(&format!("CONSUMER.DELETE.{JOBS}.{id}"), json!({})).await {
        Ok(_) | Err(Fault::Says(NO_CONSUMER, _)) => {}
        Err(fault) => return Err(fault),
    }
    // What it said of its deliveries would be taken for the next one's.
    jetstream.ask(&format!("STREAM.PURGE.{DEAD}"), json!({ "filter": format!("{ADVISORY}{id}") })).await.map(drop)
}

impl Broker for Nats {
    fn get(&mut self, bucket: Bucket, key: &str) -> Result<Option<Entry>, Unavailable> {
        let (key, subject) = (key.to_owned(), subject_of(bucket, key));
        self.with_streams(move |jetstream| async move {
            let found = jetstream.last(&stream_of(bucket), &subject).await?.filter(|kept| !kept.is_gone);
            Ok(found.map(|kept| Entry { key, revision: kept.sequence, value: kept.payload }))
        })
    }

    fn put(&mut self, bucket: Bucket, key: &str, value: &[u8], expected: u64) -> Result<Option<u64>, Unavailable> {
        let (subject, value) = (subject_of(bucket, key), value.to_vec());
        self.with_streams(move |jetstream| async move {
            match jetstream.write(subject.clone(), value.clone(), expected, false).await {
                Ok(revision) => return Ok(Some(revision)),
                Err(Fault::Says(WRONG_LAST, _)) => {}
                Err(fault) => return Err(fault),
            }
            // What was deleted is a message, too, until it is written over.
            let last = jetstream.last(&stream_of(bucket), &subject).await?;
            let Some(gone) = last.filter(|kept| expected == 0 && kept.is_gone) else { return Ok(None) };
            match jetstream.write(subject, value, gone.sequence, false).await {
                Ok(revision) => Ok(Some(revision)),
                Err(Fault::Says(WRONG_LAST, _)) => Ok(None),
                Err(fault) => Err(fault),
            }
        })
    }

    fn delete(&mut self, bucket: Bucket, key: &str, expected: u64) -> Result<(), Unavailable> {
        let subject = subject_of(bucket, key);
        self.with_streams(move |jetstream| async move {
            match jetstream.write(subject, Vec::new(), expected, true).await {
                Ok(_) | Err(Fault::Says(WRONG_LAST, _)) => Ok(()),
                Err(fault) => Err(fault),
            }
        })
    }

    fn mark(&mut self, bucket: Bucket) -> Result<u64, Unavailable> {
        self.with_streams(move |jetstream| async move {
            let answer = jetstream.ask(&format!("STREAM.INFO.{}", stream_of(bucket)), json!({})).await?;
            answer["state"]["last_seq"].as_u64().ok_or_else(|| Fault::Silent("an answer without a number".to_owned()))
        })
    }

    fn all(&mut self, bucket: Bucket) -> Result<Vec<Entry>, Unavailable> {
        let beginning = subject_of(bucket, "");
        self.with_streams(move |jetstream| async move {
            let kept = jetstream
                .all(&stream_of(bucket), &subject_of(bucket, ">"))
                .await?
                .into_iter()
                .filter(|kept| !kept.is_gone);
            let entry = |kept: jetstream::StoredMessage| {
                let key = kept.subject.strip_prefix(&beginning)?.to_owned();
                Some(Entry { key, revision: kept.sequence, value: kept.payload })
            };
            Ok(kept.filter_map(entry).collect())
        })
    }

    fn queue(&mut self, ticket: &Ticket, payload: &[u8]) -> Result<(), Unavailable> {
        let (subject, payload) = (subject_of_ticket(ticket), payload.to_vec());
        self.with_streams(move |jetstream| async move {
            match jetstream.write(subject, payload, 0, false).await {
                Ok(_) | Err(Fault::Says(WRONG_LAST, _)) => Ok(()),
                Err(fault) => Err(fault),
            }
        })
    }

    fn tickets(&mut self, benches: Option<&BTreeSet<String>>) -> Result<Vec<Arc<Ticket>>, Unavailable> {
        let filter = match benches.map(|benches| (benches.len(), benches.first())) {
            Some((0, _)) => return Ok(Vec::new()),
            Some((1, Some(bench))) => format!("{TICKET}{bench}.>"),
            _ => format!("{TICKET}>"),
        };
        let subjects = self.with_streams(move |jetstream| async move { jetstream.subjects(JOBS, &filter).await })?;
        let all = subjects.iter().filter_map(|subject| Ticket::read(subject.strip_prefix(TICKET)?));
        Ok(all.filter(|ticket| benches.is_none_or(|benches| benches.contains(&ticket.bench))).map(Arc::new).collect())
    }

    fn claim(&mut self, ticket: &Ticket) -> Result<ClaimResult, Unavailable> {
        let (ticket, lease) = (ticket.clone(), self.lease.as_nanos() as u64);
        self.with_streams(move |jetstream| async move {
            let (id, subject) = (ticket.id.clone(), subject_of_ticket(&ticket));
            let advisory = format!("{ADVISORY}{id}");
            let config = json!({
                "durable_name": id, "filter_subject": subject, "ack_policy": "explicit", "ack_wait": lease,
                "max_deliver": ticket.attempts, "max_ack_pending": 1, "deliver_policy": "all", "replay_policy": "instant",
            });
            let what = json!({ "stream_name": JOBS, "config": config });
            jetstream.ask(&format!("CONSUMER.DURABLE.CREATE.{JOBS}.{id}"), what).await?;
            if let Some((payload, reply)) = jetstream.next(JOBS, &id).await? {
                let attempt = numbers(&reply).map_or(1, |(_, delivered)| delivered);
                return Ok(ClaimResult::Yes(Box::new(Claim { ticket, payload, attempt, handle: reply })));
            }
            let Some(kept) = jetstream.last(JOBS, &subject).await? else {
                forget_consumer(&jetstream, &id).await?;
                return Ok(ClaimResult::Gone);
            };
            match jetstream.last(DEAD, &advisory).await? {
                Some(_) => Ok(ClaimResult::Exhausted(kept.payload)),
                None => Ok(ClaimResult::Held),
            }
        })
    }

    fn extend(&mut self, claim: &Claim) -> Result<(), Unavailable> {
        let handle = claim.handle.clone();
        self.with_streams(move |jetstream| async move {
            let told = jetstream.client.publish(handle, "+WPI".into()).await;
            told.map_err(|error| Fault::Silent(error.to_string()))
        })
    }

    fn settle(&mut self, claim: &Claim) -> Result<(), Unavailable> {
        let handle = claim.handle.clone();
        self.with_streams(move |jetstream| async move { jetstream.acknowledge(&handle, "+ACK").await })?;
        self.remove(&claim.ticket)
    }

    fn again(&mut self, claim: &Claim, after_ms: u64, counts: bool) -> Result<(), Unavailable> {
        let (handle, id) = (claim.handle.clone(), claim.ticket.id.clone());
        self.with_streams(move |jetstream| async move {
            if !counts {
                // With its consumer the server forgets how often it was delivered.
                return forget_consumer(&jetstream, &id).await;
            }
            jetstream.acknowledge(&handle, &format!("-NAK {{\"delay\": {}}}", after_ms * 1_000_000)).await
        })
    }

    fn remove(&mut self, ticket: &Ticket) -> Result<(), Unavailable> {
        let (subject, id) = (subject_of_ticket(ticket), ticket.id.clone());
        self.with_streams(move |jetstream| async move {
            jetstream.ask(&format!("STREAM.PURGE.{JOBS}"), json!({ "filter": subject })).await?;
            forget_consumer(&jetstream, &id).await
        })
    }

    fn clear(&mut self) -> Result<Vec<String>, Unavailable> {
        self.with_streams(|jetstream| async move {
            let mut cleared = Vec::new();
            for subject in jetstream.subjects(JOBS, &format!("{TICKET}>")).await? {
                let is_ticket = subject.strip_prefix(TICKET).is_some_and(|words| Ticket::read(words).is_some());
                // A wildcard would take others' jobs.
                if is_ticket || subject.contains(['*', '>']) {
                    continue;
                }
                let answer = jetstream.ask(&format!("STREAM.PURGE.{JOBS}"), json!({ "filter": subject })).await?;
                // Another worker may have been quicker, and said so.
                if answer["purged"].as_u64() > Some(0) {
                    cleared.push(subject);
                }
            }
            Ok(cleared)
        })
    }
}
