//! The one way to standard output and standard error: only printable text gets there, also of what a controller sent.

use std::io::{Write, stderr, stdout};

use linerate_machine::printable::{in_line, printable};

/// The longest sentence, in characters.
const LONGEST: usize = 4000;

/// Writes to standard output, if that is still there.
pub(crate) fn print(text: &str) {
    let mut stdout = stdout().lock();
    let _ = stdout.write_all(printable(text).as_bytes()).and_then(|()| stdout.flush());
}

/// Writes a sentence to standard error, if that is still there.
pub(crate) fn say(program: &str, sentence: &str) {
    let _ = writeln!(stderr(), "{program}: {}", in_line(sentence, LONGEST));
}
