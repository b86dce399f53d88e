//! A ttcp client: a stream to a `ttcp -r`, or one that a `ttcp -t` sends here, through linerate's own data path.
//! Knows no records. Of the other end ttcp tells nothing but when it closes.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use linerate_host::traffic::reachability::Reach;
use linerate_host::traffic::{Adopted, Early, Progress, Trial};
use linerate_trial::flow::{End, Flow};
use linerate_trial::outcome::Outcome;
use linerate_trial::spec::{Direction, Extent, Spec};
use socket2::{Domain, Protocol, Socket, Type};

use super::datagram::{END, ENDS, START, Streams, framing};
use super::mapping::check_client;
use super::receive::{Arrived, Receiver, is_same};
use crate::early_datagrams::PendingStreams;
use crate::reachability::check_unanswered;
use crate::remote_end::remote_end;
use crate::socket_options::{open, prepare};
use crate::test::{Place, await_close, await_end, exhausted};

/// How often something that has no bell is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(2);
/// How long a machine is waited for that is to send.
const COMING_TIME: Duration = Duration::from_secs(60);
/// How long a receiver has to read what it was sent, and close.
const CLOSING_TIME: Duration = Duration::from_secs(10);
/// How long a refusal takes that comes over UDP.
const REFUSAL_TIME: Duration = Duration::from_millis(20);
/// The longest that is received where a number of octets ends a test.
const LONGEST: Duration = Duration::from_secs(86_400);

/// One test of the host against a ttcp, which is the target: this end's account, and of the other what is known. The error
/// is one sentence that ends in what to try.
pub fn run(
    spec: &Spec,
    place: &Place,
    notify: impl Fn(Progress) + Send + 'static,
    stopped: &dyn Fn() -> bool,
) -> Result<[Outcome; 2], String> {
    check_client(spec)?;
    let test = Test { spec, place, stopped };
    match spec.direction {
        Direction::Tx => test.receive(notify),
        _ => test.send(notify),
    }
}

struct Test<'a> {
    spec: &'a Spec,
    place: &'a Place,
    stopped: &'a dyn Fn() -> bool,
}

