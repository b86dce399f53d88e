//! Slots for answers that take long: they get some of the threads and never all, so that what reads the store quickly always has one.
//! Knows how long an answer may take, and no view.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// What an answer takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cost {
    /// Milliseconds: a few rows of the store, or what the server knows itself.
    Quick,
    /// Seconds of a CPU: whole records, and the trials of a plan.
    Heavy,
    /// As long as a machine takes that may never answer.
    Reach,
}

/// The most requests of each kind at once; together fewer than there are threads.
pub(super) const EACH: usize = 2;
/// How long an answer waits for a slot.
const PATIENCE: Duration = Duration::from_secs(5);

/// The slots that are free.
pub(super) struct WorkSlots {
    heavy: Arc<Semaphore>,
    reach: Arc<Semaphore>,
}

/// Held for as long as the answer is made.
pub(super) struct WorkSlot(
    #[expect(dead_code, reason = "it is given back when this is dropped")] Option<OwnedSemaphorePermit>,
);

impl WorkSlots {
    pub(super) fn new() -> WorkSlots {
        WorkSlots { heavy: Arc::new(Semaphore::new(EACH)), reach: Arc::new(Semaphore::new(EACH)) }
    }

    /// Waits for a slot; the error is a sentence that says to ask again.
    pub(super) async fn next(&self, cost: Cost) -> Result<WorkSlot, &'static str> {
        let (slots, busy) = match cost {
            Cost::Quick => return Ok(WorkSlot(None)),
            Cost::Heavy => (&self.heavy, "Other large answers are being made; ask again in a moment."),
            Cost::Reach => {
                (&self.reach, "Other machines are being reached, which takes its time; ask again in a moment.")
            }
        };
        match timeout(PATIENCE, Arc::clone(slots).acquire_owned()).await {
            Ok(Ok(permit)) => Ok(WorkSlot(Some(permit))),
            _ => Err(busy),
        }
    }
}

/// When to ask again, seconds.
pub(super) const RETRY_AFTER: &str = "5";
