//! `cargo xtask test`: installs what the tests need, then format, lints, rules and tests.
//! Knows no test; cargo finds them.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Write};
use std::ops::AddAssign;
use std::process::{Command, Stdio};
use std::thread;

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
    let all = ["test", "--workspace", ALL, "--no-fail-fast"];
    let first = test(&mut cargo(&all))?;
    if first.passed {
        return Ok(());
    }
    let line = line_of(&cargo(&all));
    if first.failed.is_empty() || first.failed.len() > ONCE_MORE {
        return Err(format!("{line} failed"));
    }
    let names = first.failed.iter().map(String::as_str);
    let alone = all.into_iter().chain(["--", "--exact", "--test-threads=1"]).chain(names);
    let names = first.failed.join(", ");
    if !test(&mut cargo(&alone.collect::<Vec<_>>()))?.passed {
        return Err(format!("{line} failed, and failed again with nothing beside it: {names}"));
    }
    println!("FAILED ONCE, and passed with nothing beside it: {names}");
    Ok(())
}

/// How many failed tests are run once more, with nothing beside them.
///
/// On a machine that others use, too, a test of a thousand may get no CPU when it needs one; it is named then. What is
/// wrong fails twice, and more than these are no chance.
const ONCE_MORE: usize = 3;

/// What came of a run of tests.
struct Tested {
    passed: bool,
    /// The names of the tests that failed.
    failed: Vec<String>,
}

/// Runs the tests as they are seen with cargo, and ends in one line over all of them.
fn test(command: &mut Command) -> Result<Tested, String> {
    let line = line_of(command);
    eprintln!("xtask: {line}");
    let cannot = |error: io::Error| format!("{line} cannot be run: {error}");
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(cannot)?;
    let cargo_says = BufReader::new(child.stderr.take().expect("it is piped"));
    let failed_programs =
        thread::spawn(move || cargo_says.lines().map_while(Result::ok).filter(is_failed_program).count());
    let (mut sum, mut failed, mut told) = (Counts::default(), Vec::new(), 0);
    let mut screen = io::stdout();
    for said in BufReader::new(child.stdout.take().expect("it is piped")).lines() {
        let said = said.map_err(cannot)?;
        // A closed screen must not end the tests.
        let _ = writeln!(screen, "{said}");
        sum += Counts::read(&said).unwrap_or_default();
        failed.extend(name_of_failed(&said));
        told += usize::from(said.starts_with("test result: FAILED"));
    }
    let status = child.wait().map_err(cannot)?;
    let word = if status.success() { "ok" } else { "FAILED" };
    println!("test result: {word}. {} passed; {} failed; {} ignored in all", sum.passed, sum.failed, sum.ignored);
    // A test program that broke, or was not built, has failed without naming a test: then none is run again.
    let all_told = failed_programs.join().is_ok_and(|programs| programs == told) && failed.len() as u64 == sum.failed;
    let failed = if all_told { failed } else { Vec::new() };
    Ok(Tested { passed: status.success(), failed })
}

/// Whether this line of cargo's, which is shown, names a test program that failed: "    `-p linerate --test truth`".
#[allow(clippy::ptr_arg, reason = "a filter of lines hands them on as they are")]
fn is_failed_program(line: &String) -> bool {
    eprintln!("{line}");
    line.trim_start().starts_with("`-p ")
}

/// From `test bounds::both_ends ... FAILED`.
fn name_of_failed(line: &str) -> Option<String> {
    line.strip_prefix("test ")?
        .strip_suffix(" ... FAILED")
        .map(|name| name.trim_end_matches(" - should panic").to_owned())
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
    fn failed_tests_are_named() {
        assert_eq!(name_of_failed("test bounds::both ... FAILED").as_deref(), Some("bounds::both"));
        assert_eq!(name_of_failed("test bounds::both - should panic ... FAILED").as_deref(), Some("bounds::both"));
        assert_eq!(name_of_failed("test bounds::both ... ok"), None);
        assert_eq!(name_of_failed("test result: FAILED. 1 passed; 2 failed"), None);
    }

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
