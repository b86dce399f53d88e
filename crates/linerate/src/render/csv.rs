//! Records as CSV, for spreadsheets and scripts; docs/record-format.md describes the columns.
//! Every figure in the unit that its column's name ends in; an empty field is unknown.

use std::borrow::Borrow;

use linerate_machine::end::Direction;
use linerate_machine::printable::printable;
use linerate_results::figure::{FIGURES, Figure, Source};
use linerate_results::record::Record;
use linerate_trial::options::OPTIONS;

/// A header, and a line a record. The columns are the same whatever the records are, so that files can be put together.
pub(crate) fn csv(records: &[Record]) -> String {
    let form = Form::new();
    form.header() + &records.iter().map(|record| form.line(record)).collect::<String>()
}

/// The same, a line at a time.
pub(crate) struct Form(Vec<(String, Value)>);

impl Form {
    pub(crate) fn new() -> Form {
        Form(columns())
    }

    pub(crate) fn header(&self) -> String {
        line(self.0.iter().map(|(name, _)| name.clone()))
    }

    pub(crate) fn line(&self, record: &Record) -> String {
        line(self.0.iter().map(|(_, value)| value(record).unwrap_or_default()))
    }
}

/// A header and lines as RFC 4180 has them: ended by CR LF, quoted where needed.
pub(super) fn lines<'a, Row: IntoIterator<Item = String>>(
    names: impl IntoIterator<Item = &'a str>,
    rows: impl IntoIterator<Item = Row>,
) -> String {
    let header = line(names.into_iter().map(str::to_owned));
    header + &rows.into_iter().map(|row| line(row.into_iter())).collect::<String>()
}

