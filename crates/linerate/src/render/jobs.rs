//! Jobs, benches and workers of a team's queue as tables: of `linerate jobs`, of the console and of a browser.
//! Knows no queue; what stands in it is anybody's who may write there.

use std::collections::BTreeMap;

use linerate_work::{JobRecord, JobState, Overview, WorkerCard};

use super::answer::Answer;
use super::forms::Piece;
use super::table_model::{Cell, Table};

/// What is known of a job's campaign while it runs, in a few words.
pub(crate) type Progress<'a> = &'a dyn Fn(&str) -> Option<String>;

/// A table without the columns that no row fills, like that of what nobody has heard.
fn table<const N: usize>(names: [&str; N], rows: impl IntoIterator<Item = [Cell; N]>) -> Answer {
    let rows = rows.into_iter().map(|row| row.to_vec());
    Answer::of(vec![Piece::Table(Table::new(names, rows).sparing(&["version", "tags", "now"]).filled())])
}

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

/// A job's identifier, and where a browser finds it.
fn job(id: &str) -> Cell {
    let cell = Cell::text(id);
    #[cfg(feature = "web")]
    if linerate_machine::text::is_plain_name(id) {
        return cell.linked(format!("/job/{id}"));
    }
    cell
}

/// A list; `now_ms` is the present. `none` stands there where there is nothing to list.
pub(crate) fn list<'a>(
    jobs: impl IntoIterator<Item = &'a JobRecord>,
    now_ms: i64,
    progress: Progress<'_>,
    none: &str,
) -> Answer {
    let rows: Vec<[Cell; 7]> = jobs
        .into_iter()
        .map(|one| {
            let since = one.ended_ms.or(one.began_ms).unwrap_or(one.job.submitted_ms);
            let now =
                if one.state.has_ended() { None } else { progress(&one.job.id).or_else(|| waits_for(one, now_ms)) };
            [
                job(&one.job.id),
                Cell::text(&one.job.bench),
                Cell::text(&one.job.user),
                Cell::text(&one.job.plan),
                Cell::text(one.state.name()),
                Cell::text(age(now_ms.saturating_sub(since))),
                Cell::long(now.unwrap_or_default()),
            ]
        })
        .collect();
    match rows.is_empty() {
        true => Answer::said(none),
        false => table(["job", "bench", "user", "plan", "state", "for", "now"], rows),
    }
}

/// Why it has not begun, where that is known: its time has not come, or what became of it last.
fn waits_for(one: &JobRecord, now_ms: i64) -> Option<String> {
    if one.state != JobState::Waiting {
        return None;
    }
    let from_ms = one.job.not_before_s.and_then(|s| i64::try_from(s).ok()?.checked_mul(1000));
    match from_ms.filter(|from| *from > now_ms) {
        Some(from) => Some(format!("not before {}", at(from))),
        None => one.why.clone(),
    }
}

fn at(ms: i64) -> String {
    jiff::Timestamp::from_millisecond(ms).map_or_else(|_| "?".to_owned(), |time| format!("{time:.0}"))
}

/// Those of a queue that have not ended.
pub(crate) fn open(queue: &Overview, now_ms: i64, progress: Progress<'_>) -> Answer {
    let open = queue.jobs.iter().filter(|one| !one.state.has_ended());
    list(open, now_ms, progress, "No job waits or runs.")
}

/// Those that never came to their end, and why.
pub(crate) fn dead(jobs: &[JobRecord]) -> Answer {
    if jobs.is_empty() {
        return Answer::said("No job is dead.");
    }
    let rows = jobs.iter().map(|one| {
        let why = one.why.as_deref().unwrap_or_default();
        [job(&one.job.id), Cell::text(&one.job.bench), Cell::text(&one.job.user), Cell::long(why)]
    });
    table(["job", "bench", "user", "why"], rows)
}

