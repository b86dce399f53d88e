//! Many datagrams with one system call: sendmmsg(2) and recvmmsg(2) over buffers that stand ready, segmentation and
//! its reverse (UDP_SEGMENT and UDP_GRO, udp(7)), and the times at which datagrams arrived (SO_TIMESTAMPING).
//! Knows no probes; the caller writes and reads the octets.
//!
//! The system calls are made by number, because musl's sendmmsg is a loop over sendmsg.

use std::io;
use std::os::fd::AsRawFd;

use super::option;

/// Buffers in one piece of memory, and the headers that describe them to the kernel.
///
/// ```text
///   octets   |<-------- stride --------->|<-------- stride --------->|
///            [ message 0                 ][ message 1                ] …
///             datagram 0, 1, … segments-1  datagram segments, …        datagrams of a message touch each other,
///                                                                     for the kernel to cut them apart
///   vectors  [ptr,len]                    [ptr,len]                   written anew before each call
///   headers  [vector 0, control 0]        [vector 1, control 1]
/// ```
/// Without segmentation a message is one datagram.
pub struct DatagramBatch {
    octets: Vec<u8>,
    first: usize,
    stride: usize,
    /// Octets of a datagram; of a receiving batch, the room for a message.
    size: usize,
    segments: usize,
    messages: usize,
    vectors: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
    control: Vec<Control>,
    /// Octets of each that the kernel may write, or is to read.
    control_len: usize,
}

/// Room for the control messages of one received message: an alignment and a length that struct cmsghdr accepts.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; 128]);

/// Octets that processors move at once; some have 32, and 64 suits them too.
const CACHE_LINE: usize = 64;

/// The most datagrams that the kernel cuts from one message: UDP_MAX_SEGMENTS (linux/udp.h; 128 since Linux 6.9).
pub const MAX_SEGMENTS: usize = 64;

/// The longest UDP payload, and so the longest message that is cut apart or merged.
pub const MAX_PAYLOAD: usize = 65_507;

// SAFETY: the raw pointers in `vectors` and `headers` are written before each system call from the vectors this
// struct owns and never read after it, so moving the struct to another thread moves all they point to.
unsafe impl Send for DatagramBatch {}

/// A received message: one datagram, or several of one size that the stack merged.
pub struct Received<'a> {
    /// The octets, cut where the buffer ended.
    pub octets: &'a [u8],
    /// The length it had on arrival.
    pub len: usize,
    /// The size of the datagrams that were merged into it, the last of which may be shorter; `len` of a single one.
    pub segment: usize,
    /// When the kernel had it from the driver, nanoseconds of CLOCK_REALTIME.
    pub stamped_ns: Option<u64>,
    /// When the NIC had it, nanoseconds of the NIC's clock.
    pub nic_stamped_ns: Option<u64>,
    /// Messages that the socket had dropped when this one was queued, modulo 2^32; 0 where it was not asked for.
    pub drops: u32,
}

impl DatagramBatch {
    /// Buffers to send `messages` times `segments` datagrams of `size` octets. The first stands at a multiple of
    /// `alignment` (a power of two), the messages as close behind each other as cache lines allow.
    pub fn outgoing(messages: usize, segments: usize, size: usize, alignment: usize) -> DatagramBatch {
        DatagramBatch::new(messages, segments, size, alignment)
    }

    /// Makes room for a time of departure with each message; the socket must have SO_TXTIME.
    pub fn with_times(mut self) -> DatagramBatch {
        self.control = vec![Control([0; 128]); self.messages];
        self.control_len = TIME_LEN;
        self
    }

    /// The time at which one message is to leave, by the clock that the socket was told (SCM_TXTIME, linux/socket.h).
    #[inline]
    pub fn set_time(&mut self, index: usize, at_ns: u64) {
        // SAFETY: a struct of integers, for which all zeroes is a value. It has padding on some targets.
        let mut header: libc::cmsghdr = unsafe { std::mem::zeroed() };
        (header.cmsg_len, header.cmsg_level, header.cmsg_type) = (TIME_LEN as _, libc::SOL_SOCKET, SCM_TXTIME);
        let control = &mut self.control[index].0;
        // SAFETY: `control` has room for 128 octets, more than a header, and stands at a multiple of 8.
        unsafe { control.as_mut_ptr().cast::<libc::cmsghdr>().write(header) };
        control[size_of::<libc::cmsghdr>()..TIME_LEN].copy_from_slice(&at_ns.to_ne_bytes());
    }

