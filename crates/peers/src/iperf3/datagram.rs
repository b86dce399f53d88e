//! iperf3's datagrams: a time and a number, big-endian, before what fills them; and the two words that open a stream.
//! Knows no sockets and no order.

use linerate_host::traffic::{Codec, Framing};
use linerate_trial::wire::Probe;

use super::parameters::Parameters;

/// What a client sends to open a stream: ASCII.
pub const HELLO: [u8; 4] = *b"9876";
/// What the server answers.
pub const REPLY: [u8; 4] = *b"6789";
/// What servers before 3.1 answer, in their own byte order.
const OLD_REPLY: u32 = 987_654_321;
/// The smallest datagram.
pub const MIN_LEN: usize = 16;

/// Whether these octets answer a hello, by any version.
pub fn is_reply(octets: &[u8]) -> bool {
    octets == REPLY || octets == OLD_REPLY.to_le_bytes() || octets == OLD_REPLY.to_be_bytes()
}

/// Octets of a datagram's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counters {
    /// 32 bits.
    Short,
    /// 64 bits, where both ends agreed on it.
    Long,
}

/// Writes the head of a datagram. Numbers on the wire begin with 1.
pub fn emit(counters: Counters, probe: &Probe, octets: &mut [u8]) {
    let (seconds, ns) = (probe.sent_at_ns / 1_000_000_000, probe.sent_at_ns % 1_000_000_000);
    let number = probe.sequence.wrapping_add(1);
    octets[..4].copy_from_slice(&(seconds as u32).to_be_bytes());
    octets[4..8].copy_from_slice(&((ns / 1000) as u32).to_be_bytes());
    match counters {
        Counters::Short => octets[8..12].copy_from_slice(&(number as u32).to_be_bytes()),
        Counters::Long => octets[8..16].copy_from_slice(&number.to_be_bytes()),
    }
}

/// Reads the head of a datagram: its number from 0, and the time it bears in nanoseconds. `None`: too short, or of the
/// number 0, which no sender gives.
pub fn parse(counters: Counters, octets: &[u8]) -> Option<(u64, u64)> {
    let word = |at: usize| Some(u32::from_be_bytes(octets.get(at..at + 4)?.try_into().ok()?));
    let sent_at_ns = u64::from(word(0)?) * 1_000_000_000 + u64::from(word(4)?) * 1000;
    let number = match counters {
        Counters::Short => u64::from(word(8)?),
        Counters::Long => u64::from(word(8)?) << 32 | u64::from(word(12)?),
    };
    Some((number.checked_sub(1)?, sent_at_ns))
}

/// The datagrams of a test in which both ends agreed on numbers of 64 bits, or did not.
pub struct Datagrams<const LONG: bool>;

impl<const LONG: bool> Datagrams<LONG> {
    const COUNTERS: Counters = if LONG { Counters::Long } else { Counters::Short };
}

impl<const LONG: bool> Codec for Datagrams<LONG> {
    fn emit(&self, probe: &Probe, octets: &mut [u8]) {
        emit(Self::COUNTERS, probe, octets);
    }

    fn parse(&self, octets: &[u8]) -> Option<(u64, u64)> {
        parse(Self::COUNTERS, octets)
    }

    /// The control connection says it.
    fn ends_itself(&self) -> bool {
        false
    }
}

/// What the datagrams look like with these parameters.
pub fn framing(parameters: &Parameters) -> Framing {
    if parameters.udp_counters_64bit { Framing::new(Datagrams::<true>) } else { Framing::new(Datagrams::<false>) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_is_as_the_peers_write_it() {
        let probe = Probe { sequence: 0x1_0000_0004, measured: true, sent_at_ns: 3_000_007_000 };
        let mut octets = [0xaa; 17];
        emit(Counters::Long, &probe, &mut octets);
        assert_eq!(octets, *b"\0\0\0\x03\0\0\0\x07\0\0\0\x01\0\0\0\x05\xaa");
        assert_eq!(parse(Counters::Long, &octets), Some((0x1_0000_0004, 3_000_007_000)));
        let mut octets = [0xaa; 17];
        emit(Counters::Short, &probe, &mut octets);
        assert_eq!(octets, *b"\0\0\0\x03\0\0\0\x07\0\0\0\x05\xaa\xaa\xaa\xaa\xaa");
        assert_eq!(parse(Counters::Short, &octets), Some((4, 3_000_007_000)));
    }

    #[test]
    fn what_is_short_or_has_no_number_is_none() {
        assert_eq!(parse(Counters::Long, &[1; 15]), None);
        assert_eq!(parse(Counters::Short, &[1; 11]), None);
        assert_eq!(parse(Counters::Short, &[0; 12]), None);
        assert!(parse(Counters::Long, &[0xff; 16]).is_some());
    }

    #[test]
    fn replies_of_old_servers_count() {
        assert!(
            is_reply(b"6789") && is_reply(&987_654_321u32.to_le_bytes()) && is_reply(&987_654_321u32.to_be_bytes())
        );
        assert!(!is_reply(b"9876") && !is_reply(b"678") && !is_reply(b"67890"));
    }
}
