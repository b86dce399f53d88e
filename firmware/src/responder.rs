//! What each frame is answered with: the first who sees it.
//! Knows no MAC; answers are made where the frame is.

use crate::bytes::{checksum, half, put_half, word};
use crate::iperf2::{Heard, PORT, REPORT_LEN, Report, Server};
use crate::ipv4::{self, ETHERNET_LEN, ICMP, Packet, UDP, UDP_LEN};
use crate::statistics::Statistics;

/// The shortest frame without FCS (IEEE 802.3, clause 3.2.7).
const SHORTEST: usize = 60;
/// Bytes that a buffer has at least, whatever the frame in it: room for the longest answer.
pub const ROOM: usize = ETHERNET_LEN + 60 + UDP_LEN + REPORT_LEN;

const ARP: u16 = 0x0806;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
/// The first four bytes of every such board's MAC address: locally administered, then 198.18, which is for benchmarks
/// (RFC 2544).
pub const PREFIX: [u8; 4] = [0x02, 0x00, 198, 18];

/// A board at an address.
pub struct Responder {
    mac: [u8; 6],
    address: u32,
    server: Server,
    ended: Option<Report>,
    /// What was counted.
    pub statistics: Statistics,
}

impl Responder {
    /// A board with this IPv4 address.
    pub fn new(address: [u8; 4]) -> Responder {
        let mac = [PREFIX[0], PREFIX[1], PREFIX[2], PREFIX[3], address[2], address[3]];
        let (server, statistics) = (Server::default(), Statistics::default());
        Responder { mac, address: u32::from_be_bytes(address), server, ended: None, statistics }
    }

    /// Its MAC address.
    pub fn mac(&self) -> [u8; 6] {
        self.mac
    }

    /// An iperf2 test that ended since this was last asked.
    pub fn take_ended(&mut self) -> Option<Report> {
        self.ended.take()
    }

    /// Answers the frame in the first `len` bytes of `buffer`, which has [`ROOM`] at least; `now_us` is any clock. The
    /// answer's length, without FCS.
    pub fn handle(&mut self, now_us: u64, buffer: &mut [u8], len: usize) -> Option<usize> {
        self.statistics.count(len);
        let before = self.statistics;
        let answer = self.answer(now_us, buffer, len);
        if self.statistics == before {
            self.statistics.ignored += 1;
        }
        let len = answer?;
        buffer.copy_within(6..12, 0);
        buffer[6..12].copy_from_slice(&self.mac);
        if len < SHORTEST {
            buffer[len..SHORTEST].fill(0);
        }
        Some(len.max(SHORTEST))
    }

    /// As [`Responder::handle`], with Ethernet's addresses and padding still to be done.
    fn answer(&mut self, now_us: u64, buffer: &mut [u8], len: usize) -> Option<usize> {
        let frame = &buffer[..len];
        let (to, from, kind) = (frame.get(..6)?, frame.get(6..12)?, half(frame, 12)?);
        // Nobody is answered who is many, and no board by a board: they would go on for ever.
        if from[0] & 1 != 0 || from[..4] == PREFIX {
            return None;
        }
        match kind {
            ARP if to == self.mac || to == [0xff; 6] => self.answer_arp(buffer, len),
            _ if to != self.mac => None,
            ARP | IPV6 => None,
            IPV4 => {
                let packet = ipv4::parse(frame, self.address)?;
                match packet.protocol {
                    ICMP => self.answer_ping(buffer, &packet),
                    UDP => self.answer_udp(now_us, buffer, &packet),
                    _ => None,
                }
            }
            _ => {
                self.statistics.echoed += 1;
                Some(len)
            }
        }
    }

    /// RFC 826: "?Am I the target protocol address? … Send the packet to the (new) target hardware address".
    fn answer_arp(&mut self, buffer: &mut [u8], len: usize) -> Option<usize> {
        let at = ETHERNET_LEN;
        let arp = buffer[..len].get_mut(at..at + 28)?;
        // Ethernet and IPv4, of 6 and 4 bytes; a request.
        if arp[..8] != [0, 1, 8, 0, 6, 4, 0, 1] || word(arp, 24)? != self.address {
            return None;
        }
        arp[7] = 2;
        arp.copy_within(8..18, 18);
        arp[8..14].copy_from_slice(&self.mac);
        arp[14..18].copy_from_slice(&self.address.to_be_bytes());
        self.statistics.arp += 1;
        Some(at + 28)
    }

