//! The settings of a machine by name: one table, and how the text of a value must look.
//! Knows no machine; whether one has a setting, and what it makes of a value, is found out there.

use crate::options::nearest;
use discipline::BadDiscipline;
use overlap::Thing;
pub use scheduling::Scheduling;
use syntax::{OfEach, Syntax};

pub mod discipline;
pub mod overlap;
mod scheduling;
pub mod syntax;

/// One setting, or a family of them, as help texts and error messages show it.
#[derive(Clone, Copy, Debug)]
pub struct SettingInfo {
    /// As people write it after `target.` or `host.`; a `*` at the end stands for more of the name.
    pub name: &'static str,
    /// What may stand there.
    pub allowed: &'static str,
    /// What it does, in one line.
    pub about: &'static str,
    /// A change may cut the link over which it was asked for: the machine must undo it by itself unless told not to.
    pub may_cut_link: bool,
    /// What a change costs, from 0, a write to a file, to 9, a reboot. Dear factors change least often.
    pub dear: u8,
    /// Settings with the same word here are one request to the driver, which may take them only together.
    pub request: Option<&'static str>,
    thing: Thing,
    syntax: Syntax,
}

impl SettingInfo {
    const fn new(name: &'static str, syntax: Syntax, allowed: &'static str, about: &'static str) -> SettingInfo {
        SettingInfo {
            name,
            allowed,
            about,
            may_cut_link: false,
            dear: 0,
            request: None,
            thing: Thing::OfItsName,
            syntax,
        }
    }

    const fn in_request(self, request: &'static str) -> SettingInfo {
        SettingInfo { request: Some(request), ..self }
    }

    const fn is(self, thing: Thing) -> SettingInfo {
        SettingInfo { thing, ..self }
    }

    /// The kernel's names of the features that it stands for; a `*` is any part of a name ([`overlap::covers`]).
    pub fn features(&self) -> Option<&'static str> {
        match self.thing {
            Thing::Features(pattern) => Some(pattern),
            _ => None,
        }
    }

    /// The sysctl that it is another name for.
    pub fn sysctl(&self) -> Option<&'static str> {
        match self.thing {
            Thing::Sysctl(name) => Some(name),
            _ => None,
        }
    }

    const fn dear(self, dear: u8) -> SettingInfo {
        SettingInfo { dear, ..self }
    }

    const fn cuts(self) -> SettingInfo {
        SettingInfo { may_cut_link: true, ..self }
    }

    /// Whether its value is a list of CPUs, which has commas.
    pub fn is_cpus(&self) -> bool {
        self.syntax == Syntax::CpusOfEach
    }

    /// What stands where the name has its `*`; `None` for another setting's name, or nothing there.
    pub fn rest_of<'a>(&self, name: &'a str) -> Option<&'a str> {
        let rest = name.strip_prefix(self.name.strip_suffix('*')?)?;
        (!rest.is_empty()).then_some(rest)
    }
}

const ON_OFF: &str = "on | off";
const NUMBER: &str = "a whole number";
const CPUS: &str = "CPUs like 0 or 0-3,8, or none";
const MICROSECONDS: &str = "microseconds, without a unit";
const FRAMES: &str = "a number of frames";
const ANY: Syntax = Syntax::Number { least: 0, most: u32::MAX as u64 };

const fn info(name: &'static str, syntax: Syntax, allowed: &'static str, about: &'static str) -> SettingInfo {
    SettingInfo::new(name, syntax, allowed, about)
}

/// The setting that is reached by booting the machine, which is the controller's business and no agent's.
pub const BOOT: &str = "boot";

/// The setting of the agent's own threads, which end with their trial.
pub const RECEIVER_SCHEDULING: &str = "receiver_scheduling";

/// `speed`, `duplex` and `autoneg` are three views of this.
const LINK_MODES: Thing =
    Thing::One("the modes that the link offers; write both in one, as 'forced 100 full' or 'advertise 100baseT/Full'");

