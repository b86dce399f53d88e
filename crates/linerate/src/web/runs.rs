//! Campaigns that were started here: a queue, one after the other, each a process of its own that tells its events.
//! Knows words of a command line and processes; what may be started, the views know.
//!
//! A process of its own has nothing in common with the server but a pipe: a browser cannot hold it up, and when the server is
//! killed it goes on to its end. It is asked to end with SIGINT, once: then settings are put back and records are kept.

use std::collections::VecDeque;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use linerate_host::sys::signals::ask_to_end;
use linerate_machine::printable::in_line;
use linerate_machine::sync::{Condvar, Mutex};
use linerate_machine::text::shell_word;

use crate::child_lines::child_lines;
use crate::measure::events::CampaignEvent;
use crate::measure::watched::Watched;

/// The most campaigns that wait, and the most that ended and are remembered.
const WAITING: usize = 20;
const REMEMBERED: usize = 20;
/// The longest line of events: a record of ten thousand time slices has a megabyte.
const LINE: u64 = 64 << 20;
/// The most lines of a campaign's output that are kept, and the longest.
const LOG: usize = 200;
const LOG_LINE: usize = 1000;
/// Between the asking of a campaign to end and the end of the server.
const END_TIME: Duration = Duration::from_secs(60);

/// One of them.
pub(super) struct Run {
    pub(super) number: u64,
    /// What people call it.
    pub(super) plan: String,
    /// As it can be typed.
    pub(super) command: String,
    words: Vec<String>,
    /// What it reads on standard input: a plan that was posted.
    input: Option<String>,
    /// Who started it.
    pub(super) by: String,
    pub(super) state: State,
    pub(super) watched: Watched,
    /// What it says on standard error.
    pub(super) log: VecDeque<String>,
    /// Grows with everything that happens to it.
    pub(super) version: u64,
    /// When its last event came.
    pub(super) heard: Option<Instant>,
}

impl Run {
    /// It is this campaign, or is to carry it on.
    pub(super) fn is_of(&self, campaign: &str) -> bool {
        let is_resumed = |word: &String| word.strip_prefix("--resume=") == Some(campaign);
        self.watched.campaign.as_deref() == Some(campaign) || self.words.iter().any(is_resumed)
    }

    /// It waits or runs.
    pub(super) fn is_alive(&self) -> bool {
        matches!(self.state, State::Waiting | State::Running(_) | State::Ending(_))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    Waiting,
    /// By this process.
    Running(u32),
    /// It was asked to end.
    Ending(u32),
    /// With this sentence, if it could not do its work.
    Ended(Option<String>),
    /// It never ran.
    Cancelled,
}

#[derive(Default)]
struct Table {
    runs: VecDeque<Run>,
    next: u64,
    /// Settings that they could not put back.
    not_put_back: u64,
    /// Nothing is started any more.
    is_over: bool,
}

pub(super) struct Runs {
    table: Arc<(Mutex<Table>, Condvar)>,
    /// Words that each command begins with.
    shared: Vec<String>,
}

impl Runs {
    pub(super) fn new(shared: Vec<String>) -> Runs {
        Runs { table: Arc::default(), shared }
    }

    /// Puts a campaign at the end of the queue: words of `linerate`, like `run tcp --target x`, and what it reads on standard
    /// input. Its number, or why not.
    pub(super) fn add(&self, plan: &str, words: Vec<String>, input: Option<String>, by: &str) -> Result<u64, String> {
        let mut table = self.table.0.lock();
        if table.is_over {
            return Err("the server ends; nothing is started any more".to_owned());
        }
        if table.runs.iter().filter(|run| run.state == State::Waiting).count() >= WAITING {
            return Err(format!(
                "{WAITING} campaigns wait already; take one out of the queue, or wait until one is done"
            ));
        }
        table.next += 1;
        let number = table.next;
        let all: Vec<String> = self.shared.iter().chain(&words).cloned().collect();
        table.runs.push_back(Run {
            number,
            plan: plan.to_owned(),
            command: typed(&all),
            words: all,
            input,
            by: by.to_owned(),
            state: State::Waiting,
            watched: Watched::default(),
            log: VecDeque::new(),
            version: 0,
            heard: None,
        });
        let over = |run: &Run| matches!(run.state, State::Ended(_) | State::Cancelled);
        while table.runs.iter().filter(|run| over(run)).count() > REMEMBERED {
            let Some(at) = table.runs.iter().position(over) else { break };
            table.runs.remove(at);
        }
        self.start_next(&mut table);
        Ok(number)
    }

    /// Asks it to end, or takes it out of the queue. A sentence of what was done; `None`: there is no such campaign.
    pub(super) fn stop(&self, number: u64) -> Option<&'static str> {
        let mut table = self.table.0.lock();
        let run = table.runs.iter_mut().find(|run| run.number == number)?;
        run.version += 1;
        match run.state {
            State::Waiting => run.state = State::Cancelled,
            State::Running(process) => {
                ask_to_end(process);
                run.state = State::Ending(process);
            }
            State::Ending(_) => return Some("It was asked to end already; settings are being put back."),
            State::Ended(_) | State::Cancelled => return Some("It has ended already."),
        }
        Some("It was asked to end: settings are put back, and what was measured is kept.")
    }

    /// Looks at all of them, oldest first.
    pub(super) fn look<T>(&self, with: impl FnOnce(&VecDeque<Run>) -> T) -> T {
        with(&self.table.0.lock().runs)
    }

    /// Looks at one.
    pub(super) fn of_number<T>(&self, number: u64, with: impl FnOnce(&Run) -> T) -> Option<T> {
        self.table.0.lock().runs.iter().find(|run| run.number == number).map(with)
    }

