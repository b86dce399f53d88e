//! Faults made on purpose in network namespaces: `linerate explain` names each first, and says nothing of a clean run.
//! Knows how to make a fault; which rule finds it stands beside it.

#[path = "machines/backlog.rs"]
mod backlog;
mod machines;

use std::io;
use std::process::Command;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use backlog::ShortBacklog;
use linerate_lab::Shape;
use linerate_results::findings::{Finding, Sureness, cases, findings};
use linerate_results::record::Record;
use linerate_trial::doubt::DoubtKind;
use machines::{Bench, Running};

const IN_TIME: Duration = Duration::from_secs(30);

/// One test at a time: each needs the CPUs.
static ALONE: Mutex<()> = Mutex::new(());

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
    /// So many packets wait for a CPU at most, on the whole machine.
    backlog: Option<u32>,
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
        backlog: None,
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
            set: &["rate=60M", "sender_api=sendmmsg", "socket_buffer=208K"],
            crowded: true,
            right: Some("receiver-starved"),
            also: &["host-limits"],
            ..nothing
        },
        Fault {
            name: "a backlog shorter than a burst",
            set: &["rate=20M", "message_size=1000", "sender_api=udp-segment", "burst=60", "host.udp_segmentation=off"],
            backlog: Some(40),
            right: Some("softirq-backlog"),
            ..nothing
        },
        Fault {
            name: "a neighbour that no longer answers",
            // The target's own address must be known to it: its question would be an answer too.
            target: "ip link set eth0 address 02:00:00:00:00:02 && sysctl -qw net.ipv4.conf.all.arp_ignore=8 && \
                     ip neigh replace 198.18.0.1 lladdr 02:00:00:00:00:01 dev eth0 nud permanent",
            host: "ip link set eth0 address 02:00:00:00:00:01 && cd /proc/sys/net/ipv4/neigh/eth0 && \
                   echo 50 >retrans_time_ms && echo 10 >ucast_solicit && echo 0 >delay_first_probe_time && \
                   ip neigh replace 198.18.0.2 lladdr 02:00:00:00:00:02 dev eth0 nud stale",
            set: &["rate=20M", "duration=1s", "message_size=1000", "sender_api=sendmmsg"],
            right: Some("neighbours"),
            // On a busy machine the neighbour is gone before the first datagram, and nothing comes through at all.
            also: &["stack-drops", "nothing-comes-through"],
            ..nothing
        },
        Fault {
            name: "MTU 1400 at the target",
            target: "ip link set eth0 mtu 1400",
            set: &["rate=10M", "sender_api=sendmmsg"],
            right: Some("mtu-mismatch"),
            also: &["transmit-ring"],
            ..nothing
        },
        Fault {
            name: "a firewall that counts nothing",
            target: "nft add table ip t && nft 'add chain ip t c { type filter hook input priority 0; }' && \
                     nft add rule ip t c udp length 1478 drop",
            set: &["rate=10M", "sender_api=sendmmsg"],
            right: Some("stack-drops"),
            ..nothing
        },
        Fault {
            name: "a firewall at the sender",
            target: "nft add table ip t && nft 'add chain ip t c { type filter hook output priority 0; }' && \
                     nft add rule ip t c udp length 1478 drop",
            set: &["rate=10M", "direction=tx", "sender_api=sendmmsg"],
            right: Some("stack-drops"),
            also: &["transmit-ring"],
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
            // As long as CPU figures need to mean something.
            set: &["duration=800ms"],
            right: Some("segmentation"),
            ..nothing
        },
        Fault {
            name: "checksums by the CPU of the host",
            plan: "tcp-stream",
            set: &["duration=800ms", "host.tx_checksum=off"],
            right: Some("checksum-offload"),
            also: &["segmentation"],
            ..nothing
        },
        Fault {
            name: "64 octets a call",
            plan: "tcp-stream",
            set: &["message_size=64", "sender_api=plain", "duration=800ms"],
            right: Some("sender-cpu"),
            ..nothing
        },
        Fault {
            name: "every other segment takes a slower way",
            shape: Shape { segmentation_offload: false, ..Shape::unshaped() },
            target: "ip link add ifb9 type ifb && ip link set ifb9 up && tc qdisc add dev eth0 ingress && \
                     tc qdisc add dev ifb9 root tbf rate 50mbit burst 8k limit 4000000 && \
                     tc filter add dev eth0 parent ffff: protocol ip u32 match ip protocol 6 0xff match u8 0x08 0x08 at 26 \
                     action mirred egress redirect dev ifb9",
            plan: "tcp-stream",
            right: Some("reordering"),
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
        let done = if is_target { bench.lab().target.run(shell) } else { bench.lab().host.run(shell) };
        if !done.unwrap() {
            return None;
        }
    }
    let mut more = vec!["--quiet"];
    if !fault.set.iter().any(|set| set.starts_with("duration")) {
        more.extend(["--set", "duration=500ms"]);
    }
    for set in fault.set {
        more.extend(["--set", set]);
    }
    let _backlog = match fault.backlog.map(ShortBacklog::of) {
        Some(Err(why)) => {
            eprintln!("SKIPPED {}: the backlog cannot be shortened ({why})", fault.name);
            return None;
        }
        short => short.and_then(Result::ok),
    };
    let crowded;
    let mut command = bench.run_command(fault.plan, &more);
    if fault.crowded {
        // Least urgent of all, so that the crowd stands before it.
        let program = env!("CARGO_BIN_EXE_linerate");
        let netns = bench.lab().target.path();
        crowded = format!("exec:exec nice -n 19 {program} agent --stdio --netns {}", netns.display());
        command = bench.linerate(&["run", fault.plan, "--target", &crowded, "--host", &bench.host()]);
        command.args(&more);
    }
    let running = Running::start(command);
    let crowd = fault.crowded.then(Crowd::gather);
    let ran = running.wait(IN_TIME);
    drop(crowd);
    let record = bench.records().pop();
    if std::env::var_os("LINERATE_FAULT").is_some() {
        println!("{}", ran.stdout);
        let command = bench.linerate(&["explain"]);
        println!("{}", Running::start(command).wait(IN_TIME).stdout);
        println!(
            "{:#?}",
            record.as_ref().map(|record| (&record.target.threads, &record.host.threads, &record.target.cpu))
        );
    }
    assert!(record.is_some(), "{}: {ran:#?}", fault.name);
    record
}

