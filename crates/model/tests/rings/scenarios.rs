//! Bugs that need no unlucky order: bursts, overruns, lengths. Their numbers are those of docs/rings.md.

use std::cell::RefCell;
use std::collections::VecDeque;

use linerate_model::device::Wire;
use linerate_model::explore::{Choices, explore};
use linerate_model::world::{CpuBus, CpuRegisters, DriverWait, World};
use linerate_nic::bus::{Bus, BusAddress, Register};
use linerate_nic::controller::{
    ARGE, AXI_ETHERNET, Controller, Doorbell, ENET_ENHANCED, ENET_LEGACY, GEM, LL_TEMAC, MACB,
};
use linerate_nic::driver::{Driver, Polled};
use linerate_nic::options::{Faulty, Offset, Options};
use linerate_nic::rx_ring::Fragments;

use super::setup::{ADDRESS, CONTROLLERS, RX_DESCRIPTORS, Setup, TX_DESCRIPTORS};

pub const RING: usize = 4;

/// A driver and its machine, with nothing coming in between.
pub struct Machine {
    pub world: RefCell<World>,
    pub driver: Driver<RING, RING>,
    pub received: Vec<Vec<u8>>,
}

impl Machine {
    pub fn new(controller: &'static Controller, options: Options) -> Machine {
        let setup = Setup::of(controller);
        let world = RefCell::new(setup.world(no_choices(), Wire::default()));
        let (tx, rx) = setup.places();
        let (mut bus, mut registers) = (CpuBus(&world), CpuRegisters(&world));
        let mut driver = Driver::new(controller, options, tx, rx, &bus).expect("it has its places");
        driver.start(&mut bus, &mut registers, ADDRESS).expect("the device answers");
        Machine { world, driver, received: Vec::new() }
    }

    pub fn arrive(&self, frames: impl IntoIterator<Item = Vec<u8>>) {
        self.world.borrow_mut().wire.incoming.extend(frames);
    }

    /// The device does all that it can.
    pub fn run_device(&self) -> DriverWait {
        self.world.borrow_mut().wait()
    }

    /// The driver answers interrupts until there are none.
    pub fn settle(&mut self) {
        while self.run_device() == DriverWait::Interrupt {
            self.driver.interrupt(&mut CpuRegisters(&self.world));
            while self.poll(8) == Polled::More {}
        }
    }

    pub fn poll(&mut self, budget: usize) -> Polled {
        let received = &mut self.received;
        let (mut bus, mut registers) = (CpuBus(&self.world), CpuRegisters(&self.world));
        self.driver.poll(&mut bus, &mut registers, budget, |bus, frame, _| {
            let mut octets = [0; 1024];
            let length = frame.load(bus, &mut octets);
            received.push(octets[..length].to_vec());
        })
    }
}

fn no_choices() -> Choices {
    let mut first = None;
    explore::<()>(0, 1, |choices| {
        first = Some(choices.clone());
        (choices, Ok(()))
    });
    first.expect("one schedule is run")
}

/// Whether a frame after a burst of ten rings is received.
fn survives_a_burst(controller: &'static Controller) -> bool {
    let mut machine = Machine::new(controller, Options::default());
    machine.arrive((0..10 * RING as u8).map(|nth| vec![nth; 60]));
    machine.run_device();
    machine.settle();
    machine.arrive([vec![0xee; 60]]);
    machine.settle();
    machine.received.last() == Some(&vec![0xee; 60])
}

/// linux4microchip #7, esp-idf #18799, Zephyr #89435.
#[test]
fn b9_a_ring_that_was_full_receives_again() {
    for controller in CONTROLLERS {
        assert!(survives_a_burst(controller), "{}", controller.name);
    }
}

const NOWHERE: Doorbell = Doorbell::Write(Register::mac("nowhere", 0xffc), 0);
static DEAF_ENET: Controller = Controller { rx_doorbell: NOWHERE, ..ENET_LEGACY };
static DEAF_AXI: Controller = Controller { rx_doorbell: NOWHERE, ..AXI_ETHERNET };
static DEAF_SDMA: Controller = Controller { rx_doorbell: NOWHERE, ..LL_TEMAC };
static DEAF_ARGE: Controller = Controller { rx_doorbell: NOWHERE, ..ARGE };

#[test]
fn b9_a_receiver_that_nobody_restarts_is_found() {
    for controller in [&DEAF_ENET, &DEAF_AXI, &DEAF_SDMA, &DEAF_ARGE] {
        assert!(!survives_a_burst(controller), "{}", controller.name);
    }
}

/// esp-idf #18799, Zephyr #74446: the ring shrinks by what a cut frame had.
#[test]
fn b10_a_frame_without_an_end_gives_its_descriptors_back() {
    for controller in [&MACB, &GEM] {
        let mut machine = Machine::new(controller, Options::default());
        // Two whole frames of two buffers, and one of three that finds none at its beginning; then one that finds one.
        machine.arrive([vec![1; 200], vec![2; 60], vec![3; 300]]);
        machine.run_device();
        machine.settle();
        machine.arrive([vec![4; 200]]);
        machine.settle();
        assert_eq!(machine.received, [vec![1; 200], vec![2; 60], vec![4; 200]], "{}", controller.name);
        assert_eq!(machine.driver.rx().fragments(), Fragments { without_end: 1, without_beginning: 0 });
        assert_eq!(machine.driver.rx().armed(), RING, "{}", controller.name);
    }
}

