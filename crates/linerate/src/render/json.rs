//! Records and other answers as JSON Lines, for programs.

use std::fmt::Display;

use linerate_machine::printable::is_printable;
use linerate_results::record::Record;
use serde_json::Value;

use crate::output::is_ascii_only;

/// One record a line, each a JSON object without line breaks (jsonlines.org).
pub(crate) fn json(records: &[Record]) -> String {
    records.iter().map(|record| line_as_it_is(&record.to_json())).collect()
}

/// An answer as a line. A member that nobody knows is absent, as in a record, and not null.
pub(crate) fn line(mut answer: Value) -> String {
    leave_out_nulls(&mut answer);
    line_as_it_is(&answer)
}

/// The places of an array have a meaning, so that a null among them stays.
fn leave_out_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, member| !member.is_null());
            members.values_mut().for_each(leave_out_nulls);
        }
        Value::Array(values) => values.iter_mut().for_each(leave_out_nulls),
        _ => {}
    }
}

/// An object of JSON as a line. Within it, only a string can have what is not printable, and says it in the escapes that
/// a string has (RFC 8259, section 7): nothing is lost, and a terminal is shown no more than in a table.
fn line_as_it_is(object: &impl Display) -> String {
    // What is shown in ASCII only must not change what is said.
    escaped(object, |c| c.is_ascii() || !is_ascii_only()) + "\n"
}

/// The same of a record whose text is at hand, as a store has it: to write it once more would only cost time.
pub(crate) fn line_of(record: &Record, text: &str) -> String {
    if is_line(text) { line_as_it_is(&text) } else { line_as_it_is(&record.to_json()) }
}

/// Whether an object's text is a line already.
pub(super) fn is_line(text: &str) -> bool {
    // Of ASCII, as most are, that is quickly told.
    text.bytes().all(|octet| matches!(octet, b' '..=b'~')) || text.chars().all(is_printable)
}

/// The same without the line's end, and whatever the terminal can show.
pub(super) fn printable_line(object: &impl Display) -> String {
    escaped(object, |_| true)
}

fn escaped(object: &impl Display, is_shown: impl Fn(char) -> bool) -> String {
    let object = object.to_string();
    let mut line = String::with_capacity(object.len() + 1);
    for c in object.chars() {
        if is_printable(c) && is_shown(c) {
            line.push(c);
        } else {
            line.extend(c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")));
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::sample;

    #[test]
    fn a_line_is_a_record() {
        let records = sample::everything();
        let read: Vec<Record> = json(&records).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(read, records);
    }

    #[test]
    fn what_nobody_knows_is_absent_and_not_null() {
        let answer = serde_json::json!({"a": null, "b": [{"c": null, "d": 0}, null], "e": {"f": {"g": null}}});
        assert_eq!(line(answer), "{\"b\":[{\"d\":0},null],\"e\":{\"f\":{}}}\n");
    }

    #[test]
    fn what_is_not_printable_is_escaped_and_not_lost() {
        let mut record = sample::repeats().remove(0);
        record.plan = "a\u{9b}2J\u{7f}\u{202e}\u{e0041}\n".to_owned();
        let text = json(std::slice::from_ref(&record));
        assert!(text.ends_with('\n') && text.trim_end().chars().all(is_printable), "{text}");
        assert_eq!(serde_json::from_str::<Record>(&text).unwrap(), record);
    }
}
