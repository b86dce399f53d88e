//! A comparison as people and programs read it: first what differs around the two sides, then their figures.
//! Judges nothing.

use std::collections::BTreeMap;

use linerate_results::compare::gate::{Gate, Outcome};
use linerate_results::compare::verdict::Verdict;
use linerate_results::compare::{Comparison, FailedTrials, Judged, ShiftEstimate, Side, Summary};
use linerate_results::figure::{Difference, Metric, Unit};

use super::cases::of_configuration;
use super::csv::{self, Column, field};
use super::forms::{self, Piece};
use super::json;
use super::number::{counted, figure, second};
use super::table_model::{Cell, Footnotes, Table, Trace};

/// A comparison, and what the user called its sides.
pub(crate) struct ComparisonView<'a> {
    pub(crate) comparison: &'a Comparison,
    pub(crate) names: [String; 2],
    pub(crate) gates: &'a [Gate],
}

/// A terminal of fewer columns would show a verdict's sentence a word or two on each line.
const ROOM_FOR_SENTENCES: u16 = 100;

/// For a terminal of this width.
pub(crate) fn text(shown: &ComparisonView<'_>, width: Option<u16>) -> String {
    let mut pieces = pieces_in(shown, width.is_some_and(|width| width < ROOM_FOR_SENTENCES));
    for piece in &mut pieces {
        if let Piece::Table(table) = piece
            && table.headings[0].name == CONFIGURATION
        {
            table.title_by_first();
        }
    }
    forms::text(&pieces, width)
}

/// Ready to paste.
pub(crate) fn markdown(shown: &ComparisonView<'_>) -> String {
    forms::markdown(&pieces(shown))
}

/// One object.
pub(crate) fn json(shown: &ComparisonView<'_>) -> String {
    let mut value = serde_json::to_value(shown.comparison).unwrap_or_default();
    let gates: Vec<_> = shown
        .gates
        .iter()
        .map(|gate| serde_json::json!({"gate": gate.to_string(), "outcome": outcome(gate.of(shown.comparison))}))
        .collect();
    if let Some(object) = value.as_object_mut() {
        object.insert("format".to_owned(), "linerate.comparison/1".into());
        object.insert("gates".to_owned(), gates.into());
    }
    for (side, name) in ["baseline", "candidate"].into_iter().zip(&shown.names) {
        value[side]["asked"] = name.as_str().into();
    }
    json::line(value)
}

/// A line for each judgement, figures in the record's units.
pub(crate) fn csv(shown: &ComparisonView<'_>) -> String {
    csv::table(&CSV, &shown.comparison.judged)
}

/// All that is no judgement, for people beside the lines of [`csv`].
pub(crate) fn around(shown: &ComparisonView<'_>, width: Option<u16>) -> String {
    let mut pieces = surroundings(shown);
    pieces.push(Piece::Lines(notes(shown)));
    forms::text(&pieces, width)
}

/// The column of what the rows of several metrics are about.
const CONFIGURATION: &str = "configuration";

const CSV: [Column<Judged>; 18] = [
    ("configuration", |j| field(&j.configuration)),
    ("metric", |j| field(&j.metric.name)),
    ("baseline_count", |j| field(j.baseline.count)),
    ("baseline_median", |j| field(j.baseline.median?)),
    ("candidate_count", |j| field(j.candidate.count)),
    ("candidate_median", |j| field(j.candidate.median?)),
    ("shift", |j| field(j.found?.shift)),
    ("shift_low", |j| field(j.found?.interval?.0)),
    ("shift_high", |j| field(j.found?.interval?.1)),
    ("relative", |j| field(j.found?.relative?)),
    ("relative_low", |j| field(j.found?.relative_interval?.0)),
    ("relative_high", |j| field(j.found?.relative_interval?.1)),
    ("p", |j| field(j.found?.p)),
    ("p_corrected", |j| field(j.found?.p_corrected)),
    ("paired", |j| field(j.found?.paired)),
    ("detectable", |j| field(j.found?.detectable?)),
    ("verdict", |j| Some(j.verdict.words(j.metric))),
    ("doubts", |j| Some(j.doubts.join("; "))),
];

pub(super) fn pieces(shown: &ComparisonView<'_>) -> Vec<Piece> {
    pieces_in(shown, false)
}

/// What verdicts in few words mean: where repeats are too few, and where there are none.
pub(super) const SHORT: [&str; 2] = [
    "N more: it needs about so many more repeats of each side to tell.",
    "Without repeats nothing can be told: measure with --repeat.",
];

