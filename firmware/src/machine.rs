//! The machine under the firmware: where a processor begins, memory that MACs share, registers, a counter of time.
//! The one file with unsafe code: everything else is built on what stands here.
#![allow(unsafe_code, reason = "a processor without an operating system is reached by no other way")]

use core::arch::{asm, global_asm};
use core::cell::UnsafeCell;
use core::ptr::{copy_nonoverlapping, read_volatile, write_volatile};

use linerate_nic::bus::{Block, Bus, BusAddress, Register, Registers};

// One processor runs, on the stack of sections; the others wait for ever: two of them in one ring would be bug B1 of
// docs/rings.md. MMU and caches stay as reset leaves them, off, so that memory is as MACs see it.
#[cfg(target_arch = "arm")]
global_asm!(
    ".section .text.start, \"ax\"",
    ".global _start",
    "_start: mrc p15, 0, r0, c0, c0, 5", // MPIDR
    "ands r0, r0, #3",
    "1: wfene",
    "bne 1b",
    "ldr sp, =stack_top",
    "ldr r0, =bss_start",
    "ldr r1, =bss_end",
    "mov r2, #0",
    "2: cmp r0, r1",
    "strlo r2, [r0], #4",
    "blo 2b",
    "bl main",
);

#[cfg(target_arch = "aarch64")]
global_asm!(
    ".section .text.start, \"ax\"",
    ".global _start",
    "_start: mrs x0, mpidr_el1",
    "and x0, x0, #0xff",
    "1: cbz x0, 2f",
    "wfe",
    "b 1b",
    "2: ldr x0, =stack_top",
    "mov sp, x0",
    "ldr x0, =bss_start",
    "ldr x1, =bss_end",
    "3: cmp x0, x1",
    "b.hs 4f",
    "str xzr, [x0], #8",
    "b 3b",
    "4: bl main",
);

#[cfg(any(target_arch = "riscv32", target_arch = "riscv64"))]
global_asm!(
    ".section .text.start, \"ax\"",
    ".global _start",
    "_start: csrr a0, mhartid",
    "1: beqz a0, 2f",
    "wfi",
    "j 1b",
    "2: la sp, stack_top",
    "la a0, bss_start",
    "la a1, bss_end",
    "3: bgeu a0, a1, 4f",
    "sw zero, 0(a0)",
    "addi a0, a0, 4",
    "j 3b",
    "4: call main",
);

// SAFETY: the only symbol of this name, and what `_start` jumps to.
#[unsafe(no_mangle)]
extern "C" fn main() -> ! {
    crate::run()
}

/// Bytes that MACs and this program share.
const SHARED_LEN: usize = 2 << 20;

/// Descriptors and buffers. AXI DMA's descriptors are the most demanding: 64 bytes (PG021).
#[repr(C, align(64))]
struct Shared(UnsafeCell<[u8; SHARED_LEN]>);

// SAFETY: one processor, one thread, no interrupts; what else touches it is a MAC, which volatile accesses and barriers
// order.
unsafe impl Sync for Shared {}

static SHARED: Shared = Shared(UnsafeCell::new([0; SHARED_LEN]));

/// The shared memory, as the rings see it. It is not cached.
pub struct SharedMemory;

impl SharedMemory {
    /// Its first byte.
    pub fn first(&self) -> BusAddress {
        BusAddress(SHARED.0.get() as usize as u32)
    }

    /// The pointer to `len` bytes of it.
    fn pointer(&self, at: BusAddress, len: usize) -> *mut u8 {
        let offset = at.0.wrapping_sub(self.first().0) as usize;
        assert!(offset <= SHARED_LEN && len <= SHARED_LEN - offset, "outside of the shared memory");
        // SAFETY: the offset is within the array, by the line above.
        unsafe { SHARED.0.get().cast::<u8>().add(offset) }
    }
}

impl Bus for SharedMemory {
    fn read(&mut self, at: BusAddress) -> u32 {
        let pointer = self.pointer(at, 4).cast::<u32>();
        assert!(pointer.is_aligned(), "a word is read at a multiple of 4");
        // SAFETY: four aligned bytes of the array, by the lines above.
        unsafe { read_volatile(pointer) }
    }

