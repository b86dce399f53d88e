//! The state of a machine that a record needs, so that it can be understood in ten years.
//! Knows no operating system: the reader of a machine fills these in. Absent means unknown.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::setting::discipline::{Discipline, keeps_to_a_rate};

/// A machine, as it was when a trial ran. Every field may be absent, which means unknown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Environment {
    /// Release of the kernel, as `uname -r` prints it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// Version of the kernel: when and how it was built, as `uname -v` prints it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel_version: Option<String>,
    /// What the boot loader told the kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command_line: Option<String>,
    /// Model of the machine, from its device tree or its firmware (DMI).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// What the root of its device tree says that it is compatible with, the closest first; empty where it has none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub compatible: Vec<String>,
    /// Instruction set, as `uname -m` prints it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
    /// Memory that the kernel manages, octets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_octets: Option<u64>,
    /// The processors.
    #[serde(skip_serializing_if = "Cpu::is_unknown")]
    pub cpu: Cpu,
    /// The machine is a guest of a hypervisor; its name where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub virtualization: Option<String>,
    /// The interface that the trial used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nic: Option<Nic>,
    /// Settings of the kernel's network stack, by name, as sysctl(8) names them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub sysctls: BTreeMap<String, String>,
    /// Builds of kernel modules, by the checksum of their sources (`modinfo -F srcversion`): that of the interface's
    /// driver, and those that a plan asks for.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub modules: BTreeMap<String, String>,
    /// Random name of this start of the kernel; alike for two ends that run on one machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
    /// Version of the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_version: Option<String>,
}

impl Environment {
    /// Whether both run on the same start of the same kernel.
    pub fn is_machine_of(&self, other: &Environment) -> bool {
        self.boot_id.is_some() && self.boot_id == other.boot_id
    }

    /// What a table of many records has of it.
    pub fn in_brief(&self) -> Environment {
        let nic = self.nic.as_ref().map(Nic::in_brief);
        Environment { kernel: self.kernel.clone(), nic, ..Environment::default() }
    }
}

/// The processors of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cpu {
    /// Their model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How many are online.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
    /// What chooses their frequency; several, joined by commas, where CPUs differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub governor: Option<String>,
    /// Highest frequency that the governor may choose, kHz.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_frequency_khz: Option<u64>,
    /// How the kernel accounts for interrupt time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub irq_time: Option<IrqTime>,
    /// The idle states of the first CPU, the lightest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub idle_states: Vec<IdleState>,
}

/// A way to be idle.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct IdleState {
    /// The driver's name for it, such as `C6`.
    pub name: String,
    /// How long the CPU takes to leave it, microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_latency_us: Option<u32>,
    /// It is not used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disabled: Option<bool>,
}

impl Cpu {
    fn is_unknown(&self) -> bool {
        *self == Cpu::default()
    }
}

/// How a kernel accounts for the time it spends in interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IrqTime {
    /// By reading a clock at each entry and exit (CONFIG_IRQ_TIME_ACCOUNTING or CONFIG_VIRT_CPU_ACCOUNTING).
    Precise,
    /// By asking at each tick what it interrupted: what hides between ticks, or behind disabled interrupts, is
    /// given to others, and hard interrupts are hardly ever seen (CONFIG_TICK_CPU_ACCOUNTING).
    Ticks,
}

/// A network interface and the hardware behind it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Nic {
    /// The interface's name.
    pub name: String,
    /// What the kernel made it with, such as `veth`; hardware has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The driver's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// The driver's version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver_version: Option<String>,
    /// Version of the device's firmware.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub firmware: Option<String>,
    /// Where the device is, such as its PCI address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bus: Option<String>,
    /// Its Ethernet address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mac: Option<String>,
    /// Speed of the link, Mbit/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speed_mbps: Option<u32>,
    /// `half` or `full`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duplex: Option<String>,
    /// Speed and duplex are negotiated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub autoneg: Option<bool>,
    /// There is a link.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link_detected: Option<bool>,
    /// How often the link came or went since the interface was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub carrier_changes: Option<u32>,
    /// What the two ends of the cable can be, by the kernel's names for link modes: `1000baseT/Full`, `Pause` …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link_modes: Option<LinkModes>,
    /// Energy-Efficient Ethernet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eee: Option<Eee>,
    /// Pause frames.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pause: Option<Pause>,
    /// Maximum transmission unit, octets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// Work that the device or the lower stack does for the upper, by ethtool's names.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub offloads: BTreeMap<String, bool>,
    /// When the device interrupts, by ethtool's names: microseconds, frames, or 0 and 1.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub coalescing: BTreeMap<String, u32>,
    /// Lengths of the descriptor rings: `rx`, `tx` …
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub rings: BTreeMap<String, Amount>,
    /// Numbers of queues: `rx`, `tx`, `combined`, `other`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub channels: BTreeMap<String, Amount>,
    /// Which CPUs each of its interrupts may go to, as /proc/irq writes it: `0-3,8`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub irq_affinity: BTreeMap<String, String>,
    /// Packets that its queue may hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_length: Option<u32>,
    /// The largest train of segments that the stack hands over at once, octets; where it has its own for IPv4, that of IPv6.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gso_max_size: Option<u32>,
    /// The same of IPv4.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gso_ipv4_max_size: Option<u32>,
    /// And the most segments that it may have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gso_max_segments: Option<u32>,
    /// Its root queueing discipline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub qdisc: Option<String>,
    /// The bridge that it is a port of, and what that lets pass here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bridge_port: Option<BridgePort>,
    /// Its queueing disciplines with their parameters, the root first: `tbf rate 100M burst 32K limit 64K`. Of those below
    /// the root, each once.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub qdiscs: Vec<String>,
}

