//! What the value of an option looks like as text, and which values there are.
//! A kind is a type of value with its bounds; which option has which is in the table of `spec.rs`.

use std::time::Duration;

use linerate_machine::text::{boolean, number};
use linerate_machine::units::{OfferedLoad, format_duration, format_size, parse_duration, parse_size};
use linerate_machine::word::Word;

use crate::frames::{self, FrameSizes, VlanTags};
use crate::spec::{Extent, Spec, USUAL_PROFILE_HZ};

/// Reads and writes values of one kind.
pub(crate) trait Kind<V> {
    /// What may stand there, as help and complaints say it.
    fn allowed(&self) -> String;
    /// The words among what may stand there.
    fn words(&self) -> Vec<&'static str> {
        Vec::new()
    }
    /// The value of a text; `None` where it is not allowed.
    fn read(&self, text: &str) -> Option<V>;
    /// As [`Kind::read`] reads it; `None` where another option says it.
    fn write(&self, value: &V) -> Option<String>;
    /// Whether it is allowed.
    fn holds(&self, _: &V) -> bool {
        true
    }
    /// How a range that begins with this text is counted through.
    fn scale(&self, _first: &str) -> Option<Scale> {
        None
    }
}

/// The number behind a text, and the text of a number.
#[derive(Clone, Copy)]
pub(crate) struct Scale {
    pub(super) read: fn(&str) -> Option<u64>,
    pub(super) write: fn(u64) -> String,
}

pub(crate) const NUMBERS: Scale = Scale { read: number, write: |n| n.to_string() };
const SIZES: Scale = Scale { read: |text| parse_size(text).ok(), write: format_size };
const TIMES: Scale = Scale {
    read: |text| u64::try_from(parse_duration(text).ok()?.as_nanos()).ok(),
    write: |ns| format_duration(Duration::from_nanos(ns)),
};

/// A kind of value, and where a trial has it.
pub(crate) struct Field<V: 'static, K> {
    pub(crate) kind: K,
    pub(crate) of: fn(&Spec) -> &V,
    pub(crate) of_mut: fn(&mut Spec) -> &mut V,
}

/// A [`Field`] whose type does not matter.
pub(crate) trait Access: Sync {
    fn allowed(&self) -> String;
    fn words(&self) -> Vec<&'static str>;
    fn scale(&self, first: &str) -> Option<Scale>;
    /// Sets it; `None` where the text is not allowed.
    fn set(&self, spec: &mut Spec, text: &str) -> Option<()>;
    fn get(&self, spec: &Spec) -> Option<String>;
}

impl<V, K: Kind<V> + Sync> Access for Field<V, K> {
    fn allowed(&self) -> String {
        self.kind.allowed()
    }

    fn words(&self) -> Vec<&'static str> {
        self.kind.words()
    }

    fn scale(&self, first: &str) -> Option<Scale> {
        self.kind.scale(first)
    }

    fn set(&self, spec: &mut Spec, text: &str) -> Option<()> {
        *(self.of_mut)(spec) = self.kind.read(text).filter(|value| self.kind.holds(value))?;
        Some(())
    }

    fn get(&self, spec: &Spec) -> Option<String> {
        self.kind.write((self.of)(spec))
    }
}

/// What the program chooses where it is `auto`.
pub(crate) struct Auto<K>(pub(crate) K);

impl<V, K: Kind<V>> Kind<Option<V>> for Auto<K> {
    fn allowed(&self) -> String {
        format!("auto | {}", self.0.allowed())
    }

    fn words(&self) -> Vec<&'static str> {
        std::iter::once("auto").chain(self.0.words()).collect()
    }

    fn read(&self, text: &str) -> Option<Option<V>> {
        if text == "auto" { Some(None) } else { self.0.read(text).map(Some) }
    }

    fn write(&self, value: &Option<V>) -> Option<String> {
        value.as_ref().map_or_else(|| Some("auto".to_owned()), |value| self.0.write(value))
    }

    fn holds(&self, value: &Option<V>) -> bool {
        value.as_ref().is_none_or(|value| self.0.holds(value))
    }

    fn scale(&self, first: &str) -> Option<Scale> {
        self.0.scale(first)
    }
}

