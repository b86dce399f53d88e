//! Connections between processes of this machine, and whose the other end is.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use socket2::{Domain, SockAddr, Socket, Type};

use super::option;

/// Connects to the abstract socket of this name (unix(7)) without waiting, and tells which user listens there.
/// `WouldBlock`: so many wait already that there is no room for one more.
pub fn connect(name: &str) -> io::Result<(UnixStream, u32)> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    socket.connect(&SockAddr::unix(format!("\0{name}"))?)?;
    socket.set_nonblocking(false)?;
    let stream = UnixStream::from(OwnedFd::from(socket));
    let user = option::peer_user(&stream)?;
    Ok((stream, user))
}
