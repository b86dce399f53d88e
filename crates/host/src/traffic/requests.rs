//! Requests and responses over one TCP connection, or over UDP.
//! Knows no connection per transaction; [`super::connections`] does that.
//!
//! Over TCP the responses come in the order of the requests. Over UDP the first octets of a request, as many as
//! it and its response have and eight at most, carry its number, and the response returns them.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream, UdpSocket};
use std::time::Duration;

use linerate_trial::histogram::Histogram;
use linerate_trial::outcome::{FlowOutcome, Role};
use linerate_trial::spec::{Spec, Workload};
use linerate_wire::{HANDSHAKE_LEN, HandshakeKind};

use super::buffer::AlignedBuffer;
use super::framing::Exchange;
use super::segments::{self, SegmentCounts};
use super::sockets::is_passing;
use super::task::Task;
use super::tcp_info::tcp_summary;
use super::wait::wait_until;
use super::{TrafficError, udp_stream};
use crate::sys::poll::wait_readable;
use crate::sys::thread::thread_use;

/// How long a request over UDP waits for its response before it counts as lost.
const RESPONSE_TIME_NS: u64 = 1_000_000_000;
/// How long is waited, at the end, for responses that are under way: at least so long, and so many times the longest round
/// trip. What is not answered then is lost as well: of a short trial, half of what is lost would be under way otherwise.
const LINGER_NS: u64 = 200_000_000;
const LINGER_TRIPS: u64 = 3;
/// How long a read may block before the thread looks whether it should end.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// How requests leave and responses come in.
trait Carrier {
    /// Sends the request of this number.
    fn send(&mut self, number: u64) -> io::Result<()>;
    /// Waits for a response for at most `timeout`; its number where the carrier tells, `None` after the time.
    fn receive(&mut self, timeout: Duration) -> io::Result<Option<Response>>;
}

/// A response that came.
enum Response {
    /// To the oldest request under way.
    Next,
    /// To the request whose number has these low bits.
    To { low: u64, mask: u64 },
}

/// Asks until the time is over.
pub fn ask(task: Task) -> Result<FlowOutcome, TrafficError> {
    let socket = task.open.socket.try_clone().map_err(TrafficError::System)?;
    if task.open.flow.workload == Workload::UdpRr && task.framing.is_bare() {
        if !task.clock.wait_for_start() {
            return Err(TrafficError::Stopped);
        }
        let (mut outcome, _) = match task.framing.exchange() {
            Some(how) => {
                exchange(&task, &mut NumberedCarrier { bare: UdpCarrier::new(socket.into(), &task.spec), how })?
            }
            None => exchange(&task, &mut BareCarrier::new(socket.into(), &task.spec))?,
        };
        outcome.thread = thread_use();
        return Ok(outcome);
    }
    if task.open.flow.workload == Workload::UdpRr {
        udp_stream::wait_for_start(&task, &socket)?;
        let mut carrier = UdpCarrier::new(socket.try_clone().map_err(TrafficError::System)?.into(), &task.spec);
        let (mut outcome, asked) = exchange(&task, &mut carrier)?;
        outcome.thread = thread_use();
        udp_stream::say_end(&task, &socket, asked, &mut outcome)?;
        return Ok(outcome);
    }
    if !task.clock.wait_for_start() {
        return Err(TrafficError::Stopped);
    }
    let mut carrier = TcpCarrier::new(socket.try_clone().map_err(TrafficError::System)?.into(), &task);
    let (mut outcome, _) = exchange(&task, &mut carrier)?;
    outcome.thread = thread_use();
    outcome.tcp = tcp_summary(&socket, outcome.elapsed_ns as f64 / 1e9);
    match task.framing.is_own() {
        true => segments::leave(&carrier.stream, &task.clock),
        false => drop(socket.shutdown(Shutdown::Write)),
    }
    outcome.segments = carrier.segments.finish(&socket);
    Ok(outcome)
}

