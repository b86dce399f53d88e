//! The settings part of a conversation: read, changed, confirmed, put back.
//! Knows no setting; [`linerate_host::guard`] changes them and puts them back.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use linerate_control::message::{RefusalKind, Reply};
use linerate_host::guard::{self, Guard, GuardError};
use linerate_host::{quiet, scheduling};
use linerate_machine::change::{CUSTOM, Change, Changed, Custom, PutBack, Reading};
use linerate_machine::channel::{Sender, channel};
use linerate_machine::setting::{self, RECEIVER_SCHEDULING, Scheduling};
use linerate_machine::sync::Mutex;

use crate::refusal::Refusal;

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
    /// How the next trials' receiving threads are scheduled. No journal: it ends with them.
    receivers: Arc<Mutex<Option<Scheduling>>>,
    /// What keeps a port silent, by the trials of frames so far.
    silenced: Vec<String>,
    /// Dropped when nothing waits to be confirmed any more.
    timer: Option<Sender<()>>,
    /// Who changes them, for those who find them changed.
    pub(crate) by: String,
}

/// Shorter than this nobody can confirm; longer, the silence of the controller ends the conversation first.
const CONFIRM_TIME: std::ops::RangeInclusive<f64> = 0.05..=8.0;

impl SettingsOf {
    /// `program` is how the user called this program, such as `linerate agent`, and `by` who changes settings.
    pub(crate) fn new(program: &str, commands: Commands, by: &str) -> SettingsOf {
        SettingsOf {
            guard: Arc::new(Mutex::new(Guard::new(&first_arguments(program)))),
            commands,
            receivers: Arc::default(),
            silenced: Vec::new(),
            timer: None,
            by: by.to_owned(),
        }
    }

    pub(crate) fn get(
        &self,
        interface: Option<&str>,
        names: &[String],
        own: &[(String, Custom)],
        values: &[String],
    ) -> Result<Vec<Reading>, Refusal> {
        self.allow(!own.is_empty())?;
        let mut settings = Guard::get(interface, names, own, values);
        if names.is_empty() {
            let after = settings.iter().position(|one| one.name.starts_with("sysctl."));
            settings.insert(after.unwrap_or(settings.len()), self.read_receivers());
        }
        for one in settings.iter_mut().filter(|one| one.name == RECEIVER_SCHEDULING) {
            *one = self.read_receivers();
        }
        Ok(settings)
    }

    fn read_receivers(&self) -> Reading {
        let (value, error) = match self.receivers().map_or_else(scheduling::usual, Ok) {
            Ok(scheduling) => (Some(scheduling.to_string()), None),
            Err(error) => (None, Some(error)),
        };
        Reading { name: RECEIVER_SCHEDULING.to_owned(), value, error }
    }

    /// How a trial's receiving threads are to be scheduled; `None`: nobody has said.
    pub(crate) fn receivers(&self) -> Option<Scheduling> {
        *self.receivers.lock()
    }

    /// Tries out what a thread would get, before anything is changed.
    fn try_receivers(&self, change: &Change) -> Result<(Scheduling, Changed), Refusal> {
        let failed = |why: String| {
            Refusal(RefusalKind::Failed, format!("{RECEIVER_SCHEDULING} cannot be {}: {why}", change.value))
        };
        let canonical = setting::canonical(&change.name, &change.value).map_err(|error| error.to_string());
        let wanted: Scheduling = canonical
            .and_then(|text| text.parse().map_err(|_| "no such class".to_owned()))
            .map_err(|sentence| Refusal(RefusalKind::BadRequest, sentence))?;
        let got = scheduling::try_out(wanted).map_err(failed)?;
        let changed = Changed {
            name: change.name.clone(),
            asked: change.value.clone(),
            set: Some(wanted.to_string()),
            read_back: Some(got.to_string()),
            original: scheduling::usual().ok().map(|usual| usual.to_string()),
        };
        Ok((wanted, changed))
    }

