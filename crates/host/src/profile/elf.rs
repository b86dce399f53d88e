//! Names of a program's functions, out of the symbol table in its file.
//! Trusts nothing in the file: every length is bounded and every place looked for, for any program may be running.

use std::io::{self, BufReader, Read, Seek, SeekFrom};

use super::nearest::{Name, SymbolLookup};

/// Names of the functions at these places in an ELF file (elf(5)), of any class and order of octets: (place, name).
/// Places without a name are left out.
pub fn names(file: &mut (impl Read + Seek), places: &[u64]) -> io::Result<Vec<(u64, String)>> {
    let elf = Elf::read(file)?;
    let segments = elf.segments(file)?;
    let placed: Vec<(u64, u64)> =
        places.iter().filter_map(|&place| Some((place, segments.iter().find_map(|s| s.address(place))?))).collect();
    let mut nearest = SymbolLookup::to(placed.iter().map(|&(_, address)| address).collect());
    let Some((symbols, strings)) = elf.symbols(file)? else { return Ok(Vec::new()) };
    elf.each_function(file, symbols, |start, size, name| nearest.offer(start, size, || Name::At(name)))?;
    let mut found = Vec::new();
    for (address, symbol) in nearest.found() {
        let Name::At(at) = symbol.name else { continue };
        if let Some(name) = strings.name(file, at)? {
            found.extend(placed.iter().filter(|one| one.1 == address).map(|&(place, _)| (place, name.clone())));
        }
    }
    Ok(found)
}

/// How a file says numbers, and where its tables are.
struct Elf {
    /// Addresses have 64 bits.
    wide: bool,
    big_endian: bool,
    arm: bool,
    segments: Table,
    sections: Table,
}

/// A table: how many entries, of what size, and where.
#[derive(Clone, Copy)]
struct Table {
    at: u64,
    entry: usize,
    count: usize,
}

/// A stretch of the file that is loaded at an address.
struct Segment {
    at: u64,
    len: u64,
    address: u64,
}

/// A stretch of the file.
#[derive(Clone, Copy)]
struct Stretch {
    at: u64,
    len: u64,
}

/// What is believed at most: real programs have a dozen segments, some forty sections, and browsers a million symbols.
const MOST_SEGMENTS: usize = 256;
const MOST_SECTIONS: usize = 65_535;
const MOST_SYMBOLS: u64 = 4 << 20;
const LONGEST_NAME: u64 = 512;

/// PT_LOAD; SHT_SYMTAB and SHT_DYNSYM; STT_FUNC and STT_GNU_IFUNC; EM_ARM.
const LOAD: u32 = 1;
const SYMBOLS: u32 = 2;
const DYNAMIC_SYMBOLS: u32 = 11;
const FUNCTION: u8 = 2;
const INDIRECT_FUNCTION: u8 = 10;
const ARM: u16 = 40;

impl Elf {
    fn read(file: &mut (impl Read + Seek)) -> io::Result<Elf> {
        let header = octets(file, 0, 52)?;
        let (wide, big_endian) = match header[..6] {
            [0x7f, b'E', b'L', b'F', class @ (1 | 2), order @ (1 | 2)] => (class == 2, order == 2),
            _ => return Err(nonsense("it is no ELF file")),
        };
        let header = octets(file, 0, if wide { 64 } else { 52 })?;
        let none = Table { at: 0, entry: 0, count: 0 };
        let mut elf = Elf { wide, big_endian, arm: false, segments: none, sections: none };
        elf.arm = elf.u16(&header, 18) == ARM;
        let table = |at: usize, entry: usize, count: usize, most: usize| Table {
            at: elf.word(&header, at),
            entry: elf.u16(&header, entry).into(),
            count: usize::from(elf.u16(&header, count)).min(most),
        };
        let (segments, sections) = if wide {
            (table(32, 54, 56, MOST_SEGMENTS), table(40, 58, 60, MOST_SECTIONS))
        } else {
            (table(28, 42, 44, MOST_SEGMENTS), table(32, 46, 48, MOST_SECTIONS))
        };
        (elf.segments, elf.sections) = (segments, sections);
        Ok(elf)
    }

    /// What is loaded (Elf32_Phdr, Elf64_Phdr).
    fn segments(&self, file: &mut (impl Read + Seek)) -> io::Result<Vec<Segment>> {
        let [offset, address, len] = if self.wide { [8, 16, 32] } else { [4, 8, 16] };
        let mut segments = Vec::new();
        self.each_entry(file, self.segments, if self.wide { 56 } else { 32 }, |entry| {
            if self.u32(entry, 0) == LOAD {
                let [at, address, len] = [offset, address, len].map(|place| self.word(entry, place));
                segments.push(Segment { at, len, address });
            }
        })?;
        Ok(segments)
    }

