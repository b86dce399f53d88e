//! What the kernel knows of the way to another machine. Sends nothing.

use std::fs;
use std::net::IpAddr;
use std::thread;
use std::time::{Duration, Instant};

use linerate_machine::probe::{Detection, InterfaceState, Neighbour, Protocol, Route, RouteInfo, RouteKind, Usage};

use crate::interfaces::{self, Link};
use crate::netlink::{Netlink, attributes, family, octets, push_attribute};

// linux/rtnetlink.h.
const RTA_DST: u16 = 1;
const RTA_SRC: u16 = 2;
const RTA_IIF: u16 = 3;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_METRICS: u16 = 8;
const RTA_VIA: u16 = 18;
const RTA_IP_PROTO: u16 = 27;
const RTAX_MTU: u16 = 2;
// linux/neighbour.h.
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
const NUD_PERMANENT: u16 = 0x80;
const NUD_WITHOUT_ANSWER: u16 = 0x21;
// linux/if_addr.h.
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_FLAGS: u16 = 8;
/// LOOPBACK_IFINDEX of include/net/flow.h.
const LOOPBACK: u32 = 1;
const IFA_F_DADFAILED: u32 = 0x08;
const IFA_F_TENTATIVE: u32 = 0x40;

/// What is known of the way from an address of this machine to another machine's. `interface` is where the address is, or
/// where packets from there arrive.
pub fn route_info(local: IpAddr, peer: IpAddr, interface: Option<&str>) -> RouteInfo {
    let links = interfaces::links().unwrap_or_default();
    let link = links.iter().find(|link| Some(link.name.as_str()) == interface);
    let scoped = link.filter(|_| matches!(peer, IpAddr::V6(six) if six.is_unicast_link_local())).map(|link| link.index);
    let mut routes: Vec<Route> = Vec::new();
    for protocol in [None, Some(Protocol::Echo), Some(Protocol::Udp), Some(Protocol::Tcp)] {
        routes.extend(route(local, peer, scoped, protocol, &links));
    }
    let next_hop = routes.first().and_then(|route| Some((route.gateway.unwrap_or(peer), route.interface.clone()?)));
    let takes_arrivals = link.filter(|link| local.is_ipv4() && link.flags & libc::IFF_LOOPBACK as u32 == 0);
    let flags = link.and_then(|link| address_flags(local, link.index));
    let sysctl = |name: &str| number(&format!("/proc/sys/net/{name}"));
    // Of these two, the larger one of the interface's own value and that of all is in force.
    let larger = |name: &str| {
        let of = |one: &str| sysctl(&format!("ipv4/conf/{one}/{name}"));
        let interface = interface.filter(|_| local.is_ipv4())?;
        u8::try_from(of("all")?.max(of(interface)?)).ok()
    };
    let hops = match (local, interface) {
        (IpAddr::V4(_), _) => sysctl("ipv4/ip_default_ttl"),
        (IpAddr::V6(_), Some(interface)) => sysctl(&format!("ipv6/conf/{interface}/hop_limit")),
        (IpAddr::V6(_), None) => None,
    };
    let ignores = if local.is_ipv4() { "ipv4/icmp_echo_ignore_all" } else { "ipv6/icmp/echo_ignore_all" };
    let tracked = sysctl("netfilter/nf_conntrack_count").zip(sysctl("netfilter/nf_conntrack_max"));
    RouteInfo {
        interface: link.map(state),
        hardware_addresses: links.iter().filter_map(|link| link.mac.clone()).filter(|mac| mac.len() == 17).collect(),
        has_address: flags.map(|flags| flags.is_some()),
        detection: flags.flatten().and_then(detection),
        neighbour: next_hop.and_then(|(address, interface)| neighbour(address, &interface, &links)),
        routes,
        takes_arrivals: takes_arrivals.and_then(|link| takes_arrivals_at(local, peer, link.index)),
        reverse_path_filter: larger("rp_filter"),
        arp_ignore: larger("arp_ignore"),
        hops: hops.and_then(|hops| u8::try_from(hops).ok()),
        ignores_echo: sysctl(ignores).map(|value| value != 0),
        tracked_connections: tracked.map(|(used, of)| Usage { used, of }),
        descriptors: descriptors(),
    }
}

