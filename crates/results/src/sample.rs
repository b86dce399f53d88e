//! Example records for tests: every kind of traffic, a failed trial, figures that are absent.
//! Measured by nobody; the figures only agree with each other.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;

use linerate_machine::change::Changed;
use linerate_machine::cpu::{CpuShares, CpuUse};
use linerate_machine::end::{Direction, End, Party, PerEnd};
use linerate_machine::environment::{Amount, Cpu, Eee, Environment, IdleState, IrqTime, LinkModes, Nic, Pause};
use linerate_machine::probe::{Detection, IcmpError, IcmpReport, Protocol, Refusal, RouteKind, TcpReached};
use linerate_machine::profile::{Function, Process, Profile, ProfileClock, ProfileScope, Stack};
use linerate_path::budget::{Counted, DropCause, LossLine, Source};
use linerate_path::stage::{Counters, Stage};
use linerate_registers::changes::{ChangeKind, FieldChange, RegisterChange, RegisterChanges};
use linerate_stats::noise::Noise;
use linerate_trial::api::{ApiUse, Timestamps};
use linerate_trial::doubt::{Doubt, Doubted};
use linerate_trial::event::{Event, EventKind};
use linerate_trial::histogram::{Histogram, PERCENTILES};
use linerate_trial::outcome::{TcpSample, TcpSummary, ThreadUse};
use linerate_trial::pace::Pacing;
use linerate_trial::spec::{Spec, Workload};

use crate::examination::{
    Examination, Exhausted, Failed, MiddleFault, Passed, PerEndMtu, Place, Probe, Step, StepResult, Unknown,
};
use crate::id;
use crate::middle::{Middle, Port};
use crate::profile::{Category, CategoryTime, MachineProfile};
use crate::record::*;
use crate::store::{Campaign, Store, StoreError};
use crate::time_budget::{Limit, TimeLine};

/// When the examples were "measured": 2026-11-21 03:00:00 UTC.
const START_MS: u64 = 1_795_230_000_000;
const DATAGRAM: f64 = 1470.0 * 8.0;

/// A trial that was asked for and has no figures yet. Trials of one campaign, one second after the other.
pub fn blank(index: u32, workload: Workload, direction: Direction, set: &[(&str, &str)]) -> Record {
    let mut spec = Spec::new(workload);
    (spec.direction, spec.extent) = (direction, linerate_trial::spec::Extent::Time(std::time::Duration::from_secs(2)));
    for (name, text) in set {
        spec.set(name, text).expect("the example's options are right");
    }
    let mut factors: BTreeMap<String, String> = set.iter().map(|&(n, t)| (n.to_owned(), t.to_owned())).collect();
    factors.insert("direction".to_owned(), direction.name().to_owned());
    let trial =
        TrialPlace { index, repeat: 0, factors, configuration: None, order_seed: None, null_side: None, search: None };
    let (target, host) = (machine("netns:b", "10.0.0.2", 0.62, 2), machine("netns:a", "10.0.0.1", 0.25, 4));
    Record {
        id: id::id(START_MS + 1000 * u64::from(index), [7; 10]),
        started_at: format!("2026-11-21T03:{:02}:{:02}Z", index / 60, index % 60),
        campaign: id::id(START_MS, [1; 10]),
        plan: "example".to_owned(),
        duration_s: Some(2.0),
        ..Record::blank(&spec, trial, target, host)
    }
}

