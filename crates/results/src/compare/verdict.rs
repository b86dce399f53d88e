//! The verdict: better, worse, the same within so much, or cannot tell and how many repeats it takes.
//! Knows numbers of both sides and the metric's direction; what stands around them is judged elsewhere.

use linerate_stats::shift::{Method, Shift, between, within_pairs};
use linerate_stats::{ALPHA, median};
use serde::Serialize;

use crate::figure::{Difference, Metric};

/// What came of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "is")]
pub enum Verdict {
    /// The candidate is better, and it is not noise.
    Better,
    /// The candidate is worse, and it is not noise.
    Worse,
    /// If there is a difference, it is no larger than this, in the metric's kind of difference.
    Same {
        /// The larger end of the interval.
        within: f64,
    },
    /// The noise is too large for this number of repeats.
    CannotTell {
        /// About how many more repeats of each side it takes; absent where the noise is not known.
        #[serde(skip_serializing_if = "Option::is_none")]
        more: Option<u32>,
    },
    /// The two figures mean different things.
    NotComparable {
        /// One sentence.
        why: String,
    },
}

impl Verdict {
    /// Better or worse.
    pub fn is_found(&self) -> bool {
        matches!(self, Verdict::Better | Verdict::Worse)
    }

    /// Better, worse, or the same.
    pub fn is_judged(&self) -> bool {
        !matches!(self, Verdict::CannotTell { .. } | Verdict::NotComparable { .. })
    }

    /// In words, with the metric's own for better and worse.
    pub fn words(&self, metric: &Metric) -> String {
        match self {
            Verdict::Better => metric.compared.words[0].to_owned(),
            Verdict::Worse => metric.compared.words[1].to_owned(),
            Verdict::Same { within } => match metric.compared.difference {
                Difference::Relative => format!("the same within {} %", tidy(within * 100.0)),
                Difference::Absolute => {
                    format!("the same within {} {}", tidy(within * metric.unit.scale()), metric.unit.of_difference())
                }
            },
            Verdict::CannotTell { more: None } => "cannot tell: needs repeats".to_owned(),
            Verdict::CannotTell { more: Some(more @ ..=999) } => {
                format!("cannot tell: needs about {more} more repeat{}", if *more == 1 { "" } else { "s" })
            }
            Verdict::CannotTell { .. } => "cannot tell: needs over 1,000 more repeats".to_owned(),
            Verdict::NotComparable { why } => format!("not comparable: {why}"),
        }
    }
}

/// Rounded up to two digits, so that "within" stays true.
fn tidy(value: f64) -> String {
    if value <= 0.0 {
        return "0".to_owned();
    }
    let step = 10_f64.powf(value.log10().floor() - 1.0);
    let rounded = (value / step * (1.0 - 1e-12)).ceil() * step;
    let behind = (-step.log10().round()).max(0.0) as usize;
    let text = format!("{rounded:.behind$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// The values of one metric on both sides.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sides {
    /// The baseline's.
    pub baseline: Vec<f64>,
    /// The candidate's.
    pub candidate: Vec<f64>,
    /// Those among them that one round of one campaign measured one after the other.
    pub rounds: Vec<Round>,
}

/// A round of a campaign, with one value of each side.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Round {
    /// The baseline's value.
    pub baseline: f64,
    /// The candidate's.
    pub candidate: f64,
    /// The baseline was measured first.
    pub baseline_first: bool,
}

/// Rounds are pairs only where they have at least this much in common, from 0 (nothing) to 1 (all).
const ALIKE: f64 = 0.3;

impl Sides {
    /// Whether there are enough values for any finding at all, if it stood alone.
    pub fn could_tell(&self) -> bool {
        Method::RankSum.least_p([self.baseline.len(), self.candidate.len()]) <= ALPHA
    }

    /// How far the candidate lies above the baseline, by pairs where the rounds are pairs.
    pub fn shift(&self, alpha: f64) -> Option<Shift> {
        self.shift_by(if self.are_pairs(alpha) { Method::SignedRank } else { Method::RankSum })
    }

    fn shift_by(&self, method: Method) -> Option<Shift> {
        match method {
            Method::SignedRank => {
                within_pairs(&self.rounds.iter().map(|round| round.candidate - round.baseline).collect::<Vec<_>>())
            }
            Method::RankSum => between(&self.baseline, &self.candidate),
        }
    }

