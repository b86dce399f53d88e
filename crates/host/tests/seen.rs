//! What each end sees of a trial beside its figures, held against what was planted: segments lost on the way, short
//! slices, events. Needs root; every test says so and passes where it is not.

use std::net::IpAddr;
use std::thread;
use std::time::{Duration, Instant};

use linerate_host::traffic::{Failed, Tokens, TrafficError, Trial};
use linerate_machine::end::{Direction, End};
use linerate_machine::units::OfferedLoad;
use linerate_trial::outcome::{Outcome, Role};
use linerate_trial::spec::{Extent, Spec, Workload};
use linerate_trial::timeline::{FlowColumn, FlowTimeline, MachineColumn};
use namespaces::{LINK, Pair, within};

mod namespaces;

const TOKENS: Tokens = Tokens { hello: *b"hello to the end", answer: *b"answer to begin." };
const TARGET: &str = "198.18.77.1";
const HOST: &str = "198.18.77.2";
const LINK_UP: &str = "ip link add $LINK netns $A type veth peer name $LINK netns $B; \
    ip -n $A addr add 198.18.77.1/24 dev $LINK; ip -n $B addr add 198.18.77.2/24 dev $LINK; \
    ip -n $A link set $LINK up; ip -n $B link set $LINK up; ip -n $A link set lo up; ip -n $B link set lo up";

type Ended = Result<Outcome, Failed>;

/// Runs a trial, the target in $A and the host in $B, and `meanwhile` from its start.
fn run(pair: &Pair, spec: &Spec, meanwhile: impl FnOnce() + Send) -> (Ended, Ended) {
    let address = |text: &str| text.parse::<IpAddr>().unwrap();
    let prepare = |name: &str, end, local: &str| {
        let local = address(local);
        within(name, || Trial::prepare(spec.clone(), end, local, Some(LINK.to_owned()), TOKENS).unwrap())
    };
    let (mut target, mut host) = (prepare(&pair.a, End::Target, TARGET), prepare(&pair.b, End::Host, HOST));
    target.frames_go_to(host.mac());
    host.frames_go_to(target.mac());
    let (target_ports, host_ports) = (target.ports().unwrap(), host.ports().unwrap());
    let carry_out = |mut end: Trial, peer: &str, ports: &[(u16, u16)]| -> Ended {
        end.connect(address(peer), ports, |_| {}).unwrap();
        end.start();
        end.finish()
    };
    thread::scope(|scope| {
        let host = scope.spawn(|| within(&pair.b, || carry_out(host, TARGET, &target_ports)));
        let target = scope.spawn(|| within(&pair.a, || carry_out(target, HOST, &host_ports)));
        meanwhile();
        (target.join().unwrap(), host.join().unwrap())
    })
}

fn both(pair: &Pair, spec: &Spec) -> [Outcome; 2] {
    let (target, host) = run(pair, spec, || {});
    [target.unwrap(), host.unwrap()]
}

fn spec(workload: Workload, direction: Direction, millis: u64) -> Spec {
    let mut spec = Spec::new(workload);
    spec.direction = direction;
    spec.extent = Extent::Time(Duration::from_millis(millis));
    spec
}

/// Segments that the first end of `role` sent and the other did not receive, over all flows; and how many of them were
/// not acknowledged at the end.
fn lost(outcomes: &[Outcome; 2], role: Role) -> (i64, u64) {
    let [one, other] = outcomes;
    let (mut lost, mut unacknowledged) = (0, 0);
    for (a, b) in one.flows.iter().zip(&other.flows) {
        let (from, to) = if a.role == role { (a, b) } else { (b, a) };
        let (from, to) = (from.segments.expect("Linux 4.6"), to.segments.expect("Linux 4.6"));
        lost += from.sent as i64 - to.received as i64;
        unacknowledged += from.unacknowledged;
    }
    (lost, unacknowledged)
}

