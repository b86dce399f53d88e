//! Bugs of the wild, put back: each is found by the explorer. Their numbers are those of docs/rings.md.

use linerate_model::device::Broken as Met;
use linerate_model::explore::Explored;
use linerate_model::world::Failure;
use linerate_nic::controller::{ARGE, AXI_ETHERNET, Controller, ENET_ENHANCED, ENET_LEGACY, GEM, LL_TEMAC, MACB};
use linerate_nic::format::{AXI_DMA, Format, Mark, SDMA, Side};

use super::patched::{Broken, Bug, NoSecondLook};
use super::setup::{CONTROLLERS, Original, Patch, Script, Setup, schedules};

/// What a search may cost: some seconds.
const SOON: u64 = 200_000;

#[track_caller]
fn check_found<const N: usize>(setup: Setup, patch: &impl Patch, script: Script) -> Failure {
    match schedules::<N>(setup, patch, script) {
        Explored::Fails { schedule, error, .. } => {
            println!("{}: schedule {schedule}: {error:?}", setup.controller.name);
            assert!(schedule < SOON, "{}: found only in schedule {schedule}", setup.controller.name);
            error
        }
        found => panic!("{}: not found: {found:?}", setup.controller.name),
    }
}

/// Atheros (report 004), Embassy #2129: the device finds a frame's first descriptor ready and the next one not. It has to
/// be at work already, or it is not there to see it: the first packet is for that.
#[test]
fn b1_first_descriptor_ready_before_the_rest() {
    for controller in [&ENET_LEGACY, &ENET_ENHANCED, &MACB, &GEM, &ARGE] {
        let failure = check_found::<4>(Setup::of(controller), &Broken(Bug::FirstDescriptorFirst), Script::Send);
        assert!(matches!(failure, Failure::Broken(_) | Failure::Sent { .. }), "{failure:?}");
    }
}

/// Hubris #750: the device reads an address that was not written yet.
#[test]
fn b2_ownership_written_before_the_other_words() {
    for (controller, owner) in [(&ENET_LEGACY, 0), (&ENET_ENHANCED, 0), (&MACB, 4), (&GEM, 4), (&ARGE, 4)] {
        let bug = Bug::OwnershipFirst { owner, octets: controller.format.octets() };
        check_found::<4>(Setup::of(controller), &Broken(bug), Script::Send);
    }
}

static BY_STATUS: Format =
    Format { rx: Side { device: Mark { word: 3, mask: 1 << 28, set: false }, ..SDMA.rx }, ..SDMA };
static TAKEN_BY_STATUS: Controller = Controller { format: &BY_STATUS, ..LL_TEMAC };

/// Linux' ll_temac: the length is read when the status is there, and the engine writes it after that.
#[test]
fn b2_a_length_that_is_written_after_the_status() {
    let failure = check_found::<4>(Setup::of(&TAKEN_BY_STATUS), &Original, Script::Receive(2));
    assert!(matches!(failure, Failure::Received { .. }), "{failure:?}");
}

/// Stabilizer #49: the processor's stores overtake each other.
#[test]
fn b3_no_barrier_before_ownership() {
    for controller in [&ENET_LEGACY, &ENET_ENHANCED, &MACB, &GEM, &ARGE] {
        check_found::<4>(Setup::of(controller).weak(), &Broken(Bug::NoBarrierBeforeOwnership), Script::Send);
    }
}

/// On the way in the processor's loads overtake each other: the length is older than the ownership.
#[test]
fn b3_no_barrier_after_ownership() {
    for controller in [&MACB, &GEM] {
        check_found::<4>(Setup::of(controller).weak(), &Broken(Bug::NoBarriers), Script::Receive(2));
    }
}

/// Where stores keep their order no barrier is missed.
#[test]
fn b3_is_no_bug_in_program_order() {
    let explored = schedules::<4>(Setup::of(&ENET_LEGACY), &Broken(Bug::NoBarriers), Script::Send);
    assert!(matches!(explored, Explored::Clean { .. }), "{explored:?}");
}

/// Stabilizer #33, stm32h5xx-hal #37: the packet waits for the next one's doorbell. ENET's remedy for B8 would hide it.
#[test]
fn b4_doorbell_before_the_descriptor_is_visible() {
    for controller in [&RINGS_ONCE, &RINGS_ONCE_ENHANCED, &MACB, &GEM, &AXI_ETHERNET, &LL_TEMAC, &ARGE] {
        check_found::<4>(Setup::of(controller).weak(), &Broken(Bug::NoBarrierBeforeDoorbell), Script::Send);
    }
}

