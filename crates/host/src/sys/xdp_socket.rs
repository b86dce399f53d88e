//! AF_XDP sockets (Documentation/networking/af_xdp.rst): frames in memory that the kernel reads and writes too, handed over by
//! rings of descriptors, without a system call for each.
//! Knows no test header; frames are octets.
//!
//! ```text
//!   memory   |<- to send: several to a chunk ->|<- to receive into: a chunk each ->|
//!
//!   Outgoing  posts ──► kernel, when kicked ──► completions: the place is ours again
//!   Incoming  fills ──► kernel, as frames come ──► arrivals: read, and filled again
//! ```
//! The two halves share a socket, and nothing that either writes to.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};

use super::datagrams::Received;
use super::memory::Mapping;
use super::option;

/// The longest frame, without FCS: a page of 4 KiB less the kernel's headroom in front of what it received.
pub const MAX_FRAME: usize = LARGE_CHUNK - HEADROOM;

/// Octets of a chunk: the least that kernels take, and the most of those whose page is the smallest.
const SMALL_CHUNK: usize = 2048;
const LARGE_CHUNK: usize = 4096;
/// XDP_PACKET_HEADROOM.
const HEADROOM: usize = 256;
/// Frames to send stand at multiples of this, so that no two CPUs write to one line.
const LINE: usize = 64;
/// Of the rings that a half needs and does not use.
const LEAST_RING: usize = 64;
/// A queue that was just closed is another's only after a moment: who releases it is a worker of the kernel.
const RELEASE_TIME: Duration = Duration::from_secs(2);
/// Frames that the kernel may send in a call (XDP_MAX_TX_SKB_BUDGET, Linux 6.17); 32 before that.
const BUDGET: u32 = 256;

// linux/if_xdp.h.
const XDP_UMEM_REG: libc::c_int = 4;
const XDP_COPY: u16 = 1 << 1;
const XDP_USE_NEED_WAKEUP: u16 = 1 << 3;
const XDP_RING_NEED_WAKEUP: u32 = 1;
const XDP_OPTIONS_ZEROCOPY: u32 = 1;
const RECEIVE_RING: u64 = 0;
const SEND_RING: u64 = 0x8000_0000;
const FILL_RING: u64 = 0x1_0000_0000;
const COMPLETION_RING: u64 = 0x1_8000_0000;

/// What a socket is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XdpSocketOptions<'a> {
    /// The interface's number.
    pub interface: u32,
    /// Which of its queues; a queue has one socket.
    pub queue: u32,
    /// The lengths of the frames to be sent, in their order; none: it sends nothing.
    pub outgoing: &'a [usize],
    /// Frames that it holds until they are read, a power of two; 0: it receives nothing.
    pub incoming: usize,
    /// The longest frame it may receive, without FCS, up to [`MAX_FRAME`].
    pub longest: usize,
    /// Frames are copied even where the driver could send and receive them where they stand.
    pub copy: bool,
}

/// The socket and what hangs on it.
struct Shared {
    socket: Socket,
    /// The kernel has its pages as long as the socket is open, whatever becomes of this.
    memory: Mapping,
    is_zero_copy: bool,
}

// SAFETY: a descriptor, and memory of which each half touches its own part alone.
unsafe impl Sync for Shared {}

