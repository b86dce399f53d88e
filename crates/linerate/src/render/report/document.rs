//! What stands in a report, and in which order: the answer first, then what was measured with what, the figures, what
//! limits them, and how to do it again.
//! Knows no form.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use linerate_chart::Chart;
use linerate_machine::end::Party;
use linerate_results::compare::{self, CompareOptions, Comparison, Judged};
use linerate_results::figure::{METRICS, Metric};
use linerate_results::findings::findings;
use linerate_results::middle::{Middle, Port};
use linerate_results::observation::PORTS;
use linerate_results::record::Record;
use linerate_results::search;
use linerate_trial::doubt::DoubtKind;

use super::groups::Distinction;
use super::matrices::{self, kinds, leading, middle, unit};
use super::notes::{self, Remarks};
use super::{ExcludedRecord, Material, Report, ReportedCampaign, Side, anonymous};
use super::{expectations, figures, gaps, inside};
use crate::render::doubts::Notes;
use crate::render::forms::Piece;
use crate::render::number::{count, counted, figure, first_of_most, second};
use crate::render::records::{self, Parts};
use crate::render::table_model::{Cell, Table, Trace};
use crate::render::{budget, explain, summary, time};

/// Sentences that answer what comes through: of three kinds of traffic, each way.
const ANSWERED: usize = 12;
/// Differences that are told in the answer.
const TOLD: usize = 4;
/// Of more records, only the first are listed; a campaign of ten thousand has its figures by configuration.
const LISTED: usize = 1000;
/// Facts of machines that differ, and the most of them.
const FACTS: usize = 60;
/// The most findings of which the evidence is told.
const EXPLAINED: usize = 12;

pub(super) fn title(report: &Report<'_>) -> String {
    let plans: BTreeSet<&str> = report.material.records.iter().map(|record| record.plan.as_str()).collect();
    let plans = if plans.len() > 4 { format!("{} plans", plans.len()) } else { in_a_row(plans.into_iter()) };
    let pairs: BTreeSet<[&str; 2]> = report
        .material
        .records
        .iter()
        .map(|record| [record.target.endpoint.as_str(), record.host.endpoint.as_str()])
        .collect();
    match (&report.origin.sides[..], pairs.first()) {
        ([baseline, candidate], _) => {
            let [baseline, candidate] = [baseline, candidate].map(|side| picked(side, of_side(report, side)));
            format!("{plans}: {candidate} against {baseline}")
        }
        (_, Some([target, host])) if pairs.len() == 1 => format!("{plans}: {target} and {host}"),
        _ => format!("{plans}: {} pairs of machines", pairs.len()),
    }
}

/// A side's name for readers elsewhere, to whom `last` is nothing: what was picked of it, else when it began.
fn picked(side: &Side, records: &[Record]) -> String {
    let Some(rest) = side.words.strip_prefix("last") else {
        return side.words.trim_start_matches(':').to_owned();
    };
    let rest = rest.trim_start_matches(|c: char| c == '~' || c.is_ascii_digit());
    match (rest.strip_prefix(':'), records.first()) {
        (Some(filter), _) if !filter.is_empty() => filter.to_owned(),
        (_, Some(first)) if rest.is_empty() => {
            format!("what began at {}", second(&first.started_at))
        }
        _ => side.words.clone(),
    }
}

