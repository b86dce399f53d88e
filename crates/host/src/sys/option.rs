//! Options of sockets: each with its level, its number and the type of its value, declared once.
//! Knows no meaning of a value; who sets or reads one does.
//!
//! Some options have the kernel read or write memory that their value points to (SO_ATTACH_FILTER,
//! TCP_ZEROCOPY_RECEIVE), so which option goes with which type is no caller's to say. Outside this file there is no way
//! to make one:
//!
//! ```compile_fail
//! // SO_ATTACH_FILTER with a pointer to anywhere.
//! linerate_host::sys::option::SocketOption::<[u64; 2]>::new(1, 26);
//! ```
//! ```compile_fail
//! use linerate_host::sys::socket_state::set_option;
//! ```

use std::io;
use std::marker::PhantomData;
use std::os::fd::AsRawFd;

/// What a value may be made of: integers without gaps between them, of which every pattern of bits is a value, and none
/// is a pointer to the kernel.
///
/// # Safety
/// A type that has this has no padding, no invalid pattern of bits, and no address in it.
pub unsafe trait Plain: Copy {}

// SAFETY: integers.
unsafe impl Plain for libc::c_int {}
// SAFETY: as above.
unsafe impl Plain for u32 {}
// SAFETY: as above.
unsafe impl Plain for u64 {}
// SAFETY: as above.
unsafe impl<const N: usize> Plain for [u8; N] {}
// SAFETY: as above.
unsafe impl<const N: usize> Plain for [u32; N] {}
// SAFETY: as above.
unsafe impl<const N: usize> Plain for [u64; N] {}
// SAFETY: an int and a u32, both of four octets.
unsafe impl Plain for SockTxtime {}
// SAFETY: three integers of four octets each.
unsafe impl Plain for libc::ucred {}

const _: () = assert!(size_of::<SockTxtime>() == 8 && size_of::<libc::ucred>() == 12);

/// struct sock_txtime of linux/net_tstamp.h.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct SockTxtime {
    /// By which clock.
    pub clockid: libc::clockid_t,
    /// SOF_TXTIME_….
    pub flags: u32,
}

/// An option of a socket, whose value is a `T`.
#[derive(Clone, Copy, Debug)]
pub struct SocketOption<T: Plain> {
    level: libc::c_int,
    name: libc::c_int,
    value: PhantomData<T>,
}

impl<T: Plain> SocketOption<T> {
    /// The kernel reads of this option at most a `T`, writes at most the octets that it is offered, and follows no
    /// address: true of each constant below, and the reason why there are no others.
    const fn new(level: libc::c_int, name: libc::c_int) -> SocketOption<T> {
        SocketOption { level, name, value: PhantomData }
    }

