//! A stream of frames that an XDP program counts where they arrive: this thread hears the end mark, and looks at the counts.
//! Knows no frames; which are lost, late or malformed is the program's to say ([`crate::xdp::checker`]).

use std::io;
use std::time::Duration;

use linerate_trial::api::{ApiUse, ReceiverApi, Timestamps};
use linerate_trial::arrivals::Arrivals;
use linerate_trial::flow::Flow;
use linerate_trial::histogram::Histogram;
use linerate_trial::outcome::{FlowCounts, FlowOutcome, FrameCounts, Role};
use linerate_trial::spec::Extent;
use linerate_wire::frame::{FCS_LEN, TestFrame};

use super::learning::Learning;
use super::receive::{END_PATIENCE_NS, LATE_NS};
use super::{FrameLink, HANDSHAKE_FRAME, answer};
use crate::sys::datagrams::DatagramBatch;
use crate::sys::poll::wait_readable;
use crate::sys::thread::{monotonic_ns, thread_use};
use crate::traffic::TrafficError;
use crate::traffic::clock::{FinalDrain, Window};
use crate::traffic::task::Task;
use crate::xdp::checker::{Checker, Others, StreamCounts, TimeBucket};

/// Time between two looks at the counts.
const LOOK: Duration = Duration::from_millis(2);

/// Receives until the sender's end mark, and a little longer for what is late.
pub fn receive(task: Task) -> Result<FlowOutcome, TrafficError> {
    let Some(link) = task.open.frames.as_deref() else { return Err(TrafficError::Stopped) };
    let Some(checker) = link.port.checker() else { return Err(TrafficError::Stopped) };
    let what =
        |error: io::Error| TrafficError::Moving { what: "reading the counts of frames failed".to_owned(), error };
    let mut stream = Stream::begin(&task, link, checker).map_err(what)?;
    let mut leaving = FinalDrain::default();
    let mut learning = Learning::new(&task.spec, task.clock.now_ns());
    while !task.clock.aborted() {
        let brought = stream.look().map_err(what)?;
        let now = task.clock.now_ns();
        learning.handle_now(now, &task, link);
        if stream.is_over(now) || leaving.is_over(&task.clock, brought, now) {
            break;
        }
    }
    stream.finish().map_err(what)
}

/// What is known of a stream so far.
struct Stream<'a> {
    task: &'a Task,
    link: &'a FrameLink,
    checker: &'a Checker,
    heard: DatagramBatch,
    counts: StreamCounts,
    /// What others sent before the trial; of the first stream.
    others: Option<Others>,
    /// When the last frame was seen to have come, by the trial's clock.
    last_ns: u64,
    window_told: bool,
    sent: Option<u64>,
    end_marks: u64,
}

