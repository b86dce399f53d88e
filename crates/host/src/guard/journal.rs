//! The journal of one agent's changes: what each setting was, on disk before it is changed.
//! Knows no settings; it is read again by whoever puts them back.
//!
//! ```text
//!   /run/linerate/settings-4026531840-000001.journal        held by flock(2) for as long as its agent lives
//!   {"begun":{"format":"linerate.settings/1","boot":"…","namespace":"…","process":812,"by":"ann on desk"}}
//!   {"change":{"name":"mtu","interface":"eth0","original":"1500"}}
//!   {"put-back":{"name":"mtu","interface":"eth0"}}
//!   "kept"
//! ```

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use linerate_trial::change::Custom;
use serde::{Deserialize, Serialize};

use crate::sys::socket_state::get_option;

const FORMAT: &str = "linerate.settings/1";
/// A journal has a line for each setting; one that is longer is none.
const LONGEST: u64 = 1 << 20;
/// How long one waits for a journal whose agent is dead: its watchdog is at work.
const WATCHDOG_TIME: Duration = Duration::from_secs(15);

/// A setting and what it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Entry {
    pub(super) name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) interface: Option<String>,
    pub(super) original: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) custom: Option<Custom>,
}

impl Entry {
    pub(super) fn is(&self, name: &str, interface: Option<&str>) -> bool {
        self.name == name && self.interface.as_deref() == interface
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Line {
    Begun(Begun),
    Change(Entry),
    PutBack { name: String, interface: Option<String> },
    Kept,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Begun {
    format: String,
    #[serde(flatten)]
    place: Place,
    process: u32,
    by: String,
}

/// Which settings a journal speaks of: of this boot, and of this network namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Place {
    boot: String,
    namespace: String,
}

/// What is known of a journal's agent by who wants to take the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// It may live, and then the journal is its own.
    Unknown,
    /// It ends: its pipe is closed, and its lock will be.
    Ends,
}

/// A journal that this process holds.
#[derive(Debug)]
pub(super) struct Journal {
    pub(super) path: PathBuf,
    file: File,
    /// In the order of the changes, without what was put back.
    pub(super) entries: Vec<Entry>,
    /// Whose changes these are.
    pub(super) by: String,
    /// They stay when the agent ends.
    pub(super) kept: bool,
}

impl Journal {
    /// A new one, the last of this network namespace.
    pub(super) fn create(by: &str) -> io::Result<Journal> {
        let folder = folder()?;
        let place = Place::here()?;
        let prefix = prefix()?;
        let first = numbers(&folder, &prefix)?.last().map_or(1, |(last, _)| last + 1);
        for number in first..first.saturating_add(1000) {
            let path = folder.join(format!("{prefix}{number:06}.journal"));
            let file = match OpenOptions::new().read(true).append(true).create_new(true).mode(0o600).open(&path) {
                Ok(file) => file,
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(error),
            };
            // Another agent that starts just now may take the empty file for an orphan's and delete it.
            if file.try_lock().is_err() || !is_still(&file, &path) {
                continue;
            }
            let mut journal = Journal { path, file, entries: Vec::new(), by: by.to_owned(), kept: false };
            journal.append(&Line::Begun(Begun {
                format: FORMAT.to_owned(),
                place,
                process: std::process::id(),
                by: by.to_owned(),
            }))?;
            return Ok(journal);
        }
        Err(io::Error::other("its folder is full of journals"))
    }

    /// Every journal of this network namespace that no living agent holds, the newest first. What a watchdog is
    /// putting back just now is waited for. Journals of another boot are deleted: their settings went with it.
    pub(super) fn orphans() -> Vec<Journal> {
        let Ok((folder, prefix)) = folder().and_then(|folder| Ok((folder, prefix()?))) else { return Vec::new() };
        let numbers = numbers(&folder, &prefix).unwrap_or_default();
        numbers.into_iter().rev().filter_map(|(_, path)| Journal::adopt(&path, Owner::Unknown)).collect()
    }

    /// The journals that living agents hold: nothing may be taken from them, but their originals are known.
    pub(super) fn others(&self) -> Vec<Entry> {
        let Ok((folder, prefix)) = folder().and_then(|folder| Ok((folder, prefix()?))) else { return Vec::new() };
        let numbers = numbers(&folder, &prefix).unwrap_or_default();
        let others = numbers.into_iter().filter(|(_, path)| *path != self.path);
        let read = others.filter_map(|(_, path)| read(&mut File::open(path).ok()?));
        read.filter(|(_, _, kept)| !kept).flat_map(|(_, entries, _)| entries).collect()
    }

