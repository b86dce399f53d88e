//! Answers of headings, tables and sentences, as a terminal and as Markdown show them; `html.rs` has a browser's form.
//! A terminal has a width: sentences are wrapped to it, and tables leave columns out.

use linerate_chart::Chart;
use linerate_machine::printable::printable;

use super::fitting::Columns;
use super::markdown::escaped;
use super::table_model::{Cell, Table, Trace};
use super::{sentence, wrapped};
use crate::output::is_ascii_only;

/// A piece of an answer.
pub(super) enum Piece {
    /// A part of a document.
    Section(String),
    /// What the next pieces are about.
    Heading(String),
    Table(Table),
    /// Sentences, one a line.
    Lines(Vec<String>),
    /// A picture, and its numbers.
    Chart(Box<Chart>),
    /// Text that is laid out already.
    Text(String),
    /// What not everybody wants to read, under a heading; where nothing can be folded it stands like all else.
    Folded(String, Vec<Piece>),
}

impl Piece {
    /// Sentences, where there are any.
    pub(super) fn lines(lines: Vec<String>) -> Option<Piece> {
        (!lines.is_empty()).then_some(Piece::Lines(lines))
    }

    /// This under a heading; nothing where it has nothing to say.
    pub(super) fn under(self, heading: &str) -> Vec<Piece> {
        let is_empty = match &self {
            Piece::Section(_) | Piece::Heading(_) | Piece::Chart(_) => false,
            Piece::Table(table) => table.rows.is_empty(),
            Piece::Lines(lines) => lines.is_empty(),
            Piece::Text(text) => text.is_empty(),
            Piece::Folded(_, pieces) => pieces.is_empty(),
        };
        if is_empty { Vec::new() } else { vec![Piece::Heading(heading.to_owned()), self] }
    }
}

/// The numbers of a chart, as a table like any other.
pub(super) fn chart_numbers(chart: &Chart) -> Table {
    let cell = |(cell, name): (&linerate_chart::Cell, &String)| match cell.value {
        Some(value) => {
            let records = cell.trace.split_whitespace().map(str::to_owned).collect();
            Cell::numbers(cell.text.clone()).traced(Trace { value, figure: name.clone(), records })
        }
        // Where nothing was measured among numbers.
        None if cell.text == "-" => Cell::numbers("-"),
        None => Cell::long(&cell.text),
    };
    let rows = chart.table.rows.iter().map(|row| row.iter().zip(&chart.table.head).map(cell).collect());
    Table::new(chart.table.head.iter().map(|name| super::sentence(name)), rows)
}

/// Every piece, and behind one that folds others, those.
pub(super) fn unfolded(pieces: &[Piece]) -> Vec<&Piece> {
    let mut all = Vec::new();
    for piece in pieces {
        all.push(piece);
        if let Piece::Folded(_, inner) = piece {
            all.extend(unfolded(inner));
        }
    }
    all
}

/// For a terminal of this width.
pub(super) fn text(pieces: &[Piece], width: Option<u16>) -> String {
    let mut columns = Columns::default();
    let mut text = drawn(pieces, width, is_ascii_only(), |table| table.text(width, &mut columns) + "\n");
    if let Some(names) = columns.left_out() {
        let said = format!("Left out at this width: {names} (COLUMNS=200 or --csv shows all).");
        text += &wrapped(&format!("{}\n", sentence(&said)), width);
    }
    text
}

/// The same with every column: a table that is too wide stands in parts, one below the other.
pub(super) fn whole_text(pieces: &[Piece], width: u16, is_ascii: bool) -> String {
    drawn(pieces, Some(width), is_ascii, |table| {
        let parts = table.parts(width.into());
        parts.iter().map(|part| part.whole_text(width.into()) + "\n").collect::<Vec<_>>().join("\n")
    })
}

fn drawn(pieces: &[Piece], width: Option<u16>, is_ascii: bool, mut table_text: impl FnMut(&Table) -> String) -> String {
    let mut text = String::new();
    let said = |line: &str| wrapped(&format!("{}\n", sentence(line)), width);
    for piece in unfolded(pieces) {
        match piece {
            Piece::Folded(title, _) => text += &format!("\n{}", said(title)),
            Piece::Chart(chart) => {
                let columns = width.map_or(100, usize::from);
                let drawn = linerate_chart::terminal::drawn(chart, columns, is_ascii);
                text += &format!("\n{}\n", printable(&drawn));
                if !chart.is_tree() {
                    text += &table_text(&chart_numbers(chart));
                }
            }
            Piece::Section(title) => {
                let title = said(title);
                let line = "=".repeat(title.lines().map(|line| line.chars().count()).max().unwrap_or(0));
                text += &format!("{}{title}{line}\n", if text.is_empty() { "" } else { "\n" });
            }
            Piece::Heading(heading) if text.is_empty() => text += &said(heading),
            Piece::Heading(heading) => text += &format!("\n{}", said(heading)),
            Piece::Lines(lines) => lines.iter().for_each(|line| text += &said(line)),
            Piece::Text(lines) => text += &wrapped(&format!("{}\n", printable(lines.trim_end())), width),
            Piece::Table(table) => text += &table_text(table),
        }
    }
    text
}

/// For a mailing list or an issue.
pub(super) fn markdown(pieces: &[Piece]) -> String {
    let mut text = String::new();
    for piece in unfolded(pieces) {
        if !text.is_empty() {
            text.push('\n');
        }
        match piece {
            Piece::Section(title) => text += &format!("## {}\n", escaped(title)),
            // Where Markdown is read, pictures within it are not drawn.
            Piece::Chart(chart) => {
                text += &format!("**{}**\n\n{}\n\n", escaped(&chart.title), escaped(&chart.sentence));
                if chart.is_tree() {
                    let tree = Chart { title: String::new(), sentence: String::new(), ..(**chart).clone() };
                    text += &fenced(&linerate_chart::terminal::drawn(&tree, 100, false));
                } else {
                    text += &chart_numbers(chart).markdown();
                }
            }
            Piece::Folded(title, _) => text += &format!("**{}**\n", escaped(title)),
            Piece::Heading(heading) => text += &format!("**{}**\n", escaped(heading)),
            Piece::Lines(lines) => lines.iter().for_each(|line| text += &format!("- {}\n", escaped(line))),
            Piece::Text(lines) => text += &fenced(lines),
            Piece::Table(table) => text += &table.markdown(),
        }
    }
    text
}

/// Text that is laid out already, in Markdown.
fn fenced(lines: &str) -> String {
    let lines = printable(lines.trim_end());
    // A fence is ended by one as long (CommonMark 0.31, 4.5).
    let mut fence = "```".to_owned();
    while lines.contains(&fence) {
        fence.push('`');
    }
    format!("{fence}text\n{lines}\n{fence}\n")
}
