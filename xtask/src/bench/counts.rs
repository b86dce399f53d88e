//! `cargo xtask bench counts`: instructions of the hot loops, counted by callgrind and held against those committed.
//! Knows the loops by the names that crates/host/examples/counts.rs gives them.
//!
//! Instructions of the program itself, not the kernel's. A loop is run N times and 2 N times, and the difference is
//! N times the loop: what comes before and after falls out, and so does the machine's speed.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::process::Running;
use super::target_folder;
use crate::markdown::table;
use crate::measured::write_part;
use crate::program::{cargo, must, root};
use crate::scratch::Scratch;
use crate::setup;

const DOCUMENT: &str = "docs/benchmarks/counts.md";
const PLACE: &str = "bench-counts";
const COLUMNS: [&str; 2] = ["hot loop", "instructions"];

/// What may be more than the committed count before it is a failure: as a share, and in instructions, because a
/// compiler that places one instruction elsewhere has done no harm.
const TOLERANCE: f64 = 0.03;
/// The same of a loop that goes through the kernel: how often it waits, and which buckets its histograms open, differs
/// from run to run.
const TOLERANCE_OF_FLOWS: f64 = 0.12;
const TOLERANCE_INSTRUCTIONS: f64 = 1.0;
/// How often a loop that goes through the kernel is counted. The least is the loop's own: what the kernel adds (smaller
/// pieces, more waiting) never makes it less.
const TRIES_OF_FLOWS: usize = 4;

/// A loop whose turns are counted.
struct Loop {
    /// As the table has it.
    name: &'static str,
    /// Its name and options for the example.
    words: &'static [&'static str],
    /// callgrind's number of the thread that runs it: 1 is main, 2 the first flow's.
    thread: u32,
    turns: u64,
    by: By,
}

/// What the instructions are divided by.
#[derive(PartialEq)]
enum By {
    /// A turn: a datagram, a write.
    Turn,
    /// A system call, where how much one brings is the kernel's choice.
    Call,
}