pub(super) fn pieces(report: &Report<'_>) -> Vec<Piece> {
    let comparison = comparison(report);
    let expected = expectations::judged(report);
    let mut pieces = answer(report, comparison.as_ref(), &expected);
    let remarks = report.origin.notes.as_deref().map(|text| notes::read(text, &report.material.observed));
    let mut remarks = remarks.and_then(Result::ok).unwrap_or_default();
    if let Some(first) = remarks.iter().position(|one| one.section.is_none()) {
        // The author's question stands in the place of ours.
        let mut paragraphs = remarks.remove(first).paragraphs.into_iter();
        let question = paragraphs.next().map(Piece::Heading);
        pieces.splice(0..question.iter().len(), question);
        let rest: Vec<String> = paragraphs.collect();
        pieces.extend(Piece::lines(rest));
    }
    pieces.extend(setup(&report.material));
    pieces.extend(registers(&report.material));
    pieces.extend(crate::render::search::section(&search::searched(&report.material.records)));
    pieces.extend(results(report));
    pieces.extend(charts(figures::sweeps(&report.material.records)));
    pieces.extend(charts(gaps::bursts(&report.material.records)));
    pieces.extend(charts(gaps::gaps(&report.material)));
    pieces.extend(charts(figures::latencies(&report.material)));
    pieces.extend(charts(figures::cpu(&report.material.records)));
    if let Some(comparison) = &comparison {
        pieces.push(Piece::Section("Is the difference real?".to_owned()));
        pieces.extend(crate::render::compare::pieces(&shown(report, comparison)));
        if let [baseline, candidate] = &report.origin.sides[..] {
            let sides = [baseline, candidate].map(|side| of_side(report, side));
            pieces.extend(matrices::differences(sides[0], comparison));
            pieces.extend(charts(figures::sides(&report.material, sides, comparison)));
        }
        pieces.extend(every_run(report, comparison));
    }
    pieces.extend(expectations::pieces(&expected));
    pieces.extend(limits(report, |at| (at + 1).to_string()));
    pieces.extend(inside::pieces(&report.material));
    pieces.extend(doubts(&report.material.records));
    pieces.extend(failed(&report.material.records));
    pieces.extend(left_out(&report.origin.left_out));
    pieces.extend(again(report));
    place(remarks, &mut pieces);
    pieces
}

/// A campaign that is looked at: what it comes to, its figures, and of the sections those that judge it.
#[cfg(feature = "web")]
pub(super) fn campaign(report: &Report<'_>) -> Vec<Piece> {
    let records = &report.material.records;
    let expected = expectations::judged(report);
    let mut lines = expectations::lines(&expected);
    lines.extend(summary::summary_beside_tables(records).lines().map(str::to_owned));
    lines.extend(explain::in_a_line(&report.material.firsts, None).lines().map(str::to_owned));
    let mut notes = Notes::default();
    let mut pieces: Vec<Piece> = Piece::lines(lines).into_iter().collect();
    pieces.extend(records::pieces(records, &Parts::new(), None, &mut notes));
    pieces.extend(Piece::Lines(notes.lines()).under("What to doubt"));
    pieces.extend(charts(figures::sweeps(records)));
    pieces.extend(charts(figures::cpu(records)));
    pieces.extend(expectations::pieces(&expected));
    pieces.extend(limits(report, |at| records[at].id.get(..10).unwrap_or(&records[at].id).to_owned()));
    pieces
}

/// Remarks behind the headings of their sections; what has none of ours has one of its own before the last.
fn place(remarks: Vec<Remarks>, pieces: &mut Vec<Piece>) {
    for Remarks { section, paragraphs } in remarks {
        let title = section.unwrap_or_default();
        let is_it = |piece: &Piece| matches!(piece, Piece::Section(other) if other.eq_ignore_ascii_case(&title));
        match pieces.iter().position(is_it) {
            Some(at) => pieces.insert(at + 1, Piece::Lines(paragraphs)),
            None => {
                let last = pieces.iter().rposition(|piece| matches!(piece, Piece::Section(_))).unwrap_or(pieces.len());
                pieces.splice(last..last, [Piece::Section(title), Piece::Lines(paragraphs)]);
            }
        }
    }
}

fn charts(charts: impl IntoIterator<Item = Chart>) -> impl Iterator<Item = Piece> {
    charts.into_iter().map(|chart| Piece::Chart(Box::new(chart)))
}

fn in_a_row<'a>(words: impl Iterator<Item = &'a str>) -> String {
    words.collect::<Vec<_>>().join(", ")
}

/// Where the records of a side stand.
fn places(report: &Report<'_>, side: &Side) -> Range<usize> {
    let records = &report.material.records;
    let first = records.iter().position(|record| side.records.first() == Some(&record.id)).unwrap_or(0);
    first..(first + side.records.len()).min(records.len())
}

fn of_side<'a>(report: &'a Report<'_>, side: &Side) -> &'a [Record] {
    &report.material.records[places(report, side)]
}

fn comparison(report: &Report<'_>) -> Option<Comparison> {
    let [baseline, candidate] = &report.origin.sides[..] else { return None };
    let observed = |side| report.material.observed[places(report, side)].iter().collect::<Vec<_>>();
    let [baseline, candidate] = [baseline, candidate].map(observed);
    let options = CompareOptions { compared: report.origin.compared.clone(), ..CompareOptions::default() };
    Some(compare::compare(&compare::counted(&baseline), &compare::counted(&candidate), &options))
}

