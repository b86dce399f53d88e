//! The way to the other end, as the kernel tells of its changes: the neighbour, routes, addresses, the interface's MTU and
//! hardware address (rtnetlink(7)).
//! Knows the addresses of the test traffic, and hears of no others.

use std::net::IpAddr;

use linerate_trial::event::EventKind;

use crate::interfaces::{Link, ip_of, link, mac_text};
use crate::netlink::{Netlink, Received, Subscription, attributes, family, octets, push_attribute};
use crate::sys;

/// What is watched.
pub struct Network {
    subscription: Subscription,
    index: Option<u32>,
    /// This machine's interface.
    own: Option<Link>,
    local: Address,
    peer: Address,
    /// The other end, and the router on the way there.
    neighbours: Vec<Neighbour>,
    /// How many bits the route has by which the other end is reached; a shorter one says nothing of it.
    route_bits: Option<u8>,
    router: Option<IpAddr>,
}

struct Address {
    address: IpAddr,
    /// Whether this machine has it.
    is_here: bool,
}

struct Neighbour {
    address: IpAddr,
    hardware: Option<String>,
    is_lost: bool,
}

/// What an event's length is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventLength {
    /// It has none.
    No,
    /// It begins here.
    Begins,
    /// It ends here.
    Ends,
}

/// A storm of messages is read in parts: as many reads a look, of a few messages each.
const MOST_READS: usize = 512;

// linux/rtnetlink.h.
const GROUPS: [u32; 6] = [1, 3, 5, 7, 9, 11];
const RTM_F_CLONED: u32 = 0x200;
const RTM_F_FIB_MATCH: u32 = 0x2000;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTN_UNICAST: u8 = 1;
const RTN_BLACKHOLE: u8 = 6;
const RTN_PROHIBIT: u8 = 8;
// linux/neighbour.h.
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
const NUD_REACHABLE: u16 = 0x02;
const NUD_STALE: u16 = 0x04;
const NUD_FAILED: u16 = 0x20;
const NUD_NOARP: u16 = 0x40;
const NUD_PERMANENT: u16 = 0x80;
// linux/if_addr.h.
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;

impl Network {
    /// Watches from now on; `None` where the kernel does not tell.
    pub fn watch(interface: Option<&str>, local: IpAddr, peer: IpAddr) -> Option<Network> {
        // Before anything is asked, so that nothing changes in between.
        let subscription = Subscription::route(&GROUPS).ok()?;
        let mut network = Network {
            subscription,
            index: interface.and_then(|interface| sys::netlink::interface_index(interface).ok()),
            own: interface.and_then(|interface| link(interface).ok()),
            local: Address { address: local, is_here: true },
            peer: Address { address: peer, is_here: local == peer },
            neighbours: Vec::new(),
            route_bits: None,
            router: None,
        };
        (network.route_bits, network.router) = network.ask_route();
        let router = network.router;
        let addresses = [Some(peer), router.filter(|router| *router != peer)];
        network.neighbours = addresses.into_iter().flatten().map(Neighbour::new).collect();
        network.ask_neighbours(&mut |_, _| ());
        Some(network)
    }