    /// The same of the values' logarithms; `None` where one is not above 0.
    fn ratio(&self, method: Method) -> Option<Shift> {
        let mut all = self.baseline.iter().chain(&self.candidate);
        let ln = |values: &[f64]| values.iter().map(|value| value.ln()).collect();
        let round = |one: &Round| Round { baseline: one.baseline.ln(), candidate: one.candidate.ln(), ..*one };
        let rounds = self.rounds.iter().map(round).collect();
        let logarithms = Sides { baseline: ln(&self.baseline), candidate: ln(&self.candidate), rounds };
        all.all(|value| *value > 0.0).then(|| logarithms.shift_by(method))?
    }

    /// Whether rounds are to be taken as pairs, which takes a drift out of the comparison. Three conditions:
    ///
    /// - There are enough of them that signed ranks can come to a finding.
    /// - Each side went first in at least a fifth of them. Where one side always goes first, a drift within the
    ///   round would stand in every difference, and pairs would be surer of it the more there are.
    /// - The rounds have something in common: their intraclass correlation (R. A. Fisher, "Statistical methods for
    ///   research workers", 1925, section 38) is 0.3 or more. It does not change when the two values of a round
    ///   change places, and signed ranks ask nothing else than that this is as likely; so looking at it first does
    ///   not spoil the test.
    fn are_pairs(&self, alpha: f64) -> bool {
        let n = self.rounds.len();
        let first = self.rounds.iter().filter(|round| round.baseline_first).count();
        let whole = n == self.baseline.len() && n == self.candidate.len();
        let mixed = 5 * first >= n && 5 * (n - first) >= n;
        whole && mixed && Method::SignedRank.least_p([n, n]) <= alpha && intraclass(&self.rounds) >= ALIKE
    }
}