/// A UDP stream that was offered `mbit` and got `through`; what was lost between was lost in the driver's receive
/// ring, but for a few.
pub fn udp(index: u32, direction: Direction, mbit: u32, through: f64) -> Record {
    let mut record = blank(index, Workload::UdpStream, direction, &[("rate", &format!("{mbit}M"))]);
    let (sent, received) =
        ((f64::from(mbit) * 2e6 / DATAGRAM) as u64, (through.min(mbit.into()) * 2e6 / DATAGRAM) as u64);
    let lost = sent - received;
    let flow = FlowFigures {
        throughput_bps: Some(received as f64 * DATAGRAM / 2.0),
        achieved_load_bps: Some(sent as f64 * DATAGRAM / 2.0),
        packets_sent: Some(sent),
        packets_received: Some(received),
        packets_lost: Some(lost),
        packets_duplicated: Some(0),
        packets_reordered: Some(u64::from(mbit / 300)),
        packets_late: Some(0),
        loss_ratio: Some(lost as f64 / sent as f64),
        jitter_s: Some(f64::from(mbit) * 1.7e-8),
        pacing: Some(Pacing::Application),
        departure_gaps: Some(histogram(&[(9_800, sent / 2), (19_700, sent - sent / 2 - 1)])),
        timestamps: Some(Timestamps::Kernel),
        arrival_gaps: Some(histogram(&[(9_000, received / 2), (21_000, received - received / 2 - 1)])),
        loss_bursts: Some(if lost > 40 { BTreeMap::from([(1, lost - 40), (20, 2)]) } else { BTreeMap::new() }),
        sender_api: Some(ApiUse { name: "sendmmsg".to_owned(), batch: 32, ..ApiUse::default() }),
        receiver_api: Some(ApiUse { name: "recvmmsg".to_owned(), batch: 32, ..ApiUse::default() }),
        send_calls: Some(sent / 8),
        receive_calls: Some(received / 5),
        octets: Some(received * 1470),
        packets_in_window: Some(received),
        octets_sent: Some(sent * 1470),
        ..FlowFigures::default()
    };
    let unaccounted = lost.min(34);
    record.loss_budget = Some(match lost - unaccounted {
        0 => Vec::new(),
        packets => vec![LossLine {
            stage: Stage::DriverRxRing,
            direction,
            end: if direction == Direction::Tx { Party::Host } else { Party::Target },
            interface: None,
            packets,
            cause: Some(DropCause::RedirectQueue),
            counters: vec![Counted {
                source: Source::Counter,
                name: if direction == Direction::Tx { "ifb1 tbf drops" } else { "ifb0 tbf drops" }.to_owned(),
                value: packets,
            }],
            counted_again: Vec::new(),
            adjustments: Vec::new(),
            reasons: Vec::new(),
        }],
    });
    record.unaccounted = Some(unaccounted as i64);
    record.target.counters.add(Stage::DriverRxRing, "ifb0 tbf drops", lost - unaccounted);
    record.target.counters.add(Stage::ReceiverSocket, "Udp RcvbufErrors", 0);
    record.host.counters.add(Stage::Qdisc, "eth0 requeues", 3);
    record.intervals = (0..2)
        .map(|second| Interval {
            start_s: f64::from(second),
            end_s: f64::from(second + 1),
            throughput_bps: flow.throughput_bps,
            achieved_load_bps: flow.achieved_load_bps,
            packets_sent: Some(sent / 2),
            packets_received: Some(received / 2),
            packets_missing: Some(lost / 2),
            target_cpu: record.target.cpu.as_ref().map(|cpu| cpu.machine),
            host_cpu: record.host.cpu.as_ref().map(|cpu| cpu.machine),
            middle_cpu: None,
            ..Interval::default()
        })
        .collect();
    record.result = Some(Figures { flow, service_demand: Some(demand(received as f64)), ..Figures::default() });
    record
}

/// A TCP stream of `mbit`, with its probe's latency when asked.
pub fn tcp(index: u32, direction: Direction, mbit: f64, probe: bool) -> Record {
    let set: &[(&str, &str)] = if probe { &[("probe", "true")] } else { &[] };
    let mut record = blank(index, Workload::TcpStream, direction, set);
    let flow = FlowFigures {
        throughput_bps: Some(mbit * 1e6),
        achieved_load_bps: Some(mbit * 1e6),
        tcp: Some(TcpSummary {
            retransmissions: 120,
            min_rtt_s: Some(38e-6),
            rtt_s: Some(412e-6),
            cwnd: Some(310),
            mss: Some(1448),
            limited_by_receive_window: Some(0.81),
            limited_by_send_buffer: Some(0.0),
            limited_by_application: Some(0.02),
            reordered_segments: Some(3),
            segments_sent: Some(161_204),
            segments_received: Some(2),
            congestion_control: Some("cubic".to_owned()),
            ..TcpSummary::default()
        }),
        sender_api: Some(ApiUse {
            name: "zerocopy".to_owned(),
            batch: 1,
            completions: Some(1787),
            completions_copied: Some(3),
            ..ApiUse::default()
        }),
        receiver_api: Some(ApiUse { name: "trunc".to_owned(), batch: 1, ..ApiUse::default() }),
        send_calls: Some(1787),
        receive_calls: Some(2210),
        octets: Some((mbit * 2e6 / 8.0) as u64),
        octets_sent: Some((mbit * 2e6 / 8.0) as u64),
        ..FlowFigures::default()
    };
    record.intervals = vec![Interval {
        start_s: 0.0,
        end_s: 2.0,
        throughput_bps: flow.throughput_bps,
        tcp: Some(TcpSample { rtt_us: 412, rttvar_us: 30, cwnd: 310, retransmissions: 120, ..TcpSample::default() }),
        ..Interval::default()
    }];
    record.result = Some(Figures {
        flow,
        latency: probe.then(|| latency("probe", 200)),
        service_demand: Some(demand(161_084.0)),
        ..Figures::default()
    });
    record.doubts = vec![shared_machine()];
    record
}

/// Requests and responses over UDP.
pub fn rr(index: u32, request_size: &str) -> Record {
    let mut record = blank(index, Workload::UdpRr, Direction::Rx, &[("request_size", request_size)]);
    record.result = Some(Figures {
        transactions_per_s: Some(21_874.5),
        latency: Some(latency("udp-rr", 43_749)),
        service_demand: Some(ServiceDemand {
            target_us_per_packet: Some(56.7),
            host_us_per_packet: Some(45.7),
            ..ServiceDemand::default()
        }),
        ..Figures::default()
    });
    record.doubts = vec![shared_machine(), Doubted::IrqTimeByTicks.into()];
    record
}

