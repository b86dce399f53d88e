//! The loss budget: every datagram of a trial at one stage of its path.
//! Knows no machine; the counters of both ends are arguments.
//!
//! Conservation: sent − received = the sum of the lines + unaccounted. Nothing is scaled or clamped to make it so:
//! where counters explain more than was lost, `unaccounted` is negative and a doubt says so.
//!
//! Limits. Counters are of machines and interfaces, not of the trial: what other traffic loses, and with
//! direction `both` what the other direction loses at the same counter, is in them too. Counters below IP count
//! frames: where datagrams travel as fragments, see [`Datagrams::fragments`].

use serde::{Deserialize, Serialize};

use crate::doubt::{Doubt, DoubtKind};
use crate::stage::{Counters, Stage};

use drops::Machine::Sender;
use drops::Unit::Frames;
use drops::{DROPS, Drop, Id};

mod drops;

/// What the two ends know of a trial's datagrams in one direction, warm-up included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Datagrams {
    /// Numbered and sent, those that the kernel refused included.
    pub sent: u64,
    /// Refused by the sender's kernel (ENOBUFS and the like).
    pub send_errors: u64,
    /// Different ones that the receiver's application got.
    pub received_unique: u64,
    /// Dropped at the receiver's sockets (SO_MEMINFO); `None` where the kernel does not tell.
    pub socket_drops: Option<u64>,
    /// IP fragments to a datagram; 0 and 1 both mean that none is fragmented.
    pub fragments: u32,
    /// Datagrams to a buffer that the sender's stack cuts apart only on the way; 0 and 1 both mean that none is.
    pub segments: u32,
    /// End marks that were lost (see [`crate::outcome::FlowOutcome::end_marks`]): counters take them for datagrams.
    pub marks_lost: u64,
    /// Both ends run on one kernel, as namespaces do: a veth then counts as sent-and-dropped what the receiving
    /// side's queues could not take.
    pub shared_kernel: bool,
}

/// Where the datagrams went that were sent and not received.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LossBudget {
    /// What counters tell, in the path's order; a stage may have several lines, and none of zero.
    #[serde(rename = "loss_budget")]
    pub lines: Vec<LossLine>,
    /// Lost and seen by no counter. Negative: counters saw more dropped than the trial lost.
    pub unaccounted: i64,
    /// Why not to trust it; for the record's own doubts.
    #[serde(skip)]
    pub doubts: Vec<Doubt>,
}

/// Datagrams that were lost at one stage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LossLine {
    /// Where.
    pub stage: Stage,
    /// How many datagrams.
    pub packets: u64,
    /// Which counters of which end say so.
    pub evidence: String,
}

/// Makes the budget from what both ends know and what their counters grew by.
pub fn loss_budget(datagrams: &Datagrams, sender: &Counters, receiver: &Counters) -> LossBudget {
    let mut found = Findings::gather(datagrams, sender, receiver);
    let lost = difference(datagrams.sent, datagrams.received_unique);
    let mut budget = LossBudget::default();
    if datagrams.fragments > 1 {
        found.settle_fragments(datagrams, lost, &mut budget.doubts);
    }
    found.of.retain(|finding| finding.net > 0);
    // Stable: lines of one stage stay in the table's order.
    found.of.sort_by_key(|finding| finding.drop.stage);
    budget.lines = found.of.into_iter().map(Finding::into_line).collect();
    let explained = |budget: &LossBudget| budget.lines.iter().map(|line| i128::from(line.packets)).sum::<i128>();
    // A mark is sent right behind the last datagram: what dropped most of those dropped it too.
    let marks = (explained(&budget) - i128::from(lost)).clamp(0, i128::from(datagrams.marks_lost)) as u64;
    if let Some(line) = budget.lines.iter_mut().max_by_key(|line| line.packets)
        && (1..=line.packets).contains(&marks)
    {
        line.packets -= marks;
        line.evidence += &format!(", {marks} of them the sender's end mark, which is no datagram of the trial");
    }
    budget.lines.retain(|line| line.packets > 0);
    let explained = explained(&budget);
    budget.unaccounted = clamped(i128::from(lost) - explained);
    if budget.unaccounted < 0 {
        budget.doubts.push(Doubt::new(
            DoubtKind::CountersContradict,
            format!(
                "{lost} datagrams were lost, and counters saw {explained} dropped: other traffic was dropped too, or one \
                 drop was counted twice; stop other traffic and repeat"
            ),
        ));
    }
    budget.doubts.extend(doubt_segments(datagrams, &budget, explained));
    budget
}

