//! Changes of a series: from where on it is another series, and where it drifts to what it is then.
//! Knows no times and no metrics; a point is a place.

use std::ops::Range;

use crate::{ALPHA, median, normal_cdf, shift};

/// Fewer neighbours than these are a spike, and no change.
pub const SHORTEST: usize = 4;
/// Among fewer values there is no change: not even that of two halves without a value in common is borne out.
pub const FEWEST: usize = 12;
/// What each further change point costs, in units of ln n.
const PENALTY: f64 = 2.0;

/// The series is another one before than behind it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// The first place of the new stretch, or of the drift, from 0.
    pub at: usize,
    /// How many values it takes: one of a step, more of a drift.
    pub over: usize,
    /// The median since the change before; where a drift begins.
    pub before: f64,
    /// The median until the next change; where a drift ends.
    pub after: f64,
}

/// The changes, in order. Where they may be is found by ED-PELT (K. Haynes, P. Fearnhead and I. A. Eckley, "A
/// computationally efficient nonparametric approach for changepoint detection", Statistics and Computing 27, 2017):
/// the cost of a stretch is how badly its empirical distribution fits it, so that nothing is assumed of the noise,
/// and one far value weighs no more than one. Then those go, the weakest first, that the rank test between the two
/// neighbouring stretches does not bear out, as in M. Daly and others, "The use of change point detection to
/// identify software performance regressions" (ICPE 2020). The place was looked for among all places, so the test's
/// level is shared among them (Bonferroni). That test takes values for independent; where each is partly what the one before was, the
/// difference of the means has to be more than such values make by themselves, too. Stretches that a line fits better than their
/// levels are one drift.
pub fn changes(values: &[f64]) -> Vec<Change> {
    if values.len() < FEWEST {
        return Vec::new();
    }
    let mut stretches = borne_out(values);
    for at in 1..stretches.len() {
        settle_drift(values, &mut stretches[at - 1..=at]);
    }
    let mut changes = Vec::new();
    let noise = noise(values, &stretches);
    for (at, one) in stretches.iter().enumerate() {
        if let Some(previous) = at.checked_sub(1).map(|at| stretches[at]) {
            let [before, after] = [previous.last, one.first];
            let steep = previous.slope().abs().max(one.slope().abs());
            let is_step = steep == 0.0 || (after - before).abs() > steep + JUMP * noise;
            changes.extend(is_step.then_some(Change { at: one.start, over: 1, before, after }));
        }
        let drift = Change { at: one.start, over: one.end - one.start, before: one.first, after: one.last };
        changes.extend(one.drifts().then_some(drift));
    }
    changes
}

/// So many standard deviations of the noise are a step where a drift begins or ends.
const JUMP: f64 = 3.0;
/// So many are a way that what wanders about a level does not go.
const LONG: f64 = 6.0;
/// The standard deviation of normal noise, of its median distance from 0.
const NORMAL: f64 = 1.4826;

/// The standard deviation of what these stretches leave.
fn noise(values: &[f64], stretches: &[Stretch]) -> f64 {
    let strays = stretches.iter().flat_map(|one| one.strays(values)).map(f64::abs);
    NORMAL * median(&strays.collect::<Vec<_>>()).unwrap_or(0.0)
}

/// A part of the series that keeps a level, or goes straight from one value to another.
#[derive(Clone, Copy)]
struct Stretch {
    start: usize,
    end: usize,
    /// What fits its first value and its last.
    first: f64,
    last: f64,
}

impl Stretch {
    fn level(values: &[f64], start: usize, end: usize) -> Stretch {
        let middle = median(&values[start..end]).unwrap_or(f64::NAN);
        Stretch { start, end, first: middle, last: middle }
    }

    /// The line through the medians of the first and the last third, as high as half of the values are above it (J. W. Tukey,
    /// "Exploratory Data Analysis", 1977, chapter 5): far values do not turn it.
    fn line(values: &[f64], start: usize, end: usize) -> Stretch {
        let part = &values[start..end];
        let third = part.len() / 3;
        let middle = |values: &[f64]| median(values).unwrap_or(f64::NAN);
        let slope = (middle(&part[part.len() - third..]) - middle(&part[..third])) / (part.len() - third) as f64;
        let flat: Vec<f64> = part.iter().enumerate().map(|(at, value)| value - slope * at as f64).collect();
        let first = middle(&flat);
        Stretch { start, end, first, last: first + slope * (part.len() - 1) as f64 }
    }