/// One of a fixed set.
pub(crate) struct Words;

impl<W: Word> Kind<W> for Words {
    fn allowed(&self) -> String {
        Kind::<W>::words(self).join(" | ")
    }

    fn words(&self) -> Vec<&'static str> {
        W::WORDS.iter().map(|one| one.word()).collect()
    }

    fn read(&self, text: &str) -> Option<W> {
        W::read(text)
    }

    fn write(&self, value: &W) -> Option<String> {
        Some(value.word().to_owned())
    }
}

/// Yes or no, written with these words.
pub(crate) struct Switch {
    on: &'static str,
    off: &'static str,
}

pub(crate) const TRUTH: Switch = Switch { on: "true", off: "false" };
pub(crate) const ON_OFF: Switch = Switch { on: "on", off: "off" };

impl Kind<bool> for Switch {
    fn allowed(&self) -> String {
        self.words().join(" | ")
    }

    fn words(&self) -> Vec<&'static str> {
        vec![self.on, self.off]
    }

    fn read(&self, text: &str) -> Option<bool> {
        boolean(text)
    }

    fn write(&self, value: &bool) -> Option<String> {
        Some(if *value { self.on } else { self.off }.to_owned())
    }
}

/// What is counted by a whole number: numbers, sizes, times.
pub(crate) trait Counted: Sized {
    fn count(&self) -> u64;
    fn of(count: u64) -> Option<Self>;
}

macro_rules! counted {
    ($($Number:ty),+) => {
        $(impl Counted for $Number {
            fn count(&self) -> u64 {
                (*self).into()
            }

            fn of(count: u64) -> Option<$Number> {
                count.try_into().ok()
            }
        })+
    };
}
counted!(u8, u16, u32, u64);

impl Counted for Duration {
    fn count(&self) -> u64 {
        // More than is counted is too much, and not nothing.
        self.as_nanos().try_into().unwrap_or(u64::MAX)
    }

    fn of(ns: u64) -> Option<Duration> {
        Some(Duration::from_nanos(ns))
    }
}

/// A quantity within bounds.
pub(crate) struct Quantity {
    /// As help says it, before the bounds.
    what: &'static str,
    scale: Scale,
    pub(crate) least: u64,
    pub(crate) most: u64,
}

const fn quantity(what: &'static str, scale: Scale, least: u64, most: u64) -> Quantity {
    Quantity { what, scale, least, most }
}

/// A whole number.
pub(crate) const WHOLE: Quantity = quantity("a whole number", NUMBERS, 0, u64::MAX);
/// The most bytes that are counted.
pub(crate) const MOST_BYTES: u64 = 1 << 59;
/// The longest time that is read ([`parse_duration`]), in nanoseconds.
const LONGEST: u64 = 366 * 86_400 * 1_000_000_000;

/// A whole number within bounds.
pub(crate) const fn within(least: u64, most: u64) -> Quantity {
    quantity("", NUMBERS, least, most)
}

/// Octets, in the kernel's and iperf's K of 1024.
pub(crate) const fn size(least: u64, most: u64) -> Quantity {
    quantity("size like 1470 or 128K", SIZES, least, most)
}

/// A time, in nanoseconds.
pub(crate) const fn time(least_ms: u64) -> Quantity {
    quantity("time like 10s or 500ms", TIMES, least_ms * 1_000_000, LONGEST)
}

impl<V: Counted> Kind<V> for Quantity {
    fn allowed(&self) -> String {
        let Quantity { what, scale, least, most } = self;
        match (*least, *most) {
            (least, most) if what.is_empty() => format!("{least} to {most}"),
            (0, most) => format!("{what}, up to {}", (scale.write)(most)),
            (least, most) => format!("{what}, {} to {}", (scale.write)(least), (scale.write)(most)),
        }
    }

    fn read(&self, text: &str) -> Option<V> {
        V::of((self.scale.read)(text)?)
    }

    fn write(&self, value: &V) -> Option<String> {
        Some((self.scale.write)(value.count()))
    }

