//! Our netserver against clients made by hand: messages written octet by octet from the protocol's description, as
//! netperf 2.5 to 2.7 sends them, and nonsense.
//! Knows none of our own messages: offsets are written out.

use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use linerate_machine::end::Direction;
use linerate_peers::limits::Limits;
use linerate_peers::served_test::ServedTest;
use linerate_peers::server::Server;
use linerate_trial::spec::{Extent, Workload};
use linerate_trial::tool::Tool;

mod serving;

/// Has a server of ours while `work` goes on with its address. Returns what we saw.
fn with_server(limits: Limits, work: impl FnOnce(SocketAddr)) -> Vec<ServedTest> {
    with_refusals(limits, mpsc::channel().0, work)
}

/// The same, and who was refused is said to `refused`.
fn with_refusals(limits: Limits, refused: mpsc::Sender<String>, work: impl FnOnce(SocketAddr)) -> Vec<ServedTest> {
    let address: IpAddr = "127.0.0.1".parse().unwrap();
    let mut server = Server::bind(Tool::Netperf, Some(address), 0, limits).unwrap();
    server.tell_refusals(Box::new(move |_, what| drop(refused.send(what.to_owned()))));
    serving::serve(&server, address, work, serving::at_once).1
}

/// A message: words at octets of its data, big-endian.
fn message(kind: i32, second: i32, words: &[(usize, i32)]) -> Vec<u8> {
    let mut octets = vec![0; 656];
    octets[..4].copy_from_slice(&kind.to_be_bytes());
    octets[4..8].copy_from_slice(&second.to_be_bytes());
    for (at, word) in words {
        octets[8 + at..12 + at].copy_from_slice(&word.to_be_bytes());
    }
    octets
}

/// What netperf 2.7 fills in by default, and then what the test is.
fn request(words: &[(usize, i32)]) -> Vec<u8> {
    let usual = [
        (0, -1),
        (4, -1),
        (8, 8),
        (16, 1),
        (20, -1),
        (24, -1),
        (28, -1),
        (32, 8),
        (40, 1),
        (44, -1),
        (48, 0x28),
        (56, 1),
        (68, -1),
        (72, -1),
        (76, -1),
        (84, 4),
        (88, 1),
        (92, 6),
        (144, -1),
        (148, -1),
    ];
    message(97, -1, &[&usual, words].concat())
}

struct Client(TcpStream);

impl Client {
    fn connect(at: SocketAddr) -> Client {
        let control = TcpStream::connect(at).unwrap();
        control.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Client(control)
    }

    fn say(&mut self, octets: &[u8]) {
        self.0.write_all(octets).unwrap();
    }

    fn hear(&mut self) -> Vec<u8> {
        let mut octets = vec![0; 656];
        self.0.read_exact(&mut octets).unwrap();
        octets
    }

    /// Asks for a test, and returns where its data goes.
    fn ask(&mut self, words: &[(usize, i32)]) -> SocketAddr {
        self.say(&request(words));
        let response = self.hear();
        assert_eq!((int(&response, -8), int(&response, -4)), (98, 0), "the kind, and no errno");
        let port = u16::try_from(int(&response, 44)).unwrap();
        SocketAddr::new(self.0.peer_addr().unwrap().ip(), port)
    }

    /// The end of a client: it closes its side, and waits for the server's.
    fn leave(mut self) {
        self.0.shutdown(Shutdown::Write).unwrap();
        assert_eq!(self.0.read(&mut [0; 1]).unwrap(), 0);
    }
}

/// A word by its octet in the data.
fn int(octets: &[u8], at: isize) -> i32 {
    let at = (at + 8) as usize;
    i32::from_be_bytes(octets[at..at + 4].try_into().unwrap())
}

fn float(octets: &[u8], at: isize) -> f32 {
    f32::from_bits(int(octets, at).cast_unsigned())
}

fn text(octets: &[u8], at: usize, room: usize) -> &str {
    std::str::from_utf8(&octets[8 + at..8 + at + room]).unwrap().trim_end_matches('\0')
}

const RR: [(usize, i32); 3] = [(20, 5), (44, 3), (96, 6)];

