//! Places on an axis, as shares of its length: which values there is room for, where each stands, where the ticks are.

use crate::axis::{Axis, Range, Scale};
use crate::chart::{Chart, Estimate, Marks, Panel, Point, Reference, Series};
use crate::number::finite;
use crate::{number, ticks};

/// An axis with its ends.
#[derive(Debug)]
pub(crate) struct Places {
    scale: Scale,
    /// Its ends, as the scale has them: values, or logarithms.
    low: f64,
    high: f64,
    /// Whether the maximum has a place of its own beyond the percentiles.
    has_maximum: bool,
}

/// A tick: its place, and what stands there.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tick {
    pub at: f64,
    pub label: String,
}

/// A part of a stack.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Bar {
    pub x: f64,
    pub from: f64,
    pub to: f64,
}

/// The x axis of a chart, and how wide its bars are, as a share of its length.
pub(crate) fn x(chart: &Chart) -> (Places, f64) {
    let values: Vec<f64> = chart.panels.iter().flat_map(xs).collect();
    let bars = chart.panels.iter().flat_map(|panel| &panel.series).filter_map(|series| match &series.marks {
        Marks::Bar(points) => Some(points.iter().filter_map(|point| finite(point.x))),
        _ => None,
    });
    let mut places = Places::of(&chart.x, &values);
    let mut bars: Vec<f64> = bars.flatten().filter_map(|x| places.transformed(x)).filter(|at| at.is_finite()).collect();
    bars.sort_by(f64::total_cmp);
    bars.dedup();
    let gaps = bars.windows(2).map(|pair| pair[1] - pair[0]).filter(|gap| *gap > 0.0);
    let is_named = matches!(chart.x.scale, Scale::Categories(_));
    let most = if is_named { 1.0 } else { f64::INFINITY };
    let mut gap = gaps.fold(most, f64::min);
    if !gap.is_finite() {
        gap = (places.high - places.low) / 2.0;
    }
    // Bars at the ends are whole.
    if let (Some(first), Some(last), false) = (bars.first(), bars.last(), is_named) {
        places.low = places.low.min(first - gap / 2.0);
        places.high = places.high.max(last + gap / 2.0);
    }
    let width = 0.72 * gap / (places.high - places.low);
    (places, width)
}

/// The y axis of a panel, with its ends at ticks of which there are about so many.
pub(crate) fn y(chart: &Chart, panel: &Panel, about: usize) -> Places {
    let values = match panel.y.range {
        Range::Shared => {
            let is_alike = |other: &&Panel| other.y.range == Range::Shared && other.y.is_alike(&panel.y);
            chart.panels.iter().filter(is_alike).flat_map(|panel| ys(chart, panel)).collect()
        }
        _ => ys(chart, panel),
    };
    let mut places = Places::of(&panel.y, &values);
    places.round(about);
    places
}

fn xs(panel: &Panel) -> Vec<f64> {
    let mut xs: Vec<f64> = Vec::new();
    for series in &panel.series {
        match &series.marks {
            Marks::Line(points) | Marks::Step(points) | Marks::Points(points) | Marks::Bar(points) => {
                xs.extend(points.iter().map(|point| point.x));
            }
            Marks::Band(spans) => xs.extend(spans.iter().map(|span| span.x)),
            Marks::Interval(estimates) => xs.extend(estimates.iter().map(|estimate| estimate.x)),
            Marks::Flow(_) | Marks::Flame(_) | Marks::Ideal { .. } => {}
        }
    }
    xs.extend(panel.references.iter().filter_map(|reference| match reference {
        Reference::X(x, _) => Some(*x),
        Reference::Y(..) => None,
    }));
    xs.into_iter().filter_map(finite).collect()
}

