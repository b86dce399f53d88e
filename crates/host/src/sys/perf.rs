//! Perf events (perf_event_open(2)): a CPU's samples, and the ring in memory in which the kernel leaves them.
//! Knows the layout that the kernel shares, not what the records in the ring say.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::sync::atomic::{AtomicU32, Ordering};

use super::bpf::ioctl_none;
use super::memory::page_octets;

/// What makes an event take samples (`enum perf_type_id` and what belongs to it in linux/perf_event.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES.
    Cycles,
    /// PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK.
    CpuClock,
}

/// Whose samples an event takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PerfScope {
    /// Of everything on a CPU.
    Cpu(u32),
    /// Of the calling thread, and of those that it makes from now on, while they run on this CPU. An event on which
    /// threads inherit has a ring only if it is of one CPU.
    Mine(u32),
}

/// An event that takes samples with their call chains, and its ring. Made switched off.
pub struct Sampler {
    event: File,
    ring: Ring,
}

impl Sampler {
    /// `hz` samples a second; `ring_octets` of room for them, a power of two of pages at least.
    pub fn open(source: Source, whose: PerfScope, hz: u32, kernel: bool, ring_octets: usize) -> io::Result<Sampler> {
        let (pid, cpu, inherit) = match whose {
            PerfScope::Cpu(cpu) => (-1, cpu, false),
            PerfScope::Mine(cpu) => (0, cpu, true),
        };
        let mut flags = flag(DISABLED) | flag(FREQ) | flag(EXCLUDE_HV);
        if inherit {
            flags |= flag(INHERIT);
        }
        if !kernel {
            flags |= flag(EXCLUDE_KERNEL);
        }
        let (kind, config) = match source {
            Source::Cycles => (0, 0),
            Source::CpuClock => (1, 0),
        };
        let attributes = Attributes {
            kind,
            size: size_of::<Attributes>() as u32,
            config,
            frequency: hz.into(),
            // PERF_SAMPLE_IP, PERF_SAMPLE_TID, PERF_SAMPLE_CALLCHAIN
            sample_type: 1 | 1 << 1 | 1 << 5,
            read_format: 0,
            flags,
            wakeup_events: u32::MAX,
            breakpoint_type: 0,
            config1: 0,
        };
        let cpu = libc::c_int::try_from(cpu).map_err(|_| io::ErrorKind::InvalidInput)?;
        // SAFETY: the kernel reads as many octets of the live struct as its size field says; the rest are numbers.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                &raw const attributes,
                pid as libc::pid_t,
                cpu,
                -1 as libc::c_int,
                FLAG_FD_CLOEXEC,
            )
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just given this descriptor, and nobody else has it.
        let event = unsafe { File::from_raw_fd(fd as libc::c_int) };
        let ring = Ring::new(&event, ring_octets)?;
        Ok(Sampler { event, ring })
    }

    /// Takes samples from now on.
    pub fn enable(&self) -> io::Result<()> {
        self.switch(ENABLE)
    }

    /// Takes no more.
    pub fn disable(&self) -> io::Result<()> {
        self.switch(DISABLE)
    }

    fn switch(&self, request: u32) -> io::Result<()> {
        // SAFETY: these two requests take a number only.
        let result = unsafe { libc::ioctl(self.event.as_raw_fd(), request as _, 0) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Hands over every record that has come, each with its header, and frees their room.
    pub fn read(&mut self, record: &mut dyn FnMut(&[u8])) {
        self.ring.read(record);
    }
}

/// `struct perf_event_attr` as the first kernels had it (PERF_ATTR_SIZE_VER0, 64 octets), which all later ones take.
#[repr(C)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    frequency: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    config1: u64,
}

/// The numbers of the bit fields in `flags`.
const DISABLED: u32 = 0;
const INHERIT: u32 = 1;
const EXCLUDE_KERNEL: u32 = 5;
const EXCLUDE_HV: u32 = 6;
const FREQ: u32 = 10;

/// PERF_FLAG_FD_CLOEXEC, since Linux 3.14.
const FLAG_FD_CLOEXEC: libc::c_ulong = 8;

