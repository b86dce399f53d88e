//! What stands for io_uring(7) on architectures whose layout the crate io-uring does not know: rings that cannot be.
//! Knows that there is nothing to know.

use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

use super::datagrams::DatagramBatch;
use super::memory::Mapping;

/// Whether io_uring is known on this architecture.
pub const KNOWN: bool = false;

/// Cannot be made here.
pub enum SendRing {}

impl SendRing {
    /// Always an error.
    pub fn new(_message: Mapping, _batch: usize, _zero_copy: bool) -> io::Result<SendRing> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Never called.
    pub fn send(&mut self, _socket: &impl AsRawFd, _at: usize, _want: usize, _timeout: Duration) -> io::Result<usize> {
        match *self {}
    }

    /// Never called.
    pub fn finish(&mut self, _patience: Duration, _stopped: impl FnMut() -> bool) -> usize {
        match *self {}
    }

    /// Never called.
    pub fn completions(&self) -> Option<(u64, u64)> {
        match *self {}
    }
}

/// Cannot be made here.
pub enum ReceiveRing {}

impl ReceiveRing {
    /// Always an error.
    pub fn new(_count: u16, _size: usize, _alignment: usize) -> io::Result<ReceiveRing> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Never called.
    pub fn receive(&mut self, _socket: &impl AsRawFd, _timeout: Duration) -> io::Result<usize> {
        match *self {}
    }
}

/// Cannot be made here.
pub enum DatagramRing {}

impl DatagramRing {
    /// Always an error.
    pub fn new(_batch: usize) -> io::Result<DatagramRing> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Never called.
    pub fn send(&mut self, _socket: &impl AsRawFd, _batch: &mut DatagramBatch, _count: usize) -> io::Result<usize> {
        match *self {}
    }
}
