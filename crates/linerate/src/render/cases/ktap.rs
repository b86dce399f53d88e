//! KTAP version 1, as kselftest's parsers and KernelCI read it (Documentation/dev-tools/ktap.rst): a subtest a suite.

use super::{Case, Cases, Outcome};

impl Cases {
    /// As KTAP, version 1.
    pub(crate) fn ktap(&self) -> String {
        let suites = self.suites();
        let mut text = format!("KTAP version 1\n1..{}\n", suites.len());
        for (number, (suite, cases)) in (1..).zip(&suites) {
            let suite = description(suite);
            text += &format!("  KTAP version 1\n  # Subtest: {suite}\n  1..{}\n", cases.len());
            for (number, case) in (1..).zip(cases) {
                text += &one(number, case);
            }
            let result = if cases.iter().any(|case| case.outcome.is_red()) { "not ok" } else { "ok" };
            let skipped =
                if cases.iter().all(|case| case.outcome == Outcome::Skipped) { " # SKIP all of it" } else { "" };
            text += &format!("{result} {number} {suite}{skipped}\n");
        }
        text
    }
}

fn one(number: usize, case: &Case) -> String {
    let (name, sentence) = (description(&case.name), description(&case.sentence));
    // A directive has its reason behind it; what has none is told in a diagnostic line, which stands before its result. It
    // begins with a word of ours: "# Subtest:" would begin a test.
    let told = format!("  # told: {sentence}\n");
    let measured = case.measurement.map(|one| format!("  # measured: {} {}\n", one.number(), one.unit));
    let result = match case.outcome {
        Outcome::Passed => format!("{told}  ok {number} {name}\n"),
        Outcome::Failed => format!("{told}  not ok {number} {name}\n"),
        Outcome::Error => format!("  not ok {number} {name} # ERROR {sentence}\n"),
        Outcome::Skipped => format!("  ok {number} {name} # SKIP {sentence}\n"),
    };
    measured.unwrap_or_default() + &result
}

/// A description has no `#` ("any string of characters other than # or a newline"), and version 1 no way to escape it.
fn description(text: &str) -> String {
    text.replace('#', "\\x23")
}
