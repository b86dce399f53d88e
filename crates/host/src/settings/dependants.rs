//! What else changes when a setting does: it is noted before the change, and put back after the setting.
//! Knows what the kernel and drivers are known to do; what they take and cannot give back is in `lost.rs`.

use linerate_machine::setting::place::{DriverRequest, LinkField, SettingPlace};
use linerate_machine::setting::{self, SETTINGS, SettingInfo};

use super::{SettingError, Settings, each, features, kernel_removals, related, sysctl};

/// A setting that may change with another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DependentSetting {
    /// Whose, where it belongs to an interface.
    pub interface: Option<String>,
    /// Its name.
    pub name: String,
}

/// What a driver may choose anew when it makes its rings and queues anew.
const OF_RINGS: [DriverRequest; 3] = [DriverRequest::Coalesce, DriverRequest::Rings, DriverRequest::Channels];
/// What belongs to a queue, and goes with it.
const OF_QUEUES: [&str; 2] = ["rps.*", "xps.*"];

impl Settings {
    /// The settings that one of several things at once is made of: of `irq_affinity.all` each interrupt's. They are one
    /// thing with it, whatever value it gets.
    pub fn parts(&self, name: &str) -> Vec<DependentSetting> {
        let all = setting::find(name).ok().filter(|info| info.is_one_or_all() && info.rest_of(name) == Some("all"));
        let names = all.map_or_else(Vec::new, |info| each::names_of_each(self, info.name));
        names.into_iter().map(|name| DependentSetting { interface: self.interface.clone(), name }).collect()
    }

    /// What may change with a setting when it gets this value, of what is there: in the order in which it is noted, so
    /// that the last is put back first.
    pub fn dependants(&self, name: &str, value: &str) -> Result<Vec<DependentSetting>, SettingError> {
        let info = setting::find(name)?;
        let value = setting::canonical(name, value)?;
        let mut found: Vec<DependentSetting> = Vec::new();
        let mut add =
            |name: &str| found.push(DependentSetting { interface: self.interface.clone(), name: name.to_owned() });
        let requests = |wanted: &'static [DriverRequest]| {
            let of_them = move |other: &&SettingInfo| other.request().is_some_and(|one| wanted.contains(&one));
            SETTINGS.iter().filter(of_them).map(|other| other.name)
        };
        match info.place {
            // The limits and the quantum of a qdisc are made of these when it is made: so it is put back after them.
            SettingPlace::Link(LinkField::Mtu) => {
                add("qdisc");
                requests(&OF_RINGS).for_each(&mut add);
                found.extend(self.dependants_of_mtu(value.parse().unwrap_or(0)));
            }
            SettingPlace::Link(LinkField::QueueLength) => add("qdisc"),
            // netif_set_gso_max_size in net/core/dev.c.
            SettingPlace::Link(LinkField::GsoMaxSize) => add("gso_ipv4_max_size"),
            SettingPlace::Link(LinkField::GsoIpv4MaxSize) => {}
            // A qdisc on an interface without a queue gives it one (qdisc_create in net/sched/sch_api.c).
            SettingPlace::Qdisc => add("queue_length"),
            SettingPlace::LinkModes => requests(&[DriverRequest::Pause, DriverRequest::Eee]).for_each(add),
            SettingPlace::Driver(knob) => match knob.request {
                DriverRequest::Channels => {
                    add("qdisc");
                    for family in OF_QUEUES {
                        each::names_of_each(self, family).iter().for_each(|name| add(name));
                    }
                    add("rfs.rps_flow_cnt");
                    requests(&OF_RINGS).for_each(add);
                }
                DriverRequest::Rings => requests(&OF_RINGS).for_each(add),
                // A driver may choose the others of one request anew.
                DriverRequest::Coalesce => requests(&[DriverRequest::Coalesce]).for_each(add),
                DriverRequest::Pause => requests(&[DriverRequest::Pause]).for_each(add),
                DriverRequest::Eee => {}
            },
            SettingPlace::Features(features) if features.pattern.is_some() => {
                if let Ok(subject) = self.subject(name) {
                    features::parts_of(&subject, &features).iter().for_each(|part| add(&format!("feature.{part}")));
                }
            }
            SettingPlace::Features(_) => {}
            SettingPlace::Files(_) => found.extend(self.parts(name)),
            SettingPlace::Sysctl(Some(sysctl)) => add(&format!("sysctl.{sysctl}")),
            SettingPlace::Sysctl(None) => {
                let sysctl = info.rest_of(name).unwrap_or_default();
                if sysctl == "net.core.default_qdisc" {
                    add("qdisc");
                }
                let others = sysctl::dependants(sysctl).into_iter();
                found.extend(others.map(|(interface, name)| DependentSetting { interface, name }));
            }
            SettingPlace::Custom | SettingPlace::Elsewhere(_) => {}
        }
        found.retain(|one| one.name != name || one.interface != self.interface);
        found.retain(|one| Settings::new(one.interface.as_deref()).get(&one.name).is_ok());
        Ok(found)
    }

    /// Interfaces above take the MTU of this one where theirs is larger, or always; ports take that of their bond; and
    /// with each MTU the kernel sets that of IPv6 anew, or all of IPv6.
    fn dependants_of_mtu(&self, mtu: u32) -> Vec<DependentSetting> {
        let Some(interface) = self.interface.as_deref() else { return Vec::new() };
        let related = related::of(interface).unwrap_or_default();
        // The nearest is put back first: an interface may have no larger MTU than the one that it stands on.
        let names: Vec<&str> = related.iter().rev().map(|one| one.link.name.as_str()).collect();
        let mut found = Vec::new();
        for name in names.iter().copied().chain([interface]) {
            let all = || sysctl::of_ipv6(name);
            let own = || vec![format!("sysctl.net.ipv6.conf.{name}.mtu")];
            let sysctls = if mtu < kernel_removals::IPV6_MIN_MTU { all() } else { own() };
            found.extend(sysctls.into_iter().map(|name| DependentSetting { interface: None, name }));
        }
        let mtus =
            names.iter().map(|name| DependentSetting { interface: Some((*name).to_owned()), name: "mtu".to_owned() });
        found.extend(mtus);
        found
    }
}
