//! `cargo xtask fuzz`: builds the fuzz targets of fuzz/ with libFuzzer's instrumentation and feeds them for a while.
//! Knows nothing of what the targets hold against each other; fuzz/README.md tells.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::at_once::{at_once, cpus};
use crate::program::{cargo, must, output_of, root};

/// What `cargo fuzz` gives a nightly compiler as `-Zsanitizer`; these work on stable.
const INSTRUMENTATION: [&str; 6] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Ccodegen-units=1",
];

/// Feeds one target, or all of them, as many at once as there are CPUs.
pub fn run(words: impl Iterator<Item = OsString>) -> Result<(), String> {
    let Arguments { target, seconds } = Arguments::parse(words)?;
    let folder = root().join("fuzz");
    let targets = targets(&folder)?;
    let chosen: Vec<&String> = targets.iter().filter(|name| target.as_ref().is_none_or(|one| one == *name)).collect();
    if chosen.is_empty() {
        let wanted = target.unwrap_or_default();
        return Err(format!("there is no fuzz target '{wanted}'; there are: {}", targets.join(", ")));
    }
    let host = host()?;
    // --target, although it is the machine's own: without it the flags would reach build scripts, which do not link
    // then. --target-dir, so that the programs are where they are looked for.
    must(
        cargo(&["build", "--release", "--locked", "--target", &host, "--target-dir", "target"])
            .current_dir(&folder)
            .env("RUSTFLAGS", INSTRUMENTATION.join(" "))
            .env_remove("CARGO_ENCODED_RUSTFLAGS"),
    )?;
    let programs = folder.join("target").join(&host).join("release");
    let fed = at_once(cpus(), chosen, |name| feed(&folder, &programs, name, seconds));
    let reports = fed.into_iter().collect::<Result<Vec<Report>, _>>()?;
    println!("\n| fuzz target | inputs | per second | finding |\n|---|--:|--:|---|");
    for Report { target, inputs, finding } in &reports {
        let finding = if finding.is_some() { "yes" } else { "none" };
        println!("| {target} | {inputs} | {} | {finding} |", inputs / seconds.max(1));
    }
    reports.into_iter().find_map(|report| report.finding).map_or(Ok(()), Err)
}

struct Arguments {
    target: Option<String>,
    seconds: u64,
}

impl Arguments {
    fn parse(words: impl Iterator<Item = OsString>) -> Result<Arguments, String> {
        use lexopt::prelude::{Long, Value, ValueExt};
        let mut arguments = Arguments { target: None, seconds: 60 };
        let mut parser = lexopt::Parser::from_args(words);
        let see = |error: lexopt::Error| format!("{error}; it is: cargo xtask fuzz [TARGET] [--seconds N]");
        while let Some(word) = parser.next().map_err(see)? {
            match word {
                Long("seconds") => arguments.seconds = parser.value().and_then(|value| value.parse()).map_err(see)?,
                Value(name) if arguments.target.is_none() => arguments.target = Some(name.string().map_err(see)?),
                other => return Err(see(other.unexpected())),
            }
        }
        // libFuzzer takes 0 for "without end".
        if arguments.seconds == 0 { Err("--seconds must be at least 1".to_owned()) } else { Ok(arguments) }
    }
}

/// What came of a target.
struct Report {
    target: String,
    inputs: u64,
    /// A sentence.
    finding: Option<String>,
}

fn feed(folder: &Path, programs: &Path, name: &str, seconds: u64) -> Result<Report, String> {
    let (corpus, seeds, artifacts) = (format!("corpus/{name}"), format!("seeds/{name}"), format!("artifacts/{name}/"));
    for needed in [&corpus, &seeds, &artifacts] {
        fs::create_dir_all(folder.join(needed)).map_err(|error| format!("fuzz/{needed} cannot be made: {error}"))?;
    }
    eprintln!("xtask: {name} for {seconds} s");
    // -print_final_stats: the number of inputs. What else it says is of interest only when something was found.
    let output = Command::new(programs.join(name))
        .current_dir(folder)
        .args([&corpus, &seeds])
        .arg(format!("-artifact_prefix={artifacts}"))
        .arg(format!("-max_total_time={seconds}"))
        .args(["-max_len=8192", "-timeout=10", "-rss_limit_mb=512", "-print_final_stats=1"])
        .output()
        .map_err(|error| format!("the fuzz target {name} cannot be started: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let inputs =
        said.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:")?.trim().parse().ok());
    let finding = (!output.status.success()).then(|| {
        eprintln!("{said}");
        format!("the fuzz target {name} found something ({}): see fuzz/{artifacts} and the lines above", output.status)
    });
    match (inputs, finding) {
        // A target that is killed counts nothing.
        (inputs, Some(finding)) => {
            Ok(Report { target: name.to_owned(), inputs: inputs.unwrap_or(0), finding: Some(finding) })
        }
        (Some(inputs @ 1..), None) => Ok(Report { target: name.to_owned(), inputs, finding: None }),
        (_, None) => Err(format!("the fuzz target {name} ran without a single input; it said:\n{said}")),
    }
}

/// The names of the files in fuzz/fuzz_targets.
fn targets(folder: &Path) -> Result<Vec<String>, String> {
    let folder = folder.join("fuzz_targets");
    let files = fs::read_dir(&folder).map_err(|error| format!("{} cannot be read: {error}", folder.display()))?;
    let mut names: Vec<String> =
        files.flatten().filter_map(|file| Some(file.file_name().to_str()?.strip_suffix(".rs")?.to_owned())).collect();
    names.sort();
    Ok(names)
}

/// This machine, as the compiler calls it.
fn host() -> Result<String, String> {
    let version = output_of(Command::new("rustc").arg("-vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "rustc -vV does not tell its host".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(words: &str, expected: Option<(Option<&str>, u64)>) {
        let parsed = Arguments::parse(words.split_whitespace().map(OsString::from));
        let parsed = parsed.ok().map(|arguments| (arguments.target, arguments.seconds));
        assert_eq!(parsed, expected.map(|(target, seconds)| (target.map(str::to_owned), seconds)));
    }

    #[test]
    fn a_target_and_a_time() {
        check("", Some((None, 60)));
        check("probe", Some((Some("probe"), 60)));
        check("--seconds 600 probe", Some((Some("probe"), 600)));
        check("--seconds", None);
        check("--seconds 0", None);
        check("probe noise", None);
        check("--minutes 1", None);
    }

    #[test]
    fn every_target_is_declared() {
        let folder = root().join("fuzz");
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        let targets = targets(&folder).unwrap();
        assert!(!targets.is_empty());
        for name in targets {
            assert!(
                manifest.contains(&format!("path = \"fuzz_targets/{name}.rs\"")),
                "{name} is not in fuzz/Cargo.toml"
            );
        }
    }
}
