//! A UDP stream: numbered datagrams one way, at an even pace or as fast as they go.
//! Knows one socket; which datagrams are lost is for [`linerate_trial::arrivals`] to say.

use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

use linerate_path::merged_drops::MergedDrops;
use linerate_trial::api::{ReceiverApi, SenderApi, Timestamps};
use linerate_trial::arrivals::Tracker;
use linerate_trial::departures::Departures;
use linerate_trial::outcome::{FlowOutcome, Role};
use linerate_trial::pace::Pacer;
use linerate_trial::spec::Extent;
use linerate_wire::{HANDSHAKE_LEN, Handshake, HandshakeKind, Probe};
use socket2::Socket;

use super::TrafficError;
use super::api::ApiSelection;
use super::api::datagrams_in::DatagramsIn;
use super::api::datagrams_out::DatagramsOut;
use super::clock::{FinalDrain, Window};
use super::framing::{Codec, Early};
use super::pacing::Paced;
use super::reachability::{UnprovenLimit, is_refusal};
use super::sockets::{self, is_passing};
use super::task::Task;
use super::wait::wait_until;
use crate::sys::datagrams::{DatagramBatch, Received, path_mtu};
use crate::sys::poll::wait_readable;
use crate::sys::socket_state::socket_drops;
use crate::sys::thread::thread_use;

/// How long a receive may block before the thread looks whether it should end.
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// What routers said of those that were on their way may come with as many sends; more, and none fits.
const TOO_LARGE_TIMES: u32 = 32;
/// The most consecutive refusals that may be about earlier datagrams: the kernel reports each ICMP error once.
const OF_EARLIER: u32 = 10;
/// How often the end mark is sent until it is heard.
const END_PERIOD_NS: u64 = 5_000_000;
/// How long the sender tries to make its end heard: a queue of some seconds may stand before it.
pub(super) const END_PATIENCE_NS: u64 = 4_000_000_000;
/// How long the receiver waits for late datagrams after the end mark, since the last arrival.
const LATE_NS: u64 = 50_000_000;

