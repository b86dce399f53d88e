//! The loss budget: every datagram of a trial at one stage of its path.
//! Knows no machine; the counters of both ends are arguments.
//!
//! Conservation: sent − received = the sum of the lines + unaccounted. Nothing is scaled or clamped to make it so:
//! where counters explain more than was lost, `unaccounted` is negative and a doubt says so. Only what no counter can
//! have counted is cut.
//!
//! Limits. Counters are of machines and interfaces, not of the trial: what other traffic loses, and with
//! direction `both` what the other direction loses at the same counter, is in them too. Counters below IP count
//! frames: where datagrams travel as fragments, see [`Datagrams::fragments`].

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::drop_reason::DropReason;
use crate::stage::Stage;

use drops::Machine::Sender;
use drops::Unit::{Frames, Segments};
use drops::{DROPS, Drop};

pub use chain::{Chain, MiddleMachine};
pub use contradictions::Contradiction;
pub use drops::DropCause;
pub use leg::Leg;
pub use line::{Adjustment, Counted, Counter, FragmentsAt, LossLine, Segmented, SeveralStages, Source};
pub use machine_account::MachineAccount;
pub use path::{CountSource, Passed, PauseFrames, StageCount, Trial, path};

mod chain;
mod contradictions;
pub(crate) mod drops;
mod leg;
mod line;
mod machine_account;
mod middle;
mod path;
mod reasons;

use leg::SeenAt;
use middle::CountsOf;

/// What the two ends know of a trial's datagrams in one direction, warm-up included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Datagrams {
    /// Numbered and sent, those that the kernel refused included.
    pub sent: u64,
    /// Of them, those that were on their way when the other end had stopped counting: neither received nor lost.
    pub under_way: u64,
    /// Refused by the sender's kernel (ENOBUFS and the like).
    pub send_errors: u64,
    /// Times that one was handed over again, see [`linerate_trial::outcome::FlowOutcome::send_retries`].
    pub send_retries: u64,
    /// Times that what lies below a packet socket refused a frame that was handed over again: counters of the queueing
    /// discipline and of the driver take each for a drop, and nothing was lost.
    pub refused_below: u64,
    /// Frames that the sender's interface took and dropped: they are not among the `sent`, and counters call them drops.
    pub unsent: u64,
    /// Frames that the receiver's XDP program counted and took away: the driver calls them drops.
    pub taken: u64,
    /// They go from one packet socket to another: what IP, UDP and their sockets count is other traffic, or copies of what has
    /// arrived.
    pub below_ip: bool,
    /// Such frames have IP in them: a machine between the ends that forwards them by IP counts them.
    pub bears_ip: bool,
    /// Different ones that the receiver's application got.
    pub received_unique: u64,
    /// Dropped at the receiver's sockets (SO_MEMINFO); `None` where the kernel does not tell.
    pub socket_drops: Option<u64>,
    /// IP fragments to a datagram; 0 and 1 both mean that none is fragmented.
    pub fragments: u32,
    /// Datagrams to a buffer that the sender's stack cuts apart only on the way; 0 and 1 both mean that none is.
    pub segments: u32,
    /// Frames of the trial that came longer or shorter than they were sent: none of those received.
    pub altered: u64,
    /// End marks that were lost (see [`linerate_trial::outcome::FlowOutcome::end_marks`]): counters take them for datagrams.
    pub marks_lost: u64,
    /// Both ends run on one kernel, as namespaces do: a veth then counts as sent-and-dropped what the receiving
    /// side's queues could not take.
    pub shared_kernel: bool,
}

impl Datagrams {
    /// Sent and not received, as far as the other end counted to the last; negative where more arrived than was sent.
    fn lost(&self) -> i64 {
        difference(self.sent, self.received_unique.saturating_add(self.under_way))
    }

    /// Whether what IP counts of the machine between the ends is none of theirs.
    fn passes_below_ip(&self) -> bool {
        self.below_ip && !self.bears_ip
    }
}

/// Where the datagrams went that were sent and not received.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LossBudget {
    /// What counters tell, in the path's order; a stage may have several lines, and none of zero.
    #[serde(rename = "loss_budget")]
    pub lines: Vec<LossLine>,
    /// Lost and seen by no counter. Negative: counters saw more dropped than the trial lost.
    pub unaccounted: i64,
    /// Dropped by the receiver, and no datagram of the trial: frames for other hosts, unknown protocols.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub benign_drops: Vec<LossLine>,
    /// Why not to trust it; for the record's doubts.
    #[serde(skip)]
    pub disagreements: Vec<Disagreement>,
}

