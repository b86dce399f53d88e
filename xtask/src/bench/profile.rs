//! `cargo xtask bench profile`: the throughput that sampling what each CPU does takes from a trial.
//! Knows throughputs only; which of them were profiled stands in each record.

use serde_json::Value;

use super::Bench;
use super::statistics::{Estimate, median, range};

const ROUNDS: usize = 15;
const DURATION_S: u32 = 2;
const RATES: [&str; 2] = ["99", "999"];
/// How a record names the trials without one.
const OFF: &str = "off";

/// Trials with and without, all levels within one round of a campaign and in an order by chance; returns the table.
pub fn run() -> Result<String, String> {
    let bench = Bench::start()?;
    let (duration, repeat) = (format!("{DURATION_S}s"), ROUNDS.to_string());
    let rates = RATES.join(" and one with ");
    let mut table = format!(
        "{ROUNDS} rounds; in each, a trial of {DURATION_S} s without a profile and one with {rates} samples a second of each \
         CPU, in an order by chance. A ratio is of the two throughputs of one round. Both agents run on this machine, and \
         one of them samples it. The streams take all the CPU there is, so that what sampling takes they lack.\n\n\
         | workload | samples a second | without, Mbit/s | with, Mbit/s | ratio, median | 95 % interval of the median | \
         least and most |\n\
         |---|--:|--:|--:|--:|--:|--:|\n"
    );
    let levels = format!("{OFF},{}", RATES.join(","));
    let mut costs = Vec::new();
    for workload in ["tcp-stream", "udp-stream"] {
        let options = [("duration", duration.as_str()), ("warmup", "500ms"), ("profile", levels.as_str())];
        let records = bench.linerate(workload, &options, &["--repeat", &repeat])?;
        costs.extend(records.iter().filter_map(|record| record["target"]["profile"]["sample_cost_us"].as_f64()));
        for rate in RATES {
            let (without, with) = pairs(&records, rate)?;
            let ratios: Vec<f64> = with.iter().zip(&without).map(|(with, without)| with / without).collect();
            let Estimate { median: ratio, low, high } = Estimate::of(&ratios).ok_or("no round has both trials")?;
            let (least, most) = range(&ratios);
            table += &format!(
                "| {workload} | {rate} | {:.0} | {:.0} | {ratio:.3} | {low:.3} – {high:.3} | {least:.3} – {most:.3} |\n",
                median(&without) / 1e6,
                median(&with) / 1e6
            );
        }
    }
    if !costs.is_empty() {
        let cost = median(&costs);
        table += &format!("\nA sample of a short chain takes {cost:.1} µs of a CPU here (`sample_cost_us`, median).\n");
    }
    Ok(table)
}

/// Throughputs of rounds that have both: without a profile, and with one of this rate.
fn pairs(records: &[Value], rate: &str) -> Result<(Vec<f64>, Vec<f64>), String> {
    let (mut without, mut with) = (vec![None; ROUNDS], vec![None; ROUNDS]);
    for record in records {
        let trial = &record["trial"];
        let round = trial["repeat"].as_u64().unwrap_or(u64::MAX) as usize;
        let level = trial["factors"]["profile"].as_str();
        let is_off = level == Some(OFF);
        if !is_off && level != Some(rate) {
            continue;
        }
        // A profile that was refused costs nothing, and would be told as cheap.
        if !is_off && record["target"]["profile"].is_null() {
            return Err(format!("a trial has no profile, though it was asked for: {}", record["doubts"]));
        }
        let side = if is_off { &mut without } else { &mut with };
        *side.get_mut(round).ok_or("a record has no round")? = record["result"]["throughput_bps"].as_f64();
    }
    Ok(without.into_iter().zip(with).filter_map(|(without, with)| Some((without?, with?))).unzip())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn record(round: usize, level: &str, bps: f64) -> Value {
        let profile = if level == OFF { Value::Null } else { json!({"samples": 10}) };
        json!({"trial": {"repeat": round, "factors": {"profile": level}}, "target": {"profile": profile},
               "result": {"throughput_bps": bps}})
    }

    #[test]
    fn rounds_are_held_against_themselves() {
        let records = [
            record(1, "999", 9.0),
            record(0, OFF, 10.0),
            record(1, OFF, 20.0),
            record(0, "999", 5.0),
            record(2, "999", 1.0),
            record(0, "99", 7.0),
        ];
        assert_eq!(pairs(&records, "999").unwrap(), (vec![10.0, 20.0], vec![5.0, 9.0]));
        let mut refused = record(0, "999", 5.0);
        refused["target"]["profile"] = Value::Null;
        assert!(pairs(&[refused], "999").is_err());
    }
}