    /// Tells what has changed since the last time.
    pub fn look(&mut self, mut tell: impl FnMut(EventKind, EventLength)) {
        let Network { subscription, index, own, local, peer, neighbours, route_bits, .. } = self;
        let heard = subscription.drain(MOST_READS, |kind, message| match kind {
            libc::RTM_NEWLINK => {
                let told = Link::from_reply(message).filter(|told| *index == Some(told.index));
                if let (Some(own), Some(told)) = (own.as_mut(), told) {
                    handle_link(own, told, &mut tell);
                }
            }
            libc::RTM_NEWNEIGH => {
                if let Some(entry) = Entry::parse(message).filter(|entry| index.is_none_or(|own| own == entry.index)) {
                    neighbours.iter_mut().for_each(|one| one.handle_entry(&entry, &mut tell));
                }
            }
            libc::RTM_NEWADDR | libc::RTM_DELADDR => {
                let Some(address) = address_of(message) else { return };
                let is_here = kind == libc::RTM_NEWADDR;
                for one in [&mut *local, &mut *peer] {
                    // An address whose lifetime is renewed is told anew.
                    if one.address == address && one.is_here != is_here {
                        one.is_here = is_here;
                        let address = address.to_string();
                        tell(EventKind::AddressChanged { address, removed: !is_here }, EventLength::No);
                    }
                }
            }
            libc::RTM_NEWROUTE | libc::RTM_DELROUTE => {
                let Some(route) = Route::parse(message).filter(Route::is_real) else { return };
                let at_least = route_bits.unwrap_or(1);
                // A link-local address is everybody's, at an interface each.
                let is_elsewhere = is_link_local(peer.address) && index.is_some() && route.out != *index;
                if route.bits >= at_least && route.leads_to(peer.address) && !is_elsewhere {
                    let removed = kind == libc::RTM_DELROUTE;
                    tell(EventKind::RouteChanged { destination: route.text(), removed }, EventLength::No);
                }
            }
            _ => {}
        });
        if heard == Received::Missed {
            self.ask_neighbours(&mut tell);
            let now = self.ask_route();
            if now != (self.route_bits, self.router) {
                (self.route_bits, self.router) = now;
                let peer = self.peer.address;
                let destination = format!("{peer}/{}", bits_of(peer));
                tell(EventKind::RouteChanged { destination, removed: false }, EventLength::No);
            }
        }
    }

    /// Which way packets to the other end go: how many bits the route has, as far as that can be known, and the router, if
    /// there is one.
    fn ask_route(&self) -> (Option<u8>, Option<IpAddr>) {
        let peer = self.peer.address;
        let Ok(mut netlink) = Netlink::route() else { return (None, None) };
        let mut ask = |flags: u32| {
            // struct rtmsg: family, bits of destination and source, TOS, table, protocol, scope, type; flags.
            let mut request = vec![family(peer), bits_of(peer), 0, 0, 0, 0, 0, 0];
            request.extend(flags.to_ne_bytes());
            push_attribute(&mut request, RTA_DST, &octets(peer));
            if let Some(index) = self.index.filter(|_| is_link_local(peer)) {
                push_attribute(&mut request, RTA_OIF, &index.to_ne_bytes());
            }
            let mut route = None;
            let asked = netlink.request(libc::RTM_GETROUTE, 0, &request, |reply| route = Route::parse(reply));
            asked.ok().and(route)
        };
        let router = ask(0).and_then(|route| route.gateway);
        // A kernel before 4.20 knows no such question and answers the other: with all bits.
        let bits = ask(RTM_F_FIB_MATCH).map(|route| route.bits).filter(|bits| *bits < bits_of(peer));
        (bits, router)
    }

    fn ask_neighbours(&mut self, tell: &mut dyn FnMut(EventKind, EventLength)) {
        let (Some(index), Ok(mut netlink)) = (self.index, Netlink::route()) else { return };
        for neighbour in &mut self.neighbours {
            // struct ndmsg: family, padding; index; state, flags, type.
            let mut request = vec![family(neighbour.address), 0, 0, 0];
            request.extend(index.to_ne_bytes());
            request.extend([0; 4]);
            push_attribute(&mut request, NDA_DST, &octets(neighbour.address));
            let mut handle = |reply: &[u8]| {
                if let Some(entry) = Entry::parse(reply).filter(|entry| entry.index == index) {
                    neighbour.handle_entry(&entry, tell);
                }
            };
            // One entry is told since Linux 5.0, and all of them always.
            if let Err(error) = netlink.request(libc::RTM_GETNEIGH, 0, &request, &mut handle)
                && error.raw_os_error() == Some(libc::EOPNOTSUPP)
            {
                let _ = netlink.request(libc::RTM_GETNEIGH, libc::NLM_F_DUMP as u16, &request[..12], &mut handle);
            }
        }
    }
}