/// `is_short`: verdicts have few words, and a line below says what they mean.
fn pieces_in(shown: &ComparisonView<'_>, is_short: bool) -> Vec<Piece> {
    let mut pieces = surroundings(shown);
    let mut footnotes = Footnotes::default();
    pieces.push(Piece::Heading("Figures: medians, shift with its 95 % interval, and verdict".to_owned()));
    pieces.push(figures(shown.comparison, &mut footnotes, is_short));
    let mut lines = footnotes.lines();
    if is_short {
        let of = |judged: &Judged| match judged.verdict {
            Verdict::CannotTell { more } => Some(more.is_some()),
            _ => None,
        };
        let is_any = |wanted| shown.comparison.judged.iter().any(|judged| of(judged) == Some(wanted));
        let said = [true, false].into_iter().zip(SHORT).filter(|(wanted, _)| is_any(*wanted));
        lines.extend(said.map(|(_, sentence)| sentence.to_owned()));
    }
    lines.extend(notes(shown));
    pieces.push(Piece::Lines(lines));
    pieces
}

/// What the sides are, and what differs around them.
fn surroundings(shown: &ComparisonView<'_>) -> Vec<Piece> {
    let ComparisonView { comparison, names, .. } = shown;
    let mut pieces = vec![Piece::Lines(vec![
        format!("baseline: {}", side(&names[0], &comparison.baseline)),
        format!("candidate: {}", side(&names[1], &comparison.candidate)),
    ])];
    if comparison.differs.is_empty() {
        pieces.push(Piece::Heading("Nothing that is recorded differs between the two sides.".to_owned()));
    } else {
        pieces.push(Piece::Heading("What differs around the two sides".to_owned()));
        let rows = comparison.differs.iter().map(|differs| {
            let purpose = if differs.on_purpose { " (compared)" } else { "" };
            let sides = [&differs.baseline, &differs.candidate].map(|side| Cell::long(several(side)));
            [vec![Cell::long(format!("{}{purpose}", differs.name))], sides.to_vec()].concat()
        });
        pieces.push(Piece::Table(Table::new(["name", "baseline", "candidate"], rows)));
    }
    pieces
}

/// What is to be said beneath the figures.
fn notes(shown: &ComparisonView<'_>) -> Vec<String> {
    let ComparisonView { comparison, gates, .. } = shown;
    let mut notes = vec![summary(comparison)];
    notes.extend(comparison.judged.iter().any(is_of_runs).then(|| {
        "A shift is the median of the differences between single runs, and need not be the difference of the two medians."
            .to_owned()
    }));
    notes.extend(comparison.notes.iter().cloned());
    notes.extend(doubts(comparison));
    notes.extend(unmatched(comparison));
    let all = |failed: &&FailedTrials| failed.failed == failed.trials;
    notes.extend(comparison.failed.iter().filter(all).map(|failed| format!("{}.", of_configuration(failed))));
    notes.extend(gates.iter().map(|gate| format!("Gate '{gate}': {}.", outcome(gate.of(comparison)))));
    notes
}

/// A verdict in few words.
fn short(verdict: &Verdict, metric: &Metric) -> String {
    match verdict {
        Verdict::CannotTell { more: None } => "cannot tell".to_owned(),
        Verdict::CannotTell { more: Some(more @ ..=999) } => format!("cannot tell: {more} more"),
        Verdict::CannotTell { .. } => "cannot tell: > 1,000 more".to_owned(),
        verdict => verdict.words(metric),
    }
}

fn figures(comparison: &Comparison, footnotes: &mut Footnotes, is_short: bool) -> Piece {
    let mut before = "";
    let rows = comparison.judged.iter().map(|judged| {
        let same = before == judged.configuration;
        before = &judged.configuration;
        let (verdict, why) = match &judged.verdict {
            Verdict::NotComparable { why } => ("not comparable".to_owned(), Some(why)),
            verdict if is_short => (short(verdict, judged.metric), None),
            verdict => (verdict.words(judged.metric), None),
        };
        let marks = footnotes.marks(why.into_iter().chain(&judged.doubts));
        let configuration = Cell::long(if same { "" } else { before });
        [vec![configuration], cells(judged), vec![Cell::long(verdict).marked(marks)]].concat()
    });
    let titles = [
        CONFIGURATION,
        "metric",
        "unit",
        "runs",
        "baseline",
        "candidate",
        "shift",
        "difference",
        "p",
        "could show",
        "verdict",
    ];
    // Of one configuration there is no name.
    let is_bare = comparison.judged.iter().all(|judged| judged.configuration.is_empty());
    let mut table = Table::new(titles, rows).sparing(&["shift", "could show", "runs"]).sparing_for_sentences("p");
    if is_bare {
        table.remove(0);
    }
    Piece::Table(table)
}

