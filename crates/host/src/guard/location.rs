//! Where a setting is: its name, and the interface and the network namespace that it belongs to.
//! Knows the way there from any namespace, and tells an interface from another one of its name.

use std::io;

use linerate_machine::change::{Access, CUSTOM, Custom};
use linerate_machine::printable::brief;
use linerate_machine::setting;
use linerate_machine::setting::overlap::InterfaceSysctl;
use linerate_machine::setting::place::{DriverRequest, Each, SettingPlace};
use serde::{Deserialize, Serialize};

use super::namespace::Namespace;
use crate::interfaces::{self, Link};
use crate::settings::{self, SettingError, Settings};

/// A setting, and all that is needed to read and write it from another process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Location {
    pub(super) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) interface: Option<Interface>,
    /// Where it is read and written; `None`: anywhere on this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) namespace: Option<Namespace>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) custom: Option<Custom>,
}

/// One interface: a name may be given to another one, a number is not given again (but on request). One that comes back
/// from another network namespace may have another number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Interface {
    /// Its name when the setting was noted.
    pub(super) name: String,
    pub(super) index: u32,
    /// Its permanent address, or the one it has where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) address: Option<String>,
    /// That address is its own for good.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) permanent: bool,
}

/// Why a setting was not read or written. Each is one sentence without an end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum LocationError {
    /// Its namespace is gone, or cannot be entered by this process.
    #[error("its network namespace is gone, or cannot be entered from here; set it by hand there")]
    Namespace,
    /// The interface does not exist any more.
    #[error(
        "{0} is gone, and its settings with it; if it was moved to another network namespace, set it by hand there"
    )]
    Gone(String),
    /// It is not there now: what it belongs to has gone, as a queue does.
    #[error("{0}")]
    Absent(String),
    /// It was not read or written in time, and would not be again.
    #[error("{0}")]
    Late(String),
    /// What else [`Settings`] says.
    #[error("{0}")]
    Setting(String),
}

impl From<SettingError> for LocationError {
    fn from(error: SettingError) -> LocationError {
        match error {
            SettingError::Absent { .. } => LocationError::Absent(error.to_string()),
            SettingError::Late { .. } => LocationError::Late(error.to_string()),
            error => LocationError::Setting(error.to_string()),
        }
    }
}

impl Location {
    /// The setting of this name, of the calling thread's namespace and of `interface` if it belongs to one.
    pub(super) fn of(interface: Option<&str>, name: &str, custom: Option<&Custom>) -> Result<Location, LocationError> {
        let is_of_interface = setting::find(name).is_ok_and(|info| info.is_of_interface(name));
        let interface = interface.filter(|_| is_of_interface).or_else(|| interface_of_sysctl(name));
        let interface = match interface.map(Interface::of) {
            None => None,
            Some(Ok(interface)) => Some(interface),
            Some(Err(error)) => {
                // What is wrong with the setting is said in its own words.
                settings(interface, custom, name).get(name)?;
                return Err(LocationError::Setting(error));
            }
        };
        let is_anywhere = match custom {
            // What a command does, and what is below /proc/sys/net, may depend on the namespace.
            Some(custom) => [&custom.get, &custom.set]
                .iter()
                .all(|access| matches!(access, Access::File(path) if !path.starts_with("/proc/"))),
            None => of_machine(name).is_some() && interface.is_none(),
        };
        let here = || Namespace::here().map_err(|error| LocationError::Setting(format!("{name}: {error}")));
        let namespace = if is_anywhere { None } else { Some(here()?) };
        Ok(Location { name: name.to_owned(), interface, namespace, custom: custom.cloned() })
    }

    /// The value of now.
    pub(super) fn read(&self) -> Result<String, LocationError> {
        self.there(|settings, name| Ok(settings.get(name)?))
    }

    /// Gives these their values: several are one request to one driver.
    pub(super) fn write_together(changes: &[(&Location, &str)]) -> Result<(), LocationError> {
        let Some((first, _)) = changes.first() else { return Ok(()) };
        first.there(|settings, name| match changes {
            // A sysctl has the name of its interface of now.
            [(_, value)] => Ok(settings.set(name, value)?),
            _ => {
                let changes: Vec<(&str, &str)> =
                    changes.iter().map(|(location, value)| (location.name.as_str(), *value)).collect();
                Ok(settings.set_together(&changes)?)
            }
        })
    }

