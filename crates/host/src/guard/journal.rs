//! The journals of changed settings: what each setting was, on disk before it is changed.
//! Knows no settings; a journal is read again by the process that puts them back.
//!
//! ```text
//!   /run/linerate/lock                      held for as long as an agent reads what a setting is and notes it
//!   /run/linerate/settings-000001.journal   held (flock(2)) for as long as its agent lives
//!   {"begun":{"format":"linerate.settings/2","boot":"…","process":812,"processes":4026531836,"by":"ann on desk"}}
//!   {"change":{"number":1,"name":"mtu","interface":{"name":"eth0","index":2,"address":"…"},"namespace":"…","original":"1500"}}
//!   {"put-back":1}
//!   "kept"
//! ```
//!
//! All agents of a user share one folder, whatever network namespace they are in: what no namespace owns is noted
//! once, and what a dead agent has left is found by any other.

use std::cmp::Reverse;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use linerate_machine::change::PutBack;
use serde::{Deserialize, Serialize};

use super::GuardError;
use super::journal_files::{JournalFiles, copies, own, user};
use super::location::Location;

const FORMAT: &str = "linerate.settings/2";
/// What was put back is dropped from a journal when it has doubled since, and grown by so much.
const LONG: u64 = 256 << 10;
/// A journal of so many bytes takes no further change.
const LONGEST: u64 = 16 << 20;
/// How long one waits for a journal whose agent is dead: its watchdog is at work.
const WATCHDOG_TIME: Duration = Duration::from_secs(15);
/// How long one waits for an agent that is about to note a setting: to read one may take a command ten seconds.
const LOCK_TIME: Duration = Duration::from_secs(20);

/// A setting and what it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Entry {
    /// Which of its journal.
    pub(super) number: u32,
    #[serde(flatten)]
    pub(super) location: Location,
    pub(super) original: String,
    /// Somebody asked for it; else it was noted because it changes with others.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub(super) asked: bool,
    /// The names of those that it changes with, as far as they are set. Only its own agent puts one back alone.
    #[serde(skip)]
    pub(super) with: Vec<String>,
    /// What was read after the last change that somebody asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) made: Option<String>,
    /// Of what new interfaces begin with: the numbers of those that were there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) there: Vec<u32>,
    /// What it was found to be when it was put back, where that was neither the original nor what was made of it.
    #[serde(skip)]
    pub(super) found: Option<String>,
}

fn yes() -> bool {
    true
}

fn is_yes(asked: &bool) -> bool {
    *asked
}

impl Entry {
    /// What became of it.
    pub(super) fn put_back(self, error: Option<String>) -> PutBack {
        let interface = self.location.interface.map(|interface| interface.name);
        PutBack { name: self.location.name, interface, original: self.original, found: self.found, error }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Line {
    Begun(Begun),
    Change(Box<Entry>),
    PutBack(u32),
    Kept,
}

/// Of which boot a journal speaks, and whose it is.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Begun {
    format: String,
    boot: String,
    process: u32,
    /// The PID namespace in which that number counts.
    processes: u64,
    by: String,
}

/// What a journal says.
#[derive(Debug, Default)]
struct Contents {
    begun: Option<Begun>,
    /// In the order of the changes, without what was put back.
    entries: Vec<Entry>,
    kept: bool,
    /// The number of the last entry.
    last: u32,
    /// Lines that mean nothing to this program; a last one without its end is one of them. That was not acted upon, for the change follows
    /// the line, unless the file was cut short since.
    unreadable: usize,
    /// To the end of the last whole line, in bytes.
    len: u64,
}

/// What is known of a journal's agent by the process that wants to take the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// It may live, and then the journal is its own.
    Unknown,
    /// It ends: its pipe is closed, and its lock will be.
    Ends,
}

/// What became of the attempt to take a journal.
#[derive(Debug)]
pub(super) enum JournalClaim {
    /// It is this process's now, and there is something in it.
    Journal(Box<Journal>),
    /// Its agent lives, or somebody else is putting back what it says.
    Held,
    /// There was nothing to put back.
    Nothing,
    /// Nothing can be put back, and somebody should know: one sentence.
    Lost(String),
}

/// Who holds a setting that is to be changed.
#[derive(Debug)]
pub(super) enum SettingHolder {
    /// Nobody.
    Free,
    /// A dead agent has left it changed, and it could not be put back: this was its original.
    Left(Box<Journal>, Box<Entry>),
    /// An agent that lives, or one that puts it back: by whom, and its process.
    Held(String, u32),
}

/// The folder of one user's journals.
#[derive(Clone, Debug)]
pub(super) struct Journals {
    folder: PathBuf,
}

