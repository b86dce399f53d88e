//! Two handmade outcomes of a stream to the target, and what the record says of them.
//! Knows no agent: outcomes are written here.

use std::collections::BTreeMap;
use std::time::Duration;

use linerate_machine::cpu::{CpuShares, PROC_STAT};
use linerate_machine::end::{Direction, PerEnd};
use linerate_machine::environment::Nic;
use linerate_machine::units::OfferedLoad;
use linerate_path::stage::Stage;
use linerate_trial::arrivals::Arrivals;
use linerate_trial::doubt::DoubtKind;
use linerate_trial::event::{Event, EventKind};
use linerate_trial::histogram::Histogram;
use linerate_trial::outcome::{CpuSlice, FlowOutcome, Role, Segments, Slice, TcpSummary};
use linerate_trial::spec::{Extent, Ip, Spacing, Workload};
use linerate_trial::timeline::{FlowColumn, FlowTimeline};

use super::*;
use crate::figure::Metric;

const SECOND: u64 = 1_000_000_000;

/// Ten seconds of a stream from the host, after a warm-up of five; each end saw the same.
struct Made {
    spec: Spec,
    target: Outcome,
    host: Outcome,
    environments: [Environment; 2],
}

fn made(workload: Workload, mbit: u64) -> Made {
    let mut spec = Spec::new(workload);
    (spec.direction, spec.warmup) = (Direction::Rx, Duration::from_secs(5));
    spec.extent = Extent::Time(Duration::from_secs(10));
    let flow = |role| {
        let mut flow = FlowOutcome::new(0, role);
        flow.elapsed_ns = 10 * SECOND;
        (flow.octets, flow.octets_total) = (mbit * 1_250_000, mbit * 1_875_000);
        (flow.messages, flow.messages_total) = (10_000, 15_000);
        flow
    };
    let (sends, receives) =
        if workload.is_stream() { (Role::Sender, Role::Receiver) } else { (Role::Requester, Role::Responder) };
    let [target, host] =
        [(End::Target, receives), (End::Host, sends)].map(|(end, role)| Outcome::of_flows(end, vec![flow(role)]));
    Made { spec, target, host, environments: [Environment::default(), Environment::default()] }
}

impl Made {
    fn record(self) -> Record {
        let outcomes = Ok(Box::new([self.target, self.host]));
        joined(self.spec, self.environments, outcomes, PerEnd::default())
    }

    /// What the record says of its load.
    fn behind(self) -> String {
        let doubts = self.record().doubts;
        let doubt = doubts.into_iter().find(|doubt| doubt.kind() == DoubtKind::SenderFellBehind);
        doubt.map_or(String::new(), |doubt| doubt.to_string())
    }
}

fn joined(
    spec: Spec,
    [target, host]: [Environment; 2],
    outcomes: Result<Box<[Outcome; 2]>, String>,
    partial: PerEnd<Option<Box<Outcome>>>,
) -> Record {
    let label = Label {
        id: "1".to_owned(),
        started_at: String::new(),
        campaign: String::new(),
        plan: String::new(),
        trial: TrialPlace {
            index: 0,
            repeat: 0,
            factors: BTreeMap::new(),
            configuration: None,
            order_seed: None,
            null_side: None,
            search: None,
        },
        endpoints: PerEnd { target: "netperf:10.0.0.2".to_owned(), host: "local".to_owned() },
    };
    let settings = [Vec::new(), Vec::new()];
    let nothing = EndedTrial::without(&spec, String::new());
    record(label, EndedTrial { settings, target, host, outcomes, partial, ..nothing })
}

#[test]
fn streams_that_end_one_after_the_other_are_not_added_up_over_times_of_their_own() {
    let mut made = made(Workload::TcpStream, 100);
    (made.spec.streams, made.spec.extent) = (2, Extent::Octets(125_000_000));
    for outcome in [&mut made.target, &mut made.host] {
        let second = FlowOutcome { id: 1, elapsed_ns: 5 * SECOND, ..outcome.flows[0].clone() };
        outcome.flows.push(second);
    }
    let flow = made.record().result.unwrap().flow;
    assert_eq!((flow.throughput_bps, flow.achieved_load_bps), (Some(200e6), Some(200e6)), "and not 100 + 200 Mbit/s");
}

