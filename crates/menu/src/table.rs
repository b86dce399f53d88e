//! A view as lines of a terminal of any width: nothing is left out, for what does not fit beside stands below.
//! Knows columns and characters.

use std::fmt::Write;
use std::iter;
use std::ops::Range;

use linerate_machine::printable::in_line;
use linerate_machine::screen::{Column, Value, View};

use crate::text::{NARROWEST, split_at_char, write_text};

/// Between two columns.
const GAP: &str = "  ";
/// What the further lines of a row begin with.
const INDENT: &str = "    ";
/// The longest value: another machine may have written it.
const LONGEST: usize = 300;

/// The view as a page, the heading first; what is missing and left out last. With an earlier view, so many seconds ago, there is a
/// column of rates behind every one that grows.
pub fn page(view: &View, before: Option<(&View, f64)>, width: usize) -> String {
    let width = width.max(NARROWEST);
    let mut page = String::new();
    if !view.rows.is_empty() {
        write_rows(&mut page, view, before, width);
    }
    if view.left_out > 0 {
        let _ = writeln!(page, "and {} more", view.left_out);
    }
    for sentence in &view.missing {
        write_text(&mut page, "", &in_line(sentence, LONGEST), width);
    }
    if page.is_empty() {
        page.push_str("Nothing to show.\n");
    }
    page
}

fn write_rows(page: &mut String, view: &View, before: Option<(&View, f64)>, width: usize) {
    let mut columns = Vec::new();
    for (at, column) in view.columns.iter().enumerate() {
        columns.push(Shown { column, at, rates: None, width: 0 });
        if before.is_some() && column.kind.rate().is_some() {
            columns.push(Shown { column, at, rates: before, width: 0 });
        }
    }
    // The heading first, which is no row.
    let rows = || iter::once(None).chain(view.rows.iter().map(Some));
    for row in rows() {
        for column in &mut columns {
            let long = column.cell(row).chars().count();
            column.width = column.width.max(long.min(width - INDENT.len()));
        }
    }
    let groups = groups(&columns, width);
    for row in rows() {
        for group in &groups {
            let columns = &columns[group.clone()];
            let mut cells: Vec<String> = columns.iter().map(|column| column.cell(row)).collect();
            loop {
                page.push_str(if group.start == 0 { "" } else { INDENT });
                for (cell, column) in cells.iter_mut().zip(columns) {
                    // One that is longer than its column goes on in the next line.
                    let width = column.width;
                    let (part, rest) = split_at_char(cell, width);
                    let _ = match column.column.kind.is_number() {
                        true => write!(page, "{part:>width$}{GAP}"),
                        false => write!(page, "{part:<width$}{GAP}"),
                    };
                    *cell = rest.to_owned();
                }
                page.truncate(page.trim_end_matches(' ').len());
                page.push('\n');
                if cells.iter().all(String::is_empty) {
                    break;
                }
            }
        }
    }
}

/// A column of the page: one of the view, or what its values grew by.
struct Shown<'a> {
    column: &'a Column,
    at: usize,
    rates: Option<(&'a View, f64)>,
    width: usize,
}

impl Shown<'_> {
    /// A row's cell as it is shown; of no row, the column's name.
    fn cell(&self, row: Option<&Vec<Value>>) -> String {
        let text = match (row, self.rates) {
            (None, None) => self.column.name.clone(),
            (None, Some(_)) => self.column.kind.rate().unwrap_or_default().to_owned(),
            (Some(row), None) => row.get(self.at).map_or_else(String::new, Value::text),
            (Some(row), Some((before, seconds))) => before.rate(row, self.at, self.column.kind, seconds).text(),
        };
        in_line(&text, if row.is_none() { 40 } else { LONGEST }).into_owned()
    }
}

/// Which columns stand beside each other: as many as fit.
fn groups(columns: &[Shown<'_>], width: usize) -> Vec<Range<usize>> {
    let (mut groups, mut first, mut used) = (Vec::new(), 0, 0);
    for (at, column) in columns.iter().enumerate() {
        used += column.width;
        if at > first && used > width {
            groups.push(first..at);
            first = at;
            used = INDENT.len() + column.width;
        }
        used += GAP.len();
    }
    groups.push(first..columns.len());
    groups
}

#[cfg(test)]
mod tests {
    use linerate_machine::screen::Kind;

    use super::*;

    fn view(rows: &[[&str; 3]]) -> View {
        let rows = rows.iter().map(|row| row.iter().map(|cell| (*cell).into()).collect()).collect();
        let columns = [("name", Kind::Text), ("value", Kind::Counter), ("of whom", Kind::Text)];
        View { rows, ..View::new(&columns) }
    }

    fn lines(view: &View, width: usize) -> Vec<String> {
        page(view, None, width).lines().map(str::to_owned).collect()
    }

    #[test]
    fn what_grew_has_a_column_of_rates() {
        let (before, now) = (view(&[["a", "", "x"], ["b", "", "y"]]), view(&[["a", "", "x"], ["c", "", "z"]]));
        let of = |mut view: View, numbers: [u64; 2]| {
            view.rows.iter_mut().zip(numbers).for_each(|(row, number)| row[1] = number.into());
            view
        };
        let (before, now) = (of(before, [10, 20]), of(now, [30, 40]));
        let want = "name  value  per s  of whom\na        30    5.0  x\nc        40      -  z\n";
        assert_eq!(page(&now, Some((&before, 4.0)), 80), want);
        assert_eq!(
            page(&now, Some((&before, 4.0)), 24),
            "name  value  per s\n    of whom\na        30    5.0\n    x\nc        40      -\n    z\n"
        );
    }

    #[test]
    fn columns_stand_beside_each_other_where_they_fit() {
        let rows = [["a", "1", "x"], ["longer", "12345", "somebody"]];
        assert_eq!(lines(&view(&rows), 80), ["name    value  of whom", "a           1  x", "longer  12345  somebody"]);
        assert_eq!(
            lines(&view(&rows), 22),
            ["name    value", "    of whom", "a           1", "    x", "longer  12345", "    somebody"]
        );
    }

    #[test]
    fn nothing_is_lost_at_any_width() {
        let long = "x".repeat(100);
        let view = view(&[["name", "7", &long], [&long, "8", "z"]]);
        for width in 20..150 {
            let text = lines(&view, width);
            assert!(text.iter().all(|line| line.chars().count() <= width), "{width}: {text:?}");
            let kept = text.concat();
            assert_eq!(kept.matches('x').count(), 200, "{width}: {text:?}");
            assert!(["7", "8", "z", "of whom"].iter().all(|word| kept.contains(word)), "{width}: {text:?}");
        }
    }

    #[test]
    fn strangers_text_is_one_line_and_printable() {
        let text = lines(&view(&[["a\u{1b}[2J\nb", "1", "\u{202e}x"]]), 80).join("\n");
        assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}') && text.lines().count() == 2, "{text}");
    }

    #[test]
    fn what_is_not_there_is_said() {
        let none = View { missing: vec!["No /proc.".to_owned()], ..view(&[]) };
        assert_eq!(lines(&none, 80), ["No /proc."]);
        assert_eq!(lines(&View { left_out: 3, ..view(&[["a", "1", "x"]]) }, 80).last().unwrap(), "and 3 more");
        assert_eq!(lines(&View::default(), 80), ["Nothing to show."]);
    }
}
