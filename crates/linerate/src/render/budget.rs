//! Where the packets of a trial went: what passed each stage, what was lost there, and what no counter explains.
//! Knows the record's fields, not how they came about.

use linerate_results::record::{PathLine, Record};
use linerate_trial::budget::LossLine;
use linerate_trial::spec::Direction;
use linerate_trial::stage::Stage;

use super::forms::{Piece, numbers, words};
use super::number::{count, figure, signed};
use super::show::grid;

/// What the table says.
pub(super) const TITLE: &str = "Path and loss budget: packets at each stage, of the whole trial, warm-up included";

const COLUMNS: [&str; 4] = ["stage", "passed", "lost", "evidence"];

/// The path of each direction with its losses; nothing of a record that has neither.
pub(crate) fn table(record: &Record) -> String {
    grid(COLUMNS.map(str::to_owned).to_vec(), rows(record))
}

/// The same, and what belongs beside it, as a part of an answer.
pub(super) fn pieces(record: &Record) -> Vec<Piece> {
    let [stage, passed, lost, evidence] = COLUMNS;
    let mut pieces = Vec::new();
    let rows = rows(record);
    if !rows.is_empty() {
        pieces.push(Piece::Heading("Where the packets went, whole trial, warm-up included".to_owned()));
        let titles = vec![words(stage), numbers(passed), numbers(lost), words(evidence)];
        pieces.push(Piece::Grid { titles, rows });
    }
    let beside: Vec<String> =
        beside_rows(record).into_iter().map(|row| format!("{}: {} ({})", row[0], row[1], row[2])).collect();
    if !beside.is_empty() {
        pieces.push(Piece::Lines(beside));
    }
    pieces
}

fn rows(record: &Record) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    let both = record.direction == Direction::Both;
    for direction in [Direction::Tx, Direction::Rx] {
        let path: Vec<&PathLine> = record.path.iter().filter(|line| line.direction == direction).collect();
        let lost: Vec<&LossLine> =
            record.loss_budget.iter().flatten().filter(|line| line.direction == direction).collect();
        if both && !(path.is_empty() && lost.is_empty()) {
            let title = format!("{direction}, {}", who_sends(direction));
            rows.push(vec![title, String::new(), String::new(), String::new()]);
        }
        for stage in Stage::PATH {
            let passed = path.iter().filter(|line| line.passage.stage == stage).map(|line| {
                let passage = &line.passage;
                let passed = format!("{} {}", count(passage.packets), passage.unit.name());
                vec![stage.name().to_owned(), passed, String::new(), passage.evidence()]
            });
            rows.extend(passed);
            let lost = lost
                .iter()
                .filter(|line| line.stage == stage)
                .map(|line| vec![stage.name().to_owned(), String::new(), count(line.packets), line.evidence()]);
            rows.extend(lost);
        }
    }
    let known: i64 = record.loss_budget.iter().flatten().map(|line| line.packets as i64).sum();
    if rows.is_empty() && record.unaccounted == Some(0) {
        return rows;
    }
    if let Some(rest) = record.unaccounted {
        let why = if rest < 0 { "counters explain more than was lost" } else { "no counter explains these" };
        let why = if rest == 0 { "" } else { why };
        rows.push(vec!["unaccounted".to_owned(), String::new(), signed(rest), why.to_owned()]);
        rows.push(vec!["lost in all".to_owned(), String::new(), signed(known + rest), String::new()]);
    } else if let Some(tcp) = record.result.as_ref().and_then(|result| result.flow.tcp.as_ref()) {
        let said = "segments that TCP retransmitted; not each of them had been lost";
        rows.push(vec!["retransmitted".to_owned(), String::new(), count(tcp.retransmissions), said.to_owned()]);
    }
    // A stage is named once.
    for at in (1..rows.len()).rev() {
        if rows[at][0] == rows[at - 1][0] {
            rows[at][0].clear();
        }
    }
    rows
}

fn who_sends(direction: Direction) -> &'static str {
    if direction == Direction::Tx { "from the target to the host" } else { "from the host to the target" }
}

/// Pause frames, and what was dropped that the trial had not sent.
pub(crate) fn beside(record: &Record) -> String {
    grid(["", "packets", "evidence"].map(str::to_owned).to_vec(), beside_rows(record))
}

fn beside_rows(record: &Record) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for (end, machine) in [("target", &record.target), ("host", &record.host)] {
        let Some(pause) = &machine.pause_frames else { continue };
        let mut row = |what: &str, value: Option<String>| {
            rows.extend(value.map(|value| vec![format!("pause frames {what} by the {end}"), value, pause.evidence()]));
        };
        row("sent", pause.sent.map(count));
        row("received", pause.received.map(count));
        row("obeyed, s,", pause.stalled_s.map(|seconds| figure(seconds, 3)));
    }
    let benign = record.benign_drops.iter();
    rows.extend(benign.map(|line| {
        vec![format!("dropped at the {}, and none of the trial's", line.stage), count(line.packets), line.evidence()]
    }));
    rows
}

/// What the kernels dropped, by their own reasons.
pub(crate) fn drop_reasons(record: &Record) -> String {
    let mut rows = Vec::new();
    for (end, machine) in [("target", &record.target), ("host", &record.host)] {
        for one in machine.drop_reasons.iter().flatten() {
            let unknown = || "not told".to_owned();
            let (reason, location) = (one.reason.clone(), one.location.clone());
            rows.push(vec![
                end.to_owned(),
                reason.unwrap_or_else(unknown),
                location.unwrap_or_else(unknown),
                count(one.packets),
            ]);
        }
    }
    grid(["end", "reason", "in the kernel's", "packets"].map(str::to_owned).to_vec(), rows)
}
