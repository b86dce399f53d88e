//! Queueing disciplines as people write them: a kind and its parameters, `tbf rate 100M burst 32K limit 64K`.
//! Knows the parameters' names and units; how the kernel has them is known where they are set.

use std::fmt;
use std::time::Duration;

use crate::text::{boolean, number};
use crate::units::{OfferedLoad, format_duration, format_size, parse_duration, parse_size};

/// What a parameter counts, and in what its number is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Packets, flows, buckets.
    Count,
    /// Octets.
    Octets,
    /// Bits per second.
    Rate,
    /// Nanoseconds.
    Time,
    /// 0 or 1.
    Switch,
    /// The major number of a handle, as tc(8) writes it: `1:`.
    Handle,
}

use Unit::{Count, Handle, Octets, Rate, Switch, Time};

/// A kind, its parameters in the order in which they are written, and how many of the first must be there.
pub type Kind = (&'static str, &'static [(&'static str, Unit)], usize);

/// The kinds that can be read back and made again. `default` is whatever the kernel makes by itself.
const KINDS: &[Kind] = &[
    ("default", &[], 0),
    ("noqueue", &[], 0),
    ("pfifo_fast", &[("handle", Handle)], 0),
    ("mq", &[("handle", Handle)], 0),
    ("pfifo", &[("limit", Count), ("handle", Handle)], 0),
    ("bfifo", &[("limit", Octets), ("handle", Handle)], 0),
    (
        "fq",
        &[
            ("limit", Count),
            ("flow_limit", Count),
            ("quantum", Octets),
            ("initial_quantum", Octets),
            ("maxrate", Rate),
            ("pacing", Switch),
            ("buckets", Count),
            ("orphan_mask", Count),
            ("refill_delay", Time),
            ("low_rate_threshold", Rate),
            ("ce_threshold", Time),
            ("timer_slack", Time),
            ("horizon", Time),
            ("horizon_drop", Switch),
            ("offload_horizon", Time),
            ("handle", Handle),
        ],
        0,
    ),
    (
        "fq_codel",
        &[
            ("limit", Count),
            ("flows", Count),
            ("target", Time),
            ("interval", Time),
            ("quantum", Octets),
            ("ecn", Switch),
            ("ce_threshold", Time),
            ("drop_batch", Count),
            ("memory_limit", Octets),
            ("handle", Handle),
        ],
        0,
    ),
    ("tbf", &[("rate", Rate), ("burst", Octets), ("limit", Octets), ("handle", Handle)], 3),
];

/// Kinds that hold what they let out to a rate, and keep the rest back or drop it (tc(8)).
const RATE_KEEPERS: [&str; 5] = ["tbf", "htb", "hfsc", "cake", "netem"];

/// Whether a discipline, as [`Discipline`] is written or by its kind alone, keeps to a rate.
pub fn keeps_to_a_rate(text: &str) -> bool {
    let mut words = text.split_whitespace();
    match words.next() {
        // It spaces what TCP asks it to, and holds a flow to a rate only where it is given one.
        Some("fq") => words.any(|word| word == "maxrate"),
        kind => kind.is_some_and(|kind| RATE_KEEPERS.contains(&kind)),
    }
}

/// A queueing discipline, with those parameters that are not left to the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Discipline {
    kind: &'static Kind,
    /// By the parameter's place in the kind's list.
    values: Vec<Option<u64>>,
}

impl Discipline {
    /// One of this kind without parameters; `None` for a kind that is not known.
    pub fn new(kind: &str) -> Option<Discipline> {
        let kind = KINDS.iter().find(|(known, _, _)| *known == kind)?;
        Some(Discipline { kind, values: vec![None; kind.1.len()] })
    }

    /// Reads a kind and its parameters.
    pub fn parse(text: &str) -> Result<Discipline, BadDiscipline> {
        let mut words = text.split_whitespace();
        let kind = words.next().unwrap_or_default();
        let mut discipline = Discipline::new(kind).ok_or_else(|| BadDiscipline::Kind(kind.to_owned()))?;
        let kind = discipline.kind;
        while let Some(name) = words.next() {
            // ip-link's and tc's own way of a switch that is off: `noecn`, `nopacing`.
            let (name, value) = match name.strip_prefix("no").filter(|name| discipline.unit_of(name) == Some(Switch)) {
                Some(name) => (name, "off"),
                None => (name, words.next().unwrap_or_default()),
            };
            let unit = discipline
                .unit_of(name)
                .ok_or_else(|| BadDiscipline::Parameter { kind, parameter: name.to_owned() })?;
            let bad = || BadDiscipline::Value { kind, parameter: name.to_owned(), value: value.to_owned(), unit };
            discipline.set(name, read(unit, value).ok_or_else(bad)?);
        }
        let (_, parameters, required) = kind;
        match parameters.iter().take(*required).zip(&discipline.values).find(|(_, value)| value.is_none()) {
            Some(((parameter, _), _)) => Err(BadDiscipline::Missing { kind, parameter }),
            None => Ok(discipline),
        }
    }

    /// Its kind, as the kernel calls it.
    pub fn kind(&self) -> &'static str {
        self.kind.0
    }

    /// A parameter: a count, octets, bits per second, nanoseconds, or 0 or 1.
    pub fn get(&self, name: &str) -> Option<u64> {
        let at = self.kind.1.iter().position(|(known, _)| *known == name)?;
        self.values[at]
    }

    /// Sets a parameter that the kind has; others are left out.
    pub fn set(&mut self, name: &str, value: u64) {
        if let Some(at) = self.kind.1.iter().position(|(known, _)| *known == name) {
            self.values[at] = Some(value);
        }
    }

    /// Whether this is of the kind of `other` and has its parameters, whatever else it has.
    pub fn has_all_of(&self, other: &Discipline) -> bool {
        self.kind() == other.kind()
            && other.values.iter().zip(&self.values).all(|(wanted, have)| wanted.is_none() || wanted == have)
    }

    fn unit_of(&self, name: &str) -> Option<Unit> {
        self.kind.1.iter().find(|(known, _)| *known == name).map(|(_, unit)| *unit)
    }
}

/// Why a text is no queueing discipline that can be made and put back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadDiscipline {
    /// Its kind is not known.
    Kind(String),
    /// The kind has no such parameter.
    Parameter {
        /// The kind.
        kind: &'static Kind,
        /// What was written.
        parameter: String,
    },
    /// A parameter cannot be this.
    Value {
        /// The kind.
        kind: &'static Kind,
        /// The parameter.
        parameter: String,
        /// What was written.
        value: String,
        /// What the parameter counts.
        unit: Unit,
    },
    /// The kind cannot do without this parameter.
    Missing {
        /// The kind.
        kind: &'static Kind,
        /// The parameter.
        parameter: &'static str,
    },
}

