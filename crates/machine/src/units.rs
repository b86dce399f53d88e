//! Quantities as people write them: rates, sizes, durations, and ranges of them.
//! Knows no option names; an error says what the text should look like, not where it stood.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Why a text is no quantity: one sentence that says what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadQuantity(pub String);

/// The load a sender is asked to offer, per stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OfferedLoad {
    /// As fast as the sender can.
    Unlimited,
    /// Payload bits per second.
    BitsPerSecond(u64),
    /// Datagrams, or requests, per second.
    PacketsPerSecond(u64),
    /// A part of the line rate, millionths. What sends knows no line: it is bits per second before it is sent.
    OfLine(u32),
}

impl OfferedLoad {
    /// The whole line rate, in the parts of [`OfferedLoad::OfLine`].
    pub const WHOLE_LINE: u32 = 1_000_000;

    /// Nanoseconds between the starts of two messages of `message_octets`; `None` when unlimited, or of a line that is not known.
    pub fn gap_ns(self, message_octets: u64) -> Option<f64> {
        match self {
            OfferedLoad::Unlimited | OfferedLoad::OfLine(_) => None,
            OfferedLoad::BitsPerSecond(bits) => Some(message_octets as f64 * 8e9 / bits as f64),
            OfferedLoad::PacketsPerSecond(packets) => Some(1e9 / packets as f64),
        }
    }

    /// Payload bits per second that this asks for with messages of `message_octets`; `None` when unlimited.
    pub fn bits_per_second(self, message_octets: u64) -> Option<f64> {
        self.gap_ns(message_octets).map(|gap| message_octets as f64 * 8e9 / gap)
    }
}

/// Bits per second, as people and `tc` write them; a longer name before one that it ends in.
const BIT_RATES: [&str; 5] = ["bits/s", "bit/s", "bits", "bit", "bps"];

/// So far from a whole number is what a decimal fraction of a thousand or a million may be read as.
const ROUNDED: f64 = 1e-4;

impl FromStr for OfferedLoad {
    type Err = BadQuantity;

    fn from_str(text: &str) -> Result<Self, BadQuantity> {
        let bad = || {
            BadQuantity(format!(
                "'{text}' is not a rate; write bits per second like 100M, 1.5G or 64K, whole packets per second like 10kpps, a \
                 part of the line rate like 95%, or 'unlimited'"
            ))
        };
        if text == "unlimited" {
            return Ok(OfferedLoad::Unlimited);
        }
        if let Some(per_cent) = text.strip_suffix('%') {
            let parts =
                scaled(per_cent, 1000.0).filter(|_| !per_cent.ends_with(|last: char| last.is_ascii_alphabetic()));
            let parts = parts.map(|per_cent| (per_cent * f64::from(OfferedLoad::WHOLE_LINE) / 100.0).round());
            let allowed = parts.filter(|parts| (1.0..=f64::from(OfferedLoad::WHOLE_LINE)).contains(parts));
            return allowed.map(|parts| OfferedLoad::OfLine(parts as u32)).ok_or_else(bad);
        }
        let lower = text.to_ascii_lowercase();
        let (number, per) = match lower.strip_suffix("pps") {
            Some(number) => (number, OfferedLoad::PacketsPerSecond as fn(u64) -> OfferedLoad),
            None => (
                BIT_RATES.iter().find_map(|unit| lower.strip_suffix(unit)).unwrap_or(&lower),
                OfferedLoad::BitsPerSecond as fn(u64) -> OfferedLoad,
            ),
        };
        let written = scaled(number, 1000.0).ok_or_else(bad)?;
        let value = written.round();
        // Half a packet more or less is much at a low rate.
        if lower.ends_with("pps") && (written - value).abs() > ROUNDED {
            return Err(bad());
        }
        // A terabit is past every port there is; a rate below one per second has no gap to keep.
        if !(1.0..=1e13).contains(&value) {
            return Err(bad());
        }
        Ok(per(value as u64))
    }
}

