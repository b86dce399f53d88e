//! One test of an iperf2 client, from its header to its end; two where the client wants one way after the other.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use linerate_host::traffic::reachability::{AmplificationLimit, SendPermission};
use linerate_host::traffic::{Adopted, Early, Framing};
use linerate_machine::end::{Direction, End};
use linerate_trial::flow::Flow;
use linerate_trial::outcome::Outcome;
use linerate_trial::spec::{Extent, Spec, Workload};
use socket2::Socket;

use super::bounce_back;
use super::datagram::{self, Numbers, PREFIX_LEN};
use super::header::{AT_ONCE, EPOCH_START, FULL_DUPLEX, Header, NO_UDP_FIN, REVERSE, TRIP_TIMES, VERSION1, ack};
use super::mapping::{VERSION, is_address_check, report_of, reported, spec_of};
use super::report::Report;
use super::sockets::{MOST_END_MARK, await_report, framing, stream};
use crate::counters_before::CountersBefore;
use crate::deadline::Timed;
use crate::early_datagrams::EarlyDatagrams;
use crate::error::Error;
use crate::limits::Limits;
use crate::listener::{LOOK_FOR_END, is_passing};
use crate::remote_end::remote_end;
use crate::server::{EndedTrial, KnownSender, ServerTest};
use crate::socket_options::{apply, open_listening};
use crate::wait::{await_client, join, mark_cut_short};

/// How often something is looked at that wakes nobody.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// Threads that say something and wait.
const STACK: usize = 256 << 10;
/// How late a client may end, of a machine that is busy or a queue that is long.
const LATE: Duration = Duration::from_secs(40);
/// How long a client has for a message, or to listen where it wants a connection back.
const MESSAGE_TIME: Duration = Duration::from_secs(10);
const BACK_TIME: Duration = Duration::from_secs(3);
/// How long a client may wait for the time at which it begins.
const START_TIME: Duration = Duration::from_secs(60);
/// How long a client is silent once it has its report, and how often it gets that until then.
const SILENCE: Duration = Duration::from_millis(250);
const REPORTS: usize = 10;
/// How long a session that asks for an answer alone may take, and the most datagrams that it has.
const CHECK_TIME: Duration = Duration::from_secs(2);
const MOST_CHECKS: usize = 64;
/// How often a client that receives is told that the stream is over, which it does not answer.
const END_MARKS: u64 = 3;

/// What a client asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Streams, as a header says.
    Streams(Header),
    /// Answers to requests of this many octets.
    BounceBack(u32),
}

impl Request {
    /// Whether this end is to send datagrams.
    pub fn sends_datagrams(&self, workload: Workload) -> bool {
        let Request::Streams(header) = self else { return false };
        let sends = header.has(REVERSE) || header.has(FULL_DUPLEX) || header.flags & VERSION1 != 0;
        workload == Workload::UdpStream && sends
    }

    /// The client's version, where it tells.
    pub fn version(&self) -> Option<String> {
        if let Request::Streams(header) = self { header.version() } else { None }
    }

    /// Whether it is no test; see [`is_address_check`].
    pub fn is_address_check(&self) -> bool {
        matches!(self, Request::Streams(header) if is_address_check(header))
    }
}

/// A connection of a test.
pub struct Member {
    /// Connected to the client.
    pub socket: Socket,
    /// Where it comes from.
    pub peer: SocketAddr,
    /// When its first octets were there.
    pub since: Instant,
    /// The counters at that time, where they were read.
    pub before: Option<CountersBefore>,
    /// Octets of the first datagram.
    pub first: u64,
    /// What comes on it until the test has begun, of a connection of datagrams.
    pub early: Option<EarlyDatagrams>,
    /// Keeps the server's port from taking what comes of this client for a new test.
    pub known: Option<KnownSender>,
}

/// A test.
pub struct Session<'a> {
    /// What is asked for.
    pub request: Request,
    /// As a trial.
    pub spec: Spec,
    /// Its connections, one at least.
    pub members: Vec<Member>,
    /// Its place.
    pub test: &'a ServerTest<'a>,
}

/// The trial that a request comes to.
pub fn spec_of_request(
    request: &Request,
    workload: Workload,
    size: u32,
    limits: &Limits,
) -> Result<Spec, &'static str> {
    match request {
        Request::Streams(header) => spec_of(header, workload, size, limits),
        Request::BounceBack(size) => super::mapping::bounce_back(*size, limits),
    }
}

