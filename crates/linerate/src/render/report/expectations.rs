//! What campaigns were expected to show, what was measured, and whether it is so.
//! Knows no plan: which configurations an expectation is for was settled when the report was made.

use std::collections::BTreeMap;

use linerate_results::expect::Expectation;
use linerate_results::record::Record;
use linerate_stats::median;

use super::groups::levels;
use super::{Report, ReportedCampaign};
use crate::render::forms::Piece;
use crate::render::number::{count, figure};
use crate::render::table_model::{Cell, Table, Trace};

/// Of those that are not met, so many stand in the answer, and so many of all in the table.
const TOLD: usize = 3;
const LISTED: usize = 200;

/// What came of an expectation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ExpectationOutcome {
    NotMet,
    /// The trials ran, and none has the figure: what was not measured has not been shown.
    NotMeasured,
    CannotTell(&'static str),
    Met,
}

/// One expectation of one configuration.
pub(super) struct Judged<'a> {
    campaign: &'a str,
    text: &'a str,
    read: Option<Expectation>,
    configuration: String,
    values: Vec<f64>,
    /// Those that the values are of.
    records: Vec<&'a Record>,
    came: ExpectationOutcome,
}

impl Judged<'_> {
    /// The figure, in the unit in which people read it.
    fn measured(&self) -> Option<String> {
        let unit = self.read.as_ref()?.metric.unit;
        Some(format!("{} {}", figure(median(&self.values)? * unit.scale(), 4), unit.name()))
    }

    fn sentence(&self) -> String {
        let runs = match self.values.len() {
            1 => "1 run".to_owned(),
            runs => format!("the median of {} runs", count(runs as u64)),
        };
        let measured = match self.measured() {
            Some(measured) => format!("it is {measured} ({runs})"),
            None => "no trial has the figure".to_owned(),
        };
        format!("Not as expected: {}, where {}: {measured}.", self.text, self.configuration)
    }
}

/// What came of each, what is not as expected first.
pub(super) fn judged<'a>(report: &'a Report<'a>) -> Vec<Judged<'a>> {
    let mut all = Vec::new();
    if report.origin.campaigns.iter().all(|one| one.expected.is_empty()) {
        return all;
    }
    let mut by_configuration: BTreeMap<(&str, u32), Vec<&Record>> = BTreeMap::new();
    for record in report.material.records.iter().filter(|record| record.trial.is_repeat()) {
        if let Some(configuration) = record.trial.configuration {
            by_configuration.entry((&record.campaign, configuration)).or_default().push(record);
        }
    }
    for ReportedCampaign { campaign, expected, .. } in &report.origin.campaigns {
        for one in expected {
            let read: Option<Expectation> = one.text.parse().ok();
            let judge = |configuration: Option<u32>| {
                let trials = configuration.and_then(|number| by_configuration.get(&(campaign.id.as_str(), number)));
                let trials = trials.cloned().unwrap_or_default();
                let figures = trials.iter().filter_map(|record| Some((read.as_ref()?.metric.of(record)?, *record)));
                let (values, records): (Vec<f64>, Vec<&Record>) = figures.unzip();
                let came = match (&read, configuration) {
                    (None, _) => ExpectationOutcome::CannotTell("this version of linerate cannot read it"),
                    (_, None) => ExpectationOutcome::CannotTell("no trial of its campaign is what it is for"),
                    _ if campaign.finished_at.is_none() => ExpectationOutcome::CannotTell("its campaign has not ended"),
                    _ if trials.is_empty() => ExpectationOutcome::CannotTell("this report has none of its trials"),
                    (Some(read), _) if read.is_met(median(&values)) => ExpectationOutcome::Met,
                    _ if values.is_empty() => ExpectationOutcome::NotMeasured,
                    _ => ExpectationOutcome::NotMet,
                };
                let configuration = match (trials.first(), configuration) {
                    (Some(first), _) => levels(first),
                    (None, Some(number)) => format!("configuration {} of its plan", number + 1),
                    (None, None) => String::new(),
                };
                Judged {
                    campaign: &campaign.id,
                    text: &one.text,
                    read: read.clone(),
                    configuration,
                    values,
                    records,
                    came,
                }
            };
            match &one.configurations[..] {
                [] => all.push(judge(None)),
                several => all.extend(several.iter().map(|number| judge(Some(*number)))),
            }
        }
    }
    // What is not as expected is looked for first.
    all.sort_by_key(|one| one.came);
    all
}

