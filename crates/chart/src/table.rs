//! The numbers of a chart, and their text form: for screen readers, mail, and a terminal without pictures.

use crate::text;

/// Rows of cells under a head.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    /// A name a column, with its unit.
    pub head: Vec<String>,
    /// Each as long as the head.
    pub rows: Vec<Vec<Cell>>,
}

/// A cell: what is read, and what it is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Cell {
    /// As it is printed.
    pub text: String,
    /// The number that the text is of, unrounded; `None`: a name, or nothing was measured.
    pub value: Option<f64>,
    /// Which records it comes from.
    pub trace: String,
}

impl Table {
    /// A table without rows.
    pub fn new<T: Into<String>>(head: impl IntoIterator<Item = T>) -> Table {
        Table { head: head.into_iter().map(Into::into).collect(), rows: Vec::new() }
    }

    /// And this row.
    pub fn row<T: Into<Cell>>(mut self, cells: impl IntoIterator<Item = T>) -> Table {
        self.rows.push(cells.into_iter().map(Into::into).collect());
        self
    }
}

/// Columns of a text that stays whole when it is quoted twice.
pub const TEXT_COLUMNS: usize = 72;
/// What stands between two columns, and how narrow one may become.
const BETWEEN: usize = 2;
const NARROWEST: usize = 8;

impl Table {
    /// The table as text of at most this many columns, [`TEXT_COLUMNS`] being usual; with `ascii`, of nothing else. Cells
    /// wrap; where there is no room for the columns beside each other, each row is a list of them.
    pub fn text(&self, columns: usize, ascii: bool) -> String {
        let columns = columns.max(2 * NARROWEST);
        let in_form = |words: &str| {
            let words = text::plain(words);
            if ascii { text::ascii(&words) } else { words }
        };
        let head: Vec<String> = self.head.iter().map(|name| in_form(name)).collect();
        let count = self.rows.iter().map(Vec::len).chain([head.len()]).max().unwrap_or(0);
        if count == 0 {
            return String::new();
        }
        let cell = |row: &Vec<Cell>, at: usize| match row.get(at).map(|cell| in_form(&cell.text)) {
            Some(text) if !text.is_empty() => text,
            // Nothing is not to be seen, and not to be heard either.
            _ => "-".to_owned(),
        };
        let rows: Vec<Vec<String>> = self.rows.iter().map(|row| (0..count).map(|at| cell(row, at)).collect()).collect();
        let head: Vec<String> = (0..count).map(|at| head.get(at).cloned().unwrap_or_default()).collect();
        match widths(&head, &rows, columns) {
            Some(widths) => self.beside(&head, &rows, &widths),
            None => listed(&head, &rows, columns),
        }
    }

    /// Rows below the head; numbers at the right of their columns.
    fn beside(&self, head: &[String], rows: &[Vec<String>], widths: &[usize]) -> String {
        let has_numbers = |at: usize| self.rows.iter().any(|row| row.get(at).is_some_and(|cell| cell.value.is_some()));
        let right: Vec<bool> = (0..widths.len()).map(has_numbers).collect();
        let rule: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
        let mut text = line(head, widths, &right) + &rule.join(&" ".repeat(BETWEEN)) + "\n";
        for row in rows {
            text += &line(row, widths, &right);
        }
        text
    }
}

fn wide(text: &str) -> f64 {
    text::columns(text) as f64
}

/// How wide the columns are so that all have room; `None`: they have not.
fn widths(head: &[String], rows: &[Vec<String>], columns: usize) -> Option<Vec<usize>> {
    let all = || rows.iter().map(Vec::as_slice).chain([head]);
    let longest = |at: usize| all().map(|row| text::columns(&row[at])).max().unwrap_or(0).max(1);
    // Words are not parted if it can be helped, and numbers never are.
    let word = |at: usize| {
        let words = all().flat_map(|row| row[at].split(' ')).map(text::columns);
        words.max().unwrap_or(0).clamp(1, 2 * NARROWEST)
    };
    let mut widths: Vec<usize> = (0..head.len()).map(longest).collect();
    let least: Vec<usize> = (0..head.len()).map(|at| word(at).max(widths[at].min(NARROWEST))).collect();
    let room = columns.checked_sub(BETWEEN * (head.len() - 1))?;
    while widths.iter().sum::<usize>() > room {
        let shrinking = (0..widths.len()).filter(|at| widths[*at] > least[*at]).max_by_key(|at| widths[*at])?;
        widths[shrinking] -= 1;
    }
    Some(widths)
}