#[test]
fn a_clean_link_loses_no_segment() {
    let Some(pair) = Pair::make("clean", LINK_UP) else { return };
    for offloads in ["on", "off"] {
        pair.must(&format!(
            "for N in $A $B; do ip netns exec $N ethtool -K $LINK tso {offloads} gso {offloads} gro {offloads}; done"
        ));
        for streams in [1, 4] {
            for direction in [Direction::Tx, Direction::Rx, Direction::Both] {
                let mut spec = spec(Workload::TcpStream, direction, 300);
                spec.streams = streams;
                let ends = both(&pair, &spec);
                assert_eq!(lost(&ends, Role::Sender), (0, 0), "{offloads} {streams} {direction}: {ends:#?}");
            }
        }
        for outstanding in [1, 16] {
            let mut spec = spec(Workload::TcpRr, Direction::Rx, 300);
            spec.outstanding = outstanding;
            spec.response_size = 20_000;
            let ends = both(&pair, &spec);
            for role in [Role::Requester, Role::Responder] {
                assert_eq!(lost(&ends, role), (0, 0), "{role:?}");
            }
        }
    }
}

#[test]
fn segments_that_a_shaper_dropped_are_those_that_are_lost() {
    let Some(pair) = Pair::make("shaper", LINK_UP) else { return };
    for (rate, limit) in [("50mbit", 15_000), ("200mbit", 40_000), ("8mbit", 8_000)] {
        // One packet a segment, so that the discipline counts what TCP counts.
        pair.must(&format!(
            "ip netns exec $A ethtool -K $LINK tso off gso off; \
             ip -n $A link set $LINK gso_max_segs 1; \
             tc -n $A qdisc replace dev $LINK root handle 1: tbf rate {rate} burst 5000 limit {limit}"
        ));
        let mut dropped_in_all = 0;
        for (streams, drains) in [(1, true), (3, true), (1, false)] {
            let dropped = || -> i64 {
                let text = pair.must("tc -n $A -s qdisc show dev $LINK");
                let (_, rest) = text.split_once("dropped ").unwrap();
                rest.split(',').next().unwrap().parse().unwrap()
            };
            let before = dropped();
            let mut spec = spec(Workload::TcpStream, Direction::Tx, 1000);
            spec.streams = streams;
            // What is buffered at the end drains within a moment, or it does not.
            spec.socket_buffer = drains.then_some(64 << 10);
            let ends = both(&pair, &spec);
            let dropped = dropped() - before;
            let (lost, unacknowledged) = lost(&ends, Role::Sender);
            println!("{rate} {limit} {streams}: dropped {dropped}, lost {lost}, unacknowledged {unacknowledged}");
            dropped_in_all += dropped;
            // A FIN that was dropped carries no data.
            let (fins, open) = (i64::from(streams), unacknowledged as i64);
            assert!((dropped - fins..=dropped + open).contains(&lost), "{dropped} {lost} {unacknowledged}");
            assert!(unacknowledged == 0 || !drains);
        }
        // A single stream may happen to fit.
        assert!(dropped_in_all > 0, "{rate}");
    }
}

/// A timeline's columns as long as its slices, which cover the measured part.
#[track_caller]
fn check_shape(outcome: &Outcome, least: f64) {
    let ends = &outcome.timeline.ends_ns;
    assert!(ends.is_sorted() && *ends.last().unwrap() as f64 / 1e9 > least, "{ends:?}");
    let machine = outcome.timeline.machine.0.values();
    let flows = outcome.timeline.flows.iter().flat_map(|flow| flow.columns.0.values());
    assert!(machine.chain(flows).all(|values| values.len() == ends.len()));
    for (flow, of) in outcome.timeline.flows.iter().zip(&outcome.flows) {
        let moved: u64 = flow.columns.0[&FlowColumn::Octets].iter().sum();
        let sliced: u64 = of.slices.iter().map(|slice| slice.octets).sum();
        assert!(moved.abs_diff(sliced) * 50 <= sliced, "{moved} {sliced}");
    }
}

