//! The scatter/gather DMA of Xilinx's Multi-Port Memory Controller (SDMA) with an LL TEMAC behind it. From Xilinx's driver of it, whose
//! comments describe the engine (`lldma`: xlldma.h, xlldma_hw.h, xlldma_bdring.c), and from what U-Boot's `xilinx_ll_temac*` quotes of
//! the data sheets of MPMC (DS643) and XPS_LL_TEMAC (DS537). Nothing is taken from Linux' driver, from which `nic` has its row.

use super::{Broken, Device, Wire, gather, scatter};
use crate::memory::Memory;

// Octets from a descriptor's first, XLLDMA_BD_*.
const NDESC: u32 = 0x00;
const BUFA: u32 = 0x04;
const BUFL: u32 = 0x08;
const STSCTRL: u32 = 0x0c;
const USR4: u32 = 0x1c;
const COMPLETED: u32 = 0x1000_0000;
const START: u32 = 0x0800_0000;
const END: u32 = 0x0400_0000;
/// "If the address […] is not 8-word aligned or reaches beyond the range of available memory, the SDMA halts processing".
const DESCRIPTOR: u32 = 32;
// Bits of a channel's control and interrupt registers: both have them at the same places.
const COALESCE: u32 = 1;
const ERROR: u32 = 4;
/// Of the control register: the master enable.
const ENABLE: u32 = 0x80;
// DMACR.
const SW_RESET: u32 = 1;
const TAIL_PTR_EN: u32 = 4;
/// RDY: no access to a register of the hard MAC is in progress.
const HARD_ACS_RDY: u32 = 1 << 16;

#[derive(Clone, Debug, Default)]
struct Channel {
    control: u32,
    irq: u32,
    current: u32,
    tail: u32,
    running: bool,
    halted: bool,
    /// The descriptor was read: its buffer, length and control.
    fetched: Option<[u32; 3]>,
    /// Octets were moved: what the status word becomes, and on the way in the last word.
    moved: Option<(u32, Option<u32>)>,
    frame: Vec<u8>,
    length: u32,
    mid_frame: bool,
}

/// Two channels, and as much of the MAC as a driver waits for.
#[derive(Clone, Debug, Default)]
pub struct Sdma {
    tx: Channel,
    rx: Channel,
    control: u32,
}

impl Channel {
    fn read(&self, offset: u32) -> u32 {
        match offset {
            0x0c => self.current,
            0x10 => self.tail,
            0x14 => self.control,
            0x18 => self.irq,
            _ => 0,
        }
    }

    fn write(&mut self, offset: u32, value: u32, by_tail: bool) {
        match offset {
            0x0c => self.current = value,
            // "In this mode write of a Tail Descriptor Pointer register […] starts DMA transactions."
            0x10 => {
                self.tail = value;
                self.running |= by_tail && !self.halted;
            }
            0x14 => self.control = value,
            0x18 => self.irq &= !value,
            _ => {}
        }
    }

    /// Nothing says that an event is remembered while it is not let through, so it is not.
    fn tell(&mut self, event: u32) {
        self.irq |= event & self.control;
    }

    fn halt(&mut self, wire: &mut Wire) {
        wire.broken.push(Broken::StaleDescriptor);
        (self.halted, self.running) = (true, false);
        self.tell(ERROR);
    }

    fn fetch(&mut self, memory: &Memory, wire: &mut Wire) -> Option<[u32; 3]> {
        if self.fetched.is_none() {
            let at = self.current;
            if !at.is_multiple_of(DESCRIPTOR) || !memory.has(at, DESCRIPTOR) {
                self.halt(wire);
                return None;
            }
            let words = [BUFA, BUFL, STSCTRL].map(|word| memory.device_read(at + word));
            if words[2] & COMPLETED != 0 {
                // CmpErr of the status register: it was completed before.
                self.halt(wire);
                return None;
            }
            self.fetched = Some(words);
            return None;
        }
        self.fetched.take()
    }

