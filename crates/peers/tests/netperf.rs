//! Our netperf client against our own netserver over loopback: every test, both families, and the figures of both ends.
//! Knows no records. netperf itself is not in Debian's main archive.

use std::net::{IpAddr, SocketAddr};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use linerate_lab::{HOST_IPV4, Lab, Privilege, Shape, TARGET_IPV4, privilege};
use linerate_machine::end::Direction;
use linerate_peers::Route;
use linerate_peers::limits::Limits;
use linerate_peers::served_test::ServedTest;
use linerate_peers::server::Server;
use linerate_trial::outcome::{FlowOutcome, Outcome};
use linerate_trial::spec::{Extent, Spec, Workload};
use linerate_trial::tool::Tool;

mod serving;

/// Has a server of ours while `work` goes on with its address. Returns what that says, and what we saw.
fn with_server<T>(address: &str, limits: Limits, work: impl FnOnce(SocketAddr) -> T) -> (T, Vec<ServedTest>) {
    let address: IpAddr = address.parse().unwrap();
    let server = Server::bind(Tool::Netperf, Some(address), 0, limits).unwrap();
    serving::serve(&server, address, work, serving::at_once)
}

fn run(spec: &Spec, server: SocketAddr) -> Result<[Outcome; 2], String> {
    let local = if server.is_ipv4() { "127.0.0.1" } else { "::1" }.parse().unwrap();
    let route = Route { local, interface: Some("lo".to_owned()), server, unanswered: None };
    linerate_peers::run(Tool::Netperf, &[], spec, &route, |_| {}, &|| false).map_err(|error| error.to_string())
}

fn spec(workload: Workload, direction: Direction, streams: u16) -> Spec {
    let mut spec = Spec::new(workload);
    (spec.direction, spec.streams) = (direction, streams);
    let ms = if direction == Direction::Rx { 300 } else { 1000 };
    (spec.extent, spec.interval) = (Extent::Time(Duration::from_millis(ms)), Duration::from_millis(100));
    if workload.is_stream() && direction == Direction::Rx {
        spec.rate = "20M".parse().unwrap();
    }
    spec
}

fn specs() -> Vec<Spec> {
    use Direction::{Both, Rx, Tx};
    let mut specs = Vec::new();
    for workload in Workload::over_ip() {
        specs.extend([spec(workload, Rx, 1), spec(workload, Rx, 3)]);
    }
    specs.extend([
        spec(Workload::TcpStream, Tx, 1),
        spec(Workload::TcpStream, Tx, 2),
        spec(Workload::TcpStream, Both, 1),
    ]);
    for direction in [Rx, Tx] {
        specs.push(Spec { extent: Extent::Octets(3_000_000), ..spec(Workload::TcpStream, direction, 1) });
    }
    specs.push(Spec { extent: Extent::Octets(147_000), ..spec(Workload::UdpStream, Rx, 1) });
    specs.push(Spec { outstanding: 32, ..spec(Workload::TcpRr, Rx, 1) });
    specs.push(Spec { request_size: 70_000, response_size: 3, ..spec(Workload::TcpRr, Rx, 1) });
    specs.push(Spec {
        request_size: 1,
        response_size: 1,
        rate: "500pps".parse().unwrap(),
        ..spec(Workload::UdpRr, Rx, 1)
    });
    specs.push(Spec { message_size: Some(8000), ..spec(Workload::UdpStream, Rx, 1) });
    specs
}

fn rate(flow: &FlowOutcome) -> f64 {
    flow.octets as f64 * 8e9 / flow.elapsed_ns as f64
}

#[track_caller]
fn check(spec: &Spec, [target, host]: &[Outcome; 2]) {
    let what = format!("{} {} {} {:?}", spec.workload, spec.direction, spec.streams, spec.extent);
    assert_eq!((host.flows.len(), target.flows.len()), (host.flows.len().max(1), host.flows.len()), "{what}");
    for (theirs, ours) in target.flows.iter().zip(&host.flows) {
        assert!(theirs.octets > 0 && ours.octets > 0, "{what}: {theirs:?} {ours:?}");
        match spec.workload {
            Workload::TcpStream => assert_eq!(theirs.octets_total.max(ours.octets_total), ours.octets_total, "{what}"),
            Workload::UdpStream => {
                let arrivals = theirs.arrivals.as_ref().unwrap();
                assert_eq!((arrivals.received, arrivals.unnumbered), (ours.messages_total, true), "{what}");
            }
            _ => {
                assert_eq!(ours.latency.as_ref().unwrap().count(), ours.messages, "{what}");
                assert!(theirs.messages_total >= ours.messages, "{what}: {} {}", theirs.messages_total, ours.messages);
            }
        }
    }
}

#[test]
fn every_test_over_ipv4() {
    every_test("127.0.0.1");
}

#[test]
fn every_test_over_ipv6() {
    every_test("::1");
}

