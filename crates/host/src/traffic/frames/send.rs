//! A stream of frames on its way out: numbered, at an even pace or as fast as they go.
//! Knows one socket; a frame counts as sent when the kernel has taken it, and none is numbered twice.

use std::io::{self, ErrorKind};
use std::time::Duration;

use linerate_trial::api::{ApiUse, SenderApi};
use linerate_trial::departures::Departures;
use linerate_trial::frames::FrameSizes;
use linerate_trial::outcome::{FlowOutcome, FrameCounts, Role};
use linerate_trial::pace::Pacer;
use linerate_trial::spec::Extent;
use linerate_wire::HandshakeKind;
use linerate_wire::frame::{FCS_LEN, TestFrame};

use super::delay::epoch_ns;
use super::outward::{BATCH, Outward};
use super::{FrameLink, HANDSHAKE_FRAME, expect, hear};
use crate::sys::datagrams::DatagramBatch;
use crate::sys::poll::wait_readable;
use crate::sys::thread::thread_use;
use crate::traffic::TrafficError;
use crate::traffic::task::Task;
use crate::traffic::wait::wait_until;

/// How long a send may block before the thread looks whether it should end.
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// Between two end marks.
const END_PERIOD: Duration = Duration::from_millis(5);
/// How long the sender tries to make its end heard: a queue of some seconds may stand before it.
const END_PATIENCE_NS: u64 = 4_000_000_000;
/// Frames to a system call of AF_XDP, unless the user says otherwise: they cost less beside their frames' cost.
const XDP_BATCH: usize = 64;
/// How long what the kernel was given may take until it has left, once no more follows.
const DRAIN_NS: u64 = 100_000_000;

/// Sends until the time is over, or the octets are sent.
pub fn send(task: Task, api: SenderApi) -> Result<FlowOutcome, TrafficError> {
    let mut outcome = task.blank(Role::Sender);
    let Some(link) = task.open.frames.as_deref() else { return Err(TrafficError::Stopped) };
    let spec = &task.spec;
    let sizes = &spec.frame_sizes();
    let limit = match spec.extent {
        Extent::Octets(octets) => sizes.holding(octets),
        Extent::Time(_) => u64::MAX,
    };
    let xdp = link.xdp.lock().take();
    let mut outward = Outward::new(link, spec, xdp, task.open.flow.id, epoch_ns(&task.clock));
    wait_for_start(&task, link)?;
    link.out.set_write_timeout(Some(LOOK_AGAIN)).map_err(TrafficError::System)?;
    let window = task.clock.sending();
    let mut now = task.clock.now_ns();
    let mut pacer = task.pacer(spec.message_octets().into(), now);
    let usual = if api == SenderApi::AfXdp { XDP_BATCH } else { BATCH };
    let most = spec.batch.map_or(usual, |batch| batch as usize);
    let mut sent = Sent { sizes, sequence: 0, first_measured: None, departures: Departures::default() };
    let mut refused_before = 0;
    while sent.sequence < limit && !task.clock.stopped() {
        let departs = |pacer: &Pacer| wait_until(&task.clock, pacer.next_departure_ns().min(window.end_ns));
        let is_due = pacer.as_ref().is_none_or(departs);
        now = task.clock.now_ns();
        if !is_due || now >= window.end_ns {
            break;
        }
        // What was given to the kernel in the warm-up is taken before anything is measured.
        let behind = if window.contains(now) { outward.untaken_of_warmup() } else { 0 };
        let measured = window.contains(now) && behind == 0;
        if measured && sent.first_measured.is_none() && sent.sequence > 0 {
            sent.first_measured = Some(sent.sequence);
            refused_before = outcome.send_retries;
            link.port.handle_measured();
        }
        let due = pacer.as_ref().map_or(most, |pacer| due(pacer, now, most));
        let due = if behind > 0 { behind } else { due };
        let count = (due as u64).min(limit - sent.sequence) as usize;
        outcome.calls += 1;
        let taken = match outward.send(&link.out, sent.sequence, count, measured, now) {
            Ok(taken) => taken as u64,
            Err(error) if is_full(&error) => {
                // It was not taken: the same number goes again.
                outcome.send_retries += u64::from(is_refused_below(&error));
                std::thread::yield_now();
                continue;
            }
            Err(error) => return Err(link.cannot_send(spec, error)),
        };
        outcome.send_retries += outward.take_refused();
        sent.handle_taken(&mut outcome, taken, measured.then_some(now));
        task.ledger.publish(outcome.octets_total, outcome.messages_total);
        if let Some(pacer) = &mut pacer {
            pacer.handle_now(now);
            (0..taken).for_each(|_| pacer.handle_sent());
        }
    }
    // What the kernel was given leaves, sooner or later, and is not to be sent twice.
    let until = task.clock.now_ns().saturating_add(DRAIN_NS);
    while outward.untaken() > 0 && task.clock.now_ns() < until {
        let is_of_warmup = outward.untaken_of_warmup() > 0;
        let taken = outward.send(&link.out, sent.sequence, outward.untaken(), !is_of_warmup, now).unwrap_or(0) as u64;
        sent.handle_taken(&mut outcome, taken, (!is_of_warmup).then_some(now));
    }
    outcome.elapsed_ns = task.elapsed_ns(window, now);
    outcome.departure_gaps = sent.departures.finish();
    outcome.thread = thread_use();
    outcome.api = ApiUse {
        name: api.name().to_owned(),
        batch: most as u32,
        message_octets: Some(spec.message_octets()),
        jumped_over: match api {
            SenderApi::PacketBypass | SenderApi::AfXdp => link.port.qdisc().map(|qdisc| qdisc.kind),
            _ => None,
        },
        zero_copy: outward.zero_copy(),
        ..ApiUse::default()
    };
    outcome.socket_buffer = link.out.send_buffer_size().ok().map(|octets| octets as u64);
    let mut counts = FrameCounts::default();
    let first = sent.first_measured.unwrap_or(sent.sequence);
    add_sizes(&mut counts, sizes, first, first + outcome.messages);
    outcome.frames = Some(Box::new(counts));
    say_end(&task, link, sent.sequence, &mut outcome)?;
    link.port.handle_refused(api, [outcome.send_retries - refused_before, outcome.send_retries]);
    Ok(outcome)
}

