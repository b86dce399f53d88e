//! Records: the list, one of them, and what it shows.

use anyhow::Result;
use linerate_results::record::Record;
use linerate_results::select::{Filter, Order, Sort};
use linerate_results::store::{Listed, Store, StoreError};
use linerate_trial::spec::Workload;
use maud::html;

use super::super::Lab;
use super::super::reply::kind;
use super::super::request::WebRequest;
use super::{View, ViewReply, choice, field, is_form, left_out, plain, raw, refused, without};
use crate::commands::report::measured_by;
use crate::commands::selection;
use crate::render;
use crate::render::explain::Explained;

/// Records on a page by default, and at most.
const USUAL: u32 = 50;
const MOST: u32 = 1000;

const SORTS: [(&str, Sort); 4] = [
    ("time", Sort::Time),
    ("throughput", Sort::Throughput),
    ("loss", Sort::Loss),
    ("transactions", Sort::Transactions),
];

/// The records that a filter wants, in any order, page by page.
pub(super) fn list(lab: &Lab, asked: &WebRequest) -> Result<ViewReply> {
    let store = lab.store()?;
    let (filter, page) = filter(&store, asked)?;
    if is_form(asked, "json") {
        let mut lines = Vec::new();
        let unreadable = store.each(&filter, |record, text| lines.push(render::json::line_of(&record, &text)))?;
        lines.reverse();
        return without(raw(kind::JSON_LINES, lines.concat()), &unreadable);
    }
    if is_form(asked, "csv") {
        let (mut records, unreadable) = store.select_in_brief(&filter)?;
        records.reverse();
        return without(raw(kind::CSV, render::csv::csv(&records)), &unreadable);
    }
    let (mut listed, unreadable) = store.list(&filter)?;
    listed.reverse();
    let ids = |of: fn(&Listed) -> &str| listed.iter().map(of).collect::<Vec<_>>();
    let digits = [store.digits_of_records(&ids(|one| &one.id))?, store.digits_of_campaigns(&ids(|one| &one.campaign))?];
    let (now, order) = filter.sort.unwrap_or((Sort::Time, Order::Descending));
    let answer = render::list::answer(&listed, digits, |by| {
        let name = SORTS.iter().find(|(_, sort)| *sort == by).map_or("time", |(name, _)| name);
        let is_down = by == now && order == Order::Descending;
        let link = asked.address(&[("sort", name), ("order", if is_down { "up" } else { "down" }), ("page", "")]);
        let told = (by == now).then_some(if order == Order::Ascending { "ascending" } else { "descending" });
        (link, told)
    });
    let is_full = filter.limit == Some(listed.len() as u32);
    let workloads = std::iter::once(("", "any")).chain(Workload::ALL.map(|one| (one.name(), one.name())));
    let above = html! {
        form class="fields" method="get" {
            (field("Records", "q", asked.value("q"), "last:direction=rx"))
            (field("Plan", "plan", asked.value("plan"), "any"))
            (choice("Workload", "workload", asked.value("workload"), workloads))
            (field("Since", "since", asked.value("since"), "2h, 2026-11-21"))
            (field("At most", "limit", asked.value("limit"), "50"))
            button type="submit" { "Show" }
        }
        @if listed.is_empty() { p { "No such records." } }
        (left_out(&unreadable))
        @if page > 0 || is_full {
            p {
                @if page > 0 { a rel="prev" href=(asked.address(&[("page", &page.saturating_sub(1).to_string())])) { "Previous" } " " }
                "Page " (page + 1) " "
                @if is_full { a rel="next" href=(asked.address(&[("page", &(page + 1).to_string())])) { "Next" } }
            }
        }
        @if let Some(words) = asked.value("q") {
            p {
                a href=(format!("/report?{}", query(&[("records", words)]))) { "A report of these" } " · "
                a href=(format!("/history?{}", query(&[("records", words)]))) { "Their history" } " · "
                a href=(format!("/compare?{}", query(&[("candidate", words)]))) { "Compare them" }
            }
        }
    };
    View::new("Records", answer)
        .above(above)
        .forms(&[("csv", "CSV of whole rows"), ("json", "JSON Lines of whole records")])
        .shown()
}

/// Names and values as a query.
pub(super) fn query(values: &[(&str, &str)]) -> String {
    form_urlencoded::Serializer::new(String::new()).extend_pairs(values).finish()
}

