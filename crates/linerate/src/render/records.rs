//! The tables of records: which columns, which rows, and which figures are in doubt.
//! A column is a row of `results/src/figures.rs`.

use std::collections::{BTreeMap, BTreeSet};

use linerate_machine::end::{Direction, End};
use linerate_machine::units::OfferedLoad;
use linerate_results::figure::{About, FIGURES, Figure, Layer, Source, Unit};
use linerate_results::record::Record;
use linerate_stats::median;
use linerate_trial::doubt::DoubtKind;
use linerate_trial::spec::Workload;

use super::apis;
use super::doubts::{Notes, is_doubted};
use super::forms::{self, Piece};
use super::groups::in_groups;
use super::table_model::{Cell, Heading, Table, Trace, Value};

/// The column of socket APIs.
const CALLS: &str = "system calls";
const NOTHING: &str = "No records.\n";

/// The parts of a plan: of each configuration which part it is of, and that part's title.
pub(crate) type Parts = BTreeMap<u32, (usize, Option<String>)>;

/// The records as tables, the doubts beneath. Without a `width` a table is as wide as it needs to be; with one,
/// columns are left out until it fits, and a sentence says which.
#[cfg(test)]
pub(super) fn text(records: &[Record], width: Option<u16>) -> String {
    let mut notes = Notes::default();
    let tables = tables(records, &Parts::new(), None, &mut notes, width);
    tables + &notes_beneath(&notes, width)
}

/// The tables alone. `lead` stands first in the first heading, instead of plan, target and host.
pub(crate) fn tables(
    records: &[Record],
    parts: &Parts,
    lead: Option<&str>,
    notes: &mut Notes,
    width: Option<u16>,
) -> String {
    if records.is_empty() { NOTHING.to_owned() } else { forms::text(&pieces(records, parts, lead, notes), width) }
}

/// What the marks in tables stand for, a line each.
pub(crate) fn notes_beneath(notes: &Notes, width: Option<u16>) -> String {
    forms::text(&[Piece::Lines(notes.lines())], width)
}

/// The same, ready to paste; the doubts as a list beneath.
pub(crate) fn markdown(records: &[Record]) -> String {
    if records.is_empty() {
        return NOTHING.to_owned();
    }
    let mut notes = Notes::default();
    let mut pieces = pieces(records, &Parts::new(), None, &mut notes);
    let lines = notes.lines();
    pieces.extend(Piece::lines(lines));
    forms::markdown(&pieces)
}

/// A table each for TCP streams, UDP streams, frames, and requests, which have few columns in common, in the plan's order.
pub(super) fn pieces(records: &[Record], parts: &Parts, lead: Option<&str>, notes: &mut Notes) -> Vec<Piece> {
    // Of streams each has columns of its own; requests have theirs in common.
    let kind = |record: &Record| record.workload.is_stream().then_some(record.workload);
    let mut in_order: Vec<&Record> = records.iter().collect();
    in_order.sort_by_key(|record| (&record.campaign, &record.plan, record.trial.configuration));
    let mut pieces = Vec::new();
    let mut is_first = true;
    for (_, records) in &in_groups(in_order, |record| kind(record)) {
        let lead = lead.map(|lead| if is_first { lead } else { "" });
        pieces.extend(table(records, parts, lead, notes));
        is_first = false;
    }
    if grouped(&records.iter().collect::<Vec<_>>()).iter().any(|group| group.len() > 1) {
        pieces.push(Piece::Lines(vec!["Of several runs: the median (the smallest to the largest).".to_owned()]));
    }
    pieces
}

