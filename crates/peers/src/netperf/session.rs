//! One control connection of a netperf client: its messages, and a test for each request.
//! Knows no listening sockets but those of a test's data.

use std::io::{self, ErrorKind, Read};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use linerate_host::environment;
use linerate_host::interfaces;
use linerate_host::traffic::reachability::{ProvenPeer, Reach};
use linerate_host::traffic::{Adopted, Progress, TrafficError, Trial};
use linerate_trial::environment::Environment;
use linerate_trial::flow::{End, Flow};
use linerate_trial::outcome::Outcome;
use linerate_trial::spec::{Direction, Extent, Spec, Workload};
use socket2::Socket;

use super::mapping::{PAD, Refused, errno, results_of, spec_of};
use super::message::{
    CLASSIC, CPU_CALIBRATE, DEBUG_OFF, DEBUG_OK, DEBUG_ON, DO_OMNI, Message, OMNI_RESPONSE, PASSPHRASE, UNKNOWN_TEST,
    WHOLE, calibration,
};
use super::omni::{Request, Response};
use super::sockets::{bound, framing, port};
use crate::connection_limit::{ConnectionLimit, ConnectionPermit};
use crate::deadline::Timed;
use crate::listener::is_passing;
use crate::remote_end::remote_end;
use crate::served_test::{Limits, ServedTest};
use crate::test::{self, await_close};
use crate::test_limit::{TestDemand, TestPermit, memory_of};

/// How long a client has for its first message, to open its data connection, and to close it.
const MESSAGE_TIME: Duration = Duration::from_secs(10);
/// How long it may think before it asks for another test.
const IDLE_TIME: Duration = Duration::from_secs(60);
/// How often something is looked at that may have ended everything.
const LOOK_FOR_END: Duration = Duration::from_millis(50);
/// How often something that has no bell is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(2);
/// How long a client may be late with what ends a series of connections.
const LATE: Duration = Duration::from_secs(1);

/// A control connection.
pub struct Session<'a> {
    /// It.
    pub control: TcpStream,
    /// Where it comes from.
    pub peer: SocketAddr,
    /// Where it came to.
    pub local: SocketAddr,
    /// What is allowed.
    pub limits: &'a Limits,
    /// Where it waits between its tests.
    pub strangers: &'a ConnectionLimit,
    /// Whether the server is to end.
    pub over: &'a (dyn Fn() -> bool + Sync),
    /// ServerReport of each test.
    pub heard: &'a (dyn Fn(ServedTest) + Sync),
    /// ServerReport of each that is not had, as "asked for …".
    pub refused: &'a dyn Fn(&str),
}

/// What a message asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// How fast the CPUs are.
    Calibration,
    /// That there is more or less in a log.
    Logging,
    /// Nothing: it is a passphrase. None is wanted here, so that each is right, and the right one is not answered.
    Nothing,
    /// A test.
    Test(Box<Request>),
    /// A test by a message of clients before 2.5, called so.
    Classic(&'static str),
    /// What nobody knows.
    Unknown,
}

/// What a client's message asks for.
pub fn understand(message: &Message) -> Asked {
    match message.kind {
        CPU_CALIBRATE => Asked::Calibration,
        DEBUG_ON | DEBUG_OFF => Asked::Logging,
        PASSPHRASE => Asked::Nothing,
        DO_OMNI => Asked::Test(Box::new(Request::parse(message))),
        kind => {
            let classic = CLASSIC.iter().find(|(classic, _)| *classic == kind);
            classic.map_or(Asked::Unknown, |(_, name)| Asked::Classic(name))
        }
    }
}

/// Why there are no results: what the client is told, and a sentence for the user here.
type Failed = (i32, String);

