//! The two seams: memory that driver and device share, and the device's registers.
//! Firmware implements both over the machine's addresses, `model` over memory of its own.

/// An address as the device sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BusAddress(pub u32);

impl BusAddress {
    /// So many octets further.
    pub const fn plus(self, octets: u32) -> BusAddress {
        BusAddress(self.0.wrapping_add(octets))
    }
}

/// Memory that driver and device share.
///
/// Words are in the byte order in which the device reads descriptors. Where memory is not cached, cleaning and
/// invalidating do nothing; the rings call them all the same, so that no ring depends on how memory is mapped.
pub trait Bus {
    /// The word at `at`, a multiple of 4.
    fn read(&mut self, at: BusAddress) -> u32;

    /// Writes the word at `at`, a multiple of 4.
    fn write(&mut self, at: BusAddress, value: u32);

    /// Orders memory: the device sees what was written before it before it sees anything written after it, register
    /// writes included, and what is read after it is no older than what was read before it.
    ///
    /// On Arm that is a DSB: a DMB orders memory against memory, but a doorbell may still overtake the descriptor.
    fn barrier(&mut self);

    /// Writes the cached lines of these octets back.
    fn clean(&mut self, at: BusAddress, octets: u32);

    /// Drops the cached lines of these octets, so that the next reading sees what the device wrote.
    fn invalidate(&mut self, at: BusAddress, octets: u32);

    /// Copies octets of a frame out of memory.
    fn load(&mut self, from: BusAddress, octets: &mut [u8]);

    /// Copies octets of a frame into memory.
    fn store(&mut self, to: BusAddress, octets: &[u8]);

    /// Octets of a cache line, where descriptors are in cached memory.
    fn descriptor_line(&self) -> Option<u32>;
}

/// A device's registers, 32 bits each. Accesses reach the device in program order.
pub trait Registers {
    /// Reads one, with what reading it does.
    fn read(&mut self, register: Register) -> u32;

    /// Writes one.
    fn write(&mut self, register: Register, value: u32);
}

/// A register's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Register {
    /// The manual's name.
    pub name: &'static str,
    /// Which of the controller's blocks it is in.
    pub block: Block,
    /// Octets from the block's first register.
    pub offset: u32,
}

/// A block of registers with a base address of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Block {
    /// The MAC, and its DMA where that is no core of its own.
    Mac,
    /// A DMA core beside the MAC.
    Dma,
}

impl Register {
    /// A register of the MAC.
    pub const fn mac(name: &'static str, offset: u32) -> Register {
        Register { name, block: Block::Mac, offset }
    }

    /// A register of the DMA core.
    pub const fn dma(name: &'static str, offset: u32) -> Register {
        Register { name, block: Block::Dma, offset }
    }
}