/// What of the interface is another than before; a link is described as a whole with every change of it.
fn handle_link(own: &mut Link, told: Link, tell: &mut dyn FnMut(EventKind, EventLength)) {
    let interface = || own.name.clone();
    if let (Some(from), Some(to)) = (own.mtu, told.mtu.filter(|to| own.mtu != Some(*to))) {
        tell(EventKind::MtuChanged { interface: interface(), from, to }, EventLength::No);
        own.mtu = told.mtu;
    }
    if let (Some(from), Some(to)) = (own.mac.clone(), told.mac.filter(|to| own.mac.as_ref() != Some(to))) {
        own.mac = Some(to.clone());
        tell(EventKind::HardwareChanged { interface: interface(), from, to }, EventLength::No);
    }
}

impl Neighbour {
    fn new(address: IpAddr) -> Neighbour {
        Neighbour { address, hardware: None, is_lost: false }
    }

    fn handle_entry(&mut self, entry: &Entry, tell: &mut dyn FnMut(EventKind, EventLength)) {
        if entry.address != self.address || entry.state & NUD_NOARP != 0 {
            return;
        }
        let address = self.address.to_string();
        if entry.state & NUD_FAILED != 0 {
            if !self.is_lost {
                tell(EventKind::NeighbourLost { address }, EventLength::Begins);
            }
            self.is_lost = true;
            return;
        }
        // While it is asked for, nothing is known.
        if self.is_lost && entry.state & (NUD_REACHABLE | NUD_STALE | NUD_PERMANENT) != 0 {
            tell(EventKind::NeighbourLost { address: address.clone() }, EventLength::Ends);
            self.is_lost = false;
        }
        let Some(to) = &entry.hardware else { return };
        if let Some(from) = self.hardware.replace(to.clone()).filter(|from| from != to) {
            tell(EventKind::NeighbourChanged { address, from, to: to.clone() }, EventLength::No);
        }
    }
}

/// An entry of the table of neighbours.
struct Entry {
    index: u32,
    state: u16,
    address: IpAddr,
    hardware: Option<String>,
}

impl Entry {
    /// struct ndmsg and attributes.
    fn parse(message: &[u8]) -> Option<Entry> {
        let index = u32::from_ne_bytes(*message.get(4..)?.first_chunk()?);
        let state = u16::from_ne_bytes(*message.get(8..)?.first_chunk()?);
        let (mut address, mut hardware) = (None, None);
        for (kind, content) in attributes(message.get(12..)?) {
            match kind {
                NDA_DST => address = ip_of(content),
                NDA_LLADDR if !content.is_empty() => hardware = Some(mac_text(content)),
                _ => {}
            }
        }
        Some(Entry { index, state, address: address?, hardware })
    }
}

/// The address that came or went: struct ifaddrmsg and attributes.
fn address_of(message: &[u8]) -> Option<IpAddr> {
    let (mut address, mut local) = (None, None);
    for (kind, content) in attributes(message.get(8..)?) {
        match kind {
            IFA_LOCAL => local = ip_of(content),
            IFA_ADDRESS => address = ip_of(content),
            _ => {}
        }
    }
    // On a point-to-point link IFA_ADDRESS is the other end's; IPv6 has only that.
    local.or(address)
}

/// A route.
struct Route {
    family: u8,
    bits: u8,
    kind: u8,
    flags: u32,
    destination: Option<IpAddr>,
    gateway: Option<IpAddr>,
    out: Option<u32>,
}

impl Route {
    /// struct rtmsg and attributes.
    fn parse(message: &[u8]) -> Option<Route> {
        let (family, bits, kind) = (*message.first()?, *message.get(1)?, *message.get(7)?);
        let flags = u32::from_ne_bytes(*message.get(8..)?.first_chunk()?);
        let mut route = Route { family, bits, kind, flags, destination: None, gateway: None, out: None };
        for (kind, content) in attributes(message.get(12..)?) {
            match kind {
                RTA_DST => route.destination = ip_of(content),
                RTA_GATEWAY => route.gateway = ip_of(content),
                RTA_OIF => route.out = content.first_chunk().map(|four| u32::from_ne_bytes(*four)),
                _ => {}
            }
        }
        Some(route)
    }

