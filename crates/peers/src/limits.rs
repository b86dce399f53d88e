//! How much a server lets its clients ask for.

use std::time::Duration;

use linerate_host::traffic::reachability::UnprovenLimit;
use linerate_trial::spec::{Direction, MAX_DATAGRAM, MAX_MESSAGE, MAX_STREAMS, Spec};

use crate::allow::AllowList;
use crate::test_limit::MemoryBudget;

/// How much a server lets its clients ask for.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Tests at the same time.
    pub tests: usize,
    /// Bits per second of all streams of a test together, as asked; `None`: as many as go.
    pub rate: Option<u64>,
    /// Seconds of a test, as asked.
    pub time_s: u64,
    /// Datagrams to clients that cannot prove their address; `None`: none are sent.
    pub unproven: Option<UnprovenLimit>,
    /// Memory of all tests together, of all servers that have a clone of this.
    pub memory: MemoryBudget,
    /// Who is heard.
    pub allow: AllowList,
}

/// Which limit a test exceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exceeded {
    /// The number of streams.
    Streams,
    /// The size of messages, or their memory.
    Size,
    /// The duration.
    Time,
    /// The rate.
    Rate,
}

impl Exceeded {
    /// What the client did.
    pub fn sentence(self) -> &'static str {
        match self {
            Exceeded::Streams => "asked for more than 128 streams",
            Exceeded::Size => "asked for messages of a size that is none",
            Exceeded::Time => "asked for a longer test than is allowed",
            Exceeded::Rate => "asked for a higher rate than is allowed",
        }
    }
}

impl Limits {
    /// Octets that the messages of a test's streams may take in memory: each sender has one of its own.
    const MESSAGES: u64 = 256 << 20;

    /// The longest that a test may take.
    pub fn time(&self) -> Duration {
        Duration::from_secs(self.time_s)
    }

    /// Whether so many streams may have messages of this size.
    pub fn allow_messages(&self, streams: u16, size: u32) -> bool {
        u64::from(streams) * u64::from(size) <= Limits::MESSAGES
    }

    /// Whether a test of streams may be had. `least` is the tool's smallest datagram.
    pub fn check(&self, spec: &Spec, least: u32) -> Result<(), Exceeded> {
        let size = spec.message_octets();
        let sizes = if spec.workload.is_udp() { least..=MAX_DATAGRAM } else { 1..=MAX_MESSAGE };
        if spec.streams > MAX_STREAMS {
            return Err(Exceeded::Streams);
        }
        if !sizes.contains(&size) || !self.allow_messages(spec.streams, size) {
            return Err(Exceeded::Size);
        }
        if spec.expected_time().unwrap_or_default() > self.time() {
            return Err(Exceeded::Time);
        }
        let directions = if spec.direction == Direction::Both { 2.0 } else { 1.0 };
        let asked = spec.rate.bits_per_second(size.into()).map(|bits| bits * f64::from(spec.streams) * directions);
        if self.rate.is_some_and(|most| asked.is_none_or(|asked| asked > most as f64)) {
            return Err(Exceeded::Rate);
        }
        Ok(())
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            tests: 16,
            rate: None,
            time_s: 3600,
            unproven: None,
            memory: MemoryBudget::default(),
            allow: AllowList::default(),
        }
    }
}
