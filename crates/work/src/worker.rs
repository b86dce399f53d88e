//! What a worker does next: which job it begins on which bench, which leases it renews, what it has to end.
//! A machine of states without a clock and without processes; its owner has both, and carries [`Action`]s out.
//!
//! ```text
//!   idle ─ lease, fence, claim ─→ runs ──────────── ended ─→ settled ─→ idle
//!            a renewal each         │ cancelled, closed,       ↑
//!            sixth of the lease     │ lease older than 4/6     │
//!                                   └─→ stopping ─ 5/6 ─→ killed
//! ```
//!
//! Safety rests on three things, each enough by itself while the others fail: the lease in the queue; this worker's own clock,
//! which ends a campaign before the lease can be another's; and the agents, which refuse a smaller fence than they have seen.

use std::collections::{BTreeMap, BTreeSet};

use crate::bench::Bench;
use crate::broker::{Broker, Bucket, Claim, ClaimResult, Unavailable};
use crate::job::{Job, Ticket};
use crate::requests::{BenchRecord, JobRecord, JobState, LeaseCard, WorkerCard, change, names};

/// The present: by a clock that nobody sets, and by the wall's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// Milliseconds since whenever.
    pub mono_ms: u64,
    /// Milliseconds since 1970.
    pub unix_ms: i64,
}

/// What follows from the time after which a lease ends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// That time.
    pub lease_ms: u64,
}

impl Timing {
    /// Between two renewals, and between two looks at the queue.
    pub const fn renew_ms(self) -> u64 {
        self.lease_ms / 6
    }

    /// A campaign whose lease was not renewed for so long is asked to end.
    pub const fn stop_ms(self) -> u64 {
        self.lease_ms * 4 / 6
    }

    /// And then it is killed.
    pub const fn kill_ms(self) -> u64 {
        self.lease_ms * 5 / 6
    }

    /// One that was asked to end for another reason, while its lease is renewed, has so long to do it.
    pub const fn patience_ms(self) -> u64 {
        self.lease_ms
    }
}

/// A campaign to begin.
#[derive(Clone, Debug, PartialEq)]
pub struct Start {
    /// What.
    pub job: Job,
    /// Where.
    pub bench: Bench,
    /// With which the agents are asked for their leases.
    pub fence: u64,
    /// How often it was begun, this time counted.
    pub attempt: u32,
}

/// What is to be done with processes. Jobs are named by their identifiers.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Begin a campaign.
    Start(Box<Start>),
    /// Tell it that its lease was renewed: it ends by itself when it does not hear so for [`Timing::stop_ms`].
    Renewed(String),
    /// Ask it to end in good order.
    Stop(String),
    /// End it at once.
    Kill(String),
    /// Say that what was queued under this name is no job, and is there no more.
    Refused(String),
}

/// How a campaign ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CampaignEnd {
    /// All its trials are in the store; so many have no figures.
    Done {
        /// How many.
        failed_trials: usize,
    },
    /// It did not come to its end, for this reason.
    Failed(String),
    /// The bench does not take it, for this reason; another attempt would not change that.
    Refused(String),
    /// It is no fault of the job's, for this reason: the store cannot be reached or is full, this machine has no room, or somebody else
    /// measures with one of the bench's.
    HandedBack(String),
    /// It was asked to end, or killed.
    Stopped,
}

/// A worker.
#[derive(Debug)]
pub struct Worker {
    name: String,
    version: String,
    benches: BTreeMap<String, Bench>,
    /// So many campaigns at once.
    at_once: usize,
    timing: Timing,
    runs: BTreeMap<String, Run>,
    since_ms: Option<i64>,
    presence: Presence,
    is_announced: bool,
    next_look_ms: u64,
    looked_ms: u64,
    /// The queue did not answer: until then it is left alone.
    silent_until_ms: u64,
    trouble: Option<Unavailable>,
    /// What was held by another, or failed here, is not asked for again before.
    not_before_ms: BTreeMap<String, u64>,
    is_closed: bool,
}

#[derive(Debug, Default)]
struct Presence {
    revision: u64,
    next_ms: u64,
}

