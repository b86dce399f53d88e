//! One record in full, for people: its figures, streams, time slices, path, CPUs, counters and machines.
//! Figures are rows of `results/src/figures.rs`; of an environment only names and values are known.

use std::collections::{BTreeMap, BTreeSet};

use linerate_machine::cpu::{CpuShares, CpuUse};
use linerate_machine::end::{End, Party};
use linerate_path::stage::Stage;
use linerate_results::figure::{FIGURES, Figure, Getter, Layer, Source, Unit};
use linerate_results::observation::flatten;
use linerate_results::record::{FlowFigures, Interval, Machine, Record};
use linerate_trial::api::ApiUse;
use linerate_trial::outcome::ThreadUse;
use linerate_trial::spec::Workload;

use super::apis;
use super::budget;
use super::check;
use super::fitting::Columns;
use super::forms::{self, Piece};
use super::number::figure;
use super::records::{is_shown, layer};
use super::registers;
use super::table_model::{Cell, Heading, Table};

/// The most time slices that are shown; a long trial shows its first and its last ones.
const SLICES: usize = 60;

/// What the record says; of what both machines have alike, options of the kernel and of interfaces only with `all`.
pub(crate) fn show(record: &Record, width: Option<u16>, all: bool) -> String {
    format!(
        "{}\n\n{}",
        head(record).text(width, &mut Columns::default()),
        forms::text(&pieces(record, width, all), width)
    )
}

pub(super) fn pieces(record: &Record, width: Option<u16>, all: bool) -> Vec<Piece> {
    let (machines, folded) = environments(record, all);
    let parts = [
        ("Figures, of the measured part", Piece::Table(figures(record))),
        ("Streams, of the measured part", Piece::Table(streams(record))),
        ("Frames by size, FCS counted, of the measured part", Piece::Table(frame_sizes(record))),
        ("Frames that came and are not the trial's, whole trial", Piece::Table(foreign_frames(record))),
        ("Latency", Piece::Table(latency(record))),
        ("Time slices", Piece::Table(intervals(record))),
        (budget::TITLE, Piece::Table(budget::table(record))),
        ("Beside the path, whole trial", Piece::Table(budget::beside(record))),
        (budget::OF_KERNELS, Piece::Table(budget::drop_reasons(record))),
        ("CPU, % of the time, measured part", Piece::Table(cpu(record))),
        ("CPU time by unit of work, of the whole machine", Piece::Table(demand(record))),
        ("What the CPUs did, measured part", Piece::Text(super::profile::of_record(record, width))),
        ("Threads that moved the data, whole trial", Piece::Table(threads(record))),
        ("Counters that moved, whole trial", Piece::Table(counters(record))),
        ("Registers that changed, whole trial", Piece::Text(registers::changes(record))),
        ("Settings that were changed for this trial", Piece::Table(settings(record))),
        ("Machines", Piece::Table(machines)),
    ];
    let mut pieces: Vec<Piece> = parts.into_iter().flat_map(|(title, piece)| piece.under(title)).collect();
    if folded > 0 {
        pieces.push(Piece::Lines(vec![format!("And {folded} sysctls and offloads that are alike: --all shows them.")]));
    }
    pieces
}

pub(super) fn head(record: &Record) -> Table {
    let mut lines = vec![("record", record.id.clone()), ("started", record.started_at.clone())];
    lines.push(("plan", format!("{} (campaign {})", record.plan, record.campaign)));
    let factors: Vec<String> = record.trial.factors.iter().map(|(name, level)| format!("{name}={level}")).collect();
    let place = &record.trial;
    let side = place.null_side.map(|side| format!(", side {} of an A/A pair", side.name())).unwrap_or_default();
    let seed = place.order_seed.map(|seed| format!(", order by seed {seed}")).unwrap_or_default();
    let levels = if factors.is_empty() { String::new() } else { format!(": {}", factors.join(" ")) };
    lines.push(("trial", format!("index {}, repeat {}{side}{seed}{levels}", place.index, place.repeat)));
    let time = record.duration_s.map_or(String::new(), |time| format!(", {} s measured", figure(time, 4)));
    let early = if record.ended_early { ", ended early" } else { "" };
    lines.push(("traffic", format!("{} {}{time}{early}", record.workload, record.direction)));
    for (party, machine) in record.parties() {
        let address = machine.address.as_ref().map_or(String::new(), |address| format!(" at {address}"));
        let ports = record.middle.as_ref().filter(|_| party == Party::Middle).map_or(String::new(), |middle| {
            let [target, host] = End::BOTH.map(|end| middle.ports[end].interface.as_str());
            format!(", {target} towards the target, {host} towards the host")
        });
        lines.push((party.name(), format!("{}{address}{ports}", machine.endpoint)));
    }
    let asked: Vec<String> = record.asked.iter().map(|(name, level)| format!("{name}={level}")).collect();
    lines.push(("asked", asked.join(" ")));
    lines.extend(record.error.iter().map(|error| ("FAILED", error.clone())));
    lines.extend(record.examination.iter().flat_map(check::lines).map(|line| ("tried", line)));
    lines.extend(record.doubts.iter().map(|doubt| ("doubt", format!("{}: {}", doubt.kind().name(), doubt))));
    Table::new(["", ""], lines.into_iter().map(|(name, text)| vec![Cell::text(name), Cell::long(text)]))
}

