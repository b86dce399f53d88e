//! Takes what comes on a UDP socket before a trial has threads for it: some clients send their data without asking.
//! Knows no protocol.

use std::io::{self, ErrorKind};
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use linerate_host::traffic::Early;
use socket2::Socket;

use crate::door::{LOOK_FOR_END, is_passing};

/// How long a sender has for these.
const STREAM_TIME: Duration = Duration::from_secs(10);
/// Datagrams that are waited through for it.
const MOST_FIRST: usize = 20_000;
/// How long a look takes that finds nothing.
const LOOK: Duration = Duration::from_millis(1);
/// The most that is kept of one sender; a kernel's buffer holds less.
const MOST_OCTETS: usize = 8 << 20;
/// The most that is kept of all of them: senders can be forged.
const MOST_IN_ALL: usize = 64 << 20;
/// What a datagram takes in memory beside its own octets.
const OVERHEAD: usize = 64;
static KEPT: AtomicUsize = AtomicUsize::new(0);
/// Where somebody else's datagrams could be cut.
const MOST_LEN: usize = 65_536;
const STACK: usize = 256 << 10;

/// Datagrams that a stream has at the least. Fewer may come from anywhere: a forged address, or some other protocol's
/// question and its repetitions.
pub const LEAST_DATAGRAMS: usize = 5;
/// How long they come, or how many bytes they are, where the stream has no end yet: a burst that nothing follows is none.
const LEAST_TIME: Duration = Duration::from_millis(250);
const LEAST_BYTES: usize = 64 << 10;

/// What came of a stream of datagrams that may be one.
pub struct Beginning {
    datagrams: Vec<Vec<u8>>,
    bytes: usize,
    since: Instant,
}

impl Beginning {
    /// The first datagrams, which came just now.
    pub fn new(datagrams: Vec<Vec<u8>>) -> Beginning {
        let bytes = datagrams.iter().map(Vec::len).sum();
        Beginning { datagrams, bytes, since: Instant::now() }
    }

    /// Keeps what comes, of one that is a test without a stream.
    pub fn keep(self, socket: &Socket) -> io::Result<Keeper> {
        Keeper::start(socket, self.datagrams, self.since)
    }

    /// Waits until there is no doubt that it is a stream, and then keeps what comes. `is_end` knows its last datagram.
    pub fn await_stream(
        mut self,
        socket: &Socket,
        mut is_end: impl FnMut(&[u8]) -> bool,
        stopped: &dyn Fn() -> bool,
    ) -> io::Result<Keeper> {
        let until = self.since + STREAM_TIME;
        let udp: UdpSocket = socket.try_clone()?.into();
        udp.set_read_timeout(Some(LOOK_FOR_END))?;
        let mut buffer = vec![0; MOST_LEN];
        let mut has_ended = self.datagrams.iter().any(|octets| is_end(octets));
        let mut last = self.since;
        loop {
            let is_long = last - self.since >= LEAST_TIME || self.bytes >= LEAST_BYTES;
            if self.datagrams.len() >= LEAST_DATAGRAMS && (is_long || has_ended) {
                return self.keep(socket);
            }
            if stopped() || Instant::now() > until || self.datagrams.len() > MOST_FIRST {
                return Err(ErrorKind::TimedOut.into());
            }
            match udp.recv(&mut buffer) {
                Ok(len) => {
                    has_ended |= is_end(&buffer[..len]);
                    self.datagrams.push(buffer[..len].to_vec());
                    self.bytes += len;
                    last = Instant::now();
                }
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Somebody who empties a socket until it is taken over.
pub struct Keeper {
    over: Arc<AtomicBool>,
    since: Instant,
    thread: Mutex<Option<JoinHandle<Vec<Vec<u8>>>>>,
}

impl Keeper {
    /// Empties a connected socket; `known` are its first datagrams, which others have taken from it, the first of them at
    /// `since`.
    pub fn start(socket: &Socket, known: Vec<Vec<u8>>, since: Instant) -> io::Result<Keeper> {
        let socket: UdpSocket = socket.try_clone()?.into();
        socket.set_read_timeout(Some(LOOK))?;
        let over = Arc::new(AtomicBool::new(false));
        let seen = over.clone();
        let work = move || keep(&socket, known, &seen);
        let thread = thread::Builder::new().name("keeper".to_owned()).stack_size(STACK).spawn(work)?;
        Ok(Keeper { over, since, thread: Mutex::new(Some(thread)) })
    }

    /// What came; whoever asks takes the socket over.
    pub fn take(&self) -> Early {
        self.over.store(true, Ordering::Relaxed);
        let thread = self.thread.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        let datagrams = thread.and_then(|thread| thread.join().ok()).unwrap_or_default();
        Early { datagrams, since: self.since.elapsed() }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

fn keep(socket: &UdpSocket, known: Vec<Vec<u8>>, over: &AtomicBool) -> Vec<Vec<u8>> {
    let mut kept = Vec::new();
    let mut octets = 0;
    let mut buffer = vec![0; MOST_LEN];
    let mut keep = |datagram: Vec<u8>| {
        let len = datagram.len() + OVERHEAD;
        octets += len;
        kept.push(datagram);
        let in_all = KEPT.fetch_add(len, Ordering::Relaxed) + len;
        octets < MOST_OCTETS && in_all < MOST_IN_ALL
    };
    let mut has_room = true;
    for datagram in known {
        has_room = keep(datagram);
    }
    while !over.load(Ordering::Relaxed) {
        // Whatever the error says, the trial will say it again.
        match has_room.then(|| socket.recv(&mut buffer)) {
            Some(Ok(len)) => has_room = keep(buffer[..len].to_vec()),
            Some(Err(_)) => {}
            None => thread::sleep(LOOK),
        }
    }
    // Whoever takes them passes them on soon.
    KEPT.fetch_sub(octets, Ordering::Relaxed);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_between_two_readers() {
        let near = UdpSocket::bind("127.0.0.1:0").unwrap();
        let far = UdpSocket::bind("127.0.0.1:0").unwrap();
        near.connect(far.local_addr().unwrap()).unwrap();
        far.connect(near.local_addr().unwrap()).unwrap();
        let socket: Socket = near.into();
        let keeper = Keeper::start(&socket, vec![vec![0]], Instant::now()).unwrap();
        for number in 1..50 {
            far.send(&[number]).unwrap();
        }
        thread::sleep(Duration::from_millis(20));
        let mut heard: Vec<u8> = keeper.take().datagrams.concat();
        far.send(&[50]).unwrap();
        let socket: UdpSocket = socket.into();
        socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        let mut octet = [0];
        while socket.recv(&mut octet).is_ok() {
            heard.push(octet[0]);
        }
        assert_eq!(heard, (0..=50).collect::<Vec<u8>>());
        assert!(keeper.take().datagrams.is_empty());
    }
}
