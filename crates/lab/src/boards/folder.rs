//! Where boards keep what they are made of, and where the running ones can be found by other processes.
//! Knows no QEMU; a running board is a locked file and some sockets.

use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use linerate_control::private;

use super::BoardError;
use super::monitor::Monitor;
use crate::sys;

/// The folders of one user's boards.
///
/// ```text
/// cache    $XDG_CACHE_HOME/linerate            parts, and packages
/// running  $XDG_RUNTIME_DIR/linerate/boards    NAME/lock target host console monitor agent console.log
/// ```
#[derive(Clone, Debug)]
pub struct Folders {
    /// What boards are made of.
    pub cache: PathBuf,
    /// A folder for each board that runs.
    pub running: PathBuf,
}

/// A board that runs in some process of this user.
#[derive(Debug)]
pub struct Running {
    folder: PathBuf,
    name: String,
}

impl Folders {
    /// This user's. Ask before a user namespace is entered, which hides who the user is. `None`: there is no home.
    pub fn of_user() -> Option<Folders> {
        let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let cache =
            absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")))?.join("linerate");
        let running = match absolute("XDG_RUNTIME_DIR").filter(|path| path.is_dir()) {
            Some(path) => path.join("linerate/boards"),
            None => std::env::temp_dir().join(format!("linerate-{}/boards", sys::effective_ids().0)),
        };
        Some(Folders { cache, running })
    }

    /// The boards that run, by name.
    pub fn running(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.running).into_iter().flatten().filter_map(Result::ok);
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let mut running: Vec<String> = names.filter(|name| self.is_locked(name)).collect();
        running.sort();
        running
    }

    /// A board that runs.
    pub fn find(&self, name: &str) -> Result<Running, BoardError> {
        if self.is_locked(name) {
            return Ok(Running { folder: self.running.join(name), name: name.to_owned() });
        }
        Err(BoardError::RunsNot(name.to_owned()))
    }

    /// Takes a board's folder for this process, empty; the lock is held as long as the file is open.
    pub(crate) fn take(&self, name: &str) -> Result<(PathBuf, File), BoardError> {
        let folder = self.running.join(name);
        // A folder below /tmp that somebody else has made there, or a link, is not to be trusted with sockets.
        for one in self.chain(&folder) {
            own(one, "XDG_RUNTIME_DIR")?;
        }
        let lock = folder.join("lock");
        let file = File::create(&lock).map_err(|error| BoardError::file(&lock, error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(BoardError::Runs(name.to_owned())),
            Err(TryLockError::Error(error)) => return Err(BoardError::file(&lock, error)),
        }
        // What a killed process has left.
        for entry in fs::read_dir(&folder).into_iter().flatten().filter_map(Result::ok) {
            if entry.file_name() != "lock" {
                let _ = fs::remove_file(entry.path());
            }
        }
        Ok((folder, file))
    }

    /// The folders from this program's own in the user's, or the system's, down to this one.
    fn chain<'a>(&'a self, folder: &'a Path) -> impl Iterator<Item = &'a Path> {
        self.running.parent().into_iter().chain([self.running.as_path(), folder])
    }

    fn is_locked(&self, name: &str) -> bool {
        let user = sys::effective_ids().0;
        if !self.chain(&self.running.join(name)).all(|one| private::is_own(one, user)) {
            return false;
        }
        let lock = self.running.join(name).join("lock");
        File::open(lock).is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
    }
}

impl Running {
    /// Ends it, and waits until it is gone.
    pub fn down(&self) -> Result<(), BoardError> {
        Monitor::open(&self.folder)?.quit()
    }

    /// Pulls the cable, or puts it back: the board's port loses its link.
    pub fn set_cable(&self, plugged: bool) -> Result<(), BoardError> {
        Monitor::open(&self.folder)?.set_link(plugged)
    }

    /// The socket of its console: a client sees and types what stands on its serial port.
    pub fn console(&self) -> PathBuf {
        self.folder.join("console")
    }

    /// What its console has said so far.
    pub fn console_log(&self) -> String {
        console_log(&self.folder)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// Makes a folder of this user's alone; `variable` is how the user names another.
pub(super) fn own(folder: &Path, variable: &str) -> Result<(), BoardError> {
    if let Some(above) = folder.parent() {
        fs::create_dir_all(above).map_err(|error| BoardError::file(above, error))?;
    }
    private::own(folder, sys::effective_ids().0).map_err(|error| match error.kind() {
        ErrorKind::PermissionDenied => {
            let why = format!("cannot be used: {error}; set {variable} to a folder of yours");
            BoardError::Parts(format!("the folder {} {why}", folder.display()))
        }
        _ => BoardError::file(folder, error),
    })
}

/// What the console in this folder has said so far; what it could do to a terminal is left out.
pub(crate) fn console_log(folder: &Path) -> String {
    let octets = fs::read(folder.join("console.log")).unwrap_or_default();
    let text = String::from_utf8_lossy(&octets);
    text.chars().filter(|&sign| sign == '\n' || !sign.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folders(base: &Path) -> Folders {
        Folders { cache: base.join("cache"), running: base.join("linerate/boards") }
    }

    #[test]
    fn a_link_or_another_users_folder_is_not_taken() {
        let base = std::env::temp_dir().join(format!("linerate-folders-{}", std::process::id()));
        let elsewhere = base.join("elsewhere");
        fs::create_dir_all(elsewhere.join("boards/sabrelite")).unwrap();
        let folders = folders(&base);
        // As another user could have left it in a folder where everybody may write.
        std::os::unix::fs::symlink(&elsewhere, base.join("linerate")).unwrap();
        let error = folders.take("sabrelite").unwrap_err().to_string();
        assert!(error.contains("not this user's alone") && error.contains("XDG_RUNTIME_DIR"), "{error}");
        assert!(fs::read_dir(elsewhere.join("boards/sabrelite")).unwrap().next().is_none(), "nothing was put there");
        let held = File::create(elsewhere.join("boards/sabrelite/lock")).unwrap();
        held.lock().unwrap();
        assert!(folders.running().is_empty() && folders.find("sabrelite").is_err(), "no board of a stranger's runs");

        fs::remove_file(base.join("linerate")).unwrap();
        fs::create_dir(base.join("linerate")).unwrap();
        if std::os::unix::fs::chown(base.join("linerate"), Some(65534), None).is_ok() {
            assert!(folders.take("sabrelite").is_err(), "it is another user's");
            std::os::unix::fs::chown(base.join("linerate"), Some(sys::effective_ids().0), None).unwrap();
        }
        let (_, lock) = folders.take("sabrelite").unwrap();
        assert_eq!(folders.running(), ["sabrelite"]);
        drop(lock);
        fs::remove_dir_all(&base).unwrap();
    }
}
