//! When to send what: departures under a limited offered load.
//! Knows no clock; `now` is an argument.

use linerate_machine::words;

use crate::spec::{Spacing, Workload};

/// The schedule of one stream's departures.
///
/// Departure k of an even schedule is at `start + k × gap`, kept to 2⁻⁶⁴ ns, so that hours of it do not drift. With
/// bursts of N, N messages depart at once and the next N follow N gaps later. Poisson: the gaps (of bursts: the
/// gaps between bursts) are drawn from the exponential distribution of the same mean.
///
/// Order of calls, around and around: [`handle_now`](Pacer::handle_now) with a fresh reading of the clock, then send
/// and [`handle_sent`](Pacer::handle_sent) as long as [`next_departure_ns`](Pacer::next_departure_ns) is not in the
/// future.
///
/// A sender that falls behind catches up, as the offered load is a mean that was asked for; but not back to back: the
/// datagrams of 10 ms at a gigabit are six times what a default receive buffer holds, so their loss would be of the
/// sender's own making. After a delay at most the messages of 0.15 ms leave at once, or up to 16 that are 16 KiB
/// together, and then half as many again as were asked for until the schedule is caught up with.
///
/// A sender owes at most 10 ms or 64 messages' worth of gaps, whichever is longer; what is older is struck off, the
/// whole schedule moves by it, and it is counted in [`behind_ns`](Pacer::behind_ns). Each time, twice as much may leave at
/// once, and half again after each second without: where every sleep takes 4 ms, for the timer's grain is no finer, the
/// load is met by bursts or not at all.
#[derive(Clone, Debug)]
pub struct Pacer {
    /// The next departure.
    due: FixedNs,
    /// Between bursts.
    gap: FixedNs,
    burst: u32,
    /// Messages of the present burst that have not departed.
    left: u32,
    spacing: Spacing,
    random: SplitMix64,
    backlog_ns: u64,
    behind_ns: u64,
    /// What is due up to here may depart: the present, or less while the sender catches up.
    reached_ns: u64,
    /// When that was worked out.
    looked_ns: u64,
    /// How much of the schedule may depart at once after a delay, and when that last changed.
    at_once_ns: u64,
    changed_ns: u64,
    /// The least of it.
    least_at_once_ns: u64,
    /// The gap from then on.
    then: Option<(FixedNs, u64)>,
}

/// Nanoseconds with 64 bits before the point and 64 behind it.
type FixedNs = u128;

/// The least time that a sender may catch up on.
const BACKLOG_NS: u64 = 10_000_000;
/// The least number of messages that a sender may catch up on.
const BACKLOG_MESSAGES: u128 = 64;
/// How much of the schedule may depart at once after a delay: at a gigabit, 12 datagrams of 1470 octets, for which Linux
/// charges 27 KiB to a receive buffer, of the 208 KiB that it gives by default. No less than what a sleep is late by.
const AT_ONCE_NS: u64 = 150_000;
/// The same of a slow stream: no more than these together, and no more messages, each of which has a cost of its own.
const AT_ONCE_OCTETS: u64 = 16 << 10;
const AT_ONCE_MESSAGES: u64 = 16;
/// After this long without time struck off, less departs at once again.
const EASE_NS: u64 = 1_000_000_000;

impl Pacer {
    /// Departures `gap_ns` apart in the mean, in bursts of `burst`, the first at `start_ns`. A gap that is no number,
    /// or not above zero, is none: everything departs at once.
    pub fn new(gap_ns: f64, burst: u32, spacing: Spacing, seed: u64, start_ns: u64) -> Pacer {
        let burst = burst.max(1);
        let gap = fixed(gap_ns);
        Pacer {
            due: FixedNs::from(start_ns) << 64,
            gap: gap.saturating_mul(burst.into()),
            burst,
            left: burst,
            spacing,
            random: SplitMix64::new(seed),
            backlog_ns: whole(gap.saturating_mul(BACKLOG_MESSAGES)).max(BACKLOG_NS),
            behind_ns: 0,
            reached_ns: start_ns,
            looked_ns: start_ns,
            at_once_ns: AT_ONCE_NS,
            changed_ns: start_ns,
            least_at_once_ns: AT_ONCE_NS,
            then: None,
        }
    }

