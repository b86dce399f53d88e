//! Moves a thread to another network namespace, and opens the sysfs of the one it is in.
//! Knows setns(2) and mount(2) only; who makes the namespaces is not its concern.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::thread;

/// Moves the calling thread to the network namespace behind `path`, such as /run/netns/NAME. Other threads stay
/// where they are, and sockets where they were made.
pub fn enter(path: &Path) -> io::Result<()> {
    let namespace = File::open(path)?;
    // SAFETY: setns(2) takes two integers; the descriptor is open during the call and not kept after it.
    if unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// The root directory of a sysfs that shows the calling thread's network namespace, which /sys need not (sysfs(5)). It
/// is mounted in a mount namespace that ends at once, so nobody else sees it, and it goes when the descriptor is closed.
pub fn sysfs() -> io::Result<OwnedFd> {
    // A thread of its own, which inherits the network namespace: there is no way back from unshare(2).
    let mounted = thread::Builder::new().spawn(|| {
        // SAFETY: no memory is passed; unshare(2) moves this thread alone, which ends below.
        check(unsafe { libc::unshare(libc::CLONE_NEWNS) })?;
        let (nothing, private) = (std::ptr::null(), libc::MS_REC | libc::MS_PRIVATE);
        // SAFETY: the path ends with NUL and outlives the call; no source, type or data is needed (mount(2)). It keeps
        // the next mount from being seen outside this thread's mount namespace.
        check(unsafe { libc::mount(c"none".as_ptr(), c"/".as_ptr(), nothing, private, nothing.cast()) })?;
        // SAFETY: source, path and type end with NUL and outlive the call; no data is passed.
        check(unsafe { libc::mount(c"sysfs".as_ptr(), c"/sys".as_ptr(), c"sysfs".as_ptr(), 0, nothing.cast()) })?;
        File::open("/sys").map(OwnedFd::from)
    })?;
    mounted.join().unwrap_or_else(|_| Err(io::Error::other("the thread that mounts a sysfs ended early")))
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