/// Both directions at the same time.
pub fn both(index: u32) -> Record {
    let (tx, rx) = (udp(index, Direction::Tx, 300, 280.0), udp(index, Direction::Rx, 300, 190.0));
    let mut record = blank(index, Workload::UdpStream, Direction::Both, &[("rate", "300M")]);
    let flow = |record: &Record| record.result.as_ref().expect("the example has figures").flow.clone();
    let (tx_flow, rx_flow) = (flow(&tx), flow(&rx));
    let sum = |a: Option<u64>, b: Option<u64>| Some(a? + b?);
    let (sent, lost) =
        (sum(tx_flow.packets_sent, rx_flow.packets_sent), sum(tx_flow.packets_lost, rx_flow.packets_lost));
    record.result = Some(Figures {
        flow: FlowFigures {
            throughput_bps: tx_flow.throughput_bps.zip(rx_flow.throughput_bps).map(|(a, b)| a + b),
            achieved_load_bps: tx_flow.achieved_load_bps.zip(rx_flow.achieved_load_bps).map(|(a, b)| a + b),
            packets_sent: sent,
            packets_received: sum(tx_flow.packets_received, rx_flow.packets_received),
            packets_lost: lost,
            loss_ratio: lost.zip(sent).map(|(lost, sent)| lost as f64 / sent as f64),
            octets: sum(tx_flow.octets, rx_flow.octets),
            packets_in_window: sum(tx_flow.packets_in_window, rx_flow.packets_in_window),
            octets_sent: sum(tx_flow.octets_sent, rx_flow.octets_sent),
            ..FlowFigures::default()
        },
        directions: Some(Directions { tx: tx_flow.clone(), rx: rx_flow.clone() }),
        streams: vec![
            StreamFigures { id: 0, direction: Direction::Tx, flow: tx_flow },
            StreamFigures { id: 1, direction: Direction::Rx, flow: rx_flow },
        ],
        ..Figures::default()
    });
    record.loss_budget = tx.loss_budget.zip(rx.loss_budget).map(|(a, b)| [a, b].concat());
    record.unaccounted = tx.unaccounted.zip(rx.unaccounted).map(|(a, b)| a + b);
    record
}

/// 64 MiB in writes of 8 KiB, as `ttcp` sends them.
pub fn ttcp(index: u32, repeat: u32) -> Record {
    let mut record = tcp(index, Direction::Tx, 890.0 + f64::from(repeat), false);
    record.plan = "ttcp".to_owned();
    record.trial.repeat = repeat;
    record.asked.remove("duration");
    record.asked.insert("bytes".to_owned(), "64M".to_owned());
    record.asked.insert("message_size".to_owned(), "8K".to_owned());
    let result = record.result.as_mut().expect("the example has figures");
    // The receiver's time runs from its first read, which is in no figure then.
    (result.flow.octets, result.flow.octets_sent) = (Some((64 << 20) - 72_776), Some(64 << 20));
    (result.flow.send_calls, result.flow.receive_calls) = (Some(8192), Some(9001));
    record.duration_s = result.flow.throughput_bps.map(|bps| f64::from(64 << 20) * 8.0 / bps);
    record
}

/// A trial that came to nothing.
pub fn failed(index: u32) -> Record {
    let mut record = blank(index, Workload::UdpStream, Direction::Rx, &[("rate", "1G")]);
    (record.duration_s, record.target.cpu, record.host.cpu) = (None, None, None);
    record.error = Some("the target stopped answering; look whether it still has power, and run it again".to_owned());
    record
}

/// A record with every field that there is, as docs/record-format.md shows it.
pub fn full() -> Record {
    let mut record = both(12);
    let other = tcp(12, Direction::Rx, 400.0, true);
    let (result, tcp) = (record.result.as_mut().expect("figures"), other.result.expect("figures"));
    result.flow.tcp = tcp.flow.tcp.map(|tcp| TcpSummary { segments_lost: Some(96), ..tcp });
    result.transactions_per_s = Some(99.5);
    (result.latency, result.service_demand) = (tcp.latency, tcp.service_demand);
    record.intervals = udp(12, Direction::Rx, 300, 190.0).intervals;
    record.intervals.truncate(1);
    record.intervals[0].transactions_per_s = Some(99.5);
    record.intervals[0].tcp = Some(TcpSample {
        delivery_rate: Some(50_000_000),
        send_window: Some(3_145_728),
        busy_us: Some(990_000),
        limited_by_receive_window_us: Some(12_000),
        limited_by_send_buffer_us: Some(0),
        ..other.intervals[0].tcp.clone().expect("the example has it")
    });
    record.target.counters.add(Stage::DriverRxRing, "ifb0 tbf drops", 18_707);
    record.target.settings = vec![Changed {
        name: "mtu".to_owned(),
        asked: "9001".to_owned(),
        set: Some("9001".to_owned()),
        read_back: Some("9000".to_owned()),
        original: Some("1500".to_owned()),
    }];
    record.target.profile = Some(profile());
    record.target.registers = Some(registers());
    record.middle = Some(middle());
    record.doubts = other.doubts;
    record.losses = vec![losses(Direction::Tx, 51_020, 47_619, 34), losses(Direction::Rx, 51_020, 32_312, 34)];
    record.time_budget = [Direction::Tx, Direction::Rx].into_iter().flat_map(time_budget).collect();
    record.events = events();
    record
}

