//! Writes BPF programs by the names of their instructions; jumps go to labels, and are computed.
//! Knows the instruction set (RFC 9669), no maps and no frames.
//!
//! r0 is what a function returns, and a program; r1 to r5 are arguments and are lost in a call; r6 to r9 are kept; r10 is
//! the end of a stack of 512 octets.

use crate::sys::bpf::Instruction;

/// A register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs, reason = "their names are the standard's")]
pub enum Reg {
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    R9,
    R10,
}

/// How much of memory is loaded or stored (RFC 9669, section 5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Width {
    /// 32 bits.
    W32 = 0x00,
    /// 16 bits.
    W16 = 0x08,
    /// 8 bits.
    W8 = 0x10,
    /// 64 bits.
    W64 = 0x18,
}

impl Width {
    fn bits(self) -> i32 {
        match self {
            Width::W8 => 8,
            Width::W16 => 16,
            Width::W32 => 32,
            Width::W64 => 64,
        }
    }
}

/// Arithmetic on 64 bits (RFC 9669, section 4.1). Division and remainder are unsigned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs, reason = "their names say it")]
pub enum Alu {
    Add = 0x00,
    Subtract = 0x10,
    Multiply = 0x20,
    Divide = 0x30,
    Or = 0x40,
    And = 0x50,
    ShiftLeft = 0x60,
    ShiftRight = 0x70,
    Remainder = 0x90,
    Xor = 0xa0,
    Move = 0xb0,
    ShiftRightSigned = 0xc0,
}

/// When a jump is taken, comparing as unsigned numbers but where the name says otherwise (RFC 9669, section 4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs, reason = "their names say it")]
pub enum JumpCondition {
    Equal = 0x10,
    Above = 0x20,
    AtLeast = 0x30,
    AnyBitOf = 0x40,
    NotEqual = 0x50,
    SignedAtLeast = 0x70,
    Below = 0xa0,
    AtMost = 0xb0,
    SignedBelow = 0xc0,
}

/// Functions of the kernel (linux/bpf.h, ___BPF_FUNC_MAPPER), none of which is for GPL programs alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Helper {
    /// (map, key) → value, or 0.
    MapLookup = 1,
    /// (map, key, value, flags).
    MapUpdate = 2,
    /// () → nanoseconds of CLOCK_MONOTONIC. Not for GPL programs alone since Linux 5.8.
    MonotonicNs = 5,
    /// (interface, flags) → XDP_REDIRECT.
    Redirect = 23,
    /// (map, key, what where there is none) → XDP_REDIRECT.
    RedirectMap = 51,
    /// (context, octets): moves the frame's end.
    AdjustTail = 65,
}

// Classes, and how the second operand comes (RFC 9669, sections 3.1 and 4).
const LOAD: u8 = 0x01;
const STORE_NUMBER: u8 = 0x02;
const STORE: u8 = 0x03;
const ALU_32: u8 = 0x04;
const JUMP: u8 = 0x05;
const JUMP_32: u8 = 0x06;
const ALU_64: u8 = 0x07;
const FROM_REGISTER: u8 = 0x08;
const MEMORY: u8 = 0x60;
const ATOMIC: u8 = 0xc0;
const ALWAYS: u8 = 0x00;
const CALL: u8 = 0x80;
const EXIT: u8 = 0x90;
const TO_BIG_ENDIAN: u8 = 0xd8;
const LOAD_NUMBER_64: u8 = 0x18;
/// What the number of a 64-bit load is (RFC 9669, section 5.4): a map's descriptor, or that of a map whose first value's
/// address is meant.
const MAP: u8 = 1;
const MAP_VALUE: u8 = 2;
// Atomic operations (RFC 9669, section 5.3).
const FETCH: i32 = 0x01;
const EXCHANGE: i32 = 0xe0 | FETCH;
const COMPARE_AND_EXCHANGE: i32 = 0xf0 | FETCH;

/// A place in the program that can be jumped to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label(usize);

