//! What the value of an option looks like as text, and which values there are.
//! A kind is a type of value with its bounds; which option has which is in the table of `spec.rs`.

use std::time::Duration;

use crate::spec::{Extent, Spec, USUAL_PROFILE_HZ};
use crate::units::{OfferedLoad, format_duration, format_size, parse_duration, parse_size};
use crate::word::Word;

/// Reads and writes values of one kind.
pub(crate) trait Kind<V> {
    /// What may stand there, as help and complaints say it.
    fn allowed(&self) -> String;
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
pub(crate) struct Scale {
    pub(super) read: fn(&str) -> Option<u64>,
    pub(super) write: fn(u64) -> String,
}

pub(crate) const NUMBERS: Scale = Scale { read: number, write: |n| n.to_string() };

/// A kind of value, and where a trial has it.
pub(crate) struct Field<V: 'static, K> {
    pub(crate) kind: K,
    pub(crate) of: fn(&Spec) -> &V,
    pub(crate) of_mut: fn(&mut Spec) -> &mut V,
}

/// A [`Field`] whose type does not matter.
pub(crate) trait Access: Sync {
    fn allowed(&self) -> String;
    fn scale(&self, first: &str) -> Option<Scale>;
    /// Sets it; `None` where the text is not allowed.
    fn set(&self, spec: &mut Spec, text: &str) -> Option<()>;
    fn get(&self, spec: &Spec) -> Option<String>;
    fn holds(&self, spec: &Spec) -> bool;
}

impl<V, K: Kind<V> + Sync> Access for Field<V, K> {
    fn allowed(&self) -> String {
        self.kind.allowed()
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

    fn holds(&self, spec: &Spec) -> bool {
        self.kind.holds((self.of)(spec))
    }
}

/// What the program chooses where it is `auto`.
pub(crate) struct Auto<K>(pub(crate) K);

impl<V, K: Kind<V>> Kind<Option<V>> for Auto<K> {
    fn allowed(&self) -> String {
        format!("auto | {}", self.0.allowed())
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
        W::WORDS.iter().map(|one| one.word()).collect::<Vec<_>>().join(" | ")
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
        format!("{} | {}", self.on, self.off)
    }

    fn read(&self, text: &str) -> Option<bool> {
        boolean(text)
    }

    fn write(&self, value: &bool) -> Option<String> {
        Some(if *value { self.on } else { self.off }.to_owned())
    }
}

/// A whole number.
pub(crate) struct Number {
    pub(crate) least: u64,
    pub(crate) most: u64,
}

impl<N: TryFrom<u64> + Into<u64> + Copy> Kind<N> for Number {
    fn allowed(&self) -> String {
        if self.most == u64::MAX { "a whole number".to_owned() } else { format!("{} to {}", self.least, self.most) }
    }

    fn read(&self, text: &str) -> Option<N> {
        number::<u64>(text)?.try_into().ok()
    }

    fn write(&self, value: &N) -> Option<String> {
        Some((*value).into().to_string())
    }

    fn holds(&self, value: &N) -> bool {
        (self.least..=self.most).contains(&(*value).into())
    }

    fn scale(&self, _: &str) -> Option<Scale> {
        Some(NUMBERS)
    }
}

/// Octets, in the kernel's and iperf's K of 1024.
pub(crate) struct Size {
    pub(crate) least: u32,
    pub(crate) most: u32,
}

/// Octets of memory.
pub(crate) const ANY_SIZE: Size = Size { least: 0, most: u32::MAX };

const SIZES: Scale = Scale { read: |text| parse_size(text).ok(), write: format_size };

impl Kind<u32> for Size {
    fn allowed(&self) -> String {
        let size = "size like 1470 or 128K".to_owned();
        let of = |octets: u32| format_size(octets.into());
        if self.most == u32::MAX { size } else { format!("{size}, {} to {}", of(self.least), of(self.most)) }
    }

    fn read(&self, text: &str) -> Option<u32> {
        parse_size(text).ok()?.try_into().ok()
    }

    fn write(&self, value: &u32) -> Option<String> {
        Some(format_size((*value).into()))
    }

    fn holds(&self, value: &u32) -> bool {
        (self.least..=self.most).contains(value)
    }

