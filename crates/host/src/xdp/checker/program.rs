//! The program that looks at each frame.
//! Knows no system calls.

use linerate_wire::frame::{FrameKind, StreamField, TestHeader};

use super::{CheckerOptions, LINE_WORDS, MAX_SIZES, MAX_STREAMS, Maps, Times};
use crate::sys::bpf::Instruction;
use crate::xdp::assembler::Reg::{R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, R10};
use crate::xdp::assembler::Width::{W16, W32, W64};
use crate::xdp::assembler::{Alu, Assembler, Helper, JumpCondition, Label, Reg};
use crate::xdp::program::{Kinds, XDP_DROP, XDP_PASS, at, count_in, count_one, look_up, network, network_32};

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
    pub(super) const LATE: usize = 12;
    pub(super) const OUTSIDE: usize = 13;
    pub(super) const OUTSIDE_OCTETS: usize = 14;
    pub(super) const MALFORMED: usize = 15;
    /// When the first of the measured part came.
    pub(super) const FIRST_MEASURED: usize = 16;
    /// Of the measured part, by the place in the mix.
    pub(super) const PLACES: usize = 24;
    pub(super) const WORDS: usize = Stream::PLACES + MAX_SIZES;
    /// 2 to the power of this are the buckets of each power of two (see [`super::bucket_from_ns`]).
    pub(super) const BUCKET_BITS: u32 = 6;
    /// Longer times are in the last bucket: 2 to the power of this, nanoseconds.
    const MOST_BITS: u32 = 34;
    pub(super) const BUCKETS: usize = ((Stream::MOST_BITS - Stream::BUCKET_BITS + 1) << Stream::BUCKET_BITS) as usize;
}

/// Words that this process writes: one of each for each stream.
pub(super) struct ControlWords;

impl ControlWords {
    /// Not 0 once its end was heard.
    pub(super) const ENDED: usize = 0;
    /// When the measured part's window ends.
    pub(super) const WINDOW_END: usize = MAX_STREAMS as usize;
    pub(super) const WORDS: usize = 2 * MAX_STREAMS as usize;
}

/// Words of the totals' value, on each CPU.
pub(super) struct Totals;

impl Totals {
    pub(super) const STRANGERS: usize = 0;
    pub(super) const STRAYS: usize = 1;
    pub(super) const HANDSHAKES: usize = 2;
    pub(super) const WORDS: usize = 4;
}

/// Beside a stream's next number: when the last frame of the measured part came.
const LAST_MEASURED: usize = 1;

// The stack: a key of 32 bits, an EtherType, the time in the frame, the stream's part as an offset.
const KEY: i16 = -4;
const ETHERTYPE: i16 = -6;
const SENT_AT: i16 = -16;
const PART: i16 = -24;
/// A zero to begin a count with.
const ZERO: i16 = -32;
/// Where the place in the mix is counted, as an offset.
const PLACE: i16 = -40;
/// A key of 64 bits: the stream, and how many numbers were leapt over.
const LEAP: i16 = -48;
/// A key of 32 bits: the flow, of all streams'.
const FLOW: i16 = -52;

/// How often another CPU may be first before a frame is taken for one that was overtaken, as it was.
const TRIES: u32 = 8;

