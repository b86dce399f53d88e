//! One test of a nuttcp client, from its request to its end.
//! Knows no listening sockets but those of its data. Data goes only where the control connection came from.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use linerate_host::interfaces;
use linerate_host::traffic::reachability::{ProvenPeer, Reach};
use linerate_host::traffic::{Adopted, Moved, Odometer, Trial};
use linerate_trial::flow::{End, Flow};
use linerate_trial::outcome::{FlowOutcome, Outcome, ThreadUse};
use linerate_trial::spec::{Direction, Spec, Workload};
use socket2::{SockRef, Socket};

use super::datagram::BEGINS;
use super::line::{self, Request};
use super::mapping::is_numbered;
use super::port_pool::{Arrival, PortPool};
use super::report_writer::{Closing, Opening, Part, Writer};
use super::server::{MESSAGE_TIME, refuse};
use super::sockets::{announce, begin, end, framing, reach, settle};
use crate::deadline::Timed;
use crate::remote_end::remote_end;
use crate::served_test::{Limits, ServedTest};
use crate::socket_options::{open, prepare};
use crate::test;
use crate::test_limit::TestPermit;

/// How often something that has no bell is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(2);
/// How long a client has to open its connections.
const OPENING_TIME: Duration = Duration::from_secs(10);
/// How late a client may end, of a machine that is busy or a queue that is long.
const LATE: Duration = Duration::from_secs(40);
/// How long a line may take to a client that does not read.
const LINE_TIME: Duration = Duration::from_millis(100);

/// A test.
pub struct Session<'a> {
    /// The client's control connection.
    pub control: TcpStream,
    /// Where it comes from.
    pub peer: SocketAddr,
    /// What is asked for.
    pub asked: Request,
    /// As a trial.
    pub spec: Spec,
    /// Where its data comes, if the client opens the connections.
    pub pool: &'a PortPool,
    /// What is allowed.
    pub limits: &'a Limits,
    /// Whether the test is to end.
    pub over: &'a (dyn Fn() -> bool + Sync),
    /// Its place.
    pub place: &'a TestPermit,
}

/// The connections of a test.
struct Opened {
    flows: Vec<(Flow, Socket)>,
    /// Datagrams that came before the trial.
    early: Vec<Vec<u8>>,
    /// How long the last connection took to open, where this end opened it.
    rtt: Option<Duration>,
}

/// Why there are none.
enum Unopened {
    /// This end cannot: the client is told.
    Here(String),
    /// The client did not come, or is not reached.
    There(io::Error),
}

impl From<io::Error> for Unopened {
    fn from(error: io::Error) -> Unopened {
        Unopened::There(error)
    }
}

