//! What a table of records says: which columns, which rows, and which figures are in doubt.
//! Knows not how a table looks; `table` and `markdown` draw the same sheet.

use std::collections::{BTreeMap, BTreeSet};

use linerate_results::record::{FlowFigures, Machine, NullSide, Record, ServiceDemand};
use linerate_results::stats::median;
use linerate_trial::doubt::DoubtKind;
use linerate_trial::spec::{Direction, Workload};
use linerate_trial::units::{OfferedLoad, parse_duration, parse_size};

use super::number::{count, figure, percent};

/// Whether the repeats of a configuration stand in one row or in a row each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeats {
    /// One row a configuration: the median, and the smallest and the largest.
    Together,
    /// One row a trial.
    Apart,
}

/// A table before it is drawn.
pub(super) struct Sheet {
    /// What is alike in all rows.
    pub(super) title: String,
    pub(super) headings: Vec<Heading>,
    pub(super) rows: Vec<Vec<String>>,
}

/// What a column holds.
pub(super) struct Heading {
    pub(super) name: String,
    /// Its unit; empty for words and counts.
    pub(super) unit: String,
    /// What the figure counts, or whose it is; empty where the name says it.
    pub(super) layer: String,
    /// The socket APIs, where they are not what an ordinary program uses.
    pub(super) apis: String,
    /// Numbers stand to the right, words to the left.
    pub(super) is_number: bool,
}

/// What a doubt is about, and so which figures bear its mark.
#[derive(Clone, Copy, PartialEq, Eq)]
enum About {
    SentLoad,
    Throughput,
    Loss,
    Order,
    Delay,
    Cpu,
}

/// A row's source: a trial, or one direction of a trial that ran both at once.
#[derive(Clone, Copy)]
struct Part<'a> {
    record: &'a Record,
    direction: Option<Direction>,
}

/// A column of figures.
struct Column {
    name: &'static str,
    unit: &'static str,
    layer: Layer,
    about: About,
    value: fn(Part) -> Option<f64>,
    write: fn(f64) -> String,
    /// With repeats, the smallest and the largest stand beside the median.
    spread: bool,
    /// Left out when all are zero.
    rare: bool,
}

enum Layer {
    Words(&'static str),
    /// UDP's or TCP's payload, as the workloads are.
    Payload,
}

const fn column(
    (name, unit, layer): (&'static str, &'static str, Layer),
    about: About,
    value: fn(Part) -> Option<f64>,
    write: fn(f64) -> String,
) -> Column {
    Column { name, unit, layer, about, value, write, spread: false, rare: false }
}

const fn spread(column: Column) -> Column {
    Column { spread: true, ..column }
}

const fn rare(column: Column) -> Column {
    Column { rare: true, ..column }
}

/// Every column of figures, in the table's order.
static COLUMNS: [Column; 20] = [
    column(("offered", "Mbit/s", Layer::Payload), About::SentLoad, |p| Some(offered_bps(p)? / 1e6), four),
    column(("achieved", "Mbit/s", Layer::Payload), About::SentLoad, |p| mega(p.flow()?.achieved_load_bps), four),
    spread(column(
        ("throughput", "Mbit/s", Layer::Payload),
        About::Throughput,
        |p| mega(p.flow()?.throughput_bps),
        four,
    )),
    column(("lost", "datagrams", Layer::Words("")), About::Loss, |p| number(p.flow()?.packets_lost), whole),
    spread(column(("lost", "%", Layer::Words("of sent")), About::Loss, |p| p.flow()?.loss_ratio, percent)),
    rare(column(
        ("duplicated", "datagrams", Layer::Words("")),
        About::Order,
        |p| number(p.flow()?.packets_duplicated),
        whole,
    )),
    rare(column(
        ("reordered", "datagrams", Layer::Words("")),
        About::Order,
        |p| number(p.flow()?.packets_reordered),
        whole,
    )),
    rare(column(("late", "datagrams", Layer::Words("")), About::Order, |p| number(p.flow()?.packets_late), whole)),
    column(("jitter", "µs", Layer::Words("")), About::Delay, |p| Some(p.flow()?.jitter_s? * 1e6), three),
    column(
        ("retransmitted", "segments", Layer::Words("TCP")),
        About::Loss,
        |p| number(p.flow()?.tcp.as_ref().map(|tcp| tcp.retransmissions)),
        whole,
    ),
    spread(column(
        ("transactions", "1/s", Layer::Words("")),
        About::Throughput,
        |p| p.whole()?.result.as_ref()?.transactions_per_s,
        four,
    )),
    column(("latency p50", "µs", Layer::Words("round trip")), About::Delay, |p| percentile_us(p, "p50"), three),
    spread(column(("latency p99", "µs", Layer::Words("round trip")), About::Delay, |p| percentile_us(p, "p99"), three)),
    rare(column(
        ("time-outs", "requests", Layer::Words("")),
        About::Loss,
        |p| number(p.whole()?.result.as_ref()?.latency.as_ref()?.timeouts),
        whole,
    )),
    column(("CPU busy", "%", Layer::Words("target")), About::Cpu, |p| busy(&p.whole()?.target), percent),
    column(("CPU busy", "%", Layer::Words("host")), About::Cpu, |p| busy(&p.whole()?.host), percent),
    column(("CPU time", "µs/KiB", Layer::Words("target")), About::Cpu, |p| p.demand()?.target_us_per_kib, three),
    column(("CPU time", "µs/KiB", Layer::Words("host")), About::Cpu, |p| p.demand()?.host_us_per_kib, three),
    column(("CPU time", "µs/packet", Layer::Words("target")), About::Cpu, |p| p.demand()?.target_us_per_packet, three),
    column(("CPU time", "µs/packet", Layer::Words("host")), About::Cpu, |p| p.demand()?.host_us_per_packet, three),
];

impl<'a> Part<'a> {
    fn flow(self) -> Option<&'a FlowFigures> {
        let figures = self.record.result.as_ref()?;
        match (self.direction, &figures.directions) {
            (None, _) => Some(&figures.flow),
            (Some(Direction::Tx), Some(directions)) => Some(&directions.tx),
            (Some(Direction::Rx), Some(directions)) => Some(&directions.rx),
            _ => None,
        }
    }

