//! Memory straight from the kernel: pages of our own, a file in memory, and the window on a socket's pages.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};

/// Pages that this process maps (mmap(2)).
///
/// Memory that the kernel sends from without a copy must not be reused until the kernel is done: a retransmitted segment
/// would carry the new content. Pages that are unmapped are the kernel's alone, and are not given to
/// anybody before it lets go of them; memory of an allocator would be.
pub struct Mapping {
    base: *mut libc::c_void,
    whole: usize,
    first: usize,
    len: usize,
}

// SAFETY: the pages belong to this value alone, and are reached through its borrows only.
unsafe impl Send for Mapping {}

impl Mapping {
    /// `len` octets of zeroes, the first at a multiple of `alignment`, a power of two, and of the page size.
    pub fn new(len: usize, alignment: usize) -> io::Result<Mapping> {
        let over = if alignment > page_octets() { alignment } else { 0 };
        let whole = len.checked_add(over).ok_or(io::ErrorKind::OutOfMemory)?.max(1);
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let base = map(whole, access, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1)?;
        let first = if over == 0 { 0 } else { base.cast::<u8>().align_offset(alignment) };
        Ok(Mapping { base, whole, first, len })
    }

    /// A window of `len` octets through which a socket can show what it received (TCP_ZEROCOPY_RECEIVE). There is
    /// nothing in it before that: do not read it.
    pub fn of_socket(socket: &impl AsRawFd, len: usize) -> io::Result<Mapping> {
        let base = map(len, libc::PROT_READ, libc::MAP_SHARED, socket.as_raw_fd())?;
        Ok(Mapping { base, whole: len, first: 0, len: 0 })
    }

    /// Memory of a socket's that the kernel writes to as well, `len` octets of it (packet(7), PACKET_RX_RING): there are no
    /// slices of it here, only its beginning.
    pub fn shared(socket: &impl AsRawFd, len: usize) -> io::Result<Mapping> {
        Mapping::shared_at(socket, len, 0)
    }

    /// The same of a socket that has several such memories, by the offset that tells which (linux/if_xdp.h).
    pub fn shared_at(socket: &impl AsRawFd, len: usize, offset: u64) -> io::Result<Mapping> {
        let base = map_at(len, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED, socket.as_raw_fd(), offset)?;
        Ok(Mapping { base, whole: len, first: 0, len: 0 })
    }

    /// Where the octets begin.
    pub fn as_ptr(&self) -> *const u8 {
        self.base.cast::<u8>().wrapping_add(self.first)
    }

    /// The octets; none of a socket's window.
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: `first + len <= whole`, all of it mapped and readable as long as `self` lives.
        unsafe { std::slice::from_raw_parts(self.as_ptr(), self.len) }
    }

    /// The octets; none of a socket's window.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as above, and writable where `len` is not zero; `self` is borrowed alone.
        unsafe { std::slice::from_raw_parts_mut(self.as_ptr().cast_mut(), self.len) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly what `map` returned, unmapped once; no borrow outlives `self`.
        unsafe { libc::munmap(self.base, self.whole) };
    }
}

/// Words of 64 bits that end before a page which nobody may touch: for a system call that writes more than there is room
/// for when what it writes has grown meanwhile. The kernel writes from the beginning on and stops at that page with EFAULT,
/// so nothing behind it is overwritten, however much there is.
pub struct GuardedBuffer {
    pages: Mapping,
    words: usize,
}

impl GuardedBuffer {
    /// As many words as these octets take, and those that fill the last page; all zero.
    pub fn new(octets: usize) -> io::Result<GuardedBuffer> {
        let page = page_octets();
        let too_large = || io::Error::from(io::ErrorKind::OutOfMemory);
        let room = octets.max(1).checked_next_multiple_of(page).ok_or_else(too_large)?;
        let pages = Mapping::new(room.checked_add(page).ok_or_else(too_large)?, 1)?;
        let fence = pages.as_ptr().wrapping_add(room).cast_mut().cast();
        // SAFETY: the last page of `pages`, to which no reference was made and none will be: `words` ends before it.
        if unsafe { libc::mprotect(fence, page, libc::PROT_NONE) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(GuardedBuffer { pages, words: room / 8 })
    }

    /// The words.
    pub fn words(&self) -> &[u64] {
        // SAFETY: so many words are mapped, readable and zeroed at first, from the beginning of a page on.
        unsafe { std::slice::from_raw_parts(self.pages.as_ptr().cast(), self.words) }
    }

    /// The words.
    pub fn words_mut(&mut self) -> &mut [u64] {
        // SAFETY: as above, and writable; `self` is borrowed alone.
        unsafe { std::slice::from_raw_parts_mut(self.pages.as_ptr().cast_mut().cast(), self.words) }
    }

    /// Where they begin, for a system call that writes to them while they are borrowed alone.
    pub fn as_mut_ptr(&mut self) -> *mut u64 {
        self.pages.as_ptr().cast_mut().cast()
    }
}

fn map(len: usize, access: libc::c_int, flags: libc::c_int, fd: libc::c_int) -> io::Result<*mut libc::c_void> {
    map_at(len, access, flags, fd, 0)
}

fn map_at(
    len: usize,
    access: libc::c_int,
    flags: libc::c_int,
    fd: libc::c_int,
    offset: u64,
) -> io::Result<*mut libc::c_void> {
    // SAFETY: no address is asked for, so nothing that is mapped already changes.
    let base = unsafe { libc::mmap64(std::ptr::null_mut(), len, access, flags, fd, offset.cast_signed()) };
    if base == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(base) }
}

