//! What a netserver says: messages on a control connection, one after the other, and a test for each request.
//!
//! Test traffic goes only where a control connection came from.

use std::io::{self, ErrorKind, Read};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::thread;
use std::time::{Duration, Instant};

use linerate_host::environment;
use linerate_host::sys::poll::wait_readable;
use linerate_host::traffic::reachability::{ProvenPeer, SendPermission};
use linerate_host::traffic::{Adopted, TrafficError, Trial};
use linerate_machine::end::{Direction, End};
use linerate_machine::environment::Environment;
use linerate_trial::flow::Flow;
use linerate_trial::outcome::Outcome;
use linerate_trial::spec::{Extent, Spec, Workload};
use socket2::Socket;

use super::mapping::{PAD, errno, results_of, spec_of};
use super::message::{
    CLASSIC, CPU_CALIBRATE, DEBUG_OFF, DEBUG_OK, DEBUG_ON, DO_OMNI, Message, OMNI_RESPONSE, PASSPHRASE, UNKNOWN_TEST,
    WHOLE, calibration,
};
use super::omni::{Request, Response};
use super::sockets::{bound, framing, port};
use crate::connection_limit::ConnectionPermit;
use crate::deadline::Timed;
use crate::error::Error;
use crate::listener::is_passing;
use crate::protocol::Serve;
use crate::remote_end::remote_end;
use crate::server::{Connection, ServerTest, Service};
use crate::wait::{self, await_close, has_left, join, mark_cut_short};

/// How long a client has for its first message, to open its data connection, and to close it.
const MESSAGE_TIME: Duration = Duration::from_secs(10);
/// How long it may think before it asks for another test.
const IDLE_TIME: Duration = Duration::from_secs(60);
/// How often something is looked at that may have ended everything.
const LOOK_FOR_END: Duration = Duration::from_millis(50);
/// How long a client may be late with what ends a series of connections.
const LATE: Duration = Duration::from_secs(1);

/// A netserver: its clients have nothing in common.
pub struct Server;

impl Serve for Server {
    fn connection<'a>(&'a self, service: Service<'a>, connection: Connection<'a>) {
        let Connection { stream: control, peer, permit, .. } = connection;
        if let Ok(local) = control.local_addr() {
            Session { service, control, peer, local }.run(permit);
        }
    }
}

/// A control connection.
struct Session<'a> {
    service: Service<'a>,
    control: TcpStream,
    peer: SocketAddr,
    local: SocketAddr,
}

/// What a message asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
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
pub fn command(message: &Message) -> Command {
    match message.kind {
        CPU_CALIBRATE => Command::Calibration,
        DEBUG_ON | DEBUG_OFF => Command::Logging,
        PASSPHRASE => Command::Nothing,
        DO_OMNI => Command::Test(Box::new(Request::parse(message))),
        kind => {
            let classic = CLASSIC.iter().find(|(classic, _)| *classic == kind);
            classic.map_or(Command::Unknown, |(_, name)| Command::Classic(name))
        }
    }
}

