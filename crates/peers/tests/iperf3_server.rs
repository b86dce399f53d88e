//! The real iperf3 as client of our server, over loopback: every mode, and its figures beside ours.
//! Knows no records. Says so and passes where iperf3 is missing.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::process::Command;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use linerate_peers::limits::Limits;
use linerate_peers::served_test::ServedTest;
use linerate_peers::server::Server;
use linerate_trial::outcome::{FlowOutcome, Outcome, Role};
use linerate_trial::tool::Tool;
use serde_json::Value;

mod serving;

/// What clients were refused for.
static REFUSED: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Has a server of ours while `work` goes on with its address. Returns what that says, and what we saw.
fn with_server<T>(address: &str, limits: Limits, work: impl FnOnce(SocketAddr) -> T) -> (T, Vec<ServedTest>) {
    let address: IpAddr = address.parse().unwrap();
    let mut server = Server::bind(Tool::Iperf3, Some(address), 0, limits).unwrap();
    server.tell_refusals(Box::new(|_, what| REFUSED.lock().unwrap().push(what.to_owned())));
    serving::serve(&server, address, work, serving::at_once)
}

/// Runs iperf3 against a server of ours, and returns what it printed, and what we saw.
fn serve(address: &str, arguments: &[&str], limits: Limits) -> Option<(Value, Vec<ServedTest>)> {
    let (printed, served) = with_server(address, limits, |at| {
        let port = at.port().to_string();
        Command::new("iperf3").args(["-c", address, "-p", &port, "-J"]).args(arguments).output()
    });
    match printed {
        Ok(output) => {
            let printed = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
                panic!(
                    "{error}: {} {}",
                    String::from_utf8_lossy(&output.stdout),
                    String::from_utf8_lossy(&output.stderr)
                )
            });
            Some((printed, served))
        }
        Err(error) => {
            println!("SKIPPED: iperf3 cannot be run here ({error}); apt-get install iperf3");
            None
        }
    }
}

#[track_caller]
fn check(address: &str, arguments: &str) -> Option<(Value, ServedTest)> {
    let words: Vec<&str> = arguments.split_whitespace().collect();
    let (printed, mut served) = serve(address, &words, Limits::default())?;
    assert_eq!(printed["error"], Value::Null, "{arguments}");
    assert_eq!(served.len(), 1, "{arguments}");
    let served = served.remove(0);
    let [ours, theirs] = served.ended.as_ref().unwrap().as_ref();
    assert_eq!(ours.flows.len(), theirs.flows.len(), "{arguments}");
    for (flow, other) in ours.flows.iter().zip(&theirs.flows) {
        assert!(flow.octets > 0 && other.octets > 0, "{arguments}: {flow:?}");
    }
    Some((printed, served))
}

/// A client that its user ends after a second has sent and received what it has.
#[test]
fn an_interrupted_client_leaves_what_was_measured() {
    for (signal, mode) in [
        ("INT", "-t 20"),
        ("KILL", "-t 20"),
        ("INT", "-t 20 -u -b 20M"),
        ("KILL", "-t 20 -u -b 20M -R"),
        ("INT", "-t 20 -R"),
        ("KILL", "-t 20 -R -P 2"),
    ] {
        let (client, served) = with_server("127.0.0.1", Limits::default(), |at| {
            let port = at.port().to_string();
            let mut client = Command::new("iperf3");
            client.args(["-c", "127.0.0.1", "-p", &port]).args(mode.split(' ')).stdout(std::process::Stdio::null());
            let mut client = client.spawn()?;
            thread::sleep(Duration::from_millis(1500));
            let kill = format!("kill -{signal} {}", client.id());
            Command::new("sh").args(["-c", &kill]).status()?;
            let ended = client.wait();
            // The server hears of it within a moment.
            thread::sleep(Duration::from_millis(500));
            ended
        });
        if let Err(error) = client {
            return println!("SKIPPED: iperf3 cannot be run here ({error}); apt-get install iperf3");
        }
        assert_eq!(served.len(), 1, "{signal} {mode}");
        let ended = served[0].ended.as_ref().map(|outcomes| outcomes.as_ref());
        let Ok([ours, theirs]) = ended else { panic!("{signal} {mode}: {ended:?}") };
        assert!(ours.ended_early, "{signal} {mode}");
        let seconds = ours.flows[0].elapsed_ns as f64 / 1e9;
        assert!(ours.flows[0].octets > 100_000 && (0.8..2.5).contains(&seconds), "{signal} {mode}: {ours:?}");
        println!(
            "{signal} {mode}: {} of {:?} octets in {seconds:.2} s",
            ours.flows[0].octets,
            theirs.flows.first().map(|flow| flow.octets)
        );
    }
}

