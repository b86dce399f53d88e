//! What a nuttcp client says, and what it makes of the answers.
//! Every connection is this end's: it sends nowhere but to the server.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use linerate_host::sys::poll::wait_readable;
use linerate_host::traffic::reachability::{ProvenPeer, SendPermission};
use linerate_host::traffic::{Adopted, Trial};
use linerate_machine::end::Direction;
use linerate_trial::flow::Flow;
use linerate_trial::outcome::Outcome;
use linerate_trial::spec::Workload;
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use super::datagram::BEGINS;
use super::line::{self, Request, Version};
use super::mapping::{data_port, is_numbered, remote_of, request_of};
use super::server_report::ServerReport;
use super::sockets::{LISTENING_TIME, announce, begin, end, framing};
use crate::client::{Client, is_reopening};
use crate::deadline::Timed;
use crate::error::Error;
use crate::protocol::Notify;
use crate::remote_end::forget_jitter;
use crate::socket_options::{apply, open_listening};
use crate::wait::{self, join};

/// How long the server has for each of its messages: less than the controller waits for the trial's end.
const MESSAGE_TIME: Duration = Duration::from_secs(6);
/// How often something is looked at that wakes nobody.
const LOOK_AGAIN: Duration = Duration::from_millis(2);
/// How long a server has to say why its port for data is closed.
const AGAIN: Duration = Duration::from_millis(100);
/// How long it is waited for that before: nuttcp's client waits 10 ms.
const PORT_TIME: Duration = Duration::from_millis(30);
/// The number that its server tells of a port that is taken (errno(3)): Linux's, that of Linux on MIPS, and that of BSD and macOS.
const EADDRINUSE: [i32; 3] = [98, 125, 48];
/// How late a sender may end, of a machine that is busy or a queue that is long.
const LATE: Duration = Duration::from_secs(10);
/// The most that a report has.
const MOST_REPORT: usize = 2 << 20;
/// Versions from which on a server lets the client open the connections on which it sends, and knows the TOS octet, the
/// segment size and TCP_NODELAY.
const REVERSES: Version = Version::new(3, 4, 1);
const REPORTS: Version = Version::new(3, 3, 2);
const OPTIONS: Version = Version::new(5, 5, 1);

/// One test.
pub fn measure(client: &Client<'_>, notify: Notify) -> Result<[Outcome; 2], Error> {
    let connect = || client.connect().map_err(|error| client.unreachable(error));
    let may_pass = |error: &Error| matches!(error, Error::Unreachable { error, .. } if is_reopening(error));
    let control = client.retry(connect, may_pass)?;
    Test { client, control }.run(notify)
}

struct Test<'a> {
    client: &'a Client<'a>,
    control: TcpStream,
}

