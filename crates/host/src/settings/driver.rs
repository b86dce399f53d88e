//! What a driver keeps as one number or switch each: coalescing, rings, channels, pause frames, EEE.
//! Knows the numbers of ethtool's attributes; which values a driver takes, only the driver knows.

use std::io;

use super::{SettingError, Subject, lost};
use crate::ethtool::{self, Get, Set};
use crate::netlink::{Netlink, attributes, push_attribute};
use crate::sys::ethtool::{Ethtool, Words};

/// One of them: where it stands in a driver's answer and in what it is told.
struct Knob {
    name: &'static str,
    get: Get,
    set: Set,
    /// linux/ethtool_netlink.h.
    attribute: u16,
    /// The attribute with the most that the driver takes.
    most: Option<u16>,
    /// A switch in 8 bits, not a number in 32.
    switch: bool,
}

const fn number(name: &'static str, get: Get, set: Set, attribute: u16) -> Knob {
    Knob { name, get, set, attribute, most: None, switch: false }
}

const fn switch(name: &'static str, get: Get, set: Set, attribute: u16) -> Knob {
    Knob { switch: true, ..number(name, get, set, attribute) }
}

const fn limited(name: &'static str, get: Get, set: Set, attribute: u16, most: u16) -> Knob {
    Knob { most: Some(most), ..number(name, get, set, attribute) }
}

const KNOBS: [Knob; 19] = [
    number("coalesce.rx_usecs", Get::Coalesce, Set::Coalesce, 2),
    number("coalesce.rx_frames", Get::Coalesce, Set::Coalesce, 3),
    number("coalesce.rx_usecs_irq", Get::Coalesce, Set::Coalesce, 4),
    number("coalesce.rx_frames_irq", Get::Coalesce, Set::Coalesce, 5),
    number("coalesce.tx_usecs", Get::Coalesce, Set::Coalesce, 6),
    number("coalesce.tx_frames", Get::Coalesce, Set::Coalesce, 7),
    number("coalesce.tx_usecs_irq", Get::Coalesce, Set::Coalesce, 8),
    number("coalesce.tx_frames_irq", Get::Coalesce, Set::Coalesce, 9),
    switch("coalesce.adaptive_rx", Get::Coalesce, Set::Coalesce, 11),
    switch("coalesce.adaptive_tx", Get::Coalesce, Set::Coalesce, 12),
    limited("ring.rx", Get::Rings, Set::Rings, 6, 2),
    limited("ring.tx", Get::Rings, Set::Rings, 9, 5),
    limited("channels.rx", Get::Channels, Set::Channels, 6, 2),
    limited("channels.tx", Get::Channels, Set::Channels, 7, 3),
    limited("channels.combined", Get::Channels, Set::Channels, 9, 5),
    switch("pause.autoneg", Get::Pause, Set::Pause, 2),
    switch("pause.rx", Get::Pause, Set::Pause, 3),
    switch("pause.tx", Get::Pause, Set::Pause, 4),
    switch("eee", Get::Eee, Set::Eee, 5),
];

impl Knob {
    fn of(name: &str) -> Option<&'static Knob> {
        KNOBS.iter().find(|knob| knob.name == name)
    }

    /// Its value in an answer; absent where the driver has no such thing.
    fn read(&self, answer: &[u8]) -> Option<u32> {
        let value = number_in(answer, self.attribute)?;
        // A ring, or a kind of channel, of which there can be none is none.
        let none = self.most.is_some_and(|most| number_in(answer, most).unwrap_or(0) == 0);
        (!none).then_some(value)
    }

    fn text(&self, value: u32) -> String {
        match (self.switch, value) {
            (true, 0) => "off".to_owned(),
            (true, _) => "on".to_owned(),
            (false, value) => value.to_string(),
        }
    }

    /// The attribute that makes it `value`, a canonical text.
    fn attribute(&self, value: &str) -> Option<Vec<u8>> {
        let mut attributes = Vec::new();
        match (self.switch, value) {
            (true, _) => push_attribute(&mut attributes, self.attribute, &[u8::from(value == "on")]),
            (false, _) => push_attribute(&mut attributes, self.attribute, &value.parse::<u32>().ok()?.to_ne_bytes()),
        }
        Some(attributes)
    }
}

/// Attributes have 8 or 32 bits.
fn number_in(answer: &[u8], wanted: u16) -> Option<u32> {
    let (_, content) = attributes(answer).find(|(kind, _)| *kind == wanted)?;
    match content {
        [value] => Some(u32::from(*value)),
        _ => content.first_chunk().map(|word| u32::from_ne_bytes(*word)),
    }
}

/// Whether a name is one of these.
pub(super) fn knows(name: &str) -> bool {
    Knob::of(name).is_some()
}

