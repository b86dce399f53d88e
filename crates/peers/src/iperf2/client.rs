//! What an iperf2 client says: little, and what is known of the server's end TCP's close or a report tells.

use std::io::{self, ErrorKind, Write};
use std::net::UdpSocket;
use std::thread;
use std::time::{Duration, Instant};

use linerate_host::traffic::reachability::{ProvenPeer, SendPermission};
use linerate_host::traffic::{Adopted, Early, Trial};
use linerate_machine::end::{Direction, End};
use linerate_trial::flow::Flow;
use linerate_trial::outcome::{FlowOutcome, Outcome, Role};
use linerate_trial::spec::Workload;
use linerate_trial::wire::Probe;
use socket2::Socket;

use super::bounce_back;
use super::datagram::{self, Numbers, PREFIX_LEN};
use super::header::{FULL_LEN, Header};
use super::mapping::{address_check, header_of, reported};
use super::report::Report;
use super::sockets::{await_report, framing, stream};
use crate::client::Client;
use crate::deadline::Timed;
use crate::error::Error;
use crate::protocol::Notify;
use crate::remote_end::remote_end;
use crate::socket_options::open;
use crate::wait::{LOOK_AGAIN, is_cut_short};

/// How long the server has to take a header.
const HEADER_TIME: Duration = Duration::from_secs(10);
/// Threads that wait.
const STACK: usize = 256 << 10;
/// How late a server may end that sends, of a machine that is busy or a queue that is long.
const LATE: Duration = Duration::from_secs(10);
/// How long a server has for its first data: less than the controller waits for some.
const FIRST_TIME: Duration = Duration::from_secs(3);
/// Octets by which a server acknowledges a header: they are no data.
const MOST_ACK: u64 = 52;
/// How often, and how many times, a server is asked for datagrams: as the peer's client does.
const ASK_PERIOD: Duration = Duration::from_millis(20);
const ASK_TIMES: usize = 100;
/// Datagrams of the session by which a server shows that it is there, how often it is tried, and how often and how many times
/// its end is said.
const CHECK_LEN: usize = 8;
const CHECKS: usize = 3;
const CHECK_PERIOD: Duration = Duration::from_millis(100);
const CHECK_ENDS: u64 = 8;
/// How long a server takes until it is ready for another session: 2.1.8 waits until the client has been silent for 250 ms, and
/// what comes meanwhile begins none.
const READY_TIME: Duration = Duration::from_millis(400);
/// Time between the beginnings of two streams to one server.
const OPENING_PERIOD: Duration = Duration::from_millis(2);
/// At the least where there are several streams, for any may be the one that was not heard.
const ASK_ALL: usize = 5;

/// One test.
pub fn measure(client: &Client<'_>, notify: Notify) -> Result<[Outcome; 2], Error> {
    let test = Test { client };
    match client.spec.workload {
        Workload::UdpStream => test.datagrams(notify),
        _ => test.octets(notify),
    }
}

struct Test<'a> {
    client: &'a Client<'a>,
}

