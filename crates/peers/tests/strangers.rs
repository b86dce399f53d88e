//! What strangers can cost each of the servers: silence, half a test, and datagrams of nobody keep no honest client out.
//! Both ends are ours; everything is on the loopback.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use linerate_host::traffic::reachability::UnprovenLimit;
use linerate_peers::Route;
use linerate_peers::limits::Limits;
use linerate_peers::served_test::ServedTest;
use linerate_peers::server::Server;
use linerate_peers::{iperf2, netperf, nuttcp};
use linerate_trial::spec::{Extent, Spec, Workload};
use linerate_trial::tool::Tool;
use socket2::{Domain, Protocol, Socket, Type};

mod serving;

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// One test at a time: each has all ports and processors to itself.
static ALONE: Mutex<()> = Mutex::new(());

/// Has a server of this tool while `work` goes on, given where. Returns what was served.
fn with_server(tool: Tool, limits: Limits, work: impl FnOnce(SocketAddr)) -> Vec<ServedTest> {
    let _alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    serving::serve(&Server::bind(tool, Some(HERE), 0, limits).unwrap(), HERE, work, serving::at_once).1
}

/// A short test of an honest client; the error is its sentence.
fn honest(tool: Tool, workload: Workload, at: SocketAddr) -> Result<(), String> {
    let mut spec = Spec::new(workload);
    spec.extent = Extent::Octets(200_000);
    if workload == Workload::UdpStream {
        spec.message_size = Some(1000);
        spec.rate = "20M".parse().unwrap();
    }
    linerate_peers::fit(tool, &mut spec);
    // ttcp as a client sends to who cannot answer.
    let unanswered = (tool == Tool::Ttcp).then_some(UnprovenLimit { bits_per_second: 100_000_000 });
    let route = Route { local: HERE, interface: Some("lo".to_owned()), server: at, unanswered };
    linerate_peers::run(tool, &[], &spec, &route, |_| {}, &|| false).map_err(|error| error.to_string()).map(drop)
}

/// A connection from an address of this machine.
fn connect(from: [u8; 4], at: SocketAddr) -> Option<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)).ok()?;
    socket.bind(&SocketAddr::new(from.into(), 0).into()).ok()?;
    socket.connect_timeout(&at.into(), Duration::from_secs(5)).ok()?;
    Some(socket.into())
}

const ALL: [Tool; 5] = [Tool::Iperf3, Tool::Iperf2, Tool::Netperf, Tool::Nuttcp, Tool::Ttcp];

#[test]
fn silent_connections_keep_nobody_out() {
    for tool in ALL {
        with_server(tool, Limits::default(), |at| {
            // From one address and from many, some with a first octet that says nothing yet.
            let silent: Vec<TcpStream> = (0..600_u32)
                .filter_map(|n| {
                    let from = if n % 2 == 0 { [127, 0, 0, 1] } else { [127, 0, 1, (n % 200) as u8] };
                    let mut stream = connect(from, at)?;
                    if n % 3 == 0 && tool != Tool::Ttcp {
                        let _ = stream.write_all(&[0]);
                    }
                    Some(stream)
                })
                .collect();
            let began = Instant::now();
            honest(tool, Workload::TcpStream, at).unwrap_or_else(|error| panic!("{tool:?}: {error}"));
            assert!(began.elapsed() < Duration::from_secs(9), "{tool:?}: {:?}", began.elapsed());
            assert!(silent.len() > 500, "{tool:?}: {}", silent.len());
        });
    }
}

