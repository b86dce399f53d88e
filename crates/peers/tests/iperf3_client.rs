//! Our iperf3 client against the real iperf3 server and against our own, over loopback, and against nonsense.
//! Knows no records. Says so and passes where iperf3 is missing.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use linerate_machine::end::Direction;
use linerate_peers::Route;
use linerate_peers::limits::Limits;
use linerate_peers::server::Server;
use linerate_trial::doubt::DoubtKind;
use linerate_trial::outcome::Outcome;
use linerate_trial::spec::{Extent, Spec, Workload};
use linerate_trial::tool::Tool;
use serde_json::Value;

fn run(spec: &Spec, server: SocketAddr) -> Result<[Outcome; 2], String> {
    let local = if server.is_ipv4() { "127.0.0.1" } else { "::1" }.parse().unwrap();
    let route = Route { local, interface: Some("lo".to_owned()), server, unanswered: None };
    linerate_peers::run(Tool::Iperf3, &[], spec, &route, |_| {}, &|| false).map_err(|error| error.to_string())
}

/// The real server, which ends with the value.
struct Real(Child);

impl Real {
    fn start(address: &str, port: u16) -> Option<Real> {
        let mut command = Command::new("iperf3");
        command.args(["-s", "--forceflush", "-B", address, "-p", &port.to_string()]).stdout(Stdio::piped());
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => {
                println!("SKIPPED: iperf3 cannot be run here ({error}); apt-get install iperf3");
                return None;
            }
        };
        // It prints a line when it listens.
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains("listening")));

        Some(Real(child))
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

fn specs() -> Vec<Spec> {
    let mut specs = Vec::new();
    for workload in [Workload::TcpStream, Workload::UdpStream] {
        for direction in [Direction::Rx, Direction::Tx, Direction::Both] {
            for streams in [1, 3] {
                let mut spec = Spec::new(workload);
                (spec.direction, spec.streams) = (direction, streams);
                spec.extent = Extent::Time(Duration::from_millis(300));
                spec.interval = Duration::from_millis(100);
                spec.rate = "20M".parse().unwrap();
                specs.push(spec);
            }
        }
    }
    let mut octets = Spec::new(Workload::TcpStream);
    octets.extent = Extent::Octets(5_000_000);
    specs.push(octets);
    specs
}

#[track_caller]
fn check(spec: &Spec, server: SocketAddr) {
    println!("{} {} {} {server}", spec.workload, spec.direction, spec.streams);
    let [target, host] = run(spec, server).unwrap();
    let what = format!("{} {} {} {server}", spec.workload, spec.direction, spec.streams);
    assert_eq!((target.flows.len(), host.flows.len()), (target.flows.len().max(1), target.flows.len()), "{what}");
    // A server that gets no CPU for a while may end a test before it has read anything of one of its streams.
    assert!(target.flows.iter().any(|flow| flow.octets > 0), "{what}");
    for (theirs, ours) in target.flows.iter().zip(&host.flows) {
        assert!(ours.octets > 0, "{what}");
        let Some(arrivals) = &ours.arrivals else { continue };
        // What is on its way at the end is sent and not received, by protocol; loopback loses in the socket only.
        let dropped = ours.socket_drops.unwrap_or(0);
        let lost = theirs.messages_total - arrivals.received_total;
        assert!(lost <= dropped + 20, "{what}: {lost} lost, {dropped} dropped, {arrivals:?}");
    }
}

#[test]
fn every_way_against_the_real_server() {
    for address in ["127.0.0.1", "::1"] {
        let port = free_port();
        let Some(_real) = Real::start(address, port) else { return };
        for spec in specs().iter().filter(|spec| address == "127.0.0.1" || spec.streams == 1) {
            check(spec, SocketAddr::new(address.parse().unwrap(), port));
        }
    }
}

/// A server for one test, which prints JSON at its end; `None` where there is none.
fn printing(address: &str, port: u16) -> Option<Child> {
    let mut command = Command::new("iperf3");
    command.args(["-s", "-1", "-J", "-B", address, "-p", &port.to_string()]).stdout(Stdio::piped());
    let child = command.spawn().ok()?;
    // It says nothing when it listens; to try the port would be a test (proc_net_tcp.rst has the format).
    let listens = || {
        ["tcp", "tcp6"].iter().any(|file| {
            let table = std::fs::read_to_string(format!("/proc/net/{file}")).unwrap_or_default();
            table.lines().any(|line| line.contains(&format!(":{port:04X} ")) && line.contains(" 0A "))
        })
    };
    let began = Instant::now();
    while !listens() && began.elapsed() < Duration::from_secs(10) {
        thread::sleep(Duration::from_millis(20));
    }
    Some(child)
}

