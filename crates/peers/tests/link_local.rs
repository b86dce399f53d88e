//! Every tool over link-local addresses, which mean something at an interface only: both roles of ours, in two namespaces, and
//! the real tools where they are installed.
//! Knows no records. Says so and passes without root.

use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use linerate_host::interfaces;
use linerate_host::traffic::reachability::UnprovenLimit;
use linerate_lab::{LINK_NAME, Lab, Privilege, Shape, privilege};
use linerate_machine::end::Direction;
use linerate_peers::Route;
use linerate_peers::limits::Limits;
use linerate_peers::served_test::ServedTest;
use linerate_peers::server::Server;
use linerate_trial::spec::{Extent, Spec, Workload};
use linerate_trial::tool::Tool;

/// The addresses of both ends.
const HOST: &str = "fe80::1";
const TARGET: &str = "fe80::2";
/// Enough for every test here.
const ALLOWED: UnprovenLimit = UnprovenLimit { bits_per_second: 100_000_000 };

/// Two machines whose link has link-local addresses, the same ones at another interface too.
fn lab() -> Option<Lab> {
    if privilege() != Privilege::Root {
        println!("SKIPPED: no namespaces here without root");
        return None;
    }
    let lab = Lab::up(&Shape::unshaped()).unwrap();
    let add = |own: &str| {
        for command in [
            format!("address add {own}/64 dev {LINK_NAME} nodad"),
            "link add other0 type veth peer name other1".to_owned(),
            "link set other0 up".to_owned(),
            "link set other1 up".to_owned(),
            format!("address add {own}/64 dev other0 nodad"),
        ] {
            let status = Command::new("ip").arg("-6").args(command.split_whitespace()).status()?;
            assert!(status.success(), "ip {command}");
        }
        Ok(())
    };
    lab.host.run(|| add(HOST)).unwrap();
    lab.target.run(|| add(TARGET)).unwrap();
    Some(lab)
}

/// The target's address as the host sees it.
fn target(lab: &Lab, port: u16) -> SocketAddr {
    let number = lab.host.run(|| interfaces::number(LINK_NAME)).unwrap();
    SocketAddrV6::new(TARGET.parse().unwrap(), port, 0, number).into()
}

/// A server of ours in the target while `work` goes on with its port. Returns what was served.
fn with_server(lab: &Lab, tool: Tool, work: impl FnOnce(u16)) -> Vec<ServedTest> {
    let limits = Limits { unproven: Some(ALLOWED), ..Limits::default() };
    let (served, over) = (Mutex::new(Vec::new()), AtomicBool::new(false));
    let server = lab.target.run(|| Server::bind(tool, None, 0, limits)).unwrap();
    let port = server.port().unwrap();
    thread::scope(|scope| {
        let (served, over) = (&served, &over);
        let running = scope.spawn(move || {
            lab.target.run(|| server.run(|_| over.load(Ordering::Relaxed), |one| served.lock().unwrap().push(one)))
        });
        let said = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(port)));
        thread::sleep(Duration::from_millis(400));
        over.store(true, Ordering::Relaxed);
        running.join().unwrap().unwrap();
        said.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    served.into_inner().unwrap()
}

fn spec(workload: Workload, direction: Direction) -> Spec {
    let mut spec = Spec::new(workload);
    (spec.direction, spec.extent) = (direction, Extent::Time(Duration::from_secs(1)));
    if workload.is_stream() {
        spec.rate = "20M".parse().unwrap();
        spec.message_size = Some(1000);
    }
    spec
}

/// One trial of the host against the server in the target.
fn measure(lab: &Lab, tool: Tool, spec: &Spec, port: u16) -> Result<(), String> {
    let route = Route {
        local: HOST.parse().unwrap(),
        interface: Some(LINK_NAME.to_owned()),
        server: target(lab, port),
        unanswered: (tool == Tool::Ttcp).then_some(ALLOWED),
    };
    let [_, host] = lab
        .host
        .run(|| Ok(linerate_peers::run(tool, &[], spec, &route, |_| {}, &|| false).map_err(|error| error.to_string())))
        .unwrap()?;
    if host.flows.iter().all(|flow| flow.octets_total > 0) { Ok(()) } else { Err("nothing was moved".to_owned()) }
}

#[test]
fn every_tool_in_both_roles() {
    use Direction::{Both, Rx, Tx};
    let Some(lab) = lab() else { return };
    let kinds = [
        (Workload::TcpStream, Rx),
        (Workload::TcpStream, Tx),
        (Workload::TcpStream, Both),
        (Workload::UdpStream, Rx),
        (Workload::UdpStream, Tx),
        (Workload::TcpRr, Rx),
        (Workload::UdpRr, Rx),
        (Workload::TcpCrr, Rx),
    ];
    for tool in [Tool::Iperf3, Tool::Iperf2, Tool::Netperf, Tool::Nuttcp, Tool::Ttcp] {
        for (workload, direction) in kinds {
            let mut spec = spec(workload, direction);
            if tool == Tool::Netperf && direction != Rx {
                spec.rate = "unlimited".parse().unwrap();
            }
            // A ttcp in the target that sends would have to be told when.
            if linerate_peers::check(tool, &spec).is_err() || (tool, direction) == (Tool::Ttcp, Tx) {
                continue;
            }
            let what = format!("{tool} {workload} {direction}");
            let served = with_server(&lab, tool, |port| {
                measure(&lab, tool, &spec, port).unwrap_or_else(|error| panic!("{what}: {error}"));
            });
            println!("{what}: {}", served.len());
            assert!(!served.is_empty(), "{what}");
            for one in &served {
                one.ended.as_ref().unwrap_or_else(|error| panic!("{what}: {error}"));
                assert_eq!(one.interface.as_deref(), Some(LINK_NAME), "{what}");
                assert_eq!(one.peer.ip(), HOST.parse::<IpAddr>().unwrap(), "{what}");
            }
        }
    }
}

