//! Offloads: features of an interface that are on or off, by the kernel's names or by short ones for several.
//! Knows no names: which features a short one stands for, the table of settings says; whether one can be changed, the driver.

use std::collections::BTreeSet;

use linerate_machine::setting::overlap;
use linerate_machine::setting::place::Features;
use linerate_machine::setting::syntax::FeatureState;

use super::{Mechanism, SettingError, Subject};
use crate::ethtool::{self, BitSet, Command, content};
use crate::netlink::Netlink;
use crate::sys::ethtool::{Ethtool, IoctlWords};

// linux/ethtool_netlink.h.
pub(crate) const HW: u16 = 2;
const WANTED: u16 = 3;
pub(crate) const ACTIVE: u16 = 4;
const NOCHANGE: u16 = 5;

/// The features of an interface, by name.
#[derive(Debug, Default)]
struct State {
    /// All that the kernel has names for and of which the interface could speak.
    known: BTreeSet<String>,
    changeable: BTreeSet<String>,
    wanted: BTreeSet<String>,
    active: BTreeSet<String>,
}

impl State {
    fn read(answer: &[u8]) -> State {
        let set = |wanted| content(answer, wanted).map(BitSet::read).unwrap_or_default();
        let on = |set: &BitSet| -> BTreeSet<String> { set.names(false).into_iter().collect() };
        let (hw, active, nochange) = (set(HW), set(ACTIVE), on(&set(NOCHANGE)));
        State {
            known: [&hw, &active].iter().flat_map(|set| set.names(true)).collect(),
            changeable: on(&hw).difference(&nochange).cloned().collect(),
            wanted: on(&set(WANTED)),
            active: on(&active),
        }
    }

    /// Those that `pattern` covers.
    fn covered<'a>(names: &'a BTreeSet<String>, pattern: &str) -> Vec<&'a str> {
        names.iter().map(String::as_str).filter(|name| overlap::covers(pattern, name)).collect()
    }

    /// The state of these features, which can be changed. Only what is wanted can be put back, so where not all is
    /// wanted alike, what is wanted is told.
    fn state(&self, parts: &[&str]) -> FeatureState {
        let all = |set: &BTreeSet<String>| parts.iter().all(|part| set.contains(*part));
        let none = |set: &BTreeSet<String>| parts.iter().all(|part| !set.contains(*part));
        if all(&self.wanted) && all(&self.active) {
            FeatureState::On
        } else if none(&self.wanted) && none(&self.active) {
            FeatureState::Off
        } else if all(&self.wanted) {
            // Partly too: newer kernels leave one of TSO's features on where checksums are off.
            FeatureState::OffWanted
        } else if none(&self.wanted) {
            FeatureState::OnUnwanted
        } else {
            let wanted = parts.iter().filter(|part| self.wanted.contains(**part));
            FeatureState::Only(wanted.map(|part| (*part).to_owned()).collect())
        }
    }
}

/// What to ask for so that these features get into a state: each by name, and whether it is wanted.
fn wanted(parts: &[&str], state: &FeatureState) -> BitSet {
    let on = |part: &str| match state {
        FeatureState::On | FeatureState::OffWanted => true,
        FeatureState::Off | FeatureState::OnUnwanted => false,
        FeatureState::Only(these) => these.iter().any(|this| this == part),
    };
    BitSet { bits: parts.iter().map(|part| ((*part).to_owned(), on(part))).collect() }
}

/// The features that a short name stands for on this interface, by the kernel's names; none where the kernel has the
/// older way alone.
pub(super) fn parts_of(subject: &Subject, of: &Features) -> Vec<String> {
    let Ok(state) = ask(subject) else { return Vec::new() };
    parts(subject, &state, of).map_or_else(|_| Vec::new(), |parts| parts.into_iter().map(str::to_owned).collect())
}

/// What a short name is by the older way, an ioctl, which kernels before 5.6 have alone.
fn older(of: &Features) -> Option<IoctlWords> {
    let command = of.older?;
    let lacks = Netlink::generic().is_ok_and(|mut netlink| ethtool::lacks_netlink(&mut netlink));
    lacks.then_some(IoctlWords::Value(command))
}

impl Mechanism for Features {
    fn get(&self, subject: &Subject) -> Result<String, SettingError> {
        if let Some(words) = older(self) {
            let words = Ethtool::new(subject.interface).and_then(|ethtool| ethtool.words(words));
            let words = words.map_err(|error| subject.not_read(&error, None))?;
            return Ok(if words.contains(&0) { "off" } else { "on" }.to_owned());
        }
        let state = ask(subject)?;
        Ok(state.state(&parts(subject, &state, self)?).text())
    }

    /// Whether a value that tells only what is wanted, such as `off (wanted)`, is what is wanted now: whether that is on,
    /// too, depends on other settings.
    fn is_wanted_so(&self, subject: &Subject, value: &str) -> Result<bool, SettingError> {
        let Some(state @ (FeatureState::OffWanted | FeatureState::OnUnwanted | FeatureState::Only(_))) =
            FeatureState::parse(value)
        else {
            return Ok(false);
        };
        let now = ask(subject)?;
        let asked = wanted(&parts(subject, &now, self)?, &state);
        Ok(asked.bits.iter().all(|(part, on)| now.wanted.contains(part) == *on))
    }

