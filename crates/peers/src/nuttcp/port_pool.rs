//! Where clients of a nuttcp server come with their data: ports that they choose, so that several may choose the same.
//! Knows no requests.
//!
//! ```text
//!   test of client A, ports 5001-5003 ─┐   ┌─ port 5001: A's connection → A's test, B's → B's
//!   test of client B, port 5001        ┴─ PortPool ─ port 5002: …
//! ```
//! A port is open while a test waits there. Connections are told apart by where they come from, and one client's tests
//! that want the same port wait for each other: whoever else comes is turned away.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, Weak, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use linerate_host::traffic::reachability::ProvenPeer;
use linerate_trial::spec::MAX_STREAMS;
use socket2::Socket;

use crate::allow::AllowList;
use crate::listener::{Datagram, Listener};

const LOOK_AGAIN: Duration = Duration::from_millis(2);
/// How long a test waits until another of the same client has its connections.
const TURN_TIME: Duration = Duration::from_secs(20);

/// The ports that are open.
#[derive(Default)]
pub struct PortPool(Mutex<Inside>);

#[derive(Default)]
struct Inside {
    listeners: Vec<(SocketAddr, Weak<Listener>)>,
    waiting: Vec<Waiting>,
    count: u64,
}

struct Waiting {
    number: u64,
    client: ProvenPeer,
    first: SocketAddr,
    ports: u16,
    is_udp: bool,
    arrivals: mpsc::Sender<Arrival>,
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
    /// Opens ports for a client, `first` and those after it.
    pub fn lease(
        &self,
        (first, ports): (SocketAddr, u16),
        client: ProvenPeer,
        is_udp: bool,
        allow: &AllowList,
        is_over: &dyn Fn() -> bool,
    ) -> io::Result<PortLease<'_>> {
        let until = Instant::now() + TURN_TIME;
        loop {
            if let Some(lease) = self.take((first, ports), client, is_udp, allow)? {
                return Ok(lease);
            }
            if is_over() || Instant::now() > until {
                return Err(ErrorKind::TimedOut.into());
            }
            thread::sleep(LOOK_AGAIN);
        }
    }

    /// `None`: another test of this client waits at one of the ports.
    fn take(
        &self,
        (first, ports): (SocketAddr, u16),
        client: ProvenPeer,
        is_udp: bool,
        allow: &AllowList,
    ) -> io::Result<Option<PortLease<'_>>> {
        let mut inside = self.inside();
        let wanted = first.port()..first.port().checked_add(ports).ok_or(ErrorKind::InvalidInput)?;
        let is_in_the_way = |one: &Waiting| {
            let its = one.first.port()..one.first.port() + one.ports;
            one.client == client && one.is_udp == is_udp && its.start < wanted.end && wanted.start < its.end
        };
        if inside.waiting.iter().any(is_in_the_way) {
            return Ok(None);
        }
        inside.listeners.retain(|(_, listener)| listener.strong_count() > 0);
        let mut listeners = Vec::new();
        for port in wanted {
            let mut at = first;
            at.set_port(port);
            let open =
                inside.listeners.iter().find(|(known, _)| *known == at).and_then(|(_, listener)| listener.upgrade());
            let listener = match open {
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
        inside.waiting.push(Waiting { number, client, first, ports, is_udp, arrivals: sender });
        Ok(Some(PortLease { pool: self, number, listeners, arrivals }))
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Gives what came at a port to whoever waits for it.
    fn deliver(&self, at: SocketAddr, peer: SocketAddr, is_udp: bool, socket: Socket, datagrams: Vec<Vec<u8>>) {
        let inside = self.inside();
        let waits = |one: &&Waiting| {
            let ports = one.first.port()..one.first.port() + one.ports;
            one.client.is(peer)
                && one.is_udp == is_udp
                && with_port(one.first, at.port()) == at
                && ports.contains(&at.port())
        };
        if let Some(one) = inside.waiting.iter().find(waits) {
            let stream = usize::from(at.port() - one.first.port());
            let _ = one.arrivals.send(Arrival { stream, socket, datagrams });
        }
    }

    fn is_awaited(&self, at: SocketAddr, peer: SocketAddr) -> bool {
        let ports = |one: &Waiting| one.first.port()..one.first.port() + one.ports;
        let inside = self.inside();
        inside.waiting.iter().any(|one| {
            one.client.is(peer)
                && one.is_udp
                && with_port(one.first, at.port()) == at
                && ports(one).contains(&at.port())
        })
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
        while arrivals.len() < self.listeners.len() {
            self.look()?;
            for arrival in self.arrivals.try_iter() {
                // The first of a stream is the one; a second is nobody's.
                if arrivals.iter().all(|one| one.stream != arrival.stream) {
                    arrivals.push(arrival);
                }
            }
            if is_over() {
                return Err(ErrorKind::ConnectionAborted.into());
            }
            if Instant::now() > until {
                return Err(ErrorKind::TimedOut.into());
            }
            thread::sleep(LOOK_AGAIN);
        }
        arrivals.sort_by_key(|arrival| arrival.stream);
        Ok(arrivals)
    }

    /// Takes what stands at the listeners, for whomever it is.
    fn look(&self) -> io::Result<()> {
        for (at, listener) in &self.listeners {
            while let Some((stream, peer)) = listener.accept() {
                self.pool.deliver(*at, peer, false, stream.into(), Vec::new());
            }
            let mut unknown = listener.waiting();
            let mut opened = 0;
            while let Some((peer, _)) = unknown.first() {
                let peer = *peer;
                // A client that sends from more ports than a test has streams means no test.
                if opened >= MAX_STREAMS || !self.pool.is_awaited(*at, peer) {
                    unknown.retain(|(from, _)| *from != peer);
                    continue;
                }
                let (socket, before) = listener.connected(peer)?;
                opened += 1;
                unknown.extend(before);
                let of_peer = |(from, octets): Datagram| if from == peer { Ok(octets) } else { Err((from, octets)) };
                let mut known = Vec::new();
                let mut others = Vec::new();
                for datagram in unknown {
                    match of_peer(datagram) {
                        Ok(octets) => known.push(octets),
                        Err(other) => others.push(other),
                    }
                }
                unknown = others;
                self.pool.deliver(*at, peer, true, socket, known);
            }
        }
        Ok(())
    }
}

impl Drop for PortLease<'_> {
    fn drop(&mut self) {
        let mut inside = self.pool.inside();
        inside.waiting.retain(|one| one.number != self.number);
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

    fn connect(from: IpAddr, at: SocketAddr) -> Socket {
        let socket = Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::new(from, 0).into()).unwrap();
        socket.connect(&at.into()).unwrap();
        socket
    }

    #[test]
    fn two_clients_at_one_port_have_their_own() {
        let (pool, at) = (PortPool::default(), free());
        let here = pool.lease((at, 1), client(HERE), false, &AllowList::default(), &|| false).unwrap();
        let there = pool.lease((at, 1), client(THERE), false, &AllowList::default(), &|| false).unwrap();
        let (far, near) = (connect(THERE, at), connect(HERE, at));
        // Whoever looks first takes both.
        let mine = here.collect(TIME, &|| false).unwrap();
        let theirs = there.collect(TIME, &|| false).unwrap();
        for (arrival, client) in [(&mine[0], &near), (&theirs[0], &far)] {
            let peer = arrival.socket.peer_addr().unwrap().as_socket();
            assert_eq!(peer, client.local_addr().unwrap().as_socket());
        }
    }

    #[test]
    fn one_clients_tests_take_turns_and_strangers_are_turned_away() {
        let (pool, at) = (PortPool::default(), free());
        let first = pool.lease((at, 1), client(HERE), false, &AllowList::default(), &|| false).unwrap();
        let began = Instant::now();
        let impatient = || began.elapsed() > Duration::from_millis(30);
        assert!(
            pool.lease((at, 1), client(HERE), false, &AllowList::default(), &impatient).is_err(),
            "not before the first has left"
        );
        let stranger = connect(THERE, at);
        let error = first.collect(Duration::from_millis(50), &|| false).map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        stranger.set_read_timeout(Some(TIME)).unwrap();
        assert_eq!(std::io::Read::read(&mut TcpStream::from(stranger), &mut [0]).unwrap_or(0), 0, "closed");
        drop(first);
        pool.lease((at, 1), client(HERE), false, &AllowList::default(), &|| false).unwrap();
    }

    #[test]
    fn datagrams_show_who_sends_them_and_are_kept() {
        let (pool, at) = (PortPool::default(), free());
        let lease = pool.lease((at, 1), client(HERE), true, &AllowList::default(), &|| false).unwrap();
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
            .lease((other.local_addr().unwrap(), 1), client(HERE), false, &AllowList::default(), &|| false)
            .map(|_| ())
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AddrInUse);
    }
}