/// Where drops were counted before the buffers were cut apart, each may have been of as many datagrams as a buffer
/// holds. How many it held no counter tells, so nothing is multiplied.
fn doubt_segments(datagrams: &Datagrams, budget: &LossBudget, explained: i128) -> Option<Doubt> {
    let segments = i128::from(datagrams.segments.max(1));
    let possible = explained * (segments - 1);
    if budget.unaccounted <= 0 || possible < i128::from(budget.unaccounted) {
        return None;
    }
    Some(Doubt::new(
        DoubtKind::Segmented,
        format!(
            "counters saw {explained} drops, each of which may have been of a buffer of up to {segments} datagrams: that \
             can be where the {} unaccounted ones went; send with sender_api=sendmmsg to have each counted",
            budget.unaccounted
        ),
    ))
}

/// What the counters say of one entry of the table.
struct Finding {
    drop: &'static Drop,
    /// What the counters say.
    gross: u64,
    /// What is this entry's own, after what it includes was taken off.
    net: u64,
    evidence: String,
}

impl Finding {
    /// The largest of the alternatives.
    fn read(drop: &'static Drop, counters: &Counters) -> Finding {
        let mut best = Finding { drop, gross: 0, net: 0, evidence: String::new() };
        let Some(at_stage) = counters.0.get(&drop.stage) else { return best };
        for source in drop.sources {
            let hits: Vec<(&str, u64)> = at_stage
                .iter()
                .filter(|(name, value)| **value > 0 && source.iter().any(|pattern| drops::fits(pattern, name)))
                .map(|(name, value)| (name.as_str(), *value))
                .collect();
            let sum = hits.iter().fold(0u64, |sum, (_, value)| sum.saturating_add(*value));
            if sum > best.net {
                best.net = sum;
                best.evidence =
                    hits.iter().map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join(", ");
            }
        }
        best
    }

    /// Takes off what is counted elsewhere, and says so.
    fn take_off(&mut self, packets: u64, at: Stage) {
        let taken = packets.min(self.net);
        if taken > 0 {
            self.net -= taken;
            self.evidence.push_str(&format!(", less {taken} counted at {at}"));
        }
    }

    fn into_line(self) -> LossLine {
        let end = if self.drop.machine == Sender { "sender" } else { "receiver" };
        let remark = match self.drop.id {
            Id::RedirectQueue => " (packets are redirected there on the way in, as through a board's receive queue)",
            _ => "",
        };
        LossLine { stage: self.drop.stage, packets: self.net, evidence: format!("{end}: {}{remark}", self.evidence) }
    }
}

/// One for each entry of the table, in its order, and how often the receiver gave up putting fragments together.
struct Findings {
    of: Vec<Finding>,
    reassembly_failures: u64,
}

