//! The real nuttcp as client of our server, over loopback: every mode, and its figures beside ours.
//! Knows no records. Says so and passes where nuttcp is missing.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use linerate_machine::end::Direction;
use linerate_peers::limits::Limits;
use linerate_peers::served_test::ServedTest;
use linerate_peers::server::Server;
use linerate_trial::outcome::FlowOutcome;
use linerate_trial::spec::Workload;
use linerate_trial::tool::Tool;

mod killed;
mod serving;

/// Has a server of ours while `work` goes on with its address. Returns what that says, and what we saw.
fn with_server<T>(address: &str, limits: Limits, work: impl FnOnce(SocketAddr) -> T) -> (T, Vec<ServedTest>) {
    let address: IpAddr = address.parse().unwrap();
    let server = Server::bind(Tool::Nuttcp, Some(address), 0, limits).unwrap();
    serving::serve(&server, address, work, serving::until(1, Duration::from_secs(1)))
}

/// The first of some ports on which nobody listens now: below those that the kernel gives out, another each time.
fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let base = 20_000 + (std::process::id() % 150) as u16 * 80;
    loop {
        let port = base + NEXT.fetch_add(8, Ordering::Relaxed) % 4000;
        let is_free = |port| TcpListener::bind(("0.0.0.0", port)).is_ok() && UdpSocket::bind(("0.0.0.0", port)).is_ok();
        if (port..port + 4).all(is_free) {
            return port;
        }
    }
}

