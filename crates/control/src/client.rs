//! The controller's side of a conversation with one agent.
//! Knows nothing of trials: it carries requests, answers, events, and the news that an agent is gone.

use std::collections::HashMap;
use std::fmt;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError};
use std::time::{Duration, Instant};

use linerate_machine::sync::Mutex;
use serde::Deserialize;

use crate::connect_options::{ConnectOptions, receive_unless};
use crate::endpoint::Endpoint;
use crate::error::{ControlError, Machine};
use crate::line::{LONGEST_FROM_AGENT, LONGEST_FROM_CONTROLLER, LineError, LineReader, LineWriter, WriteError};
use crate::link::{Guard, Link};
use crate::message::{AgentLine, Event, Hello, Name, PROTOCOL, RefusalKind, Reply, Request, RequestLine};

/// A conversation with the agent of one machine. Dropping it ends the conversation, and with it the agent.
///
/// ```text
///  request() ──► LineWriter ──────────────► agent
///                     ▲ Ping, each second     │
///               heartbeat thread              ▼
///  Pending  ◄── by number ──┐          reader thread
///  events() ◄── events ─────┴─────────────────┘
/// ```
pub struct Client {
    shared: Arc<Shared>,
    hello: Hello,
    events: Receiver<AgentEvent>,
    /// Dropped to end the heartbeat.
    _stop: Sender<()>,
}

/// What an agent tells unasked.
#[derive(Clone, Debug, PartialEq)]
pub enum AgentEvent {
    /// What the agent said.
    Event(Event),
    /// The agent is gone; nothing follows.
    Lost(ControlError),
}

/// A request on its way.
#[derive(Debug)]
#[must_use = "a request's answer says whether it was carried out"]
pub struct Pending {
    shared: Arc<Shared>,
    id: u64,
    request: &'static str,
    answer: Receiver<Result<Reply, ControlError>>,
}

#[derive(Debug)]
struct Shared {
    machine: Machine,
    writer: LineWriter,
    guard: Mutex<Guard>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    next: u64,
    pending: HashMap<u64, Asked>,
    events: Option<SyncSender<AgentEvent>>,
    heard: Instant,
    /// Until then silence is no news: what was asked for may cut the conversation for a while.
    patience: Instant,
    lost: Option<ControlError>,
}

#[derive(Debug)]
struct Asked {
    request: &'static str,
    answer: SyncSender<Result<Reply, ControlError>>,
}

/// Events that wait for [`Client::events`] to be read; further news of progress is dropped.
const EVENTS: usize = 256;

impl Client {
    /// Reaches the agent and exchanges the first line. `name` is the machine's part: `target` or `host`.
    pub fn connect(endpoint: &Endpoint, name: &str, options: &ConnectOptions) -> Result<Client, ControlError> {
        let machine = Machine { name: name.to_owned(), endpoint: endpoint.to_string() };
        let patience = if endpoint.may_ask() { options.typing } else { options.connect_timeout };
        let link = endpoint.connect(name, options)?;
        Client::greet(link, machine, options, patience)
    }

    /// Speaks over a link that is there already.
    pub fn over(link: Link, machine: Machine, options: &ConnectOptions) -> Result<Client, ControlError> {
        Client::greet(link, machine, options, options.connect_timeout)
    }