/// A line of text for each part of a record: its name, and what stands there.
type Line<T> = (&'static str, fn(&T) -> Option<Cell>);

/// What is told of the traffic and is no figure.
const FACTS: [Line<FlowFigures>; 5] = [
    ("paced by", |f| Some(Cell::text(f.pacing?.to_string()))),
    ("arrivals noted by the", |f| Some(Cell::text(f.timestamps?.name()))),
    ("TCP congestion control", |f| Some(Cell::text(f.tcp.as_ref()?.congestion_control.as_ref()?))),
    ("sender API, most messages to a call", |f| Some(api(f.sender_api.as_ref()?))),
    ("receiver API, most messages to a call", |f| Some(api(f.receiver_api.as_ref()?))),
];

fn api(used: &ApiUse) -> Cell {
    let past = used.jumped_over.as_ref().map_or(String::new(), |qdisc| format!(", past {qdisc}"));
    let copies = used.zero_copy.map_or("", |zero_copy| if zero_copy { ", zero-copy" } else { ", copied" });
    Cell::text(match (used.segments, used.batch) {
        (Some(segments), batch) => format!("{}, {batch} of up to {segments}", used.name),
        // What no system call moves.
        (None, 0) => format!("{}{copies}{past}", used.name),
        (None, batch) => format!("{}, {batch}{copies}{past}", used.name),
    })
}

/// A figure's name with its unit: `throughput, Mbit/s of UDP payload`.
fn named(figure: &Figure, record: &Record) -> String {
    let (title, unit) = match figure.unit {
        Unit::Datagrams if record.workload == Workload::Frames => (figure.title, Unit::Frames.name()),
        unit => (figure.title, unit.name()),
    };
    match (figure.layer, layer(figure, &[record])) {
        _ if figure.unit == Unit::Calls => format!("{unit} {title}"),
        (Layer::Machine(end), _) if matches!(figure.value, Getter::Source(..)) => format!("{title} ({end}), {unit}"),
        (_, "") | (Layer::RoundTrip | Layer::Machine(_), _) => format!("{title}, {unit}"),
        (Layer::Tcp, layer) => format!("{title}, {layer} {unit}"),
        (Layer::Sent | Layer::Line, layer) => format!("{title}, {unit} {layer}"),
        (_, layer) => format!("{title}, {unit} of {layer}"),
    }
}

/// A row for each figure that one of these has.
fn figure_rows(record: &Record, sources: &[Source<'_>], wanted: fn(&Getter) -> bool) -> Vec<Vec<Cell>> {
    let row = |figure: &Figure| {
        let cell = |source: &Source| figure.of(*source).map(|value| Cell::in_full(figure, value)).into();
        let cells: Vec<Cell> = sources.iter().map(cell).collect();
        cells.iter().any(|cell| !cell.is_empty()).then(|| [vec![Cell::text(named(figure, record))], cells].concat())
    };
    FIGURES.iter().filter(|figure| wanted(&figure.value)).filter_map(row).collect()
}

fn figures(record: &Record) -> Table {
    if record.result.is_none() {
        return Table::default();
    }
    let sources = Source::all(record);
    let mut rows = figure_rows(record, &sources, |value| {
        matches!(value, Getter::Source(..) | Getter::LostAt(_) | Getter::Flow(_) | Getter::Tcp(_) | Getter::Result(_))
    });
    for (name, value) in FACTS {
        let cells: Vec<Cell> = sources.iter().map(|source| source.flow.and_then(value).into()).collect();
        if cells.iter().any(|cell| !cell.is_empty()) {
            rows.push([vec![Cell::text(name)], cells].concat());
        }
    }
    // What is not plain stands in the heading of its figures.
    let heading = |source: &Source| Heading {
        apis: apis::of(source).unwrap_or_default(),
        ..Heading::new(source.direction.unwrap_or(record.direction).name())
    };
    let headings = std::iter::once(Heading::default()).chain(sources.iter().map(heading)).collect();
    Table { headings, rows, ..Table::default() }
}

fn streams(record: &Record) -> Table {
    let streams = record.result.as_ref().map_or(&[][..], |result| &result.streams);
    let sources: Vec<Source> = streams
        .iter()
        .map(|stream| Source { record, direction: Some(stream.direction), flow: Some(&stream.flow) })
        .collect();
    let of_streams =
        |figure: &&Figure| figure.each_way || matches!(figure.value, Getter::Tcp(_)) && figure.column.is_some();
    let columns: Vec<&Figure> = FIGURES.iter().filter(of_streams).filter(|figure| is_shown(figure, &sources)).collect();
    let rows = streams.iter().zip(&sources).map(|(stream, of)| {
        let cells = columns.iter().map(|figure| figure.of(*of).map(|value| Cell::figure(figure, value)).into());
        std::iter::once(Cell::text(format!("{} {}", stream.id, stream.direction))).chain(cells).collect()
    });
    let headings = columns.iter().map(|figure| super::records::heading(figure, &[record], ""));
    let headings = std::iter::once(Heading::new("stream")).chain(headings).collect();
    Table { headings, rows: rows.collect(), ..Table::default() }
}

/// Each direction's frames by size, where there are several sizes or some were lost.
fn frame_sizes(record: &Record) -> Table {
    let rows = Source::each(record).into_iter().flat_map(|source| {
        let way = source.direction.unwrap_or(record.direction);
        let sizes = source.flow.and_then(|flow| flow.frames.as_ref()).map_or(&[][..], |frames| &frames.sizes);
        sizes.iter().map(move |one| {
            let lost = one.sent.checked_sub(one.received);
            let share = lost.filter(|_| one.sent > 0).map(|lost| Cell::percent(lost as f64 / one.sent as f64));
            let counts = [Some(one.octets.into()), Some(one.sent), Some(one.received), lost];
            let counts = counts.map(|count| count.map(Cell::count).into());
            std::iter::once(Cell::text(way.name())).chain(counts).chain([share.into()]).collect()
        })
    });
    Table::new(["", "bytes", "sent", "received", "lost", "lost\n%"], rows)
}

/// By type, as Ethernet numbers them.
fn foreign_frames(record: &Record) -> Table {
    let flow = record.result.as_ref().map(|result| &result.flow);
    let foreign = flow.and_then(|flow| flow.frames.as_ref()?.foreign.as_deref()).unwrap_or_default();
    let rows = foreign.iter().map(|one| {
        let name = match one.ethertype {
            Some(0) => "a length (LLC)".to_owned(),
            Some(ethertype) => format!("EtherType 0x{ethertype:04x}"),
            None => "other types".to_owned(),
        };
        vec![Cell::text(name), Cell::count(one.frames)]
    });
    Table::new(["", "frames"], rows)
}

fn latency(record: &Record) -> Table {
    let Some(latency) = record.result.as_ref().and_then(|result| result.latency.as_ref()) else {
        return Table::default();
    };
    let rows = figure_rows(record, &[Source::whole(record)], |value| matches!(value, Getter::Latency(_)));
    Table::new(["", &format!("round trip of {}", latency.of)], rows)
}

const SLICE: [Line<Interval>; 13] = [
    ("throughput\nMbit/s", |i| Some(Cell::number(i.throughput_bps? / 1e6, 4))),
    ("achieved\nMbit/s", |i| Some(Cell::number(i.achieved_load_bps? / 1e6, 4))),
    ("sent\ndatagrams", |i| Some(Cell::count(i.packets_sent?))),
    ("received\ndatagrams", |i| Some(Cell::count(i.packets_received?))),
    ("missing\ndatagrams", |i| Some(Cell::count(i.packets_missing?))),
    ("transactions\n1/s", |i| Some(Cell::number(i.transactions_per_s?, 4))),
    ("rtt\nµs", |i| Some(Cell::count(i.tcp.as_ref()?.rtt_us))),
    ("cwnd\nsegments", |i| Some(Cell::count(i.tcp.as_ref()?.cwnd))),
    ("retransmitted\nsegments so far", |i| Some(Cell::count(i.tcp.as_ref()?.retransmissions))),
    ("delivery\nMbit/s", |i| Some(Cell::number(i.tcp.as_ref()?.delivery_rate? as f64 * 8.0 / 1e6, 4))),
    ("target CPU\n%", |i| Some(Cell::percent(i.target_cpu?.busy))),
    ("host CPU\n%", |i| Some(Cell::percent(i.host_cpu?.busy))),
    ("middle CPU\n%", |i| Some(Cell::percent(i.middle_cpu?.busy))),
];

fn intervals(record: &Record) -> Table {
    let slices = &record.intervals;
    let left_out = slices.len().saturating_sub(SLICES);
    let mut rows = Vec::new();
    for (at, slice) in slices.iter().enumerate() {
        if left_out > 0 && at == SLICES / 2 {
            rows.push(vec![Cell::numbers(format!("… {left_out} more …"))]);
        }
        if left_out == 0 || at < SLICES / 2 || at >= SLICES / 2 + left_out {
            // A slice starts when the sampler wakes up; its microseconds mean nothing.
            let at = |s: f64| figure((s * 1e3).round() / 1e3, 4);
            let mut row = vec![Cell::numbers(format!("{} to {}", at(slice.start_s), at(slice.end_s)))];
            row.extend(SLICE.iter().map(|(_, value)| value(slice).into()));
            rows.push(row);
        }
    }
    let titles = std::iter::once("s").chain(SLICE.iter().map(|(name, _)| *name));
    Table::new(titles, rows).filled()
}

fn cpu(record: &Record) -> Table {
    let mut rows = Vec::new();
    let row = |name: String, s: &CpuShares| {
        [vec![Cell::text(name)], [s.busy, s.user, s.system, s.irq, s.softirq, s.steal].map(Cell::percent).to_vec()]
            .concat()
    };
    for (end, machine) in record.parties() {
        if let Some(CpuUse { machine, per_cpu, method, .. }) = &machine.cpu {
            rows.push(row(format!("{end}, all (by {method})"), machine));
            rows.extend(per_cpu.iter().enumerate().map(|(at, one)| row(format!("{end}, CPU {at}"), one)));
        }
    }
    Table::new(["", "busy", "user", "system", "irq", "softirq", "steal"], rows)
}

/// A name, and what both machines have of it.
fn both(name: &str, record: &Record, of: impl Fn(End, &Machine) -> Option<Cell>) -> Vec<Cell> {
    let cells = record.machines().map(|(end, machine)| of(end, machine).into());
    [vec![Cell::text(name)], cells.to_vec()].concat()
}

const TARGET_AND_HOST: [&str; 3] = ["", "target", "host"];

fn demand(record: &Record) -> Table {
    let packet = if record.workload.is_stream() { "µs/packet" } else { "µs/transaction" };
    let of = |unit: Unit, end: End| {
        let of_end = |figure: &&Figure| figure.unit == unit && figure.layer == Layer::Machine(end);
        let figure = FIGURES.iter().find(of_end)?;
        Some(Cell::figure(figure, figure.of(Source::whole(record))?))
    };
    let rows = [("µs/KiB of payload", Unit::UsPerKib), (packet, Unit::UsPerPacket)]
        .map(|(name, unit)| both(name, record, |end, _| of(unit, end)));
    Table::new(TARGET_AND_HOST, rows.into_iter().filter(|row| row[1..].iter().any(|cell| !cell.is_empty())))
}

fn threads(record: &Record) -> Table {
    if record.machines().iter().all(|(_, machine)| machine.threads.is_none()) {
        return Table::default();
    }
    let lines: [Line<ThreadUse>; 5] = [
        ("user time, s", |t| Some(Cell::number(t.user_s, 3))),
        ("system time, s", |t| Some(Cell::number(t.system_s, 3))),
        ("page faults, major + minor", |t| Some(Cell::pair(t.major_faults, t.minor_faults))),
        ("context switches, waited + forced", |t| Some(Cell::pair(t.voluntary_switches, t.involuntary_switches))),
        ("waited for a CPU, s", |t| Some(Cell::number(t.run_delay_s?, 3))),
    ];
    let rows = lines.map(|(name, of)| both(name, record, |_, machine| of(machine.threads.as_ref()?)));
    Table::new(TARGET_AND_HOST, rows)
}

/// The counters that are not 0, by the stage they speak of; a machine that does not have one shows nothing.
fn counters(record: &Record) -> Table {
    let all = record.counters();
    let moved = all.iter().flat_map(|(_, counters)| counters.iter());
    let moved: BTreeSet<(Stage, &str)> =
        moved.filter(|(_, _, value)| *value != 0).map(|(stage, name, _)| (stage, name)).collect();
    let mut last = None;
    let rows = moved.into_iter().map(|(stage, name)| {
        let shown = if last.replace(stage) == Some(stage) { "" } else { stage.name() };
        let values = all.iter().map(|(_, counters)| counters.get(stage, name).map(Cell::count).into());
        [Cell::text(shown), Cell::text(name)].into_iter().chain(values).collect::<Vec<Cell>>()
    });
    let machines = all.iter().map(|(name, _)| name.as_str());
    Table::new(["stage", "counter"].into_iter().chain(machines), rows)
}

fn settings(record: &Record) -> Table {
    let rows = record.settings().flat_map(|(_, whose, settings)| {
        settings.iter().map(move |one| [vec![Cell::text(&whose)], super::settings::row(one)].concat())
    });
    Table::new(["end"].into_iter().chain(super::settings::TITLES), rows)
}

/// What there is so much of that nobody reads it where both machines have it alike.
const FOLDED: [&str; 2] = ["sysctls.", "nic.offloads."];

/// The machines side by side, so that a difference is seen; and how many lines are left out.
fn environments(record: &Record, all: bool) -> (Table, usize) {
    let sides: Vec<(&str, BTreeMap<String, String>)> = record
        .parties()
        .map(|(party, machine)| {
            let mut named = BTreeMap::new();
            let value = serde_json::to_value(&machine.environment).unwrap_or_default();
            flatten("", &value, &mut named);
            for towards in record.middle.iter().filter(|_| party == Party::Middle).flat_map(|_| End::BOTH) {
                let nic = record.middle.as_ref().map(|middle| &middle.ports[towards].nic);
                let nic = serde_json::to_value(nic).unwrap_or_default();
                flatten(&format!("nic towards the {towards}"), &nic, &mut named);
            }
            (party.name(), named)
        })
        .collect();
    let names: BTreeSet<&String> = sides.iter().flat_map(|(_, named)| named.keys()).collect();
    let is_alike = |name: &String| sides.iter().all(|(_, named)| named.get(name) == sides[0].1.get(name));
    let is_folded = |name: &String| !all && FOLDED.iter().any(|prefix| name.starts_with(prefix)) && is_alike(name);
    let (folded, shown): (Vec<&String>, Vec<&String>) = names.into_iter().partition(|name| is_folded(name));
    let rows = shown.into_iter().map(|name| {
        let of = |(_, named): &(&str, BTreeMap<String, String>)| named.get(name).map(Cell::long).into();
        std::iter::once(Cell::text(name)).chain(sides.iter().map(of)).collect::<Vec<Cell>>()
    });
    let titles = std::iter::once("").chain(sides.iter().map(|(name, _)| *name));
    (Table::new(titles, rows), folded.len())
}

#[cfg(test)]
mod tests {
    use linerate_results::sample;

    use super::*;

    #[test]
    fn a_full_record() {
        insta::assert_snapshot!(show(&sample::full(), Some(100), true));
    }

    #[test]
    fn a_failed_record() {
        insta::assert_snapshot!(show(&sample::failed(6), Some(80), false));
    }

    #[test]
    fn what_both_machines_have_alike_is_folded() {
        let mut record = sample::full();
        let alike = |record: &Record| show(record, Some(80), false).matches("net.core.rmem_max").count();
        assert_eq!(alike(&record), 0);
        assert!(show(&record, Some(80), true).contains("net.core.rmem_max"));
        record.host.environment.sysctls.insert("net.core.rmem_max".to_owned(), "4194304".to_owned());
        assert_eq!(alike(&record), 1, "what differs is shown");
    }

    #[test]
    fn many_slices_show_their_ends() {
        let mut record = sample::udp(0, linerate_machine::end::Direction::Rx, 100, 100.0);
        record.intervals = (0..3600)
            .map(|second| Interval {
                start_s: f64::from(second),
                end_s: f64::from(second + 1),
                packets_received: Some(second as u64),
                ..Interval::default()
            })
            .collect();
        let text = intervals(&record).text(None, &mut Columns::default());
        assert!(text.contains("… 3540 more …") && text.contains("3,599 to 3,600"), "{text}");
        assert!(text.lines().count() < 70);
    }
}