fn cells(judged: &Judged) -> Vec<Cell> {
    let (metric, found) = (judged.metric, judged.found);
    let value = |side: &Summary| {
        let trace = |value| Trace { value, figure: metric.name.clone(), records: side.records.to_vec() };
        side.median.map(|value| Cell::number(value * metric.unit.scale(), 4).traced(trace(value))).into()
    };
    let trace = |value, what| {
        let records = [&judged.baseline, &judged.candidate].into_iter().flat_map(|side| side.records.iter().cloned());
        Trace { value, figure: format!("{}.{what}", metric.name), records: records.collect() }
    };
    let runs = match (judged.baseline.count, judged.candidate.count) {
        (a, b) if a == b => a.to_string(),
        (a, b) => format!("{a}, {b}"),
    };
    let interval = |estimate: f64, ends: Option<(f64, f64)>, scale: f64, unit: &str| {
        let ends = ends.map(|(low, high)| format!(" [{}, {}]", plus(low * scale), plus(high * scale)));
        Cell::numbers(format!("{}{unit}{}", plus(estimate * scale), ends.unwrap_or_default()))
    };
    let relative = found.filter(|_| metric.compared.difference == Difference::Relative);
    let relative = relative.and_then(|found| {
        let cell = interval(found.relative?, found.relative_interval, 100.0, " %");
        Some(cell.traced(trace(found.relative?, "relative")))
    });
    // Among parts of the baseline, what is none has its unit.
    let unit = match metric.compared.difference {
        Difference::Relative => format!(" {}", metric.unit.name()),
        Difference::Absolute => String::new(),
    };
    // The interval stands once, beside what people read first.
    let absolute = |found: ShiftEstimate| {
        interval(found.shift, found.interval, metric.unit.scale(), &unit).traced(trace(found.shift, "shift"))
    };
    let difference = relative.or_else(|| found.map(absolute));
    vec![
        Cell::text(&metric.title),
        Cell::text(metric.unit.name()),
        Cell::numbers(runs),
        value(&judged.baseline),
        value(&judged.candidate),
        found
            .map(|found| interval(found.shift, None, metric.unit.scale(), "").traced(trace(found.shift, "shift")))
            .into(),
        difference.into(),
        found.map(|found| Cell::numbers(probability(found.p_corrected))).into(),
        found.map(|found| Cell::numbers(could_show(metric, &found))).into(),
    ]
}

/// Whether the shift is visibly not the difference of the medians beside it.
fn is_of_runs(judged: &Judged) -> bool {
    let medians = judged.baseline.median.zip(judged.candidate.median);
    let Some((found, (baseline, candidate))) = judged.found.zip(medians) else { return false };
    (candidate - baseline - found.shift).abs() > 0.001 * baseline.abs().max(candidate.abs())
}

fn could_show(metric: &Metric, found: &ShiftEstimate) -> String {
    let Some(shift) = found.detectable_shift else { return "nothing".to_owned() };
    match (metric.compared.difference, found.detectable) {
        (Difference::Relative, Some(part)) => format!("{} %", figure(part * 100.0, 2)),
        (Difference::Absolute, _) if metric.unit == Unit::Share => format!("{} points", figure(shift * 100.0, 2)),
        // Of a baseline of 0 there is no part.
        _ => format!("{} {}", figure(shift * metric.unit.scale(), 2), metric.unit.name()),
    }
}

/// A number with its sign, three digits.
fn plus(value: f64) -> String {
    let text = figure(value, 3);
    if value > 0.0 { format!("+{text}") } else { text }
}

fn probability(p: f64) -> String {
    match p {
        p if p < 0.001 => "< 0.001".to_owned(),
        p if p >= 0.9995 => "1".to_owned(),
        p => format!("{p:.3}"),
    }
}

/// Up to four values; a state that varied more is only counted.
fn several(values: &[String]) -> String {
    let short = |text: &String| match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.clone(),
    };
    match values {
        [] => "unknown".to_owned(),
        [..] if values.len() > 4 => format!("{} different values", values.len()),
        values => values.iter().map(short).collect::<Vec<_>>().join(", "),
    }
}