/// C lays bit fields out from the lowest bit on little-endian machines, and from the highest on big-endian ones.
const fn flag(number: u32) -> u64 {
    if cfg!(target_endian = "big") { 1 << (63 - number) } else { 1 << number }
}

/// PERF_EVENT_IOC_ENABLE and _DISABLE.
const ENABLE: u32 = ioctl_none(0);
const DISABLE: u32 = ioctl_none(1);

/// The memory that the kernel writes and we read: a page of its positions, then the records, round and round
/// (`struct perf_event_mmap_page`).
struct Ring {
    base: *mut u8,
    page: usize,
    data: usize,
    /// A record that lies across the end, put together.
    joined: Vec<u8>,
}

// SAFETY: the mapping belongs to this value alone and is reached through its borrows only.
unsafe impl Send for Ring {}

/// Where the page holds `data_head` and `data_tail`, of 64 bits each.
const HEAD: usize = 1024;
const TAIL: usize = 1032;
/// The half of 64 bits that has the low 32: all that matters in a ring that is smaller than 4 GiB, and all that
/// machines without 64-bit atomics can read at once.
const LOW: usize = if cfg!(target_endian = "big") { 4 } else { 0 };
/// A record's size is 16 bits.
const LONGEST_RECORD: usize = 65_535;
const RECORD_HEADER: usize = 8;

impl Ring {
    fn new(event: &File, octets: usize) -> io::Result<Ring> {
        let page = page_octets();
        let data = octets.max(page).checked_next_power_of_two();
        // Positions are reckoned in 32 bits.
        let data = data.filter(|&data| data <= 1 << 30).ok_or(io::ErrorKind::InvalidInput)?;
        // SAFETY: no address is asked for, so nothing that is mapped already changes.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                page + data,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                event.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Ring { base: base.cast(), page, data, joined: Vec::new() })
    }

    fn position(&self, at: usize) -> &AtomicU32 {
        // SAFETY: both positions lie in the first page, mapped as long as `self` lives, at multiples of four octets; the
        // kernel writes them at any time, which an atomic allows.
        unsafe { &*self.base.add(at + LOW).cast::<AtomicU32>() }
    }

    fn read(&mut self, record: &mut dyn FnMut(&[u8])) {
        // What the kernel wrote before it moved the head is seen after it (linux/perf_event.h asks for this barrier).
        let head = self.position(HEAD).load(Ordering::Acquire);
        let mut tail = self.position(TAIL).load(Ordering::Relaxed);
        while head.wrapping_sub(tail) as usize >= RECORD_HEADER {
            let header = self.octets(tail, RECORD_HEADER);
            let size = usize::from(u16::from_ne_bytes([header[6], header[7]]));
            // Only a kernel that is broken writes another; what follows could not be found.
            if size < RECORD_HEADER || size > (head.wrapping_sub(tail) as usize) {
                tail = head;
                break;
            }
            record(self.octets(tail, size));
            tail = tail.wrapping_add(size as u32);
        }
        // Our reads are done before the kernel may write there again.
        self.position(TAIL).store(tail, Ordering::Release);
    }

    /// `len` octets from a position on, put together where they lie across the end.
    fn octets(&mut self, from: u32, len: usize) -> &[u8] {
        debug_assert!(len <= LONGEST_RECORD);
        let (at, len) = (from as usize & (self.data - 1), len.min(self.data));
        let first = len.min(self.data - at);
        // SAFETY: `at + first <= data`, all of it mapped behind the first page as long as `self` lives; between head and
        // tail the kernel writes nothing, and the caller asks for nothing else.
        let part = |at: usize, len: usize| unsafe { std::slice::from_raw_parts(self.base.add(self.page + at), len) };
        if first == len {
            return part(at, len);
        }
        self.joined.clear();
        self.joined.extend_from_slice(part(at, first));
        self.joined.extend_from_slice(part(0, len - first));
        &self.joined
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: exactly what mmap returned, unmapped once; no borrow outlives `self`.
        unsafe { libc::munmap(self.base.cast(), self.page + self.data) };
    }
}