/// A job of this worker's, by its bench.
#[derive(Debug)]
struct Run {
    job: Job,
    claim: Claim,
    /// The lease's entry.
    lease: Lease,
    began_ms: u64,
    phase: Phase,
    /// Who has taken it back.
    is_cancelled: bool,
    /// When it was asked to end.
    stopped_ms: Option<u64>,
    is_killed: bool,
}

#[derive(Debug)]
struct Lease {
    revision: u64,
    value: Vec<u8>,
    /// When its last renewal was asked for that was granted.
    renewed_ms: u64,
    next_ms: u64,
    is_lost: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    Runs,
    Stopping,
    Ended(CampaignEnd),
}

impl Worker {
    /// One of this name, which no other worker has or had.
    pub fn new(name: &str, version: &str, benches: Vec<Bench>, at_once: usize, timing: Timing) -> Worker {
        Worker {
            name: name.to_owned(),
            version: version.to_owned(),
            benches: benches.into_iter().map(|bench| (bench.name.clone(), bench)).collect(),
            at_once: at_once.max(1),
            timing,
            runs: BTreeMap::new(),
            since_ms: None,
            presence: Presence::default(),
            is_announced: false,
            next_look_ms: 0,
            looked_ms: 0,
            silent_until_ms: 0,
            trouble: None,
            not_before_ms: BTreeMap::new(),
            is_closed: false,
        }
    }

    /// What follows from the lease's time.
    pub fn timing(&self) -> Timing {
        self.timing
    }

    /// Begins nothing any more, and ends what runs.
    pub fn close(&mut self) {
        self.is_closed = true;
    }

    /// Takes its name off the list of workers, at its end.
    pub fn leave(&mut self, broker: &mut dyn Broker) -> Result<(), Unavailable> {
        broker.delete(Bucket::Workers, &self.name, self.presence.revision)
    }

    /// Nothing runs, and nothing is left to settle.
    pub fn is_idle(&self) -> bool {
        self.runs.is_empty()
    }

    /// A campaign has ended.
    pub fn ended(&mut self, job: &str, came: CampaignEnd) {
        if let Some(run) = self.runs.values_mut().find(|run| run.job.id == job) {
            run.phase = Phase::Ended(came);
        }
    }

    /// There may be something new in the queue. However often that is said, a look has a pause after it.
    pub fn look_now(&mut self) {
        self.next_look_ms = self.next_look_ms.min(self.looked_ms + self.timing.lease_ms / 60);
    }

    /// When the next step has something to do, if nothing happens before; milliseconds of the clock that nobody sets.
    pub fn next_step_ms(&self) -> u64 {
        let mut next = if self.is_closed { u64::MAX } else { self.next_look_ms.min(self.presence.next_ms) };
        for run in self.runs.values() {
            next = next.min(match run.phase {
                Phase::Ended(_) => 0,
                Phase::Runs => run.lease.next_ms.min(run.lease.renewed_ms + self.timing.stop_ms()),
                Phase::Stopping if run.is_killed => run.lease.next_ms,
                Phase::Stopping => {
                    let patience = run.stopped_ms.map_or(u64::MAX, |stopped| stopped + self.timing.patience_ms());
                    run.lease.next_ms.min(run.lease.renewed_ms + self.timing.kill_ms()).min(patience)
                }
            });
        }
        // What needs the queue has to wait for it; what ends campaigns has not.
        let silence = self.runs.values().filter(|run| !matches!(run.phase, Phase::Ended(_)));
        let due = silence.map(|run| run.lease.renewed_ms + self.timing.stop_ms()).min().unwrap_or(u64::MAX);
        next.max(self.silent_until_ms.min(due))
    }

    /// Does what is due.
    pub fn step(&mut self, broker: &mut dyn Broker, now: Times) -> Vec<Action> {
        let mut actions = Vec::new();
        self.guard(now, &mut actions);
        if now.mono_ms >= self.silent_until_ms {
            self.trouble = self.talk(broker, now, &mut actions).err();
            if self.trouble.is_some() {
                self.silent_until_ms = now.mono_ms + (self.timing.lease_ms / 30).max(1);
            }
        }
        actions
    }

    /// Why the queue did not do what it was asked for last; `None`: it did.
    pub fn trouble(&self) -> Option<&Unavailable> {
        self.trouble.as_ref()
    }

