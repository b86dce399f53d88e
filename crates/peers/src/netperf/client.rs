//! A netperf client: one test against a netserver, through linerate's own data path.
//! Knows no records; what both ends saw is returned.
//!
//! ```text
//!   each flow:  control ─→ request ─→ response with a port ─→ data socket, to the server's own address, whatever is said
//!   then:       one trial of all flows ─→ results on each control connection ─→ our close, and the server's
//! ```
//! A netserver has a process for each connection, so that parallel streams are tests at the same time.

use std::io::{self, ErrorKind, Read};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use linerate_host::traffic::reachability::{ProvenPeer, Reach};
use linerate_host::traffic::{Adopted, Progress, TrafficError, Trial};
use linerate_trial::flow::{End, Flow};
use linerate_trial::outcome::{Outcome, Role};
use linerate_trial::spec::{Spec, Workload};
use socket2::{Domain, Protocol, Socket, Type};

use super::mapping::{PAD, check_client, outcome_of, request_of};
use super::message::{Message, UNKNOWN_TEST};
use super::omni::Response;
use super::results::Results;
use super::sockets::{bound, connected, framing, port, send_end_mark};
use crate::deadline::Timed;
use crate::listener::is_passing;
use crate::test::{Place, await_close, await_closes, await_end, exhausted};

/// How long the server has to take a connection.
const CONNECT_TIME: Duration = Duration::from_secs(10);
/// How long it has for a message. One that measures CPU use by a method of its own may calibrate first.
const MESSAGE_TIME: Duration = Duration::from_secs(20);
/// How long it has for its results once this end has ended, and to end the data connection: that it waits for datagrams
/// that were lost is part of it.
const CLOSING_TIME: Duration = Duration::from_secs(PAD.as_secs() + 4);
/// How often, and how long, the end of datagrams is said again.
const END_MARK_PERIOD: Duration = Duration::from_millis(100);
const END_MARK_TIME: Duration = Duration::from_secs(2);
/// How often something that has no bell is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// One test of the host against a netserver, which is the target: this end's account, and the server's as far as it
/// tells. The error is one sentence that ends in what to try.
pub fn run(
    spec: &Spec,
    place: &Place,
    notify: impl Fn(Progress) + Send + 'static,
    stopped: &dyn Fn() -> bool,
) -> Result<[Outcome; 2], String> {
    check_client(spec)?;
    let test = Test { spec, place, stopped };
    test.run(notify).map_err(|error| test.sentence(error))
}

struct Test<'a> {
    spec: &'a Spec,
    place: &'a Place,
    stopped: &'a dyn Fn() -> bool,
}

/// What went wrong.
enum Error {
    /// The server is not there.
    Unreachable(io::Error),
    /// While this was being done.
    Talking(&'static str, io::Error),
    /// The server says so.
    Refused(i32),
    /// A sentence of this end.
    Own(String),
}

impl From<TrafficError> for Error {
    fn from(error: TrafficError) -> Error {
        Error::Own(error.to_string())
    }
}

/// There is no socket or thread for it.
impl From<io::Error> for Error {
    fn from(error: io::Error) -> Error {
        Error::Own(exhausted(&error))
    }
}

/// A flow that a server is prepared for.
struct Link {
    flow: Flow,
    control: TcpStream,
    response: Response,
    /// The server's address, which is the one that was connected to.
    proven: ProvenPeer,
    /// Where its data socket is.
    at: SocketAddr,
    /// When the response was there.
    since: Instant,
    /// This end's socket of datagrams.
    datagrams: Option<Socket>,
}

impl Link {
    fn adopted(&self, flow: Flow, socket: Socket) -> Adopted {
        match flow.workload {
            Workload::TcpCrr => Adopted::asking(flow, socket, self.at),
            workload if workload.is_udp() => Adopted::new(flow, socket, Reach::Proven(self.proven)),
            _ => Adopted::new(flow, socket, Reach::Connected),
        }
    }
}

impl Test<'_> {
    fn run(&self, notify: impl Fn(Progress) + Send + 'static) -> Result<[Outcome; 2], Error> {
        let mut links = Flow::of(self.spec).into_iter().map(|flow| self.link(flow)).collect::<Result<Vec<_>, _>>()?;
        let mut open = Vec::new();
        for link in &mut links {
            open.push(self.open(link).map_err(|error| Error::Talking("the data connection was opened", error))?);
        }
        let held = open.iter().map(|(_, socket)| socket.try_clone()).collect::<io::Result<Vec<_>>>()?;
        let open = links.iter().zip(open).map(|(link, (flow, socket))| link.adopted(flow, socket)).collect();
        let Place { local, interface, .. } = self.place;
        let arriving = self.await_data(&links, &held)?;
        // With a warm-up the figures begin later.
        let arriving = arriving.filter(|_| self.spec.warmup.is_zero());
        let since = move |_| arriving.map_or(Duration::ZERO, |since| since.elapsed());
        let trial =
            Trial::adopt(self.spec.clone(), framing(since), End::Host, *local, interface.clone(), open, notify)?;
        let began = Instant::now();
        trial.start();
        let closed = self.watch(&trial, &links, &held);
        let closed = match closed {
            Ok(closed) => closed,
            Err(error) => {
                trial.stop();
                return Err(error);
            }
        };
        let outcome = trial.join()?;
        // Until then a server that sends waits for this end to close too.
        drop(held);
        let mut told = Vec::new();
        for link in &links {
            told.push((link.flow, link.response.clone(), self.results(&link.control)?));
        }
        let mut target = outcome_of(self.spec, &told, &outcome);
        for (far, near) in target.flows.iter_mut().zip(&outcome.flows) {
            let Some(link) = links.iter().find(|link| link.flow.id == far.id) else { continue };
            if far.role != Role::Receiver {
                continue;
            }
            // The server's clock runs from before this end began; the time in which nothing can have come is none of the
            // stream's. What it read last, it read before it closed.
            let close = closed.iter().find(|(id, _)| *id == far.id).map(|(_, at)| at.duration_since(began));
            let waited = began.duration_since(link.since).as_nanos() as u64;
            let least = close.map_or(near.elapsed_ns, |close| close.as_nanos() as u64);
            let told = if far.elapsed_ns < least / 2 { least } else { far.elapsed_ns };
            far.elapsed_ns = told.saturating_sub(waited).max(least).min(told);
        }
        Ok([target, outcome])
    }

