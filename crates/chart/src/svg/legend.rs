//! The legend: every series by its name, with a piece of its mark; those of one name once.

use crate::chart::{Chart, Entry, Marks, Reference, Series, Weight};
use crate::number::place;
use crate::palette::INK;
use crate::text;

use super::marks::{path_of_symbols, stroke};
use super::page::{Anchor, EDGE, Page, Rect, SIZE, Stroke, WIDTH, width};
use super::plot::across;

const SAMPLE: f64 = 30.0;
const ROW: f64 = 18.0;

/// Draws a piece of a mark at a place.
type Sample<'a> = dyn Fn(&mut Page, f64, f64) + 'a;

/// Draws it from this height; where it ends.
pub(super) fn drawn(page: &mut Page, chart: &Chart, top: f64) -> f64 {
    let (mut x, mut y) = (EDGE, top);
    let mut entry = |page: &mut Page, name: &str, samples: &[&Sample<'_>]| {
        let before = samples.len() as f64 * (SAMPLE + 6.0);
        // A long name has a row for itself; what is longer the table has.
        let name = text::shortened(name, WIDTH - 2.0 * EDGE - before, width(SIZE));
        let wide = before + text::pixels(&name, SIZE) + 18.0;
        if x > EDGE && x + wide > WIDTH - EDGE {
            (x, y) = (EDGE, y + ROW);
        }
        for (at, sample) in samples.iter().enumerate() {
            sample(page, x + at as f64 * (SAMPLE + 6.0), y + ROW / 2.0);
        }
        page.text(x + before, y + ROW / 2.0 + 4.0, Anchor::Start, SIZE, &name);
        x += wide;
    };
    for Entry { series, each, name } in chart.legend().into_iter().filter(|entry| !entry.name.is_empty()) {
        let of = |series| move |page: &mut Page, x, y| sample(page, series, x, y);
        match each {
            Some(each) => entry(page, &name, &[&of(series), &of(each)]),
            None => entry(page, &name, &[&of(series)]),
        }
    }
    // A limit's name stands here, for at the limit it would stand on what is measured.
    for panel in &chart.panels {
        let limits = panel.references.iter().filter_map(|reference| match reference {
            Reference::Y(_, name) => Some(name),
            Reference::X(..) => None,
        });
        for (number, name) in limits.enumerate().filter(|(_, name)| !name.is_empty()) {
            entry(page, name, &[&|page, x, y| page.line((x, y), (x + SAMPLE, y), across(number))]);
        }
    }
    if (x, y) == (EDGE, top) { top } else { y + ROW + 4.0 }
}

fn sample(page: &mut Page, series: &Series, x: f64, y: f64) {
    let (left, right, middle) = (x, x + SAMPLE, x + SAMPLE / 2.0);
    let stroke = stroke(series);
    match series.marks {
        Marks::Bar(_) | Marks::Band(_) => {
            let at = Rect { x: left + 4.0, y: y - 6.0, width: SAMPLE - 8.0, height: 12.0 };
            if matches!(series.marks, Marks::Bar(_)) {
                let filling = page.filling(series.color);
                page.rect(at, &filling, Some(Stroke::new(stroke.color, 1.0)), "");
            } else {
                page.tint(&format!("M{} {}h{SAMPLE}v12h-{SAMPLE}z", place(left), place(y - 6.0)), stroke.color);
                page.line((left, y - 6.0), (right, y - 6.0), Stroke { width: 1.0, ..stroke });
                page.line((left, y + 6.0), (right, y + 6.0), Stroke { width: 1.0, ..stroke });
            }
        }
        Marks::Interval(_) => page.line((middle, y - 8.0), (middle, y + 8.0), Stroke { dashes: None, ..stroke }),
        Marks::Line(_) | Marks::Step(_) => page.line((left, y), (right, y), stroke),
        Marks::Ideal { .. } => page.line((left, y), (right, y), Stroke { color: INK, width: 1.25, ..stroke }),
        Marks::Points(_) | Marks::Flow(_) | Marks::Flame(_) => {}
    }
    // A line of a repeat has no symbols.
    let has_symbols = matches!(series.marks, Marks::Points(_) | Marks::Interval(_))
        || matches!(series.marks, Marks::Line(_)) && series.weight == Weight::Normal;
    if has_symbols {
        path_of_symbols(page, series, &[(middle, y)], "");
    }
}