fn every_test(address: &str) {
    let (count, served) = with_server(address, Limits::default(), |at| {
        let specs = specs();
        for spec in &specs {
            let began = Instant::now();
            let said = run(spec, at);
            println!(
                "{address} {} {} {} {:?}: {:?}",
                spec.workload,
                spec.direction,
                spec.streams,
                spec.extent,
                began.elapsed()
            );
            check(spec, &said.unwrap_or_else(|error| panic!("{spec:?}: {error}")));
        }
        specs
            .iter()
            .map(|spec| usize::from(spec.streams) * if spec.direction == Direction::Both { 2 } else { 1 })
            .sum::<usize>()
    });
    assert_eq!(served.len(), count);
    for one in &served {
        let [ours, _] = one.ended.as_ref().unwrap_or_else(|error| panic!("{:?}: {error}", one.spec)).as_ref();
        assert!(ours.flows.iter().all(|flow| flow.octets_total > 0), "{:?}", one.spec);
    }
}

#[test]
fn both_ends_tell_the_same_figures() {
    use Direction::{Rx, Tx};
    for (workload, direction) in [(Workload::TcpStream, Rx), (Workload::TcpStream, Tx), (Workload::UdpStream, Rx)] {
        let mut spec = spec(workload, direction, 1);
        spec.extent = Extent::Time(Duration::from_secs(2));
        // Each end has a clock and begins by its own: on a busy machine they are apart. Once of four is enough; the counts
        // are exact each time.
        let agrees = (0..4).any(|_| {
            let (said, served) = with_server("127.0.0.1", Limits::default(), |at| run(&spec, at));
            let [target, host] = said.unwrap();
            check(&spec, &[target.clone(), host.clone()]);
            let [server, _] = served[0].ended.as_ref().unwrap().as_ref();
            assert_eq!(server.flows[0].octets_total, target.flows[0].octets_total);
            let [told, seen, own] = [&target.flows[0], &server.flows[0], &host.flows[0]].map(rate);
            println!("{workload} {direction}: {told} told, {seen} seen there, {own} here");
            let agree = |one: f64, other: f64| (one / other - 1.0).abs() < 0.02;
            agree(told, seen) && agree(seen, own)
        });
        assert!(agrees, "{workload} {direction}: four times more than 2 % apart");
    }
}

/// Datagrams that came to this namespace's sockets, and those that found none or no room (proc_net_snmp, RFC 4113).
fn datagrams_in() -> std::io::Result<[u64; 3]> {
    let text = std::fs::read_to_string("/proc/thread-self/net/snmp")?;
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Udp: ")).map(|line| line.split(' '));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let of = |name: &str| names.clone().zip(values.clone()).find(|(one, _)| *one == name).unwrap().1.parse().unwrap();
    Ok(["InDatagrams", "NoPorts", "InErrors"].map(of))
}

#[test]
fn datagrams_are_those_that_the_kernel_counts() {
    if privilege() != Privilege::Root {
        println!("SKIPPED: no namespaces here without root");
        return;
    }
    // Half of what is sent finds no room in the queue before the target.
    let shape = Shape { rx_rate_bps: Some(10_000_000), rx_queue_octets: 20 * 1514, ..Shape::unshaped() };
    for (shape, loses) in [(Shape::unshaped(), false), (shape, true)] {
        let lab = Lab::up(&shape).unwrap();
        let (target, host) = (IpAddr::V4(TARGET_IPV4), IpAddr::V4(HOST_IPV4));
        let mut spec = spec(Workload::UdpStream, Direction::Rx, 1);
        (spec.extent, spec.message_size) = (Extent::Time(Duration::from_secs(1)), Some(1000));
        let over = AtomicBool::new(false);
        let served = Mutex::new(Vec::new());
        let (before, after, said) = thread::scope(|scope| {
            let server = lab.target.run(|| Server::bind(Tool::Netperf, Some(target), 0, Limits::default())).unwrap();
            let port = server.port().unwrap();
            let (over, served, lab) = (&over, &served, &lab);
            scope.spawn(move || {
                lab.target.run(|| server.run(|_| over.load(Ordering::Relaxed), |one| served.lock().unwrap().push(one)))
            });
            let before = lab.target.run(datagrams_in).unwrap();
            let route = Route { local: host, interface: None, server: SocketAddr::new(target, port), unanswered: None };
            let said = lab.host.run(|| {
                Ok(linerate_peers::run(Tool::Netperf, &[], &spec, &route, |_| {}, &|| false)
                    .map_err(|error| error.to_string()))
            });
            over.store(true, Ordering::Relaxed);
            (before, lab.target.run(datagrams_in).unwrap(), said.unwrap())
        });
        let [theirs, ours] = said.unwrap();
        let [came, no_port, errors] = [0, 1, 2].map(|at| after[at] - before[at]);
        let served = served.into_inner().unwrap();
        let flow = &served[0].ended.as_ref().unwrap()[0].flows[0];
        let received = theirs.flows[0].arrivals.as_ref().unwrap().received;
        println!(
            "{} sent, {received} received, {came} came with {} ends; {no_port} no port",
            ours.flows[0].messages_total, flow.end_marks
        );
        assert_eq!(received, flow.messages_total);
        // Ends that nobody read any more are datagrams too; no data is among them.
        let unread = came - received - flow.end_marks;
        assert!(unread <= 30 && errors == 0, "{came} came, {received} received, {} ends", flow.end_marks);
        assert!(loses || came - received < 3, "one end at a time: {came} came, {received} received");
        assert_eq!(ours.flows[0].messages_total > received, loses);
    }
}
