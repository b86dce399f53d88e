//! Whether values rise or fall in the order in which they came.
//! Knows their order alone: whatever is not steady may come back to where it was.

use crate::null::{EXACT, Null, doubled_ranks, nearly_normal};

/// Which way values went, and how likely chance goes as far either way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trend {
    /// Later ones are larger more often than smaller.
    pub rises: bool,
    /// Of Kendall's test, two-sided.
    pub p: f64,
}

/// Kendall's test of values against their order (H. B. Mann, "Nonparametric tests against trend", Econometrica 13, 1945): exact
/// where no two are equal and there are few, else nearly normal. `None` of fewer than two.
pub fn trend(values: &[f64]) -> Option<Trend> {
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