    /// Ends what must not go on, whether or not the queue answers.
    fn guard(&mut self, now: Times, actions: &mut Vec<Action>) {
        for run in self.runs.values_mut().filter(|run| !matches!(run.phase, Phase::Ended(_))) {
            let age = now.mono_ms.saturating_sub(run.lease.renewed_ms);
            let must_end = self.is_closed || run.is_cancelled || age >= self.timing.stop_ms();
            if must_end && run.phase == Phase::Runs {
                (run.phase, run.stopped_ms) = (Phase::Stopping, Some(now.mono_ms));
                actions.push(Action::Stop(run.job.id.clone()));
            }
            let hangs = run.stopped_ms.is_some_and(|stopped| now.mono_ms >= stopped + self.timing.patience_ms());
            let must_die = run.lease.is_lost || age >= self.timing.kill_ms() || hangs;
            if must_die && !std::mem::replace(&mut run.is_killed, true) {
                run.phase = Phase::Stopping;
                actions.push(Action::Kill(run.job.id.clone()));
            }
        }
    }

    fn talk(&mut self, broker: &mut dyn Broker, now: Times, actions: &mut Vec<Action>) -> Result<(), Unavailable> {
        for bench in self.runs.keys().cloned().collect::<Vec<_>>() {
            self.renew(broker, &bench, now, actions)?;
        }
        let ended = |run: &Run| matches!(run.phase, Phase::Ended(_));
        for bench in self.runs.iter().filter(|(_, run)| ended(run)).map(|(bench, _)| bench.clone()).collect::<Vec<_>>()
        {
            self.settle(broker, &bench, now)?;
        }
        // What was learnt just now.
        self.guard(now, actions);
        if now.mono_ms >= self.presence.next_ms {
            self.announce(broker, now)?;
            actions.extend(broker.clear()?.into_iter().map(Action::Refused));
        }
        if !self.is_closed && now.mono_ms >= self.next_look_ms {
            self.look(broker, now, actions)?;
            (self.looked_ms, self.next_look_ms) = (now.mono_ms, now.mono_ms + self.timing.renew_ms());
        }
        Ok(())
    }

    /// Renews a lease and a claim, and hears whether the job is cancelled.
    fn renew(
        &mut self,
        broker: &mut dyn Broker,
        bench: &str,
        now: Times,
        actions: &mut Vec<Action>,
    ) -> Result<(), Unavailable> {
        let Some(run) = self.runs.get_mut(bench) else { return Ok(()) };
        let is_ended = matches!(run.phase, Phase::Ended(_));
        // Before it is settled, too: who has lost the lease settles nothing.
        if run.lease.is_lost || (now.mono_ms < run.lease.next_ms && !is_ended) {
            return Ok(());
        }
        match broker.put(Bucket::Leases, bench, &run.lease.value, run.lease.revision)? {
            Some(revision) => run.lease.revision = revision,
            None => match broker.get(Bucket::Leases, bench)? {
                // A renewal whose answer was lost.
                Some(entry) if entry.value == run.lease.value => run.lease.revision = entry.revision,
                _ => {
                    run.lease.is_lost = true;
                    return Ok(());
                }
            },
        }
        (run.lease.renewed_ms, run.lease.next_ms) = (now.mono_ms, now.mono_ms + self.timing.renew_ms());
        if is_ended {
            return Ok(());
        }
        actions.push(Action::Renewed(run.job.id.clone()));
        broker.extend(&run.claim)?;
        let record = broker.get(Bucket::Jobs, &run.job.id)?.and_then(|entry| serde_json::from_slice(&entry.value).ok());
        run.is_cancelled |= record.is_some_and(|record: JobRecord| record.cancelled_by.is_some());
        Ok(())
    }