fn losses(direction: Direction, sent: u64, arrived: u64, unaccounted: i64) -> Losses {
    Losses { direction, of: crate::record::Counted::Datagrams, sent, arrived, unaccounted }
}

/// Both seconds of a direction: the rate was reached but for a while in which the sender's thread had no CPU.
fn time_budget(direction: Direction) -> Vec<TimeLine> {
    let sender = if direction == Direction::Tx { End::Target } else { End::Host };
    let line = |limit, end, seconds: f64, share: f64| TimeLine { direction, limit, end, seconds, share };
    vec![line(Limit::AskedRate, None, 1.94, 0.97), line(Limit::SenderCpuWait, Some(sender), 0.06, 0.03)]
}

/// One event of every kind, a tenth of a second after the other.
fn events() -> Vec<Event> {
    let eth0 = || "eth0".to_owned();
    let host = || "10.0.0.1".to_owned();
    let mac = |last: u8| format!("00:19:b8:00:12:{last:02x}");
    let target = Some(End::Target);
    let of_kinds = [
        (target, Some(0.05), EventKind::Throttled),
        (target, Some(0.05), EventKind::AgentStopped),
        (target, None, EventKind::CarrierLost { interface: eth0() }),
        (target, None, EventKind::CarrierBack { interface: eth0() }),
        (target, None, EventKind::InterfaceSet { interface: eth0(), up: true }),
        (target, None, EventKind::NeighbourChanged { address: host(), from: mac(0x35), to: mac(0x36) }),
        (target, None, EventKind::NeighbourLost { address: host() }),
        (target, None, EventKind::RouteChanged { destination: "10.0.0.0/24".to_owned(), removed: true }),
        (target, None, EventKind::AddressChanged { address: "10.0.0.2".to_owned(), removed: false }),
        (target, None, EventKind::MtuChanged { interface: eth0(), from: 1500, to: 576 }),
        (target, None, EventKind::HardwareChanged { interface: eth0(), from: mac(0x34), to: mac(0x37) }),
        (target, None, EventKind::ClockStepped { by_s: -0.25 }),
        (target, None, EventKind::ConnectionReset),
        (target, Some(0.1), EventKind::OthersTraffic { octets_per_s: 2_500_000.0 }),
        (None, Some(0.3), EventKind::Stall { direction: Some(Direction::Tx), lost_share: Some(0.8) }),
        (None, None, EventKind::FlowDied { flow: 1, direction: Some(Direction::Rx), lost_share: Some(0.1) }),
        (
            None,
            None,
            EventKind::LossBegan {
                direction: Some(Direction::Rx),
                loss_ratio: 0.49,
                throughput_bps: 20_100_000.0,
                steady: false,
            },
        ),
        (
            None,
            None,
            EventKind::RateChanged { direction: Some(Direction::Rx), from_bps: 190_500_000.0, to_bps: 19_200_000.0 },
        ),
        (None, Some(0.1), EventKind::LossAtOnce { direction: Some(Direction::Tx), segments: 57, share: 0.98 }),
        (target, None, EventKind::More { events: 7 }),
    ];
    let event = |(at, (end, for_s, what)): (usize, (Option<End>, Option<f64>, EventKind))| Event {
        at_s: at as f64 / 10.0,
        for_s,
        within_s: 0.05,
        end,
        what,
    };
    of_kinds.into_iter().enumerate().map(event).collect()
}

/// A trial in which nothing came through, and what was tried then: no machine has all of it, but every field is there.
pub fn examined(index: u32) -> Record {
    let mut record = failed(index);
    record.error = Some("nothing came through: UDP from the host does not arrive at the target".to_owned());
    let steps = examined_steps();
    let is_cause = |step: &Step| matches!(step.came, StepResult::Failed(Failed::Lost { .. }));
    record.examination = Some(Examination { seconds: 2.5, cause: steps.iter().position(is_cause), steps });
    record
}

