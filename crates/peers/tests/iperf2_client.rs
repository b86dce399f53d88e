//! Our iperf2 client against the real iperf2 server and against our own, over loopback, and against nonsense.
//! Knows no records. Says so and passes where iperf is missing.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use linerate_host::traffic::reachability::UnprovenLimit;
use linerate_machine::end::Direction;
use linerate_peers::Route;
use linerate_peers::limits::Limits;
use linerate_peers::server::Server;
use linerate_trial::outcome::{FlowOutcome, Outcome, Role};
use linerate_trial::spec::{Extent, Spec, Workload};
use linerate_trial::tool::Tool;

fn run(spec: &Spec, server: SocketAddr) -> Result<[Outcome; 2], String> {
    let local = if server.is_ipv4() { "127.0.0.1" } else { "::1" }.parse().unwrap();
    let route = Route { local, interface: Some("lo".to_owned()), server, unanswered: None };
    linerate_peers::run(Tool::Iperf2, &[], spec, &route, |_| {}, &|| false).map_err(|error| error.to_string())
}

/// The real server, which ends with the value, and what it prints: comma-separated, a line for each test.
struct Real(Child, mpsc::Receiver<String>, u16);

impl Real {
    fn start(address: &str, port: u16, udp: bool) -> Option<Real> {
        let mut command = Command::new("iperf");
        command.args(["-s", "-B", address, "-p", &port.to_string(), "-y", "C", "-f", "b"]).stdout(Stdio::piped());
        if udp {
            command.arg("-u");
        }
        if address.contains(':') {
            command.arg("-V");
        }
        let mut child = match command.stderr(Stdio::null()).spawn() {
            Ok(child) => child,
            Err(error) => {
                println!("SKIPPED: iperf cannot be run here ({error}); apt-get install iperf");
                return None;
            }
        };
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (says, heard) = mpsc::channel();
        thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| says.send(line)));
        // It says nothing when it listens; to try the port would be in its way (proc_net_tcp.rst has the format).
        let files = if udp { ["udp", "udp6"] } else { ["tcp", "tcp6"] };
        let is_there = |file: &&str| {
            std::fs::read_to_string(format!("/proc/net/{file}"))
                .is_ok_and(|text| text.contains(&format!(":{port:04X} ")))
        };
        let began = Instant::now();
        while !files.iter().any(is_there) && began.elapsed() < Duration::from_secs(10) {
            thread::sleep(Duration::from_millis(20));
        }
        Some(Real(child, heard, port))
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
    let mut octets = Spec::new(workload);
    octets.extent = Extent::Octets(2_000_000);
    octets.rate = "20M".parse().unwrap();
    specs.push(octets);
    if workload.is_udp() {
        let mut small = specs[0].clone();
        (small.message_size, small.rate) = (Some(18), "2kpps".parse().unwrap());
        specs.push(small);
    }
    specs
}

fn requests(size: u32) -> Spec {
    let mut spec = Spec::new(Workload::TcpRr);
    (spec.request_size, spec.response_size) = (size, size);
    spec.extent = Extent::Time(Duration::from_millis(300));
    spec
}

/// A session of which `may_lose` of what was sent may be missing.
fn check(spec: &Spec, server: SocketAddr, may_lose: f64) -> Result<(), String> {
    let what = format!("{} {} {} {:?} {server}", spec.workload, spec.direction, spec.streams, spec.extent);
    let [target, host] = run(spec, server).map_err(|error| format!("{what}: {error}"))?;
    let wrong = |says: String| Err(format!("{what}: {says}"));
    if host.flows.is_empty() || host.flows.len() != target.flows.len() {
        return wrong(format!("{} and {} flows", host.flows.len(), target.flows.len()));
    }
    for (theirs, ours) in target.flows.iter().zip(&host.flows) {
        if theirs.octets == 0 || ours.octets == 0 {
            return wrong(format!("{} and {} octets", theirs.octets, ours.octets));
        }
        if let Some(arrivals) = ours.arrivals.as_ref().or(theirs.arrivals.as_ref()) {
            let sent = ours.messages_total.max(theirs.messages_total);
            let lost = sent - arrivals.received_total;
            if lost as f64 > sent as f64 * may_lose {
                return wrong(format!("{lost} of {sent} lost"));
            }
        }
        let answers = ours.latency.as_ref().map_or(0, |latency| latency.count());
        if spec.workload == Workload::TcpRr && answers != ours.messages {
            return wrong(format!("{answers} times of {} answers", ours.messages));
        }
    }
    Ok(())
}

