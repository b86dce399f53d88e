//! What client and server do alike with the data sockets of a test.

use std::io::{self, ErrorKind};
use std::thread;
use std::time::{Duration, Instant};

use linerate_host::traffic::{Codec, Early, Framing};
use linerate_machine::sync::Mutex;
use linerate_trial::spec::{Spec, Workload};
use linerate_trial::wire::Probe;
use socket2::Socket;

use super::datagram::{self, BEGINS, ENDS, Numbers};

/// How long the end that opens connections waits for the other to listen: it opens one port after the other.
pub const LISTENING_TIME: Duration = Duration::from_secs(5);
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// How long a sender waits between the two times at which it says that it begins. nuttcp waits 250 ms; its receiver gives
/// up where no data comes within an interval of its reports, which may be as short.
pub const BEGIN_PERIOD: Duration = Duration::from_millis(100);
/// When each of the marks that a stream is over is said, since the end. Their digits count half seconds, which a receiver
/// that missed the first takes off its time. Yet 6.1.2 receives until it has heard a second digit, and fails where two
/// of its reports find no data before that: so the first is said twice, and the second soon. Its time ends with the last
/// that bears the first digit: the second of those follows as soon as a full queue has room again.
const END_TIMES: [(usize, Duration); 6] = [
    (0, Duration::ZERO),
    (0, Duration::from_millis(2)),
    (1, Duration::from_millis(100)),
    (2, Duration::from_millis(1000)),
    (3, Duration::from_millis(1500)),
    (4, Duration::from_millis(2000)),
];

/// What the streams look like.
struct Streams {
    /// Octets of a datagram.
    len: usize,
    /// Whether datagrams bear numbers.
    numbered: bool,
    numbers: Numbers,
    is_bare: bool,
    /// Datagrams that came before the trial.
    early: Mutex<Vec<Vec<u8>>>,
    /// When the last connection was opened: its data follows at once, whenever a thread comes to read it.
    opened: Option<Instant>,
}

impl Codec for Streams {
    fn emit(&self, probe: &Probe, octets: &mut [u8]) {
        if self.numbered {
            datagram::emit(probe, octets);
        }
    }

    /// The time of departure is not told.
    fn parse(&self, octets: &[u8]) -> Option<(u64, u64)> {
        Some((self.numbers.parse(self.len, octets)?, 0))
    }

    fn is_last(&self, octets: &[u8]) -> bool {
        datagram::is_end(octets)
    }

    fn is_first(&self, octets: &[u8]) -> bool {
        datagram::is_begin(octets)
    }

    fn early(&self, _: u16) -> Early {
        let datagrams = std::mem::take(&mut *self.early.lock());
        Early { datagrams, since: self.opened }
    }

    fn is_bare(&self) -> bool {
        self.is_bare
    }
}

/// What the streams look like, opened just now. Datagrams bear numbers where a receiver reports as it goes; `early` are
/// those that came before the trial.
pub fn framing(spec: &Spec, sends: bool, numbered: bool, early: Vec<Vec<u8>>) -> Framing {
    let is_udp = spec.workload == Workload::UdpStream;
    Framing::new(Streams {
        len: spec.message_octets() as usize,
        numbered,
        numbers: Numbers::default(),
        is_bare: is_udp && (sends || !numbered),
        early: Mutex::new(early),
        // A warm-up begins with what is read.
        opened: (!is_udp && spec.warmup.is_zero()).then(Instant::now),
    })
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
            thread::sleep(LOOK_AGAIN.min(time.saturating_sub(over.elapsed())));
        }
        // What is refused here is what was said before.
        if socket.send(ENDS[digit]).is_err() {
            return;
        }
    }
}
