//! A record as rules look at it: one direction, its sender and its receiver, and what went wrong for the user.
//! Knows which figures mean trouble; why there is trouble is for the rules.

use linerate_machine::end::{Direction, End, Party};
use linerate_machine::environment::Nic;
use linerate_machine::units::OfferedLoad;
use linerate_path::budget::{Adjustment, Chain, DropCause, LossLine, MachineAccount, drops_seen};
use linerate_path::stage::Stage;
use linerate_trial::doubt::{DoubtKind, Doubted};
use linerate_trial::event::{Event, EventKind};
use linerate_trial::outcome::{TcpSample, TcpSummary};
use linerate_trial::spec::{Spacing, Spec, Workload};
use linerate_trial::wire::{EthernetOverhead, IpVersion};

use super::Sureness;
pub(super) use super::losses::{LossFrom, LossTime, LostAt, TimerWaits};
pub(super) use super::side::Side;
use super::side::{held_at, is_of_root, sum_at};
pub(super) use super::words::{percent, tidy};
use crate::figure::Source;
use crate::join::packets::seen_by;
use crate::middle::{Middle, MiddlePath, sender_of};
use crate::record::{Counted, FlowFigures, Interval, Latency, Losses, Record};
use crate::time_budget::{Limit, TCP_RTO_MIN_S, TimeLine, is_queued};
use crate::total::Total;

/// From this part of the packets on, loss is a trouble: RFC 2544 has throughput end at the first lost frame, but on a
/// machine that does other things too, one datagram in a thousand is what a moment of theirs costs.
const LOSS: f64 = 0.001;
/// Fewer are an accident, unless they are a large part of what was sent.
pub(super) const FEW: u64 = 10;
/// From this part on, and from [`FEW_OF_MUCH`] on.
const MUCH: f64 = 0.05;
const FEW_OF_MUCH: u64 = 3;
/// From this share of the time on what limited it is what counts.
const HELD: f64 = 0.5;
/// So few losses may be why a congestion window is small.
const FEW_THAT_HOLD: u64 = 3;
/// What the threads do between transactions takes less, all of it together, but on a busy machine.
const LEAST_REST_S: f64 = 0.4;
/// Of those that each wait for the one before, a few are many.
const MANY: f64 = 0.02;
/// Each request that is lost costs a time-out.
const FEW_REQUESTS: u64 = 3;
/// Of two directions at once, one that lost so many times less is not what to look at first.
const LITTLE: u64 = 5;
/// A stage with a smaller part of the loss is not what to look at first.
const PART: f64 = 0.05;
/// Slices of a steady stream are so near their mean.
const STEADY: f64 = 0.25;
/// And so near each other are those of a limit of rate.
const EVEN: f64 = 0.06;
/// TCP tells its delivery rate over a round trip at least; bursts pass a short one at the link's rate. At the end of a slice it may be so
/// many times the slice's throughput, and of several streams, of which each has its share by chance.
const LEAST_RTT_S: f64 = 1e-3;
const FASTER: f64 = 1.3;
const MUCH_FASTER: f64 = 2.0;
/// Below this part of what was asked, or of what the link carries, a trial came short. TCP over Ethernet reaches its
/// share of the line rate to a few percent where nothing else limits it.
const SHORT_OF_ASKED: f64 = 0.98;
const SHORT_OF_LINE: f64 = 0.93;
/// A machine that has other things to do now and then is late with a request.
const SELDOM: f64 = 0.9;
/// What arrived in a smaller part of the time tells no rate of the rest.
const LEAST_PASSING: f64 = 0.1;
/// What more than this part of a link's speed passes is no link of that speed.
const ABOVE_LINE: f64 = 1.02;
/// From this share of its time on, a CPU or a thread had no time left: what an end of a trial shows, too.
pub(super) const SATURATED: f64 = 0.95;
/// A thread that worked, or waited for a CPU, for this share of the trial was what its end could do at most.
pub(super) const THREAD_BUSY: f64 = 0.9;

/// TCP bears a few segments that others overtook; a kernel makes more where a sender moves from CPU to CPU above a veth.
const OVERTAKEN_TCP: f64 = 0.005;
const OVERTAKEN_HERE: f64 = 0.02;
/// CPUs that limited a smaller part of a stream's time are not what to look at.
const CPU_PART: f64 = 0.2;
/// The least time after which TCP sends again what nobody acknowledged, less what a clock tick may take off it.
const LEAST_TIMER_S: f64 = 0.95 * TCP_RTO_MIN_S;
/// Of the best time slice's throughput, less than this is no busy link's.
const MUCH_LESS: f64 = 0.7;
/// Of both ways at once, one that carries so many times the other.
const MANY_TIMES: f64 = 3.0;
/// The same of a SYN (RFC 6298, section 2.1: 1 s).
const LEAST_SYN_S: f64 = 0.95;
/// What limits so many times as long as a loss does comes before it.
const LONGER: f64 = 1.5;
/// TCP's timer, and once more after it, takes about so many round trips.
const ROUND_TRIPS: f64 = 3.0;
/// Octets of a message that every Ethernet carries in one packet.
const UNFRAGMENTED: u32 = 1400;

/// One direction of a trial.
pub(super) struct Case<'a> {
    pub(super) record: &'a Record,
    /// Tx or Rx.
    pub(super) way: Direction,
    /// The machine that sends, or asks.
    pub(super) sender: Side<'a>,
    /// The machine that receives, or answers.
    pub(super) receiver: Side<'a>,
    /// What was asked, as far as it is known.
    pub(super) asked: Option<Spec>,
    /// What was lost where, by the loss budget; of TCP, what counters of both machines saw dropped.
    drops: Vec<LossLine>,
    /// What of it was lost in the machine between the two.
    of_middle: Vec<LossLine>,
}

/// Datagrams that never arrived, over the whole trial.
#[derive(Clone, Copy, Debug)]
pub(super) struct Loss {
    pub(super) packets: u64,
    pub(super) ratio: f64,
}