#[test]
fn requests_come_in_bursts_and_messages_in_pieces() {
    let served = with_server(Limits::default(), |at| {
        let mut client = Client::connect(at);
        for piece in request(&RR).chunks(200) {
            client.say(piece);
            thread::sleep(Duration::from_millis(5));
        }
        let response = client.hear();
        let to = SocketAddr::new(at.ip(), u16::try_from(int(&response, 44)).unwrap());
        assert_eq!(float(&response, 28), 100.0, "per cent of a CPU");
        let mut data = TcpStream::connect(to).unwrap();
        // Several under way, as netperf's -b has it; each response starts another request.
        data.write_all(&[7; 5 * 16]).unwrap();
        for _ in 0..100 {
            data.read_exact(&mut [0; 3]).unwrap();
            data.write_all(&[7; 5]).unwrap();
        }
        data.shutdown(Shutdown::Write).unwrap();
        let mut rest = Vec::new();
        data.read_to_end(&mut rest).unwrap();
        assert_eq!(rest.len(), 16 * 3, "those under way are answered, and then the server closes");
        let results = client.hear();
        assert_eq!((int(&results, -4), int(&results, 36)), (0, 116), "transactions");
        assert_eq!((int(&results, 4), int(&results, 20)), (116 * 5, 116 * 3), "octets received and sent");
        client.leave();
    });
    assert_eq!((served.len(), served[0].spec.workload), (1, Workload::TcpRr));
    assert_eq!((served[0].spec.request_size, served[0].spec.response_size), (5, 3));
    assert_eq!(served[0].ended.as_ref().unwrap()[0].flows[0].messages_total, 116);
}

#[test]
fn several_tests_on_one_control_connection_with_calibration_and_passphrase() {
    let served = with_server(Limits::default(), |at| {
        let mut client = Client::connect(at);
        client.say(&message(6, i32::from_be_bytes(*b"open"), &[]));
        client.say(&message(1, 0, &[]));
        assert_eq!(int(&client.hear(), -8), 3, "only the second is answered");
        client.say(&message(5, -1, &[]));
        let rate = client.hear();
        assert_eq!((int(&rate, -8), float(&rate, 0)), (5, 100.0));
        assert!(int(&rate, 4) > 0);
        for again in 1..=2 {
            // The receiver: all that came, in the whole test.
            let to = client.ask(&[(96, 4)]);
            let mut data = TcpStream::connect(to).unwrap();
            data.write_all(&vec![1; 1_000_000 * again]).unwrap();
            thread::sleep(Duration::from_millis(300));
            data.shutdown(Shutdown::Write).unwrap();
            assert_eq!(data.read(&mut [0]).unwrap(), 0);
            let results = client.hear();
            assert_eq!((int(&results, 0), int(&results, 4)), (0, 1_000_000 * again as i32));
            assert!(float(&results, 40) > 0.25, "elapsed");
            assert_eq!(int(&results, 72), 8, "by /proc/stat");
            assert!((0.0..=100.0).contains(&float(&results, 44)) && int(&results, 76) > 0);
            // CPU use, ten thousandths of it, of all CPUs, by KiB a second.
            let kib = int(&results, 4) as f32 / 1024.0 / float(&results, 40);
            let demand = float(&results, 44) * 10_000.0 * int(&results, 76) as f32 / kib;
            assert!((float(&results, 68) / demand - 1.0).abs() < 0.01 || demand == 0.0);
            assert_eq!(text(&results, 108, 16), "lo");
            assert!(!text(&results, 268, 16).is_empty(), "what 0x20 asked for");
        }
        client.leave();
    });
    assert_eq!(served.len(), 2);
}

