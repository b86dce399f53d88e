//! The older way to a driver, an ioctl with a structure (SIOCETHTOOL), in the form of the newer one: what it tells becomes
//! netlink's attributes, and they become it. Knows the structures' words.

use std::io;

use super::{BitSet, Command, LinkModes, number_in};
use crate::netlink::{attributes, push_attribute};
use crate::sys::ethtool::{Ethtool, IoctlWords};

/// The structure. The attributes were made in the order of its words; the number is the first word's attribute.
fn words_of(command: Command) -> io::Result<(IoctlWords, u16)> {
    Ok(match command {
        Command::LinkModes => (IoctlWords::Settings, 0),
        Command::Coalesce => (IoctlWords::Coalesce, 2),
        Command::Rings => (IoctlWords::Rings, 2),
        Command::Channels => (IoctlWords::Channels, 2),
        Command::Pause => (IoctlWords::Pause, 2),
        Command::Eee => (IoctlWords::Eee, 1),
        Command::Features => return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP)),
    })
}

/// An answer as netlink would have it. It cannot say which words the driver knows.
pub(crate) fn ask(command: Command, interface: &str) -> io::Result<Vec<u8>> {
    let (which, first) = words_of(command)?;
    let words = Ethtool::new(interface)?.words(which)?;
    if command == Command::LinkModes {
        return Ok(answer_of(&words));
    }
    let mut answer = Vec::new();
    for (attribute, word) in (first..).zip(words) {
        push_attribute(&mut answer, attribute, &word.to_ne_bytes());
    }
    Ok(answer)
}

/// Has the driver take these attributes.
pub(super) fn set(command: Command, interface: &str, change: &[u8]) -> io::Result<()> {
    let (which, first) = words_of(command)?;
    let ethtool = Ethtool::new(interface)?;
    let mut words = ethtool.words(which)?;
    if command == Command::LinkModes {
        words = changed(&words, change);
    } else {
        for (kind, _) in attributes(change) {
            let word = words.get_mut(usize::from(kind - first)).ok_or(io::ErrorKind::InvalidInput)?;
            *word = number_in(change, kind).ok_or(io::ErrorKind::InvalidInput)?;
        }
    }
    ethtool.set_words(which, &words)
}

/// The modes that the older way has bits for, and Autoneg (linux/ethtool.h, SUPPORTED_… and ADVERTISED_…).
const OLDER: [(&str, u32); 9] = [
    ("10baseT/Half", 0),
    ("10baseT/Full", 1),
    ("100baseT/Half", 2),
    ("100baseT/Full", 3),
    ("1000baseT/Half", 4),
    ("1000baseT/Full", 5),
    ("Autoneg", 6),
    ("10000baseT/Full", 12),
    ("2500baseX/Full", 15),
];

/// struct ethtool_cmd behind its command: supported, advertising, then speed (16 bits), duplex, port; PHY's address,
/// transceiver, autoneg, mdio_support; maxtxpkt, maxrxpkt, then the speed's upper 16 bits.
pub(crate) fn answer_of(words: &[u32]) -> Vec<u8> {
    let octets: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let half = |at: usize| u32::from(u16::from_ne_bytes([octets[at], octets[at + 1]]));
    let mut answer = Vec::new();
    push_attribute(&mut answer, LinkModes::AUTONEG, &[octets[14]]);
    let known = OLDER.iter().filter(|(_, bit)| words[0] & 1 << bit != 0);
    let bits = known.map(|(name, bit)| ((*name).to_owned(), words[1] & 1 << bit != 0)).collect();
    BitSet { bits }.push(&mut answer, LinkModes::OURS);
    // SPEED_UNKNOWN in the old 16 bits.
    let speed = Some(half(24) << 16 | half(8)).filter(|&speed| speed != 0xffff).unwrap_or(u32::MAX);
    push_attribute(&mut answer, LinkModes::SPEED, &speed.to_ne_bytes());
    push_attribute(&mut answer, LinkModes::DUPLEX, &[octets[10]]);
    answer
}

/// The structure with a change in it.
pub(crate) fn changed(words: &[u32], change: &[u8]) -> Vec<u32> {
    let mut octets: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let mut advertising = words[1];
    for (kind, content) in attributes(change) {
        match (kind, content) {
            (LinkModes::AUTONEG, [autoneg]) => {
                octets[14] = *autoneg;
                // ADVERTISED_Autoneg goes with it.
                advertising = advertising & !(1 << 6) | u32::from(*autoneg) << 6;
            }
            (LinkModes::DUPLEX, [duplex]) => octets[10] = *duplex,
            (LinkModes::SPEED, [a, b, c, d]) => {
                let speed = u32::from_ne_bytes([*a, *b, *c, *d]);
                octets[8..10].copy_from_slice(&(speed as u16).to_ne_bytes());
                octets[24..26].copy_from_slice(&((speed >> 16) as u16).to_ne_bytes());
            }
            (LinkModes::OURS, set) => {
                for (name, on) in BitSet::read(set).bits {
                    let bit = OLDER.iter().find(|(known, _)| *known == name).map_or(0, |(_, bit)| 1u32 << bit);
                    advertising = if on { advertising | bit } else { advertising & !bit };
                }
            }
            _ => {}
        }
    }
    octets[4..8].copy_from_slice(&advertising.to_ne_bytes());
    octets.chunks_exact(4).map(|word| u32::from_ne_bytes([word[0], word[1], word[2], word[3]])).collect()
}