fn examined_steps() -> Vec<Step> {
    let eth0 = || "eth0".to_owned();
    let mac = || "00:19:b8:00:12:35".to_owned();
    let (target, host) = (End::Target, End::Host);
    let [target_ip, host_ip, router] = [2, 1, 254].map(|last| IpAddr::from([10, 0, 0, last]));
    let drops = || udp(0, Direction::Rx, 300, 190.0).loss_budget.unwrap_or_default();
    let lost =
        |place| Failed::Lost { from: host, is_answer: false, place, everything: false, drops: drops(), dscp: None };
    let udp = Probe::Transport { transport: Protocol::Udp, asker: host };
    let of_engine = Probe::Requests { workload: Workload::UdpRr, asker: host, there: 92, back: 92 };
    let said = IcmpReport { by: Some(router), what: IcmpError::Prohibited };
    let link = Passed::Link {
        interface: eth0(),
        driver: Some("fec".to_owned()),
        speed_mbps: Some(1000),
        duplex: Some("full".to_owned()),
        mtu: Some(1500),
    };
    let between =
        Place::Between { left_by: vec![eth0()], expected: Some(eth0()), arrives_at: Some("wlan0".to_owned()) };
    let passed = [
        (Probe::Link { end: target }, link),
        (Probe::Addresses, Passed::Addresses { target: target_ip, host: host_ip }),
        (Probe::Middle, Passed::Middle { target: "p1".to_owned(), host: "p0".to_owned() }),
        (Probe::Address { end: target }, Passed::Address { address: target_ip }),
        (Probe::Route { from: target }, Passed::Route { interface: Some(eth0()), gateway: Some(router), local: false }),
        (Probe::Neighbour { from: target }, Passed::Neighbour { address: router, mac: mac() }),
        (Probe::Arrivals { end: target }, Passed::Arrivals { filter: Some(2) }),
        (Probe::Room { end: target }, Passed::Room),
        (Probe::Echo { asker: target }, Passed::Answered { answered: 3, lost: None, median_s: Some(0.000_2) }),
        (
            Probe::Transport { transport: Protocol::Tcp, asker: target },
            Passed::Connected { handshake_s: Some(0.000_3), retransmitted: Some(1) },
        ),
        (Probe::Size { from: target, octets: 1500 }, Passed::Size { octets: 1400, told_by: Some(router) }),
        (Probe::Flows { asker: target, flows: 16 }, Passed::Flows { flows: 16 }),
        (Probe::Stream { workload: Workload::TcpStream, from: target }, Passed::Carried { octets: 128_000 }),
        (Probe::Connections { asker: target, connections: 8 }, Passed::Connections { open: 8 }),
        (Probe::Closing { asker: target }, Passed::Closed),
        (Probe::Hops { from: target }, Passed::Hops { routers: 1 }),
        (Probe::Ipv6, Passed::Ipv6 { target: target_ip, host: host_ip }),
    ];
    let failed = [
        (Probe::Link { end: host }, Failed::SetDown { interface: eth0() }),
        (Probe::Link { end: host }, Failed::NoCarrier { interface: eth0() }),
        (Probe::Addresses, Failed::NoAddresses { sentence: "the host has no IPv4 address".to_owned() }),
        (Probe::Address { end: host }, Failed::AddressGone { address: host_ip, interface: eth0() }),
        (Probe::Address { end: host }, Failed::Duplicate { address: host_ip, others: vec![mac()] }),
        (Probe::Address { end: host }, Failed::Detection { address: host_ip, detection: Detection::Failed }),
        (
            Probe::Middle,
            Failed::Middle { fault: MiddleFault::Isolated { interfaces: ["p1", "p0"].map(str::to_owned) } },
        ),
        (Probe::Addresses, Failed::SameAddress { address: host_ip }),
        (
            Probe::Route { from: host },
            Failed::Route { to: target_ip, kind: RouteKind::Blackhole, protocol: Some(Protocol::Udp) },
        ),
        (
            Probe::Route { from: host },
            Failed::Astray { to: target_ip, interface: "wlan0".to_owned(), expected: eth0() },
        ),
        (
            Probe::Neighbour { from: host },
            Failed::NoNeighbour { address: router, interface: eth0(), is_router: true, silent: None },
        ),
        (
            Probe::Neighbour { from: host },
            Failed::WrongNeighbour {
                address: target_ip,
                interface: eth0(),
                mac: mac(),
                permanent: true,
                right: vec!["00:19:b8:00:12:34".to_owned()],
            },
        ),
        (
            Probe::Arrivals { end: host },
            Failed::Arrivals { interface: eth0(), filter: Some(1), back_by: Some("wlan0".to_owned()) },
        ),
        (
            Probe::Room { end: host },
            Failed::Full { room: Exhausted::TrackedConnections, used: 65_536, of: 65_536, needs: None },
        ),
        (udp, lost(Place::Refused { refusal: Refusal::Other("Value too large (os error 75)".to_owned()) })),
        (udp, lost(Place::NoNeighbour { address: target_ip })),
        (udp, lost(Place::Unused { address: host_ip })),
        (udp, lost(Place::NotOut { interface: Some(eth0()) })),
        (udp, lost(Place::Icmp { said, end: Some(target) })),
        (udp, lost(Place::Reset { end: Some(target) })),
        (udp, lost(between)),
        (udp, lost(Place::Back { interface: eth0() })),
        (udp, lost(Place::Program { interface: eth0() })),
        (udp, lost(Place::ForAnother { interface: eth0() })),
        (udp, lost(Place::WrongChecksum { interface: eth0() })),
        (udp, lost(Place::NotUp { interface: eth0(), expected: Some("eth1".to_owned()) })),
        (
            udp,
            lost(Place::Stalled { reached: TcpReached::Open, reset: false, acknowledged: None, full_datagrams: false }),
        ),
        (udp, lost(Place::Late { within_s: 3.0 })),
        (udp, lost(Place::Unseen)),
        (
            Probe::Size { from: host, octets: 1500 },
            Failed::Size {
                largest: 1400,
                mtus: PerEndMtu { target: Some(1500), host: Some(1500) },
                place: Some(Place::Unseen),
                drops: drops(),
                routed: false,
            },
        ),
        (Probe::Flows { asker: host, flows: 16 }, Failed::Flows { pass: 9, lost: None }),
        (Probe::Ecn { asker: host }, Failed::Ecn { lost: None }),
        (
            Probe::Transport { transport: Protocol::Tcp, asker: host },
            Failed::Retransmitted { segments: 14, retransmitted: 7 },
        ),
        (
            Probe::Connections { asker: host, connections: 8 },
            Failed::Connections { open: 3, refusal: None, doubled: false },
        ),
        (Probe::Closing { asker: host }, Failed::NotClosed),
        (Probe::Hops { from: host }, Failed::Hops { sent: 1, routers: 1, asked: true }),
        (udp, Failed::NoSocket { sentence: "the target has no free port".to_owned() }),
        (of_engine, Failed::Requests { sentence: Some("timed out".to_owned()), largest: Some(1400), drops: drops() }),
    ];
    let unknown = [
        Unknown::OldAgent { end: host },
        Unknown::NoAgent { end: host },
        Unknown::NotPermitted { end: host },
        Unknown::NoArp { end: host, interface: "tun0".to_owned() },
        Unknown::EchoIgnored { end: host },
        Unknown::EchoFiltered,
        Unknown::NotAnswered,
        Unknown::NotTried,
        Unknown::NotTold,
        Unknown::NotSpoken { sentence: "iperf3 has no udp-rr".to_owned() },
    ];
    let passed = passed.into_iter().map(|(probe, passed)| Step { probe, came: StepResult::Passed(passed) });
    let failed = failed.into_iter().map(|(probe, failed)| Step { probe, came: StepResult::Failed(failed) });
    let unknown = unknown.into_iter().map(|unknown| Step { probe: udp, came: StepResult::Unknown(unknown) });
    passed.chain(failed).chain(unknown).collect()
}

