//! The partner: what it offers, in bursts or evenly, and no more than a window ahead.

use crate::random::SplitMix;

/// What is offered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Traffic {
    /// How many frames.
    pub frames: usize,
    /// Octets of a frame, FCS left out.
    pub octets: f64,
    /// Frames a µs that are offered on average; infinite for as many as go.
    pub rate: f64,
    /// How they are spaced.
    pub spacing: Spacing,
    /// How fast the partner's own cable is, Mbit/s.
    pub partner_mbps: f64,
    /// Frames that may be under way, and the time beside the machine's own until one is acknowledged, µs. There is no
    /// recovery from loss: a frame that is lost counts as acknowledged.
    pub window: Option<(usize, f64)>,
}

/// How frames are spaced.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Spacing {
    /// Bursts at the speed of the partner's cable, of so many frames on average (geometrically distributed), each as long
    /// after the last as that one's frames are worth; 1 is evenly.
    Bursts(f64),
    /// By chance: times between frames are exponentially distributed.
    Poisson {
        /// The generator's beginning.
        seed: u64,
    },
}

/// When frames come.
pub(super) struct Source {
    traffic: Traffic,
    frame_us: f64,
    random: SplitMix,
    next: f64,
    /// When the burst began, and its frames that are still to come.
    burst: (f64, f64),
    /// When the frames under way were acknowledged, by their number modulo the window.
    acknowledged: Vec<f64>,
}

impl Source {
    pub(super) fn new(traffic: Traffic) -> Source {
        let frame_us = (traffic.octets + super::FCS + super::BESIDE_FRAME) * 8.0 / traffic.partner_mbps;
        let seed = if let Spacing::Poisson { seed } = traffic.spacing { seed } else { 0 };
        // A window that holds all of the traffic closes as little as any larger one.
        let window = |(frames, _): (usize, f64)| frames.clamp(1, traffic.frames.max(1));
        let acknowledged = vec![0.0; traffic.window.map_or(0, window)];
        Source { traffic, frame_us, random: SplitMix(seed), next: 0.0, burst: (0.0, 0.0), acknowledged }
    }

    /// When frame `number` is offered, µs.
    pub(super) fn offer(&mut self, number: usize) -> f64 {
        let offered = match self.traffic.spacing {
            Spacing::Bursts(mean) => {
                if self.burst.1 < 1.0 {
                    self.burst.1 = if mean > 1.0 { self.random.geometric(mean) } else { 1.0 };
                    let begins = self.burst.0;
                    self.next = self.next.max(begins);
                    self.burst.0 += if self.traffic.rate.is_finite() { self.burst.1 / self.traffic.rate } else { 0.0 };
                }
                self.burst.1 -= 1.0;
                self.next
            }
            Spacing::Poisson { .. } => self.next,
        };
        let offered = match self.acknowledged.len() {
            0 => offered,
            window => offered.max(self.acknowledged[number % window]),
        };
        self.next = offered
            + match self.traffic.spacing {
                Spacing::Bursts(_) => self.frame_us,
                Spacing::Poisson { .. } => self.random.exponential() / self.traffic.rate,
            };
        offered
    }

    /// Frame `number` was delivered, or lost, at this time.
    pub(super) fn acknowledge(&mut self, number: usize, at_us: f64) {
        if let Some((_, beside_us)) = self.traffic.window {
            let window = self.acknowledged.len();
            self.acknowledged[number % window] = at_us + beside_us;
        }
    }
}
