//! The bpf system call as far as it counts, answers and sends packets: maps, small programs, what they are attached to,
//! and frames of their own. Knows instructions as numbers, not what they do.
//!
//! Everything hangs on file descriptors (bpf(2)): it is gone when they are closed, and so when the process ends,
//! however it ends.

mod live;
mod map;

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

pub use live::{MAX_BATCH, MAX_FRAME};
pub use map::{Array, Counts, PerCpuArray, Sockets};

// linux/bpf.h.
const BPF_PROG_LOAD: libc::c_int = 5;
const BPF_LINK_CREATE: libc::c_int = 28;
const BPF_LINK_DETACH: libc::c_int = 34;
const BPF_XDP: u32 = 37;
// linux/perf_event.h.
const PERF_TYPE_TRACEPOINT: u32 = 2;
/// PERF_ATTR_SIZE_VER0: as old as any kernel that can do this.
const PERF_ATTR_SIZE: u32 = 64;
const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 8;
const PERF_EVENT_IOC_SET_BPF: u32 = 8;
const PERF_EVENT_IOC_ENABLE: u32 = 0;

/// What a program may do, by where it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramKind {
    /// Sees the record of a tracepoint.
    Tracepoint,
    /// Sees a frame before the stack, and says what becomes of it.
    Xdp,
}

/// One instruction (struct bpf_insn).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Operation.
    pub code: u8,
    /// Destination register, 0 to 10.
    pub to: u8,
    /// Source register, 0 to 10.
    pub from: u8,
    /// Offset of a jump or an address.
    pub offset: i16,
    /// A number.
    pub number: i32,
}

impl Instruction {
    fn octets(self) -> [u8; 8] {
        // Bit fields: the first is in the lower half on little-endian machines, in the upper one on others.
        let registers =
            if cfg!(target_endian = "little") { self.from << 4 | self.to } else { self.to << 4 | self.from };
        let [o0, o1] = self.offset.to_ne_bytes();
        let [n0, n1, n2, n3] = self.number.to_ne_bytes();
        [self.code, registers, o0, o1, n0, n1, n2, n3]
    }
}

/// A program that the kernel has checked.
#[derive(Debug)]
pub struct Program(OwnedFd);

/// What a program is attached to; dropping it takes the program off, as the end of the process does.
#[derive(Debug)]
pub struct Attached {
    to: OwnedFd,
    is_link: bool,
}

impl Drop for Attached {
    fn drop(&mut self) {
        if self.is_link {
            // Closing would do, but for a process that was just forked: it has the descriptor too, until it becomes another
            // program. struct { link_fd } of union bpf_attr; refused before Linux 5.9, and then there are no links either.
            let _ = bpf(BPF_LINK_DETACH, &mut [self.to.as_raw_fd() as u32]);
        }
    }
}

/// The kernel took no program.
#[derive(Debug, thiserror::Error)]
#[error("{error}{}{}", if log.is_empty() { "" } else { ": " }, self.reason())]
pub struct LoadError {
    /// What the system call said.
    #[source]
    pub error: io::Error,
    /// The verifier's account of the program, instruction by instruction; empty where it did not come to that.
    pub log: String,
}

impl LoadError {
    /// The line that says why: the last but for statistics.
    pub fn reason(&self) -> &str {
        let is_statistics = |line: &str| line.is_empty() || line.starts_with("processed ");
        self.log.lines().map(str::trim).rfind(|line| !is_statistics(line)).unwrap_or_default()
    }
}

impl From<LoadError> for io::Error {
    fn from(refused: LoadError) -> io::Error {
        if refused.log.is_empty() { refused.error } else { io::Error::new(refused.error.kind(), refused) }
    }
}

/// Room for the verifier's log. What does not fit fails the load before Linux 6.4; this is some thousand instructions.
const LOG_OCTETS: usize = 1 << 20;

impl Program {
    /// Has the kernel check and take a program. It calls no function that is only for GPL programs.
    pub fn load(kind: ProgramKind, instructions: &[Instruction]) -> Result<Program, LoadError> {
        let code: Vec<u8> = instructions.iter().flat_map(|one| one.octets()).collect();
        let error = match Program::load_logged(kind, &code, &mut []) {
            Ok(program) => return Ok(program),
            Err(error) => error,
        };
        // A log takes the verifier's time, so only a refusal has one; without rights there is nothing to tell.
        if error.raw_os_error() == Some(libc::EPERM) {
            return Err(LoadError { error, log: String::new() });
        }
        let mut log = vec![0; LOG_OCTETS];
        match Program::load_logged(kind, &code, &mut log) {
            // EAGAIN, when a signal came.
            Ok(program) => Ok(program),
            Err(error) => {
                let end = log.iter().position(|octet| *octet == 0).unwrap_or(log.len());
                Err(LoadError { error, log: String::from_utf8_lossy(&log[..end]).into_owned() })
            }
        }
    }

