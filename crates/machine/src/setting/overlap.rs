//! Names of settings that speak of one thing: setting one of them sets the other.
//! Knows names only. What else a change touches on a machine, the machine says.

use std::fmt;

use super::place::SettingPlace;
use super::{SettingInfo, find};
use crate::pattern::fits_stars;

/// Two settings of one machine that are one thing, so that setting both leaves what the second says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overlap {
    /// The first.
    pub one: String,
    /// The second.
    pub other: String,
    what: Option<&'static str>,
}

impl fmt::Display for Overlap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Overlap { one, other, what } = self;
        match what {
            Some(what) => write!(f, "{one} and {other} both set {what}"),
            None => write!(f, "{one} and {other} set the same thing; leave one of them out"),
        }
    }
}

/// The first two of these settings of one machine and interface that are one thing.
pub fn among<'n>(names: impl IntoIterator<Item = &'n str>) -> Option<Overlap> {
    let names: Vec<&str> = names.into_iter().collect();
    let mut pairs =
        names.iter().enumerate().flat_map(|(at, one)| names[at + 1..].iter().map(move |other| (*one, *other)));
    pairs.find_map(|(one, other)| between(one, other))
}

/// Whether two different names are of one thing.
pub fn between(one: &str, other: &str) -> Option<Overlap> {
    if one == other {
        return None;
    }
    let (of_one, of_other) = (find(one).ok()?, find(other).ok()?);
    let (is_same, what) = match (of_one.place, of_other.place) {
        (SettingPlace::LinkModes, SettingPlace::LinkModes) => (true, Some(LINK_MODES)),
        (SettingPlace::Files(_), SettingPlace::Files(_)) => {
            let is_all = |of: &SettingInfo, name| of.rest_of(name) == Some("all");
            let is_one_or_all = of_one.name == of_other.name && of_one.is_one_or_all();
            (is_one_or_all && (is_all(of_one, one) || is_all(of_other, other)), None)
        }
        (SettingPlace::Features(of), SettingPlace::Features(and)) => (
            match (of.pattern, and.pattern) {
                (Some(pattern), None) => covers(pattern, of_other.rest_of(other)?),
                (None, Some(pattern)) => covers(pattern, of_one.rest_of(one)?),
                _ => false,
            },
            None,
        ),
        (SettingPlace::Sysctl(of), SettingPlace::Sysctl(and)) => {
            (one_sysctl(of.or(of_one.rest_of(one))?, and.or(of_other.rest_of(other))?), None)
        }
        _ => (false, None),
    };
    is_same.then(|| Overlap { one: one.to_owned(), other: other.to_owned(), what })
}

/// `speed`, `duplex` and `autoneg` are three views of this.
const LINK_MODES: &str =
    "the modes that the link offers; write both in one, as 'forced 100 full' or 'advertise 100baseT/Full'";

/// Whether a pattern of features covers this one. Not the TSO that gives all segments one IP identification
/// ("mangleid"): drivers have it off until somebody wants just that.
pub fn covers(pattern: &str, feature: &str) -> bool {
    fits_stars(pattern, feature) && !(pattern.contains('*') && feature.contains("-mangleid-"))
}

/// Sysctls of an interface, by the tree that they are in: `net.ipv4.conf.INTERFACE.KEY`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterfaceSysctl<'n> {
    /// Such as `net.ipv4.conf`.
    pub tree: &'static str,
    /// An interface, `default` or `all`.
    pub interface: &'n str,
    /// Such as `rp_filter`.
    pub key: &'n str,
}

/// The trees, and of which the kernel copies to every interface what is written: to its `default`
/// (devinet_copy_dflt_conf in net/ipv4/devinet.c, neigh_copy_dflt_parms in net/core/neighbour.c), or to its `all`
/// (net/ipv6/addrconf.c, for some keys).
const TREES: [(&str, &str); 4] = [
    ("net.ipv4.conf", "default"),
    ("net.ipv6.conf", "all"),
    ("net.ipv4.neigh", "default"),
    ("net.ipv6.neigh", "default"),
];

/// One value in two units: the coarse one, and the one that says all (Documentation/networking/ip-sysctl.rst). These are of
/// an interface.
pub const UNITS: [(&str, &str); 3] = [
    ("base_reachable_time", "base_reachable_time_ms"),
    ("retrans_time", "retrans_time_ms"),
    ("unres_qlen", "unres_qlen_bytes"),
];

/// The same of those that no interface has, by their whole names (net/ipv4/route.c, net/ipv6/route.c).
pub const UNITS_OF_ALL: [(&str, &str); 2] = [
    ("net.ipv4.route.gc_min_interval", "net.ipv4.route.gc_min_interval_ms"),
    ("net.ipv6.route.gc_min_interval", "net.ipv6.route.gc_min_interval_ms"),
];

