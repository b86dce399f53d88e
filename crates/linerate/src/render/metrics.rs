//! What a scraper reads: the last figures of each configuration, and counts, in OpenMetrics 1.0 or Prometheus' older text.
//! Knows no store and no connection. No record and no campaign is a label: each would be a series for ever.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use linerate_machine::printable::in_line;
use linerate_results::figure::Metric;
use linerate_results::tally::{Configuration, MachinePair, Outcomes, Tally};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

/// The most series of last figures; with counts, that is less than 2,000. The latest come first.
const MOST: usize = 1500;
/// The longest value of a label.
const LABEL: usize = 200;

/// A figure whose last value is told: the record's name, ours, its unit, and what the record's is multiplied with.
struct Row {
    metric: &'static str,
    name: &'static str,
    help: &'static str,
    unit: &'static str,
    scale: f64,
    /// Whose it is, where both machines have one.
    machine: Option<&'static str>,
}

const fn row(metric: &'static str, name: &'static str, help: &'static str, unit: &'static str) -> Row {
    Row { metric, name, help, unit, scale: 1.0, machine: None }
}

const BUSY: Row = row("target_cpu_busy", "linerate_cpu_busy", "Share of a machine's processors that worked.", "ratio");
const PER_PACKET: Row = Row {
    scale: 1e-6,
    ..row(
        "target_us_per_packet",
        "linerate_cpu_time_per_packet",
        "Processor time of a machine for each packet.",
        "seconds",
    )
};

/// Rows of one name stand together.
const ROWS: [Row; 9] = [
    row(
        "throughput_bps",
        "linerate_throughput",
        "Payload that the receiver's application got in the last trial.",
        "bits_per_second",
    ),
    row("loss_ratio", "linerate_loss", "Datagrams lost of those sent in the last trial.", "ratio"),
    row("transactions_per_s", "linerate_transactions", "Requests answered in the last trial.", "per_second"),
    row("latency_p50_s", "linerate_latency_p50", "Median time from request to response.", "seconds"),
    row("latency_p99_s", "linerate_latency_p99", "99 % of responses came within this time.", "seconds"),
    Row { machine: Some("target"), ..BUSY },
    Row { metric: "host_cpu_busy", machine: Some("host"), ..BUSY },
    Row { machine: Some("target"), ..PER_PACKET },
    Row { metric: "host_us_per_packet", machine: Some("host"), ..PER_PACKET },
];

/// The metrics of which last values are wanted, in the order of their rows.
pub(crate) fn wanted() -> Vec<&'static Metric> {
    ROWS.iter().map(|row| Metric::find(row.metric).expect("every row's metric is one")).collect()
}

/// All that is told.
pub(crate) struct Exposition<'a> {
    /// Of the metrics of [`wanted`].
    pub(crate) tally: &'a Tally,
    /// Campaigns that began, and those of them that ran to their end.
    pub(crate) campaigns: [u64; 2],
    /// Settings that campaigns of this server could not put back.
    pub(crate) not_put_back: u64,
    /// linerate's.
    pub(crate) version: &'a str,
}

type Labels = Vec<(&'static str, String)>;

#[derive(Debug)]
struct Family {
    name: &'static str,
    help: &'static str,
    unit: Option<Unit>,
    samples: Samples,
}

#[derive(Debug)]
enum Samples {
    Gauges(Vec<(Labels, f64)>),
    Counters(Vec<(Labels, u64)>),
}

/// All that one program tells.
#[derive(Debug)]
pub(crate) struct Families(Vec<Family>);

impl Collector for Families {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for Family { name, help, unit, samples } in &self.0 {
            let kind = match samples {
                Samples::Gauges(_) => MetricType::Gauge,
                Samples::Counters(_) => MetricType::Counter,
            };
            let mut family = encoder.encode_descriptor(name, help, unit.as_ref(), kind)?;
            match samples {
                Samples::Gauges(samples) => {
                    samples.iter().try_for_each(|(labels, value)| family.encode_family(labels)?.encode_gauge(value))?;
                }
                Samples::Counters(samples) => samples.iter().try_for_each(|(labels, value)| {
                    family.encode_family(labels)?.encode_counter::<NoLabelSet, u64, f64>(value, None)
                })?,
            }
        }
        Ok(())
    }
}

/// OpenMetrics 1.0, ended by `# EOF`.
pub(crate) fn openmetrics(families: Families) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(families));
    let mut text = String::new();
    // A text takes whatever is written to it.
    encode(&mut text, &registry).expect("memory can be written to");
    text
}

