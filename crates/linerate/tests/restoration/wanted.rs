//! What a random campaign asks for: settings of both ends, valid and refused, by any of their names.
//! Knows the whole table of settings, and no world.

use linerate_machine::setting::SETTINGS;

use crate::machines::chance::Chance;

/// A setting of one end, with its levels: one is an option, several are a factor.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// `target` or `host`.
    pub end: &'static str,
    /// Of docs/settings.md.
    pub name: String,
    /// Text as a plan has it.
    pub levels: Vec<String>,
}

/// What the generator knows of sysctls: name and value in a fresh namespace.
pub type Sysctls = [(String, String)];

/// Values of settings, by the name in the table; a `*` in the name stands for one of the words after it. What has a `!`
/// is refused by most worlds, and comes seldom: a refusal must leave nothing behind, but ends its trial.
const VALUES: &[(&str, &[&str], &[&str])] = &[
    ("mtu", &[], &["1400", "9000", "1280", "1500", "65535", "60000", "!1279", "!1000", "!68", "!67"]),
    ("gso_max_size", &[], &["4K", "32768", "65536", "!524280"]),
    ("gso_ipv4_max_size", &[], &["8K", "65536"]),
    ("queue_length", &[], &["0", "1", "500", "1000", "!4294967295"]),
    (
        "qdisc",
        &[],
        &[
            "pfifo limit 100",
            "bfifo limit 64K",
            "tbf rate 300M burst 64K limit 256K",
            "mq",
            "noqueue",
            "default",
            "pfifo_fast",
            "!fq",
            "!fq_codel",
        ],
    ),
    ("rx_checksum", &[], SWITCH),
    ("tx_checksum", &[], SWITCH),
    ("sg", &[], SWITCH),
    ("tso", &[], &["on", "off", "only:tx-tcp-segmentation"]),
    ("gso", &[], SWITCH),
    ("udp_segmentation", &[], SWITCH),
    ("gro", &[], SWITCH),
    ("gro_hw", &[], &["!on", "!off"]),
    ("gro_list", &[], SWITCH),
    ("udp_gro_forwarding", &[], SWITCH),
    ("lro", &[], &["!on", "!off"]),
    (
        "feature.*",
        &[
            "rx-gro",
            "rx-gro-list",
            "tx-tcp-segmentation",
            "tx-tcp6-segmentation",
            "tx-scatter-gather",
            "tx-checksum-ip-generic",
            "tx-generic-segmentation",
            "tx-udp-segmentation",
            "tx-vlan-hw-insert",
            "!highdma",
            "!no-such-feature",
        ],
        SWITCH,
    ),
    ("coalesce.rx_usecs", &[], &["!10"]),
    ("coalesce.rx_frames", &[], &["!10"]),
    ("coalesce.tx_usecs", &[], &["!10"]),
    ("coalesce.tx_frames", &[], &["!10"]),
    ("coalesce.rx_usecs_irq", &[], &["!10"]),
    ("coalesce.rx_frames_irq", &[], &["!10"]),
    ("coalesce.tx_usecs_irq", &[], &["!10"]),
    ("coalesce.tx_frames_irq", &[], &["!10"]),
    ("coalesce.adaptive_rx", &[], SWITCH),
    ("coalesce.adaptive_tx", &[], SWITCH),
    ("ring.rx", &[], &["!256"]),
    ("ring.tx", &[], &["!256"]),
    ("channels.rx", &[], &["1", "2", "3", "4", "!5", "!0"]),
    ("channels.tx", &[], &["1", "2", "3", "4", "!5", "!0"]),
    ("channels.combined", &[], &["!2"]),
    ("pause.autoneg", &[], &["!on", "!off"]),
    ("pause.rx", &[], &["!on", "!off"]),
    ("pause.tx", &[], &["!on", "!off"]),
    ("speed", &[], &["!100"]),
    ("duplex", &[], &["!half"]),
    ("autoneg", &[], &["!on", "!off"]),
    ("eee", &[], &["!on", "!off"]),
    ("irq_affinity.*", &["all", "40", "41", "!42"], CPUS),
    ("rps.*", &["all", "0", "1", "3", "!9"], CPUS),
    ("xps.*", &["all", "0", "1", "3", "!9"], CPUS),
    ("bql.limit_max", &[], &["3028", "0=1514 1=100000", "0"]),
    ("rfs.rps_flow_cnt", &[], &["0", "64", "100", "0=32 1=64", "4096"]),
    ("rfs.rps_sock_flow_entries", &[], &["!1024"]),
    ("napi.threaded", &[], SWITCH),
    ("gro_flush_timeout", &[], &["0", "20us", "1ms"]),
    ("napi_defer_hard_irqs", &[], &["0", "2", "99"]),
    ("busy_poll", &[], &["!50"]),
    ("busy_read", &[], &["!50"]),
    ("governor", &[], &["performance", "powersave", "0=performance", "1=powersave 0=schedutil", "!turbo"]),
    ("cpuidle.max_latency_us", &[], &["20", "0", "unlimited", "0=7", "1=unlimited"]),
    ("cpuidle.state.*", &["0", "1", "!7"], &["on", "off", "0=off", "1=on"]),
    ("receiver_scheduling", &[], &["other", "nice:5"]),
    ("custom.*", &["word", "number"], &["one", "2", "33"]),
    // Chosen among those that the kernel has, with values made from what they are.
    ("sysctl.*", &[], &[]),
    // A machine is not booted for this.
    ("boot", &[], &[]),
];

