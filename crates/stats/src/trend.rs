//! Whether values rise, fall or wander in the order in which they came.
//! Knows their order alone.

use statrs::distribution::{Beta, ContinuousCDF};

use crate::null::{EXACT, Null, doubled_ranks, nearly_normal};

/// How values are not steady.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsteady {
    /// Later ones are larger more often than smaller.
    Rises,
    /// Later ones are smaller more often than larger.
    Falls,
    /// Each is nearer to the one before than chance has it: they come back, but not at once.
    Wanders,
}

/// What these values do at this level; `None` where chance does as much. A trend is looked for first.
pub fn unsteady(values: &[f64], level: f64) -> Option<Unsteady> {
    match trend(values).filter(|trend| trend.p <= level) {
        Some(Trend { rises: true, .. }) => Some(Unsteady::Rises),
        Some(Trend { rises: false, .. }) => Some(Unsteady::Falls),
        None => wandering(values).filter(|p| *p <= level).map(|_| Unsteady::Wanders),
    }
}

/// Fewer values than this do not tell that they wander: the distribution below is not theirs.
const FEWEST: usize = 8;

/// How likely chance has neighbours as near to each other as these: von Neumann's ratio of ranks, one-sided, by the Beta distribution
/// that has its variance (R. Bartels, "The rank version of von Neumann's ratio test for randomness", JASA 77, 1982). `None` of fewer
/// than [`FEWEST`], or of values that are all equal.
fn wandering(values: &[f64]) -> Option<f64> {
    let n = values.len() as f64;
    let ranks: Vec<f64> = doubled_ranks(values).0.into_iter().map(|rank| rank as f64).collect();
    let mean = ranks.iter().sum::<f64>() / n;
    let spread: f64 = ranks.iter().map(|rank| (rank - mean).powi(2)).sum();
    let steps: f64 = ranks.windows(2).map(|two| (two[1] - two[0]).powi(2)).sum();
    if values.len() < FEWEST || spread == 0.0 {
        return None;
    }
    let shape = 5.0 * n * (n + 1.0) * (n - 1.0).powi(2) / (2.0 * (n - 2.0) * (5.0 * n * n - 2.0 * n - 9.0)) - 0.5;
    Some(Beta::new(shape, shape).ok()?.cdf((steps / spread / 4.0).min(1.0)))
}

/// Which way values went, and how likely chance goes as far either way.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Trend {
    /// Later ones are larger more often than smaller.
    rises: bool,
    /// Of Kendall's test, two-sided.
    p: f64,
}

/// Kendall's test of values against their order (H. B. Mann, "Nonparametric tests against trend", Econometrica 13, 1945): exact
/// where no two are equal and there are few, else nearly normal. `None` of fewer than two.
fn trend(values: &[f64]) -> Option<Trend> {
    let n = values.len();
    if n < 2 {
        return None;
    }
    let pairs = || (0..n).flat_map(|first| (first + 1..n).map(move |second| (values[first], values[second])));
    let rising = pairs().filter(|(first, second)| second > first).count();
    let falling = pairs().filter(|(first, second)| second < first).count();
    let p = match doubled_ranks(values).1 {
        0.0 if n <= EXACT => Null::inversions(n).two_sided(falling),
        _ => {
            let of = |count: f64| count * (count - 1.0) * (2.0 * count + 5.0);
            let mut sorted = values.to_vec();
            sorted.sort_by(f64::total_cmp);
            let tied: f64 = sorted.chunk_by(|a, b| a == b).map(|equal| of(equal.len() as f64)).sum();
            nearly_normal(rising as f64 - falling as f64, 0.0, ((of(n as f64) - tied) / 18.0).sqrt(), 2.0)
        }
    };
    Some(Trend { rises: rising > falling, p })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::Noise;

    #[test]
    fn what_rises_or_falls_all_the_way_is_one_order_of_all() {
        let p = |values: &[f64]| trend(values).map(|trend| (trend.rises, trend.p));
        assert_eq!(p(&[1.0]), None);
        assert_eq!(p(&[1.0, 2.0, 3.0]), Some((true, 1.0 / 3.0)));
        assert_eq!(p(&[4.0, 3.0, 2.0, 1.0]), Some((false, 2.0 / 24.0)));
        // Of 5! orders five have one pair at most that falls.
        assert_eq!(p(&[1.0, 2.0, 4.0, 3.0, 5.0]), Some((true, 2.0 * 5.0 / 120.0)));
        assert_eq!(p(&[2.0; 9]), Some((false, 1.0)));
        let steps: Vec<f64> = (0..12).map(|at| f64::from(at / 2)).collect();
        assert!(trend(&steps).is_some_and(|trend| trend.rises && trend.p < 1e-3));
    }

    /// Each value is so much of the one before.
    fn wanders(noise: &mut Noise, n: usize, keeps: f64) -> Vec<f64> {
        let mut at = noise.normal();
        let step = |_| {
            at = keeps * at + (1.0 - keeps * keeps).sqrt() * noise.normal();
            at
        };
        (0..n).map(step).collect()
    }

    #[test]
    fn what_wanders_is_told_from_noise() {
        let mut noise = Noise::new(11);
        for n in [8, 10, 15, 30, 60] {
            let mut found = |keeps: f64, ties: bool, level: f64| {
                let of = |_: &usize| {
                    let values = wanders(&mut noise, n, keeps);
                    let values: Vec<f64> = values.iter().map(|v| if ties { v.round() } else { *v }).collect();
                    wandering(&values).is_some_and(|p| p <= level)
                };
                (0..2000).filter(of).count()
            };
            for ties in [false, true] {
                assert!((15..=70).contains(&found(0.0, ties, 0.02)), "{n} values, ties: {ties}");
                assert!(found(0.0, ties, 0.0025) <= 14, "{n} values, ties: {ties}");
            }
            assert!(n < 15 || found(0.8, false, 0.02) > 1200, "{n} values");
        }
        assert_eq!((wandering(&[1.0; 9]), wandering(&[1.0, 2.0, 3.0])), (None, None));
        let back: Vec<f64> = (0..20).map(|at| f64::from((at - 10_i32).abs())).collect();
        let rising: Vec<f64> = (0..20).map(f64::from).collect();
        assert_eq!(unsteady(&back, 0.001), Some(Unsteady::Wanders));
        assert_eq!(unsteady(&rising, 0.001), Some(Unsteady::Rises));
        assert_eq!(unsteady(&rising.iter().map(|value| -value).collect::<Vec<_>>(), 0.001), Some(Unsteady::Falls));
    }

    #[test]
    fn noise_has_a_trend_as_seldom_as_p_says() {
        let mut noise = Noise::new(7);
        let mut found = 0;
        for _ in 0..2_000 {
            let values: Vec<f64> = (0..10).map(|_| noise.skewed()).collect();
            found += usize::from(trend(&values).is_some_and(|trend| trend.p <= 0.05));
        }
        assert!((40..=100).contains(&found), "{found}");
    }
}