    /// A place and a level each, and a drift counts for two: what steps fit as well is no drift.
    fn fitted(&self) -> usize {
        2 + 2 * usize::from(self.drifts())
    }

    fn misfit(&self, values: &[f64]) -> f64 {
        self.strays(values).map(f64::abs).sum()
    }

    /// From each value to the next.
    fn slope(&self) -> f64 {
        (self.last - self.first) / (self.end - self.start - 1).max(1) as f64
    }

    fn drifts(&self) -> bool {
        self.first != self.last
    }

    /// How far each value is above what fits.
    fn strays<'a>(&self, values: &'a [f64]) -> impl Iterator<Item = f64> + use<'a> {
        let (Stretch { start, end, first, .. }, slope) = (*self, self.slope());
        (0..).zip(&values[start..end]).map(move |(at, value)| value - first - slope * f64::from(at))
    }
}

/// The same, with those that follow one another as one that drifts where that fits better: by Schwarz's criterion (G. Schwarz,
/// "Estimating the dimension of a model", Annals of Statistics 6, 1978), of noise whose far values weigh little (Laplace's).
fn with_drifts(values: &[f64], mut stretches: Vec<Stretch>) -> Vec<Stretch> {
    let n = values.len() as f64;
    loop {
        let misfits: Vec<f64> = stretches.iter().map(|one| one.misfit(values)).collect();
        let all: f64 = misfits.iter().sum();
        let gain = |line: &Stretch, merged: &[Stretch], misfit: f64| {
            let fewer = merged.iter().map(Stretch::fitted).sum::<usize>() as f64 - line.fitted() as f64;
            2.0 * n * (all.ln() - (all - misfit + line.misfit(values)).max(0.0).ln()) + fewer * n.ln()
        };
        let spans = (0..stretches.len()).flat_map(|from| (from + 1..=stretches.len()).map(move |end| from..end));
        // Between others a drift may be one stretch, for no cut within it is borne out: it goes farther than its noise.
        let may_drift = |span: &Range<usize>, line: &Stretch| {
            let goes = (line.last - line.first).abs();
            let is_level = !stretches[span.start].drifts() && line.end - line.start >= 2 * SHORTEST;
            span.len() > 1 || (stretches.len() > 1 && is_level && goes > LONG * noise(values, &[*line]))
        };
        let merged = spans.filter_map(|span| {
            let merged = &stretches[span.clone()];
            let line = Stretch::line(values, merged[0].start, merged[merged.len() - 1].end);
            may_drift(&span, &line).then(|| (gain(&line, merged, misfits[span.clone()].iter().sum()), span, line))
        });
        match merged.max_by(|a, b| a.0.total_cmp(&b.0)) {
            Some((gain, span, line)) if gain > 0.0 => drop(stretches.splice(span, [line])),
            _ => return stretches,
        }
    }
}

/// The end of one and the start of the other where the two fit best, if one drifts.
fn settle_drift(values: &[f64], two: &mut [Stretch]) {
    if !two.iter().any(Stretch::drifts) {
        return;
    }
    let (start, end) = (two[0].start, two[1].end);
    let fitted = |one: &Stretch, start, end| {
        if one.drifts() { Stretch::line(values, start, end) } else { Stretch::level(values, start, end) }
    };
    let of = |place: usize| {
        let two = [fitted(&two[0], start, place), fitted(&two[1], place, end)];
        (two[0].misfit(values) + two[1].misfit(values), two)
    };
    if let Some((_, best)) = (start + SHORTEST..=end - SHORTEST).map(of).min_by(|a, b| a.0.total_cmp(&b.0)) {
        two.copy_from_slice(&best);
    }
}

