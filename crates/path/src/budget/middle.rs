//! The middle's share of the budget: what it took in and did not let out.
//! Knows that it forwards; as a bridge or by IP, its counters tell.

use super::chain::{Chain, MiddleMachine};
use super::drops::DropCause;
use super::machine_account::MachineAccount;
use super::path::frames_at;
use super::{Adjustment, Counted, Datagrams, Findings, On};
use crate::stage::Stage;

/// Fewer may be what the middle itself sends and receives: questions for addresses, a bridge's own frames.
const FEW: u64 = 10;
/// Segments of TCP in the largest buffer (GSO): 64 KiB of 1448 bytes each.
const LARGEST: i128 = 45;

/// What the counters of interfaces count of a trial's traffic.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum CountsOf {
    /// Each of its packets.
    Packets,
    /// Of TCP segments, or buffers of several: as many at one interface as at the other, unless the middle merges them (GRO).
    Buffers,
}

impl Findings {
    /// What the middle's IP received, neither forwarded nor kept, and counted as no error was dropped in between: by a
    /// packet filter, for the most part. Of that no more can be the trial's than is not explained otherwise.
    pub(super) fn reckon_not_forwarded(&mut self, most: i128) {
        let Some((packets, counters)) = self.not_forwarded.take() else { return };
        let possible = self.possible(On::Middle, DropCause::NotForwarded, most);
        let Some(finding) = self.find_mut(On::Middle, DropCause::NotForwarded) else { return };
        (finding.gross, finding.net) = (packets, packets.min(possible));
        finding.counters = counters;
        finding.adjustments = vec![Adjustment::NotForwarded { packets }];
    }

    /// What came in by one interface, did not leave by the other, and no counter of the middle saw dropped: frames that a
    /// bridge filtered are counted nowhere. Not where most of what is missing went elsewhere: the interfaces count other
    /// frames too. Nor where more of TCP are missing than can be lost: then the middle merges them.
    pub(super) fn reckon_vanished(&mut self, chain: Chain<'_>, most: i128, counts: CountsOf) {
        let Some(MiddleMachine { input, output, .. }) = chain.middle else { return };
        let of = |seen: &MachineAccount<'_>, stage| frames_at(seen, stage);
        let (Some((came, mut counters)), Some((left, of_output))) =
            (of(input, Stage::DriverRxRing), of(output, Stage::DriverTxRing))
        else {
            return;
        };
        let between = |stage: Stage| {
            matches!(
                stage,
                Stage::SoftirqBacklog | Stage::ReceiverStack | Stage::SenderStack | Stage::Qdisc | Stage::DriverTxRing
            )
        };
        let known: u64 = self.middle.iter().filter(|one| between(one.drop.stage)).map(|one| one.net).sum();
        let vanished = came.saturating_sub(left).saturating_sub(known);
        let rest = (most - self.sum()).max(0);
        let holds = if counts == CountsOf::Buffers { LARGEST } else { 1 };
        let is_merged = counts == CountsOf::Buffers && i128::from(vanished) > rest + rest / 4;
        if vanished < FEW || i128::from(vanished) * 2 * holds < rest || rest == 0 || is_merged {
            return;
        }
        let packets = u64::try_from(rest).map_or(vanished, |rest| vanished.min(rest));
        counters.extend(of_output.into_iter().map(|counted| at_interface(counted, output)));
        let Some(finding) = self.find_mut(On::Middle, DropCause::NotForwarded) else { return };
        finding.gross = finding.gross.saturating_add(packets);
        finding.net = finding.net.saturating_add(packets);
        finding.counters = counters;
        finding.adjustments = vec![Adjustment::NotForwarded { packets: finding.net }];
    }

    /// The table of neighbours is one for all namespaces of a kernel, and so are its counters: what left by the sender's link
    /// did not wait there.
    pub(super) fn limit_shared_neighbours(&mut self, datagrams: &Datagrams, sender: &MachineAccount<'_>) {
        let Some((left, _)) = frames_at(sender, Stage::DriverTxRing) else { return };
        let stayed = datagrams.sent.saturating_sub(left);
        let finding = self.get_mut(DropCause::Neighbours);
        finding.net = finding.net.min(stayed);
    }

    /// The same of a middle that shares its kernel: what it forwarded and let out did not wait, nor did what it never forwarded.
    pub(super) fn limit_neighbours_of_middle(&mut self, between: MiddleMachine<'_>) {
        let Some((left, _)) = frames_at(between.output, Stage::DriverTxRing) else { return };
        let of = |seen: &MachineAccount<'_>| seen.forwarded().iter().map(|(_, packets)| packets).sum::<u64>();
        let forwarded = of(between.output).max(of(between.input));
        let Some(finding) = self.find_mut(On::Middle, DropCause::Neighbours) else { return };
        finding.net = finding.net.min(forwarded.saturating_sub(left));
    }

    fn sum(&self) -> i128 {
        self.all().map(|finding| i128::from(finding.net)).sum()
    }
}

