//! What stands on an interface, and what carries it: VLANs, macvlans, bridges, bonds, here and in other network
//! namespaces. Knows no settings.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::interfaces::{self, Link};
use crate::netlink::{Netlink, attributes, push_attribute};
use crate::{namespaces, sys};

/// An interface that another one hangs together with.
pub(super) struct RelatedInterface {
    pub(super) link: Link,
    /// It stands on the other one, directly or not: a VLAN of it, a bridge that it is a port of.
    pub(super) is_above: bool,
    /// It is a port of the other one.
    pub(super) is_port: bool,
}

/// All that hang together with an interface in this network namespace, the nearest first.
pub(super) fn of(interface: &str) -> io::Result<Vec<RelatedInterface>> {
    Ok(found(interfaces::links()?, interface))
}

fn found(mut links: Vec<Link>, interface: &str) -> Vec<RelatedInterface> {
    let Some(at) = links.iter().position(|link| link.name == interface) else { return Vec::new() };
    let mut known = vec![RelatedInterface { link: links.remove(at), is_above: true, is_port: false }];
    let mut next = 0;
    while let Some(near) = known.get(next) {
        let (index, lower, master) = (near.link.index, near.link.lower, near.link.master);
        let (above, first) = (near.is_above, next == 0);
        let (neighbours, rest): (Vec<Link>, Vec<Link>) = links.into_iter().partition(|link| {
            link.lower == Some(index) || link.master == Some(index) || [lower, master].contains(&Some(link.index))
        });
        links = rest;
        known.extend(neighbours.into_iter().map(|link| RelatedInterface {
            is_above: above && (link.lower == Some(index) || master == Some(link.index)),
            is_port: first && link.master == Some(index),
            link,
        }));
        next += 1;
    }
    known.remove(0);
    known
}

/// An interface of another network namespace that stands on one of this.
#[derive(Debug)]
pub(super) struct RemoteNamespaceInterface {
    pub(super) name: String,
    pub(super) kind: Option<String>,
    pub(super) mtu: u32,
    /// Something that leads to its namespace, such as /run/netns/NAME.
    pub(super) namespace: PathBuf,
}

/// What stands on an interface of this network namespace in others. `None`: not every namespace that an interface of this
/// one went to can be looked into.
///
/// No namespace lists what stands on its interfaces elsewhere: the link has a number of its own in each, and only the
/// upper one's namespace knows of it (IFLA_LINK and IFLA_LINK_NETNSID). So all namespaces are looked into.
pub(super) fn elsewhere(index: u32) -> io::Result<Option<Vec<RemoteNamespaceInterface>>> {
    let own = File::open("/proc/thread-self/ns/net")?;
    let (mut found, mut seen) = (Vec::new(), vec![id_of(&own)?]);
    let inode = own.metadata()?.ino();
    for (_, path) in namespaces::all().into_iter().filter(|(one, _)| *one != inode) {
        // One that is gone has nothing, and one that is hidden may be no concern of this one.
        let Ok(namespace) = File::open(&path) else { continue };
        let looked = std::thread::scope(|scope| {
            // A thread of its own: it does not come back.
            let look = || sys::namespace::enter(&path).and_then(|()| standing_on(&own, index, &path));
            let thread = std::thread::Builder::new().name("namespace".to_owned()).spawn_scoped(scope, look)?;
            thread
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("the thread that looks into a namespace ended early")))
        });
        if let Ok(looked) = looked {
            found.extend(looked);
            seen.push(id_of(&namespace)?);
        }
    }
    Ok(peers()?.into_iter().all(|peer| seen.contains(&Some(peer))).then_some(found))
}

// linux/net_namespace.h.
const RTM_GETNSID: u16 = 90;
const NETNSA_NSID: u16 = 1;
const NETNSA_FD: u16 = 3;

/// The interfaces of the calling thread's namespace whose link is number `index` of namespace `of`.
fn standing_on(of: &File, index: u32, namespace: &Path) -> io::Result<Vec<RemoteNamespaceInterface>> {
    // Without a number for it, nothing here stands on anything there.
    let Some(id) = id_of(of)? else { return Ok(Vec::new()) };
    let links = interfaces::links()?.into_iter().filter(|link| link.lower_elsewhere == Some((id, index)));
    Ok(links
        .map(|link| RemoteNamespaceInterface {
            name: link.name,
            kind: link.kind,
            mtu: link.mtu.unwrap_or(0),
            namespace: namespace.to_owned(),
        })
        .collect())
}

/// The number that the calling thread's namespace has for another one, if they know each other.
fn id_of(namespace: &File) -> io::Result<Option<i32>> {
    let mut request = vec![0; 4];
    push_attribute(&mut request, NETNSA_FD, &namespace.as_raw_fd().to_ne_bytes());
    Ok(ids(0, &request)?.into_iter().next())
}

/// The numbers of all that it knows: an interface came from there, or went.
fn peers() -> io::Result<Vec<i32>> {
    ids(libc::NLM_F_DUMP as u16, &[0; 4])
}

fn ids(flags: u16, request: &[u8]) -> io::Result<Vec<i32>> {
    let mut ids = Vec::new();
    Netlink::route()?.request(RTM_GETNSID, flags, request, |reply| {
        let content = attributes(reply.get(4..).unwrap_or_default()).find(|(kind, _)| *kind == NETNSA_NSID);
        ids.extend(content.and_then(|(_, id)| id.first_chunk().map(|id| i32::from_ne_bytes(*id))));
    })?;
    // -1 is none (NETNSA_NSID_NOT_ASSIGNED).
    ids.retain(|id| *id >= 0);
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ```text
    ///   vlan5 ── mac0      br0
    ///     │                 │ (port)
    ///    eth0 ──────────────┘        eth1
    /// ```
    #[test]
    fn what_hangs_together() {
        let link =
            |index, name: &str, lower, master| Link { index, name: name.to_owned(), lower, master, ..Link::default() };
        let links = || {
            vec![
                link(1, "eth0", None, Some(4)),
                link(2, "vlan5", Some(1), None),
                link(3, "mac0", Some(2), None),
                link(4, "br0", None, None),
                link(5, "eth1", None, None),
            ]
        };
        let check = |interface: &str, want: &[(&str, bool, bool)]| {
            let found = found(links(), interface);
            let got: Vec<_> = found.iter().map(|one| (one.link.name.as_str(), one.is_above, one.is_port)).collect();
            assert_eq!(got, want, "{interface}");
        };
        check("eth0", &[("vlan5", true, false), ("br0", true, false), ("mac0", true, false)]);
        check("br0", &[("eth0", false, true), ("vlan5", false, false), ("mac0", false, false)]);
        check("mac0", &[("vlan5", false, false), ("eth0", false, false), ("br0", false, false)]);
        check("eth1", &[]);
        check("none", &[]);
    }
}
