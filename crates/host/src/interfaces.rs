//! The network interfaces of this machine and their addresses.
//! Knows what the kernel tells over rtnetlink; which interface a trial uses is decided elsewhere.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use linerate_machine::environment::BridgePort;

use crate::netlink::{Netlink, attributes, text, word};
use crate::sys;

/// An address of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceAddress {
    /// The interface's name.
    pub interface: String,
    /// The interface's number in this network namespace.
    pub index: u32,
    /// The address.
    pub address: IpAddr,
    /// Bits of the address that name the subnet.
    pub prefix_len: u8,
    /// The interface is up, as an administrator sees it; the cable may still be out ([`carrier`]).
    pub up: bool,
    /// The interface is a loopback one.
    pub loopback: bool,
    /// The address means something on its link only.
    pub scope_link: bool,
}

/// Every address of the thread's network namespace, by interface.
pub fn addresses() -> io::Result<Vec<InterfaceAddress>> {
    let links = links()?;
    let mut found = Vec::new();
    Netlink::route()?.request(libc::RTM_GETADDR, libc::NLM_F_DUMP as u16, &[0; IFADDRMSG_LEN], |reply| {
        // struct ifaddrmsg: family, prefix length, flags, scope, index.
        let (Some(&[_, prefix_len, _, scope]), Some(index)) = (reply.first_chunk(), word(reply, 4)) else { return };
        // IFA_LOCAL is this end's address; on a point-to-point link IFA_ADDRESS is the other end's. IPv6 has
        // only the latter (rtnetlink(7)).
        let mut address = None;
        for (kind, content) in attributes(reply.get(IFADDRMSG_LEN..).unwrap_or_default()) {
            match kind {
                IFA_LOCAL => address = ip_of(content),
                IFA_ADDRESS if address.is_none() => address = ip_of(content),
                _ => {}
            }
        }
        let link = links.iter().find(|link| link.index == index);
        if let (Some(address), Some(link)) = (address, link) {
            found.push(InterfaceAddress {
                interface: link.name.clone(),
                index: link.index,
                address,
                prefix_len,
                up: link.flags & libc::IFF_UP as u32 != 0,
                loopback: link.flags & libc::IFF_LOOPBACK as u32 != 0,
                scope_link: scope == libc::RT_SCOPE_LINK,
            });
        }
    })?;
    Ok(found)
}

/// The number of the interface of this name, in the thread's network namespace.
pub fn number(interface: &str) -> io::Result<u32> {
    sys::netlink::interface_index(interface)
}

/// An address at a port: a link-local one means something at an interface only.
pub fn at(address: IpAddr, port: u16, interface: Option<&str>) -> SocketAddr {
    let mut at = SocketAddr::new(address, port);
    if let (SocketAddr::V6(at), Some(interface)) = (&mut at, interface)
        && at.ip().is_unicast_link_local()
    {
        // Of an interface that has gone nothing can be reached, which the socket will say.
        at.set_scope_id(number(interface).unwrap_or(0));
    }
    at
}

/// The name of the interface that has this address, a link-local one at its own interface; `None`: none has it.
pub fn with_address(address: SocketAddr) -> Option<String> {
    let is_it = |one: &InterfaceAddress| match address {
        SocketAddr::V6(at) if at.scope_id() != 0 => one.address == address.ip() && one.index == at.scope_id(),
        _ => one.address == address.ip(),
    };
    addresses().ok()?.into_iter().find(is_it).map(|one| one.interface)
}

/// Whether the interface has a carrier: a cable with something alive at its other end. `None`: not known.
pub fn carrier(interface: &str) -> Option<bool> {
    let link = link(interface).ok()?;
    // An interface that is down tells nothing of its cable: most PHYs are off then.
    if link.flags & libc::IFF_UP as u32 == 0 {
        return Some(false);
    }
    // Before IFLA_CARRIER (Linux 3.3) there is the flag, which means the same to user space (netdevice(7)).
    Some(link.carrier.unwrap_or(link.flags & IFF_LOWER_UP != 0))
}