/// Every setting there is, in the order in which help texts and docs/settings.md show them.
pub const SETTINGS: &[SettingInfo] = &[
    info("mtu", Syntax::Size { most: 65_536 }, "octets like 1500 or 9000", "the largest packet of the interface")
        .dear(2)
        .cuts(),
    info(
        "queue_length",
        ANY,
        "a number of packets",
        "what the qdisc may hold unless it is told otherwise (txqueuelen)",
    ),
    info(
        "qdisc",
        Syntax::Discipline,
        "default | noqueue | pfifo_fast | mq | pfifo | bfifo | fq | fq_codel | tbf, with parameters as in 'tbf rate \
         100M burst 32K limit 64K'",
        "the queueing discipline at the root of the interface",
    )
    .dear(1)
    .cuts(),
    info("rx_checksum", Syntax::Feature, ON_OFF, "the MAC checks what arrives").is(Thing::Features("rx-checksum")),
    info("tx_checksum", Syntax::Feature, ON_OFF, "the MAC fills checksums in").is(Thing::Features("tx-checksum-*")),
    info("sg", Syntax::Feature, ON_OFF, "scatter-gather: a packet may lie in several pieces of memory")
        .is(Thing::Features("tx-scatter-gather*")),
    info("tso", Syntax::Feature, ON_OFF, "the MAC cuts TCP into segments").is(Thing::Features("tx-tcp*-segmentation")),
    info("gso", Syntax::Feature, ON_OFF, "the stack cuts segments as late as it can")
        .is(Thing::Features("tx-generic-segmentation")),
    info("udp_segmentation", Syntax::Feature, ON_OFF, "the MAC cuts UDP into datagrams (UDP_SEGMENT)")
        .is(Thing::Features("tx-udp-segmentation")),
    info("gro", Syntax::Feature, ON_OFF, "the stack joins what arrives before it goes up")
        .is(Thing::Features("rx-gro")),
    info("gro_hw", Syntax::Feature, ON_OFF, "the MAC joins what arrives, as GRO would")
        .cuts()
        .is(Thing::Features("rx-gro-hw")),
    info("gro_list", Syntax::Feature, ON_OFF, "GRO by lists of packets, for forwarding")
        .is(Thing::Features("rx-gro-list")),
    info("udp_gro_forwarding", Syntax::Feature, ON_OFF, "GRO of UDP that is forwarded")
        .is(Thing::Features("rx-udp-gro-forwarding")),
    info("lro", Syntax::Feature, ON_OFF, "the MAC joins what arrives, and forgets how it was")
        .cuts()
        .is(Thing::Features("rx-lro")),
    info("feature.*", Syntax::Feature, ON_OFF, "any feature by the kernel's name, as feature.rx-hashing")
        .dear(1)
        .cuts()
        .is(Thing::Feature),
    info("coalesce.rx_usecs", ANY, MICROSECONDS, "how long a received frame may wait for its interrupt")
        .in_request("coalesce"),
    info("coalesce.rx_frames", ANY, FRAMES, "how many received frames may wait for an interrupt")
        .in_request("coalesce"),
    info("coalesce.tx_usecs", ANY, MICROSECONDS, "how long a sent frame may wait for its interrupt")
        .in_request("coalesce"),
    info("coalesce.tx_frames", ANY, FRAMES, "how many sent frames may wait for an interrupt").in_request("coalesce"),
    info("coalesce.rx_usecs_irq", ANY, MICROSECONDS, "rx_usecs while an interrupt is being served")
        .in_request("coalesce"),
    info("coalesce.rx_frames_irq", ANY, FRAMES, "rx_frames while an interrupt is being served").in_request("coalesce"),
    info("coalesce.tx_usecs_irq", ANY, MICROSECONDS, "tx_usecs while an interrupt is being served")
        .in_request("coalesce"),
    info("coalesce.tx_frames_irq", ANY, FRAMES, "tx_frames while an interrupt is being served").in_request("coalesce"),
    info("coalesce.adaptive_rx", Syntax::Switch, ON_OFF, "the driver chooses rx_usecs by the load")
        .in_request("coalesce"),
    info("coalesce.adaptive_tx", Syntax::Switch, ON_OFF, "the driver chooses tx_usecs by the load")
        .in_request("coalesce"),
    info("ring.rx", ANY, FRAMES, "descriptors of the receive ring").dear(3).cuts().in_request("ring"),
    info("ring.tx", ANY, FRAMES, "descriptors of the transmit ring").dear(3).cuts().in_request("ring"),
    info("channels.rx", ANY, NUMBER, "queues that only receive").dear(3).cuts().in_request("channels"),
    info("channels.tx", ANY, NUMBER, "queues that only send").dear(3).cuts().in_request("channels"),
    info("channels.combined", ANY, NUMBER, "queues that do both").dear(3).cuts().in_request("channels"),
    info("pause.autoneg", Syntax::Switch, ON_OFF, "pause frames as both ends of the cable agree")
        .dear(4)
        .cuts()
        .in_request("pause"),
    info("pause.rx", Syntax::Switch, ON_OFF, "obey pause frames").dear(4).cuts().in_request("pause"),
    info("pause.tx", Syntax::Switch, ON_OFF, "send pause frames").dear(4).cuts().in_request("pause"),
    info(
        "speed",
        Syntax::Speed,
        "auto | Mbit/s like 100 | forced 100 full | advertise 100baseT/Full+1000baseT/Full",
        "the speeds that are offered to the other end of the cable, or one without asking it",
    )
    .dear(5)
    .cuts()
    .is(LINK_MODES),
    info("duplex", Syntax::Duplex, "auto | half | full, or as speed", "the duplex modes that are offered")
        .dear(5)
        .cuts()
        .is(LINK_MODES),
    info(
        "autoneg",
        Syntax::Autoneg,
        "on | off, or as speed",
        "whether both ends of the cable agree on speed and duplex",
    )
    .dear(5)
    .cuts()
    .is(LINK_MODES),
    info("eee", Syntax::Switch, ON_OFF, "Energy-Efficient Ethernet: the PHY sleeps between packets").dear(5).cuts(),
    info(
        "irq_affinity.*",
        Syntax::CpusOfEach,
        CPUS,
        "CPUs that an interrupt of the interface goes to; by number, or all",
    )
    .is(Thing::OneOrAll),
    info("rps.*", Syntax::CpusOfEach, CPUS, "CPUs that packets of a receive queue are spread over; by number, or all")
        .is(Thing::OneOrAll),
    info("xps.*", Syntax::CpusOfEach, CPUS, "CPUs that use a transmit queue; by number, or all").is(Thing::OneOrAll),
    info("rfs.rps_flow_cnt", Syntax::NumberOfEach, NUMBER, "flows that a receive queue remembers the CPU of"),
    info("rfs.rps_sock_flow_entries", ANY, NUMBER, "flows of the machine whose application's CPU is remembered")
        .is(Thing::Sysctl("net.core.rps_sock_flow_entries")),
    info("napi.threaded", Syntax::Switch, ON_OFF, "a thread polls the interface, not a softirq"),
    info(
        "gro_flush_timeout",
        Syntax::Time,
        "a time with its unit, like 20us, or 0",
        "how long GRO may keep packets, and interrupts may stay off",
    ),
    info("napi_defer_hard_irqs", ANY, NUMBER, "empty polls before interrupts are enabled again"),
    info("busy_poll", ANY, MICROSECONDS, "how long poll and select look at the NIC (net.core.busy_poll)")
        .is(Thing::Sysctl("net.core.busy_poll")),
    info("busy_read", ANY, MICROSECONDS, "how long a socket read looks at the NIC (net.core.busy_read)")
        .is(Thing::Sysctl("net.core.busy_read")),
    info("governor", Syntax::NameOfEach, "a name like performance", "who chooses the CPUs' frequency"),
    info(
        "cpuidle.max_latency_us",
        Syntax::LimitOfEach,
        "microseconds without a unit, or unlimited",
        "CPUs use no idle state that takes longer to leave",
    ),
    info("cpuidle.state.*", Syntax::SwitchOfEach, ON_OFF, "one idle state of all CPUs, by number"),
    info(
        RECEIVER_SCHEDULING,
        Syntax::Scheduling,
        "other | nice:-20 to nice:19 | fifo:1 to fifo:99 | rr:1 to rr:99",
        "scheduling class and priority of the agent's receiving threads",
    ),
    info(
        "sysctl.*",
        Syntax::Sysctl,
        "what the kernel takes; sizes like 16M too",
        "any sysctl of net.core, net.ipv4 and net.ipv6, as sysctl.net.core.rmem_max",
    )
    .cuts()
    .is(Thing::AnySysctl),
    info("custom.*", Syntax::Text, "what its command or file takes", "a setting that the plan defines").dear(5).cuts(),
    info(
        BOOT,
        Syntax::Name,
        "a name that the plan defines as [boot.NAME]",
        "what the machine is booted as: a kernel, a driver",
    )
    .dear(9)
    .cuts(),
];

