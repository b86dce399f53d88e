//! The figures of a record that can be compared: their names, units, which way is better, and how finely they are
//! measured.
//! Knows no statistics and no tables.

use crate::record::{FlowFigures, Latency, Record, ServiceDemand};

/// A figure that can be compared.
#[derive(Debug)]
pub struct Metric {
    /// Its name, as the columns of a CSV export have it; what scripts use.
    pub name: &'static str,
    /// What people call it, and whose it is.
    pub title: &'static str,
    /// The unit in which people read it.
    pub unit: &'static str,
    /// What the record's figure is multiplied with for that unit.
    pub scale: f64,
    /// Which way is better.
    pub better: Better,
    /// What a better and a worse one are called.
    pub words: [&'static str; 2],
    /// How its differences are told.
    pub difference: Difference,
    /// A smaller difference than this cannot be told from the way it is measured, whatever the repeats say.
    pub resolution: f64,
    /// A smaller difference than this does not matter, unless the user says otherwise: the goal of "the same within".
    pub margin: f64,
    /// What it depends on, and so what may make it incomparable.
    pub about: About,
    /// Judged unless the user picks others.
    pub usual: bool,
    value: fn(&Record) -> Option<f64>,
}

/// Which way is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// More is better.
    Up,
    /// Less is better.
    Down,
}

/// How differences of a metric are told: resolution, margin and gates are of this kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Difference {
    /// As a part of the baseline.
    Relative,
    /// As it is; of a ratio that is often 0, in percentage points.
    Absolute,
}

/// What a metric depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// How much passes.
    Rate,
    /// What is lost of what was offered.
    Loss,
    /// Times.
    Delay,
    /// CPU time of the target, or of the host, by octets.
    CpuByOctets(End),
    /// By packets.
    CpuByPackets(End),
}

/// One of the two machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The machine under test.
    Target,
    /// The other one.
    Host,
}

impl End {
    /// As names of facts begin.
    pub const fn name(self) -> &'static str {
        match self {
            End::Target => "target",
            End::Host => "host",
        }
    }
}

const SPEED: [&str; 2] = ["faster", "slower"];
const COST: [&str; 2] = ["cheaper", "dearer"];

