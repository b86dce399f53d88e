//! Our nuttcp client against the real nuttcp server and against our own, over loopback, and against nonsense.
//! Knows no records. Says so and passes where nuttcp is missing.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use linerate_machine::end::Direction;
use linerate_peers::Route;
use linerate_peers::limits::Limits;
use linerate_peers::nuttcp::line::Request;
use linerate_peers::served_test::ServedTest;
use linerate_peers::server::Server;
use linerate_trial::outcome::{FlowOutcome, Outcome, Role};
use linerate_trial::spec::{Extent, Spec, Workload};
use linerate_trial::tool::Tool;

fn run(spec: &Spec, server: SocketAddr) -> Result<[Outcome; 2], String> {
    let local = if server.is_ipv4() { "127.0.0.1" } else { "::1" }.parse().unwrap();
    let route = Route { local, interface: Some("lo".to_owned()), server, unanswered: None };
    linerate_peers::run(Tool::Nuttcp, &[], spec, &route, |_| {}, &|| false).map_err(|error| error.to_string())
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

/// A port on which nobody listens now, nor on the three after it.
fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let base = 40 + 20_000 + (std::process::id() % 150) as u16 * 80;
    loop {
        let port = base + NEXT.fetch_add(8, Ordering::Relaxed) % 4000;
        if (port..port + 4).all(|port| TcpListener::bind(("0.0.0.0", port)).is_ok()) {
            return port;
        }
    }
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
        // The real receiver of parallel streams leaves with the first that ends; datagrams may be lost.
        let exact = spec.workload == Workload::TcpStream && (spec.streams == 1 || spec.direction == Direction::Tx);
        assert!(theirs.octets_total == ours.octets_total || !exact, "{what}");
        assert!(ours.octets > 0 && theirs.octets > 0, "{what}");
        if let Extent::Octets(octets) = spec.extent {
            assert!(ours.octets_total == octets || ours.arrivals.is_some(), "{what}");
        }
        if let Some(arrivals) = ours.arrivals.as_ref().or(theirs.arrivals.as_ref()) {
            let sent = arrivals.sent_by_end_mark.unwrap();
            assert_eq!(sent, ours.messages_total.max(theirs.messages_total), "{what}");
            assert_eq!(arrivals.received_total, ours.messages_total.min(theirs.messages_total), "{what}");
            // A socket's buffer holds less than a busy machine may leave in it.
            assert!(
                arrivals.received_total <= sent && arrivals.received_total >= sent / 2,
                "{what}: {arrivals:?} of {sent}"
            );
        }
        assert!(ours.elapsed_ns > 0 && theirs.elapsed_ns > 0, "{what}");
    }
    [target, host]
}

#[test]
fn every_way_against_the_real_server() {
    thread::scope(|scope| {
        for address in ["127.0.0.1", "::1"] {
            for workload in [Workload::TcpStream, Workload::UdpStream] {
                for direction in [Direction::Rx, Direction::Tx] {
                    scope.spawn(move || every_way(address, workload, direction));
                }
            }
        }
    });
}

fn every_way(address: &str, workload: Workload, direction: Direction) {
    let Some(real) = Real::start(address) else { return };
    let specs = specs(workload).into_iter().filter(|spec| spec.direction == direction);
    for (number, spec) in specs.enumerate() {
        // One family has all of them, the other every third.
        if address == "::1" && number % 3 != 0 {
            continue;
        }
        let [target, host] = check(&spec, real.1);
        let (theirs, ours) = (&target.flows[0], &host.flows[0]);
        assert!(theirs.socket_buffer.is_some());
        if direction == Direction::Tx && workload == Workload::TcpStream {
            assert_eq!(theirs.tcp.is_some(), spec.streams == 1, "its retransmissions, of one stream");
        }
        if direction == Direction::Rx && spec.streams == 1 && spec.warmup.is_zero() {
            let by_time = matches!(spec.extent, Extent::Time(_));
            assert!(!by_time || !theirs.slices.is_empty(), "its intervals");
        }
        assert_eq!(ours.role == Role::Sender, direction == Direction::Rx);
    }
}

fn rate(flow: &FlowOutcome) -> f64 {
    flow.octets as f64 * 8e3 / flow.elapsed_ns as f64
}

#[test]
fn the_real_servers_figures_are_ours() {
    thread::scope(|scope| {
        for workload in [Workload::TcpStream, Workload::UdpStream] {
            for direction in [Direction::Rx, Direction::Tx] {
                scope.spawn(move || figures(workload, direction));
            }
        }
    });
}

