//! Maps: what a BPF program and this process share.
//! Knows keys and values as octets and words; their meaning is the program's.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use super::{bpf, owned, pointer, pointer_mut};

// linux/bpf.h.
const BPF_MAP_CREATE: libc::c_int = 0;
const BPF_MAP_LOOKUP_ELEM: libc::c_int = 1;
const BPF_MAP_UPDATE_ELEM: libc::c_int = 2;
const BPF_MAP_GET_NEXT_KEY: libc::c_int = 4;
const BPF_MAP_TYPE_HASH: u32 = 1;
const BPF_MAP_TYPE_ARRAY: u32 = 2;
const BPF_MAP_TYPE_PERCPU_ARRAY: u32 = 6;
const BPF_MAP_TYPE_XSKMAP: u32 = 17;

/// Makes a map: `struct { map_type, key_size, value_size, max_entries }` of union bpf_attr.
fn create(kind: u32, key_octets: u32, value_octets: u32, entries: u32) -> io::Result<OwnedFd> {
    let mut words = [kind, key_octets, value_octets, entries];
    let made = bpf(BPF_MAP_CREATE, &mut words).or_else(|error| match error.raw_os_error() {
        // Before Linux 5.11 maps were charged to the memory that a process may lock, which is 64 KiB as a rule.
        Some(libc::EPERM) if lock_any_memory() => bpf(BPF_MAP_CREATE, &mut words),
        _ => Err(error),
    })?;
    Ok(owned(made))
}

/// Lifts the limit on locked memory; false where that is not allowed, or there is none.
fn lock_any_memory() -> bool {
    let unlimited = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the kernel reads one structure, which outlives the call.
    unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const unlimited) == 0 }
}

/// `struct { map_fd, key, value or next_key, flags }` of union bpf_attr.
#[repr(C, align(8))]
struct Element {
    map: u32,
    pad: u32,
    key: u64,
    value: u64,
    flags: u64,
}

impl Element {
    fn of(map: &OwnedFd, key: u64, value: u64) -> Element {
        Element { map: map.as_raw_fd() as u32, pad: 0, key, value, flags: 0 }
    }
}

/// A hash map in the kernel, from keys of `K` octets to a 64-bit number.
#[derive(Debug)]
pub struct Counts<const K: usize> {
    map: OwnedFd,
    most: u32,
}

impl<const K: usize> Counts<K> {
    /// An empty map for at most so many keys.
    pub fn new(most: u32) -> io::Result<Counts<K>> {
        Ok(Counts { map: create(BPF_MAP_TYPE_HASH, K as u32, 8, most)?, most })
    }

    /// The map's number, for the instruction that loads its address.
    pub fn number(&self) -> i32 {
        self.map.as_raw_fd()
    }

    /// How many keys it may have.
    pub fn most(&self) -> u32 {
        self.most
    }

    /// Every key and its number. A map that somebody writes to meanwhile may show a key twice or not at all, but it
    /// ends.
    pub fn read(&self) -> io::Result<Vec<([u8; K], u64)>> {
        let mut found: Vec<([u8; K], u64)> = Vec::new();
        while found.len() < 2 * self.most as usize {
            let (mut key, mut value) = ([0u8; K], 0u64);
            // Behind no key comes the first.
            let last = found.last().map_or(0, |(last, _)| pointer(last.as_ptr()));
            match bpf(BPF_MAP_GET_NEXT_KEY, &mut Element::of(&self.map, last, pointer_mut(key.as_mut_ptr()))) {
                Err(error) if error.raw_os_error() == Some(libc::ENOENT) => break,
                other => other?,
            };
            let mut element = Element::of(&self.map, pointer(key.as_ptr()), pointer_mut(&raw mut value));
            bpf(BPF_MAP_LOOKUP_ELEM, &mut element)?;
            found.push((key, value));
        }
        Ok(found)
    }
}

/// An array in the kernel, of values of so many 64-bit words, all zero at first. A program that runs on several CPUs at
/// once must add atomically.
#[derive(Debug)]
pub struct Array {
    map: OwnedFd,
    entries: u32,
    words: usize,
}

impl Array {
    /// An array of `entries` values of `words` words each.
    pub fn new(entries: u32, words: usize) -> io::Result<Array> {
        Ok(Array { map: create(BPF_MAP_TYPE_ARRAY, 4, value_octets(words)?, entries)?, entries, words })
    }

    /// The map's number, for the instruction that loads its address, or that of its first value.
    pub fn number(&self) -> i32 {
        self.map.as_raw_fd()
    }

    /// How many values it has.
    pub fn entries(&self) -> u32 {
        self.entries
    }

    /// A value, word by word; words that belong together may be of different moments.
    pub fn read(&self, index: u32) -> io::Result<Vec<u64>> {
        let mut words = vec![0u64; self.words];
        let mut element = Element::of(&self.map, pointer(&raw const index), pointer_mut(words.as_mut_ptr()));
        bpf(BPF_MAP_LOOKUP_ELEM, &mut element)?;
        Ok(words)
    }

