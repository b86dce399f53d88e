//! `linerate submit`: a campaign for each bench that fits, into the team's queue.
//! Knows plans and benches; who carries it out, and when, the queue and its workers decide.

use std::process::ExitCode;
use std::time::SystemTime;

use anyhow::{Context, Result, bail};
use linerate_machine::units::parse_duration;
use linerate_plan::{Changes, needs};
use linerate_work::{Bench, Job, Priority, benches, selected, submit as queue_job};

use super::plans;
use super::queue;
use super::run::drawn_seed;
use crate::cli::{PriorityArg, SubmitArgs};
use crate::measure::ids::{Ids, now};
use crate::output::{data, out};
use crate::render;

/// Queues it.
pub(crate) fn submit(arguments: &SubmitArgs) -> Result<ExitCode> {
    // Everything that can be wrong with the plan is found before anything is asked.
    let plan = plans::find(&arguments.plan)?;
    if plan.search.is_some() {
        bail!("workers carry out plans of trials, and this one searches; run it with linerate search");
    }
    let overrides = arguments.set.clone();
    let changes = Changes { overrides, repeat: arguments.repeat, seed: arguments.seed, ..Changes::default() };
    let seed = match changes.seed {
        None if plan.is_random(&changes)? => Some(drawn_seed()?),
        given => given,
    };
    let trials = plan.trials_of(&Changes { seed, ..changes })?;
    let not_before_s = arguments.not_before.as_deref().map(time).transpose()?;
    let user = queue::user(arguments.user.as_deref())?;
    let mut queue = queue::visit(&arguments.queue)?;
    let all = benches(&mut queue)?;
    let chosen = selected(&all, &arguments.on);
    if chosen.is_empty() {
        let words: Vec<String> = arguments.on.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let names: Vec<&str> = all.iter().map(|one| one.bench.name.as_str()).take(20).collect();
        match names.is_empty() {
            true => bail!("the queue has no benches yet; linerate worker --bench FILE brings some"),
            false => bail!("no bench is {}; there are {}", words.join(" and "), names.join(", ")),
        }
    }
    let needed = needs(&plan, &trials);
    for one in &chosen {
        refused(&one.bench, &user, &needed).map_or(Ok(()), Err)?;
    }
    let mut ids = Ids::default();
    let (group, _) = ids.next();
    let submitted_ms = now().as_millisecond();
    let job = |bench: &Bench, id: String| Job {
        id,
        group: group.clone(),
        bench: bench.name.clone(),
        user: user.clone(),
        plan: plan.name.clone(),
        source: plan.source.clone(),
        sets: arguments.set.clone(),
        seed,
        repeat: arguments.repeat,
        priority: match arguments.priority {
            PriorityArg::High => Priority::High,
            PriorityArg::Normal => Priority::Normal,
            PriorityArg::Low => Priority::Low,
        },
        not_before_s,
        attempts: arguments.attempts,
        submitted_ms,
    };
    let jobs: Vec<Job> = chosen.iter().map(|one| job(&one.bench, ids.next().0)).collect();
    jobs.iter().try_for_each(Job::check)?;
    for (done, job) in jobs.iter().enumerate() {
        queue_job(&mut queue, job).with_context(|| format!("{done} of {} jobs are queued", jobs.len()))?;
    }
    if arguments.json {
        jobs.iter().for_each(|job| data!("{}", render::json::line(serde_json::json!(job))));
        return Ok(ExitCode::SUCCESS);
    }
    let rows = jobs.iter().map(|job| [job.id.clone(), job.bench.clone()]);
    out!("{}", render::words(["job", "bench"], rows, super::width()));
    let more = if jobs.len() == 1 { "" } else { "; comparisons across benches are comparisons of machines, too" };
    out!("\nlinerate jobs shows them; records have the job's identifier as their campaign's{more}.\n");
    Ok(ExitCode::SUCCESS)
}

/// Why this bench would not take it, as far as its file says.
fn refused(bench: &Bench, user: &str, needed: &[linerate_plan::Need]) -> Option<anyhow::Error> {
    if !bench.limits.takes(user) {
        return Some(anyhow::anyhow!("{} does not take jobs of {user}; its file says whose", bench.name));
    }
    super::worker::limits::refused(bench, needed).map(anyhow::Error::msg)
}

/// A time to come, seconds since 1970.
fn time(text: &str) -> Result<u64> {
    if let Ok(later) = parse_duration(text) {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        return Ok((now + later).as_secs());
    }
    match text.parse::<jiff::Timestamp>() {
        Ok(time) => Ok(u64::try_from(time.as_second()).unwrap_or(0)),
        Err(_) => bail!("--not-before: '{text}' is not a time; write 2026-11-25T22:00:00Z, or in how long, like 2h"),
    }
}