/// The requester's loop. Returns its account, and how many requests it sent.
fn exchange(task: &Task, carrier: &mut impl Carrier) -> Result<(FlowOutcome, u64), TrafficError> {
    let mut outcome = task.blank(Role::Requester);
    let mut latency = Histogram::default();
    let mut timeouts = 0;
    let window = task.clock.sending();
    let mut now = task.clock.now_ns();
    let mut pacer = task.pacer(u64::from(task.spec.request_size), now);
    let mut under_way: VecDeque<(u64, u64)> = VecDeque::new();
    let mut asked = 0;
    let octets = u64::from(task.spec.request_size) + u64::from(task.spec.response_size);
    let may_be_lost = task.open.flow.workload == Workload::UdpRr;
    let fail = |error| TrafficError::Moving { what: "the exchange of requests and responses broke".to_owned(), error };
    while now < window.end_ns && !task.clock.stopped() && !task.clock.is_curtailed() {
        while may_be_lost
            && let Some(&(_, sent_ns)) = under_way.front()
            && now - sent_ns >= RESPONSE_TIME_NS
        {
            under_way.pop_front();
            timeouts += u64::from(window.contains(sent_ns));
        }
        let room = under_way.len() < task.spec.outstanding as usize;
        let departure = pacer.as_ref().map_or(now, |pacer| pacer.next_departure_ns());
        if room && departure <= now {
            // The time stands before the call: what the call takes is part of the delay that an application sees.
            under_way.push_back((asked, now));
            asked += 1;
            outcome.calls += 1;
            match carrier.send(under_way[under_way.len() - 1].0) {
                Ok(()) => {}
                Err(error) if may_be_lost && is_lost(&error) => outcome.send_errors += 1,
                Err(error) => return Err(fail(error)),
            }
            if let Some(pacer) = &mut pacer {
                pacer.handle_now(now);
                pacer.handle_sent();
            }
            if under_way.len() < task.spec.outstanding as usize && pacer.is_none() {
                now = task.clock.now_ns();
                continue;
            }
        } else if under_way.is_empty() {
            let _ = wait_until(&task.clock, departure.min(window.end_ns));
            now = task.clock.now_ns();
            continue;
        }
        let until = if pacer.is_some() && room { departure.min(window.end_ns) } else { window.end_ns };
        let timeout = Duration::from_nanos(until.saturating_sub(now)).min(LOOK_AGAIN);
        let response = match carrier.receive(timeout) {
            Ok(response) => response,
            Err(error) if may_be_lost && is_lost(&error) => None,
            Err(error) => return Err(fail(error)),
        };
        now = task.clock.now_ns();
        let Some(response) = response else { continue };
        outcome.calls += 1;
        // No match: its request was given up before, and counted as timed out.
        let Some((_, sent_ns)) = take_answered(&mut under_way, &response) else { continue };
        outcome.messages_total += 1;
        outcome.octets_total += octets;
        if window.contains(sent_ns) && now < window.end_ns {
            latency.record(now - sent_ns);
            outcome.messages += 1;
            outcome.octets += octets;
        }
        task.ledger.publish(outcome.octets_total, outcome.messages_total);
    }
    outcome.elapsed_ns = task.elapsed_ns(window, now);
    if may_be_lost {
        let longest = latency.max_ns().unwrap_or(0).saturating_mul(LINGER_TRIPS);
        let until = now.saturating_add(longest.clamp(LINGER_NS, RESPONSE_TIME_NS));
        while !under_way.is_empty() && now < until && !task.clock.stopped() {
            let timeout = Duration::from_nanos(until - now).min(LOOK_AGAIN);
            let response = match carrier.receive(timeout) {
                Ok(response) => response,
                Err(error) if is_lost(&error) => None,
                Err(error) => return Err(fail(error)),
            };
            now = task.clock.now_ns();
            // Received, and too late for the figures.
            if response.and_then(|response| take_answered(&mut under_way, &response)).is_some() {
                outcome.messages_total += 1;
                outcome.octets_total += octets;
            }
        }
        timeouts += under_way.iter().filter(|(_, sent_ns)| window.contains(*sent_ns)).count() as u64;
    }
    outcome.requests = Some(asked);
    outcome.latency = Some(latency);
    outcome.timeouts = may_be_lost.then_some(timeouts);
    Ok((outcome, asked))
}

/// The request that a response answers, which is under way no more.
fn take_answered(under_way: &mut VecDeque<(u64, u64)>, response: &Response) -> Option<(u64, u64)> {
    match *response {
        Response::Next => under_way.pop_front(),
        Response::To { low, mask } => {
            let at = under_way.iter().position(|(number, _)| number & mask == low);
            at.and_then(|at| under_way.remove(at))
        }
    }
}