#[test]
fn one_direction_of_two_is_no_throughput_of_both() {
    for comes_back in [false, true] {
        let mut made = made(Workload::UdpStream, 100);
        made.spec.direction = Direction::Both;
        for (outcome, [there, back]) in
            [(&mut made.target, [Role::Sender, Role::Receiver]), (&mut made.host, [Role::Receiver, Role::Sender])]
        {
            outcome.flows[0].role = there;
            let back = FlowOutcome { id: 1, role: back, ..outcome.flows[0].clone() };
            outcome.flows.extend((comes_back || back.role == Role::Sender).then_some(back));
        }
        let result = made.record().result.unwrap();
        let directions = result.directions.unwrap();
        let bps = [result.flow, directions.tx, directions.rx].map(|flow| flow.throughput_bps);
        let want = if comes_back { [Some(200e6), Some(100e6), Some(100e6)] } else { [None, Some(100e6), None] };
        assert_eq!(bps, want, "what comes back is told: {comes_back}");
    }
}

#[test]
fn what_chance_draws_is_no_falling_behind() {
    let poisson = |mbit: f64| {
        let mut made = made(Workload::UdpStream, 100);
        (made.spec.spacing, made.spec.message_size) = (Spacing::Poisson, Some(12_500));
        made.spec.rate = OfferedLoad::BitsPerSecond((mbit * 1e6) as u64);
        made.behind()
    };
    // 10,000 messages have a standard deviation of 1 %.
    assert_eq!([poisson(103.0), poisson(97.0)], ["", ""]);
    assert!(poisson(105.0).contains("asked for 105"), "{}", poisson(105.0));
}

/// What iperf 2.1.8 and iperf3 3.12 were seen to send, of what they were asked for, in a short test.
#[test]
fn another_tools_sender_has_a_timer_and_a_last_datagram() {
    for (asked, size, sent, took_ns, is_kept) in [
        (102_400, 1470, 3, 162_043_370, true),
        (102_400, 1470, 12, 1_150_477_848, true),
        (1_048_576, 1470, 48, 515_974_113, true),
        (104_857_600, 1470, 894, 101_664_246, true),
        (200_000_000, 1448, 100, 6_220_000, true),
        (104_857_600, 1470, 8_700, 1_000_000_000, false),
        (102_400, 1470, 14, 1_150_477_848, false),
    ] {
        let behind = |is_foreign: bool| {
            let mut made = made(Workload::UdpStream, 100);
            (made.spec.warmup, made.spec.message_size) = (Duration::ZERO, Some(size));
            made.spec.rate = OfferedLoad::BitsPerSecond(asked);
            for flow in [&mut made.host.flows[0], &mut made.target.flows[0]] {
                (flow.messages, flow.messages_total, flow.elapsed_ns) = (sent, sent, took_ns);
                (flow.octets, flow.octets_total) = (sent * u64::from(size), sent * u64::from(size));
            }
            if !is_foreign {
                made.host.flows[0].thread.voluntary_switches = 1;
                made.target.flows[0].thread.voluntary_switches = 1;
            }
            made.behind()
        };
        assert_eq!(behind(true).is_empty(), is_kept, "{sent}: {}", behind(true));
        assert!(!behind(false).is_empty(), "{sent}: this tool's own keeps its schedule");
    }
}

/// What this tool sent to an iperf 2.1.8 in 2 s: each stream has a datagram that opens it, and one that ends it, beside its pace.
#[test]
fn a_stream_to_iperf2_begins_and_ends_with_a_datagram_of_the_protocols() {
    for (asked, size, sent, is_kept) in [
        (20_000, 1000, 7, true),
        (20_000, 1000, 9, false),
        (1_000_000, 1470, 173, true),
        (1_000_000, 1470, 174, false),
        (1_000_000, 1470, 166, false),
    ] {
        let mut made = made(Workload::UdpStream, 100);
        (made.spec.warmup, made.spec.message_size) = (Duration::ZERO, Some(size));
        made.spec.rate = OfferedLoad::BitsPerSecond(asked);
        for flow in [&mut made.host.flows[0], &mut made.target.flows[0]] {
            (flow.messages, flow.messages_total, flow.elapsed_ns) = (sent, sent, 2_000_000_000);
            (flow.octets, flow.octets_total) = (sent * u64::from(size), sent * u64::from(size));
        }
        made.host.flows[0].thread.voluntary_switches = 1;
        let behind = made.behind();
        assert_eq!(behind.is_empty(), is_kept, "{sent}: {behind}");
        assert!(!behind.contains(" 0.0 "), "{behind}");
    }
}