    fn write(&mut self, at: BusAddress, value: u32) {
        let pointer = self.pointer(at, 4).cast::<u32>();
        assert!(pointer.is_aligned(), "a word is written at a multiple of 4");
        // SAFETY: as for reading.
        unsafe { write_volatile(pointer, value) }
    }

    fn barrier(&mut self) {
        // SAFETY: orders memory and does nothing else. A DMB would let a doorbell overtake its descriptor (B4).
        unsafe {
            #[cfg(any(target_arch = "arm", target_arch = "aarch64"))]
            asm!("dsb sy");
            #[cfg(any(target_arch = "riscv32", target_arch = "riscv64"))]
            asm!("fence iorw, iorw");
        }
    }

    fn clean(&mut self, _: BusAddress, _: u32) {}

    fn invalidate(&mut self, _: BusAddress, _: u32) {}

    fn load(&mut self, from: BusAddress, bytes: &mut [u8]) {
        let pointer = self.pointer(from, bytes.len());
        // SAFETY: so many bytes of the array; `bytes` is other memory, for nobody holds a reference into the array.
        unsafe { copy_nonoverlapping(pointer, bytes.as_mut_ptr(), bytes.len()) }
    }

    fn store(&mut self, to: BusAddress, bytes: &[u8]) {
        let pointer = self.pointer(to, bytes.len());
        // SAFETY: as for loading.
        unsafe { copy_nonoverlapping(bytes.as_ptr(), pointer, bytes.len()) }
    }

    fn descriptor_line(&self) -> Option<u32> {
        None
    }
}

/// A block of registers. Its address is a row's claim of the board, as a device tree's is to a kernel.
#[derive(Clone, Copy)]
pub struct Peripheral(pub usize);

impl Peripheral {
    /// Reads the register at this offset, a multiple of 4.
    pub fn read(self, offset: usize) -> u32 {
        // SAFETY: by the board's row there are registers, which are no memory of this program; aligned, as the rows are.
        unsafe { read_volatile((self.0 + offset) as *const u32) }
    }

    /// Writes the register at this offset, a multiple of 4.
    pub fn write(self, offset: usize, value: u32) {
        // SAFETY: as for reading.
        unsafe { write_volatile((self.0 + offset) as *mut u32, value) }
    }
}

/// The registers of a MAC, and of the DMA core beside it where there is one.
pub struct MacRegisters {
    /// The MAC's.
    pub mac: Peripheral,
    /// The DMA core's.
    pub dma: Peripheral,
}

impl MacRegisters {
    fn block(&self, register: Register) -> Peripheral {
        match register.block {
            Block::Mac => self.mac,
            Block::Dma => self.dma,
        }
    }
}

impl Registers for MacRegisters {
    fn read(&mut self, register: Register) -> u32 {
        self.block(register).read(register.offset as usize)
    }

    fn write(&mut self, register: Register, value: u32) {
        self.block(register).write(register.offset as usize, value);
    }
}

/// Arm's generic timer: its count, and its frequency in Hz as whoever started the machine wrote it down.
#[cfg(any(target_arch = "arm", target_arch = "aarch64"))]
pub fn generic_timer() -> (u64, u64) {
    // SAFETY: reads two registers that every processor of a row with this clock has.
    unsafe {
        #[cfg(target_arch = "arm")]
        {
            let (low, high, hz): (u32, u32, u32);
            asm!("isb", "mrrc p15, 0, {}, {}, c14", out(reg) low, out(reg) high); // CNTPCT
            asm!("mrc p15, 0, {}, c14, c0, 0", out(reg) hz); // CNTFRQ
            (u64::from(high) << 32 | u64::from(low), hz.into())
        }
        #[cfg(target_arch = "aarch64")]
        {
            let (count, hz): (u64, u64);
            asm!("isb", "mrs {}, cntpct_el0", "mrs {}, cntfrq_el0", out(reg) count, out(reg) hz);
            (count, hz)
        }
    }
}

/// No such timer: no row of these processors has this clock.
#[cfg(any(target_arch = "riscv32", target_arch = "riscv64"))]
pub fn generic_timer() -> (u64, u64) {
    (0, 1)
}

/// Nothing is left to do.
pub fn halt() -> ! {
    loop {
        // SAFETY: waits for an interrupt, which never comes.
        unsafe { asm!("wfi") }
    }
}
