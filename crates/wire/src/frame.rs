//! The frames of a test: where the test header stands behind Ethernet, VLAN tags, IP and UDP, and what it says.
//! Knows no interfaces and no rates; whole frames with their headers are made in [`crate::template`].
//!
//! ```text
//!  octet 0            12         14+4t                     14+4t+i       18 more
//!        +------------+----------+-------------------------+-------------+---------
//!        | MAC to,from| 0-2 tags | nothing · IPv4 + UDP    | test header | padding …
//!        |            | and type | · IPv6 + UDP            |             |
//!        +------------+----------+-------------------------+-------------+---------
//!
//!  test header 0        4      6          10           18
//!              +--------+------+----------+------------+
//!              | secret |stream| sequence | sent_at_ns |     big-endian
//!              +--------+------+----------+------------+
//! ```
//! A frame of 64 octets is one whose FCS is among them, as the field counts; Linux has 60 of it in hand.

/// Octets of a test header.
pub const TEST_HEADER_LEN: usize = 18;
/// The EtherType of raw test frames: the first of the two for local experiments (IEEE 802, clause 9.2.4).
pub const RAW_ETHERTYPE: u16 = 0x88B5;
/// The UDP port of test frames, at both ends: discard (RFC 863).
pub const TEST_PORT: u16 = 9;

/// Octets of an Ethernet header without tags.
pub const ETHERNET_LEN: usize = 14;
/// Octets of a VLAN tag (IEEE 802.1Q, clause 9.5).
pub const TAG_LEN: usize = 4;
/// Octets of the frame check sequence, which Linux does not hand out.
pub const FCS_LEN: usize = 4;

pub(crate) const IPV4: u16 = 0x0800;
pub(crate) const IPV6: u16 = 0x86DD;
/// A customer's tag (802.1Q), and a service provider's before it (802.1ad).
pub(crate) const CUSTOMER_TAG: u16 = 0x8100;
pub(crate) const SERVICE_TAG: u16 = 0x88A8;
pub(crate) const UDP: u8 = 17;

/// What a test frame carries between the Ethernet header and the test header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FrameKind {
    /// Nothing, under an EtherType of its own.
    Raw,
    /// IPv4 without options, and UDP.
    Udp4,
    /// IPv6 without extensions, and UDP.
    Udp6,
}

impl FrameKind {
    /// Octets of IP and UDP.
    pub const fn headers_len(self) -> usize {
        match self {
            FrameKind::Raw => 0,
            FrameKind::Udp4 => 20 + 8,
            FrameKind::Udp6 => 40 + 8,
        }
    }

    /// The EtherType, behind the tags.
    pub const fn ethertype(self) -> u16 {
        match self {
            FrameKind::Raw => RAW_ETHERTYPE,
            FrameKind::Udp4 => IPV4,
            FrameKind::Udp6 => IPV6,
        }
    }

    /// Where the test header stands in a frame with so many tags.
    pub const fn header_at(self, tags: usize) -> usize {
        ETHERNET_LEN + tags * TAG_LEN + self.headers_len()
    }

    /// The smallest frame of this kind, FCS counted. Ethernet's own smallest is 64; a tag does not raise it
    /// (IEEE 802.3, clause 3.2.8: the pad fills what is missing).
    pub const fn smallest(self, tags: usize) -> usize {
        let least = self.header_at(tags) + TEST_HEADER_LEN + FCS_LEN;
        if least < 64 { 64 } else { least }
    }
}

/// The stream of a frame, and what else stands in its sixteen bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StreamField(pub u16);

impl StreamField {
    /// An echo sent the frame back: it is never sent back again.
    pub const ECHOED: u16 = 1 << 15;
    /// The frame belongs to the warm-up. Its numbers go on in the measured part.
    pub const WARMUP: u16 = 1 << 14;
    /// No test traffic: a [`Handshake`](crate::Handshake) follows the test header.
    pub const HANDSHAKE: u16 = 1 << 13;

    /// The number of the stream alone.
    pub const fn stream(self) -> u16 {
        self.0 & !(Self::ECHOED | Self::WARMUP | Self::HANDSHAKE)
    }

