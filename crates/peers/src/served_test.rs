//! What a test of another tool's client leaves behind: the material of a record, and what its client said.
//! Knows no protocol; each server fills it in.

use std::net::SocketAddr;

use linerate_host::traffic::reachability::UnprovenLimit;
use linerate_trial::outcome::Outcome;
use linerate_trial::spec::Spec;

use crate::allow::AllowList;
use crate::early_datagrams::LEAST_DATAGRAMS;
use crate::test_limit::MemoryBudget;

/// A test that a server of ours took part in.
#[derive(Clone, Debug)]
pub struct ServedTest {
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
    /// Bytes that the test transferred, as far as is known of one that failed.
    pub bytes: u64,
}

/// What a test of a protocol without an opening transfers at least: its first words may be any program's, such as a port
/// scanner's or a browser's. Of datagrams their number is enough.
const LEAST_BYTES: u64 = 4096;

impl ServedTest {
    /// What the client did instead of a test, where it transferred nothing, or so little that it may be anything.
    pub fn is_no_test(&self) -> Option<String> {
        let (bytes, messages) = match &self.ended {
            // This end's own account.
            Ok(outcomes) => {
                let flows = &outcomes[0].flows;
                (flows.iter().map(|flow| flow.octets_total).sum(), flows.iter().map(|flow| flow.messages_total).sum())
            }
            Err(_) => (self.bytes, 0),
        };
        let has_opening = !matches!(self.tool, "ttcp" | "iperf2") || !self.spec.workload.is_stream();
        // Two of a stream's may be marks of where it begins and ends.
        let is_enough = bytes >= LEAST_BYTES || (self.spec.workload.is_udp() && messages >= LEAST_DATAGRAMS as u64 - 2);
        match &self.ended {
            _ if is_enough || (has_opening && bytes > 0) => None,
            Ok(_) if bytes > 0 => Some(format!("sent {bytes} bytes, which is no test")),
            Ok(_) => Some("transferred nothing".to_owned()),
            Err(sentence) => Some(format!("had no test: {sentence}")),
        }
    }
}

/// Who hears of clients that were refused: where they are, and what they did that is not allowed, as "asked for …".
pub type Refusals = Box<dyn Fn(SocketAddr, &str) + Send + Sync>;

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
