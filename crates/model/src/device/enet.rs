//! NXP's ENET: IMX6DQRM, chapter "10/100/1000-Mbps Ethernet MAC (ENET)", sections "Buffer descriptors" and "Memory map".

use super::{Broken, Device, Wire, fcs, gather, scatter};
use crate::memory::Memory;

// Control bits of the half word above the data length (table "Transmit buffer descriptor field definitions").
const READY: u32 = 0x8000 << 16;
const WRAP: u32 = 0x2000 << 16;
const LAST: u32 = 0x0800 << 16;
// And of a receive descriptor's.
const EMPTY: u32 = 0x8000 << 16;
// EIR and EIMR.
const TXF: u32 = 0x0800_0000;
const RXF: u32 = 0x0200_0000;
/// ECR.
const ETHEREN: u32 = 2;
const EN1588: u32 = 0x10;
/// RACC.
const SHIFT16: u32 = 0x80;
/// Enhanced descriptors interrupt only where the driver asks: bit 30 on the way out, 23 on the way in.
const TX_INT: u32 = 0x4000_0000;
const RX_INT: u32 = 0x0080_0000;

/// The MAC and its DMA.
#[derive(Clone, Debug, Default)]
pub struct Enet {
    erratum: bool,
    ecr: u32,
    eir: u32,
    eimr: u32,
    racc: u32,
    buffer: u32,
    tdsr: u32,
    rdsr: u32,
    tx_active: bool,
    rx_active: bool,
    tx_at: u32,
    rx_at: u32,
    tx: Tx,
    rx: Rx,
    frame: Vec<u8>,
    /// What is left of the frame that is being received.
    arriving: Option<Vec<u8>>,
    /// Its octets, FCS and what stands before it counted.
    frame_length: u32,
    /// The next descriptor was ready when this frame was sent.
    next_ready: bool,
}

#[derive(Clone, Copy, Debug, Default)]
enum Tx {
    #[default]
    Look,
    Address {
        status: u32,
    },
    Data {
        status: u32,
        address: u32,
    },
    Peek {
        status: u32,
    },
    Done {
        status: u32,
    },
}

#[derive(Clone, Copy, Debug, Default)]
enum Rx {
    #[default]
    Look,
    Data {
        status: u32,
        address: u32,
    },
    Done {
        status: u32,
        last: bool,
        length: u32,
    },
}

impl Enet {
    /// One after reset; `erratum` with ERR006358: a doorbell that comes after the next descriptor was seen not ready is
    /// lost.
    pub fn new(erratum: bool) -> Enet {
        Enet { erratum, ..Enet::default() }
    }

    fn octets(&self) -> u32 {
        if self.ecr & EN1588 == 0 { 8 } else { 32 }
    }

    fn after(&self, at: u32, first: u32, status: u32) -> u32 {
        if status & WRAP != 0 { first } else { at + self.octets() }
    }

    fn transmit(&mut self, memory: &mut Memory, wire: &mut Wire, burst: &mut dyn FnMut() -> bool) {
        match self.tx {
            Tx::Look => {
                let status = memory.device_read(self.tx_at);
                if status & READY == 0 {
                    if !self.frame.is_empty() {
                        wire.broken.push(Broken::MidFrame);
                        self.frame.clear();
                    }
                    self.tx_active = false;
                } else if burst() {
                    self.tx = Tx::Data { status, address: memory.device_read(self.tx_at + 4) };
                } else {
                    self.tx = Tx::Address { status };
                }
            }
            Tx::Address { status } => self.tx = Tx::Data { status, address: memory.device_read(self.tx_at + 4) },
            Tx::Data { status, address } => {
                let octets = gather(memory, wire, address, status & 0xffff);
                self.frame.extend(octets);
                self.tx = if self.erratum && status & LAST != 0 { Tx::Peek { status } } else { Tx::Done { status } };
            }
            Tx::Peek { status } => {
                let next = self.after(self.tx_at, self.tdsr, status);
                self.next_ready = memory.device_read(next) & READY != 0;
                self.tx = Tx::Done { status };
            }
            Tx::Done { status } => {
                let asked = self.octets() == 8 || memory.device_read(self.tx_at + 8) & TX_INT != 0;
                memory.device_write(self.tx_at, status & !READY);
                if status & LAST != 0 {
                    wire.sent.push(std::mem::take(&mut self.frame));
                    if self.erratum && !self.next_ready {
                        self.tx_active = false;
                    }
                    if asked {
                        self.eir |= TXF;
                    }
                }
                self.tx_at = self.after(self.tx_at, self.tdsr, status);
                self.tx = Tx::Look;
            }
        }
    }

