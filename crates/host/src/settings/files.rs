//! The kernel's files, read and written: /sys of the right network namespace, and /proc.
//! Knows no names of files.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::files::value;
use crate::{interfaces, sys};

/// Where the files of a machine are.
pub(super) struct Files {
    /// /sys and /proc, or what stands for them in a test.
    root: PathBuf,
    /// A sysfs of the network namespace, once somebody wants it.
    namespace: OnceLock<Option<OwnedFd>>,
}

impl Files {
    pub(super) fn new() -> Files {
        Files { root: PathBuf::from("/"), namespace: OnceLock::new() }
    }

    #[cfg(test)]
    pub(super) fn below(root: &Path) -> Files {
        Files { root: root.to_owned(), namespace: OnceLock::new() }
    }

    /// /sys, for what belongs to no network namespace.
    pub(super) fn sys(&self, path: &str) -> PathBuf {
        self.root.join("sys").join(path)
    }

    pub(super) fn proc(&self, path: &str) -> PathBuf {
        self.root.join("proc").join(path)
    }

    /// The directory of an interface of the thread's network namespace in a sysfs that shows it. sysfs shows the
    /// namespace in which it was mounted (sysfs(5)), and the /sys of an agent in another namespace may well have an
    /// interface of the same name: so a sysfs is mounted for it, where nobody else sees it.
    pub(super) fn interface(&self, interface: &str) -> io::Result<PathBuf> {
        if interface.contains('/') || interface.starts_with('.') {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mounted = self.namespace.get_or_init(|| sys::namespace::sysfs().ok());
        if let Some(mounted) = mounted {
            return Ok(PathBuf::from(format!("/proc/self/fd/{}/class/net/{interface}", mounted.as_raw_fd())));
        }
        // Without the right to mount: /sys, if what it shows has the interface's number and address.
        let path = Path::new("/sys/class/net").join(interface);
        let link = interfaces::link(interface)?;
        let same = read(&path.join("ifindex"))? == link.index.to_string()
            && read(&path.join("address")).ok().filter(|mac| !mac.is_empty()) == link.mac;
        if same { Ok(path) } else { Err(io::Error::from_raw_os_error(libc::EPERM)) }
    }
}

/// A file's text, without what surrounds it and with single spaces: fields are separated by tabs in some.
pub(super) fn read(path: &Path) -> io::Result<String> {
    let text = String::from_utf8(value(File::open(path)?)?).map_err(io::Error::other)?;
    Ok(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Writes a file that is there, in one call: the kernel takes each call for a value of its own.
pub(super) fn write(path: &Path, text: &str) -> io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).truncate(true).open(path)?;
    file.write_all(text.as_bytes())
}

/// Opens a file that somebody has named: one with a value, as those of the kernel are, and no device or pipe, which may
/// do something when it is opened, or wait for its other end.
pub(super) fn open_named(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let check = |metadata: fs::Metadata| match metadata.is_file() {
        true => Ok(()),
        false => Err(io::Error::other("it is no regular file")),
    };
    check(fs::metadata(path)?)?;
    let file = options.custom_flags(libc::O_NONBLOCK).open(path)?;
    check(file.metadata()?)?;
    Ok(file)
}
