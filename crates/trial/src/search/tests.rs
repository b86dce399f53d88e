//! Searches in virtual time, against devices whose capacity is known.

use super::bounds::Decided;
use super::*;
use crate::pace::SplitMix64;

/// A device by a model.
trait Device {
    /// The part that is lost of a trial of this load and length, beginning now; the device goes on after it.
    fn trial(&mut self, load: f64, seconds: f64) -> f64;
}

/// Passes what is below its capacity, and has a buffer for so many packets.
struct Hard {
    capacity: f64,
    buffer: f64,
}

impl Device for Hard {
    fn trial(&mut self, load: f64, seconds: f64) -> f64 {
        let lost = (load - self.capacity).max(0.0) * seconds - self.buffer;
        (lost.max(0.0) / (load * seconds)).min(1.0)
    }
}

/// Its capacity is another each 10 ms, by so much about the mean; now and then it stalls. 512 packets wait.
struct Jittery {
    capacity: f64,
    part: f64,
    /// For so many milliseconds of so many.
    stalls: Option<(u32, u32)>,
    chance: SplitMix64,
    now_ms: u32,
}

impl Jittery {
    fn new(capacity: f64, part: f64, stalls: Option<(u32, u32)>, seed: u64) -> Jittery {
        Jittery { capacity, part, stalls, chance: SplitMix64::new(seed), now_ms: (seed as u32 * 977) % 4_000 * 5 }
    }
}

impl Device for Jittery {
    fn trial(&mut self, load: f64, seconds: f64) -> f64 {
        const BUFFER: f64 = 512.0;
        const STEP_MS: u32 = 5;
        let (mut queue, mut lost, mut off) = (0.0_f64, 0.0, 0.0);
        for _ in 0..(seconds * 1000.0).round() as u32 / STEP_MS {
            self.now_ms = self.now_ms.wrapping_add(STEP_MS);
            if self.now_ms.is_multiple_of(10) {
                off = self.part * (2.0 * uniform(&mut self.chance) - 1.0);
            }
            let stands = self.stalls.is_some_and(|(held, of)| self.now_ms % of < held);
            let passes = if stands { 0.0 } else { self.capacity * (1.0 + off) };
            queue = (queue + (load - passes) * f64::from(STEP_MS) / 1000.0).max(0.0);
            lost += (queue - BUFFER).max(0.0);
            queue = queue.min(BUFFER);
        }
        lost / (load * seconds)
    }
}

