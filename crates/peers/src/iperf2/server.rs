//! An iperf2 server: any number of clients at once, each test through linerate's own data path.
//! Knows no records and no terminal; what a test was is told to whoever wants to hear.
//!
//! ```text
//!   TCP connection ─→ its header    ─┬─ the first of a test ──→ a thread, which waits a moment for the others ─→ Session
//!   datagram of nobody known ───────→┘─ same client, same header: one of them
//! ```
//! iperf2 has no control connection: `-P 3` is three connections, each with a header that says 3. They are one test, and
//! one record, where they come from one address, with the same header, within a moment; else each is its own.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::mem::MaybeUninit;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use linerate_trial::spec::Workload;
use socket2::{SockRef, Socket};

use super::datagram;
use super::header::Header;
use super::session::{
    Member, Request, Session, acknowledge, answer_address_check, bounce_back, is_near, spec_of_request,
};
use crate::connection_limit::{ConnectionLimit, ConnectionPermit, spawn};
use crate::early_datagrams::{EarlyDatagrams, PendingStreams, StreamStart as FirstDatagrams};
use crate::listener::{Datagram, LOOK_FOR_END, Listener, await_all, is_passing};
use crate::served_test::{Limits, Refusals, ServedTest};
use crate::test_limit::{TestDemand, memory_of};

/// The port of TCP and UDP.
pub const PORT: u16 = 5001;

/// How long a client has for its header.
const HEADER_TIME: Duration = Duration::from_secs(10);
/// How long a test waits for its other streams.
const GATHERING_TIME: Duration = Duration::from_millis(300);

/// A server that listens.
pub struct Server {
    listeners: Vec<Listener>,
    limits: Limits,
    refusals: Refusals,
    shared: Shared,
}

/// What the accepting threads and the tests share.
struct Shared {
    gathering: Mutex<Vec<Gathering>>,
    /// Whose datagrams have a test.
    known: Mutex<Vec<SocketAddr>>,
    /// Connections whose header is being read, and tests whose streams come together.
    strangers: ConnectionLimit,
    /// The same of senders of datagrams, whose addresses may be forged: those take no place of a connection.
    senders: ConnectionLimit,
    /// Held by the one test that sends to an address that has proved nothing.
    unproven: Mutex<()>,
    gathered: AtomicUsize,
    ended: AtomicUsize,
}

/// A test that waits for its other streams.
struct Gathering {
    number: usize,
    client: IpAddr,
    is_udp: bool,
    request: Request,
    wanted: usize,
    members: mpsc::Sender<Member>,
}

impl Server {
    /// Listens on an address, or on every one. Port 0 is any that is free.
    pub fn bind(address: Option<IpAddr>, port: u16, limits: Limits) -> io::Result<Server> {
        Ok(Server {
            listeners: Listener::open_all(address, port, &limits.allow)?,
            limits,
            refusals: Box::new(|_, _| {}),
            shared: Shared {
                gathering: Mutex::default(),
                known: Mutex::default(),
                strangers: ConnectionLimit::default(),
                senders: ConnectionLimit::default(),
                unproven: Mutex::default(),
                gathered: AtomicUsize::new(0),
                ended: AtomicUsize::new(0),
            },
        })
    }

    /// From now on these hear of clients that are refused. They leave nothing else: nothing was measured.
    pub fn tell_refusals(&mut self, refusals: Refusals) {
        self.refusals = refusals;
    }

    /// The port that is listened on.
    pub fn port(&self) -> io::Result<u16> {
        Ok(self.listeners[0].tcp.local_addr()?.port())
    }

    /// Serves until `is_over` says so, given how many tests have ended; `heard` is told of each. Tests that run then are
    /// aborted.
    pub fn run(&self, is_over: impl Fn(usize) -> bool + Sync, heard: impl Fn(ServedTest) + Sync) -> io::Result<()> {
        let over = || is_over(self.shared.ended.load(Ordering::Relaxed));
        let service = Service { server: self, over: &over, heard: &heard };
        thread::scope(|scope| {
            let tcp = self.listeners.iter().map(|listener| scope.spawn(move || service.attend(listener, scope)));
            let udp =
                self.listeners.iter().map(|listener| scope.spawn(move || service.attend_datagrams(listener, scope)));
            await_all(tcp.chain(udp))
        })
    }
}