/// Held while a setting is read and noted, so that no two agents do it at the same time.
#[derive(Debug)]
pub(super) struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // Not by closing it: a process that is being started may have it open, too.
        let _ = self.0.unlock();
    }
}

impl Journals {
    /// Those of this process's user. A folder that is this user's alone, because what is put back from it is done as
    /// this user.
    pub(super) fn of_user() -> io::Result<Journals> {
        let user = user()?;
        let variable = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let candidates = match variable("LINERATE_JOURNALS") {
            Some(folder) => [Some(folder), None, None],
            None => [
                (user == 0).then(|| PathBuf::from("/run/linerate")),
                variable("XDG_RUNTIME_DIR").map(|folder| folder.join("linerate")),
                Some(std::env::temp_dir().join(format!("linerate-{user}"))),
            ],
        };
        let mut refusal = io::Error::other("there is no folder for it");
        for folder in candidates.into_iter().flatten() {
            match own(&folder) {
                Ok(()) => return Ok(Journals { folder }),
                Err(error) => refusal = io::Error::new(error.kind(), format!("{}: {error}", folder.display())),
            }
        }
        Err(refusal)
    }

    /// Where they are.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    #[cfg(test)]
    pub(super) fn in_folder(folder: PathBuf) -> Journals {
        Journals { folder }
    }

    /// Waits until no other agent is about to note a setting.
    pub(super) fn lock(&self) -> Result<Lock, GuardError> {
        let path = self.folder.join("lock");
        let options = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).clone();
        let file = options.open(path).map_err(GuardError::Journal)?;
        let deadline = Instant::now() + LOCK_TIME;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Lock(file)),
                Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(2));
                }
                Err(TryLockError::WouldBlock) => return Err(GuardError::Busy(LOCK_TIME.as_secs())),
                Err(TryLockError::Error(error)) => return Err(GuardError::Journal(error)),
            }
        }
    }

    /// A new journal, the last.
    pub(super) fn create(&self, by: &str) -> io::Result<Journal> {
        let begun = Begun {
            format: FORMAT.to_owned(),
            boot: boot()?,
            process: std::process::id(),
            processes: pid_namespace()?,
            by: by.to_owned(),
        };
        let first = self.numbers()?.last().map_or(1, |(last, _)| last + 1);
        for number in first..first.saturating_add(1000) {
            let path = self.folder.join(format!("settings-{number:06}.{JOURNAL}"));
            let Some(files) = JournalFiles::create(&path)? else { continue };
            let contents = Contents { begun: Some(begun.clone()), ..Contents::default() };
            let mut journal = Journal::new(path, files, contents, begun.clone());
            return match journal.append(&Line::Begun(begun)) {
                Ok(()) => Ok(journal),
                Err(error) => {
                    journal.delete();
                    Err(error)
                }
            };
        }
        Err(io::Error::other("its folder is full of journals"))
    }

    /// Every journal that no living agent holds, the newest first, and a sentence for each that is of no use. What a
    /// watchdog is putting back just now is waited for.
    pub(super) fn orphans(&self) -> (Vec<Journal>, Vec<String>) {
        Journals::take(self.paths())
    }

    /// The journals of what was changed to stay, the newest first.
    pub(super) fn kept(&self) -> Vec<Journal> {
        Journals::take(self.paths().into_iter().filter(|path| read_at(path).kept)).0
    }

    /// What was changed to stay, the last change first.
    pub(super) fn kept_entries(&self) -> Vec<Entry> {
        let boot = boot().unwrap_or_default();
        let journals = self.paths().into_iter().map(|path| read_at(&path));
        let kept =
            journals.filter(|journal| journal.kept && journal.begun.as_ref().is_some_and(|one| one.boot == boot));
        kept.flat_map(|journal| journal.entries.into_iter().rev()).collect()
    }

    fn take(paths: impl IntoIterator<Item = PathBuf>) -> (Vec<Journal>, Vec<String>) {
        let (mut journals, mut lost) = (Vec::new(), Vec::new());
        for path in paths {
            match Journal::adopt(&path, None, Owner::Unknown) {
                JournalClaim::Journal(journal) => journals.push(*journal),
                JournalClaim::Lost(sentence) => lost.push(sentence),
                JournalClaim::Held | JournalClaim::Nothing => {}
            }
        }
        (journals, lost)
    }

    /// Whether another agent than that of `own` has changed this setting, and not to stay. Ask with [`Journals::lock`].
    pub(super) fn claim(&self, own: Option<&Path>, location: &Location) -> SettingHolder {
        for path in self.paths().into_iter().filter(|path| Some(path.as_path()) != own) {
            let holder = |contents: &Contents| {
                let has = !contents.kept && contents.entries.iter().any(|entry| entry.location.is_same(location));
                contents.begun.clone().filter(|begun| has && boot().is_ok_and(|boot| boot == begun.boot))
            };
            if holder(&read_at(&path)).is_none() {
                continue;
            }
            match Journal::adopt(&path, None, Owner::Unknown) {
                // Until it was taken, a watchdog may have put it back.
                JournalClaim::Journal(journal) => {
                    if let Some(entry) = journal.entry_of(location).filter(|_| !journal.kept).cloned() {
                        return SettingHolder::Left(journal, Box::new(entry));
                    }
                }
                JournalClaim::Held => {
                    if let Some(begun) = holder(&read_at(&path)) {
                        return SettingHolder::Held(begun.by, begun.process);
                    }
                }
                JournalClaim::Nothing | JournalClaim::Lost(_) => {}
            }
        }
        SettingHolder::Free
    }

    /// The newest first.
    fn paths(&self) -> Vec<PathBuf> {
        let numbers = self.numbers().unwrap_or_default().into_iter().rev();
        numbers.map(|(_, path)| path).filter(|path| path.extension().is_some_and(|end| end == JOURNAL)).collect()
    }

    /// The files of journals, by number; those whose copy alone is there, too.
    fn numbers(&self) -> io::Result<Vec<(u64, PathBuf)>> {
        let mut numbers = Vec::new();
        let copies = copies(&self.folder).and_then(|folder| fs::read_dir(folder).ok());
        for entry in fs::read_dir(&self.folder)?.chain(copies.into_iter().flatten()) {
            let name = entry?.file_name();
            let number = name.to_str().and_then(|name| name.strip_prefix("settings-")?.split_once('.')?.0.parse().ok());
            numbers.extend(number.map(|number| (number, self.folder.join(name))));
        }
        numbers.sort();
        numbers.dedup();
        Ok(numbers)
    }
}

