//! Several test programs at once, each one's words in one piece, and what comes of all of them.
//! Knows a test by the lines that libtest prints.

use std::ffi::OsString;
use std::io::{self, Write};
use std::ops::AddAssign;
use std::sync::Mutex;

use crate::at_once::at_once;

use super::programs::{Ran, TestProgram};

/// What came of a run of tests.
#[derive(Default)]
pub(super) struct Tested {
    pub(super) counts: Counts,
    /// The programs that failed, and the tests that they say failed.
    pub(super) failed: Vec<(TestProgram, Vec<String>)>,
}

/// Runs these programs, so many at once.
pub(super) fn run(programs: Vec<TestProgram>, most: usize, arguments: &[OsString]) -> Result<Tested, String> {
    let tested = Mutex::new(Tested::default());
    let started = at_once(most, programs, |program| {
        let ran = program.run(arguments).map_err(|error| format!("{} cannot be started: {error}", program.name()))?;
        tested.lock().expect("nobody panics with it").add(program, &ran);
        Ok(())
    });
    started.into_iter().collect::<Result<(), String>>()?;
    Ok(tested.into_inner().expect("nobody panics with it"))
}

impl Tested {
    /// Shows what a program said, and counts it. Under the lock of all, so that one's words are not among another's.
    fn add(&mut self, program: TestProgram, ran: &Ran) {
        let mut screen = io::stdout().lock();
        // A closed screen must not end the tests.
        let _ = writeln!(screen, "\n     Running {} ({:.1} s)\n{}", program.name(), ran.took.as_secs_f64(), ran.stdout);
        let _ = write!(screen, "{}", ran.stderr);
        for line in ran.stdout.lines() {
            self.counts += Counts::read(line).unwrap_or_default();
        }
        if !ran.passed {
            let tests = ran.stdout.lines().filter_map(name_of_failed).collect();
            self.failed.push((program, tests));
        }
    }
}

/// From `test bounds::both_ends ... FAILED`.
fn name_of_failed(line: &str) -> Option<String> {
    line.strip_prefix("test ")?
        .strip_suffix(" ... FAILED")
        .map(|name| name.trim_end_matches(" - should panic").to_owned())
}

/// What a test program's closing line counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) passed: u64,
    pub(super) failed: u64,
    pub(super) ignored: u64,
}

impl Counts {
    /// From `test result: ok. 12 passed; 0 failed; 1 ignored; …`; `None`: another line.
    fn read(line: &str) -> Option<Counts> {
        let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
        let count = |what: &str| counts.split("; ").find_map(|part| part.strip_suffix(what)?.trim().parse().ok());
        Some(Counts { passed: count(" passed")?, failed: count(" failed")?, ignored: count(" ignored")? })
    }
}

impl AddAssign for Tested {
    fn add_assign(&mut self, mut more: Tested) {
        self.counts += more.counts;
        self.failed.append(&mut more.failed);
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
