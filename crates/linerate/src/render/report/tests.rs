//! Reports of the documents' examples, and of records that somebody has been at.

use std::ops::ControlFlow;

use linerate_machine::end::Direction;
use linerate_results::effort::effort;
use linerate_results::record::Record;
use linerate_trial::pace::SplitMix64;
use serde_json::Value;

use super::verify::Difference;
use super::*;
use crate::render::forms::Piece;
use crate::render::sample;
use crate::render::table_model::{Heading, Table};

fn carried(records: &[Record]) -> Vec<ReportedCampaign> {
    let first = &records[0];
    let command = format!("linerate run {} --target {}", first.plan, first.target.endpoint);
    let campaign = Campaign {
        plan_text: "workload = \"udp-stream\" # on 192.0.2.9 </textarea>\n".to_owned(),
        ..linerate_results::sample::campaign_of(first, records.len() as u32)
    };
    vec![ReportedCampaign { campaign, command, expected: Vec::new() }]
}

/// The records with identifiers of their own, as a store has them and as they are read back.
fn own(mut records: Vec<Record>) -> Vec<Record> {
    for (at, record) in records.iter_mut().enumerate() {
        record.id = format!("{:026}", at + 1);
    }
    records.iter().map(|record| record_of(1, &line(record)).unwrap()).collect()
}

fn lines(records: &[Record]) -> String {
    records.iter().map(|record| line(record) + "\n").collect()
}

fn material(records: &[Record], is_attached: bool) -> Material {
    let mut material = Material::new(is_attached);
    records.iter().for_each(|record| material.add(record.clone(), &line(record)));
    material
}

fn at(records: &[Record]) -> impl Fn(&[usize]) -> Result<Vec<Record>> {
    |places| Ok(places.iter().map(|at| records[*at].clone()).collect())
}

pub(crate) fn report<'a>(origin: &'a Origin, records: &[Record]) -> Report<'a> {
    Report::new(origin, material(records, origin.attached), at(records)).unwrap()
}

fn url(records: &[Record]) -> String {
    material(records, true).attachment.unwrap().url()
}

