//! Which network namespace a setting belongs to, and the way there from another one.
//! Knows no settings.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::thread;

use serde::{Deserialize, Serialize};

#[cfg(not(any(target_arch = "mips", target_arch = "mips64", target_arch = "sparc64")))]
use crate::sys::option::NETNS_COOKIE;
use crate::{namespaces, sys};

/// A network namespace of this boot: the number of its inode and, where the kernel has one, its cookie.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Namespace(String);

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Namespace {
    /// The calling thread's (namespaces(7)).
    pub(super) fn here() -> io::Result<Namespace> {
        let inode = fs::metadata("/proc/thread-self/ns/net")?.ino();
        // The number of an inode may come again when its namespace is gone; a cookie never does (Linux 5.14,
        // SO_NETNS_COOKIE in socket(7)).
        Ok(Namespace(cookie().map_or_else(|| inode.to_string(), |cookie| format!("{inode}-{cookie}"))))
    }

    /// Runs `work` in this namespace. `None`: it is gone, or it cannot be found or entered from here.
    pub(super) fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Option<T> {
        if Namespace::here().is_ok_and(|here| here == *self) {
            return Some(work());
        }
        // A thread of its own: there may be no way back from there.
        let entered = |path: PathBuf| {
            let is_there = || sys::namespace::enter(&path).is_ok() && Namespace::here().is_ok_and(|here| here == *self);
            is_there().then(work)
        };
        let path = self.find()?;
        thread::scope(|scope| thread::Builder::new().spawn_scoped(scope, || entered(path)).ok()?.join().ok()?)
    }

    /// A path to this namespace. Without a cookie the number may be that of another by now.
    fn find(&self) -> Option<PathBuf> {
        let (inode, _) = self.0.split_once('-')?;
        let inode: u64 = inode.parse().ok()?;
        namespaces::all().into_iter().find_map(|(one, path)| (one == inode).then_some(path))
    }
}

#[cfg(not(any(target_arch = "mips", target_arch = "mips64", target_arch = "sparc64")))]
fn cookie() -> Option<u64> {
    NETNS_COOKIE.get(&std::net::UdpSocket::bind("0.0.0.0:0").ok()?).ok()
}

/// Their options have numbers of their own, and there the inode must do.
#[cfg(any(target_arch = "mips", target_arch = "mips64", target_arch = "sparc64"))]
fn cookie() -> Option<u64> {
    None
}
