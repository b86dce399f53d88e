//! A controller with its two rings: start, stop, send, interrupt, poll.
//! Knows the order of what is done; what is done is the controller's row.

use crate::bus::{Bus, Registers};
use crate::controller::{Clear, Controller, Doorbell, Interrupt, Mask, PATIENCE, Step};
use crate::options::{Faulty, Options};
use crate::place::{Misplaced, RingPlace};
use crate::rx_ring::{Received, RxRing};
use crate::tx_ring::{Fragment, Refused, TxRing};

/// A driver with `TX` transmit and `RX` receive descriptors.
///
/// ```text
///   start ─► send, poll ─► … ─► stop
///   interrupt ─► poll until it says Idle ─► interrupts come again
/// ```
pub struct Driver<const TX: usize, const RX: usize> {
    controller: &'static Controller,
    options: Options,
    tx: TxRing<TX>,
    rx: RxRing<RX>,
    counts: Counts,
}

/// What a driver counted since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Frames handed to the caller.
    pub received: u64,
    /// Frames whose descriptor told of a fault, and which were dropped.
    pub faulty: u64,
    /// Frames that the device gave back as sent.
    pub sent: u64,
    /// Frames that the device gave back with a fault.
    pub failed: u64,
}

/// A received frame, in the ring's memory.
pub struct Frame<'a, const RX: usize> {
    ring: &'a RxRing<RX>,
    received: &'a Received,
}

/// What happened, as the device says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Events {
    /// Something was received, or could not be.
    pub receive: bool,
    /// Something was sent.
    pub transmit: bool,
}

/// Why polling ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Polled {
    /// There is nothing left, and interrupts are let through: wait for one.
    Idle,
    /// The budget is used up, or something came at the last moment: poll again.
    More,
}

/// The device did not do as its manual says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeverClear(pub &'static str);

impl<const RX: usize> Frame<'_, RX> {
    /// Octets without FCS.
    pub fn octets(&self) -> u32 {
        self.received.octets
    }

    /// What is wrong with it, where faulty frames are handed up.
    pub fn fault(&self) -> Option<crate::format::Fault> {
        self.received.fault
    }

    /// Where it is, in pieces. [`Bus::invalidate`] each before it is read.
    pub fn pieces(&self) -> impl Iterator<Item = Fragment> {
        self.ring.pieces(self.received).map(|(at, octets)| Fragment { at, octets })
    }

    /// Copies it, as far as `into` holds it; how many octets those are.
    pub fn load(&self, bus: &mut impl Bus, into: &mut [u8]) -> usize {
        self.ring.load(bus, self.received, into)
    }
}

impl<const TX: usize, const RX: usize> Driver<TX, RX> {
    /// A driver whose rings are at these places.
    pub fn new(
        controller: &'static Controller,
        options: Options,
        tx: RingPlace,
        rx: RingPlace,
        bus: &impl Bus,
    ) -> Result<Driver<TX, RX>, Misplaced> {
        let tx = TxRing::new(controller.format, tx, bus)?;
        let rx = RxRing::new(controller.format, rx, options.offset, bus)?;
        Ok(Driver { controller, options, tx, rx, counts: Counts::default() })
    }

    /// The transmit ring.
    pub fn tx(&self) -> &TxRing<TX> {
        &self.tx
    }

    /// The receive ring.
    pub fn rx(&self) -> &RxRing<RX> {
        &self.rx
    }

    /// What was counted.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Fills the rings and lets the device run, with `address` as its own. Interrupts are let through.
    pub fn start(
        &mut self,
        bus: &mut impl Bus,
        registers: &mut impl Registers,
        address: [u8; 6],
    ) -> Result<(), NeverClear> {
        self.tx.reset(bus);
        self.rx.reset(bus);
        if self.options.idle_queue {
            self.tx.write_idle(bus);
        }
        self.carry_out(self.controller.start, registers, address)?;
        self.unmask(registers);
        self.tell_rx(registers);
        Ok(())
    }

