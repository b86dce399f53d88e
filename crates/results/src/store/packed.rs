//! A record's JSON as the store keeps it: raw deflate (RFC 1951) against a dictionary, the store's first record, and behind it the
//! text's CRC-32, as gzip has it (RFC 1952, section 2.3.1): a damaged octet may well unpack to other figures.
//! Knows no record; those of one board differ in figures and little else, so most of a text is in the dictionary.
//!
//! Any zlib reads it: in Python, `zlib.decompressobj(-15, zdict=dictionary).decompress(packed)`.

use std::io::{self, Read as _, Write as _};
use std::thread;

use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use flate2::{Compression, Crc};

/// Deflate looks back 32 KiB: more of a dictionary would be of no use.
const DICTIONARY_OCTETS: usize = 32_000;
/// The longest text that is unpacked, octets: a store of somebody else's may hold anything.
const MOST_OCTETS: u64 = 256 << 20;

/// The compressor's tables pass over the stack, and who writes a record may be one of a server's many threads, with little
/// of it.
const STACK: usize = 4 << 20;

/// What texts are packed against.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Dictionary(Vec<u8>);

impl Dictionary {
    /// Of a text that is like those to come; of a long one its beginning, where a record says what its machines are.
    pub(super) fn of(text: &[u8]) -> Dictionary {
        Dictionary(text[..text.len().min(DICTIONARY_OCTETS)].to_vec())
    }

    /// What the store keeps of it.
    pub(super) fn octets(&self) -> &[u8] {
        &self.0
    }

    /// The text, packed.
    pub(super) fn pack(&self, text: &str) -> io::Result<Vec<u8>> {
        thread::scope(|scope| {
            let thread = thread::Builder::new().stack_size(STACK).spawn_scoped(scope, || self.pack_here(text))?;
            thread.join().unwrap_or_else(|_| Err(io::Error::other("packing it broke")))
        })
    }

    fn pack_here(&self, text: &str) -> io::Result<Vec<u8>> {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
        // Behind a flush, what is written refers back to the dictionary and begins at a whole octet: what the
        // dictionary itself came to is left out.
        encoder.write_all(&self.0)?;
        encoder.flush()?;
        let start = encoder.get_ref().len();
        encoder.write_all(text.as_bytes())?;
        let mut packed = encoder.finish()?.split_off(start);
        packed.extend(checksum(text));
        Ok(packed)
    }

    /// The text that was packed against this dictionary. The error is one of the octets, or of their number.
    pub(super) fn unpack(&self, packed: &[u8]) -> io::Result<String> {
        // A block that is stored as it is (RFC 1951, section 3.2.4) puts the dictionary before what is packed.
        let length = (self.0.len() as u16).to_le_bytes();
        let block = [0, length[0], length[1], !length[0], !length[1]];
        let mut decoder = DeflateDecoder::new(block.chain(&self.0[..]).chain(packed));
        io::copy(&mut decoder.by_ref().take(self.0.len() as u64), &mut io::sink())?;
        let mut text = String::new();
        decoder.by_ref().take(MOST_OCTETS + 1).read_to_string(&mut text)?;
        if text.len() as u64 > MOST_OCTETS {
            return Err(io::Error::other(format!("it is longer than {MOST_OCTETS} bytes")));
        }
        let unpacked = decoder.total_in() as usize - block.len() - self.0.len();
        // Earlier versions wrote none.
        match packed.get(unpacked..).unwrap_or_default() {
            written if written.is_empty() || written == checksum(&text) => Ok(text),
            _ => Err(io::Error::other("its checksum does not fit")),
        }
    }
}

fn checksum(text: &str) -> [u8; 4] {
    let mut crc = Crc::new();
    crc.update(text.as_bytes());
    crc.sum().to_le_bytes()
}

#[cfg(test)]
mod tests {
    use linerate_trial::pace::SplitMix64;

    use super::*;

    fn octets(random: &mut SplitMix64, most: u64, letters: u64) -> Vec<u8> {
        (0..random.below(most)).map(|_| random.below(letters) as u8).collect()
    }

    #[test]
    fn any_text_comes_back_and_what_is_no_text_is_refused() {
        let mut random = SplitMix64::new(20_261_122);
        for _ in 0..200 {
            let dictionary = Dictionary::of(&octets(&mut random, 40_000, 128));
            let letters = 1 + random.below(127);
            let text = String::from_utf8(octets(&mut random, 40_000, letters)).unwrap();
            assert_eq!(dictionary.unpack(&dictionary.pack(&text).unwrap()).unwrap(), text);
            // Whatever it is, it does not panic, nor take memory without end.
            let _ = dictionary.unpack(&octets(&mut random, 200, 256));
        }
        let mut long = DeflateEncoder::new(Vec::new(), Compression::fast());
        io::copy(&mut io::repeat(b' ').take(MOST_OCTETS + 1), &mut long).unwrap();
        let error = Dictionary::default().unpack(&long.finish().unwrap()).unwrap_err();
        assert!(error.to_string().contains("longer than"), "{error}");
    }

    #[test]
    fn a_thread_with_little_stack_packs() {
        let pack = || Dictionary::default().pack("{}").map(|packed| packed.len());
        let packed = thread::Builder::new().stack_size(64 << 10).spawn(pack).unwrap().join().unwrap().unwrap();
        assert!(packed > 0);
    }

    #[test]
    fn a_text_like_the_dictionary_takes_next_to_nothing() {
        let first: String =
            (0..10_000u32).map(|n| format!("\"counter {n}\": {}, ", n.wrapping_mul(2_654_435_761))).collect();
        let dictionary = Dictionary::of(first.as_bytes());
        let text = &first[..30_000];
        let packed = dictionary.pack(text).unwrap();
        assert!(packed.len() < 400, "{}", packed.len());
        assert_eq!(dictionary.unpack(&packed).unwrap(), text);
        // Another dictionary gives another one, or none.
        let error = Dictionary::of(&first.as_bytes()[7..]).unpack(&packed).unwrap_err();
        assert_eq!(error.to_string(), "its checksum does not fit");
    }

    #[test]
    fn a_damaged_octet_gives_no_other_text() {
        let text: String = (0..2000u32).map(|n| format!("{},", n.wrapping_mul(2_654_435_761))).collect();
        let dictionary = Dictionary::of(&text.as_bytes()[..9000]);
        let packed = dictionary.pack(&text).unwrap();
        for at in 0..packed.len() {
            let mut damaged = packed.clone();
            damaged[at] ^= 1 << (at % 8);
            assert!(dictionary.unpack(&damaged).is_err(), "octet {at} of {}", packed.len());
        }
        let of_before = &packed[..packed.len() - 4];
        assert_eq!(dictionary.unpack(of_before).unwrap(), text, "an earlier version's has no checksum");
    }
}
