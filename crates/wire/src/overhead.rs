//! How many octets of an Ethernet's time a payload costs.
//! Knows nothing of links that are not Ethernet, and of no VLAN tags.

/// Which Internet Protocol carries a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum IpVersion {
    /// IPv4, a header of 20 octets without options (RFC 791).
    V4,
    /// IPv6, a header of 40 octets without extensions (RFC 8200).
    V6,
}

impl IpVersion {
    /// Octets of the header, without options or extensions.
    pub const fn header_len(self) -> u64 {
        match self {
            IpVersion::V4 => 20,
            IpVersion::V6 => 40,
        }
    }

    /// Octets of a datagram's headers from IP's on, where it is not cut.
    pub const fn udp_headers(self) -> u32 {
        self.header_len() as u32 + 8
    }

    /// Packets that carry a payload of so many octets, the transport's header counted, over a link of this MTU; absent
    /// where the MTU has no room for a fragment. Every fragment but the last carries a multiple of 8 octets (RFC 791,
    /// section 3.2; RFC 8200, section 4.5, whose fragment header takes 8 more).
    pub fn fragments(self, payload: u32, mtu: u32) -> Option<u32> {
        let header = self.header_len() as u32;
        if payload.saturating_add(header) <= mtu {
            return Some(1);
        }
        let fragment_header = if self == IpVersion::V6 { 8 } else { 0 };
        let room = mtu.saturating_sub(header + fragment_header) / 8 * 8;
        (room > 0).then(|| payload.div_ceil(room))
    }
}

/// Octets of a segment's header, which carries timestamps (RFC 7323) or no options.
pub const fn tcp_header_len(timestamps: bool) -> u32 {
    if timestamps { 32 } else { 20 }
}

/// What one frame costs beside the octets that the IP layer hands down (IEEE 802.3 clauses 3 and 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EthernetOverhead;

impl EthernetOverhead {
    /// Destination, source and type.
    pub const HEADER: u64 = 14;
    /// Frame check sequence.
    pub const FCS: u64 = 4;
    /// Preamble and start-of-frame delimiter.
    pub const PREAMBLE: u64 = 8;
    /// Interpacket gap, 96 bit times.
    pub const GAP: u64 = 12;
    /// The smallest frame, FCS included; shorter payloads are padded.
    pub const MIN_FRAME: u64 = 64;

    /// Octets on the wire, gap included, of one unfragmented UDP datagram with `payload` octets.
    pub const fn udp_wire_octets(payload: u64, ip: IpVersion) -> u64 {
        let frame = Self::HEADER + ip.udp_headers() as u64 + payload + Self::FCS;
        Self::frame_wire_octets(if frame < Self::MIN_FRAME { Self::MIN_FRAME } else { frame })
    }

    /// Octets on the wire, gap included, of one frame of `frame_len` octets, FCS counted.
    pub const fn frame_wire_octets(frame_len: u64) -> u64 {
        Self::PREAMBLE + frame_len + Self::GAP
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_known_frame_rates_of_gigabit_ethernet() {
        // RFC 2544 appendix B's arithmetic, at 1 Gbit/s: 1,488,095 frames/s of 64 octets, 81,274 of 1518.
        let frames = |payload| 1_000_000_000 / 8 / EthernetOverhead::udp_wire_octets(payload, IpVersion::V4);
        assert_eq!(frames(18), 1_488_095);
        assert_eq!(frames(1), 1_488_095, "a short frame is padded");
        assert_eq!(frames(1472), 81_274);
    }
}