#[test]
fn a_server_that_sends_does_so_by_time_or_by_octets() {
    let served = with_server(Limits::default(), |at| {
        for (length, least) in [(-100_000, 100_000), (1, 1_000_000)] {
            let mut client = Client::connect(at);
            let to = client.ask(&[(96, 2), (56, length), (4, 1000)]);
            let mut data = TcpStream::connect(to).unwrap();
            let began = Instant::now();
            let mut octets = Vec::new();
            data.read_to_end(&mut octets).unwrap();
            assert!(octets.len() >= least && (length > 0 || octets.len() == least), "{}", octets.len());
            assert!(length < 0 || began.elapsed() >= Duration::from_millis(950), "{:?}", began.elapsed());
            drop(data);
            let results = client.hear();
            let sent = (int(&results, 16).cast_unsigned() as usize) << 32 | int(&results, 20).cast_unsigned() as usize;
            assert_eq!((int(&results, -4), sent), (0, octets.len()));
            assert!(int(&results, 104) >= 0, "retransmissions are known");
            client.leave();
        }
    });
    let extents: Vec<_> = served.iter().map(|one| (one.spec.direction, one.spec.extent)).collect();
    let second = Extent::Time(Duration::from_secs(1));
    assert_eq!(extents, [(Direction::Tx, Extent::Octets(100_000)), (Direction::Tx, second)]);
}

#[test]
fn datagrams_end_with_empty_ones_and_all_are_counted() {
    let served = with_server(Limits::default(), |at| {
        for size in [1, 1472, 65_507] {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            let mut client = Client::connect(at);
            let port = i32::from(socket.local_addr().unwrap().port());
            let to = client.ask(&[(88, 2), (92, 17), (96, 4), (100, port)]);
            let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
            stranger.send_to(&[], to).unwrap();
            for _ in 0..50 {
                socket.send_to(&vec![9; size], to).unwrap();
                thread::sleep(Duration::from_millis(1));
            }
            (0..3).for_each(|_| drop(socket.send_to(&[], to)));
            let results = client.hear();
            assert_eq!((int(&results, -4), int(&results, 4), int(&results, 8)), (0, 50 * size as i32, 50));
            client.leave();
        }
    });
    let sizes: Vec<_> = served.iter().map(|one| one.spec.message_size.unwrap()).collect();
    assert_eq!(sizes, [1, 1472, 65_507], "what came says what they were");
    let [ours, theirs] = served[0].ended.as_ref().unwrap().as_ref();
    assert!(theirs.flows.is_empty(), "nothing is known of the sender");
    assert!(ours.flows[0].arrivals.as_ref().is_some_and(|arrivals| arrivals.unnumbered && arrivals.received == 50));
}

#[test]
fn requests_over_udp_and_connections_are_answered_to_their_end() {
    let served = with_server(Limits::default(), |at| {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut client = Client::connect(at);
        let port = i32::from(socket.local_addr().unwrap().port());
        let to = client.ask(&[&[(88, 2), (92, 17), (100, port)][..], &RR].concat());
        socket.connect(to).unwrap();
        for _ in 0..20 {
            socket.send(b"12345").unwrap();
            assert_eq!(socket.recv(&mut [0; 100]).unwrap(), 3);
        }
        (0..3).for_each(|_| drop(socket.send(&[])));
        assert_eq!(int(&client.hear(), 36), 20);
        client.leave();
        // By time, and ended by a connection that asks for nothing; by number, and ended by nothing.
        for length in [1, -20] {
            let mut client = Client::connect(at);
            let to = client.ask(&[&[(48, 0x2c), (56, length)][..], &RR].concat());
            let began = Instant::now();
            for _ in 0..20 {
                let mut data = TcpStream::connect(to).unwrap();
                data.write_all(b"12345").unwrap();
                let mut answer = Vec::new();
                data.read_to_end(&mut answer).unwrap();
                assert_eq!(answer.len(), 3, "the server closes first");
            }
            if length > 0 {
                TcpStream::connect(to).unwrap().shutdown(Shutdown::Write).unwrap();
            }
            assert_eq!(int(&client.hear(), 36), 20);
            assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
            client.leave();
        }
    });
    let workloads: Vec<_> = served.iter().map(|one| one.spec.workload).collect();
    assert_eq!(workloads, [Workload::UdpRr, Workload::TcpCrr, Workload::TcpCrr]);
}

