//! Whole test frames: headers made once, and what differs from frame to frame written over them.
//! Knows no sockets; the addresses are the caller's.

use core::net::IpAddr;

use crate::frame::{
    CUSTOMER_TAG, ETHERNET_LEN, FCS_LEN, FrameKind, SERVICE_TAG, TAG_LEN, TEST_HEADER_LEN, TEST_PORT, TestHeader, UDP,
};
use crate::overhead::IpVersion;

/// The VLAN tags of a frame, the outer one first (IEEE 802.1Q): none, one, or two of which the outer is a service tag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Vlans {
    ids: [u16; 2],
    count: u8,
}

impl Vlans {
    /// No tags.
    pub const NONE: Vlans = Vlans { ids: [0; 2], count: 0 };

    /// The tags with these identifiers; `None` where they are more than two, or one is not 1 to 4094.
    pub fn new(ids: &[u16]) -> Option<Vlans> {
        let mut tags = Vlans::NONE;
        for &id in ids {
            *tags.ids.get_mut(usize::from(tags.count))? = Some(id).filter(|id| (1..=4094).contains(id))?;
            tags.count += 1;
        }
        Some(tags)
    }

    /// Their identifiers.
    pub fn ids(&self) -> &[u16] {
        &self.ids[..usize::from(self.count)]
    }

    /// How many there are.
    pub const fn count(&self) -> usize {
        self.count as usize
    }
}

/// What all frames of one kind and size have in common, and which flow of many each belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Template {
    /// What it carries.
    pub kind: FrameKind,
    /// Its tags.
    pub vlans: Vlans,
    /// Ethernet addresses: of whom it is for, and of whom it is from.
    pub to: [u8; 6],
    /// See [`Template::to`].
    pub from: [u8; 6],
    /// Octets with FCS.
    pub frame_len: usize,
    /// Towards the second of the two test networks rather than the first: the two directions of a trial.
    pub reverse: bool,
    /// The ends' own addresses, of whom it is from first, in the test networks' place: a router knows the way to these. Flows
    /// differ by their ports alone then.
    pub ends: Option<[IpAddr; 2]>,
    /// Hops that IP allows it.
    pub hops: u8,
    /// DSCP, of IP.
    pub dscp: u8,
}

impl Template {
    /// Octets of the frame in Linux's hands: without FCS.
    pub const fn octets(&self) -> usize {
        self.frame_len - FCS_LEN
    }

    /// Where the test header stands.
    pub const fn header_at(&self) -> usize {
        self.kind.header_at(self.vlans.count())
    }

    /// Writes a frame of flow `flow` into the first [`Template::octets`] of `frame`; the test header is left to
    /// [`Template::stamp`]. `None` where `frame` is shorter, or the size is too small for the kind.
    pub fn write(&self, flow: u16, frame: &mut [u8]) -> Option<()> {
        if self.frame_len < self.kind.smallest(self.vlans.count()) {
            return None;
        }
        let frame = frame.get_mut(..self.octets())?;
        frame.fill(0);
        frame[..6].copy_from_slice(&self.to);
        frame[6..12].copy_from_slice(&self.from);
        let mut at = 12;
        for (index, id) in self.vlans.ids().iter().enumerate() {
            let is_outer_of_two = index == 0 && self.vlans.count() == 2;
            let tag = if is_outer_of_two { SERVICE_TAG } else { CUSTOMER_TAG };
            frame[at..at + 2].copy_from_slice(&tag.to_be_bytes());
            frame[at + 2..at + 4].copy_from_slice(&id.to_be_bytes());
            at += TAG_LEN;
        }
        frame[at..at + 2].copy_from_slice(&self.kind.ethertype().to_be_bytes());
        let network = &mut frame[ETHERNET_LEN + self.vlans.count() * TAG_LEN..];
        match self.kind {
            FrameKind::Raw => {}
            FrameKind::Udp4 => self.write_ipv4(flow, network),
            FrameKind::Udp6 => self.write_ipv6(flow, network),
        }
        Some(())
    }

