//! A handful of probes to the other end of a trial, and what is heard of the other end's: why does nothing come through?
//! Knows no conclusions; what each end saw is told as it was.
//!
//! ```text
//!   way      what the kernel knows of the way there: interface, routes, neighbour, filters of its own; sends nothing
//!   send     echo requests, datagrams, a connection, ARP, datagrams of several sizes: 150 packets at most
//!   witness  a socket of each transport that the other end's probes come to, and what passes the interfaces
//! ```

mod arp;
mod observer;
mod packet;
mod route_info;
mod send;

use std::io;

use linerate_machine::probe::{IcmpError, Refusal};

pub use observer::ProbeObserver;
pub(crate) use route_info::{Router, leaves_by, router};
pub use route_info::{await_detection, route_info};
pub use send::{MOST_SIZES, Order, probe};

/// Known to both ends and nobody else.
pub type Secret = [u8; 16];

/// The first octets of a probe: the secret, its number, and whether it is an answer.
const LEN: usize = 21;
/// What is sent over a connection once it has answered: a few full segments of Ethernet, which a slow link takes a second for.
const FILLING: usize = 8 << 10;

/// As many connections at once as a trial has streams.
const MOST_CONNECTIONS: u16 = linerate_trial::spec::MAX_STREAMS;

/// The octets of a probe.
fn message(secret: &Secret, number: u32, is_answer: bool) -> [u8; LEN] {
    let mut octets = [0; LEN];
    octets[..16].copy_from_slice(secret);
    octets[16..20].copy_from_slice(&number.to_be_bytes());
    octets[20] = is_answer.into();
    octets
}

/// The number of a probe of this secret, and whether it is an answer.
fn read(octets: &[u8], secret: &Secret) -> Option<(u32, bool)> {
    let number = octets.get(16..20)?.try_into().ok().map(u32::from_be_bytes)?;
    (octets[..16] == *secret).then_some((number, *octets.get(20)? != 0))
}

/// The headers of IP and UDP.
const fn headers(is_ipv4: bool) -> u32 {
    if is_ipv4 { 28 } else { 48 }
}

/// Why the kernel would not.
fn refusal(error: &io::Error) -> Refusal {
    match error.raw_os_error() {
        Some(libc::EPERM) => Refusal::NotPermitted,
        Some(libc::ECONNREFUSED) => Refusal::Refused,
        Some(libc::EHOSTUNREACH) => Refusal::HostUnreachable,
        Some(libc::ENETUNREACH) => Refusal::NetUnreachable,
        Some(libc::EACCES) => Refusal::Prohibited,
        Some(libc::EINVAL) => Refusal::Invalid,
        Some(libc::ECONNRESET) => Refusal::Reset,
        Some(libc::EMFILE | libc::ENFILE) => Refusal::NoDescriptors,
        Some(libc::EADDRINUSE | libc::EADDRNOTAVAIL) => Refusal::NoPort,
        Some(libc::ETIMEDOUT) => Refusal::TimedOut,
        _ if matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock) => Refusal::TimedOut,
        _ => Refusal::Other(crate::text_of(error)),
    }
}

/// What an ICMP error of this type and code says; `None`: it is none.
fn icmp_error(kind: u8, code: u8, is_ipv4: bool) -> Option<IcmpError> {
    let error = match (is_ipv4, kind, code) {
        (true, 3, 0 | 6) => IcmpError::NetUnreachable,
        (true, 3, 1 | 7) => IcmpError::HostUnreachable,
        (true, 3, 2) => IcmpError::ProtocolUnreachable,
        (true, 3, 3) => IcmpError::PortUnreachable,
        (true, 3, 4) => IcmpError::TooBig,
        (true, 3, 9 | 10 | 13) => IcmpError::Prohibited,
        (false, 1, 0) => IcmpError::NetUnreachable,
        (false, 1, 1 | 5 | 6) => IcmpError::Prohibited,
        (false, 1, 3) => IcmpError::HostUnreachable,
        (false, 1, 4) => IcmpError::PortUnreachable,
        (false, 2, _) => IcmpError::TooBig,
        (true, 11, _) | (false, 3, _) => IcmpError::TimeExceeded,
        (true, 3 | 12, _) | (false, 1 | 4, _) => IcmpError::Other,
        _ => return None,
    };
    Some(error)
}
