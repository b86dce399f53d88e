//! The program that makes each frame.
//! Knows no system calls.

use linerate_wire::frame::{FCS_LEN, FrameKind, TEST_HEADER_LEN, TestHeader};

use super::{GeneratorOptions, Pace};
use crate::sys::bpf::Instruction;
use crate::xdp::assembler::Reg::{R0, R1, R2, R3, R4, R5, R6, R7, R8, R9};
use crate::xdp::assembler::Width::{W16, W32, W64};
use crate::xdp::assembler::{Alu, Assembler, Helper, JumpCondition, Label};
use crate::xdp::program::{DATA, DATA_END, XDP_DROP, at, count_one, fold};

/// What the program keeps between frames: words of the map's one value.
pub(super) struct State;

impl State {
    /// Frames made.
    pub(super) const FRAMES: usize = 0;
    /// The stream as frames bear it, with the mark of the warm-up.
    pub(super) const STREAM: usize = 1;
    /// When the phase's first frame was made; 0 before it.
    pub(super) const STARTED: usize = 2;
    /// When the next is due, and what is beyond whole nanoseconds, in parts of [`Pace::frames`].
    pub(super) const DUE: usize = 3;
    pub(super) const FRACTION: usize = 4;
    /// When the last was made.
    pub(super) const LAST: usize = 5;
    /// The phase ends when so many frames were made in all, or so long after its first.
    pub(super) const MOST: usize = 6;
    pub(super) const DURATION: usize = 7;
    /// 0, or how the phase came to its end: nothing is sent until it is 0 again.
    pub(super) const ENDED: usize = 8;
    pub(super) const COMPLETE: u64 = 1;
    pub(super) const BEHIND: u64 = 2;
    /// How often the program ran since then.
    pub(super) const IDLE: usize = 9;
    pub(super) const WORDS: usize = 10;
}

/// How late the last frames of a paced run may be: a thread that lost its CPU for a while sends what was due meanwhile.
pub(super) const GRACE_NS: i32 = 20_000_000;
/// Looks at the clock before a page is given back unused, of a program whose frames do not wait for others of their
/// batch: it is a fifth of the cost, and one call lasts an hour rather than minutes.
const LOOKS: u32 = 16;
/// How many unpaced frames are made per look at the clock, which is a sixth of their cost: about a microsecond's worth of the 64 that
/// leave together.
const GROUP: i32 = 8;