/// The same in the text format before OpenMetrics (version 0.0.4): a counter's family has its samples' name, and there are no
/// units.
pub(crate) fn prometheus(families: Families) -> String {
    let text = openmetrics(families);
    let counters: Vec<&str> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter")).collect();
    let mut old = String::new();
    for line in text.lines().filter(|line| !line.starts_with("# UNIT ") && *line != "# EOF") {
        let parts =
            ["# HELP ", "# TYPE "].into_iter().find_map(|kind| Some((kind, line.strip_prefix(kind)?.split_once(' ')?)));
        match parts {
            Some((kind, (name, rest))) if counters.contains(&name) => old += &format!("{kind}{name}_total {rest}\n"),
            _ => old += &format!("{line}\n"),
        }
    }
    old
}

fn gauge(name: &'static str, help: &'static str, unit: Option<&'static str>, samples: Vec<(Labels, f64)>) -> Family {
    let unit = unit.map(|unit| Unit::Other(unit.to_owned()));
    Family { name, help, unit, samples: Samples::Gauges(samples) }
}

fn counter(name: &'static str, help: &'static str, samples: Vec<(Labels, u64)>) -> Family {
    Family { name, help, unit: None, samples: Samples::Counters(samples) }
}

fn build_info(version: &str) -> Family {
    let version = vec![(vec![("version", label(version))], 1.0)];
    gauge("linerate_build_info", "The version of linerate.", None, version)
}

/// What a worker tells: of its benches, and of what became of jobs since it began.
#[cfg(feature = "nats")]
#[derive(Clone, Debug, Default)]
pub(crate) struct OfWorker {
    /// Its benches; of those whose lease it holds, how long ago that was renewed, seconds.
    pub(crate) benches: BTreeMap<String, Option<f64>>,
    /// Campaigns that run.
    pub(crate) running: usize,
    /// By what became of them.
    pub(crate) jobs: BTreeMap<&'static str, u64>,
    pub(crate) begun: u64,
    /// Trials without figures of jobs that are done.
    pub(crate) failed_trials: u64,
    pub(crate) not_put_back: u64,
    /// How often the queue's server was reached, the first time counted, and whether it is.
    pub(crate) connects: u64,
    pub(crate) is_connected: bool,
}

/// The ends of [`OfWorker::jobs`], each of which is told from the first scrape on.
#[cfg(feature = "nats")]
pub(crate) const OUTCOMES: [&str; 5] = ["done", "failed", "refused", "stopped", "handed_back"];

#[cfg(feature = "nats")]
pub(crate) fn families_of_worker(worker: &OfWorker, version: &str) -> Families {
    let of_bench = |bench: &String| vec![("bench", label(bench))];
    let flag = |is: bool| if is { 1.0 } else { 0.0 };
    let leased = worker.benches.iter().map(|(bench, age)| (of_bench(bench), flag(age.is_some()))).collect();
    let ages = worker.benches.iter().filter_map(|(bench, age)| Some((of_bench(bench), (*age)?))).collect();
    let jobs =
        OUTCOMES.map(|outcome| (vec![("outcome", outcome.to_owned())], worker.jobs.get(outcome).copied().unwrap_or(0)));
    let one = |count: u64| vec![(Labels::new(), count)];
    Families(vec![
        gauge("linerate_worker_bench_leased", "Whether this worker holds the bench's lease.", None, leased),
        gauge(
            "linerate_worker_lease_age",
            "Since the lease that is held was renewed; it is given up at four sixths of the lease's time.",
            Some("seconds"),
            ages,
        ),
        gauge(
            "linerate_worker_campaigns_running",
            "Campaigns that run.",
            None,
            vec![(Labels::new(), worker.running as f64)],
        ),
        counter("linerate_worker_jobs_begun", "Jobs that were begun, each attempt counted.", one(worker.begun)),
        counter("linerate_worker_jobs", "What became of jobs that were begun or refused.", jobs.to_vec()),
        counter(
            "linerate_worker_trials_failed",
            "Trials without figures, of jobs that are done.",
            one(worker.failed_trials),
        ),
        counter(
            "linerate_settings_not_put_back",
            "Settings that campaigns of this worker could not put back.",
            one(worker.not_put_back),
        ),
        gauge(
            "linerate_worker_queue_connected",
            "Whether the queue's server is reached.",
            None,
            vec![(Labels::new(), flag(worker.is_connected))],
        ),
        counter(
            "linerate_worker_queue_reconnects",
            "How often the queue's server was reached again.",
            one(worker.connects.saturating_sub(1)),
        ),
        build_info(version),
    ])
}

