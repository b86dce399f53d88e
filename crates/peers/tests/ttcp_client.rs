//! Our ttcp client: to receivers and from senders as classic ttcp is one, by its octets, and to our own server.
//! Knows no records.

use std::io::Write;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use linerate_host::traffic::reachability::UnprovenLimit;
use linerate_machine::end::Direction;
use linerate_peers::Route;
use linerate_peers::limits::Limits;
use linerate_peers::server::Server;
use linerate_trial::outcome::Outcome;
use linerate_trial::spec::{Extent, Spec, Workload};
use linerate_trial::tool::Tool;

fn run(spec: &Spec, server: SocketAddr) -> Result<[Outcome; 2], String> {
    let local = if server.is_ipv4() { "127.0.0.1" } else { "::1" }.parse().unwrap();
    // A ttcp answers nothing over UDP.
    let unanswered = Some(UnprovenLimit { bits_per_second: 100_000_000 });
    let route = Route { local, interface: Some("lo".to_owned()), server, unanswered };
    linerate_peers::run(Tool::Ttcp, &[], spec, &route, |_| {}, &|| false).map_err(|error| error.to_string())
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn spec(workload: Workload, direction: Direction, octets: u64) -> Spec {
    let mut spec = Spec { direction, extent: Extent::Octets(octets), ..Spec::new(workload) };
    spec.message_size = Some(1000);
    if workload.is_udp() && direction == Direction::Rx {
        spec.rate = "20M".parse().unwrap();
    }
    spec
}

#[test]
fn a_stream_is_what_a_receiver_counts() {
    for address in ["127.0.0.1", "::1"] {
        let listener = TcpListener::bind(SocketAddr::new(address.parse().unwrap(), 0)).unwrap();
        let at = listener.local_addr().unwrap();
        thread::scope(|scope| {
            let receiver = scope.spawn(|| {
                let (mut stream, _) = listener.accept().unwrap();
                std::io::copy(&mut stream, &mut std::io::sink()).unwrap()
            });
            let [target, host] = run(&spec(Workload::TcpStream, Direction::Rx, 3_000_000), at).unwrap();
            assert_eq!(receiver.join().unwrap(), 3_000_000);
            assert_eq!((host.flows[0].octets_total, target.flows[0].octets_total), (3_000_000, 3_000_000));
            assert!(target.flows[0].elapsed_ns > 0);
        });
    }
}

#[test]
fn datagrams_stand_between_one_mark_and_five() {
    for address in ["127.0.0.1", "::1"] {
        let socket = UdpSocket::bind(SocketAddr::new(address.parse().unwrap(), 0)).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        let at = socket.local_addr().unwrap();
        let mut lengths = Vec::new();
        thread::scope(|scope| {
            let sending = scope.spawn(|| run(&spec(Workload::UdpStream, Direction::Rx, 100_000), at).unwrap());
            let mut octets = [0; 2000];
            while let Ok(len) = socket.recv(&mut octets) {
                assert!(len > 4 || octets[..len].iter().any(|octet| *octet != 0), "some pass over zeroes");
                lengths.push(len);
            }
            let [target, host] = sending.join().unwrap();
            assert_eq!((host.flows[0].messages_total, target.flows.len()), (100, 0), "nothing is told");
        });
        let wanted = [vec![4], vec![1000; 100], vec![4; 5]].concat();
        assert_eq!(lengths, wanted);
    }
}

#[test]
fn a_sender_of_the_targets_is_received() {
    for (address, workload) in [
        ("127.0.0.1", Workload::TcpStream),
        ("::1", Workload::TcpStream),
        ("127.0.0.1", Workload::UdpStream),
        ("::1", Workload::UdpStream),
    ] {
        let ip: IpAddr = address.parse().unwrap();
        let at = SocketAddr::new(ip, free_port());
        thread::scope(|scope| {
            scope.spawn(move || match workload {
                Workload::TcpStream => {
                    let mut stream = connect(at);
                    stream.write_all(&vec![b'x'; 1_000_000]).unwrap();
                }
                _ => {
                    thread::sleep(Duration::from_millis(300));
                    let socket = UdpSocket::bind(SocketAddr::new(ip, 0)).unwrap();
                    for len in [vec![4], vec![1000; 50], vec![4; 5]].concat() {
                        let _ = socket.send_to(&vec![b'x'; len], at);
                    }
                }
            });
            let mut wanted = spec(workload, Direction::Tx, 1);
            wanted.extent = Extent::Time(Duration::from_secs(5));
            let [target, host] = run(&wanted, at).unwrap();
            let octets = if workload.is_udp() { 50_000 } else { 1_000_000 };
            assert_eq!(host.flows[0].octets_total, octets, "{address} {workload}");
            assert_eq!(target.flows.is_empty(), workload.is_udp(), "what a sender of datagrams sent is not told");
        });
    }
}

/// To whoever will listen.
fn connect(at: SocketAddr) -> TcpStream {
    let began = Instant::now();
    loop {
        match TcpStream::connect(at) {
            Ok(stream) => return stream,
            Err(error) => assert!(began.elapsed() < Duration::from_secs(10), "{error}"),
        }
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_stranger_is_no_sender() {
    let at = SocketAddr::new("127.0.0.1".parse().unwrap(), free_port());
    thread::scope(|scope| {
        scope.spawn(move || {
            // First another machine, then the target.
            let stranger = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
            stranger.bind(&SocketAddr::new("127.0.0.2".parse().unwrap(), 0).into()).unwrap();
            connect_from(&stranger, at);
            let mut target = connect(at);
            target.write_all(b"from the target").unwrap();
        });
        let mut wanted = spec(Workload::TcpStream, Direction::Tx, 1);
        wanted.extent = Extent::Time(Duration::from_secs(5));
        let [_, host] = run(&wanted, at).unwrap();
        assert_eq!(host.flows[0].octets_total, 15);
    });
}

fn connect_from(socket: &socket2::Socket, at: SocketAddr) {
    let began = Instant::now();
    while socket.connect(&at.into()).is_err() && began.elapsed() < Duration::from_secs(10) {
        thread::sleep(Duration::from_millis(20));
    }
    let _ = (&*socket).write_all(b"from a stranger");
}

#[test]
fn time_ends_a_sender_that_does_not_end() {
    let at = SocketAddr::new("127.0.0.1".parse().unwrap(), free_port());
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut stream = connect(at);
            while stream.write_all(&[0; 10_000]).is_ok() {}
        });
        let mut wanted = spec(Workload::TcpStream, Direction::Tx, 1);
        wanted.extent = Extent::Time(Duration::from_millis(500));
        let [_, host] = run(&wanted, at).unwrap();
        let ms = host.flows[0].elapsed_ns / 1_000_000;
        assert!((400..700).contains(&ms), "{ms} ms");
    });
}

