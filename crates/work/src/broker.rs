//! What a queue has to be able to do: values that are written only where nobody has written since, some of which vanish by
//! themselves, and tickets that one worker at a time holds.
//! Two do it: a NATS server ([`crate::Nats`]), and a list in this process with virtual time ([`crate::Memory`]).

use std::collections::BTreeSet;
use std::sync::Arc;

use linerate_machine::words;

use crate::job::Ticket;

/// The broker does not do what it was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// It did not answer, or not in time: what was asked may have been done or not.
    #[error("the queue does not answer ({0}); see that its server runs")]
    Silent(String),
    /// It was not done: the server lets this user not publish to this subject.
    #[error("the queue's server does not let this user publish to {0}; docs/teams.md says what who needs")]
    Forbidden(String),
    /// It was not done: the server has no room for it.
    #[error(
        "the queue's server has no room ({0}); give its JetStream more (max_file_store of its configuration, or its disk)"
    )]
    Full(String),
    /// It was not done, for the server's reason.
    #[error("the queue's server refuses that: {0}")]
    Refused(String),
}

words! {
    /// Where values are kept.
    Bucket {
        /// Who measures on a bench; an entry that is not renewed vanishes after the lease's time.
        Leases = "leases",
        /// Workers; the same.
        Workers = "workers",
        /// Benches, for ever.
        Benches = "benches",
        /// Jobs, for as long as the broker keeps what has ended.
        Jobs = "jobs",
    }
}

impl Bucket {
    /// Whether its entries vanish after the lease's time.
    pub const fn vanishes(self) -> bool {
        matches!(self, Bucket::Leases | Bucket::Workers)
    }
}

/// A value, and the revision that a change of it must name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its key.
    pub key: String,
    /// Never 0, and never again the same within a bucket.
    pub revision: u64,
    /// What was written.
    pub value: Vec<u8>,
}

/// A ticket that is held: until it is settled, or is not extended for the lease's time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Which.
    pub ticket: Ticket,
    /// The job, as it was queued.
    pub payload: Vec<u8>,
    /// How often it was claimed, this time counted.
    pub attempt: u32,
    /// How the broker knows the claim.
    pub handle: String,
}

/// What came of claiming a ticket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimResult {
    /// It is held.
    Yes(Box<Claim>),
    /// By another, or not yet to be had again.
    Held,
    /// As often as it may be: it is dead. The job as it was queued.
    Exhausted(Vec<u8>),
    /// There is no such ticket.
    Gone,
}

/// The seam. Each call may fail and have been carried out all the same.
pub trait Broker {
    /// The value of a key.
    fn get(&mut self, bucket: Bucket, key: &str) -> Result<Option<Entry>, Unavailable>;
    /// Writes a value where it has this revision, or is not there (0). The new revision; `None`: somebody else has written.
    fn put(&mut self, bucket: Bucket, key: &str, value: &[u8], expected: u64) -> Result<Option<u64>, Unavailable>;
    /// Takes a value away, if it has this revision.
    fn delete(&mut self, bucket: Bucket, key: &str, expected: u64) -> Result<(), Unavailable>;
    /// A number that is another as soon as somebody has written there.
    fn mark(&mut self, bucket: Bucket) -> Result<u64, Unavailable>;
    /// All values of a bucket.
    fn all(&mut self, bucket: Bucket) -> Result<Vec<Entry>, Unavailable>;

    /// Queues a job, once for an identifier.
    fn queue(&mut self, ticket: &Ticket, payload: &[u8]) -> Result<(), Unavailable>;
    /// The tickets of these benches that are not settled, held ones among them; `None`: of all.
    fn tickets(&mut self, benches: Option<&BTreeSet<String>>) -> Result<Vec<Arc<Ticket>>, Unavailable>;
    /// Holds a ticket.
    fn claim(&mut self, ticket: &Ticket) -> Result<ClaimResult, Unavailable>;
    /// Holds it for longer.
    fn extend(&mut self, claim: &Claim) -> Result<(), Unavailable>;
    /// The job is settled, and its ticket goes.
    fn settle(&mut self, claim: &Claim) -> Result<(), Unavailable>;
    /// The ticket may be had again, after so long; `counts`: the attempt is one of those that it has.
    fn again(&mut self, claim: &Claim, after_ms: u64, counts: bool) -> Result<(), Unavailable>;
    /// Takes a ticket away that nobody needs to hold. Nothing, if there is none.
    fn remove(&mut self, ticket: &Ticket) -> Result<(), Unavailable>;
    /// Takes away what is queued under a name that no ticket has, so that nobody can claim it; the names.
    fn clear(&mut self) -> Result<Vec<String>, Unavailable>;
}
