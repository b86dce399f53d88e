//! What the values of settings look like, and the one way in which each is written.
//! Knows the forms; which setting has which stands in the table.

use std::collections::BTreeMap;

use super::cpus::{format_cpus, parse_cpus};
use super::discipline::Discipline;
use super::place::SettingPlace;
use super::scheduling::Scheduling;
use super::{BadSettingKind, SettingInfo};
use crate::text::{boolean, number};
use crate::units::{format_duration, parse_duration, parse_size};

/// The form of a value. `…OfEach` is one value for all, or `0=one 1=another`: several things of one name, each by
/// its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Syntax {
    Number {
        least: u64,
        most: u64,
    },
    Size {
        most: u64,
    },
    Switch,
    /// A switch, of which a driver may have several parts, and may keep one against what is wanted.
    Feature,
    Time,
    CpusOfEach,
    NumberOfEach,
    NameOfEach,
    LimitOfEach,
    SwitchOfEach,
    Speed,
    Duplex,
    Autoneg,
    Discipline,
    Scheduling,
    Sysctl,
    Name,
    Text,
}

impl Syntax {
    /// One value for all, or one for each by its number.
    pub(super) fn is_of_each(self) -> bool {
        use Syntax::{CpusOfEach, LimitOfEach, NameOfEach, NumberOfEach, SwitchOfEach};
        matches!(self, CpusOfEach | NumberOfEach | NameOfEach | LimitOfEach | SwitchOfEach)
    }
}

/// Nobody writes longer values by hand, and a file of the kernel takes one page.
const LONGEST: usize = 4000;

/// A reason of its own, or `None` where the table says what is allowed.
type Complaint = Option<BadSettingKind>;

/// A switch of which only some parts are on, or which is not as it is wanted to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FeatureState {
    /// All parts are on.
    On,
    /// All parts are off.
    Off,
    /// Off, and the kernel would have it on if something else allowed it.
    OffWanted,
    /// On, and the kernel would have it off.
    OnUnwanted,
    /// These parts are wanted, by their kernel names, and no other.
    Only(Vec<String>),
}

impl FeatureState {
    /// Reads what [`FeatureState::text`] writes, and switches as options have them.
    pub fn parse(text: &str) -> Option<FeatureState> {
        match text {
            "off (wanted)" => return Some(FeatureState::OffWanted),
            "on (unwanted)" => return Some(FeatureState::OnUnwanted),
            _ => {}
        }
        if let Some(parts) = text.strip_prefix("only:") {
            let mut parts: Vec<String> = parts.split('+').map(str::to_owned).collect();
            parts.sort();
            parts.dedup();
            return parts.iter().all(|part| is_word(part)).then_some(FeatureState::Only(parts));
        }
        boolean(text).map(|on| if on { FeatureState::On } else { FeatureState::Off })
    }

    /// As records have it.
    pub fn text(&self) -> String {
        match self {
            FeatureState::On => "on".to_owned(),
            FeatureState::Off => "off".to_owned(),
            FeatureState::OffWanted => "off (wanted)".to_owned(),
            FeatureState::OnUnwanted => "on (unwanted)".to_owned(),
            FeatureState::Only(parts) => format!("only:{}", parts.join("+")),
        }
    }
}

/// What a link is told about speed and duplex.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkMode {
    /// Offer all that there is.
    Auto,
    /// Keep what is offered to this speed, in Mbit/s.
    Speed(u32),
    /// Keep what is offered to this duplex mode.
    Duplex {
        /// Full, or half.
        full: bool,
    },
    /// Do not ask the other end: the speed and duplex mode that are there now.
    Off,
    /// Do not ask the other end.
    Forced {
        /// In Mbit/s.
        speed: u32,
        /// Full, or half.
        full: bool,
    },
    /// Offer these, by their kernel names.
    Advertise(Vec<String>),
}

impl LinkMode {
    /// Reads a value of `speed`, `duplex` or `autoneg`.
    pub fn parse(name: &str, text: &str) -> Option<LinkMode> {
        let syntax = match name {
            "speed" => Syntax::Speed,
            "duplex" => Syntax::Duplex,
            "autoneg" => Syntax::Autoneg,
            _ => return None,
        };
        LinkMode::of(syntax, text)
    }

