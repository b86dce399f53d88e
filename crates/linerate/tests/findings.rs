//! Faults made on purpose in network namespaces: `linerate explain` names each first, and says nothing of a clean run.
//! Knows how to make a fault; which rule finds it stands beside it.

mod machines;

use std::io;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use linerate_lab::Shape;
use linerate_results::findings::{Finding, Sureness, cases, findings};
use linerate_results::record::Record;
use machines::{Bench, Running};

const IN_TIME: Duration = Duration::from_secs(30);

/// A fault that is really there.
struct Fault {
    name: &'static str,
    shape: Shape,
    /// Done in the target, and in the host, before the trial, by sh(1).
    target: &'static str,
    host: &'static str,
    plan: &'static str,
    set: &'static [&'static str],
    /// Whether every CPU is taken by others meanwhile.
    crowded: bool,
    /// The finding that should be first; `None`: nothing is wrong.
    right: Option<&'static str>,
    /// What is true besides.
    also: &'static [&'static str],
}

/// True of any trial on a machine that the tests share: the CPU is wanted by others.
const ALWAYS_TRUE: [&str; 5] = ["steal", "sender-cpu", "receiver-cpu", "receiver-starved", "receive-buffer"];

fn faults() -> Vec<Fault> {
    let nothing = Fault {
        name: "",
        shape: Shape::unshaped(),
        target: "",
        host: "",
        plan: "udp-stream",
        set: &[],
        crowded: false,
        right: None,
        also: &[],
    };
    let board = |mbit: u64| Shape { rx_rate_bps: Some(mbit * 1_000_000), ..Shape::modest_board() };
    vec![
        Fault { name: "clean UDP", set: &["rate=20M"], ..nothing },
        Fault { name: "clean TCP at a rate", plan: "tcp-stream", set: &["rate=20M"], ..nothing },
        Fault { name: "clean requests", plan: "tcp-rr", set: &["rate=500pps"], ..nothing },
        Fault {
            name: "a queue of 30 packets behind a TBF at the target",
            target: "tc qdisc replace dev eth0 root tbf rate 20mbit burst 8k limit 45000",
            set: &["rate=60M", "direction=tx", "sender_api=sendmmsg"],
            right: Some("qdisc-drops"),
            ..nothing
        },
        Fault {
            name: "a TBF at the host, under TCP",
            host: "tc qdisc replace dev eth0 root tbf rate 30mbit burst 8k limit 15000",
            plan: "tcp-stream",
            right: Some("qdisc-drops"),
            ..nothing
        },
        Fault {
            name: "a short receive ring (ifb)",
            shape: Shape { tx_rate_bps: None, rx_queue_octets: 30_000, ..board(30) },
            set: &["rate=90M", "sender_api=sendmmsg"],
            right: Some("receive-ring"),
            ..nothing
        },
        Fault {
            name: "a socket buffer of 4 KiB",
            set: &["rate=100M", "burst=100", "socket_buffer=4K", "sender_api=sendmmsg"],
            right: Some("small-buffer"),
            ..nothing
        },
        Fault {
            name: "a reader that gets no CPU",
            set: &["rate=150M", "sender_api=sendmmsg", "pin=true"],
            crowded: true,
            right: Some("receiver-starved"),
            also: &["host-limits"],
            ..nothing
        },
        Fault {
            name: "MTU 1400 at the target",
            target: "ip link set eth0 mtu 1400",
            set: &["rate=10M", "sender_api=sendmmsg"],
            right: Some("mtu-mismatch"),
            also: &["receive-ring", "transmit-ring"],
            ..nothing
        },
        Fault {
            name: "a firewall that counts nothing",
            target: "nft add table ip t && nft 'add chain ip t c { type filter hook input priority 0; }' && \
                     nft add rule ip t c udp length 1478 drop",
            set: &["rate=10M", "sender_api=sendmmsg"],
            right: Some("unaccounted"),
            ..nothing
        },
        Fault {
            name: "a route that swallows",
            target: "nft add table ip t && nft 'add chain ip t c { type filter hook output priority 0; }' && \
                     nft add rule ip t c udp length 1478 drop",
            set: &["rate=10M", "direction=tx", "sender_api=sendmmsg"],
            right: Some("transmit-ring"),
            also: &["stack-drops"],
            ..nothing
        },
        Fault {
            name: "tcp_rmem of 8 KiB at the target",
            target: "sysctl -qw net.ipv4.tcp_rmem='4096 8192 8192'",
            plan: "tcp-stream",
            right: Some("small-buffer"),
            also: &["receive-window"],
            ..nothing
        },
        Fault {
            name: "tcp_wmem of 8 KiB at the host",
            host: "sysctl -qw net.ipv4.tcp_wmem='4096 8192 8192'",
            plan: "tcp-stream",
            right: Some("small-buffer"),
            also: &["send-buffer"],
            ..nothing
        },
        Fault {
            name: "messages of 1500 octets with nodelay",
            shape: Shape { segmentation_offload: false, ..Shape::unshaped() },
            plan: "tcp-stream",
            set: &["message_size=1500", "nodelay=true", "sender_api=plain"],
            right: Some("mss-multiple"),
            also: &["segmentation", "application-limited"],
            ..nothing
        },
        Fault {
            name: "TSO, GSO and GRO off",
            shape: Shape { segmentation_offload: false, ..Shape::unshaped() },
            plan: "tcp-stream",
            right: Some("segmentation"),
            ..nothing
        },
        Fault {
            name: "the host's TBF holds UDP back",
            host: "tc qdisc replace dev eth0 root tbf rate 30mbit burst 8k limit 8000000",
            set: &["rate=60M", "sender_api=sendmmsg"],
            right: Some("host-limits"),
            ..nothing
        },
    ]
}

