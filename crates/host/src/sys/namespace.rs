//! Moving this process into another network namespace.
//! Knows no names; the caller opens the file that stands for the namespace.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Moves the calling thread, and all it starts afterwards, into the network namespace of this file
/// (network_namespaces(7)). To be called before the first thread is started.
pub fn enter_network_namespace(namespace: &File) -> io::Result<()> {
    // SAFETY: the descriptor is open for the length of the call; no memory is passed.
    let status = unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) };
    if status < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
