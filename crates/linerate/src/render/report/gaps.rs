//! Time between datagrams, and how many of them were lost in a row, as pictures: whether a stream was even, and whether it
//! lost here and there or in bursts.

use std::collections::BTreeMap;

use linerate_chart::{Axis, Chart, Marks, Panel, Range, Series, Table};
use linerate_machine::end::Direction;
use linerate_results::record::{FlowFigures, Record};
use linerate_trial::histogram::Histogram;

use super::figures::{SERIES, cell, trace, whole};
use super::groups::{Distinction, as_planned};
use super::material::{Material, flows};
use crate::render::number::{count, counted, figure};

/// The percentiles of gaps; the last of a flow is its longest gap.
const PERCENTILES: [f64; 6] = [0.0, 50.0, 90.0, 99.0, 99.9, 100.0];
const NAMES: [&str; 6] = ["least, µs", "50 %, µs", "90 %, µs", "99 %, µs", "99.9 %, µs", "longest, µs"];

/// The flows of one direction of a configuration's runs.
struct Flows<'a> {
    name: String,
    records: Vec<&'a Record>,
    /// Of each record one, with its place among the record's.
    flows: Vec<(usize, &'a FlowFigures)>,
}

impl Flows<'_> {
    /// Of each flow how often which time was counted between departures, and between arrivals.
    fn gaps<'m>(&'m self, material: &'m Material) -> impl Iterator<Item = &'m [Vec<(u64, u64)>; 2]> {
        let all = self.records.iter().zip(&self.flows);
        all.filter_map(|(record, (which, _))| material.gaps(record, *which))
    }
}

