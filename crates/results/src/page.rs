//! Holds docs/record-format.md and docs/method.md against the record and its figures.
//! Tables that follow from rows are written between comments; the rest of a page is people's.

use std::collections::BTreeSet;
use std::path::Path;

use linerate_machine::sync::Mutex;
use linerate_path::stage::Stage;
use linerate_trial::doubt::DoubtKind;

use crate::figure::{Better, Compared, Difference, FIGURES, METRICS};
use crate::record::Record;
use crate::sample;

/// Set, tests write their parts of the pages instead of comparing them.
const UPDATE: &str = "LINERATE_UPDATE_DOCS";
/// Objects whose keys are names of their own: options, counters, lengths, percentiles, sysctls, ethtool's names.
const NAMED_BY_OTHERS: [&str; 10] = [
    "asked",
    "factors",
    "counters",
    "loss_bursts",
    "percentiles",
    "sysctls",
    "modules",
    "offloads",
    "coalescing",
    "irq_affinity",
];

fn page() -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/record-format.md")).unwrap()
}

/// Holds a part of a page, between its beginning and its end, against what it must be.
#[track_caller]
pub(crate) fn check(page: &str, begin: &str, end: &str, want: &str) {
    // Several tests may write one page.
    static WRITING: Mutex<()> = Mutex::new(());
    let _one = WRITING.lock();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page);
    let text = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(begin).expect("the part begins");
    let (there, after) = rest.split_once(end).expect("the part ends");
    if std::env::var_os(UPDATE).is_some() {
        return std::fs::write(path, format!("{before}{begin}{want}{end}{after}")).unwrap();
    }
    let differs = there.lines().zip(want.lines()).find(|(old, new)| old != new).unwrap_or_default();
    assert!(there == want, "{UPDATE}=1 cargo test -p linerate-results writes docs/{page} anew: first {differs:#?}");
}

#[test]
fn every_figure_is_in_its_table() {
    let mut rows = "| column | for people | from | compared |\n|---|---|---|---|\n".to_owned();
    for figure in FIGURES.iter().filter(|figure| figure.in_csv) {
        let ways: &[&str] = if figure.each_way { &["", "tx_", "rx_"] } else { &[""] };
        let names: Vec<String> = ways.iter().map(|way| format!("`{way}{}`", figure.name)).collect();
        let compared = figure.compared.map_or(String::new(), |compared| {
            let when = if compared.usual { "" } else { ", on demand" };
            format!("{} is better{when}", if compared.better == Better::Up { "more" } else { "less" })
        });
        let (title, unit, place) = (figure.title, figure.unit.name(), figure.value.place());
        rows += &format!("| {} | {title}, {unit} | `{place}` | {compared} |\n", names.join(", "));
    }
    check("record-format.md", "<!-- the figures begin -->\n", "<!-- the figures end -->\n", &rows);
}

#[test]
fn every_metric_has_its_resolution_and_margin() {
    let mut kinds: Vec<(Compared, Vec<&str>)> = Vec::new();
    for metric in METRICS.iter() {
        let Compared { better, difference, resolution, margin, .. } = metric.compared;
        let same = |(other, _): &&mut (Compared, _)| {
            (other.better, other.difference, other.resolution, other.margin) == (better, difference, resolution, margin)
        };
        match kinds.iter_mut().find(same) {
            Some((_, titles)) => titles.push(&metric.title),
            None => kinds.push((metric.compared, vec![&metric.title])),
        }
    }
    let mut rows = "| metric | better | resolution | margin |\n|---|---|---|---|\n".to_owned();
    for (compared, titles) in kinds {
        let unit = if compared.difference == Difference::Absolute { "points" } else { "%" };
        let share = |share: f64| format!("{} {unit}", (share * 1e6).round() / 1e4);
        let better = if compared.better == Better::Up { "up" } else { "down" };
        // By KiB and by packet, CPU time has one title.
        let titles: Vec<&str> =
            titles.iter().enumerate().filter(|(at, t)| !titles[..*at].contains(t)).map(|(_, t)| *t).collect();
        let (resolution, margin) = (share(compared.resolution), share(compared.margin));
        rows += &format!("| {} | {better} | {resolution} | {margin} |\n", titles.join("; "));
    }
    check("method.md", "<!-- the metrics begin -->\n", "<!-- the metrics end -->\n", &rows);
}