/// Every mode that its client has, with figures.
const MODES: [&str; 25] = [
    "-t 1 -b 10M/5",
    "-t 1 -b 10M/5 -P 3",
    "-t 1 -b 100M",
    "-t 1 -b 100M -R",
    "-t 1 -b 100M --bidir",
    "-t 1",
    "-t 1 -R",
    "-t 1 --bidir",
    "-t 1 -P 3",
    "-t 1 -P 2 -R -l 8K",
    "-n 20M",
    "-n 20M -R",
    "-k 100",
    "-t 1 -O 1",
    "-t 1 -w 256K -M 1000 -N",
    "-t 1 --get-server-output",
    "-u -t 1 -b 20M",
    "-u -t 1 -b 20M -R",
    "-u -t 1 -b 10M --bidir",
    "-u -t 1 -b 10M -P 2",
    "-u -t 1 -b 10M --udp-counters-64bit",
    "-u -t 1 -b 5M --get-server-output",
    "-u -n 1M -b 50M",
    "-u -t 1 -O 1 -b 10M",
    "-u -t 1 -O 1 -b 10M -R",
];
/// At the same time: each mode waits for its second most of the time.
const AT_ONCE: usize = 4;

#[test]
fn every_mode_over_both_protocols() {
    let all: Vec<(&str, &str)> =
        ["127.0.0.1", "::1"].into_iter().flat_map(|address| MODES.map(|mode| (address, mode))).collect();
    thread::scope(|scope| {
        for some in 0..AT_ONCE {
            let mine = all.iter().skip(some).step_by(AT_ONCE);
            scope.spawn(move || mine.for_each(|(address, mode)| check_figures(address, mode)));
        }
    });
}

fn rate(flows: &[&FlowOutcome]) -> f64 {
    let octets: u64 = flows.iter().map(|flow| flow.octets).sum();
    octets as f64 * 8e9 / flows.iter().map(|flow| flow.elapsed_ns).max().unwrap() as f64
}

/// That what it prints is what we saw: throughput within 2 %, datagrams exact.
#[track_caller]
fn check_figures(address: &str, mode: &str) {
    // A machine that is busy may give one of the two the time and not the other; once of three is enough.
    let mut apart = Vec::new();
    for _ in 0..3 {
        let Some((printed, served)) = check(address, mode) else { return };
        let [ours, theirs] = served.ended.as_ref().unwrap().as_ref();
        // In the order of its own sums: those of what it sends, or the only ones; then those of the other way.
        let both = mode.contains("--bidir");
        let of = |outcome: &Outcome| {
            outcome.flows.iter().filter(|flow| flow.role == Role::Receiver).cloned().collect::<Vec<_>>()
        };
        let ways = match (both, mode.contains("-R")) {
            (true, _) => vec![("", of(ours)), ("_bidir_reverse", of(theirs))],
            (false, true) => vec![("", of(theirs))],
            (false, false) => vec![("", of(ours))],
        };
        for (suffix, flows) in ways {
            let flows: Vec<&FlowOutcome> = flows.iter().collect();
            let sums = &printed["end"];
            let sum = &sums[format!("sum{suffix}").as_str()];
            let received = &sums[format!("sum_received{suffix}").as_str()];
            let seen = received["bits_per_second"].as_f64().or(sum["bits_per_second"].as_f64()).unwrap();
            // A paced client pauses before it says that the test is over, and its streams do not end together.
            if flows[0].arrivals.is_none() && suffix.is_empty() && !mode.contains("-R") {
                let seconds = received["seconds"].as_f64().unwrap();
                let same = flows.iter().all(|flow| flow.elapsed_ns == flows[0].elapsed_ns);
                assert!(same && (seconds > 0.9 || !mode.contains("-t 1")), "{address} {mode}: {seconds} s, {flows:?}");
            }
            // What 3.12 prints of datagrams with -O is not of the same part everywhere (esnet/iperf#2055).
            if mode.contains("-u") && mode.contains("-O") {
                continue;
            }
            if (rate(&flows) / seen - 1.0).abs() >= 0.02 {
                apart.push(format!("{address} {mode}: {} here, {seen} printed", rate(&flows)));
            } else {
                apart.clear();
            }
            if mode.contains("-u") && !both {
                let arrived: u64 = flows.iter().map(|flow| flow.arrivals.as_ref().unwrap().received_total).sum();
                let numbers = ["packets", "lost_packets"].map(|name| sum[name].as_u64().unwrap());
                // What came behind its results it may print as well.
                let under_way: u64 = ours.flows.iter().map(|flow| flow.under_way).sum();
                let printed = numbers[0] - numbers[1];
                assert!(
                    (arrived..=arrived + under_way).contains(&printed),
                    "{address} {mode}: {sum}, {arrived} and {under_way} here"
                );
            }
        }
        if apart.is_empty() {
            return;
        }
        println!("{}", apart.last().unwrap());
    }
    panic!("{apart:#?}");
}

