//! Panels with axes: frames, grids, ticks, references, and one x axis below them all.

use crate::chart::{Chart, Panel, Reference};
use crate::palette::{GRID, GROUND, INK, SOFT};
use crate::scale::{self, Places, Tick};
use crate::text;

use super::marks;
use super::page::{Anchor, EDGE, Page, Rect, SIZE, SMALL, Stroke, WIDTH, width};

/// Heights of a panel that stands alone, of one of several, and of a small one.
const ALONE: f64 = 280.0;
const TALL: f64 = 200.0;
const LOW: f64 = 100.0;
/// A line of text.
const LINE: f64 = 15.0;
/// A tick's label is at most this wide.
const LABEL: f64 = 140.0;
/// Rows of references' names above a panel.
const ROWS: usize = 4;

/// Draws the panels from this height; where they end.
pub(super) fn drawn(page: &mut Page, chart: &Chart, panels: &[&Panel], top: f64) -> f64 {
    let (x, bar) = scale::x(chart);
    let axes = panels.iter().map(|panel| {
        let (height, about) = (height(panels, panel), if panel.is_small { 3 } else { 5 });
        let places = scale::y(chart, panel, about);
        let ticks = places.ticks(if places.is_linear() { about } else { (height / 30.0) as usize });
        (places, apart(ticks, height, |_| SMALL + 3.0))
    });
    let axes: Vec<(Places, Vec<Tick>)> = axes.collect();
    let labels = axes.iter().flat_map(|(_, ticks)| ticks).map(|tick| text::pixels(&tick.label, SMALL));
    let left = EDGE + labels.fold(20.0, f64::max).min(LABEL) + 8.0;
    let across = (left, WIDTH - EDGE - 22.0);
    let ticks = x_ticks(&x, across.1 - across.0);
    let (mut y, mut notes) = (top, Vec::new());
    for (panel, (places, y_ticks)) in panels.iter().zip(&axes) {
        y = heading(page, panel, y);
        let height = height(panels, panel);
        let (below, unnamed) = names_above(page, panel, &x, across, y);
        let frame = Rect { x: left, y: below, width: across.1 - across.0, height };
        // Names need no lines up to them.
        let lines = if x.names().is_some() { &[] } else { ticks.as_slice() };
        grid(page, frame, lines, y_ticks);
        let mut said = marks::drawn(page, panel, &x, places, frame, bar);
        lines_across(page, panel, &x, places, frame);
        page.line((frame.x, frame.y), (frame.x, frame.bottom()), Stroke::new(SOFT, 1.0));
        let zero = frame.bottom() - places.zero() * frame.height;
        page.line((frame.x, zero), (frame.right(), zero), Stroke::new(SOFT, 1.0));
        if unnamed > 0 {
            said.push(format!("{unnamed} of the lines down have no room for their names"));
        }
        notes.extend(said.into_iter().map(|note| match panels.len() {
            1 => note,
            _ => format!("{}: {note}", panel.y.quantity),
        }));
        y = frame.bottom() + 10.0;
    }
    y = x_labels(page, &x, &ticks, across, y - 10.0);
    let label = text::shortened(&chart.x.label(), WIDTH - 2.0 * EDGE, width(SIZE));
    if !label.is_empty() {
        y += LINE;
        page.text((across.0 + across.1) / 2.0, y, Anchor::Middle, SIZE, &label);
        y += 4.0;
    }
    for note in notes {
        let most = WIDTH - 2.0 * EDGE;
        for line in text::wrapped(&format!("{note}."), most, width(SMALL)) {
            y += LINE;
            page.soft_text(EDGE, y, Anchor::Start, SMALL, &line);
        }
    }
    y
}

fn height(panels: &[&Panel], panel: &Panel) -> f64 {
    match (panel.is_small, panels.len()) {
        (true, _) => LOW,
        (false, 1) => ALONE,
        (false, 2 | 3) => TALL,
        (false, _) => TALL * 0.75,
    }
}

/// The y axis' label, above it: there it is read without turning the head.
fn heading(page: &mut Page, panel: &Panel, top: f64) -> f64 {
    let mut y = top;
    let most = WIDTH - 2.0 * EDGE;
    let label = panel.y.label();
    let lines = text::at_most(text::wrapped(&label, most, width(SIZE)), 2, most, width(SIZE));
    for line in lines.iter().filter(|line| !line.is_empty()) {
        y += LINE;
        page.text(EDGE, y, Anchor::Start, SIZE, line);
    }
    y + 9.0
}

/// The ticks whose labels keep a distance, `size` being how much room each takes along the axis.
fn apart(ticks: Vec<Tick>, length: f64, size: impl Fn(&Tick) -> f64) -> Vec<Tick> {
    let mut end = f64::NEG_INFINITY;
    let fits = |tick: &Tick| {
        let half = size(tick) / 2.0;
        let is_free = tick.at * length - half >= end;
        if is_free {
            end = tick.at * length + half;
        }
        is_free
    };
    ticks.into_iter().filter(fits).collect()
}

