//! A machine for one campaign: a mount namespace of its own with three network namespaces in it, made by a shell script
//! that a seed has written.
//! Knows no settings of linerate; what stands in a namespace is shell lines, so that a failure can be pasted.
//!
//! ```text
//!   mount namespace: /run (journals, files of the plan), CPUs' and interrupts' files, all its own
//!     target  eth0 ────── veth ────── eth0  host        other
//!             mv0, br0, routes, …     likewise          sometimes a macvlan of the target's eth0
//! ```

use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::machines::chance::Chance;

/// The namespaces of a world.
pub const NAMESPACES: [&str; 3] = ["target", "host", "other"];

/// What a world consists of beside the two ends and their cable.
#[derive(Clone, Debug)]
pub struct Step {
    /// One of [`NAMESPACES`].
    pub namespace: &'static str,
    /// Lines for the shell.
    pub lines: String,
}

/// Files of the whole machine, which this world has for itself: two CPUs that have a governor and idle states, two
/// interrupts of an eth0, and two files that plans define settings with. Real ones belong to everybody.
const MACHINE: &str = r#"
mount -t tmpfs -o mode=755 none /run || exit 1
mkdir -p /run/rig/cpu /run/rig/irq/40 /run/rig/irq/41
for cpu in 0 1; do
    at=/run/rig/cpu/cpu$cpu
    mkdir -p $at/cpufreq $at/power $at/cpuidle/state0 $at/cpuidle/state1
    echo schedutil >$at/cpufreq/scaling_governor
    echo "performance powersave schedutil" >$at/cpufreq/scaling_available_governors
    echo $((cpu * 100)) >$at/power/pm_qos_resume_latency_us
    echo 0 >$at/cpuidle/state0/disable
    echo $cpu >$at/cpuidle/state1/disable
done
for file in online possible present; do cat /sys/devices/system/cpu/$file >/run/rig/cpu/$file; done
echo 0-1 >/run/rig/irq/40/smp_affinity_list
echo 1 >/run/rig/irq/41/smp_affinity_list
cat >/run/rig/interrupts <<'END'
           CPU0       CPU1
 40:          0          0   RIG  40-edge      eth0-rx
 41:          0          0   RIG  41-edge      eth0-tx
END
echo zero >/run/rig/word
echo 0 >/run/rig/number
mount --bind /run/rig/cpu /sys/devices/system/cpu || exit 1
mount --bind /run/rig/irq /proc/irq || exit 1
mount --bind /run/rig/interrupts /proc/interrupts || exit 1
"#;

/// The three namespaces, and the cable with four queues. Duplicate address detection takes a second, and is over in
/// no campaign: it is off.
const CABLE: &str = r#"
for name in target host other; do
    ip netns add $name || exit 1
    ip netns exec $name sh -c 'for of in all default; do echo 0 >/proc/sys/net/ipv6/conf/$of/accept_dad; done'
    ip -n $name link set lo up
done
ip link add eth0 netns target address 02:00:00:00:00:02 numrxqueues 4 numtxqueues 4 \
    type veth peer name eth0 netns host address 02:00:00:00:00:01 numrxqueues 4 numtxqueues 4 || exit 1
ip -n target link set eth0 up; ip -n host link set eth0 up
ip -n target addr add 198.18.0.2/24 dev eth0; ip -n host addr add 198.18.0.1/24 dev eth0
ip -n target addr add 2001:2::2/64 dev eth0; ip -n host addr add 2001:2::1/64 dev eth0
"#;

/// A third cable, from the target to the machine's own namespace, which alone has some of the sysctls.
const CABLE_OUT: &str = r#"
ip link add LINK address 02:00:00:00:66:01 type veth peer name eth1 netns target address 02:00:00:00:66:02 || exit 1
echo 1 >/proc/sys/net/ipv6/conf/LINK/disable_ipv6
ip link set LINK up; ip addr add 198.19.77.1/24 dev LINK
ip -n target link set eth1 up; ip -n target addr add 198.19.77.2/24 dev eth1
"#;

/// A world that stands. It is gone when this is dropped, and when this process ends.
pub struct World {
    keeper: Child,
    /// The link in the machine's own namespace, in a world that has one.
    pub outer_link: Option<String>,
}