impl Findings {
    fn gather(datagrams: &Datagrams, sender: &Counters, receiver: &Counters) -> Findings {
        let reassembly = ["Ip ReasmFails", "Ip6 ReasmFails"].map(|name| receiver.get(Stage::ReceiverStack, name));
        let failures = reassembly.into_iter().flatten().fold(0u64, u64::saturating_add);
        let mut found = Findings { of: Vec::with_capacity(DROPS.len()), reassembly_failures: failures };
        for drop in &DROPS {
            let counters = if drop.machine == Sender { sender } else { receiver };
            let mut finding = Finding::read(drop, counters);
            match drop.id {
                // send(2)'s errors are the same drops, seen from the application.
                Id::SendBuffer if datagrams.send_errors > finding.net => {
                    finding.net = datagrams.send_errors;
                    finding.evidence = format!("{} refused by send", datagrams.send_errors);
                }
                // softnet counts for the whole machine, rx_dropped for the interface.
                Id::Backlog => {
                    if let Some(interface) = receiver.get(Stage::DriverRxRing, "link rx_dropped")
                        && interface < finding.net
                    {
                        finding.net = interface;
                        finding.evidence.push_str(&format!(" on the machine, link rx_dropped {interface}"));
                    }
                }
                _ => {}
            }
            finding.gross = finding.net;
            for included in drop.includes {
                let (packets, stage) = (found.get(*included).net, found.get(*included).drop.stage);
                finding.take_off(packets, stage);
            }
            found.of.push(finding);
        }
        if let Some(drops) = datagrams.socket_drops {
            found.prefer_socket_drops(drops);
        }
        if datagrams.shared_kernel {
            for id in [Id::Backlog, Id::DriverDrops] {
                let (packets, stage) = (found.get(id).net, found.get(id).drop.stage);
                found.get_mut(Id::TxRing).take_off(packets, stage);
            }
        }
        found
    }

    fn get(&self, id: Id) -> &Finding {
        self.of.iter().find(|finding| finding.drop.id == id).expect("an entry includes only entries above it")
    }

    fn get_mut(&mut self, id: Id) -> &mut Finding {
        self.of.iter_mut().find(|finding| finding.drop.id == id).expect("every entry has been read")
    }

    /// The trial's own sockets know best what they dropped; the counters of Udp are all sockets'. A socket's
    /// drops include datagrams with a wrong checksum (net/ipv4/udp.c, udp_queue_rcv_one_skb).
    fn prefer_socket_drops(&mut self, drops: u64) {
        let full = self.get(Id::ReceiveBuffer).net;
        let damaged = self.get(Id::Checksum).net.min(drops.saturating_sub(full));
        self.get_mut(Id::Checksum).net = damaged;
        let buffer = self.get_mut(Id::ReceiveBuffer);
        buffer.net = drops - damaged;
        buffer.evidence = format!("the trial's sockets dropped {drops}");
        if damaged > 0 {
            buffer.evidence.push_str(&format!(", less {damaged} counted at {}", Stage::ReceiverStack));
        }
    }

    /// Turns counters of fragments into datagrams where that can be known, and drops them where it cannot.
    fn settle_fragments(&mut self, datagrams: &Datagrams, lost: i64, doubts: &mut Vec<Doubt>) {
        let per_datagram = datagrams.fragments;
        // IP gives up on a datagram at the first fragment that the qdisc refuses, and counts the datagram: a
        // refused fragment is then a lost datagram. What the qdisc took and dropped later is not.
        let refused = self.get(Id::SenderIp).gross.max(self.get(Id::SendBuffer).gross);
        // Counted only after net.ipv4.ipfrag_time, 30 s by default: most trials end before.
        let reassembly = match self.reassembly_failures {
            0 => String::new(),
            failures => format!("; receiver: Ip ReasmFails {failures}, in fragments and attempts, not datagrams"),
        };
        let mut suspects: Vec<(Id, u64)> = Vec::new();
        for finding in self.of.iter_mut().filter(|finding| finding.drop.unit == Frames && finding.net > 0) {
            let known = if finding.drop.id == Id::Qdisc { finding.net.min(refused) } else { 0 };
            if finding.net > known {
                suspects.push((finding.drop.id, finding.net - known));
            }
            finding.net = known;
            finding.evidence.push_str(&format!(" fragments, {per_datagram} to a datagram{reassembly}"));
        }
        let explained = self.of.iter().fold(0u64, |sum, finding| sum.saturating_add(finding.net));
        let rest = u64::try_from(lost).unwrap_or(0).saturating_sub(explained);
        match suspects[..] {
            [] => {}
            // Every fragment that is dropped costs a datagram at most, and nobody else dropped any.
            [(id, fragments)] => self.get_mut(id).net += rest.min(fragments),
            _ => {
                let places: Vec<String> = suspects
                    .iter()
                    .map(|&(id, fragments)| format!("{fragments} at {}", self.get(id).drop.stage))
                    .collect();
                doubts.push(Doubt::new(
                    DoubtKind::Fragmented,
                    format!(
                        "Fragments were dropped at several stages ({}{reassembly}), {per_datagram} to a datagram: which of them lost \
                         which datagram cannot be told; try a message that fits the MTU",
                        places.join(", ")
                    ),
                ));
            }
        }
    }
}