impl fmt::Display for BadDiscipline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadDiscipline::Kind(kind) => {
                let kinds: Vec<&str> = KINDS.iter().map(|(kind, _, _)| *kind).collect();
                write!(f, "'{kind}' is not a qdisc that can be put back; write {}", kinds.join(" | "))
            }
            BadDiscipline::Parameter { kind: (kind, [], _), parameter } => {
                write!(f, "{kind} has no parameters; '{parameter}' is too much")
            }
            BadDiscipline::Parameter { kind: (kind, all, _), parameter } => {
                let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
                write!(f, "{kind} has no parameter '{parameter}'; it has {}", names.join(", "))
            }
            BadDiscipline::Value { kind: (kind, ..), parameter, value, unit } => {
                write!(f, "'{value}' is no {parameter} of {kind}; write {}", example(*unit))
            }
            BadDiscipline::Missing { kind: (kind, ..), parameter } => {
                write!(f, "{kind} needs a {parameter}; write 'tbf rate 100M burst 32K limit 64K'")
            }
        }
    }
}

impl fmt::Display for Discipline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind())?;
        for ((name, unit), value) in self.kind.1.iter().zip(&self.values) {
            if let Some(value) = *value {
                write!(f, " {name} {}", write_value(*unit, value))?;
            }
        }
        Ok(())
    }
}

