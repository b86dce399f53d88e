//! An iperf3 server: any number of clients at once, each test through linerate's own data path.
//! Knows no records and no terminal; what a test was is told to whoever wants to hear.
//!
//! ```text
//!   TCP connection ─→ cookie known? ─┬─ no ──→ a test of its own, in a thread
//!                                    └─ yes ─→ a stream of the test that waits for it
//!   datagram ─→ from where a test waits for a stream? ─→ connected socket ─→ that test
//! ```
//! Data goes only where a control connection came from: a stream's address is that of its test's client.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use linerate_host::interfaces;
use linerate_host::traffic::reachability::{ProvenPeer, Reach};
use linerate_host::traffic::{Adopted, Trial};
use linerate_trial::flow::{End, Flow};
use linerate_trial::outcome::Outcome;
use linerate_trial::spec::{Direction, Extent, Spec, Workload};
use socket2::Socket;

use super::datagram;
use super::mapping::{Refused, SAFETY, in_order_of_opening, outcome_of, results_of, spec_of};
use super::message::{Cookie, MAX_RESULTS, State, read_json, write_json, write_state};
use super::parameters::{MAX_PARAMETERS, Parameters};
use super::results::Results;
use super::sockets::{framing, settle};
use crate::connection_limit::{ConnectionLimit, ConnectionPermit};
use crate::deadline::Timed;
use crate::listener::{Listener, await_all, is_passing};
use crate::served_test::{Limits, Refusals, ServedTest};
use crate::socket_options::prepare;
use crate::test_limit::{TestDemand, TestPermit, memory_of};

/// The port of TCP and UDP.
pub const PORT: u16 = 5201;

/// How long a client has for each of its messages.
const MESSAGE_TIME: Duration = Duration::from_secs(10);
/// How long a client has to open its streams; it waits as long itself.
const STREAMS_TIME: Duration = Duration::from_secs(30);
/// How often something that has no bell is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// How long a client waits to hear whether it is known: more than a machine takes to decrypt its token.
const ADMISSION_TIME: Duration = Duration::from_millis(200);

/// First datagrams that one look takes.
const MOST_UNKNOWN: usize = 64;

/// A server that listens.
pub struct Server {
    listeners: Vec<Listener>,
    limits: Limits,
    refusals: Refusals,
    admits: Option<Admits>,
    shared: Shared,
}

/// Whether the client of this token may have a test.
pub type Admits = Box<dyn Fn(&str) -> bool + Send + Sync>;

/// What the accepting threads and the tests share.
struct Shared {
    waiting: Mutex<Vec<Waiting>>,
    /// Connections that have not shown yet that they may have a test, and which.
    strangers: ConnectionLimit,
    count: AtomicUsize,
    ended: AtomicUsize,
}

/// A test that waits for streams.
struct Waiting {
    number: usize,
    cookie: Cookie,
    client: ProvenPeer,
    workload: Workload,
    wanted: usize,
    streams: mpsc::Sender<Opened>,
}

/// A stream of a test, and its place among all that came to this server: the client numbers streams as it opens them,
/// and threads may hear of them in another order.
type Opened = (usize, Socket);

