//! What is asked of test frames: what they carry, their sizes, their tags.
//! Sizes count the FCS, as Ethernet's do: 64 to 1518 without tags.

use std::fmt;
use std::str::FromStr;

use linerate_machine::words;
use linerate_wire::frame;
use linerate_wire::template::Vlans;
use serde::{Deserialize, Serialize};

words! {
    /// What a test frame carries between the Ethernet header and what it says of itself.
    FrameKind {
        /// Nothing, under EtherType 0x88B5: no stack on the way takes it for its own.
        Raw = "raw",
        /// UDP over IPv4, to addresses of 198.18.0.0/15 (RFC 2544, appendix C.2.2).
        Udp4 = "udp4",
        /// UDP over IPv6, to addresses of 2001:2::/48 (RFC 5180, section 8).
        Udp6 = "udp6",
    }
}

impl FrameKind {
    /// As its octets are made.
    pub const fn on_the_wire(self) -> frame::FrameKind {
        match self {
            FrameKind::Raw => frame::FrameKind::Raw,
            FrameKind::Udp4 => frame::FrameKind::Udp4,
            FrameKind::Udp6 => frame::FrameKind::Udp6,
        }
    }
}

/// The largest test frame, FCS counted: RFC 6985's largest is 16,000.
pub const MAX_FRAME: u32 = 16_384;
/// The smallest frame of Ethernet, FCS counted.
pub const MIN_FRAME: u32 = 64;
/// The most flows in one stream of frames.
pub const MAX_FLOWS: u16 = 4096;
/// The most frames after which a mix begins again.
const MAX_MIX: usize = 64;

/// The sizes of the frames of a stream, one after the other, over and over: a mix of them, or one alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct FrameSizes {
    /// As it was asked for.
    text: String,
    sizes: Vec<u32>,
}

/// Sizes by their letters (RFC 6985, section 4).
const GENOME: [(char, u32); 10] = [
    ('a', 64),
    ('b', 128),
    ('c', 256),
    ('d', 512),
    ('e', 1024),
    ('f', 1280),
    ('g', 1518),
    ('h', 2112),
    ('i', 9000),
    ('j', 16_000),
];

/// The letter for the link's MTU, and what it counts as until that is known.
const MTU: (char, u32) = ('z', 1518);

/// What most testers mean by IMIX: of twelve frames seven small, four medium, one large.
const IMIX: &str = "7x64+4x594+1x1518";

impl FrameSizes {
    /// Frames of one size.
    pub fn one(octets: u32) -> FrameSizes {
        FrameSizes { text: octets.to_string(), sizes: vec![octets] }
    }

    /// The sizes, in the order in which they are sent.
    pub fn sizes(&self) -> &[u32] {
        &self.sizes
    }

    /// Whether some are as large as the link's MTU, which was not known when they were asked for.
    pub fn has_mtu(&self) -> bool {
        is_genome(&self.text) && self.text.contains(MTU.0)
    }

    /// The same with frames of this size, FCS counted, where the link's MTU is meant; as large as a test frame is, at most.
    pub(crate) fn at_mtu(&self, size: u32) -> FrameSizes {
        let size = size.clamp(MIN_FRAME, MAX_FRAME);
        let letters = self.text.chars();
        let sizes = letters.zip(&self.sizes).map(|(letter, known)| if letter == MTU.0 { size } else { *known });
        let sizes: Vec<u32> = if self.has_mtu() { sizes.collect() } else { self.sizes.clone() };
        let text = sizes.iter().map(u32::to_string).collect::<Vec<_>>().join("+");
        FrameSizes { text, sizes }
    }

    /// The size of a frame by its number in the stream.
    #[inline]
    pub fn of(&self, number: u64) -> u32 {
        match self.sizes[..] {
            [size] => size,
            _ => self.sizes[(number % self.sizes.len() as u64) as usize],
        }
    }

