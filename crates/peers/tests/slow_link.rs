//! Over a link that is slower than who sends, or long: the throughput of a record is the link's, whatever the socket, the queue and
//! the way took. Says so and passes where there are no namespaces.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use linerate_lab::{
    Forwards, HOST_IPV4, Lab, MiddleLab, Namespace, PORTS, Port, Privilege, Shape, TARGET_IPV4, privilege,
};
use linerate_machine::end::Direction;
use linerate_machine::units::OfferedLoad;
use linerate_peers::Route;
use linerate_peers::limits::Limits;
use linerate_peers::served_test::ServedTest;
use linerate_peers::server::Server;
use linerate_trial::outcome::{FlowOutcome, Outcome};
use linerate_trial::spec::{Extent, Spec, Workload};
use linerate_trial::tool::Tool;

const LINK_BPS: u64 = 10_000_000;

/// What a server's record has of a second in which one end sent, and what its client saw.
fn measured(tool: Tool, spec: &Spec, [in_target, in_host]: [&Namespace; 2]) -> (ServedTest, [Outcome; 2]) {
    let (target, host) = (IpAddr::V4(TARGET_IPV4), IpAddr::V4(HOST_IPV4));
    let (over, served) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    let said = thread::scope(|scope| {
        let server = in_target.run(|| Server::bind(tool, Some(target), 0, Limits::default())).unwrap();
        let server_at = SocketAddr::new(target, server.port().unwrap());
        let (over, served) = (&over, &served);
        scope.spawn(move || {
            in_target.run(|| server.run(|_| over.load(Ordering::Relaxed), |one| served.lock().unwrap().push(one)))
        });
        let route = Route { local: host, interface: None, server: server_at, unanswered: None };
        let said = in_host.run(|| {
            Ok(linerate_peers::run(tool, &[], spec, &route, |_| {}, &|| false).map_err(|error| error.to_string()))
        });
        let said = said.unwrap();
        while said.is_ok() && served.lock().unwrap().is_empty() {
            thread::sleep(Duration::from_millis(20));
        }
        over.store(true, Ordering::Relaxed);
        said.unwrap()
    });
    (served.into_inner().unwrap().pop().unwrap(), said)
}

/// A second of a TCP stream.
fn second(direction: Direction) -> Spec {
    Spec { direction, extent: Extent::Time(Duration::from_secs(1)), ..Spec::new(Workload::TcpStream) }
}

fn rate(flow: &FlowOutcome) -> f64 {
    flow.octets as f64 * 8e9 / flow.elapsed_ns as f64
}

fn has_namespaces() -> bool {
    let has = privilege() == Privilege::Root;
    if !has {
        println!("SKIPPED: no namespaces here without root");
    }
    has
}

#[test]
fn what_a_server_sent_counts_from_when_it_arrived() {
    if !has_namespaces() {
        return;
    }
    // The queue holds a second of the link: nothing is lost, and all of it is late.
    let shape = Shape { tx_rate_bps: Some(LINK_BPS), tx_queue_octets: 1000 * 1514, ..Shape::unshaped() };
    let lab = Lab::up(&shape).unwrap();
    for tool in [Tool::Netperf, Tool::Nuttcp, Tool::Iperf2] {
        let (served, [_, client]) = measured(tool, &second(Direction::Tx), [&lab.target, &lab.host]);
        let [_, remote] = *served.ended.unwrap();
        let [told, seen] = [&remote, &client].map(|end| rate(&end.flows[0]));
        println!("{tool:?}: {told:.0} bit/s in the server's record, {seen:.0} at the client");
        assert!(told < LINK_BPS as f64, "{tool:?}: more than the link carries");
        assert!((told / seen - 1.0).abs() < 0.05, "{tool:?}: {told} and {seen}");
    }
}

/// Carries every frame from one port to the other, and is late with it, until an interface is gone.
fn carry_late(from: &Port, to: &Port, delay: Duration) -> io::Result<()> {
    let (mut room, mut under_way) = ([0; 2048], VecDeque::<(Instant, Vec<u8>)>::new());
    loop {
        while let Some(len) = from.receive(&mut room)? {
            under_way.push_back((Instant::now() + delay, room[..len].to_vec()));
        }
        while under_way.front().is_some_and(|(due, _)| *due <= Instant::now()) {
            to.send(&under_way.pop_front().unwrap().1)?;
        }
        from.wait(Duration::from_millis(1))?;
    }
}

