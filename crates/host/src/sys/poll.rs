//! Waiting for a socket with a time-out finer than SO_RCVTIMEO's, which counts in the kernel's ticks.
//! Knows no traffic.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

/// Waits until there is something to read, or the time is over. `false`: the time is over, or a signal came.
pub fn wait_readable(socket: &impl AsFd, timeout: Duration) -> io::Result<bool> {
    wait_for_any([socket.as_fd()], timeout)
}

/// Waits until one of them has something to read, or somebody to accept; or the time is over. `false`: the time is over,
/// or a signal came.
pub fn wait_for_any<const N: usize>(sockets: [BorrowedFd<'_>; N], timeout: Duration) -> io::Result<bool> {
    let mut all = sockets.map(|one| libc::pollfd { fd: one.as_raw_fd(), events: libc::POLLIN, revents: 0 });
    let timeout =
        libc::timespec { tv_sec: timeout.as_secs().min(i32::MAX as u64) as _, tv_nsec: timeout.subsec_nanos() as _ };
    // SAFETY: `all` and `timeout` outlive the call; the count is that of `all`; no signal mask is given.
    let ready = unsafe { libc::ppoll(all.as_mut_ptr(), N as libc::nfds_t, &timeout, std::ptr::null()) };
    if ready >= 0 {
        return Ok(ready > 0);
    }
    let error = io::Error::last_os_error();
    if error.kind() == io::ErrorKind::Interrupted { Ok(false) } else { Err(error) }
}
