//! Where the time of transactions went.
//! Knows threads' times and round trips, over the whole measured part: a transaction is shorter than a slice.

use linerate_machine::end::{Direction, End};
use linerate_trial::histogram::Histogram;
use linerate_trial::outcome::ThreadUse;

use super::{Limit, LimitSums, TimeLine};

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
    /// Segments that either end had to send again; absent where not both tell.
    pub(crate) retransmitted: Option<u64>,
    /// The least round trip that TCP itself has seen.
    pub(crate) least_rtt_s: Option<f64>,
}

/// The least round trips, of which the quickest ways are known: an accident is not the quickest.
const QUICKEST: f64 = 1.0;

/// The time budget of transactions; empty without any.
pub(crate) fn transactions(of: &Transactions<'_>) -> Vec<TimeLine> {
    let count = of.latency.count();
    let (Some(mean_ns), Some(quick_ns)) = (of.latency.mean_ns(), of.latency.percentile_ns(QUICKEST)) else {
        return Vec::new();
    };
    let mut sums = LimitSums::default();
    sums.add(Limit::LostAndWaited, None, of.lost_s);
    let all = mean_ns / 1e9 * count as f64;
    let quick = match (quick_ns as f64 / 1e9, of.retransmission_s) {
        // Where there was a retransmission in each, the quickest one had its timer in it, too.
        (quick, Some(timer)) if quick >= timer && of.retransmitted >= Some(count.max(2)) => {
            of.least_rtt_s.unwrap_or(f64::INFINITY).min(quick - timer)
        }
        (quick, _) => quick,
    };
    // Round trips in which a segment was sent again.
    let again = of.retransmission_s.filter(|_| of.retransmitted != Some(0)).map_or(0.0, |least| {
        let slow = of.latency.buckets().filter(|(ns, _)| *ns as f64 >= least * 1e9);
        // The timer takes longer each time, and that of a SYN a second.
        slow.map(|(ns, count)| (ns as f64 / 1e9 - quick).max(0.0) * count as f64).sum::<f64>().min(all)
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

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A thousand round trips of which so many took so many milliseconds; the threads of the whole trial; what was lost.
    fn lines(
        trips: &[(u64, u64)],
        asking: ThreadUse,
        answering: ThreadUse,
        lost_s: f64,
        is_tcp: bool,
    ) -> Vec<TimeLine> {
        let slow = trips.iter().filter(|(_, ms)| *ms >= 200).map(|(count, _)| *count).sum();
        lines_of(trips, [asking, answering], lost_s, is_tcp, Some(slow))
    }

    /// The same with so many segments retransmitted.
    fn lines_of(
        trips: &[(u64, u64)],
        [asking, answering]: [ThreadUse; 2],
        lost_s: f64,
        is_tcp: bool,
        retransmitted: Option<u64>,
    ) -> Vec<TimeLine> {
        let mut latency = Histogram::default();
        trips.iter().for_each(|(count, ms)| (0..*count).for_each(|_| latency.record(ms * MS)));
        transactions(&Transactions {
            direction: Direction::Rx,
            requester: End::Host,
            latency: &latency,
            asking,
            answering,
            // As many again in the warm-up.
            whole: 2 * latency.count(),
            lost_s,
            retransmission_s: is_tcp.then_some(0.2),
            retransmitted,
            least_rtt_s: None,
        })
    }

    fn thread(ran_s: f64, waited_s: Option<f64>) -> ThreadUse {
        ThreadUse { user_s: ran_s / 4.0, system_s: ran_s * 0.75, run_delay_s: waited_s, ..ThreadUse::default() }
    }

    /// The share of each, to a percent: a histogram's buckets are no finer.
    #[track_caller]
    fn check(lines: &[TimeLine], want: &[(Limit, Option<End>, f64)]) {
        let same = |(line, (limit, end, share)): (&TimeLine, &(Limit, Option<End>, f64))| {
            (line.limit, line.end) == (*limit, *end) && (line.share - share).abs() < 0.011
        };
        assert!(lines.len() == want.len() && lines.iter().zip(want).all(same), "{lines:#?}, not {want:?}");
        let sum: f64 = lines.iter().map(|line| line.share).sum();
        assert!((sum - 1.0).abs() < 1e-3, "{sum}");
    }

    #[test]
    fn a_round_trip_is_divided_among_both_threads_the_way_and_queues() {
        let (target, host) = (Some(End::Target), Some(End::Host));
        // Of 10 ms each the asking thread ran 2 and waited 1, the answering one ran 3: the trial's other half was alike.
        let all = lines(&[(1000, 10)], thread(4.0, Some(2.0)), thread(6.0, None), 0.0, false);
        // What the quickest took beside its threads lies on the way, but for what a thread waited.
        let want = [
            (Limit::OnTheWay, None, 0.4),
            (Limit::ResponderRuns, target, 0.3),
            (Limit::RequesterRuns, host, 0.2),
            (Limit::RequesterWaits, host, 0.1),
        ];
        check(&all, &want);
        assert!((all[0].seconds - 4e-3).abs() < 1e-4, "of each transaction: {}", all[0].seconds);
        // What the tenth of them takes beyond the quickest are queues: 40 of 140.
        let none = ThreadUse::default();
        check(
            &lines(&[(900, 10), (100, 50)], none, none, 0.0, false),
            &[(Limit::OnTheWay, None, 0.714), (Limit::Queues, None, 0.286)],
        );
        check(
            &lines(&[(1000, 10)], none, thread(12.0, Some(8.0)), 0.0, false),
            &[(Limit::ResponderRuns, target, 0.6), (Limit::ResponderWaits, target, 0.4)],
        );
    }

    #[test]
    fn what_is_lost_is_waited_for() {
        let none = ThreadUse::default();
        // Five time-outs of a second beside ten seconds of answers.
        check(
            &lines(&[(1000, 10)], none, none, 5.0, false),
            &[(Limit::OnTheWay, None, 0.667), (Limit::LostAndWaited, None, 0.333)],
        );
        // Thirty of 210 ms, of which TCP's timer is 200; over UDP those are queues.
        let slow = [(970, 10), (30, 210)];
        check(
            &lines(&slow, none, none, 0.0, true),
            &[(Limit::OnTheWay, None, 0.625), (Limit::LostAndWaited, None, 0.375)],
        );
        check(&lines(&slow, none, none, 0.0, false), &[(Limit::OnTheWay, None, 0.625), (Limit::Queues, None, 0.375)]);
        // Nor is it TCP's timer where both ends tell that nothing was sent again.
        let on_the_way = |retransmitted| lines_of(&slow, [none; 2], 0.0, true, retransmitted);
        check(&on_the_way(Some(0)), &[(Limit::OnTheWay, None, 0.625), (Limit::Queues, None, 0.375)]);
        check(&on_the_way(None), &[(Limit::OnTheWay, None, 0.625), (Limit::LostAndWaited, None, 0.375)]);
        // Each of them: the way is what is left of the quickest.
        let each = [(1000, 250)];
        check(&lines(&each, none, none, 0.0, true), &[(Limit::LostAndWaited, None, 0.8), (Limit::OnTheWay, None, 0.2)]);
    }

    #[test]
    fn threads_that_say_more_than_there_was_get_no_more_than_there_was() {
        let (target, host) = (Some(End::Target), Some(End::Host));
        let all = lines(&[(1000, 10)], thread(16.0, Some(1e12)), thread(1e12, Some(1e12)), 0.0, false);
        check(&all, &[(Limit::RequesterRuns, host, 0.8), (Limit::ResponderRuns, target, 0.2)]);
        assert_eq!(lines(&[], thread(1.0, None), thread(1.0, None), 3.0, true), [], "nothing was answered");
    }
}
