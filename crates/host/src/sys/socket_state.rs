//! What the kernel tells of a socket, TCP_INFO and SO_MEMINFO, and how much it waits for, SO_RCVLOWAT.
//! Knows no meaning of the numbers beyond their names.

use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

use super::option;

/// The octets of `struct tcp_info` (linux/tcp.h) that this kernel filled in. Kernels only ever append fields, so
/// an older one simply has a shorter answer.
#[derive(Clone)]
pub struct TcpInfo {
    octets: [u8; 256],
    len: usize,
}

/// The shortest round trip that a TCP connection saw; zero where nobody knows.
pub fn least_round_trip(socket: &impl AsRawFd) -> Duration {
    let us = TcpInfo::of(socket).ok().and_then(|info| info.min_rtt_us());
    Duration::from_micros(us.unwrap_or(0).into())
}

/// Where a 32-bit field of `struct tcp_info` stands.
#[derive(Clone, Copy)]
#[repr(usize)]
#[allow(missing_docs, reason = "the names are the kernel's, without their tcpi_ prefix")]
pub enum Field32 {
    SndMss = 16,
    Unacked = 24,
    Pmtu = 60,
    Rtt = 68,
    Rttvar = 72,
    SndSsthresh = 76,
    SndCwnd = 80,
    TotalRetrans = 100,
    NotsentBytes = 144,
    MinRtt = 148,
    DataSegsIn = 152,
    DataSegsOut = 156,
    DsackDups = 216,
    ReordSeen = 220,
    RcvOoopack = 224,
    SndWnd = 228,
}

/// Where a 64-bit field of `struct tcp_info` stands.
#[derive(Clone, Copy)]
#[repr(usize)]
#[allow(missing_docs, reason = "the names are the kernel's, without their tcpi_ prefix")]
pub enum Field64 {
    BytesAcked = 120,
    DeliveryRate = 160,
    BusyTime = 168,
    RwndLimited = 176,
    SndbufLimited = 184,
    BytesSent = 200,
    BytesRetrans = 208,
}

/// Where a field of one octet of `struct tcp_info` stands.
#[derive(Clone, Copy)]
#[repr(usize)]
#[allow(missing_docs, reason = "the names are the kernel's, without their tcpi_ prefix")]
pub enum Field8 {
    State = 0,
    CaState = 1,
    Backoff = 4,
    Options = 5,
}

/// TCPI_OPT_TIMESTAMPS of linux/tcp.h: both ends put timestamps into each segment.
pub const TIMESTAMPS: u8 = 1;
/// TCPI_OPT_SACK: both ends acknowledge selectively.
pub const SACK: u8 = 2;
/// TCPI_OPT_WSCALE: both ends scale windows.
pub const WINDOW_SCALING: u8 = 4;

/// TCPI_OPT_ECN: both ends agreed on explicit congestion notification.
pub const ECN: u8 = 8;

/// TCP_CLOSE of net/tcp_states.h: neither end will send anything more, and this end knows that it is so.
pub const TCP_CLOSE: u8 = 7;

impl TcpInfo {
    /// Asks the kernel. Errors where the socket is not TCP.
    pub fn of(socket: &impl AsRawFd) -> io::Result<TcpInfo> {
        let (octets, len) = option::TCP_INFO.get_some(socket)?;
        Ok(TcpInfo { octets, len })
    }

    /// A field of one octet; `None` where this kernel has none.
    pub fn get8(&self, field: Field8) -> Option<u8> {
        self.octets[..self.len].get(field as usize).copied()
    }

    /// A 32-bit field; `None` where this kernel has none.
    pub fn get32(&self, field: Field32) -> Option<u32> {
        let at = field as usize;
        let octets = self.octets[..self.len].get(at..at + 4)?;
        Some(u32::from_ne_bytes(octets.try_into().ok()?))
    }

    /// The shortest round trip, microseconds. Its field is ~0 until the first measurement.
    pub fn min_rtt_us(&self) -> Option<u32> {
        self.get32(Field32::MinRtt).filter(|&us| us != u32::MAX)
    }

    /// A 64-bit field; `None` where this kernel has none.
    pub fn get64(&self, field: Field64) -> Option<u64> {
        let at = field as usize;
        let octets = self.octets[..self.len].get(at..at + 8)?;
        Some(u64::from_ne_bytes(octets.try_into().ok()?))
    }
}