    /// Says what became of a job, and gives its bench free.
    fn settle(&mut self, broker: &mut dyn Broker, bench: &str, now: Times) -> Result<(), Unavailable> {
        let Some(run) = self.runs.get(bench) else { return Ok(()) };
        let Phase::Ended(came) = &run.phase else { return Ok(()) };
        if run.lease.is_lost {
            // It is another's to settle: it finds in the store what was finished.
            self.runs.remove(bench);
            return Ok(());
        }
        let is_last = run.claim.attempt >= run.job.attempts;
        let after = self.timing.lease_ms / 3;
        let (state, why, failed_trials) = match came {
            CampaignEnd::Done { failed_trials } => (JobState::Done, None, Some(*failed_trials)),
            CampaignEnd::Refused(why) => (JobState::Refused, Some(why.clone()), None),
            CampaignEnd::Failed(_) | CampaignEnd::Stopped | CampaignEnd::HandedBack(_) if run.is_cancelled => {
                (JobState::Cancelled, None, None)
            }
            CampaignEnd::Failed(why) if is_last => (JobState::Dead, Some(why.clone()), None),
            CampaignEnd::Failed(why) | CampaignEnd::HandedBack(why) => (JobState::Waiting, Some(why.clone()), None),
            CampaignEnd::Stopped => (JobState::Waiting, Some("its worker handed it back".to_owned()), None),
        };
        let told = |before: Option<JobRecord>| {
            let before = before.unwrap_or_else(|| JobRecord::waiting(run.job.clone()));
            let ended_ms = state.has_ended().then_some(now.unix_ms);
            Some(JobRecord { state, why: why.clone(), failed_trials, ended_ms, ..before })
        };
        change(broker, Bucket::Jobs, &run.job.id, told)?;
        match came {
            _ if state.has_ended() => broker.settle(&run.claim)?,
            CampaignEnd::Failed(_) => broker.again(&run.claim, after, true)?,
            _ => broker.again(&run.claim, 0, false)?,
        }
        let took = now.mono_ms.saturating_sub(run.began_ms);
        let charged = |before: Option<BenchRecord>| {
            let mut record = before?;
            record.shares.charge(&run.job.user, took);
            Some(record)
        };
        change(broker, Bucket::Benches, bench, charged)?;
        if !state.has_ended() {
            self.not_before_ms.insert(run.job.id.clone(), now.mono_ms + after);
        }
        broker.delete(Bucket::Leases, bench, run.lease.revision)?;
        self.runs.remove(bench);
        self.next_look_ms = 0;
        Ok(())
    }

    /// Says that this worker is there.
    fn announce(&mut self, broker: &mut dyn Broker, now: Times) -> Result<(), Unavailable> {
        if !self.is_announced {
            for bench in self.benches.values() {
                announce_bench(broker, bench)?;
            }
            self.is_announced = true;
        }
        let card = WorkerCard {
            name: self.name.clone(),
            version: self.version.clone(),
            benches: self.benches.keys().cloned().collect(),
            runs: self.runs.iter().map(|(bench, run)| (bench.clone(), run.job.id.clone())).collect(),
            since_ms: *self.since_ms.get_or_insert(now.unix_ms),
        };
        let value = serde_json::to_vec(&card).expect("a card has texts for keys");
        self.presence.revision = match broker.put(Bucket::Workers, &self.name, &value, self.presence.revision)? {
            Some(revision) => revision,
            None => match broker.get(Bucket::Workers, &self.name)? {
                // An answer was lost.
                Some(entry) => entry.revision,
                // It has vanished, and what else the queue had may have, too.
                None => {
                    self.is_announced = false;
                    0
                }
            },
        };
        self.presence.next_ms = now.mono_ms + self.timing.lease_ms / 3;
        Ok(())
    }

    /// Begins what can be begun.
    fn look(&mut self, broker: &mut dyn Broker, now: Times, actions: &mut Vec<Action>) -> Result<(), Unavailable> {
        if self.runs.len() >= self.at_once {
            return Ok(());
        }
        self.not_before_ms.retain(|_, until| now.mono_ms < *until);
        let idle = names(self.benches.values().filter(|bench| !self.runs.contains_key(&bench.name)));
        let unix_s = now.unix_ms.div_euclid(1000);
        let waiting = broker.tickets(Some(&idle))?;
        let mut by_bench: BTreeMap<&str, Vec<&Ticket>> = BTreeMap::new();
        for ticket in &waiting {
            let is_due = i64::try_from(ticket.not_before_s).is_ok_and(|from| from <= unix_s);
            if is_due && !self.not_before_ms.contains_key(&ticket.id) {
                by_bench.entry(&ticket.bench).or_default().push(ticket);
            }
        }
        for (bench, tickets) in by_bench {
            if self.runs.len() >= self.at_once {
                break;
            }
            let Some(bench) = self.benches.get(bench).filter(|bench| bench.limits.is_open(unix_s)).cloned() else {
                continue;
            };
            self.begin(broker, &bench, &tickets, now, actions)?;
        }
        Ok(())
    }

