//! Changes settings so that they are put back, whatever becomes of this process.
//! Knows no controller and no time: who asks says when it has ended.
//!
//! ```text
//!   agent ──first change──→ journal: what it was            (on disk before the setting is touched)
//!     │                        ↑ read by …
//!     ├──── ends in order ─────┤ the agent itself
//!     ├──── is killed ─────────┤ the watchdog, which sees the end of its pipe
//!     └──── both are killed ───┘ the next agent of this machine, before it does anything else
//! ```

mod fencing;
mod journal;
mod journal_files;
mod location;
mod namespace;
mod put_back;
mod recovery;
mod watch;

use std::io;

use linerate_machine::change::{CUSTOM, Change, Changed, Custom, PutBack, Reading};
use linerate_machine::setting::{self, overlap};

use crate::settings::Settings;
use journal::{Entry, Journal, Journals, SettingHolder};
use location::{Location, LocationError};
use watch::Watchdog;

pub use fencing::{FenceError, Passed, pass};
pub use recovery::{Recovery, recover};
pub use watch::watch;

/// Changes settings, and puts them back at the latest when it is dropped.
#[derive(Debug)]
pub struct Guard {
    /// What the watchdog's command line begins with.
    program: Vec<String>,
    held: Option<Held>,
    /// Changes that nobody has confirmed yet, with the values before them.
    unconfirmed: Option<Vec<(Location, String)>>,
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
        "no setting is changed, because its journal cannot be written ({0}); make room or make it writable, or name another folder in LINERATE_JOURNALS"
    )]
    Journal(io::Error),
    /// Another agent reads what a setting is, and does not end.
    #[error(
        "no setting is changed, because another agent on this machine has been about to change one for {0} s; see whether \
         it hangs, and try again"
    )]
    Busy(u64),
    /// Nobody would put it back.
    #[error(
        "no setting is changed, because its watchdog cannot be started ({0}); see the limits of this machine (ulimit -u)"
    )]
    Watchdog(io::Error),
    /// Another agent of this machine has changed the same.
    #[error(
        "{name} is changed by another agent on this machine (process {process}, of {by}), which will put it back; set it \
         at one end only, or wait until that one has ended"
    )]
    Held {
        /// The setting.
        name: String,
        /// The other agent's user.
        by: String,
        /// The other agent.
        process: u32,
    },
    /// Two names of one thing.
    #[error("{0}")]
    Overlap(overlap::Overlap),
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
            let settings = location::settings(interface, custom, name);
            let (value, error) = match settings.get(name) {
                Ok(value) => {
                    let wanted = values.get(at).filter(|wanted| **wanted != value);
                    let check = |wanted: &String| {
                        settings.check(name, wanted).and_then(|()| Settings::check_original(name, &value))
                    };
                    let error = wanted.and_then(|wanted| check(wanted).err());
                    (Some(value), error)
                }
                Err(error) => (None, Some(error)),
            };
            Reading { name: name.clone(), value, error: error.map(|error| error.to_string()) }
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
        let last = self.held.as_ref().map_or(0, |held| held.journal.last());
        let mut before = Vec::new();
        match self.change_all(interface, changes, by, &mut before) {
            Ok(changed) => {
                if to_confirm {
                    self.unconfirmed = Some(before);
                    self.generation += 1;
                }
                Ok(changed)
            }
            Err(error) => {
                undo(&before);
                self.forget_since(last);
                Err(error)
            }
        }
    }

    fn change_all(
        &mut self,
        interface: Option<&str>,
        changes: &[Change],
        by: &str,
        before: &mut Vec<(Location, String)>,
    ) -> Result<Vec<Changed>, GuardError> {
        let mut all: Vec<(&Change, Location)> = Vec::new();
        for change in changes {
            let Change { name, custom, .. } = change;
            if custom.is_some() != name.starts_with(CUSTOM) {
                let sentence = format!("{name}: settings of one's own begin with {CUSTOM}, and no other; rename it");
                return Err(GuardError::Setting(sentence));
            }
            all.push((change, Location::of(interface, name, custom.as_ref())?));
        }
        self.check_overlap(&all)?;
        let (mut originals, mut groups) = (Vec::new(), Vec::new());
        for (at, (_, location)) in all.iter().enumerate() {
            // What a driver takes in one request is written when the first of it has its turn.
            let request = location.request();
            let is_with = |(_, other): &&(&Change, Location)| request.is_some() && other.request() == request;
            if all[..at].iter().any(|one| is_with(&one)) {
                continue;
            }
            let rest = all[at + 1..].iter().filter(is_with);
            let group: Vec<_> = all[at..=at].iter().chain(rest).collect();
            originals.extend(self.change(interface, &group, by, before)?);
            let read: Vec<_> = group.iter().map(|(_, location)| location.read().ok()).collect();
            groups.push((group, read));
        }
        // A later change may have undone an earlier one, as channels that are made anew forget their CPUs.
        for (group, read) in groups {
            let undone = group.into_iter().zip(read).filter(|((change, location), read)| {
                let now = location.read().ok();
                let is_so = |now: &String| setting::agrees(&change.name, &change.value, now);
                now != *read && !now.is_some_and(|now| is_so(&now))
            });
            let undone: Vec<(&Location, &str)> =
                undone.map(|((change, location), _)| (location, change.value.as_str())).collect();
            Location::write_together(&undone)?;
        }
        let original = |name: &str| originals.iter().find(|(of, _)| *of == name).map(|(_, original)| original.clone());
        let mut changed = Vec::new();
        for (change, location) in &all {
            let read_back = location.read().ok();
            if let Some(held) = &mut self.held {
                held.journal.remember(location, read_back.as_deref());
            }
            changed.push(Changed {
                name: change.name.clone(),
                asked: change.value.clone(),
                set: Some(change.value.clone()),
                read_back,
                original: original(&change.name),
            });
        }
        Ok(changed)
    }

    /// Sees that no two of the changes, nor one and what is set already, are of one thing.
    fn check_overlap(&self, changes: &[(&Change, Location)]) -> Result<(), GuardError> {
        let set = self.held.iter().flat_map(|held| held.journal.entries());
        let set = set.filter(|entry| entry.asked).map(|entry| &entry.location);
        let all: Vec<&Location> = changes.iter().map(|(_, location)| location).chain(set).collect();
        let mut pairs = changes.iter().flat_map(|(_, one)| all.iter().map(move |other| (one, *other)));
        let overlap = pairs.find_map(|(one, other)| {
            let is_one = one.interface.is_none() || other.interface.is_none() || one.is_beside(other);
            overlap::between(&one.name, &other.name).filter(|_| is_one)
        });
        overlap.map_or(Ok(()), |overlap| Err(GuardError::Overlap(overlap)))
    }

    /// Makes changes that are one request, or one that is alone. Returns names and originals.
    fn change<'c>(
        &mut self,
        interface: Option<&str>,
        group: &[&(&'c Change, Location)],
        by: &str,
        before: &mut Vec<(Location, String)>,
    ) -> Result<Vec<(&'c str, String)>, GuardError> {
        let mut missing: Vec<&(&Change, Location)> = Vec::new();
        for &one in group {
            let (Change { name, value, custom }, location) = one;
            let settings = location::settings(interface, custom.as_ref(), name);
            // What began with the value of before would be taken for as it was.
            if let Some(entry) = self.held.as_ref().and_then(|held| held.journal.entry_of(location)) {
                put_back::of_new_interfaces(entry);
            }
            // What is there already is left alone: to write it again may reload the link. It may be there because another
            // agent has made it so, by another of its names.
            let stands = setting::stands(name, value, &location.read()?);
            let dependants = match stands {
                true => settings.parts(name),
                false => settings.dependants(name, value).map_err(LocationError::from)?,
            };
            missing.extend((!stands).then_some(one));
            for dependant in dependants {
                let other = Location::of(dependant.interface.as_deref(), &dependant.name, None)?;
                if group.iter().any(|(_, location)| location.is_same(&other)) {
                    continue;
                }
                let noted = self.note(&other, by, Some(name)).map_err(|error| match error {
                    GuardError::Held { name: held, by, process } => {
                        GuardError::Held { name: format!("{held}, which changes with {name},"), by, process }
                    }
                    error => error,
                })?;
                before.push((other, noted.now));
            }
        }
        let mut originals = Vec::new();
        for (change, location) in group {
            let Noted { now, original } = self.note(location, by, None)?;
            originals.push((change.name.as_str(), original));
            // Also where the machine refuses: it may have changed something before it did.
            before.push((location.clone(), now));
        }
        Location::write_together(
            &missing.iter().map(|(change, location)| (location, change.value.as_str())).collect::<Vec<_>>(),
        )?;
        Ok(originals)
    }

    /// Reads a setting, and sees that what it was before the first change is in the journal. Only then may it be
    /// changed. `with`: it changes with this one, and nobody asked for it.
    fn note(&mut self, location: &Location, by: &str, with: Option<&str>) -> Result<Noted, GuardError> {
        if let Some(entry) = self.held.as_ref().and_then(|held| held.journal.entry_of(location)) {
            let original = entry.original.clone();
            self.journal(by)?.note_again(location, with).map_err(GuardError::Journal)?;
            return Ok(Noted { now: location.read()?, original });
        }
        let journals = Journals::of_user().map_err(GuardError::Journal)?;
        // Until it is in the journal: another agent would take what this one changes for the original.
        let _lock = journals.lock()?;
        let own = self.held.as_ref().map(|held| held.journal.path.clone());
        let left = match journals.claim(own.as_deref(), location) {
            SettingHolder::Held(by, process) => {
                return Err(GuardError::Held { name: location.name.clone(), by, process });
            }
            SettingHolder::Left(journal, entry) => Some((journal, entry)),
            SettingHolder::Free => None,
        };
        let now = location.read()?;
        let original = left.as_ref().map_or(&now, |(_, entry)| &entry.original).clone();
        Settings::check_original(&location.name, &original).map_err(LocationError::from)?;
        self.journal(by)?.note(location, &original, with).map_err(GuardError::Journal)?;
        if let Some((mut theirs, entry)) = left {
            theirs.strike(&entry);
        }
        Ok(Noted { now, original })
    }

    /// The journal, watched over: both are made with the first change, and a watchdog that is gone is replaced.
    fn journal(&mut self, by: &str) -> Result<&mut Journal, GuardError> {
        if !self.held.as_mut().is_some_and(|held| held.watchdog.watches()) {
            let journal = match self.held.take() {
                Some(held) => held.journal,
                None => Journals::of_user().and_then(|all| all.create(by)).map_err(GuardError::Journal)?,
            };
            let path = journal.path.clone();
            let watchdog = match Watchdog::start(&self.program, &path) {
                Ok(watchdog) => watchdog,
                Err(error) => {
                    // Nothing is noted in a new one; an older one stays for the next agent, with its settings put back.
                    let mut journal = journal;
                    put_back::put_back(&mut journal, |_| true);
                    if journal.entries().is_empty() {
                        journal.delete();
                    }
                    return Err(GuardError::Watchdog(error));
                }
            };
            self.held = Some(Held { journal, watchdog });
        }
        Ok(&mut self.held.as_mut().expect("it was made just now").journal)
    }

    /// What was noted since this number for changes that were undone is not set, unless that failed.
    fn forget_since(&mut self, last: u32) {
        let Some(held) = &mut self.held else { return };
        let new = held.journal.entries().iter().filter(|entry| entry.number > last);
        let undone = new.filter(|entry| entry.location.read().is_ok_and(|now| now == entry.original));
        for entry in undone.cloned().collect::<Vec<Entry>>() {
            held.journal.strike(&entry);
        }
    }

    /// Whether somebody asked for a setting of this name, and it is not put back yet.
    pub fn holds(&self, name: &str) -> bool {
        let entries = self.held.iter().flat_map(|held| held.journal.entries());
        entries.into_iter().any(|entry| entry.asked && entry.location.name == name)
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
            if held.journal.entries().is_empty() {
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
        let told = match names {
            [] => put_back::told(put_back::put_back(&mut held.journal, |_| true)),
            _ => {
                let (ended, stays) = held.journal.release(names);
                let mut told = put_back::put_back(&mut held.journal, |entry| ended.contains(&entry.number));
                // What changes with others that are still set is put back as far as those allow, and stays noted.
                let others: Vec<&Entry> =
                    held.journal.entries().iter().rev().filter(|entry| stays.contains(&entry.number)).collect();
                let values: Vec<_> = others.iter().map(|one| (&one.location, one.original.as_str())).collect();
                let results = put_back::values(&values);
                let named = others.into_iter().zip(results).filter(|(one, _)| names.contains(&one.location.name));
                told.extend(named.map(|(entry, result)| (Entry { asked: true, ..entry.clone() }, result)));
                put_back::told(told)
            }
        };
        if held.journal.entries().is_empty()
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

/// A setting as it is, and as it was before the first change.
struct Noted {
    now: String,
    original: String,
}

impl From<LocationError> for GuardError {
    fn from(error: LocationError) -> GuardError {
        GuardError::Setting(error.to_string())
    }
}

/// Gives what was changed its value of before, the last change first. What fails is still in the journal.
fn undo(before: &[(Location, String)]) {
    put_back::values(&before.iter().rev().map(|(location, value)| (location, value.as_str())).collect::<Vec<_>>());
}

/// Puts back what was changed to stay ([`Guard::keep`]) in this network namespace, or on the machine as a whole; the
/// last change first.
pub fn restore_kept() -> Vec<PutBack> {
    let Ok(journals) = Journals::of_user() else { return Vec::new() };
    // Until all is put back: an agent would take what is about to go for the original.
    let lock = journals.lock();
    let mut told = Vec::new();
    for mut journal in journals.kept() {
        let mut refused: Vec<(Entry, String)> = Vec::new();
        for entry in journal.entries().iter().filter(|entry| entry.location.is_here()) {
            match (&lock, journals.claim(None, &entry.location)) {
                (Err(error), _) => refused.push((entry.clone(), error.to_string())),
                (Ok(_), SettingHolder::Held(by, process)) => {
                    let name = entry.location.name.clone();
                    refused.push((entry.clone(), GuardError::Held { name, by, process }.to_string()));
                }
                // What was to be put back to is itself a change, which this puts back.
                (Ok(_), SettingHolder::Left(mut theirs, change)) => theirs.strike(&change),
                (Ok(_), SettingHolder::Free) => {}
            }
        }
        let is_wanted = |entry: &Entry| entry.location.is_here() && !refused.iter().any(|(other, _)| other == entry);
        told.extend(put_back::told(put_back::put_back(&mut journal, is_wanted)));
        told.extend(refused.into_iter().map(|(entry, error)| entry.put_back(Some(error))));
        if journal.entries().is_empty() {
            journal.delete();
        }
    }
    told
}

/// What is changed to stay, each with its value before the first change: (name, original); of settings that belong to an
/// interface, those of this one, or of all where none is given.
pub fn kept(interface: Option<&str>) -> Vec<(String, String)> {
    // The newest comes first; of one setting the oldest counts.
    let mut kept: Vec<Entry> = Vec::new();
    let entries = Journals::of_user().map(|journals| journals.kept_entries()).unwrap_or_default();
    for entry in entries.into_iter().filter(|entry| entry.asked && entry.location.is_here()) {
        kept.retain(|other| other.location.name != entry.location.name || !other.location.is_beside(&entry.location));
        kept.push(entry);
    }
    let is_its = |entry: &Entry| interface.is_none() || entry.location.is_of(interface);
    kept.into_iter().filter(is_its).map(|entry| (entry.location.name, entry.original)).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use linerate_machine::change::Access;

    use super::*;

    #[test]
    fn what_could_not_be_written_again_is_not_touched() {
        let path = std::env::temp_dir().join(format!("guard-original-{}", std::process::id()));
        let file = || Access::File(path.to_str().unwrap().to_owned());
        let words = |text: &[&str]| Access::Command(text.iter().map(|word| (*word).to_owned()).collect());
        let name = "custom.it".to_owned();
        for (original, contains) in [
            ("a".repeat(5000), "4000 bytes at most, and this one has 5000"),
            ("a".repeat(70_000), "64 KiB or more"),
            ("7\0".to_owned(), "one line, without a NUL"),
            ("7\n8\n".to_owned(), "several lines"),
            (" \n".to_owned(), "told nothing"),
        ] {
            for get in [file(), words(&["cat", path.to_str().unwrap()])] {
                fs::write(&path, &original).unwrap();
                let change =
                    Change { name: name.clone(), value: "5".to_owned(), custom: Some(Custom { get, set: file() }) };
                let own = [(name.clone(), change.custom.clone().unwrap())];
                let read = Guard::get(None, std::slice::from_ref(&name), &own, &["5".to_owned()]).remove(0);
                let error = Guard::new(&[]).set(None, &[change], "somebody", false).unwrap_err().to_string();
                assert_eq!(read.error, Some(error.clone()), "it is known before");
                let is_said = error.contains(contains) || error.contains("printed more than a value");
                assert!(is_said && error.len() < 300, "{error}");
                assert_eq!(fs::read_to_string(&path).unwrap(), original);
            }
        }
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn what_somebody_else_made_of_a_setting_is_told() {
        let folder = std::env::temp_dir().join(format!("guard-found-{}", std::process::id()));
        fs::create_dir_all(folder.join("journals")).unwrap();
        let (journals, path) = (Journals::in_folder(folder.join("journals")), folder.join("word"));
        let file = Access::File(path.to_str().unwrap().to_owned());
        let word = Location::of(None, "custom.word", Some(&Custom { get: file.clone(), set: file })).unwrap();
        for (now, found) in [("one", None), ("two", Some("two")), ("zero", None)] {
            let mut journal = journals.create("ann").unwrap();
            journal.note(&word, "zero", None).unwrap();
            journal.remember(&word, Some("one"));
            journal.keep().unwrap();
            drop(journal);
            fs::write(&path, now).unwrap();
            let mut again = journals.kept().remove(0);
            let told = put_back::told(put_back::put_back(&mut again, |_| true)).remove(0);
            assert_eq!((told.found.as_deref(), &told.error), (found, &None), "{now}");
            let sentence = "custom.word is zero again; it was found to be two, which is not what it had been set to";
            assert_eq!(told.sentence() == sentence, found.is_some(), "{}", told.sentence());
            assert_eq!(fs::read_to_string(&path).unwrap(), "zero");
            again.delete();
        }
        fs::remove_dir_all(&folder).unwrap();
    }
}
