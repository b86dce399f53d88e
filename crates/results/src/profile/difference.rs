//! How two profiles differ: which kinds of work, and which functions, grew or shrank.
//! Knows counts of samples and what one stands for; the noise of counting is all the noise it reckons with.

use std::collections::BTreeMap;

use crate::profile::{Category, MachineProfile};
use crate::total::Total;

use super::functions::functions;

/// A difference of two profiles.
#[derive(Debug)]
pub struct Difference {
    /// Of all rows.
    pub unit: Unit,
    /// Every kind of work that either side has.
    pub categories: Vec<Row>,
    /// The functions, those whose time differs most first.
    pub functions: Vec<Row>,
}

/// What times are told in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Microseconds for each packet: what is left when one side just did more.
    MicrosecondsPerPacket,
    /// Percent of the time of all CPUs, where one side has no packets to divide by.
    PercentOfTime,
}

/// One line of a difference.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// What people read.
    pub name: String,
    /// In the unit.
    pub before: f64,
    /// In the unit.
    pub after: f64,
    /// Half the width of a 95 % interval around `after - before`. Samples are counts of independent events (Poisson), so
    /// that a count of n has a standard deviation of the root of n.
    pub noise: f64,
}

impl Row {
    fn of(name: String, counts: [u64; 2], by_sample: [f64; 2]) -> Row {
        let [before, after] = [0, 1].map(|side| counts[side] as f64 * by_sample[side]);
        // Where nothing was found, up to three may have been missed (the rule of three, for the same 95 %).
        let variance = |side: usize| (counts[side].max(3) as f64) * by_sample[side] * by_sample[side];
        Row { name, before, after, noise: 1.96 * (variance(0) + variance(1)).sqrt() }
    }

    /// What it grew by; below zero, shrank.
    pub fn growth(&self) -> f64 {
        self.after - self.before
    }

    /// Whether counting alone would hardly show this.
    pub fn is_clear(&self) -> bool {
        self.growth().abs() > self.noise
    }
}

/// Holds a profile against one before it. `None` where one of the two tells no times.
pub fn difference(before: &MachineProfile, after: &MachineProfile) -> Option<Difference> {
    let sides = [before, after];
    let by_packet = sides.map(|profile| by_sample(profile, |one| one.us_per_packet));
    let by_share = sides.map(|profile| by_sample(profile, |one| one.share.map(|share| 100.0 * share)));
    let (unit, scale) = match (by_packet, by_share) {
        ([Some(before), Some(after)], _) => (Unit::MicrosecondsPerPacket, [before, after]),
        (_, [Some(before), Some(after)]) => (Unit::PercentOfTime, [before, after]),
        _ => return None,
    };
    let of_category = |category: Category| {
        let counts = sides.map(|profile| profile.of(category).map_or(0, |one| one.samples));
        (counts != [0, 0]).then(|| Row::of(category.title().to_owned(), counts, scale))
    };
    let busy = Category::ALL.into_iter().filter(|category| *category != Category::Idle);
    let mut by_name: BTreeMap<String, [u64; 2]> = BTreeMap::new();
    for (side, profile) in sides.into_iter().enumerate() {
        for one in functions(profile, None) {
            let samples = &mut by_name.entry(one.name).or_default()[side];
            *samples = samples.saturating_add(one.samples);
        }
    }
    let mut functions: Vec<Row> = by_name.into_iter().map(|(name, counts)| Row::of(name, counts, scale)).collect();
    functions.sort_by(|a, b| b.growth().abs().total_cmp(&a.growth().abs()).then_with(|| a.name.cmp(&b.name)));
    Some(Difference { unit, categories: busy.filter_map(of_category).collect(), functions })
}

/// What one sample that is not idle stands for.
pub fn by_sample(profile: &MachineProfile, of: impl Fn(&crate::profile::CategoryTime) -> Option<f64>) -> Option<f64> {
    let busy = || profile.categories.iter().filter(|one| one.category != Category::Idle);
    let samples = busy().map(|one| one.samples).total();
    let sum = busy().map(of).sum::<Option<f64>>()?;
    (samples > 0).then(|| sum / samples as f64)
}