impl Session<'_> {
    /// Until the client has no more to say, says nonsense, or is silent for too long.
    pub fn run(&self, stranger: ConnectionPermit<'_>) {
        let _ = self.control.set_nodelay(true);
        let mut stranger = Some(stranger);
        let mut time = MESSAGE_TIME;
        while let Ok(Some(message)) = self.next(time) {
            time = IDLE_TIME;
            let answered = match understand(&message) {
                Asked::Calibration => self.say(&calibration(cpus())),
                Asked::Logging => self.say(&Message::new(DEBUG_OK, 0)),
                Asked::Nothing => Ok(()),
                Asked::Test(request) => self.test(&request, &mut stranger),
                Asked::Classic(name) => {
                    (self.refused)(&format!(
                        "asked for {name} as netperf before 2.5 did; install netperf 2.5 or later there"
                    ));
                    self.say(&Message::new(message.kind + 1, UNKNOWN_TEST))
                }
                Asked::Unknown => self.say(&Message::new(message.kind, UNKNOWN_TEST)),
            };
            if answered.is_err() {
                break;
            }
        }
        // Both sides' last words are on their way; what a client still says, it says to nobody.
        let _ = self.control.shutdown(Shutdown::Write);
        let _ = io::copy(&mut Timed::new(&self.control, LATE).take(4096), &mut io::sink());
    }

    /// The next message, once it comes.
    fn next(&self, time: Duration) -> io::Result<Option<Message>> {
        let until = Instant::now() + time;
        self.control.set_read_timeout(Some(LOOK_FOR_END))?;
        loop {
            match self.control.peek(&mut [0]) {
                Ok(_) => return Message::read(&mut Timed::new(&self.control, MESSAGE_TIME)),
                Err(error) if is_passing(&error) && !(self.over)() && Instant::now() < until => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn say(&self, message: &Message) -> io::Result<()> {
        message.write(&mut Timed::new(&self.control, MESSAGE_TIME))
    }

    /// A test, if it is allowed, and its results or an errno.
    fn test<'s>(&'s self, request: &Request, stranger: &mut Option<ConnectionPermit<'s>>) -> io::Result<()> {
        let refuse = |(errno, what): Refused| {
            (self.refused)(what);
            self.say(&Message::new(OMNI_RESPONSE, errno))
        };
        let spec = match spec_of(request, self.local.is_ipv4(), self.limits) {
            Ok(spec) => spec,
            Err(refused) => return refuse(refused),
        };
        let wanted = TestDemand {
            server: "netperf",
            most: self.limits.tests,
            memory: memory_of(&spec),
            proven: true,
            control: Some(&self.control),
        };
        let Some(place) = self.limits.memory.take(wanted) else {
            return refuse((errno::EBUSY, "came while as many tests ran as are allowed"));
        };
        *stranger = None;
        let said = self.admitted(request, spec, &place);
        drop(place);
        *stranger = self.strangers.admit(self.peer.ip(), Some(&self.control));
        if stranger.is_some() { said } else { Err(ErrorKind::OutOfMemory.into()) }
    }

    fn admitted(&self, request: &Request, mut spec: Spec, place: &TestPermit) -> io::Result<()> {
        let interface = interfaces::with_address(self.local);
        let described = environment::describe(interface.as_deref(), &[]);
        let over = || (self.over)() || place.is_evicted();
        let session = Test { session: self, over: &over, place };
        let ended = session.conduct(request, &spec, interface.clone(), &described);
        // What a client does not say, its test has shown.
        if let Ok(outcome) = &ended {
            settle(&mut spec, request, outcome);
        }
        let (answer, ended) = match ended {
            Ok(outcome) => {
                let results = results_of(request, &outcome, described.nic.as_ref());
                let far = if spec.workload == Workload::UdpStream {
                    Outcome::of_flows(End::Host, Vec::new())
                } else {
                    remote_end(&spec, &outcome)
                };
                (results.emit(), Ok(Box::new([outcome, far])))
            }
            Err((errno, sentence)) => (Message::new(OMNI_RESPONSE, errno), Err(sentence)),
        };
        let said = self.say(&answer);
        (self.heard)(ServedTest {
            tool: "netperf",
            version: None,
            peer: self.peer,
            local: self.local,
            interface,
            spec,
            ended,
            bytes: place.bytes(),
        });
        said
    }
}

/// A test that has a place.
struct Test<'a> {
    session: &'a Session<'a>,
    over: &'a dyn Fn() -> bool,
    place: &'a TestPermit,
}