#[test]
fn every_way_against_the_real_server() {
    thread::scope(|scope| {
        for address in ["127.0.0.1", "::1"] {
            for workload in [Workload::TcpStream, Workload::UdpStream] {
                scope.spawn(move || every_way(address, workload));
            }
        }
    });
}

fn every_way(address: &str, workload: Workload) {
    let requests = [64, 100, 5000].map(requests);
    let requests = requests.into_iter().filter(|_| !workload.is_udp());
    for spec in specs(workload).into_iter().chain(requests) {
        // iperf 2.1.8's server falls over its tests now and then, its own client's too, and on a busy machine loses what
        // comes while it takes another stream, or ends a stream before it began: each session has a server of its own, and
        // four attempts.
        let stood = (0..4).any(|_| {
            let Some(real) = Real::start(address, free_port(), workload.is_udp()) else { return true };
            let at = SocketAddr::new(address.parse().unwrap(), real.2);
            check(&spec, at, 0.1).inspect_err(|error| println!("{error}")).is_ok()
        });
        assert!(stood, "{workload} {} {}", spec.direction, spec.streams);
    }
}

fn rate(flow: &FlowOutcome) -> f64 {
    flow.octets as f64 * 8e9 / flow.elapsed_ns as f64
}

#[test]
fn the_real_servers_figures_are_ours() {
    for workload in [Workload::TcpStream, Workload::UdpStream] {
        // Its time runs from the connection on, ours from the first data: on a busy machine they are apart. Once of four is
        // enough; the counts are exact each time.
        let agrees = (0..4).find_map(|_| {
            let port = free_port();
            let real = Real::start("127.0.0.1", port, workload.is_udp())?;
            let mut spec = Spec::new(workload);
            (spec.rate, spec.extent) = ("50M".parse().unwrap(), Extent::Time(Duration::from_secs(3)));
            let said = run(&spec, SocketAddr::new("127.0.0.1".parse().unwrap(), port));
            let [target, host] = said.inspect_err(|error| println!("{error}")).ok()?;
            // The first session, by which the client finds out whether the server is there, is of some 2 KB.
            let line = std::iter::from_fn(|| real.1.recv_timeout(Duration::from_secs(10)).ok()).find(|line| {
                line.split(',').nth(7).and_then(|octets| octets.parse().ok()).is_some_and(|octets: u64| octets > 10_000)
            })?;
            let fields: Vec<&str> = line.split(',').collect();
            let printed: f64 = fields[8].parse().unwrap();
            let ours = rate(&target.flows[0]);
            println!("{workload}: {ours} bit/s here, {printed} printed");
            if let Some(arrivals) = &target.flows[0].arrivals {
                let [lost, total] = [fields[10], fields[11]].map(|field| field.parse::<u64>().unwrap());
                assert_eq!((total, total - lost), (host.flows[0].messages, arrivals.received), "{line}");
            }
            ((ours / printed - 1.0).abs() < 0.02).then_some(())
        });
        let missing = Command::new("iperf").arg("-v").output().is_err();
        assert!(agrees.is_some() || missing, "{workload}: four times more than 2 % apart");
    }
}

#[test]
fn every_way_against_our_own_server() {
    let unproven = Some(UnprovenLimit { bits_per_second: 100_000_000 });
    let limits = Limits { unproven, ..Limits::default() };
    let server = Server::bind(Tool::Iperf2, Some("127.0.0.1".parse().unwrap()), 0, limits).unwrap();
    let at = SocketAddr::new("127.0.0.1".parse().unwrap(), server.port().unwrap());
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let serving = scope.spawn(|| {
            server.run(
                |_| over.load(Ordering::Relaxed),
                |one| drop(one.ended.inspect_err(|error| println!("served: {error}"))),
            )
        });
        let checked = scope.spawn(|| {
            for workload in [Workload::TcpStream, Workload::UdpStream] {
                specs(workload).iter().for_each(|spec| check(spec, at, 0.0).unwrap());
            }
            check(&requests(64), at, 0.0).unwrap();
            check(&requests(70_000), at, 0.0).unwrap();
        });
        let checked = checked.join();
        over.store(true, Ordering::Relaxed);
        serving.join().unwrap().unwrap();
        checked.unwrap();
    });
}

