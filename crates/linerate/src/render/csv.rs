//! Records as CSV, for spreadsheets and scripts; docs/record-format.md describes the columns.
//! Every figure in the unit that its column's name ends in; an empty field is unknown.

use linerate_results::record::{FlowFigures, Latency, Machine, Record, ServiceDemand};
use linerate_trial::cpu::CpuShares;
use linerate_trial::options::OPTIONS;
use linerate_trial::outcome::TcpSummary;
use linerate_trial::spec::Direction;
use linerate_trial::stage::Stage;

use super::sheet::offered_load_bps;

/// A header, and a line a record, as RFC 4180 has them: ended by CR LF, quoted where needed. The columns are
/// the same whatever the records are, so that files can be put together.
pub(crate) fn csv(records: &[Record]) -> String {
    let mut text = line(columns().into_iter().map(|(name, _)| name));
    for record in records {
        text += &line(columns().into_iter().map(|(_, value)| value(record).unwrap_or_default()));
    }
    text
}

type Value = Box<dyn Fn(&Record) -> Option<String>>;

/// Every column, in order: its name, and what of a record stands there.
fn columns() -> Vec<(String, Value)> {
    let mut columns: Vec<(String, Value)> = Vec::new();
    let mut add = |name: &str, value: Value| columns.push((name.to_owned(), value));
    add("id", Box::new(|r| Some(r.id.clone())));
    add("started_at", Box::new(|r| Some(r.started_at.clone())));
    add("campaign", Box::new(|r| Some(r.campaign.clone())));
    add("plan", Box::new(|r| Some(r.plan.clone())));
    add("trial_index", Box::new(|r| text(r.trial.index)));
    add("repeat", Box::new(|r| text(r.trial.repeat)));
    add("configuration", Box::new(|r| text(r.trial.configuration?)));
    add("order_seed", Box::new(|r| text(r.trial.order_seed?)));
    add("null_side", Box::new(|r| Some(r.trial.null_side?.name().to_owned())));
    add("factors", Box::new(|r| Some(joined(r.trial.factors.iter().map(|(name, level)| format!("{name}={level}"))))));
    add("workload", Box::new(|r| text(r.workload)));
    add("direction", Box::new(|r| text(r.direction)));
    add("target_endpoint", Box::new(|r| Some(r.target.endpoint.clone())));
    add("host_endpoint", Box::new(|r| Some(r.host.endpoint.clone())));
    add("target_address", Box::new(|r| r.target.address.clone()));
    add("host_address", Box::new(|r| r.host.address.clone()));
    add("duration_s", Box::new(|r| text(r.duration_s?)));
    add("offered_load_bps", Box::new(|r| offered_load_bps(r, None).filter(|bps| bps.is_finite()).and_then(text)));
    for (name, value) in FLOW {
        add(name, Box::new(move |r| value(&r.result.as_ref()?.flow)));
    }
    for (name, value) in TCP {
        add(name, Box::new(move |r| value(r.result.as_ref()?.flow.tcp.as_ref()?)));
    }
    for (direction, prefix) in [(Direction::Tx, "tx_"), (Direction::Rx, "rx_")] {
        for (name, value) in &FLOW[..DIRECTED] {
            add(&format!("{prefix}{name}"), Box::new(move |r| value(one_way(r, direction)?)));
        }
    }
    add("transactions_per_s", Box::new(|r| text(r.result.as_ref()?.transactions_per_s?)));
    for (name, value) in LATENCY {
        add(name, Box::new(move |r| value(r.result.as_ref()?.latency.as_ref()?)));
    }
    for (name, value) in DEMAND {
        add(name, Box::new(move |r| text(value(r.result.as_ref()?.service_demand.as_ref()?)?)));
    }
    for (end, machine) in [("target", (|r| &r.target) as fn(&Record) -> &Machine), ("host", |r| &r.host)] {
        for (name, value) in CPU {
            let cpu = move |r: &Record| text(value(&machine(r).cpu.as_ref()?.machine));
            add(&format!("{end}_cpu_{name}"), Box::new(cpu));
        }
    }
    for stage in Stage::PATH {
        let name = format!("lost_{}_packets", stage.name().to_lowercase().replace(' ', "_"));
        add(&name, Box::new(move |r| text(lost_at(r, stage)?)));
    }
    add("unaccounted_packets", Box::new(|r| text(r.unaccounted?)));
    for option in OPTIONS.iter().filter(|option| option.name != "repeat") {
        add(&format!("asked_{}", option.name), Box::new(|r| r.asked.get(option.name).cloned()));
    }
    add("doubts", Box::new(|r| Some(joined(r.doubts.iter().map(|doubt| doubt.kind().name().to_owned())))));
    add("error", Box::new(|r| r.error.clone()));
    columns
}

