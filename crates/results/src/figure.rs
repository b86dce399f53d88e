//! A figure of a record: its name, unit and layer, which way is better, how finely it is measured, where it is shown.
//! The figures themselves are rows of [`FIGURES`].

use std::sync::LazyLock;

use linerate_machine::cpu::CpuShares;
use linerate_machine::end::{Direction, End, Party};
use linerate_path::budget::LossLine;
use linerate_path::stage::Stage;
use linerate_trial::outcome::TcpSummary;
use linerate_trial::spec::{Spec, Workload};

pub use crate::figures::FIGURES;
use crate::record::{Figures, FlowFigures, Latency, Record, ServiceDemand, is_measurable};

/// One figure. CSV columns, columns of tables, metrics, lines of `records show` and the documents follow from it.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    /// Its name in CSV and for scripts; ends in the record's unit.
    pub name: &'static str,
    /// Its name for people.
    pub title: &'static str,
    /// The unit in which people read it.
    pub unit: Unit,
    /// What it counts, or whose it is.
    pub layer: Layer,
    /// What it depends on: which doubts are about it, and what makes it incomparable.
    pub about: About,
    /// How it is compared; absent where it is no metric.
    pub compared: Option<Compared>,
    /// How tables of records show it; absent where they do not.
    pub column: Option<Column>,
    /// CSV has it for each direction too.
    pub each_way: bool,
    /// CSV has it. What a record in brief does not keep is shown of single records only.
    pub in_csv: bool,
    /// Where the record has it.
    pub value: Getter,
}

/// The unit of a figure for people; the record's is what its name ends in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Unit {
    BitRate,
    PerSecond,
    Share,
    Time,
    Datagrams,
    Packets,
    Frames,
    Segments,
    Requests,
    Bytes,
    Calls,
    UsPerKib,
    UsPerPacket,
}

/// How many digits of a figure mean something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Digits {
    /// It is a count.
    Whole,
    /// To a tenth of a percent.
    Percent,
    /// This number of significant digits.
    Significant(i32),
}

impl Unit {
    const fn row(self) -> (&'static str, f64, Digits) {
        match self {
            Unit::BitRate => ("Mbit/s", 1e-6, Digits::Significant(4)),
            Unit::PerSecond => ("1/s", 1.0, Digits::Significant(4)),
            Unit::Share => ("%", 100.0, Digits::Percent),
            Unit::Time => ("µs", 1e6, Digits::Significant(3)),
            Unit::Datagrams => ("datagrams", 1.0, Digits::Whole),
            Unit::Packets => ("packets", 1.0, Digits::Whole),
            Unit::Frames => ("frames", 1.0, Digits::Whole),
            Unit::Segments => ("segments", 1.0, Digits::Whole),
            Unit::Requests => ("requests", 1.0, Digits::Whole),
            Unit::Bytes => ("bytes", 1.0, Digits::Whole),
            Unit::Calls => ("system calls", 1.0, Digits::Whole),
            Unit::UsPerKib => ("µs/KiB", 1.0, Digits::Significant(3)),
            Unit::UsPerPacket => ("µs/packet", 1.0, Digits::Significant(3)),
        }
    }

    /// Its name for people.
    pub const fn name(self) -> &'static str {
        self.row().0
    }

    /// What the record's figure is multiplied with for this unit.
    pub const fn scale(self) -> f64 {
        self.row().1
    }

    /// How figures in it are written.
    pub const fn digits(self) -> Digits {
        self.row().2
    }

    /// The unit in which an absolute difference is told.
    pub const fn of_difference(self) -> &'static str {
        if matches!(self, Unit::Share) { "percentage points" } else { self.name() }
    }
}

/// What a figure counts, or whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// The name says it.
    None,
    /// UDP's or TCP's payload, as the workload is.
    Payload,
    /// Frames with what stands between them on the wire.
    Wire,
    /// A share of what the line carries.
    Line,
    /// TCP's own account.
    Tcp,
    /// From request to response.
    RoundTrip,
    /// A share of what was sent.
    Sent,
    /// One of the two machines.
    Machine(End),
}

