//! How many data segments of a connection this end sent and received, and how a connection ends so that both know.
//! Knows one connection; what was lost between its ends is the difference of two accounts.
//!
//! ```text
//!   sender                                    receiver
//!   the last write
//!   shutdown, FIN ──────── data, FIN ───────→ reads to the end
//!                 ←──────── FIN ───────────── shutdown
//!   reads its counts ────── ACK ────────────→ TCP_CLOSE: whatever was retransmitted in vain has come before it
//!                                             reads its counts
//! ```
//! The kernel counts a segment as received before it looks whether it has it already, and as sent before the queueing
//! discipline may drop it: the difference is what did not reach the receiver's stack.

use std::io::Read;
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsRawFd;
use std::time::Duration;

use linerate_trial::outcome::Segments;
use socket2::Socket;

use super::clock::TrialClock;
use super::sockets::is_passing;
use crate::sys::socket_state::{Field8, Field32, TCP_CLOSE, TcpInfo, unacknowledged};

/// How long a read may block before the thread looks whether it should end.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// How long each end waits for the other to have read everything.
pub const USUAL_NS: u64 = 200_000_000;
/// How long at most where what is on its way becomes less, so that the accounts are exact.
pub const LONGEST_NS: u64 = 1_000_000_000;
/// How long an end that has read everything waits to hear that the other end knows: a round trip.
const CLOSE_NS: u64 = 300_000_000;

/// A connection's counts, carried on beyond the kernel's 32 bits by the thread that moves its octets.
#[derive(Default)]
pub struct SegmentCounts {
    sent: u64,
    received: u64,
    retransmitted: u64,
    looked_octets: u64,
    /// What was outstanding when this was looked at last: a connection that was reset has forgotten its queue.
    open: u64,
}

impl SegmentCounts {
    /// Every segment carries an octet at least, so that no count wraps twice between two looks.
    const LOOK_OCTETS: u64 = 1 << 31;

    /// The flow has moved so many octets.
    #[inline]
    pub fn handle_octets(&mut self, socket: &impl AsRawFd, octets: u64) {
        if octets - self.looked_octets >= SegmentCounts::LOOK_OCTETS {
            self.looked_octets = octets;
            if let Ok(info) = TcpInfo::of(socket) {
                self.handle_info(&info);
            }
        }
    }

    fn handle_info(&mut self, info: &TcpInfo) {
        for (total, field) in [
            (&mut self.sent, Field32::DataSegsOut),
            (&mut self.received, Field32::DataSegsIn),
            (&mut self.retransmitted, Field32::TotalRetrans),
        ] {
            *total += info.get32(field).map_or(0, |low| u64::from(low.wrapping_sub(*total as u32)));
        }
    }

    /// The account now, at the connection's end; `None` of kernels that do not count (before Linux 4.6).
    pub fn finish(mut self, socket: &impl AsRawFd) -> Option<Segments> {
        let info = TcpInfo::of(socket).ok()?;
        info.get32(Field32::DataSegsOut)?;
        self.handle_info(&info);
        let spurious = info.get32(Field32::DsackDups).map(u64::from);
        let SegmentCounts { sent, received, retransmitted, open, .. } = self;
        let unacknowledged = outstanding(&info).max(open);
        Some(Segments { sent, received, retransmitted, spurious, unacknowledged })
    }

    /// Waits until the receiver of all that was written has read it and closes. `bounded`: for [`USUAL_NS`], and
    /// longer, up to [`LONGEST_NS`], while what is not acknowledged becomes less fast enough to be nothing by then.
    pub fn wait_for_close(&mut self, stream: &TcpStream, clock: &TrialClock, bounded: bool) {
        let since_ns = clock.now_ns();
        let left = || unacknowledged(stream).map_or(0, u64::from);
        let (first, mut least, mut progress_ns) = (left(), u64::MAX, since_ns);
        let mut waits = || {
            let now = clock.now_ns();
            let waited = now - since_ns;
            if clock.stopped() || (bounded && waited >= LONGEST_NS) {
                return false;
            }
            self.open = TcpInfo::of(stream).map_or(0, |info| outstanding(&info));
            let left = left();
            if left < least {
                (least, progress_ns) = (left, now);
            }
            if !bounded || waited < USUAL_NS {
                return true;
            }
            // As it went so far, the rest would take as long in proportion.
            let rest = left.saturating_mul(waited) / first.saturating_sub(left).max(1);
            left > 0 && now - progress_ns < USUAL_NS && rest < LONGEST_NS - waited
        };
        let _ = stream.shutdown(Shutdown::Write);
        let _ = stream.set_read_timeout(Some(LOOK_AGAIN));
        if read_to_end(stream, &mut waits) != Left::Reset {
            self.open = 0;
        }
    }
}

/// Segments that are not acknowledged: sent, or waiting to be. TCP's own pacing may hold back all that is left, with nothing on its
/// way, and goes on sending when the counts have been read.
fn outstanding(info: &TcpInfo) -> u64 {
    let get = |field| info.get32(field).map_or(0, u64::from);
    get(Field32::Unacked) + get(Field32::NotsentBytes).div_ceil(get(Field32::SndMss).max(1))
}

/// A requester has asked everything: reads the answers that are still on their way, and that there are no more.
pub fn leave(stream: &TcpStream, clock: &TrialClock) {
    let since_ns = clock.now_ns();
    let _ = stream.shutdown(Shutdown::Write);
    let _ = stream.set_read_timeout(Some(LOOK_AGAIN));
    read_to_end(stream, &mut || !clock.stopped() && clock.now_ns() - since_ns < USUAL_NS);
}

/// Whether the other end left by breaking the connection.
#[derive(PartialEq)]
enum Left {
    InOrder,
    Reset,
}

fn read_to_end(mut stream: &TcpStream, waits: &mut dyn FnMut() -> bool) -> Left {
    let mut rest = [0; 4096];
    while waits() {
        match stream.read(&mut rest) {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) if is_passing(&error) => {}
            Err(_) => return Left::Reset,
        }
    }
    Left::InOrder
}

/// An end that has read everything says so, and waits until the other end knows.
pub fn close(socket: &Socket, clock: &TrialClock) {
    if socket.shutdown(Shutdown::Write).is_err() {
        return;
    }
    let since_ns = clock.now_ns();
    let mut pause = Duration::from_micros(20);
    while !clock.aborted() && clock.now_ns() - since_ns < CLOSE_NS {
        match TcpInfo::of(socket).ok().and_then(|info| info.get8(Field8::State)) {
            Some(TCP_CLOSE) | None => break,
            Some(_) => std::thread::sleep(pause),
        }
        pause = (2 * pause).min(Duration::from_millis(5));
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;
    use std::time::Instant;

    use super::*;

    #[test]
    fn what_waits_to_be_sent_is_outstanding_though_all_that_was_sent_is_acknowledged() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (_reader, _) = listener.accept().unwrap();
        // Nobody reads: the receiver's window is full at some time, and all that fitted it acknowledged.
        sender.set_nonblocking(true).unwrap();
        let until = Instant::now() + Duration::from_secs(10);
        loop {
            while sender.write(&[0; 65536]).is_ok() {}
            let info = TcpInfo::of(&sender).unwrap();
            if info.get32(Field32::Unacked) == Some(0) && info.get32(Field32::NotsentBytes) > Some(0) {
                assert!(outstanding(&info) > 0);
                return;
            }
            assert!(Instant::now() < until, "the window is never full");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
