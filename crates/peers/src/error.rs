//! Why a test with another tool could not be made, or has no result: one type for all tools and both roles.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::Duration;

use linerate_host::traffic::TrafficError;
use linerate_machine::units::OfferedLoad;
use linerate_trial::tool::Tool;

/// Another tool's server, as sentences name it.
#[derive(Clone, Copy, Debug)]
pub struct Remote {
    /// The tool.
    pub tool: Tool,
    /// Its server's address.
    pub at: SocketAddr,
    /// Whether it is to take datagrams.
    pub udp: bool,
}

impl fmt::Display for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the {} at {}", self.tool.row().server, self.at)
    }
}

impl Remote {
    /// The command that starts it.
    fn start(&self) -> String {
        let row = self.tool.row();
        format!("{}{}", row.start, if self.udp { row.start_udp } else { "" })
    }

    /// What has it stay for the trials after the first.
    fn for_good(&self) -> String {
        let without = |option: &&str| format!(" (without {option}, which ends it after one trial)");
        self.tool.row().one_off.iter().map(without).collect()
    }
}

/// Why there is no result. Each is one sentence that ends in what to try.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are the figures of the sentence")]
pub enum Error {
    /// The tool's protocol cannot express the trial.
    #[error("{tool} has no {what}; {instead}")]
    Unsupported { tool: Tool, what: Cow<'static, str>, instead: Cow<'static, str> },
    #[error("cannot reach {server}: {error}; start '{}' there{}, and check cable and firewalls", server.start(), server.for_good())]
    Unreachable { server: Remote, error: io::Error },
    #[error("{server} was lost while {doing}: {}; {action}", Loss(error))]
    Lost { server: Remote, doing: &'static str, error: io::Error, action: &'static str },
    /// The server said so, or its answer makes no sense.
    #[error("{server} {what}; {action}")]
    Refused { server: Remote, code: i32, what: Cow<'static, str>, action: Cow<'static, str> },
    #[error("what answered at {} is no {}; check the port, and start '{}' there", .0.at, .0.tool.row().server, .0.start())]
    WrongServer(Remote),
    /// It has accepted the connection, and that is all.
    #[error(
        "what answers at {} said nothing for {} s; check the port, and that '{}' runs there and does not hang",
        .0.at, .1.as_secs(), .0.start()
    )]
    Mute(Remote, Duration),
    #[error(
        "nothing came back from {} over UDP; start '{}' there, and check the path that UDP takes, and this machine's firewall",
        .0.at, .0.start()
    )]
    Silent(Remote),
    /// Its control connection is there.
    #[error(
        "{server} takes part over TCP, and UDP does not pass: {why}; look for what drops UDP port {port} either way, a filter \
         of either machine (nft list ruleset, iptables-save) or between"
    )]
    TcpAlone { server: Remote, port: u16, why: Cow<'static, str> },
    /// Its control connection is there.
    #[error(
        "{server} takes part, and no connection passes to its TCP port {port}, for the data: {}; look for what drops TCP port \
         {port} either way, a filter of either machine (nft list ruleset, iptables-save) or between",
        Loss(error)
    )]
    ControlAlone { server: Remote, port: u16, error: io::Error },
    /// Of a tool whose server closes once it has read everything, and has no other word.
    #[error(
        "what answers at {} had not closed the connection {} s after the stream's end, as the {} does; check the port, and \
         that '{}' runs there and does not hang",
        .0.at, .1.as_secs(), .0.tool.row().server, .0.start()
    )]
    NotClosed(Remote, Duration),
    /// In mid-test.
    #[error(
        "what runs at {} ended the connection in mid-test ({error}), which no cable does; check the port, see what it \
         printed, and start '{}' there again",
        .server.at, .server.start()
    )]
    EndedThere { server: Remote, error: io::Error },
    /// Of a protocol in which nothing ever comes back.
    #[error(
        "a {} answers nothing over UDP, so nothing shows that {} takes part; see that it is the right address and allow it \
         with --allow-unanswered RATE, or choose tcp-stream",
        .0.tool, .0.at
    )]
    NeverAnswers(Remote),
    #[error(
        "to a server that does not answer this trial may send no more than --allow-unanswered {0}, all streams together; \
         choose a rate within that, or allow more"
    )]
    UnansweredRate(OfferedLoad),
    #[error("to a server that does not answer a trial may send for {0} s at most; choose a shorter duration")]
    UnansweredTime(u64),
    #[error("cannot {what}: {error}; {action}")]
    Local { what: String, error: io::Error, action: &'static str },
    #[error(
        "this process can open no more for a test: {0}; close what it has open, or raise 'ulimit -n' and 'ulimit -u'"
    )]
    Exhausted(#[from] io::Error),
    #[error("the client {what}: {error}; see what it printed, and have it try again")]
    ClientLost { what: &'static str, error: io::Error },
    #[error("the client {0}; have it try again")]
    ClientLeft(&'static str),
    #[error(transparent)]
    Traffic(#[from] TrafficError),
    #[error("the trial was stopped")]
    Stopped,
}

/// A peer that is silent or closes is said as such, not as the kernel says it.
struct Loss<'a>(&'a io::Error);

impl fmt::Display for Loss<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.kind() {
            // What a blocking read says whose time is over.
            ErrorKind::TimedOut | ErrorKind::WouldBlock => f.write_str("it was silent"),
            ErrorKind::UnexpectedEof => f.write_str("it closed the connection"),
            _ => self.0.fmt(f),
        }
    }
}

impl Error {
    /// Whether something answers in the server's place that does not behave as the server.
    pub fn is_no_server(&self) -> bool {
        matches!(self, Error::WrongServer(_) | Error::Mute(..) | Error::NotClosed(..))
    }

    /// The same, of a refusal for which the protocol has a number.
    #[must_use]
    pub fn with_code(mut self, number: i32) -> Error {
        if let Error::Refused { code, .. } = &mut self {
            *code = number;
        }
        self
    }

    /// For `map_err`: the client is gone, or did not do what it was to do.
    pub fn client(what: &'static str) -> impl Fn(io::Error) -> Error + Copy + use<> {
        move |error| Error::ClientLost { what, error }
    }
}
