//! Tables and sentences as a terminal and as Markdown show them; for what is no table of records.
//! Knows not what they say.

use comfy_table::{Cell, CellAlignment, ContentArrangement};

use super::markdown::{escaped, line};
use super::table::{plain, trimmed};
use super::{printable, wrapped};

/// A piece of an answer.
pub(super) enum Piece {
    /// What the next pieces are about.
    Heading(String),
    /// A table; the rows are as long as the titles.
    Grid { titles: Vec<Title>, rows: Vec<Vec<String>> },
    /// Sentences, one a line.
    Lines(Vec<String>),
    /// Text that is laid out already.
    Text(String),
}

/// A column's title.
pub(super) struct Title {
    pub(super) text: &'static str,
    /// Numbers stand to the right, words to the left.
    pub(super) is_number: bool,
}

/// The title of a column of words.
pub(super) const fn words(text: &'static str) -> Title {
    Title { text, is_number: false }
}

/// The title of a column of numbers.
pub(super) const fn numbers(text: &'static str) -> Title {
    Title { text, is_number: true }
}

/// For a terminal of this width.
pub(super) fn text(pieces: &[Piece], width: Option<u16>) -> String {
    let mut text = String::new();
    for piece in pieces {
        match piece {
            Piece::Heading(heading) if text.is_empty() => text += &format!("{heading}\n"),
            Piece::Heading(heading) => text += &format!("\n{heading}\n"),
            Piece::Lines(lines) => lines.iter().for_each(|line| text += &wrapped(&format!("{line}\n"), width)),
            Piece::Text(lines) => text += &format!("{}\n", lines.trim_end()),
            Piece::Grid { titles, rows } => {
                let mut table = plain();
                if let Some(width) = width {
                    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
                }
                let side = |title: &Title| if title.is_number { CellAlignment::Right } else { CellAlignment::Left };
                table.set_header(titles.iter().map(|title| Cell::new(title.text).set_alignment(side(title))));
                for row in rows {
                    let cells = row.iter().zip(titles);
                    table.add_row(cells.map(|(text, title)| Cell::new(text).set_alignment(side(title))));
                }
                text += &format!("{}\n", trimmed(&mut table));
            }
        }
    }
    printable(&text)
}

/// For a mailing list or an issue.
pub(super) fn markdown(pieces: &[Piece]) -> String {
    let mut text = String::new();
    for piece in pieces {
        if !text.is_empty() {
            text.push('\n');
        }
        match piece {
            Piece::Heading(heading) => text += &format!("**{}**\n", escaped(heading)),
            Piece::Lines(lines) => lines.iter().for_each(|line| text += &format!("- {}\n", escaped(line))),
            Piece::Text(lines) => text += &format!("```text\n{}\n```\n", lines.trim_end()),
            Piece::Grid { titles, rows } => {
                text += &line(titles.iter().map(|title| escaped(title.text)));
                text += &line(titles.iter().map(|title| if title.is_number { "---:" } else { "---" }.to_owned()));
                rows.iter().for_each(|row| text += &line(row.iter().map(|cell| escaped(cell))));
            }
        }
    }
    printable(&text)
}
