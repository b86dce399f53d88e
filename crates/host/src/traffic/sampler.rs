//! Looks at a trial's flows and the machine's CPUs at every interval, and notices when nothing moves.
//! Knows what the flows publish, not what they do.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use linerate_machine::channel::Receiver;
use linerate_machine::cpu::CpuUse;
use linerate_machine::end::End;
use linerate_trial::doubt::{Doubt, Doubted};
use linerate_trial::early_stop::EarlyStop;
use linerate_trial::event::Event;
use linerate_trial::flow::Flow;
use linerate_trial::outcome::{CpuSlice, Slice};
use linerate_trial::spec::{Spec, Workload};
use linerate_trial::timeline::Timeline;
use socket2::{SockAddr, Socket};

use super::TrafficError;
use super::clock::{TrialClock, Window};
use super::events::Watcher;
use super::ledger::{Ledger, Reader};
use super::presence::Presence;
use super::tcp_counts::TcpCounts;
use super::tcp_info::tcp_sample;
use super::timeline::{FlowSampler, TimelineRecorder};
use crate::cpu::{CpuMeter, accounts_irq_by_ticks, doubt_irq_by_ticks};
use crate::interfaces;
use crate::others::{Others, OthersCpu};
use crate::profile::{Profiler, RawSamples, Running};
use crate::soak::{Soak, SoakMark};
use crate::sys::socket_state::TcpInfo;

/// How far a trial is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Since the start, nanoseconds.
    pub elapsed_ns: u64,
    /// Octets that this end sent so far, over all flows.
    pub octets_sent: u64,
    /// Octets that this end received so far, over all flows.
    pub octets_received: u64,
    /// More is lost than the trial was to bear, and this end sends no more.
    pub lost_too_much: bool,
}

/// What the sampler saw.
#[derive(Default)]
pub struct Sampled {
    /// CPU use over the measured part.
    pub cpu: Option<CpuUse>,
    /// CPU use in slices.
    pub cpu_slices: Vec<CpuSlice>,
    /// Each flow, in the order in which they were watched.
    pub flows: Vec<SampledFlow>,
    /// The measured part in short slices.
    pub timeline: Timeline,
    /// What happened meanwhile.
    pub events: Vec<Event>,
    /// Doubts about the CPU figures.
    pub doubts: Vec<Doubt>,
    /// What the CPUs did over the measured part, not named yet.
    pub profile: Option<RawSamples>,
    /// Set when the sampler stopped the trial because nothing moved.
    pub stalled: Option<TrafficError>,
    /// It ended the trial before its time, for more was lost than could be forgiven.
    pub ended_early: bool,
}

/// What was seen of a flow.
pub struct SampledFlow {
    /// Its slices.
    pub slices: Vec<Slice>,
    /// What it has moved in all.
    pub octets: u64,
    /// And in how many messages.
    pub messages: u64,
    /// What TCP counted, where this end sends; of others nothing.
    pub tcp_counts: TcpCounts,
}

/// The thread that samples.
pub struct Sampler {
    progress_ns: u64,
    interval_ns: u64,
    patience_ns: u64,
    clock: Arc<TrialClock>,
    end: End,
    soak: Option<Soak>,
    profiler: Option<Profiler>,
    interface: Option<String>,
    watched: Vec<Watched>,
    is_served: bool,
    /// Programs that take no part, before the traffic began.
    others: Option<Others>,
    spec: Arc<Spec>,
    sights: Vec<FlowSampler>,
    /// This end's and the other end's, of the test traffic.
    addresses: Option<(IpAddr, IpAddr)>,
    /// Whether so much is lost that nothing that still comes makes good for it; none once that is known.
    pub(super) early_stop: Option<EarlyStop>,
}

struct Watched {
    flow: Flow,
    /// Only of TCP flows that this end sends: what the kernel tells there changes. A receiver says by closing its socket
    /// that it has read everything, so that nobody else may hold it.
    tcp: Option<Socket>,
    tcp_counts: TcpCounts,
    ledger: Arc<Ledger>,
    reader: Reader,
    /// The counts at the end of the last slice.
    sliced: Reader,
    slices: Vec<Slice>,
    moved_ns: u64,
}