fn shown<'a>(report: &Report<'_>, comparison: &'a Comparison) -> crate::render::compare::ComparisonView<'a> {
    let names = [0, 1].map(|at| report.origin.sides.get(at).map(|side| side.words.clone()).unwrap_or_default());
    crate::render::compare::ComparisonView { comparison, names, gates: &[] }
}

/// The question, the answer, and what is doubted.
fn answer(report: &Report<'_>, comparison: Option<&Comparison>, expected: &[expectations::Judged<'_>]) -> Vec<Piece> {
    let records = &report.material.records;
    let doubted = records.iter().filter(|record| !record.doubts.is_empty()).count();
    let failed = records.iter().filter(|record| record.result.is_none()).count();
    let mut lines = expectations::lines(expected);
    let question = match comparison {
        Some(comparison) => {
            lines.push(crate::render::compare::summary(comparison));
            lines.extend(told(comparison));
            lines.extend(not_in_turns(report));
            "Does the candidate differ from the baseline, or is it noise?"
        }
        None if failed == records.len() => "Why does nothing come through?",
        None => {
            lines.extend(summary::summary(records).lines().take(ANSWERED).map(str::to_owned));
            lines.extend(explain::in_a_line(&report.material.firsts, None).lines().map(str::to_owned));
            "What comes through, what does not, and what limits it?"
        }
    };
    let first = records.iter().find_map(|record| record.error.as_deref()).unwrap_or("they have no figures");
    lines.push(match (doubted, failed) {
        (0, 0) => format!("Nothing is in doubt, and none of the {} trials failed.", records.len()),
        (_, 1) if records.len() == 1 => format!("The trial failed: {first}"),
        _ if failed == records.len() => {
            format!("All of the {} trials failed, the first for this reason: {first}", records.len())
        }
        _ => format!(
            "{}, of which {} failed and {} warnings; both are told below.",
            counted(records.len(), "trial"),
            if failed == 0 { "none".to_owned() } else { failed.to_string() },
            match doubted {
                0 => "none has".to_owned(),
                1 => "1 has".to_owned(),
                doubted => format!("{doubted} have"),
            },
        ),
    });
    lines.extend(match report.origin.left_out.len() {
        0 => None,
        1 => Some("One more record was picked, cannot be read, and is left out; it is named below.".to_owned()),
        n => Some(format!("{n} more records were picked, cannot be read, and are left out; they are named below.")),
    });
    lines.extend(marks(records));
    vec![Piece::Heading(question.to_owned()), Piece::Lines(lines)]
}

/// The first judgements that found a difference, or all where none did, those of the metrics that were judged first before others.
fn told(comparison: &Comparison) -> Vec<String> {
    let is_any_found = comparison.judged.iter().any(|judged| judged.verdict.is_found());
    let mut metrics: Vec<&str> = Vec::new();
    let mut found: Vec<(usize, &Judged)> = Vec::new();
    for judged in &comparison.judged {
        let name = judged.metric.name.as_str();
        let known = metrics.iter().position(|other| *other == name);
        let at = known.unwrap_or(metrics.len());
        if known.is_none() {
            metrics.push(name);
        }
        found.extend((judged.verdict.is_found() == is_any_found).then_some((at, judged)));
    }
    found.sort_by_key(|(metric, _)| *metric);
    let left_out = found.len().saturating_sub(TOLD);
    let sentences = found.into_iter().take(TOLD).map(|(_, judged)| {
        let configuration = match judged.configuration.as_str() {
            "" => String::new(),
            configuration => format!("{configuration}: "),
        };
        let found = judged.found.filter(|_| judged.verdict.is_found());
        let found = found.and_then(|found| Some((found.relative?, found.relative_interval?)));
        let by = found.map(|(by, (low, high))| {
            // The verdict says which way.
            let (by, low, high) = if by < 0.0 { (-by, -high, -low) } else { (by, low, high) };
            let percent = |part: f64| figure(part * 100.0, 3);
            format!(", by {} % (95 %: {} to {} %)", percent(by), percent(low), percent(high))
        });
        let words = judged.verdict.words(judged.metric);
        let is = if judged.verdict.is_judged() { " is" } else { ":" };
        format!("{configuration}{}{is} {words}{}.", judged.metric.title, by.unwrap_or_default())
    });
    let more = (left_out > 0).then(|| format!("{left_out} more are told below."));
    sentences.chain(more).collect()
}

