//! A UDP stream: numbered datagrams one way, at an even pace or as fast as they go.
//! Knows one socket; which datagrams are lost is for [`linerate_trial::arrivals`] to say.

use std::io::ErrorKind;
use std::time::Duration;

use linerate_trial::arrivals::Tracker;
use linerate_trial::departures::Departures;
use linerate_trial::outcome::{FlowOutcome, Role};
use linerate_trial::spec::Extent;
use linerate_wire::{HANDSHAKE_LEN, Handshake, HandshakeKind, Probe};
use socket2::Socket;

use super::TrafficError;
use super::buffer;
use super::sockets::{self, is_passing};
use super::task::{Task, wait_until};
use crate::sys::datagrams::DatagramBatch;
use crate::sys::poll::wait_readable;
use crate::sys::socket_state::socket_drops;
use crate::sys::thread::thread_use;

/// Datagrams in one system call, where nothing else bounds them.
const BATCH: usize = 32;
/// Memory of a batch: enough to make the system call cheap, little enough to stay in a small processor's cache.
const BATCH_OCTETS: usize = 256 << 10;
/// How long a receive may block before the thread looks whether it should end.
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// How often the end mark is sent until it is heard.
const END_PERIOD_NS: u64 = 5_000_000;
/// How long the sender tries to make its end heard: a queue of some seconds may stand before it.
const END_PATIENCE_NS: u64 = 4_000_000_000;
/// How long the receiver waits for late datagrams after the end mark, since the last arrival.
const LATE_NS: u64 = 50_000_000;

/// Sends until the time is over, or the octets are sent.
pub fn send(task: Task) -> Result<FlowOutcome, TrafficError> {
    let mut outcome = task.blank(Role::Sender);
    let socket = &task.open.socket;
    let size = task.spec.message_octets() as usize;
    let limit = match task.spec.extent {
        Extent::Octets(octets) => octets.div_ceil(size as u64),
        Extent::Time(_) => u64::MAX,
    };
    // Under a limited load only a burst leaves in one call, so that the pace on the wire is the pacer's.
    let batch_len = BATCH.min(BATCH_OCTETS / size).max(1);
    let batch_len =
        if task.spec.rate.gap_ns(1).is_some() { batch_len.min(task.spec.burst as usize) } else { batch_len };
    let mut batch = DatagramBatch::new(batch_len, size, task.spec.alignment as usize);
    for index in 0..batch_len {
        buffer::fill(batch.datagram_mut(index));
    }
    wait_for_start(&task, socket)?;
    socket.set_write_timeout(Some(LOOK_AGAIN)).map_err(TrafficError::System)?;
    let window = task.clock.sending();
    let mut now = task.clock.now_ns();
    let mut pacer = task.pacer(size as u64, now);
    let mut sequence = 0;
    let mut departures = Departures::default();
    while sequence < limit && !task.clock.stopped() {
        if let Some(pacer) = &pacer {
            let departure = pacer.next_departure_ns();
            wait_until(&task.clock, departure.min(window.end_ns));
        }
        now = task.clock.now_ns();
        if now >= window.end_ns {
            break;
        }
        let measured = window.contains(now);
        let count = (batch_len as u64).min(limit - sequence) as usize;
        for index in 0..count {
            let probe = Probe { sequence: sequence + index as u64, measured, sent_at_ns: now };
            let _ = probe.emit(batch.datagram_mut(index));
        }
        outcome.calls += 1;
        let taken = match batch.send(socket, count) {
            Ok(sent) => sent as u64,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => continue,
            Err(error) if is_refused_once(&error) => {
                // The number is used up: the receiver will miss it, and this counter says why.
                outcome.send_errors += 1;
                if error.kind() != ErrorKind::ConnectionRefused {
                    std::thread::sleep(Duration::from_millis(1));
                }
                1
            }
            Err(error) => {
                let what = match error.raw_os_error() {
                    Some(libc::EMSGSIZE) => {
                        format!("datagrams of {size} octets cannot leave here; choose a smaller message_size")
                    }
                    _ => "sending datagrams failed".to_owned(),
                };
                return Err(TrafficError::Moving { what, error });
            }
        };
        sequence += taken;
        outcome.messages_total = sequence;
        outcome.octets_total = sequence * size as u64;
        if measured {
            departures.handle_sent(now, taken);
            outcome.messages += taken;
            outcome.octets += taken * size as u64;
        }
        task.ledger.publish(outcome.octets_total, outcome.messages_total);
        if let Some(pacer) = &mut pacer {
            pacer.handle_now(now);
            (0..taken).for_each(|_| pacer.handle_sent());
        }
    }
    outcome.elapsed_ns = task.elapsed_ns(window, now);
    outcome.departure_gaps = departures.finish();
    outcome.thread = thread_use();
    outcome.socket_buffer = socket.send_buffer_size().ok().map(|octets| octets as u64);
    outcome.end_marks = say_end(&task, socket, sequence)?;
    Ok(outcome)
}

