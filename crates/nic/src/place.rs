//! Where a ring is in memory, and whether it can be there.

use crate::bus::{Bus, BusAddress};
use crate::format::{Format, RingEnd};

/// Where a ring's descriptors and its own buffers are.
#[derive(Clone, Copy, Debug)]
pub struct RingPlace {
    /// The first descriptor.
    pub descriptors: BusAddress,
    /// Octets from one descriptor to the next.
    pub stride: u32,
    /// The first buffer; the others follow it without gaps.
    pub buffers: BusAddress,
    /// Octets of a buffer.
    pub buffer: u32,
}

/// Why a ring cannot be where it was put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misplaced {
    /// Descriptors of this format stand side by side, or do not fit so close: the stride it must be, or at least be.
    Stride {
        /// Octets.
        wanted: u32,
    },
    /// Two descriptors are in one cache line: writing one back would undo what the device wrote to the other. Such
    /// descriptors need memory that is not cached.
    SharedLine {
        /// Octets of a line.
        line: u32,
    },
    /// A buffer's size is no multiple of what the controller counts in.
    Buffer {
        /// The unit, octets.
        unit: u32,
    },
    /// A ring has at least two descriptors, and one more where one must stay free.
    TooFew,
}

impl RingPlace {
    /// Whether a ring of `count` descriptors can be here.
    pub fn check(&self, format: &Format, count: usize, bus: &impl Bus) -> Result<(), Misplaced> {
        let size = format.octets();
        let wrong = match format.close {
            RingEnd::Wrap { .. } => self.stride != size,
            RingEnd::Next { .. } => self.stride < size || !self.stride.is_multiple_of(4),
        };
        if wrong {
            return Err(Misplaced::Stride { wanted: size });
        }
        if let Some(line) = bus.descriptor_line()
            && (!self.stride.is_multiple_of(line) || !self.descriptors.0.is_multiple_of(line))
        {
            return Err(Misplaced::SharedLine { line });
        }
        if self.buffer == 0 || !self.buffer.is_multiple_of(format.buffer_unit) {
            return Err(Misplaced::Buffer { unit: format.buffer_unit });
        }
        if count < 2 + format.spare {
            return Err(Misplaced::TooFew);
        }
        Ok(())
    }

    pub(crate) fn descriptor(&self, index: usize) -> BusAddress {
        self.descriptors.plus(self.stride * index as u32)
    }

    pub(crate) fn buffer_at(&self, index: usize) -> BusAddress {
        self.buffers.plus(self.buffer * index as u32)
    }
}
