//! A command that runs in the full screen: its lines become events, and its end one.
//! Knows streams and a child; what it does is its own.

use std::io::{self, BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use linerate_host::sys::child;
use linerate_machine::printable::in_line;

use super::app::Event;

/// The longest line that is kept.
const LONGEST_LINE: u64 = 8192;
/// How long the last lines of a child that has ended may take: a grandchild may hold the stream open.
const LAST_LINES: Duration = Duration::from_millis(300);

/// The command.
pub(super) struct Running {
    child: Child,
    readers: Vec<JoinHandle<()>>,
}

impl Running {
    pub(super) fn start(mut command: Command, columns: u16, events: &Sender<Event>) -> io::Result<Running> {
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
    let mut stream = BufReader::new(stream);
    loop {
        let mut octets = Vec::new();
        match stream.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut octets) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let line = in_line(String::from_utf8_lossy(&octets).trim_end(), 4000).into_owned();
        if events.send(Event::Output(line)).is_err() {
            return;
        }
    }
}
