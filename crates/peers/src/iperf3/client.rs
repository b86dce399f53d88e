//! An iperf3 client: one test against a server, through linerate's own data path.
//! Knows no records; what both ends saw is returned.

use std::io::{self, ErrorKind, Read};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use linerate_host::traffic::reachability::{ProvenPeer, Reach};
use linerate_host::traffic::{Adopted, Progress, Trial};
use linerate_trial::flow::{End, Flow};
use linerate_trial::outcome::Outcome;
use linerate_trial::spec::{Direction, Extent, Spec, Workload};
use socket2::{Domain, Protocol, Socket, Type};

use super::datagram;
use super::mapping::{SAFETY, in_order_of_opening, outcome_of, parameters_of, results_of};
use super::message::{Cookie, MAX_TEXT, State, read_json, read_state, write_json, write_state};
use super::parameters::Parameters;
use super::results::Results;
use super::sockets::{framing, settle};
use crate::deadline::Timed;
use crate::listener::is_passing;
use crate::socket_options::prepare;
use crate::test::{LOOK_AGAIN, Place};

/// How long the server has for each of its messages.
const MESSAGE_TIME: Duration = Duration::from_secs(10);
/// How long a server has to answer a stream's first datagram, which may be lost as any other.
const REPLY_TIME: Duration = Duration::from_secs(3);
/// How long a server is asked again that has another test, or nobody at its listener: between two tests the real one closes
/// its listening socket and opens it anew.
const PATIENCE: Duration = Duration::from_secs(2);
const AGAIN: Duration = Duration::from_millis(100);
/// The server's error for a user that it does not know.
const NOT_AUTHORISED: u32 = 142;
/// How late a sender may end, of a machine that is busy.
const LATE: Duration = Duration::from_secs(2);

/// One test of the host against an iperf3 server, which is the target: this end's account, and the server's as far as it
/// tells. The error is one sentence that ends in what to try.
pub fn run(
    spec: &Spec,
    place: &Place,
    notify: impl Fn(Progress) + Send + 'static,
    stopped: &dyn Fn() -> bool,
) -> Result<[Outcome; 2], String> {
    run_as(&[], spec, place, notify, stopped)
}

/// The same, of a client that says who it is. A server that knows one of these tokens is shown them in turn.
pub fn run_as(
    tokens: &[String],
    spec: &Spec,
    place: &Place,
    notify: impl Fn(Progress) + Send + 'static,
    stopped: &dyn Fn() -> bool,
) -> Result<[Outcome; 2], String> {
    let mut tokens = tokens.iter().cloned();
    let mut parameters = Parameters { authtoken: tokens.next(), ..parameters_of(spec)? };
    let server = place.server;
    let deadline = Instant::now() + PATIENCE;
    loop {
        let later = || Instant::now() < deadline && !stopped();
        let control = match connected(place, server) {
            Ok(control) => control,
            Err(error) if is_closed_port(&error) && later() => {
                std::thread::sleep(AGAIN);
                continue;
            }
            Err(error) => {
                return Err(format!(
                    "cannot reach an iperf3 server at {server}: {error}; start 'iperf3 -s' there, and check cable and firewalls"
                ));
            }
        };
        let cookie = Cookie::new().map_err(|error| error.to_string())?;
        let test = Test { spec, place, parameters: &parameters, control, cookie, stopped };
        match test.admitted() {
            Ok(()) => return test.run(notify).map_err(|error| test.sentence(&error)),
            Err(error) if error.may_pass() && later() => std::thread::sleep(AGAIN),
            Err(error) => {
                let sentence = test.sentence(&error);
                // Another version of the server reads another token.
                let Some(token) = tokens.next().filter(|_| matches!(error, Error::Code(NOT_AUTHORISED, _))) else {
                    return Err(sentence);
                };
                parameters.authtoken = Some(token);
            }
        }
    }
}

struct Test<'a> {
    spec: &'a Spec,
    place: &'a Place,
    parameters: &'a Parameters,
    control: TcpStream,
    cookie: Cookie,
    stopped: &'a dyn Fn() -> bool,
}

/// What went wrong.
enum Error {
    /// While this was being done.
    Talking(&'static str, io::Error),
    /// The server said so.
    Server(State),
    /// Its code, and an errno.
    Code(u32, u32),
    /// A sentence of this end.
    Own(String),
}

impl Error {
    /// The server may be ending the test before this one.
    fn may_pass(&self) -> bool {
        match self {
            Error::Server(state) => *state == State::AccessDenied,
            Error::Talking(_, error) => is_closed_port(error) || error.kind() == ErrorKind::UnexpectedEof,
            Error::Code(..) | Error::Own(_) => false,
        }
    }
}

impl Test<'_> {
    /// Whether the server takes this test.
    fn admitted(&self) -> Result<(), Error> {
        let _ = self.control.set_nodelay(true);
        io::Write::write_all(&mut self.timed(), &self.cookie.0)
            .map_err(|error| Error::Talking("the first word was said", error))?;
        self.expect(State::ParamExchange)?;
        write_json(&mut self.timed(), self.parameters)
            .map_err(|error| Error::Talking("the parameters were sent", error))?;
        self.expect(State::CreateStreams)
    }

