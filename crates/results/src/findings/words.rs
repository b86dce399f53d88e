//! Figures as sentences of findings have them.
//! Knows no record.

use linerate_machine::text::grouped;

/// A share of a whole in percent.
pub(super) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    // All but all is not all.
    let is_whole = percent == 0.0 || (10.0..99.0).contains(&percent) || percent >= 99.95;
    // Nor is nearly nothing nothing.
    match percent {
        _ if is_whole => format!("{percent:.0} %"),
        0.001..0.05 => format!("{percent:.3} %"),
        _ => format!("{percent:.1} %"),
    }
}

/// So many of a noun, and the verb of them: `1 segment was`, `2 segments were`.
pub(super) fn were(count: u64, noun: &str) -> String {
    if count == 1 { format!("1 {noun} was") } else { format!("{count} {noun}s were") }
}

/// A figure with three digits or so.
pub(super) fn tidy(value: f64) -> String {
    match value.abs() {
        // No measurement's: its digits would fill lines.
        absurd if absurd >= 1e15 => format!("{value:.2e}"),
        // As it is rounded: 99.97 is 100.
        large if large >= 99.95 => grouped(&format!("{value:.0}")),
        middle if middle >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_nearly_nothing_or_nearly_all_is_told_as_that() {
        let shares = [0.0, 1e-6, 17e-6, 4.4e-4, 6e-4, 0.012, 0.42, 0.994, 0.9997, 1.0];
        let told = ["0 %", "0.0 %", "0.002 %", "0.044 %", "0.1 %", "1.2 %", "42 %", "99.4 %", "100 %", "100 %"];
        assert_eq!(shares.map(percent), told);
    }
}
