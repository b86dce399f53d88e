//! Which datagrams of a UDP stream arrived, when, and in what order.
//! Knows no sockets; arrival times are arguments.

use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::histogram::Histogram;
use crate::wire::Probe;

/// The account of a flow's datagrams at the receiver.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Arrivals {
    /// Different datagrams of the measured part that arrived, late ones included.
    pub received: u64,
    /// Further copies of datagrams of the measured part.
    pub duplicated: u64,
    /// Datagrams of the measured part that arrived after one with a higher number (RFC 4737, section 3).
    pub reordered: u64,
    /// Datagrams of the measured part that arrived after the sender's end mark: not lost, and no part of the
    /// throughput.
    pub late: u64,
    /// Different datagrams over the whole trial, warm-up included.
    pub received_total: u64,
    /// Further copies over the whole trial.
    pub duplicated_total: u64,
    /// Numbers below the highest that were missing when the measured part began by the receiver's clock, where another
    /// tool's stream is counted so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing_before: Option<u64>,
    /// How many datagrams the sender's end mark said it sent in all; absent when the mark did not arrive.
    pub sent_by_end_mark: Option<u64>,
    /// Interarrival jitter (RFC 3550, section 6.4.1), seconds, at the end of the measured part.
    pub jitter_s: Option<f64>,
    /// Times between arrivals in the measured part.
    pub gaps: Histogram,
    /// Runs of consecutive numbers that never arrived, over the whole trial: length → how often. Exact for up to
    /// 1024 different lengths; a new length beyond that is counted as the power of two below it.
    #[serde(deserialize_with = "counted_by_length")]
    pub loss_bursts: BTreeMap<u64, u64>,
    /// The highest number that never arrived, over the whole trial; absent where none is missing, and where nobody kept it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_lost: Option<u64>,
    /// The datagrams bore no numbers: nothing is known of copies, of their order, and of which are missing.
    #[serde(default)]
    pub unnumbered: bool,
}

impl Arrivals {
    /// Numbers that never arrived, by the bursts; at most [`MOST_DATAGRAMS`], however far a hostile number leapt.
    pub fn missing(&self) -> u64 {
        let bursts = self.loss_bursts.iter().map(|(length, count)| length.saturating_mul(*count));
        bursts.fold(0, u64::saturating_add).min(MOST_DATAGRAMS)
    }
}

/// More datagrams than any trial has: sums over all flows, and their octets, fit into 64 bits.
pub const MOST_DATAGRAMS: u64 = 1 << 40;

/// Reads a map whose keys are numbers, which JSON writes as strings. Serde reads such a map by itself, but not
/// inside a tagged message or a flattened field: there it has already made up its mind that a key is a string.
pub fn counted_by_length<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<u64, u64>, D::Error> {
    Ok(perhaps_by_length(deserializer)?.unwrap_or_default())
}

/// The same of what may not be known.
pub fn perhaps_by_length<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<BTreeMap<u64, u64>>, D::Error> {
    let Some(written) = Option::<BTreeMap<String, u64>>::deserialize(deserializer)? else { return Ok(None) };
    let number =
        |text: String| text.parse().map_err(|_| D::Error::custom(format!("'{text}' is not a length of a burst")));
    written.into_iter().map(|(length, count)| Ok((number(length)?, count))).collect::<Result<_, _>>().map(Some)
}

/// The receiver's account of one UDP stream, kept as datagrams arrive. Memory is fixed, and each datagram costs a
/// bounded time whatever its number says.
///
/// ```text
///   numbers:   0 ……………………………… ┊ ████ █ ███████ ██████ █ ┊ ………………
///                settled: lost  ┊  window: one bit each   ┊ next, not seen yet
///                for good       ┊  131072 at most         ┊
/// ```
///
/// Order of calls: [`handle_datagram`](Tracker::handle_datagram) for each arrival,
/// [`handle_end`](Tracker::handle_end) for each end mark, [`finish`](Tracker::finish).
///
/// A number that falls out of the window unseen is settled as lost in [`Arrivals::loss_bursts`]. Should it arrive
/// after all, it is counted as received and reordered, for nothing is called lost that is merely late; whether it
/// is a first arrival or a further copy can no longer be told. At a million datagrams per second that takes a
/// detour of 0.13 s.
///
/// Copies are counted, and take no part in anything else: RFC 4737, section 3, has only the first to arrive
/// analysed further, since by its definition every copy would be reordered.
#[derive(Clone, Debug)]
pub struct Tracker {
    /// The number after the highest seen: NextExp of RFC 4737.
    next: u64,
    /// Words of the bitmap opened so far; the last `WORDS` of them are kept, word `w` at `w % WORDS`.
    opened: u64,
    window: Box<[u64; WORDS as usize]>,
    /// Settled numbers at the end of the settled part that never arrived: a burst that may go on.
    run: u64,
    /// Bursts of fewer than 64, by length: the ones that come by the million.
    short_bursts: [u64; 64],
    ended: bool,
    /// Of the last different datagram of the measured part.
    last: Option<Last>,
    /// Gaps of zero: those within a batch, which come by the million and are counted here until the end.
    zero_gaps: u64,
    /// RFC 3550's J, nanoseconds.
    jitter_ns: f64,
    /// Counts so far; bursts, jitter and the rest are filled in by `finish`.
    arrivals: Arrivals,
}