impl<'n> InterfaceSysctl<'n> {
    /// A sysctl's name, if it is one of an interface; that may have dots of its own.
    pub fn parse(sysctl: &'n str) -> Option<InterfaceSysctl<'n>> {
        let (tree, rest) =
            TREES.iter().find_map(|(tree, _)| Some((*tree, sysctl.strip_prefix(tree)?.strip_prefix('.')?)))?;
        let (interface, key) = rest.rsplit_once('.')?;
        Some(InterfaceSysctl { tree, interface, key })
    }

    /// Whether the kernel copies what is written here to the interfaces.
    pub fn is_copied(self) -> bool {
        TREES.contains(&(self.tree, self.interface))
    }

    fn is_one_with(self, other: InterfaceSysctl) -> bool {
        let keys = |one: InterfaceSysctl, other: InterfaceSysctl| UNITS.contains(&(one.key, other.key));
        self.tree == other.tree
            && (self.interface == other.interface || self.is_copied() || other.is_copied())
            && (self.key == other.key || keys(self, other) || keys(other, self))
    }
}

fn one_sysctl(one: &str, other: &str) -> bool {
    one == other
        || UNITS_OF_ALL.contains(&(one, other))
        || UNITS_OF_ALL.contains(&(other, one))
        || InterfaceSysctl::parse(one)
            .zip(InterfaceSysctl::parse(other))
            .is_some_and(|(one, other)| one.is_one_with(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(one: &str, other: &str, want: bool) {
        for (one, other) in [(one, other), (other, one)] {
            assert_eq!(between(one, other).is_some(), want, "{one} {other}");
        }
    }

    #[test]
    fn names_of_one_thing() {
        for (one, other) in [
            ("rps.all", "rps.0"),
            ("xps.3", "xps.all"),
            ("irq_affinity.all", "irq_affinity.40"),
            ("tso", "feature.tx-tcp-segmentation"),
            ("tso", "feature.tx-tcp6-segmentation"),
            ("gro", "feature.rx-gro"),
            ("lro", "feature.rx-lro"),
            ("tx_checksum", "feature.tx-checksum-ip-generic"),
            ("busy_poll", "sysctl.net.core.busy_poll"),
            ("rfs.rps_sock_flow_entries", "sysctl.net.core.rps_sock_flow_entries"),
            ("speed", "duplex"),
            ("autoneg", "speed"),
            ("sysctl.net.ipv4.conf.default.rp_filter", "sysctl.net.ipv4.conf.eth0.5.rp_filter"),
            ("sysctl.net.ipv6.conf.all.disable_ipv6", "sysctl.net.ipv6.conf.eth0.disable_ipv6"),
            ("sysctl.net.ipv4.neigh.eth0.retrans_time", "sysctl.net.ipv4.neigh.eth0.retrans_time_ms"),
            ("sysctl.net.ipv4.neigh.default.unres_qlen", "sysctl.net.ipv4.neigh.eth0.unres_qlen_bytes"),
            ("sysctl.net.ipv6.route.gc_min_interval", "sysctl.net.ipv6.route.gc_min_interval_ms"),
        ] {
            check(one, other, true);
        }
    }

    #[test]
    fn names_of_two_things() {
        for (one, other) in [
            ("rps.0", "rps.0"),
            ("rps.0", "rps.1"),
            ("rps.all", "xps.all"),
            ("tso", "feature.tx-tcp-mangleid-segmentation"),
            ("tso", "gso"),
            ("gro", "feature.rx-gro-hw"),
            ("busy_poll", "busy_read"),
            ("speed", "eee"),
            ("pause.rx", "pause.tx"),
            ("sysctl.net.ipv4.conf.eth0.rp_filter", "sysctl.net.ipv4.conf.eth1.rp_filter"),
            ("sysctl.net.ipv4.conf.default.rp_filter", "sysctl.net.ipv4.conf.eth0.arp_filter"),
            ("sysctl.net.ipv4.conf.all.rp_filter", "sysctl.net.ipv4.conf.eth0.rp_filter"),
            ("sysctl.net.ipv6.conf.eth0.hop_limit", "sysctl.net.ipv4.conf.eth0.hop_limit"),
            ("sysctl.net.core.rmem_max", "sysctl.net.core.wmem_max"),
            ("nonsense", "more-of-it"),
        ] {
            check(one, other, false);
        }
    }

    #[test]
    fn the_sentence_says_what_to_do() {
        let overlap = among(["mtu", "rps.0", "gro", "rps.all"]).unwrap();
        assert_eq!(overlap.to_string(), "rps.0 and rps.all set the same thing; leave one of them out");
        let modes = among(["speed", "duplex"]).unwrap().to_string();
        assert!(modes.contains("both set the modes that the link offers; write both in one"), "{modes}");
        assert_eq!(among(["rps.0", "rps.1", "tso"]), None);
    }
}