/// A second of two CPUs: 500 samples, of which 310 were busy.
pub(crate) fn profile() -> MachineProfile {
    let function = |name: &str, object: &str| Function { name: Some(name.to_owned()), object: object.to_owned() };
    let stack = |frames: &[u32], samples| Stack { process: 0, frames: frames.to_vec(), samples };
    let functions = [
        ("__copy_to_user_std", "kernel"),
        ("udp_recvmsg", "kernel"),
        ("fec_enet_rx_napi", "[fec]"),
        ("cpu_v7_do_idle", "kernel"),
    ];
    let note = "the kernel takes at most 250 samples a second, and not 999; raise kernel.perf_event_max_sample_rate";
    let taken = Profile {
        clock: ProfileClock::CpuClock,
        scope: ProfileScope::Machine,
        kernel: true,
        hz: 250,
        cpus: 2,
        span_s: 1.0,
        samples: 500,
        lost: 0,
        cut: 0,
        reader_cpu_s: 0.004,
        sample_cost_us: Some(3.1),
        cpu: None,
        notes: vec![note.to_owned()],
        processes: vec![Process { name: "linerate-agent".to_owned(), agent: true }],
        functions: functions.iter().map(|(name, object)| function(name, object)).collect(),
        stacks: vec![stack(&[0, 1], 155), stack(&[3], 190), stack(&[2], 155)],
    };
    let time = |category, samples, share: f64| {
        let us_per_packet = (category != Category::Idle).then(|| (share * 2e6 / 31_700.0 * 1e3).round() / 1e3);
        CategoryTime { category, samples, share: Some(share), us_per_packet, us_per_kib: us_per_packet }
    };
    let shares = [(Category::Copy, 155, 0.31), (Category::DriverInterrupt, 155, 0.31), (Category::Idle, 190, 0.38)];
    let categories = shares.into_iter().map(|(category, samples, share)| time(category, samples, share)).collect();
    MachineProfile { taken, categories }
}

fn machine(endpoint: &str, address: &str, busy: f64, cpus: usize) -> Machine {
    let shares = CpuShares { busy, user: 0.02, system: busy - 0.14, irq: 0.02, softirq: 0.1, steal: 0.0 };
    Machine {
        endpoint: endpoint.to_owned(),
        address: Some(address.to_owned()),
        environment: environment(),
        settings: Vec::new(),
        cpu: Some(CpuUse {
            machine: shares,
            cpus: cpus as u32,
            per_cpu: (0..cpus).map(|_| shares).collect(),
            method: "/proc/stat".to_owned(),
            span_s: 2.0,
            includes_warmup: false,
        }),
        counters: Counters::default(),
        pause_frames: None,
        drop_reasons: None,
        threads: Some(ThreadUse {
            user_s: 0.012,
            system_s: 0.41,
            major_faults: 0,
            minor_faults: 19,
            voluntary_switches: 2201,
            involuntary_switches: 7,
            run_delay_s: Some(0.004),
        }),
        profile: None,
        registers: None,
    }
}