fn difference(a: u64, b: u64) -> i64 {
    clamped(i128::from(a) - i128::from(b))
}

fn clamped(value: i128) -> i64 {
    i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::drops::Machine::{self, Receiver};
    use super::*;

    fn counters(list: &[(Stage, &str, u64)]) -> Counters {
        let mut counters = Counters::default();
        for &(stage, name, value) in list {
            counters.add(stage, name, value);
        }
        counters
    }

    type List<'a> = &'a [(Stage, &'a str, u64)];

    #[track_caller]
    fn check(
        datagrams: Datagrams,
        sender: List,
        receiver: List,
        want: &[(Stage, u64)],
        unaccounted: i64,
    ) -> LossBudget {
        let budget = loss_budget(&datagrams, &counters(sender), &counters(receiver));
        let lines: Vec<(Stage, u64)> = budget.lines.iter().map(|line| (line.stage, line.packets)).collect();
        assert_eq!((lines.as_slice(), budget.unaccounted), (want, unaccounted), "{budget:#?}");
        let contradicted = budget.doubts.iter().any(|doubt| doubt.kind == DoubtKind::CountersContradict);
        assert_eq!(contradicted, unaccounted < 0);
        budget
    }

    fn lost(sent: u64, received_unique: u64) -> Datagrams {
        Datagrams { sent, received_unique, ..Datagrams::default() }
    }

    // The three counters of one drop as Linux 6.18 counted them when a TBF was full.
    const FULL_TBF: List = &[
        (Stage::SenderSocket, "Udp SndbufErrors", 983),
        (Stage::SenderStack, "Ip OutDiscards", 983),
        (Stage::Qdisc, "ve0 tbf drops", 983),
        (Stage::Qdisc, "ve0 tbf overlimits", 1020),
        (Stage::Qdisc, "ve0 pfifo@1:1 drops", 983),
    ];

    #[test]
    fn a_lost_end_mark_is_no_lost_datagram() {
        for (sent, received, drops, packets) in [(100, 60, 41, Some(40)), (100, 100, 1, None)] {
            let datagrams = Datagrams { socket_drops: Some(drops), marks_lost: 2, ..lost(sent, received) };
            let budget = loss_budget(&datagrams, &Counters::default(), &Counters::default());
            assert_eq!(budget.lines.first().map(|line| line.packets), packets);
            assert_eq!((budget.unaccounted, budget.doubts.len()), (0, 0));
        }
    }

    #[test]
    fn one_drop_that_four_counters_saw_is_one_line() {
        let budget = check(lost(1000, 17), FULL_TBF, &[], &[(Stage::Qdisc, 983)], 0);
        assert_eq!(budget.lines[0].evidence, "sender: ve0 tbf drops 983");
        let refused = Datagrams { send_errors: 983, ..lost(1000, 17) };
        check(refused, FULL_TBF, &[], &[(Stage::Qdisc, 983)], 0);
        // What the socket refused besides is the socket's.
        let refused = Datagrams { send_errors: 990, ..lost(1000, 10) };
        check(refused, FULL_TBF, &[], &[(Stage::SenderSocket, 7), (Stage::Qdisc, 983)], 0);
    }

    #[test]
    fn a_full_backlog_between_namespaces_is_one_line() {
        let sender = [
            (Stage::SenderSocket, "Udp SndbufErrors", 50),
            (Stage::SenderStack, "Ip OutDiscards", 50),
            (Stage::DriverTxRing, "link tx_dropped", 50),
            (Stage::SoftirqBacklog, "softnet dropped", 50),
        ];
        let receiver = [(Stage::DriverRxRing, "link rx_dropped", 50), (Stage::SoftirqBacklog, "softnet dropped", 50)];
        let shared = Datagrams { shared_kernel: true, ..lost(100, 50) };
        check(shared, &sender, &receiver, &[(Stage::SoftirqBacklog, 50)], 0);
        // As Linux 6.18 counted a burst over a veth with RPS and a backlog of 16; somebody else's four are in it, and
        // two errors of send for which no counter stands out.
        let sender = [
            (Stage::SenderSocket, "Udp SndbufErrors", 399),
            (Stage::SenderStack, "Ip OutDiscards", 401),
            (Stage::DriverTxRing, "link tx_dropped", 420),
            (Stage::SoftirqBacklog, "softnet dropped", 424),
        ];
        let receiver = [
            (Stage::DriverRxRing, "link rx_dropped", 420),
            (Stage::SoftirqBacklog, "softnet dropped", 424),
            (Stage::ReceiverStack, "Udp NoPorts", 299_578),
        ];
        let burst = Datagrams { shared_kernel: true, send_errors: 2, ..lost(300_000, 0) };
        check(burst, &sender, &receiver, &[(Stage::SoftirqBacklog, 420), (Stage::ReceiverStack, 299_578)], 2);
    }

    #[test]
    fn a_cable_between_them_makes_two_drops() {
        let sender = [(Stage::SenderStack, "Ip OutDiscards", 50), (Stage::DriverTxRing, "link tx_dropped", 50)];
        let receiver = [(Stage::DriverRxRing, "link rx_dropped", 50), (Stage::SoftirqBacklog, "softnet dropped", 50)];
        check(lost(100, 0), &sender, &receiver, &[(Stage::DriverTxRing, 50), (Stage::SoftirqBacklog, 50)], 0);
        // The machine's other interface filled the backlog: not ours.
        let other = [(Stage::DriverRxRing, "link rx_dropped", 0), (Stage::SoftirqBacklog, "softnet dropped", 50)];
        check(lost(100, 99), &[], &other, &[], 1);
    }

    #[test]
    fn the_board_of_report_one() {
        // Overruns of the FIFO, counted three times over by the driver.
        let receiver = [
            (Stage::MacRxFifo, "link rx_errors", 640),
            (Stage::MacRxFifo, "link rx_fifo_errors", 600),
            (Stage::MacRxFifo, "link rx_over_errors", 600),
            (Stage::MacRxFifo, "driver rx_fifo_errors", 600),
            (Stage::Link, "link rx_crc_errors", 40),
        ];
        let budget = check(lost(1000, 350), &[], &receiver, &[(Stage::Link, 40), (Stage::MacRxFifo, 600)], 10);
        assert!(budget.lines[1].evidence.starts_with("receiver: link rx_fifo_errors 600"));
    }

    #[test]
    fn a_queue_on_an_ifb_stands_for_the_receive_ring() {
        let receiver = [(Stage::DriverRxRing, "ifb9 tbf drops", 982), (Stage::DriverRxRing, "link rx_dropped", 0)];
        let budget = check(lost(1000, 18), &[], &receiver, &[(Stage::DriverRxRing, 982)], 0);
        assert!(budget.lines[0].evidence.contains("ifb9 tbf drops 982"));
    }

    #[test]
    fn a_driver_that_counts_by_queue_and_in_all_counts_once() {
        // The names of Linux 6.18's virtio_net.
        let receiver = [
            (Stage::DriverRxRing, "driver rx_drops", 30),
            (Stage::DriverRxRing, "driver rx0_drops", 10),
            (Stage::DriverRxRing, "driver rx12_drops", 20),
            (Stage::DriverRxRing, "driver rx0_xdp_drops", 5),
        ];
        check(lost(100, 70), &[], &receiver, &[(Stage::DriverRxRing, 30)], 0);
        check(lost(100, 70), &[], &receiver[1..], &[(Stage::DriverRxRing, 30)], 0);
    }

    #[test]
    fn the_trials_own_sockets_know_best() {
        let receiver = [
            (Stage::ReceiverSocket, "Udp RcvbufErrors", 100),
            (Stage::ReceiverStack, "Udp InErrors", 103),
            (Stage::ReceiverStack, "Udp InCsumErrors", 3),
        ];
        let drops = |drops| Datagrams { socket_drops: Some(drops), ..lost(200, 100) };
        // Without them, the namespace's counters.
        check(lost(200, 97), &[], &receiver, &[(Stage::ReceiverStack, 3), (Stage::ReceiverSocket, 100)], 0);
        check(drops(100), &[], &receiver, &[(Stage::ReceiverSocket, 100)], 0);
        // Someone else's socket dropped sixty of the hundred.
        check(drops(40), &[], &receiver, &[(Stage::ReceiverSocket, 40)], 60);
        check(drops(102), &[], &receiver, &[(Stage::ReceiverStack, 2), (Stage::ReceiverSocket, 100)], -2);
        check(drops(0), &[], &receiver, &[], 100);
    }

    #[test]
    fn counters_that_explain_too_much_are_said_to() {
        let receiver = [(Stage::ReceiverStack, "Udp NoPorts", 12)];
        let budget = check(lost(10, 0), &[], &receiver, &[(Stage::ReceiverStack, 12)], -2);
        assert!(budget.doubts[0].detail.contains("10 datagrams were lost, and counters saw 12 dropped"));
        // More received than sent is not a loss.
        check(lost(10, 12), &[], &[], &[], -2);
    }

    #[test]
    fn drops_of_buffers_are_doubted_and_not_multiplied() {
        let drops = counters(&[(Stage::Qdisc, "ve0 tbf drops", 10)]);
        let budget = |segments, received| {
            loss_budget(&Datagrams { segments, ..lost(1000, received) }, &drops, &Counters::default())
        };
        let of_buffers = budget(44, 560);
        assert_eq!((of_buffers.lines[0].packets, of_buffers.unaccounted), (10, 430));
        assert_eq!(of_buffers.doubts[0].kind, DoubtKind::Segmented);
        assert!(of_buffers.doubts[0].detail.contains("sender_api=sendmmsg"), "{}", of_buffers.doubts[0].detail);
        // Ten buffers cannot have held what is missing here, and nothing is unaccounted there.
        assert!(budget(44, 500).doubts.is_empty());
        assert!(budget(44, 990).doubts.is_empty());
        assert!(budget(0, 560).doubts.is_empty());
    }

    #[test]
    fn fragments_are_datagrams_only_where_that_is_known() {
        let fragmented = |received| Datagrams { fragments: 3, ..lost(300, received) };
        // As Linux 6.18 counted 4000 octets through a full TBF: IP gives up at the first refused fragment.
        let refused = [
            (Stage::SenderSocket, "Udp SndbufErrors", 297),
            (Stage::SenderStack, "Ip OutDiscards", 297),
            (Stage::Qdisc, "ve0 tbf drops", 297),
        ];
        check(fragmented(3), &refused, &[], &[(Stage::Qdisc, 297)], 0);
        // One place dropped fragments, so the loss is there; 150 fragments cost 50 to 150 datagrams.
        let ring: List = &[(Stage::DriverRxRing, "ifb9 tbf drops", 150)];
        let budget = check(fragmented(200), &[], ring, &[(Stage::DriverRxRing, 100)], 0);
        assert!(budget.lines[0].evidence.contains("150 fragments, 3 to a datagram"), "{budget:?}");
        check(fragmented(0), &[], ring, &[(Stage::DriverRxRing, 150)], 150);
        let ring: List = &[(Stage::DriverRxRing, "ifb9 tbf drops", 150), (Stage::ReceiverStack, "Ip ReasmFails", 40)];
        let budget = check(fragmented(200), &[], ring, &[(Stage::DriverRxRing, 100)], 0);
        assert!(budget.lines[0].evidence.contains("ReasmFails 40, in fragments"), "{budget:?}");
        // Two places did: the loss stays unaccounted, and a doubt says why.
        let two: List = &[(Stage::DriverRxRing, "ifb9 tbf drops", 150), (Stage::MacRxFifo, "link rx_fifo_errors", 9)];
        let budget = check(fragmented(200), &[], two, &[], 100);
        assert_eq!(budget.doubts[0].kind, DoubtKind::Fragmented);
    }

    #[test]
    fn the_record_has_its_names() {
        let budget = loss_budget(&lost(1000, 10), &counters(FULL_TBF), &Counters::default());
        assert_eq!(
            serde_json::to_value(&budget).unwrap(),
            serde_json::json!({
                "loss_budget": [{"stage": "qdisc", "packets": 983, "evidence": "sender: ve0 tbf drops 983"}],
                "unaccounted": 7,
            })
        );
    }

    /// Any counters that the table knows, with any values.
    fn any_counters(machine: Machine) -> impl Strategy<Value = Counters> {
        let names: Vec<(Stage, String)> = DROPS
            .iter()
            .filter(|drop| drop.machine == machine)
            .flat_map(|drop| {
                drop.sources.concat().into_iter().map(|name| (drop.stage, name.replace('*', "x").replace('#', "7")))
            })
            .collect();
        proptest::collection::vec((proptest::sample::select(names), 0u64..2000), 0..12).prop_map(|list| {
            let mut counters = Counters::default();
            for ((stage, name), value) in list {
                counters.add(stage, name, value);
            }
            counters
        })
    }

    proptest! {
        #[test]
        fn nothing_is_lost_from_the_budget(
            sender in any_counters(Sender),
            receiver in any_counters(Receiver),
            (sent, received_unique, send_errors) in (0u64..5000, 0u64..5000, 0u64..3000),
            socket_drops in proptest::option::of(0u64..3000),
            fragments in 0u32..5,
            shared_kernel: bool,
        ) {
            let marks_lost = 0;
            let datagrams =
                Datagrams { sent, send_errors, received_unique, socket_drops, fragments, segments: 0, marks_lost, shared_kernel };
            let budget = loss_budget(&datagrams, &sender, &receiver);
            let explained: u64 = budget.lines.iter().map(|line| line.packets).sum();
            prop_assert_eq!(sent as i64 - received_unique as i64, explained as i64 + budget.unaccounted);
            prop_assert!(budget.lines.iter().all(|line| line.packets > 0 && !line.evidence.is_empty()));
            prop_assert!(budget.lines.is_sorted_by_key(|line| line.stage));
            // No line says more than the counters of its end together.
            let total: u64 = sender.iter().chain(receiver.iter()).map(|(_, _, value)| value).sum();
            prop_assert!(explained <= total + send_errors + socket_drops.unwrap_or(0));
        }

        #[test]
        fn extremes_do_not_overflow(value in prop_oneof![Just(u64::MAX), any::<u64>()], sent: u64, received: u64) {
            let all: Vec<(Stage, &str, u64)> =
                DROPS.iter().flat_map(|d| d.sources.concat().into_iter().map(move |n| (d.stage, n, value))).collect();
            let all = counters(&all);
            loss_budget(&lost(sent, received), &all, &all);
        }
    }
}
