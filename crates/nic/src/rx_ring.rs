//! The receive ring: empty buffers go to the device in order and come back filled in order.
//! Knows no registers; telling the device of new buffers is the driver's.
//!
//! ```text
//!            next                       give
//!   ┌──────┬──┴───┬──────┬──────┬──────┬──┴───┐     spare   stays the driver's, where the format wants one
//!   │ held │ full │ full │ dev. │ dev. │ spare│     device  empty, the MAC fills it
//!   └──────┴──────┴──────┴──────┴──────┴──────┘     full    filled, not yet looked at
//!            └──────── armed ──────────┘            held    of the frame that the caller looks at
//! ```

use crate::bus::{Bus, BusAddress};
use crate::descriptor::{Words, fault};
use crate::format::{Fault, Format, LengthOf};
use crate::options::Offset;
use crate::place::{Misplaced, RingPlace};

/// A frame in the ring's buffers: the caller's until it is given back.
#[derive(Debug, PartialEq, Eq)]
pub struct Received {
    /// Its first descriptor.
    first: usize,
    /// Descriptors that it has.
    descriptors: usize,
    /// Octets without FCS and without what was put before it.
    pub octets: u32,
    /// What is wrong with it, where the device says so.
    pub fault: Option<Fault>,
}

/// Descriptors that came back without a whole frame, since the ring was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fragments {
    /// Of frames that have no end: overrun in mid-frame, or longer than the ring.
    pub without_end: u32,
    /// Of frames that have no beginning.
    pub without_beginning: u32,
}

/// A ring of `N` receive descriptors, each with a buffer of its own.
pub struct RxRing<const N: usize> {
    format: &'static Format,
    place: RingPlace,
    offset: Offset,
    /// The oldest descriptor that the device had or has.
    next: usize,
    /// Descriptors from there on that are the device's, or filled.
    armed: usize,
    /// Descriptors before there that the caller's frame has.
    held: usize,
    /// Of the armed ones, how many are known to be filled with a frame that is not at its end.
    open: usize,
    fragments: Fragments,
    /// Buffers were handed over that the device was not told of.
    news: bool,
}

impl<const N: usize> RxRing<N> {
    /// A ring at this place, not yet written to memory.
    pub fn new(
        format: &'static Format,
        place: RingPlace,
        offset: Offset,
        bus: &impl Bus,
    ) -> Result<RxRing<N>, Misplaced> {
        place.check(format, N, bus)?;
        Ok(RxRing {
            format,
            place,
            offset,
            next: 0,
            armed: 0,
            held: 0,
            open: 0,
            fragments: Fragments::default(),
            news: false,
        })
    }

    /// Hands every buffer to the device, the spare ones left out. The device must not run.
    pub fn reset(&mut self, bus: &mut impl Bus) {
        (self.next, self.armed, self.held, self.open) = (0, 0, 0, 0);
        for index in 0..N {
            self.arm(bus, index, index + self.format.spare < N);
        }
        self.armed = N - self.format.spare;
        self.news = true;
        bus.barrier();
    }

    /// Where the first descriptor is.
    pub fn first(&self) -> BusAddress {
        self.place.descriptors
    }

    /// The last descriptor that the device has: where a tail pointer points.
    pub fn last(&self) -> BusAddress {
        self.place.descriptor((self.next + self.armed + N - 1) % N)
    }

    /// Octets of a buffer, as the device is told.
    pub fn buffer(&self) -> u32 {
        self.place.buffer
    }

    /// Descriptors from which the device may still fill, filled ones that were not looked at included.
    pub fn armed(&self) -> usize {
        self.armed
    }

    /// Descriptors of the frame that the caller has.
    pub fn held(&self) -> usize {
        self.held
    }

    /// What came back without a whole frame.
    pub fn fragments(&self) -> Fragments {
        self.fragments
    }

    /// Whether buffers were handed over since this was last asked: the device is to be told.
    pub fn take_news(&mut self) -> bool {
        core::mem::take(&mut self.news)
    }

    /// Whether the device has filled a descriptor that was not looked at.
    pub fn ready(&self, bus: &mut impl Bus) -> bool {
        self.open < self.armed && {
            let (at, device) = (self.place.descriptor((self.next + self.open) % N), self.format.rx.device);
            bus.invalidate(at, self.format.octets());
            !device.holds(bus.read(at.plus(device.word as u32 * 4)))
        }
    }