    fn greet(
        link: Link,
        machine: Machine,
        options: &ConnectOptions,
        patience: Duration,
    ) -> Result<Client, ControlError> {
        let Link { reader, writer, notes, mut guard } = link;
        let out_of_threads = |error: io::Error| ControlError::Unreachable {
            machine: machine.clone(),
            why: format!("this program cannot start a thread ({error}); see the limits of this machine (ulimit -u)"),
        };
        let writer = LineWriter::new(writer, LONGEST_FROM_CONTROLLER).map_err(out_of_threads)?;
        let program = options.program.clone();
        let hello = Hello { linerate: PROTOCOL, program, capabilities: Vec::new(), notes: Vec::new() };
        let _ = writer.send(&hello);

        let (greeting_sent, greeting) = mpsc::sync_channel(1);
        let (strange_sent, strange) = mpsc::sync_channel(1);
        let (go_sent, go) = mpsc::sync_channel::<Arc<Shared>>(1);
        let reading = move || {
            let mut lines = LineReader::new(reader, LONGEST_FROM_AGENT);
            let _ = greeting_sent.send(read_hello(&mut lines, &strange_sent));
            if let Ok(shared) = go.recv() {
                shared.read(lines);
            }
        };
        crate::start_thread("linerate-read", reading).map_err(out_of_threads)?;
        let greeted = match receive_unless(&greeting, patience, options.interrupted) {
            Ok(Ok(hello)) if hello.linerate == PROTOCOL => Ok(hello),
            Ok(Ok(hello)) => Err(ControlError::WrongVersion {
                machine: machine.clone(),
                program: hello.program,
                theirs: hello.linerate,
                ours: PROTOCOL,
            }),
            Ok(Err(why)) => {
                let end = guard.how_it_ended(Duration::from_millis(500));
                let why = match (end, why) {
                    (Some(end), _) => end,
                    (None, Some(why)) => why,
                    (None, None) => "its agent closed the connection without a word; see what it says on that \
                                     machine (it may be serving as many controllers as it can)"
                        .to_owned(),
                };
                Err(ControlError::Unreachable { machine: machine.clone(), why })
            }
            Err(_) if (options.interrupted)() => Err(ControlError::Interrupted),
            Err(_) => {
                let said = match strange.try_recv() {
                    Ok(line) => format!("it said {line} and no first line of an agent's"),
                    Err(_) => "it said nothing".to_owned(),
                };
                Err(ControlError::Unreachable {
                    machine: machine.clone(),
                    why: format!(
                        "{said} within {} s; see that what is started there is linerate-agent --stdio",
                        patience.as_secs_f64()
                    ),
                })
            }
        };
        let hello = match greeted {
            Ok(mut hello) => {
                hello.notes.extend(notes);
                hello
            }
            Err(error) => {
                writer.close(Duration::from_millis(100));
                return Err(error);
            }
        };

        let (events_sent, events) = mpsc::sync_channel(EVENTS);
        let now = Instant::now();
        let state = State {
            next: 1,
            pending: HashMap::new(),
            events: Some(events_sent),
            heard: now,
            patience: now,
            lost: None,
        };
        let shared =
            Arc::new(Shared { machine: machine.clone(), writer, guard: Mutex::new(guard), state: Mutex::new(state) });
        let _ = go_sent.send(Arc::clone(&shared));
        let (stop_sent, stop) = mpsc::channel();
        let theirs = Arc::clone(&shared);
        let (every, silence) = (options.heartbeat, options.silence);
        // Whole before the next thread: should that fail, dropping the client ends the agent.
        let client = Client { shared, hello, events, _stop: stop_sent };
        crate::start_thread("linerate-heartbeat", move || theirs.keep_alive(every, silence, &stop))
            .map_err(out_of_threads)?;
        Ok(client)
    }

    /// What the agent said first.
    pub fn hello(&self) -> &Hello {
        &self.hello
    }

    /// The machine, as sentences name it.
    pub fn machine(&self) -> &Machine {
        &self.shared.machine
    }

    /// Asks and waits for the answer.
    pub fn request(&self, request: Request, timeout: Duration) -> Result<Reply, ControlError> {
        self.send(request).wait(timeout)
    }

    /// Asks; the answer is for [`Pending::wait`]. Two agents are asked at the same time this way.
    pub fn send(&self, request: Request) -> Pending {
        self.shared.ask(request)
    }

    /// Bears silence for so long from now: what is asked for next may cut the conversation for a while.
    pub fn bear_silence(&self, time: Duration) {
        let until = Instant::now() + time;
        let mut state = self.shared.state.lock();
        state.patience = state.patience.max(until);
    }

    /// Ends the conversation, and with it the agent. Whatever is asked afterwards is told `why` the machine is lost.
    pub fn end(&self, why: &str) {
        self.shared.state.lock().events = None;
        self.shared.lose(why.to_owned());
        // Closing a child's input is what ends it; one that does not read is killed by its guard.
        self.shared.writer.close(Duration::from_millis(200));
        self.shared.guard.lock().end();
    }

    /// What the agent tells unasked, in order.
    pub fn events(&self) -> &Receiver<AgentEvent> {
        &self.events
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("machine", &self.shared.machine).finish_non_exhaustive()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.end("the conversation with it has ended");
    }
}

impl Pending {
    /// Waits for the answer.
    pub fn wait(self, timeout: Duration) -> Result<Reply, ControlError> {
        self.wait_unless(timeout, || false)
    }

