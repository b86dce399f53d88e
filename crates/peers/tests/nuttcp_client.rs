//! Our nuttcp client against the real nuttcp server and against our own, over loopback, and against nonsense.
//! Knows no records. Says so and passes where nuttcp is missing.

use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use linerate_peers::nuttcp::client;
use linerate_peers::test::Place;
use linerate_trial::outcome::{Outcome, Role};
use linerate_trial::spec::{Direction, Extent, Spec, Workload};

fn run(spec: &Spec, server: SocketAddr) -> Result<[Outcome; 2], String> {
    let local = if server.is_ipv4() { "127.0.0.1" } else { "::1" }.parse().unwrap();
    let place = Place { local, interface: Some("lo".to_owned()), server };
    client::run(spec, &place, |_| {}, &|| false)
}

/// The real server, which ends with the value. It has one test at a time.
struct Real(Child, SocketAddr);

impl Real {
    fn start(address: &str) -> Option<Real> {
        let port = free_port();
        let mut command = Command::new("nuttcp");
        command.args(["-S", "--nofork", "-P", &port.to_string()]);
        if address.contains(':') {
            command.arg("-6");
        }
        let child = match command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn() {
            Ok(child) => child,
            Err(error) => {
                println!("SKIPPED: nuttcp cannot be run here ({error}); apt-get install nuttcp");
                return None;
            }
        };
        // To try the port would be a test that fails (proc_net_tcp.rst has the format; 0A is LISTEN).
        let is_there = |file: &&str| {
            let wanted = format!(":{port:04X} ");
            std::fs::read_to_string(format!("/proc/net/{file}")).is_ok_and(|text| text.contains(&wanted))
        };
        let began = Instant::now();
        while !["tcp", "tcp6"].iter().any(is_there) && began.elapsed() < Duration::from_secs(10) {
            thread::sleep(Duration::from_millis(20));
        }
        Some(Real(child, SocketAddr::new(address.parse().unwrap(), port)))
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn specs(workload: Workload) -> Vec<Spec> {
    let mut specs = Vec::new();
    for direction in [Direction::Rx, Direction::Tx] {
        for streams in [1, 3] {
            let mut spec = Spec::new(workload);
            (spec.direction, spec.streams) = (direction, streams);
            spec.extent = Extent::Time(Duration::from_millis(600));
            spec.interval = Duration::from_millis(200);
            spec.rate = "20M".parse().unwrap();
            if workload.is_udp() && streams > 1 {
                (spec.streams, spec.message_size, spec.rate) = (1, Some(64), "2kpps".parse().unwrap());
            }
            specs.push(spec.clone());
            spec.extent = Extent::Octets(u64::from(spec.message_octets()) * 200);
            specs.push(spec);
        }
    }
    if workload.is_udp() {
        let mut small = specs[0].clone();
        (small.message_size, small.rate) = (Some(16), "2kpps".parse().unwrap());
        specs.push(small.clone());
        small.direction = Direction::Tx;
        specs.push(small);
    } else {
        for direction in [Direction::Rx, Direction::Tx] {
            let mut spec = Spec::new(workload);
            (spec.direction, spec.extent) = (direction, Extent::Time(Duration::from_millis(600)));
            (spec.mss, spec.nodelay, spec.dscp, spec.socket_buffer) = (Some(1000), Some(true), 46, Some(100_000));
            spec.warmup = Duration::from_millis(200);
            specs.push(spec);
        }
    }
    specs
}

#[track_caller]
fn check(spec: &Spec, server: SocketAddr) -> [Outcome; 2] {
    let what = format!(
        "{} {} x{} of {} {:?} {server}",
        spec.workload,
        spec.direction,
        spec.streams,
        spec.message_octets(),
        spec.extent
    );
    println!("{what}");
    let [target, host] = run(spec, server).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(host.flows.len(), usize::from(spec.streams), "{what}");
    assert_eq!(target.flows.len(), host.flows.len(), "{what}");
    for (theirs, ours) in target.flows.iter().zip(&host.flows) {
        assert_eq!(theirs.octets_total, ours.octets_total, "{what}");
        assert!(ours.octets > 0 && theirs.octets > 0, "{what}");
        if let Extent::Octets(octets) = spec.extent {
            assert_eq!(ours.octets_total, octets, "{what}");
        }
        if let Some(arrivals) = ours.arrivals.as_ref().or(theirs.arrivals.as_ref()) {
            let sent = arrivals.sent_by_end_mark.unwrap();
            assert_eq!((arrivals.received_total, theirs.messages_total), (sent, ours.messages_total), "{what}");
        }
        let [near, far] = [ours, theirs].map(|flow| flow.elapsed_ns as f64 / 1e9);
        if let Extent::Time(time) = spec.extent {
            let time = time.as_secs_f64();
            assert!((near - time).abs() < 0.1 && (far - time).abs() < 0.1, "{what}: {near} s here, {far} s there");
        }
    }
    [target, host]
}

#[test]
fn every_way_against_the_real_server() {
    for address in ["127.0.0.1", "::1"] {
        let Some(real) = Real::start(address) else { return };
        for workload in [Workload::TcpStream, Workload::UdpStream] {
            for spec in specs(workload) {
                let [target, host] = check(&spec, real.1);
                let (theirs, ours) = (&target.flows[0], &host.flows[0]);
                assert!(theirs.socket_buffer.is_some());
                if spec.direction == Direction::Tx && spec.workload == Workload::TcpStream {
                    assert_eq!(theirs.tcp.is_some(), spec.streams == 1, "its retransmissions, of one stream");
                }
                if spec.direction == Direction::Rx && spec.streams == 1 && spec.warmup.is_zero() {
                    let by_time = matches!(spec.extent, Extent::Time(_));
                    assert!(!by_time || !theirs.slices.is_empty(), "its intervals");
                }
                assert_eq!(ours.role == Role::Sender, spec.direction == Direction::Rx);
            }
        }
    }
}
