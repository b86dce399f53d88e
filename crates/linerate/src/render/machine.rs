//! One machine for people: what it is, and its counters.
//! Knows no trial; the same facts stand in records for both ends.

use std::collections::BTreeMap;

use linerate_control::message::Address;
use linerate_machine::environment::Environment;
use linerate_path::stage::{Counters, Stage};
use linerate_results::observation::flatten;

#[cfg(feature = "web")]
use super::answer::Answer;
use super::fitting::grid;
#[cfg(feature = "web")]
use super::forms::Piece;
use super::json;
use super::table_model::Cell;
#[cfg(feature = "web")]
use super::table_model::Table;

/// What a machine is.
pub(crate) fn machine(environment: &Environment, addresses: &[Address], json: bool, width: Option<u16>) -> String {
    let value = serde_json::json!({ "environment": environment, "addresses": addresses });
    if json {
        return json::line(value);
    }
    grid(["", ""], facts(environment, addresses), width)
}

/// The same for a browser.
#[cfg(feature = "web")]
pub(crate) fn answer(environment: &Environment, addresses: &[Address]) -> Answer {
    Answer::of(vec![Piece::Table(Table::new(["what", "value"], facts(environment, addresses)))])
}

/// Counters since the machine started, or what they grew by in some seconds, for a browser.
#[cfg(feature = "web")]
pub(crate) fn answer_of_counters(counters: &Counters, seconds: Option<f64>) -> Answer {
    let (heading, rows) = match seconds {
        None => ("value", rows(counters, Cell::count)),
        Some(seconds) => ("per second", rows(counters, |value| Cell::number(value as f64 / seconds, 4))),
    };
    if rows.is_empty() {
        return Answer::said("Nothing moved.");
    }
    Answer::of(vec![Piece::Table(Table::new(["stage", "counter", heading], rows))])
}

/// Machines, each with the address of its page: name, whether it was reached, who measures, kernel, link.
#[cfg(feature = "web")]
pub(crate) fn answer_of_list(rows: impl Iterator<Item = (String, [String; 5])>) -> Answer {
    let row = |(link, [name, rest @ ..]): (String, [String; 5])| {
        std::iter::once(Cell::text(name).linked(link)).chain(rest.iter().map(Cell::long)).collect::<Vec<_>>()
    };
    let titles = ["machine", "state", "who measures", "kernel", "link"];
    Answer::of(vec![Piece::Table(Table::new(titles, rows.map(row)).filled())])
}

fn facts(environment: &Environment, addresses: &[Address]) -> Vec<Vec<Cell>> {
    let mut named = BTreeMap::new();
    flatten("", &serde_json::json!(environment), &mut named);
    let mut lines: Vec<(String, String)> = named.into_iter().collect();
    for one in addresses {
        let state = if one.up { "" } else { " (down)" };
        lines.push((format!("address on {}", one.interface), format!("{}/{}{state}", one.address, one.prefix_len)));
    }
    lines.iter().map(|(name, value)| vec![Cell::long(name), Cell::long(value)]).collect()
}

/// A machine's counters since it started, by stage.
pub(crate) fn counters(counters: &Counters, json: bool, width: Option<u16>) -> String {
    if json {
        return json::line(serde_json::json!({ "counters": counters }));
    }
    staged(counters, "value", Cell::count, width)
}

/// What the counters grew by in some seconds, as rates. Those that stood still are left out.
pub(crate) fn moved(growth: &Counters, seconds: f64, json: bool, width: Option<u16>) -> String {
    if json {
        return json::line(serde_json::json!({ "seconds": seconds, "counters": growth }));
    }
    let text = staged(growth, "per second", |value| Cell::number(value as f64 / seconds, 4), width);
    if text.is_empty() { "Nothing moved.\n".to_owned() } else { text }
}

fn staged(counters: &Counters, heading: &str, shown: impl Fn(u64) -> Cell, width: Option<u16>) -> String {
    grid(["stage", "counter", heading], rows(counters, shown), width)
}

fn rows(counters: &Counters, shown: impl Fn(u64) -> Cell) -> Vec<Vec<Cell>> {
    let mut last: Option<Stage> = None;
    let moved = counters.iter().filter(|(_, _, value)| *value != 0);
    let row = |(stage, name, value): (Stage, &str, u64)| {
        let place = if last.replace(stage) == Some(stage) { "" } else { stage.name() };
        vec![Cell::text(place), Cell::text(name), shown(value)]
    };
    moved.map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_that_stood_still_are_left_out() {
        let mut growth = Counters::default();
        growth.add(Stage::Qdisc, "eth0 tbf drops", 50);
        growth.add(Stage::Qdisc, "eth0 tbf requeues", 0);
        growth.add(Stage::Link, "odd\u{1b}[2J", 10);
        let text = moved(&growth, 2.0, false, None);
        assert!(text.contains("eth0 tbf drops") && text.contains("25"), "{text}");
        assert!(!text.contains("requeues") && !text.contains('\u{1b}'), "{text}");
        assert_eq!(moved(&Counters::default(), 1.0, false, None), "Nothing moved.\n");
    }
}
