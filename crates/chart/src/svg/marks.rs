//! The marks of a panel within its frame: what the values look like.

use std::fmt::Write;

use crate::chart::{Estimate, Marks, Panel, Point, Series, Span, Symbol, Weight};
use crate::number::finite;
use crate::number::{place, value};
use crate::palette::{GROUND, INK, color, dashes};
use crate::scale::{self, Bar, Places};
use crate::text;
use crate::thin::{self, Position};

use super::page::{Anchor, Page, Rect, SMALL, Stroke};

/// Half of a symbol.
const RADIUS: f64 = 3.5;
/// Of more points than this, dots instead of symbols.
const MANY_POINTS: usize = 1000;
/// Of more bars than this in a series, one path instead of a shape with its value for each.
const MANY_BARS: usize = 200;

/// A frame with its axes.
struct Plot<'a> {
    x: &'a Places,
    y: &'a Places,
    frame: Rect,
}

impl Plot<'_> {
    fn x(&self, x: f64) -> Option<f64> {
        Some(self.frame.x + self.x.place(x)? * self.frame.width)
    }

    fn y(&self, y: f64) -> Option<f64> {
        Some(self.frame.bottom() - self.y.place(y)? * self.frame.height)
    }

    fn point(&self, point: &Point) -> Option<Position> {
        Some((self.x(point.x)?, self.y(point.y?)?))
    }
}

/// Draws a panel's marks. What must be said of them comes back as notes.
pub(super) fn drawn(page: &mut Page, panel: &Panel, x: &Places, y: &Places, frame: Rect, bar: f64) -> Vec<String> {
    let plot = Plot { x, y, frame };
    let mut notes = Vec::new();
    let bars = scale::stacks(panel);
    for (series, bars) in panel.series.iter().zip(&bars) {
        match &series.marks {
            Marks::Line(points) => {
                line(page, series, &runs(points.iter().map(|point| plot.point(point))), points.len());
            }
            Marks::Step(points) => {
                line(page, series, &steps(&plot, points), usize::MAX);
            }
            Marks::Points(points) => {
                let places: Vec<Position> = points.iter().filter_map(|point| plot.point(point)).collect();
                path_of_symbols(page, series, &places, &series.name);
            }
            Marks::Band(spans) => band(page, series, &plot, spans),
            Marks::Bar(_) => {
                let left_out = stack(page, series, &plot, bars.as_deref().unwrap_or_default(), bar * frame.width);
                if left_out > 0 {
                    notes.push(format!(
                        "{left_out} bars of {} have no room; of each column the largest is shown",
                        series.name
                    ));
                }
            }
            Marks::Interval(estimates) => intervals(page, series, &plot, estimates),
            Marks::Ideal { slope } => ideal(page, series, &plot, *slope),
            Marks::Flow(_) | Marks::Flame(_) => {}
        }
        notes.extend(scale::without_place(series, x, y));
    }
    notes
}

/// How the lines of a series look.
pub(super) fn stroke(series: &Series) -> Stroke<'static> {
    let width = if series.weight == Weight::Thin { 1.0 } else { 2.0 };
    Stroke { color: color(series.color), width, dashes: dashes(series.dash) }
}

/// Points that follow each other without a gap.
fn runs(places: impl Iterator<Item = Option<Position>>) -> Vec<Vec<Position>> {
    let mut runs = vec![Vec::new()];
    for place in places {
        match (place, runs.last_mut()) {
            (Some(place), Some(run)) => run.push(place),
            (None, Some(run)) if !run.is_empty() => runs.push(Vec::new()),
            _ => {}
        }
    }
    runs.retain(|run| !run.is_empty());
    runs
}

fn steps(plot: &Plot<'_>, points: &[Point]) -> Vec<Vec<Position>> {
    let mut corners: Vec<Option<Position>> = Vec::new();
    let mut holds: Option<f64> = None;
    for point in points {
        let Some(x) = plot.x(point.x) else { continue };
        corners.extend(holds.map(|y| Some((x, y))));
        holds = point.y.and_then(|y| plot.y(y));
        corners.push(holds.map(|y| (x, y)));
    }
    runs(corners.into_iter())
}

