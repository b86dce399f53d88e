//! A path with what leaves it: stages from left to right, as wide as what goes through them.
//!
//! ```text
//!     sender socket        MAC RX FIFO      receiver socket
//!                  qdisc           receiver stack
//!   ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━┓━━━━━━━━━━━━━━━━━━━ 949,000 arrived
//!                                  ┃
//!                                  51,000 lost: counter
//! ```

use crate::flow::{Branch, Flow};
use crate::number::finite;
use crate::number::{place, value};
use crate::palette::{GRID, GROUND, INK, color, dashes};
use crate::text;

use super::page::{Anchor, EDGE, Page, SIZE, SMALL, Stroke, WIDTH, width};

/// How high the path is where all goes through, and how little of it still shows.
const HIGH: f64 = 64.0;
const LEAST: f64 = 1.5;
/// What stays free at the right, for what arrived and for the names of the last branches.
const RIGHT: f64 = 150.0;
const LINE: f64 = 14.0;
/// The colours of the path and of its branches.
const PATH: usize = 0;
const BRANCH: usize = 1;

/// A branch with its place.
struct Leaving<'a> {
    stage: &'a str,
    branch: &'a Branch,
    x: f64,
    /// The path's lower edge before it, and how much of it goes.
    from: f64,
    wide: f64,
}

/// Draws the flow from this height; where it ends.
pub(super) fn drawn(page: &mut Page, name: &str, flow: &Flow, top: f64) -> f64 {
    let mut y = top;
    if !name.is_empty() {
        y += 15.0;
        let name = text::shortened(name, WIDTH - 2.0 * EDGE, width(SIZE));
        page.text(EDGE, y, Anchor::Start, SIZE, &name);
        y += 6.0;
    }
    let step = (WIDTH - EDGE - RIGHT - EDGE) / flow.stages.len().max(1) as f64;
    let counts = flow.stages.iter().flat_map(|stage| &stage.branches).filter_map(|branch| finite(branch.count));
    let entered = finite(flow.entered).unwrap_or(0.0).max(0.0);
    let all = counts.map(|count| count.max(0.0)).sum::<f64>().max(entered);
    let scale = if all > 0.0 { HIGH / all } else { 0.0 };
    y = names(page, flow, step, y);
    let upper = y + 4.0;
    // The path's lower edge, stage by stage, each branch turning down out of it.
    let mut lower = upper + (entered * scale).max(LEAST);
    let mut edge = vec![(EDGE, lower)];
    let mut leaving = Vec::new();
    for (at, stage) in flow.stages.iter().enumerate() {
        let gone =
            stage.branches.iter().filter_map(|branch| Some((branch, finite(branch.count).filter(|c| *c > 0.0)?)));
        let mut x = EDGE + (at as f64 + 0.5) * step;
        for (branch, count) in gone {
            let wide = (count * scale).max(LEAST);
            leaving.push(Leaving { stage: &stage.name, branch, x, from: lower, wide });
            edge.push((x, lower));
            lower = (lower - count * scale).max(upper + LEAST);
            edge.push((x, lower));
            x += (wide + 3.0).min(step / (stage.branches.len() + 1) as f64);
        }
    }
    let end = WIDTH - RIGHT - EDGE;
    edge.push((end, lower));
    let mut path = format!("M{} {}H{}V{}", place(EDGE), place(upper), place(end), place(lower));
    for (x, y) in edge.iter().rev() {
        path += &format!("L{} {}", place(*x), place(*y));
    }
    page.shape(&format!("{path}z"), color(PATH), None, &format!("{} {}", value(entered), flow.unit));
    for at in 0..flow.stages.len() {
        let x = EDGE + (at as f64 + 0.5) * step;
        let least = edge.iter().filter(|(at, _)| *at <= x).map(|(_, y)| *y).fold(upper + HIGH, f64::min);
        page.line((x, upper), (x, upper.max(least - 1.0)), Stroke::new(GROUND, 0.75));
    }
    ends(page, flow, (end, upper, lower));
    let bottom = (upper + HIGH).max(lower);
    branches(page, flow, &leaving, bottom)
}

