//! `cargo xtask bench judging`: how long `linerate compare`, `linerate history` and `linerate records push` take over large stores, in a
//! file and on a PostgreSQL server.
//! Knows wall clocks and how to have stores made; what the programs say is held elsewhere.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use linerate_lab::services::Postgres;

use super::statistics::{median, range};
use super::target_folder;
use crate::packages::FEATURES;
use crate::program::{cargo, must};

const ROUNDS: usize = 5;

/// Stores, by what the example that makes them is told: campaigns, loads, repeats, and how many times more their figures.
const TWO_CAMPAIGNS: [u32; 4] = [2, 1000, 10, 0];
const ONE_CAMPAIGN: [u32; 4] = [1, 1000, 10, 0];
const LONG: [u32; 4] = [1, 10, 10, 9999];

const COMPARE: &[&str] = &["compare", "last~1", "last"];
const HISTORY: &[&str] = &["history", "throughput"];

/// Makes the stores and times the programs; returns the table.
pub fn run() -> Result<String, String> {
    must(&mut cargo(&["build", "--release", "--package", "linerate", "--features", FEATURES]))?;
    let example =
        ["build", "--release", "--package", "linerate-results", "--features", "sample,postgres", "--example", "stores"];
    must(&mut cargo(&example))?;
    let folder = Folder::new()?;
    let mut table = format!(
        "The whole command, from its start to its end, {ROUNDS} times, with a store that was just written.\n\n\
         | command | store | median ms | least and most ms |\n|---|---|--:|--:|\n"
    );
    let mut row = |what: &str, place: &str, times: &[f64]| {
        let (least, most) = range(times);
        table += &format!("| {what} | {place} | {:.0} | {least:.0} – {most:.0} |\n", median(times));
    };
    let compare = "compare, two campaigns of 10,000 records";
    let history = "history, the last 1,000 of 10,000 campaigns, 1,000,000 records";
    for (what, shape, words) in [(compare, TWO_CAMPAIGNS, COMPARE), (history, LONG, HISTORY)] {
        let store = folder.store("file");
        made(&store, shape)?;
        row(what, "a file", &rounds(|_| time(words, &store))?);
        remove(&store);
    }
    if !Postgres::is_installed() {
        return Err("PostgreSQL is not installed; cargo xtask setup servers".to_owned());
    }
    let started = |name: &str| Postgres::start(&folder.0.join(name)).map_err(|error| error.to_string());
    for (what, shape, words) in [(compare, TWO_CAMPAIGNS, COMPARE), (history, LONG, HISTORY)] {
        let server = started(words[0])?;
        made(&server.url(), shape)?;
        row(what, "a server", &rounds(|_| time(words, &server.url()))?);
    }
    let store = folder.store("file");
    made(&store, ONE_CAMPAIGN)?;
    let pushed = rounds(|round| {
        let server = started(&format!("push-{round}"))?;
        // Its tables are there, as a team's are.
        made(&server.url(), [0, 0, 0, 0])?;
        time(&["records", "push", &server.url()], &store)
    })?;
    row("records push, 10,000 records", "from a file to a server", &pushed);
    Ok(table)
}

fn rounds(once: impl FnMut(usize) -> Result<f64, String>) -> Result<Vec<f64>, String> {
    (0..ROUNDS).map(once).collect()
}

/// Makes a store of this shape, in a file or on a server.
fn made(store: &str, shape: [u32; 4]) -> Result<(), String> {
    let mut command = Command::new(target_folder().join("release/examples/stores"));
    command.arg(store).args(shape.map(|number| number.to_string())).stdout(Stdio::null());
    must(&mut command)
}

/// How long the program takes, milliseconds.
fn time(words: &[&str], store: &str) -> Result<f64, String> {
    let mut command = Command::new(target_folder().join("release/linerate"));
    command.args(words).args(["--store", store]).stdin(Stdio::null());
    let began = Instant::now();
    let output = command.output().map_err(|error| format!("linerate: {error}"))?;
    let took = began.elapsed();
    if !output.status.success() || output.stdout.is_empty() {
        return Err(format!("linerate {}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr).trim()));
    }
    Ok(took.as_secs_f64() * 1e3)
}

fn remove(store: &str) {
    for suffix in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(format!("{store}{suffix}"));
    }
}

/// Where stores are; it goes away with the value.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Folder, String> {
        let folder = std::env::temp_dir().join(format!("linerate-judging-{}", std::process::id()));
        fs::create_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(Folder(folder))
    }

    fn store(&self, name: &str) -> String {
        self.0.join(format!("{name}.sqlite")).display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