    /// The table of symbols, the whole one before that for linking, and the table of their names.
    fn symbols(&self, file: &mut (impl Read + Seek)) -> io::Result<Option<(Stretch, Stretch)>> {
        let [offset, size, link] = if self.wide { [24, 32, 40] } else { [16, 20, 24] };
        let entry_len = if self.wide { 64 } else { 40 };
        let (mut chosen, mut index) = (None, 0u32);
        let mut stretches = Vec::new();
        self.each_entry(file, self.sections, entry_len, |entry| {
            let kind = self.u32(entry, 4);
            stretches.push(Stretch { at: self.word(entry, offset), len: self.word(entry, size) });
            if kind == SYMBOLS || (kind == DYNAMIC_SYMBOLS && chosen.is_none()) {
                chosen = Some((index as usize, self.u32(entry, link) as usize));
            }
            index += 1;
        })?;
        Ok(chosen.and_then(|(symbols, names)| Some((stretches[symbols], *stretches.get(names)?))))
    }

    /// Calls `each` with every entry of a table; one whose entries are too short for what they hold has none.
    fn each_entry(
        &self,
        file: &mut (impl Read + Seek),
        table: Table,
        least: usize,
        mut each: impl FnMut(&[u8]),
    ) -> io::Result<()> {
        if table.entry < least {
            return Ok(());
        }
        file.seek(SeekFrom::Start(table.at))?;
        let mut reader = BufReader::new(file);
        let mut entry = vec![0; table.entry];
        for _ in 0..table.count {
            reader.read_exact(&mut entry)?;
            each(&entry);
        }
        Ok(())
    }

    /// Calls `each` with address, size and place of the name of every function that is defined (Elf32_Sym, Elf64_Sym).
    fn each_function(
        &self,
        file: &mut (impl Read + Seek),
        symbols: Stretch,
        mut each: impl FnMut(u64, u64, u64),
    ) -> io::Result<()> {
        let len = if self.wide { 24 } else { 16 };
        let [value, size, info, section] = if self.wide { [8, 16, 4, 6] } else { [4, 8, 12, 14] };
        let count = (symbols.len / len).min(MOST_SYMBOLS) as usize;
        let table = Table { at: symbols.at, entry: len as usize, count };
        self.each_entry(file, table, len as usize, |entry| {
            let is_function = matches!(entry[info] & 15, FUNCTION | INDIRECT_FUNCTION);
            if is_function && self.u16(entry, section) != 0 {
                // The lowest bit says Thumb, and is no part of the address (ELF for the Arm Architecture, 5.5.3).
                let thumb = u64::from(self.arm);
                each(self.word(entry, value) & !thumb, self.word(entry, size), self.u32(entry, 0).into());
            }
        })
    }

    fn u16(&self, octets: &[u8], at: usize) -> u16 {
        let field = [octets[at], octets[at + 1]];
        if self.big_endian { u16::from_be_bytes(field) } else { u16::from_le_bytes(field) }
    }

    fn u32(&self, octets: &[u8], at: usize) -> u32 {
        let field = octets[at..at + 4].try_into().expect("four octets");
        if self.big_endian { u32::from_be_bytes(field) } else { u32::from_le_bytes(field) }
    }

    /// An address or offset, as wide as this file has them.
    fn word(&self, octets: &[u8], at: usize) -> u64 {
        if !self.wide {
            return self.u32(octets, at).into();
        }
        let field = octets[at..at + 8].try_into().expect("eight octets");
        if self.big_endian { u64::from_be_bytes(field) } else { u64::from_le_bytes(field) }
    }
}

impl Segment {
    /// Where a place in the file is loaded, if this stretch has it.
    fn address(&self, place: u64) -> Option<u64> {
        let within = place.checked_sub(self.at).filter(|within| *within < self.len)?;
        self.address.checked_add(within)
    }
}

impl Stretch {
    /// The name at a place in this table of names; `None`: it is outside, empty, or no text.
    fn name(self, file: &mut (impl Read + Seek), at: u64) -> io::Result<Option<String>> {
        let Some(room) = self.len.checked_sub(at).filter(|room| *room > 0) else { return Ok(None) };
        let Some(place) = self.at.checked_add(at) else { return Ok(None) };
        file.seek(SeekFrom::Start(place))?;
        let mut octets = Vec::new();
        file.take(room.min(LONGEST_NAME)).read_to_end(&mut octets)?;
        let name = octets.split(|&octet| octet == 0).next().unwrap_or_default();
        Ok(std::str::from_utf8(name).ok().filter(|name| !name.is_empty()).map(str::to_owned))
    }
}

fn octets(file: &mut (impl Read + Seek), at: u64, len: usize) -> io::Result<Vec<u8>> {
    let mut octets = vec![0; len];
    file.seek(SeekFrom::Start(at))?;
    file.read_exact(&mut octets)?;
    Ok(octets)
}

