//! Datagrams with a forged source address, to each tool's server, and clients of ours that are pointed at somebody who does not
//! answer: what arrives at an address that asked for nothing.
//! Knows no records. That address is one of loopback's others, and its owner counts.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use linerate_host::traffic::reachability::UnprovenLimit;
use linerate_peers::Route;
use linerate_peers::limits::Limits;
use linerate_peers::served_test::ServedTest;
use linerate_peers::server::Server;
use linerate_trial::outcome::Outcome;
use linerate_trial::spec::{Direction, Extent, Spec, Workload};
use linerate_trial::tool::Tool;

/// Where the servers listen.
const HERE: &str = "127.0.0.1";
/// Who takes no part.
const STRANGER: &str = "127.0.0.66";

/// Has a server while `work` goes on with its address.
macro_rules! with_server {
    ($tool:expr, $limits:expr, $work:expr) => {{
        let server = Server::bind($tool, Some(HERE.parse().unwrap()), 0, $limits).unwrap();
        let at = SocketAddr::new(HERE.parse().unwrap(), server.port().unwrap());
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            let serving = scope.spawn(|| server.run(|_| over.load(Ordering::Relaxed), |_: ServedTest| {}));
            let work: &dyn Fn(SocketAddr) -> _ = &$work;
            let said = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(at)));
            over.store(true, Ordering::Relaxed);
            serving.join().unwrap().unwrap();
            said.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }};
}

/// Somebody in whose name datagrams are sent, and what that brought.
struct Stranger {
    socket: UdpSocket,
    sent: u64,
}

/// What arrived at somebody.
#[derive(Debug, Default, PartialEq)]
struct Arrived {
    datagrams: u64,
    octets: u64,
}

impl Stranger {
    fn new() -> Stranger {
        let socket = UdpSocket::bind((STRANGER, 0)).unwrap();
        Stranger { socket, sent: 0 }
    }

    fn forge(&mut self, at: SocketAddr, octets: &[u8]) {
        self.sent += octets.len() as u64;
        self.socket.send_to(octets, at).unwrap();
    }

    /// What arrives within this time.
    fn count(&self, time: Duration) -> Arrived {
        self.socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let (began, mut arrived, mut octets) = (Instant::now(), Arrived::default(), vec![0; 65_536]);
        while began.elapsed() < time {
            if let Ok(len) = self.socket.recv(&mut octets) {
                arrived.datagrams += 1;
                arrived.octets += len as u64;
            }
        }
        arrived
    }
}

/// An iperf2 client's first datagram, or its last, of this length.
fn iperf2_datagram(number: i64, flags: u32, upper: u16, amount: i32, len: usize) -> Vec<u8> {
    let mut octets = vec![0; len.max(80)];
    octets[..4].copy_from_slice(&(number as u32).to_be_bytes());
    octets[12..16].copy_from_slice(&((number >> 32) as u32).to_be_bytes());
    // 64-bit numbers, an extension, 80 octets up to the end of the header.
    let flags = flags | 0x0800_0000 | 0x4000_0000 | 0x0001_0000 | 80 << 1;
    for (at, word) in [(16, flags), (20, 1), (24, 5001), (28, 1470), (36, amount.cast_unsigned())] {
        octets[at..at + 4].copy_from_slice(&word.to_be_bytes());
    }
    octets[48..50].copy_from_slice(&upper.to_be_bytes());
    octets.truncate(len);
    octets
}

const REVERSE: u16 = 0x0400;
const FULL_DUPLEX: u16 = 0x0800;
const VERSION2: u32 = 0x0400_0000 | 0x2000_0000;
const VERSION1: u32 = 0x8000_0000;
const AT_ONCE: u32 = 1;
/// Ten minutes, in the protocol's steps of 10 ms.
const TEN_MINUTES: i32 = -60_000;

#[test]
fn one_forged_datagram_has_iperf2_send_nothing() {
    for (flags, upper) in [(VERSION2, REVERSE), (VERSION2, FULL_DUPLEX), (VERSION1 | AT_ONCE, 0), (VERSION1, 0)] {
        let arrived = with_server!(Tool::Iperf2, Limits::default(), |at| {
            let mut stranger = Stranger::new();
            stranger.forge(at, &iperf2_datagram(1, flags, upper, TEN_MINUTES, 104));
            // One of the two-way tests sends only once the other way is over.
            stranger.forge(at, &iperf2_datagram(-2, flags, upper, TEN_MINUTES, 18));
            stranger.count(Duration::from_millis(600))
        });
        assert_eq!(arrived, Arrived::default(), "{flags:08x} {upper:04x}");
    }
}

