//! Every figure there is, a row each, in the order of tables and CSV.
//! docs/record-format.md and docs/method.md have tables that are written from these rows.

use linerate_machine::cpu::CpuShares;
use linerate_machine::end::Direction;
use linerate_machine::end::End::{self, Host, Target};
use linerate_machine::units::OfferedLoad;
use linerate_path::budget::PauseFrames;
use linerate_path::stage::Stage;
use linerate_trial::histogram::Histogram;
use linerate_trial::outcome::TcpSummary;
use linerate_trial::wire::EthernetOverhead;

use crate::figure::About::{self, CpuByOctets, CpuByPackets, Delay, Loss, Order, Rate, SentLoad};
use crate::figure::Layer::{self, Line, Machine, Payload, RoundTrip, Sent, Tcp, Wire};
use crate::figure::Unit::{
    self, BitRate, Bytes, Calls, Datagrams, Frames, Packets, PerSecond, Requests, Segments, Share, Time, UsPerKib,
    UsPerPacket,
};
use crate::figure::{Better, Column, Compared, Difference, Figure, Getter, Source};
use crate::record::{FlowFigures, Latency, ServiceDemand};

/// A row: its kind with name, title, unit and so on, where the record has it, and in braces what not every figure has.
macro_rules! figures {
    ($($kind:ident($($part:expr),+) $({ $($field:ident: $value:expr),+ })?;)+) => {
        /// Every figure.
        pub static FIGURES: &[Figure] = &[$(Figure { $($($field: $value,)+)? ..$kind($($part),+) }),+];
    };
}