/// struct ifaddrmsg and struct ifinfomsg.
const IFADDRMSG_LEN: usize = 8;
const IFINFOMSG_LEN: usize = 16;
// linux/if_addr.h and linux/if_link.h.
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFLA_GSO_IPV4_MAX_SIZE: u16 = 63;
const IFLA_INFO_SLAVE_KIND: u16 = 4;
const IFLA_INFO_SLAVE_DATA: u16 = 5;
const IFLA_BRPORT_STATE: u16 = 1;
const IFLA_BRPORT_LEARNING: u16 = 8;
const IFLA_BRPORT_UNICAST_FLOOD: u16 = 9;
const IFLA_BRPORT_BCAST_FLOOD: u16 = 30;
const IFLA_BRPORT_ISOLATED: u16 = 33;
/// linux/if_bridge.h.
const BR_STATE_FORWARDING: u8 = 3;
pub(crate) const IFF_LOWER_UP: u32 = 1 << 16;
pub(crate) const IFLA_STATS: u16 = 7;
pub(crate) const IFLA_STATS64: u16 = 23;

/// An interface, as far as counters and the environment need it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Link {
    pub(crate) index: u32,
    pub(crate) name: String,
    pub(crate) flags: u32,
    /// What the kernel made it with, such as `veth` or `ifb`; hardware has none.
    pub(crate) kind: Option<String>,
    /// The interface it stands on, in this network namespace, as of a VLAN.
    pub(crate) lower: Option<u32>,
    /// The interface it stands on in another network namespace: this namespace's number of that one, and its number
    /// there.
    pub(crate) lower_elsewhere: Option<(i32, u32)>,
    /// The bond or bridge that it is a port of.
    pub(crate) master: Option<u32>,
    /// What a bridge lets pass here; without the bridge's name.
    pub(crate) bridge_port: Option<BridgePort>,
    pub(crate) mac: Option<String>,
    /// What its hardware came with (Linux 5.6 and newer tell); virtual ones mostly have none.
    pub(crate) permanent_mac: Option<String>,
    pub(crate) mtu: Option<u32>,
    /// The least that its driver takes (Linux 4.19 and newer tell).
    pub(crate) min_mtu: Option<u32>,
    /// And the most, where it says one.
    pub(crate) max_mtu: Option<u32>,
    pub(crate) queue_length: Option<u32>,
    /// The largest buffer that the stack hands over, of IPv6 and, in newer kernels apart, of IPv4; and its most segments.
    pub(crate) gso_max_size: Option<u32>,
    pub(crate) gso_ipv4_max_size: Option<u32>,
    pub(crate) gso_max_segments: Option<u32>,
    pub(crate) qdisc: Option<String>,
    pub(crate) carrier: Option<bool>,
    pub(crate) carrier_changes: Option<u32>,
    /// The device behind it, such as `virtio2` or `2188000.ethernet` (Linux 5.14 and newer).
    pub(crate) parent_device: Option<String>,
    /// struct rtnl_link_stats64 as it came, which is as long as the kernel is new.
    pub(crate) statistics64: Option<Vec<u8>>,
    /// struct rtnl_link_stats, all that kernels before 2.6.35 have.
    pub(crate) statistics32: Option<Vec<u8>>,
}

/// Of IFLA_LINKINFO; `None`: the interface is no bridge's port.
fn bridge_port(info: &[u8]) -> Option<BridgePort> {
    attributes(info).find(|(kind, content)| *kind == IFLA_INFO_SLAVE_KIND && text(content) == "bridge")?;
    let (_, data) = attributes(info).find(|(kind, _)| *kind == IFLA_INFO_SLAVE_DATA)?;
    let octet = |wanted| attributes(data).find(|(kind, _)| *kind == wanted).and_then(|(_, content)| content.first());
    let on = |wanted| octet(wanted).map(|octet| *octet != 0);
    Some(BridgePort {
        bridge: String::new(),
        forwards: octet(IFLA_BRPORT_STATE).map(|state| *state == BR_STATE_FORWARDING),
        isolated: on(IFLA_BRPORT_ISOLATED),
        learns: on(IFLA_BRPORT_LEARNING),
        floods: on(IFLA_BRPORT_UNICAST_FLOOD),
        floods_broadcast: on(IFLA_BRPORT_BCAST_FLOOD),
    })
}