    /// Gives these the values that they had, and sees that they have them: what came of each. Several are one request to
    /// one driver.
    pub(super) fn put_back(originals: &[(&Location, &str)]) -> Vec<Result<(), LocationError>> {
        // What is there already is left alone: to write it again may reload the link.
        let is_back = |(location, original): &(&Location, &str)| match location
            .there(|settings, name| Ok(settings.differs(name, original)?))?
        {
            None => Ok(()),
            Some(now) => {
                let now = brief(&now);
                Err(LocationError::Setting(format!("it took that and is {now}; set it by hand on that machine")))
            }
        };
        let results: Vec<_> = originals.iter().map(is_back).collect();
        let missing: Vec<(&Location, &str)> =
            originals.iter().zip(&results).filter(|(_, result)| result.is_err()).map(|(one, _)| *one).collect();
        let is_late = |result: &Result<(), LocationError>| matches!(result, Err(LocationError::Late(_)));
        if missing.is_empty() || results.contains(&Err(LocationError::Namespace)) || results.iter().any(is_late) {
            return results;
        }
        let written = Location::write_together(&missing);
        let settle = |(one, result): (&(&Location, &str), Result<(), LocationError>)| match (&result, &written) {
            (Ok(()), _) => result,
            (Err(_), Err(error)) => Err(error.clone()),
            (Err(_), Ok(())) => is_back(one),
        };
        originals.iter().zip(results).map(settle).collect()
    }

    /// The numbers of the interfaces that are there, where new ones begin with this setting.
    pub(super) fn interfaces_before(&self) -> Vec<u32> {
        let links = of_new_interfaces(&self.name).and_then(|_| interfaces::links().ok());
        links.unwrap_or_default().into_iter().map(|link| link.index).collect()
    }

    /// The same setting of the interfaces that began with what it is now, where that is not the `original`: none that were `there` before.
    pub(super) fn of_new_interfaces(&self, there: &[u32], original: &str) -> Vec<Location> {
        let sysctl = of_new_interfaces(&self.name).filter(|_| !there.is_empty());
        let Some((InterfaceSysctl { tree, key, .. }, namespace)) = sysctl.zip(self.namespace.as_ref()) else {
            return Vec::new();
        };
        let work = || {
            let begins_with = self.read().ok().filter(|now| now != original)?;
            let new = interfaces::links().ok()?.into_iter().filter(|link| !there.contains(&link.index));
            let its =
                new.filter_map(|link| Location::of(None, &format!("sysctl.{tree}.{}.{key}", link.name), None).ok());
            Some(its.filter(|location| location.read().is_ok_and(|now| now == begins_with)).collect())
        };
        namespace.run(work).flatten().unwrap_or_default()
    }

    /// The request to the driver that it is part of.
    pub(super) fn request(&self) -> Option<DriverRequest> {
        setting::find(&self.name).ok()?.request()
    }

    /// Whether it is of the same interface and network namespace.
    pub(super) fn is_beside(&self, other: &Location) -> bool {
        let is_one = match (&self.interface, &other.interface) {
            (Some(one), Some(other)) => one.is(other),
            (one, other) => one.is_none() && other.is_none(),
        };
        self.namespace == other.namespace && is_one
    }

    /// Whether what has its name now, at `interface` if it belongs to one, is still the same: another interface may have
    /// the name.
    pub(super) fn is_of(&self, interface: Option<&str>) -> bool {
        Location::of(interface, &self.name, self.custom.as_ref()).is_ok_and(|now| now.is_beside(self))
    }

    /// Whether it is this network namespace's, or the whole machine's.
    pub(super) fn is_here(&self) -> bool {
        let is_here = |namespace: &Namespace| Namespace::here().is_ok_and(|here| here == *namespace);
        self.is_of_machine() || self.namespace.as_ref().is_none_or(is_here)
    }

    /// Whether no network namespace owns it.
    pub(super) fn is_of_machine(&self) -> bool {
        self.custom.is_some() || of_machine(&self.name).is_some()
    }

    pub(super) fn is_read_by_command(&self) -> bool {
        matches!(self.custom, Some(Custom { get: Access::Command(_), .. }))
    }

    /// Whether a change of one is a change of the other.
    pub(super) fn is_same(&self, other: &Location) -> bool {
        match (&self.custom, &other.custom) {
            // Two plans may call one thing by two names, or two things by one name.
            (Some(one), Some(another)) => one.get == another.get || one.set == another.set,
            (None, None) if self.name != other.name => false,
            // The interrupts of a machine have one set of numbers.
            (None, None) if of_machine(&self.name) == Some(Each::Interrupt) && !self.name.ends_with(".all") => true,
            (None, None) => self.is_beside(other),
            _ => false,
        }
    }

