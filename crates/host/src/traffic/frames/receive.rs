//! A stream of frames as it arrives: each looked at, foreign ones counted apart.
//! Knows one packet socket, its ring where it has one, and AF_XDP sockets; which frames are lost is for [`linerate_trial::arrivals`] to say.

use std::io;
use std::time::Duration;

use linerate_trial::api::{ApiUse, ReceiverApi, Timestamps};
use linerate_trial::arrivals::Tracker;
use linerate_trial::flow::Flow;
use linerate_trial::frames::FrameSizes;
use linerate_trial::outcome::{FlowCounts, FlowOutcome, FrameCounts, Role};
use linerate_wire::Probe;
use linerate_wire::frame::{StreamField, TAG_LEN, TestFrame};
use linerate_wire::template::Template;
use socket2::Socket;

use super::delay::Delays;
use super::learning::Learning;
use super::send::without_fcs;
use super::{FrameLink, HANDSHAKE_FRAME, answer, filter};
use crate::sys::datagrams::{DatagramBatch, Received};
use crate::sys::frame_blocks::FrameBlocks;
use crate::sys::poll::wait_readable;
use crate::sys::thread::thread_use;
use crate::sys::xdp_socket::Incoming;
use crate::sys::{frame_batch, frames};
use crate::traffic::TrafficError;
use crate::traffic::api::datagrams_in::DatagramsIn;
use crate::traffic::clock::{FinalDrain, Window};
use crate::traffic::sockets::is_passing;
use crate::traffic::task::Task;

/// How long a receive may block before the thread looks whether it should end.
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// How long the receiver waits for late frames after the end mark, since the last arrival.
pub(super) const LATE_NS: u64 = 50_000_000;
/// How long the sender tries to make its end heard.
pub(super) const END_PATIENCE_NS: u64 = 4_000_000_000;

/// Receives until the sender's end mark, and a little longer for what is late.
pub fn receive(task: Task, api: ReceiverApi, timestamps: Timestamps) -> Result<FlowOutcome, TrafficError> {
    let Some(link) = task.open.frames.as_deref() else { return Err(TrafficError::Stopped) };
    let socket = &task.open.socket;
    socket.set_read_timeout(Some(LOOK_AGAIN)).map_err(TrafficError::System)?;
    let mut inward = Inward::begin(api, timestamps, &task, link);
    // One of several streams sees what is nobody's.
    let first = Flow::of(&task.spec).into_iter().find(|flow| flow.source != task.end);
    let mut foreign = (first == Some(task.open.flow)).then(|| Foreign::open(link)).flatten();
    let mut account = Account::new(&task, link, inward.timestamps());
    let mut leaving = FinalDrain::default();
    let mut learning = Learning::new(&task.spec, task.clock.now_ns());
    while !task.clock.aborted() {
        let (count, is_all) = match inward.receive(socket, &mut account) {
            Ok(received) => received,
            Err(error) if is_passing(&error) => (0, true),
            Err(error) => return Err(TrafficError::Moving { what: "receiving frames failed".to_owned(), error }),
        };
        let now = task.clock.now_ns();
        learning.handle_now(now, &task, link);
        account.outcome.calls += u64::from(count > 0);
        if count > 0 {
            account.publish();
        }
        if is_all && let Some(foreign) = &mut foreign {
            foreign.read();
        }
        if account.is_over(now) || leaving.is_over(&task.clock, count > 0, now) {
            break;
        }
    }
    if let Some(mut foreign) = foreign {
        foreign.read();
        account.counts.foreign = foreign.counts.foreign;
    }
    let drops = inward.drops(socket);
    if let Inward::Xdp(..) = inward {
        // The driver that could not hand them over may call them its own drops.
        account.counts.taken = drops.unwrap_or(0);
    }
    let mut outcome = account.finish();
    outcome.socket_drops = drops;
    outcome.api = inward.api_use();
    outcome.timestamps = Some(inward.timestamps());
    Ok(outcome)
}

