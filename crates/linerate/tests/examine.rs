//! Why nothing comes through: real faults between namespaces, each of which has to be named, and healthy paths, of which
//! nothing may be said.
//!
//! ```text
//!   direct    host ─────────────── target          198.18.0.1/24, 198.18.0.2/24
//!   bridged   host ─── middle ──── target          the same; the middle is a bridge with a third port
//!   routed    host ─── middle ──── target          10.1.0.1/24 ─ .254, 10.2.0.254 ─ 10.2.0.2/24
//! ```

mod machines;

use std::ops::RangeInclusive;
use std::process::Command;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use linerate_lab::{Privilege, privilege};
use linerate_machine::end::{End, Party};
use linerate_results::findings::findings;
use linerate_trial::doubt::DoubtKind;
use machines::{Bench, Ran, Running};

const IN_TIME: Duration = Duration::from_secs(30);
/// A check that nothing keeps busy takes less; two of these run on each CPU of a busy machine.
const CHECK_TIME: Duration = Duration::from_secs(12);

/// Three namespaces, which go away with the value.
struct Net {
    mark: String,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Direct,
    /// IPv6 alone.
    Six,
    Bridged,
    Routed,
}

const DIRECT: &str = "
    ip -n $H link add eth0 type veth peer name eth0 netns $T
    ip -n $H link set eth0 up; ip -n $T link set eth0 up";
const BRIDGED: &str = "
    ip -n $H link add eth0 type veth peer name p0 netns $M
    ip -n $T link add eth0 type veth peer name p1 netns $M
    ip -n $M link add br0 type bridge
    ip -n $M link set p0 master br0; ip -n $M link set p1 master br0
    for port in p0 p1 br0; do ip -n $M link set $port up; done
    ip -n $H link set eth0 up; ip -n $T link set eth0 up";
const SUBNET: &str = "
    ip -n $H addr add 198.18.0.1/24 dev eth0; ip -n $T addr add 198.18.0.2/24 dev eth0";
const SIX: &str = "
    ip -n $H addr add 2001:db8::1/64 dev eth0 nodad; ip -n $T addr add 2001:db8::2/64 dev eth0 nodad";
const ROUTED: &str = "
    ip -n $H link add eth0 type veth peer name p0 netns $M
    ip -n $T link add eth0 type veth peer name p1 netns $M
    ip -n $M addr add 10.1.0.254/24 dev p0; ip -n $M addr add 10.2.0.254/24 dev p1
    ip -n $H addr add 10.1.0.1/24 dev eth0; ip -n $T addr add 10.2.0.2/24 dev eth0
    for port in p0 p1; do ip -n $M link set $port up; done
    ip -n $H link set eth0 up; ip -n $T link set eth0 up
    ip -n $H route add default via 10.1.0.254; ip -n $T route add default via 10.2.0.254
    ip netns exec $M sysctl -qw net.ipv4.ip_forward=1";

impl Net {
    fn new(kind: Kind) -> Net {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let net = Net { mark: format!("lr{}-{number}", std::process::id()), kind };
        net.shell("for n in $H $M $T; do ip netns add $n; ip -n $n link set lo up; done");
        net.shell(match kind {
            Kind::Direct | Kind::Six => DIRECT,
            Kind::Bridged => BRIDGED,
            Kind::Routed => ROUTED,
        });
        match kind {
            Kind::Direct | Kind::Bridged => net.shell(SUBNET),
            Kind::Six => net.shell(SIX),
            Kind::Routed => {}
        }
        net
    }

    fn name(&self, machine: &str) -> String {
        format!("{}{machine}", self.mark)
    }

    /// Shell lines, in which $H, $M and $T are the names of the namespaces, and `on $T` runs a command in one.
    #[track_caller]
    fn shell(&self, lines: &str) {
        let script = format!("on() {{ n=$1; shift; ip netns exec $n \"$@\"; }}\n{lines}");
        let mut command = Command::new("sh");
        command.args(["-ec", &script]);
        for machine in ["H", "M", "T"] {
            command.env(machine, self.name(machine));
        }
        let ran = command.output().expect("sh");
        assert!(ran.status.success(), "{lines}: {}", String::from_utf8_lossy(&ran.stderr));
    }

    fn ends(&self) -> Vec<String> {
        let netns = |machine| format!("netns:/run/netns/{}", self.name(machine));
        let mut ends = vec!["--target".to_owned(), netns("T"), "--host".to_owned(), netns("H")];
        if self.kind == Kind::Routed {
            ends.extend(["--target-address", "10.2.0.2", "--host-address", "10.1.0.1"].map(str::to_owned));
        }
        ends
    }

    fn command(&self, bench: &Bench, arguments: &[&str]) -> Command {
        let mut command = bench.linerate(&arguments[..1]);
        command.args(&arguments[1..]).args(self.ends());
        command
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for machine in ["H", "M", "T"] {
            let _ = Command::new("ip").args(["netns", "del", &self.name(machine)]).output();
        }
    }
}

