//! `linerate licences`: whose work is in this program, and under which terms.
//! Knows no crate by name; THIRD-PARTY-LICENCES.txt does, which `cargo xtask licences` writes.

use std::process::ExitCode;

use crate::output::out;

const OWN: [(&str, &str); 2] =
    [("MIT", include_str!("../../../../LICENSE-MIT")), ("Apache-2.0", include_str!("../../../../LICENSE-APACHE"))];
const OTHERS: &str = include_str!("../../../../THIRD-PARTY-LICENCES.txt");

/// Prints all of them, as packages carry them.
pub(crate) fn licences() -> ExitCode {
    let line = "=".repeat(80);
    out!("linerate is under either of these licences, as you choose: MIT, Apache-2.0.\n\n");
    for (name, text) in OWN {
        out!("{line}\n{name}\n\n{}\n\n", text.trim_end());
    }
    out!("{line}\n{OTHERS}");
    ExitCode::SUCCESS
}
