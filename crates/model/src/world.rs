//! A driver, a device and memory in one schedule: before each of the driver's accesses, anything else may happen.
//! Knows `nic`'s seams; which format or controller a driver has is the device's and the caller's.

use std::cell::RefCell;

use linerate_nic::bus::{Block, Bus, BusAddress, Register, Registers};

use crate::device::{Broken, Device, Wire};
use crate::explore::Choices;
use crate::memory::{Action, LINE, Memory, Order};

/// More steps than any schedule has: something goes round in circles.
const ENDLESS: usize = 20_000;

/// Everything but the driver.
pub struct World {
    /// Memory.
    pub memory: Memory,
    /// The device.
    pub device: Box<dyn Device>,
    /// The cable.
    pub wire: Wire,
    choices: Choices,
    /// Nothing comes in between: what is not explored.
    calm: bool,
    /// The device is at work; else the driver.
    device_runs: bool,
    descriptor_line: Option<u32>,
    actions: Vec<Action>,
    steps: usize,
}

/// What a driver waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriverWait {
    /// The device interrupts.
    Interrupt,
    /// Nothing more will happen.
    Quiet,
}

/// How a schedule fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The device met what it must not.
    Broken(Broken),
    /// Frames that were handed to the ring were not sent, or not as they were.
    Sent {
        /// What was to be sent.
        expected: Vec<Vec<u8>>,
        /// What was.
        sent: Vec<Vec<u8>>,
    },
    /// Frames that arrived were not received, or not as they were.
    Received {
        /// What arrived and was not dropped by the device.
        expected: Vec<Vec<u8>>,
        /// What the driver handed up.
        received: Vec<Vec<u8>>,
    },
    /// Descriptors are missing: free, the driver's and the device's are not all.
    Lost,
    /// It never ends.
    Endless,
}

impl World {
    /// A world before anything happened.
    pub fn new(memory: Memory, device: Box<dyn Device>, wire: Wire, choices: Choices) -> World {
        let (actions, steps) = (Vec::new(), 0);
        World { memory, device, wire, choices, calm: true, device_runs: false, descriptor_line: None, actions, steps }
    }

    /// From now on anything may come in between; before, a driver starts a device that does not run.
    pub fn explore(&mut self) {
        self.calm = false;
    }

    /// Descriptors are in cached memory.
    pub fn with_cached_descriptors(self) -> World {
        World { descriptor_line: Some(LINE), ..self }
    }

    /// The choices that were made, for the next schedule.
    pub fn into_choices(self) -> Choices {
        self.choices
    }

    /// Whether it goes round in circles.
    pub fn is_endless(&self) -> bool {
        self.steps > ENDLESS
    }

    /// Anything may happen before the driver goes on to an access; `doorbell` where that may set the device to work.
    fn point(&mut self, doorbell: bool) {
        while !self.calm {
            let busy = self.device.is_busy(&self.wire);
            if !busy && !doorbell {
                // Nobody looks: what memory does now it can as well do later.
                return;
            }
            self.device_runs &= busy;
            self.list_actions();
            // The side at work goes on; else the other, or the machine, comes in between.
            let chosen = self.deviate(1 + usize::from(busy) + self.actions.len());
            match (chosen, busy) {
                (0, _) if self.device_runs => self.step_device(),
                (0, _) => return,
                (1, true) if self.device_runs => {
                    self.device_runs = false;
                    return;
                }
                (1, true) => {
                    self.device_runs = true;
                    self.step_device();
                }
                (nth, busy) => self.memory.act(self.actions[nth - 1 - usize::from(busy)]),
            }
        }
    }

    /// The driver waits until its stores have left.
    fn drain(&mut self, done: impl Fn(&Memory) -> bool) {
        while !done(&self.memory) {
            let busy = self.device.is_busy(&self.wire);
            self.device_runs &= busy;
            self.list_actions();
            self.actions.retain(|action| matches!(action, Action::Drain(_)));
            let drains = self.actions.len();
            let chosen = self.deviate(drains + usize::from(busy));
            // The device goes on where it is at work, and else the stores leave, the oldest first.
            let device = if self.device_runs { 0 } else { drains };
            if busy && chosen == device {
                self.device_runs = true;
                self.step_device();
            } else {
                let nth = chosen - usize::from(self.device_runs);
                self.device_runs = false;
                self.memory.act(self.actions[nth]);
            }
        }
    }

