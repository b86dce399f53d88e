//! What a search found: the highest load for each goal, between which bounds, what was tried, and what is to be doubted.
//! Knows no trials but by what `results::search` makes of them.

use std::collections::BTreeMap;

use linerate_chart::{
    Axis, Cell as Number, Chart, Marks, Panel, Reference, Series, Symbol, Table as Numbers, terminal,
};
use linerate_machine::end::Direction;
use linerate_plan::PlannedTrial;
use linerate_results::search::{Purpose, SearchAsked, SearchDoubt, SearchExpectation, SearchRecords, TriedLoad};
use linerate_trial::search::GoalResult;
use linerate_trial::search::goal::Goal;

use super::csv::{self, Column, field};
use super::forms::{self, Piece};
use super::load::{frames_digits, load};
use super::number::{figure, percent};
use super::table_model::{Cell, Table};
use super::{json, stages};
use crate::output::is_ascii_only;

/// Of a picture, where the terminal says none.
const WIDTH: u16 = 85;

/// For a terminal of this width.
pub(crate) fn text(searched: &[SearchRecords], expect: &[SearchExpectation], width: Option<u16>) -> String {
    let picture = |one: &SearchRecords| {
        Piece::Text(terminal::drawn(&chart(one), usize::from(width.unwrap_or(WIDTH)), is_ascii_only()))
    };
    forms::text(&answer(searched, expect, &picture), width)
}

/// Ready to paste.
pub(crate) fn markdown(searched: &[SearchRecords], expect: &[SearchExpectation]) -> String {
    let numbers = |one: &SearchRecords| Piece::Table(forms::chart_numbers(&chart(one)));
    forms::markdown(&answer(searched, expect, &numbers))
}

/// One object; loads in bits of payload per second.
pub(crate) fn json(searched: &[SearchRecords], expect: &[SearchExpectation]) -> String {
    let found = |one: &SearchRecords, found: &GoalResult| {
        let confirmation = one.confirmation(found).map(|tried| {
            serde_json::json!({
                "record": tried.record,
                "load_bps": tried.step.load_bps,
                "trial_s": tried.step.trial_s,
                "loss_ratio": tried.loss_ratio,
                "sent_ratio": tried.seen.sent_ratio,
                "kept": tried.keeps_to(&found.goal),
            })
        });
        serde_json::json!({
            "goal": found.goal.name,
            "loss_ratio": found.goal.loss_ratio,
            "exceed_ratio": found.goal.exceed_ratio,
            "trial_s": found.trial_s,
            "sum_s": found.goal.sum_s,
            "width": found.goal.width,
            "lower_bps": found.lower,
            "upper_bps": of_path(one, found, found.upper),
            "conditional_throughput_bps": of_path(one, found, found.conditional_throughput),
            "lower_packets_per_s": found.lower.and_then(|bps| one.asked.packets_per_s(bps)),
            "lower_of_line": found.lower.and_then(|bps| one.asked.of_line(bps)),
            "limited_by_tester": one.is_limited_by_tester(found),
            "trials": found.trials,
            "regular": found.is_regular,
            "unlimited": found.is_unlimited,
            "doubts": one.doubts(found).iter().map(SearchDoubt::name).collect::<Vec<_>>(),
            "confirmation": confirmation,
        })
    };
    let of = |one: &SearchRecords| {
        serde_json::json!({
            "workload": one.workload,
            "direction": one.direction,
            "factors": one.factors,
            "least_bps": one.asked.least_bps,
            "most_bps": one.asked.most_bps,
            "unsent_bps": one.unsent_bps,
            "tester_limit_bps": one.tester_limit_bps(),
            "calibration": one.asked.calibration,
            "calibrates": one.asked.calibrates,
            "packet_bytes": one.asked.packet_octets,
            "wire_bytes": one.asked.wire_octets,
            "line_bps": one.asked.line_bps,
            "trials": one.tried.len(),
            "ended_early": one.tried.iter().filter(|tried| tried.ended_early).count(),
            "measured_s": one.measured_s(),
            "stages": stages::json(one),
            "found": one.found.iter().map(|goal| found(one, goal)).collect::<Vec<_>>(),
        })
    };
    let met = |one: &SearchExpectation| serde_json::json!({"expected": one.to_string(), "met": is_met(one, searched)});
    json::line(serde_json::json!({
        "format": "linerate.search/1",
        "searches": searched.iter().map(of).collect::<Vec<_>>(),
        "expected": expect.iter().map(met).collect::<Vec<_>>(),
    }))
}

