//! Recorded faults that show in time slices, and in both ends' counts of what was sent.
//! Measured by nobody.

use linerate_machine::end::Direction::{Rx, Tx};
use linerate_machine::end::End;
use linerate_machine::environment::IdleState;
use linerate_machine::probe::Protocol;
use linerate_path::stage::Stage;
use linerate_trial::event::{Event, EventKind};
use linerate_trial::outcome::TcpSample;
use linerate_trial::spec::Workload;

use super::{
    FaultCase, acknowledged, arrivals, between_links, case, clean, crowded, limited, lose, nic, of_segments, over_tcp,
    rr, slow, socket_drops, tcp, tcp_of, udp, waited, with_middle,
};
use crate::examination::{Examination, Passed, Probe, Step, StepResult};
use crate::record::{Counted, FlowFigures, Interval, Losses, Record, StreamFigures};
use crate::time_budget::{Limit, TimeLine};

/// Every one of them.
pub(super) fn cases() -> Vec<FaultCase> {
    let lossy = |record: &mut Record, lost: u64| {
        let direction = record.direction;
        let tcp = tcp_of(record);
        (tcp.retransmissions, tcp.segments_lost) = (lost, Some(lost));
        let sent = tcp.segments_sent.expect("a stream has them");
        let (of, arrived, unaccounted) = (Counted::Segments, sent - lost, lost as i64);
        record.losses = vec![Losses { direction, of, sent, arrived, unaccounted }];
    };
    // Of a connection with ECN each segment is lost once, and passes when it is retransmitted.
    let half_lost = |record: &mut Record| {
        let tcp = tcp_of(record);
        (tcp.retransmissions, tcp.segments_lost, tcp.segments_sent) = (70, Some(69), Some(144));
        tcp.ecn = Some(true);
        record.losses = vec![of_segments(Rx, 69, 69)];
        record.target.counters.add(Stage::ReceiverStack, "IpExt InNoECTPkts", 80);
        limited(record, Limit::CongestionWindow, None, 0.9);
    };
    let requests = |record: &mut Record, lost: [u64; 2]| {
        let sent = [10_000, 10_000 - lost[0]];
        let way = |direction, of, at: usize| {
            let (sent, lost) = (sent[at], lost[at]);
            Losses { direction, of, sent, arrived: sent - lost, unaccounted: lost as i64 }
        };
        record.losses = vec![way(Rx, Counted::Requests, 0), way(Tx, Counted::Answers, 1)];
        (record.loss_budget, record.unaccounted) = (Some(Vec::new()), Some(lost.iter().sum::<u64>() as i64));
    };
    // TCP as fast as it goes behind a queue, in slices of so many Mbit/s; for the share of the time nothing arrives.
    let interrupted = |record: &mut Record, mbit: &[f64], silent: f64| {
        tcp_of(record).rtt_s = Some(13e-3);
        lossy(record, 600);
        record.intervals = (0..).zip(mbit).map(|(at, mbit)| slice_of(at, *mbit)).collect();
        limited(record, Limit::Path, None, 0.95 - silent);
        limited_too(record, Limit::Outage, silent);
    };
    let carrier = |end: End| {
        let what = EventKind::CarrierLost { interface: "eth0".to_owned() };
        event(0.68, Some(0.3), Some(end), what)
    };
    vec![
        case("TCP whose link was out for a moment", "link-down", &["lossy-path", "bottleneck"], tcp(Rx, 28.2), |r| {
            interrupted(r, &[32.8, 14.1, 47.6], 0.34);
            r.host.counters.add(Stage::Link, "link carrier_changes", 2);
            let stall = EventKind::Stall { direction: Some(Rx), lost_share: Some(0.9) };
            r.events = vec![carrier(End::Host), event(0.7, Some(0.8), None, stall)];
        }),
        case(
            "TCP whose timer did not come back after its link did",
            "link-down",
            &["lossy-path", "bottleneck"],
            tcp(Rx, 13.3),
            |r| {
                interrupted(r, &[33.1, 0.0], 0.6);
                r.host.counters.add(Stage::Link, "link carrier_changes", 2);
                let died = EventKind::FlowDied { flow: 0, direction: Some(Rx), lost_share: Some(0.9) };
                r.events = vec![carrier(End::Host), event(0.7, None, None, died)];
            },
        ),
        case(
            "TCP, and a port of the middle that was out for a moment",
            "link-down",
            &["lossy-path", "bottleneck", "middle-drops"],
            tcp(Rx, 28.2),
            |r| {
                interrupted(r, &[32.8, 14.1, 47.6], 0.34);
                let middle = with_middle(r);
                middle.ports.host.counters.add(Stage::Link, "link carrier_changes", 2);
                let stall = EventKind::Stall { direction: Some(Rx), lost_share: Some(0.9) };
                r.events = vec![event(0.7, Some(0.8), None, stall)];
            },
        ),
        case("a link that was out too shortly to matter", "bottleneck", &["lossy-path"], tcp(Rx, 47.0), |r| {
            interrupted(r, &[47.6, 46.2, 47.6], 0.03);
            r.host.counters.add(Stage::Link, "link carrier_changes", 2);
            let stall = EventKind::Stall { direction: Some(Rx), lost_share: Some(0.1) };
            r.events = vec![carrier(End::Host), event(0.7, Some(0.08), None, stall)];
        }),
        case("a small loss in mid-trial, and the queue before it", "lossy-path", &["bottleneck"], tcp(Rx, 31.7), |r| {
            tcp_of(r).rtt_s = Some(1.5e-3);
            lossy(r, 1_200);
            limited(r, Limit::Path, None, 0.47);
            limited_too(r, Limit::CongestionWindow, 0.4);
        }),
        case(
            "a shaper of the router in the middle whose rate is not used",
            "bottleneck",
            &["lossy-path"],
            tcp(Rx, 24.0),
            |r| {
                tcp_of(r).rtt_s = Some(24e-3);
                limited(r, Limit::Path, None, 0.9);
                let port = &mut with_middle(r).ports.target;
                port.counters.add(Stage::Qdisc, "p1 tbf packets", 9_000);
                port.counters.add(Stage::Qdisc, "p1 tbf overlimits", 4_000);
                let nic = port.nic.as_mut().expect("it has one");
                nic.qdiscs = vec!["tbf rate 50M burst 20K limit 100K".to_owned()];
            },
        ),
        case(
            "a silence of two long round trips behind a slow link",
            "bottleneck",
            &["outage", "lossy-path"],
            tcp(Rx, 0.2),
            |r| {
                (tcp_of(r).rtt_s, tcp_of(r).min_rtt_s) = (Some(0.78), Some(3e-3));
                limited(r, Limit::Path, None, 0.8);
                let stall = EventKind::Stall { direction: Some(Rx), lost_share: Some(0.9) };
                r.events = vec![event(0.7, Some(0.7), None, stall)];
            },
        ),
        case("a policer of both ways that takes half of the data", "lossy-path", &[], tcp(Rx, 0.32), |r| {
            let tcp = tcp_of(r);
            (tcp.retransmissions, tcp.segments_lost, tcp.segments_sent) = (85, Some(85), Some(169));
            r.host.counters.add(Stage::DriverTxRing, "link tx_packets", 184);
            r.target.counters.add(Stage::DriverRxRing, "link rx_packets", 98);
            acknowledged(r, [97, 72]);
        }),
        case("UDP's memory used up", "receive-buffer", &[], udp(Rx, 300, 240.0), |r| {
            socket_drops(r, 9_000);
            r.target.counters.add(Stage::ReceiverSocket, "Udp MemErrors", 9_000);
        }),
        case("a token bucket at the sender's egress", "shaper", &[], tcp(Tx, 48.0), |r| {
            nic(&mut r.target).qdisc = Some("tbf".to_owned());
            limited(r, Limit::Shaper, Some(End::Target), 0.97);
        }),
        case("a shaper that is set to a fifth in mid-trial", "shaper", &[], udp(Tx, 100, 73.4), |r| {
            nic(&mut r.target).qdisc = Some("tbf".to_owned());
            limited(r, Limit::Shaper, Some(End::Target), 0.287);
        }),
        case("a way that got slower in mid-trial", "bottleneck", &[], tcp(Tx, 135.0), |r| {
            tcp_of(r).rtt_s = Some(24e-3);
            limited(r, Limit::Path, None, 0.9);
            let what = EventKind::RateChanged { direction: Some(Tx), from_bps: 190e6, to_bps: 19.1e6 };
            r.events = vec![event(1.1, None, None, what)];
        }),
        case("a shaper on the way that comes and goes", "slow-time", &[], tcp(Tx, 135.0), |r| {
            limited(r, Limit::Path, None, 0.28);
            let what = EventKind::RateChanged { direction: Some(Tx), from_bps: 190e6, to_bps: 8.5e6 };
            r.events = vec![event(0.6, Some(0.6), None, what)];
        }),
        case("datagrams that wait in a deep queue on the way", "bottleneck", &[], udp(Rx, 20, 9.75), |r| {
            between_links(r, 3_400, 1_500);
        }),
        case("two streams of eight by a dead member of a bond", "dead-flows", &[], udp(Rx, 80, 60.0), |r| {
            let sent = lose(r, 3_400) * 4;
            between_links(r, sent, 3_400);
            let result = r.result.as_mut().expect("figures");
            let stream = |id: u16| {
                let lost = if id < 2 { sent / 8 } else { 0 };
                let (packets_sent, packets_lost) = (Some(sent / 8), Some(lost));
                let flow = FlowFigures { packets_sent, packets_lost, ..FlowFigures::default() };
                StreamFigures { id, direction: Rx, flow }
            };
            result.streams = (0..8).map(stream).collect();
            // Each dead stream's one burst.
            result.flow.loss_bursts = Some([(1_700, 2)].into());
        }),
        clean("a way whose packets take now this long and now that", tcp(Tx, 95.0), |r| {
            (tcp_of(r).rtt_s, tcp_of(r).min_rtt_s) = (Some(60e-3), Some(12e-3));
            limited(r, Limit::Path, None, 0.9);
            let sample = TcpSample { rtt_us: 60_000, ..TcpSample::default() };
            let slice = |bps| Interval { throughput_bps: Some(bps), tcp: Some(sample.clone()), ..Interval::default() };
            r.intervals = [60e6, 65e6, 160e6].map(slice).to_vec();
        }),
        case("a router that drops what is ECN-capable", "ecn-dropped", &["lossy-path"], tcp(Rx, 1.0), |r| half_lost(r)),
        case("the same losses of what arrives ECN-capable", "lossy-path", &["ecn-dropped"], tcp(Rx, 1.0), |r| {
            half_lost(r);
            r.target.counters.add(Stage::ReceiverStack, "IpExt InECT0Pkts", 60);
        }),
        case("window scaling that is taken off the SYNs", "receive-window", &[], tcp(Rx, 26.0), |r| {
            let tcp = tcp_of(r);
            tcp.window_scaling = Some(false);
            tcp.limited_by_receive_window = Some(0.98);
            limited(r, Limit::ReceiveWindow, Some(End::Target), 0.98);
        }),
        clean("a stream that stands still, with a window full of what was lost", tcp(Tx, 0.1), |r| {
            let tcp = tcp_of(r);
            (tcp.limited_by_receive_window, tcp.rtt_s, tcp.min_rtt_s) = (Some(1.0), Some(22e-6), Some(6e-6));
            limited(r, Limit::Outage, None, 0.8);
        }),
        case("a slower link on the way", "bottleneck", &[], tcp(Tx, 95.0), |r| {
            tcp_of(r).rtt_s = Some(24e-3);
            limited(r, Limit::Path, None, 0.9);
        }),
        case("a shaper of the router in the middle", "bottleneck", &[], tcp(Tx, 95.0), |r| {
            tcp_of(r).rtt_s = Some(24e-3);
            limited(r, Limit::Path, None, 0.9);
            let middle = with_middle(r);
            for (field, value) in [("packets", 9_000), ("overlimits", 4_000)] {
                middle.ports.host.counters.add(Stage::Qdisc, format!("p0 tbf {field}"), value);
                middle.ports.target.counters.add(Stage::Qdisc, format!("p1 fq_codel {field}"), value);
            }
        }),
        case("segments marked as congested", "congestion-marks", &[], tcp(Tx, 95.0), |r| {
            tcp_of(r).rtt_s = Some(2e-3);
            r.target.counters.add(Stage::SenderSocket, "TcpExt TCPDeliveredCE", 300);
            limited(r, Limit::CongestionWindow, None, 0.9);
        }),
        case("segments marked by the receiver's count alone", "congestion-marks", &[], tcp(Tx, 95.0), |r| {
            tcp_of(r).rtt_s = Some(2e-3);
            r.host.counters.add(Stage::ReceiverStack, "IpExt InCEPkts", 300);
            limited(r, Limit::Path, None, 0.9);
        }),
        case("one segment of fifty lost on the way", "lossy-path", &[], tcp(Tx, 15.0), |r| {
            tcp_of(r).rtt_s = Some(10e-3);
            lossy(r, 51);
        }),
        case("packets doubled on the way", "duplicates", &[], udp(Rx, 100, 100.0), |r| {
            r.result.as_mut().expect("figures").flow.packets_duplicated = Some(900);
        }),
        case("datagrams overtaken", "reordering", &[], udp(Rx, 100, 100.0), |r| {
            r.result.as_mut().expect("figures").flow.packets_reordered = Some(700);
        }),
        case("half a second of nothing", "outage", &["unaccounted"], udp(Rx, 100, 75.0), |r| {
            lose(r, 4_200);
            r.events = vec![event(0.7, Some(0.5), None, EventKind::Stall { direction: None, lost_share: Some(0.98) })];
        }),
        case(
            "a rate limit on the way that drops two of three",
            "bottleneck",
            &["unaccounted"],
            udp(Rx, 300, 100.0),
            |r| {
                let lost = lose(r, 34_000);
                between_links(r, 51_030, lost);
                // Two of three, and now and then three of four: what is lost comes in runs, what arrives at the rate's distance.
                arrivals(r, &[(117_600, 16_400), (156_800, 600)], &[(2, 16_400), (3, 400)]);
            },
        ),
        case(
            "a shaper at the sender, and a few of what it lets pass lost on the way",
            "qdisc-drops",
            &["lossy-path"],
            udp(Rx, 300, 100.0),
            |r| {
                let lost = lose(r, 34_000);
                r.host.counters.add(Stage::Qdisc, "eth0 tbf drops", lost - 600);
                between_links(r, 17_630, 600);
                arrivals(r, &[(117_600, 16_400), (156_800, 600)], &[(2, 16_400), (3, 400)]);
            },
        ),
        case("a policer whose bucket lets the first second pass", "bottleneck", &[], udp(Rx, 50, 30.0), |r| {
            let lost = lose(r, 3_400);
            between_links(r, 8_510, lost);
            // From then on 41 of 100 pass, at even distances; of all it is no more than two of five that are lost.
            arrivals(r, &[(235_200, 4_200), (573_000, 900)], &[(1, 1_350), (2, 1_025)]);
            let direction = Some(Rx);
            let what = EventKind::LossBegan { direction, loss_ratio: 0.59, throughput_bps: 20.4e6, steady: false };
            r.events = vec![event(0.95, None, None, what)];
        }),
        case(
            "a way that is far slower for a while, and loses what is above",
            "bottleneck",
            &[],
            udp(Rx, 60, 39.0),
            |r| {
                let lost = lose(r, 7_430);
                between_links(r, 21_360, lost);
                // As long runs as by chance; only from slice to slice does it vary less.
                arrivals(r, &[(187_000, 13_900), (2_800_000, 490)], &[(1, 80), (6, 160), (16, 150), (30, 133)]);
                let direction = Some(Rx);
                let what = EventKind::LossBegan { direction, loss_ratio: 0.935, throughput_bps: 3.9e6, steady: true };
                r.events = vec![event(0.6, Some(0.7), None, what)];
            },
        ),
        case("a way that stops for a tenth of a second now and then", "lossy-path", &[], udp(Rx, 40, 20.0), |r| {
            let lost = lose(r, 3_400);
            between_links(r, 6_812, lost);
            arrivals(r, &[(294_000, 3_400), (100_000_000, 10)], &[(340, 10)]);
        }),
        case("every twentieth lost on the way", "bottleneck", &[], udp(Rx, 40, 38.0), |r| {
            let lost = lose(r, 340);
            between_links(r, 6_812, lost);
            arrivals(r, &[(294_000, 6_120), (588_000, 340)], &[(1, 340)]);
        }),
        case("answers of which one in four is lost, at random", "lossy-path", &[], rr(300e-6), |r| {
            waited(r, [37, 10], 10.0);
            for for_s in [1.9, 2.8] {
                let stall = EventKind::Stall { direction: Some(Rx), lost_share: None };
                r.events.push(event(1.1 + 2.0 * for_s, Some(for_s), None, stall));
            }
        }),
        case("two answers of seven lost, one of which a counter may have seen", "lossy-path", &[], rr(300e-6), |r| {
            waited(r, [5, 2], 2.0);
            r.losses[1].unaccounted = 1;
        }),
        case(
            "requests that an outage kept waiting, and few that were lost else",
            "outage",
            &["lossy-path"],
            rr(300e-6),
            |r| {
                waited(r, [900, 5], 10.0);
                let stall = EventKind::Stall { direction: Some(Rx), lost_share: None };
                r.events = vec![event(4.1, Some(3.0), None, stall)];
            },
        ),
        case("two of three lost on the way by chance", "lossy-path", &["unaccounted"], udp(Rx, 300, 100.0), |r| {
            let lost = lose(r, 34_000);
            between_links(r, 51_030, lost);
            let by_chance = |k: i32| (17_000.0 / 3.0 * (2.0_f64 / 3.0).powi(k - 1)) as u64;
            let gaps: Vec<(u64, u64)> = (1..15).map(|k| (39_200 * k as u64, by_chance(k))).collect();
            let runs: Vec<(u64, u64)> = (1..15).map(|k| (k as u64, by_chance(k) * 2 / 3)).collect();
            arrivals(r, &gaps, &runs);
        }),
        case(
            "TCP that loses a third of all it sends, whose timer backs off",
            "lossy-path",
            &["outage"],
            tcp(Tx, 0.6),
            |r| {
                let tcp = tcp_of(r);
                (tcp.rtt_s, tcp.retransmissions, tcp.segments_sent) = (Some(1e-3), 125, Some(400));
                lossy(r, 125);
                r.losses[0] = Losses { sent: 400, arrived: 275, ..r.losses[0] };
                for (at_s, for_s, share) in [(0.25, 0.35, 0.4), (0.7, 0.7, 0.6)] {
                    let stall = EventKind::Stall { direction: Some(Tx), lost_share: Some(share) };
                    r.events.push(event(at_s, Some(for_s), None, stall));
                }
            },
        ),
        case("TCP that loses so much that its timer outlasts the trial", "lossy-path", &[], tcp(Tx, 3.0), |r| {
            let tcp = tcp_of(r);
            (tcp.rtt_s, tcp.retransmissions, tcp.segments_sent) = (Some(10e-3), 70, Some(500));
            lossy(r, 60);
            r.losses[0] = Losses { sent: 500, arrived: 440, ..r.losses[0] };
            let died = EventKind::FlowDied { flow: 0, direction: Some(Tx), lost_share: None };
            r.events = vec![event(0.8, None, None, died)];
        }),
        case(
            "TCP that loses bursts, and then waits for its timer to the end",
            "lossy-path",
            &["flow-died"],
            tcp(Tx, 28.0),
            |r| {
                let tcp = tcp_of(r);
                (tcp.rtt_s, tcp.segments_sent) = (Some(3e-3), Some(5_400));
                lossy(r, 130);
                let died = EventKind::FlowDied { flow: 0, direction: Some(Tx), lost_share: None };
                r.events = vec![event(1.4, None, None, died)];
            },
        ),
        case("a way that went in mid-trial", "flow-died", &["unaccounted"], udp(Rx, 100, 50.0), |r| {
            lose(r, 8_500);
            r.events = vec![event(1.0, None, None, EventKind::FlowDied { flow: 0, direction: None, lost_share: None })];
        }),
        case("a receiver that was stopped", "agent-stopped", &["receive-buffer"], udp(Rx, 300, 240.0), |r| {
            socket_drops(r, 9_000);
            r.events = vec![event(0.5, Some(0.4), Some(End::Target), EventKind::AgentStopped)];
        }),
        case("a receiver with a quota", "cpu-quota", &["receive-buffer"], udp(Rx, 300, 240.0), |r| {
            socket_drops(r, 9_000);
            r.events = vec![event(0.1, Some(1.8), Some(End::Target), EventKind::Throttled)];
        }),
        clean("a receiver that was stopped, and nothing lost", udp(Rx, 300, 300.0), |r| {
            r.events = vec![event(0.5, Some(0.4), Some(End::Target), EventKind::AgentStopped)];
        }),
        clean("a receiver with a quota, and nothing lost", udp(Rx, 300, 300.0), |r| {
            r.events = vec![event(0.1, Some(1.8), Some(End::Target), EventKind::Throttled)];
        }),
        case("requests while a link is down", "link-down", &[], rr(300e-6), |r| {
            waited(r, [355, 1], 2.0);
            r.host.counters.add(Stage::Link, "link carrier_changes", 2);
            r.host.counters.add(Stage::DriverTxRing, "link tx_dropped", 1);
            let lost = EventKind::CarrierLost { interface: "eth0".to_owned() };
            r.events = vec![event(1.0, Some(0.3), Some(End::Host), lost)];
        }),
        case("others on the link", "others-traffic", &["bottleneck"], tcp(Tx, 480.0), |r| {
            let octets_per_s = 55e6;
            r.events = vec![event(0.1, Some(1.9), Some(End::Target), EventKind::OthersTraffic { octets_per_s })];
        }),
        case("two answers of a hundred lost", "unaccounted", &[], rr(300e-6), |r| requests(r, [0, 200])),
        case("four requests of ten thousand lost", "idle-states", &[], rr(190e-6), |r| {
            r.target.environment.cpu.idle_states =
                vec![IdleState { name: "WAIT".to_owned(), exit_latency_us: Some(50), disabled: Some(false) }];
            r.target.counters.add(Stage::SoftirqBacklog, "cpu idle WAIT entered", 21_000);
            requests(r, [4, 0]);
        }),
        case("requests that a machine without a CPU does not send", "cpu-wait", &[], rr(300e-6), |r| {
            crowded(r, "10000pps", 0.02, 1.9);
        }),
        case("an answerer without a CPU", "cpu-wait", &[], rr(300e-6), |r| {
            limited(r, Limit::ResponderWaits, Some(End::Target), 0.8);
        }),
        clean("requests over a way of 20 ms", rr(25e-3), |r| limited(r, Limit::OnTheWay, None, 0.95)),
        case("TCP over a way of 20 ms", "far-path", &[], tcp(Tx, 95.0), |r| {
            let tcp = tcp_of(r);
            (tcp.rtt_s, tcp.min_rtt_s) = (Some(20.5e-3), Some(20e-3));
            limited(r, Limit::SlowStart, None, 0.7);
        }),
        case("fragments that a filter on the way drops", "fragments", &[], udp(Rx, 10, 0.0), |r| {
            r.asked.insert("message_size".to_owned(), "4000".to_owned());
            let lost = lose(r, r.result.as_ref().and_then(|result| result.flow.packets_sent).expect("a UDP stream"));
            r.host.counters.add(Stage::DriverTxRing, "link tx_packets", 3 * lost);
            r.target.counters.add(Stage::DriverRxRing, "link rx_packets", lost);
            let probe = Probe::Transport { transport: Protocol::Udp, asker: End::Host };
            let came = StepResult::Passed(Passed::Answered { answered: 3, lost: Some(0), median_s: Some(1e-4) });
            let steps = vec![Step { probe, came }];
            r.examination = Some(Examination { seconds: 1.3, steps, cause: None });
        }),
        case("connections of which each first SYN is lost", "retransmission-timeout", &[], rr(1.02), |r| {
            over_tcp(r, 6);
            r.workload = Workload::TcpCrr;
            let latency = r.result.as_mut().and_then(|result| result.latency.as_mut()).expect("it is timed");
            (latency.min_s, latency.max_s, latency.count) = (Some(1.01), Some(1.03), 6);
            r.host.counters.add(Stage::SenderSocket, "TcpExt TCPSynRetrans", 6);
        }),
        case("a filter of the receiver that takes fragments", "fragments", &["stack-drops"], udp(Rx, 20, 0.0), |r| {
            r.asked.insert("message_size".to_owned(), "4000".to_owned());
            let lost = lose(r, r.result.as_ref().and_then(|result| result.flow.packets_sent).expect("a UDP stream"));
            r.target.counters.add(Stage::ReceiverStack, "Ip InReceives", 3 * lost + 1);
            r.target.counters.add(Stage::ReceiverStack, "Ip InDelivers", 1);
            r.host.counters.add(Stage::DriverTxRing, "link tx_packets", 3 * lost);
            r.target.counters.add(Stage::DriverRxRing, "link rx_packets", 3 * lost);
            let probe = Probe::Transport { transport: Protocol::Udp, asker: End::Host };
            let came = StepResult::Passed(Passed::Answered { answered: 3, lost: Some(0), median_s: Some(1e-4) });
            let steps = vec![Step { probe, came }];
            r.examination = Some(Examination { seconds: 1.3, steps, cause: None });
        }),
        case("a limit of new connections", "retransmission-timeout", &[], rr(300e-6), |r| {
            over_tcp(r, 4);
            r.workload = Workload::TcpCrr;
            r.host.counters.add(Stage::SenderStack, "Tcp RetransSegs", 4);
            r.host.counters.add(Stage::SenderStack, "TcpExt TCPSynRetrans", 4);
        }),
        case("datagrams that the way carries in two pieces each", "path-mtu", &[], udp(Rx, 100, 100.0), |r| {
            r.asked.insert("message_size".to_owned(), "1432".to_owned());
            r.result.as_mut().expect("figures").flow.path_mtu = Some(1300);
        }),
        case("acknowledgements that a packet filter takes", "acknowledgements", &["outage"], tcp(Rx, 0.9), |r| {
            acknowledged(r, [400, 400]);
            r.host.counters.add(Stage::ReceiverStack, "Ip InReceives", 400);
            r.host.counters.add(Stage::ReceiverStack, "Ip InDelivers", 160);
            let stall = EventKind::Stall { direction: Some(Rx), lost_share: None };
            r.events = vec![event(0.1, Some(1.3), None, stall)];
        }),
        case(
            "segments that a packet filter takes, until the timer runs out",
            "stack-drops",
            &["outage"],
            tcp(Rx, 19.0),
            |r| {
                tcp_of(r).retransmissions = 515;
                r.losses = vec![of_segments(Rx, 520, 0)];
                r.target.counters.add(Stage::ReceiverStack, "Ip InReceives", 3_997);
                r.target.counters.add(Stage::ReceiverStack, "Ip InDelivers", 3_477);
                let stall = EventKind::Stall { direction: Some(Rx), lost_share: Some(0.75) };
                r.events = vec![event(0.8, Some(0.6), None, stall)];
            },
        ),
        case(
            "lost acknowledgements of what TCP then takes for lost",
            "acknowledgements",
            &["unaccounted"],
            tcp(Rx, 0.9),
            |r| {
                acknowledged(r, [20, 11]);
                between_links(r, 23, 0);
                (r.losses, r.unaccounted) = (vec![of_segments(Rx, 135, 135)], Some(135));
                r.loss_budget = Some(Vec::new());
            },
        ),
        case(
            "a limit of packets a second in a router, for both ways together",
            "lossy-path",
            &["outage"],
            tcp(Rx, 0.22),
            |r| {
                acknowledged(r, [24, 19]);
                between_links(r, 32, 26);
                tcp_of(r).retransmissions = 36;
                (r.losses, r.unaccounted) =
                    (vec![Losses { sent: 110, arrived: 57, ..of_segments(Rx, 53, 53) }], Some(53));
                r.loss_budget = Some(Vec::new());
                let stall = EventKind::Stall { direction: Some(Rx), lost_share: Some(0.81) };
                r.events = vec![event(1.0, Some(0.9), None, stall)];
            },
        ),
        clean("acknowledgements that come by another interface", tcp(Rx, 930.0), |r| {
            acknowledged(r, [400, 0]);
            r.host.counters.add(Stage::ReceiverStack, "Tcp InSegs", 390);
        }),
        case("acknowledgements that are lost on the way", "acknowledgements", &[], tcp(Rx, 0.9), |r| {
            acknowledged(r, [400, 160]);
        }),
        case("acknowledgements behind a token bucket", "acknowledgements", &["bottleneck"], tcp(Rx, 250.0), |r| {
            acknowledged(r, [754, 754]);
            nic(&mut r.target).qdisc = Some("tbf".to_owned());
            r.target.counters.add(Stage::Qdisc, "eth0 tbf packets", 754);
            r.target.counters.add(Stage::Qdisc, "eth0 tbf overlimits", 2_126);
            limited(r, Limit::Path, None, 0.7);
        }),
        case("requests behind a token bucket", "shaper", &["slow-answers"], rr(8.5e-3), |r| {
            nic(&mut r.host).qdisc = Some("tbf".to_owned());
            r.host.counters.add(Stage::Qdisc, "eth0 tbf packets", 250);
            r.host.counters.add(Stage::Qdisc, "eth0 tbf overlimits", 217);
            slow(r, Limit::Queues, 0.8);
        }),
        case("answers that wait where nobody sees it", "slow-answers", &[], rr(8.5e-3), |r| {
            slow(r, Limit::Queues, 0.8);
        }),
        case("answers that wait for one another on a slow link", "slow-answers", &[], rr(8.5e-3), |r| {
            drop(r.asked.insert("outstanding".to_owned(), "8".to_owned()));
            drop(r.asked.insert("rate".to_owned(), "2000pps".to_owned()));
            let result = r.result.as_mut().expect("figures");
            result.transactions_per_s = Some(960.0);
            result.latency.as_mut().expect("it is timed").min_s = Some(1.3e-3);
            let line = |limit, seconds| TimeLine { direction: Rx, limit, end: None, seconds, share: seconds / 8.5e-3 };
            r.time_budget = vec![line(Limit::OnTheWay, 4.7e-3), line(Limit::Queues, 3.6e-3)];
        }),
        case(
            "requests over TCP that a packet filter takes",
            "stack-drops",
            &["retransmission-timeout"],
            rr(300e-6),
            |r| {
                over_tcp(r, 7);
                r.losses = vec![of_segments(Rx, 10, 0), of_segments(Tx, 0, 0)];
                let packets = 10;
                r.target.counters.add(Stage::ReceiverStack, "Ip InReceives", 5_017 + packets);
                r.target.counters.add(Stage::ReceiverStack, "Ip InDelivers", 5_017);
            },
        ),
        case(
            "requests over TCP that are lost beside packets of others",
            "retransmission-timeout",
            &[],
            rr(300e-6),
            |r| {
                over_tcp(r, 2);
                r.losses = vec![of_segments(Rx, 2, 0), of_segments(Tx, 0, 0)];
                r.target.counters.add(Stage::ReceiverStack, "Ip InReceives", 5_022);
                r.target.counters.add(Stage::ReceiverStack, "Ip InDelivers", 5_017);
                r.host.counters.add(Stage::SenderStack, "IpExt OutMcastPkts", 3);
            },
        ),
        case(
            "connections whose SYN a packet filter takes",
            "stack-drops",
            &["retransmission-timeout"],
            rr(300e-6),
            |r| {
                over_tcp(r, 3);
                r.workload = Workload::TcpCrr;
                r.host.counters.add(Stage::SenderStack, "Tcp RetransSegs", 3);
                r.target.counters.add(Stage::ReceiverStack, "Ip InReceives", 205);
                r.target.counters.add(Stage::ReceiverStack, "Ip InDelivers", 202);
            },
        ),
        case(
            "connections of which a router drops segments and acknowledgements",
            "middle-drops",
            &["retransmission-timeout"],
            rr(300e-6),
            |r| {
                over_tcp(r, 5);
                r.workload = Workload::TcpCrr;
                r.host.counters.add(Stage::SenderStack, "Tcp RetransSegs", 13);
                let ports = &mut with_middle(r).ports;
                ports.host.counters.add(Stage::DriverRxRing, "link rx_packets", 256);
                ports.target.counters.add(Stage::DriverTxRing, "link tx_packets", 238);
            },
        ),
        case("a transaction that still waits at the end", "retransmission-timeout", &[], rr(300e-6), |r| {
            over_tcp(r, 0);
            r.workload = Workload::TcpCrr;
            let latency = r.result.as_mut().and_then(|figures| figures.latency.as_mut()).expect("it is timed");
            (latency.count, latency.mean_s, r.duration_s) = (3, Some(300e-6), Some(1.0));
            r.host.counters.add(Stage::SenderStack, "Tcp RetransSegs", 1);
            r.host.counters.add(Stage::SenderStack, "TcpExt TCPSynRetrans", 1);
        }),
        case("one of two streams' transactions waits at the end", "retransmission-timeout", &[], rr(300e-6), |r| {
            over_tcp(r, 0);
            drop(r.asked.insert("streams".to_owned(), "2".to_owned()));
            let latency = r.result.as_mut().and_then(|figures| figures.latency.as_mut()).expect("it is timed");
            // The other has its time, and this one a tenth of it.
            (latency.count, latency.mean_s, r.duration_s) = (3_600, Some(300e-6), Some(1.0));
            r.host.counters.add(Stage::SenderStack, "Tcp RetransSegs", 1);
        }),
        case(
            "damaged requests over TCP, which tcp_info has as arrived",
            "stack-drops",
            &["retransmission-timeout"],
            rr(300e-6),
            |r| {
                over_tcp(r, 7);
                r.losses = vec![of_segments(Rx, 0, 0), of_segments(Tx, 0, 0)];
                r.host.counters.add(Stage::SenderStack, "Tcp RetransSegs", 25);
                for name in ["Tcp InErrs", "Tcp InCsumErrors"] {
                    r.target.counters.add(Stage::ReceiverStack, name, 15);
                }
            },
        ),
        case("TCP's buffers that a filter at the sender's egress takes", "unaccounted", &[], tcp(Rx, 900.0), |r| {
            let tcp = tcp_of(r);
            (tcp.retransmissions, tcp.segments_lost, tcp.segments_sent) = (90, Some(41_000), Some(1_250_000));
            r.losses = vec![Losses { sent: 1_250_000, arrived: 1_209_000, ..of_segments(Rx, 0, 41_000) }];
            r.host.counters.add(Stage::SenderStack, "Ip OutTransmits", 28_000);
            r.host.counters.add(Stage::DriverTxRing, "link tx_packets", 27_090);
            r.target.counters.add(Stage::DriverRxRing, "link rx_packets", 27_090);
        }),
        case("more requests than a far way lets happen", "far-path", &[], rr(0.6), |r| {
            drop(r.asked.insert("rate".to_owned(), "20pps".to_owned()));
            let latency = r.result.as_mut().and_then(|figures| figures.latency.as_mut()).expect("it is timed");
            latency.min_s = Some(0.6);
            let (limit, seconds, share) = (Limit::OnTheWay, 0.599, 0.99);
            r.time_budget = vec![TimeLine { direction: Rx, limit, end: None, seconds, share }];
        }),
        case("few losses that keep a window small", "lossy-path", &[], tcp(Rx, 19.0), |r| {
            let tcp = tcp_of(r);
            (tcp.retransmissions, tcp.segments_lost, tcp.segments_sent) = (6, Some(6), Some(3300));
            (tcp.rtt_s, tcp.congestion_control) = (Some(0.02), Some("cubic".to_owned()));
            r.losses = vec![of_segments(Rx, 6, 6)];
            limited(r, Limit::CongestionWindow, None, 0.94);
        }),
        case("acknowledgements that wait in the middle", "acknowledgements", &["bottleneck"], tcp(Rx, 160.0), |r| {
            tcp_of(r).retransmissions = 0;
            limited(r, Limit::Path, None, 0.9);
            let port = &mut with_middle(r).ports.host;
            for (name, count) in [("mh tbf overlimits", 2489), ("mh tbf packets", 924)] {
                port.counters.add(Stage::Qdisc, name, count);
            }
        }),
        case("answers over TCP, some lost", "retransmission-timeout", &[], rr(300e-6), |r| {
            over_tcp(r, 7);
            r.losses = vec![of_segments(Rx, 3, 3), of_segments(Tx, 4, 4)];
        }),
    ]
}

