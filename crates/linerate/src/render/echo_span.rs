//! How long frames took to come back from an echo, as a line for people or for programs.
//! Knows no sockets; a span comes from `commands/echo.rs`.

use std::time::Duration;

use linerate_host::echo::ask::AskCounts;

use super::json;
use super::number::{count, figure};

/// What came back in one span of time.
pub(crate) struct EchoSpan<'a> {
    /// From the beginning to the span's end.
    pub(crate) elapsed: Duration,
    /// Its length.
    pub(crate) length: Duration,
    /// At its end.
    pub(crate) now: &'a AskCounts,
    /// At its beginning.
    pub(crate) before: &'a AskCounts,
    /// All of the time.
    pub(crate) is_total: bool,
}

impl EchoSpan<'_> {
    fn of(&self, count: fn(&AskCounts) -> u64) -> u64 {
        count(self.now).saturating_sub(count(self.before))
    }

    fn per_s(&self) -> f64 {
        self.of(|counts| counts.returned) as f64 / self.length.as_secs_f64()
    }
}

/// What stands over the lines. Times are of all that came back since the beginning.
pub(crate) fn heading() -> String {
    row(["time", "came back/s", "p50 µs", "p99 µs", "max µs", "sent", "lost"].map(str::to_owned))
}

/// A span for people.
pub(crate) fn line(span: &EchoSpan<'_>) -> String {
    let us = |ns: Option<u64>| ns.map_or(String::new(), |ns| figure(ns as f64 / 1e3, 3));
    let times = &span.now.times;
    row([
        if span.is_total { "total".to_owned() } else { format!("{:.0} s", span.elapsed.as_secs_f64()) },
        count(span.per_s().round() as u64),
        us(times.percentile_ns(50.0)),
        us(times.percentile_ns(99.0)),
        us(times.max_ns()),
        count(span.of(|counts| counts.sent)),
        count(span.of(|counts| counts.lost)),
    ])
}

fn row(cells: [String; 7]) -> String {
    const WIDTHS: [usize; 7] = [8, 14, 10, 10, 12, 16, 10];
    let cells = cells.iter().zip(WIDTHS).map(|(cell, width)| format!("{cell:>width$}"));
    format!("{}\n", cells.collect::<String>())
}

/// A span for programs: an object a line; the last has `total`, and all times in buckets of 1 %.
pub(crate) fn json(span: &EchoSpan<'_>) -> String {
    let times = &span.now.times;
    let seconds = |ns: Option<u64>| ns.map(|ns| ns as f64 / 1e9);
    json::line(serde_json::json!({
        "elapsed_s": span.elapsed.as_secs_f64(),
        "interval_s": span.length.as_secs_f64(),
        "sent": span.of(|counts| counts.sent),
        "returned": span.of(|counts| counts.returned),
        "lost": span.of(|counts| counts.lost),
        "late": span.of(|counts| counts.late),
        "strays": span.of(|counts| counts.strays),
        "overrun": span.of(|counts| counts.overrun),
        "returned_per_s": span.per_s(),
        "min_s": seconds(times.min_ns()),
        "p50_s": seconds(times.percentile_ns(50.0)),
        "p99_s": seconds(times.percentile_ns(99.0)),
        "max_s": seconds(times.max_ns()),
        "total": span.is_total.then_some(true),
        "histogram": span.is_total.then_some(times),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_came_back_and_a_program_reads_the_same() {
        let mut counts = AskCounts { sent: 1_000_003, returned: 1_000_000, lost: 3, ..AskCounts::default() };
        counts.times.record_n(2_600, 990_000);
        counts.times.record_n(40_000, 10_000);
        let elapsed = Duration::from_secs(5);
        let before = AskCounts::default();
        let span = EchoSpan { elapsed, length: elapsed, now: &counts, before: &before, is_total: true };
        insta::assert_snapshot!(format!("{}{}", heading(), line(&span)), @r"
            time   came back/s    p50 µs    p99 µs      max µs            sent      lost
           total       200,000      2.61      2.61        40.2       1,000,003         3
        ");
        assert!(heading().chars().count() <= 81);
        let object: serde_json::Value = serde_json::from_str(&json(&span)).unwrap();
        assert_eq!(
            (&object["returned"], &object["lost"], &object["total"]),
            (&1_000_000.into(), &3.into(), &true.into())
        );
        let counted: u64 =
            object["histogram"]["counts"].as_array().unwrap().iter().map(|one| one[1].as_u64().unwrap()).sum();
        assert_eq!(counted, 1_000_000);
        let none: serde_json::Value = serde_json::from_str(&json(&EchoSpan { now: &before, ..span })).unwrap();
        assert_eq!(none.get("p50_s"), None);
    }
}