/// In the namespace of this thread.
fn sh(commands: &str) -> io::Result<()> {
    let done = Command::new("sh").args(["-c", commands]).status()?.success();
    if done { Ok(()) } else { Err(io::Error::other(commands)) }
}

/// Two machines of which each hears the other `delay` later; `None`, and a sentence, where they cannot be made.
fn far_apart(delay: Duration) -> Option<MiddleLab> {
    if !has_namespaces() {
        return None;
    }
    let lab = MiddleLab::up(Forwards::Bridge).unwrap();
    // What a port sees is a frame, with its checksum.
    let plain = || sh("ethtool -K eth0 tso off gso off tx off >/dev/null");
    if let Err(error) = lab.host.run(plain).and_then(|()| lab.target.run(plain)) {
        println!("SKIPPED: no ethtool here ({error})");
        return None;
    }
    let ports = lab.middle.run(|| {
        PORTS.iter().try_for_each(|port| sh(&format!("ip link set {port} nomaster")))?;
        let [left, right] = PORTS.map(Port::open);
        Ok([Arc::new(left?), Arc::new(right?)])
    });
    let [left, right] = ports.unwrap();
    for (from, to) in [(left.clone(), right.clone()), (right, left)] {
        thread::spawn(move || carry_late(&from, &to, delay));
    }
    Some(lab)
}

#[test]
fn no_round_trip_is_time_of_a_stream() {
    const OFFERED_BPS: u64 = 2_000_000;
    let Some(lab) = far_apart(Duration::from_millis(100)) else { return };
    let spec = Spec { rate: OfferedLoad::BitsPerSecond(OFFERED_BPS), ..second(Direction::Rx) };
    for tool in [Tool::Iperf2, Tool::Ttcp, Tool::Netperf, Tool::Iperf3] {
        let (_, [target, _]) = measured(tool, &spec, [&lab.target, &lab.host]);
        let told = rate(&target.flows[0]) / OFFERED_BPS as f64;
        println!("{tool:?}: {told:.3} of the offered load");
        assert!((told - 1.0).abs() < 0.05, "{tool:?}: {told}");
    }
}

#[test]
fn what_a_far_client_ends_is_not_lost_and_its_time_is_believed() {
    let Some(lab) = far_apart(Duration::from_millis(150)) else { return };
    let is_there = Command::new("iperf3").arg("--version").output().is_ok();
    if !is_there {
        println!("SKIPPED: iperf3 is not installed");
        return;
    }
    let target = IpAddr::V4(TARGET_IPV4);
    for options in ["-u -b 5M", "-b 2M"] {
        let (over, served) = (AtomicBool::new(false), Mutex::new(Vec::new()));
        thread::scope(|scope| {
            let server = lab.target.run(|| Server::bind(Tool::Iperf3, Some(target), 0, Limits::default())).unwrap();
            let port = server.port().unwrap();
            let (lab, over, served) = (&lab, &over, &served);
            scope.spawn(move || {
                lab.target.run(|| server.run(|_| over.load(Ordering::Relaxed), |one| served.lock().unwrap().push(one)))
            });
            let client = format!("iperf3 -c {target} -p {port} --bidir -t 1 {options} >/dev/null");
            let done = lab.host.run(|| sh(&client));
            let deadline = Instant::now() + Duration::from_secs(10);
            while done.is_ok() && served.lock().unwrap().is_empty() && Instant::now() < deadline {
                thread::sleep(Duration::from_millis(20));
            }
            over.store(true, Ordering::Relaxed);
            done.unwrap();
        });
        let [ours, theirs] = *served.into_inner().unwrap().pop().unwrap().ended.unwrap();
        assert_eq!(theirs.doubts, [], "{options}");
        for sender in ours.flows.iter().filter(|flow| flow.arrivals.is_none() && options.contains("-u")) {
            let receiver = theirs.flows.iter().find(|flow| flow.id == sender.id).unwrap();
            let missing = sender.messages_total - receiver.messages_total;
            assert!(missing > 0, "a client stops counting before this end has heard of it");
            assert_eq!(missing, sender.under_way, "{options}");
        }
    }
}
