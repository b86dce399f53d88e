//! `cargo xtask bench judging`: how long `linerate compare` and `linerate history` take over large stores.
//! Knows wall clocks and how to have stores made; what the two programs say is held elsewhere.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use super::statistics::{median, range};
use super::target_folder;
use crate::program::{cargo, must};

const ROUNDS: usize = 5;

/// A store, and what is asked of it.
struct Work {
    name: &'static str,
    /// Campaigns, loads and repeats.
    store: [u32; 3],
    words: &'static [&'static str],
}

const WORKS: [Work; 2] = [
    Work {
        name: "compare, two campaigns of 10,000 records",
        store: [2, 1000, 10],
        words: &["compare", "last~1", "last"],
    },
    Work {
        name: "history, 1,000 campaigns, 100,000 records",
        store: [1000, 10, 10],
        words: &["history", "throughput"],
    },
];

/// Makes the stores and times the programs; returns the table.
pub fn run() -> Result<String, String> {
    must(&mut cargo(&["build", "--release", "--package", "linerate"]))?;
    let example =
        ["build", "--release", "--package", "linerate-results", "--features", "sample", "--example", "stores"];
    must(&mut cargo(&example))?;
    let mut table = format!(
        "The whole command, from its start to its end, {ROUNDS} times, with a store that was just written.\n\n\
         | command | median ms | least and most ms |\n|---|--:|--:|\n"
    );
    for work in WORKS {
        let store = Store::make(&work)?;
        let mut times = Vec::new();
        for _ in 0..ROUNDS {
            times.push(store.time(work.words)?);
        }
        let (least, most) = range(&times);
        table += &format!("| {} | {:.0} | {least:.0} – {most:.0} |\n", work.name, median(&times));
    }
    Ok(table)
}

/// A store in a file, which goes away with the value.
struct Store(PathBuf);

impl Store {
    fn make(work: &Work) -> Result<Store, String> {
        let name = format!("linerate-judging-{}.sqlite", std::process::id());
        let store = Store(std::env::temp_dir().join(name));
        let mut command = Command::new(target_folder().join("release/examples/stores"));
        command.arg(&store.0).args(work.store.map(|number| number.to_string())).stdout(Stdio::null());
        must(&mut command)?;
        Ok(store)
    }

    /// Milliseconds.
    fn time(&self, words: &[&str]) -> Result<f64, String> {
        let mut command = Command::new(target_folder().join("release/linerate"));
        command.args(words).arg("--store").arg(&self.0).stdin(Stdio::null());
        let began = Instant::now();
        let output = command.output().map_err(|error| format!("linerate: {error}"))?;
        let took = began.elapsed();
        if !output.status.success() || output.stdout.is_empty() {
            return Err(format!("linerate {}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr).trim()));
        }
        Ok(took.as_secs_f64() * 1e3)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        for suffix in ["", "-wal", "-shm"] {
            let _ = fs::remove_file(Path::new(&format!("{}{suffix}", self.0.display())));
        }
    }
}
