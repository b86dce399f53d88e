//! Faults at the ends: shapers, buffers, CPU time, firewalls, carriers, neighbours.
//! Knows no findings.

use linerate_machine::end::End;

use super::super::case::{Between, Place, What, Witness, other, way_of};
use super::super::draw::Draft;

pub(super) const PLAIN: [Between; 3] = [Between::Cable, Between::Cable, Between::Router];

/// What the discipline at the root dropped.
pub(super) const QDISC_DROPS: &str =
    "tc -s qdisc show dev eth0 root | sed -n 's/.*dropped \\([0-9]*\\),.*/\\1/p' | head -n 1";
/// How often a discipline held a packet back.
pub(super) const OVERLIMITS: &str =
    "tc -s qdisc show dev eth0 root | sed -n 's/.*overlimits \\([0-9]*\\) .*/\\1/p' | head -n 1";
/// Datagrams that found no room in a socket's buffer, over IPv4 and IPv6.
const NO_ROOM: &str = "awk '/^Udp: [0-9]/ {print $6}' /proc/self/net/snmp; awk '/^Udp6RcvbufErrors/ {print $2}' /proc/self/net/snmp6 2>/dev/null || true";
/// What a rule that counts threw away.
pub(super) const FIREWALL: &str = "nft list ruleset | sed -n 's/.*counter packets \\([0-9]*\\) .*/\\1/p'";

/// A firewall of one rule, as the shell reads it: at a hook of a family of tables.
pub(super) fn rule(family: &str, hook: &str, says: &str) -> String {
    format!(
        "nft add table {family} t\nnft 'add chain {family} t c {{ type filter hook {hook} priority 0; }}'\n\
         nft add rule {family} t c {says}"
    )
}

pub(super) fn shaper(draft: &mut Draft) {
    draft.lies_between(&PLAIN);
    draft.lasts(1500, 2500);
    let mbps = draft.scaled(10, 100);
    draft.case.carries_bps = Some(mbps * 1_000_000);
    let sender = draft.one_way();
    draft.case.at = Some(sender);
    if draft.one_in(3) {
        draft.udp(20, 40);
        draft.case.set.retain(|set| !set.starts_with("rate"));
        let more = mbps * draft.between(13, 20) / 10;
        draft.set("rate", format!("{more}M"));
    } else {
        draft.tcp(None);
    }
    let kind = draft.of(&["tbf", "tbf", "htb"]);
    draft.say(format!("{kind} of {mbps} Mbit/s with a long queue at the {sender}"));
    let burst = (mbps * 50).max(6056);
    draft.before(
        sender,
        if kind == "tbf" {
            format!("tc qdisc replace dev eth0 root tbf rate {mbps}mbit burst {burst} limit 8000000")
        } else {
            format!(
                "tc qdisc replace dev eth0 root handle 1: htb default 1\n\
                 tc class add dev eth0 parent 1: classid 1:1 htb rate {mbps}mbit burst {burst}\n\
                 tc qdisc add dev eth0 parent 1:1 bfifo limit 8000000"
            )
        },
    );
    draft.witness(sender, OVERLIMITS, 50, "overlimits");
}

pub(super) fn shaper_drops(draft: &mut Draft) {
    draft.lies_between(&PLAIN);
    draft.lasts(1500, 2500);
    let mbps = draft.scaled(10, 60);
    draft.case.carries_bps = Some(mbps * 1_000_000);
    let sender = draft.one_way();
    draft.case.at = Some(sender);
    if draft.one_in(2) {
        draft.udp(20, 40);
        draft.case.set.retain(|set| !set.starts_with("rate"));
        let more = mbps * draft.between(13, 20) / 10;
        draft.set("rate", format!("{more}M"));
    } else {
        draft.tcp(None);
    }
    let limit = draft.scaled(12_000, 40_000);
    draft.say(format!("a shaper of {mbps} Mbit/s with a queue of {limit} bytes at the {sender}"));
    // A bare veth hands over trains of 64 KiB, which such a bucket would not take at all.
    draft.before(sender, "ethtool -K eth0 tso off gso off >/dev/null");
    if draft.one_in(2) {
        draft.before(sender, format!("tc qdisc replace dev eth0 root tbf rate {mbps}mbit burst 8k limit {limit}"));
    } else {
        draft.before(
            sender,
            format!(
                "tc qdisc replace dev eth0 root handle 1: htb default 1\n\
                 tc class add dev eth0 parent 1: classid 1:1 htb rate {mbps}mbit burst 8k\n\
                 tc qdisc add dev eth0 parent 1:1 pfifo limit {}",
                limit / 1514
            ),
        );
    }
    draft.witness(sender, QDISC_DROPS, 10, "qdisc drops");
}

