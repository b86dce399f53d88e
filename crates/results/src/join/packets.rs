//! Where the packets of a stream went: the path and the loss budget of each direction, from both outcomes.
//! Knows which machine sends; what counters mean is for `linerate_path::budget`.

use linerate_machine::end::{Direction, End, Party, PerEnd};
use linerate_machine::environment::{Environment, Nic};
use linerate_path::budget::{
    Adjustment, Chain, Datagrams, DropCause, LossBudget, LossLine, MachineAccount, Trial, drops_seen, elsewhere,
    loss_budget, path,
};
use linerate_path::stage::{Counters, Stage};
use linerate_trial::doubt::Doubt;
use linerate_trial::frames::FrameKind;
use linerate_trial::outcome::Outcome;
use linerate_trial::spec::{Extent, Spec, Workload};
use linerate_trial::wire::IpVersion;

use crate::middle::MiddlePath;
use crate::record::{Counted, Losses, PathLine, Record};
use crate::total::Total;

use super::formulas::{Joined, fragments, fragments_of, sending};
use super::pair::Pair;
use super::send_counts::{Part, SendCounts};

impl Joined<'_> {
    /// Fills in the record's path, budget, losses and benign drops; what is doubted of them comes back.
    pub(super) fn follow_packets(&self, main: &[Pair<'_>], shared_kernel: bool, record: &mut Record) -> Vec<Doubt> {
        let (mut lines, mut benign, mut doubts) = (None::<Vec<_>>, Vec::new(), Vec::new());
        let environments = [record.target.environment.clone(), record.host.environment.clone()];
        for sender in End::BOTH {
            let direction = if sender == End::Target { Direction::Tx } else { Direction::Rx };
            let Some(passed) = self.passed(main, sender, shared_kernel, [&environments[0], &environments[1]]) else {
                continue;
            };
            let target = seen(End::Target, self.target, &environments[0], self.spec);
            let host = seen(End::Host, self.host, &environments[1], self.spec);
            let (sender, receiver) = if sender == End::Target { (target, host) } else { (host, target) };
            let middle = record.middle.clone();
            let not_on_path = middle
                .as_ref()
                .and_then(|middle| middle.is_not_on_path(direction, self.passed_octets(main, direction)));
            let around = PerEnd { target: &environments[0], host: &environments[1] };
            let on_way = middle.as_ref().filter(|_| not_on_path.is_none());
            let on_way = on_way.map(|middle| middle.on_way(direction, around));
            let between = on_way.as_ref().map(MiddlePath::between);
            let chain = Chain { sender: &sender, receiver: &receiver, middle: between };
            doubts.extend(not_on_path);
            if let Some(trial) = passed.trial(|| self.asked_datagrams(main)) {
                record.path.extend(path(trial, chain).into_iter().map(|passage| PathLine { direction, passage }));
            }
            let budget = match &passed {
                Passed::Datagrams { datagrams, .. } => loss_budget(datagrams, chain),
                Passed::Segments { counts, nearly, again, sent, received } => {
                    let outstanding = sent.zip(*received).map(|(sent, received)| sent.saturating_sub(received));
                    segment_budget(counts.or(*nearly), [*again, outstanding], shared_kernel, chain)
                }
            };
            let LossBudget { lines: more, unaccounted, benign_drops, disagreements } = budget;
            lines.get_or_insert_default().extend(more);
            benign.extend(benign_drops);
            record.losses.extend(passed.losses(direction, unaccounted));
            // With both directions at once each machine's counters are looked at twice.
            for doubt in disagreements.into_iter().map(Doubt::from) {
                if !doubts.contains(&doubt) {
                    doubts.push(doubt);
                }
            }
        }
        record.loss_budget = lines;
        record.unaccounted = match record.losses.is_empty() {
            true => None,
            false => Some(record.losses.iter().map(|losses| losses.unaccounted).total()),
        };
        record.benign_drops = benign;
        doubts
    }

    /// Payload of the main flows that arrived, of one direction, the warm-up's included.
    fn passed_octets(&self, main: &[Pair<'_>], direction: Direction) -> u64 {
        let is_stream = self.spec.workload.is_stream();
        // Requests one way are answers the other way.
        let of = main.iter().filter(|pair| !is_stream || pair.flow.direction() == direction);
        of.map(|pair| if is_stream { pair.sink.octets_total } else { 0 }).total()
    }

    /// What went from this end to the other; `None`: nothing that is counted.
    fn passed(
        &self,
        main: &[Pair<'_>],
        sender: End,
        shared_kernel: bool,
        environments: [&Environment; 2],
    ) -> Option<Passed> {
        let of_sender = |pair: &&Pair<'_>| pair.flow.source == sender;
        let there: Vec<&Pair<'_>> = main.iter().filter(of_sender).collect();
        let back: Vec<&Pair<'_>> = main.iter().filter(|pair| !of_sender(pair)).collect();
        let environment = if sender == End::Target { environments[0] } else { environments[1] };
        match self.spec.workload {
            Workload::UdpStream => {
                let first = *there.first()?;
                let fragments = fragments(self.spec, sending(first, environments));
                Some(Passed::Datagrams {
                    of: Counted::Datagrams,
                    datagrams: self.datagrams(&there, fragments, shared_kernel),
                })
            }
            Workload::Frames => {
                there.first()?;
                Some(Passed::Datagrams { of: Counted::Frames, datagrams: self.datagrams(&there, 1, shared_kernel) })
            }
            Workload::TcpStream => {
                there.first()?;
                let segments = |of: fn(&Pair<'_>) -> Option<u64>| there.iter().map(|pair| of(pair)).total();
                Some(Passed::Segments {
                    counts: segment_counts(&there),
                    nearly: nearly_counted(&there),
                    again: there.iter().map(|pair| Some(pair.source.segments?.retransmitted)).total(),
                    // What was counted when the connection had been emptied is of the whole trial, as the stages' counters are.
                    sent: segments(|pair| {
                        let counted = pair.source.segments.map(|segments| segments.sent);
                        counted.or_else(|| pair.source.tcp.as_ref()?.segments_sent)
                    }),
                    received: segments(|pair| {
                        let counted = pair.sink.segments.map(|segments| segments.received);
                        counted.or_else(|| pair.sink.tcp.as_ref()?.segments_received)
                    }),
                })
            }
            Workload::UdpRr => {
                let sum = |pairs: &[&Pair<'_>], of: fn(&Pair<'_>) -> Option<u64>| -> Option<u64> {
                    pairs.iter().map(|pair| of(pair)).total()
                };
                let asked = |pair: &Pair<'_>| pair.source.requests;
                // A request that was doubled on its way is answered twice.
                let arrived = |pair: &Pair<'_>| Some(pair.sink.messages_total.min(pair.source.requests?));
                let answered = |pair: &Pair<'_>| Some(pair.source.messages_total);
                let datagrams = |of: Counted, octets: u32, sent: u64, received_unique: u64, send_errors: u64| {
                    let fragments = fragments_of(octets, self.spec.ip_version(), environment);
                    let datagrams = Datagrams {
                        sent,
                        received_unique,
                        send_errors,
                        fragments,
                        shared_kernel,
                        ..Datagrams::default()
                    };
                    Some(Passed::Datagrams { of, datagrams })
                };
                let spec = self.spec;
                if there.is_empty() {
                    let errors = back.iter().map(|pair| pair.sink.send_errors).total();
                    let (sent, received) = (sum(&back, arrived)?, sum(&back, answered)?);
                    return datagrams(Counted::Answers, spec.response_size, sent, received, errors)
                        .filter(|_| sent > 0);
                }
                let errors = there.iter().map(|pair| pair.source.send_errors).total();
                datagrams(Counted::Requests, spec.request_size, sum(&there, asked)?, sum(&there, arrived)?, errors)
            }
            // Each way the segments of every request, or answer.
            Workload::TcpRr => {
                let counts = if there.is_empty() { answer_counts(&back) } else { segment_counts(&there) };
                counts.map(|counts| Passed::Segments {
                    counts: Some(counts),
                    nearly: None,
                    again: None,
                    sent: None,
                    received: None,
                })
            }
            Workload::TcpCrr => None,
        }
    }

    fn datagrams(&self, pairs: &[&Pair<'_>], fragments: u32, shared_kernel: bool) -> Datagrams {
        let of_frames = self.spec.workload == Workload::Frames;
        let retries = pairs.iter().map(|pair| pair.source.send_retries).total();
        let taken = pairs.iter().filter_map(|pair| Some(pair.sink.frames.as_ref()?.taken)).total();
        let SendCounts { sent, unsent } = SendCounts::of(pairs, &self.pairs, Part::Whole);
        Datagrams {
            sent,
            under_way: pairs.iter().map(|pair| pair.source.under_way).total(),
            unsent,
            taken,
            send_errors: pairs.iter().map(|pair| pair.source.send_errors).total(),
            send_retries: if of_frames { 0 } else { retries },
            refused_below: if of_frames { retries } else { 0 },
            below_ip: of_frames,
            bears_ip: of_frames && self.spec.frame_kind() != FrameKind::Raw,
            received_unique: pairs.iter().filter_map(|p| Some(p.sink.arrivals.as_ref()?.received_total)).total(),
            socket_drops: pairs.iter().map(|pair| pair.sink.socket_drops).total(),
            altered: pairs.iter().filter_map(|pair| Some(pair.sink.frames.as_ref()?.malformed)).total(),
            marks_lost: pairs.iter().map(|p| p.source.end_marks.saturating_sub(p.sink.end_marks)).total(),
            fragments,
            segments: pairs.iter().filter_map(|pair| pair.source.api.segments).max().unwrap_or(0),
            shared_kernel,
        }
    }

    /// What a limited offered load comes to over a trial of known length.
    fn asked_datagrams(&self, main: &[Pair<'_>]) -> Option<u64> {
        let both = if self.spec.direction == Direction::Both { 2 } else { 1 };
        let streams = main.len() / both;
        let octets = u64::from(self.spec.message_octets());
        let bits = (8 * octets.max(1)) as f64;
        let warmup = self.spec.first_rate.unwrap_or(self.spec.rate).bits_per_second(octets)? / bits;
        let measured = self.spec.offered_bps()? / bits;
        match self.spec.extent {
            Extent::Time(time) => {
                let each = measured * time.as_secs_f64() + warmup * self.spec.warmup.as_secs_f64();
                Some((each * streams as f64).round() as u64)
            }
            Extent::Octets(_) => None,
        }
    }
}

/// What passed from one end to the other.
enum Passed {
    /// Datagrams of a stream, requests or answers.
    Datagrams { of: Counted, datagrams: Datagrams },
    /// Data segments of TCP: sent and received over whole connections, and as the two ends' summaries have them.
    Segments {
        counts: Option<(u64, u64)>,
        /// As far as it can be told where the last few were on their way.
        nearly: Option<(u64, u64)>,
        /// Retransmitted.
        again: Option<u64>,
        sent: Option<u64>,
        received: Option<u64>,
    },
}

impl Passed {
    /// For the path: streams only, for the stages' counters count both ways of requests.
    fn trial(&self, asked: impl FnOnce() -> Option<u64>) -> Option<Trial<'_>> {
        match self {
            Passed::Datagrams { of: Counted::Datagrams | Counted::Frames, datagrams } => {
                Some(Trial::Udp { asked: asked(), datagrams })
            }
            Passed::Datagrams { .. } | Passed::Segments { sent: None, received: None, .. } => None,
            Passed::Segments { sent, received, .. } => Some(Trial::Tcp { sent: *sent, received: *received }),
        }
    }

    fn losses(&self, direction: Direction, unaccounted: i64) -> Option<Losses> {
        let (of, sent, arrived) = match self {
            Passed::Datagrams { of, datagrams } => {
                (*of, datagrams.sent.saturating_sub(datagrams.under_way), datagrams.received_unique)
            }
            Passed::Segments { counts, .. } => (*counts).map(|(sent, received)| (Counted::Segments, sent, received))?,
        };
        Some(Losses { direction, of, sent, arrived, unaccounted })
    }
}

/// Data segments that the senders sent and the receivers got, where both counted to the last one.
fn segment_counts(pairs: &[&Pair<'_>]) -> Option<(u64, u64)> {
    let of = |pair: &&Pair<'_>| {
        let (source, sink) = (pair.source.segments?, pair.sink.segments?);
        (source.unacknowledged == 0).then_some((source.sent, sink.received))
    };
    sum(pairs.iter().map(of))
}

/// The same where a few were still on their way at the end, which are left out: what is missing is known to the few.
fn nearly_counted(pairs: &[&Pair<'_>]) -> Option<(u64, u64)> {
    let unacknowledged = pairs.iter().map(|pair| Some(pair.source.segments?.unacknowledged)).total()?;
    let of = |pair: &&Pair<'_>| Some((pair.source.segments?.sent, pair.sink.segments?.received));
    let (sent, received) = sum(pairs.iter().map(of))?;
    let sent = sent.checked_sub(unacknowledged)?;
    (unacknowledged as f64 <= FEW_OF_LOST * sent.saturating_sub(received) as f64).then_some((sent, received))
}

/// The same of the answers' way.
fn answer_counts(pairs: &[&Pair<'_>]) -> Option<(u64, u64)> {
    let of = |pair: &&Pair<'_>| {
        let (source, sink) = (pair.source.segments?, pair.sink.segments?);
        (sink.unacknowledged == 0).then_some((sink.sent, source.received))
    };
    sum(pairs.iter().map(of))
}

fn sum(counts: impl Iterator<Item = Option<(u64, u64)>>) -> Option<(u64, u64)> {
    counts.reduce(|all, one| all.zip(one).map(|((a, b), (c, d))| (a.saturating_add(c), b.saturating_add(d))))?
}

/// What counters saw dropped of TCP; the rest of what was lost, where that is known, is unaccounted. Where nobody counted to the end, no
/// more were lost than were sent `again`, about; but for those that its own machine refused, which TCP tries again and counts as no
/// retransmission: no more than were `outstanding`.
fn segment_budget(
    counts: Option<(u64, u64)>,
    [again, outstanding]: [Option<u64>; 2],
    shared_kernel: bool,
    chain: Chain<'_>,
) -> LossBudget {
    let Chain { sender, receiver, .. } = chain;
    let lost = counts.map(|(sent, received)| sent.saturating_sub(received));
    let mut budget = drops_seen(shared_kernel, lost.or(again), chain);
    let Some(((sent, received), lost)) = counts.zip(lost) else {
        let is_refused = |line: &LossLine| line.cause == Some(DropCause::Untransmitted);
        if again.is_some() && outstanding > again {
            let refused = drops_seen(shared_kernel, outstanding, chain).lines.into_iter().filter(is_refused);
            budget.lines.retain(|line| !is_refused(line));
            budget.lines.extend(refused);
            budget.lines.sort_by_key(LossLine::place);
        }
        return budget;
    };
    budget.disagreements.extend(elsewhere(received, chain));
    let seen: u64 = budget.lines.iter().map(|line| line.packets).total();
    let counted = |seen: &MachineAccount<'_>, stage, names: &[&str]| -> u64 {
        names.iter().filter_map(|name| seen.counters.get(stage, name)).total()
    };
    let is_before_link =
        |line: &LossLine| matches!(line.stage, Stage::SenderStack | Stage::Qdisc) && line.end != Party::Middle;
    let in_stack = budget.lines.iter().all(is_before_link);
    let requests: &[&str] = if in_stack { &["Ip OutRequests", "Ip6 OutRequests"] } else { &[] };
    let buffers = [
        (sent, counted(sender, Stage::SenderStack, requests)),
        (sent, counted(sender, Stage::DriverTxRing, &["link tx_packets"])),
        (received, counted(receiver, Stage::DriverRxRing, &["link rx_packets"])),
    ];
    // A buffer that is cut into segments only behind the counter, or was put together before it, is one packet to it.
    let per_buffer = buffers.map(|(segments, packets)| segments as f64 / packets as f64);
    let per_buffer = per_buffer.into_iter().filter(|each| each.is_finite()).fold(1.0, f64::max);
    let expected = seen as f64 * per_buffer;
    // What IP gave to nobody are no segments of the trial's where its sockets got all of them that came as far as IP.
    let behind = receiver.segments_by_ip().and_then(|segments| segments.checked_sub(received));
    let is_of_trial = |line: &LossLine| {
        line.cause != Some(DropCause::Undelivered) || behind.map_or(line.packets >= FEW, |gone| gone >= lost / 2)
    };
    let is_as_expected = || per_buffer >= 1.5 && (expected / MIXED..=expected * MIXED).contains(&(lost as f64));
    if let [line] = budget.lines.as_mut_slice()
        && lost > seen
        && is_of_trial(line)
        && is_as_expected()
    {
        buffers_of(line, lost);
        return budget;
    }
    // Those that the sender's stack refuses, or a full queue, are larger than the mean one: more waits behind them. It was they, if all
    // that left arrived, and came to the sockets but for what is known.
    let mut own = budget.lines.iter_mut().filter(|line| is_before_link(line));
    if let (Some(line), None) = (own.next(), own.next()) {
        let (rest, others) = (lost.saturating_sub(seen), seen - line.packets);
        let fits = line.packets.saturating_add(rest) <= line.packets.saturating_mul(LARGEST);
        let came_up = behind.is_none_or(|gone| gone <= others.saturating_add(rest / 4));
        if rest > 0 && fits && came_up && has_arrived(rest, chain) {
            buffers_of(line, line.packets + rest);
            return budget;
        }
    }
    // What counters saw beyond it are acknowledgements, or other traffic.
    budget.unaccounted = i64::try_from(lost.saturating_sub(seen)).unwrap_or(i64::MAX);
    budget
}

/// Of what is missing so few may have been on their way: no total is told of it, only where the drops were.
const FEW_OF_LOST: f64 = 0.3;
/// Fewer packets that no counter names may be anybody's.
const FEW: u64 = 10;
/// Segments in the largest buffer: 64 KiB of full ones of a usual Ethernet.
const LARGEST: u64 = 45;
/// Octets of the segments of a connection that every path carries (RFC 9293, section 3.7.1).
const LEAST_SEGMENT: u64 = 536;
/// Buffers differ in size: what is dropped may hold so many times more, or fewer, segments than the mean one.
const MIXED: f64 = 2.5;

/// What a line counts are buffers of so many segments in all.
fn buffers_of(line: &mut LossLine, segments: u64) {
    line.adjustments.push(Adjustment::Buffers { packets: line.packets, segments });
    line.packets = segments;
}

/// Whether the receiver's link has the octets that left by the sender's: too few are missing to be a quarter of so many segments, a
/// check sequence of each packet included, which some links count.
fn has_arrived(lost: u64, chain: Chain<'_>) -> bool {
    let of_sender = |name| chain.sender.counters.get(Stage::DriverTxRing, name);
    let left = of_sender("link tx_bytes").zip(of_sender("link tx_packets"));
    let came = chain.receiver.counters.get(Stage::DriverRxRing, "link rx_bytes");
    left.zip(came).is_some_and(|((octets, packets), came)| {
        let missing = octets.saturating_sub(came).saturating_add(packets.saturating_mul(4));
        missing <= lost.saturating_mul(LEAST_SEGMENT / 4)
    })
}

fn seen<'a>(end: End, outcome: &'a Outcome, environment: &Environment, spec: &Spec) -> MachineAccount<'a> {
    let reasons = outcome.drop_reasons.as_deref().unwrap_or_default();
    seen_by(end, &outcome.counters, environment.nic.as_ref(), Some(spec)).with_reasons(reasons)
}

/// What counters of an end, with this interface, say; of a trial's packets, where it is known.
pub(crate) fn seen_by(
    end: End,
    counters: &Counters,
    nic: Option<&Nic>,
    spec: Option<&Spec>,
) -> MachineAccount<'static> {
    let seen = MachineAccount::new(end, counters, nic.and_then(|nic| nic.driver.as_deref()));
    let seen = seen.with_nic(nic.map(|nic| nic.name.as_str()));
    // Frames may be of any protocol, and so may what a tunnel packs them in.
    let has_other = |spec: &&Spec| spec.workload == Workload::Frames || nic.is_some_and(Nic::is_tunnel);
    match spec.filter(|spec| !has_other(spec)) {
        Some(spec) => seen.of_ip(spec.ip_version() == IpVersion::V6),
        None => seen,
    }
}
