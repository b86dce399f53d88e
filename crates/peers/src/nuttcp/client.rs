//! A nuttcp client: one test against a server, through linerate's own data path.
//! Knows no records; what both ends saw is returned. Every connection is this end's: it sends nowhere but to the server.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use linerate_host::traffic::reachability::{ProvenPeer, Reach};
use linerate_host::traffic::{Adopted, Progress, TrafficError, Trial};
use linerate_trial::flow::{End, Flow};
use linerate_trial::outcome::Outcome;
use linerate_trial::spec::{Direction, Spec, Workload};
use socket2::{Domain, Protocol, Socket, Type};

use super::datagram::BEGINS;
use super::line::{self, Request, Version};
use super::mapping::{check_client, data_port, is_numbered, remote_of, request_of};
use super::server_report::ServerReport;
use super::sockets::{announce, begin, end, framing, reach, settle};
use crate::deadline::Timed;
use crate::socket_options::prepare;
use crate::test::{self, Place};

/// How long the server has for each of its messages.
const MESSAGE_TIME: Duration = Duration::from_secs(10);
/// How often something that has no bell is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(2);
/// How long a server is asked again that has nobody at its listener: between two tests the real one closes its listening
/// socket and opens it anew.
const PATIENCE: Duration = Duration::from_secs(2);
const AGAIN: Duration = Duration::from_millis(100);
/// How late a sender may end, of a machine that is busy or a queue that is long.
const LATE: Duration = Duration::from_secs(10);
/// The most that a report has.
const MOST_REPORT: usize = 2 << 20;
/// Versions from which on a server lets the client open the connections on which it sends, and knows the TOS octet, the
/// segment size and TCP_NODELAY.
const REVERSES: Version = Version::new(3, 4, 1);
const REPORTS: Version = Version::new(3, 3, 2);
const OPTIONS: Version = Version::new(5, 5, 1);

/// One test of the host against a nuttcp server, which is the target: this end's account, and what the server reports of
/// its own. The error is one sentence that ends in what to try.
pub fn run(
    spec: &Spec,
    place: &Place,
    notify: impl Fn(Progress) + Send + 'static,
    stopped: &dyn Fn() -> bool,
) -> Result<[Outcome; 2], String> {
    check_client(spec)?;
    let sentence = |error| sentence(place.server, error);
    let control = connected(place, stopped).map_err(|error| sentence(Error::Unreachable(error)))?;
    let test = Test { spec, place, control, stopped };
    test.run(notify).map_err(sentence)
}

struct Test<'a> {
    spec: &'a Spec,
    place: &'a Place,
    control: TcpStream,
    stopped: &'a dyn Fn() -> bool,
}

/// What went wrong.
enum Error {
    /// The server is not there.
    Unreachable(io::Error),
    /// While this was being done.
    Talking(&'static str, io::Error),
    /// What answered is no nuttcp.
    ConnectionPermit,
    /// The server did not take the test; its words.
    Refused(Vec<String>),
    /// A sentence of this end.
    Own(String),
}

impl From<TrafficError> for Error {
    fn from(error: TrafficError) -> Error {
        Error::Own(error.to_string())
    }
}

fn talking(what: &'static str) -> impl Fn(io::Error) -> Error {
    move |error| Error::Talking(what, error)
}

impl Test<'_> {
    fn run(&self, notify: impl Fn(Progress) + Send + 'static) -> Result<[Outcome; 2], Error> {
        let _ = self.control.set_nodelay(true);
        self.say(&line::hello()).map_err(talking("the first word was said"))?;
        let heard = self.hear().map_err(talking("its answer was awaited"))?;
        let version = line::parse_hello(&heard).ok_or(Error::ConnectionPermit)?;
        self.check_version(version)?;
        // Where the server sends datagrams, it needs to know where to before this end is asked for anything.
        let waiting =
            self.waits_for_datagrams().then(|| self.bind()).transpose().map_err(talking("a port was opened"))?;
        let port = waiting.as_ref().map_or(data_port(self.place.server.port()), |(_, port)| *port);
        let asked = request_of(self.spec, port);
        self.say(&asked.emit(version)).map_err(talking("the test was asked for"))?;
        self.expect_taken()?;
        let (flows, early) = match waiting {
            Some((socket, _)) => {
                let (socket, early) = self.await_datagrams(socket)?;
                (Flow::of(self.spec).into_iter().zip([socket]).collect(), early)
            }
            None => (self.open(&asked)?, Vec::new()),
        };
        self.conduct(&asked, flows, early, notify)
    }

