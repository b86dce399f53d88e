//! What else changes when a setting does: it is noted before the change, and put back after the setting.
//! Knows what the kernel and drivers are known to do; what they take and cannot give back is in `lost.rs`.

use linerate_trial::setting::{self, SETTINGS};

use super::{SettingError, Settings, features, lost, queues, related, sysctl};

/// A setting that may change with another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dependant {
    /// Whose, where it belongs to an interface.
    pub interface: Option<String>,
    /// Its name.
    pub name: String,
}

/// What a driver may choose anew when it makes its rings and queues anew.
const OF_RINGS: [&str; 3] = ["coalesce", "ring", "channels"];
/// What belongs to a queue, and goes with it.
const OF_QUEUES: [&str; 2] = ["rps.*", "xps.*"];

impl Settings {
    /// The settings that one of several things at once is made of: of `irq_affinity.all` each interrupt's. They are one
    /// thing with it, whatever value it gets.
    pub fn parts(&self, name: &str) -> Vec<Dependant> {
        let all = setting::find(name).ok().filter(|info| info.rest_of(name) == Some("all"));
        let family = all.map(|info| info.name).filter(|name| matches!(*name, "irq_affinity.*" | "rps.*" | "xps.*"));
        let names = family.map_or_else(Vec::new, |family| queues::names_of_each(self, family));
        names.into_iter().map(|name| Dependant { interface: self.interface.clone(), name }).collect()
    }

    /// What may change with a setting when it gets this value, of what is there: in the order in which it is noted, so
    /// that the last is put back first.
    pub fn dependants(&self, name: &str, value: &str) -> Result<Vec<Dependant>, SettingError> {
        let info = setting::find(name)?;
        let value = setting::canonical(name, value)?;
        let mut found: Vec<Dependant> = Vec::new();
        let mut add = |name: String| found.push(Dependant { interface: self.interface.clone(), name });
        let requests = |wanted: &[&str]| {
            let of_them = SETTINGS.iter().filter(|other| other.request.is_some_and(|one| wanted.contains(&one)));
            of_them.map(|other| other.name.to_owned()).collect::<Vec<_>>()
        };
        match info.name {
            // The limits and the quantum of a qdisc are made of these when it is made: so it is put back after them.
            "mtu" => {
                add("qdisc".to_owned());
                requests(&OF_RINGS).into_iter().for_each(&mut add);
            }
            "queue_length" => add("qdisc".to_owned()),
            // A qdisc on an interface without a queue gives it one (qdisc_create in net/sched/sch_api.c).
            "qdisc" => add("queue_length".to_owned()),
            "speed" | "duplex" | "autoneg" => {
                requests(&["pause"]).into_iter().for_each(&mut add);
                add("eee".to_owned());
            }
            "irq_affinity.*" | "rps.*" | "xps.*" => self.parts(name).into_iter().for_each(|part| add(part.name)),
            "sysctl.*" if name == "sysctl.net.core.default_qdisc" => add("qdisc".to_owned()),
            _ => {}
        }
        match info.request {
            Some("channels") => {
                add("qdisc".to_owned());
                OF_QUEUES.iter().flat_map(|family| queues::names_of_each(self, family)).for_each(&mut add);
                add("rfs.rps_flow_cnt".to_owned());
                requests(&OF_RINGS).into_iter().for_each(&mut add);
            }
            Some("ring") => requests(&OF_RINGS).into_iter().for_each(&mut add),
            // A driver may choose the others of one request anew.
            Some(request) => requests(&[request]).into_iter().for_each(&mut add),
            None => {}
        }
        if info.features().is_some()
            && let Ok(subject) = self.of_interface(name)
        {
            features::parts_of(&subject).into_iter().map(|part| format!("feature.{part}")).for_each(&mut add);
        }
        if let Some(sysctl) = info.sysctl() {
            add(format!("sysctl.{sysctl}"));
        }
        if let Some(sysctl) = info.rest_of(name).filter(|_| info.name == "sysctl.*") {
            found.extend(sysctl::dependants(sysctl).into_iter().map(|(interface, name)| Dependant { interface, name }));
        }
        if info.name == "mtu" {
            found.extend(self.dependants_of_mtu(value.parse().unwrap_or(0)));
        }
        found.retain(|one| one.name != name || one.interface != self.interface);
        found.retain(|one| Settings::new(one.interface.as_deref()).get(&one.name).is_ok());
        Ok(found)
    }

    /// Interfaces above take the MTU of this one where theirs is larger, or always; ports take that of their bond; and
    /// with each MTU the kernel sets that of IPv6 anew, or all of IPv6.
    fn dependants_of_mtu(&self, mtu: u32) -> Vec<Dependant> {
        let Some(interface) = self.interface.as_deref() else { return Vec::new() };
        let related = related::of(interface).unwrap_or_default();
        // The nearest is put back first: an interface may have no larger MTU than the one that it stands on.
        let names: Vec<&str> = related.iter().rev().map(|one| one.link.name.as_str()).collect();
        let mut found = Vec::new();
        for name in names.iter().copied().chain([interface]) {
            let all = || sysctl::of_ipv6(name);
            let own = || vec![format!("sysctl.net.ipv6.conf.{name}.mtu")];
            let sysctls = if mtu < lost::IPV6_MIN_MTU { all() } else { own() };
            found.extend(sysctls.into_iter().map(|name| Dependant { interface: None, name }));
        }
        let mtus = names.iter().map(|name| Dependant { interface: Some((*name).to_owned()), name: "mtu".to_owned() });
        found.extend(mtus);
        found
    }
}
