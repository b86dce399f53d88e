//! By which of its interfaces this machine forwards to two others: a bridge by what it has learnt, a router by its routes.
//! Sends nothing.

use std::net::IpAddr;

use linerate_machine::end::{End, PerEnd};

use crate::interfaces::{self, Link};
use crate::netlink::{Netlink, attributes};
use crate::probe::leaves_by;

/// Another machine, as this one can know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndAddress {
    /// Its address.
    pub address: IpAddr,
    /// Its Ethernet address, where that is known.
    pub mac: Option<String>,
}

// linux/neighbour.h.
const NDA_LLADDR: u16 = 2;
const NDA_MASTER: u16 = 9;
/// struct ndmsg.
const HEADER_LEN: usize = 12;

/// The interfaces towards both, those that are known. `bridged`: the two are in one subnet, so that what passes here passes
/// through a bridge.
pub fn find(towards: &PerEnd<EndAddress>, bridged: bool) -> PerEnd<Option<String>> {
    let links = interfaces::links().unwrap_or_default();
    let learnt = learnt();
    let at = |mac: &str| port_of(mac, &learnt, &links);
    if bridged {
        let mut found = PerEnd::of(|end| towards[end].mac.as_deref().and_then(at));
        for end in End::BOTH {
            if found[end].is_none() {
                found[end] = found[end.other()].and_then(|known| only_other(known, &links));
            }
        }
        return PerEnd::of(|end| found[end].map(|link| link.name.clone()));
    }
    PerEnd::of(|end| {
        let EndAddress { address, mac } = &towards[end];
        let (interface, next_hop_mac) = leaves_by(*address)?;
        let is_bridge = links.iter().any(|link| link.name == interface && link.kind.as_deref() == Some("bridge"));
        let port = || mac.as_deref().and_then(at).or_else(|| at(next_hop_mac.as_deref()?));
        // A router whose side there is a bridge of several ports.
        Some(if is_bridge { port().map_or(interface, |link| link.name.clone()) } else { interface })
    })
}

/// The port of a bridge behind which it has learnt this Ethernet address.
fn port_of<'a>(mac: &str, learnt: &[(u32, String)], links: &'a [Link]) -> Option<&'a Link> {
    let (index, _) = learnt.iter().find(|(_, known)| known == mac)?;
    links.iter().find(|link| link.index == *index)
}

/// Of a bridge with two ports that are up, the one that is not this one.
fn only_other<'a>(port: &Link, links: &'a [Link]) -> Option<&'a Link> {
    let is_other =
        |link: &&Link| link.master == port.master && link.index != port.index && link.flags & libc::IFF_UP as u32 != 0;
    let others: Vec<&Link> = links.iter().filter(|_| port.master.is_some()).filter(is_other).collect();
    match others[..] {
        [other] => Some(other),
        _ => None,
    }
}

/// What the bridges here have learnt: the number of a port, and an Ethernet address behind it.
fn learnt() -> Vec<(u32, String)> {
    let mut found = Vec::new();
    let Ok(mut netlink) = Netlink::route() else { return found };
    let mut request = [0; HEADER_LEN];
    request[0] = libc::AF_BRIDGE as u8;
    // A kernel without bridges has learnt nothing.
    let _ = netlink.request(libc::RTM_GETNEIGH, libc::NLM_F_DUMP as u16, &request, |reply| {
        found.extend(read_learnt(reply));
    });
    found
}

fn read_learnt(reply: &[u8]) -> Option<(u32, String)> {
    let index = u32::from_ne_bytes(reply.get(4..8)?.try_into().ok()?);
    let rest = reply.get(HEADER_LEN..)?;
    // Without a bridge above it, it is an address that an interface listens to itself.
    attributes(rest).find(|(kind, _)| *kind == NDA_MASTER)?;
    let (_, mac) = attributes(rest).find(|(kind, content)| *kind == NDA_LLADDR && content.len() == 6)?;
    Some((index, interfaces::mac_text(mac)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::push_attribute;

    fn link(index: u32, name: &str, master: Option<u32>) -> Link {
        Link { index, name: name.to_owned(), master, flags: libc::IFF_UP as u32, ..Link::default() }
    }

    #[test]
    fn a_bridge_knows_a_port_by_what_it_has_learnt() {
        let mut reply = vec![0; HEADER_LEN];
        reply[4..8].copy_from_slice(&3u32.to_ne_bytes());
        push_attribute(&mut reply, NDA_LLADDR, &[2, 0, 0, 0, 0, 1]);
        // The interface's own.
        assert_eq!(read_learnt(&reply), None);
        push_attribute(&mut reply, NDA_MASTER, &9u32.to_ne_bytes());
        let learnt = [read_learnt(&reply).unwrap()];
        assert_eq!(learnt[0], (3, "02:00:00:00:00:01".to_owned()));
        for cut in 0..reply.len() {
            read_learnt(&reply[..cut]);
        }
        let two = [link(3, "p0", Some(9)), link(4, "p1", Some(9)), link(5, "eth0", None), link(9, "br0", None)];
        let port = port_of("02:00:00:00:00:01", &learnt, &two).unwrap();
        assert_eq!((port.name.as_str(), only_other(port, &two).unwrap().name.as_str()), ("p0", "p1"));
        assert!(port_of("02:00:00:00:00:02", &learnt, &two).is_none());
        let three = [two[0].clone(), two[1].clone(), link(6, "p2", Some(9))];
        assert!(only_other(&three[0], &three).is_none() && only_other(&two[2], &two).is_none());
    }

    #[test]
    fn the_way_to_this_machine_is_its_loopback() {
        let lo = || EndAddress { address: "127.0.0.1".parse().unwrap(), mac: None };
        let found = find(&PerEnd { target: lo(), host: lo() }, false);
        assert_eq!(found.target.as_deref(), Some("lo"));
        assert_eq!(find(&PerEnd { target: lo(), host: lo() }, true), PerEnd::default());
    }
}
