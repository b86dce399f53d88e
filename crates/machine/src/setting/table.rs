//! Every setting that there is: one row each.
//! Parsing, reading, writing, safety and docs/settings.md follow from the rows.

use super::place::DriverRequest::{self, Channels, Coalesce, Eee, Pause, Rings};
use super::place::Each::{Cpu, Interface, Interrupt, RxQueue, TxQueue};
use super::place::LinkField::{GsoIpv4MaxSize, GsoMaxSize, Mtu, QueueLength};
use super::place::{Each, EthtoolField, Features, Files, Form, LinkField, SettingPlace};
use super::syntax::Syntax;
use super::{BOOT, RECEIVER_SCHEDULING, SettingInfo};

const ON_OFF: &str = "on | off";
const NUMBER: &str = "a whole number";
const CPUS: &str = "CPUs like 0 or 0-3,8, or none";
const MICROSECONDS: &str = "microseconds, without a unit";
const FRAMES: &str = "a number of frames";
const ANY: Syntax = Syntax::Number { least: 0, most: u32::MAX as u64 };

/// A row: name, where it is and how it is written, what may stand there, what it does.
macro_rules! settings {
    ($($name:expr => $row:expr, $allowed:expr, $about:literal;)+) => {
        /// Every setting there is, in the order in which help texts and docs/settings.md show them.
        pub const SETTINGS: &[SettingInfo] =
            &[$(SettingInfo { name: $name, allowed: $allowed, about: $about, ..$row }),+];
    };
}

