//! The signals that ask a process to end, or to stand still: ignored, or told to who asks.
//! Knows signal(2) and sigaction(2) only.

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

static CAME: AtomicI32 = AtomicI32::new(0);
static STOP: AtomicBool = AtomicBool::new(false);
static CONTINUED: AtomicBool = AtomicBool::new(false);

/// From now on SIGINT, SIGTERM and SIGHUP end the process only when the second of them comes, with the status that a shell
/// gives to who dies of it; [`came`] tells the first.
pub fn listen() {
    extern "C" fn note(signal: libc::c_int) {
        if CAME.swap(signal, Ordering::Relaxed) != 0 {
            // SAFETY: _exit(2) is async-signal-safe and has no conditions.
            unsafe { libc::_exit(128 + signal) };
        }
    }
    handle(&[libc::SIGINT, libc::SIGTERM, libc::SIGHUP], note);
}

/// From now on `note` runs when one of these signals comes. It may do only what signal-safety(7) allows: swap atomics, call _exit(2).
fn handle(signals: &[libc::c_int], note: extern "C" fn(libc::c_int)) {
    for signal in signals {
        // SAFETY: all zeros is a valid sigaction: no flags, an empty mask.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = note as usize;
        // No system call of a program that does not know of this fails with EINTR.
        action.sa_flags = libc::SA_RESTART;
        // SAFETY: `action` is whole and outlives the call; its handler is one of the two in this file, which keep to the above.
        unsafe { libc::sigaction(*signal, &raw const action, std::ptr::null_mut()) };
    }
}

/// The signal that came last since [`listen`].
pub fn came() -> Option<i32> {
    Some(CAME.load(Ordering::Relaxed)).filter(|signal| *signal != 0)
}

/// Forgets what came: the next signal is a first one again. For a program that has passed it on to a child.
pub fn forget() {
    CAME.store(0, Ordering::Relaxed);
}

/// Whether the signal that came last is Ctrl-C's.
pub fn is_ctrl_c() -> bool {
    came() == Some(libc::SIGINT)
}

/// From now on SIGTSTP is told by [`is_to_stop`] and stops nothing, and SIGCONT by [`has_continued`].
pub fn listen_for_stops() {
    extern "C" fn note(signal: libc::c_int) {
        let told = if signal == libc::SIGTSTP { &STOP } else { &CONTINUED };
        told.store(true, Ordering::Relaxed);
    }
    handle(&[libc::SIGTSTP, libc::SIGCONT], note);
}

/// Whether SIGTSTP came since this was asked last.
pub fn is_to_stop() -> bool {
    STOP.swap(false, Ordering::Relaxed)
}

/// Whether this process was let go on since this was asked last.
pub fn has_continued() -> bool {
    CONTINUED.swap(false, Ordering::Relaxed)
}

/// Stands still until somebody lets this process go on.
pub fn stop() {
    // SAFETY: raise(3) takes a number only.
    unsafe { libc::raise(libc::SIGSTOP) };
}

/// Asks a process to end in good order, as Ctrl-C does. `false`: it is not there any more.
pub fn ask_to_end(process: u32) -> bool {
    // A number that is no process's would be a group's.
    let Ok(process @ 2..) = libc::pid_t::try_from(process) else { return false };
    // SAFETY: kill(2) takes numbers only, and this one is of one process.
    unsafe { libc::kill(process, libc::SIGINT) == 0 }
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

/// A thread of this process whose system calls [`interrupt`] ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interruptible(libc::c_long);

/// The calling thread. A signal that is ignored where nobody handles it (SIGURG, signal(7)) is handled from now on, by
/// doing nothing; other system calls go on after it.
pub fn interruptible() -> Interruptible {
    extern "C" fn nothing(_: libc::c_int) {}
    // SAFETY: all zeros is a valid sigaction: no flags, an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as usize;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: `action` is whole and outlives the call; its handler does nothing.
    unsafe { libc::sigaction(libc::SIGURG, &raw const action, std::ptr::null_mut()) };
    // SAFETY: takes nothing, and always succeeds (gettid(2)).
    Interruptible(unsafe { libc::syscall(libc::SYS_gettid) })
}

/// Ends a system call of that thread which looks for signals, with EINTR if it does not go on by itself. A call that the
/// thread is about to make is not ended: ask again until it says that it was. Of a thread that has ended nothing happens.
pub fn interrupt(thread: Interruptible) {
    // SAFETY: takes numbers only; tgkill(2) sends to a thread of this process alone, and its handler does nothing.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread.0, libc::SIGURG) };
}
