//! Statistics of repeated measurements: tests that assume no normal noise, intervals, and how many repeats it takes.
//! Knows no records and no metrics; numbers come in, numbers go out, and a seed is an argument.

#![forbid(unsafe_code)]

pub mod change;
pub mod cost;
mod null;
#[cfg(test)]
mod reference;
mod select;
pub mod sequential;
pub mod shift;
pub mod trend;

/// Noise for tests and example records.
#[cfg(any(test, feature = "sample"))]
pub mod noise;

use statrs::distribution::{ContinuousCDF, Normal};

/// The chance of a false alarm at which tests are made, over everything that one command judges. What is promised is
/// 5 %: the rest is for what no test reckons with, such as the choice between pairs and independent samples.
pub const ALPHA: f64 = 0.04;
/// What of the 5 % that an interval may miss lies beyond each of its ends.
pub(crate) const TAIL: f64 = 0.025;
/// The chance with which a difference that is there should be found: what "could have shown" and "needs" mean.
pub const POWER: f64 = 0.8;

/// The middle value; of an even number, the mean of the two in the middle.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

/// The value of this rank from below and the one from above, ranks from 1; `None` for rank 0.
fn median_interval_of(values: &[f64], rank: usize) -> Option<(f64, f64)> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    (rank > 0).then(|| Some((*sorted.get(rank - 1)?, *sorted.get(sorted.len().checked_sub(rank)?)?)))?
}

/// Holm's correction (S. Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of
/// Statistics 6, 1979): the p values as they count when all of these are judged at once. A finding is
/// what stays below the level; the chance of any false one among them is no more than the level, however they depend
/// on each other.
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&a, &b| p[a].total_cmp(&p[b]));
    let mut adjusted = vec![1.0; p.len()];
    let mut least: f64 = 0.0;
    for (rank, &at) in order.iter().enumerate() {
        least = least.max(((p.len() - rank) as f64 * p[at]).min(1.0));
        adjusted[at] = least;
    }
    adjusted
}

/// What a variance that was reckoned from so many degrees of freedom falls below, as a part of the true one, no more often than a normal
/// variable falls so many deviations below its mean (Wilson and Hilferty, The distribution of chi-square, 1931).
pub fn least_variance(freedom: usize, deviations: f64) -> f64 {
    let part = 2.0 / (9.0 * freedom.max(1) as f64);
    (1.0 - part - deviations * part.sqrt()).max(0.0).powi(3)
}

/// The probability that a standard normal variable is at most `z`.
pub(crate) fn normal_cdf(z: f64) -> f64 {
    Normal::standard().cdf(z)
}

/// What a standard normal variable exceeds with this probability.
pub(crate) fn normal_upper(probability: f64) -> f64 {
    -Normal::standard().inverse_cdf(probability.clamp(1e-300, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    #[test]
    fn correction_keeps_the_order_and_never_helps() {
        let adjusted = holm(&[0.01, 0.04, 0.03, 0.005]);
        let want = [0.03, 0.06, 0.06, 0.02];
        assert!(adjusted.iter().zip(want).all(|(a, w)| (a - w).abs() < 1e-12), "{adjusted:?}");
        assert_eq!(holm(&[0.5, 0.9]), [1.0, 1.0]);
        assert_eq!(holm(&[]), [0.0; 0]);
    }
}