/// A server at work.
#[derive(Clone, Copy)]
struct Service<'a> {
    server: &'a Server,
    over: &'a (dyn Fn() -> bool + Sync),
    heard: &'a (dyn Fn(ServedTest) + Sync),
}

impl<'a> Service<'a> {
    /// Looks for one family's connections, and gives each a thread.
    fn attend<'scope>(self, listener: &'a Listener, scope: &'scope thread::Scope<'scope, 'a>) -> io::Result<()>
    where
        'a: 'scope,
    {
        while !(self.over)() {
            if let Some((stream, peer)) = listener.next()? {
                let work = move |stranger, stream| self.receive(stranger, stream, peer);
                self.server.shared.strangers.receive(scope, (stream, peer), work);
            }
        }
        Ok(())
    }

    /// Looks for one family's first datagrams. Their thread is woken by them: a sender waits for nobody.
    fn attend_datagrams<'scope>(
        self,
        listener: &'a Listener,
        scope: &'scope thread::Scope<'scope, 'a>,
    ) -> io::Result<()>
    where
        'a: 'scope,
    {
        let mut buffer = vec![0; 65_536];
        let mut pending = PendingStreams::new(datagram::Streams);
        listener.udp.set_read_timeout(Some(LOOK_FOR_END))?;
        while !(self.over)() {
            listener.udp.set_nonblocking(false)?;
            // An error is an ICMP message about a peer that is gone.
            let Ok((len, peer)) = listener.udp.recv_from(&mut buffer) else { continue };
            listener.udp.set_nonblocking(true)?;
            let first = listener.allow.admits(peer.ip()).then(|| (peer, buffer[..len].to_vec()));
            let mut unknown = VecDeque::from_iter(first);
            unknown.extend(listener.waiting());
            while !(self.over)()
                && let Some((peer, octets)) = unknown.pop_front()
            {
                // What comes here of somebody who has a socket is the end of another test.
                if self.server.shared.known().contains(&peer) {
                    continue;
                }
                let beginning = match self.wants_datagrams(&octets) {
                    // It sends no stream to wait for.
                    Some(Ok(())) if !pending.knows(peer) => Some(FirstDatagrams::of(octets)),
                    Some(Err(what)) if !pending.knows(peer) => {
                        (self.server.refusals)(peer, what);
                        None
                    }
                    _ => pending.hear(peer, octets),
                };
                if let Some(beginning) = beginning {
                    self.open_datagrams(listener, beginning, peer, &mut unknown, scope);
                }
            }
        }
        Ok(())
    }

    /// A connection: a test, or a stream of one.
    fn receive(self, stranger: ConnectionPermit<'_>, stream: TcpStream, peer: SocketAddr) {
        let request = read_request(&stream);
        let socket: Socket = stream.into();
        let answered = match &request {
            Ok(Request::Streams(header)) => acknowledge(&socket, header),
            Ok(Request::BounceBack(_)) => socket.set_tcp_nodelay(true),
            Err(_) => Ok(()),
        };
        let join = match (request, answered) {
            (Ok(request), Ok(())) => {
                self.join(request, 0, Member { socket, peer, since: Instant::now(), first: 0, keeper: None })
            }
            _ => None,
        };
        if let Some(test) = join {
            self.conduct(stranger, test);
        }
    }

    /// Whether a client that says this first is to be sent datagrams, and may be. Whether another is, is asked later.
    fn wants_datagrams(self, first: &[u8]) -> Option<Result<(), &'static str>> {
        let request = Request::Streams(datagram::header(first)?);
        let spec = || spec_of_request(&request, Workload::UdpStream, first.len() as u32, &self.server.limits).map(drop);
        request.sends_datagrams(Workload::UdpStream).then(spec)
    }

    /// A stream of datagrams has begun: it gets a socket and a thread. What came meanwhile, of it or of others, is taken from
    /// those that wait, and added to them.
    fn open_datagrams<'scope>(
        self,
        listener: &'a Listener,
        mut beginning: FirstDatagrams,
        peer: SocketAddr,
        unknown: &mut VecDeque<Datagram>,
        scope: &'scope thread::Scope<'scope, 'a>,
    ) where
        'a: 'scope,
    {
        let shared = &self.server.shared;
        let Some(first) = beginning.datagrams.first() else { return };
        let (Some(header), size) = (datagram::header(first), first.len() as u32) else { return };
        // Its place comes before a socket.
        let Some(stranger) = shared.senders.admit(peer.ip(), None) else { return };
        let Ok((socket, before)) = listener.connected(peer) else { return };
        shared.known().push(peer);
        beginning.collect(peer, unknown, before);
        let work = move || {
            let since = beginning.since;
            let Ok(keeper) = EarlyDatagrams::start(&socket, beginning.datagrams, since) else {
                return shared.forget(&[peer]);
            };
            let member = Member { socket, peer, since, first: size.into(), keeper: Some(keeper) };
            if let Some(test) = self.join(Request::Streams(header), size, member) {
                self.conduct(stranger, test);
            }
        };
        if !spawn(scope, work) {
            shared.forget(&[peer]);
        }
    }

    /// A connection joins the test that waits for it, or begins one, which is returned. `size`: of a stream's first
    /// datagram.
    fn join(self, request: Request, size: u32, member: Member) -> Option<StreamStart> {
        let shared = &self.server.shared;
        let (client, is_udp) = (member.peer.ip(), member.keeper.is_some());
        let workload = if is_udp { Workload::UdpStream } else { Workload::TcpStream };
        let spec = spec_of_request(&request, workload, if is_udp { size } else { 128 << 10 }, &self.server.limits);
        let is_near = || !request.sends_datagrams(workload) || is_near(member.peer.ip());
        let spec = spec.and_then(|spec| if is_near() { Ok(spec) } else { Err(BEYOND_A_ROUTER) });
        let spec = match spec {
            Ok(spec) => spec,
            Err(what) => {
                (self.server.refusals)(member.peer, what);
                shared.forget(&[member.peer]);
                return None;
            }
        };
        let mut gathering = shared.gathering();
        let fits = |one: &&mut Gathering| {
            one.wanted > 0 && one.client == client && one.is_udp == is_udp && one.request == request
        };
        if let Some(one) = gathering.iter_mut().find(fits) {
            one.wanted -= 1;
            let _ = one.members.send(member);
            return None;
        }
        let wanted = usize::from(spec.streams) - 1;
        let others = (wanted > 0).then(|| {
            let (members, others) = mpsc::channel();
            let number = shared.gathered.fetch_add(1, Ordering::Relaxed);
            gathering.push(Gathering { number, client, is_udp, request: request.clone(), wanted, members });
            Others { number, wanted, members: others }
        });
        Some(StreamStart { request, spec, members: vec![member], others })
    }

    /// Waits for the other streams, and has the test.
    fn conduct(self, stranger: ConnectionPermit<'_>, mut test: StreamStart) {
        stranger.set_busy();
        let shared = &self.server.shared;
        if let Some(others) = test.others.take() {
            let until = Instant::now() + GATHERING_TIME;
            while test.members.len() <= others.wanted
                && let Ok(member) = others.members.recv_timeout(until.saturating_duration_since(Instant::now()))
            {
                test.members.push(member);
            }
            shared.gathering().retain(|one| one.number != others.number);
            test.members.extend(others.members.try_iter());
        }
        let peers: Vec<SocketAddr> = test.members.iter().map(|member| member.peer).collect();
        if test.request.is_address_check() {
            test.members.into_iter().for_each(|member| answer_address_check(member, self.over));
        } else {
            self.admit(stranger, test, peers[0]);
        }
        shared.forget(&peers);
    }

    /// Has the test, if it may be had now.
    fn admit(self, stranger: ConnectionPermit<'_>, test: StreamStart, peer: SocketAddr) {
        let shared = &self.server.shared;
        // Beyond these nobody is served: there is no word for it but to close.
        let limits = &self.server.limits;
        let (memory, proven) = (memory_of(&test.spec), !test.spec.workload.is_udp());
        let place =
            limits.memory.take(TestDemand { server: "iperf2", most: limits.tests, memory, proven, control: None });
        drop(stranger);
        let Some(place) = place else {
            return (self.server.refusals)(peer, "came while as many tests ran as are allowed");
        };
        // Somebody who forges many clients has no more sent than one who forges one.
        let is_unproven = test.request.sends_datagrams(test.spec.workload);
        let alone = is_unproven.then(|| shared.unproven.try_lock());
        if matches!(alone, Some(Err(TryLockError::WouldBlock))) {
            return (self.server.refusals)(
                peer,
                "asked for datagrams while they were sent to another that is unproven",
            );
        }
        let StreamStart { request, spec, members, .. } = test;
        let over = || (self.over)() || place.is_evicted();
        let session = Session { request, spec, members, limits, over: &over, place: &place };
        for served in session.run() {
            (self.heard)(served);
        }
        shared.ended.fetch_add(1, Ordering::Relaxed);
    }
}

