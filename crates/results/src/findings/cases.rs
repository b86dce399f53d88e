//! Recorded faults for the tests of rules: each a record as a trial with that fault would leave it.
//! Measured by nobody; counters are named and sized as the drivers of those boards and servers do.

mod frames;
mod hidden;
mod in_time;
mod nothing_through;

use linerate_machine::cpu::CpuShares;
use linerate_machine::end::Direction::{self, Rx, Tx};
use linerate_machine::end::End;
use linerate_machine::environment::{Amount, Eee, IdleState, LinkModes, Pause};
use linerate_machine::profile::{Function, KERNEL, Stack};
use linerate_path::budget::{Chain, Datagrams, MachineAccount, drops_seen, loss_budget};
use linerate_path::stage::Stage;
use linerate_trial::doubt::{Doubt, DoubtKind, Doubted};
use linerate_trial::event::{Event, EventKind};
use linerate_trial::histogram::Histogram;
use linerate_trial::spec::Workload;

use crate::middle::{Middle, MiddlePath};
use crate::record::{Counted, FrameFigures, Interval, Latency, Losses, Machine, Record};
use crate::sample;
use crate::time_budget::{Limit, TimeLine};

/// A record, and what should be found in it.
pub struct FaultCase {
    /// What is wrong.
    pub name: &'static str,
    /// The finding that should stand first; `None`: nothing is wrong.
    pub right: Option<&'static str>,
    /// What is true besides.
    pub also: &'static [&'static str],
    /// The trial's record.
    pub record: Record,
}

impl FaultCase {
    /// Whether this finding would be true.
    pub fn allows(&self, finding: &str) -> bool {
        self.right == Some(finding) || self.also.contains(&finding)
    }
}

fn case(
    name: &'static str,
    right: &'static str,
    also: &'static [&'static str],
    mut record: Record,
    change: impl FnOnce(&mut Record),
) -> FaultCase {
    change(&mut record);
    settle(&mut record);
    FaultCase { name, right: Some(right), also, record }
}

fn clean(name: &'static str, mut record: Record, change: impl FnOnce(&mut Record)) -> FaultCase {
    change(&mut record);
    settle(&mut record);
    FaultCase { name, right: None, also: &[], record }
}

