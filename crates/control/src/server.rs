//! The agent's side of a conversation with one controller.
//! Knows nothing of what requests do: a handler does them.

use std::io::Read;
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use linerate_machine::channel::{NotSent, Sender, channel};
use linerate_machine::sync::Mutex;
use serde::Deserialize;

use crate::line::{LONGEST_FROM_AGENT, LONGEST_FROM_CONTROLLER, LineError, LineReader, LineWriter, WriteError};
use crate::link::Link;
use crate::message::{AgentLine, Event, Hello, Name, PROTOCOL, RefusalKind, Reply, Request, RequestLine};

/// The usual silence after which a controller is gone: ten of its heartbeats.
pub const SILENCE: Duration = Duration::from_secs(10);

/// How an agent presents itself, and how long it bears silence.
#[derive(Clone, Debug)]
pub struct Server {
    /// The agent's program and version, for people: `linerate-agent 0.1.0`.
    pub program: String,
    /// What the agent can do beyond the first version.
    pub capabilities: Vec<String>,
    /// What the agent has to tell before it is asked.
    pub notes: Vec<String>,
    /// A controller that is silent for so long is gone.
    pub silence: Duration,
}

impl Server {
    /// Bears the usual [`SILENCE`].
    pub fn new(program: impl Into<String>) -> Server {
        Server { program: program.into(), capabilities: Vec::new(), notes: Vec::new(), silence: SILENCE }
    }
}

/// Why a conversation ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConversationEnd {
    /// The controller closed it: the orderly end.
    #[error("the controller closed the conversation")]
    Closed,
    /// The controller was not heard.
    #[error("the controller was silent for {} s", .0.as_secs_f64())]
    Silent(Duration),
    /// The controller speaks another version.
    #[error("the controller speaks version {0} of the control conversation, and this agent version {PROTOCOL}")]
    WrongVersion(u32),
    /// What came was no conversation.
    #[error("what came was no control conversation: {0}")]
    Nonsense(String),
    /// The controller does not read.
    #[error("the controller has stopped reading")]
    NotReading,
    /// This machine could not.
    #[error("no thread could be started: {0}")]
    NoThread(String),
}

/// Where a handler puts answers and events; clones go to the threads that make them. Nothing here waits: a
/// controller that does not read ends the conversation instead.
#[derive(Clone, Debug)]
pub struct Outbox(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    writer: LineWriter,
    silence: Duration,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    heard: Instant,
    ended: Option<ConversationEnd>,
}

/// Requests that wait while the handler is busy; a controller asks one at a time, and stops.
const WAITING: usize = 16;

/// Holds the conversation until it ends. `handler` runs in this thread and is given one request after the other;
/// it, or a thread that it gives the outlet to, answers each. Pings are answered here, at once, so a handler may be slow;
/// one that is should look at [`Outbox::has_ended`] now and then.
pub fn serve(link: Link, server: &Server, mut handler: impl FnMut(RequestLine, &Outbox)) -> ConversationEnd {
    let Link { reader, writer, guard, .. } = link;
    let writer = match LineWriter::new(writer, LONGEST_FROM_AGENT) {
        Ok(writer) => writer,
        Err(error) => return ConversationEnd::NoThread(error.to_string()),
    };
    let _ = writer.send(&Hello {
        linerate: PROTOCOL,
        program: server.program.clone(),
        capabilities: server.capabilities.clone(),
        notes: server.notes.clone(),
    });
    let state = Mutex::new(State { heard: Instant::now(), ended: None });
    let outlet = Outbox(Arc::new(Shared { writer, silence: server.silence, state }));
    let (requests_sent, requests) = channel(WAITING);
    let theirs = outlet.clone();
    let reading = move || theirs.read(LineReader::new(reader, LONGEST_FROM_CONTROLLER), &requests_sent);
    if let Err(error) = crate::start_thread("linerate-read", reading) {
        outlet.end(ConversationEnd::NoThread(error.to_string()));
    }
    let tick = (server.silence / 4).min(Duration::from_millis(500));
    while !outlet.has_ended() {
        match requests.recv_timeout(tick) {
            Ok(request) => handler(request, &outlet),
            Err(RecvTimeoutError::Timeout) => (),
            // The reader has ended, and said why just before.
            Err(RecvTimeoutError::Disconnected) => outlet.end(ConversationEnd::Closed),
        }
    }
    // The last answers, and a refusal of what cannot be read, still go out.
    outlet.0.writer.close(Duration::from_millis(500));
    drop(guard);
    outlet.ending().unwrap_or(ConversationEnd::Closed)
}

impl Outbox {
    /// Answers request `re`: it was carried out.
    pub fn reply(&self, re: u64, reply: Reply) {
        self.send_answer(re, &AgentLine::Reply { re, reply });
    }

    /// Answers request `re`: it was not carried out. `message` is one sentence, ending in what to try.
    pub fn refuse(&self, re: u64, kind: RefusalKind, message: impl Into<String>) {
        let _ = self.send(&AgentLine::Refusal { re: Some(re), kind, message: message.into() });
    }

    /// Tells what happened.
    pub fn event(&self, event: Event) {
        let finished = matches!(event, Event::Finished(_));
        if let Err(error @ WriteError::TooLong { .. }) = self.send(&AgentLine::Event(event))
            && finished
        {
            // The controller waits for the end of the trial and must hear of it.
            let message = format!("the outcome cannot be sent: {error}; take a longer interval or fewer streams");
            let _ = self.send(&AgentLine::Event(Event::TrialFailed { message, failure: None, seen: None }));
        }
    }

