//! A board that runs in `linerate lab up`, and what a test does with it.
//! Knows no board by name.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use linerate_results::record::Record;

use crate::machines::{Bench, Ran, Running};

/// A campaign of a few trials of a second.
pub const CAMPAIGN: Duration = Duration::from_secs(240);
/// A short command.
pub const COMMAND: Duration = Duration::from_secs(60);

/// A board that runs in `linerate lab up`, and what a test does with it.
pub struct Lab {
    pub name: &'static str,
    pub up: Child,
    pub bench: Bench,
}

/// What `lab up` says where this machine lacks something: that is no fault of linerate's.
const LACKS: [&str; 7] = [
    "there is no linerate-agent-",
    "there is no linerate-firmware-",
    "this board needs QEMU",
    "not installed; install",
    "package sources have no",
    "apt-get failed:",
    "cable cannot be made",
];

impl Lab {
    /// Starts the board; `None`, and a line that says why, where it cannot be or was not asked for.
    pub fn up(name: &'static str) -> Option<Lab> {
        let bench = Bench::bare(name);
        let Some(asked) = std::env::var_os("LINERATE_BOARDS") else {
            eprintln!("SKIPPED board {name}: LINERATE_BOARDS=1 asks for emulated boards, which take minutes each");
            return None;
        };
        let mut command = Lab::command(&bench, &["lab", "up", name]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut up = command.spawn().expect("linerate can be started");
        let (stdout, stderr) = (up.stdout.take().expect("it was asked for"), up.stderr.take().expect("and this"));
        // It says that the board runs, or ends.
        if BufReader::new(stdout).lines().map_while(Result::ok).any(|line| line.contains("ends it")) {
            // Nobody listens to what it says later, which must not stop it.
            std::thread::spawn(move || std::io::copy(&mut BufReader::new(stderr), &mut std::io::sink()));
            return Some(Lab { name, up, bench });
        }
        let said = std::io::read_to_string(stderr).unwrap_or_default();
        let status = up.wait();
        let why = said.trim().trim_start_matches("linerate: ");
        assert!(LACKS.iter().any(|part| why.contains(part)), "the board did not start: {why} {status:?}");
        assert!(asked != "all", "LINERATE_BOARDS=all demands the board {name}: {why}");
        eprintln!("SKIPPED board {name}: {why}");
        None
    }

    fn command(bench: &Bench, arguments: &[&str]) -> Command {
        let mut command = bench.linerate(arguments);
        command.env("XDG_RUNTIME_DIR", &bench.folder.0);
        command
    }

    pub fn start(&self, arguments: &[&str]) -> Running {
        Running::start(Lab::command(&self.bench, arguments))
    }

    pub fn endpoint(&self) -> String {
        format!("board:{}", self.name)
    }

    /// `linerate run PLAN` on it, with these options set.
    pub fn begin(&self, plan: &str, options: &[&str]) -> Running {
        let target = self.endpoint();
        let mut arguments = vec!["run", plan, "--target", &target];
        options.iter().for_each(|option| arguments.extend(["--set", option]));
        self.start(&arguments)
    }

    pub fn run(&self, plan: &str, options: &[&str]) -> (Ran, Vec<Record>) {
        let before = self.bench.records().len();
        let ran = self.begin(plan, options).wait(CAMPAIGN);
        (ran, self.bench.records().split_off(before))
    }

    /// `linerate target board:NAME …`, which succeeds.
    #[track_caller]
    pub fn target(&self, words: &[&str]) -> Ran {
        let endpoint = self.endpoint();
        let arguments: Vec<&str> = ["target", &endpoint].into_iter().chain(words.iter().copied()).collect();
        let ran = self.start(&arguments).wait(COMMAND);
        ran.check_done();
        ran
    }

    /// A setting as the board has it now.
    #[track_caller]
    pub fn setting(&self, name: &str) -> String {
        let ran = self.target(&["get", name]);
        ran.stdout.split_whitespace().nth(1).unwrap_or_default().to_owned()
    }

    /// What a command on the board's own shell says; the agent knows nothing of it.
    pub fn shell(&self, command: &str) -> String {
        let mut child = Lab::command(&self.bench, &["lab", "shell", self.name]);
        let mut child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(format!("echo; echo \"<$({command})>\"\n").as_bytes()).unwrap();
        let said = String::from_utf8_lossy(&child.wait_with_output().unwrap().stdout).into_owned();
        let answer = said.rsplit_once("\n<").and_then(|(_, rest)| rest.split_once('>'));
        answer.unwrap_or_else(|| panic!("no answer in {said:?}")).0.to_owned()
    }

    pub fn cable(&self, state: &str) {
        self.start(&["lab", "cable", self.name, state]).wait(COMMAND).check_done();
    }
}

impl Drop for Lab {
    /// Ends it as a crash would: nothing may be left, whoever was killed.
    fn drop(&mut self) {
        let _ = self.up.kill();
        let _ = self.up.wait();
        if !std::thread::panicking() {
            self.bench.check_nothing_runs(Duration::from_secs(20));
        }
    }
}