/// UDP streams by the directions of their trial and of their own, then by configuration, in the plan's order.
fn streams(records: &[Record]) -> Vec<(Direction, Direction, Vec<Flows<'_>>)> {
    let apart = Distinction::of(records);
    let mut kinds: Vec<(Direction, Direction, Vec<Flows<'_>>)> = Vec::new();
    for record in as_planned(records) {
        for (which, (direction, flow)) in flows(record).into_iter().enumerate() {
            let at = kinds.iter().position(|kind| (kind.0, kind.1) == (record.direction, direction));
            let at = at.unwrap_or_else(|| {
                kinds.push((record.direction, direction, Vec::new()));
                kinds.len() - 1
            });
            let name = match apart.levels(record, &["workload", "direction"]) {
                name if name.is_empty() => "all runs".to_owned(),
                name => name,
            };
            let configurations = &mut kinds[at].2;
            match configurations.iter_mut().find(|one| one.name == name) {
                Some(one) => {
                    one.records.push(record);
                    one.flows.push((which, flow));
                }
                None => configurations.push(Flows { name, records: vec![record], flows: vec![(which, flow)] }),
            }
        }
    }
    kinds
}

fn way(trial: Direction, direction: Direction) -> String {
    if trial == direction { direction.to_string() } else { format!("{direction} of both at once") }
}

/// Of more than a picture bears, some from the first to the last, evenly, and the one that is `named`; and a clause that says so.
fn few<T>(all: Vec<T>, named: impl Fn(&T) -> bool) -> (Vec<T>, String) {
    let (number, last) = (all.len(), SERIES - 1);
    if number <= SERIES {
        return (all, String::new());
    }
    let mut wanted: Vec<usize> = (0..SERIES).map(|at| at * (number - 1) / last).collect();
    if let Some(named) = all.iter().position(named).filter(|named| !wanted.contains(named)) {
        // In the place of the nearest, but for the first and the last.
        if let Some(nearest) = wanted[1..last].iter_mut().min_by_key(|at| at.abs_diff(named)) {
            *nearest = named;
        }
    }
    let kept = all.into_iter().enumerate().filter(|(at, _)| wanted.contains(at)).map(|(_, one)| one).collect();
    (kept, format!("; {SERIES} of {number} configurations are shown, from the first to the last"))
}

/// The gaps of a kind of all its flows in one; `None` where nobody timed.
fn together(material: &Material, one: &Flows<'_>, kind: usize) -> Option<Histogram> {
    let mut all: Option<Histogram> = None;
    for times in one.gaps(material).map(|gaps| &gaps[kind]).filter(|times| !times.is_empty()) {
        let all = all.get_or_insert_default();
        times.iter().for_each(|(ns, count)| all.record_n(*ns, *count));
    }
    all
}

/// A gap in µs; `None` where fewer than ten lie beyond it.
fn gap(gaps: &Histogram, percentile: f64) -> Option<f64> {
    let is_known = percentile == 0.0 || gaps.count() as f64 * (1.0 - percentile / 100.0) >= 10.0;
    let ns = match percentile {
        0.0 => gaps.min_ns(),
        100.0 => gaps.max_ns(),
        _ => gaps.percentile_ns(percentile).filter(|_| is_known),
    };
    ns.map(|ns| ns as f64 / 1e3)
}

/// Time between departures and between arrivals, both on one scale.
pub(super) fn gaps(material: &Material) -> Vec<Chart> {
    let mut charts = Vec::new();
    for (trial, direction, configurations) in streams(&material.records) {
        let is_timed = |one: &Flows<'_>| one.gaps(material).flatten().any(|times| !times.is_empty());
        let timed: Vec<Flows<'_>> = configurations.into_iter().filter(is_timed).collect();
        let longest = timed
            .iter()
            .flat_map(|one| one.gaps(material).map(move |gaps| (gaps, one)))
            .filter_map(|([_, arrivals], one)| Some((arrivals.last()?.0 as f64 / 1e3, one.name.clone())))
            .max_by(|a, b| a.0.total_cmp(&b.0));
        // Only what is shown is put together: a campaign may have ten thousand histograms.
        let is_named = |one: &Flows<'_>| longest.as_ref().is_some_and(|(_, name)| one.name == *name);
        let (timed, left_out) = few(timed, is_named);
        let merged = |one: Flows<'_>| {
            let gaps = [0, 1].map(|kind| together(material, &one, kind));
            (one.name, trace(&one.records), gaps)
        };
        let timed: Vec<(String, String, [Option<Histogram>; 2])> = timed.into_iter().map(merged).collect();
        if timed.iter().all(|(.., gaps)| gaps.iter().all(Option::is_none)) {
            continue;
        }
        let mut table = Table::new(["configuration", "between"].into_iter().chain(NAMES));
        let all = timed.iter().flat_map(|(.., gaps)| gaps.iter().flatten());
        let values = all.flat_map(|gaps| PERCENTILES.map(|percentile| gap(gaps, percentile))).flatten();
        let (low, high) = values
            .filter(|gap| *gap > 0.0)
            .fold((f64::INFINITY, 0.0_f64), |(low, high), gap| (low.min(gap), high.max(gap)));
        let mut panels = ["departures", "arrivals"].map(|of| {
            let axis = Axis::log("gap", "µs").of(format!("time between {of}"));
            // One scale: what the way does to a stream is the difference between the two.
            let range = if low < high { Range::AtLeast(low, high) } else { Range::Own };
            (of, Panel::new(axis.range(range)), false)
        });
        for (at, (name, from, gaps)) in timed.iter().enumerate() {
            for ((of, panel, has_any), gaps) in panels.iter_mut().zip(gaps) {
                let values = PERCENTILES.map(|percentile| gap(gaps.as_ref()?, percentile));
                let words = [name.as_str().into(), (*of).into()];
                table = table.row(words.into_iter().chain(values.map(|value| cell(value, 3, from))));
                let points = PERCENTILES.into_iter().zip(values).collect::<Vec<_>>();
                *panel = std::mem::replace(panel, Panel::new(Axis::default())).series(Series::new(
                    name.clone(),
                    Marks::line(points),
                    at,
                ));
                *has_any |= gaps.is_some();
            }
        }
        let mut sentence = match longest {
            Some((gap, name)) => {
                format!("The longest time in which nothing arrived was {} µs, with {name}", figure(gap, 3))
            }
            None => "When they arrived is not recorded".to_owned(),
        };
        if !panels[0].2 {
            sentence += "; when they left is not recorded";
        }
        let title = format!("Time between datagrams, {}", way(trial, direction));
        let mut chart = Chart::new(title, format!("{sentence}{left_out}."), table).x(Axis::percentile("percentile"));
        for (_, panel, has_any) in panels {
            chart = if has_any { chart.panel(panel) } else { chart };
        }
        charts.push(chart);
    }
    charts
}

/// Runs of lost datagrams by their length: 1, 2, 3 to 4, 5 to 8, … .
fn class(length: u64) -> u32 {
    length.max(1).next_power_of_two().trailing_zeros()
}

fn class_name(class: u32) -> String {
    let last = 1_u64 << class.min(63);
    match class {
        0 | 1 => last.to_string(),
        _ => format!("{}-{}", count(last / 2 + 1), count(last)),
    }
}

