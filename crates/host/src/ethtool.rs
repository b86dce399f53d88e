//! Asks a driver over ethtool's netlink, and tells it what to be; the older way, an ioctl, where the kernel has no such.
//! Knows its commands and attributes by the numbers of linux/ethtool_netlink.h.

use std::io;

use crate::netlink::{Netlink, attributes, push_attribute};

pub(crate) mod older;

/// What can be asked (linux/ethtool_netlink_generated.h, in the order of user to kernel messages). The command that
/// changes it is the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Command {
    LinkModes = 4,
    Features = 11,
    Rings = 15,
    Channels = 17,
    Coalesce = 19,
    Pause = 21,
    Eee = 23,
}

// linux/ethtool_netlink.h: the header is attribute 1 of every command.
const HEADER: u16 = 1 | NESTED;
const NESTED: u16 = 0x8000;
const HEADER_DEV_NAME: u16 = 2;
const HEADER_FLAGS: u16 = 3;
const FLAG_OMIT_REPLY: u32 = 1 << 1;
const FLAG_STATS: u32 = 1 << 2;

/// Asks about `interface`, and returns the reply's attributes as they came, which [`attributes`] takes apart: only what
/// the driver has is there. Empty where the driver answered nothing.
pub(crate) fn ask(netlink: &mut Netlink, command: Command, interface: &str) -> io::Result<Vec<u8>> {
    match ask_with(netlink, command, interface, 0) {
        // Of old kernels, and of new ones that were built without it.
        Err(_) if command != Command::Features && lacks_netlink(netlink) => older::ask(command, interface),
        answer => answer,
    }
}

/// The same with statistics, which kernels have later than the command.
pub(crate) fn ask_with_statistics(netlink: &mut Netlink, command: Command, interface: &str) -> io::Result<Vec<u8>> {
    ask_with(netlink, command, interface, FLAG_STATS)
}

fn ask_with(netlink: &mut Netlink, command: Command, interface: &str, flags: u32) -> io::Result<Vec<u8>> {
    let mut answer = Vec::new();
    netlink.generic_request(b"ethtool", &payload(command as u8, interface, flags), |reply| {
        // Behind struct genlmsghdr.
        answer = reply.get(4..).unwrap_or_default().to_vec();
    })?;
    Ok(answer)
}

/// Has the driver of `interface` take `attributes`; what they leave out stays as it is.
pub(crate) fn set(netlink: &mut Netlink, command: Command, interface: &str, attributes: &[u8]) -> io::Result<()> {
    if lacks_netlink(netlink) {
        return older::set(command, interface, attributes);
    }
    netlink.generic_request(b"ethtool", &change(command, interface, attributes), |_| ())
}

/// Whether the kernel has no ethtool over netlink: before Linux 5.6, or without CONFIG_ETHTOOL_NETLINK.
pub(crate) fn lacks_netlink(netlink: &mut Netlink) -> bool {
    netlink.generic_family(b"ethtool").is_err_and(|error| error.raw_os_error() == Some(libc::ENOENT))
}

fn change(command: Command, interface: &str, attributes: &[u8]) -> Vec<u8> {
    // Without a reply that tells what became of it: it is read back afterwards.
    let mut change = payload(command as u8 + 1, interface, FLAG_OMIT_REPLY);
    change.extend(attributes);
    change
}

/// The content of an attribute.
pub(crate) fn content(answer: &[u8], wanted: u16) -> Option<&[u8]> {
    attributes(answer).find(|(kind, _)| *kind == wanted).map(|(_, content)| content)
}

/// An attribute of 8 or 32 bits.
pub(crate) fn number_in(answer: &[u8], wanted: u16) -> Option<u32> {
    match content(answer, wanted)? {
        [value] => Some(u32::from(*value)),
        content => content.first_chunk().map(|word| u32::from_ne_bytes(*word)),
    }
}

/// What the driver tells of the link (ETHTOOL_A_LINKMODES_…).
#[derive(Debug, Default)]
pub(crate) struct LinkModes {
    pub(crate) autoneg: Option<bool>,
    /// What the driver can, and whether it is offered.
    pub(crate) ours: BitSet,
    /// What the other end offers.
    pub(crate) peer: BitSet,
    /// Mbit/s, where a link is up or forced.
    pub(crate) speed: Option<u32>,
    pub(crate) full: Option<bool>,
}

impl LinkModes {
    pub(crate) const AUTONEG: u16 = 2;
    pub(crate) const OURS: u16 = 3;
    const PEER: u16 = 4;
    pub(crate) const SPEED: u16 = 5;
    pub(crate) const DUPLEX: u16 = 6;

    pub(crate) fn read(answer: &[u8]) -> LinkModes {
        let set = |wanted| content(answer, wanted).map(BitSet::read).unwrap_or_default();
        LinkModes {
            autoneg: number_in(answer, LinkModes::AUTONEG).map(|autoneg| autoneg != 0),
            ours: set(LinkModes::OURS),
            peer: set(LinkModes::PEER),
            // SPEED_UNKNOWN is -1, and drivers say 0 without a link (linux/ethtool.h).
            speed: number_in(answer, LinkModes::SPEED).filter(|&speed| speed != 0 && speed != u32::MAX),
            full: match number_in(answer, LinkModes::DUPLEX) {
                Some(0) => Some(false),
                Some(1) => Some(true),
                _ => None,
            },
        }
    }
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
        let list = self::content(content, BITSET_BITS).unwrap_or_default();
        let bits = attributes(list).filter(|(kind, _)| *kind == BITSET_BITS_BIT).filter_map(|(_, bit)| {
            let name = self::content(bit, BIT_NAME)?;
            let name = String::from_utf8_lossy(name.strip_suffix(&[0]).unwrap_or(name)).into_owned();
            let on = unmasked || attributes(bit).any(|(kind, _)| kind == BIT_VALUE);
            (!name.is_empty()).then_some((name, on))
        });
        BitSet { bits: bits.collect() }
    }

    /// The names of all that it speaks of, or of those that are on.
    pub(crate) fn names(&self, all: bool) -> Vec<String> {
        self.bits.iter().filter(|(_, on)| all || *on).map(|(name, _)| name.clone()).collect()
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
    use super::*;

    #[test]
    fn the_kernel_answers_each_command_with_what_was_asked() {
        let mut netlink = Netlink::generic().unwrap();
        // Features are the one thing that every interface has, loopback included.
        let answer = ask(&mut netlink, Command::Features, "lo").unwrap();
        assert_eq!(content(content(&answer, 1).unwrap(), HEADER_DEV_NAME), Some(&b"lo\0"[..]));
        let pause = ask(&mut netlink, Command::Pause, "lo").unwrap_err();
        assert_eq!(pause.raw_os_error(), Some(libc::EOPNOTSUPP), "loopback has no pause frames");
        let nobody = ask(&mut netlink, Command::Pause, "no-such-one").unwrap_err();
        assert_eq!(nobody.raw_os_error(), Some(libc::ENODEV));
        assert!(!lacks_netlink(&mut netlink));
    }

    /// A ring of 512 descriptors, octet by octet by linux/ethtool_netlink.h.
    #[test]
    fn a_change_is_what_the_kernels_document_says() {
        let mut attributes = Vec::new();
        push_attribute(&mut attributes, 6, &512u32.to_ne_bytes());
        let got = change(Command::Rings, "eth0", &attributes);
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