/// A bridge between the two, of two ports: `p1` towards the target, `p0` towards the host.
pub fn middle() -> Middle {
    let mut machine = machine("ssh:root@bridge", "", 0.71, 1);
    let nic = machine.environment.nic.take();
    (machine.address, machine.threads) = (None, None);
    machine.counters.add(Stage::SoftirqBacklog, "softnet processed", 102_040);
    let port = |name: &str| {
        let nic = nic.clone().map(|nic| Nic { name: name.to_owned(), ..nic });
        let mut port = Port { interface: name.to_owned(), nic, ..Port::default() };
        port.counters.add(Stage::DriverRxRing, "link rx_packets", 51_020);
        port.counters.add(Stage::DriverTxRing, "link tx_packets", 51_020);
        port.counters.add(Stage::Qdisc, format!("{name} fq_codel drops"), 0);
        port
    };
    Middle { machine, ports: PerEnd { target: port("p1"), host: port("p0") } }
}

/// What a trial changed in an i.MX6's MAC: a setting, and a counter.
fn registers() -> RegisterChanges {
    let change = |name: &str, address: &str, about: &str, before: &str, after: &str| RegisterChange {
        name: name.to_owned(),
        address: address.to_owned(),
        about: about.to_owned(),
        before: before.to_owned(),
        after: after.to_owned(),
        what: None,
        fields: Vec::new(),
    };
    let fce = FieldChange {
        name: "FCE".to_owned(),
        bits: "5".to_owned(),
        before: 1,
        after: 0,
        what: ChangeKind::Changed,
        meaning: Some("pause frames are ignored".to_owned()),
    };
    let rcr = change("ENET_RCR", "0x02188084", "Receive control", "0x05ee0264", "0x05ee0244");
    let paused = change("ENET_IEEE_T_FDXFC", "0x02188270", "Pause frames sent", "0x00000028", "0x00000034");
    let counted = ChangeKind::Counted { count: 12, at_least: false, cleared: false };
    RegisterChanges {
        compared: 115,
        changed: vec![RegisterChange { fields: vec![fce], ..rcr }, RegisterChange { what: Some(counted), ..paused }],
        cleared: vec!["BMSR".to_owned(), "STAT1000".to_owned()],
        stood: [("ENET_RCR.MAX_FL", "1518"), ("ENET_TCR.FDEN", "1 (full duplex)")]
            .map(|(name, is)| (name.to_owned(), is.to_owned()))
            .into(),
        notes: vec!["PHY register 11 of eth0 cannot be read: Input/output error (os error 5); leave it out".to_owned()],
    }
}

/// A board, every field told; which no real machine does: hardware has no `kind`, and boards seldom a hypervisor.
fn environment() -> Environment {
    let texts = |pairs: &[(&str, &str)]| pairs.iter().map(|&(k, v)| (k.to_owned(), v.to_owned())).collect();
    let names = |list: &[&str]| list.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
    let amounts = |pairs: &[(&str, u32, u32)]| {
        pairs.iter().map(|&(name, current, max)| (name.to_owned(), Amount { current, max: Some(max) })).collect()
    };
    Environment {
        kernel: Some("6.12.48".to_owned()),
        kernel_version: Some("#1 SMP Wed Nov 18 09:12:44 UTC 2026".to_owned()),
        command_line: Some("console=ttymxc1,115200 root=/dev/mmcblk0p1 rootwait".to_owned()),
        machine: Some("Freescale i.MX6 Quad SABRE Lite Board".to_owned()),
        architecture: Some("armv7l".to_owned()),
        memory_octets: Some(1 << 30),
        cpu: Cpu {
            model: Some("ARMv7 Processor rev 10 (v7l)".to_owned()),
            count: Some(4),
            governor: Some("performance".to_owned()),
            max_frequency_khz: Some(996_000),
            irq_time: Some(IrqTime::Ticks),
            idle_states: vec![IdleState { name: "WAIT".to_owned(), exit_latency_us: Some(50), disabled: Some(false) }],
        },
        virtualization: Some("kvm".to_owned()),
        nic: Some(Nic {
            name: "eth0".to_owned(),
            kind: Some("veth".to_owned()),
            driver: Some("fec".to_owned()),
            driver_version: Some("6.12.48".to_owned()),
            firmware: Some("1.63".to_owned()),
            bus: Some("2188000.ethernet".to_owned()),
            mac: Some("00:19:b8:00:12:34".to_owned()),
            speed_mbps: Some(1000),
            duplex: Some("full".to_owned()),
            autoneg: Some(true),
            link_detected: Some(true),
            carrier_changes: Some(2),
            link_modes: Some(LinkModes {
                supported: names(&["100baseT/Full", "1000baseT/Full", "Pause"]),
                advertised: names(&["100baseT/Full", "1000baseT/Full", "Pause"]),
                partner: names(&["100baseT/Full", "1000baseT/Full"]),
            }),
            eee: Some(Eee { enabled: Some(true), active: Some(false), tx_lpi_timer_us: Some(20) }),
            pause: Some(Pause { autoneg: Some(true), rx: Some(true), tx: Some(true) }),
            mtu: Some(1500),
            offloads: [("rx-checksum", true), ("tx-tcp-segmentation", false)].map(|(k, v)| (k.to_owned(), v)).into(),
            coalescing: [("rx-usecs", 1000), ("rx-frames", 200)].map(|(k, v)| (k.to_owned(), v)).into(),
            rings: amounts(&[("rx", 512, 512), ("tx", 512, 512)]),
            channels: amounts(&[("combined", 1, 1)]),
            irq_affinity: texts(&[("63 2188000.ethernet", "0-3")]),
            queue_length: Some(1000),
            gso_max_size: Some(65_536),
            gso_ipv4_max_size: Some(65_536),
            gso_max_segments: Some(65_535),
            qdisc: Some("fq_codel".to_owned()),
            bridge_port: None,
            qdiscs: vec!["fq_codel limit 10240 flows 1024".to_owned()],
        }),
        sysctls: texts(&[("net.core.rmem_max", "212992"), ("net.ipv4.tcp_congestion_control", "cubic")]),
        modules: texts(&[("fec", "1F0E3D9C0B5A7E2D4C6B8A9")]),
        compatible: Vec::new(),
        boot_id: Some("5b1d9c1e-6d0c-4a52-9d2e-0d5a5a0a7f11".to_owned()),
        agent_version: Some("0.1.0".to_owned()),
    }
}

