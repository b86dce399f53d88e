//! One network interface, its link, its driver and what the driver is set to.
//! Knows rtnetlink, ethtool's netlink (Linux 5.6 and newer) and, where that has no answer, SIOCETHTOOL.

use std::collections::BTreeMap;
use std::fs;

use linerate_machine::environment::{Amount, BridgePort, Eee, LinkModes, Nic, Pause};
use linerate_machine::map::map_of;
use linerate_machine::setting::place::SettingPlace;
use linerate_machine::setting::{DriverRequest, SETTINGS};

use super::qdiscs;
use crate::counters;
use crate::ethtool::{self, BitSet, Command, content, number_in};
use crate::files::Files;
use crate::interfaces::{self, Link};
use crate::netlink::Netlink;
use crate::settings::{ACTIVE, HW};
use crate::sys::ethtool::Ethtool;

/// The interface; `None` when there is none of this name.
pub(super) fn describe(interface: &str) -> Option<Nic> {
    let link = interfaces::link(interface).ok()?;
    let bridge = || interfaces::links().ok()?.into_iter().find(|one| Some(one.index) == link.master);
    let bridge_port = link.bridge_port.clone();
    let bridge_port =
        bridge_port.map(|port| BridgePort { bridge: bridge().map_or(port.bridge, |link| link.name), ..port });
    let driver = Ethtool::new(interface).and_then(|ethtool| ethtool.driver_info()).unwrap_or_default();
    let mut nic = Nic {
        name: interface.to_owned(),
        driver: driver.driver,
        driver_version: driver.version,
        firmware: driver.firmware,
        bus: driver.bus.or(link.parent_device.clone()),
        link_detected: interfaces::carrier(interface),
        irq_affinity: irq_affinity(&link),
        kind: link.kind,
        mac: link.mac,
        carrier_changes: link.carrier_changes,
        mtu: link.mtu,
        queue_length: link.queue_length,
        gso_max_size: link.gso_max_size,
        gso_ipv4_max_size: link.gso_ipv4_max_size,
        gso_max_segments: link.gso_max_segments,
        qdisc: link.qdisc,
        bridge_port,
        qdiscs: qdiscs::in_words(interface).unwrap_or_default(),
        ..Nic::default()
    };
    if let Ok(mut netlink) = Netlink::generic() {
        fill(&mut nic, |command| ethtool::ask(&mut netlink, command, interface).unwrap_or_default());
    }
    Some(nic)
}

/// What the driver answers, each part by itself: a driver that has no rings may have a speed.
fn fill(nic: &mut Nic, mut ask: impl FnMut(Command) -> Vec<u8>) {
    let on = |answer: &[u8], attribute| number_in(answer, attribute).map(|number| number != 0);
    let told = ethtool::LinkModes::read(&ask(Command::LinkModes));
    nic.speed_mbps = told.speed;
    nic.duplex = told.full.map(|full| if full { "full" } else { "half" }.to_owned());
    nic.autoneg = told.autoneg;
    let modes = LinkModes {
        supported: told.ours.names(true),
        advertised: told.ours.names(false),
        partner: told.peer.names(false),
    };
    // Without a PHY there are none.
    nic.link_modes = (modes != LinkModes::default()).then_some(modes);
    let eee = ask(Command::Eee);
    let has_eee = !eee.is_empty();
    nic.eee = has_eee.then(|| Eee { enabled: on(&eee, 5), active: on(&eee, 4), tx_lpi_timer_us: number_in(&eee, 7) });
    let pause = ask(Command::Pause);
    let has_pause = !pause.is_empty();
    nic.pause = has_pause.then(|| Pause { autoneg: on(&pause, 2), rx: on(&pause, 3), tx: on(&pause, 4) });
    // Features that are on, and those that are off and could be on. What is off for good is left out.
    let features = ask(Command::Features);
    let set = |wanted| content(&features, wanted).map(BitSet::read).unwrap_or_default().names(false).into_iter();
    nic.offloads = map_of(set(HW).map(|name| (name, false)).chain(set(ACTIVE).map(|name| (name, true))));
    let coalescing = ask(Command::Coalesce);
    nic.coalescing = map_of(SETTINGS.iter().filter_map(|info| match info.place {
        SettingPlace::Driver(knob) if knob.request == DriverRequest::Coalesce => {
            let name = info.name.strip_prefix("coalesce.")?.replace('_', "-");
            Some((name, number_in(&coalescing, knob.attribute)?))
        }
        _ => None,
    }));
    nic.rings = amounts(&ask(Command::Rings), [("rx", 6, 2), ("rx-mini", 7, 3), ("rx-jumbo", 8, 4), ("tx", 9, 5)]);
    nic.channels = amounts(&ask(Command::Channels), [("rx", 6, 2), ("tx", 7, 3), ("other", 8, 4), ("combined", 9, 5)]);
}

