//! The files of a machine: of this one, or of another as texts that somebody fetched.
//! What is read of a machine without an agent is noted by reading it once of a machine that has nothing.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use linerate_machine::pattern::fits_stars;

/// Files, by path.
#[derive(Clone, Debug)]
pub struct Files(Source);

#[derive(Clone, Debug)]
enum Source {
    Here,
    Given(BTreeMap<String, String>),
    Noted(RefCell<FileRequest>),
}

/// What is to be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileRequest {
    /// Whole files, as patterns of a shell.
    pub whole: Vec<String>,
    /// Files with a line each, as patterns of a shell.
    pub lines: Vec<String>,
}

impl Default for Files {
    fn default() -> Files {
        Files::of(BTreeMap::new())
    }
}

impl Files {
    /// This machine's, in the calling thread's network namespace.
    pub fn here() -> Files {
        Files(Source::Here)
    }

    /// These.
    pub fn of(texts: BTreeMap<String, String>) -> Files {
        Files(Source::Given(texts))
    }

    /// What `read` reads.
    pub(crate) fn wanted_by(read: impl FnOnce(&Files)) -> FileRequest {
        let files = Files(Source::Noted(RefCell::default()));
        read(&files);
        match files.0 {
            Source::Noted(wanted) => wanted.into_inner(),
            _ => FileRequest::default(),
        }
    }

    /// Whether they are this machine's, which can be asked in other ways too.
    pub(crate) fn are_here(&self) -> bool {
        matches!(self.0, Source::Here)
    }

    /// A file's text.
    pub fn text(&self, path: &str) -> io::Result<String> {
        self.read(path, |wanted| &mut wanted.whole)
    }

    /// A file's only line, without what surrounds it; device trees end their strings with NUL.
    pub(crate) fn line(&self, path: &str) -> Option<String> {
        let text = self.read(path, |wanted| &mut wanted.lines).ok()?;
        let text = text.trim_matches(|c: char| c == '\0' || c.is_whitespace());
        (!text.is_empty()).then(|| text.to_owned())
    }

    /// The texts of files whose paths fit a pattern, in which a `*` is any part of a name.
    pub(crate) fn texts(&self, pattern: &str) -> Vec<(String, String)> {
        self.all(pattern, |wanted| &mut wanted.whole)
    }

    /// The same, of files with a line each.
    pub(crate) fn lines(&self, pattern: &str) -> Vec<(String, String)> {
        self.all(pattern, |wanted| &mut wanted.lines)
    }

    fn read(&self, path: &str, note: fn(&mut FileRequest) -> &mut Vec<String>) -> io::Result<String> {
        match &self.0 {
            Source::Here => here(path),
            Source::Given(texts) => texts.get(path).cloned().ok_or_else(|| io::ErrorKind::NotFound.into()),
            Source::Noted(wanted) => {
                let (mut wanted, path) = (wanted.borrow_mut(), path.to_owned());
                let list = note(&mut wanted);
                if !list.contains(&path) {
                    list.push(path);
                }
                Err(io::ErrorKind::NotFound.into())
            }
        }
    }

    fn all(&self, pattern: &str, note: fn(&mut FileRequest) -> &mut Vec<String>) -> Vec<(String, String)> {
        let paths: Vec<String> = match &self.0 {
            Source::Here => expanded(pattern),
            Source::Given(texts) => texts.keys().filter(|path| fits_path(pattern, path)).cloned().collect(),
            Source::Noted(_) => vec![pattern.to_owned()],
        };
        paths.into_iter().filter_map(|path| self.read(&path, note).ok().map(|text| (path, text))).collect()
    }
}

/// A file of this machine. /proc/net is that of the process's first thread; the calling thread may be in another network
/// namespace, and /proc/thread-self came with Linux 3.17. The tables of neighbours are the machine's, and other
/// namespaces have no file of them; root may look where the first process looks.
fn here(path: &str) -> io::Result<String> {
    let read = |path: &str| {
        let bytes = if path.starts_with("/proc/sys/") { value(File::open(path)?) } else { fs::read(path) };
        bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    };
    let Some(rest) = path.strip_prefix("/proc/net/") else { return read(path) };
    let own = read(&format!("/proc/thread-self/net/{rest}")).or_else(|_| read(path));
    own.or_else(|error| match rest.starts_with("stat/") && rest.ends_with("_cache") {
        true => read(&format!("/proc/1/net/{rest}")).map_err(|_| error),
        false => Err(error),
    })
}

/// A value has fewer bytes.
const LONGEST_VALUE: usize = 64 << 10;

/// A value, of one read that has room for all of it: many sysctls give a second one nothing, and the first what fits
/// (proc_dointvec, proc_do_large_bitmap in kernel/sysctl.c). std begins with 32 bytes where a file has no length.
pub(crate) fn value(mut file: File) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; LONGEST_VALUE];
    let mut len = 0;
    while len < bytes.len() {
        match file.read(&mut bytes[len..]) {
            Ok(0) => {
                bytes.truncate(len);
                return Ok(bytes);
            }
            Ok(more) => len += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other(format!("it has {} KiB or more, and a value has less", LONGEST_VALUE >> 10)))
}

/// The files of this machine that fit a pattern.
fn expanded(pattern: &str) -> Vec<String> {
    let mut found = vec![PathBuf::from("/")];
    for part in pattern.split('/').filter(|part| !part.is_empty()) {
        found = match part.contains('*') {
            false => found.into_iter().map(|path| path.join(part)).collect(),
            true => found.iter().flat_map(|folder| below(folder, part)).collect(),
        };
    }
    found.sort();
    found.into_iter().filter_map(|path| path.into_os_string().into_string().ok()).collect()
}

fn below(folder: &Path, pattern: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_name().to_str().is_some_and(|name| fits_stars(pattern, name)))
        .map(|one| one.path())
        .collect()
}

fn fits_path(pattern: &str, path: &str) -> bool {
    pattern.split('/').count() == path.split('/').count()
        && pattern.split('/').zip(path.split('/')).all(|(pattern, name)| fits_stars(pattern, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_read_whole_or_not_at_all() {
        let path = std::env::temp_dir().join(format!("files-value-{}", std::process::id()));
        for (len, is_read) in [(0, true), (33, true), (LONGEST_VALUE - 1, true), (LONGEST_VALUE, false)] {
            fs::write(&path, vec![b'7'; len]).unwrap();
            let read = value(File::open(&path).unwrap()).map(|bytes| bytes.len());
            assert_eq!(read.ok(), is_read.then_some(len));
        }
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn patterns_are_those_of_a_shell() {
        for (pattern, path, want) in [
            ("/sys/cpu*/state*/name", "/sys/cpu0/state12/name", true),
            ("/sys/cpu*/state*/name", "/sys/cpu0/state12/usage", false),
            ("/sys/cpu*/name", "/sys/cpu0/state12/name", false),
            ("/sys/*_count", "/sys/core_count", true),
        ] {
            assert_eq!(fits_path(pattern, path), want, "{pattern} {path}");
        }
        assert!(expanded("/proc/sys/kernel/os*").contains(&"/proc/sys/kernel/ostype".to_owned()));
    }
}