#[test]
fn ends_that_measured_other_parts_of_a_stream_are_doubted() {
    let has = |change: fn(&mut Made)| {
        let mut made = made(Workload::TcpStream, 100);
        change(&mut made);
        made.record().doubts.iter().any(|doubt| doubt.kind() == DoubtKind::PartsApart)
    };
    assert!(!has(|_| {}));
    // The receiver read first when the sender had nearly done.
    assert!(has(|made| made.target.flows[0].octets = 0));
    assert!(!has(|made| made.target.flows[0].octets /= 2));
    // What did not arrive is loss.
    assert!(!has(|made| (made.target.flows[0].octets, made.target.flows[0].octets_total) = (0, 0)));
}

#[test]
fn datagrams_that_were_under_way_at_the_end_were_sent_and_not_lost() {
    let mut made = made(Workload::UdpStream, 100);
    made.host.flows[0].under_way = 400;
    let arrivals = Arrivals { received: 9_000, received_total: 14_000, ..Arrivals::default() };
    made.target.flows[0].arrivals = Some(arrivals);
    let record = made.record();
    let flow = &record.result.as_ref().unwrap().flow;
    assert_eq!((flow.packets_sent, flow.packets_lost, flow.loss_ratio), (Some(10_000), Some(600), Some(0.0625)));
    assert_eq!((flow.octets_sent, flow.achieved_load_bps), (Some(125_000_000), Some(1e8)));
    assert_eq!((record.losses[0].lost(), record.unaccounted), (600, Some(600)));
}

#[test]
fn packets_a_second_have_none_that_a_queue_let_go_after_the_window() {
    let mut made = made(Workload::UdpStream, 100);
    made.target.flows[0].messages = 8_000;
    made.target.flows[0].arrivals = Some(Arrivals { received: 9_500, received_total: 14_500, ..Arrivals::default() });
    let record = made.record();
    let flow = &record.result.as_ref().unwrap().flow;
    assert_eq!((flow.packets_received, flow.packets_in_window), (Some(9_500), Some(8_000)));
    assert_eq!(Metric::find("packets").unwrap().of(&record), Some(800.0));
}

#[test]
fn runs_of_losses_are_absent_where_nobody_knows_them() {
    let runs = |received_total, loss_bursts: &[(u64, u64)]| {
        let mut made = made(Workload::UdpStream, 100);
        let loss_bursts = loss_bursts.iter().copied().collect();
        made.target.flows[0].arrivals = Some(Arrivals { received_total, loss_bursts, ..Arrivals::default() });
        made.record().result.unwrap().flow.loss_bursts
    };
    assert_eq!(runs(15_000, &[]), Some(BTreeMap::new()));
    assert_eq!(runs(14_990, &[(5, 2)]), Some(BTreeMap::from([(5, 2)])));
    assert_eq!(runs(14_990, &[]), None, "lost, and not known where");
    assert_eq!(made(Workload::TcpStream, 100).record().result.unwrap().flow.loss_bursts, None);
}

#[test]
fn a_sender_whose_receiver_tells_nothing_keeps_its_load_or_not() {
    for (mbit, said) in [(100, true), (150, false)] {
        let mut made = made(Workload::UdpStream, mbit);
        made.spec.rate = OfferedLoad::BitsPerSecond(150_000_000);
        made.target.flows.clear();
        assert_eq!(!made.behind().is_empty(), said, "{mbit}");
    }
}