    /// Takes the journal at `path` if its agent is dead. `None`: there is nothing to take.
    pub(super) fn adopt(path: &Path, owner: Owner) -> Option<Journal> {
        let deadline = Instant::now() + WATCHDOG_TIME;
        loop {
            let mut file = OpenOptions::new().read(true).append(true).open(path).ok()?;
            match file.try_lock() {
                Ok(()) if !is_still(&file, path) => return None,
                Ok(()) => {
                    let here = Place::here().ok()?;
                    return match read(&mut file) {
                        Some((begun, entries, kept)) if begun.place == here && !entries.is_empty() => {
                            Some(Journal { path: path.to_owned(), file, entries, by: begun.by, kept })
                        }
                        _ => {
                            let _ = fs::remove_file(path);
                            None
                        }
                    };
                }
                Err(TryLockError::WouldBlock) => {
                    let mut is_of_living = || read(&mut file).is_none_or(|(begun, ..)| is_alive(begun.process));
                    if (owner == Owner::Unknown && is_of_living()) || Instant::now() >= deadline {
                        return None;
                    }
                    drop(file);
                    std::thread::sleep(Duration::from_millis(2));
                }
                Err(TryLockError::Error(_)) => return None,
            }
        }
    }

    /// Writes down what a setting was. Only when this has returned may it be changed.
    pub(super) fn note(&mut self, entry: Entry) -> io::Result<()> {
        self.append(&Line::Change(entry.clone()))?;
        self.entries.push(entry);
        Ok(())
    }

    /// Writes down that a setting is again what it was.
    pub(super) fn strike(&mut self, entry: &Entry) {
        self.entries.retain(|one| !one.is(&entry.name, entry.interface.as_deref()));
        // Should this fail, the setting is put back twice, which changes nothing.
        let _ = self.append(&Line::PutBack { name: entry.name.clone(), interface: entry.interface.clone() });
    }

    /// Writes down that the changes stay when the agent ends.
    pub(super) fn keep(&mut self) -> io::Result<()> {
        self.append(&Line::Kept)?;
        self.kept = true;
        Ok(())
    }

    /// Deletes the journal: there is nothing to put back.
    pub(super) fn delete(self) {
        let _ = fs::remove_file(&self.path);
    }

    fn append(&mut self, line: &Line) -> io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        self.file.write_all(&text)?;
        self.file.sync_data()
    }
}

/// What a journal says: its head, what is to be put back, and whether that is to stay. A last line without its end
/// was never acted upon, for the change follows the line.
fn read(file: &mut File) -> Option<(Begun, Vec<Entry>, bool)> {
    let mut text = String::new();
    file.take(LONGEST).read_to_string(&mut text).ok()?;
    let mut lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    let Ok(Line::Begun(begun)) = serde_json::from_str(lines.next()?) else { return None };
    if begun.format != FORMAT {
        return None;
    }
    let (mut entries, mut kept) = (Vec::<Entry>::new(), false);
    for line in lines {
        match serde_json::from_str(line) {
            Ok(Line::Change(entry)) => entries.push(entry),
            Ok(Line::PutBack { name, interface }) => entries.retain(|one| !one.is(&name, interface.as_deref())),
            Ok(Line::Kept) => kept = true,
            Ok(Line::Begun(_)) | Err(_) => {}
        }
    }
    Some((begun, entries, kept))
}

impl Place {
    fn here() -> io::Result<Place> {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned();
        // The number of a namespace's inode may come again when it is gone; its cookie never does (Linux 5.14,
        // SO_NETNS_COOKIE in socket(7)).
        let inode = inode()?;
        let namespace = cookie().map_or_else(|| inode.to_string(), |cookie| format!("{inode}-{cookie}"));
        Ok(Place { boot, namespace })
    }
}

/// The inode of this thread's network namespace (namespaces(7)).
fn inode() -> io::Result<u64> {
    Ok(fs::metadata("/proc/thread-self/ns/net")?.ino())
}

fn cookie() -> Option<u64> {
    /// asm-generic/socket.h; mips, parisc and sparc number options their own way, and there the inode must do.
    const SO_NETNS_COOKIE: libc::c_int = 71;
    if cfg!(any(target_arch = "mips", target_arch = "mips64", target_arch = "sparc64")) {
        return None;
    }
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").ok()?;
    let mut octets = [0; 8];
    let len = get_option(&socket, libc::SOL_SOCKET, SO_NETNS_COOKIE, &mut octets).ok()?;
    (len == 8).then(|| u64::from_ne_bytes(octets))
}

