//! Every string of a record, replaced by what would move a cursor, forge a line or become a formula, in every form.
//! Knows no field: it walks the JSON of the documents' example.

use linerate_machine::end::{Direction, End};
use linerate_machine::printable::{is_printable, printable};
use linerate_results::compare::{CompareOptions, compare};
use linerate_results::cost::costs;
use linerate_results::figure::Metric;
use linerate_results::history::history;
use linerate_results::observation::Observation;
use linerate_results::record::{Figures, Record};
use linerate_results::sample;
use linerate_results::store::{Listed, Point, Summary};
use linerate_trial::pace::SplitMix64;
use serde_json::Value;

use super::compare as comparison;
use super::explain::{Explained, FirstFinding, in_three_lines};
use super::report::Origin;
use super::report::tests::{report, side};

/// Begins what must begin no line of a text, and no cell of a CSV.
const FORGED: &str = "=FORGED";

/// About so many strings of each record are replaced one by one; then all together.
const EACH: u64 = 30;

/// What a stranger might say: a part that looks harmless, and what a terminal, a table, a spreadsheet, Markdown or
/// HTML would make something of.
pub(super) fn hostile(random: &mut SplitMix64) -> String {
    const PARTS: [&str; 20] = [
        "\u{1b}[2J",
        "\u{1b}]0;title\u{7}",
        "\u{9b}31m",
        "\u{9d}0;x\u{9c}",
        "\r",
        "\r\n=FORGED ok",
        "\n=FORGED: well",
        "\t",
        "\u{202e}",
        "\u{2066}",
        "\u{2028}=FORGED",
        "\u{0}",
        "\u{7f}",
        "\u{8}\u{8}",
        "|",
        "```",
        "<script>",
        "\"",
        "\u{e0041}",
        "ünï",
    ];
    let mut text = "=FORGED".to_owned();
    for _ in 0..1 + random.below(6) {
        text += PARTS[random.below(PARTS.len() as u64) as usize];
    }
    if random.below(8) == 0 {
        text += &"long ".repeat(3000);
    }
    text
}

/// The places of all strings, names of members included where a record keeps free names.
fn places(value: &Value, place: &str, found: &mut Vec<String>) {
    match value {
        Value::String(_) => found.push(place.to_owned()),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(at, one)| places(one, &format!("{place}/{at}"), found));
        }
        Value::Object(members) => members.iter().for_each(|(name, one)| {
            found.push(format!("{place}#{name}"));
            let name = name.replace('~', "~0").replace('/', "~1");
            places(one, &format!("{place}/{name}"), found);
        }),
        _ => {}
    }
}

/// The record with another text there; `None` where the format allows no such text.
fn replaced(value: &Value, place: &str, text: &str) -> Option<Record> {
    let mut value = value.clone();
    match place.split_once('#') {
        None => *value.pointer_mut(place)? = text.into(),
        Some((object, name)) => {
            let members = value.pointer_mut(object)?.as_object_mut()?;
            let member = members.remove(name)?;
            members.insert(text.to_owned(), member);
        }
    }
    let record: Record = serde_json::from_value(value).ok()?;
    // A name that no field has is ignored.
    record.to_json().to_string().contains("FORGED").then_some(record)
}