impl<'a> Case<'a> {
    /// A case for each direction of the record.
    pub(super) fn of(record: &'a Record) -> Vec<Case<'a>> {
        let ways: &[Direction] = match record.direction {
            Direction::Tx => &[Direction::Tx],
            Direction::Rx => &[Direction::Rx],
            Direction::Both => &[Direction::Tx, Direction::Rx],
        };
        let mut cases: Vec<Case<'a>> = ways.iter().map(|way| Case::one(record, *way)).collect();
        // Of requests the way of the answers, where any were lost on it, or dropped.
        if !record.workload.is_stream() {
            let answers =
                Case::one(record, if record.direction == Direction::Tx { Direction::Rx } else { Direction::Tx });
            let is_tcp = !matches!(record.workload, Workload::UdpRr);
            let dropped = || is_tcp && answers.missing().is_some_and(|missing| missing > 0) && answers.drops_seen() > 0;
            cases.extend((answers.loss().is_some() || dropped()).then_some(answers));
        }
        cases
    }

    fn one(record: &'a Record, way: Direction) -> Case<'a> {
        let target = Side { end: End::Target, machine: &record.target };
        let host = Side { end: End::Host, machine: &record.host };
        let (sender, receiver) = if way == Direction::Tx { (target, host) } else { (host, target) };
        let mut case = Case {
            record,
            way,
            sender,
            receiver,
            asked: record.asked_spec(),
            drops: Vec::new(),
            of_middle: Vec::new(),
        };
        (case.of_middle, case.drops) = case.read_drops().into_iter().partition(|line| line.end == Party::Middle);
        case
    }

    fn read_drops(&self) -> Vec<LossLine> {
        if let Some(lines) = &self.record.loss_budget {
            let both = self.record.direction == Direction::Both || !self.record.workload.is_stream();
            return lines.iter().filter(|line| !both || line.direction == self.way).cloned().collect();
        }
        // Of TCP nothing is numbered, but the same counters move: the budget's table says which they are.
        // Acknowledgements, which nobody retransmits, are as many as what they are of.
        let most = self.is(Workload::TcpCrr).then(|| self.retransmitted_by_any().saturating_mul(2));
        let on_way = self.middle_on_path().map(|middle| middle.on_way(self.way, self.record.environments()));
        let (sender, receiver) = (self.seen(self.sender), self.seen(self.receiver));
        let chain = Chain { sender: &sender, receiver: &receiver, middle: on_way.as_ref().map(MiddlePath::between) };
        drops_seen(self.shares_machine(), most, chain).lines
    }

    /// What an end's counters say of the trial's packets.
    pub(super) fn seen(&self, side: Side<'_>) -> MachineAccount<'static> {
        seen_by(side.end, &side.machine.counters, side.nic(), self.asked.as_ref())
    }

    /// This direction's figures; absent where the trial failed.
    pub(super) fn flow(&self) -> Option<&'a FlowFigures> {
        Some(self.record.result.as_ref()?.of_direction(self.way))
    }

    pub(super) fn tcp(&self) -> Option<&'a TcpSummary> {
        self.flow()?.tcp.as_ref()
    }

    pub(super) fn latency(&self) -> Option<&'a Latency> {
        self.record.result.as_ref()?.latency.as_ref()
    }

    /// What keeps to a rate where the middle sends towards the receiver, held packets back, and let out about what it may, as far as
    /// its rate is known: the interface, the discipline, and how often.
    pub(super) fn held_in_middle(&self) -> Option<(&'a str, &'a str, u64)> {
        let port = &self.middle_on_path()?.ports[sender_of(self.way).other()];
        let (kind, held) = held_at(port)?;
        // A rate that was changed in mid-trial is another one now.
        let rate = port.nic.as_ref().and_then(Nic::kept_rate_bps).filter(|_| self.slowed().is_none());
        let is_used = |rate: u64| self.passing_bps().is_none_or(|bps| bps >= MUCH_LESS * rate as f64);
        rate.is_none_or(is_used).then_some((&port.interface, kind, held))
    }

    /// Whether what limited for so large a part of the time did so much longer than a loss did: then that is why segments are lost, and
    /// not the other way round.
    pub(super) fn outlasts_loss(&self, share: f64) -> bool {
        share >= LONGER * self.share_of(&[Limit::CongestionWindow, Limit::Outage])
    }

    /// Whether so long a silence is no more than TCP's timer makes of a single loss at these round trips (RFC 6298: the round trip and
    /// four times its deviation, and twice as long where that is lost too).
    pub(super) fn is_of_round_trips(&self, seconds: f64) -> bool {
        let rtt_s = self.tcp().filter(|_| self.is(Workload::TcpStream)).and_then(|tcp| tcp.rtt_s);
        rtt_s.is_some_and(|rtt_s| seconds <= ROUND_TRIPS * rtt_s)
    }

    /// What keeps to a rate where the middle sends back towards the sender: the interface, the discipline, and how often it held a packet
    /// back for each that it sent.
    pub(super) fn held_back_in_middle(&self) -> Option<(&'a str, &'a str, f64)> {
        let port = &self.middle_on_path()?.ports[sender_of(self.way)];
        let (kind, held) = held_at(port)?;
        let sent = sum_at(&port.counters, Stage::Qdisc, |name| is_of_root(name, "packets")).unwrap_or(0);
        Some((&port.interface, kind, held as f64 / sent.max(1) as f64))
    }

