//! What a nuttcp server says: a request on a control connection, its data where the client wants it, and a report.
//! Data goes only where the control connection came from.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use linerate_host::traffic::reachability::{ProvenPeer, SendPermission};
use linerate_host::traffic::{Adopted, FlowProgress, FlowTotals, Trial};
use linerate_machine::end::Direction;
use linerate_trial::flow::Flow;
use linerate_trial::outcome::{FlowOutcome, Outcome, ThreadUse};
use linerate_trial::spec::{Spec, Workload};
use socket2::{SockRef, Socket};

use super::datagram::BEGINS;
use super::line::{self, Request};
use super::mapping::{is_numbered, spec_of};
use super::port_pool::{Arrival, PortPool, Ports};
use super::report_writer::{Closing, Opening, Part, Writer};
use super::sockets::{LISTENING_TIME, announce, begin, end, framing};
use crate::deadline::Timed;
use crate::error::Error;
use crate::listener::is_passing;
use crate::protocol::Serve;
use crate::remote_end::{forget_jitter, remote_end};
use crate::server::{Connection, ServerTest, Service};
use crate::socket_options::{self, open, open_listening};
use crate::wait::{self, has_left, join, mark_cut_short};

/// How long a client has for each of its lines.
const MESSAGE_TIME: Duration = Duration::from_secs(10);
/// How often something is looked at that wakes nobody.
const LOOK_AGAIN: Duration = Duration::from_millis(2);
/// How long a client has to open its connections.
const OPENING_TIME: Duration = Duration::from_secs(10);
/// How late a client may end, of a machine that is busy or a queue that is long.
const LATE: Duration = Duration::from_secs(40);
/// How long a line may take to a client that does not read.
const LINE_TIME: Duration = Duration::from_millis(100);

/// The ports of its clients' data.
#[derive(Default)]
pub struct Server {
    pool: PortPool,
}

impl Serve for Server {
    /// A test, if the first lines ask for one.
    fn connection<'a>(&'a self, service: Service<'a>, connection: Connection<'a>) {
        let Connection { stream: control, peer, permit, .. } = connection;
        let (Ok(Some(asked)), Ok(local)) = (hear_request(&control), control.local_addr()) else { return };
        let spec = match spec_of(&asked, service.limits()) {
            Ok(spec) => spec,
            Err(why) => {
                service.refuse(peer, &format!("was told: {why}"));
                return refuse(&control, &why);
            }
        };
        let Some(mut test) = service.begin((peer, local), &spec, Some(&control)) else {
            return refuse(&control, "as many tests run here as are allowed; try again when one is over");
        };
        drop(permit);
        test.version = Some(asked.version.to_string());
        let ended = Test { control, asked, spec: &spec, pool: &self.pool, test: &test }.run();
        // Of one that was not taken there is nothing to report.
        if let Some(ended) = ended {
            test.finish((spec, ended));
        }
    }
}

/// What a client asks for; the oldest do so without a address_check. `None`: nothing that could be understood.
fn hear_request(stream: &TcpStream) -> io::Result<Option<Request>> {
    stream.set_nodelay(true)?;
    let mut timed = Timed::new(stream, MESSAGE_TIME);
    let mut heard = line::read(&mut timed)?;
    if line::parse_hello(&heard).is_some() {
        timed.write_all(line::hello().as_bytes())?;
        heard = line::read(&mut timed)?;
    }
    Ok(Request::parse(&heard))
}

/// Says why there is no test.
fn refuse(stream: &TcpStream, why: &str) {
    let _ = Timed::new(stream, MESSAGE_TIME).write_all(line::refusal(why).as_bytes());
}

/// A test that has its place.
struct Test<'a> {
    /// The client's control connection.
    control: TcpStream,
    asked: Request,
    spec: &'a Spec,
    /// Where its data comes, if the client opens the connections.
    pool: &'a PortPool,
    test: &'a ServerTest<'a>,
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

