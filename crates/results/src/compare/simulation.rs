//! Holds the verdicts against noise whose truth is known: how often they cry wolf, and how often they miss one.
//! Knows no records. Every seed is printed.

use super::verdict::{Round, Sides, Verdict, verdict};
use crate::figure::Metric;
use linerate_stats::ALPHA;
use linerate_stats::noise::Noise;

const ROUNDS: usize = 2000;

/// In which order the two sides of a round are measured.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Order {
    /// A B A B.
    Fixed,
    /// By chance in each round.
    Mixed,
    /// By chance in each second round, and the other way in the one after it: as campaigns are measured.
    Turned,
}

/// What a trial measures at a place of the campaign, which is `length` trials long.
type Draw = fn(&mut Noise, at: f64, length: f64, level: f64) -> f64;

/// A campaign of `n` rounds, the candidate higher by `shift`, a part of the whole.
fn campaign(
    chance: &mut Noise,
    n: usize,
    order: Order,
    shift: f64,
    draw: &mut dyn FnMut(&mut Noise, f64) -> f64,
) -> Sides {
    let mut sides = Sides::default();
    let mut baseline_first = true;
    for round in 0..n {
        baseline_first = match order {
            Order::Fixed => true,
            Order::Turned if round % 2 == 1 => !baseline_first,
            Order::Mixed | Order::Turned => chance.uniform() < 0.5,
        };
        let (first, second) = (
            draw(chance, if baseline_first { 0.0 } else { shift }),
            draw(chance, if baseline_first { shift } else { 0.0 }),
        );
        let (baseline, candidate) = if baseline_first { (first, second) } else { (second, first) };
        sides.baseline.push(baseline);
        sides.candidate.push(candidate);
        sides.rounds.push(Round { baseline, candidate, baseline_first });
    }
    sides
}

/// How many of 2,000 campaigns come to better or worse.
fn found(seed: u64, n: usize, order: Order, shift: f64, draw: Draw) -> (usize, usize) {
    let metric = Metric::find("throughput").unwrap();
    let mut chance = Noise::new(seed);
    let (mut better, mut worse) = (0, 0);
    for _ in 0..ROUNDS {
        let mut at = 0.0;
        // What a campaign begins with, and drifts by, is its own.
        let start = chance.normal();
        let sides = campaign(&mut chance, n, order, shift, &mut |chance, level| {
            at += 1.0;
            draw(chance, at, 2.0 * n as f64, level) + start * 1e-9
        });
        let shift = sides.shift(ALPHA).unwrap();
        match verdict(metric, &sides, &shift, shift.p, ALPHA, None) {
            Verdict::Better => better += 1,
            Verdict::Worse => worse += 1,
            _ => {}
        }
    }
    (better, worse)
}

const SKEWED: Draw = |chance, _, _, level| 100.0 * (1.0 + level) * (1.0 + 0.02 * chance.skewed());
const BIMODAL: Draw = |chance, _, _, level| 100.0 * (1.0 + level) * (1.0 + 0.01 * chance.bimodal());
/// Noise of 1 %, and the whole moves by 10 % during the campaign.
const DRIFTING: Draw =
    |chance, at, length, level| 100.0 * (1.0 + level) * (1.0 + 0.1 * at / length) * (1.0 + 0.01 * chance.normal());
/// A machine that warms up: quickly at first.
const WARMING: Draw = |chance, at, length, level| {
    100.0 * (1.0 + level) * (1.0 - 0.3 * (-6.0 * at / length).exp()) * (1.0 + 0.003 * chance.normal())
};
/// Hardly any noise beside the drift.
const STEEP: Draw =
    |chance, at, length, level| 100.0 * (1.0 + level) * (1.0 + 0.5 * at / length) * (1.0 + 0.001 * chance.normal());
const NORMAL: Draw = |chance, _, _, level| 100.0 * (1.0 + level) * (1.0 + 0.01 * chance.normal());

#[test]
fn alike_sides_are_seldom_called_different() {
    let kinds: [(&str, Draw); 5] =
        [("skewed", SKEWED), ("bimodal", BIMODAL), ("drifting", DRIFTING), ("warming", WARMING), ("steep", STEEP)];
    for (name, draw) in kinds {
        for order in [Order::Fixed, Order::Mixed, Order::Turned] {
            for n in [5, 10, 20] {
                let seed = 4000 + n as u64;
                let (better, worse) = found(seed, n, order, 0.0, draw);
                let alarms = better + worse;
                println!("{name}, {order:?} order, {n} repeats, seed {seed}: {alarms} of {ROUNDS} called different");
                assert!(alarms * 20 <= ROUNDS, "{name}, {order:?}, {n} repeats, seed {seed}: {alarms} of {ROUNDS}");
            }
        }
    }
}

#[test]
fn three_percent_on_one_percent_of_noise_is_found() {
    let check = |name: &str, n: usize, order: Order, shift: f64, draw: Draw, least: f64| {
        let seed = 77;
        let (better, worse) = found(seed, n, order, shift, draw);
        println!(
            "{name}, {order:?} order, {n} repeats, {shift:+}, seed {seed}: {better} better, {worse} worse of {ROUNDS}"
        );
        let (right, wrong) = if shift > 0.0 { (better, worse) } else { (worse, better) };
        assert!(right as f64 >= least * ROUNDS as f64 && wrong == 0, "{name}: {right} right, {wrong} wrong");
    };
    check("normal", 10, Order::Fixed, 0.03, NORMAL, 0.9);
    check("normal", 10, Order::Mixed, 0.03, NORMAL, 0.9);
    check("normal", 10, Order::Fixed, -0.03, NORMAL, 0.9);
    check("normal", 5, Order::Fixed, 0.03, NORMAL, 0.8);
    // The drift is thrice the difference: rounds as pairs still find it.
    check("drifting", 10, Order::Mixed, 0.03, DRIFTING, 0.9);
    check("drifting", 20, Order::Mixed, -0.03, DRIFTING, 0.9);
    check("normal", 10, Order::Turned, 0.03, NORMAL, 0.9);
    check("drifting", 10, Order::Turned, 0.03, DRIFTING, 0.9);
}

#[test]
fn as_many_repeats_as_it_asks_for_are_enough() {
    let metric = Metric::find("throughput").unwrap();
    let seed = 500;
    let mut chance = Noise::new(seed);
    let (mut asked, mut enough, mut needs) = (0, 0, Vec::new());
    let mut draw = |chance: &mut Noise, level: f64| 100.0 * (1.0 + level) * (1.0 + 0.03 * chance.normal());
    for _ in 0..400 {
        let sides = campaign(&mut chance, 6, Order::Fixed, 0.03, &mut draw);
        let shift = sides.shift(ALPHA).unwrap();
        if let Verdict::CannotTell { more: Some(more) } = verdict(metric, &sides, &shift, shift.p, ALPHA, None) {
            asked += 1;
            needs.push(f64::from(more));
            let again = campaign(&mut chance, 6 + more as usize, Order::Fixed, 0.03, &mut draw);
            let shift = again.shift(ALPHA).unwrap();
            enough += usize::from(verdict(metric, &again, &shift, shift.p, ALPHA, None) == Verdict::Better);
        }
    }
    let typical = linerate_stats::median(&needs).unwrap();
    println!("seed {seed}: {enough} of {asked} were found with as many more as it asked for, typically {typical}");
    // Normal theory: 2 (2.8 × 3 % / 3 %)² = 16 each for a shift of 3 %, 35 for the margin of 2 %.
    assert!((5.0..=40.0).contains(&typical), "{typical}");
    assert!(enough * 10 >= asked * 6, "{enough} of {asked}");
}
