//! iperf2's datagrams: a number of either sign and a time before the header and what fills them.
//! Knows no sockets and no order.

use std::collections::HashSet;

use linerate_trial::wire::Probe;

use super::header::{Header, NUMBERS_64};
use crate::early_datagrams::{LEAST_DATAGRAMS, StreamMarks};

/// Octets before the header.
pub const PREFIX_LEN: usize = 16;
/// The smallest datagram that the peer sends: it leaves room for half of the flags.
pub const MIN_LEN: usize = 18;
/// Octets that a receiver needs of a datagram: number, time and the high word.
const READ_LEN: usize = 12;

/// How many bits the numbers have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbers {
    /// 32, signed.
    Short,
    /// 64, signed.
    Long,
}

impl Numbers {
    /// As the header's flags say.
    pub fn of(flags: u32) -> Numbers {
        if flags & NUMBERS_64 != 0 { Numbers::Long } else { Numbers::Short }
    }
}

/// Writes the head of a datagram of data. Numbers on the wire begin with 1.
pub fn emit(probe: &Probe, octets: &mut [u8]) {
    write(probe.sequence.wrapping_add(1).cast_signed(), probe.sent_at_ns, octets);
}

/// The same for a stream whose first datagram somebody else has sent.
pub fn emit_after_first(probe: &Probe, octets: &mut [u8]) {
    write(probe.sequence.wrapping_add(2).cast_signed(), probe.sent_at_ns, octets);
}

/// Writes the head of the last datagram of such a stream, of which `number` is without the first.
pub fn emit_last_after_first(number: u64, sent_at_ns: u64, octets: &mut [u8]) {
    emit_last(number + 1, sent_at_ns, octets);
}

/// Writes the head of the last datagram, which bears its number negated.
pub fn emit_last(number: u64, sent_at_ns: u64, octets: &mut [u8]) {
    write(number.cast_signed().wrapping_neg(), sent_at_ns, octets);
}

fn write(number: i64, sent_at_ns: u64, octets: &mut [u8]) {
    let (seconds, ns) = (sent_at_ns / 1_000_000_000, sent_at_ns % 1_000_000_000);
    octets[..4].copy_from_slice(&(number as u32).to_be_bytes());
    octets[4..8].copy_from_slice(&(seconds as u32).to_be_bytes());
    octets[8..12].copy_from_slice(&((ns / 1000) as u32).to_be_bytes());
    octets[12..16].copy_from_slice(&((number >> 32) as u32).to_be_bytes());
}

/// The number as it stands there; `None`: too short.
pub fn number(numbers: Numbers, octets: &[u8]) -> Option<i64> {
    let word = |at: usize| Some(u32::from_be_bytes(octets.get(at..at + 4)?.try_into().ok()?));
    let low = word(0)?;
    Some(match numbers {
        Numbers::Short => low.cast_signed().into(),
        Numbers::Long => (u64::from(word(12)?) << 32 | u64::from(low)).cast_signed(),
    })
}

/// Reads the head of a datagram: its number from 0, and the time it bears in nanoseconds. The last one, which bears a
/// negative number, is a datagram like the others. `None`: too short, or of the number 0, which no sender gives.
pub fn parse(numbers: Numbers, octets: &[u8]) -> Option<(u64, u64)> {
    let number = number(numbers, octets)?;
    let head = octets.get(..READ_LEN)?;
    let word = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let sent_at_ns = u64::from(word(4)) * 1_000_000_000 + u64::from(word(8)) * 1000;
    Some((number.unsigned_abs().checked_sub(1)?, sent_at_ns))
}

/// Whether this is a sender's last datagram.
pub fn is_last(numbers: Numbers, octets: &[u8]) -> bool {
    number(numbers, octets).is_some_and(|number| number < 0)
}

/// What a client asks for with this datagram; `None` where it begins no test.
pub fn header(octets: &[u8]) -> Option<Header> {
    let header = Header::parse(octets.get(PREFIX_LEN..)?)?;
    let header = if Header::is_none(header.flags) { Header::none() } else { header };
    number(Numbers::of(header.flags), octets).filter(|number| *number > 0)?;
    Some(header)
}

/// How far apart the numbers of a stream's first datagrams are, with all that is lost between.
const MOST_APART: u64 = 1 << 16;

/// Where its streams begin and end.
pub struct Streams;

impl StreamMarks for Streams {
    fn begins(&self, octets: &[u8]) -> bool {
        header(octets).is_some()
    }

    fn ends(&self, stream: &[Vec<u8>], octets: &[u8]) -> bool {
        stream.first().and_then(|first| header(first)).is_some_and(|header| is_last(Numbers::of(header.flags), octets))
    }

    /// Each has a number of its own, not far from the first one's.
    fn is_stream(&self, datagrams: &[Vec<u8>]) -> bool {
        let numbers = datagrams.first().and_then(|first| header(first)).map(|header| Numbers::of(header.flags));
        let number = |octets: &Vec<u8>| number(numbers?, octets).map(i64::unsigned_abs);
        let Some(first) = datagrams.first().and_then(number) else { return false };
        let near = datagrams.iter().filter_map(number).filter(|number| number.abs_diff(first) < MOST_APART);
        near.collect::<HashSet<u64>>().len() >= LEAST_DATAGRAMS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_is_as_the_peers_write_it() {
        let mut octets = [0xaa; 18];
        emit(&Probe { sequence: 0x1_0000_0004, measured: true, sent_at_ns: 3_000_007_000 }, &mut octets);
        assert_eq!(octets, *b"\0\0\0\x05\0\0\0\x03\0\0\0\x07\0\0\0\x01\xaa\xaa");
        assert_eq!(parse(Numbers::Long, &octets), Some((0x1_0000_0004, 3_000_007_000)));
        assert_eq!(parse(Numbers::Short, &octets), Some((4, 3_000_007_000)));
    }

    #[test]
    fn the_last_is_numbered_after_the_others_and_negative() {
        // As 2.1.8 ends a test of eleven datagrams.
        let last = b"\xff\xff\xff\xf4\x6b\x01\x74\x58\0\x05\xfa\x7a\xff\xff\xff\xff";
        for numbers in [Numbers::Long, Numbers::Short] {
            assert_eq!(number(numbers, last), Some(-12));
            assert_eq!(parse(numbers, last).map(|(number, _)| number), Some(11));
            assert!(is_last(numbers, last) && !is_last(numbers, &last[4..]));
        }
        let mut ours = [0; 16];
        emit_last(12, 0, &mut ours);
        assert_eq!((&ours[..4], &ours[12..]), (&last[..4], &last[12..]));
    }

    #[test]
    fn what_is_short_or_has_no_number_is_none() {
        assert_eq!(parse(Numbers::Long, &[1; 15]), None);
        assert_eq!(parse(Numbers::Short, &[1; 11]), None);
        assert_eq!(parse(Numbers::Short, &[0; 12]), None);
        assert_eq!(parse(Numbers::Long, b"\0\0\0\0........\x80\0\0\0").map(|(number, _)| number), Some((1 << 63) - 1));
        assert_eq!(header(&[0xff; 80]), None, "a test does not begin with its end");
        assert_eq!(header(&[1; 39]), None);
    }
}
