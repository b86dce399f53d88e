//! Where a machine has its settings: by which mechanism of the kernel, in which field or file.
//! Numbers are those of the kernel's headers; nothing is read or written here.

use std::time::Duration;

use super::cpus::{format_cpus, parse_cpus};
use crate::units::{format_duration, parse_duration};
use crate::words;

/// Where a setting is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingPlace {
    /// An attribute of the interface, over rtnetlink.
    Link(LinkField),
    /// The root qdisc, over rtnetlink.
    Qdisc,
    /// Speed, duplex and autonegotiation: three views of one state.
    LinkModes,
    /// A field of one of ethtool's requests.
    Driver(EthtoolField),
    /// Features of ethtool, by the kernel's names.
    Features(Features),
    /// A file of each of several things.
    Files(Files),
    /// This sysctl, or the one that the setting's name says.
    Sysctl(Option<&'static str>),
    /// What the plan says.
    Custom,
    /// Nothing of the machine, for this reason.
    Elsewhere(&'static str),
}

/// Attributes of 32 bits of an interface (linux/if_link.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum LinkField {
    /// IFLA_MTU.
    Mtu = 4,
    /// IFLA_TXQLEN.
    QueueLength = 13,
    /// IFLA_GSO_MAX_SIZE.
    GsoMaxSize = 41,
    /// IFLA_GSO_IPV4_MAX_SIZE.
    GsoIpv4MaxSize = 63,
}

words! {
    /// What a driver is told at once: it may take only together what it refuses one by one.
    DriverRequest {
        /// ETHTOOL_MSG_COALESCE_SET.
        Coalesce = "COALESCE",
        /// ETHTOOL_MSG_RINGS_SET.
        Rings = "RINGS",
        /// ETHTOOL_MSG_CHANNELS_SET.
        Channels = "CHANNELS",
        /// ETHTOOL_MSG_PAUSE_SET.
        Pause = "PAUSE",
        /// ETHTOOL_MSG_EEE_SET.
        Eee = "EEE",
    }
}

/// A field of one of ethtool's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EthtoolField {
    /// Of which.
    pub request: DriverRequest,
    /// linux/ethtool_netlink.h.
    pub attribute: u16,
    /// The attribute with the most that the driver takes.
    pub most: Option<u16>,
    /// A switch in 8 bits, not a number in 32.
    pub is_switch: bool,
}

/// Features of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// The kernel's names, of which a `*` is any part ([`super::overlap::covers`]); `None`: the one that the setting's
    /// name says.
    pub pattern: Option<&'static str>,
    /// The older way: the command of SIOCETHTOOL that reads; the one that writes is the next (linux/ethtool.h).
    pub older: Option<u32>,
}

/// A file of each of several things, and how it has its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Files {
    /// Of which.
    pub of: Each,
    /// Its path below that; a `*` is what the setting's name ends in.
    pub file: &'static str,
    /// How it has its value.
    pub form: Form,
}

/// Several things of one kind, or one alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Each {
    /// The interface's receive queues.
    RxQueue,
    /// The interface's transmit queues.
    TxQueue,
    /// The interface.
    Interface,
    /// The interface's interrupts. Their numbers are the machine's, and outlive what interface is asked for.
    Interrupt,
    /// The machine's CPUs.
    Cpu,
}

/// How a file has its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// CPUs, hexadecimal, 32 to a word, the lowest last.
    Mask,
    /// CPUs as they are.
    List,
    /// A whole number.
    Number,
    /// 1 is on.
    Switch,
    /// 1 is off.
    Disable,
    /// A time.
    Nanoseconds,
    /// A PM QoS latency: 0 is no limit, and `n/a` none at all (drivers/base/power/sysfs.c).
    Latency,
    /// A word, as it is.
    Word,
}

