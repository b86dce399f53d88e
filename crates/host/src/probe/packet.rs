//! Packets between two machines, as a packet socket sees them: which belong to probes, and what ICMP says of them.
//! Knows no sockets.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use linerate_machine::probe::{Packet, Protocol};
use socket2::SockFilter;

use super::{Secret, icmp_error, read};

const ETHERTYPE_IPV4: u32 = 0x0800;
const ETHERTYPE_IPV6: u32 = 0x86dd;
/// Octets of a packet that are looked at: all headers, and the beginning of a probe.
pub(super) const LOOKED_AT: usize = 256;

/// A filter (BPF of linux/filter.h) for packets from or to this address, and for ICMP, whosever it is: routers' errors.
pub(super) fn filter(peer: IpAddr) -> Vec<SockFilter> {
    let op = |code: u32, jt, jf, k| SockFilter::new(code as u16, jt, jf, k);
    let (ethertype, word, places, protocol, icmp) = match peer {
        IpAddr::V4(four) => (ETHERTYPE_IPV4, u32::from(four), [12, 16], 9, libc::IPPROTO_ICMP),
        // The last four octets tell enough.
        IpAddr::V6(six) => (ETHERTYPE_IPV6, six.to_bits() as u32, [20, 36], 6, libc::IPPROTO_ICMPV6),
    };
    let load = |size: u32, at: u32| op(libc::BPF_LD | size | libc::BPF_ABS, 0, 0, at);
    let jump = |value: u32, jt, jf| op(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, jt, jf, value);
    let take = |octets: usize| op(libc::BPF_RET | libc::BPF_K, 0, 0, octets as u32);
    vec![
        load(libc::BPF_H, (libc::SKF_AD_OFF + libc::SKF_AD_PROTOCOL).cast_unsigned()),
        jump(ethertype, 0, 6),
        load(libc::BPF_W, places[0]),
        jump(word, 5, 0),
        load(libc::BPF_W, places[1]),
        jump(word, 3, 0),
        load(libc::BPF_B, protocol),
        jump(icmp.cast_unsigned(), 1, 0),
        take(0),
        take(LOOKED_AT),
    ]
}

/// A packet between two machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RoutedPacket {
    pub(super) from: IpAddr,
    pub(super) to: IpAddr,
    pub(super) hops: u8,
    pub(super) packet: Packet,
    /// Of an error: where the packet that it is about was sent from and to.
    pub(super) about: Option<(IpAddr, IpAddr)>,
}

/// The header of IP.
struct Header<'a> {
    from: IpAddr,
    to: IpAddr,
    hops: u8,
    protocol: u8,
    /// Octets of the packet.
    octets: u32,
    rest: &'a [u8],
}

fn header(octets: &[u8]) -> Option<Header<'_>> {
    match octets.first()? >> 4 {
        4 => {
            let fixed: &[u8; 20] = octets.first_chunk()?;
            let four = |at: usize| Ipv4Addr::new(fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]);
            // Of fragments, only the first has the next header.
            if u16::from_be_bytes([fixed[6], fixed[7]]) & 0x1fff != 0 {
                return None;
            }
            Some(Header {
                from: four(12).into(),
                to: four(16).into(),
                hops: fixed[8],
                protocol: fixed[9],
                octets: u16::from_be_bytes([fixed[2], fixed[3]]).into(),
                rest: octets.get(usize::from(fixed[0] & 15) * 4..)?,
            })
        }
        6 => {
            let fixed: &[u8; 40] = octets.first_chunk()?;
            let sixteen = |at: usize| {
                let octets: Option<[u8; 16]> = fixed[at..at + 16].try_into().ok();
                octets.map(Ipv6Addr::from)
            };
            Some(Header {
                from: sixteen(8)?.into(),
                to: sixteen(24)?.into(),
                hops: fixed[7],
                protocol: fixed[6],
                octets: 40 + u32::from(u16::from_be_bytes([fixed[4], fixed[5]])),
                rest: &octets[40..],
            })
        }
        _ => None,
    }
}