fn nonsense(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    /// A file with one loaded segment (place 0x1000 at address 0x40_1000) and these functions: (address, size, name).
    fn file(wide: bool, big: bool, machine: u16, functions: &[(u64, u64, &str)]) -> Vec<u8> {
        let number = |value: u64, len: usize| -> Vec<u8> {
            let octets = value.to_le_bytes();
            if big { octets[..len].iter().rev().copied().collect() } else { octets[..len].to_vec() }
        };
        let word = if wide { 8 } else { 4 };
        let (header, segment, section, symbol) = if wide { (64, 56, 64, 24) } else { (52, 32, 40, 16) };
        let mut names = vec![0u8];
        let mut symbols = vec![0u8; symbol];
        for &(address, size, name) in functions {
            let at = names.len() as u64;
            names.extend(name.bytes().chain([0]));
            let info = [2u8, 0];
            symbols.extend(match wide {
                true => [number(at, 4), info.to_vec(), number(1, 2), number(address, 8), number(size, 8)].concat(),
                false => [number(at, 4), number(address, 4), number(size, 4), info.to_vec(), number(1, 2)].concat(),
            });
        }
        let at_sections = header + segment;
        let at_symbols = at_sections + 3 * section;
        let at_names = at_symbols + symbols.len();
        let mut octets = vec![0x7f, b'E', b'L', b'F', 1 + u8::from(wide), 1 + u8::from(big), 1];
        octets.resize(16, 0);
        octets.extend([number(2, 2), number(machine.into(), 2), number(1, 4), number(0, word)].concat());
        octets.extend([number(header as u64, word), number(at_sections as u64, word), number(0, 4)].concat());
        let sizes = [header, segment, 1, section, 3, 0];
        octets.extend(sizes.iter().flat_map(|&size| number(size as u64, 2)));
        assert_eq!(octets.len(), header);
        octets.extend(number(1, 4));
        if wide {
            octets.extend(number(5, 4));
        }
        octets.extend([0x1000, 0x40_1000, 0, 0x800, 0x800].iter().flat_map(|&value| number(value, word)));
        octets.resize(at_sections, 0);
        for (kind, at, len, link) in [(0, 0, 0, 0), (2, at_symbols, symbols.len(), 2), (3, at_names, names.len(), 0)] {
            let start = octets.len();
            octets.extend([number(0, 4), number(kind, 4), number(0, word), number(0, word)].concat());
            octets.extend([number(at as u64, word), number(len as u64, word), number(link, 4)].concat());
            octets.resize(start + section, 0);
        }
        [octets, symbols, names].concat()
    }

    fn found(octets: &[u8], places: &[u64]) -> Vec<(u64, String)> {
        names(&mut Cursor::new(octets), places).unwrap_or_default()
    }

    const FUNCTIONS: [(u64, u64, &str); 3] = [(0x40_1000, 16, "main"), (0x40_1020, 0, "send"), (0x40_1100, 8, "end")];

    #[test]
    fn functions_of_every_kind_of_file() {
        for (wide, big) in [(true, false), (true, true), (false, false), (false, true)] {
            let octets = file(wide, big, 0, &FUNCTIONS);
            let found = found(&octets, &[0x1000, 0x100f, 0x1010, 0x1050, 0x1107, 0x1108, 0x2000, 0]);
            let want = [(0x1000, "main"), (0x100f, "main"), (0x1050, "send"), (0x1107, "end")];
            assert_eq!(found, want.map(|(place, name)| (place, name.to_owned())), "wide {wide}, big-endian {big}");
        }
    }

    #[test]
    fn a_thumb_bit_is_no_part_of_an_address() {
        let octets = file(false, false, ARM, &[(0x40_1001, 4, "thumb")]);
        assert_eq!(found(&octets, &[0x1000]), [(0x1000, "thumb".to_owned())]);
    }

    #[test]
    fn a_file_cut_anywhere_is_borne() {
        let whole = file(true, false, 0, &FUNCTIONS);
        for len in 0..whole.len() {
            found(&whole[..len], &[0x1000, 0x1050]);
        }
    }

    #[test]
    fn a_file_with_any_octet_wrong_is_borne() {
        for (wide, big) in [(true, false), (false, true)] {
            let whole = file(wide, big, 0, &FUNCTIONS);
            for at in 0..whole.len() {
                for wrong in [0, 1, 0x7f, 0x80, 0xff] {
                    let mut octets = whole.clone();
                    octets[at] = wrong;
                    found(&octets, &[0x1000, 0x1050, u64::MAX]);
                }
            }
        }
    }

    #[test]
    fn what_is_no_program_says_so() {
        for octets in [&b"#!/bin/sh\n"[..], &[0; 64], &[0x7f, b'E', b'L', b'F', 3, 1]] {
            assert!(names(&mut Cursor::new(octets), &[0]).is_err());
        }
    }

    #[test]
    fn this_program_has_names() {
        let mut file = std::fs::File::open("/proc/self/exe").unwrap();
        let maps = super::super::maps::Maps::parse(&std::fs::read_to_string("/proc/self/maps").unwrap());
        let (path, place) = maps.find(nonsense as fn(&str) -> io::Error as usize as u64).unwrap();
        assert!(path.contains("linerate_host"), "{path}");
        let found = names(&mut file, &[place]).unwrap();
        assert!(found[0].1.contains("nonsense"), "{found:?}");
    }
}
