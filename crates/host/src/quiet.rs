//! What keeps a port silent of the kernel's own traffic while test frames are counted there: settings, for the guard to change
//! and to put back.
//! Knows no trial; whether others use the port is read from the table of sockets.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use linerate_machine::change::Change;

use crate::interfaces;

/// Whose connections a port carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    /// Nobody's: it can fall silent.
    Nobody,
    /// Somebody's, such as the controller's or a disk's: it goes on asking for and answering neighbours.
    Somebody,
}

/// What the kernel says by itself where it has nothing to say for anybody, by the sysctl that says how often. What harms no
/// connection comes first (Documentation/networking/ip-sysctl.rst).
const SETTINGS: [(&str, &str, Use); 6] = [
    // Routers are asked for (RFC 4861, section 6.3.7).
    ("net.ipv6.conf.*.router_solicitations", "0", Use::Somebody),
    // Memberships, duplicate addresses and all else of IPv6. Refused where an address would be lost with it.
    ("net.ipv6.conf.*.disable_ipv6", "1", Use::Nobody),
    // Neighbours are asked for, again once an entry is old.
    ("net.ipv4.neigh.*.mcast_solicit", "0", Use::Nobody),
    ("net.ipv4.neigh.*.ucast_solicit", "0", Use::Nobody),
    // They are answered.
    ("net.ipv4.conf.*.arp_ignore", "8", Use::Nobody),
    ("net.ipv6.neigh.*.mcast_solicit", "0", Use::Nobody),
];

/// The changes that keep the interface silent, in order, each for itself: what this machine lacks is refused and does without.
/// `local` is the address by which the trial knows the interface. Where a router may be on the way, it asks for neighbours.
pub fn changes(interface: &str, local: IpAddr, is_routed: bool) -> Vec<Change> {
    let of = if is_routed || is_used(interface) { Use::Somebody } else { Use::Nobody };
    let fits = |name: &str, least: Use| {
        (of == Use::Nobody || least == of) && !(name.ends_with("disable_ipv6") && local.is_ipv6())
    };
    let change = |(name, value, _): &(&str, &str, Use)| Change {
        name: format!("sysctl.{}", name.replacen('*', interface, 1)),
        value: (*value).to_owned(),
        custom: None,
    };
    SETTINGS.iter().filter(|(name, _, least)| fits(name, *least)).map(change).collect()
}

/// Whether a connection goes by an address of the interface; what cannot be read is one.
fn is_used(interface: &str) -> bool {
    let Ok(addresses) = interfaces::addresses() else { return true };
    let own: Vec<IpAddr> = addresses.iter().filter(|one| one.interface == interface).map(|one| one.address).collect();
    let tables =
        ["tcp", "udp", "tcp6", "udp6"].map(|table| fs::read_to_string(format!("/proc/thread-self/net/{table}")));
    match &tables {
        [Ok(tcp), Ok(udp), rest @ ..] => {
            // A kernel without IPv6 has no tables of it.
            let texts = [tcp, udp].into_iter().chain(rest.iter().flatten());
            texts.flat_map(|text| connected(text)).any(|address| own.contains(&address))
        }
        _ => true,
    }
}

/// The local addresses of connected sockets in a table of /proc/net: 32-bit words as this machine writes them, in hexadecimal
/// (proc_pid_net(5)).
fn connected(table: &str) -> impl Iterator<Item = IpAddr> {
    const ESTABLISHED: &str = "01";
    table.lines().skip(1).filter_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let (local, _remote, state) = (words.next()?, words.next()?, words.next()?);
        let (address, _port) = local.split_once(':').filter(|_| state == ESTABLISHED)?;
        let word = |at: usize| u32::from_str_radix(address.get(8 * at..8 * at + 8)?, 16).ok().map(u32::to_ne_bytes);
        match address.len() {
            8 => Some(IpAddr::V4(Ipv4Addr::from(word(0)?))),
            32 => {
                let mut octets = [0; 16];
                for (at, part) in octets.chunks_exact_mut(4).enumerate() {
                    part.copy_from_slice(&word(at)?);
                }
                Some(Ipv6Addr::from(octets).to_canonical())
            }
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_port_that_carries_connections_goes_on_answering_its_neighbours() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let _connection = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let text = fs::read_to_string("/proc/thread-self/net/tcp").unwrap();
        assert!(connected(&text).any(|address| address == IpAddr::V4(Ipv4Addr::LOCALHOST)), "{text}");
        let names: Vec<String> =
            changes("lo", Ipv4Addr::LOCALHOST.into(), false).into_iter().map(|change| change.name).collect();
        assert_eq!(names, ["sysctl.net.ipv6.conf.lo.router_solicitations"]);
    }

    #[test]
    fn one_that_carries_none_falls_silent_and_keeps_the_address_it_is_known_by() {
        let of = |local: &str| changes("none0", local.parse().unwrap(), false);
        assert_eq!((of("192.0.2.1").len(), of("fe80::1").len()), (SETTINGS.len(), SETTINGS.len() - 1));
        assert_eq!(changes("none0", "192.0.2.1".parse().unwrap(), true).len(), 1, "a router asks for them");
        assert!(!of("fe80::1").iter().any(|change| change.name.contains("disable_ipv6")));
    }

    #[test]
    fn tables_are_read_as_the_kernel_writes_them() {
        let v4 = u32::from_ne_bytes([192, 0, 2, 1]);
        let row = |address: &str, state| format!("head\n 0: {address}:0016 00000000:0000 {state} rest\n");
        let read = |text: String| connected(&text).collect::<Vec<_>>();
        assert_eq!(read(row(&format!("{v4:08X}"), "01")), ["192.0.2.1".parse::<IpAddr>().unwrap()]);
        assert_eq!(read(row(&format!("{v4:08X}"), "0A")), [] as [IpAddr; 0]);
        let octets = "2001:db8::5".parse::<Ipv6Addr>().unwrap().octets();
        let words: String = octets
            .chunks_exact(4)
            .map(|four| format!("{:08X}", u32::from_ne_bytes([four[0], four[1], four[2], four[3]])))
            .collect();
        assert_eq!(read(row(&words, "01")), ["2001:db8::5".parse::<IpAddr>().unwrap()]);
        for bad in ["", "head\n", "head\nx", "head\n 0: zz:1 0:0 01\n", "head\n 0: 0 0 01\n"] {
            assert_eq!(read(bad.to_owned()), [] as [IpAddr; 0]);
        }
    }
}