/// A fault, and what has to be said of it.
struct Case {
    name: &'static str,
    kind: Kind,
    fault: &'static str,
    /// The step that fails first; empty: all is well.
    fails: &'static str,
    says: &'static [&'static str],
}

const fn case(
    name: &'static str,
    kind: Kind,
    fault: &'static str,
    fails: &'static str,
    says: &'static [&'static str],
) -> Case {
    Case { name, kind, fault, fails, says }
}

/// Lines for nft: a chain at a hook, and a rule in it.
macro_rules! nft {
    ($machine:literal, $hook:literal, $rule:literal) => {
        concat!(
            "on $",
            $machine,
            " nft 'add table inet f; add chain inet f c { type filter hook ",
            $hook,
            " priority 0; }; add rule inet f c ",
            $rule,
            "'"
        )
    };
}

const HOLE: &str = "
    ip -n $M route replace 10.2.0.0/24 dev p1 mtu lock 1400
    on $M nft 'add table inet f; add chain inet f c { type filter hook output priority 0; }; add rule inet f c meta l4proto icmp drop'";

const FILTERS: [Case; 22] = [
    case(
        "input drops FINs",
        Kind::Direct,
        nft!("H", "input", "tcp flags & fin == fin drop"),
        "TCP closes, host asks",
        &["opens and carries what is sent over it, and the target's end of it (FIN) does not arrive"],
    ),
    case(
        "input drops all",
        Kind::Direct,
        nft!("T", "input", "drop"),
        "ICMP echo, host asks",
        &["packets from the host arrive at the target's eth0 and no socket gets them: the target's input filter"],
    ),
    case(
        "input drops UDP",
        Kind::Direct,
        nft!("T", "input", "meta l4proto udp drop"),
        "UDP, host asks",
        &["UDP datagrams from the host arrive at the target's eth0 and no socket gets them: the target's input filter"],
    ),
    case(
        "input drops TCP",
        Kind::Direct,
        nft!("T", "input", "meta l4proto tcp drop"),
        "TCP, host asks",
        &["TCP segments from the host arrive at the target's eth0 and no socket gets them: the target's input filter"],
    ),
    case(
        "output drops UDP",
        Kind::Direct,
        nft!("H", "output", "meta l4proto udp drop"),
        "UDP, host asks",
        &["the host refuses to send UDP datagrams to the target (EPERM): a rule of its own output filter"],
    ),
    case(
        "output drops TCP",
        Kind::Direct,
        nft!("H", "output", "meta l4proto tcp drop"),
        "TCP, host asks",
        &["the host's kernel takes TCP segments to the target and none leaves by eth0: its output filter"],
    ),
    case(
        "answers are dropped",
        Kind::Direct,
        nft!("T", "output", "meta l4proto tcp drop"),
        "TCP, host asks",
        &["the target's kernel takes TCP answers to the host and none leaves by eth0: its output filter"],
    ),
    case(
        "input rejects UDP",
        Kind::Direct,
        nft!("T", "input", "meta l4proto udp reject"),
        "UDP, host asks",
        &["the target rejects UDP datagrams from the host (ICMP port unreachable), though a socket is open there"],
    ),
    case(
        "input resets TCP",
        Kind::Direct,
        nft!("T", "input", "meta l4proto tcp reject with tcp reset"),
        "TCP, host asks",
        &["the target resets connections though a socket listens there: the target's input filter"],
    ),
    case(
        "input prohibits TCP",
        Kind::Direct,
        nft!("T", "input", "meta l4proto tcp reject with icmpx admin-prohibited"),
        "TCP, host asks",
        &["the target rejects TCP segments from the host (ICMP administratively prohibited)"],
    ),
    case(
        "one way only",
        Kind::Direct,
        nft!("H", "input", "ct state new meta l4proto { tcp, udp } drop"),
        "UDP, target asks",
        &["arrive at the host's eth0 and no socket gets them: the host's input filter"],
    ),
    case(
        "a filter on the way",
        Kind::Routed,
        nft!("M", "forward", "meta l4proto tcp reject with icmpx admin-prohibited"),
        "TCP, host asks",
        &["10.1.0.254 on the way rejects TCP segments from the host to the target (ICMP administratively prohibited)"],
    ),
    case(
        "checksums that nobody fills in",
        Kind::Routed,
        concat!("on $H ethtool -K eth0 tx off\n", nft!("M", "forward", "udp sport != 0 iifname p0 udp checksum set 0x0bad")),
        "UDP, host asks",
        &["UDP datagrams from the host arrive at the target's eth0 with a wrong checksum", "try host.tx_checksum=off"],
    ),
    case(
        "ports that the host's own input drops",
        Kind::Direct,
        nft!("H", "input", "udp dport & 2 == 2 drop"),
        "UDP, 16 flows, host asks",
        &["answers to them arrive at the host's eth0 and no socket gets them; the host's input filter"],
    ),
    case(
        "ports that the host's own output drops",
        Kind::Direct,
        nft!("H", "output", "udp sport & 2 == 2 drop"),
        "UDP, 16 flows, host asks",
        &["they do not leave the host; its output filter"],
    ),
    case(
        "a silent filter on the way",
        Kind::Routed,
        nft!("M", "forward", "meta l4proto udp drop"),
        "UDP, host asks",
        &[
            "UDP datagrams leave the host by eth0 and do not arrive at the target's eth0: a filter, a router that does not",
        ],
    ),
    case(
        "the first SYN of each connection",
        Kind::Routed,
        concat!(
            "on $T sysctl -qw net.ipv4.tcp_ecn=1; on $H sysctl -qw net.ipv4.tcp_ecn=1\n",
            nft!("M", "forward", "tcp flags & (ecn | cwr) == ecn | cwr drop")
        ),
        "TCP, host asks",
        &["opens in 1", "only, when its SYN is sent again, where datagrams are answered within"],
    ),
    case(
        "what is ECN-capable",
        Kind::Routed,
        concat!(
            "on $T sysctl -qw net.ipv4.tcp_ecn=1; on $H sysctl -qw net.ipv4.tcp_ecn=1\n",
            nft!("M", "forward", "ip ecn != not-ect drop")
        ),
        "ECN, host asks",
        &["none of those that say that they are ECN-capable: a filter, a router or a switch between", "FAILED TCP, host asks"],
    ),
    case(
        "few connections",
        Kind::Routed,
        nft!("M", "forward", "meta l4proto tcp ct state new ct count over 3 drop"),
        "TCP, 8 at once, host asks",
        &["ok TCP, target asks connects in"],
    ),
    case(
        "a middlebox that resets at full segments",
        Kind::Routed,
        nft!("M", "forward", "tcp flags & (syn|rst) == 0 meta length > 500 reject with tcp reset"),
        "TCP, host asks",
        &["opens, small segments pass, and then it is reset: a filter or a middlebox between the two breaks it off"],
    ),
    case(
        "UDP over IPv6 alone",
        Kind::Direct,
        concat!(
            "ip -n $H addr add 2001:db8::1/64 dev eth0 nodad; ip -n $T addr add 2001:db8::2/64 dev eth0 nodad\n",
            nft!("T", "input", "meta nfproto ipv6 meta l4proto udp drop")
        ),
        "IPv6",
        &["UDP, host asks: UDP datagrams from the host arrive at the target's eth0 and no socket gets them"],
    ),
    case(
        "a NAT before the host",
        Kind::Routed,
        "ip -n $T route del default
         on $M nft 'add table ip n; add chain ip n c { type nat hook postrouting priority 100; }; add rule ip n c oifname p1 masquerade'",
        "route, target to host",
        &["ok UDP, host asks 3 requests answered", "ok TCP, host asks connects in"],
    ),
];