    /// Reads or writes where it is, under the name of now.
    fn there<T: Send>(
        &self,
        work: impl FnOnce(&Settings, &str) -> Result<T, LocationError> + Send,
    ) -> Result<T, LocationError> {
        let work = || {
            let (now, index) = self.interface.as_ref().map(Interface::now).transpose()?.unzip();
            let name = match &now {
                Some(now) => name_of_sysctl(&self.name, now).unwrap_or_else(|| self.name.clone()),
                None => self.name.clone(),
            };
            let settings = settings(now.as_deref(), self.custom.as_ref(), &name);
            // Until it is written, another interface may take the name.
            work(&settings.with_index(index), &name)
        };
        match &self.namespace {
            Some(namespace) => namespace.run(work).unwrap_or(Err(LocationError::Namespace)),
            None => work(),
        }
    }
}

impl Interface {
    /// The error is a sentence.
    fn of(name: &str) -> Result<Interface, String> {
        let link = interfaces::link(name).map_err(|error| format!("the interface {name} is not known: {error}"))?;
        Ok(Interface { name: name.to_owned(), ..link.into() })
    }

    /// Whether it is this one: by its number and its address, or by one of both and its name. Where no address is for good, one
    /// may change while the number stays: a bridge takes that of a port, and a port that of its bond.
    fn is(&self, other: &Interface) -> bool {
        let (is_named, has_address) = (other.name == self.name, other.address == self.address);
        match other.index == self.index {
            true => has_address || is_named && !self.permanent && !other.permanent,
            false => has_address && is_named && other.address.is_some(),
        }
    }

    /// What it is called now, and its number.
    fn now(&self) -> Result<(String, u32), LocationError> {
        // No other can be it, and to list hundreds for each of hundreds of settings takes minutes.
        let found = [interfaces::link_of_index(self.index), interfaces::link(&self.name)];
        let is_absent = |error: &io::Error| error.raw_os_error() == Some(libc::ENODEV);
        let links = found.into_iter().filter(|link| !link.as_ref().is_err_and(is_absent)).collect::<Result<_, _>>();
        self.among(links.map_err(|error| {
            LocationError::Setting(format!("whether {} is there cannot be told: {error}", self.name))
        })?)
    }

    fn among(&self, links: Vec<Link>) -> Result<(String, u32), LocationError> {
        let mut links: Vec<Interface> = links.into_iter().map(Interface::from).collect();
        // What has its number counts more than what has its name.
        links.sort_by_key(|link| link.index != self.index);
        match (links.iter().find(|link| self.is(link)), links.first()) {
            (Some(link), _) => Ok((link.name.clone(), link.index)),
            (None, Some(link)) if link.index == self.index => Err(LocationError::Setting(format!(
                "{} has the address {} and had {}, so it may be another interface; set it by hand if it is the same",
                link.name,
                link.address.as_deref().unwrap_or("none"),
                self.address.as_deref().unwrap_or("none")
            ))),
            _ => Err(LocationError::Gone(self.name.clone())),
        }
    }
}

impl From<Link> for Interface {
    fn from(link: Link) -> Interface {
        let permanent = link.permanent_mac.is_some();
        Interface { name: link.name, index: link.index, address: link.permanent_mac.or(link.mac), permanent }
    }
}

/// The settings of a machine or of an interface, with one of the user's own.
pub(super) fn settings(interface: Option<&str>, custom: Option<&Custom>, name: &str) -> Settings {
    let access = |access: &Access| match access {
        Access::File(path) => settings::Access::File(path.into()),
        Access::Command(words) => settings::Access::Command(words.clone()),
    };
    let custom = custom.map(|custom| settings::Custom {
        name: name.trim_start_matches(CUSTOM).to_owned(),
        get: access(&custom.get),
        set: access(&custom.set),
    });
    Settings::new(interface).with_custom(custom.into_iter().collect())
}

/// Of what a setting is that no network namespace owns.
fn of_machine(name: &str) -> Option<Each> {
    match setting::find(name).ok()?.place {
        SettingPlace::Files(files) => Some(files.of).filter(|of| matches!(of, Each::Cpu | Each::Interrupt)),
        _ => None,
    }
}

/// The sysctl of an interface that a setting of this name is.
fn of_interface(name: &str) -> Option<InterfaceSysctl<'_>> {
    let sysctl = InterfaceSysctl::parse(name.strip_prefix("sysctl.")?)?;
    (!matches!(sysctl.interface, "all" | "default")).then_some(sysctl)
}

/// The sysctl that new interfaces begin with, if a setting of this name is one.
fn of_new_interfaces(name: &str) -> Option<InterfaceSysctl<'_>> {
    InterfaceSysctl::parse(name.strip_prefix("sysctl.")?).filter(|sysctl| sysctl.interface == "default")
}

fn interface_of_sysctl(name: &str) -> Option<&str> {
    of_interface(name).map(|sysctl| sysctl.interface)
}

