//! One datagram with what the kernel tells beside it: from where, its TTL, or the ICMP error that it came back with.
//! Knows no probes; who asks knows what was sent.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::AsRawFd;

use super::datagrams::control_messages;
use super::option;

/// A datagram that came, or that came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Octets of it.
    pub len: usize,
    /// Its sender.
    pub from: Option<SocketAddr>,
    /// The TTL or hop limit that it arrived with, where the socket was told to say so.
    pub hops: Option<u8>,
    /// What became of a datagram that was sent: of messages of the error queue.
    pub error: Option<QueuedError>,
}

/// struct sock_extended_err of linux/errqueue.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuedError {
    /// The system's number.
    pub errno: i32,
    /// SO_EE_ORIGIN_….
    pub origin: u8,
    /// ICMP's type.
    pub kind: u8,
    /// ICMP's code.
    pub code: u8,
    /// Of "fragmentation needed": the MTU of the next link.
    pub info: u32,
    /// Who sent the ICMP message.
    pub offender: Option<IpAddr>,
}

/// linux/errqueue.h: the error came by ICMP.
pub const ORIGIN_ICMP: u8 = 2;
/// The same of ICMPv6.
pub const ORIGIN_ICMP6: u8 = 3;

/// Has the kernel tell the TTL or hop limit of what arrives.
pub fn tell_hops(socket: &impl AsRawFd, is_ipv4: bool) -> io::Result<()> {
    (if is_ipv4 { option::IP_RECVTTL } else { option::IPV6_RECVHOPLIMIT }).set(socket, 1)
}

/// Forbids that packets are fragmented, whatever is known of the path's MTU (IP_PMTUDISC_PROBE, ip(7)).
pub fn never_fragment(socket: &impl AsRawFd, is_ipv4: bool) -> io::Result<()> {
    let (option, value) = if is_ipv4 {
        (option::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE)
    } else {
        (option::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_PROBE)
    };
    option.set(socket, value)
}

#[repr(C, align(8))]
struct Control([u8; 512]);

/// Receives without waiting: what came, or with `errors` what came back (MSG_ERRQUEUE).
pub fn receive(socket: &impl AsRawFd, octets: &mut [u8], errors: bool) -> io::Result<Message> {
    // SAFETY: sockaddr_storage and msghdr are structures of integers and pointers, of which zero is a value of each.
    let (mut name, mut header) =
        unsafe { (std::mem::zeroed::<libc::sockaddr_storage>(), std::mem::zeroed::<libc::msghdr>()) };
    let mut control = Control([0; 512]);
    let mut vector = libc::iovec { iov_base: octets.as_mut_ptr().cast(), iov_len: octets.len() };
    header.msg_name = (&raw mut name).cast();
    header.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    header.msg_iov = &raw mut vector;
    header.msg_iovlen = 1;
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = control.0.len() as _;
    let flags = libc::MSG_DONTWAIT | if errors { libc::MSG_ERRQUEUE } else { 0 };
    // SAFETY: each pointer of `header` describes a value of this frame or `octets` with its length, all of which outlive the
    // call.
    let len = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, flags) };
    if len < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut message = Message { len: len as usize, from: None, hops: None, error: None };
    let named = (header.msg_namelen as usize).min(size_of::<libc::sockaddr_storage>());
    // SAFETY: `named` octets of `name` at most, which is that long and fully initialised.
    message.from = address(unsafe { std::slice::from_raw_parts((&raw const name).cast::<u8>(), named) });
    #[allow(clippy::unnecessary_cast, reason = "of 32 bits in musl")]
    let told = (header.msg_controllen as usize).min(control.0.len());
    for (kind, data) in control_messages(&control.0[..told]) {
        match kind {
            (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
                let hops = data.first_chunk().map(|value| i32::from_ne_bytes(*value));
                message.hops = hops.and_then(|hops| u8::try_from(hops).ok());
            }
            (libc::IPPROTO_IP, libc::IP_RECVERR) | (libc::IPPROTO_IPV6, libc::IPV6_RECVERR) => {
                message.error = queued_error(data);
            }
            _ => {}
        }
    }
    Ok(message)
}

fn queued_error(data: &[u8]) -> Option<QueuedError> {
    let word = |at: usize| data.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes);
    Some(QueuedError {
        errno: word(0)?.cast_signed(),
        origin: *data.get(4)?,
        kind: *data.get(5)?,
        code: *data.get(6)?,
        info: word(8)?,
        offender: data.get(16..).and_then(address).map(|at| at.ip()),
    })
}

/// A struct sockaddr_in or sockaddr_in6.
fn address(octets: &[u8]) -> Option<SocketAddr> {
    let family = i32::from(u16::from_ne_bytes(*octets.first_chunk()?));
    let port = u16::from_be_bytes(octets.get(2..4)?.try_into().ok()?);
    match family {
        libc::AF_INET => {
            let four: [u8; 4] = octets.get(4..8)?.try_into().ok()?;
            Some(SocketAddr::new(Ipv4Addr::from(four).into(), port))
        }
        libc::AF_INET6 => {
            let sixteen: [u8; 16] = octets.get(8..24)?.try_into().ok()?;
            let scope = octets.get(24..28).and_then(|scope| Some(u32::from_ne_bytes(scope.try_into().ok()?)));
            Some(SocketAddrV6::new(Ipv6Addr::from(sixteen), port, 0, scope.unwrap_or(0)).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_message_tells_its_hops_and_a_refusal_who_says_so() {
        for local in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(receiver) = UdpSocket::bind(local) else { continue };
            let at = receiver.local_addr().unwrap();
            tell_hops(&receiver, at.is_ipv4()).unwrap();
            let sender = UdpSocket::bind(local).unwrap();
            sender.connect(at).unwrap();
            sender.send(b"there").unwrap();
            thread::sleep(Duration::from_millis(20));
            let mut octets = [0; 64];
            let came = receive(&receiver, &mut octets, false).unwrap();
            assert_eq!((came.len, came.hops, came.from), (5, Some(64), Some(sender.local_addr().unwrap())));
            assert_eq!(receive(&receiver, &mut octets, true).unwrap_err().kind(), io::ErrorKind::WouldBlock);
            drop(receiver);
            super::super::socket_state::report_icmp_errors(&sender, at.is_ipv4()).unwrap();
            sender.send(b"gone").unwrap();
            thread::sleep(Duration::from_millis(20));
            let error = receive(&sender, &mut octets, true).unwrap().error.unwrap();
            assert_eq!((error.errno, error.offender), (libc::ECONNREFUSED, Some(at.ip())), "{error:?}");
        }
    }
}
