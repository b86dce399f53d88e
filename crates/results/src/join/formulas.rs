//! The figures of a trial from what both ends saw: each formula stands here and nowhere else.

use std::collections::BTreeMap;

use linerate_machine::cpu::{CpuUse, PROC_STAT, is_long_enough};
use linerate_machine::end::{Direction, End, PerEnd};
use linerate_machine::environment::Environment;
use linerate_machine::profile::Profile;
use linerate_trial::api::ApiUse;
use linerate_trial::arrivals::Arrivals;
use linerate_trial::doubt::{Doubt, DoubtKind, Doubted, SenderLimit};
use linerate_trial::flow::Flow;
use linerate_trial::histogram::{Histogram, PERCENTILES};
use linerate_trial::outcome::{FlowOutcome, Outcome, Role, SizeCount, Slice, TcpSummary, ThreadUse};
use linerate_trial::spec::{Extent, Spacing, Spec, Workload};
use linerate_trial::wire::IpVersion;

use crate::middle::Middle;
use crate::profile::MachineProfile;
use crate::record::{
    Directions, Figures, FlowFigures, FrameFigures, FrameSize, Interval, Latency, Record, ServiceDemand, StreamFigures,
};

use super::pair::Pair;
use super::send_counts::{Part, SendCounts};
use crate::profile::account::{Work, account};
use crate::total::Total;

pub(super) struct Joined<'a> {
    pub(super) spec: &'a Spec,
    pub(super) pairs: Vec<Pair<'a>>,
    pub(super) target: &'a Outcome,
    pub(super) host: &'a Outcome,
}

