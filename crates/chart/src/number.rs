//! Which numbers a chart has, and numbers as text: of places in a picture, at ticks, and beside marks.

/// What is larger is taken for no measurement, and what is smaller for zero: sums, spans and shares of what is left are
/// finite.
const LARGEST: f64 = 1e200;
const SMALLEST: f64 = 1e-200;

/// The value, if there is one.
pub(crate) fn finite(value: f64) -> Option<f64> {
    let is_there = value.is_finite() && value.abs() <= LARGEST;
    // Without a negative zero, for bars are found by their x.
    is_there.then_some(if value.abs() < SMALLEST { 0.0 } else { value })
}

/// A place in a picture: two digits behind the point at most.
pub(crate) fn place(value: f64) -> String {
    let mut text = format!("{value:.2}");
    while text.ends_with('0') {
        text.pop();
    }
    if text.ends_with('.') {
        text.pop();
    }
    if text == "-0" { "0".to_owned() } else { text }
}

/// A tick of an axis whose ticks are this far apart: as many digits as tell them apart.
pub(crate) fn tick(value: f64, step: f64) -> String {
    if value == 0.0 || value.abs() < step.abs() * 1e-6 {
        return "0".to_owned();
    }
    let digits = -step.abs().log10().floor().clamp(-300.0, 300.0);
    let largest = value.abs().log10();
    if largest >= 9.0 || digits > 5.0 {
        // As many digits of the mantissa as the step needs.
        let mantissa = (largest.floor() + digits).clamp(0.0, 12.0) as usize;
        return exponent(&format!("{value:.mantissa$e}"));
    }
    grouped(&format!("{value:.0$}", digits.max(0.0) as usize))
}

/// A value beside its mark: three significant digits at most, or all of a whole number.
pub(crate) fn value(value: f64) -> String {
    let size = value.abs();
    match size {
        0.0 => "0".to_owned(),
        1e12.. => exponent(&format!("{value:.2e}")),
        size if size < 1e-4 => exponent(&format!("{value:.2e}")),
        _ if value.fract() == 0.0 => grouped(&format!("{value:.0}")),
        _ => {
            let behind = (2 - size.log10().floor() as i32).clamp(0, 7) as usize;
            let text = format!("{value:.behind$}");
            grouped(if behind > 0 { text.trim_end_matches('0').trim_end_matches('.') } else { &text })
        }
    }
}

/// A mantissa without needless zeros.
fn exponent(text: &str) -> String {
    match text.split_once('e') {
        Some((mantissa, power)) if mantissa.contains('.') => {
            format!("{}e{power}", mantissa.trim_end_matches('0').trim_end_matches('.'))
        }
        _ => text.to_owned(),
    }
}

fn grouped(text: &str) -> String {
    let (sign, digits) = text.strip_prefix('-').map_or(("", text), |digits| ("-", digits));
    let (whole, rest) = digits.split_once('.').map_or((digits, ""), |(whole, _)| (whole, &digits[whole.len()..]));
    let mut grouped = sign.to_owned();
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_as_short_as_they_may_be() {
        for (number, text) in [(1.0, "1"), (-0.001, "0"), (2.5, "2.5"), (12.345, "12.35"), (100.0, "100")] {
            assert_eq!(place(number), text);
        }
        let ticks = [
            (0.0, 1.0, "0"),
            (1000.0, 200.0, "1,000"),
            (0.25, 0.05, "0.25"),
            (-1.5, 0.5, "-1.5"),
            (2e12, 1e12, "2e12"),
        ];
        for (number, step, text) in ticks {
            assert_eq!(tick(number, step), text);
        }
        assert_eq!(tick(1.25e10, 5e8), "1.25e10");
        assert_eq!(tick(1e-7, 1e-7), "1e-7");
        for (number, text) in [
            (51_023.0, "51,023"),
            (12.3456, "12.3"),
            (1234.56, "1,235"),
            (0.8, "0.8"),
            (99.96, "100"),
            (0.012_34, "0.0123"),
            (1.5e13, "1.5e13"),
        ] {
            assert_eq!(value(number), text);
        }
    }
}
