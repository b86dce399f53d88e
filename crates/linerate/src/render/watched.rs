//! A campaign while it runs, for a browser: which trial, what passes, what became of the trial before, and how well each
//! configuration is known.
//! Knows no process; what is watched is an argument, and so is the time.

use std::collections::BTreeSet;
use std::time::Instant;

use linerate_chart::{Axis, Chart, Marks, Panel, Range, Series, Span, Table as Numbers};
use linerate_machine::end::Direction;
use linerate_results::figure::Metric;
use linerate_results::record::Record;

use super::answer::Answer;
use super::explain::in_three_lines;
use super::forms::Piece;
use super::number::figure;
use super::table_model::{Cell, Table, Value};
use super::{brief, budget};
use crate::measure::events::IntervalUpdate;
use crate::measure::watched::Watched;

/// The most trials that are listed, newest first; the campaign's records have all.
const TRIALS: usize = 20;
/// The most configurations that are listed.
const CONFIGURATIONS: usize = 40;

/// The parts of the page, each with the name of its place: only what changed is put there anew.
pub(crate) fn parts(watched: &Watched, now: Instant) -> [(&'static str, Answer); 5] {
    [
        ("now", present(watched, now)),
        ("passing", Answer::of(passing(watched).into_iter().map(|chart| Piece::Chart(Box::new(chart))).collect())),
        ("last", Answer::of(watched.last.as_deref().map(last).unwrap_or_default())),
        ("known", Answer::of(known(watched))),
        ("ended", Answer::of(ended(watched))),
    ]
}

/// Campaigns that were started from a page: plan, how it goes, by whom, and the command.
pub(crate) fn answer_of_runs(rows: impl Iterator<Item = [String; 4]>) -> Answer {
    let rows: Vec<_> = rows.map(|row| row.map(Cell::long).to_vec()).collect();
    let none = rows.is_empty().then(|| Piece::Lines(vec!["Nothing was started here.".to_owned()]));
    let table = Piece::Table(Table::new(["plan", "how it goes", "started by", "command"], rows));
    Answer::of(none.into_iter().chain([table]).collect())
}

/// What a screen reader is told when a trial ends.
pub(crate) fn news(watched: &Watched) -> String {
    match (&watched.outcome, watched.ended.back()) {
        (Some(_), _) => outcome(watched).unwrap_or_default(),
        (None, Some(trial)) => format!("Trial {} ended: {}", trial.place, brief::line(&trial.record)),
        (None, None) => String::new(),
    }
}

fn outcome(watched: &Watched) -> Option<String> {
    let outcome = watched.outcome.as_ref()?;
    Some(match (&outcome.error, outcome.failed.unwrap_or(0)) {
        (Some(error), _) => format!("It ended early: {error}"),
        (None, 0) => "It is done: all trials were measured.".to_owned(),
        (None, 1) => "It is done; one trial failed, and its record says why.".to_owned(),
        (None, failed) => format!("It is done; {failed} trials failed, and their records say why."),
    })
}

fn present(watched: &Watched, now: Instant) -> Answer {
    let mut lines = Vec::new();
    match (&watched.trial, &watched.doing, outcome(watched)) {
        (_, _, Some(sentence)) => {
            lines.push(sentence);
            lines.extend(in_three_lines(&watched.firsts, None).lines().map(str::to_owned));
        }
        (Some(trial), ..) => {
            let of = trial.planned.map_or(String::new(), |planned| format!(" of {planned}"));
            lines.push(format!("Trial {}{of}: {}", trial.place, trial.words));
            let elapsed = now.saturating_duration_since(trial.began).as_secs();
            // What comes before and behind it is of no known length.
            let traffic = trial.expected_s.map_or(String::new(), |s| format!("; its traffic takes {} s", figure(s, 3)));
            lines.push(format!("{elapsed} s have passed{traffic}."));
        }
        (None, Some(doing), None) => lines.push(format!("Now {doing}.")),
        (None, None, None) if watched.campaign.is_none() => lines.push("The machines are being reached.".to_owned()),
        (None, None, None) => lines.push("Between two trials.".to_owned()),
    }
    if watched.outcome.is_none() && watched.campaign.is_some() {
        lines.push(match watched.left(now) {
            None => "How long it still takes is not known yet.".to_owned(),
            Some(left) => format!(
                "{} {} left for all trials.",
                if left.at_most { "At most" } else { "About" },
                brief::time(left.time)
            ),
        });
    }
    if watched.done > 0 {
        lines.push(format!("{} trials were finished before.", watched.done));
    }
    if let [tried, failed] = watched.counts
        && failed > 0
    {
        lines.push(format!("Of {tried} trials {failed} have no figures."));
    }
    Answer::of(vec![Piece::Lines(lines)])
}

/// What passes in each second; as high as what is offered, so that a collapse looks like one.
fn passing(watched: &Watched) -> Option<Chart> {
    let newest = watched.passed.last()?;
    let of = |direction: Direction| watched.passed.iter().filter(move |one| one.direction == direction);
    let mut table = Numbers::new(["until, s", "direction", "Mbit/s"]);
    for one in &watched.passed {
        let cell = |value: f64, digits| linerate_chart::Cell::number(figure(value, digits), value);
        let words = linerate_chart::Cell::from(one.direction.name());
        table = table.row([cell(one.until_s, 3), words, cell(one.bps / 1e6, 4)]);
    }
    let mut axis = Axis::linear("throughput", "Mbit/s").of("payload");
    if let Some(offered) = watched.offered_bps {
        axis = axis.range(Range::AtLeast(0.0, offered / 1e6));
    }
    let mut panel = Panel::new(axis);
    for (number, direction) in [Direction::Rx, Direction::Tx].into_iter().enumerate() {
        let points: Vec<(f64, Option<f64>)> = of(direction).map(|one| (one.until_s, Some(one.bps / 1e6))).collect();
        if !points.is_empty() {
            panel = panel.series(Series::new(direction.name(), Marks::line(points), number));
        }
    }
    let sent = if newest.is_sent { ", as the sender counts" } else { "" };
    let sentence = format!("{} Mbit/s in the last second{sent}.", figure(newest.bps / 1e6, 4));
    let title = if watched.trial.is_some() { "What passes in this trial" } else { "What passed in the last trial" };
    let mut time = Axis::linear("time", "s");
    if let Some(expected) = watched.expected_s {
        time = time.range(Range::AtLeast(0.0, expected));
    }
    Some(Chart::new(title, sentence, table).x(time).panel(panel))
}

/// The trial that just ended: its figures, its losses by stage, its doubts.
fn last(record: &Record) -> Vec<Piece> {
    let mut lines = vec![format!("{} {}: {}", record.workload, record.direction, brief::line(record))];
    lines.extend(record.error.iter().map(|error| format!("It failed: {error}")));
    lines.extend(record.doubts.iter().map(|doubt| format!("To doubt: {}: {doubt}", doubt.kind().name())));
    let mut pieces = vec![Piece::Heading("The trial that ended last".to_owned()), Piece::Lines(lines)];
    pieces.extend(budget::pieces(record));
    pieces
}

/// What each configuration's repeats came to; of the latest, how its interval narrows.
fn known(watched: &Watched) -> Vec<Piece> {
    let row = |(words, all): &(String, Vec<IntervalUpdate>)| {
        let newest = all.last()?;
        let metric = Metric::find(&newest.metric)?;
        let value = |value: f64| Cell::number(value * metric.unit.scale(), 4);
        let width = newest.interval.map(|(low, high)| {
            let away = (high - newest.median).max(newest.median - low);
            Cell::number(away / newest.median.abs() * 100.0, 3)
        });
        Some(vec![
            Cell::long(words),
            Cell::text(&metric.title),
            Cell::count(newest.repeats as u64),
            value(newest.median),
            newest.interval.map(|(low, _)| value(low)).into(),
            newest.interval.map(|(_, high)| value(high)).into(),
            width.into(),
            Cell::text(metric.unit.name()),
        ])
    };
    let rows: Vec<Vec<Cell>> = watched.narrowed.values().filter_map(row).take(CONFIGURATIONS).collect();
    if rows.is_empty() {
        return Vec::new();
    }
    let titles = ["configuration", "figure", "repeats", "median", "95 % from", "to", "median ±\n%", "unit"];
    let mut pieces = vec![
        Piece::Heading("How well each configuration is known".to_owned()),
        Piece::Table(Table::new(titles, rows).filled()),
    ];
    let latest = watched.latest.and_then(|number| watched.narrowed.get(&number));
    pieces.extend(latest.and_then(narrowing).map(|chart| Piece::Chart(Box::new(chart))));
    pieces
}

fn narrowing((words, all): &(String, Vec<IntervalUpdate>)) -> Option<Chart> {
    let newest = all.last()?;
    let metric = Metric::find(&newest.metric)?;
    if all.len() < 3 {
        return None;
    }
    let scale = metric.unit.scale();
    let mut table = Numbers::new(["repeats", "median", "95 % from", "to"]);
    let (mut medians, mut spans) = (Vec::new(), Vec::new());
    let cell = |value: Option<f64>| match value {
        Some(value) => linerate_chart::Cell::number(figure(value, 4), value),
        None => linerate_chart::Cell::from("-"),
    };
    for one in all {
        let (x, median) = (one.repeats as f64, one.median * scale);
        let interval = one.interval.map(|(low, high)| (low * scale, high * scale));
        medians.push((x, Some(median)));
        spans.push(Span { x, range: interval });
        let ends = [cell(Some(median)), cell(interval.map(|ends| ends.0)), cell(interval.map(|ends| ends.1))];
        table = table.row(std::iter::once(linerate_chart::Cell::number(one.repeats.to_string(), x)).chain(ends));
    }
    let sentence = match newest.interval {
        None => "Too few repeats for an interval.".to_owned(),
        Some((low, high)) => format!(
            "After {} repeats the median lies between {} and {} {}, at 95 %.",
            newest.repeats,
            figure(low * scale, 4),
            figure(high * scale, 4),
            metric.unit.name()
        ),
    };
    let panel = Panel::new(Axis::linear(metric.title.clone(), metric.unit.name()).without_zero())
        .series(Series::new("95 % interval", Marks::Band(spans), 0))
        .series(Series::new("median", Marks::line(medians), 0));
    let title = format!("How {} narrows: {words}", metric.title);
    Some(Chart::new(title, sentence, table).x(Axis::whole("repeats")).panel(panel))
}

fn ended(watched: &Watched) -> Vec<Piece> {
    let rows = watched.ended.iter().rev().take(TRIALS).map(|trial| {
        let record = &trial.record;
        let what = if record.error.is_some() { Value::Failed.into() } else { Cell::long(brief::line(record)) };
        let kinds: BTreeSet<&str> = record.doubts.iter().map(|doubt| doubt.kind().name()).collect();
        let doubted = kinds.into_iter().collect::<Vec<_>>().join(", ");
        vec![
            Cell::count(trial.place as u64),
            Cell::text(record.id.get(..10).unwrap_or(&record.id)).linked(format!("/record/{}", record.id)),
            Cell::long(&trial.words),
            what,
            Cell::text(doubted),
        ]
    });
    let rows: Vec<Vec<Cell>> = rows.collect();
    let said: Vec<String> = watched.said.iter().rev().cloned().collect();
    let table = Table::new(["trial", "record", "configuration", "what came of it", "doubts"], rows).filled();
    let mut pieces = Piece::Table(table).under("Trials that ended, the newest first");
    pieces.extend(Piece::Lines(said).under("What was said, the newest first"));
    pieces
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_campaign_whose_process_failed_has_ended() {
        let mut watched = Watched::default();
        let now = |watched: &Watched| present(watched, Instant::now()).whole_text(80);
        assert_eq!(now(&watched).trim(), "The machines are being reached.");
        watched.broke_off("--precision: 'abc' is not allowed");
        assert_eq!(now(&watched).trim(), "It ended early: --precision: 'abc' is not allowed");
        assert_eq!(news(&watched), "It ended early: --precision: 'abc' is not allowed");
        // What it said itself stands.
        watched.broke_off("another");
        assert!(news(&watched).contains("--precision"));
    }

    #[test]
    fn a_trial_that_takes_longer_than_its_traffic() {
        let (mut watched, now) = (Watched::default(), Instant::now());
        let event = r#"{"event": "trial_began", "place": 1, "planned": 2, "words": "tcp-rr", "index": 0, "repeat": 0,
                        "configuration": 0, "expected_s": 3.0, "offered_bps": null, "left": null}"#;
        watched.hear(serde_json::from_str(event).unwrap(), now);
        let text = present(&watched, now + Duration::from_secs(4)).text(Some(80));
        assert!(text.contains("4 s have passed; its traffic takes 3.00 s."), "{text}");
    }
}