impl SettingPlace {
    /// Where it is, as documentation says it.
    pub fn source(&self) -> String {
        match self {
            SettingPlace::Link(LinkField::Mtu) => "IFLA_MTU, rtnetlink(7)".to_owned(),
            SettingPlace::Link(LinkField::QueueLength) => "IFLA_TXQLEN, rtnetlink(7)".to_owned(),
            SettingPlace::Link(LinkField::GsoMaxSize) => "IFLA_GSO_MAX_SIZE, Linux 4.16".to_owned(),
            SettingPlace::Link(LinkField::GsoIpv4MaxSize) => "IFLA_GSO_IPV4_MAX_SIZE, Linux 6.3".to_owned(),
            SettingPlace::Qdisc => "RTM_NEWQDISC, rtnetlink(7), tc(8)".to_owned(),
            SettingPlace::LinkModes => "ETHTOOL_MSG_LINKMODES_SET".to_owned(),
            SettingPlace::Driver(knob) => format!("ETHTOOL_MSG_{}_SET", knob.request),
            SettingPlace::Features(Features { pattern: Some(pattern), .. }) => format!("features {pattern}"),
            SettingPlace::Features(_) => "`ethtool -k` lists them".to_owned(),
            SettingPlace::Files(Files { of: Each::Interrupt, file, .. }) => format!("/proc/irq/N/{file}"),
            SettingPlace::Files(Files { of: Each::Cpu, file, .. }) => format!("/sys/devices/system/cpu/cpuN/{file}"),
            SettingPlace::Files(files) => format!("{}, in the interface's sysfs", files.file),
            SettingPlace::Sysctl(Some(name)) => (*name).to_owned(),
            SettingPlace::Sysctl(None) => "proc_sys(5)".to_owned(),
            SettingPlace::Custom => "[the plan](plans.md)".to_owned(),
            SettingPlace::Elsewhere(_) => String::new(),
        }
    }
}

impl Form {
    /// A file's text as a value; `None` where it is none of this form.
    pub fn value(self, text: &str) -> Option<String> {
        let switch = |on: &str, off: &str| match text {
            _ if text == on => Some("on".to_owned()),
            _ if text == off => Some("off".to_owned()),
            _ => None,
        };
        match self {
            Form::Mask => Some(format_cpus(&cpus_of_mask(text)?)),
            Form::List => Some(format_cpus(&parse_cpus(text)?)),
            Form::Number => Some(text.parse::<u64>().ok()?.to_string()),
            Form::Switch => switch("1", "0"),
            Form::Disable => switch("0", "1"),
            Form::Nanoseconds => Some(format_duration(Duration::from_nanos(text.parse().ok()?))),
            Form::Latency => {
                Some(if text == "0" { "unlimited" } else { text.strip_prefix("n/a").map_or(text, |_| "0") }.to_owned())
            }
            Form::Word => Some(text.to_owned()),
        }
    }

    /// A value as the file takes it.
    pub fn text(self, value: &str) -> Option<String> {
        let text = match (self, value) {
            (Form::Mask, _) => return Some(mask_of_cpus(&parse_cpus(value)?)),
            (Form::Nanoseconds, _) => return Some(parse_duration(value).ok()?.as_nanos().to_string()),
            (Form::List, "none") => "",
            (Form::Switch, "on") | (Form::Disable, "off") => "1",
            (Form::Switch | Form::Disable, _) | (Form::Latency, "unlimited") => "0",
            (Form::Latency, "0") => "n/a",
            (Form::List | Form::Number | Form::Latency | Form::Word, _) => value,
        };
        Some(text.to_owned())
    }
}

/// `f,00000003` of CPUs 0, 1 and 32 to 35 (Documentation/core-api/printk-formats.rst, "bitmap").
fn cpus_of_mask(text: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for (at, word) in text.rsplit(',').enumerate() {
        let word = u32::from_str_radix(word.trim_start_matches("0x"), 16).ok()?;
        cpus.extend((0..32).filter(|bit| word & 1 << bit != 0).map(|bit| at as u32 * 32 + bit));
    }
    Some(cpus)
}

fn mask_of_cpus(cpus: &[u32]) -> String {
    let words = cpus.iter().max().map_or(1, |last| last / 32 + 1);
    let word = |at: u32| cpus.iter().filter(|&&cpu| cpu / 32 == at).fold(0u32, |word, cpu| word | 1 << (cpu % 32));
    (0..words).rev().map(|at| format!("{:08x}", word(at))).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_lists() {
        for (mask, cpus, written) in [
            ("0", "none", "00000000"),
            ("3", "0-1", "00000003"),
            ("00000000,00000003", "0-1", "00000003"),
            ("f,00000001", "0,32-35", "0000000f,00000001"),
            ("80000000,00000000,00000000", "95", "80000000,00000000,00000000"),
        ] {
            assert_eq!(Form::Mask.value(mask).as_deref(), Some(cpus));
            assert_eq!(Form::Mask.text(cpus).as_deref(), Some(written));
        }
        assert_eq!(Form::Mask.value("nonsense"), None);
    }

    #[test]
    fn values_of_files() {
        assert_eq!(Form::Nanoseconds.value("20000").as_deref(), Some("20us"));
        assert_eq!(Form::Nanoseconds.text("20us").as_deref(), Some("20000"));
        assert_eq!(Form::Nanoseconds.text("0s").as_deref(), Some("0"));
        assert_eq!(Form::List.value("").as_deref(), Some("none"));
        // A kernel that can poll busily says 2; it could not be put back as on or off.
        assert_eq!(Form::Switch.value("2"), None);
    }
}