figures! {
    figure("offered_load_bps", "offered load", BitRate, SentLoad, Getter::Source("asked", |s| s.offered_bps()))
        { layer: Payload, column: headed("offered", COLUMN) };
    flow("achieved_load_bps", "achieved load", BitRate, SentLoad, |f| f.achieved_load_bps)
        { layer: Payload, each_way: true, compared: on_demand(RATE), column: headed("achieved", left_out(3)) };
    flow("throughput_bps", "throughput", BitRate, Rate, |f| f.throughput_bps)
        { layer: Payload, each_way: true, compared: Some(Compared { each_way: true, ..RATE }), column: SPREAD };
    flow("octets_sent", "sent", Bytes, SentLoad, |f| number(f.octets_sent)) { layer: Payload };
    flow("octets_received", "received", Bytes, Rate, |f| number(f.octets)) { layer: Payload };
    flow("packets_sent", "sent", Datagrams, SentLoad, |f| number(f.packets_sent)) { each_way: true };
    flow("packets_received", "received", Datagrams, Rate, |f| number(f.packets_received)) { each_way: true };
    flow("packets_per_s", "packets", PerSecond, Rate, |f| {
        // Of the time in which the payload arrived: what drained from a queue later is received, and none of these.
        Some(f.throughput_bps? / 8.0 / f.octets_each()?)
    }) { each_way: true, compared: on_demand(RATE), column: left_out(4) };
    flow("wire_bps", "on the wire", BitRate, Rate, |f| {
        // Each frame with its preamble and the gap behind it.
        let each = f.octets_each().filter(|_| f.frames.is_some())?;
        Some(f.throughput_bps? * (each + BETWEEN_FRAMES) / each)
    }) { layer: Wire, each_way: true, column: left_out(4) };
    figure("line_utilisation", "line", Share, Rate, Getter::Source("result", |s| {
        // Of the rate that the load was a part of, or the slower of the two ends' links; of both directions at once each has a line
        // of its own.
        let way = s.direction.unwrap_or(s.record.direction);
        let asked = s.record.asked.get("line_rate").and_then(|rate| match rate.parse() {
            Ok(OfferedLoad::BitsPerSecond(bits)) => Some(bits as f64),
            _ => None,
        });
        let speed = |end| Some(f64::from(s.record.machine(end).environment.nic.as_ref()?.speed_mbps?) * 1e6);
        let line = asked.or_else(|| speed(Target).into_iter().chain(speed(Host)).reduce(f64::min))?;
        let each = s.flow?.octets_each().filter(|_| s.flow.is_some_and(|f| f.frames.is_some()))?;
        (way != Direction::Both).then_some(s.flow?.throughput_bps? * (each + BETWEEN_FRAMES) / each / line)
    })) { layer: Line, each_way: true, column: left_out(4) };
    flow("frames_malformed", "malformed", Frames, Order, |f| Some(f.frames.as_ref()?.malformed as f64))
        { each_way: true, column: RARE };
    flow("frames_foreign", "foreign", Frames, Order, |f| number(f.frames.as_ref()?.foreign_total()))
        { each_way: true, column: RARE };
    flow("frames_unsent", "taken and not sent", Frames, SentLoad, |f| number(f.frames.as_ref()?.unsent))
        { each_way: true, column: RARE };
    flow("packets_lost", "lost", Datagrams, Loss, |f| number(f.packets_lost)) { each_way: true, column: COLUMN };
    flow("loss_ratio", "loss", Share, Loss, |f| f.loss_ratio)
        { layer: Sent, each_way: true, compared: Some(LOSS), column: headed("lost", SPREAD) };
    flow("packets_duplicated", "duplicated", Datagrams, Order, |f| number(f.packets_duplicated))
        { each_way: true, column: RARE };
    flow("packets_reordered", "reordered", Datagrams, Order, |f| number(f.packets_reordered))
        { each_way: true, column: RARE };
    flow("packets_late", "late", Datagrams, Order, |f| number(f.packets_late)) { each_way: true, column: RARE };
    flow("longest_loss", "longest run of lost", Datagrams, Loss, |f| Some(*f.loss_bursts.as_ref()?.last_key_value()?.0 as f64));
    flow("jitter_s", "jitter", Time, Delay, |f| f.jitter_s)
        { each_way: true, compared: Some(JITTER), column: left_out(4) };
    flow("departure_gap_p50_s", "send gap p50", Time, SentLoad, |f| gap(&f.departure_gaps, 50.0))
        { in_csv: false };
    flow("departure_gap_p99_s", "send gap p99", Time, SentLoad, |f| gap(&f.departure_gaps, 99.0))
        { in_csv: false };
    flow("arrival_gap_p50_s", "gap between arrivals p50", Time, Delay, |f| gap(&f.arrival_gaps, 50.0)) { in_csv: false };
    flow("arrival_gap_p99_s", "gap between arrivals p99", Time, Delay, |f| gap(&f.arrival_gaps, 99.0)) { in_csv: false };
    flow("send_calls", "that sent", Calls, SentLoad, |f| number(f.send_calls));
    flow("receive_calls", "that received", Calls, Rate, |f| number(f.receive_calls));
    flow("zero_copy_sends", "without a copy", Calls, SentLoad, |f| number(f.sender_api.as_ref()?.completions));
    flow("zero_copy_sends_copied", "copied after all", Calls, SentLoad,
        |f| number(f.sender_api.as_ref()?.completions_copied));
    flow("octets_mapped", "received without a copy", Bytes, Rate, |f| number(f.receiver_api.as_ref()?.octets_mapped));
    tcp("tcp_retransmissions", "retransmitted", Segments, Loss, |t| Some(t.retransmissions as f64))
        { layer: Tcp, compared: on_demand(SEGMENTS), column: left_out(5) };
    tcp("tcp_loss_ratio", "segments lost", Share, Loss, |t| {
        // Of those sent, retransmissions included; by both ends' counts, so that what was retransmitted in vain is none.
        Some(t.segments_lost? as f64 / t.segments_sent.filter(|sent| *sent > 0)? as f64)
    }) { layer: Tcp, compared: on_demand(LOSS) };
    tcp("tcp_segments_sent", "sent", Segments, SentLoad, |t| number(t.segments_sent)) { layer: Tcp };
    tcp("tcp_reordered_segments", "reordered", Segments, Order, |t| number(t.reordered_segments)) { layer: Tcp };
    tcp("tcp_rtt_s", "TCP's round trip", Time, Delay, |t| t.rtt_s) { compared: on_demand(TAIL) };
    tcp("tcp_min_rtt_s", "TCP's min round trip", Time, Delay, |t| t.min_rtt_s);
    tcp("tcp_cwnd_segments", "congestion window", Segments, SentLoad, |t| t.cwnd.map(f64::from)) { layer: Tcp };
    tcp("tcp_mss", "TCP segment size", Bytes, SentLoad, |t| t.mss.map(f64::from));
    tcp("tcp_limited_by_receive_window", "TCP limited by the receive window (rwnd)", Share, Rate, |t| t.limited_by_receive_window);
    tcp("tcp_limited_by_send_buffer", "TCP limited by the send buffer (sndbuf)", Share, Rate, |t| t.limited_by_send_buffer);
    tcp("tcp_limited_by_application", "TCP limited by the application", Share, Rate, |t| t.limited_by_application);
    figure("transactions_per_s", "transactions", PerSecond, Rate, Getter::Result(|r| r.transactions_per_s))
        { compared: Some(RATE), column: SPREAD };
    latency("latency_count", "answered", Requests, |l| Some(l.count as f64));
    latency("latency_timeouts", "time-outs", Requests, |l| number(l.timeouts))
        { layer: Layer::None, about: Loss, column: RARE };
    latency("latency_min_s", "latency min", Time, |l| l.min_s) { compared: on_demand(DELAY) };
    latency("latency_mean_s", "latency mean", Time, |l| l.mean_s) { compared: on_demand(DELAY) };
    latency("latency_p50_s", "latency p50", Time, |l| percentile(l, "p50")) { compared: Some(DELAY), column: COLUMN };
    latency("latency_p75_s", "latency p75", Time, |l| percentile(l, "p75"));
    latency("latency_p90_s", "latency p90", Time, |l| percentile(l, "p90")) { compared: on_demand(DELAY) };
    latency("latency_p95_s", "latency p95", Time, |l| percentile(l, "p95"));
    latency("latency_p99_s", "latency p99", Time, |l| percentile(l, "p99"))
        { compared: Some(TAIL), column: Some(Column { spread: true, left_out: Some(6), ..PLAIN }) };
    latency("latency_p99.9_s", "latency p99.9", Time, |l| percentile(l, "p99.9")) { compared: on_demand(TAIL) };
    latency("latency_p99.99_s", "latency p99.99", Time, |l| percentile(l, "p99.99")) { compared: on_demand(TAIL) };
    latency("latency_max_s", "latency max", Time, |l| l.max_s) { compared: on_demand(TAIL) };
    cpu("target_cpu_busy", "CPU busy", Target, |c| c.busy) { compared: on_demand(COST), column: left_out(8) };
    cpu("host_cpu_busy", "CPU busy", Host, |c| c.busy) { compared: on_demand(COST), column: left_out(7) };
    cpu("target_cpu_user", "CPU user", Target, |c| c.user);
    cpu("host_cpu_user", "CPU user", Host, |c| c.user);
    cpu("target_cpu_system", "CPU system", Target, |c| c.system);
    cpu("host_cpu_system", "CPU system", Host, |c| c.system);
    cpu("target_cpu_irq", "CPU irq", Target, |c| c.irq);
    cpu("host_cpu_irq", "CPU irq", Host, |c| c.irq);
    cpu("target_cpu_softirq", "CPU softirq", Target, |c| c.softirq);
    cpu("host_cpu_softirq", "CPU softirq", Host, |c| c.softirq);
    cpu("target_cpu_steal", "CPU steal", Target, |c| c.steal);
    cpu("host_cpu_steal", "CPU steal", Host, |c| c.steal);
    demand("target_us_per_kib", UsPerKib, CpuByOctets(Target), Target, |d| d.target_us_per_kib) { column: left_out(2) };
    demand("host_us_per_kib", UsPerKib, CpuByOctets(Host), Host, |d| d.host_us_per_kib) { column: left_out(1) };
    demand("target_us_per_packet", UsPerPacket, CpuByPackets(Target), Target, |d| d.target_us_per_packet)
        { column: left_out(2) };
    demand("host_us_per_packet", UsPerPacket, CpuByPackets(Host), Host, |d| d.host_us_per_packet)
        { column: left_out(1) };
    interrupts("target_interrupts_per_s", Target, |s| interrupts_per_s(s, Target));
    interrupts("host_interrupts_per_s", Host, |s| interrupts_per_s(s, Host));
    pause("target_pause_received", "pause received", Target, |s| number(pauses(s, Target)?.received));
    pause("host_pause_received", "pause received", Host, |s| number(pauses(s, Host)?.received));
    pause("target_pause_sent", "pause sent", Target, |s| number(pauses(s, Target)?.sent));
    pause("host_pause_sent", "pause sent", Host, |s| number(pauses(s, Host)?.sent));
    lost("lost_sender_application_packets", "lost in the sender", Stage::SenderApplication);
    lost("lost_sender_socket_packets", "lost at the sender's socket", Stage::SenderSocket);
    lost("lost_sender_stack_packets", "lost in the sender's stack", Stage::SenderStack);
    lost("lost_qdisc_packets", "lost at the qdisc", Stage::Qdisc);
    lost("lost_driver_tx_ring_packets", "lost at the TX ring", Stage::DriverTxRing);
    lost("lost_mac_tx_packets", "lost at MAC TX", Stage::MacTx);
    lost("lost_link_packets", "lost on the link", Stage::Link);
    lost("lost_mac_rx_fifo_packets", "lost at the RX FIFO", Stage::MacRxFifo);
    lost("lost_driver_rx_ring_packets", "lost at the RX ring", Stage::DriverRxRing);
    lost("lost_softirq_backlog_packets", "lost at the backlog", Stage::SoftirqBacklog);
    lost("lost_receiver_stack_packets", "lost in the receiver's stack", Stage::ReceiverStack);
    lost("lost_receiver_socket_packets", "lost at the receiver's socket", Stage::ReceiverSocket);
    lost("lost_receiver_application_packets", "lost in the receiver", Stage::ReceiverApplication);
    lost_by("lost_middle_packets", "lost in the middle", None);
}