impl Test<'_> {
    /// Prepares, answers, and has the traffic.
    fn conduct(
        &self,
        request: &Request,
        spec: &Spec,
        interface: Option<String>,
        described: &Environment,
    ) -> Result<Outcome, Failed> {
        let mut at = self.session.local;
        at.set_port(u16::try_from(request.data_port).unwrap_or(0));
        let system = |error: io::Error| {
            (
                error.raw_os_error().unwrap_or(errno::EINVAL),
                format!("the client's data socket could not be made: {error}"),
            )
        };
        let data = bound(spec, at).map_err(system)?;
        let data_port = port(&data).map_err(system)?;
        let response = response(request, spec, &data, data_port, described).emit();
        let answer =
            || self.session.say(&response).map_err(|error| (errno::EINVAL, format!("the client went away: {error}")));
        let octets = Arc::new(AtomicUsize::new(0));
        let begin = |open: Adopted, since: Option<Instant>| {
            let octets = octets.clone();
            let count = self.place.progress();
            let notify = move |progress: Progress| {
                octets.store(progress.octets_received as usize, Ordering::Relaxed);
                count(progress);
            };
            self.begin(spec, interface.clone(), open, since, notify).map_err(|error| (errno::EINVAL, error.to_string()))
        };
        let flow = Flow::of(spec)[0];
        // What comes without a connection comes at once; those that are to hear it wait for it already.
        let mut held = None;
        let trial = match spec.workload {
            Workload::UdpStream | Workload::UdpRr => {
                let client = ProvenPeer::by_connection(&self.session.control).map_err(system)?;
                hear_only(client, request, &data).map_err(system)?;
                let trial = begin(Adopted::new(flow, data, Reach::Proven(client)), None)?;
                answer()?;
                trial
            }
            Workload::TcpCrr => {
                data.listen(1024).map_err(system)?;
                let socket = self.session.control.try_clone().map_err(system)?.into();
                let trial = begin(Adopted::answering(flow, socket, data), None)?;
                answer()?;
                trial
            }
            Workload::TcpStream | Workload::TcpRr => {
                data.listen(4).map_err(system)?;
                answer()?;
                let (socket, since) = self.accept(spec, &data).map_err(|error| {
                    (errno::ETIMEDOUT, format!("the client did not open its data connection: {error}"))
                })?;
                // What this end only receives on is closed when it has read everything: the client waits for that, and
                // its clock runs.
                if spec.direction == Direction::Tx {
                    held = Some(socket.try_clone().map_err(system)?);
                }
                begin(Adopted::new(flow, socket, Reach::Connected), since)?
            }
        };
        let watched = self.watch(&trial, spec, request, &octets);
        if watched.is_err() {
            trial.stop();
        } else if let Some(held) = held {
            let until = Instant::now() + MESSAGE_TIME;
            await_close(&held, || until, self.over);
        }
        let outcome = trial.join();
        if spec.workload == Workload::TcpCrr {
            // It was shared with the thread that answered.
            let _ = self.session.control.set_nonblocking(false);
        }
        watched.map_err(|sentence| (errno::EINVAL, sentence.to_owned()))?;
        outcome.map_err(|error| {
            let errno = if matches!(error, TrafficError::Stalled { .. }) { errno::ETIMEDOUT } else { errno::EINVAL };
            (errno, error.to_string())
        })
    }

    /// `since`: when the first octets were there.
    fn begin(
        &self,
        spec: &Spec,
        interface: Option<String>,
        open: Adopted,
        since: Option<Instant>,
        notify: impl Fn(Progress) + Send + 'static,
    ) -> Result<Trial, TrafficError> {
        let framing = framing(move |_| since.map_or(Duration::ZERO, |since| since.elapsed()));
        let local = self.session.local.ip();
        let trial = Trial::adopt(spec.clone(), framing, End::Target, local, interface, vec![open], notify)?;
        trial.start();
        Ok(trial)
    }

    /// The client's data connection, and of a stream that it sends when its first octets were there.
    fn accept(&self, spec: &Spec, data: &Socket) -> io::Result<(Socket, Option<Instant>)> {
        let until = Instant::now() + MESSAGE_TIME;
        data.set_nonblocking(true)?;
        let socket = loop {
            match data.accept() {
                // Others may knock while the port is open; they get nothing.
                Ok((socket, peer)) if peer.as_socket().is_some_and(|peer| peer.ip() == self.session.peer.ip()) => {
                    break socket;
                }
                Ok(_) => {}
                Err(error) if is_passing(&error) => self.wait(until)?,
                Err(error) => return Err(error),
            }
        };
        socket.set_nonblocking(false)?;
        socket.set_tcp_nodelay(spec.nodelay())?;
        if spec.workload != Workload::TcpStream || spec.direction != Direction::Rx {
            return Ok((socket, None));
        }
        let stream: TcpStream = socket.into();
        stream.set_read_timeout(Some(LOOK_FOR_END))?;
        loop {
            match stream.peek(&mut [0]) {
                Ok(_) => return Ok((stream.into(), Some(Instant::now()))),
                Err(error) if is_passing(&error) => self.wait(until)?,
                Err(error) => return Err(error),
            }
        }
    }

    /// A moment, unless it is too late.
    fn wait(&self, until: Instant) -> io::Result<()> {
        if (self.over)() || self.has_left() {
            return Err(ErrorKind::ConnectionAborted.into());
        }
        if Instant::now() > until {
            return Err(ErrorKind::TimedOut.into());
        }
        thread::sleep(LOOK_AGAIN);
        Ok(())
    }

    /// Whether the client has closed its control connection.
    fn has_left(&self) -> bool {
        let _ = self.session.control.set_read_timeout(Some(Duration::from_millis(1)));
        matches!(self.session.control.peek(&mut [0]), Ok(0))
            || self.session.control.take_error().ok().flatten().is_some()
    }

    /// Until the client's traffic has ended, or this end's; or a sentence about what happened instead. `octets` are those
    /// that came, as of the last second.
    fn watch(&self, trial: &Trial, spec: &Spec, request: &Request, octets: &AtomicUsize) -> Result<(), &'static str> {
        let allowed = Duration::from_secs(self.session.limits.time_s);
        let asked = spec.expected_time().unwrap_or(allowed);
        // A series of connections ends with the last, and nobody says so: not long after its time, or its number.
        let by_connections = spec.workload == Workload::TcpCrr;
        let pad = if by_connections { LATE } else { PAD };
        let (began, mut first) = (Instant::now(), None);
        let mut looked = began;
        while !trial.ends_within(test::LOOK_AGAIN) {
            if (self.over)() {
                return Err("the server was stopped");
            }
            if looked.elapsed() > LOOK_FOR_END {
                looked = Instant::now();
                if self.has_left() {
                    return Err("the client went away in mid-test");
                }
            }
            if first.is_none() && trial.has_received() {
                first = Some(Instant::now());
            }
            let wanted = u64::from(request.length.unsigned_abs()) * u64::from(spec.request_size + spec.response_size);
            if by_connections && request.length < 0 && octets.load(Ordering::Relaxed) as u64 >= wanted {
                trial.stopper().finish();
            }
            if first.map_or(began + PAD, |first: Instant| first + pad).elapsed() > asked {
                trial.stopper().finish();
            }
        }
        Ok(())
    }
}

