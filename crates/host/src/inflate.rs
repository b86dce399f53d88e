//! Unpacks a gzip file that the kernel made: /proc/config.gz, which boards have where they have no /boot/config.
//! Knows nothing of what is inside, and is made for small files: a bit at a time, no checksum.

/// The longest output; a kernel's configuration is near 200 KiB.
const MAX_OUTPUT: usize = 4 << 20;

/// The content of a gzip file of one member (RFC 1952); `None` when it is damaged, or larger than any configuration.
pub(crate) fn gunzip(file: &[u8]) -> Option<Vec<u8>> {
    let header = file.first_chunk::<10>()?;
    if header[..3] != [0x1F, 0x8B, 8] {
        return None;
    }
    let flags = header[3];
    let mut rest = &file[10..];
    if flags & 4 != 0 {
        let length = u16::from_le_bytes(*rest.first_chunk()?);
        rest = rest.get(2 + usize::from(length)..)?;
    }
    // The file's name and a comment, each ended by a zero, and a checksum of the header.
    for _ in 0..(flags >> 3 & 1) + (flags >> 4 & 1) {
        rest = &rest[rest.iter().position(|octet| *octet == 0)? + 1..];
    }
    inflate(rest.get(if flags & 2 != 0 { 2 } else { 0 }..)?)
}

/// DEFLATE (RFC 1951).
fn inflate(input: &[u8]) -> Option<Vec<u8>> {
    let mut bits = Bits { input, at: 0 };
    let mut out = Vec::new();
    loop {
        let last = bits.take(1)? == 1;
        match bits.take(2)? {
            0 => stored(&mut bits, &mut out)?,
            1 => {
                // Section 3.2.6.
                let lengths = [[8; 144].as_slice(), &[9; 112], &[7; 24], &[8; 8]].concat();
                compressed(&mut bits, &mut out, &Code::new(&lengths), &Code::new(&[5; 30]))?;
            }
            2 => {
                let (literals, distances) = dynamic_codes(&mut bits)?;
                compressed(&mut bits, &mut out, &literals, &distances)?;
            }
            _ => return None,
        }
        if last {
            return Some(out);
        }
    }
}

/// The input, lowest bit of each octet first.
struct Bits<'a> {
    input: &'a [u8],
    at: usize,
}

impl Bits<'_> {
    fn take(&mut self, count: u32) -> Option<usize> {
        let mut value = 0;
        for k in 0..count {
            let octet = *self.input.get(self.at / 8)?;
            value |= usize::from(octet >> (self.at % 8) & 1) << k;
            self.at += 1;
        }
        Some(value)
    }
}

/// A canonical Huffman code (section 3.2.2): how many codes there are of each length, and the symbols in order.
struct Code {
    counts: [usize; 16],
    symbols: Vec<u16>,
}

impl Code {
    fn new(lengths: &[u8]) -> Code {
        let mut counts = [0; 16];
        let mut symbols = Vec::new();
        for length in 1..16 {
            let of_length = (0..).zip(lengths).filter(|(_, l)| **l == length).map(|(symbol, _)| symbol);
            let before = symbols.len();
            symbols.extend(of_length);
            counts[usize::from(length)] = symbols.len() - before;
        }
        Code { counts, symbols }
    }

    fn read(&self, bits: &mut Bits<'_>) -> Option<usize> {
        // `first` is the first code of this length, `index` the place of its symbol.
        let (mut code, mut first, mut index) = (0usize, 0usize, 0usize);
        for count in &self.counts[1..] {
            code |= bits.take(1)?;
            if let Some(place) = code.checked_sub(first).filter(|place| place < count) {
                return self.symbols.get(index + place).map(|symbol| usize::from(*symbol));
            }
            index += count;
            first = (first + count) << 1;
            code <<= 1;
        }
        None
    }
}

fn stored(bits: &mut Bits<'_>, out: &mut Vec<u8>) -> Option<()> {
    let at = bits.at.div_ceil(8);
    let length = usize::from(u16::from_le_bytes(*bits.input.get(at..)?.first_chunk()?));
    out.extend_from_slice(bits.input.get(at + 4..at + 4 + length)?);
    bits.at = (at + 4 + length) * 8;
    (out.len() <= MAX_OUTPUT).then_some(())
}