#[derive(Clone, Copy, Debug)]
struct Last {
    arrived_ns: u64,
    /// Arrival less departure, by unlike clocks, modulo 2^63.
    transit_ns: u64,
}

/// Words of the window; 2^17 numbers, 16 KiB.
const WORDS: u64 = (1 << 17) / 64;

/// Different lengths of loss bursts that are kept exactly, so that a hostile sender cannot fill the memory.
const MAX_LENGTHS: usize = 1024;

impl Default for Tracker {
    fn default() -> Self {
        Tracker::new()
    }
}

impl Tracker {
    /// Nothing arrived yet.
    pub fn new() -> Tracker {
        Tracker {
            next: 0,
            opened: 0,
            window: Box::new([0; WORDS as usize]),
            run: 0,
            short_bursts: [0; 64],
            ended: false,
            last: None,
            zero_gaps: 0,
            jitter_ns: 0.0,
            arrivals: Arrivals::default(),
        }
    }

    /// A datagram arrived at `now_ns` of the receiver's clock. `false`: it was a further copy of one that came before.
    #[inline]
    pub fn handle_datagram(&mut self, probe: &Probe, now_ns: u64) -> bool {
        // The highest number has no successor. No sender lives to reach it; it only must not overflow.
        let number = probe.sequence.min(u64::MAX - 1);
        let in_order = number >= self.next;
        if in_order {
            if number / 64 >= self.opened {
                self.open(number / 64);
            }
            *self.word(number) |= bit(number);
            self.next = number + 1;
        } else if !self.is_new_behind(number) {
            self.arrivals.duplicated_total += 1;
            self.arrivals.duplicated += u64::from(probe.measured);
            return false;
        }
        self.arrivals.received_total += 1;
        if probe.measured {
            self.arrivals.received += 1;
            self.arrivals.reordered += u64::from(!in_order);
            self.arrivals.late += u64::from(self.ended);
            self.time(probe.sent_at_ns, now_ns);
        }
        true
    }

    /// The number that a datagram bears of which 32 bits may be all there is: of those with the same lower bits, the
    /// nearest to the next that is expected. After 2^32 datagrams, short numbers begin again.
    pub fn number_near(&self, number: u64) -> u64 {
        if number > u64::from(u32::MAX) {
            return number;
        }
        let ahead = (number as u32).wrapping_sub(self.next as u32).cast_signed();
        // Before the first turn there is nothing to go back to.
        self.next.checked_add_signed(ahead.into()).unwrap_or(number)
    }

    /// The clock of the arrival times was set, or is another from now on: no difference spans this moment.
    pub fn handle_clock_change(&mut self) {
        self.last = None;
    }

    /// The sender's end mark arrived: it sent `sent` datagrams in all. The mark comes several times, as any
    /// datagram may be lost; the first makes later arrivals late.
    pub fn handle_end(&mut self, sent: u64) {
        self.ended = true;
        let known = self.arrivals.sent_by_end_mark.unwrap_or(0);
        self.arrivals.sent_by_end_mark = Some(known.max(sent));
    }

    /// Numbers below the highest seen that have not arrived, as of now; it falls when a reordered one arrives.
    pub fn missing(&self) -> u64 {
        // What came from behind the window may have been a copy, so the difference may be negative.
        self.next.saturating_sub(self.arrivals.received_total)
    }

    /// Different datagrams that arrived over the whole trial.
    #[expect(clippy::misnamed_getters, reason = "a tracker tells of the whole trial until it is finished")]
    pub fn received(&self) -> u64 {
        self.arrivals.received_total
    }