/// What these octets are, from the header of IP on; `None`: no packet of a probe.
pub(super) fn parse(octets: &[u8], secret: &Secret) -> Option<RoutedPacket> {
    let header = header(octets)?;
    let rest = header.rest;
    let is_ipv4 = header.from.is_ipv4();
    let mut about = None;
    let packet = match i32::from(header.protocol) {
        libc::IPPROTO_UDP => match read(rest.get(8..)?, secret)? {
            (_, false) => Packet::Datagram { octets: header.octets },
            (_, true) => Packet::DatagramAnswer,
        },
        libc::IPPROTO_TCP => {
            const FLAGS: usize = 13;
            let [syn, reset, ack] = [0x02, 0x04, 0x10].map(|flag| rest.get(FLAGS).is_some_and(|of| of & flag != 0));
            let port = |at: usize| Some(u16::from_be_bytes([*rest.get(at)?, *rest.get(at + 1)?]));
            match (syn, ack, reset) {
                (_, _, true) => Packet::Reset { port: port(0)? },
                (true, true, _) => Packet::SynAck { port: port(0)? },
                (true, false, _) => Packet::Syn { port: port(2)? },
                _ => return None,
            }
        }
        libc::IPPROTO_ICMP | libc::IPPROTO_ICMPV6 => {
            let (kind, code) = (*rest.first()?, *rest.get(1)?);
            match (is_ipv4, kind) {
                (true, 8) | (false, 128) => read(rest.get(8..)?, secret).map(|_| Packet::EchoRequest)?,
                (true, 0) | (false, 129) => read(rest.get(8..)?, secret).map(|_| Packet::EchoReply)?,
                _ => {
                    let what = icmp_error(kind, code, is_ipv4)?;
                    let inner = self::header(rest.get(8..)?)?;
                    about = Some((inner.from, inner.to));
                    let protocol = match i32::from(inner.protocol) {
                        libc::IPPROTO_UDP => Some(Protocol::Udp),
                        libc::IPPROTO_TCP => Some(Protocol::Tcp),
                        libc::IPPROTO_ICMP | libc::IPPROTO_ICMPV6 => Some(Protocol::Echo),
                        _ => None,
                    };
                    Packet::Error { by: header.from, what, about: protocol }
                }
            }
        }
        _ => return None,
    };
    Some(RoutedPacket { from: header.from, to: header.to, hops: header.hops, packet, about })
}

#[cfg(test)]
mod tests {
    use linerate_machine::probe::IcmpError;

    use super::*;
    use crate::probe::message;

    const SECRET: Secret = [7; 16];

    fn ipv4(protocol: u8, payload: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, (20 + payload.len()) as u8, 0, 0, 0x40, 0, 63, protocol, 0, 0];
        packet.extend([10, 0, 0, 1, 10, 0, 0, 2]);
        packet.extend(payload);
        packet
    }

    #[test]
    fn packets_of_probes_are_told_apart() {
        let udp = [&[0; 8][..], &message(&SECRET, 1, false)].concat();
        let of_udp = ipv4(17, &udp);
        let read = parse(&of_udp, &SECRET).unwrap();
        assert_eq!((read.packet, read.hops), (Packet::Datagram { octets: 49 }, 63));
        assert_eq!(parse(&of_udp, &[8; 16]), None, "another secret");
        let mut syn = [0; 20];
        syn[2..4].copy_from_slice(&[0x13, 0x88]);
        syn[13] = 2;
        assert_eq!(parse(&ipv4(6, &syn), &SECRET).unwrap().packet, Packet::Syn { port: 5000 });
        let error = [&[3, 13, 0, 0, 0, 0, 0, 0][..], &of_udp[..28]].concat();
        let read = parse(&ipv4(1, &error), &SECRET).unwrap();
        let by = "10.0.0.1".parse().unwrap();
        assert_eq!(read.packet, Packet::Error { by, what: IcmpError::Prohibited, about: Some(Protocol::Udp) });
        assert_eq!(read.about, Some((by, "10.0.0.2".parse().unwrap())));
        for cut in 0..of_udp.len() {
            assert_eq!(parse(&of_udp[..cut], &SECRET), None, "{cut}");
        }
        for garbage in [&[0x60; 80][..], &[0x4f; 80], &[0xff; 80]] {
            let _ = parse(garbage, &SECRET);
        }
    }
}