/// Runs nuttcp against a server, and returns what it printed.
fn nuttcp(at: SocketAddr, arguments: &str) -> Option<String> {
    if Command::new("nuttcp").arg("-V").output().is_err() {
        println!("SKIPPED: nuttcp cannot be run here; apt-get install nuttcp");
        return None;
    }
    let mut command = Command::new("timeout");
    command.args(["20", "nuttcp", "-P", &at.port().to_string()]);
    if !arguments.contains("-p") {
        command.args(["-p", &free_port().to_string()]);
    }
    if at.is_ipv6() {
        command.arg("-6");
    }
    let output = command.args(arguments.split_whitespace()).arg(at.ip().to_string()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    Some(text)
}

#[track_caller]
fn check(address: &str, arguments: &str) -> Option<(String, ServedTest)> {
    println!("{address} {arguments}");
    // Its receiver gives up where an interval brings it no data, as happens on a busy machine.
    let gives_up = |printed: &Option<String>| printed.as_ref().is_some_and(|text| text.contains("not receiving data"));
    let mut tried = 0;
    let (printed, mut served) = loop {
        let (printed, served) = with_server(address, Limits::default(), |at| nuttcp(at, arguments));
        tried += 1;
        if tried == 4 || !gives_up(&printed) {
            break (printed, served);
        }
    };
    let printed = printed?;
    assert_eq!(served.len(), 1, "{arguments}: {printed}");
    let one = served.remove(0);
    let [ours, _] = one.ended.as_ref().unwrap_or_else(|error| panic!("{arguments}: {error}\n{printed}")).as_ref();
    assert!(ours.flows.iter().all(|flow| flow.octets_total > 0), "{arguments}: {ours:?}\n{printed}");
    Some((printed, one))
}

/// Modes, the direction that each is, and its streams.
const MODES: [(&str, Direction, u16); 24] = [
    ("-T1", Direction::Rx, 1),
    ("-t -T1 -i0.3", Direction::Rx, 1),
    ("-r -T1 -i0.3", Direction::Tx, 1),
    ("-T1 -N3 -i0.3", Direction::Rx, 3),
    ("-r -T1 -N2 -l8k", Direction::Tx, 2),
    ("-n 300", Direction::Rx, 1),
    ("-r -n 20m", Direction::Tx, 1),
    ("-r -n 100 -N4", Direction::Tx, 4),
    ("-F -T1", Direction::Rx, 1),
    ("-r -F -T1 -N2", Direction::Tx, 2),
    ("-T1 -M1000 -c46 -D -w200 -ws300 -v", Direction::Rx, 1),
    ("-r -T1 -R50m -D -v", Direction::Tx, 1),
    ("-T1 -R30m -fparse -i0.4", Direction::Rx, 1),
    ("-r -T1 -fparse -v", Direction::Tx, 1),
    ("-u -T1", Direction::Rx, 1),
    ("-u -T1 -R20m -i0.3", Direction::Rx, 1),
    ("-u -r -T1 -R20m", Direction::Tx, 1),
    // With its own server 6.1.2 fails where an interval reaches beyond the end.
    ("-u -r -T1 -R20m -i0.3 -v", Direction::Tx, 1),
    ("-u -T1 -R2000p -l 64 -i0.3 -frunningtotal", Direction::Rx, 1),
    ("-u -r -T1 -R1000p -l 16", Direction::Tx, 1),
    ("-u -n 500 -R 3000p -l 1000", Direction::Rx, 1),
    ("-u -r -n 500 -R 3000p -l 1000", Direction::Tx, 1),
    ("-u -T1 -R10m -fparse -i0.3", Direction::Rx, 1),
    ("-u -T1 -R10m -i0.3 -fxmitstats", Direction::Rx, 1),
];

#[test]
fn every_mode_over_both_protocols() {
    thread::scope(|scope| {
        // One family has all of them, the other every third; some at once, for they mostly wait.
        for (address, first, step) in [("::1", 0, 3), ("127.0.0.1", 0, 3), ("127.0.0.1", 1, 3), ("127.0.0.1", 2, 3)] {
            scope.spawn(move || {
                for (mode, direction, streams) in MODES.iter().skip(first).step_by(step) {
                    every_mode(address, mode, *direction, *streams);
                }
            });
        }
    });
}

fn every_mode(address: &str, mode: &str, direction: Direction, streams: u16) {
    let Some((printed, served)) = check(address, mode) else { return };
    assert_eq!((served.spec.direction, served.spec.streams), (direction, streams), "{mode}");
    assert_eq!(served.spec.workload == Workload::UdpStream, mode.contains("-u"), "{mode}");
    assert_eq!(served.version.as_deref(), Some("6.1.2"), "{mode}");
    agrees(mode, &printed, &served);
}

/// What the client prints at its end beside what we saw.
#[track_caller]
fn agrees(mode: &str, printed: &str, served: &ServedTest) {
    let [ours, theirs] = served.ended.as_ref().unwrap().as_ref();
    let octets: u64 = ours.flows.iter().map(|flow| flow.octets_total).sum();
    println!("{printed}");
    assert!(!printed.to_lowercase().contains("error"), "{mode}: {printed}");
    let intervals = printed.lines().filter(|line| line.contains(" sec = ") || line.contains("real_sec=")).count();
    if mode.contains("-i") {
        assert!(intervals >= 1, "{mode}: {printed}");
    }
    // The client reads its streams in turn, and leaves with the first that ends.
    let left =
        if mode.contains("-r") && mode.contains("-N") && mode.contains("-T") { 0.5 * octets as f64 } else { 60.0 };
    // The last line is of the whole test; it has ten-thousandths of 2^20 octets.
    let line = printed.lines().rfind(|line| line.contains("real_seconds=") || line.contains(" MB ")).unwrap();
    let megabytes: f64 = match line.split_once("megabytes=") {
        Some((_, rest)) => rest.split_whitespace().next().unwrap().parse().unwrap(),
        None => line.split(" MB ").next().unwrap().split_whitespace().next_back().unwrap().parse().unwrap(),
    };
    assert!((megabytes * 1_048_576.0 - octets as f64).abs() < left, "{mode}: {octets} octets, {printed}");
    if !mode.contains("-u") || mode.contains("-v") {
        return;
    }
    // Lost and all, of the whole test.
    let (lost, all) = match line.split_once("drop=") {
        Some((_, rest)) => {
            let (lost, rest) = rest.split_once(" pkt=").unwrap();
            (lost, rest.split_whitespace().next().unwrap())
        }
        None => line.split(" %RX ").nth(1).unwrap().split(" drop").next().unwrap().split_once(" / ").unwrap(),
    };
    let [lost, all] = [lost, all].map(|number| number.trim().parse::<u64>().unwrap());
    let flow = &ours.flows[0];
    let received = flow.arrivals.as_ref().map_or(flow.messages_total - lost, |arrivals| arrivals.received_total);
    // It prints datagrams as it has octets, in hundreds.
    let coarse = 105 / u64::from(served.spec.message_octets());
    assert!((all - lost).abs_diff(received) <= coarse, "{mode}: {received} received, {printed}");
    if coarse > 0 {
        return;
    }
    if let Some(theirs) = theirs.flows.first() {
        assert!(theirs.messages_total <= all, "{mode}: {} by their numbers, {printed}", theirs.messages_total);
        if lost == 0 {
            assert_eq!(theirs.messages_total, all, "{mode}: {printed}");
        }
    }
}

fn rate(flow: &FlowOutcome) -> f64 {
    flow.octets as f64 * 8e3 / flow.elapsed_ns as f64
}

#[test]
fn its_figures_are_ours() {
    thread::scope(|scope| {
        for mode in ["-T2 -R50m -l8k", "-r -T2 -R50m -l8k", "-u -T2 -R20m -i1", "-u -r -T2 -R20m", "-u -T2 -R1m"] {
            scope.spawn(move || figures(mode));
        }
    });
}

fn figures(mode: &str) {
    // The client times itself: on a busy machine it may be late to look at its clock. Once of ten is enough.
    let mut apart = Vec::new();
    while apart.len() < 10 && apart.last().is_none_or(|apart| *apart > 0.02) {
        let Some((printed, served)) = check("127.0.0.1", mode) else { return };
        let [ours, _] = served.ended.as_ref().unwrap().as_ref();
        let here: f64 = ours.flows.iter().map(rate).sum();
        let line = printed.lines().rfind(|line| line.contains(" Mbps")).unwrap();
        let seen: f64 = line.split(" Mbps").next().unwrap().split_whitespace().next_back().unwrap().parse().unwrap();
        println!("{mode}: {here} Mbit/s here, {seen} printed");
        apart.push((here / seen - 1.0).abs());
    }
    assert!(apart.last().is_some_and(|apart| *apart < 0.02), "{mode}: ten times more than 2 % apart: {apart:?}");
}

#[test]
fn many_clients_at_once_are_a_record_each() {
    let (printed, served) = with_server("127.0.0.1", Limits::default(), |at| {
        // All but those that listen themselves want the same port.
        let port = free_port();
        let modes = ["-T1 -R5m -p", "-u -T1 -R5m -i.3 -p", "-T1 -N2 -p", "-n 100 -p", "-u -T1 -R3m -p", "-r -F -T1 -p"];
        thread::scope(|scope| {
            let clients: Vec<_> =
                modes.iter().map(|mode| scope.spawn(move || nuttcp(at, &format!("{mode}{port}")))).collect();
            clients.into_iter().map(|client| client.join().unwrap()).collect::<Option<Vec<_>>>()
        })
    });
    if let Some(printed) = printed {
        let of: Vec<_> = served.iter().map(|one| (one.spec.workload, one.spec.direction, &one.ended)).collect();
        assert_eq!(served.len(), 6, "{printed:?} {of:?}");
        assert!(served.iter().all(|one| one.ended.is_ok()), "{served:?} {printed:?}");
        assert_eq!(served.iter().map(|one| one.spec.streams).sum::<u16>(), 7, "{printed:?}");
    }
}

#[test]
fn what_is_above_the_limits_is_refused_in_words() {
    let limits = Limits { rate: Some(10_000_000), time_s: 5, tests: 1, ..Limits::default() };
    let (printed, served) = with_server("127.0.0.1", limits, |at| {
        let modes = ["-T1", "-u -T1 -R20m", "-r -T6 -R1m", "-u -N2 -T1"];
        modes.iter().map(|mode| nuttcp(at, mode)).collect::<Option<Vec<_>>>()
    });
    assert!(served.is_empty(), "{served:?}");
    let Some(printed) = printed else { return };
    for (printed, word) in printed.iter().zip(["-R", "-R", "-T", "-N"]) {
        assert!(printed.contains("error from server"), "{printed}");
        assert!(printed.contains(word), "{word}: {printed}");
    }
}

#[test]
fn a_port_that_is_taken_is_said() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let (printed, served) = with_server("127.0.0.1", Limits::default(), |at| nuttcp(at, &format!("-T1 -p{port}")));
    assert!(served.is_empty());
    let Some(printed) = printed else { return };
    assert!(printed.contains("choose another with -p"), "{printed}");
}

