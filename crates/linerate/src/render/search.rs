//! What a search found: the highest load for each goal, between which bounds, and what limited the search itself.
//! Knows no trials but by their records' picture.

use linerate_machine::end::Direction;
use linerate_results::record::Record;
use linerate_trial::search::Found;
use linerate_trial::search::goal::Goal;

use super::forms::{self, Piece};
use super::number::{figure, percent};
use super::table_model::{Cell, Table};
use super::{csv, json, picture};
use crate::measure::searching::Searched;

/// For a terminal of this width.
pub(crate) fn text(searched: &[Searched], records: &[Record], width: Option<u16>) -> String {
    let mut text = forms::text(&pieces(searched), width);
    let shown = picture::picture(records, width);
    if !shown.is_empty() {
        text += "\n";
        text += &shown;
    }
    text
}

/// Ready to paste.
pub(crate) fn markdown(searched: &[Searched]) -> String {
    forms::markdown(&pieces(searched))
}

/// One object; loads in bits of payload per second.
pub(crate) fn json(searched: &[Searched]) -> String {
    let found = |found: &Found| {
        serde_json::json!({
            "goal": found.goal.name,
            "loss_ratio": found.goal.loss_ratio,
            "exceed_ratio": found.goal.exceed_ratio,
            "trial_s": found.goal.trial_s,
            "sum_s": found.goal.sum_s,
            "width": found.goal.width,
            "lower_bps": found.lower,
            "upper_bps": found.upper,
            "conditional_throughput_bps": found.conditional_throughput,
            "trials": found.trials,
            "regular": found.is_regular,
            "unlimited": found.is_unlimited,
        })
    };
    let of = |one: &Searched| {
        let factors: serde_json::Map<_, _> =
            one.base.factors.iter().map(|(name, level)| (name.clone(), level.clone().into())).collect();
        serde_json::json!({
            "workload": one.base.spec.workload,
            "direction": one.base.spec.direction,
            "factors": factors,
            "unsent_bps": one.unsent_bps,
            "found": one.found.iter().map(found).collect::<Vec<_>>(),
        })
    };
    json::line(
        &serde_json::json!({"format": "linerate.search/1", "searches": searched.iter().map(of).collect::<Vec<_>>()}),
    )
}

/// A line for each goal of each configuration.
pub(crate) fn csv(searched: &[Searched]) -> String {
    let titles = [
        "configuration",
        "direction",
        "goal",
        "lower_bps",
        "upper_bps",
        "conditional_throughput_bps",
        "trials",
        "regular",
    ];
    let known = |value: Option<f64>| value.map(|value| value.round().to_string()).unwrap_or_default();
    let rows = searched.iter().flat_map(|one| one.found.iter().map(move |found| (one, found))).map(|(one, found)| {
        [
            one.base.words(),
            one.base.spec.direction.to_string(),
            found.goal.name.clone(),
            known(found.lower),
            known(found.upper),
            known(found.conditional_throughput),
            found.trials.to_string(),
            found.is_regular.to_string(),
        ]
    });
    csv::lines(titles, rows)
}

fn pieces(searched: &[Searched]) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for one in searched {
        let mut lines: Vec<String> = one.found.iter().map(|found| sentence(found, one)).collect();
        lines.extend(tester(one));
        pieces.push(Piece::Heading(words(one)));
        pieces.push(Piece::Lines(lines));
        pieces.push(Piece::Table(table(&one.found)));
    }
    pieces
}

/// The configuration, with its direction.
fn words(one: &Searched) -> String {
    let words = one.base.words();
    let has_direction = one.base.factors.is_empty() || one.base.factors.iter().any(|(name, _)| name == "direction");
    if has_direction { words } else { format!("{words} {}", one.base.spec.direction) }
}

fn mbit(bps: f64) -> String {
    format!("{} Mbit/s", figure(bps / 1e6, 4))
}

/// What a goal demands.
fn demand(goal: &Goal) -> String {
    let lost = if goal.loss_ratio == 0.0 {
        "nothing lost".to_owned()
    } else {
        format!("at most {} % lost", percent(goal.loss_ratio))
    };
    let Goal { trial_s, sum_s, exceed_ratio, .. } = goal;
    let trials = if sum_s <= trial_s {
        format!("in a trial of {trial_s} s")
    } else if *exceed_ratio == 0.0 {
        format!("in {sum_s} s of trials of {trial_s} s")
    } else if *exceed_ratio == 0.5 {
        format!("in half of {sum_s} s of trials of {trial_s} s")
    } else {
        format!("in {} % of {sum_s} s of trials of {trial_s} s", percent(1.0 - exceed_ratio))
    };
    format!("{lost} {trials}")
}

/// The answer for one goal.
fn sentence(found: &Found, one: &Searched) -> String {
    let both = if one.base.spec.direction == Direction::Both { " in each direction" } else { "" };
    let demand = demand(&found.goal);
    match (found.lower, found.upper) {
        (Some(lower), Some(upper)) => {
            let doubt = if found.is_regular { "" } else { "; the search ended before it was known better" };
            format!("{}{both} with {demand}; {} is too much{doubt}.", mbit(lower), mbit(upper))
        }
        (Some(lower), None) if !found.is_unlimited => {
            format!(
                "At least {}{both} with {demand}; the search ended before a load was found that is too much.",
                mbit(lower)
            )
        }
        (Some(lower), None) => {
            format!("All that was tried, up to {}{both}, with {demand}: the limit was not reached.", mbit(lower))
        }
        (None, Some(upper)) => {
            format!("Not even {}{both} with {demand}: no load that was tried keeps to it.", mbit(upper))
        }
        (None, None) => format!("No load was decided: {demand}."),
    }
}

/// What the search says of the sender, and not of the path.
fn tester(one: &Searched) -> Option<String> {
    let unsent = one.unsent_bps?;
    let limits = one.found.iter().any(|found| found.upper.is_some_and(|upper| upper >= unsent * 0.97));
    limits.then(|| {
        format!(
            "From {} on the sender did not send all that was asked: that is the sender's limit, and not the path's.",
            mbit(unsent)
        )
    })
}

fn table(found: &[Found]) -> Table {
    let rate = |bps: Option<f64>| bps.map_or_else(|| Cell::text("-"), |bps| Cell::number(bps / 1e6, 5));
    let row = |found: &Found| {
        vec![
            Cell::text(&found.goal.name),
            Cell::percent(found.goal.loss_ratio),
            rate(found.lower),
            rate(found.upper),
            rate(found.conditional_throughput),
            Cell::count(found.trials as u64),
        ]
    };
    let titles = [
        "goal",
        "may lose\n%",
        "lower bound\nMbit/s",
        "upper bound\nMbit/s",
        "conditional throughput\nMbit/s",
        "trials",
    ];
    Table::new(titles, found.iter().map(row))
}