    /// Octets of the first `frames` frames.
    pub fn octets(&self, frames: u64) -> u64 {
        let count = self.sizes.len() as u64;
        let begun = &self.sizes[..(frames % count) as usize];
        let sum = |sizes: &[u32]| sizes.iter().map(|size| u64::from(*size)).sum::<u64>();
        (frames / count).saturating_mul(sum(&self.sizes)).saturating_add(sum(begun))
    }

    /// How many frames hold so many octets.
    pub fn holding(&self, octets: u64) -> u64 {
        let count = self.sizes.len() as u64;
        let mut frames = octets / self.octets(count).max(1) * count;
        while self.octets(frames) < octets {
            frames += 1;
        }
        frames
    }

    /// The mean size.
    pub fn mean(&self) -> f64 {
        self.octets(self.sizes.len() as u64) as f64 / self.sizes.len() as f64
    }

    /// The largest of them.
    pub fn largest(&self) -> u32 {
        self.sizes.iter().copied().max().unwrap_or(MIN_FRAME)
    }

    /// The smallest of them.
    pub fn smallest(&self) -> u32 {
        self.sizes.iter().copied().min().unwrap_or(MIN_FRAME)
    }

    /// The different ones, in order of size.
    pub fn different(&self) -> Vec<u32> {
        let mut different = self.sizes.clone();
        different.sort_unstable();
        different.dedup();
        different
    }
}

impl FromStr for FrameSizes {
    type Err = String;

    fn from_str(text: &str) -> Result<FrameSizes, String> {
        let sizes = read(if text == "imix" { IMIX } else { text });
        let allowed = |sizes: &Vec<u32>| {
            (1..=MAX_MIX).contains(&sizes.len()) && sizes.iter().all(|size| (MIN_FRAME..=MAX_FRAME).contains(size))
        };
        match sizes.filter(allowed) {
            Some(sizes) => Ok(FrameSizes { text: text.to_owned(), sizes }),
            None => Err(format!("'{text}' is not a frame size; write {}", allowed_text())),
        }
    }
}

/// What may stand there.
pub(crate) fn allowed_text() -> String {
    format!(
        "{MIN_FRAME} to {MAX_FRAME} bytes with FCS, imix (which is {IMIX}), a mix like 3x64+1x1518, or a genome of RFC 6985 \
         like aaag, in which z is the link's MTU; {MAX_MIX} frames at most"
    )
}

fn is_genome(text: &str) -> bool {
    text.chars().all(|letter| letter.is_ascii_lowercase()) && text != "imix"
}

fn read(text: &str) -> Option<Vec<u32>> {
    if is_genome(text) {
        let size = |letter| GENOME.iter().chain([&MTU]).find(|(known, _)| *known == letter).map(|(_, size)| *size);
        return text.chars().map(size).collect();
    }
    let mut parts = Vec::new();
    for part in text.split('+') {
        let (count, size) = part.split_once('x').unwrap_or(("1", part));
        let number =
            |text: &str| text.bytes().all(|digit| digit.is_ascii_digit()).then(|| text.parse::<u32>().ok()).flatten();
        let count = number(count).filter(|count| (1..=MAX_MIX as u32).contains(count))?;
        parts.push((count, number(size)?));
    }
    Some(spread(&parts))
}

/// The parts of a mix among each other as evenly as they go: seven small frames in a row are a burst that nobody asked for.
fn spread(parts: &[(u32, u32)]) -> Vec<u32> {
    let total: u32 = parts.iter().map(|(count, _)| count).sum();
    let mut sent = vec![0; parts.len()];
    let mut sizes = Vec::new();
    for turn in 1..=total {
        // Of those left, the one that is furthest behind its share of the turns.
        let behind = |&part: &usize| i64::from(parts[part].0) * i64::from(turn) - i64::from(sent[part] * total);
        let next = (0..parts.len()).filter(|&part| sent[part] < parts[part].0).rev().max_by_key(behind);
        if let Some(part) = next {
            sent[part] += 1;
            sizes.push(parts[part].1);
        }
    }
    sizes
}

