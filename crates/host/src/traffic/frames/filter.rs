//! Filters (BPF of linux/filter.h) that part a trial's frames from all others, before a packet socket copies them.
//! Knows where the test header stands; nothing of sockets.

use linerate_wire::frame::{ETHERNET_LEN, FrameKind, StreamField, TAG_LEN, TEST_HEADER_LEN, TestHeader};
use socket2::SockFilter;

/// Which frames are the trial's.
#[derive(Clone, Copy, Debug)]
pub struct FrameMatch {
    /// What they carry.
    pub kind: FrameKind,
    /// Their tags, of which the kernel has taken the outer one out.
    pub tags: usize,
    /// The trial's secret.
    pub secret: u32,
}

/// Octets of a foreign frame that are of interest: what it is.
pub const FOREIGN_OCTETS: u32 = 64;
/// All octets there are.
const ALL: u32 = 0x0004_0000;

/// Frames of this stream, those of its handshake too. Not what this machine sends, nor what an echo sent back.
pub fn of_stream(wanted: FrameMatch, stream: u16) -> Vec<SockFilter> {
    let mut program = Program::default();
    program.not_outgoing();
    for tags in wanted.possible_tags() {
        program.match_one(wanted, tags, Some(stream));
    }
    program.end(Otherwise::Drop)
}

/// Frames that come and have not the trial's secret, of which the first octets will do.
pub fn foreign(wanted: FrameMatch) -> Vec<SockFilter> {
    let mut program = Program::default();
    program.not_outgoing();
    for tags in wanted.possible_tags() {
        program.match_one(wanted, tags, None);
    }
    program.end(Otherwise::Take)
}

impl FrameMatch {
    /// How many tags may be left in the octets: a driver may leave all of them in, too.
    fn possible_tags(self) -> impl Iterator<Item = usize> {
        self.tags.saturating_sub(1)..=self.tags
    }
}

/// What becomes of a frame that is none of the trial's; of one that is, the other.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Otherwise {
    Drop,
    Take,
}

/// Where a jump goes: to be computed, not counted by hand.
#[derive(Clone, Copy, PartialEq, Eq)]
enum To {
    Next,
    Label(Label),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Label {
    /// The frame is the trial's.
    Ours,
    /// The next alternative, by its number.
    Alternative(usize),
    /// It left from here, and is nobody's.
    Never,
}

enum Op {
    /// The frame's length.
    Length,
    Load {
        size: u32,
        at: u32,
    },
    And(u32),
    Equal {
        value: u32,
        yes: To,
        no: To,
    },
    AtLeast {
        value: u32,
        no: To,
    },
    At(Label),
}

#[derive(Default)]
struct Program {
    ops: Vec<Op>,
    alternatives: usize,
}

impl Program {
    fn not_outgoing(&mut self) {
        let at = (libc::SKF_AD_OFF + libc::SKF_AD_PKTTYPE).cast_unsigned();
        self.ops.push(Op::Load { size: libc::BPF_B, at });
        self.ops.push(Op::Equal { value: libc::PACKET_OUTGOING.into(), yes: To::Label(Label::Never), no: To::Next });
    }

    /// The frame is the trial's if it has so many tags in its octets, the type, the secret, and the stream.
    fn match_one(&mut self, wanted: FrameMatch, tags: usize, stream: Option<u16>) {
        let type_at = ETHERNET_LEN - 2 + tags * TAG_LEN;
        let header_at = wanted.kind.header_at(tags);
        let other = To::Label(Label::Alternative(self.alternatives));
        // A load beyond the end of a frame would drop it (bpf(4)), and a foreign one is to be counted.
        self.ops.push(Op::Length);
        self.ops.push(Op::AtLeast { value: (header_at + TEST_HEADER_LEN) as u32, no: other });
        let mut check = |size, at: usize, mask: Option<u32>, value, yes| {
            self.ops.push(Op::Load { size, at: at as u32 });
            self.ops.extend(mask.map(Op::And));
            self.ops.push(Op::Equal { value, yes, no: other });
        };
        check(libc::BPF_H, type_at, None, wanted.kind.ethertype().into(), To::Next);
        let ours = To::Label(Label::Ours);
        let last = if stream.is_none() { ours } else { To::Next };
        check(libc::BPF_W, header_at + TestHeader::SECRET_AT, None, wanted.secret, last);
        if let Some(stream) = stream {
            let mask = u32::from(!(StreamField::WARMUP | StreamField::HANDSHAKE));
            check(libc::BPF_H, header_at + TestHeader::STREAM_AT, Some(mask), stream.into(), ours);
        }
        self.ops.push(Op::At(Label::Alternative(self.alternatives)));
        self.alternatives += 1;
    }

    fn end(mut self, otherwise: Otherwise) -> Vec<SockFilter> {
        let ret = |octets: u32| SockFilter::new((libc::BPF_RET | libc::BPF_K) as u16, 0, 0, octets);
        let (others, ours) = match otherwise {
            Otherwise::Drop => (0, ALL),
            Otherwise::Take => (FOREIGN_OCTETS, 0),
        };
        let mut places = Vec::new();
        let mut at = 0;
        for op in &self.ops {
            match op {
                Op::At(label) => places.push((*label, at)),
                _ => at += 1,
            }
        }
        places.extend([(Label::Ours, at + 1), (Label::Never, at + 2)]);
        let place = |label: Label| places.iter().find(|(known, _)| *known == label).map_or(0, |(_, place)| *place);
        let mut filter = Vec::new();
        for op in self.ops.drain(..) {
            let here = filter.len() + 1;
            let jump = |to: To| if let To::Label(label) = to { (place(label) - here) as u8 } else { 0 };
            filter.push(match op {
                Op::Length => SockFilter::new((libc::BPF_LD | libc::BPF_W | libc::BPF_LEN) as u16, 0, 0, 0),
                Op::AtLeast { value, no } => {
                    let code = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
                    SockFilter::new(code, 0, jump(no), value)
                }
                Op::Load { size, at } => SockFilter::new((libc::BPF_LD | size | libc::BPF_ABS) as u16, 0, 0, at),
                Op::And(mask) => SockFilter::new((libc::BPF_ALU | libc::BPF_AND | libc::BPF_K) as u16, 0, 0, mask),
                Op::Equal { value, yes, no } => {
                    let code = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
                    SockFilter::new(code, jump(yes), jump(no), value)
                }
                Op::At(_) => continue,
            });
        }
        filter.extend([ret(others), ret(ours), ret(0)]);
        filter
    }
}
