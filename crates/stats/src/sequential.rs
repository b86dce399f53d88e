//! The median of repeats that go on until its interval is narrow enough, honest under looking after each repeat.
//! Knows numbers only; when to stop is the caller's business.

use crate::median_interval_of;

/// What all looks together may miss the median by.
const ALPHA: f64 = 0.05;

/// For each number of repeats, which of the sorted values bound the median.
///
/// Who looks at an ordinary 95 % interval after each repeat, and stops when he likes what he sees, misses the truth far
/// more often than in 5 of 100 cases (P. Armitage, C. K. McPherson and B. C. Rowe, "Repeated significance tests on
/// accumulating data", Journal of the Royal Statistical Society A 132, 1969). Here all looks share the 5 %:
///
/// - Each interval lies between two order statistics. It misses the median when too few, or too many, of the values so
///   far lie below: a count that grows by a fair coin, whatever the distribution is. So nothing is asked of the noise
///   but that repeats are alike and independent; ties make an interval surer, never less sure.
/// - How much of the 5 % may be spent by the n-th of at most N repeats is the function of K. K. G. Lan and D. L. DeMets,
///   "Discrete sequential boundaries for clinical trials", Biometrika 70 (1983), that spends like Pocock:
///   0.05 ln(1 + (e − 1) n / N).
/// - The chance to miss for the first time at a look is computed exactly, over all paths of the coin that no earlier
///   look excluded; each look takes the narrowest interval that keeps within what may be spent by then. Those are
///   repeated confidence intervals (C. Jennison and B. W. Turnbull, "Interim analyses: the repeated confidence interval
///   approach", Journal of the Royal Statistical Society B 51, 1989): whichever look ends it, at least 95 of 100
///   campaigns have the median inside.
#[derive(Clone, Debug)]
pub struct Sequential {
    /// By the number of repeats, from 0: the interval's ends are the value of this rank from below, and from above; 0
    /// where no interval may be told yet.
    ranks: Vec<u32>,
}

/// With fewer repeats at most than this, no interval of 95 % is possible: 2 / 2⁶ is the first below 5 %.
pub const LEAST_MAX: u32 = 6;
/// More repeats than anybody waits for; the table grows with their square.
pub const MOST_MAX: u32 = 10_000;

impl Sequential {
    /// For at most `max` repeats.
    pub fn new(max: u32) -> Sequential {
        let max = max.clamp(1, MOST_MAX) as usize;
        let mut ranks = vec![0];
        // Chance of each count of values below the median, on paths that no look has excluded.
        let mut chance = vec![1.0];
        let mut spent = 0.0;
        for n in 1..=max {
            chance.push(0.0);
            for count in (1..=n).rev() {
                chance[count] = (chance[count] + chance[count - 1]) / 2.0;
            }
            chance[0] /= 2.0;
            let may_spend = ALPHA * (1.0 + (std::f64::consts::E - 1.0) * n as f64 / max as f64).ln();
            let mut rank = 0;
            // Both ends at a time: the coin is fair.
            while 2 * rank < n && spent + chance[rank] + chance[n - rank] <= may_spend {
                spent += chance[rank] + chance[n - rank];
                (chance[rank], chance[n - rank]) = (0.0, 0.0);
                rank += 1;
            }
            ranks.push(rank as u32);
        }
        Sequential { ranks }
    }