/// The interface by which packets to this address leave, and the Ethernet address of the next hop where the kernel knows it.
pub(crate) fn leaves_by(peer: IpAddr) -> Option<(String, Option<String>)> {
    let links = interfaces::links().ok()?;
    let unspecified = match peer {
        IpAddr::V4(_) => IpAddr::from([0; 4]),
        IpAddr::V6(_) => IpAddr::from([0; 16]),
    };
    let route = route(unspecified, peer, None, None, &links)?;
    let interface = route.interface?;
    let next_hop = neighbour(route.gateway.unwrap_or(peer), &interface, &links);
    Some((interface, next_hop.and_then(|neighbour| neighbour.mac)))
}

/// Where packets to an address go first, if that is not the address itself: a router.
pub(crate) struct Router {
    /// Its address on the link.
    pub(crate) address: IpAddr,
    /// Its Ethernet address, where the kernel knows it.
    pub(crate) mac: Option<String>,
}

/// The router between this address and the other; `None`: there is none, or the kernel knows no way.
pub(crate) fn router(local: IpAddr, peer: IpAddr) -> Option<Router> {
    let links = interfaces::links().ok()?;
    let route = route(local, peer, None, None, &links)?;
    let (address, interface) = (route.gateway?, route.interface?);
    let known = || neighbour(address, &interface, &links).and_then(|neighbour| neighbour.mac);
    let mut mac = known();
    let until = Instant::now() + ANSWERS_IN;
    if mac.is_none() && ask(address, &interface, &links).is_some() {
        while mac.is_none() && Instant::now() < until {
            thread::sleep(Duration::from_millis(5));
            mac = known();
        }
    }
    Some(Router { address, mac })
}

/// A router answers within this (RFC 4861 asks three times, a second apart).
const ANSWERS_IN: Duration = Duration::from_secs(3);
// linux/neighbour.h.
const NTF_USE: u8 = 1;

/// Has the kernel ask for a neighbour's Ethernet address, as if there was something to send; needs CAP_NET_ADMIN.
fn ask(address: IpAddr, interface: &str, links: &[Link]) -> Option<()> {
    let link = links.iter().find(|link| link.name == interface)?;
    // struct ndmsg: family, interface, state, flags.
    let mut request = vec![0; 12];
    request[0] = family(address);
    request[4..8].copy_from_slice(&link.index.to_ne_bytes());
    request[10] = NTF_USE;
    push_attribute(&mut request, NDA_DST, &octets(address));
    Netlink::route().ok()?.change(libc::RTM_NEWNEIGH, libc::NLM_F_CREATE as u16, &request).ok()
}

fn state(link: &Link) -> InterfaceState {
    let up = link.flags & libc::IFF_UP as u32 != 0;
    InterfaceState {
        name: link.name.clone(),
        up,
        carrier: up.then_some(link.carrier).flatten(),
        mtu: link.mtu,
        mac: link.mac.clone(),
        no_arp: Some(link.flags & libc::IFF_NOARP as u32 != 0),
    }
}