struct TcpCarrier {
    stream: TcpStream,
    request: AlignedBuffer,
    response: AlignedBuffer,
    at: usize,
    timeout: Option<Duration>,
    exchange: Option<Exchange>,
    segments: SegmentCounts,
    /// Octets that went either way.
    octets: u64,
}

impl TcpCarrier {
    fn new(stream: TcpStream, task: &Task) -> TcpCarrier {
        let spec = &task.spec;
        let alignment = spec.alignment as usize;
        let mut request = AlignedBuffer::new(spec.request_size as usize, alignment);
        let response = AlignedBuffer::new(spec.response_size as usize, alignment);
        let head = task.framing.head();
        let len = head.len().min(request.as_slice().len());
        request.as_mut_slice()[..len].copy_from_slice(&head[..len]);
        let (exchange, segments) = (task.framing.exchange(), SegmentCounts::default());
        TcpCarrier { stream, request, response, at: 0, timeout: None, exchange, segments, octets: 0 }
    }
}

impl Carrier for TcpCarrier {
    fn send(&mut self, number: u64) -> io::Result<()> {
        if let Some(exchange) = self.exchange {
            (exchange.ask)(number, self.request.as_mut_slice());
        }
        if self.timeout.is_none() {
            self.stream.set_write_timeout(Some(Duration::from_secs(5)))?;
        }
        self.octets += self.request.as_slice().len() as u64;
        self.segments.handle_octets(&self.stream, self.octets);
        self.stream.write_all(self.request.as_slice())
    }

