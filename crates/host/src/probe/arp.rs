//! Who on the link answers for an IPv4 address. Of one's own, ARP requests without a sender's address ask, which change no
//! table of neighbours (RFC 5227, section 2.1.1).

use std::io;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use crate::interfaces::mac_text;
use crate::sys;

const ETHERTYPE: u16 = libc::ETH_P_ARP as u16;
const BROADCAST: [u8; 6] = [0xff; 6];
const EVERY: Duration = Duration::from_millis(120);
const TIMES: u32 = 2;
/// How long answers are waited for, and how long at least where nobody answers for another's address.
const PATIENCE: [Duration; 2] = [Duration::from_millis(350), Duration::from_millis(1500)];

/// The Ethernet addresses that answer for each of these addresses at an interface, whose own are `mac` and `own`.
pub(super) fn ask<const N: usize>(
    interface: u32,
    mac: [u8; 6],
    own: Ipv4Addr,
    addresses: [Ipv4Addr; N],
    patience: Duration,
) -> io::Result<[Vec<String>; N]> {
    let socket = sys::packet::open(ETHERTYPE)?;
    let mut answers = [const { Vec::<String>::new() }; N];
    let patience = |answers: &[Vec<String>]| {
        let is_silent = addresses.iter().zip(answers).any(|(address, answers)| *address != own && answers.is_empty());
        if is_silent { patience.max(PATIENCE[1]) } else { PATIENCE[0] }
    };
    let began = Instant::now();
    let mut asked = 0;
    while began.elapsed() < patience(&answers) {
        if asked < TIMES && began.elapsed() >= asked * EVERY {
            asked += 1;
            for address in addresses {
                sys::packet::send(&socket, interface, ETHERTYPE, BROADCAST, &request(mac, own, address))?;
            }
        }
        sys::poll::wait_readable(&socket, Duration::from_millis(20))?;
        let mut octets = [0; 64];
        while let Ok(packet) = sys::packet::receive(&socket, &mut octets) {
            let answer = answer(&octets[..packet.len.min(octets.len())]);
            let Some((from, address)) = answer.filter(|_| packet.interface == interface) else { continue };
            if packet.way == sys::packet::PacketType::Left {
                continue;
            }
            for (wanted, answers) in addresses.iter().zip(&mut answers) {
                let from = mac_text(&from);
                if *wanted == address && !answers.contains(&from) && answers.len() < 8 {
                    answers.push(from);
                }
            }
        }
    }
    Ok(answers)
}

/// RFC 826: Ethernet, IPv4, their lengths, a request; who asks, and of whom.
fn request(mac: [u8; 6], own: Ipv4Addr, address: Ipv4Addr) -> [u8; 28] {
    let mut octets = [0; 28];
    octets[..8].copy_from_slice(&[0, 1, 8, 0, 6, 4, 0, 1]);
    octets[8..14].copy_from_slice(&mac);
    if address != own {
        octets[14..18].copy_from_slice(&own.octets());
    }
    octets[24..].copy_from_slice(&address.octets());
    octets
}

/// Who says that it has which address.
fn answer(octets: &[u8]) -> Option<([u8; 6], Ipv4Addr)> {
    let octets: &[u8; 28] = octets.first_chunk()?;
    let is_answer = octets[..8] == [0, 1, 8, 0, 6, 4, 0, 2];
    let from: [u8; 6] = octets[8..14].try_into().ok()?;
    let address: [u8; 4] = octets[14..18].try_into().ok()?;
    is_answer.then_some((from, address.into()))
}