/// A program as far as it is written. Methods add an instruction each, in their order; the register that is changed, or
/// the address that is written to, comes first.
#[derive(Debug, Default)]
pub struct Assembler {
    code: Vec<Instruction>,
    /// Where each label stands, once it does.
    labels: Vec<Option<usize>>,
    /// Jumps, and where they go.
    jumps: Vec<(usize, Label)>,
}

impl Assembler {
    /// An empty program.
    pub fn new() -> Assembler {
        Assembler::default()
    }

    /// The program. Panics where a label was jumped to and never placed, or is farther than a jump reaches.
    pub fn finish(mut self) -> Vec<Instruction> {
        for (at, label) in self.jumps {
            let to = self.labels[label.0].expect("every label that is jumped to is placed");
            let distance = i16::try_from(to as i64 - at as i64 - 1).expect("no program is so long");
            self.code[at].offset = distance;
        }
        self.code
    }

    /// A label to be placed.
    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Places a label before the next instruction.
    pub fn place(&mut self, label: Label) {
        assert_eq!(self.labels[label.0].replace(self.code.len()), None, "a label stands at one place");
    }

    /// `to = from`.
    pub fn copy(&mut self, to: Reg, from: Reg) {
        self.alu(Alu::Move, to, from);
    }

    /// `to = number`, sign-extended.
    pub fn set(&mut self, to: Reg, number: i32) {
        self.alu_number(Alu::Move, to, number);
    }

    /// `to = number`, of 64 bits.
    pub fn set_64(&mut self, to: Reg, number: u64) {
        self.load_64(to, 0, number as i32, (number >> 32) as i32);
    }

    /// `to = to operation from`.
    pub fn alu(&mut self, operation: Alu, to: Reg, from: Reg) {
        self.push(ALU_64 | FROM_REGISTER | operation as u8, to, from, 0, 0);
    }

    /// `to = to operation number`, the number sign-extended.
    pub fn alu_number(&mut self, operation: Alu, to: Reg, number: i32) {
        self.push(ALU_64 | operation as u8, to, Reg::R0, 0, number);
    }

    /// The same on the lower 32 bits; the upper ones become 0.
    pub fn alu_number_32(&mut self, operation: Alu, to: Reg, number: i32) {
        self.push(ALU_32 | operation as u8, to, Reg::R0, 0, number);
    }

    /// `to = from`, the lower 32 bits alone.
    pub fn copy_32(&mut self, to: Reg, from: Reg) {
        self.push(ALU_32 | FROM_REGISTER | Alu::Move as u8, to, from, 0, 0);
    }

    /// Between this machine's order of octets and the network's, either way; bits above `width` become 0.
    pub fn network_order(&mut self, register: Reg, width: Width) {
        self.push(ALU_32 | TO_BIG_ENDIAN, register, Reg::R0, 0, width.bits());
    }

    /// `to = *(from + offset)`, zero-extended.
    pub fn load(&mut self, width: Width, to: Reg, from: Reg, offset: i16) {
        self.push(LOAD | MEMORY | width as u8, to, from, offset, 0);
    }

    /// `*(to + offset) = from`.
    pub fn store(&mut self, width: Width, to: Reg, offset: i16, from: Reg) {
        self.push(STORE | MEMORY | width as u8, to, from, offset, 0);
    }

    /// `*(to + offset) = number`, sign-extended.
    pub fn store_number(&mut self, width: Width, to: Reg, offset: i16, number: i32) {
        self.push(STORE_NUMBER | MEMORY | width as u8, to, Reg::R0, offset, number);
    }

    /// `*(to + offset) += from`, atomically, on 32 or 64 bits.
    pub fn add_in_memory(&mut self, width: Width, to: Reg, offset: i16, from: Reg) {
        self.push(STORE | ATOMIC | width as u8, to, from, offset, 0);
    }

    /// `register` and `*(to + offset)` change places, atomically, on 32 or 64 bits. Since Linux 5.12.
    pub fn exchange(&mut self, width: Width, to: Reg, offset: i16, register: Reg) {
        self.push(STORE | ATOMIC | width as u8, to, register, offset, EXCHANGE);
    }

