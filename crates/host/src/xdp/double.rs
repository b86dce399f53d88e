//! A device whose limit is known: frames go from one interface to another through a token bucket, and what the bucket has
//! no token for is dropped and counted. For tests of whatever looks for a device's limit; no trial makes one.
//!
//! ```text
//!   tester's port ── veth ── from │ rate c, depth B │ to ── veth ── tester's other port
//! ```
//! What is due is decided by the clock and not by being run in time, so the rate has no error however busy the machine is.
//! At an even load above c, the frames before the first loss are B ÷ (1 − c ÷ load). A frame may be held: the program looks at
//! the clock until the frame is due, so the CPU that receives is busy meanwhile, and the load has to leave it the time.

use std::io;

use super::assembler::Reg::{R0, R1, R2, R3, R4, R6, R7, R8, R9};
use super::assembler::Width::W64;
use super::assembler::{Alu, Assembler, Helper, JumpCondition};
use super::attach::{AttachPoint, attach, number};
use super::error::XdpError;
use super::generator::Pace;
use super::program::{XDP_DROP, at, count_one};
use crate::sys::bpf::{Array, Attached, Instruction, Program, ProgramKind};

/// How much it carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DoubleOptions {
    /// Frames of any size, as fast as tokens come.
    pub capacity: Pace,
    /// Tokens that it may save up, one a frame; it begins with as many. At least 1, and times [`Pace::in_ns`] below 2^62.
    pub depth: u64,
    /// From a frame's arrival until it leaves, nanoseconds, [`MOST_HELD_NS`] at most; 0: at once.
    pub hold_ns: u64,
}

/// The longest that a frame is held. The verifier goes through every look at the clock.
pub const MOST_HELD_NS: u64 = 50_000;
/// Looks at the clock, each some 20 ns and more: enough for the longest.
const LOOKS: i32 = 4096;

/// What came and what became of it: the truth that a tester's figures are held against.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DoubleCounts {
    /// Frames that came.
    pub received: u64,
    /// Those that were handed to the other interface; what that has no room for is in its `tx_dropped`.
    pub forwarded: u64,
    /// Those without a token: the rest.
    pub dropped: u64,
    /// Frames that were forwarded before the first that was dropped, or in all.
    pub before_first_drop: u64,
    /// Whole tokens that came while it had as many as it may save up.
    pub spilt: u64,
    /// Whole tokens that it had when the last frame had come.
    pub saved: u64,
    /// The least and the most that a frame was held, by the clock, nanoseconds; where frames are held.
    pub held_ns: Option<(u64, u64)>,
    /// When the first and the last frame came.
    pub first_ns: Option<u64>,
    /// See [`DoubleCounts::first_ns`].
    pub last_ns: Option<u64>,
}

/// Forwards until it is dropped. Both interfaces are of one network namespace, and `from` has one receive queue.
#[derive(Debug)]
pub struct Double {
    state: Array,
    in_ns: u64,
    _attached: Attached,
}

/// Words of the map's one value.
struct State;

impl State {
    /// Tokens, in parts: one is [`Pace::in_ns`] of them, and a nanosecond brings [`Pace::frames`].
    const CREDIT: usize = 0;
    const LAST: usize = 1;
    const FIRST: usize = 2;
    const FORWARDED: usize = 3;
    const DROPPED: usize = 4;
    const BEFORE_FIRST_DROP: usize = 5;
    /// In parts, as the credit.
    const SPILT: usize = 6;
    /// Beyond every time, before there is one.
    const HELD_LEAST: usize = 7;
    const HELD_MOST: usize = 8;
    const WORDS: usize = 9;
}

impl Double {
    /// Forwards what arrives at `from`, in its driver, to `to`. On a veth the other end of `to` must have an XDP program.
    pub fn attach(from: &str, to: &str, options: DoubleOptions) -> Result<Double, XdpError> {
        let state = Array::new(1, State::WORDS).map_err(XdpError::map)?;
        let mut words = [0; State::WORDS];
        words[State::HELD_LEAST] = u64::MAX;
        state.write(0, &words).map_err(XdpError::map)?;
        let code = program(number(to)?, options, state.number());
        let program = Program::load(ProgramKind::Xdp, &code).map_err(XdpError::load)?;
        let (attached, _) = attach(&program, from, Some(AttachPoint::Driver))?;
        Ok(Double { state, in_ns: options.capacity.in_ns.max(1), _attached: attached })
    }

