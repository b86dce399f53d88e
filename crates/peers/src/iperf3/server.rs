//! What an iperf3 server says: a control connection for each test, and streams that belong to it.
//!
//! ```text
//!   TCP connection ─→ cookie known? ─┬─ no ──→ a test of its own
//!                                    └─ yes ─→ a stream of the test that waits for it
//!   datagram ─→ from where a test waits for a stream? ─→ connected socket ─→ that test
//! ```
//! Data goes only where a control connection came from: a stream's address is that of its test's client.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use linerate_host::sys::socket_state::least_round_trip;
use linerate_host::traffic::reachability::{ProvenPeer, SendPermission};
use linerate_host::traffic::{Adopted, Trial};
use linerate_machine::end::{Direction, End};
use linerate_machine::sync::Mutex;
use linerate_trial::flow::Flow;
use linerate_trial::outcome::{FlowOutcome, Outcome, Role};
use linerate_trial::spec::{Extent, Spec, Workload};
use socket2::Socket;

use super::datagram;
use super::mapping::{Refused, SAFETY, in_order_of_opening, note_buffers, outcome_of, results_of, spec_of};
use super::message::{Cookie, MAX_RESULTS, State, read_json, write_json, write_state};
use super::parameters::{MAX_PARAMETERS, Parameters};
use super::reconcile::{last_pause, reconcile, untold_time};
use super::results::Results;
use crate::deadline::Timed;
use crate::early_datagrams::StreamMarks;
use crate::error::Error;
use crate::limits::Limits;
use crate::listener::is_passing;
use crate::protocol::{FirstDatagram, Serve};
use crate::remote_end::remote_end;
use crate::server::{Connection, DatagramStream, ServerTest, Service};
use crate::socket_options;
use crate::wait::join;

/// How long a client has for each of its messages.
const MESSAGE_TIME: Duration = Duration::from_secs(10);
/// How long a client has to open its streams; it waits as long itself.
const STREAMS_TIME: Duration = Duration::from_secs(30);
/// How often something is looked at that wakes nobody.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// How long a client waits to hear whether it is known: more than a machine takes to decrypt its token.
const ADMISSION_TIME: Duration = Duration::from_millis(200);

/// The tests that wait for streams.
#[derive(Default)]
pub struct Server {
    waiting: Mutex<Vec<Waiting>>,
    count: AtomicUsize,
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

/// A stream of a test, and its number among all that came to this server: the client numbers streams as it opens them, and
/// threads may hear of them in another order.
type Opened = (usize, Socket);

impl StreamMarks for Server {}

impl Serve for Server {
    /// A stream that a test waits for, or a test.
    fn connection<'a>(&'a self, service: Service<'a>, connection: Connection<'a>) {
        let Connection { stream, peer, number, permit } = connection;
        let Ok(cookie) = Cookie::read(&mut Timed::new(&stream, MESSAGE_TIME)) else { return };
        if let Some(test) = self.claim(|test| test.cookie == cookie && test.workload == Workload::TcpStream) {
            let _ = test.send((number, stream.into()));
            return;
        }
        let control = Control { stream };
        let Ok(parameters) = control.hear_parameters() else { return };
        permit.set_busy();
        let admitted = control.admit(service, &parameters).and_then(|()| spec_of(&parameters, service.limits()));
        let (spec, local) = match (admitted, control.stream.local_addr()) {
            (Ok(spec), Ok(local)) => (spec, local),
            (Err(refused), _) => {
                control.refuse(refused);
                return service.refuse(peer, refused.sentence());
            }
            (_, Err(_)) => return,
        };
        // Until here it has neither a place among the tests nor memory.
        let Some(mut test) = service.begin((peer, local), &spec, Some(&control.stream)) else {
            let _ = control.say(State::AccessDenied);
            return;
        };
        drop(permit);
        test.version.clone_from(&parameters.client_version);
        let ended = Test { server: self, control, cookie, parameters, spec: &spec, test: &test }.conduct();
        test.finish((spec, ended));
    }

