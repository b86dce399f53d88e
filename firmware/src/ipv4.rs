//! IPv4 and UDP (RFC 791, RFC 768): which packets are for the board and whole, and the headers of its answers.
//! Knows no protocol above UDP.

use crate::bytes::{checksum, half, put_half, put_word, swap, word};

/// Bytes of an Ethernet header, before the packet.
pub const ETHERNET_LEN: usize = 14;
/// ICMP's number.
pub const ICMP: u8 = 1;
/// UDP's number.
pub const UDP: u8 = 17;
/// Bytes of UDP's header.
pub const UDP_LEN: usize = 8;

const SOURCE: usize = ETHERNET_LEN + 12;

/// A whole packet in a frame. Its places are from the frame's first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Which protocol it carries.
    pub protocol: u8,
    /// Who sent it.
    pub source: u32,
    /// Where what it carries begins.
    pub payload: usize,
    /// Where the packet ends; what follows in the frame is padding.
    pub end: usize,
}

/// The packet in a frame, if it is for this address and its header is right. Fragments are not put together.
pub fn parse(frame: &[u8], address: u32) -> Option<Packet> {
    let header = usize::from(*frame.get(ETHERNET_LEN)?).checked_sub(0x40)? * 4;
    let (payload, end) = (ETHERNET_LEN + header, ETHERNET_LEN + usize::from(half(frame, ETHERNET_LEN + 2)?));
    let is_whole = (20..=60).contains(&header) && payload <= end && end <= frame.len();
    // More fragments, or an offset.
    let is_fragment = half(frame, ETHERNET_LEN + 6)? & 0x3fff != 0;
    let is_ours = word(frame, ETHERNET_LEN + 16)? == address;
    if !is_whole || is_fragment || !is_ours || checksum(&frame[ETHERNET_LEN..payload], 0) != 0 {
        return None;
    }
    let source = word(frame, SOURCE)?;
    // From everybody, from many, or from nowhere: nobody to answer.
    let answerable = source != 0 && source >> 28 < 0xe && source != address;
    answerable.then_some(Packet { protocol: frame[ETHERNET_LEN + 9], source, payload, end })
}

/// The ports of a UDP datagram, its own and ours, and where its data ends; `None` where its length or checksum is wrong.
pub fn parse_udp(frame: &[u8], packet: &Packet) -> Option<(u16, u16, usize)> {
    let end = packet.payload + usize::from(half(frame, packet.payload + 4)?);
    if packet.protocol != UDP || end < packet.payload + UDP_LEN || end > packet.end {
        return None;
    }
    let sent = half(frame, packet.payload + 6)?;
    if sent != 0 && checksum(&frame[packet.payload..end], pseudo_header(frame, UDP, end - packet.payload)) != 0 {
        return None;
    }
    Some((half(frame, packet.payload)?, half(frame, packet.payload + 2)?, end))
}

/// The sum of what UDP's checksum covers beside the datagram.
fn pseudo_header(frame: &[u8], protocol: u8, len: usize) -> u32 {
    let addresses = (SOURCE..SOURCE + 8).step_by(2).filter_map(|at| half(frame, at));
    addresses.map(u32::from).sum::<u32>() + u32::from(protocol) + len as u32
}

/// Turns the packet's addresses round, for an answer in its place whose payload ends at `end`.
pub fn turn_round(frame: &mut [u8], packet: &Packet, end: usize) {
    swap(frame, SOURCE, 4);
    put_half(frame, ETHERNET_LEN + 2, (end - ETHERNET_LEN) as u16);
    // No fragments, and so no number (RFC 6864, section 4.1).
    put_word(frame, ETHERNET_LEN + 4, 0x4000);
    frame[ETHERNET_LEN + 8] = 64;
    put_half(frame, ETHERNET_LEN + 10, 0);
    let sum = checksum(&frame[ETHERNET_LEN..packet.payload], 0);
    put_half(frame, ETHERNET_LEN + 10, sum);
}

/// Makes the answer to a datagram out of it: its headers turned round, for `len` bytes of data that stand behind them.
/// The frame's length.
pub fn answer_udp(frame: &mut [u8], packet: &Packet, len: usize) -> usize {
    let (at, end) = (packet.payload, packet.payload + UDP_LEN + len);
    turn_round(frame, packet, end);
    swap(frame, at, 2);
    put_half(frame, at + 4, (UDP_LEN + len) as u16);
    put_half(frame, at + 6, 0);
    let sum = checksum(&frame[at..end], pseudo_header(frame, UDP, UDP_LEN + len));
    // A sum of 0 says that there is none (RFC 768).
    put_half(frame, at + 6, if sum == 0 { 0xffff } else { sum });
    end
}
