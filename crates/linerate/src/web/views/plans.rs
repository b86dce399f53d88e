//! Plans: the list, one of them with the form that starts it, and what it would measure.

use std::path::{Path, PathBuf};

use anyhow::Result;
use linerate_machine::printable::printable;
use linerate_plan::{Changes, Plan};
use linerate_results::record::digest;
use maud::{Markup, html};

use super::super::Lab;
use super::super::reply::kind;
use super::super::request::WebRequest;
use super::records::query;
use super::{View, ViewReply, choice, field, is_form, need, plain, raw, refused};
use crate::commands::plan_request::check_idle;
use crate::commands::{dry_run, plans};
use crate::defaults;
use crate::render;
use crate::render::answer::Answer;
use crate::render::matrix::Matrix;

/// The most plan files of a folder that are listed.
const FILES: usize = 200;

/// The files of plans in the named folders.
fn files(lab: &Lab) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for folder in &lab.plans {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let is_plan = |path: &PathBuf| {
            path.extension().is_some_and(|end| end == "toml") && !path.ends_with(defaults::FILE) && path.is_file()
        };
        all.extend(entries.filter(is_plan).take(FILES));
    }
    all.sort();
    all
}

/// The plan of this name: a built-in one, or a file of the folders, and no other file.
pub(super) fn find(lab: &Lab, name: &str) -> Result<Plan> {
    let is_file = name.contains('/') || Path::new(name).extension().is_some_and(|end| end == "toml");
    if is_file && !files(lab).iter().any(|file| file.as_os_str() == name) {
        return Err(refused(404, format!("'{name}' is in none of the folders that --plans names")));
    }
    plans::find(name).map_err(|error| refused(404, error.to_string()))
}

/// The words by which `linerate run` carries this plan out and no other: a file may be edited before its turn comes.
pub(super) fn words(name: &str, plan: &Plan) -> Vec<String> {
    let is_file = name != INPUT && linerate_plan::folder(name).is_some();
    let digest = is_file.then(|| format!("--plan-sha256={}", digest(&plan.source)));
    [name.to_owned()].into_iter().chain(digest).collect()
}

/// What a plan of this name and text is called here: as built in, or by its file.
pub(super) fn of_source(lab: &Lab, name: &str, source: &str) -> Option<String> {
    let is_same = |found: &str| plans::find(found).is_ok_and(|plan| plan.name == name && plan.source == source);
    let built_in = linerate_plan::builtin_names().filter(|other| *other == name).map(str::to_owned);
    let files = files(lab).into_iter().map(|file| file.display().to_string());
    built_in.chain(files).find(|found| is_same(found))
}

/// All that can be measured.
pub(super) fn list(lab: &Lab, asked: &WebRequest) -> Result<ViewReply> {
    let answer = render::plans::answer(&linerate_plan::builtins())?;
    let files = files(lab);
    let above = html! {
        details {
            summary { "A plan of your own" }
            @if lab.allowed.run && lab.allowed.commands { (editor(lab, asked)) }
            @else {
                p { "Start linerate web with --plans FOLDER to show plans of your own, or with --allow-run and --allow-commands to write one here." }
            }
        }
        @if !files.is_empty() {
            h2 { "Plan files" }
            ul { @for file in &files { @let name = file.display().to_string(); li { a href=(format!("/plan/{}", segment(&name))) { (name) } } } }
            h2 { "Built in" }
        }
    };
    View::new("Plans", answer).above(above).shown()
}

/// What `linerate run` calls a plan that says no name, read from where a posted one comes.
const UNNAMED: &str = "stdin";
/// How `linerate run` is told to read it from there.
pub(super) const INPUT: &str = "/dev/stdin";
/// What there is before anything is written.
const BEGUN: &str = r#"format = "linerate.plan/1"
name = "mine"
workload = "tcp-stream"

[options]
duration = "5s"

[factors]
direction = ["tx", "rx"]
"#;

/// Where a plan is written, tried out and started.
fn editor(lab: &Lab, asked: &WebRequest) -> Markup {
    let machines = || lab.machines.iter().map(|(name, _)| (name.as_str(), name.as_str()));
    let now = |name: &str| asked.field(name);
    html! {
        form class="fields" method="post" action="/plans/try" {
            label class="whole" {
                "Its file"
                textarea name="text" rows="14" cols="90" spellcheck="false" { (printable(now("text").unwrap_or(BEGUN))) }
            }
            (choice("Target", "target", now("target"), machines()))
            (choice("Host", "host", now("host"), std::iter::once(("", "default")).chain(machines())))
            label { "Options, one a line" textarea name="set" rows="3" cols="30" { (printable(&asked.lines("set").join("\n"))) } }
            (field("Repeats", "repeat", now("repeat"), "as the plan says"))
            button type="submit" { "Show trials" }
            @if !lab.machines.is_empty() { button type="submit" formaction="/runs" { "Start" } }
        }
        @if lab.machines.is_empty() {
            p class="said" { "No machine is named, so nothing can be started: start linerate web with --machine ENDPOINT." }
        }
    }
}

/// The plan that was posted.
pub(super) fn posted(asked: &WebRequest) -> Result<Option<Plan>> {
    let Some(text) = asked.field("text") else { return Ok(None) };
    // A form's lines end as those of mail do.
    let text = format!("{}\n", text.replace("\r\n", "\n"));
    Ok(Some(Plan::parse(&text, "plan", UNNAMED)?))
}

