//! `linerate history`: a metric over campaigns, and where it changed.
//! Knows the selection; change points are found in `results`, shown in `render`.

use std::process::ExitCode;

use anyhow::{Result, bail};
use linerate_results::figure::Metric;
use linerate_results::history::{self, Series};
use linerate_results::select::Selection;
use linerate_results::store::Store;

use super::compare::metric;
use super::selection::{of_last_plan, selection, unread, why_none};
use super::{open_store, width};
use crate::cli::{HistoryArgs, SharedArgs, TableArgs};
use crate::output::{data, out, say};
use crate::render;

/// Shows the history.
pub(crate) fn history(arguments: &HistoryArgs, shared: &SharedArgs) -> Result<ExitCode> {
    let metric = metric(&arguments.metric)?;
    let store = open_store(shared)?;
    let series = series(&store, metric, arguments.selection.as_deref(), arguments.last.into())?;
    let of_all = Selection::default();
    let wanted = arguments.selection.as_deref().map(|words| selection(&store, words)).transpose()?.unwrap_or(of_all);
    let words = arguments.selection.as_deref().unwrap_or("the last plan");
    let named = wanted.levels.len();
    let wanted = of_last_plan(&store, wanted)?;
    if let Some((_, plan)) = wanted.levels.get(named) {
        say(format_args!("linerate: of the last plan that ran, {plan}; :plan=NAME picks another"));
    }
    if let Some(what) = unread(&store, words, &wanted)? {
        say(format_args!("linerate: left out: {what}"));
    }
    match arguments.output {
        TableArgs { json: true, .. } => data!("{}", render::history::json(metric, &series)),
        TableArgs { csv: true, .. } => data!("{}", render::history::csv(metric, &series)),
        TableArgs { markdown: true, .. } => out!("{}", render::history::answer(metric, &series).markdown()),
        _ => out!("{}", render::history::answer(metric, &series).text(width())),
    }
    Ok(ExitCode::SUCCESS)
}

/// The metric over the last `last` campaigns of what these words pick, or of the last plan.
pub(crate) fn series(store: &Store, metric: &Metric, words: Option<&str>, last: usize) -> Result<Vec<Series>> {
    let wanted = match words {
        Some(words) => selection(store, words)?,
        None => Selection::default(),
    };
    let of_any_plan = wanted.clone();
    let wanted = of_last_plan(store, wanted)?;
    let points = store.points(metric, &wanted, last)?;
    if points.is_empty() {
        if let Some(words) = words.filter(|_| store.observations(&wanted).is_ok_and(|all| all.is_empty())) {
            why_none(store, words, &wanted)?;
        }
        if let Some(other) = store.points(metric, &of_any_plan, 1)?.first() {
            let plan = other.around.get("plan").unwrap_or_default();
            bail!(
                "no record of the last plan that ran has the figure {}; others have, like :plan={plan}",
                metric.short()
            );
        }
        let Some(words) = words else {
            bail!("no record has the figure {}; 'linerate records list' shows what there is", metric.short());
        };
        bail!(
            "none of what '{words}' picks has the figure {}; :plan=NAME picks all campaigns of a plan",
            metric.short()
        );
    }
    Ok(history::history(&points, last))
}
