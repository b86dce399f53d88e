//! The real iperf2 as client of our server, over loopback: every mode, and its figures beside ours.
//! Knows no records. Says so and passes where iperf is missing.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use linerate_host::traffic::reachability::UnprovenLimit;
use linerate_machine::end::Direction;
use linerate_machine::units::OfferedLoad;
use linerate_peers::limits::Limits;
use linerate_peers::served_test::{ServedTest, TestPart};
use linerate_peers::server::Server;
use linerate_trial::outcome::FlowOutcome;
use linerate_trial::spec::Workload;
use linerate_trial::tool::Tool;

mod killed;
mod serving;

/// What clients were refused for, where limits are not the usual ones.
static REFUSED: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Has a server of ours while `work` goes on with its address. Returns what that says, and what we saw.
fn with_server<T>(address: &str, limits: Limits, work: impl FnOnce(SocketAddr) -> T) -> (T, Vec<ServedTest>) {
    let address: IpAddr = address.parse().unwrap();
    let mut server = Server::bind(Tool::Iperf2, Some(address), 0, limits.clone()).unwrap();
    if limits.rate.is_some() {
        server.tell_refusals(Box::new(|_, what| REFUSED.lock().unwrap().push(what.to_owned())));
    }
    serving::serve(&server, address, work, |served| {
        serving::until(1, Duration::from_secs(1))(served);
        // And of a second test.
        thread::sleep(Duration::from_millis(300));
    })
}

/// Runs iperf against a server, and returns what it printed.
fn iperf(at: SocketAddr, arguments: &str) -> Option<String> {
    let mut command = Command::new("timeout");
    command.args(["20", "iperf", "-c", &at.ip().to_string(), "-p", &at.port().to_string(), "-f", "b"]);
    if at.is_ipv6() {
        command.arg("-V");
    }
    if Command::new("iperf").arg("-v").output().is_err() {
        println!("SKIPPED: iperf cannot be run here; apt-get install iperf");
        return None;
    }
    let output = command.args(arguments.split_whitespace()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    Some(text)
}

/// Datagrams to clients that prove nothing are allowed.
fn with_datagrams() -> Limits {
    Limits { unproven: Some(UnprovenLimit { bits_per_second: 100_000_000 }), ..Limits::default() }
}

#[track_caller]
fn check(address: &str, arguments: &str) -> Option<(String, Vec<ServedTest>)> {
    println!("{address} {arguments}");
    let (printed, served) = with_server(address, with_datagrams(), |at| iperf(at, arguments));
    let printed = printed?;
    assert!(!served.is_empty(), "{arguments}: {printed}");
    for one in &served {
        let [ours, _] = one.ended.as_ref().unwrap_or_else(|error| panic!("{arguments}: {error}\n{printed}")).as_ref();
        assert!(ours.flows.iter().all(|flow| flow.octets_total > 0), "{arguments}: {ours:?}\n{printed}");
    }
    Some((printed, served))
}

/// A port on which nobody listens now.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn every_mode_over_both_protocols() {
    thread::scope(|scope| {
        for address in ["127.0.0.1", "::1"] {
            for udp in [false, true] {
                scope.spawn(move || every_mode(address, udp));
            }
        }
    });
}

fn every_mode(address: &str, udp: bool) {
    use Direction::{Both, Rx, Tx};
    for (mode, directions, streams) in [
        ("-t 0.4", &[Rx][..], 1),
        ("-t 0.4 -R", &[Tx], 1),
        ("-t 0.4 --full-duplex", &[Both], 1),
        ("-t 0.4 -P 3", &[Rx], 3),
        ("-t 0.4 -P 2 -R -l 8K", &[Tx], 2),
        ("-n 20M", &[Rx], 1),
        ("-n 20M -R", &[Tx], 1),
        ("-t 0.4 -e --trip-times", &[Rx], 1),
        ("-t 0.4 -X -w 256K -M 1000 -N -S 0xb8", &[Rx], 1),
        ("-t 0.4 -b 50M", &[Rx], 1),
        ("-t 0.4 -C", &[Rx], 1),
        ("-t 0.4 -d -L", &[Both], 1),
        ("-t 0.4 -r -L", &[Rx, Tx], 1),
        ("-u -t 0.4 -b 20M", &[Rx], 1),
        ("-u -t 0.4 -b 20M -R", &[Tx], 1),
        ("-u -t 0.4 -b 10M --full-duplex", &[Both], 1),
        ("-u -t 0.4 -b 10M -P 2", &[Rx], 2),
        ("-u -t 0.4 -b 1000pps -l 64 -e", &[Rx], 1),
        ("-u -t 0.4 -b 10M --trip-times", &[Rx], 1),
        ("-u -n 1M -b 50M", &[Rx], 1),
        ("-u -n 3K", &[Rx], 1),
        ("-u -t 0.4 -b 10M -d -L", &[Both], 1),
        ("-u -t 0.4 -b 10M -r -L", &[Rx, Tx], 1),
    ] {
        if mode.contains("-u") != udp {
            continue;
        }
        let mode = if mode.ends_with("-L") { format!("{mode} {}", free_port()) } else { mode.to_owned() };
        let Some((printed, served)) = check(address, &mode) else { return };
        let seen: Vec<Direction> = served.iter().map(|one| one.spec.direction).collect();
        assert_eq!(seen, directions, "{mode}: {printed}");
        assert!(served.iter().all(|one| one.spec.streams == streams), "{mode}: {printed}");
        assert_eq!(served[0].spec.workload == Workload::UdpStream, udp, "{mode}");
        let told = served.iter().all(|one| one.version.as_deref().is_none_or(|version| version.starts_with("2.")));
        assert!(told, "{mode}: {:?}", served[0].version);
    }
}

