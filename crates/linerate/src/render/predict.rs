//! Predictions as people and programs read them: a table, and what would make them surer.
//! Knows no records, and predicts nothing.

use std::collections::BTreeMap;

use linerate_model::cost::Load;
use linerate_model::fit::{Ensemble, NotReproduced};
use linerate_model::flow::Resource;
use linerate_model::predict::{Prediction, Refusal};
use linerate_model::setting::Set;
use linerate_model::table::Table as Rows;
use serde_json::{Value, json};

use super::forms::{self, Piece};
use super::json;
use super::number::figure;
use super::table_model::{Cell, Table};

/// What stands under every prediction.
const ASSUMPTIONS: &str = "Taken for granted: the machine is as its file says, within its bounds; a stream loses nothing, for \
                           recovery from loss is not modelled; and nothing else changes with what is set.";

/// What a record says of what was predicted.
pub(crate) struct Checked {
    /// Throughput, Mbit/s.
    pub(crate) mbps: f64,
    /// Which configuration.
    pub(crate) id: String,
}

/// A table's predictions.
pub(crate) struct Predicted {
    machine: String,
    about: String,
    rows: usize,
    found: Result<Found, NotReproduced>,
}

struct Found {
    sets: usize,
    error: f64,
    predictions: Vec<Prediction>,
    checked: Vec<(f64, String)>,
}

impl Predicted {
    /// What the sets say.
    pub(crate) fn of(
        table: &Rows,
        ensemble: &Ensemble,
        predictions: Vec<Prediction>,
        checked: &[Checked],
    ) -> Predicted {
        let checked = checked.iter().map(|one| (one.mbps, one.id.clone())).collect();
        let found = Found { sets: ensemble.sets.len(), error: ensemble.error, predictions, checked };
        Predicted { found: Ok(found), ..Predicted::empty(table) }
    }

    /// No set reproduces the rows.
    pub(crate) fn not_reproduced(table: &Rows, error: NotReproduced) -> Predicted {
        Predicted { found: Err(error), ..Predicted::empty(table) }
    }

    fn empty(table: &Rows) -> Predicted {
        let (machine, about) = (table.machine.name.clone(), table.machine.about.clone());
        Predicted { machine, about, rows: table.measured.len(), found: Err(NotReproduced { best: f64::INFINITY }) }
    }

    /// The predictions, where any set reproduces the rows.
    pub(crate) fn predictions(&self) -> Option<&[Prediction]> {
        self.found.as_ref().ok().map(|found| found.predictions.as_slice())
    }

    /// For a terminal of this width.
    pub(crate) fn text(&self, width: Option<u16>) -> String {
        forms::text(&self.pieces(), width)
    }

    /// Ready to paste.
    pub(crate) fn markdown(&self) -> String {
        forms::markdown(&self.pieces())
    }

    /// One object; throughput in bits per second of payload.
    pub(crate) fn json(&self) -> String {
        let (sets, error, predictions) = match &self.found {
            Ok(found) => (found.sets, Some(found.error), found.predictions.iter().map(one_json).collect()),
            Err(_) => (0, None, Vec::new()),
        };
        let checked = self.found.as_ref().ok().map(|found| &found.checked[..]).unwrap_or_default();
        let checked: Vec<Value> =
            checked.iter().map(|(mbps, id)| json!({"row": id, "throughput_bps": mbps * 1e6})).collect();
        json::line(&json!({
            "format": "linerate.prediction/1", "machine": self.machine, "rows": self.rows, "sets": sets,
            "fit_error": error, "predictions": predictions, "checked": checked,
        }))
    }

    fn pieces(&self) -> Vec<Piece> {
        let mut pieces = vec![Piece::Heading(format!("{}: {}", self.machine, self.about))];
        let found = match &self.found {
            Ok(found) => found,
            Err(NotReproduced { best }) => {
                let rows = format!(
                    "the best parameter set misses one of the {} rows by {} times its noise",
                    self.rows,
                    figure(*best, 2)
                );
                let next = "Give the rows' noise as it is (repeats tell), leave out what has another cause, or widen the machine's bounds";
                pieces.push(Piece::Lines(vec![format!("Not identifiable from these rows: {rows}. {next}.")]));
                return pieces;
            }
        };
        pieces.push(Piece::Lines(vec![found.fitted(self.rows)]));
        pieces.push(found.table());
        pieces.extend(Piece::Lines(surer(&found.predictions)).under("What would make it surer"));
        pieces.extend(Piece::Lines(found.judged()).under("What was measured"));
        pieces.extend(Piece::Lines(vec![ASSUMPTIONS.to_owned()]).under("What to know"));
        pieces
    }
}

