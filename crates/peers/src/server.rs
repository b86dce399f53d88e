//! The driver of every tool's server: any number of clients at once, each test through linerate's own data path.
//!
//! ```text
//!   TCP connection ─→ ConnectionLimit ─→ a thread ─→ Serve::connection ─┐
//!   datagram of nobody known ─→ a stream? ─→ its own socket ─→ a thread ─→ Serve::stream ─┴→ ServerTest ─→ ServedTest
//! ```
//! What is said in these threads is each [`Protocol`](crate::protocol::Protocol)'s own.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, Scope};
use std::time::Instant;

use linerate_host::interfaces;
use linerate_host::traffic::{Adopted, CountedInterface, Framing, Trial};
use linerate_machine::end::End;
use linerate_machine::sync::Mutex;
use linerate_trial::outcome::Outcome;
use linerate_trial::spec::Spec;
use linerate_trial::tool::Tool;
use socket2::Socket;

use crate::connection_limit::{ConnectionLimit, ConnectionPermit, spawn};
use crate::counters_before::CountersBefore;
use crate::early_datagrams::{PendingStreams, StreamMarks, StreamStart};
use crate::error::Error;
use crate::limits::Limits;
use crate::listener::{Datagram, Listener};
use crate::plausible;
use crate::protocol::{self, FirstDatagram, Serve};
use crate::served_test::{ServedTest, TestPart};
use crate::test_limit::{TestDemand, TestPermit, memory_of};

/// Who hears of clients that were refused: where they are, and what they did that is not allowed, as "asked for …".
pub type Refusals = Box<dyn Fn(SocketAddr, &str) + Send + Sync>;

/// Whether the client of this token may have a test.
pub type Admits = Box<dyn Fn(&str) -> bool + Send + Sync>;

/// A tool's server that listens.
pub struct Server {
    tool: Tool,
    protocol: Box<dyn Serve>,
    listeners: Vec<Listener>,
    limits: Limits,
    refusals: Refusals,
    admits: Option<Admits>,
    /// Connections whose clients have not shown yet that they may have a test, and which.
    connections: ConnectionLimit,
    /// The same of senders of datagrams, whose addresses may be forged: those take no place of a connection.
    senders: ConnectionLimit,
    known: KnownSenders,
    count: AtomicUsize,
    ended: AtomicUsize,
}

/// A connection that was accepted.
pub struct Connection<'a> {
    /// It; it blocks.
    pub stream: TcpStream,
    /// Where it comes from.
    pub peer: SocketAddr,
    /// Its number among all that came to this server.
    pub number: usize,
    /// Its place, until a test has one.
    pub permit: ConnectionPermit<'a>,
}

/// A stream of datagrams that has begun.
pub struct DatagramStream<'a> {
    /// Connected to the sender.
    pub socket: Socket,
    /// Where it comes from.
    pub peer: SocketAddr,
    /// Its number among all that came to this server.
    pub number: usize,
    /// What came of it before it had a socket.
    pub start: StreamStart,
    /// Its place, until a test has one.
    pub permit: ConnectionPermit<'a>,
    /// As long as this is there, what else comes of the sender to the server's port begins nothing.
    pub known: KnownSender,
}

impl Server {
    /// Listens on an address, or on every one. Port 0 is any that is free.
    pub fn bind(tool: Tool, address: Option<IpAddr>, port: u16, limits: Limits) -> io::Result<Server> {
        let protocol = (protocol::of(tool).server)();
        Ok(Server {
            tool,
            listeners: Listener::open_all(address, port, protocol.datagrams().is_some(), &limits.allow)?,
            protocol,
            limits,
            refusals: Box::new(|_, _| {}),
            admits: None,
            connections: ConnectionLimit::default(),
            senders: ConnectionLimit::default(),
            known: KnownSenders::default(),
            count: AtomicUsize::new(0),
            ended: AtomicUsize::new(0),
        })
    }

    /// From now on only clients whose token is admitted have a test.
    pub fn guard(&mut self, admits: Admits) {
        self.admits = Some(admits);
    }

    /// From now on these hear of clients that are refused. They leave nothing else: nothing was measured.
    pub fn tell_refusals(&mut self, refusals: Refusals) {
        self.refusals = refusals;
    }

    /// The tool.
    pub fn tool(&self) -> Tool {
        self.tool
    }

    /// The port that is listened on.
    pub fn port(&self) -> io::Result<u16> {
        self.listeners[0].port()
    }

