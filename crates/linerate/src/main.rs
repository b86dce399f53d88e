//! `linerate`, the program.
//! Only calls [`linerate::run`]: a library of its own is compiled in parallel with its dependencies.

use std::process::ExitCode;

fn main() -> ExitCode {
    linerate::run()
}