#[test]
fn every_column_of_every_workload_is_there() {
    let Some(pair) = Pair::make("columns", LINK_UP) else { return };
    for workload in Workload::ALL {
        let mut spec = spec(workload, Direction::Rx, 1000);
        spec.rate = OfferedLoad::BitsPerSecond(50_000_000);
        for outcome in both(&pair, &spec) {
            let flow = &outcome.timeline.flows[0].columns;
            println!("{workload} {}: {:?}", outcome.end, flow.0.keys().map(|one| one.name()).collect::<Vec<_>>());
            check_shape(&outcome, 0.9);
            for column in MachineColumn::ALL {
                assert!(outcome.timeline.machine.0.contains_key(&column), "{workload} {}: {column}", outcome.end);
            }
            let role = outcome.flows[0].role;
            let by_tcp = [FlowColumn::Cwnd, FlowColumn::BusyUs, FlowColumn::Spurious, FlowColumn::DeliveryRate];
            let wanted = [
                (&[FlowColumn::Octets, FlowColumn::Messages, FlowColumn::RunUs, FlowColumn::RunDelayUs][..], true),
                (&by_tcp, workload == Workload::TcpRr || (workload == Workload::TcpStream && role == Role::Sender)),
                (&[FlowColumn::Missing], workload.is_numbered() && role == Role::Receiver),
                (&[FlowColumn::Unread], workload != Workload::TcpCrr && role != Role::Sender),
            ];
            for (columns, are_there) in wanted {
                for column in columns {
                    assert_eq!(flow.0.contains_key(column), are_there, "{workload} {}: {column}", outcome.end);
                }
            }
        }
    }
}

#[test]
fn what_moves_at_once_is_of_the_first_slice() {
    let Some(pair) = Pair::make("at-once", LINK_UP) else { return };
    let mut spec = spec(Workload::TcpStream, Direction::Rx, 1000);
    spec.extent = Extent::Octets(200_000);
    for outcome in both(&pair, &spec) {
        let moved: u64 = outcome.timeline.flows[0].columns.0[&FlowColumn::Octets].iter().sum();
        assert_eq!(moved, outcome.flows[0].octets_total, "{}", outcome.end);
    }
}

#[test]
fn a_timeline_of_ten_seconds_is_short() {
    let Some(pair) = Pair::make("size", LINK_UP) else { return };
    for (streams, most) in [(1, 25_000), (8, 65_000)] {
        let mut spec = spec(Workload::TcpStream, Direction::Rx, 10_000);
        spec.streams = streams;
        for outcome in both(&pair, &spec) {
            check_shape(&outcome, 9.9);
            let text = serde_json::to_string(&outcome.timeline).unwrap();
            let columns = |one: &FlowTimeline| {
                let size = |(name, values): (&FlowColumn, &Vec<u64>)| {
                    (serde_json::to_string(values).unwrap().len(), name.name())
                };
                one.columns.0.iter().map(size).collect::<Vec<_>>()
            };
            println!("{streams} {}: {} octets, {:?}", outcome.end, text.len(), columns(&outcome.timeline.flows[0]));
            assert!(text.len() <= most, "{text}");
        }
    }
}

/// When and how long, by the start of the measured part; for a wait of `at_ms` and a change that lasts `for_ms`.
struct Planted {
    commands: &'static str,
    undo: &'static str,
    /// Events of the target's, in order: kind, whether at the change (or when it is undone), whether it has a length.
    want: &'static [(&'static str, bool, bool)],
}