#[test]
fn a_failed_trial_keeps_what_each_end_saw() {
    for (has_target, has_host) in [(true, true), (true, false), (false, true), (false, false)] {
        let mut made = made(Workload::TcpStream, 100);
        made.target.cpu = Some(used(3.0, false));
        for outcome in [&mut made.target, &mut made.host] {
            outcome.counters.add(Stage::Link, "link carrier_changes", 1);
            outcome.flows[0].slices = (0..3)
                .map(|s| Slice { start_ns: s * SECOND, end_ns: (s + 1) * SECOND, octets: 1_000, ..Slice::default() })
                .collect();
        }
        let partial =
            PerEnd { target: has_target.then(|| Box::new(made.target)), host: has_host.then(|| Box::new(made.host)) };
        let record = joined(made.spec, made.environments, Err("it broke".to_owned()), partial);
        assert_eq!((record.error.as_deref(), record.result.is_none()), (Some("it broke"), true));
        assert_eq!(record.intervals.len(), if has_target { 3 } else { 0 }, "{has_target} {has_host}");
        assert_eq!(record.intervals.first().map(|one| one.throughput_bps), has_target.then_some(Some(8_000.0)));
        assert_eq!((!record.target.counters.0.is_empty(), !record.host.counters.0.is_empty()), (has_target, has_host));
        assert_eq!(record.target.cpu.is_some(), has_target);
    }
}

#[test]
fn one_wait_of_tcp_in_which_more_than_one_segment_was_lost_is_an_outage() {
    const SLICE: u64 = 50_000_000;
    let stalls = |again: [u64; 2], slow: u64| {
        let mut made = made(Workload::TcpRr, 1);
        made.spec.warmup = Duration::ZERO;
        // 350 ms of ten seconds without an answer.
        let timeline = &mut made.host.timeline;
        timeline.ends_ns = (1..=200).map(|slice| slice * SLICE).collect();
        let mut flow = FlowTimeline { id: 0, ..FlowTimeline::default() };
        for slice in 0..200 {
            let answers = if (60..67).contains(&slice) { 0 } else { 20 };
            flow.columns.push(slice, [(FlowColumn::Messages, Some(answers))]);
        }
        timeline.flows.push(flow);
        let mut latency = Histogram::default();
        latency.record_n(300_000, 3_000);
        latency.record_n(420_000_000, slow);
        made.host.flows[0].latency = Some(latency);
        for (outcome, retransmissions) in [&mut made.host, &mut made.target].into_iter().zip(again) {
            outcome.flows[0].tcp = Some(TcpSummary { retransmissions, ..TcpSummary::default() });
        }
        let is_stall = |event: &Event| matches!(event.what, EventKind::Stall { .. });
        let ms = |s: f64| (s * 1e3).round() as u64;
        let stalls = made.record().events.into_iter().filter(is_stall);
        stalls.map(|event| (ms(event.at_s), event.for_s.map(ms))).collect::<Vec<_>>()
    };
    assert_eq!(stalls([1, 1], 1), [(3_000, Some(350))]);
    assert_eq!(stalls([2, 0], 1), [(3_000, Some(350))]);
    // One segment, and losses at two times: TCP's timer makes those waits.
    assert_eq!(stalls([1, 0], 1), []);
    assert_eq!(stalls([2, 0], 2), []);
}

/// Half of two CPUs, for so long.
fn used(span_s: f64, includes_warmup: bool) -> CpuUse {
    let machine = CpuShares { busy: 0.5, ..CpuShares::default() };
    let (per_cpu, method) = (vec![machine; 2], PROC_STAT.to_owned());
    CpuUse { machine, cpus: 2, per_cpu, method, span_s, includes_warmup }
}

#[test]
fn service_demand_divides_time_by_what_was_moved_in_it() {
    for workload in [Workload::TcpStream, Workload::UdpStream, Workload::TcpRr] {
        let mut made = made(workload, 1024);
        // A netserver measures the fifteen seconds from its start, an agent the last ten of them.
        (made.target.cpu, made.host.cpu) = (Some(used(15.0, true)), Some(used(10.0, false)));
        for flow in made.target.flows.iter_mut().chain(&mut made.host.flows) {
            flow.tcp = Some(TcpSummary {
                segments_sent: Some(15_000),
                segments_received: Some(15_000),
                ..TcpSummary::default()
            });
        }
        let demand = made.record().result.unwrap().service_demand.unwrap();
        assert_eq!(demand.target_us_per_packet, Some(1000.0), "{workload}");
        assert_eq!(demand.host_us_per_packet, Some(1000.0), "{workload}");
        let by_kib = workload.is_stream().then_some(8.0);
        assert_eq!((demand.target_us_per_kib, demand.host_us_per_kib), (by_kib, by_kib), "{workload}");
    }
}