#[test]
fn what_is_above_the_limits_is_refused_in_iperf3s_words() {
    let limits = Limits { rate: Some(10_000_000), ..Limits::default() };
    let Some((printed, served)) = serve("127.0.0.1", &["-t", "1", "-b", "20M"], limits) else { return };
    let error = printed["error"].as_str().unwrap_or_default();
    assert!(error.contains("total required bandwidth is larger than server limit"), "{error}");
    assert!(served.is_empty());
    assert!(REFUSED.lock().unwrap().iter().any(|what| what == "asked for a higher rate than is allowed"));
}

/// A client of our own hand: its control connection.
struct Client(TcpStream);

const COOKIE: &[u8; 37] = b"abcdefghijklmnopqrstuvwxyz234567abcd\0";

impl Client {
    fn new(at: SocketAddr) -> Client {
        let stream = TcpStream::connect(at).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Client(stream)
    }

    fn says(&mut self, octets: &[u8]) -> &mut Client {
        self.0.write_all(octets).unwrap();
        self
    }

    fn says_text(&mut self, text: &str) -> &mut Client {
        self.says(&[&(text.len() as u32).to_be_bytes(), text.as_bytes()].concat())
    }

    #[track_caller]
    fn hears(&mut self, octets: &[u8]) -> &mut Client {
        let mut heard = vec![0; octets.len()];
        self.0.read_exact(&mut heard).unwrap();
        assert_eq!(heard, octets);
        self
    }

    fn hears_text(&mut self) -> Value {
        let mut len = [0; 4];
        self.0.read_exact(&mut len).unwrap();
        let mut text = vec![0; u32::from_be_bytes(len) as usize];
        self.0.read_exact(&mut text).unwrap();
        serde_json::from_slice(&text).unwrap()
    }
}

/// A stream of datagrams: the server has answered the first word.
fn opened(at: SocketAddr) -> UdpSocket {
    let udp = UdpSocket::bind((at.ip(), 0)).unwrap();
    udp.connect(at).unwrap();
    udp.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    udp.send(b"9876").unwrap();
    let mut octets = [0; 64];
    assert_eq!(udp.recv(&mut octets).map(|len| octets[..len].to_vec()).unwrap(), b"6789");
    udp
}

