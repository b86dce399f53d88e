//! A machine without an agent: which of the agents that are built runs on it.
//! Knows what the machine says of itself, not how that was asked.

/// What a machine says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BareMachine {
    /// What `uname -m` says; empty where there is no such program.
    pub(crate) uname: String,
    /// The first octets of one of its programs; as few as there were.
    pub(crate) program: Vec<u8>,
    /// The lines of /proc/cpuinfo that name abilities: `Features` of an ARM, `isa` of a MIPS.
    pub(crate) abilities: String,
}

/// How many octets of a program are worth having: all of an ELF header.
pub(crate) const HEADER: usize = 64;

/// What a header of elf(5) says.
struct Header {
    bits: u8,
    big_endian: bool,
    machine: u16,
    flags: u32,
}

// e_machine, of elf.h.
const EM_386: u16 = 3;
const EM_MIPS: u16 = 8;
const EM_PPC: u16 = 20;
const EM_PPC64: u16 = 21;
const EM_ARM: u16 = 40;
const EM_X86_64: u16 = 62;
const EM_AARCH64: u16 = 183;
const EM_RISCV: u16 = 243;

/// ELF for the ARM architecture (IHI 0044), 5.2: the program passes floating-point numbers in the unit's registers.
const EF_ARM_ABI_FLOAT_HARD: u32 = 0x400;
/// The instruction set, of elf.h; from release 6 on it is another one.
const EF_MIPS_ARCH: u32 = 0xF000_0000;
const EF_MIPS_ARCH_32R6: u32 = 0x9000_0000;
const EF_MIPS_ARCH_64R6: u32 = 0xA000_0000;

impl BareMachine {
    /// The name of the agent that runs there, as `linerate-agent-NAME`; `Err` says what the machine is.
    ///
    /// An agent is static, so it needs the kernel and the processor, and no library of the same kind: a 64-bit kernel
    /// runs a 64-bit agent though all other programs may be of 32 bits, and a float ABI only hints at what the
    /// processor has.
    pub(crate) fn agent(&self) -> Result<&'static str, String> {
        let header = Header::read(&self.program);
        let Some(header) = header else {
            return match self.uname.as_str() {
                "x86_64" => Ok("x86_64"),
                "aarch64" => Ok("aarch64"),
                "riscv64" => Ok("riscv64"),
                "ppc" => Ok("powerpc"),
                uname if is_arm(uname) => Ok(self.arm(false)),
                // `mips` is said by both kinds of octet order.
                _ => Err(self.words("none of its programs could be read")),
            };
        };
        let (bits, big, uname) = (header.bits, header.big_endian, self.uname.as_str());
        match header.machine {
            EM_X86_64 => Ok("x86_64"),
            EM_386 if uname == "x86_64" => Ok("x86_64"),
            EM_AARCH64 if !big => Ok("aarch64"),
            EM_ARM if !big && uname == "aarch64" => Ok("aarch64"),
            EM_ARM if !big && !uname.starts_with("armv4") => Ok(self.arm(header.flags & EF_ARM_ABI_FLOAT_HARD != 0)),
            EM_MIPS if self.is_mips32r2(header.flags) => Ok(if big { "mips" } else { "mipsel" }),
            EM_PPC | EM_PPC64 if big => Ok("powerpc"),
            EM_RISCV if bits == 64 => Ok("riscv64"),
            machine => {
                let order = if big { "big" } else { "little" };
                Err(self.words(&format!(
                    "its programs are {bits}-bit, {order}-endian, of ELF machine {machine}, flags {:#x}",
                    header.flags
                )))
            }
        }
    }

    /// ARM, little-endian. The agent for ARMv7 needs VFPv3; the other runs on all.
    fn arm(&self, hard_float: bool) -> &'static str {
        let features: Vec<&str> = match self.abilities.lines().find(|line| line.starts_with("Features")) {
            Some(line) => line.split_whitespace().collect(),
            None => Vec::new(),
        };
        let is_v7 = self.uname.starts_with("armv7") || self.uname.starts_with("armv8");
        let has_vfp3 = features.iter().any(|name| ["vfpv3", "vfpv3d16", "vfpv4", "asimd"].contains(name));
        if is_v7 && (has_vfp3 || features.is_empty() && hard_float) { "armv7" } else { "armv5" }
    }

    fn is_mips32r2(&self, flags: u32) -> bool {
        let isa = self.abilities.lines().find(|line| line.starts_with("isa"));
        // Older kernels do not say; then the agent's own end does.
        let too_old = isa.is_some_and(|line| !line.split_whitespace().any(|word| word.ends_with("r2")));
        !too_old && ![EF_MIPS_ARCH_32R6, EF_MIPS_ARCH_64R6].contains(&(flags & EF_MIPS_ARCH))
    }

    fn words(&self, programs: &str) -> String {
        let uname = if self.uname.is_empty() { "nothing" } else { &self.uname };
        let isa = self.abilities.lines().find(|line| line.starts_with("isa"));
        let isa = isa.map(|line| format!(", {}", line.split_whitespace().collect::<Vec<_>>().join(" ")));
        format!("'uname -m' says {uname}; {programs}{}", isa.unwrap_or_default())
    }
}