#[test]
fn strangers_and_nonsense_leave_the_server_serving() {
    let request = "buflen = 1000, nbuf = 2147483647, win = 0, nstream = 128, rate = 4294967295, port = 1, trans = 0, \
                   braindead = 0, timeout = 5.000000, udp = 0, vers = 6.1.2, interval = 0.000000, reverse = 1\n";
    let (printed, served) = with_server("127.0.0.1", Limits::default(), |at| {
        let mut open = Vec::new();
        for says in [
            &b""[..],
            b"H",
            b"HELO",
            b"HELO nuttcp v9999.1.2\n",
            b"HELO nuttcp v6.1.2\n",
            b"HELO nuttcp v6.1.2\nbuflen = 1\n",
            b"GET / HTTP/1.1\r\n\r\n",
            &[0xff; 10_000],
            &b"x".repeat(10_000),
            request.as_bytes(),
            request.replace("128", "129").as_bytes(),
            request.replace("1000", "99999999999").as_bytes(),
        ] {
            let mut stream = TcpStream::connect(at).unwrap();
            let _ = stream.write_all(says);
            open.push(stream);
        }
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        for len in [0, 1, 4, 40, 1470] {
            let _ = udp.send_to(&vec![0xff; len], at);
        }
        nuttcp(at, "-u -T1 -R5m -i.3")
    });
    let Some(printed) = printed else { return };
    assert_eq!(served.iter().filter(|one| one.ended.is_ok()).count(), 1, "{printed} {served:?}");
    assert!(printed.contains("%loss"), "{printed}");
}