    pub(crate) fn set(
        &mut self,
        interface: Option<&str>,
        changes: &[Change],
        confirm_within_s: Option<f64>,
    ) -> Result<Vec<Changed>, Refusal> {
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
        let (own, changes): (Vec<Change>, Vec<Change>) =
            changes.iter().cloned().partition(|change| change.name == RECEIVER_SCHEDULING);
        let own = own.last().map(|change| self.try_receivers(change)).transpose()?;
        // From now on it is the controller's, which puts it back when it likes.
        self.silenced.retain(|name| !changes.iter().any(|change| change.name == *name));
        let mut guard = self.guard.lock();
        let mut settings = guard.set(interface, &changes, &self.by, within.is_some()).map_err(refusal)?;
        let before = self.receivers();
        if let Some((wanted, changed)) = own {
            *self.receivers.lock() = Some(wanted);
            settings.push(changed);
        }
        if let Some(within) = within {
            let (generation, theirs) = (guard.generation(), Arc::clone(&self.guard));
            let receivers = Arc::clone(&self.receivers);
            let (timer, ended) = channel::<()>(1);
            self.timer = Some(timer);
            let roll_back = move || {
                if ended.recv_timeout(within) == Err(RecvTimeoutError::Timeout) && theirs.lock().roll_back(generation) {
                    *receivers.lock() = before;
                }
            };
            let timer = linerate_machine::thread::start("confirm", 128 << 10, roll_back);
            if let Err(error) = timer {
                guard.roll_back(generation);
                *self.receivers.lock() = before;
                let sentence = format!("nothing is changed: no thread could be started ({error}); try again");
                return Err(Refusal(RefusalKind::Failed, sentence));
            }
        }
        Ok(settings)
    }

    pub(crate) fn confirm(&mut self) -> Result<Reply, Refusal> {
        self.timer = None;
        self.guard.lock().confirm().map(|()| Reply::Done).map_err(refusal)
    }

    pub(crate) fn keep(&mut self) -> Result<Reply, Refusal> {
        self.timer = None;
        if self.receivers().is_some() {
            let sentence = format!(
                "{RECEIVER_SCHEDULING} is of an agent's own threads and ends with them; give it to a run, as --set \
                 target.{RECEIVER_SCHEDULING}=…"
            );
            return Err(Refusal(RefusalKind::Failed, sentence));
        }
        self.guard.lock().keep().map(|()| Reply::Done).map_err(refusal)
    }

    pub(crate) fn restore(&mut self, names: &[String], kept: bool) -> Vec<PutBack> {
        self.timer = None;
        self.silenced.retain(|name| !names.is_empty() && !names.contains(name));
        let mut settings = self.guard.lock().restore(names);
        if names.is_empty() || names.iter().any(|name| name == RECEIVER_SCHEDULING) {
            let was = self.receivers.lock().take();
            settings.extend(was.map(|_| PutBack {
                name: RECEIVER_SCHEDULING.to_owned(),
                interface: None,
                original: scheduling::usual().map_or_else(|_| "other".to_owned(), |usual| usual.to_string()),
                found: None,
                error: None,
            }));
        }
        if kept {
            settings.extend(guard::restore_kept());
        }
        settings
    }

    /// Keeps the interface silent of the kernel's own traffic, as far as it can be, until [`SettingsOf::speak`] or the end of
    /// the conversation. Returns what was changed for it, now or before.
    pub(crate) fn silence(&mut self, interface: &str, local: IpAddr, is_routed: bool) -> Vec<Changed> {
        let mut guard = self.guard.lock();
        let mut silenced = Vec::new();
        for change in quiet::changes(interface, local, is_routed) {
            // What the user asked for stands.
            if guard.holds(&change.name) && !self.silenced.contains(&change.name) {
                continue;
            }
            // What cannot be had, or is another agent's, is done without: frames of others are counted apart.
            if let Ok(changed) = guard.set(Some(interface), std::slice::from_ref(&change), &self.by, false) {
                self.silenced.extend((!self.silenced.contains(&change.name)).then_some(change.name));
                silenced.extend(changed);
            }
        }
        silenced
    }

    /// Puts back what kept ports silent.
    pub(crate) fn speak(&mut self) {
        let names = std::mem::take(&mut self.silenced);
        if !names.is_empty() {
            self.guard.lock().restore(&names);
        }
    }

    /// Puts everything back. What fails is tried again by the watchdog, and by the next agent.
    pub(crate) fn end(&mut self) {
        self.timer = None;
        *self.receivers.lock() = None;
        self.silenced.clear();
        self.guard.lock().restore(&[]);
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
}

/// What this program is called with before its own arguments, such as `agent` in `linerate agent`.
pub(crate) fn first_arguments(program: &str) -> Vec<&str> {
    program.split_whitespace().skip(1).collect()
}

fn refusal(error: GuardError) -> Refusal {
    let kind = match error {
        GuardError::Unconfirmed | GuardError::NothingToConfirm => RefusalKind::OutOfOrder,
        _ => RefusalKind::Failed,
    };
    Refusal(kind, error.to_string())
}
