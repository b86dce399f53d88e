//! What is known of a board: where its MAC, its console and its clock are, and which kind of each.
//! Knows no board by name.

use linerate_nic::controller::Controller;

use crate::machine::{Peripheral, generic_timer};

/// A board.
pub struct Board {
    /// Its name.
    pub name: &'static str,
    /// Its MAC's kind.
    pub controller: &'static Controller,
    /// The MAC's registers.
    pub mac: Peripheral,
    /// Those of the DMA core beside it; those of the MAC where there is none.
    pub dma: Peripheral,
    /// Bytes of a receive buffer.
    pub buffer: u32,
    /// The MAC takes frames above 1518 bytes.
    pub jumbo: bool,
    /// The MAC has a second queue.
    pub second_queue: bool,
    /// Its port has 1000 Mbit/s.
    pub gigabit: bool,
    /// Its PHY is behind an RGMII.
    pub rgmii: bool,
    /// Or behind an RMII.
    pub rmii: bool,
    /// The rings are looked at without asking the interrupt's status first.
    pub polled: bool,
    /// A register of the MAC that is written as it is after frames were taken.
    pub rewritten: Option<usize>,
    /// Its console.
    pub uart: Uart,
    /// Its clock.
    pub clock: Clock,
}

/// A serial port, as far as sending takes.
pub struct Uart {
    /// Its registers.
    pub at: Peripheral,
    /// What is written before it sends: offsets and values. Its rate stays as it is.
    pub start: &'static [(usize, u32)],
    /// Where a byte is written.
    pub data: usize,
    /// Where and by which bit it says that it takes none now.
    pub full: (usize, u32),
}

/// What counts time.
pub enum Clock {
    /// Arm's generic timer, which knows its frequency.
    ArmGeneric,
    /// The global timer of a Cortex-A9 (DDI0407, 4.3), and its frequency.
    CortexA9(Peripheral, u64),
    /// RISC-V's `mtime` (privileged architecture, 3.2.1), and its frequency.
    Mtime(Peripheral, u64),
    /// The first timer of Xilinx's AXI Timer (PG079): 32 bits, and its frequency.
    AxiTimer(Peripheral, u64),
}

impl Clock {
    /// Starts it, where it has to be.
    pub fn start(&self) {
        match self {
            Clock::ArmGeneric | Clock::Mtime(..) => {}
            // Timer enable.
            Clock::CortexA9(at, _) => at.write(0x08, 1),
            // TLR0 of 0 is loaded (LOAD0), then it counts up and goes on (ENT0, ARHT0).
            Clock::AxiTimer(at, _) => {
                at.write(0x04, 0);
                at.write(0x00, 1 << 5);
                at.write(0x00, 1 << 7 | 1 << 4);
            }
        }
    }

    /// The counter, and counts in a second. The highest bits of some are missing.
    pub fn count(&self) -> (u64, u64) {
        match *self {
            Clock::ArmGeneric => generic_timer(),
            Clock::CortexA9(at, hz) | Clock::Mtime(at, hz) => loop {
                // The upper half, until it did not change while the lower was read.
                let high = at.read(4);
                let low = at.read(0);
                if at.read(4) == high {
                    return (u64::from(high) << 32 | u64::from(low), hz);
                }
            },
            Clock::AxiTimer(at, hz) => (at.read(0x08).into(), hz),
        }
    }

    /// Bits of the counter.
    pub fn bits(&self) -> u32 {
        if matches!(self, Clock::AxiTimer(..)) { 32 } else { 64 }
    }
}
