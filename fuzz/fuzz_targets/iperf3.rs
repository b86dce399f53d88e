//! Fuzz target: an iperf3 server and an iperf3 client of ours, and strangers at the other end.
//! Knows the order of a test, so that strangers may keep to it for a while.
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
use linerate_peers::iperf3::datagram::{self, Counters};
use linerate_peers::iperf3::mapping::{outcome_of, parameters_of, results_of, spec_of};
use linerate_peers::iperf3::message::{MAX_TEXT, read_json, read_state};
use linerate_peers::iperf3::parameters::{MAX_PARAMETERS, Parameters};
use linerate_peers::iperf3::reconcile::reconcile;
use linerate_peers::iperf3::results::Results;
use linerate_peers::limits::Limits;
use linerate_peers::server::Server;
use linerate_trial::spec::{Extent, Spec, Workload};
use linerate_trial::tool::Tool;

/// How long an end of a conversation is waited for: a machine that runs this is busy.
const PATIENCE: Duration = Duration::from_secs(8);
const MOMENT: Duration = Duration::from_millis(5);
const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
static LIMITS: LazyLock<Limits> =
    LazyLock::new(|| Limits { tests: 8, rate: Some(200_000_000), time_s: 2, ..Limits::default() });

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
        0..=99 => texts(data),
        100..=199 => datagrams(data),
        200..=227 => serve(data),
        _ => ask(kind, data),
    }
});

/// What is read is bounded, has a meaning or an error, and can be said again.
fn texts(data: &[u8]) {
    let _ = read_state(&mut &data[..]);
    let framed = read_json::<Parameters>(&mut &data[..], MAX_PARAMETERS).ok();
    let parameters = framed.or_else(|| serde_json::from_slice::<Parameters>(data).ok());
    if let Some(parameters) = parameters
        && let Ok(spec) = spec_of(&parameters, &Limits::default())
    {
        assert!(spec.streams >= 1 && spec.streams <= 128 && spec.message_octets() >= 1);
        assert!(spec.expected_time().unwrap_or_default() <= Duration::from_secs(3600));
        if linerate_peers::check(Tool::Iperf3, &spec).is_ok() {
            let again = parameters_of(&spec);
            let text = serde_json::to_vec(&again).unwrap();
            assert_eq!(serde_json::from_slice::<Parameters>(&text).unwrap(), again);
        }
    }
    let framed = read_json::<Results>(&mut &data[..], MAX_TEXT).ok();
    if let Some(results) = framed.or_else(|| serde_json::from_slice::<Results>(data).ok()) {
        for workload in [Workload::TcpStream, Workload::UdpStream] {
            let mut spec = Spec::new(workload);
            (spec.direction, spec.streams) = (Direction::Both, 2);
            let (mut ours, mut theirs) =
                (outcome_of(&spec, End::Target, &results), outcome_of(&spec, End::Host, &results));
            reconcile(&mut ours, &mut theirs, Duration::from_millis(data.len() as u64));
            assert!(ours.flows.len() <= 4);
            let _ = results_of(&spec, &ours);
        }
    }
}

fn datagrams(data: &[u8]) {
    let _ = datagram::is_reply(data);
    for counters in [Counters::Short, Counters::Long] {
        if let Some((number, sent_at_ns)) = datagram::parse(counters, data) {
            let mut octets = [0; 16];
            let probe = linerate_trial::wire::Probe { sequence: number, measured: true, sent_at_ns };
            datagram::emit(counters, &probe, &mut octets);
            assert_eq!(datagram::parse(counters, &octets).map(|(number, _)| number), Some(number));
        }
    }
}

/// A server that lives as long as this process.
fn server() -> SocketAddr {
    static AT: OnceLock<SocketAddr> = OnceLock::new();
    *AT.get_or_init(|| {
        let server = Server::bind(Tool::Iperf3, Some(LOOPBACK), 0, LIMITS.clone()).expect("a free port");
        let at = SocketAddr::new(LOOPBACK, server.port().expect("a port"));
        thread::spawn(move || {
            server.run(|_| false, drop).expect("a server that serves");
            std::process::abort();
        });
        at
    })
}

