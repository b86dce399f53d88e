//! What runs: the queue, and one campaign live.

use std::time::Instant;

use anyhow::Result;
use maud::{Markup, html};

use super::super::Lab;
use super::super::reply::{Reply, kind};
use super::super::request::WebRequest;
use super::super::runs::{Run, State};
use super::{View, ViewReply, refused};
use crate::render::answer::Answer;
use crate::render::watched;

/// The campaigns that were started here.
pub(super) fn list(lab: &Lab, asked: &WebRequest) -> Result<ViewReply> {
    if asked.value("form").is_some() {
        let row = |run: &Run| [run.plan.clone(), words(run), run.by.clone(), run.command.clone()];
        let answer = lab.runs.look(|runs| watched::answer_of_runs(runs.iter().rev().map(row)));
        return View::new("What runs", answer).shown();
    }
    View::new("What runs", Answer::default()).above(table(lab)).forms(&TABLE).shown()
}

/// Of a page whose only table has buttons in it.
const TABLE: [(&str, &str); 4] =
    [("csv&table=1", "CSV"), ("json&table=1", "JSON"), ("markdown", "Markdown"), ("text", "plain text")];

fn words(run: &Run) -> String {
    match &run.state {
        State::Waiting => "waits".to_owned(),
        State::Running(_) => match (&run.watched.trial, run.watched.planned) {
            (Some(trial), Some(planned)) => format!("is at trial {} of {planned}", trial.place),
            (Some(trial), None) => format!("is at trial {}", trial.place),
            (None, _) => "runs".to_owned(),
        },
        State::Ending(_) => "ends; settings are put back".to_owned(),
        State::Ended(None) => "is done".to_owned(),
        State::Ended(Some(why)) => format!("ended: {why}"),
        State::Cancelled => "was taken out of the queue".to_owned(),
    }
}

pub(super) fn table(lab: &Lab) -> Markup {
    lab.runs.look(|runs| {
        html! {
            @if runs.is_empty() {
                p { "Nothing was started here." @if lab.allowed.run { " Start a campaign under " a href="/plans" { "Plans" } "." } }
            } @else {
                div class="wide" role="region" tabindex="0" aria-label="Campaigns that were started here" {
                    table {
                        thead { tr { th scope="col" { "plan" } th scope="col" { "how it goes" } th scope="col" { "started by" } th scope="col" { "command" } th scope="col" { "stop" } } }
                        tbody {
                            @for run in runs.iter().rev() {
                                tr {
                                    td { a href=(format!("/run/{}", run.number)) { (run.plan) } }
                                    td { (words(run)) }
                                    td { (run.by) }
                                    td { code { (run.command) } }
                                    td { @if run.is_alive() && lab.allowed.run { (stop(run)) } }
                                }
                            }
                        }
                    }
                }
            }
        }
    })
}

fn stop(run: &Run) -> Markup {
    let (words, what) = if run.state == State::Waiting { ("Take out", "take") } else { ("Stop", "stop") };
    html! {
        form method="post" action=(format!("/run/{}/stop", run.number)) {
            button type="submit" class="stop" aria-label=(format!("{what} {}", run.plan)) { (words) }
        }
    }
}

fn number(asked: &WebRequest) -> Result<u64> {
    let text = asked.path()[1];
    text.parse().map_err(|_| refused(404, format!("there is no campaign '{text}' among those that were started here")))
}

fn gone(number: u64) -> anyhow::Error {
    refused(
        404,
        format!("there is no campaign {number} among those that were started here; the list of campaigns has all"),
    )
}

/// One of them, live while it runs.
pub(super) fn one(lab: &Lab, asked: &WebRequest) -> Result<ViewReply> {
    let number = number(asked)?;
    let now = Instant::now();
    let is_form = asked.value("form").is_some();
    let made = lab.runs.of_number(number, |run| {
        let title = format!("Campaign of {}", run.plan);
        let command = html! {
            p { "Started by " (run.by) ": " code id="command" { (run.command) } " " button type="button" data-copy="command" hidden { "Copy" } }
        };
        if is_form || !run.is_alive() {
            let parts = watched::parts(&run.watched, now);
            let answer = parts.into_iter().fold(Answer::default(), |all, (_, part)| all.followed_by(part));
            return View::new(title, answer).above(html! { (command) (state(run)) (log(run)) });
        }
        let above = html! {
            (command)
            p id="news" class="news" role="status" aria-live="polite" {}
            noscript { p { a href=(format!("/run/{number}")) { "Look again" } } }
            div data-live=(format!("/run/{number}/live")) data-version=(version(run, now)) { (parts(lab, run, now)) }
        };
        View::new(title, Answer::default()).above(above).forms(&[("markdown", "Markdown, as it is now"), ("text", "plain text")])
    });
    made.ok_or_else(|| gone(number))?.shown()
}

/// It changes with everything that happens, and while a trial runs with every second.
fn version(run: &Run, now: Instant) -> String {
    let seconds = run.watched.trial.as_ref().map_or(0, |trial| now.saturating_duration_since(trial.began).as_secs());
    format!("{}.{seconds}", run.version)
}

/// What changed since the version that the page has.
pub(super) fn live(lab: &Lab, asked: &WebRequest) -> Result<ViewReply> {
    let number = number(asked)?;
    let now = Instant::now();
    let has = asked.value("v");
    let reply = lab.runs.of_number(number, |run| {
        let version = version(run, now);
        if has == Some(version.as_str()) {
            return Reply::new(204, kind::HTML, "");
        }
        let markup = html! {
            (parts(lab, run, now))
            p data-news="" { (watched::news(&run.watched)) }
        };
        let mut reply = Reply::new(200, kind::HTML, markup.into_string()).with("x-version", version);
        // How old the newest event is, where it is one that the page has not: so that a page can tell how late it is.
        let known = has.and_then(|has| has.split('.').next()).and_then(|number| number.parse::<u64>().ok());
        if let Some(heard) = run.heard.filter(|_| known != Some(run.version)) {
            reply = reply.with("x-age-ms", now.saturating_duration_since(heard).as_millis().to_string());
        }
        if run.is_alive() { reply } else { reply.with("x-over", "yes") }
    });
    reply.map(ViewReply::Raw).ok_or_else(|| gone(number))
}

fn parts(lab: &Lab, run: &Run, now: Instant) -> Markup {
    html! {
        (part("stop", &html! { @if lab.allowed.run && run.is_alive() { (stop(run)) } }))
        (part("state", &state(run)))
        @for (name, answer) in watched::parts(&run.watched, now) { (part(name, &answer.inner())) }
        (part("log", &log(run)))
    }
}

fn state(run: &Run) -> Markup {
    html! {
        p {
            "It " (words(run)) "."
            @if let Some(campaign) = &run.watched.campaign {
                " " a href=(format!("/campaign/{campaign}")) { "Its campaign in the store" }
            }
        }
    }
}

fn log(run: &Run) -> Markup {
    html! {
        @if !run.log.is_empty() {
            details { summary { "What it says on standard error" } pre tabindex="0" { @for line in &run.log { (line) "\n" } } }
        }
    }
}

/// A part of the page that is put in place anew where its mark is another.
pub(super) fn part(name: &str, inner: &Markup) -> Markup {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    inner.0.hash(&mut hasher);
    html! { section data-part=(name) data-mark=(format!("{:x}", hasher.finish())) { (inner) } }
}
