//! A line a run and an end, as `ttcp` reports: how much, how long, how many calls, and what it cost.
//! Knows no more of ttcp than what its users look for; units and layout are our own.

use comfy_table::{Cell, CellAlignment};
use linerate_results::record::{Directions, FlowFigures, Machine, Record};
use linerate_trial::flow::End;
use linerate_trial::spec::Direction;

use super::number::{count, figure};
use super::table::{plain, trimmed};

const HEADINGS: [&str; 14] = [
    "run",
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
    "",
];

/// The streams among the records, in their order. User and system time, faults and switches are those of the
/// threads that moved the data, not of the machine; interrupts are not in them.
pub(crate) fn ttcp(records: &[Record]) -> String {
    let mut table = plain();
    table.set_header(HEADINGS.map(|text| Cell::new(text).set_alignment(CellAlignment::Right)));
    let streams = records.iter().filter(|record| record.workload.is_stream());
    for (run, record) in streams.enumerate() {
        for (end, machine) in ends(record) {
            let cells = row(run + 1, record, end, machine);
            table.add_row(cells.map(|text| Cell::new(text).set_alignment(CellAlignment::Right)));
        }
    }
    if table.row_count() == 0 {
        return "No streams.\n".to_owned();
    }
    format!(
        "{}\nTimes, calls, faults and switches: of the threads that moved the data, over the whole trial.\n",
        trimmed(&mut table)
    )
}

/// The sender first, as ttcp's users are used to.
fn ends(record: &Record) -> [(End, &Machine); 2] {
    match record.direction {
        Direction::Rx => [(End::Host, &record.host), (End::Target, &record.target)],
        _ => [(End::Target, &record.target), (End::Host, &record.host)],
    }
}

fn row(run: usize, record: &Record, end: End, machine: &Machine) -> [String; 14] {
    let flow = record.result.as_ref().map(|figures| &figures.flow);
    let octets = flow.and_then(|flow| flow.octets).map(|octets| octets as f64);
    let (time, calls) = (record.duration_s, calls(record, end).map(|calls| calls as f64));
    let threads = machine.threads.filter(|_| record.result.is_some());
    let over = |a: Option<f64>, b: Option<f64>, scale: f64| match (a, b) {
        (Some(a), Some(b)) if b > 0.0 => figure(a / b * scale, 4),
        _ => String::new(),
    };
    let write = |value: Option<f64>, digits| value.map_or(String::new(), |value| figure(value, digits));
    let pair = |a: Option<u64>, b: Option<u64>| match a.zip(b) {
        Some((a, b)) => format!("{}+{}", count(a), count(b)),
        None => String::new(),
    };
    [
        run.to_string(),
        format!("{end} {}", role(record.direction, end)),
        octets.map_or(String::new(), |octets| count(octets as u64)),
        write(time, 4),
        over(octets, time, 1.0 / 1024.0),
        calls.map_or(String::new(), |calls| count(calls as u64)),
        over(time, calls, 1e3),
        over(calls, time, 1.0),
        write(threads.map(|threads| threads.user_s), 3),
        write(threads.map(|threads| threads.system_s), 3),
        over(threads.map(|threads| threads.user_s + threads.system_s), time, 100.0),
        pair(threads.map(|threads| threads.major_faults), threads.map(|threads| threads.minor_faults)),
        pair(threads.map(|threads| threads.voluntary_switches), threads.map(|threads| threads.involuntary_switches)),
        record.error.clone().map_or(String::new(), |_| "failed".to_owned()),
    ]
}

fn role(direction: Direction, end: End) -> &'static str {
    match (direction, end) {
        (Direction::Both, _) => "both",
        (Direction::Tx, End::Target) | (Direction::Rx, End::Host) => "sent",
        _ => "received",
    }
}

/// The system calls that this end made to move data.
fn calls(record: &Record, end: End) -> Option<u64> {
    let figures = record.result.as_ref()?;
    match (role(record.direction, end), &figures.directions) {
        ("both", Some(Directions { tx, rx })) => {
            let (sent, received): (&FlowFigures, _) = if end == End::Target { (tx, rx) } else { (rx, tx) };
            Some(sent.send_calls? + received.receive_calls?)
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
        insta::assert_snapshot!(ttcp(&sample::repeats()));
    }

    #[test]
    fn other_streams() {
        insta::assert_snapshot!(ttcp(&sample::everything()));
    }
}
