//! Standard output that may be gone: `linerate plans | head -1` ends quietly where `print!` would panic.
//! Knows nothing of what is written.

use std::fmt::Arguments;
use std::io::{ErrorKind, Write, stderr, stdout};

/// Like `print!`.
macro_rules! out {
    ($($argument:tt)*) => { $crate::output::print(format_args!($($argument)*)) };
}
pub(crate) use out;

/// Writes to standard output. Where nobody reads it any more, the program ends here: what it would do next is for
/// nobody, and agents end with their input. SIGPIPE, which does that for other programs, stays ignored: an agent
/// that dies must not take this program with it.
pub(crate) fn print(text: Arguments<'_>) {
    let mut stdout = stdout().lock();
    match stdout.write_fmt(text).and_then(|()| stdout.flush()) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
        Err(error) => {
            say(format_args!("linerate: standard output cannot be written: {error}; send it somewhere with room"));
            std::process::exit(2)
        }
    }
}

/// Writes a line to standard error, if that is still there.
pub(crate) fn say(text: Arguments<'_>) {
    let _ = writeln!(stderr(), "{text}");
}
