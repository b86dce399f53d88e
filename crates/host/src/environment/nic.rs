//! One network interface, its link, its driver and what the driver is set to.
//! Knows rtnetlink, ethtool's netlink (Linux 5.6 and newer) and, where that has no answer, SIOCETHTOOL.

use std::collections::BTreeMap;
use std::fs;
use std::io;

use linerate_trial::environment::{Amount, Eee, LinkModes, Nic, Pause};
use netlink_bindings::ethtool as reply;

use crate::counters;
use crate::ethtool::{self, BitSet, Get};
use crate::files::Files;
use crate::interfaces::{self, Link};
use crate::netlink::{Netlink, attributes};
use crate::sys::ethtool::{Ethtool, Words};

/// The interface; `None` when there is none of this name.
pub(super) fn describe(interface: &str) -> Option<Nic> {
    let link = interfaces::link(interface).ok()?;
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
        qdisc: link.qdisc,
        ..Nic::default()
    };
    if let Ok(mut netlink) = Netlink::generic() {
        // Each part by itself: a driver that has no rings may have a speed.
        for part in [link_modes, eee, pause, offloads, coalescing, rings, channels] {
            let _ = part(&mut netlink, &mut nic);
        }
    }
    if let Ok(ethtool) = Ethtool::new(interface) {
        fill_from_ioctl(&ethtool, &mut nic);
    }
    Some(nic)
}

