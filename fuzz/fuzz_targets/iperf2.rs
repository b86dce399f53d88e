//! Fuzz target: an iperf2 server and an iperf2 client of ours, and strangers at the other end.
//! Knows headers and reports, so that strangers may have good ones for a while.
#![no_main]

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{LazyLock, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use libfuzzer_sys::fuzz_target;
use linerate_machine::end::{Direction, End};
use linerate_peers::Route;
use linerate_peers::iperf2::bounce_back::{self, EXCHANGE};
use linerate_peers::iperf2::datagram::{self, Numbers};
use linerate_peers::iperf2::header::{BASE_LEN, Header, VERSION1};
use linerate_peers::iperf2::mapping::{header_of, reported, spec_of};
use linerate_peers::iperf2::report::Report;
use linerate_peers::limits::Limits;
use linerate_peers::plausible;
use linerate_peers::server::Server;
use linerate_trial::outcome::{FlowOutcome, Outcome, Role};
use linerate_trial::spec::{Extent, Spec, Workload};
use linerate_trial::tool::Tool;

const PATIENCE: Duration = Duration::from_secs(8);
const MOMENT: Duration = Duration::from_millis(5);
const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
static LIMITS: LazyLock<Limits> =
    LazyLock::new(|| Limits { tests: 32, rate: Some(200_000_000), time_s: 2, ..Limits::default() });

fuzz_target!(init: linerate_host::sys::signals::ignore_sigpipe(), |data: &[u8]| {
    // The first octet says which part is tried.
    let Some((&kind, data)) = data.split_first() else { return };
    // Conversations are dear, and look new each time: of the inputs that have one, few do. The first does, so that what was
    // found is found again.
    static TURN: AtomicU32 = AtomicU32::new(0);
    if kind >= 200 && TURN.fetch_add(1, Ordering::Relaxed) % 50 != 0 {
        return;
    }
    match kind {
        0..=99 => headers(data),
        100..=199 => datagrams(data),
        200..=213 => serve(kind, data),
        214..=227 => serve_datagrams(data),
        228..=241 => ask(kind, data),
        _ => ask_for_datagrams(kind, data),
    }
});

fn headers(data: &[u8]) {
    let flags = data.get(..4).map_or(0, |flags| u32::from_be_bytes([flags[0], flags[1], flags[2], flags[3]]));
    assert!(Header::len(flags).is_none_or(|len| (BASE_LEN..=256).contains(&len)));
    if let Some(header) = Header::parse(data) {
        let _ = (header.version(), header.wants_ack());
        for workload in [Workload::TcpStream, Workload::UdpStream] {
            if let Ok(spec) = spec_of(&header, workload, 1470, &LIMITS) {
                assert!((1..=128).contains(&spec.streams) && (1..=16 << 20).contains(&spec.message_octets()));
                assert!(spec.expected_time().unwrap_or_default() <= Duration::from_secs(LIMITS.time_s));
                let _ = header_of(&spec, spec.direction).emit();
            }
        }
    }
    if let Some(size) = bounce_back::size(data) {
        assert!(size >= bounce_back::MIN_LEN);
        let mut request = data.to_vec();
        // How long it is to wait.
        if let Some(hold) = request.get_mut(44..48) {
            hold.fill(0);
        }
        let mut response = vec![0; 100];
        (EXCHANGE.answer)(&request, &mut response);
        (EXCHANGE.ask)(7, &mut request);
    }
}

fn datagrams(data: &[u8]) {
    for numbers in [Numbers::Short, Numbers::Long] {
        let parsed = datagram::parse(numbers, data);
        assert!(parsed.is_none() || datagram::number(numbers, data).is_some_and(|number| number != 0));
        let _ = datagram::is_last(numbers, data);
    }
    let _ = datagram::header(data);
    if let Some(report) = Report::parse(data) {
        let mut ours = FlowOutcome::new(0, Role::Sender);
        (ours.messages, ours.messages_total) = (10, 10);
        if let Some(far) = reported(&mut ours, &report, 3) {
            assert!(ours.messages_total <= 13);
            let mut theirs = Outcome::of_flows(End::Target, vec![far]);
            let near = Outcome::of_flows(End::Host, vec![ours.clone()]);
            plausible::limit(&Spec::new(Workload::UdpStream), &near, &mut theirs, Duration::from_secs(60));
            let far = &theirs.flows[0];
            assert!(far.messages_total <= ours.messages_total && far.octets_total <= ours.octets_total);
        }
        // What this end says has long numbers, whatever it heard.
        let ours = Report { is_short: false, is_old: false, ..report };
        assert!(data.len() < 128 || Report::parse(&ours.emit()) == Some(ours));
    }
}

/// A server that lives as long as this process.
fn server() -> SocketAddr {
    static AT: OnceLock<SocketAddr> = OnceLock::new();
    *AT.get_or_init(|| {
        let server = Server::bind(Tool::Iperf2, Some(LOOPBACK), 0, LIMITS.clone()).expect("a free port");
        let at = SocketAddr::new(LOOPBACK, server.port().expect("a port"));
        thread::spawn(move || {
            server.run(|_| false, drop).expect("a server that serves");
            std::process::abort();
        });
        at
    })
}

/// What a client says first; it wants no connection back, for that would go to whoever listens on this machine.
fn tame(data: &[u8], flags_at: usize) -> Vec<u8> {
    let mut data = data.to_vec();
    if let Some(first) = data.get_mut(flags_at) {
        *first &= !(VERSION1 >> 24) as u8;
    }
    data
}

/// A stranger's connection: in one piece, or two.
fn serve(kind: u8, data: &[u8]) {
    let mut stream = TcpStream::connect_timeout(&server(), PATIENCE).expect("the server lives");
    let data = tame(data, 0);
    let (first, second) = data.split_at(if kind & 1 == 0 { data.len() } else { data.len() / 2 });
    let _ = stream.write_all(first);
    if kind & 1 != 0 {
        thread::sleep(MOMENT);
        let _ = stream.write_all(second);
    }
    let _ = stream.shutdown(Shutdown::Write);
    let _ = stream.set_read_timeout(Some(MOMENT));
    let (mut octets, began) = ([0; 65_536], Instant::now());
    loop {
        match stream.read(&mut octets) {
            Ok(0) => return,
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return,
            // A stream that was asked for ends within the limit, and a queue of others.
            _ => assert!(began.elapsed() < 4 * PATIENCE, "the server holds a client that went"),
        }
    }
}

/// A stranger's datagrams, each of a length that the input says, and a word that they are over.
fn serve_datagrams(data: &[u8]) {
    let at = server();
    let udp = UdpSocket::bind((LOOPBACK, 0)).expect("a free port");
    let mut left = data;
    while let Some((&len, rest)) = left.split_first() {
        let (said, rest) = rest.split_at(rest.len().min(len.into()));
        let _ = udp.send_to(&tame(said, datagram::PREFIX_LEN), at);
        left = rest;
    }
    let mut last = [0; 64];
    for number in 1..4 {
        datagram::emit_last(number << 40, 0, &mut last);
        thread::sleep(Duration::from_millis(1));
        let _ = udp.send_to(&last, at);
    }
}

fn spec(workload: Workload, kind: u8) -> Spec {
    let mut spec = Spec::new(workload);
    spec.direction = [Direction::Rx, Direction::Tx, Direction::Both][usize::from(kind % 3)];
    (spec.extent, spec.warmup) = (Extent::Time(Duration::from_millis(10)), Duration::ZERO);
    spec.rate = "10M".parse().expect("a rate");
    if workload == Workload::TcpRr {
        (spec.direction, spec.request_size, spec.response_size) = (Direction::Rx, 64, 64);
    }
    spec
}

#[track_caller]
fn check(spec: &Spec, server: SocketAddr) {
    let route = Route { local: LOOPBACK, interface: Some("lo".to_owned()), server, unanswered: None };
    let began = Instant::now();
    if let Err(sentence) =
        linerate_peers::run(Tool::Iperf2, &[], spec, &route, |_| {}, &|| false).map_err(|error| error.to_string())
    {
        assert!(!sentence.is_empty() && sentence.len() < 1000, "{sentence}");
    }
    assert!(began.elapsed() < 4 * PATIENCE, "a client waits for {:?}", began.elapsed());
}

/// A stranger that our client takes for a server over TCP.
fn ask(kind: u8, data: &[u8]) {
    let listener = TcpListener::bind((LOOPBACK, 0)).expect("a free port");
    let at = listener.local_addr().expect("an address");
    thread::scope(|scope| {
        scope.spawn(|| {
            let Ok((mut stream, _)) = listener.accept() else { return };
            let _ = stream.set_read_timeout(Some(MOMENT));
            let _ = stream.read(&mut [0; 64]);
            let _ = stream.write_all(data);
            let _ = stream.shutdown(Shutdown::Write);
            let (mut octets, began) = ([0; 65_536], Instant::now());
            while !matches!(stream.read(&mut octets), Ok(0)) && began.elapsed() < MOMENT * 10 {}
        });
        check(&spec(if kind & 1 == 0 { Workload::TcpStream } else { Workload::TcpRr }, kind / 2), at);
    });
}

/// And over UDP: some answers are the input's, and then good ones, for a client waits for those.
fn ask_for_datagrams(kind: u8, data: &[u8]) {
    let udp = UdpSocket::bind((LOOPBACK, 0)).expect("a free port");
    let at = udp.local_addr().expect("an address");
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let _ = udp.set_read_timeout(Some(MOMENT));
            let (mut answers, mut left) = (0u64, data);
            while !over.load(Ordering::Relaxed) {
                let Ok((_, peer)) = udp.recv_from(&mut [0; 2048]) else { continue };
                answers += 1;
                let (said, rest) = match left.split_first() {
                    Some((&len, rest)) => rest.split_at(rest.len().min(len.into())),
                    None => (&b""[..], left),
                };
                left = rest;
                let _ = udp.send_to(said, peer);
                if answers > 3 {
                    let mut last = [0; 64];
                    datagram::emit_last(answers, 0, &mut last);
                    let _ = udp.send_to(&Report { datagrams: answers, ..Report::default() }.emit(), peer);
                    let _ = udp.send_to(&last, peer);
                }
            }
        });
        check(&spec(Workload::UdpStream, kind), at);
        over.store(true, Ordering::Relaxed);
    });
}