/// What a difference may come from besides what was compared.
fn not_in_turns(report: &Report<'_>) -> Option<String> {
    let [baseline, candidate] = &report.origin.sides[..] else { return None };
    // Identifiers sort by time.
    let ends = |side: &Side| Some((side.records.iter().min()?.clone(), side.records.iter().max()?.clone()));
    let (baseline, candidate) = (ends(baseline)?, ends(candidate)?);
    (baseline.1 < candidate.0 || candidate.1 < baseline.0).then(|| {
        "One side was measured after the other, not in turns: whatever else changed between them is in it.".to_owned()
    })
}

/// What must be known before any figure is read.
fn marks(records: &[Record]) -> Option<String> {
    // What each record doubts stays where names are replaced.
    let doubted = |kind| records.iter().any(|record| record.doubts.iter().any(|doubt| doubt.kind() == kind));
    match (doubted(DoubtKind::Emulated), doubted(DoubtKind::SharedMachine)) {
        (true, _) => Some(
            "The board is emulated: counts are its driver's own, rates and CPU times are the emulator's.".to_owned(),
        ),
        (_, true) => {
            Some("Both ends are on one machine: they share its CPUs, and no cable lies between them.".to_owned())
        }
        _ => None,
    }
}

/// Both machines: how they are joined, what differs, and all else folded.
fn setup(material: &Material) -> Vec<Piece> {
    let records = &material.records;
    let mut pieces = vec![Piece::Section("Setup".to_owned())];
    let mut ways: Vec<String> = Vec::new();
    for record in records {
        let machine = |machine: &linerate_results::record::Machine| {
            let nic = machine.environment.nic.as_ref();
            let speed = nic.and_then(|nic| nic.speed_mbps).map(|mbps| format!("{mbps} Mbit/s"));
            let driver = nic.and_then(|nic| nic.driver.clone());
            let known: Vec<String> = nic.map(|nic| nic.name.clone()).into_iter().chain(driver).chain(speed).collect();
            match &known[..] {
                [] => machine.endpoint.clone(),
                known => format!("{} [{}]", machine.endpoint, known.join(", ")),
            }
        };
        let ports = |middle: &Middle| {
            let port = |port: &Port| {
                let nic = port.nic.as_ref();
                let speed = nic.and_then(|nic| nic.speed_mbps).map(|mbps| format!(", {mbps} Mbit/s"));
                format!("{}{}", port.interface, speed.unwrap_or_default())
            };
            let [target, host] = [&middle.ports.target, &middle.ports.host].map(port);
            format!("middle: [{target}] {} [{host}] === ", middle.machine.endpoint)
        };
        let through = record.middle.as_ref().map_or(String::new(), ports);
        let way = format!("target: {} === {through}host: {}", machine(&record.target), machine(&record.host));
        if !ways.contains(&way) {
            ways.push(way);
        }
    }
    if ways.len() > 6 {
        let more = ways.split_off(6).len();
        ways.push(format!("and {more} pairs more"));
    }
    pieces.push(Piece::Lines(ways));
    pieces.extend(settings(records));
    // What the machines are, by name: every value that any record has. What only the middle has, its interfaces, records show.
    let has_middle = records.iter().any(|record| record.middle.is_some());
    let parties = &Party::ALL[..if has_middle { 3 } else { 2 }];
    let mut facts: BTreeMap<String, [BTreeSet<String>; 3]> = BTreeMap::new();
    for (name, value) in material.machines().flatten() {
        let (whose, name) = name.split_once('.').unwrap_or(("", name));
        let at = parties.iter().position(|one| one.name() == whose);
        if let Some(at) = at.filter(|_| !name.starts_with(PORTS)) {
            facts.entry(name.to_owned()).or_default()[at].insert(value.clone());
        }
    }
    let several = |values: &BTreeSet<String>| match values.len() {
        0 => "-".to_owned(),
        1..=3 => in_a_row(values.iter().map(String::as_str)),
        many => format!("{many} different values"),
    };
    let row = |(name, sides): (&String, &[BTreeSet<String>; 3])| {
        let values = sides.iter().take(parties.len()).map(|values| Cell::long(several(values)));
        std::iter::once(Cell::long(name)).chain(values).collect::<Vec<Cell>>()
    };
    let differs =
        |[target, host, middle]: &[BTreeSet<String>; 3]| target != host || (!middle.is_empty() && middle != target);
    let (differ, alike): (Vec<_>, Vec<_>) = facts.iter().partition(|(_, sides)| differs(sides));
    // As in `records show`: what the two have alike of these says little.
    let (few, many): (Vec<_>, Vec<_>) =
        alike.into_iter().partition(|(name, _)| !name.starts_with("sysctls.") && !name.starts_with("nic.offloads."));
    let left_out = differ.len().saturating_sub(FACTS);
    let columns = || std::iter::once("name").chain(parties.iter().map(|party| party.name()));
    let table = |rows: Vec<Vec<Cell>>| Piece::Table(Table::new(columns(), rows));
    let rows: Vec<Vec<Cell>> = differ.into_iter().map(row).collect();
    let more = (left_out > 0).then(|| format!("{left_out} more differ: `linerate records show` has all."));
    let shown = rows.into_iter().take(FACTS).collect::<Vec<_>>();
    if !shown.is_empty() {
        let inner = std::iter::once(table(shown)).chain(more.map(|more| Piece::Lines(vec![more]))).collect();
        pieces.push(Piece::Folded(
            format!("What differs between the {}", if has_middle { "machines" } else { "two machines" }),
            inner,
        ));
    }
    if !few.is_empty() {
        let rows =
            few.iter().map(|(name, [both, ..])| vec![Cell::long(name), Cell::long(several(both))]).collect::<Vec<_>>();
        let mut inner = vec![Piece::Table(Table::new(["name", "both"], rows))];
        inner.extend((!many.is_empty()).then(|| {
            Piece::Lines(vec![format!(
                "{} sysctls and offloads are alike too: `linerate records show --all` has them.",
                many.len()
            )])
        }));
        pieces.push(Piece::Folded("What both machines have alike".to_owned(), inner));
    }
    pieces
}