    /// Writes the test header into a frame that [`Template::write`] has made, and what UDP's checksum makes of it.
    #[inline]
    pub fn stamp(&self, header: &TestHeader, frame: &mut [u8]) {
        let at = self.header_at();
        if self.kind == FrameKind::Raw {
            frame[at..at + TEST_HEADER_LEN].copy_from_slice(&header.emit());
            return;
        }
        let octets = header.emit();
        let checksum_at = at - 2;
        // RFC 1624, equation 3: what was there is taken out of the sum, what is there now comes in.
        let old = !u16::from_be_bytes([frame[checksum_at], frame[checksum_at + 1]]);
        let mut sum = u32::from(old);
        for (index, new) in octets.chunks_exact(2).enumerate() {
            let place = at + 2 * index;
            sum += u32::from(!u16::from_be_bytes([frame[place], frame[place + 1]]));
            sum += u32::from(u16::from_be_bytes([new[0], new[1]]));
        }
        frame[at..at + TEST_HEADER_LEN].copy_from_slice(&octets);
        frame[checksum_at..at].copy_from_slice(&udp_checksum(sum).to_be_bytes());
    }

    /// Writes what follows the test header in a frame of [`Template::write`] where zeroes stand, after
    /// [`Template::stamp`].
    pub fn append(&self, octets: &[u8], frame: &mut [u8]) {
        let at = self.header_at() + TEST_HEADER_LEN;
        frame[at..at + octets.len()].copy_from_slice(octets);
        if self.kind != FrameKind::Raw {
            let checksum_at = self.header_at() - 2;
            let old = !u16::from_be_bytes([frame[checksum_at], frame[checksum_at + 1]]);
            let checksum = udp_checksum(u32::from(old) + sum(octets));
            frame[checksum_at..checksum_at + 2].copy_from_slice(&checksum.to_be_bytes());
        }
    }

    fn write_ipv4(&self, flow: u16, network: &mut [u8]) {
        let len = network.len();
        network[0] = 0x45;
        network[1] = self.dscp << 2;
        network[2..4].copy_from_slice(&(len as u16).to_be_bytes());
        network[6] = 0x40; // do not fragment
        network[8] = self.hops;
        network[9] = UDP;
        let (from, to) = self.addresses_v4(flow);
        network[12..16].copy_from_slice(&from);
        network[16..20].copy_from_slice(&to);
        let checksum = !fold(sum(&network[..20]));
        network[10..12].copy_from_slice(&checksum.to_be_bytes());
        let addresses = sum(&network[12..20]);
        write_udp(flow, addresses, &mut network[20..]);
    }

    fn write_ipv6(&self, flow: u16, network: &mut [u8]) {
        let len = network.len() - 40;
        network[0] = 0x60 | self.dscp >> 2;
        network[1] = self.dscp << 6;
        network[4..6].copy_from_slice(&(len as u16).to_be_bytes());
        network[6] = UDP;
        network[7] = self.hops;
        let (from, to) = self.addresses_v6(flow);
        network[8..24].copy_from_slice(&from);
        network[24..40].copy_from_slice(&to);
        let addresses = sum(&network[8..40]);
        write_udp(flow, addresses, &mut network[40..]);
    }

    /// The addresses of a flow: 198.18.0.0/15 is for tests of devices, and on no live network (RFC 2544, appendix C.2.2).
    pub fn addresses_v4(&self, flow: u16) -> ([u8; 4], [u8; 4]) {
        if let Some([IpAddr::V4(from), IpAddr::V4(to)]) = self.ends {
            return (from.octets(), to.octets());
        }
        let [high, low] = (FIRST_HOST + flow % HOSTS).to_be_bytes();
        let (near, far) = if self.reverse { (19, 18) } else { (18, 19) };
        let [first_high, first_low] = FIRST_HOST.to_be_bytes();
        ([198, near, high, low], [198, far, first_high, first_low])
    }

    /// The addresses of a flow: 2001:2::/48 is for tests of devices (RFC 5180, section 8).
    pub fn addresses_v6(&self, flow: u16) -> ([u8; 16], [u8; 16]) {
        if let Some([IpAddr::V6(from), IpAddr::V6(to)]) = self.ends {
            return (from.octets(), to.octets());
        }
        let host = FIRST_HOST + flow % HOSTS;
        let (near, far) = if self.reverse { (1, 0) } else { (0, 1) };
        let at = |net: u8, [high, low]: [u8; 2]| [0x20, 1, 0, 2, 0, 0, 0, net, 0, 0, 0, 0, 0, 0, high, low];
        (at(near, host.to_be_bytes()), at(far, FIRST_HOST.to_be_bytes()))
    }