/// Opens a socket at a queue. EAFNOSUPPORT or EINVAL: the kernel has none (Linux 4.18 has, with CONFIG_XDP_SOCKETS), or the
/// interface has no such queue; EBUSY: it is another's; EPERM without CAP_NET_RAW; ENOBUFS: no more memory may be locked.
pub fn open(wanted: &XdpSocketOptions<'_>) -> io::Result<(Option<Outgoing>, Option<Incoming>)> {
    let longest = wanted.outgoing.iter().copied().max().unwrap_or(0).max(wanted.longest);
    if longest > MAX_FRAME {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let chunk = if longest <= SMALL_CHUNK - HEADROOM { SMALL_CHUNK } else { LARGE_CHUNK };
    let layout = Layout::new(chunk, wanted.outgoing);
    let socket = Socket::new(Domain::from(libc::AF_XDP), Type::RAW, None)?;
    let memory = Mapping::new((layout.chunks + wanted.incoming).max(1) * chunk, 1)?;
    register(&socket, &memory, chunk)?;
    let [sends, arrives] = [wanted.outgoing.len(), wanted.incoming].map(|count| count.next_power_of_two());
    let [sends, arrives] = [sends, arrives].map(|count| count.max(LEAST_RING));
    option::XDP_FILL_RING.set(&socket, arrives as libc::c_int)?;
    option::XDP_COMPLETION_RING.set(&socket, sends as libc::c_int)?;
    if !wanted.outgoing.is_empty() {
        option::XDP_TX_RING.set(&socket, sends as libc::c_int)?;
    }
    if wanted.incoming > 0 {
        option::XDP_RX_RING.set(&socket, arrives as libc::c_int)?;
    }
    let places = Places::of(&socket)?;
    let completions = Ring::map(&socket, places.completions, COMPLETION_RING, sends)?;
    let fills = Ring::map(&socket, places.fills, FILL_RING, arrives)?;
    let posts = || Ring::map(&socket, places.posts, SEND_RING, sends);
    let posts = (!wanted.outgoing.is_empty()).then(posts).transpose()?;
    let arrivals = || Ring::map(&socket, places.arrivals, RECEIVE_RING, arrives);
    let arrivals = (wanted.incoming > 0).then(arrivals).transpose()?;
    let _ = option::XDP_MAX_TX_SKB_BUDGET.set(&socket, BUDGET.min(sends as u32));
    bind_once_released(&socket, wanted)?;
    let is_zero_copy = option::XDP_OPTIONS.get(&socket).is_ok_and(|flags| flags & XDP_OPTIONS_ZEROCOPY != 0);
    let shared = Arc::new(Shared { socket, memory, is_zero_copy });
    let first = layout.chunks;
    let is_away = vec![false; layout.lens.len()];
    let outgoing = posts.map(|posts| Outgoing { posts, completions, is_away, layout, shared: shared.clone() });
    let incoming = arrivals.map(|arrivals| {
        let mut incoming = Incoming { arrivals, fills, chunk, first, count: wanted.incoming, most: 0, shared };
        for nth in 0..wanted.incoming {
            incoming.fills.put(&[((first + nth) * chunk) as u64]);
        }
        incoming.fills.publish();
        incoming
    });
    Ok((outgoing, incoming))
}

/// Tells the kernel where frames stand (struct xdp_umem_reg, as far as Linux 4.18 has it).
fn register(socket: &Socket, memory: &Mapping, chunk: usize) -> io::Result<()> {
    #[repr(C)]
    struct Registration {
        address: u64,
        len: u64,
        chunk: u32,
        headroom: u32,
    }
    let registration = Registration {
        address: memory.as_ptr().expose_provenance() as u64,
        len: memory.as_slice().len() as u64,
        chunk: chunk as u32,
        headroom: 0,
    };
    let len = size_of::<Registration>() as libc::socklen_t;
    // SAFETY: the structure outlives the call and is only read. The pages it names are mapped, and no reference to them is
    // made but to what a ring says is ours; the kernel holds on to them itself, so they may be unmapped at any time.
    let status = unsafe {
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_XDP, XDP_UMEM_REG, (&raw const registration).cast(), len)
    };
    if status < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn bind_once_released(socket: &Socket, wanted: &XdpSocketOptions<'_>) -> io::Result<()> {
    let until = Instant::now() + RELEASE_TIME;
    let copy = if wanted.copy { XDP_COPY } else { 0 };
    loop {
        // Linux 5.4 tells when it has to be kicked; before, it has to be always.
        let bound = bind(socket, wanted, copy | XDP_USE_NEED_WAKEUP).or_else(|error| match error.raw_os_error() {
            Some(libc::EINVAL) => bind(socket, wanted, copy),
            _ => Err(error),
        });
        match bound {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) && Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(10));
            }
            other => return other,
        }
    }
}

fn bind(socket: &Socket, wanted: &XdpSocketOptions<'_>, flags: u16) -> io::Result<()> {
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: flags,
        sxdp_ifindex: wanted.interface,
        sxdp_queue_id: wanted.queue,
        sxdp_shared_umem_fd: 0,
    };
    let len = size_of::<libc::sockaddr_xdp>() as libc::socklen_t;
    // SAFETY: pointer and length describe `address`, which outlives the call and is only read.
    let status = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) };
    if status < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Where a ring's words are in its mapping, octets.