    /// The machine in the middle, where it runs on none of the ends' machines, so that its CPU figures are its own.
    pub(super) fn middle_of_its_own(&self) -> Option<&'a Middle> {
        self.record.middle.as_ref().filter(|_| !self.doubts(DoubtKind::MiddleSharesMachine))
    }

    /// The machine in the middle, where it saw what passed.
    pub(super) fn middle_on_path(&self) -> Option<&'a Middle> {
        self.record.middle.as_ref().filter(|_| !self.doubts(DoubtKind::MiddleNotOnPath))
    }

    /// Both machines.
    pub(super) fn sides(&self) -> [Side<'a>; 2] {
        [self.sender, self.receiver]
    }

    pub(super) fn is(&self, workload: Workload) -> bool {
        self.record.workload == workload
    }

    pub(super) fn doubts(&self, kind: DoubtKind) -> bool {
        self.record.has_doubt(kind)
    }

    /// Both ends are one machine, so that CPU figures are of both together.
    pub(super) fn shares_machine(&self) -> bool {
        self.doubts(DoubtKind::SharedMachine)
    }

    /// The size that was asked for; absent where it was left to the system.
    pub(super) fn socket_buffer(&self) -> Option<u64> {
        self.asked.as_ref()?.socket_buffer.map(u64::from)
    }

    /// Of each write or datagram; absent where it was left to the program.
    pub(super) fn message_size(&self) -> Option<u64> {
        self.asked.as_ref()?.message_size.map(u64::from)
    }

    /// Whether requests, or answers, may be larger than a packet.
    pub(super) fn may_be_fragmented(&self) -> bool {
        self.asked.as_ref().is_none_or(|asked| asked.request_size.max(asked.response_size) > UNFRAGMENTED)
    }

    pub(super) fn streams(&self) -> f64 {
        self.asked.as_ref().map_or(1.0, |asked| f64::from(asked.streams.max(1)))
    }

    /// So many transactions may be under way at a time.
    pub(super) fn at_once(&self) -> f64 {
        self.streams() * self.asked.as_ref().map_or(1.0, |asked| f64::from(asked.outstanding.max(1)))
    }

    /// Seconds that were measured. Clocks tell nanoseconds: of less, no share can be told.
    pub(super) fn span_s(&self) -> Option<f64> {
        self.record.duration_s.filter(|seconds| *seconds >= 1e-9)
    }

    /// Seconds that threads and counters cover: the warm-up too.
    pub(super) fn whole_s(&self) -> Option<f64> {
        Some(self.span_s()? + self.asked.as_ref().map_or(0.0, |asked| asked.warmup.as_secs_f64()))
    }

    /// What was sent this way and what of it arrived, whole trial.
    pub(super) fn losses(&self) -> Option<&'a Losses> {
        self.record.losses.iter().find(|losses| losses.direction == self.way)
    }

    /// What no counter explains, whole trial; absent of a trial both ways whose record has the sum of both only.
    pub(super) fn unaccounted(&self) -> Option<i64> {
        let sum = || self.record.unaccounted.filter(|_| self.record.direction != Direction::Both);
        self.losses().map(|losses| losses.unaccounted).or_else(sum)
    }

    /// Whether IPv6 was not asked for.
    pub(super) fn is_ipv4(&self) -> bool {
        self.ip_version() == IpVersion::V4
    }

    pub(super) fn ip_version(&self) -> IpVersion {
        self.asked.as_ref().map_or(IpVersion::V4, Spec::ip_version)
    }

    /// What the trial counts one by one.
    pub(super) fn noun(&self) -> &'static str {
        let usual = match self.record.workload {
            Workload::Frames => Counted::Frames,
            workload if workload.is_tcp() => Counted::Segments,
            _ => Counted::Datagrams,
        };
        self.losses().map_or(usual, |losses| losses.of).name()
    }

    /// The time budget of this direction, the longest line first; of transactions there is one for both.
    pub(super) fn time(&self) -> impl Iterator<Item = &'a TimeLine> {
        let any = !self.record.workload.is_stream();
        self.record.time_budget.iter().filter(move |line| any || line.direction == self.way)
    }

    /// The share of time that one of these took.
    pub(super) fn share_of(&self, limits: &[Limit]) -> f64 {
        self.time().filter(|line| limits.contains(&line.limit)).map(|line| line.share).sum()
    }

    /// How long a transaction waited in queues, seconds, and which share of its time that was. Of several at a time, where fewer came
    /// about than were asked, the quickest few waited for the others, too: then it is all beyond the quickest one.
    pub(super) fn queued(&self) -> Option<(f64, f64)> {
        let of = |limit: Limit| self.time().find(|line| line.limit == limit);
        let queues = of(Limit::Queues).filter(|line| line.seconds > 0.0)?;
        let is_behind = self.seldom().is_some() && self.at_once() > 1.0;
        let quickest = of(Limit::OnTheWay).filter(|_| is_behind).zip(self.latency()?.min_s);
        let waited_s = queues.seconds + quickest.map_or(0.0, |(line, least)| (line.seconds - least).max(0.0));
        Some((waited_s, (waited_s * queues.share / queues.seconds).min(1.0)))
    }

    /// Whether CPU time can have been the limit: by the time budget of a TCP stream, where it has one.
    pub(super) fn may_be_cpu(&self) -> bool {
        if !self.is(Workload::TcpStream) || self.time().next().is_none() {
            return true;
        }
        let of_cpu = [
            Limit::SenderCpu,
            Limit::SenderCpuWait,
            Limit::ReceiverCpu,
            Limit::ReceiverCpuWait,
            Limit::Softirq,
            Limit::SendingApplication,
            Limit::Unaccounted,
        ];
        self.share_of(&of_cpu) >= CPU_PART
    }

    /// What happened in the trial, to this direction or to both.
    pub(super) fn events(&self) -> impl Iterator<Item = &'a Event> {
        self.record.events.iter().filter(|event| event.what.direction().is_none_or(|way| way == self.way))
    }

    /// Routes to the other end, and addresses, that changed in mid-trial.
    pub(super) fn way_changes(&self) -> impl Iterator<Item = &'a Event> {
        let is_way =
            |what: &EventKind| matches!(what, EventKind::RouteChanged { .. } | EventKind::AddressChanged { .. });
        self.events().filter(move |event| is_way(&event.what))
    }

    /// Loss that began in mid-trial.
    pub(super) fn loss_from(&self) -> Option<LossFrom> {
        let began = self.events().filter_map(|event| match event.what {
            EventKind::LossBegan { loss_ratio, throughput_bps, steady, .. } => {
                let time = LossTime { at_s: event.at_s, for_s: event.for_s, ratio: loss_ratio };
                Some(LossFrom { times: vec![time], bps: throughput_bps, is_steady: steady })
            }
            _ => None,
        });
        began.reduce(|mut first, next| {
            first.times.extend(next.times);
            first.is_steady &= next.is_steady;
            first
        })
    }

    /// A clause that the throughput fell in mid-trial and stayed so, and bits per second from then on.
    pub(super) fn slowed(&self) -> Option<(String, f64)> {
        self.events().find_map(|event| match event.what {
            EventKind::RateChanged { from_bps, to_bps, .. } if to_bps < from_bps && event.for_s.is_none() => {
                Some((event.to_string(), to_bps))
            }
            _ => None,
        })
    }

    /// Seconds, of the measured part, in which events of this kind held on; and how many there were.
    pub(super) fn held(&self, is: impl Fn(&Event) -> bool) -> (f64, usize) {
        let span = self.span_s().unwrap_or(f64::INFINITY);
        let of = |event: &&Event| event.for_s.unwrap_or((span - event.at_s).max(0.0));
        let events: Vec<&Event> = self.events().filter(|event| is(event)).collect();
        (events.iter().map(of).sum(), events.len())
    }

    // ---- What went wrong. ----

    /// Datagrams were lost, or requests or answers, enough to matter.
    pub(super) fn loss(&self) -> Option<Loss> {
        if let Some(losses) = self.losses().filter(|losses| matches!(losses.of, Counted::Requests | Counted::Answers)) {
            let (packets, ratio) = (losses.lost(), losses.lost() as f64 / losses.sent.max(1) as f64);
            let costs = packets > 0 && (ratio >= MANY || self.share_of(&[Limit::LostAndWaited]) >= PART);
            return (costs || (packets >= FEW_REQUESTS && ratio >= LOSS)).then_some(Loss { packets, ratio });
        }
        let flow = self.flow()?;
        let (measured, ratio) = (flow.packets_lost?, flow.loss_ratio?);
        let known: u64 = self.drops.iter().chain(&self.of_middle).map(|line| line.packets).total();
        let rest = self.unaccounted().unwrap_or(0);
        // The budget is of the whole trial.
        let whole = i64::try_from(known).ok()?.checked_add(rest)?.max(0) as u64;
        let is_trouble = (ratio >= LOSS && measured >= FEW) || (ratio >= MUCH && measured >= FEW_OF_MUCH);
        is_trouble.then_some(Loss { packets: whole.max(measured), ratio })
    }

    /// Lost of sent, in the measured part.
    pub(super) fn loss_ratio(&self) -> Option<f64> {
        self.flow()?.loss_ratio
    }

    /// Whether datagrams were lost this way, and many times as many the other way.
    pub(super) fn has_lost_little(&self) -> bool {
        let Some(directions) = self.record.result.as_ref().and_then(|figures| figures.directions.as_ref()) else {
            return false;
        };
        let lost = |flow: &FlowFigures| flow.packets_lost.unwrap_or(0);
        let (tx, rx) = (lost(&directions.tx), lost(&directions.rx));
        let (this, other) = if self.way == Direction::Tx { (tx, rx) } else { (rx, tx) };
        this > 0 && this < other / LITTLE
    }

    /// The share of what was sent that was lost, or retransmitted, where that matters.
    pub(super) fn lost_share(&self) -> f64 {
        self.loss().map(|loss| loss.ratio).or(self.tcp_loss()).or(self.retransmitted()).unwrap_or(0.0)
    }

    /// The share of TCP's segments that the way lost, by both ends' counts, where that matters.
    pub(super) fn tcp_loss(&self) -> Option<f64> {
        let losses = self.losses().filter(|losses| losses.of == Counted::Segments)?;
        let ratio = losses.lost() as f64 / losses.sent.max(1) as f64;
        (losses.lost() >= self.few_segments() && ratio >= self.least_loss()).then_some(ratio)
    }

    /// Whether TCP lost hardly any segments this way, by both ends' counts, or where those are not known, retransmitted hardly any.
    pub(super) fn loses_no_segments(&self) -> bool {
        self.losses().map_or(self.retransmitted().is_none(), |_| self.tcp_loss().is_none())
    }

    /// Of TCP a few losses matter where they keep its congestion window small most of the time.
    pub(super) fn is_held_by_loss(&self) -> bool {
        self.share_of(&[Limit::CongestionWindow]) >= HELD
    }

    pub(super) fn few_segments(&self) -> u64 {
        if self.is_held_by_loss() { FEW_THAT_HOLD } else { FEW }
    }

    fn least_loss(&self) -> f64 {
        if self.is_held_by_loss() { LOSS / 10.0 } else { LOSS }
    }

    /// The share of TCP's segments that were retransmitted, where that matters.
    pub(super) fn retransmitted(&self) -> Option<f64> {
        let tcp = self.tcp().filter(|_| self.is(Workload::TcpStream))?;
        // Before Linux 4.6 (tcpi_data_segs_out) nobody counts a connection's segments; full ones are the least that it took.
        // Of the whole connection, as what was retransmitted is.
        let full = || Some(self.throughput_bps()? * self.whole_s()? / 8.0 / f64::from(tcp.mss?));
        let sent = tcp.segments_sent.map(|sent| sent as f64).or_else(full).filter(|sent| *sent > 0.0)?;
        let share = tcp.retransmissions as f64 / sent;
        (share >= self.least_loss() && tcp.retransmissions >= self.few_segments()).then_some(share)
    }

    /// What did not arrive, or was retransmitted, where that matters.
    pub(super) fn missing(&self) -> Option<u64> {
        let of_segments = || Some(self.losses()?.lost());
        match (self.loss(), self.retransmitted()) {
            (Some(loss), _) => Some(loss.packets),
            (None, Some(_)) => {
                let tcp = self.tcp()?;
                Some(tcp.segments_lost.filter(|lost| *lost > 0).unwrap_or(tcp.retransmissions))
            }
            (None, None) if self.is(Workload::TcpStream) => {
                self.tcp_loss().and_then(|_| of_segments()).or_else(|| self.untransmitted())
            }
            // Each that is lost keeps the next waiting.
            (None, None) if self.waited_for_timer().is_none() => None,
            (None, None) if self.is(Workload::TcpRr) && !self.record.losses.is_empty() => {
                // A damaged segment has come, as tcp_info has it, and is lost all the same.
                of_segments().filter(|lost| *lost > 0).or_else(|| Some(self.drops_seen()).filter(|drops| *drops > 0))
            }
            (None, None) => Some(self.retransmitted_by_any()).filter(|again| *again > 0),
        }
    }

    /// What TCP handed down and its own machine, its queueing discipline too, never transmitted, where that matters: it tries again, and
    /// counts it as no retransmission.
    fn untransmitted(&self) -> Option<u64> {
        let is_own = |line: &&LossLine| line.cause == Some(DropCause::Untransmitted) || line.stage == Stage::Qdisc;
        let lines = self.drops.iter().filter(is_own);
        let packets = lines.map(|line| line.packets).total();
        let sent = self.tcp()?.segments_sent?;
        (packets >= FEW && packets as f64 >= LOSS * sent as f64).then_some(packets)
    }

    /// Segments that either machine retransmitted, SYNs among them, other connections' too.
    pub(super) fn retransmitted_by_any(&self) -> u64 {
        self.sides().iter().filter_map(|side| side.counter("Tcp RetransSegs")).total()
    }

    /// Whether both machines tell that TCP retransmitted nothing, and nothing was lost: what its own machine drops it tries again, too,
    /// and counts it as no retransmission.
    fn sends_nothing_again(&self) -> bool {
        self.sides().iter().all(|side| side.counter("Tcp RetransSegs") == Some(0))
            && self.record.losses.iter().all(|losses| losses.lost() == 0)
            && self.drops_seen() == 0
    }

    /// What a stage lost, where that is a good part of what was lost.
    pub(super) fn lost_at(&self, stage: Stage) -> Option<LostAt<'_>> {
        self.lost_by(stage, |_| true)
    }

    /// What a stage lost by the lines that `is` takes, where that is a good part of what was lost.
    pub(super) fn lost_by(&self, stage: Stage, is: impl Fn(&LossLine) -> bool) -> Option<LostAt<'_>> {
        self.lost_in(self.drops.iter().filter(|line| line.stage == stage && is(line)).collect())
    }

    /// What a stage of the machine in the middle lost, where that is a good part of what was lost: the stage with the most.
    pub(super) fn lost_in_middle(&self) -> Option<(&LossLine, LostAt<'_>)> {
        let first = self.of_middle.iter().max_by_key(|line| line.packets)?;
        let at = self.of_middle.iter().filter(|line| line.place() == first.place());
        Some((first, self.lost_in(at.collect())?))
    }

    /// These lines, where they are a good part of what was lost.
    fn lost_in<'c>(&'c self, lines: Vec<&'c LossLine>) -> Option<LostAt<'c>> {
        let packets: u64 = lines.iter().map(|line| line.packets).total();
        let segments: u64 = lines.iter().map(|line| self.segments_of(line)).total();
        let all = self.missing()?;
        let part = segments as f64 / all.max(1) as f64;
        let few = if self.record.workload.is_stream() { FEW } else { FEW_REQUESTS };
        // One or two that no counter names are others'.
        let is_unnamed = lines.iter().all(|line| line.cause == Some(DropCause::Undelivered));
        let least = if is_unnamed { few.min(all).max(FEW_REQUESTS) } else { few.min(all) };
        if packets < least || part < PART {
            return None;
        }
        Some(LostAt { packets, segments, part: part.min(1.0), lines })
    }

    /// Drops that counters saw at these stages and between them.
    pub(super) fn dropped_between(&self, first: Stage, last: Stage) -> u64 {
        let at = self.drops.iter().filter(|line| (first..=last).contains(&line.stage));
        at.map(|line| line.packets).total()
    }

    /// The same between the two links, in the machine between them too.
    pub(super) fn dropped_between_links(&self) -> u64 {
        let of_middle: u64 = self.of_middle.iter().map(|line| line.packets).total();
        self.dropped_between(Stage::MacTx, Stage::DriverRxRing).saturating_add(of_middle)
    }

    /// Whether more arrived than the link of this end counted: the traffic passes by another interface than its address's.
    pub(super) fn passes_elsewhere(&self, of: End) -> bool {
        self.record.doubts.iter().any(|doubt| match &doubt.what {
            Doubted::CountersContradict { contradiction } => {
                contradiction.is_elsewhere(of.into(), of == self.sender.end)
            }
            _ => false,
        })
    }

    /// How far counters of drops are to be believed: not all the way where they contradict each other, nor where other
    /// traffic of the machine moves them and they were taken for as much as was missing, nor one or two of them.
    pub(super) fn sure_of(&self, at: &LostAt<'_>) -> Sureness {
        let surplus = self.unaccounted().map_or(0, |rest| rest.min(0).unsigned_abs());
        if at.packets < FEW_REQUESTS
            || at.any(LossLine::is_of_the_whole_machine)
            || (surplus >= FEW && surplus as f64 >= PART * self.drops_seen() as f64)
        {
            Sureness::Likely
        } else {
            Sureness::Sure
        }
    }

    /// Packets that the sender's queueing discipline dropped beyond what the trial lost, where that is what counters have too many
    /// of: others' packets.
    pub(super) fn surplus_at_qdisc(&self) -> Option<u64> {
        let surplus = self.unaccounted()?.min(0).unsigned_abs();
        let at_qdisc: u64 =
            self.drops.iter().filter(|line| line.stage == Stage::Qdisc).map(|line| line.packets).total();
        (surplus >= FEW && surplus as f64 >= PART * self.drops_seen() as f64 && at_qdisc >= surplus).then_some(surplus)
    }

    /// How many segments of TCP were in so many packets of a stage: a stack handles several as one, as many as its link's packets have
    /// on average, where the ends could not count segments.
    pub(super) fn segments_in(&self, packets: u64, stage: Stage) -> u64 {
        let of = |segments: u64, packets: Option<u64>| Some((segments as f64 / packets?.max(1) as f64).max(1.0));
        let tcp = self.tcp().filter(|_| self.is(Workload::TcpStream) && self.losses().is_none());
        let in_each = tcp.and_then(|tcp| match stage {
            Stage::SenderStack => of(tcp.segments_sent?, self.sender.link_sent()),
            Stage::ReceiverStack => of(tcp.segments_sent?.checked_sub(self.missing()?)?, self.receiver.link_received()),
            _ => None,
        });
        (packets as f64 * in_each.unwrap_or(1.0)).round() as u64
    }

    /// Those that a line counts; the loss budget may have told how many already.
    fn segments_of(&self, line: &LossLine) -> u64 {
        let is_told = line.adjustments.iter().any(|one| matches!(one, Adjustment::Buffers { .. }));
        if is_told { line.packets } else { self.segments_in(line.packets, line.stage) }
    }

    /// The segments, or datagrams, in what any counter saw dropped, of either machine.
    pub(super) fn segments_dropped(&self) -> u64 {
        self.drops.iter().map(|line| self.segments_of(line)).total()
    }

    /// Drops that any counter saw, of either machine.
    pub(super) fn drops_seen(&self) -> u64 {
        self.drops.iter().map(|line| line.packets).total()
    }

    /// Payload bits per second that the trial was asked for in this direction; infinite for as fast as possible.
    pub(super) fn asked_bps(&self) -> Option<f64> {
        Source { record: self.record, direction: Some(self.way), flow: None }.offered_by(self.asked.as_ref()?)
    }

    pub(super) fn is_unlimited(&self) -> bool {
        self.asked_bps() == Some(f64::INFINITY)
    }

    pub(super) fn throughput_bps(&self) -> Option<f64> {
        self.flow()?.throughput_bps
    }

    /// Whether as many datagrams were sent as were asked.
    pub(super) fn has_sent_all(&self) -> bool {
        let sent = self.flow().and_then(|flow| flow.achieved_load_bps).zip(self.asked_bps());
        self.is(Workload::UdpStream) && sent.is_some_and(|(sent, asked)| sent >= self.reached() * asked)
    }

    /// Payload bits per second of the time in which something arrived.
    pub(super) fn passing_bps(&self) -> Option<f64> {
        let passing = Some(1.0 - self.silent_share()).filter(|part| *part >= LEAST_PASSING);
        Some(self.throughput_bps()? / passing.unwrap_or(1.0))
    }

    /// The smaller speed of the two links, bits per second; absent where one is no hardware or does not tell (a veth
    /// says 10 Gbit/s and means nothing by it, and an emulated board's MAC waits for no cable), and where more came
    /// through than a link of the speed that is told carries.
    pub(super) fn link_bps(&self) -> Option<f64> {
        let told = self.told_link_bps().filter(|_| !self.doubts(DoubtKind::Emulated))?;
        // What waited in buffers when the measured part began makes a little more of it.
        let fits = |got: f64| self.carries(told).is_none_or(|line| got <= line * ABOVE_LINE);
        self.throughput_bps().is_none_or(fits).then_some(told)
    }

    /// The same as the interfaces tell it.
    pub(super) fn told_link_bps(&self) -> Option<f64> {
        let speed = |side: Side<'_>| side.nic().filter(|nic| nic.kind.is_none())?.speed_mbps;
        let speeds = [speed(self.sender), speed(self.receiver)];
        speeds.into_iter().flatten().min().map(|mbit| f64::from(mbit) * 1e6)
    }

    /// Payload bits per second that the link carries at most, with all headers of full frames.
    pub(super) fn line_bps(&self) -> Option<f64> {
        self.carries(self.link_bps()?)
    }

    /// The same of a link of this speed.
    fn carries(&self, link_bps: f64) -> Option<f64> {
        let per_frame =
            (EthernetOverhead::HEADER + EthernetOverhead::FCS + EthernetOverhead::PREAMBLE + EthernetOverhead::GAP)
                as f64;
        let mtu = f64::from(self.sender.nic()?.mtu?);
        // Headers of IP, and of TCP with its timestamps, or of UDP.
        let (payload, headers) = match self.record.workload {
            Workload::TcpStream => {
                let segment = self.tcp().and_then(|tcp| tcp.mss).map(f64::from).filter(|mss| *mss > 0.0);
                (segment.map_or(mtu - 52.0, |segment| segment.min(mtu - 52.0)), 52.0)
            }
            Workload::UdpStream => ((self.message_size()? as f64).min(mtu - 28.0), 28.0),
            _ => return None,
        };
        (payload > 0.0).then_some(link_bps * payload / (payload + headers + per_frame))
    }

    /// Less came through than was wanted, or than the link carries: a clause that says so.
    pub(super) fn short(&self) -> Option<String> {
        let got = self.throughput_bps()?;
        let mbit = |bps: f64| tidy(bps / 1e6);
        match (self.asked_bps(), self.line_bps()) {
            (Some(asked), line) if asked.is_finite() => {
                let wanted = line.map_or(asked, |line| asked.min(line * SHORT_OF_LINE));
                (got < self.reached() * wanted)
                    .then(|| format!("{} of {} Mbit/s that were asked came through", mbit(got), mbit(asked)))
            }
            (Some(_), Some(line)) => (got < SHORT_OF_LINE * line)
                .then(|| format!("{} of {} Mbit/s that the link carries came through", mbit(got), mbit(line))),
            (Some(_), None) => Some(format!("{} Mbit/s came through, with no rate limit set", mbit(got))),
            (None, _) => None,
        }
    }

    /// Fewer transactions a second came about than were asked: a clause that says so.
    pub(super) fn seldom(&self) -> Option<String> {
        let got = self.record.result.as_ref()?.transactions_per_s?;
        let wanted = self.wanted_per_s()?;
        (wanted.is_finite() && got < self.reached().min(SELDOM) * wanted)
            .then(|| format!("{} of {} transactions/s that were asked came about", tidy(got), tidy(wanted)))
    }

    /// The transactions a second that were asked for, of all streams.
    pub(super) fn wanted_per_s(&self) -> Option<f64> {
        let asked = self.asked.as_ref().filter(|asked| !asked.workload.is_stream())?;
        let each = f64::from(asked.streams.max(1));
        Some(each * 1e9 / asked.rate.gap_ns(u64::from(asked.request_size).max(1))?)
    }

    /// From this share of what was asked on it was reached: at random departures, less may have been drawn.
    pub(super) fn reached(&self) -> f64 {
        let is_random = self.asked.as_ref().is_some_and(|asked| asked.spacing == Spacing::Poisson);
        let sent = self.flow().and_then(|flow| flow.packets_sent).unwrap_or(1).max(1) as f64;
        let burst = self.asked.as_ref().map_or(1.0, |asked| f64::from(asked.burst));
        if is_random { (1.0 - 4.0 * (burst / sent).sqrt()).min(SHORT_OF_ASKED) } else { SHORT_OF_ASKED }
    }

    /// The share of what was asked, or of what the link carries, that did not come through; absent where neither is known.
    pub(super) fn missing_share(&self) -> Option<f64> {
        let wanted = self.asked_bps().filter(|bps| bps.is_finite()).or_else(|| self.line_bps())?;
        Some(1.0 - self.throughput_bps()? / wanted).filter(|share| *share > 0.0)
    }

    /// The same of transactions.
    pub(super) fn missing_transactions(&self) -> Option<f64> {
        let wanted = self.wanted_per_s().filter(|wanted| wanted.is_finite())?;
        let got = self.record.result.as_ref()?.transactions_per_s?;
        Some(1.0 - got / wanted).filter(|share| *share > 0.0)
    }

    /// Datagrams were read more slowly than they were sent, and waited in a buffer meanwhile: the share of them that waited longer
    /// than the trial, and a clause that says so.
    pub(super) fn read_late(&self) -> Option<(f64, String)> {
        let flow = self.flow()?;
        let (sent, got) = (flow.achieved_load_bps?, self.throughput_bps()?);
        let late = (1.0 - got / sent - self.loss_ratio().unwrap_or(0.0)) * flow.packets_sent.unwrap_or(FEW) as f64;
        let is_late = self.is(Workload::UdpStream) && self.loss().is_none() && got < 0.95 * sent && late >= FEW as f64;
        let clause = || format!("{} Mbit/s were sent, and read at {}", tidy(sent / 1e6), tidy(got / 1e6));
        is_late.then(|| (1.0 - got / sent, clause()))
    }

    /// In how many runs datagrams were lost, and how many in all of them.
    pub(super) fn loss_runs(&self) -> Option<(u64, u64)> {
        let bursts = self.flow()?.loss_bursts.as_ref()?;
        let lost = bursts.iter().map(|(length, count)| length.saturating_mul(*count)).total();
        Some((bursts.values().copied().total(), lost))
    }

    /// Copies that arrived beside the first one, where they are enough to matter, and their share of what arrived.
    pub(super) fn duplicated(&self) -> Option<(u64, f64)> {
        let copies = match self.losses() {
            Some(losses) if losses.of == Counted::Segments => losses.arrived.saturating_sub(losses.sent),
            _ => self.flow()?.packets_duplicated?,
        };
        let arrived =
            self.flow().and_then(|flow| flow.packets_received).or(self.losses().map(|losses| losses.arrived))?;
        let share = copies as f64 / arrived.max(1) as f64;
        (copies >= FEW && share >= LOSS).then_some((copies, share))
    }

    /// Datagrams that others overtook, where they are enough to matter, and their share of what arrived.
    pub(super) fn overtaken(&self) -> Option<(u64, f64)> {
        let flow = self.flow()?;
        if let Some(tcp) = flow.tcp.as_ref().filter(|_| self.is(Workload::TcpStream)) {
            // What follows a lost segment arrives out of order, too.
            let (late, lost, arrived) = (tcp.reordered_segments?, tcp.segments_lost?, self.losses()?.arrived);
            // What a receiver's stack found damaged is missing in its order as well.
            let spurious = tcp.spurious_retransmissions.unwrap_or(0);
            // Copies that the way makes are told as spurious, too: only a sender that saw segments overtaken knows.
            let seen = ["TCPSACKReorder", "TCPTSReorder"].map(|name| self.sender.counter(&format!("TcpExt {name}")));
            let overtaken = seen.into_iter().flatten().any(|times| times > 0);
            let lost = lost.max(tcp.retransmissions.saturating_sub(if overtaken { spurious } else { 0 }));
            let share = late as f64 / arrived.max(1) as f64;
            let least = match self.shares_machine() {
                true if self.may_be_cpu() => return None,
                true => OVERTAKEN_HERE,
                false => OVERTAKEN_TCP,
            };
            return (late >= FEW && share >= least && lost.saturating_mul(1000) < late).then_some((late, share));
        }
        let (late, arrived) = (flow.packets_reordered?, flow.packets_received?);
        let share = late as f64 / arrived.max(1) as f64;
        (late >= FEW && share >= LOSS).then_some((late, share))
    }

    /// Each connection waited until its SYN was sent again: no transaction took less than that, and as many SYNs were.
    pub(super) fn waits_for_each_syn(&self) -> bool {
        let Some(latency) = self.latency().filter(|_| self.is(Workload::TcpCrr)) else { return false };
        let again = self.sides().iter().filter_map(|side| side.counter("TcpExt TCPSynRetrans")).max().unwrap_or(0);
        latency.min_s.is_some_and(|least| least >= LEAST_SYN_S) && again >= latency.count.max(2) && latency.count > 0
    }

    /// Round trips over TCP in which something was sent again.
    pub(super) fn waited_for_timer(&self) -> Option<TimerWaits> {
        let latency = self.latency().filter(|_| matches!(self.record.workload, Workload::TcpRr | Workload::TcpCrr))?;
        let each = self.waits_for_each_syn() || self.retransmitted_by_any() >= latency.count.max(2);
        // Where the way alone takes long, the timer does too (RFC 6298). Where each waited, the quickest did.
        let least = match latency.min_s.filter(|_| !each) {
            Some(quickest_s) => (quickest_s * 3.0).max(LEAST_TIMER_S),
            None => LEAST_TIMER_S,
        };
        let slow = latency.histogram.buckets().filter(|(ns, _)| *ns as f64 / 1e9 >= least);
        // What is slow without any is an end that answers late.
        let timed = if self.sends_nothing_again() { 0 } else { slow.map(|(_, count)| count).total() };
        let is_left = self.is_left_waiting(latency);
        (timed > 0 || is_left).then_some(TimerWaits { timed, is_left, answered: latency.count })
    }

    /// Whether the last transaction, of some stream at least, still waited for something that was sent again when the trial ended: of one
    /// after the other the rest of the time.
    fn is_left_waiting(&self, latency: &Latency) -> bool {
        let asked = self.asked.as_ref().filter(|asked| asked.outstanding <= 1);
        let Some(asked) = asked.filter(|asked| asked.rate == OfferedLoad::Unlimited) else { return false };
        let answered_s = latency.mean_s.unwrap_or(0.0) * latency.count as f64 / f64::from(asked.streams.max(1));
        let rest_s = self.span_s().map_or(0.0, |span_s| span_s - answered_s);
        rest_s >= LEAST_REST_S && self.retransmitted_by_any() > 0
    }

    /// Whether about the same came through all the time, but for the first slice: a window grows in it. `None`: too few slices.
    pub(super) fn is_steady(&self) -> Option<bool> {
        let rates: Vec<f64> = self.record.intervals.iter().skip(1).filter_map(|slice| slice.throughput_bps).collect();
        let mean = rates.iter().sum::<f64>() / rates.len().max(1) as f64;
        let near = rates.iter().filter(|bps| (**bps - mean).abs() <= STEADY * mean).count();
        (rates.len() >= 4).then_some(near as f64 >= 0.8 * rates.len() as f64)
    }

    /// Whether a few slices, of which nobody can say more, had about the same come through.
    pub(super) fn varies_little(&self) -> bool {
        let rates = || self.record.intervals.iter().filter_map(|slice| slice.throughput_bps);
        let (least, most) =
            rates().fold((f64::INFINITY, 0.0_f64), |(least, most), bps| (least.min(bps), most.max(bps)));
        least >= (1.0 - EVEN) * most
    }

    /// Whether TCP delivered no faster at the end of a slice than in all of it: then a rate passes, and not what losses leave of a higher
    /// one. `None`: round trips are too short to tell bursts from a rate.
    pub(super) fn delivers_evenly(&self) -> Option<bool> {
        self.tcp()?.min_rtt_s.filter(|rtt_s| *rtt_s >= LEAST_RTT_S)?;
        let most = if self.streams() > 1.0 { MUCH_FASTER } else { FASTER };
        let ratio = |slice: &Interval| {
            let delivery_bps = slice.tcp.as_ref()?.delivery_rate? as f64 * 8.0 * self.streams();
            slice.throughput_bps.filter(|bps| *bps > 0.0).map(|bps| delivery_bps / bps)
        };
        let ratios: Vec<f64> = self.record.intervals.iter().filter_map(ratio).collect();
        (!ratios.is_empty()).then(|| ratios.iter().all(|ratio| *ratio <= most))
    }

    /// The largest window that the receiver announced, as the sender's slices have it; absent where none tells.
    pub(super) fn largest_window(&self) -> Option<u64> {
        let windows = self.record.intervals.iter().filter_map(|one| one.tcp.as_ref()?.send_window);
        windows.max().map(u64::from)
    }

    /// Whether, of the time slices in which round trips were as long as behind a queue, most had much less come through than the best
    /// did: a queue that stands is that of something that is busy, and passes what it can. What waits for a lost segment is read late, and
    /// was delivered all the same.
    pub(super) fn passes_less_when_queued(&self) -> bool {
        // Slices of both ways at once have the sum, which tells nothing of the way that carries little.
        let Some(least_us) = self.tcp().and_then(|tcp| Some(tcp.min_rtt_s? * 1e6)).filter(|_| !self.carries_little())
        else {
            return false;
        };
        let intervals = &self.record.intervals;
        let best = intervals.iter().filter_map(|one| one.throughput_bps).fold(0.0, f64::max);
        let stands = |tcp: &TcpSample| is_queued(f64::from(tcp.rtt_us), least_us);
        let queued =
            intervals.iter().filter_map(|one| Some((one.throughput_bps?, one.tcp.as_ref().filter(|tcp| stands(tcp))?)));
        let queued: Vec<(f64, u64)> = queued.map(|(bps, tcp)| (bps, tcp.delivery_rate.unwrap_or(0))).collect();
        // Of both ways the delivery rate is one's, and the throughput both ones'.
        let is_read_late = self.retransmitted().is_some() && self.record.direction != Direction::Both;
        let best_delivery = queued.iter().map(|(_, delivery)| *delivery as f64).fold(0.0, f64::max);
        let is_low = |(bps, delivery): &&(f64, u64)| {
            let is_delivered = is_read_late && best_delivery > 0.0 && *delivery as f64 >= MUCH_LESS * best_delivery;
            *bps < MUCH_LESS * best && !is_delivered
        };
        queued.iter().filter(is_low).count() * 2 > queued.len()
    }

    /// Payload bits per second that came through this way, and the other one, of both at once.
    fn ways_bps(&self) -> Option<(f64, f64)> {
        let directions = self.record.result.as_ref()?.directions.as_ref()?;
        let (tx, rx) = (directions.tx.throughput_bps?, directions.rx.throughput_bps?);
        Some(if self.way == Direction::Tx { (tx, rx) } else { (rx, tx) })
    }

    /// Whether this way, of both at once, carried little beside the other one.
    pub(super) fn carries_little(&self) -> bool {
        self.ways_bps().is_some_and(|(this, other)| this * MANY_TIMES <= other)
    }

    /// The share of the time in which nothing came through this way.
    pub(super) fn silent_share(&self) -> f64 {
        let (silent_s, _) = self.held(|event| matches!(event.what, EventKind::Stall { .. }));
        self.span_s().map_or(0.0, |span_s| silent_s / span_s)
    }

    /// Payload bits per second that something on the way lets pass, which is busy: as long as it is so nothing is silent that passes it, and
    /// what waits for a lost segment is only read late.
    pub(super) fn busy_bps(&self) -> Option<f64> {
        let passing = self.passing_bps()?;
        let is_known = self.record.direction != Direction::Both && self.streams() <= 1.0;
        let samples = self.record.intervals.iter().filter_map(|one| one.tcp.as_ref()?.delivery_rate);
        let mut delivered: Vec<f64> = samples.filter(|_| is_known).map(|octets| octets as f64 * 8.0).collect();
        delivered.sort_by(f64::total_cmp);
        let median = delivered.get(delivered.len() / 2).copied().unwrap_or(f64::INFINITY);
        Some(passing.min(median.max(self.throughput_bps()?)))
    }

    /// Nothing moved for a while, or from a moment on.
    pub(super) fn stood_still(&self) -> bool {
        self.events().any(|event| matches!(event.what, EventKind::Stall { .. } | EventKind::FlowDied { .. }))
    }

    /// Whether anything went wrong at all.
    pub(super) fn is_troubled(&self) -> bool {
        self.loss().is_some()
            || self.retransmitted().is_some()
            || self.tcp_loss().is_some()
            || self.short().is_some()
            || self.seldom().is_some()
            || self.duplicated().is_some()
            || self.overtaken().is_some()
            || self.waited_for_timer().is_some()
            || self.stood_still()
            || self.record.error.is_some()
    }

    /// A stream to which nothing happened that counts: all that was asked came through.
    pub(super) fn is_untroubled_stream(&self) -> bool {
        self.record.workload.is_stream() && !self.is_troubled()
    }

    /// A stream went as fast as it could, and that had an end: nothing else went wrong.
    pub(super) fn only_has_an_end(&self) -> bool {
        self.is_unlimited()
            && self.line_bps().is_none()
            && self.loss().is_none()
            && self.tcp_loss().is_none()
            && self.duplicated().is_none()
            && self.overtaken().is_none()
            && !self.stood_still()
            && self.record.error.is_none()
    }

    /// The metric in which trouble of this record shows.
    pub(super) fn metric(&self) -> &'static str {
        match (self.loss(), self.record.workload.is_stream()) {
            (Some(_), _) => "loss",
            (None, true) => "throughput",
            (None, false) => "latency_p50",
        }
    }

    /// A good part of the loss, in words.
    pub(super) fn of_loss(&self, at: &LostAt) -> String {
        match self.tcp().filter(|tcp| tcp.retransmissions > 0 && self.is(Workload::TcpStream)) {
            Some(tcp) if self.loss().is_none() => {
                let again = tidy(at.segments as f64 / tcp.retransmissions as f64);
                let several = match at.segments > at.packets {
                    true => format!("they had about {} segments in them; ", at.segments),
                    false => String::new(),
                };
                format!("{several}{again} for each segment that was retransmitted")
            }
            _ => format!("{} of all that was lost", percent(at.part)),
        }
    }
}