/// Datagrams that this socket dropped because its receive buffer was full, since it was made: SK_MEMINFO_DROPS
/// of SO_MEMINFO (linux/sock_diag.h, since Linux 4.12). `None` on older kernels.
pub fn socket_drops(socket: &impl AsRawFd) -> Option<u64> {
    const SK_MEMINFO_DROPS: usize = 8;
    let (octets, len) = option::MEMINFO.get_some(socket).ok()?;
    let octets = octets[..len].get(SK_MEMINFO_DROPS * 4..SK_MEMINFO_DROPS * 4 + 4)?;
    Some(u64::from(u32::from_ne_bytes(octets.try_into().ok()?)))
}

/// Octets that were written to this TCP socket and that its peer has not acknowledged (SIOCOUTQ, tcp(7)).
pub fn unacknowledged(socket: &impl AsRawFd) -> io::Result<u32> {
    let mut octets: libc::c_int = 0;
    // SAFETY: the kernel writes one int to `octets`, which outlives the call. SIOCOUTQ is TIOCOUTQ by another name.
    let status = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut octets) };
    if status < 0 { Err(io::Error::last_os_error()) } else { Ok(octets.cast_unsigned()) }
}

/// Octets that have arrived and that nobody has read: of TCP those in order (SIOCINQ, tcp(7)), of UDP those of the next
/// datagram (udp(7)).
pub fn unread(socket: &impl AsRawFd) -> io::Result<u32> {
    let mut octets: libc::c_int = 0;
    // SAFETY: the kernel writes one int to `octets`, which outlives the call. SIOCINQ is FIONREAD by another name.
    let status = unsafe { libc::ioctl(socket.as_raw_fd(), libc::FIONREAD, &raw mut octets) };
    if status < 0 { Err(io::Error::last_os_error()) } else { Ok(octets.cast_unsigned()) }
}

/// Octets of memory that what waits to be read takes, headers included: SK_MEMINFO_RMEM_ALLOC of SO_MEMINFO (Linux
/// 4.12). It is this that the receive buffer bounds. `None` on older kernels.
pub fn receive_memory(socket: &impl AsRawFd) -> Option<u64> {
    let (octets, len) = option::MEMINFO.get_some(socket).ok()?;
    Some(u64::from(u32::from_ne_bytes(*octets[..len].first_chunk()?)))
}

/// Lets a read return, and its thread wake, only when this many octets are there, the connection ends, or the read's
/// time is over: SO_RCVLOWAT (socket(7)). The kernel keeps it within half the receive buffer.
pub fn set_receive_low_water(socket: &impl AsRawFd, octets: u32) -> io::Result<()> {
    option::RECEIVE_LOW_WATER.set(socket, libc::c_int::try_from(octets).unwrap_or(libc::c_int::MAX))
}

/// Has whatever ICMP says of a socket's datagrams become its error, not "port unreachable" alone.
pub fn report_icmp_errors(socket: &impl AsRawFd, is_ipv4: bool) -> io::Result<()> {
    (if is_ipv4 { option::IP_RECVERR } else { option::IPV6_RECVERR }).set(socket, 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream, UdpSocket};

    #[test]
    fn tcp_info_has_what_every_kernel_has() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let info = TcpInfo::of(&stream).unwrap();
        // Loopback's MTU is 65536 and a connection starts with ten segments (RFC 6928).
        assert!(info.get32(Field32::SndMss).unwrap() > 1000);
        assert_eq!(info.get32(Field32::SndCwnd), Some(10));
        assert_eq!(info.get32(Field32::TotalRetrans), Some(0));
        let short = TcpInfo { octets: info.octets, len: 104 };
        assert!(short.get32(Field32::TotalRetrans).is_some());
        assert_eq!(short.get64(Field64::BusyTime), None, "an old kernel's shorter answer");
    }

    #[test]
    fn drops_of_a_full_socket_are_counted_exactly() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let before = socket_drops(&receiver).expect("Linux 4.12 or newer");
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        let sent = 2000;
        for _ in 0..sent {
            sender.send_to(&[0; 1000], receiver.local_addr().unwrap()).unwrap();
        }
        let drops = socket_drops(&receiver).unwrap() - before;
        receiver.set_nonblocking(true).unwrap();
        let mut received = 0;
        while receiver.recv(&mut [0; 1000]).is_ok() {
            received += 1;
        }
        assert!(drops > 0);
        assert_eq!(received + drops, sent);
    }
}