/// Answers a TCP client's header where it wants that.
pub fn acknowledge(socket: &Socket, header: &Header) -> io::Result<()> {
    if !header.wants_ack() {
        return Ok(());
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = [now.as_secs() as u32, now.subsec_micros()];
    // When the client sent, the client knows; its own time stands after the extension, which not every version has.
    let times = header.has(TRIP_TIMES).then_some([now[0], now[1], now[0], now[1], now[0], now[1]]);
    let stream = stream(socket)?;
    Timed::new(&stream, MESSAGE_TIME).write_all(&ack(VERSION, times))?;
    stream.set_write_timeout(None)
}

impl Session<'_> {
    /// The test; of two, reports the first.
    pub fn run(mut self) -> EndedTrial {
        self.spec.streams = self.members.len() as u16;
        let ended = self.part(self.spec.clone(), true);
        let goes_back = |header: &Header| header.flags & VERSION1 != 0 && header.flags & AT_ONCE == 0;
        // A client that has left in the first half listens for no other.
        let is_whole = ended.1.as_ref().is_ok_and(|outcomes| !outcomes[0].ended_early);
        if !is_whole || !matches!(&self.request, Request::Streams(header) if goes_back(header)) {
            return ended;
        }
        self.test.part(ended);
        self.part(Spec { direction: Direction::Tx, ..self.spec.clone() }, false)
    }

    fn part(&mut self, mut spec: Spec, own: bool) -> EndedTrial {
        let ended = self.conduct(&spec, own);
        // What a client does not say, its test has shown.
        if let (Request::BounceBack(_), Ok(outcomes)) = (&self.request, &ended) {
            let ns = outcomes[0].flows.iter().map(|flow| flow.elapsed_ns).max().unwrap_or(0);
            spec.extent = Extent::Time(Duration::from_millis((ns / 1_000_000).max(10)));
        }
        (spec, ended)
    }

    /// `own`: on the client's connections; else on such as this end opens alone.
    fn conduct(&mut self, spec: &Spec, own: bool) -> Result<Box<[Outcome; 2]>, Error> {
        let streams = self.streams(spec, own).map_err(Error::client("is not reached"))?;
        let held = streams.iter().map(|(flow, socket)| Ok((*flow, socket.try_clone()?)));
        let held = held.collect::<io::Result<Vec<(Flow, Socket)>>>()?;
        self.await_start(spec, &held).map_err(Error::client("did not begin"))?;
        let framing = self.framing(spec);
        let adopted = streams.into_iter().map(|(flow, socket)| Adopted::new(flow, socket, self.reach(flow))).collect();
        let trial = self.test.adopt(spec.clone(), framing, adopted)?;
        trial.start();
        let most = spec.expected_time().unwrap_or(self.test.limits().time()) + LATE;
        let awaited = await_client(&trial, most, &|| self.test.is_over());
        if !spec.workload.is_udp() {
            // A client takes the time of its stream until this end of it.
            held.iter().for_each(|(_, socket)| drop(socket.shutdown(Shutdown::Write)));
        }
        let mut outcome = join(trial, awaited)?;
        if matches!(self.request, Request::Streams(_)) {
            mark_cut_short(&mut outcome, spec, self.test.limits());
        }
        let remote = self.finish(spec, &mut outcome, &held);
        Ok(Box::new([outcome, remote]))
    }

    /// Until a client begins that says first that it will at a certain time: the time of its streams is from then on.
    fn await_start(&mut self, spec: &Spec, held: &[(Flow, Socket)]) -> io::Result<()> {
        let Request::Streams(header) = &self.request else { return Ok(()) };
        if spec.workload != Workload::TcpStream || spec.direction != Direction::Rx || !header.has(EPOCH_START) {
            return Ok(());
        }
        let (until, mut octets) = (Instant::now() + START_TIME, vec![0; Header::len(header.flags).unwrap_or(0) + 1]);
        for ((_, socket), member) in held.iter().zip(&mut self.members) {
            let stream = stream(socket)?;
            stream.set_read_timeout(Some(LOOK_AGAIN))?;
            // Until more is there than the header.
            loop {
                match stream.peek(&mut octets) {
                    Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                    Ok(len) if len == octets.len() => break,
                    Ok(_) => thread::sleep(LOOK_AGAIN),
                    Err(error) if is_passing(&error) => {}
                    Err(error) => return Err(error),
                }
                if self.test.is_over() || Instant::now() > until {
                    return Err(io::ErrorKind::TimedOut.into());
                }
            }
            stream.set_read_timeout(None)?;
            member.since = Instant::now();
        }
        Ok(())
    }

    /// Why this end may send on a flow, if it does.
    fn reach(&self, flow: Flow) -> SendPermission {
        match (flow.workload.is_udp(), flow.source, self.test.limits().unproven) {
            (false, ..) => SendPermission::Connected,
            (true, End::Target, Some(limit)) => SendPermission::Unproven(limit),
            (true, ..) => SendPermission::Silent,
        }
    }

    /// The sockets of the trial's flows, in the order of their numbers.
    fn streams(&self, spec: &Spec, own: bool) -> io::Result<Vec<(Flow, Socket)>> {
        let back = match &self.request {
            Request::Streams(header) if header.flags & VERSION1 != 0 => Some(header.back_port),
            _ => None,
        };
        let mut own = own.then(|| self.members.iter().cycle()).into_iter().flatten();
        let flows = Flow::of(spec).into_iter().map(|flow| {
            let socket = match back.filter(|_| flow.source == End::Target) {
                Some(port) => {
                    let mut at = self.members[0].peer;
                    at.set_port(port);
                    open_listening(spec, self.test.local.ip(), at, BACK_TIME, &|| self.test.is_over())?.0
                }
                None => {
                    let member = own.next().ok_or(io::ErrorKind::NotConnected)?;
                    let socket = member.socket.try_clone()?;
                    apply(&socket, spec)?;
                    if spec.direction == Direction::Tx && !spec.workload.is_udp() {
                        self.take_header(&socket)?;
                    }
                    socket
                }
            };
            Ok((flow, socket))
        });
        flows.collect()
    }

    /// Reads the header of a client that sends nothing else: what nobody has read makes closing a reset.
    fn take_header(&self, socket: &Socket) -> io::Result<()> {
        let Request::Streams(header) = &self.request else { return Ok(()) };
        let len = Header::len(header.flags).unwrap_or(0);
        let stream = stream(socket)?;
        Timed::new(&stream, MESSAGE_TIME).read_exact(&mut vec![0; len])?;
        stream.set_read_timeout(None)
    }

    fn framing(&mut self, spec: &Spec) -> Framing {
        let numbers = match &self.request {
            Request::Streams(header) => Numbers::of(header.flags),
            Request::BounceBack(_) => Numbers::Long,
        };
        // Requests wait for their answers, and are timed by who asks.
        let since: Vec<Instant> = self.members.iter().map(|member| member.since).collect();
        let is_stream = spec.workload == Workload::TcpStream;
        let mut receiving = Flow::of(spec);
        receiving.retain(|flow| flow.source == End::Host);
        let receiving: Vec<u16> = receiving.into_iter().map(|flow| flow.id).collect();
        // All of them: one that is left would hear of refusals, which are for who sends on its socket.
        let mut early: Vec<Option<EarlyDatagrams>> =
            self.members.iter_mut().map(|member| member.early.take()).collect();
        let unused = early.split_off(receiving.len().min(early.len()));
        unused.into_iter().flatten().for_each(|early| drop(early.take()));
        let early: Vec<_> = receiving.into_iter().zip(early.into_iter().zip(since)).collect();
        framing(spec, numbers, Vec::new(), move |id| match early.iter().find(|(flow, _)| *flow == id) {
            Some((_, (Some(early), _))) => early.take(),
            Some((_, (None, since))) if is_stream => Early { datagrams: Vec::new(), since: Some(*since) },
            _ => Early::default(),
        })
    }

    /// What the protocol says after the data. Returns what is known of the client's end.
    fn finish(&self, spec: &Spec, outcome: &mut Outcome, held: &[(Flow, Socket)]) -> Outcome {
        let mut remote = remote_end(spec, outcome);
        if spec.workload != Workload::UdpStream {
            return remote;
        }
        let Request::Streams(header) = &self.request else { return remote };
        // What remains is to wait for a report to be asked for again: that keeps nobody out.
        self.test.set_over();
        let is_back = |flow: &Flow| flow.source == End::Target && header.flags & VERSION1 != 0;
        let size = spec.message_octets() as usize;
        let mut firsts = self.members.iter().map(|member| member.first);
        thread::scope(|scope| {
            for (flow, socket) in held {
                let Some(ours) = outcome.flows.iter().find(|ours| ours.id == flow.id).cloned() else { continue };
                // A machine that has no thread for it leaves its client to its own time-out.
                let thread = thread::Builder::new().stack_size(STACK);
                if flow.source == End::Host && !header.has(NO_UDP_FIN) {
                    let others = ours.messages_total.saturating_sub(1) * PREFIX_LEN as u64;
                    let answers = AmplificationLimit::to(firsts.next().unwrap_or(0) + others);
                    let _ = thread.spawn_scoped(scope, move || {
                        report(socket, &report_of(&ours).emit(), answers, &|| self.test.is_over())
                    });
                } else if flow.source == End::Target && !is_back(flow) {
                    let _ = thread.spawn_scoped(scope, move || send_end_mark(socket, size, ours.messages_total));
                }
            }
        });
        for (flow, socket) in held.iter().filter(|(flow, _)| is_back(flow) && !self.test.is_over()) {
            let Some(ours) = outcome.flows.iter_mut().find(|ours| ours.id == flow.id) else { continue };
            let (heard, repeats) = await_report(socket, &[], size, ours.messages_total);
            ours.end_marks = repeats;
            remote.flows.extend(heard.and_then(|heard| reported(ours, &heard, repeats)));
        }
        remote.flows.sort_by_key(|flow| flow.id);
        remote
    }
}

