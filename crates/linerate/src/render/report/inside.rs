//! What happened inside the machines, where a record has it: registers before and after by bit field, and where CPU
//! time went.

use linerate_registers::changes::{ChangeKind, RegisterChanges};
use linerate_results::profile::difference::by_sample;
use linerate_results::profile::functions::functions;
use linerate_results::record::Record;

use super::flame;
use super::groups::levels;
use super::material::{INSIDE, MOST_INSIDE, Material};
use crate::render::forms::Piece;
use crate::render::number::count;
use crate::render::profile::{Profiled, how, profiled};
use crate::render::registers::{counted, of_machines};
use crate::render::table_model::{Cell, Table, Trace};

/// The most lines of each record, and the most functions.
const LINES: usize = 200;
const FUNCTIONS: usize = 10;
/// The most records with pictures: each is as large as a table of fifty lines.
const PICTURED: usize = 2;

/// What a record tells of its machines.
type Section = fn(&Record) -> Vec<Piece>;

/// The first record with something of each of the first configurations.
pub(super) fn pieces(material: &Material) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let kinds: [(&str, Section, Section); 2] =
        [("registers before and after", registers, |_| Vec::new()), ("CPU time by function", profile, flames)];
    for ((what, inner, pictures), (has, configurations)) in
        kinds.into_iter().zip(INSIDE.iter().zip(&material.inside_of))
    {
        let of_kind = material.inside.iter().filter(|(_, record)| has(record));
        let found = of_kind.enumerate().filter_map(|(at, (place, record))| {
            let mut inner = Some(inner(record)).filter(|inner| !inner.is_empty())?;
            inner.extend(if at < PICTURED { pictures(record) } else { Vec::new() });
            let mut title = what.to_owned();
            if let Some(first) = title.get_mut(..1) {
                first.make_ascii_uppercase();
            }
            Some(Piece::Folded(format!("{title}, record {} ({})", place + 1, levels(record)), inner))
        });
        pieces.extend(found.take(MOST_INSIDE));
        let more = configurations.len().saturating_sub(MOST_INSIDE);
        if more > 0 {
            let of = if more == 1 { "1 more configuration".to_owned() } else { format!("{more} more configurations") };
            pieces.push(Piece::Lines(vec![format!("The records have {what} of {of}: `linerate records show`.")]));
        }
    }
    if !pieces.is_empty() {
        pieces.insert(0, Piece::Section("Inside the machines".to_owned()));
    }
    pieces
}

fn registers(record: &Record) -> Vec<Piece> {
    let (mut rows, mut lines) = (Vec::new(), Vec::new());
    for (end, registers) in of_machines(record) {
        let RegisterChanges { compared, changed, cleared, notes, .. } = registers;
        lines.push(match (compared, changed.len()) {
            (0, _) => format!("{end}: no register could be read."),
            (compared, 0) => format!("{end}: of {} registers none differs.", count(u64::from(*compared))),
            (compared, differ) => {
                format!("{end}: {differ} of {} registers changed or counted.", count(u64::from(*compared)))
            }
        });
        if !cleared.is_empty() {
            lines.push(format!(
                "{end}: the reading before the trial cleared {}: what they show is of the trial.",
                cleared.join(", ")
            ));
        }
        lines.extend(notes.iter().map(|note| format!("{end}: {note}")));
        for one in changed {
            let cell = |text: &str, value: Option<f64>, of: String| match value {
                Some(value) => {
                    Cell::numbers(text).traced(Trace { value, figure: of, records: vec![record.id.clone()] })
                }
                None => Cell::long(text),
            };
            let hexadecimal =
                |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok().map(|value| value as f64);
            let whole = |text: &str, when: &str| cell(text, hexadecimal(text), format!("{}.{when}", one.name));
            let name = [Cell::text(&end), Cell::long(format!("{}:{}", one.name, one.address))];
            let words = |what: Option<&ChangeKind>, meaning: &str| {
                Cell::long(
                    [did(what), meaning.to_owned()]
                        .into_iter()
                        .filter(|words| !words.is_empty())
                        .collect::<Vec<_>>()
                        .join("; "),
                )
            };
            let row = [
                Cell::default(),
                Cell::default(),
                whole(&one.before, "before"),
                whole(&one.after, "after"),
                words(one.what.as_ref(), &one.about),
            ];
            rows.push([name.to_vec(), row.to_vec()].concat());
            for field in &one.fields {
                let value = |value: u32, when: &str| {
                    cell(&value.to_string(), Some(f64::from(value)), format!("{}.{}.{when}", one.name, field.name))
                };
                rows.push(vec![
                    Cell::text(&end),
                    Cell::text(&one.name),
                    Cell::long(&field.name),
                    Cell::text(&field.bits),
                    value(field.before, "before"),
                    value(field.after, "after"),
                    words(Some(&field.what), field.meaning.as_deref().unwrap_or_default()),
                ]);
            }
        }
    }
    let more = rows.len().saturating_sub(LINES);
    rows.truncate(LINES);
    lines.extend((more > 0).then(|| format!("{} lines more are in the record.", count(more as u64))));
    let names = ["machine", "register", "field", "bits", "before", "after", "what it did"];
    match (rows.is_empty(), lines.is_empty()) {
        (_, true) => Vec::new(),
        (true, false) => vec![Piece::Lines(lines)],
        (false, false) => vec![Piece::Table(Table::new(names, rows)), Piece::Lines(lines)],
    }
}

fn did(what: Option<&ChangeKind>) -> String {
    match what {
        None => String::new(),
        Some(ChangeKind::Changed) => "changed".to_owned(),
        Some(ChangeKind::Counted { count, at_least, cleared }) => counted(*count, *at_least, *cleared),
        Some(ChangeKind::WentBack) => "a counter that somebody cleared".to_owned(),
        Some(ChangeKind::Latched) => "latched since the reading before cleared it".to_owned(),
    }
}

fn profile(record: &Record) -> Vec<Piece> {
    let (mut rows, mut lines) = (Vec::new(), Vec::new());
    for Profiled { party: end, profile, driver } in profiled(record) {
        let share = by_sample(profile, |one| one.share);
        let all = functions(profile, driver);
        let trace = |value: f64, what: &str| Trace {
            value,
            figure: format!("profile.{what}"),
            records: vec![record.id.clone()],
        };
        for one in all.iter().take(FUNCTIONS) {
            let share = share.map(|share| share * one.samples as f64);
            rows.push(vec![
                Cell::text(end.name()),
                Cell::text(&one.name),
                share.map(|share| Cell::percent(share).traced(trace(share, "share"))).into(),
                Cell::count(one.samples).traced(trace(one.samples as f64, "samples")),
                Cell::text(one.category.title()),
            ]);
        }
        lines.push(format!("{end}: {}", how(profile)));
        let rest: u64 = all.iter().skip(FUNCTIONS).map(|one| one.samples).fold(0, u64::saturating_add);
        let more = all.len().saturating_sub(FUNCTIONS);
        lines.extend((more > 0).then(|| format!("{end}: {more} functions more with {} samples in all.", count(rest))));
    }
    if rows.is_empty() {
        return Vec::new();
    }
    let names = ["machine", "innermost function", "% of time", "samples", "mostly for"];
    vec![Piece::Table(Table::new(names, rows)), Piece::Lines(lines)]
}

fn flames(record: &Record) -> Vec<Piece> {
    flame::charts(record).into_iter().map(|chart| Piece::Chart(Box::new(chart))).collect()
}