/// The request for a route: struct rtmsg, and what it is asked of.
fn route_request(from: IpAddr, to: IpAddr) -> Vec<u8> {
    let (source, destination) = (octets(from), octets(to));
    let bits = (destination.len() * 8) as u8;
    let mut request = vec![family(to), bits, bits, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    push_attribute(&mut request, RTA_DST, &destination);
    if from.is_unspecified() {
        request[2] = 0;
    } else {
        push_attribute(&mut request, RTA_SRC, &source);
    }
    request
}

/// How packets leave; `None`: the kernel does not say.
fn route(from: IpAddr, to: IpAddr, scope: Option<u32>, protocol: Option<Protocol>, links: &[Link]) -> Option<Route> {
    let mut request = route_request(from, to);
    if let Some(index) = scope {
        push_attribute(&mut request, RTA_OIF, &index.to_ne_bytes());
    }
    if let Some(protocol) = protocol {
        let number = match (protocol, to) {
            (Protocol::Echo, IpAddr::V4(_)) => libc::IPPROTO_ICMP,
            (Protocol::Echo, IpAddr::V6(_)) => libc::IPPROTO_ICMPV6,
            (Protocol::Udp, _) => libc::IPPROTO_UDP,
            (Protocol::Tcp, _) => libc::IPPROTO_TCP,
        };
        push_attribute(&mut request, RTA_IP_PROTO, &[number as u8]);
    }
    let mut found = None;
    let asked = Netlink::route().ok()?.request(libc::RTM_GETROUTE, 0, &request, |reply| {
        found = read_route(reply, protocol, links);
    });
    let refused = |kind| Some(Route { protocol, kind, interface: None, gateway: None, mtu: None });
    match asked.map_err(|error| error.raw_os_error()) {
        Ok(()) => found,
        Err(Some(libc::EINVAL)) => refused(RouteKind::Blackhole),
        Err(Some(libc::EHOSTUNREACH)) => refused(RouteKind::Unreachable),
        Err(Some(libc::EACCES)) => refused(RouteKind::Prohibit),
        Err(Some(libc::ENETUNREACH | libc::ESRCH)) => refused(RouteKind::None),
        Err(_) => None,
    }
}

fn read_route(reply: &[u8], protocol: Option<Protocol>, links: &[Link]) -> Option<Route> {
    let kind = match *reply.get(7)? {
        1 => RouteKind::Unicast,
        2 => RouteKind::Local,
        6 => RouteKind::Blackhole,
        7 => RouteKind::Unreachable,
        8 => RouteKind::Prohibit,
        _ => return None,
    };
    let mut route = Route { protocol, kind, interface: None, gateway: None, mtu: None };
    for (attribute, content) in attributes(reply.get(12..)?) {
        match attribute {
            RTA_OIF => {
                let index = content.first_chunk().map(|index| u32::from_ne_bytes(*index));
                route.interface = links.iter().find(|link| Some(link.index) == index).map(|link| link.name.clone());
            }
            RTA_GATEWAY => route.gateway = interfaces::ip_of(content),
            // An address behind its family's two octets.
            RTA_VIA => route.gateway = content.get(2..).and_then(interfaces::ip_of),
            RTA_METRICS => {
                let mtu = attributes(content).find(|(metric, _)| *metric == RTAX_MTU);
                route.mtu = mtu.and_then(|(_, value)| value.first_chunk().map(|value| u32::from_ne_bytes(*value)));
            }
            _ => {}
        }
    }
    Some(route)
}

/// Whether the kernel takes packets from there that arrive at this interface: its own look-up, reverse path filter
/// (RFC 3704) and martians included. `None`: it does not say.
fn takes_arrivals_at(local: IpAddr, peer: IpAddr, interface: u32) -> Option<bool> {
    let mut request = route_request(peer, local);
    push_attribute(&mut request, RTA_IIF, &interface.to_ne_bytes());
    let mut kind = None;
    let asked = Netlink::route().ok()?.request(libc::RTM_GETROUTE, 0, &request, |reply| kind = reply.get(7).copied());
    match asked.map_err(|error| error.raw_os_error()) {
        Ok(()) => (kind == Some(2)).then_some(true),
        // EXDEV is the filter's own; since Linux 6.14 whatever is refused is EINVAL.
        Err(Some(libc::EXDEV | libc::EINVAL)) => Some(false),
        Err(_) => None,
    }
}

/// The entry for this address at this interface.
pub(super) fn neighbour(address: IpAddr, interface: &str, links: &[Link]) -> Option<Neighbour> {
    let link = links.iter().find(|link| link.name == interface)?;
    if link.flags & (libc::IFF_LOOPBACK | libc::IFF_NOARP) as u32 != 0 {
        return None;
    }
    let mut request = vec![0; 12];
    request[0] = family(address);
    let wanted = octets(address);
    let mut found = Neighbour { address, interface: interface.to_owned(), mac: None, permanent: false };
    let asked = Netlink::route().ok()?.request(libc::RTM_GETNEIGH, libc::NLM_F_DUMP as u16, &request, |reply| {
        let index = reply.get(4..8).and_then(|octets| Some(u32::from_ne_bytes(octets.try_into().ok()?)));
        let state = reply.get(8..10).and_then(|octets| Some(u16::from_ne_bytes(octets.try_into().ok()?)));
        let (Some(index), Some(state), Some(rest)) = (index, state, reply.get(12..)) else { return };
        let is_it = attributes(rest).any(|(kind, content)| kind == NDA_DST && content == wanted);
        if !is_it || index != link.index {
            return;
        }
        found.permanent = state & NUD_PERMANENT != 0;
        if state & NUD_WITHOUT_ANSWER == 0 {
            let mac = attributes(rest).find(|(kind, content)| *kind == NDA_LLADDR && content.len() == 6);
            found.mac = mac.map(|(_, content)| interfaces::mac_text(content));
        }
    });
    asked.ok().map(|()| found)
}

/// The flags of an address at an interface, or at any where it is of no link, if it is there. `None`: the kernel does not say.
fn address_flags(local: IpAddr, interface: u32) -> Option<Option<u32>> {
    let mut request = vec![0; 8];
    request[0] = family(local);
    let wanted = octets(local);
    let mut found = None;
    Netlink::route()
        .ok()?
        .request(libc::RTM_GETADDR, libc::NLM_F_DUMP as u16, &request, |reply| {
            let (Some(header), Some(rest)) = (reply.get(..8), reply.get(8..)) else { return };
            let index = u32::from_ne_bytes([header[4], header[5], header[6], header[7]]);
            let is_address =
                |(kind, content): (u16, &[u8])| (kind == IFA_LOCAL || kind == IFA_ADDRESS) && content == wanted;
            // A router's own address is at its loopback, or is alone in its subnet.
            let is_of_no_link = || header[1] as usize == wanted.len() * 8 || index == LOOPBACK;
            if attributes(rest).any(is_address) && (index == interface || is_of_no_link()) {
                let wide = attributes(rest).find(|(kind, _)| *kind == IFA_FLAGS);
                let wide = wide.and_then(|(_, content)| content.first_chunk().map(|flags| u32::from_ne_bytes(*flags)));
                found = Some(wide.unwrap_or(header[2].into()));
            }
        })
        .ok()?;
    Some(found)
}

/// Waits while duplicate address detection of an address goes on, and no longer than this: until then nothing can be bound to it
/// (RFC 4862, section 5.4).
pub fn await_detection(local: IpAddr, interface: &str, at_most: Duration) {
    let Ok(index) = interfaces::number(interface) else { return };
    let until = Instant::now() + at_most;
    let goes_on = || address_flags(local, index).flatten().and_then(detection) == Some(Detection::Tentative);
    while local.is_ipv6() && Instant::now() < until && goes_on() {
        thread::sleep(Duration::from_millis(50));
    }
}

fn detection(flags: u32) -> Option<Detection> {
    match flags {
        flags if flags & IFA_F_DADFAILED != 0 => Some(Detection::Failed),
        flags if flags & IFA_F_TENTATIVE != 0 => Some(Detection::Tentative),
        _ => None,
    }
}

fn number(path: &str) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// proc_pid_limits(5): `Max open files            1024                 524288               files`.
fn descriptors() -> Option<Usage> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    let of = line.split_whitespace().next()?.parse().ok()?;
    // The one that reads the folder is among them.
    let used = fs::read_dir("/proc/self/fd").ok()?.count().saturating_sub(1) as u64;
    Some(Usage { used, of })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_to_oneself() {
        let here: IpAddr = "127.0.0.1".parse().unwrap();
        let way = route_info(here, here, Some("lo"));
        let lo = way.interface.unwrap();
        if !lo.up {
            return;
        }
        assert_eq!((lo.name.as_str(), way.routes[0].kind), ("lo", RouteKind::Local), "{:?}", way.routes);
        assert!(way.descriptors.is_some_and(|room| room.used < room.of), "{:?}", way.descriptors);
        assert_eq!((way.neighbour, way.detection, way.takes_arrivals), (None, None, None));
        assert!(way.hops.is_some_and(|hops| hops > 0));
    }

    #[test]
    fn a_route_s_answer_is_read_whatever_it_is() {
        for garbage in [&[][..], &[0; 7], &[1; 12], &[0xff; 40]] {
            assert_eq!(
                read_route(garbage, None, &[]).map(|route| route.kind),
                (garbage.len() == 12).then_some(RouteKind::Unicast)
            );
        }
    }
}