/// Programs that take every CPU from all that is less urgent, for as long as the value lives.
struct Crowd(Vec<std::process::Child>);

impl Crowd {
    fn gather() -> Crowd {
        let cpus = thread::available_parallelism().map_or(1, usize::from);
        let spin = || Command::new("timeout").args(["20", "sh", "-c", "while :; do :; done"]).spawn();
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
    let _alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    // For who works on a rule: only the faults with this in their names.
    let only = std::env::var("LINERATE_FAULT").unwrap_or_default();
    let (mut faults_seen, mut missed) = (0, Vec::new());
    let began = Instant::now();
    'faults: for fault in faults().iter().filter(|fault| fault.name.contains(&only)) {
        // A clean run is one in which nothing went wrong, and a crowded machine spoils some.
        let tries = if fault.right.is_none() { 4 } else { 2 };
        let mut found = Vec::new();
        for _ in 0..tries {
            let Some(record) = trial(fault) else { continue 'faults };
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
    let right = faults_seen - missed.len();
    println!(
        "the right finding is first in {right} of {faults_seen} faults ({:.0} %), and no wrong one is sure; not in {missed:?}",
        100.0 * right as f64 / faults_seen.max(1) as f64
    );
    assert!(missed.len() * 10 <= faults_seen, "not first in {missed:?} of {faults_seen}");
}

/// A veth hands buffers of 64 KiB over whole: GRO, which it has and does not use, could merge nothing.
#[test]
fn a_veth_without_gro_is_not_blamed() {
    let _alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let Some(bench) = Bench::of("veth-gro", &Shape::unshaped()) else { return };
    bench.run("tcp-stream", &["--set", "duration=800ms", "--quiet"], IN_TIME).check_done();
    let record = bench.records().pop().unwrap();
    assert_eq!(record.target.environment.nic.as_ref().unwrap().offloads.get("rx-gro"), Some(&false));
    let found = findings(&record);
    assert!(found.iter().all(|one| one.name != "segmentation"), "{found:#?}");
}

/// The target's link is set down for two seconds in mid-trial and up again, and forgets its neighbours as it does so.
#[test]
fn a_link_that_went_down_is_named_before_what_it_did() {
    let _alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let Some(bench) = Bench::of("link-down", &Shape::unshaped()) else { return };
    let link = |state: &str| {
        let set = || Command::new("ip").args(["link", "set", "eth0", state]).status();
        assert!(bench.lab().target.run(set).unwrap().success(), "ip link set eth0 {state}");
    };
    let set = ["--set", "duration=5s", "--set", "rate=20M", "--set", "ip=4", "--quiet"];
    let running = Running::start(bench.run_command("udp-stream", &set));
    bench.wait_for_traffic(500);
    link("down");
    thread::sleep(Duration::from_secs(2));
    link("up");
    running.wait(IN_TIME).check_done();
    let record = bench.records().pop().unwrap();
    let loss = record.result.as_ref().unwrap().flow.loss_ratio.unwrap();
    assert!(loss > 0.2, "{loss}");
    let doubt = record.doubts.iter().find(|doubt| doubt.kind() == DoubtKind::LinkWentDown);
    let doubt = doubt.unwrap_or_else(|| panic!("{:#?}", record.doubts));
    assert!(
        doubt.to_string().contains("link went down or came up during the trial (changes of the carrier: 2)"),
        "{doubt:?}"
    );
    let found = findings(&record);
    println!("{}: {found:#?}", doubt);
    assert_eq!(found[0].name, "link-down", "{}", names(&found));
    // Two seconds, and as long as the neighbours take to know each other again.
    let words: Vec<&str> = found[0].sentence.split(' ').collect();
    let seconds: f64 = words[words.len() - 2].parse().unwrap();
    assert!((1.9..4.5).contains(&seconds), "{}", found[0].sentence);
    assert!(found.iter().all(|one| one.name != "neighbours"), "{}", names(&found));
}

/// The root discipline of the host's interface with its parameters, without its handle, which changes with each change.
fn discipline(bench: &Bench) -> String {
    let show = || Command::new("tc").args(["qdisc", "show", "dev", "eth0", "root"]).output();
    let shown = bench.lab().host.run(show).unwrap();
    let words = String::from_utf8_lossy(&shown.stdout).into_owned();
    words.split_whitespace().filter(|word| !word.ends_with(':')).collect::<Vec<_>>().join(" ")
}

/// What it suggests is tried in turns and put back; with `--keep` it stays, because it helped.
#[test]
fn what_is_suggested_is_tried() {
    let _alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let Some(bench) = Bench::of("try", &Shape::unshaped()) else { return };
    let limit = || {
        let words = "qdisc replace dev eth0 root tbf rate 20mbit burst 8k limit 15000";
        Command::new("tc").args(words.split(' ')).status()
    };
    match bench.lab().host.run(limit) {
        Ok(status) if status.success() => {}
        other => return eprintln!("SKIPPED what_is_suggested_is_tried: no tc(8) that limits ({other:?})"),
    }
    let before = discipline(&bench);
    let set = ["--set", "duration=200ms", "--set", "rate=60M", "--set", "sender_api=sendmmsg"];
    let ran = bench.run("udp-stream", &set, IN_TIME);
    ran.check_done();
    // Below them are doubts only.
    let said = ran.stdout.lines().rev().skip_while(|line| line.starts_with('['));
    let last: Vec<&str> = said.take(3).collect();
    assert!(last[0].starts_with("Try host.qdisc=default: linerate explain --try 0"), "{ran:#?}");
    assert!(last[1].starts_with("Because host: eth0 tbf drops"), "{ran:#?}");
    assert!(last[2].ends_with("and drops the rest. (sure)"), "{ran:#?}");
    let record = bench.records().pop().unwrap().id;
    let explain = |more: &[&str]| {
        let mut command = bench.linerate(&["explain", &record, "--quiet"]);
        command.args(more);
        Running::start(command).wait(4 * IN_TIME)
    };
    let said = explain(&[]);
    assert!(said.check_done().stdout.contains("1. The host's own queueing discipline shapes"), "{said:#?}");
    let tried = explain(&["--try", "--repeat", "6"]);
    assert!(tried.check_done().stdout.contains("It helped: "), "{tried:#?}");
    assert!(
        tried.stdout.contains("bears out the finding qdisc-drops.\nNothing is left changed; linerate explain "),
        "{tried:#?}"
    );
    assert_eq!(discipline(&bench), before);
    let trials = bench.records();
    // What was measured before stays the last.
    let shown = Running::start(bench.linerate(&["records", "show", "last", "--json"])).wait(IN_TIME);
    assert_eq!(shown.json()[0]["id"], record.as_str());
    assert_eq!(trials.iter().filter(|record| record.plan == "explain --try").count(), 12);
    let kept = explain(&["--try", "--repeat", "6", "--keep", "--finding", "qdisc-drops"]);
    assert!(kept.check_done().stdout.contains("host.qdisc=default stays"), "{kept:#?}");
    assert!(!discipline(&bench).contains("tbf"), "{}", discipline(&bench));
    // It is as suggested now, so there is nothing to try.
    explain(&["--try"]).check_sentence(&["host.qdisc is", "already", "measure again"]);
    explain(&["--finding", "qdisc-drop"]).check_sentence(&["did you mean 'qdisc-drops'?"]);
    explain(&["--finding", "eee"]).check_sentence(&["does not show eee"]);
}