const ADDRESSES: [Case; 17] = [
    case(
        "one Ethernet address",
        Kind::Bridged,
        "ip -n $T link set eth0 address 02:00:00:00:77:01; ip -n $H link set eth0 address 02:00:00:00:77:01",
        "neighbour of the target",
        &["is at 02:00:00:00:77:01, and so is the target's own eth0", "and so is the host's own eth0"],
    ),
    case(
        "one Ethernet address, where nobody answers",
        Kind::Bridged,
        "ip -n $T link set eth0 address 02:00:00:00:77:01; ip -n $H link set eth0 address 02:00:00:00:77:01
         on $T sysctl -qw net.ipv4.conf.all.arp_ignore=8; on $H sysctl -qw net.ipv4.conf.all.arp_ignore=8",
        "neighbour of the target",
        &["is at 02:00:00:00:77:01, and so is the target's own eth0", "and so is the host's own eth0"],
    ),
    case(
        "blackhole",
        Kind::Direct,
        "ip -n $T route add blackhole 198.18.0.1/32",
        "route, target to host",
        &["a blackhole route of the target swallows packets to 198.18.0.1"],
    ),
    case(
        "unreachable",
        Kind::Direct,
        "ip -n $H route add unreachable 198.18.0.2/32",
        "route, host to target",
        &["an unreachable route of the host refuses packets to 198.18.0.2"],
    ),
    case(
        "prohibit",
        Kind::Direct,
        "ip -n $H route add prohibit 198.18.0.2/32",
        "route, host to target",
        &["a prohibit route of the host refuses packets to 198.18.0.2"],
    ),
    case(
        "a rule for UDP",
        Kind::Direct,
        "ip -n $H rule add ipproto udp blackhole",
        "route, host to target",
        &["a blackhole route, by a policy rule of the host swallows packets of UDP"],
    ),
    case(
        "no route back",
        Kind::Routed,
        "ip -n $T route del default",
        "route, target to host",
        &["the target has no route for packets to 10.1.0.1"],
    ),
    case(
        "a router that is not there",
        Kind::Routed,
        "ip -n $T route replace default via 10.2.0.253",
        "neighbour of the target",
        &[
            "FAILED ICMP echo, host asks packets from the target to the host wait for 10.2.0.253, for which nobody answers",
        ],
    ),
    case(
        "missing address",
        Kind::Direct,
        "ip -n $T addr flush dev eth0 scope global",
        "addresses",
        &["share no IPv4 subnet: the target has fe80"],
    ),
    case(
        "wrong netmask",
        Kind::Direct,
        "ip -n $T addr del 198.18.0.2/24 dev eth0; ip -n $T addr add 198.18.0.2/30 dev eth0",
        "addresses",
        &["the prefix lengths of both ends differ", "198.18.0.2/30 on eth0"],
    ),
    case(
        "wrong neighbour",
        Kind::Direct,
        "ip -n $H neigh replace 198.18.0.2 lladdr 02:00:00:00:00:99 dev eth0 nud permanent",
        "neighbour of the host",
        &["the host has a permanent neighbour entry that says 198.18.0.2 is at 02:00:00:00:00:99", "ip neigh del"],
    ),
    case(
        "wrong neighbour, IPv6",
        Kind::Six,
        "ip -n $T neigh replace 2001:db8::1 lladdr 02:00:00:00:00:99 dev eth0 nud permanent",
        "neighbour of the target",
        &["the target has a permanent neighbour entry that says 2001:db8::1 is at 02:00:00:00:00:99"],
    ),
    case(
        "nobody answers",
        Kind::Direct,
        "on $T sysctl -qw net.ipv4.conf.all.arp_ignore=8; on $H sysctl -qw net.ipv4.conf.all.arp_ignore=8",
        "neighbour of the target",
        &[
            "nobody on eth0 answers for 198.18.0.2 (ARP): the target's arp_ignore=8 has it answer none",
            "packets from the host to the target wait for 198.18.0.2, for which nobody answers, and do not leave",
        ],
    ),
    case(
        "an interface without ARP",
        Kind::Direct,
        "ip -n $T link set eth0 arp off",
        "neighbour of the host",
        &[
            "the target's eth0 has no ARP (NOARP); correct it there: ip link set eth0 arp on",
            "not asked: the target's eth0 has no ARP",
        ],
    ),
    case(
        "duplicate address",
        Kind::Bridged,
        "ip -n $M addr add 198.18.0.2/24 dev br0; ip -n $M link set br0 address 02:00:00:00:00:77",
        "address of the target",
        &["another machine has 198.18.0.2 too: 02:00:00:00:00:77 answers for it (ARP)"],
    ),
    case(
        "interface down",
        Kind::Direct,
        "ip -n $T link set eth0 down",
        "addresses",
        &["bring the target's eth0 up there: ip link set eth0 up"],
    ),
    case(
        "no carrier",
        Kind::Bridged,
        "ip -n $M link set p1 down",
        "link of the target",
        &["the target's eth0 has no carrier"],
    ),
];

