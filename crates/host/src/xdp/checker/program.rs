//! The program that looks at each frame.
//! Knows no system calls.

use linerate_wire::frame::{FrameKind, StreamField, TestHeader};

use super::{CheckerOptions, LINE_WORDS, Maps};
use crate::sys::bpf::Instruction;
use crate::xdp::assembler::Reg::{R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, R10};
use crate::xdp::assembler::Width::{W16, W32, W64};
use crate::xdp::assembler::{Alu, Assembler, Helper, If, Label, Reg};
use crate::xdp::program::{Kinds, XDP_DROP, XDP_PASS, count_one, network, network_32};

/// Words of a stream's value, on each CPU.
pub(super) struct Stream;

impl Stream {
    /// Four words of the measured part, and of the warm-up.
    pub(super) const MEASURED: usize = 0;
    pub(super) const WARMUP: usize = 4;
    /// Within a part.
    pub(super) const RECEIVED: usize = 0;
    pub(super) const OCTETS: usize = 1;
    pub(super) const DUPLICATED: usize = 2;
    pub(super) const REORDERED: usize = 3;
    pub(super) const GAPS: usize = 8;
    pub(super) const FIRST: usize = 9;
    pub(super) const LAST: usize = 10;
    pub(super) const FROM_THE_FUTURE: usize = 11;
    /// Eight buckets for each power of two (see [`super::bucket_from_ns`]).
    pub(super) const DELAYS: usize = 16;
    pub(super) const BUCKETS: usize = 8 * (64 - 2);
    pub(super) const WORDS: usize = Stream::DELAYS + Stream::BUCKETS;
}

/// Words of the totals' value, on each CPU.
pub(super) struct Totals;

impl Totals {
    pub(super) const STRANGERS: usize = 0;
    pub(super) const STRAYS: usize = 1;
    pub(super) const HANDSHAKES: usize = 2;
    pub(super) const WORDS: usize = 4;
}

const fn at(word: usize) -> i16 {
    8 * word as i16
}

// The stack: a key of 32 bits, an EtherType, the time in the frame, the stream's part as an offset.
const KEY: i16 = -4;
const ETHERTYPE: i16 = -6;
const SENT_AT: i16 = -16;
const PART: i16 = -24;
/// A zero to begin a count with.
const ZERO: i16 = -32;

/// How often another CPU may be first before a frame is taken for one that was overtaken, as it was.
const TRIES: u32 = 8;

