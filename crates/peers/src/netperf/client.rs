//! What a netperf client says, and what it makes of the answers.
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

use linerate_host::sys::socket_state::least_round_trip;
use linerate_host::traffic::reachability::{ProvenPeer, SendPermission};
use linerate_host::traffic::{Adopted, Trial};
use linerate_machine::end::End;
use linerate_trial::flow::Flow;
use linerate_trial::outcome::{Outcome, Role};
use linerate_trial::spec::Workload;
use socket2::Socket;

use super::mapping::{PAD, outcome_of, request_of};
use super::message::{Message, UNKNOWN_TEST};
use super::omni::Response;
use super::results::Results;
use super::sockets::{bound, framing, port};
use crate::client::Client;
use crate::deadline::Timed;
use crate::error::Error;
use crate::listener::is_passing;
use crate::protocol::Notify;
use crate::socket_options::open;
use crate::wait::{Closing, await_close, await_closes};

/// How long it has for a message. One that measures CPU use by a method of its own may calibrate first.
const MESSAGE_TIME: Duration = Duration::from_secs(8);
/// How long it has for its results once this end has ended, and to end the data connection: that it waits for datagrams
/// that were lost is part of it.
const CLOSING_TIME: Duration = Duration::from_secs(PAD.as_secs() + 4);
/// How often, and how long, the end of datagrams is said again.
const END_MARK_PERIOD: Duration = Duration::from_millis(100);
const END_MARK_TIME: Duration = Duration::from_secs(2);
/// How often something is looked at that wakes nobody.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// One test.
pub fn measure(client: &Client<'_>, notify: Notify) -> Result<[Outcome; 2], Error> {
    Test { client }.run(notify)
}

struct Test<'a> {
    client: &'a Client<'a>,
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
            workload if workload.is_udp() => Adopted::new(flow, socket, SendPermission::Proven(self.proven)),
            _ => Adopted::new(flow, socket, SendPermission::Connected),
        }
    }
}

