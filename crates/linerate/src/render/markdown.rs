//! The table in Markdown, ready to paste.
//! Knows how Markdown writes tables; `sheet` knows what the table says.

use linerate_results::record::Record;

use super::sheet::{Heading, Repeats, Sheet, sheets};
use super::{cell, sentence};

/// The records as a Markdown table (GitHub Flavored Markdown, section 4.10), the doubts as a list beneath.
pub(crate) fn markdown(records: &[Record], repeats: Repeats) -> String {
    let (sheets, notes) = sheets(records, repeats);
    if sheets.is_empty() {
        return "No records.\n".to_owned();
    }
    let mut text: String = sheets.iter().map(drawn).collect::<Vec<_>>().join("\n");
    if !notes.is_empty() {
        text.push('\n');
    }
    for note in notes {
        text += &format!("- {}\n", escaped(&note));
    }
    text
}

fn drawn(sheet: &Sheet) -> String {
    let mut text = format!("**{}**\n\n", escaped(&sheet.title));
    text += &line(sheet.headings.iter().map(heading));
    text += &line(sheet.headings.iter().map(|heading| if heading.is_number { "---:" } else { "---" }.to_owned()));
    for row in &sheet.rows {
        text += &line(row.iter().map(|text| escaped(&cell(text.trim()))));
    }
    text
}

fn heading(heading: &Heading) -> String {
    let layer = [heading.layer.as_str(), &heading.apis];
    let layer = layer.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(", ");
    let layer = if layer.is_empty() { layer } else { format!("({layer})") };
    let name = cell(&heading.name);
    let words = [&*name, &heading.unit, &layer];
    escaped(&words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" "))
}

pub(super) fn line(cells: impl Iterator<Item = String>) -> String {
    format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "))
}

/// One line. A bar would end the cell; a star, an underscore or a bracket would be dress, and `<` and `&` are HTML's.
pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for c in sentence(text).chars() {
        match c {
            '|' | '*' | '_' | '[' | ']' | '<' | '&' | '~' | '$' | '`' | '\\' => escaped.extend(['\\', c]),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::sample;

    #[test]
    fn one_of_everything() {
        insta::assert_snapshot!(markdown(&sample::everything(), Repeats::Together));
    }

    #[test]
    fn a_bar_does_not_end_a_cell() {
        let mut records = sample::repeats();
        records[0].target.endpoint = "exec:agent | tee log".to_owned();
        assert!(markdown(&records, Repeats::Together).contains("exec:agent \\| tee log"));
    }
}