    /// Has the server prepare for a flow.
    fn link(&self, flow: Flow) -> Result<Link, Error> {
        let server = self.place.server;
        let control = self.connect().map_err(Error::Unreachable)?;
        let _ = control.set_nodelay(true);
        let datagrams = flow.workload.is_udp().then(|| bound(self.spec, self.place.near(0)));
        let datagrams = datagrams.transpose().map_err(|error| {
            let local = self.place.local;
            Error::Own(format!(
                "cannot open a socket for datagrams at {local}: {error}; see that an interface that is up has this address"
            ))
        })?;
        let own_port = datagrams.as_ref().and_then(|socket| port(socket).ok()).unwrap_or(0);
        request_of(self.spec, flow, server.is_ipv4(), own_port)
            .emit()
            .write(&mut Timed::new(&control, MESSAGE_TIME))
            .map_err(|error| Error::Talking("the test was asked for", error))?;
        let answer = self.hear(&control, MESSAGE_TIME, "its answer was awaited")?;
        let response = Response::parse(&answer);
        let nonsense = || {
            Error::Own(format!(
                "the netserver at {server} named {} as the port of its data; check what listens there",
                response.data_port
            ))
        };
        let data_port = u16::try_from(response.data_port).ok().filter(|port| *port != 0).ok_or_else(nonsense)?;
        let proven = ProvenPeer::by_connection(&control)
            .map_err(|error| Error::Talking("the data connection was opened", error))?;
        let at = proven.at(data_port);
        Ok(Link { flow, control, response, proven, at, since: Instant::now(), datagrams })
    }

    /// The flow's data socket.
    fn open(&self, link: &mut Link) -> io::Result<(Flow, Socket)> {
        let flow = link.flow;
        if flow.workload == Workload::TcpCrr {
            // Each request has a connection of its own; what is open all the time is the control connection.
            return Ok((flow, link.control.try_clone()?.into()));
        }
        let socket = match link.datagrams.take() {
            Some(socket) => {
                socket.connect(&link.at.into())?;
                socket
            }
            None => connected(self.spec, self.place.local, link.at, CONNECT_TIME)?,
        };
        Ok((flow, socket))
    }

    /// When the first octets were there of a server that sends, which it does without being asked.
    fn await_data(&self, links: &[Link], held: &[Socket]) -> Result<Option<Instant>, Error> {
        let awaited = |error| Error::Talking("its data was awaited", error);
        let is_sent = |link: &Link| link.flow.workload.is_stream() && link.flow.source == End::Target;
        let Some((_, socket)) = links.iter().zip(held).find(|(link, _)| is_sent(link)) else { return Ok(None) };
        let stream: TcpStream = socket.try_clone().map_err(awaited)?.into();
        stream.set_read_timeout(Some(MESSAGE_TIME)).map_err(awaited)?;
        stream.peek(&mut [0]).map_err(awaited)?;
        Ok(Some(Instant::now()))
    }

    fn connect(&self) -> io::Result<TcpStream> {
        let server = self.place.server;
        let socket = Socket::new(Domain::for_address(server), Type::STREAM, Some(Protocol::TCP))?;
        socket.bind(&self.place.near(0).into())?;
        socket.connect_timeout(&server.into(), CONNECT_TIME)?;
        Ok(socket.into())
    }