/// Why a budget is not to be trusted.
#[derive(Clone, Debug, PartialEq)]
pub enum Disagreement {
    /// Counters say what cannot be.
    Contradiction(Contradiction),
    /// Fragments were lost at several stages.
    SeveralStages(SeveralStages),
    /// Drops were counted before buffers were cut apart.
    Segmented(Segmented),
}

impl fmt::Display for Disagreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Disagreement::Contradiction(contradiction) => contradiction.fmt(f),
            Disagreement::SeveralStages(stages) => stages.fmt(f),
            Disagreement::Segmented(segmented) => segmented.fmt(f),
        }
    }
}

/// More packets than any counter sees dropped in a trial: what is told beyond that is no count.
const MOST_DROPPED: u64 = 1 << 53;
/// More than all of them together.
const MOST_LOST: i128 = 1 << 60;

/// Makes the budget from what both ends know and what the counters of all machines on the way grew by.
pub fn loss_budget(datagrams: &Datagrams, chain: Chain<'_>) -> LossBudget {
    let mut found = Findings::gather(datagrams, chain);
    found.of.retain(|finding| finding.drop.unit != Segments);
    let lost = datagrams.lost();
    let mut budget = LossBudget { benign_drops: chain.receiver.benign(), ..LossBudget::default() };
    if datagrams.fragments > 1 {
        found.settle_fragments(datagrams, lost, &mut budget.disagreements);
    } else {
        // Other traffic's.
        found.get_mut(DropCause::Reassembly).net = 0;
    }
    let most = i128::from(lost) + i128::from(datagrams.marks_lost) + i128::from(datagrams.under_way);
    // Copies may come altered, too.
    let altered = found.get_mut(DropCause::Altered);
    altered.take_off_not_lost(altered.net.saturating_sub(u64::try_from(most).unwrap_or(0)));
    for on in On::BOTH {
        budget.benign_drops.extend(found.tell_benign_apart(on, most));
        found.limit_to_lost(on, DropCause::Neighbours, most);
    }
    // What was lost between the links came to no port: late answers of the other direction may have. A few packets of another kind leave
    // by the one link and not by the other.
    let between = lost_between_links(chain).map(i128::from).filter(|between| between * 2 >= most && *between > 0);
    let no_port = found.get_mut(DropCause::NoPort);
    if let Some(between) = between {
        no_port.net = no_port.net.min((most - between).max(0) as u64);
    }
    // The trial's own port is open: what comes to closed ones in such numbers is others'.
    if i128::from(no_port.net) > 2 * most + MANY_STRAY {
        no_port.net = 0;
    }
    // Of a machine that forwards, IP's counters are of whatever it sends and receives besides.
    for id in [DropCause::ReceiverIp, DropCause::SenderIp] {
        found.limit_to_lost(On::Middle, id, most);
    }
    found.reckon_undelivered(most);
    found.reckon_not_forwarded(most);
    if datagrams.fragments <= 1 && datagrams.segments <= 1 {
        found.reckon_vanished(chain, most, CountsOf::Packets);
    }
    found.attach_reasons(datagrams, chain);
    let mut disagreements = found.disagreements();
    let claimed = found.claimed();
    budget.lines = found.into_lines();
    let explained = |budget: &LossBudget| budget.lines.iter().map(|line| i128::from(line.packets)).sum::<i128>();
    let take_off = |budget: &mut LossBudget, most: u64, adjustment: fn(u64) -> Adjustment| {
        let packets = (explained(budget) - i128::from(lost)).clamp(0, i128::from(most)) as u64;
        if let Some(line) = budget.lines.iter_mut().max_by_key(|line| line.packets)
            && (1..=line.packets).contains(&packets)
        {
            line.packets -= packets;
            line.adjustments.push(adjustment(packets));
        }
    };
    // A mark is sent right behind the last datagram: what dropped most of those dropped it too.
    take_off(&mut budget, datagrams.marks_lost, |packets| Adjustment::EndMarks { packets });
    // What was under way at the end may have been dropped as well.
    take_off(&mut budget, datagrams.under_way, |packets| Adjustment::NotOfTheTrial { packets });
    budget.lines.retain(|line| line.packets > 0);
    let rest = i128::from(lost) - explained(&budget);
    if rest > 0 && datagrams.fragments <= 1 {
        reasons::explain(&mut budget.lines, rest, claimed, datagrams, chain);
    }
    let explained = explained(&budget);
    budget.unaccounted = clamped(i128::from(lost) - explained);
    let surplus = explained - i128::from(lost);
    // A packet or two of others' beside very many are no contradiction.
    let is_little = datagrams.received_unique <= datagrams.sent && surplus <= MOST_BESIDE && surplus * 100 <= explained;
    if surplus > 0 && !is_little {
        let too_much = contradictions::too_much(datagrams, &budget.lines, explained);
        budget.disagreements.push(Disagreement::Contradiction(too_much));
    }
    budget.disagreements.append(&mut disagreements);
    let of_passages = contradictions::of_passages(datagrams, chain);
    budget.disagreements.extend(of_passages.into_iter().map(Disagreement::Contradiction));
    budget.disagreements.extend(segmented(datagrams, &budget, explained));
    budget
}