/// Somebody else's flood through the same shaper.
pub(super) fn others_traffic(draft: &mut Draft) {
    draft.lies_between(&[Between::Cable]);
    draft.lasts(1800, 2500);
    let mbps = draft.between(20, 50);
    if draft.one_in(2) {
        draft.udp(5, 8);
        draft.case.set.retain(|set| !set.starts_with("rate"));
        draft.set("rate", format!("{}M", mbps * 8 / 10));
    } else {
        draft.tcp(None);
    }
    let sender = draft.one_way();
    draft.case.at = Some(sender);
    draft.say(format!("others flood the {sender}'s TBF of {mbps} Mbit/s"));
    draft.before(sender, "ethtool -K eth0 tso off gso off >/dev/null");
    draft.before(sender, format!("tc qdisc replace dev eth0 root tbf rate {mbps}mbit burst 10k limit 60000"));
    // To an address of the link that nobody has: no answer, and no ICMP.
    let flood = "ip neigh replace 198.18.0.9 lladdr 02:00:00:00:00:99 dev eth0\n\
                 timeout 5 sh -c 'while :; do dd if=/dev/zero bs=1200 count=300 2>/dev/null | \
                 timeout 1 bash -c \"cat >/dev/udp/198.18.0.9/9\"; done' >/dev/null 2>&1 &";
    draft.after(200, What::Shell(sender.into(), flood.to_owned()));
    draft.witness(sender, QDISC_DROPS, 10, "qdisc drops");
}

/// A router between shapes what it forwards; neither end can see its queue.
pub(super) fn router_shaper(draft: &mut Draft) {
    draft.lies_between(&[Between::Router]);
    draft.lasts(1800, 2500);
    draft.tcp(None);
    let mbps = draft.scaled(10, 80);
    draft.case.carries_bps = Some(mbps * 1_000_000);
    let sender = draft.one_way();
    let link = if sender == End::Target { "far" } else { "near" };
    draft.say(format!("the router shapes to {mbps} Mbit/s"));
    let limit = mbps * 125 * draft.between(30, 150);
    draft
        .before(Place::Middle, format!("tc qdisc replace dev {link} root tbf rate {mbps}mbit burst 20k limit {limit}"));
    let overlimits = OVERLIMITS.replace("eth0", link);
    draft.witness(Place::Middle, &overlimits, 50, "overlimits");
}

/// The router marks segments as congested, as a queue with ECN does: those above a quarter of what it shapes to, as soon as a second's
/// worth of that has passed (nftables fills so large a bucket).
pub(super) fn marks(draft: &mut Draft) {
    router_shaper(draft);
    draft.case.without_ipv6();
    let control = draft.of(&["cubic", "reno"]);
    draft.set("congestion_control", control);
    draft.say("it marks segments above a quarter of that".to_owned());
    for end in [End::Target, End::Host] {
        draft.before(end, "sysctl -qw net.ipv4.tcp_ecn=1".to_owned());
    }
    let rate = draft.case.carries_bps.unwrap_or_default() / 32_000;
    draft.before(
        Place::Middle,
        rule(
            "ip",
            "forward",
            &format!("meta length '>' 500 limit rate over {rate} kbytes/second burst 20 kbytes ip ecn set ce counter"),
        ),
    );
    draft.witness(Place::Middle, FIREWALL, 20, "marked by nft");
}