    /// `*(to + offset) = from` where it is r0; r0 becomes what was there, atomically, on 32 or 64 bits. Since Linux 5.12.
    pub fn compare_and_exchange(&mut self, width: Width, to: Reg, offset: i16, from: Reg) {
        self.push(STORE | ATOMIC | width as u8, to, from, offset, COMPARE_AND_EXCHANGE);
    }

    /// `to` = the map of this number ([`Array::number`](crate::sys::bpf::Array::number)), for helpers.
    pub fn map(&mut self, to: Reg, map: i32) {
        self.load_64(to, MAP, map, 0);
    }

    /// `to` = the address of the first value of an array. Since Linux 5.2.
    pub fn map_value(&mut self, to: Reg, map: i32) {
        self.load_64(to, MAP_VALUE, map, 0);
    }

    /// Goes on at the label.
    pub fn jump(&mut self, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.push(JUMP | ALWAYS, Reg::R0, Reg::R0, 0, 0);
    }

    /// Goes on at the label where `left condition right`.
    pub fn jump_if(&mut self, condition: JumpCondition, left: Reg, right: Reg, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.push(JUMP | FROM_REGISTER | condition as u8, left, right, 0, 0);
    }

    /// Goes on at the label where `left condition number`, the number sign-extended.
    pub fn jump_if_number(&mut self, condition: JumpCondition, left: Reg, number: i32, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.push(JUMP | condition as u8, left, Reg::R0, 0, number);
    }

    /// The same of the lower 32 bits. Since Linux 5.1.
    pub fn jump_if_number_32(&mut self, condition: JumpCondition, left: Reg, number: i32, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.push(JUMP_32 | condition as u8, left, Reg::R0, 0, number);
    }

    /// Calls a function of the kernel.
    pub fn call(&mut self, helper: Helper) {
        self.push(JUMP | CALL, Reg::R0, Reg::R0, 0, helper as i32);
    }

    /// Ends the program with `number` as its answer.
    pub fn exit_with(&mut self, number: i32) {
        self.set(Reg::R0, number);
        self.exit();
    }

    /// Ends the program with r0 as its answer.
    pub fn exit(&mut self) {
        self.push(JUMP | EXIT, Reg::R0, Reg::R0, 0, 0);
    }

    /// Two instructions long.
    fn load_64(&mut self, to: Reg, what: u8, low: i32, high: i32) {
        self.code.push(Instruction { code: LOAD_NUMBER_64, to: to as u8, from: what, offset: 0, number: low });
        self.code.push(Instruction { code: 0, to: 0, from: 0, offset: 0, number: high });
    }

    fn push(&mut self, code: u8, to: Reg, from: Reg, offset: i16, number: i32) {
        self.code.push(Instruction { code, to: to as u8, from: from as u8, offset, number });
    }
}

#[cfg(test)]
mod tests {
    use super::Reg::*;
    use super::Width::*;
    use super::*;
    use crate::sys::bpf::{Program, ProgramKind};

    fn written(write: impl FnOnce(&mut Assembler)) -> Vec<Instruction> {
        let mut program = Assembler::new();
        write(&mut program);
        program.finish()
    }

    /// One instruction, as `clang -target bpf` and the kernel's macros (include/linux/filter.h) encode it.
    #[track_caller]
    fn check(write: impl FnOnce(&mut Assembler), (code, to, from, offset, number): (u8, u8, u8, i16, i32)) {
        assert_eq!(written(write), [Instruction { code, to, from, offset, number }]);
    }