/// Runs one trial with the fault; `None` where this machine cannot make it.
fn trial(fault: &Fault) -> Option<Record> {
    let bench = Bench::of(
        &format!("findings-{}", fault.name.replace(|c: char| !c.is_ascii_alphanumeric(), "-")),
        &fault.shape,
    )?;
    for (script, is_target) in [(fault.target, true), (fault.host, false)] {
        let shell = || -> io::Result<bool> {
            let done = Command::new("sh").args(["-ec", script]).output()?;
            if !done.status.success() {
                eprintln!("SKIPPED {}: {}", fault.name, String::from_utf8_lossy(&done.stderr).trim());
            }
            Ok(done.status.success())
        };
        let done = if is_target { bench.lab().in_target(shell) } else { bench.lab().in_host(shell) };
        if !done.unwrap() {
            return None;
        }
    }
    let mut more = vec!["--set", "duration=500ms", "--quiet"];
    for set in fault.set {
        more.extend(["--set", set]);
    }
    let running = Running::start(bench.run_command(fault.plan, &more));
    let crowd = fault.crowded.then(Crowd::gather);
    let ran = running.wait(IN_TIME);
    drop(crowd);
    let record = bench.records().pop();
    assert!(record.is_some(), "{}: {ran:#?}", fault.name);
    record
}

/// Threads that take every CPU from all that is less urgent, for as long as the value lives.
struct Crowd(Vec<std::process::Child>);

impl Crowd {
    fn gather() -> Crowd {
        let cpus = thread::available_parallelism().map_or(1, usize::from);
        let spin =
            || Command::new("nice").args(["-n", "-15", "timeout", "10", "sh", "-c", "while :; do :; done"]).spawn();
        Crowd((0..2 * cpus).filter_map(|_| spin().ok()).collect())
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // timeout(1) passes the signal on to what it runs.
            machines::signal(child.id(), "TERM");
            let _ = child.wait();
        }
    }
}

fn names(found: &[Finding]) -> String {
    found.iter().map(|one| format!("{} {}", one.name, one.sure.name())).collect::<Vec<_>>().join(", ")
}

/// Over all faults, real and recorded: the right finding is first in at least nine of ten, no wrong one is sure, and a
/// clean run has none.
#[test]
fn the_right_finding_is_first() {
    let (mut faults_seen, mut missed) = (0, Vec::new());
    let began = Instant::now();
    'faults: for fault in faults() {
        // A clean run is one in which nothing went wrong, and a crowded machine spoils some.
        let tries = if fault.right.is_none() { 4 } else { 2 };
        let mut found = Vec::new();
        for _ in 0..tries {
            let Some(record) = trial(&fault) else { continue 'faults };
            found = findings(&record);
            let first = found.first().map(|finding| finding.name);
            println!("{:<50} {:<18} {}", fault.name, fault.right.unwrap_or("nothing"), names(&found));
            for finding in found.iter().filter(|one| one.sure == Sureness::Sure) {
                let is_true = fault.right == Some(finding.name) || fault.also.contains(&finding.name);
                assert!(is_true || ALWAYS_TRUE.contains(&finding.name), "{}: {finding:#?}", fault.name);
            }
            if first == fault.right {
                break;
            }
        }
        match (fault.right, found.first()) {
            (None, None) => {}
            (None, Some(_)) => {
                assert!(found.iter().all(|one| ALWAYS_TRUE.contains(&one.name)), "{}: {found:#?}", fault.name);
            }
            (Some(right), first) => {
                faults_seen += 1;
                if first.is_none_or(|first| first.name != right) {
                    missed.push(fault.name);
                }
            }
        }
    }
    println!("{} s for {faults_seen} faults made here", began.elapsed().as_secs());
    for case in cases::cases() {
        let found = findings(&case.record);
        println!("{:<50} {:<18} {} (recorded)", case.name, case.right.unwrap_or("nothing"), names(&found));
        match case.right {
            None => assert_eq!(names(&found), "", "{}", case.name),
            Some(right) => {
                faults_seen += 1;
                if found.first().is_none_or(|first| first.name != right) {
                    missed.push(case.name);
                }
            }
        }
        let sure = found.iter().filter(|one| one.sure == Sureness::Sure);
        sure.for_each(|one| assert!(case.allows(one.name), "{}: {one:#?}", case.name));
    }
    println!("not first: {missed:?} of {faults_seen}");
    assert!(missed.len() * 10 <= faults_seen, "not first in {missed:?} of {faults_seen}");
}