/// That what the real server prints is what we say of it: throughput within 2 %, datagrams exact.
fn check_figures(address: &str, spec: &Spec) {
    let what = format!("{address} {} {} {:?}", spec.workload, spec.direction, spec.warmup);
    // A machine that is busy may give one of the two the time and not the other; once of four is enough.
    let agrees = (0..4).find_map(|_| {
        let port = free_port();
        let Some(server) = printing(address, port) else { return Some(()) };
        let said = run(spec, SocketAddr::new(address.parse().unwrap(), port));
        let printed = server.wait_with_output().unwrap().stdout;
        let [target, host] = said.inspect_err(|error| println!("{what}: {error}")).ok()?;
        let printed: Value = serde_json::from_slice(&printed).unwrap();
        let (ours, sum) = if spec.direction == Direction::Rx {
            (&target.flows[0], &printed["end"]["sum_received"])
        } else {
            (&target.flows[0], &printed["end"]["sum_sent"])
        };
        let sum = if sum["bytes"].as_f64().is_some_and(|bytes| bytes > 0.0) { sum } else { &printed["end"]["sum"] };
        if spec.workload == Workload::UdpStream && spec.direction == Direction::Rx && spec.warmup.is_zero() {
            let arrived = ours.arrivals.as_ref().unwrap().received_total;
            let numbers = ["packets", "lost_packets"].map(|name| printed["end"]["sum"][name].as_u64().unwrap());
            assert_eq!(numbers[0] - numbers[1], arrived, "{what}: {printed}");
        }
        if spec.workload == Workload::UdpStream {
            // What is left out counts at neither end, though 3.12 does not tell how many datagrams it was.
            let (sent, received) = if spec.direction == Direction::Rx { (&host, &target) } else { (&target, &host) };
            let (sent, received) = (sent.flows[0].messages, received.flows[0].messages);
            let apart = sent.abs_diff(received);
            println!("{what}: {sent} sent, {received} received");
            if apart > 0 {
                return None;
            }
        }
        let rate = ours.octets as f64 * 8e9 / ours.elapsed_ns as f64;
        let seen = sum["bits_per_second"].as_f64().unwrap();
        println!("{what}: {rate} here, {seen} printed");
        ((rate / seen - 1.0).abs() < 0.02).then_some(())
    });
    assert!(agrees.is_some(), "{what}: four times more than 2 % apart");
}

#[test]
fn the_real_servers_figures_are_ours() {
    if Command::new("iperf3").arg("--version").output().is_err() {
        println!("SKIPPED: iperf3 cannot be run here; apt-get install iperf3");
        return;
    }
    thread::scope(|scope| {
        for address in ["127.0.0.1", "::1"] {
            for workload in [Workload::TcpStream, Workload::UdpStream] {
                scope.spawn(move || {
                    for direction in [Direction::Rx, Direction::Tx] {
                        for warmup_s in [0, 1] {
                            let mut spec = Spec::new(workload);
                            (spec.direction, spec.warmup) = (direction, Duration::from_secs(warmup_s));
                            (spec.rate, spec.extent) = ("20M".parse().unwrap(), Extent::Time(Duration::from_secs(1)));
                            check_figures(address, &spec);
                        }
                    }
                });
            }
        }
    });
}

#[test]
fn every_way_against_our_own_server() {
    let server = Server::bind(Tool::Iperf3, Some("127.0.0.1".parse().unwrap()), 0, Limits::default()).unwrap();
    let at = SocketAddr::new("127.0.0.1".parse().unwrap(), server.port().unwrap());
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let serving = scope.spawn(|| {
            server.run(
                |_| over.load(Ordering::Relaxed),
                |one| drop(one.ended.inspect_err(|error| println!("served: {error}"))),
            )
        });
        let checked = scope.spawn(|| specs().iter().for_each(|spec| check(spec, at)));
        let checked = checked.join();
        over.store(true, Ordering::Relaxed);
        serving.join().unwrap().unwrap();
        checked.unwrap();
    });
}

