//! What rtnetlink sets of an interface: its MTU and the length of its queue.
//! Knows no other settings: what goes with an MTU is in `lost.rs` and `dependants.rs`.

use std::io;

use super::{SettingError, Subject, lost};
use crate::interfaces;
use crate::netlink::{Netlink, push_attribute};

// linux/if_link.h.
const IFLA_MTU: u16 = 4;
const IFLA_TXQLEN: u16 = 13;

pub(super) fn get(subject: &Subject) -> Result<String, SettingError> {
    let link = interfaces::link(subject.interface).map_err(|error| subject.not_read(&error, None))?;
    let value = if subject.name == "mtu" { link.mtu } else { link.queue_length };
    value.map(|value| value.to_string()).ok_or_else(|| subject.absent("the kernel does not tell it"))
}

/// Whether the device's driver takes an MTU, and all is there again after it.
pub(super) fn check(subject: &Subject, value: &str) -> Result<(), SettingError> {
    let mtu: u32 = value.parse().map_err(|_| subject.refused(value, "it is no number of 32 bits"))?;
    let link = interfaces::link(subject.interface).map_err(|error| subject.not_read(&error, None))?;
    match (link.min_mtu, link.max_mtu) {
        (Some(least), _) if mtu < least => Err(subject.refused(value, format!("the driver takes {least} at least"))),
        (_, Some(most)) if mtu > most => Err(subject.refused(value, format!("the driver takes {most} at most"))),
        _ => lost::with_mtu(subject, mtu),
    }
}

pub(super) fn set(subject: &Subject, value: &str) -> Result<(), SettingError> {
    let number: u32 = value.parse().map_err(|_| subject.refused(value, "it is no number of 32 bits"))?;
    let attribute = if subject.name == "mtu" { IFLA_MTU } else { IFLA_TXQLEN };
    let index = subject.index_now().map_err(|error| subject.not_written(value, &error, None))?;
    if attribute == IFLA_MTU {
        lost::with_mtu(subject, number)?;
    }
    let mut netlink = Netlink::route().map_err(|error| subject.not_written(value, &error, None))?;
    change(&mut netlink, index, attribute, number).map_err(|error| subject.not_written(value, &error, netlink.said()))
}

fn change(netlink: &mut Netlink, index: u32, attribute: u16, value: u32) -> io::Result<()> {
    // struct ifinfomsg: family, padding, type, index, flags, mask of flags to change: none.
    let mut payload = vec![0; 16];
    payload[4..8].copy_from_slice(&index.to_ne_bytes());
    push_attribute(&mut payload, attribute, &value.to_ne_bytes());
    netlink.change(libc::RTM_SETLINK, 0, &payload)
}
