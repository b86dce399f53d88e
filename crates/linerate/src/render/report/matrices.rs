//! Figures by two factors: one down, one across, and where more varied, one such table for each level of the others.
//! Knows records and verdicts, and no form.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use linerate_results::compare::verdict::Verdict;
use linerate_results::compare::{Comparison, Judged};
use linerate_results::figure::{FIGURES, Figure, Unit};
use linerate_results::record::Record;

use super::groups::{as_planned, by};
use crate::measure::precision::main_metric;
use crate::render::forms::Piece;
use crate::render::number::figure as digits;
use crate::render::records;
use crate::render::table_model::{Cell, Table, Trace};

/// Of one kind of traffic at most so many, of at most so many columns.
const MOST: usize = 6;
const COLUMNS: usize = 12;

/// What a kind of traffic is first judged by.
pub(super) fn leading(record: &Record) -> Option<&'static Figure> {
    let metric = main_metric(record.workload);
    FIGURES.iter().find(|figure| figure.name == metric.name)
}

/// Records by workload and direction.
pub(super) fn kinds<'a>(records: impl IntoIterator<Item = &'a Record>) -> Vec<(String, Vec<&'a Record>)> {
    let measured = records.into_iter().filter(|record| record.result.is_some());
    by(as_planned(measured), |record| format!("{} {}", record.workload, record.direction))
}

/// The median of a figure, traced to its records.
pub(super) fn middle(figure: &Figure, group: &[&Record]) -> Option<(f64, Cell)> {
    let (_, trace) = records::traced(figure, group, None)?;
    Some((trace.value, Cell::figure(figure, trace.value).traced(trace)))
}

pub(super) fn unit(figure: &Figure) -> &'static str {
    match figure.unit {
        Unit::Share => "",
        unit => unit.name(),
    }
}

/// Medians. Two sides with the same configurations have theirs apart.
pub(super) fn figures(sides: &[&[Record]]) -> Vec<Piece> {
    let levels = |side: &[Record]| side.iter().map(|record| record.trial.factors.clone()).collect::<BTreeSet<_>>();
    match sides {
        [baseline, candidate] if !levels(baseline).is_disjoint(&levels(candidate)) => {
            let baseline = medians("baseline: ", *baseline);
            baseline.into_iter().chain(medians("candidate: ", *candidate)).collect()
        }
        _ => medians("", sides.iter().copied().flatten()),
    }
}

fn medians<'a>(side: &str, records: impl IntoIterator<Item = &'a Record>) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for (kind, group) in kinds(records) {
        let Some(figure) = leading(group[0]) else { continue };
        let head = format!("median {}", figure.title);
        let cell = |here: &[&Record]| middle(figure, here).map(|(_, cell)| cell);
        pieces.extend(matrices(&format!("{side}{kind}"), &head, unit(figure), &group, &[], cell));
    }
    pieces
}

/// What the candidate is against the baseline, whose records these are.
pub(super) fn differences(baseline: &[Record], comparison: &Comparison) -> Vec<Piece> {
    let on_purpose: Vec<&str> =
        comparison.differs.iter().filter(|one| one.on_purpose).map(|one| one.name.as_str()).collect();
    let mut pieces = Vec::new();
    for (kind, group) in kinds(baseline) {
        let metric = main_metric(group[0].workload);
        let judged = comparison.judged.iter().filter(|judged| judged.metric.name == metric.name);
        let by_record: HashMap<&str, &Judged> =
            judged.flat_map(|judged| judged.baseline.records.iter().map(move |id| (id.as_str(), judged))).collect();
        let cell =
            |here: &[&Record]| here.iter().find_map(|record| by_record.get(record.id.as_str())).map(|one| said(one));
        let head = format!("{} of the candidate", metric.title);
        pieces.extend(matrices(&kind, &head, "", &group, &on_purpose, cell));
    }
    pieces
}