fn line(page: &mut Page, series: &Series, runs: &[Vec<Position>], points: usize) {
    let mut path = String::new();
    let mut marked: Vec<Position> = Vec::new();
    let mut alone: Vec<Position> = Vec::new();
    for run in runs {
        if let [place] = run[..] {
            alone.push(place);
        }
        path += &joined(&thin::line(run, 1.0));
        // Symbols so far apart that the line between them shows.
        for point in run {
            if marked.last().is_none_or(|last| (last.0 - point.0).abs() >= 16.0) {
                marked.push(*point);
            }
        }
    }
    page.path(&path, stroke(series), &series.name);
    if series.weight == Weight::Normal && points <= MANY_POINTS {
        alone.retain(|place| !marked.contains(place));
        marked.append(&mut alone);
        path_of_symbols(page, series, &marked, "");
    } else if !alone.is_empty() {
        // A line of one point has no length.
        dots(page, &alone, series, "");
    }
}

fn joined(points: &[Position]) -> String {
    let mut path = String::new();
    for (at, point) in points.iter().enumerate() {
        let _ = write!(path, "{}{} {}", if at == 0 { 'M' } else { 'L' }, short(point.0), short(point.1));
    }
    path
}

/// A tenth of a pixel is enough for lines.
fn short(value: f64) -> String {
    place((value * 10.0).round() / 10.0)
}

fn dots(page: &mut Page, places: &[Position], series: &Series, title: &str) {
    let path: String = places.iter().map(|at| format!("M{} {}h.01", short(at.0), short(at.1))).collect();
    page.round_dots(&path, color(series.color), title);
}

/// The symbols of a series at these places.
pub(super) fn path_of_symbols(page: &mut Page, series: &Series, places: &[Position], title: &str) {
    let places = thin::points(places, 1.0);
    if places.len() > MANY_POINTS {
        return dots(page, &thin::points(&places, 2.0), series, title);
    }
    // One of several repeats is not filled, as on a terminal.
    let is_thin = series.weight == Weight::Thin;
    let r = RADIUS;
    let one = |(x, y): &Position| match series.symbol {
        Symbol::Circle => format!("M{} {}a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0z", short(x - r), short(*y)),
        Symbol::Square => format!("M{} {}h6.4v6.4h-6.4z", short(x - 3.2), short(y - 3.2)),
        Symbol::Triangle => format!("M{} {}l4.2 7.6h-8.4z", short(*x), short(y - 4.8)),
        Symbol::Diamond => format!("M{} {}l4.4 4.4-4.4 4.4-4.4-4.4z", short(*x), short(y - 4.4)),
        Symbol::Cross => format!("M{} {}l6.4 6.4m0-6.4l-6.4 6.4", short(x - 3.2), short(y - 3.2)),
        Symbol::Plus => format!("M{} {}h8m-4-4v8", short(x - 4.0), short(*y)),
        Symbol::None => String::new(),
    };
    let path: String = places.iter().map(one).collect();
    match series.symbol {
        Symbol::None => {}
        Symbol::Cross | Symbol::Plus if is_thin => page.path(&path, Stroke::new(color(series.color), 1.0), title),
        Symbol::Cross | Symbol::Plus => page.path(&path, Stroke::new(color(series.color), 2.0), title),
        _ if is_thin => page.shape(&path, GROUND, Some(Stroke::new(color(series.color), 1.25)), title),
        _ => page.shape(&path, color(series.color), Some(Stroke::new(GROUND, 0.75)), title),
    }
}

fn band(page: &mut Page, series: &Series, plot: &Plot<'_>, spans: &[Span]) {
    let of = |span: &Span| {
        let (a, b) = span.range?;
        let (x, a, b) = (plot.x(span.x)?, plot.y(a)?, plot.y(b)?);
        Some((x, a.min(b), a.max(b)))
    };
    for run in spans.iter().map(of).collect::<Vec<_>>().split(Option::is_none) {
        let run: Vec<(f64, f64, f64)> = run.iter().copied().flatten().collect();
        let edge = |pick: fn(&(f64, f64, f64)) -> f64| {
            thin::line(&run.iter().map(|at| (at.0, pick(at))).collect::<Vec<_>>(), 1.0)
        };
        let (upper, mut lower) = (edge(|at| at.1), edge(|at| at.2));
        let (over, under) = (joined(&upper), joined(&lower));
        lower.reverse();
        if upper.len() > 1 {
            page.tint(&format!("{over}L{}z", &joined(&lower)[1..]), color(series.color));
        }
        let thin = Stroke { width: 1.0, ..stroke(series) };
        page.path(&format!("{over}{under}"), thin, &series.name);
        if let [(x, high, low)] = run[..] {
            page.line((x, high), (x, low), Stroke { width: 2.0, dashes: None, ..thin });
        }
    }
}

