//! Which addresses the test traffic uses: a subnet that both ends share, else the way the target is reached.
//! Knows what both machines say of their addresses; asks nobody.

use std::net::IpAddr;
use std::str::FromStr;

use linerate_control::message::Address;
use linerate_machine::end::{End, PerEnd};
use linerate_machine::prefix::Prefix;
use linerate_results::join::Route;
use linerate_trial::spec::Ip;

/// What one machine says of itself.
#[derive(Clone, Debug)]
pub(crate) struct Reachability {
    /// Its addresses.
    pub(crate) addresses: Vec<Address>,
    /// Where the controller reached it: told by SSH, or by the endpoint.
    pub(crate) reached_at: Option<IpAddr>,
    /// What the user said.
    pub(crate) given: Option<GivenAddress>,
    /// Both ends are one machine (one network namespace), and share its loopback.
    pub(crate) is_one: bool,
}

/// An address that the user gives: `10.0.0.2`, `fe80::1`, or `fe80::1%eth0`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GivenAddress {
    pub(crate) address: IpAddr,
    /// The interface that a link-local one is meant at: of the machine that has it or, as ping takes it, of the other.
    pub(crate) zone: Option<String>,
}

impl FromStr for GivenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<GivenAddress, String> {
        let (address, zone) = match text.split_once('%') {
            Some((address, zone)) => (address, Some(zone.to_owned())),
            None => (text, None),
        };
        let given = address.parse().map(|address| GivenAddress { address, zone });
        match given {
            Ok(given) if given.zone.is_none() || is_link_local(&given.address) => Ok(given),
            Ok(_) => Err(format!("only a link-local address has an interface; write {address}")),
            Err(_) => Err("write an IP address, like 10.0.0.2, 2001:db8::2 or fe80::2%eth0".to_owned()),
        }
    }
}

/// The link-local addresses of a trial, and the interfaces that they are meant at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OnOneLink {
    pub(crate) route: Route,
    pub(crate) interfaces: PerEnd<String>,
}

/// The link that a link-local address given by the user is meant on; `None`: the user gave none.
pub(crate) fn on_one_link(target: &Reachability, host: &Reachability) -> Option<Result<OnOneLink, String>> {
    let given = |reach: &Reachability| {
        reach.given.clone().filter(|given| given.address.is_ipv6() && is_link_local(&given.address))
    };
    let (of_target, of_host) = (given(target), given(host));
    if of_target.is_none() && of_host.is_none() {
        return None;
    }
    Some(the_link([(End::Target, target, of_target), (End::Host, host, of_host)]))
}

/// Pairs of interfaces, one of each machine, with link-local addresses: there must be one pair that can be meant.
fn the_link(ends: [(End, &Reachability, Option<GivenAddress>); 2]) -> Result<OnOneLink, String> {
    let zones: Vec<&str> = ends.iter().filter_map(|(.., given)| given.as_ref()?.zone.as_deref()).collect();
    let mut candidates: Vec<Vec<&Address>> = Vec::new();
    for (end, reach, given) in &ends {
        let up = reach.addresses.iter().filter(|one| one.up && one.address.is_ipv6() && is_link_local(&one.address));
        let is_it = |one: &&Address| given.as_ref().is_none_or(|given| given.address == one.address);
        let found: Vec<&Address> = up.filter(is_it).collect();
        if found.is_empty() {
            let wanted =
                given.as_ref().map_or("link-local address".to_owned(), |given| format!("address {}", given.address));
            return Err(format!(
                "the {end} has no {wanted} at an interface that is up; it has {}",
                list(&reach.addresses)
            ));
        }
        candidates.push(found);
    }
    if let Some(zone) = zones.iter().find(|zone| !candidates.iter().flatten().any(|one| one.interface == **zone)) {
        return Err(format!(
            "neither end has a link-local address at an interface {zone}; 'ip -6 address' shows those there are"
        ));
    }
    let mut pairs: Vec<(&Address, &Address)> = Vec::new();
    for target in &candidates[0] {
        for host in &candidates[1] {
            let has = |zone: &&str| target.interface == *zone || host.interface == *zone;
            if zones.iter().all(has) {
                pairs.push((target, host));
            }
        }
    }
    // Of several, those whose interfaces share a subnet are on one link.
    if pairs.len() > 1 {
        let shares = |(target, host): &(&Address, &Address)| {
            let at = |reach: &Reachability, interface: &str| -> Vec<Address> {
                reach
                    .addresses
                    .iter()
                    .filter(|one| one.interface == interface && !is_link_local(&one.address))
                    .cloned()
                    .collect()
            };
            let (of_target, of_host) = (at(ends[0].1, &target.interface), at(ends[1].1, &host.interface));
            of_target.iter().any(|t| of_host.iter().any(|h| same_subnet(t, h)))
        };
        let sharing: Vec<_> = pairs.iter().copied().filter(shares).collect();
        if !sharing.is_empty() {
            pairs = sharing;
        }
    }
    match pairs[..] {
        [(target, host)] => Ok(OnOneLink {
            route: Route { target: target.address, host: host.address },
            interfaces: PerEnd { target: target.interface.clone(), host: host.interface.clone() },
        }),
        _ => {
            let address = ends.iter().find_map(|(.., given)| Some(given.as_ref()?.address)).map(|one| one.to_string());
            let links: Vec<String> =
                pairs.iter().map(|(t, h)| format!("{} and {}", t.interface, h.interface)).collect();
            Err(format!(
                "{0} can be meant at several interfaces (target and host: {1}); say which, as {0}%{2}, or give both addresses",
                address.unwrap_or_default(),
                links.join(", "),
                pairs.first().map_or("eth0", |(_, host)| host.interface.as_str())
            ))
        }
    }
}