impl<'a> Session<'a> {
    /// Until the client has no more to say, says nonsense, or is silent for too long.
    fn run(&self, permit: ConnectionPermit<'a>) {
        let _ = self.control.set_nodelay(true);
        let mut permit = Some(permit);
        let mut time = MESSAGE_TIME;
        while let Ok(Some(message)) = self.next(time) {
            time = IDLE_TIME;
            let answered = match command(&message) {
                Command::Calibration => self.say(&calibration(cpus())),
                Command::Logging => self.say(&Message::new(DEBUG_OK, 0)),
                Command::Nothing => Ok(()),
                Command::Test(request) => self.test(&request, &mut permit),
                Command::Classic(name) => {
                    let what = match name {
                        "TCP_CC" => "asked for TCP_CC, connections without a request, which is not served; TCP_CRR is"
                            .to_owned(),
                        "TCP_STREAM" => {
                            "asked for TCP_STREAM as netperf before 2.5 did, and as TCP_SENDFILE of any version \
                                         does; choose TCP_STREAM, with netperf 2.5 or later"
                                .to_owned()
                        }
                        _ => format!("asked for {name} as netperf before 2.5 did; install netperf 2.5 or later there"),
                    };
                    self.service.refuse(self.peer, &what);
                    self.say(&Message::new(message.kind + 1, UNKNOWN_TEST))
                }
                Command::Unknown => self.say(&Message::new(message.kind, UNKNOWN_TEST)),
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
                Err(error) if is_passing(&error) && !self.service.is_over() && Instant::now() < until => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn say(&self, message: &Message) -> io::Result<()> {
        message.write(&mut Timed::new(&self.control, MESSAGE_TIME))
    }

    /// A test, if it is allowed, and its results or an errno.
    fn test(&self, request: &Request, permit: &mut Option<ConnectionPermit<'a>>) -> io::Result<()> {
        let refuse = |errno| self.say(&Message::new(OMNI_RESPONSE, errno));
        let spec = match spec_of(request, self.local.is_ipv4(), self.service.limits()) {
            Ok(spec) => spec,
            Err((errno, what)) => {
                self.service.refuse(self.peer, what);
                return refuse(errno);
            }
        };
        let Some(test) = self.service.begin((self.peer, self.local), &spec, Some(&self.control)) else {
            return refuse(errno::EBUSY);
        };
        *permit = None;
        let said = self.admitted(request, spec, test);
        *permit = self.service.readmit(self.peer, &self.control);
        if permit.is_some() { said } else { Err(ErrorKind::OutOfMemory.into()) }
    }

    fn admitted(&self, request: &Request, mut spec: Spec, test: ServerTest<'a>) -> io::Result<()> {
        let described = environment::describe(test.interface.as_deref(), &[]);
        let ended = Test { session: self, test: &test, request, spec: &spec }.conduct(&described);
        // What a client does not say, its test has shown.
        if let Ok(outcome) = &ended {
            complete(&mut spec, request, outcome);
        }
        let (answer, ended) = match ended {
            Ok(outcome) => {
                let results = results_of(request, &outcome, described.nic.as_ref());
                let remote = if spec.workload == Workload::UdpStream {
                    Outcome::of_flows(End::Host, Vec::new())
                } else {
                    remote_end(&spec, &outcome)
                };
                (results.emit(), Ok(Box::new([outcome, remote])))
            }
            Err(error) => (Message::new(OMNI_RESPONSE, errno_of(&error)), Err(error)),
        };
        let said = self.say(&answer);
        test.finish((spec, ended));
        said
    }
}

/// What a client is told of a test that has no results.
fn errno_of(error: &Error) -> i32 {
    match error {
        Error::Local { error, .. } => error.raw_os_error().unwrap_or(errno::EINVAL),
        Error::ClientLost { .. } | Error::Traffic(TrafficError::Stalled { .. }) => errno::ETIMEDOUT,
        _ => errno::EINVAL,
    }
}

/// A test that has its place.
struct Test<'a> {
    session: &'a Session<'a>,
    test: &'a ServerTest<'a>,
    request: &'a Request,
    spec: &'a Spec,
}

impl Test<'_> {
    /// Prepares, answers, and has the traffic.
    fn conduct(&self, described: &Environment) -> Result<Outcome, Error> {
        let Test { session, request, spec, .. } = self;
        let mut at = session.local;
        at.set_port(u16::try_from(request.data_port).unwrap_or(0));
        let local = |error| Error::Local {
            what: "make the socket of a client's data".to_owned(),
            error,
            action: "have it choose another port, or none",
        };
        let data = bound(spec, at).map_err(local)?;
        let data_port = port(&data).map_err(local)?;
        let response = response(request, spec, &data, data_port, described).emit();
        let answer = || session.say(&response).map_err(Error::client("went away"));
        let flow = Flow::of(spec)[0];
        // What comes without a connection comes at once; those that are to hear it wait for it already.
        let mut held = None;
        let trial = match spec.workload {
            Workload::UdpStream | Workload::UdpRr => {
                let client = ProvenPeer::by_connection(&session.control).map_err(local)?;
                hear_only(client, request, &data).map_err(local)?;
                let trial = self.begin(Adopted::new(flow, data, SendPermission::Proven(client)), None)?;
                answer()?;
                trial
            }
            Workload::TcpCrr => {
                data.listen(1024).map_err(local)?;
                let socket = session.control.try_clone().map_err(local)?.into();
                let trial = self.begin(Adopted::answering(flow, socket, data), None)?;
                answer()?;
                trial
            }
            Workload::TcpStream | Workload::TcpRr | Workload::Frames => {
                data.listen(4).map_err(local)?;
                answer()?;
                let accepted = self.accept(spec, &data);
                let (socket, since) = accepted.map_err(Error::client("did not open its data connection"))?;
                // What this end only receives on is closed when it has read everything: the client waits for that, and
                // its clock runs.
                if spec.direction == Direction::Tx {
                    held = Some(socket.try_clone().map_err(local)?);
                }
                self.begin(Adopted::new(flow, socket, SendPermission::Connected), since)?
            }
        };
        let watched = self.watch(&trial);
        if let (Ok(()), Some(held)) = (&watched, held) {
            let until = Instant::now() + MESSAGE_TIME;
            await_close(&held, || until, &|| self.test.is_over());
        }
        let mut outcome = join(trial, watched);
        // One that is interrupted says so by its data alone.
        if let Ok(outcome) = &mut outcome {
            mark_cut_short(outcome, spec, self.test.limits());
        }
        if spec.workload == Workload::TcpCrr {
            // It was shared with the thread that answered.
            let _ = session.control.set_nonblocking(false);
        }
        outcome
    }

    /// `since`: when the first octets were there.
    fn begin(&self, open: Adopted, since: Option<Instant>) -> Result<Trial, Error> {
        let trial = self.test.adopt(self.spec.clone(), framing(since), vec![open])?;
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
                Ok((socket, peer)) if peer.as_socket().is_some_and(|peer| peer.ip() == self.test.peer.ip()) => {
                    break socket;
                }
                Ok(_) => {}
                Err(error) if is_passing(&error) => self.wait(data, until)?,
                Err(error) => return Err(error),
            }
        };
        socket.set_nonblocking(false)?;
        socket.set_tcp_nodelay(spec.nodelay())?;
        if spec.workload != Workload::TcpStream || spec.direction != Direction::Rx {
            return Ok((socket, None));
        }
        let stream: TcpStream = socket.into();
        stream.set_nonblocking(true)?;
        loop {
            match stream.peek(&mut [0]) {
                Ok(_) => {
                    let since = Instant::now();
                    stream.set_nonblocking(false)?;
                    return Ok((stream.into(), Some(since)));
                }
                Err(error) if is_passing(&error) => self.wait(&stream, until)?,
                Err(error) => return Err(error),
            }
        }
    }

    /// Until something comes here, or a moment, unless it is too late. The time of what comes runs from then on.
    fn wait(&self, socket: &impl AsFd, until: Instant) -> io::Result<()> {
        if self.test.is_over() || has_left(&self.session.control) {
            return Err(ErrorKind::ConnectionAborted.into());
        }
        if Instant::now() > until {
            return Err(ErrorKind::TimedOut.into());
        }
        wait_readable(socket, LOOK_FOR_END).map(drop)
    }

    /// Until the client's traffic has ended, or this end's.
    fn watch(&self, trial: &Trial) -> Result<(), Error> {
        let Test { request, spec, .. } = self;
        let asked = spec.expected_time().unwrap_or(self.test.limits().time());
        // A series of connections ends with the last, and nobody says so: not long after its time, or its number.
        let by_connections = spec.workload == Workload::TcpCrr;
        let pad = if by_connections { LATE } else { PAD };
        let (began, mut first) = (Instant::now(), None);
        let mut looked = began;
        while !trial.ends_within(wait::LOOK_AGAIN) {
            if self.test.is_over() {
                return Err(Error::Stopped);
            }
            if looked.elapsed() > LOOK_FOR_END {
                looked = Instant::now();
                if has_left(&self.session.control) {
                    return Err(Error::ClientLeft("went away in mid-test"));
                }
            }
            if first.is_none() && trial.has_received() {
                first = Some(Instant::now());
            }
            let wanted = u64::from(request.length.unsigned_abs()) * u64::from(spec.request_size + spec.response_size);
            if by_connections && request.length < 0 && self.test.bytes() >= wanted {
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
fn complete(spec: &mut Spec, request: &Request, outcome: &Outcome) {
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
        let asked = |kind| command(&Message::new(kind, -1));
        assert_eq!([asked(1), asked(2)], [Command::Logging, Command::Logging]);
        assert_eq!(
            (asked(5), asked(6), asked(10)),
            (Command::Calibration, Command::Nothing, Command::Classic("TCP_STREAM"))
        );
        assert_eq!(asked(94), Command::Classic("TCP_MAERTS"));
        assert!(matches!(asked(97), Command::Test(_)));
        for kind in [0, -1, 3, 11, 98, 600, 0x6200_0000] {
            assert_eq!(asked(kind), Command::Unknown, "{kind}");
        }
    }
}
