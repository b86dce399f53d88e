//! A port of TCP and UDP that a server listens on, and the socket that hears one of its UDP clients only.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

use linerate_host::interfaces;
use linerate_host::sys::option;
use linerate_host::sys::poll::wait_for_any;
use socket2::{Domain, Protocol, Socket, Type};

use crate::allow::AllowList;

/// How often a thread that waits at a listener looks whether its server is over.
pub const LOOK_FOR_END: Duration = Duration::from_millis(20);

/// A datagram, and where it came from.
pub type Datagram = (SocketAddr, Vec<u8>);

/// Octets of the buffer of first datagrams.
const RECEIVE_BUFFER: usize = 4 << 20;

/// The sockets of one address.
pub struct Listener {
    /// Where connections come; it does not block.
    tcp: TcpListener,
    /// Where the first datagrams come; it does not block.
    udp: Option<UdpSocket>,
    /// Who is heard at either.
    allow: AllowList,
}

impl Listener {
    /// The sockets of an address; `udp`: datagrams are heard too.
    pub fn open(at: SocketAddr, udp: bool, allow: &AllowList) -> io::Result<Listener> {
        let tcp = listener(at)?;
        let mut at = at;
        at.set_port(tcp.local_addr()?.port());
        let udp = udp.then(|| first_datagrams(at)).transpose()?;
        Ok(Listener { tcp, udp, allow: allow.clone() })
    }

    /// Those at an address, or at every one. Port 0 is any that is free.
    pub fn open_all(address: Option<IpAddr>, port: u16, udp: bool, allow: &AllowList) -> io::Result<Vec<Listener>> {
        if let Some(address) = address {
            return Ok(vec![Listener::open(at_its_interface(address, port), udp, allow)?]);
        }
        let mut listeners = vec![Listener::open((Ipv4Addr::UNSPECIFIED, port).into(), udp, allow)?];
        let port = listeners[0].port()?;
        // A machine without IPv6 serves without it.
        listeners.extend(Listener::open((Ipv6Addr::UNSPECIFIED, port).into(), udp, allow).ok());
        Ok(listeners)
    }

    /// The port that is listened on.
    pub fn port(&self) -> io::Result<u16> {
        Ok(self.tcp.local_addr()?.port())
    }

    /// Who stands there now, by TCP; the connection blocks. What goes wrong is the connection's fault, or that of a machine
    /// that has no more descriptors or memory just now (accept(2)): either passes.
    pub fn accept(&self) -> Option<(TcpStream, SocketAddr)> {
        match self.tcp.accept() {
            Ok((stream, peer)) if self.allow.admits(peer.ip()) => {
                stream.set_nonblocking(false).ok().map(|()| (stream, peer))
            }
            Ok(_) => None,
            Err(error) if is_passing(&error) => None,
            Err(_) => {
                thread::sleep(LOOK_FOR_END);
                None
            }
        }
    }

    /// Until somebody comes by TCP or UDP, for so long at most.
    pub fn wait(&self, time: Duration) -> io::Result<()> {
        match &self.udp {
            Some(udp) => wait_for_any([self.tcp.as_fd(), udp.as_fd()], time)?,
            None => wait_for_any([self.tcp.as_fd()], time)?,
        };
        Ok(())
    }

    /// The next who comes by TCP within [`LOOK_FOR_END`].
    pub fn next(&self) -> io::Result<Option<(TcpStream, SocketAddr)>> {
        wait_for_any([self.tcp.as_fd()], LOOK_FOR_END)?;
        Ok(self.accept())
    }

    /// The datagrams that wait, of those who are heard.
    pub fn waiting(&self) -> Vec<Datagram> {
        let mut datagrams = self.udp.as_ref().map(waiting).unwrap_or_default();
        datagrams.retain(|(from, _)| self.allow.admits(from.ip()));
        datagrams
    }

    /// The same, once there is one; at most [`LOOK_FOR_END`] later.
    pub fn next_datagrams(&self) -> io::Result<Vec<Datagram>> {
        if let Some(udp) = &self.udp {
            wait_for_any([udp.as_fd()], LOOK_FOR_END)?;
        }
        Ok(self.waiting())
    }