fn x_ticks(x: &Places, length: f64) -> Vec<Tick> {
    let size = |tick: &Tick| text::pixels(&tick.label, SMALL).min(LABEL) + 10.0;
    if x.names().is_some() {
        return x.ticks(0);
    }
    let all_fit = |about: usize| {
        let ticks = x.ticks(about);
        (apart(ticks.clone(), length, size).len() == ticks.len()).then_some(ticks)
    };
    (3..=11).rev().find_map(all_fit).unwrap_or_else(|| apart(x.ticks(3), length, size))
}

fn grid(page: &mut Page, frame: Rect, x: &[Tick], y: &[Tick]) {
    for tick in x {
        let at = frame.x + tick.at * frame.width;
        page.line((at, frame.y), (at, frame.bottom()), Stroke::new(GRID, 1.0));
    }
    for tick in y {
        let at = frame.bottom() - tick.at * frame.height;
        page.line((frame.x, at), (frame.right(), at), Stroke::new(GRID, 1.0));
        let label = text::shortened(&tick.label, LABEL, width(SMALL));
        page.text(frame.x - 6.0, at + 4.0, Anchor::End, SMALL, &label);
    }
}

/// The labels of the ticks below the panels; where they end.
fn x_labels(page: &mut Page, x: &Places, ticks: &[Tick], (left, right): (f64, f64), top: f64) -> f64 {
    let length = right - left;
    let Some(names) = x.names() else {
        for tick in ticks {
            let label = text::shortened(&tick.label, LABEL, width(SMALL));
            page.text(left + tick.at * length, top + LINE, Anchor::Middle, SMALL, &label);
        }
        return top + LINE + 2.0;
    };
    // Where names have less room than a word needs, every second, third, … of them stands there.
    let slot = length * (x.place(1.0).unwrap_or(1.0) - x.place(0.0).unwrap_or(0.0));
    let widest = names.iter().map(|name| text::pixels(name, SMALL)).fold(0.0, f64::max) + 6.0;
    let every = ((widest.min(56.0) / slot).ceil() as usize).max(1);
    let most = (slot * every as f64 - 6.0).max(20.0);
    let mut rows = 1;
    for tick in ticks.iter().step_by(every) {
        let lines = text::at_most(text::wrapped(&tick.label, most, width(SMALL)), 3, most, width(SMALL));
        rows = rows.max(lines.len());
        for (row, line) in lines.iter().enumerate() {
            page.text(left + tick.at * length, top + LINE + 13.0 * row as f64, Anchor::Middle, SMALL, line);
        }
    }
    top + LINE + 13.0 * (rows - 1) as f64 + 2.0
}

/// The names of the lines at an x, above the panel: where the panel begins, and how many names have no room.
fn names_above(page: &mut Page, panel: &Panel, x: &Places, (left, right): (f64, f64), top: f64) -> (f64, usize) {
    let lines = panel.references.iter().filter_map(|reference| match reference {
        Reference::X(value, name) => Some((left + x.place(*value)? * (right - left), name)),
        Reference::Y(..) => None,
    });
    let mut ends = [f64::NEG_INFINITY; ROWS];
    let (mut placed, mut unnamed) = (Vec::new(), 0);
    for (at, name) in lines.filter(|(_, name)| !name.is_empty()) {
        let name = text::shortened(name, (right - left) / 2.0, width(SMALL));
        let wide = text::pixels(&name, SMALL);
        let start = (at - wide / 2.0).clamp(left, right - wide);
        match ends.iter().position(|end| *end + 8.0 <= start) {
            Some(row) => {
                ends[row] = start + wide;
                placed.push((at, row, start, wide, name));
            }
            None => unnamed += 1,
        }
    }
    let rows = placed.iter().map(|(_, row, ..)| row + 1).max().unwrap_or(0);
    let below = top + rows as f64 * LINE;
    for (at, row, ..) in &placed {
        let row = below - (row + 1) as f64 * LINE + 4.0;
        page.line((*at, row), (*at, below), Stroke::new(SOFT, 1.0));
    }
    for (_, row, start, wide, name) in placed {
        // On its own ground, so that other names' lines pass behind it.
        let y = below - (row + 1) as f64 * LINE;
        page.rect(Rect { x: start - 2.0, y: y - 2.0, width: wide + 4.0, height: LINE - 1.0 }, GROUND, None, "");
        page.text(start, y + 9.0, Anchor::Start, SMALL, &name);
    }
    (below, unnamed)
}

/// How the `number`th line across a panel looks.
pub(super) fn across(number: usize) -> Stroke<'static> {
    const DASHES: [&str; 4] = ["5 3", "10 4", "1 3", "10 3 1 3"];
    Stroke { dashes: Some(DASHES[number % DASHES.len()]), ..Stroke::new(INK, 1.0) }
}

fn lines_across(page: &mut Page, panel: &Panel, x: &Places, y: &Places, frame: Rect) {
    let mut number = 0;
    for reference in &panel.references {
        match reference {
            Reference::X(value, _) => {
                if let Some(at) = x.place(*value).map(|at| frame.x + at * frame.width) {
                    page.line((at, frame.y), (at, frame.bottom()), across(0));
                }
            }
            Reference::Y(value, _) => {
                if let Some(at) = y.place(*value).map(|at| frame.bottom() - at * frame.height) {
                    page.line((frame.x, at), (frame.right(), at), across(number));
                }
                number += 1;
            }
        }
    }
}
