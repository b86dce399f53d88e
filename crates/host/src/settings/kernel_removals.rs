//! What the kernel takes away with a change and does not give back: addresses, routes, neighbours, memberships.
//! Knows which change takes what; such a change is refused.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::path::Path;

use super::files::{self, Files};
use super::{SettingError, Subject, numbered, related};
use crate::interfaces::{self, Link};
use crate::netlink::{Netlink, attributes, push_attribute};

/// Below it an interface loses IPv4 and its addresses (RFC 791, section 3.1; inetdev_event in the kernel).
const IPV4_MIN_MTU: u32 = 68;
/// Below it an interface loses IPv6, with its addresses, routes and sysctls (RFC 8200, section 5; addrconf_notify in
/// the kernel).
pub(super) const IPV6_MIN_MTU: u32 = 1280;

/// Whether everything is there again after an MTU and the MTU of now.
pub(super) fn with_mtu(subject: &Subject, mtu: u32) -> Result<(), SettingError> {
    let not_read = |error: io::Error| subject.not_read(&error, None);
    let link = interfaces::link(subject.interface).map_err(not_read)?;
    let now = link.mtu.unwrap_or(mtu);
    if mtu == now {
        return Ok(());
    }
    if mtu < IPV4_MIN_MTU {
        let addresses = interfaces::addresses().unwrap_or_default();
        let mut of_it = addresses.iter().filter(|address| address.interface == subject.interface);
        if let Some(address) = of_it.find(|address| address.address.is_ipv4()) {
            return Err(subject.cannot_put_back(format!(
                "an MTU of {mtu} takes the address {} away from {}; use {IPV4_MIN_MTU} at least, or remove the address \
                 first",
                address.address, subject.interface
            )));
        }
    }
    if mtu < now {
        check_elsewhere(subject, &link, mtu)?;
    }
    let related = related::of(subject.interface).map_err(not_read)?;
    let upper = related.iter().filter(|one| one.is_above || one.is_port).map(|one| &one.link);
    for link in std::iter::once(&link).chain(upper) {
        let its = link.mtu.unwrap_or(now);
        let loses = mtu < IPV6_MIN_MTU && its >= IPV6_MIN_MTU && (its > mtu || link.name == subject.interface);
        if let Some(lost) = loses.then(|| lost_with_ipv6(link, Extent::Everything)).flatten() {
            return Err(subject.cannot_put_back(format!(
                "an MTU of {mtu} takes {lost} away from {}; use {IPV6_MIN_MTU} at least, or remove it first",
                link.name
            )));
        }
        if let Some((route, of_route)) = route_that_follows(link, mtu, its) {
            return Err(subject.cannot_put_back(format!(
                "the kernel changes the mtu {of_route} of the route to {route} with that of {}; remove it from the \
                 route, or write it as 'mtu lock {of_route}'",
                link.name
            )));
        }
    }
    Ok(())
}

/// What stands on the interface in other namespaces is lowered with it, and nobody here could raise it again.
fn check_elsewhere(subject: &Subject, link: &Link, mtu: u32) -> Result<(), SettingError> {
    let elsewhere = related::elsewhere(link.index).map_err(|error| subject.not_read(&error, None))?;
    let Some(elsewhere) = elsewhere else {
        return Err(subject.cannot_put_back(format!(
            "other network namespaces, which may have interfaces on {}, cannot be looked into; run the agent as root",
            subject.interface
        )));
    };
    let follows = |kind: Option<&str>, its: u32| {
        // An ipvlan's is always that of the interface below it (ipvlan_adjust_mtu in the kernel).
        its > mtu || kind == Some("ipvlan")
    };
    match elsewhere.iter().find(|one| follows(one.kind.as_deref(), one.mtu)) {
        None => Ok(()),
        Some(one) => Err(subject.cannot_put_back(format!(
            "it changes that of {} too, which stands on {} in another network namespace ({}); use {} at least, or \
             lower that one first",
            one.name,
            subject.interface,
            one.namespace.display(),
            one.mtu
        ))),
    }
}

/// Whether everything is there again after IPv6 was off on an interface.
pub(super) fn with_disabled_ipv6(subject: &Subject, interface: &str) -> Result<(), SettingError> {
    let Ok(link) = interfaces::link(interface) else { return Ok(()) };
    match lost_with_ipv6(&link, Extent::Addresses) {
        None => Ok(()),
        Some(lost) => Err(subject.cannot_put_back(format!("it takes {lost} away from {interface}; remove it first"))),
    }
}

