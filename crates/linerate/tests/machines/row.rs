//! Three machines in a row for a test, and the real program between the outer two. Knows no figures.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use linerate_lab::{Forwards, MiddleLab, Privilege, privilege};
use linerate_machine::end::Party;
use linerate_path::budget::DropCause;
use linerate_path::stage::Stage;
use linerate_results::record::Record;

use super::{Bench, Running};

const LIMIT: Duration = Duration::from_secs(120);

/// The machines, and what a test needs beside them.
pub struct Row {
    pub bench: Bench,
    pub lab: MiddleLab,
}

impl Row {
    /// Three machines; `None`, and a line that says so, where this process may not make them or a tool is missing.
    pub fn of(name: &str, forwards: Forwards, tools: &[&str]) -> Option<Row> {
        let has = |tool: &&str| Command::new(tool).arg("--version").output().is_ok();
        if privilege() != Privilege::Root || !tools.iter().all(has) {
            eprintln!("SKIPPED {name}: it needs root, {}", tools.join(", "));
            return None;
        }
        let lab = MiddleLab::up(forwards).expect("three machines");
        Some(Row { bench: Bench::bare(name), lab })
    }

    /// Words of linerate's between the outer two, which prints JSON, and `--set` for each option.
    pub fn command(&self, words: &[&str], options: &[&str]) -> Command {
        let endpoint = |path: &Path| format!("netns:{}", path.display());
        let (target, host) = (endpoint(&self.lab.target.path()), endpoint(&self.lab.host.path()));
        let mut command = self.bench.linerate(words);
        command.args(["--json", "--target", &target, "--host", &host]);
        for option in options {
            command.args(["--set", option]);
        }
        command
    }

    /// `netns:PATH` of the middle.
    pub fn middle(&self) -> String {
        format!("netns:{}", self.lab.middle.path().display())
    }

    /// One trial through the middle, which an agent observes.
    #[track_caller]
    pub fn trial(&self, plan: &str, options: &[&str], more: &[&str]) -> Record {
        let mut command = self.command(&["run", plan, "--middle", &self.middle()], options);
        command.args(more);
        let ran = Running::start(command).wait(LIMIT);
        assert!(ran.status.success(), "{options:?}: {}", ran.stderr);
        let record: Record = serde_json::from_str(&ran.stdout).unwrap();
        assert_eq!(record.error, None);
        record
    }

    /// A command in the middle; what it says.
    #[track_caller]
    pub fn in_middle(&self, program: &str, arguments: &[&str]) -> String {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.lab.middle.path().display())).arg(program).args(arguments);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// A line of `tc` there.
    #[track_caller]
    pub fn tc(&self, line: &str) -> String {
        self.in_middle("tc", &line.split(' ').collect::<Vec<_>>())
    }
}

/// What the record lost in the middle: where, and how many.
pub fn lost_in_middle(record: &Record) -> Vec<(Stage, Option<DropCause>, u64)> {
    let lines = record.loss_budget.iter().flatten().filter(|line| line.end == Party::Middle);
    lines.map(|line| (line.stage, line.cause, line.packets)).collect()
}