/// What was changed for the trials: what it was, what was asked, and what the machine then said.
fn settings(records: &[Record]) -> Vec<Piece> {
    let mut changes: Vec<([String; 6], u64)> = Vec::new();
    for record in records {
        for (_, whose, settings) in record.settings() {
            for one in settings {
                let known = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
                let row = [
                    whose.clone(),
                    one.name.clone(),
                    known(&one.original),
                    one.asked.clone(),
                    known(&one.set),
                    known(&one.read_back),
                ];
                match changes.iter_mut().find(|(other, _)| *other == row) {
                    Some((_, trials)) => *trials += 1,
                    None => changes.push((row, 1)),
                }
            }
        }
    }
    let more = changes.len().saturating_sub(FACTS);
    let rows = changes
        .into_iter()
        .take(FACTS)
        .map(|(row, trials)| row.iter().map(Cell::long).chain([Cell::count(trials)]).collect::<Vec<_>>());
    let names = ["machine", "setting", "was", "asked", "set", "read back", "trials"];
    let mut pieces =
        Piece::Table(Table::new(names, rows)).under("Settings changed for trials, and put back after them");
    pieces.extend((more > 0).then(|| Piece::Lines(vec![format!("{more} more are in the records.")])));
    pieces
}

/// What the registers of MACs and PHYs were set to where trials differ; nothing where none were read.
fn registers(material: &Material) -> Vec<Piece> {
    let differ = material.stood.iter().filter(|(_, values)| values.len() > 1);
    let rows = differ.flat_map(|((end, name), values)| {
        values.iter().map(move |(value, trials)| {
            vec![Cell::text(end.name()), Cell::text(name), Cell::long(value), Cell::count(*trials)]
        })
    });
    let table = Table::new(["machine", "register and field", "value", "trials"], rows.take(FACTS));
    Piece::Table(table).under("Registers that trials found set in different ways")
}

/// Every configuration with its figures, a matrix of two factors, and the best of each kind of traffic.
fn results(report: &Report<'_>) -> Vec<Piece> {
    let mut pieces = vec![Piece::Section("Figures".to_owned())];
    let mut notes = Notes::default();
    pieces.extend(records::pieces(&report.material.records, &Parts::new(), None, &mut notes));
    let lines = notes.lines();
    pieces.extend(Piece::lines(lines));
    let sides: Vec<&[Record]> = report.origin.sides.iter().map(|side| of_side(report, side)).collect();
    pieces.extend(matrices::figures(&sides));
    pieces.extend(best(&report.material.records));
    pieces
}

