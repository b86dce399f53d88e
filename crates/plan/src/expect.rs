//! What a plan expects of its figures: for which trials, and whether it came about.
//! Knows no renderer and no exit status.

use linerate_results::expect::Expectation;
use linerate_results::figure::{METRICS, Metric};
use linerate_results::record::{NullSide, Record};
use linerate_stats::median;
use linerate_trial::options;

use super::{Changes, Plan, PlannedTrial};

/// What came of one expectation of one configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct ExpectationResult {
    /// What is expected.
    pub expectation: Expectation,
    /// Which configuration; `None` where this run measures none that the expectation is for.
    pub configuration: Option<String>,
    /// Trials with this figure.
    pub repeats: usize,
    /// Their median, in the record's unit.
    pub median: Option<f64>,
}

impl ExpectationResult {
    /// Whether it is as expected; `None` where nothing of the kind was to be measured.
    pub fn is_met(&self) -> Option<bool> {
        self.configuration.is_some().then(|| self.expectation.is_met(self.median))
    }
}

/// Reads an expectation, with its levels written as trials have them.
pub fn expectation(text: &str) -> Result<Expectation, String> {
    let mut read: Expectation = text.parse()?;
    if let Some(unclear) = read.unclear() {
        return Err(unclear);
    }
    for (name, level) in &mut read.with {
        *level = options::canonical(name, level).map_err(|error| error.to_string())?;
    }
    Ok(read)
}

/// Why no trial of a run can show this, in a sentence; `None`: some can.
pub fn unanswerable(expectation: &Expectation, trials: &[PlannedTrial]) -> Option<String> {
    let mut chosen: Vec<&PlannedTrial> = trials.iter().collect();
    for (name, level) in &expectation.with {
        chosen.sort_by_key(|trial| trial.configuration);
        let mut there: Vec<String> = Vec::new();
        for level in chosen.iter().filter_map(|trial| trial.level(name)) {
            if !there.contains(&level) {
                there.push(level);
            }
        }
        chosen.retain(|trial| trial.level(name).as_ref() == Some(level));
        if chosen.is_empty() {
            let there =
                if there.is_empty() { format!("none sets {name}") } else { format!("there are {}", there.join(", ")) };
            return Some(format!("no trial has {name}={level}; {there}"));
        }
    }
    if chosen.iter().any(|trial| expectation.metric.suits(&trial.spec)) {
        return None;
    }
    let spec = &chosen.first()?.spec;
    let others: Vec<&str> = METRICS.iter().filter(|one| one.suits(spec)).map(Metric::short).collect();
    let (workload, direction) = (spec.workload, spec.direction);
    Some(format!(
        "a trial of {workload} {direction} has no {}; it has {}",
        expectation.metric.short(),
        others.join(", ")
    ))
}

impl PlannedTrial {
    /// Whether the expectation is for this one: it has the levels that are named.
    pub fn is_expected(&self, expectation: &Expectation) -> bool {
        expectation.with.iter().all(|(name, level)| self.level(name).as_ref() == Some(level))
    }

    /// What it has of an option or a setting.
    fn level(&self, name: &str) -> Option<String> {
        let factor = self.factors.iter().find(|(other, _)| other == name).map(|(_, level)| level.clone());
        let setting = || self.settings.iter().find(|one| format!("{}.{}", one.end, one.change.name) == name);
        let asked = || self.spec.asked().into_iter().find(|(other, _)| *other == name).map(|(_, text)| text);
        match name {
            "workload" => Some(self.spec.workload.name().to_owned()),
            _ => factor.or_else(|| setting().map(|one| one.change.value.clone())).or_else(asked),
        }
    }
}

/// Every expectation of the plan and of this run, each once, and the configurations that it is for: the first trial of each.
pub fn expected<'a>(
    plan: &Plan,
    changes: &Changes,
    trials: &'a [PlannedTrial],
) -> Vec<(Expectation, Vec<&'a PlannedTrial>)> {
    let more: Vec<Expectation> = changes.expect.iter().filter_map(|text| expectation(text).ok()).collect();
    let mut configurations: Vec<&PlannedTrial> = Vec::new();
    for trial in trials.iter().filter(|trial| trial.null_side != Some(NullSide::B)) {
        if !configurations.iter().any(|other| other.configuration == trial.configuration) {
            configurations.push(trial);
        }
    }
    configurations.sort_by_key(|trial| trial.configuration);
    let parts = plan.parts.iter().map(|part| &part.expect);
    let mut all: Vec<&Expectation> = Vec::new();
    for one in parts.flatten().chain(&more) {
        if !all.contains(&one) {
            all.push(one);
        }
    }
    let of = |one: &Expectation| {
        let is_for = |trial: &&&PlannedTrial| {
            (plan.parts[trial.part].expect.contains(one) || more.contains(one)) && trial.is_expected(one)
        };
        configurations.iter().filter(is_for).copied().collect()
    };
    all.into_iter().map(|one| (one.clone(), of(one))).collect()
}

