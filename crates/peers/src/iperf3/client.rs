//! What an iperf3 client says, and what it makes of the answers.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use linerate_host::sys::socket_state::least_round_trip;
use linerate_host::traffic::reachability::{ProvenPeer, SendPermission};
use linerate_host::traffic::{Adopted, TrafficError, Trial};
use linerate_machine::end::{Direction, End};
use linerate_trial::flow::Flow;
use linerate_trial::outcome::Outcome;
use linerate_trial::spec::{Extent, Spec};
use socket2::Socket;

use super::mapping::{Refused, SAFETY, in_order_of_opening, outcome_of, parameters_of, results_of};
use super::message::{Cookie, MAX_TEXT, State, read_json, read_state, write_json, write_state};
use super::parameters::Parameters;
use super::reconcile::{last_pause, leave_out_start, reconcile, untold_time};
use super::results::Results;
use super::{authentication, datagram};
use crate::client::{Client, is_reopening};
use crate::deadline::Timed;
use crate::error::Error;
use crate::listener::is_passing;
use crate::protocol::Notify;
use crate::socket_options::open;
use crate::wait::{LOOK_AGAIN, join};

/// How long the server has for each of its messages: less than the controller waits for the trial's end.
const MESSAGE_TIME: Duration = Duration::from_secs(6);
/// How long a server has to answer a stream's first datagram, and how often it is asked: both may be lost as any other. In a test of
/// its own each time, for a server counts what comes again as data.
const REPLY_TIME: Duration = Duration::from_secs(2);
const HELLOS: u32 = 3;
/// What may be the matter where a server does not take the streams by which it is to send while it receives.
const ONE_WAY: &str =
    "if it is older than 3.7 (iperf3 --version), it sends one way at a time: choose direction=rx or tx";
/// How late a sender may end, of a machine that is busy.
const LATE: Duration = Duration::from_secs(2);
/// The codes of a refusal: for a user that the server does not know, and for it has another test.
const NOT_AUTHORISED: i32 = Refused::User as i32;
const BUSY: i32 = -1;

/// One test, against a server that knows one of the client's tokens, which is shown them in turn, or wants none.
pub fn measure(client: &Client<'_>, notify: Notify) -> Result<[Outcome; 2], Error> {
    let mut tokens = client.tokens.iter().cloned();
    let mut parameters = Parameters { authtoken: tokens.next(), ..parameters_of(client.spec) };
    let mut hellos = 1;
    loop {
        let test = match client.retry(|| Test::begin(client, &parameters), may_pass) {
            // Another version of the server reads another token.
            Err(Error::Refused { code: NOT_AUTHORISED, .. }) if tokens.len() > 0 => {
                parameters.authtoken = tokens.next();
                continue;
            }
            test => test?,
        };
        match test.streams() {
            Err(Error::TcpAlone { .. }) if hellos < HELLOS && !client.is_stopped() => {
                hellos += 1;
                test.terminate();
            }
            streams => return test.run(streams?, notify).map_err(|error| test.one_way(error)),
        }
    }
}

/// The server may be ending the test before this one.
fn may_pass(error: &Error) -> bool {
    match error {
        Error::Refused { code, .. } => *code == BUSY,
        Error::Unreachable { error, .. } => is_reopening(error),
        Error::Lost { error, .. } => is_reopening(error) || error.kind() == ErrorKind::UnexpectedEof,
        _ => false,
    }
}

/// A test that the server has taken.
struct Test<'a> {
    client: &'a Client<'a>,
    parameters: Parameters,
    control: TcpStream,
    cookie: Cookie,
}

