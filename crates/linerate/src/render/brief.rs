//! A trial in one line, the moment it ends, and a second of it while it runs.
//! Says the main figures only; tables have the others.

use std::time::Duration;

use linerate_results::figure::Source;
use linerate_results::record::Record;

use super::number::{count, figure, percent};
use super::table_model::Cell;
use crate::measure::live::Interval;

/// From this part of the load on, that it was not sent is said.
const UNSENT: f64 = 0.01;

/// What came of a trial: `415.8 Mbit/s, lost 30.1 %`.
pub(crate) fn line(record: &Record) -> String {
    let Some(result) = &record.result else { return "failed".to_owned() };
    let flow = &result.flow;
    let mut words = Vec::new();
    let is_stream = record.workload.is_stream();
    if is_stream {
        words.extend(flow.throughput_bps.map(|bps| format!("{} Mbit/s", figure(bps / 1e6, 4))));
    }
    // Of a load, what the sender did not send is missing as well.
    let offered = Source::whole(record).offered_bps().filter(|bps| flow.loss_ratio.is_some() && bps.is_finite());
    let unsent = offered.zip(flow.achieved_load_bps).map(|(offered, sent)| 1.0 - sent / offered);
    words.extend(unsent.filter(|part| *part >= UNSENT).map(|part| format!("{} % not sent", percent(part))));
    words.extend(flow.loss_ratio.map(|ratio| format!("lost {} %", percent(ratio))));
    words.extend(result.transactions_per_s.map(|rate| format!("{} transactions/s", figure(rate, 4))));
    let p50 = result.latency.as_ref().and_then(|latency| latency.percentiles.get("p50"));
    words.extend(p50.map(|seconds| format!("p50 {} µs", figure(seconds * 1e6, 3))));
    let again = flow.tcp.as_ref().map(|tcp| tcp.retransmissions).filter(|again| is_stream || *again > 0);
    words.extend(again.map(|again| format!("retransmitted {}", count(again))));
    words.join(", ")
}

/// What passed in a second or so: `  3.0 s  rx 415.8 Mbit/s`.
pub(crate) fn interval(interval: &Interval) -> String {
    let Interval { until_s, direction, bps, is_sent } = interval;
    let sent = if *is_sent { " sent" } else { "" };
    format!("{until_s:>8.1} s  {direction} {:>8} Mbit/s{sent}", Cell::number(bps / 1e6, 4).shown())
}

/// A value in four digits.
#[cfg(feature = "console")]
pub(crate) fn digits(value: f64) -> String {
    figure(value, 4)
}

/// A time as people say it.
pub(crate) fn time(time: Duration) -> String {
    match time.as_secs() {
        s @ 0..60 => format!("{s} s"),
        s @ 60..3600 => format!("{} min {:02} s", s / 60, s % 60),
        s => format!("{} h {:02} min", s / 3600, s / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use linerate_machine::end::Direction;
    use linerate_results::sample;

    use super::*;

    #[test]
    fn the_main_figures_of_each_workload() {
        let said = |record: Record| line(&record);
        assert_eq!(said(sample::tcp(0, Direction::Tx, 936.41, false)), "936.4 Mbit/s, retransmitted 120");
        assert_eq!(said(sample::udp(0, Direction::Rx, 600, 400.0)), "400.0 Mbit/s, lost 33.3 %");
        let mut slow = sample::udp(0, Direction::Rx, 600, 400.0);
        slow.result.as_mut().unwrap().flow.achieved_load_bps = Some(480e6);
        assert_eq!(said(slow), "400.0 Mbit/s, 20.0 % not sent, lost 33.3 %");
        assert_eq!(said(sample::rr(0, "64")), "21,874 transactions/s, p50 41.2 µs");
        assert_eq!(said(sample::failed(0)), "failed");
    }

    #[test]
    fn a_second_of_a_trial() {
        let mut one = Interval { until_s: 2.0, direction: Direction::Rx, bps: 415.8e6, is_sent: false };
        assert_eq!(interval(&one), "     2.0 s  rx    415.8 Mbit/s");
        one.is_sent = true;
        assert!(interval(&one).ends_with("Mbit/s sent"));
    }
}