impl Test<'_> {
    fn run(&self, notify: Notify) -> Result<[Outcome; 2], Error> {
        self.say(&line::hello()).map_err(self.client.lost("the first word was said"))?;
        let heard = self.hear().map_err(self.client.unheard(MESSAGE_TIME))?;
        let version = line::parse_hello(&heard).ok_or(Error::WrongServer(self.client.server()))?;
        self.check_version(version)?;
        // Where the server sends datagrams, it needs to know where to before this end is asked for anything.
        let waiting = self
            .waits_for_datagrams()
            .then(|| self.bind())
            .transpose()
            .map_err(self.client.lost("a port was opened"))?;
        let port = waiting.as_ref().map_or(data_port(self.client.route.server.port()), |(_, port)| *port);
        let asked = request_of(self.client.spec, port);
        self.say(&asked.emit(version)).map_err(self.client.lost("the test was asked for"))?;
        self.expect_taken()?;
        let mut heard = Heard { control: &self.control, text: Vec::new(), over: false };
        let (flows, early) = match waiting {
            Some((socket, _)) => {
                let (socket, early) = self.await_datagrams(socket)?;
                (Flow::of(self.client.spec).into_iter().zip([socket]).collect(), early)
            }
            None => {
                self.expect_port(port, &mut heard)?;
                (self.open(&asked)?, Vec::new())
            }
        };
        self.conduct(&asked, flows, early, heard, notify)
    }

    fn check_version(&self, version: Version) -> Result<(), Error> {
        let spec = self.client.spec;
        let receives = spec.direction == Direction::Tx;
        let options = spec.nodelay() || spec.mss.is_some() || spec.dscp != 0;
        let too_old =
            version < REPORTS || (receives && version < REVERSES) || (receives && options && version < OPTIONS);
        if too_old {
            return Err(self.client.refused(
                format!("is nuttcp {version}, which is too old for this"),
                "install 6.1.2 or later there, or choose direction=rx without options",
            ));
        }
        Ok(())
    }

    fn waits_for_datagrams(&self) -> bool {
        self.client.spec.workload == Workload::UdpStream && self.client.spec.direction == Direction::Tx
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
                Err(error) => return Err(self.client.lost("its answer was awaited")(error)),
            }
            if told.is_refused {
                break;
            }
        }
        Err(self.not_taken(&told))
    }

    /// A server that cannot have the port for its data says so at once, or goes: then another program has it, and is sent
    /// nothing. Adds what else it says to what was heard.
    fn expect_port(&self, port: u16, heard: &mut Heard<'_>) -> Result<(), Error> {
        let lost = self.client.lost("its port for data was awaited");
        self.control.set_nonblocking(true).map_err(lost)?;
        let until = Instant::now() + PORT_TIME;
        while !heard.look() && Instant::now() < until {
            let _ = wait_readable(&self.control, until.saturating_duration_since(Instant::now()));
        }
        self.control.set_nonblocking(false).map_err(lost)?;
        let told = heard.told();
        match told.errors.is_empty() {
            false => Err(self.without_port(port, &told)),
            true if heard.over => Err(self.client.refused(
                format!("closed its connection before it had port {port} for the data"),
                "see what it printed: another program there may have that port, as an 'iperf -s' has 5001",
            )),
            true => Ok(()),
        }
    }

    /// The server has said that something is wrong, before the data's connections were there.
    fn without_port(&self, port: u16, told: &ServerReport) -> Error {
        if !told.errno.is_some_and(|errno| EADDRINUSE.contains(&errno)) {
            return self.not_taken(told);
        }
        let action = "stop what has it, an 'iperf -s' perhaps, or start 'nuttcp -S -P PORT' there: its data goes to the \
                      port after that";
        self.client.refused(format!("cannot have port {port} for the data, which another program there has"), action)
    }

    /// A socket for the server's datagrams, and its port.
    fn bind(&self) -> io::Result<(Socket, u16)> {
        let socket = Socket::new(Domain::for_address(self.client.route.server), Type::DGRAM, Some(Protocol::UDP))?;
        apply(&socket, self.client.spec)?;
        socket.bind(&self.client.route.near(0).into())?;
        let port = socket.local_addr()?.as_socket().map_or(0, |local| local.port());
        Ok((socket, port))
    }

    /// The server's first word over UDP shows the port that it sends from.
    fn await_datagrams(&self, socket: Socket) -> Result<(Socket, Vec<Vec<u8>>), Error> {
        let udp: UdpSocket = socket.into();
        let server = self.server()?;
        let until = Instant::now() + MESSAGE_TIME;
        let mut octets = vec![0; 65_536];
        while Instant::now() < until && !self.client.is_stopped() {
            udp.set_read_timeout(Some(LOOK_AGAIN * 10)).map_err(self.client.lost("its datagrams were awaited"))?;
            let Ok((len, from)) = udp.recv_from(&mut octets) else { continue };
            // Datagrams from elsewhere are ignored.
            if !server.is(from) {
                continue;
            }
            udp.connect(from).map_err(self.client.lost("its datagrams were awaited"))?;
            // Its first word says where it sends from. Whatever else came first, that being lost, is of the stream.
            octets.truncate(len);
            let early = Some(octets).filter(|octets| octets != BEGINS[0]);
            return Ok((udp.into(), Vec::from_iter(early)));
        }
        Err(Error::Silent(self.client.server()))
    }

    /// The connections of the test, or the socket that it is sent from.
    fn open(&self, asked: &Request) -> Result<Vec<(Flow, Socket)>, Error> {
        let local = self.client.route.local;
        let server = self.server()?;
        let flows = Flow::of(self.client.spec).into_iter().zip(asked.port..);
        let open = |(flow, port)| {
            let reached = open_listening(self.client.spec, local, server.at(port), LISTENING_TIME, self.client.stopped);
            let (socket, _) = reached.map_err(|error| self.unopened(port, error))?;
            Ok((flow, socket))
        };
        let opened = flows.map(open).collect::<Result<Vec<_>, Error>>()?;
        if asked.udp {
            let announced = announce(&opened[0].1, self.client.stopped);
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
            return self.without_port(port, &told);
        }
        if error.kind() != ErrorKind::ConnectionRefused {
            return self.client.unopened(port)(error);
        }
        self.client.refused(
            format!("has no port {port} for data: {error}"),
            "open it in the firewall there, and see that nothing else listens on it",
        )
    }

    /// The server did not take the test; its words.
    fn not_taken(&self, said: &ServerReport) -> Error {
        let why = if said.errors.is_empty() { String::new() } else { format!(": {}", said.errors.join("; ")) };
        self.client.refused(format!("did not take the test{why}"), "see what it printed")
    }

    /// The server, as its control connection proves it.
    fn server(&self) -> Result<ProvenPeer, Error> {
        ProvenPeer::by_connection(&self.control).map_err(self.client.lost("streams were opened"))
    }

    /// The test, from its first datum to the server's report.
    fn conduct(
        &self,
        asked: &Request,
        flows: Vec<(Flow, Socket)>,
        early: Vec<Vec<u8>>,
        mut heard: Heard<'_>,
        notify: Notify,
    ) -> Result<[Outcome; 2], Error> {
        let sends = self.client.spec.direction == Direction::Rx;
        let held = flows.first().map(|(_, socket)| socket.try_clone()).transpose();
        let held = held.map_err(self.client.lost("streams were opened"))?;
        let framing = framing(self.client.spec, sends, is_numbered(asked), early);
        let reach = if asked.udp { SendPermission::Proven(self.server()?) } else { SendPermission::Connected };
        let flows = flows.into_iter().map(|(flow, socket)| Adopted::new(flow, socket, reach)).collect();
        let trial = self.client.adopt(self.client.spec.clone(), framing, flows, notify)?;
        self.control.set_nonblocking(true).map_err(self.client.lost("the test began"))?;
        if let Some(socket) = held.as_ref().filter(|_| sends && asked.udp) {
            begin(socket);
        }
        trial.start();
        let watched = self.watch(&trial, &mut heard);
        match (&watched, &held) {
            // How nuttcp's own client says that it was interrupted.
            (Err(_), _) => {
                trial.stop();
                let _ = SockRef::from(&self.control).send_out_of_band(b"A");
            }
            (Ok(()), Some(socket)) if sends && asked.udp => end(socket, &mut || heard.look()),
            (Ok(()), _) => {}
        }
        let mut outcome = join(trial, watched)?;
        drop(held);
        let _ = self.control.shutdown(Shutdown::Write);
        let report = heard.finish(self.client)?;
        forget_jitter(&mut outcome);
        let sent: u64 = outcome.flows.iter().map(|flow| flow.messages_total).sum();
        match remote_of(self.client.spec, &mut outcome, &report) {
            Some(remote)
                if sends && asked.udp && sent > 0 && remote.flows.iter().all(|far| far.messages_total == 0) =>
            {
                Err(self.client.none_arrived(asked.port, sent))
            }
            Some(remote) => Ok([remote, outcome]),
            None if report.errors.is_empty() => {
                Err(self.client.lost("its report was awaited")(ErrorKind::UnexpectedEof.into()))
            }
            None => Err(self.not_taken(&report)),
        }
    }

    /// Until this end's streams have ended, or the server's.
    fn watch(&self, trial: &Trial, heard: &mut Heard<'_>) -> Result<(), Error> {
        let most = self.client.spec.expected_time().map_or(Duration::MAX, |time| time + LATE);
        let began = Instant::now();
        let mut gone = None;
        while !trial.ends_within(wait::LOOK_AGAIN) {
            if self.client.is_stopped() {
                return Err(Error::Stopped);
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
    fn finish(mut self, client: &Client<'_>) -> Result<ServerReport, Error> {
        let until = Instant::now() + MESSAGE_TIME;
        while !self.look() {
            if Instant::now() > until {
                return Err(client.lost("its report was awaited")(ErrorKind::TimedOut.into()));
            }
            thread::sleep(LOOK_AGAIN);
        }
        Ok(self.told())
    }

    /// What of it is understood so far.
    fn told(&self) -> ServerReport {
        let mut told = ServerReport::default();
        String::from_utf8_lossy(&self.text).lines().for_each(|line| told.handle_line(line));
        told
    }
}
