//! Records as a report for KCIDB, the kernel's common store of test results: schema 5.3, a test a configuration and metric.
//! Knows no store; nothing is submitted.

use std::collections::{BTreeMap, BTreeSet};

use linerate_machine::environment::Environment;
use linerate_machine::printable::in_line;
use linerate_results::expect::Expectation;
use linerate_results::figure::{METRICS, Metric, Unit};
use linerate_results::record::Record;
use linerate_stats::median;
use linerate_stats::sequential::Sequential;
use serde_json::{Map, Value, json};

use super::number::counted;
use super::report::ReportedCampaign;
use crate::measure::precision::main_metric;

/// What people and machines say is cut here.
const WORDS: usize = 1000;
/// Of more repeats than this no interval is worked out: that takes long, and the range says enough.
const MOST_REPEATS: usize = 200;
/// The most records of a configuration that are named.
const MOST_RECORDS: usize = 1000;

/// Whose tests they are.
#[derive(Clone, Debug)]
pub(crate) struct Submitter {
    /// The build that was tested, `ORIGIN:ID`, as KCIDB knows it.
    build: String,
    /// The CI system that measured.
    origin: String,
}

impl Submitter {
    /// The error is one sentence.
    pub(crate) fn new(build: &str, origin: &str) -> Result<Submitter, String> {
        let is_origin = |text: &str| {
            let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            !text.is_empty() && text.chars().all(is_plain)
        };
        if !is_origin(origin) {
            return Err(format!(
                "--origin: '{}' is not a name of a CI system; KCIDB has small letters, digits and underscores only",
                origin.escape_debug()
            ));
        }
        let is_id = build.split_once(':').is_some_and(|(of, id)| is_origin(of) && !id.is_empty());
        if !is_id || build.chars().any(char::is_control) {
            return Err(format!(
                "--build: '{}' is not a build; write it as KCIDB has it, ORIGIN:ID, like {origin}:v6.12-arm64",
                build.escape_debug()
            ));
        }
        Ok(Submitter { build: build.to_owned(), origin: origin.to_owned() })
    }
}

/// Repeats of one configuration.
struct Group {
    campaign: String,
    configuration: Option<u32>,
    plan: String,
    /// `linerate.udp_stream.rx`.
    path: String,
    main: &'static Metric,
    factors: BTreeMap<String, String>,
    started_at: String,
    seconds: f64,
    target: Environment,
    host: Environment,
    records: Vec<String>,
    values: BTreeMap<usize, Vec<f64>>,
    doubts: BTreeMap<&'static str, u64>,
    failed: u64,
    error: Option<String>,
}

/// Records by configuration, with what their tests need of them.
#[derive(Default)]
pub(crate) struct Tests {
    groups: Vec<Group>,
    places: BTreeMap<(String, Option<u32>, String), usize>,
}

impl Tests {
    /// One record more; side b of A/A trials is no part of any median.
    pub(crate) fn add(&mut self, record: &Record) {
        if !record.trial.is_repeat() {
            return;
        }
        // Records of earlier versions have no number of their configuration.
        let levels: Vec<String> = record.trial.factors.iter().map(|(name, level)| format!("{name}={level}")).collect();
        let path = path(record);
        let key = (record.campaign.clone(), record.trial.configuration, format!("{path} {}", levels.join(" ")));
        let place = *self.places.entry(key).or_insert_with(|| {
            self.groups.push(Group::of(record, path));
            self.groups.len() - 1
        });
        self.groups[place].add(record);
    }

    /// The campaigns of the records.
    pub(crate) fn campaigns(&self) -> BTreeSet<&str> {
        self.groups.iter().map(|group| group.campaign.as_str()).collect()
    }

    /// The report, one object. `campaigns`: what was expected of them, as far as that is known.
    pub(crate) fn report(&self, submitter: &Submitter, campaigns: &[ReportedCampaign]) -> Value {
        let tests = self.groups.iter().flat_map(|group| group.tests(submitter, campaigns));
        json!({"version": {"major": 5, "minor": 3}, "tests": tests.collect::<Vec<_>>()})
    }
}

/// "Dot-separated path through a tree": letters, digits, underscores and hyphens between points.
fn path(record: &Record) -> String {
    let workload = record.workload.name().replace('-', "_");
    match record.workload.is_stream() {
        true => format!("linerate.{workload}.{}", record.direction),
        false => format!("linerate.{workload}"),
    }
}