/// A column of words that may tell one row from another: heading and value.
type Words = (&'static str, fn(&Record) -> String);

const WORDS: [Words; 5] = [
    ("campaign", |record| record.campaign.clone()),
    ("plan", |record| record.plan.clone()),
    ("target", |record| record.target.endpoint.clone()),
    ("host", |record| record.host.endpoint.clone()),
    ("workload", |record| record.workload.name().to_owned()),
];

fn table(records: &[&Record], parts: &Parts, lead: Option<&str>, notes: &mut Notes) -> [Piece; 2] {
    let varies = |(_, value): &Words| records.iter().any(|record| value(record) != value(records[0]));
    let (varied, alike): (Vec<Words>, Vec<Words>) = WORDS.into_iter().partition(varies);
    let groups = grouped(records);
    let factors = varied_options(records, &groups);
    let sources: Vec<Source> = records.iter().flat_map(|record| Source::all(record)).collect();
    // Of one machine with two names, one figure is enough.
    let is_shared = records.iter().all(|record| record.has_doubt(DoubtKind::SharedMachine));
    let columns = FIGURES.iter().filter(|figure| figure.column.is_some());
    let columns = columns.filter(|figure| !(is_shared && figure.layer == Layer::Machine(End::Host)));
    let columns: Vec<&Figure> = columns.filter(|figure| is_shown(figure, &sources)).collect();
    // APIs that are alike in all rows stand in the title, else in a column beside the figures.
    let mut used = sources.iter().filter(|source| source.record.result.is_some()).map(apis::of);
    let first = used.next().unwrap_or_default();
    let common = used.all(|apis| apis == first).then(|| first.unwrap_or_default());
    let number = groups.iter().any(|group| group.len() > 1).then_some("runs");

    // A row has a word at least, for marks to stand at.
    let is_bare = varied.is_empty() && factors.is_empty() && number.is_none() && common.is_some();
    let is_one_way = sources.iter().all(|s| s.direction.is_none() && s.record.direction == records[0].direction);
    let direction = (is_bare || !is_one_way).then_some("direction");

    let words = varied.iter().map(|(name, _)| *name).chain(direction).chain(factors.iter().map(String::as_str));
    let words = words.chain(number).chain(common.is_none().then_some(CALLS));
    let mut headings: Vec<Heading> = words.map(Heading::new).collect();
    headings.iter_mut().filter(|heading| heading.name == CALLS).for_each(|heading| heading.left_out = Some(2));
    headings.extend(columns.iter().map(|figure| {
        let mut heading = heading(figure, records, common.as_deref().unwrap_or_default());
        if is_shared && matches!(figure.layer, Layer::Machine(_)) {
            heading.layer.clear();
        }
        heading
    }));
    let mut rows = Vec::new();
    let mut titles: Vec<(usize, String)> = Vec::new();
    let part = |record: &Record| record.trial.configuration.and_then(|number| parts.get(&number));
    let mut before = None;
    for group in &groups {
        let first = group[0];
        if let Some((number, title)) = part(first)
            && before.replace(number) != Some(number)
        {
            titles.extend(title.clone().map(|title| (rows.len(), title)));
        }
        for source in Source::all(first) {
            let mut words: Vec<Cell> = varied.iter().map(|(_, value)| Cell::text(value(first))).collect();
            words.extend(direction.map(|_| match source.direction {
                None => Cell::text(first.direction.name()),
                Some(direction) => Cell::text(format!("  {direction}")),
            }));
            words.extend(factors.iter().map(|name| Cell::text(asked(first, name).map_or("", String::as_str))));
            words.extend(number.map(|_| Cell::count(group.len() as u64)));
            if common.is_none() {
                let is_known = source.flow.is_some_and(|flow| flow.sender_api.is_some());
                words.push(Cell::text(apis::names(&source).unwrap_or(if is_known {
                    "plain".into()
                } else {
                    "".into()
                })));
            }
            let mut figures: Vec<Cell> = columns.iter().map(|figure| cell(figure, group, source.direction)).collect();
            mark(&mut words, &mut figures, &columns, group, source.direction, notes);
            rows.push([words, figures].concat());
        }
    }
    let mut title: Vec<String> = match lead {
        Some(lead) => (!lead.is_empty()).then(|| lead.to_owned()).into_iter().collect(),
        None => alike
            .iter()
            .filter(|(name, _)| !["campaign", "workload"].contains(name))
            .map(|(name, value)| format!("{name} {}", value(records[0])))
            .collect(),
    };
    // Of a single part the title stands above.
    if titles.len() == 1 && before == part(groups[0][0]).map(|(number, _)| number) {
        title.extend(titles.pop().map(|(_, title)| title));
    }
    title.extend(alike.iter().filter(|(name, _)| *name == "workload").map(|(_, value)| value(records[0])));
    title.extend(direction.is_none().then(|| format!("direction {}", records[0].direction)));
    title.extend(["duration", "bytes"].iter().filter_map(|name| alike_option(records, name)));
    title.extend(common.filter(|apis| !apis.is_empty()));
    title.extend(counted(&columns, records));
    let mut table = Table { headings, rows, titles };
    table.hoist_marks();
    [Piece::Heading(title.join(" · ")), Piece::Table(table)]
}

/// What the columns count, where their units do not say it.
fn counted(columns: &[&Figure], records: &[&Record]) -> Vec<String> {
    let of = |layer: Layer| columns.iter().find(|figure| figure.layer == layer);
    let payload = of(Layer::Payload).map(|figure| format!("Mbit/s of {}", self::layer(figure, records)));
    [payload, of(Layer::RoundTrip).map(|_| "latency of a round trip".to_owned())].into_iter().flatten().collect()
}

pub(super) fn heading(figure: &Figure, records: &[&Record], apis: &str) -> Heading {
    let is_requests = records.iter().all(|record| !record.workload.is_stream());
    let is_frames = records.iter().all(|record| record.workload == Workload::Frames);
    Heading {
        unit: match figure.unit {
            Unit::UsPerPacket if is_requests => "µs/transaction".to_owned(),
            Unit::Datagrams if is_frames => Unit::Frames.name().to_owned(),
            unit => unit.name().to_owned(),
        },
        layer: layer(figure, records).to_owned(),
        apis: if figure.about == About::Rate { apis.to_owned() } else { String::new() },
        left_out: figure.column.and_then(|column| column.left_out),
        ..Heading::new(figure.heading())
    }
}

/// What a figure counts, or whose it is, in words.
pub(super) fn layer(figure: &Figure, records: &[&Record]) -> &'static str {
    match figure.layer {
        Layer::None => "",
        Layer::Tcp => "TCP",
        Layer::Wire => "frames, preamble and gap",
        Layer::Line => "of line rate",
        Layer::RoundTrip => "round trip",
        Layer::Sent => "of sent",
        Layer::Machine(end) => end.name(),
        Layer::Payload => {
            let streams = || records.iter().map(|record| record.workload).filter(|workload| workload.is_stream());
            let all = |of: Workload| streams().all(|workload| workload == of);
            match streams().next() {
                Some(Workload::UdpStream) if all(Workload::UdpStream) => "UDP payload",
                Some(Workload::TcpStream) if all(Workload::TcpStream) => "TCP payload",
                Some(Workload::Frames) if all(Workload::Frames) => "frames with FCS",
                _ => "payload",
            }
        }
    }
}

