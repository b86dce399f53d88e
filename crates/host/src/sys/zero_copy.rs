//! Octets without a copy: MSG_ZEROCOPY and its completions, TCP_ZEROCOPY_RECEIVE, and MSG_TRUNC, which drops them.
//! Knows no trials; Documentation/networking/msg_zerocopy.rst of the kernel says what a completion is.

use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

use super::memory::{Mapping, page_octets};
use super::option;

/// Lets a socket send without a copy (SO_ZEROCOPY, since Linux 4.14). Older kernels answer ENOPROTOOPT.
pub fn allow(socket: &impl AsRawFd) -> io::Result<()> {
    option::ZEROCOPY.set(socket, 1)
}

/// Sends octets without a copy; returns how many the kernel took. They must not change before the completion: let
/// them stand in a [`Mapping`] that nobody writes to. ENOBUFS: too many completions are awaited.
#[inline]
pub fn send(socket: &impl AsRawFd, octets: &[io::IoSlice<'_>]) -> io::Result<usize> {
    let flags = libc::MSG_ZEROCOPY | libc::MSG_NOSIGNAL;
    // SAFETY: a plain C structure for which all-zero octets are a valid value.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    // An IoSlice "is guaranteed to be ABI compatible with the iovec type on Unix platforms" (std).
    header.msg_iov = octets.as_ptr().cast_mut().cast();
    header.msg_iovlen = octets.len() as _;
    // SAFETY: the header describes the slices, which outlive the call, and which the kernel only reads.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const header, flags) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(sent as usize) }
}

/// Sends that the kernel is through with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Completions {
    /// How many.
    pub sends: u64,
    /// Those among them whose octets were copied after all (SO_EE_CODE_ZEROCOPY_COPIED).
    pub copied: u64,
}

/// Reads the completions that have come, without waiting, and adds them up.
pub fn reap(socket: &impl AsRawFd, done: &mut Completions) -> io::Result<()> {
    let mut control = Control([0; 128]);
    loop {
        // SAFETY: a plain C structure for which all-zero octets are a valid value.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        header.msg_control = control.0.as_mut_ptr().cast();
        header.msg_controllen = control.0.len() as _;
        let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
        // SAFETY: the header describes `control`, which outlives the call, and no other memory.
        if unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, flags) } < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::WouldBlock { Ok(()) } else { Err(error) };
        }
        // SAFETY: the kernel wrote whole control messages into `control` and their length into the header.
        let mut message = unsafe { libc::CMSG_FIRSTHDR(&raw const header) };
        while !message.is_null() {
            // SAFETY: not null, so its header stands wholly within the length that the kernel gave; aligned as `Control`.
            let (level, kind, len) = unsafe { ((*message).cmsg_level, (*message).cmsg_type, (*message).cmsg_len) };
            let is_report =
                matches!((level, kind), (libc::SOL_IP, libc::IP_RECVERR) | (libc::SOL_IPV6, libc::IPV6_RECVERR));
            // One that found no room is cut short (MSG_CTRUNC, recvmsg(2)), and its length says so.
            #[allow(clippy::unnecessary_cast, reason = "of 32 bits in musl")]
            if is_report && len as usize >= REPORT_LEN {
                // SAFETY: it carries one struct sock_extended_err (ip(7)), all of which is there, as was just seen.
                let error = unsafe { libc::CMSG_DATA(message).cast::<libc::sock_extended_err>().read_unaligned() };
                add(done, &error);
            }
            // SAFETY: `message` came from this header.
            message = unsafe { libc::CMSG_NXTHDR(&raw const header, message) };
        }
    }
}

/// Room for the control messages of one report: an alignment and a length that struct cmsghdr accepts.
#[repr(C, align(8))]
struct Control([u8; 128]);

/// A control message with a report in it, and nothing of what may follow.
// SAFETY: reckons with a number.
const REPORT_LEN: usize = unsafe { libc::CMSG_LEN(size_of::<libc::sock_extended_err>() as u32) } as usize;

const SO_EE_ORIGIN_ZEROCOPY: u8 = 5;
const SO_EE_CODE_ZEROCOPY_COPIED: u8 = 1;

/// One report covers the sends numbered ee_info to ee_data, both counted; the numbers wrap at 2³².
fn add(done: &mut Completions, error: &libc::sock_extended_err) {
    if error.ee_errno != 0 || error.ee_origin != SO_EE_ORIGIN_ZEROCOPY {
        return;
    }
    let sends = u64::from(error.ee_data.wrapping_sub(error.ee_info)) + 1;
    done.sends += sends;
    if error.ee_code & SO_EE_CODE_ZEROCOPY_COPIED != 0 {
        done.copied += sends;
    }
}