    /// Buffers to receive `messages` messages of up to `room` octets.
    pub fn incoming(messages: usize, room: usize, alignment: usize) -> DatagramBatch {
        let mut batch = DatagramBatch::new(messages, 1, room, alignment);
        batch.control = vec![Control([0; 128]); messages];
        batch.control_len = size_of::<Control>();
        batch
    }

    fn new(messages: usize, segments: usize, size: usize, alignment: usize) -> DatagramBatch {
        // Checked, for the kernel is given addresses that are reckoned with these.
        let stride = size.max(1).checked_mul(segments);
        let stride = stride.and_then(|octets| octets.checked_next_multiple_of(alignment.clamp(1, CACHE_LINE)));
        let all = stride.and_then(|stride| stride.checked_mul(messages)?.checked_add(alignment));
        let (Some(stride), Some(all)) = (stride, all) else { panic!("no memory holds so many datagrams") };
        let octets = vec![0; all];
        let first = octets.as_ptr().align_offset(alignment);
        assert!(first < alignment.max(1), "an address of that alignment is near");
        // SAFETY: both are plain C structures for which all-zero octets are a valid value.
        let (vectors, headers) = unsafe { (vec![std::mem::zeroed(); messages], vec![std::mem::zeroed(); messages]) };
        let control = Vec::new();
        DatagramBatch { octets, first, stride, size, segments, messages, vectors, headers, control, control_len: 0 }
    }

    /// How many datagrams the batch holds.
    pub fn count(&self) -> usize {
        self.messages * self.segments
    }

    /// How many datagrams go into one message.
    pub fn segments(&self) -> usize {
        self.segments
    }

    /// The buffer of one datagram.
    #[inline]
    pub fn datagram_mut(&mut self, index: usize) -> &mut [u8] {
        // A division by what is mostly 1 would cost as much as the rest of this.
        let start = self.first
            + if self.segments == 1 {
                index * self.stride
            } else {
                index / self.segments * self.stride + index % self.segments * self.size
            };
        &mut self.octets[start..start + self.size]
    }

    /// Sends the first `count` datagrams on a connected socket. Returns how many the kernel took (at least one);
    /// the error, if any, belongs to the first.
    #[inline]
    pub fn send(&mut self, socket: &impl AsRawFd, count: usize) -> io::Result<usize> {
        let count = count.min(self.count());
        let messages = count.div_ceil(self.segments);
        for index in 0..messages {
            let datagrams = self.segments.min(count - index * self.segments);
            self.describe(index, datagrams * self.size);
        }
        // SAFETY: `describe` pointed the first `messages` headers at buffers that live as long as `self`.
        let sent = unsafe {
            libc::syscall(libc::SYS_sendmmsg, socket.as_raw_fd(), self.headers.as_mut_ptr(), messages, NO_SIGNAL)
        };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok((sent as usize * self.segments).min(count)) }
    }

    /// Receives at least one message, and what else is there already. Returns how many;
    /// [`DatagramBatch::received`] has their octets.
    #[inline]
    pub fn receive(&mut self, socket: &impl AsRawFd) -> io::Result<usize> {
        for index in 0..self.messages {
            self.describe(index, self.size);
        }
        // MSG_TRUNC: msg_len is then the message's real length, so that an oversized stranger shows as such.
        let flags = libc::MSG_WAITFORONE | libc::MSG_TRUNC;
        // SAFETY: `describe` pointed every header at buffers that live as long as `self`; no time-out is given.
        let received = unsafe {
            libc::syscall(
                libc::SYS_recvmmsg,
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                self.messages,
                flags,
                std::ptr::null_mut::<libc::timespec>(),
            )
        };
        if received < 0 { Err(io::Error::last_os_error()) } else { Ok(received as usize) }
    }

    /// Receives one message with recvmsg(2).
    #[inline]
    pub fn receive_one(&mut self, socket: &impl AsRawFd) -> io::Result<usize> {
        self.describe(0, self.size);
        // SAFETY: `describe` pointed the header at buffers that live as long as `self`.
        let len = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut self.headers[0].msg_hdr, libc::MSG_TRUNC) };
        if len < 0 {
            return Err(io::Error::last_os_error());
        }
        self.headers[0].msg_len = len as libc::c_uint;
        Ok(1)
    }

    /// A message of the last receiving call.
    #[inline]
    pub fn received(&self, index: usize) -> Received<'_> {
        let len = self.headers[index].msg_len as usize;
        let start = self.first + index * self.stride;
        let mut received = Received {
            octets: &self.octets[start..start + len.min(self.size)],
            len,
            segment: len.max(1),
            stamped_ns: None,
            nic_stamped_ns: None,
            drops: 0,
        };
        #[allow(clippy::unnecessary_cast, reason = "of 32 bits in musl")]
        let told = self.headers[index].msg_hdr.msg_controllen as usize;
        if let Some(control) = self.control.get(index) {
            read_control(&control.0[..told.min(size_of::<Control>())], &mut received);
        }
        received
    }

    #[inline]
    fn describe(&mut self, index: usize, len: usize) {
        let start = self.first + index * self.stride;
        // In bounds by construction: `first + stride * messages <= octets.len()`.
        let octets = self.octets.as_mut_ptr().wrapping_add(start);
        self.vectors[index] = libc::iovec { iov_base: octets.cast(), iov_len: len };
        let header = &mut self.headers[index].msg_hdr;
        header.msg_iov = &raw mut self.vectors[index];
        header.msg_iovlen = 1;
        header.msg_flags = 0;
        if let Some(control) = self.control.get_mut(index) {
            header.msg_control = control.0.as_mut_ptr().cast();
            header.msg_controllen = self.control_len as _;
        }
    }
}