#[test]
fn a_stream_that_begins_at_a_time_is_timed_from_then_on() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let Some((printed, served)) = check("127.0.0.1", &format!("-t 1 -b 50M --txstart-time {}", now + 3)) else {
        return;
    };
    let [ours, _] = served[0].ended.as_ref().unwrap().as_ref();
    let elapsed_s = ours.flows[0].elapsed_ns as f64 / 1e9;
    assert!((0.8..1.7).contains(&elapsed_s), "{elapsed_s} s: {printed}");
}

#[test]
fn frames_of_a_video_are_not_asked_for_at_the_rate_of_a_stream() {
    let Some((printed, served)) = check("127.0.0.1", "-u -t 0.5 --isochronous=60:10m,1m") else { return };
    assert_eq!(served[0].spec.rate, OfferedLoad::Unlimited, "{printed}");
}

/// Figures before these units, of the last line that has them.
fn figure(printed: &str, unit: &str) -> f64 {
    let line = printed.lines().rfind(|line| line.contains(unit)).unwrap_or_else(|| panic!("no {unit}: {printed}"));
    let before = line.split(unit).next().unwrap();
    before.split_whitespace().next_back().unwrap().parse().unwrap()
}

#[test]
fn its_figures_are_ours() {
    thread::scope(|scope| {
        for address in ["127.0.0.1", "::1"] {
            for mode in ["-t 3 -b 50M -l 8K", "-t 3 -b 50M -l 8K -R", "-u -t 2 -b 20M", "-u -t 2 -b 20M -R"] {
                scope.spawn(move || figures_are_ours(address, mode));
            }
        }
    });
}

fn figures_are_ours(address: &str, mode: &str) {
    {
        // The client times itself: on a busy machine it may be late to look at its clock. Once of four is enough.
        let agrees = (0..4).find_map(|_| {
            let (printed, served) = check(address, mode)?;
            let [ours, _] = served[0].ended.as_ref().unwrap().as_ref();
            let rate = |flow: &FlowOutcome| flow.octets as f64 * 8e9 / flow.elapsed_ns as f64;
            let sum: f64 = ours.flows.iter().map(rate).sum();
            let seen = figure(&printed, " bits/sec");
            println!("{mode}: {sum} bit/s here, {seen} printed");
            ((sum / seen - 1.0).abs() < 0.02).then_some((printed, served))
        });
        let Some((printed, served)) = agrees else {
            assert!(Command::new("iperf").arg("-v").output().is_err(), "{mode}: four times more than 2 % apart");
            return;
        };
        let [ours, theirs] = served[0].ended.as_ref().unwrap().as_ref();
        if !mode.contains("-u") {
            return;
        }
        let reverse = mode.contains("-R");
        assert!(reverse || printed.contains("Server Report"), "{mode}: {printed}");
        // Lost and all: the last lines are of the sum, or of the only stream.
        let line = printed.lines().rfind(|line| line.contains(" ms ") && line.contains('%')).unwrap();
        let (lost, total) = line.split(" ms ").nth(1).unwrap().split('(').next().unwrap().split_once('/').unwrap();
        let number = |text: &str| text.trim().parse::<u64>().unwrap();
        if ours.flows.len() == 1 {
            let (sent, received) = match &ours.flows[0].arrivals {
                Some(arrivals) => (theirs.flows[0].messages, arrivals.received),
                None => (ours.flows[0].messages, ours.flows[0].messages - number(lost)),
            };
            assert_eq!((number(total), number(total) - number(lost)), (sent, received), "{mode}: {printed}");
        }
        assert_eq!(theirs.flows.is_empty(), reverse, "what a client received, it does not tell");
    }
}

