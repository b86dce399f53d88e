//! A team's queue on a real server, with examples in it. Knows no page and no menu.

use std::time::Duration;

use linerate_lab::services::Nats;
use linerate_work::{
    Access, Bench as WorkBench, Broker, Bucket, Job, JobRecord, JobState, LeaseCard, Priority, WorkerCard, submit,
};
use serde_json::{Value, json};

use super::Bench;

/// A queue of examples: a bench that is measured on, one in maintenance, jobs in every state, a worker.
pub struct Queue {
    pub nats: Nats,
    pub broker: linerate_work::Nats,
}

/// The job of this number.
pub fn id(number: u32) -> String {
    format!("{number:026}")
}

pub fn job(number: u32, plan: &str) -> Job {
    Job {
        id: id(number),
        group: "0".repeat(26),
        bench: "imx6-1".to_owned(),
        user: if number.is_multiple_of(2) { "ann" } else { "ben" }.to_owned(),
        plan: plan.to_owned(),
        source: "format = \"linerate.plan/1\"\nworkload = \"tcp-stream\"\n".to_owned(),
        sets: vec![("rate".to_owned(), "100M".to_owned())],
        seed: Some(7),
        repeat: None,
        priority: Priority::Normal,
        not_before_s: None,
        attempts: 3,
        submitted_ms: 1_795_000_000_000,
    }
}

impl Queue {
    /// `None`, said by name, where nats-server is not installed.
    pub fn start(name: &str, bench: &Bench) -> Option<Queue> {
        // Longer than a test: what vanishes by itself stays.
        Queue::with_leases(name, bench, Duration::from_secs(600))
    }

    pub fn with_leases(name: &str, bench: &Bench, lease: Duration) -> Option<Queue> {
        if !Nats::is_installed() {
            println!("SKIPPED {name}: nats-server is not installed (cargo xtask setup servers)");
            return None;
        }
        let nats = Nats::start(&bench.folder.0.join("nats")).unwrap();
        let access = Access::new(&nats.url(), None, None).unwrap();
        let broker = linerate_work::Nats::open(&access, Some(lease)).unwrap();
        Some(Queue { nats, broker })
    }

    pub fn put(&mut self, bucket: Bucket, key: &str, value: &Value) {
        let before = self.broker.get(bucket, key).unwrap().map_or(0, |entry| entry.revision);
        self.broker.put(bucket, key, value.to_string().as_bytes(), before).unwrap().expect("nobody else writes");
    }

    pub fn with_examples(mut self) -> Queue {
        for (name, board) in [("imx6-1", "imx6"), ("imx8-1", "imx8")] {
            let text = format!("name = '{name}'\ntarget = 'root@{name}'\ntags = {{ board = '{board}', speed = '1G' }}");
            self.put(Bucket::Benches, name, &json!({ "bench": WorkBench::parse(&text).unwrap() }));
        }
        let why = linerate_work::Maintenance { by: "ann".to_owned(), reason: "new board".to_owned() };
        linerate_work::maintain(&mut self.broker, "imx8-1", Some(why)).unwrap();
        self.put(
            Bucket::Leases,
            "imx6-1",
            &json!(LeaseCard { worker: "lab-1".to_owned(), since_ms: 1_795_000_000_000 }),
        );
        let worker = WorkerCard {
            name: "lab-1".to_owned(),
            version: "0.1.0".to_owned(),
            benches: vec!["imx6-1".to_owned(), "imx8-1".to_owned()],
            runs: [("imx6-1".to_owned(), id(1))].into(),
            since_ms: 1_795_000_000_000,
        };
        self.put(Bucket::Workers, "lab-1", &json!(worker));
        let states = [
            JobState::Running,
            JobState::Waiting,
            JobState::Done,
            JobState::Refused,
            JobState::Dead,
            JobState::Cancelled,
        ];
        for (number, state) in (1..).zip(states) {
            let job = job(number, "nightly");
            if !state.has_ended() {
                submit(&mut self.broker, &job).unwrap();
            }
            let has_begun = !matches!(state, JobState::Waiting | JobState::Refused);
            let record = JobRecord {
                state,
                attempt: u32::from(has_begun),
                worker: has_begun.then(|| "lab-1".to_owned()),
                began_ms: has_begun.then_some(1_795_000_001_000),
                ended_ms: state.has_ended().then_some(1_795_000_100_000),
                failed_trials: (state == JobState::Done).then_some(1),
                why: matches!(state, JobState::Refused | JobState::Dead)
                    .then(|| "the bench does not allow it".to_owned()),
                ..JobRecord::waiting(job)
            };
            self.put(Bucket::Jobs, &id(number), &json!(record));
        }
        self
    }

    /// Tells what happens in a job's campaign, as a worker does.
    pub fn tell(&self, job: &str, event: &Value) {
        self.broker.teller().tell(job, event.to_string().as_bytes());
    }
}