/// How many packets fewer the receiver's link counts than the sender's, where both do.
fn lost_between_links(chain: Chain<'_>) -> Option<u64> {
    let left = chain.sender.counters.get(Stage::DriverTxRing, "link tx_packets")?;
    Some(left.saturating_sub(chain.receiver.counters.get(Stage::DriverRxRing, "link rx_packets")?))
}

/// So many datagrams to closed ports beside twice what was lost are no accident.
const MANY_STRAY: i128 = 10;

/// So many drops beyond what was lost are others', where they are a hundredth of all at most.
const MOST_BESIDE: i128 = 10;

/// What counters saw dropped of traffic of any kind.
pub fn drops_of_any(chain: Chain<'_>) -> Vec<LossLine> {
    let mut lines = Findings::gather(&Datagrams::default(), chain).into_lines();
    lines.extend(chain.receiver.benign());
    lines
}

/// What counters saw dropped of traffic that is sent again when it is lost; `most`: no more of its packets were.
pub fn drops_seen(shared_kernel: bool, most: Option<u64>, chain: Chain<'_>) -> LossBudget {
    let datagrams = Datagrams { shared_kernel, ..Datagrams::default() };
    let mut found = Findings::gather(&datagrams, chain);
    // Drops of UDP are other traffic's.
    let of_udp = [
        DropCause::SendBuffer,
        DropCause::Reassembly,
        DropCause::NoPort,
        DropCause::Checksum,
        DropCause::ReceiveBuffer,
        DropCause::UdpErrors,
    ];
    found.of.retain(|finding| !of_udp.contains(&finding.drop.id));
    if let Some(most) = most.map(i128::from) {
        for on in On::BOTH {
            found.limit_to_lost(on, DropCause::Neighbours, most);
        }
        found.reckon_untransmitted(most);
        found.reckon_undelivered(most);
        found.reckon_not_forwarded(most);
        found.reckon_vanished(chain, most, CountsOf::Buffers);
    }
    found.attach_reasons(&datagrams, chain);
    let mut disagreements = found.disagreements();
    let of_passages = contradictions::of_passages(&datagrams, chain);
    disagreements.extend(of_passages.into_iter().map(Disagreement::Contradiction));
    LossBudget { lines: found.into_lines(), unaccounted: 0, benign_drops: chain.receiver.benign(), disagreements }
}

/// Interfaces that counted too little for so many packets that arrived: they pass by others.
pub fn elsewhere(arrived: u64, chain: Chain<'_>) -> impl Iterator<Item = Disagreement> {
    contradictions::elsewhere(arrived, chain).into_iter().map(Disagreement::Contradiction)
}

/// Where drops were counted before the buffers were cut apart, each may have been of as many datagrams as a buffer
/// holds. How many it held no counter tells, so nothing is multiplied.
fn segmented(datagrams: &Datagrams, budget: &LossBudget, explained: i128) -> Option<Disagreement> {
    let segments = i128::from(datagrams.segments.max(1));
    let possible = explained * (segments - 1);
    if budget.unaccounted <= 0 || possible < i128::from(budget.unaccounted) {
        return None;
    }
    let drops = clamped(explained);
    let segmented = Segmented { drops, segments: datagrams.segments, unaccounted: budget.unaccounted };
    Some(Disagreement::Segmented(segmented))
}

