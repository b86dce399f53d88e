//! The board's life: frames are taken from one ring and answered into the other, and now and then a line is said.
//! Knows rings and texts, no registers.

use core::fmt::Write;

use linerate_firmware::responder::Responder;
use linerate_nic::bus::BusAddress;
use linerate_nic::driver::{Driver, Events, Frame, NeverClear, Polled};
use linerate_nic::options::Options;
use linerate_nic::place::{Misplaced, RingPlace};
use linerate_nic::tx_ring::TxRing;

use crate::board::Board;
use crate::console::Console;
use crate::machine::{MacRegisters, SharedMemory};
use crate::time::Time;

/// The board's address: that of a board's end of the lab's cable.
const ADDRESS: [u8; 4] = [198, 18, 0, 2];
/// Descriptors of each ring.
const RING: usize = 32;
/// Frames that are looked at before anything else is done.
const BUDGET: usize = 16;
/// Bytes of the longest frame, without FCS; ENET ends at 1518 by itself.
const LONGEST: usize = 9216;
/// Between two lines of statistics, µs.
const PERIOD_US: u64 = 5_000_000;

type Rings = Driver<RING, RING>;

/// Why a board serves nobody.
#[derive(Debug)]
pub enum Stopped {
    /// A ring cannot be where it was put.
    Misplaced(Misplaced),
    /// The MAC did not start.
    NeverClear(NeverClear),
}

impl core::fmt::Display for Stopped {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Stopped::Misplaced(why) => write!(f, "the rings cannot be where they are: {why:?}"),
            Stopped::NeverClear(NeverClear(register)) => write!(f, "the MAC does not start: {register} never clears"),
        }
    }
}

/// Serves for ever, or says why it cannot.
pub fn serve(board: &'static Board, console: &mut Console) -> Stopped {
    let (mut memory, mut registers) = (SharedMemory, MacRegisters { mac: board.mac, dma: board.dma });
    let mut responder = Responder::new(ADDRESS);
    let mut rings = match rings(board, &memory) {
        Ok(rings) => rings,
        Err(why) => return Stopped::Misplaced(why),
    };
    if let Err(why) = rings.start(&mut memory, &mut registers, responder.mac()) {
        return Stopped::NeverClear(why);
    }
    let ([a, b, c, d], [m, n, o, p, q, r]) = (ADDRESS, responder.mac());
    let _ = write!(console, "linerate firmware: {}, {}, {a}.{b}.{c}.{d}, ", board.name, board.controller.name);
    let _ = write!(console, "{m:02x}:{n:02x}:{o:02x}:{p:02x}:{q:02x}:{r:02x}\r\n");

    let mut time = Time::start(&board.clock);
    let mut buffer = [0; LONGEST];
    let (mut more, mut unsent, mut said_us) = (true, 0u64, 0);
    loop {
        let now_us = time.now_us();
        // No more than can be answered: what is left waits in the ring.
        let budget = rings.tx().free().min(BUDGET);
        let each = |memory: &mut SharedMemory, frame: Frame<'_, RING>, tx: &mut TxRing<RING>| {
            let len = frame.load(memory, &mut buffer);
            if let Some(len) = responder.handle(now_us, &mut buffer, len)
                && tx.send_octets(memory, &buffer[..len]).is_err()
            {
                unsent += 1;
            }
            if let Some(report) = responder.take_ended() {
                let _ = write!(console, "{report}\r\n");
            }
        };
        if board.polled {
            let taken = rings.service(&mut memory, &mut registers, budget, each);
            if let Some(register) = board.rewritten.filter(|_| taken > 0) {
                board.mac.write(register, board.mac.read(register));
            }
        } else if more || rings.interrupt(&mut registers) != Events::default() {
            more = rings.poll(&mut memory, &mut registers, budget, each) == Polled::More;
        }
        if now_us - said_us >= PERIOD_US {
            said_us += PERIOD_US;
            let (statistics, faulty) = (&responder.statistics, rings.counts().faulty);
            let _ = write!(console, "t={} {statistics} faulty={faulty} unsent={unsent}\r\n", said_us / 1_000_000);
        }
        console.poll();
    }
}

/// The rings with their buffers, one after the other in the shared memory.
fn rings(board: &Board, memory: &SharedMemory) -> Result<Rings, Misplaced> {
    let stride = board.controller.format.octets();
    let place = |descriptors: BusAddress, buffer: u32| {
        let buffers = descriptors.plus(4096.max(stride * RING as u32));
        RingPlace { descriptors, stride, buffers, buffer }
    };
    let tx = place(memory.first(), LONGEST as u32);
    let rx = place(tx.buffers.plus(tx.buffer * RING as u32), board.buffer);
    let Board { jumbo, gigabit, rgmii, rmii, second_queue, .. } = *board;
    let options = Options { jumbo, idle_queue: second_queue, gigabit, rgmii, rmii, ..Options::default() };
    Driver::new(board.controller, options, tx, rx, memory)
}