    fn datagrams(&self) -> Option<&dyn StreamMarks> {
        Some(self)
    }

    /// The first of a stream, if a test of a client at that address waits for one.
    fn first_datagram(&self, _: Service<'_>, peer: SocketAddr, octets: &[u8]) -> FirstDatagram {
        let is_awaited =
            octets.len() == datagram::HELLO.len() && self.waiting.lock().iter().any(|test| test.awaits(peer));
        if is_awaited { FirstDatagram::Begins } else { FirstDatagram::Nothing }
    }

    fn stream<'a>(&'a self, _: Service<'a>, stream: DatagramStream<'a>) {
        if let Some(test) = self.claim(|test| test.awaits(stream.peer))
            && stream.socket.send(&datagram::REPLY).is_ok()
        {
            let _ = test.send((stream.number, stream.socket));
        }
    }
}

impl Waiting {
    /// Whether it waits for datagrams from there.
    fn awaits(&self, peer: SocketAddr) -> bool {
        self.wanted > 0 && self.client.is(peer) && self.workload == Workload::UdpStream
    }
}

impl Server {
    /// The newest test that waits for such a stream, which is one fewer then: older ones of the same address may have been
    /// given up.
    fn claim(&self, wants: impl Fn(&Waiting) -> bool) -> Option<mpsc::Sender<Opened>> {
        let mut waiting = self.waiting.lock();
        let test = waiting.iter_mut().rfind(|waiting| waiting.wanted > 0 && wants(waiting))?;
        test.wanted -= 1;
        Some(test.streams.clone())
    }
}

/// A client's control connection.
struct Control {
    stream: TcpStream,
}

impl Control {
    fn timed(&self) -> Timed<'_> {
        Timed::new(&self.stream, MESSAGE_TIME)
    }

    fn say(&self, state: State) -> io::Result<()> {
        write_state(&mut self.timed(), state)
    }

    fn hear_parameters(&self) -> io::Result<Parameters> {
        let _ = self.stream.set_nodelay(true);
        self.say(State::ParamExchange)?;
        read_json(&mut self.timed(), MAX_PARAMETERS)
    }

    /// Whether the client may have a test. The answer comes after the same time, whatever it is: how long it took to find
    /// would help those who guess.
    fn admit(&self, service: Service<'_>, parameters: &Parameters) -> Result<(), Refused> {
        if !service.is_guarded() {
            return Ok(());
        }
        let asked = Instant::now();
        let is_known = service.admits(parameters.authtoken.as_deref());
        thread::sleep(ADMISSION_TIME.saturating_sub(asked.elapsed()));
        if is_known { Ok(()) } else { Err(Refused::User) }
    }

    fn refuse(&self, refused: Refused) {
        let words = [[0, 0, 0, refused as u8], [0; 4]].concat();
        let _ = self.say(State::ServerError).and_then(|()| self.timed().write_all(&words));
    }
}

/// One test that has its place.
struct Test<'a> {
    server: &'a Server,
    control: Control,
    cookie: Cookie,
    parameters: Parameters,
    spec: &'a Spec,
    test: &'a ServerTest<'a>,
}