    fn run(&self, notify: impl Fn(Progress) + Send + 'static) -> Result<[Outcome; 2], Error> {
        let talking = |what| move |error| Error::Talking(what, error);
        let streams = self.streams().map_err(talking("streams were opened"))?;
        // Open until the server has closed them: to a server that still sends, a stream that is gone is a failed test.
        let held = streams.iter().map(|(_, socket)| socket.try_clone()).collect::<io::Result<Vec<_>>>();
        let Place { local, interface, .. } = self.place;
        let framing = framing(self.parameters);
        // Datagrams go to the address that holds the control connection.
        let reach = match self.spec.workload.is_udp() {
            true => Reach::Proven(ProvenPeer::by_connection(&self.control).map_err(talking("streams were opened"))?),
            false => Reach::Connected,
        };
        let streams = streams.into_iter().map(|(flow, socket)| Adopted::new(flow, socket, reach)).collect();
        let trial = Trial::adopt(self.own(), framing, End::Host, *local, interface.clone(), streams, notify)
            .map_err(|error| Error::Own(error.to_string()))?;
        self.expect(State::TestStart)?;
        self.expect(State::TestRunning)?;
        trial.start();
        let watched = self.watch(&trial);
        if watched.is_err() {
            trial.stop();
            let _ = write_state(&mut self.timed(), State::ClientTerminate);
        }
        watched?;
        write_state(&mut self.timed(), State::TestEnd).map_err(talking("the end was said"))?;
        trial.stopper().finish();
        let mut outcome = trial.join().map_err(|error| Error::Own(error.to_string()))?;
        self.expect(State::ExchangeResults)?;
        drop(held);
        write_json(&mut self.timed(), &results_of(self.spec, &outcome)).map_err(talking("results were sent"))?;
        let theirs: Results = read_json(&mut self.timed(), MAX_TEXT).map_err(talking("results were awaited"))?;
        self.expect(State::DisplayResults)?;
        let _ = write_state(&mut self.timed(), State::Done);
        let _ = self.control.shutdown(Shutdown::Write);
        // The server has one test at a time, and is done with this one when it closes.
        let _ = io::copy(&mut self.timed().take(1024), &mut io::sink());
        let mut theirs = outcome_of(self.spec, End::Target, &theirs);
        settle(&mut outcome, &mut theirs);
        Ok([theirs, outcome])
    }

