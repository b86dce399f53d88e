//! Where the time of a trial went, and what happened in it: both ends' slices, put together.
//! Knows which end sends; what slices mean is for `time_budget` and `events`.

use linerate_machine::end::{Direction, End};
use linerate_path::budget::{LossLine, MachineAccount};
use linerate_path::stage::Stage;
use linerate_trial::histogram::Histogram;
use linerate_trial::outcome::{Outcome, TcpSummary, ThreadUse};
use linerate_trial::spec::{Spacing, Workload};
use linerate_trial::timeline::{FlowColumn, Timeline};
use linerate_trial::wire::{IpVersion, tcp_header_len};

use crate::events::{Arrivals, LeastSilence, events};
use crate::record::{Counted, Losses, Record};
use crate::time_budget::{Stream, TCP_RTO_MIN_S, TimeLine, Transactions, stream, transactions};
use crate::total::Total;

use super::formulas::Joined;
use super::pair::Pair;

/// Octets of payload in a full segment over Ethernet, where TCP does not tell.
const SEGMENT: f64 = 1500.0 - IpVersion::V4.header_len() as f64 - tcp_header_len(true) as f64;

impl Joined<'_> {
    /// Fills in the record's time budget and events.
    pub(super) fn follow_time(&self, main: &[Pair<'_>], record: &mut Record) {
        let mut ways: Vec<Arrivals<'_>> = Vec::new();
        for source in End::BOTH {
            let pairs: Vec<&Pair<'_>> = main.iter().filter(|pair| pair.flow.source == source).collect();
            let Some(direction) = pairs.first().map(|pair| pair.flow.direction()) else { continue };
            let lines = match self.spec.workload.is_stream() {
                true => self.stream_time(direction, source, &pairs, record),
                false => self.transaction_time(direction, source, &pairs, &record.losses),
            };
            record.time_budget.extend(lines);
            let flows = pairs.iter().map(|pair| pair.flow.id).collect();
            let gap_s = self.spec.rate.gap_ns(self.spec.message_octets().into()).unwrap_or(0.0) / 1e9;
            let gap_s = gap_s * f64::from(self.spec.burst);
            let sent = &self.outcome(source).timeline;
            let received = &self.outcome(source.other()).timeline;
            let (seen, losing) = match self.spec.workload {
                Workload::TcpStream => (received, Some((sent, FlowColumn::Retransmitted))),
                Workload::UdpStream | Workload::Frames => (received, Some((received, FlowColumn::Missing))),
                Workload::TcpRr | Workload::UdpRr | Workload::TcpCrr => (sent, None),
            };
            // Until every flow has brought something again.
            let gaps = pairs.iter().map(|pair| pair.sink.arrivals.as_ref()?.gaps.max_ns());
            let longest_ns = gaps.reduce(|least, gap| Some(least?.min(gap?))).flatten();
            let longest_s = longest_ns.map(|ns| ns as f64 / 1e9);
            let least = match self.spec.workload {
                // One packet that is lost alone makes one wait, and is sent again once.
                Workload::TcpRr if lost_in_one_wait(&pairs) => LeastSilence {
                    stall_s: LeastSilence::of(Workload::TcpStream).stall_s,
                    ..LeastSilence::of(Workload::TcpRr)
                },
                workload => LeastSilence::of(workload),
            };
            ways.push(Arrivals { direction, flows, seen, gap_s, longest_s, least, losing });
        }
        record.events = events(self.spec.workload, self.target, self.host, &ways, |end| {
            // Whatever counters name, a link that has as much as was sent has what died behind it.
            dropped_within(record, end).max(self.seen_by_link(record, end))
        });
    }

    /// Which part of what this end misses of a stream its link counted, by how much less it has than left the sender's link.
    fn seen_by_link(&self, record: &Record, end: End) -> f64 {
        let losses = record.losses.iter().find(|one| one.direction == towards(end));
        if losses.is_some_and(|losses| losses.of == Counted::Segments) {
            return 0.0;
        }
        let link = |end: End, stage, name| self.outcome(end).counters.get(stage, name);
        let left = link(end.other(), Stage::DriverTxRing, "link tx_packets");
        let came = link(end, Stage::DriverRxRing, "link rx_packets");
        let (Some(left), Some(came)) = (left, came) else { return 0.0 };
        // Fragments are frames of their own. Who has more than was sent to it has others' too, and nothing is known.
        let slack = FEW_FRAMES + 0.02 * left as f64;
        let lost = match losses {
            Some(losses) if (left as f64) < losses.sent as f64 - slack => return 0.0,
            Some(losses) => losses.lost() as f64 / losses.sent.max(1) as f64 * left as f64,
            // Of a trial that failed nobody knows what was lost.
            None => left as f64,
        };
        if came as f64 > left as f64 + slack || lost < 1.0 {
            return 0.0;
        }
        (1.0 - (left.saturating_sub(came) as f64 - slack).max(0.0) / lost.max(1.0)).clamp(0.0, 1.0)
    }

    fn outcome(&self, end: End) -> &Outcome {
        if end == End::Target { self.target } else { self.host }
    }

    fn stream_time(&self, direction: Direction, sender: End, pairs: &[&Pair<'_>], record: &Record) -> Vec<TimeLine> {
        let octets = self.spec.message_octets();
        let outcome = self.outcome(sender);
        let sending = &record.machine(sender).environment;
        let driver = sending.nic.as_ref().and_then(|nic| nic.driver.as_deref());
        let stalled_s =
            MachineAccount::new(sender, &outcome.counters, driver).pause().and_then(|pause| pause.stalled_s);
        let whole_s = pairs.iter().map(|pair| pair.source.elapsed_ns).max().unwrap_or(0) as f64 / 1e9
            + self.spec.warmup.as_secs_f64();
        stream(&Stream {
            direction,
            sender,
            flows: pairs.iter().map(|pair| pair.flow.id).collect(),
            sent: &outcome.timeline,
            received: &self.outcome(sender.other()).timeline,
            sending,
            receiving: &record.machine(sender.other()).environment,
            is_tcp: self.spec.workload == Workload::TcpStream,
            paces: pairs.iter().any(|pair| pair.source.tcp.as_ref().is_some_and(TcpSummary::goes_by_rate)),
            segment: pairs.iter().find_map(|pair| pair.source.tcp.as_ref()?.mss).map_or(SEGMENT, f64::from),
            asked: self.spec.rate.bits_per_second(octets.into()).map(|bps| bps / 8.0),
            grain: f64::from(octets) * f64::from(self.spec.burst) * self.unevenness(octets),
            paused: stalled_s.filter(|_| whole_s > 0.0).map_or(0.0, |stalled_s| (stalled_s / whole_s).min(1.0)),
        })
    }

    /// The factor by which a burst moves more, or less, in a slice by chance alone.
    fn unevenness(&self, octets: u32) -> f64 {
        let per_second = self.spec.rate.bits_per_second(octets.into()).unwrap_or(0.0) / 8.0 / f64::from(octets.max(1));
        let per_slice = per_second * Timeline::PERIOD_NS as f64 / 1e9 / f64::from(self.spec.burst.max(1));
        if self.spec.spacing == Spacing::Poisson { 1.0 + 2.0 * per_slice.sqrt() } else { 1.0 }
    }

    fn transaction_time(
        &self,
        direction: Direction,
        requester: End,
        pairs: &[&Pair<'_>],
        losses: &[Losses],
    ) -> Vec<TimeLine> {
        let ends = [self.target, self.host].into_iter();
        let again: Option<u64> = ends.map(|end| end.counters.get(Stage::SenderStack, "Tcp RetransSegs")).total();
        let lost: u64 = losses.iter().map(Losses::lost).total();
        let mut latency = Histogram::default();
        pairs.iter().filter_map(|pair| pair.source.latency.as_ref()).for_each(|one| latency.merge(one));
        let threads =
            |of: fn(&Pair<'_>) -> ThreadUse| pairs.iter().map(|pair| of(pair)).reduce(|a, b| a + b).unwrap_or_default();
        transactions(&Transactions {
            direction,
            requester,
            latency: &latency,
            asking: threads(|pair| pair.source.thread),
            answering: threads(|pair| pair.sink.thread),
            whole: pairs.iter().map(|pair| pair.source.messages_total).total(),
            lost_s: pairs.iter().map(|pair| pair.source.timeouts.unwrap_or(0)).total() as f64,
            retransmission_s: (self.spec.workload != Workload::UdpRr).then_some(TCP_RTO_MIN_S),
            // What an end drops itself it sends once more, and counts that as no retransmission.
            retransmitted: again.map(|again| again.max(lost)),
            least_rtt_s: pairs.iter().filter_map(|pair| pair.source.tcp.as_ref()?.min_rtt_s).reduce(f64::min),
        })
    }
}

/// Whether all that was retransmitted, twice or more in each flow, was so in one round trip of it: chance does not lose packets one
/// after the other and no others, an outage does.
fn lost_in_one_wait(pairs: &[&Pair<'_>]) -> bool {
    pairs.iter().all(|pair| {
        let again = [&pair.source.tcp, &pair.sink.tcp].into_iter().flatten().map(|tcp| tcp.retransmissions).total();
        let slow = pair.source.latency.iter().flat_map(Histogram::buckets);
        let slow = slow.filter(|(ns, _)| *ns as f64 / 1e9 >= TCP_RTO_MIN_S).map(|(_, count)| count).total();
        slow == 1 && again >= 2
    })
}

/// Frames that are nobody's datagrams: neighbours' questions and answers.
const FEW_FRAMES: f64 = 20.0;

fn towards(end: End) -> Direction {
    if end == End::Target { Direction::Rx } else { Direction::Tx }
}

/// Which part of the datagrams that this end missed its own counters saw dropped after its interface had counted them.
fn dropped_within(record: &Record, end: End) -> f64 {
    let towards = towards(end);
    let lost = record.losses.iter().filter(|one| one.direction == towards).map(Losses::lost).total();
    let within = |line: &&LossLine| line.end == end && line.direction == towards && line.stage >= Stage::DriverRxRing;
    let dropped = record.loss_budget.iter().flatten().filter(within).map(|line| line.packets).total();
    if lost == 0 { 0.0 } else { (dropped as f64 / lost as f64).min(1.0) }
}