/// A shaper that is much slower for a second or so, and then what it was.
pub(super) fn slow_for_a_while(draft: &mut Draft) {
    let is_own = draft.one_in(2);
    draft.lies_between(if is_own { &PLAIN } else { &[Between::Router] });
    draft.lasts(3500, 4000);
    let mbps = draft.scaled(8, 30);
    let usual = mbps * draft.between(5, 8);
    let sender = draft.one_way();
    draft.tcp(Some(mbps * 4));
    let (place, link) = shaped_port(draft, is_own, sender);
    let (from, length) = (draft.between(1000, 1300), draft.between(900, 1200));
    draft.say(format!("a TBF at {link} of {usual} Mbit/s has {mbps} from {from} ms on, for {length} ms"));
    let limit = mbps * 125 * draft.between(30, 80);
    let tbf =
        |word: &str, mbps: u64| format!("tc qdisc {word} dev {link} root tbf rate {mbps}mbit burst 20k limit {limit}");
    draft.before(place, tbf("replace", usual));
    draft.after(from, What::Shell(place, tbf("change", mbps)));
    draft.after(from + length, What::Shell(place, tbf("change", usual)));
    let overlimits = OVERLIMITS.replace("eth0", link);
    draft.witness(place, &overlimits, 50, "overlimits");
}

/// The sender's own port, or that of the router by which the traffic leaves.
fn shaped_port(draft: &mut Draft, is_own: bool, sender: End) -> (Place, &'static str) {
    match (is_own, sender) {
        (true, _) => {
            draft.case.at = Some(sender);
            (Place::from(sender), "eth0")
        }
        (false, End::Target) => (Place::Middle, "far"),
        (false, End::Host) => (Place::Middle, "near"),
    }
}

/// A shaper at the sender, or of the router, is set to a part of its rate in mid-trial.
pub(super) fn slows_down(draft: &mut Draft) {
    let is_own = draft.one_in(2);
    draft.lies_between(if is_own { &PLAIN } else { &[Between::Router] });
    draft.lasts(3000, 4000);
    let mbps = draft.scaled(8, 30);
    let first = mbps * draft.between(3, 6);
    draft.case.carries_bps = Some(mbps * 1_000_000);
    let sender = draft.one_way();
    if draft.one_in(2) {
        draft.tcp(None);
    } else {
        draft.udp(20, 40);
        draft.case.set.retain(|set| !set.starts_with("rate"));
        draft.set("rate", format!("{}M", mbps * 2));
    }
    let (place, link) = shaped_port(draft, is_own, sender);
    let at = draft.between(1000, 1500);
    draft.say(format!(
        "a TBF at {} of {first} Mbit/s has {mbps} from {at} ms on",
        if is_own { "the sender" } else { "the router" }
    ));
    let limit = mbps * 125 * draft.between(30, 80);
    let tbf =
        |word: &str, mbps: u64| format!("tc qdisc {word} dev {link} root tbf rate {mbps}mbit burst 20k limit {limit}");
    draft.before(place, tbf("replace", first));
    draft.after(at, What::Shell(place, tbf("change", mbps)));
    draft.witness(place, &OVERLIMITS.replace("eth0", link), 50, "overlimits");
}

pub(super) fn small_buffer(draft: &mut Draft) {
    draft.lies_between(&PLAIN);
    draft.lasts(1000, 2000);
    draft.udp(30, 80);
    let burst = draft.of(&[50, 100, 200]);
    draft.set("burst", burst);
    draft.set("sender_api", "sendmmsg");
    let sender = draft.one_way();
    let receiver = other(sender);
    draft.case.at = Some(receiver);
    if draft.one_in(2) {
        let buffer = draft.of(&["4K", "8K", "12K"]);
        draft.set("socket_buffer", buffer);
        draft.say(format!("a socket buffer of {buffer} under bursts of {burst}"));
    } else {
        let most = draft.of(&[4096, 8192, 12288]);
        draft.before(receiver, format!("sysctl -qw net.core.rmem_default={most}"));
        draft.say(format!("rmem_default of {most} under bursts of {burst}"));
    }
    draft.witness(receiver, NO_ROOM, 20, "RcvbufErrors");
}

