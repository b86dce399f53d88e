//! The bpf system call as far as it counts and drops packets: maps, small programs, and what they are attached to.
//! Knows instructions as numbers; what they do is for whoever wrote them.
//!
//! Everything hangs on file descriptors (bpf(2)): it is gone when they are closed, and so when the process ends,
//! however it ends.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

// linux/bpf.h.
const BPF_MAP_CREATE: libc::c_int = 0;
const BPF_MAP_LOOKUP_ELEM: libc::c_int = 1;
const BPF_MAP_GET_NEXT_KEY: libc::c_int = 4;
const BPF_PROG_LOAD: libc::c_int = 5;
const BPF_LINK_CREATE: libc::c_int = 28;
const BPF_MAP_TYPE_HASH: u32 = 1;
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

/// A hash map in the kernel, from keys of `K` octets to a 64-bit number.
#[derive(Debug)]
pub struct Counts<const K: usize> {
    map: OwnedFd,
    most: u32,
}

impl<const K: usize> Counts<K> {
    /// An empty map for at most so many keys.
    pub fn new(most: u32) -> io::Result<Counts<K>> {
        // struct { map_type, key_size, value_size, max_entries } of union bpf_attr.
        let mut words = [BPF_MAP_TYPE_HASH, K as u32, 8, most];
        let map = owned(bpf(BPF_MAP_CREATE, &mut words)?);
        Ok(Counts { map, most })
    }

    /// The map's number, for the instruction that loads its address.
    pub fn number(&self) -> i32 {
        self.map.as_raw_fd()
    }

    /// How many keys it may have.
    pub fn most(&self) -> u32 {
        self.most
    }

    /// Every key and its number. A map that somebody writes to meanwhile may show a key twice or not at all, but it
    /// ends.
    pub fn read(&self) -> io::Result<Vec<([u8; K], u64)>> {
        let mut found: Vec<([u8; K], u64)> = Vec::new();
        while found.len() < 2 * self.most as usize {
            let (mut key, mut value) = ([0u8; K], 0u64);
            let mut element = Element {
                map: self.map.as_raw_fd() as u32,
                pad: 0,
                // Behind no key comes the first.
                key: found.last().map_or(0, |(last, _)| pointer(last.as_ptr())),
                value: pointer_mut(key.as_mut_ptr()),
                flags: 0,
            };
            match bpf(BPF_MAP_GET_NEXT_KEY, &mut element) {
                Err(error) if error.raw_os_error() == Some(libc::ENOENT) => break,
                other => other?,
            };
            (element.key, element.value) = (pointer(key.as_ptr()), pointer_mut(&raw mut value));
            bpf(BPF_MAP_LOOKUP_ELEM, &mut element)?;
            found.push((key, value));
        }
        Ok(found)
    }
}

/// `struct { map_fd, key, value or next_key, flags }` of union bpf_attr.
#[repr(C, align(8))]
struct Element {
    map: u32,
    pad: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// A program that the kernel has checked.
#[derive(Debug)]
pub struct Program(OwnedFd);

/// What a program is attached to; dropping it takes the program off.
#[derive(Debug)]
pub struct Attached {
    _to: OwnedFd,
}

impl Program {
    /// Has the kernel check and take a program. It calls no function that is only for GPL programs.
    pub fn load(kind: ProgramKind, instructions: &[Instruction]) -> io::Result<Program> {
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
        let code: Vec<u8> = instructions.iter().flat_map(|one| one.octets()).collect();
        let mut load = Load {
            kind: match kind {
                ProgramKind::Tracepoint => 5,
                ProgramKind::Xdp => 6,
            },
            count: instructions.len() as u32,
            instructions: pointer(code.as_ptr()),
            license: pointer(c"Apache-2.0".as_ptr().cast::<u8>()),
            log_level: 0,
            log_size: 0,
            log: 0,
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
        Ok(Attached { _to: event })
    }

    /// Runs an XDP program on every frame that the interface of this index receives, by the driver or the stack. Since
    /// Linux 5.9. `in_stack`: not in the driver, even where it could (XDP_FLAGS_SKB_MODE).
    pub fn attach_to_interface(&self, index: u32, in_stack: bool) -> io::Result<Attached> {
        // struct { prog_fd, target_ifindex, attach_type, flags } of union bpf_attr; the flag is XDP_FLAGS_SKB_MODE or
        // XDP_FLAGS_DRV_MODE of linux/if_link.h.
        let mut words = [self.0.as_raw_fd() as u32, index, BPF_XDP, if in_stack { 2 } else { 4 }];
        Ok(Attached { _to: owned(bpf(BPF_LINK_CREATE, &mut words)?) })
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
    // are, or as the instructions counted beside it.
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
fn ioctl_none(number: u32) -> u32 {
    (if THREE_BITS { 1 << 29 } else { 0 }) | u32::from(b'$') << 8 | number
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
