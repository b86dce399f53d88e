//! A metric over campaigns as people and programs read it.
//! Finds no changes; it shows them.

#[cfg(feature = "web")]
use linerate_chart::{Axis, Chart, Marks, Panel, Reference, Series as ChartSeries};
use linerate_results::figure::{Difference, Metric};
use linerate_results::history::{ChangePoint, Series};
use linerate_stats::median;

use super::answer::Answer;
use super::csv::{self, Column, field};
use super::forms::Piece;
use super::json;
use super::number::{figure, second};
use super::table_model::{Cell, Table};

/// Bars of a small picture, from the least to the most.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const PICTURE: usize = 40;

/// For a browser: the picture first.
#[cfg(feature = "web")]
pub(crate) fn pictured(metric: &Metric, series: &[Series]) -> Answer {
    let picture = drawn(metric, series).map(|chart| Piece::Chart(Box::new(chart)));
    Answer::of(picture.into_iter().collect()).followed_by(answer(metric, series))
}

/// The most configurations in one picture.
#[cfg(feature = "web")]
const LINES: usize = 6;

/// The medians of campaigns from the oldest to the newest, with the changes marked.
#[cfg(feature = "web")]
fn drawn(metric: &Metric, series: &[Series]) -> Option<Chart> {
    let moments = || series.iter().flat_map(|one| &one.moments);
    let mut campaigns: Vec<(&str, &str)> =
        moments().map(|moment| (moment.campaign.as_str(), moment.started_at.as_str())).collect();
    campaigns.sort_unstable();
    campaigns.dedup_by_key(|(campaign, _)| *campaign);
    if campaigns.len() < 2 {
        return None;
    }
    let place = |campaign: &str| campaigns.partition_point(|(other, _)| *other < campaign);
    let (scale, unit) = (metric.unit.scale(), metric.unit.name());
    let mut head = vec!["campaign".to_owned(), "started".to_owned()];
    let mut rows: Vec<Vec<linerate_chart::Cell>> =
        campaigns.iter().map(|(campaign, started_at)| vec![(*campaign).into(), second(started_at).into()]).collect();
    let mut panel = Panel::new(Axis::linear(metric.title.clone(), unit).without_zero());
    for (number, one) in series.iter().take(LINES).enumerate() {
        let name = if one.configuration.is_empty() { "median" } else { &one.configuration };
        head.push(if unit.is_empty() { name.to_owned() } else { format!("{name}, {unit}") });
        rows.iter_mut().for_each(|row| row.push("-".into()));
        let mut points = Vec::new();
        for moment in &one.moments {
            let (at, value) = (place(&moment.campaign), moment.median * scale);
            points.push((at as f64 + 1.0, Some(value)));
            rows[at][number + 2] = linerate_chart::Cell::number(figure(value, 4), value);
        }
        let name = if one.configuration.is_empty() { "all" } else { &one.configuration };
        panel = panel.series(ChartSeries::new(name, Marks::line(points), number));
        for change in &one.changes {
            let what = format!("{} {}{}", judged(metric, change), size(metric, change), time_taken(change));
            panel = panel.reference(Reference::X(place(&change.campaign) as f64 + 1.0, what));
        }
    }
    rows.retain(|row| row.iter().any(|cell| cell.value.is_some()));
    let table = rows.into_iter().fold(linerate_chart::Table::new(head), linerate_chart::Table::row);
    let left_out = series.len().saturating_sub(LINES);
    let changes: usize = series.iter().map(|one| one.changes.len()).sum();
    let among = format!("among {} campaigns", campaigns.len());
    let found = match changes {
        0 => none_found(series),
        1 => format!("One change point {among}"),
        many => format!("{many} change points {among}"),
    };
    let more =
        if left_out > 0 { format!("; {left_out} configurations more stand in the table only") } else { String::new() };
    let sentence = format!("{found}{more}.");
    let title = format!("{}, medians of campaigns", metric.title);
    Some(Chart::new(title, sentence, table).x(Axis::whole("campaign")).panel(panel))
}

/// One object, figures in the record's units.
pub(crate) fn json(metric: &Metric, series: &[Series]) -> String {
    let value = serde_json::json!({"format": "linerate.history/1", "metric": metric.name, "series": series});
    json::line(value)
}