    /// The record, for figures that belong to no direction alone.
    fn whole(self) -> Option<&'a Record> {
        self.direction.is_none().then_some(self.record)
    }

    fn demand(self) -> Option<&'a ServiceDemand> {
        self.whole()?.result.as_ref()?.service_demand.as_ref()
    }
}

/// The load that all senders of this part together were asked to offer, payload bits per second; infinite when
/// unlimited. Requests are no load of this kind.
fn offered_bps(part: Part) -> Option<f64> {
    let Record { asked, workload, direction, .. } = part.record;
    if !workload.is_stream() {
        return None;
    }
    let rate: OfferedLoad = asked.get("rate")?.parse().ok()?;
    let streams: f64 = asked.get("streams")?.parse().ok()?;
    let octets = parse_size(asked.get("message_size")?).ok()?;
    let directions = if *direction == Direction::Both && part.direction.is_none() { 2.0 } else { 1.0 };
    Some(rate.bits_per_second(octets).unwrap_or(f64::INFINITY) * streams * directions)
}

/// As [`offered_bps`], of a record and one of its directions.
pub(super) fn offered_load_bps(record: &Record, direction: Option<Direction>) -> Option<f64> {
    offered_bps(Part { record, direction })
}

fn mega(bps: Option<f64>) -> Option<f64> {
    Some(bps? / 1e6)
}

fn number(count: Option<u64>) -> Option<f64> {
    Some(count? as f64)
}

fn busy(machine: &Machine) -> Option<f64> {
    Some(machine.cpu.as_ref()?.machine.busy)
}

fn percentile_us(part: Part, name: &str) -> Option<f64> {
    Some(part.whole()?.result.as_ref()?.latency.as_ref()?.percentiles.get(name)? * 1e6)
}

fn four(value: f64) -> String {
    figure(value, 4)
}

fn three(value: f64) -> String {
    figure(value, 3)
}

fn whole(value: f64) -> String {
    count(value.round() as u64)
}