/// Makes frames as the options have them, and sends them from the interface of this number. r6 is the context, later the
/// stream; r7 the frames before this one, r8 the time, r9 the state.
pub(super) fn program(interface: u32, options: &GeneratorOptions, batch: u32, state: i32) -> Vec<Instruction> {
    let a = &mut Assembler::new();
    let (complete, behind, drop, over) = (a.label(), a.label(), a.label(), a.label());
    let (due, started, made) = (a.label(), a.label(), a.label());
    a.copy(R6, R1);
    a.map_value(R9, state);
    a.load(W64, R1, R9, at(State::ENDED));
    a.jump_if_number(JumpCondition::NotEqual, R1, 0, over);
    a.load(W64, R7, R9, at(State::FRAMES));
    a.load(W64, R1, R9, at(State::MOST));
    a.jump_if(JumpCondition::AtLeast, R7, R1, complete);
    if options.pace.is_none() {
        // All but the first of a group bear the group's time.
        let read = a.label();
        a.load(W64, R1, R9, at(State::STARTED));
        a.jump_if_number(JumpCondition::Equal, R1, 0, read);
        a.load(W64, R8, R9, at(State::LAST));
        a.jump_if_number(JumpCondition::AnyBitOf, R7, GROUP - 1, started);
        a.place(read);
    }
    a.call(Helper::MonotonicNs);
    a.copy(R8, R0);
    a.load(W64, R1, R9, at(State::STARTED));
    a.jump_if_number(JumpCondition::NotEqual, R1, 0, started);
    a.store(W64, R9, at(State::STARTED), R8);
    a.store(W64, R9, at(State::DUE), R8);
    a.copy(R1, R8);
    a.place(started);
    a.load(W64, R2, R9, at(State::DURATION));
    a.alu(Alu::Add, R2, R1);
    match options.pace {
        None => a.jump_if(JumpCondition::AtLeast, R8, R2, complete),
        Some(pace) => {
            a.load(W64, R3, R9, at(State::DUE));
            a.jump_if(JumpCondition::AtLeast, R3, R2, complete);
            a.alu_number(Alu::Add, R2, GRACE_NS);
            a.jump_if(JumpCondition::AtLeast, R8, R2, behind);
            a.jump_if(JumpCondition::AtLeast, R8, R3, due);
            for _ in 0..if batch == 1 { LOOKS } else { 0 } {
                a.call(Helper::MonotonicNs);
                a.copy(R8, R0);
                a.load(W64, R3, R9, at(State::DUE));
                a.jump_if(JumpCondition::AtLeast, R8, R3, due);
            }
            a.jump(drop);
            a.place(due);
            // From here on nothing fails but what cannot be.
            advance(a, pace);
        }
    }

    for (octets, label) in sizes(a, options) {
        a.place(label);
        write_frame(a, options, octets, drop);
        a.jump(made);
    }
    a.place(made);
    a.store(W64, R9, at(State::LAST), R8);
    a.alu_number(Alu::Add, R7, 1);
    a.store(W64, R9, at(State::FRAMES), R7);
    a.set(R1, interface as i32);
    a.set(R2, 0);
    a.call(Helper::Redirect);
    a.exit();
    // The verifier takes no instruction that is never reached.
    if options.pace.is_some() {
        a.place(behind);
        a.store_number(W64, R9, at(State::ENDED), State::BEHIND as i32);
        a.jump(drop);
    }
    a.place(complete);
    a.store_number(W64, R9, at(State::ENDED), State::COMPLETE as i32);
    a.place(over);
    count_one(a, R9, at(State::IDLE), R1);
    a.place(drop);
    a.exit_with(XDP_DROP);
    std::mem::take(a).finish()
}

/// The different lengths without FCS, the longest first, and where the program goes on for each: to the one whose turn it is
/// by the number in r7. Uses r1.
fn sizes(a: &mut Assembler, options: &GeneratorOptions) -> Vec<(usize, Label)> {
    let of = |size: &u32| (*size as usize).saturating_sub(FCS_LEN).min(options.template.octets());
    let mut different: Vec<usize> = options.sizes.iter().map(of).chain([options.template.octets()]).collect();
    different.sort_unstable_by_key(|octets| std::cmp::Reverse(*octets));
    different.dedup();
    if !options.sizes.is_empty() {
        different.retain(|octets| options.sizes.iter().any(|size| of(size) == *octets));
    }
    let labelled: Vec<(usize, Label)> = different.into_iter().map(|octets| (octets, a.label())).collect();
    if let [first, _, ..] = labelled[..] {
        a.copy(R1, R7);
        a.alu_number(Alu::Remainder, R1, options.sizes.len() as i32);
        for (place, size) in (0..).zip(&options.sizes) {
            // What is left over is of the longest, which stands first.
            if let Some((_, label)) = labelled.iter().skip(1).find(|(octets, _)| *octets == of(size)) {
                a.jump_if_number(JumpCondition::Equal, R1, place, *label);
            }
        }
        a.jump(first.1);
    }
    labelled
}