    /// Whether this bit is set.
    pub const fn has(self, bit: u16) -> bool {
        self.0 & bit != 0
    }
}

/// What a test frame says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TestHeader {
    /// Known to both ends of this trial, and to nobody else.
    pub secret: u32,
    /// Which stream it is of.
    pub stream: StreamField,
    /// Its number in the stream, from 0; after 2^32 they begin again.
    pub sequence: u32,
    /// The sender's monotonic clock, nanoseconds. Only differences mean anything.
    pub sent_at_ns: u64,
}

impl TestHeader {
    /// Where the fields stand in the test header.
    pub const SECRET_AT: usize = 0;
    /// See [`TestHeader::SECRET_AT`].
    pub const STREAM_AT: usize = 4;
    /// See [`TestHeader::SECRET_AT`].
    pub const SEQUENCE_AT: usize = 6;
    /// See [`TestHeader::SECRET_AT`].
    pub const SENT_AT_NS_AT: usize = 10;

    /// Its octets.
    #[inline]
    pub fn emit(&self) -> [u8; TEST_HEADER_LEN] {
        let mut octets = [0; TEST_HEADER_LEN];
        octets[..4].copy_from_slice(&self.secret.to_be_bytes());
        octets[4..6].copy_from_slice(&self.stream.0.to_be_bytes());
        octets[6..10].copy_from_slice(&self.sequence.to_be_bytes());
        octets[10..].copy_from_slice(&self.sent_at_ns.to_be_bytes());
        octets
    }

    /// Reads one from the start of `octets`; `None` if they are too few. Whether the secret is right is for the caller.
    #[inline]
    pub fn parse(octets: &[u8]) -> Option<TestHeader> {
        let octets = octets.first_chunk::<TEST_HEADER_LEN>()?;
        let (secret, rest) = octets.split_first_chunk::<4>()?;
        let (stream, rest) = rest.split_first_chunk::<2>()?;
        let (sequence, time) = rest.split_first_chunk::<4>()?;
        Some(TestHeader {
            secret: u32::from_be_bytes(*secret),
            stream: StreamField(u16::from_be_bytes(*stream)),
            sequence: u32::from_be_bytes(*sequence),
            sent_at_ns: u64::from_be_bytes(*time.first_chunk()?),
        })
    }
}

/// A test frame as it was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TestFrame<'a> {
    /// What it carries.
    pub kind: FrameKind,
    /// How many tags were in its octets. The kernel takes the outer one out before a packet socket sees the frame.
    pub tags: usize,
    /// The Ethernet address of its sender.
    pub from: [u8; 6],
    /// What it says of itself.
    pub header: TestHeader,
    /// What follows the test header.
    pub rest: &'a [u8],
}

