//! The table for people at a terminal.
//! Knows how a table looks there; `sheet` knows what it says.

use comfy_table::{Cell, CellAlignment, ContentArrangement, LineStyle, Table, presets};
use linerate_results::record::Record;

use super::sheet::{Heading, Repeats, Sheet, sheets};
use super::{cell, sentence, wrapped};

/// Columns that a narrow terminal can do without, the least missed first: heading and whose.
const DISPENSABLE: [(&str, &str); 8] = [
    ("CPU time", "host"),
    ("CPU time", "target"),
    ("achieved", ""),
    ("jitter", ""),
    ("retransmitted", ""),
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
        text += &wrapped(&format!("{}\n", sentence(&note)), width);
    }
    text
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
    // Narrow: `UDP payload` on two lines, and `sendmmsg-udp-segment → plain` on three.
    let texts: Vec<String> = sheet
        .headings
        .iter()
        .map(|heading| {
            let layer = heading.layer.replace(' ', "\n");
            let apis = heading.apis.replace(" →", "\n→").replace("sendmmsg-", "sendmmsg-\n");
            format!("{}\n{}\n{layer}\n{apis}", cell(&heading.name), heading.unit).trim_end().to_owned()
        })
        .collect();
    let lines = |text: &String| text.lines().count();
    let most = texts.iter().map(lines).max().unwrap_or(0);
    let tall = most > 3;
    table.set_header(texts.iter().zip(&sheet.headings).map(|(text, heading)| {
        let missing = if tall { most.saturating_sub(lines(text)) } else { 0 };
        aligned(&format!("{text}{}", "\n".repeat(missing)), heading.is_number)
    }));
    for row in &sheet.rows {
        let cells = row.iter().zip(&sheet.headings);
        table.add_row(cells.map(|(text, heading)| aligned(&cell(text), heading.is_number)));
    }
    format!("{}\n{}\n", sentence(&sheet.title), trimmed(&mut table))
}

/// A table with lines above and beneath, and none between.
pub(super) fn plain() -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::UTF8_HORIZONTAL_ONLY.row_separator(LineStyle::none()))
        .set_content_arrangement(ContentArrangement::Disabled);
    table
}

/// A cell whose text is ours, or was made one of ours: numbers stand to the right, words to the left.
pub(super) fn aligned(text: &str, is_number: bool) -> Cell {
    Cell::new(text).set_alignment(if is_number { CellAlignment::Right } else { CellAlignment::Left })
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
    use linerate_trial::api::ApiUse;

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

    /// The table of records whose senders and receivers used these.
    fn of_apis(pairs: &[[&str; 2]]) -> String {
        let records: Vec<Record> = pairs
            .iter()
            .zip(sample::sweep())
            .map(|(names, mut record)| {
                let flow = &mut record.result.as_mut().unwrap().flow;
                let used = |name: &str| Some(ApiUse { name: name.to_owned(), ..ApiUse::default() });
                [flow.sender_api, flow.receiver_api] = names.map(used);
                record
            })
            .collect();
        table(&records, Repeats::Apart, None)
    }

    #[test]
    fn what_is_not_plain_stands_in_the_heading() {
        let plain = of_apis(&[["plain", "plain"], ["plain", "plain"]]);
        assert!(!plain.contains("plain") && !plain.contains("API") && !plain.contains('→'), "{plain}");
        // At either end.
        for [sender, receiver] in [["plain", "trunc"], ["sendmmsg", "plain"], ["sendmmsg", "recvmmsg"]] {
            let text = of_apis(&[[sender, receiver], [sender, receiver]]);
            let heading: Vec<&str> = text.lines().skip(2).take(6).collect();
            let has = |word: &str| heading.iter().any(|line| line.contains(word));
            assert!(has(sender) && has(&format!("→ {receiver}")), "{text}");
            assert!(!text.contains("API"), "{text}");
        }
        // Rows that differ say it each.
        let text = of_apis(&[["plain", "plain"], ["plain", "trunc"]]);
        assert!(text.contains(" API") && text.contains(" plain → trunc ") && text.contains(" plain "), "{text}");
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