/// The trials of a plan that was posted; nothing is kept of it, and no machine is asked.
pub(super) fn tried(lab: &Lab, asked: &WebRequest) -> Result<ViewReply> {
    need_to_post(lab)?;
    let told = || -> Result<(Answer, usize)> {
        let plan = posted(asked)?.ok_or_else(|| refused(400, "which plan? Write its text"))?;
        let changes = changes(asked)?;
        let trials = plan.trials_of(&changes)?;
        Ok(shown(&dry_run::matrix(&plan, &changes, &trials, &[])))
    };
    let (told, status) = match told() {
        Ok((answer, more)) => {
            let told = html! {
                h2 { "Its trials" }
                @if more > 0 { p { "These are the first " (TRIALS) "; " (more) " more are not shown." } }
                (answer.inner())
            };
            (told, 200)
        }
        Err(error) => (html! { p class="refused" role="alert" { (plain(&format!("{error:#}"))) } }, 400),
    };
    let above = html! {
        @if status == 200 { p { "No machine was asked: what one does not have is told when the plan is started." } }
        (editor(lab, asked))
        (told)
    };
    View::new("A plan of your own", Answer::default()).above(above).status(status).shown()
}

/// A text that is posted may run programs, whatever it says.
pub(super) fn need_to_post(lab: &Lab) -> Result<()> {
    need(lab.allowed.run, "--allow-run", "these pages are read-only")?;
    need(lab.allowed.commands, "--allow-commands", "plans are those that --plans names, and the built-in ones")
}

/// A text as one part of a path.
pub(super) fn segment(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>().replace('+', "%20")
}

/// One as its file has it, and the form that shows or starts it.
pub(super) fn one(lab: &Lab, asked: &WebRequest) -> Result<ViewReply> {
    let name = asked.path()[1].to_owned();
    let plan = find(lab, &name)?;
    let machines = || lab.machines.iter().map(|(name, _)| (name.as_str(), name.as_str()));
    let can_start = lab.allowed.run && !lab.machines.is_empty();
    let above = html! {
        p { (render::html::with_code(&plan.about)) "." }
        @if !plan.why.is_empty() { p { (render::html::with_code(&plan.why)) } }
        form class="fields" method="get" action=(format!("/plan/{}/matrix", segment(&name))) {
            @if can_start {
                input type="hidden" name="plan" value=(name);
                (choice("Target", "target", None, machines()))
                (choice("Host", "host", None, std::iter::once(("", "default")).chain(machines())))
            }
            label {
                "Options, one a line"
                textarea name="set" rows="3" cols="30" placeholder="rate=50M..500M:50M\nduration=5s" { (printable(&asked.lines("set").join("\n"))) }
            }
            (field("Repeats", "repeat", asked.value("repeat"), "as the plan says"))
            @if can_start { (field("Precision", "precision", None, "1%")) }
            button type="submit" { "Show trials" }
            @if can_start { button type="submit" formmethod="post" formaction="/runs" { "Start" } }
        }
        @if !lab.allowed.run {
            p class="said" { "Read-only: start linerate web with --allow-run to run plans." }
        } @else if lab.machines.is_empty() {
            p class="said" { "No machine is named: start linerate web with --machine ENDPOINT, or name a target in linerate.toml." }
        } @else if !lab.allowed.settings {
            p { "Machines' settings are left alone here: a plan that changes some needs --allow-settings." }
        }
        h2 { "Its file" }
    };
    View::new(format!("Plan {}", plan.name), Answer::laid_out(render::plans::plan_text(&plan))).above(above).shown()
}

/// What a form changes in a plan.
pub(super) fn changes(asked: &WebRequest) -> Result<Changes> {
    let pair = |line: &&str| match line.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() && !name.starts_with('-') => {
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err(refused(400, format!("'{line}' is not an option; write NAME=VALUE, like rate=300M"))),
    };
    let overrides = asked.lines("set").iter().map(pair).collect::<Result<_>>()?;
    let text = if asked.is_post { asked.field("repeat") } else { asked.value("repeat") };
    let repeat = match text.map(str::parse::<u32>) {
        None => None,
        Some(Ok(repeat @ 1..=100_000)) => Some(repeat),
        Some(_) => return Err(refused(400, "repeats are a number from 1 to 100000")),
    };
    Ok(Changes { overrides, repeat, ..Changes::default() })
}

/// The most trials on a page; a browser draws no more in a moment.
const TRIALS: usize = 2000;

/// The first of the trials, what all come to, and how many more there are.
fn shown(matrix: &Matrix<'_>) -> (Answer, usize) {
    let (first, rest) = matrix.trials.split_at(matrix.trials.len().min(TRIALS));
    let shown = Matrix { trials: first, conclusion: matrix.conclusion.clone(), ..*matrix };
    (render::matrix::answer(&shown), rest.len())
}

/// Its trials in their order. No machine is asked.
pub(super) fn matrix(lab: &Lab, asked: &WebRequest) -> Result<ViewReply> {
    let name = asked.path()[1].to_owned();
    let plan = find(lab, &name)?;
    let changes = changes(asked)?;
    let trials = plan.trials_of(&changes)?;
    check_idle(&trials)?;
    let matrix = dry_run::matrix(&plan, &changes, &trials, &[]);
    if is_form(asked, "json") {
        return raw(kind::JSON, render::matrix::json(&matrix));
    }
    let (answer, more) = shown(&matrix);
    let sets = asked.lines("set").join("\n");
    let back = query(&[("set", &sets), ("repeat", asked.value("repeat").unwrap_or_default())]);
    let above = html! {
        p { a href=(format!("/plan/{}?{back}", segment(&name))) { "Back to the plan, with these options" } }
        p { "No machine was asked: what one does not have is told when the plan is started, or by linerate run … --dry-run." }
        @if more > 0 {
            p { "These are the first " (TRIALS) "; " (more) " more are not shown. " a href=(asked.address(&[("form", "json")])) { "All of them" } }
        }
    };
    View::new(format!("Trials of {}", plan.name), answer).above(above).forms(&[("json", "JSON")]).shown()
}