/// The table's entry for a setting.
pub fn find(name: &str) -> Result<&'static SettingInfo, BadSetting> {
    let bad = |why| BadSetting { name: name.to_owned(), why };
    let found = SETTINGS.iter().find(|setting| setting.name == name && !name.ends_with('*'));
    match found.or_else(|| SETTINGS.iter().find(|setting| setting.rest_of(name).is_some())) {
        Some(found) => syntax::check_name(found, name).map(|()| found).map_err(bad),
        None => Err(bad(WhyBad::Unknown)),
    }
}

/// Why a setting was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name}: {}", self.complaint())]
pub struct BadSetting {
    /// Its name.
    pub name: String,
    /// What is wrong.
    pub why: WhyBad,
}

/// What is wrong with a setting's name or value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WhyBad {
    /// There is none of this name.
    Unknown,
    /// One of the user's own, which the plan does not define.
    Undefined,
    /// A sysctl outside the trees that are known.
    OutsideTrees,
    /// It wants the number of one of several, or `all` where that is possible.
    NoNumber,
    /// What stands for the `*` of its family is no name.
    NoName,
    /// This is not allowed; that is.
    Value(String, &'static str),
    /// A value has one line.
    Lines,
    /// A time without a unit.
    NoUnit(String),
    /// It is no queueing discipline, for this reason.
    Discipline(BadDiscipline),
}