    /// Sets it (setsockopt(2)).
    pub fn set(self, socket: &impl AsRawFd, value: T) -> io::Result<()> {
        let len = size_of::<T>() as libc::socklen_t;
        let value = (&raw const value).cast();
        // SAFETY: the pointer and `len` describe `value`, all of it initialised as T has no padding, which outlives the
        // call and is only read; the option follows no address.
        let status = unsafe { libc::setsockopt(socket.as_raw_fd(), self.level, self.name, value, len) };
        if status < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Reads it (getsockopt(2)); an error where the kernel has less of it than a `T`.
    pub fn get(self, socket: &impl AsRawFd) -> io::Result<T> {
        match self.get_some(socket)? {
            (value, len) if len == size_of::<T>() => Ok(value),
            _ => Err(io::Error::from_raw_os_error(libc::EINVAL)),
        }
    }

    /// Reads as much of it as the kernel has, and how many octets that is; the rest is zero. Of a structure that grows
    /// with kernels, an old one has less.
    pub fn get_some(self, socket: &impl AsRawFd) -> io::Result<(T, usize)> {
        // SAFETY: every pattern of bits is a T, all zeroes too.
        let mut value: T = unsafe { std::mem::zeroed() };
        let mut len = size_of::<T>() as libc::socklen_t;
        let to = (&raw mut value).cast();
        // SAFETY: the pointer and `len` describe `value`, which outlives the call; the kernel writes at most `len`
        // octets, any of which make a T.
        let status = unsafe { libc::getsockopt(socket.as_raw_fd(), self.level, self.name, to, &raw mut len) };
        if status < 0 { Err(io::Error::last_os_error()) } else { Ok((value, (len as usize).min(size_of::<T>()))) }
    }
}

type Int = SocketOption<libc::c_int>;

/// The most octets a second, up to 32 bits of them (socket(7)).
pub const MAX_PACING_RATE_32: SocketOption<u32> = SocketOption::new(libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE);
/// The same in 64 bits, for kernels whose words are as long (Linux 5.0).
#[cfg(target_pointer_width = "64")]
pub const MAX_PACING_RATE_64: SocketOption<u64> = SocketOption::new(libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE);
/// Datagrams bear their times of departure.
pub const TXTIME: SocketOption<SockTxtime> = SocketOption::new(libc::SOL_SOCKET, 61);
/// Of what is sent.
pub const PRIORITY: Int = SocketOption::new(libc::SOL_SOCKET, libc::SO_PRIORITY);
/// Sending without a copy is allowed.
pub const ZEROCOPY: Int = SocketOption::new(libc::SOL_SOCKET, libc::SO_ZEROCOPY);
/// Octets that must be there before a read returns.
pub const RECEIVE_LOW_WATER: Int = SocketOption::new(libc::SOL_SOCKET, libc::SO_RCVLOWAT);
/// Octets of the receive buffer, whatever the machine's limit, for a process that may (socket(7)).
pub const RECEIVE_BUFFER_FORCED: Int = SocketOption::new(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE);
/// Messages tell how many the socket dropped.
pub const RXQ_OVFL: Int = SocketOption::new(libc::SOL_SOCKET, libc::SO_RXQ_OVFL);
/// Messages tell when they arrived.
pub const TIMESTAMPING: Int = SocketOption::new(libc::SOL_SOCKET, libc::SO_TIMESTAMPING);
/// Microseconds for which a read polls the NIC.
pub const BUSY_POLL: Int = SocketOption::new(libc::SOL_SOCKET, libc::SO_BUSY_POLL);
/// What is sent is cut into datagrams of this size.
pub const UDP_SEGMENT: Int = SocketOption::new(libc::IPPROTO_UDP, 103);
/// What arrives is merged.
pub const UDP_GRO: Int = SocketOption::new(libc::IPPROTO_UDP, 104);
/// The MTU of the path.
pub const IP_MTU: Int = SocketOption::new(libc::IPPROTO_IP, libc::IP_MTU);
/// The MTU of the path.
pub const IPV6_MTU: Int = SocketOption::new(libc::IPPROTO_IPV6, libc::IPV6_MTU);
/// What ICMP says of what was sent is the socket's error (ip(7)).
pub const IP_RECVERR: Int = SocketOption::new(libc::IPPROTO_IP, libc::IP_RECVERR);
/// The same (ipv6(7)).
pub const IPV6_RECVERR: Int = SocketOption::new(libc::IPPROTO_IPV6, libc::IPV6_RECVERR);
/// Whether packets may be fragmented, and whether what is known of the path's MTU holds (ip(7)).
pub const IP_MTU_DISCOVER: Int = SocketOption::new(libc::IPPROTO_IP, libc::IP_MTU_DISCOVER);
/// The same (ipv6(7)).
pub const IPV6_MTU_DISCOVER: Int = SocketOption::new(libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER);
/// Messages tell the TTL that they arrived with.
pub const IP_RECVTTL: Int = SocketOption::new(libc::IPPROTO_IP, libc::IP_RECVTTL);
/// The same of the hop limit.
pub const IPV6_RECVHOPLIMIT: Int = SocketOption::new(libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT);
/// Netlink answers without the request in them.
pub const NETLINK_CAP_ACK: Int = SocketOption::new(libc::SOL_NETLINK, 10);
/// Netlink answers with words.
pub const NETLINK_EXT_ACK: Int = SocketOption::new(libc::SOL_NETLINK, 11);
/// struct tcp_info, and room for what kernels will append.
pub const TCP_INFO: SocketOption<[u8; 256]> = SocketOption::new(libc::IPPROTO_TCP, libc::TCP_INFO);
/// The words of SK_MEMINFO_…, and room for more.
pub const MEMINFO: SocketOption<[u8; 64]> = SocketOption::new(libc::SOL_SOCKET, 55);
/// The number of the socket's network namespace. From asm-generic/socket.h; mips and sparc have other numbers.
#[cfg(not(any(target_arch = "mips", target_arch = "mips64", target_arch = "sparc64")))]
pub const NETNS_COOKIE: SocketOption<u64> = SocketOption::new(libc::SOL_SOCKET, 71);
/// Frames that leave are not heard (linux/if_packet.h).
pub const PACKET_IGNORE_OUTGOING: Int = SocketOption::new(libc::SOL_PACKET, 23);
/// Frames go past the queueing discipline (packet(7)).
pub const PACKET_QDISC_BYPASS: Int = SocketOption::new(libc::SOL_PACKET, 20);
/// struct tpacket_stats: packets, and drops among them, since it was last read (packet(7)).
pub const PACKET_STATISTICS: SocketOption<[u32; 2]> = SocketOption::new(libc::SOL_PACKET, libc::PACKET_STATISTICS);
/// struct tpacket_stats_v3, of a ring of blocks: the same, and how often it was full.
pub const PACKET_STATISTICS_3: SocketOption<[u32; 3]> = SocketOption::new(libc::SOL_PACKET, libc::PACKET_STATISTICS);
/// What a ring's memory looks like (linux/if_packet.h, enum tpacket_versions).
pub const PACKET_VERSION: Int = SocketOption::new(libc::SOL_PACKET, libc::PACKET_VERSION);
/// struct tpacket_req3: how large a ring is.
pub const PACKET_RX_RING: SocketOption<[u32; 7]> = SocketOption::new(libc::SOL_PACKET, libc::PACKET_RX_RING);
/// Beside each frame stands what the kernel took out of it, such as its outer VLAN tag (packet(7)).
pub const PACKET_AUXDATA: Int = SocketOption::new(libc::SOL_PACKET, libc::PACKET_AUXDATA);
/// Entries of an AF_XDP socket's rings (linux/if_xdp.h).
pub const XDP_RX_RING: Int = SocketOption::new(libc::SOL_XDP, 2);
/// The same.
pub const XDP_TX_RING: Int = SocketOption::new(libc::SOL_XDP, 3);
/// The same.
pub const XDP_FILL_RING: Int = SocketOption::new(libc::SOL_XDP, 5);
/// The same.
pub const XDP_COMPLETION_RING: Int = SocketOption::new(libc::SOL_XDP, 6);
/// Where in their mappings the rings' words are: struct xdp_mmap_offsets, of twelve words before Linux 5.4.
pub const XDP_MMAP_OFFSETS: SocketOption<[u64; 16]> = SocketOption::new(libc::SOL_XDP, 1);
/// struct xdp_statistics, of three words before Linux 5.9.
pub const XDP_STATISTICS: SocketOption<[u64; 6]> = SocketOption::new(libc::SOL_XDP, 7);
/// Whether frames are copied (Linux 5.3).
pub const XDP_OPTIONS: SocketOption<u32> = SocketOption::new(libc::SOL_XDP, 8);
/// Frames to a system call (Linux 6.17).
pub const XDP_MAX_TX_SKB_BUDGET: SocketOption<u32> = SocketOption::new(libc::SOL_XDP, 9);
/// Who is at the other end of a local socket.
const PEERCRED: SocketOption<libc::ucred> = SocketOption::new(libc::SOL_SOCKET, libc::SO_PEERCRED);

/// The user who listens at the other end of this connection, or who connected to this end (SO_PEERCRED, unix(7)): as the
/// kernel noted it then, in this process's user namespace.
pub fn peer_user(socket: &std::os::unix::net::UnixStream) -> io::Result<u32> {
    PEERCRED.get(socket).map(|peer| peer.uid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_as_long_as_its_option() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        PRIORITY.set(&socket, 5).unwrap();
        assert_eq!(PRIORITY.get(&socket).unwrap(), 5);
        // Ten words on today's kernels, with room for more.
        let (words, len) = MEMINFO.get_some(&socket).unwrap();
        assert!((36..=64).contains(&len) && words[len..].iter().all(|octet| *octet == 0), "{len}");
        assert_eq!(MEMINFO.get(&socket).unwrap_err().raw_os_error(), Some(libc::EINVAL));
        assert!(TCP_INFO.get_some(&socket).is_err(), "it is no TCP socket");
    }

    #[test]
    fn the_other_end_has_a_user() {
        use std::os::unix::fs::MetadataExt;
        let (one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        assert_eq!(peer_user(&one).unwrap(), std::fs::metadata("/proc/self").unwrap().uid());
    }
}