/// One, in sentences.
pub(crate) fn one(record: &JobRecord) -> Answer {
    let job = &record.job;
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
    lines.push(format!("In {seed}{repeat}; priority {}.", job.priority.name()));
    let most = match job.attempts {
        1 => "once".to_owned(),
        attempts => format!("{attempts} times"),
    };
    lines.push(format!("At most {most} begun; what a worker hands back is no attempt."));
    if let Some(not_before) = job.not_before_s.and_then(|s| i64::try_from(s).ok()) {
        lines.push(format!("Not before {}.", at(not_before.saturating_mul(1000))));
    }
    if let (Some(worker), Some(began)) = (&record.worker, record.began_ms) {
        let times = if record.attempt > 1 { format!(" ({} times so far)", record.attempt) } else { String::new() };
        lines.push(format!("Begun {}{times} by {worker}, fence {}.", at(began), record.fence));
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
    Answer::of(vec![Piece::Lines(lines)])
}

/// Benches, and who has them.
pub(crate) fn benches(queue: &Overview, now_ms: i64, progress: Progress<'_>) -> Answer {
    let Overview { benches, leases, waiting, workers, .. } = queue;
    if benches.is_empty() {
        return Answer::said("The queue has no benches yet; linerate worker --bench FILE brings some.");
    }
    let running: BTreeMap<&String, &String> = workers.iter().flat_map(|worker| &worker.runs).collect();
    let rows = benches.iter().map(|one| {
        let name = &one.bench.name;
        let has_worker = workers.iter().any(|worker| worker.benches.contains(name));
        let state = match (leases.get(name), &one.maintenance) {
            (Some(lease), None) => format!("measures ({})", lease.worker),
            (Some(lease), Some(_)) => format!("measures ({}), then maintenance", lease.worker),
            (None, Some(why)) => format!("maintenance: {} ({})", why.reason, why.by),
            (None, None) if !has_worker => "no worker".to_owned(),
            (None, None) if !one.bench.limits.is_open(now_ms.div_euclid(1000)) => "closed at this hour".to_owned(),
            (None, None) => "free".to_owned(),
        };
        let tags: Vec<String> = one.bench.tags.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let held = leases.get(name).map(|lease| age(now_ms.saturating_sub(lease.since_ms)));
        let now = leases.get(name).and_then(|_| progress(running.get(name)?));
        [
            Cell::text(name),
            Cell::long(tags.join(" ")),
            Cell::count(waiting.get(name).copied().unwrap_or(0) as u64),
            Cell::long(state),
            Cell::text(held.unwrap_or_default()),
            Cell::long(now.unwrap_or_default()),
        ]
    });
    table(["bench", "tags", "jobs", "state", "for", "now"], rows)
}

/// Workers.
pub(crate) fn workers(all: &[WorkerCard], now_ms: i64) -> Answer {
    if all.is_empty() {
        return Answer::said("No worker is there; linerate worker --bench FILE is one.");
    }
    let rows = all.iter().map(|one| {
        let runs: Vec<String> = one.runs.iter().map(|(bench, job)| format!("{bench} {job}")).collect();
        let runs = if runs.is_empty() { "nothing".to_owned() } else { runs.join(", ") };
        [
            Cell::text(&one.name),
            Cell::text(&one.version),
            Cell::count(one.benches.len() as u64),
            Cell::text(age(now_ms.saturating_sub(one.since_ms))),
            Cell::long(runs),
        ]
    });
    table(["worker", "version", "benches", "for", "runs"], rows)
}

#[cfg(test)]
mod tests {
    use linerate_work::{
        Bench, Broker, Bucket, Job, JobState, LeaseCard, Memory, Priority, cancel, jobs, maintain, submit,
    };

    use super::*;

    const NOW: i64 = 1_795_530_000_000;

    fn a_job(number: u32, plan: &str) -> Job {
        Job {
            id: format!("{number:026}"),
            group: "0".repeat(26),
            bench: "b".to_owned(),
            user: "ann".to_owned(),
            plan: plan.to_owned(),
            source: String::new(),
            sets: vec![("rate".to_owned(), "1M".to_owned())],
            seed: None,
            repeat: Some(3),
            priority: Priority::Normal,
            not_before_s: None,
            attempts: 3,
            submitted_ms: NOW - 90_000,
        }
    }

    /// A queue in memory with a bench that is measured on, one that is closed, and jobs in several states.
    fn queue() -> Overview {
        let mut memory = Memory::new(30_000);
        for (name, more) in [("b", ""), ("c", "[limits]\nhours = ['sun 03:00-03:01']"), ("d", ""), ("e", "")] {
            let text = format!("name = '{name}'\ntarget = 'local'\ntags = {{ board = 'x' }}\n{more}");
            let bench = Bench::parse(&text).unwrap();
            let value = serde_json::json!({ "bench": bench });
            memory.put(Bucket::Benches, name, value.to_string().as_bytes(), 0).unwrap();
        }
        maintain(&mut memory, "d", Some(linerate_work::Maintenance { by: "ben".into(), reason: "new".into() }))
            .unwrap();
        let put = |memory: &mut Memory, bucket, key: &str, value: serde_json::Value| {
            memory.put(bucket, key, value.to_string().as_bytes(), 0).unwrap();
        };
        let card = LeaseCard { worker: "w1".to_owned(), since_ms: NOW - 61_000 };
        put(&mut memory, Bucket::Leases, "b", serde_json::json!(card));
        let worker = WorkerCard {
            name: "w1".to_owned(),
            version: "1.0".to_owned(),
            benches: ["b", "c", "d"].map(str::to_owned).to_vec(),
            runs: [("b".to_owned(), format!("{:026}", 1))].into(),
            since_ms: NOW - 7_300_000,
        };
        put(&mut memory, Bucket::Workers, "w1", serde_json::json!(worker));
        (1..=3).for_each(|number| submit(&mut memory, &a_job(number, "nightly")).unwrap());
        cancel(&mut memory, &format!("{:026}", 3), "ann").unwrap();
        let mut overview = Overview::default();
        overview.refresh(&mut memory).unwrap();
        assert_eq!(jobs(&mut memory).unwrap(), overview.jobs);
        overview.jobs[0].state = JobState::Running;
        overview.jobs[0].began_ms = Some(NOW - 61_000);
        overview
    }

    #[test]
    fn a_queue_in_tables() {
        let queue = queue();
        let progress = |id: &str| id.ends_with('1').then(|| "trial 3 of 24: tcp-stream".to_owned());
        let open = queue.jobs.iter().filter(|one| !one.state.has_ended());
        let text = [
            benches(&queue, NOW, &progress).text(Some(100)),
            list(open, NOW, &progress, "").text(Some(100)),
            workers(&queue.workers, NOW).text(Some(100)),
            // Nobody has heard anything: a column less.
            benches(&queue, NOW, &|_| None).text(Some(100)),
        ];
        insta::assert_snapshot!(text.join("\n"));
        assert_eq!(list([], NOW, &progress, "None.").text(Some(80)), "None.\n");
    }

    /// What anybody may have written into the queue is text in every form.
    #[test]
    fn how_often_a_job_was_begun_contradicts_no_limit() {
        let text = |record: &JobRecord| one(record).text(Some(200));
        let mut record = JobRecord::waiting(a_job(1, "nightly"));
        assert!(text(&record).contains("At most 3 times begun; what a worker hands back is no attempt."));
        // Handed back once, and begun for its third attempt.
        (record.attempt, record.worker, record.began_ms) = (4, Some("w1".to_owned()), Some(NOW));
        assert!(text(&record).contains(" (4 times so far) by w1, fence 0."), "{}", text(&record));
        record.attempt = 1;
        assert!(!text(&record).contains("so far"));
    }

    #[test]
    fn what_a_queue_says_is_text() {
        const HOSTILE: &str =
            "</script><script>alert(1)</script>\"><svg onload=alert(1)> \u{1b}[2J\u{202e}|`\u{2028}\n";
        let mut queue = queue();
        let hostile = || HOSTILE.to_owned();
        let record = &mut queue.jobs[0];
        (record.job.id, record.job.bench, record.job.user, record.job.plan) =
            (hostile(), hostile(), hostile(), hostile());
        (record.why, record.worker, record.cancelled_by) = (Some(hostile()), Some(hostile()), Some(hostile()));
        record.job.submitted_ms = i64::MIN;
        let bench = &mut queue.benches[2];
        bench.bench.tags.insert(hostile(), hostile());
        bench.maintenance = Some(linerate_work::Maintenance { by: hostile(), reason: hostile() });
        queue.leases.get_mut("b").unwrap().worker = hostile();
        queue.leases.get_mut("b").unwrap().since_ms = i64::MIN;
        let worker = &mut queue.workers[0];
        (worker.name, worker.version) = (hostile(), hostile());
        worker.runs.insert("e".to_owned(), hostile());
        let progress = |_: &str| Some(HOSTILE.to_owned());
        let all = || {
            [
                benches(&queue, NOW, &progress),
                list(&queue.jobs, NOW, &progress, ""),
                workers(&queue.workers, NOW),
                one(&queue.jobs[0]),
                dead(&queue.jobs),
            ]
        };
        for shown in all() {
            let text = shown.text(Some(120));
            assert!(text.contains("alert(1)"), "{text}");
            assert!(!text.contains(['\u{1b}', '\u{202e}', '\u{2028}']), "{text}");
        }
        #[cfg(feature = "web")]
        for shown in all() {
            for page in [shown.html("/team?").into_string(), shown.inner().into_string()] {
                assert!(page.contains("alert(1)"), "{page}");
                for part in ["<script>", "<svg onload", "\u{1b}", "\u{202e}", "\u{2028}", "/job/<", "/job/&lt;"] {
                    assert!(!page.contains(part), "{part}: {page}");
                }
            }
        }
    }
}