fn intraclass(rounds: &[Round]) -> f64 {
    let n = rounds.len() as f64;
    let means: Vec<f64> = rounds.iter().map(|round| (round.baseline + round.candidate) / 2.0).collect();
    let mean = means.iter().sum::<f64>() / n;
    let among = 2.0 * means.iter().map(|m| (m - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let within = rounds.iter().map(|round| (round.candidate - round.baseline).powi(2)).sum::<f64>() / 2.0 / n;
    if among + within > 0.0 { (among - within) / (among + within) } else { 0.0 }
}

/// What 1 means in a difference of this metric: its baseline's median, or 1; absent where the median is 0.
pub(super) fn unit_of_difference(metric: &Metric, base: Option<f64>) -> Option<f64> {
    match metric.compared.difference {
        Difference::Absolute => Some(1.0),
        Difference::Relative => base.map(f64::abs).filter(|base| *base > 0.0),
    }
}

/// A shift in the metric's kind of difference, and its interval; absent where the baseline's median is 0, of which there is no part.
///
/// A part is that of the ratios of a value of one side to one of the other. The shift divided by the baseline's median would have an
/// interval that knows nothing of how uncertain that median is: where the sides lie far apart, it would hold the truth in one case of
/// two. Of values among which there is a 0 there are no ratios, and it is taken all the same.
pub(super) fn difference(metric: &Metric, sides: &Sides, shift: &Shift) -> Option<(f64, Option<(f64, f64)>)> {
    let unit = unit_of_difference(metric, median(&sides.baseline))?;
    let ratio = match metric.compared.difference {
        Difference::Relative => sides.ratio(shift.method),
        Difference::Absolute => None,
    };
    // Nothing that is told by ratio can be less than none of it.
    let least = if metric.compared.difference == Difference::Relative { -1.0 } else { f64::NEG_INFINITY };
    Some(match ratio {
        Some(ratio) => (ratio.estimate.exp_m1(), ratio.interval.map(|(low, high)| (low.exp_m1(), high.exp_m1()))),
        None => (shift.estimate / unit, shift.interval.map(|(low, high)| ((low / unit).max(least), high / unit))),
    })
}

/// The verdict on a shift, whose p among all that is judged is `p`; `alpha` is this judgement's share of the level
/// when there are as many repeats as it takes.
pub fn verdict(metric: &Metric, sides: &Sides, shift: &Shift, p: f64, alpha: f64, margin: Option<f64>) -> Verdict {
    let unit = unit_of_difference(metric, median(&sides.baseline));
    let difference = difference(metric, sides, shift);
    let margin = margin.unwrap_or(metric.compared.margin);
    let resolution = metric.compared.resolution;
    let size = shift.estimate.abs();
    // Of pairs whose levels lie far apart, the high ones decide the shift and each counts in the part: where the two go opposite ways there
    // is no telling which side is better.
    let is_more = |(part, _): (f64, _)| part * shift.estimate.signum() > resolution;
    if p <= ALPHA && difference.map_or(size > 0.0, is_more) {
        return if metric.improves(shift.estimate) { Verdict::Better } else { Verdict::Worse };
    }
    // Of a baseline of 0 only what has no difference at all is the same.
    let (interval, most) = difference.map_or((shift.interval, 0.0), |(_, part)| (part, margin.max(resolution)));
    if let Some(within) = interval.map(|(low, high)| low.abs().max(high.abs())).filter(|within| *within <= most) {
        // Finer than it is measured it is not the same.
        return Verdict::Same { within: if within > 0.0 { within.max(resolution) } else { 0.0 } };
    }
    let each = shift.each.floor() as u32;
    let needed = shift.repeats_for(size.max(unit.unwrap_or(0.0) * margin), alpha);
    Verdict::CannotTell { more: needed.map(|needed| needed.saturating_sub(each).max(1)) }
}

#[cfg(test)]
mod tests {
    use linerate_stats::noise::Noise;

    use super::*;

    #[track_caller]
    fn check(metric: &str, baseline: &[f64], candidate: &[f64], words: &str) {
        let metric = Metric::find(metric).unwrap();
        let sides = Sides { baseline: baseline.to_vec(), candidate: candidate.to_vec(), rounds: Vec::new() };
        let shift = sides.shift(ALPHA).unwrap();
        assert_eq!(verdict(metric, &sides, &shift, shift.p, ALPHA, None).words(metric), words, "{shift:?}");
    }

    #[test]
    fn verdicts_in_words() {
        let base = [940.0, 941.0, 942.0, 939.0, 940.5];
        let plus = |by: f64| base.map(|value| value + by);
        check("throughput", &base, &plus(50.0), "faster");
        check("throughput", &base, &plus(-50.0), "slower");
        check("throughput", &base, &plus(0.1), "the same within 0.23 %");
        check("throughput", &base, &base, "the same within 0.22 %");
        check("throughput", &[940.0; 5], &[940.4; 5], "the same within 0.1 %");
        check("latency_p99", &base, &plus(50.0), "slower");
        check("latency_p99", &base, &plus(-50.0), "faster");
        check("loss", &[0.0; 5], &[0.0; 5], "the same within 0 percentage points");
        check("loss", &[0.0; 5], &[0.01, 0.02, 0.01, 0.03, 0.015], "loses more");
        check("loss", &[0.0, 0.0, 0.0, 0.0, 0.0005], &[0.0; 5], "the same within 0.05 percentage points");
        check("jitter", &[0.0; 5], &[0.0; 5], "the same within 0 %");
        check("target_us_per_kib", &base, &plus(-400.0), "cheaper");
        check("throughput", &[900.0, 1000.0, 950.0], &[600.0, 700.0, 650.0], "cannot tell: needs about 1 more repeat");
        check("throughput", &[900.0], &[600.0], "cannot tell: needs repeats");
        check(
            "throughput",
            &[100.0, 900.0, 500.0, 300.0],
            &[200.0, 800.0, 450.0, 350.0],
            "cannot tell: needs over 1,000 more repeats",
        );
    }

    #[test]
    fn what_is_more_by_shift_and_less_by_part_is_no_finding() {
        // Nine rounds of a link at full speed gain 1 %, six of one that fell back lose 4 %.
        let level = |at: u32| if at % 5 < 3 { 1e8 } else { 1e6 } * (1.0 + 0.001 * f64::from(at));
        let gain = |at: u32| if at % 5 < 3 { 1.01 } else { 0.96 };
        let round = |at| Round { baseline: level(at), candidate: level(at) * gain(at), baseline_first: at % 2 == 0 };
        let rounds: Vec<Round> = (0..15).map(round).collect();
        let side = |of: fn(&Round) -> f64| rounds.iter().map(of).collect();
        let sides =
            Sides { baseline: side(|one| one.baseline), candidate: side(|one| one.candidate), rounds: rounds.clone() };
        let shift = sides.shift(ALPHA).unwrap();
        let metric = Metric::find("throughput").unwrap();
        let (part, _) = difference(metric, &sides, &shift).unwrap();
        assert!(
            shift.method == Method::SignedRank && shift.p <= ALPHA && shift.estimate > 0.0 && part < -0.01,
            "{shift:?} {part}"
        );
        let verdict = verdict(metric, &sides, &shift, shift.p, ALPHA, None);
        assert!(!verdict.is_found(), "{verdict:?}");
    }

    /// How often of 1000 comparisons the interval of the part holds the truth.
    fn held(n: usize, part: f64, noise: impl Fn(&mut Noise) -> f64, paired: bool) -> usize {
        let metric = Metric::find("latency_p99").unwrap();
        let mut chance = Noise::new(n as u64);
        let mut holds = || {
            let mut draw = |level: f64| (0..n).map(|_| level * noise(&mut chance)).collect::<Vec<_>>();
            let (baseline, candidate) = (draw(1.0), draw(1.0 + part));
            let round = |(at, (&baseline, &candidate)): (usize, (&f64, &f64))| {
                let drift = if paired { 1.0 + at as f64 } else { 1.0 };
                Round { baseline: drift * baseline, candidate: drift * candidate, baseline_first: at % 2 == 0 }
            };
            let rounds: Vec<Round> = baseline.iter().zip(&candidate).enumerate().map(round).collect();
            let side = |of: fn(&Round) -> f64| rounds.iter().map(of).collect();
            let mut sides = Sides { baseline: side(|one| one.baseline), candidate: side(|one| one.candidate), rounds };
            if !paired {
                sides.rounds.clear();
            }
            let shift = sides.shift_by(if paired { Method::SignedRank } else { Method::RankSum }).unwrap();
            let (middle, interval) = difference(metric, &sides, &shift).unwrap();
            let (low, high) = interval.unwrap();
            assert!(low <= middle && middle <= high, "{low} {middle} {high}");
            (low..=high).contains(&part)
        };
        (0..1000).filter(|_| holds()).count()
    }

    #[test]
    fn the_interval_of_a_part_holds_the_truth_however_far_the_sides_lie_apart() {
        for (n, part) in [(5, 9.0), (10, 1.0), (10, -0.8), (20, 3.0)] {
            let count = held(n, part, |noise| 1.0 + 0.1 * noise.normal(), false);
            assert!((930..=985).contains(&count), "{n} values, {part}: {count}");
            let count = held(n, part, |noise| (0.5 * noise.normal()).exp(), false);
            assert!((930..=985).contains(&count), "{n} values, {part}, skewed: {count}");
        }
        let count = held(12, 1.0, |noise| 1.0 + 0.1 * noise.normal(), true);
        assert!((930..=985).contains(&count), "pairs: {count}");
    }

    #[test]
    fn where_a_value_is_0_the_part_is_that_of_the_baseline_s_median() {
        let metric = Metric::find("jitter").unwrap();
        let part = |baseline: &[f64], candidate: &[f64]| {
            let sides = Sides { baseline: baseline.to_vec(), candidate: candidate.to_vec(), rounds: Vec::new() };
            difference(metric, &sides, &sides.shift(ALPHA).unwrap())
        };
        assert_eq!(part(&[1.0, 2.0, 2.0, 3.0, 2.0], &[0.0; 5]), Some((-1.0, Some((-1.0, -0.5)))));
        assert_eq!(part(&[0.0; 5], &[1.0; 5]), None);
    }

    #[test]
    fn rounds_are_pairs_only_when_they_are() {
        let rounds = |n: usize, drift: f64, always_first: bool| -> Vec<Round> {
            let wobble = |at: usize| (at * 7 % 5) as f64;
            let round = |at: usize| {
                let base = 100.0 + drift * at as f64;
                let baseline_first = always_first || at.is_multiple_of(2);
                Round { baseline: base + wobble(at), candidate: base + wobble(at + 1), baseline_first }
            };
            (0..n).map(round).collect()
        };
        let is_paired = |rounds: Vec<Round>| {
            let baseline = rounds.iter().map(|round| round.baseline).collect();
            let candidate = rounds.iter().map(|round| round.candidate).collect();
            Sides { baseline, candidate, rounds }.shift(ALPHA).unwrap().method == Method::SignedRank
        };
        assert!(is_paired(rounds(10, 5.0, false)));
        assert!(!is_paired(rounds(10, 0.0, false)), "nothing in common");
        assert!(!is_paired(rounds(10, 5.0, true)), "the drift would stand in every difference");
        assert!(!is_paired(rounds(5, 5.0, false)), "too few for signed ranks");
    }
}
