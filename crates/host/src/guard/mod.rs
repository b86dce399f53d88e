//! Changes settings so that they are put back, whatever becomes of this process.
//! Knows no controller and no time: who asks says when it has ended.
//!
//! ```text
//!   agent ──first change──→ journal: what it was            (on disk before the setting is touched)
//!     │                        ↑ read by …
//!     ├──── ends in order ─────┤ the agent itself
//!     ├──── is killed ─────────┤ the watchdog, which sees the end of its pipe
//!     └──── both are killed ───┘ the next agent of this network namespace, before it does anything else
//! ```

mod journal;
mod put_back;
mod watch;

use std::io;

use linerate_trial::change::{CUSTOM, Change, Changed, Custom, PutBack, Reading};
use linerate_trial::setting;

use crate::settings::Settings;
use journal::{Entry, Journal};
use watch::Watchdog;

pub use watch::watch;

/// Changes settings, and puts them back at the latest when it is dropped.
#[derive(Debug)]
pub struct Guard {
    /// What the watchdog's command line begins with.
    program: Vec<String>,
    held: Option<Held>,
    /// Changes that nobody has confirmed yet, with the values before them.
    unconfirmed: Option<Vec<Entry>>,
    /// Counts the changes that were to be confirmed.
    generation: u64,
}

#[derive(Debug)]
struct Held {
    // The first field: the journal's lock goes before the pipe closes, and a watchdog need not wait for it.
    journal: Journal,
    watchdog: Watchdog,
}

/// Why settings were not changed. What had been changed with the same request is put back.
#[derive(Debug, thiserror::Error)]
pub enum GuardError {
    /// The machine does not take it.
    #[error("{0}")]
    Setting(String),
    /// What a setting was cannot be written down, so it is not touched.
    #[error(
        "no setting is changed, because its journal cannot be written ({0}); make /run writable, or set XDG_RUNTIME_DIR"
    )]
    Journal(io::Error),
    /// Nobody would put it back.
    #[error(
        "no setting is changed, because its watchdog cannot be started ({0}); see the limits of this machine (ulimit -u)"
    )]
    Watchdog(io::Error),
    /// Another agent of this machine has changed the same.
    #[error("another agent on this machine has changed {0}, and will put it back; set it on one end only")]
    Held(String),
    /// The changes before wait to be confirmed.
    #[error("the changes before are not confirmed yet; confirm them first")]
    Unconfirmed,
    /// Nothing waits to be confirmed.
    #[error("nothing waits to be confirmed: it was put back because no word came in time; ask for it again")]
    NothingToConfirm,
}

impl Guard {
    /// A guard whose watchdog is this program, called with `program` and `--watch JOURNAL`.
    pub fn new(program: &[&str]) -> Guard {
        let program = program.iter().map(|word| (*word).to_owned()).collect();
        Guard { program, held: None, unconfirmed: None, generation: 0 }
    }

    /// The settings of this name as they are; every one that the machine has, when none is named. Where there are
    /// `values`, in the names' order, the error of a setting that could not have its value says why.
    pub fn get(interface: Option<&str>, names: &[String], own: &[(String, Custom)], values: &[String]) -> Vec<Reading> {
        let all = if names.is_empty() { Settings::new(interface).names() } else { Vec::new() };
        let names = if names.is_empty() { &all } else { names };
        let reading = |(at, name): (usize, &String)| {
            let custom = own.iter().find(|(other, _)| other == name).map(|(_, custom)| custom);
            let (value, error) = match put_back::read(interface, name, custom) {
                Ok(value) => {
                    let wanted = values.get(at).filter(|wanted| **wanted != value);
                    (Some(value), wanted.and_then(|wanted| put_back::check(interface, name, custom, wanted)))
                }
                Err(error) => (None, Some(error)),
            };
            Reading { name: name.clone(), value, error }
        };
        names.iter().enumerate().map(reading).collect()
    }

    /// Makes these changes in this order, for `by`. All are made, or none. `to_confirm`: they are rolled back by
    /// [`Guard::roll_back`] unless [`Guard::confirm`] comes first.
    pub fn set(
        &mut self,
        interface: Option<&str>,
        changes: &[Change],
        by: &str,
        to_confirm: bool,
    ) -> Result<Vec<Changed>, GuardError> {
        if self.unconfirmed.is_some() {
            return Err(GuardError::Unconfirmed);
        }
        let (mut changed, mut before) = (Vec::new(), Vec::new());
        for change in changes {
            match self.change(interface, change, by, &mut before) {
                Ok(one) => changed.push(one),
                Err(error) => {
                    undo(&before);
                    return Err(error);
                }
            }
        }
        if to_confirm {
            self.unconfirmed = Some(before);
            self.generation += 1;
        }
        Ok(changed)
    }