#[test]
fn what_happens_to_the_link_is_told_with_its_time() {
    let Some(pair) = Pair::make("events", LINK_UP) else { return };
    for planted in [
        Planted {
            commands: "ip -n $B link set $LINK down",
            undo: "ip -n $B link set $LINK up",
            want: &[("carrier-lost", true, true), ("carrier-back", false, false)],
        },
        Planted {
            commands: "ip -n $A link set $LINK down",
            undo: "ip -n $A link set $LINK up",
            want: &[("interface-set", true, true), ("interface-set", false, false), ("route-changed", false, false)],
        },
        Planted {
            commands: "ip -n $A neigh replace 198.18.77.2 lladdr 02:00:00:00:00:99 dev $LINK nud reachable",
            undo: "ip -n $A neigh replace 198.18.77.2 lladdr 02:00:00:00:00:98 dev $LINK nud reachable",
            want: &[("neighbour-changed", true, false), ("neighbour-changed", false, false)],
        },
        Planted {
            commands: "ip -n $A route add 198.18.77.2/32 dev $LINK; ip -n $A route add 203.0.113.0/24 dev $LINK",
            undo: "ip -n $A route del 198.18.77.2/32 dev $LINK; ip -n $A route del 203.0.113.0/24 dev $LINK",
            want: &[("route-changed", true, false), ("route-changed", false, false)],
        },
        Planted {
            commands: "ip -n $A addr add 198.18.77.2/32 dev lo; ip -n $A addr add 203.0.113.1/32 dev lo",
            undo: "ip -n $A addr del 198.18.77.2/32 dev lo; ip -n $A addr del 203.0.113.1/32 dev lo",
            want: &[("address-changed", true, false), ("address-changed", false, false)],
        },
        Planted {
            // Another interface's is none of the trial's.
            commands: "ip -n $A link set $LINK mtu 1400; ip -n $A link set lo mtu 60000",
            undo: "ip -n $A link set $LINK mtu 1500; ip -n $A link set lo mtu 65536",
            want: &[("mtu-changed", true, false), ("mtu-changed", false, false)],
        },
        // A storm of routes that are none of the trial's.
        Planted {
            commands: "seq 1 800 | sed 's/.*/route add 203.0.113.1 dev $LINK metric &/' | \
                sed \"s/\\$LINK/$LINK/\" | ip -n $A -force -batch - && \
                ip -n $A route add 198.18.77.2/32 dev $LINK",
            undo: "ip -n $A route del 198.18.77.2/32 dev $LINK; ip -n $A route flush 203.0.113.1/32",
            want: &[("route-changed", true, false), ("route-changed", false, false)],
        },
        // Last, for the other end knows neither address.
        Planted {
            commands: "ip -n $A link set $LINK address 02:00:00:00:00:97",
            undo: "ip -n $A link set $LINK address 02:00:00:00:00:96",
            want: &[("hardware-changed", true, false), ("hardware-changed", false, false)],
        },
    ] {
        let mut spec = spec(Workload::UdpStream, Direction::Rx, 2000);
        spec.rate = OfferedLoad::BitsPerSecond(10_000_000);
        let mut times = [0.0; 2];
        let (target, host) = run(&pair, &spec, || {
            let began = Instant::now();
            thread::sleep(Duration::from_millis(700));
            times[0] = began.elapsed().as_secs_f64();
            pair.must(planted.commands);
            thread::sleep(Duration::from_millis(500));
            times[1] = began.elapsed().as_secs_f64();
            pair.must(planted.undo);
        });
        println!("{}: {times:?}", planted.commands);
        host.unwrap();
        // What one command does may fall into one slice, or into two: of each kind the order is known.
        let mut events = target.unwrap().events;
        events.sort_by_key(|event| event.what.name());
        let mut want = planted.want.to_vec();
        want.sort_by_key(|(kind, ..)| *kind);
        let kinds: Vec<_> = events.iter().map(|event| event.what.name()).collect();
        assert_eq!(kinds, want.iter().map(|(kind, ..)| *kind).collect::<Vec<_>>(), "{events:?}");
        for (event, (_, first, lasts)) in events.iter().zip(&want) {
            let at = times[usize::from(!first)];
            // A command takes some time, and the start of a trial as well.
            assert!(event.at_s > at - 0.1 && event.at_s < at + 0.2, "{event:?} {times:?}");
            let length = times[1] - times[0];
            assert!(
                event.for_s.is_some() == *lasts && event.for_s.is_none_or(|s| (s - length).abs() < 0.2),
                "{event:?}"
            );
            assert_eq!(event.end, Some(End::Target));
        }
        // The neighbour's right address again.
        pair.must("ip -n $A neigh flush dev $LINK; ip -n $A addr show");
    }
}