impl<'a> Test<'a> {
    fn begin(client: &'a Client<'a>, parameters: &Parameters) -> Result<Test<'a>, Error> {
        let control = client.connect().map_err(|error| client.unreachable(error))?;
        let test = Test { client, parameters: parameters.clone(), control, cookie: Cookie::new()? };
        test.timed().write_all(&test.cookie.0).map_err(client.lost("the first word was said"))?;
        let heard = read_state(&mut test.timed()).map_err(client.unheard(MESSAGE_TIME))?;
        if heard != State::ParamExchange {
            return Err(test.refusal(heard));
        }
        write_json(&mut test.timed(), parameters).map_err(client.lost("the parameters were sent"))?;
        test.expect(State::CreateStreams)?;
        Ok(test)
    }

    fn run(&self, streams: Vec<(Flow, Socket)>, notify: Notify) -> Result<[Outcome; 2], Error> {
        let Client { spec, .. } = *self.client;
        let opening = self.client.lost("streams were opened");
        let opened = Instant::now();
        // Open until the server has closed them: to a server that still sends, a stream that is gone is a failed test.
        let held = streams.iter().map(|(_, socket)| socket.try_clone()).collect::<io::Result<Vec<_>>>();
        // Datagrams go to the address that holds the control connection.
        let reach = match spec.workload.is_udp() {
            true => SendPermission::Proven(ProvenPeer::by_connection(&self.control).map_err(&opening)?),
            false => SendPermission::Connected,
        };
        let streams = streams.into_iter().map(|(flow, socket)| Adopted::new(flow, socket, reach)).collect();
        let trial = self.client.adopt(self.own(), datagram::framing(&self.parameters), streams, notify)?;
        self.expect(State::TestStart)?;
        self.expect(State::TestRunning)?;
        trial.start();
        let waited = opened.elapsed();
        let end = match self.watch(&trial) {
            Ok(()) => self.end(&trial),
            Err(error) => {
                trial.stop();
                self.terminate();
                Err(error)
            }
        };
        if end.is_ok() {
            trial.stopper().finish();
        }
        let mut outcome = join(trial, end)?;
        last_pause(&mut outcome, spec.extent);
        if !spec.workload.is_udp() {
            self.expect(State::ExchangeResults)?;
        }
        drop(held);
        let sent = write_json(&mut self.timed(), &results_of(spec, &outcome));
        sent.map_err(self.client.lost("results were sent"))?;
        let theirs: Results =
            read_json(&mut self.timed(), MAX_TEXT).map_err(self.client.lost("results were awaited"))?;
        self.expect(State::DisplayResults)?;
        let _ = write_state(&mut self.timed(), State::Done);
        let _ = self.control.shutdown(Shutdown::Write);
        // The server has one test at a time, and is done with this one when it closes.
        let _ = io::copy(&mut self.timed().take(1024), &mut io::sink());
        let mut theirs = outcome_of(spec, End::Target, &theirs);
        // What this end sends ends before its word.
        reconcile(&mut outcome, &mut theirs, Duration::ZERO);
        let waited = waited + least_round_trip(&self.control);
        untold_time(&mut theirs, &outcome, waited);
        // With a warm-up the figures begin later.
        if spec.warmup.is_zero() {
            leave_out_start(&mut theirs, &outcome, waited);
        }
        Ok([theirs, outcome])
    }

    /// Says that the test ends here.
    fn terminate(&self) {
        let _ = write_state(&mut self.timed(), State::ClientTerminate);
    }

    /// The same error; where a server broke off a stream by which it was to send while it receives, what may be the matter.
    fn one_way(&self, error: Error) -> Error {
        match error {
            Error::Traffic(TrafficError::Reset(_) | TrafficError::System(_))
                if self.client.spec.direction == Direction::Both =>
            {
                self.client.refused("broke off a stream by which it was to send", ONE_WAY)
            }
            error => error,
        }
    }

    /// Says that the test is over. The server sends datagrams until it has heard that, and counts them; they arrive before its
    /// answer, which comes the same way.
    fn end(&self, trial: &Trial) -> Result<(), Error> {
        let is_udp = self.client.spec.workload.is_udp();
        if is_udp {
            trial.stopper().end_sending();
        }
        write_state(&mut self.timed(), State::TestEnd).map_err(self.client.lost("the end was said"))?;
        if is_udp { self.expect(State::ExchangeResults) } else { Ok(()) }
    }

    fn timed(&self) -> Timed<'_> {
        Timed::new(&self.control, MESSAGE_TIME)
    }

    /// The server's next word, which must be this one.
    fn expect(&self, state: State) -> Result<(), Error> {
        let heard = read_state(&mut self.timed()).map_err(self.client.lost("its answer was awaited"))?;
        if heard == state { Ok(()) } else { Err(self.refusal(heard)) }
    }

    /// What a word means that was not expected.
    fn refusal(&self, heard: State) -> Error {
        let refused = |code, what, action| self.client.refused(what, action).with_code(code);
        let word = || {
            let mut octets = [0; 4];
            self.timed().read_exact(&mut octets).ok().map(|()| i32::from_be_bytes(octets))
        };
        let code = match heard {
            State::AccessDenied => {
                return refused(BUSY, "is busy with another test".to_owned(), "try again when that is over");
            }
            State::ServerTerminate => return refused(0, "was stopped".to_owned(), "start it again"),
            State::ServerError => word(),
            _ => None,
        };
        let Some(code) = code else {
            return refused(0, format!("said {heard:?}, which has no place there"), "check its version");
        };
        let (why, action) = match code {
            27 => (": the rates together are above its limit", "choose a smaller rate"),
            37 => (": the trial is longer than its limit", "choose a shorter duration"),
            NOT_AUTHORISED if self.parameters.authtoken.is_some() => (
                "",
                "see that user, password and public key are those that it knows, and that both clocks agree within 10 s",
            ),
            NOT_AUTHORISED => (": it wants to know who asks", authentication::HOW_TO_SAY),
            144 => (": no data arrived there", "check the path that UDP takes"),
            _ => ("", "see what it printed"),
        };
        // 3.12 leaves the second word out where it refuses a user.
        let errno = match word().unwrap_or(0) {
            // No number of an error.
            errno if !(1..4096).contains(&errno) => String::new(),
            errno => format!(" ({})", io::Error::from_raw_os_error(errno)),
        };
        refused(code, format!("refused with its error {code}{errno}{why}"), action)
    }

    /// What this end is to do by itself. The server sends until it hears that the test is over, and says how much in all:
    /// what is received until then, and so what is sent, must count to the same moment.
    fn own(&self) -> Spec {
        let mut own = self.client.spec.clone();
        if let (Extent::Time(time), true) = (own.extent, self.receives()) {
            own.extent = Extent::Time(time + SAFETY);
        }
        own
    }

    fn receives(&self) -> bool {
        self.client.spec.direction != Direction::Rx
    }

    /// The streams, each opened before the next: the server numbers them as they come.
    fn streams(&self) -> Result<Vec<(Flow, Socket)>, Error> {
        let open = |flow: Flow| Ok((flow, self.open().map_err(|error| self.not_opened(flow, error))?));
        let mut streams =
            in_order_of_opening(self.client.spec).into_iter().map(open).collect::<Result<Vec<_>, Error>>()?;
        streams.sort_by_key(|(flow, _)| flow.id);
        Ok(streams)
    }

    /// Why a stream was not opened. The control connection is there.
    fn not_opened(&self, flow: Flow, error: io::Error) -> Error {
        let is_second_way = self.client.spec.direction == Direction::Both && flow.source == End::Target;
        let why = match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                let time_s = REPLY_TIME.as_secs();
                let what =
                    if is_second_way { format!(" of a stream that comes back ({ONE_WAY})") } else { String::new() };
                format!("nothing answered the first datagram{what} within {time_s} s, {HELLOS} times").into()
            }
            ErrorKind::ConnectionRefused => "the first datagram was refused (ICMP)".into(),
            ErrorKind::PermissionDenied => "this machine does not let it leave (EPERM)".into(),
            _ => return self.client.lost("streams were opened")(error),
        };
        match self.client.spec.workload.is_udp() {
            true => Error::TcpAlone { server: self.client.server(), port: self.client.route.server.port(), why },
            false => self.client.lost("streams were opened")(error),
        }
    }

    fn open(&self) -> io::Result<Socket> {
        let Client { spec, route, .. } = *self.client;
        let socket = open(spec, route.local, route.server)?;
        if !spec.workload.is_udp() {
            let stream: TcpStream = socket.into();
            Timed::new(&stream, MESSAGE_TIME).write_all(&self.cookie.0)?;
            stream.set_write_timeout(None)?;
            return Ok(stream.into());
        }
        // The server answers the first datagram; or its data comes before its answer.
        socket.set_read_timeout(Some(REPLY_TIME))?;
        socket.send(&datagram::HELLO)?;
        let mut octets = [0; 64];
        let udp: UdpSocket = socket.into();
        let len = udp.recv(&mut octets)?;
        if !datagram::is_reply(&octets[..len]) && spec.direction == Direction::Rx {
            return Err(io::Error::new(ErrorKind::InvalidData, "what answered over UDP is no iperf3 server"));
        }
        Ok(udp.into())
    }

    /// Until this end says that the test is over.
    fn watch(&self, trial: &Trial) -> Result<(), Error> {
        let began = Instant::now();
        let Spec { warmup, extent, .. } = *self.client.spec;
        let time = match extent {
            Extent::Time(time) => warmup + time + if self.receives() { Duration::ZERO } else { LATE },
            Extent::Octets(_) => Duration::MAX,
        };
        // Senders end by themselves; receivers are told.
        while began.elapsed() < time && !trial.ends_within(LOOK_AGAIN.min(time.saturating_sub(began.elapsed()))) {
            if self.client.is_stopped() {
                return Err(Error::Stopped);
            }
            self.look()?;
        }
        Ok(())
    }

    /// In mid-test a server says nothing but that something is wrong.
    fn look(&self) -> Result<(), Error> {
        let lost = self.client.lost("the test ran");
        self.control.set_nonblocking(true).map_err(&lost)?;
        let mut octet = [0];
        let read = (&self.control).read(&mut octet);
        self.control.set_nonblocking(false).map_err(&lost)?;
        match read {
            Ok(0) => Err(lost(ErrorKind::UnexpectedEof.into())),
            Ok(_) => Err(match State::of(octet[0]) {
                Some(state) => self.refusal(state),
                None => self.client.refused("said something that none says in mid-test", "check what listens there"),
            }),
            Err(error) if is_passing(&error) => Ok(()),
            Err(error) => Err(lost(error)),
        }
    }
}