/// Finds the route for this Internet Protocol; `None`: IPv4 if there is one, else IPv6. The error is one
/// sentence.
pub(crate) fn find(target: &Reachability, host: &Reachability, ip: Option<Ip>) -> Result<Route, String> {
    if let Some(link) = on_one_link(target, host) {
        return match ip {
            Some(Ip::V4) => Err("a link-local address is one of IPv6; leave ip out, or choose ip=6".to_owned()),
            _ => link.map(|link| link.route),
        };
    }
    match ip {
        Some(ip) => of_version(target, host, ip),
        None => of_version(target, host, Ip::V4).or_else(|first| {
            // The sentence about IPv4 is the one that people can use, unless IPv6 was all there was.
            of_version(target, host, Ip::V6).map_err(|_| first)
        }),
    }
}

/// The route between two ends that a router stands between: each has an address in a subnet of another one of its
/// interfaces. `None`: it has none in common with both.
pub(crate) fn through(target: &Reachability, host: &Reachability, router: &[Address], ip: Option<Ip>) -> Option<Route> {
    let of = |reach: &Reachability| -> Vec<(IpAddr, String)> {
        let is_usable = |one: &&Address| {
            one.up
                && !one.loopback
                && !is_link_local(&one.address)
                && ip.is_none_or(|ip| one.address.is_ipv4() == (ip == Ip::V4))
                && reach.given_address().is_none_or(|given| one.address == given)
        };
        let usable = reach.addresses.iter().filter(is_usable);
        let beside = |one: &Address| {
            let near = router.iter().find(|its| its.up && its.address != one.address && same_subnet(its, one))?;
            Some((one.address, near.interface.clone()))
        };
        usable.filter_map(beside).collect()
    };
    let (of_target, of_host) = (of(target), of(host));
    let pairs = of_target.iter().flat_map(|target| of_host.iter().map(move |host| (target, host)));
    let mut apart = pairs.filter(|(target, host)| target.1 != host.1 && target.0.is_ipv4() == host.0.is_ipv4());
    apart.next().map(|(target, host)| Route { target: target.0, host: host.0 })
}

/// Whether these addresses of both ends are in one subnet.
pub(crate) fn is_one_subnet(target: &Reachability, host: &Reachability, route: Route) -> bool {
    let at = |reach: &Reachability, address| reach.addresses.iter().find(|one| one.address == address).cloned();
    at(target, route.target).zip(at(host, route.host)).is_some_and(|(target, host)| same_subnet(&target, &host))
}