    /// Writes a whole value; `words` has as many words as the array's values.
    pub fn write(&self, index: u32, words: &[u64]) -> io::Result<()> {
        assert_eq!(words.len(), self.words, "a value is written whole");
        bpf(BPF_MAP_UPDATE_ELEM, &mut Element::of(&self.map, pointer(&raw const index), pointer(words.as_ptr())))?;
        Ok(())
    }
}

/// An array with a value of its own for each CPU, which programs add to without being atomic.
#[derive(Debug)]
pub struct PerCpuArray {
    map: OwnedFd,
    words: usize,
    cpus: usize,
}

impl PerCpuArray {
    /// An array of `entries` values of `words` words each, on every CPU.
    pub fn new(entries: u32, words: usize) -> io::Result<PerCpuArray> {
        let map = create(BPF_MAP_TYPE_PERCPU_ARRAY, 4, value_octets(words)?, entries)?;
        Ok(PerCpuArray { map, words, cpus: possible_cpus()? })
    }

    /// The map's number, for the instruction that loads its address.
    pub fn number(&self) -> i32 {
        self.map.as_raw_fd()
    }

    /// The value of each CPU; of CPUs that there could be, all words are 0.
    pub fn read(&self, index: u32) -> io::Result<Vec<Vec<u64>>> {
        // The kernel writes a value for each possible CPU, of which there are no more than that.
        let mut words = vec![0u64; self.words * self.cpus];
        let mut element = Element::of(&self.map, pointer(&raw const index), pointer_mut(words.as_mut_ptr()));
        bpf(BPF_MAP_LOOKUP_ELEM, &mut element)?;
        Ok(words.chunks_exact(self.words).map(<[u64]>::to_vec).collect())
    }

    /// The sum over all CPUs, word by word.
    pub fn sum(&self, index: u32) -> io::Result<Vec<u64>> {
        let mut sum = vec![0u64; self.words];
        for cpu in self.read(index)? {
            sum.iter_mut().zip(cpu).for_each(|(sum, word)| *sum = sum.wrapping_add(word));
        }
        Ok(sum)
    }
}

/// AF_XDP sockets by receive queue (XSKMAP), for programs that hand frames to them.
#[derive(Debug)]
pub struct Sockets {
    map: OwnedFd,
}

impl Sockets {
    /// Room for the sockets of so many queues. Since Linux 4.18.
    pub fn new(queues: u32) -> io::Result<Sockets> {
        Ok(Sockets { map: create(BPF_MAP_TYPE_XSKMAP, 4, 4, queues)? })
    }

    /// The map's number, for the instruction that loads its address.
    pub fn number(&self) -> i32 {
        self.map.as_raw_fd()
    }

    /// Frames of this queue go to this socket, which is bound to that queue of an interface.
    pub fn set(&self, queue: u32, socket: &impl AsRawFd) -> io::Result<()> {
        let socket = socket.as_raw_fd() as u32;
        bpf(BPF_MAP_UPDATE_ELEM, &mut Element::of(&self.map, pointer(&raw const queue), pointer(&raw const socket)))?;
        Ok(())
    }
}

fn value_octets(words: usize) -> io::Result<u32> {
    let octets = words.checked_mul(8).and_then(|octets| u32::try_from(octets).ok());
    octets.filter(|octets| *octets > 0).ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

/// At least as many CPUs as the kernel keeps values for: the highest number that one could have, and one.
fn possible_cpus() -> io::Result<usize> {
    const FILE: &str = "/sys/devices/system/cpu/possible";
    let text = std::fs::read_to_string(FILE)
        .map_err(|error| io::Error::new(error.kind(), format!("{FILE} cannot be read: {error}")))?;
    after_last_of(&text).ok_or_else(|| io::Error::other(format!("{FILE} has no list of CPUs")))
}

/// Of a list such as `0-3,8-11`, the number after its last.
fn after_last_of(list: &str) -> Option<usize> {
    let last: usize = list.trim().rsplit([',', '-']).next()?.parse().ok()?;
    last.checked_add(1).filter(|count| *count <= 1 << 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_cpus_is_no_less_than_the_kernels() {
        assert_eq!(["0\n", "0-1\n", "0-3,8-11", "0,2"].map(after_last_of), [Some(1), Some(2), Some(12), Some(3)]);
        assert_eq!(["", "-", "x", "0-99999999999999999999"].map(after_last_of), [None; 4]);
    }

    #[test]
    fn what_is_written_to_an_array_is_read() {
        let array = match Array::new(3, 2) {
            Ok(array) => array,
            Err(error) => return println!("SKIPPED what_is_written_to_an_array_is_read: {error}; run as root"),
        };
        array.write(2, &[7, u64::MAX]).unwrap();
        assert_eq!((array.read(1).unwrap(), array.read(2).unwrap()), (vec![0, 0], vec![7, u64::MAX]));
        assert!(array.read(3).is_err() && array.write(3, &[0, 0]).is_err());
        let per_cpu = PerCpuArray::new(2, 5).unwrap();
        assert_eq!(per_cpu.sum(1).unwrap(), [0; 5]);
        assert!(per_cpu.read(0).unwrap().len() >= std::thread::available_parallelism().unwrap().get());
        assert!(per_cpu.sum(2).is_err());
    }
}
