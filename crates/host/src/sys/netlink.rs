//! Opens netlink sockets.
//! Knows nothing of messages; those are the business of the crate's `netlink` module.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::option;

/// A netlink socket of the calling thread's network namespace (netlink(7)); `protocol` as NETLINK_ROUTE.
pub fn open(protocol: i32) -> io::Result<OwnedFd> {
    // SAFETY: socket(2) takes three integers and touches no memory of ours.
    let fd = unsafe { libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, protocol) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `fd` was just made, is open, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Has the socket hear what the kernel tells these groups, a bit each, from now on (netlink(7)).
pub fn bind(socket: BorrowedFd<'_>, groups: u32) -> io::Result<()> {
    // SAFETY: a struct of integers, for which all zeroes is a value.
    let mut address: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
    address.nl_family = libc::AF_NETLINK as libc::sa_family_t;
    address.nl_groups = groups;
    let len = size_of::<libc::sockaddr_nl>() as libc::socklen_t;
    // SAFETY: the pointer and `len` describe `address`, which outlives the call and is only read.
    let status = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) };
    if status < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Has the kernel put words beside its error numbers, and leave the request out of its answers (NETLINK_EXT_ACK and
/// NETLINK_CAP_ACK, netlink(7)).
pub fn ask_for_words(socket: BorrowedFd<'_>) -> io::Result<()> {
    option::NETLINK_EXT_ACK.set(&socket, 1)?;
    option::NETLINK_CAP_ACK.set(&socket, 1)
}

/// The index of an interface in the calling thread's network namespace (if_nametoindex(3)).
pub fn interface_index(interface: &str) -> io::Result<u32> {
    let name = CString::new(interface).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    // SAFETY: `name` is a NUL-terminated string that outlives the call, and is only read.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(io::Error::last_os_error()),
        index => Ok(index),
    }
}