/// Waits until there is a completion to read (POLLERR), or the time is over.
pub fn wait_for_completion(socket: &impl AsRawFd, timeout: Duration) {
    let mut one = libc::pollfd { fd: socket.as_raw_fd(), events: 0, revents: 0 };
    let timeout = libc::c_int::try_from(timeout.as_millis()).unwrap_or(libc::c_int::MAX);
    // SAFETY: `one` outlives the call, and the count is one. A failure is like an early end of the wait.
    unsafe { libc::poll(&raw mut one, 1, timeout) };
}

/// Takes up to `len` octets from a TCP socket without copying them anywhere (MSG_TRUNC, tcp(7)). Returns how many; 0:
/// the far end has closed.
#[inline]
pub fn discard(socket: &impl AsRawFd, len: usize) -> io::Result<usize> {
    // SAFETY: with MSG_TRUNC a TCP socket writes no octets to the buffer (tcp(7): "data to be discarded, rather than
    // passed back in a caller-supplied buffer"), so there need not be one.
    let taken = unsafe { libc::recv(socket.as_raw_fd(), std::ptr::null_mut(), len, libc::MSG_TRUNC) };
    if taken < 0 { Err(io::Error::last_os_error()) } else { Ok(taken as usize) }
}

/// A window on a TCP socket through which whole pages of payload are read where the NIC put them
/// (TCP_ZEROCOPY_RECEIVE, since Linux 4.18; linux/tcp.h).
pub struct PageWindow {
    window: Mapping,
    len: usize,
}

/// struct tcp_zerocopy_receive as Linux 4.18 had it; later kernels accept the shorter one.
#[repr(C)]
struct ZeroCopyReceive {
    address: u64,
    length: u32,
    skip_hint: u32,
}

/// What one look through the window showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// Octets that were mapped, and are so received.
    pub mapped: usize,
    /// Octets that come next and fill no page: to be read before anything else is mapped.
    pub to_read: usize,
}

impl PageWindow {
    /// A window of `len` octets. Kernels without it refuse the mmap (ENODEV), or the option (ENOPROTOOPT).
    pub fn new(socket: &impl AsRawFd, len: usize) -> io::Result<PageWindow> {
        let len = len.next_multiple_of(page_octets());
        let window = PageWindow { window: Mapping::of_socket(socket, len)?, len };
        window.ask(socket, 0)?;
        Ok(window)
    }

    /// Maps what has arrived, in place of what was mapped before. Does not wait.
    #[inline]
    pub fn receive(&mut self, socket: &impl AsRawFd) -> io::Result<Mapped> {
        self.ask(socket, self.len)
    }

    fn ask(&self, socket: &impl AsRawFd, len: usize) -> io::Result<Mapped> {
        let mut asked = ZeroCopyReceive { address: self.window.as_ptr() as u64, length: len as u32, skip_hint: 0 };
        let mut size = size_of::<ZeroCopyReceive>() as libc::socklen_t;
        // SAFETY: the kernel reads and writes the structure, which `size` describes, and maps pages only into the
        // window, which this value owns and nobody reads.
        let status = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::IPPROTO_TCP,
                TCP_ZEROCOPY_RECEIVE,
                (&raw mut asked).cast(),
                &raw mut size,
            )
        };
        if status < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Mapped { mapped: asked.length as usize, to_read: asked.skip_hint as usize })
    }
}

const TCP_ZEROCOPY_RECEIVE: libc::c_int = 35;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completions_are_ranges_whose_numbers_wrap() {
        #[track_caller]
        fn check(first: u32, last: u32, code: u8, sends: u64, copied: u64) {
            let error = libc::sock_extended_err {
                ee_errno: 0,
                ee_origin: SO_EE_ORIGIN_ZEROCOPY,
                ee_type: 0,
                ee_code: code,
                ee_pad: 0,
                ee_info: first,
                ee_data: last,
            };
            let mut done = Completions::default();
            add(&mut done, &error);
            assert_eq!(done, Completions { sends, copied });
            add(&mut done, &libc::sock_extended_err { ee_origin: 2, ..error });
            assert_eq!(done.sends, sends, "an ICMP message is no completion");
        }
        check(0, 0, 0, 1, 0);
        check(7, 9, 1, 3, 3);
        check(u32::MAX, 1, 0, 3, 0);
    }
}