/// The program. r6 is the context, later the stream's counts; r7 the test header, later the next number's address; r8 the
/// frame's octets, r9 its number.
pub(super) fn program(options: CheckerOptions, maps: &Maps, window: u32, is_atomic: bool) -> Vec<Instruction> {
    let a = &mut Assembler::new();
    a.copy(R6, R1);
    let kinds = Kinds::new(a);
    let header = a.label();
    network(a, &kinds);
    a.place(kinds.udp6);
    a.alu_number(Alu::Add, R7, FrameKind::Udp6.headers_len() as i32);
    a.jump(header);
    a.place(kinds.udp4);
    a.alu_number(Alu::Add, R7, FrameKind::Udp4.headers_len() as i32);
    a.place(header);
    a.place(kinds.raw);
    a.load(W32, R1, R7, TestHeader::SECRET_AT as i16);
    a.jump_if_number_32(If::NotEqual, R1, network_32(options.secret), kinds.other);

    // What the frame says, taken out of it.
    let (handshake, stray, pass) = (a.label(), a.label(), a.label());
    a.copy(R8, R3);
    a.alu(Alu::Subtract, R8, R2);
    a.load(W32, R9, R7, TestHeader::SEQUENCE_AT as i16);
    a.network_order(R9, W32);
    a.load(W64, R1, R7, TestHeader::SENT_AT_NS_AT as i16);
    a.network_order(R1, W64);
    a.store(W64, R10, SENT_AT, R1);
    a.load(W16, R1, R7, TestHeader::STREAM_AT as i16);
    a.network_order(R1, W16);
    a.jump_if_number(If::AnyBitOf, R1, i32::from(StreamField::HANDSHAKE), handshake);
    let (straight, way) = (a.label(), if options.echoed { If::NotEqual } else { If::Equal });
    a.copy(R2, R1);
    a.alu_number(Alu::And, R2, i32::from(StreamField::ECHOED));
    a.jump_if_number(way, R2, 0, straight);
    a.jump(stray);
    a.place(straight);
    // 4 words of 8 octets, or 0.
    let part_shift = StreamField::WARMUP.trailing_zeros() as i32 - PART_OCTETS.trailing_zeros() as i32;
    a.copy(R2, R1);
    a.alu_number(Alu::ShiftRight, R2, part_shift);
    a.alu_number(Alu::And, R2, PART_OCTETS);
    a.store(W64, R10, PART, R2);
    a.alu_number(Alu::And, R1, i32::from(StreamField(u16::MAX).stream()));
    a.jump_if_number(If::AtLeast, R1, i32::from(options.streams), stray);
    a.store(W32, R10, KEY, R1);

    look_up(a, maps.streams.number(), KEY, pass);
    a.copy(R6, R0);
    look_up(a, maps.next.number(), KEY, pass);
    a.copy(R7, R0);
    look_up(a, maps.seen.number(), KEY, pass);
    let (duplicate, late, counted) = (a.label(), a.label(), a.label());
    tell_copies(a, window, is_atomic, duplicate);
    advance(a, is_atomic, late);
    // Leapt over some.
    let in_order = a.label();
    a.jump_if_number(If::Equal, R1, 0, in_order);
    count_one(a, R6, at(Stream::GAPS), R2);
    a.place(in_order);
    part(a, R3);
    count_received(a);
    a.jump(counted);

    a.place(late);
    part(a, R3);
    count_one(a, R3, at(Stream::REORDERED), R1);
    count_received(a);
    a.jump(counted);

    let end = a.label();
    a.place(duplicate);
    part(a, R3);
    count_one(a, R3, at(Stream::DUPLICATED), R1);
    a.jump(end);

    a.place(counted);
    count_time(a);
    a.place(end);
    a.exit_with(XDP_DROP);

    for (label, word, answer) in [
        (stray, Totals::STRAYS, XDP_DROP),
        (handshake, Totals::HANDSHAKES, XDP_PASS),
        (kinds.other, Totals::STRANGERS, XDP_PASS),
    ] {
        a.place(label);
        a.store(W16, R10, ETHERTYPE, R5);
        a.store_number(W32, R10, KEY, 0);
        look_up(a, maps.totals.number(), KEY, pass);
        count_one(a, R0, at(word), R1);
        if word == Totals::STRANGERS {
            count_ethertype(a, maps.ethertypes.number(), pass);
        }
        a.exit_with(answer);
    }
    a.place(pass);
    a.exit_with(XDP_PASS);
    std::mem::take(a).finish()
}

const PART_OCTETS: i32 = 8 * Stream::WARMUP as i32;

/// r0 becomes the value of the key on the stack; on to `missing` where there is none.
fn look_up(a: &mut Assembler, map: i32, key: i16, missing: Label) {
    a.map(R1, map);
    a.copy(R2, R10);
    a.alu_number(Alu::Add, R2, i32::from(key));
    a.call(Helper::MapLookup);
    a.jump_if_number(If::Equal, R0, 0, missing);
}

/// Whether the frame's place in the window, at r0, has its number already. Numbers stand there complemented, so that a
/// zero is of no frame that comes soon. Uses r1, r2 and r3.
fn tell_copies(a: &mut Assembler, window: u32, is_atomic: bool, duplicate: Label) {
    a.copy(R1, R9);
    a.alu_number(Alu::And, R1, window as i32 - 1);
    a.alu_number(Alu::ShiftLeft, R1, 2);
    a.alu(Alu::Add, R0, R1);
    a.copy(R2, R9);
    a.alu_number_32(Alu::Xor, R2, -1);
    a.copy(R3, R2);
    if is_atomic {
        a.exchange(W32, R0, 0, R2);
    } else {
        a.load(W32, R2, R0, 0);
        a.store(W32, R0, 0, R3);
    }
    a.jump_if(If::Equal, R2, R3, duplicate);
}

/// Moves the next number, at r7, behind the frame's; on to `late` where that was lower. r1 becomes how many numbers were
/// leapt over. Uses r0 and r2 to r4.
fn advance(a: &mut Assembler, is_atomic: bool, late: Label) {
    let done = a.label();
    for _ in 0..if is_atomic { TRIES } else { 1 } {
        a.load(W64, R0, R7, 0);
        // 32 bits of a number that goes on: the nearest with these, before or behind.
        a.copy(R1, R9);
        a.alu(Alu::Subtract, R1, R0);
        a.alu_number(Alu::ShiftLeft, R1, 32);
        a.alu_number(Alu::ShiftRightSigned, R1, 32);
        a.jump_if_number(If::SignedBelow, R1, 0, late);
        a.copy(R4, R0);
        a.copy(R2, R0);
        a.alu(Alu::Add, R2, R1);
        a.alu_number(Alu::Add, R2, 1);
        if is_atomic {
            a.compare_and_exchange(W64, R7, 0, R2);
            a.jump_if(If::Equal, R0, R4, done);
        } else {
            a.store(W64, R7, 0, R2);
            a.jump(done);
        }
    }
    if is_atomic {
        a.jump(late);
    }
    a.place(done);
}

