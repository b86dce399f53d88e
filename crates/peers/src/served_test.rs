//! What a test of another tool's client leaves behind: the material of a record.

use std::net::SocketAddr;

use linerate_trial::outcome::Outcome;
use linerate_trial::spec::Spec;
use linerate_trial::tool::Tool;

use crate::early_datagrams::LEAST_DATAGRAMS;
use crate::error::Error;

/// A test that a server of ours took part in.
#[derive(Debug)]
pub struct ServedTest {
    /// The client's tool.
    pub tool: Tool,
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
    pub ended: Result<Box<[Outcome; 2]>, Error>,
    /// Bytes that the test transferred, as far as is known of one that failed.
    pub bytes: u64,
    /// Which part of its client's test it is, where that has two, one after the other.
    pub half: Option<TestPart>,
}

/// A part of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestPart {
    /// The test goes on.
    First,
    /// It is over.
    Second,
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
        let answers_first = self.tool.row().answers_first || !self.spec.workload.is_stream();
        // Of TWAMP Light any datagram is a request.
        let has_opening = answers_first && self.tool != Tool::Twamp;
        // Two of a stream's may be marks of where it begins and ends.
        let is_enough = bytes >= LEAST_BYTES || (self.spec.workload.is_udp() && messages >= LEAST_DATAGRAMS as u64 - 2);
        match &self.ended {
            _ if is_enough || (has_opening && bytes > 0) => None,
            Ok(_) if bytes > 0 => Some(format!("sent {bytes} bytes, which is no test")),
            Ok(_) => Some("transferred nothing".to_owned()),
            Err(error) => Some(format!("had no test: {error}")),
        }
    }
}