/// The program. r6 is the context, later the stream's counts; r7 the test header, later the address of
/// the next number and what is beside it; r8 the
/// frame's octets, r9 its number, later the time. `lengths` are what is expected, one where all are alike.
pub(super) fn program(
    options: &CheckerOptions,
    lengths: &[u64],
    maps: &Maps,
    window: u32,
    is_atomic: bool,
) -> Vec<Instruction> {
    let a = &mut Assembler::new();
    a.copy(R6, R1);
    let kinds = Kinds::new(a);
    let header = a.label();
    network(a, &kinds);
    let wanted = options.expected.as_ref().map(|expected| expected.template.kind);
    for (kind, label) in [(FrameKind::Udp6, kinds.udp6), (FrameKind::Udp4, kinds.udp4), (FrameKind::Raw, kinds.raw)] {
        a.place(label);
        match wanted {
            Some(wanted) if wanted != kind => a.jump(kinds.other),
            _ => {
                a.alu_number(Alu::Add, R7, kind.headers_len() as i32);
                a.jump(header);
            }
        }
    }
    a.place(header);
    a.load(W32, R1, R7, TestHeader::SECRET_AT as i16);
    a.jump_if_number_32(JumpCondition::NotEqual, R1, network_32(options.secret), kinds.other);

    // What the frame says, taken out of it.
    let (handshake, stray, pass) = (a.label(), a.label(), a.label());
    a.copy(R8, R3);
    match &options.expected {
        // A tag may have been taken out of the frame on its way here: it counts as if it were there.
        Some(expected) => {
            a.alu(Alu::Subtract, R8, R7);
            a.alu_number(Alu::Add, R8, expected.template.header_at() as i32);
        }
        None => a.alu(Alu::Subtract, R8, R2),
    }
    a.load(W32, R9, R7, TestHeader::SEQUENCE_AT as i16);
    a.network_order(R9, W32);
    a.load(W64, R1, R7, TestHeader::SENT_AT_NS_AT as i16);
    a.network_order(R1, W64);
    a.store(W64, R10, SENT_AT, R1);
    a.load(W16, R1, R7, TestHeader::STREAM_AT as i16);
    a.network_order(R1, W16);
    a.jump_if_number(JumpCondition::AnyBitOf, R1, i32::from(StreamField::HANDSHAKE), handshake);
    let (straight, way) = (a.label(), if options.echoed { JumpCondition::NotEqual } else { JumpCondition::Equal });
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
    a.jump_if_number(JumpCondition::AtLeast, R1, i32::from(options.streams), stray);
    a.store(W32, R10, KEY, R1);

    look_up(a, maps.streams.number(), KEY, pass);
    a.copy(R6, R0);
    look_up(a, maps.next.number(), KEY, pass);
    a.copy(R7, R0);
    let malformed = a.label();
    check_length(a, lengths, maps.sizes.number(), malformed, pass);
    look_up(a, maps.seen.number(), KEY, pass);
    let (duplicate, late, counted) = (a.label(), a.label(), a.label());
    tell_copies(a, window, is_atomic, duplicate);
    advance(a, is_atomic, late);
    // Leapt over some.
    let in_order = a.label();
    a.jump_if_number(JumpCondition::Equal, R1, 0, in_order);
    count_one(a, R6, at(Stream::GAPS), R2);
    a.load(W32, R2, R10, KEY);
    a.store(W32, R10, LEAP, R2);
    a.store(W32, R10, LEAP + 4, R1);
    let noted = a.label();
    count_in(a, maps.leaps.number(), LEAP, ZERO, noted);
    a.place(noted);
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

    if !lengths.is_empty() {
        a.place(malformed);
        count_one(a, R6, at(Stream::MALFORMED), R1);
        a.jump(end);
    }

    a.place(counted);
    if options.flows > 1 {
        let sizes = options.expected.as_ref().map_or(1, |expected| expected.sizes.len());
        count_flow(a, options.flows, sizes, maps.flows.number());
    }
    count_time(a, options.times, lengths.len(), maps, end);
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
            count_in(a, maps.ethertypes.number(), ETHERTYPE, ZERO, pass);
        }
        a.exit_with(answer);
    }
    a.place(pass);
    a.exit_with(XDP_PASS);
    std::mem::take(a).finish()
}

const PART_OCTETS: i32 = 8 * Stream::WARMUP as i32;

/// Whether the frame, of octets in r8 and the number in r9, is as long as it was sent; on to `malformed` where not. Its place
/// in the mix goes to the stack. r7 is the next number's address. Uses r1 to r3.
fn check_length(a: &mut Assembler, lengths: &[u64], map: i32, malformed: Label, never: Label) {
    match lengths {
        [] => {}
        [length] => a.jump_if_number(JumpCondition::NotEqual, R8, *length as i32, malformed),
        _ => {
            nearest(a, R1, R2);
            a.alu(Alu::Add, R1, R2);
            a.alu_number(Alu::Remainder, R1, lengths.len() as i32);
            a.jump_if_number(JumpCondition::AtLeast, R1, lengths.len() as i32, never);
            a.alu_number(Alu::ShiftLeft, R1, 3);
            a.store(W64, R10, PLACE, R1);
            a.map_value(R2, map);
            a.alu(Alu::Add, R2, R1);
            a.load(W64, R2, R2, 0);
            a.jump_if(JumpCondition::NotEqual, R2, R8, malformed);
        }
    }
}