/// Every text form of what a store holds, by name, for a terminal of this width.
pub(super) fn texts(record: &Record, width: Option<u16>) -> Vec<(&'static str, String)> {
    // Of another run, so that figures have a range.
    let mut other = sample::full();
    if let Some(result) = &mut other.result {
        (result.flow.throughput_bps, result.transactions_per_s) = (Some(4.8e8), Some(104.25));
    }
    let records = [record.clone(), other];
    let explained = Explained::of(record, None);
    let listed = Listed {
        id: record.id.clone(),
        started_at: record.started_at.clone(),
        campaign: record.campaign.clone(),
        plan: record.plan.clone(),
        workload: record.workload.name().to_owned(),
        direction: record.direction.name().to_owned(),
        index: 0,
        repeat: 0,
        throughput_bps: None,
        loss_ratio: None,
        transactions_per_s: None,
        failed: false,
        // As forged as the rest: the store reads them out of the record's JSON.
        apis: [record.id.clone(), record.plan.clone()].map(Some),
        target: record.target.endpoint.clone(),
        factors: record.trial.factors.clone(),
    };
    let summary = Summary {
        campaign: sample::campaign_of(record, 1),
        done: 1,
        failed: 0,
        levels: record.trial.factors.keys().map(|name| (name.clone(), ["1", "2"].map(str::to_owned).into())).collect(),
    };
    let observed: Vec<Observation> = records.iter().map(Observation::of).collect();
    let judged = compare(&[&observed[0]], &[&observed[1]], &CompareOptions::default());
    let names = [record.plan.clone(), record.id.clone()];
    let shown = comparison::ComparisonView { comparison: &judged, names, gates: &[] };
    let metric = Metric::find("throughput").unwrap();
    let points: Vec<Point> = (0..12)
        .map(|at| {
            let one = &observed[usize::from(at < 6)];
            let campaign = format!("{:026}{}", at, record.campaign).into();
            let value = if at < 6 { 9e8 } else { 8e8 } + f64::from(at % 3);
            Point { campaign, started_at: one.started_at.clone(), around: one.around.clone(), value }
        })
        .collect();
    let series = history(&points, 1000);
    let costs = costs(&records);
    let environment = &record.target.environment;
    let mut texts = vec![
        ("table", super::records::text(&records, width)),
        ("summary", super::wrapped(&super::summary::summary(&records), width)),
        ("beside tables", super::wrapped(&super::summary::summary_beside_tables(&records), width)),
        ("ttcp", super::ttcp::ttcp(&records, width)),
        ("picture", super::picture::picture(&records, width)),
        ("show", super::show::show(record, width, true)),
        ("list", super::list::list(&[listed], [26; 2], std::path::Path::new("store"), width)),
        ("campaigns", super::list::campaigns(&[summary], 26, std::path::Path::new("store"), width)),
        ("explain", explained.answer().text(width)),
        ("three lines", in_three_lines(&[FirstFinding::of(record)], width)),
        ("compare", comparison::text(&shown, width)),
        ("around", comparison::around(&shown, width)),
        ("history", super::history::answer(metric, &series).text(width)),
        ("cost", super::cost::answer(&costs).text(width)),
        ("machine", super::machine::machine(environment, &[], false, width)),
        ("counters", super::machine::counters(&record.target.counters, false, width)),
        ("settings", super::settings::changed(&record.target.settings, false, width)),
    ];
    let origin = Origin::new(vec![side(&record.plan, &records)], Vec::new(), Vec::new(), false);
    let report = report(&origin, &records);
    // It has a width of its own.
    texts.extend(width.map(|_| ("report", report.text(false))));
    if width.is_none() {
        texts.extend([
            ("report in markdown", report.markdown()),
            ("markdown", super::records::markdown(&records)),
            ("explain in markdown", explained.answer().markdown()),
            ("compare in markdown", comparison::markdown(&shown)),
            ("history in markdown", super::history::answer(metric, &series).markdown()),
            ("cost in markdown", super::cost::answer(&costs).markdown()),
        ]);
    }
    if let Some(profile) = &record.target.profile {
        let driver = environment.nic.as_ref().and_then(|nic| nic.driver.as_deref());
        texts.push(("profile", super::profile::whole(End::Target.name(), profile, driver, "µs/packet", width)));
    }
    texts
}

fn csvs(record: &Record) -> Vec<String> {
    let records = [record.clone(), sample::full()];
    let observed: Vec<Observation> = records.iter().map(Observation::of).collect();
    let judged = compare(&[&observed[0]], &[&observed[1]], &CompareOptions::default());
    let shown =
        comparison::ComparisonView { comparison: &judged, names: [record.plan.clone(), String::new()], gates: &[] };
    vec![super::csv::csv(&records), comparison::csv(&shown), super::cost::csv(&costs(&records))]
}