/// The values of a panel, bars as high as they are stacked.
pub(crate) fn ys(chart: &Chart, panel: &Panel) -> Vec<f64> {
    let mut ys: Vec<f64> = Vec::new();
    for series in &panel.series {
        match &series.marks {
            Marks::Line(points) | Marks::Step(points) | Marks::Points(points) => {
                ys.extend(points.iter().filter_map(|point| point.y));
            }
            Marks::Band(spans) => ys.extend(spans.iter().filter_map(|span| span.range).flat_map(|(a, b)| [a, b])),
            Marks::Interval(estimates) => {
                let of = estimates.iter().flat_map(|one| [Some(one.low), one.middle, Some(one.high)]);
                ys.extend(of.flatten());
            }
            Marks::Ideal { slope } => {
                let all = chart.panels.iter().flat_map(xs);
                ys.extend(all.max_by(f64::total_cmp).map(|x| x * slope));
            }
            Marks::Bar(_) | Marks::Flow(_) | Marks::Flame(_) => {}
        }
    }
    ys.extend(stacks(panel).into_iter().flatten().flatten().flat_map(|bar| [bar.from, bar.to]));
    ys.extend(panel.references.iter().filter_map(|reference| match reference {
        Reference::Y(y, _) => Some(*y),
        Reference::X(..) => None,
    }));
    ys.into_iter().filter_map(finite).collect()
}

/// For each series of a panel its bars, on those of the series before it: what is below zero hangs.
pub(crate) fn stacks(panel: &Panel) -> Vec<Option<Vec<Bar>>> {
    // Sorted by x: the ends of the stack above zero, and below.
    let mut ends: Vec<(f64, f64, f64)> = Vec::new();
    let mut stacked = |point: &Point| {
        let (x, y) = (finite(point.x)?, finite(point.y?)?);
        let at = ends.binary_search_by(|end| end.0.total_cmp(&x)).unwrap_or_else(|at| {
            ends.insert(at, (x, 0.0, 0.0));
            at
        });
        let end = if y < 0.0 { &mut ends[at].2 } else { &mut ends[at].1 };
        let from = *end;
        *end += y;
        Some(Bar { x, from, to: *end })
    };
    let bars = panel.series.iter().map(|series| match &series.marks {
        Marks::Bar(points) => Some(points.iter().filter_map(&mut stacked).collect()),
        _ => None,
    });
    bars.collect()
}

/// What is to be said of a series' values that have no place on these axes, such as zero on a logarithmic one.
pub(crate) fn without_place(series: &Series, x: &Places, y: &Places) -> Option<String> {
    let is_lost = |at: f64, value: f64| {
        let is_there = finite(at).is_some() && finite(value).is_some();
        is_there && (x.place(at).is_none() || y.place(value).is_none())
    };
    let values: Vec<(f64, f64)> = match &series.marks {
        Marks::Line(points) | Marks::Step(points) | Marks::Points(points) | Marks::Bar(points) => {
            points.iter().filter_map(|point| Some((point.x, point.y?))).collect()
        }
        Marks::Band(spans) => {
            let ends = spans.iter().filter_map(|span| Some((span.x, span.range?)));
            ends.flat_map(|(x, (a, b))| [(x, a), (x, b)]).collect()
        }
        Marks::Interval(estimates) => {
            let ends = |one: &Estimate| [Some(one.low), one.middle, Some(one.high)].map(|value| Some((one.x, value?)));
            estimates.iter().flat_map(ends).flatten().collect()
        }
        Marks::Flow(_) | Marks::Flame(_) | Marks::Ideal { .. } => Vec::new(),
    };
    match values.into_iter().filter(|(at, value)| is_lost(*at, *value)).count() {
        0 => None,
        1 => Some(format!("1 value of {} has no place on this scale", series.name)),
        count => Some(format!("{count} values of {} have no place on this scale", series.name)),
    }
}