/// What a figure depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// What was offered and sent.
    SentLoad,
    /// How much passes.
    Rate,
    /// What is lost of what was offered.
    Loss,
    /// Duplicates and order.
    Order,
    /// Times.
    Delay,
    /// CPU time by octets.
    CpuByOctets(End),
    /// By packets.
    CpuByPackets(End),
}

impl About {
    /// CPU time.
    pub const fn is_cpu(self) -> bool {
        matches!(self, About::CpuByOctets(_) | About::CpuByPackets(_))
    }
}

/// How a figure is compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Compared {
    /// Which way is better.
    pub better: Better,
    /// What a better and a worse one are called.
    pub words: [&'static str; 2],
    /// How its differences are told.
    pub difference: Difference,
    /// A smaller difference than this cannot be told from the way it is measured, whatever the repeats say.
    pub resolution: f64,
    /// A smaller difference than this does not matter, unless the user says otherwise: the goal of "the same within".
    pub margin: f64,
    /// Judged unless the user picks others.
    pub usual: bool,
    /// Where both directions ran, each is judged too, unless the user picks others.
    pub each_way: bool,
}

/// Which way is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// More is better.
    Up,
    /// Less is better.
    Down,
}

/// How differences of a metric are told: resolution, margin and gates are of this kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Difference {
    /// As a part of the baseline.
    Relative,
    /// As it is; of a ratio that is often 0, in percentage points.
    Absolute,
}

/// A column in tables of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its heading, where that is not the figure's title.
    pub heading: Option<&'static str>,
    /// With repeats, the smallest and the largest stand beside the median.
    pub spread: bool,
    /// Left out when all are zero.
    pub rare: bool,
    /// A narrow terminal can do without it; the lowest number goes first.
    pub left_out: Option<u8>,
}

/// Where a record has a figure.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the parts of the record that are named in the types")]
pub enum Getter {
    /// What is worked out of more than one part of the record; and its main part.
    Source(&'static str, fn(Source<'_>) -> Option<f64>),
    Result(fn(&Figures) -> Option<f64>),
    Flow(fn(&FlowFigures) -> Option<f64>),
    Tcp(fn(&TcpSummary) -> Option<f64>),
    Latency(fn(&Latency) -> Option<f64>),
    Demand(fn(&ServiceDemand) -> Option<f64>),
    Cpu(End, fn(&CpuShares) -> f64),
    /// What the loss budget puts at this stage of the ends, whole trial; `None`: in the machine between them.
    LostAt(Option<Stage>),
}

impl Getter {
    /// The part of the record, as documents name it.
    pub const fn place(self) -> &'static str {
        match self {
            Getter::Source(place, _) => place,
            Getter::Result(_) | Getter::Flow(_) => "result",
            Getter::Tcp(_) => "result.tcp",
            Getter::Latency(_) => "result.latency",
            Getter::Demand(_) => "result.service_demand",
            Getter::Cpu(End::Target, _) => "target.cpu",
            Getter::Cpu(End::Host, _) => "host.cpu",
            Getter::LostAt(_) => "loss_budget",
        }
    }
}

/// What figures are taken of: a record as a whole, or one direction or one stream of it.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    /// The record.
    pub record: &'a Record,
    /// The direction, if it is of one alone.
    pub direction: Option<Direction>,
    /// Its flow figures.
    pub flow: Option<&'a FlowFigures>,
}

impl<'a> Source<'a> {
    /// Absent where the budget has no line of this stage, for then no counter spoke of it.
    fn lost_at(&self, stage: Option<Stage>) -> Option<f64> {
        let is_at = |line: &LossLine| match (stage, line.end) {
            (None, party) => party == Party::Middle,
            (Some(stage), party) => party != Party::Middle && line.stage == stage,
        };
        let is_it = |line: &&LossLine| is_at(line) && self.direction.is_none_or(|way| line.direction == way);
        let lines = self.record.loss_budget.as_ref()?.iter().filter(is_it);
        lines.map(|line| line.packets).reduce(u64::saturating_add).map(|packets| packets as f64)
    }

