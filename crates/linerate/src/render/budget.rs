//! Where the packets of a trial went: what passed each stage, what was lost there, and what no counter explains.
//! Knows the record's fields, not how they came about.

use linerate_machine::end::Direction;
use linerate_path::budget::{Leg, LossLine};
use linerate_results::middle::Middle;
use linerate_results::record::{Losses, PathLine, Record};
use linerate_results::total::Total;

use super::forms::Piece;
use super::number::{count, signed};
use super::table_model::{Cell, Table};

/// What the table says.
pub(super) const TITLE: &str = "Path and loss budget: packets at each stage, of the whole trial, warm-up included";

const COLUMNS: [&str; 4] = ["stage", "passed", "lost", "evidence"];

/// The path of each direction with its losses; nothing of a record that has neither.
pub(super) fn table(record: &Record) -> Table {
    let (rows, titles) = rows(record);
    Table { titles, ..Table::new(COLUMNS, rows) }
}

/// The same, and what belongs beside it, as a part of an answer.
pub(super) fn pieces(record: &Record) -> Vec<Piece> {
    let mut pieces = Piece::Table(table(record)).under("Where the packets went, whole trial, warm-up included");
    let said = |row: [Cell; 3]| row.map(|cell| cell.shown());
    let beside = beside_rows(record).into_iter().map(said).map(|[what, value, why]| format!("{what}: {value} ({why})"));
    let beside: Vec<String> = beside.collect();
    if !beside.is_empty() {
        pieces.push(Piece::Lines(beside));
    }
    pieces
}

/// The rows, and before which of them a direction begins.
fn rows(record: &Record) -> (Vec<Vec<Cell>>, Vec<(usize, String)>) {
    let (mut rows, mut titles): (Vec<Vec<Cell>>, Vec<(usize, String)>) = Default::default();
    let both = record.direction == Direction::Both || record.losses.len() > 1;
    for direction in [Direction::Tx, Direction::Rx] {
        let path: Vec<&PathLine> = record.path.iter().filter(|line| line.direction == direction).collect();
        let lost: Vec<&LossLine> =
            record.loss_budget.iter().flatten().filter(|line| line.direction == direction).collect();
        let losses = record.losses.iter().find(|losses| losses.direction == direction);
        // Of requests that all came back nothing is to be said.
        let losses = losses.filter(|losses| !path.is_empty() || !lost.is_empty() || losses.lost() > 0);
        if both && !(path.is_empty() && lost.is_empty() && losses.is_none()) {
            titles.push((rows.len(), format!("{direction}, {}", who_sends(direction))));
        }
        for (leg, stage) in Leg::stages(record.middle.is_some()) {
            let (place, title) = ((leg, stage), leg.title(stage));
            for passage in path.iter().map(|line| &line.passage).filter(|passage| passage.place() == place) {
                let passed = Cell::numbers(format!("{} {}", count(passage.packets), passage.unit.name()));
                rows.push(row(&title, passed, Cell::default(), &passage.evidence()));
            }
            for line in lost.iter().filter(|line| line.place() == place) {
                rows.push(row(&title, Cell::default(), Cell::count(line.packets), &line.evidence()));
            }
        }
        if let Some(losses) = losses {
            let said = format!("of {} {} that were sent{}", count(losses.sent), losses.of, measured(record, losses));
            rows.push(row(
                "unaccounted",
                Cell::default(),
                Cell::numbers(signed(losses.unaccounted)),
                why(losses.unaccounted),
            ));
            rows.push(row("lost in all", Cell::default(), Cell::numbers(count(losses.lost())), &said));
        }
    }
    if !record.losses.is_empty() {
        return named_once(rows, titles);
    }
    // A record of an earlier version, or counters of drops alone.
    let known = record.loss_budget.iter().flatten().map(|line| line.packets).total();
    let nothing = record.path.is_empty() && record.loss_budget.iter().flatten().next().is_none();
    if let Some(rest) = record.unaccounted.filter(|rest| !(nothing && *rest == 0)) {
        rows.push(row("unaccounted", Cell::default(), Cell::numbers(signed(rest)), why(rest)));
        rows.push(row("lost in all", Cell::default(), Cell::count(known.saturating_add_signed(rest)), ""));
    } else if let Some(tcp) = record.result.as_ref().and_then(|result| result.flow.tcp.as_ref()) {
        let said = "segments that TCP retransmitted; not each of them had been lost";
        rows.push(row("retransmitted", Cell::default(), Cell::count(tcp.retransmissions), said));
    }
    named_once(rows, titles)
}

/// How many of the lost were of the measured part, which the figures are of, where it is not all of them.
fn measured(record: &Record, losses: &Losses) -> String {
    let figures = record.result.as_ref();
    match figures.and_then(|figures| figures.of_direction(losses.direction).packets_lost) {
        Some(lost) if lost != losses.lost() => format!("; {} of them in the measured part", count(lost)),
        _ => String::new(),
    }
}

