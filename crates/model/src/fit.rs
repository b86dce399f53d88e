//! Parameter sets that reproduce what was measured: many, never the best one. Different sets fit alike, and what they agree
//! about is what can be predicted.
//!
//! A population of sets is drawn from the machine's bounds and moved by differences between its members (ter Braak, 2006,
//! "A Markov Chain Monte Carlo version of the genetic algorithm Differential Evolution"), while what is accepted comes down
//! to the rows' noise.

use std::ops::Range;

use crate::cost::{self, run};
use crate::flow::Outcome;
use crate::machine::Machine;
use crate::parameter::Parameter;
use crate::random::SplitMix;
use crate::table::{Measured, Resolved, Row};

/// How much is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Parameter sets that are kept.
    pub sets: usize,
    /// How often each is moved before the search is given up.
    pub generations: usize,
    /// Frames of a row.
    pub frames: usize,
    /// The beginning of chance.
    pub seed: u64,
}

impl Default for Effort {
    fn default() -> Effort {
        Effort { sets: 120, generations: 500, frames: 1000, seed: 1 }
    }
}

/// Parameter sets that reproduce every measured row within twice its noise.
#[derive(Clone, Debug)]
pub struct Ensemble {
    /// Each set: where in its bounds every unknown parameter of the machine is, from 0 to 1.
    pub sets: Vec<Vec<f64>>,
    /// By how much the sets' middle misses the rows, as a share: the fit's own error.
    pub error: f64,
}

/// No set reproduces the rows.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("no parameter set reproduces the rows: the best one misses '{row}' by {best:.1} times its noise")]
pub struct NotReproduced {
    /// How far the best one is off in its worst row, in that row's noise.
    pub best: f64,
    /// Which row that is.
    pub row: String,
}

/// A set reproduces a row where it is off by no more than so many times the row's noise: with a dozen rows, one of them is
/// off by more than once its noise even where the model is right.
pub(crate) const WITHIN: f64 = 2.0;

/// So many times the noise off is a set by which a stream loses frames, or datagrams are lost elsewhere than they were.
const LOSES: f64 = 10.0;

/// Sets that come after each other's better ones. Each of these groups finds its own way to the rows, so that what a row may be
/// due to is not what the first set that reproduces it happens to have.
const ISLAND: usize = 8;

/// Moves that follow once all sets fit, so that they spread over what fits.
const SETTLING: usize = 30;

/// What a row comes to on a machine with these values.
#[derive(Clone, Debug)]
pub struct Modelled {
    /// Throughput, Mbit/s of payload.
    pub mbps: f64,
    /// What became of its frames.
    pub outcome: Outcome,
}

/// What this row comes to.
pub fn modelled(machine: &Machine, places: &[f64], row: &Row, frames: usize) -> Modelled {
    let mut values = machine.values(places);
    let Resolved { settings, fixed, load } =
        row.resolve(&machine.settings).expect("a table's rows were checked when it was read");
    // A window is octets, and larger segments are fewer of them.
    let window = values.get(Parameter::WindowFrames) * row.load.payload / load.payload;
    values.set(Parameter::WindowFrames, window);
    for (parameter, value) in fixed {
        values.set(parameter, value);
    }
    let outcome = run(&values, &settings, &load, frames);
    Modelled { mbps: cost::mbps(&load, &outcome), outcome }
}

fn mbps(machine: &Machine, places: &[f64], row: &Row, frames: usize) -> f64 {
    modelled(machine, places, row, frames).mbps
}

/// How far off a set is, in the rows' noise.
#[derive(Clone, Copy)]
struct Distance {
    /// In its worst row.
    worst: f64,
    /// The sum of all rows' squares.
    squares: f64,
}

fn distance(machine: &Machine, places: &[f64], rows: &[(Row, Measured)], frames: usize, enough: f64) -> Distance {
    let mut distance = Distance { worst: 0.0, squares: 0.0 };
    for row in rows {
        let off = off(machine, places, row, frames);
        distance = Distance { worst: distance.worst.max(off), squares: distance.squares + off * off };
        if distance.worst > enough {
            break;
        }
    }
    distance
}

/// How far off a set is in a row, in the row's noise.
fn off(machine: &Machine, places: &[f64], (row, measured): &(Row, Measured), frames: usize) -> f64 {
    let Modelled { mbps, outcome } = modelled(machine, places, row, frames);
    let off = (mbps - measured.mbps).abs() / (measured.noise * measured.mbps);
    // A stream that loses frames recovers from that, and here it does not: such a set says nothing of the row.
    let loses = row.load.workload.is_stream() && outcome.delivered < outcome.sent;
    let elsewhere = outcome.lost_at().zip(measured.lost_at).is_some_and(|(model, machine)| model != machine);
    let off = if loses || elsewhere { off + LOSES } else { off };
    // Where numbers came to nothing, nothing is near.
    if off.is_finite() { off } else { f64::INFINITY }
}

