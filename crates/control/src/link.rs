//! A byte stream to an agent and whatever carries it: a child process, a socket, or this process's own streams.
//! Knows nothing of what is said on it.

use std::fmt::Debug;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use linerate_machine::sync::Mutex;

/// Both directions of a conversation. Dropping it ends what carries it, in order.
pub struct Link {
    /// What the peer says.
    pub reader: Box<dyn Read + Send>,
    /// What is said to the peer.
    pub writer: Box<dyn Write + Send>,
    /// What there is to tell of how the peer was reached.
    pub notes: Vec<String>,
    /// What carries both. The last field: the writer closes first, and a child sees the end of its input.
    pub guard: Guard,
}

/// What carries a [`Link`], and must be ended with it.
#[derive(Debug)]
pub struct Guard {
    held: Held,
    /// Ended after this one: what it goes through.
    carrier: Option<Box<Link>>,
    /// Given back last: where the machine is.
    place: Option<Arc<dyn Debug + Send + Sync>>,
}

#[derive(Debug)]
enum Held {
    Child(Box<HeldChild>),
    Tcp(TcpStream),
    Unix(UnixStream),
    Nothing,
}

#[derive(Debug)]
struct HeldChild {
    child: Child,
    ended: Option<ExitStatus>,
    said: Arc<Mutex<LastLines>>,
    /// It leads a process group, whose other members end with it.
    leads_group: bool,
    hints: Hints,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").field("guard", &self.guard).finish_non_exhaustive()
    }
}

/// How a child is started, beside its command.
pub(crate) struct Start {
    /// It may ask its user something on the terminal, and so must stay in the terminal's foreground.
    pub(crate) may_ask: bool,
    /// What to try when it ends.
    pub(crate) hints: Hints,
}

/// What a person could try when a child has ended, by its status.
#[derive(Debug)]
pub(crate) struct Hints {
    /// 127, a shell's word for a program that is not there.
    pub(crate) not_found: String,
    /// 255, ssh's word for a connection that could not be had or broke; `None`: the child is not ssh.
    pub(crate) ssh_failed: Option<String>,
}

/// How long a child has after the end of its input before it is killed.
const PATIENCE: Duration = Duration::from_millis(1000);

impl Link {
    /// The streams of this process: what `--stdio` speaks on.
    pub fn stdio() -> io::Result<Link> {
        // Duplicates, because Stdout's own buffer would split a line over several writes.
        let reader = std::fs::File::from(io::stdin().as_fd().try_clone_to_owned()?);
        let writer = std::fs::File::from(io::stdout().as_fd().try_clone_to_owned()?);
        Ok(Link::of(reader, writer))
    }

    /// Two halves of a stream that needs no ending.
    pub fn of(reader: impl Read + Send + 'static, writer: impl Write + Send + 'static) -> Link {
        Link::held(reader, writer, Held::Nothing)
    }

    /// Two halves of a conversation over `socket`, which is shut down at the end.
    pub fn over_tcp(
        reader: impl Read + Send + 'static,
        writer: impl Write + Send + 'static,
        socket: TcpStream,
    ) -> Link {
        Link::held(reader, writer, Held::Tcp(socket))
    }

    fn held(reader: impl Read + Send + 'static, writer: impl Write + Send + 'static, held: Held) -> Link {
        let (reader, writer) = (Box::new(reader), Box::new(writer));
        Link { reader, writer, notes: Vec::new(), guard: Guard { held, carrier: None, place: None } }
    }

    /// Holds another link as long as this one lives, and ends it after this one.
    pub(crate) fn keep(&mut self, other: Link) {
        self.guard.carrier = Some(Box::new(other));
    }

    /// A conversation over a socket of this machine, which is shut down at the end.
    pub(crate) fn over_unix(socket: UnixStream) -> io::Result<Link> {
        let (reader, writer) = (socket.try_clone()?, socket.try_clone()?);
        Ok(Link::held(reader, writer, Held::Unix(socket)))
    }

    /// Starts a child and speaks on its standard input and output.
    pub(crate) fn start(mut command: Command, start: Start) -> io::Result<Link> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if !start.may_ask {
            // Ctrl-C in the terminal reaches the foreground group only; the controller ends its children in order.
            command.process_group(0);
        }
        let mut child = command.spawn()?;
        let (Some(stdin), Some(stdout), Some(stderr)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            unreachable!("all three were asked for as pipes")
        };
        let said = Arc::new(Mutex::new(LastLines::default()));
        let held =
            HeldChild { child, ended: None, said: Arc::clone(&said), leads_group: !start.may_ask, hints: start.hints };
        crate::start_thread("linerate-stderr", move || LastLines::collect(stderr, &said))?;
        Ok(Link::held(stdout, stdin, Held::Child(Box::new(held))))
    }
}

impl Guard {
    /// The child is gone. Always false for a link without one.
    pub(crate) fn has_ended(&mut self) -> bool {
        match &mut self.held {
            Held::Child(held) => held.wait(Duration::ZERO).is_some(),
            Held::Tcp(_) | Held::Unix(_) | Held::Nothing => false,
        }
    }

