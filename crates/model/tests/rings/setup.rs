//! One machine of a test: a driver's row, the order of memory, what is cached, and the two scripts that are explored.

use std::cell::RefCell;

use linerate_model::device::{Arge, AxiDma, Cadence, Core, Device, Enet, Sdma, Wire};
use linerate_model::explore::{Choices, Explored, explore};
use linerate_model::memory::{LINE, Memory, Order};
use linerate_model::world::{CpuBus, CpuRegisters, DriverWait, Failure, World};
use linerate_nic::bus::{Bus, BusAddress, Registers};
use linerate_nic::controller::{ARGE, AXI_ETHERNET, Controller, ENET_ENHANCED, ENET_LEGACY, GEM, LL_TEMAC, MACB};
use linerate_nic::driver::{Driver, Polled};
use linerate_nic::format::RingEnd;
use linerate_nic::options::Options;
use linerate_nic::place::RingPlace;
use linerate_nic::tx_ring::Fragment;

pub const ADDRESS: [u8; 6] = [2, 0, 0, 0, 0, 1];
pub const TX_DESCRIPTORS: u32 = 0x100;
pub const RX_DESCRIPTORS: u32 = 0x200;
const TX_BUFFERS: u32 = 0x400;
const RX_BUFFERS: u32 = 0x600;
const FRAGMENTS: u32 = 0x800;
const END: u32 = 0x900;
/// Octets of a buffer: what every controller can have.
pub const BUFFER: u32 = 128;
/// More schedules than any of these tests has.
const MOST: u64 = 3_000_000;

pub static CONTROLLERS: [&Controller; 7] = [&ENET_LEGACY, &ENET_ENHANCED, &MACB, &GEM, &AXI_ETHERNET, &LL_TEMAC, &ARGE];

#[derive(Clone, Copy)]
pub struct Setup {
    pub controller: &'static Controller,
    pub order: Order,
    pub write_back: bool,
    /// Descriptors are cached whatever the format; else where each can have a line of its own.
    pub all_cached: bool,
    /// ENET's ERR006358.
    pub erratum: bool,
    pub bound: usize,
}

impl Setup {
    pub fn of(controller: &'static Controller) -> Setup {
        Setup { controller, order: Order::Program, write_back: false, all_cached: false, erratum: false, bound: 2 }
    }

    pub fn weak(self) -> Setup {
        Setup { order: Order::Weak, ..self }
    }

    pub fn write_back(self) -> Setup {
        Setup { write_back: true, ..self }
    }

    pub fn device(&self) -> Box<dyn Device> {
        match self.controller.name {
            "MACB" => Box::new(Cadence::new(Core::Emac)),
            "GEM" => Box::new(Cadence::new(Core::Gem)),
            "AXI Ethernet" => Box::new(AxiDma::default()),
            "LL TEMAC" => Box::new(Sdma::default()),
            "arge" => Box::new(Arge::default()),
            _ => Box::new(Enet::new(self.erratum)),
        }
    }

    /// Whether each descriptor can have a cache line of its own.
    fn apart(&self) -> bool {
        match self.controller.format.close {
            RingEnd::Wrap { .. } => self.controller.format.octets().is_multiple_of(LINE),
            RingEnd::Next { .. } => true,
        }
    }

    fn cached_descriptors(&self) -> bool {
        self.write_back && (self.apart() || self.all_cached)
    }

    pub fn places(&self) -> (RingPlace, RingPlace) {
        let octets = self.controller.format.octets();
        let stride = if self.cached_descriptors() && self.apart() { octets.next_multiple_of(LINE) } else { octets };
        let place = |descriptors, buffers| RingPlace {
            descriptors: BusAddress(descriptors),
            stride,
            buffers: BusAddress(buffers),
            buffer: BUFFER,
        };
        (place(TX_DESCRIPTORS, TX_BUFFERS), place(RX_DESCRIPTORS, RX_BUFFERS))
    }

    pub fn world(&self, choices: Choices, wire: Wire) -> World {
        let descriptors = TX_DESCRIPTORS..RX_DESCRIPTORS + 0x100;
        let mut cached = Vec::new();
        let mut ahead = Vec::new();
        if self.write_back {
            cached.push(TX_BUFFERS..END);
            // The first line of the first two receive buffers: what a prefetcher may read too early.
            ahead.extend([RX_BUFFERS..RX_BUFFERS + LINE, RX_BUFFERS + BUFFER..RX_BUFFERS + BUFFER + LINE]);
        }
        if self.cached_descriptors() {
            cached.push(descriptors);
            ahead.push(RX_DESCRIPTORS..RX_DESCRIPTORS + LINE);
        }
        let world = World::new(Memory::new(END, self.order, cached, ahead), self.device(), wire, choices);
        if self.cached_descriptors() { world.with_cached_descriptors() } else { world }
    }
}

