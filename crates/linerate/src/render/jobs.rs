//! Jobs, benches and workers of a team's queue, as tables for people.

use std::collections::BTreeMap;

use linerate_work::{BenchRecord, JobRecord, LeaseCard, WorkerCard};

use super::words;

/// As long as it is short: `3 h 20 min` is `3h20m`.
fn age(ms: i64) -> String {
    let s = ms.max(0) / 1000;
    match s {
        0..60 => format!("{s}s"),
        60..3600 => format!("{}m{:02}s", s / 60, s % 60),
        3600..86_400 => format!("{}h{:02}m", s / 3600, s % 3600 / 60),
        _ => format!("{}d{:02}h", s / 86_400, s % 86_400 / 3600),
    }
}

/// A list; `now_ms` is the present.
pub(crate) fn list(jobs: &[JobRecord], now_ms: i64, width: Option<u16>) -> String {
    if jobs.is_empty() {
        return "No job waits or runs; --all shows those that have ended.\n".to_owned();
    }
    let rows = jobs.iter().map(|one| {
        let since = one.ended_ms.or(one.began_ms).unwrap_or(one.job.submitted_ms);
        [
            one.job.id.clone(),
            one.job.bench.clone(),
            one.job.user.clone(),
            one.job.plan.clone(),
            one.state.name().to_owned(),
            age(now_ms - since),
        ]
    });
    words(["job", "bench", "user", "plan", "state", "for"], rows, width)
}

/// Those that never came to their end, and why.
pub(crate) fn dead(jobs: &[JobRecord], width: Option<u16>) -> String {
    if jobs.is_empty() {
        return "No job is dead.\n".to_owned();
    }
    let rows = jobs.iter().map(|one| {
        [one.job.id.clone(), one.job.bench.clone(), one.job.user.clone(), one.why.clone().unwrap_or_default()]
    });
    words(["job", "bench", "user", "why"], rows, width)
}

/// One, in sentences.
pub(crate) fn one(record: &JobRecord) -> String {
    let job = &record.job;
    let at =
        |ms: i64| jiff::Timestamp::from_millisecond(ms).map_or_else(|_| "?".to_owned(), |time| format!("{time:.0}"));
    let mut lines = vec![
        format!("Job {} of {}: {} on {}, {}.", job.id, job.user, job.plan, job.bench, record.state.name()),
        format!("Submitted {}, with {} as its group.", at(job.submitted_ms), job.group),
    ];
    if !job.sets.is_empty() {
        let sets: Vec<String> = job.sets.iter().map(|(name, value)| format!("{name}={value}")).collect();
        lines.push(format!("Options: {}.", sets.join(" ")));
    }
    let seed = job.seed.map_or_else(|| "the plan's order".to_owned(), |seed| format!("the order of seed {seed}"));
    let repeat = job.repeat.map_or_else(String::new, |repeat| format!(", {repeat} repeats"));
    lines.push(format!("In {seed}{repeat}; priority {}; {} attempts at most.", job.priority.name(), job.attempts));
    if let Some(not_before) = job.not_before_s.and_then(|s| i64::try_from(s).ok()) {
        lines.push(format!("Not before {}.", at(not_before.saturating_mul(1000))));
    }
    if let (Some(worker), Some(began)) = (&record.worker, record.began_ms) {
        lines.push(format!("Begun {} by {worker}, attempt {}, fence {}.", at(began), record.attempt, record.fence));
    }
    if let Some(ended) = record.ended_ms {
        let failed = match record.failed_trials {
            None | Some(0) => String::new(),
            Some(1) => "; one trial has no figures".to_owned(),
            Some(failed) => format!("; {failed} trials have no figures"),
        };
        lines.push(format!("Ended {}{failed}.", at(ended)));
    }
    lines.extend(record.cancelled_by.as_ref().map(|by| format!("Taken back by {by}.")));
    lines.extend(record.why.as_ref().map(|why| format!("Why: {why}.")));
    lines.push(format!("Its records: linerate records list {}", job.id));
    lines.join("\n") + "\n"
}

/// Benches, and who has them.
pub(crate) fn benches(
    all: &[BenchRecord],
    leases: &BTreeMap<String, LeaseCard>,
    waiting: &BTreeMap<String, usize>,
    workers: &[WorkerCard],
    unix_s: i64,
    width: Option<u16>,
) -> String {
    if all.is_empty() {
        return "The queue has no benches yet; linerate worker --bench FILE brings some.\n".to_owned();
    }
    let rows = all.iter().map(|one| {
        let name = &one.bench.name;
        let has_worker = workers.iter().any(|worker| worker.benches.contains(name));
        let state = match (leases.get(name), &one.maintenance) {
            (Some(lease), None) => format!("measures ({})", lease.worker),
            (Some(lease), Some(_)) => format!("measures ({}), then maintenance", lease.worker),
            (None, Some(why)) => format!("maintenance: {} ({})", why.reason, why.by),
            (None, None) if !has_worker => "no worker".to_owned(),
            (None, None) if !one.bench.limits.is_open(unix_s) => "closed at this hour".to_owned(),
            (None, None) => "free".to_owned(),
        };
        let tags: Vec<String> = one.bench.tags.iter().map(|(key, value)| format!("{key}={value}")).collect();
        [name.clone(), tags.join(" "), waiting.get(name).copied().unwrap_or(0).to_string(), state]
    });
    words(["bench", "tags", "jobs", "state"], rows, width)
}

/// Workers.
pub(crate) fn workers(all: &[WorkerCard], now_ms: i64, width: Option<u16>) -> String {
    if all.is_empty() {
        return "No worker is there; linerate worker --bench FILE is one.\n".to_owned();
    }
    let rows = all.iter().map(|one| {
        let runs: Vec<String> = one.runs.iter().map(|(bench, job)| format!("{bench} {job}")).collect();
        let runs = if runs.is_empty() { "nothing".to_owned() } else { runs.join(", ") };
        [one.name.clone(), one.version.clone(), one.benches.len().to_string(), age(now_ms - one.since_ms), runs]
    });
    words(["worker", "version", "benches", "for", "runs"], rows, width)
}
