//! The queueing disciplines of an interface, as the kernel tells them (rtnetlink(7), RTM_GETQDISC).
//! Knows no parameters: they are octets here.

use std::io;

use crate::netlink::{Netlink, attributes, text, word};
use crate::sys;

// linux/rtnetlink.h and linux/pkt_sched.h.
pub(crate) const TCA_KIND: u16 = 1;
pub(crate) const TCA_OPTIONS: u16 = 2;
pub(crate) const TC_H_ROOT: u32 = 0xffff_ffff;
/// struct tcmsg.
pub(crate) const TCMSG_LEN: usize = 20;

/// A discipline of an interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct QdiscInfo {
    /// Such as `fq`.
    pub(crate) kind: String,
    /// 0: the kernel made it by itself.
    pub(crate) handle: u32,
    pub(crate) parent: u32,
    pub(crate) options: Vec<u8>,
}

/// The disciplines of one interface in the thread's network namespace.
pub(crate) fn of(interface: &str) -> io::Result<Vec<QdiscInfo>> {
    told(&mut Netlink::route()?, sys::netlink::interface_index(interface)?)
}

/// Those of the interface of this number.
pub(crate) fn told(netlink: &mut Netlink, index: u32) -> io::Result<Vec<QdiscInfo>> {
    let mut found = Vec::new();
    netlink.request(libc::RTM_GETQDISC, libc::NLM_F_DUMP as u16, &message(index, 0, 0), |reply| {
        // struct tcmsg: family, padding, index, handle, parent, info.
        let (Some(of), Some(handle), Some(parent)) = (word(reply, 4), word(reply, 8), word(reply, 12)) else { return };
        if of != index {
            return;
        }
        let mut told = QdiscInfo { handle, parent, ..QdiscInfo::default() };
        for (kind, content) in attributes(reply.get(TCMSG_LEN..).unwrap_or_default()) {
            match kind {
                TCA_KIND => told.kind = text(content),
                TCA_OPTIONS => told.options = content.to_vec(),
                _ => {}
            }
        }
        found.push(told);
    })?;
    Ok(found)
}

/// struct tcmsg.
pub(crate) fn message(index: u32, handle: u32, parent: u32) -> Vec<u8> {
    [0, index, handle, parent, 0].iter().flat_map(|word| word.to_ne_bytes()).collect()
}