    /// Begins one of these jobs, if the bench can be had.
    fn begin(
        &mut self,
        broker: &mut dyn Broker,
        bench: &Bench,
        tickets: &[&Ticket],
        now: Times,
        actions: &mut Vec<Action>,
    ) -> Result<(), Unavailable> {
        let known = broker.get(Bucket::Benches, &bench.name)?;
        let known = known.and_then(|entry| serde_json::from_slice::<BenchRecord>(&entry.value).ok());
        let known = match known {
            Some(known) => known,
            None => announce_bench(broker, bench)?,
        };
        if known.maintenance.is_some() {
            return Ok(());
        }
        let Some(lease) = self.take_lease(broker, &bench.name, now)? else { return Ok(()) };
        // Greater than all before it, also where the queue has forgotten them.
        let raised = |before: Option<BenchRecord>| {
            let mut record = before.unwrap_or_else(|| of_bench(bench));
            record.fence = (record.fence + 1).max(u64::try_from(now.unix_ms).unwrap_or(0));
            Some(record)
        };
        let fence = change(broker, Bucket::Benches, &bench.name, raised)?.map_or(0, |record| record.fence);
        for ticket in known.shares.order(tickets.iter().copied()) {
            let claim = match broker.claim(ticket)? {
                ClaimResult::Yes(claim) => *claim,
                ClaimResult::Held => {
                    self.not_before_ms.insert(ticket.id.clone(), now.mono_ms + self.timing.lease_ms / 3);
                    continue;
                }
                ClaimResult::Gone => continue,
                ClaimResult::Exhausted(payload) => {
                    bury(broker, ticket, &payload, now)?;
                    continue;
                }
            };
            let job = match accepted(&claim, bench) {
                Ok(job) => job,
                Err((job, why)) => {
                    let refused = |before: Option<JobRecord>| {
                        let before = before.or_else(|| Some(JobRecord::waiting((**job.as_ref()?).clone())))?;
                        // A message may name another's job.
                        if before.job.ticket() != *ticket || before.state.has_ended() {
                            return None;
                        }
                        let (state, ended_ms) = (JobState::Refused, Some(now.unix_ms));
                        Some(JobRecord { state, why: Some(why.clone()), ended_ms, ..before })
                    };
                    change(broker, Bucket::Jobs, &ticket.id, refused)?;
                    broker.settle(&claim)?;
                    continue;
                }
            };
            let (mut is_dropped, attempt) = (false, claim.attempt);
            let begun = |before: Option<JobRecord>| {
                let before = before.unwrap_or_else(|| JobRecord::waiting(job.clone()));
                // What somebody else queued under this name stays what it is.
                if before.job != job {
                    is_dropped = true;
                    return None;
                }
                is_dropped = before.cancelled_by.is_some() || before.state.has_ended();
                match is_dropped {
                    true if before.state.has_ended() => None,
                    true => Some(JobRecord { state: JobState::Cancelled, ended_ms: Some(now.unix_ms), ..before }),
                    false => Some(JobRecord {
                        state: JobState::Running,
                        attempt: before.attempt.max(attempt - 1) + 1,
                        worker: Some(self.name.clone()),
                        fence,
                        began_ms: Some(now.unix_ms),
                        why: None,
                        ..before
                    }),
                }
            };
            change(broker, Bucket::Jobs, &job.id, begun)?;
            if is_dropped {
                broker.settle(&claim)?;
                continue;
            }
            actions.push(Action::Start(Box::new(Start { job: job.clone(), bench: bench.clone(), fence, attempt })));
            let (began_ms, phase) = (now.mono_ms, Phase::Runs);
            let (is_cancelled, stopped_ms, is_killed) = (false, None, false);
            let run = Run { job, claim, lease, began_ms, phase, is_cancelled, stopped_ms, is_killed };
            self.runs.insert(bench.name.clone(), run);
            return Ok(());
        }
        broker.delete(Bucket::Leases, &bench.name, lease.revision)
    }