/// Draws the bars of a series; how many have no room.
fn stack(page: &mut Page, series: &Series, plot: &Plot<'_>, bars: &[Bar], width: f64) -> usize {
    let filling = page.filling(series.color);
    let edge = Stroke::new(color(series.color), 1.0);
    let zero = plot.frame.bottom() - plot.y.zero() * plot.frame.height;
    let placed = |bar: &Bar| {
        let (from, to) = (plot.y(bar.from).unwrap_or(zero), plot.y(bar.to).unwrap_or(zero));
        let at = Rect { x: plot.x(bar.x)? - width / 2.0, y: from.min(to), width, height: (from - to).abs() };
        Some((at, bar.to - bar.from))
    };
    let mut shapes: Vec<(Rect, f64)> = bars.iter().filter_map(placed).collect();
    shapes.sort_by(|a, b| a.0.x.total_cmp(&b.0.x));
    if shapes.len() <= MANY_BARS {
        for (at, height) in &shapes {
            page.rect(*at, &filling, Some(edge), &format!("{}: {}", series.name, value(*height)));
        }
        let mut named: Vec<(f64, f64)> = Vec::new();
        for (at, height) in &shapes {
            let words = value(*height);
            let wide = text::pixels(&words, SMALL);
            let (x, y) = (at.x + at.width / 2.0, at.y + at.height / 2.0 + 4.0);
            // Two bars in one place have one number.
            let is_free = named.iter().all(|other| (other.0 - x).abs() >= at.width || (other.1 - y).abs() >= 14.0);
            if at.height >= 16.0 && at.width >= wide + 6.0 && *height != 0.0 && is_free {
                named.push((x, y));
                page.rect(
                    Rect { x: x - wide / 2.0 - 2.0, y: y - 11.0, width: wide + 4.0, height: 14.0 },
                    GROUND,
                    None,
                    "",
                );
                page.text(x, y, Anchor::Middle, SMALL, &words);
            }
        }
        return 0;
    }
    let of_column = |group: &[(Rect, f64)]| {
        group.iter().copied().max_by(|a, b| a.0.height.total_cmp(&b.0.height)).map(|(at, _)| at)
    };
    let columns: Vec<Rect> = shapes.chunk_by(|a, b| a.0.x.floor() == b.0.x.floor()).filter_map(of_column).collect();
    let path: String = columns
        .iter()
        .map(|at| {
            let (x, y, wide) = (short(at.x), short(at.y), at.width.max(0.5));
            format!("M{x} {y}h{}v{}h-{0}z", short(wide), short(at.height))
        })
        .collect();
    page.shape(&path, &filling, (width >= 3.0).then_some(edge), &series.name);
    shapes.len() - columns.len()
}

fn intervals(page: &mut Page, series: &Series, plot: &Plot<'_>, estimates: &[Estimate]) {
    let mut path = String::new();
    let mut middles = Vec::new();
    for one in estimates {
        let Some(x) = plot.x(one.x) else { continue };
        if let (Some(low), Some(high)) = (plot.y(one.low), plot.y(one.high)) {
            let (left, low, high, x) = (short(x - 4.0), short(low), short(high), short(x));
            let _ = write!(path, "M{left} {low}h8M{x} {low}V{high}M{left} {high}h8");
        }
        middles.extend(one.middle.and_then(|middle| Some((x, plot.y(middle)?))));
    }
    page.path(&path, Stroke { dashes: None, ..stroke(series) }, &series.name);
    path_of_symbols(page, series, &middles, &series.name);
}

fn ideal(page: &mut Page, series: &Series, plot: &Plot<'_>, slope: f64) {
    let Some(slope) = finite(slope) else { return };
    let (mut low, mut high) = (plot.x.value(0.0), plot.x.value(1.0));
    // A straight line only where both axes are linear; it ends where the frame does.
    let parts = if plot.x.is_linear() && plot.y.is_linear() { 1 } else { 128 };
    if parts == 1 && slope != 0.0 {
        let (a, b) = (plot.y.value(0.0) / slope, plot.y.value(1.0) / slope);
        (low, high) = (low.max(a.min(b)), high.min(a.max(b)));
    }
    let ends = if low <= high { (plot.x.place(low), plot.x.place(high)) } else { (None, None) };
    let (Some(first), Some(last)) = ends else { return };
    let places = (0..=parts).map(|part| {
        let x = plot.x.value(first + (last - first) * f64::from(part) / f64::from(parts));
        let y = x * slope;
        (parts == 1 || plot.y.holds(y)).then(|| plot.point(&Point { x, y: Some(y) }))?
    });
    for run in runs(places) {
        page.path(&joined(&run), Stroke { color: INK, width: 1.25, ..stroke(series) }, &series.name);
    }
}