/// The best configuration of each kind of traffic, where there is more than one.
fn best(records: &[Record]) -> Vec<Piece> {
    let mut rows = Vec::new();
    let apart = Distinction::of(records);
    for (kind, group) in kinds(records) {
        let Some(figure) = leading(group[0]) else { continue };
        let mut configurations = records::grouped(&group);
        if configurations.len() < 2 {
            continue;
        }
        // So that of equals the lowest load is named.
        configurations.sort_by(|a, b| summary::load(a[0]).total_cmp(&summary::load(b[0])));
        let middles = configurations.iter().filter_map(|runs| {
            let (value, cell) = middle(figure, runs)?;
            Some(((runs, cell), value))
        });
        if let Some(((runs, cell), _)) = first_of_most(middles) {
            rows.push(vec![
                Cell::text(kind),
                Cell::long(figure.title),
                cell,
                Cell::text(unit(figure)),
                Cell::long(apart.levels(runs[0], &["workload", "direction"])),
                Cell::count(runs.len() as u64),
            ]);
        }
    }
    Piece::Table(Table::new(["traffic", "figure", "best median", "unit", "with", "runs"], rows))
        .under("The best of each kind of traffic")
}

/// Every run of what was judged, so that nobody has to believe a median.
fn every_run(report: &Report<'_>, comparison: &Comparison) -> Vec<Piece> {
    let metrics: BTreeSet<&str> = comparison
        .judged
        .iter()
        .filter(|judged| judged.verdict.is_found())
        .map(|judged| judged.metric.name.as_str())
        .collect();
    let usual: Vec<&Metric> = METRICS
        .iter()
        .filter(|metric| {
            if metrics.is_empty() { metric.name == "throughput_bps" } else { metrics.contains(metric.name.as_str()) }
        })
        .take(6)
        .collect();
    if usual.is_empty() {
        return Vec::new();
    }
    let mut rows = Vec::new();
    let apart = Distinction::of(&report.material.records);
    for (side, name) in report.origin.sides.iter().zip(["baseline", "candidate"]) {
        for record in of_side(report, side).iter().filter(|record| record.trial.is_repeat()).take(LISTED) {
            let observed = report.material.observed(record);
            let cells = usual.iter().map(|metric| {
                let value = observed.value(metric);
                let trace = |value| Trace { value, figure: metric.name.clone(), records: vec![record.id.clone()] };
                value.map(|value| Cell::number(value * metric.unit.scale(), 4).traced(trace(value))).into()
            });
            let place = [
                Cell::text(name),
                Cell::count(u64::from(record.trial.repeat) + 1),
                Cell::long(apart.configuration(record, &[])),
            ];
            rows.push(place.into_iter().chain(cells).collect());
        }
    }
    let heads = usual.iter().map(|metric| format!("{}\n{}", metric.title, metric.unit.name()));
    let names = ["side", "repeat", "configuration"].map(str::to_owned).into_iter().chain(heads);
    vec![Piece::Folded("Every run".to_owned(), vec![Piece::Table(Table::new(names, rows).filled())])]
}

/// Configurations of which the same is said first, how often what, and in how many runs.
struct Limited<'a> {
    names: Vec<String>,
    firsts: Vec<Headline<'a>>,
    runs: usize,
}

/// What records say first, in how many runs, and the first of them.
struct Headline<'a> {
    text: &'a str,
    times: usize,
    #[cfg_attr(not(feature = "web"), expect(dead_code, reason = "pages alone lead to it"))]
    record: &'a str,
}

impl Headline<'_> {
    /// Its words; where pages are, they lead to its evidence.
    fn cell(&self) -> Cell {
        let cell = Cell::long(self.text);
        #[cfg(feature = "web")]
        let cell = cell.linked(format!("/record/{}/explain", self.record));
        cell
    }
}

/// The records whose first finding is explained, by their places: of each kind of finding one.
pub(super) fn explained(material: &Material) -> Vec<usize> {
    let mut kinds = BTreeSet::new();
    let all: Vec<&Record> = material.records.iter().collect();
    let places = records::grouped(&all).into_iter().flatten().map(|record| material.place(record));
    let finding = |at: usize| material.firsts[at].finding.as_ref();
    let is_new = |at: &usize| finding(*at).is_some_and(|first| kinds.insert((first.name, first.direction)));
    places.filter(is_new).take(EXPLAINED).collect()
}