/// Octets of an Ethernet's time that pass with each frame: preamble and gap.
const BETWEEN_FRAMES: f64 = EthernetOverhead::frame_wire_octets(0) as f64;

const SPEED: [&str; 2] = ["faster", "slower"];

/// Figures of one kind are compared alike; docs/method.md says where resolution and margin come from.
const RATE: Compared = Compared {
    better: Better::Up,
    words: SPEED,
    difference: Difference::Relative,
    resolution: 0.001,
    margin: 0.02,
    usual: true,
    each_way: false,
};
const LOSS: Compared = Compared {
    words: ["loses less", "loses more"],
    difference: Difference::Absolute,
    ..less_is_better(0.000_01, 0.001)
};
const DELAY: Compared = less_is_better(0.01, 0.05);
const TAIL: Compared = less_is_better(0.01, 0.1);
const JITTER: Compared = Compared { words: ["steadier", "less steady"], ..TAIL };
const SEGMENTS: Compared = Compared { words: ["fewer", "more"], ..TAIL };
const COST: Compared = Compared { words: ["cheaper", "dearer"], ..less_is_better(0.005, 0.03) };

const fn less_is_better(resolution: f64, margin: f64) -> Compared {
    Compared { better: Better::Down, resolution, margin, ..RATE }
}