/// A row, in as many lines as its cells need.
fn line(cells: &[String], widths: &[usize], right: &[bool]) -> String {
    let wrapped: Vec<Vec<String>> =
        cells.iter().zip(widths).map(|(cell, width)| text::wrapped(cell, *width as f64, wide)).collect();
    let mut text = String::new();
    for row in 0..wrapped.iter().map(Vec::len).max().unwrap_or(0) {
        let parts = wrapped.iter().zip(widths).zip(right).map(|((lines, width), is_right)| {
            let part = lines.get(row).map_or("", String::as_str);
            let blanks = " ".repeat(width.saturating_sub(text::columns(part)));
            if *is_right { blanks + part } else { part.to_owned() + &blanks }
        });
        text += parts.collect::<Vec<_>>().join(&" ".repeat(BETWEEN)).trim_end();
        text.push('\n');
    }
    text
}

/// Each row as a list of its cells, with their names.
fn listed(head: &[String], rows: &[Vec<String>], columns: usize) -> String {
    let entry = |(name, cell): (&String, &String)| -> String {
        let words = if name.is_empty() { cell.clone() } else { format!("{name}: {cell}") };
        let lines = text::wrapped(&words, columns as f64 - 4.0, wide);
        lines.iter().enumerate().map(|(at, line)| format!("{}{line}\n", if at == 0 { "  " } else { "    " })).collect()
    };
    let row = |(number, row): (usize, &Vec<String>)| {
        let cells: String = head.iter().zip(row).map(entry).collect();
        format!("{}.\n{cells}", number + 1)
    };
    match rows {
        [] => head.iter().flat_map(|name| text::wrapped(name, columns as f64, wide)).map(|line| line + "\n").collect(),
        rows => rows.iter().enumerate().map(row).collect(),
    }
}

impl Cell {
    /// A number and its text.
    pub fn number(text: impl Into<String>, value: f64) -> Cell {
        Cell { text: text.into(), value: Some(value), trace: String::new() }
    }

    /// Which records it comes from.
    pub fn from_records(self, trace: impl Into<String>) -> Cell {
        Cell { trace: trace.into(), ..self }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell { text: text.to_owned(), ..Cell::default() }
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell { text, ..Cell::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_beside_each_other_while_there_is_room() {
        let table = Table::new(["stage", "packets", "counter"])
            .row([Cell::from("MAC RX FIFO"), Cell::number("51,230", 51_230.0), Cell::from("rx_fifo_errors")])
            .row([Cell::from("link"), Cell::from(""), Cell::from("not counted by this driver")]);
        let text = "stage        packets  counter\n-----------  -------  --------------------------\n\
                    MAC RX FIFO   51,230  rx_fifo_errors\nlink               -  not counted by this driver\n";
        assert_eq!(table.text(TEXT_COLUMNS, false), text);
        let text = "stage      packets  counter\n---------  -------  --------------\n\
                    MAC RX      51,230  rx_fifo_errors\nFIFO\n\
                    link             -  not counted by\n                    this driver\n";
        assert_eq!(table.text(34, false), text);
        let text = "1.\n  stage: MAC RX\n    FIFO\n  packets: 51,230\n  counter:\n    rx_fifo_errors\n\
                    2.\n  stage: link\n  packets: -\n  counter: not\n    counted by this\n    driver\n";
        assert_eq!(table.text(20, false), text);
        assert_eq!(Table::default().text(72, true), "");
    }
}
