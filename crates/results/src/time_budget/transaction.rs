//! Where the time of transactions went.
//! Knows threads' times and round trips, over the whole measured part: a transaction is shorter than a slice.

use linerate_machine::end::{Direction, End};
use linerate_trial::histogram::Histogram;
use linerate_trial::outcome::ThreadUse;

use super::{Limit, Sums, TimeLine};

/// Transactions as both ends saw them.
pub(crate) struct Transactions<'a> {
    /// Which way the requests went.
    pub(crate) direction: Direction,
    pub(crate) requester: End,
    /// Round trips of those that were answered.
    pub(crate) latency: &'a Histogram,
    /// Threads of both ends, over [`Transactions::whole`] transactions.
    pub(crate) asking: ThreadUse,
    pub(crate) answering: ThreadUse,
    /// Transactions of the whole trial, warm-up included.
    pub(crate) whole: u64,
    /// Seconds that were spent waiting for answers that did not come.
    pub(crate) lost_s: f64,
    /// How long a retransmission takes at least (RTO), where the transport has any: a round trip that takes as long has one.
    pub(crate) retransmission_s: Option<f64>,
}

/// The least round trips, of which the quickest ways are known: an accident is not the quickest.
const QUICKEST: f64 = 1.0;

/// The time budget of transactions; empty without any.
pub(crate) fn transactions(of: &Transactions<'_>) -> Vec<TimeLine> {
    let count = of.latency.count();
    let (Some(mean_ns), Some(quick_ns)) = (of.latency.mean_ns(), of.latency.percentile_ns(QUICKEST)) else {
        return Vec::new();
    };
    let mut sums = Sums::default();
    sums.add(Limit::LostAndWaited, None, of.lost_s);
    let all = mean_ns / 1e9 * count as f64;
    let quick = quick_ns as f64 / 1e9;
    // Round trips in which a segment was sent again.
    let again = of.retransmission_s.map_or(0.0, |least| {
        let slow: u64 = of.latency.buckets().filter(|(ns, _)| *ns as f64 >= least * 1e9).map(|(_, count)| count).sum();
        (slow as f64 * least).min(all)
    });
    sums.add(Limit::LostAndWaited, None, again);
    let mut left = all - again;
    let share = if of.whole == 0 { 0.0 } else { count as f64 / of.whole as f64 };
    let mut take = |limit: Limit, end: Option<End>, seconds: f64| {
        let taken = seconds.min(left).max(0.0);
        left -= taken;
        sums.add(limit, end, taken);
    };
    let (requester, responder) = (Some(of.requester), Some(of.requester.other()));
    let ran = |thread: &ThreadUse| (thread.user_s + thread.system_s) * share;
    let waited = |thread: &ThreadUse| thread.run_delay_s.unwrap_or(0.0) * share;
    take(Limit::RequesterRuns, requester, ran(&of.asking));
    take(Limit::ResponderRuns, responder, ran(&of.answering));
    take(Limit::RequesterWaits, requester, waited(&of.asking));
    take(Limit::ResponderWaits, responder, waited(&of.answering));
    let threads = (ran(&of.asking) + ran(&of.answering)) / count.max(1) as f64;
    take(Limit::OnTheWay, None, (quick - threads).max(0.0) * count as f64);
    take(Limit::Queues, None, f64::INFINITY);
    sums.lines(of.direction, count.max(1) as f64)
}