    fn scale(&self, _: &str) -> Option<Scale> {
        Some(SIZES)
    }
}

/// Octets, a power of two.
pub(crate) struct PowerOfTwo {
    pub(crate) most: u32,
}

impl Kind<u32> for PowerOfTwo {
    fn allowed(&self) -> String {
        format!("a power of two up to {}", format_size(self.most.into()))
    }

    fn read(&self, text: &str) -> Option<u32> {
        ANY_SIZE.read(text)
    }

    fn write(&self, value: &u32) -> Option<String> {
        ANY_SIZE.write(value)
    }

    fn holds(&self, value: &u32) -> bool {
        value.is_power_of_two() && *value <= self.most
    }

    fn scale(&self, _: &str) -> Option<Scale> {
        Some(SIZES)
    }
}

/// A time.
pub(crate) struct Time {
    pub(crate) least: Duration,
}

impl Kind<Duration> for Time {
    fn allowed(&self) -> String {
        let time = "time like 10s or 500ms";
        if self.least.is_zero() { time.to_owned() } else { format!("{time}, at least {}", format_duration(self.least)) }
    }

    fn read(&self, text: &str) -> Option<Duration> {
        parse_duration(text).ok()
    }

    fn write(&self, value: &Duration) -> Option<String> {
        Some(format_duration(*value))
    }

    fn holds(&self, value: &Duration) -> bool {
        *value >= self.least
    }

    fn scale(&self, _: &str) -> Option<Scale> {
        Some(Scale {
            read: |text| u64::try_from(parse_duration(text).ok()?.as_nanos()).ok(),
            write: |ns| format_duration(Duration::from_nanos(ns)),
        })
    }
}

/// An extent by time.
pub(crate) struct ByTime(pub(crate) Time);

impl Kind<Extent> for ByTime {
    fn allowed(&self) -> String {
        self.0.allowed()
    }

    fn read(&self, text: &str) -> Option<Extent> {
        self.0.read(text).map(Extent::Time)
    }

    fn write(&self, value: &Extent) -> Option<String> {
        if let Extent::Time(time) = value { self.0.write(time) } else { None }
    }

    fn holds(&self, value: &Extent) -> bool {
        if let Extent::Time(time) = value { self.0.holds(time) } else { true }
    }

    fn scale(&self, first: &str) -> Option<Scale> {
        self.0.scale(first)
    }
}

/// An extent by octets.
pub(crate) struct ByOctets;

impl Kind<Extent> for ByOctets {
    fn allowed(&self) -> String {
        "size like 64M, at least 1".to_owned()
    }

    fn read(&self, text: &str) -> Option<Extent> {
        parse_size(text).ok().map(Extent::Octets)
    }

    fn write(&self, value: &Extent) -> Option<String> {
        if let Extent::Octets(octets) = value { Some(format_size(*octets)) } else { None }
    }

    fn holds(&self, value: &Extent) -> bool {
        *value != Extent::Octets(0)
    }

    fn scale(&self, _: &str) -> Option<Scale> {
        Some(SIZES)
    }
}

/// An offered load.
pub(crate) struct Load;

impl Kind<OfferedLoad> for Load {
    fn allowed(&self) -> String {
        "bits per second like 100M, packets per second like 10kpps, or unlimited".to_owned()
    }

    fn read(&self, text: &str) -> Option<OfferedLoad> {
        text.parse().ok()
    }

    fn write(&self, value: &OfferedLoad) -> Option<String> {
        Some(value.to_string())
    }

    fn scale(&self, first: &str) -> Option<Scale> {
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

/// Samples a second, or none.
pub(crate) struct SampleRate(pub(crate) Number);

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

pub(crate) fn number<T: std::str::FromStr>(text: &str) -> Option<T> {
    // `+5` and the like parse in Rust and are a slip of the finger here.
    if text.bytes().all(|b| b.is_ascii_digit()) { text.parse().ok() } else { None }
}

pub(crate) fn boolean(text: &str) -> Option<bool> {
    match text {
        "true" | "on" | "yes" => Some(true),
        "false" | "off" | "no" => Some(false),
        _ => None,
    }
}
