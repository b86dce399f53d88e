//! How far one sample lies from another: Hodges and Lehmann's shift, its 95 % interval, and an exact test.
//! Knows no units and no direction of better.

use crate::null::{EXACT, Null, doubled_ranks, nearly_normal};
use crate::{POWER, TAIL, normal_cdf, normal_upper, select};

/// How far a candidate lies above a baseline.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shift {
    /// The median of all differences between a value of one side and one of the other (J. L. Hodges and E. L.
    /// Lehmann, "Estimates of location based on rank tests", Annals of Mathematical Statistics 34, 1963); of pairs,
    /// the median of the means of any two of the pairs' differences.
    pub estimate: f64,
    /// What the true shift lies between, in at least 95 of 100 cases; absent where no number of values this small
    /// can give it.
    pub interval: Option<(f64, f64)>,
    /// The standard error that belongs to the estimate; absent where one side has no two values.
    pub standard_error: Option<f64>,
    /// The chance of a difference at least as large where there is none.
    pub p: f64,
    /// Which test that is.
    pub method: Method,
    /// How many values stand on each side, the mean of both that counts: harmonic.
    pub each: f64,
    /// The smallest p that so many values can come to.
    pub least_p: f64,
}

/// Which test judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Wilcoxon, Mann and Whitney's: the two sides are independent.
    RankSum,
    /// Wilcoxon's signed ranks of the differences in pairs.
    SignedRank,
}

impl Method {
    /// The smallest p that so many values of the two sides can come to: that of one order of all, out of all orders.
    pub fn least_p(self, [n, m]: [usize; 2]) -> f64 {
        let (fewer, more) = (n.min(m), n.max(m) as f64);
        match self {
            Method::RankSum => (1..=fewer.min(500)).fold(2.0, |p: f64, k| p * k as f64 / (more + k as f64)),
            Method::SignedRank => (1.0 - fewer as f64).exp2(),
        }
    }

    /// The least number of values a side with which p can be `alpha`.
    pub fn least_repeats(self, alpha: f64) -> u32 {
        (1..500).find(|&each| self.least_p([each as usize; 2]) <= alpha).unwrap_or(500)
    }
}

/// The two sides as independent samples; `None` where one is empty. p is exact, ties and all, up to 60 values
/// together, else from the normal approximation with corrections for ties and continuity. The interval is that of
/// the order statistics of the differences (E. L. Lehmann, "Nonparametrics", 1975, section 2.3); with ties it is too
/// wide rather than too narrow.
pub fn between(baseline: &[f64], candidate: &[f64]) -> Option<Shift> {
    let (n, m) = (baseline.len(), candidate.len());
    if n == 0 || m == 0 {
        return None;
    }
    let (x, y) = (sorted(baseline), sorted(candidate));
    let pairs = (n * m) as u64;
    let kth = |k: u64| select::difference(&x, &y, k);
    let (nf, mf) = (n as f64, m as f64);
    let all: Vec<f64> = baseline.iter().chain(candidate).copied().collect();
    let (ranks, ties) = doubled_ranks(&all);
    let doubled_sum: usize = ranks[n..].iter().sum();
    let exact = n + m <= EXACT;
    let tie_free = exact.then(|| Null::rank_sum(n, m));
    let p = match &tie_free {
        _ if x[0] == y[m - 1] && y[0] == x[n - 1] => 1.0,
        Some(null) if ties == 0.0 => null.two_sided((doubled_sum - m * (m + 1)) / 2),
        Some(_) => Null::rank_sum_of(&ranks, m).two_sided(doubled_sum),
        None => {
            let total = nf + mf;
            let variance = nf * mf / 12.0 * ((total + 1.0) - ties / (total * (total - 1.0)));
            nearly_normal(doubled_sum as f64 / 2.0, mf * (total + 1.0) / 2.0, variance.sqrt(), 1.0)
        }
    };
    let deviation = (nf * mf * (nf + mf + 1.0) / 12.0).sqrt();
    let (k, tail) = quantile(tie_free.as_ref(), pairs, deviation);
    let interval = (k > 0).then(|| (kth(k), kth(pairs + 1 - k)));
    let fallback = (n > 1 && m > 1).then(|| {
        let pooled = (square_sum(baseline) + square_sum(candidate)) / (nf + mf - 2.0);
        (pooled * (1.0 / nf + 1.0 / mf)).sqrt()
    });
    Some(Shift {
        estimate: middle(pairs, kth),
        interval,
        standard_error: standard_error(interval, tail).or(fallback),
        p,
        method: Method::RankSum,
        least_p: Method::RankSum.least_p([n, m]),
        each: 2.0 * nf * mf / (nf + mf),
    })
}