/// How the name of a journal ends, and that of one which cannot be read, or not all of it.
const JOURNAL: &str = "journal";
const UNREADABLE: &str = "unreadable";

/// A journal that this process holds.
#[derive(Debug)]
pub(super) struct Journal {
    /// What it is called, whether or not it is there any more.
    pub(super) path: PathBuf,
    files: JournalFiles,
    begun: Begun,
    contents: Contents,
    /// Its length when it was written as a whole.
    len_when_written: u64,
    /// Whose changes these are.
    pub(super) by: String,
    /// They stay when the agent ends.
    pub(super) kept: bool,
}

impl Journal {
    fn new(path: PathBuf, files: JournalFiles, contents: Contents, begun: Begun) -> Journal {
        let (by, kept, len_when_written) = (begun.by.clone(), contents.kept, files.len);
        Journal { path, files, begun, contents, len_when_written, by, kept }
    }

    /// Takes the journal at `path`, or `opened` if somebody has deleted it since it was that, if its agent is dead.
    pub(super) fn adopt(path: &Path, opened: Option<&File>, owner: Owner) -> JournalClaim {
        let deadline = Instant::now() + WATCHDOG_TIME;
        loop {
            // Anew each time: it may have been deleted, or written anew.
            let Some(mut files) = JournalFiles::find(path, opened) else { return JournalClaim::Nothing };
            match files.try_lock() {
                Ok(false) => continue,
                Ok(true) => return Journal::taken(path, files, owner),
                Err(TryLockError::WouldBlock) => {
                    let mut is_of_living = || match read(&mut files) {
                        Ok((Contents { begun: Some(begun), .. }, ..)) => begun.is_alive(),
                        _ => true,
                    };
                    if (owner == Owner::Unknown && is_of_living()) || Instant::now() >= deadline {
                        return JournalClaim::Held;
                    }
                    drop(files);
                    std::thread::sleep(Duration::from_millis(2));
                }
                Err(TryLockError::Error(_)) => return JournalClaim::Held,
            }
        }
    }

