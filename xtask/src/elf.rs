//! What an ELF file says of itself: for which machine it is, whether it is static, and whether it is stripped. elf(5).
//! Knows no instructions, and nothing of what the program does.

use std::ops::Range;

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
    /// EM_ARM and the like, of elf.h.
    pub machine: u16,
}

const PT_INTERP: u64 = 3;
const SHT_SYMTAB: u64 = 2;

/// One of the two tables of an ELF header: where its place, its entries' length, their number and, in an entry, the
/// entry's type, place in the file and length there stand.
struct Table {
    offset: Range<usize>,
    entry_len: Range<usize>,
    entries: Range<usize>,
    kind: Range<usize>,
    part: Range<usize>,
    part_len: Range<usize>,
}

/// Offsets of Elf32_Ehdr, Elf32_Phdr and Elf32_Shdr.
const SEGMENTS_32: Table =
    Table { offset: 28..32, entry_len: 42..44, entries: 44..46, kind: 0..4, part: 4..8, part_len: 16..20 };
const SECTIONS_32: Table =
    Table { offset: 32..36, entry_len: 46..48, entries: 48..50, kind: 4..8, part: 16..20, part_len: 20..24 };
/// Offsets of Elf64_Ehdr, Elf64_Phdr and Elf64_Shdr.
const SEGMENTS_64: Table =
    Table { offset: 32..40, entry_len: 54..56, entries: 56..58, kind: 0..4, part: 8..16, part_len: 32..40 };
const SECTIONS_64: Table =
    Table { offset: 40..48, entry_len: 58..60, entries: 60..62, kind: 4..8, part: 24..32, part_len: 32..40 };
/// The same in both.
const MACHINE: Range<usize> = 18..20;

impl Elf {
    /// Reads a whole file; `None` if it is no ELF file.
    pub(crate) fn read(octets: &[u8]) -> Option<Elf> {
        let file = File::new(octets)?;
        let (segments, sections) = file.tables();
        let (bits, big_endian) = (file.bits, file.big_endian);
        Some(Elf {
            kind: Kind { bits, big_endian, machine: u16::try_from(file.number(0, &MACHINE)?).ok()? },
            is_static: !file.has(&segments, PT_INTERP)?,
            is_stripped: !file.has(&sections, SHT_SYMTAB)?,
        })
    }
}

/// The part of a program that the kernel reads: without its sections, which only linkers and debuggers ask for. On MIPS what
/// they describe beyond that, a table of procedures (.pdr), is a twentieth of a file, and no linker leaves it out.
pub(crate) fn loaded(octets: &[u8]) -> Option<Vec<u8>> {
    let file = File::new(octets)?;
    let (segments, sections) = file.tables();
    let mut end = 0;
    for entry in file.entries(&segments)? {
        let part_end = file.number(entry, &segments.part)?.checked_add(file.number(entry, &segments.part_len)?)?;
        end = end.max(usize::try_from(part_end).ok()?);
    }
    let mut program = octets.get(..end)?.to_vec();
    program.get_mut(sections.offset)?.fill(0);
    // The number of sections, and beside it which of them has their names.
    program.get_mut(sections.entries.start..sections.entries.end + 2)?.fill(0);
    Some(program)
}

struct File<'a> {
    octets: &'a [u8],
    bits: u8,
    big_endian: bool,
}

impl File<'_> {
    fn new(octets: &[u8]) -> Option<File<'_>> {
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
        Some(File { octets, bits, big_endian })
    }

    /// Segments and sections.
    fn tables(&self) -> (Table, Table) {
        if self.bits == 32 { (SEGMENTS_32, SECTIONS_32) } else { (SEGMENTS_64, SECTIONS_64) }
    }

    fn has(&self, table: &Table, kind: u64) -> Option<bool> {
        let mut has = false;
        for entry in self.entries(table)? {
            has |= self.number(entry, &table.kind)? == kind;
        }
        Some(has)
    }

    /// Where a table's entries begin.
    fn entries(&self, table: &Table) -> Option<Vec<usize>> {
        let start = usize::try_from(self.number(0, &table.offset)?).ok()?;
        let length = self.number(0, &table.entry_len)? as usize;
        (0..self.number(0, &table.entries)? as usize).map(|entry| start.checked_add(entry * length)).collect()
    }

    /// The number that stands at `place` after `start`.
    fn number(&self, start: usize, place: &Range<usize>) -> Option<u64> {
        let octets = self.octets.get(start.checked_add(place.start)?..start.checked_add(place.end)?)?;
        let join = |sum: u64, octet: &u8| sum << 8 | u64::from(*octet);
        Some(if self.big_endian { octets.iter().fold(0, join) } else { octets.iter().rev().fold(0, join) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An ELF file of one segment and one section of these kinds, for x86_64.
    fn file(segment: u8, section: u8) -> Vec<u8> {
        let mut file = vec![0; 64 + 56 + 64];
        file[..6].copy_from_slice(b"\x7fELF\x02\x01");
        file[18] = 62;
        (file[32], file[54], file[56], file[64]) = (64, 56, 1, segment);
        (file[40], file[58], file[60], file[120 + 4]) = (120, 64, 1, section);
        file
    }

    /// The same for a big-endian MIPS of 32 bits.
    fn mips(segment: u8, section: u8) -> Vec<u8> {
        let mut file = vec![0; 52 + 32 + 40];
        file[..6].copy_from_slice(b"\x7fELF\x01\x02");
        file[19] = 8;
        (file[31], file[43], file[45], file[52 + 3]) = (52, 32, 1, segment);
        (file[35], file[47], file[49], file[84 + 7]) = (84, 40, 1, section);
        file
    }

    const X86_64: Kind = Kind { bits: 64, big_endian: false, machine: 62 };

    #[test]
    fn static_and_stripped_are_told() {
        let elf = |is_static, is_stripped| Some(Elf { kind: X86_64, is_static, is_stripped });
        assert_eq!(Elf::read(&file(1, 3)), elf(true, true));
        assert_eq!(Elf::read(&file(3, 3)), elf(false, true));
        assert_eq!(Elf::read(&file(1, 2)), elf(true, false));
    }

    #[test]
    fn other_machines_are_read_too() {
        let kind = Kind { bits: 32, big_endian: true, machine: 8 };
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
        let kind = Kind { bits: 32, big_endian: true, machine: 8 };
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
