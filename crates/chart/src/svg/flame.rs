//! A flame graph: rows of frames, callers below those whom they called. Tints and the strips below names tell what for.

use crate::flame::{Flame, Placed};
use crate::number::value;
use crate::palette::{GROUND, SOFT, tint};
use crate::text;

use super::page::{Anchor, EDGE, Page, Rect, SIZE, SMALL, Stroke, WIDTH, width};

/// A row, and the strip at its lower edge.
const ROW: f64 = 18.0;
const STRIP: f64 = 4.0;
/// What is narrower is left to the table.
const NARROWEST: f64 = 0.5;
/// A name has this much room at its sides, and is left out where not even so much of it fits.
const MARGIN: f64 = 3.0;
const LETTERS: usize = 3;

/// Draws it from this height; where it ends.
pub(super) fn drawn(page: &mut Page, name: &str, flame: &Flame, top: f64) -> f64 {
    let mut y = top;
    if !name.is_empty() {
        y += 15.0;
        let name = text::shortened(name, WIDTH - 2.0 * EDGE, width(SIZE));
        page.text(EDGE, y, Anchor::Start, SIZE, &name);
        y += 6.0;
    }
    y = kinds(page, flame, y);
    let placed = flame.placed();
    let (drawn, narrow): (Vec<&Placed<'_>>, Vec<_>) =
        placed.iter().partition(|placed| placed.share * (WIDTH - 2.0 * EDGE) >= NARROWEST);
    let rows = drawn.iter().map(|placed| placed.depth + 1).max().unwrap_or(0);
    let bottom = y + (rows + 1) as f64 * ROW;
    let all = Rect { x: EDGE, y: bottom - ROW, width: WIDTH - 2.0 * EDGE, height: ROW };
    let words = format!("all: {} {}", value(flame.whole), flame.unit);
    page.rect(all, GROUND, Some(Stroke::new(SOFT, 0.75)), &words);
    label(page, all, &words);
    let mut strips: Vec<String> = vec![String::new(); flame.kinds.len()];
    for Placed { frame, depth, from, share } in &drawn {
        let at = Rect {
            x: EDGE + from * all.width,
            y: bottom - (depth + 2) as f64 * ROW,
            width: share * all.width,
            height: ROW,
        };
        let kind = frame.kind.filter(|kind| *kind < flame.kinds.len());
        let fill = kind.map_or_else(|| GROUND.to_owned(), tint);
        let what = kind.map_or_else(String::new, |kind| format!(", {}", flame.kinds[kind]));
        let words = format!("{}: {} {} ({} %){what}", frame.name, value(frame.count), flame.unit, value(share * 100.0));
        page.rect(at, &fill, Some(Stroke::new(SOFT, 0.75)), &words);
        if let Some(kind) = kind {
            strips[kind] += &Page::strip(Rect { y: at.bottom() - STRIP, height: STRIP, ..at });
        }
        label(page, at, &frame.name);
    }
    for (kind, strip) in strips.iter().enumerate() {
        let filling = if strip.is_empty() { String::new() } else { page.filling(kind) };
        page.shape(strip, &filling, None, "");
    }
    if narrow.is_empty() {
        return bottom + 4.0;
    }
    let words = match narrow.len() {
        1 => "1 function is too narrow to be drawn; the numbers have it.".to_owned(),
        many => format!("{many} functions are too narrow to be drawn; the numbers have them."),
    };
    page.soft_text(EDGE, bottom + 16.0, Anchor::Start, SMALL, &words);
    bottom + 22.0
}

/// As much of a name as has room in its frame.
fn label(page: &mut Page, at: Rect, name: &str) {
    let room = at.width - 2.0 * MARGIN;
    let shown = text::shortened(name, room, width(SMALL));
    let is_whole = shown == name;
    if text::pixels(&shown, SMALL) <= room && (is_whole || shown.chars().count() > LETTERS) {
        page.label(at.x + MARGIN, at.y + 11.0, SMALL, &shown);
    }
}

/// What the kinds look like.
fn kinds(page: &mut Page, flame: &Flame, top: f64) -> f64 {
    const SAMPLE: f64 = 24.0;
    let (mut x, mut y) = (EDGE, top + 4.0);
    for (kind, name) in flame.kinds.iter().enumerate() {
        let name = text::shortened(name, WIDTH / 3.0, width(SIZE));
        let wide = SAMPLE + 6.0 + text::pixels(&name, SIZE) + 14.0;
        if x > EDGE && x + wide > WIDTH - EDGE {
            (x, y) = (EDGE, y + ROW + 4.0);
        }
        let at = Rect { x, y, width: SAMPLE, height: ROW - 2.0 };
        page.rect(at, &tint(kind), Some(Stroke::new(SOFT, 0.75)), "");
        let filling = page.filling(kind);
        page.shape(&Page::strip(Rect { y: at.bottom() - STRIP, height: STRIP, ..at }), &filling, None, "");
        page.text(x + SAMPLE + 6.0, y + 12.0, Anchor::Start, SIZE, &name);
        x += wide;
    }
    if flame.kinds.is_empty() { top + 4.0 } else { y + ROW + 6.0 }
}