/// Sets by chance, from the machine's bounds alone.
pub fn unfitted(machine: &Machine, effort: Effort) -> Ensemble {
    let mut random = SplitMix(effort.seed);
    let count = machine.unknown().len();
    let sets = (0..effort.sets).map(|_| (0..count).map(|_| random.unit()).collect()).collect();
    Ensemble { sets, error: 0.0 }
}

/// Sets that reproduce `rows`.
pub fn fit(machine: &Machine, rows: &[(Row, Measured)], effort: Effort) -> Result<Ensemble, NotReproduced> {
    let Ensemble { mut sets, .. } = unfitted(machine, effort);
    let mut random = SplitMix(effort.seed ^ 0x5eed);
    let mut distances: Vec<Distance> =
        sets.iter().map(|set| distance(machine, set, rows, effort.frames, f64::INFINITY)).collect();
    let mut settled = 0;
    for generation in 0..effort.generations {
        for first in (0..sets.len()).step_by(ISLAND) {
            let island = first..(first + ISLAND).min(sets.len());
            let mut sorted: Vec<f64> = distances[island.clone()].iter().map(|one| one.worst).collect();
            sorted.sort_by(f64::total_cmp);
            // The better half is where the others are to come.
            let accepted = sorted[sorted.len() / 2].max(WITHIN);
            for nth in island.clone() {
                // One that is behind begins anew beside one that is not, and so does any now and then.
                let anew = distances[nth].worst > accepted || generation % 4 == 3;
                let base = if anew { near(&distances, island.clone(), accepted, &mut random) } else { nth };
                let moved = moved(&sets, base, &mut random);
                let distance = distance(machine, &moved, rows, effort.frames, accepted);
                // Once all reproduce the rows they move as Metropolis has it: what is nearer is as much likelier as noise of this size
                // makes it.
                let likelier = (0.5 * (distances[nth].squares - distance.squares)).exp();
                if distance.worst <= accepted && (settled == 0 || random.unit() < likelier) {
                    (sets[nth], distances[nth]) = (moved, distance);
                }
            }
        }
        settled += usize::from(distances.iter().all(|one| one.worst <= WITHIN));
        if settled > SETTLING {
            break;
        }
    }
    let best = (0..sets.len()).min_by(|&a, &b| distances[a].worst.total_cmp(&distances[b].worst));
    if let Some(best) = best.filter(|&best| distances[best].worst > WITHIN) {
        let missed = |row: &(Row, Measured)| off(machine, &sets[best], row, effort.frames);
        let worst = rows.iter().max_by(|a, b| missed(a).total_cmp(&missed(b)));
        let row = worst.map_or_else(String::new, |(row, _)| row.id.clone());
        return Err(NotReproduced { best: distances[best].worst, row });
    }
    let all = sets.into_iter().zip(distances);
    let sets: Vec<Vec<f64>> = all.filter(|(_, off)| off.worst <= WITHIN).map(|(set, _)| set).collect();
    let error = error(machine, &sets, rows, effort.frames);
    Ok(Ensemble { sets, error })
}

/// One of the sets that are as near as this, rather a nearer one: the best of three.
fn near(off: &[Distance], island: Range<usize>, accepted: f64, random: &mut SplitMix) -> usize {
    let mut any = || loop {
        let nth = island.start + (random.next() % island.len() as u64) as usize;
        if off[nth].worst <= accepted {
            return nth;
        }
    };
    let three = [any(), any(), any()];
    // Those that reproduce all rows are alike.
    let place = |nth: usize| off[nth].worst.max(WITHIN);
    three.into_iter().min_by(|&a, &b| place(a).total_cmp(&place(b))).unwrap_or(three[0])
}

/// A set moved by the difference of two others.
fn moved(sets: &[Vec<f64>], base: usize, random: &mut SplitMix) -> Vec<f64> {
    let mut other = || (random.next() % sets.len() as u64) as usize;
    let (one, two) = (other(), other());
    // Now and then by next to nothing: what reproduces a row may be a thin slice of wide bounds.
    let scale = if random.unit() < 0.25 { 0.0 } else { 0.2 + 0.8 * random.unit() };
    let fine = 0.02 * 10f64.powf(-3.0 * random.unit());
    let place = |at: usize| {
        let step = if random.unit() < 0.6 { scale * (sets[one][at] - sets[two][at]) } else { 0.0 };
        let place = sets[base][at] + step + fine * (random.unit() - 0.5);
        // Reflected at the bounds.
        let place = if place < 0.0 { -place } else { place };
        if place > 1.0 { (2.0 - place).max(0.0) } else { place }
    };
    (0..sets[base].len()).map(place).collect()
}

/// The root mean square of what the sets' medians miss.
fn error(machine: &Machine, sets: &[Vec<f64>], rows: &[(Row, Measured)], frames: usize) -> f64 {
    if rows.is_empty() {
        return 0.0;
    }
    let squares = rows.iter().map(|(row, measured)| {
        let mut all: Vec<f64> = sets.iter().map(|set| mbps(machine, set, row, frames)).collect();
        all.sort_by(f64::total_cmp);
        (all[all.len() / 2] / measured.mbps - 1.0).powi(2)
    });
    (squares.sum::<f64>() / rows.len() as f64).sqrt()
}
