//! `cargo xtask test`: installs what the tests need, then format, lints, rules and tests.
//! Knows no test; cargo finds them.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Write};
use std::ops::AddAssign;
use std::process::{Command, Stdio};

use crate::program::{cargo, line_of, must, no_more};
use crate::{setup, tidy};

/// What is built only for those who ask for it has tests, too.
const ALL: &str = "--features=linerate/authentication";

/// Checks everything that a change can break, fast checks first.
pub fn run(words: impl Iterator<Item = OsString>) -> Result<(), String> {
    no_more(words)?;
    setup::run(std::iter::empty())?;
    must(&mut cargo(&["fmt", "--all", "--check"]))?;
    tidy::run(std::iter::empty())?;
    must(&mut cargo(&["clippy", "--workspace", "--all-targets", ALL, "--", "-D", "warnings"]))?;
    test(&mut cargo(&["test", "--workspace", ALL, "--no-fail-fast"]))
}

/// Runs the tests as they are seen with cargo, and ends in one line over all of them.
fn test(command: &mut Command) -> Result<(), String> {
    let line = line_of(command);
    eprintln!("xtask: {line}");
    let cannot = |error: io::Error| format!("{line} cannot be run: {error}");
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(cannot)?;
    let mut sum = Counts::default();
    let mut screen = io::stdout();
    for said in BufReader::new(child.stdout.take().expect("it is piped")).lines() {
        let said = said.map_err(cannot)?;
        // A closed screen must not end the tests.
        let _ = writeln!(screen, "{said}");
        sum += Counts::read(&said).unwrap_or_default();
    }
    let status = child.wait().map_err(cannot)?;
    let word = if status.success() { "ok" } else { "FAILED" };
    println!("test result: {word}. {} passed; {} failed; {} ignored in all", sum.passed, sum.failed, sum.ignored);
    if status.success() { Ok(()) } else { Err(format!("{line} failed ({status})")) }
}

/// What a test program's closing line counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    passed: u64,
    failed: u64,
    ignored: u64,
}

impl Counts {
    /// From `test result: ok. 12 passed; 0 failed; 1 ignored; …`; `None`: another line.
    fn read(line: &str) -> Option<Counts> {
        let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
        let count = |what: &str| counts.split("; ").find_map(|part| part.strip_suffix(what)?.trim().parse().ok());
        Some(Counts { passed: count(" passed")?, failed: count(" failed")?, ignored: count(" ignored")? })
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, more: Counts) {
        self.passed += more.passed;
        self.failed += more.failed;
        self.ignored += more.ignored;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_lines_are_read() {
        let line = "test result: ok. 12 passed; 0 failed; 3 ignored; 0 measured; 0 filtered out; finished in 0.01s";
        assert_eq!(Counts::read(line), Some(Counts { passed: 12, failed: 0, ignored: 3 }));
        let line = "test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s";
        assert_eq!(Counts::read(line), Some(Counts { passed: 1, failed: 2, ignored: 0 }));
        assert_eq!(Counts::read("test a ... ok"), None);
        assert_eq!(Counts::read("test result: "), None);
    }
}