/// Programs that never rest, on the CPU on which an end has to run; the other end has the other one.
fn crowd(draft: &mut Draft, end: End, priority: &'static str, count: usize) {
    draft.case.at = Some(end);
    draft.case.starts[way_of(end)].words = "taskset -c 1".to_owned();
    draft.case.starts[way_of(other(end))].words = "taskset -c 0".to_owned();
    for _ in 0..count {
        draft.after(100, What::Hog(1, priority));
    }
}

/// Programs that want the CPU on which the receiver has to run.
fn hogged(draft: &mut Draft, priority: &'static str, count: usize, say: &str) {
    draft.lies_between(&PLAIN);
    draft.lasts(1500, 2500);
    draft.udp(20, 50);
    draft.set("sender_api", "sendmmsg");
    draft.set("socket_buffer", "64K");
    let sender = draft.one_way();
    let receiver = other(sender);
    crowd(draft, receiver, priority, count);
    draft.say(format!("{say} on the {receiver}'s CPU"));
    draft.witness(receiver, NO_ROOM, 20, "RcvbufErrors");
}

/// Clock ticks that shells have run: nothing else in these worlds is a shell that runs for long.
const SHELLS_RAN: &str = "cat /proc/[0-9]*/stat 2>/dev/null | awk '$2 == \"(sh)\" {print $14}'";

/// The same for any end of any workload, shown by what the programs themselves ran.
fn hogged_agent(draft: &mut Draft, end: End) {
    let (priority, count) = draft.of(&[("nice -n -19", 2), ("chrt -f 50", 1)]);
    crowd(draft, end, priority, count);
    draft.say(format!("{count} of {priority} on the {end}'s CPU"));
    draft.witness(end, SHELLS_RAN, 80, "ticks");
}

pub(super) fn hog_sender(draft: &mut Draft) {
    draft.lies_between(&[Between::Cable]);
    draft.lasts(1500, 2500);
    if draft.one_in(2) {
        let mbps = draft.scaled(300, 600);
        draft.tcp(Some(mbps));
    } else {
        draft.udp(100, 200);
        draft.set("sender_api", "plain");
        draft.case.set.retain(|set| !set.starts_with("message_size"));
        draft.set("message_size", 200);
    }
    let sender = draft.one_way();
    hogged_agent(draft, sender);
}

pub(super) fn hog_reader(draft: &mut Draft) {
    draft.lies_between(&[Between::Cable]);
    draft.lasts(1500, 2500);
    let mbps = draft.scaled(400, 800);
    draft.tcp(Some(mbps));
    let sender = draft.one_way();
    hogged_agent(draft, other(sender));
}

pub(super) fn hog_requests(draft: &mut Draft) {
    draft.lies_between(&[Between::Cable]);
    draft.lasts(1500, 2500);
    draft.requests(&["tcp-rr", "udp-rr", "tcp-crr"]);
    draft.one_way();
    let end = draft.of(&[End::Target, End::Host]);
    hogged_agent(draft, end);
}

pub(super) fn hog(draft: &mut Draft) {
    hogged(draft, "nice -n -19", 2, "two urgent programs");
}

pub(super) fn real_time_hog(draft: &mut Draft) {
    hogged(draft, "chrt -f 50", 1, "a real-time program");
}

/// What the kernel says of a control group of this program's: how often it held one back.
const THROTTLED: &str = "cat /sys/fs/cgroup/cpu/linerate-faults-*/cpu.stat /sys/fs/cgroup/linerate-faults-*/cpu.stat \
                         2>/dev/null | awk '/^nr_throttled/ {print $2}'";