    /// Waits for the answer, unless `stop` says in the meantime that nobody wants it any more.
    pub fn wait_unless(self, timeout: Duration, stop: impl Fn() -> bool) -> Result<Reply, ControlError> {
        match receive_unless(&self.answer, timeout, &stop) {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Timeout) if stop() => Err(ControlError::Interrupted),
            Err(RecvTimeoutError::Timeout) => Err(self.late(timeout)),
            Err(RecvTimeoutError::Disconnected) => Err(self.shared.why_lost()),
        }
    }

    fn late(&self, after: Duration) -> ControlError {
        // The agent may have been lost without this request's answer having arrived yet.
        let lost = self.shared.state.lock().lost.clone();
        let (machine, request) = (self.shared.machine.clone(), self.request);
        lost.unwrap_or(ControlError::Timeout { machine, request, after })
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.shared.state.lock().pending.remove(&self.id);
    }
}

impl Shared {
    fn ask(self: &Arc<Shared>, request: Request) -> Pending {
        let (answer_sent, answer) = mpsc::sync_channel(1);
        let name = request.name();
        let mut state = self.state.lock();
        let id = state.next;
        state.next += 1;
        if let Some(lost) = &state.lost {
            let _ = answer_sent.send(Err(lost.clone()));
        } else {
            state.pending.insert(id, Asked { request: name, answer: answer_sent });
            drop(state);
            match self.writer.send(&RequestLine { id, request }) {
                Ok(()) => (),
                Err(error @ WriteError::TooLong { .. }) => {
                    let message = format!("{error}; ask for less at once");
                    self.answer(id, |asked| Err(self.refused(asked, RefusalKind::BadRequest, message)));
                }
                // A closed stream: the reader is about to say why; a request in between must not wait for it long.
                Err(WriteError::Closed) => self.lose_child("its agent closed the connection"),
                Err(WriteError::NotReading) => self.lose(
                    "its agent has stopped reading; see whether that machine still answers, and try again".to_owned(),
                ),
            }
        }
        Pending { shared: Arc::clone(self), id, request: name, answer }
    }