const WAYS: [Case; 9] = [
    case(
        "reverse path filter",
        Kind::Direct,
        "ip -n $H link add eth1 type veth peer name eth1 netns $T; ip -n $H link set eth1 up; ip -n $T link set eth1 up
         ip -n $T route add 198.18.0.1/32 dev eth1
         on $H sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.eth0.rp_filter=0 net.ipv4.conf.eth1.rp_filter=0
         on $T sysctl -qw net.ipv4.conf.all.rp_filter=1 net.ipv4.conf.eth0.rp_filter=1",
        "arrivals at the target",
        &["the target's reverse path filter (rp_filter=1) drops what arrives at eth0: answers would leave by eth1"],
    ),
    case(
        "astray",
        Kind::Direct,
        "ip -n $T link add d0 type veth peer name d1; ip -n $T link set d0 up; ip -n $T link set d1 up; ip -n $T route add 198.18.0.1/32 dev d0
         ip -n $T neigh add 198.18.0.1 lladdr 02:00:00:00:00:55 dev d0 nud permanent
         on $T sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.eth0.rp_filter=0",
        "route, target to host",
        &["the target's route to 198.18.0.1 leads to d0, its own address is at eth0, and nothing arrives"],
    ),
    case("no forwarding", Kind::Routed, "on $M sysctl -qw net.ipv4.ip_forward=0", "ICMP echo, host asks", &[
        "packets leave the host by eth0 and do not arrive at the target's eth0: a filter, a router that does not forward",
    ]),
    case(
        "no route on the way",
        Kind::Routed,
        "ip -n $M route del 10.2.0.0/24 dev p1",
        "ICMP echo, host asks",
        &["10.1.0.254 on the way rejects packets from the host to the target (ICMP network unreachable)"],
    ),
    case("a hole", Kind::Routed, HOLE, "UDP, 1500 bytes to target", &[
        "packets of more than 1400 bytes do not pass from the host to the target, and no ICMP says so",
    ]),
    case(
        "a smaller switch",
        Kind::Bridged,
        "ip -n $M link set p1 mtu 1300; ip -n $T link set eth0 mtu 1500; ip -n $H link set eth0 mtu 1500",
        "UDP, 1500 bytes to target",
        &["bytes do not pass from the host to the target"],
    ),
    case("jumbo on one end", Kind::Direct, "ip -n $H link set eth0 mtu 9000", "UDP, 9000 bytes to target", &[
        "bytes do not pass from the host to the target: the target's MTU is 1500, and the host's \
         is 9000",
    ]),
    case("a small TTL", Kind::Routed, "on $H sysctl -qw net.ipv4.ip_default_ttl=1", "hops, host to target", &[
        "the sender's TTL of 1 does not get over the 1 router between the ends",
    ]),
    case(
        "a queue that takes no large packet",
        Kind::Direct,
        "on $H tc qdisc replace dev eth0 root tbf rate 100mbit burst 1000 limit 100000",
        "UDP, 1500 bytes to target",
        &["packets of up to 986 bytes pass, and the links say 1500", "larger ones do not leave the host's eth0"],
    ),
];