/// Receives until the sender's end mark, and a little longer for what is late.
pub fn receive(task: Task) -> Result<FlowOutcome, TrafficError> {
    let mut outcome = task.blank(Role::Receiver);
    let socket = &task.open.socket;
    socket.set_read_timeout(Some(LOOK_AGAIN)).map_err(TrafficError::System)?;
    let size = task.spec.message_octets() as usize;
    let room = size.max(HANDSHAKE_LEN);
    let mut batch = DatagramBatch::new(BATCH.min(BATCH_OCTETS / room).max(1), room, task.spec.alignment as usize);
    let mut tracker = Tracker::new();
    let by_octets = task.spec.expected_time().is_none();
    let mut last_ns = 0;
    let mut end_heard = false;
    while !task.clock.stopped() {
        let count = match batch.receive(socket) {
            Ok(count) => count,
            Err(error) if is_passing(&error) || error.kind() == ErrorKind::ConnectionRefused => 0,
            Err(error) => return Err(TrafficError::Moving { what: "receiving datagrams failed".to_owned(), error }),
        };
        let now = task.clock.now_ns();
        outcome.calls += u64::from(count > 0);
        for index in 0..count {
            let (octets, len) = batch.received(index);
            if len == HANDSHAKE_LEN
                && let Some(handshake) = handle_handshake(&task, socket, octets)
            {
                if handshake.kind == HandshakeKind::End {
                    tracker.handle_end(handshake.value);
                    outcome.end_marks += 1;
                    end_heard = true;
                    // Not an arrival of data, yet the link is alive: late ones may follow.
                    last_ns = last_ns.max(1);
                }
                continue;
            }
            // A connected socket hears one peer only; what is of another length or no probe is counted by nobody.
            let Some(probe) = Probe::parse(octets).filter(|_| len == size) else { continue };
            // Where octets decide, the time runs from the first arrivals, so what came with them took none of it.
            let first = task.clock.receiving_so_far().is_none_or(|window| window.start_ns == now);
            let window = task.clock.receiving(now);
            let new = tracker.handle_datagram(&probe, now);
            last_ns = now;
            outcome.messages_total += 1;
            if new && window.contains(now) && !end_heard && !(by_octets && first) {
                outcome.octets += size as u64;
                outcome.messages += 1;
            }
        }
        if count > 0 {
            outcome.octets_total = outcome.messages_total * size as u64;
            task.ledger.publish(outcome.octets_total, outcome.messages_total);
            task.ledger.publish_missing(tracker.missing());
        }
        if end_heard && now.saturating_sub(last_ns) > LATE_NS {
            break;
        }
        let overdue = |window: super::clock::Window| now > window.end_ns.saturating_add(END_PATIENCE_NS);
        if task.clock.receiving_so_far().is_some_and(overdue) {
            break;
        }
    }
    if let Some(window) = task.clock.receiving_so_far() {
        outcome.elapsed_ns = task.elapsed_ns(window, last_ns);
    }
    outcome.thread = thread_use();
    outcome.socket_drops = socket_drops(socket);
    outcome.socket_buffer = socket.recv_buffer_size().ok().map(|octets| octets as u64);
    outcome.arrivals = Some(tracker.finish());
    Ok(outcome)
}

