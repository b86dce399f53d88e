//! Figures as sentences of findings have them.
//! Knows no record.

use linerate_machine::text::grouped;

/// A share of a whole in percent.
pub(super) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    // All but all is not all.
    let is_whole = percent == 0.0 || (10.0..99.0).contains(&percent) || percent >= 99.95;
    if is_whole { format!("{percent:.0} %") } else { format!("{percent:.1} %") }
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