fn doubted_by(kind: DoubtKind) -> &'static [About] {
    match kind {
        DoubtKind::SenderFellBehind => &[About::SentLoad],
        DoubtKind::IrqTimeByTicks
        | DoubtKind::ShortForCpu
        | DoubtKind::NoisyMachine
        | DoubtKind::SharedMachine
        | DoubtKind::SoakNotCalibrated => &[About::Cpu],
        DoubtKind::CountersContradict | DoubtKind::EndMarkLost | DoubtKind::CountersMissing | DoubtKind::Segmented => {
            &[About::Loss]
        }
        // Loss is the emulator's too: a ring runs full while it finds no time.
        DoubtKind::Emulated => &[About::Throughput, About::Loss, About::Cpu],
        DoubtKind::Fragmented
        | DoubtKind::FragmentsLost
        | DoubtKind::LinkWentDown
        | DoubtKind::Silence
        | DoubtKind::SocketBufferClamped
        | DoubtKind::SettingNotTaken
        | DoubtKind::BootUnchecked => &[About::Throughput, About::Loss],
        // No figure of a table is of the profile.
        DoubtKind::ProfileReduced => &[],
    }
}

/// Words that tell one configuration from another: heading and value.
type Words = Vec<(&'static str, fn(&Record) -> String)>;

/// The sheets of these records: one each for TCP streams, UDP streams, and requests, which have few columns in
/// common; and the sentences that the marks in all of them stand for.
pub(super) fn sheets(records: &[Record], repeats: Repeats) -> (Vec<Sheet>, Vec<String>) {
    let mut kinds: BTreeMap<(bool, bool), Vec<&Record>> = BTreeMap::new();
    for record in records {
        let workload = record.workload;
        kinds.entry((!workload.is_stream(), workload.is_stream() && workload.is_udp())).or_default().push(record);
    }
    let mut notes = Notes::default();
    let sheets: Vec<Sheet> = kinds.values().map(|records| Sheet::of(records, repeats, &mut notes)).collect();
    let mut notes = notes.sentences();
    if sheets.iter().any(|sheet| sheet.headings.iter().any(|heading| heading.name == "runs")) {
        notes.push(
            "Of several runs: the median; in brackets the smallest and the largest. 'records show' has each run."
                .to_owned(),
        );
    }
    (sheets, notes)
}

impl Sheet {
    fn of(records: &[&Record], repeats: Repeats, notes: &mut Notes) -> Sheet {
        let words: Words = vec![
            ("campaign", |record| record.campaign.clone()),
            ("plan", |record| record.plan.clone()),
            ("target", |record| record.target.endpoint.clone()),
            ("host", |record| record.host.endpoint.clone()),
            ("workload", |record| record.workload.name().to_owned()),
        ];
        let (varied, alike): (Words, Words) = words.into_iter().partition(|(_, value)| {
            let mut values = records.iter().map(|record| value(record));
            let first = values.next();
            values.any(|value| Some(value) != first)
        });
        let factors = varied_options(records);
        let groups = grouped(records, repeats);
        let with_runs = groups.iter().any(|group| group.len() > 1);
        let all_parts: Vec<Part> = records.iter().flat_map(|record| parts(record)).collect();
        let columns: Vec<&Column> = COLUMNS.iter().filter(|column| is_shown(column, &all_parts)).collect();

        let word = |name: &str| Heading {
            name: name.to_owned(),
            unit: String::new(),
            layer: String::new(),
            apis: String::new(),
            is_number: false,
        };
        let apis = |part: &Part| super::apis::of_record(part.record, part.direction).unwrap_or_default();
        // Alike in all rows they stand in the heading, else in a column beside the figures.
        let mut of_all = all_parts.iter().filter(|part| part.record.result.is_some()).map(&apis);
        let first = of_all.next().unwrap_or_default();
        let common = of_all.all(|apis| apis == first).then_some(first);
        let mut headings: Vec<Heading> = varied.iter().map(|(name, _)| word(name)).collect();
        headings.push(word("direction"));
        headings.extend(factors.iter().map(|name| word(name)));
        if repeats == Repeats::Apart && records.iter().any(|record| record.trial.repeat > 0) {
            headings.push(Heading { is_number: true, ..word("repeat") });
        } else if with_runs {
            headings.push(Heading { is_number: true, ..word("runs") });
        }
        if common.is_none() {
            headings.push(word("API"));
        }
        let payload = payload_layer(records);
        headings.extend(columns.iter().map(|column| {
            Heading {
                name: column.name.to_owned(),
                unit: match column.unit {
                    "µs/packet" if records.iter().all(|record| !record.workload.is_stream()) => "µs/transaction",
                    unit => unit,
                }
                .to_owned(),
                layer: match column.layer {
                    Layer::Words(words) => words,
                    Layer::Payload => payload,
                }
                .to_owned(),
                apis: match column.about {
                    About::Throughput => common.clone().unwrap_or_default(),
                    _ => String::new(),
                },
                is_number: true,
            }
        }));

        let mut rows = Vec::new();
        for group in &groups {
            let first = group[0];
            for part in parts(first) {
                let mut row: Vec<String> = varied.iter().map(|(_, value)| value(first)).collect();
                row.push(match part.direction {
                    None => first.direction.name().to_owned(),
                    Some(direction) => format!("  of which {direction}"),
                });
                row.extend(factors.iter().map(|name| asked(first, name).cloned().unwrap_or_default()));
                let heading_count = headings.len() - columns.len() - usize::from(common.is_none());
                if row.len() < heading_count {
                    row.push(match repeats {
                        Repeats::Apart => (first.trial.repeat + 1).to_string(),
                        Repeats::Together => group.len().to_string(),
                    });
                }
                if common.is_none() {
                    row.push(match apis(&part) {
                        none if none.is_empty() && part.flow().is_some_and(|flow| flow.sender_api.is_some()) => {
                            "plain".to_owned()
                        }
                        apis => apis,
                    });
                }
                let words = row.len();
                row.extend(columns.iter().map(|column| cell(column, group, part.direction)));
                mark(&mut row, words, &columns, group, part.direction, notes);
                rows.push(row);
            }
        }
        let words = headings.len() - columns.len();
        hoist_marks(&mut headings, words, &mut rows);
        let mut title: Vec<String> = alike
            .iter()
            .filter(|(name, _)| *name != "campaign")
            .filter_map(|(name, value)| Some(format!("{name} {}", value(records.first()?))))
            .collect();
        title.extend(["duration", "bytes"].iter().filter_map(|name| alike_option(records, name)));
        Sheet { title: title.join(" · "), headings, rows }
    }
}

/// A record's rows: itself, and its two directions when it has them.
fn parts(record: &Record) -> Vec<Part<'_>> {
    let both = record.result.as_ref().is_some_and(|figures| figures.directions.is_some());
    let directions: &[_] = if both { &[None, Some(Direction::Tx), Some(Direction::Rx)] } else { &[None] };
    directions.iter().map(|&direction| Part { record, direction }).collect()
}

