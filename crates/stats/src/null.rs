//! How rank statistics are spread when both sides are alike: exactly for small samples, else nearly normal.
//! Knows ranks and counts, not what was measured.

use crate::normal_cdf;

/// Samples of both sides together, or pairs, up to which the distribution is exact. Beyond, the normal
/// approximation's error at 5 % is in the third digit of p.
pub(super) const EXACT: usize = 60;

/// A distribution over 0, 1, 2 …: P(at most k), and P(at least k).
pub(super) struct Null {
    counts: Vec<f64>,
    total: f64,
}

impl Null {
    fn of(counts: Vec<f64>) -> Null {
        let total = counts.iter().sum();
        Null { counts, total }
    }

    /// The Mann-Whitney U of `n` against `m` values without ties. The number of ways to each U are the coefficients
    /// of the Gaussian binomial, the product of (1 - q^(m+i)) / (1 - q^i) for i from 1 to n.
    pub(super) fn rank_sum(n: usize, m: usize) -> Null {
        let mut ways = vec![0_i128; n * m + 1];
        ways[0] = 1;
        for i in 1..=n {
            for at in (m + i..ways.len()).rev() {
                ways[at] -= ways[at - m - i];
            }
            for at in i..ways.len() {
                ways[at] += ways[at - i];
            }
        }
        Null::of(ways.into_iter().map(|ways| ways as f64).collect())
    }

    /// The sum of the doubled ranks of `n` of these, when any `n` are as likely: the permutation distribution, ties
    /// and all (midranks are halves, so doubled ones are whole).
    pub(super) fn rank_sum_of(doubled: &[usize], n: usize) -> Null {
        let most: usize = doubled.iter().sum();
        let mut ways = vec![vec![0.0; most + 1]; n + 1];
        ways[0][0] = 1.0;
        for &rank in doubled {
            for taken in (1..=n).rev() {
                let (fewer, more) = ways.split_at_mut(taken);
                for (to, from) in more[0][rank..].iter_mut().zip(&fewer[taken - 1]) {
                    *to += from;
                }
            }
        }
        Null::of(ways.swap_remove(n))
    }

    /// The sum of those of these doubled ranks whose sign is positive, when either sign of each is as likely.
    pub(super) fn signed_rank_of(doubled: &[usize]) -> Null {
        let mut ways = vec![0.0; doubled.iter().sum::<usize>() + 1];
        ways[0] = 1.0;
        for &rank in doubled {
            for at in (rank..ways.len()).rev() {
                ways[at] += ways[at - rank];
            }
        }
        Null::of(ways)
    }

    /// How many pairs of `n` different values stand in falling order, when any order is as likely.
    pub(super) fn inversions(n: usize) -> Null {
        let mut ways = vec![1.0];
        for places in 1..=n {
            // The next value may fall behind none of those before it, one, and so on to all.
            let mut more = vec![0.0; ways.len() + places - 1];
            for (at, ways) in ways.iter().enumerate() {
                more[at..at + places].iter_mut().for_each(|to| *to += ways);
            }
            ways = more;
        }
        Null::of(ways)
    }

    pub(super) fn at_most(&self, k: usize) -> f64 {
        self.counts.iter().take(k + 1).sum::<f64>() / self.total
    }

    pub(super) fn at_least(&self, k: usize) -> f64 {
        self.counts.iter().skip(k).sum::<f64>() / self.total
    }

    /// Twice the smaller tail.
    pub(super) fn two_sided(&self, k: usize) -> f64 {
        (2.0 * self.at_most(k).min(self.at_least(k))).min(1.0)
    }

    /// The largest `k` with P(at most k - 1) ≤ `tail`, and that probability; `k` is 0 where there is none.
    pub(super) fn quantile(&self, tail: f64) -> (u64, f64) {
        let (mut k, mut below) = (0, 0.0);
        for count in &self.counts {
            let next = below + count / self.total;
            if next > tail {
                break;
            }
            (k, below) = (k + 1, next);
        }
        (k, below)
    }
}

/// Two-sided p of a statistic that is nearly normal with this mean and standard deviation; it moves in steps of
/// `step`, which is what the correction for continuity halves.
pub(super) fn nearly_normal(statistic: f64, mean: f64, deviation: f64, step: f64) -> f64 {
    if deviation <= 0.0 {
        return 1.0;
    }
    let distance = ((statistic - mean).abs() - step / 2.0).max(0.0);
    (2.0 * normal_cdf(-distance / deviation)).min(1.0)
}

/// Twice the rank of each value, in their order; equal values share the mean of their ranks. And the sum over
/// groups of equal values of t³ - t, by which ties narrow the distribution.
pub(super) fn doubled_ranks(values: &[f64]) -> (Vec<usize>, f64) {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut ranks = vec![0; values.len()];
    let (mut ties, mut first) = (0.0, 0);
    for group in order.chunk_by(|&a, &b| values[a] == values[b]) {
        for &at in group {
            // Ranks first + 1 to first + t: twice their mean is 2 first + t + 1.
            ranks[at] = 2 * first + group.len() + 1;
        }
        first += group.len();
        let t = group.len() as f64;
        ties += t * t * t - t;
    }
    (ranks, ties)
}
