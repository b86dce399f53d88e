//! What rtnetlink sets of an interface: its MTU, the length of its queue, the largest buffers that it is handed.
//! Knows no other settings: what goes with an MTU is in `lost.rs` and `dependants.rs`.

use std::io;

use linerate_machine::setting::place::LinkField;

use super::{Mechanism, SettingError, Subject, kernel_removals};
use crate::interfaces;
use crate::netlink::{Netlink, push_attribute};

impl Mechanism for LinkField {
    fn get(&self, subject: &Subject) -> Result<String, SettingError> {
        let link = interfaces::link(subject.interface).map_err(|error| subject.not_read(&error, None))?;
        let value = match self {
            LinkField::Mtu => link.mtu,
            LinkField::QueueLength => link.queue_length,
            LinkField::GsoMaxSize => link.gso_max_size,
            LinkField::GsoIpv4MaxSize => link.gso_ipv4_max_size,
        };
        value.map(|value| value.to_string()).ok_or_else(|| subject.absent("the kernel does not tell it"))
    }

    /// Whether the device's driver takes it, and all is there again after it.
    fn check(&self, subject: &Subject, value: &str) -> Result<(), SettingError> {
        let number = number(subject, value)?;
        let link = interfaces::link(subject.interface).map_err(|error| subject.not_read(&error, None))?;
        match self {
            LinkField::Mtu => match (link.min_mtu, link.max_mtu) {
                (Some(least), _) if number < least => {
                    Err(subject.refused(value, format!("the driver takes {least} at least")))
                }
                (_, Some(most)) if number > most => {
                    Err(subject.refused(value, format!("the driver takes {most} at most")))
                }
                _ => kernel_removals::with_mtu(subject, number),
            },
            LinkField::QueueLength | LinkField::GsoMaxSize | LinkField::GsoIpv4MaxSize => Ok(()),
        }
    }

    fn set(&self, subject: &Subject, value: &str) -> Result<(), SettingError> {
        let number = number(subject, value)?;
        let index = subject.index_now().map_err(|error| subject.not_written(value, &error, None))?;
        if *self == LinkField::Mtu {
            kernel_removals::with_mtu(subject, number)?;
        }
        let mut netlink = Netlink::route().map_err(|error| subject.not_written(value, &error, None))?;
        change(&mut netlink, index, *self as u16, number)
            .map_err(|error| subject.not_written(value, &error, netlink.said()))
    }
}

fn number(subject: &Subject, value: &str) -> Result<u32, SettingError> {
    value.parse().map_err(|_| subject.refused(value, "it is no number of 32 bits"))
}

fn change(netlink: &mut Netlink, index: u32, attribute: u16, value: u32) -> io::Result<()> {
    // struct ifinfomsg: family, padding, type, index, flags, mask of flags to change: none.
    let mut payload = vec![0; 16];
    payload[4..8].copy_from_slice(&index.to_ne_bytes());
    push_attribute(&mut payload, attribute, &value.to_ne_bytes());
    netlink.change(libc::RTM_SETLINK, 0, &payload)
}