/// An interface of another machine, as far as its files tell.
pub(super) fn of_files(files: &Files, interface: &str) -> Nic {
    let number = |path: &str| files.line(path)?.parse::<u32>().ok();
    let of_link = |name: &str| format!("/sys/class/net/{interface}/{name}");
    let device = files.device(interface);
    Nic {
        name: interface.to_owned(),
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

/// What netlink did not tell, by the older way. Each is left out where the driver does not know it.
fn fill_from_ioctl(ethtool: &Ethtool, nic: &mut Nic) {
    if nic.autoneg.is_none()
        && let Ok(words) = ethtool.words(Words::Settings)
    {
        // struct ethtool_cmd: supported, advertising, then speed (16 bits), duplex, port; PHY's address,
        // transceiver, autoneg, mdio_support; maxtxpkt, maxrxpkt, then the speed's upper 16 bits.
        let octets: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let half = |at: usize| u32::from(u16::from_ne_bytes([octets[at], octets[at + 1]]));
        set_link(nic, Some(half(24) << 16 | half(8)), Some(octets[10]), Some(octets[14]));
        // SPEED_UNKNOWN in the old 16 bits.
        nic.speed_mbps = nic.speed_mbps.filter(|&speed| speed != 0xffff);
    }
    if nic.pause.is_none()
        && let Ok([autoneg, rx, tx]) = ethtool.words(Words::Pause).as_deref()
    {
        nic.pause = Some(Pause { autoneg: Some(*autoneg != 0), rx: Some(*rx != 0), tx: Some(*tx != 0) });
    }
    if nic.rings.is_empty()
        && let Ok([rx_max, mini_max, jumbo_max, tx_max, rx, mini, jumbo, tx]) = ethtool.words(Words::Rings).as_deref()
    {
        let ring = |current: &u32, max: &u32| (*max > 0).then_some(Amount { current: *current, max: Some(*max) });
        nic.rings = known([
            ("rx", ring(rx, rx_max)),
            ("rx-mini", ring(mini, mini_max)),
            ("rx-jumbo", ring(jumbo, jumbo_max)),
            ("tx", ring(tx, tx_max)),
        ]);
    }
    if nic.coalescing.is_empty()
        && let Ok(words) = ethtool.words(Words::Coalesce)
    {
        // The structure's first words, in its order; it cannot say which of them the driver knows.
        let names = [
            "rx-usecs",
            "rx-frames",
            "rx-usecs-irq",
            "rx-frames-irq",
            "tx-usecs",
            "tx-frames",
            "tx-usecs-irq",
            "tx-frames-irq",
        ];
        nic.coalescing = names.iter().zip(words).map(|(name, value)| ((*name).to_owned(), value)).collect();
    }
}

fn link_modes(netlink: &mut Netlink, nic: &mut Nic) -> io::Result<()> {
    let modes = ethtool::get::<reply::OpLinkmodesGetDo, _>(netlink, Get::LinkModes, &nic.name, 0, |reply| {
        (reply.get_speed().ok(), reply.get_duplex().ok(), reply.get_autoneg().ok())
    })?;
    let (speed, duplex, autoneg) = modes.unwrap_or_default();
    set_link(nic, speed, duplex, autoneg);
    nic.link_modes = modes_of(&ethtool::ask(netlink, Get::LinkModes, &nic.name)?);
    Ok(())
}

/// ETHTOOL_A_LINKMODES_OURS, whose mask is what the driver can and whose bits are what it offers, and
/// ETHTOOL_A_LINKMODES_PEER (Documentation/networking/ethtool-netlink.rst, LINKMODES_GET). `None` where there is no PHY.
fn modes_of(answer: &[u8]) -> Option<LinkModes> {
    const OURS: u16 = 3;
    const PEER: u16 = 4;
    let set = |wanted: u16| {
        let content = attributes(answer).find(|(kind, _)| *kind == wanted).map(|(_, content)| content);
        content.map(|content| BitSet::read(content).bits).unwrap_or_default()
    };
    let names = |bits: &[(String, bool)], all: bool| -> Vec<String> {
        bits.iter().filter(|(_, on)| all || *on).map(|(name, _)| name.clone()).collect()
    };
    let (ours, peer) = (set(OURS), set(PEER));
    let modes =
        LinkModes { supported: names(&ours, true), advertised: names(&ours, false), partner: names(&peer, false) };
    (modes != LinkModes::default()).then_some(modes)
}

fn eee(netlink: &mut Netlink, nic: &mut Nic) -> io::Result<()> {
    let on = |value: Option<u8>| value.map(|value| value != 0);
    nic.eee = ethtool::get::<reply::OpEeeGetDo, _>(netlink, Get::Eee, &nic.name, 0, |reply| Eee {
        enabled: on(reply.get_enabled().ok()),
        active: on(reply.get_active().ok()),
        tx_lpi_timer_us: reply.get_tx_lpi_timer().ok(),
    })?;
    Ok(())
}

fn set_link(nic: &mut Nic, speed: Option<u32>, duplex: Option<u8>, autoneg: Option<u8>) {
    // SPEED_UNKNOWN is -1, and drivers say 0 without a link (linux/ethtool.h).
    nic.speed_mbps = speed.filter(|&speed| speed != 0 && speed != u32::MAX);
    nic.duplex = match duplex {
        Some(0) => Some("half".to_owned()),
        Some(1) => Some("full".to_owned()),
        _ => None,
    };
    nic.autoneg = autoneg.map(|autoneg| autoneg != 0);
}

fn pause(netlink: &mut Netlink, nic: &mut Nic) -> io::Result<()> {
    let on = |value: Option<u8>| value.map(|value| value != 0);
    nic.pause = ethtool::get::<reply::OpPauseGetDo, _>(netlink, Get::Pause, &nic.name, 0, |reply| Pause {
        autoneg: on(reply.get_autoneg().ok()),
        rx: on(reply.get_rx().ok()),
        tx: on(reply.get_tx().ok()),
    })?;
    Ok(())
}

/// Features that are on, and those that are off and could be on. What is off for good is left out.
fn offloads(netlink: &mut Netlink, nic: &mut Nic) -> io::Result<()> {
    let features = ethtool::get::<reply::OpFeaturesGetDo, _>(netlink, Get::Features, &nic.name, 0, |reply| {
        let off = names(reply.get_hw()).into_iter().map(|name| (name, false));
        let on = names(reply.get_active()).into_iter().map(|name| (name, true));
        off.chain(on).collect::<BTreeMap<String, bool>>()
    })?;
    nic.offloads = features.unwrap_or_default();
    Ok(())
}

/// The names of the bits that are set. A set with a mask lists all that the mask covers and marks those that are
/// set; one without lists those only (Documentation/networking/ethtool-netlink.rst, bit sets).
fn names<E>(set: Result<reply::IterableBitset<'_>, E>) -> Vec<String> {
    let Ok(set) = set else { return Vec::new() };
    let Ok(bits) = set.get_bits() else { return Vec::new() };
    let unmasked = set.get_nomask().is_ok();
    bits.get_bit()
        .filter(|bit| unmasked || bit.get_value().is_ok())
        .filter_map(|bit| bit.get_name().ok())
        .map(|name| name.to_string_lossy().into_owned())
        .filter(|name| !name.is_empty())
        .collect()
}

fn coalescing(netlink: &mut Netlink, nic: &mut Nic) -> io::Result<()> {
    let settings = ethtool::get::<reply::OpCoalesceGetDo, _>(netlink, Get::Coalesce, &nic.name, 0, |reply| {
        known([
            ("rx-usecs", reply.get_rx_usecs().ok()),
            ("rx-frames", reply.get_rx_max_frames().ok()),
            ("rx-usecs-irq", reply.get_rx_usecs_irq().ok()),
            ("rx-frames-irq", reply.get_rx_max_frames_irq().ok()),
            ("tx-usecs", reply.get_tx_usecs().ok()),
            ("tx-frames", reply.get_tx_max_frames().ok()),
            ("tx-usecs-irq", reply.get_tx_usecs_irq().ok()),
            ("tx-frames-irq", reply.get_tx_max_frames_irq().ok()),
            ("adaptive-rx", reply.get_use_adaptive_rx().ok().map(u32::from)),
            ("adaptive-tx", reply.get_use_adaptive_tx().ok().map(u32::from)),
        ])
    })?;
    nic.coalescing = settings.unwrap_or_default();
    Ok(())
}

fn rings(netlink: &mut Netlink, nic: &mut Nic) -> io::Result<()> {
    let rings = ethtool::get::<reply::OpRingsGetDo, _>(netlink, Get::Rings, &nic.name, 0, |reply| {
        known([
            ("rx", amount(reply.get_rx().ok(), reply.get_rx_max().ok())),
            ("rx-mini", amount(reply.get_rx_mini().ok(), reply.get_rx_mini_max().ok())),
            ("rx-jumbo", amount(reply.get_rx_jumbo().ok(), reply.get_rx_jumbo_max().ok())),
            ("tx", amount(reply.get_tx().ok(), reply.get_tx_max().ok())),
        ])
    })?;
    nic.rings = rings.unwrap_or_default();
    Ok(())
}

fn channels(netlink: &mut Netlink, nic: &mut Nic) -> io::Result<()> {
    let channels = ethtool::get::<reply::OpChannelsGetDo, _>(netlink, Get::Channels, &nic.name, 0, |reply| {
        known([
            ("rx", amount(reply.get_rx_count().ok(), reply.get_rx_max().ok())),
            ("tx", amount(reply.get_tx_count().ok(), reply.get_tx_max().ok())),
            ("other", amount(reply.get_other_count().ok(), reply.get_other_max().ok())),
            ("combined", amount(reply.get_combined_count().ok(), reply.get_combined_max().ok())),
        ])
    })?;
    nic.channels = channels.unwrap_or_default();
    Ok(())
}

fn amount(current: Option<u32>, max: Option<u32>) -> Option<Amount> {
    current.map(|current| Amount { current, max })
}

fn known<T, const N: usize>(list: [(&str, Option<T>); N]) -> BTreeMap<String, T> {
    list.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
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
        let modes = modes_of(&answer).unwrap();
        assert_eq!(modes.supported, ["100baseT/Full", "1000baseT/Full", "Pause"]);
        assert_eq!(modes.advertised, ["100baseT/Full", "Pause"]);
        assert_eq!(modes.partner, ["100baseT/Full", "1000baseT/Full"]);
        assert_eq!(modes_of(&[]), None);
        assert_eq!(modes_of(&[0xff; 7]), None);
    }

    /// Both ways tell the same of every interface here that has a driver.
    #[test]
    fn the_older_way_agrees_with_the_newer() {
        for link in interfaces::links().unwrap() {
            let newer = describe(&link.name).unwrap();
            let mut older = Nic { name: link.name.clone(), ..Nic::default() };
            fill_from_ioctl(&Ethtool::new(&link.name).unwrap(), &mut older);
            assert_eq!((older.speed_mbps, &older.duplex), (newer.speed_mbps, &newer.duplex), "{}", link.name);
            assert_eq!((older.autoneg, older.pause), (newer.autoneg, newer.pause), "{}", link.name);
            assert_eq!(older.rings, newer.rings, "{}", link.name);
            for (name, value) in &newer.coalescing {
                assert!(older.coalescing.get(name).is_none_or(|older| older == value), "{} {name}", link.name);
            }
        }
    }
}
