//! One record in full, for people.
//! Knows every part of the record; of a machine's environment only that it is names and values.

use std::collections::{BTreeMap, BTreeSet};

use comfy_table::ContentArrangement;
use linerate_results::record::{FlowFigures, Interval, Latency, Machine, Record, ServiceDemand};
use linerate_trial::api::ApiUse;
use linerate_trial::cpu::{CpuShares, CpuUse};
use linerate_trial::outcome::ThreadUse;
use linerate_trial::stage::Stage;

use super::apis;
use super::budget;
use super::number::{count, figure, percent};
use super::registers;
use super::sheet::offered_load_bps;
use super::table::{aligned, plain, trimmed};
use super::{cell, sentence};

/// The most columns of text in a line; long values are broken.
const WIDTH: u16 = 120;
/// The most time slices that are shown; a long trial shows its first and its last ones.
const SLICES: usize = 60;

/// Everything that the record says.
pub(crate) fn show(record: &Record) -> String {
    let mut text = head(record);
    let mut part = |title: &str, body: String| {
        if !body.is_empty() {
            text += &format!("\n{title}\n{body}\n");
        }
    };
    part("Figures, of the measured part", figures(record));
    part("Streams, of the measured part", streams(record));
    part("Latency", latency(record));
    part("Time slices", intervals(record));
    part(budget::TITLE, budget::table(record));
    part("Beside the path, whole trial", budget::beside(record));
    part("What the kernels dropped, by their own reasons; of all traffic, whole trial", budget::drop_reasons(record));
    part("CPU, % of the time, measured part", cpu(record));
    part("CPU time by unit of work, of the whole machine", demand(record));
    part("What the CPUs did, measured part", super::profile::of_record(record));
    part("Threads that moved the data, whole trial", threads(record));
    part("Counters that moved, whole trial", counters(record));
    part("Registers that changed, whole trial", registers::changes(record));
    part("Settings that were changed for this trial", settings(record));
    part("Machines", environments(record));
    text
}

fn head(record: &Record) -> String {
    let mut lines = vec![format!("record   {}", record.id), format!("started  {}", record.started_at)];
    lines.push(format!("plan     {} (campaign {})", record.plan, record.campaign));
    let factors: Vec<String> = record.trial.factors.iter().map(|(name, level)| format!("{name}={level}")).collect();
    let place = &record.trial;
    let side = place.null_side.map(|side| format!(", side {} of an A/A pair", side.name())).unwrap_or_default();
    let seed = place.order_seed.map(|seed| format!(", order by seed {seed}")).unwrap_or_default();
    lines.push(format!("trial    index {}, repeat {}{side}{seed}: {}", place.index, place.repeat, factors.join(" ")));
    let time = record.duration_s.map_or(String::new(), |time| format!(", {} s measured", figure(time, 4)));
    lines.push(format!("traffic  {} {}{time}", record.workload, record.direction));
    for (name, machine) in ends(record) {
        let address = machine.address.as_ref().map_or(String::new(), |address| format!(" at {address}"));
        lines.push(format!("{name:<8} {}{address}", machine.endpoint));
    }
    let asked: Vec<String> = record.asked.iter().map(|(name, level)| format!("{name}={level}")).collect();
    let asked = broken(&asked, WIDTH as usize - 9).into_iter().enumerate();
    lines.extend(asked.map(|(at, words)| format!("{}{words}", if at == 0 { "asked    " } else { "         " })));
    lines.extend(record.error.iter().map(|error| format!("FAILED   {error}")));
    lines.extend(record.doubts.iter().map(|doubt| format!("doubt    {}: {}", doubt.kind().name(), doubt)));
    lines.iter().map(|line| format!("{}\n", sentence(line))).collect()
}