#[test]
fn a_few_clock_ticks_make_no_figure() {
    let mut made = made(Workload::TcpStream, 100);
    (made.target.cpu, made.host.cpu) = (Some(used(0.09, false)), Some(used(0.3, false)));
    let machine = CpuShares { busy: 1.0, ..CpuShares::default() };
    made.host.cpu_slices = [(0, 100), (100, 150)]
        .map(|(start, end)| CpuSlice { start_ns: start * 1_000_000, end_ns: end * 1_000_000, machine })
        .to_vec();
    for flow in made.target.flows.iter_mut().chain(&mut made.host.flows) {
        flow.slices = [(0, 100), (100, 150)]
            .map(|(start, end)| Slice { start_ns: start * 1_000_000, end_ns: end * 1_000_000, ..Slice::default() })
            .to_vec();
    }
    let record = made.record();
    assert!(record.target.cpu.is_none() && record.host.cpu.is_some());
    let demand = record.result.unwrap().service_demand.unwrap();
    assert!(demand.target_us_per_kib.is_none() && demand.host_us_per_kib.is_some());
    let details: Vec<String> = record.doubts.iter().map(ToString::to_string).collect();
    assert!(
        details.iter().any(|detail| detail.starts_with("target: CPU use would rest on 9 clock ticks")),
        "{details:?}"
    );
    assert!(details.iter().any(|detail| detail.starts_with("host: CPU use rests on 30 clock ticks")), "{details:?}");
    let slices: Vec<bool> = record.intervals.iter().map(|slice| slice.host_cpu.is_some()).collect();
    assert_eq!(slices, [true, false], "five ticks");
}

#[test]
fn what_held_a_sender_up_took_as_much_time_as_is_missing() {
    let check = |change: &dyn Fn(&mut Made), want: &str| {
        let mut made = made(Workload::UdpStream, 69);
        made.spec.rate = OfferedLoad::BitsPerSecond(100_000_000);
        (made.host.flows[0].thread.user_s, made.host.flows[0].thread.system_s) = (0.5, 1.0);
        change(&mut made);
        let said = made.behind();
        assert!(said.contains("offered 69.0 (-31.0 %): ") && said.contains(want), "{said}");
    };
    let waited = |made: &mut Made, seconds| made.host.flows[0].thread.run_delay_s = Some(seconds);
    // 15 seconds of a thread, warm-up included.
    check(&|made| waited(made, 0.2), "(-31.0 %): its link, or a shaper before it, took no more");
    check(&|made| waited(made, 0.2), "worked 10.0 % of the time, waited for room to send; read");
    check(&|made| waited(made, 4.5), "waited for a CPU 30.0 % of the time");
    check(&|made| made.host.flows[0].thread.system_s = 14.0, "worked 96.7 % of the time, and can do no more");
    let tbf = Some(Nic { qdisc: Some("tbf".to_owned()), ..Nic::default() });
    check(&|made| made.environments[1].nic.clone_from(&tbf), "its queueing discipline, tbf, took no more");
    check(
        &|made| {
            let share = Some(0.4);
            made.host.flows[0].tcp = Some(TcpSummary { limited_by_receive_window: share, ..TcpSummary::default() });
        },
        "TCP waited for the receiver's window 40.0 % of the time",
    );
    // Of another tool's sender nobody knows what its threads did.
    check(&|made| made.host.flows[0].thread = ThreadUse::default(), "it or its link can do no more");
    let mut ahead = made(Workload::UdpStream, 102);
    ahead.spec.rate = OfferedLoad::BitsPerSecond(100_000_000);
    assert_eq!(
        ahead.behind(),
        "the sender was asked for 100.0 Mbit/s and offered 102.0 (+2.0 %); read loss against what was offered"
    );
}

#[test]
fn a_receiver_whose_clock_stood_has_the_senders_time() {
    for (arrived, bps) in [(0, 0.0), (1_000, 8_000.0)] {
        let mut made = made(Workload::UdpStream, 100);
        made.host.flows[0].elapsed_ns = SECOND;
        (made.target.flows[0].elapsed_ns, made.target.flows[0].octets) = (0, arrived);
        let record = made.record();
        assert_eq!((record.duration_s, record.result.unwrap().flow.throughput_bps), (Some(1.0), Some(bps)));
    }
}

