//! Atheros' MAC of AR71xx and later, as FreeBSD's and Linux' drivers tell of it: there is no public manual.

use super::{Broken, Device, Wire, fcs, gather, scatter};
use crate::memory::Memory;

// The control word, the second.
const EMPTY: u32 = 1 << 31;
const MORE: u32 = 1 << 24;
const SIZE: u32 = 0xfff;
// Interrupt bits.
const SENT: u32 = 1;
const RECEIVED: u32 = 1 << 4;
const OVERFLOWED: u32 = 1 << 6;

/// The MAC and its DMA.
#[derive(Clone, Debug, Default)]
pub struct Arge {
    tx_runs: bool,
    rx_runs: bool,
    tx_at: u32,
    rx_at: u32,
    /// Frames that the driver has not counted off.
    sent: u32,
    received: u32,
    overflow: bool,
    mask: u32,
    tx: Tx,
    rx: Rx,
    frame: Vec<u8>,
    mid_frame: bool,
    config: [u32; 2],
}

#[derive(Clone, Copy, Debug, Default)]
enum Tx {
    #[default]
    Look,
    Data {
        control: u32,
    },
    Done {
        control: u32,
    },
}

#[derive(Clone, Copy, Debug, Default)]
enum Rx {
    #[default]
    Look,
    Data,
    Done {
        length: u32,
    },
}

impl Arge {
    fn transmit(&mut self, memory: &mut Memory, wire: &mut Wire) {
        match self.tx {
            Tx::Look => {
                let control = memory.device_read(self.tx_at + 4);
                if control & EMPTY != 0 {
                    if self.mid_frame {
                        wire.broken.push(Broken::MidFrame);
                        self.frame.clear();
                        self.mid_frame = false;
                    }
                    self.tx_runs = false;
                } else {
                    self.tx = Tx::Data { control };
                }
            }
            Tx::Data { control } => {
                let octets = gather(memory, wire, memory.device_read(self.tx_at), control & SIZE);
                self.frame.extend(octets);
                self.mid_frame = control & MORE != 0;
                self.tx = Tx::Done { control };
            }
            Tx::Done { control } => {
                memory.device_write(self.tx_at + 4, control | EMPTY);
                if control & MORE == 0 {
                    wire.sent.push(std::mem::take(&mut self.frame));
                    self.sent += 1;
                }
                self.tx_at = memory.device_read(self.tx_at + 8);
                self.tx = Tx::Look;
            }
        }
    }

    fn receive(&mut self, memory: &mut Memory, wire: &mut Wire) {
        match self.rx {
            Rx::Look => {
                if memory.device_read(self.rx_at + 4) & EMPTY == 0 {
                    wire.dropped.extend(wire.incoming.pop_front());
                    (self.rx_runs, self.overflow) = (false, true);
                } else {
                    self.rx = Rx::Data;
                }
            }
            Rx::Data => {
                let Some(mut frame) = wire.incoming.pop_front() else { return self.rx = Rx::Look };
                frame.extend(fcs(&frame));
                scatter(memory, wire, memory.device_read(self.rx_at), &frame);
                self.rx = Rx::Done { length: frame.len() as u32 };
            }
            Rx::Done { length } => {
                memory.device_write(self.rx_at + 4, length & SIZE);
                self.received += 1;
                self.rx_at = memory.device_read(self.rx_at + 8);
                self.rx = Rx::Look;
            }
        }
    }

    fn status(&self) -> u32 {
        let bit = |holds: bool, bit: u32| if holds { bit } else { 0 };
        bit(self.sent > 0, SENT) | bit(self.received > 0, RECEIVED) | bit(self.overflow, OVERFLOWED)
    }

    fn transmits(&self) -> bool {
        self.tx_runs || !matches!(self.tx, Tx::Look)
    }

    fn receives(&self, wire: &Wire) -> bool {
        !matches!(self.rx, Rx::Look) || self.rx_runs && !wire.incoming.is_empty()
    }
}

impl Device for Arge {
    fn read(&mut self, _: bool, offset: u32) -> u32 {
        match offset {
            0x00 | 0x04 => self.config[offset as usize / 4],
            0x180 => self.tx_runs.into(),
            0x188 => self.sent << 16 | u32::from(self.sent > 0),
            0x18c => self.rx_runs.into(),
            0x194 => self.received << 16 | u32::from(self.overflow) << 2 | u32::from(self.received > 0),
            0x198 => self.mask,
            0x19c => self.status(),
            _ => 0,
        }
    }

    fn write(&mut self, _: bool, offset: u32, value: u32) {
        match offset {
            0x00 | 0x04 => self.config[offset as usize / 4] = value,
            0x180 => self.tx_runs = value & 1 != 0,
            0x184 => self.tx_at = value,
            0x188 => self.sent = self.sent.saturating_sub(value & 1),
            0x18c => self.rx_runs = value & 1 != 0,
            0x190 => self.rx_at = value,
            0x194 => {
                self.received = self.received.saturating_sub(value & 1);
                self.overflow &= value & 4 == 0;
            }
            0x198 => self.mask = value,
            _ => {}
        }
    }

    fn is_busy(&self, wire: &Wire) -> bool {
        self.transmits() || self.receives(wire)
    }

    fn step(&mut self, memory: &mut Memory, wire: &mut Wire, _: &mut dyn FnMut() -> bool) {
        if self.transmits() {
            self.transmit(memory, wire);
        } else if self.receives(wire) {
            self.receive(memory, wire);
        }
    }

    fn interrupts(&self) -> bool {
        self.status() & self.mask != 0
    }
}