impl Session<'_> {
    /// The test. `None`: it was refused.
    pub fn run(self) -> Option<ServedTest> {
        let local = self.control.local_addr().ok()?;
        let client = ProvenPeer::by_connection(&self.control).ok()?;
        let interface = interfaces::with_address(local);
        let ended = match self.open(local, client) {
            Ok(opened) => self.conduct(opened, local.ip(), interface.clone(), client),
            Err(Unopened::Here(why)) => {
                refuse(&self.control, &why);
                return None;
            }
            Err(Unopened::There(error)) => {
                let why = format!("no connection for the data: {error}");
                let _ = self.say(&format!("nuttcp: Error: {why}\n"));
                Err(format!("there was {why}"))
            }
        };
        Some(ServedTest {
            tool: "nuttcp",
            version: Some(self.asked.version.to_string()),
            peer: self.peer,
            local,
            interface,
            spec: self.spec,
            ended,
            bytes: self.place.bytes(),
        })
    }

    fn say(&self, text: &str) -> io::Result<()> {
        Timed::new(&self.control, MESSAGE_TIME).write_all(text.as_bytes())
    }

    fn is_over(&self) -> bool {
        (self.over)()
    }

    /// Takes the test, and opens its connections as it wants them.
    fn open(&self, local: SocketAddr, client: ProvenPeer) -> Result<Opened, Unopened> {
        let asked = &self.asked;
        let flows = Flow::of(&self.spec);
        // Whoever sends opens the connections, or the other where that is asked for; datagrams know no other.
        if asked.client_sends != (asked.reverse && !asked.udp) {
            let mut first = local;
            first.set_port(asked.port);
            let lease =
                self.pool.lease((first, flows.len() as u16), client, asked.udp, &self.limits.allow, &|| self.is_over());
            let lease = lease.map_err(|error| {
                Unopened::Here(format!("port {} is not to be had here: {error}; choose another with -p", asked.port))
            })?;
            self.say(&line::taken())?;
            let arrivals = lease.collect(OPENING_TIME, &|| self.is_over() || self.has_left())?;
            return self.adopt(flows, arrivals);
        }
        self.say(&line::taken())?;
        if asked.udp {
            let socket = open(&self.spec, local.ip(), client.at(asked.port))?;
            announce(&socket, &|| self.is_over() || self.has_left())?;
            let flows = flows.into_iter().zip([socket]).collect();
            return Ok(Opened { flows, early: Vec::new(), rtt: None });
        }
        let mut opened = Opened { flows: Vec::new(), early: Vec::new(), rtt: None };
        for (flow, port) in flows.into_iter().zip(asked.port..) {
            let stopped = || self.is_over() || self.has_left();
            let (socket, rtt) = reach(&self.spec, local.ip(), client.at(port), &stopped)?;
            opened.flows.push((flow, socket));
            opened.rtt = Some(rtt);
        }
        Ok(opened)
    }

    fn adopt(&self, flows: Vec<Flow>, arrivals: Vec<Arrival>) -> Result<Opened, Unopened> {
        let mut opened = Opened { flows: Vec::new(), early: Vec::new(), rtt: None };
        for (flow, arrival) in flows.into_iter().zip(arrivals) {
            prepare(&arrival.socket, &self.spec)?;
            // The first word shows who sends; with the second the time begins.
            opened.early.extend(arrival.datagrams.into_iter().filter(|octets| octets != BEGINS[0]));
            opened.flows.push((flow, arrival.socket));
        }
        Ok(opened)
    }

    /// Whether the client has closed its control connection.
    fn has_left(&self) -> bool {
        let _ = self.control.set_read_timeout(Some(Duration::from_millis(1)));
        matches!(self.control.peek(&mut [0]), Ok(0))
    }

    fn conduct(
        &self,
        opened: Opened,
        local: IpAddr,
        interface: Option<String>,
        client: ProvenPeer,
    ) -> Result<Box<[Outcome; 2]>, String> {
        let Opened { flows, early, rtt } = opened;
        let asked = &self.asked;
        let writer = Writer { asked };
        let sends = self.spec.direction == Direction::Tx;
        let gone = |error: io::Error| format!("the client went away: {error}");
        let held = flows.first().map(|(_, socket)| socket.try_clone()).transpose().map_err(gone)?;
        let opening = held.as_ref().map(|socket| self.opening(socket, rtt));
        let framing = framing(&self.spec, sends, is_numbered(asked), early);
        let reach = if asked.udp { Reach::Proven(client) } else { Reach::Connected };
        let flows = flows.into_iter().map(|(flow, socket)| Adopted::new(flow, socket, reach)).collect();
        let trial =
            Trial::adopt(self.spec.clone(), framing, End::Target, local, interface, flows, self.place.progress())
                .map_err(|error| error.to_string())?;
        if let Some(opening) = opening {
            self.say(&writer.opening(&opening)).map_err(gone)?;
        }
        let _ = SockRef::from(&self.control).set_out_of_band_inline(true);
        if let Some(socket) = held.as_ref().filter(|_| sends && asked.udp) {
            begin(socket);
        }
        trial.start();
        let watched = self.watch(&trial, &writer);
        match (&watched, &held) {
            (Err(_), _) => trial.stop(),
            (Ok(()), Some(socket)) if sends && asked.udp => {
                let is_refused = || socket.take_error().is_ok_and(|error| error.is_some());
                end(socket, &mut || is_refused() || self.is_over() || self.has_left());
            }
            (Ok(()), _) => {}
        }
        let outcome = trial.join();
        drop(held);
        let mut outcome = match (watched, outcome) {
            (Err(sentence), _) => return Err(sentence.to_owned()),
            (Ok(()), Err(error)) => {
                let _ = self.say(&format!("nuttcp: Error: {error}\n"));
                return Err(error.to_string());
            }
            (Ok(()), Ok(outcome)) => outcome,
        };
        settle(&mut outcome);
        let _ = self.say(&writer.closing(&self.closing(&outcome)));
        let _ = self.control.shutdown(std::net::Shutdown::Write);
        let far = remote_end(&self.spec, &outcome);
        Ok(Box::new([outcome, far]))
    }

    fn opening(&self, socket: &Socket, rtt: Option<Duration>) -> Opening {
        Opening {
            peer: self.peer.ip().to_canonical(),
            rtt,
            mss: socket.tcp_mss().ok().filter(|_| !self.asked.udp),
            buffers: [socket.send_buffer_size(), socket.recv_buffer_size()].map(|size| size.unwrap_or(0)),
        }
    }

    fn closing(&self, outcome: &Outcome) -> Closing {
        let sum = |of: fn(&FlowOutcome) -> u64| outcome.flows.iter().map(of).sum::<u64>();
        let elapsed_ns = outcome.flows.iter().map(|flow| flow.elapsed_ns).max().unwrap_or(0);
        let retransmissions = match &outcome.flows[..] {
            [only] if !self.asked.client_sends => only.tcp.as_ref().map(|tcp| tcp.retransmissions),
            _ => None,
        };
        Closing {
            all: Part {
                octets: sum(|flow| flow.octets_total),
                elapsed: Duration::from_nanos(elapsed_ns),
                packets: sum(|flow| flow.messages_total),
                drops: None,
            },
            threads: outcome.flows.iter().map(|flow| flow.thread).fold(ThreadUse::default(), |sum, one| sum + one),
            calls: sum(|flow| flow.calls),
            retransmissions,
        }
    }

    /// Until the client's streams have ended, or this end's, with reports while they go.
    fn watch(&self, trial: &Trial, writer: &Writer<'_>) -> Result<(), &'static str> {
        let allowed = Duration::from_secs(self.limits.time_s);
        let most = self.spec.expected_time().unwrap_or(allowed) + LATE;
        // Where both are asked for, whichever is first ends what this end sends.
        let both = self.asked.nbuf.is_some() && !self.asked.timeout.is_zero();
        let limit = (both && !self.asked.client_sends).then_some(self.asked.timeout);
        let mut intervals = Intervals::new(self, trial);
        let began = Instant::now();
        while !trial.ends_within(intervals.wait(Instant::now())) {
            if self.is_over() {
                return Err("the server was stopped");
            }
            if began.elapsed() > most || limit.is_some_and(|limit| began.elapsed() > limit) {
                trial.stopper().finish();
            }
            match self.look() {
                Heard::Nothing => {}
                Heard::Interrupted => trial.stopper().finish(),
                // Whoever sends may have said all that it says.
                Heard::End if self.asked.client_sends || self.spec.workload == Workload::TcpStream => {}
                Heard::End | Heard::Lost => return Err("the client went away in mid-test"),
            }
            if let Some(line) = intervals.poll(trial, writer, Instant::now()) {
                let _ = Timed::new(&self.control, LINE_TIME).write_all(line.as_bytes());
            }
        }
        Ok(())
    }

    /// What the client says in mid-test.
    fn look(&self) -> Heard {
        let mut octets = [0; 64];
        // Without a wait: nothing is to be woken for it in mid-test.
        let _ = self.control.set_nonblocking(true);
        let read = (&self.control).read(&mut octets);
        let _ = self.control.set_nonblocking(false);
        match read {
            Ok(0) => Heard::End,
            Ok(len) if octets[..len].contains(&b'A') => Heard::Interrupted,
            Ok(_) => Heard::Nothing,
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted) =>
            {
                Heard::Nothing
            }
            Err(_) => Heard::Lost,
        }
    }
}