    fn change(
        &mut self,
        interface: Option<&str>,
        change: &Change,
        by: &str,
        before: &mut Vec<Entry>,
    ) -> Result<Changed, GuardError> {
        let own = change.custom.as_ref();
        if own.is_some() != change.name.starts_with(CUSTOM) {
            let sentence =
                format!("{}: settings of one's own begin with {CUSTOM}, and no other; rename it", change.name);
            return Err(GuardError::Setting(sentence));
        }
        let name = change.name.as_str();
        let interface = put_back::interface_of(interface, name);
        let now = put_back::read(interface, name, own).map_err(GuardError::Setting)?;
        let entry = Entry {
            name: name.to_owned(),
            interface: interface.map(str::to_owned),
            original: now.clone(),
            custom: change.custom.clone(),
        };
        let journal = self.journal(by)?;
        let original = match journal.entries.iter().find(|one| one.is(name, interface)) {
            Some(noted) => noted.original.clone(),
            None if journal.others().iter().any(|one| one.is(name, interface)) => {
                return Err(GuardError::Held(name.to_owned()));
            }
            None => {
                journal.note(entry.clone()).map_err(GuardError::Journal)?;
                now.clone()
            }
        };
        // What is there already is left alone: to write it again may reload the link.
        if !setting::stands(name, &change.value, &now) {
            // Also where the machine refuses: it may have changed something before it did.
            before.push(entry);
            put_back::write(interface, name, own, &change.value).map_err(GuardError::Setting)?;
        }
        Ok(Changed {
            name: name.to_owned(),
            asked: change.value.clone(),
            set: Some(change.value.clone()),
            read_back: put_back::read(interface, name, own).ok(),
            original: Some(original),
        })
    }

    /// The journal, watched over: both are made with the first change, and a watchdog that is gone is replaced.
    fn journal(&mut self, by: &str) -> Result<&mut Journal, GuardError> {
        if !self.held.as_mut().is_some_and(|held| held.watchdog.watches()) {
            let journal = match self.held.take() {
                Some(held) => held.journal,
                None => Journal::create(by).map_err(GuardError::Journal)?,
            };
            let path = journal.path.clone();
            let watchdog = match Watchdog::start(&self.program, &path) {
                Ok(watchdog) => watchdog,
                Err(error) => {
                    // Nothing is noted in a new one; an older one stays for the next agent, with its settings put back.
                    let mut journal = journal;
                    put_back::put_back(&mut journal, |_| true);
                    if journal.entries.is_empty() {
                        journal.delete();
                    }
                    return Err(GuardError::Watchdog(error));
                }
            };
            self.held = Some(Held { journal, watchdog });
        }
        Ok(&mut self.held.as_mut().expect("it was made just now").journal)
    }

    /// The last changes are good.
    pub fn confirm(&mut self) -> Result<(), GuardError> {
        self.unconfirmed.take().map(|_| ()).ok_or(GuardError::NothingToConfirm)
    }

    /// Which changes wait to be confirmed, for [`Guard::roll_back`].
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Takes back the changes of this generation, if nobody has confirmed them; tells whether it did.
    pub fn roll_back(&mut self, generation: u64) -> bool {
        if self.generation == generation
            && let Some(before) = self.unconfirmed.take()
        {
            undo(&before);
            return true;
        }
        false
    }

    /// What is changed stays, also when this process ends, until somebody asks for [`restore_kept`].
    pub fn keep(&mut self) -> Result<(), GuardError> {
        self.unconfirmed = None;
        if let Some(mut held) = self.held.take() {
            if held.journal.entries.is_empty() {
                held.journal.delete();
            } else if let Err(error) = held.journal.keep() {
                self.held = Some(held);
                return Err(GuardError::Journal(error));
            }
        }
        Ok(())
    }

    /// Puts back the settings of these names, or all when none is named. One that fails holds nobody up.
    pub fn restore(&mut self, names: &[String]) -> Vec<PutBack> {
        self.unconfirmed = None;
        let Some(held) = &mut self.held else { return Vec::new() };
        let told = put_back::put_back(&mut held.journal, |entry| names.is_empty() || names.contains(&entry.name));
        if held.journal.entries.is_empty()
            && let Some(Held { journal, watchdog }) = self.held.take()
        {
            journal.delete();
            drop(watchdog);
        }
        told
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // What fails here is tried again by the watchdog, and then by the next agent, which says so.
        self.restore(&[]);
    }
}

/// Gives what was changed its value of before, the last change first. What fails is still in the journal.
fn undo(before: &[Entry]) {
    for entry in before.iter().rev() {
        let _ = put_back::write(entry.interface.as_deref(), &entry.name, entry.custom.as_ref(), &entry.original);
    }
}

/// Puts back what agents have left whose watchdogs are dead as well; a sentence for each of them.
pub fn recover() -> Vec<String> {
    let mut sentences = Vec::new();
    for mut journal in Journal::orphans().into_iter().filter(|journal| !journal.kept) {
        let told: Vec<String> = put_back::put_back(&mut journal, |_| true).iter().map(PutBack::sentence).collect();
        sentences.push(format!(
            "settings that an agent of {} had left changed were put back: {}",
            journal.by,
            told.join("; ")
        ));
        // Also what failed: somebody has been told of it, and would be told again for ever.
        journal.delete();
    }
    sentences
}

/// Puts back what was changed to stay ([`Guard::keep`]), the last change first.
pub fn restore_kept() -> Vec<PutBack> {
    let mut told = Vec::new();
    for mut journal in Journal::orphans() {
        told.extend(put_back::put_back(&mut journal, |_| true));
        if journal.entries.is_empty() {
            journal.delete();
        }
    }
    told
}

/// What is changed to stay, each with its value before the first change: (name, original).
pub fn kept() -> Vec<(String, String)> {
    // The newest comes first; of one name the oldest counts.
    let mut kept: Vec<(String, String)> = Vec::new();
    for entry in Journal::orphans().iter().filter(|journal| journal.kept).flat_map(|journal| &journal.entries) {
        kept.retain(|(name, _)| *name != entry.name);
        kept.push((entry.name.clone(), entry.original.clone()));
    }
    kept
}