    /// The controller is gone, or gives no sign of life: whatever is done for it should stop.
    pub fn has_ended(&self) -> bool {
        let mut state = self.0.state.lock();
        if state.ended.is_none() && state.heard.elapsed() >= self.0.silence {
            state.ended = Some(ConversationEnd::Silent(self.0.silence));
        }
        state.ended.is_some()
    }

    fn ending(&self) -> Option<ConversationEnd> {
        self.0.state.lock().ended.clone()
    }

    fn end(&self, ending: ConversationEnd) {
        self.0.state.lock().ended.get_or_insert(ending);
    }

    fn send_answer(&self, re: u64, line: &AgentLine) {
        if let Err(error @ WriteError::TooLong { .. }) = self.send(line) {
            self.refuse(re, RefusalKind::Failed, format!("the answer cannot be sent: {error}; ask for less"));
        }
    }

    fn send(&self, line: &AgentLine) -> Result<(), WriteError> {
        let sent = self.0.writer.send(line);
        match sent {
            Ok(()) | Err(WriteError::TooLong { .. }) => (),
            Err(WriteError::NotReading) => self.end(ConversationEnd::NotReading),
            Err(WriteError::Closed) => self.end(ConversationEnd::Closed),
        }
        sent
    }

    /// The reader thread.
    fn read(&self, mut lines: LineReader<impl Read>, requests: &Sender<RequestLine>) {
        let mut greeted = false;
        let ending = loop {
            let line = match lines.next_line() {
                Ok(Some(line)) => line,
                Ok(None) | Err(LineError::CutOff | LineError::Io(_)) => break ConversationEnd::Closed,
                Err(error) => {
                    let message = format!("{error}; this agent ends the conversation");
                    let _ = self.send(&AgentLine::Refusal { re: None, kind: RefusalKind::BadRequest, message });
                    break ConversationEnd::Nonsense(error.to_string());
                }
            };
            // After a long silence the conversation has ended, whatever comes then.
            if self.has_ended() {
                return;
            }
            self.0.state.lock().heard = Instant::now();
            if !greeted {
                match Hello::read(&line) {
                    Some(hello) if hello.linerate == PROTOCOL => greeted = true,
                    Some(hello) => break ConversationEnd::WrongVersion(hello.linerate),
                    None => break ConversationEnd::Nonsense("the first line is no greeting".to_owned()),
                }
                continue;
            }
            match read_request(&line) {
                Ok(RequestLine { id, request: Request::Ping }) => self.reply(id, Reply::Done),
                Ok(request) => match requests.try_send(request) {
                    Ok(()) => (),
                    Err(NotSent::Full(RequestLine { id, .. })) => {
                        self.refuse(id, RefusalKind::OutOfOrder, "too many requests wait; wait for their answers");
                    }
                    Err(NotSent::Closed(_)) => return,
                },
                Err(Unreadable { re, kind, message }) => {
                    let _ = self.send(&AgentLine::Refusal { re, kind, message });
                }
            }
        };
        self.end(ending);
    }
}

/// A line that is no request: what to answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// The number it gave itself, if that could be read.
    pub re: Option<u64>,
    /// [`RefusalKind::UnknownMessage`] or [`RefusalKind::BadRequest`].
    pub kind: RefusalKind,
    /// One sentence.
    pub message: String,
}

/// Reads a line from a controller.
pub fn read_request(line: &str) -> Result<RequestLine, Unreadable> {
    #[derive(Deserialize)]
    struct Numbered {
        id: u64,
    }
    #[derive(Deserialize)]
    struct Named {
        request: Name,
    }
    let error = match serde_json::from_str::<RequestLine>(line) {
        Ok(request) => return Ok(request),
        Err(error) => error,
    };
    let re = serde_json::from_str::<Numbered>(line).ok().map(|numbered| numbered.id);
    let name = serde_json::from_str::<Named>(line).ok().map(|named| named.request.0);
    let (kind, message) = match name {
        Some(name) if Request::NAMES.contains(&name.as_str()) => {
            (RefusalKind::BadRequest, format!("'{name}' cannot be read: {error}"))
        }
        Some(name) => {
            let name: String = name.chars().take(40).collect();
            let message = format!(
                "'{}' is not known to this agent; install the same version of linerate on both machines",
                name.escape_debug()
            );
            (RefusalKind::UnknownMessage, message)
        }
        None => (RefusalKind::BadRequest, format!("the line is no request: {error}")),
    };
    Err(Unreadable { re, kind, message })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, re: Option<u64>, kind: RefusalKind, part: &str) {
        let unreadable = read_request(line).expect_err(line);
        assert_eq!((unreadable.re, unreadable.kind), (re, kind), "{line}");
        assert!(unreadable.message.contains(part), "{}", unreadable.message);
    }

    #[test]
    fn what_cannot_be_read_is_told_apart() {
        check(r#"{"id":3,"request":{"levitate":{"height":1}}}"#, Some(3), RefusalKind::UnknownMessage, "levitate");
        check(r#"{"id":3,"request":{"connect":{"peer":"x"}}}"#, Some(3), RefusalKind::BadRequest, "'connect'");
        check(r#"{"id":3}"#, Some(3), RefusalKind::BadRequest, "no request");
        check(r#"{"request":"ping"}"#, None, RefusalKind::BadRequest, "'ping'");
        check("hello", None, RefusalKind::BadRequest, "no request");
        let deep = "[".repeat(100_000);
        check(&deep, None, RefusalKind::BadRequest, "no request");
        check(&format!(r#"{{"id":1,"request":{deep}"#), None, RefusalKind::BadRequest, "no request");
    }
}
