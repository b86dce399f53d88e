//! Descriptor formats, a row of constants each: which word says what.
//! Knows what a descriptor looks like, not when it is read or written.

/// What is seen in a descriptor: some bits of a word, set or clear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Which word.
    pub word: usize,
    /// Which bits.
    pub mask: u32,
    /// Whether the mark holds where a bit is set, or where all are clear.
    pub set: bool,
}

impl Mark {
    const fn set(word: usize, mask: u32) -> Mark {
        Mark { word, mask, set: true }
    }

    const fn clear(word: usize, mask: u32) -> Mark {
        Mark { word, mask, set: false }
    }

    /// Whether it holds in a descriptor with this value in the mark's word.
    pub const fn holds(self, value: u32) -> bool {
        (value & self.mask != 0) == self.set
    }

    /// The bits of the mark's word that make it hold, or not.
    pub const fn bits(self, holds: bool) -> u32 {
        if holds == self.set { self.mask } else { 0 }
    }
}

/// A number in a word, in its lowest bits, or an address in its own bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Which word.
    pub word: usize,
    /// Which bits.
    pub mask: u32,
}

const fn field(word: usize, mask: u32) -> Field {
    Field { word, mask }
}

/// What went wrong with a frame, as its descriptor says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The FIFO was full, or empty, before the frame's end.
    Fifo,
    /// The FCS is wrong, or the octets were no whole number.
    Check,
    /// Longer than allowed, or than its buffers.
    Length,
    /// Given up after too many collisions, or a late one.
    Collisions,
    /// The DMA met an error of the bus.
    Bus,
}

/// One direction's descriptor.
#[derive(Clone, Copy, Debug)]
pub struct Side {
    /// The descriptor is the device's.
    pub device: Mark,
    /// Where the buffer is.
    pub address: Field,
    /// Octets to send, or octets received.
    pub length: Field,
    /// Where the driver says how large a receive buffer is, where each descriptor says it.
    pub size: Option<Field>,
    /// A frame begins here, where the format says so.
    pub first: Option<Mark>,
    /// A frame ends here.
    pub last: Mark,
    /// Words as the driver hands every descriptor over, beside what the other fields put there.
    pub constant: &'static [(usize, u32)],
    /// What the device says of a frame in its last descriptor.
    pub faults: &'static [(Mark, Fault)],
}

/// How the device finds the first descriptor after the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingEnd {
    /// A bit in the last one; descriptors stand side by side.
    Wrap {
        /// In a transmit descriptor.
        tx: Mark,
        /// In a receive descriptor.
        rx: Mark,
    },
    /// Each has the next one's address in this word, and they may stand anywhere.
    Next {
        /// Which word.
        word: usize,
    },
}

/// What the length in a received frame's last descriptor counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LengthOf {
    /// The whole frame.
    Frame,
    /// The octets in this descriptor's buffer.
    Buffer,
}

/// In which descriptors the device gives a sent frame back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// In each.
    Each,
    /// In the frame's first; the driver takes the others back.
    First,
}

/// What descriptors of a controller look like.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// A short name.
    pub name: &'static str,
    /// Words of a descriptor.
    pub words: usize,
    /// How the ring closes.
    pub close: RingEnd,
    /// Descriptors that must stay the driver's: one where the device stops at a tail pointer, for a tail at the device's
    /// own place means both "all of them" and "none".
    pub spare: usize,
    /// Octets of FCS that stand in a received frame and its length.
    pub fcs: u32,
    /// Octets before a received frame, where asked for, are counted in its length.
    pub offset_counted: bool,
    /// What a received length counts.
    pub length_of: LengthOf,
    /// Where a sent frame is given back.
    pub given_back: Completion,
    /// What a transmit buffer's address must be a multiple of.
    pub tx_alignment: u32,
    /// Octets of a receive buffer: the unit that the controller counts in.
    pub buffer_unit: u32,
    /// Transmit descriptors.
    pub tx: Side,
    /// Receive descriptors.
    pub rx: Side,
}

impl Format {
    /// Octets of a descriptor.
    pub const fn octets(&self) -> u32 {
        self.words as u32 * 4
    }
}

/// NXP's ENET, legacy descriptors: i.MX 6 reference manual (IMX6DQRM), ENET, "Legacy buffer descriptors". The half words
/// of the manual's little-endian form are one word here: status above, length below.
pub const ENET_LEGACY: Format = Format {
    name: "ENET legacy",
    words: 2,
    close: RingEnd::Wrap { tx: Mark::set(0, 1 << 29), rx: Mark::set(0, 1 << 29) },
    spare: 0,
    fcs: 4,
    offset_counted: true,
    length_of: LengthOf::Frame,
    given_back: Completion::Each,
    tx_alignment: 16,
    buffer_unit: 16,
    tx: Side {
        device: Mark::set(0, 1 << 31),
        address: field(1, !0),
        length: field(0, 0xffff),
        size: None,
        first: None,
        last: Mark::set(0, 1 << 27),
        // TC: the MAC adds the FCS.
        constant: &[(0, 1 << 26)],
        faults: &[],
    },
    rx: Side {
        device: Mark::set(0, 1 << 31),
        address: field(1, !0),
        length: field(0, 0xffff),
        size: None,
        first: None,
        last: Mark::set(0, 1 << 27),
        constant: &[],
        // OV before the others: they say nothing where it is set.
        faults: &[
            (Mark::set(0, 1 << 17), Fault::Fifo),
            (Mark::set(0, 1 << 16 | 1 << 21), Fault::Length),
            (Mark::set(0, 1 << 18 | 1 << 20), Fault::Check),
        ],
    },
};