/// Whether everything is there again after queues went and came: what maps receive queues to one that transmits is no
/// setting here, and the kernel clears it (netif_reset_xps_queues in net/core/dev.c).
pub(super) fn with_channels(subject: &Subject) -> Result<(), SettingError> {
    let not_read = |error: io::Error| subject.not_read(&error, None);
    // As long as the path is used: it leads through a descriptor of these.
    let files = Files::new();
    let interface = files.interface(subject.interface).map_err(not_read)?;
    let is_set = |path: &Path| {
        let mask = fs::read_to_string(path.join("xps_rxqs")).unwrap_or_default();
        mask.contains(|c: char| c.is_ascii_hexdigit() && c != '0')
    };
    match numbered(&interface.join("queues"), "tx-").iter().find(|(_, path)| is_set(path)) {
        None => Ok(()),
        Some((queue, _)) => Err(subject.cannot_put_back(format!(
            "it takes away which receive queues transmit by queue {queue}; write 0 to queues/tx-{queue}/xps_rxqs of \
             {} first",
            subject.interface
        ))),
    }
}

/// What all NAPI contexts of an interface get with its file of this name, whatever one had of its own (netdev_set_gro_flush_timeout
/// in net/core/dev.h), and the attribute of a context that tells it (NETDEV_A_NAPI_… in linux/netdev.h; Linux 6.13 and later).
const OF_NAPIS: [(&str, u16); 3] = [("napi_defer_hard_irqs", 5), ("gro_flush_timeout", 6), ("threaded", 8)];
const NETDEV_CMD_NAPI_GET: u8 = 11;
const NETDEV_A_NAPI_IFINDEX: u16 = 1;
const NETDEV_A_NAPI_ID: u16 = 2;

/// Whether everything is there again after a file of the interface, at `path`, had another value.
pub(super) fn with_napis(subject: &Subject, file: &str, path: &Path) -> Result<(), SettingError> {
    let Some((_, attribute)) = OF_NAPIS.iter().find(|(of, _)| *of == file) else { return Ok(()) };
    let of_interface = files::read(path).map_err(|error| subject.not_read(&error, None))?;
    // A kernel that tells none has none.
    let all = subject.index_now().and_then(|index| napis(index, *attribute)).unwrap_or_default();
    match all.iter().find(|(_, value)| value.to_string() != of_interface) {
        None => Ok(()),
        Some((id, value)) => Err(subject.cannot_put_back(format!(
            "it takes away what NAPI context {id} of {} has of its own ({value}, and the interface {of_interface}); give it the \
             interface's first",
            subject.interface
        ))),
    }
}

/// An attribute of each NAPI context of an interface, with the context's number.
fn napis(index: u32, attribute: u16) -> io::Result<Vec<(u32, u64)>> {
    let mut netlink = Netlink::generic()?;
    let family = netlink.generic_family(b"netdev")?;
    let mut request = vec![NETDEV_CMD_NAPI_GET, 1, 0, 0];
    push_attribute(&mut request, NETDEV_A_NAPI_IFINDEX, &index.to_ne_bytes());
    let mut found = Vec::new();
    netlink.request(family, libc::NLM_F_DUMP as u16, &request, |reply| found.extend(napi(reply, attribute)))?;
    Ok(found)
}

fn napi(reply: &[u8], attribute: u16) -> Option<(u32, u64)> {
    let content = |wanted: u16| attributes(reply.get(4..)?).find(|(kind, _)| *kind == wanted).map(|(_, of)| of);
    let value = content(attribute)?;
    let value = match value.first_chunk() {
        Some(long) => u64::from_ne_bytes(*long),
        None => u64::from(word(value, 0)?),
    };
    Some((word(content(NETDEV_A_NAPI_ID)?, 0)?, value))
}

/// Whether everything is there again after a machine was a router: as one, it forgets whom it had as default router by
/// advertisements (rt6_purge_dflt_routers in the kernel), until the next one comes.
pub(super) fn with_forwarding(subject: &Subject) -> Result<(), SettingError> {
    let is_advertised = |route: &Route| route.protocol == RTPROT_RA && route.prefix_len == 0;
    match routes(libc::AF_INET6 as u8).unwrap_or_default().iter().find(|route| is_advertised(route)) {
        None => Ok(()),
        Some(_) => Err(subject.cannot_put_back(
            "it takes the default route away that a router advertised; give the machine a static one first",
        )),
    }
}

