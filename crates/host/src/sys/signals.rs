//! The signals that ask a process to end: ignored, or told to who asks.
//! Knows signal(2) and sigaction(2) only.

use std::sync::atomic::{AtomicI32, Ordering};

static CAME: AtomicI32 = AtomicI32::new(0);

/// From now on SIGINT, SIGTERM and SIGHUP end the process only when the second of them comes, with the status that a shell
/// gives to who dies of it; [`came`] tells the first.
pub fn listen() {
    extern "C" fn note(signal: libc::c_int) {
        if CAME.swap(signal, Ordering::Relaxed) != 0 {
            // SAFETY: _exit(2) is async-signal-safe and has no conditions.
            unsafe { libc::_exit(128 + signal) };
        }
    }
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: all zeros is a valid sigaction: no flags, an empty mask.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = note as extern "C" fn(libc::c_int) as usize;
        // No system call of a program that does not know of this fails with EINTR.
        action.sa_flags = libc::SA_RESTART;
        // SAFETY: `action` is whole and outlives the call; its handler only swaps an atomic, and calls _exit(2).
        unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
    }
}

/// The signal that came last since [`listen`].
pub fn came() -> Option<i32> {
    Some(CAME.load(Ordering::Relaxed)).filter(|signal| *signal != 0)
}

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
