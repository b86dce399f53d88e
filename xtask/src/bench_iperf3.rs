//! `cargo xtask bench iperf3`: one TCP stream by linerate and by iperf3, in turn, over the same unlimited link.
//! Knows iperf3's JSON and nothing of its protocol.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use linerate_lab::TARGET_IPV4;
use serde_json::Value;

use crate::bench::{Bench, median, range};
use crate::program::{is_installed, output_of};

/// A B C, A B C: what disturbs the machine for a while disturbs all alike.
const ROUNDS: usize = 11;
const DURATION: &str = "3";

/// Measures; returns the table.
pub fn run() -> Result<String, String> {
    if !is_installed("iperf3") {
        return Err("iperf3 is not installed; cargo xtask setup installs it".to_owned());
    }
    let version = output_of(Command::new("iperf3").arg("--version"))?;
    let version = version.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
    let bench = Bench::start()?;
    let _server = Server::start(&bench)?;
    let (mut ours, mut theirs, mut zero_copy) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let options = [("duration", "3s"), ("direction", "rx")];
        let record = bench.linerate("tcp-stream", &options, &[])?.pop().ok_or("linerate made no record")?;
        ours.push(gigabits(&record["result"]["throughput_bps"])?);
        theirs.push(client(&bench, &[])?);
        zero_copy.push(client(&bench, &["-Z"])?);
        eprintln!(
            "xtask: round {round}: linerate {:.2}, iperf3 {:.2}, iperf3 -Z {:.2} Gbit/s",
            ours[round], theirs[round], zero_copy[round]
        );
    }
    let mut table = format!(
        "{ROUNDS} rounds of {DURATION} s each, in turn; Gbit/s of payload at the receiver; ratio: linerate's to this one's in \
         the same round, its median, and the range of 95 % of {RESAMPLES} resampled medians.\n\n\
         | one TCP stream | median | least and most | ratio |\n|---|--:|--:|--:|\n"
    );
    for (name, figures) in [("linerate", &ours), (version.as_str(), &theirs), (&format!("{version} -Z"), &zero_copy)] {
        let (least, most) = range(figures);
        let ratios: Vec<f64> = ours.iter().zip(figures).map(|(ours, other)| ours / other).collect();
        let (low, high) = resampled(&ratios);
        table += &format!("| {name} | {:.2} | {least:.2} – {most:.2} |", median(figures));
        table += &match name {
            "linerate" => " |\n".to_owned(),
            _ => format!(" {:.2} ({low:.2} – {high:.2}) |\n", median(&ratios)),
        };
    }
    Ok(table)
}

const RESAMPLES: usize = 4000;

/// Where 95 % of the medians lie of samples drawn from these with replacement (the percentile bootstrap).
fn resampled(values: &[f64]) -> (f64, f64) {
    let mut state: u64 = 1;
    let mut chance = |below: usize| {
        // Knuth's MMIX constants; the upper half is good enough to draw from eleven.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let mut medians: Vec<f64> = (0..RESAMPLES)
        .map(|_| median(&(0..values.len()).map(|_| values[chance(values.len())]).collect::<Vec<_>>()))
        .collect();
    medians.sort_by(f64::total_cmp);
    (medians[RESAMPLES / 40], medians[RESAMPLES - RESAMPLES / 40 - 1])
}

/// iperf3's server in the target, ended with this.
struct Server(Child);

impl Server {
    fn start(bench: &Bench) -> Result<Server, String> {
        let mut command = iperf3(bench.lab.target_netns(), &["-s"]);
        let child = command.stdout(Stdio::null()).spawn().map_err(|error| format!("nsenter: {error}"))?;
        thread::sleep(Duration::from_millis(300));
        Ok(Server(child))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn client(bench: &Bench, more: &[&str]) -> Result<f64, String> {
    let address = TARGET_IPV4.to_string();
    let arguments = [&["-J", "-t", DURATION, "-c", &address], more].concat();
    let text = output_of(&mut iperf3(bench.lab.host_netns(), &arguments))?;
    let report: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    gigabits(&report["end"]["sum_received"]["bits_per_second"])
}

fn iperf3(namespace: PathBuf, arguments: &[&str]) -> Command {
    let mut command = Command::new("nsenter");
    command.arg(format!("--net={}", namespace.display())).arg("iperf3").args(arguments);
    command
}

fn gigabits(figure: &Value) -> Result<f64, String> {
    figure.as_f64().map(|bps| bps / 1e9).ok_or_else(|| "a report has no throughput".to_owned())
}

#[cfg(test)]
mod tests {
    use super::resampled;

    #[test]
    fn the_range_lies_around_the_median() {
        let (low, high) = resampled(&[0.9, 1.0, 1.1, 1.2, 1.3, 1.0, 1.1]);
        assert!((0.9..=1.1).contains(&low) && (1.1..=1.3).contains(&high), "{low} {high}");
    }
}
