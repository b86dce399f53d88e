//! The server of iperf2's UDP test: numbered datagrams are counted, and the last one is answered with a report.
//! Knows no frames. The layouts are those of iperf 2's `include/payloads.h`; all words are big-endian.
//!
//! ```text
//!  0        4         8          12         16      20 …
//!  +--------+---------+----------+----------+-------+----
//!  | number | seconds | µs, sent | its upper| flags | …      the last datagram bears its number negated
//!  |  (low) |         |          | 32 bits  |       |
//!  +--------+---------+----------+----------+-------+----
//! ```

use core::fmt;

use crate::bytes::{put_word, word};

/// The server's UDP port.
pub const PORT: u16 = 5001;
/// Bytes of a report.
pub const REPORT_LEN: usize = 128;

/// A legacy test both ways, and one in which the server sends: flags of a header.
const VERSION1: u32 = 0x8000_0000;
const VERSION2: u32 = 0x0400_0000;
/// Numbers have 64 bits, and so have a report's counts.
const NUMBERS_64: u32 = 0x0800_0000;

/// Tests at the same time; `iperf -P` opens one a stream.
const SESSIONS: usize = 16;
/// A test of which nothing was heard for so long gives its place to another, µs.
const SILENCE_US: u64 = 10_000_000;
/// What comes so long after a test's end is no straggler of it, µs.
const STRAGGLING_US: u64 = 1_000_000;
/// Numbers below the highest that are remembered, so that a copy is not taken for what was missing.
const REMEMBERED: u64 = 1024;

/// A client's address and port.
pub type Peer = (u32, u16);

/// What was received of a test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Who sent.
    pub peer: Peer,
    /// Bytes of UDP data.
    pub bytes: u64,
    /// Different datagrams, the last one included.
    pub received: u64,
    /// The highest number.
    pub highest: u64,
    /// Datagrams that came behind one with a higher number.
    pub reordered: u64,
    /// Copies of datagrams that were here already.
    pub copies: u64,
    /// From the first to the last, µs.
    pub elapsed_us: u64,
    /// Jitter as in RFC 1889, section 6.3.1, in sixteenths of a µs.
    pub jitter_16: u64,
}

/// What became of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// It belongs to a test.
    Counted,
    /// It ends one, or says so again; `again` tells which. The report is to be sent.
    End {
        /// The client had not heard the first report.
        again: bool,
    },
    /// It belongs to none: no test begins with it, or there are too many, or one is asked for that is not served.
    Ignored,
}

#[derive(Clone, Copy, Default)]
struct Session {
    report: Report,
    long_numbers: bool,
    ended: bool,
    first_us: u64,
    heard_us: u64,
    /// Time on the way of the datagram before, by two clocks that have nothing in common, µs.
    transit_us: i64,
    /// A bit for each of the last numbers: whether it was here.
    seen: [u64; REMEMBERED as usize / 64],
}

/// The tests that go on, and the last that ended.
#[derive(Default)]
pub struct Server {
    sessions: [Option<Session>; SESSIONS],
}

impl Server {
    /// A datagram from this client.
    pub fn handle(&mut self, now_us: u64, peer: Peer, data: &[u8]) -> Heard {
        let found = self.sessions.iter().position(|place| place.is_some_and(|session| session.report.peer == peer));
        let going_on = found.and_then(|at| self.sessions[at].as_mut());
        if let Some(session) = going_on {
            let Some(number) = number(data, session.long_numbers).filter(|&number| number != 0) else {
                return Heard::Ignored;
            };
            let straggles = number != 1 && now_us.saturating_sub(session.heard_us) < STRAGGLING_US;
            match session.ended {
                true if number < 0 => return Heard::End { again: true },
                true if straggles => return Heard::Ignored,
                true => {}
                false => return session.count(now_us, number, data),
            }
        }
        let Some(long_numbers) = begins(data) else { return Heard::Ignored };
        let Some(number) = number(data, long_numbers).filter(|&number| number > 0) else { return Heard::Ignored };
        let Some(place) = found.or_else(|| self.place(now_us)) else { return Heard::Ignored };
        let report = Report { peer, ..Report::default() };
        let session = Session { report, long_numbers, first_us: now_us, ..Session::default() };
        self.sessions[place].insert(session).count(now_us, number, data)
    }

    /// What this client's test has come to.
    pub fn report(&self, peer: Peer) -> Option<Report> {
        self.sessions.iter().flatten().map(|session| session.report).find(|report| report.peer == peer)
    }

    /// A place for a new test: never one of a test that goes on.
    fn place(&self, now_us: u64) -> Option<usize> {
        let free = |session: &Session| session.ended || now_us.saturating_sub(session.heard_us) > SILENCE_US;
        let heard = |at: &usize| self.sessions[*at].as_ref().map(|session| session.heard_us);
        (0..SESSIONS).filter(|&at| self.sessions[at].as_ref().is_none_or(free)).min_by_key(heard)
    }
}