    /// The interval after these repeats; absent while there are too few, or where there are more than was said.
    pub fn interval(&self, values: &[f64]) -> Option<(f64, f64)> {
        let rank = *self.ranks.get(values.len())? as usize;
        median_interval_of(values, rank)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::median;
    use crate::noise::Noise;

    #[test]
    fn ranks_as_scipy_has_them() {
        let reference: Value = serde_json::from_str(include_str!("../tests/data/sequential.json")).unwrap();
        let cases = reference["ranks"].as_object().unwrap();
        assert!(cases.len() >= 4);
        for (max, ranks) in cases {
            let want: Vec<u32> = ranks.as_array().unwrap().iter().map(|rank| rank.as_u64().unwrap() as u32).collect();
            assert_eq!(Sequential::new(max.parse().unwrap()).ranks, want, "at most {max}");
        }
    }

    #[test]
    fn an_interval_lies_between_two_values() {
        let rule = Sequential::new(30);
        let values = |n: usize| (0..n).map(|at| f64::from(at as u32 * 7 % 30)).collect::<Vec<_>>();
        assert_eq!(rule.interval(&values(6)), None);
        let (low, high) = rule.interval(&values(30)).unwrap();
        assert_eq!(low + high, 29.0, "as far from either end");
        assert!(low > 5.0, "{low}");
        assert_eq!(rule.interval(&values(31)), None);
        assert_eq!(Sequential::new(5).interval(&values(5)), None);
        assert_eq!(Sequential::new(LEAST_MAX).interval(&values(6)), Some((0.0, 28.0)));
    }

    type Draw = fn(&mut Noise) -> f64;

    /// Repeats until both ends of the interval are within this part of the median, as `--precision` does; whether the
    /// truth was inside when that ended, and after how many repeats.
    fn campaign(
        chance: &mut Noise,
        draw: Draw,
        truth: f64,
        part: f64,
        max: usize,
        rule: &impl Fn(&[f64]) -> Option<(f64, f64)>,
    ) -> (bool, usize) {
        let mut values = Vec::new();
        loop {
            values.push(draw(chance));
            let (Some(interval), Some(middle)) = (rule(&values), median(&values)) else { continue };
            let (low, high) = interval;
            let narrow = (high - middle).max(middle - low) <= part * middle.abs();
            if narrow || values.len() == max {
                return ((low..=high).contains(&truth), values.len());
            }
        }
    }

    const SKEWED: Draw = |chance| 100.0 * (1.0 + 0.02 * chance.skewed());
    const BIMODAL: Draw = |chance| 100.0 * (1.0 + 0.01 * chance.bimodal());
    const NORMAL: Draw = |chance| 100.0 * (1.0 + 0.01 * chance.normal());
    /// A cable that now and then loses a train of segments.
    const SPIKED: Draw = |chance| if chance.uniform() < 0.1 { 60.0 } else { 100.0 * (1.0 + 0.005 * chance.normal()) };

    /// The median of a distribution, from a million draws.
    fn truth(draw: Draw) -> f64 {
        let mut chance = Noise::new(99);
        median(&(0..1_000_000).map(|_| draw(&mut chance)).collect::<Vec<_>>()).unwrap()
    }

    const CAMPAIGNS: usize = 2000;

    #[test]
    fn the_truth_is_inside_however_often_one_looks() {
        let kinds: [(&str, Draw); 4] =
            [("skewed", SKEWED), ("bimodal", BIMODAL), ("normal", NORMAL), ("spiked", SPIKED)];
        for (name, draw) in kinds {
            let truth = truth(draw);
            for (part, max) in [(0.01, 30), (0.01, 100), (0.005, 100), (0.03, 30)] {
                let seed = 6000 + max as u64;
                let mut chance = Noise::new(seed);
                let rule = Sequential::new(max as u32);
                let (mut missed, mut repeats) = (0, 0);
                for _ in 0..CAMPAIGNS {
                    let (inside, n) = campaign(&mut chance, draw, truth, part, max, &|values| rule.interval(values));
                    missed += usize::from(!inside);
                    repeats += n;
                }
                let mean = repeats as f64 / CAMPAIGNS as f64;
                println!(
                    "{name}, ±{part}, at most {max}, seed {seed}: {missed} of {CAMPAIGNS} missed, {mean:.1} repeats"
                );
                assert!(missed * 20 <= CAMPAIGNS, "{name}, ±{part}, at most {max}, seed {seed}: {missed}");
            }
        }
    }

    /// What the rule is for: the interval of a fixed number of repeats, looked at after each of them.
    #[test]
    fn looking_at_an_ordinary_interval_misses_too_often() {
        let fixed: Vec<Sequential> = (0..=100).map(alone).collect();
        let (seed, truth) = (6100, truth(SKEWED));
        let mut chance = Noise::new(seed);
        let ordinary = |values: &[f64]| fixed[values.len()].interval(values);
        let campaigns = (0..CAMPAIGNS).map(|_| campaign(&mut chance, SKEWED, truth, 0.005, 100, &ordinary));
        let missed = campaigns.filter(|(inside, _)| !inside).count();
        println!("ordinary intervals, skewed, ±0.005, at most 100, seed {seed}: {missed} of {CAMPAIGNS} missed");
        assert!(missed * 100 > 7 * CAMPAIGNS, "seed {seed}: only {missed}");
    }

    /// One look only, after `n` repeats.
    fn alone(n: usize) -> Sequential {
        let mut ranks = vec![0; n + 1];
        let (mut below, mut ways) = (0.0, 0.5_f64.powi(n as i32));
        while 2.0 * (below + ways) <= ALPHA {
            below += ways;
            ways *= (n as f64 - f64::from(ranks[n])) / (f64::from(ranks[n]) + 1.0);
            ranks[n] += 1;
        }
        Sequential { ranks }
    }
}