const fn figure(name: &'static str, title: &'static str, unit: Unit, about: About, value: Getter) -> Figure {
    let (compared, column) = (None, None);
    Figure { name, title, unit, layer: Layer::None, about, compared, column, each_way: false, in_csv: true, value }
}

type Of<T> = fn(&T) -> Option<f64>;

const fn flow(name: &'static str, title: &'static str, unit: Unit, about: About, of: Of<FlowFigures>) -> Figure {
    figure(name, title, unit, about, Getter::Flow(of))
}

const fn tcp(name: &'static str, title: &'static str, unit: Unit, about: About, of: Of<TcpSummary>) -> Figure {
    figure(name, title, unit, about, Getter::Tcp(of))
}

const fn latency(name: &'static str, title: &'static str, unit: Unit, of: Of<Latency>) -> Figure {
    Figure { layer: RoundTrip, ..figure(name, title, unit, Delay, Getter::Latency(of)) }
}

const fn cpu(name: &'static str, title: &'static str, end: End, of: fn(&CpuShares) -> f64) -> Figure {
    Figure { layer: Machine(end), ..figure(name, title, Share, CpuByOctets(end), Getter::Cpu(end, of)) }
}

const fn demand(name: &'static str, unit: Unit, about: About, end: End, of: Of<ServiceDemand>) -> Figure {
    let figure = figure(name, "CPU time", unit, about, Getter::Demand(of));
    Figure { layer: Machine(end), compared: Some(COST), ..figure }
}

