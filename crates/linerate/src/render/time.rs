//! Where the time of a trial went, and what happened in it.
//! Knows the record's fields, not how they came about.

use linerate_machine::end::Direction;
use linerate_results::record::Record;
use linerate_results::time_budget::TimeLine;

use super::forms::Piece;
use super::number::{fixed, places};
use super::table_model::{Cell, Table};

/// Lines that took a smaller share are left out for people.
const LEAST: f64 = 0.005;
/// As many events are shown.
const MOST: usize = 20;

/// The time budget of each direction.
pub(super) fn table(record: &Record) -> Table {
    let both = record.direction == Direction::Both;
    let (time, scale) = if record.workload.is_stream() { ("time\ns", 1.0) } else { ("of each\nµs", 1e6) };
    let lines = || record.time_budget.iter().filter(|line| line.share >= LEAST);
    // Times that are parts of one whole have their points beneath each other.
    let places = places(lines().map(|line| line.seconds * scale).fold(0.0, f64::max), 3);
    let row = |line: &TimeLine| {
        let way = both.then(|| Cell::text(line.direction.name()));
        let share = Cell::numbers(format!("{:.1}", line.share * 100.0));
        let time = Cell::numbers(fixed(line.seconds * scale, places));
        way.into_iter().chain([Cell::text(line.clause()), share, time]).collect()
    };
    Table::new(both.then_some("").into_iter().chain(["limited by", "share\n%", time]), lines().map(row))
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