    /// The next frame that is there as a whole. One at a time: the last one is given back first.
    pub fn receive(&mut self, bus: &mut impl Bus) -> Option<Received> {
        let side = &self.format.rx;
        // Twice round the ring and no further: a device that gives back what has no beginning does not keep the caller.
        for _ in 0..2 * N {
            if self.held > 0 {
                return None;
            }
            if self.open == self.armed {
                // Every descriptor is full and no frame ends: it never will.
                self.fragments.without_end += self.open as u32;
                self.discard(bus, self.open);
                return None;
            }
            if !self.ready(bus) {
                return None;
            }
            let at = self.place.descriptor((self.next + self.open) % N);
            // What the device wrote beside the ownership was written before it, and is read after it.
            bus.barrier();
            if let Some(first) = side.first {
                let begins = first.holds(bus.read(at.plus(first.word as u32 * 4)));
                if begins && self.open > 0 {
                    self.fragments.without_end += self.open as u32;
                    self.discard(bus, self.open);
                } else if !begins && self.open == 0 {
                    self.fragments.without_beginning += 1;
                    self.discard(bus, 1);
                    continue;
                }
            }
            self.open += 1;
            if side.last.holds(bus.read(at.plus(side.last.word as u32 * 4))) {
                return Some(self.frame(bus, at));
            }
        }
        None
    }

    /// The pieces of a frame in memory, in order. What is read there must be invalidated first; [`RxRing::load`] does.
    pub fn pieces(&self, frame: &Received) -> impl Iterator<Item = (BusAddress, u32)> {
        let (buffer, offset, first, octets) = (self.place.buffer, self.offset.octets(), frame.first, frame.octets);
        let place = self.place;
        (0..frame.descriptors).scan(octets, move |left, nth| {
            let skip = if nth == 0 { offset } else { 0 };
            let piece = (*left).min(buffer - skip);
            *left -= piece;
            Some((place.buffer_at((first + nth) % N).plus(skip), piece))
        })
    }

    /// Copies a frame's octets out, as many as `into` holds; how many those are.
    pub fn load(&self, bus: &mut impl Bus, frame: &Received, into: &mut [u8]) -> usize {
        let mut done = 0;
        for (at, octets) in self.pieces(frame) {
            let octets = octets.min((into.len() - done) as u32);
            bus.invalidate(at, octets);
            bus.load(at, &mut into[done..done + octets as usize]);
            done += octets as usize;
        }
        done
    }

    /// Gives a frame's buffers back to the device. The device is still to be told.
    pub fn give_back(&mut self, bus: &mut impl Bus, frame: Received) {
        debug_assert_eq!(self.held, frame.descriptors, "a frame is given back to the ring that it is from");
        self.held = 0;
        self.fill(bus);
    }

    /// The frame that ends in the descriptor at `end`, and whose descriptors are the open ones.
    fn frame(&mut self, bus: &mut impl Bus, end: BusAddress) -> Received {
        let (side, descriptors) = (&self.format.rx, self.open);
        let length_of = |bus: &mut _, at: BusAddress| {
            let word = Bus::read(bus, at.plus(side.length.word as u32 * 4));
            word & side.length.mask
        };
        let length = match self.format.length_of {
            LengthOf::Frame => length_of(bus, end),
            LengthOf::Buffer => {
                let each = (0..descriptors).map(|nth| self.place.descriptor((self.next + nth) % N));
                each.fold(0, |sum, at| sum + length_of(bus, at).min(self.place.buffer))
            }
        };
        let beside = self.format.fcs + if self.format.offset_counted { self.offset.octets() } else { 0 };
        let room = self.place.buffer * descriptors as u32 - self.offset.octets();
        let octets = length.checked_sub(beside).filter(|&octets| octets <= room);
        // A length that its buffers cannot hold is not believed.
        let fault = fault(bus, side, end).or(if octets.is_none() { Some(Fault::Length) } else { None });
        let first = self.next;
        self.next = (self.next + descriptors) % N;
        self.armed -= descriptors;
        (self.held, self.open) = (descriptors, 0);
        Received { first, descriptors, octets: octets.unwrap_or(0), fault }
    }

    /// Gives the oldest `count` descriptors back as they are.
    fn discard(&mut self, bus: &mut impl Bus, count: usize) {
        self.next = (self.next + count) % N;
        self.armed -= count;
        self.open = 0;
        self.fill(bus);
    }

    /// Arms descriptors until the device has all but the spare ones and the held ones.
    fn fill(&mut self, bus: &mut impl Bus) {
        while self.armed + self.held + self.format.spare < N {
            self.arm(bus, (self.next + self.armed) % N, true);
            self.armed += 1;
            self.news = true;
        }
        // The device is told only of what it can see.
        bus.barrier();
    }

    /// Writes descriptor `index` with its empty buffer, as the device's or as the driver's.
    fn arm(&self, bus: &mut impl Bus, index: usize, device: bool) {
        let side = &self.format.rx;
        let (at, buffer) = (self.place.descriptor(index), self.place.buffer_at(index));
        let mut words = Words::of(self.format, side, false, &self.place, index, N);
        words.say(side.address.word, buffer.0 & side.address.mask);
        if let Some(size) = side.size {
            words.say(size.word, self.place.buffer & size.mask);
        }
        words.say(side.device.word, side.device.bits(device));
        // A line that is still dirty would be written back over what the device puts there.
        bus.invalidate(buffer, self.place.buffer);
        words.write_others(bus, at, side.device.word);
        bus.barrier();
        words.write_owner(bus, at, side.device.word);
        bus.clean(at, self.format.octets());
    }
}
