//! What differs around the two sides, and what that does to their figures.
//! Knows facts by name, and no statistics.

use std::collections::{BTreeMap, BTreeSet};

use linerate_trial::doubt::DoubtKind;
use serde::Serialize;

use super::matching::{ComparedSide, Configuration, Matched, arounds};
use crate::figure::{About, Metric};
use crate::observation::TrialContext;

/// A fact that is not the same on both sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Differs {
    /// Its name, such as `rate` or `target.kernel`.
    pub name: String,
    /// What it is on the baseline's side; several where it varies; none where it is unknown.
    pub baseline: Vec<String>,
    /// And on the candidate's.
    pub candidate: Vec<String>,
    /// It is what the sides are compared by.
    pub on_purpose: bool,
}

/// How many records of each side carry a doubt of this kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DoubtCount {
    /// The kind, as records name it.
    pub kind: String,
    /// Of the baseline.
    pub baseline: usize,
    /// Of the candidate.
    pub candidate: usize,
}

/// What a difference in a fact does to a figure.
#[derive(Clone, Copy, PartialEq)]
enum Effect {
    /// The two figures mean different things.
    Incomparable,
    /// It may be the cause.
    Doubtful,
}

/// Which figures a rule is for.
type Figures = fn(About) -> bool;

/// A fact that changes what figures mean or may explain their difference. `{end}` stands for the machine that the
/// figure is of, or for either where it is of none.
struct Rule {
    fact: &'static str,
    words: &'static str,
    figures: Figures,
    effect: Effect,
}

const fn rule(fact: &'static str, words: &'static str, figures: Figures, effect: Effect) -> Rule {
    Rule { fact, words, figures, effect }
}

const ALL: Figures = |_| true;
const CPU: Figures = About::is_cpu;
const BY_PACKETS: Figures = |about| matches!(about, About::CpuByPackets(_));
const TRAFFIC: Figures = |about| !about.is_cpu();
const DELAY: Figures = |about| about == About::Delay;

static RULES: [Rule; 26] = [
    rule("workload", "the workload", ALL, Effect::Incomparable),
    rule("direction", "the direction", ALL, Effect::Incomparable),
    rule("latency_of", "what was timed", DELAY, Effect::Incomparable),
    rule("rate", "the offered load", ALL, Effect::Incomparable),
    rule("streams", "the number of streams", ALL, Effect::Incomparable),
    rule("message_size", "the size of messages", ALL, Effect::Incomparable),
    rule("request_size", "the size of requests", ALL, Effect::Incomparable),
    rule("response_size", "the size of responses", ALL, Effect::Incomparable),
    rule("outstanding", "how many requests are under way", ALL, Effect::Incomparable),
    rule("probe", "the probe beside the stream", TRAFFIC, Effect::Doubtful),
    rule("cpu_method", "how CPU time is measured", TRAFFIC, Effect::Doubtful),
    rule("drop_reasons", "the tracing of drops", TRAFFIC, Effect::Doubtful),
    rule("profile", "the samples of a profile a second", TRAFFIC, Effect::Doubtful),
    rule("{end}.cpu.method", "how CPU time is measured", CPU, Effect::Incomparable),
    rule("{end}.cpu.irq_time", "how the kernel accounts for interrupts", CPU, Effect::Incomparable),
    rule("{end}.nic.mtu", "the size of frames (MTU)", BY_PACKETS, Effect::Incomparable),
    rule("{end}.nic.mtu", "the size of frames (MTU)", ALL, Effect::Doubtful),
    rule("{end}.nic.speed_mbps", "the link's speed in Mbit/s", ALL, Effect::Incomparable),
    rule("{end}.nic.duplex", "the link's duplex", ALL, Effect::Incomparable),
    rule("used.sender_api", "the API of the senders", ALL, Effect::Incomparable),
    rule("used.receiver_api", "the API of the receivers", ALL, Effect::Incomparable),
    rule("{end}.cpu.governor", "the frequency governor", ALL, Effect::Doubtful),
    rule("{end}.cpu.max_frequency_khz", "the highest CPU frequency in kHz", ALL, Effect::Doubtful),
    rule("{end}.cpu.count", "the number of CPUs", ALL, Effect::Doubtful),
    rule("{end}.cpu.model", "the processor", ALL, Effect::Doubtful),
    rule("{end}.agent_version", "the agent's version", ALL, Effect::Doubtful),
];

