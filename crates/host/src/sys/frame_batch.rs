//! Frames received and sent back where they stand: recvmmsg(2) and sendmmsg(2) over the same buffers of a packet socket
//! (packet(7)). Knows no test header; the caller reads and changes the octets.

use std::io;
use std::os::fd::AsRawFd;

use socket2::{Domain, Protocol, Socket, Type};

use super::option;
use super::packet::bind_at;

/// Room for received frames; the kernel allows net.core.rmem_max at most.
const BUFFER: usize = 4 << 20;

/// A socket for every frame that arrives at this interface, and to send frames past its queueing discipline. EPERM without
/// CAP_NET_RAW.
pub fn open(interface: u32) -> io::Result<Socket> {
    let socket = Socket::new(Domain::PACKET, Type::RAW, Some(Protocol::from(0)))?;
    // Before Linux 4.20 the socket hears what this machine sends too, which has not come from an echo's other end.
    let _ = option::PACKET_IGNORE_OUTGOING.set(&socket, 1);
    let _ = option::PACKET_QDISC_BYPASS.set(&socket, 1);
    let _ = socket.set_recv_buffer_size(BUFFER);
    option::PACKET_AUXDATA.set(&socket, 1)?;
    bind_at(&socket, libc::ETH_P_ALL as u16, interface)?;
    Ok(socket)
}

/// Frames that the socket had no room for since this was last asked: reading clears it (packet(7), PACKET_STATISTICS).
pub fn drops(socket: &impl AsRawFd) -> io::Result<u64> {
    let [_packets, drops] = option::PACKET_STATISTICS.get(socket)?;
    Ok(drops.into())
}

/// Buffers in one piece of memory.
///
/// ```text
///   octets   |<- TAG ->|<-------- room -------->|<- TAG ->|<-------- room -------->| …
///             for a tag  as the kernel gives it
///             to be put back
/// ```
pub struct FrameBatch {
    octets: Vec<u8>,
    room: usize,
    /// Where each frame begins in its buffer, and how long it is; `None`: it was longer than the room.
    frames: Vec<Option<(usize, usize)>>,
    vectors: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
    control: Vec<Control>,
}

/// Room for one struct tpacket_auxdata as a control message.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; 64]);

/// Octets of a VLAN tag, which follows both addresses.
const TAG: usize = 4;
const ADDRESSES: usize = 12;

// SAFETY: the raw pointers in `vectors` and `headers` are written before each system call from the vectors this struct owns
// and never read after it, so moving the struct to another thread moves all they point to.
unsafe impl Send for FrameBatch {}

impl FrameBatch {
    /// Room for so many frames of up to `room` octets without FCS.
    pub fn new(frames: usize, room: usize) -> FrameBatch {
        let octets = vec![0; (TAG + room).checked_mul(frames).expect("so few frames")];
        // SAFETY: both are plain C structures for which all-zero octets are a valid value.
        let (vectors, headers) = unsafe { (vec![std::mem::zeroed(); frames], vec![std::mem::zeroed(); frames]) };
        FrameBatch {
            octets,
            room,
            frames: vec![None; frames],
            vectors,
            headers,
            control: vec![Control([0; 64]); frames],
        }
    }

    /// Receives at least one frame, and what else is there already; how many.
    pub fn receive(&mut self, socket: &impl AsRawFd) -> io::Result<usize> {
        for index in 0..self.frames.len() {
            self.describe(index, index * self.stride() + TAG, self.room);
            let header = &mut self.headers[index].msg_hdr;
            header.msg_control = self.control[index].0.as_mut_ptr().cast();
            header.msg_controllen = size_of::<Control>() as _;
        }
        // MSG_TRUNC: msg_len is then the frame's real length.
        let flags = libc::MSG_WAITFORONE | libc::MSG_TRUNC;
        // SAFETY: every header was just pointed at buffers that live as long as `self`; no time-out is given.
        let received = unsafe {
            libc::syscall(
                libc::SYS_recvmmsg,
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                self.headers.len(),
                flags,
                std::ptr::null_mut::<libc::timespec>(),
            )
        };
        if received < 0 {
            return Err(io::Error::last_os_error());
        }
        let received = received as usize;
        for index in 0..received {
            self.frames[index] = self.place(index);
        }
        Ok(received)
    }