/// What TCP repairs without selective acknowledgements.
pub(super) fn without_sack() -> Vec<FaultCase> {
    vec![
        case("losses without SACK", "no-sack", &["lossy-path"], tcp(Rx, 95.0), |r| {
            let tcp = tcp_of(r);
            (tcp.retransmissions, tcp.segments_lost, tcp.rtt_s) = (51, Some(50), Some(20e-3));
            tcp.sack = Some(false);
            r.losses = vec![of_segments(Rx, 50, 50)];
            limited(r, Limit::CongestionWindow, None, 0.9);
        }),
        case("as much as such losses permit, without SACK", "lossy-path", &["no-sack"], tcp(Rx, 5.0), |r| {
            let tcp = tcp_of(r);
            (tcp.retransmissions, tcp.segments_lost, tcp.rtt_s) = (51, Some(50), Some(20e-3));
            tcp.sack = Some(false);
            r.losses = vec![of_segments(Rx, 50, 50)];
            limited(r, Limit::CongestionWindow, None, 0.9);
        }),
        case("a filter that takes a sixth, without SACK", "stack-drops", &["no-sack"], tcp(Tx, 0.37), |r| {
            let tcp = tcp_of(r);
            (tcp.retransmissions, tcp.segments_lost, tcp.rtt_s) = (45, Some(44), Some(20e-3));
            (tcp.segments_sent, tcp.sack) = (Some(260), Some(false));
            r.losses = vec![of_segments(Tx, 44, 0)];
            r.host.counters.add(Stage::ReceiverStack, "Ip InReceives", 257);
            r.host.counters.add(Stage::ReceiverStack, "Ip InDelivers", 225);
            limited(r, Limit::CongestionWindow, None, 0.84);
        }),
    ]
}

