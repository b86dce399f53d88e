//! A command that resets the device under test while a trial runs: begun once, and seen to its end.
//! Knows no traffic; what was lost meanwhile, the trial says.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use linerate_host::command::{Children, run};

use super::error::TrialError;
use crate::interrupt;

/// How long a command may take after the trial has ended.
const GRACE: Duration = Duration::from_secs(10);

/// The command of a trial.
pub(crate) struct Reset {
    command: String,
    after: Duration,
    running: Option<Running>,
}

struct Running {
    thread: JoinHandle<Result<(), String>>,
    is_over: Arc<AtomicBool>,
}

impl Reset {
    /// A command that is to be run when the trial has been going for so long.
    pub(crate) fn new(command: &str, after: Duration) -> Reset {
        Reset { command: command.to_owned(), after, running: None }
    }

    /// The trial has been going for so long.
    pub(crate) fn handle_elapsed(&mut self, elapsed: Duration, longest: Duration) {
        if self.running.is_some() || elapsed < self.after {
            return;
        }
        let words: Vec<String> = ["sh", "-c", &self.command].map(str::to_owned).to_vec();
        let is_over = Arc::new(AtomicBool::new(false));
        let stop = is_over.clone();
        let thread = thread::spawn(move || {
            let is_unwanted = || stop.load(Ordering::Relaxed) || interrupt::requested();
            // A switch of the power supply may have left something running on purpose.
            match run(&words, &[], Children::Stay, longest + GRACE, is_unwanted) {
                Ok(ended) if ended.status.success() => Ok(()),
                Ok(ended) => {
                    let complaint = ended.complaint().map_or(String::new(), |said| format!(": {said}"));
                    Err(format!("ended with {}{complaint}", ended.status))
                }
                Err(error) => Err(error.to_string()),
            }
        });
        self.running = Some(Running { thread, is_over });
    }

    /// Waits for its end. The error says why the device was not reset.
    pub(crate) fn finish(mut self) -> Result<(), TrialError> {
        let refused = |why: &str| {
            let command = &self.command;
            TrialError::Refused(format!("the device was not reset: '{command}' {why}; check the command by hand"))
        };
        let Some(Running { thread, .. }) = self.running.take() else {
            return Err(refused("was not run, for the trial ended before its time"));
        };
        match thread.join() {
            Ok(Ok(())) => Ok(()),
            Ok(Err(why)) => Err(refused(&why)),
            Err(_) => Err(refused("cannot be run")),
        }
    }
}

impl Drop for Reset {
    fn drop(&mut self) {
        if let Some(Running { thread, is_over }) = self.running.take() {
            is_over.store(true, Ordering::Relaxed);
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(command: &str) -> Result<(), String> {
        let mut reset = Reset::new(command, Duration::from_millis(10));
        reset.handle_elapsed(Duration::from_millis(5), GRACE);
        assert!(reset.running.is_none());
        reset.handle_elapsed(Duration::from_millis(10), GRACE);
        reset.handle_elapsed(Duration::from_millis(20), GRACE);
        reset.finish().map_err(|error| error.to_string())
    }

    #[test]
    fn a_command_is_run_once_and_its_failure_is_a_sentence() {
        assert_eq!(ran("true"), Ok(()));
        let sentence = ran("echo no power >&2; exit 3").unwrap_err();
        assert!(sentence.contains("exit 3' ended with exit status: 3: no power; check"), "{sentence}");
        let early = Reset::new("true", Duration::from_secs(1)).finish().unwrap_err().to_string();
        assert!(early.contains("'true' was not run"), "{early}");
        // One that nobody waits for is ended.
        let mut long = Reset::new("sleep 60", Duration::ZERO);
        long.handle_elapsed(Duration::ZERO, GRACE);
        drop(long);
    }
}
