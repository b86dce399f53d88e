//! What several BPF programs have in common: the way from a frame's first octet to its test header, checksums, and counting.
//!
//! ```text
//!  r6 context ──► r2 first octet, r3 behind the last ──► r7 behind the EtherType ──► raw / UDP over IPv4 / over IPv6
//! ```

use linerate_wire::frame::{ETHERNET_LEN, FrameKind, RAW_ETHERTYPE, TAG_LEN, TEST_HEADER_LEN};

use super::assembler::Reg::{R0, R1, R2, R3, R4, R5, R6, R7, R10};
use super::assembler::Width::{W8, W16, W32, W64};
use super::assembler::{Alu, Assembler, Helper, JumpCondition, Label, Reg};

// linux/bpf.h, enum xdp_action.
pub(crate) const XDP_DROP: i32 = 1;
pub(crate) const XDP_PASS: i32 = 2;
pub(crate) const XDP_TX: i32 = 3;

/// Where struct xdp_md has the frame's beginning and its end.
pub(crate) const DATA: i16 = 0;
pub(crate) const DATA_END: i16 = 4;

const TAGS: [u16; 2] = [0x8100, 0x88A8];
const UDP: i32 = 17;

/// Where [`network`] goes on.
pub(crate) struct Kinds {
    pub(crate) raw: Label,
    pub(crate) udp4: Label,
    pub(crate) udp6: Label,
    /// No frame of a test.
    pub(crate) other: Label,
}

impl Kinds {
    pub(crate) fn new(a: &mut Assembler) -> Kinds {
        Kinds { raw: a.label(), udp4: a.label(), udp6: a.label(), other: a.label() }
    }
}

/// Finds what a frame carries behind up to two tags, as [`linerate_wire::frame::TestFrame::parse`] does. From the context in r6:
/// r2 becomes the frame's beginning, r3 its end, r7 what follows the EtherType, r5 the EtherType as it stands there (0 of
/// a frame too short for one). Where it goes on, the frame is long enough for its test header. Uses r4.
pub(crate) fn network(a: &mut Assembler, kinds: &Kinds) {
    let typed = a.label();
    a.set(R5, 0);
    a.load(W32, R2, R6, DATA);
    a.load(W32, R3, R6, DATA_END);
    a.copy(R7, R2);
    for tags in 0..=2 {
        let is_tagged = a.label();
        a.copy(R4, R7);
        a.alu_number(Alu::Add, R4, ETHERNET_LEN as i32);
        a.jump_if(JumpCondition::Above, R4, R3, kinds.other);
        a.load(W16, R5, R7, ETHERNET_LEN as i16 - 2);
        if tags == 2 {
            break;
        }
        for tag in TAGS {
            a.jump_if_number(JumpCondition::Equal, R5, network_16(tag), is_tagged);
        }
        a.jump(typed);
        a.place(is_tagged);
        a.alu_number(Alu::Add, R7, TAG_LEN as i32);
    }
    a.place(typed);
    a.alu_number(Alu::Add, R7, ETHERNET_LEN as i32);
    fits(a, FrameKind::Raw, kinds.other);
    let (ipv4, ipv6) = (a.label(), a.label());
    a.jump_if_number(JumpCondition::Equal, R5, network_16(RAW_ETHERTYPE), kinds.raw);
    a.jump_if_number(JumpCondition::Equal, R5, network_16(FrameKind::Udp4.ethertype()), ipv4);
    a.jump_if_number(JumpCondition::Equal, R5, network_16(FrameKind::Udp6.ethertype()), ipv6);
    a.jump(kinds.other);

    a.place(ipv4);
    fits(a, FrameKind::Udp4, kinds.other);
    a.load(W8, R4, R7, 0);
    a.jump_if_number(JumpCondition::NotEqual, R4, 0x45, kinds.other);
    a.load(W8, R4, R7, 9);
    a.jump_if_number(JumpCondition::NotEqual, R4, UDP, kinds.other);
    // No fragment: neither are more to come, nor is this a later one.
    a.load(W16, R4, R7, 6);
    a.jump_if_number(JumpCondition::AnyBitOf, R4, network_16(0x3FFF), kinds.other);
    a.jump(kinds.udp4);

    a.place(ipv6);
    fits(a, FrameKind::Udp6, kinds.other);
    a.load(W8, R4, R7, 0);
    a.alu_number(Alu::And, R4, 0xF0);
    a.jump_if_number(JumpCondition::NotEqual, R4, 0x60, kinds.other);
    a.load(W8, R4, R7, 6);
    a.jump_if_number(JumpCondition::NotEqual, R4, UDP, kinds.other);
    a.jump(kinds.udp6);
}

fn fits(a: &mut Assembler, kind: FrameKind, other: Label) {
    a.copy(R4, R7);
    a.alu_number(Alu::Add, R4, (kind.headers_len() + TEST_HEADER_LEN) as i32);
    a.jump_if(JumpCondition::Above, R4, R3, other);
}

/// A 16-bit number as it is loaded from a frame without changing its order.
pub(crate) fn network_16(number: u16) -> i32 {
    i32::from(number.to_be())
}

/// A 32-bit number, likewise.
pub(crate) fn network_32(number: u32) -> i32 {
    number.to_be() as i32
}

/// Folds a sum of 16-bit words, of 32 bits at most, into 16 (RFC 1071, section 2). Uses `spare`.
pub(crate) fn fold(a: &mut Assembler, sum: Reg, spare: Reg) {
    for _ in 0..2 {
        a.copy(spare, sum);
        a.alu_number(Alu::ShiftRight, spare, 16);
        a.alu_number(Alu::And, sum, 0xFFFF);
        a.alu(Alu::Add, sum, spare);
    }
}

/// Adds one to a word of memory that no other CPU writes to. Uses `spare`.
pub(crate) fn count_one(a: &mut Assembler, at: Reg, offset: i16, spare: Reg) {
    a.load(W64, spare, at, offset);
    a.alu_number(Alu::Add, spare, 1);
    a.store(W64, at, offset, spare);
}

/// Where a word of a map's value is.
pub(crate) const fn at(word: usize) -> i16 {
    8 * word as i16
}

/// r0 becomes the value of the key on the stack; on to `missing` where there is none.
pub(crate) fn look_up(a: &mut Assembler, map: i32, key: i16, missing: Label) {
    a.map(R1, map);
    on_stack(a, R2, key);
    a.call(Helper::MapLookup);
    a.jump_if_number(JumpCondition::Equal, R0, 0, missing);
}

/// One more of the key on the stack, while there is room for another key; `zero` is a place there for a count to begin with. On to
/// `full` where there is none.
pub(crate) fn count_in(a: &mut Assembler, map: i32, key: i16, zero: i16, full: Label) {
    const BPF_NOEXIST: i32 = 1;
    let known = a.label();
    let missing = a.label();
    look_up(a, map, key, missing);
    a.jump(known);
    a.place(missing);
    // Two CPUs may both find it missing; the second leaves the first one's zero alone.
    a.store_number(W64, R10, zero, 0);
    a.map(R1, map);
    on_stack(a, R2, key);
    on_stack(a, R3, zero);
    a.set(R4, BPF_NOEXIST);
    a.call(Helper::MapUpdate);
    look_up(a, map, key, full);
    a.place(known);
    a.set(R1, 1);
    a.add_in_memory(W64, R0, 0, R1);
}

fn on_stack(a: &mut Assembler, register: Reg, offset: i16) {
    a.copy(register, R10);
    a.alu_number(Alu::Add, register, i32::from(offset));
}