const HEALTHY: [Case; 12] = [
    case("direct", Kind::Direct, "", "", &["no router between"]),
    case("IPv6 only", Kind::Six, "", "", &["2001:db8::2 is at"]),
    case(
        "with ECN",
        Kind::Routed,
        "on $T sysctl -qw net.ipv4.tcp_ecn=1; on $H sysctl -qw net.ipv4.tcp_ecn=1",
        "",
        &["ok ECN, host asks 3 requests answered", "and full segments pass", "All of it passes; linerate run tcp"],
    ),
    case(
        "both versions",
        Kind::Direct,
        "ip -n $H addr add 2001:db8::1/64 dev eth0 nodad; ip -n $T addr add 2001:db8::2/64 dev eth0 nodad",
        "",
        &["ok IPv6 all of it passes between 2001:db8::2 and 2001:db8::1, too"],
    ),
    case("bridged", Kind::Bridged, "", "", &[]),
    case("routed", Kind::Routed, "", "", &["1 router between"]),
    case(
        "echo is ignored",
        Kind::Direct,
        "on $T sysctl -qw net.ipv4.icmp_echo_ignore_all=1",
        "",
        &["not answered: the target is set to ignore it"],
    ),
    case(
        "ICMP is filtered",
        Kind::Direct,
        nft!("T", "input", "meta l4proto icmp drop"),
        "",
        &["not answered, which is no fault"],
    ),
    case(
        "large frames on both ends",
        Kind::Direct,
        "ip -n $H link set eth0 mtu 9000; ip -n $T link set eth0 mtu 9000",
        "",
        &["UDP, 9000 bytes to target"],
    ),
    case(
        "a smaller MTU that is told",
        Kind::Routed,
        "ip -n $M route replace 10.2.0.0/24 dev p1 mtu lock 1400",
        "",
        &["the path's MTU is 1400, which 10.1.0.254 says by ICMP"],
    ),
    case(
        "an address at the loopback",
        Kind::Routed,
        "ip -n $H addr del 10.1.0.1/24 dev eth0; ip -n $H addr add 10.1.0.9/24 dev eth0; ip -n $H addr add 10.1.0.1/32 dev lo
         ip -n $H route replace default via 10.1.0.254",
        "",
        &["ok link of the host eth0 (veth) is up", "nobody else answers for 10.1.0.1", "UDP, 1500 bytes to target passes whole"],
    ),
    case(
        "a slow link",
        Kind::Direct,
        "on $H tc qdisc replace dev eth0 root tbf rate 2mbit burst 4000 limit 30000",
        "",
        &["UDP, 1500 bytes to target"],
    ),
];

fn may() -> bool {
    let may = privilege() == Privilege::Root;
    if !may {
        eprintln!("SKIPPED: it needs root");
    }
    may
}

/// Does `work` for each, three at a time.
fn each<T: Sync>(all: &[T], work: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    let failed = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while let Some(one) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    // The others are tried all the same.
                    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(one)));
                    failed.fetch_add(usize::from(done.is_err()), Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(failed.into_inner(), 0, "of {}", all.len());
}

