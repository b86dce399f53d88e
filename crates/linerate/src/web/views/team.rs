//! A team's benches, jobs and workers, live; one job with how its campaign goes; and taking one back.
//! Knows what the queue's watcher knows; nothing is asked of a machine.

use std::time::Instant;

use anyhow::Result;
use linerate_work::{Cancelled, JobRecord, JobState};
use maud::{Markup, html};

use super::super::Lab;
use super::super::reply::{Reply, kind};
use super::super::request::WebRequest;
use super::running::part;
use super::{View, ViewReply, choice, field, need, plain, raw, refused};
use crate::commands::queue::user;
use crate::measure::ids::now;
use crate::render::answer::Answer;
use crate::render::{jobs as render, json, watched};
use crate::team::{Team, TeamState};

/// How many jobs a page may have: the parameter's value, and the number.
const LIMITS: [(&str, &str); 4] = [("", "100"), ("20", "20"), ("1000", "1000"), ("10000", "10000")];
/// By these states.
const STATES: [(&str, &str); 8] = [
    ("", "that wait or run"),
    ("all", "all"),
    ("waiting", "waiting"),
    ("running", "running"),
    ("done", "done"),
    ("refused", "refused"),
    ("dead", "dead"),
    ("cancelled", "cancelled"),
];
/// The tables of the first page by themselves; it moves, so that its own have no links.
const TABLES: [(&str, &str); 9] = [
    ("csv&table=1", "CSV of benches"),
    ("json&table=1", "JSON of benches"),
    ("csv&table=2", "CSV of jobs"),
    ("json&table=2", "JSON of jobs"),
    ("csv&table=3", "CSV of workers"),
    ("json&table=3", "JSON of workers"),
    ("markdown", "Markdown"),
    ("text", "plain text"),
    ("jobs", "the queue's own JSON Lines of jobs"),
];

fn team(lab: &Lab) -> Result<&Team> {
    lab.team.as_ref().ok_or_else(|| {
        refused(404, "No queue is named: start linerate web with --queue URL to show its benches, jobs and workers.")
    })
}

/// Benches, jobs that wait or run, and workers.
fn parts(known: &TeamState) -> [(&'static str, &'static str, Answer); 3] {
    let progress = |id: &str| known.progress(id);
    let (queue, now_ms) = (&known.queue, now().as_millisecond());
    [
        ("benches", "Benches", render::benches(queue, now_ms, &progress)),
        ("jobs", "Jobs", render::open(queue, now_ms, &progress)),
        ("workers", "Workers", render::workers(&queue.workers, now_ms)),
    ]
}

/// All that goes on.
pub(super) fn overview(lab: &Lab, asked: &WebRequest) -> Result<ViewReply> {
    let team = team(lab)?;
    let (answer, moving, version, records) = team.look(|known| {
        let answer = parts(known).into_iter().fold(Answer::default(), |all, (.., shown)| all.followed_by(shown));
        (answer, moving(known), version(known.version), lines(known.queue.jobs.iter()))
    });
    if asked.value("form") == Some("jobs") {
        return raw(kind::JSON_LINES, records);
    }
    if asked.value("form").is_some() {
        return View::new("Team", answer).shown();
    }
    let above = html! {
        p { "The queue " code { (plain(team.shown())) } ". " a href="/jobs" { "All jobs" } }
        p id="news" class="news" role="status" aria-live="polite" {}
        noscript { p { a href="/team" { "Look again" } } }
        div data-live="/team/live" data-version=(version) { (moving) }
    };
    View::new("Team", Answer::default()).above(above).forms(&TABLES).shown()
}

fn moving(known: &TeamState) -> Markup {
    html! {
        (part("trouble", &trouble(known)))
        @for (name, title, shown) in parts(known) {
            (part(name, &html! { h2 { (title) } (shown.inner()) }))
        }
    }
}

/// Why what stands below may be old.
fn trouble(known: &TeamState) -> Markup {
    html! { @if let Some(error) = &known.error { p class="refused" { (plain(error)) } } }
}

/// It changes with everything that happens, and with each second, for it says for how long things are so.
fn version(of: u64) -> String {
    format!("{of}.{}", now().as_second())
}

fn lines<'a>(jobs: impl Iterator<Item = &'a JobRecord>) -> String {
    jobs.map(|one| json::line(serde_json::json!(one))).collect()
}

