//! `cargo xtask bench NAME`: speeds, measured with release builds between two namespaces that nothing limits.
//! Knows how to run linerate and where its figures go; what is measured stands in a file for each benchmark.
//!
//! Measured, never gating: the machine that runs CI is shared with others. Only `counts`, which counts instructions
//! and so finds the same on each machine, can fail.

mod beside;
mod counts;
mod frames;
mod judging;
mod overhead;
mod peers;
mod process;
mod sleeps;
mod slices;
mod statistics;
mod web;
mod work;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use linerate_lab::{Lab, Privilege, Shape, enter_user_namespace, privilege};
use serde_json::Value;

use crate::measured::write_part;
use crate::packages::FEATURES;
use crate::program::{cargo, must, root};

/// Runs the benchmark of this name.
pub fn run(words: impl Iterator<Item = OsString>) -> Result<(), String> {
    let words: Vec<String> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["peers", "frames", ..] => frames::run(&words[2..]),
        ["peers", ..] => peers::run(&words[1..]),
        ["counts", ..] => counts::run(&words[1..]),
        ["overhead"] => overhead::run().map(|part| println!("{part}")),
        ["overhead", "--write"] => {
            let part = overhead::run()?;
            println!("{part}");
            write_part("docs/benchmarks/README.md", "bench-overhead", &part)
        }
        ["judging"] => judging::run().map(|part| println!("{part}")),
        ["judging", "--write"] => {
            let part = judging::run()?;
            println!("{part}");
            write_part("docs/benchmarks/README.md", "bench-judging", &part)
        }
        ["profile"] => beside::run(&beside::PROFILE).map(|part| println!("{part}")),
        ["profile", "--write"] => {
            let part = beside::run(&beside::PROFILE)?;
            println!("{part}");
            write_part("docs/benchmarks/README.md", "bench-profile", &part)
        }
        ["drops"] => beside::run(&beside::DROP_REASONS).map(|part| println!("{part}")),
        ["drops", "--write"] => {
            let part = beside::run(&beside::DROP_REASONS)?;
            println!("{part}");
            write_part("docs/benchmarks/README.md", "bench-drops", &part)
        }
        ["slices"] => slices::run().map(|part| println!("{part}")),
        ["slices", "--write"] => {
            let part = slices::run()?;
            println!("{part}");
            write_part("docs/benchmarks/README.md", "bench-slices", &part)
        }
        ["web"] => web::run().map(|part| println!("{part}")),
        ["web", "--write"] => {
            let part = web::run()?;
            println!("{part}");
            write_part("docs/web.md", "bench-web", &part)
        }
        ["sleeps"] => sleeps::run().map(|part| println!("{part}")),
        ["sleeps", "--write"] => {
            let part = sleeps::run()?;
            println!("{part}");
            write_part("docs/benchmarks/peers.md", "bench-sleeps", &part)
        }
        ["work"] => work::run(100_000).map(|part| println!("{part}")),
        ["work", "--write"] => {
            let part = work::run(1_000_000)?;
            println!("{part}");
            write_part("docs/benchmarks/README.md", "bench-work", &part)
        }
        _ => Err(
            "it is: cargo xtask bench peers|counts|overhead|judging|profile|drops|slices|sleeps|web|work; see cargo xtask help"
                .to_owned(),
        ),
    }
}

/// Where cargo puts what it builds.
fn target_folder() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Two namespaces, and the program.
struct Bench {
    lab: Lab,
    program: PathBuf,
    store: PathBuf,
}

impl Bench {
    /// Builds the program and makes the lab. Must come before the first thread.
    fn start() -> Result<Bench, String> {
        Bench::shaped(&Shape::unshaped())
    }

    /// The same with a link of this shape.
    fn shaped(shape: &Shape) -> Result<Bench, String> {
        // As people have it, and as other benches build it.
        must(&mut cargo(&["build", "--release", "--package", "linerate", "--features", FEATURES]))?;
        match privilege() {
            Privilege::None { why } => return Err(why),
            Privilege::UserNamespace => enter_user_namespace().map_err(|error| error.to_string())?,
            Privilege::Root => {}
        }
        let lab = Lab::up(shape).map_err(|error| error.to_string())?;
        let store = std::env::temp_dir().join(format!("linerate-bench-{}.sqlite", std::process::id()));
        Ok(Bench { lab, program: target_folder().join("release/linerate"), store })
    }

    /// A run of a plan, ready to be started; it prints its records.
    fn command(&self, plan: &str, options: &[(&str, &str)]) -> Command {
        self.command_against(&self.target(), plan, options)
    }

    /// The same against any target.
    fn command_against(&self, target: &str, plan: &str, options: &[(&str, &str)]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["run", plan, "--json", "--quiet"]).arg("--store").arg(&self.store);
        command.args(["--target", target, "--host", &self.host()]);
        for (name, value) in options {
            command.args(["--set", &format!("{name}={value}")]);
        }
        command.stdin(Stdio::null());
        command
    }

    /// Runs a plan and returns its records.
    fn linerate(&self, plan: &str, options: &[(&str, &str)], more: &[&str]) -> Result<Vec<Value>, String> {
        let output = self.command(plan, options).args(more).output().map_err(|error| format!("linerate: {error}"))?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
        }
        records(&String::from_utf8_lossy(&output.stdout))
    }

    /// `netns:PATH` of the target.
    fn target(&self) -> String {
        format!("netns:{}", self.lab.target.path().display())
    }

    /// `netns:PATH` of the host.
    fn host(&self) -> String {
        format!("netns:{}", self.lab.host.path().display())
    }

    /// The host's network namespace as /proc names it; the host sends, or asks.
    fn host_namespace(&self) -> Result<PathBuf, String> {
        name_of(&self.lab.host.path())
    }

    /// The target's, which receives, or answers.
    fn target_namespace(&self) -> Result<PathBuf, String> {
        name_of(&self.lab.target.path())
    }
}

fn name_of(namespace: &Path) -> Result<PathBuf, String> {
    fs::read_link(namespace).map_err(|error| format!("{}: {error}", namespace.display()))
}

/// What linerate prints with `--json`: a record a line.
fn records(text: &str) -> Result<Vec<Value>, String> {
    text.lines().map(|line| serde_json::from_str(line).map_err(|error| error.to_string())).collect()
}

impl Drop for Bench {
    fn drop(&mut self) {
        for suffix in ["", "-wal", "-shm"] {
            let mut name = self.store.clone().into_os_string();
            name.push(suffix);
            let _ = fs::remove_file(name);
        }
    }
}
