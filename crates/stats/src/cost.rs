//! The cost of a packet: a part for each packet and a part for each byte, fitted to trials of several sizes.
//! Knows no records; sizes and costs come in, and a refusal says why there is no fit.
//!
//! Weighted least squares, with weights that take each trial's error for a share of its cost; intervals by Student's t;
//! and the test for lack of fit against the scatter of repeats (N. R. Draper and H. Smith, "Applied Regression Analysis",
//! third edition, 1998, chapters 1, 2 and 9). tests/data/cost.py has SciPy's word on the same numbers.

use serde::Serialize;
use statrs::distribution::{ContinuousCDF, FisherSnedecor, StudentsT};

/// CPU time of a packet = `per_packet` + `per_byte` × its bytes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cost {
    /// Microseconds for each packet, whatever its size.
    pub per_packet: Estimate,
    /// Microseconds more for each byte of payload.
    pub per_byte: Estimate,
    /// How many trials it rests on.
    pub trials: usize,
    /// Whether some of them were of one size.
    #[serde(skip)]
    pub has_repeats: bool,
    /// The sizes between which it was measured, bytes.
    pub sizes: (f64, f64),
    /// Of the two costs' errors.
    #[serde(skip)]
    covariance: f64,
    /// Student's: what an error is multiplied with for an interval of 95 %.
    #[serde(skip)]
    t: f64,
    /// Relative variance of one trial around the line.
    #[serde(skip)]
    scatter: f64,
}

/// A figure with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The best guess.
    pub value: f64,
    /// From here.
    pub low: f64,
    /// To here.
    pub high: f64,
}

/// Why no cost is told. Each is one sentence that ends in what to try.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are the figures of the sentence")]
pub enum CostError {
    #[error("there {} of packets, and it takes three; measure more values of message_size, as the plan packet-cost does", counted(*sizes))]
    TooFewSizes { sizes: usize },
    #[error("the largest packets are only {ratio:.1} times the smallest; measure sizes that differ fourfold at least")]
    TooAlike { ratio: f64 },
    #[error(
        "a line does not fit: it misses by up to {worst:.0} %{}; look at the costs by size for where it bends, and measure \
         fewer of them, or longer",
        against(*p)
    )]
    Bent { worst: f64, p: Option<f64> },
    #[error(
        "a {what} would cost less than nothing ({value:.2e} µs), so that something else than size differs between these \
         trials; look what, and measure with nothing else varied"
    )]
    Negative { what: &'static str, value: f64 },
    #[error("a cost is not a number above zero; leave trials without traffic out")]
    NoFigure,
}

fn counted(sizes: usize) -> String {
    if sizes == 1 { "is one size".to_owned() } else { format!("are {sizes} sizes") }
}

fn against(p: Option<f64>) -> String {
    p.map_or(String::new(), |p| format!(", more than repeats scatter (p = {p:.1e})"))
}

/// Below this probability that repeats scatter so by themselves, a line that also misses by [`MISS`] does not fit.
const BENT: f64 = 0.01;
/// What a line may miss by and still be of use.
const MISS: f64 = 0.05;
const FEWEST_SIZES: usize = 3;
const LEAST_RATIO: f64 = 4.0;

impl Cost {
    /// Fits trials: (bytes in a packet, microseconds a packet).
    pub fn fit(trials: &[(f64, f64)]) -> Result<Cost, CostError> {
        if trials.iter().any(|(size, cost)| !(*size > 0.0 && *cost > 0.0 && (size + cost).is_finite())) {
            return Err(CostError::NoFigure);
        }
        let groups = groups(trials);
        if groups.len() < FEWEST_SIZES {
            return Err(CostError::TooFewSizes { sizes: groups.len() });
        }
        let (least, most) = (groups[0].size, groups[groups.len() - 1].size);
        if most / least < LEAST_RATIO {
            return Err(CostError::TooAlike { ratio: most / least });
        }
        // Of the mean of its size, so that no trial has more weight because it happened to be low.
        let weighed: Vec<(f64, f64, f64)> = groups
            .iter()
            .flat_map(|group| group.costs.iter().map(|&cost| (group.size, cost, group.mean().powi(-2))))
            .collect();
        let sum = |of: fn(&(f64, f64, f64)) -> f64| weighed.iter().map(of).sum::<f64>();
        let (w, wx, wy) = (sum(|t| t.2), sum(|t| t.2 * t.0), sum(|t| t.2 * t.1));
        let (wxx, wxy) = (sum(|t| t.2 * t.0 * t.0), sum(|t| t.2 * t.0 * t.1));
        let determinant = w * wxx - wx * wx;
        let (a, b) = ((wxx * wy - wx * wxy) / determinant, (w * wxy - wx * wy) / determinant);
        let residuals: f64 = weighed.iter().map(|(x, y, weight)| weight * (y - a - b * x).powi(2)).sum();
        let freedom = (weighed.len() - 2) as f64;
        let scatter = residuals / freedom;
        lack_of_fit(&groups, a, b, residuals)?;
        let t = StudentsT::new(0.0, 1.0, freedom).map_or(f64::INFINITY, |t| t.inverse_cdf(0.975));
        let estimate = |value: f64, variance: f64| {
            let half = t * variance.sqrt();
            Estimate { value, low: value - half, high: value + half }
        };
        let (of_a, of_b) = (scatter * wxx / determinant, scatter * w / determinant);
        if a < 0.0 {
            return Err(CostError::Negative { what: "packet", value: a });
        }
        // A little below zero by chance is no contradiction; that far is.
        if estimate(b, of_b).high < 0.0 {
            return Err(CostError::Negative { what: "byte", value: b });
        }
        Ok(Cost {
            per_packet: estimate(a, of_a),
            per_byte: estimate(b, of_b),
            trials: weighed.len(),
            has_repeats: weighed.len() > groups.len(),
            sizes: (least, most),
            covariance: -scatter * wx / determinant,
            t,
            scatter,
        })
    }

