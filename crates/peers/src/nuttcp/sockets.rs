//! What client and server do alike with the data sockets of a test.

use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use linerate_host::traffic::{Early, Foreign, Framing, StreamEnd};
use linerate_trial::spec::{Spec, Workload};
use socket2::Socket;

use super::datagram::{self, BEGINS, ENDS, Numbers};

/// How long whoever opens connections waits for the other to listen: it opens one port after the other.
pub const LISTENING_TIME: Duration = Duration::from_secs(5);
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// How long a sender waits between the two times at which it says that it begins. nuttcp waits 250 ms; its receiver gives
/// up where no data comes within an interval of its reports, which may be as short.
pub const BEGIN_PERIOD: Duration = Duration::from_millis(100);
/// When each of the marks that a stream is over is said, since the end. Their digits count half seconds, which a receiver
/// that missed the first takes off its time. Yet 6.1.2 receives until it has heard a second digit, and fails where two
/// of its reports find no data before that: so the first is said twice, and the second soon.
const END_TIMES: [(usize, Duration); 6] = [
    (0, Duration::ZERO),
    (0, Duration::from_millis(30)),
    (1, Duration::from_millis(100)),
    (2, Duration::from_millis(1000)),
    (3, Duration::from_millis(1500)),
    (4, Duration::from_millis(2000)),
];

/// What the streams look like, opened just now. Datagrams bear numbers where a receiver reports as it goes; `early` are
/// those that came before the trial.
pub fn framing(spec: &Spec, sends: bool, numbered: bool, early: Vec<Vec<u8>>) -> Framing {
    let len = spec.message_octets() as usize;
    let numbers = Numbers::default();
    let is_udp = spec.workload == Workload::UdpStream;
    // Data follows the last connection at once, whenever a thread comes to read it. A warm-up begins with what is read.
    let (opened, counts) = (Instant::now(), !is_udp && spec.warmup.is_zero());
    let since = move || if counts { opened.elapsed() } else { Duration::ZERO };
    let early = Mutex::new(early);
    let taken = move || std::mem::take(&mut *early.lock().unwrap_or_else(|poisoned| poisoned.into_inner()));
    Framing::Foreign(Arc::new(Foreign {
        emit: if numbered { datagram::emit } else { |_, _| {} },
        // The time of departure is not told.
        parse: Box::new(move |octets| Some((numbers.parse(len, octets)?, 0))),
        end: Some(StreamEnd {
            is_last: datagram::is_end,
            is_first: Some(datagram::is_begin),
            early: Box::new(move |_| Early { datagrams: taken(), since: since() }),
            ..StreamEnd::default()
        }),
        bare: is_udp && (sends || !numbered),
        ..Foreign::default()
    }))
}

/// Says that a stream of datagrams begins, to a receiver that may not be there yet. The second time, which its clock starts
/// with, is for [`begin`].
pub fn announce(socket: &Socket, stopped: &dyn Fn() -> bool) -> io::Result<()> {
    let until = Instant::now() + LISTENING_TIME;
    let mut quiet_since = None;
    while quiet_since.is_none_or(|since: Instant| since.elapsed() < BEGIN_PERIOD) {
        if stopped() {
            return Err(ErrorKind::Interrupted.into());
        }
        // What is refused comes back as an error soon after.
        if quiet_since.is_none() || socket.take_error()?.is_some() {
            if Instant::now() > until {
                return Err(ErrorKind::ConnectionRefused.into());
            }
            quiet_since = socket.send(BEGINS[0]).is_ok().then(Instant::now);
        }
        thread::sleep(LOOK_AGAIN);
    }
    Ok(())
}

/// Says that data comes now.
pub fn begin(socket: &Socket) {
    let _ = socket.send(BEGINS[1]);
}

/// Says that a stream is over, and again, until the other end has heard it, has gone, or has been told often enough.
pub fn end(socket: &Socket, is_heard: &mut dyn FnMut() -> bool) {
    let over = Instant::now();
    for (digit, time) in END_TIMES {
        while over.elapsed() < time {
            if is_heard() {
                return;
            }
            thread::sleep(LOOK_AGAIN);
        }
        // What is refused here is what was said before.
        if socket.send(ENDS[digit]).is_err() {
            return;
        }
    }
}