/// A line for each goal of each configuration.
pub(crate) fn csv(searched: &[SearchRecords]) -> String {
    let columns: [Column<(&SearchRecords, &GoalResult)>; 9] = [
        ("configuration", |(one, _)| field(configuration(one))),
        ("direction", |(one, _)| field(one.direction)),
        ("goal", |(_, found)| field(&found.goal.name)),
        ("lower_bps", |(_, found)| field(found.lower?.round())),
        ("upper_bps", |(one, found)| field(of_path(one, found, found.upper)?.round())),
        ("conditional_throughput_bps", |(one, found)| {
            field(of_path(one, found, found.conditional_throughput)?.round())
        }),
        ("trials", |(_, found)| field(found.trials)),
        ("regular", |(_, found)| field(found.is_regular)),
        ("doubts", |(one, found)| field(doubts(one, found))),
    ];
    csv::table(&columns, searched.iter().flat_map(|one| one.found.iter().map(move |found| (one, found))))
}

/// What would be searched, and between which loads: one object.
pub(crate) fn dry_run_json(asked: &[(PlannedTrial, SearchAsked)]) -> String {
    let one = |(base, asked): &(PlannedTrial, SearchAsked)| {
        let factors: BTreeMap<&String, &String> = base.factors.iter().map(|(name, level)| (name, level)).collect();
        let (workload, direction) = (base.spec.workload.name(), base.spec.direction.name());
        serde_json::json!({"workload": workload, "direction": direction, "factors": factors, "asked": asked})
    };
    let searches: Vec<_> = asked.iter().map(one).collect();
    json::line(serde_json::json!({"format": "linerate.search-plan/1", "searches": searches}))
}

/// The same, a line for each goal of each configuration.
pub(crate) fn dry_run_csv(asked: &[(PlannedTrial, SearchAsked)]) -> String {
    let columns: [Column<(&PlannedTrial, &SearchAsked, &Goal)>; 4] = [
        ("configuration", |(base, ..)| field(configured(base))),
        ("goal", |(.., goal)| field(&goal.name)),
        ("least_bps", |(_, asked, _)| field(asked.least_bps)),
        ("most_bps", |(_, asked, _)| field(asked.most_bps)),
    ];
    csv::table(&columns, asked.iter().flat_map(|(base, asked)| asked.goals.iter().map(move |goal| (base, asked, goal))))
}

/// How a configuration that is searched is called.
fn configured(base: &PlannedTrial) -> String {
    let has_direction = base.factors.is_empty() || base.factors.iter().any(|(name, _)| name == "direction");
    let way = if has_direction { String::new() } else { format!(" {}", base.spec.direction) };
    format!("{}{way}", base.words())
}

/// The same for people.
pub(crate) fn dry_run(asked: &[(PlannedTrial, SearchAsked)], is_markdown: bool) -> String {
    let mut pieces = Vec::new();
    for (base, asked) in asked {
        pieces.push(Piece::Heading(configured(base)));
        let unit = if asked.is_of_frames { "" } else { " of payload" };
        let (least, most) = (load(asked, asked.least_bps), load(asked, asked.most_bps));
        let between = format!("Between {least} and {most}{unit} in each direction.");
        let limit = asked.tester_limit_bps.map(|bps| match &asked.calibration {
            Some(campaign) => format!("The tester carries {} (calibration {}).", load(asked, bps), short(campaign)),
            None => format!("The tester carries {}.", load(asked, bps)),
        });
        let goals = asked.goals.iter().map(|goal| format!("{}: {}.", goal.name, demand(goal, goal.trial_s)));
        let confirm = asked.confirm_s.map(|s| format!("What is found is measured once more for {s} s."));
        pieces.push(Piece::Lines(std::iter::once(between).chain(goals).chain(confirm).chain(limit).collect()));
    }
    if is_markdown { forms::markdown(&pieces) } else { forms::text(&pieces, None) }
}

/// That the least load, bits per second, is no less than the most.
pub(crate) fn nothing_between(loads: [f64; 2]) -> String {
    let [least, most] = loads.map(|bps| figure(bps / 1e6, 4));
    format!(
        "nothing lies between the lowest load, {least} Mbit/s, and the highest, {most} Mbit/s; give --min-rate and --max-rate"
    )
}