pub(super) fn get(subject: &Subject) -> Result<String, SettingError> {
    let (knob, answer) = ask(subject)?;
    let value = knob.read(&answer).ok_or_else(|| subject.absent("the driver does not have it"))?;
    Ok(knob.text(value))
}

/// Whether the driver has it, and does not say that this is more than it takes.
pub(super) fn check(subject: &Subject, value: &str) -> Result<(), SettingError> {
    let (knob, answer) = ask(subject)?;
    knob.read(&answer).ok_or_else(|| subject.absent("the driver does not have it"))?;
    match knob.most.and_then(|most| number_in(&answer, most)) {
        Some(most) if value.parse::<u32>().is_ok_and(|value| value > most) => Err(too_much(subject, value, most)),
        _ => Ok(()),
    }
}

fn too_much(subject: &Subject, value: &str, most: u32) -> SettingError {
    subject.refused(value, format!("the driver takes {most} at most"))
}

/// Writes what is one request, each with its value: all of it, or nothing. A driver may take only together what it
/// refuses one by one, as pause frames both ways or none.
pub(super) fn set(of: &Subject, changes: &[(&str, &str)]) -> Result<(), SettingError> {
    let mut missing: Vec<(&Knob, Subject, &str)> = Vec::new();
    let mut answer = Vec::new();
    for &(name, value) in changes {
        let subject = Subject { name, ..*of };
        let knob;
        (knob, answer) = ask(&subject)?;
        let now = knob.read(&answer).ok_or_else(|| subject.absent("the driver does not have it"))?;
        // Nothing to do is not asked for: a ring that is made anew takes the link down.
        if knob.text(now) != value {
            missing.push((knob, subject, value));
        }
    }
    let Some((first, subject, value)) = missing.first() else { return Ok(()) };
    if matches!(first.set, Set::Channels) {
        lost::with_channels(subject)?;
    }
    let mut request = Vec::new();
    for (knob, subject, value) in &missing {
        debug_assert!(knob.set as u8 == first.set as u8, "{} is another request", knob.name);
        request.extend(knob.attribute(value).ok_or_else(|| subject.refused(value, "it is no number of 32 bits"))?);
    }
    let mut netlink = Netlink::generic().map_err(|error| subject.not_written(value, &error, None))?;
    let written = of.index_now().and_then(|_| match lacks_ethtool(&mut netlink) {
        true => Knob::set_older(of.interface, &missing),
        false => ethtool::set(&mut netlink, first.set, of.interface, &request),
    });
    written.map_err(|error| {
        let said = netlink.said();
        for (knob, subject, value) in &missing {
            match knob.most.and_then(|most| number_in(&answer, most)) {
                Some(most) if value.parse::<u32>().is_ok_and(|value| value > most) => {
                    return too_much(subject, value, most);
                }
                _ => {}
            }
        }
        match subject.not_written(value, &error, said) {
            SettingError::Refused { of, reason, .. } if missing.len() > 1 => {
                let values: Vec<String> =
                    missing.iter().map(|(knob, _, value)| format!("{}={value}", knob.name)).collect();
                SettingError::RefusedTogether { values: values.join(" "), of, reason }
            }
            error => error,
        }
    })
}

fn ask(subject: &Subject) -> Result<(&'static Knob, Vec<u8>), SettingError> {
    let knob = Knob::of(subject.name).ok_or_else(|| subject.absent("the driver does not have it"))?;
    let mut netlink = Netlink::generic().map_err(|error| subject.not_read(&error, None))?;
    let answer = match ethtool::ask(&mut netlink, knob.get, subject.interface) {
        // Of old kernels, and of new ones that were built without it.
        Err(_) if lacks_ethtool(&mut netlink) => knob.ask_older(subject.interface),
        answer => answer,
    };
    answer.map(|answer| (knob, answer)).map_err(|error| subject.not_read(&error, netlink.said()))
}

/// Whether the kernel has no ethtool over netlink: before Linux 5.6, or without CONFIG_ETHTOOL_NETLINK.
pub(super) fn lacks_ethtool(netlink: &mut Netlink) -> bool {
    netlink.generic_family(b"ethtool").is_err_and(|error| error.raw_os_error() == Some(libc::ENOENT))
}

/// The older way, an ioctl with a structure. The attributes were made in the order of its words, so a word's number
/// is the attribute's less one for the header; EEE's differ.
impl Knob {
    fn older(&self) -> (Words, u16) {
        match self.get {
            Get::Coalesce => (Words::Coalesce, 2),
            Get::Rings => (Words::Rings, 2),
            Get::Channels => (Words::Channels, 2),
            Get::Eee => (Words::Eee, 1),
            _ => (Words::Pause, 2),
        }
    }