/// Sends until the time is over, or the octets are sent.
pub fn send<C: Codec>(task: Task, codec: &C, api: SenderApi, asked: ApiSelection) -> Result<FlowOutcome, TrafficError> {
    let mut outcome = task.blank(Role::Sender);
    let socket = &task.open.socket;
    let size = task.spec.message_octets() as usize;
    let limit = match task.spec.extent {
        Extent::Octets(octets) => octets.div_ceil(size as u64),
        Extent::Time(_) => u64::MAX,
    };
    if codec.is_own() {
        wait_for_start(&task, socket)?;
    } else if !task.clock.wait_for_start() {
        return Err(TrafficError::Stopped);
    }
    socket.set_write_timeout(Some(LOOK_AGAIN)).map_err(TrafficError::System)?;
    let mut out =
        DatagramsOut::begin(api, asked, &task.spec, codec.head(), task.paced, socket).map_err(TrafficError::System)?;
    let window = task.clock.sending();
    let mut now = task.clock.now_ns();
    let mut pacer = task.pacer(size as u64, now);
    let mut sequence = 0;
    let mut departures = Departures::default();
    let mut too_large = 0;
    let mut refused_in_turn = 0;
    let ahead = task.paced.filter(|paced| paced.lead_ns > 0);
    if let Some(paced) = ahead {
        paced.steer(socket, true).map_err(TrafficError::System)?;
    }
    let most_ns = task.open.unproven.map_or(u64::MAX, |_| now.saturating_add(UnprovenLimit::LONGEST.as_nanos() as u64));
    let is_unproven = task.open.unproven.is_some();
    while sequence < limit && now < most_ns && !task.clock.stopped() && !task.clock.is_curtailed() {
        if is_unproven && task.clock.is_refused() {
            return Err(refused(&task, ErrorKind::ConnectionRefused.into()));
        }
        let is_due = pacer.as_ref().is_none_or(|pacer| {
            let departure = pacer.next_departure_ns().saturating_sub(ahead.map_or(0, |paced| paced.lead_ns));
            wait_until(&task.clock, departure.min(window.end_ns))
        });
        now = task.clock.now_ns();
        if !is_due || now >= window.end_ns {
            break;
        }
        let mut measured = window.contains(now);
        let mut count = (out.count() as u64).min(limit - sequence) as usize;
        if let (Some(paced), Some(pacer)) = (ahead, &pacer) {
            measured = window.contains(pacer.next_departure_ns().max(now));
            let due = Due { paced, window, now, measured, offset_ns: paced.clock_offset_ns(&task.clock) };
            count = due.fill(&mut out, codec, pacer.clone(), count, sequence);
            if count == 0 {
                break;
            }
        } else {
            for index in 0..count {
                let probe = Probe { sequence: sequence + index as u64, measured, sent_at_ns: now };
                codec.emit(&probe, out.datagram_mut(index));
            }
        }
        outcome.calls += 1;
        let taken = match out.send(socket, count) {
            Ok(sent) => {
                outcome.send_retries += u64::from(sent < count);
                sent as u64
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                outcome.send_retries += u64::from(error.kind() == ErrorKind::WouldBlock);
                continue;
            }
            Err(error) if is_unproven && is_refusal(&error) => return Err(refused(&task, error)),
            // ICMP's word on an earlier one, with which this one has nothing to do. Another may have come since, but not time after time:
            // then it is this one's.
            Err(error)
                if refused_in_turn < OF_EARLIER && is_refusal(&error) && error.raw_os_error() != Some(libc::EPERM) =>
            {
                refused_in_turn += 1;
                outcome.send_retries += 1;
                continue;
            }
            // A router's word on an earlier one: from now on the kernel cuts them apart.
            Err(error) if error.raw_os_error() == Some(libc::EMSGSIZE) && too_large < TOO_LARGE_TIMES => {
                too_large += 1;
                continue;
            }
            Err(error) if out.falls_back(&error, socket) => continue,
            // EINVAL of one like those that left before is a blackhole route's (ip-route(8)).
            Err(error) if is_refused_once(&error) || sequence > 0 && error.raw_os_error() == Some(libc::EINVAL) => {
                // The numbers are used up: the receiver will miss them, and this counter says why.
                let refused = out.refused(count) as u64;
                outcome.send_errors += refused;
                if error.kind() != ErrorKind::ConnectionRefused {
                    std::thread::sleep(Duration::from_millis(1));
                }
                refused
            }
            Err(error) => {
                let what = match error.raw_os_error() {
                    Some(libc::EMSGSIZE) => {
                        format!("datagrams of {size} bytes cannot leave here; choose a smaller message_size")
                    }
                    Some(libc::EIO) => format!("sender_api {api} cannot leave here; choose sendmmsg or auto"),
                    _ => "sending datagrams failed".to_owned(),
                };
                return Err(TrafficError::Moving { what, error });
            }
        };
        too_large = 0;
        refused_in_turn = 0;
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
    outcome.api = out.api_use();
    if let Some(paced) = ahead {
        // What stands in the queue leaves before the end mark, which bears no time.
        let _ = wait_until(&task.clock, now.saturating_add(paced.most_lead_ns()));
        paced.steer(socket, false).map_err(TrafficError::System)?;
    }
    outcome.socket_buffer = socket.send_buffer_size().ok().map(|octets| octets as u64);
    outcome.path_mtu = path_mtu(socket, task.open.peer.is_ipv4()).ok();
    out.finish(socket).map_err(TrafficError::System)?;
    if codec.is_own() {
        say_end(&task, socket, sequence, &mut outcome)?;
    }
    if codec.ends_itself() && !codec.is_bare() {
        // One of the stream's own: the end that opened the flow repeats it where it was lost.
        let mut last = vec![0; size];
        let head = codec.head();
        last[..head.len().min(size)].copy_from_slice(&head[..head.len().min(size)]);
        codec.emit_last(sequence + 1, task.clock.now_ns(), &mut last);
        outcome.send_errors += u64::from(socket.send(&last).is_err());
        outcome.messages_total += 1;
        outcome.messages += 1;
        outcome.octets_total += size as u64;
        outcome.octets += size as u64;
    }
    Ok(outcome)
}

/// The end of a trial whose far end, which has proved nothing, refuses what it is sent: nobody is there to send either.
fn refused(task: &Task, error: io::Error) -> TrafficError {
    task.clock.stop();
    TrafficError::Refused { peer: task.open.peer, error }
}

/// What is handed over ahead of its departure, where the kernel keeps the time.
struct Due {
    paced: Paced,
    window: Window,
    now: u64,
    /// Whether the first of them belongs to the measured part; one that differs waits for the next call.
    measured: bool,
    /// From the trial's time to that which datagrams bear.
    offset_ns: Option<u64>,
}

impl Due {
    /// Writes the datagrams whose turn comes soon, at most `count`. Returns how many; none after the time is over.
    fn fill(&self, out: &mut DatagramsOut, codec: &impl Codec, mut pacer: Pacer, count: usize, sequence: u64) -> usize {
        pacer.handle_now(self.now);
        for index in 0..count {
            let departure = pacer.next_departure_ns().max(self.now);
            let later = index > 0 && departure > self.now + self.paced.most_lead_ns();
            if later || departure >= self.window.end_ns || self.window.contains(departure) != self.measured {
                return index;
            }
            pacer.handle_sent();
            let at_ns = departure.max(self.now + self.paced.least_notice_ns());
            let probe = Probe { sequence: sequence + index as u64, measured: self.measured, sent_at_ns: at_ns };
            codec.emit(&probe, out.datagram_mut(index));
            if let Some(offset_ns) = self.offset_ns {
                out.set_time(index, at_ns.wrapping_add(offset_ns));
            }
        }
        count
    }
}

/// Receives until the sender's end mark, and a little longer for what is late.
pub fn receive<C: Codec>(
    task: Task,
    codec: &C,
    api: ReceiverApi,
    timestamps: Timestamps,
) -> Result<FlowOutcome, TrafficError> {
    let socket = &task.open.socket;
    socket.set_read_timeout(Some(LOOK_AGAIN)).map_err(TrafficError::System)?;
    let mut inward = DatagramsIn::begin(api, timestamps, &task.spec);
    let mut account = Account::new(&task, codec, (api == ReceiverApi::UdpGro).then(MergedDrops::default));
    let mut gathering = Gathering::new(&inward, task.spec.message_octets() as usize, socket);
    let mut leaving = FinalDrain::default();
    account.handle_early(&task, socket, codec.early(task.open.flow.id));
    while !task.clock.aborted() {
        let count = match inward.receive(socket) {
            Ok(count) => count,
            Err(error) if is_passing(&error) => 0,
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                task.clock.tell_refused();
                0
            }
            Err(error) => return Err(TrafficError::Moving { what: "receiving datagrams failed".to_owned(), error }),
        };
        let now = task.clock.now_ns();
        account.outcome.calls += u64::from(count > 0);
        if count > 0 && inward.clock_changed(count, now) {
            account.tracker.handle_clock_change();
        }
        for index in 0..count {
            let message = inward.received(index);
            account.handle_message(&task, socket, &message, now, inward.arrived_ns(&message, now));
        }
        if count > 0 {
            account.publish(&task);
        }
        if account.is_over(&task, now) || leaving.is_over(&task.clock, count > 0, now) {
            break;
        }
        if let Some(wait) = gathering.handle_messages(count, now)
            && inward.timestamps() != Timestamps::Application
        {
            std::thread::sleep(wait);
        }
    }
    let mut outcome = account.finish(&task);
    outcome.api = inward.api_use();
    outcome.timestamps = Some(inward.timestamps());
    Ok(outcome)
}