    /// No copy that the kernel keeps for itself, and none to this machine's own addresses: those are told as addresses.
    fn is_real(&self) -> bool {
        let is_way = self.kind == RTN_UNICAST || (RTN_BLACKHOLE..=RTN_PROHIBIT).contains(&self.kind);
        is_way && self.flags & RTM_F_CLONED == 0
    }

    /// Whether an address is among its destinations. One without a destination leads everywhere.
    fn leads_to(&self, address: IpAddr) -> bool {
        let Some(destination) = self.destination else { return self.bits == 0 && self.family == family(address) };
        let (one, other) = (octets(destination), octets(address));
        let bits = usize::from(self.bits);
        one.len() == other.len()
            && bits <= 8 * one.len()
            && (0..bits).all(|bit| (one[bit / 8] ^ other[bit / 8]) & (0x80 >> (bit % 8)) == 0)
    }

    fn text(&self) -> String {
        self.destination.map_or_else(|| "default".to_owned(), |address| format!("{address}/{}", self.bits))
    }
}

const fn bits_of(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

const fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(six) if six.is_unicast_link_local())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(destination: Option<&str>, bits: u8) -> Route {
        let destination = destination.map(|text| text.parse().unwrap());
        let family = destination.map_or(libc::AF_INET as u8, family);
        Route { family, bits, kind: RTN_UNICAST, flags: 0, destination, gateway: None, out: None }
    }

    #[test]
    fn a_route_leads_to_what_its_bits_say() {
        for (destination, bits, address, want) in [
            (Some("198.18.0.0"), 24, "198.18.0.7", true),
            (Some("198.18.0.0"), 24, "198.18.1.7", false),
            (Some("198.18.0.0"), 23, "198.18.1.7", true),
            (Some("198.18.0.7"), 32, "198.18.0.7", true),
            (Some("198.18.0.7"), 33, "198.18.0.7", false),
            (Some("0.0.0.0"), 0, "198.18.0.7", true),
            (None, 0, "198.18.0.7", true),
            (None, 0, "fe80::1", false),
            (Some("fe80::"), 64, "fe80::1", true),
            (Some("fe80::"), 64, "198.18.0.7", false),
        ] {
            assert_eq!(
                route(destination, bits).leads_to(address.parse().unwrap()),
                want,
                "{destination:?} {bits} {address}"
            );
        }
    }

    #[test]
    fn a_neighbour_is_lost_once_and_found_once() {
        let mut neighbour = Neighbour::new("198.18.0.7".parse().unwrap());
        let mut told = Vec::new();
        let mut handle = |state, hardware: Option<&str>| {
            let entry = Entry { index: 1, state, address: neighbour.address, hardware: hardware.map(str::to_owned) };
            neighbour.handle_entry(&entry, &mut |what, lasts| told.push((what.name(), lasts)));
        };
        handle(NUD_REACHABLE, Some("a"));
        handle(NUD_STALE, Some("a"));
        handle(NUD_FAILED, None);
        handle(0x01, None);
        handle(NUD_FAILED, None);
        handle(NUD_REACHABLE, Some("b"));
        handle(NUD_STALE, Some("b"));
        let want = [
            ("neighbour-lost", EventLength::Begins),
            ("neighbour-lost", EventLength::Ends),
            ("neighbour-changed", EventLength::No),
        ];
        assert_eq!(told, want);
    }

    #[test]
    fn garbage_is_nothing() {
        for len in 0..64 {
            for octet in [0, 0xff, 4] {
                let message = vec![octet; len];
                let _ = (Entry::parse(&message), Route::parse(&message), address_of(&message));
            }
        }
    }
}
