//! Virtual time where the answer is known without it.

use linerate_model::flow::{
    Cpu, Dma, Fifo, Link, Outcome, Receiver, Resource, Sender, Spacing, Traffic, receive, send,
};
use linerate_path::stage::Stage;
use proptest::prelude::*;

const FRAMES: usize = 20_000;

fn cpu(frame_us: f64) -> Cpu {
    Cpu {
        frame_us,
        cut_us: frame_us,
        copied: 0.0,
        application_us: 0.0,
        shared: false,
        budget: None,
        interrupt_us: 0.0,
        wake_us: 0.0,
        coalesce_frames: 1,
        coalesce_us: 0.0,
    }
}

fn fifo(octets: f64) -> Fifo {
    Fifo { octets, pause: None, obeys_us: 0.0, handover: 0.0, cuts: false }
}

/// Nothing is in the way but a gigabit link.
fn receiver() -> Receiver {
    Receiver {
        link: Link::cable(1000.0),
        fifo: fifo(f64::INFINITY),
        dma: Dma { rate: 1e9, frame_us: 0.0 },
        ring: 256,
        waits_for_descriptor: true,
        cpu: cpu(0.0),
        socket: f64::INFINITY,
    }
}

fn traffic(octets: f64, rate: f64) -> Traffic {
    Traffic { frames: FRAMES, octets, rate, spacing: Spacing::Bursts(1.0), partner_mbps: 1000.0, window: None }
}

#[track_caller]
fn check_frames_per_second(outcome: &Outcome, expected: f64) {
    let rate = outcome.delivered as f64 / outcome.duration_us * 1e6;
    assert!((rate / expected - 1.0).abs() < 1e-3, "{rate} frames/s, and {expected} expected");
}

#[test]
fn nothing_in_the_way_is_line_rate_at_every_size() {
    // RFC 2544 appendix B's arithmetic for gigabit Ethernet; sizes with FCS there.
    for (size, expected) in [(64.0, 1_488_095.0), (512.0, 234_962.0), (1518.0, 81_274.0)] {
        let frames = traffic(size - 4.0, f64::INFINITY);
        check_frames_per_second(&receive(&receiver(), frames), expected);
        let dma = Dma { rate: 1e9, frame_us: 0.0 };
        let link = Link::cable(1000.0);
        let sender = Sender { frame_us: 0.0, copied: 0.0, ring: 64, dma, other_way_us: 0.0, cable_mbps: 1000.0, link };
        let sent = send(&sender, frames);
        check_frames_per_second(&sent, expected);
        assert_eq!(sent.limit(), Resource::Link);
    }
}

#[test]
fn what_limits_is_never_the_load_where_frames_are_lost() {
    // Bursts of line rate and long pauses: nothing is busy for most of the time, and the FIFO is too short.
    let machine = Receiver { fifo: fifo(4000.0), dma: Dma { rate: 50.0, frame_us: 1.0 }, ..receiver() };
    let bursts = Traffic { spacing: Spacing::Bursts(20.0), ..traffic(1514.0, 0.008) };
    let outcome = receive(&machine, bursts);
    assert!(outcome.delivered < FRAMES as u64 && outcome.busy.iter().all(|(_, share)| *share < 0.93), "{outcome:?}");
    assert_ne!(outcome.limit(), Resource::Offered);
    let outcome = receive(&receiver(), traffic(1514.0, 0.008));
    assert_eq!((outcome.delivered, outcome.limit()), (FRAMES as u64, Resource::Offered));
}

#[test]
fn an_endless_fifo_loses_nothing_however_slow_the_dma() {
    let machine = Receiver { dma: Dma { rate: 10.0, frame_us: 1.0 }, ..receiver() };
    let outcome = receive(&machine, traffic(1514.0, f64::INFINITY));
    assert_eq!((outcome.delivered, outcome.limit()), (FRAMES as u64, Resource::Dma));
}

#[test]
fn a_dma_as_fast_as_the_line_loses_nothing_with_room_for_two_frames() {
    // 125 octets a µs are a gigabit; the gap and the preamble are the DMA's to rest.
    let machine = Receiver { fifo: fifo(2.0 * 1518.0), dma: Dma { rate: 125.0, frame_us: 0.0 }, ..receiver() };
    let outcome = receive(&machine, traffic(1514.0, f64::INFINITY));
    assert_eq!(outcome.delivered, FRAMES as u64);
}

#[test]
fn a_slower_dma_gives_its_own_rate_and_loses_the_rest_in_the_fifo() {
    let machine = Receiver { fifo: fifo(8192.0), dma: Dma { rate: 62.5, frame_us: 0.0 }, ..receiver() };
    let outcome = receive(&machine, traffic(1514.0, f64::INFINITY));
    check_frames_per_second(&outcome, 62.5e6 / 1518.0);
    assert_eq!(outcome.lost.keys().collect::<Vec<_>>(), [&Stage::MacRxFifo]);
}