    /// The same until `at_ns`: what is due then or later departs `gap_ns` apart.
    pub fn then(mut self, gap_ns: f64, at_ns: u64) -> Pacer {
        self.then = Some((fixed(gap_ns).saturating_mul(self.burst.into()), at_ns));
        self
    }

    /// The same, of messages of so many octets: of small ones, some may leave at once after a delay.
    pub fn of_octets(mut self, octets: u64) -> Pacer {
        let messages = (AT_ONCE_OCTETS / octets.max(1)).clamp(1, AT_ONCE_MESSAGES);
        let ns = whole(self.gap / FixedNs::from(self.burst) * FixedNs::from(messages));
        self.least_at_once_ns = ns.clamp(AT_ONCE_NS, self.backlog_ns);
        self.at_once_ns = self.least_at_once_ns;
        self
    }

    /// When the next message is to depart.
    #[inline]
    pub fn next_departure_ns(&self) -> u64 {
        let due_ns = whole(self.due);
        if due_ns <= self.reached_ns {
            return due_ns;
        }
        due_ns.max(self.looked_ns.saturating_add(time_to_catch_up(due_ns - self.reached_ns)))
    }

    /// The clock says `now_ns`: strikes off what the sender owes beyond the bound, and lets depart what may by now.
    #[inline]
    pub fn handle_now(&mut self, now_ns: u64) {
        // A message that may depart already could have since the last look.
        let next_ns = self.next_departure_ns().max(self.looked_ns);
        self.strike_off(now_ns);
        let reached_ns = if now_ns < next_ns {
            self.reached_ns.saturating_add(caught_up_in(now_ns.saturating_sub(self.looked_ns)))
        } else {
            // The wait for the message is over, so the schedule is there; what the look is late by is caught up with.
            let caught_up_ns = caught_up_in(now_ns - next_ns).min(self.at_once_ns);
            self.reached_ns.max(whole(self.due)).saturating_add(caught_up_ns)
        };
        self.reached_ns = reached_ns.min(now_ns);
        self.looked_ns = now_ns;
    }

    /// Forgets what the sender owes beyond the bound.
    #[inline]
    fn strike_off(&mut self, now_ns: u64) {
        let owed_ns = now_ns.saturating_sub(whole(self.due));
        if owed_ns > self.backlog_ns {
            let struck_ns = owed_ns - self.backlog_ns;
            self.due = self.due.saturating_add(FixedNs::from(struck_ns) << 64);
            self.behind_ns = self.behind_ns.saturating_add(struck_ns);
            (self.at_once_ns, self.changed_ns) = ((self.at_once_ns * 2).min(self.backlog_ns), now_ns);
        } else if self.at_once_ns > self.least_at_once_ns && now_ns.saturating_sub(self.changed_ns) > EASE_NS {
            (self.at_once_ns, self.changed_ns) = ((self.at_once_ns / 2).max(self.least_at_once_ns), now_ns);
        }
    }

    /// A message departed.
    #[inline]
    pub fn handle_sent(&mut self) {
        self.left -= 1;
        if self.left > 0 {
            return;
        }
        self.left = self.burst;
        let gap = match self.spacing {
            Spacing::Even => self.gap,
            Spacing::Poisson => fixed(self.random.next_exponential() * (self.gap as f64 / TWO_POW_64)),
        };
        self.due = self.due.saturating_add(gap);
        if let Some((gap, at_ns)) = self.then
            && whole(self.due) >= at_ns
        {
            (self.gap, self.then) = (gap, None);
        }
    }

    /// Time that was struck off the schedule: divided by the gap, the messages that were asked for and not sent.
    pub fn behind_ns(&self) -> u64 {
        self.behind_ns
    }

    /// The most that a sender may catch up on.
    pub fn backlog_ns(&self) -> u64 {
        self.backlog_ns
    }
}

words! {
    /// Who keeps a sender to its schedule.
    Pacing {
        /// The sender: it hands each message over when it is due.
        Application = "application",
        /// The kernel, told the rate (SO_MAX_PACING_RATE, socket(7)): TCP itself, or the fq queueing discipline
        /// (tc-fq(8)).
        Fq = "fq",
        /// The queueing discipline, told each datagram's time (SO_TXTIME): etf (tc-etf(8)) or fq.
        Txtime = "txtime",
    }
}

