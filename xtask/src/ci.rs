//! `cargo xtask ci`: what CI runs.
//! Knows no step: `.ci/run` is the one list of them.

use std::ffi::OsString;

use crate::program::{must, no_more, program};

/// Runs `.ci/run`.
pub fn run(words: impl Iterator<Item = OsString>) -> Result<(), String> {
    no_more(words)?;
    must(&mut program(".ci/run", &[]))
}