    fn holds(&self, value: &V) -> bool {
        (self.least..=self.most).contains(&value.count())
    }

    fn scale(&self, _: &str) -> Option<Scale> {
        Some(self.scale)
    }
}

/// A power of two of octets.
pub(crate) struct PowerOfTwo(pub(crate) Quantity);

impl Kind<u32> for PowerOfTwo {
    fn allowed(&self) -> String {
        format!("a power of two up to {}", format_size(self.0.most))
    }

    fn read(&self, text: &str) -> Option<u32> {
        self.0.read(text)
    }

    fn write(&self, value: &u32) -> Option<String> {
        self.0.write(value)
    }

    fn holds(&self, value: &u32) -> bool {
        value.is_power_of_two() && self.0.holds(value)
    }

    fn scale(&self, first: &str) -> Option<Scale> {
        Kind::<u32>::scale(&self.0, first)
    }
}

/// An extent by time.
pub(crate) struct ByTime(pub(crate) Quantity);

/// An extent by octets.
pub(crate) struct ByOctets(pub(crate) Quantity);

macro_rules! extents {
    ($($Kind:ident: $Extent:ident of $Value:ty),+) => {
        $(impl Kind<Extent> for $Kind {
            fn allowed(&self) -> String {
                Kind::<$Value>::allowed(&self.0)
            }

            fn read(&self, text: &str) -> Option<Extent> {
                self.0.read(text).map(Extent::$Extent)
            }

            fn write(&self, value: &Extent) -> Option<String> {
                if let Extent::$Extent(value) = value { self.0.write(value) } else { None }
            }

            fn holds(&self, value: &Extent) -> bool {
                if let Extent::$Extent(value) = value { self.0.holds(value) } else { true }
            }

            fn scale(&self, first: &str) -> Option<Scale> {
                Kind::<$Value>::scale(&self.0, first)
            }
        })+
    };
}
extents!(ByTime: Time of Duration, ByOctets: Octets of u64);

/// An offered load.
pub(crate) struct Load;

impl Kind<OfferedLoad> for Load {
    fn allowed(&self) -> String {
        "bits per second like 100M, whole packets per second like 10kpps, a part of the line rate like 95%, or unlimited"
            .to_owned()
    }

    fn read(&self, text: &str) -> Option<OfferedLoad> {
        text.parse().ok()
    }

    fn write(&self, value: &OfferedLoad) -> Option<String> {
        Some(value.to_string())
    }

    fn scale(&self, first: &str) -> Option<Scale> {
        if first.ends_with('%') {
            return Some(Scale {
                read: |text| match text.parse() {
                    Ok(OfferedLoad::OfLine(parts)) => Some(parts.into()),
                    _ => None,
                },
                write: |parts| OfferedLoad::OfLine(u32::try_from(parts).unwrap_or(u32::MAX)).to_string(),
            });
        }
        Some(match first.ends_with("pps") {
            true => Scale {
                read: |text| match text.parse() {
                    Ok(OfferedLoad::PacketsPerSecond(packets)) => Some(packets),
                    _ => None,
                },
                write: |packets| OfferedLoad::PacketsPerSecond(packets).to_string(),
            },
            false => Scale {
                read: |text| match text.parse() {
                    Ok(OfferedLoad::BitsPerSecond(bits)) => Some(bits),
                    _ => None,
                },
                write: |bits| OfferedLoad::BitsPerSecond(bits).to_string(),
            },
        })
    }
}

/// What a line carries.
pub(crate) struct BitRate;

impl Kind<OfferedLoad> for BitRate {
    fn allowed(&self) -> String {
        "bits per second like 1G".to_owned()
    }

    fn read(&self, text: &str) -> Option<OfferedLoad> {
        Load.read(text).filter(|rate| matches!(rate, OfferedLoad::BitsPerSecond(_)))
    }

    fn write(&self, value: &OfferedLoad) -> Option<String> {
        Load.write(value)
    }

    fn scale(&self, first: &str) -> Option<Scale> {
        self.read(first).and_then(|_| Load.scale(first))
    }
}

