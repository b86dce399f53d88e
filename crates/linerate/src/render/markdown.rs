//! How Markdown writes a line of a table, and what it must not take for its own.
//! Follows GitHub Flavored Markdown, section 4.10.

use super::sentence;

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