impl Session {
    fn count(&mut self, now_us: u64, number: i64, data: &[u8]) -> Heard {
        let (report, id) = (&mut self.report, number.unsigned_abs());
        self.heard_us = now_us;
        let behind = report.highest.checked_sub(id);
        if behind.is_some_and(|behind| behind < REMEMBERED) && self.seen[slot(id)] & bit(id) != 0 {
            report.copies += 1;
            return Heard::Counted;
        }
        match behind {
            Some(_) => report.reordered += 1,
            None => {
                // The numbers between the highest and this one were not here yet.
                let skipped = (id - report.highest).min(REMEMBERED);
                (id - skipped + 1..=id).for_each(|one| self.seen[slot(one)] &= !bit(one));
                report.highest = id;
            }
        }
        if behind.is_none_or(|behind| behind < REMEMBERED) {
            self.seen[slot(id)] |= bit(id);
        }
        let first = report.received == 0;
        report.received += 1;
        report.bytes += data.len() as u64;
        report.elapsed_us = now_us.saturating_sub(self.first_us);
        let sent_us = word(data, 4).map_or(0, i64::from) * 1_000_000 + word(data, 8).map_or(0, i64::from);
        let transit_us = now_us.cast_signed() - sent_us;
        if !first {
            let change = transit_us.abs_diff(self.transit_us);
            report.jitter_16 = report.jitter_16 - ((report.jitter_16 + 8) >> 4) + change;
        }
        self.transit_us = transit_us;
        self.ended = number < 0;
        if self.ended { Heard::End { again: false } } else { Heard::Counted }
    }
}

fn slot(id: u64) -> usize {
    (id % REMEMBERED / 64) as usize
}

fn bit(id: u64) -> u64 {
    1 << (id % 64)
}

fn number(data: &[u8], long: bool) -> Option<i64> {
    let low = word(data, 0)?;
    Some(if long {
        (u64::from(word(data, 12)?) << 32 | u64::from(low)).cast_signed()
    } else {
        low.cast_signed().into()
    })
}

/// Whether a test that is served begins with this datagram; and then whether its numbers have 64 bits.
fn begins(data: &[u8]) -> Option<bool> {
    // Clients before 2.0.10 have no header: what they send is filled with digits.
    let flags = word(data, 16).filter(|flags| !flags.to_be_bytes().iter().all(u8::is_ascii_digit)).unwrap_or(0);
    (flags & (VERSION1 | VERSION2) == 0).then_some(flags & NUMBERS_64 != 0)
}

impl Report {
    /// Datagrams that did not come.
    pub fn lost(&self) -> u64 {
        self.highest.saturating_sub(self.received)
    }

