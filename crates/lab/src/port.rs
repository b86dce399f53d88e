//! A port of a device made here: it has every frame that arrives at an interface, and sends any.
//! Knows no addresses; what becomes of a frame is for who reads it.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::time::Duration;

use crate::sys;

/// One port. Several threads may use it: a frame that one sends is not received by another.
#[derive(Debug)]
pub struct Port {
    socket: OwnedFd,
    file: File,
}

impl Port {
    /// Of an interface in the namespace of this thread; needs CAP_NET_RAW.
    pub fn open(interface: &str) -> io::Result<Port> {
        let socket = sys::packet_socket(&CString::new(interface)?)?;
        let file = File::from(socket.try_clone()?);
        Ok(Port { socket, file })
    }

    /// The next frame's length, if one is there; the frame is in `room`. Longer ones are cut.
    pub fn receive(&self, room: &mut [u8]) -> io::Result<Option<usize>> {
        match (&self.file).read(room) {
            Ok(len) => Ok(Some(len)),
            Err(error) if is_passing(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sends a frame; `false`: the interface would not take it.
    pub fn send(&self, frame: &[u8]) -> io::Result<bool> {
        match (&self.file).write(frame) {
            Ok(_) => Ok(true),
            Err(error) if is_passing(&error) || error.raw_os_error() == Some(libc::ENOBUFS) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Waits until a frame is there, at most this long.
    pub fn wait(&self, at_most: Duration) -> io::Result<()> {
        sys::wait_readable(&self.socket, at_most)
    }

    /// Frames that found no room here since the last call.
    pub fn overflowed(&self) -> io::Result<u32> {
        Ok(sys::packet_statistics(&self.socket)?.1)
    }
}

/// Nothing to read yet, or an interface that is down for a while.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted | io::ErrorKind::NetworkDown)
}