/// The stretches whose ends the tests bear out, those that drift as one.
fn borne_out(values: &[f64]) -> Vec<Stretch> {
    let mut cuts = [vec![0], best_cuts(values), vec![values.len()]].concat();
    let level = ALPHA / values.len() as f64;
    loop {
        settle(values, &mut cuts);
        let levels = cuts.windows(2).map(|ends| Stretch::level(values, ends[0], ends[1]));
        let stretches = with_drifts(values, levels.collect());
        let variance = dependent_variance(values, &stretches);
        let p = |at: usize| {
            let (before, after) = (&values[cuts[at - 1]..cuts[at]], &values[cuts[at]..cuts[at + 1]]);
            let error = (variance * (1.0 / before.len() as f64 + 1.0 / after.len() as f64)).sqrt();
            let by_chance = 2.0 * normal_cdf(-(mean(after) - mean(before)).abs() / error);
            shift::between(before, after).map_or(1.0, |shift| shift.p).max(by_chance)
        };
        match (1..cuts.len() - 1).map(|at| (at, p(at))).max_by(|a, b| a.1.total_cmp(&b.1)) {
            Some((at, weakest)) if weakest > level => cuts.remove(at),
            _ => return stretches,
        };
    }
}

/// Of values of which each is partly what the one before was, the variance that a mean of them shows, times their number: more than
/// their own, as of an AR(1) process, by how they stray from the means of their stretches. 0 where they do not
/// depend on each other.
fn dependent_variance(values: &[f64], stretches: &[Stretch]) -> f64 {
    let (mut follows, mut all) = (0.0, 0.0);
    for stretch in stretches {
        let strays: Vec<f64> = stretch.strays(values).collect();
        let mean = mean(&strays);
        follows += strays.windows(2).map(|two| (two[0] - mean) * (two[1] - mean)).sum::<f64>();
        all += strays.iter().map(|stray| (stray - mean).powi(2)).sum::<f64>();
    }
    let (n, fitted) =
        (values.len() as f64, stretches.iter().map(|one| 1 + usize::from(one.drifts())).sum::<usize>() as f64);
    let shown = if all > 0.0 { follows / all } else { 0.0 };
    // Each mean that is fitted hides so much (M. G. Kendall, "Note on bias in the estimation of autocorrelation", Biometrika 41, 1954).
    let hidden = (1.0 + 3.0 * shown.max(0.0)) * fitted / n;
    let correlation = (shown + hidden - BY_CHANCE / n.sqrt()).min(0.9);
    if correlation > 0.0 { all / (n - fitted) * (1.0 + correlation) / (1.0 - correlation) } else { 0.0 }
}

/// So many standard errors of a correlation, of 1 / √n each, are not counted: more, and what wanders passes for steps; fewer, and few
/// values of independent noise hide theirs.
const BY_CHANCE: f64 = 0.5;

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Each cut where the two stretches fit their medians best, a few places around the one that was found: distributions of few quantiles
/// tell that there is a change better than where.
fn settle(values: &[f64], cuts: &mut [usize]) {
    let misfit = |stretch: &[f64]| {
        let middle = median(stretch).unwrap_or(f64::NAN);
        stretch.iter().map(|value| (value - middle).abs()).sum::<f64>()
    };
    for at in 1..cuts.len() - 1 {
        let (start, found, end) = (cuts[at - 1], cuts[at], cuts[at + 1]);
        let places = (found.saturating_sub(AROUND)).max(start + SHORTEST)..=(found + AROUND).min(end - SHORTEST);
        let of = |place: usize| misfit(&values[start..place]) + misfit(&values[place..end]);
        let best = places.map(|place| (of(place), place)).min_by(|a, b| a.0.total_cmp(&b.0));
        // What fits about as well stays where it was found: the best of many places would pass the test by chance.
        cuts[at] = best.filter(|(misfit, _)| *misfit < CLEARLY * of(found)).map_or(found, |(_, place)| place);
    }
}

/// How far the place of a change may be off, about.
const AROUND: usize = 8;
/// Of a better place so much at most is left of what does not fit.
const CLEARLY: f64 = 0.8;

/// The cuts of least cost, each stretch at least [`SHORTEST`] long.
fn best_cuts(values: &[f64]) -> Vec<usize> {
    let n = values.len();
    if n < 2 * SHORTEST {
        return Vec::new();
    }
    let fit = Fit::of(values);
    let penalty = PENALTY * (n as f64).ln();
    let mut best = vec![f64::INFINITY; n + 1];
    let mut last = vec![0; n + 1];
    best[0] = -penalty;
    let mut starts = vec![0];
    for end in SHORTEST..=n {
        let costs: Vec<f64> = starts.iter().map(|&start| best[start] + fit.cost(start, end)).collect();
        for (&start, cost) in starts.iter().zip(&costs) {
            if cost + penalty < best[end] {
                (best[end], last[end]) = (cost + penalty, start);
            }
        }
        // A start that is behind already stays behind (R. Killick, P. Fearnhead and I. A. Eckley, "Optimal detection
        // of changepoints with a linear computational cost", JASA 107, 2012, theorem 3.1).
        let mut keep = costs.iter().map(|cost| *cost <= best[end]);
        starts.retain(|_| keep.next().unwrap_or(true));
        starts.push(end + 1 - SHORTEST);
        // A stretch that starts before the shortest one could have ended is none.
        starts.retain(|&start| start == 0 || start >= SHORTEST);
    }
    let mut cuts = Vec::new();
    let mut end = last[n];
    while end > 0 {
        cuts.push(end);
        end = last[end];
    }
    cuts.reverse();
    cuts
}

