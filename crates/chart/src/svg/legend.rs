//! The legend: every series by its name, with a piece of its mark; those of one name once.

use crate::chart::{Chart, Marks, Series};
use crate::palette::INK;
use crate::scale;
use crate::text;

use super::marks::{path_of_symbols, stroke};
use super::page::{Anchor, EDGE, Page, Rect, SIZE, Stroke, WIDTH, width};

const SAMPLE: f64 = 30.0;
const ROW: f64 = 18.0;
/// A name is at most this wide; the table has all of it.
const NAME: f64 = 320.0;

/// Draws it from this height; where it ends.
pub(super) fn drawn(page: &mut Page, chart: &Chart, top: f64) -> f64 {
    let (mut x, mut y) = (EDGE, top);
    let entries = entries(chart);
    for (series, name) in &entries {
        let name = text::shortened(name, NAME, width(SIZE));
        let wide = SAMPLE + 6.0 + text::pixels(&name, SIZE) + 18.0;
        if x > EDGE && x + wide > WIDTH - EDGE {
            (x, y) = (EDGE, y + ROW);
        }
        sample(page, series, x, y + ROW / 2.0);
        page.text(x + SAMPLE + 6.0, y + ROW / 2.0 + 4.0, Anchor::Start, SIZE, &name);
        x += wide;
    }
    if entries.is_empty() { top } else { y + ROW + 4.0 }
}

/// Each name with the first series that has it, one that is not thin before thin ones.
fn entries(chart: &Chart) -> Vec<(&Series, String)> {
    let mut entries: Vec<(&Series, bool)> = Vec::new();
    let all = chart.panels.iter().flat_map(|panel| &panel.series);
    for series in all.filter(|series| !matches!(series.marks, Marks::Flow(_))) {
        let has_values = has_values(series);
        match entries.iter_mut().find(|(other, _)| other.name == series.name) {
            Some((first, with_values)) => {
                *with_values |= has_values;
                if first.weight > series.weight {
                    *first = series;
                }
            }
            None => entries.push((series, has_values)),
        }
    }
    let named = |(series, has_values): (&'_ Series, bool)| match has_values {
        true => series.name.clone(),
        false => format!("{} (no values)", series.name),
    };
    entries.into_iter().map(|entry| (entry.0, named(entry))).collect()
}

fn has_values(series: &Series) -> bool {
    let is_there = |value: Option<f64>| value.and_then(scale::finite).is_some();
    match &series.marks {
        Marks::Line(points) | Marks::Step(points) | Marks::Points(points) | Marks::Bar(points) => {
            points.iter().any(|point| is_there(point.y))
        }
        Marks::Band(spans) => spans.iter().any(|span| span.range.is_some()),
        Marks::Interval(estimates) => !estimates.is_empty(),
        Marks::Flow(_) | Marks::Ideal { .. } => true,
    }
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
                page.tint(&format!("M{left} {}h{SAMPLE}v12h-{SAMPLE}z", y - 6.0), stroke.color);
                page.line((left, y - 6.0), (right, y - 6.0), Stroke { width: 1.0, ..stroke });
                page.line((left, y + 6.0), (right, y + 6.0), Stroke { width: 1.0, ..stroke });
            }
        }
        Marks::Interval(_) => page.line((middle, y - 8.0), (middle, y + 8.0), Stroke { dashes: None, ..stroke }),
        Marks::Line(_) | Marks::Step(_) => page.line((left, y), (right, y), stroke),
        Marks::Ideal { .. } => page.line((left, y), (right, y), Stroke { color: INK, width: 1.25, ..stroke }),
        Marks::Points(_) | Marks::Flow(_) => {}
    }
    if matches!(series.marks, Marks::Line(_) | Marks::Points(_) | Marks::Interval(_)) {
        path_of_symbols(page, series, &[(middle, y)], "");
    }
}
