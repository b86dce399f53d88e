//! Is the difference real, since when is it so, and a document of it.

use anyhow::Result;
use linerate_results::compare::{CompareOptions, Comparison};
use linerate_results::figure::METRICS;
use linerate_results::record::Record;
use linerate_results::store::Store;
use maud::{Markup, html};

use super::super::Lab;
use super::super::reply::{Reply, kind};
use super::super::request::WebRequest;
use super::records::query;
use super::{View, ViewReply, choice, field, is_form, raw, refusal, refused, status_of};
use crate::commands::compare::{metric, percentage, sides};
use crate::commands::history::series;
use crate::commands::report::html_of;
use crate::commands::selection;
use crate::render;
use crate::render::answer::Answer;
use crate::render::compare::{ComparisonView as Compared, csv, json};

/// The most records of a side that have a point each; of more, medians are drawn.
const POINTS: usize = 500;
/// The most campaigns of a history, as the command has it.
const LAST: usize = 1000;

/// Two sides held against each other.
pub(super) fn compare(lab: &Lab, asked: &WebRequest) -> Result<ViewReply> {
    let (baseline, candidate) = (asked.value("baseline"), asked.value("candidate"));
    let above = |words: [Option<&str>; 2]| {
        html! {
            form class="fields" method="get" {
                (field("Baseline", "baseline", words[0], "last~1"))
                (field("Candidate", "candidate", words[1], "last"))
                (metrics(asked.value("metric"), "default metrics"))
                (field("Margin", "margin", asked.value("margin"), "1%"))
                (field("On purpose (--on)", "on", asked.value("on"), "target.kernel"))
                button type="submit" { "Compare" }
            }
        }
    };
    let (Some(baseline), Some(candidate)) = (baseline, candidate) else {
        let above = html! {
            p { "A campaign (" code { "last" } ", " code { "last~1" } ", a plan's name, the beginning of an identifier), and levels of its factors: " code { "last:rate=300M" } "." }
            (above([baseline.or(Some("last~1")), candidate.or(Some("last"))]))
        };
        return View::new("Compare", Answer::default()).above(above).shown();
    };
    let store = lab.store()?;
    let comparison = match compared(&store, asked, [baseline, candidate]) {
        Ok(comparison) => comparison,
        // Where a person asked, what was asked stands above to be mended.
        Err(error) if asked.value("form").is_none() => {
            let above = html! { (above([Some(baseline), Some(candidate)])) (refusal(&error)) };
            return View::new("Compare", Answer::default()).above(above).status(status_of(&error)).shown();
        }
        Err(error) => return Err(error),
    };
    let shown = Compared { comparison: &comparison, names: [baseline.to_owned(), candidate.to_owned()], gates: &[] };
    if is_form(asked, "json") {
        return raw(kind::JSON, json(&shown));
    }
    if is_form(asked, "csv") {
        return raw(kind::CSV, csv(&shown));
    }
    let records = [baseline, candidate].map(|words| few(&store, words));
    let answer = match records {
        [Ok(baseline), Ok(candidate)] => render::pages::comparison(&shown, [&baseline, &candidate]),
        _ => render::pages::comparison(&shown, [&[], &[]]),
    };
    let above = html! {
        (above([Some(baseline), Some(candidate)]))
        p {
            a href=(asked.address(&[("baseline", candidate), ("candidate", baseline)])) { "Swap sides" } " · "
            a href=(format!("/report?{}", query(&[("records", baseline), ("candidate", candidate)]))) { "A report of this comparison" }
        }
    };
    View::new("Compare", answer).above(above).forms(&[("json", "JSON"), ("csv", "CSV")]).shown()
}

fn compared(store: &Store, asked: &WebRequest, names: [&str; 2]) -> Result<Comparison> {
    let purposes = asked.value("on").into_iter().flat_map(|names| names.split([',', ' ']));
    let options = CompareOptions {
        compared: purposes.filter(|name| !name.is_empty()).map(str::to_owned).collect(),
        metrics: asked.value("metric").map(metric).transpose()?.into_iter().collect(),
        margin: asked.value("margin").map(|text| percentage("the margin", text)).transpose()?,
        halves: false,
    };
    sides(store, names, options, false)
}

/// The records of a side in brief, if they are few.
fn few(store: &Store, words: &str) -> Result<Vec<Record>> {
    let filter = selection::filter(store, words)?;
    let ids = store.identifiers(&filter)?;
    if ids.len() > POINTS { Ok(Vec::new()) } else { Ok(store.select_in_brief(&filter)?.0) }
}

fn metrics(now: Option<&str>, none: &'static str) -> Markup {
    let all = METRICS.iter().map(|metric| (metric.short(), metric.title.as_str()));
    choice("Figure", "metric", now, std::iter::once(("", none)).chain(all))
}

/// A figure over campaigns.
pub(super) fn history(lab: &Lab, asked: &WebRequest) -> Result<ViewReply> {
    let store = lab.store()?;
    let metric = metric(asked.value("metric").unwrap_or("throughput"))?;
    let words = asked.value("records");
    let last = match asked.value("last").map(str::parse::<usize>) {
        None => LAST,
        Some(Ok(last @ 1..=2000)) => last,
        Some(_) => return Err(refused(400, "last is a number from 1 to 2000")),
    };
    let series = series(&store, metric, words, last)?;
    if is_form(asked, "json") {
        return raw(kind::JSON, render::history::json(metric, &series));
    }
    if is_form(asked, "csv") {
        return raw(kind::CSV, render::history::csv(metric, &series));
    }
    let above = html! {
        form class="fields" method="get" {
            (metrics(asked.value("metric"), "throughput"))
            (field("Records", "records", words, ":plan=tcp,direction=rx"))
            (field("Last campaigns", "last", asked.value("last"), "1000"))
            button type="submit" { "Show" }
        }
        @if words.is_none() { p { "Of the plan that ran last; other records are picked as " code { ":plan=NAME" } "." } }
    };
    View::new("History", render::history::pictured(metric, &series))
        .above(above)
        .forms(&[("json", "JSON"), ("csv", "CSV")])
        .shown()
}

/// A report as a file. What it says does not rest on scripts, and it gets none.
pub(super) fn report(lab: &Lab, asked: &WebRequest) -> Result<ViewReply> {
    let words: Vec<String> =
        [asked.value("records"), asked.value("candidate")].into_iter().flatten().map(str::to_owned).collect();
    if words.is_empty() {
        return Err(refused(400, "a report is of records: records=last, or two sides: records=last~1&candidate=last"));
    }
    let html = html_of(&lab.store()?, &words)?;
    let reply = Reply::new(200, kind::HTML, html)
        .with("content-security-policy", render::report::policy())
        .with("content-disposition", "attachment; filename=\"linerate-report.html\"");
    Ok(ViewReply::Raw(reply))
}
