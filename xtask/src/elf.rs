//! What an ELF file says of itself: for which machine it is, whether it is static, and whether it is stripped. elf(5).
//! Knows no instructions, and nothing of what the program does.

use std::mem::offset_of;
use std::ops::Range;

use object::Endianness;
use object::elf::{FileHeader32, FileHeader64, Machine, PT_INTERP, SHT_SYMTAB};
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader};

/// What matters of a program that is carried to a board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Elf {
    /// For which machine it is.
    pub kind: Kind,
    /// It names no interpreter (PT_INTERP), so that nothing but the kernel is needed to start it.
    pub is_static: bool,
    /// It has no symbol table (SHT_SYMTAB).
    pub is_stripped: bool,
}

/// The machine that a program is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    /// 32 or 64: its class.
    pub bits: u8,
    /// The most significant octet comes first.
    pub big_endian: bool,
    /// Its e_machine.
    pub machine: Machine,
}

impl Elf {
    /// Reads a whole file; `None` if it is no ELF file.
    pub(crate) fn read(octets: &[u8]) -> Option<Elf> {
        read::<FileHeader32<Endianness>>(octets).or_else(|| read::<FileHeader64<Endianness>>(octets))
    }
}

fn read<H: FileHeader<Endian = Endianness>>(octets: &[u8]) -> Option<Elf> {
    let header = H::parse(octets).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, octets).ok()?;
    let sections = header.section_headers(endian, octets).ok()?;
    Some(Elf {
        kind: Kind {
            bits: if header.is_class_64() { 64 } else { 32 },
            big_endian: header.is_big_endian(),
            machine: header.e_machine(endian),
        },
        is_static: segments.iter().all(|segment| segment.p_type(endian) != PT_INTERP),
        is_stripped: sections.iter().all(|section| section.sh_type(endian) != SHT_SYMTAB),
    })
}

/// The part of a program that the kernel reads: without its sections, which only linkers and debuggers ask for. On MIPS what
/// they describe beyond that, a table of procedures (.pdr), is a twentieth of a file, and no linker leaves it out.
pub(crate) fn loaded(octets: &[u8]) -> Option<Vec<u8>> {
    type H32 = FileHeader32<Endianness>;
    type H64 = FileHeader64<Endianness>;
    let of_32 = [offset_of!(H32, e_shoff)..offset_of!(H32, e_flags), offset_of!(H32, e_shnum)..size_of::<H32>()];
    let of_64 = [offset_of!(H64, e_shoff)..offset_of!(H64, e_flags), offset_of!(H64, e_shnum)..size_of::<H64>()];
    without_sections::<H32>(octets, of_32).or_else(|| without_sections::<H64>(octets, of_64))
}

/// The file up to the end of its last segment. The header has no sections: where they are is 0, and their number, with that which has
/// their names.
fn without_sections<H: FileHeader<Endian = Endianness>>(octets: &[u8], fields: [Range<usize>; 2]) -> Option<Vec<u8>> {
    let header = H::parse(octets).ok()?;
    let endian = header.endian().ok()?;
    let ends = header.program_headers(endian, octets).ok()?.iter().map(|segment| {
        let (start, length) = segment.file_range(endian);
        start.checked_add(length)
    });
    let end = ends.collect::<Option<Vec<u64>>>()?.into_iter().max()?;
    let mut program = octets.get(..usize::try_from(end).ok()?)?.to_vec();
    for field in fields {
        program.get_mut(field)?.fill(0);
    }
    Some(program)
}

#[cfg(test)]
mod tests {
    use object::elf::{EM_MIPS, EM_X86_64};

    use super::*;

    /// An ELF file of one segment and one section of these kinds, for x86_64.
    fn file(segment: u8, section: u8) -> Vec<u8> {
        let mut file = vec![0; 64 + 56 + 64];
        file[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        file[18] = 62;
        (file[32], file[54], file[56], file[64]) = (64, 56, 1, segment);
        (file[40], file[58], file[60], file[120 + 4]) = (120, 64, 1, section);
        file
    }

    /// The same for a big-endian MIPS of 32 bits.
    fn mips(segment: u8, section: u8) -> Vec<u8> {
        let mut file = vec![0; 52 + 32 + 40];
        file[..7].copy_from_slice(b"\x7fELF\x01\x02\x01");
        file[19] = 8;
        (file[31], file[43], file[45], file[52 + 3]) = (52, 32, 1, segment);
        (file[35], file[47], file[49], file[84 + 7]) = (84, 40, 1, section);
        file
    }

    const X86_64: Kind = Kind { bits: 64, big_endian: false, machine: EM_X86_64 };

    #[test]
    fn static_and_stripped_are_told() {
        let elf = |is_static, is_stripped| Some(Elf { kind: X86_64, is_static, is_stripped });
        assert_eq!(Elf::read(&file(1, 3)), elf(true, true));
        assert_eq!(Elf::read(&file(3, 3)), elf(false, true));
        assert_eq!(Elf::read(&file(1, 2)), elf(true, false));
    }

    #[test]
    fn other_machines_are_read_too() {
        let kind = Kind { bits: 32, big_endian: true, machine: EM_MIPS };
        assert_eq!(Elf::read(&mips(1, 3)), Some(Elf { kind, is_static: true, is_stripped: true }));
        assert_eq!(Elf::read(&mips(3, 2)), Some(Elf { kind, is_static: false, is_stripped: false }));
    }

    #[test]
    fn what_no_kernel_reads_is_left_out() {
        let mut file = mips(1, 3);
        // The segment's place and length: the file's header and four octets behind its sections.
        (file[52 + 7], file[52 + 19]) = (0, 128);
        file.extend(*b"code and then a table of procedures");
        let program = loaded(&file).unwrap();
        assert_eq!(program.len(), 128);
        assert_eq!(&program[124..], b"code");
        assert_eq!((&program[32..36], &program[48..52]), (&[0; 4][..], &[0; 4][..]), "no sections");
        let kind = Kind { bits: 32, big_endian: true, machine: EM_MIPS };
        assert_eq!(Elf::read(&program), Some(Elf { kind, is_static: true, is_stripped: true }));
        (file[52 + 4], file[52 + 16]) = (255, 255);
        assert_eq!(loaded(&file), None, "a segment beyond the end");
    }

    #[test]
    fn garbage_is_no_program() {
        assert_eq!(Elf::read(b""), None);
        assert_eq!(Elf::read(b"#!/bin/sh"), None);
        assert_eq!(Elf::read(&file(1, 3)[..100]), None, "cut off");
        let mut far = file(1, 3);
        far[32..40].fill(0xFF);
        assert_eq!(Elf::read(&far), None, "a table beyond the end");
    }

    #[test]
    #[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
    fn this_test_is_dynamic_and_has_symbols() {
        let file = std::fs::read("/proc/self/exe").unwrap();
        assert_eq!(Elf::read(&file), Some(Elf { kind: X86_64, is_static: false, is_stripped: false }));
    }
}