/// Each expectation judged by the median of each configuration's repeats. By the median, and not by each trial: a plan that
/// repeats more often would else be the harder to pass.
pub fn judged(plan: &Plan, changes: &Changes, trials: &[PlannedTrial], records: &[Record]) -> Vec<ExpectationResult> {
    let mut judged: Vec<ExpectationResult> = Vec::new();
    for (one, configurations) in expected(plan, changes, trials) {
        if configurations.is_empty() {
            judged.push(ExpectationResult { expectation: one.clone(), configuration: None, repeats: 0, median: None });
        }
        for trial in configurations {
            let of_it = records.iter().filter(|record| {
                record.trial.configuration == Some(trial.configuration) && record.trial.null_side != Some(NullSide::B)
            });
            let values: Vec<f64> = of_it.filter_map(|record| one.metric.of(record)).collect();
            judged.push(ExpectationResult {
                expectation: one.clone(),
                configuration: Some(trial.words()),
                repeats: values.len(),
                median: median(&values),
            });
        }
    }
    judged
}

#[cfg(test)]
mod tests {
    use linerate_machine::end::Direction;
    use linerate_results::sample;

    use super::*;

    const PLAN: &str = "format = 'linerate.plan/1'\nexpect = 'loss < 1%'\nrepeat = 3\n[[part]]\nworkload = 'udp-stream'\n\
                        expect = ['throughput > 90M with rate=0.1G', 'latency_p50 < 1ms with host.gro=off']\n\
                        [part.options]\nhost.gro = 'off'\n[part.factors]\nrate = '100M,200M'\n\
                        [[part]]\nworkload = 'tcp-rr'\n";

    /// What was judged, when each configuration gives these Mbit/s in its repeats.
    fn check(changes: &Changes, through: [&[f64]; 2], want: &[&str]) {
        let plan = Plan::parse(PLAN, "t.toml", "t").unwrap();
        let trials = plan.trials_of(changes).unwrap();
        let mut records = Vec::new();
        for (configuration, values) in through.iter().enumerate() {
            for &mbit in *values {
                let mut record = sample::udp(0, Direction::Rx, 100 * (configuration as u32 + 1), mbit);
                record.trial.configuration = Some(configuration as u32);
                records.push(record);
            }
        }
        let lines: Vec<String> = judged(&plan, changes, &trials, &records)
            .iter()
            .map(|met| {
                let verdict = met.is_met().map_or("-", |met| if met { "met" } else { "not" });
                let of = met.configuration.as_deref().unwrap_or("nothing");
                format!("{} | {of} | {} | {verdict}", met.expectation, met.repeats)
            })
            .collect();
        assert_eq!(lines, want);
    }

    #[test]
    fn the_median_of_each_configuration_is_judged() {
        let lossless: &[f64] = &[99.9, 99.8, 50.0];
        check(
            &Changes::default(),
            [lossless, &[199.9]],
            &[
                "loss < 1% | udp-stream rate=100M | 3 | met",
                "loss < 1% | udp-stream rate=200M | 1 | met",
                "loss < 1% | tcp-rr rx | 0 | not",
                "throughput > 90M with rate=100M | udp-stream rate=100M | 3 | met",
                "latency_p50 < 1ms with host.gro=off | udp-stream rate=100M | 0 | not",
                "latency_p50 < 1ms with host.gro=off | udp-stream rate=200M | 0 | not",
            ],
        );
    }

    #[track_caller]
    fn check_unanswerable(text: &str, want: Option<&str>) {
        let trials = Plan::parse(PLAN, "t.toml", "t").unwrap().trials_of(&Changes::default()).unwrap();
        let why = unanswerable(&expectation(text).unwrap(), &trials);
        match want {
            None => assert_eq!(why, None),
            Some(part) => assert!(why.as_ref().is_some_and(|why| why.contains(part)), "{why:?}"),
        }
    }

    #[test]
    fn what_no_trial_can_show_is_known_before() {
        check_unanswerable("loss < 1%", None);
        check_unanswerable("latency_p50 < 1ms", None);
        check_unanswerable("loss < 1% with rate=0.1G", None);
        check_unanswerable("loss < 1% with rate=5M", Some("no trial has rate=5M; there are 100M, 200M, unlimited"));
        check_unanswerable("loss < 1% with host.mtu=1500", Some("no trial has host.mtu=1500; none sets host.mtu"));
        check_unanswerable(
            "loss < 1% with workload=tcp-rr",
            Some("a trial of tcp-rr rx has no loss; it has transactions"),
        );
        check_unanswerable("tx_throughput > 1M", Some("has no tx_throughput"));
    }

    #[test]
    fn a_bound_has_its_unit() {
        let refused = expectation("throughput > 200").unwrap_err();
        assert_eq!(refused, "throughput is written with its unit, and 200 has none; write 200K, 200M or 200G");
        assert!(expectation("loss <= 0").is_ok() && expectation("transactions > 20").is_ok());
    }

    #[test]
    fn what_this_run_does_not_measure_is_not_judged() {
        let set = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        let changes = Changes {
            overrides: vec![set("workload", "udp-stream"), set("rate", "300M"), set("host.gro", "on")],
            expect: vec!["achieved_load > 1M".to_owned()],
            ..Changes::default()
        };
        check(
            &changes,
            [&[99.0], &[]],
            &[
                "loss < 1% | udp-stream rate=300M | 1 | met",
                "throughput > 90M with rate=100M | nothing | 0 | -",
                "latency_p50 < 1ms with host.gro=off | nothing | 0 | -",
                "achieved_load > 1M | udp-stream rate=300M | 1 | met",
            ],
        );
    }
}
