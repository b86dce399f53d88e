//! Identifiers of records and campaigns, and the time they bear.

use std::time::SystemTime;

/// Identifiers in the order of time, also within a millisecond and across a step of the clock.
#[derive(Default)]
pub(crate) struct Ids {
    last_ms: u64,
}

impl Ids {
    /// An identifier, and the time it was made, RFC 3339.
    pub(crate) fn next(&mut self) -> (String, String) {
        let now = now();
        let unix_ms = u64::try_from(now.as_millisecond()).unwrap_or(0);
        self.last_ms = unix_ms.max(self.last_ms + 1);
        let mut random = [0; 10];
        let _ = getrandom::fill(&mut random);
        (linerate_results::id::id(self.last_ms, random), now.to_string())
    }
}

/// The present, by the wall clock.
pub(crate) fn now() -> jiff::Timestamp {
    jiff::Timestamp::try_from(SystemTime::now()).unwrap_or(jiff::Timestamp::UNIX_EPOCH)
}