    fn taken(path: &Path, mut files: JournalFiles, owner: Owner) -> JournalClaim {
        let ((contents, at, said), boot) = match read(&mut files).and_then(|read| Ok((read, boot()?))) {
            Ok(read) => read,
            Err(error) => return JournalClaim::Lost(format!("{} cannot be read ({error})", path.display())),
        };
        let aside = |files: JournalFiles| {
            let (aside, is_at) = (path.with_extension(UNREADABLE), files.path().unwrap_or(path).to_owned());
            // A watchdog has nobody to tell, and leaves it to the next agent.
            match owner == Owner::Unknown && fs::rename(&is_at, &aside).is_ok() {
                true => {
                    files.delete();
                    aside
                }
                false => is_at,
            }
        };
        // Its agent died before it had changed anything, or another version of this program wrote it.
        let Some(begun) = contents.begun.clone() else {
            if contents.unreadable == 0 {
                files.delete();
                return JournalClaim::Nothing;
            }
            return JournalClaim::Lost(format!(
                "what an agent has changed on this machine cannot be put back, because its journal cannot be read; see \
                 {}",
                aside(files).display()
            ));
        };
        if begun.boot != boot {
            let outlives = contents.entries.iter().filter(|entry| entry.location.custom.is_some());
            let outlives: Vec<String> =
                outlives.map(|entry| format!("{} was {}", entry.location.name, entry.original)).collect();
            let had = format!("an agent of {} had changed settings when this machine was restarted", begun.by);
            let known = format!("{had}: {}; see whether they are so again", outlives.join(", "));
            // What cannot be read may have outlived that, too.
            return match (outlives.is_empty(), contents.unreadable == 0) {
                (true, true) => {
                    files.delete();
                    JournalClaim::Nothing
                }
                (false, true) => {
                    files.delete();
                    JournalClaim::Lost(known)
                }
                (is_empty, false) => JournalClaim::Lost(format!(
                    "{}, and not all of its journal can be read; see {}",
                    if is_empty { had } else { known },
                    aside(files).display()
                )),
            };
        }
        if contents.entries.is_empty() && contents.unreadable == 0 {
            files.delete();
            return JournalClaim::Nothing;
        }
        files.go_by(at, &said, contents.len);
        JournalClaim::Journal(Box::new(Journal::new(path.to_owned(), files, contents, begun)))
    }

