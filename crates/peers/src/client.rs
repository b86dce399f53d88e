//! The driver of every tool's client: one trial of this machine against the tool's server.

use std::borrow::Cow;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use linerate_host::traffic::reachability::{ExceededLimit, UnprovenLimit, local_towards};
use linerate_host::traffic::{Adopted, Framing, Progress, TrafficError, Trial};
use linerate_machine::end::End;
use linerate_machine::units::OfferedLoad;
use linerate_trial::outcome::Outcome;
use linerate_trial::spec::Spec;
use linerate_trial::tool::Tool;
use socket2::{Domain, Protocol as Transport, Socket, Type};

use crate::error::{Error, Remote};
use crate::plausible;
use crate::protocol::{self, Notify};
use crate::remote_end::remote_end;
use crate::socket_options::CONNECT_TIME;
use crate::wait::{Closing, await_closes, await_end, join};

/// How long a server is asked again that listens no more: between two tests the real ones close their listening socket and
/// open it anew.
const REOPEN_TIME: Duration = Duration::from_secs(2);
/// How often.
const REOPEN_PERIOD: Duration = Duration::from_millis(100);

/// Where a test against another tool's server takes place.
#[derive(Clone, Debug)]
pub struct Route {
    /// This machine's address.
    pub local: IpAddr,
    /// The interface that has it.
    pub interface: Option<String>,
    /// The other tool's server.
    pub server: SocketAddr,
    /// What may be sent there without an answer; `None`: nothing but what asks for one.
    pub unanswered: Option<UnprovenLimit>,
}

impl Route {
    /// This machine's address at a port, for a socket that is to reach the server.
    pub fn near(&self, port: u16) -> SocketAddr {
        local_towards(self.local, port, self.server)
    }
}

/// A client at work.
pub struct Client<'a> {
    /// Whose.
    pub tool: Tool,
    /// Who asks, where the tool's servers can want to know.
    pub tokens: &'a [String],
    /// The trial.
    pub spec: &'a Spec,
    /// Where it takes place.
    pub route: &'a Route,
    /// Whether it is to end.
    pub stopped: &'a dyn Fn() -> bool,
}

/// One trial of this machine, the host, against the tool's server, the target: what is known of the server's end, and what
/// this end saw. `tokens` say who asks, where the tool's servers can want to know.
pub fn run(
    tool: Tool,
    tokens: &[String],
    spec: &Spec,
    route: &Route,
    notify: impl Fn(Progress) + Send + 'static,
    stopped: &dyn Fn() -> bool,
) -> Result<[Outcome; 2], Error> {
    crate::check(tool, spec)?;
    let client = Client { tool, tokens, spec, route, stopped };
    let began = Instant::now();
    let measured = (protocol::of(tool).measure)(&client, Box::new(notify));
    let [mut theirs, ours] = measured.map_err(|error| client.as_ended_there(error))?;
    plausible::limit(spec, &ours, &mut theirs, began.elapsed());
    Ok([theirs, ours])
}

