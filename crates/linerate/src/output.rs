//! The one way to standard output and standard error: what is written there is printable, whoever said it.
//! Knows nothing of what is written, and no colour: what is coloured, clap and indicatif write themselves.
//!
//! Standard output may be gone: `linerate plans | head -1` ends quietly where `print!` would panic.

use std::fmt::Arguments;
use std::io::{ErrorKind, IsTerminal, Stdout, Write, stderr, stdout};

use linerate_machine::printable::{in_line, printable};

/// Like `print!`.
macro_rules! out {
    ($($argument:tt)*) => { $crate::output::print(format_args!($($argument)*)) };
}
pub(crate) use out;

/// The longest sentence, in characters: another machine may have written most of it.
const LONGEST: usize = 8000;

/// Writes to standard output. Where nobody reads it any more, the program ends here: what it would do next is for
/// nobody, and agents end with their input. SIGPIPE, which does that for other programs, stays ignored: an agent
/// that dies must not take this program with it.
pub(crate) fn print(text: Arguments<'_>) {
    let text = text.to_string();
    let mut stdout = stdout().lock();
    match stdout.write_all(printable(&text).as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
        Err(error) => {
            say(format_args!("linerate: standard output cannot be written: {error}; send it somewhere with room"));
            std::process::exit(2)
        }
    }
}

/// Writes a sentence to standard error, if that is still there.
pub(crate) fn say(sentence: Arguments<'_>) {
    let _ = writeln!(stderr(), "{}", sentence_of(&sentence.to_string()));
}

/// Writes a text of several lines to standard error: what is for people while a program reads standard output.
pub(crate) fn beside(text: &str) {
    let _ = writeln!(stderr(), "{}", printable(text.trim_end()));
}

/// A line that begins at the margin is ours: where another machine's words, or a parser's, have lines of their own,
/// those are indented.
fn sentence_of(text: &str) -> String {
    let mut sentence = String::new();
    let mut left = LONGEST;
    for (at, line) in text.lines().enumerate() {
        if left == 0 {
            break;
        }
        if at > 0 {
            sentence.push_str("\n  ");
        }
        let line = in_line(line, left);
        left = left.saturating_sub(line.chars().count() + 1);
        sentence.push_str(&line);
    }
    sentence
}

/// Whether standard error is a terminal, where progress may be shown.
pub(crate) fn is_watched() -> bool {
    stderr().is_terminal()
}

/// Standard output as it is, for a console whose programs speak to the user's terminal themselves.
pub(crate) fn terminal() -> Stdout {
    stdout()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_begins_no_second_line_at_the_margin() {
        assert_eq!(
            sentence_of("linerate: no\nlinerate: yes\r\n\u{1b}[2Jx"),
            "linerate: no\n  linerate: yes\n  \u{fffd}[2Jx"
        );
        assert_eq!(sentence_of(""), "");
        let long = sentence_of(&format!("linerate: {}\nmore", "x".repeat(1 << 20)));
        assert!(long.ends_with("x…") && long.chars().count() == LONGEST, "{}", long.len());
    }
}
