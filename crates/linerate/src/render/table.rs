//! The table for people at a terminal.
//! Knows how a table looks there; `sheet` knows what it says.

use comfy_table::{Cell, CellAlignment, ContentArrangement, LineStyle, Table, presets};
use linerate_results::record::Record;

use super::printable;
use super::sheet::{Repeats, Sheet, sheets};

/// The records as tables, as wide as they need to be; the doubts beneath.
pub(crate) fn table(records: &[Record], repeats: Repeats) -> String {
    let (sheets, notes) = sheets(records, repeats);
    if sheets.is_empty() {
        return "No records.\n".to_owned();
    }
    let mut text: String = sheets.iter().map(drawn).collect::<Vec<_>>().join("\n");
    for note in notes {
        text += &format!("{note}\n");
    }
    printable(&text)
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
        insta::assert_snapshot!(table(&sample::sweep(), Repeats::Together));
    }

    #[test]
    fn one_of_everything() {
        insta::assert_snapshot!(table(&sample::everything(), Repeats::Together));
    }

    #[test]
    fn repeats() {
        insta::assert_snapshot!(table(&sample::repeats(), Repeats::Together));
    }

    #[test]
    fn repeats_apart() {
        insta::assert_snapshot!(table(&sample::repeats(), Repeats::Apart));
    }

    #[test]
    fn other_machines_do_not_move_the_cursor() {
        let mut records = sample::repeats();
        records[0].target.endpoint = "exec:\x1b[2Jboo\u{9b}".to_owned();
        let text = table(&records, Repeats::Together);
        assert!(text.contains("exec:") && !text.contains(['\x1b', '\u{9b}']), "{text}");
    }

    #[test]
    fn nothing() {
        insta::assert_snapshot!(table(&[], Repeats::Together));
    }
}