#[test]
fn iperf2_answers_no_more_than_was_forged() {
    // A plain test: its header, nothing else, and ends as short as they may be.
    for (first, ends) in [(40, 1), (40, 3), (104, 1), (40, 12)] {
        with_server!(Tool::Iperf2, Limits::default(), |at| {
            let mut stranger = Stranger::new();
            stranger.forge(at, &iperf2_datagram(1, 0, 0, TEN_MINUTES, first));
            for number in 0..ends {
                stranger.forge(at, &iperf2_datagram(-2 - number, 0, 0, TEN_MINUTES, 18));
                thread::sleep(Duration::from_millis(20));
            }
            let arrived = stranger.count(Duration::from_millis(1200));
            assert!(arrived.octets <= stranger.sent, "{first} {ends}: {arrived:?} for {}", stranger.sent);
        });
    }
}

#[test]
fn what_is_allowed_to_iperf2_is_bounded_and_ends_at_a_refusal() {
    const RATE: u64 = 8_000_000;
    let limits = || Limits { unproven: Some(UnprovenLimit { bits_per_second: RATE }), ..Limits::default() };
    let ask_for = |what: u16, rate: u32| {
        // A minute.
        let mut octets = iperf2_datagram(1, VERSION2, what, -6000, 104);
        octets[64..68].copy_from_slice(&rate.to_be_bytes());
        octets
    };
    let ask = |rate: u32| ask_for(REVERSE, rate);
    with_server!(Tool::Iperf2, limits(), |at| {
        // Without a rate, above the rate, and longer than a minute.
        for octets in [ask(0), ask(8_000_001), iperf2_datagram(1, VERSION2, REVERSE, -6001, 104)] {
            let mut stranger = Stranger::new();
            stranger.forge(at, &octets);
            assert_eq!(stranger.count(Duration::from_millis(400)), Arrived::default());
        }
        // Many are forged: one is sent to.
        let mut strangers: Vec<Stranger> = (0..5).map(|_| Stranger::new()).collect();
        strangers.iter_mut().for_each(|stranger| stranger.forge(at, &ask(8_000_000)));
        let began = Instant::now();
        let mut arrived = 0;
        while began.elapsed() < Duration::from_secs(1) {
            arrived += strangers.iter().map(|one| one.count(Duration::from_millis(1)).octets).sum::<u64>();
        }
        let seconds = began.elapsed().as_secs_f64();
        assert!(arrived > 0 && arrived as f64 <= RATE as f64 / 8.0 * (seconds + 0.2), "{arrived} in {seconds} s");
        // Nobody listens there any more, which its machine says: another is served at once, again and again.
        drop(strangers);
        for what in [REVERSE, FULL_DUPLEX, REVERSE, FULL_DUPLEX] {
            let began = Instant::now();
            loop {
                let mut other = Stranger::new();
                other.forge(at, &ask_for(what, 8_000_000));
                if other.count(Duration::from_millis(300)) != Arrived::default() {
                    break;
                }
                assert!(began.elapsed() < Duration::from_secs(4), "{what:04x}: what was refused goes on");
            }
        }
    });
}

/// An iperf3 client's control connection, as far as the moment at which it opens its streams.
fn iperf3_control(at: SocketAddr, parallel: u32) -> TcpStream {
    let mut control = TcpStream::connect(at).unwrap();
    let mut octet = [0];
    control.write_all(b"abcdefghijklmnopqrstuvwxyz2345672345\0").unwrap();
    control.read_exact(&mut octet).unwrap();
    let text = format!(
        r#"{{"udp":true,"omit":0,"time":1,"num":0,"blockcount":0,"parallel":{parallel},"reverse":true,"len":1000,"bandwidth":10000000}}"#
    );
    control.write_all(&(text.len() as u32).to_be_bytes()).unwrap();
    control.write_all(text.as_bytes()).unwrap();
    control.read_exact(&mut octet).unwrap();
    assert_eq!(octet, [10], "streams may be opened");
    control
}

