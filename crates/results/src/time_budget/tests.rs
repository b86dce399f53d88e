//! Slices of made-up trials whose limit is known by how they were made.

use linerate_machine::end::{Direction, End};
use linerate_machine::environment::{Environment, Nic};
use linerate_trial::timeline::{FlowColumn, FlowTimeline, MachineColumn, Timeline};

use super::stream::{Stream, stream};
use super::{Limit, TimeLine};

const SLICE_US: u64 = 50_000;
/// A tenth of a gigabit.
const OCTETS: u64 = 625_000;

type Flow<'a> = &'a [(FlowColumn, u64)];
type Machine<'a> = &'a [(MachineColumn, u64)];

/// As many slices, all alike.
fn timeline(slices: usize, flow: Flow<'_>, machine: Machine<'_>) -> Timeline {
    let mut made =
        Timeline { ends_ns: (1..=slices as u64).map(|k| k * SLICE_US * 1000).collect(), ..Timeline::default() };
    let mut one = FlowTimeline::default();
    for slice in 0..slices {
        one.columns.push(slice, flow.iter().map(|(column, value)| (*column, Some(*value))));
        made.machine.push(slice, machine.iter().map(|(column, value)| (*column, Some(*value))));
    }
    made.flows.push(one);
    made
}

/// A sender that is busy all the time and whose thread sleeps most of it, with more columns; and a receiver that is not.
fn lines(
    is_tcp: bool,
    asked: Option<f64>,
    sender: Flow<'_>,
    machine: Machine<'_>,
    receiver: Flow<'_>,
) -> Vec<TimeLine> {
    world(World { is_tcp, asked, sender, machine, receiver, ..World::default() })
}

/// The same, with more of the world around it.
#[derive(Default)]
struct World<'a> {
    is_tcp: bool,
    asked: Option<f64>,
    sender: Flow<'a>,
    machine: Machine<'a>,
    receiver: Flow<'a>,
    receiving: Machine<'a>,
    /// The queueing discipline; a token bucket where it is empty.
    qdisc: &'a str,
    /// Of both links; absent of no hardware.
    speed_mbps: Option<u32>,
    paces: bool,
    paused: f64,
}

fn world(world: World<'_>) -> Vec<TimeLine> {
    let World { is_tcp, asked, sender, machine, receiver, receiving, qdisc, speed_mbps, paces, paused } = world;
    let usual = [
        (FlowColumn::Octets, OCTETS),
        (FlowColumn::BusyUs, SLICE_US),
        (FlowColumn::RunUs, 5_000),
        (FlowColumn::RunDelayUs, 0),
        (FlowColumn::RttUs, 300),
        (FlowColumn::MinRttUs, 290),
        (FlowColumn::Cwnd, 100),
        (FlowColumn::InFlight, 40),
    ];
    let usual = usual.into_iter().filter(|(column, _)| !sender.iter().any(|(other, _)| other == column));
    let sender: Vec<_> = usual.chain(sender.iter().copied()).collect();
    let receiver: Vec<_> = [(FlowColumn::Octets, OCTETS)]
        .into_iter()
        .filter(|_| !receiver.iter().any(|(column, _)| *column == FlowColumn::Octets))
        .chain(receiver.iter().copied())
        .collect();
    let qdisc = if qdisc.is_empty() { "tbf" } else { qdisc };
    let qdiscs = vec![qdisc.to_owned()];
    let nic = Nic { name: "eth0".to_owned(), qdisc: Some(qdisc.to_owned()), qdiscs, speed_mbps, ..Nic::default() };
    let sending = Environment { nic: Some(nic), ..Environment::default() };
    stream(&Stream {
        direction: Direction::Tx,
        sender: End::Target,
        flows: vec![0],
        sent: &timeline(20, &sender, machine),
        received: &timeline(20, &receiver, receiving),
        sending: &sending,
        receiving: &Environment::default(),
        is_tcp,
        paces,
        asked,
        segment: 1448.0,
        grain: 1448.0,
        paused,
    })
}