/// A client of TCP takes the time of a stream until the server has closed it too, and goes the other way meanwhile.
#[test]
fn one_way_after_the_other_has_each_its_own_time() {
    // Both ways take two seconds; a busy machine may be late once.
    let is_own = (0..3).any(|_| {
        let arguments = format!("-t 1 -b 20M -r -L {}", free_port());
        let Some((printed, served)) = check("127.0.0.1", &arguments) else { return true };
        let halves: Vec<_> = served.iter().map(|one| one.half).collect();
        assert_eq!(halves, [Some(TestPart::First), Some(TestPart::Second)]);
        let intervals = printed.lines().filter_map(|line| line.split_once(" sec ")?.0.rsplit_once('-'));
        let ends: Vec<f64> = intervals.map(|(_, end)| end.parse().unwrap()).collect();
        assert_eq!(ends.len(), 2, "{printed}");
        ends.iter().all(|end| *end < 1.9)
    });
    assert!(is_own);
}

#[test]
fn bounce_back_is_answered() {
    let modes = ["--bounceback -t 1", "--bounceback -t 1 -l 1000 --bounceback-hold 5"];
    for (address, mode) in ["127.0.0.1", "::1"].into_iter().zip(modes) {
        let Some((printed, served)) = check(address, mode) else { return };
        let [ours, _] = served[0].ended.as_ref().unwrap().as_ref();
        assert_eq!(served[0].spec.workload, Workload::TcpRr, "{printed}");
        assert!(ours.flows[0].messages > 5, "{printed}");
        // Ten at once, and then the client waits until its time is over.
        assert!(ours.flows[0].elapsed_ns > 800_000_000, "{printed} {:?}", ours.flows[0]);
        assert!(!printed.contains("fail"), "{printed}");
    }
}

#[test]
fn many_clients_at_once_are_a_record_each() {
    let (printed, served) = with_server("127.0.0.1", Limits::default(), |at| {
        let modes = ["-t 1 -b 5M", "-t 1 -b 5M -R", "-u -t 1 -b 5M", "-u -t 1 -b 6M -P 2", "-n 100K"];
        thread::scope(|scope| {
            let clients: Vec<_> = modes.iter().map(|mode| scope.spawn(move || iperf(at, mode))).collect();
            clients.into_iter().map(|client| client.join().unwrap()).collect::<Option<Vec<_>>>()
        })
    });
    if let Some(printed) = printed {
        let streams: Vec<u16> = served.iter().map(|one| one.spec.streams).collect();
        assert_eq!((served.len(), streams.iter().sum::<u16>()), (5, 6), "{printed:?}");
        assert!(served.iter().all(|one| one.ended.is_ok()), "{served:?}");
    }
}

#[test]
fn what_is_above_the_limits_is_not_served() {
    let limits = Limits { rate: Some(10_000_000), time_s: 5, tests: 1, ..Limits::default() };
    let ((), served) = with_server("127.0.0.1", limits, |at| {
        for mode in ["-t 1", "-u -t 1 -b 20M", "-t 6 -b 1M -R"] {
            let _ = iperf(at, mode);
        }
    });
    assert!(served.is_empty(), "{served:?}");
    let refused = REFUSED.lock().unwrap();
    let said = |what: &str| refused.iter().any(|one| one.contains(what));
    let missing = Command::new("iperf").arg("-v").output().is_err();
    assert!(missing || said("higher rate") && said("longer test"), "{refused:?}");
}

#[test]
fn strangers_and_nonsense_leave_the_server_serving() {
    let (printed, served) = with_server("127.0.0.1", Limits::default(), |at| {
        let mut open = Vec::new();
        for says in [
            &b""[..],
            b"G",
            b"GET / HTTP/1.1\r\n\r\n",
            &[0xff; 1000],
            &[0x44, 0x01, 0x00, 0x78, 0, 0],
            // A bounce-back of 4 GiB, and a header that says 65535 streams.
            b"\0\x80\0\0\xff\xff\xff\xff",
            b"\x40\x01\0\x78\0\0\xff\xff\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01........................................",
        ] {
            let mut stream = TcpStream::connect(at).unwrap();
            let _ = stream.write_all(says);
            open.push(stream);
            let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
            for len in [0, 1, 17, 39, 40, 80, 1470] {
                let _ = udp.send_to(&says[..says.len().min(len)], at);
                // An end without a beginning.
                let _ = udp.send_to(&[0xfe].repeat(len), at);
            }
        }
        iperf(at, "-u -t 1 -b 1M -P 2")
    });
    let Some(printed) = printed else { return };
    // Some of the nonsense is a test by its first words, and ends at once.
    let real = |one: &&ServedTest| one.ended.is_ok() && one.spec.streams == 2;
    assert_eq!(served.iter().filter(real).count(), 1, "{printed} {served:?}");
    assert!(printed.contains("Server Report"), "{printed}");
}