/// Has a socket of datagrams hear the client only, at the port that it named.
fn hear_only(client: ProvenPeer, request: &Request, data: &Socket) -> io::Result<()> {
    let port = u16::try_from(request.client_port).ok().filter(|port| *port != 0).ok_or(ErrorKind::InvalidInput)?;
    data.connect(&client.at(port).into())
}

fn cpus() -> u32 {
    thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32)
}

/// What the server made of a request.
fn response(request: &Request, spec: &Spec, data: &Socket, data_port: u16, described: &Environment) -> Response {
    // What was asked for is told as such: the kernel's own figure is twice that, for its bookkeeping (socket(7)).
    let asked =
        |octets: usize| i32::try_from(if spec.socket_buffer.is_some() { octets / 2 } else { octets }).unwrap_or(-1);
    let size = |octets: u32| octets.cast_signed();
    Response {
        receive_buffer: data.recv_buffer_size().map_or(-1, asked),
        receive_size: if request.receive_size > 0 { request.receive_size } else { size(spec.message_octets()) },
        send_buffer: data.send_buffer_size().map_or(-1, asked),
        send_size: if request.send_size > 0 { request.send_size } else { size(spec.message_octets()) },
        flags: request.flags,
        cpu_rate: Some(f64::from(WHOLE)),
        length: request.length,
        data_port: data_port.into(),
        cpu_mhz: described.cpu.max_frequency_khz.and_then(|khz| i32::try_from(khz / 1000).ok()).unwrap_or(0),
        machine: described.machine.clone(),
        cpu: described.cpu.model.clone(),
    }
}

/// What the trial was, where the request did not say: the size of datagrams, how long transactions took.
fn settle(spec: &mut Spec, request: &Request, outcome: &Outcome) {
    let Some(flow) = outcome.flows.first() else { return };
    if spec.workload == Workload::UdpStream {
        let size = flow.octets_total.checked_div(flow.messages_total).and_then(|size| u32::try_from(size).ok());
        spec.message_size = size.filter(|size| *size > 0);
    }
    if !spec.workload.is_stream() && request.length < 0 {
        spec.extent = Extent::Time(Duration::from_millis((flow.elapsed_ns / 1_000_000).max(10)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_ask_for_what_the_specification_says() {
        let asked = |kind| understand(&Message::new(kind, -1));
        assert_eq!([asked(1), asked(2)], [Asked::Logging, Asked::Logging]);
        assert_eq!((asked(5), asked(6), asked(10)), (Asked::Calibration, Asked::Nothing, Asked::Classic("TCP_STREAM")));
        assert_eq!(asked(94), Asked::Classic("TCP_MAERTS"));
        assert!(matches!(asked(97), Asked::Test(_)));
        for kind in [0, -1, 3, 11, 98, 600, 0x6200_0000] {
            assert_eq!(asked(kind), Asked::Unknown, "{kind}");
        }
    }
}