/// How many of the first values lie below each of some quantiles, counted beforehand.
struct Fit {
    /// For each place, for each quantile: twice the count below it, a value on it counting half.
    below: Vec<u32>,
    quantiles: usize,
    scale: f64,
    /// x ln x of every count there may be: logarithms are what all the time went into.
    weighed: Vec<f64>,
}

impl Fit {
    fn of(values: &[f64]) -> Fit {
        let n = values.len();
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let quantiles = ((4.0 * (n as f64).ln()).ceil() as usize).clamp(1, n);
        let c = (2.0 * n as f64 - 1.0).ln();
        // Dense in the tails, as section 3.1 of the paper has them.
        let limits: Vec<f64> = (1..=quantiles)
            .map(|k| {
                let exponent = c * (1.0 - (2.0 * k as f64 - 1.0) / quantiles as f64);
                sorted[((n as f64 / (1.0 + exponent.exp())) as usize).min(n - 1)]
            })
            .collect();
        let mut below = vec![0; (n + 1) * quantiles];
        for (at, value) in values.iter().enumerate() {
            for (k, limit) in limits.iter().enumerate() {
                let counted = if value < limit { 2 } else { u32::from(value == limit) };
                below[(at + 1) * quantiles + k] = below[at * quantiles + k] + counted;
            }
        }
        let weighed = (0..=2 * n).map(|count| if count == 0 { 0.0 } else { count as f64 * (count as f64).ln() });
        Fit { below, quantiles, scale: 2.0 * c / quantiles as f64, weighed: weighed.collect() }
    }