/// From now on a large buffer that is freed goes back to the kernel (mallopt(3)): glibc keeps those of threads that come and
/// go, up to 32 MiB each. Other C libraries return it anyway.
pub fn return_large_buffers() {
    #[cfg(target_env = "gnu")]
    {
        const LARGE: libc::c_int = 128 << 10;
        // SAFETY: it sets a number of the allocator's own, which takes its lock for it.
        unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE) };
    }
}

/// Octets of a page of memory (sysconf(3), _SC_PAGESIZE).
pub fn page_octets() -> usize {
    // SAFETY: takes a number only.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// A file that exists in memory only (memfd_create(2), since Linux 3.17), holding these octets so many times, sealed so that nobody
/// can change what the kernel may send again.
pub fn sealed_file(octets: &[u8], times: usize) -> io::Result<File> {
    // By number, because old C libraries have no function for it.
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: the name is a constant that ends in a zero; the rest are numbers.
    let fd = unsafe { libc::syscall(libc::SYS_memfd_create, c"linerate".as_ptr(), flags) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just given this descriptor, and nobody else has it.
    let mut file = unsafe { File::from_raw_fd(fd as libc::c_int) };
    for _ in 0..times {
        io::Write::write_all(&mut file, octets)?;
    }
    let seals = libc::F_SEAL_SEAL | libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_WRITE;
    // SAFETY: takes numbers only.
    let sealed = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) };
    if sealed < 0 { Err(io::Error::last_os_error()) } else { Ok(file) }
}

/// Sends `len` octets of a file from `at` on, whose pages the stack takes as they are (sendfile(2)). Returns how many.
#[inline]
pub fn send_file(socket: &impl AsRawFd, file: &File, at: usize, len: usize) -> io::Result<usize> {
    let mut at = at as libc::off_t;
    // SAFETY: the kernel reads and writes the offset, which outlives the call; the rest are numbers.
    let sent = unsafe { libc::sendfile(socket.as_raw_fd(), file.as_raw_fd(), &raw mut at, len) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(sent as usize) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_stands_where_it_was_asked_to() {
        for alignment in [1, 4096, 1 << 20] {
            let mut memory = Mapping::new(10_000, alignment).unwrap();
            assert_eq!(memory.as_ptr() as usize % alignment.max(page_octets()), 0);
            memory.as_mut_slice().fill(7);
            assert_eq!(memory.as_slice(), [7; 10_000]);
        }
    }

    #[test]
    fn the_kernel_writes_no_further_than_a_fence() {
        let (mut reader, mut writer) = (GuardedBuffer::new(100).unwrap(), GuardedBuffer::new(1).unwrap());
        assert_eq!(reader.words().len(), page_octets() / 8);
        writer.words_mut().fill(7);
        let (read_end, mut write_end) = io::pipe().unwrap();
        let octets = vec![0xFF_u8; 2 * page_octets()];
        io::Write::write_all(&mut write_end, &octets).unwrap();
        // SAFETY: read(2) writes to no more than what follows `reader`'s first word without a gap, which ends at its
        // fence; that it does not go on is what is tested.
        let read = unsafe { libc::read(read_end.as_raw_fd(), reader.as_mut_ptr().cast(), octets.len()) };
        assert!(read <= page_octets() as isize, "{read}");
        assert!(writer.words().iter().all(|word| *word == 7), "nothing else has changed");
    }

    #[test]
    fn nobody_writes_to_a_sealed_file() {
        let mut file = sealed_file(b"octets", 2).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 12);
        assert_eq!(io::Write::write(&mut file, b"more").unwrap_err().raw_os_error(), Some(libc::EPERM));
    }
}
