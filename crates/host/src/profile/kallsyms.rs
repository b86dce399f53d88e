//! /proc/kallsyms: where the kernel's functions begin, and what they are called.
//! Knows the file's lines; it is read twice and never kept, for on a small board it is larger than the agent.

use std::fs::File;
use std::io::{self, BufRead, BufReader};

use super::nearest::{Name, SymbolLookup};

const PATH: &str = "/proc/kallsyms";
/// The longest line that is looked at, octets; a symbol has 511 at most (KSYM_NAME_LEN).
const LONGEST: usize = 1024;
/// The most functions that are kept, 4 octets each.
const MOST: usize = 1 << 20;

/// Where the kernel's functions begin, so that addresses in one function become one.
#[derive(Debug, Default)]
pub struct SymbolStarts {
    base: u64,
    /// From the base, rising.
    offsets: Vec<u32>,
}

impl SymbolStarts {
    /// Of the running kernel. Empty where it shows addresses to nobody like us.
    pub fn read() -> io::Result<SymbolStarts> {
        SymbolStarts::of(&mut || Ok(BufReader::new(File::open(PATH)?)))
    }

    fn of<R: BufRead>(open: &mut dyn FnMut() -> io::Result<R>) -> io::Result<SymbolStarts> {
        let mut addresses = Vec::new();
        each_function(open()?, |address, _, _| {
            if addresses.len() < MOST {
                addresses.push(address);
            }
        })?;
        addresses.sort_unstable();
        addresses.dedup();
        let base = addresses.first().copied().unwrap_or_default();
        // A kernel with its modules lies within 4 GiB, so that a call reaches everywhere.
        let offsets = addresses.iter().map_while(|address| u32::try_from(address - base).ok()).collect();
        Ok(SymbolStarts { base, offsets })
    }

    /// No function is known.
    pub fn is_empty(&self) -> bool {
        self.offsets.is_empty()
    }

    /// The beginning of the function that this address is in, as far as that is known.
    pub fn start(&self, address: u64) -> u64 {
        let Some(offset) = address.checked_sub(self.base).and_then(|offset| u32::try_from(offset).ok()) else {
            return address;
        };
        let after = self.offsets.partition_point(|&start| start <= offset);
        after.checked_sub(1).map_or(address, |at| self.base + u64::from(self.offsets[at]))
    }
}

/// Names these addresses.
pub fn name(nearest: &mut SymbolLookup) -> io::Result<()> {
    each_function(BufReader::new(File::open(PATH)?), |address, name, module| {
        nearest.offer(address, 0, || Name::Text(name.to_owned(), module.map(str::to_owned)));
    })
}

/// Calls `each` with the address, the name and the module of every function that has an address.
pub(crate) fn each_function(mut lines: impl BufRead, mut each: impl FnMut(u64, &str, Option<&str>)) -> io::Result<()> {
    let mut line = Vec::new();
    loop {
        line.clear();
        if io::Read::take(&mut lines, LONGEST as u64).read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        if let Some((address, name, module)) = std::str::from_utf8(&line).ok().and_then(parse) {
            each(address, name, module);
        }
    }
}

/// One line: `ffffffff81000000 T _stext`, and `[module]` behind it for a module's. `None`: no function, or one whose
/// address is hidden and reads as 0 (kptr_restrict, Documentation/admin-guide/sysctl/kernel.rst).
fn parse(line: &str) -> Option<(u64, &str, Option<&str>)> {
    let mut words = line.split_ascii_whitespace();
    let (address, kind, name) = (words.next()?, words.next()?, words.next()?);
    let module = words.next().and_then(|word| word.strip_prefix('[')?.strip_suffix(']'));
    // nm(1): t is code, w weak, and capitals are global. Before functions lie their prefixes on some kernels; names
    // with $ tell ARM from Thumb.
    let is_function = matches!(kind, "t" | "T" | "w" | "W") && !name.starts_with('$');
    if !is_function || name.starts_with("__pfx_") || name.starts_with("__cfi_") {
        return None;
    }
    let address = u64::from_str_radix(address, 16).ok()?;
    (address != 0).then_some((address, name, module))
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    const SYMBOLS: &str = "0000000000000000 A fixed_percpu_data\nc0100000 T _stext\nc0100040 t do_one\nc0100040 T alias\n\
                           c0100100 D some_data\nc0100080 W do_two\nbf000000 t fec_enet_rx\t[fec]\nbf000100 t $a\t[fec]\n";

    fn starts(text: &[u8]) -> SymbolStarts {
        let text = text.to_vec();
        SymbolStarts::of(&mut || Ok(Cursor::new(text.clone()))).unwrap()
    }

    #[test]
    fn functions_begin_where_they_say() {
        let starts = starts(SYMBOLS.as_bytes());
        for (address, start) in [
            (0xc010_0000, 0xc010_0000),
            (0xc010_003f, 0xc010_0000),
            (0xc010_0041, 0xc010_0040),
            (0xc010_0fff, 0xc010_0080),
            (0xbf00_0150, 0xbf00_0000),
            (0xbe00_0000, 0xbe00_0000),
            (u64::MAX, u64::MAX),
        ] {
            assert_eq!(starts.start(address), start, "{address:x}");
        }
    }

    #[test]
    fn hidden_addresses_are_none() {
        let hidden = starts(b"0000000000000000 T _stext\n0000000000000000 t do_one\n");
        assert!(hidden.is_empty());
        assert_eq!(hidden.start(0xc010_0000), 0xc010_0000);
    }

    #[test]
    fn lines_that_make_no_sense_are_passed_over() {
        let mut text = b"\n\0\xff\xfe T x\nzz T x\nc0100000\nc0100000 T\nc0100000000000000000 T big\n".to_vec();
        text.extend(std::iter::repeat_n(b'a', 5000));
        text.extend(b"\nc0100000 T right\nffffffffffffffff T far\nc0200000 T cut");
        let starts = starts(&text);
        assert_eq!(starts.offsets, [0, 0x10_0000], "what lies too far is left out");
    }

    #[test]
    fn names_come_with_their_modules() {
        let mut nearest = SymbolLookup::to(vec![0xbf00_0000, 0xc010_0040]);
        each_function(Cursor::new(SYMBOLS), |address, name, module| {
            nearest.offer(address, 0, || Name::Text(name.to_owned(), module.map(str::to_owned)));
        })
        .unwrap();
        let text = |name: &str, module: Option<&str>| Name::Text(name.to_owned(), module.map(str::to_owned));
        let found: Vec<_> = nearest.found().map(|(_, symbol)| symbol.name.clone()).collect();
        assert_eq!(found, [text("fec_enet_rx", Some("fec")), text("do_one", None)]);
    }
}
