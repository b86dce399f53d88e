//! Packet sockets (packet(7)): what passes the interfaces, below the stack's filters, and frames of one's own.
//! Knows no protocols.

use std::io;
use std::os::fd::AsRawFd;

use socket2::{Domain, Protocol, SockFilter, Socket, Type};

/// What the kernel tells of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Octets of it, from the network header on, of which the buffer has as many as it has room for.
    pub len: usize,
    /// The interface's number.
    pub interface: u32,
    /// Which protocol, as Ethernet numbers it.
    pub protocol: u16,
    /// Where it goes.
    pub way: PacketType,
    /// The Ethernet address of its sender.
    pub from: Option<[u8; 6]>,
}

/// Where a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketType {
    /// It came for this machine, or for all.
    Came,
    /// It came for another Ethernet address.
    CameForAnother,
    /// It leaves.
    Left,
}

/// A socket that sees packets of all interfaces that `filter` lets through, both ways. EPERM without CAP_NET_RAW.
pub fn watch(filter: &[SockFilter]) -> io::Result<Socket> {
    // Of no protocol first, which is no packets: none may come in before the filter is there.
    let socket = Socket::new(Domain::PACKET, Type::DGRAM, Some(Protocol::from(0)))?;
    socket.attach_filter(filter)?;
    let _ = socket.set_recv_buffer_size(1 << 20);
    bind(&socket, libc::ETH_P_ALL as u16)?;
    Ok(socket)
}

/// A socket for this protocol of Ethernet, at all interfaces. EPERM without CAP_NET_RAW.
pub fn open(protocol: u16) -> io::Result<Socket> {
    let socket = Socket::new(Domain::PACKET, Type::DGRAM, Some(Protocol::from(0)))?;
    bind(&socket, protocol)?;
    Ok(socket)
}

fn link_address(protocol: u16, interface: u32, to: [u8; 6]) -> libc::sockaddr_ll {
    // SAFETY: a structure of integers, of which all zeroes are a value.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = interface.cast_signed();
    address.sll_halen = 6;
    address.sll_addr[..6].copy_from_slice(&to);
    address
}

fn bind(socket: &Socket, protocol: u16) -> io::Result<()> {
    bind_at(socket, protocol, 0)
}

/// Has a packet socket send and hear at one interface, whose number 0 is all of them.
pub(super) fn bind_at(socket: &Socket, protocol: u16, interface: u32) -> io::Result<()> {
    let address = link_address(protocol, interface, [0; 6]);
    let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: pointer and length describe `address`, which outlives the call and is only read.
    let status = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) };
    if status < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Sends a frame: `octets` behind an Ethernet header that the kernel makes.
pub fn send(socket: &Socket, interface: u32, protocol: u16, to: [u8; 6], octets: &[u8]) -> io::Result<()> {
    let address = link_address(protocol, interface, to);
    let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: both pairs of pointer and length describe values that outlive the call and are only read.
    let sent = unsafe {
        libc::sendto(
            socket.as_raw_fd(),
            octets.as_ptr().cast(),
            octets.len(),
            libc::MSG_DONTWAIT,
            (&raw const address).cast(),
            len,
        )
    };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Takes a packet without waiting.
pub fn receive(socket: &Socket, octets: &mut [u8]) -> io::Result<Packet> {
    let mut address = link_address(0, 0, [0; 6]);
    let mut len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: both pairs of pointer and length describe values that outlive the call; the kernel writes at most so much, and
    // any octets make a sockaddr_ll.
    let received = unsafe {
        libc::recvfrom(
            socket.as_raw_fd(),
            octets.as_mut_ptr().cast(),
            octets.len(),
            libc::MSG_DONTWAIT,
            (&raw mut address).cast(),
            &raw mut len,
        )
    };
    if received < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Packet {
        len: received as usize,
        interface: address.sll_ifindex.cast_unsigned(),
        protocol: u16::from_be(address.sll_protocol),
        way: match address.sll_pkttype {
            libc::PACKET_OUTGOING => PacketType::Left,
            libc::PACKET_OTHERHOST => PacketType::CameForAnother,
            _ => PacketType::Came,
        },
        from: (address.sll_halen == 6).then(|| *address.sll_addr.first_chunk().expect("eight octets")),
    })
}