    /// The account, with all that is missing up to the end mark (without one: up to the highest number) settled.
    pub fn finish(mut self) -> Arrivals {
        for word in self.opened.saturating_sub(WORDS)..self.opened {
            let numbers = if word + 1 == self.opened { (self.next - 1) % 64 + 1 } else { 64 };
            self.settle(word, self.window[(word % WORDS) as usize], numbers as u32);
        }
        let sent = self.arrivals.sent_by_end_mark.unwrap_or(0);
        if sent > self.next {
            self.run += sent - self.next;
            self.arrivals.last_lost = Some(sent - 1);
        }
        self.end_run();
        for (length, &count) in (0..).zip(&self.short_bursts).filter(|&(_, &count)| count > 0) {
            self.arrivals.loss_bursts.insert(length, count);
        }
        self.arrivals.gaps.record_n(0, self.zero_gaps);
        if self.arrivals.received > 1 {
            self.arrivals.jitter_s = Some(self.jitter_ns / 1e9);
        }
        self.arrivals
    }

    #[inline]
    fn word(&mut self, number: u64) -> &mut u64 {
        &mut self.window[(number / 64 % WORDS) as usize]
    }

    /// Whether this number below the highest arrives for the first time.
    fn is_new_behind(&mut self, number: u64) -> bool {
        if number / 64 < self.opened.saturating_sub(WORDS) {
            return true;
        }
        let word = self.word(number);
        let new = *word & bit(number) == 0;
        *word |= bit(number);
        new
    }

    /// Slides the window forward so that `word` is its last; at most `WORDS` words are touched.
    fn open(&mut self, word: u64) {
        let end = word + 1;
        let kept = end.saturating_sub(WORDS);
        for old in self.opened.saturating_sub(WORDS)..kept.min(self.opened) {
            self.settle(old, self.window[(old % WORDS) as usize], 64);
        }
        // A jump past the whole window: these were never in it, and are one run.
        if kept > self.opened {
            self.run += (kept - self.opened) * 64;
            self.arrivals.last_lost = Some(kept * 64 - 1);
        }
        for new in self.opened.max(kept)..end {
            self.window[(new % WORDS) as usize] = 0;
        }
        self.opened = end;
    }

    /// Settles the lowest `numbers` (1 to 64) bits of the word of this place, in order.
    fn settle(&mut self, place: u64, word: u64, numbers: u32) {
        if word == u64::MAX {
            return self.end_run();
        }
        let mut at = 0;
        while at < numbers {
            let rest = word >> at;
            let absent = rest.trailing_zeros().min(numbers - at);
            self.run += u64::from(absent);
            at += absent;
            if absent > 0 {
                self.arrivals.last_lost = Some(place * 64 + u64::from(at) - 1);
            }
            if at < numbers {
                self.end_run();
                at += (rest >> absent).trailing_ones();
            }
        }
    }

    fn end_run(&mut self) {
        let length = std::mem::take(&mut self.run);
        if length == 0 {
            return;
        }
        if length < 64 {
            self.short_bursts[length as usize] += 1;
            return;
        }
        let bursts = &mut self.arrivals.loss_bursts;
        let exact = bursts.len() < MAX_LENGTHS || bursts.contains_key(&length);
        *bursts.entry(if exact { length } else { 1 << length.ilog2() }).or_default() += 1;
    }

    /// RFC 3550, section 6.4.1, "calculated continuously as each data packet i is received": J += (|D| - J)/16, where
    /// D is the change of the transit time. The clocks need not agree: what they differ by cancels out in D.
    #[inline]
    fn time(&mut self, sent_at_ns: u64, now_ns: u64) {
        let transit_ns = now_ns.wrapping_sub(sent_at_ns);
        if let Some(last) = self.last {
            // The probe carries 63 bits of time, so differences are taken modulo 2^63 and are signed in that.
            let d_ns = (transit_ns.wrapping_sub(last.transit_ns) << 1) as i64 >> 1;
            self.jitter_ns += (d_ns.unsigned_abs() as f64 - self.jitter_ns) / 16.0;
            match now_ns.saturating_sub(last.arrived_ns) {
                0 => self.zero_gaps += 1,
                gap_ns => self.arrivals.gaps.record(gap_ns),
            }
        }
        self.last = Some(Last { arrived_ns: now_ns, transit_ns });
    }
}