fn whole(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn check(cases: &[Case]) {
    if !may() {
        return;
    }
    each(cases, |case| {
        let net = Net::new(case.kind);
        net.shell(case.fault);
        let bench = Bench::bare("examine");
        let mut command = net.command(&bench, &["check"]);
        command.env("COLUMNS", "80");
        check_case(case, &Running::start(command).wait(IN_TIME));
    });
}

#[track_caller]
fn check_case(case: &Case, ran: &Ran) {
    println!("{:<36} {:>5.1} s", case.name, ran.took.as_secs_f64());
    let text = format!("{}:\n{}{}", case.name, ran.stdout, ran.stderr);
    assert!(ran.took < CHECK_TIME, "{:?} {text}", ran.took);
    assert!(ran.stdout.lines().all(|line| line.chars().count() <= 80), "{text}");
    let failed = ran.stdout.lines().find_map(|line| line.strip_prefix("FAILED "));
    match (failed, case.fails) {
        (None, "") => {}
        (Some(line), fails) if !fails.is_empty() => assert!(line.starts_with(fails), "{text}"),
        _ => panic!("{text}"),
    }
    assert_eq!(ran.status.code(), Some(i32::from(!case.fails.is_empty())), "{text}");
    let said = whole(&ran.stdout);
    for part in case.says {
        assert!(said.contains(part), "no {part:?} in {text}");
    }
}

#[test]
fn filters_are_named() {
    check(&FILTERS);
}

#[test]
fn addresses_and_routes_are_named() {
    check(&ADDRESSES);
}

#[test]
fn ways_and_sizes_are_named() {
    check(&WAYS);
}

#[test]
fn nothing_is_said_of_healthy_paths() {
    check(&HEALTHY);
}

#[test]
fn link_local_addresses_are_well() {
    if !may() {
        return;
    }
    let net = Net::new(Kind::Six);
    let bench = Bench::bare("examine-local");
    let address = Command::new("ip")
        .args(["-n", &net.name("T"), "-6", "-o", "addr", "show", "dev", "eth0", "scope", "link"])
        .output()
        .unwrap();
    let address = String::from_utf8(address.stdout).unwrap();
    let address = address.split_whitespace().nth(3).and_then(|address| address.split('/').next()).unwrap();
    // Duplicate address detection takes a second or two.
    std::thread::sleep(Duration::from_secs(3));
    let mut command = net.command(&bench, &["check", "--target-address", address]);
    command.env("COLUMNS", "80");
    let ran = Running::start(command).wait(IN_TIME);
    check_case(&case("link-local", Kind::Six, "", "", &["All of it passes"]), &ran);
}

/// Addresses that were given a moment ago, as by a script or by a setting that takes a link down: measuring waits for them.
#[test]
fn an_address_that_is_new_is_waited_for() {
    if !may() {
        return;
    }
    let net = Net::new(Kind::Six);
    let bench = Bench::bare("examine-new");
    net.shell("ip -n $T addr del 2001:db8::2/64 dev eth0; ip -n $T addr add 2001:db8::2/64 dev eth0");
    let command = net.command(&bench, &["run", "tcp-stream", "--set", "ip=6", "--set", "duration=300ms"]);
    Running::start(command).wait(IN_TIME).check_done();
    let records = bench.records();
    assert!(records.iter().all(|record| record.error.is_none()), "{records:#?}");
}

#[test]
fn few_descriptors_are_named() {
    if !may() {
        return;
    }
    let net = Net::new(Kind::Direct);
    let bench = Bench::bare("examine-descriptors");
    let script = bench.folder.0.join("agent.sh");
    let agent = env!("CARGO_BIN_EXE_linerate");
    std::fs::write(&script, format!("ulimit -n 14; exec ip netns exec {} {agent} agent --stdio\n", net.name("T")))
        .unwrap();
    let target = format!("exec:sh {}", script.display());
    let host = format!("netns:/run/netns/{}", net.name("H"));
    let mut command = bench.linerate(&["check", "--target", &target, "--host", &host]);
    command.env("COLUMNS", "80");
    let ran = Running::start(command).wait(IN_TIME);
    let says = &["the target's agent has", "descriptors open of 14 that it may", "ulimit -n"];
    check_case(&case("descriptors", Kind::Direct, "", "limits of the target", says), &ran);
    let more = ["--set", "streams=32", "--set", "duration=300ms", "--target", &target, "--host", &host];
    let mut command = bench.linerate(&["run", "tcp-stream"]);
    command.args(more);
    let ran = Running::start(command).wait(IN_TIME);
    ran.check_sentence(&["no descriptor left for another socket (EMFILE)", "ulimit -n"]);
}

/// A trial that fails, and what its error and its first finding have to say.
struct Failing {
    name: &'static str,
    kind: Kind,
    fault: &'static str,
    arguments: &'static [&'static str],
    says: &'static str,
}