/// Whether it came about in every search that has the goal; one that is of none did not.
pub(crate) fn is_met(expected: &SearchExpectation, searched: &[SearchRecords]) -> bool {
    let each: Vec<bool> = searched.iter().filter_map(|one| expected.is_met(one)).collect();
    !each.is_empty() && each.iter().all(|met| *met)
}

fn answer(
    searched: &[SearchRecords],
    expect: &[SearchExpectation],
    tried: &dyn Fn(&SearchRecords) -> Piece,
) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = searched.iter().flat_map(|one| pieces(one, tried)).collect();
    let lines = expect.iter().map(|one| {
        let came = if is_met(one, searched) { "as expected" } else { "not as expected" };
        format!("{came}: {one}.")
    });
    let lines: Vec<String> = lines.collect();
    pieces.extend(Piece::lines(lines));
    pieces
}

/// What a document says of the searches that its records are of.
pub(super) fn section(searched: &[SearchRecords]) -> Vec<Piece> {
    if searched.is_empty() {
        return Vec::new();
    }
    let picture = |one: &SearchRecords| Piece::Chart(Box::new(chart(one)));
    let mut all = vec![Piece::Section("The most that comes through".to_owned())];
    all.extend(searched.iter().flat_map(|one| pieces(one, &picture)));
    all.push(Piece::Lines(vec![DEVIATIONS.to_owned()]));
    all
}

/// RFC 9971 wants them said: section 4.2 and RFC 2544's waits.
const DEVIATIONS: &str = "Searched by RFC 9971 (MLRsearch). What is not as RFC 2544 has it: a trial begins when the one before has \
    been counted, and not 11 s later; a trial that has lost too much ends early, and counts with the time that was intended, \
    which is the effective duration of every trial; what the sender did not send counts as lost.";

/// What was found in a configuration, and what was tried.
fn pieces(one: &SearchRecords, tried: &dyn Fn(&SearchRecords) -> Piece) -> Vec<Piece> {
    let mut lines: Vec<String> = one.found.iter().map(|found| sentence(found, one)).collect();
    lines.extend(one.found.iter().filter_map(|found| confirmed(found, one)));
    lines.extend(one.asked.calibrates.then(|| CALIBRATES.to_owned()));
    for doubt in one.found.iter().flat_map(|found| one.doubts(found)) {
        // Bounds that are not known better say so themselves.
        let sentence = doubt_sentence(&doubt, &one.asked).filter(|sentence| !lines.contains(sentence));
        lines.extend(sentence);
    }
    let mut pieces = vec![Piece::Heading(words(one)), Piece::Lines(lines), Piece::Table(table(one))];
    pieces.extend((one.tried.len() > 2).then(|| tried(one)));
    pieces.extend(stages::pieces(one));
    pieces
}

fn configuration(one: &SearchRecords) -> String {
    let mut words = vec![one.workload.to_string()];
    words.extend(
        one.factors.iter().filter(|(name, _)| *name != "workload").map(|(name, level)| format!("{name}={level}")),
    );
    words.join(" ")
}

/// The configuration, with its direction.
fn words(one: &SearchRecords) -> String {
    let words = configuration(one);
    if one.factors.contains_key("direction") { words } else { format!("{words} {}", one.direction) }
}

const CALIBRATES: &str = "This is what the tester carries by itself: later searches of the same traffic between these endpoints hold \
    what they find against it.";

/// The end of an identifier of time, which tells it from its neighbours.
fn short(campaign: &str) -> &str {
    campaign.get(..10).unwrap_or(campaign)
}

/// What is known of the path: where the tester was the limit, nothing but that it carries as much.
fn of_path(one: &SearchRecords, found: &GoalResult, bps: Option<f64>) -> Option<f64> {
    bps.filter(|_| !one.is_limited_by_tester(found))
}

/// What a goal demands, with trials of this time.
fn demand(goal: &Goal, trial_s: f64) -> String {
    let lost = if goal.loss_ratio == 0.0 {
        "nothing lost".to_owned()
    } else {
        format!("at most {} % lost", percent(goal.loss_ratio))
    };
    let (exceed_ratio, sum_s) = (goal.exceed_ratio, goal.sum_s.max(trial_s));
    let trials = if sum_s <= trial_s {
        format!("in a trial of {trial_s} s")
    } else if exceed_ratio == 0.0 {
        format!("in {sum_s} s of trials of {trial_s} s")
    } else if exceed_ratio == 0.5 {
        format!("in half of {sum_s} s of trials of {trial_s} s")
    } else {
        format!("in {} % of {sum_s} s of trials of {trial_s} s", percent(1.0 - exceed_ratio))
    };
    format!("{lost} {trials}")
}