/// A line for each campaign of each configuration, figures in the record's unit.
pub(crate) fn csv(metric: &Metric, series: &[Series]) -> String {
    let columns: [Column<(&Metric, &Series, usize)>; 7] = [
        ("configuration", |(_, series, _)| field(&series.configuration)),
        ("campaign", |(_, series, at)| field(&series.moments[*at].campaign)),
        ("started_at", |(_, series, at)| field(&series.moments[*at].started_at)),
        ("metric", |(metric, ..)| field(&metric.name)),
        ("count", |(_, series, at)| field(series.moments[*at].count)),
        ("median", |(_, series, at)| field(series.moments[*at].median)),
        ("change", |(metric, series, at)| field(judged(metric, series.changes.iter().find(|one| one.at == *at)?))),
    ];
    let rows = series.iter().flat_map(|one| (0..one.moments.len()).map(move |at| (metric, one, at)));
    csv::table(&columns, rows)
}

/// For people.
pub(crate) fn answer(metric: &Metric, series: &[Series]) -> Answer {
    let value = |value: f64| Cell::number(value * metric.unit.scale(), 4);
    let rows = series.iter().map(|one| {
        let medians: Vec<f64> = one.moments.iter().map(|moment| moment.median).collect();
        let ends = |pick: fn(f64, f64) -> f64| medians.iter().copied().reduce(pick).map(value).into();
        vec![
            named(&one.configuration),
            Cell::count(medians.len() as u64),
            ends(f64::min),
            median(&medians).map(value).into(),
            ends(f64::max),
            medians.last().copied().map(value).into(),
            Cell::long(picture(&medians)),
        ]
    });
    let titles = ["configuration", "campaigns", "least", "median", "most", "latest", "oldest to latest"];
    let mut pieces = vec![
        Piece::Heading(format!("{}, {}: medians of campaigns", metric.title, metric.unit.name())),
        Piece::Table(Table::new(titles, rows)),
    ];
    let changes = series.iter().flat_map(|one| one.changes.iter().map(move |change| (one, change)));
    let rows: Vec<Vec<Cell>> = changes
        .map(|(one, change)| {
            vec![
                named(&one.configuration),
                Cell::long(&change.campaign),
                Cell::long(second(&change.started_at)),
                value(change.before),
                value(change.after),
                Cell::numbers(size(metric, change)),
                Cell::long(format!("{}{}", judged(metric, change), time_taken(change))),
                Cell::long(with(change)),
            ]
        })
        .collect();
    if rows.is_empty() {
        pieces.push(Piece::Lines(vec![format!("{}.", none_found(series))]));
        return Answer::of(pieces);
    }
    let titles =
        ["configuration", "from campaign", "of", "before", "after", "change", "verdict", "what else changed there"];
    pieces.push(Piece::Heading("Change points".to_owned()));
    pieces.push(Piece::Table(Table::new(titles, rows).sparing(&["of", "verdict"])));
    Answer::of(pieces)
}

/// That no campaign changed anything, or that there are too few to say so.
fn none_found(series: &[Series]) -> String {
    let few = series.iter().filter_map(|one| one.campaigns_needed);
    match (few.clone().count(), few.max()) {
        (count, Some(needed)) if count == series.len() => {
            format!("Too few campaigns to find a change: {needed} are needed")
        }
        (_, Some(needed)) => format!("No change points; with fewer than {needed} campaigns none can be found"),
        _ => "No change points".to_owned(),
    }
}

fn named(configuration: &str) -> Cell {
    Cell::long(if configuration.is_empty() { "all" } else { configuration })
}

fn judged(metric: &Metric, change: &ChangePoint) -> &'static str {
    metric.compared.words[usize::from(!metric.improves(change.after - change.before))]
}

/// Of a drift, how many campaigns it took.
fn time_taken(change: &ChangePoint) -> String {
    if change.over > 1 { format!(" over {} campaigns", change.over) } else { String::new() }
}

fn size(metric: &Metric, change: &ChangePoint) -> String {
    let shift = change.after - change.before;
    let sign = if shift > 0.0 { "+" } else { "" };
    match metric.compared.difference {
        Difference::Relative if change.before != 0.0 => {
            format!("{sign}{} %", figure(shift / change.before.abs() * 100.0, 3))
        }
        _ => format!("{sign}{}", figure(shift * metric.unit.scale(), 3)),
    }
}

/// The first few facts that changed with it.
fn with(change: &ChangePoint) -> String {
    let told = change.with.iter().take(3).map(|(name, before, after)| format!("{name}: {before} → {after}"));
    let more = change.with.len().saturating_sub(3);
    let rest = if more > 0 { format!("; and {more} more") } else { String::new() };
    format!("{}{rest}", told.collect::<Vec<_>>().join("; "))
}

