//! How a TCP stream's octets get from this thread to its socket.
//! Knows no schedule and no window; it hands over what it is told to, and counts what the kernel tells of it.

use std::fs::File;
use std::io::{self, IoSlice, Write};
use std::time::Duration;

use linerate_trial::api::{ApiUse, SenderApi};
use linerate_trial::spec::Spec;
use socket2::Socket;

use super::{is_paced, refuse_sender};
use crate::sys::memory::{self, Mapping, page_octets};
use crate::sys::pipe::Pipe;
use crate::sys::socket_state::{Field32, TcpInfo};
use crate::sys::uring::SendRing;
use crate::sys::zero_copy::{self, Completions};
use crate::traffic::TrafficError;
use crate::traffic::buffer::{AlignedBuffer, fill};
use crate::traffic::sockets::Open;

/// One message after the other, through one API.
///
/// [`OctetsOut::send`] as often as wanted, then [`OctetsOut::finish`], while the socket is still open for sending.
pub struct OctetsOut {
    api: SenderApi,
    size: usize,
    batch: usize,
    way: Way,
}

enum Way {
    Plain(AlignedBuffer),
    Sendfile(File),
    Zerocopy(WithCompletions),
    Splice(ThroughPipe),
    Ring(Box<SendRing>),
}

/// Messages to one system call where neither the size of a message nor their number was asked for: of four trains of
/// segments each fewer calls did not get faster, with bbr sixteen made one stream three times slower. Of io_uring(7), where
/// they are system calls of their own, it is so many always.
const BATCH: usize = 4;
const RING_BATCH: usize = 8;
/// The most messages to one call of the other ways, and the most octets, for some of them hold as much in memory.
const MOST_PARTS: usize = 64;
const MOST_OCTETS: usize = 16 << 20;

/// Chooses for one flow: what was asked for, if this machine has it, or else `auto`.
pub fn choose(spec: &Spec, open: &Open, auto: SenderApi) -> Result<SenderApi, TrafficError> {
    let api = spec.sender_api.unwrap_or(auto);
    // All of it is made once, to see that it can be, before any traffic.
    OctetsOut::new(api, spec, &open.socket).map(|_| api)
}

impl OctetsOut {
    /// Gets everything ready, the socket too.
    pub fn new(api: SenderApi, spec: &Spec, socket: &Socket) -> Result<OctetsOut, TrafficError> {
        let size =
            if spec.message_size.is_none() && !is_paced(spec) { train(socket) } else { spec.message_octets() as usize };
        let alignment = spec.alignment as usize;
        let by_ring = matches!(api, SenderApi::IoUring | SenderApi::IoUringZerocopy);
        let usual = match spec.message_size {
            _ if by_ring => RING_BATCH,
            None => BATCH,
            // Who says how large a message is means what one call brings.
            Some(_) => 1,
        };
        let batch = spec.batch.map_or(usual, |batch| batch as usize);
        let batch = if by_ring { batch } else { batch.min(MOST_PARTS).min(MOST_OCTETS / size).max(1) };
        let way = match api {
            SenderApi::Plain => Ok(Way::Plain(AlignedBuffer::new(size, alignment))),
            SenderApi::Sendfile => {
                memory::sealed_file(AlignedBuffer::new(size, 1).as_slice(), batch).map(Way::Sendfile)
            }
            SenderApi::Zerocopy => WithCompletions::new(size, alignment, socket).map(Way::Zerocopy),
            SenderApi::Splice => ThroughPipe::new(size, batch, alignment).map(Way::Splice),
            SenderApi::IoUring | SenderApi::IoUringZerocopy => message(size, alignment)
                .and_then(|message| SendRing::new(message, batch, api == SenderApi::IoUringZerocopy))
                .map(|ring| Way::Ring(Box::new(ring))),
            _ => Err(io::ErrorKind::Unsupported.into()),
        };
        match way {
            Ok(way) => Ok(OctetsOut { api, size, batch, way }),
            Err(error) => Err(refuse_sender(api, why_not(api, &error))),
        }
    }

    /// Octets of a message.
    pub fn size(&self) -> usize {
        self.size
    }

    /// The most messages that one call takes.
    pub fn batch(&self) -> usize {
        self.batch
    }