/// The answer for one goal. What the tester itself carries no more than is no answer about the path.
fn sentence(found: &GoalResult, one: &SearchRecords) -> String {
    let both = if one.direction == Direction::Both { " in each direction" } else { "" };
    let demand = demand(&found.goal, found.trial_s);
    let is_tester = one.is_limited_by_tester(found);
    let mbit = |bps: f64| load(&one.asked, bps);
    match (found.lower, found.upper) {
        (Some(lower), Some(_)) if is_tester => {
            format!(
                "At least {}{both} with {demand}: the tester carries no more, so the path's capacity is unknown.",
                mbit(lower)
            )
        }
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
        (None, None) => format!("No load was tried long enough to say whether it passes with {demand}."),
    }
}

/// What measuring the found load once more came to.
fn confirmed(found: &GoalResult, one: &SearchRecords) -> Option<String> {
    let tried = one.confirmation(found)?;
    let (load, trial_s, name) = (load(&one.asked, tried.step.load_bps), tried.step.trial_s, &found.goal.name);
    let Some(lost) = tried.seen.loss_of_sent else {
        return Some(format!("{name}: {load} could not be measured once more for {trial_s} s; the record says why."));
    };
    let keeps = match tried.keeps_to(&found.goal) {
        Some(true) => "keeps to it",
        Some(false) => "does not keep to it",
        None => "may keep to it",
    };
    Some(format!(
        "{name}: measured once more for {trial_s} s, {load} {keeps}: {} % lost{}.",
        percent(lost),
        stages::unsent(tried)
    ))
}

fn doubt_sentence(doubt: &SearchDoubt, asked: &SearchAsked) -> Option<String> {
    Some(match doubt {
        SearchDoubt::Irregular => return None,
        SearchDoubt::DeepBuffer { held_s, trial_s } => format!(
            "The path holds packets back for up to {} ms and delivers them after the sender has ended: shorter trials would \
             find more than it carries, so they were made longer, {trial_s} s at last.",
            figure(held_s * 1000.0, 3)
        ),
        SearchDoubt::TesterLimit { bps } => format!(
            "The tester itself carries {}{}: what is found within 3 % of that, or above, is the tester's limit, and not the \
             path's.",
            load(asked, *bps),
            match asked.calibration.as_ref().filter(|_| asked.tester_limit_bps == Some(*bps)) {
                Some(campaign) => format!(" (calibration {})", short(campaign)),
                None => String::new(),
            }
        ),
        SearchDoubt::LateArrivals => {
            "Datagrams arrived more than 50 ms after those behind them, so trials went on to their end: what is missing may \
             only be late."
                .to_owned()
        }
        SearchDoubt::LossAtAnyLoad { loss_ratio, loads_bps: [least, most] } => format!(
            "{} % was lost at loads from {} to {} too: by chance, or because an end gets no CPU, not because of the load; linerate \
             explain says of such a trial where.",
            percent(*loss_ratio),
            load(asked, *least),
            load(asked, *most)
        ),
        SearchDoubt::BusyTester => {
            "What was found to be too much was tried while other programs used the CPUs of an end: the path may carry more; end \
             them and search again."
                .to_owned()
        }
    })
}

fn doubts(one: &SearchRecords, found: &GoalResult) -> String {
    one.doubts(found).iter().map(SearchDoubt::name).collect::<Vec<_>>().join(" ")
}

