//! Moves a thread to another network namespace.
//! Knows setns(2) only; who makes the namespaces is not its concern.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

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
