//! Answers of a browser that the commands print without pictures: the same pieces, and beside them those of reports.

use linerate_results::record::Record;

use super::answer::Answer;
use super::compare::{self, ComparisonView};
use super::explain::Explained;
use super::forms::Piece;
use super::report::{pictures_of, pictures_of_sides};
use super::show;

fn pictures(charts: Vec<linerate_chart::Chart>) -> impl Iterator<Item = Piece> {
    charts.into_iter().map(|chart| Piece::Chart(Box::new(chart)))
}

/// One record in full.
pub(crate) fn record(record: &Record, all: bool) -> Answer {
    let mut head = show::head(record);
    for (heading, name) in head.headings.iter_mut().zip(["what", "value"]) {
        name.clone_into(&mut heading.name);
    }
    let head = std::iter::once(Piece::Table(head));
    Answer::of(head.chain(pictures(pictures_of(record))).chain(show::pieces(record, None, all)).collect())
}

/// What a record shows.
pub(crate) fn explained(explained: &Explained<'_>, record: &Record) -> Answer {
    explained.answer().followed_by(Answer::of(pictures(pictures_of(record)).collect()))
}

/// A comparison; of the records of both sides, in brief, each repeat stands beside the verdicts.
pub(crate) fn comparison(shown: &ComparisonView<'_>, sides: [&[Record]; 2]) -> Answer {
    let charts = pictures(pictures_of_sides(sides, shown.comparison));
    let in_sight = |piece| match piece {
        Piece::Table(table) => Piece::Table(table.with_behind("metric", &["verdict"])),
        other => other,
    };
    Answer::of(compare::pieces(shown).into_iter().map(in_sight).chain(charts).collect())
}