/// Whether the figure says something of these.
pub(super) fn is_shown(figure: &Figure, sources: &[Source<'_>]) -> bool {
    let mut values = sources.iter().filter_map(|source| figure.of(*source));
    match figure.about {
        // Where the payload is counted the packets say the same again; `records show` and CSV have both.
        About::CpuByPackets(_) if sources.iter().any(|source| by_octets(source.record)) => false,
        // What a TCP takes from its sender it delivers, sooner or later: the throughput says it.
        About::SentLoad if !sources.iter().any(|source| sends_apart(source.record)) => false,
        _ if figure.column.is_some_and(|column| column.rare) => values.any(|value| value != 0.0),
        // A load that is unlimited everywhere is no column.
        _ => values.any(f64::is_finite),
    }
}

fn by_octets(record: &Record) -> bool {
    let demand = record.result.as_ref().and_then(|result| result.service_demand.as_ref());
    demand.is_some_and(|demand| demand.target_us_per_kib.is_some())
}

/// Whether what was sent tells more than what arrived.
fn sends_apart(record: &Record) -> bool {
    record.workload.is_udp()
        || record.workload.is_numbered()
        || record.workload.is_stream() && record.asked_spec().is_some_and(|spec| spec.rate != OfferedLoad::Unlimited)
}

/// What was asked of a trial under this name: an option, or the level of a factor that is none.
fn asked<'a>(record: &'a Record, name: &str) -> Option<&'a String> {
    record.trial.factors.get(name).or_else(|| record.asked.get(name))
}

/// Everything that was asked differently in these records, factor or not, and is not shown in a column of its own; what
/// varies slowest first, as a plan has its factors.
fn varied_options(records: &[&Record], groups: &[Vec<&Record>]) -> Vec<String> {
    let names: BTreeSet<&String> =
        records.iter().flat_map(|record| record.asked.keys().chain(record.trial.factors.keys())).collect();
    let levels = |name: &str| -> Vec<Option<&String>> { records.iter().map(|record| asked(record, name)).collect() };
    let has_column = |record: &&Record| {
        let by_packets = |rate| matches!(rate, OfferedLoad::PacketsPerSecond(_));
        record.workload.is_stream() && record.asked_spec().is_none_or(|spec| !by_packets(spec.rate))
    };
    let is_told = |name: &str| match name {
        "workload" | "direction" => true,
        // The column of the offered load says it.
        "rate" => records.iter().all(has_column),
        // The usual plan has both alike, and one column then says it.
        "response_size" => levels(name) == levels("request_size"),
        // How long was looked, not at what; unless that is just what the plan varies.
        "duration" | "warmup" | "interval" | "seed" => {
            !records.iter().any(|record| record.trial.factors.contains_key(name))
        }
        _ => false,
    };
    let varies = |name: &str| levels(name).windows(2).any(|two| two[0] != two[1]);
    let changes = |name: &str| groups.windows(2).filter(|two| asked(two[0][0], name) != asked(two[1][0], name)).count();
    let mut names: Vec<String> = names.into_iter().filter(|name| varies(name) && !is_told(name)).cloned().collect();
    names.sort_by_key(|name| changes(name));
    names
}

