//! What the datagrams of a stream look like: linerate's own, or another tool's.
//! Knows no sockets, and none of the other tools.

use std::sync::Arc;
use std::time::Instant;

use linerate_trial::api::{ReceiverApi, SenderApi, Timestamps};
use linerate_trial::outcome::FlowOutcome;
use linerate_trial::wire::Probe;

use super::api::ApiSelection;
use super::task::Task;
use super::{TrafficError, udp_stream};

/// What a protocol does to the datagrams and requests of a flow. The loops that move datagrams are made for each codec, so
/// that none of them asks for each datagram whose it is.
pub trait Codec: Send + Sync + 'static {
    /// Whether it is linerate's own: handshakes open and end the flow.
    fn is_own(&self) -> bool {
        false
    }

    /// What every datagram, or request, begins with before number and time are written.
    fn head(&self) -> &[u8] {
        &[]
    }

    /// Writes number and time of departure; the datagram has room for them.
    fn emit(&self, _probe: &Probe, _octets: &mut [u8]) {}

    /// Reads number and time of departure, nanoseconds; `None` where it is no datagram of data.
    fn parse(&self, _octets: &[u8]) -> Option<(u64, u64)> {
        None
    }

    /// Whether a stream says itself that it is over, rather than another connection. A sender closes its connection;
    /// datagrams have marks. A receiver counts all up to the end, by its own clock, whatever time was asked for.
    fn ends_itself(&self) -> bool {
        !self.is_own()
    }

    /// Writes the head of the last datagram: its number from 1, and the time.
    fn emit_last(&self, _number: u64, _sent_at_ns: u64, _octets: &mut [u8]) {}

    /// Whether this datagram is the last: one of data, or one that says no more than that.
    fn is_last(&self, _octets: &[u8]) -> bool {
        false
    }

    /// Whether this datagram says no more than that the stream begins: its time runs from then.
    fn is_first(&self, _octets: &[u8]) -> bool {
        false
    }

    /// What came on a flow before its thread could take it, as the other end began without asking. Called once a flow.
    fn early(&self, _flow: u16) -> Early {
        Early::default()
    }

    /// How requests and responses are written, where they mean something.
    fn exchange(&self) -> Option<Exchange> {
        None
    }

    /// Datagrams bear nothing, not even a number: those of a stream are counted as they come, whatever their size, up to
    /// the last ([`Codec::is_last`]), which is none of them; requests are answered in their order, up to an empty one.
    /// Who sends says itself that it is over.
    fn is_bare(&self) -> bool {
        false
    }
}

/// linerate's own datagrams, as [`linerate_trial::wire`] has them.
pub struct LinerateFraming;

impl Codec for LinerateFraming {
    #[inline(always)]
    fn is_own(&self) -> bool {
        true
    }

    #[inline(always)]
    fn emit(&self, probe: &Probe, octets: &mut [u8]) {
        let _ = probe.emit(octets);
    }
}

/// A codec, and the loops that were made for it.
pub trait Flows: Codec {
    /// Sends a stream of datagrams.
    fn send(&self, task: Task, api: SenderApi, asked: ApiSelection) -> Result<FlowOutcome, TrafficError>;
    /// Receives one.
    fn receive(&self, task: Task, api: ReceiverApi, timestamps: Timestamps) -> Result<FlowOutcome, TrafficError>;
}

impl<C: Codec> Flows for C {
    fn send(&self, task: Task, api: SenderApi, asked: ApiSelection) -> Result<FlowOutcome, TrafficError> {
        udp_stream::send(task, self, api, asked)
    }

    fn receive(&self, task: Task, api: ReceiverApi, timestamps: Timestamps) -> Result<FlowOutcome, TrafficError> {
        udp_stream::receive(task, self, api, timestamps)
    }
}

/// The codec of a trial.
#[derive(Clone)]
pub struct Framing(Arc<dyn Flows>);

impl Framing {
    /// Of another tool, which opens and ends flows by its own means; or of linerate.
    pub fn new(codec: impl Codec) -> Framing {
        Framing(Arc::new(codec))
    }
}

impl std::ops::Deref for Framing {
    type Target = dyn Flows;

    fn deref(&self) -> &(dyn Flows + 'static) {
        &*self.0
    }
}

/// Datagrams that somebody else took from a flow's socket before its thread began.
#[derive(Default)]
pub struct Early {
    /// In the order in which they came.
    pub datagrams: Vec<Vec<u8>>,
    /// When the first of them came, where that is known.
    pub since: Option<Instant>,
}

/// How another tool's requests and responses are written.
#[derive(Clone, Copy)]
pub struct Exchange {
    /// Writes what differs from one request to the next.
    pub ask: fn(number: u64, request: &mut [u8]),
    /// Writes the response to a request.
    pub answer: fn(request: &[u8], response: &mut [u8]),
    /// Which request a response over UDP answers: the low bits of its number, and which those are. `None`: it is no response.
    pub answered: fn(response: &[u8]) -> Option<(u64, u64)>,
}
