//! A line a run and an end, as `ttcp` reports: how much, how long, how many calls, and what it cost; of several runs medians.
//! Knows no more of ttcp than what its users look for; units and layout are our own.

use std::collections::BTreeSet;

use linerate_machine::end::{Direction, End};
use linerate_results::figure::Digits;
use linerate_results::record::{Directions, FlowFigures, Machine, Record};
use linerate_stats::median;

use super::forms::{self, Piece};
use super::groups::in_groups;
use super::table_model::{Cell, Table, Value};

const HEADINGS: [&str; 12] = [
    "end",
    "payload\nbytes",
    "time\ns",
    "rate\nKiB/s",
    "calls",
    "time/call\nms",
    "calls/s",
    "user\ns",
    "system\ns",
    "CPU\n%",
    "page faults\nmajor+minor",
    "switches\nwaited+forced",
];

/// The streams among the records, in their order. User and system time, faults and switches are those of the
/// threads that moved the data, not of the machine; interrupts are not in them.
pub(crate) fn ttcp(records: &[Record], width: Option<u16>) -> String {
    let streams: Vec<&Record> = records.iter().filter(|record| record.workload.is_stream()).collect();
    let names = streams.iter().flat_map(|record| record.trial.factors.keys());
    let names: BTreeSet<&String> = names.filter(|name| !["workload", "direction"].contains(&name.as_str())).collect();
    let level = |record: &Record, name: &String| record.trial.factors.get(name).cloned().unwrap_or_default();
    let varies = |name: &&String| streams.iter().any(|record| level(record, name) != level(streams[0], name));
    let factors: Vec<&String> = names.into_iter().filter(varies).collect();
    let levels = |record: &Record| factors.iter().map(|name| Cell::text(level(record, name))).collect::<Vec<_>>();
    let mut rows = Vec::new();
    for (run, record) in (1_u32..).zip(&streams) {
        let words = [vec![Cell::count(run)], levels(record)].concat();
        rows.extend(ends(record).map(|(end, machine)| [words.clone(), row(record, end, machine)].concat()));
    }
    let measured = streams.iter().copied().filter(|record| record.result.is_some());
    let mut configurations = in_groups(measured, |record| (&record.trial.factors, record.direction));
    configurations.sort_by_key(|(_, runs)| runs[0].trial.configuration);
    for (_, runs) in configurations.iter().filter(|(_, runs)| runs.len() > 1) {
        let words = [vec![Cell::text("median")], levels(runs[0])].concat();
        rows.extend([0, 1].map(|end| {
            let rows: Vec<Vec<Cell>> = runs
                .iter()
                .map(|record| {
                    let (end, machine) = ends(record)[end];
                    row(record, end, machine)
                })
                .collect();
            [words.clone(), medians(&rows)].concat()
        }));
    }
    let headings = std::iter::once("run").chain(factors.iter().map(|name| name.as_str())).chain(HEADINGS);
    let table =
        Table::new(headings, rows).filled().sparing(&["switches", "page faults", "calls/s", "time/call", "calls"]);
    if table.rows.is_empty() {
        return "No streams.\n".to_owned();
    }
    let what = "Calls, user and system time, faults and switches are of the threads that moved the data, over the whole trial.";
    forms::text(&[Piece::Table(table), Piece::Lines(vec![what.to_owned()])], width)
}

/// The sender first, as ttcp's users are used to.
fn ends(record: &Record) -> [(End, &Machine); 2] {
    match record.direction {
        Direction::Rx => [(End::Host, &record.host), (End::Target, &record.target)],
        _ => [(End::Target, &record.target), (End::Host, &record.host)],
    }
}

/// The medians of the numbers in the columns of these; what is no number is that of the first.
fn medians(rows: &[Vec<Cell>]) -> Vec<Cell> {
    let column = |at: usize| {
        let numbers: Vec<(f64, Digits)> = rows
            .iter()
            .filter_map(|row| match row[at].value {
                Value::Number(value, digits) => Some((value, digits)),
                _ => None,
            })
            .collect();
        let values: Vec<f64> = numbers.iter().map(|(value, _)| *value).collect();
        match (median(&values), numbers.first(), at) {
            (Some(middle), Some((_, digits)), _) => Value::Number(middle, *digits).into(),
            // The end.
            (_, _, 0) => rows[0][0].clone(),
            _ => Cell::default(),
        }
    };
    (0..HEADINGS.len()).map(column).collect()
}