    fn check_version(&self, version: Version) -> Result<(), Error> {
        let spec = self.spec;
        let receives = spec.direction == Direction::Tx;
        let options = spec.nodelay() || spec.mss.is_some() || spec.dscp != 0;
        let too_old =
            version < REPORTS || (receives && version < REVERSES) || (receives && options && version < OPTIONS);
        if too_old {
            return Err(Error::Own(format!(
                "the nuttcp {version} at {} is too old for this; install 6.1.2 or later there, or choose direction=rx \
                 without options",
                self.place.server
            )));
        }
        Ok(())
    }

    fn waits_for_datagrams(&self) -> bool {
        self.spec.workload == Workload::UdpStream && self.spec.direction == Direction::Tx
    }

    fn timed(&self) -> Timed<'_> {
        Timed::new(&self.control, MESSAGE_TIME)
    }

    fn say(&self, text: &str) -> io::Result<()> {
        self.timed().write_all(text.as_bytes())
    }

    fn hear(&self) -> io::Result<String> {
        line::read(&mut self.timed())
    }

    /// The server's answer to what was asked.
    fn expect_taken(&self) -> Result<(), Error> {
        let mut told = ServerReport::default();
        let mut timed = self.timed();
        for _ in 0..64 {
            match line::read(&mut timed) {
                Ok(heard) if line::is_taken(&heard) => return Ok(()),
                Ok(heard) => told.handle_line(&heard),
                Err(error) if error.kind() == ErrorKind::UnexpectedEof && !told.errors.is_empty() => break,
                Err(error) => return Err(Error::Talking("its answer was awaited", error)),
            }
            if told.is_refused {
                break;
            }
        }
        Err(Error::Refused(told.errors))
    }

    /// A socket for the server's datagrams, and its port.
    fn bind(&self) -> io::Result<(Socket, u16)> {
        let socket = Socket::new(Domain::for_address(self.place.server), Type::DGRAM, Some(Protocol::UDP))?;
        prepare(&socket, self.spec)?;
        socket.bind(&self.place.near(0).into())?;
        let port = socket.local_addr()?.as_socket().map_or(0, |local| local.port());
        Ok((socket, port))
    }

    /// The server's first word over UDP shows the port that it sends from.
    fn await_datagrams(&self, socket: Socket) -> Result<(Socket, Vec<Vec<u8>>), Error> {
        let udp: UdpSocket = socket.into();
        let silent = || {
            Error::Own(format!(
                "no datagram came from the nuttcp server at {}; check the path that UDP takes, and this machine's firewall",
                self.place.server
            ))
        };
        let server = self.server()?;
        let until = Instant::now() + MESSAGE_TIME;
        let mut octets = vec![0; 65_536];
        while Instant::now() < until && !(self.stopped)() {
            udp.set_read_timeout(Some(LOOK_AGAIN * 10)).map_err(talking("its datagrams were awaited"))?;
            let Ok((len, from)) = udp.recv_from(&mut octets) else { continue };
            // Whoever else sends here is nobody.
            if !server.is(from) {
                continue;
            }
            udp.connect(from).map_err(talking("its datagrams were awaited"))?;
            // Its first word says where it sends from. Whatever else came first, that being lost, is of the stream.
            octets.truncate(len);
            let early = Some(octets).filter(|octets| octets != BEGINS[0]);
            return Ok((udp.into(), Vec::from_iter(early)));
        }
        Err(silent())
    }

    /// The connections of the test, or the socket that it is sent from.
    fn open(&self, asked: &Request) -> Result<Vec<(Flow, Socket)>, Error> {
        let local = self.place.local;
        let server = self.server()?;
        let flows = Flow::of(self.spec).into_iter().zip(asked.port..);
        let open = |(flow, port)| {
            let reached = reach(self.spec, local, server.at(port), self.stopped);
            let (socket, _) = reached.map_err(|error| self.unopened(port, error))?;
            Ok((flow, socket))
        };
        let opened = flows.map(open).collect::<Result<Vec<_>, Error>>()?;
        if asked.udp {
            let announced = announce(&opened[0].1, self.stopped);
            announced.map_err(|error| self.unopened(asked.port, error))?;
        }
        Ok(opened)
    }

    /// Why a port of data is not to be had: the server may have said so.
    fn unopened(&self, port: u16, error: io::Error) -> Error {
        let _ = self.control.set_read_timeout(Some(AGAIN));
        let mut said = vec![0; 4096];
        let len = (&self.control).read(&mut said).unwrap_or(0);
        let mut told = ServerReport::default();
        String::from_utf8_lossy(&said[..len]).lines().for_each(|line| told.handle_line(line));
        if !told.errors.is_empty() {
            return Error::Refused(told.errors);
        }
        Error::Own(format!(
            "cannot reach port {port} of the nuttcp server at {} for data: {error}; open it in the firewall there, and see \
             that nothing else listens on it",
            self.place.server.ip()
        ))
    }

    /// The server, as its control connection proves it.
    fn server(&self) -> Result<ProvenPeer, Error> {
        ProvenPeer::by_connection(&self.control).map_err(talking("streams were opened"))
    }

    /// The test, from its first datum to the server's report.
    fn conduct(
        &self,
        asked: &Request,
        flows: Vec<(Flow, Socket)>,
        early: Vec<Vec<u8>>,
        notify: impl Fn(Progress) + Send + 'static,
    ) -> Result<[Outcome; 2], Error> {
        let Place { local, interface, .. } = self.place;
        let sends = self.spec.direction == Direction::Rx;
        let held = flows.first().map(|(_, socket)| socket.try_clone()).transpose();
        let held = held.map_err(talking("streams were opened"))?;
        let framing = framing(self.spec, sends, is_numbered(asked), early);
        let reach = if asked.udp { Reach::Proven(self.server()?) } else { Reach::Connected };
        let flows = flows.into_iter().map(|(flow, socket)| Adopted::new(flow, socket, reach)).collect();
        let trial = Trial::adopt(self.spec.clone(), framing, End::Host, *local, interface.clone(), flows, notify)?;
        let mut heard = Heard { control: &self.control, text: Vec::new(), over: false };
        self.control.set_nonblocking(true).map_err(talking("the test began"))?;
        if let Some(socket) = held.as_ref().filter(|_| sends && asked.udp) {
            begin(socket);
        }
        trial.start();
        let watched = self.watch(&trial, &mut heard);
        if watched.is_err() {
            trial.stop();
            // How nuttcp's own client says that it was interrupted.
            let _ = socket2::SockRef::from(&self.control).send_out_of_band(b"A");
        }
        watched?;
        if let Some(socket) = held.as_ref().filter(|_| sends && asked.udp) {
            end(socket, &mut || heard.look());
        }
        let mut outcome = trial.join()?;
        drop(held);
        let _ = self.control.shutdown(Shutdown::Write);
        let told = heard.finish(&self.place.server)?;
        settle(&mut outcome);
        let far = remote_of(self.spec, &mut outcome, &told);
        let far = far.ok_or_else(|| match told.errors.is_empty() {
            true => Error::Talking("its report was awaited", ErrorKind::UnexpectedEof.into()),
            false => Error::Refused(told.errors),
        })?;
        Ok([far, outcome])
    }

    /// Until this end's streams have ended, or the server's.
    fn watch(&self, trial: &Trial, heard: &mut Heard<'_>) -> Result<(), Error> {
        let most = self.spec.expected_time().map_or(Duration::MAX, |time| time + LATE);
        let began = Instant::now();
        let mut gone = None;
        while !trial.ends_within(test::LOOK_AGAIN) {
            if (self.stopped)() {
                return Err(Error::Own("the trial was stopped".to_owned()));
            }
            if began.elapsed() > most {
                trial.stopper().finish();
            }
            // What is still on its way follows the server's last word soon.
            if heard.look() {
                let since = *gone.get_or_insert_with(Instant::now);
                if since.elapsed() > MESSAGE_TIME / 10 {
                    trial.stopper().finish();
                }
            }
        }
        Ok(())
    }
}