/// Sends one datagram with send(2).
#[inline]
pub fn send_one(socket: &impl AsRawFd, octets: &[u8]) -> io::Result<()> {
    // SAFETY: pointer and length describe `octets`, which outlives the call and is only read.
    let sent = unsafe { libc::send(socket.as_raw_fd(), octets.as_ptr().cast(), octets.len(), NO_SIGNAL) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

const NO_SIGNAL: libc::c_int = libc::MSG_NOSIGNAL;

/// Whether this kernel has sendmmsg(2) (since Linux 3.0) and recvmmsg(2) (since 2.6.33): each is asked for nothing.
pub fn has_many_calls(socket: &impl AsRawFd) -> bool {
    let none = std::ptr::null_mut::<libc::mmsghdr>();
    let now = std::ptr::null_mut::<libc::timespec>();
    // SAFETY: of zero messages the kernel reads and writes none.
    let results = unsafe {
        [
            libc::syscall(libc::SYS_sendmmsg, socket.as_raw_fd(), none, 0, libc::MSG_DONTWAIT),
            libc::syscall(libc::SYS_recvmmsg, socket.as_raw_fd(), none, 0, libc::MSG_DONTWAIT, now),
        ]
    };
    results.iter().all(|&result| result >= 0) || io::Error::last_os_error().raw_os_error() != Some(libc::ENOSYS)
}

/// Has the stack (or the NIC) cut what is sent on this socket into datagrams of `size` octets; 0 ends it. Since
/// Linux 4.18; older kernels say ENOPROTOOPT.
pub fn set_segment_size(socket: &impl AsRawFd, size: u32) -> io::Result<()> {
    option::UDP_SEGMENT.set(socket, size as libc::c_int)
}

/// Has the stack merge datagrams of one size before this socket, and tell with each message how many the socket dropped
/// before it (SO_RXQ_OVFL, socket(7)). Since Linux 5.0; older kernels say ENOPROTOOPT.
pub fn set_merging(socket: &impl AsRawFd, on: bool) -> io::Result<()> {
    option::RXQ_OVFL.set(socket, libc::c_int::from(on))?;
    option::UDP_GRO.set(socket, libc::c_int::from(on))
}

/// Has the kernel tell with each message when it arrived: its own time, and the NIC's where the NIC stamps
/// (Documentation/networking/timestamping.rst).
pub fn set_receive_timestamps(socket: &impl AsRawFd) -> io::Result<()> {
    let flags = libc::SOF_TIMESTAMPING_RX_SOFTWARE
        | libc::SOF_TIMESTAMPING_SOFTWARE
        | libc::SOF_TIMESTAMPING_RX_HARDWARE
        | libc::SOF_TIMESTAMPING_RAW_HARDWARE;
    option::TIMESTAMPING.set(socket, flags as libc::c_int)
}

/// Lets a receive poll the NIC's queue for this long before it sleeps: SO_BUSY_POLL (socket(7)). EPERM without
/// CAP_NET_ADMIN where net.core.busy_read is lower; ENOPROTOOPT where the kernel has none.
pub fn set_busy_poll(socket: &impl AsRawFd, micros: u32) -> io::Result<()> {
    option::BUSY_POLL.set(socket, micros as libc::c_int)
}

/// The path's MTU as the kernel knows it now: IP_MTU (ip(7)), IPV6_MTU (ipv6(7)). The socket must be connected.
pub fn path_mtu(socket: &impl AsRawFd, is_ipv4: bool) -> io::Result<u32> {
    let mtu = if is_ipv4 { option::IP_MTU } else { option::IPV6_MTU };
    mtu.get(socket).map(libc::c_int::cast_unsigned)
}

/// Nanoseconds of CLOCK_REALTIME, in which the kernel stamps.
#[inline]
pub fn realtime_ns() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

/// linux/socket.h; the same number as SO_TXTIME.
const SCM_TXTIME: libc::c_int = 61;
/// A control message of one time, which is a multiple of a machine word.
const TIME_LEN: usize = size_of::<libc::cmsghdr>() + size_of::<u64>();
const UDP_GRO: libc::c_int = 104;

/// What the kernel tells beside a message: a sequence of struct cmsghdr (cmsg(3)), each at a multiple of a machine word; level and type
/// of each, and its data.
#[inline]
pub(crate) fn control_messages(mut octets: &[u8]) -> impl Iterator<Item = ((libc::c_int, libc::c_int), &[u8])> {
    const WORD: usize = size_of::<usize>();
    const HEADER: usize = size_of::<libc::cmsghdr>();
    std::iter::from_fn(move || {
        if octets.len() < HEADER {
            return None;
        }
        // SAFETY: at least a header's octets are there, and any octets make a valid cmsghdr of integers; the read
        // asks for no alignment.
        let header = unsafe { octets.as_ptr().cast::<libc::cmsghdr>().read_unaligned() };
        #[allow(clippy::unnecessary_cast, reason = "of 32 bits in musl")]
        let len = header.cmsg_len as usize;
        let data = octets.get(HEADER..len)?;
        octets = octets.get(len.next_multiple_of(WORD)..).unwrap_or_default();
        Some(((header.cmsg_level, header.cmsg_type), data))
    })
}

#[inline]
fn read_control(octets: &[u8], received: &mut Received<'_>) {
    for (kind, data) in control_messages(octets) {
        match kind {
            (libc::SOL_UDP, UDP_GRO) => {
                if let Some(size) = data.first_chunk().map(|size| i32::from_ne_bytes(*size)).filter(|&size| size > 0) {
                    received.segment = size as usize;
                }
            }
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) => {
                // Three struct timespec: the software's, an obsolete one, the hardware's.
                let third = data.len() / 3;
                received.stamped_ns = timespec_ns(&data[..third]);
                received.nic_stamped_ns = timespec_ns(&data[2 * third..]);
            }
            (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => {
                received.drops = data.first_chunk().map_or(0, |drops| u32::from_ne_bytes(*drops));
            }
            _ => {}
        }
    }
}

/// A struct timespec of the kernel's, which has words of 32 or of 64 bits; one of zeros is none.
#[inline]
fn timespec_ns(octets: &[u8]) -> Option<u64> {
    let (seconds, ns) = if octets.len() >= 16 {
        (i64::from_ne_bytes(*octets.first_chunk()?), i64::from_ne_bytes(*octets[8..].first_chunk()?))
    } else {
        (i32::from_ne_bytes(*octets.first_chunk()?).into(), i32::from_ne_bytes(*octets.get(4..)?.first_chunk()?).into())
    };
    let ns = seconds.checked_mul(1_000_000_000)?.checked_add(ns)?;
    u64::try_from(ns).ok().filter(|&ns| ns > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    fn pair() -> (UdpSocket, UdpSocket) {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.connect(receiver.local_addr().unwrap()).unwrap();
        (sender, receiver)
    }

    #[test]
    fn a_batch_arrives_whole_and_in_order() {
        let (sender, receiver) = pair();
        let mut out = DatagramBatch::outgoing(8, 1, 100, 4096);
        for index in 0..8 {
            out.datagram_mut(index).fill(index as u8);
        }
        assert_eq!(out.datagram_mut(0).as_ptr().align_offset(4096), 0);
        assert_eq!(out.send(&sender, 5).unwrap(), 5);
        let mut inward = DatagramBatch::incoming(8, 60, 64);
        assert_eq!(inward.receive(&receiver).unwrap(), 5);
        for index in 0..5 {
            let message = inward.received(index);
            assert_eq!((message.octets, message.len), (&[index as u8; 60][..], 100), "cut to the buffer, length kept");
            assert_eq!(message.segment, 100);
        }
    }

    #[test]
    fn a_time_of_departure_goes_with_each_message_and_none_is_lost_where_nobody_heeds_it() {
        let (sender, receiver) = pair();
        let mut out = DatagramBatch::outgoing(4, 1, 100, 4096).with_times();
        for index in 0..4 {
            out.set_time(index, realtime_ns());
        }
        // A socket that was not told of a clock refuses the time: so the kernel does read it.
        assert_eq!(out.send(&sender, 4).unwrap_err().raw_os_error(), Some(libc::EINVAL));
        super::super::pacing::set_txtime(&sender, super::super::pacing::Clock::MONOTONIC).unwrap();
        assert_eq!(out.send(&sender, 4).unwrap(), 4);
        let mut inward = DatagramBatch::incoming(8, 100, 64);
        assert_eq!(inward.receive(&receiver).unwrap(), 4);
    }

    #[test]
    fn one_by_one() {
        let (sender, receiver) = pair();
        let mut inward = DatagramBatch::incoming(4, 60, 64);
        for octet in [7, 8] {
            send_one(&sender, &[octet; 18]).unwrap();
        }
        for octet in [7, 8] {
            assert_eq!(inward.receive_one(&receiver).unwrap(), 1);
            assert_eq!(inward.received(0).octets, [octet; 18]);
        }
    }

    /// 3 messages of up to 4 datagrams, the last with 2: as single datagrams where the receiver does not merge.
    #[test]
    fn segments_are_cut_apart_and_merged_again() {
        for merging in [false, true] {
            let (sender, receiver) = pair();
            set_segment_size(&sender, 100).unwrap();
            set_merging(&receiver, merging).unwrap();
            let mut out = DatagramBatch::outgoing(3, 4, 100, 4096);
            for index in 0..12 {
                out.datagram_mut(index).fill(index as u8);
            }
            assert_eq!(out.send(&sender, 10).unwrap(), 10);
            let mut inward = DatagramBatch::incoming(16, MAX_PAYLOAD, 64);
            let mut arrived = Vec::new();
            while arrived.len() < 10 {
                for index in 0..inward.receive(&receiver).unwrap() {
                    let message = inward.received(index);
                    assert_eq!(message.len > 100, merging);
                    arrived.extend(message.octets.chunks(message.segment).map(<[u8]>::to_vec));
                }
            }
            assert_eq!(arrived, (0..10).map(|octet| vec![octet; 100]).collect::<Vec<_>>());
        }
    }

    #[test]
    fn the_kernel_says_when_a_datagram_arrived() {
        let (sender, receiver) = pair();
        set_receive_timestamps(&receiver).unwrap();
        let mut inward = DatagramBatch::incoming(1, 60, 64);
        // The kernel turns stamping on a moment after the first socket on the machine asks.
        for _ in 0..1000 {
            let before = realtime_ns();
            send_one(&sender, &[1; 18]).unwrap();
            let after = realtime_ns();
            inward.receive(&receiver).unwrap();
            let message = inward.received(0);
            assert_eq!(message.nic_stamped_ns, None, "loopback has no clock");
            if let Some(stamped) = message.stamped_ns {
                assert!((before..=after).contains(&stamped), "{before} {stamped} {after}");
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        panic!("the kernel never stamped");
    }

    #[test]
    fn times_of_both_word_sizes() {
        let long: Vec<u8> = [3_i64, 5].iter().flat_map(|word| word.to_ne_bytes()).collect();
        let short: Vec<u8> = [3_i32, 5].iter().flat_map(|word| word.to_ne_bytes()).collect();
        assert_eq!(timespec_ns(&long), Some(3_000_000_005));
        assert_eq!(timespec_ns(&short), Some(3_000_000_005));
        assert_eq!(timespec_ns(&[0; 16]), None);
        assert_eq!(timespec_ns(&[1, 2, 3]), None);
    }

    #[test]
    fn control_messages_of_nonsense_are_passed_over() {
        let mut received =
            Received { octets: &[], len: 0, segment: 1, stamped_ns: None, nic_stamped_ns: None, drops: 0 };
        for octets in [&[0; 64][..], &[255; 64], &[1; 7], &[]] {
            read_control(octets, &mut received);
        }
        assert_eq!((received.segment, received.stamped_ns), (1, None));
    }
}