/// How much of IPv6 goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extent {
    /// Addresses, with what needs them.
    Addresses,
    /// Also memberships and sysctls, which are those of a new interface afterwards.
    Everything,
}

/// What does not come back when IPv6 does, if there is something: what somebody gave the interface. What the kernel
/// makes by itself it makes again.
fn lost_with_ipv6(link: &Link, extent: Extent) -> Option<String> {
    let conf = Path::new("/proc/sys/net/ipv6/conf");
    let sysctl = |of: &str, key: &str| fs::read_to_string(conf.join(of).join(key)).ok();
    // Nothing to lose, or already lost.
    sysctl(&link.name, "disable_ipv6")?;
    if let Some(address) = addresses_that_go(link, extent).into_iter().next() {
        return Some(format!("the address {address}"));
    }
    let mut routes = routes(libc::AF_INET6 as u8).unwrap_or_default().into_iter();
    // Those of a nexthop object stay, with the object (fib6_ifdown in the kernel).
    let goes = |route: &Route| route.protocol != RTPROT_KERNEL && !route.is_of_nexthop && route.uses(link.index);
    if let Some(route) = routes.find(goes) {
        return Some(format!("the route to {}", route.to()));
    }
    if let Some(neighbour) = permanent_neighbour(link.index) {
        return Some(format!("the neighbour {neighbour}"));
    }
    if extent == Extent::Addresses {
        return None;
    }
    if let Some(group) = foreign_group(&link.name) {
        return Some(format!("the membership in {group} of some program"));
    }
    let of_new = sysctl("default", "addr_gen_mode");
    if sysctl(&link.name, "addr_gen_mode") != of_new || sysctl(&link.name, "stable_secret").is_some() {
        return Some("its own way to make addresses (addr_gen_mode, stable_secret)".to_owned());
    }
    None
}

// linux/rtnetlink.h, linux/if_addr.h, linux/neighbour.h.
const RTPROT_KERNEL: u8 = 2;
const RTPROT_RA: u8 = 9;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_METRICS: u16 = 8;
const RTA_MULTIPATH: u16 = 9;
const RTA_NH_ID: u16 = 30;
const RTAX_LOCK: u16 = 1;
const RTAX_MTU: u16 = 2;
const IFA_ADDRESS: u16 = 1;
const IFA_PROTO: u16 = 11;
const IFAPROT_KERNEL_LO: u8 = 1;
const IFAPROT_KERNEL_LL: u8 = 3;
const NDA_DST: u16 = 1;
const NUD_PERMANENT: u16 = 0x80;
const NTF_PROXY: u8 = 1 << 3;

/// Every message of a dump.
fn dump(message_type: u16, header: &[u8]) -> io::Result<Vec<Vec<u8>>> {
    let mut messages = Vec::new();
    Netlink::route()?.request(message_type, libc::NLM_F_DUMP as u16, header, |reply| {
        messages.push(reply.to_vec());
    })?;
    Ok(messages)
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|word| u32::from_ne_bytes(*word))
}

fn ip(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => Some(IpAddr::from(*bytes.first_chunk::<4>()?)),
        16 => Some(IpAddr::from(*bytes.first_chunk::<16>()?)),
        _ => None,
    }
}

/// The interface's IPv6 addresses that the kernel does not make again: those that it did not make by itself, and that of the
/// loopback, which keeps what it has of IPv6 while the MTU is too small, and so is not made anew (addrconf_notify in the kernel).
fn addresses_that_go(link: &Link, extent: Extent) -> Vec<IpAddr> {
    // struct ifaddrmsg: family, prefix length, flags, scope, index.
    let messages = dump(libc::RTM_GETADDR, &[libc::AF_INET6 as u8, 0, 0, 0, 0, 0, 0, 0]).unwrap_or_default();
    let of_it = messages.iter().filter(|message| word(message, 4) == Some(link.index));
    let found = of_it.filter_map(|message| {
        let content = |wanted: u16| {
            attributes(message.get(8..).unwrap_or_default()).find(|(kind, _)| *kind == wanted).map(|(_, of)| of)
        };
        let address = ip(content(IFA_ADDRESS)?)?;
        let is_made = match content(IFA_PROTO) {
            Some([by]) => [IFAPROT_KERNEL_LO, IFAPROT_KERNEL_LL].contains(by),
            // Kernels before 5.18 do not tell who made an address: theirs is made of the interface's.
            _ => Some(address) == link.mac.as_deref().and_then(link_local_of) || address.is_loopback(),
        };
        let comes_back = is_made && (extent == Extent::Addresses || !address.is_loopback());
        (!comes_back).then_some(address)
    });
    found.collect()
}