fn figures(workload: Workload, direction: Direction) {
    let mut spec = Spec::new(workload);
    (spec.direction, spec.rate) = (direction, "50M".parse().unwrap());
    spec.extent = Extent::Time(Duration::from_secs(2));
    let mut apart = Vec::new();
    // It times itself: on a busy machine it may be late. Once of four is enough; the counts are exact each time.
    while apart.len() < 10 && apart.last().is_none_or(|apart| *apart > 0.02) {
        let Some(real) = Real::start("127.0.0.1") else { return };
        let [target, host] = run(&spec, real.1).unwrap();
        let [theirs, ours] = [&target.flows[0], &host.flows[0]];
        println!("{workload} {direction}: {} Mbit/s there, {} here", rate(theirs), rate(ours));
        if workload == Workload::TcpStream {
            assert_eq!(theirs.octets_total, ours.octets_total);
        }
        apart.push((rate(theirs) / rate(ours) - 1.0).abs());
    }
    assert!(apart.last().is_some_and(|apart| *apart < 0.02), "{workload} {direction}: {apart:?}");
}

#[test]
fn every_way_against_our_own_server() {
    let server =
        Server::bind(Tool::Nuttcp, Some("127.0.0.1".parse().unwrap()), free_port(), Limits::default()).unwrap();
    let at = SocketAddr::new("127.0.0.1".parse().unwrap(), server.port().unwrap());
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let serving = scope.spawn(|| {
            let heard = |one: ServedTest| drop(one.ended.inspect_err(|error| println!("served: {error}")));
            server.run(|_| over.load(Ordering::Relaxed), heard)
        });
        let checked = scope.spawn(|| {
            for workload in [Workload::TcpStream, Workload::UdpStream] {
                specs(workload).iter().for_each(|spec| drop(check(spec, at)));
            }
        });
        let checked = checked.join();
        over.store(true, Ordering::Relaxed);
        serving.join().unwrap().unwrap();
        checked.unwrap();
    });
}

/// A server that says these lines, one for each that it hears, and then nothing.
fn nonsense(spec: &Spec, says: &[&[u8]]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = listener.accept().unwrap();
            for one in says {
                let _ = stream.read(&mut [0; 4096]);
                let _ = stream.write_all(one);
            }
        });
        let began = Instant::now();
        let said = run(spec, at).map(|_| ()).unwrap_err();
        assert!(began.elapsed() < Duration::from_secs(13), "{:?}: {said}", began.elapsed());
        said
    })
}

#[test]
fn a_server_that_is_none_is_a_sentence() {
    #[track_caller]
    fn check(spec: &Spec, says: &[&[u8]], contains: &str) {
        let sentence = nonsense(spec, says);
        assert!(sentence.contains(contains), "{sentence}");
    }
    let hello = b"HELO nuttcp v6.1.2\n";
    let tcp = Spec::new(Workload::TcpStream);
    let asks = Spec { direction: Direction::Tx, ..Spec::new(Workload::UdpStream) };
    check(&tcp, &[b"HTTP/1.1 400 Bad Request\r\n"], "no nuttcp server");
    check(&tcp, &[b"\xff\xff\xff\xff\n"], "no nuttcp server");
    check(&tcp, &[&[b'x'; 100_000]], "no nuttcp server");
    check(&tcp, &[b""], "it closed the connection");
    check(&tcp, &[b"HELO nuttcp v3.3.1\n"], "too old for this; install 6.1.2");
    check(&tcp, &[hello, b"nuttcp-r: v6.1.2: Error: bind: in use\nKO\n"], "did not take the test: bind: in use");
    check(&tcp, &[hello, b"KO\n"], "see what it printed");
    check(&tcp, &[hello, &b"chatter\n".repeat(1000)], "did not take the test");
    // It takes the test, and nobody listens for the data; nothing else is tried.
    check(&tcp, &[hello, b"OK v6.1.2\nnuttcp-r: Error: no more sockets\n"], "no more sockets");
    let taken = b"OK v6.1.2\nnuttcp-r: v6.1.2: Error: bind: Address already in use\nerrno=98\n";
    check(&tcp, &[hello, taken], "for the data, which another program there has; stop what has it");
    check(&asks, &[hello, b"OK v6.1.2\n"], "nothing came back");
    let sentence = run(&tcp, SocketAddr::new("127.0.0.1".parse().unwrap(), free_port())).map(|_| ()).unwrap_err();
    assert!(sentence.contains("start 'nuttcp -S' there"), "{sentence}");
}

/// Says what a server says that takes the test.
fn take_test(stream: &mut TcpStream) {
    for one in [&b"HELO nuttcp v6.1.2\n"[..], b"OK v6.1.2\n"] {
        let _ = stream.read(&mut [0; 4096]);
        let _ = stream.write_all(one);
    }
}

