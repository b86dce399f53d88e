//! A view as lines of a terminal of any width: nothing is left out, for what does not fit beside stands below.
//! Knows columns and characters.

use linerate_machine::printable::in_line;
use linerate_machine::screen::{Column, Value, View};

/// Between two columns.
const GAP: usize = 2;
/// What the further lines of a row begin with.
const INDENT: usize = 4;
/// The longest value: another machine may have written it.
const LONGEST: usize = 300;

/// The view's lines, the heading first; what is missing and left out last.
pub fn lines(view: &View, width: usize) -> Vec<String> {
    let width = width.max(20);
    let cells: Vec<Vec<String>> = view.rows.iter().map(|row| row.iter().map(shown).collect()).collect();
    let names: Vec<String> = view.columns.iter().map(|column| in_line(&column.name, 40).into_owned()).collect();
    let widths: Vec<usize> = (0..names.len())
        .map(|at| {
            let longest = cells.iter().filter_map(|row| row.get(at)).chain([&names[at]]).map(|cell| len(cell)).max();
            longest.unwrap_or(0).min(width - INDENT)
        })
        .collect();
    let groups = groups(&widths, width);
    let mut lines = Vec::new();
    if !cells.is_empty() {
        row(&names, &view.columns, &widths, &groups, &mut lines);
    }
    for cells in &cells {
        row(cells, &view.columns, &widths, &groups, &mut lines);
    }
    if view.left_out > 0 {
        lines.push(format!("and {} more", view.left_out));
    }
    for sentence in &view.missing {
        lines.extend(crate::text::wrapped(&in_line(sentence, LONGEST), width));
    }
    if lines.is_empty() {
        lines.push("Nothing to show.".to_owned());
    }
    lines
}

fn shown(value: &Value) -> String {
    in_line(&value.text(), LONGEST).into_owned()
}

fn len(text: &str) -> usize {
    text.chars().count()
}

/// Which columns stand beside each other: as many as fit.
fn groups(widths: &[usize], width: usize) -> Vec<std::ops::Range<usize>> {
    let (mut groups, mut first, mut used) = (Vec::new(), 0, 0);
    for (at, column) in widths.iter().enumerate() {
        let begin = if groups.is_empty() { 0 } else { INDENT };
        let more = if at == first { begin + column } else { used + GAP + column };
        if at > first && more > width {
            groups.push(first..at);
            first = at;
            used = INDENT + column;
        } else {
            used = more;
        }
    }
    groups.push(first..widths.len());
    groups
}

fn row(
    cells: &[String],
    columns: &[Column],
    widths: &[usize],
    groups: &[std::ops::Range<usize>],
    lines: &mut Vec<String>,
) {
    for (number, group) in groups.iter().enumerate() {
        // A cell that is longer than a line goes on in the next.
        let parts: Vec<Vec<String>> =
            group.clone().map(|at| chunks(cells.get(at).map_or("", String::as_str), widths[at])).collect();
        let deepest = parts.iter().map(Vec::len).max().unwrap_or(0);
        for depth in 0..deepest {
            let mut line = " ".repeat(if number == 0 { 0 } else { INDENT });
            for (part, at) in parts.iter().zip(group.clone()) {
                let text = part.get(depth).map_or("", String::as_str);
                let fill = " ".repeat(widths[at] - len(text));
                match columns[at].kind.is_number() {
                    true => line.extend([fill.as_str(), text]),
                    false => line.extend([text, fill.as_str()]),
                }
                line.push_str(&" ".repeat(GAP));
            }
            lines.push(line.trim_end().to_owned());
        }
    }
}

fn chunks(text: &str, width: usize) -> Vec<String> {
    let signs: Vec<char> = text.chars().collect();
    if signs.is_empty() {
        return vec![String::new()];
    }
    signs.chunks(width.max(1)).map(|chunk| chunk.iter().collect()).collect()
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
            assert!(text.iter().all(|line| len(line) <= width), "{width}: {text:?}");
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