    /// Minus twice the log-likelihood of the stretch under its own empirical distribution.
    fn cost(&self, start: usize, end: usize) -> f64 {
        let row = |at: usize| &self.below[at * self.quantiles..(at + 1) * self.quantiles];
        let all = 2 * (end - start);
        // Of a count `low` of `all`: low ln (low / all) + (all - low) ln (1 - low / all).
        let weighed = &self.weighed[..=all];
        let mut entropy = -(self.quantiles as f64) * weighed[all];
        for (from, to) in row(start).iter().zip(row(end)) {
            let low = ((to - from) as usize).min(all);
            entropy += weighed[low] + weighed[all - low];
        }
        -self.scale * entropy / 2.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::Noise;
    use crate::shift::Method;

    /// The places of the changes of a series that is 100, with this noise, and from each step on another.
    #[track_caller]
    fn check(n: usize, steps: &[(usize, f64)], noise: f64, seed: u64, want: &[usize]) {
        let mut chance = Noise::new(seed);
        let level = |at: usize| steps.iter().rev().find(|step| step.0 <= at).map_or(100.0, |step| step.1);
        let values: Vec<f64> = (0..n).map(|at| level(at) + noise * chance.normal()).collect();
        let found: Vec<usize> = changes(&values).iter().map(|change| change.at).collect();
        let near = found.len() == want.len() && found.iter().zip(want).all(|(f, w)| f.abs_diff(*w) <= 1);
        assert!(near, "seed {seed}: {found:?} and not {want:?} of {values:?}");
    }

    #[test]
    fn of_fewer_values_no_halves_are_borne_out() {
        let can = |n: usize| Method::RankSum.least_p([n / 2, n - n / 2]) <= ALPHA / n as f64;
        assert!((2 * SHORTEST..FEWEST).all(|n| !can(n)) && (FEWEST..60).all(can));
        let halves =
            |n: usize| -> Vec<f64> { (0..n).map(|at| at as f64 + if at < n / 2 { 0.0 } else { 1e3 }).collect() };
        assert_eq!((changes(&halves(FEWEST - 1)).len(), changes(&halves(FEWEST)).len()), (0, 1));
    }

    #[test]
    fn steps_are_found_where_they_are() {
        check(40, &[(20, 95.0)], 1.0, 1, &[20]);
        check(40, &[(20, 105.0)], 1.0, 2, &[20]);
        check(60, &[(20, 95.0), (40, 100.0)], 1.0, 3, &[20, 40]);
        check(200, &[(50, 97.0), (120, 104.0), (150, 100.0)], 0.5, 4, &[50, 120, 150]);
        check(16, &[(8, 90.0)], 1.0, 5, &[8]);
        check(30, &[(25, 90.0)], 1.0, 6, &[25]);
    }

    /// A step that is missed makes its neighbours look as if values depended on each other, and hides them, too.
    #[test]
    fn short_steps_up_and_down_do_not_hide_each_other() {
        let mut chance = Noise::new(33);
        let level = |at: usize| 6.0 * [0.0, 1.0, 0.3, 1.3][at * 4 / 30];
        let mut found = || changes(&(0..30).map(|at| level(at) + chance.normal()).collect::<Vec<_>>()).len();
        let all_three = (0..100).filter(|_| found() == 3).count();
        println!("{all_three} of 100 have all three steps");
        assert!(all_three >= 70);
    }

    #[test]
    fn an_unmistakable_change_is_where_it_came() {
        let (mut chance, mut others) = (Noise::new(3), 0);
        for (n, step) in [(13, 7), (20, 8), (30, 6), (30, 25), (100, 60), (64, 5)] {
            for _ in 0..50 {
                let level = |at: usize| if at < step { 100.0 } else { 50.0 };
                let values: Vec<f64> = (0..n).map(|at| level(at) + 0.1 * chance.normal()).collect();
                let found: Vec<usize> = changes(&values).iter().map(|change| change.at).collect();
                assert!(found.contains(&step), "{found:?} and not {step} of {values:?}");
                others += usize::from(found.len() > 1);
            }
        }
        assert!(others <= 15, "{others} of 300 series have another change, too");
    }

    #[test]
    fn a_spike_is_no_change() {
        check(40, &[(20, 50.0), (21, 100.0)], 1.0, 7, &[]);
        check(40, &[(10, 300.0), (11, 100.0), (30, 10.0), (31, 100.0)], 1.0, 8, &[]);
        check(40, &[(39, 50.0)], 1.0, 9, &[]);
        check(60, &[(10, 50.0), (11, 100.0), (30, 95.0)], 1.0, 10, &[30]);
    }

    #[test]
    fn no_change_is_no_change() {
        check(40, &[], 0.0, 1, &[]);
        check(3, &[], 1.0, 1, &[]);
        assert_eq!(changes(&[]), []);
        let before = changes(&[[1.0; 6], [2.0; 6]].concat());
        assert_eq!(before.len(), 1);
        assert_eq!((before[0].at, before[0].before, before[0].after), (6, 1.0, 2.0));
        // Without any noise.
        let drift = changes(&Vec::from_iter((0..40).map(f64::from)));
        assert_eq!(drift, [Change { at: 0, over: 40, before: 0.0, after: 39.0 }]);
    }

    #[test]
    fn a_drift_is_told_from_steps() {
        let mut chance = Noise::new(31);
        // Of 100 series, how many have steps alone, and how many one drift alone.
        let mut found = |n: usize, size: f64, level: &dyn Fn(f64) -> f64| {
            let mut series = || {
                let value = |at: usize| size * level(at as f64 / n as f64) + chance.normal();
                changes(&(0..n).map(value).collect::<Vec<_>>())
            };
            let all: Vec<Vec<Change>> = (0..100).map(|_| series()).collect();
            let of = |is: fn(&[Change]) -> bool| all.iter().filter(|changes| is(changes)).count();
            let steps = of(|changes| !changes.is_empty() && changes.iter().all(|change| change.over == 1));
            let drift = of(|changes| changes.len() == 1 && changes[0].over > 1);
            println!("{n} points, {size} standard deviations: {steps} steps, {drift} drifts");
            (steps, drift)
        };
        let step = |x: f64| f64::from(u8::from(x >= 0.5));
        let stairs = |x: f64| f64::from(u8::from(x >= 0.3)) + f64::from(u8::from(x >= 0.6));
        for (n, size) in [(30, 6.0), (60, 3.0), (100, 3.0), (300, 2.0)] {
            assert!(found(n, size, &step).0 >= 97);
            assert!(found(n, size, &stairs).0 >= 90);
        }
        for (n, size) in [(30, 12.0), (60, 6.0), (100, 6.0), (300, 3.0)] {
            assert!(found(n, size, &|x| x).1 >= 80);
        }
        // Flat for the first half.
        assert!(found(300, 12.0, &|x| (x - 0.5).max(0.0)).1 >= 80);
        // Flat before and after.
        for (n, size) in [(60, 20.0), (60, 80.0), (100, 12.0), (300, 12.0)] {
            assert!(found(n, size, &|x| (3.0 * x - 1.0).clamp(0.0, 1.0)).1 >= 80);
        }
    }

    #[test]
    fn a_drift_says_where_it_begins_and_ends() {
        let mut chance = Noise::new(32);
        let values: Vec<f64> =
            (0..90).map(|at| 100.0 - (f64::from(at) - 30.0).max(0.0) + 0.5 * chance.normal()).collect();
        let [drift] = changes(&values)[..] else { panic!("{:?}", changes(&values)) };
        assert!(drift.at.abs_diff(30) <= 6 && drift.at + drift.over == 90, "{drift:?}");
        assert!((drift.before - 100.0).abs() < 5.0 && (drift.after - 41.0).abs() < 1.5, "{drift:?}");
        let stepped: Vec<f64> =
            values.iter().enumerate().map(|(at, value)| value - if at < 30 { 20.0 } else { 0.0 }).collect();
        let kinds: Vec<bool> = changes(&stepped).iter().map(|change| change.over > 1).collect();
        assert_eq!(kinds, [false, true], "{:?}", changes(&stepped));
    }

    /// Noise of which each value is so much of the one before.
    fn wanders(chance: &mut Noise, n: usize, keeps: f64) -> Vec<f64> {
        let mut at = chance.normal();
        let mut next = |_| {
            at = keeps * at + (1.0 - keeps * keeps).sqrt() * chance.normal();
            at
        };
        (0..n).map(&mut next).collect()
    }

    #[test]
    fn what_wanders_seldom_has_a_change_and_hides_none_that_is_large() {
        let mut chance = Noise::new(21);
        // Taken for independent, 13 to 31 of 100 such series had a change at a correlation of 0.3, 29 to 81 at 0.5 and 56 to 99 at 0.7.
        for (n, rounds) in [(30, 200), (100, 200), (300, 60)] {
            for (keeps, percent) in [(0.0, 4), (0.3, 14), (0.5, 28), (0.7, 38)] {
                let mut found = |step: f64| {
                    let series = |_: &usize| {
                        let mut values = wanders(&mut chance, n, keeps);
                        values[n / 2..].iter_mut().for_each(|value| *value += step);
                        changes(&values).iter().any(|change| step == 0.0 || change.at.abs_diff(n / 2) <= 2)
                    };
                    (0..rounds).filter(series).count()
                };
                let (alarms, steps) = (found(0.0), found(6.0));
                println!("{n} points, correlation {keeps}: {alarms} false alarms and {steps} steps of {rounds} series");
                assert!(alarms * 100 <= rounds * percent, "{n} points, correlation {keeps}: {alarms} of {rounds}");
                assert!(steps * 100 >= rounds * 95, "{n} points, correlation {keeps}: {steps} steps of {rounds}");
            }
        }
    }

    #[test]
    fn noise_alone_seldom_has_a_change() {
        type Draw = fn(&mut Noise) -> f64;
        let kinds: [(&str, Draw); 3] =
            [("normal", Noise::normal), ("skewed", Noise::skewed), ("bimodal", Noise::bimodal)];
        for (name, draw) in kinds {
            for (n, rounds) in [(20, 600), (60, 300), (200, 100)] {
                let seed = n as u64 * 1000;
                let mut chance = Noise::new(seed);
                let alarms = (0..rounds)
                    .filter(|_| !changes(&(0..n).map(|_| draw(&mut chance)).collect::<Vec<_>>()).is_empty())
                    .count();
                println!("{name}, {n} points, seed {seed}: {alarms} of {rounds} series have a change");
                assert!(alarms * 20 <= rounds, "{name}, {n} points, seed {seed}: {alarms} of {rounds}");
            }
        }
    }
}