    #[test]
    fn instructions_are_encoded_as_the_standard_says() {
        check(|a| a.copy(R6, R1), (0xbf, 6, 1, 0, 0));
        check(|a| a.set(R0, -1), (0xb7, 0, 0, 0, -1));
        check(|a| a.alu(Alu::Add, R1, R2), (0x0f, 1, 2, 0, 0));
        check(|a| a.alu_number(Alu::And, R1, 0xff), (0x57, 1, 0, 0, 0xff));
        check(|a| a.alu_number(Alu::ShiftRightSigned, R1, 32), (0xc7, 1, 0, 0, 32));
        check(|a| a.alu_number_32(Alu::Remainder, R1, 7), (0x94, 1, 0, 0, 7));
        check(|a| a.copy_32(R3, R4), (0xbc, 3, 4, 0, 0));
        check(|a| a.network_order(R5, W16), (0xdc, 5, 0, 0, 16));
        check(|a| a.network_order(R5, W64), (0xdc, 5, 0, 0, 64));
        check(|a| a.load(W8, R2, R1, 4), (0x71, 2, 1, 4, 0));
        check(|a| a.load(W16, R2, R1, 12), (0x69, 2, 1, 12, 0));
        check(|a| a.load(W32, R2, R1, 0), (0x61, 2, 1, 0, 0));
        check(|a| a.load(W64, R2, R10, -8), (0x79, 2, 10, -8, 0));
        check(|a| a.store(W64, R10, -8, R3), (0x7b, 10, 3, -8, 0));
        check(|a| a.store(W16, R10, -8, R3), (0x6b, 10, 3, -8, 0));
        check(|a| a.store_number(W32, R10, -4, 9), (0x62, 10, 0, -4, 9));
        check(|a| a.store_number(W64, R10, -8, 0), (0x7a, 10, 0, -8, 0));
        check(|a| a.add_in_memory(W64, R0, 8, R1), (0xdb, 0, 1, 8, 0));
        check(|a| a.exchange(W32, R2, 0, R1), (0xc3, 2, 1, 0, 0xe1));
        check(|a| a.compare_and_exchange(W64, R2, 0, R1), (0xdb, 2, 1, 0, 0xf1));
        check(|a| a.call(Helper::MonotonicNs), (0x85, 0, 0, 0, 5));
        check(|a| a.exit(), (0x95, 0, 0, 0, 0));
        let wide = written(|a| a.set_64(R4, 0x1122_3344_8899_aabb));
        assert_eq!(wide[0], Instruction { code: 0x18, to: 4, from: 0, offset: 0, number: 0x8899_aabb_u32 as i32 });
        assert_eq!(wide[1], Instruction { code: 0, to: 0, from: 0, offset: 0, number: 0x1122_3344 });
        assert_eq!(written(|a| a.map(R1, 5))[0].from, 1);
        assert_eq!(written(|a| a.map_value(R1, 5))[0].from, 2);
    }

    #[test]
    fn jumps_go_to_their_labels_both_ways_and_over_wide_instructions() {
        let program = written(|a| {
            let (end, again) = (a.label(), a.label());
            a.place(again);
            a.jump_if_number(JumpCondition::Equal, R1, 3, end);
            a.set_64(R2, 1);
            a.jump_if(JumpCondition::Below, R2, R1, again);
            a.jump_if_number_32(JumpCondition::AnyBitOf, R2, 1, end);
            a.jump(end);
            a.place(end);
            a.exit_with(2);
        });
        let is_jump = |one: &&Instruction| matches!(one.code & 7, 5 | 6) && one.code != 0x95;
        let jumps: Vec<_> = program.iter().filter(is_jump).map(|one| (one.code, one.offset)).collect();
        assert_eq!(jumps, [(0x15, 5), (0xad, -4), (0x46, 1), (0x05, 0)]);
    }

    #[test]
    #[should_panic(expected = "every label that is jumped to is placed")]
    fn a_jump_into_nothing_is_a_mistake() {
        written(|a| {
            let nowhere = a.label();
            a.jump(nowhere);
        });
    }

    #[test]
    fn what_the_kernel_refuses_comes_with_its_reason() {
        // Reads what nobody wrote.
        let program = written(|a| {
            a.copy(R0, R7);
            a.exit();
        });
        let refused = Program::load(ProgramKind::Xdp, &program).unwrap_err();
        if refused.error.raw_os_error() == Some(libc::EPERM) || refused.error.raw_os_error() == Some(libc::ENOSYS) {
            return println!("SKIPPED what_the_kernel_refuses_comes_with_its_reason: {refused}; run as root");
        }
        assert!(refused.reason().contains("R7 !read_ok"), "{}", refused.log);
        assert!(refused.to_string().ends_with(refused.reason()) && refused.log.lines().count() > 1, "{refused}");
    }
}
