//! The way out: application, stack and driver in one, ring, DMA, cable.

use linerate_path::stage::Stage;

use super::source::Source;
use super::{Dma, Link, Outcome, Resource, Traffic};

/// A sending machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sender {
    /// The CPU in application, stack and driver, µs a frame; what it does for acknowledgements counted.
    pub frame_us: f64,
    /// Octets that it copies of a frame.
    pub copied: f64,
    /// Transmit descriptors, counted in frames.
    pub ring: usize,
    /// Its MAC's DMA.
    pub dma: Dma,
    /// The DMA's time for what comes the other way meanwhile, µs a frame.
    pub other_way_us: f64,
    /// The MAC's own cable.
    pub cable_mbps: f64,
    /// What stands between it and the receiver.
    pub link: Link,
}

/// Sends `traffic`. A full ring makes the application wait; a full queue before the link loses frames.
pub fn send(machine: &Sender, traffic: Traffic) -> Outcome {
    let mut source = Source::new(traffic);
    let mut outcome = Outcome::default();
    let stored = traffic.octets + super::FCS;
    let on_cable = Link::cable(machine.cable_mbps).frame_us(traffic.octets);
    let on_link = machine.link.frame_us(traffic.octets);
    let of_dma = machine.dma.frame_us(stored) + machine.other_way_us;
    let mut gone = vec![0.0f64; machine.ring.max(1)];
    let (mut cpu_free, mut dma_free, mut cable_free, mut link_free) = (0.0f64, 0.0f64, 0.0f64, 0.0f64);
    let (mut passed, mut ring_us, mut last) = (0u64, 0.0, 0.0f64);
    for number in 0..traffic.frames {
        let slot = number % gone.len();
        // The application waits for the CPU and for a descriptor, and what it does not get to is not offered later.
        let begins = source.offer(number).max(cpu_free).max(gone[slot]);
        outcome.sent += 1;
        outcome.copied += machine.copied;
        cpu_free = begins + machine.frame_us;
        let dma_begins = cpu_free.max(dma_free);
        ring_us += dma_begins - cpu_free;
        dma_free = dma_begins + of_dma;
        cable_free = dma_free.max(cable_free + on_cable);
        gone[slot] = dma_free;
        let link_begins = cable_free.max(link_free);
        if link_begins - cable_free > machine.link.queue * on_link {
            outcome.lose(Stage::Link);
            source.acknowledge(number, cable_free);
            last = last.max(cable_free);
            continue;
        }
        passed += 1;
        link_free = link_begins + on_link;
        last = last.max(link_free);
        outcome.delivered += 1;
        source.acknowledge(number, link_free);
    }
    let sent = outcome.sent as f64;
    outcome.duration_us = last;
    outcome.ring_us = ring_us / sent.max(1.0);
    let share = |busy: f64| if last > 0.0 { busy / last } else { 0.0 };
    outcome.busy = vec![
        (Resource::Link, share(passed as f64 * on_link).max(share(sent * on_cable))),
        (Resource::Dma, share(sent * of_dma)),
        (Resource::Cpu, share(sent * machine.frame_us)),
    ];
    outcome
}