/// `next` becomes the next number, at r7, and `ahead` how far the number in r9 is before it or, negative, behind: of those with
/// the same 32 bits the nearest.
fn nearest(a: &mut Assembler, ahead: Reg, next: Reg) {
    a.load(W64, next, R7, 0);
    a.copy(ahead, R9);
    a.alu(Alu::Subtract, ahead, next);
    a.alu_number(Alu::ShiftLeft, ahead, 32);
    a.alu_number(Alu::ShiftRightSigned, ahead, 32);
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
    a.jump_if(JumpCondition::Equal, R2, R3, duplicate);
}

/// Moves the next number, at r7, behind the frame's; on to `late` where that was lower. r1 becomes how many numbers were
/// leapt over. Uses r0 and r2 to r4.
fn advance(a: &mut Assembler, is_atomic: bool, late: Label) {
    let done = a.label();
    for _ in 0..if is_atomic { TRIES } else { 1 } {
        nearest(a, R1, R0);
        a.jump_if_number(JumpCondition::SignedBelow, R1, 0, late);
        a.copy(R4, R0);
        a.copy(R2, R0);
        a.alu(Alu::Add, R2, R1);
        a.alu_number(Alu::Add, R2, 1);
        if is_atomic {
            a.compare_and_exchange(W64, R7, 0, R2);
            a.jump_if(JumpCondition::Equal, R0, R4, done);
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

/// Of which flow it is, of those of the stream in the key, by the number in r9. r7 is the next number's address. Uses r0 to r5.
fn count_flow(a: &mut Assembler, flows: u16, sizes: usize, map: i32) {
    let unknown = a.label();
    nearest(a, R1, R2);
    a.alu(Alu::Add, R1, R2);
    if sizes > 1 {
        a.alu_number(Alu::Divide, R1, sizes as i32);
    }
    a.alu_number(Alu::Remainder, R1, flows.into());
    a.load(W32, R2, R10, KEY);
    a.alu_number(Alu::Multiply, R2, flows.into());
    a.alu(Alu::Add, R1, R2);
    a.store(W32, R10, FLOW, R1);
    look_up(a, map, FLOW, unknown);
    count_one(a, R0, 0, R1);
    a.place(unknown);
}

/// When it came, and what that means; on to `end`. r9 becomes the time. Uses r0 to r5.
fn count_time(a: &mut Assembler, times: Times, sizes: usize, maps: &Maps, end: Label) {
    let (known, future, inside, outside) = (a.label(), a.label(), a.label(), a.label());
    a.call(Helper::MonotonicNs);
    a.copy(R9, R0);
    a.store(W64, R6, at(Stream::LAST), R9);
    a.load(W64, R1, R6, at(Stream::FIRST));
    a.jump_if_number(JumpCondition::NotEqual, R1, 0, known);
    a.store(W64, R6, at(Stream::FIRST), R9);
    a.place(known);
    a.load(W64, R1, R10, PART);
    a.jump_if_number(JumpCondition::NotEqual, R1, 0, end);

    if sizes > 1 {
        a.load(W64, R1, R10, PLACE);
        // The verifier need not remember what was stored.
        a.alu_number(Alu::And, R1, 8 * (MAX_SIZES as i32 - 1));
        a.alu(Alu::Add, R1, R6);
        count_one(a, R1, at(Stream::PLACES), R2);
    }
    a.map_value(R2, maps.told.number());
    a.load(W32, R1, R10, KEY);
    a.alu_number(Alu::And, R1, i32::from(MAX_STREAMS) - 1);
    a.alu_number(Alu::ShiftLeft, R1, 3);
    a.alu(Alu::Add, R2, R1);
    a.load(W64, R1, R2, at(ControlWords::ENDED));
    let is_open = a.label();
    a.jump_if_number(JumpCondition::Equal, R1, 0, is_open);
    count_one(a, R6, at(Stream::LATE), R1);
    a.jump(outside);
    a.place(is_open);
    a.load(W64, R1, R2, at(ControlWords::WINDOW_END));
    a.jump_if(JumpCondition::Below, R9, R1, inside);
    a.place(outside);
    count_one(a, R6, at(Stream::OUTSIDE), R1);
    a.load(W64, R1, R6, at(Stream::OUTSIDE_OCTETS));
    a.alu(Alu::Add, R1, R8);
    a.store(W64, R6, at(Stream::OUTSIDE_OCTETS), R1);
    a.place(inside);

    let again = a.label();
    // All CPUs share it, as they share the number beside it.
    a.load(W64, R1, R7, at(LAST_MEASURED));
    a.store(W64, R7, at(LAST_MEASURED), R9);
    a.jump_if_number(JumpCondition::NotEqual, R1, 0, again);
    a.store(W64, R6, at(Stream::FIRST_MEASURED), R9);
    a.place(again);
    match times {
        Times::Delays => {
            a.load(W64, R1, R10, SENT_AT);
            a.alu(Alu::Subtract, R9, R1);
            a.jump_if_number(JumpCondition::SignedBelow, R9, 0, future);
        }
        Times::Gaps | Times::GapErrors(_) => {
            a.jump_if_number(JumpCondition::Equal, R1, 0, end);
            a.alu(Alu::Subtract, R9, R1);
            // Two CPUs may have two frames at once.
            let later = a.label();
            a.jump_if_number(JumpCondition::SignedAtLeast, R9, 0, later);
            a.set(R9, 0);
            a.place(later);
        }
    }
    if let Times::GapErrors(gap) = times {
        let longer = a.label();
        a.set_64(R1, gap.into());
        a.alu(Alu::Subtract, R9, R1);
        a.jump_if_number(JumpCondition::SignedAtLeast, R9, 0, longer);
        a.alu_number(Alu::Multiply, R9, -1);
        a.place(longer);
    }
    look_up(a, maps.times.number(), KEY, end);
    bucket(a);
    // Never; but the verifier does not know that.
    a.jump_if_number(JumpCondition::AtLeast, R1, Stream::BUCKETS as i32, end);
    a.alu_number(Alu::ShiftLeft, R1, 3);
    a.alu(Alu::Add, R1, R0);
    count_one(a, R1, 0, R2);
    if times == Times::Delays {
        a.jump(end);
        a.place(future);
        count_one(a, R6, at(Stream::FROM_THE_FUTURE), R1);
    }
}

/// r1 becomes the bucket of the nanoseconds in r9. Uses r2 to r4.
fn bucket(a: &mut Assembler) {
    let (done, small) = (a.label(), a.label());
    a.set_64(R4, (1 << Stream::MOST_BITS) - 1);
    a.jump_if(JumpCondition::AtMost, R9, R4, small);
    a.copy(R9, R4);
    a.place(small);
    a.copy(R1, R9);
    a.jump_if_number(JumpCondition::Below, R9, 1 << Stream::BUCKET_BITS, done);
    // The place of the highest bit, in r1, by halves.
    a.set(R1, 0);
    a.copy(R2, R9);
    for bits in [32, 16, 8, 4, 2, 1] {
        let below = a.label();
        a.copy(R3, R2);
        a.alu_number(Alu::ShiftRight, R3, bits);
        a.jump_if_number(JumpCondition::Equal, R3, 0, below);
        a.copy(R2, R3);
        a.alu_number(Alu::Add, R1, bits);
        a.place(below);
    }
    // The bits behind it.
    a.alu_number(Alu::Subtract, R1, Stream::BUCKET_BITS as i32);
    a.alu(Alu::ShiftRight, R9, R1);
    a.alu_number(Alu::And, R9, (1 << Stream::BUCKET_BITS) - 1);
    a.alu_number(Alu::Add, R1, 1);
    a.alu_number(Alu::ShiftLeft, R1, Stream::BUCKET_BITS as i32);
    a.alu(Alu::Add, R1, R9);
    a.place(done);
}

const _: () =
    assert!(LINE_WORDS > LAST_MEASURED && Stream::WARMUP == 4 && MAX_STREAMS.is_power_of_two() && MAX_SIZES == 64);