    /// How the child ended, as a clause that says what to try; waits for the end at most
    /// `patience`. `None`: there is no child, or it lives.
    pub fn how_it_ended(&mut self, patience: Duration) -> Option<String> {
        let Held::Child(held) = &mut self.held else { return None };
        let status = held.wait(patience)?;
        // The thread that reads the child's last words may need a moment more.
        let deadline = Instant::now() + Duration::from_millis(100);
        while !held.said.lock().complete && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(2));
        }
        Some(held.describe(status))
    }

    /// Ends what carries the link: a socket is shut down; a child whose input was closed gets a second to end by
    /// itself and is then killed, with its process group.
    pub fn end(&mut self) {
        match &mut self.held {
            Held::Child(held) => held.end(),
            Held::Tcp(socket) => drop(socket.shutdown(Shutdown::Both)),
            Held::Unix(socket) => drop(socket.shutdown(Shutdown::Both)),
            Held::Nothing => (),
        }
        self.carrier = None;
        self.place = None;
    }

    /// Holds a place as long as the link lives.
    pub(crate) fn hold(&mut self, place: Arc<dyn Debug + Send + Sync>) {
        self.place = Some(place);
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.end();
    }
}

impl HeldChild {
    fn wait(&mut self, patience: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + patience;
        let mut pause = Duration::from_micros(200);
        loop {
            if self.ended.is_none() {
                self.ended = self.child.try_wait().ok().flatten();
            }
            if self.ended.is_some() || Instant::now() >= deadline {
                return self.ended;
            }
            // std has no wait with a time-out; the pause grows so that a quick end is seen quickly.
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(10));
        }
    }

    fn end(&mut self) {
        if self.wait(PATIENCE).is_some() {
            return;
        }
        if self.leads_group {
            // std cannot signal a group. The child is not yet waited for, so its number cannot be another's.
            let command = format!("kill -9 -{}", self.child.id());
            let _ = Command::new("/bin/sh").args(["-c", &command]).stderr(Stdio::null()).status();
        }
        let _ = self.child.kill();
        self.ended = self.child.wait().ok();
    }

    fn describe(&self, status: ExitStatus) -> String {
        // A shell between us and the agent reports its signal as 128 + number.
        let signal = status.signal().or(status.code().and_then(|code| (129..=192).contains(&code).then(|| code - 128)));
        let (mut text, hint) = match (signal, status.code()) {
            (Some(9), _) => (
                "was killed by signal 9 (SIGKILL)".to_owned(),
                "the kernel does that when memory runs out: look into dmesg on that machine, and start again",
            ),
            (Some(signal), _) => {
                let (name, hint) = describe_signal(signal);
                (format!("was killed by signal {signal}{name}"), hint)
            }
            (None, Some(0)) => ("ended".to_owned(), BY_HAND),
            (None, Some(126)) => (
                "could not be executed (status 126)".to_owned(),
                "see that the file is executable and made for that machine's processor",
            ),
            (None, Some(127)) => ("ended with status 127".to_owned(), self.hints.not_found.as_str()),
            (None, Some(255)) if let Some(hint) = &self.hints.ssh_failed => (
                "ended with status 255 (it could not connect, the connection broke, or the agent was killed)"
                    .to_owned(),
                hint.as_str(),
            ),
            (None, code) => (format!("ended with status {}", code.unwrap_or_default()), BY_HAND),
        };
        let said = self.said.lock();
        if !said.lines.is_empty() {
            text += &format!(", its last words: \"{}\"", said.lines.join(" / "));
        }
        // What a signal kills here is ssh itself; every status but 255 is what the agent came to.
        let is_ssh = self.hints.ssh_failed.is_some() && matches!(status.code(), None | Some(255));
        format!("{} {text}; {hint}", if is_ssh { "ssh" } else { "its agent" })
    }
}

const BY_HAND: &str = "start it by hand on that machine to see what it says";

fn describe_signal(signal: i32) -> (&'static str, &'static str) {
    const AGAIN: &str = "start again";
    match signal {
        1 => (" (SIGHUP)", AGAIN),
        2 => (" (SIGINT)", AGAIN),
        4 => (" (SIGILL)", "see that the program is made for that machine's processor"),
        6 => (" (SIGABRT)", BY_HAND),
        7 => (" (SIGBUS)", BY_HAND),
        11 => (" (SIGSEGV)", BY_HAND),
        15 => (" (SIGTERM)", AGAIN),
        _ => ("", BY_HAND),
    }
}

/// The last lines of a child's standard error, cut to a length that fits a sentence.
#[derive(Debug, Default)]
struct LastLines {
    lines: Vec<String>,
    complete: bool,
}

impl LastLines {
    const LINES: usize = 3;
    const LENGTH: usize = 300;

    fn collect(stderr: impl Read, said: &Mutex<LastLines>) {
        let mut stderr = BufReader::new(stderr);
        let (mut line, mut in_backtrace) = (Vec::new(), false);
        // `take` bounds a line that never ends: it is kept in pieces.
        while matches!(stderr.by_ref().take(4096).read_until(b'\n', &mut line), Ok(1..)) {
            let text: String = String::from_utf8_lossy(&line).trim().chars().take(Self::LENGTH).collect();
            line.clear();
            // Control characters of another machine have no business in this terminal.
            let text: String = text.chars().filter(|c| !c.is_control()).collect();
            // What follows a panic's message says where, not what.
            in_backtrace |= text == "stack backtrace:";
            if text.is_empty() || in_backtrace {
                continue;
            }
            let mut said = said.lock();
            if said.lines.len() == Self::LINES {
                said.lines.remove(0);
            }
            said.lines.push(text);
        }
        said.lock().complete = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_words_of_a_panic_are_its_message() {
        let said = Mutex::new(LastLines::default());
        let words =
            "thread 'main' panicked at x.rs:1:\nno thread\nstack backtrace:\n   0: rust_begin_unwind\n   1: main\n";
        LastLines::collect(words.as_bytes(), &said);
        let said = said.lock();
        assert_eq!(said.lines, ["thread 'main' panicked at x.rs:1:", "no thread"]);
        assert!(said.complete);
    }
}
