//! Predictions as people and programs read them: a table, and what would make them surer.
//! Knows no records, and predicts nothing.

use std::collections::{BTreeMap, BTreeSet};

use linerate_model::cost::Load;
use linerate_model::fit::{Ensemble, NotReproduced};
use linerate_model::flow::Resource;
use linerate_model::predict::{Null, Prediction, Refusal, skill};
use linerate_model::setting::Set;
use linerate_model::table::Table as Rows;
use serde_json::{Value, json};

use super::answer::Answer;
use super::forms::Piece;
use super::json;
use super::number::{counted, figure};
use super::table_model::{Cell, Footnotes, Table};

/// What stands under every prediction.
const ASSUMPTIONS: &str = "Taken for granted: the machine is as its file says, within its bounds; a stream loses nothing, for \
                           recovery from loss is not modelled; and nothing else changes with what is set.";

/// What a model says of one suggestion, where it says something.
pub(crate) struct PredictedGain {
    /// It is not refused.
    pub(crate) prediction: Prediction,
    /// Its null, which was measured.
    pub(crate) null: Null,
}

impl PredictedGain {
    /// Before it is tried.
    pub(crate) fn says(&self) -> String {
        let Prediction { median, interval: (low, high), row, .. } = &self.prediction;
        format!(
            "A model of what was measured says {} to {} Mbit/s with {} (the middle is {}), and {} without",
            figure(*low, 3),
            figure(*high, 3),
            row.id,
            figure(*median, 3),
            figure(self.null.mbps, 3)
        )
    }

    /// Once it was measured, Mbit/s.
    pub(crate) fn did(&self, mbps: f64) -> String {
        let (low, high) = self.prediction.interval;
        let ours = self.prediction.errors(mbps).0;
        format!(
            "The model had said {} to {} Mbit/s: {} is {}. Its middle is off by {} Mbit/s; no change at all would be by {}.",
            figure(low, 3),
            figure(high, 3),
            figure(mbps, 3),
            if self.prediction.holds(mbps) { "inside" } else { "outside" },
            figure(ours, 2),
            figure((self.null.mbps - mbps).abs(), 2)
        )
    }

    /// For programs, as a prediction of `predict`.
    pub(crate) fn json(&self) -> Value {
        one_json(&self.prediction)
    }
}

/// A table's predictions.
pub(crate) struct Predicted<'a> {
    pub(crate) table: &'a Rows,
    /// Records that say nothing of the machine.
    pub(crate) left_out: usize,
    pub(crate) found: Result<SetPredictions, NotReproduced>,
}

/// What the sets say.
pub(crate) struct SetPredictions {
    pub(crate) ensemble: Ensemble,
    pub(crate) predictions: Vec<Prediction>,
    /// What was measured of each prediction, Mbit/s; or none.
    pub(crate) checked: Vec<f64>,
}