const FAILING: [Failing; 12] = [
    Failing {
        name: "a filter of the target",
        kind: Kind::Direct,
        fault: nft!("T", "input", "meta l4proto udp drop"),
        arguments: &["udp-stream", "--set", "rate=10M"],
        says: "UDP datagrams from the host arrive at the target's eth0 and no socket gets them",
    },
    Failing {
        name: "a filter of the host",
        kind: Kind::Direct,
        fault: nft!("H", "input", "ct state new meta l4proto { tcp, udp } drop"),
        arguments: &["tcp-rr", "--set", "direction=tx"],
        says: "arrive at the host's eth0 and no socket gets them: the host's input filter",
    },
    Failing {
        name: "an output filter of the host",
        kind: Kind::Direct,
        fault: nft!("H", "output", "meta l4proto udp drop"),
        arguments: &["udp-stream", "--set", "rate=10M", "--set", "direction=rx"],
        says: "the host refuses to send UDP datagrams to the target (EPERM)",
    },
    Failing {
        name: "fewer connections than transactions take",
        kind: Kind::Routed,
        fault: nft!("M", "forward", "tcp flags & (syn | ack) == syn ct count over 3 drop"),
        arguments: &["tcp-crr", "--set", "direction=rx", "--set", "streams=4"],
        says: "connections at once pass from the host, and no more",
    },
    Failing {
        name: "a hole under TCP",
        kind: Kind::Routed,
        fault: HOLE,
        arguments: &["tcp-stream", "--set", "direction=rx"],
        says: "packets of more than 1400 bytes do not pass from the host to the target, and no ICMP says so",
    },
    Failing {
        name: "a hole under UDP",
        kind: Kind::Routed,
        fault: HOLE,
        arguments: &["udp-stream", "--set", "rate=10M", "--set", "direction=rx", "--set", "message_size=1472"],
        says: "packets of more than 1400 bytes do not pass from the host to the target, and no ICMP says so",
    },
    Failing {
        name: "too few hops",
        kind: Kind::Routed,
        fault: "",
        arguments: &["udp-stream", "--set", "rate=10M", "--set", "ttl=1"],
        says: "the trial's ttl=1 does not get over the 1 router between the ends",
    },
    Failing {
        name: "a code point that a router drops",
        kind: Kind::Routed,
        fault: nft!("M", "forward", "ip dscp ef drop"),
        arguments: &["udp-stream", "--set", "rate=10M", "--set", "dscp=46"],
        says: "without dscp=46 they pass: look for a rule that goes by it",
    },
    Failing {
        name: "a member of a link aggregation that is dead",
        kind: Kind::Routed,
        fault: nft!("M", "forward", "iifname p0 udp sport & 2 == 2 drop"),
        arguments: &["udp-stream", "--set", "rate=1M", "--set", "streams=16"],
        says: "of 16 of the host's ports pass, and the others never do: something on the way spreads flows",
    },
    Failing {
        name: "a blackhole",
        kind: Kind::Direct,
        fault: "ip -n $T route add blackhole 198.18.0.1/32",
        arguments: &["tcp-stream"],
        says: "a blackhole route of the target swallows packets to 198.18.0.1",
    },
    Failing {
        name: "an address that another machine had",
        kind: Kind::Six,
        fault: "ip -n $H addr add 2001:db8::9/64 dev eth0 nodad; ip -n $T addr del 2001:db8::2/64 dev eth0
            ip -n $T addr add 2001:db8::9/64 dev eth0; sleep 2; ip -n $H addr del 2001:db8::9/64 dev eth0",
        arguments: &["tcp-stream", "--set", "ip=6"],
        says: "another machine has 2001:db8::9 too, says duplicate address detection",
    },
    Failing {
        name: "no address",
        kind: Kind::Direct,
        fault: "ip -n $T addr flush dev eth0 scope global",
        arguments: &["tcp-stream"],
        says: "share no IPv4 subnet: the target has fe80",
    },
];

#[test]
fn trials_that_fail_are_explained() {
    if !may() {
        return;
    }
    each(&FAILING, |failing| {
        let net = Net::new(failing.kind);
        net.shell(failing.fault);
        let bench = Bench::bare("examine-trial");
        let mut arguments = vec!["run"];
        arguments.extend(failing.arguments);
        arguments.extend(["--set", "duration=1s", "--set", "warmup=0s"]);
        let ran = Running::start(net.command(&bench, &arguments)).wait(IN_TIME);
        println!("{:<36} {:>5.1} s", failing.name, ran.took.as_secs_f64());
        let records = bench.records();
        let record = records.last().unwrap_or_else(|| panic!("{}: {ran:#?}", failing.name));
        let text = format!("{}: {:?} {:#?}\n{ran:#?}", failing.name, record.error, record.examination);
        assert!(record.examination.is_some(), "{text}");
        let all = findings(record);
        let first = all.first().unwrap_or_else(|| panic!("{text}"));
        assert_eq!(first.name, "nothing-comes-through", "{all:#?} {text}");
        assert!(first.sentence[1..].contains(&failing.says[1..]), "{all:#?} {text}");
        assert!(record.error.as_ref().is_none_or(|error| error.contains(failing.says)), "{text}");
        assert!(whole(&ran.stderr).contains(failing.says) || record.error.is_none(), "{text}");
    });
}

#[test]
fn a_datagram_that_an_output_filter_refuses_ends_no_trial() {
    if !may() {
        return;
    }
    for workload in ["udp-stream", "udp-rr"] {
        let net = Net::new(Kind::Direct);
        // The first is one of them.
        net.shell(nft!("H", "output", "meta l4proto udp numgen inc mod 20 == 0 drop"));
        let bench = Bench::bare("examine-refused");
        let arguments = ["run", workload, "--set", "rate=1000pps", "--set", "direction=rx", "--set", "duration=500ms"];
        Running::start(net.command(&bench, &arguments)).wait(IN_TIME).check_done();
        let record = bench.records().pop().unwrap();
        let first = &findings(&record)[0];
        assert_eq!(
            (first.name, first.machine),
            ("stack-drops", Some(Party::from(End::Host))),
            "{workload}: {first:#?}"
        );
    }
}

#[test]
fn a_trial_that_dies_says_why() {
    if !may() {
        return;
    }
    let net = Net::new(Kind::Direct);
    let bench = Bench::bare("examine-dies");
    let running = Running::start(net.command(&bench, &["run", "tcp-stream", "--set", "duration=20s"]));
    std::thread::sleep(Duration::from_millis(2500));
    net.shell(nft!("T", "input", "drop"));
    let ran = running.wait(IN_TIME);
    ran.check_sentence(&["no test traffic passed for 5 s", "the target's input filter"]);
}