    /// A frame of the last receiving call, its outer tag where it was; `None` where it was longer than the room.
    pub fn frame_mut(&mut self, index: usize) -> Option<&mut [u8]> {
        let (start, len) = self.frames[index]?;
        Some(&mut self.octets[start..start + len])
    }

    /// Sends these frames of the last receiving call as they are now. Returns how many the kernel took (at least one);
    /// the error, if any, belongs to the first.
    pub fn send(&mut self, socket: &impl AsRawFd, indices: &[usize]) -> io::Result<usize> {
        let places = indices.iter().map_while(|index| self.frames[*index]);
        let places: Vec<_> = places.take(self.headers.len()).collect();
        for (slot, (start, len)) in places.iter().enumerate() {
            self.describe(slot, *start, *len);
            let header = &mut self.headers[slot].msg_hdr;
            header.msg_control = std::ptr::null_mut();
            header.msg_controllen = 0;
        }
        let flags = libc::MSG_NOSIGNAL;
        // SAFETY: the first headers, as many as are named, were just pointed at octets that live as long as `self`. By
        // number, because musl's sendmmsg is a loop over sendmsg.
        let sent = unsafe {
            libc::syscall(libc::SYS_sendmmsg, socket.as_raw_fd(), self.headers.as_mut_ptr(), places.len(), flags)
        };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(sent as usize) }
    }

    fn stride(&self) -> usize {
        TAG + self.room
    }

    /// Where a received frame stands, after its tag was put back.
    fn place(&mut self, index: usize) -> Option<(usize, usize)> {
        let start = index * self.stride() + TAG;
        let len = Some(self.headers[index].msg_len as usize).filter(|len| *len <= self.room)?;
        #[allow(clippy::unnecessary_cast, reason = "of 32 bits in musl")]
        let told = (self.headers[index].msg_hdr.msg_controllen as usize).min(size_of::<Control>());
        match tag_told(&self.control[index].0[..told]) {
            Some(tag) if len >= ADDRESSES => {
                self.octets.copy_within(start..start + ADDRESSES, start - TAG);
                self.octets[start - TAG + ADDRESSES..start + ADDRESSES].copy_from_slice(&tag);
                Some((start - TAG, len + TAG))
            }
            _ => Some((start, len)),
        }
    }

    /// `start + len` is within `octets`.
    fn describe(&mut self, slot: usize, start: usize, len: usize) {
        let octets = self.octets[start..start + len].as_mut_ptr();
        self.vectors[slot] = libc::iovec { iov_base: octets.cast(), iov_len: len };
        let header = &mut self.headers[slot].msg_hdr;
        header.msg_iov = &raw mut self.vectors[slot];
        header.msg_iovlen = 1;
        header.msg_flags = 0;
    }
}

/// The tag that was taken out of a frame, as it stood there: of struct tpacket_auxdata (linux/if_packet.h), behind a struct
/// cmsghdr. Before Linux 3.14 the kernel did not tell a tag's type.
fn tag_told(control: &[u8]) -> Option<[u8; TAG]> {
    const HEADER: usize = size_of::<libc::cmsghdr>();
    // SAFETY: a header's octets are there, and any octets make a valid cmsghdr of integers; the read asks for no alignment.
    let header =
        control.get(..HEADER).map(|octets| unsafe { octets.as_ptr().cast::<libc::cmsghdr>().read_unaligned() })?;
    let data = control.get(HEADER..)?;
    if (header.cmsg_level, header.cmsg_type) != (libc::SOL_PACKET, libc::PACKET_AUXDATA) {
        return None;
    }
    let half = |at: usize| data.get(at..at + 2)?.first_chunk().map(|octets| u16::from_ne_bytes(*octets));
    let status = data.first_chunk().map(|octets| u32::from_ne_bytes(*octets))?;
    if status & libc::TP_STATUS_VLAN_VALID == 0 {
        return None;
    }
    // struct { u32 status, len, snaplen; u16 mac, net, vlan_tci, vlan_tpid }.
    let kind = if status & libc::TP_STATUS_VLAN_TPID_VALID == 0 { 0x8100 } else { half(18)? };
    let ([k0, k1], [t0, t1]) = (kind.to_be_bytes(), half(16)?.to_be_bytes());
    Some([k0, k1, t0, t1])
}