/// What the answer begins with; nothing where nothing was expected.
pub(super) fn lines(all: &[Judged<'_>]) -> Vec<String> {
    let mut counts = [0_u64; 3];
    for one in all {
        counts[match one.came {
            ExpectationOutcome::NotMet | ExpectationOutcome::NotMeasured => 0,
            ExpectationOutcome::CannotTell(_) => 1,
            ExpectationOutcome::Met => 2,
        }] += 1;
    }
    let [not, unknown, met] = counts;
    let mut lines: Vec<String> = all.iter().take(not as usize).take(TOLD).map(Judged::sentence).collect();
    let is = |count: u64| if count == 1 { "is" } else { "are" };
    lines.extend(match (all.len(), not, unknown) {
        (0, ..) => None,
        (1, 0, 0) => Some("What was expected is met.".to_owned()),
        (number, 0, 0) => Some(format!("All {} expectations are met.", count(number as u64))),
        (1, ..) if not == 1 => None,
        (number, ..) => {
            let cannot = (unknown > 0).then(|| format!(", of {} nobody can tell", count(unknown)));
            Some(format!(
                "Of {} expectations {} {} met, {} {} not{}.",
                count(number as u64),
                count(met),
                is(met),
                count(not),
                is(not),
                cannot.unwrap_or_default()
            ))
        }
    });
    lines
}

/// The section; nothing where nothing was expected.
pub(super) fn pieces(all: &[Judged<'_>]) -> Vec<Piece> {
    if all.is_empty() {
        return Vec::new();
    }
    let row = |one: &Judged<'_>| {
        let unit = one.read.as_ref().map(|read| read.metric.unit);
        let measured = one.read.as_ref().zip(median(&one.values)).map(|(read, value)| {
            let records = one.records.iter().map(|record| record.id.clone()).collect();
            let trace = Trace { value, figure: read.metric.name.clone(), records };
            Cell::number(value * read.metric.unit.scale(), 4).traced(trace)
        });
        let came = match one.came {
            ExpectationOutcome::Met => "met".to_owned(),
            ExpectationOutcome::NotMet => "NOT met".to_owned(),
            ExpectationOutcome::NotMeasured => "NOT met: no trial has the figure".to_owned(),
            ExpectationOutcome::CannotTell(why) => format!("cannot tell: {why}"),
        };
        vec![
            Cell::text(one.campaign),
            Cell::long(one.text),
            Cell::long(&one.configuration),
            Cell::count(one.values.len() as u64),
            measured.unwrap_or_else(|| Cell::numbers("-")),
            Cell::long(unit.map(|unit| unit.name()).unwrap_or_default()),
            Cell::long(came),
        ]
    };
    let names = ["campaign", "expected", "where", "runs", "median", "unit", "came out"];
    let mut table = Table::new(names, all.iter().take(LISTED).map(row));
    let is_one = all.iter().all(|one| one.campaign == all[0].campaign);
    if is_one {
        table.remove(0);
    }
    let more = all.len().saturating_sub(LISTED);
    let mut pieces = vec![
        Piece::Section("What was expected".to_owned()),
        Piece::Lines(vec!["Each is held against the median of a configuration's runs.".to_owned()]),
        Piece::Table(table),
    ];
    pieces.extend(
        (more > 0).then(|| {
            Piece::Lines(vec![format!("{} more came out no worse than the last of these.", count(more as u64))])
        }),
    );
    pieces
}
