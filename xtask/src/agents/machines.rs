//! The machines that an agent is built for: their names, and what compilers, QEMU and ELF files call them.
//! Knows no toolchain.

use object::elf::{EM_AARCH64, EM_ARM, EM_MIPS, EM_PPC, EM_RISCV, EM_X86_64, Machine as ElfMachine};

use crate::elf::Kind;

/// A kind of machine.
#[derive(Debug)]
pub(crate) struct Machine {
    /// As the agent's file is called: `linerate-agent-NAME`.
    pub name: &'static str,
    /// What runs it.
    pub about: &'static str,
    /// Its target in Rust. musl, because a static glibc refuses kernels before 3.2 and is a megabyte larger.
    pub target: &'static str,
    /// Features that it is built with besides, as `-Ctarget-feature` has them, each behind a comma.
    pub features: &'static str,
    /// Rust's own installer has a standard library for it; for the others it is built.
    pub has_std: bool,
    /// What zig calls it, where cargo-zigbuild's own guess has no C library.
    pub zig: Option<&'static str>,
    /// QEMU's program for its programs is `qemu-NAME-static`.
    pub qemu: &'static str,
    /// What its programs say of themselves.
    pub kind: Kind,
}

const fn little(bits: u8, machine: ElfMachine) -> Kind {
    Kind { bits, big_endian: false, machine }
}

const fn big(bits: u8, machine: ElfMachine) -> Kind {
    Kind { bits, big_endian: true, machine }
}

/// All of them; `linerate_control::bare_machine` knows by the same names which a board needs.
pub(crate) const MACHINES: [Machine; 8] = [
    Machine {
        name: "x86_64",
        about: "64-bit x86",
        target: "x86_64-unknown-linux-musl",
        features: "",
        has_std: true,
        zig: None,
        qemu: "x86_64",
        kind: little(64, EM_X86_64),
    },
    Machine {
        name: "aarch64",
        about: "64-bit ARM",
        target: "aarch64-unknown-linux-musl",
        features: "",
        has_std: true,
        zig: None,
        qemu: "aarch64",
        kind: little(64, EM_AARCH64),
    },
    Machine {
        name: "armv7",
        about: "ARMv7 with a floating-point unit",
        target: "armv7-unknown-linux-musleabihf",
        // Thumb-2, which every ARMv7-A has: the same instructions, most of them in half the octets.
        features: ",+thumb-mode",
        has_std: true,
        zig: None,
        qemu: "arm",
        kind: little(32, EM_ARM),
    },
    Machine {
        name: "armv5",
        about: "ARMv5TE and later, ARMv6 among them; needs no floating-point unit",
        target: "armv5te-unknown-linux-musleabi",
        features: "",
        has_std: true,
        zig: None,
        qemu: "arm",
        kind: little(32, EM_ARM),
    },
    Machine {
        name: "mips",
        about: "MIPS32 release 2, big-endian; needs no floating-point unit",
        target: "mips-unknown-linux-musl",
        features: "",
        has_std: false,
        zig: None,
        qemu: "mips",
        kind: big(32, EM_MIPS),
    },
    Machine {
        name: "mipsel",
        about: "MIPS32 release 2, little-endian; needs no floating-point unit",
        target: "mipsel-unknown-linux-musl",
        features: "",
        has_std: false,
        zig: None,
        qemu: "mipsel",
        kind: little(32, EM_MIPS),
    },
    Machine {
        name: "powerpc",
        about: "32-bit PowerPC, big-endian, with a floating-point unit or the kernel's emulation of one",
        target: "powerpc-unknown-linux-musl",
        features: "",
        has_std: false,
        zig: Some("powerpc-linux-musleabihf"),
        qemu: "ppc",
        kind: big(32, EM_PPC),
    },
    Machine {
        name: "riscv64",
        about: "64-bit RISC-V, RV64GC",
        target: "riscv64gc-unknown-linux-musl",
        features: "",
        has_std: true,
        zig: None,
        qemu: "riscv64",
        kind: little(64, EM_RISCV),
    },
];
