//! Addresses that begin with the same bits.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// An address, or all that begin with the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    address: IpAddr,
    len: u8,
}

impl Prefix {
    /// The addresses that have so many bits alike with this one.
    pub fn new(address: IpAddr, len: u8) -> Prefix {
        Prefix { address, len }
    }

    /// Whether an address is one of them.
    pub fn contains(self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let differ = bits(address) ^ bits(self.address);
        let rest = 128_u32.saturating_sub(self.len.into());
        address.is_ipv4() == self.address.is_ipv4() && differ.checked_shr(rest).unwrap_or(0) == 0
    }
}

/// The address's bits, the first one first.
fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()) << 96,
        IpAddr::V6(address) => address.to_bits(),
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = if self.address.is_ipv4() { 32 } else { 128 };
        if self.len == whole { self.address.fmt(f) } else { write!(f, "{}/{}", self.address, self.len) }
    }
}

impl FromStr for Prefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Prefix, String> {
        let wrong =
            || format!("'{text}' is neither an address nor a prefix; write 10.0.0.5, 10.0.0.0/24 or 2001:db8::/64");
        let (address, len) = match text.split_once('/') {
            Some((address, len)) => (address, Some(len)),
            None => (text, None),
        };
        let address = address.parse::<IpAddr>().map_err(|_| wrong())?;
        let whole = if address.is_ipv4() { 32 } else { 128 };
        let len = len.map_or(Ok(whole), |len| len.parse().map_err(|_| wrong()))?;
        // Of an IPv4 address that is written as IPv6 a prefix would be another than it looks.
        if len > whole || (address != address.to_canonical() && len != whole) {
            return Err(wrong());
        }
        let address = address.to_canonical();
        Ok(Prefix { address, len: if address.is_ipv4() { len.min(32) } else { len } })
    }
}
