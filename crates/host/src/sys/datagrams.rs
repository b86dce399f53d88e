//! Many datagrams with one system call: sendmmsg(2) and recvmmsg(2) over buffers that stand ready.
//! Knows no probes; the caller writes and reads the octets.
//!
//! The system calls are made by number, because musl's sendmmsg is a loop over sendmsg.

use std::io;
use std::os::fd::AsRawFd;

/// `count` buffers of `size` octets in one piece of memory, and the headers that describe them to the kernel.
///
/// ```text
///   octets   |<-- stride -->|<-- stride -->|      stride = size rounded up to a cache line
///            [ datagram 0  ][ datagram 1  ] …
///   vectors  [ptr,len]      [ptr,len]       …     written anew before each call: nothing points here in between
///   headers  [vector 0]     [vector 1]      …
/// ```
pub struct DatagramBatch {
    octets: Vec<u8>,
    first: usize,
    stride: usize,
    size: usize,
    count: usize,
    vectors: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
}

/// Octets that processors move at once; some have 32, and 64 suits them too.
const CACHE_LINE: usize = 64;

// SAFETY: the raw pointers in `vectors` and `headers` are written before each system call from the vectors this
// struct owns and never read after it, so moving the struct to another thread moves all they point to.
unsafe impl Send for DatagramBatch {}

impl DatagramBatch {
    /// Buffers for `count` datagrams of `size` octets. The first stands at a multiple of `alignment` (a power of
    /// two), the others as close behind as cache lines allow.
    pub fn new(count: usize, size: usize, alignment: usize) -> DatagramBatch {
        let stride = size.max(1).next_multiple_of(alignment.clamp(1, CACHE_LINE));
        let octets = vec![0; stride * count + alignment];
        let first = octets.as_ptr().align_offset(alignment);
        // SAFETY: both are plain C structures for which all-zero octets are a valid value.
        let (vectors, headers) = unsafe { (vec![std::mem::zeroed(); count], vec![std::mem::zeroed(); count]) };
        DatagramBatch { octets, first, stride, size, count, vectors, headers }
    }

    /// How many datagrams the batch holds.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The buffer of one datagram.
    #[inline]
    pub fn datagram_mut(&mut self, index: usize) -> &mut [u8] {
        let start = self.first + index * self.stride;
        &mut self.octets[start..start + self.size]
    }

    /// Sends the first `count` datagrams on a connected socket. Returns how many the kernel took (at least one);
    /// the error, if any, belongs to the first.
    #[inline]
    pub fn send(&mut self, socket: &impl AsRawFd, count: usize) -> io::Result<usize> {
        self.describe(count.min(self.count));
        // SAFETY: `describe` pointed the first `count` headers at buffers that live as long as `self`.
        let sent = unsafe {
            libc::syscall(libc::SYS_sendmmsg, socket.as_raw_fd(), self.headers.as_mut_ptr(), count.min(self.count), 0)
        };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(sent as usize) }
    }

    /// Receives at least one datagram, and what else is there already. Returns how many;
    /// [`DatagramBatch::received`] has their octets.
    #[inline]
    pub fn receive(&mut self, socket: &impl AsRawFd) -> io::Result<usize> {
        self.describe(self.count);
        // MSG_TRUNC: msg_len is then the datagram's real length, so that an oversized stranger shows as such.
        let flags = libc::MSG_WAITFORONE | libc::MSG_TRUNC;
        // SAFETY: `describe` pointed every header at a buffer that lives as long as `self`; no time-out is given.
        let received = unsafe {
            libc::syscall(
                libc::SYS_recvmmsg,
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                self.count,
                flags,
                std::ptr::null_mut::<libc::timespec>(),
            )
        };
        if received < 0 { Err(io::Error::last_os_error()) } else { Ok(received as usize) }
    }

    /// The octets of a received datagram, and the length it had on arrival (more where it was cut).
    #[inline]
    pub fn received(&self, index: usize) -> (&[u8], usize) {
        let len = self.headers[index].msg_len as usize;
        let start = self.first + index * self.stride;
        (&self.octets[start..start + len.min(self.size)], len)
    }

    fn describe(&mut self, count: usize) {
        let base = self.octets.as_mut_ptr();
        for index in 0..count {
            let start = self.first + index * self.stride;
            // In bounds by construction: `first + stride * count <= octets.len()`.
            self.vectors[index] = libc::iovec { iov_base: base.wrapping_add(start).cast(), iov_len: self.size };
            let header = &mut self.headers[index].msg_hdr;
            header.msg_iov = &raw mut self.vectors[index];
            header.msg_iovlen = 1;
            header.msg_flags = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn a_batch_arrives_whole_and_in_order() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.connect(receiver.local_addr().unwrap()).unwrap();
        let mut out = DatagramBatch::new(8, 100, 4096);
        for index in 0..8 {
            out.datagram_mut(index).fill(index as u8);
        }
        assert_eq!(out.datagram_mut(0).as_ptr().align_offset(4096), 0);
        assert_eq!(out.send(&sender, 5).unwrap(), 5);
        let mut inward = DatagramBatch::new(8, 60, 64);
        assert_eq!(inward.receive(&receiver).unwrap(), 5);
        for index in 0..5 {
            assert_eq!(inward.received(index), (&[index as u8; 60][..], 100), "cut to the buffer, length kept");
        }
    }
}