fn ends(record: &Record) -> [(&'static str, &Machine); 2] {
    [("target", &record.target), ("host", &record.host)]
}

/// A row of figures for each source: its name with the unit, and how to write it.
type Line = (&'static str, fn(&FlowFigures) -> Option<String>);

const FIGURES: [Line; 32] = [
    ("throughput, Mbit/s of payload", |f| Some(figure(f.throughput_bps? / 1e6, 5))),
    ("achieved load, Mbit/s of payload", |f| Some(figure(f.achieved_load_bps? / 1e6, 5))),
    ("payload sent, bytes", |f| Some(count(f.octets_sent?))),
    ("payload received, bytes", |f| Some(count(f.octets?))),
    ("datagrams sent", |f| Some(count(f.packets_sent?))),
    ("datagrams received", |f| Some(count(f.packets_received?))),
    ("datagrams lost", |f| Some(count(f.packets_lost?))),
    ("datagrams lost, % of sent", |f| Some(percent(f.loss_ratio?))),
    ("datagrams duplicated", |f| Some(count(f.packets_duplicated?))),
    ("datagrams reordered (RFC 4737)", |f| Some(count(f.packets_reordered?))),
    ("datagrams late", |f| Some(count(f.packets_late?))),
    ("jitter (RFC 3550), µs", |f| Some(figure(f.jitter_s? * 1e6, 3))),
    ("paced by", |f| Some(f.pacing?.to_string())),
    ("gap between departures, median, µs", |f| {
        Some(figure(f.departure_gaps.as_ref()?.percentile_ns(50.0)? as f64 / 1e3, 3))
    }),
    ("gap between departures, 99 %, µs", |f| {
        Some(figure(f.departure_gaps.as_ref()?.percentile_ns(99.0)? as f64 / 1e3, 3))
    }),
    ("arrivals noted by the", |f| Some(f.timestamps?.name().to_owned())),
    ("gap between arrivals, median, µs", |f| {
        Some(figure(f.arrival_gaps.as_ref()?.percentile_ns(50.0)? as f64 / 1e3, 3))
    }),
    ("gap between arrivals, 99 %, µs", |f| {
        Some(figure(f.arrival_gaps.as_ref()?.percentile_ns(99.0)? as f64 / 1e3, 3))
    }),
    ("longest run of lost datagrams", |f| Some(count(*f.loss_bursts.last_key_value()?.0))),
    ("TCP segments retransmitted", |f| Some(count(f.tcp.as_ref()?.retransmissions))),
    ("TCP data segments sent", |f| Some(count(f.tcp.as_ref()?.segments_sent?))),
    ("TCP round trip at the end / least, µs", |f| {
        let tcp = f.tcp.as_ref()?;
        let least = tcp.min_rtt_s.map_or("?".to_owned(), |time| figure(time * 1e6, 3));
        Some(format!("{} / {least}", figure(tcp.rtt_s * 1e6, 3)))
    }),
    ("TCP congestion window at the end, segments", |f| Some(count(f.tcp.as_ref()?.cwnd.into()))),
    ("TCP segment size, bytes", |f| Some(count(f.tcp.as_ref()?.mss.into()))),
    ("TCP held up by window / buffer / application, %", |f| {
        let tcp = f.tcp.as_ref()?;
        let limits = [tcp.limited_by_receive_window, tcp.limited_by_send_buffer, tcp.limited_by_application];
        limits
            .iter()
            .any(Option::is_some)
            .then(|| limits.map(|share| share.map_or("?".to_owned(), percent)).join(" / "))
    }),
    ("TCP congestion control", |f| f.tcp.as_ref()?.congestion_control.clone()),
    ("sender API, most messages to a call", |f| Some(api(f.sender_api.as_ref()?))),
    ("receiver API, most messages to a call", |f| Some(api(f.receiver_api.as_ref()?))),
    ("sends without a copy / copied after all", |f| {
        let used = f.sender_api.as_ref()?;
        Some(format!("{} / {}", count(used.completions?), used.completions_copied.map_or("?".to_owned(), count)))
    }),
    ("received without a copy, bytes", |f| Some(count(f.receiver_api.as_ref()?.octets_mapped?))),
    ("system calls that sent", |f| Some(count(f.send_calls?))),
    ("system calls that received", |f| Some(count(f.receive_calls?))),
];

fn api(used: &ApiUse) -> String {
    match used.segments {
        Some(segments) => format!("{}, {} of up to {segments}", used.name, used.batch),
        None => format!("{}, {}", used.name, used.batch),
    }
}

fn figures(record: &Record) -> String {
    let Some(result) = &record.result else { return String::new() };
    let mut sources = vec![(record.direction.name().to_owned(), &result.flow)];
    if let Some(directions) = &result.directions {
        sources.extend([("tx".to_owned(), &directions.tx), ("rx".to_owned(), &directions.rx)]);
    }
    let mut rows = Vec::new();
    if let Some(bps) = offered_load_bps(record, None) {
        rows.push(vec!["offered load, Mbit/s of payload".to_owned(), figure(bps / 1e6, 5)]);
    }
    for (name, value) in FIGURES {
        let values: Vec<String> = sources.iter().map(|(_, flow)| value(flow).unwrap_or_default()).collect();
        if values.iter().any(|value| !value.is_empty()) {
            rows.push([vec![name.to_owned()], values].concat());
        }
    }
    if let Some(rate) = result.transactions_per_s {
        rows.push(vec!["transactions/s".to_owned(), figure(rate, 5)]);
    }
    // What is not plain stands in the heading of its figures.
    let title = |(name, flow): (String, &FlowFigures)| match apis::of_flow(flow) {
        Some(apis) => format!("{name}\n{}", apis.replace(" →", "\n→")),
        None => name,
    };
    let titles = [vec![String::new()], sources.into_iter().map(title).collect()].concat();
    grid(titles, rows)
}

const STREAM: [Line; 6] = [
    ("throughput\nMbit/s", |f| Some(figure(f.throughput_bps? / 1e6, 4))),
    ("sent\ndatagrams", |f| Some(count(f.packets_sent?))),
    ("lost\ndatagrams", |f| Some(count(f.packets_lost?))),
    ("lost\n% of sent", |f| Some(percent(f.loss_ratio?))),
    ("jitter\nµs", |f| Some(figure(f.jitter_s? * 1e6, 3))),
    ("retransmitted\nTCP segments", |f| Some(count(f.tcp.as_ref()?.retransmissions))),
];

fn streams(record: &Record) -> String {
    let streams = record.result.as_ref().map_or(&[][..], |result| &result.streams);
    let columns: Vec<&Line> =
        STREAM.iter().filter(|(_, value)| streams.iter().any(|stream| value(&stream.flow).is_some())).collect();
    let rows = streams.iter().map(|stream| {
        let figures = columns.iter().map(|(_, value)| value(&stream.flow).unwrap_or_default()).collect();
        [vec![format!("{} {}", stream.id, stream.direction)], figures].concat()
    });
    let titles = [vec!["stream".to_owned()], columns.iter().map(|(name, _)| (*name).to_owned()).collect()].concat();
    grid(titles, rows.collect())
}

fn latency(record: &Record) -> String {
    let Some(latency) = record.result.as_ref().and_then(|result| result.latency.as_ref()) else { return String::new() };
    let Latency { of, count: times, timeouts, min_s, mean_s, max_s, percentiles, .. } = latency;
    let us = |seconds: f64| figure(seconds * 1e6, 3);
    let mut rows = vec![vec!["requests answered".to_owned(), count(*times)]];
    rows.extend(timeouts.map(|timeouts| vec!["requests without a response in time".to_owned(), count(timeouts)]));
    rows.extend(min_s.map(|time| vec!["least, µs".to_owned(), us(time)]));
    rows.extend(mean_s.map(|time| vec!["mean, µs".to_owned(), us(time)]));
    let mut sorted: Vec<(f64, f64)> =
        percentiles.iter().filter_map(|(name, &time)| Some((name.strip_prefix('p')?.parse().ok()?, time))).collect();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    rows.extend(sorted.into_iter().map(|(p, time)| vec![format!("{p} % within, µs"), us(time)]));
    rows.extend(max_s.map(|time| vec!["most, µs".to_owned(), us(time)]));
    grid(vec![String::new(), format!("round trip of {of}")], rows)
}

type SliceColumn = (&'static str, fn(&Interval) -> Option<String>);

const SLICE: [SliceColumn; 12] = [
    ("throughput\nMbit/s", |i| Some(figure(i.throughput_bps? / 1e6, 4))),
    ("achieved\nMbit/s", |i| Some(figure(i.achieved_load_bps? / 1e6, 4))),
    ("sent\ndatagrams", |i| Some(count(i.packets_sent?))),
    ("received\ndatagrams", |i| Some(count(i.packets_received?))),
    ("missing\ndatagrams", |i| Some(count(i.packets_missing?))),
    ("transactions\n1/s", |i| Some(figure(i.transactions_per_s?, 4))),
    ("rtt\nµs", |i| Some(count(i.tcp.as_ref()?.rtt_us.into()))),
    ("cwnd\nsegments", |i| Some(count(i.tcp.as_ref()?.cwnd.into()))),
    ("retransmitted\nsegments so far", |i| Some(count(i.tcp.as_ref()?.retransmissions.into()))),
    ("delivery\nMbit/s", |i| Some(figure(i.tcp.as_ref()?.delivery_rate? as f64 * 8.0 / 1e6, 4))),
    ("target CPU\n%", |i| Some(percent(i.target_cpu?.busy))),
    ("host CPU\n%", |i| Some(percent(i.host_cpu?.busy))),
];

fn intervals(record: &Record) -> String {
    let slices = &record.intervals;
    let columns: Vec<&SliceColumn> =
        SLICE.iter().filter(|(_, value)| slices.iter().any(|slice| value(slice).is_some())).collect();
    let left_out = slices.len().saturating_sub(SLICES);
    let mut rows = Vec::new();
    for (at, slice) in slices.iter().enumerate() {
        if left_out > 0 && at == SLICES / 2 {
            rows.push(vec![format!("… {left_out} more …")]);
        }
        if left_out == 0 || at < SLICES / 2 || at >= SLICES / 2 + left_out {
            // A slice starts when the sampler wakes up; its microseconds mean nothing.
            let at = |s: f64| figure((s * 1e3).round() / 1e3, 4);
            let mut row = vec![format!("{} to {}", at(slice.start_s), at(slice.end_s))];
            row.extend(columns.iter().map(|(_, value)| value(slice).unwrap_or_default()));
            rows.push(row);
        }
    }
    let titles = [vec!["s".to_owned()], columns.iter().map(|(name, _)| (*name).to_owned()).collect()].concat();
    grid(titles, rows)
}

fn cpu(record: &Record) -> String {
    let mut rows = Vec::new();
    let row = |name: String, s: &CpuShares| {
        [vec![name], [s.busy, s.user, s.system, s.irq, s.softirq, s.steal].map(percent).to_vec()].concat()
    };
    for (end, machine) in ends(record) {
        if let Some(CpuUse { machine, per_cpu, method, .. }) = &machine.cpu {
            rows.push(row(format!("{end}, all (by {method})"), machine));
            rows.extend(per_cpu.iter().enumerate().map(|(at, one)| row(format!("{end}, CPU {at}"), one)));
        }
    }
    grid(["", "busy", "user", "system", "irq", "softirq", "steal"].map(str::to_owned).to_vec(), rows)
}

fn demand(record: &Record) -> String {
    let Some(ServiceDemand { target_us_per_kib, host_us_per_kib, target_us_per_packet, host_us_per_packet }) =
        record.result.as_ref().and_then(|result| result.service_demand.as_ref())
    else {
        return String::new();
    };
    let packet = if record.workload.is_stream() { "µs/packet" } else { "µs/transaction" };
    let pairs =
        [("µs/KiB of payload", target_us_per_kib, host_us_per_kib), (packet, target_us_per_packet, host_us_per_packet)];
    let write = |value: &Option<f64>| value.map_or(String::new(), |value| figure(value, 3));
    let rows = pairs
        .iter()
        .filter(|(_, target, host)| target.is_some() || host.is_some())
        .map(|(name, target, host)| vec![(*name).to_owned(), write(target), write(host)]);
    grid(target_and_host(), rows.collect())
}

fn threads(record: &Record) -> String {
    type ThreadLine = (&'static str, fn(&ThreadUse) -> String);
    let value = |machine: &Machine, of: fn(&ThreadUse) -> String| machine.threads.as_ref().map_or(String::new(), of);
    if ends(record).iter().all(|(_, machine)| machine.threads.is_none()) {
        return String::new();
    }
    let lines: [ThreadLine; 5] = [
        ("user time, s", |t| figure(t.user_s, 3)),
        ("system time, s", |t| figure(t.system_s, 3)),
        ("page faults, major + minor", |t| format!("{} + {}", count(t.major_faults), count(t.minor_faults))),
        ("context switches, waited + forced", |t| {
            format!("{} + {}", count(t.voluntary_switches), count(t.involuntary_switches))
        }),
        ("waited for a CPU, s", |t| t.run_delay_s.map_or(String::new(), |time| figure(time, 3))),
    ];
    let rows =
        lines.iter().map(|(name, of)| vec![(*name).to_owned(), value(&record.target, *of), value(&record.host, *of)]);
    grid(target_and_host(), rows.collect())
}

/// The counters that are not 0, by the stage they speak of; a machine that does not have one shows nothing.
fn counters(record: &Record) -> String {
    let mut moved: BTreeMap<(Stage, &str), [Option<u64>; 2]> = BTreeMap::new();
    for (side, (_, machine)) in ends(record).into_iter().enumerate() {
        for (stage, name, value) in machine.counters.iter() {
            moved.entry((stage, name)).or_default()[side] = Some(value);
        }
    }
    let mut rows = Vec::new();
    let mut last = None;
    for ((stage, name), values) in moved {
        if values.iter().flatten().any(|&value| value != 0) {
            let shown = if last == Some(stage) { String::new() } else { stage.name().to_owned() };
            last = Some(stage);
            let [target, host] = values.map(|value| value.map_or(String::new(), count));
            rows.push(vec![shown, name.to_owned(), target, host]);
        }
    }
    grid(["stage", "counter", "target", "host"].map(str::to_owned).to_vec(), rows)
}

fn settings(record: &Record) -> String {
    let rows = ends(record).into_iter().flat_map(|(end, machine)| {
        machine.settings.iter().map(move |s| {
            let or = |value: &Option<String>| value.clone().unwrap_or_default();
            vec![end.to_owned(), s.name.clone(), s.asked.clone(), or(&s.set), or(&s.read_back), or(&s.original)]
        })
    });
    grid(["end", "setting", "asked", "set", "read back", "was"].map(str::to_owned).to_vec(), rows.collect())
}

/// Both machines side by side, so that a difference is seen.
fn environments(record: &Record) -> String {
    let sides = ends(record).map(|(_, machine)| {
        let mut named = BTreeMap::new();
        let value = serde_json::to_value(&machine.environment).unwrap_or_default();
        flatten(String::new(), &value, &mut named);
        named
    });
    let names: BTreeSet<&String> = sides.iter().flat_map(BTreeMap::keys).collect();
    let rows = names.into_iter().map(|name| {
        let of = |side: &BTreeMap<String, String>| side.get(name).cloned().unwrap_or_default();
        vec![name.clone(), of(&sides[0]), of(&sides[1])]
    });
    // Command lines and lists of features are long.
    arranged(target_and_host(), rows.collect(), ContentArrangement::Dynamic)
}

/// `a.b` → value, for every value inside; an array of plain values is one line.
pub(super) fn flatten(name: String, value: &serde_json::Value, into: &mut BTreeMap<String, String>) {
    use serde_json::Value;
    let inner = |part: &str| if name.is_empty() { part.to_owned() } else { format!("{name}.{part}") };
    match value {
        Value::Null => {}
        Value::Object(fields) => fields.iter().for_each(|(part, value)| flatten(inner(part), value, into)),
        Value::Array(items) if items.iter().any(|item| item.is_object() || item.is_array()) => {
            items.iter().enumerate().for_each(|(at, item)| flatten(inner(&at.to_string()), item, into));
        }
        Value::Array(items) if items.is_empty() => {}
        Value::Array(items) => {
            into.insert(name, items.iter().map(plain_text).collect::<Vec<_>>().join(", "));
        }
        value => {
            into.insert(name, plain_text(value));
        }
    }
}

fn plain_text(value: &serde_json::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn target_and_host() -> Vec<String> {
    ["", "target", "host"].map(str::to_owned).to_vec()
}

/// A table as wide as it needs to be, numbers to the right; nothing without rows.
pub(super) fn grid(titles: Vec<String>, rows: Vec<Vec<String>>) -> String {
    arranged(titles, rows, ContentArrangement::Disabled)
}

pub(super) fn arranged(titles: Vec<String>, rows: Vec<Vec<String>>, arrangement: ContentArrangement) -> String {
    if rows.is_empty() {
        return String::new();
    }
    // What is broken into lines may be long.
    let within = if matches!(arrangement, ContentArrangement::Disabled) { cell } else { sentence };
    let mut table = plain();
    table.set_content_arrangement(arrangement).set_width(WIDTH);
    let is_number = |text: &str| text.starts_with(|c: char| c.is_ascii_digit() || "-<>?".contains(c));
    let width = titles.len();
    let right: Vec<bool> = (0..width)
        .map(|at| {
            let mut filled = rows.iter().filter_map(|row| row.get(at)).filter(|text| !text.is_empty()).peekable();
            at > 0 && filled.peek().is_some() && filled.all(|text| is_number(text) && text.len() < 40)
        })
        .collect();
    if titles.iter().any(|title| !title.is_empty()) {
        table.set_header(titles.iter().zip(&right).map(|(title, right)| aligned(title, *right)));
    }
    for mut row in rows {
        row.resize(width, String::new());
        table.add_row(row.iter().zip(&right).map(|(text, right)| aligned(&within(text), *right)));
    }
    trimmed(&mut table)
}

/// Words in lines of at most this many characters.
fn broken(words: &[String], width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in words {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + word.len() <= width => *line += &format!(" {word}"),
            _ => lines.push(word.clone()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_results::sample;

    #[test]
    fn a_full_record() {
        insta::assert_snapshot!(show(&sample::full()));
    }

    #[test]
    fn a_failed_record() {
        insta::assert_snapshot!(show(&sample::failed(6)));
    }

    #[test]
    fn many_slices_show_their_ends() {
        let mut record = sample::udp(0, linerate_trial::spec::Direction::Rx, 100, 100.0);
        record.intervals = (0..3600)
            .map(|second| Interval {
                start_s: f64::from(second),
                end_s: f64::from(second + 1),
                packets_received: Some(second as u64),
                ..Interval::default()
            })
            .collect();
        let text = intervals(&record);
        assert!(text.contains("… 3540 more …") && text.contains("3,599 to 3,600"), "{text}");
        assert!(text.lines().count() < 70);
    }

    #[test]
    fn an_environment_is_names_and_values() {
        let value = serde_json::json!({"kernel": "6.1", "nic": {"rings": [{"rx": 512}], "mtu": 1500}, "flags": ["a", "b"], "x": null});
        let mut named = BTreeMap::new();
        flatten(String::new(), &value, &mut named);
        let text: Vec<String> = named.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(text, ["flags=a, b", "kernel=6.1", "nic.mtu=1500", "nic.rings.0.rx=512"]);
    }
}