/// Every case, the clean ones first.
pub fn cases() -> Vec<FaultCase> {
    [
        clean_runs(),
        nothing_through::cases(),
        losses(),
        through_a_middle(),
        short_streams(),
        out_of_cpu(),
        slow_answers(),
        in_time::cases(),
        in_time::changed_ways(),
        in_time::without_sack(),
        hidden::cases(),
        frames::cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn clean_runs() -> Vec<FaultCase> {
    let odd = |record: &mut Record| {
        // Settings that are no trouble while nothing is wrong.
        let target = &mut record.target.environment;
        target.cpu.governor = Some("ondemand".to_owned());
        let nic = target.nic.as_mut().expect("a board has one");
        nic.pause = Some(Pause { autoneg: Some(false), rx: Some(false), tx: Some(false) });
        nic.offloads.insert("rx-gro".to_owned(), false);
        nic.eee = Some(Eee { enabled: Some(true), active: Some(true), tx_lpi_timer_us: Some(20) });
    };
    vec![
        clean("UDP at 300 Mbit/s, all of it there", udp(Rx, 300, 300.0), |_| {}),
        clean("UDP, three of 51,000 lost by a busy reader", udp(Rx, 300, 300.0), |r| {
            lose(r, 3);
            r.target.counters.add(Stage::ReceiverSocket, "Udp RcvbufErrors", 3);
        }),
        clean("other traffic dropped on the way out, and nothing of the trial's lost", udp(Rx, 300, 300.0), |r| {
            r.host.counters.add(Stage::Qdisc, "eth0 fq_codel drops", 2_000);
        }),
        clean("odd settings, and nothing lost", udp(Rx, 300, 300.0), odd),
        clean("TCP fills a gigabit link", tcp(Tx, 934.0), odd),
        clean("TCP at the rate that was asked", tcp(Rx, 100.0), |r| {
            drop(r.asked.insert("rate".to_owned(), "100M".to_owned()));
            tcp_of(r).limited_by_application = Some(0.97);
        }),
        clean("requests in 60 µs", rr(60e-6), |_| {}),
        clean("a link that came up during the warm-up, and nothing lost", udp(Rx, 100, 100.0), |r| {
            r.target.counters.add(Stage::Link, "link carrier_changes", 2);
        }),
        clean("a neighbour of the machine, and nothing lost", udp(Rx, 100, 100.0), |r| {
            r.target.cpu.as_mut().expect("it is there").machine.steal = 0.09;
        }),
    ]
}

fn losses() -> Vec<FaultCase> {
    let ring = |current, max| Amount { current, max: Some(max) };
    vec![
        // Report 1: the i.MX6's FIFO overruns, counted three times over by fec, pause frames off.
        case("fec: FIFO overruns, pause off", "fifo-overrun", &[], udp(Rx, 600, 290.0), |r| {
            let lost = lose(r, 26_000);
            for name in ["link rx_fifo_errors", "link rx_over_errors", "link rx_errors"] {
                r.target.counters.add(Stage::MacRxFifo, name, lost);
            }
            r.target.counters.add(Stage::Unplaced, "driver IEEE_rx_macerr", lost);
            nic(&mut r.target).pause = Some(Pause { autoneg: Some(true), rx: Some(false), tx: Some(false) });
        }),
        case("macb: overruns, the switch offers no pause", "fifo-overrun", &[], udp(Rx, 90, 60.0), |r| {
            let lost = lose(r, 5_000);
            nic(&mut r.target).driver = Some("macb".to_owned());
            r.target.counters.add(Stage::Unplaced, "driver rx_overruns", lost);
            r.target.counters.add(Stage::MacRxFifo, "link rx_fifo_errors", lost);
            nic(&mut r.target).link_modes = Some(LinkModes {
                supported: modes(&["100baseT/Full", "Pause"]),
                advertised: modes(&["100baseT/Full", "Pause"]),
                partner: modes(&["100baseT/Full"]),
            });
        }),
        case("igb: 256 of 4096 descriptors", "receive-ring", &[], udp(Rx, 900, 700.0), |r| {
            let lost = lose(r, 34_000);
            r.target.counters.add(Stage::DriverRxRing, "link rx_missed_errors", lost);
            nic(&mut r.target).rings.insert("rx".to_owned(), ring(256, 4096));
        }),
        case("igb: softirq stopped by its budget", "time-squeeze", &["receive-ring"], udp(Rx, 900, 700.0), |r| {
            let lost = lose(r, 34_000);
            r.target.counters.add(Stage::DriverRxRing, "link rx_missed_errors", lost);
            r.target.counters.add(Stage::SoftirqBacklog, "softnet time_squeeze", 900);
        }),
        case("one CPU takes all in", "softirq-cpu", &["receive-ring"], udp(Rx, 900, 600.0), |r| {
            let lost = lose(r, 51_000);
            r.target.counters.add(Stage::DriverRxRing, "link rx_missed_errors", lost);
            let softirq = CpuShares { busy: 0.99, softirq: 0.9, irq: 0.06, system: 0.03, ..CpuShares::default() };
            cpus(&mut r.target, &[softirq, idle(), idle(), idle()]);
        }),
        case("one CPU takes all in, for 30 clock ticks", "receive-ring", &[], udp(Rx, 900, 600.0), |r| {
            let lost = lose(r, 51_000);
            r.target.counters.add(Stage::DriverRxRing, "link rx_missed_errors", lost);
            let softirq = CpuShares { busy: 0.99, softirq: 0.9, irq: 0.06, system: 0.03, ..CpuShares::default() };
            cpus(&mut r.target, &[softirq, idle(), idle(), idle()]);
            r.target.cpu.as_mut().expect("it is there").span_s = 0.3;
        }),
        case("RPS: the backlog of the other CPU is full", "softirq-backlog", &[], udp(Rx, 900, 800.0), |r| {
            let lost = lose(r, 17_000);
            r.target.counters.add(Stage::SoftirqBacklog, "softnet dropped", lost);
            r.target.counters.add(Stage::DriverRxRing, "link rx_dropped", lost);
            sysctl(&mut r.target, "net.core.netdev_max_backlog", "1000");
        }),
        case("the reader waits for a CPU", "receiver-starved", &["receive-buffer"], udp(Rx, 300, 100.0), |r| {
            socket_drops(r, 34_000);
            let threads = r.target.threads.as_mut().expect("they are told");
            (threads.system_s, threads.run_delay_s) = (0.5, Some(1.4));
        }),
        case("the writer of TCP waits for a CPU that others have", "sender-starved", &[], tcp(Tx, 80.0), |r| {
            crowded(r, "200M", 0.05, 1.8);
        }),
        case("the reader of TCP waits for a CPU that others have", "receiver-starved", &[], tcp(Rx, 80.0), |r| {
            crowded(r, "200M", 0.1, 1.6);
        }),
        case("the reader has no time left", "receiver-cpu", &["receive-buffer"], udp(Rx, 900, 400.0), |r| {
            socket_drops(r, 84_000);
            let threads = r.target.threads.as_mut().expect("they are told");
            (threads.system_s, threads.run_delay_s) = (1.95, Some(0.01));
        }),
        case("an IPsec policy for half a second", "stack-drops", &["outage"], udp(Rx, 300, 250.0), |r| {
            let lost = lose(r, 4_250);
            r.target.counters.add(Stage::ReceiverStack, "xfrm XfrmInPolBlock", lost);
            r.target.counters.add(Stage::ReceiverStack, "Udp InErrors", lost);
            let what = EventKind::Stall { direction: Some(Rx), lost_share: Some(1.0) };
            r.events = vec![Event { at_s: 0.2, for_s: Some(0.33), within_s: 0.05, end: None, what }];
        }),
        case("a socket buffer of 8 KiB", "small-buffer", &["receive-buffer"], udp(Rx, 300, 200.0), |r| {
            socket_drops(r, 17_000);
            drop(r.asked.insert("socket_buffer".to_owned(), "8K".to_owned()));
        }),
        case("TBF at the sender", "qdisc-drops", &[], udp(Tx, 300, 100.0), |r| {
            let lost = lose(r, 34_000);
            for (stage, name) in [
                (Stage::Qdisc, "eth0 tbf drops"),
                (Stage::SenderStack, "Ip OutDiscards"),
                (Stage::SenderSocket, "Udp SndbufErrors"),
            ] {
                r.target.counters.add(stage, name, lost);
            }
            nic(&mut r.target).qdisc = Some("tbf".to_owned());
        }),
        case("TBF on the port of a bridge that has the address", "qdisc-drops", &[], udp(Tx, 40, 19.5), |r| {
            let lost = lose(r, 3_488);
            below(r, "vt");
            r.target.counters.add(Stage::Qdisc, "vt tbf drops", lost);
        }),
        case("TBF below a macvlan, which counts its drops again", "qdisc-drops", &[], udp(Tx, 40, 19.5), |r| {
            let lost = lose(r, 3_513);
            below(r, "vt");
            r.target.counters.add(Stage::Qdisc, "vt tbf drops", lost);
            r.target.counters.add(Stage::DriverTxRing, "link tx_dropped", lost);
            r.target.counters.add(Stage::SenderStack, "Ip OutDiscards", lost);
        }),
        case("pfifo of 10 packets on a bridge's port", "qdisc-drops", &[], udp(Tx, 40, 19.5), |r| {
            let lost = lose(r, 3_488);
            below(r, "vt");
            r.target.counters.add(Stage::Qdisc, "vt pfifo drops", lost);
        }),
        case("pfifo of 10 packets under TCP", "qdisc-drops", &[], tcp(Tx, 500.0), |r| {
            r.target.counters.add(Stage::Qdisc, "eth0 pfifo drops", 1_500);
            tcp_of(r).retransmissions = 1_520;
            (nic(&mut r.target).qdisc, nic(&mut r.target).queue_length) = (Some("pfifo".to_owned()), Some(10));
        }),
        case("a MAC that underruns", "transmit-ring", &[], udp(Tx, 300, 250.0), |r| {
            let lost = lose(r, 8_000);
            r.target.counters.add(Stage::MacTx, "link tx_fifo_errors", lost);
            r.target.counters.add(Stage::MacTx, "link tx_errors", lost);
        }),
        case("a bad cable", "link-damage", &[], udp(Rx, 300, 250.0), |r| {
            let lost = lose(r, 8_000);
            r.target.counters.add(Stage::Link, "link rx_crc_errors", lost);
            r.target.counters.add(Stage::MacRxFifo, "link rx_errors", lost);
        }),
        case("a device that cuts frames", "link-damage", &[], udp(Rx, 300, 250.0), |r| {
            let malformed = lose(r, 8_000);
            let flow = &mut r.result.as_mut().expect("it has figures").flow;
            flow.frames = Some(FrameFigures { malformed, ..FrameFigures::default() });
        }),
        case("full duplex against half", "duplex", &["link-damage"], udp(Rx, 60, 30.0), |r| {
            let lost = lose(r, 4_000);
            r.target.counters.add(Stage::Link, "link rx_crc_errors", lost);
            (nic(&mut r.target).duplex, nic(&mut r.host).duplex) = (Some("half".to_owned()), Some("full".to_owned()));
            nic(&mut r.host).autoneg = Some(false);
        }),
        case("half duplex at both ends, with collisions", "duplex", &[], tcp(Tx, 4.0), |r| {
            for machine in [&mut r.target, &mut r.host] {
                let nic = nic(machine);
                (nic.duplex, nic.speed_mbps) = (Some("half".to_owned()), Some(10));
            }
            r.target.counters.add(Stage::MacTx, "link collisions", 800);
        }),
        case("MTU 1400 at the receiver", "mtu-mismatch", &[], udp(Rx, 100, 0.0), |r| {
            let lost = lose(r, 17_006);
            r.target.counters.add(Stage::DriverRxRing, "link rx_dropped", lost);
            nic(&mut r.target).mtu = Some(1400);
        }),
        case("MTU 9000 at the sender, and no trial at all", "mtu-mismatch", &[], udp(Rx, 100, 100.0), |r| {
            (r.result, r.error) = (None, Some("no test traffic passed for 5 s; check the cable".to_owned()));
            drop(r.asked.insert("message_size".to_owned(), "8K".to_owned()));
            nic(&mut r.host).mtu = Some(9000);
        }),
        case("ARP table full", "neighbours", &["stack-drops"], udp(Tx, 100, 50.0), |r| {
            let lost = lose(r, 8_000);
            r.target.counters.add(Stage::SenderStack, "Ip OutDiscards", lost);
            r.target.counters.add(Stage::SenderStack, "arp_cache table_fulls", lost);
            sysctl(&mut r.target, "net.ipv4.neigh.default.gc_thresh3", "16");
        }),
        case("mlx5: an XDP program", "interface-filter", &[], udp(Rx, 300, 200.0), |r| {
            let lost = lose(r, 17_000);
            nic(&mut r.target).driver = Some("mlx5_core".to_owned());
            r.target.counters.add(Stage::Unplaced, "driver rx_xdp_drop", lost);
        }),
        case("a filter of tc on the way in", "interface-filter", &[], udp(Rx, 300, 200.0), |r| {
            let lost = lose(r, 17_000);
            r.target.counters.add(Stage::SoftirqBacklog, "eth0 clsact drops", lost);
        }),
        case("wrong checksums", "stack-drops", &[], udp(Rx, 100, 90.0), |r| {
            let lost = lose(r, 1_700);
            r.target.counters.add(Stage::ReceiverStack, "Udp InCsumErrors", lost);
        }),
        case("a switch that drops", "lossy-path", &[], udp(Rx, 300, 200.0), |r| {
            let lost = lose(r, 17_000);
            r.host.counters.add(Stage::DriverTxRing, "link tx_packets", 51_030);
            r.target.counters.add(Stage::DriverRxRing, "link rx_packets", 51_030 - lost);
        }),
        case("five of 22 datagrams", "lossy-path", &[], udp(Rx, 1, 0.77), |r| {
            r.result.as_mut().expect("figures").flow.packets_sent = Some(22);
            let lost = lose(r, 5);
            between_links(r, 22, lost);
        }),
        case("a slow link, and a reader that waits now and then", "bottleneck", &[], udp(Rx, 100, 60.0), |r| {
            let threads = r.target.threads.as_mut().expect("they are told");
            (threads.system_s, threads.run_delay_s) = (0.03, Some(0.4));
        }),
        case("a switch that drops a few, where neighbours ask much", "lossy-path", &[], udp(Rx, 1, 0.93), |r| {
            let lost = lose(r, 12);
            between_links(r, 172, lost - 8);
            r.host.counters.add(Stage::SenderStack, "Ip6 OutTransmits", 2);
            r.target.counters.add(Stage::ReceiverStack, "Ip6 InReceives", 10);
        }),
        case(
            "frames with IPv6 in them, of which a filter behind the link takes some",
            "unaccounted",
            &[],
            udp(Rx, 1, 0.93),
            |r| {
                r.workload = Workload::Frames;
                let lost = lose(r, 30);
                between_links(r, 172, 0);
                r.target.counters.add(Stage::ReceiverStack, "Ip6 InReceives", 172 - lost);
            },
        ),
        case("a firewall at the receiver", "unaccounted", &[], udp(Rx, 300, 200.0), |r| {
            lose(r, 17_000);
            r.host.counters.add(Stage::DriverTxRing, "link tx_packets", 51_030);
            r.target.counters.add(Stage::DriverRxRing, "link rx_packets", 51_040);
        }),
        case(
            "datagrams that arrive by another interface",
            "unaccounted",
            &["contradiction"],
            udp(Rx, 300, 285.0),
            |r| {
                lose(r, 2_550);
                counted(&mut r.host, Stage::DriverTxRing, "tx", 51_030);
                counted(&mut r.target, Stage::DriverRxRing, "rx", 17);
            },
        ),
        case(
            "datagrams that leave by another interface",
            "unaccounted",
            &["contradiction"],
            udp(Tx, 300, 285.0),
            |r| {
                lose(r, 2_550);
                counted(&mut r.target, Stage::DriverTxRing, "tx", 0);
                counted(&mut r.host, Stage::DriverRxRing, "rx", 48_470);
            },
        ),
        case("a loss of which the links know nothing", "unaccounted", &[], udp(Rx, 300, 285.0), |r| {
            lose(r, 2_550);
            between_links(r, 51_030 + 20_000, 22_500);
        }),
        case(
            "the link was down for half of the time",
            "link-down",
            &["stack-drops", "unaccounted"],
            udp(Rx, 300, 141.0),
            |r| {
                let lost = lose(r, 27_100);
                let mut gaps =
                    r.result.as_ref().and_then(|figures| figures.flow.arrival_gaps.clone()).expect("a UDP stream");
                gaps.record(1_060_000_000);
                r.result.as_mut().expect("figures").flow.arrival_gaps = Some(gaps);
                for machine in [&mut r.target, &mut r.host] {
                    machine.counters.add(Stage::Link, "link carrier_changes", 2);
                }
                r.host.counters.add(Stage::SenderStack, "arp_cache res_failed", 2);
                r.host.counters.add(Stage::SenderStack, "arp_cache unresolved_discards", lost - 900);
            },
        ),
        // raspberrypi/linux#6898: one drop, counted twice under names that look independent.
        case(
            "macb: one drop counted twice",
            "contradiction",
            &["receive-ring", "fifo-overrun"],
            udp(Rx, 300, 250.0),
            |r| {
                let lost = lose(r, 8_000);
                nic(&mut r.target).driver = Some("macb".to_owned());
                r.target.counters.add(Stage::DriverRxRing, "link rx_dropped", lost);
                r.target.counters.add(Stage::MacRxFifo, "link rx_over_errors", lost);
            },
        ),
    ]
}

/// A bridge of two CPUs between the two ends, towards the host by `p0` and towards the target by `p1`.
fn with_middle(record: &mut Record) -> &mut Middle {
    let mut middle = sample::middle();
    middle.machine.counters = Default::default();
    for end in End::BOTH {
        let port = &mut middle.ports[end];
        port.counters = Default::default();
        port.nic.iter_mut().for_each(|nic| nic.driver = Some("igb".to_owned()));
    }
    cpus(&mut middle.machine, &[idle(); 2]);
    record.middle.insert(middle)
}

fn through_a_middle() -> Vec<FaultCase> {
    vec![
        case("a bridge whose queue is full", "middle-drops", &[], udp(Rx, 300, 200.0), |r| {
            let lost = lose(r, 17_000);
            let middle = with_middle(r);
            middle.ports.target.counters.add(Stage::Qdisc, "p1 tbf drops", lost);
        }),
        case(
            "a router whose backlog is full, and its only CPU",
            "middle-cpu",
            &["middle-drops"],
            udp(Rx, 300, 200.0),
            |r| {
                let lost = lose(r, 17_000);
                let middle = with_middle(r);
                middle.machine.counters.add(Stage::SoftirqBacklog, "softnet dropped", lost);
                middle.ports.host.counters.add(Stage::DriverRxRing, "link rx_dropped", lost);
                cpus(&mut middle.machine, &[CpuShares { busy: 0.99, softirq: 0.97, ..CpuShares::default() }]);
            },
        ),
        case("a bridge that forwards on one CPU of two", "middle-cpu", &[], tcp(Rx, 400.0), |r| {
            let full = CpuShares { busy: 0.98, softirq: 0.95, ..CpuShares::default() };
            cpus(&mut with_middle(r).machine, &[full, idle()]);
        }),
        case("a router that something else keeps busy now and then", "middle-cpu", &[], udp(Rx, 300, 290.0), |r| {
            lose(r, 1_700);
            cpus(&mut with_middle(r).machine, &[CpuShares { busy: 0.6, ..CpuShares::default() }; 2]);
            let slice = r.intervals[0].clone();
            r.intervals = [(0.5, 0), (0.45, 0), (0.99, 1_500), (0.97, 200), (0.5, 0)]
                .map(|(busy, lost)| Interval {
                    middle_cpu: Some(CpuShares { busy, ..CpuShares::default() }),
                    packets_missing: Some(lost),
                    ..slice.clone()
                })
                .to_vec();
        }),
        case("the cable behind the bridge", "lossy-path", &[], udp(Rx, 300, 200.0), |r| {
            let lost = lose(r, 17_000);
            between_links(r, 51_030, lost);
            let middle = with_middle(r);
            middle.ports.host.counters.add(Stage::DriverRxRing, "link rx_packets", 51_030);
            middle.ports.target.counters.add(Stage::DriverTxRing, "link tx_packets", 51_030);
        }),
    ]
}

fn short_streams() -> Vec<FaultCase> {
    vec![
        case("fec: pause frames stop the sender", "pause-storm", &[], tcp(Rx, 210.0), |r| {
            r.target.counters.add(Stage::MacRxFifo, "pause tx_frames", 4_000);
            r.host.counters.add(Stage::MacTx, "pause rx_frames", 3_990);
            tcp_of(r).limited_by_receive_window = Some(0.1);
        }),
        case("mlx5: a sender that stands still for a third of the time", "pause-storm", &[], tcp(Tx, 610.0), |r| {
            nic(&mut r.target).driver = Some("mlx5_core".to_owned());
            r.target.counters.add(Stage::Unplaced, "driver rx_pause_ctrl_phy", 16);
            r.target.counters.add(Stage::Unplaced, "driver rx_global_pause_duration", 700_000);
        }),
        case("the pause frames of an igb, by its own names", "pause-storm", &[], tcp(Tx, 610.0), |r| {
            r.host.counters.add(Stage::Unplaced, "driver tx_flow_control_xoff", 1_200);
            r.host.counters.add(Stage::Unplaced, "driver tx_flow_control_xon", 1_180);
        }),
        case("packets overtake each other", "reordering", &[], tcp(Tx, 600.0), |r| {
            let tcp = tcp_of(r);
            (tcp.retransmissions, tcp.reordered_segments) = (2_400, Some(9_000));
            r.target.counters.add(Stage::SenderStack, "TcpExt TCPDSACKRecv", 2_300);
            r.target.counters.add(Stage::SenderStack, "TcpExt TCPSACKReorder", 4_100);
            sysctl(&mut r.target, "net.ipv4.tcp_reordering", "3");
        }),
        case("the receive window of 64 KiB over 4 ms", "receive-window", &[], tcp(Rx, 130.0), |r| {
            let tcp = tcp_of(r);
            (tcp.limited_by_receive_window, tcp.rtt_s, tcp.min_rtt_s) = (Some(0.97), Some(4.1e-3), Some(4e-3));
            sysctl(&mut r.target, "net.ipv4.tcp_rmem", "4096 131072 6291456");
        }),
        case("the send buffer may not grow", "send-buffer", &[], tcp(Tx, 130.0), |r| {
            let tcp = tcp_of(r);
            (tcp.limited_by_receive_window, tcp.limited_by_send_buffer) = (Some(0.0), Some(0.9));
            sysctl(&mut r.target, "net.ipv4.tcp_wmem", "4096 16384 4194304");
        }),
        case("socket_buffer 16K over 1 ms", "small-buffer", &["receive-window"], tcp(Rx, 120.0), |r| {
            let tcp = tcp_of(r);
            (tcp.limited_by_receive_window, tcp.rtt_s, tcp.min_rtt_s) = (Some(0.98), Some(1.1e-3), Some(1e-3));
            drop(r.asked.insert("socket_buffer".to_owned(), "16K".to_owned()));
        }),
        case("socket_buffer 16K, and a few segments lost on the way", "small-buffer", &[], tcp(Tx, 55.8), |r| {
            let tcp = tcp_of(r);
            (tcp.limited_by_send_buffer, tcp.rtt_s, tcp.min_rtt_s) = (Some(0.32), Some(0.59e-3), Some(0.4e-3));
            tcp.retransmissions = 10;
            (r.losses, r.unaccounted) = (vec![of_segments(Tx, 10, 10)], Some(10));
            r.loss_budget = Some(Vec::new());
            drop(r.asked.insert("socket_buffer".to_owned(), "16K".to_owned()));
        }),
        case(
            "tcp_wmem 16 KiB over 20 ms, of which the kernel counts no wait",
            "small-buffer",
            &[],
            tcp(Tx, 17.2),
            |r| {
                let tcp = tcp_of(r);
                (tcp.rtt_s, tcp.min_rtt_s, tcp.limited_by_send_buffer) = (Some(21.4e-3), Some(20.3e-3), Some(0.0));
                sysctl(&mut r.target, "net.ipv4.tcp_wmem", "4096 8192 16384");
                limited(r, Limit::SendingApplication, Some(End::Target), 0.03);
            },
        ),
        case("a receiver that keeps its first buffer", "small-buffer", &["receive-window"], tcp(Rx, 120.0), |r| {
            let tcp = tcp_of(r);
            (tcp.limited_by_receive_window, tcp.rtt_s, tcp.min_rtt_s) = (Some(0.77), Some(1.1e-3), Some(1e-3));
            tcp.limited_by_send_buffer = Some(0.0);
            sysctl(&mut r.target, "net.ipv4.tcp_moderate_rcvbuf", "0");
            sysctl(&mut r.target, "net.ipv4.tcp_rmem", "4096 8192 6291456");
        }),
        case("the application writes too little", "application-limited", &[], tcp(Tx, 80.0), |r| {
            let tcp = tcp_of(r);
            (tcp.limited_by_receive_window, tcp.limited_by_application) = (Some(0.0), Some(0.8));
            drop(r.asked.insert("message_size".to_owned(), "64".to_owned()));
        }),
        case("messages of 1500 with nodelay", "mss-multiple", &["sender-cpu"], tcp(Tx, 300.0), |r| {
            // A full segment and one of 52 octets for each.
            tcp_of(r).segments_sent = Some(100_000);
            drop(r.asked.insert("message_size".to_owned(), "1500".to_owned()));
            drop(r.asked.insert("nodelay".to_owned(), "true".to_owned()));
            let threads = r.target.threads.as_mut().expect("they are told");
            threads.system_s = 1.96;
        }),
        case("a router that clamps the MSS", "small-segments", &["sender-cpu"], tcp(Tx, 300.0), |r| {
            tcp_of(r).mss = Some(536);
            let threads = r.target.threads.as_mut().expect("they are told");
            threads.system_s = 1.96;
        }),
        case("an MSS that was asked for", "sender-cpu", &[], tcp(Tx, 300.0), |r| {
            tcp_of(r).mss = Some(536);
            drop(r.asked.insert("mss".to_owned(), "536".to_owned()));
            let threads = r.target.threads.as_mut().expect("they are told");
            threads.system_s = 1.96;
        }),
        case("100 Mbit/s between two gigabit ports", "link-speed", &[], tcp(Tx, 93.5), |r| {
            for machine in [&mut r.target, &mut r.host] {
                let nic = nic(machine);
                nic.speed_mbps = Some(100);
                nic.link_modes = Some(LinkModes {
                    supported: modes(&["100baseT/Full", "1000baseT/Full"]),
                    advertised: modes(&["100baseT/Full", "1000baseT/Full"]),
                    partner: modes(&["100baseT/Full", "1000baseT/Full"]),
                });
            }
        }),
        case("the host sends less than it was asked", "host-limits", &[], udp(Rx, 600, 600.0), |r| {
            let flow = &mut r.result.as_mut().expect("figures").flow;
            (flow.throughput_bps, flow.achieved_load_bps) = (Some(310e6), Some(310e6));
        }),
        case("the host's CPU is busy, the target's is not", "host-limits", &["sender-cpu"], tcp(Rx, 610.0), |r| {
            r.host.threads.as_mut().expect("they are told").system_s = 1.97;
            cpus(&mut r.target, &[idle(), idle(), idle(), idle()]);
        }),
    ]
}

fn out_of_cpu() -> Vec<FaultCase> {
    let busy = |r: &mut Record| {
        tcp_of(r).limited_by_receive_window = Some(0.0);
        r.target.threads.as_mut().expect("they are told").system_s = 1.95;
        let full = CpuShares { busy: 0.98, system: 0.7, softirq: 0.2, irq: 0.05, user: 0.03, steal: 0.0 };
        cpus(&mut r.target, &[full]);
    };
    let tx = || tcp(Tx, 400.0);
    vec![
        case("a slow CPU sends", "sender-cpu", &[], tx(), busy),
        case("a slow CPU receives", "receiver-cpu", &[], tcp(Rx, 400.0), busy),
        case("TSO off", "segmentation", &["sender-cpu"], tx(), |r| {
            busy(r);
            nic(&mut r.target).offloads.insert("tx-tcp-segmentation".to_owned(), false);
        }),
        case("trains of three segments", "segmentation", &["sender-cpu"], tx(), |r| {
            busy(r);
            nic(&mut r.target).gso_max_segments = Some(3);
        }),
        case("trains of 4 KiB over IPv4", "segmentation", &["sender-cpu"], tx(), |r| {
            busy(r);
            (nic(&mut r.target).gso_max_size, nic(&mut r.target).gso_ipv4_max_size) = (Some(65_536), Some(4_096));
        }),
        case("trains of 64 KiB", "sender-cpu", &[], tx(), |r| {
            busy(r);
            let nic = nic(&mut r.target);
            (nic.gso_max_size, nic.gso_max_segments) = (Some(65_536), Some(65_535));
        }),
        // A window of one segment leaves nothing to cut or merge.
        case(
            "TSO off, and every segment marked",
            "congestion-marks",
            &["segmentation", "sender-cpu"],
            tcp(Tx, 95.0),
            |r| {
                busy(r);
                nic(&mut r.target).offloads.insert("tx-tcp-segmentation".to_owned(), false);
                let tcp = tcp_of(r);
                (tcp.rtt_s, tcp.segments_lost) = (Some(2e-4), Some(0));
                let sent = tcp.segments_sent.expect("a stream has them");
                r.target.counters.add(Stage::SenderSocket, "TcpExt TCPDeliveredCE", sent);
            },
        ),
        case("GRO off", "segmentation", &["receiver-cpu"], tcp(Rx, 400.0), |r| {
            busy(r);
            nic(&mut r.target).offloads.insert("rx-gro".to_owned(), false);
        }),
        case("GRO off where nothing is to merge, as over a veth", "receiver-cpu", &[], tcp(Rx, 400.0), |r| {
            busy(r);
            nic(&mut r.target).offloads.insert("rx-gro".to_owned(), false);
            r.target.counters.add(Stage::DriverRxRing, "link rx_packets", 2_000);
            r.target.counters.add(Stage::DriverRxRing, "link rx_bytes", 2_000 * 50_000);
        }),
        case("checksums by the CPU", "checksum-offload", &["sender-cpu"], tx(), |r| {
            busy(r);
            nic(&mut r.target).offloads.insert("tx-checksum-ipv4".to_owned(), false);
        }),
        case("a lossy way behind a CPU that computes checksums in time", "lossy-path", &[], udp(Rx, 100, 92.0), |r| {
            let full = CpuShares { busy: 0.98, system: 0.7, softirq: 0.28, ..CpuShares::default() };
            cpus(&mut r.host, &[full]);
            r.host.threads.as_mut().expect("they are told").system_s = 1.5;
            nic(&mut r.host).offloads.insert("tx-checksum-ipv4".to_owned(), false);
            let lost = lose(r, 1_360);
            between_links(r, 17_006, lost);
        }),
        case("no checksums over the other IP by the MAC", "sender-cpu", &[], tx(), |r| {
            busy(r);
            drop(r.asked.insert("ip".to_owned(), "4".to_owned()));
            nic(&mut r.target).offloads.insert("tx-checksum-ipv6".to_owned(), false);
        }),
        case("buffers at odd addresses, copied", "unaligned", &["sender-cpu"], tx(), |r| {
            busy(r);
            drop(r.asked.insert("alignment".to_owned(), "1".to_owned()));
            nic(&mut r.target).offloads.insert("tx-scatter-gather".to_owned(), false);
        }),
        case(
            "a MAC that addresses less memory than there is",
            "bounce-buffers",
            &["receiver-cpu"],
            tcp(Rx, 400.0),
            |r| {
                busy(r);
                let mut profile = sample::full().target.profile.expect("the example has one");
                let taken = &mut profile.taken;
                taken
                    .functions
                    .push(Function { name: Some("swiotlb_tbl_map_single".to_owned()), object: KERNEL.to_owned() });
                let frames = vec![0, taken.functions.len() as u32 - 1, 2];
                taken.stacks.push(Stack { process: 0, frames, samples: 80 });
                r.target.profile = Some(profile);
            },
        ),
        case("an interrupt for each packet", "interrupt-storm", &["receiver-cpu"], tcp(Rx, 400.0), |r| {
            busy(r);
            r.target.counters.add(Stage::DriverRxRing, "link rx_packets", 69_000);
            r.target.counters.add(Stage::DriverTxRing, "link tx_packets", 34_000);
            r.target.counters.add(Stage::DriverRxRing, "irq 63 2188000.ethernet", 72_000);
            nic(&mut r.target).coalescing.insert("rx-usecs".to_owned(), 0);
        }),
        case("powersave", "governor", &["sender-cpu"], tx(), |r| {
            busy(r);
            r.target.environment.cpu.governor = Some("powersave".to_owned());
        }),
        case("ondemand, which seldom went up", "governor", &["sender-cpu"], tx(), |r| {
            busy(r);
            r.target.environment.cpu.governor = Some("ondemand".to_owned());
            r.target.counters.add(Stage::SoftirqBacklog, "cpu frequency 396000 kHz, 10 ms", 120);
            r.target.counters.add(Stage::SoftirqBacklog, "cpu frequency 996000 kHz, 10 ms", 80);
        }),
        case("too hot", "throttled", &["sender-cpu"], tx(), |r| {
            busy(r);
            r.target.counters.add(Stage::SoftirqBacklog, "cpu too hot, core_throttle_count", 41);
        }),
        case("a noisy neighbour", "steal", &["sender-cpu"], tx(), |r| {
            tcp_of(r).limited_by_receive_window = Some(0.0);
            r.target.cpu.as_mut().expect("it is there").machine.steal = 0.34;
        }),
    ]
}

fn slow_answers() -> Vec<FaultCase> {
    vec![
        case("EEE at 1 Gbit/s", "eee", &[], rr(110e-6), |r| {
            nic(&mut r.target).eee = Some(Eee { enabled: Some(true), active: Some(true), tx_lpi_timer_us: Some(20) });
        }),
        case("report 1: wait mode", "idle-states", &[], rr(190e-6), |r| {
            r.target.environment.cpu.idle_states = vec![
                IdleState { name: "WFI".to_owned(), exit_latency_us: Some(1), disabled: Some(false) },
                IdleState { name: "WAIT".to_owned(), exit_latency_us: Some(50), disabled: Some(false) },
            ];
            r.target.counters.add(Stage::SoftirqBacklog, "cpu idle WAIT entered", 21_000);
        }),
        case("coalescing of 125 µs", "coalescing-latency", &[], rr(180e-6), |r| {
            nic(&mut r.target).coalescing.insert("rx-usecs".to_owned(), 125);
        }),
    ]
}

// ---- What the cases are made of. ----

/// A UDP stream between a board and a server, nothing wrong but that less may come through.
fn udp(direction: Direction, mbit: u32, through: f64) -> Record {
    let mut record = sample::udp(0, direction, mbit, f64::from(mbit));
    hardware(&mut record);
    if through < f64::from(mbit) {
        let flow = &mut record.result.as_mut().expect("figures").flow;
        flow.throughput_bps = Some(through * 1e6);
    }
    record
}

fn tcp(direction: Direction, mbit: f64) -> Record {
    let mut record = sample::tcp(0, direction, mbit, false);
    hardware(&mut record);
    record.doubts.clear();
    let tcp = tcp_of(&mut record);
    (tcp.retransmissions, tcp.reordered_segments) = (0, Some(0));
    (tcp.limited_by_receive_window, tcp.limited_by_application) = (Some(0.0), Some(0.0));
    tcp.segments_sent = Some((mbit * 2e6 / 8.0 / 1448.0) as u64);
    record
}

/// Requests that half of which were answered within this time.
fn rr(median_s: f64) -> Record {
    let mut record = sample::rr(0, "64");
    hardware(&mut record);
    record.doubts.clear();
    let count = (2.0 / median_s) as u64;
    let result = record.result.as_mut().expect("figures");
    result.transactions_per_s = Some(1.0 / median_s);
    result.latency = Some(Latency {
        of: "udp-rr".to_owned(),
        count,
        timeouts: Some(0),
        min_s: Some(0.8 * median_s),
        mean_s: Some(median_s),
        max_s: Some(4.0 * median_s),
        percentiles: [("p50".to_owned(), median_s), ("p99".to_owned(), 2.0 * median_s)].into(),
        histogram: Histogram::default(),
    });
    record
}

/// A board's fec and a server's igb on one cable, all as it should be.
fn hardware(record: &mut Record) {
    for machine in [&mut record.target, &mut record.host] {
        machine.counters = Default::default();
        machine.environment.virtualization = None;
        let nic = nic(machine);
        (nic.kind, nic.eee, nic.link_modes) = (None, None, None);
        nic.coalescing = [("rx-usecs".to_owned(), 8)].into();
        nic.offloads = ["tx-tcp-segmentation", "tx-generic-segmentation", "rx-gro", "rx-checksum", "tx-scatter-gather"]
            .map(|name| (name.to_owned(), true))
            .into();
    }
    record.target.environment.cpu.idle_states.clear();
    record.host.environment.cpu.idle_states.clear();
    (nic(&mut record.host).driver, record.host.environment.machine) =
        (Some("igb".to_owned()), Some("a server".to_owned()));
    // A stream's thread and CPU with time left.
    for machine in [&mut record.target, &mut record.host] {
        cpus(machine, &[CpuShares { busy: 0.4, system: 0.25, softirq: 0.1, user: 0.05, ..CpuShares::default() }; 4]);
    }
    (record.loss_budget, record.unaccounted) =
        (record.loss_budget.as_ref().map(|_| Vec::new()), record.unaccounted.map(|_| 0));
}

fn nic(machine: &mut Machine) -> &mut linerate_machine::environment::Nic {
    machine.environment.nic.as_mut().expect("the example has one")
}

fn tcp_of(record: &mut Record) -> &mut linerate_trial::outcome::TcpSummary {
    record.result.as_mut().and_then(|figures| figures.flow.tcp.as_mut()).expect("a TCP stream")
}

fn sysctl(machine: &mut Machine, name: &str, value: &str) {
    machine.environment.sysctls.insert(name.to_owned(), value.to_owned());
}

fn modes(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn idle() -> CpuShares {
    CpuShares { busy: 0.1, system: 0.1, ..CpuShares::default() }
}

fn cpus(machine: &mut Machine, shares: &[CpuShares]) {
    let used = machine.cpu.as_mut().expect("the example has it");
    used.per_cpu = shares.to_vec();
    used.cpus = shares.len() as u32;
    used.machine.busy = shares.iter().map(|one| one.busy).sum::<f64>() / shares.len() as f64;
}

/// The target's threads worked so long and waited so long for CPUs, seconds, of which other programs had nearly all; and more was
/// asked than came about.
fn crowded(record: &mut Record, rate: &str, worked_s: f64, waited_s: f64) {
    drop(record.asked.insert("rate".to_owned(), rate.to_owned()));
    let threads = record.target.threads.as_mut().expect("they are told");
    (threads.user_s, threads.system_s, threads.run_delay_s) = (0.0, worked_s, Some(waited_s));
    let full = CpuShares { busy: 1.0, user: 0.95, system: 0.05, ..CpuShares::default() };
    cpus(&mut record.target, &[full; 2]);
    let what = Doubted::BusyMachine { share: 0.95, real_time: None, most: "compiler".to_owned() };
    record.doubts.push(Doubt { end: Some(End::Target.into()), what });
}

/// So many datagrams did not arrive.
fn lose(record: &mut Record, lost: u64) -> u64 {
    let flow = &mut record.result.as_mut().expect("figures").flow;
    let sent = flow.packets_sent.expect("a UDP stream");
    (flow.packets_lost, flow.packets_received) = (Some(lost), Some(sent - lost));
    flow.loss_ratio = Some(lost as f64 / sent as f64);
    lost
}

/// So many left the sender's link, and so many of them did not arrive at the receiver's.
fn between_links(record: &mut Record, sent: u64, lost: u64) {
    record.host.counters.add(Stage::DriverTxRing, "link tx_packets", sent);
    record.target.counters.add(Stage::DriverRxRing, "link rx_packets", sent - lost);
}

/// Requests every 5 ms for so long, answered and waited for in vain; the target's link sent an answer to each.
fn waited(record: &mut Record, [answered, lost]: [u64; 2], seconds: f64) {
    drop(record.asked.insert("rate".to_owned(), "200pps".to_owned()));
    record.duration_s = Some(seconds);
    let result = record.result.as_mut().expect("figures");
    result.transactions_per_s = Some(answered as f64 / seconds);
    let latency = result.latency.as_mut().expect("it is timed");
    (latency.count, latency.timeouts) = (answered, Some(lost));
    let sent = answered + lost;
    let way = |direction, of, lost: u64| Losses { direction, of, sent, arrived: sent - lost, unaccounted: lost as i64 };
    record.losses = vec![way(Rx, Counted::Requests, 0), way(Tx, Counted::Answers, lost)];
    (record.loss_budget, record.unaccounted) = (Some(Vec::new()), Some(lost as i64));
    acknowledged(record, [sent, answered + 9]);
    // What the requester sent when the other end had ended was refused.
    record.host.counters.add(Stage::ReceiverStack, "Icmp InDestUnreachs", 9);
}

/// The target's address is at an interface without a queue, which stands on this one.
fn below(record: &mut Record, name: &str) {
    let nic = nic(&mut record.target);
    (nic.qdisc, nic.queue_length, nic.qdiscs) = (Some("noqueue".to_owned()), Some(1000), Vec::new());
    record.target.counters.add(Stage::Qdisc, format!("{name} tbf packets"), 3_286);
}

/// An interface counted so many packets of 1.5 kB this way, `rx` or `tx`.
fn counted(machine: &mut Machine, stage: Stage, way: &str, packets: u64) {
    machine.counters.add(stage, format!("link {way}_packets"), packets);
    machine.counters.add(stage, format!("link {way}_bytes"), packets * 1512);
}

/// Arrivals at these distances, and what was lost in runs of these lengths: each with how often.
fn arrivals(record: &mut Record, gaps: &[(u64, u64)], runs: &[(u64, u64)]) {
    let flow = &mut record.result.as_mut().expect("figures").flow;
    let mut histogram = Histogram::default();
    gaps.iter().for_each(|(ns, count)| (0..*count).for_each(|_| histogram.record(*ns)));
    flow.arrival_gaps = Some(histogram);
    flow.loss_bursts = Some(runs.iter().copied().collect());
}

/// So many packets went back from the receiving target, and so many arrived at the host.
fn acknowledged(record: &mut Record, [sent, arrived]: [u64; 2]) {
    record.target.counters.add(Stage::DriverTxRing, "link tx_packets", sent);
    record.host.counters.add(Stage::DriverRxRing, "link rx_packets", arrived);
}

/// This limited for so long.
fn limited(record: &mut Record, limit: Limit, end: Option<End>, share: f64) {
    let direction = record.direction;
    let line = |limit, end, share| TimeLine { direction, limit, end, seconds: 2.0 * share, share };
    record.time_budget = vec![line(limit, end, share), line(Limit::Unaccounted, None, 1.0 - share)];
}

/// Requests over TCP, of which so many took as long as its timer.
fn over_tcp(record: &mut Record, slow: u64) {
    record.workload = Workload::TcpRr;
    let latency = record.result.as_mut().and_then(|figures| figures.latency.as_mut()).expect("it is timed");
    latency.histogram.record_n(300_000, 5_000);
    latency.histogram.record_n(204_000_000, slow);
}

/// Segments of requests, or of answers: lost, and of them unaccounted for.
fn of_segments(direction: Direction, lost: u64, unaccounted: i64) -> Losses {
    Losses { direction, of: Counted::Segments, sent: 5_007, arrived: 5_007 - lost, unaccounted }
}

/// Answers of which half take so long that the quickest is no measure for them.
fn slow(record: &mut Record, limit: Limit, share: f64) {
    let latency = record.result.as_mut().and_then(|figures| figures.latency.as_mut()).expect("it is timed");
    latency.min_s = Some(20e-6);
    let seconds = latency.mean_s.expect("a mean") * share;
    let line = |limit, seconds, share| TimeLine { direction: Rx, limit, end: None, seconds, share };
    record.time_budget = vec![line(limit, seconds, share), line(Limit::OnTheWay, 1e-5, 1.0 - share)];
}

/// They were lost at the receiver's sockets.
fn socket_drops(record: &mut Record, lost: u64) {
    lose(record, lost);
    record.target.counters.add(Stage::ReceiverSocket, "Udp RcvbufErrors", lost);
    sysctl(&mut record.target, "net.core.rmem_default", "212992");
}

/// Makes the loss budget as measuring does.
fn settle(record: &mut Record) {
    let lost = record.losses_of(Counted::Segments).iter().map(|losses| losses.lost()).sum();
    if record.workload == Workload::TcpRr || (record.workload == Workload::TcpStream && lost > 0) {
        let (target, host) = (&record.target.counters, &record.host.counters);
        let (target, host) =
            (MachineAccount::new(End::Target, target, None), MachineAccount::new(End::Host, host, None));
        let (sender, receiver) = if record.direction == Tx { (&target, &host) } else { (&host, &target) };
        record.loss_budget = Some(drops_seen(false, Some(lost), Chain::direct(sender, receiver)).lines);
        return;
    }
    let Some(flow) = record.result.as_ref().map(|figures| &figures.flow) else { return };
    let (Some(sent), Some(received)) = (flow.packets_sent, flow.packets_received) else { return };
    let altered = flow.frames.as_ref().map_or(0, |frames| frames.malformed);
    let datagrams = Datagrams { sent, received_unique: received, altered, ..Datagrams::default() };
    let seen = |end, machine: &Machine| {
        let nic = machine.environment.nic.as_ref();
        MachineAccount::new(end, &machine.counters, nic.and_then(|nic| nic.driver.as_deref()))
            .with_nic(nic.map(|nic| nic.name.as_str()))
    };
    let (target, host) = (seen(End::Target, &record.target), seen(End::Host, &record.host));
    let (sender, receiver) = if record.direction == Tx { (&target, &host) } else { (&host, &target) };
    let on_way = record.middle.as_ref().map(|middle| middle.on_way(record.direction, record.environments()));
    let middle = on_way.as_ref().map(MiddlePath::between);
    let budget = loss_budget(&datagrams, Chain { sender, receiver, middle });
    record.loss_budget = Some(budget.lines);
    record.unaccounted = Some(budget.unaccounted);
    record.doubts.extend(budget.disagreements.into_iter().map(Doubt::from));
    debug_assert!(record.doubts.iter().all(|doubt: &Doubt| doubt.kind() != DoubtKind::SharedMachine));
}
