//! What a flow's thread publishes while it runs, and what the sampler makes of it.
//! Knows no sockets.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts of one flow, written by its thread and read by the sampler. Machine words, because small processors
/// have no larger atomics; they wrap, and [`Reader`] counts the wraps by looking often enough.
#[derive(Default)]
pub struct Ledger {
    octets: AtomicUsize,
    messages: AtomicUsize,
    missing: AtomicUsize,
}

impl Ledger {
    /// Publishes the counts so far, over the whole trial.
    #[inline]
    pub fn publish(&self, octets: u64, messages: u64) {
        self.octets.store(octets as usize, Ordering::Relaxed);
        self.messages.store(messages as usize, Ordering::Relaxed);
    }

    /// Publishes how many datagrams are missing now.
    #[inline]
    pub fn publish_missing(&self, missing: u64) {
        self.missing.store(missing as usize, Ordering::Relaxed);
    }
}

/// Full-width counts from a ledger.
#[derive(Clone, Debug, Default)]
pub struct Reader {
    last: [usize; 2],
    /// Octets so far.
    pub octets: u64,
    /// Messages so far.
    pub messages: u64,
    /// Datagrams missing now.
    pub missing: u64,
}

impl Reader {
    /// Catches up with the ledger. Must be called before 2^32 octets pass on a 32-bit machine: every second
    /// serves up to 34 Gbit/s.
    pub fn catch_up(&mut self, ledger: &Ledger) {
        let now = [ledger.octets.load(Ordering::Relaxed), ledger.messages.load(Ordering::Relaxed)];
        self.octets += now[0].wrapping_sub(self.last[0]) as u64;
        self.messages += now[1].wrapping_sub(self.last[1]) as u64;
        self.missing = ledger.missing.load(Ordering::Relaxed) as u64;
        self.last = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wraps_are_counted() {
        let ledger = Ledger::default();
        let mut reader = Reader { last: [usize::MAX - 5, 0], octets: 1000, ..Reader::default() };
        ledger.publish(10, 1);
        reader.catch_up(&ledger);
        assert_eq!((reader.octets, reader.messages), (1016, 1));
    }
}
