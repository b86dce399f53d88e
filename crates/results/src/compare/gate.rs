//! Gates: what a comparison must not show, such as "throughput worse 3%".
//! Knows verdicts and shifts; what happens to an exit status is the command's.

use std::fmt;
use std::str::FromStr;

use super::verdict::Verdict;
use super::{Comparison, FailedTrials, Judged};
use crate::figure::{Difference, METRICS, Metric};

/// Something that a comparison must not show.
#[derive(Clone, Copy, Debug)]
pub struct Gate {
    /// Of which metric.
    pub metric: &'static Metric,
    /// From this difference on, in the metric's kind of difference; 0: any that is real.
    pub by: f64,
}

/// What came of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// It is not worse by so much.
    Passed,
    /// The noise hides whether it is.
    Unknown,
    /// It is.
    Failed,
}

impl FromStr for Gate {
    type Err = String;

    /// `METRIC worse`, or `METRIC worse 3%`.
    fn from_str(text: &str) -> Result<Gate, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let (name, size) = match words[..] {
            [name, "worse"] => (name, None),
            [name, "worse", size] => (name, Some(size)),
            [name, "worse", size, "%"] => (name, Some(size)),
            _ => return Err(format!("'{text}' is not a gate; write METRIC worse, or METRIC worse 3%")),
        };
        let metric = Metric::find(name).ok_or_else(|| no_metric(name))?;
        let number = |text: &str| text.trim_end_matches('%').parse::<f64>().ok().filter(|n| n.is_finite() && *n >= 0.0);
        let by = match size.map(|size| (size, number(size))) {
            None => 0.0,
            Some((_, Some(number))) => match metric.compared.difference {
                Difference::Relative => number / 100.0,
                Difference::Absolute => number / metric.unit.scale(),
            },
            Some((size, None)) => return Err(format!("'{size}' is not a size of a difference; write it like 3%")),
        };
        Ok(Gate { metric, by })
    }
}

/// One sentence about a name that no metric has.
pub fn no_metric(name: &str) -> String {
    let names: Vec<&str> = METRICS.iter().map(Metric::short).collect();
    let near = linerate_machine::text::nearest(name, names.iter().copied());
    let hint =
        near.map_or_else(|| format!("metrics are {}", names.join(", ")), |near| format!("did you mean '{near}'?"));
    format!("there is no metric '{name}'; {hint}")
}

impl Gate {
    /// What this judgement says to the gate, if it is about its metric.
    pub fn outcome(&self, judged: &Judged) -> Option<Outcome> {
        if judged.metric.name != self.metric.name {
            return None;
        }
        let worse = |shift: f64| if self.metric.improves(shift) { -shift.abs() } else { shift.abs() };
        let (size, interval) = match (judged.found, self.metric.compared.difference) {
            // Of a baseline of 0 there is no part; what is not worse at all is so by any.
            (Some(found), Difference::Relative) => {
                let not_worse = found.interval.filter(|&(low, high)| worse(low).max(worse(high)) <= 0.0);
                (found.relative, found.relative_interval.or(not_worse))
            }
            (Some(found), Difference::Absolute) => (Some(found.shift), found.interval),
            (None, _) => (None, None),
        };
        // A ratio is some roundings away from what it is: three hundredths less are 3 %.
        let is_by = |size: f64| worse(size) >= self.by * (1.0 - 1e-9);
        Some(match &judged.verdict {
            Verdict::NotComparable { .. } => Outcome::Unknown,
            // Where the baseline is 0 there is no part of it, and any loss is more than so much.
            Verdict::Worse if size.is_none_or(is_by) => Outcome::Failed,
            Verdict::Better | Verdict::Worse => Outcome::Passed,
            Verdict::Same { .. } if self.by == 0.0 => Outcome::Passed,
            _ => match interval {
                Some((low, high)) if !is_by(low) && !is_by(high) => Outcome::Passed,
                _ => Outcome::Unknown,
            },
        })
    }

    /// The worst of its outcomes; [`Outcome::Unknown`] where nothing was judged, or where so many of the candidate's trials failed
    /// that the others do not speak for it.
    pub fn of(&self, comparison: &Comparison) -> Outcome {
        let judged = comparison.judged.iter().filter_map(|judged| self.outcome(judged)).max();
        let hidden = self.hidden(comparison).next().map(|_| Outcome::Unknown);
        judged.max(hidden).unwrap_or(Outcome::Unknown)
    }