/// With one outstanding, a request that is lost keeps the next waiting for a second.
#[test]
fn requests_that_are_lost_one_after_the_other_are_counted() {
    if !may() {
        return;
    }
    let check = |name: &str, duration: &str, lost: RangeInclusive<u64>, comes_back: bool| {
        let net = Net::new(Kind::Direct);
        let bench = Bench::bare(name);
        let running = Running::start(net.command(&bench, &["run", "udp-rr", "--set", duration]));
        std::thread::sleep(Duration::from_millis(2500));
        net.shell(nft!("T", "input", "meta l4proto udp drop"));
        if comes_back {
            std::thread::sleep(Duration::from_millis(6500));
            net.shell("on $T nft delete table inet f");
        }
        running.wait(IN_TIME).check_done();
        let record = &bench.records()[0];
        let latency = record.result.as_ref().unwrap().latency.as_ref().unwrap();
        assert!(latency.count > 100 && latency.timeouts.is_some_and(|count| lost.contains(&count)), "{latency:#?}");
        assert_eq!(record.doubts.iter().any(|doubt| doubt.kind() == DoubtKind::Silence), comes_back, "{name}");
        let found = findings(record);
        assert!(found.iter().any(|one| ["outage", "flow-died"].contains(&one.name)), "{name}: {found:#?}");
    };
    check("examine-burst", "duration=11s", 6..=8, true);
    // The end mark is lost as well.
    check("examine-to-the-end", "duration=5s", 2..=5, false);
}

#[test]
fn the_same_failure_is_examined_once() {
    if !may() {
        return;
    }
    let net = Net::new(Kind::Direct);
    net.shell(nft!("T", "input", "meta l4proto udp drop"));
    let bench = Bench::bare("examine-once");
    let arguments = ["run", "udp-stream", "--set", "rate=1M,2M", "--set", "duration=300ms"];
    let _ = Running::start(net.command(&bench, &arguments)).wait(IN_TIME);
    let records = bench.records();
    assert_eq!(records.len(), 2);
    assert!(records[0].examination.is_some() && records[0].examination == records[1].examination, "{records:#?}");
}

#[test]
fn few_ports_are_named() {
    if !may() {
        return;
    }
    let net = Net::new(Kind::Direct);
    let bench = Bench::bare("examine-ports");
    net.shell("on $H sysctl -qw net.ipv4.ip_local_port_range='40000 40003'");
    let command = net.command(
        &bench,
        &["run", "tcp-stream", "--set", "direction=rx", "--set", "streams=8", "--set", "duration=300ms"],
    );
    let ran = Running::start(command).wait(IN_TIME);
    ran.check_sentence(&["no local port left for another socket", "net.ipv4.ip_local_port_range (40000 to 40003)"]);
}

/// Each connection loses its first SYN, which is sent again a second later.
#[test]
fn lost_handshakes_of_many_flows_do_not_add_up() {
    if !may() {
        return;
    }
    let net = Net::new(Kind::Routed);
    net.shell(nft!("M", "forward", "tcp flags & (syn | ack) == syn numgen inc mod 2 == 0 drop"));
    let bench = Bench::bare("examine-handshakes");
    let command = net.command(&bench, &["run", "tcp-stream", "--set", "streams=16", "--set", "duration=300ms"]);
    let ran = Running::start(command).wait(IN_TIME);
    assert!(ran.status.success(), "{ran:#?}");
}

/// Of flows that die long before the end, those that go on have their figures.
#[test]
fn a_member_that_dies_costs_its_flows_alone() {
    if !may() {
        return;
    }
    let net = Net::new(Kind::Routed);
    let bench = Bench::bare("examine-member");
    let dies = |plan: &str, drops: &str| {
        let arguments = ["run", plan, "--set", "streams=16", "--set", "rate=1M", "--set", "direction=rx"];
        let mut command = net.command(&bench, &arguments);
        command.args(["--set", "duration=9s"]);
        let running = Running::start(command);
        std::thread::sleep(Duration::from_millis(3500));
        net.shell(drops);
        let ran = running.wait(IN_TIME);
        net.shell("on $M nft flush ruleset");
        assert!(ran.status.success(), "{ran:#?}");
        let record = bench.records().pop().unwrap();
        let first = findings(&record).into_iter().next();
        assert_eq!(
            first.as_ref().and_then(|first| first.kind),
            Some("some-flows"),
            "{first:#?} {:#?}",
            record.examination
        );
        record.result.unwrap().flow
    };
    let flow = dies("udp-stream", nft!("M", "forward", "iifname p0 udp sport & 2 == 2 drop"));
    // Some of 16 die after a good third of the time.
    let (lost, through) = (flow.loss_ratio.unwrap(), flow.throughput_bps.unwrap());
    assert!((0.03..0.75).contains(&lost) && (lost + through / 16e6 - 1.0).abs() < 0.03, "{lost} {through}");
    let flow = dies("tcp-stream", nft!("M", "forward", "iifname p0 meta l4proto { tcp, udp } th sport & 2 == 2 drop"));
    let through = flow.throughput_bps.unwrap();
    assert!((5e6..15.5e6).contains(&through), "{through}");
}