/// A differentiated services code point (RFC 2474): a number, or its name.
pub(crate) struct CodePoint(pub(crate) Quantity);

/// Names beside those of [`code_point`]: RFC 3246, RFC 5865, RFC 8622.
const CODE_POINTS: [(&str, u8); 4] = [("ef", 46), ("va", 44), ("le", 1), ("be", 0)];

/// The code point of a name: class selectors `cs0` to `cs7` (RFC 2474), and assured forwarding `af11` to `af43`, class and
/// drop precedence (RFC 2597).
fn code_point(name: &str) -> Option<u8> {
    let name = name.to_ascii_lowercase();
    if let Some((_, point)) = CODE_POINTS.iter().find(|(known, _)| *known == name) {
        return Some(*point);
    }
    match *name.as_bytes() {
        [b'c', b's', class @ b'0'..=b'7'] => Some((class - b'0') << 3),
        [b'a', b'f', class @ b'1'..=b'4', drop @ b'1'..=b'3'] => Some((class - b'0') << 3 | (drop - b'0') << 1),
        _ => None,
    }
}

impl Kind<u8> for CodePoint {
    fn allowed(&self) -> String {
        format!("{}, or a name like ef, af11, cs1 or le", Kind::<u8>::allowed(&self.0))
    }

    fn read(&self, text: &str) -> Option<u8> {
        code_point(text).or_else(|| self.0.read(text))
    }

    fn write(&self, value: &u8) -> Option<String> {
        self.0.write(value)
    }

    fn holds(&self, value: &u8) -> bool {
        self.0.holds(value)
    }

    fn scale(&self, first: &str) -> Option<Scale> {
        Kind::<u8>::scale(&self.0, first)
    }
}

/// A name that the kernel knows.
pub(crate) struct Name {
    pub(crate) like: &'static str,
    pub(crate) longest: usize,
}

impl Kind<String> for Name {
    fn allowed(&self) -> String {
        format!("a name like {}", self.like)
    }

    fn read(&self, text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    fn write(&self, value: &String) -> Option<String> {
        Some(value.clone())
    }

    fn holds(&self, name: &String) -> bool {
        (1..=self.longest).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    }
}

/// Sizes of frames.
pub(crate) struct Sizes;

impl Kind<FrameSizes> for Sizes {
    fn allowed(&self) -> String {
        frames::allowed_text()
    }

    fn read(&self, text: &str) -> Option<FrameSizes> {
        text.parse().ok()
    }

    fn write(&self, value: &FrameSizes) -> Option<String> {
        Some(value.to_string())
    }

    fn scale(&self, _: &str) -> Option<Scale> {
        Some(NUMBERS)
    }
}

/// VLAN tags.
pub(crate) struct Tags;

impl Kind<VlanTags> for Tags {
    fn allowed(&self) -> String {
        VlanTags::ALLOWED.to_owned()
    }

    fn read(&self, text: &str) -> Option<VlanTags> {
        text.parse().ok()
    }

    fn write(&self, value: &VlanTags) -> Option<String> {
        Some(value.to_string())
    }
}

/// Samples a second, or none.
pub(crate) struct SampleRate(pub(crate) Quantity);

impl Kind<Option<u32>> for SampleRate {
    fn allowed(&self) -> String {
        format!("off | on (which is {USUAL_PROFILE_HZ}) | {}", Kind::<u32>::allowed(&self.0))
    }

    fn read(&self, text: &str) -> Option<Option<u32>> {
        match text {
            "off" => Some(None),
            "on" => Some(Some(USUAL_PROFILE_HZ)),
            _ => self.0.read(text).map(Some),
        }
    }

    fn write(&self, value: &Option<u32>) -> Option<String> {
        Some(value.map_or_else(|| "off".to_owned(), |hz| hz.to_string()))
    }

    fn holds(&self, value: &Option<u32>) -> bool {
        value.is_none_or(|hz| self.0.holds(&hz))
    }

    fn scale(&self, _: &str) -> Option<Scale> {
        Some(NUMBERS)
    }
}