/// How many of [`FLOW`] are given again for each direction.
const DIRECTED: usize = 9;

type Of<T, V = Option<String>> = (&'static str, fn(&T) -> V);

const FLOW: [Of<FlowFigures>; 14] = [
    ("throughput_bps", |f| text(f.throughput_bps?)),
    ("achieved_load_bps", |f| text(f.achieved_load_bps?)),
    ("packets_sent", |f| text(f.packets_sent?)),
    ("packets_received", |f| text(f.packets_received?)),
    ("packets_lost", |f| text(f.packets_lost?)),
    ("packets_duplicated", |f| text(f.packets_duplicated?)),
    ("packets_reordered", |f| text(f.packets_reordered?)),
    ("loss_ratio", |f| text(f.loss_ratio?)),
    ("jitter_s", |f| text(f.jitter_s?)),
    ("packets_late", |f| text(f.packets_late?)),
    ("sender_api", |f| text(&f.sender_api.as_ref()?.name)),
    ("receiver_api", |f| text(&f.receiver_api.as_ref()?.name)),
    ("send_calls", |f| text(f.send_calls?)),
    ("receive_calls", |f| text(f.receive_calls?)),
];

const TCP: [Of<TcpSummary>; 8] = [
    ("tcp_retransmissions", |t| text(t.retransmissions)),
    ("tcp_segments_sent", |t| text(t.segments_sent?)),
    ("tcp_rtt_s", |t| text(t.rtt_s)),
    ("tcp_min_rtt_s", |t| text(t.min_rtt_s?)),
    ("tcp_cwnd_segments", |t| text(t.cwnd)),
    ("tcp_limited_by_receive_window", |t| text(t.limited_by_receive_window?)),
    ("tcp_limited_by_send_buffer", |t| text(t.limited_by_send_buffer?)),
    ("tcp_limited_by_application", |t| text(t.limited_by_application?)),
];

const LATENCY: [Of<Latency>; 11] = [
    ("latency_of", |l| Some(l.of.clone())),
    ("latency_count", |l| text(l.count)),
    ("latency_timeouts", |l| text(l.timeouts?)),
    ("latency_min_s", |l| text(l.min_s?)),
    ("latency_mean_s", |l| text(l.mean_s?)),
    ("latency_p50_s", |l| text(l.percentiles.get("p50")?)),
    ("latency_p90_s", |l| text(l.percentiles.get("p90")?)),
    ("latency_p99_s", |l| text(l.percentiles.get("p99")?)),
    ("latency_p99.9_s", |l| text(l.percentiles.get("p99.9")?)),
    ("latency_p99.99_s", |l| text(l.percentiles.get("p99.99")?)),
    ("latency_max_s", |l| text(l.max_s?)),
];

const DEMAND: [Of<ServiceDemand, Option<f64>>; 4] = [
    ("target_us_per_kib", |d| d.target_us_per_kib),
    ("host_us_per_kib", |d| d.host_us_per_kib),
    ("target_us_per_packet", |d| d.target_us_per_packet),
    ("host_us_per_packet", |d| d.host_us_per_packet),
];

const CPU: [Of<CpuShares, f64>; 6] = [
    ("busy", |c| c.busy),
    ("user", |c| c.user),
    ("system", |c| c.system),
    ("irq", |c| c.irq),
    ("softirq", |c| c.softirq),
    ("steal", |c| c.steal),
];

fn text(value: impl ToString) -> Option<String> {
    Some(value.to_string())
}

fn joined(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(";")
}

/// The figures of one direction, whether it ran alone or beside the other.
fn one_way(record: &Record, direction: Direction) -> Option<&FlowFigures> {
    let figures = record.result.as_ref()?;
    match (&figures.directions, direction) {
        (Some(directions), Direction::Tx) => Some(&directions.tx),
        (Some(directions), _) => Some(&directions.rx),
        (None, direction) => (record.direction == direction).then_some(&figures.flow),
    }
}

/// Datagrams that the budget puts at this stage; absent where it has no line, for then no counter spoke of it.
fn lost_at(record: &Record, stage: Stage) -> Option<u64> {
    let mut lines = record.loss_budget.as_ref()?.iter().filter(|line| line.stage == stage).peekable();
    lines.peek()?;
    Some(lines.map(|line| line.packets).sum())
}

/// "Fields containing line breaks (CRLF), double quotes, and commas should be enclosed in double-quotes", and a
/// double quote inside is doubled (RFC 4180, section 2).
pub(super) fn line(fields: impl Iterator<Item = String>) -> String {
    let quoted = |field: String| match as_text(field) {
        field if field.contains([',', '"', '\r', '\n']) => format!("\"{}\"", field.replace('"', "\"\"")),
        field => field,
    };
    format!("{}\r\n", fields.map(quoted).collect::<Vec<_>>().join(","))
}

/// A spreadsheet takes a field that begins with one of these for a formula, quoted or not, and a formula of a stranger's
/// can start programs (OWASP, "CSV Injection"). An apostrophe before it makes it text. A number stays one.
fn as_text(field: String) -> String {
    let is_formula = field.starts_with(['=', '+', '-', '@', '\t', '\r', '\n', '＝', '＋', '－', '＠']);
    let is_number = || field.bytes().any(|b| b.is_ascii_digit()) && field.parse::<f64>().is_ok();
    if is_formula && !is_number() { format!("'{field}") } else { field }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::sample;

    #[test]
    fn one_of_everything() {
        // By columns, so that a change of one is a change of few lines.
        let lines: Vec<String> = csv(&sample::everything()).lines().map(str::to_owned).collect();
        let rows: Vec<Vec<&str>> = lines.iter().map(|line| line.split(',').collect()).collect();
        let mut turned = String::new();
        for (at, name) in rows[0].iter().enumerate() {
            let values: Vec<&str> = rows[1..].iter().map(|row| row.get(at).copied().unwrap_or("?")).collect();
            turned += &format!("{name}: {}\n", values.join(" | "));
        }
        insta::assert_snapshot!(turned);
    }

    #[test]
    fn what_would_end_a_field_is_quoted() {
        let mut records = sample::repeats();
        records.truncate(1);
        records[0].error = Some("said \"no\",\nand left".to_owned());
        let text = csv(&records);
        assert!(text.ends_with(",\"said \"\"no\"\",\nand left\"\r\n"), "{text}");
    }

    #[test]
    fn a_strangers_formula_is_text() {
        let check = |field: &str, expected: &str| {
            assert_eq!(line([field.to_owned()].into_iter()), format!("{expected}\r\n"), "{field}");
        };
        check("=1+1", "'=1+1");
        check("=HYPERLINK(\"http://x\",\"y\")", "\"'=HYPERLINK(\"\"http://x\"\",\"\"y\"\")\"");
        check("@SUM(A1)", "'@SUM(A1)");
        check("-2+3+cmd|' /C calc'!A0", "'-2+3+cmd|' /C calc'!A0");
        check("\t=1", "'\t=1");
        check("\r\n=1", "\"'\r\n=1\"");
        check("-inf", "'-inf");
        check("-0.004", "-0.004");
        check("-1.2e-7", "-1.2e-7");
        check("+3", "+3");
        check("1-2", "1-2");
        let mut records = sample::repeats();
        records.truncate(1);
        records[0].plan = "=cmd|' /C calc'!A0".to_owned();
        assert!(csv(&records).contains(",'=cmd|' /C calc'!A0,"), "{}", csv(&records));
    }

    #[test]
    fn every_column_is_documented() {
        let page = include_str!("../../../../docs/record-format.md");
        for (name, _) in columns() {
            assert!(page.contains(&format!("`{name}`")), "docs/record-format.md does not describe the column {name}");
        }
    }
}