    fn of(syntax: Syntax, text: &str) -> Option<LinkMode> {
        if let Some(forced) = text.strip_prefix("forced ") {
            let (speed, duplex) = forced.split_once(' ')?;
            let full = full(duplex.trim())?;
            return Some(LinkMode::Forced { speed: speed_mbps(speed)?, full });
        }
        if let Some(modes) = text.strip_prefix("advertise ") {
            let mut modes: Vec<String> = modes.split('+').map(|mode| mode.trim().to_owned()).collect();
            let known = modes.iter().all(|mode| mode_of(mode).is_some());
            modes.sort_by_cached_key(|mode| (mode_of(mode), mode.clone()));
            modes.dedup();
            return known.then_some(LinkMode::Advertise(modes));
        }
        match syntax {
            Syntax::Autoneg => boolean(text).map(|on| if on { LinkMode::Auto } else { LinkMode::Off }),
            _ if text == "auto" => Some(LinkMode::Auto),
            Syntax::Duplex => Some(LinkMode::Duplex { full: full(text)? }),
            _ => speed_mbps(text).map(LinkMode::Speed),
        }
    }

    /// As records have it.
    pub fn text(&self, name: &str) -> String {
        let duplex = |full| if full { "full" } else { "half" };
        match self {
            LinkMode::Auto if name == "autoneg" => "on".to_owned(),
            LinkMode::Auto => "auto".to_owned(),
            LinkMode::Speed(speed) => speed.to_string(),
            LinkMode::Duplex { full } => duplex(*full).to_owned(),
            LinkMode::Off => "off".to_owned(),
            LinkMode::Forced { speed, full } => format!("forced {speed} {}", duplex(*full)),
            LinkMode::Advertise(modes) => format!("advertise {}", modes.join("+")),
        }
    }
}

/// Speed in Mbit/s and whether it is full duplex, of a link mode by the kernel's name: `1000baseT/Full`. Other names
/// of the same list, such as `Pause` and `FIBRE`, are no modes.
pub fn mode_of(name: &str) -> Option<(u32, bool)> {
    let (speed, rest) = name.split_once("base")?;
    let full = match rest.split_once('/')?.1 {
        "Full" => true,
        "Half" => false,
        _ => return None,
    };
    is_word(&rest.replace('/', "")).then_some(())?;
    Some((number(speed)?, full))
}

fn full(text: &str) -> Option<bool> {
    match text {
        "full" => Some(true),
        "half" => Some(false),
        _ => None,
    }
}

/// Mbit/s as a number, or with M or G.
fn speed_mbps(text: &str) -> Option<u32> {
    let speed: u32 = match (text.strip_suffix(['g', 'G']), text.strip_suffix(['m', 'M'])) {
        (Some(gigabits), _) => match gigabits.strip_suffix(".5") {
            Some(whole) => number::<u32>(whole)?.checked_mul(1000)?.checked_add(500)?,
            None => number::<u32>(gigabits)?.checked_mul(1000)?,
        },
        (None, Some(megabits)) => number(megabits)?,
        (None, None) => number(text)?,
    };
    (1..=10_000_000).contains(&speed).then_some(speed)
}

/// One value for all of several things, or a value for each by its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PerItem {
    /// The same for all.
    All(String),
    /// By number.
    Each(BTreeMap<u32, String>),
}

impl PerItem {
    /// Reads `value`, or `0=value 1=value`.
    pub fn parse(text: &str) -> Option<PerItem> {
        if !text.contains('=') {
            return Some(PerItem::All(text.to_owned()));
        }
        let mut each = BTreeMap::new();
        for part in text.split_whitespace() {
            let (of, value) = part.split_once('=')?;
            if each.insert(number(of)?, value.to_owned()).is_some() {
                return None;
            }
        }
        Some(PerItem::Each(each))
    }

    /// One value where all have the same.
    pub fn of(each: BTreeMap<u32, String>) -> PerItem {
        match each.values().next() {
            Some(first) if each.values().all(|value| value == first) => PerItem::All(first.clone()),
            _ => PerItem::Each(each),
        }
    }

    /// As records have it.
    pub fn text(&self) -> String {
        match self {
            PerItem::All(value) => value.clone(),
            PerItem::Each(each) => each.iter().map(|(of, value)| format!("{of}={value}")).collect::<Vec<_>>().join(" "),
        }
    }

    /// Whether each that `other` names has the same value here.
    pub fn has_all_of(&self, other: &PerItem) -> bool {
        match (self, other) {
            (PerItem::All(all), PerItem::Each(named)) => named.values().all(|value| value == all),
            (PerItem::Each(each), PerItem::Each(named)) => named.iter().all(|(of, value)| each.get(of) == Some(value)),
            (_, PerItem::All(_)) => self == other,
        }
    }

    fn map(self, canonical: impl Fn(&str) -> Option<String>) -> Option<PerItem> {
        Some(match self {
            PerItem::All(value) => PerItem::All(canonical(&value)?),
            PerItem::Each(each) => PerItem::Each(
                each.into_iter().map(|(of, value)| Some((of, canonical(&value)?))).collect::<Option<_>>()?,
            ),
        })
    }
}