/// A server that takes the test and has the data, and then says this.
fn report(says: &[u8]) -> String {
    let control = TcpListener::bind(("127.0.0.1", free_port())).unwrap();
    let at = control.local_addr().unwrap();
    let data = TcpListener::bind(("127.0.0.1", at.port() + 1)).unwrap();
    let spec = Spec { extent: Extent::Time(Duration::from_millis(100)), ..Spec::new(Workload::TcpStream) };
    thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = control.accept().unwrap();
            take_test(&mut stream);
            let (mut data, _) = data.accept().unwrap();
            let _ = std::io::copy(&mut data, &mut std::io::sink());
            let _ = stream.write_all(says);
        });
        match run(&spec, at) {
            Ok([target, _]) => format!("{} octets", target.flows[0].octets_total),
            Err(sentence) => sentence,
        }
    })
}

#[test]
fn a_report_of_nonsense_is_a_sentence() {
    for says in [&b""[..], b"\n\n\n", &[0xff; 100_000], b"nuttcp-r: lots MB in no real seconds\n"] {
        let sentence = report(says);
        assert!(sentence.contains("was lost while its report was awaited"), "{sentence}");
    }
    let sentence = report(b"nuttcp-r: Error: out of memory\n");
    assert!(sentence.contains("out of memory"), "{sentence}");
    let told = report(b"nuttcp-r: 3.0000 MB in 1.00 real seconds = 3072.00 KB/sec = 25.1658 Mbps\n");
    assert_eq!(told, "3145728 octets", "what it says it got, whatever was sent");
}

/// A server of another tool has the port for the data, and the nuttcp server says so, or goes as one without a fork does.
#[test]
fn what_has_the_port_of_the_data_is_sent_nothing() {
    for (says, contains) in [
        (&b"nuttcp-r: v6.1.2: Error: bind: Address already in use\nerrno=98\n"[..], "which another program there has"),
        (b"nuttcp-r: v6.1.2: socket\n", "closed its connection before it had port"),
    ] {
        let control = TcpListener::bind(("127.0.0.1", free_port())).unwrap();
        let at = control.local_addr().unwrap();
        let other = TcpListener::bind(("127.0.0.1", at.port() + 1)).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, _) = control.accept().unwrap();
                take_test(&mut stream);
                thread::sleep(Duration::from_millis(5));
                let _ = stream.write_all(says);
            });
            let sentence = run(&Spec::new(Workload::TcpStream), at).map(|_| ()).unwrap_err();
            assert!(sentence.contains(contains), "{sentence}");
        });
        other.set_nonblocking(true).unwrap();
        assert!(other.accept().is_err(), "nobody came");
    }
}

#[test]
fn datagrams_of_which_none_arrives_are_a_sentence() {
    let control = TcpListener::bind(("127.0.0.1", free_port())).unwrap();
    let at = control.local_addr().unwrap();
    let _data = UdpSocket::bind(("127.0.0.1", at.port() + 1)).unwrap();
    let spec = Spec { extent: Extent::Time(Duration::from_millis(200)), ..Spec::new(Workload::UdpStream) };
    let spec = Spec { rate: "1M".parse().unwrap(), ..spec };
    thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = control.accept().unwrap();
            take_test(&mut stream);
            thread::sleep(Duration::from_millis(500));
            let _ = stream.write_all(b"nuttcp-r: 0.0000 MB in 0.20 real seconds = 0.00 KB/sec = 0.0000 Mbps\n");
        });
        let sentence = run(&spec, at).map(|_| ()).unwrap_err();
        assert!(sentence.contains("takes part over TCP, and UDP does not pass: not one datagram of "), "{sentence}");
        assert!(sentence.contains(&format!("look for what drops UDP port {}", at.port() + 1)), "{sentence}");
    });
}

#[test]
fn datagrams_come_from_the_server_only() {
    let spec = Spec { direction: Direction::Tx, ..Spec::new(Workload::UdpStream) };
    let control = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = control.local_addr().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = control.accept().unwrap();
            let mut heard = [0; 4096];
            let _ = stream.read(&mut heard);
            let _ = stream.write_all(b"HELO nuttcp v6.1.2\n");
            let len = stream.read(&mut heard).unwrap();
            let asked = Request::parse(std::str::from_utf8(&heard[..len]).unwrap()).unwrap();
            let _ = stream.write_all(b"OK v6.1.2\n");
            let stranger = UdpSocket::bind("127.0.0.2:0").unwrap();
            let _ = stranger.send_to(b"BOD0", ("127.0.0.1", asked.port));
            thread::sleep(Duration::from_millis(300));
        });
        let sentence = run(&spec, at).map(|_| ()).unwrap_err();
        assert!(sentence.contains("nothing came back"), "{sentence}");
    });
}
