//! What several rounds say together: medians, and how far they can be trusted.
//! Knows no unit and no tool.

/// The middle one.
pub(crate) fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

/// The value below which this share of them lies, between two of them where it falls between two.
pub(crate) fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let place = share * last as f64;
    let (low, high) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    low + (high - low) * place.fract()
}

/// The smallest and the largest.
pub(crate) fn range(values: &[f64]) -> (f64, f64) {
    values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &value| (low.min(value), high.max(value)))
}

/// A median, and where it may as well have been.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Estimate {
    pub median: f64,
    pub low: f64,
    pub high: f64,
}

impl Estimate {
    /// `None` of no values.
    pub(crate) fn of(values: &[f64]) -> Option<Estimate> {
        let (low, high) = resampled(values)?;
        Some(Estimate { median: median(values), low, high })
    }
}

pub(crate) const RESAMPLES: usize = 4000;

/// Where 95 % of the medians lie of samples drawn from these with replacement: the percentile bootstrap (B. Efron,
/// "Bootstrap methods: another look at the jackknife", Annals of Statistics 7, 1979).
fn resampled(values: &[f64]) -> Option<(f64, f64)> {
    if values.is_empty() {
        return None;
    }
    let mut state: u64 = 1;
    let mut chance = |below: usize| {
        // Knuth's MMIX constants; the upper half is good enough to draw from a dozen.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let mut medians: Vec<f64> = (0..RESAMPLES)
        .map(|_| median(&(0..values.len()).map(|_| values[chance(values.len())]).collect::<Vec<_>>()))
        .collect();
    medians.sort_by(f64::total_cmp);
    Some((medians[RESAMPLES / 40], medians[RESAMPLES - RESAMPLES / 40 - 1]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_between_values() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(quantile(&[0.0, 10.0], 0.99), 9.9);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn the_range_lies_around_the_median() {
        let Estimate { median, low, high } = Estimate::of(&[0.9, 1.0, 1.1, 1.2, 1.3, 1.0, 1.1]).unwrap();
        assert!((0.9..=1.1).contains(&low) && (1.1..=1.3).contains(&high) && median == 1.1, "{low} {high}");
        assert_eq!(Estimate::of(&[]), None);
        assert_eq!(Estimate::of(&[2.0]), Some(Estimate { median: 2.0, low: 2.0, high: 2.0 }));
    }
}
