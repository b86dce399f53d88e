//! Where clients of a nuttcp server come with their data: ports that they choose, so that several may choose the same.
//! Knows no requests.
//!
//! ```text
//!   test of client A, ports 5001-5003 ─┐   ┌─ port 5001: A's connection → A's test, B's → B's
//!   test of client B, port 5001        ┴─ PortPool ─ port 5002: …
//! ```
//! A port is open while a test waits there. Connections are told apart by where they come from, and one client's tests
//! that want the same port wait for each other; all others are turned away.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::{Arc, Weak, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use linerate_host::traffic::reachability::ProvenPeer;
use linerate_machine::sync::Mutex;
use linerate_trial::spec::MAX_STREAMS;
use socket2::Socket;

use crate::allow::AllowList;
use crate::early_datagrams::StreamStart;
use crate::listener::Listener;

const LOOK_AGAIN: Duration = Duration::from_millis(2);
/// How long a test waits until another of the same client has its connections.
const TURN_TIME: Duration = Duration::from_secs(20);

/// The ports that are open.
#[derive(Default)]
pub struct PortPool(Mutex<Inside>);

#[derive(Default)]
struct Inside {
    listeners: Vec<(SocketAddr, Weak<Listener>)>,
    waiting: Vec<(u64, Ports, mpsc::Sender<Arrival>)>,
    count: u64,
}

/// The ports of a test, the first and those after it, and who comes there.
#[derive(Clone, Copy)]
pub struct Ports {
    /// The first one's address.
    pub first: SocketAddr,
    /// How many; not beyond the last port there is.
    pub count: u16,
    /// The client.
    pub client: ProvenPeer,
    /// Whether it sends datagrams.
    pub is_udp: bool,
}

impl Ports {
    fn numbers(&self) -> Range<u16> {
        self.first.port()..self.first.port().saturating_add(self.count)
    }

    fn addresses(&self) -> impl Iterator<Item = SocketAddr> + use<> {
        let first = self.first;
        self.numbers().map(move |port| with_port(first, port))
    }

    /// Whether connections to both could not be told apart.
    fn overlap(&self, other: &Ports) -> bool {
        let (one, other_numbers) = (self.numbers(), other.numbers());
        self.client == other.client
            && self.is_udp == other.is_udp
            && one.start < other_numbers.end
            && other_numbers.start < one.end
    }

    /// Whether what comes at this address from there is for this test.
    fn awaits(&self, at: SocketAddr, peer: SocketAddr, is_udp: bool) -> bool {
        self.client.is(peer)
            && self.is_udp == is_udp
            && with_port(self.first, at.port()) == at
            && self.numbers().contains(&at.port())
    }
}

/// What came for a stream of a test.
pub struct Arrival {
    /// Which of its streams, from 0.
    pub stream: usize,
    /// Connected to the client.
    pub socket: Socket,
    /// Datagrams that came before it was.
    pub datagrams: Vec<Vec<u8>>,
}

/// A test's place in the pool, which it leaves with the value.
pub struct PortLease<'a> {
    pool: &'a PortPool,
    number: u64,
    listeners: Vec<(SocketAddr, Arc<Listener>)>,
    arrivals: mpsc::Receiver<Arrival>,
}