#[test]
fn every_field_is_described() {
    let page = page();
    let mut names = BTreeSet::new();
    // With nulls, so that fields count which the example leaves out.
    for record in [sample::full(), sample::examined(0)] {
        fields(&serde_json::to_value(record).unwrap(), &mut names);
    }
    assert!(names.contains("delivery_rate") && names.len() > 80, "{names:?}");
    let missing: Vec<&String> = names.iter().filter(|name| !page.contains(&format!("`{name}`"))).collect();
    assert!(missing.is_empty(), "docs/record-format.md does not describe {missing:?}");
}

#[test]
fn every_stage_and_doubt_is_named() {
    let page = page();
    for stage in Stage::PATH {
        assert!(page.contains(&format!("`{stage}`")), "{stage}");
    }
    for kind in [DoubtKind::SenderFellBehind, DoubtKind::IrqTimeByTicks, DoubtKind::ShortForCpu]
        .into_iter()
        .chain([DoubtKind::NoisyMachine, DoubtKind::BusyMachine, DoubtKind::CountersContradict])
        .chain([DoubtKind::SharedMachine, DoubtKind::Fragmented, DoubtKind::SocketBufferClamped])
        .chain([
            DoubtKind::SoakNotCalibrated,
            DoubtKind::PartsApart,
            DoubtKind::EndMarkLost,
            DoubtKind::ImplausibleReport,
        ])
        .chain([
            DoubtKind::CountersMissing,
            DoubtKind::SettingNotTaken,
            DoubtKind::SettingOverridden,
            DoubtKind::BootUnchecked,
            DoubtKind::Emulated,
        ])
        .chain([DoubtKind::LinkWentDown, DoubtKind::Silence, DoubtKind::FragmentsLost, DoubtKind::Segmented])
        .chain([DoubtKind::ProfileReduced, DoubtKind::MiddleSharesMachine, DoubtKind::MiddleNotOnPath])
    {
        assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        assert!(page.contains(&format!("| `{}` |", kind.name())), "{}", kind.name());
    }
}

#[test]
fn the_example_is_a_record() {
    let want = format!("{}\n", laid_out(&sample::full().to_json(), 0));
    check("record-format.md", "```json\n", "```", &want);
    assert_eq!(serde_json::from_str::<Record>(&want).unwrap(), sample::full());
}

/// JSON with a line for each part that is short enough for one.
fn laid_out(value: &serde_json::Value, indent: usize) -> String {
    let short = value.to_string();
    if short.len() + indent <= 100 {
        return short;
    }
    let blank = " ".repeat(indent + 2);
    let lines = |parts: Vec<String>| parts.join(",\n");
    match value {
        serde_json::Value::Object(fields) => {
            let field = |(name, value)| format!("{blank}\"{name}\": {}", laid_out(value, indent + 2));
            format!("{{\n{}\n{}}}", lines(fields.iter().map(field).collect()), &blank[2..])
        }
        serde_json::Value::Array(items) => {
            let item = |value| format!("{blank}{}", laid_out(value, indent + 2));
            format!("[\n{}\n{}]", lines(items.iter().map(item).collect()), &blank[2..])
        }
        _ => short,
    }
}

/// The name of every field inside, but for those that others name.
fn fields(value: &serde_json::Value, names: &mut BTreeSet<String>) {
    match value {
        serde_json::Value::Object(inside) => {
            for (name, value) in inside {
                names.insert(name.clone());
                if !NAMED_BY_OTHERS.contains(&name.as_str()) {
                    fields(value, names);
                }
            }
        }
        serde_json::Value::Array(items) => items.iter().for_each(|item| fields(item, names)),
        _ => {}
    }
}