fn is_shown(column: &Column, parts: &[Part]) -> bool {
    let mut values = parts.iter().filter_map(|&part| (column.value)(part));
    match column.unit {
        // Where the payload is counted the packets say the same again; `records show` and CSV have both.
        "µs/packet" if parts.iter().any(|p| p.demand().is_some_and(|d| d.target_us_per_kib.is_some())) => false,
        // What a TCP takes from its sender it delivers, sooner or later: the throughput says it.
        _ if column.name == "achieved" && !parts.iter().any(|&p| sends_apart(p)) => false,
        _ if column.rare => values.any(|value| value != 0.0),
        // A load that is unlimited everywhere is no column.
        _ => values.any(f64::is_finite),
    }
}

/// Whether what was sent tells more than what arrived.
fn sends_apart(part: Part) -> bool {
    part.record.workload.is_udp() || offered_bps(part).is_some_and(f64::is_finite)
}

/// What was asked of a trial under this name: an option, or the level of a factor that is none.
fn asked<'a>(record: &'a Record, name: &str) -> Option<&'a String> {
    record.asked.get(name).or_else(|| record.trial.factors.get(name))
}

/// Everything that was asked differently in these records, factor or not, and is not shown in a column of its own.
fn varied_options(records: &[&Record]) -> Vec<String> {
    let names: BTreeSet<&String> =
        records.iter().flat_map(|record| record.asked.keys().chain(record.trial.factors.keys())).collect();
    let levels = |name: &str| -> Vec<Option<&String>> { records.iter().map(|record| asked(record, name)).collect() };
    let is_offered_load = |level: &Option<&String>| {
        level.is_none_or(|text| matches!(text.parse(), Ok(OfferedLoad::Unlimited | OfferedLoad::BitsPerSecond(_))))
    };
    names
        .into_iter()
        .filter(|name| {
            let levels = levels(name);
            match name.as_str() {
                "workload" | "direction" => false,
                // The column of the offered load says it.
                "rate" if levels.iter().all(is_offered_load) && records.iter().all(|r| r.workload.is_stream()) => false,
                // The usual plan has both alike, and one column then says it.
                "response_size" if levels == sizes(records) => false,
                // How long was looked, not at what; unless that is just what the plan varies.
                "duration" | "warmup" | "interval" | "seed" => {
                    records.iter().any(|r| r.trial.factors.contains_key(name.as_str()))
                        && levels.iter().any(|level| level != &levels[0])
                }
                _ => levels.iter().any(|level| level != &levels[0]),
            }
        })
        .cloned()
        .collect()
}

