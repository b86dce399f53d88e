//! A document of what was measured, from records alone: the same records and the same wishes make the same octets.
//! `document.rs` says what stands in it, `attachment.rs` puts records in and takes them out, `anonymous.rs` takes names
//! away, `verify.rs` makes a document again and tells what differs.

mod anonymous;
mod attachment;
mod document;
mod expectations;
mod figures;
mod flame;
mod gaps;
mod groups;
mod identities;
mod inside;
mod material;
mod matrices;
mod notes;
#[cfg(test)]
pub(super) mod tests;
mod verify;

use std::collections::BTreeMap;

use anyhow::Result;
#[cfg(feature = "web")]
use linerate_results::compare::Comparison;
use linerate_results::record::Record;
use linerate_results::store::Campaign;
use serde::{Deserialize, Serialize};

#[cfg(feature = "web")]
use super::answer::Answer;
use super::forms;
#[cfg(feature = "web")]
pub(crate) use super::html::policy;
use super::html::{self, Page};

pub(crate) use anonymous::Pseudonyms;
pub(crate) use attachment::{attached_at, each_attached, line, line_of, read_back, record_of};
pub(crate) use material::Material;
pub(crate) use verify::{Verified, unlike, verify};

/// The name of what a report says of itself.
const FORMAT: &str = "linerate.report/1";
/// Columns of the plain text: quoted twice, a line of it still has less than 80.
const COLUMNS: u16 = 72;

/// All that a report is made from, but the records.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Origin {
    /// [`FORMAT`].
    pub(crate) format: String,
    /// The version of linerate that made it.
    pub(crate) version: String,
    /// What its sides are called: one, or the baseline and the candidate.
    pub(crate) sides: Vec<Side>,
    /// What the two sides differ in on purpose.
    pub(crate) compared: Vec<String>,
    /// The campaigns of its records, oldest first.
    pub(crate) campaigns: Vec<ReportedCampaign>,
    /// The author's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) notes: Option<String>,
    /// Records that were picked and cannot be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) left_out: Vec<ExcludedRecord>,
    /// Names were replaced.
    pub(crate) anonymous: bool,
    /// The records are attached.
    pub(crate) attached: bool,
}

/// Records that belong together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Side {
    /// As the user picked them.
    pub(crate) words: String,
    /// Their identifiers, oldest first.
    pub(crate) records: Vec<String>,
    /// The SHA-256 of each, as a line of JSON.
    pub(crate) digests: Vec<String>,
}

/// A record that is not in the report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ExcludedRecord {
    /// Its identifier.
    pub(crate) record: String,
    /// The store's sentence; absent where names were replaced, for it may have any of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) why: Option<String>,
}

/// What is told of a campaign.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ReportedCampaign {
    /// With the plan as its file has it.
    #[serde(flatten)]
    pub(crate) campaign: Campaign,
    /// What measures it again.
    pub(crate) command: String,
    /// What it was expected to show.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) expected: Vec<Expected>,
}

/// An expectation, and whom it is of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Expected {
    /// As `--expect` takes it.
    pub(crate) text: String,
    /// The configurations that it is for, by their numbers in the plan.
    pub(crate) configurations: Vec<u32>,
}

impl Origin {
    /// `sides` are words and identifiers, in the order of the material.
    pub(crate) fn new(
        sides: Vec<(String, Vec<String>)>,
        compared: Vec<String>,
        campaigns: Vec<ReportedCampaign>,
        attached: bool,
    ) -> Origin {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let side = |(words, records)| Side { words, records, digests: Vec::new() };
        let sides = sides.into_iter().map(side).collect();
        Origin {
            format: FORMAT.to_owned(),
            version,
            sides,
            compared,
            campaigns,
            notes: None,
            left_out: Vec::new(),
            anonymous: false,
            attached,
        }
    }

    /// Says by digests which records these are.
    pub(crate) fn seal(&mut self, material: &Material) {
        let mut digests = material.digests.iter().cloned();
        for side in &mut self.sides {
            side.digests = digests.by_ref().take(side.records.len()).collect();
        }
    }
}