type OfSource = fn(Source<'_>) -> Option<f64>;

const fn interrupts(name: &'static str, end: End, of: OfSource) -> Figure {
    let place = if matches!(end, Target) { "target.counters" } else { "host.counters" };
    let figure = figure(name, "interrupts", PerSecond, CpuByPackets(end), Getter::Source(place, of));
    Figure { layer: Machine(end), compared: on_demand(SEGMENTS), ..figure }
}

/// Those of the interface, which are of both directions.
fn interrupts_per_s(source: Source<'_>, end: End) -> Option<f64> {
    let counters =
        source.record.machine(end).counters.0.get(&Stage::DriverRxRing).filter(|_| source.direction.is_none())?;
    let all = counters.iter().filter(|(name, _)| name.starts_with("irq ")).map(|(_, count)| *count as f64);
    Some(all.reduce(|sum, more| sum + more)? / source.record.whole_s()?)
}

const fn pause(name: &'static str, title: &'static str, end: End, of: OfSource) -> Figure {
    let place = if matches!(end, Target) { "target.pause_frames" } else { "host.pause_frames" };
    let figure = figure(name, title, Frames, Rate, Getter::Source(place, of));
    Figure { layer: Machine(end), column: SELDOM, ..figure }
}

/// Those of both directions: which of them a pause held up, no counter tells.
fn pauses(source: Source<'_>, end: End) -> Option<&PauseFrames> {
    source.record.machine(end).pause_frames.as_ref().filter(|_| source.direction.is_none())
}

const fn lost(name: &'static str, title: &'static str, stage: Stage) -> Figure {
    lost_by(name, title, Some(stage))
}

const fn lost_by(name: &'static str, title: &'static str, stage: Option<Stage>) -> Figure {
    Figure { column: SELDOM, ..figure(name, title, Packets, Loss, Getter::LostAt(stage)) }
}

const PLAIN: Column = Column { heading: None, spread: false, rare: false, left_out: None };
const COLUMN: Option<Column> = Some(PLAIN);
const SPREAD: Option<Column> = Some(Column { spread: true, ..PLAIN });
const RARE: Option<Column> = Some(Column { rare: true, ..PLAIN });
const SELDOM: Option<Column> = Some(Column { rare: true, left_out: Some(9), ..PLAIN });

const fn left_out(turn: u8) -> Option<Column> {
    Some(Column { left_out: Some(turn), ..PLAIN })
}

const fn headed(heading: &'static str, column: Option<Column>) -> Option<Column> {
    match column {
        Some(column) => Some(Column { heading: Some(heading), ..column }),
        None => None,
    }
}

const fn on_demand(how: Compared) -> Option<Compared> {
    Some(Compared { usual: false, ..how })
}

fn number(count: Option<u64>) -> Option<f64> {
    Some(count? as f64)
}

fn gap(gaps: &Option<Histogram>, percent: f64) -> Option<f64> {
    Some(gaps.as_ref()?.percentile_ns(percent)? as f64 / 1e9)
}

fn percentile(latency: &Latency, name: &str) -> Option<f64> {
    latency.percentiles.get(name).copied()
}
