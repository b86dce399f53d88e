//! Our iperf3 client against the real iperf3 server and against our own, over loopback, and against nonsense.
//! Knows no records. Says so and passes where iperf3 is missing.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use linerate_peers::iperf3::client;
use linerate_peers::iperf3::server::Server;
use linerate_peers::served::Limits;
use linerate_peers::test::Place;
use linerate_trial::outcome::Outcome;
use linerate_trial::spec::{Direction, Extent, Spec, Workload};

fn run(spec: &Spec, server: SocketAddr) -> Result<[Outcome; 2], String> {
    let local = if server.is_ipv4() { "127.0.0.1" } else { "::1" }.parse().unwrap();
    let place = Place { local, interface: Some("lo".to_owned()), server };
    client::run(spec, &place, |_| {}, &|| false)
}

/// The real server, which ends with the value.
struct Real(Child);

impl Real {
    fn start(address: &str, port: u16) -> Option<Real> {
        let mut command = Command::new("iperf3");
        command.args(["-s", "--forceflush", "-B", address, "-p", &port.to_string()]).stdout(Stdio::piped());
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => {
                println!("SKIPPED: iperf3 cannot be run here ({error}); apt-get install iperf3");
                return None;
            }
        };
        // It prints a line when it listens.
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains("listening")));

        Some(Real(child))
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn specs() -> Vec<Spec> {
    let mut specs = Vec::new();
    for workload in [Workload::TcpStream, Workload::UdpStream] {
        for direction in [Direction::Rx, Direction::Tx, Direction::Both] {
            for streams in [1, 3] {
                let mut spec = Spec::new(workload);
                (spec.direction, spec.streams) = (direction, streams);
                spec.extent = Extent::Time(Duration::from_millis(300));
                spec.interval = Duration::from_millis(100);
                spec.rate = "20M".parse().unwrap();
                specs.push(spec);
            }
        }
    }
    let mut octets = Spec::new(Workload::TcpStream);
    octets.extent = Extent::Octets(5_000_000);
    specs.push(octets);
    specs
}

#[track_caller]
fn check(spec: &Spec, server: SocketAddr) {
    println!("{} {} {} {server}", spec.workload, spec.direction, spec.streams);
    let [target, host] = run(spec, server).unwrap();
    let what = format!("{} {} {} {server}", spec.workload, spec.direction, spec.streams);
    assert_eq!((target.flows.len(), host.flows.len()), (target.flows.len().max(1), target.flows.len()), "{what}");
    // A server that gets no CPU for a while may end a test before it has read anything of one of its streams.
    assert!(target.flows.iter().any(|flow| flow.octets > 0), "{what}");
    for (theirs, ours) in target.flows.iter().zip(&host.flows) {
        assert!(ours.octets > 0, "{what}");
        let Some(arrivals) = &ours.arrivals else { continue };
        // What is on its way at the end is sent and not received, by protocol; loopback loses in the socket only.
        let dropped = ours.socket_drops.unwrap_or(0);
        let lost = theirs.messages_total - arrivals.received_total;
        assert!(lost <= dropped + 20, "{what}: {lost} lost, {dropped} dropped, {arrivals:?}");
    }
}

#[test]
fn every_way_against_the_real_server() {
    for address in ["127.0.0.1", "::1"] {
        let port = free_port();
        let Some(_real) = Real::start(address, port) else { return };
        for spec in specs().iter().filter(|spec| address == "127.0.0.1" || spec.streams == 1) {
            check(spec, SocketAddr::new(address.parse().unwrap(), port));
        }
    }
}

#[test]
fn every_way_against_our_own_server() {
    let server = Server::bind(Some("127.0.0.1".parse().unwrap()), 0, Limits::default()).unwrap();
    let at = SocketAddr::new("127.0.0.1".parse().unwrap(), server.port().unwrap());
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let serving = scope.spawn(|| {
            server.run(
                |_| over.load(Ordering::Relaxed),
                |one| drop(one.ended.inspect_err(|error| println!("served: {error}"))),
            )
        });
        let checked = scope.spawn(|| specs().iter().for_each(|spec| check(spec, at)));
        let checked = checked.join();
        over.store(true, Ordering::Relaxed);
        serving.join().unwrap().unwrap();
        checked.unwrap();
    });
}

/// A server that says these octets and then nothing.
fn nonsense(says: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    listener.set_nonblocking(true).unwrap();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            // A client that is told to wait comes again.
            let mut streams: Vec<TcpStream> = Vec::new();
            while !over.load(Ordering::Relaxed) {
                if let Ok((mut stream, _)) = listener.accept() {
                    let _ = stream.read(&mut [0; 37]);
                    let _ = stream.write_all(says);
                    let _ = stream.shutdown(Shutdown::Write);
                    streams.push(stream);
                }
                thread::sleep(Duration::from_millis(5));
            }
        });
        let began = Instant::now();
        let sentence = run(&Spec::new(Workload::TcpStream), at).unwrap_err();
        over.store(true, Ordering::Relaxed);
        assert!(began.elapsed() < Duration::from_secs(15));
        sentence
    })
}

#[test]
fn a_server_that_is_none_is_a_sentence() {
    for (says, contains) in [
        (&b"\xff"[..], "is busy with another test; try again"),
        (b"\x09\xfe\0\0\0\x25\0\0\0\0", "error 37: the trial is longer than its limit"),
        (b"HTTP/1.1 400 Bad Request\r\n", "is no state of iperf3"),
        (b"", "was lost while"),
        (b"\x09\x0b", "was stopped; start it again"),
        (b"\x09\x0a\x02", "has no place there"),
    ] {
        let sentence = nonsense(says);
        assert!(sentence.contains(contains), "{says:?}: {sentence}");
    }
    let sentence = run(&Spec::new(Workload::TcpStream), SocketAddr::new("127.0.0.1".parse().unwrap(), free_port()));
    assert!(sentence.unwrap_err().contains("start 'iperf3 -s' there"));
}
