//! A program of the user's, run without a shell and within a time.

use std::fmt;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use linerate_machine::channel::{Receiver, channel};
use linerate_machine::thread;

use crate::sys;

/// A program that has ended, by itself and in time.
#[derive(Debug)]
pub struct CommandOutput {
    /// How it ended.
    pub status: ExitStatus,
    /// Its standard output, as far as it is read.
    pub printed: String,
    /// Its standard error, as far as it is read.
    pub complained: String,
}

/// What becomes of processes that a program has started and left running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Children {
    /// They end with it.
    End,
    /// They go on, unless it had to be ended.
    Stay,
}

/// Why a program did not come to its end. Half a sentence each.
#[derive(Debug)]
pub enum CommandError {
    /// There is no program.
    Empty,
    /// It could not be started or waited for.
    Failed(String, io::Error),
    /// It was not done in time, and was ended.
    Late(String, Duration),
    /// Nobody wants it any more, and it was ended.
    Stopped,
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CommandError::Empty => f.write_str("its command is empty"),
            CommandError::Failed(program, error) => write!(f, "'{program}' cannot be run: {}", crate::text_of(error)),
            CommandError::Late(program, time) => write!(f, "'{program}' was not done within {} s", time.as_secs_f64()),
            CommandError::Stopped => f.write_str("interrupted"),
        }
    }
}

impl std::error::Error for CommandError {}

/// How much of what it prints is read.
pub const MOST_PRINTED: usize = 16 * 1024;

/// Runs a program with these arguments, and more in its environment. `stop` is asked again and again whether nobody
/// wants it any more.
pub fn run(
    words: &[String],
    environment: &[(&str, &str)],
    children: Children,
    patience: Duration,
    stop: impl Fn() -> bool,
) -> Result<CommandOutput, CommandError> {
    let (program, arguments) = words.split_first().ok_or(CommandError::Empty)?;
    let failed = |error: io::Error| CommandError::Failed(program.clone(), error);
    let mut child = Command::new(program)
        .args(arguments)
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // A group of its own, so that what it starts can be ended with it.
        .process_group(0)
        .spawn()
        .map_err(failed)?;
    let printed = read_beside(child.stdout.take());
    let complained = read_beside(child.stderr.take());
    let ended = wait(&child, Instant::now() + patience, &stop);
    if children == Children::End || !matches!(ended, Ok(true)) {
        // Before it is reaped, while the group is its own. What it left running also holds the pipes open.
        let _ = sys::thread::kill_group(child.id());
    }
    let status = child.wait().map_err(failed)?;
    if !ended.map_err(failed)? {
        return Err(if stop() { CommandError::Stopped } else { CommandError::Late(program.clone(), patience) });
    }
    let after = Duration::from_secs(1);
    let text = |from: Receiver<Vec<u8>>| {
        from.octets_within(after).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    };
    Ok(CommandOutput { status, printed: text(printed), complained: text(complained) })
}

impl CommandOutput {
    /// The first line of what it complained of, cut to a length that fits a sentence.
    pub fn complaint(&self) -> Option<String> {
        let line = self.complained.lines().map(str::trim).find(|line| !line.is_empty())?;
        Some(line.chars().filter(|c| !c.is_control()).take(300).collect())
    }
}

/// Whether it ends before the deadline, and while somebody wants it.
fn wait(child: &Child, deadline: Instant, stop: &impl Fn() -> bool) -> io::Result<bool> {
    while !sys::thread::has_ended(child.id())? {
        if Instant::now() >= deadline || stop() {
            return Ok(false);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(true)
}

/// Reads a pipe in a thread of its own: two pipes read in turn could each wait for the other.
fn read_beside(pipe: Option<impl Read + Send + 'static>) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel(1);
    // Where there is no thread to be had, nothing is read.
    let _ = thread::start("pipe", 64 << 10, move || {
        let mut bytes = Vec::new();
        if let Some(pipe) = pipe {
            let _ = pipe.take(MOST_PRINTED as u64).read_to_end(&mut bytes);
        }
        let _ = sender.send_octets(bytes);
    });
    receiver
}
