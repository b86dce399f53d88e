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
        "{}\nCalls, user and system time, faults and switches: of the threads that moved the data, over the whole trial.\n",
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
    let Moved { octets, time } = moved(record, end);
    let calls = calls(record, end).map(|calls| calls as f64);
    let whole = record.whole_s();
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
        over(whole, calls, 1e3),
        over(calls, whole, 1.0),
        write(threads.map(|threads| threads.user_s), 3),
        write(threads.map(|threads| threads.system_s), 3),
        over(threads.map(|threads| threads.user_s + threads.system_s), whole, 100.0),
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
    fn each_end_shows_what_it_moved() {
        let mut record = linerate_results::sample::tcp(0, Direction::Rx, 940.0, false);
        let flow = &mut record.result.as_mut().unwrap().flow;
        (flow.octets, flow.octets_sent) = (Some(67_036_088), Some(67_108_864));
        flow.achieved_load_bps = Some(8.0 * 67_108_864.0 / 0.5);
        record.duration_s = Some(0.25);
        record.asked.insert("warmup".to_owned(), "750ms".to_owned());
        let text = ttcp(&[record]);
        let row =
            |end: &str| text.lines().find(|line| line.contains(end)).unwrap().split_whitespace().collect::<Vec<_>>();
        // 67,036,088 bytes in 0.25 s; calls and CPU time are of a second.
        assert_eq!(row("host sent")[3..6], ["67,108,864", "0.5000", "131,072"], "{text}");
        assert_eq!(row("target received")[3..6], ["67,036,088", "0.2500", "261,860"], "{text}");
        assert_eq!(row("host sent")[6..9], ["1,787", "0.5596", "1,787"], "{text}");
    }

    #[test]
    fn other_streams() {
        insta::assert_snapshot!(ttcp(&sample::everything()));
    }
}
