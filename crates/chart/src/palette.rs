//! Colours, dashes and hatchings that tell series apart: on a screen, in greyscale, and to every eye.

use crate::chart::Dash;

/// The ground of every picture.
pub(crate) const GROUND: &str = "#ffffff";
/// Text.
pub(crate) const INK: &str = "#1a1a1a";
/// Text and lines of less weight.
pub(crate) const SOFT: &str = "#555555";
/// Lines that only guide the eye.
pub(crate) const GRID: &str = "#dddddd";

/// Okabe and Ito, "Color Universal Design" (2008), in an order whose first ones differ most. Orange, sky blue and yellow are
/// darkened until they have 3:1 on the ground, which WCAG 2.2 (1.4.11) wants of marks.
pub(crate) const COLORS: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#b65f8f", "#b87a00", "#2b8fcb", "#000000", "#8f8400"];

/// The `number`th colour.
pub(crate) fn color(number: usize) -> &'static str {
    COLORS[number % COLORS.len()]
}

/// The `number`th colour so light that text can be read on it.
pub(crate) fn tint(number: usize) -> String {
    let color = color(number);
    let part = |at: usize| u16::from_str_radix(&color[at..at + 2], 16).expect("it is one of ours");
    let light = |part: u16| part + (255 - part) * 7 / 10;
    format!("#{:02x}{:02x}{:02x}", light(part(1)), light(part(3)), light(part(5)))
}

/// `stroke-dasharray`; none of a solid line.
pub(crate) fn dashes(dash: Dash) -> Option<&'static str> {
    match dash {
        Dash::Solid => None,
        Dash::Dashed => Some("7 4"),
        Dash::Dotted => Some("2 3"),
        Dash::DashDot => Some("8 3 2 3"),
    }
}

/// How a bar of the `number`th colour is hatched: a path over a tile of eight by eight; none of a full one.
pub(crate) fn hatching(number: usize) -> Option<&'static str> {
    match number % COLORS.len() {
        0 => None,
        1 => Some("M-2 2l4-4M0 8l8-8M6 10l4-4"),
        2 => Some("M2 2h.01M6 6h.01"),
        3 => Some("M0 2h8M0 6h8"),
        4 => Some("M-2 6l4 4M0 0l8 8M6-2l4 4"),
        5 => Some("M2 0v8M6 0v8"),
        6 => Some("M0 4h8M4 0v8"),
        _ => Some("M0 0l8 8M0 8l8-8"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative luminance, WCAG 2.2.
    fn luminance(color: &str) -> f64 {
        let part = |at: usize| {
            let share = f64::from(u8::from_str_radix(&color[at..at + 2], 16).unwrap()) / 255.0;
            if share <= 0.04045 { share / 12.92 } else { ((share + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5)
    }

    fn contrast(a: &str, b: &str) -> f64 {
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    #[test]
    fn text_and_marks_stand_out() {
        for ink in [INK, SOFT] {
            assert!(contrast(ink, GROUND) >= 4.5, "{ink}");
        }
        for (number, color) in COLORS.into_iter().enumerate() {
            assert!(contrast(INK, &tint(number)) >= 4.5, "{color} as {}", tint(number));
            assert!(contrast(color, GROUND) >= 3.0, "{color}: {:.2}", contrast(color, GROUND));
        }
    }

    #[test]
    fn every_colour_has_its_own_hatching() {
        let all: std::collections::BTreeSet<_> = (0..COLORS.len()).map(hatching).collect();
        assert_eq!(all.len(), COLORS.len());
        assert_eq!(color(8), color(0));
    }
}
