//! Cadence's GEM and Atmel's EMAC: UG585, sections 16.3.5 "Receive buffer descriptor" to 16.3.7, and the AT91SAM9260
//! datasheet, section "DMA block".

use super::{Broken, Device, Wire, gather, scatter};
use crate::memory::Memory;

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Core {
    /// Gigabit; the size of receive buffers is a register's.
    Gem,
    /// 10/100; receive buffers have 128 octets.
    Emac,
}

// Word 1 of a transmit descriptor.
const TX_USED: u32 = 0x8000_0000;
const TX_WRAP: u32 = 0x4000_0000;
const TX_LAST: u32 = 0x0000_8000;
// Word 0 of a receive descriptor.
const RX_USED: u32 = 1;
const RX_WRAP: u32 = 2;
// Word 1 of one.
const START: u32 = 0x4000;
const END: u32 = 0x8000;
// Interrupt status.
const RX_COMPLETE: u32 = 0x02;
const RX_USED_READ: u32 = 0x04;
const TX_COMPLETE: u32 = 0x80;
// Network control.
const RX_ENABLE: u32 = 0x04;
const TX_ENABLE: u32 = 0x08;
const TX_START: u32 = 0x200;

/// The MAC and its DMA.
#[derive(Clone, Debug)]
pub struct Cadence {
    core: Core,
    control: u32,
    config: u32,
    dma: u32,
    /// What happened while it was let through. What happens while it is kept back is not remembered: `macb_rx_poll` of
    /// Linux (drivers/net/ethernet/cadence/macb_main.c) says so of the silicon, and looks again for that reason.
    status: u32,
    enabled: u32,
    tx_first: u32,
    rx_first: u32,
    tx_at: u32,
    rx_at: u32,
    going: bool,
    tx: Tx,
    rx: Rx,
    frame: Vec<u8>,
    /// The frame's first descriptor, and that one's word 1.
    began: Option<(u32, u32)>,
    arriving: Option<Vec<u8>>,
    length: u32,
}

#[derive(Clone, Copy, Debug)]
enum Tx {
    Look,
    Address { control: u32 },
    Data { control: u32, address: u32 },
    Done,
}

#[derive(Clone, Copy, Debug)]
enum Rx {
    Look,
    Data { address: u32 },
    Status { address: u32, status: u32 },
    Used { address: u32, status: u32 },
}

impl Cadence {
    /// One after reset.
    pub fn new(core: Core) -> Cadence {
        Cadence {
            core,
            control: 0,
            config: 0,
            dma: 0,
            status: 0,
            enabled: 0,
            tx_first: 0,
            rx_first: 0,
            tx_at: 0,
            rx_at: 0,
            going: false,
            tx: Tx::Look,
            rx: Rx::Look,
            frame: Vec::new(),
            began: None,
            arriving: None,
            length: 0,
        }
    }

    fn raise(&mut self, bits: u32) {
        self.status |= bits & self.enabled;
    }

    fn buffer(&self) -> usize {
        match self.core {
            Core::Emac => 128,
            Core::Gem => (self.dma >> 16 & 0xff) as usize * 64,
        }
    }

    fn transmit(&mut self, memory: &mut Memory, wire: &mut Wire, burst: &mut dyn FnMut() -> bool) {
        match self.tx {
            Tx::Look => {
                let control = memory.device_read(self.tx_at + 4);
                if control & TX_USED != 0 {
                    if self.began.take().is_some() {
                        wire.broken.push(Broken::MidFrame);
                        self.frame.clear();
                    }
                    self.going = false;
                } else if burst() {
                    self.tx = Tx::Data { control, address: memory.device_read(self.tx_at) };
                } else {
                    self.tx = Tx::Address { control };
                }
            }
            Tx::Address { control } => self.tx = Tx::Data { control, address: memory.device_read(self.tx_at) },
            Tx::Data { control, address } => {
                let mask = if self.core == Core::Gem { 0x3fff } else { 0x7ff };
                let octets = gather(memory, wire, address, control & mask);
                self.frame.extend(octets);
                self.began.get_or_insert((self.tx_at, control));
                self.tx_at = if control & TX_WRAP != 0 { self.tx_first } else { self.tx_at + 8 };
                self.tx = if control & TX_LAST != 0 { Tx::Done } else { Tx::Look };
            }
            Tx::Done => {
                // "…the used bit is written to the first buffer descriptor of the frame."
                if let Some((at, control)) = self.began.take() {
                    memory.device_write(at + 4, control | TX_USED);
                }
                wire.sent.push(std::mem::take(&mut self.frame));
                self.raise(TX_COMPLETE);
                self.tx = Tx::Look;
            }
        }
    }

