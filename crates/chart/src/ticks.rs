//! Where an axis has its ticks: 1, 2 or 5 of a power of ten.

/// Ticks within a range, at multiples of the step.
pub(crate) fn linear(low: f64, high: f64, step: f64) -> Vec<f64> {
    let (first, last) = ((low / step - 1e-6).ceil(), (high / step + 1e-6).floor());
    let count = (last - first).clamp(0.0, 50.0) as usize;
    (0..=count).map(|at| (first + at as f64) * step).collect()
}

/// The step, 1, 2 or 5 times a power of ten, at which a span has at most this many parts.
pub(crate) fn step(span: f64, parts: usize) -> f64 {
    let least = span / parts.max(1) as f64;
    let power = 10f64.powf(least.log10().floor());
    // A quotient of 2.0000000000000004 is 2.
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= least * (1.0 - 1e-9));
    factor.unwrap_or(10.0) * power
}

/// Ticks between two powers of ten (their exponents), at decades or parts of them: values, not exponents.
pub(crate) fn log(low: f64, high: f64, about: usize) -> Vec<f64> {
    let within = |exponent: f64| exponent >= low - 1e-9 && exponent <= high + 1e-9;
    let about = about.max(2);
    let decades = (high.floor() - low.ceil()).max(0.0) as usize;
    let factors: &[f64] = match about / (decades + 1) {
        0..3 => &[1.0],
        _ => &[1.0, 2.0, 5.0],
    };
    let every = (decades + 1).div_ceil(about) as i32;
    let exponents = (low.floor() as i32..=high.ceil() as i32).filter(|exponent| exponent.rem_euclid(every) == 0);
    exponents
        .flat_map(|exponent| factors.iter().map(move |factor| (exponent, factor)))
        .filter(|(exponent, factor)| within(f64::from(*exponent) + factor.log10()))
        // Parsed: 10^-3 as a product is 0.0010000000000000002.
        .filter_map(|(exponent, factor)| format!("{factor}e{exponent}").parse().ok())
        .collect()
}

/// Percentiles: the half, and every nine up to this many.
pub(crate) fn percentiles(nines: f64) -> Vec<f64> {
    let nines = (1..=nines.clamp(0.0, 15.0) as usize).filter_map(|count| match count {
        1 => Some(90.0),
        // Parsed, for a sum of parts is not the number that is written.
        _ => format!("99.{}", "9".repeat(count - 2)).parse().ok(),
    });
    [0.0, 50.0].into_iter().chain(nines).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round() {
        let linear = |low: f64, high: f64, about| linear(low, high, step(high - low, about));
        assert_eq!(linear(0.0, 1000.0, 5), [0.0, 200.0, 400.0, 600.0, 800.0, 1000.0]);
        assert_eq!(linear(-1.0, 1.0, 4), [-1.0, -0.5, 0.0, 0.5, 1.0]);
        assert_eq!(linear(0.13, 0.57, 5), [0.2, 0.30000000000000004, 0.4, 0.5]);
        assert_eq!(log(0.0, 3.0, 6), [1.0, 10.0, 100.0, 1000.0]);
        assert_eq!(log(-3.0, -2.0, 6), [0.001, 0.002, 0.005, 0.01]);
        assert_eq!(log(-9.0, 9.0, 5), [1e-8, 1e-4, 1.0, 1e4, 1e8]);
        assert_eq!(percentiles(4.0), [0.0, 50.0, 90.0, 99.0, 99.9, 99.99][..6]);
    }
}
