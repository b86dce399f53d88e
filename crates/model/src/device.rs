//! The device's half of the ring: DMA engines that do one thing at a time.
//! Knows the manuals, and nothing of `nic`.

mod arge;
mod axi_dma;
mod cadence;
mod enet;
mod sdma;

pub use arge::Arge;
pub use axi_dma::AxiDma;
pub use cadence::{Cadence, Core};
pub use enet::Enet;
pub use sdma::Sdma;

use std::collections::VecDeque;

use crate::memory::Memory;

/// A device with a transmitter and a receiver.
pub trait Device {
    /// Reads a register: of the MAC, or of the DMA core beside it.
    fn read(&mut self, dma: bool, offset: u32) -> u32;

    /// Writes a register.
    fn write(&mut self, dma: bool, offset: u32, value: u32);

    /// Whether there is something to do.
    fn is_busy(&self, wire: &Wire) -> bool;

    /// Does the least that memory can tell apart from doing nothing. `burst` decides whether words of one descriptor are
    /// read at once, where the bus leaves that open.
    fn step(&mut self, memory: &mut Memory, wire: &mut Wire, burst: &mut dyn FnMut() -> bool);

    /// Whether it interrupts.
    fn interrupts(&self) -> bool;
}

/// The cable's two directions, and what went wrong between device and memory.
#[derive(Clone, Debug, Default)]
pub struct Wire {
    /// Frames that will arrive, without FCS.
    pub incoming: VecDeque<Vec<u8>>,
    /// Frames that were sent, without FCS.
    pub sent: Vec<Vec<u8>>,
    /// Frames that arrived where no descriptor was free.
    pub dropped: Vec<Vec<u8>>,
    /// What a driver must never let happen.
    pub broken: Vec<Broken>,
}

/// What a driver must never let happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// The device came to a descriptor in mid-frame that is not its own.
    MidFrame,
    /// A descriptor's buffer is where no memory is, or has no octets.
    NoBuffer,
    /// A descriptor was handed over that was not made anew.
    StaleDescriptor,
}

/// The octets of a descriptor's buffer, or none and a complaint where there is none.
fn gather(memory: &Memory, wire: &mut Wire, at: u32, octets: u32) -> Vec<u8> {
    if at == 0 || octets == 0 || !memory.has(at, octets) {
        wire.broken.push(Broken::NoBuffer);
        return Vec::new();
    }
    memory.device_load(at, octets)
}

/// Puts octets into a descriptor's buffer, where there is one.
fn scatter(memory: &mut Memory, wire: &mut Wire, at: u32, octets: &[u8]) {
    if at == 0 || !memory.has(at, octets.len() as u32) {
        wire.broken.push(Broken::NoBuffer);
        return;
    }
    memory.device_store(at, octets);
}

/// The FCS of IEEE 802.3, clause 3.2.9, least significant octet first as it is sent.
fn fcs(frame: &[u8]) -> [u8; 4] {
    let mut crc = !0u32;
    for &octet in frame {
        crc ^= u32::from(octet);
        for _ in 0..8 {
            crc = crc >> 1 ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 };
        }
    }
    (!crc).to_le_bytes()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_fcs_of_the_check_string() {
        // The check value of CRC-32 in every catalogue.
        assert_eq!(super::fcs(b"123456789"), 0xcbf4_3926u32.to_le_bytes());
    }
}
