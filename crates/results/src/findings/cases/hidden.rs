//! Recorded faults that other packets, buffers of several segments, or the trial's own shape hide.
//! Measured by nobody.

use linerate_machine::end::Direction::{self, Rx, Tx};
use linerate_machine::end::End;
use linerate_path::stage::Stage;
use linerate_trial::doubt::{Doubted, SenderLimit};
use linerate_trial::event::{Event, EventKind};
use linerate_trial::spec::Workload;

use super::{
    FaultCase, acknowledged, arrivals, between_links, case, cpus, crowded, idle, limited, lose, nic, of_segments,
    over_tcp, rr, tcp, tcp_of, udp,
};
use crate::record::{Counted, FlowFigures, Losses, Record, StreamFigures};
use crate::time_budget::Limit;

/// Every one of them.
pub(super) fn cases() -> Vec<FaultCase> {
    let losses = |record: &mut Record, of: Counted, direction: Direction, sent: u64, lost: u64| {
        record.losses = vec![Losses { direction, of, sent, arrived: sent - lost, unaccounted: lost as i64 }];
    };
    let segments = |record: &mut Record, direction: Direction, sent: u64, lost: u64| {
        (tcp_of(record).segments_sent, tcp_of(record).segments_lost) = (Some(sent), Some(lost));
        losses(record, Counted::Segments, direction, sent, lost);
    };
    let no_room = |record: &mut Record, offered_bps: f64| {
        record.result.as_mut().expect("figures").flow.achieved_load_bps = Some(offered_bps);
        let held_up = Some(SenderLimit::NoRoom { worked: 0.02, shaper: None });
        record.doubts.push(Doubted::SenderFellBehind { asked_bps: 100e6, offered_bps, held_up }.into());
    };
    let streams = |record: &mut Record, lost: [u64; 6]| {
        let result = record.result.as_mut().expect("figures");
        let sent = result.flow.packets_sent.expect("a UDP stream") / 6;
        let stream = |(id, lost): (u16, &u64)| {
            let (packets_sent, packets_lost) = (Some(sent), Some(*lost));
            let flow = FlowFigures { packets_sent, packets_lost, ..FlowFigures::default() };
            StreamFigures { id, direction: Rx, flow }
        };
        result.streams = (0..).zip(&lost).map(stream).collect();
        lost.iter().sum::<u64>()
    };
    vec![
        case(
            "a loss on the way beside another machine's packets",
            "lossy-path",
            &["unaccounted"],
            udp(Rx, 300, 290.0),
            |r| {
                let sent = 51_020;
                let lost = lose(r, 1_700);
                losses(r, Counted::Datagrams, Rx, sent, lost);
                between_links(r, sent, lost);
                // As many as are missing, and a few more.
                r.target.counters.add(Stage::DriverRxRing, "link rx_packets", 1_800);
                r.target.counters.add(Stage::ReceiverStack, "Ip InDelivers", sent - lost + 1_800);
            },
        ),
        case(
            "a small loss on the way beside as many packets to a group that nobody joined",
            "lossy-path",
            &["unaccounted"],
            udp(Rx, 3, 3.0),
            |r| {
                let lost = lose(r, 15);
                let sent = r.result.as_ref().and_then(|figures| figures.flow.packets_sent).expect("a UDP stream");
                losses(r, Counted::Datagrams, Rx, sent, lost);
                r.host.counters.add(Stage::DriverTxRing, "link tx_packets", sent + 15);
                r.host.counters.add(Stage::SenderStack, "IpExt OutMcastPkts", 15);
                r.target.counters.add(Stage::DriverRxRing, "link rx_packets", sent);
                r.target.counters.add(Stage::ReceiverStack, "Ip InReceives", sent);
                r.target.counters.add(Stage::ReceiverStack, "Ip InDelivers", sent - lost);
            },
        ),
        case(
            "a small loss on the way beside as many packets that a third machine sends to a group",
            "lossy-path",
            &["unaccounted"],
            udp(Rx, 3, 3.0),
            |r| {
                let lost = lose(r, 15);
                let sent = r.result.as_ref().and_then(|figures| figures.flow.packets_sent).expect("a UDP stream");
                losses(r, Counted::Datagrams, Rx, sent, lost);
                r.host.counters.add(Stage::DriverTxRing, "link tx_packets", sent);
                r.target.counters.add(Stage::DriverRxRing, "link rx_packets", sent);
                for (end, received, delivered) in [(&mut r.host, 16, 1), (&mut r.target, sent, sent - lost)] {
                    end.counters.add(Stage::ReceiverStack, "Ip InReceives", received);
                    end.counters.add(Stage::ReceiverStack, "Ip InDelivers", delivered);
                }
            },
        ),
        case(
            "a loss on the way beside what the sender sends others",
            "lossy-path",
            &["unaccounted"],
            udp(Rx, 300, 290.0),
            |r| {
                let sent = 51_020;
                let lost = lose(r, 1_700);
                losses(r, Counted::Datagrams, Rx, sent, lost);
                // Of the others as many are lost, and come to a closed port.
                between_links(r, 2 * sent, 2 * lost);
                r.host.counters.add(Stage::SenderStack, "Ip OutRequests", 2 * sent);
                r.target.counters.add(Stage::ReceiverStack, "Ip InDelivers", 2 * (sent - lost));
                r.target.counters.add(Stage::ReceiverStack, "Udp NoPorts", sent - lost);
            },
        ),
        case(
            "segments that an egress filter of the sender's takes",
            "unaccounted",
            &["lossy-path"],
            tcp(Rx, 9.0),
            |r| {
                segments(r, Rx, 1_435, 60);
                r.host.counters.add(Stage::DriverTxRing, "link tx_packets", 1_376);
                r.target.counters.add(Stage::DriverRxRing, "link rx_packets", 1_376);
            },
        ),
        case(
            "segments that an egress filter takes behind a discipline that counts buffers' segments",
            "unaccounted",
            &["lossy-path"],
            tcp(Rx, 9.0),
            |r| {
                segments(r, Rx, 1_435, 120);
                // Both links count buffers, of which the discipline saw every segment that came to it.
                r.host.counters.add(Stage::Qdisc, "eth0 fq packets", 1_318);
                r.host.counters.add(Stage::DriverTxRing, "link tx_packets", 330);
                r.target.counters.add(Stage::DriverRxRing, "link rx_packets", 330);
            },
        ),
        case(
            "buffers of segments, of which a policer on the way takes some and a shaper cuts others apart",
            "lossy-path",
            &["unaccounted"],
            tcp(Rx, 9.0),
            |r| {
                segments(r, Rx, 1_930, 245);
                (tcp_of(r).mss, tcp_of(r).timestamps, tcp_of(r).retransmissions) = (Some(1448), Some(true), 245);
                octets_of_buffers(r, [346, 343], [1_930, 1_685]);
            },
        ),
        case(
            "buffers of segments that a filter at the receiver's ingress takes",
            "unaccounted",
            &["lossy-path"],
            tcp(Rx, 9.0),
            |r| {
                segments(r, Rx, 1_930, 245);
                (tcp_of(r).mss, tcp_of(r).timestamps) = (Some(1448), Some(true));
                octets_of_buffers(r, [346, 346], [1_930, 1_930]);
            },
        ),
        case(
            "buffers of segments that a filter at the receiver's ingress takes, behind a shaper that cuts them apart",
            "unaccounted",
            &["lossy-path"],
            tcp(Rx, 9.0),
            |r| {
                segments(r, Rx, 7_200, 54);
                (tcp_of(r).mss, tcp_of(r).timestamps) = (Some(1448), Some(true));
                octets_of_buffers(r, [1_062, 1_265], [7_200, 7_200]);
            },
        ),
        case(
            "segments that a program at the receiver's link takes",
            "unaccounted",
            &["lossy-path"],
            tcp(Rx, 9.0),
            |r| {
                (tcp_of(r).segments_sent, tcp_of(r).retransmissions) = (Some(1_435), 150);
                tcp_of(r).segments_lost = None;
                r.target.counters.add(Stage::DriverRxRing, "link rx_packets", 1_430);
                r.target.counters.add(Stage::ReceiverStack, "Tcp InSegs", 1_280);
            },
        ),
        case("segments that the receiver merges, and a few lost", "lossy-path", &["unaccounted"], tcp(Rx, 9.0), |r| {
            (tcp_of(r).segments_sent, tcp_of(r).retransmissions) = (Some(5_435), 16);
            tcp_of(r).segments_lost = Some(16);
            r.target.counters.add(Stage::DriverRxRing, "link rx_packets", 5_430);
            r.target.counters.add(Stage::ReceiverStack, "Tcp InSegs", 900);
        }),
        case("a few packets behind the link, beside others' on both links", "unaccounted", &[], udp(Rx, 3, 3.0), |r| {
            let lost = lose(r, 15);
            let sent = r.result.as_ref().and_then(|figures| figures.flow.packets_sent).expect("a UDP stream");
            r.host.counters.add(Stage::DriverTxRing, "link tx_packets", sent + 12);
            r.target.counters.add(Stage::DriverRxRing, "link rx_packets", sent + 12);
            for (name, count) in [("Ip6 InReceives", 11), ("Ip InReceives", sent + 1 - lost)] {
                r.target.counters.add(Stage::ReceiverStack, name, count);
            }
            r.host.counters.add(Stage::SenderStack, "Ip6 OutTransmits", 1);
        }),
        case("losses that nobody counted to the end, without SACK", "lossy-path", &[], tcp(Rx, 14.0), |r| {
            let tcp = tcp_of(r);
            (tcp.retransmissions, tcp.segments_lost, tcp.segments_sent) = (900, None, Some(3854));
            tcp.spurious_retransmissions = None;
            between_links(r, 3900, 100);
            limited(r, Limit::CongestionWindow, None, 0.9);
        }),
        case("a policer, and BBR", "lossy-path", &[], tcp(Rx, 18.0), |r| {
            let tcp = tcp_of(r);
            (tcp.retransmissions, tcp.segments_lost, tcp.segments_sent) = (300, Some(303), Some(5007));
            tcp.congestion_control = Some("bbr".to_owned());
            r.losses = vec![of_segments(Rx, 303, 303)];
            limited(r, Limit::Pacing, None, 0.66);
        }),
        case(
            "acknowledgements that are lost beside a full queue",
            "bottleneck",
            &["acknowledgements"],
            tcp(Rx, 47.8),
            |r| {
                tcp_of(r).rtt_s = Some(12.6e-3);
                acknowledged(r, [6431, 3267]);
                limited(r, Limit::Path, None, 0.97);
            },
        ),
        case("acknowledgements that were counted earlier than data", "lossy-path", &[], tcp(Rx, 14.0), |r| {
            let tcp = tcp_of(r);
            (tcp.retransmissions, tcp.segments_lost, tcp.segments_sent) = (130, Some(127), Some(5007));
            tcp.rtt_s = Some(12e-3);
            r.losses = vec![of_segments(Rx, 127, 127)];
            r.host.counters.add(Stage::DriverTxRing, "link tx_packets", 4710);
            r.target.counters.add(Stage::DriverRxRing, "link rx_packets", 6182);
            acknowledged(r, [6094, 4507]);
            limited(r, Limit::CongestionWindow, None, 0.9);
        }),
        case(
            "neighbours that others on the machine wait for",
            "bottleneck",
            &["acknowledgements"],
            tcp(Rx, 0.06),
            |r| {
                r.doubts.push(Doubted::SharedMachine.into());
                tcp_of(r).rtt_s = Some(1.5);
                r.target.counters.add(Stage::SenderStack, "arp_cache unresolved_discards", 26);
                acknowledged(r, [26, 20]);
                limited(r, Limit::Path, None, 0.9);
            },
        ),
        case(
            "an address that another machine took at last",
            "neighbour-changed",
            &["lossy-path"],
            udp(Rx, 100, 85.0),
            |r| {
                let lost = lose(r, 2_550);
                between_links(r, 17_010, lost);
                let what = EventKind::NeighbourChanged {
                    address: "10.0.0.2".to_owned(),
                    from: "00:19:b8:00:12:34".to_owned(),
                    to: "00:19:b8:00:12:77".to_owned(),
                };
                r.events = vec![Event { at_s: 1.7, for_s: None, within_s: 0.05, end: Some(End::Host), what }];
                r.doubts.push(Doubted::EndMarkLost { flow: 0 }.into());
            },
        ),
        case("a tunnel over an interface that shapes", "transmit-ring", &[], udp(Tx, 30, 18.0), |r| {
            let lost = lose(r, 1_771);
            nic(&mut r.target).driver = Some("vxlan".to_owned());
            r.target.counters.add(Stage::DriverTxRing, "link tx_dropped", lost);
        }),
        case("a bad link of several that flows are spread over", "lossy-path", &[], udp(Rx, 300, 270.0), |r| {
            let lost = streams(r, [2_500, 0, 2_600, 0, 0, 0]);
            let lost = lose(r, lost);
            between_links(r, 51_030, lost);
        }),
        case("several streams above what passes", "bottleneck", &["lossy-path"], udp(Rx, 600, 300.0), |r| {
            let lost = streams(r, [8_400, 8_500, 8_600, 8_500, 8_450, 8_550]);
            drop(r.asked.insert("streams".to_owned(), "6".to_owned()));
            let lost = lose(r, lost);
            between_links(r, 102_040, lost);
            // One by one, as in each stream alone.
            arrivals(r, &[], &[(1, lost / 4), (2, lost / 4), (3, lost / 12)]);
        }),
        case("a shaper below the interface that is looked at", "shaper", &["host-limits"], udp(Tx, 100, 42.0), |r| {
            no_room(r, 42e6);
            limited(r, Limit::Qdisc, Some(End::Target), 0.58);
        }),
        case("a shaper by which the receiver takes packets in", "bottleneck", &[], tcp(Tx, 30.0), |r| {
            limited(r, Limit::Path, None, 0.97);
            r.host.counters.add(Stage::DriverRxRing, "ifb0 tbf overlimits", 10_029);
        }),
        case("bursts of the trial that a short queue has no room for", "lossy-path", &[], udp(Rx, 300, 100.0), |r| {
            drop(r.asked.insert("burst".to_owned(), "60".to_owned()));
            let lost = lose(r, 34_000);
            between_links(r, 51_030, lost);
            arrivals(r, &[(100_000, 17_000)], &[(40, 850)]);
        }),
        case("a way that stops for 100 ms, twice a second", "short-stalls", &[], udp(Rx, 10, 10.0), |r| {
            arrivals(r, &[(1_100_000, 1_500), (100_000_000, 4)], &[]);
        }),
        case("TCP's memory used up", "receive-buffer", &["lossy-path"], tcp(Rx, 20.0), |r| {
            segments(r, Rx, 5_000, 100);
            r.target.counters.add(Stage::ReceiverSocket, "TcpExt TCPMemoryPressures", 3);
        }),
        case("a sender that other programs leave little", "sender-cpu", &["sender-starved"], tcp(Tx, 300.0), |r| {
            crowded(r, "unlimited", 1.1, 0.8);
        }),
        case("a sender whose control group has a quota", "sender-cpu", &[], tcp(Tx, 300.0), |r| {
            let threads = r.target.threads.as_mut().expect("they are told");
            (threads.user_s, threads.system_s, threads.run_delay_s) = (0.0, 0.16, Some(1.84));
            for machine in [&mut r.target, &mut r.host] {
                cpus(machine, &[idle(); 2]);
            }
        }),
        case("answers of which each waits for TCP's timer", "retransmission-timeout", &[], rr(0.43), |r| {
            over_tcp(r, 0);
            let latency = r.result.as_mut().and_then(|figures| figures.latency.as_mut()).expect("it is timed");
            latency.histogram = Default::default();
            latency.histogram.record_n(430_000_000, 4);
            (latency.count, latency.min_s) = (4, Some(0.43));
            r.host.counters.add(Stage::SenderStack, "Tcp RetransSegs", 5);
            r.workload = Workload::TcpRr;
            for machine in [&mut r.target, &mut r.host] {
                cpus(machine, &[idle(); 2]);
            }
        }),
    ]
}

/// What both links count of so many buffers with so many full segments in them.
fn octets_of_buffers(record: &mut Record, packets: [u64; 2], segments: [u64; 2]) {
    record.host.counters.add(Stage::DriverTxRing, "link tx_packets", packets[0]);
    record.target.counters.add(Stage::DriverRxRing, "link rx_packets", packets[1]);
    let [left, came] = [0, 1].map(|at| segments[at] * 1448 + packets[at] * 66);
    record.host.counters.add(Stage::DriverTxRing, "link tx_bytes", left);
    record.target.counters.add(Stage::DriverRxRing, "link rx_bytes", came);
}
