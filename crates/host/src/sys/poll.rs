//! Waiting for a socket with a time-out finer than SO_RCVTIMEO's, which counts in the kernel's ticks.
//! Knows one socket at a time.

use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// Waits until there is something to read, or the time is over. `false`: the time is over, or a signal came.
pub fn wait_readable(socket: &impl AsRawFd, timeout: Duration) -> io::Result<bool> {
    let mut one = libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let timeout =
        libc::timespec { tv_sec: timeout.as_secs().min(i32::MAX as u64) as _, tv_nsec: timeout.subsec_nanos() as _ };
    // SAFETY: `one` and `timeout` outlive the call; the count is one; no signal mask is given.
    let ready = unsafe { libc::ppoll(&mut one, 1, &timeout, std::ptr::null()) };
    if ready >= 0 {
        return Ok(ready > 0);
    }
    let error = io::Error::last_os_error();
    if error.kind() == io::ErrorKind::Interrupted { Ok(false) } else { Err(error) }
}