/// The cells of RFC 4180, section 2.
fn cells(text: &str) -> Vec<String> {
    let (mut cells, mut cell, mut quoted) = (Vec::new(), String::new(), false);
    let mut signs = text.chars().peekable();
    while let Some(c) = signs.next() {
        match c {
            '"' if quoted && signs.peek() == Some(&'"') => cell.extend(signs.next()),
            '"' => quoted = !quoted,
            ',' | '\n' if !quoted => cells.push(std::mem::take(&mut cell)),
            c => cell.push(c),
        }
    }
    cells
}

fn check(record: &Record, place: &str, seed: u64) {
    let both =
        [None, Some(100)].into_iter().flat_map(|width| texts(record, width).into_iter().map(move |of| (width, of)));
    for (width, (form, text)) in both {
        let told = || format!("seed {seed}, {place}, {form}:\n{text:?}");
        let written = printable(&text);
        assert!(written.chars().all(|c| c == '\n' || is_printable(c)), "{}", told());
        // What is broken at a width may begin a line with any word; those forms are here without a width, too.
        let whole = if width.is_some() { "" } else { written.split("\nMachines\n").next().unwrap_or("") };
        let forged = |line: &str| line.starts_with("=FORGED ok") || line.starts_with("=FORGED: well");
        assert!(!whole.lines().any(forged), "{}", told());
        let longest = written.lines().map(|line| line.chars().count()).max().unwrap_or(0);
        // Without a width a table has all its columns, of which a record may name as many as it has factors.
        let most = if width.is_some() { 10_000 } else { 100_000 };
        assert!(longest < most, "a line of {longest} characters: seed {seed}, {place}, {form}");
        if form.contains("markdown") {
            // A browser has it without the terminal's care.
            assert_eq!(written, text, "{}", told());
            let tame = written.replace("\\<", "").replace("\\|", "");
            let fenced = tame.contains("```text");
            assert!(fenced || !tame.contains("<script>"), "{}", told());
        }
    }
    for text in csvs(record) {
        assert!(text.replace("\r\n", "\n").chars().all(|c| c == '\n' || is_printable(c)), "{place} {text:?}");
        let bad = cells(&text).into_iter().find(|cell| cell.starts_with(FORGED));
        assert!(bad.is_none(), "seed {seed}, {place}, a formula: {bad:?}");
    }
    let json = super::json::json(std::slice::from_ref(record)) + &Explained::of(record, None).json();
    assert!(json.chars().all(|c| c == '\n' || is_printable(c)), "seed {seed}, {place}: {json:?}");
    assert_eq!(serde_json::from_str::<Record>(json.lines().next().unwrap()).unwrap(), *record);
}

#[test]
fn no_string_of_a_record_gets_out_of_its_place() {
    // Every message has it: LINERATE_SEED=… gives the same texts again.
    let seed = std::env::var("LINERATE_SEED").ok().and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or_else(|| std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64);
    let mut random = SplitMix64::new(seed);
    let mut replacements = 0;
    for record in [sample::full(), sample::failed(1), sample::examined(2), super::sample::sweep().remove(0)] {
        let value = record.to_json();
        let mut found = Vec::new();
        places(&value, "", &mut found);
        // Some of them by chance, because all take a minute.
        for place in &found {
            if random.below(found.len() as u64) >= EACH {
                continue;
            }
            if let Some(record) = replaced(&value, place, &hostile(&mut random)) {
                replacements += 1;
                check(&record, place, seed);
            }
        }
        // All at once, as far as the format allows.
        let mut all = value;
        for place in &found {
            let text = hostile(&mut random);
            if let Some(record) = replaced(&all, place, &text) {
                all = record.to_json();
            }
        }
        check(&serde_json::from_value(all).unwrap(), "everywhere", seed);
    }
    assert!(replacements > 10, "{replacements} strings were replaced, seed {seed}");
}

/// The places of all numbers.
fn numbers(value: &Value, place: &str, found: &mut Vec<String>) {
    match value {
        Value::Number(_) => found.push(place.to_owned()),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(at, one)| numbers(one, &format!("{place}/{at}"), found));
        }
        Value::Object(members) => members.iter().for_each(|(name, one)| {
            let name = name.replace('~', "~0").replace('/', "~1");
            numbers(one, &format!("{place}/{name}"), found);
        }),
        _ => {}
    }
}