    /// The version of IP it carries.
    pub const fn ip(&self) -> Option<IpVersion> {
        match self.kind {
            FrameKind::Raw => None,
            FrameKind::Udp4 => Some(IpVersion::V4),
            FrameKind::Udp6 => Some(IpVersion::V6),
        }
    }
}

/// The upper half of a test network: those who use the networks for machines of their own, as `linerate lab` does, begin below.
const FIRST_HOST: u16 = 0x8001;
/// Flows before addresses begin again.
const HOSTS: u16 = 0x7FFE;

/// A header of UDP before zeroes. The ports differ by flow too: what spreads flows over queues looks at some of these.
fn write_udp(flow: u16, addresses: u32, udp: &mut [u8]) {
    let len = udp.len() as u16;
    let port = 49_152 + flow % 16_384;
    udp[..2].copy_from_slice(&port.to_be_bytes());
    udp[2..4].copy_from_slice(&TEST_PORT.to_be_bytes());
    udp[4..6].copy_from_slice(&len.to_be_bytes());
    let sum = addresses + u32::from(UDP) + u32::from(len) + sum(&udp[..8]);
    udp[6..8].copy_from_slice(&udp_checksum(sum).to_be_bytes());
}

/// UDP's checksum of this sum: zero would mean that there is none (RFC 768).
fn udp_checksum(sum: u32) -> u16 {
    match !fold(sum) {
        0 => 0xFFFF,
        checksum => checksum,
    }
}

/// RFC 1071: the sum of 16-bit words. Fits 32 bits up to 64 KiB.
fn sum(octets: &[u8]) -> u32 {
    let (words, last) = octets.as_chunks::<2>();
    let odd = last.first().map_or(0, |octet| u32::from(*octet) << 8);
    words.iter().map(|word| u32::from(u16::from_be_bytes(*word))).sum::<u32>() + odd
}