    /// Where it is, for people.
    pub(super) fn shown(&self) -> std::path::Display<'_> {
        self.files.path().unwrap_or(&self.path).display()
    }

    /// Who has heard what is in it may delete it: there is no copy any more.
    pub(super) fn is_told(&mut self) {
        self.files.drop_copy();
    }

    /// Whether there is nothing in it any more, that cannot be read either: somebody is to hear of such lines.
    pub(super) fn is_spent(&self) -> bool {
        self.contents.entries.is_empty() && self.contents.unreadable == 0
    }

    /// What is to be put back, in the order of the changes.
    pub(super) fn entries(&self) -> &[Entry] {
        &self.contents.entries
    }

    pub(super) fn entry_of(&self, location: &Location) -> Option<&Entry> {
        self.contents.entries.iter().find(|entry| entry.location.is_same(location))
    }

    /// Writes down what a setting was, and `with` which other it changes if nobody asked for it. Only when this has
    /// returned may it be changed.
    pub(super) fn note(&mut self, location: &Location, original: &str, with: Option<&str>) -> io::Result<()> {
        if self.files.len > 2 * self.len_when_written + LONG {
            // Should this fail, the old file has room left; else the old file is empty for a process that still has it open.
            let _ = self.write_anew().and_then(|old| old.set_len(0));
        }
        if self.files.len > LONGEST {
            return Err(io::Error::other(format!("{} is full", self.shown())));
        }
        let number = self.contents.last + 1;
        let with: Vec<String> = with.into_iter().map(str::to_owned).collect();
        let asked = with.is_empty();
        let entry = Entry {
            number,
            location: location.clone(),
            original: original.to_owned(),
            asked,
            with,
            made: None,
            there: location.interfaces_before(),
            found: None,
        };
        self.append(&Line::Change(Box::new(entry.clone())))?;
        self.contents.last = number;
        self.contents.entries.push(entry);
        Ok(())
    }

    /// Writes down that a setting is again what it was, or that it is gone.
    pub(super) fn strike(&mut self, entry: &Entry) {
        self.contents.entries.retain(|one| one.number != entry.number);
        // Should this fail, the setting is put back twice, which changes nothing.
        let _ = self.append(&Line::PutBack(entry.number));
    }

    /// Writes down what a setting that was noted before is now changed for.
    pub(super) fn note_again(&mut self, location: &Location, with: Option<&str>) -> io::Result<()> {
        let Some(entry) = self.contents.entries.iter_mut().find(|entry| entry.location.is_same(location)) else {
            return Ok(());
        };
        match with {
            Some(with) if !entry.with.iter().any(|one| one == with) => entry.with.push(with.to_owned()),
            None if !entry.asked => {
                entry.asked = true;
                let entry = entry.clone();
                self.append(&Line::Change(Box::new(entry)))?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Remembers what was made of a setting; it is written down when it is to stay.
    pub(super) fn remember(&mut self, location: &Location, made: Option<&str>) {
        if let Some(entry) = self.contents.entries.iter_mut().find(|entry| entry.location.is_same(location)) {
            entry.made = made.map(str::to_owned);
        }
    }

    /// The settings of these names are not set any more. Returns the numbers of what is to be put back: theirs, and of
    /// what changes with them. What others are set for, too, is put back and stays noted.
    pub(super) fn release(&mut self, names: &[String]) -> (Vec<u32>, Vec<u32>) {
        let (mut ended, mut stays) = (Vec::new(), Vec::new());
        for entry in &mut self.contents.entries {
            let is_named = entry.asked && names.contains(&entry.location.name);
            let with = entry.with.len();
            entry.with.retain(|one| !names.contains(one));
            let is_dependant = entry.with.len() < with && !entry.asked;
            match entry.with.is_empty() {
                true if is_named || is_dependant => ended.push(entry.number),
                false if is_named || is_dependant => {
                    entry.asked = false;
                    stays.push(entry.number);
                }
                _ => {}
            }
        }
        (ended, stays)
    }

    /// The number of the last entry.
    pub(super) fn last(&self) -> u32 {
        self.contents.last
    }

    /// Writes down that the changes stay when the agent ends.
    pub(super) fn keep(&mut self) -> io::Result<()> {
        let made: Vec<Entry> = self.contents.entries.iter().filter(|entry| entry.made.is_some()).cloned().collect();
        for entry in made {
            self.append(&Line::Change(Box::new(entry)))?;
        }
        self.append(&Line::Kept)?;
        (self.kept, self.contents.kept) = (true, true);
        Ok(())
    }

    /// Puts a copy of what cannot be read beside the journal; a sentence that says where, if there is any.
    pub(super) fn set_unreadable_aside(&mut self) -> Option<String> {
        if self.contents.unreadable == 0 {
            return None;
        }
        let (aside, is_at) = (self.path.with_extension(UNREADABLE), self.files.path().unwrap_or(&self.path).to_owned());
        let lines = if self.contents.unreadable == 1 { "one line" } else { "several lines" };
        // A link takes no room on a disk that is full.
        let is_aside = fs::hard_link(&is_at, &aside).is_ok() && self.write_anew().is_ok();
        Some(format!(
            "{lines} of the journal of an agent of {} cannot be read, so a setting may have stayed changed; see {}",
            self.by,
            if is_aside { aside } else { is_at }.display()
        ))
    }

    /// Deletes the journal: there is nothing to put back.
    pub(super) fn delete(self) {
        self.files.delete();
    }

    /// Writes a line, whole or not at all.
    fn append(&mut self, line: &Line) -> io::Result<()> {
        self.files.append(&text_of(line)?)
    }

    /// Writes the journal as it would be without what was put back, in place of the old one, which this is.
    fn write_anew(&mut self) -> io::Result<File> {
        let mut lines = vec![Line::Begun(self.begun.clone())];
        lines.extend(self.contents.entries.iter().cloned().map(Box::new).map(Line::Change));
        lines.extend(self.kept.then_some(Line::Kept));
        let texts = lines.iter().map(text_of).collect::<io::Result<Vec<_>>>()?;
        let old = self.files.write_anew(&texts.concat())?;
        (self.contents.unreadable, self.len_when_written) = (0, self.files.len);
        Ok(old)
    }
}

fn text_of(line: &Line) -> io::Result<Vec<u8>> {
    let mut text = serde_json::to_vec(line)?;
    text.push(b'\n');
    Ok(text)
}

fn read_at(path: &Path) -> Contents {
    let contents = JournalFiles::find(path, None).and_then(|mut files| read(&mut files).ok());
    contents.map(|(contents, ..)| contents).unwrap_or_default()
}

/// What a journal says by that of its files which says most, which that is, and what each says.
fn read(files: &mut JournalFiles) -> io::Result<(Contents, usize, Vec<Vec<u8>>)> {
    // More than a journal ever has: what puts settings back is written when no further change is.
    let said = files.read(LONGEST * 4)?;
    let all = said.iter().map(|bytes| contents_of(bytes)).enumerate();
    let best = all.max_by_key(|(at, one)| (one.begun.is_some(), one.len, Reverse(one.unreadable), Reverse(*at)));
    let (at, contents) = best.expect("a journal has a file");
    Ok((contents, at, said))
}

fn contents_of(bytes: &[u8]) -> Contents {
    let mut contents = Contents::default();
    for (at, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        if !line.ends_with(b"\n") {
            contents.unreadable += 1;
            continue;
        }
        contents.len += line.len() as u64;
        match serde_json::from_slice(line) {
            Ok(Line::Begun(begun)) if at == 0 && begun.format == FORMAT => contents.begun = Some(begun),
            Ok(Line::Change(entry)) => {
                contents.last = contents.last.max(entry.number);
                match contents.entries.iter_mut().find(|one| one.number == entry.number) {
                    Some(again) => *again = *entry,
                    None => contents.entries.push(*entry),
                }
            }
            Ok(Line::PutBack(number)) => contents.entries.retain(|entry| entry.number != number),
            Ok(Line::Kept) => contents.kept = true,
            Ok(Line::Begun(_)) | Err(_) => contents.unreadable += 1,
        }
    }
    contents
}

impl Begun {
    /// Whether its process runs: not one that waits to be reaped, nor one that is on its way out (the state, and
    /// PF_EXITING among the flags, are fields 3 and 9 in proc_pid_stat(5)).
    fn is_alive(&self) -> bool {
        const PF_EXITING: u32 = 4;
        // Of a container's processes, nothing is known here but that one of them holds the journal.
        if pid_namespace().is_ok_and(|here| here != self.processes) {
            return true;
        }
        let Ok(stat) = fs::read_to_string(format!("/proc/{}/stat", self.process)) else { return false };
        let Some((_, rest)) = stat.rsplit_once(')') else { return false };
        let mut fields = rest.split_whitespace();
        let state = fields.next();
        let flags = fields.nth(5).and_then(|field| field.parse::<u32>().ok()).unwrap_or(0);
        !matches!(state, None | Some("Z" | "X")) && flags & PF_EXITING == 0
    }
}

fn boot() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

fn pid_namespace() -> io::Result<u64> {
    Ok(fs::metadata("/proc/self/ns/pid")?.ino())
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A folder of journals that goes away with the test.
    struct Folder(Journals);

    impl Folder {
        fn new(test: &str) -> Folder {
            let folder = std::env::temp_dir().join(format!("journals-{test}-{}", std::process::id())).join("own");
            fs::create_dir_all(&folder).unwrap();
            Folder(Journals { folder })
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(self.0.folder.parent().unwrap());
        }
    }

    fn copy_of(path: &Path) -> PathBuf {
        copies(path.parent().unwrap()).unwrap().join(path.file_name().unwrap())
    }

    /// Makes of a journal, and of its copy, what `with` does.
    fn rewrite(path: &Path, with: impl Fn(&mut Vec<u8>)) {
        for path in [path, &copy_of(path)] {
            let mut bytes = fs::read(path).unwrap();
            with(&mut bytes);
            fs::write(path, bytes).unwrap();
        }
    }

    /// It is of another boot.
    fn date_back(path: &Path) {
        rewrite(path, |bytes| {
            *bytes = String::from_utf8(bytes.clone()).unwrap().replace(&boot().unwrap(), "another").into_bytes();
        });
    }

    fn location(name: &str) -> Location {
        Location { name: name.to_owned(), interface: None, namespace: None, custom: None }
    }

    #[track_caller]
    fn check(journal: &Journal, want: &[(&str, &str)]) {
        let entries: Vec<(&str, &str)> =
            journal.entries().iter().map(|one| (one.location.name.as_str(), one.original.as_str())).collect();
        assert_eq!(entries, want);
    }

    #[track_caller]
    fn adopt(path: &Path) -> Journal {
        // A process that another test forks just now has the lock too, until it is another program.
        match Journal::adopt(path, None, Owner::Ends) {
            JournalClaim::Journal(journal) => *journal,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_journal_is_read_as_it_was_written() {
        let folder = Folder::new("read");
        let mut journal = folder.0.create("ann").unwrap();
        for (name, original) in [("a", "1"), ("b", "2"), ("c", "3")] {
            journal.note(&location(name), original, None).unwrap();
        }
        let b = journal.entry_of(&location("b")).unwrap().clone();
        journal.strike(&b);
        assert!(matches!(Journal::adopt(&journal.path, None, Owner::Unknown), JournalClaim::Held), "its agent lives");
        assert!(matches!(folder.0.claim(None, &location("a")), SettingHolder::Held(by, _) if by == "ann"));
        assert!(matches!(folder.0.claim(None, &location("b")), SettingHolder::Free));
        assert!(matches!(folder.0.claim(Some(&journal.path), &location("a")), SettingHolder::Free), "it is its own");
        let path = journal.path.clone();
        drop(journal);
        // A line that was cut off by the agent's death, before its copy.
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(br#"{"change":{"name":"d","#).unwrap();
        let mut again = adopt(&path);
        check(&again, &[("a", "1"), ("c", "3")]);
        assert_eq!(again.by, "ann");
        // And what is written after it is no part of it.
        let a = again.entries()[0].clone();
        again.strike(&a);
        assert_eq!(again.set_unreadable_aside(), None);
        drop(again);
        let again = adopt(&path);
        check(&again, &[("c", "3")]);
        assert_eq!(again.contents.unreadable, 0);
        again.delete();
        assert!(!path.exists());
    }

    #[test]
    fn a_journal_of_another_boot_is_deleted_and_what_outlives_a_boot_is_said() {
        use linerate_machine::change::{Access, Custom};
        let folder = Folder::new("boot");
        let file = || Access::File("/etc/turbo".to_owned());
        let custom = Location { custom: Some(Custom { get: file(), set: file() }), ..location("custom.turbo") };
        for (location, said) in [(location("mtu"), None), (custom, Some("custom.turbo was 1"))] {
            let mut journal = folder.0.create("ann").unwrap();
            journal.note(&location, "1", None).unwrap();
            let path = journal.path.clone();
            drop(journal);
            date_back(&path);
            match (Journal::adopt(&path, None, Owner::Unknown), said) {
                (JournalClaim::Nothing, None) => {}
                (JournalClaim::Lost(sentence), Some(said)) => assert!(sentence.contains(said), "{sentence}"),
                other => panic!("{other:?}"),
            }
            assert!(!path.exists() && !copy_of(&path).exists());
        }
        // Nobody knows what stood there, or would have.
        for (has_custom, garbage) in
            [(false, &b"{\"change\":garbage\n"[..]), (true, b"\n"), (true, b"{\"change\":{\"num"), (false, b"\0\0\0")]
        {
            let mut journal = folder.0.create("ann").unwrap();
            if has_custom {
                let custom = Location { custom: Some(Custom { get: file(), set: file() }), ..location("custom.turbo") };
                journal.note(&custom, "1", None).unwrap();
            }
            let path = journal.path.clone();
            drop(journal);
            date_back(&path);
            rewrite(&path, |bytes| bytes.extend_from_slice(garbage));
            let JournalClaim::Lost(sentence) = Journal::adopt(&path, None, Owner::Unknown) else {
                panic!("it is not told")
            };
            assert_eq!(sentence.contains("custom.turbo was 1"), has_custom, "{sentence}");
            let aside = path.with_extension(UNREADABLE);
            assert!(
                sentence.contains("not all of its journal can be read") && sentence.contains(aside.to_str().unwrap())
            );
            assert!(fs::read(&aside).unwrap().ends_with(garbage));
            assert!(!path.exists() && !copy_of(&path).exists());
        }
    }

    /// Who tidies up, or a disk that loses what was written, takes no original along.
    #[test]
    fn the_better_one_of_a_journal_and_its_copy_counts() {
        let folder = Folder::new("copy");
        let all = [("a", "1"), ("b", "2"), ("c", "3")];
        let written = || {
            let mut journal = folder.0.create("ann").unwrap();
            all.iter().for_each(|(name, original)| journal.note(&location(name), original, None).unwrap());
            journal.path.clone()
        };
        type Damage = fn(&Path);
        let damages: [(&str, Damage); 6] = [
            ("nothing", |_| {}),
            ("deleted", |path| fs::remove_file(path).unwrap()),
            ("its folder, too", |path| fs::remove_dir_all(path.parent().unwrap()).unwrap()),
            ("cut short", |path| cut(path, fs::metadata(path).unwrap().len() / 2)),
            ("empty", |path| cut(path, 0)),
            ("a line of it damaged", |path| {
                fs::write(path, fs::read_to_string(path).unwrap().replacen("original", "0riginal", 1)).unwrap();
            }),
        ];
        for (name, damage) in damages {
            for is_copy in [false, true] {
                let path = written();
                damage(&if is_copy { copy_of(&path) } else { path.clone() });
                fs::create_dir_all(&folder.0.folder).unwrap();
                let (mut found, lost) = folder.0.orphans();
                assert_eq!((found.len(), lost), (1, vec![]), "{name}, {is_copy}");
                let mut journal = found.remove(0);
                check(&journal, &all);
                assert_eq!(journal.set_unreadable_aside(), None, "{name}, {is_copy}");
                // What is put back is struck in whatever is there.
                let b = journal.entries()[1].clone();
                journal.strike(&b);
                drop(journal);
                let again = adopt(&path);
                check(&again, &[all[0], all[2]]);
                again.delete();
                assert!(!path.exists() && !copy_of(&path).exists(), "{name}, {is_copy}");
            }
        }
        // After the notice it may be deleted.
        let path = written();
        adopt(&path).is_told();
        fs::remove_file(&path).unwrap();
        assert!(folder.0.orphans().0.is_empty());
        // Both are cut: that is told.
        let path = written();
        [&path, &copy_of(&path)].into_iter().for_each(|path| cut(path, fs::metadata(path).unwrap().len() - 5));
        let mut journal = adopt(&path);
        check(&journal, &all[..2]);
        assert!(journal.set_unreadable_aside().unwrap().contains("one line"));
        journal.delete();
        // A copy that somebody else could have written is none.
        let (path, copies) = (written(), copies(&folder.0.folder).unwrap());
        fs::set_permissions(&copies, fs::Permissions::from_mode(0o777)).unwrap();
        fs::remove_file(&path).unwrap();
        assert!(folder.0.orphans().0.is_empty());
        fs::remove_file(copies.join(path.file_name().unwrap())).unwrap();
        folder.0.create("ann").unwrap();
        assert_eq!(fs::read_dir(&copies).unwrap().count(), 0);
    }

    fn cut(path: &Path, len: u64) {
        OpenOptions::new().write(true).open(path).unwrap().set_len(len).unwrap();
    }

    #[test]
    fn a_line_that_cannot_be_read_is_said_once_and_kept_for_people() {
        let folder = Folder::new("unreadable");
        for garbage in [&b"{\"change\":{\"number\":9\n"[..], b"\xff\xfe\n", b"{\"of-another-version\":1}\n"] {
            let mut journal = folder.0.create("ann").unwrap();
            journal.note(&location("a"), "1", None).unwrap();
            journal.files.append(garbage).unwrap();
            journal.note(&location("b"), "2", None).unwrap();
            let path = journal.path.clone();
            drop(journal);
            let mut again = adopt(&path);
            check(&again, &[("a", "1"), ("b", "2")]);
            let sentence = again.set_unreadable_aside().expect("one line is garbage");
            let aside = path.with_extension(UNREADABLE);
            assert!(sentence.contains("one line") && sentence.contains(aside.to_str().unwrap()), "{sentence}");
            assert!(fs::read(&aside).unwrap().windows(garbage.len()).any(|part| part == garbage));
            assert_eq!(again.set_unreadable_aside(), None, "it is said once");
            again.delete();
        }
        // All of it, as of a version that is yet to come.
        let path = folder.0.folder.join("settings-000009.journal");
        fs::write(&path, "{\"begun\":{\"format\":\"linerate.settings/9\"}}\n").unwrap();
        assert!(matches!(Journal::adopt(&path, None, Owner::Ends), JournalClaim::Lost(_)));
        assert!(path.exists(), "a watchdog has nobody to tell");
        assert!(
            matches!(Journal::adopt(&path, None, Owner::Unknown), JournalClaim::Lost(sentence) if sentence.contains("unreadable"))
        );
        assert!(!path.exists() && path.with_extension(UNREADABLE).exists());
        assert!(matches!(Journal::adopt(&path, None, Owner::Unknown), JournalClaim::Nothing));
    }

    /// A campaign of days: nothing is lost, and the file does not grow with what was put back.
    #[test]
    fn a_journal_stays_short_and_no_line_is_lost_however_many_there_are() {
        let folder = Folder::new("long");
        let mut journal = folder.0.create("ann").unwrap();
        journal.note(&location("first"), "1", None).unwrap();
        let long = "x".repeat(20_000);
        for _ in 0..100 {
            journal.note(&location("again"), &long, None).unwrap();
            let entry = journal.entry_of(&location("again")).unwrap().clone();
            journal.strike(&entry);
        }
        assert!(fs::metadata(&journal.path).unwrap().len() < 2 * LONG);
        // Entries that stay are read, all of them.
        for number in 0..150 {
            journal.note(&location(&format!("stays {number}")), &long, None).unwrap();
        }
        let path = journal.path.clone();
        assert!(fs::metadata(&path).unwrap().len() > 2 << 20);
        drop(journal);
        let again = adopt(&path);
        assert_eq!(again.entries().len(), 151);
        assert_eq!(again.entries()[150].location.name, "stays 149");
    }

    #[test]
    fn a_journal_that_is_full_takes_no_change_and_loses_none() {
        let folder = Folder::new("full");
        let mut journal = folder.0.create("ann").unwrap();
        let long = "x".repeat(1 << 20);
        let noted =
            (0..100).take_while(|number| journal.note(&location(&number.to_string()), &long, None).is_ok()).count();
        assert!((15..18).contains(&noted), "{noted}");
        assert!(journal.note(&location("small"), "1", None).unwrap_err().to_string().contains("is full"));
        let path = journal.path.clone();
        drop(journal);
        assert_eq!(adopt(&path).entries().len(), noted);
    }
}