pub(crate) fn families(scraped: &Exposition<'_>) -> Families {
    let Exposition { tally, campaigns, not_put_back, version } = scraped;
    let last = tally.last();
    let series = |values: &[Option<f64>]| 1 + values.iter().flatten().count();
    let mut room = MOST;
    let told = last.iter().take_while(|(_, last)| {
        room = room.saturating_sub(series(&last.values));
        room > 0
    });
    // Long names may be alike where they are cut; a series that is there twice would spoil all of them.
    let mut taken = BTreeSet::new();
    let told: Vec<_> = told.filter(|(place, _)| taken.insert(of_configuration(place))).collect();
    let mut families: Vec<Family> = Vec::new();
    for (at, row) in ROWS.iter().enumerate() {
        let samples = told.iter().filter_map(|(place, last)| {
            let value = last.values.get(at).copied().flatten().filter(|value| value.is_finite())?;
            let machine = row.machine.map(|machine| ("machine", machine.to_owned()));
            Some((of_configuration(place).into_iter().chain(machine).collect::<Labels>(), value * row.scale))
        });
        let samples: Vec<_> = samples.collect();
        match families.last_mut() {
            Some(Family { name, samples: Samples::Gauges(known), .. }) if *name == row.name => known.extend(samples),
            _ => families.push(gauge(row.name, row.help, Some(row.unit), samples)),
        }
    }
    let at = told.iter().map(|(place, last)| (of_configuration(place), last.unix_ms as f64 / 1000.0)).collect();
    families.push(gauge(
        "linerate_last_trial_timestamp",
        "When the last trial with figures began, since 1970; time() minus this is the age of the figures.",
        Some("seconds"),
        at,
    ));
    let left_out = vec![(Labels::new(), (last.len() - told.len()) as f64)];
    let help = "Configurations whose figures are not told, because others were measured later.";
    families.push(gauge("linerate_configurations_left_out", help, None, left_out));
    families.push(counter("linerate_trials", "Trials by outcome.", trials(tally.outcomes())));
    let doubts = tally.doubts().iter().map(|(kind, count)| (vec![("kind", label(kind))], *count)).collect();
    families.push(counter("linerate_doubts", "Records that have a doubt of this kind.", doubts));
    let states = ["begun", "finished"].into_iter().zip(campaigns);
    let states = states.map(|(state, count)| (vec![("state", state.to_owned())], *count)).collect();
    families.push(counter("linerate_campaigns", "Campaigns that began, and those that ran to their end.", states));
    families.push(counter(
        "linerate_settings_not_put_back",
        "Settings that campaigns of this server could not put back.",
        vec![(Labels::new(), *not_put_back)],
    ));
    families.push(build_info(version));
    Families(families)
}

fn trials((pairs, others): (&[(MachinePair, Outcomes)], Outcomes)) -> Vec<(Labels, u64)> {
    let each = |labels: Labels, outcomes: &Outcomes| {
        [("done", outcomes.done), ("failed", outcomes.failed)]
            .map(|(outcome, count)| (labels.iter().cloned().chain([("outcome", outcome.to_owned())]).collect(), count))
    };
    let known = pairs.iter().flat_map(|(pair, outcomes)| each(of_pair(pair), outcomes));
    let mut all: BTreeMap<Labels, u64> = BTreeMap::new();
    let rest = (others != Outcomes::default())
        .then(|| each(vec![("target", "others".to_owned()), ("host", "others".to_owned())], &others));
    known.chain(rest.into_iter().flatten()).for_each(|(labels, count)| *all.entry(labels).or_default() += count);
    all.into_iter().collect()
}

fn of_pair(pair: &MachinePair) -> Labels {
    vec![("target", label(&pair.target)), ("host", label(&pair.host))]
}

fn of_configuration(place: &Configuration) -> Labels {
    let more = [("plan", label(&place.plan)), ("configuration", label(&place.words))];
    of_pair(&place.pair).into_iter().chain(more).collect()
}

/// One line, with an end.
fn label(text: &str) -> String {
    in_line(text, LABEL).into_owned()
}

#[cfg(test)]
mod tests {
    use linerate_machine::end::Direction;
    use linerate_results::id;
    use linerate_results::observation::TrialRequest;
    use linerate_results::sample;
    use linerate_results::store::{RecordDigest, Store};

    use super::*;

