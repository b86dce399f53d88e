//! `cargo xtask bench sleeps`: what it costs a thread on this machine to sleep until each of many moments, and do nothing else.
//! Knows no traffic: this is what no paced sender can stay below that sleeps before each departure.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use super::statistics::{median, range};

const ROUNDS: usize = 7;
const SPAN: Duration = Duration::from_secs(2);
/// Of datagrams of 1470 octets at these Mbit/s.
const MEGABITS: [u32; 3] = [10, 50, 100];

/// Sleeps; returns the table.
pub fn run() -> Result<String, String> {
    let mut table = format!(
        "{ROUNDS} rounds of {} s; CPU time of the sleeping thread (/proc/thread-self/schedstat), of one core.\n\n\
         | sleeps, as many as datagrams of 1470 bytes at | % of one core, median | least and most | µs a sleep |\n\
         |---|--:|--:|--:|\n",
        SPAN.as_secs()
    );
    for megabits in MEGABITS {
        let gap_ns = 1470 * 8 * 1000 / megabits;
        let mut shares = Vec::new();
        for _ in 0..ROUNDS {
            let share = thread::spawn(move || sleep_often(Duration::from_nanos(gap_ns.into())));
            shares.push(share.join().map_err(|_| "the sleeping thread panicked".to_owned())??);
        }
        let (least, most) = range(&shares);
        table += &format!(
            "| {megabits} Mbit/s | {:.1} | {least:.1} – {most:.1} | {:.1} |\n",
            median(&shares),
            median(&shares) / 100.0 * f64::from(gap_ns) / 1e3
        );
    }
    Ok(table)
}

/// The share of one core, in %, that this thread takes to sleep until each multiple of `gap`.
fn sleep_often(gap: Duration) -> Result<f64, String> {
    let (began, before) = (Instant::now(), cpu_ns()?);
    let mut due = began;
    while began.elapsed() < SPAN {
        due += gap;
        if let Some(left) = due.checked_duration_since(Instant::now()) {
            thread::sleep(left);
        }
    }
    Ok((cpu_ns()? - before) as f64 / began.elapsed().as_nanos() as f64 * 100.0)
}

/// Nanoseconds that this thread has run: the first of three numbers (Documentation/scheduler/sched-stats.rst).
fn cpu_ns() -> Result<u64, String> {
    let text = fs::read_to_string("/proc/thread-self/schedstat").map_err(|error| format!("schedstat: {error}"))?;
    let first = text.split_whitespace().next().and_then(|word| word.parse().ok());
    first.ok_or_else(|| "schedstat holds no number".to_owned())
}