fn sizes<'a>(records: &[&'a Record]) -> Vec<Option<&'a String>> {
    records.iter().map(|record| asked(record, "request_size")).collect()
}

/// Records of one configuration together, configurations in the order of their levels.
fn grouped<'a>(records: &[&'a Record], repeats: Repeats) -> Vec<Vec<&'a Record>> {
    let mut groups: Vec<Vec<&Record>> = Vec::new();
    // What was measured in an order left to chance is shown in the plan's. The other side of an A/A pair is there to be
    // held against the first, and no more repeats of it.
    let mut records: Vec<&Record> =
        records.iter().copied().filter(|record| record.trial.null_side != Some(NullSide::B)).collect();
    records.sort_by_key(|record| record.trial.configuration);
    for record in records {
        let same = |group: &&mut Vec<&Record>| {
            let other = group[0];
            (&other.campaign, &other.plan, &other.asked, &other.trial.factors)
                == (&record.campaign, &record.plan, &record.asked, &record.trial.factors)
                && (&other.target.endpoint, &other.host.endpoint) == (&record.target.endpoint, &record.host.endpoint)
        };
        match groups.iter_mut().find(same) {
            Some(group) if repeats == Repeats::Together => group.push(record),
            _ => groups.push(vec![record]),
        }
    }
    let place = |record: &Record| (record.campaign.clone(), record.plan.clone(), record.workload, record.direction);
    groups.sort_by(|a, b| {
        place(a[0]).cmp(&place(b[0])).then_with(|| {
            let levels = |record: &Record| -> Vec<f64> {
                record.trial.factors.iter().filter_map(|(name, text)| level_size(name, text)).collect()
            };
            let (x, y) = (levels(a[0]), levels(b[0]));
            x.iter()
                .zip(&y)
                .map(|(x, y)| x.total_cmp(y))
                .find(|order| order.is_ne())
                .unwrap_or(std::cmp::Ordering::Equal)
        })
    });
    groups
}

/// How large a level is, where that can be said; others keep the plan's order.
fn level_size(name: &str, text: &str) -> Option<f64> {
    if name == "rate" {
        return match text.parse().ok()? {
            OfferedLoad::Unlimited => Some(f64::INFINITY),
            OfferedLoad::BitsPerSecond(rate) | OfferedLoad::PacketsPerSecond(rate) => Some(rate as f64),
        };
    }
    let time = || parse_duration(text).ok().map(|time| time.as_secs_f64());
    parse_size(text).ok().map(|octets| octets as f64).or_else(time)
}

fn payload_layer(records: &[&Record]) -> &'static str {
    let streams = || records.iter().map(|record| record.workload).filter(|workload| workload.is_stream());
    match (streams().any(Workload::is_udp), streams().any(|workload| !workload.is_udp())) {
        (true, false) => "UDP payload",
        (false, true) => "TCP payload",
        _ => "payload",
    }
}

fn cell(column: &Column, group: &[&Record], direction: Option<Direction>) -> String {
    let values: Vec<f64> = group.iter().filter_map(|&record| (column.value)(Part { record, direction })).collect();
    let Some(middle) = median(&values) else { return String::new() };
    let text = (column.write)(middle);
    if !column.spread || values.len() < 2 {
        return text;
    }
    let (low, high) = values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), &v| (l.min(v), h.max(v)));
    format!("{text} ({} to {})", (column.write)(low), (column.write)(high))
}