fn quota(draft: &mut Draft, of: fn(End) -> End) {
    draft.lies_between(&PLAIN);
    draft.lasts(1500, 2500);
    if draft.one_in(2) {
        draft.tcp(None);
    } else {
        draft.udp(40, 80);
        draft.case.set.retain(|set| !set.starts_with("message_size"));
        let message = draft.of(&[200, 400]);
        draft.set("message_size", message);
    }
    let sender = draft.one_way();
    let end = of(sender);
    draft.case.at = Some(end);
    let percent = draft.between(4, 12) as u32;
    draft.case.starts[way_of(end)].quota = Some(percent);
    draft.say(format!("a quota of {percent} % of a CPU for the {end}'s agent"));
    draft.witness(end, THROTTLED, 3, "throttled");
}

pub(super) fn quota_receiver(draft: &mut Draft) {
    quota(draft, other);
}

pub(super) fn quota_sender(draft: &mut Draft) {
    quota(draft, |sender| sender);
}

/// An agent does not run for a while.
pub(super) fn stopped(draft: &mut Draft) {
    draft.lies_between(&PLAIN);
    draft.lasts(2000, 3000);
    match draft.of(&[0, 1, 2]) {
        0 => draft.udp(8, 40),
        1 => {
            let mbps = draft.scaled(10, 60);
            draft.tcp(Some(mbps));
        }
        _ => draft.requests(&["udp-rr", "tcp-rr"]),
    }
    draft.one_way();
    stop(draft);
}

/// An agent does not run for a while, in a trial that is drawn already.
pub(super) fn stop(draft: &mut Draft) {
    let end = draft.of(&[End::Target, End::Host]);
    draft.case.at = Some(end);
    let (at, length) = (draft.between(200, 600), draft.scaled(300, 800));
    draft.case.lasts_ms = Some(length);
    draft.after(at, What::Stop(end, length));
    draft.say(format!("the {end}'s agent is stopped for {length} ms"));
    draft.case.witnesses.push(Witness::Stopped(length * 8 / 10));
}

fn firewall(draft: &mut Draft, hook: &'static str, end: fn(&Draft) -> End) {
    draft.lies_between(&PLAIN);
    draft.lasts(1500, 2500);
    // What TCP's own machine refuses it to send, it sends again at once, and nothing is lost.
    if hook == "output" || draft.one_in(2) {
        draft.udp(8, 40);
    } else {
        let mbps = draft.scaled(10, 60);
        draft.tcp(Some(mbps));
    }
    draft.one_way();
    let end = end(draft);
    filter(draft, hook, end);
}

/// The receiver drops a share, in a trial that is drawn already.
pub(super) fn drop_a_share(draft: &mut Draft) {
    let end = draft.receiver();
    filter(draft, "input", end);
}

fn filter(draft: &mut Draft, hook: &'static str, end: End) {
    draft.case.at = Some(end);
    let share = draft.between(2, 20);
    draft.say(format!("a firewall at the {end} ({hook}) drops {share} %"));
    // Longer than a handshake and any acknowledgement.
    draft.before(
        end,
        rule(
            "inet",
            hook,
            &format!(
                "meta l4proto '{{ tcp, udp }}' meta length '>' 300 numgen random mod 100 '<' {share} \
             counter drop"
            ),
        ),
    );
    draft.witness(end, FIREWALL, 10, "dropped by nft");
}

pub(super) fn firewall_share(draft: &mut Draft) {
    firewall(draft, "input", Draft::receiver);
}

pub(super) fn firewall_out(draft: &mut Draft) {
    firewall(draft, "output", Draft::sender);
}

/// The sender's own filter drops a share of TCP's segments on their way out.
pub(super) fn filter_out_tcp(draft: &mut Draft) {
    draft.lies_between(&PLAIN);
    draft.lasts(1500, 2500);
    let mbps = draft.scaled(10, 60);
    draft.tcp(Some(mbps));
    let end = draft.one_way();
    filter(draft, "output", end);
}