/// A client that is killed after a second has sent and received what it has.
#[test]
fn a_killed_client_leaves_what_was_measured() {
    for mode in ["-t 20", "-t 20 -R", "-t 20 -P 2", "-t 20 -r", "-t 20 -u -b 20M"] {
        let (client, served) = with_server("127.0.0.1", Limits::default(), |at| {
            let mut command = Command::new("timeout");
            command.args(["-s", "KILL", "1.5"]);
            command.args(["iperf", "-c", &at.ip().to_string(), "-p", &at.port().to_string()]);
            command.args(mode.split(' '));
            let ended = command.output();
            // It is known by its silence, where it has no control connection.
            thread::sleep(Duration::from_secs(6));
            ended
        });
        let said = client.unwrap();
        if said.status.code() == Some(127) {
            return println!("SKIPPED: iperf cannot be run here; apt-get install iperf");
        }
        assert_eq!(served.len(), 1, "{mode}: {said:?}");
        killed::check(mode, &served[0]);
    }
}

/// As 2.0.14 sends where its user chose no size: the first datagram is the head alone.
#[test]
fn a_stream_whose_first_datagram_is_short_has_the_size_of_the_others() {
    const COUNT: i32 = 60;
    let (reported, served) = with_server("127.0.0.1", Limits::default(), |at| {
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        udp.connect(at).unwrap();
        udp.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        let words = |number: i32| {
            let high = if number < 0 { -1 } else { 0 };
            let mut words = [0; 19];
            words[..6].copy_from_slice(&[number, 0, 0, high, 0x4c01_0098, 1]);
            (words[6], words[9], words[13], words[14]) = (5001, -100, 0x0002_0000, 0x000e_0000);
            words.iter().flat_map(|word: &i32| word.to_be_bytes()).collect::<Vec<u8>>()
        };
        udp.send(&words(1)).unwrap();
        for number in 2..COUNT {
            let mut datagram = words(number);
            datagram.resize(1470, 0);
            udp.send(&datagram).unwrap();
            thread::sleep(Duration::from_millis(10));
        }
        let mut last = words(-COUNT);
        last.resize(1470, 0);
        udp.send(&last).unwrap();
        udp.recv(&mut [0; 2048]).is_ok()
    });
    assert!(reported, "the client waits for a report");
    let [one] = &served[..] else { panic!("{served:?}") };
    let [ours, _] = one.ended.as_ref().unwrap().as_ref();
    let flow = &ours.flows[0];
    assert_eq!((one.spec.message_octets(), flow.messages, flow.octets), (1470, COUNT as u64, COUNT as u64 * 1470));
    assert_eq!(flow.arrivals.as_ref().unwrap().missing(), 0);
}

#[test]
fn a_client_that_vanishes_does_not_hold_the_server() {
    let began = Instant::now();
    let ((), served) = with_server("127.0.0.1", Limits::default(), |at| {
        let mut stream = TcpStream::connect(at).unwrap();
        let header = [&b"\x40\x01\0\x78\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\xff\xff\xff\x9c"[..], &[0; 36]].concat();
        stream.write_all(&header).unwrap();
        stream.read_exact(&mut [0; 28]).unwrap();
    });
    assert!(began.elapsed() < Duration::from_secs(5));
    assert_eq!(served.len(), 1);
}

#[test]
fn a_client_that_goes_in_mid_header_is_let_go() {
    let began = Instant::now();
    let ((), served) = with_server("127.0.0.1", Limits::default(), |at| {
        // Was found by the fuzzer: half a header, and the end.
        let mut stream = TcpStream::connect(at).unwrap();
        stream.write_all(b"\x44\x01\0\x78\0\0\0\x01\0\0").unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(8))).unwrap();
        assert!(matches!(stream.read(&mut [0]), Ok(0) | Err(_)));
        // A header in two pieces is one.
        let header = [&b"\x40\x01\0\x78\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\xff\xff\xff\xff"[..], &[0; 36]].concat();
        let mut stream = TcpStream::connect(at).unwrap();
        stream.write_all(&header[..17]).unwrap();
        thread::sleep(Duration::from_millis(100));
        stream.write_all(&header[17..]).unwrap();
        stream.read_exact(&mut [0; 28]).unwrap();
    });
    assert!(began.elapsed() < Duration::from_secs(7), "{:?}", began.elapsed());
    assert_eq!(served.len(), 1);
}