impl<'a> Stream<'a> {
    fn begin(task: &'a Task, link: &'a FrameLink, checker: &'a Checker) -> io::Result<Stream<'a>> {
        // One of several streams tells what is nobody's.
        let first = Flow::of(&task.spec).into_iter().find(|flow| flow.source != task.end);
        let others = (first == Some(task.open.flow)).then(|| checker.others()).transpose()?;
        Ok(Stream {
            task,
            link,
            checker,
            heard: DatagramBatch::incoming(1, HANDSHAKE_FRAME, 1),
            counts: StreamCounts::default(),
            others,
            last_ns: 0,
            window_told: false,
            sent: None,
            end_marks: 0,
        })
    }

    /// Waits a moment for the handshake, and looks at the counts. Returns whether frames have come.
    fn look(&mut self) -> io::Result<bool> {
        let socket = &self.task.open.socket;
        if wait_readable(socket, LOOK)?
            && self.heard.receive(socket).is_ok()
            && let Some(frame) = TestFrame::parse(self.heard.received(0).octets)
            && let Some(sent) = answer(&frame, self.task, self.link)
        {
            if self.sent.is_none() {
                self.checker.end_stream(self.task.open.flow.id)?;
            }
            self.sent = Some(self.sent.map_or(sent, |known| known.max(sent)));
            self.end_marks += 1;
            // Not an arrival of data, yet the link is alive: late ones may follow.
            self.last_ns = self.last_ns.max(1);
        }
        let before = seen(&self.counts);
        self.counts = self.checker.stream(self.task.open.flow.id)?;
        let has_come = seen(&self.counts) > before;
        if has_come {
            self.last_ns = self.task.clock.now_ns();
            self.tell_window()?;
        }
        let counts = &self.counts;
        self.task.ledger.publish(with_fcs(counts, counts.received()), counts.received());
        self.task.ledger.publish_missing(counts.next.saturating_sub(counts.received()));
        Ok(has_come)
    }

    /// Once the first frame has come, its time is known; once the first that is measured has, when the measured part ends.
    fn tell_window(&mut self) -> io::Result<()> {
        let Some(first_ns) = self.counts.first_ns.filter(|_| !self.window_told) else { return Ok(()) };
        let (now_ns, monotonic) = (self.task.clock.now_ns(), monotonic_ns());
        self.task.clock.receiving(now_ns.saturating_sub(monotonic.saturating_sub(first_ns)));
        let Some(measured_ns) = self.counts.first_measured_ns else { return Ok(()) };
        self.window_told = true;
        match self.task.spec.extent {
            Extent::Octets(_) => Ok(()),
            Extent::Time(time) => {
                let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
                self.checker.end_window(self.task.open.flow.id, measured_ns.saturating_add(ns))
            }
        }
    }

    /// Whether nothing more is to be expected.
    fn is_over(&self, now: u64) -> bool {
        let overdue = |window: Window| now > window.end_ns.saturating_add(END_PATIENCE_NS);
        (self.sent.is_some() && now.saturating_sub(self.last_ns) > LATE_NS)
            || self.task.clock.receiving_so_far().is_some_and(overdue)
    }

    fn finish(mut self) -> io::Result<FlowOutcome> {
        let id = self.task.open.flow.id;
        self.counts = self.checker.stream(id)?;
        let counts = &self.counts;
        let mut outcome = self.task.blank(Role::Receiver);
        if let Some(window) = self.task.clock.receiving_so_far() {
            outcome.elapsed_ns = self.task.elapsed_ns(window, self.last_ns);
        }
        outcome.messages = counts.measured.received.saturating_sub(counts.behind.outside);
        outcome.octets = (counts.measured.octets.saturating_sub(counts.behind.outside_octets))
            .saturating_add(FCS_LEN as u64 * outcome.messages);
        outcome.messages_total = counts.received();
        outcome.octets_total = with_fcs(counts, counts.received());
        outcome.end_marks = self.end_marks;
        outcome.thread = thread_use();
        outcome.api = ApiUse { name: ReceiverApi::Xdp.name().to_owned(), ..ApiUse::default() };
        outcome.timestamps = Some(Timestamps::Kernel);
        outcome.arrivals = Some(self.arrivals()?);
        outcome.frames = Some(Box::new(self.frames()?));
        Ok(outcome)
    }

    fn arrivals(&self) -> io::Result<Arrivals> {
        let counts = &self.counts;
        let id = self.task.open.flow.id;
        let mut arrivals = Arrivals {
            received: counts.measured.received,
            duplicated: counts.measured.duplicated,
            reordered: counts.measured.reordered,
            late: counts.behind.late,
            received_total: counts.received(),
            duplicated_total: counts.measured.duplicated + counts.warmup.duplicated,
            sent_by_end_mark: self.sent,
            gaps: histogram(&self.checker.times(id)?.buckets),
            ..Arrivals::default()
        };
        let behind_last = self.sent.unwrap_or(0).saturating_sub(counts.next);
        let mut runs = self.checker.leaps(id)?.unwrap_or_default();
        if behind_last > 0 {
            *runs.entry(behind_last).or_default() += 1;
        }
        // Where numbers came back that were leapt over, the runs are not known.
        let missing: u64 = runs.iter().map(|(length, count)| length.saturating_mul(*count)).sum();
        if missing == counts.next.saturating_add(behind_last).saturating_sub(counts.received()) {
            arrivals.loss_bursts = runs;
        }
        Ok(arrivals)
    }

    fn frames(&self) -> io::Result<FrameCounts> {
        let counts = &self.counts;
        let mut frames = FrameCounts {
            malformed: counts.malformed,
            taken: counts.received() + counts.measured.duplicated + counts.warmup.duplicated + counts.malformed,
            ..FrameCounts::default()
        };
        let sizes = self.task.spec.frame_sizes();
        match counts.places[..] {
            [] => frames.add(sizes.of(0), counts.measured.received),
            _ => sizes.sizes().iter().zip(&counts.places).for_each(|(size, count)| frames.add(*size, *count)),
        }
        let flows = self.checker.flows(self.task.open.flow.id)?;
        frames.flows =
            (self.sent.zip(flows)).map(|(sent, arrived)| FlowCounts::of(&arrived, sent, sizes.sizes().len() as u64));
        if let Some(before) = &self.others {
            let now = self.checker.others()?;
            frames.foreign = Some(Vec::new());
            let mut untold = now.strangers.saturating_sub(before.strangers);
            for (ethertype, count) in now.by_ethertype {
                let known = before.by_ethertype.iter().find(|(known, _)| *known == ethertype);
                let count = count - known.map_or(0, |(_, count)| *count);
                untold = untold.saturating_sub(count);
                if count > 0 {
                    frames.add_foreign(Some(ethertype), count);
                }
            }
            if untold > 0 {
                frames.add_foreign(None, untold);
            }
            // They have the trial's secret and are of none of its streams.
            frames.malformed = frames.malformed.saturating_add(now.strays.saturating_sub(before.strays));
            frames.taken = frames.taken.saturating_add(now.strays.saturating_sub(before.strays));
        }
        Ok(frames)
    }
}

/// Frames of the stream that came, copies and malformed ones too.
fn seen(counts: &StreamCounts) -> u64 {
    counts.received() + counts.measured.duplicated + counts.warmup.duplicated + counts.malformed
}

/// Octets of both parts, FCS counted.
fn with_fcs(counts: &StreamCounts, frames: u64) -> u64 {
    (counts.measured.octets + counts.warmup.octets).saturating_add(FCS_LEN as u64 * frames)
}

/// Each time stands in the middle of its bucket, which is less than 2 % wide.
fn histogram(buckets: &[TimeBucket]) -> Histogram {
    let mut histogram = Histogram::default();
    for bucket in buckets {
        let half = (bucket.to_ns - bucket.from_ns) / 2;
        histogram.record_n(bucket.from_ns.saturating_add(half), bucket.frames);
    }
    histogram
}