/// A TCP server that says these octets and then nothing.
fn nonsense(spec: &Spec, says: &'static [u8]) -> Result<[Outcome; 2], String> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 37]);
            let _ = stream.write_all(says);
            let _ = stream.shutdown(Shutdown::Both);
        });
        let began = Instant::now();
        let said = run(spec, at);
        assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
        said
    })
}

#[test]
fn a_server_that_is_none_is_a_sentence() {
    let nobody = SocketAddr::new("127.0.0.1".parse().unwrap(), free_port());
    for workload in [Workload::TcpStream, Workload::TcpRr] {
        let sentence = run(&Spec::new(workload), nobody).unwrap_err();
        assert!(sentence.contains("start 'iperf -s' there"), "{sentence}");
        let sentence = nonsense(&Spec::new(workload), &[0; 26]).unwrap_err();
        assert!(sentence.contains("ended the connection in mid-test"), "{sentence}");
        assert!(sentence.contains("check the port"), "{sentence}");
    }
    let sentence = run(&Spec { direction: Direction::Tx, ..Spec::new(Workload::UdpStream) }, nobody).unwrap_err();
    assert!(sentence.contains("start 'iperf -s -u' there"), "{sentence}");
    // The second is what an iperf3 says that takes it for a cookie.
    for says in [&b"HTTP/1.1 400 Bad Request\r\n"[..], &[9]] {
        let sentence = nonsense(&Spec::new(Workload::TcpStream), says).unwrap_err();
        assert!(sentence.contains("is no iperf2 server; check the port"), "{sentence}");
    }
}

/// One that sends and reads nothing: without an end, or some junk before it closes on what it has not read.
#[test]
fn a_server_that_talks_is_none() {
    for talks_on in [true, false] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let mut spec = Spec::new(Workload::TcpStream);
        spec.extent = Extent::Time(Duration::from_millis(500));
        thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, _) = listener.accept().unwrap();
                let junk = [0; 100];
                while stream.write_all(&junk).is_ok() && talks_on {}
                thread::sleep(Duration::from_millis(800));
            });
            let began = Instant::now();
            let sentence = run(&spec, at).unwrap_err();
            let want = if talks_on { "is no iperf2 server" } else { "was lost while it read the rest" };
            assert!(sentence.contains(want), "{sentence}");
            assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
        });
    }
}

/// One that is killed in mid-test closes as one that has sent everything.
#[test]
fn a_server_that_sends_for_less_than_was_asked_is_lost() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let mut spec = Spec { direction: Direction::Tx, ..Spec::new(Workload::TcpStream) };
    spec.extent = Extent::Time(Duration::from_secs(2));
    thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = listener.accept().unwrap();
            stream.read_exact(&mut [0; 64]).unwrap();
            let until = Instant::now() + Duration::from_millis(300);
            while Instant::now() < until && stream.write_all(&[0; 10_000]).is_ok() {
                thread::sleep(Duration::from_millis(10));
            }
        });
        let sentence = run(&spec, at).unwrap_err();
        assert!(sentence.contains("was lost while the test ran: it closed the connection"), "{sentence}");
    });
}

/// As 2.0.14 takes requests: for a stream.
#[test]
fn a_server_that_answers_no_request_is_no_figure() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let spec = Spec { extent: Extent::Time(Duration::from_millis(300)), ..requests(100) };
    thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read_to_end(&mut Vec::new());
        });
        let sentence = run(&spec, at).unwrap_err();
        assert!(sentence.contains("answered no request; start an iperf there that knows --bounceback"), "{sentence}");
    });
}

