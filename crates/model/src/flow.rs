//! Frames through a machine in virtual time: when each reaches which place, and where those that are lost are lost.
//! Knows numbers only: what they are for a machine and its settings is `cost`'s.

mod receive;
mod send;
mod source;

pub use receive::{Cpu, Fifo, Receiver, receive};
pub use send::{Sender, send};
pub use source::{Spacing, Traffic};

use std::collections::BTreeMap;

use linerate_path::stage::Stage;

/// Octets that a frame costs on the cable beside itself: preamble, delimiter, gap (IEEE 802.3).
pub const BESIDE_FRAME: f64 = 20.0;

/// Octets of FCS.
pub const FCS: f64 = 4.0;

/// A cable, or what stands in it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// Mbit/s, with what is counted beside a frame.
    pub mbps: f64,
    /// Octets that are counted of a frame beside itself: of a cable FCS, preamble and gap.
    pub overhead: f64,
    /// Frames that wait before it; those that find it full are lost.
    pub queue: f64,
}

impl Link {
    /// A cable of this rate, before which any number of frames waits.
    pub fn cable(mbps: f64) -> Link {
        Link { mbps, overhead: FCS + BESIDE_FRAME, queue: f64::INFINITY }
    }

    /// How long a frame of so many octets, FCS left out, is on it, µs.
    pub fn frame_us(&self, octets: f64) -> f64 {
        (octets + self.overhead) * 8.0 / self.mbps
    }
}

/// A DMA engine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dma {
    /// Octets a µs.
    pub rate: f64,
    /// µs a frame beside its octets.
    pub frame_us: f64,
}

impl Dma {
    fn frame_us(&self, octets: f64) -> f64 {
        self.frame_us + octets / self.rate
    }
}

/// What is busy the longest decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resource {
    /// What the partner offers.
    Offered,
    /// The window, and the time until it moves.
    Window,
    /// The cable, or what stands in it.
    Link,
    /// The MAC's DMA, and the FIFO before it.
    Dma,
    /// The CPU in driver and stack.
    Cpu,
    /// The CPU in the application.
    Application,
}

impl Resource {
    /// A word for programs.
    pub fn name(self) -> &'static str {
        match self {
            Resource::Offered => "offered-load",
            Resource::Window => "window",
            Resource::Link => "link",
            Resource::Dma => "dma",
            Resource::Cpu => "cpu",
            Resource::Application => "application",
        }
    }
}

/// What became of some traffic.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Frames that the sender sent.
    pub sent: u64,
    /// Frames that the receiving application had.
    pub delivered: u64,
    /// Of those, what was still on its way when the sender ended: a queue that fills loses later what it does not lose yet.
    pub waiting: f64,
    /// Where most of that was.
    pub waits_at: Option<Stage>,
    /// From the first frame's offer to the last one's delivery, µs.
    pub duration_us: f64,
    /// Where the others were lost.
    pub lost: BTreeMap<Stage, u64>,
    /// Pause frames that the MAC sent.
    pub pauses: u64,
    /// How much of the time each was busy.
    pub busy: Vec<(Resource, f64)>,
    /// Of delivered frames, the mean time in the ring until the driver began with them, µs.
    pub ring_us: f64,
    /// Octets that the CPU copied.
    pub copied: f64,
}

impl Outcome {
    /// Throughput, Mbit/s of payload at the receiving application.
    pub fn mbps(&self, payload: f64) -> f64 {
        if self.duration_us > 0.0 { self.delivered as f64 * payload * 8.0 / self.duration_us } else { 0.0 }
    }

    /// Of what was sent, how much was lost.
    pub fn loss_ratio(&self) -> f64 {
        if self.sent == 0 { 0.0 } else { 1.0 - self.delivered as f64 / self.sent as f64 }
    }

    /// Where most of what was lost was lost, or will be where a queue fills.
    pub fn lost_at(&self) -> Option<Stage> {
        let most =
            self.lost.iter().max_by_key(|&(_, packets)| packets).map(|(&stage, &packets)| (packets as f64, stage));
        let waits = self.waits_at.map(|stage| (self.waiting, stage));
        most.into_iter().chain(waits).max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, stage)| stage)
    }

    /// What limits: what is busy the longest, where anything is busy nearly always, or more was offered than arrived.
    pub fn limit(&self) -> Resource {
        const NEARLY_ALWAYS: f64 = 0.93;
        const NEARLY_ALL: f64 = 0.98;
        let all_arrived = self.delivered as f64 >= NEARLY_ALL * self.sent as f64;
        let busiest = self.busy.iter().max_by(|a, b| a.1.total_cmp(&b.1));
        let limits = busiest.filter(|(_, share)| *share >= NEARLY_ALWAYS || !all_arrived);
        limits.map_or(Resource::Offered, |&(resource, _)| resource)
    }

    fn lose(&mut self, stage: Stage) {
        *self.lost.entry(stage).or_default() += 1;
    }
}