/// A judgement in few words, with the records of both sides.
fn said(judged: &Judged) -> Cell {
    let words = match (&judged.verdict, judged.found.and_then(|found| found.relative)) {
        (Verdict::NotComparable { .. }, _) => "cannot be compared".to_owned(),
        (Verdict::CannotTell { .. }, _) => "cannot tell".to_owned(),
        (verdict @ (Verdict::Better | Verdict::Worse), Some(relative)) => {
            format!("{} % {}", digits(relative.abs() * 100.0, 3), verdict.words(judged.metric))
        }
        (verdict, _) => verdict.words(judged.metric),
    };
    let records = [&judged.baseline, &judged.candidate].into_iter().flat_map(|side| side.records.iter().cloned());
    match judged.found {
        Some(found) if judged.verdict.is_found() => {
            let figure = format!("{}.shift", judged.metric.name);
            Cell::text(words).traced(Trace { value: found.shift, figure, records: records.collect() })
        }
        _ => Cell::text(words),
    }
}

/// A cell for the records of each place; nothing where fewer than two factors but those `beside` varied.
fn matrices(
    kind: &str,
    head: &str,
    unit: &str,
    group: &[&Record],
    beside: &[&str],
    cell: impl Fn(&[&Record]) -> Option<Cell>,
) -> Vec<Piece> {
    let names: BTreeSet<&String> = group.iter().flat_map(|record| record.trial.factors.keys()).collect();
    let is_told = |name: &&str| !["workload", "direction"].contains(name) && !beside.contains(name);
    let mut varied: Vec<(&str, Vec<String>)> =
        names.into_iter().map(String::as_str).filter(is_told).map(|name| (name, levels(group, name))).collect();
    varied.retain(|(_, levels)| levels.len() > 1);
    // The longest one down: paper has more lines than columns.
    varied.sort_by_key(|(_, levels)| std::cmp::Reverse(levels.len()));
    let [(down, rows), (across, columns), others @ ..] = &varied[..] else { return Vec::new() };
    if columns.len() > COLUMNS {
        return Vec::new();
    }
    let other_levels = |record: &Record| -> Vec<String> {
        others.iter().map(|(name, _)| format!(", {name}={}", level(record, name))).collect()
    };
    let mut pieces = Vec::new();
    for (others, group) in by(group.iter().copied(), other_levels).into_iter().take(MOST) {
        let places: BTreeMap<[String; 2], Vec<&Record>> =
            by(group, |record| [down, across].map(|name| level(record, name))).into_iter().collect();
        let row = |row: &String| {
            let cells = columns.iter().map(|column| {
                let here = places.get(&[row.clone(), column.clone()]);
                here.and_then(|here| cell(here)).into()
            });
            std::iter::once(Cell::text(row)).chain(cells).collect::<Vec<Cell>>()
        };
        let heads = columns.iter().map(|column| format!("{across}={column}\n{unit}"));
        let table = Table::new(std::iter::once((*down).to_owned()).chain(heads), rows.iter().map(row));
        let title = format!("{kind}{}: {head} by {down} and {across}", others.concat());
        pieces.extend(Piece::Table(table).under(&title));
    }
    pieces
}

fn level(record: &Record, name: &str) -> String {
    record.trial.factors.get(name).map_or("-", String::as_str).to_owned()
}

/// As the plan has them, whatever the order in which they were measured.
fn levels(group: &[&Record], name: &str) -> Vec<String> {
    let mut levels = Vec::new();
    for record in as_planned(group.iter().copied()) {
        let level = level(record, name);
        if !levels.contains(&level) {
            levels.push(level);
        }
    }
    levels
}

#[cfg(test)]
mod tests {
    use linerate_machine::end::Direction;
    use linerate_results::compare::{CompareOptions, compare, counted};
    use linerate_results::observation::Observation;
    use linerate_results::sample;

    use super::*;

