//! Campaigns: the list, and one with all that its records say together.

use anyhow::Result;
use linerate_machine::printable::printable;
use linerate_results::select::Filter;
use linerate_results::store::Summary;
use maud::html;

use super::super::Lab;
use super::super::reply::kind;
use super::super::request::WebRequest;
use super::actions::why_not_resumed;
use super::records::query;
use super::{View, ViewReply, choice, field, is_form, left_out, plain, raw, refused, without};
use crate::commands::report::{measured_by, of_campaign};
use crate::render;
use crate::render::answer::Answer;
use crate::render::number::{counted, second};

/// How many campaigns a page may have: the parameter's value, and the number.
const LIMITS: [(&str, &str); 4] = [("", "50"), ("10", "10"), ("200", "200"), ("1000", "1000")];
/// A page of more records than these would only be slow.
const RECORDS: usize = 2000;

/// The campaigns, newest first.
pub(super) fn list(lab: &Lab, asked: &WebRequest) -> Result<ViewReply> {
    let store = lab.store()?;
    let limit = match asked.value("limit").map(str::parse::<u32>) {
        None => 50,
        Some(Ok(limit @ 1..=1000)) => limit,
        Some(_) => return Err(refused(400, "limit is a number from 1 to 1000")),
    };
    let (mut campaigns, unreadable) = store.campaigns(asked.value("plan"), Some(limit))?;
    campaigns.reverse();
    if is_form(asked, "json") {
        return without(raw(kind::JSON_LINES, render::list::campaigns_json(&campaigns)), &unreadable);
    }
    let digits =
        store.digits_of_campaigns(&campaigns.iter().map(|one| one.campaign.id.as_str()).collect::<Vec<_>>())?;
    let above = html! {
        form class="fields" method="get" {
            (field("Plan", "plan", asked.value("plan"), "any"))
            (choice("At most", "limit", asked.value("limit"), LIMITS))
            button type="submit" { "Show" }
        }
        @if campaigns.is_empty() { p { "No such campaigns." } }
        (left_out(&unreadable))
    };
    View::new("Campaigns", render::list::answer_of_campaigns(&campaigns, digits))
        .above(above)
        .forms(&[("json", "JSON Lines")])
        .shown()
}

/// A few of them, newest first.
pub(super) fn latest(campaigns: &[Summary], digits: usize) -> Answer {
    render::list::answer_of_campaigns(campaigns, digits)
}

/// One, whose records stand in tables as `linerate run` prints them.
pub(super) fn one(lab: &Lab, asked: &WebRequest) -> Result<ViewReply> {
    let store = lab.store()?;
    let id = asked.path()[1].to_ascii_uppercase();
    let Some(campaign) = store.campaign(&id)? else {
        return Err(refused(404, format!("there is no campaign {id}")));
    };
    let filter = Filter { campaign: Some(id.clone()), ..Filter::default() };
    let ids = store.identifiers(&filter)?;
    if is_form(asked, "csv") {
        let (records, unreadable) = store.select_in_brief(&filter)?;
        return without(raw(kind::CSV, render::csv::csv(&records)), &unreadable);
    }
    let (answer, unreadable) = match ids.len() {
        0 => (Answer::said("It has no records yet."), Vec::new()),
        1..=RECORDS => of_campaign(&store, campaign.clone(), &filter)?,
        many => {
            let said = format!("It has {many} records, more than this page shows; the list of records has them.");
            (Answer::said(said), Vec::new())
        }
    };
    let run = lab.runs.look(|runs| {
        let of_this = runs.iter().rfind(|run| run.is_of(&id));
        of_this.map(|run| (run.number, run.is_alive(), run.by.clone()))
    });
    let is_resumable = why_not_resumed(lab, &campaign).is_none();
    let (started, ended) = (second(&campaign.started_at), campaign.finished_at.as_deref().map(second));
    let (plan_name, target, host, planned) =
        (campaign.plan.clone(), campaign.target.clone(), campaign.host.clone(), campaign.planned);
    let (command, plan) = measured_by(campaign);
    let above = html! {
        @if let Some((number, is_alive, by)) = &run {
            p class="said" {
                @if *is_alive { "It runs now, or waits for its turn: " } @else { "It was started here: " }
                a href=(format!("/run/{number}")) { "how it goes" } ". Started by " (by) "."
            }
        }
        p {
            "Plan " strong { (plain(&plan_name)) } ", target " (plain(&target)) ", host " (plain(&host)) ". Begun " (started) " UTC"
            @if let Some(ended) = &ended { ", ended " (ended) " UTC" } @else { ", not finished" }
            "; " (counted(ids.len(), "record"))
            @if planned > 0 { ", " (counted(planned as usize, "trial")) " planned" }
            "."
        }
        p {
            a href=(format!("/records?{}", query(&[("q", &id)]))) { "Its records" } " · "
            a href=(format!("/report?{}", query(&[("records", &id)]))) { "A report of it" } " · "
            a href=(format!("/compare?{}", query(&[("candidate", &id)]))) { "Compare it" } " · "
            a href=(format!("/history?{}", query(&[("records", &format!(":plan={plan_name}"))]))) { "History of its plan" }
        }
        p { "Measured by " code id="command" { (plain(&command)) } " " button type="button" data-copy="command" hidden { "Copy" } }
        @if is_resumable && lab.allowed.run {
            form method="post" action=(format!("/campaign/{id}/resume")) { button type="submit" { "Resume" } }
        }
        (left_out(&unreadable))
        @if !plan.is_empty() {
            details { summary { "The plan" } pre tabindex="0" { (printable(&plan)) } }
        }
    };
    let title = format!("Campaign {}", id.get(..10).unwrap_or(&id));
    View::new(title, answer).above(above).forms(&[("csv", "CSV of whole rows")]).shown()
}