/// What the counters say of one entry of the table.
struct Finding {
    drop: &'static Drop,
    /// What the counters say.
    gross: u64,
    /// What is this entry's own, after what it includes was taken off.
    net: u64,
    /// Where the line that becomes of it is.
    seen_at: SeenAt,
    counters: Vec<Counted>,
    adjustments: Vec<Adjustment>,
    reasons: Vec<DropReason>,
    /// Counters of other stages that count the same drops once more.
    again: Vec<Counter>,
    /// What counters of the same drops say, where they disagree.
    disagreement: Option<Contradiction>,
}

impl Finding {
    /// The largest of the alternatives.
    fn read(drop: &'static Drop, seen: &MachineAccount<'_>) -> Finding {
        let mut best = Finding {
            drop,
            gross: 0,
            net: 0,
            seen_at: seen.seen_at(drop.machine),
            counters: Vec::new(),
            adjustments: Vec::new(),
            reasons: Vec::new(),
            again: Vec::new(),
            disagreement: None,
        };
        for hits in seen.general(drop) {
            best.prefer(&hits);
        }
        let of_driver = seen.of_cause(drop.id);
        for hits in &of_driver {
            best.prefer(hits);
        }
        if !seen.is_of_any_driver() {
            best.disagreement = contradictions::between(&of_driver);
        }
        best
    }

    fn prefer(&mut self, hits: &[(&str, u64)]) {
        let sum = hits.iter().fold(0u64, |sum, (_, value)| sum.saturating_add(*value));
        if sum > self.net {
            self.net = sum;
            self.counters = Counted::of(hits);
        }
    }

    /// What disciplines of interfaces below the link's dropped, by counters that begin with their names; 0 where its is not known.
    fn below(&self, seen: &MachineAccount<'_>) -> u64 {
        let Some(nic) = seen.nic() else { return 0 };
        let is_below = |counted: &&Counted| counted.name.split(' ').next().is_some_and(|device| device != nic);
        self.counters.iter().filter(is_below).fold(0, |sum, counted| sum.saturating_add(counted.value))
    }

    /// Takes off what is counted elsewhere, and says so.
    fn take_off(&mut self, packets: u64, at: Stage) {
        let taken = packets.min(self.net);
        if taken > 0 {
            self.net -= taken;
            self.adjustments.push(Adjustment::CountedAt { stage: at, packets: taken });
        }
    }

    /// Takes off what the trial did not lose, says so, and returns how many.
    fn take_off_not_lost(&mut self, packets: u64) -> u64 {
        let taken = packets.min(self.net);
        if taken > 0 {
            self.net -= taken;
            self.adjustments.push(Adjustment::NotOfTheTrial { packets: taken });
        }
        taken
    }

    /// Takes off what was handed over again, and says so.
    fn take_off_retries(&mut self, retries: u64) {
        let taken = retries.min(self.net);
        if taken > 0 {
            self.net -= taken;
            self.adjustments.push(Adjustment::Retried { packets: taken });
        }
    }

    fn into_line(self) -> LossLine {
        LossLine {
            cause: Some(self.drop.id),
            counted_again: self.again,
            adjustments: self.adjustments,
            reasons: self.reasons,
            ..LossLine::new(self.drop.stage, self.seen_at, self.net.min(MOST_DROPPED), self.counters)
        }
    }
}

/// Findings of the two ends, or of the machine between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum On {
    Ends,
    Middle,
}

impl On {
    const BOTH: [On; 2] = [On::Ends, On::Middle];
}

/// One for each entry of the table, in its order, and how often the receiver gave up putting fragments together.
struct Findings {
    of: Vec<Finding>,
    /// Those of the middle, for the entries that packets meet where they are forwarded; empty where there is none.
    middle: Vec<Finding>,
    reassembly_failures: u64,
    /// What IP gave to nobody, with the counters that say so.
    undelivered: Option<(u64, Vec<Counted>)>,
    /// What the sender's IP transmitted none of, with the counters that say so.
    untransmitted: Option<(u64, Vec<Counted>)>,
    /// What the middle's IP neither forwarded nor kept, likewise.
    not_forwarded: Option<(u64, Vec<Counted>)>,
}

