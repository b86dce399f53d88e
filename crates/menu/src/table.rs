//! A view as lines of a terminal of any width: nothing is left out, for what does not fit beside stands below.
//! Knows columns and characters.

use std::fmt::Write;

use linerate_machine::printable::in_line;
use linerate_machine::screen::{Value, View};

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
        let looks = if before.is_some() && column.kind.rate().is_some() { &[None, before][..] } else { &[None] };
        for look in looks {
            let heading = look.and(column.kind.rate()).unwrap_or(&column.name);
            let mut cells = vec![heading.to_owned()];
            for row in &view.rows {
                cells.push(match look {
                    None => row.get(at).map_or_else(String::new, Value::text),
                    Some((before, seconds)) => before.rate(row, at, column.kind, *seconds).text(),
                });
            }
            columns.push(Shown { cells, is_number: column.kind.is_number(), width: 0, indent: "" });
        }
    }
    // As many columns beside each other as fit.
    let mut used = 0;
    for column in &mut columns {
        for cell in &mut column.cells {
            *cell = in_line(cell, LONGEST).into_owned();
            column.width = column.width.max(cell.chars().count().min(width - INDENT.len()));
        }
        // No first column is as wide as that.
        used += column.width;
        if used > width {
            column.indent = INDENT;
            used = INDENT.len() + column.width;
        }
        used += GAP.len();
    }
    for row in 0..=view.rows.len() {
        for group in columns.chunk_by_mut(|_, next| next.indent.is_empty()) {
            let mut is_done = false;
            while !is_done {
                is_done = true;
                for Shown { cells, is_number, width, indent } in &mut *group {
                    // A cell that is longer than its column goes on in the next line.
                    let cell = &mut cells[row];
                    let (part, rest) = split_at_char(cell, *width);
                    // A number stands at the right of its column.
                    let before = if *is_number { *width - part.chars().count() } else { 0 };
                    let after = *width - before;
                    let _ = write!(page, "{indent}{:before$}{part:after$}{GAP}", "");
                    is_done &= rest.is_empty();
                    *cell = rest.to_owned();
                }
                page.truncate(page.trim_end_matches(' ').len());
                page.push('\n');
            }
        }
    }
}

/// A column of the page: one of the view, or what its values grew by.
struct Shown {
    /// What is not yet written of its cells, the heading first.
    cells: Vec<String>,
    is_number: bool,
    width: usize,
    /// Of the first column of a line, what stands before it.
    indent: &'static str,
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