impl Test<'_> {
    fn run(&self, notify: Notify) -> Result<[Outcome; 2], Error> {
        let mut links =
            Flow::of(self.client.spec).into_iter().map(|flow| self.link(flow)).collect::<Result<Vec<_>, _>>()?;
        let mut open = Vec::new();
        for link in &mut links {
            open.push(self.data_socket(link).map_err(self.client.unopened(link.at.port()))?);
        }
        let held = open.iter().map(|(_, socket)| socket.try_clone()).collect::<io::Result<Vec<_>>>()?;
        let open = links.iter().zip(open).map(|(link, (flow, socket))| link.adopted(flow, socket)).collect();
        let arriving = self.await_data(&links, &held)?;
        // With a warm-up the figures begin later.
        let arriving = arriving.filter(|_| self.client.spec.warmup.is_zero());
        let trial = self.client.adopt(self.client.spec.clone(), framing(arriving), open, notify)?;
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
        let mut target = outcome_of(self.client.spec, &told, &outcome);
        self.check_datagrams(&links, &target, &outcome)?;
        for (far, near) in target.flows.iter_mut().zip(&outcome.flows) {
            let Some(link) = links.iter().find(|link| link.flow.id == far.id) else { continue };
            if !link.flow.workload.is_stream() {
                continue;
            }
            // The server's clock runs from before this end began, and its answer and what comes first have a way to go; the time
            // in which nothing can have come is none of the stream's. What it read last, it read before it closed.
            let close = closed.iter().find(|(id, _)| *id == far.id).map(|(_, at)| at.saturating_duration_since(began));
            let waited = began.duration_since(link.since) + least_round_trip(&link.control);
            let waited = waited.as_nanos() as u64;
            let least = close.map_or(near.elapsed_ns, |close| close.as_nanos() as u64);
            let told = if far.elapsed_ns < least / 2 { least } else { far.elapsed_ns };
            far.elapsed_ns = told.saturating_sub(waited).max(least).min(told);
        }
        Ok([target, outcome])
    }

    /// Whether any datagram got through, where this end sent some.
    fn check_datagrams(&self, links: &[Link], target: &Outcome, ours: &Outcome) -> Result<(), Error> {
        let workload = self.client.spec.workload;
        for near in ours.flows.iter().filter(|near| workload.is_udp() && near.role != Role::Receiver) {
            let far = target.flows.iter().find(|far| far.id == near.id);
            let (sent, came) = match near.requests {
                Some(requests) => (requests, near.messages_total),
                None => (near.messages_total, far.map_or(0, |far| far.messages_total)),
            };
            if let (1.., 0, Some(link)) = (sent, came, links.iter().find(|link| link.flow.id == near.id)) {
                return Err(self.client.none_arrived(link.at.port(), sent));
            }
        }
        Ok(())
    }

    /// Has the server prepare for a flow.
    fn link(&self, flow: Flow) -> Result<Link, Error> {
        let server = self.client.route.server;
        let control = self.client.connect().map_err(|error| self.client.unreachable(error))?;
        let datagrams = flow.workload.is_udp().then(|| bound(self.client.spec, self.client.route.near(0)));
        let datagrams = datagrams.transpose().map_err(|error| Error::Local {
            what: format!("open a socket for datagrams at {}", self.client.route.local),
            error,
            action: "see that an interface that is up has this address",
        })?;
        let own_port = datagrams.as_ref().and_then(|socket| port(socket).ok()).unwrap_or(0);
        request_of(self.client.spec, flow, server.is_ipv4(), own_port)
            .emit()
            .write(&mut Timed::new(&control, MESSAGE_TIME))
            .map_err(self.client.lost("the test was asked for"))?;
        let answer = self.hear(&control, MESSAGE_TIME, "its answer was awaited").map_err(|error| match error {
            Error::Lost { server, doing, error, .. } if error.kind() == ErrorKind::UnexpectedEof => {
                let action = "see that it still runs and, if it was started with a passphrase (-Z), start it without";
                Error::Lost { server, doing, error, action }
            }
            Error::Lost { error, .. } => self.client.unheard(MESSAGE_TIME)(error),
            error => error,
        })?;
        let response = Response::parse(&answer);
        let nonsense = || {
            let what = format!("named {} as the port of its data", response.data_port);
            self.client.refused(what, "check what listens there")
        };
        let data_port = u16::try_from(response.data_port).ok().filter(|port| *port != 0).ok_or_else(nonsense)?;
        let proven = ProvenPeer::by_connection(&control).map_err(self.client.lost("the data connection was opened"))?;
        let at = proven.at(data_port);
        Ok(Link { flow, control, response, proven, at, since: Instant::now(), datagrams })
    }

    /// The flow's data socket.
    fn data_socket(&self, link: &mut Link) -> io::Result<(Flow, Socket)> {
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
            None => open(self.client.spec, self.client.route.local, link.at)?,
        };
        Ok((flow, socket))
    }

    /// When the first octets were there of a server that sends, which it does without being asked.
    fn await_data(&self, links: &[Link], held: &[Socket]) -> Result<Option<Instant>, Error> {
        let awaited = self.client.lost("its data was awaited");
        let is_sent = |link: &Link| link.flow.workload.is_stream() && link.flow.source == End::Target;
        let Some((_, socket)) = links.iter().zip(held).find(|(link, _)| is_sent(link)) else { return Ok(None) };
        let stream: TcpStream = socket.try_clone().map_err(awaited)?.into();
        stream.set_read_timeout(Some(MESSAGE_TIME)).map_err(awaited)?;
        stream.peek(&mut [0]).map_err(awaited)?;
        Ok(Some(Instant::now()))
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
        // The controller waits for the trial's own end, whenever requests that nobody answers have ended.
        let due = self.client.spec.expected_time().map(|time| Instant::now() + time);
        let mut asked = Vec::new();
        let closed = await_closes(&sending, CLOSING_TIME, self.client.stopped, |_| {
            self.client.await_end(trial, CLOSING_TIME)?;
            if self.client.spec.workload.is_udp() {
                self.send_end_marks(links, held);
            } else {
                let until = due.unwrap_or_else(Instant::now) + CLOSING_TIME;
                asked.extend(links.iter().zip(held).filter_map(|(link, socket)| self.say_end(link, socket, until)));
            }
            Ok::<_, Error>(())
        })?;
        if closed.iter().chain(&asked).any(|closing| matches!(closing, Closing::Open)) && !self.client.is_stopped() {
            return Err(Error::NotClosed(self.client.server(), CLOSING_TIME));
        }
        Ok(ids.into_iter().zip(closed).filter_map(|(id, closing)| Some((id, closing.at()?))).collect())
    }

    /// Tells the server by a datagram of no octets that datagrams are over: a full queue on the way may lose it, so again until
    /// its results come. One at a time: what comes after the one that ended the test is refused, and kernels count the sends
    /// that hear of that among their drops (Ip OutDiscards).
    fn send_end_marks(&self, links: &[Link], held: &[Socket]) {
        let until = Instant::now() + END_MARK_TIME;
        let mut unheard: Vec<_> = links.iter().zip(held).collect();
        while !unheard.is_empty() && Instant::now() < until && !self.client.is_stopped() {
            unheard.iter().for_each(|(_, socket)| drop(socket.send(&[])));
            thread::sleep(END_MARK_PERIOD);
            unheard.retain(|(link, _)| {
                let _ = link.control.set_read_timeout(Some(LOOK_AGAIN));
                link.control.peek(&mut [0]).is_err_and(|error| is_passing(&error))
            });
        }
    }

    /// Tells the server that a flow is over, where the flow's connection does not; and how it took that.
    fn say_end(&self, link: &Link, socket: &Socket, until: Instant) -> Option<Closing> {
        match link.flow.workload {
            // Responses may be under way; a server whose connection breaks over them has no results.
            Workload::TcpRr => Some(await_close(socket, || until, self.client.stopped)),
            // A connection without a request.
            Workload::TcpCrr => {
                let socket = open(self.client.spec, self.client.route.local, link.at).ok()?;
                let _ = socket.shutdown(Shutdown::Write);
                Some(await_close(&socket, || until, self.client.stopped))
            }
            Workload::TcpStream | Workload::UdpStream | Workload::UdpRr | Workload::Frames => None,
        }
    }

    /// The server's next message, which must be a good one.
    fn hear(&self, control: &TcpStream, time: Duration, what: &'static str) -> Result<Message, Error> {
        let message = Message::read(&mut Timed::new(control, time));
        let message = message.and_then(|message| message.ok_or_else(|| ErrorKind::UnexpectedEof.into()));
        let message = message.map_err(self.client.lost(what))?;
        match message.second {
            0 => Ok(message),
            // No number of an error.
            errno if !(1..4096).contains(&errno) => Err(Error::WrongServer(self.client.server())),
            UNKNOWN_TEST => Err(self.client.refused("has no omni tests", "install netperf 2.5 or later there")),
            errno => Err(self.client.refused(
                format!("refused: {}", io::Error::from_raw_os_error(errno)),
                "choose another of the options that it has to meet",
            )),
        }
    }

    fn results(&self, control: &TcpStream) -> Result<Results, Error> {
        let results = Results::parse(&self.hear(control, CLOSING_TIME - END_MARK_TIME, "its results were awaited")?);
        let _ = control.shutdown(Shutdown::Write);
        let _ = io::copy(&mut Timed::new(control, Duration::from_secs(1)).take(1024), &mut io::sink());
        Ok(results)
    }
}