#[derive(Clone, Copy)]
struct RingPlace {
    producer: usize,
    consumer: usize,
    entries: usize,
    /// Since Linux 5.4.
    flags: Option<usize>,
}

/// struct xdp_mmap_offsets.
struct Places {
    arrivals: RingPlace,
    posts: RingPlace,
    fills: RingPlace,
    completions: RingPlace,
}

impl Places {
    fn of(socket: &Socket) -> io::Result<Places> {
        let (words, octets) = option::XDP_MMAP_OFFSETS.get_some(socket)?;
        Ok(Places::read(&words, octets))
    }

    fn read(words: &[u64; 16], octets: usize) -> Places {
        // Four rings, of three words each before Linux 5.4, and of four from then on.
        let each = if octets == size_of_val(words) { 4 } else { 3 };
        let place = |nth: usize| {
            let at = |word: usize| words[nth * each + word] as usize;
            RingPlace { producer: at(0), consumer: at(1), entries: at(2), flags: (each == 4).then(|| at(3)) }
        };
        Places { arrivals: place(0), posts: place(1), fills: place(2), completions: place(3) }
    }
}

/// What stands in a ring: `[address]` to fill and completed, `[address, length and options]` posted and arrived (struct xdp_desc).
type Entry<const WORDS: usize> = [u64; WORDS];

/// A ring of which the kernel has the other end. Both numbers only grow, and wrap.
struct Ring<const WORDS: usize> {
    memory: Mapping,
    place: RingPlace,
    mask: u32,
    /// Ours of the two numbers, as far as this end is: the kernel sees it once it is published.
    ours: u32,
}

impl<const WORDS: usize> Ring<WORDS> {
    /// `entries` as the socket was told, a power of two.
    fn map(socket: &Socket, place: RingPlace, offset: u64, entries: usize) -> io::Result<Ring<WORDS>> {
        let octets = place.entries + entries * size_of::<Entry<WORDS>>();
        let memory = Mapping::shared_at(socket, octets, offset)?;
        let fits = |at: usize| at.is_multiple_of(4) && at + 4 <= octets;
        let is_whole = fits(place.producer) && fits(place.consumer) && place.flags.is_none_or(fits);
        if !is_whole || !place.entries.is_multiple_of(8) || !entries.is_power_of_two() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(Ring { memory, place, mask: entries as u32 - 1, ours: 0 })
    }

    fn word(&self, at: usize) -> &AtomicU32 {
        // SAFETY: four octets at a multiple of four within the mapping (see `map`), which lives as long as `self`; the kernel
        // reads and writes them as a whole.
        unsafe { AtomicU32::from_ptr(self.memory.as_ptr().wrapping_add(at).cast_mut().cast()) }
    }

    fn slot(&self, number: u32) -> *mut Entry<WORDS> {
        let at = self.place.entries + (number & self.mask) as usize * size_of::<Entry<WORDS>>();
        self.memory.as_ptr().wrapping_add(at).cast_mut().cast()
    }

    /// Whether the kernel waits to be told of what was published.
    fn wants_kick(&self) -> bool {
        self.place.flags.is_none_or(|at| self.word(at).load(Ordering::Relaxed) & XDP_RING_NEED_WAKEUP != 0)
    }

    /// As the producer: puts an entry behind the others. The caller has no more of them than the ring has room for.
    fn put(&mut self, entry: &Entry<WORDS>) {
        // SAFETY: a slot of the mapping, aligned to eight octets; no more entries are out than there are slots, so the kernel
        // has read what stood there, and reads nothing of it before it is published.
        unsafe { self.slot(self.ours).write(*entry) };
        self.ours = self.ours.wrapping_add(1);
    }

    /// As the producer: the kernel may have all that was put.
    fn publish(&self) {
        // Release: after the entries, and the frames that they name.
        self.word(self.place.producer).store(self.ours, Ordering::Release);
    }

    /// As the producer: entries that the kernel has not taken yet.
    fn untaken(&self) -> u32 {
        self.ours.wrapping_sub(self.word(self.place.consumer).load(Ordering::Acquire))
    }

    /// As the consumer: the next entry.
    fn next(&mut self) -> Option<Entry<WORDS>> {
        // Acquire: before the entries, and the frames that they name.
        let produced = self.word(self.place.producer).load(Ordering::Acquire);
        if produced == self.ours {
            return None;
        }
        // SAFETY: a slot of the mapping that the kernel has produced, and does not write to again before it is released.
        let entry = unsafe { self.slot(self.ours).read() };
        self.ours = self.ours.wrapping_add(1);
        Some(entry)
    }