impl fmt::Display for OfferedLoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            OfferedLoad::Unlimited => f.write_str("unlimited"),
            OfferedLoad::BitsPerSecond(bits) => f.write_str(&rate(bits, ["", "K", "M", "G"])),
            OfferedLoad::PacketsPerSecond(packets) => write!(f, "{}pps", rate(packets, ["", "k", "M", "G"])),
            OfferedLoad::OfLine(parts) => {
                // Four digits behind the point, those that are zero left out.
                let text = format!("{}.{:04}", parts / 10_000, parts % 10_000);
                write!(f, "{}%", text.trim_end_matches('0').trim_end_matches('.'))
            }
        }
    }
}

/// Reads a size in octets: `1470`, `64K` (1024 octets to the K, as iperf counts them), `1.5M`, `1GiB`.
pub fn parse_size(text: &str) -> Result<u64, BadQuantity> {
    let lower = text.to_ascii_lowercase();
    let number = lower.strip_suffix("ib").or(lower.strip_suffix('b')).unwrap_or(&lower);
    match scaled(number, 1024.0) {
        Some(value) if (0.0..=1e18).contains(&value) => Ok(value.round() as u64),
        _ => Err(BadQuantity(format!("'{text}' is not a size; write bytes like 1470, 64K or 16M (K = 1024)"))),
    }
}

/// A size as [`parse_size`] reads it.
pub fn format_size(octets: u64) -> String {
    let (mut value, mut suffix) = (octets, "");
    for larger in ["K", "M", "G"] {
        if value < 1024 || !value.is_multiple_of(1024) {
            break;
        }
        (value, suffix) = (value / 1024, larger);
    }
    format!("{value}{suffix}")
}

/// Reads a time: `5s`, `100ms`, `20us`, `2m`, `1h`; a bare number counts seconds.
pub fn parse_duration(text: &str) -> Result<Duration, BadQuantity> {
    let bad = || BadQuantity(format!("'{text}' is not a time; write 10s, 250ms, 20us, 5m or 2h"));
    let split = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let seconds = match unit {
        "ns" => 1e-9,
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return Err(bad()),
    };
    let value = number.parse::<f64>().map_err(|_| bad())? * seconds;
    if !(0.0..=366.0 * 86_400.0).contains(&value) {
        return Err(bad());
    }
    Ok(Duration::from_nanos((value * 1e9).round() as u64))
}

/// A time as [`parse_duration`] reads it, in the largest unit that keeps it whole.
pub fn format_duration(time: Duration) -> String {
    let ns = time.as_nanos();
    for (unit, size) in [("h", 3_600_000_000_000), ("m", 60_000_000_000), ("s", 1_000_000_000), ("ms", 1_000_000)] {
        if ns >= size && ns.is_multiple_of(size) {
            return format!("{}{unit}", ns / size);
        }
    }
    match ns {
        0 => "0s".to_owned(),
        ns if ns.is_multiple_of(1000) => format!("{}us", ns / 1000),
        ns => format!("{ns}ns"),
    }
}

/// `number` with an optional K, M, G or T, each `base` times the one before. No signs, no infinities.
fn scaled(text: &str, base: f64) -> Option<f64> {
    let (number, power) = match text.char_indices().last()? {
        (at, 'k') => (&text[..at], 1),
        (at, 'm') => (&text[..at], 2),
        (at, 'g') => (&text[..at], 3),
        (at, 't') => (&text[..at], 4),
        _ => (text, 0),
    };
    if number.is_empty() || !number.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
        return None;
    }
    Some(number.parse::<f64>().ok()? * base.powi(power))
}

