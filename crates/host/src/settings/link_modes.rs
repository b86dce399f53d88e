//! Speed, duplex and autonegotiation of a link: three views of one state, each of which puts the whole back.
//! Knows ethtool's link modes by their names, so it needs no list of them.

use linerate_machine::setting::syntax::{LinkMode, mode_of};

use super::{Mechanism, SettingError, Subject};
use crate::ethtool::{self, BitSet, Command};
use crate::netlink::push_attribute;

/// What the driver tells of the link.
#[derive(Debug, Default, PartialEq, Eq)]
struct State {
    autoneg: bool,
    /// The PHY can agree with its peer at all.
    can_autoneg: bool,
    /// The modes that it has, and whether each is offered.
    modes: Vec<(String, bool)>,
    /// Mbit/s, where a link is up or forced.
    speed: Option<u32>,
    full: Option<bool>,
}

impl State {
    /// `None` where there is nothing to choose from, as with a veth.
    fn read(answer: &[u8]) -> Option<State> {
        let told = ethtool::LinkModes::read(answer);
        let can_autoneg = told.ours.bits.iter().any(|(name, _)| name == "Autoneg");
        let modes: Vec<(String, bool)> =
            told.ours.bits.into_iter().filter(|(name, _)| mode_of(name).is_some()).collect();
        let autoneg = told.autoneg.filter(|_| !modes.is_empty())?;
        Some(State { autoneg, can_autoneg, modes, speed: told.speed, full: told.full })
    }

    /// As `speed`, `duplex` or `autoneg` has it; `None` while it is not known what is forced.
    fn mode(&self, name: &str) -> Option<LinkMode> {
        if !self.autoneg {
            return match (self.speed, self.full) {
                (Some(speed), Some(full)) => Some(LinkMode::Forced { speed, full }),
                _ => None,
            };
        }
        let offers = |wanted: &dyn Fn(u32, bool) -> bool| {
            self.modes.iter().all(|(mode, on)| *on == mode_of(mode).is_some_and(|(speed, full)| wanted(speed, full)))
        };
        if offers(&|_, _| true) {
            return Some(LinkMode::Auto);
        }
        let offered: Vec<String> = self.modes.iter().filter(|(_, on)| *on).map(|(mode, _)| mode.clone()).collect();
        let (speed, full) = offered.first().and_then(|mode| mode_of(mode))?;
        Some(match name {
            "speed" if offers(&|of, _| of == speed) => LinkMode::Speed(speed),
            "duplex" if offers(&|_, of| of == full) => LinkMode::Duplex { full },
            _ => LinkMode::Advertise(offered),
        })
    }

    /// The attributes that bring it about, or one sentence why nothing can.
    fn change(&self, mode: &LinkMode) -> Result<Vec<u8>, String> {
        let offer = |wanted: &dyn Fn(&str, u32, bool) -> bool| {
            let bits: Vec<(String, bool)> = self
                .modes
                .iter()
                .map(|(name, _)| {
                    let on = mode_of(name).is_some_and(|(speed, full)| wanted(name, speed, full));
                    (name.clone(), on)
                })
                .collect();
            if !bits.iter().any(|(_, on)| *on) {
                return Err(format!("the driver has {}", self.list()));
            }
            let mut attributes = Vec::new();
            push_attribute(&mut attributes, ethtool::LinkModes::AUTONEG, &[1]);
            BitSet { bits }.push(&mut attributes, ethtool::LinkModes::OURS);
            Ok(attributes)
        };
        let force = |speed: Option<u32>, full: Option<bool>| {
            let (Some(speed), Some(full)) = (speed, full) else {
                return Err("the link is down, so its speed is not known: write 'forced 100 full'".to_owned());
            };
            let mut attributes = Vec::new();
            push_attribute(&mut attributes, ethtool::LinkModes::AUTONEG, &[0]);
            push_attribute(&mut attributes, ethtool::LinkModes::SPEED, &speed.to_ne_bytes());
            push_attribute(&mut attributes, ethtool::LinkModes::DUPLEX, &[u8::from(full)]);
            Ok(attributes)
        };
        match mode {
            LinkMode::Off => force(self.speed, self.full),
            LinkMode::Forced { speed, full } => force(Some(*speed), Some(*full)),
            LinkMode::Speed(speed) if !self.can_autoneg => force(Some(*speed), Some(true)),
            LinkMode::Duplex { full } if !self.autoneg => force(self.speed, Some(*full)),
            _ if !self.can_autoneg => Err("the driver cannot agree with the other end".to_owned()),
            LinkMode::Auto => offer(&|_, _, _| true),
            LinkMode::Speed(wanted) => offer(&|_, speed, _| speed == *wanted),
            LinkMode::Duplex { full: wanted } => offer(&|_, _, full| full == *wanted),
            LinkMode::Advertise(these) => {
                if let Some(stranger) = these.iter().find(|this| !self.modes.iter().any(|(mode, _)| mode == *this)) {
                    return Err(format!("the driver has no {stranger}; it has {}", self.list()));
                }
                offer(&|name, _, _| these.iter().any(|this| this == name))
            }
        }
    }