/// A column: its name, and what of a row stands there.
pub(super) type Column<Row> = (&'static str, fn(&Row) -> Option<String>);

/// The same of rows by their columns.
pub(super) fn table<Row, R: Borrow<Row>>(columns: &[Column<Row>], rows: impl IntoIterator<Item = R>) -> String {
    let fields = |row: R| columns.iter().map(|(_, value)| value(row.borrow()).unwrap_or_default()).collect::<Vec<_>>();
    lines(columns.iter().map(|(name, _)| *name), rows.into_iter().map(fields))
}

type Value = Box<dyn Fn(&Record) -> Option<String>>;

/// What is no figure, and stands before and behind the figures.
const BEFORE: [Column<Record>; 28] = [
    ("id", |r| Some(r.id.clone())),
    ("started_at", |r| Some(r.started_at.clone())),
    ("campaign", |r| Some(r.campaign.clone())),
    ("plan", |r| Some(r.plan.clone())),
    ("trial_index", |r| field(r.trial.index)),
    ("repeat", |r| field(r.trial.repeat)),
    ("configuration", |r| field(r.trial.configuration?)),
    ("order_seed", |r| field(r.trial.order_seed?)),
    ("null_side", |r| field(r.trial.null_side?.name())),
    ("factors", |r| Some(joined(r.trial.factors.iter().map(|(name, level)| format!("{name}={level}"))))),
    ("workload", |r| field(r.workload)),
    ("direction", |r| field(r.direction)),
    ("target_endpoint", |r| Some(r.target.endpoint.clone())),
    ("host_endpoint", |r| Some(r.host.endpoint.clone())),
    ("target_address", |r| r.target.address.clone()),
    ("host_address", |r| r.host.address.clone()),
    ("target_kernel", |r| r.target.environment.kernel.clone()),
    ("host_kernel", |r| r.host.environment.kernel.clone()),
    ("target_driver", |r| r.target.environment.nic.as_ref()?.driver.clone()),
    ("host_driver", |r| r.host.environment.nic.as_ref()?.driver.clone()),
    ("target_mtu_bytes", |r| field(r.target.environment.nic.as_ref()?.mtu?)),
    ("host_mtu_bytes", |r| field(r.host.environment.nic.as_ref()?.mtu?)),
    ("target_link_mbps", |r| field(r.target.environment.nic.as_ref()?.speed_mbps?)),
    ("host_link_mbps", |r| field(r.host.environment.nic.as_ref()?.speed_mbps?)),
    ("duration_s", |r| field(r.duration_s?)),
    ("sender_api", |r| field(&r.result.as_ref()?.flow.sender_api.as_ref()?.name)),
    ("receiver_api", |r| field(&r.result.as_ref()?.flow.receiver_api.as_ref()?.name)),
    ("latency_of", |r| field(&r.result.as_ref()?.latency.as_ref()?.of)),
];
const BEHIND: [Column<Record>; 3] = [
    ("unaccounted_packets", |r| field(r.unaccounted?)),
    ("doubts", |r| Some(joined(r.doubts.iter().map(|doubt| doubt.kind().name().to_owned())))),
    ("error", |r| r.error.clone()),
];

/// Every column, in order: its name, and what of a record stands there.
fn columns() -> Vec<(String, Value)> {
    let plain = |(name, value): &Column<Record>| -> (String, Value) { ((*name).to_owned(), Box::new(*value)) };
    let mut columns: Vec<(String, Value)> = BEFORE.iter().map(plain).collect();
    for figure in FIGURES.iter().filter(|figure| figure.in_csv) {
        let whole = |r: &Record| of(figure, Source::whole(r));
        columns.push((figure.name.to_owned(), Box::new(whole)));
        for way in [Direction::Tx, Direction::Rx].into_iter().filter(|_| figure.each_way) {
            let one_way = move |r: &Record| of(figure, Source::one_way(r, way)?);
            columns.push((format!("{way}_{}", figure.name), Box::new(one_way)));
        }
    }
    for option in OPTIONS.iter().filter(|option| option.name != "repeat") {
        columns.push((format!("asked_{}", option.name), Box::new(|r| r.asked.get(option.name).cloned())));
    }
    columns.extend(BEHIND.iter().map(plain));
    columns
}

fn of(figure: &Figure, source: Source<'_>) -> Option<String> {
    field(figure.of(source).filter(|value| value.is_finite())?)
}

/// What is known, as text.
pub(super) fn field(value: impl ToString) -> Option<String> {
    Some(value.to_string())
}

fn joined(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(";")
}

/// "Fields containing line breaks (CRLF), double quotes, and commas should be enclosed in double-quotes", and a
/// double quote inside is doubled (RFC 4180, section 2). Unprintable characters become U+FFFD, for a terminal may show it
/// (curl).
fn line(fields: impl Iterator<Item = String>) -> String {
    let quoted = |field: String| match printable(&as_text(field)) {
        field if field.contains([',', '"', '\r', '\n']) => format!("\"{}\"", field.replace('"', "\"\"")),
        field => field.into_owned(),
    };
    format!("{}\r\n", fields.map(quoted).collect::<Vec<_>>().join(","))
}

/// A spreadsheet takes a field that begins with one of these for a formula, quoted or not, and a formula of a stranger's
/// can start programs (OWASP, "CSV Injection"). An apostrophe before it makes it text. A number stays one, and a dash that says
/// that there is none stays a dash.
fn as_text(field: String) -> String {
    let is_formula = field.starts_with(['=', '+', '-', '@', '\t', '\r', '\n', '＝', '＋', '－', '＠']);
    let is_number = || field.bytes().any(|b| b.is_ascii_digit()) && field.parse::<f64>().is_ok();
    if is_formula && field != "-" && !is_number() { format!("'{field}") } else { field }
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
        check("\t=1", "' =1");
        check("a\u{1b}[31m\u{9b}2J\u{202e}b", "a\u{fffd}[31m\u{fffd}2J\u{fffd}b");
        check("\r\n=1", "\"'\r\n=1\"");
        check("-inf", "'-inf");
        check("-0.004", "-0.004");
        check("-1.2e-7", "-1.2e-7");
        check("+3", "+3");
        check("1-2", "1-2");
        check("-", "-");
        check("--", "'--");
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