    /// As the consumer: the kernel may use what was read again.
    fn release(&self) {
        self.word(self.place.consumer).store(self.ours, Ordering::Release);
    }
}

/// Where frames to send stand: as many in a chunk as go, for they are short and many, and a chunk is not.
struct Layout {
    lens: Vec<usize>,
    chunk: usize,
    stride: usize,
    in_a_chunk: usize,
    chunks: usize,
}

impl Layout {
    fn new(chunk: usize, lens: &[usize]) -> Layout {
        let longest = lens.iter().copied().max().unwrap_or(0);
        let stride = longest.max(1).next_multiple_of(LINE);
        let in_a_chunk = (chunk / stride).max(1);
        Layout { lens: lens.to_vec(), chunk, stride, in_a_chunk, chunks: lens.len().div_ceil(in_a_chunk) }
    }

    fn at(&self, index: usize) -> usize {
        index / self.in_a_chunk * self.chunk + index % self.in_a_chunk * self.stride
    }

    /// Whose place it is.
    fn index(&self, at: u64) -> Option<usize> {
        let at = usize::try_from(at).ok()?;
        let index = at / self.chunk * self.in_a_chunk + at % self.chunk / self.stride;
        (index < self.lens.len()).then_some(index)
    }
}

/// Frames in memory that stand ready, and the ring by which the kernel is given them.
pub struct Outgoing {
    posts: Ring<2>,
    completions: Ring<1>,
    layout: Layout,
    /// Which the kernel has.
    is_away: Vec<bool>,
    shared: Arc<Shared>,
}

impl Outgoing {
    /// How many frames it holds.
    pub fn count(&self) -> usize {
        self.layout.lens.len()
    }

    /// Whether the driver sends them where they stand.
    pub fn is_zero_copy(&self) -> bool {
        self.shared.is_zero_copy
    }

    /// Has the sending buffer be of this size (SO_SNDBUF).
    pub fn set_buffer(&self, octets: usize) -> io::Result<()> {
        self.shared.socket.set_send_buffer_size(octets)
    }

    /// A frame, unless the kernel has it.
    #[inline]
    pub fn frame_mut(&mut self, index: usize) -> Option<&mut [u8]> {
        if self.is_away[index] {
            self.take_back();
            if self.is_away[index] {
                return None;
            }
        }
        let start = self.shared.memory.as_ptr().wrapping_add(self.layout.at(index)).cast_mut();
        // SAFETY: within the part of the memory that frames to send stand in, which this half has alone; two frames never
        // overlap (`Layout::at`), `self` is borrowed alone, and the kernel reads none that it was not given.
        Some(unsafe { std::slice::from_raw_parts_mut(start, self.layout.lens[index]) })
    }

    /// Gives a frame to the kernel with the next [`Outgoing::kick`]. One that the kernel has is not given again.
    #[inline]
    pub fn post(&mut self, index: usize) {
        // The ring has room for all frames, and each is in it once at most.
        if !std::mem::replace(&mut self.is_away[index], true) {
            self.posts.put(&[self.layout.at(index) as u64, length(self.layout.lens[index])]);
        }
    }

    /// Has the kernel send what was posted, as much as it takes now. What it did not take it still has, and takes with a later
    /// kick. An error belongs to a frame that it had to do with, taken or not.
    #[inline]
    pub fn kick(&mut self) -> io::Result<()> {
        self.posts.publish();
        if !self.posts.wants_kick() {
            return Ok(());
        }
        let (nothing, nobody) = (std::ptr::null(), std::ptr::null());
        // SAFETY: no memory is passed.
        let sent = unsafe { libc::sendto(self.shared.socket.as_raw_fd(), nothing, 0, libc::MSG_DONTWAIT, nobody, 0) };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Frames that were posted and that the kernel has not taken yet.
    #[inline]
    pub fn untaken(&self) -> u32 {
        self.posts.untaken()
    }

    /// Those that the kernel is done with are ours again.
    fn take_back(&mut self) {
        while let Some([at]) = self.completions.next() {
            if let Some(index) = self.layout.index(at) {
                self.is_away[index] = false;
            }
        }
        self.completions.release();
    }
}

/// The second word of a struct xdp_desc: its length of 32 bits, and its options, which are none.
fn length(octets: usize) -> u64 {
    let [a, b, c, d] = (octets as u32).to_ne_bytes();
    u64::from_ne_bytes([a, b, c, d, 0, 0, 0, 0])
}

/// Of that word, the length.
fn length_of(word: u64) -> usize {
    let [a, b, c, d, ..] = word.to_ne_bytes();
    u32::from_ne_bytes([a, b, c, d]) as usize
}

/// Memory that the kernel puts frames into, and the rings by which it tells and is given it again.
pub struct Incoming {
    arrivals: Ring<2>,
    fills: Ring<1>,
    chunk: usize,
    /// Its chunks: from here on, so many.
    first: usize,
    count: usize,
    most: u32,
    shared: Arc<Shared>,
}

impl AsFd for Incoming {
    /// Readable while frames wait.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.socket.as_fd()
    }
}