/// Clients of connections that neither read nor end a request. They go by themselves before they could hold a test run.
#[test]
fn connections_that_hang_do_not_hold_the_server() {
    const LONGEST: Duration = Duration::from_secs(8);
    let gone = AtomicBool::new(false);
    let is_gone = |began: Instant| gone.load(Ordering::Relaxed) || began.elapsed() > LONGEST;
    thread::scope(|scope| {
        let began = Instant::now();
        with_server(Limits::default(), |at| {
            for (request_size, response_size) in [(1, 4 << 20), (100, 1)] {
                let mut client = Client::connect(at);
                let to = client.ask(&[(48, 0x2c), (56, 60), (20, request_size), (44, response_size), (96, 6)]);
                let mut data = TcpStream::connect(to).unwrap();
                scope.spawn(move || {
                    // An octet at a time, of a request that is one, or of one that is not over in ten seconds.
                    let mut left = request_size;
                    while !is_gone(began) {
                        left -= i32::from(left > 0 && data.write_all(b"x").is_ok());
                        thread::sleep(Duration::from_millis(100));
                    }
                    drop((data, client));
                });
            }
            thread::sleep(Duration::from_millis(500));
        });
        let took = began.elapsed();
        gone.store(true, Ordering::Relaxed);
        assert!(took < Duration::from_secs(3), "{took:?}");
    });
}

#[test]
fn old_clients_hear_that_the_test_is_unknown_and_the_user_which_it_was() {
    let (refused, said) = mpsc::channel();
    let served = with_refusals(Limits::default(), refused, |at| {
        for kind in [10, 94, 300, 600, 777, 0x6200_0000] {
            let mut client = Client::connect(at);
            client.say(&message(kind, -1, &[]));
            assert_eq!(int(&client.hear(), -4), 998, "{kind}");
            client.leave();
        }
    });
    let said: Vec<String> = said.iter().collect();
    assert_eq!((served.len(), said.len()), (0, 3), "{said:?}");
    assert_eq!(said[1], "asked for TCP_MAERTS as netperf before 2.5 did; install netperf 2.5 or later there");
}

#[test]
fn what_is_not_allowed_is_an_errno_and_the_connection_goes_on() {
    let limits = Limits { tests: 1, rate: Some(8_000_000), time_s: 2, ..Limits::default() };
    let (refused, said) = mpsc::channel();
    let served = with_refusals(limits, refused, |at| {
        let mut client = Client::connect(at);
        for (words, errno) in [
            (&[(96, 4)][..], 1),
            (&[(96, 6), (20, 1), (44, 1), (56, 3)], 1),
            (&[(96, 6), (20, 0), (44, 1)], 22),
            (&[(96, 0), (48, 0x2c)], 95),
            (&[(96, 4), (84, 6)], 97),
            (&[(96, 4), (88, 4), (92, 132)], 93),
        ] {
            client.say(&request(words));
            assert_eq!(int(&client.hear(), -4), errno, "{words:?}");
        }
        let to = client.ask(&[(96, 2)]);
        let mut other = Client::connect(at);
        other.say(&request(&[(96, 2)]));
        assert_eq!(int(&other.hear(), -4), 16, "one test at a time");
        let mut octets = Vec::new();
        TcpStream::connect(to).unwrap().read_to_end(&mut octets).unwrap();
        // A second at the rate that is allowed, and a burst.
        assert!((700_000..1_400_000).contains(&octets.len()), "{}", octets.len());
        assert_eq!(int(&client.hear(), -4), 0);
    });
    let said: Vec<String> = said.iter().collect();
    assert_eq!((served.len(), said.len()), (1, 7), "{said:?}");
    assert!(said.iter().all(|one| one.starts_with("asked ") || one.starts_with("came ")), "{said:?}");
}