/// How frames come to this process.
enum Inward {
    Batch(DatagramsIn),
    Ring(FrameBlocks),
    /// A socket for each queue; the handshake comes by the packet socket.
    Xdp(Vec<Incoming>, DatagramBatch),
}

/// Frames of a queue before the next queue's turn.
const XDP_BATCH: u32 = 64;
/// How long a receive waits for AF_XDP sockets before it looks for the handshake.
const GLANCE: Duration = Duration::from_millis(1);
/// Turns in which frames may come that were there before the end was heard: more than a socket holds.
const MOST_TURNS: usize = 2048;

impl Inward {
    fn begin(api: ReceiverApi, timestamps: Timestamps, task: &Task, link: &FrameLink) -> Inward {
        if let Some(at_port) = link.port.xdp() {
            return Inward::Xdp(at_port.take_incoming(), DatagramBatch::incoming(1, HANDSHAKE_FRAME, 1));
        }
        let ring = link.ring.lock().take();
        match ring.filter(|_| api == ReceiverApi::PacketRing) {
            Some(ring) => Inward::Ring(ring),
            None => Inward::Batch(DatagramsIn::begin(api, timestamps, &task.spec)),
        }
    }

    /// Waits a moment for frames, and accounts for those of one system call, or of one block. Returns how many they were, and
    /// whether no more are waiting.
    #[inline]
    fn receive(&mut self, socket: &Socket, account: &mut Account<'_>) -> io::Result<(usize, bool)> {
        match self {
            Inward::Batch(inward) => {
                let count = inward.receive(socket)?;
                let now = account.task.clock.now_ns();
                if count > 0 && inward.clock_changed(count, now) {
                    account.tracker.handle_clock_change();
                }
                for index in 0..count {
                    let message = inward.received(index);
                    account.handle_frame(&message, now, inward.arrived_ns(&message, now));
                }
                Ok((count, count < inward.count()))
            }
            Inward::Ring(ring) => {
                if !wait_readable(socket, LOOK_AGAIN)? {
                    return Ok((0, true));
                }
                let now = account.task.clock.now_ns();
                let count = ring.take(|message| {
                    account.handle_frame(&message, now, message.stamped_ns.unwrap_or(now));
                });
                Ok((count as usize, count == 0))
            }
            Inward::Xdp(queues, heard) => {
                let count = take_all(queues, account);
                if count > 0 {
                    return Ok((count, false));
                }
                // Of several queues none may wait for another.
                match &queues[..] {
                    [queue] => drop(wait_readable(queue, GLANCE)?),
                    _ => std::thread::yield_now(),
                }
                if wait_readable(socket, Duration::ZERO)? && heard.receive(socket)? > 0 {
                    // The end comes by the stack, and may overtake the frames before it, which a driver hands over a moment later.
                    for _ in 0..MOST_TURNS {
                        if take_all(queues, account) == 0 {
                            std::thread::sleep(GLANCE);
                            if take_all(queues, account) == 0 {
                                break;
                            }
                        }
                    }
                    let now = account.task.clock.now_ns();
                    account.handle_frame(&heard.received(0), now, now);
                }
                Ok((0, true))
            }
        }
    }

    /// Frames that had no room.
    fn drops(&self, socket: &Socket) -> Option<u64> {
        match self {
            Inward::Batch(_) => frame_batch::drops(socket).ok(),
            Inward::Ring(_) => FrameBlocks::drops(socket).ok(),
            Inward::Xdp(queues, _) => queues.iter().map(|queue| queue.drops().ok()).sum(),
        }
    }