    fn timed(&self) -> Timed<'_> {
        Timed::new(&self.control, MESSAGE_TIME)
    }

    /// The server's next word, which must be this one.
    fn expect(&self, state: State) -> Result<(), Error> {
        let heard = read_state(&mut self.timed()).map_err(|error| Error::Talking("its answer was awaited", error))?;
        if heard == state { Ok(()) } else { Err(self.error(heard)) }
    }

    /// What a word means that was not expected.
    fn error(&self, heard: State) -> Error {
        let word = || {
            let mut octets = [0; 4];
            self.timed().read_exact(&mut octets).ok().map(|()| u32::from_be_bytes(octets))
        };
        match (heard == State::ServerError).then(word).flatten() {
            // 3.12 leaves the second word out where it refuses a user.
            Some(code) => Error::Code(code, word().unwrap_or(0)),
            None => Error::Server(heard),
        }
    }

    /// What this end is to do by itself. The server sends until it hears that the test is over, and says how much in all:
    /// what is received until then, and so what is sent, must count to the same moment.
    fn own(&self) -> Spec {
        let mut own = self.spec.clone();
        if let (Extent::Time(time), true) = (own.extent, self.receives()) {
            own.extent = Extent::Time(time + SAFETY);
        }
        own
    }

    fn receives(&self) -> bool {
        self.spec.direction != Direction::Rx
    }

    /// The streams, each opened before the next: the server numbers them as they come.
    fn streams(&self) -> io::Result<Vec<(Flow, Socket)>> {
        let open = |flow| {
            let socket = match self.spec.workload {
                Workload::UdpStream => self.open_datagrams()?,
                _ => self.open_stream()?,
            };
            Ok((flow, socket))
        };
        let mut streams = in_order_of_opening(self.spec).into_iter().map(open).collect::<io::Result<Vec<_>>>()?;
        streams.sort_by_key(|(flow, _)| flow.id);
        Ok(streams)
    }

    fn open_stream(&self) -> io::Result<Socket> {
        let socket = Socket::new(Domain::for_address(self.place.server), Type::STREAM, Some(Protocol::TCP))?;
        prepare(&socket, self.spec)?;
        socket.bind(&self.place.near(0).into())?;
        socket.connect_timeout(&self.place.server.into(), MESSAGE_TIME)?;
        let stream: TcpStream = socket.into();
        io::Write::write_all(&mut Timed::new(&stream, MESSAGE_TIME), &self.cookie.0)?;
        stream.set_write_timeout(None)?;
        Ok(stream.into())
    }

    /// The server answers the first datagram; or its data comes before its answer.
    fn open_datagrams(&self) -> io::Result<Socket> {
        let socket = Socket::new(Domain::for_address(self.place.server), Type::DGRAM, Some(Protocol::UDP))?;
        prepare(&socket, self.spec)?;
        socket.bind(&self.place.near(0).into())?;
        socket.connect(&self.place.server.into())?;
        socket.set_read_timeout(Some(REPLY_TIME))?;
        socket.send(&datagram::HELLO)?;
        let mut octets = [0; 64];
        let udp: std::net::UdpSocket = socket.into();
        let len = udp.recv(&mut octets)?;
        if !datagram::is_reply(&octets[..len]) && self.spec.direction == Direction::Rx {
            return Err(io::Error::new(ErrorKind::InvalidData, "what answered over UDP is no iperf3 server"));
        }
        Ok(udp.into())
    }

    /// Until this end says that the test is over.
    fn watch(&self, trial: &Trial) -> Result<(), Error> {
        let began = Instant::now();
        let time = match self.spec.extent {
            Extent::Time(time) => self.spec.warmup + time + if self.receives() { Duration::ZERO } else { LATE },
            Extent::Octets(_) => Duration::MAX,
        };
        // Senders end by themselves; receivers are told.
        while began.elapsed() < time && !trial.ends_within(LOOK_AGAIN.min(time.saturating_sub(began.elapsed()))) {
            if (self.stopped)() {
                return Err(Error::Own("the trial was stopped".to_owned()));
            }
            self.look()?;
        }
        Ok(())
    }

    /// In mid-test a server says nothing but that something is wrong.
    fn look(&self) -> Result<(), Error> {
        let talking = |error| Error::Talking("the test ran", error);
        self.control.set_nonblocking(true).map_err(talking)?;
        let mut octet = [0];
        let read = (&self.control).read(&mut octet);
        self.control.set_nonblocking(false).map_err(talking)?;
        match read {
            Ok(0) => Err(talking(ErrorKind::UnexpectedEof.into())),
            Ok(_) => Err(State::of(octet[0]).map_or_else(
                || {
                    Error::Own(
                        "the iperf3 server said something that none says in mid-test; check what listens there"
                            .to_owned(),
                    )
                },
                |state| self.error(state),
            )),
            Err(error) if is_passing(&error) => Ok(()),
            Err(error) => Err(talking(error)),
        }
    }

    fn sentence(&self, error: &Error) -> String {
        let server = self.place.server;
        match error {
            Error::Own(sentence) => sentence.clone(),
            Error::Talking(what, error) => format!(
                "the iperf3 server at {server} was lost while {what}: {}; see what it printed, and try again",
                if error.kind() == ErrorKind::TimedOut { "it was silent".to_owned() } else { error.to_string() }
            ),
            Error::Server(State::AccessDenied) => {
                format!("the iperf3 server at {server} is busy with another test; try again when that is over")
            }
            Error::Server(State::ServerTerminate) => {
                format!("the iperf3 server at {server} was stopped; start it again")
            }
            Error::Server(state) => {
                format!("the iperf3 server at {server} said {state:?}, which has no place there; check its version")
            }
            Error::Code(code, errno) => {
                let means = match *code {
                    27 => "the rates together are above its limit; choose a smaller rate",
                    37 => "the trial is longer than its limit; choose a shorter duration",
                    NOT_AUTHORISED if self.parameters.authtoken.is_some() => {
                        "see that user, password and public key are those that it knows, and that both clocks agree within \
                         10 s"
                    }
                    NOT_AUTHORISED => {
                        "it wants to know who asks; give --username, --rsa-public-key and the password in IPERF3_PASSWORD"
                    }
                    144 => "no data arrived there; check the path that UDP takes",
                    _ => "see what it printed",
                };
                let errno = if *errno == 0 {
                    String::new()
                } else {
                    format!(" ({})", io::Error::from_raw_os_error(errno.cast_signed()))
                };
                format!("the iperf3 server at {server} refused with its error {code}{errno}: {means}")
            }
        }
    }
}

/// What a connection meets while a server opens its listener anew.
fn is_closed_port(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset)
}

fn connected(place: &Place, server: SocketAddr) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(server), Type::STREAM, Some(Protocol::TCP))?;
    socket.bind(&place.near(0).into())?;
    socket.connect_timeout(&server.into(), MESSAGE_TIME)?;
    Ok(socket.into())
}
