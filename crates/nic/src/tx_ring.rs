//! The transmit ring: frames go to the device in order and come back in order.
//! Knows no registers; ringing the doorbell is the driver's.
//!
//! ```text
//!            tail               head
//!   ┌──────┬──┴───┬──────┬──────┬─┴────┬──────┐     free    the driver may fill it
//!   │ free │ sent │ sent │ dev. │ free │ free │     device  the MAC sends from it
//!   └──────┴──────┴──────┴──────┴──────┴──────┘     sent    given back, not yet reclaimed: the driver's
//!            └──────── in flight ┘
//! ```

use crate::bus::{Bus, BusAddress};
use crate::descriptor::{Words, fault};
use crate::format::{Completion, Fault, Format, Mark, RingEnd};
use crate::options::Bounce;
use crate::place::{Misplaced, RingPlace};

/// Octets of a frame in one piece of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Where.
    pub at: BusAddress,
    /// How many; at least 1.
    pub octets: u32,
}

/// A frame was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Descriptors for it are not free now; reclaim, and try again.
    NoRoom,
    /// It is empty, or has an empty fragment, or never fits.
    NotAFrame,
}

/// A frame that the device has given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Descriptors that it had.
    pub descriptors: usize,
    /// Why it was not sent, where the device says so.
    pub fault: Option<Fault>,
}

/// A ring of `N` transmit descriptors, each with a buffer of its own for frames that are copied.
pub struct TxRing<const N: usize> {
    format: &'static Format,
    place: RingPlace,
    /// Where the next frame goes.
    head: usize,
    /// The first descriptor of the oldest frame in flight.
    tail: usize,
    in_flight: usize,
    /// Descriptors of the frame that begins at each index.
    descriptors: [u8; N],
    /// Frames were handed over that the device was not told of.
    news: bool,
}

impl<const N: usize> TxRing<N> {
    /// A ring at this place, not yet written to memory.
    pub fn new(format: &'static Format, place: RingPlace, bus: &impl Bus) -> Result<TxRing<N>, Misplaced> {
        place.check(format, N, bus)?;
        Ok(TxRing { format, place, head: 0, tail: 0, in_flight: 0, descriptors: [0; N], news: false })
    }

    /// Writes every descriptor as the driver's own, and forgets what was in flight. The device must not run.
    pub fn reset(&mut self, bus: &mut impl Bus) {
        (self.head, self.tail, self.in_flight, self.news) = (0, 0, 0, false);
        for index in 0..N {
            self.take_back(bus, index);
        }
        bus.barrier();
    }

    /// Where a descriptor stands that is never the device's: behind the ring's own.
    pub(crate) fn idle(&self) -> BusAddress {
        self.place.descriptor(N)
    }

    /// Writes that one, as the only one of a ring, whichever way it goes.
    pub(crate) fn write_idle(&self, bus: &mut impl Bus) {
        let mut words = [0; 2];
        let mut mark = |mark: Mark, holds| words[mark.word] |= mark.bits(holds);
        mark(self.format.tx.device, false);
        mark(self.format.rx.device, false);
        if let RingEnd::Wrap { tx, rx } = self.format.close {
            mark(tx, true);
            mark(rx, true);
        }
        for (at, word) in (0..).zip(words) {
            bus.write(self.idle().plus(at * 4), word);
        }
        bus.clean(self.idle(), self.format.octets());
        bus.barrier();
    }

    /// Where the first descriptor is.
    pub fn first(&self) -> BusAddress {
        self.place.descriptors
    }

    /// The descriptor of the last frame's end: where a tail pointer points.
    pub fn last(&self) -> BusAddress {
        self.place.descriptor((self.head + N - 1) % N)
    }

    /// Descriptors that a frame can have now.
    pub fn free(&self) -> usize {
        N - self.format.spare - self.in_flight
    }

    /// Descriptors of frames that are not reclaimed.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Hands a frame to the device, from where it is. The fragments' memory is the device's until the frame is
    /// reclaimed. The doorbell is still to be rung.
    ///
    /// A fragment that the DMA cannot reach where it is, or every one with `Bounce::Always`, goes through its
    /// descriptor's buffer.
    pub fn send(&mut self, bus: &mut impl Bus, fragments: &[Fragment], bounce: Bounce) -> Result<(), Refused> {
        let count = fragments.len();
        let fits = |fragment: &Fragment| fragment.octets != 0 && fragment.octets <= self.format.tx.length.mask;
        if count == 0 || count > N - self.format.spare || !fragments.iter().all(fits) {
            return Err(Refused::NotAFrame);
        }
        if count > self.free() {
            return Err(Refused::NoRoom);
        }
        let mut reached = [Fragment { at: BusAddress(0), octets: 0 }; N];
        for (nth, fragment) in fragments.iter().enumerate() {
            let index = (self.head + nth) % N;
            let misaligned = !fragment.at.0.is_multiple_of(self.format.tx_alignment);
            reached[nth] = if bounce == Bounce::Always || misaligned {
                if fragment.octets > self.place.buffer {
                    return Err(Refused::NotAFrame);
                }
                self.copy(bus, *fragment, index)
            } else {
                *fragment
            };
            bus.clean(reached[nth].at, reached[nth].octets);
        }
        self.publish(bus, &reached[..count]);
        Ok(())
    }

