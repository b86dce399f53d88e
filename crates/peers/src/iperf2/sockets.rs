//! What client and server do alike with the sockets of a test.
//! Knows neither of the two.

use std::io;
use std::net::{TcpStream, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use linerate_host::traffic::reachability::is_refusal;
use linerate_host::traffic::{Early, Foreign, Framing, StreamEnd};
use linerate_trial::spec::{Spec, Workload};
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
    let early = Box::new(early);
    // Whoever has a head to send has sent it, whole, in a first datagram.
    let is_client = !head.is_empty();
    let foreign = match numbers {
        Numbers::Long => Foreign {
            head,
            emit: if is_client { datagram::emit_after_first } else { datagram::emit },
            parse: Box::new(|octets| datagram::parse(Numbers::Long, octets)),
            end: Some(StreamEnd {
                emit_last: if is_client { datagram::emit_last_after_first } else { datagram::emit_last },
                is_last: |octets| datagram::is_last(Numbers::Long, octets),
                is_first: None,
                early,
            }),
            exchange: (spec.workload == Workload::TcpRr).then_some(bounce_back::EXCHANGE),
            bare: false,
        },
        Numbers::Short => Foreign {
            head,
            emit: datagram::emit,
            parse: Box::new(|octets| datagram::parse(Numbers::Short, octets)),
            end: Some(StreamEnd {
                emit_last: datagram::emit_last,
                is_last: |octets| datagram::is_last(Numbers::Short, octets),
                is_first: None,
                early,
            }),
            exchange: None,
            bare: false,
        },
    };
    Framing::Foreign(Arc::new(foreign))
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