impl PortPool {
    /// Opens ports, once no other test of this client waits at one of them.
    pub fn lease(&self, ports: Ports, allow: &AllowList, is_over: &dyn Fn() -> bool) -> io::Result<PortLease<'_>> {
        let until = Instant::now() + TURN_TIME;
        let mut inside = self.0.lock();
        while inside.waiting.iter().any(|(_, other, _)| ports.overlap(other)) {
            drop(inside);
            if is_over() || Instant::now() > until {
                return Err(ErrorKind::TimedOut.into());
            }
            thread::sleep(LOOK_AGAIN);
            inside = self.0.lock();
        }
        inside.listeners.retain(|(_, listener)| listener.strong_count() > 0);
        let mut listeners = Vec::new();
        for at in ports.addresses() {
            let open = inside.listeners.iter().find(|(known, _)| *known == at);
            let listener = match open.and_then(|(_, listener)| listener.upgrade()) {
                Some(listener) => listener,
                None => {
                    let listener = Arc::new(Listener::open(at, true, allow)?);
                    inside.listeners.push((at, Arc::downgrade(&listener)));
                    listener
                }
            };
            listeners.push((at, listener));
        }
        inside.count += 1;
        let number = inside.count;
        let (sender, arrivals) = mpsc::channel();
        inside.waiting.push((number, ports, sender));
        Ok(PortLease { pool: self, number, listeners, arrivals })
    }

    /// Gives what came at a port to the test that waits for it.
    fn deliver(&self, at: SocketAddr, peer: SocketAddr, is_udp: bool, socket: Socket, datagrams: Vec<Vec<u8>>) {
        let inside = self.0.lock();
        if let Some((_, ports, arrivals)) = inside.waiting.iter().find(|(_, one, _)| one.awaits(at, peer, is_udp)) {
            let stream = usize::from(at.port() - ports.first.port());
            let _ = arrivals.send(Arrival { stream, socket, datagrams });
        }
    }

    fn awaits_datagrams(&self, at: SocketAddr, peer: SocketAddr) -> bool {
        self.0.lock().waiting.iter().any(|(_, one, _)| one.awaits(at, peer, true))
    }
}

fn with_port(mut at: SocketAddr, port: u16) -> SocketAddr {
    at.set_port(port);
    at
}

impl PortLease<'_> {
    /// The sockets of all streams, in their order.
    pub fn collect(&self, time: Duration, is_over: &dyn Fn() -> bool) -> io::Result<Vec<Arrival>> {
        let until = Instant::now() + time;
        let mut arrivals: Vec<Arrival> = Vec::new();
        loop {
            self.look()?;
            for arrival in self.arrivals.try_iter() {
                // The first of a stream is the one; a second is nobody's.
                if arrivals.iter().all(|one| one.stream != arrival.stream) {
                    arrivals.push(arrival);
                }
            }
            // At once: their data comes, and its time runs.
            if arrivals.len() == self.listeners.len() {
                break;
            }
            if is_over() {
                return Err(ErrorKind::ConnectionAborted.into());
            }
            if Instant::now() > until {
                return Err(ErrorKind::TimedOut.into());
            }
            // Another test of this port may take what comes for this one, which wakes nobody here.
            let is_awaited = |stream| arrivals.iter().all(|one| one.stream != stream);
            let awaited = self.listeners.iter().enumerate().rev().find(|(stream, _)| is_awaited(*stream));
            if let Some((_, (_, listener))) = awaited {
                listener.wait(LOOK_AGAIN)?;
            }
        }
        arrivals.sort_by_key(|arrival| arrival.stream);
        Ok(arrivals)
    }

    /// Takes what stands at the listeners, of every test.
    fn look(&self) -> io::Result<()> {
        for (at, listener) in &self.listeners {
            while let Some((stream, peer)) = listener.accept() {
                self.pool.deliver(*at, peer, false, stream.into(), Vec::new());
            }
            let mut unknown = VecDeque::from(listener.waiting());
            let mut opened = 0;
            while let Some((peer, octets)) = unknown.pop_front() {
                // A client that sends from more ports than a test has streams means no test.
                if opened >= MAX_STREAMS || !self.pool.awaits_datagrams(*at, peer) {
                    unknown.retain(|(from, _)| *from != peer);
                    continue;
                }
                let (socket, before) = listener.connected(peer)?;
                opened += 1;
                let mut start = StreamStart::of(octets);
                start.collect(peer, &mut unknown, before);
                self.pool.deliver(*at, peer, true, socket, start.datagrams);
            }
        }
        Ok(())
    }
}