/// Section 3.2.7.
fn dynamic_codes(bits: &mut Bits<'_>) -> Option<(Code, Code)> {
    const ORDER: [usize; 19] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];
    let (literals, distances) = (bits.take(5)? + 257, bits.take(5)? + 1);
    let mut lengths = [0; 19];
    for place in &ORDER[..bits.take(4)? + 4] {
        lengths[*place] = bits.take(3)? as u8;
    }
    let code = Code::new(&lengths);
    let mut lengths = Vec::new();
    while lengths.len() < literals + distances {
        let (length, times) = match code.read(bits)? {
            16 => (*lengths.last()?, bits.take(2)? + 3),
            17 => (0, bits.take(3)? + 3),
            18 => (0, bits.take(7)? + 11),
            length => (length as u8, 1),
        };
        lengths.resize(lengths.len() + times, length);
    }
    Some((Code::new(&lengths[..literals]), Code::new(lengths.get(literals..literals + distances)?)))
}

/// Section 3.2.5: literals, and copies of what came before.
fn compressed(bits: &mut Bits<'_>, out: &mut Vec<u8>, literals: &Code, distances: &Code) -> Option<()> {
    while out.len() <= MAX_OUTPUT {
        match literals.read(bits)? {
            literal @ 0..256 => out.push(literal as u8),
            256 => return Some(()),
            symbol => {
                let length = match symbol - 257 {
                    symbol @ 0..8 => symbol + 3,
                    28 => 258,
                    symbol @ 8..28 => extended(bits, symbol, 4)? + 3,
                    _ => return None,
                };
                let distance = match distances.read(bits)? {
                    symbol @ 0..4 => symbol + 1,
                    symbol @ 4..30 => extended(bits, symbol, 2)? + 1,
                    _ => return None,
                };
                let from = out.len().checked_sub(distance)?;
                // An octet at a time, as a copy may run into what it writes.
                for at in from..from + length {
                    out.push(out[at]);
                }
            }
        }
    }
    None
}

