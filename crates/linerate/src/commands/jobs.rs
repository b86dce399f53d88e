//! `linerate jobs`: what the team's queue holds, and who has which bench.
//! Knows the queue and the renderer; starts and ends nothing itself.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use linerate_work::{
    Cancelled, JobRecord, JobState, Maintenance, Nats, Overview, RequestError, cancel, jobs as all_jobs, maintain,
    workers,
};
use serde::Serialize;

use super::queue;
use crate::cli::{JobsArgs, JobsCommand, OnOff};
use crate::interrupt;
use crate::measure::ids::now;
use crate::output::{data, out};
use crate::render::{self, jobs as render_jobs};

/// A watcher looks so often whether the job has ended without a word.
const PAUSE: Duration = Duration::from_secs(1);

/// Of what campaigns tell while they run, a list that is printed once has heard nothing.
const NOT_HEARD: fn(&str) -> Option<String> = |_| None;

/// Lists, shows, takes back.
pub(crate) fn jobs(arguments: &JobsArgs) -> Result<ExitCode> {
    let mut queue = queue::visit(&arguments.queue)?;
    let (json, width) = (arguments.json, super::width());
    match arguments.command.as_ref().unwrap_or(&JobsCommand::List { all: false, user: None, bench: None }) {
        JobsCommand::List { all, user, bench } => {
            let is_wanted = |one: &JobRecord| {
                (*all || !one.state.has_ended())
                    && user.as_ref().is_none_or(|user| one.job.user == *user)
                    && bench.as_ref().is_none_or(|bench| one.job.bench == *bench)
            };
            let found: Vec<JobRecord> = all_jobs(&mut queue)?.into_iter().filter(is_wanted).collect();
            let none = "No job waits or runs; linerate jobs list --all shows those that have ended.";
            shown(&found, json, || render_jobs::list(&found, now().as_millisecond(), &NOT_HEARD, none).text(width));
        }
        JobsCommand::Dead => {
            let dead = |one: &JobRecord| one.state == JobState::Dead;
            let found: Vec<JobRecord> = all_jobs(&mut queue)?.into_iter().filter(dead).collect();
            shown(&found, json, || render_jobs::dead(&found).text(width));
        }
        JobsCommand::Show { job } => {
            let found = [called(&mut queue, job)?];
            shown(&found, json, || render_jobs::one(&found[0]).text(width));
        }
        JobsCommand::Cancel { job } => {
            let record = called(&mut queue, job)?;
            let by = queue::user(None)?;
            let sentence = match cancel(&mut queue, &record.job.id, &by)? {
                Cancelled::BeforeItBegan => "It is taken out of the queue.".to_owned(),
                Cancelled::WhileItRuns => {
                    "Its worker ends it within some seconds: settings are put back, and what was measured is kept."
                        .to_owned()
                }
                Cancelled::TooLate(state) => format!("It has ended already: it is {}.", state.name()),
            };
            out!("{sentence}\n");
        }
        JobsCommand::Watch { job } => watch(&mut queue, job)?,
        JobsCommand::Benches => {
            let mut all = Overview::default();
            all.refresh(&mut queue)?;
            let text = || render_jobs::benches(&all, now().as_millisecond(), &NOT_HEARD).text(width);
            shown(&all.benches, json, text);
        }
        JobsCommand::Maintenance { bench, state, reason } => {
            let why = Maintenance { by: queue::user(None)?, reason: reason.clone() };
            maintain(&mut queue, bench, matches!(state, OnOff::On).then_some(why))?;
            out!(
                "{}\n",
                match state {
                    OnOff::On => format!("Nothing is begun on {bench} until linerate jobs maintenance {bench} off."),
                    OnOff::Off => format!("{bench} takes jobs."),
                }
            );
        }
        JobsCommand::Workers => {
            let all = workers(&mut queue)?;
            shown(&all, json, || render_jobs::workers(&all, now().as_millisecond()).text(width));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn shown<T: Serialize>(all: &[T], json: bool, text: impl FnOnce() -> String) {
    match json {
        true => all.iter().for_each(|one| data!("{}", render::json::line(serde_json::json!(one)))),
        false => out!("{}", text()),
    }
}

/// The job that begins so.
fn called(queue: &mut Nats, beginning: &str) -> Result<JobRecord, RequestError> {
    let first = beginning.to_ascii_uppercase();
    let mut found: Vec<JobRecord> = all_jobs(queue)?.into_iter().filter(|one| one.job.id.starts_with(&first)).collect();
    match (found.pop(), found.is_empty() && !first.is_empty()) {
        (Some(one), true) => Ok(one),
        (Some(_), false) => Err(RequestError::Ambiguous(beginning.to_owned())),
        (None, _) => Err(RequestError::Unknown { what: "job", name: beginning.to_owned() }),
    }
}

/// Prints events until the job has ended.
fn watch(queue: &mut Nats, job: &str) -> Result<()> {
    interrupt::listen();
    let id = called(queue, job)?.job.id;
    let heard = queue.hear(Some(&id));
    loop {
        if called(queue, &id)?.state.has_ended() || interrupt::requested() {
            return Ok(());
        }
        while !interrupt::requested()
            && let Some((_, event)) = heard.next(PAUSE)?
        {
            // A client that may write to the queue may write anything: what is no event is left out.
            let Ok(event @ serde_json::Value::Object(_)) = serde_json::from_slice(&event) else { continue };
            data!("{event}\n");
        }
    }
}
