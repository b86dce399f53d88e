//! Our netperf client against netservers made by hand: messages written octet by octet from the protocol's description,
//! as a netserver sends them with its quirks, and nonsense.
//! Knows none of our own messages: offsets are written out.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use linerate_machine::end::Direction;
use linerate_machine::units::OfferedLoad;
use linerate_peers::Route;
use linerate_trial::outcome::Outcome;
use linerate_trial::spec::{Extent, Spec, Workload};
use linerate_trial::tool::Tool;

fn run(spec: &Spec, server: SocketAddr) -> Result<[Outcome; 2], String> {
    let route =
        Route { local: "127.0.0.1".parse().unwrap(), interface: Some("lo".to_owned()), server, unanswered: None };
    linerate_peers::run(Tool::Netperf, &[], spec, &route, |_| {}, &|| false).map_err(|error| error.to_string())
}

fn spec(workload: Workload) -> Spec {
    let mut spec = Spec::new(workload);
    (spec.extent, spec.rate) = (Extent::Time(Duration::from_millis(300)), "10M".parse().unwrap());
    spec
}

fn message(kind: i32, errno: i32, words: &[(usize, i32)]) -> Vec<u8> {
    let mut octets = vec![0; 656];
    octets[..4].copy_from_slice(&kind.to_be_bytes());
    octets[4..8].copy_from_slice(&errno.to_be_bytes());
    for (at, word) in words {
        octets[8 + at..12 + at].copy_from_slice(&word.to_be_bytes());
    }
    octets
}

fn float(value: f32) -> i32 {
    value.to_bits().cast_signed()
}

/// The next connection; a client that does not come fails the test rather than hold it.
fn accept(listener: &TcpListener) -> TcpStream {
    listener.set_nonblocking(true).unwrap();
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false).unwrap();
                return stream;
            }
            Err(error) => assert!(Instant::now() < until, "no client came: {error}"),
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// A netserver of one TCP stream to it: `results` from the octets that it received; the request is returned.
fn netserver(listener: &TcpListener, results: impl FnOnce(i32) -> Vec<u8>) -> (Vec<u8>, Option<bool>) {
    let mut control = accept(listener);
    let mut request = vec![0; 656];
    control.read_exact(&mut request).unwrap();
    let data = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = i32::from(data.local_addr().unwrap().port());
    let response = message(98, 0, &[(44, port), (28, float(100.0)), (32, 1)]);
    for piece in response.chunks(100) {
        control.write_all(piece).unwrap();
        thread::sleep(Duration::from_millis(2));
    }
    let mut stream = accept(&data);
    let mut octets = Vec::new();
    stream.read_to_end(&mut octets).unwrap();
    drop(stream);
    for piece in results(octets.len() as i32).chunks(300) {
        control.write_all(piece).unwrap();
        thread::sleep(Duration::from_millis(2));
    }
    // The client closes its side, and waits for this one.
    let closed = control.read(&mut [0]).map(|read| read == 0).ok();
    (request, closed)
}

#[test]
fn results_with_the_quirks_of_netserver_are_understood() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let spec = spec(Workload::TcpStream);
    let (said, (request, closed)) = thread::scope(|scope| {
        let server = scope.spawn(|| {
            netserver(&listener, |received| {
                // The kind swapped twice, NaN where nothing was set, and garbage as service demand.
                let words = [
                    (4, received),
                    (8, 17),
                    (12, 131_072),
                    (40, float(0.35)),
                    (44, float(12.5)),
                    (48, float(f32::NAN)),
                    (52, float(10.0)),
                    (68, 0x7fc0_1234),
                    (72, 8),
                    (76, 4),
                    (80, -1),
                    (104, -1),
                ];
                let mut octets = message(0x6200_0000, 0, &words);
                octets[8 + 108..8 + 112].copy_from_slice(b"eth0");
                octets[8 + 124..8 + 127].copy_from_slice(b"fec");
                octets
            })
        });
        (run(&spec, at), server.join().unwrap())
    });
    let [target, host] = said.unwrap();
    assert_eq!(closed, Some(true));
    assert_eq!((target.flows[0].octets_total, target.flows[0].calls), (host.flows[0].octets_total, 0));
    let cpu = target.cpu.unwrap();
    assert_eq!((cpu.machine.busy, cpu.machine.system, cpu.machine.user), (0.125, 0.1, 0.0));
    assert_eq!((cpu.cpus, cpu.method.as_str(), cpu.per_cpu.len()), (4, "/proc/stat", 0));
    let nic = target.told.unwrap().nic.unwrap();
    assert_eq!((nic.name.as_str(), nic.driver.as_deref()), ("eth0", Some("fec")));
    // What was asked: DO_OMNI of no CPU, a second of TCP over IPv4, which the server receives; CPU use and congestion control.
    let word = |at: usize| i32::from_be_bytes(request[at..at + 4].try_into().unwrap());
    assert_eq!((word(0), word(4)), (97, -1));
    assert_eq!((word(8 + 56), word(8 + 84), word(8 + 88), word(8 + 92), word(8 + 96)), (1, 4, 1, 6, 4));
    assert_eq!((word(8 + 48) & 0x28, word(8), word(8 + 20)), (0x28, -1, -1));
}