/// Records of one configuration together, configurations in the plan's order, whatever the order of the trials was.
pub(super) fn grouped<'a>(records: &[&'a Record]) -> Vec<Vec<&'a Record>> {
    let mut records: Vec<&Record> = records.iter().copied().filter(|record| record.trial.is_repeat()).collect();
    records.sort_by_key(|record| (&record.campaign, &record.plan, record.trial.configuration));
    let mut groups: Vec<Vec<&Record>> = Vec::new();
    let mut places = BTreeMap::new();
    for record in records {
        let ends = (&record.target.endpoint, &record.host.endpoint);
        let key = (&record.campaign, &record.plan, &record.trial.factors, ends, &record.asked);
        let place = *places.entry(key).or_insert(groups.len());
        match groups.get_mut(place) {
            Some(group) => group.push(record),
            None => groups.push(vec![record]),
        }
    }
    groups
}

/// A figure of each of these that has it, and the middle of them with where it comes from.
pub(super) fn traced(figure: &Figure, group: &[&Record], direction: Option<Direction>) -> Option<(Vec<f64>, Trace)> {
    let sources = group.iter().filter_map(|record| Source::of(record, direction));
    let (records, values): (Vec<String>, Vec<f64>) =
        sources.filter_map(|source| Some((source.record.id.clone(), figure.of_several(source)?))).unzip();
    let way = direction.map(|way| format!(".{way}")).unwrap_or_default();
    let trace = Trace { value: median(&values)?, figure: format!("{}{way}", figure.name), records };
    Some((values, trace))
}

fn cell(figure: &Figure, group: &[&Record], direction: Option<Direction>) -> Cell {
    let Some((values, trace)) = traced(figure, group, direction) else { return Cell::default() };
    let cell = if values.len() < 2 || !figure.column.is_some_and(|column| column.spread) {
        Cell::figure(figure, trace.value)
    } else {
        let (low, high) = values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), &v| (l.min(v), h.max(v)));
        Cell::spread(figure, [trace.value, low, high])
    };
    cell.traced(trace)
}

/// Puts the marks of the group's doubts behind the figures they are about; where there is none, behind the last word.
fn mark(
    words: &mut [Cell],
    figures: &mut [Cell],
    columns: &[&Figure],
    group: &[&Record],
    direction: Option<Direction>,
    notes: &mut Notes,
) {
    let all_failed = group.iter().all(|record| record.result.is_none());
    for record in group {
        for doubt in &record.doubts {
            let number = notes.doubt(doubt);
            let is_of =
                |(figure, cell): &(&&Figure, &mut Cell)| is_doubted(doubt.kind(), figure.about) && !cell.is_empty();
            let marked = columns.iter().zip(&mut *figures).filter(is_of).map(|(_, cell)| cell.mark(number)).count();
            if let (0, None, Some(last)) = (marked, direction, words.last_mut()) {
                last.mark(number);
            }
        }
        if let Some(error) = &record.error {
            let number = notes.failure(error);
            // Where every run failed, the first empty figure says so.
            let place = figures.iter_mut().find(|cell| cell.is_empty() || cell.value == Value::Failed);
            match place.filter(|_| all_failed) {
                Some(cell) => {
                    cell.value = Value::Failed;
                    cell.mark(number);
                }
                None => words.last_mut().into_iter().for_each(|cell| cell.mark(number)),
            }
        }
    }
}

/// `name level` when all records were asked for the same level.
fn alike_option(records: &[&Record], name: &str) -> Option<String> {
    let level = records.first()?.asked.get(name)?;
    records.iter().all(|record| record.asked.get(name) == Some(level)).then(|| format!("{name} {level}"))
}

#[cfg(test)]
mod tests {
    use linerate_trial::api::ApiUse;

    use super::*;
    use crate::render::sample;

    #[test]
    fn a_sweep() {
        insta::assert_snapshot!(text(&sample::sweep(), None));
    }

    #[test]
    fn a_sweep_on_a_narrow_terminal() {
        let text = text(&sample::sweep(), Some(80));
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        insta::assert_snapshot!(text);
    }

    #[test]
    fn one_of_everything() {
        insta::assert_snapshot!(text(&sample::everything(), None));
    }