    /// Hands over the `want` octets that follow the first `at` of the message; returns how many the kernel took. Waits
    /// for room as the socket's time-out says.
    #[inline]
    pub fn send(&mut self, socket: &Socket, at: usize, want: usize, timeout: Duration) -> io::Result<usize> {
        match &mut self.way {
            Way::Plain(message) => {
                let message = message.as_slice();
                if at + want <= message.len() {
                    return (&*socket).write(&message[at..at + want]);
                }
                let (parts, count) = parts(message, at, want);
                (&*socket).write_vectored(&parts[..count])
            }
            Way::Sendfile(file) => memory::send_file(socket, file, at, want),
            Way::Zerocopy(way) => way.send(socket, at, want, timeout),
            Way::Splice(way) => way.send(socket, want),
            Way::Ring(ring) => ring.send(socket, at, want, timeout),
        }
    }

    /// Gets back from the kernel what it has been lent, as long as patience lasts. Returns how many octets it took
    /// since the last call of [`OctetsOut::send`].
    pub fn finish(&mut self, socket: &Socket, patience: Duration, stopped: impl FnMut() -> bool) -> usize {
        match &mut self.way {
            Way::Plain(_) | Way::Sendfile(_) | Way::Splice(_) => 0,
            Way::Zerocopy(way) => {
                way.finish(socket, patience, stopped);
                0
            }
            Way::Ring(ring) => ring.finish(patience, stopped),
        }
    }

    /// What was used, for the record.
    pub fn api_use(&self) -> ApiUse {
        let completions = match &self.way {
            Way::Plain(_) | Way::Sendfile(_) | Way::Splice(_) => None,
            Way::Zerocopy(way) => Some((way.done.sends, way.done.copied)),
            Way::Ring(ring) => ring.completions(),
        };
        ApiUse {
            name: self.api.name().to_owned(),
            batch: self.batch as u32,
            message_octets: Some(self.size as u32),
            completions: completions.map(|(all, _)| all),
            completions_copied: completions.map(|(_, copied)| copied),
            ..ApiUse::default()
        }
    }
}

/// As many octets as the stack sends down in one piece at most: whole segments, and no more of them than one
/// buffer of the largest kind holds (sk_gso_max_size less the room for headers, tcp_xmit_size_goal). What a call
/// brings beyond whole trains leaves as a short one, and with bbr each waits for its turn by a timer: on a veth, where a
/// train is 65,160 octets, calls of 128 KiB got 22 Gbit/s and of 130,320 octets 60.
fn train(socket: &Socket) -> usize {
    const MOST: usize = 65_536 - 321;
    let segment = TcpInfo::of(socket).ok().and_then(|info| info.get32(Field32::SndMss)).unwrap_or(1448) as usize;
    (MOST / segment.clamp(1, MOST)) * segment.clamp(1, MOST)
}

