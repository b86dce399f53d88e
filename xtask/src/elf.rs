//! What an ELF file says of itself: whether it is static, and whether it is stripped. elf(5).
//! Knows only files of this machine's kind: 64 bits, little-endian.

use std::ops::Range;

/// What matters of a program that is carried to a board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Elf {
    /// It names no interpreter (PT_INTERP), so that nothing but the kernel is needed to start it.
    pub is_static: bool,
    /// It has no symbol table (SHT_SYMTAB).
    pub is_stripped: bool,
}

const PT_INTERP: u64 = 3;
const SHT_SYMTAB: u64 = 2;

/// One of the two tables of an ELF header: where its place, its entries' length, their number and, in an entry, the
/// entry's type stand. Offsets of Elf64_Ehdr, Elf64_Phdr and Elf64_Shdr.
struct Table {
    offset: Range<usize>,
    entry_len: Range<usize>,
    entries: Range<usize>,
    kind: Range<usize>,
}

const SEGMENTS: Table = Table { offset: 32..40, entry_len: 54..56, entries: 56..58, kind: 0..4 };
const SECTIONS: Table = Table { offset: 40..48, entry_len: 58..60, entries: 60..62, kind: 4..8 };

impl Elf {
    /// Reads a whole file; `None` if it is no ELF file of 64 bits, little-endian.
    pub(crate) fn read(file: &[u8]) -> Option<Elf> {
        if !file.starts_with(b"\x7fELF\x02\x01") {
            return None;
        }
        Some(Elf { is_static: !SEGMENTS.has(file, PT_INTERP)?, is_stripped: !SECTIONS.has(file, SHT_SYMTAB)? })
    }
}

impl Table {
    fn has(&self, file: &[u8], kind: u64) -> Option<bool> {
        let start = usize::try_from(number(file, &self.offset)?).ok()?;
        let length = number(file, &self.entry_len)? as usize;
        let mut has = false;
        for entry in 0..number(file, &self.entries)? as usize {
            let entry = file.get(start.checked_add(entry * length)?..)?;
            has |= number(entry, &self.kind)? == kind;
        }
        Some(has)
    }
}

fn number(octets: &[u8], place: &Range<usize>) -> Option<u64> {
    let mut wide = [0; 8];
    wide[..place.len()].copy_from_slice(octets.get(place.clone())?);
    Some(u64::from_le_bytes(wide))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An ELF file of one segment and one section of these kinds.
    fn file(segment: u8, section: u8) -> Vec<u8> {
        let mut file = vec![0; 64 + 56 + 64];
        file[..6].copy_from_slice(b"\x7fELF\x02\x01");
        (file[32], file[54], file[56], file[64]) = (64, 56, 1, segment);
        (file[40], file[58], file[60], file[120 + 4]) = (120, 64, 1, section);
        file
    }

    #[test]
    fn static_and_stripped_are_told() {
        assert_eq!(Elf::read(&file(1, 3)), Some(Elf { is_static: true, is_stripped: true }));
        assert_eq!(Elf::read(&file(3, 3)), Some(Elf { is_static: false, is_stripped: true }));
        assert_eq!(Elf::read(&file(1, 2)), Some(Elf { is_static: true, is_stripped: false }));
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
        assert_eq!(Elf::read(&file), Some(Elf { is_static: false, is_stripped: false }));
    }
}