fn filter(store: &Store, asked: &WebRequest) -> Result<(Filter, u32)> {
    let workload = match asked.value("workload") {
        None => None,
        Some(text) => Some(Workload::parse(text).ok_or_else(|| {
            refused(
                400,
                format!("there is no workload '{text}'; they are {}", Workload::ALL.map(Workload::name).join(", ")),
            )
        })?),
    };
    let number = |name: &str, usual: u32, most: u32| match asked.value(name).map(str::parse::<u32>) {
        None => Ok(usual),
        Some(Ok(number)) if number <= most => Ok(number),
        Some(_) => Err(refused(400, format!("{name} is a number up to {most}"))),
    };
    let limit = number("limit", USUAL, MOST)?.max(1);
    let page = number("page", 0, 1_000_000)?;
    let sort = match asked.value("sort") {
        None => None,
        Some(text) => {
            let (_, sort) = SORTS.iter().find(|(name, _)| *name == text).ok_or_else(|| {
                refused(400, format!("records are sorted by {}", SORTS.map(|(name, _)| name).join(", ")))
            })?;
            let order = if asked.value("order") == Some("up") { Order::Ascending } else { Order::Descending };
            Some((*sort, order))
        }
    };
    // What narrows a list further, or turns it round, needs all that the words pick.
    let by_words_alone = ["plan", "workload", "since", "sort"].iter().all(|name| asked.value(name).is_none());
    let most = if by_words_alone { limit as usize * (page as usize + 1) } else { usize::MAX };
    let picked = match asked.value("q") {
        Some(words) => selection::filter_of_newest(store, words, most)?,
        None => Filter::default(),
    };
    let since_ms = asked.value("since").map(selection::unix_ms).transpose()?;
    let filter = Filter {
        plan: asked.value("plan").map(str::to_owned),
        workload,
        since_ms: since_ms.max(picked.since_ms),
        limit: Some(limit),
        offset: limit.saturating_mul(page),
        sort,
        ..picked
    };
    Ok((filter, page))
}

/// The record of the identifier in the path.
fn record(store: &Store, asked: &WebRequest) -> Result<Record> {
    let id = asked.path()[1].to_ascii_uppercase();
    match store.record(&id) {
        Ok(record) => Ok(record),
        Err(StoreError::Unknown { .. }) => Err(refused(404, format!("there is no record {id}"))),
        Err(error) => Err(error.into()),
    }
}

/// All that a record says.
pub(super) fn one(lab: &Lab, asked: &WebRequest) -> Result<ViewReply> {
    let store = lab.store()?;
    let record = record(&store, asked)?;
    if is_form(asked, "json") {
        return raw(kind::JSON, render::json::json(std::slice::from_ref(&record)));
    }
    if is_form(asked, "csv") {
        return raw(kind::CSV, render::csv::csv(std::slice::from_ref(&record)));
    }
    let command = match store.campaign(&record.campaign) {
        Err(StoreError::Unreadable { .. }) => None,
        campaign => campaign?.map(|campaign| measured_by(campaign).0),
    };
    let is_whole = asked.value("all").is_some();
    let id = &record.id;
    let above = html! {
        p {
            a href=(format!("/record/{id}/explain")) { "Explain it" } " · "
            a href=(format!("/campaign/{}", record.campaign)) { "Its campaign" } " · "
            a href=(format!("/report?{}", query(&[("records", id)]))) { "A report of it" } " · "
            @if is_whole { a href=(asked.address(&[("all", "")])) { "Without what both machines have alike" } }
            @else { a href=(asked.address(&[("all", "yes")])) { "With every sysctl and offload" } }
        }
        @if let Some(command) = command {
            p { "Measured by " code id="command" { (plain(&command)) } " " button type="button" data-copy="command" hidden { "Copy" } }
        }
    };
    let title = format!("Record {}", id.get(..10).unwrap_or(id));
    View::new(title, render::pages::record(&record, is_whole))
        .above(above)
        .forms(&[("json", "JSON"), ("csv", "CSV")])
        .shown()
}

/// Where its packets went, and what limits it.
pub(super) fn explained(lab: &Lab, asked: &WebRequest) -> Result<ViewReply> {
    let record = record(&lab.store()?, asked)?;
    let explained = Explained::of(&record, None);
    if is_form(asked, "json") {
        return raw(kind::JSON, explained.json());
    }
    let id = &record.id;
    let above = html! { p { a href=(format!("/record/{id}")) { "All that the record says" } } };
    let title = format!("Record {} explained", id.get(..10).unwrap_or(id));
    View::new(title, render::pages::explained(&explained, &record)).above(above).forms(&[("json", "JSON")]).shown()
}
