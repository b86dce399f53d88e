//! Which addresses a server hears.

use std::fmt;
use std::net::IpAddr;

use linerate_trial::prefix::Prefix;

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
}
