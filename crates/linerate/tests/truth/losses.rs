//! Losses placed on purpose at each stage that namespaces can produce, one at a time and two at once: the budget of the
//! record names the stage, its count is what the fault itself counted, and the first finding says what was done.
//! Knows no rates. Needs root, `ip`, `tc`, `nft` and `nsenter`; says so and passes where they are missing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use linerate_host::drop_reasons;
use linerate_host::sys::bpf::{Attached, Instruction, Program, ProgramKind};
use linerate_lab::Shape;
use linerate_path::stage::Stage;
use linerate_results::findings::{Sureness, findings};
use linerate_results::record::Record;
use linerate_trial::doubt::DoubtKind;

use super::backlog::ShortBacklog;
use super::rig::{Rig, losses};

/// A way to lose datagrams between the host, which sends, and the target.
struct Fault {
    name: &'static str,
    /// Commands in the host's and in the target's namespace.
    host: &'static [&'static str],
    target: &'static [&'static str],
    /// Rules of nftables there. Data, and nothing else of a trial, is `udp length 1008`.
    host_rules: &'static str,
    target_rules: &'static str,
    /// A quarter of the data is dropped by an XDP program at the target's interface.
    xdp: Option<Xdp>,
    /// So many packets wait for a CPU at most, on the whole machine.
    backlog: Option<u32>,
    /// Beside those of every trial.
    options: &'static [(&'static str, &'static str)],
    /// Where the budget must say that datagrams were lost, and how many.
    want: &'static [(Stage, Count)],
    /// What the evidence must name.
    evidence: &'static str,
    /// The findings that are true: the first must be found first, all must be found, and no other may be sure.
    right: &'static [&'static str],
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Xdp {
    InDriver,
    InStack,
}