/// How long the receiver lets messages come together before it looks for them: up to a millisecond.
///
/// A thread that waits in a receive is woken for the first message that comes, on a virtual machine at some
/// microseconds' cost to the CPU that delivered it, and finds that one alone; and where that is the sender's CPU, its next
/// departure is late. Asleep by its own timer it wakes nobody's CPU, and finds a batch. Below some 8,000 messages a second
/// there is nothing to gather, and none is waited for; nor where the application notes the arrivals.
struct Gathering {
    /// Messages that one call takes.
    most: usize,
    /// Messages that may come together: within a quarter of the receive buffer.
    room: u64,
    /// Mean time between messages, nanoseconds, over some eight calls.
    gap_ns: u64,
    last_ns: u64,
}

impl Gathering {
    const WAIT_NS: u64 = 1_000_000;
    /// Fewer than this are not worth a timer.
    const LEAST: u64 = 8;
    /// More than this would fall out of the processor's cache before they are read.
    const MOST: u64 = 32;
    /// What the kernel charges to the buffer for a packet beside its octets, and more (SKB_TRUESIZE).
    const OVERHEAD: usize = 1024;

    fn new(inward: &DatagramsIn, size: usize, socket: &Socket) -> Gathering {
        let message = inward.message_octets(size) + Gathering::OVERHEAD;
        let room = socket.recv_buffer_size().unwrap_or(0) / 4 / message;
        Gathering { most: inward.count(), room: (room as u64).min(Gathering::MOST), gap_ns: u64::MAX / 16, last_ns: 0 }
    }