    fn list(&self) -> String {
        self.modes.iter().map(|(mode, _)| mode.as_str()).collect::<Vec<_>>().join(", ")
    }
}

/// Speed, duplex and autonegotiation.
pub(super) struct LinkModes;

impl Mechanism for LinkModes {
    fn get(&self, subject: &Subject) -> Result<String, SettingError> {
        let mode = ask(subject)?.mode(subject.name);
        let mode =
            mode.ok_or_else(|| subject.absent("the link is down, and its driver does not tell what is forced"))?;
        // The modes in the order in which they are written.
        let text = mode.text(subject.name);
        Ok(LinkMode::parse(subject.name, &text).map_or(text, |mode| mode.text(subject.name)))
    }

    /// Whether the driver has modes that make it so.
    fn check(&self, subject: &Subject, value: &str) -> Result<(), SettingError> {
        let mode = LinkMode::parse(subject.name, value).ok_or_else(|| subject.refused(value, "it is no link mode"))?;
        ask(subject)?.change(&mode).map(|_| ()).map_err(|reason| subject.refused(value, reason))
    }

    fn set(&self, subject: &Subject, value: &str) -> Result<(), SettingError> {
        let state = ask(subject)?;
        let mode = LinkMode::parse(subject.name, value).ok_or_else(|| subject.refused(value, "it is no link mode"))?;
        // To negotiate anew what is there takes the link down for seconds.
        if state.mode(subject.name).as_ref() == Some(&mode) {
            return Ok(());
        }
        let attributes = state.change(&mode).map_err(|reason| subject.refused(value, reason))?;
        subject.tell(Command::LinkModes, &attributes, value)
    }
}