/// Asks as a client does, up to the server's word.
fn ask(at: SocketAddr, change: impl FnOnce(&mut linerate_peers::nuttcp::line::Request)) -> (TcpStream, String, u16) {
    use linerate_peers::nuttcp::line::{Request, Version, hello, read};
    let mut asked = Request { timeout: Duration::from_secs(2), port: free_port(), ..Request::new(false) };
    change(&mut asked);
    let mut stream = TcpStream::connect(at).unwrap();
    stream.write_all(hello().as_bytes()).unwrap();
    read(&mut stream).unwrap();
    stream.write_all(asked.emit(Version::OURS).as_bytes()).unwrap();
    let word = read(&mut stream).unwrap();
    (stream, word, asked.port)
}

#[test]
fn a_client_that_vanishes_does_not_hold_the_server() {
    let began = Instant::now();
    let ((), served) = with_server("127.0.0.1", Limits::default(), |at| {
        // Before its data, in its data, and while it is sent to.
        drop(ask(at, |_| {}));
        let (control, word, port) = ask(at, |_| {});
        assert!(word.starts_with("OK"), "{word}");
        let mut data = TcpStream::connect((at.ip(), port)).unwrap();
        data.write_all(&[0; 5000]).unwrap();
        drop((data, control));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (control, ..) =
            ask(at, |asked| (asked.client_sends, asked.port) = (false, listener.local_addr().unwrap().port()));
        let (mut data, _) = listener.accept().unwrap();
        data.read_exact(&mut [0; 1000]).unwrap();
        drop((data, control));
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let (control, ..) = ask(at, |asked| {
            (asked.udp, asked.client_sends, asked.buflen) = (true, false, 1000);
            (asked.rate_kbps, asked.port) = (Some(1000), socket.local_addr().unwrap().port());
        });
        socket.recv(&mut [0; 2000]).unwrap();
        drop((control, socket));
    });
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    assert_eq!(served.len(), 4, "{served:?}");
}

#[test]
fn an_interrupted_client_has_its_report() {
    let ((), served) = with_server("127.0.0.1", Limits::default(), |at| {
        let (mut control, _, port) = ask(at, |asked| {
            (asked.client_sends, asked.reverse, asked.timeout) = (false, true, Duration::from_secs(60))
        });
        let mut data = TcpStream::connect((at.ip(), port)).unwrap();
        data.read_exact(&mut vec![0; 1 << 20]).unwrap();
        socket2::SockRef::from(&control).send_out_of_band(b"A").unwrap();
        std::io::copy(&mut data, &mut std::io::sink()).unwrap();
        let mut report = String::new();
        control.read_to_string(&mut report).unwrap();
        assert!(report.contains("real seconds"), "{report}");
    });
    assert!(served[0].ended.is_ok(), "{served:?}");
}

/// A client that is killed after a second has sent and received what it has.
#[test]
fn a_killed_client_leaves_what_was_measured() {
    for mode in ["-T20", "-T20 -r", "-T20 -u -R20M", "-T20 -u -r -R20M"] {
        let (client, served) = with_server("127.0.0.1", Limits::default(), |at| {
            let mut command = Command::new("timeout");
            command.args(["-s", "KILL", "1.5"]);
            command.args(["nuttcp", &format!("-P{}", at.port())]).args(mode.split(' ')).arg(at.ip().to_string());
            let ended = command.output();
            // It is known by its silence, where it has no control connection.
            thread::sleep(Duration::from_secs(2));
            ended
        });
        let said = client.unwrap();
        if said.status.code() == Some(127) {
            return println!("SKIPPED: nuttcp cannot be run here; apt-get install nuttcp");
        }
        assert_eq!(served.len(), 1, "{mode}: {said:?}");
        killed::check(mode, &served[0]);
    }
}