/// The values as bars; of many, the medians of as many stretches as there is room for.
fn picture(values: &[f64]) -> String {
    let columns = values.len().min(PICTURE);
    let stretch = |column: usize| &values[column * values.len() / columns..(column + 1) * values.len() / columns];
    let drawn: Vec<f64> = (0..columns).filter_map(|column| median(stretch(column))).collect();
    let (low, high) = drawn.iter().fold((f64::MAX, f64::MIN), |(low, high), &value| (low.min(value), high.max(value)));
    let bar = |value: f64| {
        let height = if high > low { (value - low) / (high - low) } else { 0.5 };
        BARS[((height * BARS.len() as f64) as usize).min(BARS.len() - 1)]
    };
    drawn.into_iter().map(bar).collect()
}

#[cfg(test)]
mod tests {
    use linerate_machine::end::Direction;
    use linerate_results::history::history;
    use linerate_results::observation::Observation;
    use linerate_results::sample;
    use linerate_results::store::Point;

    use super::*;

    /// Thirty campaigns in both directions; in one direction the twentieth brought another kernel, and slower.
    fn found() -> Vec<Series> {
        let mut points = Vec::new();
        for campaign in 0..30_u32 {
            for (index, direction) in [(0, Direction::Tx), (1, Direction::Rx)] {
                let slower = if campaign >= 19 && index == 1 { 40.0 } else { 0.0 };
                let spike = if campaign == 9 { 300.0 } else { 0.0 };
                let mbit = 900.0 - slower - spike + f64::from(campaign * 7 % 5);
                let mut record = sample::tcp(index, direction, mbit, false);
                record.target.environment.kernel = Some(if campaign >= 19 { "6.12.60" } else { "6.12.48" }.to_owned());
                points.push(Point {
                    campaign: format!("{campaign:026}").into(),
                    started_at: format!("2026-11-{:02}T03:00:00Z", campaign + 1),
                    around: Observation::of(&record).around,
                    value: mbit * 1e6,
                });
            }
        }
        history(&points, 1000)
    }

    #[test]
    fn a_change_among_campaigns() {
        let metric = Metric::find("throughput").unwrap();
        insta::assert_snapshot!(answer(metric, &found()).text(None));
        insta::assert_snapshot!("ready_to_paste", answer(metric, &found()).markdown());
    }

    #[test]
    fn a_drift_says_how_long_it_takes() {
        let metric = Metric::find("throughput").unwrap();
        let mut series = found();
        let change = series.iter_mut().find_map(|one| one.changes.first_mut()).unwrap();
        assert_eq!((change.over, time_taken(change)), (1, String::new()));
        change.over = 11;
        assert!(answer(metric, &series).text(None).contains(" slower over 11 campaigns "));
    }

    #[test]
    fn too_few_campaigns_are_said_to_be() {
        let metric = Metric::find("throughput").unwrap();
        let mut series = found();
        series.remove(0);
        series[0].changes.clear();
        let told = |series: &[Series]| {
            answer(metric, series).text(None).trim_end().lines().last().unwrap_or_default().to_owned()
        };
        assert_eq!(told(&series), "No change points.");
        let few = Series { campaigns_needed: Some(12), ..series[0].clone() };
        assert_eq!(told(std::slice::from_ref(&few)), "Too few campaigns to find a change: 12 are needed.");
        let json: serde_json::Value = serde_json::from_str(&json(metric, std::slice::from_ref(&few))).unwrap();
        assert_eq!(json["series"][0]["campaigns_needed"], 12);
        series.push(few);
        assert_eq!(told(&series), "No change points; with fewer than 12 campaigns none can be found.");
    }

    #[test]
    fn for_programs() {
        let metric = Metric::find("throughput").unwrap();
        let text = csv(metric, &found());
        assert_eq!(text.lines().count(), 61);
        assert_eq!(text.matches(",slower").count(), 1, "{text}");
        let json: serde_json::Value = serde_json::from_str(&json(metric, &found())).unwrap();
        assert_eq!(json["series"][0]["changes"][0]["campaign"], "00000000000000000000000019", "{json}");
    }

    #[test]
    fn pictures() {
        assert_eq!(picture(&[1.0, 2.0, 3.0]), "▁▅█");
        assert_eq!(picture(&[5.0, 5.0]), "▅▅");
        assert_eq!(picture(&[]), "");
        assert_eq!(picture(&[1.0; 1000]).chars().count(), PICTURE);
    }
}
