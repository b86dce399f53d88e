//! How a TCP stream's octets get from their socket to this thread, or past it.
//! Knows no window; it takes what has come, and counts what the kernel tells of it.

use std::fs::File;
use std::io::{self, Read};
use std::time::Duration;

use linerate_trial::api::{ApiUse, ReceiverApi};
use linerate_trial::spec::Spec;
use socket2::Socket;

use super::refuse_receiver;
use crate::sys::pipe::Pipe;
use crate::sys::poll::wait_readable;
use crate::sys::uring::ReceiveRing;
use crate::sys::zero_copy::{self, PageWindow};
use crate::traffic::TrafficError;
use crate::traffic::buffer::AlignedBuffer;
use crate::traffic::sockets::Open;

/// A read may bring this much, whatever the message size: TCP keeps no message bounds.
pub const READ: usize = 512 << 10;

/// What arrives on one connection, through one API.
pub struct OctetsIn {
    api: ReceiverApi,
    way: Way,
}

enum Way {
    Plain(AlignedBuffer),
    Trunc,
    Splice(Pipe, File),
    Zerocopy(PageWindow, AlignedBuffer, u64),
    Ring(Box<ReceiveRing>),
}

/// Buffers of a ring, and their size.
const RING: (u16, usize) = (8, 256 << 10);

/// Chooses for one flow: what was asked for, if this machine has it, or else `auto`.
pub fn choose(spec: &Spec, open: &Open, auto: ReceiverApi) -> Result<ReceiverApi, TrafficError> {
    let api = spec.receiver_api.unwrap_or(auto);
    // All of it is made once, to see that it can be, before any traffic.
    OctetsIn::new(api, spec, &open.socket).map(|_| api)
}

impl OctetsIn {
    /// Gets everything ready, the socket too.
    pub fn new(api: ReceiverApi, spec: &Spec, socket: &Socket) -> Result<OctetsIn, TrafficError> {
        let alignment = spec.alignment as usize;
        let buffer = || AlignedBuffer::new(READ, alignment);
        let way = match api {
            // The socket has been told to poll; the call is the same.
            ReceiverApi::Plain | ReceiverApi::BusyPoll => Ok(Way::Plain(buffer())),
            ReceiverApi::Trunc => Ok(Way::Trunc),
            ReceiverApi::Splice => {
                Pipe::new(READ).and_then(|pipe| Ok(Way::Splice(pipe, File::options().write(true).open("/dev/null")?)))
            }
            ReceiverApi::Zerocopy => PageWindow::new(socket, READ).map(|window| Way::Zerocopy(window, buffer(), 0)),
            ReceiverApi::IoUring => ReceiveRing::new(RING.0, RING.1, alignment).map(|ring| Way::Ring(Box::new(ring))),
            _ => Err(io::ErrorKind::Unsupported.into()),
        };
        match way {
            Ok(way) => Ok(OctetsIn { api, way }),
            Err(error) => Err(refuse_receiver(api, why_not(api, &error))),
        }
    }

    /// Waits for octets and takes what has come; returns how many. 0: the far end has closed.
    #[inline]
    pub fn receive(&mut self, socket: &Socket, timeout: Duration) -> io::Result<usize> {
        match &mut self.way {
            Way::Plain(buffer) => (&*socket).read(buffer.as_mut_slice()),
            Way::Trunc => zero_copy::discard(socket, READ),
            Way::Splice(pipe, null) => {
                let taken = pipe.receive(socket, pipe.capacity())?;
                let mut left = taken;
                while left > 0 {
                    left -= pipe.drain(null, left)?;
                }
                Ok(taken)
            }
            Way::Zerocopy(window, buffer, octets_mapped) => {
                if !wait_readable(socket, timeout)? {
                    return Err(io::ErrorKind::WouldBlock.into());
                }
                let shown = window.receive(socket);
                // EIO: nothing is left and the far end has closed; the read says so too.
                let shown = shown.ok();
                let mapped = shown.map_or(0, |shown| shown.mapped);
                *octets_mapped += mapped as u64;
                let to_read = shown.map_or(0, |shown| shown.to_read);
                if mapped > 0 && to_read == 0 {
                    return Ok(mapped);
                }
                // What fills no page, as far as the kernel knows where that ends; all of it where no page was full.
                let most = if to_read > 0 { to_read.min(READ) } else { READ };
                match (&*socket).read(&mut buffer.as_mut_slice()[..most]) {
                    Ok(read) => Ok(mapped + read),
                    Err(_) if mapped > 0 => Ok(mapped),
                    Err(error) => Err(error),
                }
            }
            Way::Ring(ring) => ring.receive(socket, timeout),
        }
    }

    /// What was used, for the record.
    pub fn api_use(&self) -> ApiUse {
        ApiUse {
            name: self.api.name().to_owned(),
            batch: 1,
            octets_mapped: match &self.way {
                Way::Zerocopy(_, _, octets_mapped) => Some(*octets_mapped),
                _ => None,
            },
            ..ApiUse::default()
        }
    }
}

/// The sentence of a machine that lacks the API, or of whatever else its kernel said.
fn why_not(api: ReceiverApi, error: &io::Error) -> String {
    match api {
        ReceiverApi::Splice => super::why_not("splice(2)", "2.6.17", error),
        ReceiverApi::Zerocopy => super::why_not("TCP_ZEROCOPY_RECEIVE", "4.18", error),
        _ => super::why_not("io_uring's multishot receive", "6.0", error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_lacks_an_api_says_since_when_there_is_one() {
        #[track_caller]
        fn check(api: ReceiverApi, errno: i32, expected: &str) {
            let error = io::Error::from_raw_os_error(errno);
            assert_eq!(
                refuse_receiver(api, why_not(api, &error)).to_string(),
                format!("receiver_api {api} is not to be had here: {expected}; choose plain or auto")
            );
        }
        // Of a socket without the window, the mmap is refused before the option is asked for.
        for errno in [libc::ENODEV, libc::ENOPROTOOPT] {
            check(ReceiverApi::Zerocopy, errno, "this kernel has no TCP_ZEROCOPY_RECEIVE (Linux 4.18 has)");
        }
        check(ReceiverApi::Splice, libc::ENOSYS, "this kernel has no splice(2) (Linux 2.6.17 has)");
        check(ReceiverApi::IoUring, libc::EINVAL, "this kernel has no io_uring's multishot receive (Linux 6.0 has)");
    }
}
