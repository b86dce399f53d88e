//! Takes what comes on a UDP socket before a trial has threads for it: some clients send their data without asking.
//! Knows no protocol.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use linerate_host::traffic::Early;
use linerate_machine::sync::Mutex;
use socket2::Socket;

use crate::counters_before::{CountersBefore, RecentCounters};
use crate::listener::Datagram;

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
/// How long they come, how many they are or their bytes, where the stream has no end yet: a burst that nothing follows is
/// none.
const LEAST_TIME: Duration = Duration::from_millis(250);
const LEAST_WITHOUT_END: usize = 1000;
const LEAST_BYTES: usize = 64 << 10;
/// How long a sender has for them.
const STREAM_TIME: Duration = Duration::from_secs(10);
/// Senders of which more is awaited, and what is kept of them together. Of more, those give way that were silent longest.
const MOST_PENDING: usize = 4096;
const MOST_PENDING_OCTETS: usize = 16 << 20;

/// Where a protocol's streams of datagrams begin and end, if what comes first is data.
pub trait StreamMarks: Sync {
    /// Whether a stream may begin with this datagram.
    fn begins(&self, _octets: &[u8]) -> bool {
        false
    }
    /// Whether this one is the last of the stream that began with those.
    fn ends(&self, _stream: &[Vec<u8>], _octets: &[u8]) -> bool {
        false
    }
    /// Whether these are of a stream, beside how many they are.
    fn is_stream(&self, _datagrams: &[Vec<u8>]) -> bool {
        false
    }
}

/// A stream of datagrams that has begun.
pub struct StreamStart {
    /// All that came of it.
    pub datagrams: Vec<Vec<u8>>,
    /// When the first of them came.
    pub since: Instant,
    /// The counters at that time, where more than that one came before anybody knew that it is a stream.
    pub before: Option<CountersBefore>,
}

impl StreamStart {
    /// One that is its first datagram, which came just now.
    pub fn of(octets: Vec<u8>) -> StreamStart {
        StreamStart { datagrams: vec![octets], since: Instant::now(), before: None }
    }

    /// Takes what waits of its sender, and of what came before that had a socket, which joins those that wait.
    pub fn collect(&mut self, peer: SocketAddr, waiting: &mut VecDeque<Datagram>, before: Vec<Datagram>) {
        waiting.extend(before);
        let (own, others): (Vec<_>, Vec<_>) = waiting.drain(..).partition(|(from, _)| *from == peer);
        waiting.extend(others);
        self.datagrams.extend(own.into_iter().map(|(_, octets)| octets));
    }
}

/// Datagrams that may be the first of a stream, by sender, until there is no doubt that it is one. A sender that may be
/// forged so takes neither a socket nor a thread.
pub struct PendingStreams<'a> {
    marks: &'a dyn StreamMarks,
    senders: HashMap<SocketAddr, Pending>,
    octets: usize,
    counters: RecentCounters,
}

struct Pending {
    beginning: StreamStart,
    octets: usize,
    last: Instant,
    has_ended: bool,
}

impl<'a> PendingStreams<'a> {
    /// None yet.
    pub fn new(marks: &'a dyn StreamMarks) -> PendingStreams<'a> {
        PendingStreams { marks, senders: HashMap::new(), octets: 0, counters: RecentCounters::default() }
    }

    /// Hears a datagram that came just now, and returns the stream if it is one with this.
    pub fn hear(&mut self, peer: SocketAddr, octets: Vec<u8>) -> Option<StreamStart> {
        let now = Instant::now();
        self.make_room();
        if self.senders.get(&peer).is_some_and(|pending| now - pending.beginning.since > STREAM_TIME) {
            self.forget(peer);
        }
        if !self.senders.contains_key(&peer) && !self.marks.begins(&octets) {
            return None;
        }
        let counters = &mut self.counters;
        let pending = self.senders.entry(peer).or_insert_with(|| Pending {
            beginning: StreamStart { datagrams: Vec::new(), since: now, before: counters.before(peer) },
            octets: 0,
            last: now,
            has_ended: false,
        });
        let datagrams = &mut pending.beginning.datagrams;
        pending.has_ended |= !datagrams.is_empty() && self.marks.ends(datagrams, &octets);
        pending.octets += octets.len();
        pending.last = now;
        self.octets += octets.len() + OVERHEAD;
        datagrams.push(octets);
        let is_much = pending.octets >= LEAST_BYTES || datagrams.len() >= LEAST_WITHOUT_END;
        let is_long = is_much || now - pending.beginning.since >= LEAST_TIME;
        if datagrams.len() < LEAST_DATAGRAMS || !(is_long || pending.has_ended) {
            return None;
        }
        let is_stream = self.marks.is_stream(datagrams);
        if !is_stream && !is_much {
            return None;
        }
        self.forget(peer).filter(|_| is_stream)
    }

    /// Whether more is awaited of this sender.
    pub fn knows(&self, peer: SocketAddr) -> bool {
        self.senders.contains_key(&peer)
    }

    fn forget(&mut self, peer: SocketAddr) -> Option<StreamStart> {
        let pending = self.senders.remove(&peer)?;
        self.octets -= pending.kept();
        Some(pending.beginning)
    }

    /// The half of the senders that was silent longest gives way to others: all of them are looked at so seldom that it
    /// costs nothing.
    fn make_room(&mut self) {
        if self.senders.len() < MOST_PENDING && self.octets < MOST_PENDING_OCTETS {
            return;
        }
        let mut times: Vec<Instant> = self.senders.values().map(|pending| pending.last).collect();
        let middle = times.len() / 2;
        let (_, &mut median, _) = times.select_nth_unstable(middle);
        self.senders.retain(|_, pending| pending.last > median);
        self.octets = self.senders.values().map(Pending::kept).sum();
    }
}

impl Pending {
    fn kept(&self) -> usize {
        self.octets + self.beginning.datagrams.len() * OVERHEAD
    }
}

/// Somebody who empties a socket until it is taken over.
pub struct EarlyDatagrams {
    over: Arc<AtomicBool>,
    since: Instant,
    thread: Mutex<Option<JoinHandle<Vec<Vec<u8>>>>>,
}

impl EarlyDatagrams {
    /// Empties a connected socket; `known` are its first datagrams, which others have taken from it, the first of them at
    /// `since`.
    pub fn start(socket: &Socket, known: Vec<Vec<u8>>, since: Instant) -> io::Result<EarlyDatagrams> {
        let socket: UdpSocket = socket.try_clone()?.into();
        socket.set_read_timeout(Some(LOOK))?;
        let over = Arc::new(AtomicBool::new(false));
        let seen = over.clone();
        let work = move || keep(&socket, known, &seen);
        let thread = thread::Builder::new().name("keeper".to_owned()).stack_size(STACK).spawn(work)?;
        Ok(EarlyDatagrams { over, since, thread: Mutex::new(Some(thread)) })
    }

