//! A pipe that carries pages rather than octets: vmsplice(2), tee(2) and splice(2).
//! Knows no sockets but as one end of a splice.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// A pipe. What is put into it by reference must not change until the kernel has let go of it.
pub struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
    capacity: usize,
}

impl Pipe {
    /// A pipe that holds `capacity` octets of whole pages, or what the system allows a user without privileges
    /// (pipe(7), /proc/sys/fs/pipe-max-size and pipe-user-pages-soft).
    pub fn new(capacity: usize) -> io::Result<Pipe> {
        let mut ends = [0; 2];
        // SAFETY: the kernel writes two descriptors into the array, which is that long.
        if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just given these descriptors, and nobody else has them.
        let (read, write) = unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) };
        let asked = libc::c_int::try_from(capacity).unwrap_or(libc::c_int::MAX);
        // SAFETY: both take numbers only. A refusal leaves the size as it is.
        let capacity = unsafe {
            libc::fcntl(write.as_raw_fd(), libc::F_SETPIPE_SZ, asked);
            libc::fcntl(write.as_raw_fd(), libc::F_GETPIPE_SZ)
        };
        Ok(Pipe { read, write, capacity: usize::try_from(capacity).unwrap_or(64 << 10) })
    }

    /// The octets of whole pages that it holds.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Puts octets in by reference (vmsplice(2)); returns how many found room. They must stand in a
    /// [`super::memory::Mapping`] that is not written to as long as the pipe, or a socket that got them, may hold them.
    #[inline]
    pub fn lend(&self, octets: &[u8]) -> io::Result<usize> {
        let vector = libc::iovec { iov_base: octets.as_ptr().cast_mut().cast(), iov_len: octets.len() };
        // SAFETY: the one vector describes `octets`, which the kernel only reads.
        let put = unsafe { libc::vmsplice(self.write.as_raw_fd(), &raw const vector, 1, libc::SPLICE_F_NONBLOCK as _) };
        count(put)
    }

    /// Puts the first `len` octets of another pipe in, which keeps them (tee(2)); returns how many.
    #[inline]
    pub fn copy_from(&self, other: &Pipe, len: usize) -> io::Result<usize> {
        let flags = libc::SPLICE_F_NONBLOCK;
        // SAFETY: takes numbers only.
        count(unsafe { libc::tee(other.read.as_raw_fd(), self.write.as_raw_fd(), len, flags as _) })
    }

    /// Moves up to `len` octets on to a socket; returns how many it took.
    #[inline]
    pub fn send(&self, socket: &impl AsRawFd, len: usize, more: bool) -> io::Result<usize> {
        let more = if more { libc::SPLICE_F_MORE } else { 0 };
        splice(self.read.as_raw_fd(), socket.as_raw_fd(), len, libc::SPLICE_F_MOVE | more)
    }

    /// Takes what a socket received, up to `len` octets; waits for the first as the socket's time-out says.
    #[inline]
    pub fn receive(&self, socket: &impl AsRawFd, len: usize) -> io::Result<usize> {
        splice(socket.as_raw_fd(), self.write.as_raw_fd(), len, libc::SPLICE_F_MOVE)
    }

    /// Moves up to `len` octets to a file, as /dev/null, which takes them all.
    #[inline]
    pub fn drain(&self, file: &File, len: usize) -> io::Result<usize> {
        splice(self.read.as_raw_fd(), file.as_raw_fd(), len, libc::SPLICE_F_MOVE)
    }
}

fn splice(from: libc::c_int, to: libc::c_int, len: usize, flags: libc::c_uint) -> io::Result<usize> {
    // SAFETY: no offsets are given; the rest are numbers.
    count(unsafe { libc::splice(from, std::ptr::null_mut(), to, std::ptr::null_mut(), len, flags) })
}

fn count(moved: libc::ssize_t) -> io::Result<usize> {
    if moved < 0 { Err(io::Error::last_os_error()) } else { Ok(moved as usize) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::memory::Mapping;

    #[test]
    fn what_is_lent_goes_through_as_it_is() {
        let mut memory = Mapping::new(100_000, 4096).unwrap();
        memory.as_mut_slice().fill(3);
        let (first, second) = (Pipe::new(1 << 20).unwrap(), Pipe::new(1 << 20).unwrap());
        assert!(first.capacity() >= 1 << 16);
        let lent = first.lend(memory.as_slice()).unwrap();
        assert_eq!(second.copy_from(&first, lent).unwrap(), lent);
        assert_eq!(second.copy_from(&first, 10).unwrap(), 10, "the first still has them");
        let null = File::options().write(true).open("/dev/null").unwrap();
        assert_eq!(first.drain(&null, lent).unwrap(), lent);
        assert_eq!(second.drain(&null, usize::MAX >> 1).unwrap(), lent + 10);
    }
}
