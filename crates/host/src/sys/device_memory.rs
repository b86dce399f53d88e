//! Words of a device's registers at physical addresses, through /dev/mem (mem(4)).
//! Knows no device; which addresses may be read is decided by who asks.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;

use super::memory::page_octets;

/// The machine's physical memory, to read from.
pub struct DeviceMemory(File);

/// A page of it, mapped for as long as this lives.
struct Page {
    base: *mut libc::c_void,
    len: usize,
}

impl DeviceMemory {
    /// Opens /dev/mem. Needs root (CAP_SYS_RAWIO).
    pub fn open() -> io::Result<DeviceMemory> {
        // Without O_SYNC some architectures would map the registers through the cache.
        OpenOptions::new().read(true).custom_flags(libc::O_SYNC).open("/dev/mem").map(DeviceMemory)
    }

    /// Reads one word of 32 bits, in one access.
    pub fn word(&self, address: u64) -> io::Result<u32> {
        let page_len = page_octets() as u64;
        if !address.is_multiple_of(4) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let page = Page::map(&self.0, address - address % page_len, page_len as usize)?;
        Ok(page.word((address % page_len) as usize / 4))
    }
}

impl Page {
    fn map(memory: &File, address: u64, len: usize) -> io::Result<Page> {
        let offset = libc::off64_t::try_from(address).map_err(|_| io::ErrorKind::InvalidInput)?;
        // SAFETY: no address of ours is asked for, so nothing that is mapped already changes. The 64-bit call, because
        // half of a 32-bit machine's registers lie above what its off_t can say.
        let base = unsafe {
            libc::mmap64(std::ptr::null_mut(), len, libc::PROT_READ, libc::MAP_SHARED, memory.as_raw_fd(), offset)
        };
        if base == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(Page { base, len }) }
    }

    fn word(&self, at: usize) -> u32 {
        assert!((at + 1) * 4 <= self.len, "the word lies in the page");
        // SAFETY: the page is mapped readable as long as `self` lives, the word lies in it (just asserted) and is
        // aligned, for a page begins at a multiple of 4. Volatile: a register is read exactly once, as a whole.
        unsafe { self.base.cast::<u32>().add(at).read_volatile() }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: exactly what `map` returned, unmapped once; no borrow outlives `self`.
        unsafe { libc::munmap(self.base, self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A page of a file stands for a page of a device.
    #[test]
    fn words_are_read_where_they_stand() {
        let path = std::env::temp_dir().join(format!("linerate-words-{}", std::process::id()));
        let octets: Vec<u8> = (0..2 * page_octets() as u32 / 4).flat_map(u32::to_ne_bytes).collect();
        std::fs::write(&path, octets).unwrap();
        let memory = DeviceMemory(File::open(&path).unwrap());
        std::fs::remove_file(&path).unwrap();
        let in_page = page_octets() as u32 / 4;
        for at in [0, 1, 33, in_page - 1, in_page, 2 * in_page - 1] {
            assert_eq!(memory.word(u64::from(at) * 4).unwrap(), at);
        }
        assert_eq!(memory.word(2).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert!(memory.word(u64::MAX - 3).is_err());
    }
}