#[test]
fn pause_frames_keep_what_the_switch_holds() {
    let fifo = Fifo { pause: Some((4096.0, 2048.0)), obeys_us: 2.0, ..fifo(8192.0) };
    let machine = Receiver { fifo, dma: Dma { rate: 62.5, frame_us: 0.0 }, ..receiver() };
    let outcome = receive(&machine, traffic(1514.0, f64::INFINITY));
    assert_eq!(outcome.delivered, FRAMES as u64);
    check_frames_per_second(&outcome, 62.5e6 / 1518.0);
    assert!(outcome.pauses > 0);
    // A switch that holds little loses in its turn.
    let machine = Receiver { link: Link { queue: 16.0, ..machine.link }, ..machine };
    let outcome = receive(&machine, traffic(1514.0, f64::INFINITY));
    assert_eq!(outcome.lost.keys().collect::<Vec<_>>(), [&Stage::Link]);
}

#[test]
fn a_fixed_window_gives_window_by_round_trip_until_the_line_is_full() {
    for (window, limited) in [(8, true), (2000, false)] {
        let frames = Traffic { window: Some((window, 1000.0)), ..traffic(1514.0, f64::INFINITY) };
        let outcome = receive(&receiver(), frames);
        let on_line = 1538.0 * 8.0 / 1000.0;
        // The window's frames follow each other; the round trip begins with each one's delivery.
        let by_window = window as f64 / (1000.0 + on_line) * 1e6;
        check_frames_per_second(&outcome, by_window.min(1e6 / on_line));
        assert_eq!(by_window < 1e6 / on_line, limited);
    }
}

#[test]
fn a_cpu_that_costs_nothing_leaves_the_link_to_limit() {
    let outcome = receive(&receiver(), traffic(1514.0, f64::INFINITY));
    assert_eq!(outcome.limit(), Resource::Link);
    let machine = Receiver { cpu: cpu(25.0), ..receiver() };
    let outcome = receive(&machine, traffic(1514.0, f64::INFINITY));
    assert_eq!(outcome.limit(), Resource::Cpu);
    check_frames_per_second(&outcome, 1e6 / 25.0);
}

/// Frames by chance into a CPU that takes the same time for each: an M/D/1 queue in the ring, whose mean wait is
/// ρ / (2 µ (1 - ρ)) (Pollaczek, Khinchine).
#[test]
fn frames_by_chance_wait_as_in_an_m_d_1_queue() {
    let service_us = 10.0;
    for load in [0.3, 0.6, 0.8] {
        let machine = Receiver { link: Link::cable(1e9), ring: 4096, cpu: cpu(service_us), ..receiver() };
        let spacing = Spacing::Poisson { seed: 1 };
        let frames = Traffic { frames: 400_000, spacing, ..traffic(60.0, load / service_us) };
        let expected = load * service_us / (2.0 * (1.0 - load));
        let outcome = receive(&machine, frames);
        assert!((outcome.ring_us / expected - 1.0).abs() < 0.05, "{} µs, and {expected} expected", outcome.ring_us);
    }
}

#[test]
fn one_cpu_for_both_gives_the_application_what_the_driver_leaves() {
    // 100 µs between frames, 60 of them the driver's: 40 are left for an application that wants 80.
    let shared = Cpu { application_us: 80.0, shared: true, ..cpu(60.0) };
    let machine = Receiver { cpu: shared, socket: 50.0, ..receiver() };
    let outcome = receive(&machine, traffic(1514.0, 0.01));
    assert!((outcome.loss_ratio() - 0.5).abs() < 0.01, "{}", outcome.loss_ratio());
    assert_eq!(outcome.lost.keys().collect::<Vec<_>>(), [&Stage::ReceiverSocket]);
}

#[test]
fn coalescing_saves_interrupts_and_costs_time() {
    let each = Cpu { interrupt_us: 5.0, ..cpu(2.0) };
    let together = Cpu { coalesce_frames: 16, coalesce_us: 1000.0, ..each };
    let run = |cpu| receive(&Receiver { cpu, ..receiver() }, traffic(1514.0, 0.02));
    let (each, together) = (run(each), run(together));
    let busy = |outcome: &Outcome| outcome.busy.iter().find(|(one, _)| *one == Resource::Cpu).expect("it is there").1;
    // 7 µs of 50, and 2 + 5/16.
    assert!((busy(&each) - 0.14).abs() < 0.001, "{}", busy(&each));
    assert!((busy(&together) - (2.0 + 5.0 / 16.0) / 50.0).abs() < 0.001, "{}", busy(&together));
    assert!(together.ring_us > 300.0 && each.ring_us < 10.0);
}

