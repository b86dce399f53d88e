//! How a TCP stream's octets get from this thread to its socket.
//! Knows no schedule and no window; it hands over what it is told to, and counts what the kernel tells of it.

use std::fs::File;
use std::io::{self, Write};
use std::time::Duration;

use linerate_trial::api::{ApiUse, SenderApi};
use linerate_trial::spec::Spec;
use socket2::Socket;

use super::refuse_sender;
use crate::sys::memory::{self, Mapping, page_octets};
use crate::sys::pipe::Pipe;
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
    way: Way,
}

enum Way {
    Plain(AlignedBuffer),
    Sendfile(File),
    Zerocopy(WithCompletions),
    Splice(ThroughPipe),
    Ring(Box<SendRing>, usize),
}

/// The fastest first, of those that need no more of the kernel than Linux 3.17; the last is on every machine. None of
/// them changes what is on the wire.
const AUTO: [SenderApi; 2] = [SenderApi::Sendfile, SenderApi::Plain];

/// Sends to one system call of io_uring(7).
const BATCH: usize = 8;

/// Chooses for one flow: what was asked for, if this machine has it, or else the fastest that it has.
pub fn choose(spec: &Spec, open: &Open) -> Result<SenderApi, TrafficError> {
    if let Some(api) = spec.sender_api {
        // All of it is made once, to see that it can be, before any traffic.
        return OctetsOut::new(api, spec, &open.socket).map(|_| api);
    }
    Ok(AUTO.into_iter().find(|&api| OctetsOut::new(api, spec, &open.socket).is_ok()).unwrap_or(SenderApi::Plain))
}

impl OctetsOut {
    /// Gets everything ready, the socket too.
    pub fn new(api: SenderApi, spec: &Spec, socket: &Socket) -> Result<OctetsOut, TrafficError> {
        let (size, alignment) = (spec.message_octets() as usize, spec.alignment as usize);
        let way = match api {
            SenderApi::Plain => Ok(Way::Plain(AlignedBuffer::new(size, alignment))),
            SenderApi::Sendfile => memory::sealed_file(AlignedBuffer::new(size, 1).as_slice()).map(Way::Sendfile),
            SenderApi::Zerocopy => WithCompletions::new(size, alignment, socket).map(Way::Zerocopy),
            SenderApi::Splice => ThroughPipe::new(size, alignment).map(Way::Splice),
            SenderApi::IoUring | SenderApi::IoUringZerocopy => {
                let batch = spec.batch.map_or(BATCH, |batch| batch as usize);
                message(size, alignment)
                    .and_then(|message| SendRing::new(message, batch, api == SenderApi::IoUringZerocopy))
                    .map(|ring| Way::Ring(Box::new(ring), batch))
            }
            _ => Err(io::ErrorKind::Unsupported.into()),
        };
        match way {
            Ok(way) => Ok(OctetsOut { api, size, way }),
            Err(error) => Err(refuse_sender(api, why_not(api, &error))),
        }
    }

    /// The most octets that one call may bring on their way, whole messages.
    pub fn reach(&self) -> usize {
        match &self.way {
            Way::Ring(_, batch) => self.size * batch,
            _ => self.size,
        }
    }

    /// Hands over the `want` octets that follow the first `at` of the message; returns how many the kernel took. Waits
    /// for room as the socket's time-out says.
    #[inline]
    pub fn send(&mut self, socket: &Socket, at: usize, want: usize, timeout: Duration) -> io::Result<usize> {
        match &mut self.way {
            Way::Plain(message) => (&*socket).write(&message.as_slice()[at..at + want]),
            Way::Sendfile(file) => memory::send_file(socket, file, at, want),
            Way::Zerocopy(way) => way.send(socket, at, want, timeout),
            Way::Splice(way) => way.send(socket, at, want),
            Way::Ring(ring, _) => ring.send(socket, at, want, timeout),
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
            Way::Ring(ring, _) => ring.finish(patience, stopped),
        }
    }

    /// What was used, for the record.
    pub fn api_use(&self) -> ApiUse {
        let (batch, completions) = match &self.way {
            Way::Plain(_) | Way::Sendfile(_) | Way::Splice(_) => (1, None),
            Way::Zerocopy(way) => (1, Some((way.done.sends, way.done.copied))),
            Way::Ring(ring, batch) => (*batch, ring.completions()),
        };
        ApiUse {
            name: self.api.name().to_owned(),
            batch: batch as u32,
            completions: completions.map(|(all, _)| all),
            completions_copied: completions.map(|(_, copied)| copied),
            ..ApiUse::default()
        }
    }
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
        match zero_copy::send(socket, &self.message.as_slice()[at..at + want]) {
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
    /// Octets of the message that the source holds; where the pipe is too small for all, the message is these again
    /// and again.
    held: usize,
    pipe: Pipe,
    /// Octets that are in the pipe and not yet in the socket.
    inside: usize,
}

impl ThroughPipe {
    fn new(size: usize, alignment: usize) -> io::Result<ThroughPipe> {
        let message = message(size, alignment)?;
        // A page more: the message need not begin at a page's start.
        let room = size + page_octets();
        let (source, pipe) = (Pipe::new(room)?, Pipe::new(room)?);
        let held = source.lend(message.as_slice())?;
        Ok(ThroughPipe { _message: message, source, held, pipe, inside: 0 })
    }

    fn send(&mut self, socket: &Socket, at: usize, want: usize) -> io::Result<usize> {
        if self.inside == 0 {
            self.inside = self.pipe.copy_from(&self.source, want.min(self.held))?;
        }
        let _ = at;
        let sent = self.pipe.send(socket, self.inside.min(want), false)?;
        self.inside -= sent;
        Ok(sent)
    }
}

/// The sentence of a machine that lacks the API, or of whatever else its kernel said.
fn why_not(api: SenderApi, error: &io::Error) -> String {
    let (means, since) = match api {
        SenderApi::Sendfile => ("memfd_create(2)", "3.17"),
        SenderApi::Zerocopy => ("MSG_ZEROCOPY", "4.14"),
        SenderApi::Splice => ("vmsplice(2)", "2.6.17"),
        SenderApi::IoUringZerocopy => ("io_uring's IORING_OP_SEND_ZC", "6.2"),
        _ => ("io_uring", "5.11"),
    };
    super::why_not(means, since, error)
}
