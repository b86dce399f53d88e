//! Where counters come from and to which stage of the path each belongs: a row a source.
//! What a driver names as it likes is placed later, by the driver's table.
//!
//! A machine both sends and receives: what counts received packets is at a receiver's stage, what counts sent
//! ones at a sender's. Statistics that a driver names as it likes stay [`Stage::Unplaced`] here and keep their raw
//! names: the reader of a record places them by the driver's table (`linerate_path::drivers`), so that a machine need
//! not carry the tables of all drivers.

use std::io;

use linerate_machine::pattern::fits;
use linerate_path::stage::Stage::{self, *};

use super::{Machine, Placed, Reading, cpu, driver, interrupts, link, net_stat, pause, phy, qdisc, snmp, softnet};

/// One source.
pub(super) struct Source {
    /// As complaints have it.
    pub(super) name: &'static str,
    /// What stands before the names of its counters.
    pub(super) prefix: &'static str,
    pub(super) read: Read,
    /// It has nothing to tell where there is no such interface.
    pub(super) is_of_interface: bool,
    /// Not every kernel has it, nor every network namespace.
    pub(super) is_optional: bool,
    width: Width,
    /// Patterns in which `*` stands for any text, and their stages; the first that fits counts.
    places: &'static [(&'static str, Stage)],
}

/// How a source is read.
#[derive(Clone, Copy)]
pub(super) enum Read {
    /// This file, taken apart.
    File(&'static str, fn(&str) -> Vec<Reading>),
    /// In a way of its own.
    By(fn(&Machine) -> io::Result<Vec<Reading>>),
    /// The same, where it says itself which stage a counter is of, and with its whole name.
    Placed(fn(&Machine) -> io::Result<Vec<Placed>>),
}

/// How many bits its counters have.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Width {
    /// 64.
    Long,
    /// 32, on every machine.
    Short,
    /// As the interface's statistics.
    Link,
    /// A machine word, but for octets (include/net/snmp.h).
    Word,
}

/// The stage of a counter, by its whole name.
pub fn stage_of(name: &str) -> Stage {
    place_of(name).map_or(Unplaced, |(_, stage)| stage)
}

pub(super) fn width_of(name: &str) -> Width {
    place_of(name).map_or(Width::Long, |(source, _)| source.width)
}

fn place_of(name: &str) -> Option<(&'static Source, Stage)> {
    SOURCES.iter().find_map(|source| {
        let rest = name.strip_prefix(source.prefix)?;
        let (_, stage) = source.places.iter().find(|(pattern, _)| fits(pattern, rest))?;
        Some((source, *stage))
    })
}

const fn source(name: &'static str, prefix: &'static str, read: Read) -> Source {
    Source { name, prefix, read, is_of_interface: false, is_optional: false, width: Width::Long, places: &[] }
}

const fn file(path: &'static str, prefix: &'static str, parse: fn(&str) -> Vec<Reading>) -> Source {
    source(path, prefix, Read::File(path, parse))
}

impl Source {
    const fn of_interface(self) -> Source {
        Source { is_of_interface: true, ..self }
    }

    const fn optional(self) -> Source {
        Source { is_optional: true, ..self }
    }

    const fn at(self, width: Width, places: &'static [(&'static str, Stage)]) -> Source {
        Source { width, places, ..self }
    }
}

/// All of them, in the order in which they are read.
pub(super) static SOURCES: &[Source] = &[
    source("link statistics", "link ", Read::By(link::read)).of_interface().at(Width::Link, LINK),
    source("driver statistics", "driver ", Read::By(driver::read)).of_interface(),
    // What it could not read of the cable, and how it fared without data: nothing of it has come to the MAC.
    source("PHY statistics", "phy ", Read::By(phy::read)).of_interface().at(Width::Long, &[("*", Link)]),
    // A MAC sends pause frames when its receive side fills, and stops sending when it gets them.
    source("pause statistics", "pause ", Read::By(pause::read))
        .of_interface()
        .at(Width::Long, &[("tx_frames", MacRxFifo), ("rx_frames", MacTx)]),
    source("queueing disciplines", "", Read::Placed(qdisc::read)).of_interface(),
    file("/proc/net/softnet_stat", "softnet ", softnet::parse).at(Width::Short, &[("*", SoftirqBacklog)]),
    file("/proc/net/snmp", "", snmp::parse_pairs).at(Width::Word, STACK),
    file("/proc/net/netstat", "", snmp::parse_pairs).at(Width::Word, STACK),
    file("/proc/net/snmp6", "", snmp::parse_lines).optional().at(Width::Word, STACK),
    // Documentation/networking/xfrm/xfrm_proc.rst; what is forwarded counts as received.
    file("/proc/net/xfrm_stat", "xfrm ", snmp::parse_names)
        .optional()
        .at(Width::Word, &[("XfrmOut*", SenderStack), ("*", ReceiverStack)]),
    // Packets that wait for a neighbour's address, or find no room for it.
    file("/proc/net/stat/arp_cache", "arp_cache ", net_stat::neighbours)
        .optional()
        .at(Width::Long, &[("*", SenderStack)]),
    file("/proc/net/stat/ndisc_cache", "ndisc_cache ", net_stat::neighbours)
        .optional()
        .at(Width::Long, &[("*", SenderStack)]),
    // Connection tracking sees what arrives before the stack does.
    file("/proc/net/stat/nf_conntrack", "nf_conntrack ", net_stat::connections)
        .optional()
        .at(Width::Short, &[("*", ReceiverStack)]),
    // What a CPU does before it can poll: leave an idle state, run slower than it could.
    source("the CPUs", "cpu ", Read::By(cpu::read)).at(Width::Long, &[("*", SoftirqBacklog)]),
    // NET_TX runs the queueing discipline where the sender itself could not.
    file("/proc/softirqs", "softirq ", interrupts::parse_softirqs)
        .at(Width::Short, &[("NET_RX", SoftirqBacklog), ("NET_TX", Qdisc)]),
    // The MAC raises them; most say that the ring holds something.
    source("/proc/interrupts", "irq ", Read::By(interrupts::read))
        .of_interface()
        .at(Width::Short, &[("*", DriverRxRing)]),
];