    /// Serves until `is_over` says so, given how many tests have ended; `report` is told of each. Tests that run then are
    /// aborted.
    pub fn run(&self, is_over: impl Fn(usize) -> bool + Sync, report: impl Fn(ServedTest) + Sync) -> io::Result<()> {
        let over = || is_over(self.ended.load(Ordering::Relaxed));
        let service = Service { server: self, over: &over, report: &report };
        thread::scope(|scope| {
            let mut attending = Vec::new();
            for listener in &self.listeners {
                attending.push(thread::Builder::new().spawn_scoped(scope, move || service.attend(listener, scope)));
                if let Some(marks) = self.protocol.datagrams() {
                    let attend = move || service.attend_datagrams(listener, marks, scope);
                    attending.push(thread::Builder::new().spawn_scoped(scope, attend));
                }
            }
            attending.into_iter().try_for_each(|one| one?.join().unwrap_or_else(|_| Err(io::Error::other("a panic"))))
        })
    }
}

/// A server at work.
#[derive(Clone, Copy)]
pub struct Service<'a> {
    server: &'a Server,
    over: &'a (dyn Fn() -> bool + Sync),
    report: &'a (dyn Fn(ServedTest) + Sync),
}

impl<'a> Service<'a> {
    /// Whether the server is to end.
    pub fn is_over(self) -> bool {
        (self.over)()
    }

    /// What is allowed.
    pub fn limits(self) -> &'a Limits {
        &self.server.limits
    }

    /// Whether servers of this tool listen on this port: this one, or usually.
    pub fn is_port_of_server(self, port: u16) -> bool {
        port == self.server.tool.row().port || self.server.port().is_ok_and(|own| own == port)
    }

    /// Whether a client that shows this token may have a test.
    pub fn admits(self, token: Option<&str>) -> bool {
        self.server.admits.as_ref().is_none_or(|admits| token.is_some_and(admits))
    }

    /// Whether clients have to show a token.
    pub fn is_guarded(self) -> bool {
        self.server.admits.is_some()
    }

    /// A place again for a connection that had one.
    pub fn readmit(self, peer: SocketAddr, stream: &TcpStream) -> Option<ConnectionPermit<'a>> {
        self.server.connections.admit(peer.ip(), Some(stream))
    }

    /// Says what a client did that is not allowed, as "asked for …".
    pub fn refuse(self, peer: SocketAddr, what: &str) {
        (self.server.refusals)(peer, what);
    }

    /// A test of a client, if it may be had now; else the client is refused. `control` is closed when the test has to give
    /// way to another; a client without one has proved its address if it asks for TCP.
    pub fn begin(
        self,
        (peer, local): (SocketAddr, SocketAddr),
        spec: &Spec,
        control: Option<&TcpStream>,
    ) -> Option<ServerTest<'a>> {
        let limits = self.limits();
        let permit = limits.memory.take(TestDemand {
            server: self.server.tool,
            peer: peer.ip(),
            most: limits.tests,
            memory: memory_of(spec),
            proven: control.is_some() || !spec.workload.is_udp(),
            control,
        });
        let Some(permit) = permit else {
            self.refuse(peer, "came while as many tests ran as are allowed");
            return None;
        };
        let interface = interfaces::with_address(local);
        Some(ServerTest {
            service: self,
            permit,
            peer,
            local,
            interface,
            version: None,
            began: Instant::now(),
            before: Mutex::default(),
            in_parts: AtomicBool::default(),
        })
    }

    /// Gives each connection of a listener a thread.
    fn attend<'scope>(self, listener: &'a Listener, scope: &'scope Scope<'scope, 'a>) -> io::Result<()>
    where
        'a: 'scope,
    {
        let server = self.server;
        while !self.is_over() {
            let Some((stream, peer)) = listener.next()? else { continue };
            let number = server.count.fetch_add(1, Ordering::Relaxed);
            server.connections.receive(scope, (stream, peer), move |permit, stream| {
                server.protocol.connection(self, Connection { stream, peer, number, permit });
            });
        }
        Ok(())
    }

    /// Gives each stream of datagrams that begins at a listener a socket and a thread.
    fn attend_datagrams<'scope>(
        self,
        listener: &'a Listener,
        marks: &'a dyn StreamMarks,
        scope: &'scope Scope<'scope, 'a>,
    ) -> io::Result<()>
    where
        'a: 'scope,
    {
        let mut pending = PendingStreams::new(marks);
        while !self.is_over() {
            let mut unknown = VecDeque::from(listener.next_datagrams()?);
            while !self.is_over()
                && let Some((peer, octets)) = unknown.pop_front()
            {
                // What comes here of somebody who has a socket is the end of another test.
                if self.server.known.0.lock().contains(&peer) {
                    continue;
                }
                let start = match self.server.protocol.first_datagram(self, peer, &octets) {
                    FirstDatagram::Begins if !pending.knows(peer) => Some(StreamStart::of(octets)),
                    FirstDatagram::Refused(what) if !pending.knows(peer) => {
                        self.refuse(peer, what);
                        None
                    }
                    FirstDatagram::Nothing => None,
                    _ => pending.hear(peer, octets),
                };
                if let Some(start) = start {
                    self.open_stream(listener, start, peer, &mut unknown, scope);
                }
            }
        }
        Ok(())
    }

    /// A stream of datagrams has begun: it gets a socket and a thread. What came meanwhile, of it or of others, is taken from
    /// those that wait, and added to them.
    fn open_stream<'scope>(
        self,
        listener: &'a Listener,
        mut start: StreamStart,
        peer: SocketAddr,
        unknown: &mut VecDeque<Datagram>,
        scope: &'scope Scope<'scope, 'a>,
    ) where
        'a: 'scope,
    {
        let server = self.server;
        // Its place comes before a socket.
        let Some(permit) = server.senders.admit(peer.ip(), None) else { return };
        let Ok((socket, before)) = listener.connected(peer) else { return };
        let known = server.known.add(peer);
        start.collect(peer, unknown, before);
        let number = server.count.fetch_add(1, Ordering::Relaxed);
        let stream = DatagramStream { socket, peer, number, start, permit, known };
        spawn(scope, move || server.protocol.stream(self, stream));
    }
}