fn is_arm(uname: &str) -> bool {
    ["armv5", "armv6", "armv7", "armv8"].iter().any(|one| uname.starts_with(one))
}

impl Header {
    fn read(octets: &[u8]) -> Option<Header> {
        let bits = match octets.strip_prefix(b"\x7fELF")?.first()? {
            1 => 32,
            2 => 64,
            _ => return None,
        };
        let big_endian = match octets.get(5)? {
            1 => false,
            2 => true,
            _ => return None,
        };
        // e_flags stands after the three addresses, which are as wide as the class says.
        let flags = if bits == 32 { 36 } else { 48 };
        let (machine, flags) = (octets.get(18..20)?.try_into().ok()?, octets.get(flags..flags + 4)?.try_into().ok()?);
        let (machine, flags) = if big_endian {
            (u16::from_be_bytes(machine), u32::from_be_bytes(flags))
        } else {
            (u16::from_le_bytes(machine), u32::from_le_bytes(flags))
        };
        Some(Header { bits, big_endian, machine, flags })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(bits: u8, big_endian: bool, machine: u16, flags: u32) -> Vec<u8> {
        let mut program = vec![0; HEADER];
        program[..6].copy_from_slice(&[0x7F, b'E', b'L', b'F', bits / 32, 1 + u8::from(big_endian)]);
        let at = if bits == 32 { 36 } else { 48 };
        if big_endian {
            program[18..20].copy_from_slice(&machine.to_be_bytes());
            program[at..at + 4].copy_from_slice(&flags.to_be_bytes());
        } else {
            program[18..20].copy_from_slice(&machine.to_le_bytes());
            program[at..at + 4].copy_from_slice(&flags.to_le_bytes());
        }
        program
    }

    #[track_caller]
    fn check(uname: &str, program: Vec<u8>, abilities: &str, agent: Option<&str>) {
        let bare = BareMachine { uname: uname.into(), program, abilities: abilities.into() };
        assert_eq!(bare.agent().ok(), agent, "{:?}", bare.agent());
    }

    #[test]
    fn every_machine_gets_its_agent() {
        check("x86_64", program(64, false, EM_X86_64, 0), "", Some("x86_64"));
        check("aarch64", program(64, false, EM_AARCH64, 0), "", Some("aarch64"));
        check("riscv64", program(64, false, EM_RISCV, 5), "", Some("riscv64"));
        check("mips", program(32, true, EM_MIPS, 0x7000_1005), "", Some("mips"));
        check("mips", program(32, false, EM_MIPS, 0x7000_1005), "", Some("mipsel"));
        check("ppc", program(32, true, EM_PPC, 0), "", Some("powerpc"));
        let vfp = "Features\t: half thumb fastmult vfp edsp neon vfpv3 tls\n";
        check("armv7l", program(32, false, EM_ARM, 0x0500_0400), vfp, Some("armv7"));
        check("armv6l", program(32, false, EM_ARM, 0x0500_0400), "Features\t: swp half thumb vfp", Some("armv5"));
        check("armv5tejl", program(32, false, EM_ARM, 0x0500_0200), "", Some("armv5"));
    }

    #[test]
    fn the_processor_counts_and_not_the_kind_of_programs() {
        // A 64-bit kernel under a userland of 32 bits.
        check("aarch64", program(32, false, EM_ARM, 0x0500_0400), "", Some("aarch64"));
        check("x86_64", program(32, false, EM_386, 0), "", Some("x86_64"));
        check("mips64", program(32, true, EM_MIPS, 0x5000_1005), "", Some("mips"));
        check("ppc64", program(64, true, EM_PPC64, 1), "", Some("powerpc"));
        // A processor with a floating-point unit under programs that do not use it, and the other way round.
        let vfp = "Features\t: half thumb vfp vfpv3d16\n";
        check("armv7l", program(32, false, EM_ARM, 0x0500_0200), vfp, Some("armv7"));
        check("armv7l", program(32, false, EM_ARM, 0x0500_0200), "Features\t: half thumb edsp", Some("armv5"));
        // Without /proc the programs' float ABI is what there is to go by.
        check("armv7l", program(32, false, EM_ARM, 0x0500_0400), "", Some("armv7"));
        check("armv7l", program(32, false, EM_ARM, 0x0500_0200), "", Some("armv5"));
    }

    #[test]
    fn a_machine_without_tools_is_known_by_its_program_alone() {
        check("", program(32, true, EM_MIPS, 0x7000_1005), "", Some("mips"));
        check("", program(64, false, EM_AARCH64, 0), "", Some("aarch64"));
        check("", program(32, false, EM_ARM, 0x0500_0400), "", Some("armv5"));
        check("x86_64", Vec::new(), "", Some("x86_64"));
        check("armv7l", b"#!/bin/sh".to_vec(), "Features: vfpv3", Some("armv7"));
    }

    #[test]
    fn a_machine_that_no_agent_is_for_is_named() {
        check("i686", program(32, false, EM_386, 0), "", None);
        check("armv7b", program(32, true, EM_ARM, 0), "", None);
        check("armv4tl", program(32, false, EM_ARM, 0), "", None);
        check("ppc64le", program(64, false, EM_PPC64, 2), "", None);
        check("riscv32", program(32, false, EM_RISCV, 0), "", None);
        check("mips", program(32, true, EM_MIPS, 0x9000_1405), "", None);
        check("mips", program(32, true, EM_MIPS, 0x5000_1005), "isa\t: mips1 mips2 mips32r1", None);
        check("mips", program(32, true, EM_MIPS, 0x5000_1005), "isa\t: mips1 mips32r1 mips32r2", Some("mips"));
        check("mips", Vec::new(), "", None);
        check("s390x", program(64, true, 22, 0), "", None);
        let bare =
            BareMachine { uname: "i686".into(), program: program(32, false, EM_386, 0), abilities: String::new() };
        let sentence = bare.agent().unwrap_err();
        assert!(sentence.contains("i686") && sentence.contains("32-bit, little-endian"), "{sentence}");
    }

    #[test]
    fn any_octets_are_borne() {
        let whole = program(64, false, EM_X86_64, 0);
        for len in 0..HEADER {
            let bare = BareMachine { program: whole[..len].to_vec(), ..BareMachine::default() };
            let _ = bare.agent();
        }
        check("x86_64", vec![0xFF; HEADER], "", Some("x86_64"));
    }
}
