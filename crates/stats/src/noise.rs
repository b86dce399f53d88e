//! Noise for the tests of the statistics and for example records: skewed, with two modes, drifting. Seeded, and the same everywhere.
//! Measured by nobody.

/// Chance from a seed: SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
pub struct Noise(u64);

impl Noise {
    /// The same from the same seed.
    pub fn new(seed: u64) -> Noise {
        Noise(seed)
    }

    /// 64 of them, each 0 as often as 1.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Between 0 and 1, neither of them.
    pub fn uniform(&mut self) -> f64 {
        ((self.bits() >> 12) as f64 + 0.5) / (1_u64 << 52) as f64
    }

    /// Standard normal, by Box and Muller.
    pub fn normal(&mut self) -> f64 {
        let (u, v) = (self.uniform(), self.uniform());
        (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    }

    /// Many small values and a few large ones, as delays are: log-normal.
    pub fn skewed(&mut self) -> f64 {
        (0.8 * self.normal()).exp()
    }

    /// One of two places, as a flow that hashes to one of two queues.
    pub fn bimodal(&mut self) -> f64 {
        if self.uniform() < 0.4 { 10.0 + self.normal() } else { self.normal() }
    }
}
