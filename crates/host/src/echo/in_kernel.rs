//! The echo as an XDP program: frames turn round where the driver has them.
//! Knows no system calls.

use std::io;

use linerate_wire::frame::{FrameKind, StreamField, TestHeader};

use super::EchoCounts;
use crate::sys::bpf::{Attached, Instruction, PerCpuArray, Program, ProgramKind};
use crate::xdp::assembler::Reg::{R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, R10};
use crate::xdp::assembler::Width::{W8, W16, W32, W64};
use crate::xdp::assembler::{Alu, Assembler, Helper, JumpCondition, Label};
use crate::xdp::attach::{AttachPoint, attach};
use crate::xdp::error::XdpError;
use crate::xdp::program::{Kinds, XDP_DROP, XDP_PASS, XDP_TX, at, count_one, fold, network, network_32};

/// Words of the counts' one value, on each CPU.
struct Word;

impl Word {
    const RECEIVED: usize = 0;
    const OCTETS: usize = 1;
    const ECHOED: usize = 2;
    const MULTICAST: usize = 3;
    const RETURNED: usize = 4;
    const STRANGERS: usize = 5;
    const WORDS: usize = 6;
}

/// Answers until it is dropped.
#[derive(Debug)]
pub(super) struct InKernel {
    counts: PerCpuArray,
    place: AttachPoint,
    _attached: Attached,
}

impl InKernel {
    pub(super) fn attach(interface: &str, secret: u32, wanted: Option<AttachPoint>) -> Result<InKernel, XdpError> {
        let (counts, program) = load(secret)?;
        let (attached, place) = attach(&program, interface, wanted)?;
        Ok(InKernel { counts, place, _attached: attached })
    }

    pub(super) fn place(&self) -> AttachPoint {
        self.place
    }

    pub(super) fn counts(&self) -> io::Result<EchoCounts> {
        let words = self.counts.sum(0)?;
        Ok(EchoCounts {
            received: words[Word::RECEIVED],
            octets: words[Word::OCTETS],
            echoed: words[Word::ECHOED],
            multicast: words[Word::MULTICAST],
            returned: words[Word::RETURNED],
            strangers: words[Word::STRANGERS],
            unsent: 0,
            overrun: 0,
        })
    }
}

fn load(secret: u32) -> Result<(PerCpuArray, Program), XdpError> {
    let counts = PerCpuArray::new(1, Word::WORDS).map_err(XdpError::map)?;
    let program = Program::load(ProgramKind::Xdp, &program(secret, counts.number())).map_err(XdpError::load)?;
    Ok((counts, program))
}

const KEY: i16 = -4;

/// What [`super::reflect::reflect`] does. r6 is the context, later the frame's octets; r7 the network header, r8 the
/// frame's beginning, r9 its counts.
fn program(secret: u32, counts: i32) -> Vec<Instruction> {
    let a = &mut Assembler::new();
    let (multicast, returned, unknown) = (a.label(), a.label(), a.label());
    let (back, kinds) = (a.label(), Kinds::new(a));
    a.copy(R6, R1);
    network(a, &kinds);
    for (label, kind) in [(kinds.raw, FrameKind::Raw), (kinds.udp4, FrameKind::Udp4), (kinds.udp6, FrameKind::Udp6)] {
        let header_at = kind.headers_len() as i16;
        a.place(label);
        a.load(W32, R1, R7, header_at + TestHeader::SECRET_AT as i16);
        a.jump_if_number_32(JumpCondition::NotEqual, R1, network_32(secret), kinds.other);
        // Received, whatever becomes of it. Addresses within the frame survive the call; the verifier knows both.
        a.copy(R8, R2);
        a.copy(R6, R3);
        a.alu(Alu::Subtract, R6, R2);
        counts_into_r9(a, counts, unknown);
        count_one(a, R9, at(Word::RECEIVED), R1);
        a.load(W64, R1, R9, at(Word::OCTETS));
        a.alu(Alu::Add, R1, R6);
        a.store(W64, R9, at(Word::OCTETS), R1);
        a.load(W8, R1, R7, header_at + TestHeader::STREAM_AT as i16);
        a.jump_if_number(JumpCondition::AnyBitOf, R1, i32::from(StreamField::ECHOED >> 8), returned);
        for offset in [0, 6] {
            a.load(W8, R1, R8, offset);
            a.jump_if_number(JumpCondition::AnyBitOf, R1, 1, multicast);
        }
        let is_for_many: (&[i16], i32) = match kind {
            FrameKind::Raw => (&[], 0),
            FrameKind::Udp4 => (&[12, 16], 224),
            FrameKind::Udp6 => (&[8, 24], 0xFF),
        };
        for offset in is_for_many.0 {
            a.load(W8, R1, R7, *offset);
            a.jump_if_number(JumpCondition::AtLeast, R1, is_for_many.1, multicast);
        }
        match kind {
            FrameKind::Raw => {}
            FrameKind::Udp4 => swap_words(a, 12, 1),
            FrameKind::Udp6 => swap_words(a, 8, 4),
        }
        a.load(W8, R1, R7, header_at + TestHeader::STREAM_AT as i16);
        a.alu_number(Alu::Or, R1, i32::from(StreamField::ECHOED >> 8));
        a.store(W8, R7, header_at + TestHeader::STREAM_AT as i16, R1);
        if kind != FrameKind::Raw {
            turn_udp(a, header_at - 8);
        }
        a.jump(back);
    }

    a.place(back);
    for (one, other) in [(0, 6), (2, 8), (4, 10)] {
        a.load(W16, R1, R8, one);
        a.load(W16, R2, R8, other);
        a.store(W16, R8, one, R2);
        a.store(W16, R8, other, R1);
    }
    count_one(a, R9, at(Word::ECHOED), R1);
    a.exit_with(XDP_TX);

    for (label, word) in [(multicast, Word::MULTICAST), (returned, Word::RETURNED)] {
        a.place(label);
        count_one(a, R9, at(word), R1);
        a.exit_with(XDP_DROP);
    }
    a.place(kinds.other);
    counts_into_r9(a, counts, unknown);
    count_one(a, R9, at(Word::STRANGERS), R1);
    a.place(unknown);
    a.exit_with(XDP_PASS);
    std::mem::take(a).finish()
}

