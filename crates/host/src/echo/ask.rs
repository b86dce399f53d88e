//! The other side of an echo: frames sent to it, so many on their way at once, and how long each takes to come back.
//! Knows one packet socket, and prints nothing.
//!
//! ```text
//!   frame 0 … N-1 ──►        each that comes back makes room for the next
//!           ◄── k  frame N ──►
//! ```
//! Until the first has come back, one is sent each 100 ms: nobody who does not answer with the secret is sent more.

use std::collections::HashMap;
use std::io;
use std::time::{Duration, Instant};

use linerate_machine::mac::MacAddress;
use linerate_trial::histogram::Histogram;
use linerate_wire::frame::{FrameKind, StreamField, TestFrame, TestHeader};
use linerate_wire::template::{Template, Vlans};
use socket2::Socket;

use super::EchoError;
use crate::interfaces;
use crate::sys::datagrams::DatagramBatch;
use crate::sys::ethtool::Ethtool;
use crate::sys::frame_batch;
use crate::sys::frames::{self, FrameRing};
use crate::sys::poll::wait_readable;
use crate::traffic::frames::filter::{FrameMatch, of_stream};
use crate::xdp::attach::PassProgram;

/// What is asked of an echo.
#[derive(Clone, Copy, Debug)]
pub struct AskOptions {
    /// The echo's Ethernet address.
    pub to: MacAddress,
    /// What it answers to.
    pub secret: u32,
    /// Frames that are on their way at once, 1 to [`MOST_IN_FLIGHT`].
    pub in_flight: u16,
    /// Octets of each, FCS counted: 64 at least.
    pub frame_len: u32,
}

/// The most frames on their way at once: a socket's buffer holds as many of the smallest.
pub const MOST_IN_FLIGHT: u16 = 256;

/// What came of it so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AskCounts {
    /// Frames that left.
    pub sent: u64,
    /// Those that came back in time, each once.
    pub returned: u64,
    /// Those that did not come back within [`LOST_AFTER`].
    pub lost: u64,
    /// Of the lost, those that came back after all.
    pub late: u64,
    /// Further copies, and frames that were never sent.
    pub strays: u64,
    /// Frames that the socket had no room for.
    pub overrun: u64,
    /// How long the returned ones took.
    pub times: Histogram,
}

/// A frame that has not come back for so long is lost.
pub const LOST_AFTER: Duration = Duration::from_secs(1);
/// Between two frames to an echo that has not answered yet.
const KNOCK: Duration = Duration::from_millis(100);
/// How long looking is cheaper than being woken.
const SPIN: Duration = Duration::from_micros(200);
/// How long the thread waits before it looks whether it should end.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// Between two looks for lost frames.
const SWEEP: Duration = Duration::from_millis(100);

/// Asks an echo.
pub struct EchoClient {
    socket: Socket,
    out: Socket,
    ring: FrameRing,
    template: Template,
    options: AskOptions,
    batch: DatagramBatch,
    /// When each frame that is on its way left, by its number.
    away: HashMap<u32, Instant>,
    next: u32,
    swept: Instant,
    counts: AskCounts,
    /// A veth takes what its other end's driver answers only where it has a program, or GRO.
    _pass: Option<PassProgram>,
}

impl EchoClient {
    /// Gets ready at an interface of the thread's network namespace. Nothing is sent yet.
    pub fn begin(interface: &str, options: AskOptions) -> Result<EchoClient, EchoError> {
        let link = interfaces::link(interface).map_err(|_| EchoError::NoInterface(interface.to_owned()))?;
        if link.flags & libc::IFF_UP as u32 == 0 {
            return Err(EchoError::Down(interface.to_owned()));
        }
        let from = link.mac.as_deref().and_then(|mac| mac.parse::<MacAddress>().ok());
        let from = from.filter(|mac| mac.is_of_one()).ok_or_else(|| EchoError::NoEthernet(interface.to_owned()))?;
        let options = AskOptions { in_flight: options.in_flight.clamp(1, MOST_IN_FLIGHT), ..options };
        let template = Template {
            kind: FrameKind::Raw,
            vlans: Vlans::NONE,
            to: options.to.0,
            from: from.0,
            frame_len: (options.frame_len as usize).max(64),
            reverse: false,
            ends: None,
            hops: 1,
            dscp: 0,
        };
        let wanted = FrameMatch { kind: template.kind, tags: 0, secret: options.secret };
        let refused = |error: io::Error| match error.kind() {
            io::ErrorKind::PermissionDenied => EchoError::NotPermitted,
            _ => EchoError::System { doing: "opening a packet socket", error },
        };
        let socket = frames::open_receiver(link.index, &of_stream(wanted, StreamField::ECHOED)).map_err(refused)?;
        socket.set_nonblocking(true).map_err(refused)?;
        let out = frames::open_sender(link.index).map_err(refused)?;
        let count = usize::from(options.in_flight);
        let mut ring = FrameRing::new(std::iter::repeat_n(template.octets(), count));
        for index in 0..count {
            // It has room: no kind is smaller.
            let _ = template.write(0, ring.frame_mut(index));
        }
        Ok(EchoClient {
            socket,
            out,
            ring,
            template,
            options,
            // What a frame says of itself is at its beginning.
            batch: DatagramBatch::incoming(count, 64, 1),
            away: HashMap::with_capacity(count),
            next: 0,
            swept: Instant::now(),
            counts: AskCounts::default(),
            // One that has a program already needs none, and without the right to one the echo by a socket answers.
            _pass: is_veth(interface).then(|| PassProgram::attach(interface).ok()).flatten(),
        })
    }