impl BadSetting {
    /// What is wrong, without the setting's name.
    pub fn complaint(&self) -> String {
        let name = &self.name;
        match &self.why {
            WhyBad::Unknown => format!("there is no setting '{name}'; {}", hint(name)),
            WhyBad::Undefined => {
                format!("the plan does not define {name}; give it a [{name}] with get and set, or a file")
            }
            WhyBad::OutsideTrees => {
                format!("there is no setting '{name}'; of sysctls there are net.core, net.ipv4 and net.ipv6")
            }
            WhyBad::NoNumber => {
                format!("'{name}' needs a number at its end, as in 'cpuidle.state.1', or 'all', as in 'rps.all'")
            }
            WhyBad::NoName => format!("'{name}' is no name of a setting; docs/settings.md says how they look"),
            WhyBad::Value(text, allowed) => format!("'{text}' is not allowed; write {allowed}"),
            WhyBad::Lines => "a value is one line".to_owned(),
            WhyBad::NoUnit(text) => format!("'{text}' may be anything; write its unit, as in 20us"),
            WhyBad::Discipline(why) => why.to_string(),
        }
    }
}

/// The nearest names. Half a name is a question: `coalesce` asks what there is of it.
fn hint(name: &str) -> String {
    let below = |setting: &&SettingInfo| {
        setting.name.strip_prefix(name.trim_end_matches(['.', '*'])).is_some_and(|rest| rest.starts_with('.'))
    };
    let of_family: Vec<&str> = SETTINGS.iter().filter(below).map(|setting| setting.name).collect();
    match (nearest(name, SETTINGS.iter().map(|setting| setting.name)), of_family.as_slice()) {
        (_, [_, ..]) => format!("there are {}", of_family.join(", ")),
        (Some(near), _) => format!("did you mean '{near}'?"),
        (None, _) => "docs/settings.md lists them all".to_owned(),
    }
}