    /// What came; the caller takes the socket over.
    pub fn take(&self) -> Early {
        self.over.store(true, Ordering::Relaxed);
        let thread = self.thread.lock().take();
        let datagrams = thread.and_then(|thread| thread.join().ok()).unwrap_or_default();
        Early { datagrams, since: Some(self.since) }
    }
}

impl Drop for EarlyDatagrams {
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
    // The caller passes them on soon.
    KEPT.fetch_sub(octets, Ordering::Relaxed);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream of `b`, any number of others, and an `e`.
    struct Letters;

    impl StreamMarks for Letters {
        fn begins(&self, octets: &[u8]) -> bool {
            octets.starts_with(b"b")
        }
        fn ends(&self, _: &[Vec<u8>], octets: &[u8]) -> bool {
            octets.starts_with(b"e")
        }
        fn is_stream(&self, _: &[Vec<u8>]) -> bool {
            true
        }
    }

    fn sender(number: u32) -> SocketAddr {
        SocketAddr::from((std::net::Ipv4Addr::from_bits(0x0a00_0000 + number), 5001))
    }

    #[test]
    fn a_stream_is_five_datagrams_with_an_end_or_with_much_or_for_long() {
        let mut pending = PendingStreams::new(&Letters);
        let mut hear = |from, octets: &[u8]| pending.hear(sender(from), octets.to_vec()).map(|one| one.datagrams.len());
        assert!(hear(1, b"x").is_none(), "it has not begun");
        for octets in [b"b", b"x", b"x", b"x", b"x"] {
            assert_eq!(hear(1, octets), None);
        }
        assert_eq!(hear(1, b"e"), Some(6));
        for octets in [b"b", b"e", b"e", b"e"] {
            assert_eq!(hear(2, octets), None);
        }
        assert_eq!(hear(2, b"e"), Some(5));
        for _ in 0..4 {
            assert_eq!(hear(3, &[b'b'; 20_000]), None);
        }
        assert_eq!(hear(3, b"x"), Some(5));
        for _ in 0..9 {
            assert_eq!(hear(4, b"b"), None);
        }
        thread::sleep(LEAST_TIME);
        assert_eq!(hear(4, b"b"), Some(10));
        assert_eq!((pending.senders.len(), pending.octets), (0, 0));
    }

    #[test]
    fn those_that_come_once_displace_none_that_goes_on() {
        let mut pending = PendingStreams::new(&Letters);
        let honest = sender(u32::MAX >> 8);
        assert!(pending.hear(honest, b"b".to_vec()).is_none());
        for number in 0..50_000 {
            assert!(pending.hear(sender(number), vec![b'b'; 900]).is_none());
            assert!(pending.senders.len() <= MOST_PENDING && pending.octets <= MOST_PENDING_OCTETS + 1024);
            if number % 1000 == 0 && pending.hear(honest, b"x".to_vec()).is_some() {
                return;
            }
        }
        // It may have taken no time at all.
        assert!(pending.hear(honest, b"e".to_vec()).is_some());
    }

    #[test]
    fn many_that_go_on_keep_no_more_than_is_allowed() {
        let mut pending = PendingStreams::new(&Letters);
        for _ in 0..4 {
            for number in 0..MOST_PENDING as u32 {
                let _ = pending.hear(sender(number), vec![b'b'; 14_000]);
                assert!(pending.octets <= MOST_PENDING_OCTETS + 14_000 + OVERHEAD, "{}", pending.octets);
            }
        }
    }

    #[test]
    fn nothing_is_lost_between_two_readers() {
        let near = UdpSocket::bind("127.0.0.1:0").unwrap();
        let far = UdpSocket::bind("127.0.0.1:0").unwrap();
        near.connect(far.local_addr().unwrap()).unwrap();
        far.connect(near.local_addr().unwrap()).unwrap();
        let socket: Socket = near.into();
        let keeper = EarlyDatagrams::start(&socket, vec![vec![0]], Instant::now()).unwrap();
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
