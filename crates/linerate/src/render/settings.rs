//! Settings of one machine for people: as they are, as they were changed, as they were put back.
//! Knows no machine; the same facts stand in records for both ends.

use linerate_machine::change::{Changed, PutBack, Reading};

#[cfg(feature = "web")]
use super::answer::Answer;
use super::fitting::grid;
#[cfg(feature = "web")]
use super::forms::Piece;
use super::table_model::Cell;
#[cfg(feature = "web")]
use super::table_model::Table;
use super::{json, sentence};

/// Settings as they are; what cannot be read is left out. `kept`: what was changed to stay, with its original.
pub(crate) fn readings(readings: &[Reading], kept: &[(String, String)], json: bool, width: Option<u16>) -> String {
    if json {
        let read = readings.iter().filter_map(|one| Some((one.name.clone(), one.value.clone()?.into())));
        let kept = kept.iter().map(|(name, value)| (name.clone(), value.clone().into()));
        let (read, kept): (serde_json::Map<_, _>, serde_json::Map<_, _>) = (read.collect(), kept.collect());
        return json::line(serde_json::json!({ "settings": read, "originals": kept }));
    }
    grid(["", ""], rows(readings, kept), width)
}

/// The same for a browser.
#[cfg(feature = "web")]
pub(crate) fn answer(readings: &[Reading], kept: &[(String, String)]) -> Answer {
    Answer::of(vec![Piece::Table(Table::new(["setting", "value"], rows(readings, kept)))])
}

fn rows(readings: &[Reading], kept: &[(String, String)]) -> Vec<Vec<Cell>> {
    let original = |name: &str| kept.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str());
    let row = |one: &Reading| {
        let was = original(&one.name).filter(|was| one.value.as_deref() != Some(*was));
        let was = was.map(|was| format!("  (was {was}; restore puts that back)")).unwrap_or_default();
        Some(vec![Cell::text(&one.name), Cell::long(format!("{}{was}", one.value.as_deref()?))])
    };
    readings.iter().filter_map(row).collect()
}

/// Settings that were changed.
pub(crate) fn changed(changed: &[Changed], json: bool, width: Option<u16>) -> String {
    if json {
        return json::line(serde_json::json!({ "settings": changed }));
    }
    grid(TITLES, changed.iter().map(row), width)
}

/// What [`row`] has.
pub(super) const TITLES: [&str; 5] = ["setting", "asked", "set", "read back", "was"];

/// A setting that was changed.
pub(super) fn row(one: &Changed) -> Vec<Cell> {
    let or = |value: &Option<String>| value.as_ref().map(Cell::text).into();
    vec![Cell::text(&one.name), Cell::text(&one.asked), or(&one.set), or(&one.read_back), or(&one.original)]
}

/// Settings that were put back; what could not be is told elsewhere.
pub(crate) fn put_back(told: &[PutBack], json: bool) -> String {
    if json {
        return json::line(serde_json::json!({ "settings": told }));
    }
    if told.is_empty() {
        return "Nothing was changed to stay; there is nothing to put back.\n".to_owned();
    }
    let done = told.iter().filter(|one| one.error.is_none());
    done.map(|one| format!("{}\n", sentence(&one.sentence()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_a_machine() {
        let read = |name: &str, value: Option<&str>, error: Option<&str>| Reading {
            name: name.to_owned(),
            value: value.map(str::to_owned),
            error: error.map(str::to_owned),
        };
        let read = [
            read("mtu", Some("9000"), None),
            read("coalesce.rx_usecs", None, Some("coalesce.rx_usecs is not there on eth0")),
            read("gro", Some("on"), None),
        ];
        let kept = [("mtu".to_owned(), "1500".to_owned())];
        let after = [Changed {
            name: "mtu".to_owned(),
            asked: "9001".to_owned(),
            set: Some("9001".to_owned()),
            read_back: Some("9000".to_owned()),
            original: Some("1500".to_owned()),
        }];
        let back = |name: &str, error: Option<&str>| PutBack {
            name: name.to_owned(),
            interface: Some("eth0".to_owned()),
            original: "1500".to_owned(),
            found: (name == "ring.rx").then(|| "64".to_owned()),
            error: error.map(str::to_owned),
        };
        let text = format!(
            "{}\n{}\n{}\n{}{}",
            readings(&read, &kept, false, None),
            changed(&after, false, None),
            put_back(&[back("mtu", None), back("ring.rx", None), back("speed", Some("it is down"))], false),
            put_back(&[], false),
            readings(&read, &kept, true, None),
        );
        insta::assert_snapshot!(text);
    }
}
