//! A TCP stream: octets one way, as fast as asked.
//! Knows one connection; parallel streams are several of these.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use linerate_trial::outcome::{FlowOutcome, Role};
use linerate_trial::spec::Extent;

use super::TrafficError;
use super::buffer::AlignedBuffer;
use super::sockets::is_passing;
use super::task::{Task, tcp_summary, wait_until};
use crate::sys::thread::thread_use;

/// How long a write or read may block before the thread looks whether it should end.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// How long the sender waits for the receiver to have read everything, and how long the receiver reads on after
/// its time is over. What is still in flight then is no part of any figure.
const DRAIN_NS: u64 = 100_000_000;
/// The receiver's reads are at least this large, whatever the message size: TCP keeps no message bounds.
const MIN_READ: usize = 128 << 10;

/// Sends until the time is over, or the octets are sent.
pub fn send(task: Task) -> Result<FlowOutcome, TrafficError> {
    let moving = |what: &str| {
        let what = what.to_owned();
        move |error| TrafficError::Moving { what, error }
    };
    let mut outcome = task.blank(Role::Sender);
    let socket = task.open.socket.try_clone().map_err(TrafficError::System)?;
    let mut stream: TcpStream = task.open.socket.try_clone().map_err(TrafficError::System)?.into();
    stream.set_write_timeout(Some(LOOK_AGAIN)).map_err(TrafficError::System)?;
    let size = task.spec.message_octets() as usize;
    let buffer = AlignedBuffer::new(size, task.spec.alignment as usize);
    let mut left = match task.spec.extent {
        Extent::Octets(octets) => octets,
        Extent::Time(_) => u64::MAX,
    };
    if !task.clock.wait_for_start() {
        return Err(TrafficError::Stopped);
    }
    let window = task.clock.sending();
    let started_ns = task.clock.now_ns();
    let mut pacer = task.pacer(size as u64, started_ns);
    let mut now = started_ns;
    // Where in the message the next write starts: a write may take a part of it.
    let mut at = 0;
    while left > 0 && now < window.end_ns && !task.clock.stopped() {
        if at == 0
            && let Some(pacer) = &mut pacer
        {
            let departure = pacer.next_departure_ns();
            if departure >= window.end_ns {
                wait_until(&task.clock, window.end_ns);
                break;
            }
            wait_until(&task.clock, departure);
            pacer.handle_now(task.clock.now_ns());
            pacer.handle_sent();
        }
        let want = (size - at).min(usize::try_from(left).unwrap_or(usize::MAX));
        match stream.write(&buffer.as_slice()[at..at + want]) {
            Ok(written) => {
                now = task.clock.now_ns();
                at = (at + written) % size;
                left -= written as u64;
                outcome.calls += 1;
                outcome.octets_total += written as u64;
                if at == 0 || left == 0 {
                    outcome.messages_total += 1;
                }
                if window.contains(now) {
                    outcome.octets += written as u64;
                    outcome.messages += u64::from(at == 0 || left == 0);
                }
                task.ledger.publish(outcome.octets_total, outcome.messages_total);
            }
            Err(error) if is_passing(&error) => now = task.clock.now_ns(),
            Err(error) => return Err(moving("the connection broke while sending")(error)),
        }
    }
    outcome.elapsed_ns = task.elapsed_ns(window, now);
    outcome.thread = thread_use();
    outcome.socket_buffer = socket.send_buffer_size().ok().map(|octets| octets as u64);
    // The kernel's times run from the start, warm-up included.
    let open_s = now.saturating_sub(started_ns) as f64 / 1e9;
    outcome.tcp = tcp_summary(&socket, open_s);
    // The receiver closes when it has read the last octet, so that the end of this is the end of the flow.
    let _ = stream.shutdown(Shutdown::Write);
    let _ = stream.set_read_timeout(Some(LOOK_AGAIN));
    let patience = if task.spec.expected_time().is_some() { 2 * DRAIN_NS } else { u64::MAX };
    while !task.clock.stopped() && task.clock.now_ns() - now < patience {
        match stream.read(&mut [0; 64]) {
            Ok(_) => break,
            Err(error) if is_passing(&error) => {}
            Err(_) => break,
        }
    }
    if task.spec.expected_time().is_none() {
        // Octets decided: what was sent again after the last write belongs to the flow too.
        outcome.tcp = tcp_summary(&socket, open_s);
    }
    Ok(outcome)
}

/// Receives until the sender closes.
pub fn receive(task: Task) -> Result<FlowOutcome, TrafficError> {
    let mut outcome = task.blank(Role::Receiver);
    let socket = task.open.socket.try_clone().map_err(TrafficError::System)?;
    let mut stream: TcpStream = task.open.socket.try_clone().map_err(TrafficError::System)?.into();
    stream.set_read_timeout(Some(LOOK_AGAIN)).map_err(TrafficError::System)?;
    let size = (task.spec.message_octets() as usize).max(MIN_READ);
    let mut buffer = AlignedBuffer::new(size, task.spec.alignment as usize);
    let by_octets = task.spec.expected_time().is_none();
    let mut last_ns = 0;
    while !task.clock.stopped() {
        match stream.read(buffer.as_mut_slice()) {
            Ok(0) => break,
            Ok(read) => {
                let now = task.clock.now_ns();
                let first = outcome.octets_total == 0;
                let window = task.clock.receiving(now);
                last_ns = now;
                outcome.calls += 1;
                outcome.octets_total += read as u64;
                outcome.messages_total += 1;
                // Where octets decide, the time runs from the first read, so what that one brought took none of it.
                if window.contains(now) && !(by_octets && first) {
                    outcome.octets += read as u64;
                    outcome.messages += 1;
                }
                task.ledger.publish(outcome.octets_total, outcome.messages_total);
                if now > window.end_ns.saturating_add(DRAIN_NS) {
                    break;
                }
            }
            Err(error) if is_passing(&error) => {
                let now = task.clock.now_ns();
                let over =
                    task.clock.receiving_so_far().is_some_and(|window| now > window.end_ns.saturating_add(DRAIN_NS));
                if over {
                    break;
                }
            }
            // A reset after the measured part is how a sender leaves that would not wait; before it, it is a loss.
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {
                let now = task.clock.now_ns();
                if task.clock.receiving_so_far().is_none_or(|window| now < window.end_ns) {
                    return Err(TrafficError::Moving { what: "the sender broke the connection".to_owned(), error });
                }
                break;
            }
            Err(error) => return Err(TrafficError::Moving { what: "receiving failed".to_owned(), error }),
        }
    }
    if let Some(window) = task.clock.receiving_so_far() {
        outcome.elapsed_ns = task.elapsed_ns(window, last_ns);
        outcome.tcp = tcp_summary(&socket, (last_ns.saturating_sub(window.start_ns)) as f64 / 1e9);
    }
    outcome.thread = thread_use();
    outcome.socket_buffer = socket.recv_buffer_size().ok().map(|octets| octets as u64);
    Ok(outcome)
}
