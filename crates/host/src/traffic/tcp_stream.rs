//! A TCP stream: octets one way, as fast as asked.
//! Knows one connection; parallel streams are several of these.

use std::io::ErrorKind;
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use linerate_trial::api::{ApiUse, ReceiverApi, SenderApi};
use linerate_trial::departures::Departures;
use linerate_trial::outcome::{Acknowledged, FlowOutcome, Role};
use linerate_trial::spec::Extent;
use socket2::Socket;

use super::TrafficError;
use super::api::octets_in::{OctetsIn, READ};
use super::api::octets_out::OctetsOut;
use super::clock::{FinalDrain, TrialClock};
use super::segments::{self, SegmentCounts};
use super::sockets::is_passing;
use super::task::Task;
use super::tcp_info::tcp_summary;
use super::wait::wait_until;
use crate::sys::poll::wait_readable;
use crate::sys::socket_state::{Field8, TCP_CLOSE, TcpInfo, least_round_trip, set_receive_low_water, unacknowledged};
use crate::sys::thread::thread_use;

/// How long a write or read may block before the thread looks whether it should end.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// How long the receiver reads on after its time is over, whatever comes. What is still in flight is no part of any figure.
const DRAIN_NS: u64 = 100_000_000;
/// How long at most while there is something to read, and for how long nothing may come meanwhile: the segments' account
/// is exact of what was read to its end only.
const LONG_DRAIN_NS: u64 = segments::LONGEST_NS;
const SILENCE_NS: u64 = segments::USUAL_NS;

/// Sends until the time is over, or the octets are sent.
pub fn send(task: Task, api: SenderApi) -> Result<FlowOutcome, TrafficError> {
    let mut outcome = task.blank(Role::Sender);
    let socket = task.open.socket.try_clone().map_err(TrafficError::System)?;
    let stream: TcpStream = task.open.socket.try_clone().map_err(TrafficError::System)?.into();
    let mut out = OctetsOut::new(api, &task.spec, &socket)?;
    let size = out.size();
    let mut left = match (task.spec.extent, task.open.most_octets) {
        (Extent::Octets(octets), _) | (Extent::Time(_), Some(octets)) => octets,
        (Extent::Time(_), None) => u64::MAX,
    };
    if !task.clock.wait_for_start() {
        return Err(TrafficError::Stopped);
    }
    // Only now: opening the flow may have needed other time-outs.
    stream.set_write_timeout(Some(LOOK_AGAIN)).map_err(TrafficError::System)?;
    let window = task.clock.sending();
    let started_ns = task.clock.now_ns();
    let mut pacer = task.pacer(size as u64, started_ns);
    // A paced message leaves by itself.
    let most = if pacer.is_some() { 1 } else { out.batch() };
    let mut reach = Reach::new(most, task.spec.batch.is_some());
    let mut now = started_ns;
    let mut departures = Departures::default();
    let mut segments = SegmentCounts::default();
    // Where in the message the next write starts: a write may take a part of it.
    let mut at = 0;
    // Octets of the warm-up.
    let mut before = 0;
    let mut is_cut_short = false;
    while left > 0 && now < window.end_ns && !task.clock.stopped() {
        if at == 0
            && let Some(pacer) = &mut pacer
        {
            let departure = pacer.next_departure_ns();
            let is_due = wait_until(&task.clock, departure.min(window.end_ns));
            now = task.clock.now_ns();
            if !is_due || departure >= window.end_ns {
                break;
            }
            pacer.handle_now(now);
            pacer.handle_sent();
        }
        let called_ns = now;
        let want = (reach.messages * size - at).min(usize::try_from(left).unwrap_or(usize::MAX));
        match out.send(&socket, at, want, LOOK_AGAIN) {
            Ok(written) => {
                now = task.clock.now_ns();
                reach.handle_sent(now - called_ns);
                // What is left out is no part of what was asked for.
                left -= if now < window.start_ns { 0 } else { written as u64 };
                let messages = ((at + written) / size) as u64 + u64::from(left == 0 && (at + written) % size != 0);
                at = (at + written) % size;
                outcome.calls += 1;
                outcome.octets_total += written as u64;
                outcome.messages_total += messages;
                if window.contains(now) {
                    outcome.octets += written as u64;
                    outcome.messages += messages;
                    departures.handle_sent(called_ns, 1);
                } else if now < window.start_ns {
                    before += written as u64;
                }
                task.ledger.publish(outcome.octets_total, outcome.messages_total);
                segments.handle_octets(&socket, outcome.octets_total);
            }
            Err(error) if is_passing(&error) => {
                now = task.clock.now_ns();
                reach.handle_sent(now - called_ns);
            }
            // The end that says that the test is over may close before this thread has heard of it.
            Err(_) if task.clock.stopped() || task.clock.now_ns() >= task.earliest_end_ns(window.end_ns) => break,
            Err(_) if task.ends_by_reset() && outcome.octets_total > 0 => {
                is_cut_short = true;
                break;
            }
            Err(error) => return Err(TrafficError::Broke(error)),
        }
    }
    // Within a time, what the kernel has not taken by now is called back; what it took stays counted in all.
    let patience = if task.spec.expected_time().is_some() { DRAIN_NS } else { u64::MAX };
    outcome.octets_total += out.finish(&socket, Duration::from_nanos(patience), || task.clock.stopped()) as u64;
    outcome.api = ApiUse { batch: reach.largest as u32, ..out.api_use() };
    outcome.elapsed_ns =
        if left == 0 || is_cut_short { now.saturating_sub(window.start_ns) } else { task.elapsed_ns(window, now) };
    outcome.departure_gaps = departures.finish();
    outcome.thread = thread_use();
    outcome.socket_buffer = socket.send_buffer_size().ok().map(|octets| octets as u64);
    // The kernel's times run from the start, warm-up included.
    let open_s = now.saturating_sub(started_ns) as f64 / 1e9;
    outcome.tcp = tcp_summary(&socket, open_s);
    let is_timed = task.spec.expected_time().is_some();
    match task.framing.is_own() {
        true => segments.wait_for_close(&stream, &task.clock, is_timed),
        // Another tool's receiver is told over its control connection, and takes an earlier end for a failure; or has
        // none, and this is how it is told. What comes the other way on the same connection is for another thread.
        false => {
            if task.framing.ends_itself() {
                let _ = stream.shutdown(Shutdown::Write);
            }
            // One that ends with its stream reads on until it has all, or reads no more.
            let patience = match (is_timed, task.framing.ends_itself()) {
                (false, _) => [u64::MAX; 2],
                (true, true) => [u64::MAX, segments::USUAL_NS],
                (true, false) => [segments::USUAL_NS; 2],
            };
            // What the last call wrote beyond the time has to arrive too, before all has: it took part of that time.
            let sent = Acknowledged { octets: outcome.octets_total - before, elapsed_ns: outcome.elapsed_ns };
            outcome.acknowledged =
                Some(wait_for_acknowledgement(&socket, &task.clock, window.start_ns, sent, patience));
        }
    }
    if !is_timed {
        // Octets decided: what was retransmitted after the last write belongs to the flow too.
        outcome.tcp = tcp_summary(&socket, open_s);
    }
    outcome.segments = segments.finish(&socket);
    Ok(outcome)
}

