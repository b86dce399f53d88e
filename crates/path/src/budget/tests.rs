//! The budget on counters as machines counted them, and on any counters at all.
//! Knows no machine.

use linerate_machine::end::End;
use proptest::prelude::*;

use super::drops::Machine::{self, Receiver};
use super::*;
use crate::drop_reason::DropReason;
use crate::stage::Counters;

fn counters(list: &[(Stage, &str, u64)]) -> Counters {
    let mut counters = Counters::default();
    for &(stage, name, value) in list {
        counters.add(stage, name, value);
    }
    counters
}

/// The sender, with a driver that nothing is known of.
fn host(list: &[(Stage, &str, u64)]) -> MachineAccount<'static> {
    MachineAccount::new(End::Host, &counters(list), None)
}

/// The receiver, likewise.
fn target(list: &[(Stage, &str, u64)]) -> MachineAccount<'static> {
    MachineAccount::new(End::Target, &counters(list), None)
}

type List<'a> = &'a [(Stage, &'a str, u64)];

#[track_caller]
fn check(datagrams: Datagrams, sender: List, receiver: List, want: &[(Stage, u64)], unaccounted: i64) -> LossBudget {
    let budget = loss_budget(&datagrams, Chain::direct(&host(sender), &target(receiver)));
    let lines: Vec<(Stage, u64)> = budget.lines.iter().map(|line| (line.stage, line.packets)).collect();
    assert_eq!((lines.as_slice(), budget.unaccounted), (want, unaccounted), "{budget:#?}");
    let contradicted = budget.disagreements.iter().any(|one| matches!(one, Disagreement::Contradiction(_)));
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
fn what_ip_is_asked_to_send_and_does_not_transmit_is_dropped_on_its_way_out() {
    let of = |most: Option<u64>, sender: List| {
        let lines = drops_seen(true, most, Chain::direct(&host(sender), &target(&[]))).lines;
        lines.iter().map(|line| (line.stage, line.cause, line.packets)).collect::<Vec<_>>()
    };
    let filtered = [(Stage::SenderStack, "Ip OutRequests", 1250), (Stage::SenderStack, "Ip OutTransmits", 1192)];
    let want = |packets| vec![(Stage::SenderStack, Some(DropCause::Untransmitted), packets)];
    assert_eq!(of(Some(128), &filtered), want(58));
    assert_eq!(of(Some(5), &filtered), want(5), "no more than was lost");
    assert_eq!(of(None, &filtered), []);
    let fragmented = [
        (Stage::SenderStack, "Ip OutRequests", 1000),
        (Stage::SenderStack, "Ip FragOKs", 100),
        (Stage::SenderStack, "Ip FragCreates", 300),
        (Stage::SenderStack, "Ip OutTransmits", 1200),
    ];
    assert_eq!(of(Some(100), &fragmented), []);
    // An old kernel tells one of both.
    assert_eq!(of(Some(100), &filtered[..1]), []);
    // What is refused of a datagram is among the discards already.
    check(lost(1250, 1192), &filtered, &[], &[], 58);
}

#[test]
fn a_frame_that_was_refused_and_handed_over_again_is_no_loss() {
    let sender = [(Stage::DriverTxRing, "link tx_dropped", 30), (Stage::Qdisc, "ve0 tbf drops", 5)];
    let datagrams = Datagrams { refused_below: 33, ..lost(1000, 998) };
    check(datagrams, &sender, &[], &[(Stage::Qdisc, 2)], 0);
    // A veth's own refusals are those of the other end's backlog.
    let datagrams = Datagrams { refused_below: 30, shared_kernel: true, ..lost(1000, 1000) };
    let receiver = [(Stage::DriverRxRing, "link rx_dropped", 30), (Stage::SoftirqBacklog, "softnet dropped", 30)];
    check(datagrams, &sender[..1], &receiver, &[], 0);
    // The stack gets copies of what has arrived, and has no use for them.
    let receiver = [(Stage::ReceiverStack, "Ip InAddrErrors", 1000), (Stage::SenderStack, "Ip OutNoRoutes", 1)];
    check(Datagrams { below_ip: true, ..lost(1000, 1000) }, &receiver[1..], &receiver[..1], &[], 0);
}

#[test]
fn what_comes_as_another_length_is_not_unaccounted() {
    let of = |altered| Datagrams { below_ip: true, altered, ..lost(100, 90) };
    check(of(6), &[], &[], &[(Stage::ReceiverApplication, 6)], 4);
    let budget = check(of(25), &[], &[], &[(Stage::ReceiverApplication, 10)], 0);
    assert!(budget.lines[0].evidence().contains("25 came longer or shorter"), "{}", budget.lines[0].evidence());
}

#[test]
fn a_lost_end_mark_is_no_lost_datagram() {
    for (sent, received, drops, packets) in [(100, 60, 41, Some(40)), (100, 100, 1, None)] {
        let datagrams = Datagrams { socket_drops: Some(drops), marks_lost: 2, ..lost(sent, received) };
        let budget = loss_budget(&datagrams, Chain::direct(&host(&[]), &target(&[])));
        assert_eq!(budget.lines.first().map(|line| line.packets), packets);
        assert_eq!((budget.unaccounted, budget.disagreements.len()), (0, 0));
    }
}

#[test]
fn what_was_under_way_at_the_end_may_have_been_dropped_or_not() {
    for (under_way, packets, unaccounted) in [(0, 983, 17), (17, 983, 0), (50, 950, 0), (100, 900, 0), (1000, 0, 0)] {
        let datagrams = Datagrams { under_way, ..lost(3000, 2000) };
        let lines = if packets == 0 { &[][..] } else { &[(Stage::Qdisc, packets)][..] };
        check(datagrams, FULL_TBF, &[], lines, unaccounted);
    }
}

#[test]
fn one_drop_that_four_counters_saw_is_one_line() {
    let budget = check(lost(1000, 17), FULL_TBF, &[], &[(Stage::Qdisc, 983)], 0);
    assert_eq!(budget.lines[0].evidence(), "host: ve0 tbf drops 983");
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
    let budget = check(shared, &sender, &receiver, &[(Stage::SoftirqBacklog, 50)], 0);
    let want = "target: softnet dropped 50 (link rx_dropped and the host's link tx_dropped again)";
    assert_eq!(budget.lines[0].evidence(), want);
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
fn what_waited_for_room_and_was_sent_again_is_no_drop() {
    // As Linux 6.18 counted a sender whose buffer stood full of datagrams for a neighbour that did not answer.
    let sender = [
        (Stage::SenderSocket, "Udp SndbufErrors", 98),
        (Stage::SenderStack, "Ip OutDiscards", 98),
        (Stage::SenderStack, "arp_cache unresolved_discards", 356),
    ];
    let datagrams = Datagrams { send_retries: 98, ..lost(2500, 2053) };
    check(datagrams, &sender, &[], &[(Stage::SenderStack, 356)], 91);
    let budget = check(lost(2500, 2053), &sender, &[], &[(Stage::SenderStack, 98), (Stage::SenderStack, 349)], 0);
    // Of the machine's neighbours, no more than the trial lost.
    assert!(budget.lines[1].evidence().contains("356 on the machine, more than the trial lost"), "{budget:#?}");
    let datagrams = Datagrams { send_retries: 97, ..lost(2500, 2143) };
    check(datagrams, &sender, &[], &[(Stage::SenderStack, 1), (Stage::SenderStack, 356)], 0);
}

#[test]
fn of_a_machine_s_neighbours_no_more_than_tcp_lost_is_the_trial_s() {
    let of = |sender: List| {
        let lines = drops_seen(true, Some(29), Chain::direct(&host(sender), &target(&[]))).lines;
        lines.iter().map(|line| (line.stage, line.packets)).collect::<Vec<_>>()
    };
    let neighbours = (Stage::SenderStack, "arp_cache unresolved_discards", 2_380);
    assert_eq!(of(&[neighbours]), [(Stage::SenderStack, 29)]);
    // Where the queue has dropped all of them, the table's were others'.
    assert_eq!(of(&[neighbours, (Stage::Qdisc, "ve0 pfifo drops", 29)]), [(Stage::Qdisc, 29)]);
}

#[test]
fn what_neighbours_say_to_groups_is_no_loss_of_the_trial() {
    let receiver = [
        (Stage::ReceiverStack, "Ip6 InReceives", 12),
        (Stage::ReceiverStack, "Ip6 InDelivers", 2),
        (Stage::ReceiverStack, "Ip6 InMcastPkts", 5),
    ];
    check(lost(100, 90), &[], &receiver, &[(Stage::ReceiverStack, 5)], 5);
    // IPv4 counts what comes to a group that nobody joined where it was sent, and the interface may.
    let receiver = [(Stage::ReceiverStack, "Ip InReceives", 96), (Stage::ReceiverStack, "Ip InDelivers", 90)];
    check(lost(100, 90), &[], &receiver, &[(Stage::ReceiverStack, 6)], 4);
    check(lost(100, 90), &[(Stage::SenderStack, "IpExt OutMcastPkts", 6)], &receiver, &[], 10);
    let by_link = [&receiver[..], &[(Stage::DriverRxRing, "link multicast", 5)]].concat();
    check(lost(100, 90), &[], &by_link, &[(Stage::ReceiverStack, 1)], 9);
    // What a third machine sends them came to the sender as well.
    let sender = [(Stage::ReceiverStack, "Ip InReceives", 10), (Stage::ReceiverStack, "Ip InDelivers", 6)];
    check(lost(100, 90), &sender, &receiver, &[(Stage::ReceiverStack, 2)], 8);
    let to_all = [&receiver[..], &[(Stage::ReceiverStack, "IpExt InBcastPkts", 7)]].concat();
    check(lost(100, 90), &[], &to_all, &[], 10);
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
    assert!(budget.lines[1].evidence().starts_with("target: link rx_fifo_errors 600"));
}

#[test]
fn a_queue_on_an_ifb_stands_for_the_receive_ring() {
    let receiver = [(Stage::DriverRxRing, "ifb9 tbf drops", 982), (Stage::DriverRxRing, "link rx_dropped", 0)];
    let budget = check(lost(1000, 18), &[], &receiver, &[(Stage::DriverRxRing, 982)], 0);
    assert!(budget.lines[0].evidence().contains("ifb9 tbf drops 982"));
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
fn what_a_policy_refuses_is_counted_three_times_and_is_one_line() {
    let receiver = [(Stage::ReceiverStack, "xfrm XfrmInPolBlock", 40), (Stage::ReceiverStack, "Udp InErrors", 40)];
    let drops = Datagrams { socket_drops: Some(40), ..lost(200, 160) };
    let budget = check(drops, &[], &receiver, &[(Stage::ReceiverStack, 40)], 0);
    assert_eq!(budget.lines[0].evidence(), "target: xfrm XfrmInPolBlock 40 (IPsec)");
    assert_eq!(budget.disagreements.len(), 0);
}

#[test]
fn counters_that_explain_too_much_are_said_to() {
    let receiver = [(Stage::ReceiverStack, "Udp NoPorts", 12)];
    let budget = check(lost(10, 0), &[], &receiver, &[(Stage::ReceiverStack, 12)], -2);
    assert!(budget.disagreements[0].to_string().contains("10 datagrams were lost, and counters saw 12 dropped"));
    // The machine's own packet beside very many is no contradiction.
    let doubts = |lost_here: u64, dropped: u64| {
        let drops = [(Stage::Qdisc, "ve0 tbf drops", dropped)];
        loss_budget(&lost(2_000, 2_000 - lost_here), Chain::direct(&host(&drops), &target(&[]))).disagreements.len()
    };
    assert_eq!([doubts(1_482, 1_483), doubts(1_482, 1_520), doubts(82, 83)], [0, 1, 1]);
    // More received than sent is not a loss.
    check(lost(10, 12), &[], &[], &[], -2);
    // What came to a closed port beside a loss on the way is late answers of the other direction.
    let left = [(Stage::DriverTxRing, "link tx_packets", 1000)];
    let came = [receiver[0], (Stage::DriverRxRing, "link rx_packets", 972)];
    check(lost(1000, 972), &left, &came, &[], 28);
}

#[test]
fn drops_of_buffers_are_doubted_and_not_multiplied() {
    let drops = host(&[(Stage::Qdisc, "ve0 tbf drops", 10)]);
    let budget = |segments, received| {
        loss_budget(&Datagrams { segments, ..lost(1000, received) }, Chain::direct(&drops, &target(&[])))
    };
    let of_buffers = budget(44, 560);
    assert_eq!((of_buffers.lines[0].packets, of_buffers.unaccounted), (10, 430));
    assert!(matches!(of_buffers.disagreements[0], Disagreement::Segmented(_)));
    assert!(of_buffers.disagreements[0].to_string().contains("sender_api=sendmmsg"), "{}", of_buffers.disagreements[0]);
    // Ten buffers cannot have held what is missing here, and nothing is unaccounted there.
    assert!(budget(44, 500).disagreements.is_empty());
    assert!(budget(44, 990).disagreements.is_empty());
    assert!(budget(0, 560).disagreements.is_empty());
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
    assert!(budget.lines[0].evidence().contains("150 fragments, 3 to a datagram"), "{budget:?}");
    check(fragmented(0), &[], ring, &[(Stage::DriverRxRing, 150)], 150);
    let ring: List = &[(Stage::DriverRxRing, "ifb9 tbf drops", 150), (Stage::ReceiverStack, "Ip ReasmFails", 40)];
    let budget = check(fragmented(200), &[], ring, &[(Stage::DriverRxRing, 100)], 0);
    assert!(budget.lines[0].evidence().contains("ReasmFails 40, in fragments"), "{budget:?}");
    // Two places did: the loss stays unaccounted, and a doubt says why.
    let two: List = &[(Stage::DriverRxRing, "ifb9 tbf drops", 150), (Stage::MacRxFifo, "link rx_fifo_errors", 9)];
    let budget = check(fragmented(200), &[], two, &[], 100);
    assert!(matches!(budget.disagreements[0], Disagreement::SeveralStages(_)));
}

/// What a driver's own statistics come to, at a receiver that lost so many of ten thousand.
#[track_caller]
fn check_driver(driver: &str, lost: u64, receiver: List, want: &[(Stage, u64)]) -> LossBudget {
    let datagrams = Datagrams { sent: 10_000, received_unique: 10_000 - lost, ..Datagrams::default() };
    let budget = loss_budget(
        &datagrams,
        Chain::direct(&host(&[]), &MachineAccount::new(End::Target, &counters(receiver), Some(driver))),
    );
    let lines: Vec<(Stage, u64)> = budget.lines.iter().map(|line| (line.stage, line.packets)).collect();
    assert_eq!((lines.as_slice(), budget.unaccounted), (want, 0), "{driver}: {budget:#?}");
    budget
}

/// As agents send them.
const RAW: Stage = Stage::Unplaced;

#[test]
fn overruns_and_empty_rings_by_the_names_of_drivers() {
    // Report 1: the FIFO overran, and the driver found some of that in its descriptors too.
    let fec: List = &[
        (RAW, "driver IEEE_rx_macerr", 6400),
        (RAW, "driver IEEE_rx_crc", 3),
        (RAW, "driver rx_crc_errors", 3),
        (RAW, "driver IEEE_tx_fdxfc", 12),
        (Stage::MacRxFifo, "link rx_fifo_errors", 6390),
        (Stage::MacRxFifo, "link rx_errors", 6393),
    ];
    let budget = check_driver("fec", 6403, fec, &[(Stage::Link, 3), (Stage::MacRxFifo, 6400)]);
    assert_eq!(budget.lines[1].evidence(), "target: driver IEEE_rx_macerr 6400");
    let pause = MachineAccount::new(End::Target, &counters(fec), Some("fec")).pause().unwrap();
    assert_eq!((pause.sent, pause.received, pause.stalled_s), (Some(12), None, None));
    // GEM: one overrun in three places, and an empty ring beside it.
    let macb: List = &[
        (RAW, "driver rx_overruns", 500),
        (RAW, "driver rx_resource_errors", 70),
        (Stage::MacRxFifo, "link rx_fifo_errors", 500),
        (Stage::MacRxFifo, "link rx_over_errors", 70),
        (Stage::DriverRxRing, "link rx_missed_errors", 500),
        (Stage::MacRxFifo, "link rx_errors", 570),
    ];
    check_driver("macb", 570, macb, &[(Stage::MacRxFifo, 500), (Stage::DriverRxRing, 70)]);
    // GMAC: both halves of one register, and the overflow once more in the MAC's management counters.
    let gmac: List = &[
        (RAW, "driver mmc_rx_fifo_overflow", 90),
        (RAW, "driver rx_overflow_cntr", 88),
        (RAW, "driver rx_missed_cntr", 30),
        (RAW, "driver rx_buf_unav_irq", 7),
    ];
    check_driver("st_gmac", 120, gmac, &[(Stage::MacRxFifo, 90), (Stage::DriverRxRing, 30)]);
    // Intel: no descriptor was free a thousand times, and the FIFO bridged all but twenty.
    let e1000e: List = &[
        (RAW, "driver rx_no_buffer_count", 1000),
        (RAW, "driver rx_missed_errors", 20),
        (Stage::DriverRxRing, "link rx_missed_errors", 20),
    ];
    check_driver("e1000e", 20, e1000e, &[(Stage::MacRxFifo, 20)]);
    // ConnectX: the port and the queue, each once, and time that pauses took.
    let mlx5: List = &[
        (RAW, "driver rx_discards_phy", 40),
        (RAW, "driver rx_prio0_discards", 40),
        (RAW, "driver rx_out_of_buffer", 60),
        (RAW, "driver rx_steer_missed_packets", 5),
        (RAW, "driver rx_global_pause_duration", 1_500_000),
        (RAW, "driver rx_pause_ctrl_phy", 900),
    ];
    let budget = check_driver("mlx5_core", 100, mlx5, &[(Stage::MacRxFifo, 40), (Stage::DriverRxRing, 60)]);
    assert_eq!(budget.benign_drops.iter().map(|line| line.packets).collect::<Vec<_>>(), [5]);
    let pause = MachineAccount::new(End::Target, &counters(mlx5), Some("mlx5_core")).pause().unwrap();
    assert_eq!((pause.received, pause.stalled_s), (Some(900), Some(1.5)));
}

#[test]
fn what_the_interface_counts_again_under_another_name_is_one_drop() {
    const BOTH: &[(Stage, u64)] = &[(Stage::MacRxFifo, 40), (Stage::DriverRxRing, 60)];
    // mlx5_core: rx_dropped was the one once, and is the other now.
    for (dropped, missed) in [(60, 0), (0, 60), (40, 60)] {
        let mlx5: List = &[
            (RAW, "driver rx_discards_phy", 40),
            (RAW, "driver rx_out_of_buffer", 60),
            (Stage::DriverRxRing, "link rx_dropped", dropped),
            (Stage::DriverRxRing, "link rx_missed_errors", missed),
        ];
        check_driver("mlx5_core", 100, mlx5, BOTH);
    }
    // igb and igc: rx_fifo_errors is both registers.
    for driver in ["igb", "igc"] {
        let intel: List = &[
            (RAW, "driver rx_missed_errors", 40),
            (RAW, "driver rx_fifo_errors", 100),
            (RAW, "driver rx_queue_0_drops", 25),
            (RAW, "driver rx_queue_1_drops", 35),
            (Stage::DriverRxRing, "link rx_missed_errors", 40),
            (Stage::MacRxFifo, "link rx_fifo_errors", 100),
        ];
        check_driver(driver, 100, intel, BOTH);
    }
    // r8169: a fragmented frame is of a wrong length and dropped.
    let r8169: List = &[(Stage::DriverRxRing, "link rx_dropped", 9), (Stage::MacRxFifo, "link rx_length_errors", 9)];
    check_driver("r8169", 9, r8169, &[(Stage::DriverRxRing, 9)]);
    // usbnet: an overflow is an error too.
    let usb: List = &[(Stage::MacRxFifo, "link rx_over_errors", 3), (Stage::MacRxFifo, "link rx_errors", 7)];
    for driver in ["ax88179_178a", "cdc_ncm"] {
        check_driver(driver, 7, usb, &[(Stage::DriverRxRing, 7)]);
    }
    // virtio_net: too long for its buffers, and so dropped.
    let virtio: List = &[
        (RAW, "driver rx_drops", 5),
        (RAW, "driver rx0_drops", 5),
        (Stage::DriverRxRing, "link rx_dropped", 5),
        (Stage::MacRxFifo, "link rx_length_errors", 5),
    ];
    check_driver("virtio_net", 5, virtio, &[(Stage::DriverRxRing, 5)]);
    // And on the way out one drop is a drop and an error of the FIFO.
    let sender: List = &[(Stage::DriverTxRing, "link tx_dropped", 5), (Stage::MacTx, "link tx_fifo_errors", 5)];
    let sender = MachineAccount::new(End::Host, &counters(sender), Some("virtio_net"));
    let budget = loss_budget(&lost(100, 95), Chain::direct(&sender, &target(&[])));
    let lines: Vec<(Stage, u64)> = budget.lines.iter().map(|line| (line.stage, line.packets)).collect();
    assert_eq!((lines.as_slice(), budget.unaccounted), (&[(Stage::DriverTxRing, 5)][..], 0), "{budget:#?}");
}

#[test]
fn drops_of_mlx5_between_port_and_ring_are_drops() {
    // The way over PCIe was too slow: the port's buffers hold, and nothing else tells.
    let pci: List = &[(RAW, "driver outbound_pci_buffer_overflow", 70), (RAW, "driver rx_packets_phy", 10_000)];
    check_driver("mlx5_core", 70, pci, &[(Stage::MacRxFifo, 70)]);
    // No memory for buffers to come is no loss while the ring has some.
    check_driver("mlx5_core", 0, &[(RAW, "driver rx_buff_alloc_err", 50)], &[]);
    let damaged: List = &[
        (RAW, "driver rx_crc_errors_phy", 6),
        (RAW, "driver rx_fragments_phy", 2),
        (RAW, "driver rx_symbol_err_phy", 8),
        (RAW, "driver rx_oversize_pkts_buffer", 4),
        (Stage::MacRxFifo, "link rx_length_errors", 4),
    ];
    check_driver("mlx5_core", 12, damaged, &[(Stage::Link, 8), (Stage::MacRxFifo, 4)]);
}

#[test]
fn a_kernel_of_3_10_has_a_budget_too() {
    // Its /proc and link statistics, as far as they moved; no rx_nohandler, no SO_MEMINFO for UDP, no reasons.
    let receiver: List = &[
        (Stage::DriverRxRing, "link rx_packets", 9_300),
        (Stage::MacRxFifo, "link rx_fifo_errors", 700),
        (Stage::ReceiverStack, "Ip InReceives", 9_300),
        (Stage::ReceiverStack, "Ip InDelivers", 9_200),
        (Stage::ReceiverStack, "Udp InErrors", 55),
        (Stage::ReceiverSocket, "Udp RcvbufErrors", 55),
    ];
    let want = [(Stage::MacRxFifo, 700), (Stage::ReceiverStack, 100), (Stage::ReceiverSocket, 55)];
    check_driver("dummy", 855, receiver, &want);
}

#[test]
fn benign_drops_are_no_loss() {
    // Forty frames of LLDP and the like, which the interface counts as dropped.
    let receiver: List = &[
        (Stage::DriverRxRing, "link rx_dropped", 50),
        (Stage::DriverRxRing, "link rx_otherhost_dropped", 7),
        (RAW, "driver rx_drops", 50),
    ];
    let budget = check(lost(100, 90), &[], receiver, &[(Stage::DriverRxRing, 10)], 0);
    let benign: Vec<u64> = budget.benign_drops.iter().map(|line| line.packets).collect();
    assert_eq!((benign, budget.disagreements.len()), (vec![7, 40], 0), "{budget:#?}");
}

#[test]
fn counters_that_cannot_be_right_are_said_to() {
    let doubts = |driver, receiver: List| -> Vec<String> {
        let datagrams = lost(10_000, 10_000);
        let budget = loss_budget(
            &datagrams,
            Chain::direct(&host(&[]), &MachineAccount::new(End::Target, &counters(receiver), Some(driver))),
        );
        budget.disagreements.into_iter().map(|doubt| doubt.to_string()).collect()
    };
    let told = |driver, receiver: List, what: &str| {
        let doubts = doubts(driver, receiver);
        assert!(doubts.iter().any(|doubt| doubt.contains(what)), "{driver}: {doubts:#?}");
    };
    let octets = 10_000u64 * 1042;
    told("macb", &[(RAW, "driver rx_frames", 10_000), (RAW, "driver rx_octets", octets << 32)], "shifted by 32 bits");
    told("macb", &[(RAW, "driver rx_frames", 10_000), (RAW, "driver rx_octets", octets | 7 << 32)], "upper 32 bits");
    told(
        "fec",
        &[(RAW, "driver IEEE_rx_frame_ok", 50), (Stage::DriverRxRing, "link rx_packets", 10_001)],
        "than its MAC counted",
    );
    told(
        "macb",
        &[(RAW, "driver rx_overruns", 500), (Stage::MacRxFifo, "link rx_fifo_errors", 90)],
        "count the same and differ",
    );
    told("veth", &[(Stage::DriverRxRing, "link rx_packets", 6_000)], "10000 datagrams were delivered");
    let fine: List = &[
        (RAW, "driver rx_frames", 10_020),
        (RAW, "driver rx_octets", octets),
        (Stage::DriverRxRing, "link rx_packets", 10_030),
        (Stage::DriverRxRing, "link rx_bytes", octets),
    ];
    assert_eq!(doubts("macb", fine), [""; 0]);
    // One drop in two places of a driver that nothing is known of.
    let twice: List =
        &[(Stage::MacRxFifo, "link rx_fifo_errors", 300), (Stage::DriverRxRing, "link rx_missed_errors", 300)];
    let budget = check(lost(1000, 700), &[], twice, &[(Stage::MacRxFifo, 300), (Stage::DriverRxRing, 300)], -300);
    assert!(budget.disagreements[0].to_string().contains("agree to the packet"), "{:?}", budget.disagreements);
    // More received than sent.
    let budget = check(lost(10, 12), &[], &[], &[], -2);
    assert!(budget.disagreements[0].to_string().contains("12 datagrams were received where 10 were sent"));
}

#[test]
fn reasons_explain_what_no_counter_does_and_no_more() {
    let traced = |list: &[(&str, &str, u64)]| -> Vec<DropReason> {
        let one = |&(reason, at, packets): &(&str, &str, u64)| DropReason {
            reason: (reason != "-").then(|| reason.to_owned()),
            location: Some(at.to_owned()),
            packets,
        };
        list.iter().map(one).collect()
    };
    #[track_caller]
    fn check(reasons: &[DropReason], receiver: List, want: &[(Stage, u64)], unaccounted: i64) -> LossBudget {
        let budget = loss_budget(&lost(1000, 900), Chain::direct(&host(&[]), &target(receiver).with_reasons(reasons)));
        let lines: Vec<(Stage, u64)> = budget.lines.iter().map(|line| (line.stage, line.packets)).collect();
        assert_eq!((lines.as_slice(), budget.unaccounted), (want, unaccounted), "{budget:#?}");
        budget
    }
    let filtered = traced(&[("NETFILTER_DROP", "nf_hook_slow", 100), ("NOT_SPECIFIED", "unix_release_sock", 40)]);
    let budget = check(&filtered, &[], &[(Stage::ReceiverStack, 100)], 0);
    assert!(budget.lines[0].evidence().contains("by no counter; of all the machine's traffic"), "{budget:?}");
    // Others lost some too: one reason may be held to what is missing, two may not.
    let more = traced(&[("NETFILTER_DROP", "nf_hook_slow", 140)]);
    check(&more, &[], &[(Stage::ReceiverStack, 100)], 0);
    let two = traced(&[("NETFILTER_DROP", "nf_hook_slow", 90), ("XDP", "do_xdp_generic", 60)]);
    check(&two, &[], &[], 100);
    // Of one stage they may: end marks were dropped with the datagrams.
    let one_stage = traced(&[("NETFILTER_DROP", "nf_hook_slow", 90), ("IP_RPFILTER", "ip_rcv_finish_core", 60)]);
    check(&one_stage, &[], &[(Stage::ReceiverStack, 90), (Stage::ReceiverStack, 10)], 0);
    check(&traced(&[("-", "nf_hook_slow", 60)]), &[], &[(Stage::ReceiverStack, 60)], 40);
    // What a counter says already is not said again.
    let receiver: List = &[(Stage::ReceiverStack, "Udp NoPorts", 100)];
    let budget = check(&traced(&[("NO_SOCKET", "__udp4_lib_rcv", 100)]), receiver, &[(Stage::ReceiverStack, 100)], 0);
    assert_eq!(budget.lines[0].evidence(), "target: Udp NoPorts 100; drop reason NO_SOCKET 100 at __udp4_lib_rcv");
}

#[test]
fn the_path_tells_what_passed_where() {
    let sender: List = &[
        (Stage::SenderStack, "Udp OutDatagrams", 990),
        (Stage::Qdisc, "eth0 tbf packets", 950),
        (Stage::Qdisc, "eth0 pfifo@1:1 packets", 951),
        (Stage::DriverTxRing, "link tx_packets", 955),
        (RAW, "driver tx_packets", 954),
    ];
    let receiver: List = &[
        (RAW, "driver IEEE_rx_frame_ok", 940),
        (Stage::DriverRxRing, "link rx_packets", 930),
        (Stage::ReceiverStack, "Ip InReceives", 925),
    ];
    let datagrams = Datagrams { send_errors: 10, ..lost(1000, 900) };
    let of = |end, list| MachineAccount::new(end, &counters(list), Some("fec"));
    let trial = Trial::Udp { asked: Some(1001), datagrams: &datagrams };
    let passed: Vec<(Stage, u64)> = path(trial, Chain::direct(&of(End::Host, sender), &of(End::Target, receiver)))
        .iter()
        .map(|p| (p.stage, p.packets))
        .collect();
    let want = [
        (Stage::SenderApplication, 1001),
        (Stage::SenderApplication, 1000),
        (Stage::SenderSocket, 990),
        (Stage::SenderStack, 990),
        (Stage::Qdisc, 950),
        (Stage::DriverTxRing, 955),
        (Stage::MacTx, 954),
        (Stage::MacRxFifo, 940),
        (Stage::DriverRxRing, 930),
        (Stage::ReceiverStack, 925),
        (Stage::ReceiverApplication, 900),
    ];
    assert_eq!(passed, want);
}

#[test]
fn the_record_has_its_names() {
    let budget = loss_budget(&lost(1000, 10), Chain::direct(&host(FULL_TBF), &target(&[])));
    assert_eq!(
        serde_json::to_value(&budget).unwrap(),
        serde_json::json!({
            "loss_budget": [{
                "stage": "qdisc",
                "direction": "rx",
                "end": "host",
                "packets": 983,
                "cause": "qdisc",
                "counters": [{"source": "counter", "name": "ve0 tbf drops", "value": 983}],
            }],
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
            Datagrams { sent, under_way: 0, send_errors, send_retries: 0, refused_below: 0, unsent: 0, taken: 0, altered: 0, below_ip: false, bears_ip: false, received_unique, socket_drops, fragments, segments: 0, marks_lost, shared_kernel };
        let budget = loss_budget(&datagrams, Chain::direct(&MachineAccount::new(End::Host, &sender, None), &MachineAccount::new(End::Target, &receiver, None)));
        let explained: u64 = budget.lines.iter().map(|line| line.packets).sum();
        prop_assert_eq!(sent as i64 - received_unique as i64, explained as i64 + budget.unaccounted);
        prop_assert!(budget.lines.iter().all(|line| line.packets > 0 && !line.evidence().is_empty()));
        prop_assert!(budget.lines.is_sorted_by_key(|line| line.stage));
        // No line says more than the counters of its end together.
        let total: u64 = sender.iter().chain(receiver.iter()).map(|(_, _, value)| value).sum();
        prop_assert!(explained <= total + send_errors + socket_drops.unwrap_or(0));
    }

    #[test]
    fn extremes_do_not_overflow(value in prop_oneof![Just(u64::MAX), any::<u64>()], sent: u64, received: u64) {
        let all: Vec<(Stage, &str, u64)> =
            DROPS.iter().flat_map(|d| d.sources.concat().into_iter().map(move |n| (d.stage, n, value))).collect();
        let budget = loss_budget(&lost(sent, received), Chain::direct(&host(&all), &target(&all)));
        prop_assert!(budget.unaccounted.unsigned_abs() <= 1 << 60, "{}", budget.unaccounted);
        prop_assert!(budget.lines.iter().all(|line| line.packets <= 1 << 53));
    }
}
