//! What limited a stream in each slice.
//! Knows tcp_info's times, threads' times and queues; every slice is divided up without a rest, and what nothing shows is
//! unaccounted.

use linerate_machine::end::{Direction, End};
use linerate_machine::environment::{Environment, Nic};
use linerate_trial::timeline::{FlowColumn, MachineColumn, Timeline};

use super::slices::FlowSlices;
use super::{Limit, LimitSums, TimeLine, is_queued};

/// A direction of a stream, as both ends saw it.
pub(crate) struct Stream<'a> {
    pub(crate) direction: Direction,
    pub(crate) sender: End,
    /// The flows' numbers.
    pub(crate) flows: Vec<u16>,
    pub(crate) sent: &'a Timeline,
    pub(crate) received: &'a Timeline,
    /// The sender's machine and the receiver's.
    pub(crate) sending: &'a Environment,
    pub(crate) receiving: &'a Environment,
    pub(crate) is_tcp: bool,
    /// Its congestion control goes by a rate that it has measured, not by a window (BBR).
    pub(crate) paces: bool,
    /// What each flow was asked to send, octets of payload a second; absent of one that was to send as fast as it can.
    pub(crate) asked: Option<f64>,
    /// Octets of payload in a full segment of TCP.
    pub(crate) segment: f64,
    /// Octets of a message, or of a burst: so much more or less moves in a slice for no reason.
    pub(crate) grain: f64,
    /// The share of the sender's time that pause frames held its MAC back, where it tells.
    pub(crate) paused: f64,
}

/// A thread that ran, or wanted to, for this share of a slice had no time left.
const NO_TIME_LEFT: f64 = 0.85;
/// A rate counts as reached from this share on.
const REACHED: f64 = 0.97;
/// Slices within which a late sender makes good what it was short of.
const CATCHES_UP: usize = 3;
/// A CPU has nothing left for softirqs from this share of a slice on, per mille.
const SATURATED: u64 = 930;
/// From this share of what its speed allows an interface is full, preambles and gaps included.
const FULL: f64 = 0.95;
/// Of a queue that something empties as fast as it can, so much of the delivery rate that TCP sees now arrives in a whole slice, and so many
/// segments stand in it.
const PASSES: f64 = 0.7;
const QUEUED_SEGMENTS: f64 = 2.5;
/// A discipline whose rate is known, of which less than this is used, is not what keeps TCP back that loses segments.
const RATE_USED: f64 = 0.6;
/// A window is full when so many segments are missing in it at most, or an eighth: segments are sent in trains.
const NEARLY: u64 = 3;
/// After a loss TCP's window is what loss made of it for so many round trips, or slices.
const AFTER_LOSS: usize = 40;
/// tcp_info's tcpi_ca_state where the window was reduced for a mark of congestion: TCP_CA_CWR (linux/tcp.h).
const CWR: u64 = 2;
/// A thread that waits for a CPU for this share of a slice makes round trips long.
const STARVED: f64 = 0.15;
/// What limited so much of a slice limits the rest of it too, if nothing else shows.
const OFTEN: f64 = 0.05;
/// Preamble, start of frame, frame check sequence and gap (IEEE 802.3): octets that interfaces do not count.
const UNCOUNTED: f64 = 24.0;

/// The time budget of one direction; empty where nobody looked.
pub(crate) fn stream(stream: &Stream<'_>) -> Vec<TimeLine> {
    let mut sums = LimitSums::default();
    let mut flows = 0;
    for id in &stream.flows {
        let flow = OneFlow::new(stream, *id);
        if !flow.sent.is_watched() {
            continue;
        }
        flows += 1;
        for slice in 0..flow.sent.ends_ns.len() {
            flow.divide(slice, &mut sums);
        }
    }
    if flows == 0 { Vec::new() } else { sums.lines(stream.direction, f64::from(flows)) }
}

