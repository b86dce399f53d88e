//! Records as people and programs read them: one file a format, each from the records alone.
//! Prints nothing and measures nothing: every renderer makes a text of `&[Record]`.

pub(crate) mod csv;
pub(crate) mod json;
pub(crate) mod list;
pub(crate) mod machine;
pub(crate) mod markdown;
mod number;
pub(crate) mod picture;
#[cfg(test)]
mod sample;
mod sheet;
pub(crate) mod show;
pub(crate) mod summary;
pub(crate) mod table;
pub(crate) mod ttcp;

pub(crate) use sheet::Repeats;

/// The text without characters that would move a terminal's cursor or change its colours: evidence, doubts and
/// environments come from other machines.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' { '\u{fffd}' } else { c }).collect()
}
