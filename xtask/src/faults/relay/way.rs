//! One way through the relay: what becomes of each packet, when it leaves, and the count of all that was done.
//! Reads no clock and opens no socket: the time comes with each frame, and chance from a seed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use linerate_trial::pace::SplitMix64;
use serde_json::{Map, Value, json};

use super::frame::{Kind, look};

/// Declares what can be done to packets once: the field, and its name on the command line.
macro_rules! impairment {
    ($($(#[$about:meta])* $field:ident,)*) => {
        /// What is done to packets one way. Zero: not done.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub(in crate::faults) struct Impairment {
            $($(#[$about])* pub(in crate::faults) $field: u64,)*
        }

        impl Impairment {
            /// From an object of numbers.
            pub(in crate::faults) fn read(value: &Value) -> Result<Impairment, String> {
                let mut read = Impairment::default();
                for (name, value) in value.as_object().ok_or("an impairment is an object")? {
                    let number = value.as_u64().ok_or_else(|| format!("{name} is no number"))?;
                    match name.as_str() {
                        $(stringify!($field) => read.$field = number,)*
                        _ => return Err(format!("there is no impairment '{name}'")),
                    }
                }
                Ok(read)
            }

            /// As an object; what is not done is not in it.
            pub(in crate::faults) fn write(&self) -> Value {
                let mut object = Map::new();
                $(if self.$field != 0 { object.insert(stringify!($field).to_owned(), self.$field.into()); })*
                Value::Object(object)
            }
        }
    };
}

impairment! {
    /// Delay of every frame.
    delay_us,
    /// So much is added to it at random; the order stays.
    jitter_us,
    /// What follows, but for rate and queue, begins with so many packets of the test.
    after_packets,
    /// Lost at random, of a million.
    loss_ppm,
    /// Lost in bursts (Gilbert 1960): a burst begins with so many of a million,
    burst_begins_ppm,
    /// and ends with so many.
    burst_ends_ppm,
    /// Sent twice, of a million.
    duplicate_ppm,
    /// Held back, of a million,
    reorder_ppm,
    /// for so long.
    reorder_us,
    /// A bit of the payload inverted, of a million.
    damage_ppm,
    /// Longer IP packets vanish.
    hole_octets,
    /// Fragments that are not the first, of a million.
    fragment_loss_ppm,
    /// What leaves, in bits per second of frames,
    rate_bps,
    /// behind a queue of so many octets.
    queue_octets,
    /// What is above this rate is dropped at once,
    police_bps,
    /// but for so many octets.
    police_octets,
    /// Nothing passes from here on, since the first packets of the test,
    outage_at_us,
    /// for so long.
    outage_for_us,
}

/// When the test's traffic began: of both ways together.
#[derive(Debug, Default)]
pub(super) struct Start {
    packets: AtomicU32,
    at_us: AtomicU64,
}

/// Packets of the test by which it has begun: a handshake has fewer.
const BEGUN: u32 = 20;

impl Start {
    /// Counts one, and returns how many there were, and since when the test runs.
    fn handle_packet(&self, now_us: u64) -> (u64, Option<u64>) {
        let seen = self.packets.fetch_add(1, Ordering::Relaxed) + 1;
        if seen == BEGUN {
            self.at_us.store(now_us.max(1), Ordering::Relaxed);
        }
        (u64::from(seen), self.since())
    }

    fn since(&self) -> Option<u64> {
        Some(self.at_us.load(Ordering::Relaxed)).filter(|at| *at != 0)
    }
}

/// What was done, to packets of the test alone.
#[derive(Clone, Copy, Debug, Default)]
struct Done {
    tcp_data: u64,
    tcp_bare: u64,
    udp: u64,
    fragments: u64,
    others: u64,
    lost: u64,
    in_bursts: u64,
    in_hole: u64,
    lost_fragments: u64,
    policed: u64,
    queue_full: u64,
    in_outage: u64,
    duplicated: u64,
    damaged: u64,
    reordered: u64,
    refused: u64,
    longest_queue_us: u64,
    latest_us: u64,
    outage_from_us: u64,
    outage_until_us: u64,
}

/// A frame on its way: when it is due, which it was, and what it is.
type Waiting = Reverse<(u64, u64, bool, Vec<u8>)>;

/// One way through the relay. `handle_frame` for each frame, `poll_frame` until it has none, then sleep until `next_due`.
pub(super) struct Way {
    asked: Impairment,
    chance: SplitMix64,
    start: Arc<Start>,
    waiting: BinaryHeap<Waiting>,
    sequence: u64,
    newest_sent: u64,
    last_due_us: u64,
    rate_free_us: f64,
    police_octets: f64,
    police_at_us: u64,
    is_in_burst: bool,
    done: Done,
}

impl Way {
    pub(super) fn new(asked: Impairment, seed: u64, start: Arc<Start>) -> Way {
        Way {
            asked,
            chance: SplitMix64::new(seed),
            start,
            waiting: BinaryHeap::new(),
            sequence: 0,
            newest_sent: 0,
            last_due_us: 0,
            rate_free_us: 0.0,
            police_octets: asked.police_octets as f64,
            police_at_us: 0,
            is_in_burst: false,
            done: Done::default(),
        }
    }

    /// A frame that has come.
    pub(super) fn handle_frame(&mut self, now_us: u64, frame: &[u8]) {
        let seen = look(frame);
        let count = match seen.kind {
            Kind::TcpData => &mut self.done.tcp_data,
            Kind::TcpBare => &mut self.done.tcp_bare,
            Kind::Udp => &mut self.done.udp,
            Kind::Fragment => &mut self.done.fragments,
            Kind::Other => &mut self.done.others,
        };
        *count += 1;
        let (number, begun) =
            if seen.kind.is_test() { self.start.handle_packet(now_us) } else { (0, self.start.since()) };
        // An outage is everybody's; all else is the test's alone, or a case would be about ARP.
        if begun.is_some_and(|begun| self.is_out(now_us - begun.min(now_us))) {
            if self.done.outage_from_us == 0 {
                self.done.outage_from_us = now_us;
            }
            self.done.outage_until_us = now_us;
            self.done.in_outage += u64::from(seen.kind.is_test());
            return;
        }
        let mut frame = frame.to_vec();
        let is_test = seen.kind.is_test();
        let mut held_us = 0;
        let mut is_doubled = false;
        if is_test && number > self.asked.after_packets {
            if self.is_lost(seen.kind, seen.ip_octets) || self.is_policed(now_us, frame.len()) {
                return;
            }
            let (from, to) = seen.payload;
            if from < to && self.one_of(self.asked.damage_ppm) {
                let at = from + self.chance.below((to - from) as u64) as usize;
                frame[at] ^= 1 << self.chance.below(8);
                self.done.damaged += 1;
            }
            if self.one_of(self.asked.reorder_ppm) {
                held_us = self.asked.reorder_us;
            }
            is_doubled = self.one_of(self.asked.duplicate_ppm);
        }
        let Some(left_us) = self.through_queue(now_us, frame.len(), is_test) else { return };
        let jitter_us = if self.asked.jitter_us == 0 { 0 } else { self.chance.below(self.asked.jitter_us) };
        // Jitter alone overtakes nothing.
        let due_us = (left_us + self.asked.delay_us + jitter_us).max(self.last_due_us);
        self.last_due_us = due_us;
        if is_doubled {
            self.done.duplicated += 1;
            self.wait(due_us + held_us, is_test, frame.clone());
        }
        self.wait(due_us + held_us, is_test, frame);
    }

    /// The next frame that is due.
    pub(super) fn poll_frame(&mut self, now_us: u64) -> Option<Vec<u8>> {
        if self.next_due()? > now_us {
            return None;
        }
        let Reverse((due_us, sequence, is_test, frame)) = self.waiting.pop()?;
        self.done.latest_us = self.done.latest_us.max(now_us - due_us);
        if sequence < self.newest_sent {
            self.done.reordered += u64::from(is_test);
        }
        self.newest_sent = self.newest_sent.max(sequence);
        Some(frame)
    }

    /// When the next frame is due.
    pub(super) fn next_due(&self) -> Option<u64> {
        self.waiting.peek().map(|Reverse((due_us, ..))| *due_us)
    }

    /// The interface would not take a frame.
    pub(super) fn refused(&mut self) {
        self.done.refused += 1;
    }

    /// What was done.
    pub(super) fn account(&self) -> Value {
        let done = self.done;
        json!({
            "tcp_data": done.tcp_data, "tcp_bare": done.tcp_bare, "udp": done.udp, "fragments": done.fragments,
            "others": done.others, "lost": done.lost, "in_bursts": done.in_bursts, "in_hole": done.in_hole,
            "lost_fragments": done.lost_fragments, "policed": done.policed, "queue_full": done.queue_full,
            "in_outage": done.in_outage, "duplicated": done.duplicated, "damaged": done.damaged,
            "reordered": done.reordered, "refused": done.refused, "longest_queue_us": done.longest_queue_us,
            "latest_us": done.latest_us, "outage_us": done.outage_until_us - done.outage_from_us,
        })
    }

    fn wait(&mut self, due_us: u64, is_test: bool, frame: Vec<u8>) {
        self.sequence += 1;
        self.waiting.push(Reverse((due_us, self.sequence, is_test, frame)));
    }

    fn one_of(&mut self, ppm: u64) -> bool {
        ppm != 0 && self.chance.below(1_000_000) < ppm
    }

    fn is_out(&self, since_us: u64) -> bool {
        let (at, length) = (self.asked.outage_at_us, self.asked.outage_for_us);
        length != 0 && since_us >= at && since_us - at < length
    }

    fn is_lost(&mut self, kind: Kind, ip_octets: u32) -> bool {
        if self.asked.hole_octets != 0 && u64::from(ip_octets) > self.asked.hole_octets {
            self.done.in_hole += 1;
            return true;
        }
        if kind == Kind::Fragment && self.one_of(self.asked.fragment_loss_ppm) {
            self.done.lost_fragments += 1;
            return true;
        }
        if self.asked.burst_begins_ppm != 0 {
            let turns = if self.is_in_burst { self.asked.burst_ends_ppm } else { self.asked.burst_begins_ppm };
            self.is_in_burst ^= self.one_of(turns);
            if self.is_in_burst {
                self.done.in_bursts += 1;
                return true;
            }
        }
        let is_lost = self.one_of(self.asked.loss_ppm);
        self.done.lost += u64::from(is_lost);
        is_lost
    }

    fn is_policed(&mut self, now_us: u64, octets: usize) -> bool {
        if self.asked.police_bps == 0 {
            return false;
        }
        let earned = (now_us - self.police_at_us) as f64 * self.asked.police_bps as f64 / 8e6;
        self.police_at_us = now_us;
        self.police_octets = (self.police_octets + earned).min(self.asked.police_octets as f64);
        let is_policed = self.police_octets < octets as f64;
        if is_policed {
            self.done.policed += 1;
        } else {
            self.police_octets -= octets as f64;
        }
        is_policed
    }

    /// When the frame leaves the queue; `None`: it found no room in it.
    fn through_queue(&mut self, now_us: u64, octets: usize, is_test: bool) -> Option<u64> {
        if self.asked.rate_bps == 0 {
            return Some(now_us);
        }
        let per_us = self.asked.rate_bps as f64 / 8e6;
        let wait_us = (self.rate_free_us - now_us as f64).max(0.0);
        if wait_us * per_us + octets as f64 > self.asked.queue_octets as f64 {
            self.done.queue_full += u64::from(is_test);
            return None;
        }
        self.done.longest_queue_us = self.done.longest_queue_us.max(wait_us as u64);
        self.rate_free_us = now_us as f64 + wait_us + octets as f64 / per_us;
        Some(self.rate_free_us as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A UDP datagram over IPv4 with so many octets of payload.
    fn datagram(payload: usize) -> Vec<u8> {
        let mut frame = vec![0; 14 + 28 + payload];
        frame[12..15].copy_from_slice(&[0x08, 0x00, 0x45]);
        frame[16..18].copy_from_slice(&(28 + payload as u16).to_be_bytes());
        frame[23] = 17;
        frame
    }

    /// Sends a datagram of 1000 octets each millisecond, and returns when each that came out did.
    fn send(asked: Impairment, count: u64) -> (Way, Vec<(u64, Vec<u8>)>) {
        let mut way = Way::new(asked, 3, Arc::new(Start::default()));
        let mut out = Vec::new();
        let mut frame = datagram(1000);
        for now in 0..count * 1000 + 1_000_000 {
            if now % 1000 == 0 && now < count * 1000 {
                frame[42..50].copy_from_slice(&(now / 1000).to_be_bytes());
                way.handle_frame(now, &frame);
            }
            while let Some(frame) = way.poll_frame(now) {
                out.push((now, frame));
            }
        }
        (way, out)
    }

    fn count(way: &Way, name: &str) -> u64 {
        way.account()[name].as_u64().unwrap()
    }

    #[test]
    fn nothing_asked_is_nothing_done() {
        let (way, out) = send(Impairment { delay_us: 700, ..Impairment::default() }, 500);
        assert!(out.iter().enumerate().all(|(at, (now, _))| *now == at as u64 * 1000 + 700));
        assert_eq!((out.len(), count(&way, "udp")), (500, 500));
        let done = ["lost", "in_bursts", "in_hole", "policed", "queue_full", "in_outage", "duplicated", "reordered"];
        assert!(done.iter().all(|name| count(&way, name) == 0), "{}", way.account());
    }

    #[test]
    fn what_is_counted_is_what_was_done() {
        let asked =
            Impairment { loss_ppm: 100_000, duplicate_ppm: 100_000, after_packets: 100, ..Impairment::default() };
        let (way, out) = send(asked, 2000);
        let (lost, doubled) = (count(&way, "lost"), count(&way, "duplicated"));
        assert_eq!(out.len() as u64, 2000 - lost + doubled);
        assert!((130..=250).contains(&lost) && (110..=230).contains(&doubled), "{lost} {doubled}");
        assert!(out.iter().take(100).enumerate().all(|(at, (now, _))| *now == at as u64 * 1000));
        // A burst is longer than a loss at random, and ends.
        let asked = Impairment { burst_begins_ppm: 10_000, burst_ends_ppm: 100_000, ..Impairment::default() };
        let (way, out) = send(asked, 2000);
        assert_eq!(out.len() as u64, 2000 - count(&way, "in_bursts"));
        assert!((60..=400).contains(&count(&way, "in_bursts")), "{}", way.account());
    }

    #[test]
    fn what_is_held_back_is_overtaken_and_what_is_damaged_keeps_its_length() {
        let (way, out) = send(Impairment { reorder_ppm: 50_000, reorder_us: 2500, ..Impairment::default() }, 1000);
        let number = |frame: &[u8]| u64::from_be_bytes(frame[42..50].try_into().unwrap());
        let mut newest = 0;
        let late = out.iter().filter(|(_, frame)| {
            newest = newest.max(number(frame));
            number(frame) < newest
        });
        assert_eq!(late.count() as u64, count(&way, "reordered"));
        assert!(count(&way, "reordered") > 20, "{}", way.account());
        let (way, out) = send(Impairment { damage_ppm: 1_000_000, ..Impairment::default() }, 10);
        assert!(out.iter().all(|(_, frame)| frame.len() == datagram(1000).len()));
        assert_eq!(count(&way, "damaged"), 10);
    }

    #[test]
    fn a_hole_an_outage_and_a_policer() {
        let (way, out) = send(Impairment { hole_octets: 1027, after_packets: 5, ..Impairment::default() }, 50);
        assert_eq!((out.len(), count(&way, "in_hole")), (5, 45));
        let (_, out) = send(Impairment { hole_octets: 1028, ..Impairment::default() }, 50);
        assert_eq!(out.len(), 50);
        // The test begins with its twentieth packet.
        let asked = Impairment { outage_at_us: 100_000, outage_for_us: 30_000, ..Impairment::default() };
        let (way, out) = send(asked, 500);
        assert_eq!((out.len(), count(&way, "in_outage")), (470, 30));
        let asked = Impairment { police_bps: 4_168_000, police_octets: 3000, ..Impairment::default() };
        let (way, out) = send(asked, 1000);
        assert!((495..=510).contains(&out.len()), "{}", out.len());
        assert_eq!(out.len() as u64 + count(&way, "policed"), 1000);
    }

    #[test]
    fn a_slow_link_has_its_rate_and_its_queue() {
        // Half of what comes: 1042 octets each millisecond.
        let asked = Impairment { rate_bps: 4_168_000, queue_octets: 20_840, ..Impairment::default() };
        let (way, out) = send(asked, 1000);
        let gaps: Vec<u64> = out.windows(2).map(|two| two[1].0 - two[0].0).collect();
        assert!(gaps.iter().all(|gap| (1999..=2001).contains(gap)), "{gaps:?}");
        assert!((36_000..=40_000).contains(&count(&way, "longest_queue_us")), "{}", way.account());
        assert_eq!(out.len() as u64 + count(&way, "queue_full"), 1000);
    }

    #[test]
    fn an_impairment_is_what_was_written() {
        let asked = Impairment { delay_us: 5, police_octets: 7, ..Impairment::default() };
        assert_eq!(Impairment::read(&asked.write()), Ok(asked));
        assert!(Impairment::read(&json!({ "losses": 1 })).unwrap_err().contains("'losses'"));
        assert!(Impairment::read(&json!({ "delay_us": "x" })).is_err());
    }
}
