//! `cargo xtask bench slices`: what the time slices of a trial cost, from which the time budget and events are made: throughput, CPU
//! time, and room in the record. Knows trials with them, and trials that are one slice.

use std::fs;

use serde_json::Value;

use super::Bench;
use super::statistics::{Estimate, median};

const ROUNDS: usize = 15;
const DURATION_S: f64 = 2.0;
/// A stream that leaves the CPUs idle, so that what looking costs can be told apart; long, for CPU time is told in ticks.
const IDLE_S: f64 = 5.0;
/// What the agents read.
const VARIABLE: &str = "LINERATE_SLICES";
/// Fields of a record that are made of slices.
const MADE_OF_SLICES: [&str; 2] = ["time_budget", "events"];

/// Trials with slices and without, in turns; returns the table.
pub fn run() -> Result<String, String> {
    let bench = Bench::start()?;
    let mut table = format!(
        "{ROUNDS} rounds of a trial with slices and one without, who comes first in turns; a ratio is of two figures of one round. CPU time \
         is that of `linerate` and of both agents, beside a stream of 1 Mbit/s. What the record is larger by are its fields {}.\n\n\
         | workload | figure | without | with | ratio or difference, median | 95 % interval of the median |\n|---|---|--:|--:|--:|--:|\n",
        MADE_OF_SLICES.map(|field| format!("`{field}`")).join(" and ")
    );
    let streams = [("tcp-stream", "throughput_bps", 1e6, "Mbit/s"), ("udp-stream", "throughput_bps", 1e6, "Mbit/s")];
    let requests = [("tcp-rr", "transactions_per_s", 1.0, "1/s")];
    let duration = format!("{DURATION_S}s");
    let mut share_of_record = Vec::new();
    for (plan, figure, unit, name) in streams.into_iter().chain(requests) {
        let mut rounds = Vec::new();
        for round in 0..ROUNDS {
            rounds.push(in_turns(round, |is_on| {
                let record = trial(&bench, plan, &[("duration", &duration), ("warmup", "200ms")], is_on)?;
                if is_on {
                    share_of_record.push(made_of_slices(&record));
                }
                record["result"][figure].as_f64().map(|value| value / unit).ok_or(format!("{plan} has no {figure}"))
            })?);
        }
        let ratios: Vec<f64> = rounds.iter().map(|round| round.with / round.without).collect();
        table += &row(plan, name, &rounds, &ratios, 4)?;
    }
    let mut rounds = Vec::new();
    let idle = format!("{IDLE_S}s");
    for round in 0..ROUNDS {
        rounds.push(in_turns(round, |is_on| {
            let before = cpu_s()?;
            trial(&bench, "udp-stream", &[("duration", &idle), ("rate", "1M")], is_on)?;
            // Of each of the two agents, percent of one CPU.
            Ok((cpu_s()? - before) / IDLE_S / 2.0 * 100.0)
        })?);
    }
    let more: Vec<f64> = rounds.iter().map(|round| round.with - round.without).collect();
    table += &row("udp-stream of 1 Mbit/s", "% of a CPU for each agent", &rounds, &more, 2)?;
    let shares: Vec<f64> = share_of_record.iter().map(|share| share * 100.0).collect();
    table += &format!("| all but the last | % of the record's JSON | | | {:.1} | |\n", median(&shares));
    Ok(table)
}

/// One round's figures.
struct Round {
    without: f64,
    with: f64,
}

/// Who comes first changes from round to round.
fn in_turns(round: usize, mut figure: impl FnMut(bool) -> Result<f64, String>) -> Result<Round, String> {
    let is_on_first = round.is_multiple_of(2);
    let first = figure(is_on_first)?;
    let second = figure(!is_on_first)?;
    let (with, without) = if is_on_first { (first, second) } else { (second, first) };
    Ok(Round { without, with })
}

fn trial(bench: &Bench, plan: &str, options: &[(&str, &str)], is_on: bool) -> Result<Value, String> {
    let mut command = bench.command(plan, options);
    if !is_on {
        command.env(VARIABLE, "off");
    }
    let output = command.output().map_err(|error| format!("linerate: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
    }
    let records = super::records(&String::from_utf8_lossy(&output.stdout))?;
    records.into_iter().next().ok_or_else(|| format!("{plan} made no record"))
}

fn row(plan: &str, name: &str, rounds: &[Round], of_rounds: &[f64], digits: usize) -> Result<String, String> {
    let Estimate { median: middle, low, high } = Estimate::of(of_rounds).ok_or("too few rounds")?;
    let of = |figure: fn(&Round) -> f64| median(&rounds.iter().map(figure).collect::<Vec<_>>());
    Ok(format!(
        "| {plan} | {name} | {:.2} | {:.2} | {middle:.digits$} | {low:.digits$} – {high:.digits$} |\n",
        of(|round| round.without),
        of(|round| round.with)
    ))
}

/// The part of a record's text that is made of slices.
fn made_of_slices(record: &Value) -> f64 {
    let of = |value: &Value| value.to_string().len() as f64;
    MADE_OF_SLICES.iter().filter(|field| !record[**field].is_null()).map(|field| of(&record[*field])).sum::<f64>()
        / of(record)
}

/// CPU time of this program's children that have ended, and of theirs (proc_pid_stat(5), fields 16 and 17; a tick is a hundredth of
/// a second).
fn cpu_s() -> Result<f64, String> {
    let stat = fs::read_to_string("/proc/self/stat").map_err(|error| format!("/proc/self/stat: {error}"))?;
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
    let ticks: Vec<f64> = fields.skip(13).take(2).filter_map(|word| word.parse().ok()).collect();
    if ticks.len() == 2 {
        Ok(ticks.iter().sum::<f64>() / 100.0)
    } else {
        Err("/proc/self/stat has no CPU time".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_record_s_part_that_is_made_of_slices() {
        let record = json!({"events": "x".repeat(88), "other": "y".repeat(200)});
        assert!((made_of_slices(&record) - 90.0 / record.to_string().len() as f64).abs() < 1e-9);
        assert_eq!(made_of_slices(&json!({"other": 1})), 0.0);
    }

    #[test]
    fn each_comes_first_in_turns() {
        let mut order = Vec::new();
        for round in 0..2 {
            let of = in_turns(round, |is_on| {
                order.push(is_on);
                Ok(if is_on { 9.0 } else { 10.0 })
            });
            assert!(of.is_ok_and(|round| (round.with, round.without) == (9.0, 10.0)));
        }
        assert_eq!(order, [true, false, false, true]);
    }
}