    /// Stops the device: it touches no memory any more.
    pub fn stop(&mut self, registers: &mut impl Registers) -> Result<(), NeverClear> {
        self.carry_out(self.controller.stop, registers, [0; 6])
    }

    /// Sends a frame from where it is; see [`TxRing::send`].
    pub fn send(
        &mut self,
        bus: &mut impl Bus,
        registers: &mut impl Registers,
        fragments: &[Fragment],
    ) -> Result<(), Refused> {
        self.tx.send(bus, fragments, self.options.bounce)?;
        self.tell_tx(registers);
        Ok(())
    }

    /// Sends a copy of a frame.
    pub fn send_octets(
        &mut self,
        bus: &mut impl Bus,
        registers: &mut impl Registers,
        frame: &[u8],
    ) -> Result<(), Refused> {
        self.tx.send_octets(bus, frame)?;
        self.tell_tx(registers);
        Ok(())
    }

    /// Answers the device's interrupt: says what happened, and keeps further ones back until polling is done.
    pub fn interrupt(&mut self, registers: &mut impl Registers) -> Events {
        let mut events = Events::default();
        for interrupt in self.controller.interrupts {
            let seen = registers.read(interrupt.status) & (interrupt.receive | interrupt.transmit);
            // Before the rings are looked at: what comes after this reading is told again.
            if interrupt.clear == Clear::Ones && seen != 0 {
                registers.write(interrupt.status, seen);
            }
            events.receive |= seen & interrupt.receive != 0;
            events.transmit |= seen & interrupt.transmit != 0;
        }
        if events != Events::default() {
            self.mask(registers);
        }
        events
    }