/// The tables of section 3.2.5 as the rule behind them: `group` symbols to each number of extra bits.
fn extended(bits: &mut Bits<'_>, symbol: usize, group: usize) -> Option<usize> {
    let extra = symbol / group - 1;
    Some(((group + symbol % group) << extra) + bits.take(extra as u32)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DYNAMIC: [u8; 268] = [
        0x1F, 0x8B, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0x6D, 0xD4, 0x2B, 0x6E, 0x43, 0x31, 0x14, 0x45,
        0x51, 0xDE, 0xD1, 0xD8, 0xBE, 0x7F, 0x50, 0x14, 0xA9, 0x55, 0x48, 0x5E, 0x41, 0x79, 0xC6, 0x91, 0xD9, 0x47,
        0x85, 0xD5, 0xD9, 0xF4, 0xA0, 0xBD, 0xAC, 0x2B, 0xDF, 0xAE, 0xC7, 0xD7, 0xFD, 0xFB, 0x79, 0xFD, 0xFC, 0xDE,
        0xAF, 0xC7, 0x73, 0x7D, 0xBE, 0x3E, 0x6E, 0xFF, 0x16, 0x93, 0x25, 0x65, 0x19, 0x59, 0xF6, 0xD1, 0x29, 0x74,
        0x6A, 0x99, 0xCE, 0xD6, 0xC9, 0x75, 0x2A, 0xED, 0x84, 0x74, 0x6D, 0x37, 0x8D, 0x37, 0xAD, 0x77, 0xAD, 0x77,
        0xAD, 0x77, 0xAD, 0x0F, 0xAD, 0x0F, 0xAD, 0x0F, 0xAD, 0x4F, 0xAD, 0x4F, 0x78, 0x79, 0xAD, 0x4F, 0xAD, 0x2F,
        0xAD, 0x2F, 0xAD, 0x2F, 0xAD, 0x6F, 0xAD, 0x6F, 0xAD, 0x6F, 0xAD, 0x1F, 0xAD, 0x1F, 0xAD, 0x1F, 0x38, 0x1C,
        0xB8, 0x9C, 0x05, 0xA7, 0xB3, 0xE0, 0x76, 0x96, 0x02, 0xF6, 0xDE, 0xB0, 0x39, 0x6C, 0x05, 0x17, 0xBB, 0x60,
        0x33, 0xD8, 0x12, 0x36, 0x70, 0x18, 0x38, 0x0C, 0x1C, 0x06, 0x0E, 0x07, 0x87, 0x83, 0xC3, 0xC1, 0x11, 0xE0,
        0x08, 0x70, 0x04, 0x38, 0x02, 0x1C, 0x09, 0x8E, 0x04, 0x47, 0x82, 0xA3, 0xC0, 0x51, 0xE0, 0x28, 0x70, 0x34,
        0x38, 0x1A, 0x1C, 0x0D, 0x8E, 0x06, 0xC7, 0x80, 0x63, 0xC0, 0x31, 0xF0, 0x29, 0x2D, 0xF8, 0x95, 0x16, 0x7C,
        0x4B, 0xAB, 0xE0, 0x43, 0x5B, 0xB0, 0x19, 0x6C, 0x09, 0x9B, 0x3A, 0xCE, 0x39, 0xB0, 0x05, 0x6C, 0xE0, 0x30,
        0x70, 0x18, 0x38, 0x0C, 0x1C, 0x0E, 0x0E, 0x07, 0x87, 0x83, 0xC3, 0xC1, 0x11, 0xE0, 0x08, 0x70, 0x04, 0x38,
        0x12, 0x1C, 0x09, 0x8E, 0x04, 0x47, 0x81, 0xA3, 0xC0, 0x51, 0xE0, 0x28, 0x70, 0x34, 0x38, 0x1A, 0x1C, 0x0D,
        0x8E, 0x01, 0xC7, 0x80, 0x63, 0xFE, 0x1C, 0x6F, 0x2A, 0x98, 0xF1, 0xEA, 0xAA, 0x07, 0x00, 0x00,
    ];

    /// Made by zlib: a block of each kind, with and without a file name.
    #[test]
    fn known_files() {
        let fixed = [
            0x1F, 0x8B, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0x73, 0xF6, 0xF7, 0x73, 0xF3, 0x74, 0x8F, 0xF7,
            0x88, 0xB2, 0x35, 0x32, 0x35, 0xE0, 0x72, 0x86, 0xF1, 0xE2, 0x81, 0x3C, 0xDB, 0x4A, 0x2E, 0x00, 0xFB, 0xF7,
            0x46, 0xC9, 0x1E, 0x00, 0x00, 0x00,
        ];
        assert_eq!(gunzip(&fixed).unwrap(), b"CONFIG_HZ=250\nCONFIG_HZ_250=y\n");
        let stored = [
            0x1F, 0x8B, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x04, 0x03, 0x01, 0x06, 0x00, 0xF9, 0xFF, 0x73, 0x74, 0x6F,
            0x72, 0x65, 0x64, 0x0B, 0xF9, 0x43, 0x56, 0x06, 0x00, 0x00, 0x00,
        ];
        assert_eq!(gunzip(&stored).unwrap(), b"stored");
        let named = [
            0x1F, 0x8B, 0x08, 0x08, 0x00, 0x00, 0x00, 0x00, 0x02, 0xFF, 0x6E, 0x61, 0x6D, 0x65, 0x00, 0xCB, 0x4B, 0xCC,
            0x4D, 0x4D, 0xC9, 0xA3, 0x2D, 0x01, 0x00, 0x4E, 0xA4, 0xFE, 0xCF, 0x64, 0x00, 0x00, 0x00,
        ];
        assert_eq!(gunzip(&named).unwrap(), "named".repeat(20).as_bytes());
        let options: String = (0..300).step_by(3).map(|k| format!("CONFIG_OPTION_{k}=y\n")).collect();
        assert_eq!(String::from_utf8(gunzip(&DYNAMIC).unwrap()).unwrap(), options);
    }

    #[test]
    fn damaged_files_are_refused_without_a_panic() {
        let mut random = 1u32;
        for length in 0..DYNAMIC.len() {
            assert_eq!(gunzip(&DYNAMIC[..length.min(DYNAMIC.len() - 12)]), None);
            let mut damaged = DYNAMIC.to_vec();
            for _ in 0..20 {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                damaged[length] = (random >> 24) as u8;
                let _ = gunzip(&damaged);
            }
        }
    }
}
