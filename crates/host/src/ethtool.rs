//! Asks a driver over ethtool's netlink, and tells it what to be.
//! Knows the commands' numbers; the attributes are decoded by netlink-bindings.
//!
//! The numbers stand here because those of netlink-bindings 0.3.5 are wrong from ETHTOOL_MSG_LINKMODES_GET on:
//! it counts the replies of SET commands as commands, so that its "get pause" sends FEC_SET and its "get link
//! modes" LINKINFO_SET. Its requests must not be sent; its replies are decoded rightly.

use std::io;

use netlink_bindings::traits::NetlinkRequest;

use crate::netlink::{Netlink, attributes, push_attribute};

/// Commands that only read (linux/ethtool_netlink_generated.h, in the order of user to kernel messages).
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub(crate) enum Get {
    LinkModes = 4,
    Features = 11,
    Rings = 15,
    Channels = 17,
    Coalesce = 19,
    Pause = 21,
    Eee = 23,
}

/// Commands that change something.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub(crate) enum Set {
    LinkModes = 5,
    Features = 12,
    Rings = 16,
    Channels = 18,
    Coalesce = 20,
    Pause = 22,
    Eee = 24,
}

// linux/ethtool_netlink.h: the header is attribute 1 of every command.
const HEADER: u16 = 1 | NESTED;
const NESTED: u16 = 0x8000;
const HEADER_DEV_NAME: u16 = 2;
const HEADER_FLAGS: u16 = 3;
const FLAG_OMIT_REPLY: u32 = 1 << 1;
/// Ask for statistics too.
pub(crate) const FLAG_STATS: u32 = 1 << 2;