#[test]
fn a_sender_has_its_own_count() {
    let mut made = made(Workload::TcpStream, 100);
    made.target.flows[0].octets -= 72_776;
    let flow = made.record().result.unwrap().flow;
    assert_eq!((flow.octets, flow.octets_sent), (Some(124_927_224), Some(125_000_000)));
}

#[test]
fn what_another_tool_s_end_does_not_tell_is_absent() {
    let told = |is_agent: bool| {
        let mut made = made(Workload::UdpStream, 100);
        let flow = &mut made.target.flows[0];
        flow.arrivals = Some(Arrivals { received: 10_000, received_total: 15_000, ..Arrivals::default() });
        if is_agent {
            flow.api.name = "plain".to_owned();
            flow.thread.voluntary_switches = 1;
        }
        let record = made.record();
        let flow = record.result.unwrap().flow;
        assert_eq!(flow.packets_reordered, Some(0));
        (flow.packets_duplicated, flow.packets_late, record.target.threads.is_some())
    };
    assert_eq!(told(true), (Some(0), Some(0), true));
    assert_eq!(told(false), (None, None, false));
}

/// An outcome in which every number that may be is as large as it gets.
fn overgrown(outcome: &Outcome) -> Outcome {
    fn grow(value: &mut serde_json::Value) {
        match value {
            serde_json::Value::Number(number) if number.is_u64() => *value = u64::MAX.into(),
            serde_json::Value::Array(items) => items.iter_mut().for_each(grow),
            serde_json::Value::Object(members) => members.values_mut().for_each(grow),
            _ => {}
        }
    }
    let mut whole = serde_json::to_value(outcome).unwrap();
    let flows = whole["flows"].as_array().map_or(0, Vec::len);
    for flow in 0..flows {
        for (name, _) in whole["flows"][flow].as_object().unwrap().clone() {
            let mut grown = whole.clone();
            grow(&mut grown["flows"][flow][&name]);
            // A flow's number has 16 bits, and there are others of fewer.
            if name != "id" && serde_json::from_value::<Outcome>(grown.clone()).is_ok() {
                whole = grown;
            }
        }
    }
    for name in ["counters", "events"] {
        grow(&mut whole[name]);
    }
    serde_json::from_value(whole).unwrap()
}

#[test]
fn whatever_an_agent_counts_a_record_comes_of_it() {
    use linerate_trial::arrivals::Arrivals;
    use linerate_trial::event::{Event, EventKind};
    use linerate_trial::histogram::Histogram;
    use linerate_trial::outcome::Segments;
    use linerate_trial::timeline::{FlowColumn, FlowTimeline, MachineColumn};

    for workload in Workload::ALL {
        let mut made = made(workload, 100);
        made.spec.streams = 2;
        for outcome in [&mut made.target, &mut made.host] {
            let flow = &mut outcome.flows[0];
            flow.segments = Some(Segments { sent: 5, received: 5, spurious: Some(5), ..Segments::default() });
            flow.tcp = Some(TcpSummary {
                segments_sent: Some(5),
                segments_received: Some(5),
                segments_lost: Some(5),
                reordered_segments: Some(5),
                mss: Some(1448),
                ..TcpSummary::default()
            });
            flow.arrivals = Some(Arrivals::default());
            let mut latency = Histogram::default();
            latency.record(5);
            flow.latency = Some(latency);
            (flow.requests, flow.timeouts, flow.socket_drops) = (Some(5), Some(5), Some(5));
            flow.slices =
                (0..3).map(|s| Slice { start_ns: s * SECOND, end_ns: (s + 1) * SECOND, ..Slice::default() }).collect();
            let second = FlowOutcome { id: 1, ..flow.clone() };
            outcome.flows.push(second);
            for name in ["Tcp RetransSegs", "TcpExt TCPSynRetrans"] {
                outcome.counters.add(Stage::SenderStack, name, 5);
            }
            outcome.counters.add(Stage::Qdisc, "eth0 tbf drops", 5);
            let event = Event { at_s: 0.0, for_s: None, within_s: 0.0, end: None, what: EventKind::More { events: 5 } };
            outcome.events.push(event);
            *outcome = overgrown(outcome);
            // Every other slice is silent, and each slice lies as far off as can be.
            let slices = 200;
            outcome.timeline.ends_ns = (1..=slices).map(|slice| u64::MAX / slices * slice).collect();
            for id in 0..2 {
                let mut flow = FlowTimeline { id, ..FlowTimeline::default() };
                let values = |slice| if slice % 2 == 0 { 0 } else { u64::MAX };
                flow.columns.0 =
                    FlowColumn::ALL.iter().map(|column| (*column, (0..slices).map(values).collect())).collect();
                outcome.timeline.flows.push(flow);
            }
            outcome.timeline.machine.0 =
                MachineColumn::ALL.iter().map(|column| (*column, vec![u64::MAX; slices as usize])).collect();
        }
        let record = made.record();
        assert!(record.result.is_some() && !record.events.is_empty(), "{workload:?}");
        assert!(record.events.len() <= 2 * 52, "{workload:?}: {}", record.events.len());
        // What is concluded of it is anybody's guess, but it is concluded.
        let _ = crate::findings::findings(&record);
        let _ = crate::findings::symptom(&record);
    }
}