/// Puts the marks of the group's doubts behind the figures they are about.
fn mark(
    row: &mut [String],
    words: usize,
    columns: &[&Column],
    group: &[&Record],
    direction: Option<Direction>,
    notes: &mut Notes,
) {
    for record in group {
        for doubt in &record.doubts {
            let number = notes.of(Some(doubt.kind()), &doubt.to_string());
            let mut marked = false;
            for (column, text) in columns.iter().zip(&mut row[words..]) {
                if doubted_by(doubt.kind()).contains(&column.about) && !text.is_empty() {
                    append_mark(text, number);
                    marked = true;
                }
            }
            if !marked && direction.is_none() {
                append_mark(&mut row[words - 1], number);
            }
        }
        if let Some(error) = &record.error {
            let number = notes.of(None, error);
            let has_figures = row.len() > words;
            match row[words..].iter_mut().find(|text| text.is_empty()) {
                // Every run failed: the first empty figure says so.
                Some(text) if group.iter().all(|record| record.result.is_none()) => {
                    *text = format!("failed [{number}]")
                }
                // And where no run has any figure, there is no place but beside the words.
                _ if has_figures && group.iter().all(|record| record.result.is_none()) => {}
                _ => append_mark(&mut row[words - 1], number),
            }
        }
    }
}

fn append_mark(text: &mut String, number: usize) {
    let mark = format!("[{number}]");
    if !text.contains(&mark) {
        if !text.ends_with(']') {
            text.push(' ');
        }
        text.push_str(&mark);
    }
}

/// A mark that every figure of a column bears stands once, behind the column's name.
fn hoist_marks(headings: &mut [Heading], words: usize, rows: &mut [Vec<String>]) {
    fn split(text: &str) -> (&str, Vec<&str>) {
        match text.rsplit_once(' ') {
            Some((figure, marks)) if marks.starts_with('[') => (figure, marks.split_inclusive(']').collect()),
            _ => (text, Vec::new()),
        }
    }
    for (at, heading) in headings.iter_mut().enumerate().skip(words) {
        let column: Vec<&str> = rows.iter().map(|row| row[at].as_str()).filter(|text| !text.is_empty()).collect();
        let Some((first, others)) = column.split_first().filter(|(_, others)| !others.is_empty()) else { continue };
        // What failed is no figure.
        if column.iter().any(|text| text.starts_with("failed")) {
            continue;
        }
        let mut shared: Vec<String> = split(first).1.into_iter().map(str::to_owned).collect();
        shared.retain(|mark| others.iter().all(|text| split(text).1.contains(&mark.as_str())));
        if shared.is_empty() {
            continue;
        }
        for row in rows.iter_mut() {
            let (figure, marks) = split(&row[at]);
            let left: String = marks.into_iter().filter(|mark| !shared.iter().any(|one| one == mark)).collect();
            row[at] = if left.is_empty() { figure.to_owned() } else { format!("{figure} {left}") };
        }
        heading.name = format!("{} {}", heading.name, shared.concat());
    }
}

/// The sentences beneath: one number a kind of doubt, or a failure, with its different sentences.
#[derive(Default)]
struct Notes(Vec<(Option<DoubtKind>, Vec<String>)>);

/// The most sentences of one kind of doubt that are shown, and of failures: doubts of a kind differ by a figure.
const DOUBTS: usize = 1;
const FAILURES: usize = 3;

impl Notes {
    /// The number that stands for this sentence, from 1.
    fn of(&mut self, kind: Option<DoubtKind>, sentence: &str) -> usize {
        let at = self.0.iter().position(|(other, _)| *other == kind).unwrap_or_else(|| {
            self.0.push((kind, Vec::new()));
            self.0.len() - 1
        });
        let sentences = &mut self.0[at].1;
        if !sentences.iter().any(|other| other == sentence) {
            sentences.push(sentence.to_owned());
        }
        at + 1
    }

    fn sentences(self) -> Vec<String> {
        let note = |(at, (kind, sentences)): (usize, (Option<DoubtKind>, Vec<String>))| {
            let most = if kind.is_some() { DOUBTS } else { FAILURES };
            let more = match sentences.len().saturating_sub(most) {
                0 => String::new(),
                more => format!("; and {more} more like it, which 'records show' has"),
            };
            let shown: Vec<&str> = sentences.iter().take(most).map(String::as_str).collect();
            format!("[{}] {}: {}{more}", at + 1, kind.map_or("failed", DoubtKind::name), shown.join("; "))
        };
        self.0.into_iter().enumerate().map(note).collect()
    }
}

/// `name level` when all records were asked for the same level.
fn alike_option(records: &[&Record], name: &str) -> Option<String> {
    let level = records.first()?.asked.get(name)?;
    records.iter().all(|record| record.asked.get(name) == Some(level)).then(|| format!("{name} {level}"))
}