    /// A call brought `count` messages. How long to wait before the next call, if at all.
    #[inline]
    fn handle_messages(&mut self, count: usize, now_ns: u64) -> Option<Duration> {
        if count > 0 {
            let gap_ns = now_ns.saturating_sub(self.last_ns) / count as u64;
            self.gap_ns = (self.gap_ns * 7 + gap_ns.min(u64::MAX / 16)) / 8;
            self.last_ns = now_ns;
        }
        // A full batch: more may be waiting.
        if count == 0 || count == self.most || self.gap_ns > Gathering::WAIT_NS / Gathering::LEAST {
            return None;
        }
        let wait_ns = (self.gap_ns * self.room).min(Gathering::WAIT_NS);
        (wait_ns >= self.gap_ns * Gathering::LEAST).then_some(Duration::from_nanos(wait_ns))
    }
}

/// What a receiver has heard so far.
struct Account<'a, C> {
    codec: &'a C,
    outcome: FlowOutcome,
    tracker: Tracker,
    /// What the socket drops, where it drops merged messages.
    merged: Option<MergedDrops>,
    size: usize,
    /// Whether a number of octets ends the trial, rather than time.
    by_octets: bool,
    /// When the first datagram came, of those that came before this thread began.
    since: Option<Instant>,
    /// When the last datagram came, by the trial's clock.
    last_ns: u64,
    end_heard: bool,
    /// Octets of datagrams that bear nothing and may be of any size: of the measured part, and in all.
    bare_octets: [u64; 2],
    /// Of another tool's datagrams, how many were missing when the measured part began.
    missing_before: Option<u64>,
}