    /// A socket of this port that hears one peer only, and what came to it or to the listener before it did so, from
    /// anybody: of the peer all that comes later comes to the socket. It blocks.
    pub fn connected(&self, peer: SocketAddr) -> io::Result<(Socket, Vec<Datagram>)> {
        let socket = datagram_socket(self.udp.as_ref().ok_or(ErrorKind::Unsupported)?.local_addr()?)?;
        socket.connect(&peer.into())?;
        let udp: UdpSocket = socket.into();
        udp.set_nonblocking(true)?;
        let mut before = self.waiting();
        before.extend(waiting(&udp));
        udp.set_nonblocking(false)?;
        Ok((udp.into(), before))
    }
}

/// An address of this machine; a link-local one is of the interface that has it.
fn at_its_interface(address: IpAddr, port: u16) -> SocketAddr {
    let mut at = SocketAddr::new(address, port);
    if let SocketAddr::V6(at) = &mut at
        && at.ip().is_unicast_link_local()
        && let Some(interface) = interfaces::addresses().unwrap_or_default().iter().find(|one| one.address == address)
    {
        at.set_scope_id(interface.index);
    }
    at
}

/// Where connections come; it does not block.
fn listener(at: SocketAddr) -> io::Result<TcpListener> {
    let listener = Socket::new(Domain::for_address(at), Type::STREAM, Some(Protocol::TCP))?;
    listener.set_reuse_address(true)?;
    if at.is_ipv6() {
        listener.set_only_v6(true)?;
    }
    listener.bind(&at.into())?;
    // Somebody who does not fit in the queue waits a second for its next try.
    listener.listen(1024)?;
    listener.set_nonblocking(true)?;
    Ok(listener.into())
}

/// Datagrams that one look takes at most, and their octets.
const MOST: usize = 4096;
const MOST_OCTETS: usize = 8 << 20;

/// What waits on a socket that does not block.
fn waiting(udp: &UdpSocket) -> Vec<Datagram> {
    let mut buffer = vec![0; 65_536];
    let (mut datagrams, mut octets) = (Vec::new(), 0);
    while datagrams.len() < MOST && octets < MOST_OCTETS {
        match udp.recv_from(&mut buffer) {
            Ok((len, from)) => {
                octets += len;
                datagrams.push((from, buffer[..len].to_vec()));
            }
            // An ICMP message about a peer that is gone.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
            Err(_) => break,
        }
    }
    datagrams
}

/// Where the first datagrams of senders come; it does not block.
fn first_datagrams(at: SocketAddr) -> io::Result<UdpSocket> {
    let udp = datagram_socket(at)?;
    udp.set_nonblocking(true)?;
    // What many send at once waits here; a process that is not root has as much of it as net.core.rmem_max allows.
    if option::RECEIVE_BUFFER_FORCED.set(&udp, RECEIVE_BUFFER as i32).is_err() {
        let _ = udp.set_recv_buffer_size(RECEIVE_BUFFER);
    }
    Ok(udp.into())
}

/// A socket for datagrams that may share its address with others of this server.
fn datagram_socket(at: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(at), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_reuse_address(true)?;
    if at.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.bind(&at.into())?;
    Ok(socket)
}

/// An error that means "not now".
pub fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted | ErrorKind::ConnectionAborted
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_before_the_peer_had_its_socket_is_brought() {
        let listener = Listener::open((Ipv4Addr::LOCALHOST, 0).into(), true, &AllowList::default()).unwrap();
        let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
        peer.connect((Ipv4Addr::LOCALHOST, listener.port().unwrap())).unwrap();
        peer.send(b"to the listener").unwrap();
        let (socket, before) = listener.connected(peer.local_addr().unwrap()).unwrap();
        assert_eq!(before, [(peer.local_addr().unwrap(), b"to the listener".to_vec())]);
        peer.send(b"to its own").unwrap();
        let mut octets = [0; 20];
        let udp: UdpSocket = socket.into();
        udp.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        assert_eq!(udp.recv(&mut octets).unwrap(), 10);
    }
}