/// Every fact that is not the same on both sides; what is compared first, then options, then the machines.
pub(super) fn differs(matched: &Matched<'_>, compared: &[String]) -> Vec<Differs> {
    let (baseline, candidate) = (facts(matched, ComparedSide::Baseline), facts(matched, ComparedSide::Candidate));
    let names: BTreeSet<&String> = baseline.keys().chain(candidate.keys()).collect();
    let values = |side: &BTreeMap<String, BTreeSet<String>>, name: &String| -> Vec<String> {
        side.get(name).map(|values| values.iter().cloned().collect()).unwrap_or_default()
    };
    let mut differs: Vec<Differs> = names
        .into_iter()
        .filter(|name| baseline.get(*name) != candidate.get(*name))
        .map(|name| Differs {
            name: name.clone(),
            baseline: values(&baseline, name),
            candidate: values(&candidate, name),
            on_purpose: is_on_purpose(name, compared),
        })
        .collect();
    let order = |one: &Differs| (!one.on_purpose, one.name.contains('.'), !one.name.starts_with("target."));
    differs.sort_by(|a, b| order(a).cmp(&order(b)).then_with(|| a.name.cmp(&b.name)));
    differs
}

/// Every fact of a side, with all the values that it has there.
fn facts(matched: &Matched<'_>, which: ComparedSide) -> BTreeMap<String, BTreeSet<String>> {
    let mut facts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for around in matched.both.iter().flat_map(|one| arounds(one.side(which))) {
        // Of a part that was seen, there is nothing new to hear.
        let (asked, machines) = around.place();
        if !seen.insert((Some(asked), None)) & !seen.insert((None, Some(machines))) {
            continue;
        }
        for (name, value) in around.facts() {
            if !facts.contains_key(name) {
                facts.insert(name.clone(), BTreeSet::new());
            }
            if let Some(values) = facts.get_mut(name).filter(|values| !values.contains(value)) {
                values.insert(value.clone());
            }
        }
    }
    facts
}

/// A factor like `target.mtu` shows in the facts as `target.nic.mtu`.
pub(super) fn is_on_purpose(name: &str, compared: &[String]) -> bool {
    compared.iter().any(|factor| {
        let (whose, what) = match factor.split_once('.') {
            Some((whose @ ("target" | "host" | "middle"), what)) => (whose, what),
            _ => ("", factor.as_str()),
        };
        name == factor || (name.starts_with(whose) && name.ends_with(&format!(".{what}")))
    })
}

/// A rule that the two sides of a configuration break.
pub(super) struct Broken {
    rule: &'static Rule,
    fact: String,
    sentence: String,
}

/// All of them, whatever figure they are about. What is compared on purpose breaks none.
pub(super) fn broken(configuration: &Configuration<'_>, compared: &[String]) -> Vec<Broken> {
    let (baseline, candidate) = (arounds(&configuration.baseline), arounds(&configuration.candidate));
    let of_rule = |rule: &'static Rule| facts_of(rule, About::Rate).into_iter().map(move |fact| (rule, fact));
    let told = |(rule, fact): (&'static Rule, String)| {
        let (a, b) = (values(&baseline, &fact), values(&candidate, &fact));
        let end = fact.split_once('.').map(|(end, _)| end).filter(|end| *end != "used");
        let whose = end.map_or(String::new(), |end| format!(" ({end})"));
        let words = rule.words;
        // What is unknown on one side is in the table of differences.
        let sentence = if a != b && !a.is_empty() && !b.is_empty() {
            format!("{words}{whose} is {} against {}", joined(&a), joined(&b))
        } else if a.len() > 1 && rule.effect == Effect::Doubtful {
            format!("{words}{whose} changed while it was measured: {}", joined(&a))
        } else {
            return None;
        };
        Some(Broken { rule, fact, sentence })
    };
    RULES.iter().flat_map(of_rule).filter(|(_, fact)| !is_on_purpose(fact, compared)).filter_map(told).collect()
}

/// The sentences of those that have this effect on the metric's figure.
fn sentences<'a>(broken: &'a [Broken], metric: &Metric, effect: Effect) -> impl Iterator<Item = &'a String> {
    let about = metric.about;
    let concerns = move |one: &&Broken| {
        one.rule.effect == effect && (one.rule.figures)(about) && facts_of(one.rule, about).contains(&one.fact)
    };
    broken.iter().filter(concerns).map(|one| &one.sentence)
}