/// What comes over the control connection while the test goes and after.
struct Heard<'a> {
    control: &'a TcpStream,
    text: Vec<u8>,
    over: bool,
}

impl Heard<'_> {
    /// Takes what is there, without waiting. Whether the server has said its last.
    fn look(&mut self) -> bool {
        let mut octets = [0; 4096];
        while !self.over {
            match (&*self.control).read(&mut octets) {
                Ok(0) => self.over = true,
                Ok(len) if self.text.len() + len <= MOST_REPORT => self.text.extend_from_slice(&octets[..len]),
                Ok(_) => self.over = true,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => self.over = true,
            }
        }
        self.over
    }

    /// All of it, once the server has closed.
    fn finish(mut self, server: &SocketAddr) -> Result<ServerReport, Error> {
        let until = Instant::now() + MESSAGE_TIME;
        while !self.look() {
            if Instant::now() > until {
                return Err(Error::Own(format!(
                    "the nuttcp server at {server} did not report within {} s; see what it printed, and try again",
                    MESSAGE_TIME.as_secs()
                )));
            }
            thread::sleep(LOOK_AGAIN);
        }
        let mut told = ServerReport::default();
        String::from_utf8_lossy(&self.text).lines().for_each(|line| told.handle_line(line));
        Ok(told)
    }
}