    /// Takes up to `budget` frames from the receive ring and whatever was sent from the transmit ring. When nothing is
    /// left, interrupts are let through.
    ///
    /// `each` has every frame while it is in the ring, and may send.
    pub fn poll<B: Bus>(
        &mut self,
        bus: &mut B,
        registers: &mut impl Registers,
        budget: usize,
        each: impl FnMut(&mut B, Frame<'_, RX>, &mut TxRing<TX>),
    ) -> Polled {
        if self.service(bus, registers, budget, each) == budget {
            return Polled::More;
        }
        self.unmask(registers);
        bus.barrier();
        // Some MACs (Cadence's) do not remember what happened while interrupts were kept back: what came between the last
        // look and now would wait for the frame after it.
        if self.rx.ready(bus) || self.tx.ready(bus) {
            self.mask(registers);
            return Polled::More;
        }
        Polled::Idle
    }

    /// The work of [`Driver::poll`] without interrupts, for a caller that asks again and again. How many frames were
    /// taken from the receive ring.
    pub fn service<B: Bus>(
        &mut self,
        bus: &mut B,
        registers: &mut impl Registers,
        budget: usize,
        mut each: impl FnMut(&mut B, Frame<'_, RX>, &mut TxRing<TX>),
    ) -> usize {
        // The rings are looked at after the register that told of them, not before.
        bus.barrier();
        self.reclaim(bus, registers);
        let mut taken = 0;
        while taken < budget
            && let Some(received) = self.rx.receive(bus)
        {
            taken += 1;
            if let Some(counted) = self.controller.counted {
                registers.write(counted.received.0, counted.received.1);
            }
            if received.fault.is_some() && self.options.faulty == Faulty::Dropped {
                self.counts.faulty += 1;
            } else {
                self.counts.received += 1;
                each(bus, Frame { ring: &self.rx, received: &received }, &mut self.tx);
            }
            self.rx.give_back(bus, received);
        }
        self.tell_rx(registers);
        self.tell_tx(registers);
        taken
    }

    /// Lets interrupts through.
    pub fn unmask(&mut self, registers: &mut impl Registers) {
        for Interrupt { mask, receive, transmit, .. } in self.controller.interrupts {
            match *mask {
                Mask::Enable(register) => set(registers, register, receive | transmit),
                Mask::Switches { on, .. } => registers.write(on, receive | transmit),
            }
        }
    }

    /// Keeps interrupts back.
    pub fn mask(&mut self, registers: &mut impl Registers) {
        for Interrupt { mask, receive, transmit, .. } in self.controller.interrupts {
            match *mask {
                Mask::Enable(register) => clear(registers, register, receive | transmit),
                Mask::Switches { off, .. } => registers.write(off, receive | transmit),
            }
        }
    }

    fn reclaim(&mut self, bus: &mut impl Bus, registers: &mut impl Registers) {
        while let Some(sent) = self.tx.reclaim(bus) {
            match sent.fault {
                None => self.counts.sent += 1,
                Some(_) => self.counts.failed += 1,
            }
            if let Some(counted) = self.controller.counted {
                registers.write(counted.sent.0, counted.sent.1);
            }
        }
        if let Some((register, bits)) = self.controller.rings_again
            && self.tx.in_flight() > 0
            && registers.read(register) & bits == 0
        {
            self.ring(registers, self.controller.tx_doorbell, self.tx.last().0);
        }
    }

    fn tell_tx(&mut self, registers: &mut impl Registers) {
        if self.tx.take_news() {
            self.ring(registers, self.controller.tx_doorbell, self.tx.last().0);
        }
    }

    fn tell_rx(&mut self, registers: &mut impl Registers) {
        if self.rx.take_news() {
            if let Some(counted) = self.controller.counted {
                registers.write(counted.overflow.0, counted.overflow.1);
            }
            self.ring(registers, self.controller.rx_doorbell, self.rx.last().0);
        }
    }

    fn ring(&self, registers: &mut impl Registers, doorbell: Doorbell, last: u32) {
        match doorbell {
            Doorbell::Write(register, value) => registers.write(register, value),
            Doorbell::Set(register, bits) => set(registers, register, bits),
            Doorbell::Tail(register) => registers.write(register, last),
        }
    }

    fn carry_out(&self, steps: &[Step], registers: &mut impl Registers, address: [u8; 6]) -> Result<(), NeverClear> {
        for &step in steps {
            match step {
                Step::Write(register, value) => registers.write(register, value),
                Step::Set(register, bits) => set(registers, register, bits),
                Step::Clear(register, bits) => clear(registers, register, bits),
                Step::When(when, register, bits) if self.options.holds(when) => set(registers, register, bits),
                Step::ReplaceWhen(when, register, mask, bits) if self.options.holds(when) => {
                    let value = registers.read(register);
                    registers.write(register, value & !mask | bits);
                }
                Step::When(..) | Step::ReplaceWhen(..) => {}
                Step::Read(register) => {
                    registers.read(register);
                }
                Step::UntilClear(register, bits) => wait_until(registers, register, bits, 0)?,
                Step::UntilSet(register, bits) => wait_until(registers, register, bits, bits)?,
                Step::TxRing(register) => registers.write(register, self.tx.first().0),
                Step::RxRing(register) => registers.write(register, self.rx.first().0),
                Step::IdleQueue(register) if self.options.idle_queue => registers.write(register, self.tx.idle().0),
                Step::IdleQueue(_) => {}
                Step::BufferSize { register, shift, unit } => {
                    set(registers, register, (self.rx.buffer() / unit) << shift);
                }
                Step::Address(register, octets) => {
                    let word = octets.iter().fold(0, |word, &(at, shift)| word | u32::from(address[at]) << shift);
                    registers.write(register, word);
                }
            }
        }
        Ok(())
    }
}

fn wait_until(
    registers: &mut impl Registers,
    register: crate::bus::Register,
    bits: u32,
    wanted: u32,
) -> Result<(), NeverClear> {
    match (0..PATIENCE).any(|_| registers.read(register) & bits == wanted) {
        true => Ok(()),
        false => Err(NeverClear(register.name)),
    }
}

fn set(registers: &mut impl Registers, register: crate::bus::Register, bits: u32) {
    let value = registers.read(register);
    registers.write(register, value | bits);
}

fn clear(registers: &mut impl Registers, register: crate::bus::Register, bits: u32) {
    let value = registers.read(register);
    registers.write(register, value & !bits);
}
