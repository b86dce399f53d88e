//! The forms that CI reads, where the command line wants them: files, whole or not at all, and standard output.
//! Knows no case and no form; what a command makes of itself is its own.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Result, anyhow, bail};

use super::atomic_file::{checked, write_whole};
use crate::cli::CasesArgs;
use crate::output::{form, guard_signals, reserve_stdout, say};
use crate::render::cases::Cases;

/// What `-` is as a file.
const STDOUT: &str = "-";

type Render = fn(&Cases) -> String;

/// The forms that are wanted, until they are written.
pub(super) struct CaseFiles {
    /// The option, the file as it was given, the file to write, and what stands in it.
    files: Vec<(&'static str, PathBuf, PathBuf, Render)>,
    stdout: Option<Render>,
    /// What tells LAVA of a case, where its test shell has put it.
    lava_test_case: Option<PathBuf>,
    /// What is written if the command ends before it knows more.
    foreseen: Cases,
    outcome: Option<Result<()>>,
}

impl CaseFiles {
    /// Sees that everything can be written before anything else is done, and takes away what an earlier run left: nobody
    /// shall read that for this one's. `foreseen`: what is known of the cases by now. `for_programs`: the option by which
    /// standard output is for a program already.
    pub(super) fn begin(arguments: &CasesArgs, foreseen: Cases, for_programs: Option<&str>) -> Result<CaseFiles> {
        let CasesArgs { junit, tap, lava, summary } = arguments;
        let mut files = CaseFiles { files: Vec::new(), stdout: None, lava_test_case: None, foreseen, outcome: None };
        let mut on_stdout = for_programs.map(str::to_owned);
        let mut take_stdout = |what: String| match on_stdout.replace(what.clone()) {
            Some(other) => {
                bail!("{what} and {other} both want standard output; give one of them a file, or leave it out")
            }
            None => Ok(()),
        };
        if *lava {
            take_stdout("--lava".to_owned())?;
            files.stdout = Some(Cases::lava);
            files.lava_test_case = in_path("lava-test-case");
            guard_signals();
        }
        let forms: [(&'static str, &Option<PathBuf>, Render); 3] =
            [("--junit", junit, Cases::junit), ("--tap", tap, Cases::ktap), ("--summary", summary, Cases::summary)];
        for (option, path, render) in forms {
            match path {
                Some(path) if path.as_os_str() == STDOUT => {
                    take_stdout(format!("{option} {STDOUT}"))?;
                    files.stdout = Some(render);
                    reserve_stdout();
                }
                Some(path) => {
                    let real = checked(path).map_err(|why| refused(option, path, &why))?;
                    if let Some((other, ..)) = files.files.iter().find(|(_, _, one, _)| *one == real) {
                        bail!("{other} and {option} name the same file; give each its own");
                    }
                    files.files.push((option, path.clone(), real, render));
                }
                None => {}
            }
        }
        for (option, path, real, _) in &files.files {
            match fs::remove_file(real) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(refused(option, path, &error.to_string()));
                }
                _ => {}
            }
        }
        Ok(files)
    }

    /// Whether any form is wanted.
    pub(super) fn are_wanted(&self) -> bool {
        !self.files.is_empty() || self.stdout.is_some()
    }

    /// What is known of the cases by now.
    pub(super) fn foresee(&mut self, cases: Cases) {
        self.foreseen = cases;
    }

    /// Writes the forms: files first, for standard output may have no reader any more.
    pub(super) fn write(&mut self, cases: &Cases) {
        let written = self.files.iter().try_for_each(|(option, path, real, render)| {
            write_whole(real, &render(cases)).map_err(|error| refused(option, path, &error.to_string()))
        });
        match (self.stdout, &self.lava_test_case) {
            (Some(_), Some(program)) => {
                for signal in cases.signals() {
                    form(&said_by(program, &signal.arguments()).unwrap_or_else(|| signal.line()));
                }
            }
            (Some(render), None) => form(&render(cases)),
            (None, _) => {}
        }
        self.outcome = Some(written);
    }

    /// The command ends so: what was not written by now has a case that says why.
    pub(super) fn end(mut self, ended: Result<ExitCode>) -> Result<ExitCode> {
        if self.outcome.is_none() && self.are_wanted() {
            let mut cases = self.foreseen.clone();
            if let (Err(error), false) = (&ended, cases.is_red()) {
                cases.broke_off(&format!("{error:#}"));
            }
            self.write(&cases);
        }
        match (ended, self.outcome.unwrap_or(Ok(()))) {
            (Ok(_), Err(error)) => Err(error),
            (Err(first), Err(error)) => {
                say(format_args!("linerate: {error:#}"));
                Err(first)
            }
            (ended, Ok(())) => ended,
        }
    }
}

/// The program of this name that a shell would start.
fn in_path(name: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// What `lava-test-case` prints: where a shell's signals go through the kernel's log, nothing. `None`: it failed.
fn said_by(program: &Path, arguments: &[&str]) -> Option<String> {
    let ran = Command::new(program).args(arguments).stdin(Stdio::null()).stderr(Stdio::inherit()).output().ok()?;
    ran.status.success().then(|| String::from_utf8_lossy(&ran.stdout).into_owned())
}

fn refused(option: &str, path: &Path, why: &str) -> anyhow::Error {
    anyhow!(
        "{option}: {} cannot be written: {why}; name a file in a folder that is there and can be written",
        path.display()
    )
}