impl Group {
    fn of(record: &Record, path: String) -> Group {
        Group {
            campaign: record.campaign.clone(),
            configuration: record.trial.configuration,
            plan: record.plan.clone(),
            path,
            main: main_metric(record.workload),
            factors: record.trial.factors.clone(),
            started_at: record.started_at.clone(),
            seconds: 0.0,
            target: record.target.environment.clone(),
            host: record.host.environment.clone(),
            records: Vec::new(),
            values: BTreeMap::new(),
            doubts: BTreeMap::new(),
            failed: 0,
            error: None,
        }
    }

    fn add(&mut self, record: &Record) {
        if self.records.len() < MOST_RECORDS {
            self.records.push(record.id.clone());
        }
        self.seconds += record.duration_s.filter(|seconds| seconds.is_finite() && *seconds > 0.0).unwrap_or_default();
        let kinds: BTreeSet<&str> = record.doubts.iter().map(|doubt| doubt.kind().name()).collect();
        kinds.into_iter().for_each(|kind| *self.doubts.entry(kind).or_default() += 1);
        if record.result.is_none() || record.error.is_some() {
            self.failed += 1;
            self.error = record.error.clone().or_else(|| self.error.take());
        }
        for metric in METRICS.iter() {
            if let Some(value) = metric.of(record) {
                self.values.entry(metric.place()).or_default().push(value);
            }
        }
    }

    fn tests(&self, submitter: &Submitter, campaigns: &[ReportedCampaign]) -> Vec<Value> {
        let campaign = campaigns.iter().find(|one| one.campaign.id == self.campaign);
        let expected: Vec<Expectation> = campaign
            .into_iter()
            .flat_map(|campaign| &campaign.expected)
            .filter(|one| self.configuration.is_some_and(|number| one.configurations.contains(&number)))
            .filter_map(|one| one.text.parse().ok())
            .collect();
        // A campaign that was broken off may have the worse repeats before it.
        let is_whole = campaign.is_some_and(|campaign| campaign.campaign.finished_at.is_some());
        let is_wanted = |metric: &&Metric| {
            let is_expected = expected.iter().any(|one| one.metric.place() == metric.place());
            let is_there = self.values.contains_key(&metric.place());
            is_there && metric.compared.usual || is_expected || metric.place() == self.main.place()
        };
        let wanted = METRICS.iter().filter(is_wanted);
        wanted
            .map(|metric| {
                let of: Vec<&Expectation> =
                    expected.iter().filter(|one| one.metric.place() == metric.place()).collect();
                self.test(metric, if is_whole { &of } else { &[] }, submitter)
            })
            .collect()
    }

    fn test(&self, metric: &Metric, expected: &[&Expectation], submitter: &Submitter) -> Value {
        let Submitter { build, origin } = submitter;
        let values = self.values.get(&metric.place()).map(Vec::as_slice).unwrap_or_default();
        let value = median(values);
        let status = match value {
            // What was not measured says nothing of the kernel.
            None => "ERROR",
            Some(_) if expected.is_empty() => "DONE",
            Some(_) if expected.iter().all(|one| one.is_met(value)) => "PASS",
            Some(_) => "FAIL",
        };
        let configuration: Vec<String> = self.factors.iter().map(|(name, level)| format!("{name}={level}")).collect();
        let configuration = configuration.join(" ");
        // An identifier is the same at every export, whatever else is picked.
        let place = match self.configuration {
            Some(number) => format!("{}:{number}", self.campaign),
            None => self.records.first().cloned().unwrap_or_default(),
        };
        let mut comment = format!("{}: the median of {}", metric.title, counted(values.len(), "trial"));
        if !configuration.is_empty() {
            comment += &format!(", {configuration}");
        }
        if let (None, Some(error)) = (value, &self.error) {
            comment = format!("{}: {error}", metric.title);
        }
        let mut test = json!({
            "build_id": build,
            "id": format!("{origin}:{place}:{}", metric.name),
            "origin": origin,
            "path": format!("{}.{}", self.path, metric.short().replace('.', "_")),
            "comment": words(&comment),
            "status": status,
            "start_time": self.started_at,
            "duration": self.seconds,
            "environment": self.environment(),
            "misc": self.misc(metric, values, expected, &configuration),
        });
        if let Some(value) = value {
            test["number"] = number(metric.unit, value);
        }
        test
    }