settings! {
    "mtu" => link(Mtu, Syntax::Size { most: 65_536 }).dear(2).cuts(), "bytes like 1500 or 9000",
        "the largest packet of the interface";
    "queue_length" => link(QueueLength, ANY), "a number of packets",
        "what the qdisc may hold unless it is told otherwise (txqueuelen)";
    "gso_max_size" => link(GsoMaxSize, Syntax::Size { most: 524_280 }), "bytes like 64K or 8K",
        "the largest train of segments that the stack hands over at once; before Linux 6.3 of IPv4 too";
    "gso_ipv4_max_size" => link(GsoIpv4MaxSize, Syntax::Size { most: 524_280 }), "bytes like 64K or 8K",
        "the same of IPv4; gso_max_size sets it too";
    "qdisc" => at(SettingPlace::Qdisc, Syntax::Discipline).dear(1).cuts(),
        "default | noqueue | pfifo_fast | mq | pfifo | bfifo | fq | fq_codel | tbf, with parameters as in 'tbf rate 100M \
         burst 32K limit 64K'",
        "the queueing discipline at the root of the interface";
    "rx_checksum" => feature("rx-checksum").older(0x14), ON_OFF, "the MAC checks what arrives";
    "tx_checksum" => feature("tx-checksum-*").older(0x16), ON_OFF, "the MAC fills checksums in";
    "sg" => feature("tx-scatter-gather*").older(0x18), ON_OFF,
        "scatter-gather: a packet may lie in several pieces of memory";
    "tso" => feature("tx-tcp*-segmentation").older(0x1e), ON_OFF,
        "the MAC cuts TCP into segments; not the mangleid ones";
    "gso" => feature("tx-generic-segmentation").older(0x23), ON_OFF, "the stack cuts segments as late as it can";
    "udp_segmentation" => feature("tx-udp-segmentation"), ON_OFF, "the MAC cuts UDP into datagrams (UDP_SEGMENT)";
    "gro" => feature("rx-gro").older(0x2b), ON_OFF, "the stack joins what arrives before it goes up";
    "gro_hw" => feature("rx-gro-hw").cuts(), ON_OFF, "the MAC joins what arrives, as GRO would";
    "gro_list" => feature("rx-gro-list"), ON_OFF, "GRO by lists of packets, for forwarding";
    "udp_gro_forwarding" => feature("rx-udp-gro-forwarding"), ON_OFF, "GRO of UDP that is forwarded";
    "lro" => feature("rx-lro").cuts(), ON_OFF, "the MAC joins what arrives, and forgets how it was";
    "feature.*" => features(None).dear(1).cuts(), ON_OFF, "any feature by the kernel's name, as feature.rx-hashing";
    "coalesce.rx_usecs" => coalesce(2), MICROSECONDS, "how long a received frame may wait for its interrupt";
    "coalesce.rx_frames" => coalesce(3), FRAMES, "how many received frames may wait for an interrupt";
    "coalesce.tx_usecs" => coalesce(6), MICROSECONDS, "how long a sent frame may wait for its interrupt";
    "coalesce.tx_frames" => coalesce(7), FRAMES, "how many sent frames may wait for an interrupt";
    "coalesce.rx_usecs_irq" => coalesce(4), MICROSECONDS, "rx_usecs while an interrupt is being served";
    "coalesce.rx_frames_irq" => coalesce(5), FRAMES, "rx_frames while an interrupt is being served";
    "coalesce.tx_usecs_irq" => coalesce(8), MICROSECONDS, "tx_usecs while an interrupt is being served";
    "coalesce.tx_frames_irq" => coalesce(9), FRAMES, "tx_frames while an interrupt is being served";
    "coalesce.adaptive_rx" => switch(Coalesce, 11), ON_OFF, "the driver chooses rx_usecs by the load";
    "coalesce.adaptive_tx" => switch(Coalesce, 12), ON_OFF, "the driver chooses tx_usecs by the load";
    "ring.rx" => limited(Rings, 6, 2), FRAMES, "descriptors of the receive ring";
    "ring.tx" => limited(Rings, 9, 5), FRAMES, "descriptors of the transmit ring";
    "channels.rx" => limited(Channels, 6, 2), NUMBER, "queues that only receive";
    "channels.tx" => limited(Channels, 7, 3), NUMBER, "queues that only send";
    "channels.combined" => limited(Channels, 9, 5), NUMBER, "queues that do both";
    "pause.autoneg" => switch(Pause, 2), ON_OFF, "pause frames as both ends of the cable agree";
    "pause.rx" => switch(Pause, 3), ON_OFF, "obey pause frames";
    "pause.tx" => switch(Pause, 4), ON_OFF, "send pause frames";
    "speed" => at(SettingPlace::LinkModes, Syntax::Speed).dear(5).cuts(),
        "auto | Mbit/s like 100 | forced 100 full | advertise 100baseT/Full+1000baseT/Full",
        "the speeds that are offered to the other end of the cable, or one without asking it";
    "duplex" => at(SettingPlace::LinkModes, Syntax::Duplex).dear(5).cuts(), "auto | half | full, or as speed",
        "the duplex modes that are offered";
    "autoneg" => at(SettingPlace::LinkModes, Syntax::Autoneg).dear(5).cuts(), "on | off, or as speed",
        "whether both ends of the cable agree on speed and duplex";
    "eee" => switch(Eee, 5), ON_OFF, "Energy-Efficient Ethernet: the PHY sleeps between packets";
    "irq_affinity.*" => file(Interrupt, "smp_affinity_list", Form::List, Syntax::CpusOfEach), CPUS,
        "CPUs that an interrupt of the interface goes to; by number, or all";
    "rps.*" => file(RxQueue, "rps_cpus", Form::Mask, Syntax::CpusOfEach), CPUS,
        "CPUs that packets of a receive queue are spread over; by number, or all";
    "xps.*" => file(TxQueue, "xps_cpus", Form::Mask, Syntax::CpusOfEach), CPUS,
        "CPUs that use a transmit queue; by number, or all";
    // Documentation/ABI/testing/sysfs-class-net-queues; of drivers that tell what they have sent.
    "bql.limit_max" => file(TxQueue, "byte_queue_limits/limit_max", Form::Number, Syntax::NumberOfEach),
        "bytes, a whole number", "the most that a transmit queue hands to the driver (byte queue limits); less waits less";
    "rfs.rps_flow_cnt" => file(RxQueue, "rps_flow_cnt", Form::Number, Syntax::NumberOfEach), NUMBER,
        "flows that a receive queue remembers the CPU of; rounded up to a power of two";
    "rfs.rps_sock_flow_entries" => at(SettingPlace::Sysctl(Some("net.core.rps_sock_flow_entries")), ANY), NUMBER,
        "flows of the machine whose application's CPU is remembered";
    "napi.threaded" => file(Interface, "threaded", Form::Switch, Syntax::Switch), ON_OFF,
        "a thread polls the interface, not a softirq";
    "gro_flush_timeout" => file(Interface, "gro_flush_timeout", Form::Nanoseconds, Syntax::Time),
        "a time with its unit, like 20us, or 0", "how long GRO may keep packets, and interrupts may stay off";
    "napi_defer_hard_irqs" => file(Interface, "napi_defer_hard_irqs", Form::Number, ANY), NUMBER,
        "empty polls before interrupts are enabled again";
    "busy_poll" => at(SettingPlace::Sysctl(Some("net.core.busy_poll")), ANY), MICROSECONDS,
        "how long poll and select look at the NIC";
    "busy_read" => at(SettingPlace::Sysctl(Some("net.core.busy_read")), ANY), MICROSECONDS,
        "how long a socket read looks at the NIC";
    "governor" => file(Cpu, "cpufreq/scaling_governor", Form::Word, Syntax::NameOfEach), "a name like performance",
        "who chooses the CPUs' frequency";
    // Documentation/admin-guide/pm/cpuidle.rst, "Power Management Quality of Service for CPUs".
    "cpuidle.max_latency_us" => file(Cpu, "power/pm_qos_resume_latency_us", Form::Latency, Syntax::LimitOfEach),
        "microseconds without a unit, or unlimited", "CPUs use no idle state that takes longer to leave";
    "cpuidle.state.*" => file(Cpu, "cpuidle/state*/disable", Form::Disable, Syntax::SwitchOfEach), ON_OFF,
        "one idle state of all CPUs, by number";
    RECEIVER_SCHEDULING => elsewhere("it belongs to the threads of one agent, not to the machine", Syntax::Scheduling),
        "other | nice:-20 to nice:19 | fifo:1 to fifo:99 | rr:1 to rr:99",
        "scheduling class and priority of the agent's receiving threads";
    "sysctl.*" => at(SettingPlace::Sysctl(None), Syntax::Sysctl).cuts(), "what the kernel takes; sizes like 16M too",
        "any sysctl of net.core, net.ipv4 and net.ipv6, as sysctl.net.core.rmem_max";
    "custom.*" => at(SettingPlace::Custom, Syntax::Text).dear(5).cuts(), "what its command or file takes",
        "a setting that the plan defines";
    BOOT => elsewhere("a plan says by which command the machine is booted, and linerate run runs it", Syntax::Name)
        .dear(9).cuts(),
        "a name that the plan defines as [boot.NAME]", "what the machine is booted as: a kernel, a driver";
}