impl Found {
    fn fitted(&self, rows: usize) -> String {
        if rows == 0 {
            return "Nothing was measured: these are the bounds that the machine's file leaves, and no predictions."
                .to_owned();
        }
        let share = figure(self.error * 100.0, 2);
        let sets = self.sets;
        format!(
            "{sets} parameter sets reproduce the {rows} rows within twice their noise; their middle misses a row by {share} %."
        )
    }

    fn table(&self) -> Piece {
        let names = ["row", "set", "predicted\nMbit/s", "80 % of sets\nMbit/s", "without\nMbit/s", "limited by", ""];
        let rows = self.predictions.iter().map(|prediction| {
            let refused = prediction.refusal.is_some();
            let (low, high) = prediction.interval;
            vec![
                Cell::long(&prediction.row.id),
                Cell::long(sets(&prediction.row.set)),
                if refused { Cell::default() } else { Cell::number(prediction.median, 3) },
                Cell::numbers(format!("{} to {}", figure(low, 3), figure(high, 3))),
                Cell::number(prediction.null.mbps, 3),
                Cell::long(limit(prediction.limit)),
                Cell::long(refusal(prediction)),
            ]
        });
        Piece::Table(Table::new(names, rows).filled())
    }

    fn judged(&self) -> Vec<String> {
        let [prediction] = &self.predictions[..] else { return Vec::new() };
        let one = |(mbps, id): &(f64, String)| {
            let inside = (prediction.interval.0..=prediction.interval.1).contains(mbps);
            let place = if inside { "inside" } else { "outside" };
            let off = |from: f64| figure((from - mbps).abs(), 3);
            format!(
                "{id}: {} Mbit/s, {place} the interval; the median is off by {} Mbit/s, and no change at all would be by {}.",
                figure(*mbps, 3),
                off(prediction.median),
                off(prediction.null.mbps)
            )
        };
        self.checked.iter().map(one).collect()
    }
}

fn limit(resource: Resource) -> &'static str {
    match resource {
        Resource::Offered => "the offered load",
        Resource::Window => "the window",
        Resource::Link => "the link",
        Resource::Dma => "the MAC's DMA",
        Resource::Cpu => "the CPU, in driver and stack",
        Resource::Application => "the CPU, in the application",
    }
}

fn refusal(prediction: &Prediction) -> String {
    match &prediction.refusal {
        None => String::new(),
        Some(Refusal::Unmeasured) => "bounds only".to_owned(),
        Some(Refusal::FewSets(sets)) => format!("not identifiable from these rows: {sets} sets reproduce them"),
        Some(Refusal::Wide(half)) => {
            format!("not identifiable from these rows: ±{} %", figure(half * 100.0, 2))
        }
        Some(Refusal::StreamLoses(share)) => {
            let share = figure(share * 100.0, 2);
            format!("not modelled: the stream loses frames in {share} % of the sets")
        }
        Some(Refusal::UnknownBefore(axis)) => format!("not identifiable: nobody said what {axis} was"),
    }
}

fn sets(set: &[Set]) -> String {
    set.iter().map(|set| format!("{}={}", set.axis, set.value)).collect::<Vec<_>>().join(" ")
}

/// The parameters that widen predictions, and the trials that would narrow them, each with the rows that it is about.
fn surer(predictions: &[Prediction]) -> Vec<String> {
    let told = || predictions.iter().filter(|one| !matches!(one.refusal, Some(Refusal::FewSets(_))));
    let share = |share: f64, id: &str| format!("{} % of {id}", figure(share * 100.0, 2));
    let mut parameters = BTreeMap::<_, Vec<String>>::new();
    let mut trials = BTreeMap::<String, Vec<String>>::new();
    for one in told() {
        if let Some((parameter, of)) = one.widest {
            parameters.entry(parameter).or_default().push(share(of, &one.row.id));
        }
        if let Some((load, of)) = one.trial {
            trials.entry(described(&load)).or_default().push(share(of, &one.row.id));
        }
    }
    let parameters = parameters.into_iter().map(|(parameter, shares)| {
        let about = parameter.about().trim_end_matches('.');
        format!("To know {} ({about}) would explain {}.", parameter.name(), shares.join(", "))
    });
    let trials =
        trials.into_iter().map(|(load, shares)| format!("To measure {load} would explain {}.", shares.join(", ")));
    parameters.chain(trials).collect()
}

