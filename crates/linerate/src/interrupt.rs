//! Ctrl-C and its like: the first asks for an orderly end, the second does not wait for it.

use std::process::ExitCode;

use linerate_host::sys::signals::came;
pub(crate) use linerate_host::sys::signals::listen;

/// Whether an orderly end was asked for.
pub(crate) fn requested() -> bool {
    came().is_some()
}

/// The status of a command that could not do its work because it was asked to end: 128 and the signal's number, as a shell
/// tells of a program that died of it.
pub(crate) fn status() -> Option<ExitCode> {
    came().and_then(|signal| u8::try_from(128 + signal).ok()).map(ExitCode::from)
}