impl SettingInfo {
    const fn dear(self, dear: u8) -> SettingInfo {
        SettingInfo { dear, ..self }
    }

    const fn cuts(self) -> SettingInfo {
        SettingInfo { may_cut_link: true, ..self }
    }

    /// A feature that SIOCETHTOOL has too.
    const fn older(self, command: u32) -> SettingInfo {
        match self.place {
            SettingPlace::Features(features) => {
                SettingInfo { place: SettingPlace::Features(Features { older: Some(command), ..features }), ..self }
            }
            _ => self,
        }
    }
}

const fn at(place: SettingPlace, syntax: Syntax) -> SettingInfo {
    SettingInfo { name: "", allowed: "", about: "", may_cut_link: false, dear: 0, place, syntax }
}

const fn link(field: LinkField, syntax: Syntax) -> SettingInfo {
    at(SettingPlace::Link(field), syntax)
}

const fn features(pattern: Option<&'static str>) -> SettingInfo {
    at(SettingPlace::Features(Features { pattern, older: None }), Syntax::Feature)
}

const fn feature(pattern: &'static str) -> SettingInfo {
    features(Some(pattern))
}

const fn file(of: Each, file: &'static str, form: Form, syntax: Syntax) -> SettingInfo {
    at(SettingPlace::Files(Files { of, file, form }), syntax)
}

const fn elsewhere(why: &'static str, syntax: Syntax) -> SettingInfo {
    at(SettingPlace::Elsewhere(why), syntax)
}

const fn knob(request: DriverRequest, attribute: u16, most: Option<u16>, is_switch: bool) -> SettingInfo {
    let syntax = if is_switch { Syntax::Switch } else { ANY };
    let row = at(SettingPlace::Driver(EthtoolField { request, attribute, most, is_switch }), syntax);
    match request {
        Coalesce => row,
        Rings | Channels => row.dear(3).cuts(),
        Pause => row.dear(4).cuts(),
        Eee => row.dear(5).cuts(),
    }
}

const fn coalesce(attribute: u16) -> SettingInfo {
    knob(Coalesce, attribute, None, false)
}

const fn switch(request: DriverRequest, attribute: u16) -> SettingInfo {
    knob(request, attribute, None, true)
}

/// Of which there may be as many as the attribute `most` says.
const fn limited(request: DriverRequest, attribute: u16, most: u16) -> SettingInfo {
    knob(request, attribute, Some(most), false)
}