    fn set(&self, subject: &Subject, value: &str) -> Result<(), SettingError> {
        if let Some(words) = older(self) {
            let on = match FeatureState::parse(value) {
                Some(FeatureState::On) => 1,
                Some(FeatureState::Off) => 0,
                _ => return Err(subject.refused(value, "this kernel has it on or off only")),
            };
            return Ethtool::new(subject.interface)
                .and_then(|ethtool| ethtool.set_words(words, &[on]))
                .map_err(|error| subject.not_written(value, &error, None));
        }
        let now = ask(subject)?;
        let parts = parts(subject, &now, self)?;
        let state = FeatureState::parse(value).ok_or_else(|| subject.refused(value, "it is neither on nor off"))?;
        if let FeatureState::Only(these) = &state
            && let Some(stranger) = these.iter().find(|this| !parts.contains(&this.as_str()))
        {
            return Err(subject.refused(value, format!("it has {}, and no {stranger}", parts.join(", "))));
        }
        let mut attributes = Vec::new();
        wanted(&parts, &state).push(&mut attributes, WANTED);
        subject.tell(Command::Features, &attributes, value)
    }

    /// Of the family of all, those that can be changed.
    fn names(&self, subject: &Subject) -> Vec<String> {
        if self.pattern.is_some() {
            return vec![subject.name.to_owned()];
        }
        let changeable = ask(subject).map(|state| state.changeable).unwrap_or_default();
        changeable.into_iter().map(|name| subject.name.replace('*', &name)).collect()
    }
}

fn ask(subject: &Subject) -> Result<State, SettingError> {
    Ok(State::read(&subject.ask(Command::Features)?))
}

/// Which features the subject is, of those that can be changed.
fn parts<'a>(subject: &Subject, features: &'a State, of: &Features) -> Result<Vec<&'a str>, SettingError> {
    let pattern = of.pattern.unwrap_or_else(|| subject.rest());
    let parts = State::covered(&features.changeable, pattern);
    if !parts.is_empty() {
        return Ok(parts);
    }
    if State::covered(&features.known, pattern).is_empty() {
        return Err(subject.absent("the kernel has no feature of this name"));
    }
    let active = !State::covered(&features.active, pattern).is_empty();
    Err(subject.fixed(if active { "on" } else { "off" }))
}

#[cfg(test)]
mod tests {
    use linerate_machine::setting::place::SettingPlace;

    use super::super::Settings;
    use super::*;

    fn features(changeable: &str, wanted: &str, active: &str) -> State {
        let set = |names: &str| names.split_whitespace().map(str::to_owned).collect::<BTreeSet<_>>();
        State { known: set(changeable), changeable: set(changeable), wanted: set(wanted), active: set(active) }
    }

    #[track_caller]
    fn check(wanted_now: &str, active: &str, want: &str) {
        let all = "a b";
        let features = features(all, wanted_now, active);
        let parts = ["a", "b"];
        let state = features.state(&parts);
        assert_eq!(state.text(), want);
        // What is told puts back what is wanted, and only that can be.
        let state = FeatureState::parse(want).unwrap();
        let again: Vec<String> =
            wanted(&parts, &state).bits.into_iter().filter(|(_, on)| *on).map(|(name, _)| name).collect();
        assert_eq!(again.join(" "), wanted_now);
    }

    #[test]
    fn a_state_puts_itself_back() {
        check("a b", "a b", "on");
        check("", "", "off");
        check("a b", "", "off (wanted)");
        check("", "a b", "on (unwanted)");
        check("", "a", "on (unwanted)");
        check("a", "a", "only:a");
        check("b", "", "only:b");
        check("a b", "a", "off (wanted)");
    }

    #[test]
    fn short_names_cover_what_ethtool_has_them_cover() {
        let names = "tx-tcp-segmentation tx-tcp6-segmentation tx-tcp-ecn-segmentation tx-tcp-mangleid-segmentation \
                     tx-udp-segmentation \
                     tx-checksum-ipv4 tx-checksum-sctp rx-checksum rx-gro rx-gro-list tx-scatter-gather \
                     tx-scatter-gather-fraglist";
        let features = features(names, "", "");
        let settings = Settings::new(Some("eth0"));
        let parts_of = |short: &'static str| {
            let subject = settings.subject(short).unwrap();
            let SettingPlace::Features(of) = &subject.info.place else { panic!("{short}") };
            parts(&subject, &features, of)
        };
        for (short, want) in [
            ("tso", "tx-tcp-ecn-segmentation tx-tcp-segmentation tx-tcp6-segmentation"),
            ("tx_checksum", "tx-checksum-ipv4 tx-checksum-sctp"),
            ("rx_checksum", "rx-checksum"),
            ("gro", "rx-gro"),
            ("sg", "tx-scatter-gather tx-scatter-gather-fraglist"),
        ] {
            assert_eq!(parts_of(short).unwrap().join(" "), want);
        }
        assert!(parts_of("lro").is_err());
    }
}
