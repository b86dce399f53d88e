//! `cargo xtask bench NAME`: speeds, measured with release builds between two namespaces that nothing limits.
//! Knows how to run linerate and where its figures go; what is measured stands in a file for each benchmark.
//!
//! Measured, never gating: the machine that runs CI is shared with others.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use linerate_lab::{Lab, Privilege, Shape, enter_user_namespace, privilege};
use serde_json::Value;

use crate::agent_size::machine;
use crate::markdown::with_part;
use crate::program::{cargo, must, root};
use crate::{bench_iperf3, bench_overhead};

const DOCUMENT: &str = "docs/benchmarks.md";

/// Measures and prints; with `--write` the figures go into docs/benchmarks.md too.
pub fn run(words: impl Iterator<Item = OsString>) -> Result<(), String> {
    let words: Vec<String> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    let (name, write) = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [name] => (name, false),
        [name, "--write"] => (name, true),
        _ => return Err("it is: cargo xtask bench overhead|iperf3 [--write]".to_owned()),
    };
    let part = match name {
        "overhead" => bench_overhead::run()?,
        "iperf3" => bench_iperf3::run()?,
        _ => return Err(format!("there is no benchmark {name}; there are overhead and iperf3")),
    };
    println!("{part}");
    if !write {
        return Ok(());
    }
    let path = root().join(DOCUMENT);
    let text = fs::read_to_string(&path).map_err(|error| format!("{DOCUMENT}: {error}"))?;
    let place = format!("bench-{name}");
    let part = format!("{}\n\n{part}", machine()?);
    let text = with_part(&text, &place, &part).ok_or(format!("{DOCUMENT} has no line <!-- {place} -->"))?;
    fs::write(&path, text).map_err(|error| format!("{DOCUMENT} cannot be written: {error}"))
}

/// Two namespaces, and the program.
pub(crate) struct Bench {
    pub lab: Lab,
    program: PathBuf,
    store: PathBuf,
}

impl Bench {
    /// Builds the program and makes the lab. Must come before the first thread.
    pub(crate) fn start() -> Result<Bench, String> {
        must(&mut cargo(&["build", "--release", "--package", "linerate"]))?;
        match privilege() {
            Privilege::None { why } => return Err(why),
            Privilege::UserNamespace => enter_user_namespace().map_err(|error| error.to_string())?,
            Privilege::Root => {}
        }
        let lab = Lab::up(&Shape::unshaped()).map_err(|error| error.to_string())?;
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
        let store = std::env::temp_dir().join(format!("linerate-bench-{}.sqlite", std::process::id()));
        Ok(Bench { lab, program: target.join("release/linerate"), store })
    }

    /// Runs a plan and returns its records.
    pub(crate) fn linerate(&self, plan: &str, options: &[(&str, &str)], more: &[&str]) -> Result<Vec<Value>, String> {
        let endpoint = |path: PathBuf| format!("netns:{}", path.display());
        let mut command = Command::new(&self.program);
        command.args(["run", plan, "--json", "--quiet"]).arg("--store").arg(&self.store).args(more);
        command.args(["--target", &endpoint(self.lab.target_netns()), "--host", &endpoint(self.lab.host_netns())]);
        for (name, value) in options {
            command.args(["--set", &format!("{name}={value}")]);
        }
        let output = command.stdin(Stdio::null()).output().map_err(|error| format!("linerate: {error}"))?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
        }
        let text = String::from_utf8_lossy(&output.stdout);
        text.lines().map(|line| serde_json::from_str(line).map_err(|error| error.to_string())).collect()
    }
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

/// The middle one.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        even if even % 2 == 0 => (sorted[middle - 1] + sorted[middle]) / 2.0,
        _ => sorted[middle],
    }
}

/// The smallest and the largest.
pub(crate) fn range(values: &[f64]) -> (f64, f64) {
    values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &value| (low.min(value), high.max(value)))
}