/// A server that reads a request, says these octets, and closes or stays.
fn nonsense(spec: &Spec, says: &[u8], closes: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut stream = accept(&listener);
            let _ = stream.read(&mut [0; 656]);
            let _ = stream.write_all(says);
            if closes {
                let _ = stream.shutdown(Shutdown::Write);
            }
            let _ = stream.read_to_end(&mut Vec::new());
        });
        let began = Instant::now();
        let sentence = run(spec, at).unwrap_err();
        assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
        sentence
    })
}

#[test]
fn a_server_that_is_none_is_a_sentence() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let sentence = run(&spec(Workload::TcpStream), closed).unwrap_err();
    assert!(sentence.contains("start 'netserver' there"), "{sentence}");
    for workload in [Workload::TcpStream, Workload::UdpStream, Workload::TcpCrr] {
        let spec = Spec { rate: linerate_machine::units::OfferedLoad::Unlimited, ..spec(workload) };
        let said = |says: &[u8]| nonsense(&spec, says, true);
        let check = |says: &[u8], contains: &str| {
            let sentence = said(says);
            assert!(sentence.contains(contains), "{workload}: {sentence}");
        };
        check(b"", "if it was started with a passphrase (-Z), start it without");
        check(b"HTTP/1.1 400 Bad Request\r\n\r\n", "is no netserver; check the port");
        check(&[b'x'; 2000], "is no netserver");
        check(&message(98, 998, &[]), "has no omni tests; install netperf 2.5 or later there");
        check(&message(98, 1, &[]), "refused: Operation not permitted");
        for port in [0, -1, 65_536, i32::MIN] {
            check(&message(98, 0, &[(44, port)]), "as the port of its data; check what listens there");
        }
    }
    // A port on which nobody listens: its own, on no other machine.
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let sentence = nonsense(&spec(Workload::TcpStream), &message(98, 0, &[(44, free.into())]), false);
    assert!(sentence.contains("no connection passes to its TCP port"), "{sentence}");
}

#[test]
fn a_server_that_goes_before_its_results_is_a_sentence_and_no_figure() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    for (results, contains) in [
        (Vec::new(), "lost while its results were awaited"),
        (message(0x6200_0000, 110, &[]), "refused: "),
        (message(0x6200_0000, 0, &[])[..300].to_vec(), "lost while its results were awaited"),
    ] {
        let sentence = thread::scope(|scope| {
            scope.spawn(|| {
                let mut control = accept(&listener);
                control.read_exact(&mut [0; 656]).unwrap();
                let data = TcpListener::bind("127.0.0.1:0").unwrap();
                let port = i32::from(data.local_addr().unwrap().port());
                control.write_all(&message(98, 0, &[(44, port)])).unwrap();
                let mut stream = accept(&data);
                stream.read_to_end(&mut Vec::new()).unwrap();
                control.write_all(&results).unwrap();
            });
            run(&spec(Workload::TcpStream), at).unwrap_err()
        });
        assert!(sentence.contains(contains), "{sentence}");
        assert!(!sentence.contains("passphrase"), "it has taken the test: {sentence}");
    }
}

/// It is named before the controller gives the trial up.
#[test]
fn a_server_that_hangs_in_mid_test_is_a_sentence() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut control = accept(&listener);
            control.read_exact(&mut [0; 656]).unwrap();
            let data = TcpListener::bind("127.0.0.1:0").unwrap();
            let port = i32::from(data.local_addr().unwrap().port());
            control.write_all(&message(98, 0, &[(44, port)])).unwrap();
            let stream = accept(&data);
            let _ = control.read_to_end(&mut Vec::new());
            drop(stream);
        });
        let spec = spec(Workload::TcpStream);
        let began = Instant::now();
        let sentence = run(&spec, at).unwrap_err();
        let late = began.elapsed().saturating_sub(spec.expected_time().unwrap());
        assert!(late < Duration::from_millis(8900), "{late:?}");
        assert!(sentence.contains("had not closed the connection 8 s after the stream's end"), "{sentence}");
    });
}

/// A port whose queue of connections is full answers nothing, as one that a filter drops.
#[test]
fn a_port_of_data_that_is_filtered_is_named() {
    let data = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    data.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    data.listen(0).unwrap();
    let at = data.local_addr().unwrap().as_socket().unwrap();
    let _full = TcpStream::connect(at).unwrap();
    let began = Instant::now();
    let sentence = nonsense(&spec(Workload::TcpStream), &message(98, 0, &[(44, at.port().into())]), false);
    assert!(began.elapsed() < Duration::from_secs(8), "before the controller gives up: {:?}", began.elapsed());
    let named =
        format!("takes part, and no connection passes to its TCP port {}, for the data: it was silent", at.port());
    assert!(sentence.contains(&named) && sentence.contains("nft list ruleset"), "{sentence}");
}

