//! The real iperf2 as client of our server, over loopback: every mode, and its figures beside ours.
//! Knows no records. Says so and passes where iperf is missing.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use linerate_peers::iperf2::server::Server;
use linerate_peers::served::{Limits, Served};
use linerate_trial::outcome::FlowOutcome;
use linerate_trial::spec::{Direction, Workload};

/// Has a server of ours while `work` goes on with its address. Returns what that says, and what we saw.
fn with_server<T>(address: &str, limits: Limits, work: impl FnOnce(SocketAddr) -> T) -> (T, Vec<Served>) {
    let address: IpAddr = address.parse().unwrap();
    let served = Mutex::new(Vec::new());
    let over = AtomicBool::new(false);
    let server = Server::bind(Some(address), 0, limits).unwrap();
    let at = SocketAddr::new(address, server.port().unwrap());
    let said = thread::scope(|scope| {
        let serving =
            scope.spawn(|| server.run(|_| over.load(Ordering::Relaxed), |one| served.lock().unwrap().push(one)));
        let said = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(at)));
        // The client may be gone before the server has told of its test.
        thread::sleep(Duration::from_millis(700));
        over.store(true, Ordering::Relaxed);
        serving.join().unwrap().unwrap();
        said
    });
    (said.unwrap_or_else(|panic| std::panic::resume_unwind(panic)), served.into_inner().unwrap())
}

/// Runs iperf against a server, and returns what it printed.
fn iperf(at: SocketAddr, arguments: &str) -> Option<String> {
    let mut command = Command::new("timeout");
    command.args(["20", "iperf", "-c", &at.ip().to_string(), "-p", &at.port().to_string(), "-f", "b"]);
    if at.is_ipv6() {
        command.arg("-V");
    }
    if Command::new("iperf").arg("-v").output().is_err() {
        println!("SKIPPED: iperf cannot be run here; apt-get install iperf");
        return None;
    }
    let output = command.args(arguments.split_whitespace()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    Some(text)
}

#[track_caller]
fn check(address: &str, arguments: &str) -> Option<(String, Vec<Served>)> {
    println!("{address} {arguments}");
    let (printed, served) = with_server(address, Limits::default(), |at| iperf(at, arguments));
    let printed = printed?;
    assert!(!served.is_empty(), "{arguments}: {printed}");
    for one in &served {
        let [ours, _] = one.ended.as_ref().unwrap_or_else(|error| panic!("{arguments}: {error}\n{printed}")).as_ref();
        assert!(ours.flows.iter().all(|flow| flow.octets_total > 0), "{arguments}: {ours:?}\n{printed}");
    }
    Some((printed, served))
}

/// A port on which nobody listens now.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn every_mode_over_both_protocols() {
    use Direction::{Both, Rx, Tx};
    for address in ["127.0.0.1", "::1"] {
        let only = std::env::var("ONLY").unwrap_or_default();
        for (mode, directions, streams) in [
            ("-t 1", &[Rx][..], 1),
            ("-t 1 -R", &[Tx], 1),
            ("-t 1 --full-duplex", &[Both], 1),
            ("-t 1 -P 3", &[Rx], 3),
            ("-t 1 -P 2 -R -l 8K", &[Tx], 2),
            ("-n 20M", &[Rx], 1),
            ("-n 20M -R", &[Tx], 1),
            ("-t 1 -e --trip-times", &[Rx], 1),
            ("-t 1 -X -w 256K -M 1000 -N -S 0xb8", &[Rx], 1),
            ("-t 1 -b 50M", &[Rx], 1),
            ("-t 1 -C", &[Rx], 1),
            ("-t 1 -d -L", &[Both], 1),
            ("-t 1 -r -L", &[Rx, Tx], 1),
            ("-u -t 1 -b 20M", &[Rx], 1),
            ("-u -t 1 -b 20M -R", &[Tx], 1),
            ("-u -t 1 -b 10M --full-duplex", &[Both], 1),
            ("-u -t 1 -b 10M -P 2", &[Rx], 2),
            ("-u -t 1 -b 1000pps -l 64 -e", &[Rx], 1),
            ("-u -t 1 -b 10M --trip-times", &[Rx], 1),
            ("-u -n 1M -b 50M", &[Rx], 1),
            ("-u -t 1 -b 10M -d -L", &[Both], 1),
            ("-u -t 1 -b 10M -r -L", &[Rx, Tx], 1),
        ] {
            if !mode.contains(&only) {
                continue;
            }
            let mode = if mode.ends_with("-L") { format!("{mode} {}", free_port()) } else { mode.to_owned() };
            let Some((printed, served)) = check(address, &mode) else { return };
            let seen: Vec<Direction> = served.iter().map(|one| one.spec.direction).collect();
            assert_eq!(seen, directions, "{mode}: {printed}");
            assert!(served.iter().all(|one| one.spec.streams == streams), "{mode}: {printed}");
            let udp = mode.contains("-u");
            assert_eq!(served[0].spec.workload == Workload::UdpStream, udp, "{mode}");
            let told = served.iter().all(|one| one.version.as_deref().is_none_or(|version| version.starts_with("2.")));
            assert!(told, "{mode}: {:?}", served[0].version);
        }
    }
}