/// The value as a machine tells it when it has taken it.
pub fn canonical(name: &str, text: &str) -> Result<String, BadSetting> {
    let setting = find(name)?;
    let text = text.trim();
    syntax::canonical(setting.syntax, text).map_err(|why| BadSetting {
        name: name.to_owned(),
        why: why.unwrap_or_else(|| WhyBad::Value(text.to_owned(), setting.allowed)),
    })
}

/// Whether a machine is as this value would make it, so that there is nothing to write. More than the same text:
/// `autoneg` that is `off` reads as the speed that is forced, because that is what it takes to put it back; and of
/// several things, those that are not named stay as they are.
pub fn stands(name: &str, value: &str, now: &str) -> bool {
    let Ok(value) = canonical(name, value) else { return false };
    let is_of_each = || find(name).is_ok_and(|found| found.syntax.is_of_each());
    value == now
        || (name == "autoneg" && value == "off" && now.starts_with("forced "))
        || (is_of_each()
            && OfEach::parse(&value).zip(OfEach::parse(now)).is_some_and(|(value, now)| now.has_all_of(&value)))
}

/// Whether what a machine tells is what it was asked for: it [stands](stands), or differs in what the machine chooses.
pub fn agrees(name: &str, asked: &str, read_back: &str) -> bool {
    if stands(name, asked, read_back) {
        return true;
    }
    let forced = read_back.strip_prefix("forced ");
    match (name, canonical(name, asked).as_deref()) {
        ("duplex", Ok(duplex @ ("half" | "full"))) => {
            forced.is_some_and(|of| of.strip_suffix(duplex).is_some_and(|speed| speed.ends_with(' ')))
        }
        // Parameters that were not asked for are the kernel's choice.
        ("qdisc", Ok(asked)) => discipline::Discipline::parse(asked)
            .is_ok_and(|asked| discipline::Discipline::parse(read_back).is_ok_and(|read| read.has_all_of(&asked))),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever somebody writes is refused in one line, or has one form, which stays as it is.
        #[test]
        fn nonsense_is_refused_and_sense_is_stable(
            at in 0..SETTINGS.len(),
            end in "(net[.]core[.])?[a-z0-9./-]{0,12}|all|[0-9]{1,3}",
            text in "(on|off|auto|none|unlimited|only:|forced |advertise |tbf |fq |limit |rate |[0-9]{1,6}|[0-9]+=|[KMGa-z/+,. -]|\\PC){0,8}",
        ) {
            let name = SETTINGS[at].name.replace('*', &end);
            match canonical(&name, &text) {
                Ok(once) => {
                    prop_assert_eq!(canonical(&name, &once), Ok(once.clone()));
                    prop_assert!(agrees(&name, &text, &once));
                }
                Err(error) => prop_assert!(error.to_string().lines().count() == 1),
            }
        }

        #[test]
        fn any_name_is_found_or_not(name in "\\PC{0,20}") {
            if let Err(complaint) = find(&name) {
                prop_assert!(complaint.to_string().contains(&name));
            }
        }
    }

    #[track_caller]
    fn check(name: &str, text: &str, want: &str) {
        assert_eq!(canonical(name, text).as_deref(), Ok(want));
        assert_eq!(canonical(name, want).as_deref(), Ok(want), "what is written is read back");
        assert!(agrees(name, text, want));
    }

    #[track_caller]
    fn check_refused(name: &str, text: &str, contains: &str) {
        let complaint = canonical(name, text).unwrap_err();
        assert!(complaint.to_string().contains(contains), "{complaint}");
    }

    #[test]
    fn values_are_written_in_one_way() {
        check("mtu", "9000", "9000");
        check("mtu", "9K", "9216");
        check("gro", "true", "on");
        check("tso", "no", "off");
        check("tso", "only:tx-tcp6-segmentation+tx-tcp-segmentation", "only:tx-tcp-segmentation+tx-tcp6-segmentation");
        check("gso", "off (wanted)", "off (wanted)");
        check("coalesce.rx_usecs", "008", "8");
        check("speed", "100", "100");
        check("speed", "1000M", "1000");
        check("speed", "1G", "1000");
        check("speed", "forced 100 half", "forced 100 half");
        check("duplex", "half", "half");
        check("autoneg", "off", "off");
        check("autoneg", "advertise 1000baseT/Full+100baseT/Full", "advertise 100baseT/Full+1000baseT/Full");
        check("irq_affinity.all", "3,0,1", "0-1,3");
        check("irq_affinity.40", "none", "none");
        check("rps.all", "1=none 0=0-1", "0=0-1 1=none");
        check("rfs.rps_flow_cnt", "4096", "4096");
        check("gro_flush_timeout", "20000ns", "20us");
        check("gro_flush_timeout", "0", "0s");
        check("governor", "1=powersave 0=performance", "0=performance 1=powersave");
        check("cpuidle.max_latency_us", "unlimited", "unlimited");
        check("cpuidle.state.1", "off", "off");
        check("receiver_scheduling", "fifo:50", "fifo:50");
        check("receiver_scheduling", "rr:05", "rr:5");
        check("receiver_scheduling", "nice:-5", "nice:-5");
        check("receiver_scheduling", "nice:0", "other");
        check("sysctl.net.core.rmem_max", "16M", "16777216");
        check("sysctl.net.ipv4.tcp_rmem", " 4096\t64K  6291456 ", "4096 65536 6291456");
        check("sysctl.net.ipv4.tcp_congestion_control", "bbr", "bbr");
        check("custom.turbo", "as it  likes", "as it  likes");
        check("boot", "mainline-6.6", "mainline-6.6");
    }

    #[test]
    fn complaints_say_what_is_allowed() {
        check_refused("mtu", "70000", "write octets like 1500");
        check_refused("gro", "maybe", "gro: 'maybe' is not allowed; write on | off");
        check_refused("coalesce.rx_usecs", "20us", "microseconds, without a unit");
        check_refused("coalesce.rx_usecs", "-1", "not allowed");
        check_refused("gro_flush_timeout", "20000", "write its unit");
        check_refused("irq_affinity.all", "0-", "CPUs like");
        check_refused("irq_affinity.all", "5-2", "CPUs like");
        check_refused("irq_affinity.all", "0=none 0=1", "not allowed");
        check_refused("rps.all", "99999", "CPUs like");
        check_refused("speed", "fast", "Mbit/s like 100");
        check_refused("speed", "forced 0 full", "Mbit/s like 100");
        check_refused("receiver_scheduling", "fifo:100", "fifo:99");
        check_refused("receiver_scheduling", "fifo:-1", "fifo:99");
        check_refused("receiver_scheduling", "nice:20", "nice:19");
        check_refused("sysctl.net.core.rmem_max", "1\n2", "one line");
        check_refused("sysctl.net.core.rmem_max", "", "not allowed");
        check_refused("governor", "../x", "a name");
        check_refused("boot", "two words", "[boot.NAME]");
    }

    #[track_caller]
    fn check_name(name: &str, complaint: &str) {
        let got = find(name).unwrap_err().to_string();
        assert!(got.contains(complaint), "{got}");
    }

    #[test]
    fn names_that_are_not_there_have_neighbours() {
        check_name("mtuu", "did you mean 'mtu'?");
        check_name("coalesce", "coalesce.rx_usecs, coalesce.rx_frames");
        check_name("coalesce.rx_usec", "did you mean 'coalesce.rx_usecs'?");
        check_name("colour_of_the_cable", "docs/settings.md");
        check_name("sysctl.kernel.panic", "net.core, net.ipv4 and net.ipv6");
        check_name("sysctl.net.ipv4.../x", "is no name");
        check_name("sysctl.net.core.a/../../b", "is no name");
        check_name("sysctl.net.core", "net.core, net.ipv4");
        check_name("irq_affinity.*", "number");
        check_name("irq_affinity.-1", "number");
        check_name("rps.eth0", "number");
        check_name("cpuidle.state.all", "number");
        check_name("feature.a/b", "is no name");
        check_name("custom.", "custom");
        check_name("", "there is no setting");
    }

    #[test]
    fn every_name_of_the_table_is_found_once() {
        for setting in SETTINGS {
            let name = match setting.name {
                "sysctl.*" => "sysctl.net.core.rmem_max".to_owned(),
                name => name.replace('*', "1"),
            };
            assert_eq!(find(&name).map(|found| found.name), Ok(setting.name));
            assert!(setting.dear <= 9 && !setting.about.is_empty());
            // Whoever must wait for the link has lost it.
            assert!(setting.dear < 2 || setting.may_cut_link, "{name}");
        }
    }

    #[test]
    fn what_was_taken_agrees_with_what_was_asked() {
        for (name, asked, read, want) in [
            ("mtu", "9K", "9216", true),
            ("mtu", "9000", "8996", false),
            ("tso", "on", "off (wanted)", false),
            ("autoneg", "off", "forced 100 full", true),
            ("autoneg", "off", "on", false),
            ("duplex", "half", "forced 100 half", true),
            ("duplex", "half", "forced 100 full", false),
            ("speed", "forced 100 full", "forced 100 full", true),
            ("qdisc", "fq", "fq limit 500", true),
            ("qdisc", "fq limit 501", "fq limit 500", false),
            ("qdisc", "fq", "pfifo", false),
            ("rps.all", "0=0-1", "0=0-1 1=none", true),
            ("rps.all", "1=0-1", "0=0-1 1=none", false),
            ("rps.all", "0=2", "2", true),
            ("rps.all", "2", "0=2 1=none", false),
            ("nonsense", "1", "1", false),
        ] {
            assert_eq!(agrees(name, asked, read), want, "{name} {asked} {read}");
        }
    }

    #[test]
    fn what_stands_is_not_written_again() {
        for (name, value, now, want) in [
            ("mtu", "9K", "9216", true),
            ("autoneg", "off", "forced 100 full", true),
            ("cpuidle.state.1", "0=off", "0=off 1=on", true),
            // Agrees, and yet would be another: half duplex that is offered, and parameters of the kernel's choice.
            ("duplex", "half", "forced 100 half", false),
            ("qdisc", "fq", "fq limit 500", false),
            ("gro", "off", "off (wanted)", false),
        ] {
            assert_eq!(stands(name, value, now), want, "{name} {value} {now}");
        }
    }

    /// Each entry of the table has a row in the page with its name, whether it cuts the link and its cost, and the page
    /// has no other.
    #[test]
    fn the_documentation_has_the_table() {
        let page = include_str!("../../../docs/settings.md");
        let rows: Vec<Vec<&str>> = page
            .lines()
            .filter(|line| line.starts_with("| `"))
            .map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect())
            // The page's other tables, of two columns, are of what changes with a setting.
            .filter(|row: &Vec<&str>| row.len() > 2)
            .collect();
        for setting in SETTINGS {
            let name = format!("`{}`", setting.name);
            let row = rows.iter().find(|row| row[0] == name);
            let row = row.unwrap_or_else(|| panic!("docs/settings.md does not describe {name}"));
            let cuts = if setting.may_cut_link { "yes" } else { "no" };
            assert_eq!(row[3..5], [cuts, setting.dear.to_string().as_str()], "{name}");
        }
        assert_eq!(rows.len(), SETTINGS.len(), "docs/settings.md has rows of settings that there are not");
    }
}