impl Test<'_> {
    /// A test over TCP: streams, or requests.
    fn octets(&self, notify: Notify) -> Result<[Outcome; 2], Error> {
        let asks = self.client.spec.workload == Workload::TcpRr;
        let opened = self.open(usize::from(self.client.spec.streams))?;
        // Where both directions are asked for, they share connections.
        let flows = Flow::of(self.client.spec).into_iter().zip(opened.iter().cycle());
        let streams = flows.map(|(flow, socket)| Ok((flow, socket.try_clone()?))).collect::<io::Result<_>>()?;
        let head = if asks { bounce_back::head(self.client.spec.request_size) } else { Vec::new() };
        let trial = self.adopt(head, streams, SendPermission::Connected, notify)?;
        if !asks {
            let header = header_of(self.client.spec, self.client.spec.direction).emit();
            for socket in &opened {
                say(socket, &header).map_err(self.client.lost("the test was asked for"))?;
            }
        }
        if self.client.spec.direction == Direction::Rx && !asks {
            return self.client.send_streams(trial, &opened.iter().collect::<Vec<_>>(), LATE);
        }
        trial.start();
        if !asks && self.client.spec.direction == Direction::Tx {
            self.await_data(&trial)?;
        }
        let outcome = self.client.outcome(trial, LATE)?;
        if !asks {
            self.check_sent(&outcome)?;
        }
        // One that is killed closes as one that has sent everything.
        if is_cut_short(&outcome, self.client.spec) && !self.client.is_stopped() {
            return Err(self.client.lost("the test ran")(ErrorKind::UnexpectedEof.into()));
        }
        // Of a server that does not know what it is asked, requests are a stream.
        if asks && outcome.flows.iter().all(|flow| flow.messages_total == 0) && !self.client.is_stopped() {
            let action = "start an iperf there that knows --bounceback, as 2.1.8 does, or choose tcp-stream; one of 2.2 wants \
                          request_size=68 or more";
            return Err(self.client.refused("answered no request", action));
        }
        Ok([remote_end(self.client.spec, &outcome), outcome])
    }

    /// Until the server's first data has come, or the test is over.
    fn await_data(&self, trial: &Trial) -> Result<(), Error> {
        let (until, mut totals) = (Instant::now() + FIRST_TIME, trial.totals());
        while totals.read().octets <= MOST_ACK && !trial.ends_within(LOOK_AGAIN) && !self.client.is_stopped() {
            if Instant::now() > until {
                return Err(self.sends_nothing());
            }
        }
        Ok(())
    }

    /// Whether data came on every stream on which it was to.
    fn check_sent(&self, outcome: &Outcome) -> Result<(), Error> {
        let came = |flow: &FlowOutcome| flow.role != Role::Receiver || flow.octets_total > MOST_ACK;
        let is_well = outcome.flows.iter().all(came) || self.client.is_stopped();
        if is_well { Ok(()) } else { Err(self.sends_nothing()) }
    }

    fn sends_nothing(&self) -> Error {
        let action =
            "if it is older than 2.1 (iperf -v), it sends nothing on its client's streams: choose direction=rx";
        self.client.refused("sent nothing", action)
    }

    /// A test over UDP: each stream has a socket of its own, whichever way it goes.
    fn datagrams(&self, notify: Notify) -> Result<[Outcome; 2], Error> {
        let flows = Flow::of(self.client.spec);
        let sends = self.client.spec.direction != Direction::Tx;
        let reach = if sends { self.reach()? } else { SendPermission::Silent };
        let opened: Vec<(Flow, Socket)> = flows.iter().copied().zip(self.open(flows.len())?).collect();
        let held = opened.iter().map(|(flow, socket)| Ok((*flow, socket.try_clone()?)));
        let held = held.collect::<io::Result<Vec<_>>>()?;
        let head = |header: Header| [&[0; PREFIX_LEN][..], &header.emit()].concat();
        let forward = head(header_of(self.client.spec, Direction::Rx));
        let trial = self.adopt(forward.clone(), opened, reach, notify)?;
        self.open_forward(&held, &forward);
        trial.start();
        self.ask(&trial, &held, &head(header_of(self.client.spec, Direction::Tx)))?;
        let mut outcome = self.client.outcome(trial, LATE)?;
        self.check_sent(&outcome)?;
        for ours in outcome.flows.iter_mut().filter(|flow| flow.role == Role::Sender) {
            // The one that opened the stream.
            (ours.messages, ours.messages_total) = (ours.messages + 1, ours.messages_total + 1);
            let size = u64::from(self.client.spec.message_octets());
            (ours.octets, ours.octets_total) = (ours.octets + size, ours.octets_total + size);
        }
        let mut target = remote_end(self.client.spec, &outcome);
        let size = self.client.spec.message_octets() as usize;
        let mut unheard = false;
        for (far, repeats) in self.reports(&outcome, &held, &forward, size) {
            unheard |= far.is_none();
            let (flow, repeats) = repeats;
            let Some(ours) = outcome.flows.iter_mut().find(|ours| ours.id == flow) else { continue };
            ours.end_marks = repeats;
            target.flows.extend(far.and_then(|report| reported(ours, &report, repeats)));
        }
        if unheard {
            return Err(if self.has_left(&held) { self.left() } else { Error::Silent(self.client.server()) });
        }
        target.flows.sort_by_key(|flow| flow.id);
        Ok([target, outcome])
    }

    /// Why this end may send: the server has answered a first session, or the user allows it without.
    fn reach(&self) -> Result<SendPermission, Error> {
        if let Some(limit) = self.client.unanswered()? {
            return Ok(SendPermission::Unproven(limit));
        }
        for _ in 0..CHECKS {
            if let Some(proven) = self.check_address()? {
                thread::sleep(READY_TIME);
                return Ok(SendPermission::Proven(proven));
            }
            if self.client.is_stopped() {
                return Err(Error::Stopped);
            }
        }
        Err(Error::Silent(self.client.server()))
    }

    /// A session of its own of a few small datagrams, with numbers like any other's: what this end draws at random is how many
    /// octets they have. The server's report repeats their sum.
    fn check_address(&self) -> Result<Option<ProvenPeer>, Error> {
        let mut drawn = [0; CHECK_LEN];
        getrandom::fill(&mut drawn).map_err(io::Error::other)?;
        let least = PREFIX_LEN + FULL_LEN;
        let sizes = drawn.map(|drawn| least + usize::from(drawn));
        let sum = (sizes.iter().sum::<usize>() + least) as u32;
        let head = [&[0; PREFIX_LEN][..], &address_check(sum).emit()].concat();
        let server = self.client.route.server;
        let socket =
            open(self.client.spec, self.client.route.local, server).map_err(|error| self.client.unreachable(error))?;
        let say = |number: u64, len: usize, emit: &dyn Fn(u64, &mut [u8])| {
            let mut octets = vec![0; len];
            octets[..head.len()].copy_from_slice(&head);
            emit(number, &mut octets);
            match socket.send(&octets) {
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => Err(self.client.unreachable(error)),
                _ => Ok(()),
            }
        };
        for (number, len) in (0..).zip(sizes) {
            say(number, len, &|sequence, octets| {
                datagram::emit(&Probe { sequence, measured: false, sent_at_ns: 0 }, octets);
            })?;
            // Its server has a thread to start, and loses what comes meanwhile.
            thread::sleep(if number == 0 { OPENING_PERIOD } else { Duration::ZERO });
        }
        let udp: UdpSocket = socket.try_clone()?.into();
        udp.set_read_timeout(Some(CHECK_PERIOD))?;
        let mut answer = [0; 2048];
        for again in 1..=CHECK_ENDS {
            say(CHECK_LEN as u64 + again, least, &|number, octets| datagram::emit_last(number, 0, octets))?;
            let until = Instant::now() + CHECK_PERIOD;
            while Instant::now() < until && !self.client.is_stopped() {
                match udp.recv(&mut answer) {
                    Ok(len) => {
                        let Some(report) = Report::parse(&answer[..len]) else { continue };
                        if report.is_old && self.client.spec.direction == Direction::Both {
                            return Err(self.sends_nothing());
                        }
                        return Ok(ProvenPeer::by_echo(server, &u64::from(sum), &report.all_octets(sizes[0] as u64)));
                    }
                    Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                        return Err(self.client.unreachable(error));
                    }
                    Err(_) => break,
                }
            }
        }
        Ok(None)
    }

    fn left(&self) -> Error {
        self.client.refused(
            "answered a first session of a few datagrams, by which this end finds out whether it is there, and ended",
            "start 'iperf -s -u' there without -P and -1, or leave that session out with --allow-unanswered RATE",
        )
    }

    /// Whether nobody listens there any more: what begins no test, a server drains.
    fn has_left(&self, held: &[(Flow, Socket)]) -> bool {
        let Some((_, socket)) = held.first() else { return false };
        let mut stray = [0; PREFIX_LEN + FULL_LEN];
        datagram::emit_last(1, 0, &mut stray);
        let _ = socket.take_error();
        let _ = socket.send(&stray);
        thread::sleep(ASK_PERIOD);
        socket.take_error().is_ok_and(|error| error.is_some())
    }

    /// The first datagram of each stream that this end sends, with all of the header whatever the size of the others, as
    /// the peer's client has it. Its server takes one stream after the other, and loses what comes meanwhile.
    fn open_forward(&self, held: &[(Flow, Socket)], head: &[u8]) {
        let mut first = vec![0; (self.client.spec.message_octets() as usize).max(head.len())];
        first[..head.len()].copy_from_slice(head);
        datagram::emit(&Probe { sequence: 0, measured: true, sent_at_ns: 0 }, &mut first);
        let forward: Vec<_> = held.iter().filter(|(flow, _)| flow.source == End::Host).collect();
        for (_, socket) in &forward {
            // One that is refused is lost, and its report says so.
            let _ = socket.send(&first);
            if forward.len() > 1 {
                thread::sleep(OPENING_PERIOD);
            }
        }
    }

    /// Each sender's report, or none; the flow's number, and how often its end was said again.
    fn reports(
        &self,
        outcome: &Outcome,
        held: &[(Flow, Socket)],
        head: &[u8],
        size: usize,
    ) -> Vec<(Option<Report>, (u16, u64))> {
        let number = |flow: &Flow| outcome.flows.iter().find(|one| one.id == flow.id).map(|one| one.messages_total);
        thread::scope(|scope| {
            let sent = held.iter().filter(|(flow, _)| flow.source == End::Host);
            let waits: Vec<_> = sent
                .filter_map(|(flow, socket)| {
                    let number = number(flow)?;
                    let thread = thread::Builder::new().stack_size(STACK);
                    Some((flow.id, thread.spawn_scoped(scope, move || await_report(socket, head, size, number)).ok()?))
                })
                .collect();
            let report = |(id, wait): (u16, thread::ScopedJoinHandle<'_, (Option<_>, u64)>)| {
                let (report, repeats) = wait.join().unwrap_or((None, 0));
                (report, (id, repeats))
            };
            waits.into_iter().map(report).collect()
        })
    }

    /// Asks for the server's streams until their data comes.
    fn ask(&self, trial: &Trial, held: &[(Flow, Socket)], head: &[u8]) -> Result<(), Error> {
        let asking: Vec<&Socket> =
            held.iter().filter(|(flow, _)| flow.source == End::Target).map(|(_, socket)| socket).collect();
        if asking.is_empty() {
            return Ok(());
        }
        // No more than the header: nobody has answered yet.
        let mut first = head.to_vec();
        datagram::emit(&Probe { sequence: 0, measured: false, sent_at_ns: 0 }, &mut first);
        for times in 0..ASK_TIMES {
            let enough = asking.len() == 1 || times >= ASK_ALL;
            if (trial.has_received() && enough) || self.client.is_stopped() {
                return Ok(());
            }
            for socket in &asking {
                match socket.send(&first) {
                    Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                        return Err(self.client.unreachable(error));
                    }
                    _ => {}
                }
            }
            thread::sleep(ASK_PERIOD);
        }
        if trial.has_received() { Ok(()) } else { Err(Error::Silent(self.client.server())) }
    }

    fn open(&self, count: usize) -> Result<Vec<Socket>, Error> {
        let route = self.client.route;
        let open =
            |_| open(self.client.spec, route.local, route.server).map_err(|error| self.client.unreachable(error));
        (0..count).map(open).collect()
    }

    fn adopt(
        &self,
        head: Vec<u8>,
        streams: Vec<(Flow, Socket)>,
        reach: SendPermission,
        notify: Notify,
    ) -> Result<Trial, Error> {
        let streams = streams.into_iter().map(|(flow, socket)| Adopted::new(flow, socket, reach)).collect();
        let framing = framing(self.client.spec, Numbers::Long, head, |_| Early::default());
        self.client.adopt(self.client.spec.clone(), framing, streams, notify)
    }
}

fn say(socket: &Socket, octets: &[u8]) -> io::Result<()> {
    let stream = stream(socket)?;
    Timed::new(&stream, HEADER_TIME).write_all(octets)?;
    stream.set_write_timeout(None)
}