/// NXP's ENET, enhanced descriptors (ECR.EN1588): the legacy words, and six more.
pub const ENET_ENHANCED: Format = Format {
    name: "ENET enhanced",
    words: 8,
    tx: Side {
        // INT: without it a sent frame raises no interrupt. BDU, in word 4, is the device's to set.
        constant: &[(0, 1 << 26), (2, 1 << 30), (4, 0)],
        faults: &[
            (Mark::set(2, 1 << 13 | 1 << 10), Fault::Fifo),
            (Mark::set(2, 1 << 12), Fault::Collisions),
            (Mark::set(2, 1 << 9), Fault::Bus),
        ],
        ..ENET_LEGACY.tx
    },
    rx: Side { constant: &[(2, 1 << 23), (4, 0)], ..ENET_LEGACY.rx },
    ..ENET_LEGACY
};

/// Atmel's EMAC (macb): AT91SAM9260 datasheet, "Receive Buffer Descriptor Entry" and "Transmit Buffer Descriptor Entry".
/// A receive buffer has 128 octets, so a frame takes up to twelve.
pub const MACB: Format = Format {
    name: "MACB",
    words: 2,
    close: RingEnd::Wrap { tx: Mark::set(1, 1 << 30), rx: Mark::set(0, 1 << 1) },
    spare: 0,
    fcs: 0,
    offset_counted: false,
    length_of: LengthOf::Frame,
    given_back: Completion::First,
    tx_alignment: 1,
    buffer_unit: 128,
    tx: Side {
        device: Mark::clear(1, 1 << 31),
        address: field(0, !0),
        length: field(1, 0x7ff),
        size: None,
        first: None,
        last: Mark::set(1, 1 << 15),
        constant: &[],
        faults: &[(Mark::set(1, 1 << 28 | 1 << 27), Fault::Fifo), (Mark::set(1, 1 << 29), Fault::Collisions)],
    },
    rx: Side {
        device: Mark::clear(0, 1 << 0),
        address: field(0, !3),
        length: field(1, 0xfff),
        size: None,
        first: Some(Mark::set(1, 1 << 14)),
        last: Mark::set(1, 1 << 15),
        constant: &[(1, 0)],
        faults: &[],
    },
};

/// Cadence's GEM: Zynq-7000 manual (UG585), tables 16-2 and 16-3. As the EMAC's, with longer lengths and larger buffers.
pub const GEM: Format = Format {
    name: "GEM",
    buffer_unit: 64,
    tx: Side {
        length: field(1, 0x3fff),
        faults: &[
            (Mark::set(1, 1 << 28), Fault::Fifo),
            (Mark::set(1, 1 << 29 | 1 << 26), Fault::Collisions),
            (Mark::set(1, 1 << 27), Fault::Bus),
        ],
        ..MACB.tx
    },
    // Bit 13 belongs to it with jumbo frames, and is clear without, unless wrong FCS are let through.
    rx: Side { length: field(1, 0x3fff), ..MACB.rx },
    ..MACB
};

const AXI_FAULTS: &[(Mark, Fault)] = &[(Mark::set(7, 1 << 30 | 1 << 29 | 1 << 28), Fault::Bus)];

/// Xilinx's AXI DMA in scatter/gather mode: PG021, "Scatter Gather Descriptor". A descriptor is handed over by the tail
/// pointer; its Cmplt bit only comes back, and one that is fetched with it still set halts the engine.
pub const AXI_DMA: Format = Format {
    name: "AXI DMA",
    words: 16,
    close: RingEnd::Next { word: 0 },
    spare: 1,
    fcs: 0,
    offset_counted: false,
    length_of: LengthOf::Frame,
    given_back: Completion::Each,
    // Without the data realignment engine, an option of the core; with it 1.
    tx_alignment: 4,
    buffer_unit: 4,
    tx: Side {
        device: Mark::clear(7, 1 << 31),
        address: field(2, !0),
        length: field(6, 0x03ff_ffff),
        size: None,
        first: Some(Mark::set(6, 1 << 27)),
        last: Mark::set(6, 1 << 26),
        constant: &[(1, 0), (3, 0), (7, 0)],
        faults: AXI_FAULTS,
    },
    rx: Side {
        device: Mark::clear(7, 1 << 31),
        address: field(2, !0),
        // RXBYTECNT, which AXI Ethernet puts into the last descriptor's APP4 (PG138, "AXI4-Stream status"). The transferred
        // octets of word 7 are each buffer's; QEMU does not write them.
        length: field(12, 0xffff),
        size: Some(field(6, 0x03ff_ffff)),
        first: Some(Mark::set(7, 1 << 27)),
        last: Mark::set(7, 1 << 26),
        constant: &[(1, 0), (3, 0), (7, 0)],
        faults: AXI_FAULTS,
    },
};

