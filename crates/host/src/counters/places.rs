//! Which counter belongs to which stage of the path: one table.
//! Knows names only, not who reads them; queueing disciplines are placed by their device, in `qdisc`.
//!
//! A machine both sends and receives: what counts received packets is at a receiver's stage, what counts sent
//! ones at a sender's. Statistics that a driver names as it likes stay [`Stage::Unplaced`] here and keep their raw
//! names: whoever reads them places them by the driver's table (`linerate_trial::drivers`), so that a machine need
//! not carry the tables of all drivers.

use linerate_trial::pattern::fits;
use linerate_trial::stage::Stage::{self, *};

/// The stage of the counter `name`, as [`super`] writes names.
pub fn stage_of(name: &str) -> Stage {
    PLACES.iter().find(|(pattern, _)| fits(pattern, name)).map_or(Unplaced, |&(_, stage)| stage)
}

/// Patterns in which `*` stands for any text, and their stages; the first that fits counts.
///
/// Link statistics by Documentation/networking/statistics.rst; the stack's by RFC 4293 (Ip, Ip6), 4022 (Tcp),
/// 4113 (Udp) and include/uapi/linux/snmp.h.
const PLACES: &[(&str, Stage)] = &[
    // Frames that were damaged before they came here: the cable, or the other MAC.
    ("link rx_crc_errors", Link),
    ("link rx_frame_errors", Link),
    // Not of frames: how often the interface lost its carrier, or got it back.
    ("link carrier_changes", Link),
    ("link rx_length_errors", MacRxFifo),
    ("link rx_errors", MacRxFifo),
    ("link rx_fifo_errors", MacRxFifo),
    ("link rx_over_errors", MacRxFifo),
    // "packets dropped by the device due to lack of buffer space": no descriptor was free.
    ("link rx_missed_errors", DriverRxRing),
    // Good frames as the driver handed them up, those that are dropped later included.
    ("link rx_*", DriverRxRing),
    ("link multicast", DriverRxRing),
    ("link tx_dropped", DriverTxRing),
    ("link tx_packets", DriverTxRing),
    ("link tx_bytes", DriverTxRing),
    ("link tx_compressed", DriverTxRing),
    ("link tx_*", MacTx),
    ("link collisions", MacTx),
    // A MAC sends pause frames when its receive side fills, and stops sending when it gets them.
    ("pause tx_frames", MacRxFifo),
    ("pause rx_frames", MacTx),
    ("softnet *", SoftirqBacklog),
    ("softirq NET_RX", SoftirqBacklog),
    // NET_TX runs the queueing discipline where the sender itself could not.
    ("softirq NET_TX", Qdisc),
    // The MAC raises them; most say that the ring holds something.
    ("irq *", DriverRxRing),
    // Packets that wait for a neighbour's address, or find no room for it.
    ("arp_cache *", SenderStack),
    ("ndisc_cache *", SenderStack),
    // What a CPU does before it can poll: leave an idle state, run slower than it could.
    ("cpu *", SoftirqBacklog),
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
        check("nonsense", Unplaced);
        check("", Unplaced);
    }
}