fn demand(packets: f64) -> ServiceDemand {
    let kib = packets * 1470.0 / 1024.0;
    ServiceDemand {
        target_us_per_kib: Some(2.48e6 / kib),
        host_us_per_kib: Some(2.0e6 / kib),
        target_us_per_packet: Some(2.48e6 / packets),
        host_us_per_packet: Some(2.0e6 / packets),
    }
}

fn latency(of: &str, count: u64) -> Latency {
    let histogram = histogram(&[(41_000, count - count / 10), (70_000, count / 10 - 2), (2_400_000, 2)]);
    let seconds = |ns: u64| ns as f64 / 1e9;
    Latency {
        of: of.to_owned(),
        count,
        timeouts: Some(0),
        min_s: histogram.min_ns().map(seconds),
        mean_s: histogram.mean_ns().map(|ns| ns / 1e9),
        max_s: histogram.max_ns().map(seconds),
        percentiles: PERCENTILES
            .iter()
            .filter_map(|&p| Some((format!("p{p}"), seconds(histogram.percentile_ns(p)?))))
            .collect(),
        histogram,
    }
}

fn histogram(counts: &[(u64, u64)]) -> Histogram {
    let mut histogram = Histogram::default();
    for &(ns, count) in counts {
        histogram.record_n(ns, count);
    }
    histogram
}

fn shared_machine() -> Doubt {
    Doubted::SharedMachine.into()
}

/// The campaign that a record says it is of, with so many trials.
pub fn campaign_of(record: &Record, planned: u32) -> Campaign {
    Campaign {
        id: record.campaign.clone(),
        plan: record.plan.clone(),
        plan_text: String::new(),
        target: record.target.endpoint.clone(),
        host: record.host.endpoint.clone(),
        started_at: record.started_at.clone(),
        planned,
        finished_at: None,
    }
}

/// Fills the store at `path` with `campaigns` of these loads and repeats, the machine started anew before each, and slower
/// from the middle on; tells how many records that are. Quickly: a loss of power would leave it broken.
/// [`Store::lengthen`] makes a long history of a short one.
pub fn fill(path: &Path, campaigns: u64, loads: u32, repeats: u32) -> Result<u64, StoreError> {
    let mut store = Store::open(path)?;
    store.write_carelessly()?;
    let mut noise = Noise::new(1);
    for campaign in 0..campaigns {
        let start = 1_700_000_000_000 + campaign * 3_600_000;
        let name = id::id(start, [1; 10]);
        store.campaign_begin(&Campaign {
            id: name.clone(),
            plan: "example".to_owned(),
            plan_text: String::new(),
            target: "ssh:root@board".to_owned(),
            host: "local".to_owned(),
            started_at: "2023-11-14T22:13:20Z".to_owned(),
            planned: loads * repeats,
            finished_at: None,
        })?;
        for repeat in 0..repeats {
            for load in 0..loads {
                let mbit = 100 + load;
                let slower = if campaign > campaigns / 2 { 0.95 } else { 1.0 };
                let through = f64::from(mbit) * slower * (0.9 + 0.01 * noise.normal());
                let mut record = udp(repeat * loads + load, Direction::Rx, mbit, through);
                record.id = id::id(start + u64::from(record.trial.index), [7; 10]);
                (record.campaign, record.trial.repeat) = (name.clone(), repeat);
                for machine in [&mut record.target, &mut record.host] {
                    machine.environment.boot_id = Some(format!("boot {campaign}"));
                }
                store.insert(&record)?;
            }
        }
    }
    Ok(campaigns * u64::from(loads) * u64::from(repeats))
}