#[test]
fn nonsense_and_strangers_leave_the_server_serving() {
    let served = with_server(Limits::default(), |at| {
        let mut open = Vec::new();
        let mut nonsense = vec![
            Vec::new(),
            b"GET / HTTP/1.1\r\n\r\n".to_vec(),
            vec![0xff; 656],
            vec![0xff; 100_000],
            vec![0; 6560],
            request(&RR)[..655].to_vec(),
            // Tests whose clients never open their data connection, or name no port.
            request(&RR),
            request(&[(88, 2), (92, 17), (96, 4)]),
            request(&[(88, 2), (92, 17), (96, 4), (100, -1)]),
            request(&[(96, 4), (80, 70_000)]),
            request(&[(96, 6), (20, i32::MAX), (44, i32::MAX)]),
            request(&[(96, 2), (4, i32::MAX), (56, i32::MIN)]),
            request(&[(96, 2), (4, 1), (104, i32::MAX), (108, 1), (0, i32::MAX), (24, i32::MIN)]),
        ];
        // Out of order: results first, then a response.
        nonsense.push([message(99, 0, &[]), message(98, 0, &[])].concat());
        let mut random = 0x2545_f491_4f6c_dd1d_u64;
        for _ in 0..20 {
            let mut octets = request(&[]);
            for octet in octets.iter_mut().skip(8) {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                *octet = random as u8;
            }
            nonsense.push(octets);
        }
        for says in &nonsense {
            let mut control = TcpStream::connect(at).unwrap();
            let _ = control.write_all(says);
            open.push(control);
        }
        let mut client = Client::connect(at);
        let to = client.ask(&RR);
        let mut data = TcpStream::connect(to).unwrap();
        data.write_all(b"12345").unwrap();
        data.read_exact(&mut [0; 3]).unwrap();
        data.shutdown(Shutdown::Write).unwrap();
        assert_eq!(int(&client.hear(), 36), 1);
        client.leave();
    });
    assert_eq!(served.iter().filter(|one| one.ended.is_ok()).count(), 1, "{served:?}");
}

/// A client that is interrupted ends its stream, and has its results.
#[test]
fn a_client_that_ends_before_its_time_is_marked() {
    let served = with_server(Limits::default(), |at| {
        for pause_ms in [300, 950] {
            let mut client = Client::connect(at);
            let to = client.ask(&[(96, 4), (56, 1)]);
            let mut data = TcpStream::connect(to).unwrap();
            data.write_all(&[1; 1000]).unwrap();
            thread::sleep(Duration::from_millis(pause_ms));
            data.shutdown(Shutdown::Write).unwrap();
            client.hear();
            client.leave();
        }
    });
    let ended_early = served.iter().map(|one| one.ended.as_ref().unwrap()[0].ended_early);
    assert_eq!(ended_early.collect::<Vec<_>>(), [true, false]);
}

/// What is under way when a client dies still comes: its bytes and its time count, or neither.
#[test]
fn bytes_and_time_of_a_client_that_dies_end_at_one_moment() {
    const PERIOD: Duration = Duration::from_millis(1);
    let served = with_server(Limits::default(), |at| {
        let mut client = Client::connect(at);
        let to = client.ask(&[(96, 4), (56, 30)]);
        let mut data = TcpStream::connect(to).unwrap();
        let began = Instant::now();
        let mut control = Some(client);
        for number in 0..700 {
            thread::sleep((PERIOD * number).saturating_sub(began.elapsed()));
            if data.write_all(&[0; 1000]).is_err() {
                break;
            }
            if number == 300 {
                control = None;
            }
        }
        drop(control);
        thread::sleep(Duration::from_millis(300));
    });
    let ours = &served[0].ended.as_ref().unwrap()[0];
    let flow = &ours.flows[0];
    let per_second = flow.octets as f64 * 1e9 / flow.elapsed_ns as f64;
    assert!(ours.ended_early && per_second < 1.05e6, "{per_second} bytes/s of a million: {flow:?}");
}

#[test]
fn data_of_others_is_left_standing_and_a_client_that_vanishes_holds_nothing() {
    let began = Instant::now();
    let served = with_server(Limits { tests: 1, ..Limits::default() }, |at| {
        // It goes before it opens its data connection, then in the midst of a test; each makes room for the next.
        for connects in [false, true] {
            let mut client = Client::connect(at);
            let to = client.ask(&[(96, 4), (56, 30)]);
            let data = connects.then(|| TcpStream::connect(to).unwrap());
            if let Some(mut data) = data {
                data.write_all(&[0; 1000]).unwrap();
                thread::sleep(Duration::from_millis(100));
            }
            drop(client);
            thread::sleep(Duration::from_millis(500));
        }
        let mut client = Client::connect(at);
        let to = client.ask(&RR);
        drop(TcpStream::connect(to).unwrap());
        client.hear();
    });
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    assert!(served.len() >= 2, "{served:?}");
}
