//! Benches, jobs, and who measures where: a team's queue as pure logic over a [`Broker`].
//! Reads no clock and starts no process: time is an argument, and what is to be started or ended is handed out as an [`Action`].
//!
//! ```text
//!   submit ─→ tickets ─┐                       ┌─→ Start, Stop, Kill ─→ `linerate run`, a process
//!                      ├─ Broker ── Worker ────┤
//!   benches, leases ───┘   (a server's, or     └─← ended
//!                           a list in memory)
//! ```
//!
//! A job is a campaign on a bench, never a trial: order, interleaving and putting back belong to one controller. Its identifier
//! is the campaign's, so that a worker that takes over finds in the store what was finished.
#![forbid(unsafe_code)]

mod bench;
mod broker;
mod fair;
mod hours;
mod job;
mod memory;
#[cfg(feature = "nats")]
mod nats;
mod requests;
mod worker;

pub use bench::{BadBench, Bench, Limits};
pub use broker::{Broker, Bucket, Claim, ClaimResult, Entry, Unavailable};
pub use fair::Shares;
pub use hours::Hours;
pub use job::{BadJob, Job, Priority, Ticket};
pub use memory::Memory;
#[cfg(feature = "nats")]
pub use nats::{Access, EventPublisher, EventSubscription, Nats, QueueError};
pub use requests::{
    BenchRecord, Cancelled, JobRecord, JobState, LeaseCard, Maintenance, Overview, RequestError, Submitted, WorkerCard,
    benches, cancel, jobs, leases, maintain, selected, submit, waiting, workers,
};
pub use worker::{Action, CampaignEnd, Start, Times, Timing, Worker};