#[test]
fn what_was_lost_while_it_did_not_count_is_told_apart() {
    // esnet/iperf#2055: without true counts of what was left out, versions from 3.13 on print a wrong loss.
    const PARAMETERS: &str = r#"{"udp":true,"omit":1,"time":2,"num":0,"blockcount":0,"parallel":1,"len":64,"bandwidth":1000000,
        "gso":1,"gso_dg_size":64,"gso_bf_size":65472}"#;
    const NOTHING: &str = r#"{"cpu_util_total":0,"cpu_util_user":0,"cpu_util_system":0,"sender_has_retransmits":0,
        "streams":[{"id":1,"bytes":640,"retransmits":0,"jitter":0,"errors":0,"packets":25,"omitted_errors":0,"omitted_packets":13}]}"#;
    let (told, served) = with_server("127.0.0.1", Limits::default(), |at| {
        let mut client = Client::new(at);
        client.says(COOKIE).hears(b"\x09").says_text(PARAMETERS).hears(b"\x0a");
        let udp = opened(at);
        client.hears(b"\x01\x02");
        let send = |number: u32| {
            let mut datagram = [0; 64];
            datagram[8..12].copy_from_slice(&number.to_be_bytes());
            udp.send(&datagram).unwrap();
        };
        let began = Instant::now();
        (1..=13).filter(|number| ![4, 5, 9].contains(number)).for_each(send);
        thread::sleep(Duration::from_millis(1500).saturating_sub(began.elapsed()));
        (14..=25).filter(|number| ![20, 22].contains(number)).for_each(send);
        thread::sleep(Duration::from_millis(200));
        client.says(b"\x04").hears(b"\x0d").says_text(NOTHING);
        let told = client.hears_text();
        client.hears(b"\x0e").says(b"\x10");
        told
    });
    let stream = &told["streams"][0];
    assert_eq!((&stream["errors"], &stream["packets"]), (&5.into(), &25.into()), "{told}");
    assert_eq!((&stream["omitted_errors"], &stream["omitted_packets"]), (&3.into(), &13.into()), "{told}");
    let [ours, theirs] = served[0].ended.as_ref().unwrap().as_ref();
    assert_eq!(ours.flows[0].arrivals.as_ref().unwrap().received, 10);
    assert_eq!(theirs.flows[0].api.segments, Some(1023), "interfaces count such a buffer as one packet");
}