impl Test<'_> {
    fn conduct(self) -> Result<Box<[Outcome; 2]>, Error> {
        let Test { control, parameters, spec, .. } = &self;
        let client = ProvenPeer::by_connection(&control.stream).map_err(Error::client("went away"))?;
        let flows = self.streams(client).map_err(Error::client("did not open its streams"))?;
        // Open until the client has said that the test is over: to some versions a stream that ends before is a failure.
        let held = flows.iter().map(|(_, socket)| socket.try_clone()).collect::<io::Result<Vec<_>>>();
        let reach = if spec.workload.is_udp() { SendPermission::Proven(client) } else { SendPermission::Connected };
        let flows = flows.into_iter().map(|flow| bounded(flow, reach, parameters, spec)).collect();
        let asked = Spec { extent: Extent::Time(patience(spec, self.test.limits())), ..(*spec).clone() };
        let trial = self.test.adopt(asked, datagram::framing(parameters), flows)?;
        let began = control.say(State::TestStart).and_then(|()| control.say(State::TestRunning));
        began.map_err(Error::client("went away"))?;
        trial.start();
        let started = Instant::now();
        let watched = self.watch(&trial);
        if watched.is_ok() {
            trial.stopper().finish();
        }
        // The streams are closed before results are asked for: that is how a client that receives learns of the end.
        let outcome = join(trial, watched);
        drop(held);
        if matches!(outcome, Err(Error::Traffic(_))) {
            control.refuse(Refused::NoData);
        }
        let mut outcome = outcome?;
        if outcome.ended_early {
            let mut theirs = remote_end(spec, &outcome);
            note_buffers(&mut theirs, parameters);
            return Ok(Box::new([outcome, theirs]));
        }
        last_pause(&mut outcome, spec.extent);
        same_time(&mut outcome, started.elapsed());
        let mut theirs = match self.exchange(&outcome) {
            Ok(results) => outcome_of(spec, End::Host, &results),
            // The test is over: what this end saw of it does not go with the client.
            Err(Error::ClientLost { .. } | Error::ClientLeft(_)) => remote_end(spec, &outcome),
            Err(error) => return Err(error),
        };
        note_buffers(&mut theirs, parameters);
        reconcile(&mut outcome, &mut theirs, least_round_trip(&control.stream));
        untold_time(&mut theirs, &outcome, Duration::ZERO);
        Ok(Box::new([outcome, theirs]))
    }

    /// The sockets of the streams, once the client has opened all of them.
    fn streams(&self, client: ProvenPeer) -> io::Result<Vec<(Flow, Socket)>> {
        let Test { server, spec, .. } = self;
        let flows = in_order_of_opening(spec);
        let (streams, opened) = mpsc::channel();
        let number = server.count.fetch_add(1, Ordering::Relaxed);
        let (cookie, workload, wanted) = (self.cookie, spec.workload, flows.len());
        server.waiting.lock().push(Waiting { number, cookie, client, workload, wanted, streams });
        let sockets = self.control.say(State::CreateStreams).and_then(|()| self.collect(&opened, wanted));
        server.waiting.lock().retain(|waiting| waiting.number != number);
        let mut streams: Vec<(Flow, Socket)> = flows.into_iter().zip(sockets?).collect();
        for (_, socket) in &streams {
            socket_options::apply(socket, spec)?;
        }
        streams.sort_by_key(|(flow, _)| flow.id);
        Ok(streams)
    }

    fn collect(&self, opened: &mpsc::Receiver<Opened>, wanted: usize) -> io::Result<Vec<Socket>> {
        let deadline = Instant::now() + STREAMS_TIME;
        let mut sockets = Vec::new();
        while sockets.len() < wanted {
            match opened.recv_timeout(LOOK_AGAIN) {
                Ok(opened) => sockets.push(opened),
                Err(_) if self.test.is_over() || self.has_spoken() => return Err(ErrorKind::ConnectionAborted.into()),
                Err(_) if Instant::now() > deadline => return Err(ErrorKind::TimedOut.into()),
                Err(_) => {}
            }
        }
        sockets.sort_by_key(|(number, _)| *number);
        Ok(sockets.into_iter().map(|(_, socket)| socket).collect())
    }

    /// Whether the client has closed its control connection while it opens streams, or said something there: it has nothing
    /// to say but that it goes.
    fn has_spoken(&self) -> bool {
        let control = &self.control.stream;
        let _ = control.set_read_timeout(Some(Duration::from_millis(1)));
        control.peek(&mut [0]).is_ok() || control.take_error().ok().flatten().is_some()
    }

    /// Until the client says that the test is over.
    fn watch(&self, trial: &Trial) -> Result<(), Error> {
        let mut control = &self.control.stream;
        let mut octet = [0];
        let mut ended = None;
        loop {
            if self.test.is_over() {
                let _ = self.control.say(State::ServerTerminate);
                return Err(Error::Stopped);
            }
            let _ = control.set_read_timeout(Some(LOOK_AGAIN));
            match control.read(&mut octet) {
                Ok(1) => match State::of(octet[0]) {
                    Some(State::TestEnd) => return Ok(()),
                    Some(State::ClientTerminate) => return Err(Error::ClientLeft("was interrupted")),
                    _ => return Err(Error::ClientLeft("said something that no iperf3 says in mid-test")),
                },
                Err(error) if is_passing(&error) => {
                    // A sender ends by its own clock; that the test is over is the client's to say, when all has come there.
                    // Stalled, or long past its time: what is wrong, the trial says.
                    if trial.has_ended() && ended.get_or_insert_with(Instant::now).elapsed() > MESSAGE_TIME {
                        return Ok(());
                    }
                }
                _ => return Err(Error::ClientLeft("went away in mid-test")),
            }
        }
    }

    /// Results both ways, and the last words.
    fn exchange(&self, outcome: &Outcome) -> Result<Results, Error> {
        let Test { control, parameters, spec, .. } = self;
        let exchanged = control.say(State::ExchangeResults).and_then(|()| {
            let theirs: Results = read_json(&mut control.timed(), MAX_RESULTS)?;
            let mut ours = results_of(spec, outcome);
            if parameters.get_server_output {
                ours.server_output_text = Some(output(spec, outcome));
            }
            write_json(&mut control.timed(), &ours)?;
            control.say(State::DisplayResults)?;
            Ok(theirs)
        });
        let theirs = exchanged.map_err(Error::client("went away before results were exchanged"))?;
        let mut octet = [0];
        let last = control.timed().read(&mut octet);
        let _ = control.stream.shutdown(Shutdown::Write);
        let _ = io::copy(&mut control.timed().take(1024), &mut io::sink());
        // The last byte may never come: the client has all it wants.
        if matches!(last, Ok(1)) && State::of(octet[0]) == Some(State::ClientTerminate) {
            return Err(Error::ClientLeft("was interrupted"));
        }
        Ok(theirs)
    }
}