impl Server {
    /// Listens on an address, or on every one. Port 0 is any that is free.
    pub fn bind(address: Option<IpAddr>, port: u16, limits: Limits) -> io::Result<Server> {
        Ok(Server {
            listeners: Listener::open_all(address, port, &limits.allow)?,
            limits,
            refusals: Box::new(|_, _| {}),
            admits: None,
            shared: Shared {
                waiting: Mutex::default(),
                strangers: ConnectionLimit::default(),
                count: AtomicUsize::new(0),
                ended: AtomicUsize::new(0),
            },
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

    /// The port that is listened on.
    pub fn port(&self) -> io::Result<u16> {
        Ok(self.listeners[0].tcp.local_addr()?.port())
    }

    /// Serves until `is_over` says so, given how many tests have ended; `heard` is told of each. Tests that run then are
    /// aborted.
    pub fn run(&self, is_over: impl Fn(usize) -> bool + Sync, heard: impl Fn(ServedTest) + Sync) -> io::Result<()> {
        thread::scope(|scope| {
            await_all(self.listeners.iter().map(|listener| {
                let (is_over, heard) = (&is_over, &heard);
                scope.spawn(move || self.attend(listener, scope, is_over, heard))
            }))
        })
    }

    /// Looks at one family's sockets, and gives each connection a thread.
    fn attend<'scope, 'env>(
        &'env self,
        listener: &'env Listener,
        scope: &'scope thread::Scope<'scope, 'env>,
        is_over: &'env (impl Fn(usize) -> bool + Sync),
        heard: &'env (impl Fn(ServedTest) + Sync),
    ) -> io::Result<()> {
        let over = || is_over(self.shared.ended.load(Ordering::Relaxed));
        let mut count = 0;
        while !over() {
            listener.wait()?;
            if let Some((stream, peer)) = listener.accept() {
                count += 1;
                let place = count;
                let work = move |stranger, stream| self.receive(stranger, (place, stream), peer, is_over, heard);
                self.shared.strangers.receive(scope, (stream, peer), work);
            }
            let mut octets = [0; 64];
            // An error is an ICMP message about a peer that is gone.
            if let Ok((len, peer)) = listener.udp.recv_from(&mut octets)
                && len == datagram::HELLO.len()
            {
                self.open_datagrams(listener, peer, &mut count);
            }
        }
        Ok(())
    }

    /// A connection: a stream that a test waits for, or a test.
    fn receive(
        &self,
        stranger: ConnectionPermit<'_>,
        (place, stream): (usize, TcpStream),
        peer: SocketAddr,
        is_over: &(impl Fn(usize) -> bool + Sync),
        heard: &(impl Fn(ServedTest) + Sync),
    ) {
        let Ok(cookie) = Cookie::read(&mut Timed::new(&stream, MESSAGE_TIME)) else { return };
        let wants = |waiting: &Waiting| waiting.cookie == cookie && waiting.workload == Workload::TcpStream;
        if let Some(test) = self.shared.claim(wants) {
            let _ = test.send((place, stream.into()));
            return;
        }
        let over = || is_over(self.shared.ended.load(Ordering::Relaxed));
        let asking = Asking { server: self, control: stream, cookie, peer };
        // Until here it is a stranger: it has neither a place among the tests nor memory.
        let Some((test, place)) = asking.parameters(stranger) else { return };
        let served = test.run(&|| over() || place.is_evicted(), &place);
        // Before the connection closes: its client may come back at once.
        drop(place);
        if let Some(served) = served {
            heard(served);
            self.shared.ended.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A datagram from somebody unknown: the first of a stream, if a test of a client at that address waits for one.
    fn open_datagrams(&self, listener: &Listener, peer: SocketAddr, count: &mut usize) {
        let mut unknown = vec![peer];
        while let Some(peer) = unknown.pop() {
            let wants = |waiting: &Waiting| waiting.client.is(peer) && waiting.workload == Workload::UdpStream;
            let Some(test) = self.shared.claim(wants) else { continue };
            let Ok((socket, before)) = listener.connected(peer) else { continue };
            let hellos =
                before.into_iter().filter(|(from, octets)| *from != peer && octets.len() == datagram::HELLO.len());
            unknown.extend(hellos.map(|(from, _)| from).take(MOST_UNKNOWN));
            if socket.send(&datagram::REPLY).is_ok() {
                *count += 1;
                let _ = test.send((*count, socket));
            }
        }
    }
}

impl Shared {
    fn waiting(&self) -> MutexGuard<'_, Vec<Waiting>> {
        self.waiting.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The newest test that waits for such a stream, which is one fewer then: older ones of the same address may have been
    /// given up.
    fn claim(&self, wants: impl Fn(&Waiting) -> bool) -> Option<mpsc::Sender<Opened>> {
        let mut waiting = self.waiting();
        let test = waiting.iter_mut().rfind(|waiting| waiting.wanted > 0 && wants(waiting))?;
        test.wanted -= 1;
        Some(test.streams.clone())
    }
}

/// A client that has said its cookie.
struct Asking<'a> {
    server: &'a Server,
    control: TcpStream,
    cookie: Cookie,
    peer: SocketAddr,
}

/// One test, from its place to its end.
struct Test<'a> {
    asking: Asking<'a>,
    parameters: Parameters,
    local: SocketAddr,
    spec: Spec,
}

/// How a test that has begun ended.
enum Ended {
    /// The client has all it wanted.
    ServerReport(Results),
    /// The client went, or said that it was interrupted.
    Left(&'static str),
}

impl<'a> Asking<'a> {
    /// Hears what it wants. `None`: it is refused, or wants no test.
    fn parameters(self, stranger: ConnectionPermit<'_>) -> Option<(Test<'a>, TestPermit)> {
        let _ = self.control.set_nodelay(true);
        let parameters = self.say(State::ParamExchange).and_then(|()| self.hear_parameters()).ok()?;
        stranger.set_busy();
        let local = self.control.local_addr().ok()?;
        let limits = &self.server.limits;
        let spec = match self.admit(&parameters).and_then(|()| spec_of(&parameters, limits)) {
            Ok(spec) => spec,
            Err(refused) => {
                self.refuse(refused);
                (self.server.refusals)(self.peer, refused.sentence());
                return None;
            }
        };
        let wanted = TestDemand {
            server: "iperf3",
            most: limits.tests,
            memory: memory_of(&spec),
            proven: true,
            control: Some(&self.control),
        };
        let Some(place) = limits.memory.take(wanted) else {
            let _ = self.say(State::AccessDenied);
            (self.server.refusals)(self.peer, "came while as many tests ran as are allowed");
            return None;
        };
        Some((Test { asking: self, parameters, local, spec }, place))
    }

    /// Whether the client may have a test. The answer comes after the same time, whatever it is: how long it took to find
    /// would help those who guess.
    fn admit(&self, parameters: &Parameters) -> Result<(), Refused> {
        let Some(admits) = &self.server.admits else { return Ok(()) };
        let asked = Instant::now();
        let is_known = parameters.authtoken.as_deref().is_some_and(admits);
        thread::sleep(ADMISSION_TIME.saturating_sub(asked.elapsed()));
        if is_known { Ok(()) } else { Err(Refused::User) }
    }

    fn timed(&self) -> Timed<'_> {
        Timed::new(&self.control, MESSAGE_TIME)
    }

    fn say(&self, state: State) -> io::Result<()> {
        write_state(&mut self.timed(), state)
    }

    fn hear_parameters(&self) -> io::Result<Parameters> {
        read_json(&mut self.timed(), MAX_PARAMETERS)
    }

    fn refuse(&self, refused: Refused) {
        let words = [[0, 0, 0, refused as u8], [0; 4]].concat();
        let _ = self.say(State::ServerError).and_then(|()| self.timed().write_all(&words));
    }
}

impl Test<'_> {
    /// `None`: whoever it was asked for no test.
    fn run(self, over: &dyn Fn() -> bool, place: &TestPermit) -> Option<ServedTest> {
        let local = self.local;
        let interface = interfaces::with_address(local);
        let ended = self.conduct(interface.clone(), over, place);
        Some(ServedTest {
            tool: "iperf3",
            version: self.parameters.client_version,
            peer: self.asking.peer,
            local,
            interface,
            spec: self.spec,
            ended,
            bytes: place.bytes(),
        })
    }

    fn conduct(
        &self,
        interface: Option<String>,
        over: &dyn Fn() -> bool,
        place: &TestPermit,
    ) -> Result<Box<[Outcome; 2]>, String> {
        let Test { asking, parameters, spec, .. } = self;
        let lost = |what: &'static str| move |error: io::Error| format!("the client {what}: {error}");
        let client = ProvenPeer::by_connection(&asking.control).map_err(lost("went away"))?;
        let flows = self.streams(client, over).map_err(lost("did not open its streams"))?;
        // Open until the client has said that the test is over: to some versions a stream that ends before is a failure.
        let held = flows.iter().map(|(_, socket)| socket.try_clone()).collect::<io::Result<Vec<_>>>();
        let reach = if spec.workload.is_udp() { Reach::Proven(client) } else { Reach::Connected };
        let flows = flows.into_iter().map(|flow| bounded(flow, reach, parameters, spec)).collect();
        let asked = Spec { extent: Extent::Time(patience(spec, &asking.server.limits)), ..spec.clone() };
        let framing = framing(parameters);
        let trial = Trial::adopt(asked, framing, End::Target, self.local.ip(), interface, flows, place.progress())
            .map_err(|error| error.to_string())?;
        let say = |state| asking.say(state);
        say(State::TestStart).and_then(|()| say(State::TestRunning)).map_err(lost("went away"))?;
        trial.start();
        let ended = self.watch(&trial, over);
        match ended {
            Ok(()) => trial.stopper().finish(),
            Err(_) => trial.stop(),
        }
        // The streams are closed before results are asked for: that is how a client that receives learns of the end.
        let outcome = trial.join();
        drop(held);
        match (&ended, &outcome) {
            (Ok(()), Ok(_)) => {}
            (Err(sentence), _) => return Err((*sentence).to_owned()),
            (Ok(()), Err(error)) => {
                asking.refuse(Refused::NoData);
                return Err(error.to_string());
            }
        }
        let mut outcome = outcome.map_err(|error| error.to_string())?;
        match self.exchange(&outcome).map_err(lost("went away before results were exchanged"))? {
            Ended::Left(sentence) => Err(sentence.to_owned()),
            Ended::ServerReport(theirs) => {
                let mut theirs = outcome_of(spec, End::Host, &theirs);
                settle(&mut outcome, &mut theirs);
                Ok(Box::new([outcome, theirs]))
            }
        }
    }

    /// The sockets of the streams, once the client has opened all of them.
    fn streams(&self, client: ProvenPeer, over: &dyn Fn() -> bool) -> io::Result<Vec<(Flow, Socket)>> {
        let Test { asking, spec, .. } = self;
        let shared = &asking.server.shared;
        let flows = in_order_of_opening(spec);
        let (sender, opened) = mpsc::channel();
        let number = shared.count.fetch_add(1, Ordering::Relaxed);
        shared.waiting().push(Waiting {
            number,
            cookie: asking.cookie,
            client,
            workload: spec.workload,
            wanted: flows.len(),
            streams: sender,
        });
        let sockets = asking.say(State::CreateStreams).and_then(|()| self.collect(&opened, flows.len(), over));
        shared.waiting().retain(|waiting| waiting.number != number);
        let mut streams: Vec<(Flow, Socket)> = flows.into_iter().zip(sockets?).collect();
        for (_, socket) in &streams {
            prepare(socket, spec)?;
        }
        streams.sort_by_key(|(flow, _)| flow.id);
        Ok(streams)
    }

    fn collect(
        &self,
        opened: &mpsc::Receiver<Opened>,
        wanted: usize,
        over: &dyn Fn() -> bool,
    ) -> io::Result<Vec<Socket>> {
        let deadline = Instant::now() + STREAMS_TIME;
        let mut sockets = Vec::new();
        while sockets.len() < wanted {
            match opened.recv_timeout(LOOK_AGAIN) {
                Ok(opened) => sockets.push(opened),
                Err(_) if over() || self.has_left() => return Err(ErrorKind::ConnectionAborted.into()),
                Err(_) if Instant::now() > deadline => return Err(ErrorKind::TimedOut.into()),
                Err(_) => {}
            }
        }
        sockets.sort_by_key(|(place, _)| *place);
        Ok(sockets.into_iter().map(|(_, socket)| socket).collect())
    }

    /// Whether the client has closed its control connection while it opens streams, or said something there: it has nothing
    /// to say but that it goes.
    fn has_left(&self) -> bool {
        let control = &self.asking.control;
        let _ = control.set_read_timeout(Some(Duration::from_millis(1)));
        control.peek(&mut [0]).is_ok() || control.take_error().ok().flatten().is_some()
    }

    /// Until the client says that the test is over; or a sentence about what happened instead.
    fn watch(&self, trial: &Trial, over: &dyn Fn() -> bool) -> Result<(), &'static str> {
        let mut control = &self.asking.control;
        let mut octet = [0];
        let mut ended = None;
        loop {
            if over() {
                let _ = self.asking.say(State::ServerTerminate);
                return Err("the server was stopped");
            }
            let _ = control.set_read_timeout(Some(LOOK_AGAIN));
            match control.read(&mut octet) {
                Ok(0) => return Err("the client went away in mid-test"),
                Ok(_) => match State::of(octet[0]) {
                    Some(State::TestEnd) => return Ok(()),
                    Some(State::ClientTerminate) => return Err("the client was interrupted"),
                    _ => return Err("the client said something that no iperf3 says in mid-test"),
                },
                Err(error) if is_passing(&error) => {
                    // A sender ends by its own clock; that the test is over is the client's to say, when all has come there.
                    // Stalled, or long past its time: what is wrong, the trial says.
                    if trial.has_ended() && ended.get_or_insert_with(Instant::now).elapsed() > MESSAGE_TIME {
                        return Ok(());
                    }
                }
                Err(_) => return Err("the client went away in mid-test"),
            }
        }
    }

    /// Results both ways, and the last words.
    fn exchange(&self, outcome: &Outcome) -> io::Result<Ended> {
        let Test { asking, parameters, spec, .. } = self;
        asking.say(State::ExchangeResults)?;
        let theirs: Results = read_json(&mut asking.timed(), MAX_RESULTS)?;
        let mut ours = results_of(spec, outcome);
        if parameters.get_server_output {
            ours.server_output_text = Some(output(spec, outcome));
        }
        write_json(&mut asking.timed(), &ours)?;
        asking.say(State::DisplayResults)?;
        let mut octet = [0];
        let last = asking.timed().read(&mut octet);
        // The last byte may never come: the client has all it wants.
        let left = matches!(last, Ok(1)) && State::of(octet[0]) == Some(State::ClientTerminate);
        let _ = asking.control.shutdown(Shutdown::Write);
        let _ = io::copy(&mut asking.timed().take(1024), &mut io::sink());
        Ok(if left { Ended::Left("the client was interrupted") } else { Ended::ServerReport(theirs) })
    }
}

/// A stream that this end sends with what it sends at most, where a number of octets or blocks was asked for. They are of
/// all streams together, so each has its share; and whole blocks, for a client of 3.16 or later counts no part of one. Not
/// of datagrams: some are lost, and the client counts what it receives.
fn bounded((flow, socket): (Flow, Socket), reach: Reach, parameters: &Parameters, spec: &Spec) -> Adopted {
    let most_octets = match (spec.extent, parameters.len) {
        (Extent::Octets(octets), Some(len)) if flow.source == End::Target && spec.workload == Workload::TcpStream => {
            let (blocks, streams) = (octets.div_ceil(len.max(1)), u64::from(spec.streams.max(1)));
            let share = blocks / streams + u64::from(u64::from(flow.id) % streams < blocks % streams);
            Some(share.saturating_mul(len))
        }
        _ => None,
    };
    Adopted::new(flow, socket, reach).at_most(most_octets)
}

/// How long this end goes on by itself. The client decides when a test is over. A sender stops by its own clock too, for
/// what it sends while the client's word is on its way would be sent and never counted; a receiver must not.
fn patience(spec: &Spec, limits: &Limits) -> Duration {
    match spec.extent {
        Extent::Time(time) if spec.direction == Direction::Tx && !time.is_zero() => time,
        Extent::Time(time) if !time.is_zero() => time + SAFETY,
        // Octets end it, or the client's user.
        _ => Duration::from_secs(limits.time_s),
    }
}

/// What the client shows as the server's output.
fn output(spec: &Spec, outcome: &Outcome) -> String {
    let mut text = concat!("linerate ", env!("CARGO_PKG_VERSION"), "\n").to_owned();
    for flow in &outcome.flows {
        let seconds = flow.elapsed_ns as f64 / 1e9;
        let rate = if seconds > 0.0 { flow.octets as f64 * 8.0 / seconds / 1e6 } else { 0.0 };
        let what = if flow.arrivals.is_some() || flow.role == linerate_trial::outcome::Role::Receiver {
            "received"
        } else {
            "sent"
        };
        text += &format!("{} {what} {} octets in {seconds:.3} s, {rate:.1} Mbit/s", spec.workload, flow.octets);
        if let Some(arrivals) = &flow.arrivals {
            text += &format!(", {} datagrams", arrivals.received);
        }
        text.push('\n');
    }
    text
}