impl Findings {
    fn gather(datagrams: &Datagrams, chain: Chain<'_>) -> Findings {
        let Chain { sender, receiver, middle } = chain;
        let of_middle = |middle: MiddleMachine<'_>| {
            let met = DROPS.iter().filter(|drop| drop.is_of_forwarding());
            let of_forwarded = Datagrams { below_ip: datagrams.passes_below_ip(), ..Datagrams::default() };
            read_all(met, &of_forwarded, middle.output, middle.input)
        };
        let mut found = Findings {
            of: read_all(DROPS.iter(), datagrams, sender, receiver),
            middle: middle.map(of_middle).unwrap_or_default(),
            reassembly_failures: receiver.sum(Stage::ReceiverStack, &["Ip ReasmFails", "Ip6 ReasmFails"]),
            undelivered: if datagrams.below_ip { None } else { receiver.undelivered(&[sender]) },
            untransmitted: if datagrams.below_ip { None } else { sender.untransmitted() },
            not_forwarded: if datagrams.passes_below_ip() {
                None
            } else {
                middle.and_then(|middle| middle.input.undelivered(&[sender, receiver]))
            },
        };
        // A discipline that has no room says so before the driver is asked.
        let mut refused = datagrams.refused_below;
        for id in [DropCause::TxRing, DropCause::Qdisc] {
            let finding = found.get_mut(id);
            let before = finding.net;
            finding.take_off_retries(refused);
            let taken = before - finding.net;
            refused -= taken;
            if id == DropCause::TxRing && datagrams.shared_kernel {
                found.get_mut(DropCause::Backlog).take_off_retries(taken);
                found.get_mut(DropCause::DriverDrops).take_off_retries(taken);
            }
        }
        found.take_off_not_lost(datagrams);
        if let Some(drops) = datagrams.socket_drops {
            found.prefer_socket_drops(drops);
        }
        match middle {
            None if datagrams.shared_kernel => {
                found.take_off_veth(On::Ends, On::Ends, sender);
                // How many buffers TCP sent is not known; a fragment is a frame of its own.
                if datagrams.sent > 0 && datagrams.fragments <= 1 {
                    found.limit_shared_neighbours(datagrams, sender);
                }
            }
            None => {}
            Some(between) => {
                if between.shares_with_sender || between.shares_with_receiver {
                    found.limit_neighbours_of_middle(between);
                }
                if between.shares_with_sender {
                    found.take_off_veth(On::Ends, On::Middle, sender);
                    found.limit_shared_neighbours(datagrams, sender);
                }
                if between.shares_with_receiver {
                    found.take_off_veth(On::Middle, On::Ends, between.output);
                }
            }
        }
        found
    }

    fn on(&self, on: On) -> &[Finding] {
        match on {
            On::Ends => &self.of,
            On::Middle => &self.middle,
        }
    }

    fn find_mut(&mut self, on: On, id: DropCause) -> Option<&mut Finding> {
        let findings = match on {
            On::Ends => &mut self.of,
            On::Middle => &mut self.middle,
        };
        findings.iter_mut().find(|finding| finding.drop.id == id)
    }

    /// All of them, the middle's last.
    fn all(&self) -> impl Iterator<Item = &Finding> {
        self.of.iter().chain(&self.middle)
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut Finding> {
        self.of.iter_mut().chain(&mut self.middle)
    }

    /// Two interfaces of one kernel, a veth pair: what the one's receiving side could not take, the other counts as dropped
    /// on its way out, again.
    fn take_off_veth(&mut self, sends: On, receives: On, sender: &MachineAccount<'_>) {
        for id in [DropCause::Backlog, DropCause::DriverDrops] {
            let net = |on, id| {
                let found = self.on(on).iter().find(|finding| finding.drop.id == id);
                found.map_or((0, Stage::Unplaced), |finding| (finding.net, finding.drop.stage))
            };
            let ((packets, stage), (out, _)) = (net(receives, id), net(sends, DropCause::TxRing));
            if packets.min(out) > 0
                && let Some(finding) = self.find_mut(receives, id)
            {
                finding.again.push(sender.counter("link tx_dropped"));
            }
            if let Some(finding) = self.find_mut(sends, DropCause::TxRing) {
                finding.take_off(packets, stage);
            }
        }
    }

    fn get(&self, id: DropCause) -> &Finding {
        entry(&self.of, id)
    }

    fn get_mut(&mut self, id: DropCause) -> &mut Finding {
        self.find_mut(On::Ends, id).expect("every entry has been read")
    }

    /// What each claims, whether or not it can be the trial's.
    fn claimed(&self) -> Vec<(On, DropCause, u64)> {
        let of = |on: On| self.on(on).iter().map(move |finding| (on, finding.drop.id, finding.gross));
        On::BOTH.into_iter().flat_map(of).collect()
    }

    /// The trial's own sockets know best what they dropped; the counters of Udp are all sockets'. A socket's
    /// drops include datagrams with a wrong checksum and those that a policy or its filter refused (net/ipv4/udp.c,
    /// udp_queue_rcv_one_skb).
    fn prefer_socket_drops(&mut self, drops: u64) {
        let mut rest = drops.saturating_sub(self.get(DropCause::ReceiveBuffer).net);
        let mut apart = 0;
        for id in [DropCause::Checksum, DropCause::PolicyIn, DropCause::UdpErrors] {
            let own = self.get(id).net.min(rest);
            self.get_mut(id).net = own;
            rest -= own;
            apart += own;
        }
        let buffer = self.get_mut(DropCause::ReceiveBuffer);
        buffer.net = drops - apart;
        buffer.counters = vec![Counted { source: Source::Socket, name: "SO_MEMINFO".to_owned(), value: drops }];
        buffer.adjustments.clear();
        if apart > 0 {
            buffer.adjustments.push(Adjustment::CountedAt { stage: Stage::ReceiverStack, packets: apart });
        }
    }

    /// What counters call drops and was not lost: frames that never left, and those that a program counted.
    fn take_off_not_lost(&mut self, datagrams: &Datagrams) {
        let taken = self.get_mut(DropCause::TxRing).take_off_not_lost(datagrams.unsent);
        if datagrams.shared_kernel {
            self.get_mut(DropCause::Backlog).take_off_not_lost(taken);
            self.get_mut(DropCause::DriverDrops).take_off_not_lost(taken);
        }
        let id = match self.get(DropCause::Xdp).net {
            // Some drivers do not tell them apart.
            0 => DropCause::DriverDrops,
            _ => DropCause::Xdp,
        };
        self.get_mut(id).take_off_not_lost(datagrams.taken);
    }

    /// The sum of all but one.
    fn others(&self, on: On, id: DropCause) -> i128 {
        let sum = |of: &[Finding], but: Option<DropCause>| -> i128 {
            let others = of.iter().filter(|finding| Some(finding.drop.id) != but);
            others.map(|finding| i128::from(finding.net)).sum()
        };
        let but = |one: On| (one == on).then_some(id);
        sum(&self.of, but(On::Ends)) + sum(&self.middle, but(On::Middle))
    }

    /// So many can be this entry's: what is lost and not explained by another.
    fn possible(&self, on: On, id: DropCause, most: i128) -> u64 {
        u64::try_from((most - self.others(on, id)).max(0)).unwrap_or(u64::MAX)
    }

    /// An interface's rx_dropped counts frames of unknown protocols too (net/core/dev.c, __netif_receive_skb_core).
    /// More than the trial lost were no datagrams of it.
    fn tell_benign_apart(&mut self, on: On, most: i128) -> Option<LossLine> {
        let net = self.on(on).iter().find(|one| one.drop.id == DropCause::DriverDrops)?.net;
        // As many as elsewhere, to the packet: one drop in two places, which is a contradiction and not benign.
        if net > 10 && self.on(on).iter().any(|one| one.drop.id != DropCause::DriverDrops && one.net == net) {
            return None;
        }
        let possible = i128::from(self.possible(on, DropCause::DriverDrops, most));
        let drops = self.find_mut(on, DropCause::DriverDrops)?;
        let excess = u64::try_from(i128::from(drops.net) - possible).ok().filter(|excess| *excess > 0)?;
        drops.net -= excess;
        let mut benign = LossLine::new(drops.drop.stage, drops.seen_at.clone(), excess, drops.counters.clone());
        benign.adjustments = drops.adjustments.clone();
        benign.adjustments.push(Adjustment::MoreThanLost { packets: excess });
        drops.adjustments.push(Adjustment::NotOfTheTrial { packets: excess });
        Some(benign)
    }

    /// Counters of the whole machine, such as those of its table of neighbours: what they dropped beyond the trial's loss was
    /// others'.
    fn limit_to_lost(&mut self, on: On, id: DropCause, most: i128) {
        let possible = self.possible(on, id, most);
        let Some(finding) = self.find_mut(on, id) else { return };
        if finding.net > possible {
            finding.net = possible;
            finding.adjustments.push(Adjustment::MachineWide);
        }
    }

    /// What IP received, delivered to nobody and counted as no error was dropped in between: by a packet filter, for
    /// the most part. Of that no more can be the trial's than is not explained otherwise.
    fn reckon_undelivered(&mut self, most: i128) {
        let Some((packets, counters)) = self.undelivered.take() else { return };
        let possible = self.possible(On::Ends, DropCause::Undelivered, most);
        let finding = self.get_mut(DropCause::Undelivered);
        (finding.gross, finding.net) = (packets, packets.min(possible));
        finding.counters = counters;
        finding.adjustments = vec![Adjustment::Undelivered { packets }];
    }

    /// The same of what the sender's IP was asked to send and transmitted none of.
    fn reckon_untransmitted(&mut self, most: i128) {
        let Some((packets, counters)) = self.untransmitted.take() else { return };
        let finding = self.get_mut(DropCause::Untransmitted);
        finding.net = packets.min(u64::try_from(most.max(0)).unwrap_or(u64::MAX));
        finding.gross = packets;
        finding.counters = counters;
        finding.adjustments = vec![Adjustment::Untransmitted { packets }];
    }

    fn disagreements(&mut self) -> Vec<Disagreement> {
        let of = self.all_mut().filter_map(|finding| finding.disagreement.take());
        of.map(Disagreement::Contradiction).collect()
    }

    fn into_lines(mut self) -> Vec<LossLine> {
        self.of.append(&mut self.middle);
        self.of.retain(|finding| finding.net > 0);
        let mut lines: Vec<LossLine> = self.of.into_iter().map(Finding::into_line).collect();
        // Stable: lines of one stage stay in the table's order.
        lines.sort_by_key(LossLine::place);
        lines
    }

    /// Turns counters of fragments into datagrams where that can be known, and drops them where it cannot.
    fn settle_fragments(&mut self, datagrams: &Datagrams, lost: i64, disagreements: &mut Vec<Disagreement>) {
        let per_datagram = datagrams.fragments;
        // IP gives up on a datagram at the first fragment that the qdisc refuses, and counts the datagram: a
        // refused fragment is then a lost datagram. What the qdisc took and dropped later is not.
        let refused = self.get(DropCause::SenderIp).gross.max(self.get(DropCause::SendBuffer).gross);
        // Counted only after net.ipv4.ipfrag_time, 30 s by default: most trials end before.
        let reassembly_failures = self.reassembly_failures;
        let mut suspects: Vec<(On, DropCause, u64)> = Vec::new();
        // Fragments that came alone fail too, wherever the others were dropped: it is a place of its own only where
        // there is no other.
        let alone =
            self.all().all(|one| one.drop.unit != Frames || one.net == 0 || one.drop.id == DropCause::Reassembly);
        if !alone {
            self.get_mut(DropCause::Reassembly).net = 0;
        }
        let ends = self.of.iter_mut().map(|finding| (On::Ends, finding));
        let all = ends.chain(self.middle.iter_mut().map(|finding| (On::Middle, finding)));
        for (on, finding) in all.filter(|(_, finding)| finding.drop.unit == Frames && finding.net > 0) {
            let is_refused = (on, finding.drop.id) == (On::Ends, DropCause::Qdisc);
            let known = if is_refused { finding.net.min(refused) } else { 0 };
            if finding.net > known {
                suspects.push((on, finding.drop.id, finding.net - known));
            }
            finding.net = known;
            finding.adjustments.push(match finding.drop.id {
                DropCause::Reassembly => Adjustment::ReassemblyAttempts { per_datagram },
                _ => Adjustment::Fragments { per_datagram, reassembly_failures },
            });
        }
        let explained = self.all().fold(0u64, |sum, finding| sum.saturating_add(finding.net));
        let rest = u64::try_from(lost).unwrap_or(0).saturating_sub(explained);
        match suspects[..] {
            [] => {}
            // Every fragment that is dropped costs a datagram at most, and nobody else dropped any.
            [(on, id, fragments)] => {
                self.find_mut(on, id).iter_mut().for_each(|finding| finding.net += rest.min(fragments));
            }
            _ => {
                let place =
                    |&(on, id, fragments): &_| FragmentsAt { stage: entry(self.on(on), id).drop.stage, fragments };
                let stages = suspects.iter().map(place).collect();
                let stages = SeveralStages { stages, per_datagram, reassembly_failures };
                disagreements.push(Disagreement::SeveralStages(stages));
            }
        }
    }
}