/// Documentation/networking/statistics.rst.
const LINK: &[(&str, Stage)] = &[
    // Frames that were damaged before they came here: the cable, or the other MAC.
    ("rx_crc_errors", Link),
    ("rx_frame_errors", Link),
    // Not of frames: how often the interface lost its carrier, or got it back.
    ("carrier_changes", Link),
    ("rx_length_errors", MacRxFifo),
    ("rx_errors", MacRxFifo),
    ("rx_fifo_errors", MacRxFifo),
    ("rx_over_errors", MacRxFifo),
    // "packets dropped by the device due to lack of buffer space": no descriptor was free.
    ("rx_missed_errors", DriverRxRing),
    // Good frames as the driver handed them up, those that are dropped later included.
    ("rx_*", DriverRxRing),
    ("multicast", DriverRxRing),
    ("tx_dropped", DriverTxRing),
    ("tx_packets", DriverTxRing),
    ("tx_bytes", DriverTxRing),
    ("tx_compressed", DriverTxRing),
    ("tx_*", MacTx),
    ("collisions", MacTx),
];

/// RFC 4293 (Ip, Ip6), 4022 (Tcp), 4113 (Udp) and include/uapi/linux/snmp.h.
const STACK: &[(&str, Stage)] = &[
    ("Udp* RcvbufErrors", ReceiverSocket),
    ("Udp* MemErrors", ReceiverSocket),
    ("Udp* SndbufErrors", SenderSocket),
    ("Udp* OutDatagrams", SenderStack),
    ("Udp* *", ReceiverStack),
    ("Ip* Out*", SenderStack),
    ("Ip* Frag*", SenderStack),
    ("Ip* *", ReceiverStack),
    ("Icmp* Out*", SenderStack),
    ("IcmpMsg OutType*", SenderStack),
    ("Icmp* *", ReceiverStack),
    ("Tcp OutSegs", SenderStack),
    ("Tcp OutRsts", SenderStack),
    ("Tcp RetransSegs", SenderStack),
    ("Tcp ActiveOpens", SenderStack),
    ("Tcp *", ReceiverStack),
    // What the sending half of TCP counts.
    ("TcpExt TCP*Retrans*", SenderStack),
    ("TcpExt TCPTimeouts", SenderStack),
    ("TcpExt TCPLossProbe*", SenderStack),
    ("TcpExt TCP*Recovery*", SenderStack),
    ("TcpExt TCP*Undo", SenderStack),
    ("TcpExt TCP*Failures", SenderStack),
    ("TcpExt TCPSpurious*", SenderStack),
    ("TcpExt TCPOrigDataSent", SenderStack),
    ("TcpExt TCPDelivered*", SenderStack),
    ("TcpExt TCPHystart*", SenderStack),
    ("TcpExt TCPAutoCorking", SenderStack),
    ("TcpExt TCPWinProbe", SenderStack),
    ("TcpExt TCPKeepAlive", SenderStack),
    ("TcpExt TCPMTUP*", SenderStack),
    ("TcpExt TCPWqueueTooBig", SenderSocket),
    // Full receive buffers, and what TCP does about them.
    ("TcpExt TCPRcvQDrop", ReceiverSocket),
    ("TcpExt TCPBacklogDrop", ReceiverSocket),
    ("TcpExt TCPRcvCollapsed", ReceiverSocket),
    ("TcpExt TCP*ZeroWindow*", ReceiverSocket),
    ("TcpExt *Prune*", ReceiverSocket),
    ("TcpExt TCPOFODrop", ReceiverSocket),
    ("TcpExt Listen*", ReceiverSocket),
    ("TcpExt *", ReceiverStack),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, want: Stage) {
        assert_eq!(stage_of(name), want, "{name}");
    }

    #[test]
    fn the_counters_of_the_field_reports_are_where_they_look_for_them() {
        check("link rx_fifo_errors", MacRxFifo);
        check("link rx_missed_errors", DriverRxRing);
        check("link rx_otherhost_dropped", DriverRxRing);
        check("link tx_carrier_errors", MacTx);
        check("link rx_crc_errors", Link);
        check("link carrier_changes", Link);
        check("pause rx_frames", MacTx);
        check("driver rx_queue_0_drops", Unplaced);
        check("phy phy_idle_errors", Link);
        check("softnet time_squeeze", SoftirqBacklog);
        check("Udp RcvbufErrors", ReceiverSocket);
        check("Udp6 RcvbufErrors", ReceiverSocket);
        check("UdpLite6 SndbufErrors", SenderSocket);
        check("Udp6 NoPorts", ReceiverStack);
        check("Ip OutDiscards", SenderStack);
        check("IpExt OutOctets", SenderStack);
        check("Ip6 ReasmFails", ReceiverStack);
        check("Tcp RetransSegs", SenderStack);
        check("TcpExt TCPTimeouts", SenderStack);
        check("TcpExt TCPFastRetrans", SenderStack);
        check("TcpExt RcvPruned", ReceiverSocket);
        check("TcpExt DelayedACKs", ReceiverStack);
        check("nf_conntrack drop", ReceiverStack);
        check("xfrm XfrmInPolBlock", ReceiverStack);
        check("xfrm XfrmOutNoStates", SenderStack);
        check("nonsense", Unplaced);
        check("", Unplaced);
    }
}