#[track_caller]
fn check(lines: &[TimeLine], want: &[(Limit, Option<End>, f64)]) {
    let got: Vec<_> = lines.iter().map(|line| (line.limit, line.end, (line.share * 1000.0).round() / 1000.0)).collect();
    assert_eq!(got, want);
    let (sum, seconds) = lines.iter().fold((0.0, 0.0), |(a, b), line| (a + line.share, b + line.seconds));
    assert!((sum - 1.0).abs() < 1e-3 && (seconds - 1.0).abs() < 1e-3, "{sum} of {seconds} s");
}

#[test]
fn a_queue_is_of_what_is_busy() {
    use FlowColumn as F;
    let limit = |octets: u64, delivery_rate: u64, retransmitted: u64, paces: bool| {
        let sender = [(F::RttUs, 3_000), (F::DeliveryRate, delivery_rate), (F::Retransmitted, retransmitted)];
        let receiver = [(F::Octets, octets)];
        world(World { is_tcp: true, sender: &sender, receiver: &receiver, paces, ..World::default() })[0].limit
    };
    // 20 Mbit/s arrive, as TCP sees them delivered: 4.7 segments wait 2.7 ms.
    assert_eq!(limit(125_000, 2_500_000, 1, false), Limit::Path);
    // Between its stops it has twice as much delivered.
    assert_eq!(limit(125_000, 5_000_000, 1, false), Limit::CongestionWindow);
    assert_eq!(limit(125_000, 5_000_000, 1, true), Limit::Path);
    // 5 Mbit/s: one segment waits.
    assert_eq!(limit(31_250, 625_000, 1, false), Limit::CongestionWindow);
    assert_eq!(limit(31_250, 625_000, 0, false), Limit::Path);
}

#[test]
fn a_rate_that_is_known_and_not_used_is_no_limit() {
    let limit = |tx_octets: u64, retransmitted: u64, dropped: u64, qdisc: &str| {
        let machine = [
            (MachineColumn::QdiscOverlimits, 30),
            (MachineColumn::TxOctets, tx_octets),
            (MachineColumn::QdiscDropped, dropped),
        ];
        let sender = [(FlowColumn::Retransmitted, retransmitted)];
        world(World { is_tcp: true, sender: &sender, machine: &machine, qdisc, ..World::default() })[0].limit
    };
    // 250 kB in 50 ms.
    let known = "tbf rate 40M burst 20K limit 200K";
    assert_eq!(limit(240_000, 1, 0, known), Limit::Shaper);
    assert_eq!(limit(90_000, 1, 0, known), Limit::CongestionWindow);
    for (lost, dropped, qdisc) in [(0, 0, known), (1, 1, known), (1, 0, "htb")] {
        assert_eq!(limit(90_000, lost, dropped, qdisc), Limit::Shaper, "{lost} {dropped} {qdisc}");
    }
}

