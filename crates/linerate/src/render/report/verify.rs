//! A report made again from its records, and the first thing that differs.
//! Digests find a record that is not the one; figures are named before other words.

use anyhow::Result;
use linerate_results::record::Record;

use super::{Material, Origin, Report};

/// How it came out.
#[derive(Debug, PartialEq)]
pub(crate) enum Verified {
    /// Every figure and every word is the same; how many figures.
    Same {
        figures: usize,
    },
    /// The figures are, the words of another version are not.
    SameFigures {
        figures: usize,
    },
    Different(Difference),
}

/// The first thing that differs.
#[derive(Debug, PartialEq)]
pub(crate) enum Difference {
    /// How many records the report was made from, and how many there are.
    Count([usize; 2]),
    /// A record, by its number, is not the one that the report was made from.
    Record { number: usize, id: String },
    /// A figure, by its number: as the report has it, and as its records give it.
    Figure { number: usize, figures: [Option<HtmlFigure>; 2] },
    /// A line: as the report has it, and as its records give it.
    Line { number: usize, lines: [String; 2] },
}

/// A figure as HTML has it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct HtmlFigure {
    pub(crate) figure: String,
    pub(crate) records: String,
    pub(crate) value: String,
    pub(crate) text: String,
}

/// Why these are not the records that a report was made from. `material` is of the records as they are attached, or as the
/// store has them.
fn other_records(origin: &Origin, material: &Material) -> Option<Difference> {
    let wanted: Vec<&String> = origin.sides.iter().flat_map(|side| &side.digests).collect();
    if wanted.len() != material.len() {
        return Some(Difference::Count([wanted.len(), material.len()]));
    }
    let at = material.digests.iter().zip(wanted).position(|(is, wanted)| is != wanted)?;
    Some(Difference::Record { number: at + 1, id: material.records[at].id.clone() })
}

/// The same in words.
pub(crate) fn unlike(origin: &Origin, material: &Material) -> Option<String> {
    other_records(origin, material).map(|difference| difference.sentence())
}

/// `material` as above; `whole` as of [`Report::new`].
pub(crate) fn verify(
    html: &str,
    origin: &Origin,
    material: Material,
    whole: impl FnOnce(&[usize]) -> Result<Vec<Record>>,
) -> Result<Verified> {
    if let Some(difference) = other_records(origin, &material) {
        return Ok(Verified::Different(difference));
    }
    Ok(of_text(html, &Report::new(origin, material, whole)?.html(), origin))
}

fn of_text(html: &str, again: &str, origin: &Origin) -> Verified {
    let [theirs, ours] = [html, again].map(figures);
    for at in 0..theirs.len().max(ours.len()) {
        let figures = [theirs.get(at), ours.get(at)];
        if figures[0] != figures[1] {
            return Verified::Different(Difference::Figure {
                number: at + 1,
                figures: figures.map(|one| one.cloned()),
            });
        }
    }
    let count = ours.len();
    // Both ends count as a line: one may be longer.
    let longest = html.lines().count().max(again.lines().count());
    let mut pairs =
        html.lines().chain(std::iter::repeat("")).zip(again.lines().chain(std::iter::repeat(""))).take(longest);
    match pairs.position(|(theirs, ours)| theirs != ours) {
        None => Verified::Same { figures: count },
        Some(_) if origin.version != env!("CARGO_PKG_VERSION") => Verified::SameFigures { figures: count },
        Some(at) => {
            let line = |text: &str| text.lines().nth(at).unwrap_or_default().to_owned();
            Verified::Different(Difference::Line { number: at + 1, lines: [line(html), line(again)] })
        }
    }
}

/// Every figure of a report, in order.
fn figures(html: &str) -> Vec<HtmlFigure> {
    let mut found = Vec::new();
    for part in html.split("<data ").skip(1) {
        let (inner, _) = part.split_once("</data>").unwrap_or((part, ""));
        let (attributes, text) = inner.split_once('>').unwrap_or((inner, ""));
        let attribute = |name: &str| {
            let (_, value) = attributes.split_once(&format!("{name}=\"")).unwrap_or_default();
            value.split_once('"').map_or(value, |(value, _)| value).to_owned()
        };
        let (figure, records) = (attribute("data-figure"), attribute("data-records"));
        found.push(HtmlFigure { figure, records, value: attribute("value"), text: text.to_owned() });
    }
    found
}

impl Difference {
    /// One sentence, of one line: what a report says may be anything.
    pub(crate) fn sentence(&self) -> String {
        let cell = crate::render::cell;
        match self {
            Difference::Count([wanted, there]) => {
                format!("the report was made from {wanted} records, and there are {there}")
            }
            Difference::Record { number, id } => {
                format!("record {number}, {id}, is not the one that the report was made from: its SHA-256 is another")
            }
            Difference::Figure { number, figures: [Some(said), Some(is)] } => format!(
                "figure {number}, {} of {}: the report says {} ({}), its records give {} ({})",
                is.figure,
                is.records,
                cell(&said.text),
                cell(&said.value),
                is.text,
                is.value
            ),
            Difference::Figure { number, figures: [Some(said), None] } => {
                format!("figure {number}, {} of {}: its records give none", cell(&said.figure), cell(&said.records))
            }
            Difference::Figure { number, figures: [None, Some(is)] } => {
                format!("figure {number}, {} of {}, {}, is not in the report", is.figure, is.records, is.text)
            }
            Difference::Figure { number, .. } => format!("figure {number}"),
            Difference::Line { number, lines: [said, is] } => {
                // Where they part, and a little before.
                let same = said.chars().zip(is.chars()).take_while(|(a, b)| a == b).count();
                let from = |text: &str| text.chars().skip(same.saturating_sub(20)).take(80).collect::<String>();
                format!("line {number}: the report says '…{}…', its records give '…{}…'", from(said), from(is))
            }
        }
    }
}