/// The sender's filter drops a good part of what acknowledges its data.
pub(super) fn acks_lost(draft: &mut Draft) {
    draft.lies_between(&PLAIN);
    draft.lasts(1500, 2500);
    draft.tcp(None);
    let end = draft.one_way();
    draft.case.at = Some(end);
    let share = draft.between(40, 75);
    draft.say(format!("a firewall at the {end} drops {share} % of the acknowledgements"));
    draft.before(
        end,
        rule(
            "inet",
            "input",
            &format!(
                "'tcp flags & (fin | syn | rst | psh) == 0' meta length '<' 100 numgen random mod 100 '<' {share} \
             counter drop"
            ),
        ),
    );
    draft.witness(end, FIREWALL, 5, "dropped by nft");
}

/// A shaper at the receiver's egress, which nothing passes but acknowledgements.
pub(super) fn acks_shaped(draft: &mut Draft) {
    draft.lies_between(&PLAIN);
    draft.lasts(1500, 2500);
    draft.tcp(None);
    let end = other(draft.one_way());
    draft.case.at = Some(end);
    let kbps = draft.scaled(80, 200);
    draft.say(format!("a TBF of {kbps} kbit/s at the {end}, which receives"));
    draft.before(end, format!("tc qdisc replace dev eth0 root tbf rate {kbps}kbit burst 2k limit 200000"));
    draft.witness(end, OVERLIMITS, 50, "overlimits");
}

/// What comes above a rate is dropped at the receiver's interface, before its stack.
pub(super) fn ingress_limit(draft: &mut Draft) {
    draft.lies_between(&PLAIN);
    draft.lasts(1500, 2500);
    draft.udp(15, 40);
    draft.one_way();
    let end = draft.receiver();
    draft.case.at = Some(end);
    let rate = draft.per_s * 6 / 10;
    draft.say(format!("a filter at the {end}'s interface drops above {rate} packets/s"));
    draft.before(
        end,
        format!(
            "nft add table netdev t\n\
             nft 'add chain netdev t c {{ type filter hook ingress device eth0 priority 0; }}'\n\
             nft add rule netdev t c meta protocol '{{ ip, ip6 }}' limit rate over {rate}/second burst 20 packets counter drop"
        ),
    );
    draft.witness(end, FIREWALL, 20, "dropped by nft");
}

/// The sender's interface drops what its stack sends above a rate, below IP and before any queue.
pub(super) fn egress_limit(draft: &mut Draft) {
    draft.lies_between(&[Between::Cable]);
    draft.lasts(1500, 2500);
    draft.tcp(None);
    let end = draft.one_way();
    draft.case.at = Some(end);
    let mbps = draft.scaled(10, 60);
    draft.say(format!("a filter at the {end}'s interface drops what it sends above {mbps} Mbit/s"));
    draft.before(
        end,
        format!(
            "ethtool -K eth0 tso off gso off >/dev/null\n\
             nft add table netdev t\n\
             nft 'add chain netdev t c {{ type filter hook egress device eth0 priority 0; }}'\n\
             nft add rule netdev t c meta length '>' 300 limit rate over {} kbytes/second burst 20 kbytes counter drop",
            mbps * 122
        ),
    );
    draft.witness(end, FIREWALL, 20, "dropped by nft");
}

/// The sender's interface takes trains of a few segments only.
pub(super) fn short_trains(draft: &mut Draft) {
    draft.lies_between(&[Between::Cable]);
    draft.lasts(1500, 2500);
    draft.tcp(None);
    let end = draft.one_way();
    draft.case.at = Some(end);
    let segments = draft.between(2, 5);
    draft.say(format!("the {end}'s interface takes {segments} segments at once"));
    draft.before(end, format!("ip link set eth0 gso_max_segs {segments}"));
    draft.witness(end, "awk '/eth0:/ {print $11}' /proc/self/net/dev", 10_000, "frames sent");
}