/// A port of a bridge. What is absent this kernel does not tell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BridgePort {
    /// The bridge's name.
    pub bridge: String,
    /// It is in STP's forwarding state.
    pub forwards: Option<bool>,
    /// Nothing passes from here to another isolated port.
    pub isolated: Option<bool>,
    /// The bridge learns here which Ethernet addresses are behind it.
    pub learns: Option<bool>,
    /// What is for an Ethernet address that the bridge has not learnt leaves here too.
    pub floods: Option<bool>,
    /// Broadcasts leave here.
    pub floods_broadcast: Option<bool>,
}

impl Nic {
    /// Whether it hands its packets, in others of perhaps another version of IP, to another interface, and counts what that refuses
    /// as dropped by itself (linux include/net/ip_tunnels.h, iptunnel_xmit_stats).
    pub fn is_tunnel(&self) -> bool {
        let of_tunnels =
            ["vxlan", "geneve", "gre", "erspan", "ipip", "sit", "ip6", "wireguard", "vti", "xfrm", "tunnel", "bareudp"];
        self.driver.as_deref().is_some_and(|driver| of_tunnels.iter().any(|one| driver.starts_with(one)))
    }

    /// What a table of many records has of it.
    pub fn in_brief(&self) -> Nic {
        Nic {
            name: self.name.clone(),
            driver: self.driver.clone(),
            mtu: self.mtu,
            speed_mbps: self.speed_mbps,
            ..Nic::default()
        }
    }

    /// The kind of the first of its queueing disciplines, from the root down, that keeps to a rate.
    pub fn rate_keeper(&self) -> Option<&str> {
        let all = self.qdisc.iter().chain(&self.qdiscs).map(String::as_str);
        all.filter(|text| keeps_to_a_rate(text)).find_map(|text| text.split_whitespace().next())
    }

    /// Bits per second that its only token bucket lets out, headers of Ethernet included; absent where another discipline keeps to a rate.
    pub fn kept_rate_bps(&self) -> Option<u64> {
        let mut keepers = self.qdiscs.iter().filter(|text| keeps_to_a_rate(text));
        let keeper = Discipline::parse(keepers.next()?).ok()?;
        (keepers.next().is_none() && keeper.kind() == "tbf").then(|| keeper.get("rate"))?
    }
}

/// Settings of pause frames (IEEE 802.3, annex 31B).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pause {
    /// They are negotiated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub autoneg: Option<bool>,
    /// Those that come in stop this end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rx: Option<bool>,
    /// This end sends them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tx: Option<bool>,
}

/// Link modes of a PHY and of the one at the other end of its cable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LinkModes {
    /// What the driver says it can be.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub supported: Vec<String>,
    /// What of that it offers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub advertised: Vec<String>,
    /// What the other end offers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub partner: Vec<String>,
}

/// Energy-Efficient Ethernet (IEEE 802.3, clause 78): the PHY sleeps between packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Eee {
    /// It is allowed here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Both ends have agreed to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active: Option<bool>,
    /// How long the transmitter is idle before it sleeps, microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tx_lpi_timer_us: Option<u32>,
}

/// How many there are, and how many there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amount {
    /// Now.
    pub current: u32,
    /// At most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unknown_is_absent() {
        assert_eq!(serde_json::to_string(&Environment::default()).unwrap(), "{}");
        let nic = Nic { name: "eth0".to_owned(), autoneg: Some(false), ..Nic::default() };
        assert_eq!(serde_json::to_string(&nic).unwrap(), r#"{"name":"eth0","autoneg":false}"#);
    }

    #[test]
    fn a_field_from_the_future_and_one_that_is_missing_do_not_matter() {
        let text = r#"{"kernel":"6.1","cpu":{"count":2,"irq_time":"ticks"},"colour":"red"}"#;
        let environment: Environment = serde_json::from_str(text).unwrap();
        assert_eq!(environment.cpu.irq_time, Some(IrqTime::Ticks));
        let again = serde_json::to_string(&environment).unwrap();
        assert_eq!(serde_json::from_str::<Environment>(&again).unwrap(), environment);
    }
}
