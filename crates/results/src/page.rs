//! Holds docs/record-format.md against the record.
//! Knows what the page must name, not what it says of it.

use std::collections::BTreeSet;
use std::path::Path;

use linerate_trial::doubt::DoubtKind;
use linerate_trial::stage::Stage;

use crate::record::Record;
use crate::sample;

/// Set, the test writes the example instead of comparing it.
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

fn page() -> (std::path::PathBuf, String) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/record-format.md");
    let text = std::fs::read_to_string(&path).unwrap();
    (path, text)
}

#[test]
fn every_field_is_described() {
    let (_, page) = page();
    let mut names = BTreeSet::new();
    // With nulls, so that fields count which the example leaves out.
    fields(&serde_json::to_value(sample::full()).unwrap(), &mut names);
    assert!(names.contains("delivery_rate") && names.len() > 80, "{names:?}");
    let missing: Vec<&String> = names.iter().filter(|name| !page.contains(&format!("`{name}`"))).collect();
    assert!(missing.is_empty(), "docs/record-format.md does not describe {missing:?}");
}

#[test]
fn every_stage_and_doubt_is_named() {
    let (_, page) = page();
    for stage in Stage::PATH {
        assert!(page.contains(&format!("`{stage}`")), "{stage}");
    }
    for kind in [DoubtKind::SenderFellBehind, DoubtKind::IrqTimeByTicks, DoubtKind::ShortForCpu]
        .into_iter()
        .chain([DoubtKind::NoisyMachine, DoubtKind::CountersContradict])
        .chain([DoubtKind::SharedMachine, DoubtKind::Fragmented, DoubtKind::SocketBufferClamped])
        .chain([DoubtKind::SoakNotCalibrated, DoubtKind::EndMarkLost])
        .chain([DoubtKind::CountersMissing, DoubtKind::SettingNotTaken, DoubtKind::BootUnchecked, DoubtKind::Emulated])
        .chain([DoubtKind::LinkWentDown, DoubtKind::Silence, DoubtKind::FragmentsLost, DoubtKind::Segmented])
        .chain([DoubtKind::ProfileReduced])
    {
        assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        assert!(page.contains(&format!("| `{}` |", kind.name())), "{}", kind.name());
    }
}

#[test]
fn the_example_is_a_record() {
    let (path, page) = page();
    let (before, rest) = page.split_once("```json\n").expect("the page has an example");
    let (example, after) = rest.split_once("```").expect("the example ends");
    let want = format!("{}\n", laid_out(&sample::full().to_json(), 0));
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(path, format!("{before}```json\n{want}```{after}")).unwrap();
        return;
    }
    assert_eq!(example, want, "{UPDATE}=1 cargo test -p linerate-results writes the example anew");
    assert_eq!(serde_json::from_str::<Record>(example).unwrap(), sample::full());
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