/// The lines that a report carries.
fn attached(html: &str) -> Result<Option<String>> {
    let mut text = String::new();
    let is_attached = each_attached(html, |_, line| {
        text.extend([line, "\n"]);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(is_attached.then_some(text))
}

fn everything() -> Vec<Record> {
    own([sample::everything(), sample::repeats(), sample::sweep(), vec![linerate_results::sample::full()]].concat())
}

pub(crate) fn side(words: &str, records: &[Record]) -> (String, Vec<String>) {
    (words.to_owned(), records.iter().map(|record| record.id.clone()).collect())
}

fn one_side(records: &[Record]) -> Origin {
    let mut origin = Origin::new(vec![side("last", records)], Vec::new(), carried(records), true);
    origin.seal(&material(records, false));
    origin
}

fn two_sides(records: &[Record]) -> Origin {
    let (baseline, candidate) = records.split_at(records.len() / 2);
    let sides = vec![side("last~1", baseline), side("last", candidate)];
    let mut origin = Origin::new(sides, vec!["rate".to_owned()], carried(records), true);
    origin.seal(&material(records, false));
    origin
}

fn checked(html: &str) -> Verified {
    let origin = read_back(html).unwrap();
    let mut material = Material::new(origin.attached);
    let is_attached = each_attached(html, |number, line| {
        material.add(record_of(number, line)?, line);
        Ok(ControlFlow::Continue(()))
    });
    assert!(is_attached.unwrap());
    verify(html, &origin, material, |places| attached_at(html, places)).unwrap()
}

#[test]
fn a_report_is_what_its_records_give() {
    for records in [everything(), own(sample::repeats()), own(vec![linerate_results::sample::failed(0)])] {
        for origin in [one_side(&records), two_sides(&records)] {
            let html = report(&origin, &records).html();
            assert_eq!(html, report(&origin, &records).html());
            assert_eq!(attached(&html).unwrap().unwrap(), lines(&records));
            assert_eq!(read_back(&html).unwrap(), origin);
            let Verified::Same { figures } = checked(&html) else { panic!("{:?}", checked(&html)) };
            assert!(figures > 0 || records.iter().all(|record| record.result.is_none()));
        }
    }
}

/// What is made of a record takes longer than to read it: ten thousand of them wait for it.
#[test]
fn a_record_is_looked_at_once() {
    let records = everything();
    let lines: Vec<String> = records.iter().map(line).collect();
    let origin = two_sides(&records);
    let before = effort();
    let mut material = Material::new(true);
    records.iter().zip(&lines).for_each(|(record, text)| {
        assert_eq!(line_of(record, text.clone()), *text);
        material.add(record.clone(), text);
    });
    let report = Report::new(&origin, material, at(&records)).unwrap();
    let explained = report.explained.len();
    drop([report.html(), report.markdown(), report.text(false)]);
    let after = effort();
    assert_eq!(after.observations - before.observations, records.len() as u64);
    // Of a few the evidence is told, in each form.
    assert_eq!(after.findings - before.findings, (records.len() + 3 * explained) as u64);
    assert_eq!(after.texts, before.texts);
}

#[test]
fn what_was_expected_is_judged_by_the_records() {
    let records = own(sample::sweep());
    let mut origin = one_side(&records);
    let texts: [(&str, &[u32]); 4] = [
        ("throughput > 10M", &[1, 2]),
        ("throughput > 400M", &[1]),
        ("latency_p50 < 1ms", &[1]),
        ("loss < 1 %", &[99]),
    ];
    origin.campaigns[0].expected = texts
        .map(|(text, configurations)| Expected { text: text.to_owned(), configurations: configurations.to_vec() })
        .to_vec();
    let html = |origin: &Origin| report(origin, &records).html();
    assert_eq!(html(&origin).matches("its campaign has not ended").count(), 5);
    origin.campaigns[0].campaign.finished_at = Some("2026-11-21T04:00:00Z".to_owned());
    let html = html(&origin);
    let made = report(&origin, &records);
    let words = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ").replace('\\', "");
    let texts = [html.clone(), made.text(false), made.markdown()];
    for text in texts.map(|text| words(text).replace("&gt;", ">").replace("&lt;", "<")) {
        let place = |words: &str| text.find(words).unwrap_or_else(|| panic!("{words}: {}", &text[..4000]));
        let not = "Not as expected: throughput > 400M, where direction=tx, rate=50M, udp-stream: it is 50.00 Mbit/s \
                   (1 run).";
        assert!(place(not) < place("no trial has the figure.") && place(not) < place("Mbit/s offered"), "{text}");
        assert!(place("Of 5 expectations 2 are met, 2 are not, of 1 nobody can tell.") < place("Setup"));
        assert!(place("What was expected") < place("What limits it"));
        place("NOT met");
        place("cannot tell:");
    }
    drop(made);
    assert!(matches!(checked(&html), Verified::Same { .. }));
    origin.campaigns[0].expected.truncate(1);
    assert!(report(&origin, &records).markdown().contains("All 2 expectations are met."));
    origin.campaigns[0].expected[0].text = "thruput ~ 9".to_owned();
    assert!(report(&origin, &records).markdown().contains("this version of linerate cannot read it"));
}

#[test]
fn what_is_not_attached_is_checked_against_the_store() {
    let records = everything();
    let mut origin = one_side(&records);
    origin.attached = false;
    let html = report(&origin, &records).html();
    assert_eq!(attached(&html).unwrap(), None);
    let verified = verify(&html, &origin, material(&records, false), at(&records)).unwrap();
    assert!(matches!(verified, Verified::Same { .. }), "{verified:?}");
}

/// Every leaf of a record, by its JSON pointer.
fn leaves(value: &Value, place: String, found: &mut Vec<String>) {
    match value {
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(at, one)| leaves(one, format!("{place}/{at}"), found))
        }
        Value::Object(fields) => fields.iter().for_each(|(name, one)| {
            leaves(one, format!("{place}/{}", name.replace('~', "~0").replace('/', "~1")), found);
        }),
        _ => found.push(place),
    }
}