/// The differences within pairs, candidate less baseline; `None` without any. Exact up to 60 pairs, else as
/// [`between`] has it. Pairs without a difference count for neither side in p (F. Wilcoxon, "Individual comparisons
/// by ranking methods", Biometrics Bulletin 1, 1945).
pub fn within_pairs(differences: &[f64]) -> Option<Shift> {
    if differences.is_empty() {
        return None;
    }
    let sorted = sorted(differences);
    let n = differences.len() as f64;
    let means = (differences.len() * (differences.len() + 1) / 2) as u64;
    let kth = |k: u64| select::mean_of_two(&sorted, k);
    let moved: Vec<f64> = differences.iter().copied().filter(|&d| d != 0.0).collect();
    let (ranks, ties) = doubled_ranks(&moved.iter().map(|d| d.abs()).collect::<Vec<_>>());
    let positive: usize = ranks.iter().zip(&moved).filter(|(_, d)| **d > 0.0).map(|(rank, _)| rank).sum();
    let p = if moved.len() <= EXACT {
        Null::signed_rank_of(&ranks).two_sided(positive)
    } else {
        let count = moved.len() as f64;
        let variance = count * (count + 1.0) * (2.0 * count + 1.0) / 24.0 - ties / 48.0;
        nearly_normal(positive as f64 / 2.0, count * (count + 1.0) / 4.0, variance.sqrt(), 1.0)
    };
    let tie_free =
        (differences.len() <= EXACT).then(|| Null::signed_rank_of(&(1..=differences.len()).collect::<Vec<_>>()));
    let deviation = (n * (n + 1.0) * (2.0 * n + 1.0) / 24.0).sqrt();
    let (k, tail) = quantile(tie_free.as_ref(), means, deviation);
    let interval = (k > 0).then(|| (kth(k), kth(means + 1 - k)));
    let fallback = (differences.len() > 1).then(|| (square_sum(differences) / (n - 1.0) / n).sqrt());
    Some(Shift {
        estimate: middle(means, kth),
        interval,
        standard_error: standard_error(interval, tail).or(fallback),
        p,
        method: Method::SignedRank,
        least_p: Method::SignedRank.least_p([differences.len(); 2]),
        each: n,
    })
}

impl Shift {
    /// The smallest true shift that this many values would show, as a finding at `alpha`, in 4 of 5 cases; absent
    /// where they could show none however large it is, or the noise is not known.
    pub fn detectable(&self, alpha: f64) -> Option<f64> {
        let could = self.least_p <= alpha;
        could
            .then(|| self.standard_error.map(|error| (normal_upper(alpha / 2.0) + normal_upper(1.0 - POWER)) * error))?
    }

    /// About how many values a side it takes to show a true shift of `size` at `alpha` in 4 of 5 cases. The
    /// standard error falls with the root of their number, which is all that is assumed.
    pub fn repeats_for(&self, size: f64, alpha: f64) -> Option<u32> {
        let error = self.standard_error?;
        let z = normal_upper(alpha / 2.0) + normal_upper(1.0 - POWER);
        let needed = (self.each * (z * error / size.abs()).powi(2)).ceil();
        needed.is_finite().then(|| (needed.min(1e9) as u32).max(self.method.least_repeats(alpha)))
    }
}

/// Which order statistic from either end bounds 95 %, and the probability beyond each bound.
fn quantile(exact: Option<&Null>, of: u64, deviation: f64) -> (u64, f64) {
    match exact {
        Some(null) => null.quantile(TAIL),
        None => {
            let k = (of as f64 / 2.0 - normal_upper(TAIL) * deviation).floor().max(0.0);
            (k as u64, normal_cdf((k - of as f64 / 2.0) / deviation))
        }
    }
}

/// Half the interval's width is as many standard errors as belong to the probability beyond its ends.
fn standard_error(interval: Option<(f64, f64)>, tail: f64) -> Option<f64> {
    let (low, high) = interval?;
    Some((high - low) / 2.0 / normal_upper(tail))
}

fn middle(of: u64, kth: impl Fn(u64) -> f64) -> f64 {
    if of % 2 == 1 { kth(of / 2 + 1) } else { (kth(of / 2) + kth(of / 2 + 1)) / 2.0 }
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

fn square_sum(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    values.iter().map(|value| (value - mean).powi(2)).sum()
}
