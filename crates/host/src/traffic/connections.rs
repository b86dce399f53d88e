//! A TCP connection for each request and response: connect, ask, be answered, close.
//! Knows the far end from the flow's opening; it talks to no other address.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use linerate_trial::histogram::Histogram;
use linerate_trial::outcome::{FlowOutcome, Role};

use super::TrafficError;
use super::buffer::AlignedBuffer;
use super::requests::{count, finish};
use super::sockets::{connect_again, is_passing};
use super::task::{Task, wait_until};
use crate::sys::thread::thread_use;

/// How long the two ends of one transaction wait for each other.
const TRANSACTION_TIME: Duration = Duration::from_secs(5);
/// How long an accept may block before the thread looks whether it should end.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Makes one connection after the other until the time is over.
pub fn ask(task: Task) -> Result<FlowOutcome, TrafficError> {
    let mut outcome = task.blank(Role::Requester);
    let alignment = task.spec.alignment as usize;
    let request = AlignedBuffer::new(task.spec.request_size as usize, alignment);
    let mut response = AlignedBuffer::new(task.spec.response_size as usize, alignment);
    let octets = u64::from(task.spec.request_size) + u64::from(task.spec.response_size);
    if !task.clock.wait_for_start() {
        return Err(TrafficError::Stopped);
    }
    let window = task.clock.sending();
    let mut latency = Histogram::default();
    let mut now = task.clock.now_ns();
    let mut pacer = task.pacer(u64::from(task.spec.request_size), now);
    while now < window.end_ns && !task.clock.stopped() {
        if let Some(pacer) = &mut pacer {
            wait_until(&task.clock, pacer.next_departure_ns().min(window.end_ns));
            now = task.clock.now_ns();
            if now >= window.end_ns {
                break;
            }
            pacer.handle_now(now);
            pacer.handle_sent();
        }
        let began = now;
        transact(&task, request.as_slice(), response.as_mut_slice()).map_err(|error| {
            let what = match error.raw_os_error() {
                Some(libc::EADDRNOTAVAIL) => {
                    "no local port is free for another connection; give a rate, or widen \
                     net.ipv4.ip_local_port_range"
                }
                _ => "a transaction broke",
            };
            TrafficError::Moving { what: what.to_owned(), error }
        })?;
        now = task.clock.now_ns();
        outcome.calls += 5;
        outcome.messages_total += 1;
        outcome.octets_total += octets;
        if window.contains(began) && now < window.end_ns {
            latency.record(now - began);
            outcome.messages += 1;
            outcome.octets += octets;
        }
        task.ledger.publish(outcome.octets_total, outcome.messages_total);
    }
    outcome.elapsed_ns = task.elapsed_ns(window, now);
    outcome.latency = Some(latency);
    outcome.thread = thread_use();
    Ok(outcome)
}

fn transact(task: &Task, request: &[u8], response: &mut [u8]) -> std::io::Result<()> {
    let mut stream = connect_again(&task.spec, task.local, task.open.peer)?;
    stream.set_read_timeout(Some(TRANSACTION_TIME))?;
    stream.write_all(request)?;
    stream.read_exact(response)?;
    // The responder closes first, so that its machine and not this one keeps the port in TIME-WAIT (RFC 9293,
    // section 3.6): a requester would run out of ports.
    match stream.read(&mut [0; 1]) {
        Ok(0) => Ok(()),
        Ok(_) => Err(std::io::Error::new(ErrorKind::InvalidData, "the response was longer than agreed")),
        Err(error) => Err(error),
    }
}

/// Answers one connection after the other until the requester closes the one that opened the flow.
pub fn answer(task: Task) -> Result<FlowOutcome, TrafficError> {
    let mut outcome = task.blank(Role::Responder);
    let Some(listener) = &task.open.listener else {
        return Err(TrafficError::System(ErrorKind::NotConnected.into()));
    };
    listener.set_read_timeout(Some(LOOK_AGAIN)).map_err(TrafficError::System)?;
    let opening: TcpStream = task.open.socket.try_clone().map_err(TrafficError::System)?.into();
    opening.set_nonblocking(true).map_err(TrafficError::System)?;
    let alignment = task.spec.alignment as usize;
    let mut request = AlignedBuffer::new(task.spec.request_size as usize, alignment);
    let response = AlignedBuffer::new(task.spec.response_size as usize, alignment);
    let mut last_ns = 0;
    while !task.clock.stopped() {
        let (socket, peer) = match listener.accept() {
            Ok(accepted) => accepted,
            Err(error) if is_passing(&error) => {
                if matches!(opening.peek(&mut [0; 1]), Ok(0)) {
                    break;
                }
                continue;
            }
            Err(error) => return Err(TrafficError::Moving { what: "accepting connections failed".to_owned(), error }),
        };
        // Others may knock while the port is open; they get nothing.
        if peer.as_socket().is_none_or(|peer| peer.ip() != task.open.peer.ip()) {
            continue;
        }
        let mut stream: TcpStream = socket.into();
        let _ = stream.set_read_timeout(Some(TRANSACTION_TIME));
        let _ = stream.set_nodelay(task.spec.nodelay());
        match stream.read(request.as_mut_slice()) {
            // A connection without a request is how another tool's requester says that it was the last.
            Ok(0) if task.framing.is_bare() => break,
            Ok(read) if stream.read_exact(&mut request.as_mut_slice()[read..]).is_ok() => {}
            _ => continue,
        }
        if stream.write_all(response.as_slice()).is_err() {
            continue;
        }
        drop(stream);
        last_ns = task.clock.now_ns();
        count(&task, &mut outcome, last_ns);
    }
    finish(&task, &mut outcome, last_ns);
    Ok(outcome)
}
