//! What a campaign proved, beneath its table: expectations met or not, intervals narrow or not, A/A trials alike or not.
//! Judges nothing.

use linerate_results::figure::Metric;

use super::answer::Answer;
use super::forms::Piece;
use super::number::figure;
use super::table_model::{Cell, Table};
use crate::measure::precision::MedianSoFar;
use linerate_plan::{ExpectationResult, Precision};

/// What a campaign proved.
#[derive(Default)]
pub(crate) struct Proof {
    /// What was expected.
    pub(crate) expected: Vec<ExpectationResult>,
    /// What `--precision` came to.
    pub(crate) repeated: Option<(Precision, Vec<Repeated>)>,
    /// What the A/A trials say, in a sentence.
    pub(crate) pairs: Option<String>,
}

/// What became of one configuration.
pub(crate) struct Repeated {
    pub(crate) configuration: String,
    pub(crate) metric: &'static Metric,
    pub(crate) reached: Option<MedianSoFar>,
}

/// For people; `None` where nothing was to be proved.
pub(crate) fn answer(proof: &Proof) -> Option<Answer> {
    let mut pieces = Vec::new();
    if let Some((precision, repeated)) = &proof.repeated {
        pieces.extend(of_precision(*precision, repeated));
    }
    if let Some(pairs) = &proof.pairs {
        pieces.push(Piece::Heading(format!("A/A trials: {pairs}")));
    }
    if !proof.expected.is_empty() {
        pieces.extend(of_expectations(&proof.expected));
    }
    (!pieces.is_empty()).then_some(Answer::of(pieces))
}

fn of_precision(precision: Precision, repeated: &[Repeated]) -> [Piece; 3] {
    let goal = format!("{} %", (precision.part * 1e8).round() / 1e6);
    let rows = repeated.iter().map(|one| {
        let scale = one.metric.unit.scale();
        let reached = one.reached.as_ref();
        let between = |(low, high): (f64, f64)| format!("{} to {}", figure(low * scale, 4), figure(high * scale, 4));
        let verdict = match reached {
            None => "no: no trial has it",
            Some(reached) if reached.is_within(precision) => "yes",
            Some(_) => "no",
        };
        vec![
            Cell::long(&one.configuration),
            Cell::long(&one.metric.title),
            Cell::count(reached.map_or(0, |reached| reached.repeats as u64)),
            reached.map(|reached| Cell::number(reached.median * scale, 4)).into(),
            Cell::long(one.metric.unit.name()),
            reached.and_then(|reached| Some(Cell::numbers(between(reached.interval?)))).into(),
            reached.and_then(|reached| Some(Cell::numbers(format!("{} %", figure(reached.part()? * 100.0, 2))))).into(),
            Cell::long(verdict),
        ]
    });
    let titles = ["configuration", "metric", "repeats", "median", "unit", "95 % interval", "within", "narrow enough"];
    let table = Table::new(titles, rows);
    let is_narrow = |one: &&Repeated| one.reached.is_some_and(|reached| reached.is_within(precision));
    let (narrow, all) = (repeated.iter().filter(is_narrow).count(), repeated.len());
    let sentence = if narrow == all {
        format!("Every median is known to within {goal}.")
    } else {
        format!(
            "{} of {all} medians are not known to within {goal} after {} repeats at most; --max-repeats allows more, and \
             what makes them noisy is worth a look.",
            all - narrow,
            precision.max_repeats
        )
    };
    [
        Piece::Heading(format!("Repeated until the median is known to within {goal}")),
        Piece::Table(table),
        Piece::Lines(vec![sentence]),
    ]
}

fn of_expectations(expected: &[ExpectationResult]) -> [Piece; 3] {
    let rows = expected.iter().map(|met| {
        let unit = met.expectation.metric.unit;
        let verdict = match (met.is_met(), met.median) {
            (None, _) => "not measured",
            (Some(true), _) => "yes",
            (Some(false), None) => "NO: no trial has it",
            (Some(false), Some(_)) => "NO",
        };
        vec![
            Cell::long(met.expectation.to_string()),
            Cell::long(met.configuration.as_deref().unwrap_or_default()),
            Cell::count(met.repeats as u64),
            met.median.map(|median| Cell::number(median * unit.scale(), 4)).into(),
            Cell::long(unit.name()),
            Cell::long(verdict),
        ]
    });
    let table = Table::new(["expectation", "configuration", "runs", "median", "unit", "met"], rows);
    let count = |wanted| expected.iter().filter(|met| met.is_met() == wanted).count();
    let (met, not, absent) = (count(Some(true)), count(Some(false)), count(None));
    let judged = met + not;
    let mut sentence = match (not, judged) {
        (_, 0) => "No expectation could be judged.".to_owned(),
        (0, 1) => "The expectation is met.".to_owned(),
        (1, 1) => "The expectation is not met.".to_owned(),
        (0, _) => format!("All {judged} expectations are met."),
        (_, _) => format!("{not} of {judged} expectations {} not met.", if not == 1 { "is" } else { "are" }),
    };
    if absent > 0 {
        sentence += &format!(" {absent} more: this run does not measure what they are of.");
    }
    [
        Piece::Heading("Expected of the median of each configuration's repeats".to_owned()),
        Piece::Table(table),
        Piece::Lines(vec![sentence]),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_plan::expectation;

    #[test]
    fn everything_that_can_be_proved() {
        let met = |text: &str, of: Option<&str>, median: Option<f64>| ExpectationResult {
            expectation: expectation(text).unwrap(),
            configuration: of.map(str::to_owned),
            repeats: if median.is_some() { 10 } else { 0 },
            median,
        };
        let metric = Metric::find("throughput").unwrap();
        let repeated = |name: &str, reached| Repeated { configuration: name.to_owned(), metric, reached };
        let reached = |repeats, low: f64, high: f64| {
            Some(MedianSoFar { repeats, median: 941e6, interval: Some((low * 1e6, high * 1e6)) })
        };
        let proof = Proof {
            expected: vec![
                met("throughput > 900M", Some("tcp-stream direction=tx"), Some(941e6)),
                met("throughput > 900M", Some("tcp-stream direction=rx"), Some(871.3e6)),
                met("loss < 0.1%", Some("tcp-stream direction=tx"), None),
                met("loss < 0.1% with rate=3M", None, None),
            ],
            repeated: Some((
                Precision { part: 0.01, max_repeats: 30 },
                vec![
                    repeated("tcp-stream direction=tx", reached(8, 940.2, 942.0)),
                    repeated("tcp-stream direction=rx", reached(30, 860.0, 990.0)),
                    repeated("tcp-stream direction=both", None),
                ],
            )),
            pairs: Some("no difference between the two sides in 4 judgements.".to_owned()),
        };
        let shown = answer(&proof).unwrap();
        insta::assert_snapshot!(format!("{}\n{}", shown.text(None), shown.markdown()));
        assert!(answer(&Proof::default()).is_none());
    }
}
