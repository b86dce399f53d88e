//! The settings of a machine by name: one table, and how the text of a value must look.
//! Knows no machine; whether one has a setting, and what it makes of a value, is found out there.

use crate::options::nearest;
use discipline::{BadDiscipline, Discipline};
pub use place::DriverRequest;
use place::{Each, Features, Files, Form, Knob, LinkField, Place};
pub use scheduling::Scheduling;
use syntax::{OfEach, Syntax};

pub mod discipline;
pub mod overlap;
pub mod place;
mod scheduling;
pub mod syntax;

/// One setting, or a family of them: its row in the table.
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
    /// Where it is read and written.
    pub place: Place,
    syntax: Syntax,
}

impl SettingInfo {
    const fn dear(self, dear: u8) -> SettingInfo {
        SettingInfo { dear, ..self }
    }

    const fn cuts(self) -> SettingInfo {
        SettingInfo { may_cut_link: true, ..self }
    }

    /// The request to the driver that it is part of, which may take only together what is in it.
    pub fn request(&self) -> Option<DriverRequest> {
        if let Place::Driver(knob) = self.place { Some(knob.request) } else { None }
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

    /// Whether it is a family whose members are things by their numbers, or `all` of them.
    pub fn is_one_or_all(&self) -> bool {
        matches!(self.place, Place::Files(files) if self.name.ends_with('*') && !files.file.contains('*'))
    }

    /// Whether the setting of this name belongs to an interface, and not to the machine.
    pub fn is_of_interface(&self, name: &str) -> bool {
        match self.place {
            Place::Link(_) | Place::Qdisc | Place::LinkModes | Place::Driver(_) | Place::Features(_) => true,
            Place::Files(files) => match files.of {
                Each::RxQueue | Each::TxQueue | Each::Interface => true,
                Each::Interrupt => self.rest_of(name).is_none_or(|which| which.parse::<u32>().is_err()),
                Each::Cpu => false,
            },
            Place::Sysctl(_) | Place::Custom | Place::Elsewhere(_) => false,
        }
    }
}

const ON_OFF: &str = "on | off";
const NUMBER: &str = "a whole number";
const CPUS: &str = "CPUs like 0 or 0-3,8, or none";
const MICROSECONDS: &str = "microseconds, without a unit";
const FRAMES: &str = "a number of frames";
const ANY: Syntax = Syntax::Number { least: 0, most: u32::MAX as u64 };

const fn row(
    name: &'static str,
    place: Place,
    syntax: Syntax,
    allowed: &'static str,
    about: &'static str,
) -> SettingInfo {
    SettingInfo { name, allowed, about, may_cut_link: false, dear: 0, place, syntax }
}

const fn knob(name: &'static str, knob: Knob, allowed: &'static str, about: &'static str) -> SettingInfo {
    let syntax = if knob.is_switch { Syntax::Switch } else { ANY };
    let row = row(name, Place::Driver(knob), syntax, allowed, about);
    match knob.request {
        DriverRequest::Coalesce => row,
        DriverRequest::Rings | DriverRequest::Channels => row.dear(3).cuts(),
        DriverRequest::Pause => row.dear(4).cuts(),
        DriverRequest::Eee => row.dear(5).cuts(),
    }
}

const fn coalesce(name: &'static str, attribute: u16, allowed: &'static str, about: &'static str) -> SettingInfo {
    knob(name, Knob { request: DriverRequest::Coalesce, attribute, most: None, is_switch: false }, allowed, about)
}

const fn switch(name: &'static str, request: DriverRequest, attribute: u16, about: &'static str) -> SettingInfo {
    knob(name, Knob { request, attribute, most: None, is_switch: true }, ON_OFF, about)
}

/// Of which there may be as many as another attribute says.
const fn limited(
    name: &'static str,
    request: DriverRequest,
    (attribute, most): (u16, u16),
    allowed: &'static str,
    about: &'static str,
) -> SettingInfo {
    knob(name, Knob { request, attribute, most: Some(most), is_switch: false }, allowed, about)
}

const fn feature(name: &'static str, pattern: &'static str, older: Option<u32>, about: &'static str) -> SettingInfo {
    row(name, Place::Features(Features { pattern: Some(pattern), older }), Syntax::Feature, ON_OFF, about)
}

const fn files(of: Each, file: &'static str, form: Form) -> Place {
    Place::Files(Files { of, file, form })
}

/// The setting that is reached by booting the machine, which is the controller's business and no agent's.
pub const BOOT: &str = "boot";

/// The setting of the agent's own threads, which end with their trial.
pub const RECEIVER_SCHEDULING: &str = "receiver_scheduling";

/// Every setting there is, in the order in which help texts and docs/settings.md show them.
pub const SETTINGS: &[SettingInfo] = &[
    row(
        "mtu",
        Place::Link(LinkField::Mtu),
        Syntax::Size { most: 65_536 },
        "octets like 1500 or 9000",
        "the largest packet of the interface",
    )
    .dear(2)
    .cuts(),
    row(
        "queue_length",
        Place::Link(LinkField::QueueLength),
        ANY,
        "a number of packets",
        "what the qdisc may hold unless it is told otherwise (txqueuelen)",
    ),
    row(
        "qdisc",
        Place::Qdisc,
        Syntax::Discipline,
        "default | noqueue | pfifo_fast | mq | pfifo | bfifo | fq | fq_codel | tbf, with parameters as in 'tbf rate \
         100M burst 32K limit 64K'",
        "the queueing discipline at the root of the interface",
    )
    .dear(1)
    .cuts(),
    feature("rx_checksum", "rx-checksum", Some(0x14), "the MAC checks what arrives"),
    feature("tx_checksum", "tx-checksum-*", Some(0x16), "the MAC fills checksums in"),
    feature("sg", "tx-scatter-gather*", Some(0x18), "scatter-gather: a packet may lie in several pieces of memory"),
    feature("tso", "tx-tcp*-segmentation", Some(0x1e), "the MAC cuts TCP into segments; not the mangleid ones"),
    feature("gso", "tx-generic-segmentation", Some(0x23), "the stack cuts segments as late as it can"),
    feature("udp_segmentation", "tx-udp-segmentation", None, "the MAC cuts UDP into datagrams (UDP_SEGMENT)"),
    feature("gro", "rx-gro", Some(0x2b), "the stack joins what arrives before it goes up"),
    feature("gro_hw", "rx-gro-hw", None, "the MAC joins what arrives, as GRO would").cuts(),
    feature("gro_list", "rx-gro-list", None, "GRO by lists of packets, for forwarding"),
    feature("udp_gro_forwarding", "rx-udp-gro-forwarding", None, "GRO of UDP that is forwarded"),
    feature("lro", "rx-lro", None, "the MAC joins what arrives, and forgets how it was").cuts(),
    row(
        "feature.*",
        Place::Features(Features { pattern: None, older: None }),
        Syntax::Feature,
        ON_OFF,
        "any feature by the kernel's name, as feature.rx-hashing",
    )
    .dear(1)
    .cuts(),
    coalesce("coalesce.rx_usecs", 2, MICROSECONDS, "how long a received frame may wait for its interrupt"),
    coalesce("coalesce.rx_frames", 3, FRAMES, "how many received frames may wait for an interrupt"),
    coalesce("coalesce.tx_usecs", 6, MICROSECONDS, "how long a sent frame may wait for its interrupt"),
    coalesce("coalesce.tx_frames", 7, FRAMES, "how many sent frames may wait for an interrupt"),
    coalesce("coalesce.rx_usecs_irq", 4, MICROSECONDS, "rx_usecs while an interrupt is being served"),
    coalesce("coalesce.rx_frames_irq", 5, FRAMES, "rx_frames while an interrupt is being served"),
    coalesce("coalesce.tx_usecs_irq", 8, MICROSECONDS, "tx_usecs while an interrupt is being served"),
    coalesce("coalesce.tx_frames_irq", 9, FRAMES, "tx_frames while an interrupt is being served"),
    switch("coalesce.adaptive_rx", DriverRequest::Coalesce, 11, "the driver chooses rx_usecs by the load"),
    switch("coalesce.adaptive_tx", DriverRequest::Coalesce, 12, "the driver chooses tx_usecs by the load"),
    limited("ring.rx", DriverRequest::Rings, (6, 2), FRAMES, "descriptors of the receive ring"),
    limited("ring.tx", DriverRequest::Rings, (9, 5), FRAMES, "descriptors of the transmit ring"),
    limited("channels.rx", DriverRequest::Channels, (6, 2), NUMBER, "queues that only receive"),
    limited("channels.tx", DriverRequest::Channels, (7, 3), NUMBER, "queues that only send"),
    limited("channels.combined", DriverRequest::Channels, (9, 5), NUMBER, "queues that do both"),
    switch("pause.autoneg", DriverRequest::Pause, 2, "pause frames as both ends of the cable agree"),
    switch("pause.rx", DriverRequest::Pause, 3, "obey pause frames"),
    switch("pause.tx", DriverRequest::Pause, 4, "send pause frames"),
    row(
        "speed",
        Place::LinkModes,
        Syntax::Speed,
        "auto | Mbit/s like 100 | forced 100 full | advertise 100baseT/Full+1000baseT/Full",
        "the speeds that are offered to the other end of the cable, or one without asking it",
    )
    .dear(5)
    .cuts(),
    row(
        "duplex",
        Place::LinkModes,
        Syntax::Duplex,
        "auto | half | full, or as speed",
        "the duplex modes that are offered",
    )
    .dear(5)
    .cuts(),
    row(
        "autoneg",
        Place::LinkModes,
        Syntax::Autoneg,
        "on | off, or as speed",
        "whether both ends of the cable agree on speed and duplex",
    )
    .dear(5)
    .cuts(),
    switch("eee", DriverRequest::Eee, 5, "Energy-Efficient Ethernet: the PHY sleeps between packets"),
    row(
        "irq_affinity.*",
        files(Each::Interrupt, "smp_affinity_list", Form::List),
        Syntax::CpusOfEach,
        CPUS,
        "CPUs that an interrupt of the interface goes to; by number, or all",
    ),
    row(
        "rps.*",
        files(Each::RxQueue, "rps_cpus", Form::Mask),
        Syntax::CpusOfEach,
        CPUS,
        "CPUs that packets of a receive queue are spread over; by number, or all",
    ),
    row(
        "xps.*",
        files(Each::TxQueue, "xps_cpus", Form::Mask),
        Syntax::CpusOfEach,
        CPUS,
        "CPUs that use a transmit queue; by number, or all",
    ),
    row(
        "rfs.rps_flow_cnt",
        files(Each::RxQueue, "rps_flow_cnt", Form::Number),
        Syntax::NumberOfEach,
        NUMBER,
        "flows that a receive queue remembers the CPU of; rounded up to a power of two",
    ),
    row(
        "rfs.rps_sock_flow_entries",
        Place::Sysctl(Some("net.core.rps_sock_flow_entries")),
        ANY,
        NUMBER,
        "flows of the machine whose application's CPU is remembered",
    ),
    row(
        "napi.threaded",
        files(Each::Interface, "threaded", Form::Switch),
        Syntax::Switch,
        ON_OFF,
        "a thread polls the interface, not a softirq",
    ),
    row(
        "gro_flush_timeout",
        files(Each::Interface, "gro_flush_timeout", Form::Nanoseconds),
        Syntax::Time,
        "a time with its unit, like 20us, or 0",
        "how long GRO may keep packets, and interrupts may stay off",
    ),
    row(
        "napi_defer_hard_irqs",
        files(Each::Interface, "napi_defer_hard_irqs", Form::Number),
        ANY,
        NUMBER,
        "empty polls before interrupts are enabled again",
    ),
    row(
        "busy_poll",
        Place::Sysctl(Some("net.core.busy_poll")),
        ANY,
        MICROSECONDS,
        "how long poll and select look at the NIC",
    ),
    row(
        "busy_read",
        Place::Sysctl(Some("net.core.busy_read")),
        ANY,
        MICROSECONDS,
        "how long a socket read looks at the NIC",
    ),
    row(
        "governor",
        files(Each::Cpu, "cpufreq/scaling_governor", Form::Word),
        Syntax::NameOfEach,
        "a name like performance",
        "who chooses the CPUs' frequency",
    ),
    row(
        "cpuidle.max_latency_us",
        // Documentation/admin-guide/pm/cpuidle.rst, "Power Management Quality of Service for CPUs".
        files(Each::Cpu, "power/pm_qos_resume_latency_us", Form::Latency),
        Syntax::LimitOfEach,
        "microseconds without a unit, or unlimited",
        "CPUs use no idle state that takes longer to leave",
    ),
    row(
        "cpuidle.state.*",
        files(Each::Cpu, "cpuidle/state*/disable", Form::Disable),
        Syntax::SwitchOfEach,
        ON_OFF,
        "one idle state of all CPUs, by number",
    ),
    row(
        RECEIVER_SCHEDULING,
        Place::Elsewhere("it belongs to the threads of one agent, not to the machine"),
        Syntax::Scheduling,
        "other | nice:-20 to nice:19 | fifo:1 to fifo:99 | rr:1 to rr:99",
        "scheduling class and priority of the agent's receiving threads",
    ),
    row(
        "sysctl.*",
        Place::Sysctl(None),
        Syntax::Sysctl,
        "what the kernel takes; sizes like 16M too",
        "any sysctl of net.core, net.ipv4 and net.ipv6, as sysctl.net.core.rmem_max",
    )
    .cuts(),
    row("custom.*", Place::Custom, Syntax::Text, "what its command or file takes", "a setting that the plan defines")
        .dear(5)
        .cuts(),
    row(
        BOOT,
        Place::Elsewhere("a plan says by which command the machine is booted, and linerate run runs it"),
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
    let (Ok(setting), Ok(value)) = (find(name), canonical(name, value)) else { return false };
    let each = || OfEach::parse(&value).zip(OfEach::parse(now));
    value == now
        || (setting.syntax == Syntax::Autoneg && value == "off" && now.starts_with("forced "))
        || (setting.syntax.is_of_each() && each().is_some_and(|(value, now)| now.has_all_of(&value)))
}

/// Whether what a machine tells is what it was asked for: it [stands](stands), or differs in what the machine chooses.
pub fn agrees(name: &str, asked: &str, read_back: &str) -> bool {
    let (Ok(setting), Ok(asked)) = (find(name), canonical(name, asked)) else { return false };
    stands(name, &asked, read_back)
        || match setting.syntax {
            Syntax::Duplex => read_back.starts_with("forced ") && read_back.ends_with(&format!(" {asked}")),
            // Parameters that were not asked for are the kernel's choice.
            Syntax::Discipline => Discipline::parse(&asked)
                .is_ok_and(|asked| Discipline::parse(read_back).is_ok_and(|read| read.has_all_of(&asked))),
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

    /// The page's table of settings is made of the rows.
    #[test]
    fn the_documentation_has_the_table() {
        let mut table = "| setting | values | meaning | cuts | cost | source |\n|---|---|---|---|---|---|\n".to_owned();
        for SettingInfo { name, allowed, about, may_cut_link, dear, place, .. } in SETTINGS {
            let cuts = if *may_cut_link { "yes" } else { "no" };
            let allowed = allowed.replace(" | ", ", ");
            table += &format!("| `{name}` | {allowed} | {about} | {cuts} | {dear} | {} |\n", place.source());
        }
        crate::docs::check("settings.md", "| setting |", &table);
    }
}