/// Sends a command about `interface`; `R` is the generated type that decodes its reply. An `Ok(None)`: the
/// driver has no such thing, or the kernel no ethtool netlink (before Linux 5.6).
pub(crate) fn get<R: NetlinkRequest, T>(
    netlink: &mut Netlink,
    command: Get,
    interface: &str,
    flags: u32,
    read: impl Fn(R::ReplyType<'_>) -> T,
) -> io::Result<Option<T>> {
    let mut value = None;
    let asked = netlink.generic_request(b"ethtool", &payload(command as u8, interface, flags), |reply| {
        value = Some(read(R::decode_reply(reply)));
    });
    match asked {
        Ok(()) => Ok(value),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOENT)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Sends a command about `interface` and returns the reply's attributes as they came, which [`attributes`] takes
/// apart: only what the driver has is there. Empty where the driver answered nothing.
///
/// [`attributes`]: crate::netlink::attributes
pub(crate) fn ask(netlink: &mut Netlink, command: Get, interface: &str) -> io::Result<Vec<u8>> {
    let mut answer = Vec::new();
    netlink.generic_request(b"ethtool", &payload(command as u8, interface, 0), |reply| {
        // Behind struct genlmsghdr.
        answer = reply.get(4..).unwrap_or_default().to_vec();
    })?;
    Ok(answer)
}

/// Has the driver of `interface` take `attributes`; what they leave out stays as it is.
pub(crate) fn set(netlink: &mut Netlink, command: Set, interface: &str, attributes: &[u8]) -> io::Result<()> {
    netlink.generic_request(b"ethtool", &change(command, interface, attributes), |_| ())
}

fn change(command: Set, interface: &str, attributes: &[u8]) -> Vec<u8> {
    // Without a reply that tells what became of it: it is read back afterwards, by whoever asked.
    let mut change = payload(command as u8, interface, FLAG_OMIT_REPLY);
    change.extend(attributes);
    change
}

/// A set of bits by name: those that are on, and those that the set speaks of at all. A set with a mask lists all that
/// the mask covers and marks those that are on; one without lists those only (Documentation/networking/
/// ethtool-netlink.rst, bit sets).
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct BitSet {
    /// Name, and whether it is on.
    pub(crate) bits: Vec<(String, bool)>,
}

// linux/ethtool_netlink.h.
const BITSET_NOMASK: u16 = 1;
const BITSET_BITS: u16 = 3;
const BITSET_BITS_BIT: u16 = 1;
const BIT_NAME: u16 = 2;
const BIT_VALUE: u16 = 3;

impl BitSet {
    /// Reads the content of an attribute that is a set.
    pub(crate) fn read(content: &[u8]) -> BitSet {
        let unmasked = attributes(content).any(|(kind, _)| kind == BITSET_NOMASK);
        let list = attributes(content).find(|(kind, _)| *kind == BITSET_BITS).map(|(_, list)| list).unwrap_or_default();
        let bits = attributes(list).filter(|(kind, _)| *kind == BITSET_BITS_BIT).filter_map(|(_, bit)| {
            let name = attributes(bit).find(|(kind, _)| *kind == BIT_NAME)?.1;
            let name = String::from_utf8_lossy(name.strip_suffix(&[0]).unwrap_or(name)).into_owned();
            let on = unmasked || attributes(bit).any(|(kind, _)| kind == BIT_VALUE);
            (!name.is_empty()).then_some((name, on))
        });
        BitSet { bits: bits.collect() }
    }

    /// Appends the set as an attribute. Bits that it does not speak of stay as they are.
    pub(crate) fn push(&self, to: &mut Vec<u8>, kind: u16) {
        let mut list = Vec::new();
        for (name, on) in &self.bits {
            let mut bit = Vec::new();
            push_attribute(&mut bit, BIT_NAME, &[name.as_bytes(), &[0]].concat());
            if *on {
                push_attribute(&mut bit, BIT_VALUE, &[]);
            }
            push_attribute(&mut list, BITSET_BITS_BIT | NESTED, &bit);
        }
        let mut set = Vec::new();
        push_attribute(&mut set, BITSET_BITS | NESTED, &list);
        push_attribute(to, kind | NESTED, &set);
    }
}

/// struct genlmsghdr, then the header with the interface's name and the flags.
fn payload(command: u8, interface: &str, flags: u32) -> Vec<u8> {
    let mut name = interface.as_bytes().to_vec();
    name.push(0);
    let mut header = Vec::new();
    push_attribute(&mut header, HEADER_DEV_NAME, &name);
    push_attribute(&mut header, HEADER_FLAGS, &flags.to_ne_bytes());
    let mut payload = vec![command, 1, 0, 0];
    push_attribute(&mut payload, HEADER, &header);
    payload
}

#[cfg(test)]
mod tests {
    use netlink_bindings::ethtool as generated;

    use super::*;

    #[test]
    fn the_kernel_answers_each_command_with_what_was_asked() {
        let mut netlink = Netlink::generic().unwrap();
        // Features are the one thing that every interface has, loopback included.
        let named = get::<generated::OpFeaturesGetDo, _>(&mut netlink, Get::Features, "lo", 0, |reply| {
            reply.get_header().ok().and_then(|header| header.get_dev_name().ok()).map(|name| name.to_owned())
        });
        assert_eq!(named.unwrap(), Some(Some(c"lo".to_owned())));
        let pause = get::<generated::OpPauseGetDo, _>(&mut netlink, Get::Pause, "lo", FLAG_STATS, |_| ());
        assert_eq!(pause.unwrap(), None, "loopback has no pause frames");
        let nobody = get::<generated::OpPauseGetDo, _>(&mut netlink, Get::Pause, "no-such-one", 0, |_| ());
        assert_eq!(nobody.unwrap_err().raw_os_error(), Some(libc::ENODEV));
    }
    /// A ring of 512 descriptors, octet by octet by linux/ethtool_netlink.h.
    #[test]
    fn a_change_is_what_the_kernels_document_says() {
        let mut attributes = Vec::new();
        push_attribute(&mut attributes, 6, &512u32.to_ne_bytes());
        let got = change(Set::Rings, "eth0", &attributes);
        let half = |n: u16| n.to_ne_bytes();
        let word = |n: u32| n.to_ne_bytes();
        let want = [
            // ETHTOOL_MSG_RINGS_SET, version 1.
            &[16, 1, 0, 0][..],
            // ETHTOOL_A_RINGS_HEADER: the name with its NUL, padded, and the flags.
            &half(24),
            &half(0x8001),
            &half(9),
            &half(2),
            b"eth0\0\0\0\0",
            &half(8),
            &half(3),
            &word(2),
            // ETHTOOL_A_RINGS_RX.
            &half(8),
            &half(6),
            &word(512),
        ];
        assert_eq!(got, want.concat());
    }

    #[test]
    fn sets_are_read_as_they_are_written() {
        let set = BitSet { bits: vec![("rx-gro".to_owned(), true), ("rx-lro".to_owned(), false)] };
        let mut written = Vec::new();
        set.push(&mut written, 3);
        let (kind, content) = attributes(&written).next().unwrap();
        assert_eq!((kind, BitSet::read(content)), (3, set));
        let mut unmasked = Vec::new();
        push_attribute(&mut unmasked, BITSET_NOMASK, &[]);
        unmasked.extend(content);
        assert!(BitSet::read(&unmasked).bits.iter().all(|(_, on)| *on), "listed is on");
        for cut in 0..content.len() {
            assert!(BitSet::read(&content[..cut]).bits.len() <= 1);
        }
    }
}