/// The link-local address that is made of a MAC's (RFC 4291, appendix A).
fn link_local_of(mac: &str) -> Option<IpAddr> {
    let octets: Vec<u8> = mac.split(':').map(|part| u8::from_str_radix(part, 16).ok()).collect::<Option<_>>()?;
    let [a, b, c, d, e, f] = octets.try_into().ok()?;
    Some(Ipv6Addr::from([0xfe, 0x80, 0, 0, 0, 0, 0, 0, a ^ 2, b, c, 0xff, 0xfe, d, e, f]).into())
}

struct Route {
    protocol: u8,
    prefix_len: u8,
    to: Option<IpAddr>,
    interfaces: Vec<u32>,
    /// It goes where an object of `ip nexthop` says.
    is_of_nexthop: bool,
    /// The MTU of the route itself, where it is not locked.
    mtu: Option<u32>,
}

impl Route {
    /// struct rtmsg: family, lengths of destination and source, tos, table, protocol, scope, type, flags.
    fn read(message: &[u8]) -> Option<Route> {
        let mut route = Route {
            protocol: *message.get(5)?,
            prefix_len: *message.get(1)?,
            to: None,
            interfaces: Vec::new(),
            is_of_nexthop: false,
            mtu: None,
        };
        for (kind, content) in attributes(message.get(12..)?) {
            match kind {
                RTA_DST => route.to = ip(content),
                RTA_NH_ID => route.is_of_nexthop = true,
                RTA_OIF => route.interfaces.extend(word(content, 0)),
                RTA_MULTIPATH => {
                    // struct rtnexthop: length in 16 bits, flags, hops, index, then attributes.
                    let mut hops = content;
                    while let (Some(length), Some(index)) = (hops.first_chunk(), word(hops, 4)) {
                        route.interfaces.push(index);
                        let length = usize::from(u16::from_ne_bytes(*length)).next_multiple_of(4).max(8);
                        hops = hops.get(length..).unwrap_or_default();
                    }
                }
                RTA_METRICS => {
                    let metric = |wanted: u16| attributes(content).find(|(kind, _)| *kind == wanted)?.1.first_chunk();
                    let locked = metric(RTAX_LOCK).is_some_and(|lock| u32::from_ne_bytes(*lock) & 1 << RTAX_MTU != 0);
                    route.mtu = metric(RTAX_MTU).map(|mtu| u32::from_ne_bytes(*mtu)).filter(|_| !locked);
                }
                _ => {}
            }
        }
        Some(route)
    }

    fn uses(&self, index: u32) -> bool {
        self.interfaces.contains(&index)
    }

    fn to(&self) -> String {
        self.to.map_or_else(|| "default".to_owned(), |to| format!("{to}/{}", self.prefix_len))
    }
}

fn routes(family: u8) -> io::Result<Vec<Route>> {
    let mut header = [0; 12];
    header[0] = family;
    Ok(dump(libc::RTM_GETROUTE, &header)?.iter().filter_map(|message| Route::read(message)).collect())
}

/// A route over the interface whose own MTU would follow the interface's to `mtu`, or on the way back to `now`: one
/// that is larger, or the same as that of IPv6 on the interface (rt6_mtu_change_route in the kernel).
fn route_that_follows(link: &Link, mtu: u32, now: u32) -> Option<(String, u32)> {
    let path = format!("/proc/sys/net/ipv6/conf/{}/mtu", link.name);
    let of_ipv6 = fs::read_to_string(path).ok()?.trim().parse::<u32>().ok()?;
    let follows = |of_route: u32| of_route >= mtu.min(now) || of_route == of_ipv6;
    let mut routes = routes(libc::AF_INET6 as u8).unwrap_or_default().into_iter();
    routes.find_map(|route| {
        let of_route = route.mtu.filter(|mtu| follows(*mtu) && route.uses(link.index))?;
        Some((route.to(), of_route))
    })
}

