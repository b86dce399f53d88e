//! The files of a journal: one in the folder of journals, and a copy of it in a folder beside that.
//! Knows no lines but that each has an end.
//!
//! ```text
//!   /run/linerate/settings-000001.journal
//!   /run/linerate.copy/settings-000001.journal     who tidies the folder up, or cuts a file short, takes no original along
//! ```
//! Each line is on disk in both before the next. A copy that cannot be made or written is none: without one, all is as with it but for
//! that.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// How the name of a file ends that is being written, to take the place of another.
const NEW: &str = "new";

/// The files of a journal that are open here, the better one first.
#[derive(Debug)]
pub(super) struct JournalFiles {
    files: Vec<Named>,
    /// To the end of the last whole line, in bytes.
    pub(super) len: u64,
    /// The first one's end is not known: it takes no further line.
    is_broken: bool,
}

#[derive(Debug)]
struct Named {
    /// `None`: it was opened before somebody deleted it.
    path: Option<PathBuf>,
    file: File,
}

impl JournalFiles {
    /// Makes the journal at `path`, and holds it. `None`: there is one, or somebody else has just taken it.
    pub(super) fn create(path: &Path) -> io::Result<Option<JournalFiles>> {
        let Some(file) = Named::create(path)? else { return Ok(None) };
        let mut files = JournalFiles::of(vec![file]);
        match copy_of(path).map(|copy| Named::create(&copy)) {
            Some(Ok(Some(copy))) => files.files.push(copy),
            // Of a journal that somebody has deleted.
            Some(Ok(None)) => {
                files.delete();
                return Ok(None);
            }
            Some(Err(_)) | None => {}
        }
        Ok(Some(files))
    }

    /// Opens what there is of the journal at `path`; if nothing is, `opened`, which was that.
    pub(super) fn find(path: &Path, opened: Option<&File>) -> Option<JournalFiles> {
        let named = |path: PathBuf| Some(Named { file: open(&path).ok()?, path: Some(path) });
        let mut files: Vec<Named> =
            [Some(path.to_owned()), copy_of(path)].into_iter().flatten().filter_map(named).collect();
        if files.is_empty() {
            files.push(Named { path: None, file: opened?.try_clone().ok()? });
        }
        Some(JournalFiles::of(files))
    }

    fn of(files: Vec<Named>) -> JournalFiles {
        JournalFiles { files, len: 0, is_broken: false }
    }

    /// Holds all of them. `false`: one was deleted, or written anew, since it was opened.
    pub(super) fn try_lock(&self) -> Result<bool, TryLockError> {
        self.files.iter().try_for_each(|one| one.file.try_lock())?;
        Ok(self.files.iter().all(Named::is_still))
    }

    /// What each says. One that cannot be read is none, if another can.
    pub(super) fn read(&mut self, most: u64) -> io::Result<Vec<Vec<u8>>> {
        let mut said: Vec<io::Result<Vec<u8>>> = self.files.iter_mut().map(|one| one.read(most)).collect();
        if said.iter().any(Result::is_ok) {
            let mut is_read = said.iter().map(Result::is_ok);
            self.files.retain(|_| is_read.next() == Some(true));
            said.retain(Result::is_ok);
        }
        said.into_iter().collect()
    }

    /// From here on the journal is what one of them says, to the end of its last whole line. Another one that says the same stays.
    pub(super) fn go_by(&mut self, at: usize, said: &[Vec<u8>], len: u64) {
        self.files.swap(0, at);
        for other in self.files.split_off(1) {
            if said.iter().all(|one| *one == said[at]) {
                self.files.push(other);
            } else {
                other.delete();
            }
        }
        self.len = len;
        // Half a line would join the next one.
        self.files.iter().for_each(|one| drop(one.file.set_len(len)));
    }

    /// Where it is, for people.
    pub(super) fn path(&self) -> Option<&Path> {
        self.files[0].path.as_deref()
    }

    /// Writes a line, whole or not at all.
    pub(super) fn append(&mut self, line: &[u8]) -> io::Result<()> {
        let error = |error: io::Error, one: &Named| match &one.path {
            Some(path) => io::Error::new(error.kind(), format!("{}: {error}", path.display())),
            None => error,
        };
        let first = &mut self.files[0];
        if self.is_broken {
            return Err(error(io::Error::other("it could not be written before"), first));
        }
        if let Err(refused) = first.append(line) {
            // Half a line would join the next one.
            self.is_broken = first.file.set_len(self.len).is_err();
            return Err(error(refused, first));
        }
        self.len += line.len() as u64;
        // One that lacks a line is worse than none.
        if self.files.get_mut(1).is_some_and(|copy| copy.append(line).is_err()) {
            self.drop_copy();
        }
        Ok(())
    }

