//! Which counters mean that a datagram was dropped, and which of them count the same drop: one table.
//! Knows no figures; [`super`] reads them by it.

use linerate_machine::pattern::fits as fits_text;
use linerate_machine::words;

use crate::stage::Stage;

use Machine::{Receiver, Sender};
use Unit::{Datagrams as Whole, Frames, Segments};

/// A way to drop a datagram, and who counts it.
pub(crate) struct Drop {
    pub(crate) id: DropCause,
    pub(super) machine: Machine,
    pub(crate) stage: Stage,
    pub(super) unit: Unit,
    /// Alternatives that count the same drops, so the largest is taken. Each is a sum of counters at `stage`,
    /// by name, see [`fits`]. A counter of which the driver's table says something else is not among them; those of which it says
    /// this drop are further alternatives.
    pub(super) sources: &'static [&'static [&'static str]],
    /// Drops that these counters include, and that have a line of their own.
    pub(super) includes: &'static [DropCause],
}

impl Drop {
    /// Whether packets that a machine forwards meet it: from the link up to where they are forwarded, and down from there.
    pub(super) fn is_of_forwarding(&self) -> bool {
        match self.id {
            DropCause::SenderIp | DropCause::NotForwarded => true,
            DropCause::Reassembly => false,
            _ => self.unit == Frames,
        }
    }
}

words! {
    /// What happens to packets that are dropped: the entries of the table of drops. Drivers' tables name them.
    DropCause {
        /// A queueing discipline of the sender dropped them.
        Qdisc = "qdisc",
        /// The sender's interface or driver had no place for them.
        TxRing = "tx-ring",
        /// The sender's MAC failed to send them.
        MacTx = "mac-tx",
        /// The sender's IP discarded them, or had no route.
        SenderIp = "sender-ip",
        /// The sender's IPsec policies or states refused them.
        PolicyOut = "policy-out",
        /// The sender's IP was asked to send them and transmitted none of them.
        Untransmitted = "untransmitted",
        /// They waited for a neighbour's hardware address and had to make room.
        Neighbours = "neighbours",
        /// The sender's socket refused them.
        SendBuffer = "send-buffer",
        /// They were damaged on the link.
        Damaged = "damaged",
        /// Their length was wrong.
        Length = "length",
        /// The MAC's FIFO overran.
        Fifo = "fifo",
        /// No receive descriptor was free.
        NoBuffer = "no-buffer",
        /// The MAC counted an error of another kind.
        OtherErrors = "other-errors",
        /// The MAC dropped them for their checksum.
        MacChecksum = "mac-checksum",
        /// An XDP program dropped them.
        Xdp = "xdp",
        /// The queue of a device dropped them that packets are redirected through on the way in.
        RedirectQueue = "redirect-queue",
        /// The softirq backlog was full.
        Backlog = "backlog",
        /// A filter at the interface's ingress dropped them.
        Ingress = "ingress",
        /// The receiver's interface or driver dropped them.
        DriverDrops = "driver-drops",
        /// The receiver's IP discarded them: header, address, route.
        ReceiverIp = "receiver-ip",
        /// The receiver's IPsec policies or states refused them.
        PolicyIn = "policy-in",
        /// Fragments were missing.
        Reassembly = "reassembly",
        /// IP received them, delivered them to nobody and counted no error.
        Undelivered = "undelivered",
        /// The middle received them, and they did not leave by its other interface, nor did it count an error.
        NotForwarded = "not-forwarded",
        /// No socket was bound to the port.
        NoPort = "no-port",
        /// Their UDP checksum was wrong.
        Checksum = "checksum",
        /// The receiver's socket buffer was full.
        ReceiveBuffer = "receive-buffer",
        /// A socket's filter or policy refused them.
        UdpErrors = "udp-errors",
        /// They arrived, and not as long as they were sent.
        Altered = "altered",
        /// TCP found an error in them.
        TcpErrors = "tcp-errors",
        /// TCP had no room for them.
        TcpBuffer = "tcp-buffer",
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Machine {
    Sender,
    Receiver,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    /// Frames, or fragments.
    Frames,
    Datagrams,
    /// Of TCP, which no datagram ever meets.
    Segments,
}

/// The counters that mean "dropped here". An entry may include only entries above it.
///
/// A datagram that a root qdisc refuses is counted by the qdisc, by `Ip OutDiscards` (net/ipv4/ip_output.c,
/// ip_send_skb) and by `Udp SndbufErrors` (net/ipv4/udp.c, udp_send_skb), and is an error of send(2) besides
/// where IP_RECVERR is set: one drop, up to four counters. A full backlog is counted by softnet and by the
/// interface's rx_dropped (net/core/dev.c, enqueue_to_backlog), and by the tx_dropped of a veth that fed it.
pub(crate) const DROPS: [Drop; 31] = [
    Drop {
        id: DropCause::Qdisc,
        machine: Sender,
        stage: Stage::Qdisc,
        unit: Frames,
        sources: &[&["* * drops"]],
        includes: &[],
    },
    Drop {
        id: DropCause::TxRing,
        machine: Sender,
        stage: Stage::DriverTxRing,
        unit: Frames,
        sources: &[&["link tx_dropped"]],
        includes: &[],
    },
    Drop {
        id: DropCause::MacTx,
        machine: Sender,
        stage: Stage::MacTx,
        unit: Frames,
        sources: &[
            &["link tx_errors"],
            &["link tx_aborted_errors", "link tx_carrier_errors", "link tx_fifo_errors", "link tx_window_errors"],
        ],
        includes: &[],
    },
    Drop {
        id: DropCause::SenderIp,
        machine: Sender,
        stage: Stage::SenderStack,
        unit: Whole,
        sources: &[&["Ip OutDiscards", "Ip6 OutDiscards", "Ip OutNoRoutes", "Ip6 OutNoRoutes"]],
        includes: &[DropCause::Qdisc, DropCause::TxRing],
    },
    Drop {
        id: DropCause::PolicyOut,
        machine: Sender,
        stage: Stage::SenderStack,
        unit: Frames,
        sources: &[&["xfrm XfrmOut*"]],
        includes: &[],
    },
    // Of TCP alone: what is refused of a datagram is one of the discards above. [`super::Findings::untransmitted`] reckons it.
    Drop {
        id: DropCause::Untransmitted,
        machine: Sender,
        stage: Stage::SenderStack,
        unit: Segments,
        sources: &[],
        includes: &[],
    },
    // What waited for a neighbour's address and had to make room (net/core/neighbour.c, __neigh_event_send). What
    // waits when the neighbour is given up is dropped too, and counted nowhere (neigh_invalidate).
    Drop {
        id: DropCause::Neighbours,
        machine: Sender,
        stage: Stage::SenderStack,
        unit: Frames,
        sources: &[&["arp_cache unresolved_discards", "ndisc_cache unresolved_discards"]],
        includes: &[],
    },
    Drop {
        id: DropCause::SendBuffer,
        machine: Sender,
        stage: Stage::SenderSocket,
        unit: Whole,
        sources: &[&["Udp SndbufErrors", "Udp6 SndbufErrors"]],
        includes: &[DropCause::Qdisc, DropCause::TxRing, DropCause::SenderIp],
    },
    Drop {
        id: DropCause::Damaged,
        machine: Receiver,
        stage: Stage::Link,
        unit: Frames,
        sources: &[&["link rx_crc_errors", "link rx_frame_errors"]],
        includes: &[],
    },
    Drop {
        id: DropCause::Length,
        machine: Receiver,
        stage: Stage::MacRxFifo,
        unit: Frames,
        sources: &[&["link rx_length_errors"]],
        includes: &[],
    },
    // "historically used interchangeably" (Documentation/networking/statistics.rst, of rx_over_errors and
    // rx_fifo_errors), so they are alternatives.
    Drop {
        id: DropCause::Fifo,
        machine: Receiver,
        stage: Stage::MacRxFifo,
        unit: Frames,
        sources: &[&["link rx_fifo_errors"], &["link rx_over_errors"]],
        includes: &[],
    },
    Drop {
        id: DropCause::NoBuffer,
        machine: Receiver,
        stage: Stage::DriverRxRing,
        unit: Frames,
        sources: &[&["link rx_missed_errors"]],
        includes: &[],
    },
    // "must include events counted by rx_length_errors, rx_crc_errors, rx_frame_errors and other errors not
    // otherwise counted"; some drivers add the other two.
    Drop {
        id: DropCause::OtherErrors,
        machine: Receiver,
        stage: Stage::MacRxFifo,
        unit: Frames,
        sources: &[&["link rx_errors"]],
        includes: &[DropCause::Damaged, DropCause::Length, DropCause::Fifo, DropCause::NoBuffer],
    },
    // Wrong checksums that the MAC drops by itself; the stack never sees them.
    Drop {
        id: DropCause::MacChecksum,
        machine: Receiver,
        stage: Stage::ReceiverStack,
        unit: Frames,
        sources: &[],
        includes: &[],
    },
    Drop {
        id: DropCause::Xdp,
        machine: Receiver,
        stage: Stage::DriverRxRing,
        unit: Frames,
        sources: &[],
        includes: &[],
    },
    Drop {
        id: DropCause::RedirectQueue,
        machine: Receiver,
        stage: Stage::DriverRxRing,
        unit: Frames,
        sources: &[&["* * drops"]],
        includes: &[],
    },
    Drop {
        id: DropCause::Backlog,
        machine: Receiver,
        stage: Stage::SoftirqBacklog,
        unit: Frames,
        sources: &[&["softnet dropped"]],
        includes: &[],
    },
    Drop {
        id: DropCause::Ingress,
        machine: Receiver,
        stage: Stage::SoftirqBacklog,
        unit: Frames,
        sources: &[&["* * drops"]],
        includes: &[],
    },
    Drop {
        id: DropCause::DriverDrops,
        machine: Receiver,
        stage: Stage::DriverRxRing,
        unit: Frames,
        sources: &[&["link rx_dropped"]],
        includes: &[DropCause::Backlog],
    },
    Drop {
        id: DropCause::ReceiverIp,
        machine: Receiver,
        stage: Stage::ReceiverStack,
        unit: Frames,
        // IpExt InCsumErrors are InHdrErrors too.
        sources: &[&[
            "Ip InHdrErrors",
            "Ip InAddrErrors",
            "Ip InDiscards",
            "IpExt InNoRoutes",
            "IpExt InTruncatedPkts",
            "TcpExt IPReversePathFilter",
            "Ip6 InHdrErrors",
            "Ip6 InAddrErrors",
            "Ip6 InDiscards",
            "Ip6 InNoRoutes",
            "Ip6 InTruncatedPkts",
        ]],
        includes: &[],
    },
    Drop {
        id: DropCause::PolicyIn,
        machine: Receiver,
        stage: Stage::ReceiverStack,
        unit: Frames,
        sources: &[&["xfrm XfrmIn*"]],
        includes: &[],
    },
    // In fragments and attempts; [`super::Findings::settle_fragments`] turns them into datagrams where it can.
    Drop {
        id: DropCause::Reassembly,
        machine: Receiver,
        stage: Stage::ReceiverStack,
        unit: Frames,
        sources: &[&["Ip ReasmFails", "Ip6 ReasmFails"]],
        includes: &[],
    },
    // What IP received, gave to nobody and counted as no error; [`super::Findings::undelivered`] reckons it.
    Drop {
        id: DropCause::Undelivered,
        machine: Receiver,
        stage: Stage::ReceiverStack,
        unit: Whole,
        sources: &[],
        includes: &[],
    },
    // The same of a machine that forwards; [`super::middle`] reckons it.
    Drop {
        id: DropCause::NotForwarded,
        machine: Receiver,
        stage: Stage::ReceiverStack,
        unit: Whole,
        sources: &[],
        includes: &[],
    },
    Drop {
        id: DropCause::NoPort,
        machine: Receiver,
        stage: Stage::ReceiverStack,
        unit: Whole,
        sources: &[&["Udp NoPorts", "Udp6 NoPorts"]],
        includes: &[],
    },
    Drop {
        id: DropCause::Checksum,
        machine: Receiver,
        stage: Stage::ReceiverStack,
        unit: Whole,
        sources: &[&["Udp InCsumErrors", "Udp6 InCsumErrors"]],
        includes: &[],
    },
    Drop {
        id: DropCause::ReceiveBuffer,
        machine: Receiver,
        stage: Stage::ReceiverSocket,
        unit: Whole,
        sources: &[&["Udp RcvbufErrors", "Udp6 RcvbufErrors", "Udp MemErrors", "Udp6 MemErrors"]],
        includes: &[],
    },
    // Every one of UDP's receive errors counts here too; what is left are socket filters
    // (net/ipv4/udp.c, udp_queue_rcv_one_skb).
    Drop {
        id: DropCause::UdpErrors,
        machine: Receiver,
        stage: Stage::ReceiverStack,
        unit: Whole,
        sources: &[&["Udp InErrors", "Udp6 InErrors"]],
        includes: &[DropCause::PolicyIn, DropCause::Checksum, DropCause::ReceiveBuffer],
    },
    // No counter's: the receiver of frames tells.
    Drop {
        id: DropCause::Altered,
        machine: Receiver,
        stage: Stage::ReceiverApplication,
        unit: Whole,
        sources: &[],
        includes: &[],
    },
    Drop {
        id: DropCause::TcpErrors,
        machine: Receiver,
        stage: Stage::ReceiverStack,
        unit: Segments,
        sources: &[&["Tcp InErrs"]],
        includes: &[],
    },
    Drop {
        id: DropCause::TcpBuffer,
        machine: Receiver,
        stage: Stage::ReceiverSocket,
        unit: Segments,
        sources: &[&["TcpExt TCPBacklogDrop", "TcpExt TCPRcvQDrop", "TcpExt TCPOFODrop", "TcpExt RcvPruned"]],
        includes: &[],
    },
];

/// Whether a counter's name fits. With a star, a name with `@` does not: it is a queue below a root, whose drops the
/// root counts too.
pub(super) fn fits(pattern: &str, name: &str) -> bool {
    fits_text(pattern, name) && !(pattern.contains('*') && name.contains('@'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_include_only_entries_above_them() {
        for (at, drop) in DROPS.iter().enumerate() {
            assert!(drop.includes.iter().all(|id| DROPS[..at].iter().any(|above| above.id == *id)), "{:?}", drop.id);
        }
    }

    #[test]
    fn a_queue_below_a_root_is_not_counted_again() {
        for (name, want) in [("eth0 tbf drops", true), ("eth0 fq_codel@1:2 drops", false), ("driver rx_drops", false)] {
            assert_eq!(fits("* * drops", name), want, "{name}");
        }
    }
}