/// A TCP stream of which the host sent so many segments, retransmitted so many of them, and left so many unacknowledged; so many came.
fn of_segments([sent, retransmitted, unacknowledged, received]: [u64; 4]) -> Made {
    let mut made = made(Workload::TcpStream, 100);
    made.host.flows[0].segments = Some(Segments { sent, retransmitted, unacknowledged, ..Segments::default() });
    made.target.flows[0].segments = Some(Segments { received, ..Segments::default() });
    made
}

#[test]
fn what_a_filter_takes_is_seen_though_nobody_counted_tcp_to_the_end() {
    let mut made = of_segments([400, 150, 200, 250]);
    made.target.counters.add(Stage::ReceiverStack, "Ip InReceives", 400);
    made.target.counters.add(Stage::ReceiverStack, "Ip InDelivers", 253);
    let record = made.record();
    let dropped: Vec<_> = record.loss_budget.iter().flatten().map(|line| (line.stage, line.packets)).collect();
    assert_eq!((dropped, record.losses), (vec![(Stage::ReceiverStack, 147)], Vec::new()));
}

#[test]
fn what_the_senders_stack_refuses_is_no_retransmission_though_nobody_counted_tcp_to_the_end() {
    // Nothing was retransmitted; of 400 segments 200 had not been acknowledged when the time was over.
    let mut made = of_segments([400, 0, 200, 250]);
    made.host.counters.add(Stage::SenderStack, "Ip OutRequests", 236);
    made.host.counters.add(Stage::SenderStack, "Ip OutTransmits", 116);
    let record = made.record();
    let dropped: Vec<_> = record.loss_budget.iter().flatten().map(|line| (line.stage, line.packets)).collect();
    assert_eq!((dropped, record.losses), (vec![(Stage::SenderStack, 120)], Vec::new()));
}

#[test]
fn buffers_that_the_senders_stack_drops_are_the_segments_in_them() {
    let mut made = of_segments([1441, 3, 0, 1375]);
    for (name, value) in [("Ip OutRequests", 467), ("Ip OutTransmits", 447)] {
        made.host.counters.add(Stage::SenderStack, name, value);
    }
    // Behind them the link has each segment.
    made.host.counters.add(Stage::DriverTxRing, "link tx_packets", 1378);
    made.target.counters.add(Stage::DriverRxRing, "link rx_packets", 1378);
    let record = made.record();
    let dropped: Vec<_> = record.loss_budget.iter().flatten().map(|line| (line.stage, line.packets)).collect();
    assert_eq!((dropped, record.unaccounted), (vec![(Stage::SenderStack, 66)], Some(0)));
}