    /// As the client reads it. Old clients read the low words alone.
    pub fn write(&self, bytes: &mut [u8]) {
        bytes[..REPORT_LEN].fill(0);
        put_word(bytes, 16, VERSION1 | NUMBERS_64);
        let jitter_us = self.jitter_16 / 16;
        for (at, value) in [
            (20, self.bytes >> 32),
            (24, self.bytes),
            (28, self.elapsed_us / 1_000_000),
            (32, self.elapsed_us % 1_000_000),
            (36, self.lost()),
            (40, self.reordered),
            (44, self.highest),
            (48, jitter_us / 1_000_000),
            (52, jitter_us % 1_000_000),
            (116, self.lost() >> 32),
            (120, self.reordered >> 32),
            (124, self.highest >> 32),
        ] {
            put_word(bytes, at, value as u32);
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ([a, b, c, d], port) = (self.peer.0.to_be_bytes(), self.peer.1);
        let Report { bytes, received, reordered, copies, elapsed_us, .. } = self;
        write!(f, "iperf2 {a}.{b}.{c}.{d}:{port} received={received} lost={} ", self.lost())?;
        write!(f, "reordered={reordered} copies={copies} bytes={bytes} us={elapsed_us}")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const PEER: Peer = (0xc612_0001, 40_000);
    /// As `iperf -c -u` sends it: extended, 64 bits, with the header's length.
    const FLAGS: u32 = 0x4801_00a0;

    fn datagram(number: i64, sent_us: u32, flags: u32, len: usize) -> Vec<u8> {
        let mut data = vec![0; len];
        for (at, word) in [(0, number as u32), (8, sent_us), (12, (number >> 32) as u32), (16, flags)] {
            put_word(&mut data, at, word);
        }
        data
    }

    fn feed(server: &mut Server, numbers: &[i64]) -> Vec<Heard> {
        let each =
            |(at, &number): (usize, &i64)| server.handle(at as u64 * 1000, PEER, &datagram(number, 0, FLAGS, 100));
        numbers.iter().enumerate().map(each).collect()
    }

    #[test]
    fn what_is_missing_late_or_a_copy_is_told_apart() {
        let mut server = Server::default();
        let heard = feed(&mut server, &[1, 2, 2, 5, 4, 7, 5, -8, -9, 8]);
        assert_eq!(heard[7..], [Heard::End { again: false }, Heard::End { again: true }, Heard::Ignored]);
        let report = server.report(PEER).unwrap();
        assert_eq!((report.received, report.highest, report.lost()), (6, 8, 2));
        assert_eq!((report.reordered, report.copies, report.bytes, report.elapsed_us), (1, 2, 600, 7000));
    }

    /// Random streams on a fresh seed, against a set of the numbers that were here.
    #[test]
    fn counts_are_those_of_a_set() {
        let mut state = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64 | 1;
        eprintln!("seed {state}");
        let mut random = move |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        };
        for _ in 0..200 {
            let mut server = Server::default();
            let (mut next, mut here, mut copies) = (1, BTreeSet::new(), 0);
            for at in 0..500 {
                let back = if random(4) == 0 { random(900).min(next - 1) } else { 0 };
                let id = if at == 0 { 1 } else { (next - back).max(1) };
                next = next.max(id + 1 + random(3) * random(2) * random(40));
                server.handle(at, PEER, &datagram(id as i64, 0, FLAGS, 64));
                copies += u64::from(!here.insert(id));
            }
            let report = server.report(PEER).unwrap();
            let highest = *here.last().unwrap();
            assert_eq!((report.received, report.highest, report.copies), (here.len() as u64, highest, copies));
        }
    }

    #[test]
    fn jitter_is_a_sixteenth_of_each_change() {
        let mut server = Server::default();
        for (number, (now, sent)) in (1..).zip([(100, 0), (1100, 1000), (2260, 2000)]) {
            server.handle(now, PEER, &datagram(number, sent, FLAGS, 100));
        }
        assert_eq!(server.report(PEER).unwrap().jitter_16, 160);
    }

    #[test]
    fn only_tests_that_are_served_begin() {
        let first = |data: &[u8]| Server::default().handle(0, PEER, data);
        assert_eq!(first(&datagram(1, 0, FLAGS, 100)), Heard::Counted);
        assert_eq!(
            first(&datagram(1, 0, u32::from_be_bytes(*b"6789"), 100)),
            Heard::Counted,
            "a client without a header"
        );
        assert_eq!(first(&datagram(1, 0, FLAGS | VERSION2, 100)), Heard::Ignored, "the server is to send");
        assert_eq!(first(&datagram(1, 0, FLAGS | VERSION1, 100)), Heard::Ignored, "both ways");
        assert_eq!(first(&datagram(-1, 0, FLAGS, 100)), Heard::Ignored, "a test does not begin with its end");
        assert_eq!(first(&datagram(0, 0, FLAGS, 100)), Heard::Ignored);
        assert_eq!(first(&[0; 3]), Heard::Ignored);
        assert_eq!(first(&datagram(1, 0, FLAGS, 100)[..18]), Heard::Counted, "the smallest that a client sends");
    }

    #[test]
    fn a_test_keeps_its_place_until_it_ends_or_is_silent() {
        let mut server = Server::default();
        let mut begin = |now: u64, port: u16| server.handle(now, (PEER.0, port), &datagram(1, 0, FLAGS, 100));
        for port in 0..SESSIONS as u16 {
            assert_eq!(begin(u64::from(port), port), Heard::Counted);
        }
        assert_eq!(begin(100, 99), Heard::Ignored);
        assert_eq!(begin(SILENCE_US + 1, 99), Heard::Counted, "in the place of the one that is silent for longest");
        assert_eq!(server.report((PEER.0, 0)), None);
        assert!(server.report((PEER.0, 1)).is_some());
    }

    /// The same client's port again: a new test, with counts of its own.
    #[test]
    fn a_test_begins_anew_after_its_end() {
        let mut server = Server::default();
        feed(&mut server, &[1, 2, -3]);
        assert_eq!(server.handle(10_000, PEER, &datagram(1, 0, FLAGS, 100)), Heard::Counted);
        assert_eq!(server.report(PEER).unwrap().received, 1);
    }

    #[test]
    fn numbers_at_the_ends_of_their_range_are_counted() {
        let mut server = Server::default();
        feed(&mut server, &[1, i64::MAX, i64::MIN]);
        let report = server.report(PEER).unwrap();
        assert_eq!((report.received, report.highest, report.lost()), (3, 1 << 63, (1 << 63) - 3));
        let mut bytes = [0xff; REPORT_LEN];
        report.write(&mut bytes);
        assert_eq!(
            (word(&bytes, 44), word(&bytes, 124), word(&bytes, 16)),
            (Some(0), Some(1 << 31), Some(0x8800_0000))
        );
    }
}