#[test]
fn a_record_that_was_changed_is_noticed() {
    let records = everything();
    let origin = one_side(&records);
    let html = report(&origin, &records).html();
    let ours = url(&records);
    let mut random = SplitMix64::new(7);
    let mut changes = 0;
    while changes < 60 {
        let at = random.below(records.len() as u64) as usize;
        let mut value = records[at].to_json();
        let mut places = Vec::new();
        leaves(&value, String::new(), &mut places);
        let place = &places[random.below(places.len() as u64) as usize];
        let leaf = value.pointer_mut(place).unwrap();
        *leaf = match &*leaf {
            Value::Number(number) => serde_json::json!(number.as_f64().unwrap_or(0.0).abs() as u64 + 1),
            Value::Bool(is) => Value::Bool(!is),
            Value::String(text) => Value::String(format!("{text}0")),
            other => other.clone(),
        };
        let Ok(changed) = serde_json::from_value::<Record>(value) else { continue };
        if changed == records[at] {
            continue;
        }
        let mut others = records.clone();
        others[at] = changed;
        let forged = html.replace(&ours, &url(&others));
        assert_ne!(forged, html);
        let Verified::Different(Difference::Record { number, .. }) = checked(&forged) else {
            panic!("{place}: {:?}", checked(&forged))
        };
        assert_eq!(number, at + 1, "{place}");
        changes += 1;
    }
    let fewer = html.replace(&ours, &url(&records[1..]));
    assert!(matches!(checked(&fewer), Verified::Different(Difference::Count(_))));
}

#[test]
fn a_figure_or_a_word_that_was_changed_is_named() {
    let records = own(sample::repeats());
    let origin = one_side(&records);
    let html = report(&origin, &records).html();
    let (before, after) = html.split_once("<data ").unwrap();
    let (tag, rest) = after.split_once("</data>").unwrap();
    let (attributes, text) = tag.split_once('>').unwrap();
    let other = format!("{before}<data {attributes}>9{text}</data>{rest}");
    let Verified::Different(difference) = checked(&other) else { panic!("not noticed") };
    assert!(matches!(difference, Difference::Figure { number: 1, .. }), "{difference:?}");
    assert!(difference.sentence().contains(&format!("9{text}")), "{}", difference.sentence());
    let Verified::Different(long) = checked(&html.replacen("<data ", "<data value=\"1\">\n\u{1b}[2J", 1)) else {
        panic!("not noticed")
    };
    let said = long.sentence();
    assert!(said.chars().count() < 1000 && said.chars().all(linerate_machine::printable::is_printable), "{said}");
    let other = html.replace("trials", "attempts");
    assert!(matches!(checked(&other), Verified::Different(Difference::Line { .. })));
    let other = format!("{html}<p>and more</p>");
    assert!(matches!(checked(&other), Verified::Different(Difference::Line { .. })));
}