    /// The bench's lease, if nobody else has it.
    fn take_lease(&self, broker: &mut dyn Broker, bench: &str, now: Times) -> Result<Option<Lease>, Unavailable> {
        let card = LeaseCard { worker: self.name.clone(), since_ms: now.unix_ms };
        let mut value = serde_json::to_vec(&card).expect("a card has texts for keys");
        let revision = match broker.put(Bucket::Leases, bench, &value, 0)? {
            Some(revision) => revision,
            // It may be this worker's: of a step that was broken off.
            None => {
                let Some(entry) = broker.get(Bucket::Leases, bench)? else { return Ok(None) };
                let card: Option<LeaseCard> = serde_json::from_slice(&entry.value).ok();
                if card.is_none_or(|card| card.worker != self.name) {
                    return Ok(None);
                }
                value = entry.value;
                match broker.put(Bucket::Leases, bench, &value, entry.revision)? {
                    Some(revision) => revision,
                    None => return Ok(None),
                }
            }
        };
        let next_ms = now.mono_ms + self.timing.renew_ms();
        Ok(Some(Lease { revision, value, renewed_ms: now.mono_ms, next_ms, is_lost: false }))
    }

    /// The benches that this worker measures on at the moment, and the jobs.
    pub fn runs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.runs.iter().map(|(bench, run)| (bench.as_str(), run.job.id.as_str()))
    }

    /// The benches whose leases it holds, and how long ago each was renewed, milliseconds.
    pub fn leases(&self, mono_ms: u64) -> impl Iterator<Item = (&str, u64)> {
        let held = self.runs.iter().filter(|(_, run)| !run.lease.is_lost);
        held.map(move |(bench, run)| (bench.as_str(), mono_ms.saturating_sub(run.lease.renewed_ms)))
    }

    /// The names of its benches.
    pub fn benches(&self) -> BTreeSet<String> {
        names(self.benches.values())
    }
}

fn of_bench(bench: &Bench) -> BenchRecord {
    BenchRecord { bench: bench.clone(), maintenance: None, fence: 0, shares: Default::default() }
}

fn announce_bench(broker: &mut dyn Broker, bench: &Bench) -> Result<BenchRecord, Unavailable> {
    let told = |before: Option<BenchRecord>| {
        Some(match before {
            Some(before) => BenchRecord { bench: bench.clone(), ..before },
            None => of_bench(bench),
        })
    };
    Ok(change(broker, Bucket::Benches, &bench.name, told)?.unwrap_or_else(|| of_bench(bench)))
}

/// A job that was begun as often as it may be and never settled: its workers died.
fn bury(broker: &mut dyn Broker, ticket: &Ticket, payload: &[u8], now: Times) -> Result<(), Unavailable> {
    // What is not what its place in the queue says is nobody's, and goes without a word.
    if let Some(job) = Job::read(payload).ok().filter(|job| job.ticket() == *ticket) {
        let dead = |before: Option<JobRecord>| {
            let before = before.unwrap_or_else(|| JobRecord::waiting(job.clone()));
            if before.state.has_ended() || before.job != job {
                return None;
            }
            let last = before.why.as_ref().map(|why| format!("; before that: {why}")).unwrap_or_default();
            let why =
                Some(format!("it was begun {} times, and its worker never came to its end{last}", ticket.attempts));
            let ended_ms = Some(now.unix_ms);
            Some(JobRecord { state: JobState::Dead, why, ended_ms, ..before })
        };
        change(broker, Bucket::Jobs, &ticket.id, dead)?;
    }
    broker.remove(ticket)
}

/// The job of a claim, if this bench takes it; else the job, as far as it can be read, and why not.
fn accepted(claim: &Claim, bench: &Bench) -> Result<Job, (Option<Box<Job>>, String)> {
    let job = Job::read(&claim.payload).map_err(|error| (None, error.to_string()))?;
    let why = match () {
        // Who may queue for a user or a bench, the server says by subjects: what is in the message must be the same.
        () if job.ticket() != claim.ticket => "it is not what its place in the queue says; submit it anew".to_owned(),
        () if !bench.limits.takes(&job.user) => {
            format!("{} does not take jobs of {}; its file says whose", bench.name, job.user)
        }
        () => return Ok(job),
    };
    Err((Some(Box::new(job)), why))
}