impl Link {
    /// struct ifinfomsg: family, padding, type, index, flags, change; then attributes.
    pub(crate) fn from_reply(reply: &[u8]) -> Option<Link> {
        let mut link = Link { index: word(reply, 4)?, flags: word(reply, 8)?, ..Link::default() };
        let (mut lower, mut namespace) = (None, None);
        let mac = |content: &[u8]| (!content.is_empty()).then(|| mac_text(content));
        for (kind, content) in attributes(reply.get(IFINFOMSG_LEN..)?) {
            let number = word(content, 0);
            match kind {
                libc::IFLA_IFNAME => link.name = text(content),
                libc::IFLA_LINK => lower = number.filter(|&lower| lower != 0),
                libc::IFLA_LINK_NETNSID => namespace = number.map(|number| number as i32),
                libc::IFLA_MASTER => link.master = number,
                libc::IFLA_ADDRESS => link.mac = mac(content),
                libc::IFLA_PERM_ADDRESS => link.permanent_mac = mac(content),
                libc::IFLA_MTU => link.mtu = number,
                libc::IFLA_MIN_MTU => link.min_mtu = number,
                libc::IFLA_MAX_MTU => link.max_mtu = number.filter(|most| *most > 0),
                libc::IFLA_TXQLEN => link.queue_length = number,
                libc::IFLA_GSO_MAX_SIZE => link.gso_max_size = number,
                libc::IFLA_GSO_MAX_SEGS => link.gso_max_segments = number,
                IFLA_GSO_IPV4_MAX_SIZE => link.gso_ipv4_max_size = number,
                libc::IFLA_QDISC => link.qdisc = Some(text(content)),
                libc::IFLA_CARRIER => link.carrier = content.first().map(|carrier| *carrier != 0),
                libc::IFLA_CARRIER_CHANGES => link.carrier_changes = number,
                libc::IFLA_PARENT_DEV_NAME => link.parent_device = Some(text(content)),
                libc::IFLA_LINKINFO => {
                    let told = attributes(content).find(|(kind, _)| *kind == libc::IFLA_INFO_KIND);
                    link.kind = told.map(|(_, content)| text(content));
                    link.bridge_port = bridge_port(content);
                }
                IFLA_STATS64 => link.statistics64 = Some(content.to_vec()),
                IFLA_STATS => link.statistics32 = Some(content.to_vec()),
                _ => {}
            }
        }
        // A veth's IFLA_LINK is its peer, and with IFLA_LINK_NETNSID the number belongs to another namespace.
        lower = lower.filter(|_| link.kind.as_deref() != Some("veth"));
        link.lower_elsewhere = namespace.zip(lower);
        link.lower = lower.filter(|&lower| namespace.is_none() && lower != link.index);
        Some(link)
    }
}

/// Every interface of the thread's network namespace.
pub(crate) fn links() -> io::Result<Vec<Link>> {
    let mut links = Vec::new();
    Netlink::route()?.request(libc::RTM_GETLINK, libc::NLM_F_DUMP as u16, &message(0), |reply| {
        links.extend(Link::from_reply(reply));
    })?;
    Ok(links)
}

/// One interface.
pub(crate) fn link(interface: &str) -> io::Result<Link> {
    // By number: asking by name came with Linux 2.6.33.
    link_of_index(sys::netlink::interface_index(interface)?)
}

/// The interface of this number.
pub(crate) fn link_of_index(index: u32) -> io::Result<Link> {
    let mut found = None;
    Netlink::route()?.request(libc::RTM_GETLINK, 0, &message(index), |reply| found = Link::from_reply(reply))?;
    found.ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// struct ifinfomsg.
fn message(index: u32) -> Vec<u8> {
    [0, index, 0, 0].iter().flat_map(|word| word.to_ne_bytes()).collect()
}

pub(crate) fn ip_of(octets: &[u8]) -> Option<IpAddr> {
    if let Ok(four) = <[u8; 4]>::try_from(octets) {
        return Some(Ipv4Addr::from(four).into());
    }
    <[u8; 16]>::try_from(octets).ok().map(|sixteen| Ipv6Addr::from(sixteen).into())
}

pub(crate) fn mac_text(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect::<Vec<_>>().join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_found_with_its_address() {
        let links = links().unwrap();
        let lo = links.iter().find(|link| link.name == "lo").expect("every namespace has lo");
        assert_eq!(link("lo").unwrap().index, lo.index);
        assert_eq!(lo.mac.as_deref(), Some("00:00:00:00:00:00"));
        if lo.flags & libc::IFF_UP as u32 != 0 {
            let addresses = addresses().unwrap();
            let local = addresses.iter().find(|a| a.address == IpAddr::V4(Ipv4Addr::LOCALHOST)).unwrap();
            assert_eq!((local.interface.as_str(), local.prefix_len), ("lo", 8));
            assert!(local.up && local.loopback && !local.scope_link);
            assert_eq!(carrier("lo"), Some(true));
        }
    }

    #[test]
    fn what_is_not_there_is_unknown() {
        assert_eq!(carrier("no-such-one"), None);
        assert!(link("").is_err() && link("a\0b").is_err());
        assert_eq!(ip_of(&[1, 2, 3]), None);
    }
}
