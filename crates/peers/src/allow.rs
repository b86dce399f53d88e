//! Which addresses a server hears.

use std::fmt;
use std::net::IpAddr;

use linerate_host::interfaces::{self, InterfaceAddress};
use linerate_machine::prefix::Prefix;

/// Addresses and prefixes; where there is none, everybody is heard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowList(Vec<Prefix>);

impl AllowList {
    /// These alone; nobody is named: everybody.
    pub fn new(prefixes: Vec<Prefix>) -> AllowList {
        AllowList(prefixes)
    }

    /// Whether everybody is heard.
    pub fn is_everybody(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether this address is.
    pub fn admits(&self, address: IpAddr) -> bool {
        self.is_everybody() || self.0.iter().any(|prefix| prefix.contains(address))
    }
}

impl fmt::Display for AllowList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_everybody() {
            return f.write_str("anybody");
        }
        let texts: Vec<String> = self.0.iter().map(Prefix::to_string).collect();
        f.write_str(&texts.join(", "))
    }
}

/// Whether no router lies between: only who is on this machine's own links can have datagrams sent in another's name.
pub fn is_near(peer: IpAddr) -> bool {
    is_on_link(peer, &interfaces::addresses().unwrap_or_default())
}

fn is_on_link(peer: IpAddr, known: &[InterfaceAddress]) -> bool {
    known.iter().any(|known| known.prefix_len > 0 && Prefix::new(known.address, known.prefix_len).contains(peer))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> AllowList {
        AllowList::new(text.split_whitespace().map(|text| text.parse().unwrap()).collect())
    }

    #[test]
    fn addresses_and_prefixes_are_heard_and_nobody_else() {
        #[track_caller]
        fn check(allow: &str, address: &str, admitted: bool) {
            assert_eq!(list(allow).admits(address.parse().unwrap()), admitted, "{allow}: {address}");
        }
        check("", "203.0.113.9", true);
        check("10.0.0.5", "10.0.0.5", true);
        check("10.0.0.5", "::ffff:10.0.0.5", true);
        check("::ffff:10.0.0.5", "10.0.0.5", true);
        check("10.0.0.5", "10.0.0.4", false);
        check("10.0.0.5/8 192.0.2.128/25", "10.255.0.1", true);
        check("10.0.0.5/8 192.0.2.128/25", "192.0.2.127", false);
        check("10.0.0.5/8 192.0.2.128/25", "192.0.2.129", true);
        check("0.0.0.0/0", "198.51.100.1", true);
        check("0.0.0.0/0", "2001:db8::1", false);
        check("::/0", "10.0.0.1", false);
        check("2001:db8::/63", "2001:db8:0:1::7", true);
        check("2001:db8::/63", "2001:db8:0:2::7", false);
    }

    #[test]
    fn what_is_no_prefix_is_said() {
        for text in [
            "",
            "/",
            "/8",
            "10.0.0.0/33",
            "10.0.0.0/",
            "10.0.0/8",
            "::1/129",
            "host",
            "10.0.0.0/-1",
            "::ffff:10.0.0.0/104",
        ] {
            assert!(text.parse::<Prefix>().unwrap_err().contains("write 10.0.0.5"), "{text}");
        }
        assert_eq!(list("10.0.0.5 10.0.0.0/8 2001:db8::/64").to_string(), "10.0.0.5, 10.0.0.0/8, 2001:db8::/64");
        assert_eq!(AllowList::default().to_string(), "anybody");
    }

    #[test]
    fn datagrams_are_sent_to_neighbours_only() {
        let on = |address: &str, prefix_len| InterfaceAddress {
            interface: "x".to_owned(),
            address: address.parse().unwrap(),
            prefix_len,
            up: true,
            loopback: false,
            scope_link: false,
            index: 1,
        };
        let known = [on("192.0.2.1", 24), on("2001:db8::1", 64), on("10.0.0.1", 32)];
        for (peer, near) in [
            ("192.0.2.200", true),
            ("192.0.3.1", false),
            ("2001:db8::ffff:1", true),
            ("2001:db8:0:1::1", false),
            ("10.0.0.1", true),
            ("10.0.0.2", false),
        ] {
            assert_eq!(is_on_link(peer.parse().unwrap(), &known), near, "{peer}");
        }
    }
}