struct OneFlow<'a> {
    stream: &'a Stream<'a>,
    sent: FlowSlices<'a>,
    received: FlowSlices<'a>,
    shapes: bool,
    /// Octets a second that the slower of the two links carries, where both ends tell.
    link: Option<f64>,
    /// For each slice the last one until then with a retransmission, or in which the window was reduced for a mark.
    lossy: Vec<Option<usize>>,
    /// The same of reordering.
    reordered: Vec<Option<usize>>,
    /// Sent until the end of each slice.
    octets: Vec<f64>,
    /// Received until the end of each of the receiver's slices.
    arrived: Vec<f64>,
    /// Segments retransmitted until then, and those of them that had arrived already.
    retransmitted: Vec<f64>,
    spurious: Vec<f64>,
}

impl<'a> OneFlow<'a> {
    fn new(stream: &'a Stream<'a>, id: u16) -> OneFlow<'a> {
        let (sent, received) = (FlowSlices::of(stream.sent, id), FlowSlices::of(stream.received, id));
        let shapes = stream.sending.nic.as_ref().is_some_and(|nic| nic.rate_keeper().is_some());
        let speed = |environment: &Environment| {
            let nic = environment.nic.as_ref().filter(|nic| nic.kind.is_none())?;
            nic.speed_mbps.map(|mbit| f64::from(mbit) * 1e6 / 8.0)
        };
        let link = [speed(stream.sending), speed(stream.receiving)].into_iter().flatten().reduce(f64::min);
        let last = |is_so: &dyn Fn(usize) -> bool| -> Vec<Option<usize>> {
            let mut last = None;
            let step = |slice: usize| {
                last = is_so(slice).then_some(slice).or(last);
                last
            };
            (0..sent.ends_ns.len()).map(step).collect()
        };
        let counts = |column: FlowColumn, slice: usize| sent.flow(column, slice).is_some_and(|count| count > 0);
        let is_reduced = |slice: usize| sent.flow(FlowColumn::CongestionState, slice) == Some(CWR);
        let lossy = last(&|slice| counts(FlowColumn::Retransmitted, slice) || is_reduced(slice));
        let reordered = last(&|slice| counts(FlowColumn::Reordering, slice));
        let until_of = |seen: FlowSlices<'_>, column: FlowColumn| -> Vec<f64> {
            let step = |sum: &mut f64, slice: usize| {
                *sum += seen.flow(column, slice).unwrap_or(0) as f64;
                Some(*sum)
            };
            (0..seen.ends_ns.len()).scan(0.0, step).collect()
        };
        let until = |column: FlowColumn| until_of(sent, column);
        OneFlow {
            stream,
            sent,
            received,
            shapes,
            link,
            lossy,
            reordered,
            octets: until(FlowColumn::Octets),
            arrived: until_of(received, FlowColumn::Octets),
            retransmitted: until(FlowColumn::Retransmitted),
            spurious: until(FlowColumn::Spurious),
        }
    }

    fn sender(&self) -> Option<End> {
        Some(self.stream.sender)
    }

    fn receiver(&self) -> Option<End> {
        Some(self.stream.sender.other())
    }

    /// The receiver's slice at the same time.
    fn beside(&self, slice: usize) -> Option<usize> {
        let (start, end) = self.sent.span(slice);
        self.received.at(start + (end - start) / 2)
    }

    fn at_receiver(&self, column: FlowColumn, slice: usize) -> Option<u64> {
        self.received.flow(column, self.beside(slice)?)
    }

    fn at_receiving_machine(&self, column: MachineColumn, slice: usize) -> Option<u64> {
        self.received.machine(column, self.beside(slice)?)
    }

    /// Gives a slice's time to what limited the flow in it.
    fn divide(&self, slice: usize, sums: &mut LimitSums) {
        let span = self.sent.seconds(slice);
        let octets = self.sent.flow(FlowColumn::Octets, slice).unwrap_or(0) as f64;
        if let Some(asked) = self.stream.asked
            && (octets + 2.0 * self.stream.grain >= asked * span * REACHED || self.catches_up(slice, asked))
        {
            return sums.add(Limit::AskedRate, None, span);
        }
        if self.is_outage(slice, octets) {
            return sums.add(Limit::Outage, None, span);
        }
        match self.stream.is_tcp.then(|| self.tcp_times(slice, span)).flatten() {
            Some([idle, window, buffer, rest]) => {
                self.divide_idle(slice, span, idle, sums);
                self.divide_window(slice, window, sums);
                sums.add(Limit::SendBuffer, self.sender(), buffer);
                self.divide_rest(slice, [window, buffer, rest], sums);
            }
            // Of UDP, and of a TCP that does not tell: by what the thread did.
            None if self.stream.is_tcp => self.divide_rest(slice, [0.0, 0.0, span], sums),
            None => self.divide_datagrams(slice, span, sums),
        }
    }

    /// What a slice is short of the asked rate the next ones bring: the sender was late, and not held up.
    fn catches_up(&self, slice: usize, asked: f64) -> bool {
        let upto = |last: usize| -> Option<bool> {
            let octets = self.octets.get(last)? + 2.0 * self.stream.grain;
            Some(octets >= asked * self.sent.ends_ns[last] as f64 / 1e9 * REACHED)
        };
        (slice..slice + CATCHES_UP).any(|last| upto(last) == Some(true))
    }

    /// Nothing to send or on its way; limited by the receive window; by the send buffer; the rest. They sum to the slice.
    fn tcp_times(&self, slice: usize, span: f64) -> Option<[f64; 4]> {
        let of = |column| self.sent.flow_s(column, slice);
        let busy = of(FlowColumn::BusyUs)?.min(span);
        let window = of(FlowColumn::ReceiveWindowUs).unwrap_or(0.0).min(busy);
        let buffer = of(FlowColumn::SendBufferUs).unwrap_or(0.0).min(busy - window);
        Some([span - busy, window, buffer, busy - window - buffer])
    }

    /// Nothing was acknowledged or arrived, though the sender had something to send.
    fn is_outage(&self, slice: usize, octets: f64) -> bool {
        let is_down = |changes: Option<u64>| changes.is_some_and(|changes| changes > 0);
        if is_down(self.sent.machine(MachineColumn::CarrierChanges, slice))
            || is_down(self.at_receiving_machine(MachineColumn::CarrierChanges, slice))
        {
            return true;
        }
        let arrived = self.at_receiver(FlowColumn::Octets, slice);
        if !self.stream.is_tcp {
            // An end that has no CPU, or is stopped, is no outage of the path.
            return octets > 2.0 * self.stream.grain
                && arrived == Some(0)
                && self.sent.thread(slice).1 < 0.5
                && !self.receiver_had_no_cpu(slice)
                && self.at_receiving_machine(MachineColumn::LateUs, slice).is_none_or(|late| late < 20_000);
        }
        let waits = self.sent.flow(FlowColumn::InFlight, slice).is_some_and(|segments| segments > 0);
        let timed_out = self.sent.flow(FlowColumn::Backoff, slice).is_some_and(|backoff| backoff > 0)
            || self.sent.flow(FlowColumn::CongestionState, slice) == Some(4);
        waits && timed_out && arrived.map_or(octets == 0.0, |octets| octets == 0)
    }

    /// The sending program gave TCP nothing.
    fn divide_idle(&self, slice: usize, span: f64, idle: f64, sums: &mut LimitSums) {
        let (run, delay) = self.sent.thread(slice);
        let waited = (delay * span).min(idle);
        sums.add(Limit::SenderCpuWait, self.sender(), waited);
        let worked = (run * span).min(idle - waited);
        sums.add(Limit::SenderCpu, self.sender(), worked);
        sums.add(Limit::SendingApplication, self.sender(), idle - waited - worked);
    }

    fn receiver_had_no_cpu(&self, slice: usize) -> bool {
        self.beside(slice).is_some_and(|beside| self.received.thread(beside).1 >= 0.5)
    }

    /// The receiver's window was full: by its thread, or by its size.
    fn divide_window(&self, slice: usize, window: f64, sums: &mut LimitSums) {
        if window <= 0.0 {
            return;
        }
        let Some(beside) = self.beside(slice) else { return sums.add(Limit::ReceiveWindow, self.receiver(), window) };
        let (run, delay) = self.received.thread(beside);
        if run + delay < NO_TIME_LEFT {
            // What the window holds is the limit, but for the time in which its reader waited for a CPU.
            let waited = if delay >= 0.1 { window * delay } else { 0.0 };
            sums.add(Limit::ReceiverCpuWait, self.receiver(), waited);
            return sums.add(Limit::ReceiveWindow, self.receiver(), window - waited);
        }
        let waited = window * delay / (run + delay);
        sums.add(Limit::ReceiverCpuWait, self.receiver(), waited);
        sums.add(Limit::ReceiverCpu, self.receiver(), window - waited);
    }

    /// Data was there and both windows were open, or nobody tells: the path, the CPUs, or the congestion window.
    fn divide_rest(&self, slice: usize, [window, buffer, mut rest]: [f64; 3], sums: &mut LimitSums) {
        let span = self.sent.seconds(slice);
        if rest <= 0.0 {
            return;
        }
        let paused = rest * self.stream.paused.min(1.0);
        sums.add(Limit::Pause, self.sender(), paused);
        rest -= paused;
        let (run, delay) = self.sent.thread(slice);
        if run + delay >= NO_TIME_LEFT && !self.is_full_link(slice) {
            let waited = rest * delay / (run + delay);
            sums.add(Limit::SenderCpuWait, self.sender(), waited);
            return sums.add(Limit::SenderCpu, self.sender(), rest - waited);
        }
        let (limit, end) = match self.network_limit(slice) {
            // Between two fits of it: a window, or a buffer, that limits is full only until the next acknowledgement.
            (Limit::Unaccounted | Limit::WindowGrowth, _) if window >= OFTEN * span => {
                (Limit::ReceiveWindow, self.receiver())
            }
            (Limit::Unaccounted | Limit::WindowGrowth, _) if buffer >= OFTEN * span => {
                (Limit::SendBuffer, self.sender())
            }
            (Limit::Unaccounted, _) if self.stream.paces => (Limit::Pacing, None),
            other => other,
        };
        sums.add(limit, end, rest);
    }

    /// What kept back data that was ready to be sent.
    fn network_limit(&self, slice: usize) -> (Limit, Option<End>) {
        if self.is_full_link(slice) {
            return (Limit::LinkRate, None);
        }
        let recent = |last: &[Option<usize>]| last[slice].is_some_and(|last| slice - last <= AFTER_LOSS);
        let is_lossy = self.stream.is_tcp && recent(&self.lossy);
        if let Some(limit) = self.local_queue(slice) {
            return match limit {
                Limit::Shaper if is_lossy && self.leaves_rate_unused(slice) => (Limit::CongestionWindow, None),
                limit => (limit, self.sender()),
            };
        }
        let machine = |column| self.sent.machine(column, slice);
        if machine(MachineColumn::BusiestSoftirq).is_some_and(|share| share >= SATURATED) {
            return (Limit::Softirq, self.sender());
        }
        let at_receiver = self.at_receiving_machine(MachineColumn::BusiestSoftirq, slice);
        if at_receiver.is_some_and(|share| share >= SATURATED) {
            return (Limit::Softirq, self.receiver());
        }
        if self.beside(slice).is_some_and(|beside| self.received.share(FlowColumn::RunUs, beside) >= NO_TIME_LEFT) {
            return (Limit::ReceiverCpu, self.receiver());
        }
        if !self.stream.is_tcp {
            return (Limit::Unaccounted, None);
        }
        if self.queue_stands(slice) {
            // Packets wait as long for a thread, or for the softirqs of a CPU, that others have.
            let limit = if is_lossy && !self.is_queue_busy(slice) { Limit::CongestionWindow } else { Limit::Path };
            return self.starved(slice).unwrap_or((limit, None));
        }
        let flow = |column| self.sent.flow(column, slice);
        let is_window_full = match (flow(FlowColumn::InFlight), flow(FlowColumn::Cwnd)) {
            (Some(on_way), Some(cwnd)) => on_way.saturating_add(NEARLY.max(cwnd / 8)) >= cwnd,
            _ => false,
        };
        let state = flow(FlowColumn::CongestionState).unwrap_or(0);
        if recent(&self.reordered) && (is_window_full || state >= 1) && !self.lost_more_than_reordered(slice) {
            return (Limit::Reordering, None);
        }
        if is_lossy && (is_window_full || state >= 2) {
            return (Limit::CongestionWindow, None);
        }
        if is_window_full {
            let grows = flow(FlowColumn::Cwnd) < flow(FlowColumn::Ssthresh);
            let limit = if grows { Limit::SlowStart } else { Limit::WindowGrowth };
            return (limit, None);
        }
        (Limit::Unaccounted, None)
    }

    /// The end whose thread waited for a CPU more than by chance.
    fn starved(&self, slice: usize) -> Option<(Limit, Option<End>)> {
        let sender = self.sent.share(FlowColumn::RunDelayUs, slice);
        let receiver = self.beside(slice).map_or(0.0, |beside| self.received.share(FlowColumn::RunDelayUs, beside));
        match (sender >= STARVED, receiver >= STARVED) {
            (false, false) => None,
            _ if sender >= receiver => Some((Limit::SenderCpuWait, self.sender())),
            _ => Some((Limit::ReceiverCpuWait, self.receiver())),
        }
    }

    /// Most of what was retransmitted up to here was lost, and not merely late.
    fn lost_more_than_reordered(&self, slice: usize) -> bool {
        2.0 * self.spurious[slice] < self.retransmitted[slice]
    }

    /// The sender's interface, or the receiver's, carried what its speed allows.
    fn is_full_link(&self, slice: usize) -> bool {
        let Some(link) = self.link else { return false };
        let full = |octets: Option<u64>, packets: Option<u64>, span: f64| {
            let (Some(octets), Some(packets)) = (octets, packets) else { return false };
            (octets as f64 + packets as f64 * UNCOUNTED) / span.max(1e-9) >= link * FULL
        };
        let machine = |column| self.sent.machine(column, slice);
        let sent = full(machine(MachineColumn::TxOctets), machine(MachineColumn::TxPackets), self.sent.seconds(slice));
        let Some(beside) = self.beside(slice) else { return sent };
        let machine = |column| self.received.machine(column, beside);
        sent || full(machine(MachineColumn::RxOctets), machine(MachineColumn::RxPackets), self.received.seconds(beside))
    }

    /// What stands at the sender's own egress: a discipline that keeps to a rate, or a queue for the interface.
    fn local_queue(&self, slice: usize) -> Option<Limit> {
        let machine = |column| self.sent.machine(column, slice);
        let held = machine(MachineColumn::QdiscOverlimits).is_some_and(|times| times > 0);
        let stands = machine(MachineColumn::Backlog).is_some_and(|octets| octets > 0);
        let dropped = machine(MachineColumn::QdiscDropped).is_some_and(|frames| frames > 0);
        match (self.shapes && (held || stands), stands || dropped) {
            (true, _) => Some(Limit::Shaper),
            (false, true) => Some(Limit::Qdisc),
            (false, false) => None,
        }
    }

    /// Round trips take long because something waits between the ends.
    fn queue_stands(&self, slice: usize) -> bool {
        let flow = |column| self.sent.flow(column, slice);
        let (Some(now), Some(least)) = (flow(FlowColumn::RttUs), flow(FlowColumn::MinRttUs)) else { return false };
        is_queued(now as f64, least as f64)
    }

    /// Whether what emptied the queue had no time left, as far as a single flow tells: round trips of a small window, which loss keeps
    /// small, are long now and then as well.
    fn is_queue_busy(&self, slice: usize) -> bool {
        let flow = |column| self.sent.flow(column, slice);
        let (Some(now), Some(least), Some(rate)) =
            (flow(FlowColumn::RttUs), flow(FlowColumn::MinRttUs), flow(FlowColumn::DeliveryRate))
        else {
            return true;
        };
        let Some(arrives) = self.arrival_rate(slice).filter(|_| self.stream.flows.len() == 1 && !self.stream.paces)
        else {
            return true;
        };
        let queued_s = now.saturating_sub(least) as f64 / 1e6;
        arrives >= PASSES * rate as f64 && arrives * queued_s >= QUEUED_SEGMENTS * self.stream.segment
    }

    /// Octets a second that arrived in this slice and those beside it: what follows a loss is read late.
    fn arrival_rate(&self, slice: usize) -> Option<f64> {
        let beside = self.beside(slice)?;
        let (first, last) = (beside.saturating_sub(1), (beside + 1).min(self.arrived.len() - 1));
        let before = first.checked_sub(1).map_or(0.0, |before| self.arrived[before]);
        let seconds = (first..=last).map(|slice| self.received.seconds(slice)).sum::<f64>();
        (seconds > 0.0 && self.received.is_watched()).then(|| (self.arrived[last] - before) / seconds)
    }

    /// Whether the sender's discipline has a rate, dropped nothing itself, and let out much less than it may.
    fn leaves_rate_unused(&self, slice: usize) -> bool {
        let Some(rate) = self.stream.sending.nic.as_ref().and_then(Nic::kept_rate_bps) else { return false };
        let dropped = |slice| self.sent.machine(MachineColumn::QdiscDropped, slice).unwrap_or(0);
        let Some(octets) = self.sent.machine(MachineColumn::TxOctets, slice) else { return false };
        let is_below = octets as f64 * 8.0 < RATE_USED * rate as f64 * self.sent.seconds(slice);
        is_below && (0..self.sent.ends_ns.len()).all(|slice| dropped(slice) == 0)
    }

    /// Whether less was sent in all than asked, beyond what chance makes of random departures: a sender that is behind sleeps for nothing
    /// but room in its socket.
    fn falls_behind(&self, asked: f64) -> bool {
        let Some((end_ns, octets)) = self.sent.ends_ns.last().zip(self.octets.last()) else { return false };
        let by_chance = 2.0 * self.stream.grain * (self.octets.len() as f64).sqrt();
        octets + by_chance < asked * *end_ns as f64 / 1e9 * REACHED
    }

    /// A sender of datagrams that is slower than asked, or has no rate to keep to.
    fn divide_datagrams(&self, slice: usize, span: f64, sums: &mut LimitSums) {
        let of = |column| self.sent.flow_s(column, slice).map(|seconds| seconds.min(span));
        let Some(run) = of(FlowColumn::RunUs) else { return sums.add(Limit::Unaccounted, None, span) };
        let delay = (self.sent.thread(slice).1 * span).min(span - run);
        sums.add(Limit::SenderCpu, self.sender(), run);
        sums.add(Limit::SenderCpuWait, self.sender(), delay);
        let slept = span - run - delay;
        if slept < 0.02 * span {
            return sums.add(Limit::SenderCpu, self.sender(), slept);
        }
        // A thread that sends as fast as it can sleeps for nothing but room in its socket.
        let late = self.sent.machine(MachineColumn::LateUs, slice).is_some_and(|late| late as f64 / 1e6 >= slept / 2.0);
        let (limit, end) = match self.local_queue(slice) {
            _ if self.is_full_link(slice) => (Limit::LinkRate, None),
            Some(limit) => (limit, self.sender()),
            None if late => (Limit::SenderCpuWait, self.sender()),
            None if self.stream.asked.is_none_or(|asked| self.falls_behind(asked)) => (Limit::Qdisc, self.sender()),
            None => (Limit::SendingApplication, self.sender()),
        };
        sums.add(limit, end, slept);
    }
}