#[test]
fn our_own_server_counts_what_our_client_sends() {
    let server = Server::bind(Tool::Ttcp, Some("127.0.0.1".parse().unwrap()), 0, Limits::default()).unwrap();
    let at = SocketAddr::new("127.0.0.1".parse().unwrap(), server.port().unwrap());
    let (over, served) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        let serving =
            scope.spawn(|| server.run(|_| over.load(Ordering::Relaxed), |one| served.lock().unwrap().push(one)));
        let checked = scope.spawn(|| {
            for (number, workload) in [Workload::TcpStream, Workload::UdpStream].into_iter().enumerate() {
                let mut wanted = spec(workload, Direction::Rx, 1);
                (wanted.extent, wanted.rate) = (Extent::Time(Duration::from_millis(600)), "20M".parse().unwrap());
                let [_, host] = run(&wanted, at).unwrap();
                let began = Instant::now();
                while served.lock().unwrap().len() <= number && began.elapsed() < Duration::from_secs(5) {
                    thread::sleep(Duration::from_millis(10));
                }
                let served = served.lock().unwrap();
                let [theirs, _] = served[number].ended.as_ref().unwrap().as_ref();
                assert_eq!(theirs.flows[0].octets_total, host.flows[0].octets_total, "{workload}");
                let [here, there] = [&host, theirs].map(|end| end.flows[0].elapsed_ns as f64 / 1e9);
                assert!((here - there).abs() < 0.1, "{workload}: {here} s, {there} s");
            }
        });
        let checked = checked.join();
        over.store(true, Ordering::Relaxed);
        serving.join().unwrap().unwrap();
        checked.unwrap();
    });
}

#[test]
fn a_receiver_that_is_none_is_a_sentence() {
    let nobody = SocketAddr::new("127.0.0.1".parse().unwrap(), free_port());
    for (workload, word) in
        [(Workload::TcpStream, "start 'ttcp -r -s' there"), (Workload::UdpStream, "'ttcp -r -s -u'")]
    {
        let sentence = run(&spec(workload, Direction::Rx, 1000), nobody).unwrap_err();
        assert!(sentence.contains(word), "{sentence}");
    }
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let sentence = run(&spec(Workload::TcpStream, Direction::Tx, 1000), taken.local_addr().unwrap()).unwrap_err();
    assert!(sentence.contains("cannot listen on port"), "{sentence}");
    // One that reads nothing and goes.
    thread::scope(|scope| {
        scope.spawn(|| drop(taken.accept()));
        let said = run(&spec(Workload::TcpStream, Direction::Rx, 100_000_000), taken.local_addr().unwrap());
        let sentence = said.map(|_| ()).unwrap_err();
        assert!(sentence.contains("ended the connection in mid-test"), "{sentence}");
    });
}
