//! Ethernet addresses as people write them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The address of an Ethernet port, written `02:00:00:00:00:01`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MacAddress(pub [u8; 6]);

impl MacAddress {
    /// One port's alone: neither a group's nor nobody's (IEEE 802, clause 8.2).
    pub fn is_of_one(self) -> bool {
        self.0[0] & 1 == 0 && self.0 != [0; 6]
    }
}

impl FromStr for MacAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<MacAddress, String> {
        let octet = |part: &str| {
            let is_hex = part.len() == 2 && part.bytes().all(|digit| digit.is_ascii_hexdigit());
            is_hex.then(|| u8::from_str_radix(part, 16).ok()).flatten()
        };
        let octets: Option<Vec<u8>> = text.split(':').map(octet).collect();
        let six = octets.and_then(|octets| octets.try_into().ok());
        six.map(MacAddress)
            .ok_or_else(|| format!("'{text}' is not an Ethernet address; write it like 02:00:00:00:00:01"))
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl TryFrom<String> for MacAddress {
    type Error = String;

    fn try_from(text: String) -> Result<MacAddress, String> {
        text.parse()
    }
}

impl From<MacAddress> for String {
    fn from(mac: MacAddress) -> String {
        mac.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mac = MacAddress([2, 0, 0xAB, 0, 0, 1]);
        assert_eq!(mac.to_string(), "02:00:ab:00:00:01");
        assert_eq!("02:00:AB:00:00:01".parse(), Ok(mac));
        for bad in
            ["", "02:00:ab:00:00", "02:00:ab:00:00:01:02", "2:0:ab:0:0:1", "+2:00:ab:00:00:01", "02-00-ab-00-00-01"]
        {
            assert!(bad.parse::<MacAddress>().is_err(), "{bad}");
        }
    }

    #[test]
    fn groups_and_nobody_are_no_port() {
        for (text, of_one) in [
            ("02:00:00:00:00:01", true),
            ("01:00:5e:00:00:01", false),
            ("ff:ff:ff:ff:ff:ff", false),
            ("00:00:00:00:00:00", false),
        ] {
            assert_eq!(text.parse::<MacAddress>().unwrap().is_of_one(), of_one, "{text}");
        }
    }
}
