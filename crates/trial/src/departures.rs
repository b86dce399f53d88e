//! Times between departures, as the sender's clock saw them.
//! Knows no schedule; [`crate::pace`] says when something should have left.

use crate::histogram::Histogram;

/// Gaps between the departures of one stream. Each system call is one departure for all of its messages: between them
/// is the time from call to call, and between the messages of one call none.
#[derive(Clone, Debug, Default)]
pub struct Departures {
    last_ns: Option<u64>,
    gaps: Histogram,
}

impl Departures {
    /// A call took `messages` of the measured part; the clock said `now_ns` before it. A call that took none, and one
    /// that belongs to the warm-up, is no departure.
    #[inline]
    pub fn handle_sent(&mut self, now_ns: u64, messages: u64) {
        if messages == 0 {
            return;
        }
        if let Some(last_ns) = self.last_ns.replace(now_ns) {
            self.gaps.record(now_ns.saturating_sub(last_ns));
        }
        if messages > 1 {
            self.gaps.record_n(0, messages - 1);
        }
    }

    /// All gaps; `None` where nothing left, or one message only.
    pub fn finish(self) -> Option<Histogram> {
        (self.gaps.count() > 0).then_some(self.gaps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pace::Pacer;
    use crate::spec::Spacing;

    #[test]
    fn a_call_is_one_gap_and_its_messages_have_none_between_them() {
        let mut departures = Departures::default();
        for (now_ns, messages) in [(1000, 3), (1040, 1), (1050, 0), (1090, 2)] {
            departures.handle_sent(now_ns, messages);
        }
        let gaps: Vec<_> = departures.finish().unwrap().buckets().collect();
        assert_eq!(gaps, [(0, 3), (40, 1), (50, 1)]);
    }

    #[test]
    fn one_message_has_no_gap() {
        let mut departures = Departures::default();
        departures.handle_sent(5, 1);
        assert_eq!(departures.finish(), None);
    }

    /// A sender that is never late: its departures are the schedule.
    fn gaps_of(mut pacer: Pacer, count: usize) -> Histogram {
        let mut departures = Departures::default();
        for _ in 0..count {
            departures.handle_sent(pacer.next_departure_ns(), 1);
            pacer.handle_sent();
        }
        departures.finish().unwrap()
    }

    #[test]
    fn the_gaps_of_a_poisson_schedule_are_exponential() {
        const COUNT: usize = 200_000;
        for (seed, gap_ns) in [(1, 11_760.0), (99, 1e8), (12_345, 1000.0)] {
            println!("seed {seed}");
            let gaps = gaps_of(Pacer::new(gap_ns, 1, Spacing::Poisson, seed, 7), COUNT);
            // Kolmogorov and Smirnov's distance, at the upper ends of the buckets, where the histogram is exact; the
            // bound of one in a million for n samples is 2.69/√n (Massey, J. Am. Stat. Assoc. 46 (1951), 68-78, gives
            // the limit distribution).
            let (mut below, mut distance) = (0, 0f64);
            for (ns, count) in gaps.buckets() {
                below += count;
                // Times are whole nanoseconds: `ns` holds all below `ns + 1`.
                let want = 1.0 - (-((ns + 1) as f64) / gap_ns).exp();
                distance = distance.max((below as f64 / gaps.count() as f64 - want).abs());
            }
            assert!(distance < 2.69 / (gaps.count() as f64).sqrt() + 1.0 / gap_ns, "distance {distance}");
            // And the test would see a schedule that is not: an even one is far away.
            let even = gaps_of(Pacer::new(gap_ns, 1, Spacing::Even, seed, 7), 1000);
            assert!(even.percentile_ns(99.0).unwrap() as f64 <= gap_ns * 1.01);
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_histogram() {
        let of = |seed| gaps_of(Pacer::new(5000.0, 1, Spacing::Poisson, seed, 0), 10_000);
        assert_eq!(of(3), of(3));
        assert_ne!(of(3), of(4));
    }
}
