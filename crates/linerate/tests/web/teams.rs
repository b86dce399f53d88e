//! A team's benches, jobs and workers in a browser: from a real queue, with a worker that carries a job out.

use std::fs;
use std::time::Duration;

use linerate_work::{Bench as WorkBench, Bucket, Job, JobRecord, JobState};
use serde_json::{Value, json};

use crate::machines::queue::{Queue, id, job};
use crate::machines::{Bench, Running};
use crate::server::{LONG, Server};

/// Of a worker that hears soon what it shall do.
const LEASE: Duration = Duration::from_secs(6);

/// The pages of the examples.
pub fn pages() -> Vec<String> {
    let job = |number| format!("/job/{}", id(number));
    let fixed = ["/team", "/jobs", "/jobs?state=all&user=ann", "/jobs?state=dead"].map(str::to_owned);
    fixed.into_iter().chain([job(1), job(2), job(3), job(5)]).collect()
}

fn began(place: u32, words: &str) -> Value {
    json!({"event": "trial_began", "place": place, "planned": 24, "words": words, "index": 0, "repeat": 0,
           "configuration": 0, "expected_s": 2.0, "offered_bps": 1e8, "left": {"s": 60.0, "at_most": false}})
}

#[test]
fn a_queue_is_seen_live_and_had_in_every_form() {
    let bench = Bench::bare("web-team");
    let Some(queue) = Queue::start("a_queue_is_seen_live_and_had_in_every_form", &bench) else { return };
    let mut queue = queue.with_examples();
    // Without a queue there is no such page, and no link to one.
    let server = Server::start(&bench, &[]);
    server.get("/team").check(404, &["--queue URL"]);
    assert!(!server.get("/plans").check(200, &[]).body.contains("/team"));
    drop(server);
    let url = queue.nats.url();
    let server = Server::start(&bench, &["--queue", &url]);
    let page = server.get("/team");
    page.check(200, &["href=\"/team\"", "imx6-1", "board=imx8", "maintenance: new board (ann)", "measures (lab-1)"]);
    page.check(200, &[&id(1), &id(2), "running", "waiting", "data-live=\"/team/live\""]);
    assert!(!page.body.contains(&id(3)), "what has ended is elsewhere");
    for part in pages() {
        let told = server.get(&part);
        told.check(200, &[]);
        for link in told.body.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next()) {
            if link.contains("form=") {
                let link = link.replace("&amp;", "&");
                assert!(!server.get(&link).check(200, &[]).body.trim().is_empty(), "{link}");
            }
        }
    }
    // The same as the command prints.
    let printed = |words: &[&str]| {
        let mut command = bench.linerate(&[words, &["--queue", &url]].concat());
        command.env("COLUMNS", "100");
        Running::start(command).wait(LONG).check_done().stdout.clone()
    };
    assert_eq!(server.get("/jobs?state=all&form=json").body.lines().count(), 6);
    assert_eq!(server.get(&format!("/job/{}?form=json", id(3))).body, printed(&["jobs", "show", &id(3), "--json"]));
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(words(&server.get("/jobs?state=dead&form=text").body)[..5], words("job bench user plan state")[..]);
    let shown = words(&server.get(&format!("/job/{}?form=text", id(3))).body);
    assert_eq!(shown, words(&printed(&["jobs", "show", &id(3)])));
    let csv = server.get("/team?form=csv&table=1").body.clone();
    assert_eq!(csv.lines().next(), Some("bench,tags,jobs,state,for"), "{csv}");
    for (query, sentence) in [("state=odd", "there is no state"), ("limit=many", "limit is a number")] {
        server.get(&format!("/jobs?{query}")).check(400, &[sentence]);
    }
    server.get("/job/NONE").check(404, &["the queue has no job"]);
    // What a worker tells is there at once.
    let live = |path: &str, has: &str| server.get(&format!("{path}/live?v={has}"));
    let path = format!("/job/{}", id(1));
    let first = live(&path, "").check(200, &["from now on"]).field("x-version").unwrap().to_owned();
    assert_eq!(live(&path, &first).status, 204, "nothing has happened");
    bench.wait_until("the trial", LONG, || {
        queue.tell(&id(1), &began(3, "tcp-stream"));
        live(&path, &first).body.contains("Trial 3 of 24: tcp-stream")
    });
    server.get("/team").check(200, &["trial 3 of 24: tcp-stream"]);
    // A change of the queue within two seconds.
    let record = JobRecord { state: JobState::Done, ..JobRecord::waiting(job(1, "nightly")) };
    queue.put(Bucket::Jobs, &id(1), &json!(record));
    bench.wait_until("the end", Duration::from_secs(5), || live(&path, "").field("x-over").is_some());
    // One who only looks takes nothing back.
    let cancel = format!("/job/{}/cancel", id(2));
    server.post(&cancel, "").check(403, &["--allow-run"]);
    assert!(!server.get(&format!("/job/{}", id(2))).body.contains("Cancel this job"));
    drop(server);
    let server = Server::start(&bench, &["--queue", &url, "--allow-run"]);
    server.get(&format!("/job/{}", id(2))).check(200, &["Cancel this job", "waiting"]);
    assert_eq!(server.get(&cancel).status, 405, "a link takes nothing back");
    server.post(&cancel, "").check(303, &[]);
    server.get(&format!("/job/{}", id(2))).check(200, &["cancelled", "by linerate web"]);
    server.post(&cancel, "").check(409, &["it is cancelled"]);
    server.post("/job/NONE/cancel", "").check(404, &[]);
    // A server that goes is said, and so is that it is back.
    queue.nats.kill().unwrap();
    bench.wait_until("that it is gone", LONG, || server.get("/team").body.contains("does not answer"));
    server.get("/team").check(200, &["imx6-1"]);
    queue.nats.again().unwrap();
    bench.wait_until("that it is back", LONG, || !server.get("/team").body.contains("does not answer"));
}