    /// What came so far.
    pub fn counts(&self) -> io::Result<DoubleCounts> {
        let state = self.state.read(0)?;
        let (forwarded, dropped) = (state[State::FORWARDED], state[State::DROPPED]);
        let time = |at: usize| Some(state[at]).filter(|ns| *ns > 0);
        Ok(DoubleCounts {
            received: forwarded + dropped,
            forwarded,
            dropped,
            before_first_drop: if dropped > 0 { state[State::BEFORE_FIRST_DROP] } else { forwarded },
            spilt: state[State::SPILT] / self.in_ns,
            saved: state[State::CREDIT] / self.in_ns,
            held_ns: (state[State::HELD_MOST] > 0).then(|| (state[State::HELD_LEAST], state[State::HELD_MOST])),
            first_ns: time(State::FIRST),
            last_ns: time(State::LAST),
        })
    }
}

/// Looks at the clock until so long has passed since the time in r8, and notes how long it was; r9 is the state. Uses all others.
fn hold(a: &mut Assembler, ns: u64) {
    let (again, due, no_less, no_more) = (a.label(), a.label(), a.label(), a.label());
    a.copy(R6, R8);
    a.alu_number(Alu::Add, R6, ns as i32);
    a.set(R7, LOOKS);
    a.place(again);
    a.call(Helper::MonotonicNs);
    a.alu_number(Alu::Subtract, R7, 1);
    a.jump_if_number(JumpCondition::Equal, R7, 0, due);
    // Backwards where it goes on: the verifier, which follows the other way first, then keeps one place in mind at a time.
    a.jump_if(JumpCondition::Below, R0, R6, again);
    a.place(due);
    a.alu(Alu::Subtract, R0, R8);
    a.load(W64, R1, R9, at(State::HELD_LEAST));
    a.jump_if(JumpCondition::AtLeast, R0, R1, no_less);
    a.store(W64, R9, at(State::HELD_LEAST), R0);
    a.place(no_less);
    a.load(W64, R1, R9, at(State::HELD_MOST));
    a.jump_if(JumpCondition::AtMost, R0, R1, no_more);
    a.store(W64, R9, at(State::HELD_MOST), R0);
    a.place(no_more);
}

/// The sum of two of these fits 64 bits.
const MOST: u64 = 1 << 62;
const HOUR_NS: u64 = 3_600_000_000_000;

/// r9 is the state, r8 the time, r7 the credit.
fn program(to: u32, options: DoubleOptions, state: i32) -> Vec<Instruction> {
    let Pace { frames, in_ns } = options.capacity;
    let (frames, in_ns) = (frames.max(1), in_ns.max(1));
    let full = options.depth.max(1).saturating_mul(in_ns).min(MOST);
    let a = &mut Assembler::new();
    let (begin, add, spend, drop, known) = (a.label(), a.label(), a.label(), a.label(), a.label());
    a.map_value(R9, state);
    a.call(Helper::MonotonicNs);
    a.copy(R8, R0);
    a.load(W64, R7, R9, at(State::CREDIT));
    a.load(W64, R2, R9, at(State::LAST));
    a.store(W64, R9, at(State::LAST), R8);
    a.jump_if_number(JumpCondition::Equal, R2, 0, begin);
    a.copy(R3, R8);
    a.alu(Alu::Subtract, R3, R2);
    a.set_64(R4, HOUR_NS.min(MOST / frames));
    a.jump_if(JumpCondition::AtMost, R3, R4, add);
    a.copy(R3, R4);
    a.place(add);
    a.set_64(R4, frames);
    a.alu(Alu::Multiply, R3, R4);
    a.alu(Alu::Add, R7, R3);
    a.set_64(R4, full);
    a.jump_if(JumpCondition::AtMost, R7, R4, spend);
    a.load(W64, R1, R9, at(State::SPILT));
    a.alu(Alu::Add, R1, R7);
    a.alu(Alu::Subtract, R1, R4);
    a.store(W64, R9, at(State::SPILT), R1);
    a.copy(R7, R4);
    a.jump(spend);
    a.place(begin);
    a.store(W64, R9, at(State::FIRST), R8);
    a.set_64(R7, full);
    a.place(spend);
    a.set_64(R4, in_ns);
    a.jump_if(JumpCondition::Below, R7, R4, drop);
    a.alu(Alu::Subtract, R7, R4);
    a.store(W64, R9, at(State::CREDIT), R7);
    count_one(a, R9, at(State::FORWARDED), R1);
    if options.hold_ns > 0 {
        hold(a, options.hold_ns.min(MOST_HELD_NS));
    }
    a.set(R1, to as i32);
    a.set(R2, 0);
    a.call(Helper::Redirect);
    a.exit();
    a.place(drop);
    a.store(W64, R9, at(State::CREDIT), R7);
    a.load(W64, R1, R9, at(State::DROPPED));
    a.jump_if_number(JumpCondition::NotEqual, R1, 0, known);
    a.load(W64, R2, R9, at(State::FORWARDED));
    a.store(W64, R9, at(State::BEFORE_FIRST_DROP), R2);
    a.place(known);
    count_one(a, R9, at(State::DROPPED), R1);
    a.exit_with(XDP_DROP);
    std::mem::take(a).finish()
}