/// The frames that the kernel has taken.
struct Sent<'a> {
    sizes: &'a FrameSizes,
    /// The next one's number.
    sequence: u64,
    /// The number of the first that is measured.
    first_measured: Option<u64>,
    departures: Departures,
}

impl Sent<'_> {
    /// It took so many more; `measured`: the time, where they are not the warm-up's.
    #[inline]
    fn handle_taken(&mut self, outcome: &mut FlowOutcome, taken: u64, measured: Option<u64>) {
        if let Some(now) = measured {
            let first = *self.first_measured.get_or_insert(self.sequence);
            self.departures.handle_sent(now, taken);
            outcome.messages += taken;
            outcome.octets = self.sizes.octets(self.sequence + taken) - self.sizes.octets(first);
        }
        self.sequence += taken;
        outcome.messages_total = self.sequence;
        outcome.octets_total = self.sizes.octets(self.sequence);
    }
}

/// Counts the frames with numbers from `first` to `end`, which is left out, by their sizes.
pub(super) fn add_sizes(counts: &mut FrameCounts, sizes: &FrameSizes, first: u64, end: u64) {
    let turn = sizes.sizes().len() as u64;
    for (place, &size) in (0..).zip(sizes.sizes()) {
        // Numbers below `end` that stand at this place of the mix.
        let below = |end: u64| (end + turn - 1 - place) / turn;
        counts.add(size, below(end) - below(first));
    }
}

/// How many of the frames are due at `now`; one at least.
#[inline]
fn due(pacer: &Pacer, now: u64, most: usize) -> usize {
    let mut ahead = pacer.clone();
    ahead.handle_now(now);
    let mut count = 1;
    ahead.handle_sent();
    while count < most && ahead.next_departure_ns() <= now {
        ahead.handle_sent();
        count += 1;
    }
    count
}

/// No room now: in the socket's buffer, or below it. The kernel sent nothing of the first frame, and said so.
fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) || is_refused_below(error)
}

/// No room in the queueing discipline or in the driver's ring, whose counters take it for a drop (net/packet/af_packet.c,
/// packet_xmit).
fn is_refused_below(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOBUFS | libc::ENOMEM))
}

/// Waits for the start while answering hellos that the other end repeats because an answer was lost.
pub(super) fn wait_for_start(task: &Task, link: &FrameLink) -> Result<(), TrafficError> {
    let flow = task.open.flow;
    if flow.listener() != task.end {
        return if task.clock.wait_for_start() { Ok(()) } else { Err(TrafficError::Stopped) };
    }
    let mut batch = DatagramBatch::incoming(1, HANDSHAKE_FRAME, 1);
    while !task.clock.started() {
        if task.clock.stopped() {
            return Err(TrafficError::Stopped);
        }
        let socket = &task.open.socket;
        let readable = wait_readable(socket, Duration::from_millis(1)).map_err(TrafficError::System)?;
        if readable
            && batch.receive(socket).is_ok()
            && let Some(frame) = TestFrame::parse(batch.received(0).octets)
            && expect(&frame, HandshakeKind::Hello, flow, &task.tokens.hello).is_some()
        {
            let _ = link.say(flow, HandshakeKind::Answer, &task.tokens.answer, 0);
        }
    }
    Ok(())
}

/// Sends the end mark until the other end has heard it; gives up in silence, for the receiver will say so.
pub(super) fn say_end(task: &Task, link: &FrameLink, sent: u64, outcome: &mut FlowOutcome) -> Result<(), TrafficError> {
    let (flow, tokens) = (task.open.flow, &task.tokens);
    let deadline = task.clock.now_ns() + END_PATIENCE_NS;
    while !task.clock.stopped() && task.clock.now_ns() < deadline {
        match link.say(flow, HandshakeKind::End, &tokens.hello, sent) {
            Ok(()) => outcome.end_marks += 1,
            Err(error) => outcome.send_retries += u64::from(is_refused_below(&error)),
        }
        if hear(&task.open.socket, END_PERIOD, flow, HandshakeKind::EndHeard, &tokens.answer)?.is_some() {
            return Ok(());
        }
    }
    Ok(())
}

/// Octets of a frame in Linux's hands.
pub(super) const fn without_fcs(size: u32) -> usize {
    size as usize - FCS_LEN
}