#[test]
fn buffers_that_the_senders_stack_refuses_are_larger_than_those_that_left() {
    // So many octets came by the receiver's link, of 18 million that left by the sender's.
    let check = |came: u64, refused: u64, filtered: u64, want: (u64, i64)| {
        let mut made = of_segments([23_299, 3, 0, 12_031]);
        let by_ip =
            [("Ip InReceives", 6_100), ("Ip InDelivers", 6_100 - filtered), ("IpExt InNoECTPkts", 12_031 + filtered)];
        by_ip.into_iter().for_each(|(name, value)| made.target.counters.add(Stage::ReceiverStack, name, value));
        let counters = [
            (Stage::SenderStack, "Ip OutRequests", 6_100),
            (Stage::SenderStack, "Ip OutNoRoutes", refused),
            (Stage::DriverTxRing, "link tx_packets", 6_100),
            (Stage::DriverTxRing, "link tx_bytes", 18_000_000),
        ];
        counters.into_iter().for_each(|(stage, name, value)| made.host.counters.add(stage, name, value));
        made.target.counters.add(Stage::DriverRxRing, "link rx_packets", 6_100);
        made.target.counters.add(Stage::DriverRxRing, "link rx_bytes", came);
        let record = made.record();
        let dropped = record.loss_budget.iter().flatten().map(|line| line.packets).sum();
        assert_eq!((dropped, record.unaccounted.unwrap()), want, "{came} {refused} {filtered}");
    };
    check(18_000_000, 260, 0, (11_268, 0));
    // A filter of the receiver has taken some besides.
    check(18_000_000, 260, 140, (11_268, 0));
    // What did not come by the other link was not refused; nor can so few buffers hold as many.
    check(9_000_000, 260, 0, (260, 11_008));
    check(18_000_000, 100, 0, (100, 11_168));
}

#[test]
fn a_few_packets_of_others_are_not_all_segments_that_were_lost() {
    // IP has so many segments of the 1375 that the sockets got, and so many packets that it gave to nobody.
    let check = |by_ip: Option<u64>, undelivered: u64, dropped: u64| {
        let mut made = of_segments([1441, 66, 0, 1375]);
        for (name, value) in [("Ip InReceives", 250 + undelivered), ("Ip InDelivers", 250)] {
            made.target.counters.add(Stage::ReceiverStack, name, value);
        }
        made.target.counters.add(Stage::DriverRxRing, "link rx_packets", 250 + undelivered);
        if let Some(segments) = by_ip {
            made.target.counters.add(Stage::ReceiverStack, "IpExt InNoECTPkts", segments);
        }
        let lines: Vec<u64> = made.record().loss_budget.iter().flatten().map(|line| line.packets).collect();
        assert_eq!(lines, [dropped], "{by_ip:?} {undelivered}");
    };
    check(Some(1441), 12, 66);
    check(Some(1380), 12, 12);
    check(Some(1441), 5, 66);
    check(None, 12, 66);
    check(None, 6, 6);
}

#[test]
fn what_the_other_version_of_ip_drops_is_others() {
    let lost = |names: [&str; 2], change: fn(&mut Made)| {
        let mut made = made(Workload::UdpStream, 100);
        made.target.flows[0].arrivals =
            Some(Arrivals { received: 9_988, received_total: 14_988, ..Arrivals::default() });
        names.into_iter().for_each(|name| made.target.counters.add(Stage::ReceiverStack, name, 12));
        change(&mut made);
        made.record().unaccounted
    };
    assert_eq!(lost(["Ip6 InDiscards", "Ip6 InHdrErrors"], |_| {}), Some(12));
    assert_eq!(lost(["Ip InDiscards", "Ip6 InHdrErrors"], |_| {}), Some(0));
    assert_eq!(lost(["Ip InDiscards", "Ip6 InHdrErrors"], |made| made.spec.ip = Some(Ip::V6)), Some(0));
    // What a tunnel packs them in may have another.
    let is_tunnel = |made: &mut Made| {
        made.environments[0].nic = Some(Nic { driver: Some("ip6tnl".to_owned()), ..Nic::default() });
    };
    assert_eq!(lost(["Ip6 InDiscards", "softnet processed"], is_tunnel), Some(0));
}

#[test]
fn an_interface_that_counted_nothing_of_tcp_is_another_one() {
    let mut made = of_segments([600, 5, 0, 590]);
    made.host.counters.add(Stage::DriverTxRing, "link tx_packets", 0);
    made.target.counters.add(Stage::DriverRxRing, "link rx_packets", 595);
    let doubts = made.record().doubts;
    let told: Vec<String> =
        doubts.iter().map(ToString::to_string).filter(|text| text.contains("by another interface")).collect();
    assert!(told.len() == 1 && told[0].starts_with("host: 590 packets arrived and link tx_packets 0"), "{doubts:?}");
}
