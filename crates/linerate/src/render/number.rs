//! Numbers as people read them: digits that mean something, thousands apart.
//! The unit stands in the heading, and says how many digits there are.

use linerate_machine::text::grouped;
use linerate_results::figure::Digits;

/// From here on a figure is no measurement's, and its digits would take the line's room.
const LONG: f64 = 1e15;

/// Below this nothing is left of it in nine digits behind the point.
const SHORT: f64 = 1e-9;

/// A count, with its thousands apart.
pub(super) fn count(value: u64) -> String {
    grouped(&value.to_string())
}

/// A number and a noun, in the plural where it needs to be: `1 trial`, `3 trials`, `2 changes of a setting`.
pub(crate) fn counted(number: usize, what: &str) -> String {
    match (number, what.split_once(' ')) {
        (1, _) => format!("1 {what}"),
        (_, Some((noun, rest))) => format!("{number} {noun}s {rest}"),
        (_, None) => format!("{number} {what}s"),
    }
}

/// A moment of a record, to the second.
pub(crate) fn second(moment: &str) -> String {
    moment.get(..19).unwrap_or(moment).replace('T', " ")
}

/// A count that may be below zero.
pub(super) fn signed(value: i64) -> String {
    grouped(&value.to_string())
}

/// Numbers in order; three or more that follow each other are a range, like `1-4`.
pub(super) fn ranges(numbers: &[usize]) -> Vec<String> {
    let of = |run: &[usize]| match run {
        [first, _, .., last] => vec![format!("{first}-{last}")],
        few => few.iter().map(usize::to_string).collect(),
    };
    numbers.chunk_by(|a, b| a + 1 == *b).flat_map(of).collect()
}

/// A figure with this many significant digits, at most nine of them behind the point.
pub(super) fn figure(value: f64, digits: i32) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    if !value.is_finite() {
        return if value > 0.0 { "unlimited" } else { "" }.to_owned();
    }
    if value.abs() >= LONG || value.abs() < SHORT {
        return format!("{value:.*e}", (digits - 1) as usize);
    }
    fixed(value, places(value, digits))
}

/// How many digits behind the point a figure has with this many significant ones.
pub(super) fn places(value: f64, digits: i32) -> usize {
    // Rounded first, for 999.96 is 1,000 and not 1,000.0.
    let rounded: f64 = format!("{value:.*e}", (digits - 1) as usize).parse().unwrap_or(value);
    if rounded == 0.0 || !rounded.is_finite() {
        return 0;
    }
    (digits - 1 - rounded.abs().log10().floor() as i32).clamp(0, 9) as usize
}

/// A figure with so many digits behind the point.
pub(super) fn fixed(value: f64, places: usize) -> String {
    let text = format!("{value:.places$}");
    match text.split_once('.') {
        None => grouped(&text),
        Some((whole, rest)) => format!("{}.{rest}", grouped(whole)),
    }
}

/// The most of several figures; of those that read the same in four digits, the first: what is no more is no better.
pub(super) fn first_of_most<T>(all: impl IntoIterator<Item = (T, f64)>) -> Option<(T, f64)> {
    let told = |value: f64| format!("{value:.3e}").parse().unwrap_or(value);
    all.into_iter().reduce(|most, one| if told(one.1) > told(most.1) { one } else { most })
}

/// A figure as its unit wants it.
pub(super) fn written(value: f64, digits: Digits) -> String {
    match digits {
        Digits::Whole if value.abs() < LONG => count(value.round() as u64),
        Digits::Percent => percent(value),
        Digits::Whole => figure(value, 1),
        Digits::Significant(digits) => figure(value, digits),
    }
}

/// A share of a whole in percent, to a tenth; what is not nothing never reads as nothing, nor all but all as all.
pub(super) fn percent(ratio: f64) -> String {
    let percent = ratio * 100.0;
    match percent {
        p if (p > 0.0 && p < 0.05) || p.abs() >= LONG || !p.is_finite() => figure(p, 1),
        p if (99.95..100.0).contains(&p) => "> 99.9".to_owned(),
        p => format!("{p:.1}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_the_digits_that_mean_something() {
        for (value, digits, text) in [
            (0.0, 4, "0"),
            (941.23, 4, "941.2"),
            (9412.3, 4, "9,412"),
            (1_234_567.8, 4, "1,234,568"),
            (8.5, 4, "8.500"),
            (999.96, 4, "1,000"),
            (99.9996, 4, "100.0"),
            (0.012_345, 3, "0.0123"),
            (-1234.5, 3, "-1,234"),
            (-1.06e-13, 3, "-1.06e-13"),
            (1e308, 4, "1.000e308"),
            (f64::INFINITY, 4, "unlimited"),
        ] {
            assert_eq!(figure(value, digits), text);
        }
        assert_eq!([0, 999, 1000, 127_551].map(count), ["0", "999", "1,000", "127,551"]);
        assert_eq!([-1000, 7].map(signed), ["-1,000", "7"]);
    }

    #[test]
    fn of_figures_that_read_the_same_the_first_is_the_most() {
        let check = |values: &[f64], want: Option<usize>| {
            let most = first_of_most(values.iter().copied().enumerate());
            assert_eq!(most.map(|(at, _)| at), want, "{values:?}");
        };
        check(&[], None);
        check(&[100.0, 470.02, 470.04, 469.96, 400.0], Some(1));
        check(&[470.02, 470.06], Some(1));
        check(&[-1.0, -1.0], Some(0));
    }

    #[test]
    fn a_little_is_not_nothing() {
        assert_eq!([0.0, 0.000_02, 0.323, 0.9999, 1.0].map(percent), ["0.0", "0.002", "32.3", "> 99.9", "100.0"]);
    }
}
