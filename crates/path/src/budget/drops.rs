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

const fn row(
    id: DropCause,
    machine: Machine,
    stage: Stage,
    unit: Unit,
    sources: &'static [&'static [&'static str]],
) -> Drop {
    Drop { id, machine, stage, unit, sources, includes: &[] }
}

impl Drop {
    const fn including(self, includes: &'static [DropCause]) -> Drop {
        Drop { includes, ..self }
    }

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
    row(DropCause::Qdisc, Sender, Stage::Qdisc, Frames, &[&["* * drops"]]),
    row(DropCause::TxRing, Sender, Stage::DriverTxRing, Frames, &[&["link tx_dropped"]]),
    row(
        DropCause::MacTx,
        Sender,
        Stage::MacTx,
        Frames,
        &[
            &["link tx_errors"],
            &["link tx_aborted_errors", "link tx_carrier_errors", "link tx_fifo_errors", "link tx_window_errors"],
        ],
    ),
    row(
        DropCause::SenderIp,
        Sender,
        Stage::SenderStack,
        Whole,
        &[&["Ip OutDiscards", "Ip6 OutDiscards", "Ip OutNoRoutes", "Ip6 OutNoRoutes"]],
    )
    .including(&[DropCause::Qdisc, DropCause::TxRing]),
    row(DropCause::PolicyOut, Sender, Stage::SenderStack, Frames, &[&["xfrm XfrmOut*"]]),
    // Of TCP alone: what is refused of a datagram is one of the discards above. [`super::Findings::untransmitted`] reckons it.
    row(DropCause::Untransmitted, Sender, Stage::SenderStack, Segments, &[]),
    // What waited for a neighbour's address and had to make room (net/core/neighbour.c, __neigh_event_send). What
    // waits when the neighbour is given up is dropped too, and counted nowhere (neigh_invalidate).
    row(
        DropCause::Neighbours,
        Sender,
        Stage::SenderStack,
        Frames,
        &[&["arp_cache unresolved_discards", "ndisc_cache unresolved_discards"]],
    ),
    row(DropCause::SendBuffer, Sender, Stage::SenderSocket, Whole, &[&["Udp SndbufErrors", "Udp6 SndbufErrors"]])
        .including(&[DropCause::Qdisc, DropCause::TxRing, DropCause::SenderIp]),
    row(DropCause::Damaged, Receiver, Stage::Link, Frames, &[&["link rx_crc_errors", "link rx_frame_errors"]]),
    row(DropCause::Length, Receiver, Stage::MacRxFifo, Frames, &[&["link rx_length_errors"]]),
    // "historically used interchangeably" (Documentation/networking/statistics.rst, of rx_over_errors and
    // rx_fifo_errors), so they are alternatives.
    row(DropCause::Fifo, Receiver, Stage::MacRxFifo, Frames, &[&["link rx_fifo_errors"], &["link rx_over_errors"]]),
    row(DropCause::NoBuffer, Receiver, Stage::DriverRxRing, Frames, &[&["link rx_missed_errors"]]),
    // "must include events counted by rx_length_errors, rx_crc_errors, rx_frame_errors and other errors not
    // otherwise counted"; some drivers add the other two.
    row(DropCause::OtherErrors, Receiver, Stage::MacRxFifo, Frames, &[&["link rx_errors"]]).including(&[
        DropCause::Damaged,
        DropCause::Length,
        DropCause::Fifo,
        DropCause::NoBuffer,
    ]),
    // Wrong checksums that the MAC drops by itself; the stack never sees them.
    row(DropCause::MacChecksum, Receiver, Stage::ReceiverStack, Frames, &[]),
    row(DropCause::Xdp, Receiver, Stage::DriverRxRing, Frames, &[]),
    row(DropCause::RedirectQueue, Receiver, Stage::DriverRxRing, Frames, &[&["* * drops"]]),
    row(DropCause::Backlog, Receiver, Stage::SoftirqBacklog, Frames, &[&["softnet dropped"]]),
    row(DropCause::Ingress, Receiver, Stage::SoftirqBacklog, Frames, &[&["* * drops"]]),
    row(DropCause::DriverDrops, Receiver, Stage::DriverRxRing, Frames, &[&["link rx_dropped"]])
        .including(&[DropCause::Backlog]),
    // IpExt InCsumErrors are InHdrErrors too.
    row(
        DropCause::ReceiverIp,
        Receiver,
        Stage::ReceiverStack,
        Frames,
        &[&[
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
    ),
    row(DropCause::PolicyIn, Receiver, Stage::ReceiverStack, Frames, &[&["xfrm XfrmIn*"]]),
    // In fragments and attempts; [`super::Findings::settle_fragments`] turns them into datagrams where it can.
    row(DropCause::Reassembly, Receiver, Stage::ReceiverStack, Frames, &[&["Ip ReasmFails", "Ip6 ReasmFails"]]),
    // What IP received, gave to nobody and counted as no error; [`super::Findings::undelivered`] reckons it.
    row(DropCause::Undelivered, Receiver, Stage::ReceiverStack, Whole, &[]),
    // The same of a machine that forwards; [`super::middle`] reckons it.
    row(DropCause::NotForwarded, Receiver, Stage::ReceiverStack, Whole, &[]),
    row(DropCause::NoPort, Receiver, Stage::ReceiverStack, Whole, &[&["Udp NoPorts", "Udp6 NoPorts"]]),
    row(DropCause::Checksum, Receiver, Stage::ReceiverStack, Whole, &[&["Udp InCsumErrors", "Udp6 InCsumErrors"]]),
    row(
        DropCause::ReceiveBuffer,
        Receiver,
        Stage::ReceiverSocket,
        Whole,
        &[&["Udp RcvbufErrors", "Udp6 RcvbufErrors", "Udp MemErrors", "Udp6 MemErrors"]],
    ),
    // Every one of UDP's receive errors counts here too; what is left are socket filters
    // (net/ipv4/udp.c, udp_queue_rcv_one_skb).
    row(DropCause::UdpErrors, Receiver, Stage::ReceiverStack, Whole, &[&["Udp InErrors", "Udp6 InErrors"]])
        .including(&[DropCause::PolicyIn, DropCause::Checksum, DropCause::ReceiveBuffer]),
    // No counter's: the receiver of frames tells.
    row(DropCause::Altered, Receiver, Stage::ReceiverApplication, Whole, &[]),
    row(DropCause::TcpErrors, Receiver, Stage::ReceiverStack, Segments, &[&["Tcp InErrs"]]),
    row(
        DropCause::TcpBuffer,
        Receiver,
        Stage::ReceiverSocket,
        Segments,
        &[&["TcpExt TCPBacklogDrop", "TcpExt TCPRcvQDrop", "TcpExt TCPOFODrop", "TcpExt RcvPruned"]],
    ),
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