    /// A run of a stream at these levels.
    fn run(number: u32, levels: [(&str, &str); 3], mbit: f64) -> Record {
        let mut record = sample::tcp(number, Direction::Tx, mbit, true);
        record.id = format!("{number:026}");
        record.trial.repeat = number % 8;
        record.trial.factors = levels.map(|(name, level)| (name.to_owned(), level.to_owned())).into();
        record
    }

    /// Titles, and the rows of the tables under them.
    fn told(pieces: &[Piece]) -> Vec<(String, Vec<Vec<String>>)> {
        let table = |pair: &[Piece]| match pair {
            [Piece::Heading(title), Piece::Table(table)] => {
                let row = |row: &Vec<Cell>| row.iter().map(|cell| cell.shown().trim().to_owned()).collect();
                (title.clone(), table.rows.iter().map(row).collect())
            }
            _ => panic!("a title and a table"),
        };
        pieces.chunks(2).map(table).collect()
    }

    #[test]
    fn two_factors_make_a_table_and_a_third_several() {
        let mut records = Vec::new();
        for (at, card) in ["a", "b", "c"].into_iter().enumerate() {
            for (kernel, queue) in [("old", "1"), ("old", "2"), ("new", "1"), ("new", "2")] {
                let mbit = 100.0 * (at + 1) as f64 + if kernel == "new" { 10.0 } else { 0.0 };
                let number = records.len() as u32;
                records.push(run(number, [("card", card), ("kernel", kernel), ("queues", queue)], mbit));
            }
        }
        records.retain(|record| record.trial.factors.values().ne(["c", "new", "2"]));
        let told = told(&figures(&[&records]));
        let titles: Vec<&str> = told.iter().map(|(title, _)| title.as_str()).collect();
        assert_eq!(
            titles,
            [
                "tcp-stream tx, queues=1: median throughput by card and kernel",
                "tcp-stream tx, queues=2: median throughput by card and kernel"
            ]
        );
        assert_eq!(told[0].1, [["a", "100.0", "110.0"], ["b", "200.0", "210.0"], ["c", "300.0", "310.0"]]);
        // What nobody measured is no figure.
        assert_eq!(told[1].1[2], ["c", "300.0", ""]);
        // Two campaigns of the same configurations are not one.
        let again: Vec<Record> =
            records.iter().cloned().map(|record| Record { id: record.id + "x", ..record }).collect();
        assert_eq!(figures(&[&records, &again]).len(), 2 * figures(&[&records]).len());
    }

    #[test]
    fn verdicts_stand_by_two_factors() {
        let mut sides = [Vec::new(), Vec::new()];
        for (side, kernel) in sides.iter_mut().zip(["old", "new"]) {
            for number in 0..32 {
                let (card, queue) = (["a", "b"][number as usize / 8 % 2], ["1", "2"][number as usize / 16]);
                let is_slower = kernel == "new" && card == "b" && queue == "2";
                let mbit = if is_slower { 60.0 } else { 100.0 } + f64::from(number % 8) / 10.0;
                side.push(run(number, [("card", card), ("kernel", kernel), ("queues", queue)], mbit));
            }
        }
        let observed = sides.each_ref().map(|side| side.iter().map(Observation::of).collect::<Vec<_>>());
        let [baseline, candidate] = observed.each_ref().map(|side| counted(&side.iter().collect::<Vec<_>>()));
        let options = CompareOptions { compared: vec!["kernel".to_owned()], ..CompareOptions::default() };
        let told = told(&differences(&sides[0], &compare(&baseline, &candidate, &options)));
        let [(title, rows)] = &told[..] else { panic!("{told:?}") };
        assert_eq!(title, "tcp-stream tx: throughput of the candidate by card and queues");
        assert_eq!(rows[1][0], "b");
        assert!(rows[1][2].ends_with(" % slower") && rows[1][2].starts_with("39."), "{rows:?}");
        assert!(rows[0][1].starts_with("the same within"), "{rows:?}");
    }
}