fn sentence(server: SocketAddr, error: Error) -> String {
    match error {
        Error::Own(sentence) => sentence,
        Error::Unreachable(error) => format!(
            "cannot reach a nuttcp server at {server}: {error}; start 'nuttcp -S' there, and check cable and firewalls"
        ),
        Error::Talking(what, error) => {
            let why = match error.kind() {
                ErrorKind::TimedOut => "it was silent".to_owned(),
                ErrorKind::UnexpectedEof => "it closed the connection".to_owned(),
                _ => error.to_string(),
            };
            format!("the nuttcp server at {server} was lost while {what}: {why}; see what it printed, and try again")
        }
        Error::ConnectionPermit => {
            format!("what answered at {server} is no nuttcp server; check the port, and start 'nuttcp -S' there")
        }
        Error::Refused(errors) if errors.is_empty() => {
            format!("the nuttcp server at {server} did not take the test; see what it printed")
        }
        Error::Refused(errors) => {
            format!("the nuttcp server at {server} did not take the test: {}; see what it printed", errors.join("; "))
        }
    }
}

/// The control connection, to a server that may be opening its listener anew.
fn connected(place: &Place, stopped: &dyn Fn() -> bool) -> io::Result<TcpStream> {
    let until = Instant::now() + PATIENCE;
    loop {
        let socket = Socket::new(Domain::for_address(place.server), Type::STREAM, Some(Protocol::TCP))?;
        socket.bind(&place.near(0).into())?;
        match socket.connect_timeout(&place.server.into(), MESSAGE_TIME) {
            Ok(()) => return Ok(socket.into()),
            Err(error) if error.kind() == ErrorKind::ConnectionRefused && Instant::now() < until && !stopped() => {
                thread::sleep(AGAIN);
            }
            Err(error) => return Err(error),
        }
    }
}