impl AsRawFd for Incoming {
    fn as_raw_fd(&self) -> i32 {
        self.shared.socket.as_raw_fd()
    }
}

impl Incoming {
    /// Whether the driver puts them where they are read.
    pub fn is_zero_copy(&self) -> bool {
        self.shared.is_zero_copy
    }

    /// Hands over up to `most` frames that are there, and returns how many.
    pub fn take(&mut self, most: u32, mut handle: impl FnMut(Received<'_>)) -> u32 {
        let mut taken = 0;
        while taken < most {
            let Some([at, word]) = self.arrivals.next() else { break };
            taken += 1;
            let (at, len) = (at as usize, length_of(word));
            let nth = at / self.chunk;
            let is_ours = (self.first..self.first + self.count).contains(&nth);
            if is_ours && at % self.chunk + len <= self.chunk {
                let start = self.shared.memory.as_ptr().wrapping_add(at);
                // SAFETY: within one chunk of the part that frames are received into, which the kernel writes to no more before
                // it is filled again below, when the slice is gone.
                let octets = unsafe { std::slice::from_raw_parts(start, len) };
                handle(Received { octets, len, segment: len, stamped_ns: None, nic_stamped_ns: None, drops: 0 });
            }
            // As many as came, so there is room. A place that is none of ours is not given away.
            if is_ours {
                self.fills.put(&[(nth * self.chunk) as u64]);
            }
        }
        if taken > 0 {
            self.arrivals.release();
            self.fills.publish();
            self.most = self.most.max(taken);
        }
        taken
    }

    /// The most frames that were there at once.
    pub fn most(&self) -> u32 {
        self.most
    }

    /// Frames that there was no room for since the socket was opened (struct xdp_statistics: those that found no memory, and
    /// those that found the ring full, which Linux 5.9 tells apart).
    pub fn drops(&self) -> io::Result<u64> {
        let (words, _) = option::XDP_STATISTICS.get_some(&self.shared.socket)?;
        Ok(words[0].saturating_add(words[3]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_stand_apart_and_are_found_by_their_places() {
        for (chunk, lens) in [(2048, vec![60; 40]), (2048, vec![60, 1514, 590]), (4096, vec![3840; 3]), (2048, vec![])]
        {
            let layout = Layout::new(chunk, &lens);
            let mut places: Vec<_> = (0..lens.len()).map(|index| (layout.at(index), lens[index])).collect();
            for (index, (at, len)) in places.iter().enumerate() {
                assert_eq!(layout.index(*at as u64), Some(index));
                assert!(at % chunk + len <= chunk && at / chunk < layout.chunks, "none crosses a chunk's end");
            }
            places.sort_unstable();
            assert!(places.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0));
            assert_eq!(layout.index((layout.chunks * chunk) as u64 + 4096), None);
        }
    }

    #[test]
    fn offsets_of_old_kernels_have_no_flags() {
        let words: [u64; 16] = std::array::from_fn(|at| 8 * at as u64);
        let new = Places::read(&words, 128);
        assert_eq!((new.posts.producer, new.posts.entries, new.posts.flags), (32, 48, Some(56)));
        let old = Places::read(&words, 96);
        assert_eq!((old.posts.producer, old.completions.entries, old.posts.flags), (24, 88, None));
    }

    #[test]
    fn a_descriptor_has_its_length_first() {
        assert_eq!((length_of(length(60)), length(60).to_ne_bytes()[4..].to_vec()), (60, vec![0; 4]));
    }
}