/// By name, the attribute that says how many there are, and the one that says how many there can be.
fn amounts(answer: &[u8], attributes: [(&str, u16, u16); 4]) -> BTreeMap<String, Amount> {
    let amount = |(name, current, max): (&str, u16, u16)| {
        let amount = Amount { current: number_in(answer, current)?, max: number_in(answer, max) };
        (amount.max != Some(0)).then(|| (name.to_owned(), amount))
    };
    map_of(attributes.into_iter().filter_map(amount))
}

/// An interface of another machine, as far as its files tell.
pub(super) fn of_files(files: &Files, interface: &str) -> Nic {
    let number = |path: &str| files.line(path)?.parse::<u32>().ok();
    let of_link = |name: &str| format!("/sys/class/net/{interface}/{name}");
    let device = files.device(interface);
    Nic {
        name: interface.to_owned(),
        // Without a device behind it the kernel made it; as what, no file says. The speed that it tells is no link's.
        kind: device.driver.is_none().then(|| "virtual".to_owned()),
        driver: device.driver,
        bus: device.bus.into_iter().next(),
        mac: files.line(&of_link("address")),
        mtu: number(&of_link("mtu")),
        // What is no number, as -1 without a link, is not known.
        speed_mbps: number(&of_link("speed")),
        duplex: files.line(&of_link("duplex")).filter(|duplex| duplex != "unknown"),
        link_detected: number(&of_link("carrier")).map(|carrier| carrier != 0),
        carrier_changes: number(&of_link("carrier_changes")),
        queue_length: number(&of_link("tx_queue_len")),
        ..Nic::default()
    }
}

/// Which CPUs the interface's interrupts may go to.
fn irq_affinity(link: &Link) -> BTreeMap<String, String> {
    let interrupts = counters::interrupts_of(link).unwrap_or_default();
    interrupts
        .into_iter()
        .filter_map(|(name, _)| {
            let (number, _) = name.split_once(' ')?;
            let cpus = fs::read_to_string(format!("/proc/irq/{number}/smp_affinity_list")).ok()?;
            Some((name, cpus.trim().to_owned()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_modes_of_both_ends_of_a_cable() {
        use crate::netlink::push_attribute;
        let mut answer = Vec::new();
        let set = |bits: &[(&str, bool)]| BitSet { bits: bits.iter().map(|&(n, on)| (n.to_owned(), on)).collect() };
        set(&[("100baseT/Full", true), ("1000baseT/Full", false), ("Pause", true)]).push(&mut answer, 3);
        push_attribute(&mut answer, 5, &100u32.to_ne_bytes());
        set(&[("100baseT/Full", true), ("1000baseT/Full", true)]).push(&mut answer, 4);
        let mut nic = Nic::default();
        fill(&mut nic, |command| if command == Command::LinkModes { answer.clone() } else { Vec::new() });
        let modes = nic.link_modes.unwrap();
        assert_eq!(modes.supported, ["100baseT/Full", "1000baseT/Full", "Pause"]);
        assert_eq!(modes.advertised, ["100baseT/Full", "Pause"]);
        assert_eq!(modes.partner, ["100baseT/Full", "1000baseT/Full"]);
        for nothing in [vec![], vec![0xff; 7]] {
            let mut nic = Nic::default();
            fill(&mut nic, |_| nothing.clone());
            assert_eq!(nic.link_modes, None);
        }
    }

    /// Both ways tell the same of every interface here that has a driver.
    #[test]
    fn the_older_way_agrees_with_the_newer() {
        for link in interfaces::links().unwrap() {
            let newer = describe(&link.name).unwrap();
            let mut older = Nic { name: link.name.clone(), ..Nic::default() };
            fill(&mut older, |command| ethtool::older::ask(command, &link.name).unwrap_or_default());
            assert_eq!((older.speed_mbps, &older.duplex), (newer.speed_mbps, &newer.duplex), "{}", link.name);
            assert_eq!((older.autoneg, older.pause), (newer.autoneg, newer.pause), "{}", link.name);
            assert_eq!(older.rings, newer.rings, "{}", link.name);
            for (name, value) in &newer.coalescing {
                assert!(older.coalescing.get(name).is_none_or(|older| older == value), "{} {name}", link.name);
            }
        }
    }
}
