//! What an iperf2 server hears: headers, which are gathered to tests.
//!
//! ```text
//!   TCP connection ─→ its header    ─┬─ the first of a test ──→ waits a moment for the others ─→ Session
//!   datagram of nobody known ───────→┘─ same client, same header: one of them
//! ```
//! iperf2 has no control connection: `-P 3` is three connections, each with a header that says 3. They are one test, and
//! one record, where they come from one address, with the same header, within a moment; else each is its own.

use std::io::{self, ErrorKind};
use std::mem::MaybeUninit;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use linerate_machine::sync::Mutex;
use linerate_trial::spec::{Spec, Workload};
use socket2::{SockRef, Socket};

use super::datagram;
use super::header::Header;
use super::session::{Member, Request, Session, acknowledge, answer_address_check, bounce_back, spec_of_request};
use crate::allow::is_near;
use crate::connection_limit::ConnectionPermit;
use crate::counters_before::CountersBefore;
use crate::early_datagrams::{EarlyDatagrams, StreamMarks};
use crate::listener::is_passing;
use crate::protocol::{FirstDatagram, Serve};
use crate::server::{Connection, DatagramStream, Service};

/// How long a client has for its header.
const HEADER_TIME: Duration = Duration::from_secs(10);
/// How long a test waits for its other streams.
const GATHERING_TIME: Duration = Duration::from_millis(300);

/// The tests whose streams come together.
#[derive(Default)]
pub struct Server {
    pending: Mutex<Vec<PendingTest>>,
    /// Held by the one test that sends to an address that has proved nothing.
    unproven: Mutex<()>,
    count: AtomicUsize,
}

/// A test that waits for its other streams.
struct PendingTest {
    number: usize,
    client: IpAddr,
    is_udp: bool,
    request: Request,
    wanted: usize,
    members: mpsc::Sender<Member>,
}

impl Serve for Server {
    /// A test, or a stream of one.
    fn connection<'a>(&'a self, service: Service<'a>, connection: Connection<'a>) {
        let Connection { stream, peer, permit, .. } = connection;
        let Ok(request) = read_request(&stream) else { return };
        let socket: Socket = stream.into();
        let answered = match &request {
            Request::Streams(header) => acknowledge(&socket, header),
            Request::BounceBack(_) => socket.set_tcp_nodelay(true),
        };
        if answered.is_ok() {
            let member =
                Member { socket, peer, since: Instant::now(), before: None, first: 0, early: None, known: None };
            self.join(service, permit, request, 0, member);
        }
    }

    fn datagrams(&self) -> Option<&dyn StreamMarks> {
        Some(&datagram::Streams)
    }

    /// A client that is to be sent datagrams sends no stream to wait for; whether it may be is asked before it has a socket.
    fn first_datagram(&self, service: Service<'_>, _: SocketAddr, octets: &[u8]) -> FirstDatagram {
        let Some(header) = datagram::header(octets) else { return FirstDatagram::MayBegin };
        let request = Request::Streams(header);
        if !request.sends_datagrams(Workload::UdpStream) {
            return FirstDatagram::MayBegin;
        }
        match spec_of_request(&request, Workload::UdpStream, octets.len() as u32, service.limits()) {
            Ok(_) => FirstDatagram::Begins,
            Err(what) => FirstDatagram::Refused(what),
        }
    }

    fn stream<'a>(&'a self, service: Service<'a>, stream: DatagramStream<'a>) {
        let DatagramStream { socket, peer, mut start, permit, known, .. } = stream;
        let Some(first) = start.datagrams.first() else { return };
        // The first of 2.0.14's has no more than the header, the last of a video's frame what is left of it.
        let longest = start.datagrams.iter().map(Vec::len).max().unwrap_or(0);
        let (Some(header), size) = (datagram::header(first), longest as u32) else { return };
        let (since, before, first) = (start.since, start.before.take(), first.len() as u64);
        let Ok(early) = EarlyDatagrams::start(&socket, start.datagrams, since) else { return };
        let (early, known) = (Some(early), Some(known));
        let member = Member { socket, peer, since, before, first, early, known };
        self.join(service, permit, Request::Streams(header), size, member);
    }
}