    fn receive(&mut self, memory: &mut Memory, wire: &mut Wire) {
        match self.rx {
            Rx::Look => {
                let status = memory.device_read(self.rx_at);
                if status & EMPTY == 0 {
                    self.rx_active = false;
                } else {
                    self.rx = Rx::Data { status, address: memory.device_read(self.rx_at + 4) };
                }
            }
            Rx::Data { status, address } => {
                if self.arriving.is_none() {
                    let Some(frame) = wire.incoming.pop_front() else { return self.rx = Rx::Look };
                    let mut octets = vec![0; if self.racc & SHIFT16 == 0 { 0 } else { 2 }];
                    octets.extend(&frame);
                    octets.extend(fcs(&frame));
                    self.frame_length = octets.len() as u32;
                    self.arriving = Some(octets);
                }
                let mut octets = self.arriving.take().unwrap_or_default();
                let left = octets.split_off(octets.len().min(self.buffer as usize));
                scatter(memory, wire, address, &octets);
                let last = left.is_empty();
                let length = if last { self.frame_length } else { self.buffer };
                self.arriving = (!last).then_some(left);
                self.rx = Rx::Done { status, last, length };
            }
            Rx::Done { status, last, length } => {
                let asked = self.octets() == 8 || memory.device_read(self.rx_at + 8) & RX_INT != 0;
                memory.device_write(self.rx_at, status & WRAP | if last { LAST } else { 0 } | length);
                if last && asked {
                    self.eir |= RXF;
                }
                self.rx_at = self.after(self.rx_at, self.rdsr, status);
                self.rx = Rx::Look;
            }
        }
    }

    fn receives(&self, wire: &Wire) -> bool {
        let mid = !matches!(self.rx, Rx::Look);
        self.rx_active && (mid || self.arriving.is_some() || !wire.incoming.is_empty())
    }
}

impl Device for Enet {
    fn read(&mut self, _: bool, offset: u32) -> u32 {
        match offset {
            0x004 => self.eir,
            0x008 => self.eimr,
            0x010 => u32::from(self.rx_active) << 24,
            0x014 => u32::from(self.tx_active) << 24,
            0x024 => self.ecr,
            0x188 => self.buffer,
            0x1c4 => self.racc,
            _ => 0,
        }
    }

    fn write(&mut self, _: bool, offset: u32, value: u32) {
        let runs = self.ecr & ETHEREN != 0;
        match offset {
            0x004 => self.eir &= !value,
            0x008 => self.eimr = value,
            0x010 => self.rx_active = runs,
            0x014 => self.tx_active = runs,
            // Reset is done at once.
            0x024 if value & 1 != 0 => *self = Enet { erratum: self.erratum, ..Enet::default() },
            0x024 => {
                if value & ETHEREN != 0 && !runs {
                    (self.tx_at, self.rx_at) = (self.tdsr, self.rdsr);
                }
                self.ecr = value;
            }
            0x180 => self.rdsr = value & !7,
            0x184 => self.tdsr = value & !7,
            0x188 => self.buffer = value & 0x3ff0,
            0x1c4 => self.racc = value,
            _ => {}
        }
    }

    fn is_busy(&self, wire: &Wire) -> bool {
        self.tx_active || !matches!(self.tx, Tx::Look) || self.receives(wire)
    }

    fn step(&mut self, memory: &mut Memory, wire: &mut Wire, burst: &mut dyn FnMut() -> bool) {
        if self.tx_active || !matches!(self.tx, Tx::Look) {
            self.transmit(memory, wire, burst);
        } else if self.receives(wire) {
            self.receive(memory, wire);
        }
    }

    fn interrupts(&self) -> bool {
        self.eir & self.eimr != 0
    }
}