#[test]
fn nonsense_is_a_sentence() {
    for html in
        ["", "<html>", r#"<meta name="linerate-report" content="{}">"#, r#"<meta name="linerate-report" content=""#]
    {
        assert!(read_back(html).unwrap_err().to_string().contains("no report of linerate's"), "{html}");
    }
    for link in
        ["", "href=\"x\"", "href=\"data:application/gzip;base64,@@\"", "href=\"data:application/gzip;base64,AAAA\""]
    {
        assert!(attached(&format!(r#"<a id="records-attached" {link}>"#)).is_err(), "{link}");
    }
    assert!(record_of(1, "{}").unwrap_err().to_string().contains("line 1"));
}

fn pictures(pieces: &[Piece]) -> Vec<&linerate_chart::Chart> {
    let mut found = Vec::new();
    for piece in pieces {
        match piece {
            Piece::Chart(chart) => found.push(&**chart),
            Piece::Folded(_, inner) => found.extend(pictures(inner)),
            _ => {}
        }
    }
    found
}

/// Printed in grey, dash, symbol and hatching are what is left.
#[test]
fn no_two_series_differ_by_colour_alone() {
    use linerate_chart::{Marks, Weight};
    let records = everything();
    let origin = two_sides(&records);
    let pieces = document::pieces(&report(&origin, &records));
    let mut seen = 0;
    for chart in pictures(&pieces) {
        assert!(!chart.title.is_empty() && chart.sentence.ends_with('.'), "{}: {}", chart.title, chart.sentence);
        let figures = chart.table.rows.iter().flatten().filter(|cell| cell.value.is_some());
        assert!(figures.clone().count() > 0, "{}", chart.title);
        assert!(figures.clone().all(|cell| !cell.trace.is_empty()), "{}", chart.title);
        for panel in &chart.panels {
            let mut looks = std::collections::BTreeMap::new();
            for series in panel.series.iter().filter(|series| series.weight == Weight::Normal) {
                let look = match &series.marks {
                    Marks::Line(_) => format!("line {:?} {:?}", series.dash, series.symbol),
                    Marks::Step(_) => format!("line {:?}", series.dash),
                    Marks::Points(_) | Marks::Interval(_) => format!("points {:?}", series.symbol),
                    Marks::Bar(_) | Marks::Band(_) => format!("area {}", series.color % 8),
                    Marks::Flow(_) | Marks::Flame(_) | Marks::Ideal { .. } => continue,
                };
                let other = looks.insert(look.clone(), &series.name);
                assert!(other.is_none_or(|other| *other == series.name), "{}: {look}", chart.title);
                seen += 1;
            }
        }
    }
    assert!(seen > 15, "{seen}");
}

fn tables(pieces: &[Piece]) -> Vec<&Table> {
    let mut found = Vec::new();
    for piece in pieces {
        match piece {
            Piece::Table(table) => found.push(table),
            Piece::Folded(_, inner) => found.extend(tables(inner)),
            _ => {}
        }
    }
    found
}

#[test]
fn every_form_has_every_column_and_every_cell() {
    let records = everything();
    let origin = two_sides(&records);
    let report = report(&origin, &records);
    let (html, markdown, text) = (report.html(), report.markdown(), report.text(false));
    let pieces = document::pieces(&report);
    let escaped = |text: &str| maud::html! { (text) }.into_string();
    let mut seen = 0;
    for table in tables(&pieces).into_iter().filter(|table| !table.rows.is_empty()) {
        for heading in &table.headings {
            let words = heading.in_one_line();
            assert!(html.contains(&escaped(&crate::render::sentence(&words))), "{words}");
            assert!(markdown.contains(&crate::render::markdown::escaped(&words)), "{words}");
            // A narrow column breaks between words, and says in the title whose payload it is.
            assert!(heading.name.split([' ', '/']).all(|word| text.contains(word)), "{words}");
        }
        let parts = table.parts(COLUMNS.into());
        for heading in table.headings.iter().map(Heading::in_one_line) {
            assert!(parts.iter().flat_map(|part| &part.headings).any(|one| one.in_one_line() == heading), "{heading}");
        }
        for cell in table.rows.iter().flatten().filter(|cell| !cell.is_empty()) {
            let shown = cell.shown();
            let shown = shown.trim();
            assert!(html.contains(&escaped(&crate::render::sentence(shown))), "{shown}");
            assert!(markdown.contains(&crate::render::markdown::escaped(shown)), "{shown}");
            seen += 1;
        }
    }
    assert!(seen > 300, "{seen}");
    for form in [&html, &markdown, &text] {
        for part in [
            "Registers before and after, record",
            "CPU time by function, record",
            "Flame graph of the target",
            "Lost in a row, rx",
            "Time between",
        ] {
            assert!(form.contains(part), "{part}");
        }
    }
}

/// What stands before the setup, in one line.
fn answer(origin: &Origin, records: &[Record]) -> String {
    let text = report(origin, records).text(false);
    let (answer, _) = text.split_once("\nSetup\n").unwrap();
    answer.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_answer_has_what_limits_each_direction() {
    let case = linerate_results::findings::cases::cases().into_iter().find(|case| case.name.starts_with("fec: FIFO"));
    let records = own(vec![case.unwrap().record]);
    let said = answer(&one_side(&records), &records);
    assert!(said.contains("(sure)") && said.contains("FIFO"), "{said}");
}

#[cfg(feature = "web")]
#[test]
fn a_campaign_is_judged_as_in_a_report() {
    let case = linerate_results::findings::cases::cases().into_iter().find(|case| case.name.starts_with("fec: FIFO"));
    let mut records = vec![case.unwrap().record];
    records[0].trial.configuration = Some(1);
    let records = own(records);
    let mut origin = one_side(&records);
    origin.campaigns[0].campaign.finished_at = Some("2026-11-21T04:00:00Z".to_owned());
    origin.campaigns[0].expected = vec![Expected { text: "throughput > 900G".to_owned(), configurations: vec![1] }];
    let report = report(&origin, &records);
    let (page, text) = (report.campaign(), report.text(false));
    let shown = forms::whole_text(&page.pieces, COLUMNS, false);
    let section = |title: &str| {
        let from = text.find(&format!("\n{title}\n")).unwrap();
        text[from..].split("\n\n").next().unwrap().to_owned()
    };
    for part in ["Not as expected: throughput > 900G", &section("What was expected"), &section("What limits it")] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    // Its words lead to the evidence; a report leads nowhere.
    let link = format!("href=\"/record/{}/explain\"", records[0].id);
    assert!(page.html("/campaign/x?").into_string().contains(&link) && !report.html().contains(&link));
}

#[test]
fn the_answer_has_the_verdicts_where_none_is_a_difference() {
    use linerate_results::sample;
    let trial = |index, mbit| sample::tcp(index, Direction::Rx, mbit, false);
    let records =
        own([900.0, 930.0, 880.0, 910.0, 905.0, 935.0].into_iter().zip(0..).map(|(m, i)| trial(i, m)).collect());
    let said = answer(&two_sides(&records), &records);
    assert!(said.contains("throughput: cannot tell: needs about"), "{said}");
}

#[test]
fn plain_text_can_be_quoted_twice() {
    let mut records = everything();
    let failed = records.iter_mut().find(|record| record.result.is_none()).expect("a trial that failed");
    failed.error = Some(format!("exec:/a/{} could not be started…", "path/".repeat(40)));
    for origin in [one_side(&records), two_sides(&records)] {
        let report = report(&origin, &records);
        for line in report.text(true).lines() {
            assert!(line.chars().count() <= COLUMNS.into(), "{line}");
            assert!(line.is_ascii() && !line.contains('\t'), "{line}");
        }
    }
}

#[test]
fn no_name_is_left() {
    let records = everything();
    let known = material(&records, false);
    let pseudonyms = Pseudonyms::of(&two_sides(&records).campaigns, &known);
    assert!(!pseudonyms.told().is_empty());
    let hidden: Vec<Record> = records.iter().map(|record| pseudonyms.record(record.clone()).unwrap()).collect();
    let mut origin = pseudonyms.origin(&two_sides(&records)).unwrap();
    origin.seal(&material(&hidden, false));
    let report = report(&origin, &hidden);
    let html = report.html();
    let all = [html.clone(), report.markdown(), report.text(false), lines(&hidden)].concat();
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    for (kind, name) in identities::Identities::of(&two_sides(&records).campaigns, &known.identities).iter() {
        for (at, _) in all.match_indices(name) {
            let before = all[..at].chars().next_back().is_some_and(is_word);
            let after = all[at + name.len()..].chars().next().is_some_and(is_word);
            assert!(before || after, "{kind:?} {name}: {}", &all[at.saturating_sub(60)..at + name.len()]);
        }
    }
    assert!(matches!(checked(&html), Verified::Same { .. }));
    // What is another stays another.
    assert_eq!(
        hidden[0].target.endpoint == hidden[0].host.endpoint,
        records[0].target.endpoint == records[0].host.endpoint
    );
}

/// Every tag and every attribute is one of ours, whatever records say.
#[test]
fn nothing_of_a_record_becomes_html() {
    const TAGS: [&str; 42] = [
        "!DOCTYPE", "html", "head", "meta", "title", "style", "body", "main", "h1", "h2", "h3", "p", "ul", "li", "pre",
        "div", "table", "thead", "tbody", "tr", "th", "td", "data", "details", "summary", "a", "svg", "g", "path",
        "rect", "line", "text", "desc", "figure", "tspan", "defs", "pattern", "clipPath", "polyline", "circle",
        "polygon", "code",
    ];
    let hostile = "</script>\"><svg onload=x>'\u{202e}|``\u{1b}[2J&amp;<img src=x>";
    let mut values: Vec<Value> = everything().iter().map(Record::to_json).collect();
    for value in &mut values {
        let mut places = Vec::new();
        leaves(value, String::new(), &mut places);
        for place in places {
            let before = value.clone();
            let leaf = value.pointer_mut(&place).unwrap();
            if leaf.is_string() && place != "/id" {
                *leaf = hostile.into();
                // A word of a table of ours.
                if serde_json::from_value::<Record>(value.clone()).is_err() {
                    *value = before;
                }
            }
        }
    }
    let records: Vec<Record> = values.into_iter().map(|value| serde_json::from_value(value).unwrap()).collect();
    let mut origin = two_sides(&records);
    origin.sides[0].words = hostile.to_owned();
    let html = report(&origin, &records).html();
    assert!(html.contains("onload=x") && !html.contains('\u{202e}') && !html.contains('\u{1b}'));
    for part in html.split('<').skip(1) {
        let tag = part.trim_start_matches('/');
        let name = tag.split(|c: char| c.is_whitespace() || c == '>').next().unwrap();
        assert!(TAGS.contains(&name), "<{}", part.chars().take(80).collect::<String>());
        let attributes = part.split('>').next().unwrap();
        for name in ["onload", "src", "style", "script", "onclick"] {
            assert!(!attributes.contains(&format!(" {name}=")) || attributes.contains("&"), "<{attributes}");
        }
    }
    assert!(matches!(checked(&html), Verified::Same { .. }));
}

/// Whatever is offered beyond what the way carries brings no more.
#[test]
fn of_loads_that_bring_the_same_the_lowest_is_named() {
    let loads = [(900, 470.02), (300, 300.0), (600, 470.04), (500, 470.01)];
    let records = (0..).zip(loads).map(|(at, (mbit, through))| {
        let mut record = linerate_results::sample::udp(at, Direction::Rx, mbit, through);
        record.result.as_mut().unwrap().flow.throughput_bps = Some(through * 1e6);
        record
    });
    let records = own(records.collect());
    let origin = Origin::new(vec![side("last", &records)], Vec::new(), Vec::new(), false);
    let text = report(&origin, &records).text(false);
    assert!(text.contains("The most that arrived was 470.0 Mbit/s, at 500.0 Mbit/s offered"), "{text}");
    let best = text.lines().skip_while(|line| !line.starts_with("The best of each kind")).nth(2).unwrap();
    assert!(best.contains("rate=500M"), "{best}");
    let summary = crate::render::summary::summary(&records);
    assert!(summary.contains("recvmmsg), at 500.0 Mbit/s offered."), "{summary}");
}