    #[test]
    fn repeats() {
        insta::assert_snapshot!(text(&sample::repeats(), None));
    }

    /// The table of records whose senders and receivers used these.
    fn of_apis(pairs: &[[&str; 2]]) -> String {
        let records: Vec<Record> = pairs
            .iter()
            .zip(sample::sweep())
            .map(|(names, mut record)| {
                let flow = &mut record.result.as_mut().unwrap().flow;
                let used = |name: &str| Some(ApiUse { name: name.to_owned(), ..ApiUse::default() });
                [flow.sender_api, flow.receiver_api] = names.map(used);
                record
            })
            .collect();
        text(&records, None)
    }

    #[test]
    fn what_is_not_plain_stands_in_the_title() {
        let plain = of_apis(&[["plain", "plain"], ["plain", "plain"]]);
        assert!(!plain.contains("plain") && !plain.contains(" by ") && !plain.contains("calls"), "{plain}");
        for ([sender, receiver], said) in [
            (["plain", "trunc"], " · received by trunc · "),
            (["sendmmsg", "plain"], " · sent by sendmmsg · "),
            (["sendmmsg", "recvmmsg"], " · sent by sendmmsg, received by recvmmsg · "),
        ] {
            let text = of_apis(&[[sender, receiver], [sender, receiver]]);
            assert!(text.lines().next().unwrap().contains(said) && !text.contains("calls"), "{text}");
        }
        // Rows that differ say it each.
        let text = of_apis(&[["plain", "plain"], ["plain", "trunc"]]);
        assert!(text.contains("system calls") && text.contains(" trunc ") && text.contains(" plain "), "{text}");
    }

    #[test]
    fn parts_stand_under_one_heading_with_their_titles() {
        let records = [4, 5].map(|at| {
            let mut record = linerate_results::sample::rr(at, if at == 4 { "64" } else { "1K" });
            record.trial.configuration = Some(at);
            record
        });
        let mut parts: Parts = [(4, (0, Some("idle".to_owned()))), (5, (1, Some("spaced".to_owned())))].into();
        let shown = |parts: &Parts| tables(&records, parts, Some("linerate run rr"), &mut Notes::default(), None);
        let lines =
            |text: &str| text.lines().map(|line| line.split("  ").next().unwrap().to_owned()).collect::<Vec<_>>();
        let text = shown(&parts);
        assert_eq!(lines(&text)[3..], ["idle", "64", "spaced", "1K"], "{text}");
        assert!(text.starts_with("linerate run rr · udp-rr · "), "{text}");
        parts.insert(5, (0, Some("idle".to_owned())));
        let text = shown(&parts);
        assert!(text.starts_with("linerate run rr · idle · udp-rr") && lines(&text)[3..] == ["64", "1K"], "{text}");
    }

    #[test]
    fn rows_and_columns_are_in_the_plans_order() {
        let mut records = Vec::new();
        for (at, (direction, buffer)) in
            [("rx", "64K"), ("rx", "1K"), ("rx", "auto"), ("tx", "64K")].into_iter().enumerate()
        {
            let way = if direction == "rx" { Direction::Rx } else { Direction::Tx };
            let mut record = linerate_results::sample::tcp(at as u32, way, 900.0, false);
            record.trial.factors.insert("socket_buffer".to_owned(), buffer.to_owned());
            record.trial.configuration = Some(at as u32);
            records.insert(0, record);
        }
        let text = text(&records, None);
        let rows: Vec<Vec<&str>> = text.lines().skip(3).map(|line| line.split_whitespace().take(2).collect()).collect();
        assert_eq!(rows[..4], [["rx", "64K"], ["rx", "1K"], ["rx", "auto"], ["tx", "64K"]], "{text}");
    }

    #[test]
    fn other_machines_do_not_move_the_cursor() {
        let mut records = sample::repeats();
        records[0].target.endpoint = "exec:\x1b[2Jboo\u{9b}".to_owned();
        let text = text(&records, None);
        assert!(text.contains("exec:") && !text.contains(['\x1b', '\u{9b}']), "{text}");
    }

    #[test]
    fn ready_to_paste() {
        insta::assert_snapshot!(markdown(&sample::everything()));
    }

    #[test]
    fn a_bar_does_not_end_a_cell() {
        let mut records = sample::repeats();
        records[0].target.endpoint = "exec:agent | tee log".to_owned();
        assert!(markdown(&records).contains("exec:agent \\| tee log"));
    }

    #[test]
    fn nothing() {
        insta::assert_snapshot!(text(&[], None));
    }
}
