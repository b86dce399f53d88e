//! `cargo xtask bench profile` and `bench drops`: the throughput that sampling what each CPU does, and counting dropped
//! packets by reason, take from a trial; and what another tool takes that does the same.
//! Knows throughputs only; which of the trials did it stands in each record.

use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

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
    rival: Option<Rival>,
}

/// Another tool that does it to the whole machine, and what it is called with.
struct Rival {
    name: &'static str,
    command: &'static [&'static str],
}

/// A tool at work, until the value goes.
struct AtWork(Child);

impl Rival {
    /// Time until it does what it is here for.
    const STARTS: Duration = Duration::from_millis(500);

    fn start(&self) -> Result<AtWork, String> {
        let mut command = Command::new(self.command[0]);
        command.args(&self.command[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = AtWork(command.spawn().map_err(|error| format!("{}: {error}", self.command[0]))?);
        thread::sleep(Rival::STARTS);
        match child.0.try_wait() {
            Ok(None) => Ok(child),
            _ => Err(format!("'{}' ended at once", self.command.join(" "))),
        }
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
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
    rival: Some(Rival {
        name: "perf record -a -F 999 -e cpu-clock -g",
        command: &["perf", "record", "-a", "-F", "999", "-e", "cpu-clock", "-g", "-o", "/dev/null"],
    }),
};

/// Drops by reason.
pub const DROP_REASONS: Beside = Beside {
    option: "drop_reasons",
    level: "on",
    field: "drop_reasons",
    what: "with drop_reasons=on. Both agents run on this machine and trace all of it, so that each drop is counted twice",
    streams: &[TCP, UDP, DROPS],
    rival: None,
};

/// Trials with and without it, and without it beside the other tool, all in each round; returns the table.
pub fn run(beside: &Beside) -> Result<String, String> {
    let bench = Bench::start()?;
    let mut table = format!(
        "{ROUNDS} rounds; in each, a trial of {DURATION_S} s without and one {}. A ratio is of two figures of one round.\n\n\
         | workload | beside it | without, Mbit/s | with, Mbit/s | ratio, median | 95 % interval of the median | least and most \
         |\n|---|---|--:|--:|--:|--:|--:|\n",
        beside.what
    );
    for stream in beside.streams {
        let mut rounds = Vec::new();
        for round in 0..ROUNDS {
            rounds.push(beside.round(&bench, stream, round)?);
        }
        let of = |figure: fn(&Round) -> Option<f64>| -> Vec<f64> { rounds.iter().filter_map(figure).collect() };
        let without = of(|round| Some(round.without));
        let rival = beside.rival.as_ref().map(|rival| (rival.name, of(|round| round.rival)));
        for (name, with) in [(beside.option, of(|round| Some(round.with)))].into_iter().chain(rival) {
            table += &row(stream.name, name, &without, &with)?;
        }
    }
    Ok(table)
}

fn row(stream: &str, name: &str, without: &[f64], with: &[f64]) -> Result<String, String> {
    let ratios: Vec<f64> = with.iter().zip(without).map(|(with, without)| with / without).collect();
    let Estimate { median: ratio, low, high } = Estimate::of(&ratios).ok_or("too few rounds")?;
    let (least, most) = range(&ratios);
    let (without, with) = (median(without) / 1e6, median(with) / 1e6);
    Ok(format!(
        "| {stream} | {name} | {without:.0} | {with:.0} | {ratio:.3} | {low:.3} – {high:.3} | {least:.3} – {most:.3} |\n"
    ))
}

/// One round's figures, in bit/s.
#[derive(Debug, PartialEq)]
struct Round {
    without: f64,
    with: f64,
    rival: Option<f64>,
}

impl Beside {
    /// Who comes first changes from round to round.
    fn round(&self, bench: &Bench, stream: &Stream, round: usize) -> Result<Round, String> {
        let (first, second) = if round % 4 < 2 { (OFF, self.level) } else { (self.level, OFF) };
        let levels = format!("{first},{second}");
        let mut ours = Vec::new();
        let mut rival = None;
        for turn in [round, round + 1] {
            if turn.is_multiple_of(2) {
                ours = self.trials(bench, stream, &levels)?;
            } else if let Some(tool) = &self.rival {
                let _at_work = tool.start()?;
                rival = self.trials(bench, stream, OFF)?.first().and_then(|record| figure_of(record, stream));
            }
        }
        let (without, with) = self.pair(&ours, stream)?;
        Ok(Round { without, with, rival })
    }

    fn trials(&self, bench: &Bench, stream: &Stream, levels: &str) -> Result<Vec<Value>, String> {
        let duration = format!("{DURATION_S}s");
        let mut options = vec![("duration", duration.as_str()), ("warmup", "500ms"), (self.option, levels)];
        options.extend(stream.options);
        bench.linerate(stream.plan, &options, &[])
    }

    /// The figures without it and with it.
    fn pair(&self, records: &[Value], stream: &Stream) -> Result<(f64, f64), String> {
        let is_off = |record: &Value| record["trial"]["factors"][self.option].as_str() == Some(OFF);
        // What was refused costs nothing, and would be told as cheap.
        if let Some(refused) = records.iter().find(|one| !is_off(one) && one["target"][self.field].is_null()) {
            return Err(format!("a trial has no {}, though it was asked for: {}", self.option, refused["doubts"]));
        }
        let find = |off| records.iter().find(|one| is_off(one) == off).and_then(|one| figure_of(one, stream));
        find(true).zip(find(false)).ok_or_else(|| "a round lacks a trial".to_owned())
    }
}

fn figure_of(record: &Value, stream: &Stream) -> Option<f64> {
    record["result"][stream.figure].as_f64()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn record(level: &str, bps: f64) -> Value {
        let done = if level == OFF { Value::Null } else { json!({"samples": 10}) };
        json!({"trial": {"factors": {"profile": level}}, "target": {"profile": done}, "result": {"throughput_bps": bps}})
    }

    #[test]
    fn a_round_has_both_and_what_was_refused_is_not_cheap() {
        let (with, without) = (record(PROFILE.level, 9.0), record(OFF, 10.0));
        assert_eq!(PROFILE.pair(&[with.clone(), without.clone()], &TCP), Ok((10.0, 9.0)));
        assert!(PROFILE.pair(std::slice::from_ref(&without), &TCP).is_err());
        let mut refused = with;
        refused["target"]["profile"] = Value::Null;
        assert!(PROFILE.pair(&[refused, without], &TCP).is_err());
    }

    #[test]
    fn a_tool_that_is_not_there_is_named() {
        let error = Rival { name: "no", command: &["/no/such/tool"] }.start().map(|_| ()).unwrap_err();
        assert!(error.contains("/no/such/tool"), "{error}");
    }
}