/// The stages' names above the path, at two heights in turn; where the path begins.
fn names(page: &mut Page, flow: &Flow, step: f64, top: f64) -> f64 {
    let most = step * 2.0 - 6.0;
    let lines: Vec<Vec<String>> = flow
        .stages
        .iter()
        .map(|stage| text::at_most(text::wrapped(&stage.name, most, width(SMALL)), 3, most, width(SMALL)))
        .collect();
    let rows = |parity: usize| lines.iter().skip(parity).step_by(2).map(Vec::len).max().unwrap_or(0) as f64;
    let middle = top + rows(0) * LINE + 4.0;
    let bottom = middle + rows(1) * LINE + 4.0;
    for (at, lines) in lines.iter().enumerate() {
        let x = EDGE + (at as f64 + 0.5) * step;
        let base = if at % 2 == 0 { middle } else { bottom } - 4.0 - lines.len() as f64 * LINE;
        // The lines of the upper names go between the lower ones where there is room, and behind them where not.
        let from = if at % 2 == 0 { middle - 4.0 } else { bottom - 4.0 };
        page.line((x, from), (x, bottom + 4.0), Stroke::new(GRID, 1.0));
        for (row, line) in lines.iter().enumerate() {
            let y = base + (row + 1) as f64 * LINE - 3.0;
            // Names at the ends stay within the picture.
            let half = text::pixels(line, SMALL) / 2.0;
            page.text(x.max(EDGE + half), y, Anchor::Middle, SMALL, line);
        }
    }
    bottom
}

/// What went in and what came out, at the right end.
fn ends(page: &mut Page, flow: &Flow, (end, upper, lower): (f64, f64, f64)) {
    let x = end + 8.0;
    let mut words = Vec::new();
    match flow.arrived.and_then(finite) {
        Some(arrived) => words.push(format!("{} arrived", value(arrived))),
        None => words.push("arrived: not counted".to_owned()),
    }
    match finite(flow.entered) {
        Some(entered) => words.push(format!("of {} {}", value(entered), flow.unit)),
        None => words.push("entered: not counted".to_owned()),
    }
    let mut y = (upper + lower) / 2.0 + 4.0;
    if y < upper + 11.0 {
        y = upper + 11.0;
    }
    for words in &words {
        let words = text::shortened(words, RIGHT - 8.0, width(SMALL));
        page.text(x, y, Anchor::Start, SMALL, &words);
        y += LINE;
    }
}

/// The branches below the path and their names: those at the right above those at their left, so that no line crosses
/// a name. Where they end.
fn branches(page: &mut Page, flow: &Flow, leaving: &[Leaving<'_>], bottom: f64) -> f64 {
    let mut y = bottom + 16.0;
    for one in leaving.iter().rev() {
        let count = value(one.branch.count);
        let of_all = finite(flow.entered).filter(|all| *all > 0.0).map(|all| one.branch.count / all * 100.0);
        let share = of_all.map_or_else(String::new, |share| format!(" ({} %)", value(share)));
        let mut words = format!("{}: {count}{share} {}", one.stage, one.branch.name);
        if !one.branch.counter.is_empty() {
            words += &format!(", {}", one.branch.counter);
        }
        let x = one.x + one.wide.max(4.0) + 8.0;
        let most = WIDTH - EDGE - x;
        let lines = text::at_most(text::wrapped(&words, most, width(SMALL)), 4, most, width(SMALL));
        let tip = y + 6.0;
        let (left, right) = (place(one.x), place(one.x + one.wide));
        let arrow = format!(
            "M{left} {}H{right}V{}H{}L{} {}L{} {}H{left}z",
            place(one.from - one.wide),
            place(tip),
            place(one.x + one.wide + 3.0),
            place(one.x + one.wide / 2.0),
            place(tip + 6.0),
            place(one.x - 3.0),
            place(tip)
        );
        page.shape(&arrow, color(BRANCH), Some(Stroke::new(GROUND, 0.75)), &words);
        for (row, line) in lines.iter().enumerate() {
            page.text(x, y + 4.0 + row as f64 * LINE, Anchor::Start, SMALL, line);
        }
        y += (lines.len() as f64 * LINE).max(12.0) + 8.0;
    }
    if let Some(unaccounted) = flow.unaccounted.and_then(finite) {
        let stroke = Stroke { dashes: dashes(crate::chart::Dash::Dotted), ..Stroke::new(INK, 2.0) };
        page.line((EDGE, y), (EDGE + 24.0, y), stroke);
        page.text(EDGE + 32.0, y + 4.0, Anchor::Start, SMALL, &format!("unaccounted: {}", value(unaccounted)));
    } else {
        page.soft_text(EDGE, y + 4.0, Anchor::Start, SMALL, "unaccounted: cannot be told");
    }
    y + 8.0
}