fn row(stage: &str, passed: Cell, lost: Cell, evidence: &str) -> Vec<Cell> {
    vec![Cell::text(stage), passed, lost, Cell::long(evidence)]
}

fn why(unaccounted: i64) -> &'static str {
    match unaccounted {
        0 => "",
        ..0 => "counters explain more than was lost",
        _ => "no counter explains these",
    }
}

/// A stage's name stands in the first of its rows, of each direction.
fn named_once(mut rows: Vec<Vec<Cell>>, titles: Vec<(usize, String)>) -> (Vec<Vec<Cell>>, Vec<(usize, String)>) {
    for at in (1..rows.len()).rev() {
        if rows[at][0] == rows[at - 1][0] && titles.iter().all(|(begin, _)| *begin != at) {
            rows[at][0] = Cell::default();
        }
    }
    (rows, titles)
}

fn who_sends(direction: Direction) -> &'static str {
    if direction == Direction::Tx { "from the target to the host" } else { "from the host to the target" }
}

/// Pause frames, and what was dropped that the trial had not sent.
pub(super) fn beside(record: &Record) -> Table {
    Table::new(["", "packets", "evidence"], beside_rows(record).into_iter().map(Vec::from))
}

fn beside_rows(record: &Record) -> Vec<[Cell; 3]> {
    let mut rows = Vec::new();
    let ends = record.machines().into_iter().map(|(end, machine)| (end.to_string(), &machine.pause_frames));
    let ports = record.middle.iter().flat_map(Middle::named);
    for (whose, pause) in ends.chain(ports.map(|(name, port)| (name, &port.pause_frames))) {
        let Some(pause) = pause else { continue };
        let mut row = |what: &str, value: Option<Cell>| {
            let name = Cell::text(format!("pause frames {what} by the {whose}"));
            rows.extend(value.map(|value| [name, value, Cell::long(pause.evidence())]));
        };
        row("sent", pause.sent.map(Cell::count));
        row("received", pause.received.map(Cell::count));
        row("obeyed, s,", pause.stalled_s.map(|seconds| Cell::number(seconds, 3)));
    }
    let benign = record.benign_drops.iter();
    rows.extend(benign.map(|line| {
        let what = Cell::text(format!("dropped at the {}, and none of the trial's", line.stage));
        [what, Cell::count(line.packets), Cell::long(line.evidence())]
    }));
    rows
}

/// What [`drop_reasons`] says.
pub(super) const OF_KERNELS: &str = "What the kernels dropped, by their own reasons; of all traffic, whole trial";

/// What the kernels dropped, by their own reasons.
pub(super) fn drop_reasons(record: &Record) -> Table {
    let rows = record.parties().flat_map(|(end, machine)| {
        machine.drop_reasons.iter().flatten().map(move |one| {
            let told = |text: &Option<String>| Cell::text(text.as_deref().unwrap_or("not told"));
            vec![Cell::text(end.name()), told(&one.reason), told(&one.location), Cell::count(one.packets)]
        })
    });
    Table::new(["end", "reason", "in the kernel's", "packets"], rows)
}

#[cfg(test)]
mod tests {
    use linerate_results::sample;

    use super::*;

    #[test]
    fn what_was_lost_of_the_measured_part_stands_beside_what_was_lost_in_all() {
        let mut record = sample::udp(0, Direction::Rx, 100, 90.0);
        let losses = Losses { direction: Direction::Rx, sent: 12_000, arrived: 10_000, ..sample::full().losses[0] };
        let mut said = |lost: u64| {
            record.result.as_mut().unwrap().flow.packets_lost = Some(lost);
            record.losses = vec![losses];
            table(&record).rows.pop().unwrap()[3].shown()
        };
        assert_eq!(said(1_500), "of 12,000 datagrams that were sent; 1,500 of them in the measured part");
        assert_eq!(said(2_000), "of 12,000 datagrams that were sent");
    }

    #[test]
    fn each_direction_has_a_title_and_names_its_stages() {
        let mut record = sample::full();
        let table = table(&record);
        let titles: Vec<&str> = table.titles.iter().map(|(_, title)| title.as_str()).collect();
        assert_eq!(titles, ["tx, from the target to the host", "rx, from the host to the target"]);
        assert_eq!(table.rows[table.titles[1].0 - 1][0], Cell::text("lost in all"));
        // Of drops alone, both at one stage.
        (record.path, record.losses, record.unaccounted) = (Vec::new(), Vec::new(), None);
        let table = super::table(&record);
        assert_eq!(table.titles.len(), 2);
        for (at, title) in &table.titles {
            assert!(!table.rows[*at][0].is_empty(), "{title}: the first row has no stage");
        }
    }
}