fn ask(subject: &Subject) -> Result<State, SettingError> {
    State::read(&subject.ask(Command::LinkModes)?).ok_or_else(|| subject.absent("the driver offers no link modes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ethtool::older::{answer_of, changed};
    use crate::netlink::attributes;

    /// A PHY of 10, 100 and 1000 Mbit/s with these modes offered, as its driver tells it.
    fn answer(autoneg: bool, offered: &[&str], speed: u32, duplex: u8) -> Vec<u8> {
        let names = ["10baseT/Half", "10baseT/Full", "100baseT/Half", "100baseT/Full", "1000baseT/Full"];
        let mut bits: Vec<(String, bool)> =
            names.iter().map(|name| ((*name).to_owned(), offered.contains(name) || offered == ["all"])).collect();
        bits.extend(["Autoneg", "TP", "Pause"].map(|name| (name.to_owned(), true)));
        let mut answer = Vec::new();
        push_attribute(&mut answer, ethtool::LinkModes::AUTONEG, &[u8::from(autoneg)]);
        BitSet { bits }.push(&mut answer, ethtool::LinkModes::OURS);
        push_attribute(&mut answer, ethtool::LinkModes::SPEED, &speed.to_ne_bytes());
        push_attribute(&mut answer, ethtool::LinkModes::DUPLEX, &[duplex]);
        answer
    }

    fn text(state: &State, name: &str) -> Option<String> {
        state.mode(name).map(|mode| mode.text(name))
    }

    #[test]
    fn a_state_has_three_views() {
        let hundred = ["100baseT/Half", "100baseT/Full"];
        let full = ["10baseT/Full", "100baseT/Full", "1000baseT/Full"];
        for (autoneg, offered, views) in [
            (true, &["all"][..], ["auto", "auto", "on"]),
            (true, &hundred, ["100", "advertise 100baseT/Half+100baseT/Full", "advertise 100baseT/Half+100baseT/Full"]),
            (
                true,
                &full,
                [
                    "advertise 10baseT/Full+100baseT/Full+1000baseT/Full",
                    "full",
                    "advertise 10baseT/Full+100baseT/Full+1000baseT/Full",
                ],
            ),
            (false, &["all"], ["forced 100 full"; 3]),
        ] {
            let state = State::read(&answer(autoneg, offered, 100, 1)).unwrap();
            for (name, want) in ["speed", "duplex", "autoneg"].iter().zip(views) {
                assert_eq!(text(&state, name).as_deref(), Some(want), "{name}");
                // And each is the whole: from anywhere it leads back here.
                let mode = LinkMode::parse(name, want).unwrap();
                let elsewhere = State::read(&answer(true, &["10baseT/Half"], 10, 0)).unwrap();
                assert_eq!(after(&elsewhere, &mode), state, "{name} = {want}");
            }
        }
        let down = State::read(&answer(false, &["all"], u32::MAX, 0xff)).unwrap();
        assert_eq!(text(&down, "speed"), None);
        assert!(down.change(&LinkMode::Off).unwrap_err().contains("forced 100 full"));
    }

    /// What a driver that does as it is told is in after a change; with a link of 100 Mbit/s where it may choose.
    fn after(state: &State, mode: &LinkMode) -> State {
        let change = state.change(mode).unwrap();
        let content = |wanted| attributes(&change).find(|(kind, _)| *kind == wanted).map(|(_, content)| content);
        let autoneg = content(ethtool::LinkModes::AUTONEG).unwrap() == [1];
        let offered = content(ethtool::LinkModes::OURS).map(|ours| BitSet::read(ours).bits);
        let offered: Vec<String> = match offered {
            Some(bits) => bits.into_iter().filter(|(_, on)| *on).map(|(name, _)| name).collect(),
            None => vec!["all".to_owned()],
        };
        let offered: Vec<&str> = offered.iter().map(String::as_str).collect();
        let all = offered.len() == 5;
        let speed = content(ethtool::LinkModes::SPEED).map_or(100, |word| u32::from_ne_bytes(word.try_into().unwrap()));
        let duplex = content(ethtool::LinkModes::DUPLEX).map_or(1, |octet| octet[0]);
        State::read(&answer(autoneg, if all { &["all"] } else { &offered }, speed, duplex)).unwrap()
    }

    #[test]
    fn what_the_phy_cannot_is_said() {
        let state = State::read(&answer(true, &["all"], 1000, 1)).unwrap();
        for (mode, contains) in [
            (LinkMode::Speed(2500), "the driver has 10baseT/Half"),
            (LinkMode::Advertise(vec!["40000baseCR4/Full".to_owned()]), "no 40000baseCR4/Full"),
        ] {
            let complaint = state.change(&mode).unwrap_err();
            assert!(complaint.contains(contains), "{complaint}");
        }
        let fixed = State { can_autoneg: false, autoneg: false, ..state };
        assert!(fixed.change(&LinkMode::Auto).unwrap_err().contains("cannot agree"));
        assert!(fixed.change(&LinkMode::Speed(100)).is_ok(), "forced, for there is nobody to ask");
        assert_eq!(State::read(&[]), None);
    }

    /// A PHY as a driver of Linux 3.0 tells it: 10, 100 and 1000 Mbit/s, all offered, a link of 1000 Mbit/s.
    fn older() -> Vec<u32> {
        let half = |low: [u8; 2], high: [u8; 2]| u32::from_ne_bytes([low[0], low[1], high[0], high[1]]);
        let supported = 0b110_1111 | 1 << 7 | 1 << 9;
        vec![supported, supported, half(1000u16.to_ne_bytes(), [1, 2]), half([0, 0], [1, 0]), 0, 0, 0, 0, 0, 0]
    }

    #[test]
    fn the_older_way_tells_and_takes_the_same() {
        let words = older();
        let state = State::read(&answer_of(&words)).unwrap();
        assert_eq!((text(&state, "speed").as_deref(), state.speed, state.full), (Some("auto"), Some(1000), Some(true)));
        for (name, value) in [
            ("speed", "100"),
            ("speed", "forced 100 half"),
            ("duplex", "full"),
            ("autoneg", "advertise 10baseT/Half+1000baseT/Full"),
        ] {
            let change = state.change(&LinkMode::parse(name, value).unwrap()).unwrap();
            let now = changed(&words, &change);
            let after = State::read(&answer_of(&now)).unwrap();
            assert_eq!(text(&after, name).as_deref(), Some(value), "{name}");
            // Port, PHY's address and transceiver are nobody's business.
            assert_eq!((now[0], now[2].to_ne_bytes()[3]), (words[0], words[2].to_ne_bytes()[3]));
            let back = after.change(&state.mode(name).unwrap()).unwrap();
            let back = State::read(&answer_of(&changed(&now, &back))).unwrap();
            assert_eq!(back.mode(name), Some(LinkMode::Auto), "{name}");
        }
        let forced = state.change(&LinkMode::Forced { speed: 100_000, full: true }).unwrap();
        assert_eq!(State::read(&answer_of(&changed(&words, &forced))).unwrap().speed, Some(100_000));
        let down = [words[0], words[1], u32::MAX, words[3], 0, 0, 0, 0, 0, 0];
        assert_eq!(State::read(&answer_of(&down)).unwrap().speed, None);
    }
}
