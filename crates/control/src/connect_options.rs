//! What an agent is reached with, and how long is waited for it.

use std::path::PathBuf;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::message::FencingToken;
use crate::noise::Psk;

/// What [`crate::Endpoint::connect`] and [`crate::Client::connect`] need to know beside the endpoint.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// This program and its version, for people: `linerate 0.1.0`.
    pub program: String,
    /// The agent's program for `local` and `netns:`, called with `--stdio`; `None`: this very program, called with
    /// `agent --stdio`.
    pub agent_program: Option<PathBuf>,
    /// The agent's command on the other side of ssh, called with `--stdio`; `None`: `linerate-agent` or, where there
    /// is none, one that is carried there.
    pub remote_agent: Option<String>,
    /// Where agents to carry are, as `linerate-agent-NAME`; the first that has the right one counts.
    pub agents: Vec<PathBuf>,
    /// Where none has it, this very program is carried to a machine of its own kind.
    pub carry_itself: bool,
    /// What was carried stays there.
    pub keep_agent: bool,
    /// The key that is shared with a `tcp:` agent.
    pub psk: Option<Psk>,
    /// Where the boards that run on this machine can be found: a folder each.
    pub boards: Option<PathBuf>,
    /// How long until a machine counts as unreachable.
    pub connect_timeout: Duration,
    /// How long instead where a person may have to type a password.
    pub typing: Duration,
    /// Time between two signs of life.
    pub heartbeat: Duration,
    /// An agent that is silent for so long is lost.
    pub silence: Duration,
    /// The bench that this controller was given by a team's queue: agents are told with which number.
    pub fence: Option<FencingToken>,
    /// Asked again and again while a machine is being reached: whether nobody wants it any more.
    pub interrupted: fn() -> bool,
}

impl Default for ConnectOptions {
    fn default() -> ConnectOptions {
        ConnectOptions {
            program: concat!("linerate ", env!("CARGO_PKG_VERSION")).to_owned(),
            agent_program: None,
            remote_agent: None,
            agents: Vec::new(),
            carry_itself: false,
            keep_agent: false,
            psk: None,
            boards: None,
            connect_timeout: Duration::from_secs(8),
            typing: Duration::from_secs(120),
            heartbeat: Duration::from_secs(1),
            // Together with the second that a silent child has to end by itself, less than ten seconds.
            silence: Duration::from_secs(6),
            fence: None,
            interrupted: || false,
        }
    }
}

/// Like [`mpsc::Receiver::recv_timeout`], and a time-out at once when `stop` says so.
pub(crate) fn receive_unless<T>(
    receiver: &mpsc::Receiver<T>,
    timeout: Duration,
    stop: impl Fn() -> bool,
) -> Result<T, mpsc::RecvTimeoutError> {
    const LOOK: Duration = Duration::from_millis(50);
    let deadline = Instant::now() + timeout;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match receiver.recv_timeout(left.min(LOOK)) {
            Err(mpsc::RecvTimeoutError::Timeout) if left > LOOK && !stop() => {}
            result => return result,
        }
    }
}