/// How many datagrams were lost in a row, and which part of the lost fell into runs of such a length.
pub(super) fn bursts(records: &[Record]) -> Vec<Chart> {
    let mut charts = Vec::new();
    for (trial, direction, configurations) in streams(records) {
        let (mut lossless, mut unknown) = (0_usize, 0_usize);
        let mut losing: Vec<(Flows<'_>, BTreeMap<u64, u64>)> = Vec::new();
        for one in configurations {
            let mut runs: BTreeMap<u64, u64> = BTreeMap::new();
            for (length, times) in one.flows.iter().flat_map(|(_, flow)| flow.loss_bursts.iter().flatten()) {
                let sum = runs.entry(*length).or_default();
                *sum = sum.saturating_add(*times);
            }
            // Of other tools only the sum is known.
            let lost = one.flows.iter().filter_map(|(_, flow)| flow.packets_lost).fold(0, u64::saturating_add);
            match (runs.is_empty(), lost) {
                (false, _) => losing.push((one, runs)),
                (true, 0) => lossless += 1,
                (true, _) => unknown += 1,
            }
        }
        let Some((longest, name)) =
            losing.iter().filter_map(|(one, runs)| Some((*runs.last_key_value()?.0, one.name.clone()))).max()
        else {
            continue;
        };
        let (losing, left_out) = few(losing, |(one, _)| one.name == name);
        let longest_shown =
            losing.iter().filter_map(|(_, runs)| runs.last_key_value()).map(|(length, _)| *length).max();
        let classes: Vec<u32> = (0..=class(longest_shown.unwrap_or(1))).collect();
        let mut table = Table::new(["configuration", "lost in a row", "so often", "datagrams", "of the lost, %"]);
        let mut panel = Panel::new(Axis::linear("in runs of this length", "%").of("the lost datagrams"));
        for (at, (one, runs)) in losing.iter().enumerate() {
            let from = trace(&one.records);
            let all: f64 = runs.iter().map(|(length, times)| *length as f64 * *times as f64).sum();
            let mut points = Vec::new();
            for of in &classes {
                let here = || runs.iter().filter(|(length, _)| class(**length) == *of);
                let times: f64 = here().map(|(_, times)| *times as f64).sum();
                let lost: f64 = here().map(|(length, times)| *length as f64 * *times as f64).sum();
                points.push((f64::from(*of), Some(100.0 * lost / all)));
                if times > 0.0 {
                    let words = [one.name.as_str().into(), class_name(*of).into()];
                    let share = cell(Some(100.0 * lost / all), 3, &from);
                    table = table.row(words.into_iter().chain([whole(times, &from), whole(lost, &from), share]));
                }
            }
            panel = panel.series(Series::new(one.name.clone(), Marks::line(points), at));
        }
        let mut sentence = format!("At most {} were lost in a row, with {name}", count(longest));
        if lossless > 0 {
            sentence += &format!("; {} lost nothing", counted(lossless, "configuration"));
        }
        if unknown > 0 {
            sentence += &format!("; how {} lost theirs is not recorded", counted(unknown, "configuration"));
        }
        let names: Vec<String> = classes.iter().map(|of| class_name(*of)).collect();
        charts.push(
            Chart::new(format!("Lost in a row, {}", way(trial, direction)), format!("{sentence}{left_out}."), table)
                .x(Axis::categories("datagrams lost in a row", names))
                .panel(panel),
        );
    }
    charts
}

#[cfg(test)]
mod tests {
    use linerate_results::sample;

    use super::*;

    /// Rates that were measured in this order, and are planned by rising rate; the longest run of losses is at the third of them.
    fn measured(rates: &[u32]) -> Vec<Record> {
        let one = |(at, rate): (usize, &u32)| {
            let mut record = sample::udp(at as u32, Direction::Rx, *rate, 10.0);
            record.trial.configuration = Some(*rate);
            record.trial.factors.insert("rate".to_owned(), format!("{rate}M"));
            let flow = &mut record.result.as_mut().unwrap().flow;
            flow.loss_bursts = Some(BTreeMap::from([(if at == 2 { 99 } else { 1 }, 3)]));
            record
        };
        rates.iter().enumerate().map(one).collect()
    }

    #[test]
    fn pictures_are_in_the_plans_order_and_have_what_they_name() {
        for named in [20, 30, 40, 50, 60, 70, 80, 90] {
            let mut rates = vec![90, 70, 20, 50, 30, 80, 40, 60];
            rates.retain(|rate| *rate != named);
            rates.insert(2, named);
            let charts = bursts(&measured(&rates));
            let chart = &charts[0];
            assert!(
                chart.sentence.contains(&format!("99 were lost in a row, with rate={named}M")),
                "{}",
                chart.sentence
            );
            let shown: Vec<&str> = chart.panels[0].series.iter().map(|series| series.name.as_str()).collect();
            assert_eq!(shown.len(), SERIES);
            assert!(shown.is_sorted() && shown.contains(&format!("rate={named}M").as_str()), "{shown:?}");
            assert!(shown[0] == "rate=20M" && shown[SERIES - 1] == "rate=90M", "{shown:?}");
        }
    }
}