/// A trial, and what came of it.
pub type EndedTrial = (Spec, Result<Box<[Outcome; 2]>, Error>);

/// A test that has its place among those that run.
pub struct ServerTest<'a> {
    service: Service<'a>,
    permit: TestPermit,
    /// Where its client is.
    pub peer: SocketAddr,
    /// Where it came to.
    pub local: SocketAddr,
    /// The interface that has this address.
    pub interface: Option<String>,
    /// The client's version, where it tells.
    pub version: Option<String>,
    began: Instant,
    /// The counters before its first packet, until its first trial has them.
    before: Mutex<Option<CountersBefore>>,
    /// A part of it was reported.
    in_parts: AtomicBool,
}

impl ServerTest<'_> {
    /// Whether the test is to end: with the server, or because another has come to which it gives way.
    pub fn is_over(&self) -> bool {
        self.service.is_over() || self.permit.is_evicted()
    }

    /// The test began before it had its place: so long ago, with counters that stood so.
    pub fn set_began(&mut self, since: Instant, before: Option<CountersBefore>) {
        (self.began, self.before) = (since, Mutex::new(before));
    }

    /// Bytes that were transferred, as of the last second.
    pub fn bytes(&self) -> u64 {
        self.permit.bytes()
    }

    /// The test transfers nothing any more, and gives way to any that comes.
    pub fn set_over(&self) {
        self.permit.set_over();
    }

    /// What is allowed.
    pub fn limits(&self) -> &Limits {
        self.service.limits()
    }

    /// This end of a trial, whose flows the protocol has opened.
    pub fn adopt(&self, spec: Spec, framing: Framing, flows: Vec<Adopted>) -> Result<Trial, Error> {
        let local = self.local.ip();
        // Of what comes after, such as a test's other half, they are read when that begins.
        let before = self.before.lock().take();
        let interface = self.interface.clone().map(|name| {
            let before = before.filter(|one| one.interface == name).map(|one| one.snapshot);
            CountedInterface { name, before }
        });
        Ok(Trial::adopt(spec, framing, End::Target, local, interface, flows, self.permit.progress())?)
    }

    /// Reports the end of a part, after which the test goes on.
    pub fn part(&self, ended: EndedTrial) {
        self.in_parts.store(true, Ordering::Relaxed);
        (self.service.report)(self.served(ended, Some(TestPart::First)));
    }

    fn served(&self, (spec, mut ended): EndedTrial, half: Option<TestPart>) -> ServedTest {
        if let Ok([ours, theirs]) = ended.as_deref_mut() {
            plausible::limit(&spec, ours, theirs, self.began.elapsed());
        }
        let (peer, local, bytes) = (self.peer, self.local, self.permit.bytes());
        let (tool, interface, version) = (self.service.server.tool, self.interface.clone(), self.version.clone());
        ServedTest { tool, version, peer, local, interface, spec, ended, bytes, half }
    }

    /// Reports the test's end. Its place is free before: the client may come back at once.
    pub fn finish(self, ended: EndedTrial) {
        let half = self.in_parts.load(Ordering::Relaxed).then_some(TestPart::Second);
        let served = self.served(ended, half);
        let ServerTest { service, permit, .. } = self;
        drop(permit);
        (service.report)(served);
        service.server.ended.fetch_add(1, Ordering::Relaxed);
    }
}

/// Senders of datagrams that have sockets of their own.
#[derive(Clone, Default)]
struct KnownSenders(Arc<Mutex<Vec<SocketAddr>>>);

/// One of them, until the value goes.
pub struct KnownSender {
    all: KnownSenders,
    peer: SocketAddr,
}

impl KnownSenders {
    fn add(&self, peer: SocketAddr) -> KnownSender {
        self.0.lock().push(peer);
        KnownSender { all: self.clone(), peer }
    }
}

impl Drop for KnownSender {
    fn drop(&mut self) {
        self.all.0.lock().retain(|known| *known != self.peer);
    }
}
