//! What a test of another tool's client leaves behind: the material of a record, and what its client said.
//! Knows no protocol; each server fills it in.

use std::net::SocketAddr;

use linerate_trial::outcome::Outcome;
use linerate_trial::spec::Spec;

/// A test that a server of ours took part in.
#[derive(Clone, Debug)]
pub struct Served {
    /// The tool, as endpoints name it: `iperf3`.
    pub tool: &'static str,
    /// The client's version, where it tells.
    pub version: Option<String>,
    /// Where the client's control connection came from.
    pub peer: SocketAddr,
    /// Where it came to.
    pub local: SocketAddr,
    /// The interface that has this address.
    pub interface: Option<String>,
    /// What the client asked for, in linerate's words.
    pub spec: Spec,
    /// What came of it: this end's account and, as far as it told, the client's; or why there is nothing.
    pub ended: Result<Box<[Outcome; 2]>, String>,
}

/// Who hears of clients that were refused: where they are, and what they did that is not allowed, as "asked for …".
pub type Refusals = Box<dyn Fn(SocketAddr, &str) + Send + Sync>;

/// How much a server lets its clients ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Tests at the same time.
    pub tests: usize,
    /// Bits per second of all streams of a test together, as asked; `None`: as many as go.
    pub rate: Option<u64>,
    /// Seconds of a test, as asked.
    pub time_s: u64,
}

impl Limits {
    /// Octets that the messages of a test's streams may take in memory: each sender has one of its own.
    const MESSAGES: u64 = 256 << 20;

    /// Whether so many streams may have messages of this size.
    pub fn allow_messages(&self, streams: u16, size: u32) -> bool {
        u64::from(streams) * u64::from(size) <= Limits::MESSAGES
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { tests: 16, rate: None, time_s: 3600 }
    }
}