    /// Asks until then, or until `is_over`. What is on its way then is waited for by [`EchoClient::finish`].
    pub fn ask_until(&mut self, until: Instant, is_over: &dyn Fn() -> bool) -> io::Result<()> {
        let mut idle_since = Instant::now();
        loop {
            let now = Instant::now();
            if now >= until || is_over() {
                return Ok(());
            }
            let room = match self.counts.returned {
                0 if self.away.values().any(|left| left.elapsed() < KNOCK) => 0,
                0 => 1,
                _ => usize::from(self.options.in_flight).saturating_sub(self.away.len()),
            };
            self.send(room)?;
            if self.receive()? > 0 {
                idle_since = Instant::now();
            } else if idle_since.elapsed() > SPIN {
                wait_readable(&self.socket, LOOK_AGAIN)?;
            }
            if now.duration_since(self.swept) > SWEEP {
                self.sweep(now);
            }
        }
    }

    /// Waits for what is on its way, as long as it may take.
    pub fn finish(mut self) -> io::Result<AskCounts> {
        while !self.away.is_empty() {
            wait_readable(&self.socket, LOOK_AGAIN)?;
            self.receive()?;
            self.sweep(Instant::now());
        }
        self.counts()
    }

    /// What came so far: `sent = returned + lost`, and what is on its way.
    pub fn counts(&mut self) -> io::Result<AskCounts> {
        // Reading clears it, so what was read is kept.
        self.counts.overrun += frame_batch::drops(&self.socket)?;
        Ok(self.counts.clone())
    }

    /// Frames that are on their way.
    pub fn away(&self) -> usize {
        self.away.len()
    }

    fn send(&mut self, count: usize) -> io::Result<()> {
        if count == 0 {
            return Ok(());
        }
        for index in 0..count {
            let sequence = self.next.wrapping_add(index as u32);
            let header = TestHeader { secret: self.options.secret, stream: StreamField(0), sequence, sent_at_ns: 0 };
            self.template.stamp(&header, self.ring.frame_mut(index));
        }
        let left = Instant::now();
        let taken = match self.ring.send(&self.out, 0, count) {
            Ok(taken) => taken,
            // No room now: the same numbers go again.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOBUFS | libc::EAGAIN | libc::EINTR)) => 0,
            Err(error) => return Err(error),
        };
        for _ in 0..taken {
            self.away.insert(self.next, left);
            self.next = self.next.wrapping_add(1);
        }
        self.counts.sent += taken as u64;
        Ok(())
    }

    /// Takes in what has come back; how many.
    fn receive(&mut self) -> io::Result<usize> {
        let count = match self.batch.receive(&self.socket) {
            Ok(count) => count,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => 0,
            Err(error) => return Err(error),
        };
        let now = Instant::now();
        for index in 0..count {
            let Some(frame) = TestFrame::parse(self.batch.received(index).octets) else {
                self.counts.strays += 1;
                continue;
            };
            let sequence = frame.header.sequence;
            match self.away.remove(&sequence) {
                Some(left) => {
                    self.counts.returned += 1;
                    let took = now.saturating_duration_since(left).as_nanos();
                    self.counts.times.record(u64::try_from(took).unwrap_or(u64::MAX));
                }
                // A number that was sent, and was given up: or a copy, which nobody can tell from that for ever.
                None if self.next.wrapping_sub(sequence) <= RECENT && self.counts.late < self.counts.lost => {
                    self.counts.late += 1;
                }
                None => self.counts.strays += 1,
            }
        }
        Ok(count)
    }

    fn sweep(&mut self, now: Instant) {
        self.swept = now;
        let before = self.away.len();
        self.away.retain(|_, left| now.saturating_duration_since(*left) < LOST_AFTER);
        self.counts.lost += (before - self.away.len()) as u64;
    }
}

fn is_veth(interface: &str) -> bool {
    let driver = Ethtool::new(interface).and_then(|ethtool| ethtool.driver_info());
    driver.is_ok_and(|info| info.driver.as_deref() == Some("veth"))
}

/// Frames that may come late after so many others.
const RECENT: u32 = 1 << 24;