    /// The driver has nothing to do until the device interrupts.
    pub fn wait(&mut self) -> DriverWait {
        loop {
            self.steps += 1;
            let (busy, interrupts) = (self.device.is_busy(&self.wire), self.device.interrupts());
            self.list_actions();
            let drains = self.actions.iter().filter(|action| matches!(action, Action::Drain(_))).count();
            match (busy, interrupts) {
                _ if self.is_endless() => return DriverWait::Quiet,
                (true, _) => {
                    // The device goes on, or is interrupted in its work.
                    let options = 1 + usize::from(interrupts) + self.actions.len();
                    match (self.deviate(options), interrupts) {
                        (0, _) => self.step_device(),
                        (1, true) => {
                            self.device_runs = false;
                            return DriverWait::Interrupt;
                        }
                        (nth, interrupts) => self.memory.act(self.actions[nth - 1 - usize::from(interrupts)]),
                    }
                }
                (false, true) => return DriverWait::Interrupt,
                (false, false) if drains > 0 => self.memory.act(self.actions[0]),
                (false, false) => return DriverWait::Quiet,
            }
        }
    }

    /// The device does one thing, where it has something to do.
    pub fn run_device_once(&mut self) {
        if self.device.is_busy(&self.wire) {
            self.step_device();
        }
    }

    fn step_device(&mut self) {
        self.steps += 1;
        let (choices, calm) = (&mut self.choices, self.calm);
        self.device.step(&mut self.memory, &mut self.wire, &mut || calm || choices.deviate(2) == 0);
    }

    fn deviate(&mut self, options: usize) -> usize {
        if self.calm { 0 } else { self.choices.deviate(options) }
    }

    fn list_actions(&mut self) {
        self.actions.clear();
        self.memory.actions(&mut self.actions);
    }

    fn read(&mut self, at: u32) -> u32 {
        match self.memory.may_read(at) {
            (_, Some(old)) if self.deviate(2) == 1 => old,
            (now, _) => {
                self.memory.has_read(at);
                now
            }
        }
    }

    fn write(&mut self, at: u32, value: u32) {
        self.drain(|memory| !memory.is_full());
        self.memory.write(at, value);
    }
}

/// The driver's memory.
pub struct CpuBus<'a>(pub &'a RefCell<World>);

/// The driver's registers.
pub struct CpuRegisters<'a>(pub &'a RefCell<World>);

impl Bus for CpuBus<'_> {
    fn read(&mut self, at: BusAddress) -> u32 {
        let mut world = self.0.borrow_mut();
        world.point(false);
        world.read(at.0)
    }

    fn write(&mut self, at: BusAddress, value: u32) {
        let mut world = self.0.borrow_mut();
        world.point(false);
        world.write(at.0, value);
    }

    fn barrier(&mut self) {
        let mut world = self.0.borrow_mut();
        world.drain(Memory::is_drained);
        world.memory.pass_barrier();
    }

    fn clean(&mut self, at: BusAddress, octets: u32) {
        self.0.borrow_mut().memory.clean(at.0, octets);
    }

    fn invalidate(&mut self, at: BusAddress, octets: u32) {
        self.0.borrow_mut().memory.invalidate(at.0, octets);
    }

    fn load(&mut self, from: BusAddress, octets: &mut [u8]) {
        let mut world = self.0.borrow_mut();
        world.point(false);
        for (octet, at) in octets.iter_mut().zip(from.0..) {
            *octet = (world.read(at & !3) >> (at % 4 * 8)) as u8;
        }
    }

    fn store(&mut self, to: BusAddress, octets: &[u8]) {
        let mut world = self.0.borrow_mut();
        world.point(false);
        let mut at = to.0;
        for piece in octets.chunks(4) {
            let mut word = [0; 4];
            word[..piece.len()].copy_from_slice(piece);
            world.write(at, u32::from_le_bytes(word));
            at += 4;
        }
    }

    fn descriptor_line(&self) -> Option<u32> {
        self.0.borrow().descriptor_line
    }
}

impl Registers for CpuRegisters<'_> {
    fn read(&mut self, register: Register) -> u32 {
        let mut world = self.0.borrow_mut();
        world.point(false);
        world.device.read(register.block == Block::Dma, register.offset)
    }

    fn write(&mut self, register: Register, value: u32) {
        let mut world = self.0.borrow_mut();
        world.point(true);
        if world.memory.order() == Order::Program {
            world.drain(Memory::is_drained);
        }
        world.device.write(register.block == Block::Dma, register.offset, value);
    }
}
