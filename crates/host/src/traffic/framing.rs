//! What the datagrams of a stream look like: linerate's own, or another tool's.
//! Knows no sockets, and none of the other tools.

use std::sync::Arc;
use std::time::Duration;

use linerate_trial::wire::Probe;

/// What the datagrams of a stream look like.
#[derive(Clone)]
pub enum Framing {
    /// As [`linerate_trial::wire`] has it. Handshakes open and end the flow.
    Own,
    /// As another tool has it, which opens and ends the flow by its own means.
    Foreign(Arc<Foreign>),
}

/// Reads number and time of departure of a datagram.
pub type Parse = Box<dyn Fn(&[u8]) -> Option<(u64, u64)> + Send + Sync>;

/// Another tool's datagrams, and how its streams and requests go.
pub struct Foreign {
    /// What every datagram, or request, begins with before number and time are written.
    pub head: Vec<u8>,
    /// Writes number and time of departure.
    pub emit: fn(&Probe, &mut [u8]),
    /// Reads number and time of departure, nanoseconds; `None` where it is no datagram of data.
    pub parse: Parse,
    /// Where a stream says itself that it is over, rather than another connection.
    pub end: Option<StreamEnd>,
    /// Where requests and responses mean something.
    pub exchange: Option<Exchange>,
    /// Datagrams bear nothing, not even a number: those of a stream are counted as they come, whatever their size, up to
    /// the last ([`StreamEnd::is_last`]), which is none of them; requests are answered in their order, up to an empty one.
    /// Who sends says itself that it is over.
    pub bare: bool,
}

/// How a stream of another tool says that it is over. A sender closes its connection; datagrams have this. A receiver
/// counts all up to it, by its own clock, whatever time was asked for.
pub struct StreamEnd {
    /// Writes the head of the last datagram: its number from 1, and the time.
    pub emit_last: fn(u64, u64, &mut [u8]),
    /// Whether this datagram is the last: one of data, or one that says no more than that.
    pub is_last: fn(&[u8]) -> bool,
    /// Whether this datagram says no more than that the stream begins: its time runs from then. `None`: none does.
    pub is_first: Option<fn(&[u8]) -> bool>,
    /// What came on a flow before its thread could take it, as the other end began without asking. Called once a flow.
    pub early: Box<dyn Fn(u16) -> Early + Send + Sync>,
}

/// Datagrams that somebody else took from a flow's socket before its thread began.
#[derive(Default)]
pub struct Early {
    /// In the order in which they came.
    pub datagrams: Vec<Vec<u8>>,
    /// How long ago the first of them came.
    pub since: Duration,
}

/// How another tool's requests and responses are written.
#[derive(Clone, Copy)]
pub struct Exchange {
    /// Writes what differs from one request to the next.
    pub ask: fn(number: u64, request: &mut [u8]),
    /// Writes the response to a request.
    pub answer: fn(request: &[u8], response: &mut [u8]),
}

impl Default for Foreign {
    /// Datagrams with nothing in them.
    fn default() -> Foreign {
        Foreign { head: Vec::new(), emit: |_, _| {}, parse: Box::new(|_| None), end: None, exchange: None, bare: false }
    }
}

impl Default for StreamEnd {
    /// An end that nothing but the protocol's own means say.
    fn default() -> StreamEnd {
        StreamEnd { emit_last: |_, _, _| {}, is_last: |_| false, is_first: None, early: Box::new(|_| Early::default()) }
    }
}

impl Framing {
    /// What every datagram begins with before number and time are written.
    pub fn head(&self) -> &[u8] {
        match self {
            Framing::Own => &[],
            Framing::Foreign(foreign) => &foreign.head,
        }
    }

    /// How its streams say that they are over, where they do so themselves and are another tool's.
    pub fn end(&self) -> Option<&StreamEnd> {
        match self {
            Framing::Own => None,
            Framing::Foreign(foreign) => foreign.end.as_ref(),
        }
    }

    /// How requests and responses are written, where they mean something.
    pub fn exchange(&self) -> Option<Exchange> {
        match self {
            Framing::Own => None,
            Framing::Foreign(foreign) => foreign.exchange,
        }
    }

    /// Whether datagrams bear nothing; see [`Foreign::bare`].
    pub fn is_bare(&self) -> bool {
        matches!(self, Framing::Foreign(foreign) if foreign.bare)
    }

    /// Writes number and time of departure; the datagram has room for them.
    #[inline(always)]
    pub fn emit(&self, probe: &Probe, octets: &mut [u8]) {
        match self {
            Framing::Own => _ = probe.emit(octets),
            Framing::Foreign(foreign) => (foreign.emit)(probe, octets),
        }
    }
}