    fn receive(&mut self, memory: &mut Memory, wire: &mut Wire) {
        match self.rx {
            Rx::Look => {
                let address = memory.device_read(self.rx_at);
                if address & RX_USED != 0 {
                    // A frame that finds no buffer is dropped; one that has begun is cut, and has no end.
                    self.arriving = None;
                    wire.dropped.extend(wire.incoming.pop_front());
                    self.raise(RX_USED_READ);
                } else {
                    self.rx = Rx::Data { address };
                }
            }
            Rx::Data { address } => {
                let begins = self.arriving.is_none();
                // A frame is dropped as a whole while it is at the head of `incoming`.
                let left = self.arriving.take().or_else(|| wire.incoming.front().cloned());
                let Some(mut octets) = left else { return self.rx = Rx::Look };
                if begins {
                    self.length = octets.len() as u32;
                }
                let offset = if begins { (self.config >> 14 & 3) as usize } else { 0 };
                let left = octets.split_off(octets.len().min(self.buffer() - offset));
                scatter(memory, wire, (address & !3) + offset as u32, &octets);
                let end = left.is_empty();
                let bits = if begins { START } else { 0 } | if end { END | self.length } else { 0 };
                self.arriving = (!end).then_some(left);
                self.rx = Rx::Status { address, status: bits };
            }
            Rx::Status { address, status } => {
                memory.device_write(self.rx_at + 4, status);
                self.rx = Rx::Used { address, status };
            }
            Rx::Used { address, status } => {
                memory.device_write(self.rx_at, address | RX_USED);
                self.rx_at = if address & RX_WRAP != 0 { self.rx_first } else { self.rx_at + 8 };
                if status & END != 0 {
                    wire.incoming.pop_front();
                    self.raise(RX_COMPLETE);
                }
                self.rx = Rx::Look;
            }
        }
    }

    fn transmits(&self) -> bool {
        self.going || !matches!(self.tx, Tx::Look)
    }

    fn receives(&self, wire: &Wire) -> bool {
        let mid = !matches!(self.rx, Rx::Look);
        self.control & RX_ENABLE != 0 && (mid || self.arriving.is_some() || !wire.incoming.is_empty())
    }
}

impl Device for Cadence {
    fn read(&mut self, _: bool, offset: u32) -> u32 {
        match offset {
            0x00 => self.control,
            0x04 => self.config,
            0x10 => self.dma,
            0x24 => std::mem::take(&mut self.status),
            _ => 0,
        }
    }

    fn write(&mut self, _: bool, offset: u32, value: u32) {
        match offset {
            0x00 => {
                let newly = value & !self.control;
                if newly & TX_ENABLE != 0 {
                    self.tx_at = self.tx_first;
                }
                if newly & RX_ENABLE != 0 {
                    self.rx_at = self.rx_first;
                }
                self.going |= value & TX_START != 0 && value & TX_ENABLE != 0;
                self.control = value & !TX_START;
            }
            0x04 => self.config = value,
            0x10 => self.dma = value,
            0x18 => self.rx_first = value & !3,
            0x1c => self.tx_first = value & !3,
            0x28 => self.enabled |= value,
            0x2c => self.enabled &= !value,
            _ => {}
        }
    }

    fn is_busy(&self, wire: &Wire) -> bool {
        self.transmits() || self.receives(wire)
    }

    fn step(&mut self, memory: &mut Memory, wire: &mut Wire, burst: &mut dyn FnMut() -> bool) {
        if self.transmits() {
            self.transmit(memory, wire, burst);
        } else if self.receives(wire) {
            self.receive(memory, wire);
        }
    }

    fn interrupts(&self) -> bool {
        self.status & self.enabled != 0
    }
}
