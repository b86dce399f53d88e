//! A TCP connection for each request and response: connect, ask, be answered, close.
//! Knows the far end from the flow's opening; it talks to no other address.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use linerate_trial::histogram::Histogram;
use linerate_trial::outcome::{FlowOutcome, Role};

use super::TrafficError;
use super::buffer::AlignedBuffer;
use super::clock::TrialClock;
use super::requests::{count, finish};
use super::sockets::{connect_again, is_filtered, is_passing};
use super::task::Task;
use super::wait::wait_until;
use crate::sys::thread::thread_use;

/// How long a transaction takes at most once it is connected, however little of it comes at a time.
const TRANSACTION_TIME_NS: u64 = 5_000_000_000;
/// How long an accept, a read or a write may block before the thread looks whether it should end.
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
            let is_due = wait_until(&task.clock, pacer.next_departure_ns().min(window.end_ns));
            now = task.clock.now_ns();
            if !is_due || now >= window.end_ns {
                break;
            }
            pacer.handle_now(now);
            pacer.handle_sent();
        }
        let began = now;
        let done = transact(&task, request.as_slice(), response.as_mut_slice());
        if done.is_err() && task.clock.stopped() {
            break;
        }
        done.map_err(|error| broken(error, task.open.peer, outcome.messages_total))?;
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

/// Why a transaction came to nothing, `before` which so many were answered.
fn broken(error: io::Error, peer: SocketAddr, before: u64) -> TrafficError {
    let what = match error.raw_os_error() {
        _ if error.kind() == ErrorKind::ConnectionRefused => return TrafficError::Rejected { peer, before },
        _ if is_filtered(&error) => return TrafficError::Filtered { peer },
        Some(libc::EADDRNOTAVAIL) => {
            "no local port is free for another connection; give a rate, or widen \
             net.ipv4.ip_local_port_range"
        }
        _ if error.kind() == ErrorKind::TimedOut => {
            "a transaction took too long; see what answers there, or choose a smaller response_size"
        }
        _ => "a transaction broke",
    };
    TrafficError::Moving { what: what.to_owned(), error }
}

fn transact(task: &Task, request: &[u8], response: &mut [u8]) -> io::Result<()> {
    let stream = connect_again(&task.spec, task.local, task.open.peer)?;
    let mut stream = Transaction::begin(stream, &task.clock)?;
    stream.write_all(request)?;
    stream.read_exact(response)?;
    // The responder closes first, so that its machine and not this one keeps the port in TIME-WAIT (RFC 9293,
    // section 3.6): a requester would run out of ports.
    match stream.read(&mut [0; 1]) {
        Ok(0) => Ok(()),
        Ok(_) => Err(io::Error::new(ErrorKind::InvalidData, "the response was longer than agreed")),
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
        let stream: TcpStream = socket.into();
        let _ = stream.set_nodelay(task.spec.nodelay());
        let Ok(mut stream) = Transaction::begin(stream, &task.clock) else { continue };
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

/// The connection of one transaction. A far end that takes or gives an octet at a time is as late as one that is silent,
/// and neither keeps this thread once the trial is stopped.
struct Transaction<'a> {
    stream: TcpStream,
    clock: &'a TrialClock,
    until_ns: u64,
}

impl<'a> Transaction<'a> {
    fn begin(stream: TcpStream, clock: &'a TrialClock) -> io::Result<Transaction<'a>> {
        stream.set_read_timeout(Some(LOOK_AGAIN))?;
        stream.set_write_timeout(Some(LOOK_AGAIN))?;
        Ok(Transaction { stream, clock, until_ns: clock.now_ns() + TRANSACTION_TIME_NS })
    }

    /// What a call brings, unless it is too late for it.
    fn wait(&self, mut call: impl FnMut(&TcpStream) -> io::Result<usize>) -> io::Result<usize> {
        loop {
            if self.clock.stopped() {
                return Err(ErrorKind::ConnectionAborted.into());
            }
            if self.clock.now_ns() > self.until_ns {
                return Err(ErrorKind::TimedOut.into());
            }
            match call(&self.stream) {
                Err(error) if is_passing(&error) => {}
                done => return done,
            }
        }
    }
}

impl Read for Transaction<'_> {
    fn read(&mut self, octets: &mut [u8]) -> io::Result<usize> {
        self.wait(|mut stream| stream.read(octets))
    }
}

impl Write for Transaction<'_> {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        self.wait(|mut stream| stream.write(octets))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use linerate_trial::spec::{Spec, Workload};

    use super::*;

    #[test]
    fn a_connection_that_is_refused_is_no_matter_of_the_cable() {
        let peer: SocketAddr = "10.0.0.2:5000".parse().unwrap();
        let said = broken(io::Error::from_raw_os_error(libc::ECONNREFUSED), peer, 49).to_string();
        assert!(
            said.starts_with("10.0.0.2:5000 refused a connection (49 before it were answered): a filter"),
            "{said}"
        );
        assert!(!said.contains("cable"), "{said}");
        assert!(broken(ErrorKind::ConnectionReset.into(), peer, 49).to_string().contains("a transaction broke"));
    }

    #[test]
    fn a_far_end_that_trickles_or_reads_nothing_is_late() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (near, _) = listener.accept().unwrap();
        let clock = TrialClock::new(&Spec::new(Workload::TcpCrr));
        let mut late = Transaction::begin(near, &clock).unwrap();
        let trickle = std::thread::spawn(move || {
            while (&far).write_all(b"x").is_ok() {
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        late.until_ns = clock.now_ns() + 100_000_000;
        assert_eq!(late.read_exact(&mut [0; 1000]).unwrap_err().kind(), ErrorKind::TimedOut);
        late.until_ns = clock.now_ns() + 100_000_000;
        // More than any buffer holds.
        assert_eq!(late.write_all(&vec![0; 64 << 20]).unwrap_err().kind(), ErrorKind::TimedOut);
        late.until_ns = u64::MAX;
        clock.stop();
        assert_eq!(late.write_all(&vec![0; 64 << 20]).unwrap_err().kind(), ErrorKind::ConnectionAborted);
        drop(late);
        trickle.join().unwrap();
    }
}