/// All of its digits; behind a point only where there would be more than four before it.
fn rate(value: u64, suffixes: [&str; 4]) -> String {
    let (mut unit, mut at) = (1, 0);
    while at + 1 < suffixes.len() && (value / unit >= 10_000 || value > 0 && value.is_multiple_of(1000 * unit)) {
        unit *= 1000;
        at += 1;
    }
    let text = format!("{}.{:0digits$}", value / unit, value % unit, digits = 3 * at);
    format!("{}{}", text.trim_end_matches('0').trim_end_matches('.'), suffixes[at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_load(text: &str, want: OfferedLoad, written: &str) {
        let load: OfferedLoad = text.parse().unwrap();
        assert_eq!(load, want);
        assert_eq!(load.to_string(), written);
        assert_eq!(written.parse::<OfferedLoad>().unwrap(), want, "what is written is read back");
    }

    #[test]
    fn rates_are_written_as_iperf_users_write_them() {
        check_load("100M", OfferedLoad::BitsPerSecond(100_000_000), "100M");
        check_load("1.5g", OfferedLoad::BitsPerSecond(1_500_000_000), "1500M");
        check_load("9570300K", OfferedLoad::BitsPerSecond(9_570_300_000), "9570.3M");
        check_load("12345678", OfferedLoad::BitsPerSecond(12_345_678), "12.345678M");
        check_load("9999999999999", OfferedLoad::BitsPerSecond(9_999_999_999_999), "9999.999999999G");
        check_load("14880952pps", OfferedLoad::PacketsPerSecond(14_880_952), "14.880952Mpps");
        check_load("64Kbit/s", OfferedLoad::BitsPerSecond(64_000), "64K");
        check_load("10Mbit", OfferedLoad::BitsPerSecond(10_000_000), "10M");
        check_load("10mbits", OfferedLoad::BitsPerSecond(10_000_000), "10M");
        check_load("1gbit", OfferedLoad::BitsPerSecond(1_000_000_000), "1G");
        check_load("2.0pps", OfferedLoad::PacketsPerSecond(2), "2pps");
        check_load("1.001kpps", OfferedLoad::PacketsPerSecond(1001), "1001pps");
        check_load("10kpps", OfferedLoad::PacketsPerSecond(10_000), "10kpps");
        check_load("100pps", OfferedLoad::PacketsPerSecond(100), "100pps");
        check_load("unlimited", OfferedLoad::Unlimited, "unlimited");
        check_load("95%", OfferedLoad::OfLine(950_000), "95%");
        check_load("0.0001%", OfferedLoad::OfLine(1), "0.0001%");
        check_load("99.5%", OfferedLoad::OfLine(995_000), "99.5%");
        check_load("100%", OfferedLoad::OfLine(1_000_000), "100%");
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "", "fast", "-5M", "0", "0.0M", "1e9", "inf", "nan", "10X", "M", "99999T", "1..2", "5M ", "pps", "bit",
            "10MB", "10Mbyte", "%", "0%", "101%", "5K%", "-1%", "1e1%",
        ] {
            assert!(text.parse::<OfferedLoad>().is_err(), "{text:?}");
        }
        // Half a packet is none.
        assert!(["0.5pps", "1.5pps", "1.0005kpps"].iter().all(|text| text.parse::<OfferedLoad>().is_err()));
        for text in ["", "-1", "1.x", "ten", "5 K", "9999999999T"] {
            assert!(parse_size(text).is_err(), "{text:?}");
        }
        for text in ["", "-1s", "5 s", "5parsecs", "s", "1e3s", "999999h"] {
            assert!(parse_duration(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn sizes_and_times_are_read_back() {
        for (text, octets) in [("1470", 1470), ("64K", 65_536), ("64KiB", 65_536), ("1.5M", 1_572_864), ("2g", 2 << 30)]
        {
            assert_eq!(parse_size(text), Ok(octets));
            assert_eq!(parse_size(&format_size(octets)), Ok(octets));
        }
        for (text, ns) in [("5", 5_000_000_000), ("100ms", 100_000_000), ("1.5s", 1_500_000_000), ("20us", 20_000)] {
            let time = parse_duration(text).unwrap();
            assert_eq!(time.as_nanos(), ns);
            assert_eq!(parse_duration(&format_duration(time)).unwrap(), time);
        }
    }

    #[test]
    fn gaps() {
        assert_eq!(OfferedLoad::BitsPerSecond(1_000_000_000).gap_ns(1250), Some(10_000.0));
        assert_eq!(OfferedLoad::PacketsPerSecond(100).gap_ns(9), Some(1e7));
        assert_eq!(OfferedLoad::PacketsPerSecond(100).bits_per_second(125), Some(100_000.0));
        assert_eq!(OfferedLoad::Unlimited.gap_ns(1), None);
    }
}