#[test]
fn no_client_is_believed_more_than_can_be() {
    for (parameters, told) in [
        // 2^53 octets in a nanosecond.
        (
            r#"{"tcp":true,"reverse":true,"time":1,"parallel":1,"len":1000,"bandwidth":1000000}"#,
            r#""bytes":9007199254740992,"packets":0,"errors":0,"jitter":0,"end_time":1e-9"#,
        ),
        (
            r#"{"udp":true,"reverse":true,"time":1,"parallel":1,"len":1000,"bandwidth":1000000}"#,
            r#""bytes":1152921504606846976,"packets":1152921504606846976,"errors":0,"jitter":9e9,"end_time":0.5,
               "omitted_packets":1,"omitted_errors":0"#,
        ),
    ] {
        let ((), served) = with_server("127.0.0.1", Limits::default(), |at| {
            let mut client = Client::new(at);
            client.says(COOKIE).hears(b"\x09").says_text(parameters).hears(b"\x0a");
            if parameters.contains("udp") {
                let _stream = opened(at);
                client.hears(b"\x01\x02");
                thread::sleep(Duration::from_millis(500));
            } else {
                let mut stream = Client::new(at);
                stream.says(COOKIE);
                client.hears(b"\x01\x02");
                thread::sleep(Duration::from_millis(500));
            }
            client.says(b"\x04").hears(b"\x0d").says_text(&format!(r#"{{"streams":[{{"id":1,{told}}}]}}"#));
            client.hears_text();
            client.hears(b"\x0e").says(b"\x10");
        });
        let [ours, theirs] = served[0].ended.as_ref().unwrap().as_ref();
        let (near, far) = (&ours.flows[0], &theirs.flows[0]);
        assert!(far.octets > 0 && far.octets <= near.octets_total, "{near:?} {far:?}");
        assert!(far.elapsed_ns >= near.elapsed_ns / 2, "{near:?} {far:?}");
        assert!(near.messages <= near.messages_total && far.messages_total <= near.messages_total, "{near:?} {far:?}");
        if let Some(arrivals) = &far.arrivals {
            assert!(arrivals.received <= arrivals.received_total && arrivals.received_total <= near.messages_total);
            assert_eq!(arrivals.jitter_s, None);
        }
    }
}

#[test]
fn a_client_that_goes_before_its_results_leaves_ours() {
    const PARAMETERS: &str = r#"{"udp":true,"time":1,"parallel":1,"len":64,"bandwidth":1000000}"#;
    let ((), served) = with_server("127.0.0.1", Limits::default(), |at| {
        let mut client = Client::new(at);
        client.says(COOKIE).hears(b"\x09").says_text(PARAMETERS).hears(b"\x0a");
        let udp = opened(at);
        client.hears(b"\x01\x02");
        for number in 1..=100_u32 {
            let mut datagram = [0; 64];
            datagram[8..12].copy_from_slice(&number.to_be_bytes());
            udp.send(&datagram).unwrap();
        }
        thread::sleep(Duration::from_millis(300));
        client.says(b"\x04").hears(b"\x0d");
    });
    let [ours, theirs] = served[0].ended.as_ref().unwrap().as_ref();
    assert_eq!(ours.flows[0].arrivals.as_ref().unwrap().received, 100);
    assert_eq!((theirs.flows[0].messages, ours.ended_early), (100, false));
}

#[test]
fn a_client_far_away_says_late_that_it_is_over() {
    const BACK: &str = r#"{"tcp":true,"reverse":true,"time":1,"parallel":1,"len":1000,"bandwidth":1000000}"#;
    const RESULTS: &str = r#"{"cpu_util_total":0,"cpu_util_user":0,"cpu_util_system":0,"sender_has_retransmits":-1,
        "streams":[{"id":1,"bytes":125000,"retransmits":-1,"jitter":0,"errors":0,"packets":0,"start_time":0,"end_time":1}]}"#;
    let ((), served) = with_server("127.0.0.1", Limits::default(), |at| {
        let mut client = Client::new(at);
        client.says(COOKIE).hears(b"\x09").says_text(BACK).hears(b"\x0a");
        let mut stream = TcpStream::connect(at).unwrap();
        stream.write_all(COOKIE).unwrap();
        client.hears(b"\x01\x02");
        let reader = thread::spawn(move || io::copy(&mut stream, &mut io::sink()));
        // A second, and a round trip of a third.
        thread::sleep(Duration::from_millis(1350));
        client.says(b"\x04").hears(b"\x0d").says_text(RESULTS).hears_text();
        client.hears(b"\x0e").says(b"\x10");
        drop(reader);
    });
    let [_, far] = &**served[0].ended.as_ref().unwrap();
    assert_eq!(far.flows[0].octets, 125_000);
}

/// As 3.16 and later do: what has come is looked at once a second, and the server sends no more than was asked meanwhile.
#[track_caller]
fn check_stops(asked: &str, streams: usize, expected: u64, warmup: Duration) {
    let ((), served) = with_server("127.0.0.1", Limits::default(), |at| {
        let mut client = Client::new(at);
        client.says(COOKIE).hears(b"\x09").says_text(asked).hears(b"\x0a");
        let readers: Vec<_> = (0..streams)
            .map(|_| {
                let mut stream = TcpStream::connect(at).unwrap();
                stream.write_all(COOKIE).unwrap();
                thread::spawn(move || io::copy(&mut stream, &mut io::sink()).unwrap())
            })
            .collect();
        client.hears(b"\x01\x02");
        thread::sleep(Duration::from_secs(1) + warmup);
        assert!(readers.iter().all(|reader| !reader.is_finished()), "{asked}: streams end with the test");
        client.says(b"\x04").hears(b"\x0d");
        let octets: u64 = readers.into_iter().map(|reader| reader.join().unwrap()).sum();
        if warmup.is_zero() {
            assert_eq!(octets, expected, "{asked}");
        } else {
            assert!(octets > expected, "{asked}: {octets}");
        }
        let stream =
            r#"{"bytes":1,"retransmits":-1,"jitter":0,"errors":0,"packets":0,"start_time":0,"end_time":1,"id":"#;
        let ids = [1, 3].map(|id| format!("{stream}{id}}}")).join(",");
        let head =
            r#"{"cpu_util_total":0,"cpu_util_user":0,"cpu_util_system":0,"sender_has_retransmits":-1,"streams":["#;
        let told = client.says_text(&format!("{head}{ids}]}}")).hears_text();
        let told: u64 = told["streams"].as_array().unwrap().iter().map(|one| one["bytes"].as_u64().unwrap()).sum();
        assert_eq!(told, expected, "{asked}");
        client.hears(b"\x0e").says(b"\x10");
    });
    let [ours, _] = &**served[0].ended.as_ref().unwrap();
    assert_eq!(ours.flows.iter().map(|flow| flow.octets).sum::<u64>(), expected, "{asked}");
    assert!(
        ours.flows.iter().all(|flow| flow.elapsed_ns < 1_000_000_000),
        "{asked}: the time that it took, not that left"
    );
}

#[test]
fn a_number_of_octets_or_blocks_is_what_comes_back() {
    let none = Duration::ZERO;
    let block = 131_072;
    check_stops(r#"{"tcp":true,"reverse":true,"num":10485760,"time":0,"parallel":1,"len":131072}"#, 1, 10 << 20, none);
    // Whole blocks, as the real one: 10001 of them over two streams.
    check_stops(r#"{"tcp":true,"reverse":true,"num":10000001,"time":0,"parallel":2,"len":1000}"#, 2, 10_001_000, none);
    check_stops(
        r#"{"tcp":true,"reverse":true,"blockcount":81,"time":0,"parallel":2,"len":131072}"#,
        2,
        81 * block,
        none,
    );
    let paced = r#"{"tcp":true,"reverse":true,"num":1000000,"time":0,"parallel":1,"len":131072,"bandwidth":50000000}"#;
    check_stops(paced, 1, 8 * block, none);
    // What is left out is no part of what was asked.
    let later = r#"{"tcp":true,"reverse":true,"num":10485760,"omit":1,"time":0,"parallel":1,"len":131072}"#;
    check_stops(later, 1, 10 << 20, Duration::from_secs(1));
}

#[test]
fn a_word_that_was_lost_is_one_failed_test_and_no_more() {
    const PARAMETERS: &str = r#"{"udp":true,"time":1,"parallel":2,"len":64,"bandwidth":1000000}"#;
    let (printed, served) = with_server("127.0.0.1", Limits { tests: 1, ..Limits::default() }, |at| {
        // esnet/iperf#351: the second stream's first datagram does not arrive, and the client gives up.
        let mut client = Client::new(at);
        client.says(COOKIE).hears(b"\x09").says_text(PARAMETERS).hears(b"\x0a");
        let _udp = opened(at);
        drop(client);
        // Room for another is there at once.
        let began = Instant::now();
        loop {
            let mut next = Client::new(at);
            let mut octet = [0];
            next.says(COOKIE).0.read_exact(&mut octet).unwrap();
            if octet == *b"\x09" {
                break octet;
            }
            assert!(began.elapsed() < Duration::from_secs(10), "the test is held");
            thread::sleep(Duration::from_millis(20));
        }
    });
    assert_eq!((printed, served.len()), (*b"\x09", 1));
    assert!(served[0].ended.as_ref().unwrap_err().to_string().contains("did not open its streams"));
}

#[test]
fn strangers_and_nonsense_leave_the_server_serving() {
    const TCP: &str = r#"{"tcp":true,"time":1,"parallel":1,"len":1000,"bandwidth":1000000}"#;
    // Seconds whose sum is more than any number of seconds.
    const LONG: &str = r#"{"tcp":true,"time":9223372036854775807,"omit":9223372036854775807,"len":1000}"#;
    let began = Instant::now();
    // One test at a time: whatever came of one, the next can be had.
    let ((), _) = with_server("127.0.0.1", Limits { tests: 1, ..Limits::default() }, |at| {
        let frame = |text: &str| [&(text.len() as u32).to_be_bytes(), text.as_bytes()].concat();
        for says in [
            b"".to_vec(),
            b"GET / HTTP/1.1\r\nHost: a board that is none\r\n\r\n".to_vec(),
            vec![0xff; 1000],
            [&COOKIE[..], b"\xff\xff\xff\xff{}"].concat(),
            [&COOKIE[..], b"\0\0\0\x10{"].concat(),
            [&COOKIE[..], &frame("[]")].concat(),
            [&COOKIE[..], &frame(TCP)].concat(),
            [&COOKIE[..], &frame(LONG)].concat(),
            // Says the end before it has begun; was found by the fuzzer.
            [&COOKIE[..], &frame(TCP), &[4; 40]].concat(),
        ] {
            let mut client = Client::new(at);
            let _ = client.0.write_all(&says);
            let _ = client.0.shutdown(Shutdown::Write);
            let mut octets = [0; 64];
            loop {
                match client.0.read(&mut octets) {
                    Ok(0) => break,
                    Ok(_) => {}
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{says:?}");
                        break;
                    }
                }
            }
            let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
            let _ = udp.send_to(&says[..says.len().min(40)], at);
        }
        // The server lives.
        Client::new(at).says(COOKIE).hears(b"\x09").says_text(TCP).hears(b"\x0a");
    });
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
}
