//! Our TWAMP Light sender and our reflector, against each other and by the octets of RFC 5357.
//! Knows no records.

use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use linerate_host::traffic::reachability::UnprovenLimit;
use linerate_machine::units::OfferedLoad;
use linerate_peers::Route;
use linerate_peers::limits::Limits;
use linerate_peers::served_test::ServedTest;
use linerate_peers::server::Server;
use linerate_trial::outcome::{Outcome, Role};
use linerate_trial::spec::{Extent, Spec, Workload};
use linerate_trial::tool::Tool;

mod serving;

fn limits(bits_per_second: u64) -> Limits {
    Limits { unproven: Some(UnprovenLimit { bits_per_second }), ..Limits::default() }
}

/// Has a reflector of ours while `work` goes on with its address; what it saw of its tests, and whom it refused.
fn with_reflector<T>(limits: Limits, work: impl FnOnce(SocketAddr) -> T) -> (T, Vec<ServedTest>, Vec<String>) {
    let refused = std::sync::Arc::new(Mutex::new(Vec::new()));
    let address = "127.0.0.1".parse().unwrap();
    let mut server = Server::bind(Tool::Twamp, Some(address), 0, limits).unwrap();
    let hearing = refused.clone();
    server.tell_refusals(Box::new(move |_, what| hearing.lock().unwrap().push(what.to_owned())));
    let (done, served) = serving::serve(&server, address, work, serving::at_once);
    let refused = refused.lock().unwrap().clone();
    (done, served, refused)
}

fn measure(at: SocketAddr, spec: &Spec) -> Result<[Outcome; 2], linerate_peers::Error> {
    let local = "127.0.0.1".parse().unwrap();
    let route = Route { local, interface: Some("lo".to_owned()), server: at, unanswered: None };
    linerate_peers::run(Tool::Twamp, &[], spec, &route, |_| {}, &|| false)
}

fn requests() -> Spec {
    let extent = Extent::Time(Duration::from_millis(300));
    Spec { extent, rate: OfferedLoad::PacketsPerSecond(200), ..Spec::new(Workload::UdpRr) }
}

#[test]
fn our_sender_and_our_reflector_agree() {
    let spec = Spec { outstanding: 4, ..requests() };
    let (outcome, served, refused) = with_reflector(limits(100_000_000), |at| measure(at, &spec).unwrap());
    let ours = &outcome[1].flows[0];
    assert_eq!((ours.role, ours.timeouts), (Role::Requester, Some(0)));
    let answered = ours.messages_total;
    assert!(answered > 20 && ours.latency.is_some() && Some(answered) == ours.requests, "{ours:?}");
    let [one] = &served[..] else { panic!("{served:?}") };
    let theirs = &one.ended.as_ref().unwrap()[0].flows[0];
    // One more: by it the reflector proved its address.
    assert_eq!((theirs.role, theirs.messages_total), (Role::Responder, answered + 1));
    assert_eq!((one.spec.workload, one.is_no_test(), refused.len()), (Workload::UdpRr, None, 0));
}

#[test]
fn packets_are_answered_as_the_rfc_has_them_and_none_by_more() {
    let (seen, ..) = with_reflector(limits(100_000_000), |at| {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(at).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        let ask = |request: &[u8]| {
            let mut octets = [0; 2048];
            socket.send(request).unwrap();
            socket.recv(&mut octets).map(|len| octets[..len].to_vec()).unwrap_or_default()
        };
        let request: Vec<u8> = (0..100).collect();
        // Too short for an answer of its size, then of a whole one, twice.
        [ask(&request[..40]), ask(&request), ask(&request), ask(&[])]
    });
    assert_eq!((seen[0].len(), seen[3].len()), (0, 0));
    for (answer, number) in seen[1..3].iter().zip(0u8..) {
        assert_eq!((answer.len(), &answer[..4], &answer[14..16]), (100, &[0, 0, 0, number][..], &[0, 0][..]));
        assert_eq!(answer[24..38], (0..14).collect::<Vec<u8>>());
        assert!(answer[16..24] <= answer[4..12], "it left after it came");
    }
}

#[test]
fn nothing_is_answered_without_a_permission_nor_beyond_it() {
    let flood = |at: SocketAddr| {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(at).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
        let began = Instant::now();
        let (mut octets, mut came) = ([0; 2048], 0);
        for _ in 0..150 {
            socket.send(&[7; 1000]).unwrap();
            came += socket.recv(&mut octets).map_or(0, |len| len * 8);
        }
        (came as f64, began.elapsed().as_secs_f64())
    };
    let ((came, _), served, refused) = with_reflector(Limits::default(), |at| {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        socket.send_to(&[7; 1000], at).unwrap();
        (socket.recv(&mut [0; 2048]).map_or(0, |len| len), TcpStream::connect(at).is_ok())
    });
    assert_eq!((came, served.len()), (0, 0));
    assert!(refused.iter().any(|what| what.contains("--allow-unproven-udp")), "{refused:?}");
    // 1.2 Mbit are asked for; 0.5 may come at once.
    let ((came, took), ..) = with_reflector(limits(100_000), flood);
    assert!(came > 0.0 && came <= 524_288.0 + 100_000.0 * (took + 0.5), "{came} bits in {took} s");
}

#[test]
fn two_reflectors_do_not_answer_each_other() {
    let (answered, served, refused) = with_reflector(limits(100_000_000), |at| {
        let from = |port| {
            let socket = UdpSocket::bind(("127.0.0.2", port)).ok()?;
            socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
            socket.send_to(&[7; 100], at).unwrap();
            Some(socket.recv(&mut [0; 2048]).is_ok())
        };
        // Only root may have the last two.
        [from(at.port()), from(0), from(862), from(7)]
    });
    assert_eq!(answered[..2], [Some(false), Some(true)]);
    assert!(answered[2..].iter().all(|one| *one != Some(true)), "{answered:?}");
    assert_eq!(served.len(), 1);
    assert_eq!(served[0].is_no_test().as_deref(), Some("sent 200 bytes, which is no test"), "one may be forged");
    assert!(refused.iter().any(|what| what.contains("from a reflector's port")), "{refused:?}");
}

#[test]
fn what_another_reflector_returns_is_not_answered_whatever_its_port() {
    let (rounds, served, refused) = with_reflector(limits(100_000_000), |at| {
        let socket = UdpSocket::bind("127.0.0.2:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        socket.connect(at).unwrap();
        let (mut octets, mut rounds) = ([7; 100], 0);
        socket.send(&octets).unwrap();
        while rounds < 10
            && let Ok(len) = socket.recv(&mut octets)
        {
            rounds += 1;
            // As the other one answers: with its own number and times, and the head of what came.
            octets.copy_within(..14, 24);
            octets[..24].fill(1);
            socket.send(&octets[..len]).unwrap();
        }
        rounds
    });
    assert_eq!((rounds, served.len()), (1, 0));
    assert!(refused.iter().any(|what| what.contains("another reflector")), "{refused:?}");
}

#[test]
fn what_cannot_be_asked_is_a_sentence() {
    let check = |change: fn(&mut Spec), contains: &str| {
        let mut spec = requests();
        change(&mut spec);
        let sentence = measure("127.0.0.1:9".parse().unwrap(), &spec).unwrap_err().to_string();
        assert!(sentence.contains(contains), "{sentence}");
    };
    check(|spec| spec.request_size = 40, "choose request_size=41");
    check(|spec| spec.response_size = 200, "response_size as request_size");
    check(|spec| spec.workload = Workload::TcpStream, "choose udp-rr");
    check(|_| {}, "linerate serve twamp");
}