fn fold(sum: u32) -> u16 {
    let once = (sum & 0xFFFF) + (sum >> 16);
    ((once & 0xFFFF) + (once >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{StreamField, TestFrame};

    const TEMPLATE: Template = Template {
        kind: FrameKind::Raw,
        vlans: Vlans::NONE,
        to: [2, 0, 0, 0, 0, 1],
        from: [2, 0, 0, 0, 0, 2],
        frame_len: 64,
        reverse: false,
        ends: None,
        hops: 64,
        dscp: 46,
    };

    /// The checksum of a packet, anew over all that it covers: 0 where it is right.
    fn whole_udp_sum(network: &[u8], addresses: core::ops::Range<usize>, udp_at: usize) -> u16 {
        let udp = &network[udp_at..];
        !fold(sum(&network[addresses]) + u32::from(UDP) + udp.len() as u32 + sum(udp))
    }

    #[test]
    fn what_is_written_is_parsed_at_every_size_and_checksums_are_right() {
        for kind in [FrameKind::Raw, FrameKind::Udp4, FrameKind::Udp6] {
            for vlans in [&[][..], &[5], &[4094, 1]] {
                let vlans = Vlans::new(vlans).unwrap();
                for frame_len in [kind.smallest(vlans.count()), 128, 129, 1518, 9018] {
                    let template = Template { kind, vlans, frame_len, ..TEMPLATE };
                    let mut frame = [0xAA; 9018];
                    template.write(300, &mut frame).unwrap();
                    // Over and over, as a frame is used again.
                    for sequence in [0, 1, u32::MAX, 7] {
                        let stream = StreamField(3 | StreamField::WARMUP);
                        let header = TestHeader { secret: 0xFFFF_FFFE, stream, sequence, sent_at_ns: u64::MAX - 5 };
                        template.stamp(&header, &mut frame);
                        let parsed = TestFrame::parse(&frame[..template.octets()]).unwrap();
                        assert_eq!((parsed.kind, parsed.tags, parsed.header), (kind, vlans.count(), header));
                        assert_eq!(parsed.from, TEMPLATE.from);
                        if sequence == 7 && template.octets() >= template.header_at() + TEST_HEADER_LEN + 5 {
                            template.append(&[1, 2, 3, 4, 5], &mut frame);
                            let parsed = TestFrame::parse(&frame[..template.octets()]).unwrap();
                            assert_eq!(parsed.rest[..5], [1, 2, 3, 4, 5]);
                        }
                        let network = &frame[ETHERNET_LEN + vlans.count() * TAG_LEN..template.octets()];
                        match kind {
                            FrameKind::Raw => {}
                            FrameKind::Udp4 => {
                                assert_eq!(!fold(sum(&network[..20])), 0, "IPv4's own");
                                assert_eq!(whole_udp_sum(network, 12..20, 20), 0, "{template:?}");
                            }
                            FrameKind::Udp6 => assert_eq!(whole_udp_sum(network, 8..40, 40), 0, "{template:?}"),
                        }
                    }
                    assert_eq!(frame[template.octets()], 0xAA, "nothing behind the frame is touched");
                }
            }
        }
    }

    #[test]
    fn a_frame_too_small_for_its_kind_or_its_buffer_is_none() {
        assert_eq!(TEMPLATE.write(0, &mut [0; 59]), None);
        assert_eq!(Template { kind: FrameKind::Udp6, frame_len: 83, ..TEMPLATE }.write(0, &mut [0; 100]), None);
        assert_eq!(Template { frame_len: 63, ..TEMPLATE }.write(0, &mut [0; 100]), None);
    }

    #[test]
    fn flows_differ_in_address_and_port_and_the_directions_mirror() {
        let forth = Template { kind: FrameKind::Udp4, ..TEMPLATE };
        let back = Template { reverse: true, ..forth };
        assert_eq!(forth.addresses_v4(0), ([198, 18, 128, 1], [198, 19, 128, 1]));
        assert_eq!(forth.addresses_v4(255).0, [198, 18, 129, 0]);
        assert_eq!(back.addresses_v4(0), ([198, 19, 128, 1], [198, 18, 128, 1]));
        assert_eq!([0, 1].map(|flow| forth.addresses_v6(flow).0[15]), [1, 2]);
        let mut frames = [[0; 60]; 2];
        for (flow, frame) in frames.iter_mut().enumerate() {
            forth.write(flow as u16, frame).unwrap();
        }
        assert_ne!(frames[0][26..30], frames[1][26..30], "source address");
        assert_ne!(frames[0][34..36], frames[1][34..36], "source port");
        assert_eq!(frames[0][36..38], TEST_PORT.to_be_bytes());
    }

    #[test]
    fn behind_a_router_flows_differ_by_port_alone() {
        let ends =
            |kind, text: [&str; 2]| Template { kind, ends: Some(text.map(|ip| ip.parse().unwrap())), ..TEMPLATE };
        let four = ends(FrameKind::Udp4, ["10.0.1.2", "10.0.2.2"]);
        assert_eq!(four.addresses_v4(300), ([10, 0, 1, 2], [10, 0, 2, 2]));
        let mut frames = [[0; 60]; 2];
        for (flow, frame) in frames.iter_mut().enumerate() {
            four.write(flow as u16, frame).unwrap();
            assert_eq!((!fold(sum(&frame[14..34])), whole_udp_sum(&frame[14..], 12..20, 20)), (0, 0));
        }
        assert_ne!(frames[0][34..36], frames[1][34..36], "source port");
        assert_eq!(frames[0][26..34], frames[1][26..34], "addresses");
        let six = Template { frame_len: 84, ..ends(FrameKind::Udp6, ["2001:db8:1::2", "2001:db8:2::2"]) };
        let mut frame = [0; 80];
        six.write(7, &mut frame).unwrap();
        assert_eq!((six.addresses_v6(7).1[5], whole_udp_sum(&frame[14..], 8..40, 40)), (2, 0));
    }

    #[test]
    fn there_are_two_tags_at_most_and_none_that_means_something_else() {
        assert_eq!(Vlans::new(&[1, 2]).unwrap().ids(), [1, 2]);
        for ids in [&[1, 2, 3][..], &[0], &[4095], &[5, 0]] {
            assert_eq!(Vlans::new(ids), None, "{ids:?}");
        }
    }
}
