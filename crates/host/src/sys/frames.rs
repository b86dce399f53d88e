//! Whole Ethernet frames through packet sockets (packet(7)): a ring of frames that stand ready, sent many to a system
//! call, and sockets that hear what a filter lets through.
//! Knows no test header; the caller writes and reads the octets.

use std::io;
use std::os::fd::AsRawFd;

use socket2::{Domain, Protocol, SockFilter, Socket, Type};

use super::option;
use super::packet::bind_at;

/// A socket on one interface that sends whole frames and hears none. EPERM without CAP_NET_RAW.
pub fn open_sender(interface: u32) -> io::Result<Socket> {
    let socket = raw()?;
    // Of protocol 0, which is nothing to hear; the frames have types of their own.
    bind_at(&socket, 0, interface)?;
    Ok(socket)
}

/// A socket on one interface that hears whole frames, of every type, which `filter` lets through. EPERM without
/// CAP_NET_RAW.
pub fn open_receiver(interface: u32, filter: &[SockFilter]) -> io::Result<Socket> {
    let socket = raw()?;
    socket.attach_filter(filter)?;
    // Linux 4.20 has it; before, the filter alone keeps this machine's own frames out.
    let _ = option::PACKET_IGNORE_OUTGOING.set(&socket, 1);
    bind_at(&socket, libc::ETH_P_ALL as u16, interface)?;
    Ok(socket)
}

fn raw() -> io::Result<Socket> {
    Socket::new(Domain::PACKET, Type::RAW, Some(Protocol::from(0)))
}

/// Has frames jump over the interface's queueing discipline, to its driver (Linux 3.14).
pub fn bypass_qdisc(socket: &Socket) -> io::Result<()> {
    option::PACKET_QDISC_BYPASS.set(socket, 1)
}

/// Frames in one piece of memory, each with the header that describes it to the kernel, which never changes.
///
/// ```text
///   octets   |<- frame 0 ->|<- frame 1 ->| … |<- last ->|      in the order in which they are sent, over and over
///   vectors  [ptr,len]      [ptr,len]        [ptr,len]
///   headers  [vector 0]     [vector 1]       [vector last]     a call is given some that follow each other
/// ```
pub struct FrameRing {
    octets: Vec<u8>,
    /// Where each frame begins, and behind the last one the end.
    starts: Vec<usize>,
    headers: Vec<libc::mmsghdr>,
    /// What the headers point to; never touched again.
    _vectors: Vec<libc::iovec>,
}

// SAFETY: the raw pointers in the headers and the vectors point to heap memory that this struct owns and that no method
// moves; with the struct it goes to the other thread as a whole.
unsafe impl Send for FrameRing {}

impl FrameRing {
    /// Room for frames of these sizes, in this order.
    pub fn new(sizes: impl Iterator<Item = usize>) -> FrameRing {
        let mut starts = vec![0_usize];
        for size in sizes {
            starts.push(starts[starts.len() - 1] + size);
        }
        let mut octets = vec![0; starts[starts.len() - 1]];
        let base = octets.as_mut_ptr();
        let mut vectors: Vec<libc::iovec> = starts
            .windows(2)
            // In bounds by construction: the last start is the length.
            .map(|pair| libc::iovec { iov_base: base.wrapping_add(pair[0]).cast(), iov_len: pair[1] - pair[0] })
            .collect();
        let headers = vectors.iter_mut().map(|vector| {
            // SAFETY: a plain C structure for which all-zero octets are a valid value.
            let mut header: libc::mmsghdr = unsafe { std::mem::zeroed() };
            header.msg_hdr.msg_iov = vector;
            header.msg_hdr.msg_iovlen = 1;
            header
        });
        let headers = headers.collect();
        FrameRing { octets, starts, headers, _vectors: vectors }
    }

    /// How many frames it holds.
    pub fn count(&self) -> usize {
        self.headers.len()
    }

    /// One of them.
    #[inline]
    pub fn frame_mut(&mut self, index: usize) -> &mut [u8] {
        // The kernel only reads them, and only while a call sends.
        &mut self.octets[self.starts[index]..self.starts[index + 1]]
    }

    /// Sends `count` frames from `first` on, none beyond the last, with one system call. Returns how many the kernel
    /// took (at least one); the error, if any, belongs to the first.
    #[inline]
    pub fn send(&mut self, socket: &impl AsRawFd, first: usize, count: usize) -> io::Result<usize> {
        let headers = &mut self.headers[first..][..count];
        let (start, len) = (headers.as_mut_ptr(), headers.len());
        // SAFETY: `len` headers from `start` on are of this ring; what they point to lives as long, and is only read.
        // By number, because musl's sendmmsg is a loop over sendmsg.
        let sent = unsafe { libc::syscall(libc::SYS_sendmmsg, socket.as_raw_fd(), start, len, libc::MSG_NOSIGNAL) };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(sent as usize) }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;

    use super::*;

    #[test]
    fn frames_are_sent_in_order_and_none_beyond_the_last() {
        let (one, other) = UnixDatagram::pair().unwrap();
        let mut ring = FrameRing::new([3, 1, 5].into_iter());
        for index in 0..ring.count() {
            ring.frame_mut(index).fill(index as u8 + 1);
        }
        assert_eq!(ring.send(&one, 1, 2).unwrap(), 2);
        assert_eq!(ring.send(&one, 0, 1).unwrap(), 1);
        let mut octets = [0; 16];
        for frame in [&[2][..], &[3; 5], &[1; 3]] {
            let len = other.recv(&mut octets).unwrap();
            assert_eq!(&octets[..len], frame);
        }
        assert!(std::panic::catch_unwind(move || ring.send(&one, 2, 2)).is_err(), "there is no fourth");
    }
}