/// Who counted the loss, by another way than the program's.
#[derive(Clone, Copy, Debug)]
enum Count {
    /// The rule of nftables in the host's, or in the target's namespace.
    HostRule,
    TargetRule,
    /// tc, of this device in the host's, or in the target's namespace.
    HostQueue(&'static str),
    TargetQueue(&'static str),
    /// The target's interface, in /proc/net/dev.
    TargetInterface,
    /// Nobody else: what was lost and not counted elsewhere.
    Rest,
}

const PLAIN: Fault = Fault {
    name: "",
    host: &[],
    target: &[],
    host_rules: "",
    target_rules: "",
    xdp: None,
    backlog: None,
    options: &[],
    want: &[],
    evidence: "",
    right: &[],
};

const TRACED: &[(&str, &str)] = &[("drop_reasons", "on")];
const SHAPE_TARGET: &[&str] = &[
    "ip link add ifb9 type ifb",
    "ip link set ifb9 up",
    "tc qdisc add dev eth0 ingress",
    "tc filter add dev eth0 parent ffff: protocol ip u32 match u32 0 0 action mirred egress redirect dev ifb9",
    "tc qdisc add dev ifb9 root tbf rate 10mbit burst 5k limit 10k",
];
const SHAPE_HOST: &[&str] = &["tc qdisc add dev eth0 root tbf rate 10mbit burst 5k limit 10k"];
const FILTER_IN: &str =
    "chain c { type filter hook input priority 0; udp length 1008 numgen inc mod 4 0 counter drop; }";

/// A veth hands each packet to the backlog of the CPU that sends it (drivers/net/veth.c, veth_forward_skb), which is
/// emptied once that is done: sixty that are cut from one buffer only there meet it at once.
const BURSTS: &[(&str, &str)] = &[("sender_api", "udp-segment"), ("burst", "60"), ("host.udp_segmentation", "off")];
const FEWER_THAN_A_BURST: Option<u32> = Some(40);

/// The other end has gone quiet: the host's entry for it is old, half a second of questions confirms nothing, and then
/// datagrams wait for an address that does not come. The target knows the host by heart, so that it asks nothing: a
/// question would be an answer too.
const QUIET_TARGET: &[&str] = &[
    "ip link set eth0 address 02:00:00:00:00:02",
    "ip neigh replace 198.18.0.1 lladdr 02:00:00:00:00:01 dev eth0 nud permanent",
    "sysctl -qw net.ipv4.conf.all.arp_ignore=8",
];
const HOST_OF_QUIET_TARGET: &[&str] = &[
    "ip link set eth0 address 02:00:00:00:00:01",
    "sysctl -qw net.ipv4.neigh.eth0.retrans_time_ms=50",
    "sysctl -qw net.ipv4.neigh.eth0.ucast_solicit=10",
    "sysctl -qw net.ipv4.neigh.eth0.delay_first_probe_time=0",
    "ip neigh replace 198.18.0.2 lladdr 02:00:00:00:00:02 dev eth0 nud stale",
];

const FAULTS: [Fault; 25] = [
    Fault { name: "nothing", ..PLAIN },
    Fault {
        name: "a full queue at the sender",
        host: SHAPE_HOST,
        want: &[(Stage::Qdisc, Count::HostQueue("eth0"))],
        evidence: "host: eth0 tbf drops",
        right: &["qdisc-drops"],
        ..PLAIN
    },
    Fault {
        name: "a full queue before the receiver",
        target: SHAPE_TARGET,
        want: &[(Stage::DriverRxRing, Count::TargetQueue("ifb9"))],
        evidence: "target: ifb9 tbf drops",
        right: &["receive-ring"],
        ..PLAIN
    },
    Fault {
        name: "a packet filter on the way out",
        host_rules: "chain c { type filter hook output priority 0; udp length 1008 numgen inc mod 4 0 counter drop; }",
        want: &[(Stage::SenderStack, Count::HostRule)],
        evidence: "host: Ip OutDiscards",
        right: &["stack-drops"],
        ..PLAIN
    },
    Fault {
        name: "a packet filter on the way in",
        target_rules: FILTER_IN,
        want: &[(Stage::ReceiverStack, Count::TargetRule)],
        evidence: "target: Ip InReceives",
        right: &["stack-drops"],
        ..PLAIN
    },
    Fault {
        name: "a packet filter on the way in, traced",
        target_rules: FILTER_IN,
        options: TRACED,
        want: &[(Stage::ReceiverStack, Count::TargetRule)],
        evidence: "NETFILTER_DROP",
        right: &["stack-drops"],
        ..PLAIN
    },
    Fault {
        name: "a packet filter on the way in that says so: the sender hears of each datagram as it sends another",
        target: &["sysctl -qw net.ipv4.icmp_ratelimit=0"],
        target_rules: "chain c { type filter hook input priority 0; udp length 1008 numgen inc mod 4 0 counter reject; }",
        want: &[(Stage::ReceiverStack, Count::TargetRule)],
        evidence: "target: Ip InReceives",
        right: &["stack-drops"],
        ..PLAIN
    },
    Fault {
        name: "a packet filter on the way in that prohibits over IPv6 and says so",
        target: &["sysctl -qw net.ipv6.icmp.ratelimit=0"],
        target_rules: "ip6 chain c { type filter hook input priority 0; udp length 1008 numgen inc mod 4 0 counter reject with icmpv6 admin-prohibited; }",
        options: &[("ip", "6")],
        want: &[(Stage::ReceiverStack, Count::TargetRule)],
        evidence: "target: Ip6 InReceives",
        right: &["stack-drops"],
        ..PLAIN
    },
    Fault {
        name: "a packet filter before routing",
        target_rules: "chain c { type filter hook prerouting priority -300; udp length 1008 numgen inc mod 5 0 counter drop; }",
        want: &[(Stage::ReceiverStack, Count::TargetRule)],
        evidence: "delivered to nobody",
        right: &["stack-drops"],
        ..PLAIN
    },
    Fault {
        name: "a packet filter at the interface",
        target_rules: "netdev chain c { type filter hook ingress device eth0 priority 0; udp length 1008 numgen inc mod 4 0 counter drop; }",
        options: TRACED,
        want: &[(Stage::ReceiverStack, Count::TargetRule)],
        evidence: "target: drop reason NETFILTER_DROP",
        right: &["stack-drops"],
        ..PLAIN
    },
    Fault {
        name: "nobody listens",
        target_rules: "chain c { type filter hook prerouting priority -300; \
                       udp length 1008 numgen inc mod 4 0 udp dport set 9 counter; }",
        want: &[(Stage::ReceiverStack, Count::TargetRule)],
        evidence: "target: Udp NoPorts",
        right: &["stack-drops"],
        ..PLAIN
    },
    Fault {
        name: "a wrong checksum",
        // Computed by the sender, so that the receiver looks at it.
        options: &[("host.tx_checksum", "off")],
        target_rules: "chain c { type filter hook prerouting priority -300; \
                       udp length 1008 numgen inc mod 4 0 udp checksum set 0xdead counter; }",
        want: &[(Stage::ReceiverStack, Count::TargetRule)],
        evidence: "target: Udp InCsumErrors",
        right: &["stack-drops"],
        ..PLAIN
    },
    Fault {
        name: "a source that cannot be",
        target: &["sysctl -qw net.ipv4.conf.all.rp_filter=1"],
        target_rules: "chain c { type filter hook prerouting priority -300; \
                       udp length 1008 numgen inc mod 4 0 ip saddr set 203.0.113.9 counter; }",
        want: &[(Stage::ReceiverStack, Count::TargetRule)],
        evidence: "IPReversePathFilter",
        right: &["stack-drops"],
        ..PLAIN
    },
    Fault {
        name: "a source that is the loopback's",
        target_rules: "chain c { type filter hook prerouting priority -300; \
                       udp length 1008 numgen inc mod 4 0 ip saddr set 127.0.0.9 counter; }",
        want: &[(Stage::ReceiverStack, Count::TargetRule)],
        evidence: "target: ",
        right: &["stack-drops"],
        ..PLAIN
    },
    Fault {
        name: "a destination without a route back",
        target_rules: "chain c { type filter hook prerouting priority -300; \
                       udp length 1008 numgen inc mod 4 0 ip daddr set 203.0.113.9 counter; }",
        want: &[(Stage::ReceiverStack, Count::TargetRule)],
        evidence: "target: ",
        right: &["stack-drops"],
        ..PLAIN
    },
    Fault {
        name: "a smaller MTU at the receiver",
        target: &["ip link set eth0 mtu 900"],
        want: &[(Stage::DriverRxRing, Count::Rest)],
        evidence: "target: link rx_dropped",
        right: &["mtu-mismatch"],
        ..PLAIN
    },
    Fault {
        name: "no memory for fragments",
        target: &["sysctl -qw net.ipv4.ipfrag_low_thresh=0", "sysctl -qw net.ipv4.ipfrag_high_thresh=0"],
        options: &[("message_size", "4000")],
        want: &[(Stage::ReceiverStack, Count::Rest)],
        evidence: "ReasmFails",
        right: &["stack-drops"],
        ..PLAIN
    },
    Fault {
        name: "a small socket buffer",
        options: &[("socket_buffer", "4K"), ("rate", "unlimited")],
        want: &[(Stage::ReceiverSocket, Count::Rest)],
        evidence: "target: the trial's sockets dropped",
        right: &["small-buffer", "receive-buffer"],
        ..PLAIN
    },
    Fault {
        name: "an XDP program in the driver",
        xdp: Some(Xdp::InDriver),
        want: &[(Stage::DriverRxRing, Count::Rest)],
        evidence: "target: driver rx_queue_",
        right: &["interface-filter"],
        ..PLAIN
    },
    Fault {
        name: "an XDP program in the stack",
        xdp: Some(Xdp::InStack),
        options: TRACED,
        want: &[(Stage::SoftirqBacklog, Count::Rest)],
        evidence: "at do_xdp_generic",
        right: &["interface-filter"],
        ..PLAIN
    },
    Fault {
        name: "a neighbour that no longer answers",
        host: HOST_OF_QUIET_TARGET,
        target: QUIET_TARGET,
        options: &[("drop_reasons", "on"), ("duration", "1s")],
        want: &[(Stage::SenderStack, Count::Rest)],
        evidence: "host: arp_cache unresolved_discards",
        right: &["neighbours", "stack-drops"],
        ..PLAIN
    },
    Fault {
        name: "a full backlog",
        backlog: FEWER_THAN_A_BURST,
        options: BURSTS,
        want: &[(Stage::SoftirqBacklog, Count::TargetInterface)],
        evidence: "target: softnet dropped",
        right: &["softirq-backlog"],
        ..PLAIN
    },
    Fault {
        name: "a full backlog and a packet filter at the receiver",
        backlog: FEWER_THAN_A_BURST,
        options: BURSTS,
        target_rules: FILTER_IN,
        want: &[(Stage::SoftirqBacklog, Count::TargetInterface), (Stage::ReceiverStack, Count::TargetRule)],
        evidence: "target: softnet dropped",
        right: &["softirq-backlog", "stack-drops"],
        ..PLAIN
    },
    Fault {
        name: "a full queue at the sender and a packet filter at the receiver",
        host: SHAPE_HOST,
        target_rules: FILTER_IN,
        want: &[(Stage::Qdisc, Count::HostQueue("eth0")), (Stage::ReceiverStack, Count::TargetRule)],
        evidence: "host: eth0 tbf drops",
        right: &["qdisc-drops", "stack-drops"],
        ..PLAIN
    },
    Fault {
        name: "an XDP program in the driver and nobody listening",
        xdp: Some(Xdp::InDriver),
        target_rules: "chain c { type filter hook prerouting priority -300; \
                       udp length 1008 numgen inc mod 4 0 udp dport set 9 counter; }",
        want: &[(Stage::DriverRxRing, Count::Rest), (Stage::ReceiverStack, Count::TargetRule)],
        evidence: "xdp_drops",
        right: &["interface-filter", "stack-drops"],
        ..PLAIN
    },
];

#[test]
fn each_loss_is_found_where_it_was_placed_and_counted() {
    for program in ["nft", "tc", "ip", "nsenter"] {
        if Command::new(program).arg("-V").output().is_err() {
            eprintln!("each_loss_is_found: skipped, needs {program} (cargo xtask setup)");
            return;
        }
    }
    let (mut held, mut not_first) = (0, Vec::new());
    for fault in &FAULTS {
        let Some(rig) = Rig::up("losses", &Shape { segmentation_offload: true, ..Shape::unshaped() }) else { return };
        let Some(is_first) = check(&rig, fault) else { continue };
        held += 1;
        if !is_first {
            not_first.push(fault.name);
        }
    }
    println!("the right finding is first in {} of {held}; not in {not_first:?}", held - not_first.len());
    assert!(not_first.len() * 10 <= held, "the right finding is not first in {not_first:?}, of {held}");
    assert!(held >= 12 || fs::metadata("/sys/kernel/tracing/events").is_err(), "only {held} cases could be made here");
}

/// Whether the right finding stands first; `None` where this machine cannot place the fault.
fn check(rig: &Rig, fault: &Fault) -> Option<bool> {
    let (host, target) = (rig.lab.host.path(), rig.lab.target.path());
    let made = fault.host.iter().try_for_each(|command| run(&host, command)).and_then(|()| {
        fault.target.iter().try_for_each(|command| run(&target, command))?;
        filter(&host, fault.host_rules)?;
        filter(&target, fault.target_rules)
    });
    if let Err(why) = made {
        eprintln!("{}: skipped, this machine cannot place it ({why})", fault.name);
        return None;
    }
    let is_traced = fault.options.contains(&TRACED[0]);
    if is_traced && let Err(why) = drop_reasons::Tracing::start() {
        eprintln!("{}: skipped, {why}", fault.name);
        return None;
    }
    let _xdp = match fault.xdp.map(|how| drop_a_quarter(rig, how, 14 + 20 + 8 + 1000)) {
        Some(Err(why)) => {
            eprintln!("{}: skipped, no XDP program can be attached ({why})", fault.name);
            return None;
        }
        Some(Ok(attached)) => Some(attached),
        None => None,
    };
    let _backlog = match fault.backlog.map(ShortBacklog::of) {
        Some(Err(why)) => {
            eprintln!("{}: skipped, the backlog cannot be shortened ({why})", fault.name);
            return None;
        }
        Some(Ok(short)) => Some(short),
        None => None,
    };
    let usual = [
        ("direction", "rx"),
        ("duration", "250ms"),
        ("rate", "20M"),
        ("message_size", "1000"),
        ("sender_api", "sendmmsg"),
        ("receiver_api", "recvmmsg"),
    ];
    let own = |name: &str| fault.options.iter().any(|(other, _)| *other == name);
    let options: Vec<(&str, &str)> =
        usual.into_iter().filter(|(name, _)| !own(name)).chain(fault.options.iter().copied()).collect();
    let record = rig.trial("udp-stream", &options);
    // The trace is of the whole machine. What others lost meanwhile makes several reasons compete, and then none is given.
    let traced: u64 = record.target.drop_reasons.iter().flatten().map(|one| one.packets).sum();
    let lost = record.result.as_ref().and_then(|result| result.flow.packets_lost).unwrap_or(0);
    if is_traced && record.unaccounted != Some(0) && traced > lost {
        eprintln!(
            "{}: skipped, {} packets of others were dropped on this machine meanwhile",
            fault.name,
            traced - lost
        );
        return None;
    }
    judge(fault, &record, [&host, &target]);
    Some(judge_findings(fault, &record))
}

#[track_caller]
fn judge(fault: &Fault, record: &Record, [host, target]: [&Path; 2]) {
    let by_stage = losses(record);
    let lines = record.loss_budget.as_ref().unwrap();
    let total: u64 = by_stage.values().sum();
    let traced = &record.target.drop_reasons;
    let said =
        format!("{}: {lines:#?}, unaccounted {:?}, {traced:?}\n{:#?}", fault.name, record.unaccounted, record.doubts);
    assert_eq!(record.unaccounted, Some(0), "{said}");
    assert!(!record.doubts.iter().any(|doubt| doubt.kind() == DoubtKind::CountersContradict), "{said}");
    assert_eq!(record.result.as_ref().unwrap().flow.packets_lost, Some(total), "{said}");
    let found: Vec<Stage> = by_stage.keys().copied().collect();
    let wanted: Vec<Stage> = fault.want.iter().map(|(stage, _)| *stage).collect();
    assert_eq!(found, wanted, "{said}");
    for (stage, count) in fault.want {
        let counted = match count {
            Count::HostRule => Some(rule_count(host)),
            Count::TargetRule => Some(rule_count(target)),
            Count::HostQueue(device) => Some(queue_drops(host, device)),
            Count::TargetQueue(device) => Some(queue_drops(target, device)),
            Count::TargetInterface => Some(interface_drops(target)),
            Count::Rest => None,
        };
        println!("{}: {} at {stage}, counted {counted:?}", fault.name, by_stage[stage]);
        assert!(by_stage[stage] > 10, "{said}");
        assert_eq!(counted.unwrap_or(by_stage[stage]), by_stage[stage], "{said}");
    }
    assert!(fault.want.is_empty() || lines.iter().any(|line| line.evidence().contains(fault.evidence)), "{said}");
}

/// Whether the right finding stands first. Everything that is wrong is found, and nothing else is stated as sure.
#[track_caller]
fn judge_findings(fault: &Fault, record: &Record) -> bool {
    let found = findings(record);
    let names: Vec<&str> = found.iter().map(|one| one.name).collect();
    println!(
        "    found: {}",
        found.iter().map(|one| format!("{} {}", one.name, one.sure.name())).collect::<Vec<_>>().join(", ")
    );
    assert!(fault.right.iter().all(|right| names.contains(right)), "{}: {found:#?}", fault.name);
    for one in found.iter().filter(|one| one.sure == Sureness::Sure) {
        assert!(fault.right.contains(&one.name), "{}: {one:#?}", fault.name);
    }
    // A clean run has none, but on a machine that others use too.
    names.first() == fault.right.first()
}

fn inside(namespace: &Path, command: &str) -> Command {
    let mut nsenter = Command::new("nsenter");
    nsenter.arg(format!("--net={}", namespace.display())).args(command.split_whitespace());
    nsenter
}

fn run(namespace: &Path, command: &str) -> Result<(), String> {
    let output = inside(namespace, command).output().map_err(|error| error.to_string())?;
    let complaint = || format!("{command}: {}", String::from_utf8_lossy(&output.stderr).trim());
    if output.status.success() { Ok(()) } else { Err(complaint()) }
}

/// One table of rules; `netdev` or `ip6` before them says its family, which is IPv4 else.
fn filter(namespace: &Path, rules: &str) -> Result<(), String> {
    if rules.is_empty() {
        return Ok(());
    }
    let of_family = |family: &'static str| Some((family, rules.strip_prefix(family)?));
    let (family, rules) = ["netdev", "ip6"].into_iter().find_map(of_family).unwrap_or(("ip", rules));
    let file: PathBuf = std::env::temp_dir().join(format!("linerate-rules-{}", std::process::id()));
    // One statement a line, as nft wants them.
    let rules = rules.replace("; ", ";\n").replace("{ ", "{\n");
    fs::write(&file, format!("table {family} t {{\n{rules}\n}}\n")).unwrap();
    let done = run(namespace, &format!("nft -f {}", file.display()));
    let _ = fs::remove_file(&file);
    done
}

fn printed(namespace: &Path, command: &str) -> String {
    String::from_utf8(inside(namespace, command).output().unwrap().stdout).unwrap()
}

fn rule_count(namespace: &Path) -> u64 {
    let text = printed(namespace, "nft list ruleset");
    text.split("counter packets ").nth(1).expect(&text).split(' ').next().unwrap().parse().unwrap()
}

fn queue_drops(namespace: &Path, device: &str) -> u64 {
    let text = printed(namespace, &format!("tc -s qdisc show dev {device}"));
    text.split("(dropped ").nth(1).expect(&text).split(',').next().unwrap().parse().unwrap()
}

/// The fourth figure of receiving in proc_net_dev of Documentation/networking/statistics.rst.
fn interface_drops(namespace: &Path) -> u64 {
    let text = printed(namespace, "cat /proc/net/dev");
    text.split("eth0:").nth(1).expect(&text).split_whitespace().nth(3).unwrap().parse().unwrap()
}

/// An XDP program at the target's interface that drops one frame of this length of four, at random.
pub fn drop_a_quarter(rig: &Rig, how: Xdp, frame_octets: i32) -> std::io::Result<Attached> {
    let op = |code, to, from, offset, number| Instruction { code, to, from, offset, number };
    let program = [
        op(0x61, 2, 1, 0, 0),            // r2 = data
        op(0x61, 3, 1, 4, 0),            // r3 = data_end
        op(0x1f, 3, 2, 0, 0),            // r3 -= r2
        op(0x55, 3, 0, 5, frame_octets), // pass, if r3 is another length
        op(0x85, 0, 0, 0, 7),            // r0 = bpf_get_prandom_u32()
        op(0x57, 0, 0, 0, 3),            // r0 &= 3
        op(0x55, 0, 0, 2, 0),            // pass, if r0 is not 0
        op(0xb7, 0, 0, 0, 1),            // XDP_DROP
        op(0x95, 0, 0, 0, 0),
        op(0xb7, 0, 0, 0, 2), // XDP_PASS
        op(0x95, 0, 0, 0, 0),
    ];
    let link = printed(&rig.lab.target.path(), "ip -o link show eth0");
    let index: u32 = link.split(':').next().unwrap().parse().unwrap();
    rig.lab.target.run(|| Program::load(ProgramKind::Xdp, &program)?.attach_to_interface(index, how == Xdp::InStack))
}