fn of_version(target: &Reachability, host: &Reachability, ip: Ip) -> Result<Route, String> {
    let version = |address: &IpAddr| address.is_ipv4() == (ip == Ip::V4);
    let name = if ip == Ip::V4 { "IPv4" } else { "IPv6" };
    for (reach, machine) in [(target, "target"), (host, "host")] {
        if let Some(given) = reach.given_address()
            && !reach.addresses.iter().any(|one| one.address == given)
        {
            return Err(format!("the {machine} has no address {given}; it has {}", list(&reach.addresses)));
        }
    }
    let candidates = |reach: &Reachability| -> Vec<Address> {
        let mut found: Vec<Address> = reach
            .addresses
            .iter()
            .filter(|one| one.up && version(&one.address) && !is_link_local(&one.address))
            .filter(|one| reach.given_address().is_none_or(|given| one.address == given))
            .cloned()
            .collect();
        // A loopback address reaches no other machine; it serves where there is nothing else.
        found.sort_by_key(|one| one.loopback);
        found
    };
    let (of_target, of_host) = (candidates(target), candidates(host));
    let shared = |loopback: bool| {
        of_target.iter().filter(|t| t.loopback == loopback).find_map(|t| {
            of_host
                .iter()
                .find(|h| h.loopback == loopback && same_subnet(t, h) && (h.address != t.address || loopback))
                .map(|h| Route { target: t.address, host: h.address })
        })
    };
    if let Some(route) = shared(false) {
        return Ok(route);
    }
    // Both given: the user knows of a router between them.
    if let (Some(target), Some(host)) = (target.given_address(), host.given_address())
        && version(&target)
        && version(&host)
    {
        return Ok(Route { target, host });
    }
    // One given, and the other machine has one address that can be meant.
    if target.given.is_some() || host.given.is_some() {
        let alone = |of: &[Address]| match of.iter().filter(|one| !one.loopback).collect::<Vec<_>>()[..] {
            [one] => Some(one.address),
            _ => None,
        };
        if let (Some(target), Some(host)) = (alone(&of_target), alone(&of_host)) {
            return Ok(Route { target, host });
        }
    }
    let reached = target.reached_at.filter(version).filter(|at| of_target.iter().any(|one| one.address == *at));
    if let (Some(target), Some(host)) = (reached, of_host.iter().find(|one| !one.loopback)) {
        return Ok(Route { target, host: host.address });
    }
    if target.is_one
        && host.is_one
        && let Some(route) = shared(true)
    {
        return Ok(route);
    }
    let down = [(target, "target"), (host, "host")].into_iter().flat_map(|(reach, machine)| {
        let of_version = reach.addresses.iter().filter(|one| !one.up && version(&one.address));
        of_version.map(move |one| format!("bring the {machine}'s {0} up there: ip link set {0} up", one.interface))
    });
    let down: Vec<String> = down.collect();
    let masks = of_target.iter().find_map(|t| {
        let near = |h: &&Address| h.prefix_len != t.prefix_len && !t.loopback && !h.loopback && has_both(t, h);
        of_host.iter().find(near).map(|h| (t, h))
    });
    if let Some((target, host)) = masks {
        return Err(format!(
            "the prefix lengths of both ends differ, so that they share no {name} subnet: the target has {}/{} on {}, the host \
             has {}/{} on {}; give both the same",
            target.address, target.prefix_len, target.interface, host.address, host.prefix_len, host.interface
        ));
    }
    // Without the one that is down they would share one.
    let would = |t: &&Address| host.addresses.iter().any(|h| same_subnet(t, h) && h.address != t.address);
    let apart = |t: &&Address| !(t.up && t.loopback) && version(&t.address);
    if let Some(near) = target.addresses.iter().filter(apart).find(would).filter(|_| !down.is_empty()) {
        return Err(format!(
            "the {name} subnet that target and host share, {}/{}, is on a link that is down: the target has {}, the host has {}; {}",
            near.address,
            near.prefix_len,
            list(&target.addresses),
            list(&host.addresses),
            down.join(", ")
        ));
    }
    let next = if down.is_empty() {
        "give both ends addresses in one subnet, or say which to use with --target-address and --host-address"
            .to_owned()
    } else {
        down.join(", ")
    };
    Err(format!(
        "target and host share no {name} subnet: the target has {}, the host has {}; {next}",
        list(&target.addresses),
        list(&host.addresses)
    ))
}

impl Reachability {
    fn given_address(&self) -> Option<IpAddr> {
        self.given.as_ref().map(|given| given.address)
    }
}