    /// The record as a whole.
    pub fn whole(record: &'a Record) -> Source<'a> {
        Source { record, direction: None, flow: record.result.as_ref().map(|result| &result.flow) }
    }

    /// The record as a whole, or one direction of a record that ran both.
    pub fn of(record: &'a Record, direction: Option<Direction>) -> Option<Source<'a>> {
        let directions = record.result.as_ref().and_then(|result| result.directions.as_ref());
        let flow = match direction {
            None | Some(Direction::Both) => return Some(Source::whole(record)),
            Some(Direction::Tx) => &directions?.tx,
            Some(Direction::Rx) => &directions?.rx,
        };
        Some(Source { record, direction, flow: Some(flow) })
    }

    /// One direction of a record, whether it ran alone or beside the other.
    pub fn one_way(record: &'a Record, direction: Direction) -> Option<Source<'a>> {
        let alone = || (record.direction == direction).then(|| Source::whole(record));
        Source::of(record, Some(direction)).or_else(alone)
    }

    /// Each direction that the record ran, by itself.
    pub fn each(record: &'a Record) -> Vec<Source<'a>> {
        let is_part = |source: &Source<'_>| source.direction.is_some() || record.direction != Direction::Both;
        Source::all(record).into_iter().filter(is_part).collect()
    }

    /// The record, and its two directions where it ran both.
    pub fn all(record: &'a Record) -> Vec<Source<'a>> {
        let parts = [None, Some(Direction::Tx), Some(Direction::Rx)];
        parts.into_iter().filter_map(|part| Source::of(record, part)).collect()
    }
}

impl Source<'_> {
    /// The load that all senders of this part together were asked to offer, payload bits per second; infinite when
    /// unlimited. Requests are no load of this kind.
    pub fn offered_bps(self) -> Option<f64> {
        self.offered_by(&self.record.asked_spec()?)
    }

    /// The same, where what was asked has been read already.
    pub(crate) fn offered_by(self, spec: &Spec) -> Option<f64> {
        let both = self.record.direction == Direction::Both && self.direction.is_none();
        let offered = spec.offered_by_all_bps().unwrap_or(f64::INFINITY) * if both { 2.0 } else { 1.0 };
        self.record.workload.is_stream().then_some(offered)
    }
}

impl Figure {
    /// The figure, in the record's unit; infinite where a load was unlimited. What belongs to no direction alone only a
    /// whole record has.
    pub fn of(&self, source: Source<'_>) -> Option<f64> {
        let whole = || source.record.result.as_ref().filter(|_| source.direction.is_none());
        match self.value {
            Getter::Source(_, of) => of(source),
            Getter::Flow(of) => of(source.flow?),
            Getter::Tcp(of) => of(source.flow?.tcp.as_ref()?),
            Getter::Result(of) => of(whole()?),
            Getter::Latency(of) => of(whole()?.latency.as_ref()?),
            Getter::Demand(of) => of(whole()?.service_demand.as_ref()?),
            Getter::Cpu(end, of) if source.direction.is_none() => {
                Some(of(&source.record.machine(end).cpu.as_ref()?.machine))
            }
            Getter::Cpu(..) => None,
            Getter::LostAt(stage) => source.lost_at(stage),
        }
    }

    /// The same for the middle of several repeats: where everything that was lost is accounted for, nothing was lost at a stage of which
    /// no counter spoke.
    pub fn of_several(&self, source: Source<'_>) -> Option<f64> {
        let is_nothing = || matches!(self.value, Getter::LostAt(_)) && source.record.unaccounted == Some(0);
        self.of(source).or_else(|| is_nothing().then_some(0.0))
    }

    /// The heading of its column in tables of records.
    pub fn heading(&self) -> &'static str {
        self.column.and_then(|column| column.heading).unwrap_or(self.title)
    }
}

/// A figure that can be compared, of whole records or of one direction of those that ran both.
#[derive(Debug)]
pub struct Metric {
    /// Its name, as the columns of a CSV export have it; what scripts use.
    pub name: String,
    /// What people call it, and whose it is.
    pub title: String,
    /// The unit in which people read it.
    pub unit: Unit,
    /// What it depends on.
    pub about: About,
    /// How it is compared.
    pub compared: Compared,
    figure: &'static Figure,
    direction: Option<Direction>,
    place: usize,
}

/// Every metric: the usual ones first, and each in the order of tables.
pub static METRICS: LazyLock<Vec<Metric>> = LazyLock::new(|| {
    let both = [None, Some(Direction::Tx), Some(Direction::Rx)];
    let compared = FIGURES.iter().filter_map(|figure| Some((figure, figure.compared?)));
    let each = compared.flat_map(|(figure, how)| {
        let ways = both.into_iter().take(if figure.each_way { 3 } else { 1 });
        ways.map(move |way| (figure, Compared { usual: how.usual && (way.is_none() || how.each_way), ..how }, way))
    });
    let mut each: Vec<_> = each.collect();
    each.sort_by_key(|(_, how, _)| !how.usual);
    let each = each.into_iter().enumerate();
    each.map(|(place, (figure, compared, way))| Metric::new(figure, compared, way, place)).collect()
});

/// What a name ends in that a person need not type.
const SUFFIXES: [&str; 4] = ["_bps", "_per_s", "_ratio", "_s"];

impl Metric {
    fn new(figure: &'static Figure, compared: Compared, direction: Option<Direction>, place: usize) -> Metric {
        let Figure { name, title, unit, about, layer, .. } = *figure;
        let (name, title) = match (direction, layer) {
            (Some(way), _) => (format!("{way}_{name}"), format!("{title} {way}")),
            (None, Layer::Machine(end)) => (name.to_owned(), format!("{title}, {end}")),
            (None, _) => (name.to_owned(), title.to_owned()),
        };
        Metric { name, title, unit, about, compared, figure, direction, place }
    }

    /// The metric of this name, with or without its unit: `throughput_bps` or `throughput`.
    pub fn find(name: &str) -> Option<&'static Metric> {
        METRICS.iter().find(|metric| metric.name == name || metric.short() == name)
    }

    /// Where it stands in [`METRICS`].
    pub fn place(&self) -> usize {
        self.place
    }

    /// Its name without the unit.
    pub fn short(&self) -> &str {
        SUFFIXES.iter().find_map(|suffix| self.name.strip_suffix(suffix)).unwrap_or(&self.name)
    }

    /// Whether a trial like this one can have it.
    pub fn suits(&self, spec: &Spec) -> bool {
        let is_stream = spec.workload.is_stream();
        let is_way = self.direction.is_none() || (is_stream && spec.direction == Direction::Both);
        is_way
            && match self.figure.value {
                Getter::Result(_) => !is_stream,
                Getter::Latency(_) => !is_stream || spec.probe,
                Getter::Tcp(_) => spec.workload == Workload::TcpStream,
                Getter::Flow(_) if self.unit == Unit::BitRate => is_stream,
                // What is of datagrams: TCP's segments are its own.
                Getter::Flow(_) => spec.workload.is_numbered(),
                Getter::Demand(_) if self.unit == Unit::UsPerKib => is_stream,
                Getter::Source(..) | Getter::Demand(_) | Getter::Cpu(..) | Getter::LostAt(_) => true,
            }
    }

    /// The record's figure, a number that can be measured, in the record's unit; absent where it has none.
    pub fn of(&self, record: &Record) -> Option<f64> {
        self.figure.of(Source::of(record, self.direction)?).filter(|value| is_measurable(*value))
    }

    /// Whether a shift of this sign is for the better.
    pub fn improves(&self, shift: f64) -> bool {
        (shift > 0.0) == (self.compared.better == Better::Up)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use linerate_path::stage::{Counters, Stage};

    use super::*;
    use crate::record::{FrameFigures, FrameSize};
    use crate::sample;

    #[test]
    fn what_is_of_each_direction_is_compared_by_direction() {
        let both = sample::both(0);
        for name in ["tx_loss", "rx_loss_ratio", "tx_jitter_s", "rx_achieved_load", "tx_packets"] {
            let metric = Metric::find(name).unwrap_or_else(|| panic!("{name}"));
            assert!(!metric.compared.usual, "{name}");
            assert_eq!(metric.of(&sample::udp(0, Direction::Tx, 100, 90.0)), None, "of one direction alone");
        }
        let directions = both.result.as_ref().unwrap().directions.as_ref().unwrap();
        let loss = Metric::find("rx_loss").unwrap();
        assert!(loss.of(&both).is_some() && loss.of(&both) == directions.rx.loss_ratio);
        assert!(Metric::find("rx_throughput").unwrap().compared.usual);
    }

    #[test]
    fn interrupts_are_of_the_interface_and_of_the_warm_up_too() {
        let mut record = sample::udp(0, Direction::Tx, 100, 90.0);
        let of = |record: &Record| Metric::find("target_interrupts").unwrap().of(record);
        record.target.counters = Counters::default();
        assert_eq!(of(&record), None, "none was counted");
        record.duration_s = Some(2.0);
        record.asked.insert("warmup".to_owned(), "1s".to_owned());
        record.target.counters.add(Stage::DriverRxRing, "irq 38 eth0-rx-0", 6000);
        record.target.counters.add(Stage::DriverRxRing, "irq 39 eth0-tx-0", 3000);
        record.target.counters.add(Stage::DriverRxRing, "link rx_packets", 9000);
        assert_eq!(of(&record), Some(3000.0));
    }

    #[test]
    fn names_are_of_one_figure_each() {
        let names: BTreeSet<&str> = FIGURES.iter().map(|figure| figure.name).collect();
        assert_eq!(names.len(), FIGURES.len());
    }

    #[test]
    fn names_are_of_one_metric_each() {
        let names: BTreeSet<&str> =
            METRICS.iter().flat_map(|metric| BTreeSet::from([metric.name.as_str(), metric.short()])).collect();
        let both = METRICS.iter().filter(|metric| metric.name != metric.short()).count();
        assert_eq!(names.len(), METRICS.len() + both);
        for (at, metric) in METRICS.iter().enumerate() {
            assert_eq!(metric.place(), at);
            assert!(metric.compared.resolution < metric.compared.margin, "{}", metric.name);
        }
        assert_eq!(Metric::find("throughput").unwrap().name, "throughput_bps");
        assert_eq!(Metric::find("latency_p99.9").unwrap().name, "latency_p99.9_s");
        assert!(Metric::find("speed").is_none());
    }

    #[test]
    fn a_full_record_has_nearly_every_metric() {
        let record = sample::full();
        let missing: Vec<&str> =
            METRICS.iter().filter(|metric| metric.of(&record).is_none()).map(|metric| metric.name.as_str()).collect();
        assert_eq!(
            missing,
            ["jitter_s", "latency_p99.9_s", "latency_p99.99_s", "target_interrupts_per_s", "host_interrupts_per_s"],
            "of both directions, of 200 samples, and without interrupts among its counters"
        );
        assert!(METRICS.iter().all(|metric| metric.of(&sample::failed(0)).is_none()));
    }

    #[test]
    fn a_record_has_no_metric_that_does_not_suit_it() {
        let records = [
            sample::udp(0, Direction::Rx, 600, 400.0),
            sample::tcp(0, Direction::Tx, 900.0, true),
            sample::tcp(0, Direction::Tx, 900.0, false),
            sample::rr(0, "64"),
            sample::both(0),
        ];
        for record in records {
            let spec = record.asked_spec().unwrap();
            let wrong = METRICS.iter().filter(|metric| metric.of(&record).is_some() && !metric.suits(&spec));
            assert_eq!(
                wrong.map(Metric::short).collect::<Vec<_>>(),
                [""; 0],
                "{} {}",
                record.workload,
                record.direction
            );
        }
        let suits = |metric: &str, workload| Metric::find(metric).unwrap().suits(&Spec::new(workload));
        assert!(suits("loss", Workload::UdpStream) && !suits("loss", Workload::TcpStream));
        assert!(suits("latency_p50", Workload::TcpRr) && !suits("latency_p50", Workload::TcpStream));
        assert!(!suits("tx_throughput", Workload::TcpStream) && !suits("tcp_rtt", Workload::UdpStream));
    }

    #[test]
    fn packets_a_second_are_those_of_the_time_in_which_the_payload_arrived() {
        // 400 Mbit/s in datagrams of 1470 octets.
        let record = sample::udp(0, Direction::Rx, 600, 400.0);
        let packets = Metric::find("packets").unwrap().of(&record).unwrap();
        assert!((packets - 400e6 / 8.0 / 1470.0).abs() < 1.0, "{packets}");
        assert_eq!(Metric::find("packets_per_s").unwrap().of(&sample::tcp(0, Direction::Rx, 900.0, false)), None);
        // What drained from a queue later was received, and not in this time; where nobody counted, by the size.
        let of = |change: fn(&mut FlowFigures)| {
            let mut late = sample::udp(0, Direction::Rx, 600, 400.0);
            let flow = &mut late.result.as_mut().unwrap().flow;
            flow.packets_received = flow.packets_received.map(|received| received + received / 2);
            change(flow);
            Metric::find("packets").unwrap().of(&late).unwrap()
        };
        let sized = |flow: &mut FlowFigures| {
            flow.packets_in_window = None;
            flow.sender_api.as_mut().unwrap().message_octets = Some(1470);
        };
        let frames = |flow: &mut FlowFigures| {
            let received = flow.packets_received.unwrap() / 2;
            let size = |octets| FrameSize { octets, sent: received, received };
            (flow.packets_in_window, flow.octets) = (None, Some(flow.octets.unwrap() / 1470 * 1000));
            flow.throughput_bps = flow.throughput_bps.map(|bps| bps / 1.47);
            flow.frames = Some(FrameFigures { sizes: vec![size(500), size(1500)], ..FrameFigures::default() });
        };
        for (what, late) in [("counted", of(|_| ())), ("by size", of(sized)), ("by sizes", of(frames))] {
            assert!((late - packets).abs() < 1.0, "{what}: {late}");
        }
    }

    #[test]
    fn a_part_of_the_line_is_of_the_rate_that_was_asked_for() {
        let mut record = sample::udp(0, Direction::Rx, 600, 400.0);
        let frames =
            FrameFigures { sizes: vec![FrameSize { octets: 1470, sent: 1, received: 1 }], ..Default::default() };
        record.result.as_mut().unwrap().flow.frames = Some(frames);
        let figure = FIGURES.iter().find(|figure| figure.name == "line_utilisation").unwrap();
        let line = |record: &Record| figure.of(Source::whole(record));
        let of_link = line(&record).unwrap();
        let mbps = record.target.environment.nic.as_ref().unwrap().speed_mbps.unwrap();
        record.asked.insert("line_rate".to_owned(), format!("{}M", mbps / 4));
        assert!((line(&record).unwrap() / of_link - 4.0).abs() < 1e-9, "{of_link}");
    }

    #[test]
    fn the_loss_of_tcp_is_of_all_segments_and_known_from_both_ends_alone() {
        let metric = Metric::find("tcp_loss").unwrap();
        let mut record = sample::tcp(0, Direction::Rx, 900.0, false);
        assert_eq!(metric.of(&record), None, "one end's retransmissions are no losses");
        let tcp = record.result.as_mut().unwrap().flow.tcp.as_mut().unwrap();
        (tcp.segments_lost, tcp.segments_sent) = (Some(4), Some(200));
        assert_eq!(metric.of(&record), Some(0.02));
    }

    #[test]
    fn what_can_be_compared_is_in_csv() {
        assert!(FIGURES.iter().all(|figure| figure.in_csv || (figure.compared.is_none() && figure.column.is_none())));
    }
}