const SWITCH: &[&str] = &["on", "off"];
const CPUS: &[&str] = &["0", "1", "0-1", "none", "!0=0 1=1"];

/// Sysctls that say one thing together with a setting, or with each other.
const RELATED: [(&str, &[&str]); 9] = [
    ("net.ipv6.conf.eth0.mtu", &["1280", "1400", "1500", "9000"]),
    ("net.ipv6.conf.eth0.disable_ipv6", &["0", "!1"]),
    ("net.ipv6.conf.all.disable_ipv6", &["0", "!1"]),
    ("net.ipv6.conf.default.disable_ipv6", &["0", "1"]),
    ("net.ipv4.ip_forward", &["0", "!1"]),
    ("net.ipv4.conf.eth0.forwarding", &["0", "1"]),
    ("net.ipv6.conf.eth0.forwarding", &["0", "1"]),
    ("net.core.busy_poll", &["!50"]),
    ("net.ipv4.route.flush", &["!1"]),
];

/// Settings that are likely to hang together, or to belong to the whole machine: chosen more often.
const OFTEN: [&str; 12] = [
    "mtu",
    "channels.rx",
    "channels.tx",
    "rps.*",
    "xps.*",
    "governor",
    "cpuidle.max_latency_us",
    "irq_affinity.*",
    "custom.*",
    "custom.*",
    "sysctl.*",
    "tso",
];

/// What the host may be asked for in the machine's own namespace, which is everybody's: what harms nobody.
const OUTSIDE: [(&str, &[&str]); 9] = [
    ("busy_poll", &["0", "50", "7"]),
    ("busy_read", &["0", "50"]),
    ("sysctl.net.core.busy_poll", &["0", "33"]),
    ("sysctl.net.core.busy_read", &["0", "33"]),
    ("rfs.rps_sock_flow_entries", &["0", "1024", "1000"]),
    ("sysctl.net.core.rps_sock_flow_entries", &["0", "512"]),
    ("mtu", &["1400", "9000"]),
    ("gro", SWITCH),
    ("rps.all", &["0", "0-1"]),
];

/// Instead of what the host is asked for, what it may be asked for in the machine's own namespace.
pub fn outside(chance: &mut Chance, wanted: &mut Vec<Wanted>) {
    wanted.retain(|one| one.end != "host");
    for _ in 0..1 + chance.below(3) {
        let (name, values) = *chance.of(&OUTSIDE);
        if !wanted.iter().any(|one| one.end == "host" && one.name == name) {
            let level = (*chance.of::<&str>(values)).to_owned();
            wanted.push(Wanted { end: "host", name: name.to_owned(), levels: vec![level] });
        }
    }
}

/// Every setting of the table can be chosen.
pub fn check_table() {
    let here: Vec<&str> = VALUES.iter().map(|(name, ..)| *name).collect();
    for setting in SETTINGS {
        assert!(here.contains(&setting.name), "{} is a setting, and no random campaign asks for it", setting.name);
    }
}

