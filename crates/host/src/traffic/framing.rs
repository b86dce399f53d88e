//! What the datagrams of a stream look like: linerate's own, or another tool's.
//! Knows no sockets, and none of the other tools.

use std::sync::Arc;

use linerate_trial::wire::Probe;

/// What the datagrams of a stream look like.
#[derive(Clone)]
pub enum Framing {
    /// As [`linerate_trial::wire`] has it. Handshakes open and end the flow.
    Own,
    /// As another tool has it, which opens and ends the flow by its own means.
    Foreign(Arc<Foreign>),
}

/// Another tool's datagrams.
pub struct Foreign {
    /// What every datagram begins with before number and time are written.
    pub head: Vec<u8>,
    /// Writes number and time of departure.
    pub emit: fn(&Probe, &mut [u8]),
    /// Reads number and time of departure, nanoseconds; `None` where it is no datagram of data.
    pub parse: fn(&[u8]) -> Option<(u64, u64)>,
}

impl Framing {
    /// What every datagram begins with before number and time are written.
    pub fn head(&self) -> &[u8] {
        match self {
            Framing::Own => &[],
            Framing::Foreign(foreign) => &foreign.head,
        }
    }

    /// Writes number and time of departure; the datagram has room for them.
    #[inline]
    pub fn emit(&self, probe: &Probe, octets: &mut [u8]) {
        match self {
            Framing::Own => _ = probe.emit(octets),
            Framing::Foreign(foreign) => (foreign.emit)(probe, octets),
        }
    }

    /// Reads a datagram that came while the trial measured, or did not. Only linerate's own says by itself to which
    /// part it belongs.
    #[inline]
    pub fn parse(&self, octets: &[u8], measured: impl FnOnce() -> bool) -> Option<Probe> {
        match self {
            Framing::Own => Probe::parse(octets),
            Framing::Foreign(foreign) => {
                let (sequence, sent_at_ns) = (foreign.parse)(octets)?;
                Some(Probe { sequence, measured: measured(), sent_at_ns })
            }
        }
    }
}