#[inline]
fn bit(number: u64) -> u64 {
    1 << (number % 64)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::pace::SplitMix64;

    const WINDOW: u64 = WORDS * 64;

    fn probe(sequence: u64) -> Probe {
        Probe { sequence, measured: true, sent_at_ns: 0 }
    }

    #[test]
    fn short_numbers_go_on_after_they_have_turned() {
        const TURN: u64 = 1 << 32;
        let mut tracker = Tracker::new();
        for number in [0, 1, 2] {
            assert_eq!(tracker.number_near(number), number);
            tracker.handle_datagram(&probe(number), 0);
        }
        // What nobody can send by now is what it says.
        assert_eq!(tracker.number_near(TURN - 1), TURN - 1);
        // Long after: two around each turn are lost, and one comes late.
        let arriving = |turn: u64| [turn - 4, turn - 3, turn, turn - 1, turn + 2, turn + 3];
        for turn in [TURN, 2 * TURN, 3 * TURN] {
            tracker.next = turn - 4;
            for number in arriving(turn) {
                assert_eq!(tracker.number_near(number % TURN), number);
                assert_eq!(tracker.number_near(number), number, "of 64 bits");
                tracker.handle_datagram(&probe(number), 0);
            }
        }
    }

    fn arrivals_of(numbers: &[u64], sent: Option<u64>) -> Arrivals {
        let mut tracker = Tracker::new();
        for &number in numbers {
            tracker.handle_datagram(&probe(number), 0);
        }
        if let Some(sent) = sent {
            tracker.handle_end(sent);
        }
        tracker.finish()
    }

    /// Numbers as they arrive, the end mark, then what it comes to: received, duplicated, reordered, and the bursts.
    #[track_caller]
    fn check(numbers: &[u64], sent: Option<u64>, counts: (u64, u64, u64), bursts: &[(u64, u64)]) {
        let arrivals = arrivals_of(numbers, sent);
        assert_eq!((arrivals.received, arrivals.duplicated, arrivals.reordered), counts);
        assert_eq!(arrivals.loss_bursts, bursts.iter().copied().collect());
    }

    #[test]
    fn edges() {
        check(&[], None, (0, 0, 0), &[]);
        check(&[], Some(5), (0, 0, 0), &[(5, 1)]);
        check(&[0, 1, 2], Some(3), (3, 0, 0), &[]);
        check(&[3], None, (1, 0, 0), &[(3, 1)]);
        check(&[0, 2, 1], Some(3), (3, 0, 1), &[]);
        // RFC 4737 compares with the highest so far: 1 and 2 are reordered, 3 is not.
        check(&[3, 1, 2, 4], None, (4, 0, 2), &[(1, 1)]);
        check(&[0, 0, 0, 1, 0], Some(2), (2, 3, 0), &[]);
        check(&[0, 2, 4, 7], Some(10), (4, 0, 0), &[(1, 2), (2, 2)]);
        check(&[0, 63, 64, 65, 129], None, (5, 0, 0), &[(62, 1), (63, 1)]);
        check(&[64], Some(64), (1, 0, 0), &[(64, 1)]);
        check(&[9], Some(5), (1, 0, 0), &[(9, 1)]);
        for (numbers, sent, last) in
            [(&[0, 1][..], 2, None), (&[0, 2], 3, Some(1)), (&[0, 2], 9, Some(8)), (&[3, 1, 2], 4, Some(0))]
        {
            assert_eq!(arrivals_of(numbers, Some(sent)).last_lost, last, "{numbers:?} of {sent}");
        }
    }

    #[test]
    fn at_the_edge_of_the_window() {
        check(&[0, WINDOW - 1, 1, 1], None, (3, 1, 1), &[(WINDOW - 3, 1)]);
        // Numbers 0 to 63 leave together when number WINDOW comes; 1 is settled as lost and then arrives twice.
        check(&[0, WINDOW, 1, 1], None, (4, 0, 2), &[(WINDOW - 1, 1)]);
        check(&[0, WINDOW, 64, 64], None, (3, 1, 1), &[(63, 1), (WINDOW - 65, 1)]);
        check(&[0, 5 * WINDOW + 7], None, (2, 0, 0), &[(5 * WINDOW + 6, 1)]);
        // A burst that begins in the window, spans all of the next one and ends in a third is one burst.
        check(&[9, 2 * WINDOW + 5], Some(2 * WINDOW + 8), (2, 0, 0), &[(2, 1), (9, 1), (2 * WINDOW - 5, 1)]);
    }

    #[test]
    fn a_hostile_jump_costs_one_burst() {
        check(&[0, 1 << 63], None, (2, 0, 0), &[((1 << 63) - 1, 1)]);
        check(&[0, u64::MAX, u64::MAX, 1], Some(u64::MAX), (3, 1, 1), &[(u64::MAX - 2, 1)]);
        let mut tracker = Tracker::new();
        tracker.handle_datagram(&probe(u64::MAX), 0);
        assert_eq!(tracker.missing(), u64::MAX - 1);
    }

    #[test]
    fn hostile_bursts_stay_in_bounded_memory() {
        let mut tracker = Tracker::new();
        let mut number = 0;
        for length in 1..5000 {
            number += length + 1;
            tracker.handle_datagram(&probe(number), 0);
        }
        let bursts = tracker.finish().loss_bursts;
        assert!(bursts.len() < MAX_LENGTHS + 64 + 64, "{}", bursts.len());
        assert_eq!(bursts.values().sum::<u64>(), 4999, "each burst is counted");
    }

    #[test]
    fn what_follows_the_end_mark_is_late_and_not_lost() {
        let mut tracker = Tracker::new();
        tracker.handle_datagram(&probe(0), 0);
        tracker.handle_datagram(&probe(3), 0);
        assert_eq!(tracker.missing(), 2);
        tracker.handle_end(5);
        tracker.handle_datagram(&probe(1), 0);
        tracker.handle_datagram(&probe(1), 0);
        tracker.handle_end(5);
        tracker.handle_datagram(&probe(4), 0);
        assert_eq!((tracker.missing(), tracker.received()), (1, 4));
        let arrivals = tracker.finish();
        assert_eq!((arrivals.late, arrivals.received, arrivals.duplicated), (2, 4, 1));
        assert_eq!(arrivals.sent_by_end_mark, Some(5));
        assert_eq!(arrivals.loss_bursts, BTreeMap::from([(1, 1)]));
    }

    #[test]
    fn warm_up_counts_in_the_totals_only() {
        let mut tracker = Tracker::new();
        for (sequence, measured) in [(1, false), (0, false), (0, false), (2, true), (4, true), (3, true), (3, true)] {
            tracker.handle_datagram(&Probe { sequence, measured, sent_at_ns: 0 }, sequence * 10);
        }
        let a = tracker.finish();
        assert_eq!((a.received, a.duplicated, a.reordered), (3, 1, 1));
        assert_eq!((a.received_total, a.duplicated_total), (5, 2));
        assert_eq!(a.gaps.count(), 2, "three measured arrivals have two gaps, the copy none");
    }

    #[track_caller]
    fn check_jitter(times: &[(u64, u64)], want_ns: Option<f64>) {
        let mut tracker = Tracker::new();
        for (sequence, &(sent_at_ns, now_ns)) in (0..).zip(times) {
            tracker.handle_datagram(&Probe { sequence, measured: true, sent_at_ns }, now_ns);
        }
        let jitter_ns = tracker.finish().jitter_s.map(|s| s * 1e9);
        match (jitter_ns, want_ns) {
            (Some(got), Some(want)) => assert!((got - want).abs() < 1e-6, "{got} is not {want}"),
            (got, want) => assert_eq!(got, want),
        }
    }

    #[test]
    fn jitter_is_that_of_rfc_3550() {
        // By hand. Transit times 500, 660, 500, 516: |D| = 160, 160, 16.
        // J = 160/16 = 10; 10 + 150/16 = 19.375; 19.375 + (16 - 19.375)/16 = 19.1640625.
        let times = [(0, 500), (1000, 1660), (2000, 2500), (3000, 3516)];
        check_jitter(&times[..1], None);
        check_jitter(&times[..2], Some(10.0));
        check_jitter(&times[..3], Some(19.375));
        check_jitter(&times, Some(19.164_062_5));
        // The same with the sender's clock far ahead, and with both clocks wrapping on the way.
        let shift = |sender: u64, receiver: u64| {
            times.map(|(sent, now)| (sent.wrapping_add(sender) & (u64::MAX >> 1), now.wrapping_add(receiver)))
        };
        check_jitter(&shift(1 << 62, 7), Some(19.164_062_5));
        check_jitter(&shift((1 << 63) - 1500, 0), Some(19.164_062_5));
        check_jitter(&shift(0, u64::MAX - 2000), Some(19.164_062_5));
    }

    /// The obvious account: everything is kept, and looked through again for each datagram.
    fn oracle(events: &[(Probe, u64)], end: Option<(usize, u64)>) -> Arrivals {
        let mut a = Arrivals { sent_by_end_mark: end.map(|(_, sent)| sent), ..Arrivals::default() };
        let mut seen = BTreeSet::new();
        let mut measured: Vec<(Probe, u64)> = Vec::new();
        for (at, (probe, now_ns)) in events.iter().enumerate() {
            let is_reordered = seen.last().is_some_and(|highest| *highest > probe.sequence);
            if !seen.insert(probe.sequence) {
                a.duplicated_total += 1;
                a.duplicated += u64::from(probe.measured);
            } else if probe.measured {
                a.received += 1;
                a.reordered += u64::from(is_reordered);
                a.late += u64::from(end.is_some_and(|(mark, _)| at >= mark));
                measured.push((*probe, *now_ns));
            }
        }
        a.received_total = seen.len() as u64;
        let mut jitter_ns = 0.0;
        for pair in measured.windows(2) {
            let [(first, r0), (second, r1)] = pair else { unreachable!() };
            let d = i128::from(*r1) - i128::from(*r0) - (i128::from(second.sent_at_ns) - i128::from(first.sent_at_ns));
            jitter_ns += (d.abs() as f64 - jitter_ns) / 16.0;
            a.gaps.record(r1 - r0);
        }
        a.jitter_s = (measured.len() > 1).then_some(jitter_ns / 1e9);
        let mut next = 0;
        let end = end.map_or(0, |(_, sent)| sent).max(seen.last().map_or(0, |highest| highest + 1));
        for number in seen.into_iter().chain([end]) {
            if number > next {
                *a.loss_bursts.entry(number - next).or_default() += 1;
                a.last_lost = Some(number - 1);
            }
            next = number + 1;
        }
        a
    }

    /// A trial left to chance: jumps, losses, copies, and detours of fewer than 300 places.
    fn random_events(random: &mut SplitMix64) -> Vec<(Probe, u64)> {
        let mut below = |n: u64| random.next_u64() % n;
        let mut number = 0;
        let mut sent_at_ns = 0;
        let mut events = Vec::new();
        let (loss, copies, detours) = (below(100), below(20), below(50));
        let warmup = below(500);
        for k in 0..below(2000) {
            if below(200) == 0 {
                number += [1, 63, 64, 65, 1000, WINDOW - 1500, WINDOW, WINDOW + 1, 10 * WINDOW][below(9) as usize];
            }
            sent_at_ns += below(10_000);
            for _ in 0..1 + u64::from(below(100) < copies) {
                let place = if below(100) < detours { k + below(300) } else { k };
                if below(100) >= loss {
                    events.push((place, Probe { sequence: number, measured: k >= warmup, sent_at_ns }));
                }
            }
            number += 1;
        }
        events.sort_by_key(|(place, _)| *place);
        let mut now_ns = 0;
        events
            .into_iter()
            .map(|(_, probe)| {
                now_ns += below(20_000);
                (probe, now_ns)
            })
            .collect()
    }

    #[test]
    fn agrees_with_the_obvious_account() {
        for seed in 0..400 {
            println!("seed {seed}");
            let mut random = SplitMix64::new(seed);
            let events = random_events(&mut random);
            // A detour across a jump may come from behind the window, where the tracker only claims to be bounded.
            let mut highest = 0;
            let events: Vec<_> = events
                .into_iter()
                .filter(|(probe, _)| {
                    highest = highest.max(probe.sequence);
                    probe.sequence + WINDOW - 64 > highest
                })
                .collect();
            let sent = highest + random.next_u64() % 100;
            let mark =
                (random.next_u64() & 3 > 0).then(|| ((random.next_u64() % (events.len() as u64 + 1)) as usize, sent));
            let mut tracker = Tracker::new();
            for (at, (probe, now_ns)) in events.iter().enumerate() {
                if let Some((_, sent)) = mark.filter(|(mark, _)| *mark == at) {
                    tracker.handle_end(sent);
                }
                tracker.handle_datagram(probe, *now_ns);
            }
            if let Some((_, sent)) = mark.filter(|(mark, _)| *mark == events.len()) {
                tracker.handle_end(sent);
            }
            let want = oracle(&events, mark);
            assert_eq!(tracker.missing(), highest_of(&events).map_or(0, |h| h + 1) - want.received_total);
            assert_eq!(tracker.finish(), want);
        }
    }

    fn highest_of(events: &[(Probe, u64)]) -> Option<u64> {
        events.iter().map(|(probe, _)| probe.sequence).max()
    }
}