/// A busy kernel takes a while until new addresses have their routes and groups.
const SETTLE: &str = "for turn in $(seq 20); do ip -all netns exec ip -6 address show up tentative | grep -q inet6 || break; \
                      sleep 0.1; done";

impl World {
    /// Makes it. Of `steps`, what this kernel does not know is left out.
    pub fn build(steps: &[Step]) -> World {
        World::make(&script(steps), None)
    }

    /// One whose target has a cable to the machine's own namespace.
    pub fn with_cable_out(steps: &[Step]) -> World {
        let link = format!("rig{}", std::process::id());
        let script = format!("{}{}", script(steps), CABLE_OUT.replace("LINK", &link));
        World::make(&script, Some(link))
    }

    fn make(script: &str, outer_link: Option<String>) -> World {
        let mut keeper = Command::new("unshare")
            .args(["--mount", "--propagation", "private", "sh"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("unshare(1)");
        // The shell then waits for a line that never comes: it ends with this process.
        let script = format!("{script}\n{SETTLE}\necho made\nread end\nexit 0\n");
        keeper.stdin.as_mut().unwrap().write_all(script.as_bytes()).unwrap();
        let mut line = String::new();
        BufReader::new(keeper.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line.trim(), "made", "a world could not be made; this needs root, iproute2 and util-linux");
        World { keeper, outer_link }
    }

    /// A path of this world, seen from here.
    pub fn path(&self, path: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{path}", self.keeper.id()))
    }

    /// A program in this world; in a namespace, if one is named.
    pub fn command(&self, namespace: Option<&str>, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--mount=/proc/{}/ns/mnt", self.keeper.id()));
        if let Some(namespace) = namespace {
            command.arg(format!("--net={}", self.path(&format!("/run/netns/{namespace}")).display()));
        }
        command.args(["--", program]);
        command
    }

    /// Runs shell lines in a namespace, with its own /sys, and returns what they print.
    pub fn shell(&self, namespace: &str, lines: &str) -> String {
        let mut command = self.command(None, "ip");
        command.args(["netns", "exec", namespace, "sh", "-c", lines]);
        text_of(command)
    }

    /// Runs shell lines in the machine's own namespace.
    pub fn shell_outside(&self, lines: &str) -> String {
        let mut command = self.command(None, "sh");
        command.args(["-c", lines]);
        text_of(command)
    }
}

fn text_of(mut command: Command) -> String {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("nsenter(1)");
    let mut text = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut text).unwrap();
    let _ = child.wait();
    String::from_utf8_lossy(&text).into_owned()
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some(link) = &self.outer_link {
            // Namespaces take their time to go, and the next world has a link of this name.
            self.shell_outside(&format!("ip link del {link}"));
        }
        drop(self.keeper.stdin.take());
        let _ = self.keeper.kill();
        let _ = self.keeper.wait();
    }
}

/// The script that makes such a world in a mount namespace of its own.
pub fn script(steps: &[Step]) -> String {
    let mut script = format!("{MACHINE}{CABLE}");
    for step in steps {
        script.push_str(&format!("ip netns exec {} sh <<'END' >/dev/null 2>&1\n{}\nEND\n", step.namespace, step.lines));
    }
    script
}

/// A world that is unlike the one that everybody tries first.
pub fn steps(chance: &mut Chance) -> Vec<Step> {
    let mut steps = Vec::new();
    for namespace in ["target", "host"] {
        for _ in 0..chance.below(9) {
            let lines = step(chance, namespace);
            steps.push(Step { namespace, lines });
        }
        if chance.one_in(6) {
            let lines = "ip link add link eth0 name mv9 address 02:00:00:00:00:99 type macvlan mode bridge\n\
                         ip link set mv9 netns other up\n\
                         ip -n other addr add 198.18.0.99/24 dev mv9\n\
                         ip -n other route add 10.99.0.0/16 via 198.18.0.1\n\
                         ip netns exec other sysctl -qw net.ipv4.conf.mv9.rp_filter=2 net.ipv6.conf.mv9.mtu=1300";
            steps
                .push(Step { namespace, lines: lines.replace("mv9", if namespace == "host" { "mv8" } else { "mv9" }) });
        }
    }
    steps
}

