//! Xilinx's AXI DMA in scatter/gather mode: PG021, "Register Space", "Scatter Gather Descriptor", "Descriptor Management".
//! Behind it AXI Ethernet, whose status words end up in a frame's last descriptor: PG138, "Receive AXI4-Stream Status".

use super::{Broken, Device, Wire, gather, scatter};
use crate::memory::Memory;

const RUN: u32 = 1;
const RESET: u32 = 4;
const IOC: u32 = 1 << 12;
const HALTED: u32 = 1;
const COMPLETE: u32 = 1 << 31;
/// Of the control word on the way out (TXEOF), and of the status word on the way in (RXEOF).
const END: u32 = 1 << 26;
const START: u32 = 1 << 27;
/// "Buffer Length" and "Transferred Bytes".
const LENGTH: u32 = 0x03ff_ffff;
// Octets from a descriptor's first.
const NEXT: u32 = 0x00;
const BUFFER: u32 = 0x08;
const CONTROL: u32 = 0x18;
const STATUS: u32 = 0x1c;
/// "User Application Field 4": its lower half is the frame's length (RXBYTECNT).
const APP4: u32 = 0x30;

/// A channel's registers and engine.
#[derive(Clone, Debug, Default)]
struct Channel {
    control: u32,
    status: u32,
    current: u32,
    tail: u32,
    running: bool,
    /// The descriptor is done, and was not yet compared with the tail.
    done: bool,
    halted: bool,
    /// The descriptor was read: its buffer and its control word.
    fetched: Option<(u32, u32)>,
    /// Octets of the buffer were moved, and whether the frame ends.
    moved: Option<(u32, bool)>,
    frame: Vec<u8>,
    /// Octets of the whole frame on the way in.
    length: u32,
    mid_frame: bool,
}

/// Two channels: MM2S to the MAC, S2MM from it.
#[derive(Clone, Debug, Default)]
pub struct AxiDma {
    mm2s: Channel,
    s2mm: Channel,
}

impl Channel {
    fn read(&self, offset: u32) -> u32 {
        match offset {
            0x00 => self.control,
            0x04 => self.status | if self.halted { HALTED } else { 0 },
            0x08 => self.current,
            0x10 => self.tail,
            _ => 0,
        }
    }

    fn write(&mut self, offset: u32, value: u32) {
        match offset {
            0x00 => self.control = value,
            0x04 => self.status &= !value,
            0x08 if self.control & RUN == 0 => self.current = value & !0x3f,
            0x10 => {
                // "…causes the SG engine to start fetching, or to restart if it was idle. If it was not idle, [it] has no
                // effect except to reposition the pause point."
                self.tail = value & !0x3f;
                self.running |= self.control & RUN != 0 && !self.halted;
            }
            _ => {}
        }
    }

    /// Compares with the tail, or reads the descriptor: `None` where that was all.
    fn fetch(&mut self, memory: &Memory, wire: &mut Wire) -> Option<(u32, u32)> {
        if self.done {
            self.done = false;
            let at = self.current;
            self.current = memory.device_read(at + NEXT);
            self.running = at != self.tail;
            return None;
        }
        if let Some(fetched) = self.fetched.take() {
            return Some(fetched);
        }
        let at = self.current;
        if !memory.has(at, 64) || memory.device_read(at + STATUS) & COMPLETE != 0 {
            wire.broken.push(Broken::StaleDescriptor);
            (self.halted, self.running) = (true, false);
            return None;
        }
        self.fetched = Some((memory.device_read(at + BUFFER), memory.device_read(at + CONTROL)));
        None
    }

    fn complete(&mut self, memory: &mut Memory, bits: u32, end: bool) {
        memory.device_write(self.current + STATUS, COMPLETE | bits);
        self.done = true;
        if end {
            self.status |= IOC;
        }
    }
}

impl AxiDma {
    fn transmit(&mut self, memory: &mut Memory, wire: &mut Wire) {
        let channel = &mut self.mm2s;
        if let Some((octets, end)) = channel.moved.take() {
            if end {
                wire.sent.push(std::mem::take(&mut channel.frame));
            }
            return channel.complete(memory, octets, end);
        }
        let Some((buffer, control)) = channel.fetch(memory, wire) else { return };
        if (control & START != 0) != channel.frame.is_empty() {
            wire.broken.push(Broken::MidFrame);
            channel.frame.clear();
        }
        let octets = gather(memory, wire, buffer, control & LENGTH);
        channel.frame.extend(octets);
        channel.moved = Some((control & LENGTH, control & END != 0));
    }

    fn receive(&mut self, memory: &mut Memory, wire: &mut Wire) {
        let channel = &mut self.s2mm;
        if let Some((octets, end)) = channel.moved.take() {
            let start = if channel.mid_frame { 0 } else { START };
            channel.mid_frame = !end;
            if end {
                memory.device_write(channel.current + APP4, channel.length & 0xffff);
            }
            return channel.complete(memory, octets | start | if end { END } else { 0 }, end);
        }
        let Some((buffer, control)) = channel.fetch(memory, wire) else { return };
        if !channel.mid_frame {
            let Some(frame) = wire.incoming.pop_front() else { return };
            channel.length = frame.len() as u32;
            channel.frame = frame;
        }
        let left = channel.frame.split_off(channel.frame.len().min((control & LENGTH) as usize));
        scatter(memory, wire, buffer, &channel.frame);
        channel.moved = Some((channel.frame.len() as u32, left.is_empty()));
        channel.frame = left;
    }

    fn receives(&self, wire: &Wire) -> bool {
        let channel = &self.s2mm;
        channel.running && (channel.moved.is_some() || channel.done || channel.mid_frame || !wire.incoming.is_empty())
    }
}

impl Device for AxiDma {
    fn read(&mut self, dma: bool, offset: u32) -> u32 {
        match (dma, offset) {
            (true, 0x00..0x30) => self.mm2s.read(offset),
            (true, 0x30..) => self.s2mm.read(offset - 0x30),
            (false, _) => 0,
        }
    }

    fn write(&mut self, dma: bool, offset: u32, value: u32) {
        match (dma, offset) {
            (true, 0x00 | 0x30) if value & RESET != 0 => *self = AxiDma::default(),
            (true, 0x00..0x30) => self.mm2s.write(offset, value),
            (true, 0x30..) => self.s2mm.write(offset - 0x30, value),
            (false, _) => {}
        }
    }

    fn is_busy(&self, wire: &Wire) -> bool {
        self.mm2s.running || self.receives(wire)
    }

    fn step(&mut self, memory: &mut Memory, wire: &mut Wire, _: &mut dyn FnMut() -> bool) {
        if self.mm2s.running {
            self.transmit(memory, wire);
        } else if self.receives(wire) {
            self.receive(memory, wire);
        }
    }

    fn interrupts(&self) -> bool {
        [&self.mm2s, &self.s2mm].iter().any(|channel| channel.status & channel.control & IOC != 0)
    }
}