/// A test whose other streams may come.
struct StreamStart {
    request: Request,
    spec: linerate_trial::spec::Spec,
    members: Vec<Member>,
    others: Option<Others>,
}

/// Where they come.
struct Others {
    number: usize,
    wanted: usize,
    members: mpsc::Receiver<Member>,
}

impl Shared {
    fn gathering(&self) -> MutexGuard<'_, Vec<Gathering>> {
        self.gathering.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn known(&self) -> MutexGuard<'_, Vec<SocketAddr>> {
        self.known.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn forget(&self, peers: &[SocketAddr]) {
        self.known().retain(|known| !peers.contains(known));
    }
}

/// Why datagrams are not sent to just anybody, even where the user allows them.
const BEYOND_A_ROUTER: &str = "asked for datagrams from beyond a router; let it send, or use TCP";

/// What a client wants, without taking its octets from the connection: they are traffic too.
fn read_request(stream: &TcpStream) -> io::Result<Request> {
    let until = Instant::now() + HEADER_TIME;
    let mut octets = [0; 512];
    let flags = peek(stream, &mut octets[..8], until)?;
    if let Some(request) = bounce_back(flags) {
        return Ok(request);
    }
    let word = u32::from_be_bytes([flags[0], flags[1], flags[2], flags[3]]);
    if Header::is_none(word) {
        return Ok(Request::Streams(Header::none()));
    }
    let len = Header::len(word).ok_or(ErrorKind::InvalidData)?;
    let header = Header::parse(peek(stream, &mut octets[..len], until)?);
    Ok(Request::Streams(header.ok_or(ErrorKind::InvalidData)?))
}

/// MSG_PEEK and MSG_WAITALL of linux/socket.h: returns when all is there, at the end of the stream, or when the time is
/// over (recv(2)). A look alone does not see an end behind what is there.
const LOOK_WHEN_ALL_IS_THERE: i32 = 0x2 | 0x100;

/// So many octets of a connection, which stay there.
fn peek<'b>(stream: &TcpStream, octets: &'b mut [u8], until: Instant) -> io::Result<&'b [u8]> {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        let mut room = vec![MaybeUninit::uninit(); octets.len()];
        match SockRef::from(stream).recv_with_flags(&mut room, LOOK_WHEN_ALL_IS_THERE) {
            Ok(len) if len == octets.len() => break,
            Ok(_) => return Err(ErrorKind::UnexpectedEof.into()),
            Err(error) if is_passing(&error) => {}
            Err(error) => return Err(error),
        }
    }
    let len = stream.peek(octets)?;
    stream.set_read_timeout(None)?;
    octets.get(..len).filter(|seen| seen.len() == octets.len()).ok_or(ErrorKind::UnexpectedEof.into())
}
