//! The bugs that cannot be told from outside the driver: a bus between it and the machine that does what the broken
//! driver would have done. The driver itself has no switches.

use std::ops::Range;

use linerate_model::world::{CpuBus, CpuRegisters};
use linerate_nic::bus::{Bus, BusAddress};
use linerate_nic::driver::Driver;

use super::setup::{Patch, RX_DESCRIPTORS, TX_DESCRIPTORS};

/// What the driver does wrong.
#[derive(Clone)]
pub enum Bug {
    /// A frame's descriptors are written from the first to the last, each as a whole.
    FirstDescriptorFirst,
    /// A descriptor's words are written from the one of ownership on.
    OwnershipFirst {
        /// Octets from the descriptor's first to that word.
        owner: u32,
        /// Octets of a descriptor.
        octets: u32,
    },
    /// Nothing orders the other words before the one of ownership.
    NoBarrierBeforeOwnership,
    /// Nothing orders the descriptor before the doorbell.
    NoBarrierBeforeDoorbell,
    /// No barrier at all.
    NoBarriers,
    /// What is written there is not cleaned.
    NotCleaned(Range<u32>),
    /// What is read there is not invalidated.
    NotInvalidated(Range<u32>),
    /// Descriptors share cache lines, and nobody asked.
    SharedLines,
}

pub struct Broken(pub Bug);

pub struct PatchedBus<'a> {
    bus: CpuBus<'a>,
    bug: Bug,
    /// Writes to transmit descriptors since the last doorbell, where their order is the bug.
    held: Vec<(BusAddress, u32)>,
    /// Transmit descriptors were written, and so many barriers have come since.
    barriers: Option<usize>,
}

impl Patch for Broken {
    type Bus<'a> = PatchedBus<'a>;
    type Registers<'a> = CpuRegisters<'a>;

    fn bus<'a>(&self, bus: CpuBus<'a>) -> PatchedBus<'a> {
        PatchedBus { bus, bug: self.0.clone(), held: Vec::new(), barriers: None }
    }

    fn registers<'a>(&self, registers: CpuRegisters<'a>) -> CpuRegisters<'a> {
        registers
    }
}

impl PatchedBus<'_> {
    fn reorders(&self) -> bool {
        matches!(self.bug, Bug::FirstDescriptorFirst | Bug::OwnershipFirst { .. })
    }

    /// Of a frame, the driver has two barriers: before the ownership, and before the doorbell.
    fn release(&mut self) {
        let mut held = std::mem::take(&mut self.held);
        match self.bug {
            Bug::OwnershipFirst { owner, octets } => {
                // The frame's last descriptor first, as it should be.
                held.sort_by_key(|(at, _)| {
                    let word = (at.0 - TX_DESCRIPTORS) % octets;
                    (u32::MAX - (at.0 - TX_DESCRIPTORS) / octets, word != owner, word)
                });
            }
            _ => held.sort_by_key(|&(at, _)| at),
        }
        for (at, value) in held {
            self.bus.write(at, value);
        }
    }
}

impl Bus for PatchedBus<'_> {
    fn read(&mut self, at: BusAddress) -> u32 {
        self.bus.read(at)
    }

    fn write(&mut self, at: BusAddress, value: u32) {
        if !(TX_DESCRIPTORS..RX_DESCRIPTORS).contains(&at.0) {
            return self.bus.write(at, value);
        }
        self.barriers.get_or_insert(0);
        if self.reorders() {
            self.held.push((at, value));
        } else {
            self.bus.write(at, value);
        }
    }

    fn barrier(&mut self) {
        let passed = self.barriers;
        self.barriers = passed.and_then(|passed| if passed == 0 { Some(1) } else { None });
        let left_out = match (&self.bug, passed) {
            (Bug::NoBarriers, _) => true,
            (Bug::NoBarrierBeforeOwnership, Some(0)) => true,
            (Bug::NoBarrierBeforeDoorbell, Some(1)) => true,
            (_, Some(0)) if self.reorders() => true,
            (_, Some(1)) if self.reorders() => {
                self.release();
                false
            }
            _ => false,
        };
        if !left_out {
            self.bus.barrier();
        }
    }

    fn clean(&mut self, at: BusAddress, octets: u32) {
        if !matches!(&self.bug, Bug::NotCleaned(range) if range.contains(&at.0)) {
            self.bus.clean(at, octets);
        }
    }

    fn invalidate(&mut self, at: BusAddress, octets: u32) {
        if !matches!(&self.bug, Bug::NotInvalidated(range) if range.contains(&at.0)) {
            self.bus.invalidate(at, octets);
        }
    }

    fn load(&mut self, from: BusAddress, octets: &mut [u8]) {
        self.bus.load(from, octets);
    }

    fn store(&mut self, to: BusAddress, octets: &[u8]) {
        self.bus.store(to, octets);
    }

    fn descriptor_line(&self) -> Option<u32> {
        if matches!(self.bug, Bug::SharedLines) { None } else { self.bus.descriptor_line() }
    }
}

/// The last look before waiting is left out.
pub struct NoSecondLook;

impl Patch for NoSecondLook {
    type Bus<'a> = CpuBus<'a>;
    type Registers<'a> = CpuRegisters<'a>;

    fn bus<'a>(&self, bus: CpuBus<'a>) -> CpuBus<'a> {
        bus
    }

    fn registers<'a>(&self, registers: CpuRegisters<'a>) -> CpuRegisters<'a> {
        registers
    }

    fn serve<const TX: usize, const RX: usize>(
        &self,
        driver: &mut Driver<TX, RX>,
        bus: &mut CpuBus<'_>,
        registers: &mut CpuRegisters<'_>,
        received: &mut Vec<Vec<u8>>,
    ) {
        driver.interrupt(registers);
        driver.service(bus, registers, 8, |bus, frame, _| {
            let mut octets = [0; 256];
            let length = frame.load(bus, &mut octets);
            received.push(octets[..length].to_vec());
        });
        driver.unmask(registers);
    }
}