#[test]
fn datagrams_of_which_none_arrives_are_a_sentence() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    for workload in [Workload::UdpStream, Workload::UdpRr] {
        let data = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = data.local_addr().unwrap().port();
        let sentence = thread::scope(|scope| {
            scope.spawn(|| {
                let mut control = accept(&listener);
                control.read_exact(&mut [0; 656]).unwrap();
                control.write_all(&message(98, 0, &[(44, port.into()), (28, float(100.0)), (32, 1)])).unwrap();
                thread::sleep(Duration::from_millis(800));
                control.write_all(&message(98, 0, &[(40, float(0.3))])).unwrap();
                let _ = control.read(&mut [0]);
            });
            run(&spec(workload), at).unwrap_err()
        });
        assert!(
            sentence.contains("takes part over TCP, and UDP does not pass: not one datagram of "),
            "{workload}: {sentence}"
        );
        assert!(sentence.contains(&format!("look for what drops UDP port {port}")), "{workload}: {sentence}");
    }
}

/// A server whose response to the first connection comes an octet at a time, and is not over when the trial is stopped.
#[test]
fn a_response_without_an_end_does_not_hold_whoever_stops() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let mut crr = spec(Workload::TcpCrr);
    (crr.extent, crr.rate, crr.response_size) = (Extent::Time(Duration::from_secs(60)), OfferedLoad::Unlimited, 1000);
    thread::scope(|scope| {
        let began = Instant::now();
        scope.spawn(move || {
            let mut control = accept(&listener);
            control.read_exact(&mut [0; 656]).unwrap();
            let data = TcpListener::bind("127.0.0.1:0").unwrap();
            let port = i32::from(data.local_addr().unwrap().port());
            control.write_all(&message(98, 0, &[(44, port)])).unwrap();
            let mut stream = accept(&data);
            while began.elapsed() < Duration::from_secs(8) && stream.write_all(b"x").is_ok() {
                thread::sleep(Duration::from_millis(50));
            }
        });
        let route = Route { local: at.ip(), interface: Some("lo".to_owned()), server: at, unanswered: None };
        let stopped = || began.elapsed() > Duration::from_millis(300);
        assert!(linerate_peers::run(Tool::Netperf, &[], &crr, &route, |_| {}, &stopped).is_err());
        assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    });
}

#[test]
fn figures_that_cannot_be_are_not_believed() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    for octet in [0xff, 0x7f, 0x00] {
        let said = thread::scope(|scope| {
            scope.spawn(|| {
                netserver(&listener, |received| match octet {
                    // All of it within a millisecond.
                    0 => message(98, 0, &[(4, received), (40, float(0.001))]),
                    _ => [message(98, 0, &[])[..8].to_vec(), vec![octet; 648]].concat(),
                })
            });
            run(&spec(Workload::TcpStream), at)
        });
        let [target, host] = said.unwrap();
        assert!(target.flows[0].octets_total <= host.flows[0].octets_total, "{octet}");
        assert!(target.flows[0].elapsed_ns >= 200_000_000, "{octet}: {}", target.flows[0].elapsed_ns);
        assert_eq!((target.cpu, target.told), (None, None), "{octet}");
    }
}

/// Its clock runs from its answer on, its data from when this end's connection is there: over a long round trip, and here.
#[test]
fn a_server_that_sends_did_not_while_it_was_not_connected() {
    const CONNECTING: Duration = Duration::from_millis(500);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let mut spec = Spec { direction: Direction::Tx, ..Spec::new(Workload::TcpStream) };
    spec.extent = Extent::Time(Duration::from_secs(1));
    let (said, told) = thread::scope(|scope| {
        let server = scope.spawn(|| {
            let mut control = accept(&listener);
            control.read_exact(&mut [0; 656]).unwrap();
            let data = TcpListener::bind("127.0.0.1:0").unwrap();
            let (began, port) = (Instant::now(), i32::from(data.local_addr().unwrap().port()));
            control.write_all(&message(98, 0, &[(44, port)])).unwrap();
            let mut stream = accept(&data);
            thread::sleep(CONNECTING);
            let mut sent = 0;
            while began.elapsed() < Duration::from_secs(1) {
                sent += stream.write(&[0; 10_000]).unwrap() as i32;
                thread::sleep(Duration::from_millis(5));
            }
            stream.shutdown(Shutdown::Write).unwrap();
            let told = began.elapsed();
            let _ = stream.read(&mut [0]);
            control.write_all(&message(98, 0, &[(20, sent), (40, float(told.as_secs_f32()))])).unwrap();
            let _ = control.read(&mut [0]);
            told
        });
        (run(&spec, at), server.join().unwrap())
    });
    let [target, host] = said.unwrap();
    let [target, host] = [&target, &host].map(|end| Duration::from_nanos(end.flows[0].elapsed_ns));
    assert!(target >= host && target <= told - CONNECTING / 2, "{target:?} of {told:?}, {host:?} here");
}
