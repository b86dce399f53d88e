//! `cargo xtask bench profile`: the throughput that sampling what each CPU does takes from a trial.
//! Knows throughputs only; which of them were profiled stands in each record.

use serde_json::Value;

use super::Bench;
use super::statistics::{Estimate, median, range};

const ROUNDS: usize = 15;
const DURATION_S: u32 = 2;
const HZ: &str = "999";
/// How a record names the trials without one.
const OFF: &str = "off";

/// Trials with and without, each pair within one round of a campaign and in an order by chance; returns the table.
pub fn run() -> Result<String, String> {
    let bench = Bench::start()?;
    let (duration, repeat) = (format!("{DURATION_S}s"), ROUNDS.to_string());
    let mut table = format!(
        "{ROUNDS} rounds; in each, a trial of {DURATION_S} s without a profile and one with {HZ} samples a second, in an order by \
         chance. A ratio is of the two throughputs of one round. Both agents run on this machine and sample all of its \
         CPUs, so that each CPU is sampled twice as often as on a board.\n\n\
         | workload | without, Mbit/s | with, Mbit/s | ratio, median | 95 % interval of the median | least and most |\n\
         |---|--:|--:|--:|--:|--:|\n"
    );
    let levels = format!("{OFF},{HZ}");
    for workload in ["tcp-stream", "udp-stream"] {
        let options = [("duration", duration.as_str()), ("warmup", "500ms"), ("profile", levels.as_str())];
        let records = bench.linerate(workload, &options, &["--repeat", &repeat])?;
        let (without, with) = pairs(&records)?;
        let ratios: Vec<f64> = with.iter().zip(&without).map(|(with, without)| with / without).collect();
        let Estimate { median: ratio, low, high } = Estimate::of(&ratios).ok_or("no round has both trials")?;
        let (least, most) = range(&ratios);
        table += &format!(
            "| {workload} | {:.0} | {:.0} | {ratio:.3} | {low:.3} – {high:.3} | {least:.3} – {most:.3} |\n",
            median(&without) / 1e6,
            median(&with) / 1e6
        );
    }
    Ok(table)
}

/// Throughputs of rounds that have both: without a profile, and with one.
fn pairs(records: &[Value]) -> Result<(Vec<f64>, Vec<f64>), String> {
    let (mut without, mut with) = (vec![None; ROUNDS], vec![None; ROUNDS]);
    for record in records {
        let trial = &record["trial"];
        let round = trial["repeat"].as_u64().unwrap_or(u64::MAX) as usize;
        let is_off = trial["factors"]["profile"].as_str() == Some(OFF);
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
        let records =
            [record(1, HZ, 9.0), record(0, OFF, 10.0), record(1, OFF, 20.0), record(0, HZ, 5.0), record(2, HZ, 1.0)];
        assert_eq!(pairs(&records).unwrap(), (vec![10.0, 20.0], vec![5.0, 9.0]));
        let mut refused = record(0, HZ, 5.0);
        refused["target"]["profile"] = Value::Null;
        assert!(pairs(&[refused]).is_err());
    }
}
