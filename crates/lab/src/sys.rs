//! Every system call of this crate that needs `unsafe`: namespaces, packet sockets, and children that end with us.
#![allow(unsafe_code)] // the one place of this crate where the kernel is called without a safe wrapper

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::Duration;

/// A network namespace without a name: it lives while this (or a process or socket in it) does.
#[derive(Debug)]
pub struct Namespace {
    file: OwnedFd,
}

impl Namespace {
    /// Makes a namespace. The calling thread stays where it is.
    pub fn new() -> io::Result<Namespace> {
        on_thread(|| {
            // SAFETY: no memory is passed; unshare(2) moves this thread alone, and the thread ends below.
            check(unsafe { libc::unshare(libc::CLONE_NEWNET) })?;
            Ok(Namespace { file: File::open("/proc/thread-self/ns/net")?.into() })
        })
    }

    /// Runs `work` on a thread of its own inside the namespace. Sockets that it opens stay there for good.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        on_thread(|| {
            // SAFETY: the descriptor is open for the whole call; setns(2) moves this thread alone, which ends below.
            check(unsafe { libc::setns(self.file.as_raw_fd(), libc::CLONE_NEWNET) })?;
            work()
        })
    }

    /// Runs `work` like [`Namespace::run`], with a /sys that shows this namespace: sysfs shows the one in which it was
    /// mounted (sysfs(5)). The mount is seen by nobody else and ends with the thread.
    pub fn run_with_sysfs<T: Send>(&self, work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
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
    pub fn confine(&self, command: &mut Command) -> io::Result<()> {
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

    /// The namespace as a file that any process of this user can open and enter while this one lives.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), self.fd()))
    }

    pub(crate) fn fd(&self) -> i32 {
        self.file.as_fd().as_raw_fd()
    }
}

/// A system call that is refused: its number, what the lower half of some of its arguments must be, and the error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RefusedCall {
    pub(crate) call: libc::c_long,
    pub(crate) arguments: &'static [(u32, u32)],
    pub(crate) errno: i32,
}

/// Has a program, and all that it starts, be refused these system calls (seccomp(2), SECCOMP_MODE_FILTER). Needs root.
pub(crate) fn refuse(command: &mut Command, refused: &[RefusedCall]) {
    let program = refusing(refused);
    let install = move || {
        let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
        // SAFETY: the filter is the closure's own, as long as is said, and only read; a system call, which may be made between
        // fork and exec.
        check(unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter) })
    };
    // SAFETY: `install` takes no lock and allocates nothing (an `io::Error` of a number needs no memory).
    unsafe { command.pre_exec(install) };
}

/// A filter over struct seccomp_data (linux/seccomp.h): the first rule whose numbers are all there answers.
fn refusing(refused: &[RefusedCall]) -> Vec<libc::sock_filter> {
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const ANSWER: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    // Behind the number, the architecture and an address, six arguments of eight octets.
    let lower_half = |nth: u32| 16 + 8 * nth + if cfg!(target_endian = "big") { 4 } else { 0 };
    let one = |code, jf, k| libc::sock_filter { code, jt: 0, jf, k };
    let mut program = Vec::new();
    for RefusedCall { call, arguments, errno } in refused {
        let mut left = 2 * arguments.len() as u8 + 1;
        program.extend([one(LOAD, 0, 0), one(EQUAL, left, *call as u32)]);
        for (nth, value) in *arguments {
            left -= 2;
            program.extend([one(LOAD, 0, lower_half(*nth)), one(EQUAL, left, *value)]);
        }
        program.push(one(ANSWER, 0, libc::SECCOMP_RET_ERRNO | *errno as u32));
    }
    program.push(one(ANSWER, 0, libc::SECCOMP_RET_ALLOW));
    program
}

/// A socket that has every frame which arrives at an interface, and sends frames as they are (packet(7)).
pub(crate) fn packet_socket(interface: &CStr) -> io::Result<OwnedFd> {
    const ALL: u16 = (libc::ETH_P_ALL as u16).to_be();
    // SAFETY: the name ends with NUL and outlives the call.
    let index = unsafe { libc::if_nametoindex(interface.as_ptr()) };
    if index == 0 {
        return Err(io::Error::last_os_error());
    }
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: no memory is passed. Protocol 0: nothing arrives before it is bound to its interface.
    let number = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
    check(number)?;
    // SAFETY: the kernel has just made this descriptor, and nobody else has it.
    let socket = unsafe { OwnedFd::from_raw_fd(number) };
    set(&socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1)?;
    let wanted = libc::packet_mreq {
        mr_ifindex: index as libc::c_int,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set(&socket, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &wanted)?;
    // A burst must find room while the reader has no CPU; without CAP_NET_ADMIN it is what the system allows.
    let room: libc::c_int = 32 << 20;
    let _ = set(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &room);
    let _ = set(&socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &room);
    // SAFETY: all-zero is a valid sockaddr_ll, a plain C struct.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = ALL;
    address.sll_ifindex = index as libc::c_int;
    // SAFETY: the address is a sockaddr_ll of the length that is passed, and outlives the call.
    check(unsafe { libc::bind(number, (&raw const address).cast(), size_of_val(&address) as u32) })?;
    Ok(socket)
}

fn set<T>(socket: &OwnedFd, level: i32, name: i32, value: &T) -> io::Result<()> {
    let (place, len) = (std::ptr::from_ref(value).cast(), size_of::<T>() as u32);
    // SAFETY: `value` is a plain C value of the length that is passed, and outlives the call.
    check(unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, place, len) })
}

/// Frames that arrived at a packet socket, and those that found no room in it; both since the last call.
pub(crate) fn packet_statistics(socket: &OwnedFd) -> io::Result<(u32, u32)> {
    let mut counts = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
    let mut len = size_of_val(&counts) as u32;
    let place = (&raw mut counts).cast();
    // SAFETY: `counts` is a plain C struct of the length that is passed, and outlives the call.
    check(unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_PACKET, libc::PACKET_STATISTICS, place, &raw mut len)
    })?;
    Ok((counts.tp_packets, counts.tp_drops))
}

/// Waits until there is something to read, at most this long.
pub(crate) fn wait_readable(socket: &OwnedFd, at_most: Duration) -> io::Result<()> {
    let mut one = libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let time =
        libc::timespec { tv_sec: at_most.as_secs() as libc::time_t, tv_nsec: at_most.subsec_nanos() as libc::c_long };
    // SAFETY: one pollfd and one timespec, both valid for the call; no signal mask.
    match check(unsafe { libc::ppoll(&raw mut one, 1, &raw const time, std::ptr::null()) }) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
        done => done,
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