impl Origin {
    /// Of a report that is made again, by this version.
    pub(crate) fn again(self) -> Origin {
        Origin { version: env!("CARGO_PKG_VERSION").to_owned(), ..self }
    }
}

/// The pictures of one record: its time slices, and where its packets were lost.
#[cfg(feature = "web")]
pub(super) fn pictures_of(record: &Record) -> Vec<linerate_chart::Chart> {
    figures::slices(record).into_iter().chain(figures::path(record)).collect()
}

/// Every repeat of both sides of a comparison beside the medians.
#[cfg(feature = "web")]
pub(super) fn pictures_of_sides(sides: [&[Record]; 2], comparison: &Comparison) -> Vec<linerate_chart::Chart> {
    let mut material = Material::new(false);
    for record in sides.into_iter().flatten() {
        material.add(record.clone(), "");
    }
    let (baseline, candidate) = material.records.split_at(sides[0].len());
    figures::sides(&material, [baseline, candidate], comparison)
}

/// What is wrong with notes: line, column and a sentence.
pub(crate) fn check_notes(text: &str, material: &Material) -> Result<(), (usize, usize, String)> {
    notes::read(text, &material.observed).map(drop)
}

/// A report before it has a form.
pub(crate) struct Report<'a> {
    origin: &'a Origin,
    /// Of the records of all sides, in the order of the origin.
    material: Material,
    /// By their places, those records whose evidence is told.
    explained: Vec<(usize, Record)>,
    attachment: Option<String>,
}

impl<'a> Report<'a> {
    /// `whole` reads the records at these places once more: of a few the evidence is told.
    pub(crate) fn new(
        origin: &'a Origin,
        mut material: Material,
        whole: impl FnOnce(&[usize]) -> Result<Vec<Record>>,
    ) -> Result<Report<'a>> {
        let attachment = material.attachment.take().map(attachment::Attachment::url);
        let places = document::explained(&material);
        let explained = places.iter().copied().zip(whole(&places)?).collect();
        Ok(Report { origin, material, explained, attachment })
    }
}

impl Report<'_> {
    /// One HTML file.
    pub(crate) fn html(&self) -> String {
        let numbers = self.numbers();
        let origin = super::json::printable_line(&serde_json::to_string(self.origin).unwrap_or_default());
        let words = format!("The {} records, as JSON Lines in gzip", self.material.len());
        let page = Page {
            title: &document::title(self),
            meta: (META, &origin),
            numbers: &numbers,
            attached: self.attachment.as_deref().map(|url| [words.as_str(), "records.jsonl.gz", url]),
        };
        html::document(&page, &document::pieces(self))
    }

    /// For a wiki, an issue or a merge request.
    pub(crate) fn markdown(&self) -> String {
        format!(
            "# {}\n\n{}",
            super::markdown::escaped(&document::title(self)),
            forms::markdown(&document::pieces(self))
        )
    }

    /// For a mailing list.
    pub(crate) fn text(&self, ascii: bool) -> String {
        let title = document::title(self);
        let text = forms::whole_text(&document::pieces(self), COLUMNS, ascii);
        let text = super::wrapped(&format!("{}\n", super::sentence(&title)), Some(COLUMNS)) + "\n" + &text;
        let text = if ascii { crate::output::in_ascii(&text) } else { text };
        text.lines().map(|line| cut(line) + "\n").collect()
    }

    /// What it says of a campaign, for a browser.
    #[cfg(feature = "web")]
    pub(crate) fn campaign(&self) -> Answer {
        Answer::of(document::campaign(self))
    }

    /// The number by which the document calls each record, from 1.
    fn numbers(&self) -> BTreeMap<String, usize> {
        self.material.records.iter().zip(1..).map(|(record, number)| (record.id.clone(), number)).collect()
    }
}

/// A line in as many as it needs: a word that is longer goes on in the next.
fn cut(line: &str) -> String {
    let characters: Vec<char> = line.chars().collect();
    let lines: Vec<String> = characters.chunks(COLUMNS.into()).map(|part| part.iter().collect()).collect();
    lines.join("\n")
}

/// The name under which a report says what it was made from.
const META: &str = "linerate-report";