/// A flow that moves nothing for this long has stalled.
const PATIENCE_NS: u64 = 5_000_000_000;
/// The ledgers are looked at this often, whatever the interval, so that their counts do not wrap unseen.
const LOOK_NS: u64 = 500_000_000;
/// And this often where loss may end the trial.
const LOSS_LOOK_NS: u64 = 10_000_000;
const PROGRESS_NS: u64 = 1_000_000_000;
/// A server that has many clients wants to know soon which of them transfer nothing.
const SERVED_PROGRESS_NS: u64 = 100_000_000;
/// Share of a machine's time from which what a hypervisor takes is worth a doubt.
const MUCH_STOLEN: f64 = 0.01;
/// Share from which what other programs use is: service demand is wrong by as much.
const MUCH_OF_OTHERS: f64 = 0.05;

impl Sampler {
    /// A sampler of nothing yet.
    pub fn new(
        spec: &Arc<Spec>,
        clock: Arc<TrialClock>,
        end: End,
        soak: Option<Soak>,
        profiler: Option<Profiler>,
        interface: Option<String>,
    ) -> Sampler {
        let gap_ns = spec.rate.gap_ns(spec.message_octets().into()).unwrap_or(0.0) * f64::from(spec.burst);
        Sampler {
            interval_ns: u64::try_from(spec.interval.as_nanos()).unwrap_or(u64::MAX),
            patience_ns: PATIENCE_NS + (2.0 * gap_ns).min(1e12) as u64,
            progress_ns: PROGRESS_NS,
            clock,
            end,
            soak,
            profiler,
            interface,
            watched: Vec::new(),
            is_served: false,
            others: None,
            spec: Arc::clone(spec),
            sights: Vec::new(),
            addresses: None,
            early_stop: None,
        }
    }

    /// One of a client's test.
    pub fn of_served(self) -> Sampler {
        Sampler { progress_ns: SERVED_PROGRESS_NS, is_served: true, ..self }
    }

    /// Watches a flow too.
    pub fn watch(
        &mut self,
        flow: Flow,
        socket: &Socket,
        ledger: Arc<Ledger>,
        presence: Arc<Presence>,
    ) -> io::Result<()> {
        self.sights.push(FlowSampler::new(flow, self.end, presence));
        let ip = |address: io::Result<SockAddr>| Some(address.ok()?.as_socket()?.ip());
        self.addresses = self.addresses.or_else(|| ip(socket.local_addr()).zip(ip(socket.peer_addr())));
        let sends = flow.source == self.end;
        let tcp = (flow.workload == Workload::TcpStream && sends).then(|| socket.try_clone()).transpose()?;
        self.watched.push(Watched {
            flow,
            tcp,
            tcp_counts: TcpCounts::new(self.clock.now_ns()),
            ledger,
            reader: Reader::default(),
            sliced: Reader::default(),
            slices: Vec::new(),
            moved_ns: 0,
        });
        Ok(())
    }

