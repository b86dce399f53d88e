//! The settings part of a conversation: read, changed, confirmed, put back.
//! Knows no setting; [`linerate_host::guard`] changes them and puts them back.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use linerate_control::message::{RefusalKind, Reply};
use linerate_host::guard::{self, Guard, GuardError};
use linerate_trial::change::{CUSTOM, Change, Custom};

use crate::session::Refusal;

/// Whether a controller may have its own commands run, and its own files written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commands {
    /// It reached this machine by a way that runs commands anyway, or this machine's owner said so.
    Allowed,
    /// It has a key to measure with, and no more.
    Refused,
}

/// The settings that one conversation has changed.
pub(crate) struct SettingsOf {
    guard: Arc<Mutex<Guard>>,
    commands: Commands,
    /// Dropped when nothing waits to be confirmed any more.
    timer: Option<mpsc::Sender<()>>,
    /// Who changes them, for those who find them changed.
    pub(crate) by: String,
}

/// Shorter than this nobody can confirm; longer, the silence of the controller ends the conversation first.
const CONFIRM_TIME: std::ops::RangeInclusive<f64> = 0.05..=8.0;

impl SettingsOf {
    /// `program` is how the user called this program, such as `linerate agent`.
    pub(crate) fn new(program: &str, commands: Commands) -> SettingsOf {
        let first: Vec<&str> = program.split_whitespace().skip(1).collect();
        SettingsOf { guard: Arc::new(Mutex::new(Guard::new(&first))), commands, timer: None, by: "somebody".to_owned() }
    }

    pub(crate) fn get(
        &self,
        interface: Option<&str>,
        names: &[String],
        own: &[(String, Custom)],
    ) -> Result<Reply, Refusal> {
        self.allow(!own.is_empty())?;
        Ok(Reply::Settings { settings: Guard::get(interface, names, own), kept: guard::kept() })
    }

    pub(crate) fn set(
        &mut self,
        interface: Option<&str>,
        changes: &[Change],
        confirm_within_s: Option<f64>,
    ) -> Result<Reply, Refusal> {
        self.allow(changes.iter().any(|change| change.custom.is_some()))?;
        let within = match confirm_within_s {
            Some(time) if !CONFIRM_TIME.contains(&time) => {
                let sentence = format!(
                    "confirm_within_s: {time} is not allowed; write {} to {} seconds",
                    CONFIRM_TIME.start(),
                    CONFIRM_TIME.end()
                );
                return Err(Refusal(RefusalKind::BadRequest, sentence));
            }
            time => time.map(Duration::from_secs_f64),
        };
        let mut guard = self.guard.lock().unwrap_or_else(PoisonError::into_inner);
        let settings = guard.set(interface, changes, &self.by, within.is_some()).map_err(refusal)?;
        if let Some(within) = within {
            let (generation, theirs) = (guard.generation(), Arc::clone(&self.guard));
            let (timer, ended) = mpsc::channel::<()>();
            self.timer = Some(timer);
            let roll_back = move || {
                if ended.recv_timeout(within) == Err(RecvTimeoutError::Timeout) {
                    theirs.lock().unwrap_or_else(PoisonError::into_inner).roll_back(generation);
                }
            };
            let timer = std::thread::Builder::new().name("confirm".to_owned()).stack_size(128 << 10).spawn(roll_back);
            if let Err(error) = timer {
                guard.roll_back(generation);
                let sentence = format!("nothing is changed: no thread could be started ({error}); try again");
                return Err(Refusal(RefusalKind::Failed, sentence));
            }
        }
        Ok(Reply::Changed { settings })
    }

    pub(crate) fn confirm(&mut self) -> Result<Reply, Refusal> {
        self.timer = None;
        self.lock().confirm().map(|()| Reply::Done).map_err(refusal)
    }

    pub(crate) fn keep(&mut self) -> Result<Reply, Refusal> {
        self.timer = None;
        self.lock().keep().map(|()| Reply::Done).map_err(refusal)
    }

    pub(crate) fn restore(&mut self, names: &[String], kept: bool) -> Reply {
        self.timer = None;
        let mut settings = self.lock().restore(names);
        if kept {
            settings.extend(guard::restore_kept());
        }
        Reply::Restored { settings }
    }

    /// Puts everything back. What fails is tried again by the watchdog, and by the next agent.
    pub(crate) fn end(&mut self) {
        self.timer = None;
        self.lock().restore(&[]);
    }

    fn allow(&self, has_own: bool) -> Result<(), Refusal> {
        if has_own && self.commands == Commands::Refused {
            let sentence = format!(
                "{CUSTOM}… runs commands and writes files of the controller's, which this agent does not for a key \
                 alone; start it with --allow-commands, or reach it over ssh"
            );
            return Err(Refusal(RefusalKind::Failed, sentence));
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Guard> {
        self.guard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn refusal(error: GuardError) -> Refusal {
    let kind = match error {
        GuardError::Unconfirmed | GuardError::NothingToConfirm => RefusalKind::OutOfOrder,
        _ => RefusalKind::Failed,
    };
    Refusal(kind, error.to_string())
}
