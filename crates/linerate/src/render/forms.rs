//! Tables and sentences as a terminal and as Markdown show them; for what is no table of records.
//! Knows not what they say.

use comfy_table::ContentArrangement;

use super::markdown::{escaped, line};
use super::table::{aligned, plain, trimmed};
use super::{sentence, wrapped};

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
            Piece::Heading(heading) if text.is_empty() => text += &format!("{}\n", sentence(heading)),
            Piece::Heading(heading) => text += &format!("\n{}\n", sentence(heading)),
            Piece::Lines(lines) => {
                lines.iter().for_each(|line| text += &wrapped(&format!("{}\n", sentence(line)), width))
            }
            Piece::Text(lines) => text += &format!("{}\n", lines.trim_end()),
            Piece::Grid { titles, rows } => {
                let mut table = plain();
                if let Some(width) = width {
                    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
                }
                table.set_header(titles.iter().map(|title| aligned(title.text, title.is_number)));
                for row in rows {
                    let cells = row.iter().zip(titles);
                    table.add_row(cells.map(|(text, title)| aligned(&sentence(text), title.is_number)));
                }
                text += &format!("{}\n", trimmed(&mut table));
            }
        }
    }
    text
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
            Piece::Text(lines) => {
                // A fence is ended by one as long (CommonMark 0.31, 4.5).
                let mut fence = "```".to_owned();
                while lines.contains(&fence) {
                    fence.push('`');
                }
                text += &format!("{fence}text\n{}\n{fence}\n", lines.trim_end());
            }
            Piece::Grid { titles, rows } => {
                text += &line(titles.iter().map(|title| escaped(title.text)));
                text += &line(titles.iter().map(|title| if title.is_number { "---:" } else { "---" }.to_owned()));
                rows.iter().for_each(|row| text += &line(row.iter().map(|cell| escaped(cell))));
            }
        }
    }
    text
}