/// What each configuration was limited by, the first finding of each, and the evidence of each kind of finding once.
/// `called`: by what a record at a place is known.
fn limits(report: &Report<'_>, called: impl Fn(usize) -> String) -> Vec<Piece> {
    let material = &report.material;
    // Two campaigns may have the same configurations.
    let baselines = report.origin.sides.first().map_or(0, |side| side.records.len());
    let side = |record: &Record| match report.origin.sides.len() {
        0 | 1 => "",
        _ if material.place(record) < baselines => "baseline: ",
        _ => "candidate: ",
    };
    let all: Vec<&Record> = material.records.iter().collect();
    let apart = Distinction::of(&material.records);
    // The same of other figures is the same.
    let kind = |text: &str| text.chars().filter(|c| !c.is_ascii_digit() && *c != '.').collect::<String>();
    let mut told: Vec<Limited<'_>> = Vec::new();
    let mut rows = Vec::new();
    for runs in records::grouped(&all) {
        let mut firsts: Vec<Headline<'_>> = Vec::new();
        let mut places: BTreeMap<String, usize> = BTreeMap::new();
        for record in &runs {
            let text = material.headlines[material.place(record)].as_str();
            let at = *places.entry(kind(text)).or_insert(firsts.len());
            match firsts.get_mut(at) {
                Some(first) => first.times += 1,
                None => firsts.push(Headline { text, times: 1, record: &record.id }),
            }
        }
        firsts.sort_by_key(|first| std::cmp::Reverse(first.times));
        let name = format!("{}{}", side(runs[0]), apart.configuration(runs[0], &[]));
        // Neighbours of which the same is said stand together.
        match told.last_mut() {
            Some(last)
                if last.firsts.len() == 1 && firsts.len() == 1 && kind(last.firsts[0].text) == kind(firsts[0].text) =>
            {
                last.names.push(name);
                last.firsts[0].times += firsts[0].times;
                last.runs += runs.len();
            }
            _ => told.push(Limited { names: vec![name], firsts, runs: runs.len() }),
        }
    }
    for Limited { names, firsts, runs } in told {
        let names = match &names[..] {
            [first, .., last] if names.len() > 2 => format!("{first} to {last}, {} in all", names.len()),
            few => few.join("; "),
        };
        for (at, first) in firsts.iter().take(3).enumerate() {
            rows.push(vec![
                Cell::long(if at == 0 { names.as_str() } else { "" }),
                Cell::numbers(format!("{} of {}", count(first.times as u64), count(runs as u64))),
                first.cell(),
            ]);
        }
    }
    let mut pieces = vec![Piece::Section("What limits it".to_owned())];
    pieces.push(Piece::Table(Table::new(["configuration", "runs", "what their records say first"], rows)));
    for (at, record) in &report.explained {
        let Some(finding) = findings(record).into_iter().next() else { continue };
        let mut inner = vec![explain::evidence(&finding)];
        inner.extend(charts(figures::path(record)));
        inner.extend(budget::pieces(record));
        inner.extend(charts(figures::slices(record)));
        inner.extend(time::pieces(record));
        let configuration = apart.configuration(record, &[]);
        let title = format!("{}: the evidence, from record {} ({configuration})", finding.name, called(*at));
        pieces.push(Piece::Folded(title, inner));
    }
    pieces
}