/// A neighbour that somebody wrote down, or for which the machine answers.
fn permanent_neighbour(index: u32) -> Option<IpAddr> {
    // struct ndmsg: family, padding, index, state, flags, type.
    let mut headers = [[0; 12]; 2];
    headers.iter_mut().for_each(|header| header[0] = libc::AF_INET6 as u8);
    headers[1][10] = NTF_PROXY;
    let messages = headers.iter().flat_map(|header| dump(libc::RTM_GETNEIGH, header).unwrap_or_default());
    messages.filter(|message| word(message, 4) == Some(index)).find_map(|message| {
        let state = u16::from_ne_bytes(*message.get(8..)?.first_chunk()?);
        let stays = state & NUD_PERMANENT != 0 || message.get(10)? & NTF_PROXY != 0;
        let (_, address) = attributes(message.get(12..)?).find(|(kind, _)| *kind == NDA_DST)?;
        ip(address).filter(|_| stays)
    })
}

/// A group that a program listens to and not the kernel: a membership ends with the interface's IPv6, and its socket is
/// not heard of it.
fn foreign_group(interface: &str) -> Option<Ipv6Addr> {
    let text = fs::read_to_string("/proc/thread-self/net/igmp6").ok()?;
    text.lines().find_map(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let group = (fields.next()? == interface).then(|| fields.next())??;
        let group = Ipv6Addr::from(u128::from_str_radix(group, 16).ok()?);
        let last = group.segments();
        // All nodes, all routers, and the solicited node's of each address (RFC 4291, section 2.7.1).
        let own = matches!(last, [0xff01 | 0xff02 | 0xff05, 0, 0, 0, 0, 0, 0, 1 | 2])
            || matches!(last, [0xff02, 0, 0, 0, 0, 1, 0xff00..=0xffff, _]);
        (!own).then_some(group)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_local_address_is_made_of_the_mac() {
        assert_eq!(link_local_of("02:00:5e:00:53:01"), "fe80::5eff:fe00:5301".parse().ok());
        assert_eq!(link_local_of("02:00"), None);
    }

    #[test]
    fn what_a_napi_context_has_of_its_own_is_read() {
        let mut reply = vec![NETDEV_CMD_NAPI_GET, 1, 0, 0];
        push_attribute(&mut reply, NETDEV_A_NAPI_ID, &1798u32.to_ne_bytes());
        push_attribute(&mut reply, 5, &7u32.to_ne_bytes());
        push_attribute(&mut reply, 6, &50_000u64.to_ne_bytes());
        assert_eq!([5, 6, 8].map(|of| napi(&reply, of)), [Some((1798, 7)), Some((1798, 50_000)), None]);
        for cut in 0..reply.len() {
            let _ = napi(&reply[..cut], 6);
        }
    }

    #[test]
    fn routes_are_read_whatever_they_say() {
        let mut metrics = Vec::new();
        push_attribute(&mut metrics, RTAX_MTU, &1400u32.to_ne_bytes());
        let mut message = vec![10, 32, 0, 0, 254, 3, 0, 1, 0, 0, 0, 0];
        push_attribute(&mut message, RTA_DST, &"fd99::".parse::<Ipv6Addr>().unwrap().octets());
        push_attribute(&mut message, RTA_METRICS, &metrics);
        let mut hops = Vec::new();
        for index in [3u32, 7] {
            hops.extend([8, 0, 0, 0]);
            hops.extend(index.to_ne_bytes());
        }
        push_attribute(&mut message, RTA_MULTIPATH, &hops);
        let route = Route::read(&message).unwrap();
        assert_eq!((route.to().as_str(), route.mtu, route.protocol), ("fd99::/32", Some(1400), 3));
        assert!(route.uses(3) && route.uses(7) && !route.uses(8));
        push_attribute(&mut metrics, RTAX_LOCK, &(1u32 << RTAX_MTU).to_ne_bytes());
        push_attribute(&mut message, RTA_METRICS, &metrics);
        assert_eq!(Route::read(&message).unwrap().mtu, None, "it is locked");
        for cut in 0..message.len() {
            let _ = Route::read(&message[..cut]);
        }
    }
}
