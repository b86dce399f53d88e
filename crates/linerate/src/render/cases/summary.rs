//! A Markdown summary for a merge request: the answer, then one table, in at most 60 lines; what is red stands first.

use linerate_machine::printable::in_line;

use super::{Case, Cases, Outcome};
use crate::render::markdown;
use crate::render::number::figure;

/// The most rows.
const ROWS: usize = 50;
/// The most characters of a name or a sentence in a row.
const LONGEST: usize = 200;

impl Cases {
    /// As Markdown for a merge request.
    pub(crate) fn summary(&self) -> String {
        let all = self.cases.len();
        let red = self.count(Outcome::Failed) + self.count(Outcome::Error);
        let skipped = self.count(Outcome::Skipped);
        let answer = match (red, skipped) {
            (0, 0) if all == 1 => "passed".to_owned(),
            (0, 0) => format!("all {all} cases passed"),
            (0, skipped) if skipped == all => "cannot tell".to_owned(),
            (0, skipped) => format!("nothing failed, {skipped} of {all} cases cannot be told"),
            (_, _) if all == 1 => "failed".to_owned(),
            (red, 0) => format!("{red} of {all} cases failed"),
            (red, skipped) => format!("{red} of {all} cases failed, {skipped} cannot be told"),
        };
        let mut text = format!("**{}: {answer}**\n\n", escaped(&self.title));
        let mut rows: Vec<&Case> = self.cases.iter().collect();
        rows.sort_by_key(|case| case.outcome);
        text += &markdown::line(["outcome", "case", "measured", "why"].into_iter().map(str::to_owned));
        text += "|---|---|---:|---|\n";
        for case in rows.iter().take(ROWS) {
            let outcome = case.outcome.name();
            let outcome = if case.outcome.is_red() { format!("**{outcome}**") } else { outcome.to_owned() };
            let measured = case.measurement.map(|one| escaped(&format!("{} {}", figure(one.value, 4), one.unit)));
            let cells = [outcome, escaped(&case.name), measured.unwrap_or_default(), escaped(&case.sentence)];
            text += &markdown::line(cells.into_iter());
        }
        let left_out = &rows[rows.len().min(ROWS)..];
        if !left_out.is_empty() {
            let count = |outcome| left_out.iter().filter(|case| case.outcome == outcome).count();
            let kinds = [Outcome::Failed, Outcome::Error, Outcome::Skipped, Outcome::Passed];
            let counts = kinds.into_iter().filter(|kind| count(*kind) > 0);
            let counts: Vec<String> = counts.map(|kind| format!("{} {}", count(kind), kind.name())).collect();
            text += &format!("\nLeft out: {} (the files of --junit and --tap have every case).\n", counts.join(", "));
        }
        text
    }
}

/// What Markdown and its hosts make nothing of: a mention would write to people, a reference would link and a bare address
/// invite. A blank of no width stands within each, as bots do it that quote strangers.
fn escaped(text: &str) -> String {
    let text = in_line(text, LONGEST);
    let mut pieces = vec![String::new()];
    let mut signs = text.chars().peekable();
    while let Some(c) = signs.next() {
        pieces.last_mut().expect("there is a first").push(c);
        let next = signs.peek().copied().unwrap_or(' ');
        let begins = match c {
            '@' | '#' | '!' => next.is_alphanumeric() || next == '_',
            ':' => next == '/',
            'w' | 'W' => next == '.',
            _ => false,
        };
        if begins {
            pieces.push(String::new());
        }
    }
    let pieces: Vec<String> = pieces.iter().map(|piece| markdown::escaped(piece)).collect();
    pieces.join("&#8203;")
}