fn prefix() -> io::Result<String> {
    Ok(format!("settings-{}-", inode()?))
}

/// The journals whose name begins so, by number.
fn numbers(folder: &Path, prefix: &str) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(prefix)?.strip_suffix(".journal")?.parse().ok());
        numbers.extend(number.map(|number| (number, entry.path())));
    }
    numbers.sort();
    Ok(numbers)
}

/// Where journals are: a folder that is this user's alone, because what is put back from it is done as this user.
fn folder() -> io::Result<PathBuf> {
    // Of all ways to the effective user, the owner of this process's folder needs no system call of our own.
    let user = fs::metadata("/proc/self")?.uid();
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    let candidates = [
        (user == 0).then(|| PathBuf::from("/run/linerate")),
        runtime.map(|folder| folder.join("linerate")),
        Some(std::env::temp_dir().join(format!("linerate-{user}"))),
    ];
    let mut refusal = io::Error::other("there is no folder for it");
    for folder in candidates.into_iter().flatten() {
        match own(&folder, user) {
            Ok(()) => return Ok(folder),
            Err(error) => refusal = io::Error::new(error.kind(), format!("{}: {error}", folder.display())),
        }
    }
    Err(refusal)
}

fn own(folder: &Path, user: u32) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let found = fs::symlink_metadata(folder)?;
    // In a user namespace without this machine's root, what belongs to that root belongs to nobody.
    if !found.is_dir() || found.uid() != user || found.mode() & 0o022 != 0 {
        return Err(io::Error::new(ErrorKind::PermissionDenied, "it is not this user's alone"));
    }
    Ok(())
}

/// Whether `path` still leads to this open file.
fn is_still(file: &File, path: &Path) -> bool {
    let of = |metadata: io::Result<fs::Metadata>| metadata.map(|one| (one.dev(), one.ino())).ok();
    of(file.metadata()).is_some_and(|open| Some(open) == of(fs::metadata(path)))
}

/// Whether this process runs: not one that waits to be reaped, nor one that is on its way out (the state, and
/// PF_EXITING among the flags, are fields 3 and 9 in proc_pid_stat(5)).
fn is_alive(process: u32) -> bool {
    const PF_EXITING: u32 = 4;
    let Ok(stat) = fs::read_to_string(format!("/proc/{process}/stat")) else { return false };
    let Some((_, rest)) = stat.rsplit_once(')') else { return false };
    let mut fields = rest.split_whitespace();
    let state = fields.next();
    let flags = fields.nth(5).and_then(|field| field.parse::<u32>().ok()).unwrap_or(0);
    !matches!(state, None | Some("Z" | "X")) && flags & PF_EXITING == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, original: &str) -> Entry {
        Entry { name: name.to_owned(), interface: None, original: original.to_owned(), custom: None }
    }

    #[test]
    fn a_journal_is_read_as_it_was_written() {
        let mut journal = Journal::create("ann").unwrap();
        for (name, original) in [("a", "1"), ("b", "2"), ("c", "3")] {
            journal.note(entry(name, original)).unwrap();
        }
        journal.strike(&entry("b", "2"));
        assert!(Journal::adopt(&journal.path, Owner::Unknown).is_none(), "its agent lives");
        // A line that was cut off by the agent's death.
        journal.file.write_all(br#"{"change":{"name":"d","#).unwrap();
        let path = journal.path.clone();
        drop(journal);
        // A process that another test forks just now has the lock too, until it is another program.
        let again = Journal::adopt(&path, Owner::Ends).expect("nobody holds it");
        assert_eq!((again.entries.clone(), again.by.as_str()), (vec![entry("a", "1"), entry("c", "3")], "ann"));
        again.delete();
        assert!(!path.exists());
    }

    #[test]
    fn a_journal_of_another_boot_is_deleted() {
        let mut journal = Journal::create("ann").unwrap();
        journal.note(entry("a", "1")).unwrap();
        let path = journal.path.clone();
        drop(journal);
        let text = fs::read_to_string(&path).unwrap();
        let boot = Place::here().unwrap().boot;
        fs::write(&path, text.replace(&boot, "another")).unwrap();
        assert!(Journal::adopt(&path, Owner::Ends).is_none());
        assert!(!path.exists());
    }
}
