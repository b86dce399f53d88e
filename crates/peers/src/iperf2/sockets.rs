//! What client and server do alike with the sockets of a test.

use std::io;
use std::net::{TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use linerate_host::traffic::reachability::is_refusal;
use linerate_host::traffic::{Codec, Early, Exchange, Framing};
use linerate_trial::spec::{Spec, Workload};
use linerate_trial::wire::Probe;
use socket2::Socket;

use super::bounce_back;
use super::datagram::{self, Numbers};
use super::report::Report;

/// How often the last datagram is sent until it is answered, and how long.
const LAST_PERIOD: Duration = Duration::from_millis(10);
const LAST_PATIENCE: Duration = Duration::from_secs(2);
/// The most octets of a datagram that says so again: perhaps nobody is there.
pub const MOST_END_MARK: usize = 128;

/// What the streams look like, with numbers of 64 bits or of 32.
struct Streams<const LONG: bool, E> {
    head: Vec<u8>,
    /// The number of the first datagram that the trial sends, from 0.
    first: u64,
    early: E,
    exchange: Option<Exchange>,
}

impl<const LONG: bool, E> Streams<LONG, E> {
    const NUMBERS: Numbers = if LONG { Numbers::Long } else { Numbers::Short };
}

impl<const LONG: bool, E: Fn(u16) -> Early + Send + Sync + 'static> Codec for Streams<LONG, E> {
    fn head(&self) -> &[u8] {
        &self.head
    }

    fn emit(&self, probe: &Probe, octets: &mut [u8]) {
        datagram::emit(&Probe { sequence: probe.sequence.wrapping_add(self.first), ..*probe }, octets);
    }

    fn parse(&self, octets: &[u8]) -> Option<(u64, u64)> {
        datagram::parse(Self::NUMBERS, octets)
    }

    fn emit_last(&self, number: u64, sent_at_ns: u64, octets: &mut [u8]) {
        datagram::emit_last(number + self.first, sent_at_ns, octets);
    }

    fn is_last(&self, octets: &[u8]) -> bool {
        datagram::is_last(Self::NUMBERS, octets)
    }

    fn early(&self, flow: u16) -> Early {
        (self.early)(flow)
    }

    fn exchange(&self) -> Option<Exchange> {
        self.exchange
    }
}

/// What the streams look like: `head` is what every datagram, or request, that this end sends begins with, `early` what
/// came on a flow before the trial began.
pub fn framing(
    spec: &Spec,
    numbers: Numbers,
    head: Vec<u8>,
    early: impl Fn(u16) -> Early + Send + Sync + 'static,
) -> Framing {
    // A client, which has a head to send, has sent it, whole, in a first datagram.
    let first = u64::from(!head.is_empty());
    let exchange = (spec.workload == Workload::TcpRr).then_some(bounce_back::EXCHANGE);
    match numbers {
        Numbers::Long => Framing::new(Streams::<true, _> { head, first, early, exchange }),
        Numbers::Short => Framing::new(Streams::<false, _> { head, first, early, exchange }),
    }
}

/// A copy of a socket that reads and writes octets.
pub fn stream(socket: &Socket) -> io::Result<TcpStream> {
    Ok(socket.try_clone()?.into())
}

/// Says again that a stream is over, `number` being the last that was said, until the receiver reports, or refuses. Returns
/// its report, and how often it was said again.
pub fn await_report(socket: &Socket, head: &[u8], size: usize, number: u64) -> (Option<Report>, u64) {
    let Ok(udp) = socket.try_clone().map(UdpSocket::from) else { return (None, 0) };
    let _ = udp.set_read_timeout(Some(LAST_PERIOD));
    let until = Instant::now() + LAST_PATIENCE;
    let size = size.min(MOST_END_MARK);
    let mut last = vec![0; size];
    last[..head.len().min(size)].copy_from_slice(&head[..head.len().min(size)]);
    let (mut again, mut sent_at, mut answer) = (0, Instant::now(), [0; 2048]);
    while Instant::now() < until {
        if let Ok(len) = udp.recv(&mut answer)
            && let Some(report) = Report::parse(&answer[..len])
        {
            return (Some(report), again);
        }
        if sent_at.elapsed() >= LAST_PERIOD {
            again += 1;
            datagram::emit_last(number + again, 0, &mut last);
            if udp.send(&last).is_err_and(|error| is_refusal(&error)) {
                break;
            }
            sent_at = Instant::now();
        }
    }
    (None, again)
}