#[test]
fn iperf3_sends_to_the_address_of_the_control_connection_and_to_as_many_ports_as_streams() {
    with_server!(Tool::Iperf3, Limits::default(), |at| {
        let mut stranger = Stranger::new();
        stranger.forge(at, b"9876");
        let mut control = iperf3_control(at, 1);
        for _ in 0..3 {
            stranger.forge(at, b"9876");
        }
        assert_eq!(stranger.count(Duration::from_millis(200)), Arrived::default());
        let (own, more) = (UdpSocket::bind((HERE, 0)).unwrap(), UdpSocket::bind((HERE, 0)).unwrap());
        own.send_to(b"9876", at).unwrap();
        control.read_exact(&mut [0; 2]).unwrap();
        more.send_to(b"9876", at).unwrap();
        stranger.forge(at, b"9876");
        own.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        assert!(own.recv(&mut [0; 2000]).is_ok(), "the client is served");
        assert_eq!(stranger.count(Duration::from_millis(300)), Arrived::default());
        more.set_nonblocking(true).unwrap();
        assert!(more.recv(&mut [0; 2000]).is_err(), "one stream was asked for");
    });
}

#[test]
fn netperf_answers_the_control_connections_address_alone() {
    with_server!(Tool::Netperf, Limits::default(), |at: SocketAddr| {
        let mut stranger = Stranger::new();
        let own = UdpSocket::bind((HERE, 0)).unwrap();
        // UDP_RR with small requests and large responses, at the port that the stranger has, too.
        for port in [own.local_addr().unwrap().port(), stranger.socket.local_addr().unwrap().port()] {
            let mut control = TcpStream::connect(at).unwrap();
            let mut octets = vec![0; 656];
            octets[..8].copy_from_slice(&[0, 0, 0, 97, 0xff, 0xff, 0xff, 0xff]);
            for (at, word) in [(0, -1), (4, -1), (20, 1), (24, -1), (28, -1), (44, 1400), (56, 1), (84, 4), (88, 2)] {
                octets[8 + at..12 + at].copy_from_slice(&i32::to_be_bytes(word));
            }
            for (at, word) in [(92, 17), (96, 6), (100, i32::from(port)), (148, -1)] {
                octets[8 + at..12 + at].copy_from_slice(&i32::to_be_bytes(word));
            }
            control.write_all(&octets).unwrap();
            control.read_exact(&mut octets).unwrap();
            assert_eq!(octets[4..8], [0; 4], "the test is taken");
            let data = u16::from_be_bytes([octets[54], octets[55]]);
            for _ in 0..5 {
                stranger.forge(SocketAddr::new(at.ip(), data), b"x");
            }
            assert_eq!(stranger.count(Duration::from_millis(200)), Arrived::default());
        }
    });
}

#[test]
fn nuttcp_sends_to_the_control_connections_address_alone() {
    with_server!(Tool::Nuttcp, Limits::default(), |at: SocketAddr| {
        let mut stranger = Stranger::new();
        let port = stranger.socket.local_addr().unwrap().port();
        // A test in which the server sends datagrams to a port of the client's, which the stranger has, too; and one in which it
        // would receive them there. A third machine has no place in a request.
        for (trans, third) in [(0, "_NULL_"), (1, "_NULL_"), (0, STRANGER)] {
            let mut control = TcpStream::connect(at).unwrap();
            control.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
            control.write_all(b"HELO nuttcp v6.1.2\n").unwrap();
            let _ = control.read(&mut [0; 100]);
            let asked = format!(
                "buflen = 1000, nbuf = 4294967295, win = 0, nstream = 1, rate = 10000, port = {port}, trans = {trans}, \
                 braindead = 0, timeout = 1.0, udp = 1, vers = 6.1.2, thirdparty = {third} , multicast = 0\n"
            );
            control.write_all(asked.as_bytes()).unwrap();
            let _ = control.read(&mut [0; 100]);
            for mark in [&b"BOD0"[..], b"BOD1"] {
                stranger.forge(SocketAddr::new(at.ip(), port), mark);
            }
            assert_eq!(stranger.count(Duration::from_millis(400)), Arrived::default(), "{trans} {third}");
        }
    });
}

