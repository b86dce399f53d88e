//! What client and server do alike with the sockets of a test.

use std::io;
use std::net::{TcpStream, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use linerate_host::traffic::reachability::is_refusal;
use linerate_host::traffic::{Early, Foreign, Framing, StreamEnd};
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

/// What the streams look like: `head` is what every datagram, or request, that this end sends begins with, `early` what
/// came on a flow before the trial began.
pub fn framing(
    spec: &Spec,
    numbers: Numbers,
    head: Vec<u8>,
    early: impl Fn(u16) -> Early + Send + Sync + 'static,
) -> Framing {
    let (parse, is_last): (fn(&[u8]) -> Option<(u64, u64)>, fn(&[u8]) -> bool) = match numbers {
        Numbers::Long => {
            (|octets| datagram::parse(Numbers::Long, octets), |octets| datagram::is_last(Numbers::Long, octets))
        }
        Numbers::Short => {
            (|octets| datagram::parse(Numbers::Short, octets), |octets| datagram::is_last(Numbers::Short, octets))
        }
    };
    // A client, which has a head to send, has sent it, whole, in a first datagram.
    let (emit, emit_last): (fn(&Probe, &mut [u8]), fn(u64, u64, &mut [u8])) = if head.is_empty() {
        (datagram::emit, datagram::emit_last)
    } else {
        (datagram::emit_after_first, datagram::emit_last_after_first)
    };
    Framing::Foreign(Arc::new(Foreign {
        head,
        emit,
        parse: Box::new(parse),
        end: Some(StreamEnd { emit_last, is_last, is_first: None, early: Box::new(early) }),
        exchange: (spec.workload == Workload::TcpRr).then_some(bounce_back::EXCHANGE),
        bare: false,
    }))
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
