//! The watchdog: a second process that puts settings back when its agent is gone, however that ended.
//! Knows the journal's path and the pipe from the agent; nothing is ever said on it but its end.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use linerate_machine::channel::channel;
use linerate_machine::thread;

use super::journal::{Journal, JournalClaim, Owner};
use super::journal_files;
use super::put_back::put_back;
use crate::sys;

/// What the watchdog says when it watches.
const READY: &str = "watching";
/// How long it has to say so.
const START_TIME: Duration = Duration::from_secs(5);
/// How long it has to end when there is nothing to do.
const END_TIME: Duration = Duration::from_secs(1);

/// A watchdog under way. Dropping it closes the pipe: it looks into the journal, and ends.
#[derive(Debug)]
pub(super) struct Watchdog {
    child: Child,
    pipe: Option<ChildStdin>,
}

impl Watchdog {
    /// Starts this very program once more. `first` is what its command line begins with, such as `agent`.
    pub(super) fn start(first: &[String], journal: &Path) -> io::Result<Watchdog> {
        // The program that runs, even if another has been put in its place since.
        let mut command = Command::new("/proc/self/exe");
        command.arg0("linerate-watchdog").args(first).arg("--watch").arg(journal);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        // A signal to the agent's group, from a terminal or from who ends it, is not for the watchdog.
        command.process_group(0);
        let mut child = command.spawn()?;
        let (pipe, stdout) = (child.stdin.take(), child.stdout.take());
        let watchdog = Watchdog { child, pipe };
        let (said, heard) = channel(1);
        thread::start("watchdog", 64 << 10, move || {
            let mut line = String::new();
            if let Some(stdout) = stdout {
                let _ = BufReader::new(stdout.take(64)).read_line(&mut line);
            }
            let _ = said.send(line);
        })?;
        match heard.recv_timeout(START_TIME) {
            Ok(line) if line.trim() == READY => Ok(watchdog),
            _ => Err(io::Error::other("it does not begin to watch")),
        }
    }

    /// Whether it still watches.
    pub(super) fn watches(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.pipe = None;
        let deadline = Instant::now() + END_TIME;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_micros(500));
        }
        // One that has more to do is left to do it: what it puts back is worth more than its last word.
    }
}

/// Watches over the agent at the other end of standard input, and ends after it. The error is one sentence.
pub fn watch(journal: &Path) -> Result<(), String> {
    // From the start: who tidies the folder up takes no original along.
    let opened = journal_files::open(journal).ok();
    // Who ends a whole group, a session or a service means the agent; its settings must go back all the same.
    sys::signals::withstand();
    println!("{READY}");
    let _ = io::stdout().flush();
    // Nothing is ever said here but the end, which comes however the agent ends.
    let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
    let claim = Journal::adopt(journal, opened.as_ref(), Owner::Ends);
    let JournalClaim::Journal(mut journal) = claim else { return Ok(()) };
    if journal.kept {
        return Ok(());
    }
    put_back(&mut journal, |_| true);
    // What could not be put back, or read, stays written down: the next agent tries again, and has somebody to tell.
    if journal.is_spent() {
        journal.delete();
    }
    Ok(())
}