#[test]
fn ttcp_says_nothing_to_anybody() {
    with_server!(Tool::Ttcp, Limits::default(), |at| {
        let mut stranger = Stranger::new();
        for octets in [&b"ttcp"[..], &[b'x'; 1000], b"ttcp", b"ttcp"] {
            stranger.forge(at, octets);
        }
        assert_eq!(stranger.count(Duration::from_millis(300)), Arrived::default());
    });
}

/// A trial against a tool's server at an address that takes whatever comes and says nothing.
fn towards_silence(
    tool: Tool,
    direction: Direction,
    unanswered: Option<u64>,
) -> (Result<[Outcome; 2], String>, Arrived) {
    let stranger = Stranger::new();
    let server = stranger.socket.local_addr().unwrap();
    let unanswered = unanswered.map(|bits_per_second| UnprovenLimit { bits_per_second });
    let route = Route { local: HERE.parse().unwrap(), interface: None, server, unanswered };
    let mut spec = Spec::new(Workload::UdpStream);
    (spec.direction, spec.rate) = (direction, "50M".parse().unwrap());
    spec.extent = Extent::Time(Duration::from_secs(1));
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let counting = scope.spawn(|| {
            let mut sum = Arrived::default();
            while !over.load(Ordering::Relaxed) {
                let some = stranger.count(Duration::from_millis(50));
                (sum.datagrams, sum.octets) = (sum.datagrams + some.datagrams, sum.octets + some.octets);
            }
            sum
        });
        let said = linerate_peers::run(tool, &[], &spec, &route, |_| {}, &|| false).map_err(|error| error.to_string());
        over.store(true, Ordering::Relaxed);
        (said, counting.join().unwrap())
    })
}

#[test]
fn a_client_of_ours_sends_little_to_a_server_that_does_not_answer() {
    for (tool, direction, most) in [
        (Tool::Iperf2, Direction::Rx, 16_000),
        (Tool::Iperf2, Direction::Both, 16_000),
        (Tool::Iperf2, Direction::Tx, 16_000),
        (Tool::Ttcp, Direction::Rx, 0),
        (Tool::Iperf3, Direction::Rx, 0),
        (Tool::Netperf, Direction::Rx, 0),
        (Tool::Nuttcp, Direction::Rx, 0),
    ] {
        let (said, arrived) = towards_silence(tool, direction, None);
        let sentence = said.unwrap_err();
        println!("{tool} {direction}: {arrived:?}: {sentence}");
        assert!(arrived.octets <= most, "{tool} {direction}: {arrived:?}");
        let wanted = match tool {
            Tool::Ttcp => "--allow-unanswered",
            Tool::Iperf2 => "nothing came back",
            _ => "cannot reach",
        };
        assert!(sentence.contains(wanted), "{tool} {direction}: {sentence}");
    }
}

#[test]
fn with_permission_our_clients_send_as_much_as_it_says_and_not_to_who_refuses() {
    for tool in [Tool::Ttcp, Tool::Iperf2] {
        let (said, arrived) = towards_silence(tool, Direction::Rx, Some(49_999_999));
        assert!(said.unwrap_err().contains("--allow-unanswered"), "{tool}");
        assert_eq!(arrived, Arrived::default(), "{tool}");
        let (said, arrived) = towards_silence(tool, Direction::Rx, Some(50_000_000));
        // What a ttcp received, nobody tells; an iperf2 server would.
        assert_eq!(said.is_ok(), tool == Tool::Ttcp, "{tool}");
        assert!((1_000_000..=8_000_000).contains(&arrived.octets), "{tool}: {arrived:?}");
        // Nobody listens, which the machine says: within the first datagrams.
        let gone = Stranger::new().socket.local_addr().unwrap();
        let unanswered = Some(UnprovenLimit { bits_per_second: 1_000_000_000 });
        let route = Route { local: HERE.parse().unwrap(), interface: None, server: gone, unanswered };
        let mut spec = Spec::new(Workload::UdpStream);
        (spec.rate, spec.extent) = ("50M".parse().unwrap(), Extent::Time(Duration::from_secs(20)));
        let began = Instant::now();
        let sentence = linerate_peers::run(tool, &[], &spec, &route, |_| {}, &|| false)
            .map_err(|error| error.to_string())
            .unwrap_err();
        assert!(began.elapsed() < Duration::from_secs(5), "{tool}: {sentence}");
        println!("{tool}: {sentence}");
    }
}
