//! What a `ttcp -t` sends, received to its end: by a server, and by a client that waits for one.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use linerate_host::traffic::reachability::SendPermission;
use linerate_host::traffic::{Adopted, Early, Framing, Trial};
use linerate_machine::end::End;
use linerate_trial::api::ReceiverApi;
use linerate_trial::flow::Flow;
use linerate_trial::outcome::Outcome;
use linerate_trial::spec::{MAX_DATAGRAM, Spec};
use socket2::Socket;

use super::datagram::Octets;
use crate::counters_before::CountersBefore;
use crate::early_datagrams::{EarlyDatagrams, StreamStart};
use crate::error::Error;
use crate::listener::is_passing;
use crate::remote_end::forget_jitter;
use crate::socket_options;
use crate::wait::{await_end, join};

/// How often something is looked at that wakes nobody.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// How long a sender has for its first data.
const FIRST_TIME: Duration = Duration::from_secs(10);

/// A sender whose first data is there.
pub struct Arrived {
    socket: Socket,
    /// Who empties its socket until a trial does; of a connection nobody.
    early: Option<EarlyDatagrams>,
    /// When that data was there.
    since: Instant,
    /// The counters at that time, where they were read.
    before: Option<CountersBefore>,
}

impl Arrived {
    /// This machine's address of it.
    pub fn local(&self) -> Option<SocketAddr> {
        self.socket.local_addr().ok()?.as_socket()
    }

    /// When its first data was there, and the counters at that time.
    pub fn began(&self) -> (Instant, Option<CountersBefore>) {
        (self.since, self.before.clone())
    }

    /// A stream of datagrams; the socket is connected to its sender.
    pub fn stream(socket: Socket, beginning: StreamStart) -> io::Result<Arrived> {
        let early = EarlyDatagrams::start(&socket, beginning.datagrams, beginning.since)?;
        Ok(Arrived { socket, early: Some(early), since: beginning.since, before: beginning.before })
    }

    /// A connection, once its first data is there. It stays where it is: it is traffic.
    pub fn connection(stream: TcpStream, stopped: &dyn Fn() -> bool) -> io::Result<Arrived> {
        let until = Instant::now() + FIRST_TIME;
        stream.set_read_timeout(Some(LOOK_AGAIN * 10))?;
        loop {
            match stream.peek(&mut [0]) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(_) => {
                    let (socket, since) = (stream.into(), Instant::now());
                    return Ok(Arrived { socket, early: None, since, before: None });
                }
                Err(error) if !is_passing(&error) => return Err(error),
                Err(_) if stopped() => return Err(ErrorKind::Interrupted.into()),
                Err(_) if Instant::now() > until => return Err(ErrorKind::TimedOut.into()),
                Err(_) => {}
            }
        }
    }
}

/// All that a sender sends, and what this end saw. `spec` is what is expected; the sender decides when it is over, but not
/// later than after `most`, nor than `stopped` says. `adopt` makes the trial.
pub fn receive(
    arrived: Arrived,
    spec: &Spec,
    end: End,
    adopt: impl FnOnce(Spec, Framing, Vec<Adopted>) -> Result<Trial, Error>,
    most: Duration,
    stopped: &dyn Fn() -> bool,
) -> Result<Outcome, Error> {
    let Arrived { socket, early, since, .. } = arrived;
    socket_options::apply(&socket, spec)?;
    let mut spec = spec.clone();
    if spec.workload.is_udp() {
        // No datagram is of a length that was agreed. Merged ones, as the host may take them, could not be counted where
        // the socket drops them.
        spec.message_size = Some(MAX_DATAGRAM);
        spec.receiver_api = spec.receiver_api.or((end == End::Host).then_some(ReceiverApi::Recvmmsg));
    }
    let flows = Flow::of(&spec).into_iter().zip([socket]);
    let flows = flows.map(|(flow, socket)| Adopted::new(flow, socket, SendPermission::Silent)).collect();
    // What waited in a connection's buffer took time too. With a warm-up the figures begin later.
    let counts = spec.warmup.is_zero();
    let early = move || match &early {
        Some(early) => early.take(),
        None if counts => Early { datagrams: Vec::new(), since: Some(since) },
        None => Early::default(),
    };
    let framing = Framing::new(Octets { is_udp: spec.workload.is_udp(), early });
    let trial = adopt(spec, framing, flows)?;
    trial.start();
    let awaited = await_end(&trial, most, stopped);
    let mut outcome = join(trial, awaited)?;
    forget_jitter(&mut outcome);
    Ok(outcome)
}

/// IPv4 may be written as IPv6.
pub fn is_same(one: SocketAddr, other: IpAddr) -> bool {
    one.ip().to_canonical() == other.to_canonical()
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, UdpSocket};

    use linerate_trial::spec::Workload;

    use super::*;

    fn receive_here(arrived: Arrived, spec: &Spec) -> Outcome {
        let local = "127.0.0.1".parse().unwrap();
        let adopt = |spec, framing, flows| Ok(Trial::adopt(spec, framing, End::Target, local, None, flows, |_| {})?);
        receive(arrived, spec, End::Target, adopt, Duration::from_secs(10), &|| false).unwrap()
    }

    #[test]
    fn what_waited_before_the_trial_took_time() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let near = listener.accept().unwrap().0;
        // All of it is there before anybody reads.
        far.write_all(&[b'x'; 16 * 1024]).unwrap();
        drop(far);
        let arrived = Arrived::connection(near, &|| false).unwrap();
        std::thread::sleep(Duration::from_millis(100));
        let spec = Spec::new(Workload::TcpStream);
        let flow = receive_here(arrived, &spec).flows.remove(0);
        assert_eq!(flow.octets, 16 * 1024);
        assert!(flow.elapsed_ns >= 100_000_000, "{} ns", flow.elapsed_ns);
    }

    #[test]
    fn datagrams_of_any_size_count_whatever_takes_them() {
        let (near, far) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        near.connect(far.local_addr().unwrap()).unwrap();
        far.connect(near.local_addr().unwrap()).unwrap();
        let mut spec = Spec::new(Workload::UdpStream);
        (spec.message_size, spec.receiver_api) = (Some(100), Some(ReceiverApi::Recvmmsg));
        let beginning = StreamStart { datagrams: vec![vec![b'x'; 100]; 700], since: Instant::now(), before: None };
        let arrived = Arrived::stream(near.into(), beginning).unwrap();
        let sending = std::thread::spawn(move || {
            // Once the trial takes them itself.
            for octets in [&[b'x'; 9000][..], b"12345", b"ttcp"] {
                std::thread::sleep(Duration::from_millis(100));
                far.send(octets).unwrap();
            }
            far
        });
        let flow = receive_here(arrived, &spec).flows.remove(0);
        sending.join().unwrap();
        assert_eq!((flow.messages, flow.octets), (702, 79_005));
    }
}