/// Sends a report until the client is silent. It may have been forged, so nobody gets more than came in their name.
fn report(socket: &Socket, octets: &[u8], mut answers: AmplificationLimit, over: &dyn Fn() -> bool) {
    let Ok(udp) = socket.try_clone().map(UdpSocket::from) else { return };
    let _ = udp.set_read_timeout(Some(LOOK_FOR_END));
    let mut buffer = [0; 64];
    for _ in 0..REPORTS {
        if !answers.send(socket, octets).unwrap_or(false) {
            return;
        }
        let asked = Instant::now();
        let heard = loop {
            match udp.recv(&mut buffer) {
                Err(error) if is_passing(&error) && asked.elapsed() < SILENCE && !over() => {}
                heard => break heard,
            }
        };
        let Ok(len) = heard else { return };
        answers.received(len as u64);
        // Several of the last datagram may stand in the queue; they are one question.
        let asked = Instant::now();
        while asked.elapsed() < LOOK_AGAIN
            && let Ok(len) = udp.recv(&mut buffer)
        {
            answers.received(len as u64);
        }
    }
}

/// Says again that a stream is over, to a client that does not answer.
fn send_end_mark(socket: &Socket, size: usize, number: u64) {
    let mut last = vec![0; size.min(MOST_END_MARK)];
    for again in 1..=END_MARKS {
        thread::sleep(LOOK_AGAIN * 2);
        datagram::emit_last(number + again, 0, &mut last);
        if socket.send(&last).is_err() {
            return;
        }
    }
}