impl Pacing {
    /// Whether this can pace the workload's departures.
    pub const fn suits(self, workload: Workload) -> bool {
        match self {
            Pacing::Application => workload.is_stream(),
            Pacing::Fq => matches!(workload, Workload::TcpStream | Workload::UdpStream),
            Pacing::Txtime => matches!(workload, Workload::UdpStream),
        }
    }
}

/// How far the schedule gets in this time while the sender catches up.
#[inline]
const fn caught_up_in(ns: u64) -> u64 {
    ns.saturating_add(ns / 2)
}

/// How long the schedule takes to get so far while the sender catches up.
#[inline]
const fn time_to_catch_up(ns: u64) -> u64 {
    ns - ns / 3
}

const TWO_POW_64: f64 = 18_446_744_073_709_551_616.0;

/// To fixed point, exactly, from 2⁻¹² ns up; a negative number and NaN are 0, what is too large is the largest.
#[inline]
fn fixed(ns: f64) -> FixedNs {
    (ns * TWO_POW_64) as FixedNs
}

#[inline]
fn whole(ns: FixedNs) -> u64 {
    (ns >> 64) as u64
}

/// The generator of Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (OOPSLA 2014), with the
/// constants of Vigna's splitmix64.c. Period 2⁶⁴, any seed will do; good enough for gaps, no secret is safe with it.
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// The numbers of this seed.
    pub fn new(seed: u64) -> SplitMix64 {
        SplitMix64(seed)
    }

    /// A whole number below `bound`, each as likely: the few values that would make some of them more so are drawn
    /// again. 0 for a bound of 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        let bound = bound.max(1);
        let surplus = (u64::MAX % bound + 1) % bound;
        loop {
            let drawn = self.next_u64();
            if drawn <= u64::MAX - surplus {
                return drawn % bound;
            }
        }
    }

    #[inline]
    pub(crate) fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// From the exponential distribution of mean 1, by inversion.
    #[inline]
    fn next_exponential(&mut self) -> f64 {
        // 53 bits are what an f64 holds; counted from 1, so that the logarithm of 0 cannot come up.
        let uniform = ((self.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64;
        -uniform.ln()
    }
}

#[cfg(test)]
mod tests {
    use linerate_machine::units::OfferedLoad;

    use super::*;

    const START: u64 = 1_000_000_007;

    fn even(gap_ns: f64, burst: u32) -> Pacer {
        Pacer::new(gap_ns, burst, Spacing::Even, 0, START)
    }

    fn departures(mut pacer: Pacer, count: usize) -> Vec<u64> {
        std::iter::repeat_with(|| {
            let at = pacer.next_departure_ns();
            pacer.handle_sent();
            at - START
        })
        .take(count)
        .collect()
    }

    #[test]
    fn the_first_departs_at_the_start_and_the_rest_by_the_gap() {
        assert_eq!(departures(even(10.0, 1), 4), [0, 10, 20, 30]);
        assert_eq!(departures(even(2.5, 1), 5), [0, 2, 5, 7, 10]);
        assert_eq!(departures(even(10.0, 3), 8), [0, 0, 0, 30, 30, 30, 60, 60]);
    }

    #[test]
    fn a_gap_of_nonsense_is_no_gap() {
        for gap_ns in [0.0, -5.0, f64::NAN] {
            assert_eq!(departures(even(gap_ns, 1), 3), [0, 0, 0]);
        }
        let mut pacer = even(f64::INFINITY, 1000);
        (0..3000).for_each(|_| pacer.handle_sent());
        assert_eq!(pacer.next_departure_ns(), u64::MAX);
    }

    /// Departure k of an even schedule against whole numbers only: k × 8e9 × octets / bits, to the nanosecond, or to
    /// the 53 bits that the gap was given in, which is a nanosecond in 104 days.
    #[track_caller]
    fn check_rate(bits: u64, octets: u64, burst: u32) {
        let gap_ns = OfferedLoad::BitsPerSecond(bits).gap_ns(octets).unwrap();
        let mut pacer = even(gap_ns, burst);
        for k in 0..1_000_000u64 {
            let group = u128::from(k / u64::from(burst) * u64::from(burst));
            let exact = group * 8_000_000_000 * u128::from(octets) / u128::from(bits);
            let at = u128::from(pacer.next_departure_ns() - START);
            assert!(at.abs_diff(exact) <= 1 + (exact >> 52), "departure {k} of {bits} bit/s at {at}, not {exact}");
            pacer.handle_sent();
        }
    }

    #[test]
    fn odd_rates_do_not_drift() {
        check_rate(333_333_337, 1470, 1);
        check_rate(999_999_999, 1471, 7);
        check_rate(9_999_999_967, 64, 32);
        check_rate(7, 18, 1);
    }

    #[test]
    fn poisson_has_the_mean_and_the_variance_of_its_name() {
        const COUNT: usize = 1_000_000;
        for (seed, gap_ns, burst) in [(1, 11_760.5, 1), (2, 800.0, 4)] {
            println!("seed {seed}");
            let pacer = Pacer::new(gap_ns, burst, Spacing::Poisson, seed, START);
            let at = departures(pacer.clone(), COUNT);
            assert_eq!(at, departures(pacer, COUNT), "the same seed gives the same schedule");
            let starts: Vec<u64> = at.into_iter().step_by(burst as usize).collect();
            let gaps: Vec<f64> = starts.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
            let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
            let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
            let want = gap_ns * f64::from(burst);
            // Standard errors of n exponential gaps: 1/√n of the mean, √(8/n) of the variance; five of them.
            let n = gaps.len() as f64;
            assert!((mean / want - 1.0).abs() < 5.0 / n.sqrt(), "mean {mean}, not {want}");
            assert!((variance / (want * want) - 1.0).abs() < 5.0 * (8.0 / n).sqrt(), "variance {variance}");
        }
    }

    /// A sender as the loops of the streams are: waits for the next departure, which takes `late_ns` longer than asked, and
    /// each send takes `send_ns`. Stalled for `stall.1` at the first look after `stall.0`. The times of its departures.
    fn sender(mut pacer: Pacer, until_ns: u64, late_ns: u64, send_ns: u64, stall: (u64, u64)) -> (Vec<u64>, Pacer) {
        let (mut now, mut stall) = (START, Some(stall));
        let mut at = Vec::new();
        while now < START + until_ns {
            let next = pacer.next_departure_ns();
            if next > now {
                now = next + late_ns;
            }
            if stall.is_some_and(|(from_ns, _)| now >= START + from_ns) {
                now += stall.take().map_or(0, |(_, ns)| ns);
            }
            at.push(now - START);
            pacer.handle_now(now);
            pacer.handle_sent();
            now += send_ns;
        }
        (at, pacer)
    }

    /// The most departures within any span of this length.
    fn most_within(at: &[u64], span_ns: u64) -> usize {
        (0..at.len())
            .map(|first| at[first..].iter().take_while(|&&ns| ns < at[first] + span_ns).count())
            .max()
            .unwrap_or(0)
    }

    const MS: u64 = 1_000_000;
    /// 1470 octets at 1 Gbit/s.
    const GIGABIT: f64 = 11_760.0;
    /// What a datagram of 1470 octets takes of a receive buffer (SKB_TRUESIZE), and what Linux gives for one by default.
    const CHARGED: usize = 2304;
    const BUFFER: usize = 212_992;

    /// That after a delay no burst overruns a default buffer, and that the load is met on average.
    #[track_caller]
    fn check_catches_up(gap_ns: f64, stall_ns: u64, late_ns: u64) {
        let until_ns = 100 * MS;
        let (at, pacer) = sender(even(gap_ns, 1).of_octets(1470), until_ns, late_ns, 1500, (20 * MS, stall_ns));
        let asked = (until_ns as f64 / gap_ns) as usize;
        assert!(
            at.len() + 2 + (late_ns as f64 / gap_ns) as usize >= asked,
            "{} of {asked} after {stall_ns} ns, {late_ns} ns late",
            at.len()
        );
        assert_eq!(pacer.behind_ns(), 0);
        // At once, and in the half millisecond that a receiver may take to be woken.
        let burst = ((AT_ONCE_NS as f64 / gap_ns) as usize).max(11) + 2;
        let most = most_within(&at, 50_000);
        assert!(most <= burst + (1.5 * 50_000.0 / gap_ns) as usize + 1, "{most} of {burst} at once");
        let most = most_within(&at, 500_000) * CHARGED;
        assert!(gap_ns < GIGABIT || most <= BUFFER, "{most} octets in half a millisecond");
        // And over the whole of it, through a receiver that takes half as much again as was asked.
        let (mut held, mut worst, mut last) = (0.0_f64, 0.0_f64, 0);
        for &ns in &at {
            held = (held - (ns - last) as f64 * 1.5 / gap_ns).max(0.0) + 1.0;
            (worst, last) = (worst.max(held), ns);
        }
        assert!(worst <= 2.0 * burst as f64 + 1.0, "{worst} datagrams wait in a receiver half as fast again");
    }

    #[test]
    fn a_delayed_sender_catches_up_without_a_burst_that_overruns_a_buffer() {
        for gap_ns in [GIGABIT, 2.0 * GIGABIT, 10.0 * GIGABIT, GIGABIT / 2.0] {
            for stall_ns in [0, MS / 2, MS, 3 * MS, 5 * MS, 9 * MS] {
                for late_ns in [0, 5_000, 60_000, 100_000] {
                    check_catches_up(gap_ns, stall_ns, late_ns);
                }
            }
        }
    }

    #[test]
    fn poisson_departures_are_caught_up_with_in_their_order() {
        let seed = 7;
        println!("seed {seed}");
        let poisson = Pacer::new(GIGABIT, 1, Spacing::Poisson, seed, START);
        let (undisturbed, _) = sender(poisson.clone(), 100 * MS, 0, 0, (0, 0));
        let exact = departures(poisson.clone(), undisturbed.len());
        assert!(exact.iter().zip(&undisturbed).all(|(due, at)| due == at), "nothing is held back without a delay");
        let (delayed, pacer) = sender(poisson, 100 * MS, 0, 1500, (20 * MS, 5 * MS));
        assert!(delayed.len().abs_diff(undisturbed.len()) < 5 && pacer.behind_ns() == 0);
    }

    #[test]
    fn a_timer_of_a_coarse_grain_meets_the_load_by_bursts() {
        let until_ns = 2000 * MS;
        let (at, pacer) = sender(even(GIGABIT, 1), until_ns, 4 * MS, 100, (0, 0));
        let asked = until_ns as f64 / GIGABIT;
        assert!(at.len() as f64 > 0.98 * asked, "{} of {asked}, {} ns struck off", at.len(), pacer.behind_ns());
    }

    /// Stalls for `stall_ns`, then sends what may depart at that moment; how many, and what was struck off.
    #[track_caller]
    fn check_stall(gap_ns: f64, stall_ns: u64, at_once: u64, behind_ns: u64) {
        let mut pacer = even(gap_ns, 1);
        let now_ns = START + stall_ns;
        pacer.handle_now(now_ns);
        let mut sent = 0;
        while pacer.next_departure_ns() <= now_ns {
            pacer.handle_sent();
            pacer.handle_now(now_ns);
            sent += 1;
        }
        assert_eq!((sent, pacer.behind_ns()), (at_once, behind_ns));
    }

    #[test]
    fn a_stalled_sender_catches_up_within_bounds() {
        check_stall(10_000.0, 0, 1, 0);
        check_stall(10_000.0, 100_000, 11, 0);
        check_stall(10_000.0, 5 * MS, 16, 0);
        check_stall(10_000.0, 10 * MS, 16, 0);
        // What is struck off says that more must leave at once.
        check_stall(10_000.0, 2000 * MS, 31, 1990 * MS);
        // Slow streams are bounded by messages: 64 of them at 1 ms are 64 ms.
        check_stall(1e6, 64 * MS, 1, 0);
        check_stall(1e6, 2000 * MS, 1, 1936 * MS);
    }

    #[test]
    fn a_slow_stream_sends_some_small_messages_at_once() {
        #[track_caller]
        fn check(octets: u64, at_once: u64) {
            let mut pacer = even(1e6, 1).of_octets(octets);
            pacer.handle_now(START + 60 * MS);
            let mut sent = 0;
            while pacer.next_departure_ns() <= START + 60 * MS {
                pacer.handle_sent();
                sent += 1;
            }
            assert_eq!(sent, at_once, "of {octets} octets");
        }
        check(64, 17);
        check(1470, 12);
        check(9000, 2);
        check(65_507, 2);
    }

    #[test]
    fn the_generator_is_the_published_one() {
        // The first outputs of Vigna's splitmix64.c from seed 1234567.
        let mut random = SplitMix64::new(1_234_567);
        let first = [(); 3].map(|()| random.next_u64());
        assert_eq!(first, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }
}