    /// Writes back what was moved, a word at a time and upwards; then the next descriptor's turn comes.
    fn write_back(&mut self, memory: &mut Memory, status: u32, last: Option<u32>) {
        if let Some(last) = last
            && memory.device_read(self.current + STSCTRL) & COMPLETED == 0
        {
            memory.device_write(self.current + STSCTRL, status | COMPLETED);
            self.moved = Some((status, Some(last)));
            return;
        }
        let word = if last.is_some() { USR4 } else { STSCTRL };
        memory.device_write(self.current + word, last.unwrap_or(status | COMPLETED));
        if status & END != 0 {
            self.tell(COALESCE);
        }
        self.running = self.current != self.tail;
        self.current = memory.device_read(self.current + NDESC);
    }

    fn interrupts(&self) -> bool {
        self.control & ENABLE != 0 && self.irq & self.control & (COALESCE | ERROR) != 0
    }
}

impl Sdma {
    fn transmit(&mut self, memory: &mut Memory, wire: &mut Wire) {
        let channel = &mut self.tx;
        if let Some((status, last)) = channel.moved.take() {
            if status & END != 0 {
                wire.sent.push(std::mem::take(&mut channel.frame));
            }
            return channel.write_back(memory, status, last);
        }
        let Some([buffer, octets, control]) = channel.fetch(memory, wire) else { return };
        if (control & START != 0) != channel.frame.is_empty() {
            wire.broken.push(Broken::MidFrame);
            channel.frame.clear();
        }
        channel.frame.extend(gather(memory, wire, buffer, octets));
        channel.moved = Some((control, None));
    }

    fn receive(&mut self, memory: &mut Memory, wire: &mut Wire) {
        let channel = &mut self.rx;
        if let Some((status, last)) = channel.moved.take() {
            return channel.write_back(memory, status, last);
        }
        let Some([buffer, room, _]) = channel.fetch(memory, wire) else { return };
        let mut status = 0;
        if !channel.mid_frame {
            let Some(frame) = wire.incoming.pop_front() else { return };
            (channel.length, channel.frame) = (frame.len() as u32, frame);
            status |= START;
        }
        let left = channel.frame.split_off(channel.frame.len().min(room as usize));
        scatter(memory, wire, buffer, &channel.frame);
        status |= if left.is_empty() { END } else { 0 };
        (channel.mid_frame, channel.frame) = (!left.is_empty(), left);
        // "A user word the User-IP always updates in the RX Buffer Descriptors (BD) during ALL Receive transactions."
        channel.moved = Some((status, Some(channel.length & 0x3fff)));
    }

    fn receives(&self, wire: &Wire) -> bool {
        let channel = &self.rx;
        channel.running && (channel.moved.is_some() || channel.mid_frame || !wire.incoming.is_empty())
    }
}

impl Device for Sdma {
    fn read(&mut self, dma: bool, offset: u32) -> u32 {
        match (dma, offset) {
            (true, 0x00..0x20) => self.tx.read(offset),
            (true, 0x20..0x40) => self.rx.read(offset - 0x20),
            (true, 0x40) => self.control,
            (false, 0x2c) => HARD_ACS_RDY,
            _ => 0,
        }
    }

    fn write(&mut self, dma: bool, offset: u32, value: u32) {
        let by_tail = self.control & TAIL_PTR_EN != 0;
        match (dma, offset) {
            (true, 0x00..0x20) => self.tx.write(offset, value, by_tail),
            (true, 0x20..0x40) => self.rx.write(offset - 0x20, value, by_tail),
            (true, 0x40) if value & SW_RESET != 0 => *self = Sdma::default(),
            (true, 0x40) => self.control = value,
            _ => {}
        }
    }

    fn is_busy(&self, wire: &Wire) -> bool {
        self.tx.running || self.receives(wire)
    }

    fn step(&mut self, memory: &mut Memory, wire: &mut Wire, _: &mut dyn FnMut() -> bool) {
        if self.tx.running {
            self.transmit(memory, wire);
        } else if self.receives(wire) {
            self.receive(memory, wire);
        }
    }

    fn interrupts(&self) -> bool {
        self.tx.interrupts() || self.rx.interrupts()
    }
}