const fn metric(
    (name, title, unit, scale): (&'static str, &'static str, &'static str, f64),
    (better, words): (Better, [&'static str; 2]),
    (resolution, margin): (f64, f64),
    about: About,
    value: fn(&Record) -> Option<f64>,
) -> Metric {
    let difference = Difference::Relative;
    Metric { name, title, unit, scale, better, words, difference, resolution, margin, about, usual: true, value }
}

const fn on_demand(metric: Metric) -> Metric {
    Metric { usual: false, ..metric }
}

const fn absolute(metric: Metric) -> Metric {
    Metric { difference: Difference::Absolute, ..metric }
}

const MEGA: f64 = 1e-6;
const MICRO: f64 = 1e6;
/// docs/method.md says where these come from.
const OF_RATE: (f64, f64) = (0.001, 0.02);
const OF_LOSS: (f64, f64) = (0.000_01, 0.001);
const OF_DELAY: (f64, f64) = (0.01, 0.05);
const OF_TAIL: (f64, f64) = (0.01, 0.1);
const OF_COST: (f64, f64) = (0.005, 0.03);

/// Every metric, in the order of tables.
pub static METRICS: [Metric; 23] = [
    metric(("throughput_bps", "throughput", "Mbit/s", MEGA), (Better::Up, SPEED), OF_RATE, About::Rate, |r| {
        flow(r)?.throughput_bps
    }),
    metric(("tx_throughput_bps", "throughput tx", "Mbit/s", MEGA), (Better::Up, SPEED), OF_RATE, About::Rate, |r| {
        r.result.as_ref()?.directions.as_ref()?.tx.throughput_bps
    }),
    metric(("rx_throughput_bps", "throughput rx", "Mbit/s", MEGA), (Better::Up, SPEED), OF_RATE, About::Rate, |r| {
        r.result.as_ref()?.directions.as_ref()?.rx.throughput_bps
    }),
    on_demand(metric(
        ("achieved_load_bps", "achieved load", "Mbit/s", MEGA),
        (Better::Up, SPEED),
        OF_RATE,
        About::Rate,
        |r| flow(r)?.achieved_load_bps,
    )),
    metric(("transactions_per_s", "transactions", "1/s", 1.0), (Better::Up, SPEED), OF_RATE, About::Rate, |r| {
        r.result.as_ref()?.transactions_per_s
    }),
    absolute(metric(
        ("loss_ratio", "loss", "%", 100.0),
        (Better::Down, ["loses less", "loses more"]),
        OF_LOSS,
        About::Loss,
        |r| flow(r)?.loss_ratio,
    )),
    on_demand(metric(
        ("tcp_retransmissions", "retransmitted", "segments", 1.0),
        (Better::Down, ["fewer", "more"]),
        OF_TAIL,
        About::Loss,
        |r| Some(flow(r)?.tcp.as_ref()?.retransmissions as f64),
    )),
    metric(
        ("jitter_s", "jitter", "µs", MICRO),
        (Better::Down, ["steadier", "less steady"]),
        OF_TAIL,
        About::Delay,
        |r| flow(r)?.jitter_s,
    ),
    metric(("latency_p50_s", "latency p50", "µs", MICRO), (Better::Down, SPEED), OF_DELAY, About::Delay, |r| {
        percentile(r, "p50")
    }),
    on_demand(metric(
        ("latency_p90_s", "latency p90", "µs", MICRO),
        (Better::Down, SPEED),
        OF_DELAY,
        About::Delay,
        |r| percentile(r, "p90"),
    )),
    metric(("latency_p99_s", "latency p99", "µs", MICRO), (Better::Down, SPEED), OF_TAIL, About::Delay, |r| {
        percentile(r, "p99")
    }),
    on_demand(metric(
        ("latency_p99.9_s", "latency p99.9", "µs", MICRO),
        (Better::Down, SPEED),
        OF_TAIL,
        About::Delay,
        |r| percentile(r, "p99.9"),
    )),
    on_demand(metric(
        ("latency_p99.99_s", "latency p99.99", "µs", MICRO),
        (Better::Down, SPEED),
        OF_TAIL,
        About::Delay,
        |r| percentile(r, "p99.99"),
    )),
    on_demand(metric(
        ("latency_mean_s", "latency mean", "µs", MICRO),
        (Better::Down, SPEED),
        OF_DELAY,
        About::Delay,
        |r| latency(r)?.mean_s,
    )),
    on_demand(metric(
        ("latency_min_s", "latency least", "µs", MICRO),
        (Better::Down, SPEED),
        OF_DELAY,
        About::Delay,
        |r| latency(r)?.min_s,
    )),
    on_demand(metric(
        ("latency_max_s", "latency most", "µs", MICRO),
        (Better::Down, SPEED),
        OF_TAIL,
        About::Delay,
        |r| latency(r)?.max_s,
    )),
    on_demand(metric(
        ("tcp_rtt_s", "TCP's round trip", "µs", MICRO),
        (Better::Down, SPEED),
        OF_TAIL,
        About::Delay,
        |r| Some(flow(r)?.tcp.as_ref()?.rtt_s),
    )),
    metric(
        ("target_us_per_kib", "CPU time, target", "µs/KiB", 1.0),
        (Better::Down, COST),
        OF_COST,
        About::CpuByOctets(End::Target),
        |r| demand(r)?.target_us_per_kib,
    ),
    metric(
        ("host_us_per_kib", "CPU time, host", "µs/KiB", 1.0),
        (Better::Down, COST),
        OF_COST,
        About::CpuByOctets(End::Host),
        |r| demand(r)?.host_us_per_kib,
    ),
    metric(
        ("target_us_per_packet", "CPU time, target", "µs/packet", 1.0),
        (Better::Down, COST),
        OF_COST,
        About::CpuByPackets(End::Target),
        |r| demand(r)?.target_us_per_packet,
    ),
    metric(
        ("host_us_per_packet", "CPU time, host", "µs/packet", 1.0),
        (Better::Down, COST),
        OF_COST,
        About::CpuByPackets(End::Host),
        |r| demand(r)?.host_us_per_packet,
    ),
    on_demand(metric(
        ("target_cpu_busy", "CPU busy, target", "%", 100.0),
        (Better::Down, COST),
        OF_COST,
        About::CpuByOctets(End::Target),
        |r| Some(r.target.cpu.as_ref()?.machine.busy),
    )),
    on_demand(metric(
        ("host_cpu_busy", "CPU busy, host", "%", 100.0),
        (Better::Down, COST),
        OF_COST,
        About::CpuByOctets(End::Host),
        |r| Some(r.host.cpu.as_ref()?.machine.busy),
    )),
];

/// What a name ends in that a person need not type.
const SUFFIXES: [&str; 4] = ["_bps", "_per_s", "_ratio", "_s"];

impl Metric {
    /// The metric of this name, with or without its unit: `throughput_bps` or `throughput`.
    pub fn find(name: &str) -> Option<&'static Metric> {
        METRICS.iter().find(|metric| metric.name == name || metric.short() == name)
    }

    /// Where it stands in [`METRICS`].
    pub fn place(&self) -> usize {
        METRICS.iter().position(|metric| metric.name == self.name).unwrap_or(0)
    }

    /// Its name without the unit.
    pub fn short(&self) -> &'static str {
        SUFFIXES.iter().find_map(|suffix| self.name.strip_suffix(suffix)).unwrap_or(self.name)
    }

    /// The record's figure, a finite number in the record's unit; absent where it has none.
    pub fn of(&self, record: &Record) -> Option<f64> {
        (self.value)(record).filter(|value| value.is_finite())
    }

    /// Whether a shift of this sign is for the better.
    pub fn improves(&self, shift: f64) -> bool {
        (shift > 0.0) == (self.better == Better::Up)
    }
}

fn flow(record: &Record) -> Option<&FlowFigures> {
    Some(&record.result.as_ref()?.flow)
}

fn latency(record: &Record) -> Option<&Latency> {
    record.result.as_ref()?.latency.as_ref()
}

fn percentile(record: &Record, name: &str) -> Option<f64> {
    latency(record)?.percentiles.get(name).copied()
}

fn demand(record: &Record) -> Option<&ServiceDemand> {
    record.result.as_ref()?.service_demand.as_ref()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::sample;

    #[test]
    fn names_are_of_one_metric_each() {
        let names: BTreeSet<&str> =
            METRICS.iter().flat_map(|metric| BTreeSet::from([metric.name, metric.short()])).collect();
        let both = METRICS.iter().filter(|metric| metric.name != metric.short()).count();
        assert_eq!(names.len(), METRICS.len() + both);
        for (at, metric) in METRICS.iter().enumerate() {
            assert_eq!(metric.place(), at);
            assert!(metric.resolution < metric.margin, "{}", metric.name);
        }
        assert_eq!(Metric::find("throughput").unwrap().name, "throughput_bps");
        assert_eq!(Metric::find("latency_p99.9").unwrap().name, "latency_p99.9_s");
        assert!(Metric::find("speed").is_none());
    }

    #[test]
    fn a_full_record_has_nearly_every_metric() {
        let record = sample::full();
        let missing: Vec<&str> =
            METRICS.iter().filter(|metric| metric.of(&record).is_none()).map(|metric| metric.name).collect();
        assert_eq!(
            missing,
            ["jitter_s", "latency_p99.9_s", "latency_p99.99_s"],
            "of both directions, and of 200 samples"
        );
        assert!(METRICS.iter().all(|metric| metric.of(&sample::failed(0)).is_none()));
    }
}
