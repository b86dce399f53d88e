//! Intervals of a trial while it runs, from what its ends say of their progress about once a second.
//! Knows bytes and times; packets that were lost or retransmitted the ends tell when the trial has ended.

use linerate_machine::end::{Direction, End, PerEnd};
use serde::{Deserialize, Serialize};

/// What an end has moved since the trial began.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LiveCounts {
    pub(crate) elapsed_ns: u64,
    pub(crate) octets_sent: u64,
    pub(crate) octets_received: u64,
}

/// What passed in one direction in an interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Interval {
    pub(crate) until_s: f64,
    pub(crate) direction: Direction,
    pub(crate) bps: f64,
    /// It is the sender's count, for the receiver is another tool and tells nothing as yet.
    pub(crate) is_sent: bool,
}

/// A line tells of so much at least, nanoseconds.
const LEAST_NS: u64 = 900_000_000;

/// What was heard of the present trial.
#[derive(Default)]
pub(crate) struct Live {
    before: PerEnd<LiveCounts>,
}

impl Live {
    /// What an end says. The receiver's count is told, the sender's only where the target is another tool's.
    pub(crate) fn heard(&mut self, end: End, now: LiveCounts, is_foreign: bool) -> Vec<Interval> {
        // Another tool's end may tell more often than once a second, and that a trial has ended right after its last second.
        let is_soon =
            |before: LiveCounts| now.elapsed_ns.checked_sub(before.elapsed_ns).is_some_and(|ns| ns < LEAST_NS);
        if is_soon(self.before[end]) {
            return Vec::new();
        }
        let before = std::mem::replace(&mut self.before[end], now);
        let seconds = now.elapsed_ns.saturating_sub(before.elapsed_ns) as f64 / 1e9;
        let of = |octets: u64, before: u64| Some(8.0 * octets.checked_sub(before)? as f64 / seconds);
        let (receives, sends) =
            if end == End::Target { (Direction::Rx, Direction::Tx) } else { (Direction::Tx, Direction::Rx) };
        let received = of(now.octets_received, before.octets_received);
        let sent = of(now.octets_sent, before.octets_sent).filter(|_| is_foreign);
        let counts = [(received, receives, false), (sent, sends, true)];
        let interval = |(bps, direction, is_sent): (Option<f64>, Direction, bool)| {
            let bps = bps.filter(|bps| bps.is_finite() && *bps > 0.0)?;
            Some(Interval { until_s: now.elapsed_ns as f64 / 1e9, direction, bps, is_sent })
        };
        counts.into_iter().filter_map(interval).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_receiver_tells_and_only_for_another_tool_the_sender() {
        let so_far = |seconds: u64, octets_sent, octets_received| LiveCounts {
            elapsed_ns: seconds * 1_000_000_000,
            octets_sent,
            octets_received,
        };
        let mut live = Live::default();
        let one = |until_s, bps, is_sent| Interval { until_s, direction: Direction::Rx, bps, is_sent };
        assert_eq!(live.heard(End::Target, so_far(1, 0, 1000), false), [one(1.0, 8000.0, false)]);
        assert_eq!(live.heard(End::Target, so_far(3, 0, 1500), false), [one(3.0, 2000.0, false)]);
        assert_eq!(live.heard(End::Host, so_far(3, 5000, 0), false), []);
        assert_eq!(live.heard(End::Host, so_far(4, 6000, 0), true), [one(4.0, 8000.0, true)]);
        // Sooner than a second, it waits for the rest of that.
        let tenth =
            |tenths: u64| LiveCounts { elapsed_ns: tenths * 100_000_000, ..so_far(0, 0, 1500 + 50 * (tenths - 30)) };
        assert!((31..39).all(|tenths| live.heard(End::Target, tenth(tenths), false).is_empty()));
        assert_eq!(live.heard(End::Target, tenth(40), false), [one(4.0, 4000.0, false)]);
        // A count that goes back is of another trial.
        assert_eq!(live.heard(End::Target, so_far(1, 0, 100), false), []);
    }
}