/// Makes the page into a frame of this length. Uses r0 to r5; r6 becomes the stream.
fn write_frame(a: &mut Assembler, options: &GeneratorOptions, octets: usize, drop: Label) {
    let frame = &super::frame_of(options, octets);
    let header_at = options.template.header_at();
    let headers = header_at + TestHeader::STREAM_AT;
    // A page comes as long as the longest frame, whatever it was cut to before.
    let shorter = options.template.octets() - octets;
    if shorter > 0 {
        a.copy(R1, R6);
        a.set(R2, -(shorter as i32));
        a.call(Helper::AdjustTail);
        a.jump_if_number(JumpCondition::NotEqual, R0, 0, drop);
    }
    a.load(W32, R2, R6, DATA);
    a.load(W32, R4, R6, DATA_END);
    a.copy(R1, R2);
    a.alu_number(Alu::Add, R1, (header_at + TEST_HEADER_LEN) as i32);
    a.jump_if(JumpCondition::Above, R1, R4, drop);
    a.load(W64, R6, R9, at(State::STREAM));
    write_headers(a, &frame[..headers]);
    write_test_header(a, header_at as i16);
    // Flow 0 is as the frame has it; each flow has a whole turn of the sizes.
    let flows = if options.template.kind == FrameKind::Raw { 1 } else { options.flows.max(1) };
    let turn = options.sizes.len().max(1) as i32;
    if turn > 1 {
        a.copy(R4, R7);
        a.alu_number(Alu::Divide, R4, turn);
        a.copy_32(R4, R4);
    } else {
        a.copy_32(R4, R7);
    }
    match flows {
        1 => a.set(R4, 0),
        flows if flows.is_power_of_two() => a.alu_number(Alu::And, R4, i32::from(flows) - 1),
        flows => a.alu_number_32(Alu::Remainder, R4, i32::from(flows)),
    }
    match options.template.kind {
        FrameKind::Raw => {}
        FrameKind::Udp4 => write_flow_and_checksums(a, frame, header_at, &IPV4, options.template.ends.is_none()),
        FrameKind::Udp6 => write_flow_and_checksums(a, frame, header_at, &IPV6, options.template.ends.is_none()),
    }
}

/// The next frame is due `in_ns / frames` after the one that was due at r3: whole nanoseconds, and of the rest one
/// whenever it has come together.
fn advance(a: &mut Assembler, Pace { frames, in_ns }: Pace) {
    let whole = a.label();
    let frames = frames.max(1);
    a.set_64(R1, in_ns / frames);
    a.alu(Alu::Add, R3, R1);
    a.load(W64, R4, R9, at(State::FRACTION));
    a.set_64(R1, in_ns % frames);
    a.alu(Alu::Add, R4, R1);
    a.set_64(R1, frames);
    a.jump_if(JumpCondition::Below, R4, R1, whole);
    a.alu(Alu::Subtract, R4, R1);
    a.alu_number(Alu::Add, R3, 1);
    a.place(whole);
    a.store(W64, R9, at(State::FRACTION), R4);
    a.store(W64, R9, at(State::DUE), R3);
}

/// Every octet up to the stream's, at r2: a receiver that had the page before may have changed it.
fn write_headers(a: &mut Assembler, headers: &[u8]) {
    let mut offset = 0;
    let (words, rest) = headers.as_chunks::<4>();
    for word in words {
        a.store_number(W32, R2, offset, i32::from_ne_bytes(*word));
        offset += 4;
    }
    // All headers are of an even length.
    if let Some(half) = rest.first_chunk::<2>() {
        a.store_number(W16, R2, offset, i32::from(u16::from_ne_bytes(*half)));
    }
}

/// Stream from r6, number from r7, time from r8. Uses r1.
fn write_test_header(a: &mut Assembler, header_at: i16) {
    a.copy(R1, R6);
    a.network_order(R1, W16);
    a.store(W16, R2, header_at + TestHeader::STREAM_AT as i16, R1);
    a.copy(R1, R7);
    a.network_order(R1, W32);
    a.store(W32, R2, header_at + TestHeader::SEQUENCE_AT as i16, R1);
    a.copy(R1, R8);
    a.network_order(R1, W64);
    a.store(W64, R2, header_at + TestHeader::SENT_AT_NS_AT as i16, R1);
}

/// Where fields stand before the test header.
struct Places {
    /// The last 16 bits of the source address.
    address: usize,
    /// IP's own checksum, and how much it covers.
    checksum: Option<(usize, usize)>,
    /// The addresses, which UDP's checksum covers too, and how long both are.
    addresses: (usize, usize),
}