/// STM32CubeN6 #20, and the missing SYNC of report 004.
#[test]
fn b5_buffer_not_cleaned() {
    for controller in CONTROLLERS {
        check_found::<4>(Setup::of(controller).write_back(), &Broken(Bug::NotCleaned(0x400..0x900)), Script::Send);
    }
}

#[test]
fn b5_descriptor_not_cleaned() {
    for controller in [&ENET_ENHANCED, &AXI_ETHERNET, &LL_TEMAC, &ARGE] {
        check_found::<4>(Setup::of(controller).write_back(), &Broken(Bug::NotCleaned(0x100..0x300)), Script::Send);
    }
}

#[test]
fn b5_buffer_not_invalidated() {
    for controller in CONTROLLERS {
        let patch = Broken(Bug::NotInvalidated(0x400..0x900));
        let failure = check_found::<4>(Setup::of(controller).write_back(), &patch, Script::Receive(2));
        assert!(matches!(failure, Failure::Received { .. }), "{failure:?}");
    }
}

#[test]
fn b5_descriptor_not_invalidated() {
    for controller in [&ENET_ENHANCED, &AXI_ETHERNET, &LL_TEMAC, &ARGE] {
        let patch = Broken(Bug::NotInvalidated(0x100..0x300));
        check_found::<4>(Setup::of(controller).write_back(), &patch, Script::Receive(2));
    }
}

/// What mends B5 breaks this: a line that is written back holds the neighbour's words as they were.
#[test]
fn b6_two_owners_in_one_cache_line() {
    for controller in [&ENET_LEGACY, &MACB, &GEM] {
        let setup = Setup { all_cached: true, ..Setup::of(controller).write_back() };
        check_found::<4>(setup, &Broken(Bug::SharedLines), Script::Send);
    }
}

static NONE_SPARE: Format = Format { spare: 0, ..AXI_DMA };
static FILLED_TO_THE_LAST: Controller = Controller { format: &NONE_SPARE, ..AXI_ETHERNET };

/// Embassy PR #7048, STM32CubeH7 #307, Solo5 #98: with every descriptor handed over, the tail is where it was.
#[test]
fn b7_ring_filled_until_the_tail_meets_the_head() {
    check_found::<2>(Setup::of(&FILLED_TO_THE_LAST), &Original, Script::Receive(3));
    let explored = schedules::<3>(Setup::of(&AXI_ETHERNET), &Original, Script::Receive(3));
    assert!(matches!(explored, Explored::Clean { .. }), "as many buffers and one spare: {explored:?}");
}

static RINGS_ONCE: Controller = Controller { rings_again: None, ..ENET_LEGACY };
static RINGS_ONCE_ENHANCED: Controller = Controller { rings_again: None, ..ENET_ENHANCED };

/// ERR006358 (in Freescale's kernels TKT168103) without its remedy; the original is clean with the erratum in the device.
#[test]
fn b8_doorbell_lost_against_an_engine_going_idle() {
    let setup = Setup { erratum: true, ..Setup::of(&RINGS_ONCE) };
    let failure = check_found::<4>(setup, &Original, Script::Send);
    assert!(matches!(failure, Failure::Sent { .. }), "{failure:?}");
    let explored = schedules::<4>(Setup::of(&RINGS_ONCE), &Original, Script::Send);
    assert!(matches!(explored, Explored::Clean { .. }), "a MAC without the erratum needs no remedy: {explored:?}");
}

/// Between "nothing is left" and "let interrupts through": a MAC that forgets what came meanwhile never tells of it.
#[test]
fn b13_interrupt_lost_between_the_last_look_and_the_unmasking() {
    for controller in [&MACB, &GEM, &LL_TEMAC] {
        let failure = check_found::<4>(Setup::of(controller), &NoSecondLook, Script::Receive(2));
        assert!(matches!(failure, Failure::Received { .. }), "{failure:?}");
    }
}

/// The complaint is the device's where it can tell.
#[test]
fn b1_is_seen_by_the_device_in_mid_frame() {
    let failure = check_found::<4>(Setup::of(&ARGE), &Broken(Bug::FirstDescriptorFirst), Script::Send);
    assert_eq!(failure, Failure::Broken(Met::MidFrame));
}