/// The one way in which a value is written.
pub(super) fn canonical(syntax: Syntax, text: &str) -> Result<String, Complaint> {
    if text.is_empty() {
        return Err(None);
    }
    if text.len() > LONGEST {
        return Err(Some(BadSettingKind::Long { len: text.len(), most: LONGEST }));
    }
    if text.contains(['\n', '\r', '\0']) {
        return Err(Some(BadSettingKind::Lines));
    }
    let of_each =
        |canonical: fn(&str) -> Option<String>| PerItem::parse(text).and_then(|each| each.map(canonical)).ok_or(None);
    match syntax {
        Syntax::Number { least, most } => {
            number::<u64>(text).filter(|n| (least..=most).contains(n)).map(|n| n.to_string()).ok_or(None)
        }
        Syntax::Size { most } => {
            parse_size(text).ok().filter(|&octets| octets <= most).map(|octets| octets.to_string()).ok_or(None)
        }
        Syntax::Switch => switch(text).ok_or(None),
        Syntax::Feature => FeatureState::parse(text).map(|state| state.text()).ok_or(None),
        Syntax::Time => time(text),
        Syntax::CpusOfEach => {
            Ok(of_each(|cpus| Some(format_cpus(&parse_cpus(cpus).filter(|_| !cpus.is_empty())?)))?.text())
        }
        Syntax::NumberOfEach => Ok(of_each(|n| number::<u32>(n).map(|n| n.to_string()))?.text()),
        Syntax::NameOfEach => Ok(of_each(|name| is_word(name).then(|| name.to_owned()))?.text()),
        Syntax::LimitOfEach => Ok(of_each(limit)?.text()),
        Syntax::SwitchOfEach => Ok(of_each(switch)?.text()),
        Syntax::Speed => Ok(LinkMode::of(syntax, text).ok_or(None)?.text("speed")),
        Syntax::Duplex => Ok(LinkMode::of(syntax, text).ok_or(None)?.text("duplex")),
        Syntax::Autoneg => Ok(LinkMode::of(syntax, text).ok_or(None)?.text("autoneg")),
        Syntax::Discipline => Discipline::parse(text)
            .map(|discipline| discipline.to_string())
            .map_err(|why| Some(BadSettingKind::Discipline(why))),
        Syntax::Scheduling => text.parse::<Scheduling>().map(|scheduling| scheduling.to_string()).map_err(|_| None),
        Syntax::Sysctl => Ok(text.split_whitespace().map(without_suffix).collect::<Vec<_>>().join(" ")),
        Syntax::Name => is_word(text).then(|| text.to_owned()).ok_or(None),
        Syntax::Text => Ok(text.to_owned()),
    }
}

/// Whether the part of a name that stands for the table's `*` makes sense. It may become a path.
pub(super) fn check_name(setting: &SettingInfo, name: &str) -> Result<(), BadSettingKind> {
    let Some(rest) = setting.rest_of(name) else { return Ok(()) };
    let is_part = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_graphic() && c != '/');
    match setting.place {
        SettingPlace::Files(_) if number::<u32>(rest).is_some() || (setting.is_one_or_all() && rest == "all") => Ok(()),
        SettingPlace::Files(_) => Err(BadSettingKind::NoNumber),
        SettingPlace::Sysctl(_)
            if !["net.core.", "net.ipv4.", "net.ipv6."].iter().any(|tree| rest.starts_with(tree)) =>
        {
            Err(BadSettingKind::OutsideTrees)
        }
        // Interfaces have dots and colons in their names.
        SettingPlace::Sysctl(_) if rest.split('.').all(is_part) => Ok(()),
        SettingPlace::Sysctl(_) => Err(BadSettingKind::NoName),
        _ if is_word(rest) => Ok(()),
        _ => Err(BadSettingKind::NoName),
    }
}

fn is_word(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with('.')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

fn switch(text: &str) -> Option<String> {
    boolean(text).map(|on| if on { "on" } else { "off" }.to_owned())
}

fn limit(text: &str) -> Option<String> {
    if text == "unlimited" { Some(text.to_owned()) } else { number::<u32>(text).map(|n| n.to_string()) }
}

/// A bare number would be seconds here and nanoseconds in the kernel's file: it is refused.
fn time(text: &str) -> Result<String, Complaint> {
    if number::<u64>(text).is_some_and(|n| n != 0) {
        return Err(Some(BadSettingKind::NoUnit(text.to_owned())));
    }
    parse_duration(text).map(format_duration).map_err(|_| None)
}

/// `16M` as the number that the kernel takes; everything else as it is.
fn without_suffix(word: &str) -> String {
    match parse_size(word) {
        Ok(octets) if word.starts_with(|c: char| c.is_ascii_digit()) && number::<u64>(word).is_none() => {
            octets.to_string()
        }
        _ => word.to_owned(),
    }
}