    fn api_use(&self) -> ApiUse {
        match self {
            Inward::Batch(inward) => inward.api_use(),
            Inward::Ring(ring) => {
                let name = ReceiverApi::PacketRing.name().to_owned();
                ApiUse { name, batch: ring.most(), ..ApiUse::default() }
            }
            Inward::Xdp(queues, _) => ApiUse {
                name: ReceiverApi::AfXdp.name().to_owned(),
                batch: queues.iter().map(Incoming::most).max().unwrap_or(0),
                zero_copy: Some(queues.iter().all(Incoming::is_zero_copy)),
                ..ApiUse::default()
            },
        }
    }

    fn timestamps(&self) -> Timestamps {
        match self {
            Inward::Batch(inward) => inward.timestamps(),
            Inward::Ring(_) => Timestamps::Kernel,
            Inward::Xdp(..) => Timestamps::Application,
        }
    }
}

/// Accounts for what waits at AF_XDP sockets, of each a batch; how many they were.
fn take_all(queues: &mut [Incoming], account: &mut Account<'_>) -> usize {
    // The clock is read once for a batch, as for that of a system call.
    let now = account.task.clock.now_ns();
    let mut take = |queue: &mut Incoming| queue.take(XDP_BATCH, |message| account.handle_frame(&message, now, now));
    queues.iter_mut().map(&mut take).sum::<u32>() as usize
}

/// What a receiver has heard so far.
struct Account<'a> {
    task: &'a Task,
    link: &'a FrameLink,
    outcome: FlowOutcome,
    tracker: Tracker,
    sizes: FrameSizes,
    /// Frames of the measured part by their place in the mix of sizes.
    places: Vec<u64>,
    /// Different frames of each flow, where there are several.
    flows: Vec<u64>,
    /// By the sender's end mark.
    sent: Option<u64>,
    counts: FrameCounts,
    /// When the last frame came, by the trial's clock.
    last_ns: u64,
    end_heard: bool,
    /// When the end was heard first. By AF_XDP it comes another way than the frames before it, and may overtake them.
    end_heard_ns: u64,
    delays: Delays,
}