fn table(one: &SearchRecords) -> Table {
    let frames = one.asked.is_of_frames;
    let rate = |bps: Option<f64>| match bps {
        Some(bps) if frames => one.asked.packets_per_s(bps).map_or_else(none, |n| Cell::number(n, frames_digits(n))),
        Some(bps) => Cell::number(bps / 1e6, 5),
        None => none(),
    };
    let row = |found: &GoalResult| {
        let doubts = doubts(one, found);
        vec![
            Cell::text(&found.goal.name),
            Cell::percent(found.goal.loss_ratio),
            rate(found.lower),
            rate(of_path(one, found, found.upper)),
            rate(of_path(one, found, found.conditional_throughput)),
            // Of datagrams, each record says what they take of the wire.
            found
                .lower
                .filter(|_| frames)
                .and_then(|bps| one.asked.of_line(bps))
                .map_or_else(Cell::default, Cell::percent),
            Cell::count(found.trials as u64),
            Cell::text(if doubts.is_empty() { "-" } else { &doubts }),
        ]
    };
    let unit = if frames { "frames/s" } else { "Mbit/s" };
    let titles = [
        "goal".to_owned(),
        "may lose\n%".to_owned(),
        format!("lower bound\n{unit}"),
        format!("upper bound\n{unit}"),
        format!("conditional throughput\n{unit}"),
        "of the line\n%".to_owned(),
        "trials".to_owned(),
        "doubts".to_owned(),
    ];
    let rows = one.found.iter().map(row);
    Table::new(titles, rows).filled()
}

fn none() -> Cell {
    Cell::text("-")
}

/// The loads in the order in which they were tried, and the bounds of the goals.
fn chart(one: &SearchRecords) -> Chart {
    let most_forgiven = one.found.iter().map(|found| found.goal.loss_ratio).fold(0.0, f64::max);
    let mut numbers = Numbers::new(["trial", "load, Mbit/s", "lost, %", "time, s", "of, s", "for"]);
    let is_low = |tried: &TriedLoad| tried.loss_ratio.map(|loss| loss <= most_forgiven);
    for (number, tried) in one.tried.iter().enumerate() {
        let of = |value: Option<f64>, digits| match value {
            Some(value) => Number::number(figure(value, digits), value).from_records(&tried.record),
            None => Number::from("-"),
        };
        numbers = numbers.row([
            Number::from((number + 1).to_string()),
            of(Some(tried.step.load_bps / 1e6), 5),
            of(tried.loss_ratio.map(|loss| loss * 100.0), 3),
            of(tried.effective_s, 3),
            of(Some(tried.step.trial_s), 3),
            Number::from(tried.step.purpose.name()),
        ]);
    }
    let marks = |is_of: &dyn Fn(&TriedLoad) -> bool| {
        let all = one.tried.iter().enumerate().filter(|(_, tried)| is_of(tried));
        Marks::points(all.map(|(at, tried)| ((at + 1) as f64, tried.step.load_bps / 1e6)).collect::<Vec<_>>())
    };
    let is_bound = |tried: &TriedLoad| tried.step.purpose == Purpose::Bound;
    let lost = format!("at most {} % lost", percent(most_forgiven));
    let kept = if most_forgiven == 0.0 { "nothing lost" } else { &lost };
    let mut panel = Panel::new(
        Axis::linear("load", "Mbit/s")
            .of(if one.asked.is_of_frames { "frames with FCS" } else { "UDP payload" })
            .without_zero(),
    )
    .series(Series::new(kept, marks(&|tried| is_bound(tried) && is_low(tried) == Some(true)), 0).symbol(Symbol::Circle))
    .series(
        Series::new("more lost", marks(&|tried| is_bound(tried) && is_low(tried) == Some(false)), 1)
            .symbol(Symbol::Cross),
    );
    if one.tried.iter().any(|tried| !is_bound(tried)) {
        let confirmations = marks(&|tried| !is_bound(tried));
        panel = panel.series(Series::new("measured once more", confirmations, 2).symbol(Symbol::Diamond));
    }
    for found in &one.found {
        panel = found.lower.into_iter().fold(panel, |panel, lower| {
            panel.reference(Reference::Y(lower / 1e6, format!("{}: lower bound", found.goal.name)))
        });
    }
    let early = one.tried.iter().filter(|tried| tried.ended_early).count();
    let sentence = format!(
        "{} trials, {} s measured{}.",
        one.tried.len(),
        figure(one.measured_s(), 3),
        if early == 0 { String::new() } else { format!("; {early} ended early, decided by what they had lost") }
    );
    Chart::new(format!("What was tried, {}", words(one)), sentence, numbers).x(Axis::whole("trial")).panel(panel)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_between_which_nothing_lies_are_figures() {
        let said = nothing_between([129_999_999.999_999_97, 60e6]);
        assert!(said.contains("the lowest load, 130.0 Mbit/s, and the highest, 60.00 Mbit/s"), "{said}");
    }
}