/// On to `missing` where there are none, which is never.
fn counts_into_r9(a: &mut Assembler, counts: i32, missing: Label) {
    a.store_number(W32, R10, KEY, 0);
    a.map(R1, counts);
    a.copy(R2, R10);
    a.alu_number(Alu::Add, R2, i32::from(KEY));
    a.call(Helper::MapLookup);
    a.jump_if_number(JumpCondition::Equal, R0, 0, missing);
    a.copy(R9, R0);
}

/// Two neighbours of so many words of 32 bits, at r7, change places. Uses r1 and r2.
fn swap_words(a: &mut Assembler, offset: i16, words: i16) {
    for word in 0..words {
        let (one, other) = (offset + 4 * word, offset + 4 * (word + words));
        a.load(W32, R1, R7, one);
        a.load(W32, R2, R7, other);
        a.store(W32, R7, one, R2);
        a.store(W32, R7, other, R1);
    }
}

/// Ports of the UDP header at r7 and `udp_at` change places, and its checksum has the new bit. Uses r1 to r5.
fn turn_udp(a: &mut Assembler, udp_at: i16) {
    let (none, is_number) = (a.label(), a.label());
    a.load(W16, R1, R7, udp_at);
    a.load(W16, R2, R7, udp_at + 2);
    a.store(W16, R7, udp_at, R2);
    a.store(W16, R7, udp_at + 2, R1);
    a.load(W16, R4, R7, udp_at + 6);
    a.jump_if_number(JumpCondition::Equal, R4, 0, none);
    a.network_order(R4, W16);
    a.alu_number(Alu::Xor, R4, 0xFFFF);
    a.alu_number(Alu::Add, R4, i32::from(StreamField::ECHOED));
    fold(a, R4, R5);
    a.alu_number(Alu::Xor, R4, 0xFFFF);
    a.jump_if_number(JumpCondition::NotEqual, R4, 0, is_number);
    a.set(R4, 0xFFFF);
    a.place(is_number);
    a.network_order(R4, W16);
    a.store(W16, R7, udp_at + 6, R4);
    a.place(none);
}

#[cfg(test)]
mod tests {
    use super::super::reflect::tests::{SECRET, frames};
    use super::super::reflect::{Verdict, reflect};
    use super::*;

    /// Each frame with each of its first octets changed, through the program and through what it is held against.
    #[test]
    fn the_program_does_what_the_obvious_form_does() {
        let (counts, program) = match load(SECRET) {
            Ok(loaded) => loaded,
            Err(error) => return println!("SKIPPED the_program_does_what_the_obvious_form_does: {error}"),
        };
        let mut want = [0; Word::WORDS];
        let mut frames_tried = 0;
        for whole in frames() {
            for at in 0..whole.len().min(100) {
                // A bit, all bits, and cut short behind it, where a test run takes so short a frame.
                for change in 0..3 {
                    let mut frame = whole.clone();
                    match change {
                        0 => frame[at] ^= 1 << (at % 8),
                        1 => frame[at] = !frame[at],
                        _ => frame.truncate(at.max(14)),
                    }
                    let (answer, out) = program.run_on(&frame).unwrap();
                    let verdict = reflect(&mut frame, SECRET);
                    let (action, word) = match verdict {
                        Verdict::Echo => (XDP_TX, Word::ECHOED),
                        Verdict::Multicast => (XDP_DROP, Word::MULTICAST),
                        Verdict::Returned => (XDP_DROP, Word::RETURNED),
                        Verdict::Stranger => (XDP_PASS, Word::STRANGERS),
                    };
                    assert_eq!((answer as i32, &out), (action, &frame), "{verdict:?}, octet {at} changed");
                    want[word] += 1;
                    if verdict != Verdict::Stranger {
                        want[Word::RECEIVED] += 1;
                        want[Word::OCTETS] += frame.len() as u64;
                    }
                    frames_tried += 1;
                }
            }
        }
        assert_eq!(counts.sum(0).unwrap(), want);
        assert!(frames_tried > 5_000 && want[Word::ECHOED..].iter().all(|count| *count > 0), "{want:?}");
    }
}