pub(super) fn backlog(draft: &mut Draft) {
    draft.lies_between(&[Between::Cable]);
    draft.lasts(1000, 1500);
    draft.udp(20, 40);
    draft.case.set.retain(|set| !set.starts_with("message_size"));
    draft.set("message_size", 1000);
    draft.set("sender_api", "udp-segment");
    draft.set("burst", 60);
    let sender = draft.one_way();
    let receiver = other(sender);
    draft.case.at = Some(receiver);
    draft.set(&format!("{sender}.udp_segmentation"), "off");
    let most = draft.between(20, 45);
    draft.case.actions.push(super::super::case::Action {
        after_ms: None,
        what: What::Machine("/proc/sys/net/core/netdev_max_backlog", most),
    });
    draft.say(format!("a backlog of {most} packets"));
    draft.witness(
        receiver,
        "while read one two rest; do echo $((0x$two)); done </proc/net/softnet_stat",
        20,
        "softnet dropped",
    );
}

/// The receiver's interface takes less than the sender sends.
pub(super) fn mtu(draft: &mut Draft) {
    draft.lies_between(&[Between::Cable]);
    draft.lasts(1000, 1500);
    draft.udp(5, 40);
    draft.case.set.retain(|set| !set.starts_with("message_size"));
    let sender = draft.one_way();
    let receiver = other(sender);
    draft.case.at = Some(receiver);
    let mtu = draft.of(&[1300, 1400, 1450]);
    draft.say(format!("an MTU of {mtu} at the {receiver}"));
    draft.before(receiver, format!("ip link set eth0 mtu {mtu}"));
    draft.witness(sender, "cat /proc/self/net/dev | awk '/eth0:/ {print $13}'", 10, "tx dropped");
}

pub(super) fn carrier(draft: &mut Draft) {
    draft.lies_between(&[Between::Cable]);
    draft.lasts(3000, 4000);
    if draft.one_in(2) {
        draft.udp(8, 40);
    } else {
        let mbps = draft.scaled(10, 60);
        draft.tcp(Some(mbps));
    }
    draft.one_way();
    let end = draft.of(&[End::Target, End::Host]);
    let (at, length) = (draft.between(300, 800), draft.scaled(400, 1200));
    draft.after(at, What::Shell(end.into(), "ip link set eth0 down".to_owned()));
    draft.after(at + length, What::Shell(end.into(), "ip link set eth0 up".to_owned()));
    draft.say(format!("the {end}'s link is down for {length} ms"));
    draft.witness(other(end), "ip -s -s link show eth0 | tail -n 1 | awk '{print $NF}'", 2, "carrier changes");
}

/// The neighbour's address in the sender's table is somebody else's for a while.
pub(super) fn neighbour(draft: &mut Draft) {
    draft.lies_between(&[Between::Cable]);
    draft.lasts(2500, 3500);
    if draft.one_in(2) {
        draft.udp(8, 40);
    } else {
        let mbps = draft.scaled(10, 60);
        draft.tcp(Some(mbps));
    }
    let sender = draft.one_way();
    draft.case.at = Some(sender);
    let last = if sender == End::Target { 1 } else { 2 };
    let (at, length) = (draft.between(300, 800), draft.scaled(400, 1200));
    let replace = format!(
        "ip neigh replace 198.18.0.{last} lladdr 02:00:00:00:00:77 dev eth0\n\
         six ip neigh replace 2001:2:0:0::{last} lladdr 02:00:00:00:00:77 dev eth0"
    );
    let forget = format!("for one in 198.18.0.{last} 2001:2:0:0::{last}; do ip neigh del $one dev eth0 || true; done");
    draft.after(at, What::Shell(sender.into(), replace));
    draft.after(at + length, What::Shell(sender.into(), forget));
    draft.say(format!("the {sender} sends to a wrong hardware address for {length} ms"));
    let receiver = other(sender);
    // Frames for another are seen by the interface and by no stack: OtherHost drops have no counter of their own.
    draft.witness(receiver, "cat /proc/self/net/dev | awk '/eth0:/ {print $3}'", 30, "frames");
}