/// The sysctl of this name, of the interface that is now called `interface`.
fn name_of_sysctl(name: &str, interface: &str) -> Option<String> {
    of_interface(name).map(|InterfaceSysctl { tree, key, .. }| format!("sysctl.{tree}.{interface}.{key}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sysctl_follows_its_interface() {
        for (name, interface, renamed) in [
            ("sysctl.net.ipv4.conf.eth0.rp_filter", Some("eth0"), Some("sysctl.net.ipv4.conf.lan9.rp_filter")),
            (
                "sysctl.net.ipv6.neigh.eth0.5.ucast_solicit",
                Some("eth0.5"),
                Some("sysctl.net.ipv6.neigh.lan9.ucast_solicit"),
            ),
            ("sysctl.net.ipv6.conf.all.hop_limit", None, None),
            ("sysctl.net.ipv4.tcp_sack", None, None),
            ("mtu", None, None),
        ] {
            assert_eq!(interface_of_sysctl(name), interface, "{name}");
            assert_eq!(name_of_sysctl(name, "lan9").as_deref(), renamed, "{name}");
        }
    }

    #[test]
    fn an_interface_is_found_by_its_number_or_its_name() {
        let link = |name: &str, index, mac: &str| {
            let mac = (!mac.is_empty()).then(|| mac.to_owned());
            Link { name: name.to_owned(), index, mac, ..Link::default() }
        };
        let check = |links: &[(&str, u32, &str)], want: Result<(&str, u32), &str>| {
            let of = Interface::from(link("eth0", 5, "02:1"));
            let found = of.among(links.iter().map(|(name, index, mac)| link(name, *index, mac)).collect());
            match (found, want) {
                (Ok((name, index)), Ok(want)) => assert_eq!((name.as_str(), index), want),
                (Err(error), Err(contains)) => assert!(error.to_string().contains(contains), "{error}"),
                (found, _) => panic!("{links:?}: {found:?}"),
            }
        };
        check(&[("lo", 1, ""), ("eth0", 5, "02:1")], Ok(("eth0", 5)));
        // Renamed, and a VLAN or a macvlan with its address has the name.
        check(&[("eth0", 9, "02:1"), ("lan", 5, "02:1")], Ok(("lan", 5)));
        // It was in another network namespace, and its number is another's by now.
        check(&[("eth0", 9, "02:1")], Ok(("eth0", 9)));
        check(&[("eth1", 5, "02:2"), ("eth0", 9, "02:1")], Ok(("eth0", 9)));
        check(&[("eth0", 9, "02:2")], Err("eth0 is gone"));
        check(&[("eth1", 9, "02:1")], Err("eth0 is gone"));
        check(&[("lan", 5, "02:2")], Err("may be another interface"));
        // A bridge takes the address of a port, and a port that of its bond.
        check(&[("eth0", 5, "02:2")], Ok(("eth0", 5)));
        check(&[("eth0", 9, "02:1"), ("eth0", 5, "02:2")], Ok(("eth0", 5)));
        let card = |mac: &str| Link { permanent_mac: Some(mac.to_owned()), ..link("eth0", 5, "02:9") };
        assert!(Interface::from(card("02:1")).among(vec![card("02:1")]).is_ok());
        assert!(Interface::from(card("02:1")).among(vec![card("02:2")]).is_err(), "another card");
        let tunnel = Interface::from(link("tun0", 5, ""));
        assert!(tunnel.among(vec![link("tun0", 9, "")]).is_err(), "nothing tells them apart");
    }

    #[test]
    fn what_is_one_thing_under_two_names() {
        let file = |path: &str| Access::File(path.to_owned());
        let location = |name: &str, namespace: &str, custom: Option<(&str, &str)>| Location {
            name: name.to_owned(),
            interface: None,
            namespace: Some(serde_json::from_str(&format!("\"{namespace}\"")).unwrap()),
            custom: custom.map(|(get, set)| Custom { get: file(get), set: file(set) }),
        };
        let check = |one: Location, other: Location, want: bool| {
            assert_eq!((one.is_same(&other), other.is_same(&one)), (want, want), "{one:?} {other:?}");
        };
        let sysctl = "sysctl.net.ipv4.tcp_sack";
        check(location(sysctl, "1-1", None), location(sysctl, "1-1", None), true);
        check(location(sysctl, "1-1", None), location(sysctl, "1-2", None), false);
        check(location("irq_affinity.40", "1-1", None), location("irq_affinity.40", "1-2", None), true);
        check(location("irq_affinity.40", "1-1", None), location("irq_affinity.41", "1-1", None), false);
        check(location("custom.a", "1-1", Some(("x", "y"))), location("custom.b", "1-2", Some(("x", "z"))), true);
        check(location("custom.a", "1-1", Some(("x", "y"))), location("custom.a", "1-1", Some(("u", "v"))), false);
        check(location("custom.a", "1-1", Some(("x", "y"))), location("governor", "1-1", None), false);
    }
}