impl Predicted<'_> {
    /// One object; throughput in bits per second of payload.
    pub(crate) fn json(&self) -> String {
        let found = self.found.as_ref().ok();
        let predictions: Vec<Value> = found.iter().flat_map(|found| &found.predictions).map(one_json).collect();
        let checked = found.iter().flat_map(|found| found.judged()).map(|(mbps, prediction)| {
            let (ours, nulls) = prediction.errors(mbps);
            json!({
                "row": prediction.row.id, "throughput_bps": mbps * 1e6, "inside": prediction.holds(mbps),
                "error_bps": prediction.refusal.is_none().then_some(ours * 1e6), "null_error_bps": nulls.map(|nulls| nulls * 1e6),
            })
        });
        let checked: Vec<Value> = checked.collect();
        json::line(json!({
            "format": "linerate.prediction/1", "machine": self.table.machine.name, "rows": self.table.measured.len(),
            "left_out": self.left_out, "sets": found.map_or(0, |found| found.ensemble.sets.len()),
            "fit_error": found.map(|found| found.ensemble.error),
            "not_reproduced": self.found.as_ref().err().map(|not| json!({"row": not.row, "times_its_noise": not.best})),
            "predictions": predictions, "checked": checked,
            "skill": found.and_then(SetPredictions::skill),
        }))
    }

    /// For people.
    pub(crate) fn answer(&self) -> Answer {
        let Rows { machine, measured, .. } = self.table;
        let mut pieces = vec![Piece::Heading(format!("{}: {}", machine.name, machine.about))];
        let found = match &self.found {
            Ok(found) => found,
            Err(NotReproduced { best, row }) => {
                let rows = format!(
                    "of {} the best parameter set misses '{row}' by {} times its noise",
                    counted(measured.len(), "row"),
                    figure(*best, 2)
                );
                let next = "Measure with --repeat, or give a table's rows their noise; leave out what has another cause; or widen the machine's bounds";
                pieces.push(Piece::Lines(vec![format!("Not identifiable from these rows: {rows}. {next}.")]));
                return Answer::of(pieces);
            }
        };
        let mut lines = vec![found.fitted(measured.len())];
        if self.left_out > 0 {
            let what = "of other options or settings than the newest's";
            lines.push(format!("Left out: {} {what}.", counted(self.left_out, "record")));
        }
        pieces.push(Piece::Lines(lines));
        let mut footnotes = Footnotes::default();
        pieces.push(found.table(&mut footnotes));
        pieces.extend(Piece::lines(footnotes.lines()));
        pieces.extend(Piece::Lines(surer(&found.predictions)).under("What would make it surer"));
        if !found.checked.is_empty() {
            pieces.extend(found.measured().under("What was measured"));
            pieces.push(Piece::Lines(vec![found.did()]));
        }
        pieces.extend(Piece::Lines(vec![ASSUMPTIONS.to_owned()]).under("What to know"));
        Answer::of(pieces)
    }
}

impl SetPredictions {
    fn fitted(&self, rows: usize) -> String {
        if rows == 0 {
            return "Nothing was measured: these are the bounds that the machine's file leaves, and no predictions."
                .to_owned();
        }
        let share = figure(self.ensemble.error * 100.0, 2);
        let sets = self.ensemble.sets.len();
        format!(
            "{sets} parameter sets reproduce {} within twice {} noise; their middle misses a row by {share} %.",
            if rows == 1 { "the row".to_owned() } else { format!("the {rows} rows") },
            if rows == 1 { "its" } else { "their" },
        )
    }

    fn table(&self, footnotes: &mut Footnotes) -> Piece {
        let names = ["row", "set", "predicted\nMbit/s", "80 % interval\nMbit/s", "without\nMbit/s", "limited by"];
        let rows = self.predictions.iter().map(|prediction| {
            let (low, high) = prediction.interval;
            let predicted = match prediction.refusal.as_ref().map(refusal) {
                Some(why) => Cell::numbers("none").marked(footnotes.marks([&why].into_iter())),
                None => Cell::number(prediction.median, 3),
            };
            vec![
                Cell::long(&prediction.row.id),
                Cell::long(sets(&prediction.row.set)),
                predicted,
                Cell::numbers(format!("{} to {}", figure(low, 3), figure(high, 3))),
                prediction.null.map_or_else(Cell::default, |null| Cell::number(null.mbps, 3)),
                Cell::long(limit(prediction.limit)),
            ]
        });
        Piece::Table(Table::new(names, rows).filled())
    }

    /// What was measured of each prediction.
    fn judged(&self) -> impl Iterator<Item = (f64, &Prediction)> {
        self.checked.iter().copied().zip(&self.predictions)
    }

    /// The same of those that are none of the refused.
    fn predicted(&self) -> impl Iterator<Item = (f64, &Prediction)> {
        self.judged().filter(|(_, prediction)| prediction.refusal.is_none())
    }

    fn skill(&self) -> Option<f64> {
        skill(self.predicted().map(|(mbps, prediction)| prediction.errors(mbps)))
    }