#[test]
fn each_limit_has_its_signs() {
    use FlowColumn as F;
    let (target, host) = (Some(End::Target), Some(End::Host));
    let tcp = |sender: Flow<'_>, machine: Machine<'_>, receiver: Flow<'_>| lines(true, None, sender, machine, receiver);
    check(&tcp(&[(F::RunUs, 48_000)], &[], &[]), &[(Limit::SenderCpu, target, 1.0)]);
    check(
        &tcp(&[(F::RunUs, 25_000), (F::RunDelayUs, 25_000)], &[], &[]),
        &[(Limit::SenderCpu, target, 0.5), (Limit::SenderCpuWait, target, 0.5)],
    );
    check(&tcp(&[(F::ReceiveWindowUs, 40_000)], &[], &[]), &[(Limit::ReceiveWindow, host, 1.0)]);
    check(
        &tcp(&[(F::ReceiveWindowUs, 50_000)], &[], &[(F::RunUs, 49_000), (F::RunDelayUs, 0)]),
        &[(Limit::ReceiverCpu, host, 1.0)],
    );
    check(
        &tcp(&[(F::ReceiveWindowUs, 50_000)], &[], &[(F::RunUs, 10_000), (F::RunDelayUs, 40_000)]),
        &[(Limit::ReceiverCpuWait, host, 0.8), (Limit::ReceiverCpu, host, 0.2)],
    );
    check(&tcp(&[(F::SendBufferUs, 50_000)], &[], &[]), &[(Limit::SendBuffer, target, 1.0)]);
    check(&tcp(&[], &[(MachineColumn::QdiscOverlimits, 30)], &[]), &[(Limit::Shaper, target, 1.0)]);
    check(&tcp(&[(F::RttUs, 9_000)], &[], &[]), &[(Limit::Path, None, 1.0)]);
    let full = [(F::InFlight, 99), (F::Ssthresh, 50)];
    check(&tcp(&full, &[], &[]), &[(Limit::WindowGrowth, None, 1.0)]);
    check(&tcp(&[(F::InFlight, 99), (F::Ssthresh, 9_999)], &[], &[]), &[(Limit::SlowStart, None, 1.0)]);
    check(&tcp(&[full[0], full[1], (F::Retransmitted, 1)], &[], &[]), &[(Limit::CongestionWindow, None, 1.0)]);
    // TCP_CA_CWR: a mark made it smaller, and nothing was lost.
    check(&tcp(&[full[0], full[1], (F::CongestionState, 2)], &[], &[]), &[(Limit::CongestionWindow, None, 1.0)]);
    let overtaken = [full[0], (F::Retransmitted, 2), (F::Spurious, 2), (F::Reordering, 1)];
    check(&tcp(&overtaken, &[], &[]), &[(Limit::Reordering, None, 1.0)]);
    check(
        &tcp(&[(F::BusyUs, 10_000)], &[], &[]),
        &[(Limit::SendingApplication, target, 0.7), (Limit::Unaccounted, None, 0.2), (Limit::SenderCpu, target, 0.1)],
    );
    check(&tcp(&[], &[], &[]), &[(Limit::Unaccounted, None, 1.0)]);
}

#[test]
fn a_rate_that_is_reached_limits_and_one_that_is_not_does_not() {
    use FlowColumn as F;
    let asked = Some(OCTETS as f64 * 20.0);
    check(&lines(true, asked, &[], &[], &[]), &[(Limit::AskedRate, None, 1.0)]);
    let short = [(F::Octets, OCTETS / 2), (F::RunUs, 49_000)];
    check(&lines(true, asked, &short, &[], &[]), &[(Limit::SenderCpu, Some(End::Target), 1.0)]);
    check(&lines(false, asked, &[], &[], &[]), &[(Limit::AskedRate, None, 1.0)]);
    let starved = [(F::Octets, OCTETS / 2), (F::RunUs, 10_000), (F::RunDelayUs, 40_000)];
    check(
        &lines(false, asked, &starved, &[], &[]),
        &[(Limit::SenderCpuWait, Some(End::Target), 0.8), (Limit::SenderCpu, Some(End::Target), 0.2)],
    );
    // As fast as it can, held back by its own queue.
    check(
        &lines(false, None, &[(F::RunUs, 10_000)], &[(MachineColumn::Backlog, 9_000)], &[]),
        &[(Limit::Shaper, Some(End::Target), 0.8), (Limit::SenderCpu, Some(End::Target), 0.2)],
    );
}