fn side(name: &str, side: &Side) -> String {
    let campaigns = match &side.campaigns[..] {
        [one] => format!("campaign {one}"),
        campaigns => counted(campaigns.len(), "campaign"),
    };
    let failed = if side.failed > 0 { format!(", {} failed", counted(side.failed, "trial")) } else { String::new() };
    let [first, last] = [&side.first, &side.last].map(|time| time.as_deref().map(second).unwrap_or_default());
    let times = if first == last { first } else { format!("{first} to {last}") };
    format!("{name} ({}{failed}, {campaigns}, {times} UTC)", counted(side.records, "record"))
}

/// How the judgements came out, in one sentence, and what p is.
pub(super) fn summary(comparison: &Comparison) -> String {
    let mut counts: BTreeMap<(u8, String), usize> = BTreeMap::new();
    for judged in &comparison.judged {
        let kind = match &judged.verdict {
            Verdict::Better | Verdict::Worse => (0, judged.verdict.words(judged.metric)),
            Verdict::Same { .. } => (1, "the same".to_owned()),
            Verdict::CannotTell { .. } => (2, "cannot tell".to_owned()),
            Verdict::NotComparable { .. } => (3, "not comparable".to_owned()),
        };
        *counts.entry(kind).or_default() += 1;
    }
    if counts.is_empty() {
        return "No verdict: there is no configuration of which both sides have a figure.".to_owned();
    }
    let counts: Vec<String> = counts.into_iter().map(|((_, words), count)| format!("{count} {words}")).collect();
    let among = if comparison.family > 1 {
        format!(" p is corrected for {} judgements at once (Holm).", comparison.family)
    } else {
        String::new()
    };
    format!("Verdicts: {}.{among}", counts.join(", "))
}

/// The doubts that the records carry, in one sentence.
fn doubts(comparison: &Comparison) -> Option<String> {
    let [baseline, candidate] = [comparison.baseline.records, comparison.candidate.records];
    let told = comparison.doubts.iter().map(|doubt| {
        format!("{} in {} of {baseline} and {} of {candidate}", doubt.kind, doubt.baseline, doubt.candidate)
    });
    let told = told.collect::<Vec<_>>().join(", ");
    (!told.is_empty()).then(|| {
        format!("Doubts, in records of baseline and candidate: {told}. 'linerate records show' has the sentences.")
    })
}

fn unmatched(comparison: &Comparison) -> Option<String> {
    let (whose, first) = comparison.unmatched.first()?;
    let more = comparison.unmatched.len() - 1;
    let others = if more > 0 { format!(", and {more} more that one side lacks") } else { String::new() };
    Some(format!("Not compared: only the {whose} has {first}{others}."))
}

fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Passed => "passed",
        Outcome::Unknown => "cannot tell",
        Outcome::Failed => "failed",
    }
}

#[cfg(test)]
mod tests {
    use linerate_machine::end::Direction;
    use linerate_results::compare::{CompareOptions, compare};
    use linerate_results::observation::Observation;
    use linerate_results::sample;

    use super::*;

    /// Two levels of a factor in one campaign, in turns; the second is faster, and its governor is another one.
    fn comparison(change: impl Fn(&mut linerate_results::record::Record)) -> Comparison {
        let (mut baseline, mut candidate) = (Vec::new(), Vec::new());
        for repeat in 0..8_u32 {
            for (level, side) in [("1500", &mut baseline), ("9000", &mut candidate)] {
                let wobble = f64::from(repeat * 5 % 7);
                let is_large = level == "9000";
                let mut record = sample::tcp(2 * repeat + u32::from(is_large), Direction::Rx, 900.0 + wobble, false);
                record.trial.repeat = repeat;
                record.trial.factors.insert("target.mtu".to_owned(), level.to_owned());
                record.target.environment.nic.as_mut().unwrap().mtu = level.parse().ok();
                if is_large {
                    record.target.environment.cpu.governor = Some("powersave".to_owned());
                    let result = record.result.as_mut().unwrap();
                    result.flow.throughput_bps = result.flow.throughput_bps.map(|bps| bps * 1.04);
                    change(&mut record);
                }
                side.push(Observation::of(&record));
            }
        }
        let options = CompareOptions { compared: vec!["target.mtu".to_owned()], ..CompareOptions::default() };
        compare(&baseline.iter().collect::<Vec<_>>(), &candidate.iter().collect::<Vec<_>>(), &options)
    }