fn read(unit: Unit, text: &str) -> Option<u64> {
    match unit {
        // The kernel's fields have 32 bits.
        Count => number::<u32>(text).filter(|_| !text.is_empty()).map(u64::from),
        Octets => parse_size(text).ok().filter(|&octets| octets <= u64::from(u32::MAX)),
        Rate => {
            // tc(8) writes `100mbit`, and `bps` for octets per second, which is bits here: refuse what is not sure.
            let lower = text.to_ascii_lowercase();
            if lower.ends_with("bps") || lower.ends_with("pps") {
                return None;
            }
            match lower.strip_suffix("bit").unwrap_or(&lower).parse() {
                Ok(OfferedLoad::BitsPerSecond(bits)) if bits >= 8 => Some(bits / 8 * 8),
                _ => None,
            }
        }
        Time => parse_duration(text)
            .ok()
            .filter(|time| time.is_zero() || text.ends_with(|c: char| c.is_ascii_alphabetic()))
            .and_then(|time| u64::try_from(time.as_nanos()).ok()),
        Switch => boolean(text).map(u64::from),
        Handle => u16::from_str_radix(text.strip_suffix(':')?, 16).ok().filter(|&major| major != 0).map(u64::from),
    }
}

fn write_value(unit: Unit, value: u64) -> String {
    match unit {
        Count => value.to_string(),
        Octets => format_size(value),
        Rate => OfferedLoad::BitsPerSecond(value).to_string(),
        Time => format_duration(Duration::from_nanos(value)),
        Switch => if value != 0 { "on" } else { "off" }.to_owned(),
        Handle => format!("{value:x}:"),
    }
}

fn example(unit: Unit) -> &'static str {
    match unit {
        Count => "a whole number",
        Octets => "bytes like 1514 or 32K",
        Rate => "bits per second like 100M",
        Time => "a time with its unit, like 5ms",
        Switch => "on or off",
        Handle => "a handle like 1:",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, want: &str) {
        assert_eq!(Discipline::parse(text).map(|discipline| discipline.to_string()).as_deref(), Ok(want));
        assert_eq!(Discipline::parse(want).map(|discipline| discipline.to_string()).as_deref(), Ok(want));
    }

    #[test]
    fn some_kinds_keep_to_a_rate() {
        for text in
            ["tbf", "tbf rate 100M burst 32K limit 64K", "htb", "hfsc", "cake", "netem", "fq limit 5 maxrate 9M"]
        {
            assert!(keeps_to_a_rate(text), "{text}");
        }
        for text in ["", "fq", "fq pacing on", "fq_codel", "mq", "pfifo_fast", "noqueue", "a tbf"] {
            assert!(!keeps_to_a_rate(text), "{text}");
        }
    }

    #[test]
    fn disciplines_are_written_in_one_way() {
        check("pfifo_fast", "pfifo_fast");
        check("tbf limit 65536 burst 32k rate 100mbit", "tbf rate 100M burst 32K limit 64K");
        check("tbf rate 1.5gbit burst 1M limit 2M", "tbf rate 1500M burst 1M limit 2M");
        check("pfifo handle A: limit 10", "pfifo limit 10 handle a:");
        check("fq nopacing quantum 3028 limit 10", "fq limit 10 quantum 3028 pacing off");
        check("fq_codel target 5ms noecn interval 100000us", "fq_codel target 5ms interval 100ms ecn off");
        check("pfifo limit 7", "pfifo limit 7");
        check("bfifo limit 7", "bfifo limit 7");
    }

    #[test]
    fn complaints_say_what_is_allowed() {
        for (text, contains) in [
            ("", "is not a qdisc"),
            ("htb", "'htb' is not a qdisc that can be put back; write default | noqueue"),
            ("noqueue limit 5", "has no parameters"),
            ("pfifo_fast limit 5", "no parameter 'limit'; it has handle"),
            ("pfifo handle 1", "a handle like 1:"),
            ("pfifo handle 0:", "a handle like 1:"),
            ("pfifo depth 5", "it has limit"),
            ("pfifo limit", "write a whole number"),
            ("pfifo limit 4294967296", "write a whole number"),
            ("tbf rate 100M", "tbf needs a burst"),
            ("tbf rate 100Mbps burst 1K limit 1K", "bits per second like 100M"),
            ("tbf rate 10kpps burst 1K limit 1K", "bits per second like 100M"),
            ("fq_codel target 5", "a time with its unit"),
        ] {
            let complaint = Discipline::parse(text).unwrap_err().to_string();
            assert!(complaint.contains(contains), "{complaint}");
        }
    }
}