/// What anybody may write into a queue, or tell of a campaign.
const HOSTILE: &str = "</script><script>alert(1)</script>\"><svg onload=alert(1)> ' {{7*7}} \u{202e}|`\u{2028}";

#[test]
fn what_a_queue_says_is_text() {
    let bench = Bench::bare("web-team-hostile");
    let Some(queue) = Queue::start("what_a_queue_says_is_text", &bench) else { return };
    let mut queue = queue.with_examples();
    let mut job = job(1, HOSTILE);
    (job.user, job.source, job.bench) = (HOSTILE.to_owned(), HOSTILE.to_owned(), HOSTILE.to_owned());
    job.sets = vec![(HOSTILE.to_owned(), HOSTILE.to_owned())];
    let hostile = || Some(HOSTILE.to_owned());
    let record = JobRecord {
        state: JobState::Running,
        worker: hostile(),
        began_ms: Some(i64::MAX),
        why: hostile(),
        cancelled_by: hostile(),
        ..JobRecord::waiting(job.clone())
    };
    queue.put(Bucket::Jobs, &id(1), &json!(record));
    queue.put(Bucket::Jobs, "odd", &json!(JobRecord { job: Job { id: HOSTILE.to_owned(), ..job }, ..record }));
    queue.put(Bucket::Jobs, "junk", &json!("junk"));
    queue.put(Bucket::Leases, "imx6-1", &json!({ "worker": HOSTILE, "since_ms": i64::MIN }));
    let card = json!({ "name": HOSTILE, "version": HOSTILE, "benches": [HOSTILE], "runs": { HOSTILE: HOSTILE }, "since_ms": 1 });
    queue.put(Bucket::Workers, "odd", &card);
    let mut odd = json!({ "bench": WorkBench::parse("name = 'odd'\ntarget = 'x'").unwrap() });
    (odd["bench"]["name"], odd["bench"]["tags"]) = (HOSTILE.into(), json!({ HOSTILE: HOSTILE }));
    odd["maintenance"] = json!({ "by": HOSTILE, "reason": HOSTILE });
    queue.put(Bucket::Benches, "odd", &odd);
    let server = Server::start(&bench, &["--queue", &queue.nats.url(), "--allow-run"]);
    let path = format!("/job/{}", id(1));
    let events = || {
        queue.tell(&id(1), &began(1, HOSTILE));
        queue.tell(&id(1), &json!({"event": "said", "sentence": HOSTILE}));
        queue.tell(&id(1), &json!({"event": "refused", "words": HOSTILE, "sentence": HOSTILE}));
        for repeats in 1..5 {
            queue.tell(
                &id(1),
                &json!({"event": "narrowed", "configuration": 0, "metric": "throughput_bps",
                "repeats": repeats, "median": 1e300, "interval": [-1e300, 1e300]}),
            );
        }
        let passed = json!({"event": "passed", "until_s": 1e300, "direction": "rx", "bps": -1e300, "is_sent": false});
        queue.tell(&id(1), &passed);
        queue.tell(
            &id(1),
            &json!({"event": "began", "campaign": HOSTILE, "plan": HOSTILE, "target": HOSTILE,
            "host": HOSTILE, "planned": null, "left": null, "done": 0}),
        );
        queue.tell(&id(1), &json!("junk"));
        queue.tell("nobody's", &began(1, HOSTILE));
    };
    server.get("/team").check(200, &[]);
    bench.wait_until("the events", LONG, || {
        events();
        server.get(&format!("{path}/live")).check(200, &[]).body.contains("What was said")
    });
    let forms = |page: &str| ["", "form=text", "form=markdown"].map(|form| format!("{page}{form}"));
    let pages = [forms("/team?"), forms("/jobs?state=all&"), forms(&format!("{path}?"))].concat();
    for page in pages.iter().map(String::as_str).chain(["/team/live", &format!("{path}/live")]) {
        let told = server.get(page);
        assert!(told.check(200, &[]).body.contains("alert(1)"), "{page} does not show it");
        let bad = ["<script>alert", "<svg onload", "\u{202e}", "\u{2028}"];
        // Elsewhere it is no markup: plain text as it is, in Markdown behind a backslash.
        let is_page = !page.contains("form=");
        for part in bad.iter().filter(|part| is_page || !part.starts_with('<')) {
            assert!(!told.body.contains(part), "{page}: {part}: {}", told.body);
        }
    }
}