    /// How many settings could not be put back by those that were started here.
    pub(super) fn not_put_back(&self) -> u64 {
        self.table.0.lock().not_put_back
    }

    /// Ends all, and waits until settings are put back.
    pub(super) fn end(&self, say: &dyn Fn(&str)) {
        let mut table = self.table.0.lock();
        table.is_over = true;
        table.runs.iter_mut().filter(|run| run.state == State::Waiting).for_each(|run| run.state = State::Cancelled);
        let mut is_said = false;
        let deadline = Instant::now() + END_TIME;
        loop {
            let mut process = None;
            for run in &mut table.runs {
                match run.state {
                    State::Running(one) => {
                        ask_to_end(one);
                        run.state = State::Ending(one);
                        process = Some(one);
                    }
                    State::Ending(one) => process = Some(one),
                    _ => {}
                }
            }
            let Some(process) = process else { return };
            if !std::mem::replace(&mut is_said, true) {
                say("linerate: the campaign that runs is asked to end; its settings are put back first");
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                say(&format!("linerate: process {process} has not ended within {} s; it goes on", END_TIME.as_secs()));
                return;
            }
            table = self.table.1.wait_timeout(table, left);
        }
    }

    fn start_next(&self, table: &mut Table) {
        start_next(&self.table, table);
    }
}

type Shared = Arc<(Mutex<Table>, Condvar)>;

/// Starts the campaign that waits longest, unless one runs.
fn start_next(shared: &Shared, table: &mut Table) {
    let is_busy = table.runs.iter().any(|run| matches!(run.state, State::Running(_) | State::Ending(_)));
    if is_busy || table.is_over {
        return;
    }
    while let Some(run) = table.runs.iter_mut().find(|run| run.state == State::Waiting) {
        run.version += 1;
        match started(&run.words, run.input.take()) {
            Ok(child) => {
                run.state = State::Running(child.id());
                let (shared, number) = (Arc::clone(shared), run.number);
                thread::spawn(move || follow(&shared, number, child));
                return;
            }
            Err(error) => run.state = State::Ended(Some(format!("it could not be started: {error}"))),
        }
    }
}

fn started(words: &[String], input: Option<String>) -> std::io::Result<Child> {
    // The program that runs, also when its file was replaced meanwhile.
    let mut command = Command::new("/proc/self/exe");
    command.arg0("linerate").args(words).args(["--events", "-"]);
    // A group of its own: Ctrl-C at the server's terminal comes through the server, and once.
    command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() }).spawn()?;
    if let Some((text, mut stdin)) = input.zip(child.stdin.take()) {
        // A thread of its own: a pipe may hold less than a plan. A campaign that does not read it says why itself.
        thread::spawn(move || drop(stdin.write_all(text.as_bytes())));
    }
    Ok(child)
}

/// Hears a campaign to its end.
fn follow(shared: &Shared, number: u64, mut child: Child) {
    let change = |with: &mut dyn FnMut(&mut Run)| {
        let mut table = shared.0.lock();
        if let Some(run) = table.runs.iter_mut().find(|run| run.number == number) {
            with(run);
            run.version += 1;
        }
    };
    thread::scope(|scope| {
        if let Some(stderr) = child.stderr.take() {
            scope.spawn(move || {
                for line in child_lines(stderr, LINE) {
                    change(&mut |run| {
                        if run.log.len() == LOG {
                            run.log.pop_front();
                        }
                        run.log.push_back(in_line(&String::from_utf8_lossy(&line), LOG_LINE).into_owned());
                    });
                }
            });
        }
        if let Some(stdout) = child.stdout.take() {
            for line in child_lines(stdout, LINE) {
                // Another version's events are none of ours.
                let Ok(event) = serde_json::from_slice::<CampaignEvent>(&line) else { continue };
                if let CampaignEvent::Ended { not_put_back, .. } = &event {
                    let mut table = shared.0.lock();
                    table.not_put_back += *not_put_back as u64;
                }
                let mut event = Some(event);
                change(&mut |run| {
                    if let Some(event) = event.take() {
                        let now = Instant::now();
                        run.watched.hear(event, now);
                        run.heard = Some(now);
                    }
                });
            }
        }
    });
    // Its number may be another process's as soon as it is reaped: so nobody may ask it to end between that and the table.
    let (mut table, status) = loop {
        let table = shared.0.lock();
        match child.try_wait() {
            Ok(Some(status)) => break (table, Ok(status)),
            Ok(None) => drop(table),
            Err(error) => break (table, Err(error)),
        }
        // Both its pipes are closed: it ends now.
        thread::sleep(Duration::from_millis(5));
    };
    if let Some(run) = table.runs.iter_mut().find(|run| run.number == number) {
        // 1 is a judgement: what was measured is whole.
        let is_done = status.as_ref().is_ok_and(|status| matches!(status.code(), Some(0 | 1)));
        let why = (!is_done).then(|| {
            let told = run.watched.outcome.as_ref().and_then(|outcome| outcome.error.clone());
            told.or_else(|| run.log.back().cloned()).unwrap_or_else(|| "it ended early".to_owned())
        });
        if let Some(why) = &why {
            run.watched.broke_off(why);
        }
        run.state = State::Ended(why);
        run.version += 1;
    }
    start_next(shared, &mut table);
    shared.1.notify_all();
}

/// As a shell takes it.
fn typed(words: &[String]) -> String {
    let words = words.iter().map(|word| shell_word(word));
    std::iter::once("linerate".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_can_be_typed() {
        let words = ["run", "tcp", "--set", "note=it's", ""].map(str::to_owned);
        assert_eq!(typed(&words), "linerate run tcp --set 'note=it'\\''s' ''");
    }
}
