//! Which counters mean that a datagram was dropped, and which of them count the same drop: one table.
//! Knows no figures; [`super`] reads them by it.

use crate::stage::Stage;

use Machine::{Receiver, Sender};
use Unit::{Datagrams as Whole, Frames};

/// A way to drop a datagram, and who counts it.
pub(super) struct Drop {
    pub(super) id: Id,
    pub(super) machine: Machine,
    pub(super) stage: Stage,
    pub(super) unit: Unit,
    /// Alternatives that count the same drops, so the largest is taken. Each is a sum of counters at `stage`,
    /// by name, see [`fits`].
    pub(super) sources: &'static [&'static [&'static str]],
    /// Drops that these counters include, and that have a line of their own.
    pub(super) includes: &'static [Id],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Id {
    Qdisc,
    TxRing,
    MacTx,
    SenderIp,
    SendBuffer,
    Damaged,
    Length,
    Fifo,
    NoBuffer,
    OtherErrors,
    RedirectQueue,
    Backlog,
    Ingress,
    DriverDrops,
    ReceiverIp,
    NoPort,
    Checksum,
    ReceiveBuffer,
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
}

/// The counters that mean "dropped here". An entry may include only entries above it.
///
/// A datagram that a root qdisc refuses is counted by the qdisc, by `Ip OutDiscards` (net/ipv4/ip_output.c,
/// ip_send_skb) and by `Udp SndbufErrors` (net/ipv4/udp.c, udp_send_skb), and is an error of send(2) besides
/// where IP_RECVERR is set: one drop, up to four counters. A full backlog is counted by softnet and by the
/// interface's rx_dropped (net/core/dev.c, enqueue_to_backlog), and by the tx_dropped of a veth that fed it.
pub(super) const DROPS: [Drop; 18] = [
    Drop {
        id: Id::Qdisc,
        machine: Sender,
        stage: Stage::Qdisc,
        unit: Frames,
        sources: &[&["* * drops"]],
        includes: &[],
    },
    Drop {
        id: Id::TxRing,
        machine: Sender,
        stage: Stage::DriverTxRing,
        unit: Frames,
        sources: &[
            &["link tx_dropped"],
            &["driver tx_dropped"],
            &["driver tx_drops"],
            &["driver tx_queue_#_drops"],
            &["driver tx#_drops"],
        ],
        includes: &[],
    },
    Drop {
        id: Id::MacTx,
        machine: Sender,
        stage: Stage::MacTx,
        unit: Frames,
        sources: &[
            &["link tx_errors"],
            &["link tx_aborted_errors", "link tx_carrier_errors", "link tx_fifo_errors", "link tx_window_errors"],
            &["driver tx_errors"],
            &["driver tx_aborted_errors", "driver tx_carrier_errors", "driver tx_fifo_errors", "driver tx_underrun*"],
        ],
        includes: &[],
    },
    Drop {
        id: Id::SenderIp,
        machine: Sender,
        stage: Stage::SenderStack,
        unit: Whole,
        sources: &[&["Ip OutDiscards", "Ip6 OutDiscards", "Ip OutNoRoutes", "Ip6 OutNoRoutes"]],
        includes: &[Id::Qdisc, Id::TxRing],
    },
    Drop {
        id: Id::SendBuffer,
        machine: Sender,
        stage: Stage::SenderSocket,
        unit: Whole,
        sources: &[&["Udp SndbufErrors", "Udp6 SndbufErrors"]],
        includes: &[Id::Qdisc, Id::TxRing, Id::SenderIp],
    },
    Drop {
        id: Id::Damaged,
        machine: Receiver,
        stage: Stage::Link,
        unit: Frames,
        sources: &[
            &["link rx_crc_errors", "link rx_frame_errors"],
            &["driver rx_crc_errors", "driver rx_frame_errors", "driver rx_align_errors"],
        ],
        includes: &[],
    },
    Drop {
        id: Id::Length,
        machine: Receiver,
        stage: Stage::MacRxFifo,
        unit: Frames,
        sources: &[&["link rx_length_errors"], &["driver rx_length_errors"]],
        includes: &[],
    },
    // "historically used interchangeably" (Documentation/networking/statistics.rst, of rx_over_errors and
    // rx_fifo_errors), so they are alternatives.
    Drop {
        id: Id::Fifo,
        machine: Receiver,
        stage: Stage::MacRxFifo,
        unit: Frames,
        sources: &[
            &["link rx_fifo_errors"],
            &["link rx_over_errors"],
            &["driver rx_fifo_errors"],
            &["driver rx_over_errors"],
            &["driver rx_overruns"],
        ],
        includes: &[],
    },
    Drop {
        id: Id::NoBuffer,
        machine: Receiver,
        stage: Stage::DriverRxRing,
        unit: Frames,
        sources: &[
            &["link rx_missed_errors"],
            &["driver rx_missed_errors"],
            &["driver rx_missed"],
            &["driver rx_no_buffer*"],
            &["driver rx_out_of_buffer"],
            &["driver rx_no_dma_resources"],
        ],
        includes: &[],
    },
    // "must include events counted by rx_length_errors, rx_crc_errors, rx_frame_errors and other errors not
    // otherwise counted"; some drivers add the other two.
    Drop {
        id: Id::OtherErrors,
        machine: Receiver,
        stage: Stage::MacRxFifo,
        unit: Frames,
        sources: &[&["link rx_errors"], &["driver rx_errors"]],
        includes: &[Id::Damaged, Id::Length, Id::Fifo, Id::NoBuffer],
    },
    Drop {
        id: Id::RedirectQueue,
        machine: Receiver,
        stage: Stage::DriverRxRing,
        unit: Frames,
        sources: &[&["* * drops"]],
        includes: &[],
    },
    Drop {
        id: Id::Backlog,
        machine: Receiver,
        stage: Stage::SoftirqBacklog,
        unit: Frames,
        sources: &[&["softnet dropped"]],
        includes: &[],
    },
    Drop {
        id: Id::Ingress,
        machine: Receiver,
        stage: Stage::SoftirqBacklog,
        unit: Frames,
        sources: &[&["* * drops"]],
        includes: &[],
    },
    Drop {
        id: Id::DriverDrops,
        machine: Receiver,
        stage: Stage::DriverRxRing,
        unit: Frames,
        sources: &[
            &["link rx_dropped"],
            &["driver rx_dropped"],
            &["driver rx_drops"],
            &["driver rx_queue_#_drops"],
            &["driver rx#_drops"],
        ],
        includes: &[Id::Backlog],
    },
    Drop {
        id: Id::ReceiverIp,
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
        id: Id::NoPort,
        machine: Receiver,
        stage: Stage::ReceiverStack,
        unit: Whole,
        sources: &[&["Udp NoPorts", "Udp6 NoPorts"]],
        includes: &[],
    },
    Drop {
        id: Id::Checksum,
        machine: Receiver,
        stage: Stage::ReceiverStack,
        unit: Whole,
        sources: &[&["Udp InCsumErrors", "Udp6 InCsumErrors"]],
        includes: &[],
    },
    Drop {
        id: Id::ReceiveBuffer,
        machine: Receiver,
        stage: Stage::ReceiverSocket,
        unit: Whole,
        sources: &[&["Udp RcvbufErrors", "Udp6 RcvbufErrors", "Udp MemErrors", "Udp6 MemErrors"]],
        includes: &[],
    },
];

/// Whether a counter's name fits: `*` stands for any text, `#` for a number. With a star, a name with `@` does
/// not: it is a queue below a root, whose drops the root counts too.
pub(super) fn fits(pattern: &str, name: &str) -> bool {
    fn matches(pattern: &str, name: &str) -> bool {
        let Some(at) = pattern.find(['*', '#']) else { return pattern == name };
        let (start, rest) = (&pattern[..at], &pattern[at + 1..]);
        let Some(name) = name.strip_prefix(start) else { return false };
        if pattern[at..].starts_with('#') {
            let digits = name.bytes().take_while(u8::is_ascii_digit).count();
            return digits > 0 && matches(rest, &name[digits..]);
        }
        (0..=name.len()).any(|at| name.is_char_boundary(at) && matches(rest, &name[at..]))
    }
    matches(pattern, name) && !(pattern.contains('*') && name.contains('@'))
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
    fn names_fit_patterns() {
        for (pattern, name, want) in [
            ("* * drops", "eth0 tbf drops", true),
            ("* * drops", "eth0 fq_codel@1:2 drops", false),
            ("* * drops", "driver rx_drops", false),
            ("driver rx#_drops", "driver rx12_drops", true),
            ("driver rx#_drops", "driver rx_drops", false),
            ("driver rx#_drops", "driver rx0_xdp_drops", false),
            ("link rx_dropped", "link rx_dropped", true),
        ] {
            assert_eq!(fits(pattern, name), want, "{pattern} {name}");
        }
    }
}
