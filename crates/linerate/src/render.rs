//! Records and other answers as people and programs read them: a file an answer, each from the records alone.
//! Tables are `table_model`, what stands between them `forms`; nothing here prints.

pub(crate) mod answer;
#[cfg(feature = "web")]
pub(crate) mod answer_parts;
mod apis;
pub(crate) mod brief;
pub(crate) mod budget;
pub(crate) mod cases;
pub(crate) mod check;
pub(crate) mod compare;
pub(crate) mod cost;
pub(crate) mod csv;
pub(crate) mod doubts;
pub(crate) mod echo;
pub(crate) mod echo_span;
pub(crate) mod explain;
mod fitting;
pub(crate) mod flame;
mod forms;
mod groups;
pub(crate) mod history;
#[cfg(test)]
mod hostile_text;
pub(crate) mod html;
#[cfg(feature = "nats")]
pub(crate) mod jobs;
pub(crate) mod json;
pub(crate) mod kcidb;
mod layout;
pub(crate) mod list;
mod load;
pub(crate) mod machine;
mod markdown;
pub(crate) mod matrix;
#[cfg(feature = "web")]
pub(crate) mod metrics;
pub(crate) mod number;
#[cfg(feature = "web")]
pub(crate) mod pages;
pub(crate) mod picture;
pub(crate) mod plans;
pub(crate) mod predict;
pub(crate) mod profile;
pub(crate) mod proof;
pub(crate) mod records;
pub(crate) mod registers;
pub(crate) mod report;
#[cfg(test)]
mod sample;
pub(crate) mod search;
pub(crate) mod settings;
pub(crate) mod show;
mod stages;
pub(crate) mod summary;
mod table_model;
mod time;
pub(crate) mod ttcp;
#[cfg(feature = "web")]
pub(crate) mod watched;
#[cfg(test)]
mod widths;

use std::borrow::Cow;

use linerate_machine::printable::in_line;

/// The most characters of a cell that says a word or two, and of a sentence or a value that is shown whole: what
/// another machine, a peer or a plan says may be of any length.
const CELL: usize = 200;
const SENTENCE: usize = 4000;

/// What stands in a cell of a table: one line, and no longer than a table can bear.
fn cell(text: &str) -> Cow<'_, str> {
    in_line(text, CELL)
}

/// What stands on a line of its own: nothing of a record begins another.
fn sentence(text: &str) -> Cow<'_, str> {
    in_line(text, SENTENCE)
}

/// The words of a text, between which a line may be broken: not before a per cent sign, which belongs to its number.
fn unbroken(text: &str) -> Vec<&str> {
    let mut words: Vec<&str> = Vec::new();
    let mut begin = 0;
    for word in text.split(' ') {
        let end = begin + word.len();
        match words.last_mut() {
            Some(last) if word.starts_with('%') && last.ends_with(|c: char| c.is_ascii_digit()) => {
                *last = &text[begin - 1 - last.len()..end];
            }
            _ => words.push(word),
        }
        begin = end + 1;
    }
    words
}

/// The text with lines no longer than `width`, broken between words; the lines that follow a broken one are indented.
pub(crate) fn wrapped(text: &str, width: Option<u16>) -> String {
    if text.is_empty() {
        return String::new();
    }
    let Some(width) = width.map(usize::from).filter(|width| *width >= 20) else { return text.to_owned() };
    let mut lines = Vec::new();
    for line in text.lines() {
        if line.chars().count() <= width {
            lines.push(line.to_owned());
            continue;
        }
        let words = line.trim_start_matches(' ');
        let mut broken = " ".repeat((line.len() - words.len()).min(width / 2));
        for word in unbroken(words) {
            let room = width.saturating_sub(broken.chars().count() + 1);
            if !broken.trim().is_empty() && word.chars().count() > room {
                lines.push(std::mem::replace(&mut broken, "  ".to_owned()));
            } else if !broken.trim().is_empty() {
                broken.push(' ');
            }
            broken.push_str(word);
        }
        lines.push(broken);
    }
    let mut text = lines.join("\n");
    text.push('\n');
    text
}

/// A table of words for people: a name a column, and rows.
pub(crate) fn words<const N: usize>(
    names: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
    width: Option<u16>,
) -> String {
    let cell = |text: String| {
        if text.parse::<u64>().is_ok() { table_model::Cell::numbers(text) } else { table_model::Cell::long(text) }
    };
    let rows = rows.into_iter().map(|row| row.map(cell).to_vec());
    forms::whole_text(
        &[forms::Piece::Table(table_model::Table::new(names, rows))],
        width.unwrap_or(100),
        crate::output::is_ascii_only(),
    )
}

#[cfg(test)]
mod tests {
    use super::wrapped;

    #[test]
    fn lines_break_between_words() {
        assert_eq!(wrapped("one two three four five\n\nsix\n", Some(20)), "one two three four\n  five\n\nsix\n");
        assert_eq!(wrapped("averyveryverylongwordindeed it is\n", Some(20)), "averyveryverylongwordindeed\n  it is\n");
        assert_eq!(wrapped("   one two three four\n  x\n", Some(20)), "   one two three\n  four\n  x\n");
        assert_eq!(wrapped("one two\n", None), "one two\n");
    }

    #[test]
    fn a_number_and_its_per_cent_sign_stay_on_a_line() {
        assert_eq!(wrapped("most of it, waiting, 39 % of it\n", Some(24)), "most of it, waiting,\n  39 % of it\n");
        assert_eq!(wrapped("12.5 %, 3 %\n", Some(20)), "12.5 %, 3 %\n");
        assert_eq!(super::unbroken("a 1 % b  100 %. %"), ["a", "1 %", "b", "", "100 %.", "%"]);
        assert_eq!(super::unbroken(""), [""]);
    }
}