    /// Microseconds for a packet of so many bytes, with the interval in which 95 % of trials of that size would lie.
    pub fn at(&self, bytes: f64) -> Estimate {
        let value = self.per_packet.value + self.per_byte.value * bytes;
        let variance = |one: Estimate| ((one.high - one.value) / self.t).powi(2);
        let of_line =
            variance(self.per_packet) + 2.0 * bytes * self.covariance + bytes * bytes * variance(self.per_byte);
        let half = self.t * (of_line + self.scatter * value * value).max(0.0).sqrt();
        Estimate { value, low: value - half, high: value + half }
    }

    /// Bits of payload a second at which packets of so many bytes take all the time of one CPU, if each cost `less_us` less.
    pub fn saturates_at_bps(&self, bytes: f64, less_us: f64) -> Option<f64> {
        let cost = self.at(bytes).value - less_us;
        (cost > 0.0).then(|| bytes * 8.0 * 1e6 / cost)
    }
}

/// Trials of one size.
struct Group {
    size: f64,
    costs: Vec<f64>,
}

impl Group {
    fn mean(&self) -> f64 {
        self.costs.iter().sum::<f64>() / self.costs.len() as f64
    }
}

/// By rising size. Sizes that differ by less than a thousandth are one: what a stream's packets hold on average is
/// seldom a round number.
fn groups(trials: &[(f64, f64)]) -> Vec<Group> {
    let mut sorted = trials.to_vec();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut groups: Vec<Group> = Vec::new();
    for (size, cost) in sorted {
        match groups.last_mut() {
            Some(group) if size <= group.size * 1.001 => group.costs.push(cost),
            _ => groups.push(Group { size, costs: vec![cost] }),
        }
    }
    groups
}

