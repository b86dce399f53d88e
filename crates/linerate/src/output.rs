//! The one way to standard output and standard error: only printable text gets there, also of what other machines sent.
//! Knows no colour: what is coloured, clap and indicatif write themselves.
//!
//! Standard output may be gone: `linerate plans | head -1` ends quietly where `print!` would panic.

use std::borrow::Cow;
use std::fmt::Arguments;
use std::io::{self, ErrorKind, IsTerminal, Stdout, Write, stderr, stdout};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};

use linerate_machine::printable::{in_line, printable};

/// Like `print!`.
macro_rules! out {
    ($($argument:tt)*) => { $crate::output::print(format_args!($($argument)*)) };
}
pub(crate) use out;

/// Like `out!`, for programs: every sign is kept as it is.
macro_rules! data {
    ($($argument:tt)*) => { $crate::output::print_as_is(&format!($($argument)*)) };
}
pub(crate) use data;

/// The status that a shell gives to a program that SIGPIPE ended (signal(7)): a script must not take it for success.
const READER_HAS_GONE: i32 = 128 + 13;

/// The longest sentence, in characters: another machine may have written most of it.
const LONGEST: usize = 8000;

/// Standard output is for one form alone; what is for people goes to standard error.
static IS_RESERVED: AtomicBool = AtomicBool::new(false);
/// LAVA reads its signals off standard output and standard error.
static IS_WATCHED_BY_LAVA: AtomicBool = AtomicBool::new(false);

/// From now on standard output has only what [`form`] writes.
pub(crate) fn reserve_stdout() {
    IS_RESERVED.store(true, Ordering::Relaxed);
}

/// From now on nothing but what [`form`] writes is a signal: a name or another machine's words could be one else.
pub(crate) fn guard_signals() {
    IS_WATCHED_BY_LAVA.store(true, Ordering::Relaxed);
}

/// Without what LAVA would take for a signal.
pub(crate) fn unsignalled(text: &str) -> Cow<'_, str> {
    if IS_WATCHED_BY_LAVA.load(Ordering::Relaxed) && text.contains("<LAVA_") {
        return Cow::Owned(text.replace("<LAVA_", "<LAVA-"));
    }
    Cow::Borrowed(text)
}

/// Writes a form that a program reads to standard output.
pub(crate) fn form(text: &str) {
    write(text);
}

/// Writes to standard output. Where nobody reads it any more, the program ends here: what it would do next is for
/// nobody, and agents end with their input. SIGPIPE, which does that for other programs, stays ignored: an agent
/// that dies must not take this program with it.
pub(crate) fn print(text: Arguments<'_>) {
    print_as_is(&signs(&text.to_string()));
}

/// The same, whatever the terminal can show.
pub(crate) fn print_as_is(text: &str) {
    if IS_RESERVED.load(Ordering::Relaxed) {
        return beside(text);
    }
    write(&unsignalled(text));
}

fn write(text: &str) {
    let mut stdout = stdout().lock();
    match stdout.write_all(printable(text).as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => {}
        Err(error) => unwritten(&error),
    }
}

/// Standard output could not be written: nothing else is of use.
pub(crate) fn unwritten(error: &io::Error) -> ! {
    if error.kind() == ErrorKind::BrokenPipe {
        std::process::exit(READER_HAS_GONE);
    }
    say(format_args!("linerate: standard output cannot be written: {error}; send it somewhere with room"));
    std::process::exit(2)
}

/// Writes a sentence to standard error, if that is still there.
pub(crate) fn say(sentence: Arguments<'_>) {
    let _ = writeln!(stderr(), "{}", signs(&unsignalled(&sentence_of(&sentence.to_string()))));
}

/// Writes a text of several lines to standard error: what is for people while a program reads standard output.
pub(crate) fn beside(text: &str) {
    let _ = writeln!(stderr(), "{}", signs(&unsignalled(&printable(text.trim_end()))));
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

/// Whether only ASCII is shown: the locale is C (POSIX.1-2024, 8.2), or the terminal knows nothing. Where no locale is
/// set, as in containers, terminals show UTF-8 all the same.
pub(crate) fn is_ascii_only() -> bool {
    static ASCII: LazyLock<bool> = LazyLock::new(|| {
        let set = |name: &&str| std::env::var(name).is_ok_and(|value| !value.is_empty());
        let locale =
            ["LC_ALL", "LC_CTYPE", "LANG"].iter().find(|name| set(name)).and_then(|name| std::env::var(name).ok());
        locale.is_some_and(|locale| ["C", "POSIX"].contains(&locale.as_str()))
            || std::env::var("TERM").is_ok_and(|term| term == "dumb")
    });
    *ASCII
}

/// The signs of tables, pictures and units that are no ASCII, and what stands for each, as wide.
const SIGNS: [(char, char); 24] = [
    ('─', '-'),
    ('│', '|'),
    ('┤', '|'),
    ('└', '+'),
    ('█', '#'),
    ('▄', '='),
    ('░', ':'),
    ('·', '.'),
    ('▁', '_'),
    ('▂', '.'),
    ('▃', '-'),
    ('▅', '='),
    ('▆', '+'),
    ('▇', '*'),
    ('→', '>'),
    ('…', '~'),
    ('µ', 'u'),
    ('–', '-'),
    ('—', '-'),
    ('±', '~'),
    ('×', 'x'),
    ('’', '\''),
    ('“', '"'),
    ('”', '"'),
];

fn signs(text: &str) -> Cow<'_, str> {
    if !is_ascii_only() || text.is_ascii() {
        return Cow::Borrowed(text);
    }
    Cow::Owned(in_ascii(text))
}

/// With our own signs replaced; what a user has named otherwise stays what it is called.
pub(crate) fn in_ascii(text: &str) -> String {
    text.chars().map(|c| SIGNS.iter().find(|(sign, _)| *sign == c).map_or(c, |(_, ascii)| *ascii)).collect()
}

/// The columns of the terminal that standard output is, if it is one.
pub(crate) fn columns() -> Option<u16> {
    console::Term::stdout().size_checked().map(|(_, columns)| columns)
}

/// Whether standard error is a terminal, where progress may be shown.
pub(crate) fn is_watched() -> bool {
    stderr().is_terminal()
}

/// Whether a person sits at a terminal that can place text anywhere.
#[cfg(feature = "console")]
pub(crate) fn is_full_terminal() -> bool {
    let is_dumb = std::env::var("TERM").map_or(true, |term| term == "dumb" || term.is_empty());
    !is_dumb && stdout().is_terminal() && std::io::stdin().is_terminal()
}

/// Standard output as it is, for a console whose programs speak to the user's terminal themselves.
pub(crate) fn terminal() -> Stdout {
    stdout()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_have_ascii_as_wide() {
        assert_eq!(in_ascii("└──█ 3 µs · a → ü"), "+--# 3 us . a > ü");
        assert!(SIGNS.iter().all(|(sign, ascii)| !sign.is_ascii() && ascii.is_ascii()));
    }

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