/// What opens a test of this tool and leaves it half open; `None` of a tool that has no opening.
fn half_a_test(tool: Tool, number: u32) -> Option<Vec<u8>> {
    match tool {
        Tool::Iperf3 => {
            let text = r#"{"tcp":true,"time":60,"parallel":1,"len":131072}"#;
            let cookie = format!("{number:036}\0");
            Some([cookie.as_bytes(), &(text.len() as u32).to_be_bytes(), text.as_bytes()].concat())
        }
        Tool::Netperf => {
            let request = netperf::omni::Request { length: 60, ..netperf_request() };
            Some(request.emit().emit().to_vec())
        }
        Tool::Nuttcp => {
            use nuttcp::line::{Request, Version, hello};
            let asked =
                Request { timeout: Duration::from_secs(60), port: 20_000 + number as u16, ..Request::new(false) };
            Some([hello(), asked.emit(Version::OURS)].concat().into_bytes())
        }
        Tool::Iperf2 | Tool::Ttcp | Tool::Twamp => None,
    }
}

fn netperf_request() -> netperf::omni::Request {
    let spec = Spec::new(Workload::TcpStream);
    let flow = linerate_trial::flow::Flow::of(&spec)[0];
    netperf::mapping::request_of(&spec, flow, true, 0)
}

#[test]
fn half_open_tests_give_way_to_whole_ones() {
    for tool in ALL {
        with_server(tool, Limits::default(), |at| {
            let open: Vec<TcpStream> = (0..20)
                .filter_map(|number| {
                    let mut stream = connect([127, 0, 0, 2], at)?;
                    match half_a_test(tool, number) {
                        Some(octets) => stream.write_all(&octets).ok()?,
                        // What looks like the beginning of data, and goes on no more.
                        None => stream.write_all(&[b'x'; 100]).ok()?,
                    }
                    Some(stream)
                })
                .collect();
            assert_eq!(open.len(), 20);
            thread::sleep(Duration::from_millis(300));
            let began = Instant::now();
            while let Err(error) = honest(tool, Workload::TcpStream, at) {
                println!("{tool:?}: after {:?}: {error}", began.elapsed());
                assert!(began.elapsed() < Duration::from_secs(8), "{tool:?}: {error}");
                thread::sleep(Duration::from_millis(200));
            }
        });
    }
}

#[test]
fn trickling_tests_keep_no_other_address_out() {
    let limits = Limits { tests: 4, ..Limits::default() };
    let served = with_server(Tool::Ttcp, limits, |at| {
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut stream = connect([127, 0, 0, 2], at).unwrap();
                    // Until it has to give way.
                    while !over.load(Ordering::Relaxed) && stream.write_all(&[b'x'; 5000]).is_ok() {
                        thread::sleep(Duration::from_millis(50));
                    }
                });
            }
            thread::sleep(Duration::from_secs(1));
            let honest = (0..3).map(|_| honest(Tool::Ttcp, Workload::TcpStream, at)).collect::<Result<Vec<_>, _>>();
            over.store(true, Ordering::Relaxed);
            honest.unwrap();
        });
    });
    let from = |last| served.iter().filter(|one| one.peer.ip() == IpAddr::from([127, 0, 0, last])).count();
    assert_eq!((from(1), from(2)), (3, 4));
}

#[test]
fn one_datagram_is_no_test() {
    for tool in [Tool::Ttcp, Tool::Iperf2] {
        let served = with_server(tool, Limits::default(), |at| {
            let mut first = [0; 100];
            if tool == Tool::Iperf2 {
                // A number and a time, then a header: its size and that it is for UDP.
                let header =
                    iperf2::mapping::header_of(&Spec::new(Workload::UdpStream), linerate_machine::end::Direction::Rx);
                let octets = header.emit();
                first[16..16 + octets.len()].copy_from_slice(&octets);
            }
            let senders: Vec<UdpSocket> = (0..64).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
            for sender in &senders {
                sender.send_to(&first, at).unwrap();
            }
            thread::sleep(Duration::from_millis(200));
            let began = Instant::now();
            honest(tool, Workload::UdpStream, at).unwrap_or_else(|error| panic!("{tool:?}: {error}"));
            assert!(began.elapsed() < Duration::from_secs(5), "{tool:?}: {:?}", began.elapsed());
            // That of a stream that ends is told when it has.
            thread::sleep(Duration::from_secs(1));
        });
        assert_eq!(served.len(), 1, "{tool:?}: {served:?}");
    }
}