/// Whether the means by size miss the line by more than repeats of one size scatter, and by enough to matter.
fn lack_of_fit(groups: &[Group], a: f64, b: f64, residuals: f64) -> Result<(), CostError> {
    let worst = groups.iter().map(|one| ((a + b * one.size) / one.mean() - 1.0).abs()).fold(0.0, f64::max);
    let pure: f64 = groups
        .iter()
        .map(|one| one.costs.iter().map(|cost| ((cost - one.mean()) / one.mean()).powi(2)).sum::<f64>())
        .sum();
    let trials: usize = groups.iter().map(|one| one.costs.len()).sum();
    let (of_line, of_repeats) = ((groups.len() - 2) as f64, (trials - groups.len()) as f64);
    // Without repeats there is nothing to hold it against but what is of use at all.
    let p = match FisherSnedecor::new(of_line, of_repeats) {
        Ok(f) if of_repeats > 0.0 && pure > 0.0 => Some(f.sf(((residuals - pure) / of_line) / (pure / of_repeats))),
        _ => None,
    };
    if worst > MISS && p.is_none_or(|p| p < BENT) { Err(CostError::Bent { worst: 100.0 * worst, p }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::noise::Noise;

    #[track_caller]
    fn near(name: &str, value: f64, want: &Value) {
        let want = want.as_f64().unwrap();
        assert!((value - want).abs() <= 1e-7 * want.abs().max(1e-9), "{name}: {value} and not {want}");
    }

    #[test]
    fn scipy_says_the_same() {
        let reference: Value = serde_json::from_str(include_str!("../tests/data/cost.json")).unwrap();
        let cases = reference["cases"].as_array().unwrap();
        assert!(cases.len() >= 4);
        for case in cases {
            let trials: Vec<(f64, f64)> = serde_json::from_value(case["trials"].clone()).unwrap();
            let cost = Cost::fit(&trials).unwrap();
            for (one, name) in
                [(cost.per_packet, "per_packet"), (cost.per_byte, "per_byte"), (cost.at(1000.0), "at_1000")]
            {
                near(name, one.value, &case[name][0]);
                near(name, one.low, &case[name][1]);
                near(name, one.high, &case[name][2]);
            }
        }
    }

    /// Repeats at each size of a machine with these costs, with 2 % of noise.
    fn measured(sizes: &[f64], cost: impl Fn(f64) -> f64, seed: u64) -> Vec<(f64, f64)> {
        let mut noise = Noise::new(seed);
        sizes
            .iter()
            .flat_map(|&size| (0..5).map(move |_| size))
            .map(|size| (size, cost(size) * (1.0 + 0.02 * noise.normal())))
            .collect()
    }

    const SIZES: [f64; 5] = [64.0, 256.0, 512.0, 1024.0, 1472.0];

    #[test]
    fn intervals_hold_what_they_promise() {
        let (mut packet, mut byte, mut held_out) = (0, 0, 0);
        const RUNS: u64 = 400;
        for seed in 0..RUNS {
            let trials = measured(&SIZES, |size| 4.1 + 0.0009 * size, seed);
            let cost = Cost::fit(&trials).unwrap();
            let holds = |one: Estimate, truth: f64| i32::from(one.low <= truth && truth <= one.high);
            packet += holds(cost.per_packet, 4.1);
            byte += holds(cost.per_byte, 0.0009);
            // A trial of a size that the fit has not seen.
            held_out += holds(cost.at(800.0), measured(&[800.0], |size| 4.1 + 0.0009 * size, 10_000 + seed)[0].1);
        }
        for covered in [packet, byte, held_out] {
            assert!((365..=395).contains(&covered), "{covered} of {RUNS}, and not about 380");
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let stairs = |size: f64| if size > 1000.0 { 9.0 } else { 4.0 };
        assert!(matches!(Cost::fit(&measured(&SIZES, stairs, 1)), Err(CostError::Bent { p: Some(_), .. })));
        let once: Vec<(f64, f64)> = SIZES.map(|size| (size, stairs(size))).to_vec();
        assert!(matches!(Cost::fit(&once), Err(CostError::Bent { p: None, .. })));
        assert_eq!(Cost::fit(&measured(&SIZES[..2], |_| 4.0, 1)), Err(CostError::TooFewSizes { sizes: 2 }));
        let said = |sizes| CostError::TooFewSizes { sizes }.to_string();
        assert!(said(1).starts_with("there is one size of packets, and"), "{}", said(1));
        assert!(said(2).starts_with("there are 2 sizes of packets, and"), "{}", said(2));
        assert!(matches!(Cost::fit(&measured(&[500.0, 600.0, 700.0], |_| 4.0, 1)), Err(CostError::TooAlike { .. })));
        assert!(matches!(Cost::fit(&[500.0, 600.0, 700.0].map(|size| (size, 4.0))), Err(CostError::TooAlike { .. })));
        let falling = |size: f64| 10.0 - 0.004 * size;
        assert!(matches!(Cost::fit(&measured(&SIZES, falling, 1)), Err(CostError::Negative { .. })));
        assert_eq!(Cost::fit(&[(64.0, 1.0), (128.0, f64::NAN), (256.0, 1.0), (512.0, 1.0)]), Err(CostError::NoFigure));
        assert!(Cost::fit(&measured(&SIZES, |_| 4.0, 1)).is_ok(), "a byte may cost nothing that can be told");
    }

    #[test]
    fn three_sizes_are_enough_with_a_trial_each() {
        let cost = Cost::fit(&[64.0, 512.0, 1470.0].map(|size| (size, 5.0 + 0.004 * size))).unwrap();
        assert!((cost.per_packet.value - 5.0).abs() < 1e-9 && (cost.per_byte.value - 0.004).abs() < 1e-12);
        assert_eq!((cost.trials, cost.sizes), (3, (64.0, 1470.0)));
    }

    #[test]
    fn what_a_cost_implies() {
        let trials = [(100.0, 2.0), (200.0, 3.0), (400.0, 5.0), (800.0, 9.0)];
        let cost = Cost::fit(&trials).unwrap();
        assert!((cost.per_packet.value - 1.0).abs() < 1e-9 && (cost.per_byte.value - 0.01).abs() < 1e-12);
        // 1000 bytes cost 11 µs: 8000 bits in 11 µs; 8000 in 8 µs without 3 of them.
        assert!((cost.saturates_at_bps(1000.0, 0.0).unwrap() - 8000.0 / 11e-6).abs() < 1.0);
        assert!((cost.saturates_at_bps(1000.0, 3.0).unwrap() - 1e9).abs() < 1.0);
        assert_eq!(cost.saturates_at_bps(1000.0, 11.5), None);
    }
}