    fn load_logged(kind: ProgramKind, code: &[u8], log: &mut [u8]) -> io::Result<Program> {
        #[repr(C, align(8))]
        struct Load {
            kind: u32,
            count: u32,
            instructions: u64,
            license: u64,
            log_level: u32,
            log_size: u32,
            log: u64,
            kernel_version: u32,
            flags: u32,
        }
        let mut load = Load {
            kind: match kind {
                ProgramKind::Tracepoint => 5,
                ProgramKind::Xdp => 6,
            },
            count: (code.len() / 8) as u32,
            instructions: pointer(code.as_ptr()),
            license: pointer(c"Apache-2.0".as_ptr().cast::<u8>()),
            log_level: u32::from(!log.is_empty()),
            log_size: log.len() as u32,
            log: if log.is_empty() { 0 } else { pointer_mut(log.as_mut_ptr()) },
            kernel_version: 0,
            flags: 0,
        };
        Ok(Program(owned(bpf(BPF_PROG_LOAD, &mut load)?)))
    }

    /// Runs the program whenever the tracepoint of this number is passed, on every CPU, until the value is dropped.
    pub fn attach_to_tracepoint(&self, id: u64) -> io::Result<Attached> {
        let event = tracepoint_event(id)?;
        for (request, argument) in
            [(ioctl_write(PERF_EVENT_IOC_SET_BPF), self.0.as_raw_fd()), (ioctl_none(PERF_EVENT_IOC_ENABLE), 0)]
        {
            // SAFETY: both requests take a number and read or write no memory of ours; the descriptor is open.
            if unsafe { libc::ioctl(event.as_raw_fd(), request as _, libc::c_ulong::from(argument as u32)) } < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(Attached { to: event, is_link: false })
    }

    /// Runs an XDP program on every frame that the interface of this index receives, by the driver or the stack. Since
    /// Linux 5.9. `in_stack`: not in the driver, even where it could (XDP_FLAGS_SKB_MODE). EBUSY or EEXIST: another
    /// program is there.
    pub fn attach_to_interface(&self, index: u32, in_stack: bool) -> io::Result<Attached> {
        // struct { prog_fd, target_ifindex, attach_type, flags } of union bpf_attr; the flag is XDP_FLAGS_SKB_MODE or
        // XDP_FLAGS_DRV_MODE of linux/if_link.h.
        let mut words = [self.0.as_raw_fd() as u32, index, BPF_XDP, if in_stack { 2 } else { 4 }];
        Ok(Attached { to: owned(bpf(BPF_LINK_CREATE, &mut words)?), is_link: true })
    }
}

/// A perf event that counts passes of a tracepoint; on which CPU does not matter to a program attached to it.
fn tracepoint_event(id: u64) -> io::Result<OwnedFd> {
    // struct perf_event_attr, version 0: type, size, config, period, sample_type, read_format, flags, wakeup, …
    let mut attribute = [0u64; PERF_ATTR_SIZE as usize / 8];
    let head = [PERF_TYPE_TRACEPOINT.to_ne_bytes(), PERF_ATTR_SIZE.to_ne_bytes()].concat();
    attribute[0] = u64::from_ne_bytes(head.try_into().expect("two words make eight octets"));
    attribute[1] = id;
    // SAFETY: the kernel reads PERF_ATTR_SIZE octets, the length of the array, and keeps no pointer to it.
    let event = unsafe {
        libc::syscall(libc::SYS_perf_event_open, attribute.as_ptr(), -1i32, 0i32, -1i32, PERF_FLAG_FD_CLOEXEC)
    };
    if event < 0 { Err(io::Error::last_os_error()) } else { Ok(owned(event as RawFd)) }
}

/// Asks the kernel; what comes back is a descriptor, or 0.
fn bpf<T>(command: libc::c_int, attribute: &mut T) -> io::Result<RawFd> {
    // SAFETY: `attribute` is a structure of plain numbers that the kernel may read and write for its whole length, which
    // is passed; pointers within it are to memory that outlives the call and is as long as the map's keys and values
    // are, or as the length beside it says.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attribute), size_of::<T>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as RawFd) }
}

fn owned(descriptor: RawFd) -> OwnedFd {
    // SAFETY: the kernel has just made this descriptor for us, and nobody else has it.
    unsafe { OwnedFd::from_raw_fd(descriptor) }
}

fn pointer<T>(to: *const T) -> u64 {
    to.expose_provenance() as u64
}

fn pointer_mut<T>(to: *mut T) -> u64 {
    to.expose_provenance() as u64
}

/// `_IOW('$', number, __u32)` (asm-generic/ioctl.h, and arch/{mips,powerpc,sparc}/include/uapi/asm/ioctl.h, where
/// three bits tell the direction and "write" is the highest).
fn ioctl_write(number: u32) -> u32 {
    let write: u32 = if THREE_BITS { 4 << 29 } else { 1 << 30 };
    write | 4 << 16 | u32::from(b'$') << 8 | number
}

/// `_IO('$', number)`.
pub(super) const fn ioctl_none(number: u32) -> u32 {
    (if THREE_BITS { 1 << 29 } else { 0 }) | (b'$' as u32) << 8 | number
}

const THREE_BITS: bool = cfg!(any(
    target_arch = "mips",
    target_arch = "mips64",
    target_arch = "mips32r6",
    target_arch = "mips64r6",
    target_arch = "powerpc",
    target_arch = "powerpc64",
    target_arch = "sparc",
    target_arch = "sparc64"
));