/// A stranger's conversation with the server: each octet of the input says what is done, and how much of the rest of it is
/// said.
fn serve(data: &[u8]) {
    let at = server();
    let control = TcpStream::connect_timeout(&at, PATIENCE).expect("the server lives");
    let cookie = [&[b'a' + data.len() as u8 % 26; 36][..], b"\0"].concat();
    let (mut control, mut streams, mut datagrams) = (control, Vec::new(), Vec::new());
    let mut left = data;
    while let Some((&what, rest)) = left.split_first() {
        let (said, rest) = rest.split_at(rest.len().min(usize::from(what >> 3) * 8));
        match what % 8 {
            0 => drop(control.write_all(&cookie)),
            1 => drop(control.write_all(said)),
            2 => drop(control.write_all(&[&(said.len() as u32).to_be_bytes(), said].concat())),
            3 => drop(control.write_all(&[what >> 3])),
            4 if streams.len() < 8 => {
                if let Ok(mut stream) = TcpStream::connect_timeout(&at, PATIENCE) {
                    let _ = stream.write_all(&cookie).and_then(|()| stream.write_all(said));
                    streams.push(stream);
                }
            }
            5 if datagrams.len() < 8 => {
                let udp = UdpSocket::bind((LOOPBACK, 0)).expect("a free port");
                let _ = udp.send_to(said, at);
                datagrams.push(udp);
            }
            6 => {
                let _ = control.set_read_timeout(Some(MOMENT));
                let _ = control.read(&mut [0; 64]);
            }
            _ => datagrams.iter().for_each(|udp| drop(udp.send_to(said, at))),
        }
        left = rest;
    }
    drop(streams);
    await_end(control);
}

/// Whatever was said, a connection that its client has closed is closed by the server too.
fn await_end(mut control: TcpStream) {
    let _ = control.shutdown(Shutdown::Write);
    let _ = control.set_read_timeout(Some(MOMENT));
    let (mut octets, began) = ([0; 4096], Instant::now());
    loop {
        match control.read(&mut octets) {
            Ok(0) => return,
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return,
            _ => assert!(began.elapsed() < 3 * PATIENCE, "the server holds a client that went"),
        }
    }
}

/// A stranger that our client takes for a server: what it says before the test runs, and after its end.
fn ask(kind: u8, data: &[u8]) {
    let listener = TcpListener::bind((LOOPBACK, 0)).expect("a free port");
    let server = listener.local_addr().expect("an address");
    let udp = UdpSocket::bind(server).ok();
    let mut spec = Spec::new(if kind & 1 == 0 || udp.is_none() { Workload::TcpStream } else { Workload::UdpStream });
    spec.direction = [Direction::Rx, Direction::Tx, Direction::Both][usize::from(kind / 2 % 3)];
    (spec.extent, spec.warmup) = (Extent::Time(Duration::from_millis(10)), Duration::ZERO);
    spec.rate = "10M".parse().expect("a rate");
    // Half of the strangers keep to the order until the test runs.
    let (before, after) = match data.split_first() {
        Some((&len, rest)) if kind & 8 != 0 => rest.split_at(rest.len().min(len.into())),
        _ => (&b"\x09\x0a\x01\x02"[..], data),
    };
    let (over, gone) = (AtomicBool::new(false), AtomicBool::new(false));
    listener.set_nonblocking(true).expect("a socket");
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut connections: Vec<TcpStream> = Vec::new();
            let (mut heard, mut said) = (Vec::new(), false);
            if let Some(udp) = &udp {
                let _ = udp.set_nonblocking(true);
            }
            while !over.load(Ordering::Relaxed) {
                if let Ok((mut stream, _)) = listener.accept() {
                    let _ = stream.set_nonblocking(true);
                    let _ = stream.write_all(if connections.is_empty() { before } else { data });
                    connections.push(stream);
                }
                if let Some((len, peer)) = udp.as_ref().and_then(|udp| udp.recv_from(&mut [0; 64]).ok()) {
                    // Its own client waits for no answer longer than this target can.
                    let answer = if len == 4 && kind & 16 == 0 { &datagram::REPLY[..] } else { data };
                    let _ = udp.as_ref().map(|udp| udp.send_to(answer, peer));
                }
                if let Some(control) = connections.first_mut() {
                    let mut octets = [0; 256];
                    if let Ok(len) = control.read(&mut octets) {
                        heard.extend_from_slice(&octets[..len]);
                    }
                    // The cookie, the parameters, and the word that the test is over.
                    let asked =
                        heard.get(37..41).map(|len| u32::from_be_bytes([len[0], len[1], len[2], len[3]]) as usize);
                    let ended = asked.is_some_and(|len| heard.len() > 41 + len);
                    if (ended || kind & 8 != 0) && !said {
                        let _ = control.write_all(after);
                        let _ = control.shutdown(Shutdown::Write);
                        said = true;
                        gone.store(true, Ordering::Relaxed);
                    }
                }
                thread::sleep(Duration::from_micros(200));
            }
        });
        let route = Route { local: LOOPBACK, interface: Some("lo".to_owned()), server, unanswered: None };
        let began = Instant::now();
        let came = linerate_peers::run(Tool::Iperf3, &[], &spec, &route, |_| {}, &|| gone.load(Ordering::Relaxed))
            .map_err(|error| error.to_string());
        over.store(true, Ordering::Relaxed);
        if let Err(sentence) = came {
            assert!(!sentence.is_empty() && sentence.len() < 1000, "{sentence}");
        }
        assert!(began.elapsed() < 4 * PATIENCE, "a client waits for {:?}", began.elapsed());
    });
}