impl Test<'_> {
    /// The test. `None`: it was refused.
    fn run(&self) -> Option<Result<Box<[Outcome; 2]>, Error>> {
        let client = ProvenPeer::by_connection(&self.control).ok()?;
        Some(match self.open(client) {
            Ok(opened) => self.conduct(opened, client),
            Err(Unopened::Here(why)) => {
                refuse(&self.control, &why);
                return None;
            }
            Err(Unopened::There(error)) => {
                let _ = self.say(&format!("nuttcp: Error: no connection for the data: {error}\n"));
                Err(Error::client("opened no connection for the data")(error))
            }
        })
    }

    fn say(&self, text: &str) -> io::Result<()> {
        Timed::new(&self.control, MESSAGE_TIME).write_all(text.as_bytes())
    }

    /// Whether the test is to end, or its client has gone.
    fn is_over(&self) -> bool {
        self.test.is_over() || has_left(&self.control)
    }

    /// Takes the test, and opens its connections as it wants them.
    fn open(&self, client: ProvenPeer) -> Result<Opened, Unopened> {
        let local = self.test.local;
        let asked = &self.asked;
        let flows = Flow::of(self.spec);
        // The sender opens the connections, or the other end where that is asked for; datagrams know no other.
        if asked.client_sends != (asked.reverse && !asked.udp) {
            let mut first = local;
            first.set_port(asked.port);
            let ports = Ports { first, count: flows.len() as u16, client, is_udp: asked.udp };
            let lease = self.pool.lease(ports, &self.test.limits().allow, &|| self.is_over());
            let lease = lease.map_err(|error| {
                Unopened::Here(format!("port {} is not to be had here: {error}; choose another with -p", asked.port))
            })?;
            self.say(&line::taken())?;
            let arrivals = lease.collect(OPENING_TIME, &|| self.is_over())?;
            return self.adopt(flows, arrivals);
        }
        self.say(&line::taken())?;
        if asked.udp {
            let socket = open(self.spec, local.ip(), client.at(asked.port))?;
            announce(&socket, &|| self.is_over())?;
            let flows = flows.into_iter().zip([socket]).collect();
            return Ok(Opened { flows, early: Vec::new(), rtt: None });
        }
        let mut opened = Opened { flows: Vec::new(), early: Vec::new(), rtt: None };
        for (flow, port) in flows.into_iter().zip(asked.port..) {
            let stopped = || self.is_over();
            let (socket, rtt) = open_listening(self.spec, local.ip(), client.at(port), LISTENING_TIME, &stopped)?;
            opened.flows.push((flow, socket));
            opened.rtt = Some(rtt);
        }
        Ok(opened)
    }

    fn adopt(&self, flows: Vec<Flow>, arrivals: Vec<Arrival>) -> Result<Opened, Unopened> {
        let mut opened = Opened { flows: Vec::new(), early: Vec::new(), rtt: None };
        for (flow, arrival) in flows.into_iter().zip(arrivals) {
            socket_options::apply(&arrival.socket, self.spec)?;
            // The first word shows who sends; with the second the time begins.
            opened.early.extend(arrival.datagrams.into_iter().filter(|octets| octets != BEGINS[0]));
            opened.flows.push((flow, arrival.socket));
        }
        Ok(opened)
    }

    fn conduct(&self, opened: Opened, client: ProvenPeer) -> Result<Box<[Outcome; 2]>, Error> {
        let Opened { flows, early, rtt } = opened;
        let Test { asked, spec, .. } = self;
        let writer = Writer { asked };
        let sends = spec.direction == Direction::Tx;
        let gone = Error::client("went away");
        let held = flows.first().map(|(_, socket)| socket.try_clone()).transpose().map_err(&gone)?;
        let opening = held.as_ref().map(|socket| self.opening(socket, rtt));
        let framing = framing(spec, sends, is_numbered(asked), early);
        let reach = if asked.udp { SendPermission::Proven(client) } else { SendPermission::Connected };
        let flows = flows.into_iter().map(|(flow, socket)| Adopted::new(flow, socket, reach)).collect();
        let trial = self.test.adopt((*spec).clone(), framing, flows)?;
        if let Some(opening) = opening {
            self.say(&writer.opening(&opening)).map_err(&gone)?;
        }
        let _ = SockRef::from(&self.control).set_out_of_band_inline(true);
        let marked = held.as_ref().filter(|_| sends && asked.udp);
        if let Some(socket) = marked {
            begin(socket);
        }
        trial.start();
        let watched = self.watch(&trial, &writer);
        if let (Ok(()), Some(socket)) = (&watched, marked) {
            let is_refused = || socket.take_error().is_ok_and(|error| error.is_some());
            end(socket, &mut || is_refused() || self.is_over());
        }
        let outcome = join(trial, watched);
        drop(held);
        if let Err(Error::Traffic(error)) = &outcome {
            let _ = self.say(&format!("nuttcp: Error: {error}\n"));
        }
        let mut outcome = outcome?;
        mark_cut_short(&mut outcome, spec, self.test.limits());
        forget_jitter(&mut outcome);
        let _ = self.say(&writer.closing(&self.closing(&outcome)));
        let _ = self.control.shutdown(Shutdown::Write);
        let remote = remote_end(spec, &outcome);
        Ok(Box::new([outcome, remote]))
    }

    fn opening(&self, socket: &Socket, rtt: Option<Duration>) -> Opening {
        Opening {
            peer: self.test.peer.ip().to_canonical(),
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
    fn watch(&self, trial: &Trial, writer: &Writer<'_>) -> Result<(), Error> {
        let allowed = self.test.limits().time();
        let most = self.spec.expected_time().unwrap_or(allowed) + LATE;
        // Where both are asked for, whichever is first ends what this end sends.
        let both = self.asked.nbuf.is_some() && !self.asked.timeout.is_zero();
        let limit = (both && !self.asked.client_sends).then_some(self.asked.timeout);
        let mut intervals = Intervals::new(self, trial);
        let began = Instant::now();
        while !trial.ends_within(intervals.wait(Instant::now())) {
            if self.test.is_over() {
                return Err(Error::Stopped);
            }
            if began.elapsed() > most || limit.is_some_and(|limit| began.elapsed() > limit) {
                trial.stopper().finish();
            }
            match self.look() {
                Heard::Nothing => {}
                Heard::Interrupted => trial.stopper().finish(),
                // A sender may have said all that it says.
                Heard::End if self.asked.client_sends || self.spec.workload == Workload::TcpStream => {}
                Heard::End | Heard::Lost => return Err(Error::ClientLeft("went away in mid-test")),
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
            Err(error) if is_passing(&error) => Heard::Nothing,
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
    totals: Option<FlowTotals>,
    began: Option<Instant>,
    last: (Instant, FlowProgress),
}

impl Intervals {
    fn new(test: &Test<'_>, trial: &Trial) -> Intervals {
        let asked = &test.asked;
        let wanted = asked.client_sends && !asked.interval.is_zero();
        Intervals {
            length: asked.interval.max(LOOK_AGAIN),
            numbered: is_numbered(asked),
            totals: wanted.then(|| trial.totals()),
            began: None,
            last: (Instant::now(), FlowProgress::default()),
        }
    }

    /// How long nothing need be looked at. The first data rings no bell, and the intervals begin with it.
    fn wait(&self, now: Instant) -> Duration {
        match (&self.totals, self.began) {
            (None, _) => wait::LOOK_AGAIN,
            (Some(_), None) => LOOK_AGAIN,
            (Some(_), Some(_)) => self.length.saturating_sub(now - self.last.0).min(wait::LOOK_AGAIN),
        }
    }

    /// The line of the interval that ends now, if one does.
    fn poll(&mut self, trial: &Trial, writer: &Writer<'_>, now: Instant) -> Option<String> {
        let totals = self.totals.as_mut()?;
        // Looked at often enough that it does not wrap unseen.
        let moved = totals.read();
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