/// Until all that was `sent` since `start_ns` has arrived at the other machine, or nothing more can: for so long at most, and
/// while no silence is longer than that, nanoseconds. Returns what had, and how long that took there, where the first of it came
/// half a round trip later than it left, and of the last it is known here as much later; where that was not all, at the moment at which
/// it was most for its time, for a receiver that has stopped reading (netperf's) takes some octets still, now and then.
fn wait_for_acknowledgement(
    socket: &Socket,
    clock: &TrialClock,
    start_ns: u64,
    sent: Acknowledged,
    [most, silence]: [u64; 2],
) -> Acknowledged {
    let since_ns = clock.now_ns();
    let (mut least, mut progress_ns) = (u64::MAX, since_ns);
    let round_trip_ns = least_round_trip(socket).as_nanos() as u64;
    let mut best = Acknowledged { octets: 0, ..sent };
    loop {
        let is_closed = TcpInfo::of(socket).is_ok_and(|info| info.get8(Field8::State) == Some(TCP_CLOSE));
        let (left, now) = (unacknowledged(socket).map_or(0, u64::from), clock.now_ns());
        if left < least {
            (least, progress_ns) = (left, now);
            let seen = Acknowledged {
                octets: sent.octets.saturating_sub(left),
                elapsed_ns: sent.elapsed_ns.max(now.saturating_sub(start_ns + round_trip_ns)),
            };
            let product =
                |one: Acknowledged, other: Acknowledged| u128::from(one.octets) * u128::from(other.elapsed_ns);
            if left == 0 || product(seen, best) >= product(best, seen) {
                best = seen;
            }
        }
        if left == 0 || is_closed || clock.stopped() || now - since_ns >= most || now - progress_ns >= silence {
            return best;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// How many messages an unlimited sender hands over with one call: as many as leave within a millisecond or two.
///
/// Octets are counted when their call returns. At gigabits, and below, a call of one message takes a millisecond, and
/// to wait for more would blur the time slices; above, fewer calls cost less.
struct Reach {
    messages: usize,
    least: usize,
    most: usize,
    /// The most that were handed over.
    largest: usize,
}

impl Reach {
    const LONG_NS: u64 = 2_000_000;

    /// At most so many; always so many where that was asked for.
    fn new(most: usize, always: bool) -> Reach {
        let least = if always { most } else { 1 };
        Reach { messages: least, least, most, largest: least }
    }

    /// A call has returned after this time.
    #[inline]
    fn handle_sent(&mut self, took_ns: u64) {
        if took_ns >= Reach::LONG_NS {
            self.messages = (self.messages / 2).max(self.least);
        } else if took_ns < Reach::LONG_NS / 2 && self.messages < self.most {
            self.messages = (self.messages * 2).min(self.most);
            self.largest = self.largest.max(self.messages);
        }
    }
}

/// How much the receiver lets come together before it is woken: what arrives in a tenth of a millisecond.
///
/// At tens of Gbit/s, to be woken for every train of segments costs more than to copy it, most of all in virtual
/// machines: with 256 KiB to a read the receiver took 27 Gbit/s and more from a veth where it took 19 without, at a
/// smaller share of the CPUs. Up to a gigabit nothing is gathered, and a board's figures are those of plain reads.
struct Gathering {
    since_ns: u64,
    octets: u64,
    low_water: u32,
}

impl Gathering {
    const WAIT_NS: u64 = 100_000;
    const LOOK_NS: u64 = 10_000_000;
    /// What a tenth of a millisecond brings at 1.3 Gbit/s.
    const LEAST: u64 = 16 << 10;
    /// Half of [`READ`], so that a read seldom leaves something behind.
    const MOST: u64 = (READ / 2) as u64;

    fn new() -> Gathering {
        Gathering { since_ns: 0, octets: 0, low_water: 1 }
    }

    /// Least time of a read that its timeout ended: the kernel counts [`LOOK_AGAIN`] in ticks of up to ten milliseconds.
    const TIMED_OUT_NS: u64 = LOOK_AGAIN.as_nanos() as u64 - 10_000_000;

    /// Whether a read that brought so many octets in so much time was ended by its timeout, or by the stream's end.
    ///
    /// Octets alone do not tell it: a reader that the kernel has copied a part to is woken for as much again.
    fn waited_in_vain(&self, octets: usize, took_ns: u64) -> bool {
        let gathers = self.low_water > 1;
        gathers && (octets < self.low_water as usize || took_ns >= Gathering::TIMED_OUT_NS)
    }

    /// Some octets were read. Every ten milliseconds what to wait for is worked out anew.
    fn handle_read(&mut self, socket: &Socket, octets: usize, now_ns: u64) {
        self.octets += octets as u64;
        let span_ns = now_ns - self.since_ns;
        if span_ns < Gathering::LOOK_NS {
            return;
        }
        let expected = self.octets.saturating_mul(Gathering::WAIT_NS) / span_ns;
        let low_water = if expected < Gathering::LEAST { 1 } else { expected.min(Gathering::MOST) as u32 };
        // A system call for a change that matters only.
        if low_water.abs_diff(self.low_water) > self.low_water / 4 {
            // Where the kernel will not, every wake-up stays as it was.
            let _ = set_receive_low_water(socket, low_water);
            self.low_water = low_water;
        }
        (self.since_ns, self.octets) = (now_ns, 0);
    }
}

/// Receives until the sender closes.
pub fn receive(task: Task, api: ReceiverApi) -> Result<FlowOutcome, TrafficError> {
    let mut outcome = task.blank(Role::Receiver);
    let socket = task.open.socket.try_clone().map_err(TrafficError::System)?;
    socket.set_read_timeout(Some(LOOK_AGAIN)).map_err(TrafficError::System)?;
    let mut inward = OctetsIn::new(api, &task.spec, &socket)?;
    let mut gathering = Gathering::new();
    let mut segments = SegmentCounts::default();
    let is_own = task.framing.is_own();
    let mut is_read = false;
    let ends_itself = task.framing.ends_itself();
    let by_octets = task.spec.expected_time().is_none() && !ends_itself;
    let (mut last_ns, mut looked_ns) = (0, task.clock.now_ns());
    // The other end began without asking: its first octets waited for this thread.
    let since = task.framing.early(task.open.flow.id).since;
    let mut leaving = FinalDrain::default();
    while !task.clock.aborted() {
        // The end that said over another connection that the test is over may still send: what comes from now on is of no test.
        if task.is_told_end() && task.clock.stopped() && !wait_readable(&socket, Duration::ZERO).unwrap_or(false) {
            break;
        }
        match inward.receive(&socket, LOOK_AGAIN) {
            Ok(0) => {
                // Another tool's stream took until now, pauses at its end included; also one whose end another connection
                // tells, where the close comes first.
                last_ns = if is_own { last_ns } else { task.clock.now_ns() };
                is_read = true;
                break;
            }
            Ok(read) => {
                let now = task.clock.now_ns();
                let first = outcome.octets_total == 0;
                let window = task.clock.receiving(now);
                last_ns = match task.clock.finished_ns() {
                    // It waited in vain for more to come together: what it brought was there when the other end finished.
                    Some(finished_ns) if gathering.waited_in_vain(read, now - looked_ns) => finished_ns.max(last_ns),
                    _ => now,
                };
                looked_ns = now;
                outcome.calls += 1;
                outcome.octets_total += read as u64;
                outcome.messages_total += 1;
                // Where octets decide, the time runs from the first read, so what that one brought took none of it.
                if window.contains(now) && !(by_octets && first) {
                    outcome.octets += read as u64;
                    outcome.messages += 1;
                }
                task.ledger.publish(outcome.octets_total, outcome.messages_total);
                gathering.handle_read(&socket, read, now);
                segments.handle_octets(&socket, outcome.octets_total);
                let drain_ns = if is_own { LONG_DRAIN_NS } else { DRAIN_NS };
                if now > window.end_ns.saturating_add(drain_ns) || leaving.is_over(&task.clock, true, now) {
                    break;
                }
            }
            Err(error) if is_passing(&error) => {
                let now = task.clock.now_ns();
                looked_ns = now;
                let is_silent = !is_own || now.saturating_sub(last_ns) > SILENCE_NS;
                let over = task.clock.receiving_so_far().is_some_and(|window| {
                    let drain_ns = if is_silent { DRAIN_NS } else { LONG_DRAIN_NS };
                    now > window.end_ns.saturating_add(drain_ns)
                });
                if over || leaving.is_over(&task.clock, false, now) {
                    break;
                }
            }
            Err(_) if task.clock.stopped() => break,
            // A reset after the measured part is how a sender leaves that would not wait; before it, it is a loss.
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {
                let now = task.clock.now_ns();
                if task.ends_by_reset() && outcome.octets_total > 0 {
                    last_ns = now;
                } else if task.clock.receiving_due_ns().is_none_or(|due| now < task.earliest_end_ns(due)) {
                    return Err(TrafficError::Reset(error));
                }
                break;
            }
            Err(error) => return Err(TrafficError::Moving { what: "receiving failed".to_owned(), error }),
        }
    }
    // The pause of a paced sender before that word is part of the time.
    if let Some(finished_ns) = task.clock.finished_ns().filter(|_| task.is_told_end()) {
        last_ns = last_ns.max(finished_ns);
    }
    if let Some(window) = task.clock.receiving_so_far() {
        // Where another connection tells the end, the time asked for is the longest that there may be.
        outcome.elapsed_ns = match is_read && task.is_told_end() {
            true => last_ns.min(window.end_ns).saturating_sub(window.start_ns),
            false => task.elapsed_ns(window, last_ns),
        };
        outcome.elapsed_ns += since.map_or(0, |since| task.clock.head_start_ns(window, since));
        outcome.tcp = tcp_summary(&socket, (last_ns.saturating_sub(window.start_ns)) as f64 / 1e9);
    }
    outcome.api = inward.api_use();
    outcome.thread = thread_use();
    outcome.socket_buffer = socket.recv_buffer_size().ok().map(|octets| octets as u64);
    if is_own && is_read {
        segments::close(&socket, &task.clock);
    }
    outcome.segments = segments.finish(&socket);
    if let (Some(tcp), Some(segments)) = (&mut outcome.tcp, &outcome.segments) {
        (tcp.segments_sent, tcp.segments_received) = (Some(segments.sent), Some(segments.received));
    }
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_that_its_timeout_ended_is_told_from_one_that_was_filled() {
        let plain = Gathering::new();
        assert!(!plain.waited_in_vain(1, 60_000_000), "nothing is gathered: what came, came then");
        let gathers = Gathering { low_water: 1 << 16, ..plain };
        assert!(gathers.waited_in_vain(100, 1_000_000), "the stream ended");
        assert!(gathers.waited_in_vain(1 << 17, 48_000_000), "a part was copied before it slept");
        assert!(!gathers.waited_in_vain(1 << 17, 30_000_000));
    }

    #[test]
    fn calls_grow_while_they_are_short() {
        let mut reach = Reach::new(8, false);
        for _ in 0..10 {
            reach.handle_sent(100_000);
        }
        assert_eq!((reach.messages, reach.largest), (8, 8), "10 Gbit/s and more");
        for _ in 0..10 {
            reach.handle_sent(8_000_000);
        }
        assert_eq!((reach.messages, reach.largest), (1, 8));
        reach.handle_sent(1_500_000);
        assert_eq!(reach.messages, 1, "neither long nor short");
        let mut asked = Reach::new(3, true);
        asked.handle_sent(8_000_000);
        asked.handle_sent(100_000);
        assert_eq!(asked.messages, 3);
    }
}
