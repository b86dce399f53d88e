//! The trials that a run would measure, before it does: for people, for programs, and ready to paste.
//! Knows no machine and no plan; who made the matrix does.

use std::time::Duration;

use serde_json::{Value, json};

use super::answer::Answer;
use super::forms::Piece;
use super::table_model::{Cell, Table};
use super::{csv, json, sentence};
use linerate_plan::PlannedTrial;
use linerate_trial::spec::Spec;

/// Every trial in its order, and what it comes to.
pub(crate) struct Matrix<'a> {
    pub(crate) plan: &'a str,
    /// What the order was drawn from; `None` for the plan's order.
    pub(crate) order_seed: Option<u32>,
    pub(crate) trials: &'a [PlannedTrial],
    /// Trials that cannot be measured, by their index, and why.
    pub(crate) refused: &'a [(u32, String)],
    /// What it comes to, a sentence a line.
    pub(crate) conclusion: String,
    /// An estimate of all it takes; trials by bytes are not in it.
    pub(crate) time: Duration,
}

impl Matrix<'_> {
    fn refusal(&self, trial: &PlannedTrial) -> Option<&str> {
        self.refused.iter().find(|(index, _)| *index == trial.index).map(|(_, sentence)| sentence.as_str())
    }
}

/// A line for each trial, then what it comes to.
pub(crate) fn text(matrix: &Matrix<'_>) -> String {
    let wide = matrix.trials.len().to_string().len();
    let mut text = String::new();
    for trial in matrix.trials {
        let skipped = matrix.refusal(trial).map(|sentence| format!("  skipped: {sentence}")).unwrap_or_default();
        let side = trial.null_side.map(|side| format!(" side {}", side.name())).unwrap_or_default();
        let repeat = format!("repeat {}{side}", trial.repeat + 1);
        let line = format!("{:>wide$}  {repeat}  {}{skipped}", trial.index + 1, what(trial));
        text += &format!("{}\n", sentence(&line));
    }
    format!("{text}\n{}", matrix.conclusion)
}

/// A table of them, to paste and for a browser.
pub(crate) fn answer(matrix: &Matrix<'_>) -> Answer {
    let rows = matrix.trials.iter().map(|trial| {
        let [number, repeat, rest @ ..] = cells(matrix, trial);
        let words = rest.iter().map(Cell::long);
        [number, repeat].map(Cell::numbers).into_iter().chain(words).collect()
    });
    let table = Table::new(["trial", "repeat", "side", "measures", "skipped because"], rows);
    let conclusion = matrix.conclusion.lines().map(|line| line.trim().to_owned()).collect();
    Answer::of(vec![Piece::Table(table), Piece::Lines(conclusion)])
}

/// A line for each trial.
pub(crate) fn csv(matrix: &Matrix<'_>) -> String {
    let titles = ["trial", "repeat", "null_side", "measures", "skipped_because"];
    csv::lines(titles, matrix.trials.iter().map(|trial| cells(matrix, trial)))
}

/// One object; trials and repeats are numbered from 0, as in records.
pub(crate) fn json(matrix: &Matrix<'_>) -> String {
    let trials = matrix.trials.iter().map(|trial| {
        json!({
            "index": trial.index,
            "repeat": trial.repeat,
            "configuration": trial.configuration,
            "workload": trial.spec.workload.name(),
            "direction": trial.spec.direction.to_string(),
            "factors": pairs(trial.factors.iter().cloned()),
            "settings": pairs(trial.settings.iter().map(|one| {
                (format!("{}.{}", one.end, one.change.name), one.change.value.clone())
            })),
            "null_side": trial.null_side.map(|side| side.name()),
            "skipped_because": matrix.refusal(trial),
        })
    });
    json::line(json!({
        "format": "linerate.matrix/1",
        "plan": matrix.plan,
        "trials": trials.collect::<Vec<Value>>(),
        "skipped": matrix.refused.len(),
        "estimated_seconds": matrix.time.as_secs_f64(),
        "order_seed": matrix.order_seed,
    }))
}

fn pairs(pairs: impl Iterator<Item = (String, String)>) -> Value {
    Value::Object(pairs.map(|(name, value)| (name, value.into())).collect())
}

fn cells(matrix: &Matrix<'_>, trial: &PlannedTrial) -> [String; 5] {
    [
        (trial.index + 1).to_string(),
        (trial.repeat + 1).to_string(),
        trial.null_side.map(|side| side.name().to_owned()).unwrap_or_default(),
        what(trial),
        matrix.refusal(trial).unwrap_or_default().to_owned(),
    ]
}

/// What a trial measures, in words.
fn what(trial: &PlannedTrial) -> String {
    let mut words = vec![format!("{} {}", trial.spec.workload, trial.spec.direction)];
    words.extend(
        trial
            .factors
            .iter()
            .filter(|(name, _)| name != "workload" && name != "direction")
            .map(|(name, level)| format!("{name}={level}")),
    );
    // How much and how long is wanted to be seen, and what is not as usual.
    let usual = Spec::new(trial.spec.workload).asked();
    words.extend(trial.spec.asked().into_iter().filter_map(|(name, text)| {
        let is_told = ["workload", "direction"].contains(&name) || trial.factors.iter().any(|(other, _)| other == name);
        let is_main = ["rate", "duration", "bytes"].contains(&name);
        let is_usual = || usual.iter().any(|(other, usual)| *other == name && *usual == text);
        (!is_told && (is_main || !is_usual())).then(|| format!("{name}={text}"))
    }));
    // What is fixed is a setting as well, and what is changed on a machine must be seen.
    for one in &trial.settings {
        let word = format!("{}.{}={}", one.end, one.change.name, one.change.value);
        if !words.contains(&word) {
            words.push(word);
        }
    }
    words.join(" ")
}
