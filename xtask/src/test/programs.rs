//! The test programs of the workspace: what cargo builds of them, and how one is run.
//! Knows no test by name, and nothing of how many programs run at once.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::program::{line_of, root};

/// Longer than any of them takes: one that hangs must not take the others' results with it.
const LONGEST: Duration = Duration::from_secs(600);
/// How often it is seen whether a program has ended.
const LOOK: Duration = Duration::from_millis(20);

/// A program of tests.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TestProgram {
    /// The package that it tests.
    pub(super) package: String,
    /// As cargo calls it: the file of `tests/` without its ending; of unit tests the library or program.
    pub(super) target: String,
    /// Whether it stands in `tests/`, rather than beside the code.
    pub(super) is_integration: bool,
    executable: PathBuf,
    folder: PathBuf,
}

/// What came of a run.
pub(super) struct Ran {
    pub(super) passed: bool,
    pub(super) stdout: String,
    pub(super) stderr: String,
    pub(super) took: Duration,
}

/// Builds every test program of `cargo test` with these arguments, and says which there are.
pub(super) fn build(command: &mut Command) -> Result<Vec<TestProgram>, String> {
    command.args(["--no-run", "--message-format=json-render-diagnostics"]);
    let line = line_of(command);
    eprintln!("xtask: {line}");
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("{line} cannot be started: {error}"))?;
    if !output.status.success() {
        return Err(format!("{line} failed ({})", output.status));
    }
    let said = String::from_utf8_lossy(&output.stdout);
    let programs: BTreeSet<TestProgram> = said.lines().filter_map(TestProgram::read).collect();
    Ok(programs.into_iter().collect())
}

impl TestProgram {
    /// From a line of cargo's (cargo's reference, *External tools*, "JSON messages"); `None`: about something else.
    fn read(line: &str) -> Option<TestProgram> {
        let message: Value = serde_json::from_str(line).ok()?;
        if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
            return None;
        }
        let manifest = Path::new(message["manifest_path"].as_str()?);
        Some(TestProgram {
            package: manifest.parent()?.file_name()?.to_str()?.to_owned(),
            target: message["target"]["name"].as_str()?.to_owned(),
            is_integration: message["target"]["kind"].as_array()?.iter().any(|kind| kind == "test"),
            executable: message["executable"].as_str()?.into(),
            folder: manifest.parent()?.to_owned(),
        })
    }

    /// As people name it: `linerate/truth`.
    pub(super) fn name(&self) -> String {
        let kind = if self.is_integration { "/" } else { " unit tests of " };
        format!("{}{kind}{}", self.package, self.target)
    }

    /// Runs it as cargo does: in its package's folder, which it is also told by name.
    pub(super) fn run(&self, arguments: &[OsString]) -> io::Result<Ran> {
        let begun = Instant::now();
        let mut command = Command::new(&self.executable);
        command.args(arguments).current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder);
        command.env("CARGO", std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        // What insta would otherwise ask cargo for, each time.
        command.env("INSTA_WORKSPACE_ROOT", root());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let stdout = collected(child.stdout.take());
        let stderr = collected(child.stderr.take());
        let mut ended: Option<ExitStatus> = None;
        while ended.is_none() && begun.elapsed() < LONGEST {
            ended = child.try_wait()?;
            thread::sleep(LOOK);
        }
        if ended.is_none() {
            child.kill()?;
            child.wait()?;
        }
        let mut stderr = text(stderr);
        if ended.is_none() {
            stderr.push_str(&format!("\nended by xtask after {} s\n", LONGEST.as_secs()));
        }
        let passed = ended.is_some_and(|status| status.success());
        Ok(Ran { passed, stdout: text(stdout), stderr, took: begun.elapsed() })
    }
}

/// Reads what a program says while it runs, so that it never waits for a reader.
fn collected(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut said = Vec::new();
        if let Some(mut pipe) = pipe {
            // What a broken pipe still gave is shown.
            let _ = pipe.read_to_end(&mut said);
        }
        said
    })
}

fn text(said: thread::JoinHandle<Vec<u8>>) -> String {
    String::from_utf8_lossy(&said.join().unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargos_messages_name_test_programs() {
        let line =
            r#"{"reason":"compiler-artifact","manifest_path":"/w/crates/lab/Cargo.toml","target":{"kind":["test"],
            "name":"shaped"},"profile":{"test":true},"executable":"/w/target/debug/deps/shaped-1"}"#
                .replace('\n', "");
        let program = TestProgram::read(&line).unwrap();
        assert_eq!((program.name().as_str(), program.is_integration), ("lab/shaped", true));
        assert_eq!(program.folder, Path::new("/w/crates/lab"));
        assert_eq!(TestProgram::read(&line.replace("\"test\":true", "\"test\":false")), None);
        assert_eq!(TestProgram::read(&line.replace("compiler-artifact", "build-finished")), None);
        assert_eq!(TestProgram::read("warning: no JSON"), None);
    }

    #[test]
    fn a_program_says_how_it_ended_and_what_it_wrote() {
        let program = |executable: &str| TestProgram {
            package: "none".to_owned(),
            target: "shell".to_owned(),
            is_integration: true,
            executable: executable.into(),
            folder: "/".into(),
        };
        let run = |script: &str| program("/bin/sh").run(&["-c".into(), script.into()]).unwrap();
        let (good, bad) = (run("pwd; echo note >&2"), run("echo no; exit 3"));
        assert!(good.passed && !bad.passed);
        assert_eq!((good.stdout.as_str(), good.stderr.as_str(), bad.stdout.as_str()), ("/\n", "note\n", "no\n"));
        assert!(program("/nowhere").run(&[]).is_err());
    }
}
