//! The budget on counters as machines counted them, and on any counters at all.
//! Knows no machine.

use proptest::prelude::*;

use super::drops::Machine::{self, Receiver};
use super::*;
use crate::stage::Counters;

fn counters(list: &[(Stage, &str, u64)]) -> Counters {
    let mut counters = Counters::default();
    for &(stage, name, value) in list {
        counters.add(stage, name, value);
    }
    counters
}

/// Of a driver that nothing is known of.
fn seen(list: &[(Stage, &str, u64)]) -> Seen<'static> {
    Seen::new(&counters(list), None)
}

type List<'a> = &'a [(Stage, &'a str, u64)];

#[track_caller]
fn check(datagrams: Datagrams, sender: List, receiver: List, want: &[(Stage, u64)], unaccounted: i64) -> LossBudget {
    let budget = loss_budget(&datagrams, &seen(sender), &seen(receiver));
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
        let budget = loss_budget(&datagrams, &seen(&[]), &seen(&[]));
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
    let drops = seen(&[(Stage::Qdisc, "ve0 tbf drops", 10)]);
    let budget = |segments, received| loss_budget(&Datagrams { segments, ..lost(1000, received) }, &drops, &seen(&[]));
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
    let budget = loss_budget(&lost(1000, 10), &seen(FULL_TBF), &seen(&[]));
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
        let budget = loss_budget(&datagrams, &Seen::new(&sender, None), &Seen::new(&receiver, None));
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
        let all = seen(&all);
        loss_budget(&lost(sent, received), &all, &all);
    }
}
