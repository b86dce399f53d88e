//! Whether anybody on the link answers for an address.
//! Knows IPv4's table of neighbours only; of IPv6 it says nothing.

use std::fs;
use std::net::IpAddr;

/// The interface on which the kernel asked for this address and has no answer.
pub(super) fn silent_on(address: IpAddr) -> Option<String> {
    find(&fs::read_to_string("/proc/thread-self/net/arp").ok()?, address)
}

/// A line of names, then a line an entry; its third column has the bit 2 once the neighbour is known (ATF_COM, arp(7)
/// and Linux Documentation/filesystems/proc.rst).
fn find(table: &str, address: IpAddr) -> Option<String> {
    let address = address.to_string();
    table.lines().skip(1).find_map(|line| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let flags = u32::from_str_radix(columns.get(2)?.strip_prefix("0x")?, 16).ok()?;
        (columns[0] == address && flags & 2 == 0).then(|| columns.last().map(|name| (*name).to_owned()))?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_without_an_address_is_a_silent_neighbour() {
        let table = "IP address       HW type     Flags       HW address            Mask     Device\n\
                     198.18.0.2       0x1         0x0         00:00:00:00:00:00     *        eth0\n\
                     198.18.0.3       0x1         0x2         02:00:00:00:00:03     *        eth0\n\
                     198.18.0.4       0x1\n";
        for (address, want) in [
            ("198.18.0.2", Some("eth0")),
            ("198.18.0.3", None),
            ("198.18.0.4", None),
            ("198.18.0.5", None),
            ("2001:2::2", None),
        ] {
            assert_eq!(find(table, address.parse().unwrap()).as_deref(), want, "{address}");
        }
        assert_eq!(find("", "198.18.0.2".parse().unwrap()), None);
    }
}