/// Puts another number at these places, but where the format allows no such number.
fn set(value: &mut Value, places: &[String], number: &Value) {
    let mut changed = value.clone();
    places.iter().for_each(|place| *changed.pointer_mut(place).unwrap() = number.clone());
    if serde_json::from_value::<Record>(changed.clone()).is_ok() {
        *value = changed;
    } else if places.len() > 1 {
        let (some, others) = places.split_at(places.len() / 2);
        set(value, some, number);
        set(value, others, number);
    }
}

/// A number that is none is no figure: it has no digits to be told.
fn check_numbers(record: &Record, most: &Value) {
    let mut all: Vec<(&str, String)> = [None, Some(100)].into_iter().flat_map(|width| texts(record, width)).collect();
    let twice = [record.clone(), record.clone()];
    all.push(("summary of two", super::summary::summary(&twice)));
    all.extend(csvs(record).into_iter().map(|text| ("csv", text)));
    all.extend([("json", super::json::json(&twice)), ("explain in JSON", Explained::of(record, None).json())]);
    let origin = Origin::new(vec![side(&record.plan, &twice)], Vec::new(), Vec::new(), false);
    all.push(("report in HTML", report(&origin, &twice).html()));
    for (form, text) in all {
        let words = text.split(|c: char| !c.is_ascii_alphanumeric());
        let bad =
            words.into_iter().find(|word| ["inf", "nan", "infinity"].contains(&word.to_ascii_lowercase().as_str()));
        let at = bad.map_or(0, |bad| bad.as_ptr() as usize - text.as_ptr() as usize);
        let line = text[..at].rfind('\n').map_or(0, |end| end + 1);
        assert!(bad.is_none(), "{most}, {form}: {:?}", text[line..].lines().next());
    }
}

/// What a record is refused for is made what it can be.
fn bring_within(result: &mut Figures) {
    let Figures { flow, transactions_per_s, directions, streams, .. } = result;
    let directions = directions.iter_mut().flat_map(|both| [&mut both.tx, &mut both.rx]);
    for flow in std::iter::once(flow).chain(directions).chain(streams.iter_mut().map(|one| &mut one.flow)) {
        [&mut flow.throughput_bps, &mut flow.achieved_load_bps]
            .into_iter()
            .flatten()
            .for_each(|bps| *bps = bps.max(0.0));
        flow.loss_ratio = flow.loss_ratio.map(|ratio| ratio.clamp(0.0, 1.0));
    }
    *transactions_per_s = transactions_per_s.map(|rate| rate.max(0.0));
}

/// Sums and differences of what somebody makes up stay within what fits.
#[test]
fn no_number_of_a_record_is_too_much() {
    let udp = sample::udp(0, Direction::Rx, 100, 100.0);
    for record in [sample::full(), sample::tcp(0, Direction::Tx, 900.0, false), super::sample::sweep().remove(0), udp] {
        let mut found = Vec::new();
        numbers(&record.to_json(), "", &mut found);
        let largest = linerate_results::record::LARGEST;
        let all = [u64::MAX.into(), i64::MAX.into(), i64::MIN.into(), u32::MAX.into(), 1e308.into(), 0.into()];
        for most in all.into_iter().chain([largest, -largest, 5e-324].map(Value::from)) {
            let mut value = record.to_json();
            set(&mut value, &found, &most);
            let mut mixed = value.clone();
            found.iter().step_by(2).for_each(|place| set(&mut mixed, std::slice::from_ref(place), &1e-300.into()));
            // As if none of it was lost, and as if so much was.
            let lost = [value["result"]["packets_lost"].clone(), 0.into()].map(|lost| {
                let mut value = value.clone();
                value["result"]["packets_lost"] = lost;
                value
            });
            for value in lost.into_iter().chain([mixed]) {
                let mut forged: Record = serde_json::from_value(value).unwrap();
                forged.result.as_mut().into_iter().for_each(bring_within);
                match Record::from_json(&forged.to_json().to_string()) {
                    Ok(read) => check_numbers(&read, &most),
                    Err(why) => {
                        assert!(most == 1e308 && why.contains("nothing measured can be, 1e+308"), "{why}");
                    }
                }
            }
        }
    }
}