    /// Copies a frame into the next descriptor's buffer and hands it to the device. The doorbell is still to be rung.
    pub fn send_octets(&mut self, bus: &mut impl Bus, frame: &[u8]) -> Result<(), Refused> {
        if frame.is_empty() || frame.len() > self.place.buffer.min(self.format.tx.length.mask) as usize {
            return Err(Refused::NotAFrame);
        }
        if self.free() == 0 {
            return Err(Refused::NoRoom);
        }
        let (at, octets) = (self.place.buffer_at(self.head), frame.len() as u32);
        bus.store(at, frame);
        bus.clean(at, octets);
        self.publish(bus, &[Fragment { at, octets }]);
        Ok(())
    }

    /// Whether frames were handed over since this was last asked: the doorbell is to be rung.
    pub fn take_news(&mut self) -> bool {
        core::mem::take(&mut self.news)
    }

    /// Whether the device has given the oldest frame back.
    pub fn ready(&self, bus: &mut impl Bus) -> bool {
        self.in_flight > 0 && {
            let (at, device) = (self.told(), self.format.tx.device);
            bus.invalidate(at, self.format.octets());
            !device.holds(bus.read(at.plus(device.word as u32 * 4)))
        }
    }

    /// The oldest frame, where the device has given it back; its descriptors are free again.
    pub fn reclaim(&mut self, bus: &mut impl Bus) -> Option<Sent> {
        if !self.ready(bus) {
            return None;
        }
        bus.barrier();
        let fault = fault(bus, &self.format.tx, self.told());
        let descriptors = usize::from(self.descriptors[self.tail]);
        if self.format.given_back == Completion::First {
            // The device comes to these again one round later, and would send their old buffers.
            for nth in 1..descriptors {
                self.take_back(bus, (self.tail + nth) % N);
            }
            bus.barrier();
        }
        self.tail = (self.tail + descriptors) % N;
        self.in_flight -= descriptors;
        Some(Sent { descriptors, fault })
    }

    /// The descriptor in which the device gives the oldest frame back.
    fn told(&self) -> BusAddress {
        let of_end = usize::from(self.descriptors[self.tail]) - 1;
        self.place.descriptor(match self.format.given_back {
            Completion::Each => (self.tail + of_end) % N,
            Completion::First => self.tail,
        })
    }

    /// Copies a fragment into the buffer of descriptor `index`, a handful of octets at a time.
    fn copy(&self, bus: &mut impl Bus, fragment: Fragment, index: usize) -> Fragment {
        let to = self.place.buffer_at(index);
        let mut piece = [0; 64];
        let mut done = 0;
        while done < fragment.octets {
            let octets = (fragment.octets - done).min(64);
            let piece = &mut piece[..octets as usize];
            bus.load(fragment.at.plus(done), piece);
            bus.store(to.plus(done), piece);
            done += octets;
        }
        Fragment { at: to, octets: fragment.octets }
    }

    /// Hands descriptors over from the last to the first: the device waits at the first, so it sees the frame as a whole
    /// or not at all.
    fn publish(&mut self, bus: &mut impl Bus, fragments: &[Fragment]) {
        let side = &self.format.tx;
        let owner = side.device.word;
        for (nth, fragment) in fragments.iter().enumerate().rev() {
            let index = (self.head + nth) % N;
            let at = self.place.descriptor(index);
            let mut words = Words::of(self.format, side, true, &self.place, index, N);
            words.say(side.address.word, fragment.at.0 & side.address.mask);
            words.say(side.length.word, fragment.octets);
            words.say(side.last.word, side.last.bits(nth + 1 == fragments.len()));
            if let Some(first) = side.first {
                words.say(first.word, first.bits(nth == 0));
            }
            words.say(owner, side.device.bits(true));
            words.write_others(bus, at, owner);
            if nth == 0 {
                // All but this word must be seen before it.
                bus.barrier();
            }
            words.write_owner(bus, at, owner);
            bus.clean(at, self.format.octets());
        }
        // And this one before the doorbell.
        bus.barrier();
        self.descriptors[self.head] = fragments.len() as u8;
        self.head = (self.head + fragments.len()) % N;
        self.in_flight += fragments.len();
        self.news = true;
    }

    /// Makes a descriptor the driver's.
    fn take_back(&self, bus: &mut impl Bus, index: usize) {
        let side = &self.format.tx;
        let at = self.place.descriptor(index);
        let mut words = Words::of(self.format, side, true, &self.place, index, N);
        words.say(side.device.word, side.device.bits(false));
        words.write_others(bus, at, side.device.word);
        words.write_owner(bus, at, side.device.word);
        bus.clean(at, self.format.octets());
    }
}