    /// Samples until every flow has ended, which closes `all_ended`.
    pub fn run(mut self, all_ended: &Receiver<()>, notify: &impl Fn(Progress)) -> Sampled {
        let mut sampled = Sampled::default();
        // Before anything is measured: it takes some milliseconds on a machine of many processes.
        self.others = (!self.is_served).then(Others::look);
        let (sights, interface) = (std::mem::take(&mut self.sights), self.interface.clone());
        let mut cutter = TimelineRecorder::new(&self.spec, sights, interface.as_deref(), self.soak.is_some());
        if !self.clock.wait_for_start() {
            return sampled;
        }
        let mut started_ns = self.clock.now_ns();
        let mut watcher = Watcher::begin(self.end, interface.as_deref(), self.addresses, started_ns);
        self.watched.iter_mut().for_each(|watched| watched.moved_ns = started_ns);
        let mut progress_due = started_ns + self.progress_ns;
        let mut span: Option<Span> = None;
        let mut slept_ns = 0;
        let (mut is_begun, mut has_ended) = (false, false);
        loop {
            let now = self.clock.now_ns();
            // This thread may have come late, or the first data: what is told is of the seconds of the traffic.
            if !is_begun && let Some(window) = self.window() {
                is_begun = true;
                let is_first = progress_due == started_ns + self.progress_ns;
                if is_first {
                    started_ns = window.start_ns.saturating_sub(self.warmup_ns()).min(now);
                    progress_due = started_ns + self.progress_ns;
                }
            }
            if span.is_none()
                && let Some(window) = self.window()
                && now >= window.start_ns
            {
                self.catch_up(now);
                // What moved before this thread saw it is of the first slice, the timeline's too.
                let slice_start_ns = if self.spec.warmup.is_zero() {
                    window.start_ns
                } else {
                    self.watched.iter_mut().for_each(|watched| watched.sliced = watched.reader.clone());
                    now
                };
                if let Some(stop) = self.early_stop.as_mut().filter(|_| !self.spec.warmup.is_zero()) {
                    stop.begin(self.watched.iter().map(|watched| watched.reader.missing).sum());
                }
                let profile = self.profiler.take().and_then(|profiler| profiler.start().ok());
                let mark = || self.soak.as_ref().and_then(|soak| soak.mark().ok());
                let stat = || CpuMeter::start().ok();
                let slice = if self.soak.is_some() { SliceMeter::Soak(mark()) } else { SliceMeter::Stat(stat()) };
                let (soak, whole) = (mark(), stat());
                span = Some(Span { window, slice_start_ns, soak, whole, profile, slice, over: false });
                cutter.begin(window, now, self.watched.iter().map(|watched| &watched.sliced));
            }
            if now >= cutter.due_ns() {
                self.catch_up(now);
                // What this thread did itself before it slept is no lateness.
                let late_ns = now - cutter.due_ns().max(slept_ns).min(now);
                let signs = cutter.look(now, late_ns, self.watched.iter().map(|watched| &watched.reader));
                watcher.look(now, late_ns, signs);
                cutter.handle_cost(self.clock.now_ns() - now);
            }
            if let Some(span) = &mut span
                && !span.over
            {
                let next = span.slice_start_ns.saturating_add(self.interval_ns);
                if now >= next.min(span.window.end_ns) {
                    self.catch_up(now);
                    self.cut_slice(span, now, &mut sampled);
                    if now >= span.window.end_ns {
                        self.close(span, &mut sampled);
                    }
                }
            }
            let is_over = span.as_ref().is_some_and(|span| span.over);
            if self.stalled(now, is_over, &mut sampled) {
                self.clock.stop();
            }
            if span.is_some() && self.has_lost_too_much(now) {
                sampled.ended_early = true;
                self.clock.curtail();
                notify(Progress { lost_too_much: true, ..self.progress(now - started_ns) });
            }
            if now >= progress_due {
                self.catch_up(now);
                notify(self.progress(now - started_ns));
                progress_due += self.progress_ns;
            }
            if has_ended {
                break;
            }
            slept_ns = self.clock.now_ns();
            let next = self.next_look(now, span.as_ref(), progress_due.min(cutter.due_ns()));
            has_ended = all_ended.recv_timeout(Duration::from_nanos(next)) != Err(RecvTimeoutError::Timeout);
            // What ended before this thread saw it begin is looked at once more.
            if has_ended && span.is_some() {
                break;
            }
        }
        if let Some(span) = &mut span
            && !span.over
        {
            let now = self.clock.now_ns();
            self.catch_up(now);
            let signs = cutter.close(now, self.watched.iter().map(|watched| &watched.reader));
            signs.into_iter().for_each(|signs| watcher.look(now, 0, signs));
            self.cut_slice(span, now, &mut sampled);
            self.close(span, &mut sampled);
        }
        sampled.timeline = cutter.finish();
        let window = span.map(|span| span.window).or_else(|| self.window()).unwrap_or_else(|| self.clock.sending());
        sampled.events = watcher.finish(window.start_ns);
        // Of a trial that fails nothing else says how far it was.
        let now = self.clock.now_ns();
        self.catch_up(now);
        notify(self.progress(now - started_ns));
        let flow = |Watched { slices, reader, tcp_counts, .. }| SampledFlow {
            slices,
            octets: reader.octets,
            messages: reader.messages,
            tcp_counts,
        };
        sampled.flows = self.watched.into_iter().map(flow).collect();
        sampled
    }

    /// The measured part by this end's clock: of what it sends, if it sends; else of what it receives.
    fn window(&self) -> Option<Window> {
        let sends = self.watched.iter().any(|watched| !watched.flow.probe && watched.flow.source == self.end);
        if sends { Some(self.clock.sending()) } else { self.clock.receiving_so_far() }
    }