/// A server that takes a test over TCP, one stream of the client's, and tells what cannot be.
fn serve_boasting(listener: &TcpListener) -> std::io::Result<()> {
    let (mut control, _) = listener.accept()?;
    control.set_read_timeout(Some(Duration::from_secs(10)))?;
    let text = |control: &mut TcpStream| {
        let mut len = [0; 4];
        control.read_exact(&mut len)?;
        std::io::copy(&mut control.take(u32::from_be_bytes(len).into()), &mut std::io::sink())
    };
    control.read_exact(&mut [0; 37])?;
    control.write_all(b"\x09")?;
    text(&mut control)?;
    control.write_all(b"\x0a")?;
    let (mut stream, _) = listener.accept()?;
    control.write_all(b"\x01\x02")?;
    let reading = thread::spawn(move || std::io::copy(&mut stream, &mut std::io::sink()));
    control.read_exact(&mut [0])?;
    control.write_all(b"\x0d")?;
    text(&mut control)?;
    let told = br#"{"streams":[{"id":1,"bytes":9007199254740992,"end_time":1e-9}]}"#;
    control.write_all(&[&(told.len() as u32).to_be_bytes()[..], told, b"\x0e"].concat())?;
    control.read_exact(&mut [0])?;
    drop(control);
    reading.join().map_or(Ok(()), |read| read.map(drop))
}

#[test]
fn no_server_is_believed_more_than_can_be() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let serving = thread::spawn(move || serve_boasting(&listener));
    let mut spec = Spec::new(Workload::TcpStream);
    spec.extent = Extent::Time(Duration::from_millis(500));
    let [theirs, ours] = run(&spec, at).unwrap();
    serving.join().unwrap().unwrap();
    let (near, far) = (&ours.flows[0], &theirs.flows[0]);
    // This end's time, up to the last octet's acknowledgement.
    let acknowledged = near.acknowledged.unwrap();
    assert_eq!((far.octets, far.elapsed_ns), (near.octets_total, acknowledged.elapsed_ns.max(near.elapsed_ns)));
    let doubts: Vec<_> = theirs.doubts.iter().map(|doubt| doubt.kind()).collect();
    assert_eq!(doubts, [DoubtKind::ImplausibleReport]);
}

/// A server that says these octets and then nothing.
fn nonsense(says: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    listener.set_nonblocking(true).unwrap();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            // A client that is told to wait comes again.
            let mut streams: Vec<TcpStream> = Vec::new();
            while !over.load(Ordering::Relaxed) {
                if let Ok((mut stream, _)) = listener.accept() {
                    let _ = stream.read(&mut [0; 37]);
                    let _ = stream.write_all(says);
                    let _ = stream.shutdown(Shutdown::Write);
                    streams.push(stream);
                }
                thread::sleep(Duration::from_millis(5));
            }
        });
        let began = Instant::now();
        let sentence = run(&Spec::new(Workload::TcpStream), at).unwrap_err();
        over.store(true, Ordering::Relaxed);
        assert!(began.elapsed() < Duration::from_secs(15));
        sentence
    })
}

#[test]
fn a_server_that_is_none_is_a_sentence() {
    for (says, contains) in [
        (&b"\xff"[..], "is busy with another test; try again"),
        (b"\x09\xfe\0\0\0\x25\0\0\0\0", "error 37: the trial is longer than its limit"),
        (b"HTTP/1.1 400 Bad Request\r\n", "is no iperf3 server"),
        (b"\x09\xfe\x7f\xff\xff\xff\xff\xff\xff\xfb", "refused with its error 2147483647; see"),
        (b"", "was lost while"),
        (b"\x09\x0b", "was stopped; start it again"),
        (b"\x09\x0a\x02", "has no place there"),
    ] {
        let sentence = nonsense(says);
        assert!(sentence.contains(contains), "{says:?}: {sentence}");
    }
    let sentence = run(&Spec::new(Workload::TcpStream), SocketAddr::new("127.0.0.1".parse().unwrap(), free_port()));
    assert!(sentence.unwrap_err().contains("start 'iperf3 -s' there"));
    // It accepts, and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let sentence = run(&Spec::new(Workload::TcpStream), silent.local_addr().unwrap()).unwrap_err();
    assert!(sentence.contains("said nothing for 6 s; check the port, and that 'iperf3 -s' runs there"), "{sentence}");
}
