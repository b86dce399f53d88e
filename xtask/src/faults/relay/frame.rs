//! What an Ethernet frame carries, as far as the relay distinguishes frames.
//! Knows headers only; a checksum is left as it is.

/// What a frame is to the relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) kind: Kind,
    /// The length of its IP packet, as its header says.
    pub(super) ip_octets: u32,
    /// Where the payload of TCP or UDP begins and ends in the frame.
    pub(super) payload: (usize, usize),
}

/// What the packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A TCP segment with payload.
    TcpData,
    /// A TCP segment without: SYN, ACK, FIN.
    TcpBare,
    /// A UDP datagram, or its first fragment.
    Udp,
    /// A fragment that is not the first.
    Fragment,
    /// ARP, neighbour discovery, ICMP, and whatever else is not the test's.
    Other,
}

impl Kind {
    /// Whether it belongs to a test: nothing else speaks TCP or UDP between these machines.
    pub(super) fn is_test(self) -> bool {
        self != Kind::Other
    }
}

const ETHERNET: usize = 14;

/// Looks at a frame; what is cut short is `Other`.
pub(super) fn look(frame: &[u8]) -> Seen {
    let other = Seen { kind: Kind::Other, ip_octets: frame.len().saturating_sub(ETHERNET) as u32, payload: (0, 0) };
    look_into(frame).unwrap_or(other)
}

fn look_into(frame: &[u8]) -> Option<Seen> {
    let word = |at: usize| Some(u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]));
    // RFC 791, section 3.1; RFC 8200, section 3, and 4.5 for its fragment header, which comes first where there is one.
    let (protocol, transport, len, is_later_fragment) = match word(12)? {
        0x0800 => {
            let header = usize::from(frame.get(ETHERNET)? & 0xf) * 4;
            let is_later = word(ETHERNET + 6)? & 0x1fff != 0;
            (*frame.get(ETHERNET + 9)?, ETHERNET + header, usize::from(word(ETHERNET + 2)?), is_later)
        }
        0x86dd => {
            let len = 40 + usize::from(word(ETHERNET + 4)?);
            match *frame.get(ETHERNET + 6)? {
                44 => {
                    let header = ETHERNET + 40;
                    (*frame.get(header)?, header + 8, len, word(header + 2)? & 0xfff8 != 0)
                }
                protocol => (protocol, ETHERNET + 40, len, false),
            }
        }
        _ => return None,
    };
    let end = (ETHERNET + len).min(frame.len());
    let (kind, from) = match protocol {
        6 | 17 if is_later_fragment => (Kind::Fragment, transport),
        6 => {
            let header = usize::from(frame.get(transport + 12)? >> 4) * 4;
            let from = transport + header;
            (if from < end { Kind::TcpData } else { Kind::TcpBare }, from)
        }
        17 => (Kind::Udp, transport + 8),
        _ => return None,
    };
    Some(Seen { kind, ip_octets: len as u32, payload: (from.min(end), end) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ipv4(protocol: u8, fragment: u16, transport: &[u8]) -> Vec<u8> {
        let mut frame = vec![0; 12];
        frame.extend([0x08, 0x00, 0x45, 0, 0, 20 + transport.len() as u8, 0, 0]);
        frame.extend(fragment.to_be_bytes());
        frame.extend([64, protocol, 0, 0, 198, 18, 0, 1, 198, 18, 0, 2]);
        frame.extend(transport);
        frame
    }

    #[track_caller]
    fn check(frame: &[u8], kind: Kind, payload: usize) {
        let seen = look(frame);
        assert_eq!((seen.kind, seen.payload.1 - seen.payload.0), (kind, payload), "{seen:?}");
    }

    #[test]
    fn packets_are_told_apart() {
        let mut tcp = [0; 24];
        tcp[12] = 0x50;
        check(&ipv4(6, 0, &tcp), Kind::TcpData, 4);
        check(&ipv4(6, 0, &tcp[..20]), Kind::TcpBare, 0);
        check(&ipv4(17, 0x2000, &[0; 12]), Kind::Udp, 4);
        check(&ipv4(17, 100, &[0; 12]), Kind::Fragment, 12);
        check(&ipv4(1, 0, &[0; 12]), Kind::Other, 0);
        // Padding to the shortest frame is no payload.
        let mut padded = ipv4(6, 0, &tcp[..20]);
        padded.resize(60, 0);
        check(&padded, Kind::TcpBare, 0);
    }

    #[test]
    fn what_is_cut_short_is_no_test_s() {
        let whole = ipv4(6, 0, &[0; 20]);
        for len in 0..whole.len() - 8 {
            check(&whole[..len], Kind::Other, 0);
        }
    }
}