impl<'a> TestFrame<'a> {
    /// The frame in these octets, without FCS; `None` where it is none of a test, or cut short.
    #[inline]
    pub fn parse(octets: &'a [u8]) -> Option<TestFrame<'a>> {
        let from = *octets.get(6..12)?.first_chunk()?;
        let mut tags = 0;
        let mut ethertype = ethertype_at(octets, 12)?;
        while matches!(ethertype, CUSTOMER_TAG | SERVICE_TAG) {
            tags += 1;
            if tags > 2 {
                return None;
            }
            ethertype = ethertype_at(octets, 12 + tags * TAG_LEN)?;
        }
        let network = octets.get(ETHERNET_LEN + tags * TAG_LEN..)?;
        let kind = match ethertype {
            RAW_ETHERTYPE => FrameKind::Raw,
            // Version 4 and a header of five words; nothing of it is a later fragment.
            IPV4 if network.first() == Some(&0x45) && network.get(9) == Some(&UDP) && is_whole(network) => {
                FrameKind::Udp4
            }
            IPV6 if network.first().is_some_and(|octet| octet >> 4 == 6) && network.get(6) == Some(&UDP) => {
                FrameKind::Udp6
            }
            _ => return None,
        };
        let payload = network.get(kind.headers_len()..)?;
        let header = TestHeader::parse(payload)?;
        Some(TestFrame { kind, tags, from, header, rest: &payload[TEST_HEADER_LEN..] })
    }
}

/// Neither "more fragments" nor an offset (RFC 791, section 3.1).
fn is_whole(ipv4: &[u8]) -> bool {
    ipv4.get(6..8).is_some_and(|word| u16::from_be_bytes([word[0], word[1]]) & 0x3FFF == 0)
}

fn ethertype_at(octets: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*octets.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: TestHeader =
        TestHeader { secret: 0x0102_0304, stream: StreamField(0x8506), sequence: 0x0708_090A, sent_at_ns: 0x0B0C };

    #[test]
    fn the_layout_is_fixed() {
        assert_eq!(HEADER.emit(), [1, 2, 3, 4, 0x85, 6, 7, 8, 9, 10, 0, 0, 0, 0, 0, 0, 11, 12]);
        assert_eq!(TestHeader::parse(&HEADER.emit()), Some(HEADER));
        assert_eq!(TestHeader::parse(&HEADER.emit()[..17]), None);
        let at = [
            TestHeader::SECRET_AT,
            TestHeader::STREAM_AT,
            TestHeader::SEQUENCE_AT,
            TestHeader::SENT_AT_NS_AT,
            TEST_HEADER_LEN,
        ];
        assert_eq!(at, [0, 4, 6, 10, 18]);
    }

    #[test]
    fn a_stream_is_a_number_and_three_marks() {
        let field = StreamField(0x8506);
        assert!(field.has(StreamField::ECHOED) && !field.has(StreamField::WARMUP | StreamField::HANDSHAKE));
        assert_eq!(field.stream(), 0x0506);
        assert_eq!(StreamField(u16::MAX).stream(), 0x1FFF);
    }

    #[test]
    fn where_the_header_stands_and_how_small_a_frame_can_be() {
        use FrameKind::{Raw, Udp4, Udp6};
        for (kind, tags, at, smallest) in [
            (Raw, 0, 14, 64),
            (Raw, 2, 22, 64),
            (Udp4, 0, 42, 64), // 42 + 18 + 4: UDP over IPv4 just fits
            (Udp4, 1, 46, 68),
            (Udp6, 0, 62, 84),
            (Udp6, 2, 70, 92),
        ] {
            assert_eq!((kind.header_at(tags), kind.smallest(tags)), (at, smallest), "{kind:?} {tags}");
        }
    }

    /// A raw frame of 60 octets with these tags.
    fn raw(tags: &[u16]) -> [u8; 60] {
        let mut frame = [0xEE; 60];
        let mut at = 12;
        for tag in tags {
            frame[at..at + 4].copy_from_slice(&[(tag >> 8) as u8, *tag as u8, 0, 5]);
            at += TAG_LEN;
        }
        frame[at..at + 2].copy_from_slice(&RAW_ETHERTYPE.to_be_bytes());
        frame[at + 2..at + 2 + TEST_HEADER_LEN].copy_from_slice(&HEADER.emit());
        frame
    }

    #[test]
    fn tags_are_skipped_up_to_two() {
        for (tags, count) in [(&[][..], 0), (&[CUSTOMER_TAG], 1), (&[SERVICE_TAG, CUSTOMER_TAG], 2)] {
            let frame = raw(tags);
            let parsed = TestFrame::parse(&frame).unwrap();
            assert_eq!((parsed.kind, parsed.tags, parsed.header), (FrameKind::Raw, count, HEADER));
            assert_eq!(parsed.from, [0xEE; 6]);
            assert_eq!(parsed.rest.len(), 60 - 14 - 4 * count - 18);
        }
        assert_eq!(TestFrame::parse(&raw(&[CUSTOMER_TAG; 3])), None);
    }

    #[test]
    fn whatever_is_cut_short_or_foreign_is_no_test_frame() {
        let frame = raw(&[CUSTOMER_TAG]);
        for len in 0..frame.len() {
            assert_eq!(TestFrame::parse(&frame[..len]).is_some(), len >= 36, "{len}");
        }
        let mut other = raw(&[]);
        other[13] = 0xB6;
        assert_eq!(TestFrame::parse(&other), None);
    }
}
