//! What a server sends over a link that is slower than it: the throughput of its record is the link's, whatever the socket and
//! the queue took. Says so and passes where there are no namespaces.

use std::net::{IpAddr, SocketAddr};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use linerate_lab::{HOST_IPV4, Lab, Privilege, Shape, TARGET_IPV4, privilege};
use linerate_machine::end::Direction;
use linerate_peers::Route;
use linerate_peers::limits::Limits;
use linerate_peers::served_test::ServedTest;
use linerate_peers::server::Server;
use linerate_trial::outcome::{FlowOutcome, Outcome};
use linerate_trial::spec::{Extent, Spec, Workload};
use linerate_trial::tool::Tool;

const LINK_BPS: u64 = 10_000_000;

/// What a server's record has of a second in which it sent, and what its client saw.
fn sent(tool: Tool, lab: &Lab) -> (ServedTest, [Outcome; 2]) {
    let (target, host) = (IpAddr::V4(TARGET_IPV4), IpAddr::V4(HOST_IPV4));
    let mut spec = Spec::new(Workload::TcpStream);
    (spec.direction, spec.extent) = (Direction::Tx, Extent::Time(Duration::from_secs(1)));
    let (over, served) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    let said = thread::scope(|scope| {
        let server = lab.in_target(|| Server::bind(tool, Some(target), 0, Limits::default())).unwrap();
        let server_at = SocketAddr::new(target, server.port().unwrap());
        let (over, served) = (&over, &served);
        scope.spawn(move || {
            lab.in_target(|| server.run(|_| over.load(Ordering::Relaxed), |one| served.lock().unwrap().push(one)))
        });
        let route = Route { local: host, interface: None, server: server_at, unanswered: None };
        let said = lab.in_host(|| {
            Ok(linerate_peers::run(tool, &[], &spec, &route, |_| {}, &|| false).map_err(|error| error.to_string()))
        });
        while served.lock().unwrap().is_empty() {
            thread::sleep(Duration::from_millis(20));
        }
        over.store(true, Ordering::Relaxed);
        said.unwrap().unwrap()
    });
    (served.into_inner().unwrap().pop().unwrap(), said)
}

#[test]
fn what_a_server_sent_counts_from_when_it_arrived() {
    if privilege() != Privilege::Root {
        println!("SKIPPED: no namespaces here without root");
        return;
    }
    // The queue holds a second of the link: nothing is lost, and all of it is late.
    let shape = Shape { tx_rate_bps: Some(LINK_BPS), tx_queue_octets: 1000 * 1514, ..Shape::unshaped() };
    let lab = Lab::up(&shape).unwrap();
    for tool in [Tool::Netperf, Tool::Nuttcp, Tool::Iperf2] {
        let (served, [_, client]) = sent(tool, &lab);
        let [_, remote] = *served.ended.unwrap();
        let rate = |flow: &FlowOutcome| flow.octets as f64 * 8e9 / flow.elapsed_ns as f64;
        let [told, seen] = [&remote, &client].map(|end| rate(&end.flows[0]));
        println!("{tool:?}: {told:.0} bit/s in the server's record, {seen:.0} at the client");
        assert!(told < LINK_BPS as f64, "{tool:?}: more than the link carries");
        assert!((told / seen - 1.0).abs() < 0.05, "{tool:?}: {told} and {seen}");
    }
}