/// The `want` octets that follow the first `at` of the message, in pieces of it, and how many pieces.
#[inline]
fn parts(message: &[u8], mut at: usize, want: usize) -> ([IoSlice<'_>; MOST_PARTS], usize) {
    let mut parts = [IoSlice::new(&[]); MOST_PARTS];
    let (mut left, mut count) = (want, 0);
    while left > 0 && count < MOST_PARTS {
        let part = left.min(message.len() - at);
        parts[count] = IoSlice::new(&message[at..at + part]);
        (left, count, at) = (left - part, count + 1, 0);
    }
    (parts, count)
}

/// A message in memory that the kernel can be lent.
fn message(size: usize, alignment: usize) -> io::Result<Mapping> {
    let mut message = Mapping::new(size, alignment)?;
    fill(message.as_mut_slice());
    Ok(message)
}

/// MSG_ZEROCOPY: each send borrows the message until its completion comes.
struct WithCompletions {
    message: Mapping,
    sends: u64,
    done: Completions,
}

impl WithCompletions {
    /// Sends that may wait for their completion at once. The kernel's own bound is the socket's option memory
    /// (net.core.optmem_max), of which each takes a little; it answers ENOBUFS.
    const OUTSTANDING: u64 = 256;
    /// Completions are read once so many sends are due, for the kernel makes one report of those that follow each
    /// other.
    const REAP_FROM: u64 = 32;

    fn new(size: usize, alignment: usize, socket: &Socket) -> io::Result<WithCompletions> {
        zero_copy::allow(socket)?;
        Ok(WithCompletions { message: message(size, alignment)?, sends: 0, done: Completions::default() })
    }

    fn send(&mut self, socket: &Socket, at: usize, want: usize, timeout: Duration) -> io::Result<usize> {
        if self.outstanding() >= Self::REAP_FROM {
            zero_copy::reap(socket, &mut self.done)?;
        }
        if self.outstanding() >= Self::OUTSTANDING {
            self.wait(socket, timeout)?;
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let (parts, count) = parts(self.message.as_slice(), at, want);
        match zero_copy::send(socket, &parts[..count]) {
            Ok(sent) => {
                self.sends += 1;
                Ok(sent)
            }
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {
                self.wait(socket, timeout)?;
                Err(io::ErrorKind::WouldBlock.into())
            }
            Err(error) => Err(error),
        }
    }

    fn outstanding(&self) -> u64 {
        self.sends - self.done.sends
    }

    fn wait(&mut self, socket: &Socket, timeout: Duration) -> io::Result<()> {
        zero_copy::wait_for_completion(socket, timeout);
        zero_copy::reap(socket, &mut self.done)
    }

    fn finish(&mut self, socket: &Socket, patience: Duration, mut stopped: impl FnMut() -> bool) {
        const LOOK: Duration = Duration::from_millis(10);
        let began = std::time::Instant::now();
        // What the kernel already reported is read even without patience.
        let mut readable = zero_copy::reap(socket, &mut self.done).is_ok();
        while readable && self.outstanding() > 0 && began.elapsed() < patience && !stopped() {
            readable = self.wait(socket, LOOK).is_ok();
        }
    }
}

/// vmsplice(2) once, then splice(2): one pipe holds the message's pages for good, and each send takes its copy of the
/// references (tee(2)) on to the socket. To lend the pages anew each time costs a walk through the page tables.
struct ThroughPipe {
    _message: Mapping,
    source: Pipe,
    /// Octets that the source holds; where the pipe is too small for a message, the message is these again and again.
    held: usize,
    pipe: Pipe,
    /// Octets that are in the pipe and not yet in the socket.
    inside: usize,
}

impl ThroughPipe {
    fn new(size: usize, batch: usize, alignment: usize) -> io::Result<ThroughPipe> {
        let message = message(size, alignment)?;
        // A page more for each: a message need not begin at a page's start.
        let room = (size + page_octets()) * batch;
        let (source, pipe) = (Pipe::new(room)?, Pipe::new(room)?);
        let mut held = 0;
        for _ in 0..batch {
            match source.lend(message.as_slice()) {
                Ok(lent) => held += lent,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && held > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(ThroughPipe { _message: message, source, held, pipe, inside: 0 })
    }

    /// Each call begins with the first octet of the message anew, wherever in it the last one ended: what counts is how
    /// many there are, and the receiver does not look at them.
    fn send(&mut self, socket: &Socket, want: usize) -> io::Result<usize> {
        if self.inside == 0 {
            self.inside = self.pipe.copy_from(&self.source, want.min(self.held))?;
        }
        let sent = self.pipe.send(socket, self.inside.min(want), false)?;
        self.inside -= sent;
        Ok(sent)
    }
}

/// The sentence of a machine that lacks the API, or of whatever else its kernel said.
fn why_not(api: SenderApi, error: &io::Error) -> String {
    match api {
        SenderApi::Sendfile => super::why_not("memfd_create(2)", "3.17", error),
        SenderApi::Zerocopy => super::why_not("MSG_ZEROCOPY", "4.14", error),
        SenderApi::Splice => super::why_not("vmsplice(2)", "2.6.17", error),
        SenderApi::IoUringZerocopy => super::why_not("io_uring's IORING_OP_SEND_ZC", "6.2", error),
        _ => super::why_not("io_uring", "5.11", error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_lacks_an_api_says_since_when_there_is_one() {
        #[track_caller]
        fn check(api: SenderApi, errno: i32, expected: &str) {
            let error = io::Error::from_raw_os_error(errno);
            assert_eq!(
                refuse_sender(api, why_not(api, &error)).to_string(),
                format!("sender_api {api} is not to be had here: {expected}; choose plain or auto")
            );
        }
        // What each system call says where the kernel was built without it, or is older.
        check(SenderApi::Sendfile, libc::ENOSYS, "this kernel has no memfd_create(2) (Linux 3.17 has)");
        check(SenderApi::Zerocopy, libc::ENOPROTOOPT, "this kernel has no MSG_ZEROCOPY (Linux 4.14 has)");
        check(SenderApi::Splice, libc::ENOSYS, "this kernel has no vmsplice(2) (Linux 2.6.17 has)");
        check(SenderApi::IoUring, libc::ENOSYS, "this kernel has no io_uring (Linux 5.11 has)");
        let part = "this kernel has no io_uring's IORING_OP_SEND_ZC (Linux 6.2 has)";
        check(SenderApi::IoUringZerocopy, libc::EINVAL, part);
        check(SenderApi::Splice, libc::EMFILE, "vmsplice(2): Too many open files (os error 24)");
    }
}
