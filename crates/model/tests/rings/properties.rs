//! Long runs by chance: every descriptor and every frame accounted for after each step.

use linerate_model::world::{CpuBus, CpuRegisters};
use linerate_nic::bus::{Bus, BusAddress};
use linerate_nic::options::Options;
use linerate_nic::tx_ring::{Fragment, Refused};
use proptest::prelude::*;

use super::scenarios::{Machine, RING};
use super::setup::CONTROLLERS;

#[derive(Clone, Debug)]
enum Step {
    /// A frame of so many fragments of four octets.
    Send(usize),
    /// A copy of a frame with so many octets.
    Copy(usize),
    /// A frame of so many octets arrives.
    Arrive(usize),
    /// The device does so many things.
    Device(usize),
    /// The driver polls with this budget.
    Poll(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (1..=RING).prop_map(Step::Send),
        (1..=100usize).prop_map(Step::Copy),
        (1..=124usize).prop_map(Step::Arrive),
        (125..=300usize).prop_map(Step::Arrive),
        (1..=12usize).prop_map(Step::Device),
        (1..=6usize).prop_map(Step::Poll),
    ];
    prop::collection::vec(step, 1..80)
}

fn carry_out(machine: &mut Machine, steps: &[Step], one_buffer: bool, spare: usize) -> Result<(), TestCaseError> {
    let (mut sent, mut arrived) = (Vec::new(), Vec::new());
    for (nth, step) in steps.iter().enumerate() {
        let mark = nth as u8 + 1;
        match *step {
            Step::Send(count) => {
                let (mut bus, mut registers) = (CpuBus(&machine.world), CpuRegisters(&machine.world));
                // Memory of frames in flight is the device's: each step has a line of its own, used again long after.
                let at = |fragment: usize| BusAddress(0x800 + ((nth * 4 + fragment) % 8) as u32 * 32);
                machine.run_device();
                let fragments: Vec<Fragment> = (0..count).map(|one| Fragment { at: at(one), octets: 4 }).collect();
                for fragment in &fragments {
                    bus.store(fragment.at, &[mark; 4]);
                }
                let free = machine.driver.tx().free();
                match machine.driver.send(&mut bus, &mut registers, &fragments) {
                    Ok(()) => sent.push(vec![mark; 4 * count]),
                    Err(Refused::NoRoom) => prop_assert!(count > free),
                    Err(Refused::NotAFrame) => prop_assert!(count > RING - spare),
                }
            }
            Step::Copy(octets) => {
                let (mut bus, mut registers) = (CpuBus(&machine.world), CpuRegisters(&machine.world));
                let free = machine.driver.tx().free();
                match machine.driver.send_octets(&mut bus, &mut registers, &vec![mark; octets]) {
                    Ok(()) => sent.push(vec![mark; octets]),
                    refused => {
                        prop_assert_eq!(refused, Err(Refused::NoRoom));
                        prop_assert_eq!(free, 0);
                    }
                }
            }
            Step::Arrive(octets) => {
                let frame = vec![mark; if one_buffer { octets.min(124) } else { octets }];
                arrived.push(frame.clone());
                machine.arrive([frame]);
            }
            Step::Device(count) => {
                let mut world = machine.world.borrow_mut();
                for _ in 0..count {
                    world.run_device_once();
                }
            }
            Step::Poll(budget) => {
                machine.poll(budget);
            }
        }
        let (tx, rx) = (machine.driver.tx(), machine.driver.rx());
        prop_assert_eq!(tx.free() + tx.in_flight() + spare, RING);
        prop_assert_eq!(rx.armed() + rx.held() + spare, RING);
    }
    machine.settle();
    // What interrupts were kept back for.
    for _ in 0..8 {
        machine.poll(8);
        machine.settle();
    }
    let world = machine.world.borrow();
    prop_assert_eq!(&world.wire.broken, &[]);
    prop_assert_eq!(&world.wire.sent, &sent);
    arrived.retain(|frame| !world.wire.dropped.contains(frame));
    prop_assert_eq!(&machine.received, &arrived);
    prop_assert_eq!(machine.driver.tx().in_flight(), 0);
    prop_assert_eq!(machine.driver.counts().sent, sent.len() as u64);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_descriptor_and_every_frame_is_accounted_for(steps in steps()) {
        for controller in CONTROLLERS {
            let mut machine = Machine::new(controller, Options::default());
            let one_buffer = controller.name == "arge";
            carry_out(&mut machine, &steps, one_buffer, controller.format.spare)
                .map_err(|error| TestCaseError::fail(format!("{}: {error}", controller.name)))?;
        }
    }
}