    fn warmup_ns(&self) -> u64 {
        u64::try_from(self.spec.warmup.as_nanos()).unwrap_or(u64::MAX)
    }

    /// Nanoseconds to sleep.
    fn next_look(&self, now: u64, span: Option<&Span>, progress_due: u64) -> u64 {
        let next = match (span, self.window()) {
            (Some(span), _) if span.over => now + LOOK_NS,
            (Some(span), _) => span.slice_start_ns.saturating_add(self.interval_ns).min(span.window.end_ns),
            (None, Some(window)) => window.start_ns,
            // The first data is not here yet; its arrival rings no bell.
            (None, None) => now + 1_000_000,
        };
        let look = if self.early_stop.is_some() { LOSS_LOOK_NS } else { LOOK_NS };
        next.min(progress_due).min(now + look).saturating_sub(now).max(1)
    }

    fn catch_up(&mut self, now: u64) {
        for watched in &mut self.watched {
            let before = watched.reader.messages + watched.reader.octets;
            watched.reader.catch_up(&watched.ledger);
            if watched.reader.messages + watched.reader.octets != before {
                watched.moved_ns = now;
            }
            if watched.tcp_counts.is_due(now)
                && let Some(info) = watched.tcp.as_ref().and_then(|socket| TcpInfo::of(socket).ok())
            {
                watched.tcp_counts.handle_info(&info, now, watched.reader.octets);
            }
        }
    }

    fn cut_slice(&mut self, span: &mut Span, now: u64, sampled: &mut Sampled) {
        let (start_ns, end_ns) = (span.slice_start_ns - span.window.start_ns, now - span.window.start_ns);
        // A sliver at the end, left by a late wake-up, would be a slice of noise.
        if end_ns - start_ns < self.interval_ns / 100 {
            return;
        }
        for watched in &mut self.watched {
            let missing = watched.reader.missing as i64 - watched.sliced.missing as i64;
            let is_udp_receiver = watched.flow.workload.is_numbered() && watched.flow.source != self.end;
            watched.slices.push(Slice {
                start_ns,
                end_ns,
                octets: watched.reader.octets - watched.sliced.octets,
                messages: watched.reader.messages - watched.sliced.messages,
                missing: is_udp_receiver.then_some(missing),
                tcp: watched.tcp.as_ref().and_then(tcp_sample),
            });
            watched.sliced = watched.reader.clone();
        }
        // While soaking threads fill the idle time, /proc/stat sees a busy machine.
        let usage = match (&self.soak, &mut span.slice) {
            (Some(soak), SliceMeter::Soak(mark)) => {
                let usage = mark.as_ref().and_then(|mark| soak.read(mark).ok()).map(|reading| reading.usage);
                *mark = soak.mark().ok();
                usage
            }
            (_, SliceMeter::Stat(meter)) => meter.as_mut().and_then(|meter| meter.read_and_restart().ok()),
            _ => None,
        };
        if let Some(usage) = usage {
            sampled.cpu_slices.push(CpuSlice { start_ns, end_ns, machine: usage.machine });
        }
        span.slice_start_ns = now;
    }

    fn close(&mut self, span: &mut Span, sampled: &mut Sampled) {
        span.over = true;
        let by_stat = span.whole.as_ref().and_then(|meter| meter.read().ok());
        sampled.profile = span.profile.take().and_then(Running::finish);
        if let Some(reading) = self.soak.as_ref().zip(span.soak.as_ref()).and_then(|(soak, mark)| soak.read(mark).ok())
        {
            sampled.cpu = Some(reading.usage);
            sampled.doubts.extend(reading.doubts);
        } else if let Some(use_) = by_stat {
            sampled.doubts.extend((accounts_irq_by_ticks() == Some(true)).then(doubt_irq_by_ticks));
            sampled.cpu = Some(use_);
        }
        if let Some(steal) = sampled.cpu.as_ref().map(|cpu| cpu.machine.steal).filter(|steal| *steal > MUCH_STOLEN) {
            sampled.doubts.push(Doubted::NoisyMachine { steal }.into());
        }
        let busy = self.others.take().zip(sampled.cpu.as_ref()).and_then(|(others, cpu)| others.busy_since(cpu.cpus));
        if let Some(OthersCpu { share, real_time, most }) = busy.filter(|busy| busy.share > MUCH_OF_OTHERS) {
            let [share, real_time] = [share, real_time].map(|share| (share * 100.0).round() / 100.0);
            let real_time = Some(real_time).filter(|share| *share > 0.0);
            sampled.doubts.push(Doubted::BusyMachine { share, real_time, most }.into());
        }
        // The soaking threads end here: they have nothing more to say, and the CPUs are others' again.
        self.soak = None;
    }

