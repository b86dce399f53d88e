//! `linerate-agent`, the small program on a machine.

use std::process::ExitCode;

fn main() -> ExitCode {
    linerate_agent::run("linerate-agent", std::env::args_os().skip(1))
}