#[test]
fn a_trial_that_fails_tells_what_it_saw() {
    let Some(pair) = Pair::make("fails", LINK_UP) else { return };
    for workload in [Workload::TcpStream, Workload::UdpStream, Workload::TcpRr] {
        let mut spec = spec(workload, Direction::Rx, 8000);
        spec.interval = Duration::from_millis(500);
        if workload == Workload::UdpStream {
            spec.rate = OfferedLoad::BitsPerSecond(10_000_000);
        }
        let (target, host) = run(&pair, &spec, || {
            thread::sleep(Duration::from_millis(1500));
            pair.must("ip -n $B link set $LINK down");
            thread::sleep(Duration::from_millis(6200));
            pair.must("ip -n $B link set $LINK up; ip -n $B neigh flush dev $LINK");
        });
        let Failed { error, seen } = target.expect_err("nothing arrives for six seconds");
        assert!(matches!(error, TrafficError::Stalled { no_carrier: Some((End::Target, _)), .. }), "{error}");
        let mut both = vec![*seen];
        both.extend(host.map_err(|failed| println!("{workload}, the host: {}", failed.error)));
        for outcome in &both {
            check_shape(outcome, 5.0);
            let flow = &outcome.flows[0];
            assert!(flow.octets > 0 && flow.octets_total >= flow.octets && flow.elapsed_ns > 5_000_000_000, "{flow:?}");
            assert!(flow.slices.len() >= 10 && !outcome.counters.0.is_empty() && outcome.cpu.is_some());
            assert!(outcome.events.iter().any(|event| (event.at_s - 1.5).abs() < 0.5), "{:?}", outcome.events);
        }
    }
}

#[test]
fn a_trial_that_is_stopped_tells_what_it_saw() {
    let Some(pair) = Pair::make("stopped", LINK_UP) else { return };
    let spec = spec(Workload::TcpStream, Direction::Rx, 8000);
    let address = |text: &str| text.parse::<IpAddr>().unwrap();
    let prepare = |name: &str, end, local: &str| {
        within(name, || Trial::prepare(spec.clone(), end, address(local), Some(LINK.to_owned()), TOKENS).unwrap())
    };
    let (mut target, mut host) = (prepare(&pair.a, End::Target, TARGET), prepare(&pair.b, End::Host, HOST));
    let (target_ports, host_ports) = (target.ports().unwrap(), host.ports().unwrap());
    thread::scope(|scope| {
        let (a, b) = (&pair.a, &pair.b);
        let connect = scope.spawn(|| within(b, || host.connect(address(TARGET), &target_ports, |_| {}).unwrap()));
        within(a, || target.connect(address(HOST), &host_ports, |_| {}).unwrap());
        connect.join().unwrap();
    });
    target.start();
    host.start();
    thread::sleep(Duration::from_millis(1200));
    let stopped = Instant::now();
    target.stop();
    host.stop();
    for end in [target, host] {
        let Failed { error, seen } = end.finish().expect_err("it was stopped");
        assert!(
            matches!(
                error,
                TrafficError::Stopped | TrafficError::Moving { .. } | TrafficError::Reset(_) | TrafficError::Broke(_)
            ),
            "{error}"
        );
        check_shape(&seen, 0.8);
        assert!(seen.flows[0].octets > 0, "{:?}", seen.flows[0]);
    }
    assert!(stopped.elapsed() < Duration::from_secs(2), "{:?}", stopped.elapsed());
}