/// Each kind of doubt once in full, and how many records carry it.
fn doubts(records: &[Record]) -> Vec<Piece> {
    let mut kinds: Vec<(&'static str, String, usize)> = Vec::new();
    for record in records {
        let mut seen = BTreeSet::new();
        for doubt in record.doubts.iter().filter(|doubt| seen.insert(doubt.kind().name())) {
            match kinds.iter_mut().find(|(name, ..)| *name == doubt.kind().name()) {
                Some((.., times)) => *times += 1,
                None => kinds.push((doubt.kind().name(), doubt.to_string(), 1)),
            }
        }
    }
    let rows = kinds.into_iter().map(|(name, sentence, times)| {
        vec![Cell::text(name), Cell::numbers(format!("{times} of {}", records.len())), Cell::long(sentence)]
    });
    let table = Piece::Table(Table::new(["doubt", "records", "the first says"], rows));
    in_section("What is in doubt", table)
}

fn in_section(title: &str, piece: Piece) -> Vec<Piece> {
    let Piece::Table(table) = &piece else { return Vec::new() };
    if table.rows.is_empty() { Vec::new() } else { vec![Piece::Section(title.to_owned()), piece] }
}

fn failed(records: &[Record]) -> Vec<Piece> {
    let failed = records.iter().zip(1_u64..).filter(|(record, _)| record.result.is_none());
    let apart = Distinction::of(records);
    let rows = failed.map(|(record, number)| {
        let why = record.error.as_deref().unwrap_or("it has no figures");
        vec![Cell::count(number), Cell::long(apart.configuration(record, &[])), Cell::long(why)]
    });
    in_section("Trials that failed", Piece::Table(Table::new(["record", "configuration", "why"], rows)))
}

fn left_out(records: &[ExcludedRecord]) -> Vec<Piece> {
    let why = |one: &ExcludedRecord| one.why.clone().unwrap_or("it cannot be read".to_owned());
    let rows = records.iter().map(|one| vec![Cell::text(one.record.as_str()), Cell::long(why(one))]);
    in_section("Records that are left out", Piece::Table(Table::new(["identifier", "why"], rows)))
}

/// Commands, plans, versions, and the records themselves.
fn again(report: &Report<'_>) -> Vec<Piece> {
    let origin = report.origin;
    let mut pieces = vec![Piece::Section("How to repeat it".to_owned())];
    let mut lines: Vec<String> = origin.campaigns.iter().map(|one| one.command.clone()).collect();
    lines.dedup();
    let agents = &report.material.agents;
    let seeds: BTreeSet<u32> = report.material.records.iter().filter_map(|record| record.trial.order_seed).collect();
    lines.push(match agents.len() {
        0 => format!("This report is by linerate {}; which agents measured is not recorded.", origin.version),
        _ => format!(
            "This report is by linerate {}; agents {}.",
            origin.version,
            in_a_row(agents.iter().map(String::as_str))
        ),
    });
    lines.extend((!seeds.is_empty()).then(|| {
        let seeds: Vec<String> = seeds.iter().take(8).map(u32::to_string).collect();
        format!("The order of trials was drawn from {}.", seeds.join(", "))
    }));
    lines.push(match origin.attached {
        true => {
            "Its records are in its HTML form: `linerate report verify FILE` recomputes every figure from them, and \
                 `linerate report extract FILE` gives them back."
                .to_owned()
        }
        false => "Its records are not attached: `linerate report verify FILE` looks for them in the store.".to_owned(),
    });
    lines.extend(match origin.anonymous {
        true => Some("Names, addresses and command lines were replaced by pseudonyms.".to_owned()),
        false => anonymous::sentence(&report.material, &origin.campaigns),
    });
    pieces.push(Piece::Lines(lines));
    let rows = origin.campaigns.iter().map(|ReportedCampaign { campaign, .. }| {
        let end = campaign.finished_at.as_deref().map_or_else(|| "not finished".to_owned(), second);
        let begun = second(&campaign.started_at);
        vec![
            Cell::text(&campaign.id),
            Cell::text(&campaign.plan),
            Cell::text(begun),
            Cell::text(end),
            Cell::count(campaign.planned),
        ]
    });
    let names = ["campaign", "plan", "begun, UTC", "ended, UTC", "trials"];
    pieces.push(Piece::Table(Table::new(names, rows)));
    let mut plans: Vec<(&str, &str)> = Vec::new();
    let campaigns = origin.campaigns.iter().map(|one| &one.campaign);
    for campaign in campaigns.filter(|campaign| !campaign.plan_text.is_empty()) {
        if !plans.contains(&(campaign.plan.as_str(), campaign.plan_text.as_str())) {
            plans.push((&campaign.plan, &campaign.plan_text));
        }
    }
    for (name, text) in plans.into_iter().take(8) {
        pieces.push(Piece::Folded(format!("Plan {name}"), vec![Piece::Text(text.to_owned())]));
    }
    pieces.push(Piece::Folded(format!("The {} records", report.material.records.len()), listed(report)));
    pieces
}

fn listed(report: &Report<'_>) -> Vec<Piece> {
    let apart = Distinction::of(&report.material.records);
    let records = report.material.records.iter().zip(&report.material.digests);
    let rows = records.zip(1_u64..).take(LISTED).map(|((record, digest), number)| {
        vec![
            Cell::count(number),
            Cell::text(&record.id),
            Cell::text(second(&record.started_at)),
            Cell::long(apart.configuration(record, &[])),
            Cell::text(digest),
        ]
    });
    let table = Table::new(["record", "identifier", "begun, UTC", "configuration", "SHA-256 of its JSON"], rows);
    let mut pieces = vec![Piece::Table(table)];
    if report.material.records.len() > LISTED {
        let more = report.material.records.len() - LISTED;
        pieces.push(Piece::Lines(vec![format!("{} records more are not listed.", figure(more as f64, 6))]));
    }
    pieces
}