fn row(record: &Record, end: End, machine: &Machine) -> Vec<Cell> {
    let Moved { octets, time } = moved(record, end);
    let calls = calls(record, end).map(|calls| calls as f64);
    let whole = record.whole_s();
    let threads = machine.threads.filter(|_| record.result.is_some());
    let over = |a: Option<f64>, b: Option<f64>, scale: f64| -> Cell {
        let ratio = a.zip(b).filter(|(_, b)| *b > 0.0).map(|(a, b)| a / b * scale);
        ratio.map(|ratio| Cell::number(ratio, 4)).into()
    };
    let whole_number = |value: f64| Cell::from(Value::Number(value.trunc(), Digits::Whole));
    vec![
        Cell::text(format!("{end} {}", role(record.direction, end))),
        octets.map(whole_number).into(),
        time.map(|time| Cell::number(time, 4)).into(),
        if record.error.is_some() { Value::Failed.into() } else { over(octets, time, 1.0 / 1024.0) },
        calls.map(whole_number).into(),
        over(whole, calls, 1e3),
        over(calls, whole, 1.0),
        threads.map(|threads| Cell::number(threads.user_s, 3)).into(),
        threads.map(|threads| Cell::number(threads.system_s, 3)).into(),
        over(threads.map(|threads| threads.user_s + threads.system_s), whole, 100.0),
        threads.map(|threads| Cell::pair(threads.major_faults, threads.minor_faults)).into(),
        threads.map(|threads| Cell::pair(threads.voluntary_switches, threads.involuntary_switches)).into(),
    ]
}

fn role(direction: Direction, end: End) -> &'static str {
    match (direction, end) {
        (Direction::Both, _) => "both",
        (Direction::Tx, End::Target) | (Direction::Rx, End::Host) => "sent",
        _ => "received",
    }
}

/// What this end moved, and the seconds in which it did.
#[derive(Default)]
struct Moved {
    octets: Option<f64>,
    time: Option<f64>,
}

/// Each end's own count: where bytes end the trial, a receiver's time begins with its first read, which is in no figure.
fn moved(record: &Record, end: End) -> Moved {
    let Some(figures) = &record.result else { return Moved { octets: None, time: record.duration_s } };
    let octets = |count: Option<u64>| count.map(|octets| octets as f64);
    let received = |flow: &FlowFigures| Moved { octets: octets(flow.octets), time: record.duration_s };
    match (role(record.direction, end), &figures.directions) {
        ("both", Some(Directions { tx, rx })) => {
            let (sent, read) = if end == End::Target { (tx, rx) } else { (rx, tx) };
            Moved { octets: octets(sent.octets_sent).zip(octets(read.octets)).map(|(a, b)| a + b), ..received(read) }
        }
        ("sent", _) => {
            let sent = octets(figures.flow.octets_sent);
            // By the sender's own clock, as its rate is.
            let time = sent.zip(figures.flow.achieved_load_bps).map(|(sent, bps)| 8.0 * sent / bps);
            Moved { octets: sent, time: time.filter(|time| time.is_finite()).or(record.duration_s) }
        }
        _ => received(&figures.flow),
    }
}

/// The system calls that this end made to move data.
fn calls(record: &Record, end: End) -> Option<u64> {
    let figures = record.result.as_ref()?;
    match (role(record.direction, end), &figures.directions) {
        ("both", Some(Directions { tx, rx })) => {
            let (sent, received): (&FlowFigures, _) = if end == End::Target { (tx, rx) } else { (rx, tx) };
            Some(sent.send_calls?.saturating_add(received.receive_calls?))
        }
        ("sent", _) => figures.flow.send_calls,
        ("received", _) => figures.flow.receive_calls,
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::sample;

    #[test]
    fn a_line_per_run_and_end() {
        insta::assert_snapshot!(ttcp(&sample::repeats(), None));
    }

    #[test]
    fn each_end_shows_what_it_moved() {
        let mut record = linerate_results::sample::tcp(0, Direction::Rx, 940.0, false);
        let flow = &mut record.result.as_mut().unwrap().flow;
        (flow.octets, flow.octets_sent) = (Some(67_036_088), Some(67_108_864));
        flow.achieved_load_bps = Some(8.0 * 67_108_864.0 / 0.5);
        record.duration_s = Some(0.25);
        record.asked.insert("warmup".to_owned(), "750ms".to_owned());
        let text = ttcp(&[record], None);
        let row =
            |end: &str| text.lines().find(|line| line.contains(end)).unwrap().split_whitespace().collect::<Vec<_>>();
        // 67,036,088 bytes in 0.25 s; calls and CPU time are of a second.
        assert_eq!(row("host sent")[3..6], ["67,108,864", "0.5000", "131,072"], "{text}");
        assert_eq!(row("target received")[3..6], ["67,036,088", "0.2500", "261,860"], "{text}");
        assert_eq!(row("host sent")[6..9], ["1,787", "0.5596", "1,787"], "{text}");
    }

    #[test]
    fn a_terminal_of_80_columns_is_wide_enough() {
        for records in [sample::repeats(), sample::everything()] {
            let text = ttcp(&records, Some(80));
            assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        }
    }

    #[test]
    fn other_streams() {
        insta::assert_snapshot!(ttcp(&sample::everything(), None));
    }
}