impl Drop for PortLease<'_> {
    fn drop(&mut self) {
        let mut inside = self.pool.0.lock();
        inside.waiting.retain(|(number, ..)| *number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, TcpListener, TcpStream, UdpSocket};

    use super::*;

    fn free() -> SocketAddr {
        TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
    }

    const TIME: Duration = Duration::from_secs(5);
    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
    const THERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 2));

    /// A client at this address.
    fn client(address: IpAddr) -> ProvenPeer {
        let listener = TcpListener::bind((address, 0)).unwrap();
        ProvenPeer::by_connection(&TcpStream::connect(listener.local_addr().unwrap()).unwrap()).unwrap()
    }

    fn ports(first: SocketAddr, from: IpAddr, is_udp: bool) -> Ports {
        Ports { first, count: 1, client: client(from), is_udp }
    }

    fn connect(from: IpAddr, at: SocketAddr) -> Socket {
        let socket = Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::new(from, 0).into()).unwrap();
        socket.connect(&at.into()).unwrap();
        socket
    }

    #[test]
    fn two_clients_at_one_port_have_their_own() {
        let (pool, at) = (PortPool::default(), free());
        let here = pool.lease(ports(at, HERE, false), &AllowList::default(), &|| false).unwrap();
        let there = pool.lease(ports(at, THERE, false), &AllowList::default(), &|| false).unwrap();
        let (far, near) = (connect(THERE, at), connect(HERE, at));
        // The first that looks takes both.
        let mine = here.collect(TIME, &|| false).unwrap();
        let theirs = there.collect(TIME, &|| false).unwrap();
        for (arrival, client) in [(&mine[0], &near), (&theirs[0], &far)] {
            let peer = arrival.socket.peer_addr().unwrap().as_socket();
            assert_eq!(peer, client.local_addr().unwrap().as_socket());
        }
    }

    #[test]
    fn a_connection_is_had_when_it_comes() {
        // Its data comes at once, and its time begins here. On a busy machine once of many is enough.
        let took = |_| {
            let (pool, at) = (PortPool::default(), free());
            let lease = pool.lease(ports(at, HERE, false), &AllowList::default(), &|| false).unwrap();
            thread::scope(|scope| {
                let connecting = scope.spawn(move || {
                    thread::sleep(Duration::from_millis(5));
                    (connect(HERE, at), Instant::now())
                });
                lease.collect(TIME, &|| false).unwrap();
                let had = Instant::now();
                had.saturating_duration_since(connecting.join().unwrap().1)
            })
        };
        let least = (0..20).map(took).min().unwrap();
        assert!(least < Duration::from_millis(1), "{least:?}");
    }

    #[test]
    fn one_clients_tests_take_turns_and_strangers_are_turned_away() {
        let (pool, at) = (PortPool::default(), free());
        let first = pool.lease(ports(at, HERE, false), &AllowList::default(), &|| false).unwrap();
        let began = Instant::now();
        let impatient = || began.elapsed() > Duration::from_millis(30);
        assert!(
            pool.lease(ports(at, HERE, false), &AllowList::default(), &impatient).is_err(),
            "not before the first has left"
        );
        let stranger = connect(THERE, at);
        let error = first.collect(Duration::from_millis(50), &|| false).map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        stranger.set_read_timeout(Some(TIME)).unwrap();
        assert_eq!(std::io::Read::read(&mut TcpStream::from(stranger), &mut [0]).unwrap_or(0), 0, "closed");
        drop(first);
        pool.lease(ports(at, HERE, false), &AllowList::default(), &|| false).unwrap();
    }

    #[test]
    fn datagrams_show_who_sends_them_and_are_kept() {
        let (pool, at) = (PortPool::default(), free());
        let lease = pool.lease(ports(at, HERE, true), &AllowList::default(), &|| false).unwrap();
        let (near, far) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.2:0").unwrap());
        far.send_to(b"stranger", at).unwrap();
        near.send_to(b"BOD0", at).unwrap();
        near.send_to(b"BOD1", at).unwrap();
        let arrivals = lease.collect(TIME, &|| false).unwrap();
        assert_eq!(arrivals[0].datagrams, [b"BOD0", b"BOD1"]);
        near.send_to(b"data", at).unwrap();
        let socket: UdpSocket = arrivals.into_iter().next().unwrap().socket.into();
        socket.set_read_timeout(Some(TIME)).unwrap();
        let mut octets = [0; 10];
        assert_eq!(socket.recv(&mut octets).unwrap(), 4);
    }

    #[test]
    fn a_port_that_is_taken_is_an_error() {
        let other = TcpListener::bind("127.0.0.1:0").unwrap();
        let pool = PortPool::default();
        let error = pool
            .lease(ports(other.local_addr().unwrap(), HERE, false), &AllowList::default(), &|| false)
            .map(|_| ())
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AddrInUse);
    }
}