fn uniform(chance: &mut SplitMix64) -> f64 {
    (chance.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

const MOST: f64 = 1_488_095.0;
const LEAST: f64 = 9_000.0;

/// Carries a search out. Seconds that the trials took, how many there were, and what was found.
fn searched(goals: &[&str], device: &mut dyn Device, stops_early: bool) -> (f64, usize, Vec<Found>) {
    let goals = goals.iter().map(|goal| goal.parse().unwrap()).collect();
    let mut search = Search::new(goals, LEAST, MOST).unwrap();
    let (mut seconds, mut trials) = (0.0, 0);
    while let Some(asked) = search.ask() {
        let loss_ratio = device.trial(asked.load, asked.trial_s);
        // What is lost comes evenly.
        let decided_s = asked.trial_s * (asked.forgiven / loss_ratio).min(1.0);
        let is_lost = loss_ratio > asked.forgiven;
        seconds += if stops_early && is_lost { decided_s.max(0.1) } else { asked.trial_s } + 0.5;
        trials += 1;
        assert!(trials < 3_000, "no end");
        let (intended_s, effective_s) = (asked.trial_s, asked.trial_s + 0.5);
        search.heard(Trial { rung: asked.rung, intended_s, effective_s, loss_ratio });
    }
    (seconds, trials, search.found())
}

fn within(found: &Found, capacity: f64) {
    let (lower, upper) = (found.lower.unwrap(), found.upper.unwrap());
    assert!(found.is_regular, "{found:?}");
    assert!(lower <= capacity * (1.0 + 1e-9) && upper > capacity, "{capacity}: {found:?}");
    assert!((upper - lower) / upper <= found.goal.width * (1.0 + 1e-9), "{found:?}");
}

#[test]
fn a_hard_limit_is_found() {
    let mut chance = SplitMix64::new(1);
    let (mut all, mut most) = (0, 0);
    for _ in 0..200 {
        let capacity = LEAST * (MOST / LEAST).powf(uniform(&mut chance).clamp(0.01, 0.99));
        let device = || Hard { capacity, buffer: 0.0 };
        for goal in ["rfc2544", "tst009", "ndr"] {
            let (_, _, found) = searched(&[goal], &mut device(), false);
            within(&found[0], capacity);
            assert_eq!(found[0].conditional_throughput, found[0].lower);
        }
        let (_, trials, found) = searched(&["ndr", "pdr"], &mut device(), false);
        within(&found[0], capacity);
        within(&found[1], capacity / 0.995);
        (all, most) = (all + trials, most.max(trials));
    }
    println!("{} trials, at most {most}", all / 200);
}

#[test]
fn what_carries_all_or_nothing_is_said_to() {
    let (_, trials, found) = searched(&["ndr", "pdr"], &mut Hard { capacity: 2.0 * MOST, buffer: 0.0 }, false);
    assert_eq!((found[0].lower, found[0].upper), (Some(MOST), None));
    assert_eq!(found[0].conditional_throughput, Some(MOST));
    assert!(!found[0].is_regular && found[0].is_unlimited && trials <= 21, "{trials}");
    let (_, _, found) = searched(&["ndr", "pdr"], &mut Hard { capacity: 0.5 * LEAST, buffer: 0.0 }, false);
    assert_eq!((found[0].lower, found[0].upper), (None, Some(LEAST)));
    assert_eq!(found[0].conditional_throughput, None);
    assert!(!found[0].is_regular && !found[0].is_unlimited);
}

#[test]
fn to_stop_early_changes_no_bound() {
    let mut chance = SplitMix64::new(7);
    for _ in 0..50 {
        let capacity = 150e3 + 1.05e6 * uniform(&mut chance);
        let mut device = Hard { capacity, buffer: 512.0 };
        let (whole_s, _, whole) = searched(&["rfc2544"], &mut device, false);
        let (early_s, _, early) = searched(&["rfc2544"], &mut device, true);
        assert_eq!(whole, early);
        assert!(early_s < whole_s);
    }
}

/// What the reference makes of 10,000 loads: PyPI's MLRsearch 1.2.1 (Apache-2.0), `TargetStat.estimates` and
/// `pessimistic_loss_ratio`. Two letters a load: L, U or N (lower bound, upper bound, not yet), and which loss stands at the
/// exceed ratio (x: all).
const REFERENCE: &str = include_str!("mlrsearch-1.2.1.txt");
const LOSSES: [f64; 5] = [0.0, 0.001, 0.005, 0.01, 0.25];

#[test]
fn loads_are_decided_as_the_reference_decides_them() {
    let letters: Vec<char> = REFERENCE.chars().filter(|letter| !letter.is_whitespace()).collect();
    assert_eq!(letters.len(), 20_000);
    for (seed, said) in letters.chunks(2).enumerate() {
        let mut chance = SplitMix64::new(seed as u64);
        let mut pick = |from: &[f64]| from[chance.below(from.len() as u64) as usize];
        let exceed_ratio = pick(&[0.0, 0.125, 0.25, 0.5, 0.75]);
        let loss_ratio = pick(&[0.0, 0.005]);
        let trial_s = pick(&[1.0, 4.0]);
        let sum_s = trial_s * pick(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
        let target = Target { loss_ratio, exceed_ratio, trial_s, sum_s, width: 1 };
        let trials: Vec<Trial> = (0..pick(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0]) as u32)
            .map(|_| {
                let intended_s = pick(&[0.5, 1.0, 4.0, 8.0]);
                let effective_s = intended_s + pick(&[0.0, 0.5]);
                let loss_ratio = pick(&[LOSSES[0], LOSSES[0], LOSSES[0], LOSSES[1], LOSSES[2], LOSSES[3], LOSSES[4]]);
                Trial { rung: 0, intended_s, effective_s, loss_ratio }
            })
            .collect();
        let decided = match target.decides(&trials) {
            Decided::Lower => 'L',
            Decided::Upper => 'U',
            Decided::NotYet => 'N',
        };
        let loss = target.quantile_loss(&trials);
        let loss = LOSSES.iter().zip('0'..).find_map(|(one, digit)| (*one == loss).then_some(digit)).unwrap_or('x');
        assert_eq!([decided, loss], said, "{seed}: {target:?} {trials:?}");
    }
}

/// Seconds of a bisection by the book: trials of 60 s between the ends of the ladder until the width is met, 11 s of waiting after each (RFC 2544,
/// section 23).
fn by_the_book(device: &mut dyn Device) -> f64 {
    let (mut lower, mut upper, mut seconds) = (0.0, MOST, 71.0);
    if device.trial(MOST, 60.0) == 0.0 {
        return seconds;
    }
    while (upper - lower) / upper > 0.005 {
        let middle = f64::midpoint(lower, upper);
        if device.trial(middle, 60.0) > 0.0 {
            upper = middle
        } else {
            lower = middle
        }
        seconds += 71.0;
    }
    seconds
}

/// The median of several searches on devices of this kind: their seconds with early stop, and without, as a part of those by
/// the book; and of the capacity that was found.
fn medians(goals: &[&str], device: impl Fn(f64, u64) -> Jittery) -> [f64; 3] {
    let mut all = [Vec::new(), Vec::new(), Vec::new()];
    let mut chance = SplitMix64::new(3);
    for seed in 0..21 {
        let capacity = 150e3 + 1.05e6 * uniform(&mut chance);
        let device = || device(capacity, seed);
        let book_s = by_the_book(&mut device());
        let (whole_s, _, found) = searched(goals, &mut device(), false);
        let (early_s, ..) = searched(goals, &mut device(), true);
        let figures = [early_s / book_s, whole_s / book_s, found[0].lower.unwrap_or(0.0) / capacity];
        all.iter_mut().zip(figures).for_each(|(all, one)| all.push(one));
    }
    all.map(|mut all| {
        all.sort_by(f64::total_cmp);
        all[10]
    })
}

#[test]
fn a_search_takes_a_part_of_the_time_by_the_book() {
    let clean = |capacity, seed| Jittery::new(capacity, 0.0, None, seed);
    let jittery = |capacity, seed| Jittery::new(capacity, 0.05, None, seed);
    let stalling = |capacity, seed| Jittery::new(capacity, 0.05, Some((5, 20_000)), seed);
    for (name, medians, most) in [
        ("clean", medians(&["rfc2544"], clean), 0.12),
        ("jittery", medians(&["rfc2544"], jittery), 0.4),
        ("stalling", medians(&["rfc2544"], stalling), 0.65),
        ("clean, ndr and pdr", medians(&["ndr", "pdr"], clean), 0.055),
    ] {
        println!("{name}: {medians:.3?}");
        assert!(medians[0] <= most, "{name}: {medians:.3?}");
    }
    // The reference, MLRsearch 1.2.1, takes 37.5 s of 710.
    let [_, whole, found] = medians(&["ndr", "pdr"], clean);
    assert!((whole * 710.0 - 37.5).abs() < 1.0 && (found - 0.998).abs() < 0.005, "{whole} {found}");
}

#[test]
fn a_search_that_is_broken_off_says_no_more_than_it_knows() {
    let mut device = Hard { capacity: 0.4 * MOST, buffer: 0.0 };
    let mut search = Search::new(vec!["ndr".parse().unwrap()], LEAST, MOST).unwrap();
    assert!(search.found().iter().all(|found| (found.lower, found.upper) == (None, None)));
    while let Some(asked) = search.ask() {
        let [found] = &search.found()[..] else { panic!() };
        // Before the end nothing is called known, and nothing is known wrongly.
        assert!(!found.is_regular && !found.is_unlimited, "{found:?}");
        assert!(found.lower.is_none_or(|lower| lower <= device.capacity), "{found:?}");
        assert!(found.upper.is_none_or(|upper| upper > device.capacity), "{found:?}");
        let (intended_s, effective_s) = (asked.trial_s, asked.trial_s);
        let loss_ratio = device.trial(asked.load, asked.trial_s);
        search.heard(Trial { rung: asked.rung, intended_s, effective_s, loss_ratio });
    }
    assert!(search.found()[0].is_regular);
}