impl fmt::Display for FrameSizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl TryFrom<String> for FrameSizes {
    type Error = String;

    fn try_from(text: String) -> Result<FrameSizes, String> {
        text.parse()
    }
}

impl From<FrameSizes> for String {
    fn from(sizes: FrameSizes) -> String {
        sizes.text
    }
}

/// The VLAN tags of test frames: `none`, `5`, or `100.5`, the outer one first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct VlanTags(pub Vlans);

impl FromStr for VlanTags {
    type Err = String;

    fn from_str(text: &str) -> Result<VlanTags, String> {
        if text == "none" {
            return Ok(VlanTags(Vlans::NONE));
        }
        let ids: Option<Vec<u16>> =
            text.split('.').map(|id| id.parse().ok().filter(|_| !id.starts_with('+'))).collect();
        let vlans = ids.and_then(|ids| Vlans::new(&ids)).filter(|vlans| vlans.count() > 0);
        vlans.map(VlanTags).ok_or_else(|| format!("'{text}' is not a VLAN; write {}", VlanTags::ALLOWED))
    }
}

impl VlanTags {
    /// What may stand there.
    pub(crate) const ALLOWED: &str = "none, 1 to 4094, or two of them like 100.5, the outer one first";
}

impl fmt::Display for VlanTags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.ids() {
            [] => f.write_str("none"),
            [one] => write!(f, "{one}"),
            ids => write!(f, "{}", ids.iter().map(u16::to_string).collect::<Vec<_>>().join(".")),
        }
    }
}

impl TryFrom<String> for VlanTags {
    type Error = String;

    fn try_from(text: String) -> Result<VlanTags, String> {
        text.parse()
    }
}

impl From<VlanTags> for String {
    fn from(tags: VlanTags) -> String {
        tags.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, sizes: &[u32]) {
        let read: FrameSizes = text.parse().unwrap();
        assert_eq!(read.sizes(), sizes);
        assert_eq!(read.to_string(), text);
        assert_eq!(serde_json::from_str::<FrameSizes>(&serde_json::to_string(&read).unwrap()).unwrap(), read);
    }

    #[test]
    fn sizes_are_numbers_mixes_and_genomes() {
        check("64", &[64]);
        check("9018", &[9018]);
        check("aaag", &[64, 64, 64, 1518]);
        check("3x64+1x1518", &[64, 64, 1518, 64]);
        check("64+1518", &[64, 1518]);
        check("az", &[64, 1518]);
        check("imix", &[64, 594, 64, 64, 594, 64, 1518, 64, 594, 64, 594, 64]);
        for bad in ["", "63", "16385", "k", "aZ", "0x64", "65x64", "1x", "x64", "+64", "64+", "1e3", "64x64+1"] {
            assert!(bad.parse::<FrameSizes>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_mix_is_counted_to_the_frame() {
        let imix: FrameSizes = "imix".parse().unwrap();
        assert_eq!(imix.octets(12), 7 * 64 + 4 * 594 + 1518);
        assert_eq!(imix.different(), [64, 594, 1518]);
        assert_eq!((imix.smallest(), imix.largest()), (64, 1518));
        for frames in 0..40 {
            assert_eq!(imix.octets(frames), (0..frames).map(|number| u64::from(imix.of(number))).sum::<u64>());
        }
        assert!((imix.mean() - 361.833).abs() < 0.001);
    }

    #[test]
    fn tags_are_read_as_they_are_written() {
        for (text, ids) in [("none", &[][..]), ("5", &[5]), ("100.5", &[100, 5])] {
            let tags: VlanTags = text.parse().unwrap();
            assert_eq!((tags.0.ids(), tags.to_string().as_str()), (ids, text));
        }
        for bad in ["", "0", "4095", "1.2.3", "5.", "+5", "a"] {
            assert!(bad.parse::<VlanTags>().is_err(), "{bad}");
        }
    }
}