    fn environment(&self) -> Value {
        let Environment { compatible, machine, kernel, .. } = &self.target;
        let about: Vec<&str> = [machine, kernel].into_iter().flatten().map(String::as_str).collect();
        let mut environment = Map::new();
        // As the schema has it: words with commas between, and no blank.
        let is_plain = |text: &&String| !text.split(',').any(str::is_empty) && !text.contains([' ', '\0']);
        let compatible: Vec<&String> = compatible.iter().filter(is_plain).collect();
        if !compatible.is_empty() {
            environment.insert("compatible".to_owned(), json!(compatible));
        }
        if !about.is_empty() {
            environment.insert("comment".to_owned(), json!(words(&about.join(", Linux "))));
        }
        let ends = [("target", &self.target), ("host", &self.host)];
        let ends = ends.map(|(end, machine)| (end.to_owned(), summary(machine)));
        environment.insert("misc".to_owned(), Value::Object(ends.into_iter().collect()));
        Value::Object(environment)
    }

    fn misc(&self, metric: &Metric, values: &[f64], expected: &[&Expectation], configuration: &str) -> Value {
        let mut misc = json!({
            "plan": words(&self.plan),
            "campaign": self.campaign,
            "records": self.records,
            "repeats": values.len(),
            "metric": metric.name,
            "linerate": env!("CARGO_PKG_VERSION"),
        });
        if !configuration.is_empty() {
            misc["configuration"] = json!(words(configuration));
        }
        let within = [f64::min, f64::max].map(|pick: fn(f64, f64) -> f64| values.iter().copied().reduce(pick));
        if let [Some(least), Some(most)] = within {
            misc["range"] = json!([rounded(least), rounded(most)]);
        }
        let is_many = (2..=MOST_REPEATS).contains(&values.len());
        if let Some((low, high)) = is_many.then(|| Sequential::new(values.len() as u32).interval(values)).flatten() {
            misc["interval"] = json!([rounded(low), rounded(high)]);
        }
        if !expected.is_empty() {
            misc["expected"] = json!(expected.iter().map(ToString::to_string).collect::<Vec<_>>());
        }
        if !self.doubts.is_empty() {
            misc["doubts"] = json!(self.doubts);
        }
        if self.failed > 0 {
            misc["failed_trials"] = json!(self.failed);
        }
        misc
    }
}

/// What of a machine a figure depends on most.
fn summary(machine: &Environment) -> Value {
    let mut told = Map::new();
    let nic = machine.nic.as_ref();
    let texts = [
        ("machine", machine.machine.clone()),
        ("kernel", machine.kernel.clone()),
        ("architecture", machine.architecture.clone()),
        ("cpu", machine.cpu.model.clone()),
        ("driver", nic.and_then(|nic| nic.driver.clone())),
    ];
    told.extend(texts.into_iter().filter_map(|(name, text)| Some((name.to_owned(), json!(words(&text?))))));
    let speed = nic.and_then(|nic| nic.speed_mbps);
    told.extend(speed.map(|speed| ("link_mbps".to_owned(), json!(speed))));
    Value::Object(told)
}

/// The unit without a prefix, and whether one may be added; a share has none.
fn unit(unit: Unit) -> Option<(&'static str, bool)> {
    Some(match unit {
        Unit::BitRate => ("bit/s", true),
        Unit::PerSecond => ("1/s", true),
        Unit::Time => ("s", true),
        Unit::Bytes => ("B", true),
        Unit::UsPerKib => ("us/KiB", false),
        Unit::UsPerPacket => ("us/packet", false),
        Unit::Share => return None,
        count => (count.name(), false),
    })
}

fn number(of: Unit, value: f64) -> Value {
    let mut number = json!({"value": rounded(value)});
    if let Some((name, has_prefix)) = unit(of) {
        number["unit"] = json!(name);
        if has_prefix {
            number["prefix"] = json!("metric");
        }
    }
    number
}

/// Nine significant digits: more are not measured.
fn rounded(value: f64) -> f64 {
    format!("{value:.8e}").parse().unwrap_or(value)
}

fn words(text: &str) -> String {
    in_line(text, WORDS).into_owned()
}

#[cfg(test)]
mod tests {
    use linerate_machine::end::Direction;
    use linerate_results::sample;
    use linerate_results::store::Campaign;

    use super::*;
    use crate::render::report::Expected;