/// A job that a worker carries out is seen trial by trial, and ends where somebody takes it back.
#[test]
fn a_job_that_runs_is_watched_and_taken_back() {
    let Some(bench) = Bench::new("web-team-run") else { return };
    let Some(queue) = Queue::with_leases("a_job_that_runs_is_watched_and_taken_back", &bench, LEASE) else { return };
    let file = bench.folder.path("b.toml");
    fs::write(&file, format!("name = \"b\"\ntarget = \"{}\"\nhost = \"{}\"\n", bench.target(), bench.host())).unwrap();
    let (url, store) = (queue.nats.url(), bench.store_path().display().to_string());
    fs::create_dir_all(bench.store_path().parent().unwrap()).unwrap();
    let words = ["worker", "--bench", &file, "--queue", &url, "--store", &store];
    let worker = Running::start(bench.linerate(&words));
    let server = Server::of(&bench, command_with(&bench, &url));
    bench.wait_until("the bench", LONG, || server.get("/team").body.contains("free"));
    let set = ["--set", "duration=3s", "--set", "rate=20M", "--set", "direction=rx", "--repeat", "50"];
    let words = [&["submit", "udp-stream", "--on", "bench=b", "--json", "--queue", &url], &set[..]].concat();
    let told = Running::start(bench.linerate(&words)).wait(LONG);
    let id = told.check_done().json()[0]["id"].as_str().unwrap().to_owned();
    let path = format!("/job/{id}");
    let mut seen = String::new();
    bench.wait_until("two trials", LONG, || {
        seen += &server.get(&format!("{path}/live")).body;
        seen.contains("Trial 2 of 50: ")
            && seen.contains("Trial 1 ended: ")
            && seen.contains("What passes in this trial")
    });
    server.get("/team").check(200, &["measures (", "of 50"]);
    server.post(&format!("{path}/cancel"), "").check(303, &[]);
    bench.wait_until("its end", LONG, || server.get(&format!("{path}/live")).field("x-over").is_some());
    server.get(&path).check(200, &["cancelled", "/campaign/"]);
    server.get(&format!("/campaign/{id}")).check(200, &["udp-stream"]);
    worker.signal("INT");
    worker.wait(LONG).check_done();
}

/// A server that has the queue from its environment, and may run.
fn command_with(bench: &Bench, url: &str) -> std::process::Command {
    let mut command = bench.linerate(&["web", "--listen", "127.0.0.1:0", "--allow-run"]);
    command.env("LINERATE_QUEUE", url);
    command
}
