//! What CI reads of a run or of a comparison: test cases, each with an outcome. A form of them is a file in `cases/`.
//! Knows no form; every form has every case, under the same name and with the same outcome.

mod junit;
mod ktap;
mod lava;
mod of_comparison;
mod of_run;
mod summary;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use linerate_machine::printable::in_line;
use linerate_results::figure::Metric;

use super::groups::in_groups;

pub(crate) use of_comparison::{of_comparison, of_configuration, why_unknown};
pub(crate) use of_run::{Run, of_run};

/// What came of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Outcome {
    /// Red: it was measured, and is not as it must be.
    Failed,
    /// Red: it could not be measured.
    Error,
    /// Nobody can tell.
    Skipped,
    /// As it must be.
    Passed,
}

impl Outcome {
    fn is_red(self) -> bool {
        matches!(self, Outcome::Failed | Outcome::Error)
    }

    /// For people.
    fn name(self) -> &'static str {
        match self {
            Outcome::Failed => "failed",
            Outcome::Error => "error",
            Outcome::Skipped => "skipped",
            Outcome::Passed => "passed",
        }
    }
}

/// A figure in the unit in which people read it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Measurement {
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
}

impl Measurement {
    /// A figure of a metric, from the record's unit; `None` of what is no number.
    fn of(metric: &Metric, value: Option<f64>) -> Option<Measurement> {
        let value = value.filter(|value| value.is_finite())? * metric.unit.scale();
        Some(Measurement { value, unit: metric.unit.name() })
    }

    /// The number for programs: no exponent, at most nine significant digits and ten behind the point. LAVA keeps ten.
    fn number(self) -> String {
        let rounded: f64 = format!("{:.8e}", self.value).parse().unwrap_or(self.value);
        let text = format!("{rounded:.10}");
        let text = text.trim_end_matches('0').trim_end_matches('.');
        if text == "-0" { "0".to_owned() } else { text.to_owned() }
    }
}

/// One test case.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Case {
    /// What it is a part of: the plan, or the comparison.
    pub(crate) suite: String,
    /// What is judged; the same at the next run, so that its history can be followed.
    pub(crate) name: String,
    pub(crate) outcome: Outcome,
    /// Why it came out so, one line.
    pub(crate) sentence: String,
    pub(crate) measurement: Option<Measurement>,
    /// How long it was measured.
    pub(crate) seconds: Option<f64>,
}

/// The most characters of a name, and of a sentence.
const NAME: usize = 300;
const SENTENCE: usize = 1000;

/// One line, of characters that every form has: two that are no control characters, XML has not (1.0, production 2).
fn clean(text: &str, most: usize) -> String {
    in_line(text, most).trim().replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}")
}

/// The cases of one command, in order. No two of a suite have the same name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cases {
    /// The command, as `linerate run tcp`.
    title: String,
    suite: String,
    cases: Vec<Case>,
    names: BTreeSet<String>,
}

impl Cases {
    /// None as yet, of a command on this.
    pub(crate) fn new(command: &str, suite: &str) -> Cases {
        let suite = Some(clean(suite, NAME)).filter(|suite| !suite.is_empty()).unwrap_or_else(|| "linerate".to_owned());
        Cases { title: clean(&format!("linerate {command}"), NAME), suite, cases: Vec::new(), names: BTreeSet::new() }
    }

    fn add(
        &mut self,
        name: &str,
        outcome: Outcome,
        sentence: &str,
        measurement: Option<Measurement>,
        seconds: Option<f64>,
    ) {
        let name = clean(name, NAME);
        let base = if name.is_empty() { "case".to_owned() } else { name };
        let numbered = (2..).map(|number| format!("{base} ({number})"));
        let is_free = |name: &String| !self.names.contains(name);
        let name = std::iter::once(base.clone()).chain(numbered).find(is_free).unwrap_or_default();
        self.names.insert(name.clone());
        let sentence = clean(sentence, SENTENCE);
        let seconds = seconds.filter(|seconds| seconds.is_finite() && *seconds >= 0.0);
        self.cases.push(Case { suite: self.suite.clone(), name, outcome, sentence, measurement, seconds });
    }

    /// The command ended before its time, for this reason.
    pub(crate) fn broke_off(&mut self, sentence: &str) {
        self.add("the command itself", Outcome::Error, sentence, None, None);
    }

    /// Whether a case is red.
    pub(crate) fn is_red(&self) -> bool {
        self.cases.iter().any(|case| case.outcome.is_red())
    }

    /// How many came out so.
    fn count(&self, outcome: Outcome) -> usize {
        self.cases.iter().filter(|case| case.outcome == outcome).count()
    }

    /// The cases by suite, in the order in which the suites come first.
    fn suites(&self) -> Vec<(&str, Vec<&Case>)> {
        in_groups(&self.cases, |case| case.suite.as_str())
    }
}