impl Joined<'_> {
    pub(super) fn fill(&self, record: &mut Record) {
        let main: Vec<Pair<'_>> = self.pairs.iter().copied().filter(|pair| !pair.flow.probe).collect();
        let mut doubts = self.doubts_of_ends();
        if main.is_empty() {
            record.duration_s = self.one_sided().map(|flow| flow.elapsed_ns).max().map(|ns| ns as f64 / 1e9);
            let unknown = FlowOutcome::new(0, Role::Sender);
            let sent = self.told_by(Role::Sender, &unknown);
            doubts.extend(self.doubt_load(&sent, [&record.target.environment, &record.host.environment]));
            record.doubts = doubts;
            let received = self.told_by(Role::Receiver, &unknown);
            let flow = if received.is_empty() { self.sent_figures(&sent) } else { received_figures(&received) };
            let service_demand = self.service_demand(&received);
            record.intervals = self.intervals(&received);
            record.result = Some(Figures { flow, service_demand, ..Figures::default() });
            return;
        }
        // Where one end tells nothing of one of two directions, as an iperf2 client of the datagrams that it received, what is known of
        // the other is no figure of both.
        let is_half =
            self.spec.direction == Direction::Both && main.iter().all(|pair| pair.flow.source == main[0].flow.source);
        let flow = if is_half { FlowFigures::default() } else { self.flow_figures(&main) };
        let mut figures = Figures { flow, ..Figures::default() };
        if !self.spec.workload.is_stream() {
            let asked = main.iter().map(|pair| (pair.flow.source, pair.source.messages, pair.source));
            figures.transactions_per_s = Some(total_rate(asked));
        }
        figures.latency = self.latency(&main);
        if record.target.environment.is_machine_of(&record.host.environment) {
            figures.one_way = self.one_way(&main);
        }
        if self.spec.direction == Direction::Both && self.spec.workload.is_stream() {
            let of = |source| -> Vec<Pair<'_>> { main.iter().copied().filter(|p| p.flow.source == source).collect() };
            figures.directions =
                Some(Directions { tx: self.flow_figures(&of(End::Target)), rx: self.flow_figures(&of(End::Host)) });
        }
        if main.len() > 1 && self.spec.streams > 1 {
            figures.streams = main
                .iter()
                .map(|pair| StreamFigures {
                    id: pair.flow.id,
                    direction: pair.flow.direction(),
                    flow: self.flow_figures(&[*pair]),
                })
                .collect();
        }
        figures.service_demand = self.service_demand(&main);
        doubts.extend(self.doubt_load(&main, [&record.target.environment, &record.host.environment]));
        doubts.extend(self.doubt_parts(&main));
        let shared = record.target.environment.is_machine_of(&record.host.environment);
        if shared {
            doubts.push(Doubted::SharedMachine.into());
        }
        if self.spec.workload == Workload::UdpStream {
            let ends = [&record.target.environment, &record.host.environment];
            let fragments = main.iter().map(|pair| fragments(self.spec, sending(pair, ends))).max().unwrap_or(1);
            if fragments > 1 {
                doubts.push(Doubted::Fragmented { octets: self.spec.message_octets(), fragments }.into());
            }
        }
        doubts.extend(self.follow_packets(&main, shared, record));
        record.duration_s = main.iter().map(|pair| self.timed(pair).elapsed_ns).max().map(|ns| ns as f64 / 1e9);
        record.intervals = self.intervals(&main);
        self.follow_time(&main, record);
        record.doubts = doubts;
        record.result = Some(figures);
    }

    /// Of a trial that failed: what there is in time.
    pub(super) fn fill_partial(&self, record: &mut Record) {
        let main: Vec<Pair<'_>> = self.pairs.iter().copied().filter(|pair| !pair.flow.probe).collect();
        let unknown = FlowOutcome::new(0, Role::Sender);
        let pairs = if main.is_empty() { self.told_by(Role::Receiver, &unknown) } else { main };
        record.intervals = self.intervals(&pairs);
        self.follow_time(&pairs, record);
    }

    /// Flows of which one end has told: another tool does not say what it received.
    fn one_sided(&self) -> impl Iterator<Item = &FlowOutcome> {
        self.target.flows.iter().chain(&self.host.flows)
    }

    /// What is known of streams whose receivers told nothing: no throughput, and no loss.
    fn sent_figures(&self, pairs: &[Pair<'_>]) -> FlowFigures {
        let senders: Vec<&FlowOutcome> = pairs.iter().map(|pair| pair.source).collect();
        let mut figures = FlowFigures::default();
        if senders.is_empty() {
            return figures;
        }
        let summaries: Vec<&TcpSummary> = senders.iter().filter_map(|flow| flow.tcp.as_ref()).collect();
        figures.tcp = combine(&summaries);
        figures.sender_api = ApiUse::combine(senders.iter().map(|flow| &flow.api));
        figures.send_calls = senders.iter().map(|flow| calls(flow)).total();
        figures.pacing = senders.iter().find_map(|flow| flow.pacing);
        figures.departure_gaps =
            merged(&senders.iter().filter_map(|flow| flow.departure_gaps.as_ref()).collect::<Vec<_>>());
        figures.achieved_load_bps = Some(8.0 * total_rate(pairs.iter().map(Pair::sent)));
        figures.octets_sent = Some(senders.iter().map(|flow| flow.octets).total());
        figures.path_mtu = senders.iter().filter_map(|flow| flow.path_mtu).min();
        if self.spec.workload.is_numbered() {
            figures.packets_sent = Some(senders.iter().map(|flow| flow.messages).total());
        }
        figures
    }

    /// Streams of which the ends with this role alone have told.
    fn told_by<'p>(&'p self, role: Role, unknown: &'p FlowOutcome) -> Vec<Pair<'p>> {
        let pair = |flow: Flow| {
            let told = self.one_sided().find(|one| one.id == flow.id && one.role == role)?;
            let (source, sink) = if role == Role::Sender { (told, unknown) } else { (unknown, told) };
            Some(Pair { flow, source, sink })
        };
        Flow::of(self.spec).into_iter().filter_map(pair).collect()
    }

    /// What each end doubts by itself: once where both say the same, else with the machine's name where the sentence
    /// lacks it.
    fn doubts_of_ends(&self) -> Vec<Doubt> {
        let mut doubts: Vec<Doubt> = Vec::new();
        for (outcome, other) in [(self.target, self.host), (self.host, self.target)] {
            for doubt in &outcome.doubts {
                let mut doubt = doubt.clone();
                let of_machine = matches!(
                    doubt.kind(),
                    DoubtKind::ShortForCpu
                        | DoubtKind::IrqTimeByTicks
                        | DoubtKind::SoakNotCalibrated
                        | DoubtKind::NoisyMachine
                        | DoubtKind::BusyMachine
                        | DoubtKind::CountersMissing
                );
                if of_machine && !other.doubts.contains(&doubt) {
                    doubt.end = Some(outcome.end.into());
                }
                if !doubts.contains(&doubt) {
                    doubts.push(doubt);
                }
            }
        }
        doubts
    }

    /// The end whose clock a flow's figures rest on: the receiver's; of requests, the requester's.
    fn clocked<'p>(&self, pair: &Pair<'p>) -> &'p FlowOutcome {
        if self.spec.workload.is_stream() { pair.sink } else { pair.source }
    }

    /// The account that has a flow's time: where the receiver's clock stood, because nothing arrived or all of it at one
    /// moment, the sender's.
    fn timed<'p>(&self, pair: &Pair<'p>) -> &'p FlowOutcome {
        let clocked = self.clocked(pair);
        if clocked.elapsed_ns == 0 { pair.source } else { clocked }
    }

    fn flow_figures(&self, pairs: &[Pair<'_>]) -> FlowFigures {
        let mut figures = FlowFigures::default();
        if pairs.is_empty() {
            return figures;
        }
        let summaries: Vec<&TcpSummary> = pairs.iter().filter_map(|pair| pair.source.tcp.as_ref()).collect();
        figures.tcp = combine(&summaries);
        if let Some(tcp) = &mut figures.tcp
            && self.spec.workload.is_stream()
        {
            // What came out of order, the receiving end knows.
            tcp.reordered_segments = pairs.iter().map(|pair| pair.sink.tcp.as_ref()?.reordered_segments).total();
            tcp.segments_lost = segments_lost(pairs);
            tcp.spurious_retransmissions = pairs.iter().map(|pair| pair.source.segments?.spurious).total();
        }
        if !self.spec.workload.is_stream() {
            // Of datagrams alone: what arrives more often than it was asked was doubled on the way.
            let twice = |pair: &Pair<'_>| Some(pair.sink.messages_total.saturating_sub(pair.source.requests?));
            let twice: Option<u64> = pairs.iter().map(twice).total();
            figures.packets_duplicated = twice.filter(|twice| *twice > 0 && self.spec.workload == Workload::UdpRr);
            return figures;
        }
        figures.sender_api = ApiUse::combine(pairs.iter().map(|pair| &pair.source.api));
        figures.receiver_api = ApiUse::combine(pairs.iter().map(|pair| &pair.sink.api));
        figures.send_calls = pairs.iter().map(|pair| calls(pair.source)).total();
        figures.receive_calls = pairs.iter().map(|pair| calls(pair.sink)).total();
        figures.pacing = pairs.iter().find_map(|pair| pair.source.pacing);
        let departures: Vec<_> = pairs.iter().filter_map(|pair| pair.source.departure_gaps.as_ref()).collect();
        figures.departure_gaps = merged(&departures);
        figures.octets = Some(pairs.iter().map(|pair| pair.sink.octets).total());
        let refs: Vec<&Pair<'_>> = pairs.iter().collect();
        let handed = SendCounts::of(&refs, &self.pairs, Part::Measured);
        let (SendCounts { sent, unsent }, share) = (handed, handed.share());
        figures.octets_sent = Some(match octets_of(&refs, sent, unsent) {
            Some(octets) => octets,
            // What an interface dropped had the mean size, as far as anybody knows.
            None => (share * pairs.iter().map(|pair| pair.source.octets).total() as f64) as u64,
        });
        figures.path_mtu = pairs.iter().filter_map(|pair| pair.source.path_mtu).min();
        let arrived = pairs.iter().map(|pair| (pair.flow.source, pair.sink.octets, self.timed(pair)));
        figures.throughput_bps = Some(8.0 * total_rate(arrived));
        figures.achieved_load_bps = Some(8.0 * share * total_rate(pairs.iter().map(Pair::sent)));
        let arrivals: Vec<_> = pairs.iter().filter_map(|pair| pair.sink.arrivals.as_ref()).collect();
        if !self.spec.workload.is_numbered() || arrivals.len() != pairs.len() {
            return figures;
        }
        let received: u64 = arrivals.iter().map(|one| one.received).total();
        figures.packets_sent = Some(sent);
        figures.packets_received = Some(received);
        figures.packets_in_window = Some(pairs.iter().map(|pair| pair.sink.messages).total());
        let seen = sent.saturating_sub(pairs.iter().map(|pair| pair.source.under_way).total());
        figures.packets_lost = seen.checked_sub(received);
        figures.loss_ratio = figures.packets_lost.filter(|_| seen > 0).map(|lost| lost as f64 / seen as f64);
        if !arrivals.iter().any(|one| one.unnumbered) {
            figures.packets_reordered = Some(arrivals.iter().map(|one| one.reordered).total());
            // Of other tools' receivers none tells of these.
            let is_told = pairs.iter().all(|pair| calls(pair.sink).is_some());
            let told = |count: fn(&Arrivals) -> u64| is_told.then(|| arrivals.iter().map(|one| count(one)).total());
            figures.packets_duplicated = told(|one| one.duplicated);
            figures.packets_late = told(|one| one.late);
        }
        let jitters: Vec<f64> = arrivals.iter().filter_map(|one| one.jitter_s).collect();
        figures.jitter_s = mean(&jitters);
        figures.recovery_s = self.recovery_s(&arrivals);
        figures.arrival_gaps = merged(&arrivals.iter().map(|one| &one.gaps).collect::<Vec<_>>());
        let who = pairs.iter().map(|pair| pair.sink.timestamps);
        figures.timestamps = who.reduce(|all, one| all.filter(|_| all == one)).flatten();
        figures.frames = frame_figures(pairs, unsent);
        figures.loss_bursts = loss_bursts(pairs, unsent);
        figures
    }

    /// How long after an overload packets were still lost, of all streams: by the number of the last one, and the schedule.
    fn recovery_s(&self, arrivals: &[&Arrivals]) -> Option<f64> {
        let first = self.spec.first_packets()?;
        let gap_s = self.spec.rate.gap_ns(self.spec.message_octets().into())? / 1e9;
        let of = |one: &&Arrivals| match one.last_lost {
            Some(last) => Some((last + 1).saturating_sub(first) as f64 * gap_s),
            None => (one.missing() == 0 && !one.unnumbered).then_some(0.0),
        };
        let all: Option<Vec<f64>> = arrivals.iter().map(of).collect();
        all?.into_iter().max_by(f64::total_cmp)
    }

    /// Of the requests if they are the workload, else of the probe.
    fn latency(&self, main: &[Pair<'_>]) -> Option<Latency> {
        let probes: Vec<Pair<'_>> = self.pairs.iter().copied().filter(|pair| pair.flow.probe).collect();
        let (of, pairs) = if self.spec.workload.is_stream() {
            ("probe".to_owned(), probes.as_slice())
        } else {
            (self.spec.workload.name().to_owned(), main)
        };
        let mut histogram = Histogram::default();
        let mut timeouts = None;
        for pair in pairs {
            histogram.merge(pair.source.latency.as_ref()?);
            if let Some(more) = pair.source.timeouts {
                timeouts = Some(timeouts.unwrap_or(0_u64).saturating_add(more));
            }
        }
        (!pairs.is_empty()).then(|| told(of, timeouts, histogram))
    }

    /// Of frames, of which each says when it was sent.
    fn one_way(&self, main: &[Pair<'_>]) -> Option<Latency> {
        if self.spec.workload != Workload::Frames {
            return None;
        }
        let mut histogram = Histogram::default();
        for pair in main {
            histogram.merge(pair.sink.latency.as_ref()?);
        }
        Some(told(self.spec.workload.name().to_owned(), None, histogram))
    }

    fn service_demand(&self, main: &[Pair<'_>]) -> Option<ServiceDemand> {
        // CPU time and what it was spent on are of the same span.
        let span = |cpu: &CpuUse| if cpu.includes_warmup { Span::Whole } else { Span::Measured };
        let by_kib = |outcome: &Outcome| {
            let cpu = outcome.cpu.as_ref().filter(|_| self.spec.workload.is_stream())?;
            cpu.demand_us(main.iter().map(|pair| span(cpu).octets(pair.sink)).total() as f64 / 1024.0)
        };
        let by_packet = |outcome: &Outcome| {
            let cpu = outcome.cpu.as_ref()?;
            let packets = main.iter().map(|pair| packets_at(pair, self.spec.workload, outcome.end, span(cpu)));
            cpu.demand_us(packets.sum::<Option<f64>>()?)
        };
        let demand = ServiceDemand {
            target_us_per_kib: by_kib(self.target),
            host_us_per_kib: by_kib(self.host),
            target_us_per_packet: by_packet(self.target),
            host_us_per_packet: by_packet(self.host),
        };
        (demand != ServiceDemand::default()).then_some(demand)
    }

    /// What an end's CPUs did, by kinds of work, with the work that this end had.
    pub(super) fn profile(&self, outcome: &Outcome, environment: &Environment) -> Option<MachineProfile> {
        let taken = outcome.profile.as_deref()?.clone();
        let main: Vec<&Pair<'_>> = self.pairs.iter().filter(|pair| !pair.flow.probe).collect();
        let packets = main.iter().map(|pair| packets_at(pair, self.spec.workload, outcome.end, Span::Measured));
        let packets = packets.sum::<Option<f64>>();
        let octets: u64 = main.iter().map(|pair| pair.sink.octets).total();
        let kib = self.spec.workload.is_stream().then_some(octets as f64 / 1024.0);
        let driver = environment.nic.as_ref().and_then(|nic| nic.driver.as_deref());
        Some(account(taken, outcome.cpu.as_ref(), driver, Work { packets, kib }))
    }

    /// What the CPUs of the middle did, with the work that went through it: what arrived, of both directions.
    pub(super) fn profile_of_middle(&self, taken: Profile, middle: &Middle) -> Option<MachineProfile> {
        let main: Vec<&Pair<'_>> = self.pairs.iter().filter(|pair| !pair.flow.probe).collect();
        let sink = |pair: &&&Pair<'_>| pair.flow.source.other();
        let packets = main.iter().map(|pair| packets_at(pair, self.spec.workload, sink(&pair), Span::Measured));
        let octets: u64 = main.iter().map(|pair| pair.sink.octets).total();
        let kib = self.spec.workload.is_stream().then_some(octets as f64 / 1024.0);
        let work = Work { packets: packets.sum::<Option<f64>>(), kib };
        Some(account(taken, middle.machine.cpu.as_ref(), middle.ports.target.driver(), work))
    }

    /// Whether the senders kept the load they were asked to offer, to half a percent.
    fn doubt_load(&self, main: &[Pair<'_>], ends: [&Environment; 2]) -> Option<Doubt> {
        let asked = self.spec.offered_bps()?;
        if !self.spec.workload.is_stream() {
            return None;
        }
        let asked = asked * main.len() as f64;
        let refs: Vec<&Pair<'_>> = main.iter().collect();
        let share = SendCounts::of(&refs, &self.pairs, Part::Measured).share();
        let achieved = 8.0 * share * total_rate(main.iter().map(Pair::sent));
        let seconds = main.iter().map(|pair| pair.source.elapsed_ns).max()? as f64 / 1e9;
        // One burst more or less at either edge of the measured part is no falling behind, nor is what chance draws.
        let burst = f64::from(self.spec.message_octets()) * 8.0 * f64::from(self.spec.burst);
        let drawn = if self.spec.spacing == Spacing::Poisson { (asked * seconds / burst).sqrt() } else { 0.0 };
        // Another tool's sender keeps time by a timer, and may end with a datagram that has no turn of its own, as iperf2's does; and
        // what this tool sends to an iperf2 begins and ends with one, as its protocol has it.
        let is_tools = |flow: &FlowOutcome| flow.thread == ThreadUse::default();
        let (bursts, timer_s) = match self.spec.workload {
            _ if main.iter().any(|pair| is_tools(pair.source)) => (2.5, FOREIGN_TIMER_S),
            Workload::UdpStream if main.iter().any(|pair| is_tools(pair.sink)) => (3.5, 0.0),
            _ => (1.5, 0.0),
        };
        let edge = ((bursts * main.len() as f64 + DEVIATIONS * drawn) * burst + asked * timer_s) / seconds;
        let off = achieved - asked;
        let held_up = (off < 0.0).then(|| self.held_up(main, -off / asked, ends));
        (off.abs() > (0.005 * asked).max(edge))
            .then(|| Doubted::SenderFellBehind { asked_bps: asked, offered_bps: achieved, held_up }.into())
    }

    /// Whether the two ends measured about the same octets. What lies in buffers at the edges is not half of them, unless the
    /// receiver's part, which begins with its first read, began late.
    fn doubt_parts(&self, main: &[Pair<'_>]) -> Option<Doubt> {
        let is_timed = self.spec.workload == Workload::TcpStream && matches!(self.spec.extent, Extent::Time(_));
        let total = |of: fn(&Pair<'_>) -> u64| -> u64 { main.iter().map(of).total() };
        let has_arrived = total(|pair| pair.source.octets_total) == total(|pair| pair.sink.octets_total);
        let (sent, read) = (total(|pair| pair.source.octets), total(|pair| pair.sink.octets));
        (is_timed && has_arrived && sent.abs_diff(read) > sent.max(read) / 2)
            .then(|| Doubted::PartsApart { sent, read }.into())
    }

    /// What held the senders up, of those things that took them about as much of their time as is missing of the load.
    fn held_up(&self, main: &[Pair<'_>], missing: f64, ends: [&Environment; 2]) -> SenderLimit {
        // Threads are accounted for from the start, warm-up included.
        let time: f64 =
            main.iter().map(|pair| pair.source.elapsed_ns as f64 / 1e9 + self.spec.warmup.as_secs_f64()).sum();
        let share = |of: fn(&ThreadUse) -> f64| main.iter().map(|pair| of(&pair.source.thread)).sum::<f64>() / time;
        let worked = share(|thread| thread.user_s + thread.system_s);
        let waited = share(|thread| thread.run_delay_s.unwrap_or(0.0));
        let windows: Option<Vec<f64>> =
            main.iter().map(|pair| pair.source.tcp.as_ref()?.limited_by_receive_window).collect();
        let window = windows.and_then(|shares| mean(&shares)).unwrap_or(0.0);
        let explains = |share: f64| share >= missing / 2.0;
        let unused = 1.0 - worked - waited;
        if explains(waited) {
            return SenderLimit::NoCpu { share: waited };
        }
        if explains(window) {
            return SenderLimit::ReceiveWindow { share: window };
        }
        if worked >= BUSY {
            return SenderLimit::Work { share: worked };
        }
        // A sender that is behind sleeps for nothing but room in its socket's buffer.
        if worked > 0.0 && missing >= MUCH_BEHIND && explains(unused) {
            let shaper = main.iter().find_map(|pair| sending(pair, ends).nic.as_ref()?.rate_keeper());
            return SenderLimit::NoRoom { worked, shaper: shaper.map(str::to_owned) };
        }
        SenderLimit::Unknown
    }

    fn intervals(&self, main: &[Pair<'_>]) -> Vec<Interval> {
        let stream = self.spec.workload.is_stream();
        let udp = self.spec.workload.is_numbered();
        let refs: Vec<&Pair<'_>> = main.iter().collect();
        // What was not sent is missing as well, and when that was nobody knows.
        let all_sent = SendCounts::of(&refs, &self.pairs, Part::Measured).unsent == 0;
        let numbered =
            all_sent && main.iter().all(|pair| pair.sink.arrivals.as_ref().is_none_or(|one| !one.unnumbered));
        let count = main.iter().map(|pair| self.clocked(pair).slices.len()).max().unwrap_or(0);
        let slices = |of: fn(&Pair<'_>) -> *const FlowOutcome, k: usize| -> Vec<&Slice> {
            main.iter()
                .filter_map(|pair| {
                    let wanted = of(pair);
                    let one = [pair.source, pair.sink].into_iter().find(|one| std::ptr::eq(*one, wanted))?;
                    one.slices.get(k)
                })
                .collect()
        };
        (0..count)
            .filter_map(|k| {
                let sent = slices(|pair| pair.source, k);
                let received = slices(|pair| pair.sink, k);
                let clocked = if stream { &received } else { &sent };
                let first = clocked.first()?;
                let per_second = |slices: &[&Slice], amount: fn(&Slice) -> u64| -> Option<f64> {
                    let one =
                        |slice: &&Slice| amount(slice) as f64 * 1e9 / (slice.end_ns - slice.start_ns).max(1) as f64;
                    (!slices.is_empty()).then(|| slices.iter().map(one).sum())
                };
                let total = |slices: &[&Slice], amount: fn(&Slice) -> u64| -> Option<u64> {
                    (!slices.is_empty()).then(|| slices.iter().map(|slice| amount(slice)).total())
                };
                let missing: Option<i64> = received.iter().map(|slice| slice.missing).total();
                let cpu = |outcome: &Outcome| {
                    let slice = outcome.cpu_slices.get(k)?;
                    let span_s = slice.end_ns.saturating_sub(slice.start_ns) as f64 / 1e9;
                    let method = outcome.cpu.as_ref().map_or(PROC_STAT, |cpu| cpu.method.as_str());
                    is_long_enough(method, span_s).then_some(slice.machine)
                };
                Some(Interval {
                    start_s: first.start_ns as f64 / 1e9,
                    end_s: first.end_ns as f64 / 1e9,
                    throughput_bps: per_second(&received, |s| s.octets).filter(|_| stream).map(|rate| rate * 8.0),
                    achieved_load_bps: per_second(&sent, |s| s.octets).filter(|_| stream).map(|rate| rate * 8.0),
                    packets_sent: total(&sent, |s| s.messages).filter(|_| udp),
                    packets_received: total(&received, |s| s.messages).filter(|_| udp),
                    packets_missing: missing
                        .filter(|_| udp && numbered && !received.is_empty())
                        .map(|n| n.max(0) as u64),
                    transactions_per_s: per_second(&sent, |s| s.messages).filter(|_| !stream),
                    tcp: sent.first().and_then(|slice| slice.tcp.clone()),
                    target_cpu: cpu(self.target),
                    host_cpu: cpu(self.host),
                    middle_cpu: None,
                })
            })
            .collect()
    }
}

/// Times as a record tells them.
fn told(of: String, timeouts: Option<u64>, histogram: Histogram) -> Latency {
    let seconds = |ns: u64| ns as f64 / 1e9;
    let percentiles = PERCENTILES
        .iter()
        .filter_map(|&percentile| Some((format!("p{percentile}"), seconds(histogram.percentile_ns(percentile)?))))
        .collect::<BTreeMap<_, _>>();
    Latency {
        of,
        count: histogram.count(),
        timeouts,
        min_s: histogram.min_ns().map(seconds),
        mean_s: histogram.mean_ns().map(|ns| ns / 1e9),
        max_s: histogram.max_ns().map(seconds),
        percentiles,
        histogram,
    }
}

/// What the ends of streams of frames counted beside what all streams have.
fn frame_figures(pairs: &[Pair<'_>], unsent: u64) -> Option<FrameFigures> {
    let mut figures = FrameFigures::default();
    for pair in pairs {
        let (sent, received) = (pair.source.frames.as_deref()?, pair.sink.frames.as_deref()?);
        for &SizeCount { octets, frames } in &sent.sizes {
            let arrived = received.sizes.iter().find(|one| one.octets == octets).map_or(0, |one| one.frames);
            match figures.sizes.iter_mut().find(|one| one.octets == octets) {
                Some(one) => {
                    one.sent = one.sent.saturating_add(frames);
                    one.received = one.received.saturating_add(arrived);
                }
                None => figures.sizes.push(FrameSize { octets, sent: frames, received: arrived }),
            }
        }
        figures.malformed = figures.malformed.saturating_add(received.malformed);
        for one in received.foreign.iter().flatten() {
            let all = figures.foreign.get_or_insert_default();
            match all.iter_mut().find(|known| known.ethertype == one.ethertype) {
                Some(known) => known.frames = known.frames.saturating_add(one.frames),
                None => all.push(*one),
            }
        }
        figures.flows = match (figures.flows, received.flows) {
            (Some(known), Some(more)) => Some(known.with(more)),
            (known, more) => known.or(more),
        };
        // That none came is known, too.
        if received.foreign.is_some() {
            figures.foreign.get_or_insert_default();
        }
    }
    figures.sizes.sort_by_key(|one| one.octets);
    figures.unsent = Some(unsent).filter(|_| pairs.iter().any(|pair| tells_unsent(pair)));
    // Of which sizes they were is known where all are of one, or where nothing else is missing.
    let missing = figures.sizes.iter().map(|one| one.sent.saturating_sub(one.received)).total();
    match &mut figures.sizes[..] {
        [one] => one.sent = one.sent.saturating_sub(unsent),
        sizes if unsent > 0 && missing == unsent => sizes.iter_mut().for_each(|one| one.sent = one.received),
        _ => {}
    }
    Some(figures)
}

fn tells_unsent(pair: &Pair<'_>) -> bool {
    pair.source.frames.as_ref().is_some_and(|frames| frames.unsent.is_some())
}

/// Octets that left of what was handed over, where it can be told what sizes those were of that did not.
fn octets_of(pairs: &[&Pair<'_>], sent: u64, unsent: u64) -> Option<u64> {
    if unsent == 0 {
        return Some(pairs.iter().map(|pair| pair.source.octets).total());
    }
    let sizes = || pairs.iter().filter_map(|pair| pair.sink.frames.as_ref()).flat_map(|frames| &frames.sizes);
    let octets = |one: &SizeCount| u64::from(one.octets).saturating_mul(one.frames);
    let received: u64 = sizes().map(|one| one.frames).total();
    let first = sizes().next()?.octets;
    match sizes().all(|one| one.octets == first) {
        true => Some(u64::from(first).saturating_mul(sent)),
        false => (received == sent).then(|| sizes().map(octets).total()),
    }
}

/// What is known of streams whose senders told nothing: neither what was offered, nor what was lost.
fn received_figures(pairs: &[Pair<'_>]) -> FlowFigures {
    let sinks = || pairs.iter().map(|pair| pair.sink);
    let arrivals: Vec<_> = sinks().filter_map(|sink| sink.arrivals.as_ref()).collect();
    let who = sinks().map(|sink| sink.timestamps);
    FlowFigures {
        receiver_api: ApiUse::combine(sinks().map(|sink| &sink.api)),
        receive_calls: sinks().map(calls).total(),
        octets: Some(sinks().map(|sink| sink.octets).total()),
        throughput_bps: Some(
            8.0 * total_rate(pairs.iter().map(|pair| (pair.flow.source, pair.sink.octets, pair.sink))),
        ),
        packets_received: (arrivals.len() == pairs.len()).then(|| arrivals.iter().map(|one| one.received).total()),
        packets_in_window: (arrivals.len() == pairs.len()).then(|| sinks().map(|sink| sink.messages).total()),
        arrival_gaps: merged(&arrivals.iter().map(|one| &one.gaps).collect::<Vec<_>>()),
        timestamps: who.reduce(|all, one| all.filter(|_| all == one)).flatten(),
        ..FlowFigures::default()
    }
}

/// Runs of numbers that never arrived, over the whole trial. `None`: some were lost and nobody knows which, or the runs have in
/// them what was not sent.
fn loss_bursts(pairs: &[Pair<'_>], unsent: u64) -> Option<BTreeMap<u64, u64>> {
    let mut bursts = BTreeMap::<u64, u64>::new();
    for pair in pairs {
        let arrivals = pair.sink.arrivals.as_ref()?;
        let sent = pair.source.messages_total.saturating_sub(pair.source.under_way);
        if sent > arrivals.received_total && (arrivals.loss_bursts.is_empty() || unsent > 0) {
            return None;
        }
        for (&length, &count) in &arrivals.loss_bursts {
            let runs = bursts.entry(length).or_default();
            *runs = runs.saturating_add(count);
        }
    }
    Some(bursts)
}

/// All of them in one; `None` of nothing.
fn merged(histograms: &[&Histogram]) -> Option<Histogram> {
    let mut all = Histogram::default();
    histograms.iter().for_each(|one| all.merge(one));
    (all.count() > 0).then_some(all)
}

/// Units per second of flows together, with the end that each comes from: of each direction over the time until its last flow ended.
/// One that ends before leaves what passes to the others.
fn total_rate<'f>(flows: impl Iterator<Item = (End, u64, &'f FlowOutcome)>) -> f64 {
    let mut totals = PerEnd::<(u64, u64)>::default();
    for (end, units, flow) in flows {
        let (all, longest_ns) = &mut totals[end];
        (*all, *longest_ns) = (all.saturating_add(units), flow.elapsed_ns.max(*longest_ns));
    }
    let rates =
        End::BOTH.map(|end| totals[end]).map(|(all, ns)| if ns == 0 { 0.0 } else { all as f64 * 1e9 / ns as f64 });
    rates.iter().sum()
}

/// What a count is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Span {
    /// The measured part.
    Measured,
    /// The whole trial, warm-up included.
    Whole,
}

impl Span {
    fn octets(self, flow: &FlowOutcome) -> u64 {
        if self == Span::Whole { flow.octets_total } else { flow.octets }
    }

    fn messages(self, flow: &FlowOutcome) -> u64 {
        if self == Span::Whole { flow.messages_total } else { flow.messages }
    }
}

/// What chance draws is this many standard deviations from its mean once in some ten thousand times.
const DEVIATIONS: f64 = 4.0;
/// What another tool's sender may be early or late by at both edges together: iperf3's timer has a millisecond (`--pacing-timer`).
const FOREIGN_TIMER_S: f64 = 0.002;
/// From this share of its time on, a thread that worked had no time left.
const BUSY: f64 = 0.9;
/// A load that is short by less may be so by late wake-ups.
const MUCH_BEHIND: f64 = 0.02;

/// Packets of a flow that one end handled: datagrams, data segments, or transactions. The kernel counts segments over
/// the whole connection, so those of a part are taken in proportion to the octets.
fn packets_at(pair: &Pair<'_>, workload: Workload, end: End, span: Span) -> Option<f64> {
    let sends = pair.flow.source == end;
    match workload {
        Workload::UdpStream | Workload::Frames if sends => Some(span.messages(pair.source) as f64),
        Workload::UdpStream | Workload::Frames => Some(span.messages(pair.sink) as f64),
        Workload::TcpStream => {
            let (flow, segments) = if sends {
                (pair.source, pair.source.tcp.as_ref()?.segments_sent?)
            } else {
                (pair.sink, pair.sink.tcp.as_ref()?.segments_received?)
            };
            let share = if flow.octets_total == 0 { 0.0 } else { span.octets(flow) as f64 / flow.octets_total as f64 };
            Some(segments as f64 * share)
        }
        Workload::TcpRr | Workload::UdpRr | Workload::TcpCrr => Some(span.messages(pair.source) as f64),
    }
}

pub(super) fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Sums of counts, means of the rest; what one summary lacks, all lack.
fn combine(summaries: &[&TcpSummary]) -> Option<TcpSummary> {
    let first = summaries.first()?;
    let sum = |of: fn(&TcpSummary) -> Option<u64>| summaries.iter().map(|one| of(one)).total();
    let average = |of: fn(&TcpSummary) -> Option<f64>| {
        let values = summaries.iter().map(|one| of(one)).collect::<Option<Vec<f64>>>()?;
        mean(&values)
    };
    let alike =
        |of: fn(&TcpSummary) -> Option<bool>| of(first).filter(|_| summaries.iter().all(|one| of(one) == of(first)));
    Some(TcpSummary {
        retransmissions: summaries.iter().map(|one| one.retransmissions).total(),
        min_rtt_s: summaries.iter().filter_map(|one| one.min_rtt_s).reduce(f64::min),
        rtt_s: average(|one| one.rtt_s),
        cwnd: average(|one| one.cwnd.map(f64::from)).map(|segments| segments.round() as u32),
        mss: first.mss,
        limited_by_receive_window: average(|one| one.limited_by_receive_window),
        limited_by_send_buffer: average(|one| one.limited_by_send_buffer),
        limited_by_application: average(|one| one.limited_by_application),
        reordered_segments: sum(|one| one.reordered_segments),
        segments_sent: sum(|one| one.segments_sent),
        segments_received: sum(|one| one.segments_received),
        congestion_control: first.congestion_control.clone(),
        path_mtu: summaries.iter().filter_map(|one| one.path_mtu).min(),
        timestamps: alike(|one| one.timestamps),
        sack: alike(|one| one.sack),
        window_scaling: alike(|one| one.window_scaling),
        ecn: alike(|one| one.ecn),
        bytes_sent: sum(|one| one.bytes_sent),
        bytes_retransmitted: sum(|one| one.bytes_retransmitted),
        segments_lost: sum(|one| one.segments_lost),
        spurious_retransmissions: sum(|one| one.spurious_retransmissions),
    })
}

/// Data segments of streams that were sent and never arrived: exact, where both ends counted to the last one.
pub(super) fn segments_lost<'p>(pairs: impl IntoIterator<Item = &'p Pair<'p>>) -> Option<u64> {
    let of = |pair: &Pair<'_>| {
        let (source, sink) = (pair.source.segments?, pair.sink.segments?);
        (source.unacknowledged == 0).then(|| source.sent.saturating_sub(sink.received))
    };
    pairs.into_iter().map(of).total()
}

/// System calls that moved the data; another tool's end does not tell.
fn calls(flow: &FlowOutcome) -> Option<u64> {
    (!flow.api.name.is_empty()).then_some(flow.calls)
}

/// The machine that sends a flow.
pub(super) fn sending<'e>(pair: &Pair<'_>, [target, host]: [&'e Environment; 2]) -> &'e Environment {
    if pair.flow.source == End::Target { target } else { host }
}

/// IP fragments of each datagram, by the MTU of the sender: a receiver with a smaller one drops what is longer.
pub(super) fn fragments(spec: &Spec, sender: &Environment) -> u32 {
    fragments_of(spec.message_octets(), spec.ip_version(), sender)
}

/// The same of a datagram of so many octets.
pub(super) fn fragments_of(octets: u32, ip: IpVersion, sender: &Environment) -> u32 {
    let Some(mtu) = sender.nic.as_ref().and_then(|nic| nic.mtu) else { return 1 };
    ip.fragments(octets + 8, mtu).unwrap_or(1)
}