#[test]
fn what_lies_around_a_stream_limits_it() {
    use FlowColumn as F;
    use MachineColumn as M;
    let (target, host) = (Some(End::Target), Some(End::Host));
    let tcp = |set: fn(&mut World<'static>)| {
        let mut made = World { is_tcp: true, ..World::default() };
        set(&mut made);
        world(made)
    };
    // Nothing arrives though segments are on their way: after a time-out, or while a link is down.
    check(
        &tcp(|w| (w.sender, w.receiver) = (&[(F::Octets, 0), (F::Backoff, 2)], &[(F::Octets, 0)])),
        &[(Limit::Outage, None, 1.0)],
    );
    check(
        &tcp(|w| (w.sender, w.receiver) = (&[(F::Octets, 0), (F::CongestionState, 4)], &[(F::Octets, 0)])),
        &[(Limit::Outage, None, 1.0)],
    );
    check(&tcp(|w| w.receiving = &[(M::CarrierChanges, 1)]), &[(Limit::Outage, None, 1.0)]);
    check(&tcp(|w| w.machine = &[(M::CarrierChanges, 1)]), &[(Limit::Outage, None, 1.0)]);
    // 95 % of 100 Mbit/s: 625,000 octets in 50 ms, 24 of each of 420 frames not counted.
    check(
        &tcp(|w| (w.speed_mbps, w.machine) = (Some(100), &[(M::TxOctets, 590_000), (M::TxPackets, 420)])),
        &[(Limit::LinkRate, None, 1.0)],
    );
    check(
        &tcp(|w| (w.speed_mbps, w.receiving) = (Some(100), &[(M::RxOctets, 590_000), (M::RxPackets, 420)])),
        &[(Limit::LinkRate, None, 1.0)],
    );
    check(
        &tcp(|w| (w.speed_mbps, w.machine) = (Some(100), &[(M::TxOctets, 500_000), (M::TxPackets, 420)])),
        &[(Limit::Unaccounted, None, 1.0)],
    );
    // What stands at an egress that keeps to no rate waits for the interface.
    check(&tcp(|w| (w.qdisc, w.machine) = ("pfifo_fast", &[(M::Backlog, 9_000)])), &[(Limit::Qdisc, target, 1.0)]);
    check(&tcp(|w| (w.qdisc, w.machine) = ("fq_codel", &[(M::QdiscDropped, 3)])), &[(Limit::Qdisc, target, 1.0)]);
    check(&tcp(|w| w.machine = &[(M::BusiestSoftirq, 980)]), &[(Limit::Softirq, target, 1.0)]);
    check(&tcp(|w| w.receiving = &[(M::BusiestSoftirq, 980)]), &[(Limit::Softirq, host, 1.0)]);
    check(&tcp(|w| w.receiving = &[(M::BusiestSoftirq, 800)]), &[(Limit::Unaccounted, None, 1.0)]);
    check(&tcp(|w| w.paused = 0.4), &[(Limit::Unaccounted, None, 0.6), (Limit::Pause, target, 0.4)]);
    check(&tcp(|w| w.paces = true), &[(Limit::Pacing, None, 1.0)]);
    // A quota takes the sender's CPU, whatever its thread waits.
    check(
        &tcp(|w| (w.sender, w.machine) = (&[(F::RunUs, 20_000)], &[(M::ThrottledUs, 30_000)])),
        &[(Limit::SenderCpuWait, target, 0.6), (Limit::SenderCpu, target, 0.4)],
    );
}

#[test]
fn a_sender_of_datagrams_that_is_behind_waits_for_room() {
    // A fifth, or a hundredth, less than was asked, by a thread that sleeps most of the time; one slice is short of it.
    let of = |asked: f64| {
        let mut sent = timeline(20, &[(FlowColumn::Octets, OCTETS), (FlowColumn::RunUs, 5_000)], &[]);
        let octets = sent.flows[0].columns.0.get_mut(&FlowColumn::Octets).unwrap();
        octets[10] = OCTETS / 2;
        let environment = Environment::default();
        let lines = stream(&Stream {
            direction: Direction::Tx,
            sender: End::Target,
            flows: vec![0],
            received: &sent.clone(),
            sent: &sent,
            sending: &environment,
            receiving: &environment,
            is_tcp: false,
            paces: false,
            asked: Some(asked * OCTETS as f64 * 20.0),
            segment: 1448.0,
            grain: 1400.0,
            paused: 0.0,
        });
        lines.into_iter().filter(|line| line.share >= 0.01).map(|line| line.limit).collect::<Vec<_>>()
    };
    assert_eq!(of(1.25), [Limit::Qdisc, Limit::SenderCpu]);
    assert_eq!(of(1.0), [Limit::AskedRate, Limit::SendingApplication]);
}