fn step(chance: &mut Chance, namespace: &str) -> String {
    let number = chance.below(250) + 1;
    let peer = if namespace == "target" { "1" } else { "2" };
    match chance.below(24) {
        0 => format!("ip link set eth0 mtu {}", chance.of(&[9000, 1400, 1280, 4000, 1501])),
        1 => format!("ip link set eth0 txqueuelen {number}"),
        2 => "ip link set eth0 alias cable; ip link set eth0 allmulticast on".to_owned(),
        3 => {
            let mtu = chance.of(&[1500, 1400, 1280, 1000]);
            format!(
                "ip link add link eth0 name mv0 mtu {mtu} address 02:00:00:00:01:0{peer} type macvlan mode bridge\n\
                 ip link set mv0 up; ip addr add 10.7.{number}.1/24 dev mv0; ip addr add 2001:db8:7::{number}/64 dev mv0\n\
                 ip route add 10.77.0.0/16 via 10.7.{number}.9 dev mv0; ip -6 route add 2001:db8:77::/48 dev mv0\n\
                 sysctl -qw net.ipv6.conf.mv0.mtu=1280 net.ipv4.conf.mv0.rp_filter=2 net.ipv6.conf.mv0.hop_limit=9"
            )
        }
        4 => "ip link add br0 address 02:00:00:00:02:00 type bridge; ip link set br0 up\n\
              ip link add v0 address 02:00:00:00:03:00 type veth peer name v1 address 02:00:00:00:03:01; ip link set v0 master br0 up; ip link set v1 up\n\
              ip addr add 10.8.0.1/24 dev br0; ip route add 10.88.0.0/16 dev br0"
            .to_owned(),
        5 => "ip link add link eth0 name eth0.5 type vlan id 5; ip link set eth0.5 up; ip addr add 10.5.0.1/24 dev eth0.5"
            .to_owned(),
        6 => format!(
            "ip route add 10.{number}.0.0/16 via 198.18.0.{peer} metric 7 {}\n\
             ip route add 10.{number}.0.0/16 dev eth0 metric 9 table 100\n\
             ip route add blackhole 10.251.0.0/16",
            chance.of(&["", "", "mtu 1300", "window 9000 initcwnd 20"])
        ),
        7 => format!(
            "ip -6 route add 2001:db8:{number}::/48 via 2001:2::{peer} dev eth0 metric 7\n\
             ip -6 route add 2001:db8:{number}::/48 via fe80::{number} dev eth0 metric 8 {} table 100\n\
             ip -6 route add default via fe80::1 dev eth0 proto static",
            chance.of(&["", "", "mtu 1290", "mtu lock 1290", "hoplimit 7"])
        ),
        8 => format!(
            "ip route add 10.252.0.0/16 nexthop via 198.18.0.{peer} dev eth0 weight 2 nexthop via 198.18.0.77 dev eth0\n\
             ip -6 route add 2001:db8:fc::/48 nexthop via fe80::{number} dev eth0 nexthop via 2001:2::{peer} dev eth0"
        ),
        9 => format!(
            "ip nexthop add id 1 via 198.18.0.{peer} dev eth0; ip nexthop add id 2 via fe80::5 dev eth0\n\
             ip route add 10.253.0.0/16 nhid 1; ip -6 route add 2001:db8:fd::/48 nhid 2"
        ),
        10 => format!(
            "ip rule add from 10.{number}.0.0/16 table 100; ip -6 rule add from 2001:db8:{number}::/48 table 100\n\
             ip rule add iif eth0 table 101; ip route add default via 198.18.0.{peer} table 101"
        ),
        11 => format!(
            "ip neigh add 198.18.0.88 lladdr 02:00:00:00:88:{:02x} dev eth0 nud permanent\n\
             ip neigh add 2001:2::88 lladdr 02:00:00:00:88:{:02x} dev eth0 nud permanent\n\
             ip neigh add proxy 198.18.0.89 dev eth0; ip -6 neigh add proxy 2001:2::89 dev eth0",
            number, number
        ),
        12 => format!(
            "ip addr add 10.6.{number}.1/24 dev eth0 label eth0:1; ip addr add 10.6.{number}.2/24 dev eth0\n\
             ip addr add 2001:db8:6::{number}/64 dev eth0 noprefixroute\n\
             ip addr add 2001:db8:5::{number}/64 dev eth0 preferred_lft 0"
        ),
        13 => "ip maddr add 01:00:5e:01:02:03 dev eth0".to_owned(),
        14 => format!("tc qdisc replace dev eth0 root pfifo limit {number}"),
        15 => "tc qdisc replace dev eth0 root handle 1: tbf rate 200mbit burst 64k limit 128k".to_owned(),
        16 => "tc qdisc replace dev eth0 root handle 10: htb default 1\n\
               tc class add dev eth0 parent 10: classid 10:1 htb rate 500mbit\n\
               tc class add dev eth0 parent 10: classid 10:2 htb rate 1mbit ceil 2mbit\n\
               tc qdisc add dev eth0 parent 10:2 handle 20: bfifo limit 5000\n\
               tc filter add dev eth0 parent 10: protocol ip prio 3 u32 match ip dst 10.1.2.3/32 classid 10:2"
            .to_owned(),
        17 => "tc qdisc replace dev eth0 root handle 3: mq; tc qdisc add dev eth0 parent 3:2 bfifo limit 9999".to_owned(),
        18 => "tc qdisc add dev eth0 clsact\n\
               tc filter add dev eth0 ingress protocol ip prio 3 u32 match ip dst 10.1.2.3/32 flowid 1:1"
            .to_owned(),
        19 => {
            let queue = chance.below(4);
            format!(
                "cd /sys/class/net/eth0; echo {} >queues/rx-{queue}/rps_cpus; echo {} >queues/rx-{queue}/rps_flow_cnt\n\
                 echo {} >queues/tx-{queue}/xps_cpus; echo 2 >queues/tx-{}/xps_rxqs; echo 9 >queues/tx-0/tx_maxrate",
                chance.below(4),
                chance.of(&[0, 64, 4096]),
                chance.below(4),
                3 - queue
            )
        }
        20 => format!(
            "cd /sys/class/net/eth0; echo {} >gro_flush_timeout; echo {number} >napi_defer_hard_irqs; echo {} >threaded",
            chance.of(&[0, 20_000, 1_000_001]),
            chance.below(2),
        ),
        21 => format!(
            "ethtool -K eth0 {}; ethtool -L eth0 {}",
            chance.of(&["gro on", "tso off", "sg off", "tx off", "gso off gro on", "rx-gro-list on"]),
            chance.of(&["rx 2 tx 2", "rx 4 tx 1", "rx 1 tx 4", "rx 1 tx 1", "rx 3"]),
        ),
        22 => "sysctl -qw net.ipv6.conf.eth0.disable_ipv6=1".to_owned(),
        _ => {
            let lines: Vec<String> = (0..4).map(|_| format!("sysctl -qw '{}'", chance.of(&SYSCTLS))).collect();
            lines.join("\n")
        }
    }
}

