//! `cargo xtask bench counts`: instructions of the hot loops, counted by callgrind and held against those committed.
//! Knows the loops by the names that crates/host/examples/counts.rs gives them.
//!
//! Instructions of the program itself, not the kernel's. A loop is run N times and 2 N times, and the difference is
//! N times the loop: what comes before and after falls out, and so does the machine's speed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::process::Running;
use super::{target_folder, write_part};
use crate::markdown::table;
use crate::program::{cargo, must, root};
use crate::setup;

const DOCUMENT: &str = "docs/benchmarks/counts.md";
const PLACE: &str = "bench-counts";
const COLUMNS: [&str; 2] = ["hot loop", "instructions"];

/// What may be more than the committed count before it is a failure: as a share, and in instructions, because a
/// compiler that places one instruction elsewhere has done no harm.
const TOLERANCE: f64 = 0.03;
const TOLERANCE_INSTRUCTIONS: f64 = 1.0;

/// A loop whose turns are counted.
struct Loop {
    /// As the table has it.
    name: &'static str,
    /// Its name and options for the example.
    words: &'static [&'static str],
    /// callgrind's number of the thread that runs it: 1 is main, 2 the first flow's.
    thread: u32,
    turns: u64,
}

const fn pure(name: &'static str, words: &'static [&'static str]) -> Loop {
    Loop { name, words, thread: 1, turns: 20_000 }
}

/// Receivers are not among them: how many datagrams or octets a call brings is the kernel's choice, and a call's share
/// of each is another one from run to run.
const LOOPS: [Loop; 6] = [
    pure("Pacer, a departure", &["pacer"]),
    pure("Probe, written and read", &["probe"]),
    pure("Tracker, a datagram in order", &["tracker"]),
    pure("Histogram, a value", &["histogram"]),
    Loop { name: "UDP sender, a datagram, unpaced", words: &["udp-send"], thread: 2, turns: 20_000 },
    Loop { name: "TCP sender, a write of 128 KiB", words: &["tcp-send"], thread: 2, turns: 4000 },
];

/// Counts and prints; `--write` commits the counts to the document, `--check` fails where one rose.
pub(super) fn run(words: &[String]) -> Result<(), String> {
    let (check, write) = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => (false, false),
        ["--check"] => (true, false),
        ["--write"] => (false, true),
        _ => return Err("it is: cargo xtask bench counts [--check|--write]".to_owned()),
    };
    setup::install(&[("valgrind", "valgrind")])?;
    must(&mut cargo(&["build", "--release", "--package", "linerate-host", "--example", "counts"]))?;
    let program = target_folder().join("release/examples/counts");
    let mut counts = Vec::new();
    for one in &LOOPS {
        let of = |turns| instructions(&program, one, turns);
        let instructions = (of(2 * one.turns)? as f64 - of(one.turns)? as f64) / one.turns as f64;
        eprintln!("xtask: {}: {instructions:.1}", one.name);
        counts.push((one.name, instructions));
    }
    let rows: String = counts.iter().map(|(name, count)| format!("| {name} | {count:.1} |\n")).collect();
    let part = format!("| {} | {} |\n|---|--:|\n{rows}", COLUMNS[0], COLUMNS[1]);
    print!("{part}");
    if write {
        write_part(DOCUMENT, PLACE, &part)?;
    }
    if check {
        let text = fs::read_to_string(root().join(DOCUMENT)).map_err(|error| format!("{DOCUMENT}: {error}"))?;
        let risen = risen(&text, &counts)?;
        if !risen.is_empty() {
            return Err(format!(
                "the hot loops grew: {}; if it must be so: cargo xtask bench counts --write",
                risen.join("; ")
            ));
        }
    }
    Ok(())
}

/// Those that are above what the document has, a clause each.
fn risen(document: &str, counts: &[(&str, f64)]) -> Result<Vec<String>, String> {
    let rows = table(document, COLUMNS).ok_or(format!("{DOCUMENT} has no counts; cargo xtask bench counts --write"))?;
    let mut risen = Vec::new();
    for (name, count) in counts {
        let committed = rows.iter().find(|(row, _)| row == name).and_then(|(_, text)| text.parse::<f64>().ok());
        let committed =
            committed.ok_or(format!("{DOCUMENT} has no count of {name}; cargo xtask bench counts --write"))?;
        if *count > committed * (1.0 + TOLERANCE) + TOLERANCE_INSTRUCTIONS {
            risen.push(format!("{name} {committed:.1} → {count:.1}"));
        }
    }
    Ok(risen)
}

/// Instructions of the loop's thread, from its start to its end.
fn instructions(program: &Path, one: &Loop, turns: u64) -> Result<u64, String> {
    let folder = Folder::new()?;
    let file = folder.0.join("callgrind");
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--separate-threads=yes"]);
    command.arg(format!("--callgrind-out-file={}", file.display()));
    command.arg(program).arg(one.words[0]).arg(turns.to_string()).args(&one.words[1..]);
    // The C library picks its copying by what the processor can do; the plainest is the same everywhere.
    command.env("GLIBC_TUNABLES", "glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-AVX2,-ERMS,-FSRM");
    let mut running = Running::of("valgrind", command)?;
    running.wait(std::time::Duration::from_secs(120))?;
    let path = format!("{}-{:02}", file.display(), one.thread);
    let text = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}: {}", running.said().trim()))?;
    totals(&text).ok_or_else(|| format!("callgrind counted nothing of {}: {}", one.name, running.said().trim()))
}

/// callgrind's closing line: `totals: 12345`, or `summary:` before the first function.
fn totals(text: &str) -> Option<u64> {
    text.lines().rev().find_map(|line| line.strip_prefix("totals: ")?.trim().parse().ok())
}

/// A folder that is gone afterwards.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Folder, String> {
        let path = std::env::temp_dir().join(format!("linerate-counts-{}", std::process::id()));
        fs::create_dir_all(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closing_line_is_read() {
        assert_eq!(totals("version: 1\nfn=(1) x\n12 34\n\ntotals: 5678\n"), Some(5678));
        assert_eq!(totals("version: 1\n"), None);
    }

    #[test]
    fn a_count_may_rise_a_little() {
        let text = "| hot loop | instructions |\n|---|--:|\n| a | 100.0 |\n| b | 10.0 |\n";
        assert_eq!(risen(text, &[("a", 103.9), ("b", 11.2)]).unwrap(), Vec::<String>::new());
        assert_eq!(risen(text, &[("a", 104.1), ("b", 9.0)]).unwrap(), ["a 100.0 → 104.1"]);
        assert!(risen(text, &[("c", 1.0)]).is_err() && risen("", &[]).is_err());
    }

    #[test]
    fn the_document_has_every_count() {
        let text = fs::read_to_string(root().join(DOCUMENT)).unwrap();
        let counts = LOOPS.each_ref().map(|one| (one.name, 0.0));
        assert_eq!(risen(&text, &counts), Ok(Vec::new()));
    }
}