/// Answers a session that asks for no more: how many octets came.
pub fn answer_address_check(mut member: Member, over: &dyn Fn() -> bool) {
    let Some(early) = member.early.take() else { return };
    let Ok(udp) = member.socket.try_clone().map(UdpSocket::from) else { return };
    let mut came = early.take().datagrams;
    let _ = udp.set_read_timeout(Some(SILENCE));
    let (until, mut buffer) = (Instant::now() + CHECK_TIME, [0; 2048]);
    while !came.iter().any(|octets| datagram::is_last(Numbers::Long, octets)) {
        if Instant::now() > until || came.len() > MOST_CHECKS || over() {
            return;
        }
        if let Ok(len) = udp.recv(&mut buffer) {
            came.push(buffer[..len].to_vec());
        }
    }
    // A client that has no answer yet says its last datagram again.
    if let Some(last) = came.iter().position(|octets| datagram::is_last(Numbers::Long, octets)) {
        came.truncate(last + 1);
    }
    let octets = came.iter().map(|octets| octets.len() as u64).sum();
    let numbers = came.iter().filter_map(|octets| datagram::number(Numbers::Long, octets));
    let datagrams = numbers.map(i64::unsigned_abs).max().unwrap_or(0);
    let lost = datagrams.saturating_sub(came.len() as u64);
    let said = Report { octets, datagrams, lost, ..Report::default() };
    report(&member.socket, &said.emit(), AmplificationLimit::to(octets), over);
}

/// The size of the requests of a client whose connection begins with these octets.
pub fn bounce_back(octets: &[u8]) -> Option<Request> {
    bounce_back::size(octets).map(Request::BounceBack)
}