/// Waits for the start while answering hellos that the other end repeats because an answer was lost.
pub fn wait_for_start(task: &Task, socket: &Socket) -> Result<(), TrafficError> {
    if task.open.flow.listener() != task.end {
        return if task.clock.wait_for_start() { Ok(()) } else { Err(TrafficError::Stopped) };
    }
    let mut batch = DatagramBatch::new(1, HANDSHAKE_LEN, 1);
    while !task.clock.started() {
        if task.clock.stopped() {
            return Err(TrafficError::Stopped);
        }
        // Not SO_RCVTIMEO: it counts in ticks, and a tick of 10 ms would be missing at the start of the trial.
        let readable = wait_readable(socket, Duration::from_millis(1)).map_err(TrafficError::System)?;
        if readable && batch.receive(socket).is_ok() {
            let _ = handle_handshake(task, socket, batch.received(0).0);
        }
    }
    Ok(())
}

/// Answers a repeated hello, and an end mark. Returns the message if it belongs to this flow.
pub fn handle_handshake(task: &Task, socket: &Socket, octets: &[u8]) -> Option<Handshake> {
    let flow = task.open.flow;
    let tokens = &task.tokens;
    if let Some(hello) = sockets::expect(octets, HandshakeKind::Hello, flow, &tokens.hello) {
        let _ = socket.send(&sockets::message(HandshakeKind::Answer, flow, &tokens.answer));
        return Some(hello);
    }
    if let Some(answer) = sockets::expect(octets, HandshakeKind::Answer, flow, &tokens.answer) {
        return Some(answer);
    }
    let end = sockets::expect(octets, HandshakeKind::End, flow, &tokens.hello)?;
    let _ = socket.send(&sockets::message(HandshakeKind::EndHeard, flow, &tokens.answer));
    Some(end)
}

/// Sends the end mark until the other end has heard it; gives up in silence, for the receiver will say so. Returns how
/// many it took.
pub fn say_end(task: &Task, socket: &Socket, sent: u64) -> Result<u64, TrafficError> {
    let flow = task.open.flow;
    let end = Handshake { kind: HandshakeKind::End, flow: flow.id, token: task.tokens.hello, value: sent };
    socket.set_read_timeout(Some(Duration::from_nanos(END_PERIOD_NS))).map_err(TrafficError::System)?;
    let mut batch = DatagramBatch::new(1, HANDSHAKE_LEN, 1);
    let deadline = task.clock.now_ns() + END_PATIENCE_NS;
    let mut marks = 0;
    while !task.clock.stopped() && task.clock.now_ns() < deadline {
        marks += u64::from(socket.send(&end.emit()).is_ok());
        let again = task.clock.now_ns() + END_PERIOD_NS;
        while task.clock.now_ns() < again {
            match batch.receive(socket) {
                Ok(1)
                    if sockets::expect(batch.received(0).0, HandshakeKind::EndHeard, flow, &task.tokens.answer)
                        .is_some() =>
                {
                    return Ok(marks);
                }
                Ok(_) => {}
                Err(_) => break,
            }
        }
    }
    Ok(marks)
}

/// Errors that cost one datagram and may pass: no memory, no route or carrier for a moment, or a port that a
/// receiver closed.
fn is_refused_once(error: &std::io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(
            libc::ENOBUFS
                | libc::ENOMEM
                | libc::ENETUNREACH
                | libc::EHOSTUNREACH
                | libc::ENETDOWN
                | libc::ECONNREFUSED
                | libc::EPERM
        )
    )
}
