//! Which addresses the test traffic uses: a subnet that both ends share, else the way the target is reached.
//! Knows what both machines say of their addresses; asks nobody.

use std::net::IpAddr;

use linerate_control::message::Address;
use linerate_machine::prefix::Prefix;
use linerate_results::join::Route;
use linerate_trial::spec::Ip;

/// What one machine says of itself.
#[derive(Clone, Debug)]
pub(crate) struct Reach {
    /// Its addresses.
    pub(crate) addresses: Vec<Address>,
    /// Where the controller reached it: told by SSH, or by the endpoint.
    pub(crate) reached_at: Option<IpAddr>,
    /// What the user said.
    pub(crate) given: Option<IpAddr>,
    /// Both ends are one machine (one network namespace), and share its loopback.
    pub(crate) is_one: bool,
}

/// Finds the route for this Internet Protocol; `None`: IPv4 if there is one, else IPv6. The error is one
/// sentence.
pub(crate) fn find(target: &Reach, host: &Reach, ip: Option<Ip>) -> Result<Route, String> {
    match ip {
        Some(ip) => of_version(target, host, ip),
        None => of_version(target, host, Ip::V4).or_else(|first| {
            // The sentence about IPv4 is the one that people can use, unless IPv6 was all there was.
            of_version(target, host, Ip::V6).map_err(|_| first)
        }),
    }
}

fn of_version(target: &Reach, host: &Reach, ip: Ip) -> Result<Route, String> {
    let version = |address: &IpAddr| address.is_ipv4() == (ip == Ip::V4);
    let name = if ip == Ip::V4 { "IPv4" } else { "IPv6" };
    for (reach, machine) in [(target, "target"), (host, "host")] {
        if let Some(given) = reach.given
            && !reach.addresses.iter().any(|one| one.address == given)
        {
            return Err(format!("the {machine} has no address {given}; it has {}", list(&reach.addresses)));
        }
    }
    let candidates = |reach: &Reach| -> Vec<Address> {
        let mut found: Vec<Address> = reach
            .addresses
            .iter()
            .filter(|one| one.up && version(&one.address) && !is_link_local(&one.address))
            .filter(|one| reach.given.is_none_or(|given| one.address == given))
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
    if let (Some(target), Some(host)) = (target.given, host.given)
        && version(&target)
        && version(&host)
    {
        return Ok(Route { target, host });
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

/// Addresses of one link only need an interface beside them to be used; they are left out.
fn is_link_local(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

fn same_subnet(a: &Address, b: &Address) -> bool {
    a.prefix_len == b.prefix_len && Prefix::new(a.address, a.prefix_len).contains(b.address)
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

    fn reach(addresses: &[&str]) -> Reach {
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
        Reach { addresses, reached_at: None, given: None, is_one: false }
    }

    #[track_caller]
    fn check(target: &Reach, host: &Reach, ip: Option<Ip>, want: Option<(&str, &str)>) {
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
        host.given = Some("10.0.9.1".parse().unwrap());
        check(&target, &host, None, Some(("10.0.1.2", "10.0.9.1")));
        target.given = Some("10.0.5.5".parse().unwrap());
        let sentence = find(&target, &host, None).unwrap_err();
        assert!(sentence.contains("the target has no address 10.0.5.5; it has 10.0.0.2/24 on eth0"), "{sentence}");
    }
}