/// What the counters of two machines with a link between them say of these entries, of which the table's order is kept.
fn read_all(
    drops: impl Iterator<Item = &'static Drop>,
    datagrams: &Datagrams,
    sender: &MachineAccount<'_>,
    receiver: &MachineAccount<'_>,
) -> Vec<Finding> {
    let mut found: Vec<Finding> = Vec::with_capacity(DROPS.len());
    for drop in drops {
        let mut finding = Finding::read(drop, if drop.machine == Sender { sender } else { receiver });
        if datagrams.below_ip && drop.stage.is_of_ip() {
            finding.net = 0;
            finding.counters.clear();
        }
        match drop.id {
            // One that waited in vain for room in the socket's buffer is an error to the counters of IP and UDP.
            DropCause::SenderIp | DropCause::SendBuffer => finding.take_off_retries(datagrams.send_retries),
            _ => {}
        }
        match drop.id {
            // send(2)'s errors are the same drops, seen from the application.
            DropCause::SendBuffer if datagrams.send_errors > finding.net => {
                finding.net = datagrams.send_errors;
                let value = datagrams.send_errors;
                finding.counters = vec![Counted { source: Source::Send, name: "send".to_owned(), value }];
                finding.adjustments.clear();
            }
            DropCause::Altered if datagrams.altered > 0 => {
                (finding.gross, finding.net) = (datagrams.altered, datagrams.altered);
                let (name, value) = ("malformed".to_owned(), datagrams.altered);
                finding.counters = vec![Counted { source: Source::Receiver, name, value }];
            }
            // An interface that stands on another one, a VLAN's or a macvlan, counts what that one's discipline refused once more
            // (net/8021q/vlan_dev.c, vlan_dev_hard_start_xmit; drivers/net/macvlan.c, macvlan_start_xmit).
            DropCause::TxRing => {
                let of = entry(&found, DropCause::Qdisc);
                let below = of.below(sender).min(of.net);
                let (before, stage) = (finding.net, of.drop.stage);
                finding.take_off(below, stage);
                if finding.net < before {
                    let qdisc = found.iter_mut().find(|one| one.drop.id == DropCause::Qdisc);
                    qdisc.into_iter().for_each(|qdisc| qdisc.again.push(sender.counter("link tx_dropped")));
                }
            }
            // softnet counts for the whole machine, rx_dropped for the interface.
            DropCause::Backlog => match receiver.counters.get(Stage::DriverRxRing, "link rx_dropped") {
                Some(interface) if interface < finding.net => {
                    finding.net = interface;
                    let name = "link rx_dropped".to_owned();
                    finding.adjustments.push(Adjustment::LimitedByInterface { name, packets: interface });
                }
                Some(_) if finding.net > 0 => finding.again.push(receiver.counter("link rx_dropped")),
                _ => {}
            },
            _ => {}
        }
        finding.gross = finding.net;
        for included in drop.includes {
            let of = entry(&found, *included);
            finding.take_off(of.net, of.drop.stage);
        }
        found.push(finding);
    }
    found
}

fn entry(findings: &[Finding], id: DropCause) -> &Finding {
    findings.iter().find(|finding| finding.drop.id == id).expect("an entry includes only entries above it")
}

fn difference(a: u64, b: u64) -> i64 {
    clamped(i128::from(a) - i128::from(b))
}

/// Packets as they are told: an agent's counters may be any, and sums of these over all directions fit.
fn clamped(value: i128) -> i64 {
    value.clamp(-MOST_LOST, MOST_LOST) as i64
}

#[cfg(test)]
mod tests;
