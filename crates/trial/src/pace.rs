//! When to send what: departures under a limited offered load.
//! Knows no clock; `now` is an argument.

use serde::{Deserialize, Serialize};

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
/// A sender that falls behind may catch up, with messages back to back, as the offered load is a mean that was asked
/// for. But it owes at most 10 ms or 64 messages' worth of gaps, whichever is longer; what is older is struck off,
/// the whole schedule moves by it, and it is counted in [`behind_ns`](Pacer::behind_ns). Else a sender that stalled
/// for two seconds would send two seconds' messages at line rate, and the loss would be of its own making.
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
}

/// Nanoseconds with 64 bits before the point and 64 behind it.
type FixedNs = u128;

/// The least time that a sender may catch up on.
const BACKLOG_NS: u64 = 10_000_000;
/// The least number of messages that a sender may catch up on.
const BACKLOG_MESSAGES: u128 = 64;

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
        }
    }

    /// When the next message is to depart.
    #[inline]
    pub fn next_departure_ns(&self) -> u64 {
        whole(self.due)
    }

    /// The clock says `now_ns`: strikes off what the sender owes beyond the bound.
    #[inline]
    pub fn handle_now(&mut self, now_ns: u64) {
        let owed_ns = now_ns.saturating_sub(self.next_departure_ns());
        if owed_ns > self.backlog_ns {
            let struck_ns = owed_ns - self.backlog_ns;
            self.due = self.due.saturating_add(FixedNs::from(struck_ns) << 64);
            self.behind_ns = self.behind_ns.saturating_add(struck_ns);
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

/// Who keeps a sender to its schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pacing {
    /// The sender: it hands each message over when it is due.
    Application,
    /// The kernel, told the rate (SO_MAX_PACING_RATE, socket(7)): TCP itself, or the fq queueing discipline (tc-fq(8)).
    Fq,
    /// The queueing discipline, told each datagram's time (SO_TXTIME): etf (tc-etf(8)) or fq.
    Txtime,
}

impl Pacing {
    /// All of them.
    pub const ALL: [Pacing; 3] = [Pacing::Application, Pacing::Fq, Pacing::Txtime];

    /// The name, as options and records write it.
    pub const fn name(self) -> &'static str {
        match self {
            Pacing::Application => "application",
            Pacing::Fq => "fq",
            Pacing::Txtime => "txtime",
        }
    }

    /// The one of this name.
    pub fn parse(text: &str) -> Option<Pacing> {
        Pacing::ALL.into_iter().find(|pacing| pacing.name() == text)
    }

    /// Whether this can pace the workload's departures.
    pub const fn suits(self, workload: Workload) -> bool {
        match self {
            Pacing::Application | Pacing::Fq => workload.is_stream(),
            Pacing::Txtime => matches!(workload, Workload::UdpStream),
        }
    }
}

impl std::fmt::Display for Pacing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

const TWO_POW_64: f64 = 18_446_744_073_709_551_616.0;

/// To fixed point, exactly, from 2⁻¹² ns up; a negative number and NaN are 0, what is too large is the largest.
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
    use super::*;
    use crate::units::OfferedLoad;

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

    /// Stalls for `stall_ns`, then sends all that is due; how many, and what was struck off.
    #[track_caller]
    fn check_stall(gap_ns: f64, stall_ns: u64, caught_up: u64, behind_ns: u64) {
        let mut pacer = even(gap_ns, 1);
        let now_ns = START + stall_ns;
        pacer.handle_now(now_ns);
        let mut sent = 0;
        while pacer.next_departure_ns() <= now_ns {
            pacer.handle_sent();
            pacer.handle_now(now_ns);
            sent += 1;
        }
        assert_eq!((sent, pacer.behind_ns()), (caught_up, behind_ns));
    }

    #[test]
    fn a_stalled_sender_catches_up_within_bounds() {
        const MS: u64 = 1_000_000;
        check_stall(10_000.0, 0, 1, 0);
        check_stall(10_000.0, 5 * MS, 501, 0);
        check_stall(10_000.0, 10 * MS, 1001, 0);
        check_stall(10_000.0, 2000 * MS, 1001, 1990 * MS);
        // Slow streams are bounded by messages: 64 of them at 1 ms are 64 ms.
        check_stall(1e6, 64 * MS, 65, 0);
        check_stall(1e6, 2000 * MS, 65, 1936 * MS);
    }

    #[test]
    fn the_generator_is_the_published_one() {
        // The first outputs of Vigna's splitmix64.c from seed 1234567.
        let mut random = SplitMix64::new(1_234_567);
        let first = [(); 3].map(|()| random.next_u64());
        assert_eq!(first, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }
}
