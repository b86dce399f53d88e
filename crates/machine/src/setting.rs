//! The settings of a machine by name: one table, and how the text of a value must look.
//! Knows no machine; whether one has a setting, and what it makes of a value, is found out there.

use crate::printable::brief;
use crate::text::nearest;
use discipline::{BadDiscipline, Discipline};
pub use place::DriverRequest;
use place::{Each, SettingPlace};
pub use scheduling::Scheduling;
use syntax::{PerItem, Syntax};
pub use table::SETTINGS;

mod cpus;
pub mod discipline;
pub mod overlap;
pub mod place;
mod scheduling;
pub mod syntax;
mod table;

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
    pub place: SettingPlace,
    syntax: Syntax,
}

impl SettingInfo {
    /// The request to the driver that it is part of, which may take only together what is in it.
    pub fn request(&self) -> Option<DriverRequest> {
        if let SettingPlace::Driver(knob) = self.place { Some(knob.request) } else { None }
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
        matches!(self.place, SettingPlace::Files(files) if self.name.ends_with('*') && !files.file.contains('*'))
    }

    /// Whether the setting of this name belongs to an interface, and not to the machine.
    pub fn is_of_interface(&self, name: &str) -> bool {
        match self.place {
            SettingPlace::Link(_)
            | SettingPlace::Qdisc
            | SettingPlace::LinkModes
            | SettingPlace::Driver(_)
            | SettingPlace::Features(_) => true,
            SettingPlace::Files(files) => match files.of {
                Each::RxQueue | Each::TxQueue | Each::Interface => true,
                Each::Interrupt => self.rest_of(name).is_none_or(|which| which.parse::<u32>().is_err()),
                Each::Cpu => false,
            },
            SettingPlace::Sysctl(_) | SettingPlace::Custom | SettingPlace::Elsewhere(_) => false,
        }
    }
}

/// The setting that is reached by booting the machine, which is the controller's business and no agent's.
pub const BOOT: &str = "boot";

/// The setting of the agent's own threads, which end with their trial.
pub const RECEIVER_SCHEDULING: &str = "receiver_scheduling";

/// The table's entry for a setting.
pub fn find(name: &str) -> Result<&'static SettingInfo, BadSetting> {
    let bad = |why| BadSetting { name: name.to_owned(), why };
    let found = SETTINGS.iter().find(|setting| setting.name == name && !name.ends_with('*'));
    match found.or_else(|| SETTINGS.iter().find(|setting| setting.rest_of(name).is_some())) {
        Some(found) => syntax::check_name(found, name).map(|()| found).map_err(bad),
        None => Err(bad(BadSettingKind::Unknown)),
    }
}

/// Its largest value, where the table says what it looks like and not how far it goes.
fn bound(name: &str) -> String {
    match find(name).map(|found| found.syntax) {
        Ok(Syntax::Size { most }) => format!(", up to {most}"),
        _ => String::new(),
    }
}

/// Why a setting was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name}: {}", self.complaint())]
pub struct BadSetting {
    /// Its name.
    pub name: String,
    /// What is wrong.
    pub why: BadSettingKind,
}

/// What is wrong with a setting's name or value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadSettingKind {
    /// There is none of this name.
    Unknown,
    /// One of the user's own, which the plan does not define.
    Undefined,
    /// It is of an end of the traffic, and the machine between the two is none.
    OfAnEnd,
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
    /// It has so many bytes, and at most these are written.
    Long {
        /// How many it has.
        len: usize,
        /// How many it may have.
        most: usize,
    },
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
            BadSettingKind::Unknown => format!("there is no setting '{name}'; {}", hint(name)),
            BadSettingKind::Undefined => {
                format!("the plan does not define {name}; give it a [{name}] with get and set, or a file")
            }
            BadSettingKind::OfAnEnd => {
                "it is of an end of the traffic, and the middle is none; leave it out, or set it on the target or the host"
                    .to_owned()
            }
            BadSettingKind::OutsideTrees => {
                format!("there is no setting '{name}'; of sysctls there are net.core, net.ipv4 and net.ipv6")
            }
            BadSettingKind::NoNumber => {
                format!("'{name}' needs a number at its end, as in 'cpuidle.state.1', or 'all', as in 'rps.all'")
            }
            BadSettingKind::NoName => format!("'{name}' is not a name of a setting; docs/settings.md says how they look"),
            BadSettingKind::Value(text, allowed) => {
                format!("'{}' is not allowed; write {allowed}{}", brief(text), bound(name))
            }
            BadSettingKind::Lines => "a value is one line, without a NUL".to_owned(),
            BadSettingKind::Long { len, most } => format!("a value has {most} bytes at most, and this one has {len}"),
            BadSettingKind::NoUnit(text) => format!("'{text}' may be anything; write its unit, as in 20us"),
            BadSettingKind::Discipline(why) => why.to_string(),
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
        why: why.unwrap_or_else(|| BadSettingKind::Value(text.to_owned(), setting.allowed)),
    })
}

/// Whether a machine is as this value would make it, so that there is nothing to write. More than the same text:
/// `autoneg` that is `off` reads as the speed that is forced, because that is what it takes to put it back; and of
/// several things, those that are not named stay as they are.
pub fn stands(name: &str, value: &str, now: &str) -> bool {
    let (Ok(setting), Ok(value)) = (find(name), canonical(name, value)) else { return false };
    let each = || PerItem::parse(&value).zip(PerItem::parse(now));
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
        check_refused("mtu", "70000", "write bytes like 1500 or 9000, up to 65536");
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
        check_refused("custom.turbo", &"a".repeat(4001), "4000 bytes at most, and this one has 4001");
        check_refused("custom.turbo", "a\0b", "without a NUL");
        assert!(canonical("mtu", &"9".repeat(3000)).unwrap_err().to_string().len() < 500, "it is cut short");
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
        check_name("sysctl.net.ipv4.../x", "is not a name");
        check_name("sysctl.net.core.a/../../b", "is not a name");
        check_name("sysctl.net.core", "net.core, net.ipv4");
        check_name("irq_affinity.*", "number");
        check_name("irq_affinity.-1", "number");
        check_name("rps.eth0", "number");
        check_name("cpuidle.state.all", "number");
        check_name("feature.a/b", "is not a name");
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
            // A setting after which the link has to be waited for may cut it.
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
        crate::docs_tests::check("settings.md", "| setting |", &table);
    }
}
