//! `linerate`, the program.
//! Knows nothing; [`linerate::run`] does. A library of its own is compiled while what it stands on still is.

use std::process::ExitCode;

fn main() -> ExitCode {
    linerate::run()
}