/// What changed since the version that the page has.
pub(super) fn overview_live(lab: &Lab, asked: &WebRequest) -> Result<ViewReply> {
    let reply = team(lab)?.look(|known| {
        let version = version(known.version);
        if asked.value("v") == Some(version.as_str()) {
            return Reply::new(204, kind::HTML, "");
        }
        let running = known.queue.jobs.iter().filter(|one| one.state == JobState::Running).count();
        let waiting = known.queue.jobs.iter().filter(|one| one.state == JobState::Waiting).count();
        let news = match &known.error {
            Some(error) => plain(error),
            None => format!("Jobs that run: {running}; that wait: {waiting}."),
        };
        let markup = html! { (moving(known)) p data-news="" { (news) } };
        Reply::new(200, kind::HTML, markup.into_string()).with("x-version", version)
    });
    Ok(ViewReply::Raw(reply))
}

/// Jobs as they are picked: those that have ended, too.
pub(super) fn jobs(lab: &Lab, asked: &WebRequest) -> Result<ViewReply> {
    let limit = match asked.value("limit").map(str::parse::<usize>) {
        None => 100,
        Some(Ok(limit @ 1..=10_000)) => limit,
        Some(_) => return Err(refused(400, "limit is a number from 1 to 10000")),
    };
    let state = asked.value("state").unwrap_or_default();
    if !STATES.iter().any(|(name, _)| *name == state) {
        return Err(refused(400, format!("there is no state '{state}'; it is one of all, {}", names())));
    }
    let is_wanted = |one: &&JobRecord| {
        let is_state = match state {
            "" => !one.state.has_ended(),
            "all" => true,
            state => one.state.name() == state,
        };
        let is = |field: &str, value: &str| asked.value(field).is_none_or(|wanted| wanted == value);
        is_state && is("user", &one.job.user) && is("bench", &one.job.bench)
    };
    let (answer, records, error) = team(lab)?.look(|known| {
        let found = || known.queue.jobs.iter().rev().filter(is_wanted).take(limit);
        let progress = |id: &str| known.progress(id);
        let list = render::list(found(), now().as_millisecond(), &progress, "There is no such job.");
        (list, lines(found()), trouble(known))
    });
    if asked.value("form") == Some("json") && asked.value("table").is_none() {
        return raw(kind::JSON_LINES, records);
    }
    let above = html! {
        (error)
        form class="fields" method="get" {
            (choice("Jobs", "state", asked.value("state"), STATES))
            (field("User", "user", asked.value("user"), "any"))
            (field("Bench", "bench", asked.value("bench"), "any"))
            (choice("At most", "limit", asked.value("limit"), LIMITS))
            button type="submit" { "Show" }
        }
    };
    View::new("Jobs", answer).above(above).forms(&[("json", "JSON Lines, as linerate jobs --json")]).shown()
}

fn names() -> String {
    let names: Vec<&str> = STATES.iter().map(|(name, _)| *name).filter(|name| !["", "all"].contains(name)).collect();
    names.join(", ")
}

fn gone(id: &str) -> anyhow::Error {
    refused(404, format!("the queue has no job '{}'", plain(id)))
}

/// One, live until it has ended.
pub(super) fn job(lab: &Lab, asked: &WebRequest) -> Result<ViewReply> {
    let id = asked.path()[1].to_ascii_uppercase();
    let is_form = asked.value("form").is_some();
    let view = team(lab)?.look(|known| {
        let record = known.job(&id)?;
        if asked.value("form") == Some("json") {
            return Some(raw(kind::JSON, json::line(serde_json::json!(record))));
        }
        let title = format!("Job {}", id.get(..10).unwrap_or(&id));
        let is_open = !record.state.has_ended();
        let stop = html! {
            @if is_open && lab.allowed.run {
                form method="post" action=(format!("/job/{id}/cancel")) {
                    button type="submit" class="stop" { "Cancel this job" }
                }
            }
        };
        if is_form || !is_open {
            let answer = told(known, record).into_iter().fold(Answer::default(), |all, (_, part)| all.followed_by(part));
            return Some(View::new(title, answer).above(links(record)).forms(&JOB).shown());
        }
        let above = html! {
            (links(record)) (stop)
            p id="news" class="news" role="status" aria-live="polite" {}
            noscript { p { a href=(format!("/job/{id}")) { "Look again" } } }
            div data-live=(format!("/job/{id}/live")) data-version=(job_version(known, record)) { (job_parts(known, record)) }
        };
        Some(View::new(title, Answer::default()).above(above).forms(&MOVING_JOB).shown())
    });
    view.unwrap_or_else(|| Err(gone(&id)))
}

