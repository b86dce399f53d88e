//! A flame graph in characters: a tree, callers before those whom they called, with the share of each.

use crate::flame::{Flame, Placed};
use crate::number::value;
use crate::text;

use super::Form;

/// Columns of a branching, and the most that branchings take of the names' room: half.
const STEP: usize = 2;
/// The least room for names.
const LEAST: usize = 16;

pub(super) fn drawn(flame: &Flame, form: Form) -> String {
    let placed = flame.placed();
    let counts = placed.iter().map(|placed| value(placed.frame.count)).chain([value(flame.whole)]);
    let wide = counts.map(|count| text::columns(&count)).max().unwrap_or(0);
    let line = |share: f64, count: f64, step: usize, words: &str| {
        let figures = format!("{:>5.1} %  {:>wide$}  ", share * 100.0, value(count));
        let indent = (step * STEP).min(form.width.saturating_sub(figures.len()) / 2);
        let margin = figures.len() + indent;
        // Where there is no room beside the figures, names go below them.
        if form.width < margin + LEAST {
            return format!("{}\n{}", figures.trim_end(), form.lines(words, STEP));
        }
        let words = form.lines(words, margin);
        match words.strip_prefix(&" ".repeat(margin)) {
            Some(words) => format!("{figures}{}{words}", " ".repeat(indent)),
            None => format!("{}\n", figures.trim_end()),
        }
    };
    let mut drawn = line(1.0, flame.whole, 0, &format!("all {}", flame.unit));
    // How many branchings are below each depth.
    let mut steps: Vec<usize> = Vec::new();
    let mut at = 0;
    while let Some(first) = placed.get(at) {
        let chain = chain(&placed[at..]);
        let below = first.depth.checked_sub(1).and_then(|caller| steps.get(caller)).copied();
        // What its caller called alone goes on below it, without a branching.
        let goes_on = below.filter(|_| is_only(&placed, at));
        let step = goes_on.unwrap_or_else(|| below.map_or(0, |below| below + 1));
        steps.truncate(first.depth);
        steps.resize(first.depth + chain, step);
        let names = &placed[at..at + chain];
        let next = names.iter().skip(1).map(|next| next.frame.kind).chain([None]);
        let names: Vec<String> = names.iter().zip(next).map(|(one, next)| described(flame, one, next)).collect();
        let sign = if goes_on.is_some() { "> " } else { "" };
        drawn += &line(first.share, first.frame.count, step, &format!("{sign}{}", names.join(" > ")));
        at += chain;
    }
    drawn
}

/// How many of the first frames called only the next, and did nothing beside: they are one line.
fn chain(placed: &[Placed<'_>]) -> usize {
    let goes_on =
        |pair: &&[Placed<'_>]| pair[1].depth == pair[0].depth + 1 && pair[1].frame.count == pair[0].frame.count;
    1 + placed.windows(2).take_while(goes_on).count()
}

/// Whether its caller called no other.
fn is_only(placed: &[Placed<'_>], at: usize) -> bool {
    let depth = placed[at].depth;
    let before = placed[..at].iter().rev().take_while(|other| other.depth >= depth);
    let behind = placed[at + 1..].iter().take_while(|other| other.depth >= depth);
    before.chain(behind).all(|other| other.depth != depth)
}

/// A function, and what it is for: of several of a kind in one line the last says it.
fn described(flame: &Flame, placed: &Placed<'_>, next: Option<usize>) -> String {
    let kind = placed.frame.kind.filter(|kind| next != Some(*kind));
    match kind.and_then(|kind| flame.kinds.get(kind)) {
        Some(kind) => format!("{} [{kind}]", placed.frame.name),
        None => placed.frame.name.clone(),
    }
}