    /// RFC 792: "the source and destination addresses are simply reversed, the type code changed to 0, and the checksum
    /// recomputed".
    fn answer_ping(&mut self, buffer: &mut [u8], packet: &Packet) -> Option<usize> {
        let (at, end) = (packet.payload, packet.end);
        let message = &mut buffer[at..end];
        if message.len() < 8 || message[..2] != [8, 0] || checksum(message, 0) != 0 {
            return None;
        }
        message[0] = 0;
        put_half(message, 2, 0);
        let sum = checksum(message, 0);
        put_half(message, 2, sum);
        ipv4::turn_round(buffer, packet, end);
        self.statistics.pings += 1;
        Some(end)
    }

    fn answer_udp(&mut self, now_us: u64, buffer: &mut [u8], packet: &Packet) -> Option<usize> {
        let (port, own, end) = ipv4::parse_udp(buffer, packet)?;
        if own != PORT || port == 0 {
            return None;
        }
        let (peer, data) = ((packet.source, port), packet.payload + UDP_LEN);
        let heard = self.server.handle(now_us, peer, &buffer[data..end]);
        self.statistics.iperf2 += u64::from(heard != Heard::Ignored);
        let Heard::End { again } = heard else { return None };
        let report = self.server.report(peer)?;
        if !again {
            self.ended = Some(report);
        }
        report.write(&mut buffer[data..]);
        Some(ipv4::answer_udp(buffer, packet, REPORT_LEN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::put_word;

    const ADDRESS: [u8; 4] = [198, 18, 0, 2];
    const MAC: [u8; 6] = [2, 0, 198, 18, 0, 2];
    const HOST: [u8; 6] = [0x52, 0x54, 0, 1, 2, 3];

    fn frame(to: [u8; 6], kind: u16, payload: &[u8]) -> Vec<u8> {
        let mut frame = [&to[..], &HOST, &kind.to_be_bytes(), payload].concat();
        frame.resize(frame.len().max(SHORTEST), 0);
        frame
    }

    /// A packet as RFC 791 and RFC 768 have it, sums right.
    fn packet(protocol: u8, payload: &[u8]) -> Vec<u8> {
        let mut packet = vec![0; 20];
        (packet[0], packet[8], packet[9]) = (0x45, 64, protocol);
        put_half(&mut packet, 2, 20 + payload.len() as u16);
        packet[12..20].copy_from_slice(&[198, 18, 0, 1, 198, 18, 0, 2]);
        let sum = checksum(&packet, 0);
        put_half(&mut packet, 10, sum);
        [&packet, payload].concat()
    }

    fn udp(port: u16, data: &[u8]) -> Vec<u8> {
        let mut datagram = vec![0; UDP_LEN];
        for (at, value) in [(0, 40_000), (2, port), (4, (UDP_LEN + data.len()) as u16)] {
            put_half(&mut datagram, at, value);
        }
        packet(UDP, &[&datagram, data].concat())
    }

    fn answer(frame: &[u8]) -> (Option<Vec<u8>>, Statistics) {
        let mut responder = Responder::new(ADDRESS);
        let mut buffer = frame.to_vec();
        buffer.resize(frame.len() + ROOM, 0xee);
        let len = responder.handle(0, &mut buffer, frame.len());
        (len.map(|len| buffer[..len].to_vec()), responder.statistics)
    }

    #[test]
    fn a_frame_of_any_kind_comes_back_with_its_addresses_swapped() {
        let sent = frame(MAC, 0x88b6, &[7; 1500]);
        let (answer, statistics) = answer(&sent);
        let answer = answer.unwrap();
        assert_eq!((&answer[..6], &answer[6..12], &answer[12..]), (&HOST[..], &MAC[..], &sent[12..]));
        assert_eq!((statistics.echoed, statistics.sizes), (1, [0, 0, 0, 0, 0, 1, 0]));
    }

    #[test]
    fn what_is_not_for_the_board_is_ignored() {
        let mut of_a_board = frame(MAC, 0x88b6, &[]);
        of_a_board[6..12].copy_from_slice(&[2, 0, 198, 18, 0, 9]);
        let mut of_many = frame(MAC, 0x88b6, &[]);
        of_many[6] |= 1;
        let other = [2, 0, 198, 18, 0, 3];
        let frames =
            [of_a_board, of_many, frame(other, 0x88b6, &[]), frame([0xff; 6], 0x88b6, &[]), vec![2; 13], vec![]];
        for sent in frames {
            let (answer, statistics) = answer(&sent);
            assert_eq!((answer, statistics.ignored), (None, 1), "{sent:?}");
        }
    }

    #[test]
    fn the_boards_address_is_resolved_and_no_other() {
        let request = |target: [u8; 4]| {
            let arp = [&[0, 1, 8, 0, 6, 4, 0, 1][..], &HOST, &[198, 18, 0, 1], &[0; 6], &target].concat();
            answer(&frame([0xff; 6], ARP, &arp)).0
        };
        let answer = request(ADDRESS).unwrap();
        assert_eq!((answer.len(), &answer[..6]), (60, &HOST[..]));
        let arp = [&[0, 1, 8, 0, 6, 4, 0, 2][..], &MAC, &ADDRESS, &HOST, &[198, 18, 0, 1]].concat();
        assert_eq!(answer[14..42], arp[..]);
        assert!(answer[42..].iter().all(|&octet| octet == 0), "nothing of the buffer leaks into the padding");
        assert_eq!(request([198, 18, 0, 3]), None);
    }

    #[test]
    fn a_ping_is_answered_with_right_sums() {
        let mut echo = [&[8, 0, 0, 0, 1, 2, 3, 4][..], b"abc"].concat();
        let sum = checksum(&echo, 0);
        put_half(&mut echo, 2, sum);
        let answer = answer(&frame(MAC, IPV4, &packet(ICMP, &echo))).0.unwrap();
        assert_eq!(checksum(&answer[14..34], 0), 0);
        assert_eq!(checksum(&answer[34..45], 0), 0);
        assert_eq!((&answer[26..34], answer[34]), (&[198, 18, 0, 2, 198, 18, 0, 1][..], 0));
        assert_eq!(&answer[42..45], b"abc");
        echo[8] ^= 1;
        assert_eq!(self::answer(&frame(MAC, IPV4, &packet(ICMP, &echo))).0, None, "a wrong sum");
    }

    #[test]
    fn an_iperf2_test_ends_with_a_report() {
        let mut responder = Responder::new(ADDRESS);
        let mut send = |number: i32| {
            let mut data = vec![0; 100];
            put_word(&mut data, 0, number as u32);
            let sent = frame(MAC, IPV4, &udp(PORT, &data));
            let mut buffer = sent.clone();
            buffer.resize(sent.len() + ROOM, 0xee);
            responder.handle(1000, &mut buffer, sent.len()).map(|len| buffer[..len].to_vec())
        };
        assert_eq!((send(1), send(3)), (None, None));
        let answer = send(-4).unwrap();
        let packet = ipv4::parse(&answer, 0xc612_0001).expect("it is a packet for the host");
        assert_eq!(ipv4::parse_udp(&answer, &packet), Some((PORT, 40_000, 14 + 20 + 8 + REPORT_LEN)));
        // Bytes, lost, datagrams.
        assert_eq!([66, 78, 86].map(|at| word(&answer, at)), [Some(300), Some(1), Some(4)]);
        assert!(send(-4).is_some(), "the report may be lost");
        let report = responder.take_ended().expect("it is told once");
        assert_eq!((report.received, responder.take_ended()), (3, None));
        assert_eq!(responder.statistics.iperf2, 4);
    }

    /// Valid frames with some bytes changed, cut or appended, and noise; a fresh seed each time.
    #[test]
    fn whatever_comes_is_survived() {
        let mut state = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64 | 1;
        eprintln!("seed {state}");
        let mut random = move |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as usize % below
        };
        let mut responder = Responder::new(ADDRESS);
        let mut numbered = vec![0; 100];
        numbered[3] = 1;
        let arp = [&[0, 1, 8, 0, 6, 4, 0, 1][..], &HOST, &[198, 18, 0, 1], &[0; 6], &ADDRESS].concat();
        let valid = [
            frame(MAC, IPV4, &udp(PORT, &numbered)),
            frame(MAC, IPV4, &packet(ICMP, &[8, 0, 0xf7, 0xff, 0, 0, 0, 0])),
            frame([0xff; 6], ARP, &arp),
            frame(MAC, 0x88b6, &[]),
        ];
        for _ in 0..300_000 {
            let mut sent = valid[random(valid.len())].clone();
            for _ in 0..random(4) {
                let at = random(sent.len());
                sent[at] = random(256) as u8;
            }
            // The header's sum made right again, so that what is behind it is reached.
            if half(&sent, 12) == Some(IPV4) && random(2) == 0 {
                let end = 14 + usize::from(sent[14] & 0xf) * 4;
                if (34..=sent.len()).contains(&end) {
                    put_half(&mut sent, 24, 0);
                    let sum = checksum(&sent[14..end], 0);
                    put_half(&mut sent, 24, sum);
                }
            }
            sent.truncate(if random(3) == 0 { random(sent.len() + 1) } else { sent.len() });
            let len = sent.len();
            sent.resize(len + ROOM, 0xee);
            if let Some(answer) = responder.handle(random(1 << 30) as u64, &mut sent, len) {
                assert!((SHORTEST..=sent.len()).contains(&answer) && sent[0] & 1 == 0, "{sent:?}");
            }
        }
    }
}
