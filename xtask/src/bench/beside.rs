//! `cargo xtask bench profile` and `bench drops`: the throughput that sampling what each CPU does, and counting dropped
//! packets by reason, take from a trial.
//! Knows throughputs only; which of the trials did it stands in each record.

use serde_json::Value;

use super::Bench;
use super::statistics::{Estimate, median, range};

const ROUNDS: usize = 15;
const DURATION_S: u32 = 2;
/// How a record names the trials without it.
const OFF: &str = "off";

/// What is done beside the traffic: an option of a trial, and the field of a machine that shows that it was done.
pub struct Beside {
    option: &'static str,
    level: &'static str,
    field: &'static str,
    what: &'static str,
    streams: &'static [Stream],
}

/// A stream to do it beside: its name in the table, its plan and options, and the figure of a record that is compared.
struct Stream {
    name: &'static str,
    plan: &'static str,
    options: &'static [(&'static str, &'static str)],
    figure: &'static str,
}

const TCP: Stream = Stream { name: "tcp-stream", plan: "tcp-stream", options: &[], figure: "throughput_bps" };
const UDP: Stream = Stream { name: "udp-stream", plan: "udp-stream", options: &[], figure: "throughput_bps" };
/// Nearly every datagram is dropped, and each drop is counted on the CPU of the sender, which hands it over.
const DROPS: Stream = Stream {
    name: "udp-stream, most of it dropped, as sent",
    plan: "udp-stream",
    options: &[("socket_buffer", "4K"), ("receiver_api", "plain")],
    figure: "achieved_load_bps",
};

/// Samples of every CPU.
pub const PROFILE: Beside = Beside {
    option: "profile",
    level: "999",
    field: "profile",
    what: "with 999 samples a second of each CPU. Both agents run on this machine, and one of them samples it; the streams take \
           all the CPU there is, so that what sampling takes they lack",
    streams: &[TCP, UDP],
};

/// Drops by reason.
pub const DROP_REASONS: Beside = Beside {
    option: "drop_reasons",
    level: "on",
    field: "drop_reasons",
    what: "with drop_reasons=on. Both agents run on this machine and trace all of it, so that each drop is counted twice",
    streams: &[TCP, UDP, DROPS],
};

/// Trials with and without, each pair within one round of a campaign and in an order by chance; returns the table.
pub fn run(beside: &Beside) -> Result<String, String> {
    let bench = Bench::start()?;
    let (duration, repeat) = (format!("{DURATION_S}s"), ROUNDS.to_string());
    let mut table = format!(
        "{ROUNDS} rounds; in each, a trial of {DURATION_S} s without and one {}, in an order by chance. A ratio is of the two \
         figures of one round.\n\n\
         | workload | without, Mbit/s | with, Mbit/s | ratio, median | 95 % interval of the median | least and most |\n\
         |---|--:|--:|--:|--:|--:|\n",
        beside.what
    );
    let levels = format!("{OFF},{}", beside.level);
    for stream in beside.streams {
        let mut options = vec![("duration", duration.as_str()), ("warmup", "500ms"), (beside.option, levels.as_str())];
        options.extend(stream.options);
        let records = bench.linerate(stream.plan, &options, &["--repeat", &repeat])?;
        let (without, with) = pairs(&records, beside, stream.figure)?;
        let ratios: Vec<f64> = with.iter().zip(&without).map(|(with, without)| with / without).collect();
        let Estimate { median: ratio, low, high } = Estimate::of(&ratios).ok_or("no round has both trials")?;
        let (least, most) = range(&ratios);
        table += &format!(
            "| {} | {:.0} | {:.0} | {ratio:.3} | {low:.3} – {high:.3} | {least:.3} – {most:.3} |\n",
            stream.name,
            median(&without) / 1e6,
            median(&with) / 1e6
        );
    }
    Ok(table)
}

/// Figures of rounds that have both: without it, and with it.
fn pairs(records: &[Value], beside: &Beside, figure: &str) -> Result<(Vec<f64>, Vec<f64>), String> {
    let (mut without, mut with) = (vec![None; ROUNDS], vec![None; ROUNDS]);
    for record in records {
        let trial = &record["trial"];
        let round = trial["repeat"].as_u64().unwrap_or(u64::MAX) as usize;
        let is_off = trial["factors"][beside.option].as_str() == Some(OFF);
        // What was refused costs nothing, and would be told as cheap.
        if !is_off && record["target"][beside.field].is_null() {
            let Beside { option, .. } = beside;
            return Err(format!("a trial has no {option}, though it was asked for: {}", record["doubts"]));
        }
        let side = if is_off { &mut without } else { &mut with };
        *side.get_mut(round).ok_or("a record has no round")? = record["result"][figure].as_f64();
    }
    Ok(without.into_iter().zip(with).filter_map(|(without, with)| Some((without?, with?))).unzip())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn record(round: usize, level: &str, bps: f64) -> Value {
        let done = if level == OFF { Value::Null } else { json!({"samples": 10}) };
        json!({"trial": {"repeat": round, "factors": {"profile": level}}, "target": {"profile": done},
               "result": {"throughput_bps": bps}})
    }

    #[test]
    fn rounds_are_held_against_themselves() {
        let on = PROFILE.level;
        let records =
            [record(1, on, 9.0), record(0, OFF, 10.0), record(1, OFF, 20.0), record(0, on, 5.0), record(2, on, 1.0)];
        assert_eq!(pairs(&records, &PROFILE, TCP.figure).unwrap(), (vec![10.0, 20.0], vec![5.0, 9.0]));
        let mut refused = record(0, on, 5.0);
        refused["target"]["profile"] = Value::Null;
        assert!(pairs(&[refused], &PROFILE, TCP.figure).is_err());
    }
}