    /// Flows may stand still for so much longer.
    pub fn bear_silence(&mut self, silence: Duration) {
        self.patience_ns = self.patience_ns.saturating_add(silence.as_nanos() as u64);
    }

    /// Whether each of the trial's flows ends when its time is over, whatever became of it: receivers of datagrams wait for a mark of
    /// the end over a way that may lose it, and both ends of a stream that has a time know when that is.
    fn flows_end_alone(&self) -> bool {
        let ends_alone = match self.spec.workload {
            Workload::UdpStream | Workload::Frames => true,
            Workload::TcpStream => self.spec.expected_time().is_some(),
            Workload::TcpRr | Workload::UdpRr | Workload::TcpCrr => false,
        };
        ends_alone && !self.is_served
    }

    /// Whether nothing has moved for too long, in any flow that must go on; `is_over`: all of the time has been measured.
    fn stalled(&mut self, now: u64, is_over: bool, sampled: &mut Sampled) -> bool {
        if sampled.stalled.is_some() || self.clock.stopped() {
            return false;
        }
        self.catch_up(now);
        // A thread that has ended holds its ledger no more; it cannot stall.
        let still = self.watched.iter().filter(|watched| Arc::strong_count(&watched.ledger) > 1);
        let is_silent = |watched: &&Watched| now.saturating_sub(watched.moved_ns) >= self.patience_ns;
        // A flow that ends by itself does so some time after the trial's time; of many, some may go on till then.
        if self.flows_end_alone() && (is_over || !still.clone().all(|watched| is_silent(&watched))) {
            return false;
        }
        let mut silent = still.filter(is_silent);
        let Some(since_ns) = silent.clone().map(|watched| watched.moved_ns).min() else { return false };
        let is_down = |interface: &&String| interfaces::carrier(interface) == Some(false);
        let no_carrier = self.interface.as_ref().filter(is_down).map(|interface| (self.end, interface.clone()));
        // A request over UDP that is lost is counted, and the next one sent, until the time is over. When that is, a stranger does
        // not say.
        let goes_on = |watched: &Watched| {
            let ends = watched.flow.source == self.end || !self.is_served;
            watched.flow.workload == Workload::UdpRr && watched.reader.messages > 0 && ends
        };
        if no_carrier.is_none() && silent.all(goes_on) {
            return false;
        }
        let silent_s = now.saturating_sub(since_ns) as f64 / 1e9;
        sampled.stalled = Some(TrafficError::Stalled { silent_s, no_carrier });
        true
    }

    /// Whether nothing that still comes makes good for what is lost; once.
    fn has_lost_too_much(&mut self, now: u64) -> bool {
        if self.early_stop.is_none() || self.clock.is_curtailed() {
            return false;
        }
        self.catch_up(now);
        let missing = self.watched.iter().map(|watched| watched.reader.missing).sum();
        let is_decided = self.early_stop.as_mut().is_some_and(|stop| stop.handle_missing(missing, now));
        if is_decided {
            self.early_stop = None;
        }
        is_decided
    }

    fn progress(&mut self, elapsed_ns: u64) -> Progress {
        let sum = |sends: bool| {
            let mine = self.watched.iter().filter(|watched| (watched.flow.source == self.end) == sends);
            mine.map(|watched| watched.reader.octets).sum()
        };
        Progress { elapsed_ns, octets_sent: sum(true), octets_received: sum(false), lost_too_much: false }
    }
}

/// The measured part as it is being sampled.
struct Span {
    window: Window,
    slice_start_ns: u64,
    soak: Option<SoakMark>,
    whole: Option<CpuMeter>,
    profile: Option<Running>,
    slice: SliceMeter,
    over: bool,
}

/// What measures the CPUs in the present slice.
enum SliceMeter {
    Stat(Option<CpuMeter>),
    Soak(Option<SoakMark>),
}