    /// Writes all of it anew, in place of the old files; the first of those. Where that cannot be, nothing has changed.
    pub(super) fn write_anew(&mut self, text: &[u8]) -> io::Result<File> {
        let old = self.files[0].write_anew(text)?;
        (self.len, self.is_broken) = (text.len() as u64, false);
        if self.files.get_mut(1).is_some_and(|copy| copy.write_anew(text).is_err()) {
            self.drop_copy();
        }
        Ok(old)
    }

    /// Takes the second of them away.
    pub(super) fn drop_copy(&mut self) {
        self.files.drain(1..).for_each(Named::delete);
    }

    /// Takes all of them away. Where somebody else has, another may have the name.
    pub(super) fn delete(self) {
        self.files.into_iter().for_each(Named::delete);
    }
}

impl Named {
    /// A new file that is held.
    fn create(path: &Path) -> io::Result<Option<Named>> {
        let file = match OpenOptions::new().read(true).append(true).create_new(true).mode(0o600).open(path) {
            Ok(file) => Named { path: Some(path.to_owned()), file },
            Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(None),
            Err(error) => return Err(error),
        };
        sync_folder(path);
        // An agent that starts just now may take the empty file for an orphan's and delete it.
        Ok(Some(file).filter(|one| one.file.try_lock().is_ok() && one.is_still()))
    }

    fn read(&mut self, most: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.file.rewind()?;
        if (&self.file).take(most).read_to_end(&mut bytes)? as u64 == most {
            return Err(io::Error::other("it is too long"));
        }
        Ok(bytes)
    }

    fn append(&mut self, line: &[u8]) -> io::Result<()> {
        self.file.write_all(line)?;
        self.file.sync_data()
    }

    /// The old one.
    fn write_anew(&mut self, text: &[u8]) -> io::Result<File> {
        let Some(path) = &self.path else { return Err(ErrorKind::NotFound.into()) };
        let new = path.with_extension(NEW);
        let write = || {
            let options = OpenOptions::new().read(true).append(true).create(true).truncate(false).mode(0o600).clone();
            let mut file = options.open(&new)?;
            file.set_len(0)?;
            file.write_all(text)?;
            file.sync_data()?;
            file.try_lock()?;
            fs::rename(&new, path)?;
            sync_folder(path);
            Ok::<File, io::Error>(file)
        };
        let file = write().inspect_err(|_| drop(fs::remove_file(&new)))?;
        Ok(std::mem::replace(&mut self.file, file))
    }

    /// Whether its name still leads to it.
    fn is_still(&self) -> bool {
        let of = |metadata: io::Result<fs::Metadata>| metadata.map(|one| (one.dev(), one.ino())).ok();
        let named = |path: &PathBuf| of(self.file.metadata()).is_some_and(|open| Some(open) == of(fs::metadata(path)));
        self.path.as_ref().is_none_or(named)
    }

    fn delete(self) {
        if self.is_still()
            && let Some(path) = &self.path
        {
            let _ = fs::remove_file(path);
        }
    }
}

/// Opens a file of a journal, to be read and added to.
pub(super) fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).append(true).open(path)
}

/// Makes the name survive a loss of power, too: a file's own fsync need not write its folder (fsync(2)).
fn sync_folder(path: &Path) {
    let _ = path.parent().map(|folder| File::open(folder).and_then(|folder| folder.sync_all()));
}

/// The folder of the copies of this folder's journals, if it can be had.
pub(super) fn copies(folder: &Path) -> Option<PathBuf> {
    let mut name = folder.file_name()?.to_owned();
    name.push(".copy");
    let folder = folder.with_file_name(name);
    own(&folder).is_ok().then_some(folder)
}

fn copy_of(path: &Path) -> Option<PathBuf> {
    Some(copies(path.parent()?)?.join(path.file_name()?))
}

/// This process's user. Of all ways to it, the owner of this process's folder needs no system call of our own.
pub(super) fn user() -> io::Result<u32> {
    Ok(fs::metadata("/proc/self")?.uid())
}

/// Makes a folder that is this user's alone, or sees that it is, because what is put back from it is done as this user.
pub(super) fn own(folder: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let found = fs::symlink_metadata(folder)?;
    // In a user namespace without this machine's root, what belongs to that root belongs to nobody.
    if !found.is_dir() || found.uid() != user()? || found.mode() & 0o022 != 0 {
        return Err(io::Error::new(ErrorKind::PermissionDenied, "it is not this user's alone"));
    }
    Ok(())
}