/// Sysctls off their defaults, which bear traffic.
const SYSCTLS: [&str; 24] = [
    "net.ipv4.tcp_sack=0",
    "net.ipv4.tcp_timestamps=0",
    "net.ipv4.conf.eth0.rp_filter=2",
    "net.ipv4.conf.all.rp_filter=2",
    "net.ipv4.conf.eth0.forwarding=1",
    "net.ipv4.ip_forward=1",
    "net.ipv4.conf.default.rp_filter=1",
    "net.ipv4.conf.eth0.arp_notify=1",
    "net.ipv4.neigh.eth0.base_reachable_time_ms=7000",
    "net.ipv4.neigh.default.ucast_solicit=5",
    "net.ipv6.conf.eth0.mtu=1300",
    "net.ipv6.conf.eth0.hop_limit=33",
    "net.ipv6.conf.eth0.forwarding=1",
    "net.ipv6.conf.all.forwarding=1",
    "net.ipv6.conf.eth0.accept_ra=2",
    "net.ipv6.conf.eth0.keep_addr_on_down=1",
    "net.ipv6.conf.eth0.addr_gen_mode=1",
    "net.ipv6.conf.eth0.use_tempaddr=2",
    "net.ipv6.conf.default.hop_limit=44",
    "net.ipv6.neigh.eth0.gc_stale_time=77",
    "net.ipv6.conf.eth0.proxy_ndp=1",
    "net.ipv6.conf.eth0.dad_transmits=3",
    "net.ipv4.tcp_rmem=4096 100000 200000",
    "net.ipv4.conf.all.forwarding=1",
];