/// What a test's driver has instead of the machine's bus and registers, where it is not the original.
pub trait Patch {
    type Bus<'a>: Bus;
    type Registers<'a>: Registers;
    fn bus<'a>(&self, bus: CpuBus<'a>) -> Self::Bus<'a>;
    fn registers<'a>(&self, registers: CpuRegisters<'a>) -> Self::Registers<'a>;
    /// How the driver answers an interrupt.
    fn serve<const TX: usize, const RX: usize>(
        &self,
        driver: &mut Driver<TX, RX>,
        bus: &mut Self::Bus<'_>,
        registers: &mut Self::Registers<'_>,
        received: &mut Vec<Vec<u8>>,
    ) {
        driver.interrupt(registers);
        // As often as it takes: a driver that is told of nothing and finds nothing would otherwise go round for ever.
        for _ in 0..64 {
            let polled = driver.poll(bus, registers, 8, |bus, frame, _| {
                let mut octets = [0; 256];
                let length = frame.load(bus, &mut octets);
                received.push(octets[..length].to_vec());
            });
            if polled == Polled::Idle {
                return;
            }
        }
    }
}

/// The driver as it is.
pub struct Original;

impl Patch for Original {
    type Bus<'a> = CpuBus<'a>;
    type Registers<'a> = CpuRegisters<'a>;

    fn bus<'a>(&self, bus: CpuBus<'a>) -> CpuBus<'a> {
        bus
    }

    fn registers<'a>(&self, registers: CpuRegisters<'a>) -> CpuRegisters<'a> {
        registers
    }
}

/// What is explored.
#[derive(Clone, Copy, Debug)]
pub enum Script {
    /// Two frames are sent, the second in two fragments.
    Send,
    /// Frames arrive, these many; the second is longer than a buffer where a frame can have several.
    Receive(usize),
}

/// Every schedule of a script with `N` descriptors a ring.
pub fn schedules<const N: usize>(setup: Setup, patch: &impl Patch, script: Script) -> Explored<Failure> {
    explore(setup.bound, MOST, |choices| {
        let wire = match script {
            Script::Send => Wire::default(),
            Script::Receive(frames) => Wire { incoming: arriving(&setup, frames).into(), ..Wire::default() },
        };
        let world = RefCell::new(setup.world(choices, wire));
        let result = run::<N>(&setup, patch, script, &world);
        (world.into_inner().into_choices(), result)
    })
}

fn arriving(setup: &Setup, frames: usize) -> Vec<Vec<u8>> {
    let long = setup.controller.format.buffer_unit == BUFFER;
    (0..frames as u8).map(|nth| vec![0x10 + nth; if nth == 1 && long { 132 } else { 4 }]).collect()
}

fn run<const N: usize>(
    setup: &Setup,
    patch: &impl Patch,
    script: Script,
    world: &RefCell<World>,
) -> Result<(), Failure> {
    let (mut bus, mut registers) = (patch.bus(CpuBus(world)), patch.registers(CpuRegisters(world)));
    let (tx, rx) = setup.places();
    let mut driver =
        Driver::<N, N>::new(setup.controller, Options::default(), tx, rx, &bus).expect("it has its places");
    let stored = std::mem::take(&mut world.borrow_mut().wire.incoming);
    driver.start(&mut bus, &mut registers, ADDRESS).expect("the device answers");
    world.borrow_mut().wire.incoming = stored;
    let arrived: Vec<Vec<u8>> = world.borrow().wire.incoming.iter().cloned().collect();
    world.borrow_mut().explore();

    let mut expected = Vec::new();
    if let Script::Send = script {
        let at = |nth: u32| BusAddress(FRAGMENTS + nth * LINE);
        for frame in [&[0][..], &[1, 2][..]] {
            for &nth in frame {
                bus.store(at(nth), &[0xa0 + nth as u8; 4]);
            }
            let fragments: Vec<Fragment> = frame.iter().map(|&nth| Fragment { at: at(nth), octets: 4 }).collect();
            driver.send(&mut bus, &mut registers, &fragments).expect("there is room");
            expected.push(frame.iter().flat_map(|&nth| [0xa0 + nth as u8; 4]).collect::<Vec<u8>>());
        }
    }
    let mut received = Vec::new();
    loop {
        let waited = world.borrow_mut().wait();
        match waited {
            DriverWait::Quiet => break,
            DriverWait::Interrupt => patch.serve(&mut driver, &mut bus, &mut registers, &mut received),
        }
    }

    let world = world.borrow();
    if world.is_endless() {
        return Err(Failure::Endless);
    }
    if let Some(&broken) = world.wire.broken.first() {
        return Err(Failure::Broken(broken));
    }
    if world.wire.sent != expected {
        return Err(Failure::Sent { expected, sent: world.wire.sent.clone() });
    }
    let arrived: Vec<Vec<u8>> = arrived.into_iter().filter(|frame| !world.wire.dropped.contains(frame)).collect();
    if received != arrived {
        return Err(Failure::Received { expected: arrived, received });
    }
    let spare = setup.controller.format.spare;
    if driver.tx().free() + driver.tx().in_flight() + spare != N || driver.tx().in_flight() != 0 {
        return Err(Failure::Lost);
    }
    if driver.rx().armed() + driver.rx().held() + spare != N {
        return Err(Failure::Lost);
    }
    Ok(())
}
