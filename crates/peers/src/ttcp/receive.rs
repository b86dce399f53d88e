//! What a `ttcp -t` sends, received to its end: by a server, and by a client that waits for one.
//! Knows no listening sockets.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use linerate_host::traffic::reachability::Reach;
use linerate_host::traffic::{Adopted, Early, Progress, Trial};
use linerate_trial::api::ReceiverApi;
use linerate_trial::flow::{End, Flow};
use linerate_trial::outcome::Outcome;
use linerate_trial::spec::{MAX_DATAGRAM, Spec};
use socket2::{Socket, Type};

use super::datagram::{framing, is_mark};
use crate::early::{Beginning, Keeper};
use crate::options::prepare;
use crate::test::await_end;

/// How often something that has no bell is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// How long a sender has for its first data.
const FIRST_TIME: Duration = Duration::from_secs(10);
/// Short datagrams that are waited through for it.
const MOST_MARKS: usize = 100;

/// A sender that has come.
pub struct Sender {
    /// Connected to it.
    pub socket: Socket,
    /// Its first datagrams; none of a connection.
    pub datagrams: Vec<Vec<u8>>,
}

/// A sender whose first data is there.
pub struct Arrived {
    socket: Socket,
    /// Who empties its socket until a trial does; of a connection nobody.
    keeper: Option<Keeper>,
    /// When that data was there.
    since: Instant,
}

/// Where its data goes.
pub struct Receiver<'a> {
    /// What is expected. The sender decides when it is over, but not later than this says.
    pub spec: &'a Spec,
    /// Which end this is.
    pub end: End,
    /// This machine's address.
    pub local: IpAddr,
    /// The interface that has it.
    pub interface: Option<String>,
    /// The longest that is received.
    pub most: Duration,
    /// Whether it is to end before.
    pub stopped: &'a dyn Fn() -> bool,
}

impl Sender {
    /// Waits for its first data.
    pub fn await_data(mut self, stopped: &dyn Fn() -> bool) -> io::Result<Arrived> {
        let until = Instant::now() + FIRST_TIME;
        let is_udp = self.socket.r#type()? == Type::DGRAM;
        self.socket.set_read_timeout(Some(LOOK_AGAIN * 10))?;
        let (udp, tcp): (UdpSocket, TcpStream) = (self.socket.try_clone()?.into(), self.socket.try_clone()?.into());
        let mut octets = vec![0; 65_536];
        loop {
            if self.datagrams.iter().any(|octets| !is_mark(octets)) {
                let since = Instant::now();
                // Marks before the data are of its beginning.
                let mut has_data = false;
                let is_end = |octets: &[u8]| {
                    has_data |= !is_mark(octets);
                    has_data && is_mark(octets)
                };
                let beginning = Beginning::new(self.datagrams);
                let keeper = Some(beginning.await_stream(&self.socket, is_end, stopped)?);
                return Ok(Arrived { socket: self.socket, keeper, since });
            }
            if stopped() {
                return Err(ErrorKind::Interrupted.into());
            }
            if Instant::now() > until || self.datagrams.len() > MOST_MARKS {
                return Err(ErrorKind::TimedOut.into());
            }
            // Of a connection they stay where they are: they are traffic.
            let read = if is_udp { udp.recv(&mut octets) } else { tcp.peek(&mut [0]) };
            match read {
                Ok(len) if is_udp => self.datagrams.push(octets[..len].to_vec()),
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(_) => return Ok(Arrived { socket: self.socket, keeper: None, since: Instant::now() }),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Receiver<'_> {
    /// All that it sends, and what this end saw.
    pub fn receive(&self, arrived: Arrived, notify: impl Fn(Progress) + Send + 'static) -> Result<Outcome, String> {
        let Arrived { socket, keeper, since } = arrived;
        prepare(&socket, self.spec)
            .map_err(|error| format!("the sender's connection is not to be set up: {error}; have it send again"))?;
        let mut spec = self.spec.clone();
        if spec.workload.is_udp() {
            // No datagram is of a length that was agreed. Merged ones, as the host may take them, could not be counted where
            // the socket drops them.
            spec.message_size = Some(MAX_DATAGRAM);
            spec.receiver_api = spec.receiver_api.or((self.end == End::Host).then_some(ReceiverApi::Recvmmsg));
        }
        let flows = Flow::of(&spec).into_iter().zip([socket]);
        let flows = flows.map(|(flow, socket)| Adopted::new(flow, socket, Reach::Silent)).collect();
        // What waited in a connection's buffer took time too. With a warm-up the figures begin later.
        let counts = spec.warmup.is_zero();
        let early = move || match &keeper {
            Some(keeper) => keeper.take(),
            None if counts => Early { datagrams: Vec::new(), since: since.elapsed() },
            None => Early::default(),
        };
        let framing = framing(spec.workload.is_udp(), early);
        let trial = Trial::adopt(spec, framing, self.end, self.local, self.interface.clone(), flows, notify)
            .map_err(|error| error.to_string())?;
        trial.start();
        if !await_end(&trial, self.most, self.stopped) {
            return Err("the trial was stopped".to_owned());
        }
        let mut outcome = trial.join().map_err(|error| error.to_string())?;
        for arrivals in outcome.flows.iter_mut().filter_map(|flow| flow.arrivals.as_mut()) {
            arrivals.jitter_s = None;
        }
        Ok(outcome)
    }
}

/// IPv4 may be written as IPv6.
pub fn is_same(one: SocketAddr, other: IpAddr) -> bool {
    one.ip().to_canonical() == other.to_canonical()
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;

    use linerate_trial::spec::Workload;

    use super::*;

    #[test]
    fn what_waited_before_the_trial_took_time() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let socket = listener.accept().unwrap().0.into();
        // All of it is there before anybody reads.
        far.write_all(&[b'x'; 16 * 1024]).unwrap();
        drop(far);
        let arrived = Sender { socket, datagrams: Vec::new() }.await_data(&|| false).unwrap();
        std::thread::sleep(Duration::from_millis(100));
        let spec = Spec::new(Workload::TcpStream);
        let local = "127.0.0.1".parse().unwrap();
        let most = Duration::from_secs(10);
        let receiver = Receiver { spec: &spec, end: End::Target, local, interface: None, most, stopped: &|| false };
        let flow = receiver.receive(arrived, |_| {}).unwrap().flows.remove(0);
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
        let local = "127.0.0.1".parse().unwrap();
        let most = Duration::from_secs(10);
        let receiver = Receiver { spec: &spec, end: End::Target, local, interface: None, most, stopped: &|| false };
        let arrived = Sender { socket: near.into(), datagrams: vec![vec![b'x'; 100]; 700] };
        let arrived = arrived.await_data(&|| false).unwrap();
        let sending = std::thread::spawn(move || {
            // Once the trial takes them itself.
            for octets in [&[b'x'; 9000][..], b"12345", b"ttcp"] {
                std::thread::sleep(Duration::from_millis(100));
                far.send(octets).unwrap();
            }
            far
        });
        let flow = receiver.receive(arrived, |_| {}).unwrap().flows.remove(0);
        sending.join().unwrap();
        assert_eq!((flow.messages, flow.octets), (702, 79_005));
    }
}