#[test]
fn datagrams_that_nobody_gets_are_an_outage_unless_the_receiver_had_no_cpu() {
    use FlowColumn as F;
    let udp = |receiver: Flow<'_>, receiving: Machine<'_>| {
        let sender: Flow<'_> = &[(F::Octets, OCTETS / 2), (F::RunUs, 49_500)];
        let asked = Some(OCTETS as f64 * 20.0);
        world(World { asked, sender, receiver, receiving, ..World::default() })
    };
    let sender_cpu = [(Limit::SenderCpu, Some(End::Target), 1.0)];
    check(&udp(&[(F::Octets, 0)], &[]), &[(Limit::Outage, None, 1.0)]);
    // What was sent in the little time that the sender's thread had was on its way.
    let target = Some(End::Target);
    let starved = lines(false, None, &[(F::RunDelayUs, 45_000)], &[], &[(F::Octets, 0)]);
    check(&starved, &[(Limit::SenderCpuWait, target, 0.9), (Limit::SenderCpu, target, 0.1)]);
    check(&udp(&[(F::Octets, 1)], &[]), &sender_cpu);
    check(&udp(&[(F::Octets, 0), (F::RunDelayUs, 30_000)], &[]), &sender_cpu);
    check(&udp(&[(F::Octets, 0)], &[(MachineColumn::ThrottledUs, 30_000)]), &sender_cpu);
    check(&udp(&[(F::Octets, 0)], &[(MachineColumn::LateUs, 300_000)]), &sender_cpu);
}

#[test]
fn nobody_who_looked_makes_no_lines() {
    assert_eq!(lines(true, None, &[], &[], &[]).len(), 1);
    let empty = Timeline::default();
    let none = stream(&Stream {
        direction: Direction::Rx,
        sender: End::Host,
        flows: vec![0, 1],
        sent: &empty,
        received: &empty,
        sending: &Environment::default(),
        receiving: &Environment::default(),
        is_tcp: true,
        paces: false,
        asked: None,
        segment: 1448.0,
        grain: 1.0,
        paused: 0.0,
    });
    assert_eq!(none, []);
}

/// Whatever a hostile agent tells, nothing is divided into more than there is.
#[test]
fn columns_of_any_length_and_size_come_to_a_whole() {
    let mut chance = 88_172_645_463_325_252_u64;
    let mut draw = move || {
        chance ^= chance << 13;
        chance ^= chance >> 7;
        chance ^= chance << 17;
        chance
    };
    for _ in 0..2_000 {
        let mut made = [Timeline::default(), Timeline::default()];
        for timeline in &mut made {
            let slices = draw() % 6;
            timeline.ends_ns = (0..slices).map(|_| draw() % 1_000_000_000).collect();
            let mut flow = FlowTimeline::default();
            for column in FlowColumn::ALL {
                let value =
                    |draw: &mut dyn FnMut() -> u64| if draw().is_multiple_of(8) { u64::MAX } else { draw() % 200_000 };
                let len = draw() % 7;
                flow.columns.0.insert(column, (0..len).map(|_| value(&mut draw)).collect());
            }
            for column in MachineColumn::ALL {
                let len = draw() % 7;
                timeline.machine.0.insert(column, (0..len).map(|_| draw() % 2_000).collect());
            }
            timeline.flows.push(flow);
        }
        for (is_tcp, asked) in [(true, None), (true, Some(1e6)), (false, Some(1e6)), (false, None)] {
            let lines = stream(&Stream {
                direction: Direction::Rx,
                sender: End::Host,
                flows: vec![0],
                sent: &made[0],
                received: &made[1],
                sending: &Environment::default(),
                receiving: &Environment::default(),
                is_tcp,
                paces: draw() % 2 == 0,
                asked,
                segment: 1448.0,
                grain: 1000.0,
                paused: 0.3,
            });
            let sum: f64 = lines.iter().map(|line| line.share).sum();
            assert!(lines.is_empty() || (sum - 1.0).abs() < 1e-2, "{lines:?}");
            assert!(lines.iter().all(|line| line.seconds >= 0.0 && line.seconds.is_finite()), "{lines:?}");
        }
    }
}