    fn answer(&self, id: u64, answer: impl FnOnce(&'static str) -> Result<Reply, ControlError>) {
        let asked = self.state.lock().pending.remove(&id);
        // None: its asker has stopped waiting.
        if let Some(asked) = asked {
            let _ = asked.answer.send(answer(asked.request));
        }
    }

    fn refused(&self, request: &'static str, kind: RefusalKind, message: String) -> ControlError {
        let machine = self.machine.clone();
        match kind {
            RefusalKind::Busy => ControlError::Busy { machine, message },
            _ => ControlError::Refused { machine, request, kind, message },
        }
    }

    /// The reader thread.
    fn read(&self, mut lines: LineReader<Box<dyn Read + Send>>) {
        loop {
            let line = match lines.next_line() {
                Ok(Some(line)) => line,
                Ok(None) | Err(LineError::CutOff | LineError::Io(_)) => {
                    return self.lose_child("its agent closed the connection");
                }
                Err(error @ (LineError::TooLong { .. } | LineError::NotUtf8)) => {
                    return self.lose(format!(
                        "{error} in what its agent says; see that the same version of linerate is on both machines"
                    ));
                }
            };
            self.state.lock().heard = Instant::now();
            if let Err(why) = self.handle_line(&line) {
                return self.lose(why);
            }
        }
    }

    fn handle_line(&self, line: &str) -> Result<(), String> {
        match serde_json::from_str::<AgentLine>(line) {
            Ok(AgentLine::Reply { re, reply }) => self.answer(re, |_| Ok(reply)),
            Ok(AgentLine::Refusal { re: Some(re), kind, message }) => {
                self.answer(re, |request| Err(self.refused(request, kind, message)));
            }
            Ok(AgentLine::Refusal { re: None, message, .. }) => {
                return Err(format!("its agent could not read what it was told ({message}); install the same version"));
            }
            Ok(AgentLine::Event(event)) => return self.handle_event(event),
            // A later version may say more than this one knows: an answer must still reach its asker.
            Err(error) => match serde_json::from_str::<Unknown>(line) {
                Ok(Unknown::Reply { re } | Unknown::Refusal { re }) => self.answer(re, |request| {
                    let message = format!("the answer cannot be read ({error}); install the same version on both ends");
                    Err(self.refused(request, RefusalKind::UnknownMessage, message))
                }),
                // The end of a trial is waited for: it must not be passed over in silence.
                Ok(Unknown::Event(Name(name))) if name == "finished" => {
                    let message =
                        format!("the outcome cannot be read ({error}); install the same version on both ends");
                    return self.handle_event(Event::TrialFailed { message, failure: None, seen: None });
                }
                Ok(Unknown::Event(_)) => (),
                Err(_) => {
                    return Err(format!(
                        "it said {}, which is no message; see what else writes to the agent's standard output",
                        quoted(line)
                    ));
                }
            },
        }
        Ok(())
    }

    fn handle_event(&self, event: Event) -> Result<(), String> {
        let state = self.state.lock();
        let Some(events) = &state.events else { return Ok(()) };
        match events.try_send(AgentEvent::Event(event)) {
            Ok(()) | Err(TrySendError::Disconnected(_)) => Ok(()),
            // Nobody reads: old news of progress is worth nothing, the rest must not be lost in silence.
            Err(TrySendError::Full(AgentEvent::Event(Event::Progress { .. }))) => Ok(()),
            Err(TrySendError::Full(_)) => Err("its agent tells more than this program reads; try again".to_owned()),
        }
    }

    /// The heartbeat thread.
    fn keep_alive(self: &Arc<Shared>, every: Duration, silence: Duration, stop: &Receiver<()>) {
        let tick = every.min(Duration::from_millis(250));
        let mut pinged = Instant::now();
        while stop.recv_timeout(tick) == Err(RecvTimeoutError::Timeout) {
            let (heard, bears) = {
                let state = self.state.lock();
                if state.lost.is_some() {
                    return;
                }
                (state.heard, Instant::now() < state.patience)
            };
            let silent = heard.elapsed();
            // A grandchild may hold the pipe open after the agent's death, so the pipe's end alone is no news.
            // What the agent said before it ended may still be on its way for a moment.
            if silent > tick && self.guard.lock().has_ended() {
                std::thread::sleep(Duration::from_millis(200));
                return self.lose_child("its agent ended");
            }
            if silent >= silence && !bears {
                return self.lose(format!(
                    "its agent was silent for {} s; check the cable and the power of that machine, and try again",
                    silence.as_secs_f64()
                ));
            }
            if pinged.elapsed() >= every {
                pinged = Instant::now();
                // The answer is not waited for: that something was heard is enough.
                drop(self.ask(Request::Ping));
            }
        }
    }

    /// Ends every request with what is known of the child's end, or else `otherwise`.
    fn lose_child(&self, otherwise: &str) {
        if self.state.lock().lost.is_some() {
            return;
        }
        let end = self.guard.lock().how_it_ended(Duration::from_millis(500));
        self.lose(match end {
            Some(end) => end,
            None => format!("{otherwise}; see whether that machine still runs, and try again"),
        });
    }

    fn lose(&self, why: String) {
        let error = ControlError::Lost { machine: self.machine.clone(), why };
        let mut state = self.state.lock();
        if state.lost.is_some() {
            return;
        }
        state.lost = Some(error.clone());
        for (_, asked) in state.pending.drain() {
            let _ = asked.answer.send(Err(error.clone()));
        }
        if let Some(events) = state.events.take() {
            let _ = events.try_send(AgentEvent::Lost(error));
        }
    }

    fn why_lost(&self) -> ControlError {
        let lost = self.state.lock().lost.clone();
        let why = "the conversation has ended".to_owned();
        lost.unwrap_or_else(|| ControlError::Lost { machine: self.machine.clone(), why })
    }
}

/// A line of which only the number matters.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Unknown {
    Reply { re: u64 },
    Refusal { re: u64 },
    Event(Name),
}

/// The agent's first line. A login shell's greeting may come before it; what is no JSON object is passed over.
/// `Err(None)`: the stream ended without a word. The first line that is another goes to `strange` at once, quoted: nothing may
/// follow it.
fn read_hello(
    lines: &mut LineReader<Box<dyn Read + Send>>,
    strange: &SyncSender<String>,
) -> Result<Hello, Option<String>> {
    const GREETING_LINES: usize = 100;
    let mut other = None;
    for _ in 0..GREETING_LINES {
        let line = match lines.next_line() {
            Ok(Some(line)) => line,
            Ok(None) | Err(LineError::CutOff | LineError::Io(_)) => break,
            Err(error) => return Err(Some(format!("what answers there is no linerate agent: {error}"))),
        };
        if let Some(hello) = Hello::read(&line) {
            return Ok(hello);
        }
        if other.is_none() {
            let line = quoted(&line);
            let _ = strange.try_send(line.clone());
            other = Some(line);
        }
    }
    Err(other.map(|line| format!("what answers there is no linerate agent, it said {line}; check the endpoint")))
}

/// The start of a line, fit for a sentence.
fn quoted(line: &str) -> String {
    let start: String = line.chars().take(80).collect();
    format!("\"{}\"", start.escape_debug())
}
