//! A path with what leaves it, a line a stage.

use crate::flow::{Branch, Flow};
use crate::number::finite;
use crate::number::value;
use crate::text;

use super::Form;

/// Columns of the path itself, where all goes through: in a wide terminal, and in a narrow one.
const PATH: usize = 20;
const SHORT_PATH: usize = 10;

pub(super) fn drawn(flow: &Flow, form: Form) -> String {
    let entered = finite(flow.entered).unwrap_or(0.0).max(0.0);
    let names = flow
        .stages
        .iter()
        .map(|stage| text::columns(&stage.name))
        .max()
        .unwrap_or(0)
        .clamp(11, (form.width / 3).max(11));
    let long = if form.width < 50 { SHORT_PATH } else { PATH };
    let (full, gone) = (form.sign('█', '#'), form.sign('░', '-'));
    let mut drawn = line(form, (names, long), "entered", "", &format!("{} {}", value(entered), flow.unit));
    let mut left = entered;
    for stage in &flow.stages {
        let counts = stage.branches.iter().filter_map(|branch| finite(branch.count)).map(|count| count.max(0.0));
        let after = (left - counts.sum::<f64>()).max(0.0);
        let columns = |count: f64| if entered > 0.0 { (count / entered * long as f64).round() as usize } else { 0 };
        let (through, before) = (columns(after).min(long), columns(left).min(long));
        let mut path = full.to_string().repeat(through) + &gone.to_string().repeat(before.saturating_sub(through));
        // What is lost shows, however little it is of all.
        if after < left && before == through {
            path.pop();
            path.push(gone);
        }
        let words: Vec<String> = stage.branches.iter().map(described).collect();
        drawn += &line(form, (names, long), &stage.name, &path, &words.join("; "));
        left = after;
    }
    let arrived = flow.arrived.and_then(finite).map_or_else(|| "not counted".to_owned(), value);
    let unaccounted = flow.unaccounted.and_then(finite).map_or_else(|| "cannot be told".to_owned(), value);
    drawn += &line(form, (names, long), "arrived", "", &arrived);
    drawn + &line(form, (names, long), "unaccounted", "", &unaccounted)
}

fn described(branch: &Branch) -> String {
    let counter = if branch.counter.is_empty() { String::new() } else { format!(", {}", branch.counter) };
    format!("{} {}{counter}", value(branch.count), branch.name)
}

/// A stage: its name, its part of the path, and what is to be said.
fn line(form: Form, (names, long): (usize, usize), name: &str, path: &str, words: &str) -> String {
    let name = form.shortened(name, names);
    let blanks = |used: usize, of: usize| " ".repeat(of.saturating_sub(used));
    let start = format!("{name}{}  {path}{}", blanks(text::columns(&name), names), blanks(text::columns(path), long));
    let margin = names + 2 + long + 2;
    // Where there is no room beside the path, words go below it.
    if form.width < margin + 16 {
        return format!("{}\n{}", start.trim_end(), form.lines(words, 2));
    }
    let said = form.lines(words, margin);
    match said.strip_prefix(&" ".repeat(margin)) {
        Some(said) => format!("{start}  {said}"),
        None => format!("{}\n", start.trim_end()),
    }
}