impl Test<'_> {
    fn send(&self, notify: impl Fn(Progress) + Send + 'static) -> Result<[Outcome; 2], String> {
        let Place { local, interface, server, .. } = self.place;
        let is_udp = self.spec.workload.is_udp();
        let reach = self.reach()?;
        let socket = open(self.spec, *local, *server).map_err(|error| self.unreachable(&error))?;
        let held = socket.try_clone().map_err(|error| exhausted(&error))?;
        let flows = Flow::of(self.spec).into_iter().zip([socket]);
        let flows = flows.map(|(flow, socket)| Adopted::new(flow, socket, reach)).collect();
        let framing = framing(is_udp, Early::default);
        let trial = Trial::adopt(self.spec.clone(), framing, End::Host, *local, interface.clone(), flows, notify)
            .map_err(|error| error.to_string())?;
        if is_udp {
            held.send(START).and_then(|_| refusal(&held)).map_err(|error| self.unreachable(&error))?;
        }
        trial.start();
        let began = Instant::now();
        if !await_end(&trial, Duration::MAX, self.stopped) {
            return Err("the trial was stopped".to_owned());
        }
        if is_udp {
            for _ in 0..ENDS {
                let _ = held.send(END);
            }
        }
        let until = Instant::now() + CLOSING_TIME;
        let closed = if is_udp { None } else { await_close(&held, || until, self.stopped) };
        let outcome = trial.join().map_err(|error| error.to_string())?;
        let mut far = remote_end(self.spec, &outcome);
        match closed {
            Some(at) => {
                for flow in &mut far.flows {
                    let took = at.duration_since(began).saturating_sub(self.spec.warmup);
                    flow.elapsed_ns = took.as_nanos() as u64;
                }
            }
            // Whoever has not closed has perhaps not read.
            None => far.flows.clear(),
        }
        Ok([far, outcome])
    }

    /// Why this end may send: over UDP nothing ever comes back, so only where the user allows it.
    fn reach(&self) -> Result<Reach, String> {
        if !self.spec.workload.is_udp() {
            return Ok(Reach::Connected);
        }
        let limit = self.place.unanswered.ok_or_else(|| {
            format!(
                "a ttcp answers nothing over UDP, so nothing shows that {} takes part; see that it is the right address and \
                 allow it with --allow-unanswered RATE, or choose tcp-stream",
                self.place.server
            )
        })?;
        check_unanswered(limit, self.spec)?;
        Ok(Reach::Unproven(limit))
    }

    fn unreachable(&self, error: &io::Error) -> String {
        let udp = if self.spec.workload.is_udp() { " -u" } else { "" };
        format!(
            "cannot reach a ttcp at {}: {error}; start 'ttcp -r -s{udp}' there for each trial, and check cable and \
             firewalls",
            self.place.server
        )
    }

    fn receive(&self, notify: impl Fn(Progress) + Send + 'static) -> Result<[Outcome; 2], String> {
        let Place { local, interface, server, .. } = self.place;
        let at = self.place.near(server.port());
        let listening = self.listen(at).map_err(|error| {
            format!(
                "cannot listen on port {} for a ttcp: {error}; end what listens there, or choose another",
                at.port()
            )
        })?;
        let most = match self.spec.extent {
            Extent::Time(time) => self.spec.warmup + time,
            Extent::Octets(_) => LONGEST,
        };
        let (spec, stopped) = (self.spec, self.stopped);
        let receiver = Receiver { spec, end: End::Host, local: *local, interface: interface.clone(), most, stopped };
        let came = self.await_sender(&listening);
        drop(listening);
        let udp = if spec.workload.is_udp() { " -u" } else { "" };
        let sender = came.map_err(|error| {
            let why = match error.kind() {
                ErrorKind::TimedOut => format!("within {} s", COMING_TIME.as_secs()),
                _ => error.to_string(),
            };
            format!(
                "no data came from a ttcp at {} ({why}); run 'ttcp -t -s{udp} {local}' there while the trial waits for it",
                server.ip()
            )
        })?;
        let outcome = receiver.receive(sender, notify)?;
        Ok([remote_end(spec, &outcome), outcome])
    }

    fn listen(&self, at: SocketAddr) -> io::Result<Socket> {
        let is_udp = self.spec.workload.is_udp();
        let (kind, protocol) = if is_udp { (Type::DGRAM, Protocol::UDP) } else { (Type::STREAM, Protocol::TCP) };
        let socket = Socket::new(Domain::for_address(at), kind, Some(protocol))?;
        prepare(&socket, self.spec)?;
        if !is_udp {
            socket.set_reuse_address(true)?;
        }
        socket.bind(&at.into())?;
        if !is_udp {
            socket.listen(1)?;
        }
        socket.set_nonblocking(true)?;
        Ok(socket)
    }

    /// The first data of the target, and of nobody else.
    fn await_sender(&self, listening: &Socket) -> io::Result<Arrived> {
        let target = self.place.server.ip();
        let until = Instant::now() + COMING_TIME;
        let udp: UdpSocket = listening.try_clone()?.into();
        let (mut pending, mut octets) = (PendingStreams::new(Streams), vec![0; 65_536]);
        while Instant::now() < until && !(self.stopped)() {
            if self.spec.workload.is_udp() {
                if let Ok((len, from)) = udp.recv_from(&mut octets) {
                    let heard = is_same(from, target).then(|| pending.hear(from, octets[..len].to_vec()));
                    if let Some(beginning) = heard.flatten() {
                        udp.connect(from)?;
                        udp.set_nonblocking(false)?;
                        return Arrived::stream(udp.into(), beginning);
                    }
                    continue;
                }
            } else if let Ok((socket, from)) = listening.accept()
                && from.as_socket().is_some_and(|from| is_same(from, target))
            {
                socket.set_nonblocking(false)?;
                return Arrived::connection(socket.into(), self.stopped);
            }
            thread::sleep(LOOK_AGAIN);
        }
        Err(ErrorKind::TimedOut.into())
    }
}

/// Whether nobody is there to be sent to, as far as that is told.
fn refusal(socket: &Socket) -> io::Result<()> {
    thread::sleep(REFUSAL_TIME);
    socket.take_error()?.map_or(Ok(()), Err)
}
