//! The cases of a comparison: each metric of each configuration, and each gate.
//! Judges by the gates; where there are none, as `--bisect` does: what is worse is a failure.

use linerate_results::compare::gate::{Gate, Outcome as OfGate};
use linerate_results::compare::verdict::Verdict;
use linerate_results::compare::{Comparison, FailedTrials, Judged};
use linerate_results::figure::Difference;

use super::{Cases, Measurement, Outcome};
use crate::render::number::figure;

/// `asked` is what the command line calls the sides, as `last~1 last`.
pub(crate) fn of_comparison(asked: &str, comparison: &Comparison, gates: &[Gate]) -> Cases {
    let command = format!("compare {asked}");
    let mut cases = Cases::new(&command, &command);
    for gate in gates {
        let (outcome, sentence) = match gate.of(comparison) {
            OfGate::Passed => (Outcome::Passed, "no configuration is worse by so much".to_owned()),
            OfGate::Failed => (Outcome::Failed, "a configuration is worse by so much or more".to_owned()),
            OfGate::Unknown => (Outcome::Skipped, format!("cannot tell: {}", why_unknown(gate, comparison))),
        };
        let worse = comparison.judged.iter().filter(|judged| gate.outcome(judged) == Some(OfGate::Failed));
        let of = |judged: &Judged| match judged.configuration.as_str() {
            "" => words(judged),
            configuration => format!("{configuration}: {}", words(judged)),
        };
        let worse: Vec<String> = worse.map(of).collect();
        let sentence = if worse.is_empty() { sentence } else { worse.join("; ") };
        cases.add(&format!("gate: {gate}"), outcome, &sentence, None, None);
    }
    for judged in &comparison.judged {
        let name = match judged.configuration.as_str() {
            "" => judged.metric.short().to_owned(),
            configuration => format!("{}, {configuration}", judged.metric.short()),
        };
        let of_gates: Vec<OfGate> = gates.iter().filter_map(|gate| gate.outcome(judged)).collect();
        let outcome = match &judged.verdict {
            Verdict::CannotTell { .. } | Verdict::NotComparable { .. } => Outcome::Skipped,
            Verdict::Better | Verdict::Same { .. } => Outcome::Passed,
            Verdict::Worse if gates.is_empty() || of_gates.contains(&OfGate::Failed) => Outcome::Failed,
            Verdict::Worse => Outcome::Passed,
        };
        let mut sentence = words(judged);
        if judged.verdict == Verdict::Worse && outcome == Outcome::Passed {
            sentence += if of_gates.is_empty() { "; no gate is on it" } else { "; less than its gate allows" };
        }
        for doubt in &judged.doubts {
            sentence += &format!("; {doubt}");
        }
        let measurement = Measurement::of(judged.metric, judged.candidate.median);
        cases.add(&name, outcome, &sentence, measurement, None);
    }
    for failed in comparison.failed.iter().filter(|failed| failed.hide_candidate()) {
        let name = match failed.configuration.as_str() {
            "" => "trials of the candidate".to_owned(),
            configuration => format!("trials of the candidate, {configuration}"),
        };
        cases.add(&name, Outcome::Error, &failed.to_string(), None, None);
    }
    for (whose, configuration) in &comparison.unmatched {
        let sentence = format!("cannot tell: only the {whose} has this configuration");
        cases.add(&format!("compared, {configuration}"), Outcome::Skipped, &sentence, None, None);
    }
    cases
}

/// Why a gate cannot tell.
pub(crate) fn why_unknown(gate: &Gate, comparison: &Comparison) -> String {
    if let Some(failed) = gate.hidden(comparison).next() {
        return of_configuration(failed);
    }
    let unknown = |judged: &&Judged| gate.outcome(judged) == Some(OfGate::Unknown);
    let verdicts: Vec<&Verdict> = comparison.judged.iter().filter(unknown).map(|judged| &judged.verdict).collect();
    let comparable = verdicts.iter().any(|verdict| !matches!(verdict, Verdict::NotComparable { .. }));
    match verdicts.first() {
        None => "no configuration has it on both sides".to_owned(),
        Some(_) if comparable => "the noise hides it".to_owned(),
        Some(first) => first.words(gate.metric),
    }
}

/// `rate=100M: 5 of 10 trials of the candidate failed`.
pub(crate) fn of_configuration(failed: &FailedTrials) -> String {
    match failed.configuration.as_str() {
        "" => failed.to_string(),
        configuration => format!("{configuration}: {failed}"),
    }
}

/// `slower: baseline 941.2, candidate 912.0 Mbit/s, difference -3.1 % [-3.5, -2.7]`.
fn words(judged: &Judged) -> String {
    let (metric, scale) = (judged.metric, judged.metric.unit.scale());
    let value = |value: Option<f64>| value.map_or("none".to_owned(), |value| figure(value * scale, 4));
    let mut text = format!(
        "{}: baseline {}, candidate {} {}",
        judged.verdict.words(metric),
        value(judged.baseline.median),
        value(judged.candidate.median),
        metric.unit.name()
    );
    let Some(found) = judged.found else { return text };
    let (shift, ends, scale, unit) = match metric.compared.difference {
        Difference::Relative => (found.relative, found.relative_interval, 100.0, "%"),
        Difference::Absolute => (Some(found.shift), found.interval, scale, metric.unit.of_difference()),
    };
    if let Some(shift) = shift {
        text += &format!(", difference {} {unit}", figure(shift * scale, 3));
        if let Some((low, high)) = ends {
            text += &format!(" [{}, {}]", figure(low * scale, 3), figure(high * scale, 3));
        }
    }
    text
}