/// Report 000: a frame that the FIFO cut was copied and handed up until the last patch.
#[test]
fn b10_a_frame_that_the_fifo_cut_is_dropped_unless_asked_for() {
    for (faulty, handed_up) in [(Faulty::Dropped, 0), (Faulty::HandedUp, 1)] {
        for controller in [&ENET_LEGACY, &ENET_ENHANCED] {
            let mut machine = Machine::new(controller, Options { faulty, ..Options::default() });
            // IMX6DQRM, receive descriptor: L (bit 11 of the upper half word), OV (bit 1), length 64, E clear.
            machine.world.borrow_mut().memory.device_write(RX_DESCRIPTORS, (0x0802 << 16) | 64);
            machine.poll(8);
            assert_eq!(machine.received.len(), handed_up);
            assert_eq!(machine.driver.counts().faulty, 1 - handed_up as u64);
            assert_eq!(machine.driver.rx().armed(), RING);
        }
    }
}

/// A length that no buffer holds is not believed.
#[test]
fn b10_a_length_beyond_its_buffers_is_a_fault() {
    for (controller, status) in [(&ENET_LEGACY, (0x0800 << 16) | 0xffff), (&ARGE, 0xfff)] {
        let mut machine = Machine::new(controller, Options::default());
        let word = controller.format.rx.device.word as u32 * 4;
        machine.world.borrow_mut().memory.device_write(RX_DESCRIPTORS + word, status);
        machine.poll(8);
        // arge counts octets by buffer, so its length ends where the buffer does.
        let expected = if controller.name == "arge" { (1, 0) } else { (0, 1) };
        assert_eq!((machine.received.len(), machine.driver.counts().faulty), expected, "{}", controller.name);
    }
}

/// QEMU's GEM puts the offset before every buffer; the manual, before the frame.
#[test]
fn b11_the_offset_is_before_the_frames_first_octet_only() {
    for controller in [&MACB, &GEM, &ENET_LEGACY, &ENET_ENHANCED] {
        let mut machine = Machine::new(controller, Options { offset: Offset::Two, ..Options::default() });
        let frame: Vec<u8> = (0..300u16).map(|nth| nth as u8).collect();
        machine.arrive([frame.clone()]);
        machine.settle();
        assert_eq!(machine.received, [frame], "{}", controller.name);
    }
}

/// A GEM of two queues, as in Zynq UltraScale+: the idle one has a descriptor that is the driver's either way, and wraps.
#[test]
fn an_idle_queue_has_a_descriptor_that_is_never_the_devices() {
    let machine = Machine::new(&GEM, Options { idle_queue: true, ..Options::default() });
    // UG585, tables 16-2 and 16-3: receive word 0 has wrap (1) and ownership (0), transmit word 1 used (31) and wrap (30).
    let behind = TX_DESCRIPTORS + RING as u32 * 8;
    let words = [0, 4].map(|at| machine.world.borrow().memory.device_read(behind + at));
    assert_eq!(words, [0b11, 0b11 << 30]);
    let without = Machine::new(&GEM, Options::default());
    assert_eq!(without.world.borrow().memory.device_read(behind), 0);
}

/// A bus that counts what is copied.
struct Counting<'a> {
    bus: CpuBus<'a>,
    loaded: usize,
}

impl Bus for Counting<'_> {
    fn read(&mut self, at: BusAddress) -> u32 {
        self.bus.read(at)
    }
    fn write(&mut self, at: BusAddress, value: u32) {
        self.bus.write(at, value);
    }
    fn barrier(&mut self) {
        self.bus.barrier();
    }
    fn clean(&mut self, at: BusAddress, octets: u32) {
        self.bus.clean(at, octets);
    }
    fn invalidate(&mut self, at: BusAddress, octets: u32) {
        self.bus.invalidate(at, octets);
    }
    fn load(&mut self, from: BusAddress, octets: &mut [u8]) {
        self.loaded += octets.len();
        self.bus.load(from, octets);
    }
    fn store(&mut self, to: BusAddress, octets: &[u8]) {
        self.bus.store(to, octets);
    }
    fn descriptor_line(&self) -> Option<u32> {
        self.bus.descriptor_line()
    }
}

/// arge copied 2040 octets for a frame of 60, because its length was not set yet.
#[test]
fn b12_as_many_octets_are_copied_as_were_received() {
    for controller in CONTROLLERS {
        let mut machine = Machine::new(controller, Options::default());
        let frames: VecDeque<usize> = [60, 100, 61].into();
        machine.arrive(frames.iter().map(|&octets| vec![7; octets]));
        machine.run_device();
        let mut bus = Counting { bus: CpuBus(&machine.world), loaded: 0 };
        machine.driver.poll(&mut bus, &mut CpuRegisters(&machine.world), 8, |bus, frame, _| {
            frame.load(bus, &mut [0; 2048]);
        });
        assert_eq!(bus.loaded, 60 + 100 + 61, "{}", controller.name);
    }
}
