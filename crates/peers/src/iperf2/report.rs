//! The server's report at the end of a UDP test, by which the client also learns that its end was heard ("AckFIN").
//! Knows no sockets.

/// Octets of a report, as versions from 2.0.13 on send it.
pub const LEN: usize = 128;
/// Octets that older ones have.
const OLD_LEN: usize = 56;

const VERSION1: u32 = 0x8000_0000;
const COUNTS_64: u32 = 0x0800_0000;

/// What a server received.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Report {
    /// Octets, the last datagram's included.
    pub octets: u64,
    /// From the first to the last, microseconds.
    pub elapsed_us: u64,
    /// Datagrams that are missing.
    pub lost: u64,
    /// Datagrams that came behind one with a higher number.
    pub reordered: u64,
    /// The highest number: the datagrams that were sent, the last one included.
    pub datagrams: u64,
    /// RFC 1889's jitter, microseconds.
    pub jitter_us: u64,
    /// Its counts of datagrams are of 32 bits, signed.
    pub is_short: bool,
}

impl Report {
    /// The report as octets: a datagram's number of 0, then words.
    pub fn emit(&self) -> [u8; LEN] {
        let mut octets = [0; LEN];
        let mut put = |at: usize, word: u64| octets[at..at + 4].copy_from_slice(&(word as u32).to_be_bytes());
        put(16, (VERSION1 | COUNTS_64).into());
        put(20, self.octets >> 32);
        put(24, self.octets);
        put(28, self.elapsed_us / 1_000_000);
        put(32, self.elapsed_us % 1_000_000);
        for (low, high, count) in [(36, 116, self.lost), (40, 120, self.reordered), (44, 124, self.datagrams)] {
            put(low, count);
            put(high, count >> 32);
        }
        put(48, self.jitter_us / 1_000_000);
        put(52, self.jitter_us % 1_000_000);
        octets
    }

    /// Reads a report; `None` where it is none.
    pub fn parse(octets: &[u8]) -> Option<Report> {
        let word = |at: usize| Some(u64::from(u32::from_be_bytes(octets.get(at..at + 4)?.try_into().ok()?)));
        if octets.len() < OLD_LEN || octets[..4] != [0; 4] {
            return None;
        }
        let flags = word(16)? as u32;
        if flags & VERSION1 == 0 {
            return None;
        }
        let high = |at: usize| if flags & COUNTS_64 != 0 { word(at).unwrap_or(0) << 32 } else { 0 };
        let us = |at: usize| Some(word(at)? * 1_000_000 + word(at + 4)?.min(999_999));
        Some(Report {
            octets: word(20)? << 32 | word(24)?,
            elapsed_us: us(28)?,
            lost: word(36)? | high(116),
            reordered: word(40)? | high(120),
            datagrams: word(44)? | high(124),
            jitter_us: us(48)?,
            is_short: flags & COUNTS_64 == 0 || octets.len() < LEN,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_2_1_8_reports_is_understood() {
        // Ten datagrams of 280 octets and the last one, the fourth missing.
        let mut octets = [0; LEN];
        octets[16] = 0xc8;
        for (at, word) in [(24, 2800), (32, 0x316e6), (36, 1), (44, 11), (52, 7)] {
            octets[at..at + 4].copy_from_slice(&u32::to_be_bytes(word));
        }
        let report = Report::parse(&octets).unwrap();
        assert_eq!((report.octets, report.lost, report.datagrams, report.reordered), (2800, 1, 11, 0));
        assert_eq!((report.elapsed_us, report.jitter_us), (202_470, 7));
        assert_eq!(Report::parse(&octets[..56]), Some(Report { is_short: true, ..report }), "as old servers send it");
    }

    #[test]
    fn counts_have_64_bits() {
        let report = Report {
            octets: 0x12_3456_789a,
            elapsed_us: 3_000_001,
            lost: 0x5_0000_0001,
            reordered: 0x6_0000_0002,
            datagrams: 0x7_0000_0003,
            jitter_us: 1_000_005,
            is_short: false,
        };
        assert_eq!(Report::parse(&report.emit()), Some(report));
    }

    #[test]
    fn what_is_no_report_is_none() {
        assert_eq!(Report::parse(&[0; LEN]), None, "no version");
        assert_eq!(Report::parse(&[0xff; LEN]), None, "a datagram with a number is data");
        assert_eq!(Report::parse(&Report::default().emit()[..55]), None);
    }
}
