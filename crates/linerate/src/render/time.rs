//! Where the time of a trial went, and what happened in it.
//! Knows the record's fields, not how they came about.

use linerate_machine::end::Direction;
use linerate_results::record::Record;
use linerate_results::time_budget::TimeLine;

use super::forms::Piece;
use super::number::figure;
use super::table_model::{Cell, Table};

/// Lines that took a smaller share are left out for people.
const LEAST: f64 = 0.005;
/// As many events are shown.
const MOST: usize = 20;

/// The time budget of each direction.
pub(super) fn table(record: &Record) -> Table {
    let both = record.direction == Direction::Both;
    let row = |line: &TimeLine| {
        let way = both.then(|| Cell::text(line.direction.name()));
        let seconds = match record.workload.is_stream() {
            true => format!("{} s", figure(line.seconds, 3)),
            false => format!("{} µs", figure(line.seconds * 1e6, 3)),
        };
        let share = Cell::numbers(format!("{:.1}", line.share * 100.0));
        way.into_iter().chain([Cell::text(line.clause()), share, Cell::numbers(seconds)]).collect()
    };
    let time = if record.workload.is_stream() { "time" } else { "of each" };
    Table::new(
        both.then_some("").into_iter().chain(["limited by", "share %", time]),
        record.time_budget.iter().filter(|line| line.share >= LEAST).map(row),
    )
}

/// The same and what happened, as parts of an answer.
pub(super) fn pieces(record: &Record) -> Vec<Piece> {
    let title = match record.workload.is_stream() {
        true => "Where the time went, measured part",
        false => "Where the time of a transaction went, measured part",
    };
    let mut pieces = Piece::Table(table(record)).under(title);
    let more = record.events.len().saturating_sub(MOST);
    let mut lines: Vec<String> = record.events.iter().take(MOST).map(ToString::to_string).collect();
    if more > 0 {
        lines.push(format!("and {more} more events"));
    }
    pieces.extend(Piece::Lines(lines).under("What happened meanwhile"));
    pieces
}