    /// What failed of the candidate where this gate looks: where its metric was judged, or nothing could be.
    pub fn hidden<'a>(&self, comparison: &'a Comparison) -> impl Iterator<Item = &'a FailedTrials> {
        let name = &self.metric.name;
        comparison.failed.iter().filter(|failed| failed.hide_candidate()).filter(move |failed| {
            let mut of_it = comparison.judged.iter().filter(|judged| judged.configuration == failed.configuration);
            let is_judged = of_it.clone().next().is_some();
            !is_judged || of_it.any(|judged| judged.metric.name == *name)
        })
    }
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} worse", self.metric.short())?;
        match self.metric.compared.difference {
            _ if self.by == 0.0 => Ok(()),
            Difference::Relative => write!(f, " {}%", (self.by * 1e6).round() / 1e4),
            Difference::Absolute => {
                write!(
                    f,
                    " by {} {}",
                    (self.by * self.metric.unit.scale() * 1e6).round() / 1e6,
                    self.metric.unit.of_difference()
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::{ShiftEstimate, Summary};
    use super::*;

    #[test]
    fn gates_are_read_and_written() {
        for (text, again) in [
            ("throughput worse 3%", "throughput worse 3%"),
            ("throughput_bps worse", "throughput worse"),
            ("latency_p99 worse 2.5 %", "latency_p99 worse 2.5%"),
            ("loss worse 0.1%", "loss worse by 0.1 percentage points"),
        ] {
            assert_eq!(text.parse::<Gate>().unwrap().to_string(), again);
        }
        for (text, part) in [
            ("", "is not a gate"),
            ("throughput better 3%", "is not a gate"),
            ("thruput worse", "did you mean 'throughput'"),
            ("throughput worse much", "'much' is not a size"),
            ("throughput worse -3%", "'-3%' is not a size"),
            ("throughput worse nan%", "is not a size"),
        ] {
            let error = text.parse::<Gate>().unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }

    #[track_caller]
    fn check(gate: &str, verdict: Verdict, relative: f64, interval: (f64, f64), want: Outcome) {
        let found = ShiftEstimate {
            shift: relative * 1e9,
            interval: Some((interval.0 * 1e9, interval.1 * 1e9)),
            relative: Some(relative),
            relative_interval: Some(interval),
            p: 0.01,
            p_corrected: 0.01,
            paired: false,
            detectable: None,
            detectable_shift: None,
        };
        check_found(gate, verdict, found, want);
    }

    #[track_caller]
    fn check_found(gate: &str, verdict: Verdict, found: ShiftEstimate, want: Outcome) {
        let gate: Gate = gate.parse().unwrap();
        let summary = Summary { count: 10, median: Some(1e9), records: Arc::default() };
        let judged = Judged {
            configuration: String::new(),
            metric: gate.metric,
            baseline: summary.clone(),
            candidate: summary,
            found: Some(found),
            verdict,
            doubts: Vec::new(),
        };
        assert_eq!(gate.outcome(&judged), Some(want));
    }

    #[test]
    fn a_gate_fails_on_what_is_real_and_large() {
        let cannot = || Verdict::CannotTell { more: Some(3) };
        check("throughput worse 3%", Verdict::Worse, -0.05, (-0.06, -0.04), Outcome::Failed);
        check("throughput worse 3%", Verdict::Worse, -0.02, (-0.03, -0.01), Outcome::Passed);
        // As 1000 Mbit/s and 970 come out of logarithms, a few roundings away from 3 %.
        let three = -0.029_999_999_999_998_7;
        check("throughput worse 3%", Verdict::Worse, three, (three, three), Outcome::Failed);
        check("throughput worse 3%", cannot(), -0.02, (three, 0.01), Outcome::Unknown);
        check("throughput worse", Verdict::Worse, -0.02, (-0.03, -0.01), Outcome::Failed);
        check("throughput worse 3%", Verdict::Better, 0.05, (0.04, 0.06), Outcome::Passed);
        check("throughput worse 3%", cannot(), -0.02, (-0.05, 0.01), Outcome::Unknown);
        check("throughput worse 3%", cannot(), 0.02, (-0.02, 0.06), Outcome::Passed);
        check("throughput worse", Verdict::Same { within: 0.01 }, 0.0, (-0.01, 0.01), Outcome::Passed);
        check("throughput worse", cannot(), 0.0, (-0.1, 0.1), Outcome::Unknown);
        let incomparable = Verdict::NotComparable { why: "x".to_owned() };
        check("throughput worse 3%", incomparable, 0.0, (0.0, 0.0), Outcome::Unknown);
    }

    #[test]
    fn of_a_baseline_of_0_nothing_worse_is_no_part_of_it() {
        let check = |verdict, interval, want| {
            let found = ShiftEstimate {
                shift: 0.0,
                interval: Some(interval),
                relative: None,
                relative_interval: None,
                p: 1.0,
                p_corrected: 1.0,
                paired: false,
                detectable: None,
                detectable_shift: None,
            };
            check_found("tcp_retransmissions worse 10%", verdict, found, want);
        };
        check(Verdict::Same { within: 0.0 }, (0.0, 0.0), Outcome::Passed);
        check(Verdict::CannotTell { more: Some(3) }, (-2.0, 0.0), Outcome::Passed);
        check(Verdict::CannotTell { more: Some(3) }, (-2.0, 1.0), Outcome::Unknown);
        check(Verdict::Worse, (800.0, 900.0), Outcome::Failed);
    }
}