const fn pure(name: &'static str, words: &'static [&'static str]) -> Loop {
    Loop { name, words, thread: 1, turns: 20_000, by: By::Turn }
}

const fn flow(name: &'static str, words: &'static [&'static str], turns: u64, by: By) -> Loop {
    Loop { name, words, thread: 2, turns, by }
}

impl Loop {
    /// Whether it goes through the kernel.
    const fn is_flow(&self) -> bool {
        self.thread > 1
    }
}

/// Receivers of datagrams take one message to a call, at a pace that loses none, so that each run is the same work.
const LOOPS: [Loop; 11] = [
    pure("Pacer, a departure", &["pacer"]),
    pure("Probe, written and read", &["probe"]),
    pure("Tracker, a datagram in order", &["tracker"]),
    pure("Histogram, a value", &["histogram"]),
    flow("UDP sender, plain: a datagram and its system call", &["udp-send", "sender_api=plain"], 10_000, By::Turn),
    flow("UDP sender, sendmmsg: a datagram", &["udp-send", "sender_api=sendmmsg"], 20_000, By::Turn),
    flow("UDP sender, cut apart: a datagram", &["udp-send", "sender_api=sendmmsg-udp-segment"], 44_000, By::Turn),
    flow(
        "UDP receiver, plain: a datagram and its system call",
        &["udp-receive", "receiver_api=plain", "rate=5kpps"],
        5000,
        By::Turn,
    ),
    flow(
        "UDP receiver, merged: a datagram",
        &["udp-receive", "sender_api=udp-segment", "receiver_api=udp-gro", "burst=44", "rate=22kpps"],
        22_000,
        By::Turn,
    ),
    flow(
        "TCP sender, plain: a write and its system call",
        &["tcp-send", "sender_api=plain", "batch=1"],
        4000,
        By::Call,
    ),
    flow("TCP receiver, plain: a read and its system call", &["tcp-receive", "receiver_api=plain"], 8000, By::Call),
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
    let committed = if check { Some(Committed::read()?) } else { None };
    let (mut counts, mut risen) = (Vec::new(), Vec::new());
    for one in &LOOPS {
        let limit = committed.as_ref().map(|committed| committed.limit(one)).transpose()?;
        let tries = if one.is_flow() { TRIES_OF_FLOWS } else { 1 };
        let mut least = f64::INFINITY;
        for _ in 0..tries {
            let instructions = instructions_of_a_turn(&program, one)?;
            eprintln!("xtask: {}: {instructions:.1}", one.name);
            least = least.min(instructions);
            if limit.is_some_and(|limit| least <= limit) {
                break;
            }
        }
        if let Some(limit) = limit.filter(|limit| least > *limit) {
            risen.push(format!("{}: {least:.1}, at most {limit:.1}", one.name));
        }
        counts.push((one.name, least));
    }
    let rows: String = counts.iter().map(|(name, count)| format!("| {name} | {count:.1} |\n")).collect();
    let part = format!("| {} | {} |\n|---|--:|\n{rows}", COLUMNS[0], COLUMNS[1]);
    print!("{part}");
    if write {
        write_part(DOCUMENT, PLACE, &part)?;
    }
    if !risen.is_empty() {
        return Err(format!(
            "the hot loops grew: {}; if it must be so: cargo xtask bench counts --write",
            risen.join("; ")
        ));
    }
    Ok(())
}

/// What the document has.
struct Committed(Vec<(String, String)>);

impl Committed {
    fn read() -> Result<Self, String> {
        let text = fs::read_to_string(root().join(DOCUMENT)).map_err(|error| format!("{DOCUMENT}: {error}"))?;
        Self::of(&text)
    }

    fn of(document: &str) -> Result<Self, String> {
        let rows = table(document, COLUMNS);
        let owned = |(name, count): (&str, &str)| (name.to_owned(), count.to_owned());
        rows.map(|rows| Self(rows.into_iter().map(owned).collect()))
            .ok_or(format!("{DOCUMENT} has no counts; cargo xtask bench counts --write"))
    }

    /// The most instructions that the loop may have.
    fn limit(&self, one: &Loop) -> Result<f64, String> {
        let committed = self.0.iter().find(|(row, _)| row == one.name).and_then(|(_, text)| text.parse::<f64>().ok());
        let committed =
            committed.ok_or(format!("{DOCUMENT} has no count of {}; cargo xtask bench counts --write", one.name))?;
        let tolerance = if one.is_flow() { TOLERANCE_OF_FLOWS } else { TOLERANCE };
        Ok(committed * (1.0 + tolerance) + TOLERANCE_INSTRUCTIONS)
    }
}

/// What one run took.
struct Ran {
    /// Instructions of the loop's thread, from its start to its end.
    instructions: u64,
    /// System calls that moved data; 0 of a piece that makes none.
    calls: u64,
}

/// Of a turn, or of a call.
fn instructions_of_a_turn(program: &Path, one: &Loop) -> Result<f64, String> {
    let (twice, once) = (count(program, one, 2 * one.turns)?, count(program, one, one.turns)?);
    let by = if one.by == By::Call { twice.calls as f64 - once.calls as f64 } else { one.turns as f64 };
    Ok((twice.instructions as f64 - once.instructions as f64) / by)
}

fn count(program: &Path, one: &Loop, turns: u64) -> Result<Ran, String> {
    let folder = Scratch::new("counts")?;
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
    let nothing = || format!("callgrind counted nothing of {}: {}", one.name, running.said().trim());
    let instructions = totals(&text).ok_or_else(nothing)?;
    let calls = running.said().lines().find_map(|line| line.strip_prefix("calls ")?.trim().parse().ok()).unwrap_or(0);
    Ok(Ran { instructions, calls })
}

/// callgrind's closing line: `totals: 12345`, or `summary:` before the first function.
fn totals(text: &str) -> Option<u64> {
    text.lines().rev().find_map(|line| line.strip_prefix("totals: ")?.trim().parse().ok())
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
        let text = "| hot loop | instructions |\n|---|--:|\n| a | 100.0 |\n| b | 50.0 |\n";
        let committed = Committed::of(text).unwrap();
        assert_eq!(committed.limit(&pure("a", &[])).unwrap(), 104.0);
        assert!((committed.limit(&flow("b", &[], 1, By::Turn)).unwrap() - 57.0).abs() < 1e-9);
        assert!(committed.limit(&pure("c", &[])).is_err() && Committed::of("").is_err());
    }

    #[test]
    fn the_document_has_every_count() {
        let committed = Committed::read().unwrap();
        for one in &LOOPS {
            assert!(committed.limit(one).unwrap() > TOLERANCE_INSTRUCTIONS);
        }
    }
}