impl Client<'_> {
    /// The server, as sentences name it.
    pub fn server(&self) -> Remote {
        Remote { tool: self.tool, at: self.route.server, udp: self.spec.workload.is_udp() }
    }

    /// For `map_err`: the server is not there.
    pub fn unreachable(&self, error: io::Error) -> Error {
        Error::Unreachable { server: self.server(), error }
    }

    /// For `map_err`: the server was lost while this was being done.
    pub fn lost(&self, doing: &'static str) -> impl Fn(io::Error) -> Error + Copy + use<> {
        let server = self.server();
        move |error| Error::Lost { server, doing, error, action: "see what it printed, and try again" }
    }

    /// For `map_err`: what listens there has not said the first word that the tool's server says, within this time.
    pub fn unheard(&self, time: Duration) -> impl Fn(io::Error) -> Error + Copy + use<> {
        let (server, lost) = (self.server(), self.lost("its answer was awaited"));
        move |error| match error.kind() {
            ErrorKind::TimedOut => Error::Mute(server, time),
            ErrorKind::InvalidData => Error::WrongServer(server),
            _ => lost(error),
        }
    }

    /// A connection that was broken from there: only who runs there can do that, or its kernel when that has ended.
    fn as_ended_there(&self, error: Error) -> Error {
        let is_ended = |error: &io::Error| matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset);
        match error {
            Error::Traffic(TrafficError::Broke(error) | TrafficError::Moving { error, .. }) if is_ended(&error) => {
                Error::EndedThere { server: self.server(), error }
            }
            error => error,
        }
    }

    /// For `map_err`: the data's connection to this port of a server was not opened that has a control connection.
    pub fn unopened(&self, port: u16) -> impl Fn(io::Error) -> Error + Copy + use<> {
        let server = self.server();
        move |error| Error::ControlAlone { server, port, error }
    }

    /// Nothing came over UDP to this port of a server that has a control connection, of so many datagrams.
    pub fn none_arrived(&self, port: u16, sent: u64) -> Error {
        Error::TcpAlone { server: self.server(), port, why: format!("not one datagram of {sent} arrived").into() }
    }

    /// The server does not do what is asked.
    pub fn refused(&self, what: impl Into<Cow<'static, str>>, action: impl Into<Cow<'static, str>>) -> Error {
        Error::Refused { server: self.server(), code: 0, what: what.into(), action: action.into() }
    }

    /// Whether the trial is to end.
    pub fn is_stopped(&self) -> bool {
        (self.stopped)()
    }

    /// A TCP connection to the server.
    pub fn connect(&self) -> io::Result<TcpStream> {
        let socket = Socket::new(Domain::for_address(self.route.server), Type::STREAM, Some(Transport::TCP))?;
        socket.bind(&self.route.near(0).into())?;
        socket.connect_timeout(&self.route.server.into(), CONNECT_TIME)?;
        socket.set_tcp_nodelay(true)?;
        Ok(socket.into())
    }

    /// Has a server asked again for a while that may be opening its listening socket anew, or ending another test.
    pub fn retry<T>(
        &self,
        mut ask: impl FnMut() -> Result<T, Error>,
        may_pass: impl Fn(&Error) -> bool,
    ) -> Result<T, Error> {
        let until = Instant::now() + REOPEN_TIME;
        loop {
            match ask() {
                Err(error) if may_pass(&error) && Instant::now() < until && !self.is_stopped() => {
                    thread::sleep(REOPEN_PERIOD);
                }
                answer => return answer,
            }
        }
    }

    /// The permission to send datagrams though nothing answers; an error where the trial does not keep within it.
    pub fn unanswered(&self) -> Result<Option<UnprovenLimit>, Error> {
        let Some(limit) = self.route.unanswered else { return Ok(None) };
        limit.check(self.spec, End::Host).map_err(|beyond| match beyond {
            ExceededLimit::Rate => Error::UnansweredRate(OfferedLoad::BitsPerSecond(limit.bits_per_second)),
            ExceededLimit::Time => Error::UnansweredTime(UnprovenLimit::LONGEST.as_secs()),
        })?;
        Ok(Some(limit))
    }

    /// This end of the trial, whose flows the protocol has opened.
    pub fn adopt(&self, spec: Spec, framing: Framing, flows: Vec<Adopted>, notify: Notify) -> Result<Trial, Error> {
        let Route { local, interface, .. } = self.route;
        Ok(Trial::adopt(spec, framing, End::Host, *local, interface.clone().map(Into::into), flows, notify)?)
    }

    /// Until this end's flows have ended; those are ended that take longer than the trial and `late`.
    pub fn await_end(&self, trial: &Trial, late: Duration) -> Result<(), Error> {
        await_end(trial, self.longest(late), self.stopped)
    }

    /// The trial's time and so much more.
    fn longest(&self, late: Duration) -> Duration {
        self.spec.expected_time().map_or(Duration::MAX, |time| time.saturating_add(late))
    }

    /// What this end saw, once its flows have ended so.
    pub fn outcome(&self, trial: Trial, late: Duration) -> Result<Outcome, Error> {
        let awaited = self.await_end(&trial, late);
        join(trial, awaited)
    }
}

/// How long a server has to read what it was sent, and close: less than the controller waits for the trial's end.
const CLOSING_TIME: Duration = Duration::from_secs(6);

impl Client<'_> {
    /// Streams to a server that says nothing of what it received, but closes when it has read all of it: what it received,
    /// and until when. `sockets` are those of the flows.
    pub fn send_streams(&self, trial: Trial, sockets: &[&Socket], late: Duration) -> Result<[Outcome; 2], Error> {
        let began = Instant::now();
        trial.start();
        // What a server says before it closes comes before.
        let closed = await_closes(sockets, CLOSING_TIME, self.stopped, |talks| {
            let stopped = || self.is_stopped() || talks();
            await_end(&trial, self.longest(late), &stopped)
        });
        let closed = match closed {
            Err(Error::Stopped) if !self.is_stopped() => return Err(Error::WrongServer(self.server())),
            closed => closed?,
        };
        let outcome = trial.join();
        let closed = closed.into_iter().map(|closing| match closing {
            Closing::Closed(at) => Ok(at),
            Closing::Open if self.is_stopped() => Err(Error::Stopped),
            Closing::Open => Err(Error::NotClosed(self.server(), CLOSING_TIME)),
            // In mid-test it is the sender's to tell: of the two that use a connection either hears of it, and once.
            Closing::Broke(_) if outcome.is_err() => Ok(began),
            Closing::Broke(kind) => Err(self.lost("it read the rest")(kind.into())),
            Closing::Talks => Err(Error::WrongServer(self.server())),
        });
        let (closed, outcome) = (closed.collect::<Result<Vec<_>, _>>()?, outcome?);
        let mut target = remote_end(self.spec, &outcome);
        for far in &mut target.flows {
            let near = outcome.flows.iter().find(|near| near.id == far.id);
            let (Some(near), Some(closed)) = (near, closed.get(usize::from(far.id))) else { continue };
            let took = closed.saturating_duration_since(began).saturating_sub(self.spec.warmup);
            far.elapsed_ns = near.elapsed_ns.max(took.as_nanos() as u64);
        }
        Ok([target, outcome])
    }
}

/// What a connection meets while a server opens its listening socket anew.
pub fn is_reopening(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset)
}