/// A counter of the other interface, named with it.
fn at_interface(counted: Counted, seen: &MachineAccount<'_>) -> Counted {
    let interface = seen.interface().unwrap_or_default();
    Counted { name: format!("{interface} {}", counted.name), ..counted }
}

#[cfg(test)]
mod tests {
    use linerate_machine::end::{Direction, End, Party};

    use super::super::{Leg, LossBudget, drops_seen, loss_budget};
    use super::*;
    use crate::stage::Counters;

    type List<'a> = &'a [(Stage, &'a str, u64)];

    fn counters(list: List) -> Counters {
        let mut counters = Counters::default();
        list.iter().for_each(|(stage, name, value)| counters.add(*stage, *name, *value));
        counters
    }

    const SENT: u64 = 1000;

    /// Looks along the way from the host over a middle to the target, of which these machines counted this.
    fn along<T>(shared: bool, [sender, input, output, receiver]: [List; 4], look: impl FnOnce(Chain<'_>) -> T) -> T {
        let sender = MachineAccount::new(End::Host, &counters(sender), None);
        let receiver = MachineAccount::new(End::Target, &counters(receiver), None);
        let input = MachineAccount::of_middle(Direction::Rx, "p0", &counters(input), None);
        let output = MachineAccount::of_middle(Direction::Rx, "p1", &counters(output), None);
        let middle =
            MiddleMachine { input: &input, output: &output, shares_with_sender: shared, shares_with_receiver: shared };
        look(Chain { sender: &sender, receiver: &receiver, middle: Some(middle) })
    }

    /// Of a thousand that the host sent and these machines saw, so many arrived.
    fn budget(arrived: u64, shared: bool, counted: [List; 4]) -> LossBudget {
        let datagrams =
            Datagrams { sent: SENT, received_unique: arrived, shared_kernel: shared, ..Datagrams::default() };
        along(shared, counted, |chain| loss_budget(&datagrams, chain))
    }

    #[track_caller]
    fn check(found: &LossBudget, want: &[(Leg, Stage, u64)], unaccounted: i64) {
        let lines: Vec<_> = found.lines.iter().map(|line| (line.place().0, line.stage, line.packets)).collect();
        assert_eq!((lines.as_slice(), found.unaccounted), (want, unaccounted), "{found:#?}");
    }

    #[test]
    fn a_full_queue_of_the_middle_is_its_own() {
        let drops: List = &[(Stage::Qdisc, "p1 tbf drops", 400)];
        let found = budget(600, false, [&[], &[], drops, &[]]);
        check(&found, &[(Leg::MiddleOut, Stage::Qdisc, 400)], 0);
        let line = &found.lines[0];
        assert_eq!((line.end, line.interface.as_deref()), (Party::Middle, Some("p1")));
        assert_eq!(line.evidence(), "middle p1: p1 tbf drops 400");
        // The sender's own, the middle's, and the receiver's: in the order of the way.
        let socket: List = &[(Stage::ReceiverSocket, "Udp RcvbufErrors", 50)];
        let found = budget(500, false, [&[(Stage::Qdisc, "eth0 tbf drops", 50)], &[], drops, socket]);
        let want = [
            (Leg::Sender, Stage::Qdisc, 50),
            (Leg::MiddleOut, Stage::Qdisc, 400),
            (Leg::Receiver, Stage::ReceiverSocket, 50),
        ];
        check(&found, &want, 0);
    }

    #[test]
    fn what_a_veth_counts_again_belongs_to_the_machine_that_had_no_room() {
        let sender: List = &[(Stage::DriverTxRing, "link tx_dropped", 30)];
        let input: List =
            &[(Stage::SoftirqBacklog, "softnet dropped", 50), (Stage::DriverRxRing, "link rx_dropped", 30)];
        let output: List = &[(Stage::DriverTxRing, "link tx_dropped", 20)];
        let receiver: List =
            &[(Stage::SoftirqBacklog, "softnet dropped", 50), (Stage::DriverRxRing, "link rx_dropped", 20)];
        let found = budget(950, true, [sender, input, output, receiver]);
        let want = [(Leg::MiddleIn, Stage::SoftirqBacklog, 30), (Leg::Receiver, Stage::SoftirqBacklog, 20)];
        check(&found, &want, 0);
        assert!(found.lines[1].evidence().contains("the middle p1's link tx_dropped"), "{}", found.lines[1].evidence());
    }

    #[test]
    fn what_a_router_filters_is_what_it_neither_forwards_nor_keeps() {
        let input: List = &[
            (Stage::ReceiverStack, "Ip InReceives", 1003),
            (Stage::ReceiverStack, "Ip InDelivers", 3),
            (Stage::ReceiverStack, "Ip ForwDatagrams", 750),
        ];
        let found = budget(750, false, [&[], input, &[], &[]]);
        check(&found, &[(Leg::MiddleIn, Stage::ReceiverStack, 250)], 0);
        // An IPv6 router counts what it forwards on its way out.
        let input: List = &[
            (Stage::ReceiverStack, "Ip6 InReceives", 1000),
            (Stage::ReceiverStack, "Ip6 InDelivers", 0),
            (Stage::SenderStack, "Ip6 OutForwDatagrams", 1000),
        ];
        check(&budget(990, false, [&[], input, &[], &[]]), &[], 10);
    }

    #[test]
    fn of_one_kernel_s_neighbours_no_more_waited_than_was_forwarded_and_stayed() {
        let ip = |forwarded: u64| {
            [
                (Stage::ReceiverStack, "Ip InReceives", 1000),
                (Stage::ReceiverStack, "Ip InDelivers", 0),
                (Stage::ReceiverStack, "Ip ForwDatagrams", forwarded),
                (Stage::SenderStack, "arp_cache unresolved_discards", 1497),
            ]
        };
        let of = |forwarded, left| {
            let output = [&ip(forwarded)[..], &[(Stage::DriverTxRing, "link tx_packets", left)]].concat();
            budget(750, true, [&[(Stage::DriverTxRing, "link tx_packets", SENT)], &ip(forwarded), &output, &[]])
        };
        // A filter's, beside somebody else's neighbours; neighbours' of its own; and some of either.
        check(&of(750, 750), &[(Leg::MiddleIn, Stage::ReceiverStack, 250)], 0);
        check(&of(1000, 750), &[(Leg::MiddleOut, Stage::SenderStack, 250)], 0);
        let both = [(Leg::MiddleIn, Stage::ReceiverStack, 100), (Leg::MiddleOut, Stage::SenderStack, 150)];
        check(&of(900, 750), &both, 0);
    }

    #[test]
    fn frames_with_ip_are_counted_by_a_router_alone() {
        let input: List = &[
            (Stage::ReceiverStack, "Ip InReceives", 1000),
            (Stage::ReceiverStack, "Ip InDelivers", 0),
            (Stage::ReceiverStack, "Ip ForwDatagrams", 750),
        ];
        let ip: List = &[(Stage::ReceiverStack, "Ip InDiscards", 250)];
        let of = |bears_ip, input: List, receiver: List| {
            let datagrams =
                Datagrams { sent: SENT, received_unique: 750, below_ip: true, bears_ip, ..Datagrams::default() };
            along(false, [&[], input, &[], receiver], |chain| loss_budget(&datagrams, chain))
        };
        check(&of(true, input, &[]), &[(Leg::MiddleIn, Stage::ReceiverStack, 250)], 0);
        check(&of(false, input, &[]), &[], 250);
        // The ends' IP has no part in them.
        check(&of(true, &[], ip), &[], 250);
    }

    #[test]
    fn what_a_bridge_filters_is_what_does_not_leave_it() {
        let input: List = &[(Stage::DriverRxRing, "link rx_packets", 1004)];
        let output = |left: u64| [(Stage::DriverTxRing, "link tx_packets", left)];
        let found = budget(700, false, [&[], input, &output(702), &[]]);
        check(&found, &[(Leg::MiddleIn, Stage::ReceiverStack, 300)], 0);
        assert!(found.lines[0].evidence().contains("link rx_packets 1004, p1 link tx_packets 702"));
        // Lost behind it: nothing is the middle's, for all that it asks for addresses itself.
        check(&budget(700, false, [&[], input, &output(1000), &[]]), &[], 300);
        // Most was lost elsewhere, and of the rest nobody can tell.
        check(&budget(100, false, [&[], input, &output(990), &[]]), &[], 900);
        // Counted where it was dropped.
        let queue: List = &[(Stage::Qdisc, "p1 tbf drops", 300), (Stage::DriverTxRing, "link tx_packets", 702)];
        check(&budget(700, false, [&[], input, queue, &[]]), &[(Leg::MiddleOut, Stage::Qdisc, 300)], 0);
    }

    #[test]
    fn segments_that_do_not_leave_a_router_are_lost_there_unless_it_merges_them() {
        let lost = |came, left, lost| {
            let input: List = &[(Stage::DriverRxRing, "link rx_packets", came)];
            let output: List = &[(Stage::DriverTxRing, "link tx_packets", left)];
            let seen = along(false, [&[], input, output, &[]], |chain| drops_seen(false, Some(lost), chain));
            seen.lines.iter().map(|line| line.packets).collect::<Vec<_>>()
        };
        // As many as were lost, or buffers of some segments each; or merged by ten, and lost elsewhere.
        assert_eq!((lost(1000, 930, 75), lost(1000, 930, 700)), (vec![70], vec![70]));
        assert_eq!((lost(1000, 100, 75), lost(1000, 991, 75)), (vec![], vec![]));
    }

    #[test]
    fn sockets_of_the_middle_are_nobody_s_way() {
        let input: List =
            &[(Stage::ReceiverSocket, "Udp RcvbufErrors", 100), (Stage::ReceiverStack, "Udp NoPorts", 100)];
        check(&budget(900, false, [&[], input, &[], &[]]), &[], 100);
    }
}