impl<'a> Account<'a> {
    fn new(task: &'a Task, link: &'a FrameLink, timestamps: Timestamps) -> Account<'a> {
        let sizes = task.spec.frame_sizes();
        Account {
            task,
            link,
            outcome: task.blank(Role::Receiver),
            tracker: Tracker::new(),
            places: vec![0; sizes.sizes().len()],
            flows: if task.spec.flows > 1 { vec![0; task.spec.flows.into()] } else { Vec::new() },
            sent: None,
            sizes,
            counts: FrameCounts::default(),
            last_ns: 0,
            end_heard: false,
            end_heard_ns: 0,
            delays: Delays::new(timestamps, &task.clock),
        }
    }

    #[inline]
    fn handle_frame(&mut self, message: &Received<'_>, now: u64, arrived_ns: u64) {
        // The filter let it through by its secret and its stream; the rest is anybody's.
        let Some(frame) = TestFrame::parse(message.octets).filter(|frame| frame.kind == self.link.template.kind) else {
            self.counts.malformed += 1;
            return;
        };
        if frame.header.stream.has(StreamField::HANDSHAKE) {
            self.handle_handshake(&frame, now);
            return;
        }
        let number = self.tracker.number_near(frame.header.sequence.into());
        let size = self.sizes.of(number);
        let tags = self.link.template.vlans.count();
        if message.len + tags.saturating_sub(frame.tags) * TAG_LEN != without_fcs(size) {
            self.counts.malformed += 1;
            return;
        }
        let measured = !frame.header.stream.has(StreamField::WARMUP);
        let counts = self.task.clock.receiving(now).contains(now);
        let probe = Probe { sequence: number, measured, sent_at_ns: frame.header.sent_at_ns };
        let new = self.tracker.handle_datagram(&probe, arrived_ns);
        self.last_ns = now;
        self.outcome.messages_total += 1;
        self.outcome.octets_total += u64::from(size);
        if new && !self.flows.is_empty() {
            let flow = number / self.places.len() as u64 % self.flows.len() as u64;
            self.flows[flow as usize] += 1;
        }
        if new && measured {
            self.delays.handle(frame.header.sent_at_ns, arrived_ns, now);
            let place = number % self.places.len() as u64;
            self.places[place as usize] += 1;
        }
        if new && counts && !self.end_heard {
            self.outcome.messages += 1;
            self.outcome.octets += u64::from(size);
        }
    }

    #[cold]
    fn handle_handshake(&mut self, frame: &TestFrame<'_>, now: u64) {
        if let Some(sent) = answer(frame, self.task, self.link) {
            self.tracker.handle_end(sent);
            self.sent = self.sent.max(Some(sent));
            self.outcome.end_marks += 1;
            if !std::mem::replace(&mut self.end_heard, true) {
                self.end_heard_ns = now;
            }
            // Not an arrival of data, yet the link is alive: late ones may follow.
            self.last_ns = self.last_ns.max(1);
        }
    }

    fn publish(&self) {
        self.task.ledger.publish(self.outcome.octets_total, self.outcome.messages_total);
        self.task.ledger.publish_missing(self.tracker.missing());
    }

    /// Whether nothing more is to be expected.
    fn is_over(&self, now: u64) -> bool {
        let overdue = |window: Window| now > window.end_ns.saturating_add(END_PATIENCE_NS);
        (self.end_heard && now.saturating_sub(self.last_ns.max(self.end_heard_ns)) > LATE_NS)
            || self.task.clock.receiving_so_far().is_some_and(overdue)
    }

    fn finish(mut self) -> FlowOutcome {
        if let Some(window) = self.task.clock.receiving_so_far() {
            self.outcome.elapsed_ns = self.task.elapsed_ns(window, self.last_ns);
        }
        let socket = &self.task.open.socket;
        for (&size, &frames) in self.sizes.sizes().iter().zip(&self.places) {
            self.counts.add(size, frames);
        }
        if let Some(sent) = self.sent.filter(|_| !self.flows.is_empty()) {
            self.counts.flows = Some(FlowCounts::of(&self.flows, sent, self.places.len() as u64));
        }
        self.outcome.thread = thread_use();
        self.outcome.socket_buffer = socket.recv_buffer_size().ok().map(|octets| octets as u64);
        self.outcome.arrivals = Some(self.tracker.finish());
        self.outcome.latency = self.delays.finish();
        self.outcome.frames = Some(Box::new(self.counts));
        self.outcome
    }
}

/// Frames that came to the port and are not the trial's: somebody else's traffic, and the kernels' own.
struct Foreign {
    socket: Socket,
    batch: DatagramBatch,
    counts: FrameCounts,
}

impl Foreign {
    const BATCH: usize = 32;

    /// `None` where the system gives no socket for it; then nothing is known of them.
    fn open(link: &FrameLink) -> Option<Foreign> {
        let Template { kind, vlans, .. } = link.template;
        let wanted = filter::FrameMatch { kind, tags: vlans.count(), secret: link.secret };
        let socket = frames::open_receiver(link.port.index(), &filter::foreign(wanted)).ok()?;
        let batch = DatagramBatch::incoming(Foreign::BATCH, filter::FOREIGN_OCTETS as usize, 1);
        let counts = FrameCounts { foreign: Some(Vec::new()), ..FrameCounts::default() };
        Some(Foreign { socket, batch, counts })
    }

    /// Counts those that wait, a few calls' worth at most: the trial's own come first.
    fn read(&mut self) {
        for _ in 0..4 {
            if !wait_readable(&self.socket, Duration::ZERO).unwrap_or(false) {
                return;
            }
            let Ok(count) = self.batch.receive(&self.socket) else { return };
            for index in 0..count {
                let octets = self.batch.received(index).octets;
                if let Some(ethertype) = octets.get(12..14) {
                    self.counts.handle_foreign(u16::from_be_bytes([ethertype[0], ethertype[1]]));
                }
            }
        }
    }
}
