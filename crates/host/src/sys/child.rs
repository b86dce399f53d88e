//! Children of this process: that they end with it, and are asked to end.
//! Knows prctl(2) and kill(2) only.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

/// Has the child asked to end (SIGTERM) when the thread that starts it ends, however that ends: nothing stays behind. It has
/// a process group of its own, so that a terminal's Ctrl-C is for this process alone.
pub fn end_with_us(command: &mut Command) {
    command.process_group(0);
    let parent = std::process::id();
    // SAFETY: between fork and exec it makes three system calls that are async-signal-safe, and allocates nothing.
    unsafe { command.pre_exec(move || end_with(parent)) };
}

// Otherwise it is in the program twice, once as what a pointer points to.
#[inline(never)]
fn end_with(parent: u32) -> io::Result<()> {
    // SAFETY: takes numbers only (PR_SET_PDEATHSIG); the setting is the child's own and survives execve(2).
    if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM as libc::c_ulong) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: takes nothing, and always succeeds. A parent that has ended already sends no signal any more.
    if unsafe { libc::getppid() } as u32 != parent {
        return Err(io::ErrorKind::NotFound.into());
    }
    // SAFETY: takes numbers only. A shell has what it starts in the background ignore Ctrl-C, and children would inherit it; this one
    // may be asked to end so.
    if unsafe { libc::signal(libc::SIGINT, libc::SIG_DFL) } == libc::SIG_ERR {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Asks a child to end: as Ctrl-C does, or as `kill` does.
pub fn ask_to_end(child: &Child, as_ctrl_c: bool) {
    let signal = if as_ctrl_c { libc::SIGINT } else { libc::SIGTERM };
    if let Ok(number) = libc::pid_t::try_from(child.id()) {
        // SAFETY: takes numbers only. A child that nobody has waited for keeps its number.
        unsafe { libc::kill(number, signal) };
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    #[test]
    fn a_child_ends_with_the_thread_that_started_it() {
        let child = std::thread::spawn(|| {
            let mut command = Command::new("/bin/sleep");
            command.arg("60");
            end_with_us(&mut command);
            command.spawn().unwrap()
        });
        let status = child.join().unwrap().wait().unwrap();
        assert_eq!(status.signal(), Some(libc::SIGTERM));
    }

    #[test]
    fn a_child_is_asked_to_end() {
        for (as_ctrl_c, signal) in [(true, libc::SIGINT), (false, libc::SIGTERM)] {
            let mut command = Command::new("/bin/sleep");
            command.arg("60");
            end_with_us(&mut command);
            let mut child = command.spawn().unwrap();
            ask_to_end(&child, as_ctrl_c);
            assert_eq!(child.wait().unwrap().signal(), Some(signal));
        }
    }
}
