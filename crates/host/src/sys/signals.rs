//! Makes a process deaf to the signals that ask it to end.
//! Knows signal(2) only.

/// Ignores SIGHUP, SIGINT, SIGQUIT, SIGTERM and SIGPIPE from now on. SIGKILL cannot be ignored.
pub fn withstand() {
    for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGPIPE] {
        // SAFETY: signal(2) with SIG_IGN installs no handler and touches no memory; these signals may be ignored.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// Ignores SIGPIPE, as Rust's start-up code does: for programs whose `main` is another language's.
pub fn ignore_sigpipe() {
    // SAFETY: as above.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
}
