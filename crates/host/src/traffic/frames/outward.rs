//! Frames that stand ready in memory, and how the kernel is given them: by a packet socket, or by an AF_XDP socket's ring.
//! Knows no time; which are due is for [`super::send`] to say.

use std::io;

use linerate_trial::spec::Spec;
use linerate_wire::frame::{StreamField, TestHeader};
use linerate_wire::template::Template;
use socket2::Socket;

use super::FrameLink;
use crate::sys::frames::FrameRing;
use crate::sys::xdp_socket::Outgoing;
use crate::xdp::attach::PassProgram;

/// Frames to a system call, unless the user says otherwise.
pub const BATCH: usize = 32;

/// An AF_XDP socket's sending half.
pub struct XdpSender {
    /// Its frames.
    pub outgoing: Outgoing,
    /// Drivers that send frames where they stand do so only while a program is there.
    pub pass: Option<PassProgram>,
}

/// Each size of each flow, in the order in which they are sent, over and over.
pub struct Outward {
    way: Way,
    templates: Vec<Template>,
    secret: u32,
    stream: u16,
    /// Of the clock that frames bear the time of: all of one machine share it.
    epoch_ns: u64,
    /// What the last frames were stamped as.
    measured: bool,
    /// Frames that a call stopped at because there was no room below, without a word: it had taken others (sendmmsg(2)).
    refused: u64,
}

enum Way {
    /// A call takes them, or says that it does not.
    Socket(FrameRing),
    /// What is posted is the kernel's, and taken by this call or by a later one.
    Xdp(XdpSender),
}

impl Outward {
    /// By the AF_XDP socket where there is one, else by `link.out`.
    pub fn new(link: &FrameLink, spec: &Spec, xdp: Option<XdpSender>, stream: u16, epoch_ns: u64) -> Outward {
        let templates = templates(&link.template, spec);
        let mut way = match xdp {
            Some(xdp) => Way::Xdp(xdp),
            None => Way::Socket(FrameRing::new(lengths(&link.template, spec).into_iter())),
        };
        for index in 0..way.count() {
            let flow = index / templates.len() % usize::from(spec.flows);
            // It has room: the spec was validated. None is with the kernel yet.
            let _ = way.frame_mut(index).map(|frame| templates[index % templates.len()].write(flow as u16, frame));
        }
        Outward { way, templates, secret: link.secret, stream, epoch_ns, measured: false, refused: 0 }
    }

    /// Sends up to `count` frames from this number on. Returns how many the kernel took; none of these is to be sent again, and
    /// the others are, with the same numbers. What it was given and has not taken ([`Outward::untaken`]) comes first.
    #[inline]
    pub fn send(&mut self, out: &Socket, sequence: u64, count: usize, measured: bool, now: u64) -> io::Result<usize> {
        let untaken = self.untaken();
        if untaken == 0 {
            self.measured = measured;
        }
        let first = (sequence % self.way.count() as u64) as usize;
        let stream = StreamField(if self.measured { self.stream } else { self.stream | StreamField::WARMUP });
        let sent_at_ns = self.epoch_ns.saturating_add(now);
        let header = |number: u64| TestHeader { secret: self.secret, stream, sequence: number as u32, sent_at_ns };
        match &mut self.way {
            Way::Socket(ring) => {
                let count = count.min(ring.count() - first);
                for index in first..first + count {
                    let number = sequence + (index - first) as u64;
                    self.templates[index % self.templates.len()].stamp(&header(number), ring.frame_mut(index));
                }
                let taken = ring.send(out, first, count)?;
                self.refused += u64::from(taken < count);
                Ok(taken)
            }
            Way::Xdp(XdpSender { outgoing, .. }) => {
                let mut given = untaken;
                while given < count {
                    let number = sequence + given as u64;
                    let index = (number % outgoing.count() as u64) as usize;
                    // Still with the kernel, from the turn before.
                    let Some(frame) = outgoing.frame_mut(index) else { break };
                    self.templates[index % self.templates.len()].stamp(&header(number), frame);
                    outgoing.post(index);
                    given += 1;
                }
                let kicked = outgoing.kick();
                match (given - outgoing.untaken() as usize, kicked) {
                    // Whatever hindered it tells of the frame that it met, which is counted by the interface, or comes again.
                    (0, Err(error)) => Err(full_or(error)),
                    (taken, _) => Ok(taken),
                }
            }
        }
    }

    /// Frames that were refused since this was asked last, without an error that says so.
    #[inline]
    pub fn take_refused(&mut self) -> u64 {
        std::mem::take(&mut self.refused)
    }

    /// Frames that the kernel was given and has not taken yet.
    #[inline]
    pub fn untaken(&self) -> usize {
        match &self.way {
            Way::Socket(_) => 0,
            Way::Xdp(xdp) => xdp.outgoing.untaken() as usize,
        }
    }

    /// The same, of the warm-up.
    #[inline]
    pub fn untaken_of_warmup(&self) -> usize {
        if self.measured { 0 } else { self.untaken() }
    }

    /// Whether the driver sends frames where they stand; `None` where that is no question.
    pub fn zero_copy(&self) -> Option<bool> {
        match &self.way {
            Way::Socket(_) => None,
            Way::Xdp(xdp) => Some(xdp.outgoing.is_zero_copy()),
        }
    }
}

impl Way {
    fn count(&self) -> usize {
        match self {
            Way::Socket(ring) => ring.count(),
            Way::Xdp(xdp) => xdp.outgoing.count(),
        }
    }

    fn frame_mut(&mut self, index: usize) -> Option<&mut [u8]> {
        match self {
            Way::Socket(ring) => Some(ring.frame_mut(index)),
            Way::Xdp(xdp) => xdp.outgoing.frame_mut(index),
        }
    }
}

/// No room now, in the ring of completions or in the socket's buffer: nothing was dropped.
fn full_or(error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(libc::EBUSY | libc::ENOBUFS | libc::ENOMEM) => io::ErrorKind::WouldBlock.into(),
        _ => error,
    }
}

/// A frame of each size.
fn templates(like: &Template, spec: &Spec) -> Vec<Template> {
    spec.frame_sizes().sizes().iter().map(|&size| Template { frame_len: size as usize, ..*like }).collect()
}

/// Octets of the frames that stand ready, without FCS: short rounds are made longer, so that a call need not end where they do.
pub fn lengths(like: &Template, spec: &Spec) -> Vec<usize> {
    let templates = templates(like, spec);
    let round = templates.len() * usize::from(spec.flows);
    let rounds = (8 * BATCH).div_ceil(round);
    (0..round * rounds).map(|index| templates[index % templates.len()].octets()).collect()
}