    /// An answer as netlink would have it.
    fn ask_older(&self, interface: &str) -> io::Result<Vec<u8>> {
        let (words, first) = self.older();
        let mut answer = Vec::new();
        for (attribute, word) in (first..).zip(Ethtool::new(interface)?.words(words)?) {
            push_attribute(&mut answer, attribute, &word.to_ne_bytes());
        }
        Ok(answer)
    }

    fn set_older(interface: &str, changes: &[(&Knob, Subject, &str)]) -> io::Result<()> {
        let Some((which, first)) = changes.first().map(|(knob, ..)| knob.older()) else { return Ok(()) };
        let ethtool = Ethtool::new(interface)?;
        let mut words = ethtool.words(which)?;
        for (knob, _, value) in changes {
            let word = words.get_mut(usize::from(knob.attribute - first)).ok_or(io::ErrorKind::InvalidInput)?;
            *word = match (knob.switch, value.parse()) {
                (true, _) => u32::from(*value == "on"),
                (false, value) => value.map_err(|_| io::ErrorKind::InvalidInput)?,
            };
        }
        ethtool.set_words(which, &words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(attributes: &[(u16, &[u8])]) -> Vec<u8> {
        let mut answer = Vec::new();
        for (kind, content) in attributes {
            push_attribute(&mut answer, *kind, content);
        }
        answer
    }

    #[track_caller]
    fn check(name: &str, value: &str, want: (u16, &[u8])) {
        let knob = Knob::of(name).unwrap();
        let written = knob.attribute(value).unwrap();
        assert_eq!(attributes(&written).collect::<Vec<_>>(), [want], "{name}");
        let mut answered = written;
        if let Some(most) = knob.most {
            push_attribute(&mut answered, most, &4096u32.to_ne_bytes());
        }
        assert_eq!(knob.read(&answered).map(|value| knob.text(value)).as_deref(), Some(value), "{name}");
    }

    /// The numbers are those of linux/ethtool_netlink.h, each enum counted from HEADER = 1.
    #[test]
    fn attributes_are_the_kernels() {
        let word = |n: u32| n.to_ne_bytes();
        check("coalesce.rx_usecs", "20", (2, &word(20)));
        check("coalesce.rx_frames", "64", (3, &word(64)));
        check("coalesce.rx_usecs_irq", "1", (4, &word(1)));
        check("coalesce.rx_frames_irq", "1", (5, &word(1)));
        check("coalesce.tx_usecs", "0", (6, &word(0)));
        check("coalesce.tx_frames", "4294967295", (7, &word(u32::MAX)));
        check("coalesce.tx_usecs_irq", "1", (8, &word(1)));
        check("coalesce.tx_frames_irq", "1", (9, &word(1)));
        check("coalesce.adaptive_rx", "on", (11, &[1]));
        check("coalesce.adaptive_tx", "off", (12, &[0]));
        check("ring.rx", "512", (6, &word(512)));
        check("ring.tx", "512", (9, &word(512)));
        check("channels.rx", "2", (6, &word(2)));
        check("channels.tx", "2", (7, &word(2)));
        check("channels.combined", "2", (9, &word(2)));
        check("pause.autoneg", "on", (2, &[1]));
        check("pause.rx", "off", (3, &[0]));
        check("pause.tx", "on", (4, &[1]));
        check("eee", "off", (5, &[0]));
    }

    #[test]
    fn what_a_driver_does_not_have_is_absent() {
        let word = |n: u32| n.to_ne_bytes();
        let rx = Knob::of("ring.rx").unwrap();
        assert_eq!(rx.read(&answer(&[(2, &word(4096)), (6, &word(512))])), Some(512));
        assert_eq!(rx.read(&answer(&[(2, &word(0)), (6, &word(0))])), None);
        assert_eq!(rx.read(&answer(&[(9, &word(7))])), None);
        assert_eq!(rx.read(&[]), None);
        assert_eq!(Knob::of("pause.rx").unwrap().read(&answer(&[(2, &[1])])), None);
    }

    /// Both ways tell the same of every interface here that has such things.
    #[test]
    fn the_older_way_agrees_with_the_newer() {
        for link in crate::interfaces::links().unwrap() {
            for knob in &KNOBS {
                let newer = ethtool::ask(&mut Netlink::generic().unwrap(), knob.get, &link.name);
                // A driver may answer to one alone: only its word in both counts, and netlink leaves out what it lacks.
                let (Ok(newer), Ok(older)) = (newer, knob.ask_older(&link.name)) else { continue };
                if let Some(value) = knob.read(&newer) {
                    assert_eq!(knob.read(&older), Some(value), "{} of {}", knob.name, link.name);
                }
            }
        }
        assert!(!lacks_ethtool(&mut Netlink::generic().unwrap()));
    }
}