    fn receive(&mut self, timeout: Duration) -> io::Result<Option<Response>> {
        // Most reads wait the same long time; only those before a departure need the finer clock of ppoll.
        if timeout < LOOK_AGAIN {
            if !wait_readable(&self.stream, timeout)? {
                return Ok(None);
            }
        } else if self.timeout != Some(timeout) {
            self.stream.set_read_timeout(Some(timeout))?;
            self.timeout = Some(timeout);
        }
        match self.stream.read(&mut self.response.as_mut_slice()[self.at..]) {
            Ok(0) => Err(ErrorKind::ConnectionReset.into()),
            Ok(read) => {
                self.at += read;
                self.octets += read as u64;
                if self.at < self.response.as_slice().len() {
                    return Ok(None);
                }
                self.at = 0;
                Ok(Some(Response::Next))
            }
            Err(error) if is_passing(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

struct UdpCarrier {
    socket: UdpSocket,
    request: AlignedBuffer,
    response: AlignedBuffer,
    response_len: usize,
    number_len: usize,
    timeout: Option<Duration>,
}

impl UdpCarrier {
    fn new(socket: UdpSocket, spec: &Spec) -> UdpCarrier {
        let alignment = spec.alignment as usize;
        UdpCarrier {
            socket,
            request: AlignedBuffer::new(spec.request_size as usize, alignment),
            response: AlignedBuffer::new((spec.response_size as usize).max(HANDSHAKE_LEN), alignment),
            response_len: spec.response_size as usize,
            number_len: number_len(spec),
            timeout: None,
        }
    }
}

/// Octets of a request's number.
fn number_len(spec: &Spec) -> usize {
    (spec.request_size.min(spec.response_size) as usize).min(8)
}

impl UdpCarrier {
    /// The octets of a datagram that comes within this time, as many as there is room for.
    fn hear(&mut self, timeout: Duration) -> io::Result<Option<usize>> {
        if timeout < LOOK_AGAIN {
            if !wait_readable(&self.socket, timeout)? {
                return Ok(None);
            }
        } else if self.timeout != Some(timeout) {
            self.socket.set_read_timeout(Some(timeout))?;
            self.timeout = Some(timeout);
        }
        match self.socket.recv(self.response.as_mut_slice()) {
            Ok(len) => Ok(Some(len)),
            Err(error) if is_passing(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Carrier for UdpCarrier {
    fn send(&mut self, number: u64) -> io::Result<()> {
        let octets = self.request.as_mut_slice();
        octets[..self.number_len].copy_from_slice(&number.to_le_bytes()[..self.number_len]);
        self.socket.send(octets).map(drop)
    }

    fn receive(&mut self, timeout: Duration) -> io::Result<Option<Response>> {
        if self.hear(timeout)? != Some(self.response_len) {
            return Ok(None);
        }
        let mut low = [0; 8];
        low[..self.number_len].copy_from_slice(&self.response.as_slice()[..self.number_len]);
        let mask = if self.number_len == 8 { u64::MAX } else { (1 << (8 * self.number_len)) - 1 };
        Ok(Some(Response::To { low: u64::from_le_bytes(low), mask }))
    }
}

/// Requests and responses of another tool that bear numbers in a place of its own; a response may be of any size.
struct NumberedCarrier {
    bare: UdpCarrier,
    how: Exchange,
}

impl Carrier for NumberedCarrier {
    fn send(&mut self, number: u64) -> io::Result<()> {
        let request = self.bare.request.as_mut_slice();
        (self.how.ask)(number, request);
        self.bare.socket.send(request).map(drop)
    }

    fn receive(&mut self, timeout: Duration) -> io::Result<Option<Response>> {
        let Some(len) = self.bare.hear(timeout)? else { return Ok(None) };
        let answered = (self.how.answered)(&self.bare.response.as_slice()[..len]);
        Ok(answered.map(|(low, mask)| Response::To { low, mask }))
    }
}

/// Requests and responses of another tool, which bear no numbers: one at a time, and what comes is the answer to it.
struct BareCarrier {
    numbered: UdpCarrier,
    /// Whether the last request is without a response.
    unanswered: bool,
    /// Whether any was given up. Its response may come late, and answers none that is asked afterwards.
    gave_up: bool,
}

impl BareCarrier {
    fn new(socket: UdpSocket, spec: &Spec) -> BareCarrier {
        BareCarrier { numbered: UdpCarrier::new(socket, spec), unanswered: false, gave_up: false }
    }
}

impl Carrier for BareCarrier {
    fn send(&mut self, number: u64) -> io::Result<()> {
        self.gave_up |= std::mem::replace(&mut self.unanswered, true);
        while self.gave_up && self.numbered.receive(Duration::ZERO)?.is_some() {}
        self.numbered.send(number)
    }

    fn receive(&mut self, timeout: Duration) -> io::Result<Option<Response>> {
        let response = self.numbered.receive(timeout)?.map(|_| Response::Next);
        self.unanswered &= response.is_none();
        Ok(response)
    }
}

/// An error that costs one datagram: the other end's port is closed for a moment, there is no route or memory, a packet filter
/// of this machine refuses it, or a router said that an earlier one was too large.
fn is_lost(error: &io::Error) -> bool {
    is_passing(error)
        || matches!(
            error.raw_os_error(),
            Some(
                libc::ECONNREFUSED
                    | libc::ENETUNREACH
                    | libc::EHOSTUNREACH
                    | libc::ENETDOWN
                    | libc::ENOMEM
                    | libc::EPERM
                    | libc::EACCES
                    | libc::EMSGSIZE
            )
        )
}

/// Answers each request on the connection until the requester closes it.
pub fn answer_tcp(task: Task) -> Result<FlowOutcome, TrafficError> {
    let mut outcome = task.blank(Role::Responder);
    let socket = task.open.socket.try_clone().map_err(TrafficError::System)?;
    let mut stream: TcpStream = task.open.socket.try_clone().map_err(TrafficError::System)?.into();
    stream.set_read_timeout(Some(LOOK_AGAIN)).map_err(TrafficError::System)?;
    stream.set_write_timeout(Some(Duration::from_secs(5))).map_err(TrafficError::System)?;
    let alignment = task.spec.alignment as usize;
    let mut request = AlignedBuffer::new(task.spec.request_size as usize, alignment);
    let mut response = AlignedBuffer::new(task.spec.response_size as usize, alignment);
    let exchange = task.framing.exchange();
    let mut at = 0;
    let mut last_ns = 0;
    let mut segments = SegmentCounts::default();
    let mut is_read = false;
    while !task.clock.stopped() {
        match stream.read(&mut request.as_mut_slice()[at..]) {
            Ok(0) => {
                // A client of another tool may pause between its requests, and after the last.
                last_ns = if task.framing.ends_itself() { task.clock.now_ns() } else { last_ns };
                is_read = true;
                break;
            }
            Ok(read) => at += read,
            Err(error) if is_passing(&error) => continue,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
            Err(error) => return Err(TrafficError::Moving { what: "receiving requests failed".to_owned(), error }),
        }
        if at < request.as_slice().len() {
            continue;
        }
        at = 0;
        if let Some(exchange) = exchange {
            (exchange.answer)(request.as_slice(), response.as_mut_slice());
        }
        // The requester may leave without its last responses when its time is over.
        if stream.write_all(response.as_slice()).is_err() {
            break;
        }
        last_ns = task.clock.now_ns();
        count(&task, &mut outcome, last_ns);
        segments.handle_octets(&socket, outcome.octets_total);
    }
    outcome.tcp = tcp_summary(&socket, last_ns as f64 / 1e9);
    finish(&task, &mut outcome, last_ns);
    if is_read && task.framing.is_own() {
        segments::close(&socket, &task.clock);
    }
    outcome.segments = segments.finish(&socket);
    Ok(outcome)
}

/// Answers each request on the socket until the requester's end mark.
pub fn answer_udp(task: Task) -> Result<FlowOutcome, TrafficError> {
    let mut outcome = task.blank(Role::Responder);
    let socket = task.open.socket.try_clone().map_err(TrafficError::System)?;
    let udp: UdpSocket = task.open.socket.try_clone().map_err(TrafficError::System)?.into();
    udp.set_read_timeout(Some(LOOK_AGAIN)).map_err(TrafficError::System)?;
    let alignment = task.spec.alignment as usize;
    let request_len = task.spec.request_size as usize;
    let number_len = number_len(&task.spec);
    let mut request = AlignedBuffer::new(request_len.max(HANDSHAKE_LEN) + 1, alignment);
    let mut response = AlignedBuffer::new(task.spec.response_size as usize, alignment);
    let mut last_ns = 0;
    while !task.clock.stopped() {
        let len = match udp.recv(request.as_mut_slice()) {
            Ok(len) => len,
            Err(error) if is_lost(&error) => {
                // The end mark may be lost as well.
                let due_ns = task.clock.receiving_due_ns().filter(|_| !task.framing.is_bare()).unwrap_or(u64::MAX);
                match task.clock.now_ns() > due_ns.saturating_add(RESPONSE_TIME_NS + udp_stream::END_PATIENCE_NS) {
                    true => break,
                    false => continue,
                }
            }
            Err(error) => return Err(TrafficError::Moving { what: "receiving requests failed".to_owned(), error }),
        };
        let bare = task.framing.is_bare();
        if bare && len == 0 {
            break;
        }
        if !bare
            && len == HANDSHAKE_LEN
            && let Some(handshake) = udp_stream::handle_handshake(&task, &socket, &request.as_slice()[..len])
        {
            if handshake.kind == HandshakeKind::End {
                break;
            }
            continue;
        }
        if len != request_len {
            continue;
        }
        response.as_mut_slice()[..number_len].copy_from_slice(&request.as_slice()[..number_len]);
        match udp.send(response.as_slice()) {
            Ok(_) => {}
            Err(error) if is_lost(&error) => outcome.send_errors += 1,
            Err(error) => return Err(TrafficError::Moving { what: "sending responses failed".to_owned(), error }),
        }
        last_ns = task.clock.now_ns();
        count(&task, &mut outcome, last_ns);
    }
    finish(&task, &mut outcome, last_ns);
    Ok(outcome)
}

/// Counts a request that was answered at `now_ns`.
pub fn count(task: &Task, outcome: &mut FlowOutcome, now_ns: u64) {
    let octets = u64::from(task.spec.request_size) + u64::from(task.spec.response_size);
    outcome.messages_total += 1;
    outcome.octets_total += octets;
    outcome.calls += 2;
    if task.clock.receiving(now_ns).contains(now_ns) {
        outcome.messages += 1;
        outcome.octets += octets;
    }
    task.ledger.publish(outcome.octets_total, outcome.messages_total);
}

/// Closes a responder's account.
pub fn finish(task: &Task, outcome: &mut FlowOutcome, last_ns: u64) {
    outcome.thread = thread_use();
    if let Some(window) = task.clock.receiving_so_far() {
        outcome.elapsed_ns = task.elapsed_ns(window, last_ns);
    }
}
