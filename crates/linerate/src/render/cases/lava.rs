//! LAVA's test-case signals, a line each: the dispatcher reads them off the console.

use std::collections::BTreeSet;

use super::{Cases, Outcome};

/// LAVA has an identifier in many places of its pages.
const LONGEST: usize = 150;

/// A result of a job.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Signal {
    id: String,
    result: &'static str,
    /// The number and its unit.
    measurement: Option<(String, String)>,
}

impl Signal {
    /// As the dispatcher reads it off the console.
    pub(crate) fn line(&self) -> String {
        let measured = self.measurement.as_ref().map(|(number, unit)| format!(" MEASUREMENT={number} UNITS={unit}"));
        let Signal { id, result, .. } = self;
        format!("<LAVA_SIGNAL_TESTCASE TEST_CASE_ID={id} RESULT={result}{}>\n", measured.unwrap_or_default())
    }

    /// What `lava-test-case` of a LAVA test shell takes.
    pub(crate) fn arguments(&self) -> Vec<&str> {
        let mut arguments = vec![self.id.as_str(), "--result", self.result];
        if let Some((number, unit)) = &self.measurement {
            arguments.extend(["--measurement", number, "--units", unit]);
        }
        arguments
    }
}

impl Cases {
    /// As LAVA's signals.
    pub(crate) fn lava(&self) -> String {
        self.signals().iter().map(Signal::line).collect()
    }

    /// The results of LAVA's job.
    pub(crate) fn signals(&self) -> Vec<Signal> {
        let (mut signals, mut taken) = (Vec::new(), BTreeSet::new());
        for case in &self.cases {
            let (suite, name) = (identifier(&case.suite), identifier(&case.name));
            let base: String = format!("{suite}.{name}").chars().take(LONGEST).collect();
            let numbered = (2..).map(|number| format!("{base}-{number}"));
            let is_free = |name: &String| !taken.contains(name);
            let id = std::iter::once(base.clone()).chain(numbered).find(is_free).unwrap_or_default();
            let result = match case.outcome {
                Outcome::Passed => "pass",
                Outcome::Failed | Outcome::Error => "fail",
                Outcome::Skipped => "skip",
            };
            // LAVA's database has ten digits before the point.
            let measurement = case.measurement.filter(|one| one.value.abs() < 1e10);
            let measurement = measurement.map(|one| (one.number(), one.unit.replace('µ', "u").replace(' ', "_")));
            taken.insert(id.clone());
            signals.push(Signal { id, result, measurement });
        }
        signals
    }
}

/// Letters, digits, points, hyphens and underscores. A blank would end it, `>` the signal, and with a second `=` the
/// dispatcher refuses the parameter and ends the job (`handle_testcase` in lava_dispatcher/actions/test.py).
fn identifier(name: &str) -> String {
    let spelled = [(">=", " ge "), ("<=", " le "), (">", " gt "), ("<", " lt "), ("%", " percent"), ("µ", "u")];
    let spelled = spelled.into_iter().fold(name.to_owned(), |name, (sign, word)| name.replace(sign, word));
    let mut identifier = String::new();
    for c in spelled.chars() {
        match c {
            c if c.is_ascii_alphanumeric() || c == '.' || c == '_' => identifier.push(c),
            _ if identifier.ends_with('-') => {}
            _ => identifier.push('-'),
        }
    }
    let identifier = identifier.trim_matches(['-', '.']);
    if identifier.is_empty() { "case".to_owned() } else { identifier.to_owned() }
}
