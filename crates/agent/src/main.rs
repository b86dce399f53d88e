//! `linerate-agent`, the small program on a machine.
//! Knows nothing; [`linerate_agent`] does.

use std::process::ExitCode;

fn main() -> ExitCode {
    linerate_agent::run("linerate-agent", std::env::args_os().skip(1))
}
