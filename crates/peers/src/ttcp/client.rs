//! What a ttcp client does: a stream to a `ttcp -r`, or one that a `ttcp -t` sends here.
//! Of the other end ttcp tells nothing but when it closes.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use linerate_host::traffic::reachability::SendPermission;
use linerate_host::traffic::{Adopted, Early, Framing};
use linerate_machine::end::{Direction, End};
use linerate_trial::flow::Flow;
use linerate_trial::outcome::Outcome;
use linerate_trial::spec::{Extent, Spec};
use socket2::{Domain, Protocol, Socket, Type};

use super::datagram::{END, ENDS, Octets, START, Streams};
use super::receive::{Arrived, is_same, receive};
use crate::client::Client;
use crate::early_datagrams::PendingStreams;
use crate::error::Error;
use crate::protocol::Notify;
use crate::remote_end::remote_end;
use crate::socket_options::{apply, open};

/// How often something is looked at that wakes nobody.
const LOOK_AGAIN: Duration = Duration::from_millis(2);
/// How long a machine is waited for that is to send.
const COMING_TIME: Duration = Duration::from_secs(60);
/// How long a refusal takes that comes over UDP.
const REFUSAL_TIME: Duration = Duration::from_millis(20);
/// The longest that is received where a number of octets ends a test.
const LONGEST: Duration = Duration::from_secs(86_400);

/// One test.
pub fn measure(client: &Client<'_>, notify: Notify) -> Result<[Outcome; 2], Error> {
    let test = Test { client };
    match client.spec.direction {
        Direction::Tx => test.receive(notify),
        _ => test.send(notify),
    }
}

struct Test<'a> {
    client: &'a Client<'a>,
}

impl Test<'_> {
    fn send(&self, notify: Notify) -> Result<[Outcome; 2], Error> {
        let Client { spec, route, .. } = *self.client;
        let is_udp = spec.workload.is_udp();
        let unreachable = |error| self.client.unreachable(error);
        let reach = match is_udp {
            false => SendPermission::Connected,
            // Nothing ever comes back.
            true => match self.client.unanswered()? {
                Some(limit) => SendPermission::Unproven(limit),
                None => return Err(Error::NeverAnswers(self.client.server())),
            },
        };
        let socket = open(spec, route.local, route.server).map_err(unreachable)?;
        let held = socket.try_clone()?;
        let flows = Flow::of(spec).into_iter().zip([socket]);
        let flows = flows.map(|(flow, socket)| Adopted::new(flow, socket, reach)).collect();
        let trial =
            self.client.adopt(spec.clone(), Framing::new(Octets { is_udp, early: Early::default }), flows, notify)?;
        if !is_udp {
            return self.client.send_streams(trial, &[&held], Duration::MAX);
        }
        held.send(START).and_then(|_| refusal(&held)).map_err(unreachable)?;
        trial.start();
        self.client.await_end(&trial, Duration::MAX)?;
        (0..ENDS).for_each(|_| drop(held.send(END)));
        // What arrived, nobody tells.
        Ok([Outcome::of_flows(End::Target, Vec::new()), trial.join()?])
    }

    fn receive(&self, notify: Notify) -> Result<[Outcome; 2], Error> {
        let Client { spec, route, .. } = *self.client;
        let at = route.near(route.server.port());
        let listening = self.listen(at).map_err(|error| Error::Local {
            what: format!("listen on port {} for a ttcp", at.port()),
            error,
            action: "end what listens there, or choose another",
        })?;
        let most = match spec.extent {
            Extent::Time(time) => spec.warmup + time,
            Extent::Octets(_) => LONGEST,
        };
        let came = self.await_sender(&listening);
        drop(listening);
        let udp = if spec.workload.is_udp() { " -u" } else { "" };
        let sender = came.map_err(|error| {
            let why = match error.kind() {
                ErrorKind::TimedOut => format!("within {} s", COMING_TIME.as_secs()),
                _ => error.to_string(),
            };
            let action = format!("run 'ttcp -t -s{udp} {}' there while the trial waits for it", route.local);
            self.client.refused(format!("sent no data ({why})"), action)
        })?;
        let adopt = |spec: Spec, framing, flows| self.client.adopt(spec, framing, flows, notify);
        let outcome = receive(sender, spec, End::Host, adopt, most, self.client.stopped)?;
        Ok([remote_end(spec, &outcome), outcome])
    }

    fn listen(&self, at: SocketAddr) -> io::Result<Socket> {
        let is_udp = self.client.spec.workload.is_udp();
        let (kind, protocol) = if is_udp { (Type::DGRAM, Protocol::UDP) } else { (Type::STREAM, Protocol::TCP) };
        let socket = Socket::new(Domain::for_address(at), kind, Some(protocol))?;
        apply(&socket, self.client.spec)?;
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
        let target = self.client.route.server.ip();
        let until = Instant::now() + COMING_TIME;
        let udp: UdpSocket = listening.try_clone()?.into();
        let (mut pending, mut octets) = (PendingStreams::new(&Streams), vec![0; 65_536]);
        while Instant::now() < until && !self.client.is_stopped() {
            if self.client.spec.workload.is_udp() {
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
                return Arrived::connection(socket.into(), self.client.stopped);
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