fn described(load: &Load) -> String {
    let offered = load.offered_mbps.map_or("as much as goes".to_owned(), |mbps| format!("{} Mbit/s", figure(mbps, 3)));
    format!("{} of {} octets, {offered},", load.workload.name(), load.payload)
}

fn one_json(prediction: &Prediction) -> Value {
    let load = &prediction.row.load;
    let refused = match &prediction.refusal {
        None => Value::Null,
        Some(Refusal::Unmeasured) => "unmeasured".into(),
        Some(Refusal::FewSets(_)) => "few-sets".into(),
        Some(Refusal::Wide(_)) => "wide".into(),
        Some(Refusal::StreamLoses(_)) => "stream-loses".into(),
        Some(Refusal::UnknownBefore(_)) => "unknown-before".into(),
    };
    let set: serde_json::Map<String, Value> =
        prediction.row.set.iter().map(|set| (set.axis.clone(), set.value.clone().into())).collect();
    json!({
        "row": prediction.row.id, "workload": load.workload.name(), "payload_octets": load.payload,
        "offered_bps": load.offered_mbps.map(|mbps| mbps * 1e6), "set": set,
        "median_bps": prediction.refusal.is_none().then_some(prediction.median * 1e6),
        "low_bps": prediction.interval.0 * 1e6, "high_bps": prediction.interval.1 * 1e6,
        "null_bps": prediction.null.mbps * 1e6, "null_measured": prediction.null.measured,
        "limit": prediction.limit.name(), "refused": refused,
        "widest": prediction.widest.map(|(parameter, share)| json!({"parameter": parameter.name(), "share": share})),
        "trial": prediction.trial.map(|(load, share)| {
            json!({"workload": load.workload.name(), "payload_octets": load.payload, "share": share})
        }),
    })
}

#[cfg(test)]
mod tests {
    use linerate_model::fit::{Effort, fit};
    use linerate_model::predict::predict;

    use super::*;

    fn shown(name: &str) -> Predicted {
        let effort = Effort { frames: 300, ..Effort::default() };
        let table = Rows::shipped(name).expect("it comes along");
        let ensemble = fit(&table.machine, &table.measured, effort).expect("its rows are reproduced");
        let predictions = predict(&table.machine, &ensemble, &table.measured, &table.asked, effort);
        let checked = Checked { mbps: 200.0, id: "a record".to_owned() };
        Predicted::of(&table, &ensemble, predictions, &[checked])
    }

    #[test]
    fn a_prediction_has_what_it_would_be_without_and_what_would_tell_more() {
        let text = shown("004").text(None);
        for part in [
            "reproduce the 2 rows within twice their noise",
            "no-fixup-faster-memory",
            "To know cpu.fixup",
            "80 % of sets",
        ] {
            assert!(text.contains(part), "no '{part}' in: {text}");
        }
        let object: Value = serde_json::from_str(&shown("004").json()).unwrap();
        for prediction in object["predictions"].as_array().unwrap() {
            let figure = |name: &str| prediction[name].as_f64().unwrap();
            assert!(figure("low_bps") < figure("median_bps") && figure("median_bps") < figure("high_bps"));
            assert!(prediction["null_measured"].as_bool().unwrap());
        }
    }

    #[test]
    fn what_nobody_said_is_refused_and_not_guessed() {
        let object: Value = serde_json::from_str(&shown("003").json()).unwrap();
        for prediction in object["predictions"].as_array().unwrap() {
            if prediction["set"].get("checksum").is_some() {
                assert_eq!(prediction["refused"], "unknown-before");
                assert!(prediction["median_bps"].is_null() && prediction["low_bps"].is_number());
            }
        }
    }

    #[test]
    fn rows_that_no_set_reproduces_are_said_with_what_to_do() {
        let table = Rows::shipped("004").unwrap();
        let text = Predicted::not_reproduced(&table, NotReproduced { best: 3.4 }).text(None);
        assert!(text.contains("Not identifiable") && text.contains("3.4 times its noise"), "{text}");
    }
}
