//! Text of strangers, as it may be printed: what another machine, a peer, a record or a plan says moves no cursor.
//! Knows no terminal and no form of output; a character is judged by itself.
//!
//! Printable is what takes its place in the line and shows there. That leaves out
//! - control characters, C0 and C1 alike (Unicode's Cc): a terminal obeys them, the C1 ones without an ESC before them;
//! - the separators U+2028 and U+2029, which end a line for some readers and not for others;
//! - characters of format (Cf), which have no place of their own: they turn the order of what is read (U+202E and its
//!   like), or hide text in a name (U+200B, the tags from U+E0000 on).
//!
//! Each becomes one U+FFFD, so that a column is as wide as before. A newline, LF or CR LF, is ours to write: within a
//! whole text it stays, and within what must be one line [`in_line`] takes it out.

use std::borrow::Cow;

/// What stands for a character that is not printed: as wide as a letter, and no part of any syntax.
const REPLACEMENT: char = '\u{fffd}';

/// Unicode 16, general category Cf, and the two separators of lines and paragraphs.
const UNSEEN: [(char, char); 20] = [
    ('\u{ad}', '\u{ad}'),
    ('\u{600}', '\u{605}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{6dd}', '\u{6dd}'),
    ('\u{70f}', '\u{70f}'),
    ('\u{890}', '\u{891}'),
    ('\u{8e2}', '\u{8e2}'),
    ('\u{180e}', '\u{180e}'),
    ('\u{200b}', '\u{200f}'),
    ('\u{2028}', '\u{202e}'),
    ('\u{2060}', '\u{206f}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{fff9}', '\u{fffb}'),
    ('\u{110bd}', '\u{110bd}'),
    ('\u{110cd}', '\u{110cd}'),
    ('\u{13430}', '\u{1343f}'),
    ('\u{1bca0}', '\u{1bca3}'),
    ('\u{1d173}', '\u{1d17a}'),
    ('\u{e0001}', '\u{e0001}'),
    ('\u{e0020}', '\u{e007f}'),
];

/// Whether a character shows in the line and does nothing else.
pub fn is_printable(c: char) -> bool {
    !c.is_control() && (c.is_ascii() || !UNSEEN.iter().any(|(first, last)| (*first..=*last).contains(&c)))
}

/// A whole text: its newlines stay, a tab is a blank, and what is not printable is replaced.
pub fn printable(text: &str) -> Cow<'_, str> {
    if text.chars().all(|c| c == '\n' || is_printable(c)) {
        return Cow::Borrowed(text);
    }
    let mut signs = text.chars().peekable();
    let mut clean = String::with_capacity(text.len());
    while let Some(c) = signs.next() {
        clean.push(match c {
            '\n' => c,
            '\r' if signs.peek() == Some(&'\n') => c,
            '\t' => ' ',
            c if is_printable(c) => c,
            _ => REPLACEMENT,
        });
    }
    Cow::Owned(clean)
}

/// What must be one line, such as a cell of a table or a sentence: newlines are blanks, and past `most` characters it
/// ends in an ellipsis.
pub fn in_line(text: &str, most: usize) -> Cow<'_, str> {
    if text.len() <= most && text.chars().all(is_printable) {
        return Cow::Borrowed(text);
    }
    let clean = |c: char| match c {
        '\n' | '\t' => ' ',
        c if is_printable(c) => c,
        _ => REPLACEMENT,
    };
    // A CR before an LF is part of that newline.
    let mut signs = text.trim_end().chars().peekable();
    let mut line = String::new();
    for _ in 0..most {
        let Some(mut c) = signs.next() else { return Cow::Owned(line) };
        if c == '\r' && signs.peek() == Some(&'\n') {
            signs.next();
            c = '\n';
        }
        line.push(clean(c));
    }
    if signs.peek().is_some() {
        line.pop();
        line.push('…');
    }
    Cow::Owned(line)
}

/// Somebody's value within a sentence.
pub fn brief(value: &str) -> Cow<'_, str> {
    in_line(value, 200)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_replaced() {
        assert_eq!(printable("a\u{1b}[2Jb\u{9b}c\u{7f}\u{0}\r"), "a\u{fffd}[2Jb\u{fffd}c\u{fffd}\u{fffd}\u{fffd}");
        assert_eq!(printable("1\u{202e}2\u{2028}3\u{200b}\u{e0041}"), "1\u{fffd}2\u{fffd}3\u{fffd}\u{fffd}");
        assert_eq!(printable("µs → größer …\tja\r\nnein\n"), "µs → größer … ja\r\nnein\n");
        assert!(matches!(printable("as it was\n"), Cow::Borrowed(_)));
    }

    #[test]
    fn a_line_has_no_second_one_and_an_end() {
        assert_eq!(in_line("eth0\r\nlinerate: all is well\n", 80), "eth0 linerate: all is well");
        assert_eq!(in_line("\u{2067}abc\rdef", 80), "\u{fffd}abc\u{fffd}def");
        assert_eq!(in_line("0123456789", 10), "0123456789");
        assert_eq!(in_line("0123456789a", 10), "012345678…");
        assert_eq!(in_line("ääääääää", 8), "ääääääää");
        assert_eq!(in_line(&"x".repeat(1 << 20), 20).chars().count(), 20);
    }

    proptest! {
        #[test]
        fn any_text_is_printable_afterwards(text in "(?s:[\\x00-\\xff]|.){0,40}") {
            let clean = printable(&text).into_owned();
            prop_assert!(clean.replace("\r\n", "\n").chars().all(|c| c == '\n' || is_printable(c)), "{:?}", clean);
            prop_assert_eq!(clean.chars().count(), text.chars().count());
            prop_assert_eq!(&*printable(&clean), clean.as_str());
            let line = in_line(&text, 30);
            prop_assert!(line.chars().all(is_printable) && line.chars().count() <= 30, "{:?}", line);
        }
    }
}