/// As those before 2.1 do, which take any test for one that they receive; some acknowledge its header.
#[test]
fn a_server_that_only_receives_is_no_figure_of_what_it_was_to_send() {
    for direction in [Direction::Tx, Direction::Both] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let mut spec = Spec { direction, ..Spec::new(Workload::TcpStream) };
        spec.extent = Extent::Time(Duration::from_millis(300));
        thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, _) = listener.accept().unwrap();
                stream.write_all(&[0; 28]).unwrap();
                let _ = stream.read_to_end(&mut Vec::new());
            });
            let sentence = run(&spec, at).unwrap_err();
            assert!(sentence.contains("sent nothing; if it is older than 2.1"), "{sentence}");
        });
    }
}

/// It reads everything or nothing, and does not close: it is named before the controller gives the trial up.
#[test]
fn a_server_that_hangs_is_a_sentence() {
    thread::scope(|scope| {
        for reads in [true, false] {
            scope.spawn(move || {
                let listener = TcpListener::bind("127.0.0.1:0").unwrap();
                let at = listener.local_addr().unwrap();
                let mut spec = Spec::new(Workload::TcpStream);
                spec.extent = Extent::Time(Duration::from_millis(300));
                let serving = thread::spawn(move || {
                    let (mut stream, _) = listener.accept().unwrap();
                    let mut octets = vec![0; 65_536];
                    while reads && matches!(stream.read(&mut octets), Ok(1..)) {}
                    thread::sleep(Duration::from_secs(8));
                });
                let began = Instant::now();
                let sentence = run(&spec, at).unwrap_err();
                assert!(began.elapsed() < Duration::from_millis(8500), "{:?}", began.elapsed());
                assert!(sentence.contains("had not closed the connection 6 s after"), "{sentence}");
                assert!(sentence.contains("that 'iperf -s' runs there and does not hang"), "{sentence}");
                serving.join().unwrap();
            });
        }
    });
}

/// It has read everything, and says so to nobody. It goes by itself before it could hold a test run.
#[test]
fn a_server_that_does_not_close_does_not_hold_whoever_stops() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let mut spec = Spec::new(Workload::TcpStream);
    spec.extent = Extent::Octets(100_000);
    let over = AtomicBool::new(false);
    let began = Instant::now();
    thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read_to_end(&mut Vec::new());
            while !over.load(Ordering::Relaxed) && began.elapsed() < Duration::from_secs(8) {
                thread::sleep(Duration::from_millis(20));
            }
        });
        let route = Route { local: at.ip(), interface: Some("lo".to_owned()), server: at, unanswered: None };
        let said = linerate_peers::run(Tool::Iperf2, &[], &spec, &route, |_| {}, &|| {
            began.elapsed() > Duration::from_millis(500)
        });
        let took = began.elapsed();
        over.store(true, Ordering::Relaxed);
        assert_eq!(said.unwrap_err().to_string(), "the trial was stopped");
        assert!(took < Duration::from_secs(3), "{took:?}");
    });
}

/// A UDP server that answers whatever comes with these octets.
fn udp_nonsense(spec: &Spec, says: &[u8]) -> Result<[Outcome; 2], String> {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let at = socket.local_addr().unwrap();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                if let Ok((_, peer)) = socket.recv_from(&mut [0; 2000]) {
                    let _ = socket.send_to(says, peer);
                }
            }
        });
        let began = Instant::now();
        let said = run(spec, at);
        over.store(true, Ordering::Relaxed);
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
        said
    })
}

#[test]
fn datagrams_of_nonsense_are_no_report_and_no_data() {
    let mut spec = Spec::new(Workload::UdpStream);
    (spec.rate, spec.extent) = ("1M".parse().unwrap(), Extent::Time(Duration::from_millis(100)));
    for says in [&b""[..], b"x", &[0; 128], &[0xff; 1470]] {
        let sentence = udp_nonsense(&spec, says).unwrap_err();
        assert!(sentence.contains("nothing came back"), "{sentence}");
    }
    let asked = Spec { direction: Direction::Tx, ..spec };
    let sentence = udp_nonsense(&asked, b"x").unwrap_err();
    assert!(sentence.contains("nothing came back") || sentence.contains("no test traffic"), "{sentence}");
    // A stream that is all end: the number is hostile, and the trial ends.
    let said = udp_nonsense(&asked, &[0xff; 1470]);
    let [_, host] = said.unwrap();
    assert_eq!(host.flows[0].role, Role::Receiver);
}