impl Server {
    /// A connection joins the test that waits for it, or begins one. `size`: of a stream's first datagram.
    fn join(
        &self,
        service: Service<'_>,
        permit: ConnectionPermit<'_>,
        request: Request,
        size: u32,
        mut member: Member,
    ) {
        let (client, is_udp) = (member.peer.ip(), member.early.is_some());
        let workload = if is_udp { Workload::UdpStream } else { Workload::TcpStream };
        let spec = spec_of_request(&request, workload, if is_udp { size } else { 128 << 10 }, service.limits());
        let is_near = || !request.sends_datagrams(workload) || is_near(client);
        let spec = match spec.and_then(|spec| if is_near() { Ok(spec) } else { Err(BEYOND_A_ROUTER) }) {
            Ok(spec) => spec,
            Err(what) => return service.refuse(member.peer, what),
        };
        let mut pending = self.pending.lock();
        let fits = |one: &&mut PendingTest| {
            one.wanted > 0 && one.client == client && one.is_udp == is_udp && one.request == request
        };
        if let Some(one) = pending.iter_mut().find(fits) {
            one.wanted -= 1;
            let _ = one.members.send(member);
            return;
        }
        let wanted = usize::from(spec.streams) - 1;
        let (members, others) = mpsc::channel();
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        if wanted > 0 {
            pending.push(PendingTest { number, client, is_udp, request: request.clone(), wanted, members });
        }
        drop(pending);
        permit.set_busy();
        if wanted > 0 && member.before.is_none() {
            // Data may come while the others are awaited.
            let local = member.socket.local_addr().ok().and_then(|local| local.as_socket());
            member.before = local.and_then(CountersBefore::read);
        }
        let mut members = vec![member];
        let until = Instant::now() + GATHERING_TIME;
        while members.len() <= wanted
            && let Ok(member) = others.recv_timeout(until.saturating_duration_since(Instant::now()))
        {
            members.push(member);
        }
        self.pending.lock().retain(|one| one.number != number);
        members.extend(others.try_iter());
        if request.is_address_check() {
            return members.into_iter().for_each(|member| answer_address_check(member, &|| service.is_over()));
        }
        self.conduct(service, permit, request, &spec, members);
    }

    /// Has the test, if it may be had now.
    fn conduct(
        &self,
        service: Service<'_>,
        permit: ConnectionPermit<'_>,
        request: Request,
        spec: &Spec,
        mut members: Vec<Member>,
    ) {
        let (peer, socket) = (members[0].peer, &members[0].socket);
        let Some(local) = socket.local_addr().ok().and_then(|local| local.as_socket()) else { return };
        // Beyond the limits nobody is served: there is no word for it but to close.
        let test = service.begin((peer, local), spec, None);
        drop(permit);
        let Some(mut test) = test else { return };
        // Somebody who forges many clients has no more sent than one who forges one.
        let alone = request.sends_datagrams(spec.workload).then(|| self.unproven.try_lock());
        if matches!(alone, Some(None)) {
            let what = "asked for datagrams while they were sent to another that is unproven";
            return service.refuse(peer, what);
        }
        let since = members.iter().map(|member| member.since).min();
        let counted = members.iter_mut().filter(|member| member.before.is_some());
        let before = counted.min_by_key(|member| member.since).and_then(|member| member.before.take());
        test.set_began(since.unwrap_or_else(Instant::now), before);
        test.version = request.version();
        let ended = Session { request, spec: spec.clone(), members, test: &test }.run();
        test.finish(ended);
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

/// The next octets of a connection, which stay in its buffer (MSG_PEEK).
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