/// The scatter/gather DMA of Xilinx's memory controller (SDMA) behind an LL TEMAC: words as in Linux' `struct cdmac_bd`, AXI DMA's
/// forerunner. A sent descriptor is told of by its Cmplt bit. A received one by its last word: the engine writes upwards, and
/// Xilinx's own driver (`XLlDma_BdRingFromHw`) takes a descriptor whose Cmplt bit is set, and whose APP4 is as it was
/// handed over, for one that is still being written.
pub const SDMA: Format = Format {
    name: "SDMA",
    words: 8,
    tx_alignment: 1,
    tx: Side {
        device: Mark::clear(3, 1 << 28),
        address: field(1, !0),
        length: field(2, !0),
        size: None,
        first: Some(Mark::set(3, 1 << 27)),
        last: Mark::set(3, 1 << 26),
        constant: &[],
        faults: SDMA_FAULTS,
    },
    rx: Side {
        // Above RXBYTECNT, and clear in what the MAC writes.
        device: Mark::set(7, 1 << 15),
        address: field(1, !0),
        length: field(7, 0x3fff),
        size: Some(field(2, !0)),
        first: Some(Mark::set(3, 1 << 27)),
        last: Mark::set(3, 1 << 26),
        constant: &[(3, 0)],
        faults: SDMA_FAULTS,
    },
    ..AXI_DMA
};

const SDMA_FAULTS: &[(Mark, Fault)] = &[(Mark::set(3, 1 << 31), Fault::Bus)];

/// Atheros' MAC of AR71xx and its successors (in FreeBSD arge): descriptors as in `if_argevar.h`. EMPTY, bit 31, is the
/// device's in a receive descriptor and the driver's in a transmit descriptor.
pub const ARGE: Format = Format {
    name: "arge",
    words: 4,
    close: RingEnd::Next { word: 2 },
    spare: 0,
    fcs: 4,
    offset_counted: false,
    length_of: LengthOf::Buffer,
    given_back: Completion::Each,
    // The AR7161's; the AR7240 and later take any.
    tx_alignment: 4,
    buffer_unit: 4,
    tx: Side {
        device: Mark::clear(1, 1 << 31),
        address: field(0, !0),
        length: field(1, 0xfff),
        size: None,
        first: None,
        last: Mark::clear(1, 1 << 24),
        constant: &[],
        faults: &[],
    },
    rx: Side {
        device: Mark::set(1, 1 << 31),
        address: field(0, !0),
        length: field(1, 0xfff),
        size: None,
        first: None,
        last: Mark::clear(1, 1 << 24),
        constant: &[],
        faults: &[],
    },
};

/// Every format.
pub const ALL: [&Format; 7] = [&ENET_LEGACY, &ENET_ENHANCED, &MACB, &GEM, &AXI_DMA, &SDMA, &ARGE];

#[cfg(test)]
mod tests {
    use super::*;

    /// The words that a row names are words of its descriptor, and no two of its meanings share a bit.
    #[test]
    fn no_bit_means_two_things() {
        for format in ALL {
            for (side, close) in [(&format.tx, true), (&format.rx, false)] {
                let mut taken = [0u32; 16];
                let mut take = |word: usize, mask: u32, what: &str| {
                    assert!(word < format.words, "{}: {what} is in word {word}", format.name);
                    assert_eq!(taken[word] & mask, 0, "{}: {what} shares bits", format.name);
                    taken[word] |= mask;
                };
                take(side.device.word, side.device.mask, "ownership");
                take(side.address.word, side.address.mask, "the address");
                take(side.length.word, side.length.mask, "the length");
                take(side.last.word, side.last.mask, "the frame's end");
                if let Some(first) = side.first {
                    take(first.word, first.mask, "the frame's beginning");
                }
                match format.close {
                    RingEnd::Wrap { tx, rx } => {
                        let wrap = if close { tx } else { rx };
                        take(wrap.word, wrap.mask, "the wrap");
                    }
                    RingEnd::Next { word } => take(word, !0, "the next address"),
                }
                for (fault, _) in side.faults {
                    take(fault.word, fault.mask, "a fault");
                }
            }
        }
    }

    #[test]
    fn a_mark_undoes_itself() {
        for format in ALL {
            for mark in [format.tx.device, format.rx.device, format.tx.last] {
                assert!(mark.holds(mark.bits(true)));
                assert!(!mark.holds(mark.bits(false)));
            }
        }
    }
}
