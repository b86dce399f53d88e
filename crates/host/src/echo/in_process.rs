//! The echo as a thread with a packet socket: for drivers, kernels and frames that XDP is not for.
//! Knows no headers; `reflect.rs` turns frames round.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use linerate_machine::sync::Mutex;
use socket2::Socket;

use super::reflect::{Verdict, reflect};
use super::{EchoCounts, EchoError};
use crate::sys::frame_batch::{self, FrameBatch};

/// Frames to a system call.
const BATCH: usize = 64;
/// Octets before and behind an IP packet of the interface's MTU: addresses, type, and two tags.
const BESIDE_PACKET: usize = 14 + 8;
/// Of an interface that does not say.
const LARGEST: u32 = 65_535;
/// How long the thread waits before it looks whether it should end.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Answers until it is dropped.
#[derive(Debug)]
pub(super) struct InProcess {
    shared: Arc<Shared>,
    socket: Arc<Socket>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    stopped: AtomicBool,
    /// Written once a batch; small processors have no atomics of 64 bits.
    counts: Mutex<EchoCounts>,
}

impl Shared {}

impl InProcess {
    pub(super) fn start(index: u32, mtu: Option<u32>, secret: u32) -> Result<InProcess, EchoError> {
        let socket = frame_batch::open(index).map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => EchoError::NotPermitted,
            _ => EchoError::System { doing: "opening a packet socket", error },
        })?;
        socket
            .set_read_timeout(Some(LOOK_AGAIN))
            .map_err(|error| EchoError::System { doing: "preparing a packet socket", error })?;
        let (shared, socket) = (Arc::new(Shared::default()), Arc::new(socket));
        let room = mtu.unwrap_or(LARGEST).min(LARGEST) as usize + BESIDE_PACKET;
        let thread = {
            let (shared, socket) = (shared.clone(), socket.clone());
            thread::Builder::new().name("echo".to_owned()).spawn(move || answer(&shared, &socket, room, secret))
        };
        let thread = thread.map_err(|error| EchoError::System { doing: "starting a thread", error })?;
        Ok(InProcess { shared, socket, thread: Some(thread) })
    }

    pub(super) fn counts(&self) -> io::Result<EchoCounts> {
        let mut counts = self.shared.counts.lock();
        // Reading clears it, so what was read is kept.
        counts.overrun += frame_batch::drops(&*self.socket)?;
        Ok(*counts)
    }
}

impl Drop for InProcess {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn answer(shared: &Shared, socket: &Socket, room: usize, secret: u32) {
    let mut batch = FrameBatch::new(BATCH, room);
    let mut back = Vec::with_capacity(BATCH);
    while !shared.stopped.load(Ordering::Relaxed) {
        // Nothing came, or the interface is down for a while: it may come back.
        let Ok(count) = batch.receive(socket) else { continue };
        let mut now = EchoCounts::default();
        back.clear();
        for index in 0..count {
            // What is longer than a frame of this interface can be is none of ours.
            let Some(frame) = batch.frame_mut(index) else {
                now.strangers += 1;
                continue;
            };
            let verdict = reflect(frame, secret);
            if verdict != Verdict::Stranger {
                now.received += 1;
                now.octets += frame.len() as u64;
            }
            match verdict {
                Verdict::Echo => back.push(index),
                Verdict::Multicast => now.multicast += 1,
                Verdict::Returned => now.returned += 1,
                Verdict::Stranger => now.strangers += 1,
            }
        }
        let mut rest = &back[..];
        while !rest.is_empty() {
            let taken = batch.send(socket, rest).unwrap_or_else(|_| {
                now.unsent += 1;
                1
            });
            rest = &rest[taken..];
        }
        now.echoed = back.len() as u64 - now.unsent;
        shared.counts.lock().add(&now);
    }
}