impl Places {
    fn of(axis: &Axis, values: &[f64]) -> Places {
        let mut places = Places { scale: axis.scale.clone(), low: 0.0, high: 1.0, has_maximum: false };
        let asked = match axis.range {
            Range::AtLeast(low, high) => [Some(low), Some(high)],
            Range::Shared | Range::Own => [None; 2],
        };
        let asked = asked.into_iter().flatten().filter_map(finite);
        let all: Vec<f64> = values.iter().copied().chain(asked).filter_map(|value| places.transformed(value)).collect();
        places.has_maximum = all.contains(&f64::INFINITY);
        let all = all.into_iter().filter(|value| value.is_finite());
        let (mut low, mut high) = all.fold((f64::MAX, f64::MIN), |(low, high), at| (low.min(at), high.max(at)));
        if low > high {
            (low, high) = (0.0, 1.0);
        }
        match &axis.scale {
            Scale::Linear | Scale::Whole if axis.zero => (low, high) = (low.min(0.0), high.max(0.0)),
            Scale::Linear | Scale::Whole | Scale::Log => {}
            // As far as the next nine.
            Scale::Percentile => (low, high) = (low.min(0.0), (high - 1e-9).ceil().max(1.0)),
            Scale::Categories(names) => (low, high) = (low.min(-0.5), high.max(names.len().max(1) as f64 - 0.5)),
        }
        if places.has_maximum {
            high += 0.5;
        }
        // Of one value: some room on both sides of it.
        if high - low <= 1e-9 * low.abs().max(high.abs()) {
            let room = match axis.scale {
                Scale::Log => 0.5,
                _ if low == 0.0 && high == 0.0 => 0.0,
                _ => low.abs().max(high.abs()) * 0.05,
            };
            (low, high) = if room > 0.0 { (low - room, high + room) } else { (0.0, 1.0) };
        }
        Places { low, high, ..places }
    }

    /// With its ends at ticks.
    fn round(&mut self, about: usize) {
        match self.scale {
            Scale::Linear | Scale::Whole => {
                let step = self.step(about);
                (self.low, self.high) =
                    ((self.low / step + 1e-6).floor() * step, (self.high / step - 1e-6).ceil() * step);
            }
            Scale::Log => {
                let parts = [0.0, 2f64.log10(), 5f64.log10(), 1.0];
                let below = |part: &f64| *part <= self.low - self.low.floor() + 1e-9;
                let above = |part: &f64| *part >= self.high - self.high.floor() - 1e-9;
                let low = parts.into_iter().rev().find(below).unwrap_or(0.0);
                let high = parts.into_iter().find(above).unwrap_or(1.0);
                (self.low, self.high) = (self.low.floor() + low, self.high.floor() + high);
                // One value that is a tick itself.
                if self.high - self.low < 0.1 {
                    (self.low, self.high) = (self.low - 0.5, self.high + 0.5);
                }
            }
            Scale::Percentile | Scale::Categories(_) => {}
        }
    }

    /// Between ticks of values in proportion, of which there are about so many.
    fn step(&self, about: usize) -> f64 {
        let step = ticks::step(self.high - self.low, about);
        if self.scale == Scale::Whole { step.max(1.0) } else { step }
    }

    /// The value as the scale has it; infinite where it is the maximum of percentiles.
    fn transformed(&self, value: f64) -> Option<f64> {
        let value = finite(value)?;
        match self.scale {
            Scale::Linear | Scale::Whole | Scale::Categories(_) => Some(value),
            Scale::Log => (value > 0.0).then(|| value.log10()),
            Scale::Percentile => (0.0..=100.0).contains(&value).then(|| -(1.0 - value / 100.0).log10()),
        }
    }

    /// The value's place, from 0 to 1; `None`: it has none on this scale.
    pub(crate) fn place(&self, value: f64) -> Option<f64> {
        let at = self.transformed(value)?;
        Some(if at.is_finite() { ((at - self.low) / (self.high - self.low)).clamp(0.0, 1.0) } else { 1.0 })
    }

    /// Whether the value is between the ends.
    pub(crate) fn holds(&self, value: f64) -> bool {
        self.transformed(value).is_some_and(|at| self.low <= at && at <= self.high)
    }

    /// Where bars stand.
    pub(crate) fn zero(&self) -> f64 {
        self.place(0.0).unwrap_or(0.0)
    }

    /// The value at a place, where values are in proportion or logarithms.
    pub(crate) fn value(&self, place: f64) -> f64 {
        let at = self.low + place * (self.high - self.low);
        match self.scale {
            Scale::Linear | Scale::Whole | Scale::Categories(_) => at,
            Scale::Log => 10f64.powf(at),
            Scale::Percentile => 100.0 * (1.0 - 10f64.powf(-at)),
        }
    }