    fn scraped(tally: &Tally) -> Exposition<'_> {
        Exposition { tally, campaigns: [3, 2], not_put_back: 1, version: "0.1.0" }
    }

    /// The series of a text: a name with its labels, and the value.
    fn series(text: &str) -> Vec<(String, f64)> {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines
            .map(|line| line.rsplit_once(' ').unwrap())
            .map(|(name, value)| (name.to_owned(), value.parse().unwrap()))
            .collect()
    }

    #[test]
    fn both_forms_of_a_store() {
        let mut store = Store::in_memory().unwrap();
        let mut records = vec![
            sample::udp(0, Direction::Rx, 600, 400.0),
            sample::rr(1, "64"),
            sample::tcp(2, Direction::Tx, 900.0, true),
            sample::full(),
            sample::failed(4),
        ];
        for (number, record) in (1..).zip(&mut records) {
            record.id = id::id(1_700_000_000_000 + 1000 * u64::from(number), [number; 10]);
            store.insert(record).unwrap();
        }
        let mut tally = Tally::new(wanted());
        tally.follow(&store).unwrap();
        insta::assert_snapshot!("openmetrics", openmetrics(families(&scraped(&tally))));
        insta::assert_snapshot!("prometheus", prometheus(families(&scraped(&tally))));
    }

    #[test]
    fn a_strangers_names_stay_in_their_labels() {
        let mut store = Store::in_memory().unwrap();
        let mut record = sample::udp(0, Direction::Rx, 600, 400.0);
        record.id = id::id(1_700_000_000_000, [1; 10]);
        record.plan = "a\"} 1\n# EOF\n\\".to_owned();
        record.target.endpoint = format!("exec:{}\u{1b}[31m", "x".repeat(5000));
        store.insert(&record).unwrap();
        let mut tally = Tally::new(wanted());
        tally.follow(&store).unwrap();
        let text = openmetrics(families(&scraped(&tally)));
        assert_eq!(text.lines().filter(|line| *line == "# EOF").count(), 1, "the others are in labels: {text}");
        assert!(text.ends_with("\n# EOF\n") && !text.contains('\u{1b}'));
        assert!(text.lines().all(|line| line.len() < 800), "{text}");
        assert!(!series(&text).is_empty());
    }

    /// A campaign of ten thousand trials on a hundred benches, in a hundred configurations each: the series are as many at its
    /// end as at half, and none has a record's name.
    #[test]
    fn series_are_bounded() {
        let mut tally = Tally::new(wanted());
        let mut at = 1_700_000_000_000;
        let mut ids = BTreeSet::new();
        let values: Vec<Option<f64>> = wanted().iter().map(|metric| metric.of(&sample::full()).or(Some(1.0))).collect();
        for round in 0..2_u32 {
            for trial in 0..5000_u32 {
                at += 1000;
                let id = id::id(at, [1; 10]);
                let facts = [
                    ("target.endpoint", format!("ssh:board{}", trial % 100)),
                    ("host.endpoint", "local".to_owned()),
                    ("plan", "nightly".to_owned()),
                    ("workload", "udp-stream".to_owned()),
                ];
                let facts = facts.map(|(name, value)| (name.to_owned(), value)).into();
                let factors = [("rate".to_owned(), format!("{}M", trial / 100 + 50 * round))].into();
                let asked = TrialRequest { factors, facts };
                let doubts = "noisy-machine,shared-machine";
                let (failed, is_side_b) = (false, false);
                tally.add(RecordDigest { id: &id, doubts, failed, is_side_b, asked: &asked, values: &values });
                ids.insert(id);
            }
            let text = openmetrics(families(&scraped(&tally)));
            let found = series(&text);
            let names: BTreeSet<&String> = found.iter().map(|(name, _)| name).collect();
            assert_eq!(names.len(), found.len(), "no series is there twice");
            assert!((1000..=2000).contains(&found.len()), "{} series", found.len());
            let words = text.split(|c: char| !c.is_ascii_alphanumeric());
            assert!(words.into_iter().all(|word| !ids.contains(word)), "an identifier is a label");
            let value = |name: &str| found.iter().find(|(known, _)| known.starts_with(name)).map(|(_, value)| *value);
            assert!(value("linerate_configurations_left_out") > Some(0.0));
            let done: f64 = found.iter().filter(|(name, _)| name.contains("\"done\"")).map(|(_, value)| value).sum();
            assert_eq!(done, f64::from(5000 * (round + 1)));
        }
    }
}
