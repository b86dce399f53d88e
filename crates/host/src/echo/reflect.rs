//! What a frame becomes on its way back: the obvious form, which the XDP program is held against.
//! Knows no sockets.

use linerate_wire::frame::{ETHERNET_LEN, FrameKind, StreamField, TAG_LEN, TestFrame, TestHeader};

/// What becomes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is ready to be sent back.
    Echo,
    /// It is for many, or said to be from many; it is as it was.
    Multicast,
    /// An echo sent it; it is as it was.
    Returned,
    /// It has not this trial's secret; it is as it was.
    Stranger,
}

/// Turns a frame round where it stands.
pub(super) fn reflect(frame: &mut [u8], secret: u32) -> Verdict {
    let Some(parsed) = TestFrame::parse(frame).filter(|parsed| parsed.header.secret == secret) else {
        return Verdict::Stranger;
    };
    let (kind, header_at) = (parsed.kind, parsed.kind.header_at(parsed.tags));
    if parsed.header.stream.has(StreamField::ECHOED) {
        return Verdict::Returned;
    }
    let network_at = ETHERNET_LEN + parsed.tags * TAG_LEN;
    let is_multicast = (frame[0] | frame[6]) & 1 != 0
        || match kind {
            FrameKind::Raw => false,
            // 224.0.0.0/4, and what lies beyond it (RFC 1112, section 4).
            FrameKind::Udp4 => frame[network_at + 12] >= 224 || frame[network_at + 16] >= 224,
            // ff00::/8 (RFC 4291, section 2.7).
            FrameKind::Udp6 => frame[network_at + 8] == 0xFF || frame[network_at + 24] == 0xFF,
        };
    if is_multicast {
        return Verdict::Multicast;
    }
    swap(frame, 0, 6);
    match kind {
        FrameKind::Raw => {}
        FrameKind::Udp4 => swap(frame, network_at + 12, 4),
        FrameKind::Udp6 => swap(frame, network_at + 8, 16),
    }
    // Sums do not change when what is summed changes places; the one new bit does change UDP's.
    frame[header_at + TestHeader::STREAM_AT] |= StreamField::ECHOED.to_be_bytes()[0];
    if kind != FrameKind::Raw {
        swap(frame, header_at - 8, 2);
        let checksum_at = header_at - 2;
        let old = u16::from_be_bytes([frame[checksum_at], frame[checksum_at + 1]]);
        frame[checksum_at..header_at].copy_from_slice(&with_bit(old).to_be_bytes());
    }
    Verdict::Echo
}

/// Two neighbours of so many octets change places.
fn swap(frame: &mut [u8], at: usize, octets: usize) {
    let (one, other) = frame[at..at + 2 * octets].split_at_mut(octets);
    one.swap_with_slice(other);
}

/// UDP's checksum after the highest bit of a word became 1 (RFC 1624, equation 3); 0 is none at all (RFC 768).
fn with_bit(checksum: u16) -> u16 {
    if checksum == 0 {
        return 0;
    }
    let sum = u32::from(!checksum) + u32::from(StreamField::ECHOED);
    match !((sum & 0xFFFF) + (sum >> 16)) as u16 {
        0 => 0xFFFF,
        checksum => checksum,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use linerate_wire::template::{Template, Vlans};

    use super::*;

    pub(in crate::echo) const SECRET: u32 = 0xfeed_f00d;

    /// A frame of each kind, and of some sizes.
    pub(in crate::echo) fn frames() -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        for kind in [FrameKind::Raw, FrameKind::Udp4, FrameKind::Udp6] {
            for vlans in [&[][..], &[7], &[7, 8]] {
                for more in [0, 1, 500] {
                    let vlans = Vlans::new(vlans).unwrap();
                    let frame_len = kind.smallest(vlans.count()) + more;
                    let (to, from) = ([2, 1, 1, 1, 1, 1], [2, 2, 2, 2, 2, 2]);
                    let template =
                        Template { kind, vlans, to, from, frame_len, reverse: false, ends: None, hops: 9, dscp: 1 };
                    let mut frame = vec![0; template.octets()];
                    template.write(77, &mut frame).unwrap();
                    let stream = StreamField(5 | StreamField::WARMUP);
                    let sequence = 0x1234_5678 + more as u32;
                    template.stamp(&TestHeader { secret: SECRET, stream, sequence, sent_at_ns: 0xfff }, &mut frame);
                    frames.push(frame);
                }
            }
        }
        frames
    }

    #[test]
    fn what_comes_back_is_what_the_other_end_would_have_sent() {
        for sent in frames() {
            let mut back = sent.clone();
            assert_eq!(reflect(&mut back, SECRET), Verdict::Echo);
            let (there, here) = (TestFrame::parse(&sent).unwrap(), TestFrame::parse(&back).unwrap());
            let stream = StreamField(there.header.stream.0 | StreamField::ECHOED);
            assert_eq!(here.header, TestHeader { stream, ..there.header });
            assert_eq!((here.from[..].as_ref(), &back[..6]), (&sent[..6], there.from[..].as_ref()));
            // A checksum over the whole is as right as it was.
            let sum = |frame: &[u8]| {
                let network = &frame[ETHERNET_LEN + there.tags * TAG_LEN..];
                let sum: u32 =
                    network.chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(*w.get(1).unwrap_or(&0))).sum();
                (sum & 0xFFFF) + (sum >> 16)
            };
            if there.kind != FrameKind::Raw {
                assert_eq!(sum(&back) % 0xFFFF, sum(&sent) % 0xFFFF);
            }
            // It is not turned round again.
            let once = back.clone();
            assert_eq!((reflect(&mut back, SECRET), &back), (Verdict::Returned, &once));
        }
    }

    #[test]
    fn what_is_not_answered_is_left_as_it_was() {
        for sent in frames() {
            let network_at = ETHERNET_LEN + TestFrame::parse(&sent).unwrap().tags * TAG_LEN;
            let check = |at: usize, octet: u8, verdict| {
                let mut frame = sent.clone();
                frame[at] = octet;
                let before = frame.clone();
                assert_eq!((reflect(&mut frame, SECRET), &frame), (verdict, &before), "{at}");
            };
            check(0, 0xFF, Verdict::Multicast);
            check(6, 0x03, Verdict::Multicast);
            match TestFrame::parse(&sent).unwrap().kind {
                FrameKind::Raw => {}
                FrameKind::Udp4 => {
                    check(network_at + 12, 224, Verdict::Multicast);
                    check(network_at + 16, 255, Verdict::Multicast);
                }
                FrameKind::Udp6 => {
                    check(network_at + 8, 0xFF, Verdict::Multicast);
                    check(network_at + 24, 0xFF, Verdict::Multicast);
                }
            }
            let mut other = sent.clone();
            assert_eq!(reflect(&mut other, SECRET + 1), Verdict::Stranger);
            assert_eq!(reflect(&mut other[..30], SECRET), Verdict::Stranger);
            assert_eq!(other, sent);
        }
    }

    #[test]
    fn a_frame_without_a_checksum_gets_none() {
        assert_eq!([0, 1, 0x7FFF, 0xFFFF, 0x8000].map(with_bit), [0, 0x8000, 0xFFFE, 0x7FFF, 0xFFFF]);
    }
}