enum Heard {
    Nothing,
    /// The client's user interrupted it: urgent data.
    Interrupted,
    /// It closed its side.
    End,
    Lost,
}

/// What a receiver reports as it goes.
struct Intervals {
    length: Duration,
    numbered: bool,
    odometer: Option<Odometer>,
    began: Option<Instant>,
    last: (Instant, Moved),
}

impl Intervals {
    fn new(session: &Session<'_>, trial: &Trial) -> Intervals {
        let asked = &session.asked;
        let wanted = asked.client_sends && !asked.interval.is_zero();
        Intervals {
            length: asked.interval.max(LOOK_AGAIN),
            numbered: is_numbered(asked),
            odometer: wanted.then(|| trial.odometer()),
            began: None,
            last: (Instant::now(), Moved::default()),
        }
    }

    /// How long nothing need be looked at. The first data rings no bell, and the intervals begin with it.
    fn wait(&self, now: Instant) -> Duration {
        match (&self.odometer, self.began) {
            (None, _) => test::LOOK_AGAIN,
            (Some(_), None) => LOOK_AGAIN,
            (Some(_), Some(_)) => self.length.saturating_sub(now - self.last.0).min(test::LOOK_AGAIN),
        }
    }

    /// The line of the interval that ends now, if one does.
    fn poll(&mut self, trial: &Trial, writer: &Writer<'_>, now: Instant) -> Option<String> {
        let odometer = self.odometer.as_mut()?;
        // Looked at often enough that it does not wrap unseen.
        let moved = odometer.read();
        let Some(began) = self.began else {
            if trial.has_received() {
                (self.began, self.last.0) = (Some(now), now);
            }
            return None;
        };
        let (since, before) = self.last;
        if now - since < self.length {
            return None;
        }
        self.last = (now, moved);
        let drops = |missing: i64| self.numbered.then_some(missing);
        let part = Part {
            octets: moved.octets - before.octets,
            elapsed: now - since,
            packets: moved.messages - before.messages,
            drops: drops(moved.missing as i64 - before.missing as i64),
        };
        let so_far = Part {
            octets: moved.octets,
            elapsed: now - began,
            packets: moved.messages,
            drops: drops(moved.missing as i64),
        };
        Some(writer.interval(&part, &so_far))
    }
}