    /// Until this end's flows have ended, and the server has read what they sent. Returns when it closed those.
    fn watch(&self, trial: &Trial, links: &[Link], held: &[Socket]) -> Result<Vec<(u16, Instant)>, Error> {
        // What this end sends on, only the server's close comes back on.
        let sends = |flow: Flow| flow.workload == Workload::TcpStream && flow.source == End::Host;
        let (ids, sending): (Vec<u16>, Vec<&Socket>) = links
            .iter()
            .zip(held)
            .filter(|(link, _)| sends(link.flow))
            .map(|(link, held)| (link.flow.id, held))
            .unzip();
        let closed = await_closes(&sending, CLOSING_TIME, self.stopped, || {
            self.await_end(trial)?;
            if self.spec.workload.is_udp() {
                self.send_end_marks(links, held);
            } else {
                links.iter().zip(held).for_each(|(link, socket)| self.say_end(link, socket));
            }
            Ok::<_, Error>(())
        })?;
        Ok(ids.into_iter().zip(closed).filter_map(|(id, at)| Some((id, at?))).collect())
    }

    /// Until this end's flows have ended.
    fn await_end(&self, trial: &Trial) -> Result<(), Error> {
        let most = self.spec.expected_time().map_or(Duration::MAX, |time| time + CLOSING_TIME);
        if await_end(trial, most, self.stopped) { Ok(()) } else { Err(Error::Own("the trial was stopped".to_owned())) }
    }

    /// Tells the server that datagrams are over: a full queue on the way may lose all that the protocol has, so again until
    /// its results come.
    fn send_end_marks(&self, links: &[Link], held: &[Socket]) {
        let until = Instant::now() + END_MARK_TIME;
        let mut unheard: Vec<_> = links.iter().zip(held).collect();
        while !unheard.is_empty() && Instant::now() < until && !(self.stopped)() {
            unheard.iter().for_each(|(_, socket)| send_end_mark(socket));
            thread::sleep(END_MARK_PERIOD);
            unheard.retain(|(link, _)| {
                let _ = link.control.set_read_timeout(Some(LOOK_AGAIN));
                link.control.peek(&mut [0]).is_err_and(|error| is_passing(&error))
            });
        }
    }

    /// Tells the server that a flow is over, where the flow's connection does not.
    fn say_end(&self, link: &Link, socket: &Socket) {
        match link.flow.workload {
            // Responses may be under way; a server whose connection breaks over them has no results.
            Workload::TcpRr => {
                let until = Instant::now() + CLOSING_TIME;
                await_close(socket, || until, self.stopped);
            }
            // A connection without a request.
            Workload::TcpCrr => {
                if let Ok(socket) = connected(self.spec, self.place.local, link.at, CONNECT_TIME) {
                    let _ = socket.shutdown(Shutdown::Write);
                    let until = Instant::now() + CLOSING_TIME;
                    await_close(&socket, || until, self.stopped);
                }
            }
            Workload::TcpStream | Workload::UdpStream | Workload::UdpRr => {}
        }
    }

    /// The server's next message, which must be a good one.
    fn hear(&self, control: &TcpStream, time: Duration, what: &'static str) -> Result<Message, Error> {
        let message = Message::read(&mut Timed::new(control, time));
        let message = message.and_then(|message| message.ok_or_else(|| ErrorKind::UnexpectedEof.into()));
        let message = message.map_err(|error| Error::Talking(what, error))?;
        if message.second == 0 { Ok(message) } else { Err(Error::Refused(message.second)) }
    }

    fn results(&self, control: &TcpStream) -> Result<Results, Error> {
        let results = Results::parse(&self.hear(control, CLOSING_TIME, "its results were awaited")?);
        let _ = control.shutdown(Shutdown::Write);
        let _ = io::copy(&mut Timed::new(control, Duration::from_secs(1)).take(1024), &mut io::sink());
        Ok(results)
    }

    fn sentence(&self, error: Error) -> String {
        let server = self.place.server;
        match error {
            Error::Own(sentence) => sentence,
            Error::Unreachable(error) => format!(
                "cannot reach a netserver at {server}: {error}; start 'netserver' there, and check cable and firewalls"
            ),
            Error::Talking(what, error) => {
                let why = match error.kind() {
                    ErrorKind::TimedOut => "it was silent; see whether something else listens there".to_owned(),
                    ErrorKind::UnexpectedEof => {
                        "it closed the connection; if it was started with a passphrase (-Z), start it without"
                            .to_owned()
                    }
                    _ => format!("{error}; check the cable and its log, and try again"),
                };
                format!("the netserver at {server} was lost while {what}: {why}")
            }
            Error::Refused(UNKNOWN_TEST) => {
                format!("the netserver at {server} has no omni tests; install netperf 2.5 or later there")
            }
            Error::Refused(errno) => format!(
                "the netserver at {server} refused: {}; choose another of the options that it has to meet",
                io::Error::from_raw_os_error(errno)
            ),
        }
    }
}