/// A stream that this end sends with what it sends at most, where a number of octets or blocks was asked for. They are of
/// all streams together, so each has its share; and whole blocks, for a client of 3.16 or later counts no part of one. Not
/// of datagrams: some are lost, and the client counts what it receives.
fn bounded((flow, socket): (Flow, Socket), reach: SendPermission, parameters: &Parameters, spec: &Spec) -> Adopted {
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
        _ => limits.time(),
    }
}

/// Every stream received until the client's word: its server has one time for all, and a client takes any of them for the
/// sum's. Their threads heard of it one after the other.
///
/// A stream that its client closed before has its time from the trial, which took `most`.
fn same_time(outcome: &mut Outcome, most: Duration) {
    let most_ns = most.as_nanos() as u64;
    let received = |flow: &&mut FlowOutcome| flow.role == Role::Receiver && flow.octets > 0;
    let longest_ns = outcome.flows.iter_mut().filter(received).map(|flow| flow.elapsed_ns.min(most_ns)).max();
    outcome.flows.iter_mut().filter(received).for_each(|flow| flow.elapsed_ns = longest_ns.unwrap_or(0));
}

/// What the client shows as the server's output.
fn output(spec: &Spec, outcome: &Outcome) -> String {
    let mut text = concat!("linerate ", env!("CARGO_PKG_VERSION"), "\n").to_owned();
    for flow in &outcome.flows {
        let seconds = flow.elapsed_ns as f64 / 1e9;
        let rate = if seconds > 0.0 { flow.octets as f64 * 8.0 / seconds / 1e6 } else { 0.0 };
        let what = if flow.arrivals.is_some() || flow.role == Role::Receiver { "received" } else { "sent" };
        text += &format!("{} {what} {} bytes in {seconds:.3} s, {rate:.1} Mbit/s", spec.workload, flow.octets);
        if let Some(arrivals) = &flow.arrivals {
            text += &format!(", {} datagrams", arrivals.received);
        }
        text.push('\n');
    }
    text
}
