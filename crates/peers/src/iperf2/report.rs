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
    /// From before 2.1: the first datagram's octets are not among its own.
    pub is_old: bool,
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
        if octets.len() < OLD_LEN {
            return None;
        }
        // Before 2.1 the last datagram comes back, its negative number too, with the report written into it: behind 12 octets
        // before 2.0.10.
        let number = word(0)? as u32;
        let is_old = number.cast_signed() < 0;
        let at = if is_old && word(12)? == u64::from(VERSION1) { 12 } else { 16 };
        let flags = word(at)? as u32;
        if number != 0 && !(is_old && flags & !COUNTS_64 == VERSION1) || flags & VERSION1 == 0 {
            return None;
        }
        let after = |words: usize| word(at + 4 * words);
        let high = |at: usize| if flags & COUNTS_64 != 0 { word(at).unwrap_or(0) << 32 } else { 0 };
        let us = |words: usize| Some(after(words)? * 1_000_000 + after(words + 1)?.min(999_999));
        // 2.0.10 has a word between.
        let jitter_at = if is_old && at == 16 && flags & COUNTS_64 == 0 { 9 } else { 8 };
        let report = Report {
            octets: after(1)? << 32 | after(2)?,
            elapsed_us: us(3)?,
            lost: after(5)? | high(116),
            reordered: after(6)? | high(120),
            datagrams: after(7)? | high(124),
            jitter_us: us(jitter_at).unwrap_or(0),
            is_short: flags & COUNTS_64 == 0 || octets.len() < LEN,
            is_old,
        };
        Some(if is_old { report.of_all(number.wrapping_neg().into()) } else { report })
    }

    /// The octets of all datagrams, of this size, that arrived.
    pub fn all_octets(&self, size: u64) -> u64 {
        self.octets.saturating_add(if self.is_old { size } else { 0 })
    }

    /// The same with the first datagram, which before 2.1 counts as lost, where `last` is the last number: 2.0.10 takes its sign for a part
    /// of it, and what it received is right.
    fn of_all(self, last: u64) -> Report {
        let received = self.datagrams.saturating_sub(self.lost).saturating_add(1).min(last);
        Report { datagrams: last, lost: last - received, ..self }
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
            is_old: false,
        };
        assert_eq!(Report::parse(&report.emit()), Some(report));
    }

    #[test]
    fn what_versions_before_2_1_report_is_understood() {
        // Nine datagrams of 200 octets with the numbers 1 to 9, the last one's negated, as each of them told of these.
        for (version, head, jitter_us) in [
            (
                "2.0.5",
                "fffffff7 6b0aca12 00044573 80000000 00000000 00000640 00000000 00014300 00000001 00000000 00000009 00000000 00000002 00000000",
                2,
            ),
            (
                "2.0.10",
                "fffffff7 6b0aca15 00042df3 ffffffff 80000000 00000000 00000640 00000000 00014300 7fffffef 00000000 7ffffff7 00000000 00000000 00000004",
                4,
            ),
            (
                "2.0.13",
                "fffffff7 6b0aca18 000421f2 ffffffff 88000000 00000000 00000640 00000000 00014300 00000001 00000000 00000009 00000000 00000001 00000000",
                1,
            ),
        ] {
            let mut octets: Vec<u8> =
                head.split(' ').flat_map(|word| u32::from_str_radix(word, 16).unwrap().to_be_bytes()).collect();
            octets.resize(1470, 0);
            let report = Report::parse(&octets).unwrap();
            let counts = (report.octets, report.datagrams, report.lost, report.reordered);
            assert_eq!(counts, (1600, 9, 0, 0), "{version}");
            assert_eq!((report.elapsed_us, report.jitter_us, report.is_old), (82_688, jitter_us, true), "{version}");
        }
    }

    #[test]
    fn what_is_no_report_is_none() {
        assert_eq!(Report::parse(&[0; LEN]), None, "no version");
        assert_eq!(Report::parse(&[0xff; LEN]), None, "a datagram with a number is data");
        assert_eq!(Report::parse(&Report::default().emit()[..55]), None);
    }
}
