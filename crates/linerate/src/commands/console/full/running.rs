//! A command that runs in the full screen: its lines become events, and its end one.

use std::io::{self, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use linerate_host::sys::child;
use linerate_machine::printable::in_line;

use super::app::Event;
use crate::child_lines::child_lines;
use crate::measure::events::CampaignEvent;

/// The longest line that is kept.
const LONGEST_LINE: u64 = 8192;
/// The longest event: a record is a part of one.
const LONGEST_EVENT: u64 = 4 << 20;
/// How long the last lines of a child that has ended may take: a grandchild may hold the stream open.
const LAST_LINES: Duration = Duration::from_millis(300);

/// The command.
pub(super) struct Running {
    child: Child,
    readers: Vec<JoinHandle<()>>,
}

impl Running {
    pub(super) fn start(mut command: Command, columns: u16, events: &Sender<Event>) -> io::Result<Running> {
        if let Some(option) = option_of_events(&command) {
            // Its standard input, which it reads nothing from, is where it writes them to.
            let (read, write) = io::pipe()?;
            command.args([option, "/proc/self/fd/0"]).stdin(write);
            let events = events.clone();
            let reader = std::thread::Builder::new().name("events".to_owned());
            reader.spawn(move || tell_events(read, &events))?;
        }
        command.env("COLUMNS", columns.to_string()).env("NO_COLOR", "1");
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let streams: [Option<Box<dyn Read + Send>>; 2] = [
            child.stdout.take().map(|stream| Box::new(stream) as _),
            child.stderr.take().map(|stream| Box::new(stream) as _),
        ];
        let mut running = Running { child, readers: Vec::new() };
        for stream in streams.into_iter().flatten() {
            let events = events.clone();
            let reader = std::thread::Builder::new().name("command".to_owned());
            running.readers.push(reader.spawn(move || tell_lines(stream, &events))?);
        }
        Ok(running)
    }

    /// Asks it to end, as Ctrl-C does.
    pub(super) fn ask_to_end(&self) {
        child::ask_to_end(&self.child, true);
    }

    /// How it ended, if it has; its last lines are told then.
    pub(super) fn ended(&mut self) -> Option<Event> {
        let how = match self.child.try_wait() {
            Ok(None) => return None,
            Ok(Some(status)) => in_words(status),
            Err(error) => Some(format!("How it ended is not known: {error}.")),
        };
        let until = Instant::now() + LAST_LINES;
        while self.readers.iter().any(|reader| !reader.is_finished()) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        Some(Event::Ended(how))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            child::ask_to_end(&self.child, true);
            let _ = self.child.wait();
        }
    }
}

fn in_words(status: ExitStatus) -> Option<String> {
    match status.code() {
        Some(0) => None,
        Some(1) => Some("Ended: a judgement failed (status 1).".to_owned()),
        Some(130) => Some("Ended by Ctrl-C.".to_owned()),
        Some(code) => Some(format!("Ended: it could not do its work (status {code}).")),
        None => Some("Ended by a signal.".to_owned()),
    }
}

fn tell_lines(stream: impl Read, events: &Sender<Event>) {
    let lines = child_lines(stream, LONGEST_LINE);
    let mut lines = lines.map(|line| in_line(&String::from_utf8_lossy(&line), 4000).into_owned());
    // Until nobody hears them any more.
    let _ = lines.try_for_each(|line| events.send(Event::Output(line)));
}

/// What happens in a campaign; what cannot be read is left out, for its lines tell it too.
fn tell_events(stream: impl Read, events: &Sender<Event>) {
    let told =
        child_lines(stream, LONGEST_EVENT).filter_map(|line| serde_json::from_slice::<CampaignEvent>(&line).ok());
    let _ = told.map(Box::new).try_for_each(|event| events.send(Event::Campaign(event)));
}

/// The option by which this command writes events; not all have it, and none where nothing is measured.
fn option_of_events(command: &Command) -> Option<&'static str> {
    let words: Vec<&std::ffi::OsStr> = command.get_args().collect();
    let measures = words.first().is_some_and(|word| *word == "run");
    (measures && !words.iter().any(|word| *word == "--dry-run")).then_some("--events")
}