impl<'a, C: Codec> Account<'a, C> {
    fn new(task: &Task, codec: &'a C, merged: Option<MergedDrops>) -> Account<'a, C> {
        Account {
            codec,
            outcome: task.blank(Role::Receiver),
            tracker: Tracker::new(),
            merged,
            size: task.spec.message_octets() as usize,
            by_octets: task.spec.expected_time().is_none() && !codec.ends_itself(),
            since: None,
            last_ns: 0,
            end_heard: false,
            bare_octets: [0; 2],
            missing_before: None,
        }
    }

    /// What came before this thread could take it. Nobody's clock noted when.
    fn handle_early(&mut self, task: &Task, socket: &Socket, early: Early) {
        let now = task.clock.now_ns();
        for octets in early.datagrams.iter().filter(|octets| !octets.is_empty()) {
            let message = Received {
                octets,
                len: octets.len(),
                segment: octets.len(),
                drops: 0,
                stamped_ns: None,
                nic_stamped_ns: None,
            };
            self.handle_message(task, socket, &message, now, now);
        }
        if self.outcome.messages_total > 0 {
            self.since = early.since;
            self.tracker.handle_clock_change();
            self.publish(task);
        }
    }

    /// The datagrams of one message, read at `now` and arrived at `arrived_ns` of whatever clock notes arrivals.
    #[inline]
    fn handle_message(&mut self, task: &Task, socket: &Socket, message: &Received<'_>, now: u64, arrived_ns: u64) {
        // A message that was cut is of a stranger's length.
        if message.octets.len() < message.len {
            return;
        }
        match self.codec.is_own() {
            true => self.handle_own(task, socket, message, now, arrived_ns),
            false if self.codec.is_bare() => self.handle_bare(task, message, now, arrived_ns),
            false => self.handle_foreign(task, message, now, arrived_ns),
        }
    }

    #[inline(always)]
    fn handle_own(&mut self, task: &Task, socket: &Socket, message: &Received<'_>, now: u64, arrived_ns: u64) {
        if let Some(merged) = &mut self.merged
            && message.segment == self.size
            && let Some(probe) = Probe::parse(message.octets)
        {
            merged.handle_message(probe.sequence, (message.len / self.size) as u64, message.drops);
        }
        let mut window = None;
        for octets in message.octets.chunks(message.segment) {
            if octets.len() == HANDSHAKE_LEN
                && let Some(handshake) = handle_handshake(task, socket, octets)
            {
                if handshake.kind == HandshakeKind::End {
                    self.tracker.handle_end(handshake.value);
                    self.outcome.end_marks += 1;
                    self.end_heard = true;
                    // Not an arrival of data, yet the link is alive: late ones may follow.
                    self.last_ns = self.last_ns.max(1);
                }
                continue;
            }
            // A connected socket hears one peer only; what is of another length or no probe is counted by nobody.
            let Some(probe) = Probe::parse(octets).filter(|_| octets.len() == self.size) else { continue };
            let counts = *window.get_or_insert_with(|| self.measures(task, now));
            self.handle_probe(&probe, counts, now, arrived_ns);
        }
    }

    /// As [`Account::handle_own`], of another tool's datagrams, which do not say whether they are measured.
    #[inline(never)]
    fn handle_foreign(&mut self, task: &Task, message: &Received<'_>, now: u64, arrived_ns: u64) {
        if let Some(merged) = &mut self.merged
            && message.segment == self.size
            && let Some((sequence, _)) = self.codec.parse(message.octets)
        {
            let sequence = self.tracker.number_near(sequence);
            merged.handle_message(sequence, (message.len / self.size) as u64, message.drops);
        }
        for octets in message.octets.chunks(message.segment) {
            // Where a stream ends itself it begins by itself too, with a datagram that may be longer than the others.
            if octets.len() != self.size && !self.codec.ends_itself() {
                continue;
            }
            if self.handle_first(task, octets, now) {
                continue;
            }
            let is_last = self.codec.is_last(octets);
            if is_last && self.end_heard {
                // Said again, under a number of its own, until it is answered.
                self.outcome.end_marks += 1;
                continue;
            }
            let Some((sequence, sent_at_ns)) = self.codec.parse(octets) else {
                if is_last {
                    self.handle_mark(now);
                }
                continue;
            };
            let sequence = self.tracker.number_near(sequence);
            let measured = self.measures(task, now);
            if measured && self.outcome.messages == 0 {
                self.missing_before = Some(self.tracker.missing());
            }
            self.handle_their_probe(&Probe { sequence, measured, sent_at_ns }, now, arrived_ns);
            if is_last {
                self.tracker.handle_end(sequence.saturating_add(1));
                self.end_heard = true;
            }
        }
    }

    /// As [`Account::handle_own`], of another tool's datagrams that bear nothing: each is the next.
    #[inline(never)]
    fn handle_bare(&mut self, task: &Task, message: &Received<'_>, now: u64, arrived_ns: u64) {
        if message.octets.is_empty() && self.codec.is_last(message.octets) {
            self.handle_mark(now);
            return;
        }
        // What says that the stream is over may have been merged with the last of its data.
        for octets in message.octets.chunks(message.segment) {
            if self.handle_first(task, octets, now) {
                continue;
            }
            if self.codec.is_last(octets) {
                self.handle_mark(now);
                continue;
            }
            let measured = self.measures(task, now);
            if measured && !self.end_heard {
                self.bare_octets[0] += octets.len() as u64;
            }
            self.bare_octets[1] += octets.len() as u64;
            let sequence = self.outcome.messages_total;
            self.handle_their_probe(&Probe { sequence, measured, sent_at_ns: arrived_ns }, now, arrived_ns);
        }
    }

    /// Whether this says no more than that a stream begins; the time runs from then.
    fn handle_first(&self, task: &Task, octets: &[u8], now: u64) -> bool {
        let first = self.outcome.messages_total == 0 && self.codec.is_first(octets);
        if first {
            task.clock.receiving(now);
        }
        first
    }

    /// A datagram that says no more than that the stream is over, which took until then.
    fn handle_mark(&mut self, now: u64) {
        self.outcome.end_marks += 1;
        if !self.end_heard {
            self.last_ns = now;
        }
        self.end_heard = true;
    }

    /// Whether what was read at `now` counts.
    #[inline(always)]
    fn measures(&self, task: &Task, now: u64) -> bool {
        // Where octets decide, the time runs from the first arrivals, so what came with them took none of it.
        let first = task.clock.receiving_so_far().is_none_or(|window| window.start_ns == now);
        let window = task.clock.receiving(now);
        window.contains(now) && !(self.by_octets && first)
    }

    /// As [`Account::handle_probe`], which stands in the loop of linerate's own datagrams, and there only.
    #[inline(never)]
    fn handle_their_probe(&mut self, probe: &Probe, now: u64, arrived_ns: u64) {
        self.handle_probe(probe, probe.measured, now, arrived_ns);
    }

    #[inline(always)]
    fn handle_probe(&mut self, probe: &Probe, counts: bool, now: u64, arrived_ns: u64) {
        let new = self.tracker.handle_datagram(probe, arrived_ns);
        self.last_ns = now;
        self.outcome.messages_total += 1;
        if new && counts && !self.end_heard {
            self.outcome.messages += 1;
        }
    }

    fn publish(&mut self, task: &Task) {
        self.outcome.octets_total = match self.codec.is_bare() {
            true => self.bare_octets[1],
            false => self.outcome.messages_total * self.size as u64,
        };
        task.ledger.publish(self.outcome.octets_total, self.outcome.messages_total);
        task.ledger.publish_missing(self.tracker.missing());
    }

    /// Whether nothing more is to be expected.
    fn is_over(&self, task: &Task, now: u64) -> bool {
        let overdue = |window: Window| now > window.end_ns.saturating_add(END_PATIENCE_NS);
        (self.end_heard && now.saturating_sub(self.last_ns) > LATE_NS)
            || task.clock.receiving_so_far().is_some_and(overdue)
    }

    fn finish(mut self, task: &Task) -> FlowOutcome {
        if let Some(window) = task.clock.receiving_so_far() {
            self.outcome.elapsed_ns = task.elapsed_ns(window, self.last_ns);
            // What came during a warm-up is not measured, whenever that began.
            let since = self.since.filter(|_| task.spec.warmup.is_zero());
            self.outcome.elapsed_ns += since.map_or(0, |since| task.clock.head_start_ns(window, since));
        }
        let socket = &task.open.socket;
        self.outcome.octets = self.outcome.messages * self.size as u64;
        self.outcome.thread = thread_use();
        self.outcome.socket_drops = socket_drops(socket);
        self.outcome.socket_buffer = socket.recv_buffer_size().ok().map(|octets| octets as u64);
        let mut arrivals = self.tracker.finish();
        arrivals.missing_before = self.missing_before;
        if self.codec.is_bare() {
            self.outcome.octets = self.bare_octets[0];
            (arrivals.unnumbered, arrivals.jitter_s) = (true, None);
        }
        if let Some(merged) = self.merged {
            let messages = self.outcome.socket_drops.map(|drops| drops as u32);
            self.outcome.socket_drops = messages.map(|drops| merged.finish(arrivals.sent_by_end_mark, drops));
        }
        self.outcome.arrivals = Some(arrivals);
        self.outcome
    }
}

/// Waits for the start while answering hellos that the other end repeats because an answer was lost.
pub fn wait_for_start(task: &Task, socket: &Socket) -> Result<(), TrafficError> {
    if task.open.flow.listener() != task.end {
        return if task.clock.wait_for_start() { Ok(()) } else { Err(TrafficError::Stopped) };
    }
    let mut batch = DatagramBatch::incoming(1, HANDSHAKE_LEN, 1);
    while !task.clock.started() {
        if task.clock.stopped() {
            return Err(TrafficError::Stopped);
        }
        // Not SO_RCVTIMEO: it counts in ticks, and a tick of 10 ms would be missing at the start of the trial.
        let readable = wait_readable(socket, Duration::from_millis(1)).map_err(TrafficError::System)?;
        if readable && batch.receive(socket).is_ok() {
            let _ = handle_handshake(task, socket, batch.received(0).octets);
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

/// Sends the end mark until the other end has heard it; gives up in silence, for the receiver will say so. Counts
/// how many it took.
pub fn say_end(task: &Task, socket: &Socket, sent: u64, outcome: &mut FlowOutcome) -> Result<(), TrafficError> {
    let flow = task.open.flow;
    let end = Handshake { kind: HandshakeKind::End, flow: flow.id, token: task.tokens.hello, value: sent };
    socket.set_read_timeout(Some(Duration::from_nanos(END_PERIOD_NS))).map_err(TrafficError::System)?;
    let mut batch = DatagramBatch::incoming(1, HANDSHAKE_LEN, 1);
    let deadline = task.clock.now_ns() + END_PATIENCE_NS;
    while !task.clock.stopped() && task.clock.now_ns() < deadline {
        match socket.send(&end.emit()) {
            Ok(_) => outcome.end_marks += 1,
            // No room, or ICMP's word on the last datagrams: the kernel counts it, and it is sent again.
            Err(_) => outcome.send_retries += 1,
        }
        let again = task.clock.now_ns() + END_PERIOD_NS;
        while task.clock.now_ns() < again {
            match batch.receive(socket) {
                Ok(1)
                    if sockets::expect(
                        batch.received(0).octets,
                        HandshakeKind::EndHeard,
                        flow,
                        &task.tokens.answer,
                    )
                    .is_some() =>
                {
                    return Ok(());
                }
                Ok(_) => {}
                Err(_) => break,
            }
        }
    }
    Ok(())
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
                | libc::EACCES
        )
    )
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use linerate_trial::spec::{Spacing, Spec, Workload};

    use super::super::framing::LinerateFraming;
    use super::*;

    /// Hands over what is due at each of some moments, as the sender does, and looks at what arrives.
    #[test]
    fn what_is_handed_over_ahead_bears_the_times_of_the_schedule() {
        const GAP_NS: u64 = 100_000;
        const START_NS: u64 = 10_000_000;
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.connect(receiver.local_addr().unwrap()).unwrap();
        let socket = Socket::from(sender);
        let paced = Paced::unheeded(&socket);
        paced.steer(&socket, true).unwrap();
        let spec = Spec { rate: "117600k".parse().unwrap(), ..Spec::new(Workload::UdpStream) };
        let mut out =
            DatagramsOut::begin(SenderApi::Sendmmsg, ApiSelection::Auto, &spec, &[], Some(paced), &socket).unwrap();
        assert_eq!(out.count(), 32, "not one by one");
        // The measured part begins with departure 7 and ends before departure 25.
        let window = Window { start_ns: START_NS + 7 * GAP_NS, end_ns: START_NS + 25 * GAP_NS };
        let mut pacer = Pacer::new(GAP_NS as f64, 1, Spacing::Even, 0, START_NS);
        let (mut sequence, mut calls) = (0, Vec::new());
        loop {
            // Woken on time, but for the third time: then it is 0.7 ms late.
            let late = if calls.len() == 2 { 700_000 } else { 0 };
            let now = pacer.next_departure_ns() - paced.lead_ns + late;
            let measured = window.contains(pacer.next_departure_ns().max(now));
            let due = Due { paced, window, now, measured, offset_ns: Some(0) };
            let count = due.fill(&mut out, &LinerateFraming, pacer.clone(), 32, sequence);
            if count == 0 {
                break;
            }
            assert_eq!(out.send(&socket, count).unwrap(), count);
            (0..count).for_each(|_| pacer.handle_sent());
            sequence += count as u64;
            calls.push(count);
        }
        // From 0.5 ms to 1 ms ahead are six gaps; the end of the warm-up parts two calls.
        assert_eq!(calls, [6, 1, 13, 5]);
        receiver.set_nonblocking(true).unwrap();
        let mut octets = [0; 1500];
        for number in 0..25 {
            let len = receiver.recv(&mut octets).unwrap();
            let probe = Probe::parse(&octets[..len]).unwrap();
            let due = START_NS + number * GAP_NS;
            // The third call came after two of its departures, and too near to others.
            let notice = START_NS + 9 * GAP_NS + paced.least_notice_ns();
            let want = if (7..20).contains(&number) { due.max(notice) } else { due };
            assert_eq!((probe.sequence, probe.sent_at_ns, probe.measured), (number, want, number >= 7), "{number}");
        }
        assert!(receiver.recv(&mut octets).is_err(), "no more than these");
    }
}
