//! `cargo xtask test`: installs what the tests need, then format, rules and tests. Clippy, which compiles all of it once more, is
//! among CI's parts behind it.
//! Knows which test programs want the machine for themselves.

mod programs;
mod together;

use std::ffi::OsString;

use crate::at_once::cpus;
use crate::program::{TESTED, cargo, line_of, must};
use crate::{setup, tidy};

use programs::TestProgram;
use together::Tested;

/// How many more test programs run at once than there are CPUs. Much of their time they wait for a network's or a peer's.
const MORE_THAN_CPUS: usize = 2;

/// Test programs whose figures other programs' load would change, or that hold what a whole machine did (its processes, its
/// counters, its time) against what they did themselves: one after the other, when the others are done.
const ALONE: [&str; 9] = [
    "host/pacing",
    "host/seen",
    "host/tcp_apis",
    "host/traffic",
    "host/udp_apis",
    "lab/shaped",
    "linerate/devices",
    "linerate/middle",
    "linerate/search",
];

/// Test programs that `.ci/run` runs whole behind this command: with what they need from outside (a browser, servers, others'
/// readers), or with more of what they draw by chance. Built here, and named as left out.
const BEHIND: [&str; 11] = [
    "linerate/accessibility",
    "linerate/browser",
    "linerate/findings",
    "linerate/hostile",
    "linerate/plugs",
    "linerate/proof",
    "linerate/restoration",
    "linerate/truth",
    "linerate/web",
    "model/truths",
    "results/engines",
];

/// Checks everything that a change can break, fast checks first; or runs these test programs alone, one after the other.
pub fn run(words: impl Iterator<Item = OsString>) -> Result<(), String> {
    let asked: Vec<String> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    setup::run(std::iter::empty())?;
    if asked.is_empty() {
        must(&mut cargo(&["fmt", "--all", "--check"]))?;
        tidy::run(std::iter::empty())?;
    }
    let mut all = cargo(&["test", "--workspace", TESTED]);
    let line = line_of(&all);
    let programs = programs::build(&mut all)?;
    let is_missing = |name: &&str| !programs.iter().any(|program| program.name() == **name);
    let missing: Vec<&str> = ALONE.into_iter().chain(BEHIND).filter(is_missing).collect();
    if !missing.is_empty() {
        return Err(format!("there is no test program {}; see ALONE and BEHIND in xtask/src/test", missing.join(", ")));
    }
    let missing: Vec<&str> = asked.iter().map(String::as_str).filter(is_missing).collect();
    if !missing.is_empty() {
        return Err(format!(
            "there is no test program {}; one is called as {}",
            missing.join(", "),
            BEHIND.join(" or ")
        ));
    }
    let first = if asked.is_empty() {
        println!("SKIPPED here, for .ci/run runs them behind this: {}", BEHIND.join(", "));
        let here = programs.into_iter().filter(|program| !BEHIND.contains(&program.name().as_str()));
        let (alone, together): (Vec<TestProgram>, Vec<TestProgram>) =
            here.partition(|program| ALONE.contains(&program.name().as_str()));
        let mut first = together::run(together, cpus() + MORE_THAN_CPUS, &[])?;
        first += together::run(alone, 1, &[])?;
        first
    } else {
        let these = programs.into_iter().filter(|program| asked.contains(&program.name()));
        together::run(these.collect(), 1, &[])?
    };
    let result = once_more(&line, &first);
    let word = if result.is_ok() { "ok" } else { "FAILED" };
    let counts = first.counts;
    println!(
        "test result: {word}. {} passed; {} failed; {} ignored in all",
        counts.passed, counts.failed, counts.ignored
    );
    result
}

/// How many failed tests are run once more, with nothing beside them.
///
/// Beside other programs, and on a machine that others use, too, a test of hundreds may get no CPU when it needs one; it is
/// named then. What is wrong fails twice, and more than these are no chance.
const ONCE_MORE: usize = 8;

fn once_more(line: &str, first: &Tested) -> Result<(), String> {
    let failed = &first.failed;
    if failed.is_empty() {
        return Ok(());
    }
    let all: Vec<&str> = failed.iter().flat_map(|(_, tests)| tests).map(String::as_str).collect();
    let names = all.join(", ");
    // A test program that broke has failed without naming a test: then none is run again.
    let broken: Vec<String> =
        failed.iter().filter(|(_, tests)| tests.is_empty()).map(|(program, _)| program.name()).collect();
    if !broken.is_empty() {
        return Err(format!("{line} failed: {} broke; failed tests: {names}", broken.join(", ")));
    }
    if all.len() > ONCE_MORE {
        return Err(format!("{line} failed: {names}"));
    }
    for (program, tests) in failed {
        let arguments = ["--exact", "--test-threads=1"].into_iter().chain(tests.iter().map(String::as_str));
        let again = together::run(vec![program.clone()], 1, &arguments.map(OsString::from).collect::<Vec<_>>())?;
        if !again.failed.is_empty() {
            return Err(format!("{line} failed, and failed again with nothing beside it: {}", tests.join(", ")));
        }
    }
    println!("FAILED ONCE, and passed with nothing beside it: {names}");
    Ok(())
}