/// Settings for a campaign, at most six trials of them.
pub fn settings(chance: &mut Chance, sysctls: &Sysctls) -> Vec<Wanted> {
    // Names of one thing in one plan are to be refused, so that most plans have one each.
    let may_overlap = chance.one_in(4);
    let mut wanted: Vec<Wanted> = Vec::new();
    let mut trials = 1;
    for _ in 0..1 + chance.below(7) {
        let end = *chance.of(&["target", "host"]);
        let (name, values) = setting(chance, sysctls);
        let is_there = |one: &Wanted| {
            let same = if may_overlap { one.name == name } else { thing(&one.name) == thing(&name) };
            one.end == end && same
        };
        if values.is_empty() || wanted.iter().any(is_there) {
            continue;
        }
        let mut levels = vec![chance.of(&values).clone()];
        while trials * (levels.len() + 1) <= 6 && chance.one_in(3) {
            let level = chance.of(&values).clone();
            if !levels.contains(&level) {
                levels.push(level);
            }
        }
        trials *= levels.len();
        wanted.push(Wanted { end, name, levels });
        // The other end wants the same, which for the whole machine's settings is the same thing.
        if chance.one_in(7) {
            let other = if end == "target" { "host" } else { "target" };
            let mut same = wanted[wanted.len() - 1].clone();
            if !wanted.iter().any(|one| one.end == other && thing(&one.name) == thing(&same.name)) {
                same.end = other;
                same.levels = vec![chance.of(&values).clone()];
                wanted.push(same);
            }
        }
    }
    wanted
}

/// What several names may stand for.
fn thing(name: &str) -> &str {
    let features = [
        "rx_checksum",
        "tx_checksum",
        "sg",
        "tso",
        "gso",
        "udp_segmentation",
        "gro",
        "gro_hw",
        "gro_list",
        "udp_gro_forwarding",
        "lro",
    ];
    match name {
        _ if features.contains(&name) || name.starts_with("feature.") => "features",
        _ if name.starts_with("rps.") => "rps",
        _ if name.starts_with("xps.") => "xps",
        _ if name.starts_with("irq_affinity.") => "irq_affinity",
        "busy_poll" => "sysctl.net.core.busy_poll",
        _ => name,
    }
}

fn setting(chance: &mut Chance, sysctls: &Sysctls) -> (String, Vec<String>) {
    let name = if chance.one_in(2) { *chance.of(&OFTEN) } else { chance.of(VALUES).0 };
    let (_, words, values) = VALUES.iter().find(|(known, ..)| *known == name).expect("it is in the table");
    if name == "sysctl.*" {
        return sysctl(chance, sysctls);
    }
    let words = likely(chance, words);
    let name = if words.is_empty() { name.to_owned() } else { name.replace('*', chance.of::<String>(&words)) };
    (name, likely(chance, values))
}

/// Mostly those that are not refused.
fn likely(chance: &mut Chance, words: &[&str]) -> Vec<String> {
    let refused_too = chance.one_in(12);
    let words = words.iter().filter(|word| refused_too || !word.starts_with('!'));
    words.map(|word| word.trim_start_matches('!').to_owned()).collect()
}

fn sysctl(chance: &mut Chance, sysctls: &Sysctls) -> (String, Vec<String>) {
    if chance.one_in(3) {
        let (name, values) = chance.of(&RELATED);
        return (format!("sysctl.{name}"), likely(chance, values));
    }
    let (name, now) = chance.of(sysctls);
    let words: Vec<&str> = now.split_whitespace().collect();
    let like = |change: fn(i64) -> i64| {
        let word = |word: &&str| word.parse::<i64>().map_or_else(|_| (*word).to_owned(), |n| change(n).to_string());
        words.iter().map(word).collect::<Vec<_>>().join(" ")
    };
    // Most are switches, or numbers whose neighbours are as good.
    let mut values = vec![like(|n| i64::from(n == 0)), like(|n| n + 1), like(|n| n.saturating_mul(2))];
    if chance.one_in(6) {
        values.push(like(|_| -1));
    }
    (format!("sysctl.{name}"), values)
}