/// `to` becomes the address of the counts of the frame's part.
fn part(a: &mut Assembler, to: Reg) {
    a.load(W64, to, R10, PART);
    // The verifier need not remember what was stored.
    a.alu_number(Alu::And, to, PART_OCTETS);
    a.alu(Alu::Add, to, R6);
}

/// At r3, of octets in r8. Uses r1.
fn count_received(a: &mut Assembler) {
    count_one(a, R3, at(Stream::RECEIVED), R1);
    a.load(W64, R1, R3, at(Stream::OCTETS));
    a.alu(Alu::Add, R1, R8);
    a.store(W64, R3, at(Stream::OCTETS), R1);
}

/// When it came, and how long it took. Uses r0 to r5.
fn count_time(a: &mut Assembler) {
    let (known, future, done) = (a.label(), a.label(), a.label());
    a.call(Helper::MonotonicNs);
    a.store(W64, R6, at(Stream::LAST), R0);
    a.load(W64, R1, R6, at(Stream::FIRST));
    a.jump_if_number(If::NotEqual, R1, 0, known);
    a.store(W64, R6, at(Stream::FIRST), R0);
    a.place(known);
    a.load(W64, R1, R10, PART);
    a.jump_if_number(If::NotEqual, R1, 0, done);
    a.load(W64, R1, R10, SENT_AT);
    a.alu(Alu::Subtract, R0, R1);
    a.jump_if_number(If::SignedBelow, R0, 0, future);
    bucket(a);
    // Never; but the verifier does not know that.
    a.jump_if_number(If::AtLeast, R1, Stream::BUCKETS as i32, done);
    a.alu_number(Alu::ShiftLeft, R1, 3);
    a.alu(Alu::Add, R1, R6);
    count_one(a, R1, at(Stream::DELAYS), R2);
    a.jump(done);
    a.place(future);
    count_one(a, R6, at(Stream::FROM_THE_FUTURE), R1);
    a.place(done);
}

/// r1 becomes the bucket of the nanoseconds in r0. Uses r2 and r3.
fn bucket(a: &mut Assembler) {
    let done = a.label();
    a.copy(R1, R0);
    a.jump_if_number(If::Below, R0, 8, done);
    // The place of the highest bit, in r1, by halves.
    a.set(R1, 0);
    a.copy(R2, R0);
    for bits in [32, 16, 8, 4, 2, 1] {
        let below = a.label();
        a.copy(R3, R2);
        a.alu_number(Alu::ShiftRight, R3, bits);
        a.jump_if_number(If::Equal, R3, 0, below);
        a.copy(R2, R3);
        a.alu_number(Alu::Add, R1, bits);
        a.place(below);
    }
    // The three bits behind it.
    a.alu_number(Alu::Subtract, R1, 3);
    a.alu(Alu::ShiftRight, R0, R1);
    a.alu_number(Alu::And, R0, 7);
    a.alu_number(Alu::Add, R1, 1);
    a.alu_number(Alu::ShiftLeft, R1, 3);
    a.alu(Alu::Add, R1, R0);
    a.place(done);
}

/// One more of the EtherType on the stack, while there is room for another. On to `pass` where there is none.
fn count_ethertype(a: &mut Assembler, map: i32, pass: Label) {
    const BPF_NOEXIST: i32 = 1;
    let known = a.label();
    let missing = a.label();
    look_up(a, map, ETHERTYPE, missing);
    a.jump(known);
    a.place(missing);
    // Two CPUs may both find it missing; whoever comes second leaves the first one's zero alone.
    a.store_number(W64, R10, ZERO, 0);
    a.map(R1, map);
    for (argument, offset) in [(R2, ETHERTYPE), (R3, ZERO)] {
        a.copy(argument, R10);
        a.alu_number(Alu::Add, argument, i32::from(offset));
    }
    a.set(R4, BPF_NOEXIST);
    a.call(Helper::MapUpdate);
    look_up(a, map, ETHERTYPE, pass);
    a.place(known);
    a.set(R1, 1);
    a.add_in_memory(W64, R0, 0, R1);
}

const _: () = assert!(LINE_WORDS >= 1 && Stream::WARMUP == 4);
