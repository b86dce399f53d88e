//! What a driver keeps as one number or switch each: coalescing, rings, channels, pause frames, EEE.
//! Knows the numbers of ethtool's attributes; which values a driver takes, only the driver knows.

use linerate_machine::setting::place::{DriverRequest, EthtoolField, SettingPlace};

use super::{Mechanism, SettingError, Settings, Subject, kernel_removals};
use crate::ethtool::{Command, number_in};
use crate::netlink::push_attribute;

/// Its value in an answer; absent where the driver has no such thing.
fn read(knob: &EthtoolField, answer: &[u8]) -> Option<u32> {
    let value = number_in(answer, knob.attribute)?;
    // A ring, or a kind of channel, of which there can be none is none.
    let none = knob.most.is_some_and(|most| number_in(answer, most).unwrap_or(0) == 0);
    (!none).then_some(value)
}

fn text(knob: &EthtoolField, value: u32) -> String {
    match (knob.is_switch, value) {
        (true, 0) => "off".to_owned(),
        (true, _) => "on".to_owned(),
        (false, value) => value.to_string(),
    }
}

/// The number of a canonical text.
fn number(knob: &EthtoolField, value: &str) -> Option<u32> {
    if knob.is_switch { Some(u32::from(value == "on")) } else { value.parse().ok() }
}

/// The attribute that makes it `value`.
fn attribute(knob: &EthtoolField, value: &str) -> Option<Vec<u8>> {
    let number = number(knob, value)?;
    let octets = if knob.is_switch { vec![number as u8] } else { number.to_ne_bytes().to_vec() };
    let mut attributes = Vec::new();
    push_attribute(&mut attributes, knob.attribute, &octets);
    Some(attributes)
}

impl Mechanism for EthtoolField {
    fn get(&self, subject: &Subject) -> Result<String, SettingError> {
        let value = read(self, &subject.ask(self.request.into())?)
            .ok_or_else(|| subject.absent("the driver does not have it"))?;
        Ok(text(self, value))
    }

    /// Whether the driver has it, and does not say that this is more than it takes.
    fn check(&self, subject: &Subject, value: &str) -> Result<(), SettingError> {
        let answer = subject.ask(self.request.into())?;
        read(self, &answer).ok_or_else(|| subject.absent("the driver does not have it"))?;
        match self.most.and_then(|most| number_in(&answer, most)) {
            Some(most) if value.parse::<u32>().is_ok_and(|value| value > most) => Err(too_much(subject, value, most)),
            _ => Ok(()),
        }
    }

    fn set(&self, subject: &Subject, value: &str) -> Result<(), SettingError> {
        set(subject.settings, &[(subject.name, value)])
    }
}

fn too_much(subject: &Subject, value: &str, most: u32) -> SettingError {
    subject.refused(value, format!("the driver takes {most} at most"))
}

/// Writes what is one request, each with its value: all of it, or nothing. A driver may take only together what it
/// refuses one by one, as pause frames both ways or none.
pub(super) fn set(settings: &Settings, changes: &[(&str, &str)]) -> Result<(), SettingError> {
    let mut missing: Vec<(&EthtoolField, Subject, &str)> = Vec::new();
    let mut answer = Vec::new();
    for &(name, value) in changes {
        let subject = settings.subject(name)?;
        let SettingPlace::Driver(knob) = &subject.info.place else {
            return Err(subject.absent("it is no part of a request"));
        };
        answer = subject.ask(knob.request.into())?;
        let now = read(knob, &answer).ok_or_else(|| subject.absent("the driver does not have it"))?;
        // Nothing to do is not asked for: a ring that is made anew takes the link down.
        if text(knob, now) != value {
            missing.push((knob, subject, value));
        }
    }
    let Some((first, of, value)) = missing.first() else { return Ok(()) };
    if first.request == DriverRequest::Channels {
        kernel_removals::with_channels(of)?;
    }
    let mut request = Vec::new();
    for (knob, subject, value) in &missing {
        debug_assert!(knob.request == first.request, "{} is another request", subject.name);
        request.extend(attribute(knob, value).ok_or_else(|| subject.refused(value, "it is no number of 32 bits"))?);
    }
    of.tell(first.request.into(), &request, value).map_err(|error| {
        for (knob, subject, value) in &missing {
            match knob.most.and_then(|most| number_in(&answer, most)) {
                Some(most) if value.parse::<u32>().is_ok_and(|value| value > most) => {
                    return too_much(subject, value, most);
                }
                _ => {}
            }
        }
        match error {
            SettingError::Refused { of, reason, .. } if missing.len() > 1 => {
                let values: Vec<String> =
                    missing.iter().map(|(_, subject, value)| format!("{}={value}", subject.name)).collect();
                SettingError::RefusedTogether { values: values.join(" "), of, reason }
            }
            error => error,
        }
    })
}

impl From<DriverRequest> for Command {
    fn from(request: DriverRequest) -> Command {
        match request {
            DriverRequest::Coalesce => Command::Coalesce,
            DriverRequest::Rings => Command::Rings,
            DriverRequest::Channels => Command::Channels,
            DriverRequest::Pause => Command::Pause,
            DriverRequest::Eee => Command::Eee,
        }
    }
}

#[cfg(test)]
mod tests {
    use linerate_machine::setting::{self, SETTINGS};

    use super::*;
    use crate::ethtool;
    use crate::netlink::{Netlink, attributes};

    fn knob(name: &str) -> EthtoolField {
        match setting::find(name).unwrap().place {
            SettingPlace::Driver(knob) => knob,
            _ => panic!("{name}"),
        }
    }

    fn answer(attributes: &[(u16, &[u8])]) -> Vec<u8> {
        let mut answer = Vec::new();
        for (kind, content) in attributes {
            push_attribute(&mut answer, *kind, content);
        }
        answer
    }

    #[track_caller]
    fn check(name: &str, value: &str, want: (u16, &[u8])) {
        let knob = &knob(name);
        let written = attribute(knob, value).unwrap();
        assert_eq!(attributes(&written).collect::<Vec<_>>(), [want], "{name}");
        let mut answered = written;
        if let Some(most) = knob.most {
            push_attribute(&mut answered, most, &4096u32.to_ne_bytes());
        }
        assert_eq!(read(knob, &answered).map(|value| text(knob, value)).as_deref(), Some(value), "{name}");
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
        let rx = &knob("ring.rx");
        assert_eq!(read(rx, &answer(&[(2, &word(4096)), (6, &word(512))])), Some(512));
        assert_eq!(read(rx, &answer(&[(2, &word(0)), (6, &word(0))])), None);
        assert_eq!(read(rx, &answer(&[(9, &word(7))])), None);
        assert_eq!(read(rx, &[]), None);
        assert_eq!(read(&knob("pause.rx"), &answer(&[(2, &[1])])), None);
    }

    /// Both ways tell the same of every interface here that has such things.
    #[test]
    fn the_older_way_agrees_with_the_newer() {
        for link in crate::interfaces::links().unwrap() {
            for info in SETTINGS {
                let SettingPlace::Driver(knob) = &info.place else { continue };
                let newer = ethtool::ask(&mut Netlink::generic().unwrap(), knob.request.into(), &link.name);
                // A driver may answer to one alone: only its word in both counts, and netlink leaves out what it lacks.
                let (Ok(newer), Ok(older)) = (newer, ethtool::older::ask(knob.request.into(), &link.name)) else {
                    continue;
                };
                if let Some(value) = read(knob, &newer) {
                    assert_eq!(read(knob, &older), Some(value), "{} of {}", info.name, link.name);
                }
            }
        }
    }
}
