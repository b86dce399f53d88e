//! Every system call of this crate that needs `unsafe`: namespaces, and children that end with us.
//! Knows nothing of links and addresses.
#![allow(unsafe_code)] // the one place of this crate where the kernel is called without a safe wrapper

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::thread;

/// A network namespace without a name: it lives while this (or a process or socket in it) does.
#[derive(Debug)]
pub(crate) struct Namespace {
    file: OwnedFd,
}

impl Namespace {
    /// Makes a namespace. The calling thread stays where it is.
    pub(crate) fn new() -> io::Result<Namespace> {
        on_thread(|| {
            // SAFETY: no memory is passed; unshare(2) moves this thread alone, and the thread ends below.
            check(unsafe { libc::unshare(libc::CLONE_NEWNET) })?;
            Ok(Namespace { file: File::open("/proc/thread-self/ns/net")?.into() })
        })
    }

    /// Runs `work` on a thread of its own inside the namespace. Sockets that it opens stay there for good.
    pub(crate) fn run<T: Send>(&self, work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        on_thread(|| {
            // SAFETY: the descriptor is open for the whole call; setns(2) moves this thread alone, which ends below.
            check(unsafe { libc::setns(self.file.as_raw_fd(), libc::CLONE_NEWNET) })?;
            work()
        })
    }

    /// Runs `work` like [`Namespace::run`], with a /sys that shows this namespace: sysfs shows the one in which it was
    /// mounted (sysfs(5)). The mount is seen by nobody else and ends with the thread.
    pub(crate) fn run_with_sysfs<T: Send>(&self, work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        self.run(|| {
            // SAFETY: no memory is passed; unshare(2) moves this thread alone, which ends after `work`.
            check(unsafe { libc::unshare(libc::CLONE_NEWNS) })?;
            let nothing = std::ptr::null();
            // SAFETY: both paths and the type end with NUL and outlive the calls; no data is passed. The first call
            // keeps the second from being seen outside this thread's mount namespace.
            unsafe {
                let private = libc::MS_REC | libc::MS_PRIVATE;
                check(libc::mount(c"none".as_ptr(), c"/".as_ptr(), nothing, private, nothing.cast()))?;
                check(libc::mount(c"sysfs".as_ptr(), c"/sys".as_ptr(), c"sysfs".as_ptr(), 0, nothing.cast()))?;
            }
            work()
        })
    }

    /// Has a program start inside the namespace, and be killed when the thread that starts it ends, however that
    /// ends: start it from one that lives as long as the program is wanted.
    pub(crate) fn confine(&self, command: &mut Command) -> io::Result<()> {
        let namespace = self.file.try_clone()?;
        let parent = std::process::id();
        let enter = move || {
            // SAFETY: the descriptor is the closure's own and open. All three are system calls without memory, which
            // may be made between fork and exec.
            unsafe {
                check(libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET))?;
                check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL))?;
                // The parent may have ended before it could be said what follows from that.
                if libc::getppid() as u32 != parent {
                    return Err(io::ErrorKind::BrokenPipe.into());
                }
            }
            Ok(())
        };
        // SAFETY: `enter` takes no lock and allocates nothing (an `io::Error` of a number or a kind needs no memory).
        unsafe { command.pre_exec(enter) };
        Ok(())
    }

    pub(crate) fn fd(&self) -> i32 {
        self.file.as_fd().as_raw_fd()
    }
}

/// Moves the whole process into a new user namespace. Fails with EINVAL if it has a second thread.
pub(crate) fn unshare_user() -> io::Result<()> {
    // SAFETY: no memory is passed; the kernel refuses a process with several threads (unshare(2)).
    check(unsafe { libc::unshare(libc::CLONE_NEWUSER) })
}

/// The effective user and group of this process.
pub(crate) fn effective_ids() -> (u32, u32) {
    // SAFETY: both calls take nothing and always succeed (getuid(2)).
    unsafe { (libc::geteuid(), libc::getegid()) }
}

/// What a child process met that tried to make a user namespace with a network namespace in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UserNamespaceTrial {
    Works,
    /// The namespace was refused, with this error number.
    Refused(i32),
    /// It was made, but carries no rights over its own network: a security module took them away.
    Powerless(i32),
}

/// Tries in a child process, because a process cannot leave a user namespace again and a kernel may have
/// three different switches that forbid it: nothing tells the truth but trying.
pub(crate) fn try_user_namespace() -> io::Result<UserNamespaceTrial> {
    const POWERLESS: i32 = 0x80;
    // SAFETY: the child calls only async-signal-safe functions (system calls on its own stack) before `_exit`, so a
    // lock that another thread held at the time of the fork is never waited for.
    let child = unsafe { libc::fork() };
    if child < 0 {
        return Err(io::Error::last_os_error());
    }
    if child == 0 {
        // SAFETY: as above; `request` is a zeroed plain C struct, valid for the two ioctls that read and write it.
        unsafe {
            if libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNET) < 0 {
                libc::_exit(errno() & 0x7f);
            }
            let socket = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
            let mut request: libc::ifreq = std::mem::zeroed();
            request.ifr_name[0] = b'l' as libc::c_char;
            request.ifr_name[1] = b'o' as libc::c_char;
            request.ifr_ifru.ifru_flags = libc::IFF_UP as libc::c_short;
            if libc::ioctl(socket, libc::SIOCSIFFLAGS as _, &raw mut request) < 0 {
                libc::_exit(POWERLESS | (errno() & 0x7f));
            }
            libc::_exit(0);
        }
    }
    let mut status = 0;
    loop {
        // SAFETY: `child` is our own child, not yet waited for; `status` is a valid place to write.
        if unsafe { libc::waitpid(child, &raw mut status, 0) } == child {
            break;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    match libc::WEXITSTATUS(status) {
        _ if !libc::WIFEXITED(status) => Err(io::Error::other("the child that tried was killed")),
        0 => Ok(UserNamespaceTrial::Works),
        code if code & POWERLESS != 0 => Ok(UserNamespaceTrial::Powerless(code & 0x7f)),
        code => Ok(UserNamespaceTrial::Refused(code)),
    }
}

fn errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Namespaces belong to threads: a thread that entered one must end there, not serve anything else afterwards.
fn on_thread<T: Send>(work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("lab".to_owned()).spawn_scoped(scope, work)?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