#[test]
fn a_ring_without_a_free_descriptor_drops_or_waits() {
    let machine = Receiver { ring: 8, cpu: cpu(50.0), fifo: fifo(16384.0), ..receiver() };
    let waits = receive(&machine, traffic(1514.0, f64::INFINITY));
    assert_eq!(waits.lost.keys().collect::<Vec<_>>(), [&Stage::MacRxFifo]);
    let drops = receive(&Receiver { waits_for_descriptor: false, ..machine }, traffic(1514.0, f64::INFINITY));
    assert_eq!(drops.lost.keys().collect::<Vec<_>>(), [&Stage::DriverRxRing]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Sent is delivered and lost, stage by stage, and what limits is never busy for longer than there is time.
    #[test]
    fn every_frame_is_accounted_for(
        octets in 60.0..9000.0f64,
        rate in 0.001..2.0f64,
        burst in 1.0..64.0f64,
        fifo_octets in 100.0..20_000.0f64,
        dma_rate in 5.0..500.0f64,
        ring in 1usize..64,
        frame_us in 0.0..100.0f64,
        application_us in 0.0..100.0f64,
        flags in 0u8..32,
    ) {
        let is = |bit: u8| flags & 1 << bit != 0;
        let pause = is(0).then_some((fifo_octets / 2.0, fifo_octets / 4.0));
        let machine = Receiver {
            link: Link { queue: if is(4) { 64.0 } else { f64::INFINITY }, ..Link::cable(1000.0) },
            fifo: Fifo { pause, cuts: is(1), handover: if is(0) { 128.0 } else { 0.0 }, ..fifo(fifo_octets) },
            dma: Dma { rate: dma_rate, frame_us: 0.5 },
            ring,
            waits_for_descriptor: is(2),
            cpu: Cpu { application_us, shared: is(3), coalesce_frames: 1 + usize::from(flags), coalesce_us: 50.0, ..cpu(frame_us) },
            socket: 32.0,
        };
        let frames = Traffic { frames: 500, spacing: Spacing::Bursts(burst), ..traffic(octets, rate) };
        let outcome = receive(&machine, frames);
        prop_assert_eq!(outcome.sent, 500);
        prop_assert_eq!(outcome.delivered + outcome.lost.values().sum::<u64>(), outcome.sent);
        for (resource, share) in &outcome.busy {
            prop_assert!((0.0..=1.0 + 1e-9).contains(share), "{:?} is busy {}", resource, share);
        }
    }
}

/// One CPU whose driver takes every frame and leaves the application nothing, and one that yields after its budget.
#[test]
fn a_budget_leaves_the_application_half_of_the_cpu() {
    let one = |budget| {
        let cpu = Cpu { application_us: 15.0, shared: true, budget, ..cpu(15.0) };
        // A gigabit brings a frame every 12.3 us: more than the driver alone can take.
        let outcome = receive(
            &Receiver { cpu, fifo: fifo(8.0 * 1518.0), ring: 64, socket: 100.0, ..receiver() },
            traffic(1514.0, 1.0 / 8.0),
        );
        outcome.delivered as f64 - outcome.waiting
    };
    let (interrupt, poll) = (one(None), one(Some(64)));
    assert!(interrupt / (FRAMES as f64) < 0.01, "{interrupt}");
    // Each delivered frame takes 30 us of both.
    assert!((poll / FRAMES as f64 - 12.304 / 30.0).abs() < 0.02, "{poll}");
}

/// A fit asks for thousands of these: a million frames a second on one core, as it ships (`cargo test --release`), with everything in
/// their way: bursts, pause frames, a FIFO that overflows, one CPU for both.
#[test]
fn a_million_frames_a_second() {
    let pause = Some((10_000.0, 5_000.0));
    let machine = Receiver {
        fifo: Fifo { pause, obeys_us: 1.0, ..fifo(16_384.0) },
        dma: Dma { rate: 100.0, frame_us: 0.5 },
        ring: 128,
        cpu: Cpu { application_us: 5.0, shared: true, budget: Some(64), coalesce_frames: 8, ..cpu(5.0) },
        socket: 100.0,
        ..receiver()
    };
    let frames = Traffic { spacing: Spacing::Bursts(16.0), ..traffic(1514.0, f64::INFINITY) };
    let round = || {
        let begun = std::time::Instant::now();
        assert_eq!(receive(&machine, frames).sent, FRAMES as u64);
        FRAMES as f64 / begun.elapsed().as_secs_f64()
    };
    let most = (0..20).map(|_| round()).fold(0.0, f64::max);
    println!("{:.2} million virtual frames a second", most / 1e6);
    // Not optimised it has to be quick enough for tests.
    let least = if cfg!(debug_assertions) { 2e4 } else { 1e6 };
    assert!(most >= least, "{most} frames/s");
}
