//! What rtnetlink sets of an interface: its MTU and the length of its queue.
//! Knows what else goes when an MTU becomes too small.

use std::io;
use std::net::IpAddr;

use super::{SettingError, Subject};
use crate::interfaces;
use crate::netlink::{Netlink, push_attribute};
use crate::sys;

// linux/if_link.h.
const IFLA_MTU: u16 = 4;
const IFLA_TXQLEN: u16 = 13;
/// Below it an interface loses IPv4 and its addresses (RFC 791, section 3.1; inetdev_event in the kernel).
const IPV4_MIN_MTU: u32 = 68;
/// Below it an interface loses IPv6 and its addresses (RFC 8200, section 5; addrconf_notify in the kernel).
const IPV6_MIN_MTU: u32 = 1280;

pub(super) fn get(subject: &Subject) -> Result<String, SettingError> {
    let link = interfaces::link(subject.interface).map_err(|error| subject.not_read(&error, None))?;
    let value = if subject.name == "mtu" { link.mtu } else { link.queue_length };
    value.map(|value| value.to_string()).ok_or_else(|| subject.absent("the kernel does not tell it"))
}

/// Whether the device's driver, and the addresses that are there, bear an MTU.
pub(super) fn check(subject: &Subject, value: &str) -> Result<(), SettingError> {
    let mtu: u32 = value.parse().map_err(|_| subject.refused(value, "it is no number of 32 bits"))?;
    let link = interfaces::link(subject.interface).map_err(|error| subject.not_read(&error, None))?;
    match (link.min_mtu, link.max_mtu) {
        (Some(least), _) if mtu < least => Err(subject.refused(value, format!("the driver takes {least} at least"))),
        (_, Some(most)) if mtu > most => Err(subject.refused(value, format!("the driver takes {most} at most"))),
        _ => keep_addresses(subject, mtu),
    }
}

pub(super) fn set(subject: &Subject, value: &str) -> Result<(), SettingError> {
    let number: u32 = value.parse().map_err(|_| subject.refused(value, "it is no number of 32 bits"))?;
    let attribute = if subject.name == "mtu" { IFLA_MTU } else { IFLA_TXQLEN };
    if attribute == IFLA_MTU {
        keep_addresses(subject, number)?;
    }
    let mut netlink = Netlink::route().map_err(|error| subject.not_written(value, &error, None))?;
    change(&mut netlink, subject.interface, attribute, number)
        .map_err(|error| subject.not_written(value, &error, netlink.said()))
}

fn change(netlink: &mut Netlink, interface: &str, attribute: u16, value: u32) -> io::Result<()> {
    let index = sys::netlink::interface_index(interface)?;
    // struct ifinfomsg: family, padding, type, index, flags, mask of flags to change: none.
    let mut payload = vec![0; 16];
    payload[4..8].copy_from_slice(&index.to_ne_bytes());
    push_attribute(&mut payload, attribute, &value.to_ne_bytes());
    netlink.change(libc::RTM_SETLINK, 0, &payload)
}

/// Addresses that somebody gave the interface do not come back with the MTU; those of its link do.
fn keep_addresses(subject: &Subject, mtu: u32) -> Result<(), SettingError> {
    if mtu >= IPV6_MIN_MTU {
        return Ok(());
    }
    let addresses = interfaces::addresses().unwrap_or_default();
    let lost = addresses.iter().filter(|address| address.interface == subject.interface).find(|address| match address
        .address
    {
        IpAddr::V4(_) => mtu < IPV4_MIN_MTU,
        IpAddr::V6(_) => !address.scope_link,
    });
    match lost {
        None => Ok(()),
        Some(address) => Err(subject.cannot_put_back(format!(
            "an MTU of {mtu} takes the address {} away from {}; use {} at least, or remove the address first",
            address.address,
            subject.interface,
            if address.address.is_ipv4() { IPV4_MIN_MTU } else { IPV6_MIN_MTU },
        ))),
    }
}