/// Addresses of one link only need an interface beside them to be used; they are left out unless the user gives one.
fn is_link_local(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

fn same_subnet(a: &Address, b: &Address) -> bool {
    a.prefix_len == b.prefix_len && Prefix::new(a.address, a.prefix_len).contains(b.address)
}

/// One of the two subnets has both addresses.
fn has_both(a: &Address, b: &Address) -> bool {
    let shortest = a.prefix_len.min(b.prefix_len);
    Prefix::new(a.address, shortest).contains(b.address)
}

fn list(addresses: &[Address]) -> String {
    let mut texts: Vec<String> = addresses
        .iter()
        .filter(|one| !one.loopback)
        .map(|one| {
            let down = if one.up { "" } else { " (down)" };
            format!("{}/{} on {}{down}", one.address, one.prefix_len, one.interface)
        })
        .collect();
    if texts.is_empty() {
        texts.push("none but loopback".to_owned());
    }
    texts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reach(addresses: &[&str]) -> Reachability {
        let addresses = addresses
            .iter()
            .map(|text| {
                let (address, prefix) = text.trim_end_matches('!').split_once('/').unwrap();
                let address: IpAddr = address.parse().unwrap();
                Address {
                    interface: if address.is_loopback() { "lo" } else { "eth0" }.to_owned(),
                    address,
                    prefix_len: prefix.parse().unwrap(),
                    up: !text.ends_with('!'),
                    loopback: address.is_loopback(),
                }
            })
            .collect();
        Reachability { addresses, reached_at: None, given: None, is_one: false }
    }

    #[track_caller]
    fn check(target: &Reachability, host: &Reachability, ip: Option<Ip>, want: Option<(&str, &str)>) {
        let found = find(target, host, ip);
        match want {
            Some((target, host)) => {
                let route = Route { target: target.parse().unwrap(), host: host.parse().unwrap() };
                assert_eq!(found, Ok(route));
            }
            None => assert!(found.is_err(), "{found:?}"),
        }
    }

    #[test]
    fn a_shared_subnet_is_found() {
        let target = reach(&["127.0.0.1/8", "10.0.0.2/24", "192.168.7.2/24", "2001:db8::2/64", "fe80::2/64"]);
        let host = reach(&["127.0.0.1/8", "172.16.0.1/16", "192.168.7.1/24", "2001:db8::1/64", "fe80::1/64"]);
        check(&target, &host, None, Some(("192.168.7.2", "192.168.7.1")));
        check(&target, &host, Some(Ip::V6), Some(("2001:db8::2", "2001:db8::1")));
        let down = reach(&["192.168.7.1/24!"]);
        check(&target, &down, None, None);
        let sentence = find(&target, &down, None).unwrap_err();
        assert!(sentence.ends_with("(down); bring the host's eth0 up there: ip link set eth0 up"), "{sentence}");
    }

    #[test]
    fn a_router_is_on_a_subnet_of_each_end() {
        let (target, host) = (reach(&["127.0.0.1/8", "10.0.2.2/24"]), reach(&["127.0.0.1/8", "10.0.1.2/24"]));
        let router = at(&["lo 127.0.0.1/8", "p1 10.0.2.1/24", "p0 10.0.1.1/24"], None).addresses;
        let found = through(&target, &host, &router, None).unwrap();
        assert_eq!([found.target, found.host], ["10.0.2.2", "10.0.1.2"].map(|ip| ip.parse::<IpAddr>().unwrap()));
        assert!(!is_one_subnet(&target, &host, found));
        assert_eq!(through(&target, &host, &router, Some(Ip::V6)), None);
        // One that has no interface towards the host.
        assert_eq!(through(&target, &host, &router[..2], None), None);
    }

    #[test]
    fn a_wrong_netmask_is_said() {
        let (target, host) = (reach(&["10.0.0.130/25"]), reach(&["10.0.0.1/24"]));
        let sentence = find(&target, &host, None).unwrap_err();
        assert!(sentence.starts_with("the prefix lengths of both ends differ"), "{sentence}");
        assert!(find(&reach(&["10.9.0.2/24"]), &host, None).unwrap_err().starts_with("target and host share no IPv4"));
    }

    #[test]
    fn ipv6_serves_where_ipv4_does_not() {
        let (target, host) = (reach(&["2001:db8::2/64"]), reach(&["10.0.0.1/8", "2001:db8::1/64"]));
        check(&target, &host, None, Some(("2001:db8::2", "2001:db8::1")));
        check(&target, &host, Some(Ip::V4), None);
    }

    #[test]
    fn the_way_the_target_is_reached_serves_where_no_subnet_is_shared() {
        let mut target = reach(&["127.0.0.1/8", "203.0.113.9/24"]);
        let host = reach(&["127.0.0.1/8", "10.0.0.1/8"]);
        check(&target, &host, None, None);
        target.reached_at = Some("203.0.113.9".parse().unwrap());
        check(&target, &host, None, Some(("203.0.113.9", "10.0.0.1")));
    }

    #[test]
    fn loopback_only_between_a_machine_and_itself() {
        let mut here = reach(&["127.0.0.1/8", "::1/128"]);
        check(&here, &here, None, None);
        here.is_one = true;
        check(&here, &here, None, Some(("127.0.0.1", "127.0.0.1")));
        check(&here, &here, Some(Ip::V6), Some(("::1", "::1")));
    }

    #[test]
    fn what_the_user_says_is_used_or_refused() {
        let mut target = reach(&["10.0.0.2/24", "10.0.1.2/24"]);
        let mut host = reach(&["10.0.0.1/24", "10.0.9.1/24"]);
        target.given = Some("10.0.1.2".parse().unwrap());
        check(&target, &host, None, None);
        check(&target, &reach(&["127.0.0.1/8", "10.0.9.1/24"]), None, Some(("10.0.1.2", "10.0.9.1")));
        host.given = Some("10.0.9.1".parse().unwrap());
        check(&target, &host, None, Some(("10.0.1.2", "10.0.9.1")));
        target.given = Some("10.0.5.5".parse().unwrap());
        let sentence = find(&target, &host, None).unwrap_err();
        assert!(sentence.contains("the target has no address 10.0.5.5; it has 10.0.0.2/24 on eth0"), "{sentence}");
    }

    /// Addresses as `interface address/prefix`.
    fn at(addresses: &[&str], given: Option<&str>) -> Reachability {
        let mut made = reach(&addresses.iter().map(|one| one.split_once(' ').unwrap().1).collect::<Vec<_>>());
        for (made, written) in made.addresses.iter_mut().zip(addresses) {
            made.interface = written.split_once(' ').unwrap().0.to_owned();
        }
        made.given = given.map(|given| given.parse().unwrap());
        made
    }

    /// Which interfaces are meant, or a part of the sentence why none is.
    #[track_caller]
    fn check_link(target: &Reachability, host: &Reachability, want: Result<[&str; 2], &str>) {
        match (on_one_link(target, host).unwrap(), want) {
            (Ok(found), Ok(want)) => assert_eq!([found.interfaces.target, found.interfaces.host], want),
            (Err(sentence), Err(part)) => assert!(sentence.contains(part), "{sentence}"),
            (found, _) => panic!("{found:?}"),
        }
    }

    #[test]
    fn a_link_local_address_is_meant_on_one_link() {
        let board = |given| at(&["end0 10.0.0.2/24", "end0 fe80::1/64"], Some(given));
        let one = at(&["eth0 10.0.0.1/24", "eth0 fe80::9/64"], None);
        check_link(&board("fe80::1"), &one, Ok(["end0", "eth0"]));
        check_link(&board("fe80::1%end0"), &one, Ok(["end0", "eth0"]));
        check_link(&board("fe80::1%eth0"), &one, Ok(["end0", "eth0"]));
        check_link(&board("fe80::1%eth7"), &one, Err("neither end has a link-local address at an interface eth7"));
        check_link(&board("fe80::5"), &one, Err("the target has no address fe80::5 at an interface that is up"));
        assert_eq!(find(&board("fe80::1"), &one, None).unwrap().host, "fe80::9".parse::<IpAddr>().unwrap());
        assert!(find(&board("fe80::1"), &one, Some(Ip::V4)).unwrap_err().contains("ip=6"));
        // A second interface, which another subnet tells apart, or nothing.
        let two = at(&["wlan0 10.9.0.1/24", "wlan0 fe80::8/64", "eth0 10.0.0.1/24", "eth0 fe80::9/64"], None);
        check_link(&board("fe80::1"), &two, Ok(["end0", "eth0"]));
        check_link(&board("fe80::1%wlan0"), &two, Ok(["end0", "wlan0"]));
        let bare = at(&["wlan0 fe80::8/64", "eth0 fe80::9/64"], None);
        check_link(
            &board("fe80::1"),
            &bare,
            Err("several interfaces (target and host: end0 and wlan0, end0 and eth0)"),
        );
        assert!("10.0.0.1%eth0".parse::<GivenAddress>().unwrap_err().contains("only a link-local"));
    }
}