const JOB: [(&str, &str); 1] = [("json", "JSON, as linerate jobs show --json")];
const MOVING_JOB: [(&str, &str); 3] = [JOB[0], ("markdown", "Markdown, as it is now"), ("text", "plain text")];

/// Where its figures are, and what it measures.
fn links(record: &JobRecord) -> Markup {
    html! {
        p {
            a href=(format!("/campaign/{}", record.job.id)) { "Its campaign in this server's store" } " · "
            a href="/team" { "Benches, jobs and workers" }
        }
        details { summary { "The plan" } pre tabindex="0" { (linerate_machine::printable::printable(&record.job.source)) } }
    }
}

/// What the queue says of it, and how its campaign goes as far as that was heard.
fn told(known: &TeamState, record: &JobRecord) -> Vec<(&'static str, Answer)> {
    let mut parts = vec![("job", render::one(record))];
    match known.campaigns.get(&record.job.id) {
        Some(campaign) => parts.extend(watched::parts(&campaign.watched, Instant::now())),
        None if record.state == JobState::Running => {
            let sentence = "What it tells from now on is shown here; what was measured before is in its campaign.";
            parts.push(("now", Answer::said(sentence)));
        }
        None => {}
    }
    parts
}

fn job_parts(known: &TeamState, record: &JobRecord) -> Markup {
    html! {
        (part("trouble", &trouble(known)))
        @let told = told(known, record);
        @for name in ["job", "now", "passing", "last", "known", "ended"] {
            @let answer = told.iter().find(|(other, _)| *other == name);
            (part(name, &answer.map_or_else(|| html! {}, |(_, answer)| answer.inner())))
        }
    }
}

fn job_version(known: &TeamState, record: &JobRecord) -> String {
    let campaign = known.campaigns.get(&record.job.id);
    let begun = campaign.and_then(|one| one.watched.trial.as_ref()).map_or(0, |trial| trial.began.elapsed().as_secs());
    format!("{}.{}.{begun}", campaign.map_or(0, |one| one.version), known.version)
}

/// What changed since the version that the page has.
pub(super) fn job_live(lab: &Lab, asked: &WebRequest) -> Result<ViewReply> {
    let id = asked.path()[1].to_ascii_uppercase();
    let reply = team(lab)?.look(|known| {
        let record = known.job(&id)?;
        let (version, has) = (job_version(known, record), asked.value("v"));
        if has == Some(version.as_str()) {
            return Some(Reply::new(204, kind::HTML, ""));
        }
        let campaign = known.campaigns.get(&id);
        let news = match (record.state.has_ended(), campaign) {
            (true, _) => format!("The job is {}.", record.state.name()),
            (false, Some(campaign)) => watched::news(&campaign.watched),
            (false, None) => String::new(),
        };
        let markup = html! { (job_parts(known, record)) p data-news="" { (news) } };
        let mut reply = Reply::new(200, kind::HTML, markup.into_string()).with("x-version", version);
        // How old the newest event is, where it is one that the page has not: so that a page can tell how late it is.
        let seen = has.and_then(|has| has.split('.').next()).and_then(|number| number.parse::<u64>().ok());
        if let Some((campaign, heard)) = campaign.and_then(|one| Some((one, one.heard?)))
            && seen != Some(campaign.version)
        {
            reply = reply.with("x-age-ms", heard.elapsed().as_millis().to_string());
        }
        Some(if record.state.has_ended() { reply.with("x-over", "yes") } else { reply })
    });
    reply.map(ViewReply::Raw).ok_or_else(|| gone(&id))
}

/// Takes a job back.
pub(super) fn cancel(lab: &Lab, asked: &WebRequest) -> Result<ViewReply> {
    let team = team(lab)?;
    need(lab.allowed.run, "--allow-run", "these pages are read-only")?;
    let id = asked.path()[1].to_ascii_uppercase();
    team.look(|known| known.job(&id).map(drop)).ok_or_else(|| gone(&id))?;
    let by = format!("{} from {} by linerate web", user(None)?, asked.who);
    match team.cancel(&id, &by).map_err(|error| refused(502, error.to_string()))? {
        Cancelled::TooLate(state) => Err(refused(409, format!("the job has ended already: it is {}", state.name()))),
        Cancelled::BeforeItBegan | Cancelled::WhileItRuns => Ok(ViewReply::Raw(Reply::see(&format!("/job/{id}")))),
    }
}
