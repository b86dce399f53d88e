//! A descriptor as the driver writes it, and what it reads in one.
//! Knows no ring.

use crate::bus::{Bus, BusAddress};
use crate::format::{Fault, Format, RingEnd, Side};
use crate::place::RingPlace;

/// A descriptor that is being made: its words, and which of them are said.
pub(crate) struct Words {
    words: [u32; 16],
    said: u16,
}

impl Words {
    /// What every descriptor of this side says: its constants, and how the ring closes behind it.
    pub(crate) fn of(format: &Format, side: &Side, tx: bool, place: &RingPlace, index: usize, count: usize) -> Words {
        let mut made = Words { words: [0; 16], said: 0 };
        for &(word, value) in side.constant {
            made.say(word, value);
        }
        match format.close {
            RingEnd::Wrap { tx: of_tx, rx: of_rx } => {
                let wrap = if tx { of_tx } else { of_rx };
                made.say(wrap.word, wrap.bits(index + 1 == count));
            }
            RingEnd::Next { word } => made.say(word, place.descriptor((index + 1) % count).0),
        }
        made
    }

    pub(crate) fn say(&mut self, word: usize, bits: u32) {
        self.words[word] |= bits;
        self.said |= 1 << word;
    }

    /// Writes the words that were said, but the one of ownership.
    pub(crate) fn write_others(&self, bus: &mut impl Bus, at: BusAddress, owner: usize) {
        for (word, &value) in self.words.iter().enumerate() {
            if word != owner && self.said & 1 << word != 0 {
                bus.write(at.plus(word as u32 * 4), value);
            }
        }
    }

    /// Writes the word of ownership.
    pub(crate) fn write_owner(&self, bus: &mut impl Bus, at: BusAddress, owner: usize) {
        bus.write(at.plus(owner as u32 * 4), self.words[owner]);
    }
}

/// The first fault that a descriptor tells of.
pub(crate) fn fault(bus: &mut impl Bus, side: &Side, at: BusAddress) -> Option<Fault> {
    side.faults.iter().find(|(mark, _)| mark.holds(bus.read(at.plus(mark.word as u32 * 4)))).map(|&(_, fault)| fault)
}