/// Octets before the test header, in which they stand so far: 28 of IPv4 and UDP.
const IPV4: Places = Places { address: 28 - 14, checksum: Some((28 - 10, 20)), addresses: (28 - 12, 8) };
/// 48 of IPv6 and UDP.
const IPV6: Places = Places { address: 48 - 22, checksum: None, addresses: (48 - 8, 32) };
const SOURCE_PORT: usize = 8;
const UDP_CHECKSUM: usize = 2;
/// As [`linerate_wire::template::Template::write`] spreads flows over ports.
const PORTS: i32 = 16_384;

/// The flow in r4 decides the source port and, where it `varies`, the last 16 bits of the source address; both checksums follow.
/// r5 becomes UDP's sum. Uses r0, r1 and r3.
fn write_flow_and_checksums(a: &mut Assembler, frame: &[u8], header_at: usize, places: &Places, varies: bool) {
    let place = |before: usize| (header_at - before) as i16;
    let number_at = |before: usize| {
        let from = header_at - before;
        u16::from_be_bytes([frame[from], frame[from + 1]])
    };
    // Everything that does not change, with zeroes for what does.
    let mut constant = frame.to_vec();
    let mut clear = |from: usize, octets: usize| constant[from..from + octets].fill(0);
    clear(header_at - places.address, 2);
    clear(header_at - SOURCE_PORT, 2);
    clear(header_at - UDP_CHECKSUM, 2);
    clear(header_at + TestHeader::STREAM_AT, 2 + 4 + 8);
    if let Some((checksum, _)) = places.checksum {
        clear(header_at - checksum, 2);
    }
    let udp = &constant[header_at - SOURCE_PORT..];
    let (addresses, octets) = places.addresses;
    let pseudo_header = &constant[header_at - addresses..][..octets];
    let udp_sum = sum(pseudo_header) + 17 + udp.len() as u64 + sum(udp);

    if varies {
        a.copy(R1, R4);
    } else {
        a.set(R1, 0);
    }
    a.alu_number(Alu::Add, R1, i32::from(number_at(places.address)));
    a.alu_number(Alu::And, R1, 0xFFFF);
    a.set_64(R5, udp_sum);
    a.alu(Alu::Add, R5, R1);
    if let Some((checksum, octets)) = places.checksum {
        // IPv4's checksum covers its own header (RFC 791, section 3.1).
        let header = &constant[header_at - 28..][..octets];
        a.set_64(R3, sum(header));
        a.alu(Alu::Add, R3, R1);
        fold(a, R3, R0);
        a.alu_number(Alu::Xor, R3, 0xFFFF);
        a.network_order(R3, W16);
        a.store(W16, R2, place(checksum), R3);
    }
    a.network_order(R1, W16);
    a.store(W16, R2, place(places.address), R1);
    a.alu_number(Alu::And, R4, PORTS - 1);
    a.alu_number(Alu::Add, R4, i32::from(number_at(SOURCE_PORT)));
    a.alu(Alu::Add, R5, R4);
    a.network_order(R4, W16);
    a.store(W16, R2, place(SOURCE_PORT), R4);
    // The test header's own words.
    a.alu(Alu::Add, R5, R6);
    for (from, words) in [(R7, 2), (R8, 4)] {
        a.copy(R1, from);
        for left in (0..words).rev() {
            a.copy(R3, R1);
            a.alu_number(Alu::And, R3, 0xFFFF);
            a.alu(Alu::Add, R5, R3);
            if left > 0 {
                a.alu_number(Alu::ShiftRight, R1, 16);
            }
        }
    }
    fold(a, R5, R1);
    a.alu_number(Alu::Xor, R5, 0xFFFF);
    // Zero would mean that there is no checksum (RFC 768).
    let is_number = a.label();
    a.jump_if_number(JumpCondition::NotEqual, R5, 0, is_number);
    a.set(R5, 0xFFFF);
    a.place(is_number);
    a.network_order(R5, W16);
    a.store(W16, R2, place(UDP_CHECKSUM), R5);
}

/// The sum of 16-bit words (RFC 1071).
fn sum(octets: &[u8]) -> u64 {
    let (words, last) = octets.as_chunks::<2>();
    let odd = last.first().map_or(0, |octet| u64::from(*octet) << 8);
    words.iter().map(|word| u64::from(u16::from_be_bytes(*word))).sum::<u64>() + odd
}
