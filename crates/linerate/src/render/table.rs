//! The table for people at a terminal.
//! Knows how a table looks there; `sheet` knows what it says.

use comfy_table::{Cell, CellAlignment, ContentArrangement, LineStyle, Table, presets};
use linerate_results::record::Record;

use super::sheet::{Heading, Repeats, Sheet, sheets};
use super::{printable, wrapped};

/// Columns that a narrow terminal can do without, the least missed first: heading and whose.
const DISPENSABLE: [(&str, &str); 8] = [
    ("CPU time", "host"),
    ("CPU time", "target"),
    ("achieved", ""),
    ("jitter", ""),
    ("sent again", ""),
    ("latency p99", ""),
    ("CPU busy", "host"),
    ("CPU busy", "target"),
];

/// The records as tables, the doubts beneath. Without a `width` a table is as wide as it needs to be; with one,
/// columns are left out until it fits, and a sentence says which.
pub(crate) fn table(records: &[Record], repeats: Repeats, width: Option<u16>) -> String {
    let (mut sheets, mut notes) = sheets(records, repeats);
    if sheets.is_empty() {
        return "No records.\n".to_owned();
    }
    let mut left_out: Vec<String> = Vec::new();
    if let Some(width) = width {
        for sheet in &mut sheets {
            fit(sheet, usize::from(width), &mut left_out);
        }
    }
    if !left_out.is_empty() {
        notes.push(format!(
            "Left out for want of room: {}. A wider terminal shows more, --csv and 'records show' all.",
            left_out.join(", ")
        ));
    }
    let mut text: String = sheets.iter().map(drawn).collect::<Vec<_>>().join("\n");
    for note in notes {
        text += &wrapped(&format!("{note}\n"), width);
    }
    printable(&text)
}

/// Takes columns out of a sheet until it is no wider than this, or only those are left that it cannot do without.
fn fit(sheet: &mut Sheet, width: usize, left_out: &mut Vec<String>) {
    for (name, whose) in DISPENSABLE {
        let widest = |sheet: &Sheet| drawn(sheet).lines().skip(1).map(|line| line.chars().count()).max().unwrap_or(0);
        if widest(sheet) <= width {
            return;
        }
        let is_it = |heading: &Heading| heading.name.starts_with(name) && (whose.is_empty() || heading.layer == whose);
        let Some(at) = sheet.headings.iter().position(is_it) else { continue };
        sheet.headings.remove(at);
        sheet.rows.iter_mut().for_each(|row| drop(row.remove(at)));
        let words = format!("{name} {whose}").trim_end().to_owned();
        if !left_out.contains(&words) {
            left_out.push(words);
        }
    }
}

fn drawn(sheet: &Sheet) -> String {
    let mut table = plain();
    let side = |is_number: bool| if is_number { CellAlignment::Right } else { CellAlignment::Left };
    let tall = sheet.headings.iter().any(|heading| heading.layer.contains(' '));
    table.set_header(sheet.headings.iter().map(|heading| {
        // Narrow: `UDP payload` on two lines.
        let layer = heading.layer.replace(' ', "\n");
        let text = format!("{}\n{}\n{layer}", heading.name, heading.unit);
        let missing = if tall { 4_usize.saturating_sub(text.lines().count()) } else { 0 };
        Cell::new(format!("{text}{}", "\n".repeat(missing))).set_alignment(side(heading.is_number))
    }));
    for row in &sheet.rows {
        let cells = row.iter().zip(&sheet.headings);
        table.add_row(cells.map(|(text, heading)| Cell::new(text).set_alignment(side(heading.is_number))));
    }
    format!("{}\n{}\n", sheet.title, trimmed(&mut table))
}

/// A table with lines above and beneath, and none between.
pub(super) fn plain() -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::UTF8_HORIZONTAL_ONLY.row_separator(LineStyle::none()))
        .set_content_arrangement(ContentArrangement::Disabled);
    table
}

/// The table with one blank between columns, and without blanks at the ends of lines.
pub(super) fn trimmed(table: &mut Table) -> String {
    table.column_iter_mut().for_each(|column| {
        column.set_padding((0, 1));
    });
    let lines = table.lines().map(|line| line.trim_end().to_owned());
    lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::sample;

    #[test]
    fn a_sweep() {
        insta::assert_snapshot!(table(&sample::sweep(), Repeats::Together, None));
    }

    #[test]
    fn a_sweep_on_a_narrow_terminal() {
        let text = table(&sample::sweep(), Repeats::Together, Some(80));
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        insta::assert_snapshot!(text);
    }

    #[test]
    fn one_of_everything() {
        insta::assert_snapshot!(table(&sample::everything(), Repeats::Together, None));
    }

    #[test]
    fn repeats() {
        insta::assert_snapshot!(table(&sample::repeats(), Repeats::Together, None));
    }

    #[test]
    fn repeats_apart() {
        insta::assert_snapshot!(table(&sample::repeats(), Repeats::Apart, None));
    }

    #[test]
    fn other_machines_do_not_move_the_cursor() {
        let mut records = sample::repeats();
        records[0].target.endpoint = "exec:\x1b[2Jboo\u{9b}".to_owned();
        let text = table(&records, Repeats::Together, None);
        assert!(text.contains("exec:") && !text.contains(['\x1b', '\u{9b}']), "{text}");
    }

    #[test]
    fn nothing() {
        insta::assert_snapshot!(table(&[], Repeats::Together, None));
    }
}
