//! Parameter sets that reproduce what was measured: many, never the best one. Different sets fit alike, and what they agree
//! about is what can be predicted.
//!
//! A population of sets is drawn from the machine's bounds and moved by differences between its members (ter Braak, 2006,
//! "A Markov Chain Monte Carlo version of the genetic algorithm Differential Evolution"), while what is accepted comes down
//! to the rows' noise.

use crate::cost::{self, run};
use crate::flow::Outcome;
use crate::machine::Machine;
use crate::random::SplitMix;
use crate::table::{Measured, Row};

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
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("no parameter set reproduces the rows: the best one misses one of them by {best:.1} times its noise")]
pub struct NotReproduced {
    /// How far the best one is off in its worst row, in that row's noise.
    pub best: f64,
}

/// A set reproduces a row where it is off by no more than so many times the row's noise: with a dozen rows, one of them is
/// off by more than once its noise even where the model is right.
const WITHIN: f64 = 2.0;

/// So many times the noise off is a set by which a stream loses frames.
const LOSES: f64 = 10.0;

/// Moves that follow once all sets fit, so that they spread over what fits.
const SETTLING: usize = 12;

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
    let (settings, fixed) = row.resolve(&machine.settings).expect("a table's rows were checked when it was read");
    for (parameter, value) in fixed {
        values.set(parameter, value);
    }
    let outcome = run(&values, &settings, &row.load, frames);
    Modelled { mbps: cost::mbps(&row.load, &values, &outcome), outcome }
}

fn mbps(machine: &Machine, places: &[f64], row: &Row, frames: usize) -> f64 {
    modelled(machine, places, row, frames).mbps
}

/// How far off a set is in its worst row, in that row's noise.
fn distance(machine: &Machine, places: &[f64], rows: &[(Row, Measured)], frames: usize, enough: f64) -> f64 {
    let mut worst = 0.0f64;
    for (row, measured) in rows {
        let Modelled { mbps, outcome } = modelled(machine, places, row, frames);
        let off = (mbps - measured.mbps).abs() / (measured.noise * measured.mbps);
        // A stream that loses frames recovers from that, and here it does not: such a set says nothing of the row.
        let loses = row.load.workload.is_stream() && outcome.delivered < outcome.sent;
        worst = worst.max(if loses { off + LOSES } else { off });
        if worst > enough {
            break;
        }
    }
    worst
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
    let mut off: Vec<f64> = sets.iter().map(|set| distance(machine, set, rows, effort.frames, f64::INFINITY)).collect();
    let mut settled = 0;
    for generation in 0..effort.generations {
        let accepted = {
            let mut sorted = off.clone();
            sorted.sort_by(f64::total_cmp);
            // The better half is where the others are to come.
            sorted[sorted.len() / 2].max(WITHIN)
        };
        for nth in 0..sets.len() {
            // One that is behind begins anew beside one that is not, and so does any now and then.
            let anew = off[nth] > accepted || generation % 4 == 3;
            let base = if anew { near(&off, accepted, &mut random) } else { nth };
            let moved = moved(&sets, base, &mut random);
            let distance = distance(machine, &moved, rows, effort.frames, accepted);
            if distance <= accepted {
                (sets[nth], off[nth]) = (moved, distance);
            }
        }
        settled += usize::from(off.iter().all(|&off| off <= WITHIN));
        if settled > SETTLING {
            break;
        }
    }
    let best = off.iter().copied().fold(f64::INFINITY, f64::min);
    let sets: Vec<Vec<f64>> = sets.into_iter().zip(off).filter(|(_, off)| *off <= WITHIN).map(|(set, _)| set).collect();
    if sets.is_empty() {
        return Err(NotReproduced { best });
    }
    let error = error(machine, &sets, rows, effort.frames);
    Ok(Ensemble { sets, error })
}

/// Any of the sets that are as near as this.
fn near(off: &[f64], accepted: f64, random: &mut SplitMix) -> usize {
    loop {
        let nth = (random.next() % off.len() as u64) as usize;
        if off[nth] <= accepted {
            return nth;
        }
    }
}

/// A set moved by the difference of two others.
fn moved(sets: &[Vec<f64>], base: usize, random: &mut SplitMix) -> Vec<f64> {
    let mut other = || (random.next() % sets.len() as u64) as usize;
    let (one, two) = (other(), other());
    let scale = 0.2 + 0.8 * random.unit();
    let place = |at: usize| {
        let step = if random.unit() < 0.6 { scale * (sets[one][at] - sets[two][at]) } else { 0.0 };
        let place = sets[base][at] + step + 0.02 * (random.unit() - 0.5);
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