    fn shown(comparison: &Comparison, draw: impl Fn(&ComparisonView<'_>) -> String) -> String {
        let names = ["last:target.mtu=1500".to_owned(), "last:target.mtu=9000".to_owned()];
        let gates = ["throughput worse 3%".parse().unwrap()];
        draw(&ComparisonView { comparison, names, gates: &gates })
    }

    #[test]
    fn a_table_for_people() {
        let comparison = comparison(|_| {});
        insta::assert_snapshot!(shown(&comparison, |shown| text(shown, None)));
    }

    #[test]
    fn a_narrow_terminal() {
        let comparison = comparison(|_| {});
        let text = shown(&comparison, |shown| text(shown, Some(100)));
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    }

    #[test]
    fn a_verdict_in_80_columns_has_two_lines_at_most() {
        let of = |rates: [f64; 3]| rates.map(|rate| Observation::of(&sample::tcp(0, Direction::Rx, rate, false)));
        let (baseline, candidate) = (of([900.0, 1000.0, 950.0]), of([600.0, 700.0, 650.0]));
        let [baseline, candidate] = [&baseline, &candidate].map(|side| side.iter().collect::<Vec<_>>());
        let comparison = compare(&baseline, &candidate, &CompareOptions::default());
        let [narrow, wide] = [80, 120].map(|width| shown(&comparison, |shown| text(shown, Some(width))));
        assert!(narrow.contains("N more: ") && narrow.contains("cannot tell: 2 more"), "{narrow}");
        assert!(wide.contains("cannot tell: needs about 2 more repeats") && !wide.contains("N more: "), "{wide}");
        let is_continued = |line: &str| line.starts_with(&" ".repeat(40));
        let lines: Vec<&str> = narrow.lines().collect();
        assert!(!lines.windows(2).any(|two| two.iter().all(|line| is_continued(line))), "{narrow}");
    }

    #[test]
    fn sides_without_a_figure_in_common() {
        let (tcp, rr) =
            (Observation::of(&sample::tcp(0, Direction::Rx, 900.0, false)), Observation::of(&sample::rr(0, "64")));
        let apart = compare(&[&tcp], &[&rr], &CompareOptions::default());
        assert!(summary(&apart).starts_with("No verdict: "), "{}", summary(&apart));
    }

    #[test]
    fn ready_to_paste() {
        let comparison = comparison(|_| {});
        insta::assert_snapshot!(shown(&comparison, markdown));
    }

    #[test]
    fn for_programs() {
        let comparison = comparison(|_| {});
        insta::assert_snapshot!("for_programs_csv", shown(&comparison, csv));
        let json: serde_json::Value = serde_json::from_str(&shown(&comparison, json)).unwrap();
        insta::assert_snapshot!("for_programs_json", serde_json::to_string_pretty(&json).unwrap());
    }

    #[test]
    fn of_a_baseline_of_0_what_could_show_has_a_unit() {
        let side = |mbit: f64| -> Vec<Observation> {
            let one = |repeat: u32| {
                let mut record = sample::tcp(repeat, Direction::Rx, mbit + f64::from(repeat % 3), false);
                record.trial.repeat = repeat;
                let flow = &mut record.result.as_mut().unwrap().flow;
                flow.throughput_bps = flow.throughput_bps.filter(|_| mbit > 0.0).or(Some(0.0));
                Observation::of(&record)
            };
            (0..8).map(one).collect()
        };
        let (baseline, candidate) = (side(0.0), side(48.0));
        let options =
            CompareOptions { metrics: vec![Metric::find("throughput").unwrap()], ..CompareOptions::default() };
        let comparison = compare(&baseline.iter().collect::<Vec<_>>(), &candidate.iter().collect::<Vec<_>>(), &options);
        let text = shown(&comparison, |shown| text(shown, None));
        assert!(
            text.contains("Mbit/s [+48.0") && text.contains(" Mbit/s  faster") && !text.contains("nothing"),
            "{text}"
        );
    }

    #[test]
    fn what_means_other_things_is_not_compared() {
        let comparison = comparison(|record| {
            record.target.cpu.as_mut().unwrap().method = "soak".to_owned();
            record.target.environment.nic.as_mut().unwrap().firmware = Some("\u{1b}[2J".to_owned());
        });
        let text = shown(&comparison, |shown| text(shown, None));
        assert!(text.contains("how CPU time is measured (target) is /proc/stat against soak"), "{text}");
        assert!(text.contains("not comparable [") && text.contains("faster [") && !text.contains('\u{1b}'), "{text}");
    }
}