    /// Ticks, about as many as there is room for.
    pub(crate) fn ticks(&self, about: usize) -> Vec<Tick> {
        let labelled: Vec<(f64, String)> = match &self.scale {
            Scale::Linear | Scale::Whole => {
                let step = self.step(about);
                let values = ticks::linear(self.low, self.high, step);
                values.into_iter().map(|value| (value, number::tick(value, step))).collect()
            }
            Scale::Log => {
                let mut values = ticks::log(self.low, self.high, about);
                if values.len() < 2 {
                    let (low, high) = (10f64.powf(self.low), 10f64.powf(self.high));
                    values = ticks::linear(low, high, ticks::step(high - low, about));
                }
                values.into_iter().map(|value| (value, number::value(value))).collect()
            }
            Scale::Percentile => {
                let values = ticks::percentiles(self.high).into_iter();
                // Written as they are: 99.9, not 99.90000000000001.
                let values = values.map(|value| (value, value.to_string()));
                values.chain(self.has_maximum.then(|| (100.0, "max".to_owned()))).collect()
            }
            Scale::Categories(names) => names.iter().enumerate().map(|(at, name)| (at as f64, name.clone())).collect(),
        };
        let within = |(value, label): (f64, String)| {
            let at = (self.transformed(value)? - self.low) / (self.high - self.low);
            let at = if at.is_finite() { at } else { 1.0 };
            (-1e-6..=1.0 + 1e-6).contains(&at).then(|| Tick { at: at.clamp(0.0, 1.0), label })
        };
        labelled.into_iter().filter_map(within).collect()
    }

    /// The names, where the axis has them.
    pub(crate) fn names(&self) -> Option<&[String]> {
        match &self.scale {
            Scale::Categories(names) => Some(names),
            _ => None,
        }
    }

    /// Whether values are in proportion to their places.
    pub(crate) fn is_linear(&self) -> bool {
        matches!(self.scale, Scale::Linear | Scale::Whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(axis: &Axis, values: &[f64], labels: &[&str]) {
        let mut places = Places::of(axis, values);
        places.round(5);
        let ticks: Vec<String> = places.ticks(5).into_iter().map(|tick| tick.label).collect();
        assert_eq!(ticks, labels);
    }

    #[test]
    fn axes_end_at_ticks() {
        check(&Axis::linear("", ""), &[3.0, 870.0], &["0", "200", "400", "600", "800", "1,000"]);
        check(
            &Axis::linear("", "").without_zero(),
            &[941.2, 942.1],
            &["941.2", "941.4", "941.6", "941.8", "942.0", "942.2"],
        );
        check(&Axis::whole(""), &[1.0, 3.0], &["1", "2", "3"]);
        check(&Axis::whole(""), &[1.0], &["0", "1", "2"]);
        check(&Axis::log("", ""), &[0.0, 3.0, 870.0], &["2", "10", "100", "1,000"][1..]);
        check(&Axis::percentile(""), &[0.0, 50.0, 99.9], &["0", "50", "90", "99", "99.9"]);
        check(&Axis::percentile(""), &[0.0, 50.0, 99.0, 100.0], &["0", "50", "90", "99", "max"]);
        check(&Axis::categories("", ["a", "b"]), &[0.0, 1.0], &["a", "b"]);
        check(
            &Axis::linear("", ""),
            &[],
            &["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"].map(|label| if label == "0.0" { "0" } else { label }),
        );
        check(&Axis::linear("", ""), &[0.0, 1e12], &["0", "2e11", "4e11", "6e11", "8e11", "1e12"]);
    }

    #[test]
    fn bars_stand_on_those_before_them_and_hang_below_zero() {
        use crate::chart::{Marks, Series};
        let panel = Panel::new(Axis::default())
            .series(Series::new("a", Marks::bar([(0.0, 2.0), (1.0, -1.0)]), 0))
            .series(Series::new("b", Marks::bar([(0.0, 3.0), (1.0, 4.0)]), 1));
        let bar = |x, from, to| Bar { x, from, to };
        let first = vec![bar(0.0, 0.0, 2.0), bar(1.0, 0.0, -1.0)];
        assert_eq!(stacks(&panel), [Some(first), Some(vec![bar(0.0, 2.0, 5.0), bar(1.0, 0.0, 4.0)])]);
    }
}