/// Runs a real tool in the host; `None`: it is not installed.
fn real(lab: &Lab, program: &str, arguments: &str) -> Option<String> {
    let output = lab
        .host
        .run(|| {
            let output = Command::new("timeout").args(["20", program]).args(arguments.split_whitespace()).output()?;
            Ok(output)
        })
        .unwrap();
    if output.status.code() == Some(127) {
        println!("SKIPPED: {program} cannot be run here; apt-get install it");
        return None;
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    Some(text)
}

#[test]
fn the_real_clients_are_served_and_connected_back_to() {
    let Some(lab) = lab() else { return };
    for (tool, program, arguments, tests) in [
        (Tool::Iperf3, "iperf3", "-c AT -p PORT -t 1", 1),
        (Tool::Iperf3, "iperf3", "-c AT -p PORT -t 1 -u -b 5M -R", 1),
        (Tool::Iperf2, "iperf", "-V -c AT -p PORT -t 0.5 -b 5M", 1),
        (Tool::Iperf2, "iperf", "-V -c AT -p PORT -t 0.5 -b 5M -r -L 5401", 2),
        (Tool::Iperf2, "iperf", "-V -c AT -p PORT -t 0.5 -b 5M -d -L 5402", 1),
        (Tool::Iperf2, "iperf", "-V -c AT -p PORT -t 0.5 -b 5M -u -r -L 5403", 2),
        (Tool::Iperf2, "iperf", "-V -c AT -p PORT -t 0.5 -b 5M -u -R", 1),
        (Tool::Nuttcp, "nuttcp", "-6 -P PORT -T1 AT", 1),
        (Tool::Nuttcp, "nuttcp", "-6 -P PORT -T1 -r AT", 1),
        (Tool::Nuttcp, "nuttcp", "-6 -P PORT -T1 -F AT", 1),
        (Tool::Nuttcp, "nuttcp", "-6 -P PORT -T1 -r -F AT", 1),
        (Tool::Nuttcp, "nuttcp", "-6 -P PORT -T1 -u -R5m AT", 1),
        (Tool::Nuttcp, "nuttcp", "-6 -P PORT -T1 -u -R5m -r AT", 1),
    ] {
        let mut printed = None;
        let served = with_server(&lab, tool, |port| {
            let at = format!("{TARGET}%{LINK_NAME}");
            let arguments = arguments.replace("AT", &at).replace("PORT", &port.to_string());
            printed = real(&lab, program, &arguments);
        });
        let Some(printed) = printed else { continue };
        println!("{program} {arguments}: {printed}");
        assert_eq!(served.len(), tests, "{program} {arguments}: {printed}");
        for one in &served {
            let [ours, _] = &**one.ended.as_ref().unwrap_or_else(|error| panic!("{arguments}: {error}\n{printed}"));
            assert!(ours.flows.iter().all(|flow| flow.octets_total > 0), "{arguments}: {printed}");
        }
    }
}

#[test]
fn our_clients_reach_the_real_servers() {
    use Direction::{Rx, Tx};
    let Some(lab) = lab() else { return };
    for (tool, program, arguments, workloads) in [
        (Tool::Iperf3, "iperf3", "-s -6 -p PORT", &[Workload::TcpStream, Workload::UdpStream][..]),
        (Tool::Iperf2, "iperf", "-s -V -p PORT", &[Workload::TcpStream]),
        (Tool::Iperf2, "iperf", "-s -V -u -p PORT", &[Workload::UdpStream]),
        (Tool::Nuttcp, "nuttcp", "-S -6 --nofork -P PORT", &[Workload::TcpStream, Workload::UdpStream]),
    ] {
        for (port, (&workload, direction)) in
            (5300..).zip(workloads.iter().flat_map(|workload| [(workload, Rx), (workload, Tx)]))
        {
            let arguments = arguments.replace("PORT", &port.to_string());
            // A real iperf2 falls over its tests now and then, on a busy machine more often (see iperf2_client.rs): each
            // attempt has a server of its own.
            let mut said = Ok(());
            for _ in 0..4 {
                let start = || -> io::Result<_> {
                    let mut command = Command::new(program);
                    command.args(arguments.split_whitespace()).stdin(Stdio::null());
                    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()
                };
                let Ok(mut server) = lab.target.run(start) else {
                    println!("SKIPPED: {program} cannot be run here; apt-get install it");
                    break;
                };
                thread::sleep(Duration::from_millis(500));
                said = measure(&lab, tool, &spec(workload, direction), port);
                let _ = server.kill();
                let _ = server.wait();
                println!("{program} {arguments} {workload} {direction}: {said:?}");
                if said.is_ok() {
                    break;
                }
            }
            said.unwrap_or_else(|error| panic!("{program} {arguments} {workload} {direction}: {error}"));
        }
    }
}