    fn measured(&self) -> Piece {
        let names = ["row", "measured\nMbit/s", "median off by\nMbit/s", "no change, by\nMbit/s", "80 % interval"];
        let rows = self.judged().map(|(mbps, prediction)| {
            let (ours, nulls) = prediction.errors(mbps);
            vec![
                Cell::long(&prediction.row.id),
                Cell::number(mbps, 3),
                if prediction.refusal.is_some() { Cell::default() } else { Cell::number(ours, 2) },
                nulls.map_or_else(Cell::default, |nulls| Cell::number(nulls, 2)),
                Cell::text(if prediction.holds(mbps) { "inside" } else { "outside" }),
            ]
        });
        Piece::Table(Table::new(names, rows).filled())
    }

    /// How the predictions did, in a sentence.
    fn did(&self) -> String {
        let inside = self.predicted().filter(|(mbps, prediction)| prediction.holds(*mbps)).count();
        let places = match self.predicted().count() {
            0 => return "No row was predicted, so there is nothing to judge.".to_owned(),
            1 => format!("The prediction is {} the interval", if inside == 1 { "inside" } else { "outside" }),
            all => format!("{inside} of {all} predictions are inside the interval"),
        };
        match self.skill() {
            Some(skill) => format!("{places}; skill {}: 1 is right, 0 is no better than no change.", figure(skill, 2)),
            None if self.predicted().all(|(_, prediction)| prediction.null.is_none()) => {
                format!("{places}; no row says what no change would be, so there is no skill.")
            }
            None => format!("{places}; no change at all would have been right as well."),
        }
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

fn refusal(refusal: &Refusal) -> String {
    match refusal {
        Refusal::Unmeasured => "bounds only".to_owned(),
        Refusal::FewSets(sets) => format!("not identifiable from these rows: {sets} sets reproduce them"),
        Refusal::Wide(half) => {
            format!("not identifiable from these rows: ±{} %", figure(half * 100.0, 2))
        }
        Refusal::StreamLoses(share) => {
            let share = figure(share * 100.0, 2);
            format!("not modelled: the stream loses frames in {share} % of the sets")
        }
        Refusal::UnknownBefore(axis) => format!("not identifiable: nobody said what {axis} was"),
        Refusal::LimitOrShare => {
            "not identifiable from these rows: what was lost may be what was too much, or a share of any load; measure one of which all arrives"
                .to_owned()
        }
        Refusal::UnlikeRepeats => {
            "not identifiable from these rows: repeats differ by as much as was lost; measure more of them, or a higher load"
                .to_owned()
        }
        Refusal::NoLimitMet => {
            "not identifiable from these rows: all that was offered arrived; measure a load of which not all does"
                .to_owned()
        }
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
    let unsaid: BTreeSet<&String> = predictions
        .iter()
        .filter_map(|one| match &one.refusal {
            Some(Refusal::UnknownBefore(axis)) => Some(axis),
            _ => None,
        })
        .collect();
    let say =
        |axis: &String| format!("Say what {axis} was: in the machine's file, or of records by --now {axis}=VALUE.");
    parameters.chain(trials).chain(unsaid.into_iter().map(say)).collect()
}

fn described(load: &Load) -> String {
    let offered = load.offered_mbps.map_or("at full rate".to_owned(), |mbps| format!("{} Mbit/s", figure(mbps, 3)));
    format!("{} of {} bytes, {offered},", load.workload.name(), load.payload)
}

fn one_json(prediction: &Prediction) -> Value {
    let load = &prediction.row.load;
    let set: serde_json::Map<String, Value> =
        prediction.row.set.iter().map(|set| (set.axis.clone(), set.value.clone().into())).collect();
    json!({
        "row": prediction.row.id, "workload": load.workload.name(), "payload_bytes": load.payload,
        "offered_bps": load.offered_mbps.map(|mbps| mbps * 1e6), "set": set,
        "median_bps": prediction.refusal.is_none().then_some(prediction.median * 1e6),
        "low_bps": prediction.interval.0 * 1e6, "high_bps": prediction.interval.1 * 1e6,
        "null_bps": prediction.null.map(|null| null.mbps * 1e6), "null_measured": prediction.null.map(|null| null.measured),
        "limit": prediction.limit.name(), "refused": prediction.refusal.as_ref().map(Refusal::name),
        "widest": prediction.widest.map(|(parameter, share)| json!({"parameter": parameter.name(), "share": share})),
        "trial": prediction.trial.map(|(load, share)| {
            json!({"workload": load.workload.name(), "payload_bytes": load.payload, "share": share})
        }),
    })
}

#[cfg(test)]
mod tests {
    use linerate_model::fit::{Effort, fit};
    use linerate_model::predict::predict;

    use super::*;

    fn found(table: &Rows) -> Predicted<'_> {
        let effort = Effort { frames: 300, ..Effort::default() };
        let ensemble = fit(&table.machine, &table.measured, effort).expect("its rows are reproduced");
        let predictions = predict(&table.machine, &ensemble, &table.measured, &table.asked, effort);
        let checked = vec![200.0; predictions.len()];
        Predicted { table, left_out: 0, found: Ok(SetPredictions { ensemble, predictions, checked }) }
    }

    fn shown(name: &str) -> [String; 2] {
        let table = Rows::shipped(name).expect("it comes along");
        let found = found(&table);
        [found.answer().text(None), found.json()]
    }

    #[test]
    fn a_prediction_has_what_it_would_be_without_and_what_would_tell_more() {
        let [text, json] = shown("004");
        for part in [
            "reproduce the 2 rows within twice their noise",
            "no-fixup-faster-memory",
            "To know cpu.fixup",
            "80 % interval",
            "median off by",
            "predictions are inside the interval; skill",
        ] {
            assert!(text.contains(part), "no '{part}' in: {text}");
        }
        let object: Value = serde_json::from_str(&json).unwrap();
        for prediction in object["predictions"].as_array().unwrap() {
            if !prediction["refused"].is_null() {
                continue;
            }
            let figure = |name: &str| prediction[name].as_f64().unwrap();
            assert!(figure("low_bps") < figure("median_bps") && figure("median_bps") < figure("high_bps"));
            assert!(prediction["null_measured"].as_bool().unwrap());
        }
    }

    #[test]
    fn what_nobody_said_is_refused_and_not_guessed() {
        let object: Value = serde_json::from_str(&shown("003")[1]).unwrap();
        for prediction in object["predictions"].as_array().unwrap() {
            if prediction["set"].get("checksum").is_some() {
                assert_eq!(prediction["refused"], "unknown-before");
                assert!(prediction["median_bps"].is_null() && prediction["low_bps"].is_number());
            }
        }
    }

    #[test]
    fn what_is_refused_is_not_judged() {
        let table = Rows::shipped("004").unwrap();
        let mut shown = found(&table);
        let Ok(found) = &mut shown.found else { unreachable!("its rows are reproduced") };
        found.predictions.iter_mut().for_each(|one| one.refusal = Some(Refusal::FewSets(3)));
        let text = shown.answer().text(None);
        assert!(text.contains("No row was predicted, so there is nothing to judge."), "{text}");
        assert!(!text.contains("no change at all"), "{text}");
    }

    #[test]
    fn without_a_null_there_is_no_skill() {
        let table = Rows::shipped("004").unwrap();
        let mut shown = found(&table);
        let Ok(found) = &mut shown.found else { unreachable!("its rows are reproduced") };
        found.predictions.iter_mut().for_each(|one| one.null = None);
        let text = shown.answer().text(None);
        assert!(text.contains("no row says what no change would be, so there is no skill."), "{text}");
        let object: Value = serde_json::from_str(&shown.json()).unwrap();
        assert!(object["skill"].is_null() && object["predictions"][0]["null_bps"].is_null());
    }

    #[test]
    fn rows_that_no_set_reproduces_are_said_with_what_to_do() {
        let table = Rows::shipped("004").unwrap();
        let found = Err(NotReproduced { best: 3.4, row: "arge.0".to_owned() });
        let shown = Predicted { table: &table, left_out: 0, found };
        let object: Value = serde_json::from_str(&shown.json()).unwrap();
        assert_eq!(object["not_reproduced"], json!({"row": "arge.0", "times_its_noise": 3.4}));
        let text = shown.answer().text(None);
        assert!(text.contains("Not identifiable") && text.contains("misses 'arge.0' by 3.4 times its noise"), "{text}");
    }
}