/// Why the metric's two figures mean different things, if they do.
pub(super) fn incomparable<'a>(broken: &'a [Broken], metric: &Metric) -> Option<&'a String> {
    sentences(broken, metric, Effect::Incomparable).next()
}

/// Why the metric's difference may have another cause than what is compared, and the records' doubts of it.
pub(super) fn doubtful(configuration: &Configuration<'_>, broken: &[Broken], metric: &Metric) -> Vec<String> {
    let mut doubts: Vec<String> =
        configuration.failed().iter().map(|failed| format!("{failed}; the figures are of the others")).collect();
    doubts.extend(sentences(broken, metric, Effect::Doubtful).cloned());
    let sides = [&configuration.baseline, &configuration.candidate];
    let kinds: BTreeSet<&str> =
        sides.iter().flat_map(|side| side.iter().flat_map(|one| one.doubts.split(','))).collect();
    let kinds: Vec<&str> = kinds.into_iter().filter(|kind| doubts_of(kind, metric.about)).collect();
    if !kinds.is_empty() {
        doubts.push(format!("records doubt such figures: {}", kinds.join(", ")));
    }
    doubts
}

/// How many records carry which doubt.
pub(super) fn doubts(matched: &Matched<'_>) -> Vec<DoubtCount> {
    let mut counts: BTreeMap<&str, [usize; 2]> = BTreeMap::new();
    for configuration in &matched.both {
        for (at, side) in [&configuration.baseline, &configuration.candidate].into_iter().enumerate() {
            for kind in side.iter().flat_map(|one| one.doubts.split(',')).filter(|kind| !kind.is_empty()) {
                counts.entry(kind).or_default()[at] += 1;
            }
        }
    }
    let count =
        |(kind, [baseline, candidate]): (&str, [usize; 2])| DoubtCount { kind: kind.to_owned(), baseline, candidate };
    counts.into_iter().map(count).collect()
}

/// The rule's fact on the machines that the figure depends on.
fn facts_of(rule: &Rule, about: About) -> Vec<String> {
    if !rule.fact.contains("{end}") {
        return vec![rule.fact.to_owned()];
    }
    let of_link = rule.fact.contains(".nic.");
    let ends = match about {
        About::CpuByOctets(end) | About::CpuByPackets(end) if !of_link => vec![end.name()],
        // Of the middle each interface has a link.
        _ if of_link => vec!["target", "host", "middle.ports.target", "middle.ports.host"],
        _ => vec!["target", "host", "middle"],
    };
    ends.into_iter().map(|end| rule.fact.replace("{end}", end)).collect()
}

fn values<'a>(side: &[&'a TrialContext], name: &str) -> BTreeSet<&'a str> {
    side.iter().filter_map(|around| around.get(name)).collect()
}

fn joined(values: &BTreeSet<&str>) -> String {
    values.iter().copied().collect::<Vec<_>>().join(", ")
}

/// Whether a doubt of this kind is about such a figure; one that is not known here is about all.
fn doubts_of(kind: &str, about: About) -> bool {
    if kind.is_empty() {
        return false;
    }
    let cpu = CPU(about);
    match serde_json::from_value(kind.into()) {
        Ok(DoubtKind::IrqTimeByTicks | DoubtKind::ShortForCpu | DoubtKind::SoakNotCalibrated) => cpu,
        Ok(DoubtKind::SharedMachine) => cpu,
        Ok(DoubtKind::CountersContradict | DoubtKind::CountersMissing | DoubtKind::ProfileReduced) => false,
        Ok(DoubtKind::PartsApart) => matches!(about, About::Rate),
        Ok(DoubtKind::EndMarkLost | DoubtKind::Segmented | DoubtKind::FragmentsLost) => about == About::Loss,
        Ok(DoubtKind::ImplausibleReport) => matches!(about, About::Rate | About::Loss),
        Ok(DoubtKind::SenderFellBehind | DoubtKind::Fragmented | DoubtKind::SocketBufferClamped) => {
            matches!(about, About::SentLoad | About::Rate | About::Loss)
        }
        _ => true,
    }
}