    fn carried(id: &str, texts: &[&str]) -> ReportedCampaign {
        let campaign = Campaign {
            id: id.to_owned(),
            plan: "bring-up".to_owned(),
            plan_text: String::new(),
            target: "ssh:board".to_owned(),
            host: "local".to_owned(),
            started_at: "2026-11-24T03:00:00Z".to_owned(),
            planned: 3,
            finished_at: Some("2026-11-24T03:01:00Z".to_owned()),
        };
        let expected =
            texts.iter().map(|text| Expected { text: (*text).to_owned(), configurations: vec![0] }).collect();
        ReportedCampaign { campaign, command: String::new(), expected }
    }

    fn submitter() -> Submitter {
        Submitter::new("maestro:6650a1", "mylab").unwrap()
    }

    fn records() -> Vec<Record> {
        let repeats = (0..8).map(|repeat| {
            let mut record = sample::udp(repeat, Direction::Rx, 600, 400.0 + f64::from(repeat));
            record.trial.configuration = Some(0);
            record
        });
        let mut failed = sample::failed(9);
        failed.trial.configuration = Some(1);
        repeats.chain([failed]).collect()
    }

    fn report(records: &[Record], expected: &[&str]) -> Vec<Value> {
        let mut tests = Tests::default();
        records.iter().for_each(|record| tests.add(record));
        let campaign = records[0].campaign.clone();
        let report = tests.report(&submitter(), &[carried(&campaign, expected)]);
        assert_eq!(report["version"], json!({"major": 5, "minor": 3}));
        report["tests"].as_array().unwrap().clone()
    }

    #[track_caller]
    fn find<'a>(tests: &'a [Value], path: &str) -> &'a Value {
        tests.iter().find(|test| test["path"] == path).unwrap_or_else(|| panic!("{path}: {tests:#?}"))
    }

    #[test]
    fn a_test_a_configuration_and_metric() {
        let tests = report(&records(), &[]);
        let ids: BTreeSet<&str> = tests.iter().filter_map(|test| test["id"].as_str()).collect();
        assert_eq!(ids.len(), tests.len());
        let test = find(&tests, "linerate.udp_stream.rx.throughput");
        assert_eq!((&test["status"], &test["build_id"]), (&json!("DONE"), &json!("maestro:6650a1")));
        assert_eq!(test["number"]["unit"], "bit/s");
        assert_eq!(test["number"]["prefix"], "metric");
        let value = test["number"]["value"].as_f64().unwrap();
        assert!((value - 403.5e6).abs() < 2e6, "{value}");
        let interval = test["misc"]["interval"].as_array().unwrap();
        assert!(interval[0].as_f64().unwrap() < value && value < interval[1].as_f64().unwrap());
        assert_eq!(find(&tests, "linerate.udp_stream.rx.loss")["number"].get("unit"), None, "a ratio has no unit");
        assert_eq!(test["misc"]["records"].as_array().unwrap().len(), 8);
        assert!(!serde_json::to_string(&tests).unwrap().contains("null"), "KCIDB knows none");
    }

    #[test]
    fn a_status_by_what_was_expected() {
        let status = |expected: &[&str]| {
            find(&report(&records(), expected), "linerate.udp_stream.rx.throughput")["status"].clone()
        };
        assert_eq!(status(&["throughput > 300M"]), "PASS");
        assert_eq!(status(&["throughput > 300M", "throughput > 900M"]), "FAIL");
        assert_eq!(status(&["loss < 1%"]), "DONE");
        let tests = report(&records(), &["latency_p99 < 1ms"]);
        assert_eq!(find(&tests, "linerate.udp_stream.rx.latency_p99")["status"], "ERROR", "it was not measured");
        assert!(tests.iter().any(|test| test["status"] == "ERROR" && test.get("number").is_none()));
    }

    #[test]
    fn who_submits() {
        for (build, origin) in
            [("x", "lab"), ("x:", "lab"), (":x", "lab"), ("X:y", "lab"), ("a:b\0", "lab"), ("a:b", "Lab"), ("a:b", "")]
        {
            let sentence = Submitter::new(build, origin).unwrap_err();
            assert!(sentence.starts_with("--") && !sentence.contains(['\n', '\0']), "{sentence}");
        }
        assert!(Submitter::new("kernelci_org:a b:c", "my_lab1").is_ok());
    }
}