fn event(at_s: f64, for_s: Option<f64>, end: Option<End>, what: EventKind) -> Event {
    Event { at_s, for_s, within_s: 0.05, end, what }
}

/// Routes, addresses and neighbours that changed in mid-trial.
pub(super) fn changed_ways() -> Vec<FaultCase> {
    vec![
        case(
            "a route that became unreachable for half a second",
            "outage",
            &["transmit-ring"],
            udp(Rx, 100, 75.0),
            |r| {
                let lost = lose(r, 4_200);
                r.host.counters.add(Stage::SenderSocket, "Udp SndbufErrors", lost);
                let route = |removed| EventKind::RouteChanged { destination: "10.0.0.2/32".to_owned(), removed };
                r.events = vec![
                    event(0.63, None, Some(End::Host), route(false)),
                    event(0.7, Some(0.5), None, EventKind::Stall { direction: Some(Rx), lost_share: Some(1.0) }),
                    event(1.13, None, Some(End::Host), route(true)),
                ];
            },
        ),
        case("losses by chance, and half a second of nothing", "lossy-path", &["outage"], udp(Rx, 100, 80.0), |r| {
            let lost = lose(r, 3_300);
            between_links(r, 17_030, lost);
            // One of ten is lost, and 1,876 one after the other.
            arrivals(r, &[(117_600, 12_000), (235_000, 1_200)], &[(1, 1_150), (2, 110), (3, 18), (1_876, 1)]);
        }),
        case("a filter that takes all for half a second", "stack-drops", &["outage"], udp(Rx, 100, 75.0), |r| {
            let lost = lose(r, 4_200);
            r.target.counters.add(Stage::ReceiverStack, "Ip InReceives", 17_000);
            r.target.counters.add(Stage::ReceiverStack, "Ip InDelivers", 17_000 - lost);
            let stall = EventKind::Stall { direction: Some(Rx), lost_share: Some(1.0) };
            r.events = vec![event(0.7, Some(0.5), None, stall)];
        }),
        case("a route that went", "flow-died", &["stack-drops"], udp(Rx, 100, 75.0), |r| {
            let lost = lose(r, 4_200);
            r.host.counters.add(Stage::SenderStack, "Ip OutNoRoutes", lost);
            let route = EventKind::RouteChanged { destination: "default".to_owned(), removed: true };
            r.events = vec![
                event(1.46, None, Some(End::Host), route),
                event(1.5, None, None, EventKind::FlowDied { flow: 0, direction: Some(Rx), lost_share: Some(1.0) }),
            ];
        }),
        case("an address that another machine took", "neighbour-changed", &["unaccounted"], udp(Rx, 100, 75.0), |r| {
            lose(r, 4_200);
            nic(&mut r.target).mac = Some("00:19:b8:00:12:34".to_owned());
            let change = |from: &str, to: &str| EventKind::NeighbourChanged {
                address: "10.0.0.2".to_owned(),
                from: format!("00:19:b8:00:12:{from}"),
                to: format!("00:19:b8:00:12:{to}"),
            };
            r.events = vec![
                event(0.68, None, Some(End::Host), change("34", "77")),
                event(0.7, Some(0.5), None, EventKind::Stall { direction: Some(Rx), lost_share: Some(0.98) }),
                event(1.2, None, Some(End::Host), change("77", "34")),
            ];
        }),
        case("an interface that got another address", "neighbour-changed", &["unaccounted"], udp(Rx, 100, 75.0), |r| {
            lose(r, 4_200);
            nic(&mut r.target).mac = Some("00:19:b8:00:12:34".to_owned());
            let change = EventKind::HardwareChanged {
                interface: "eth0".to_owned(),
                from: "00:19:b8:00:12:34".to_owned(),
                to: "00:19:b8:00:12:77".to_owned(),
            };
            r.events = vec![
                event(0.68, None, Some(End::Target), change),
                event(0.7, None, None, EventKind::FlowDied { flow: 0, direction: Some(Rx), lost_share: Some(0.98) }),
            ];
        }),
        case("an address that moved without harm", "outage", &["unaccounted"], udp(Rx, 100, 75.0), |r| {
            lose(r, 4_200);
            let change = EventKind::NeighbourChanged {
                address: "10.0.0.2".to_owned(),
                from: "00:19:b8:00:12:34".to_owned(),
                to: "00:19:b8:00:12:77".to_owned(),
            };
            r.events = vec![
                event(0.2, Some(0.5), None, EventKind::Stall { direction: Some(Rx), lost_share: Some(0.98) }),
                event(1.2, None, Some(End::Host), change),
            ];
        }),
    ]
}

/// A time slice, the one of this number, in which so much came through.
fn slice_of(at: u32, mbit: f64) -> Interval {
    let start_s = f64::from(at);
    Interval { start_s, end_s: start_s + 1.0, throughput_bps: Some(mbit * 1e6), ..Interval::default() }
}

/// One more line of the time budget.
fn limited_too(record: &mut Record, limit: Limit, share: f64) {
    let line = TimeLine { direction: record.direction, limit, end: None, seconds: 2.0 * share, share };
    record.time_budget.push(line);
}
