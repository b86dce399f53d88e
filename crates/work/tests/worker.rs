//! What a worker does next, case by case, over a queue in memory.

use linerate_work::{
    Action, Bench, Broker, Bucket, CampaignEnd, Cancelled, ClaimResult, Job, JobRecord, JobState, Maintenance, Memory,
    Priority, Times, Timing, Worker, cancel, jobs, leases, maintain, submit,
};

const LEASE_MS: u64 = 30_000;
/// Tuesday, 24 November 2026, 08:00 UTC.
const EPOCH_MS: i64 = 1_795_507_200_000;

struct World {
    queue: Memory,
    workers: Vec<Worker>,
}

fn job(number: u32, user: &str) -> Job {
    Job {
        id: format!("{number:026}"),
        group: "0".repeat(26),
        bench: "b".to_owned(),
        user: user.to_owned(),
        plan: "tcp".to_owned(),
        source: String::new(),
        sets: Vec::new(),
        seed: None,
        repeat: None,
        priority: Priority::Normal,
        not_before_s: None,
        attempts: 2,
        submitted_ms: EPOCH_MS,
    }
}

impl World {
    fn new(limits: &str, workers: usize) -> World {
        let bench = Bench::parse(&format!("name='b'\ntarget='local'\n[limits]\n{limits}")).unwrap();
        let timing = Timing { lease_ms: LEASE_MS };
        let worker = |at| Worker::new(&format!("w{at}"), "0", vec![bench.clone()], 1, timing);
        World { queue: Memory::new(LEASE_MS), workers: (0..workers).map(worker).collect() }
    }

    /// Lets so much time pass, a step of each worker a second; what they did.
    fn pass(&mut self, ms: u64) -> Vec<(usize, Action)> {
        let end = self.queue.now_ms + ms;
        let mut actions = Vec::new();
        loop {
            for at in 0..self.workers.len() {
                actions.extend(self.step(at));
            }
            if self.queue.now_ms >= end {
                return actions;
            }
            self.queue.now_ms = (self.queue.now_ms + 1000).min(end);
        }
    }

    fn step(&mut self, at: usize) -> Vec<(usize, Action)> {
        let mono_ms = self.queue.now_ms;
        let now = Times { mono_ms, unix_ms: EPOCH_MS + mono_ms as i64 };
        self.workers[at].step(&mut self.queue, now).into_iter().map(|action| (at, action)).collect()
    }

    fn record(&mut self, number: u32) -> JobRecord {
        jobs(&mut self.queue).unwrap().into_iter().find(|one| one.job.id == job(number, "a").id).unwrap()
    }
}

/// The jobs that were begun, by the worker and the last digits of the identifier.
fn started(actions: &[(usize, Action)]) -> Vec<(usize, u32)> {
    let of = |(at, action): &(usize, Action)| match action {
        Action::Start(start) => Some((*at, start.job.id.parse().unwrap())),
        _ => None,
    };
    actions.iter().filter_map(of).collect()
}

fn has(actions: &[(usize, Action)], wanted: &Action) -> bool {
    actions.iter().any(|(_, action)| action == wanted)
}

#[test]
fn one_of_two_workers_has_the_bench_and_the_other_comes_when_it_dies() {
    let mut world = World::new("", 2);
    submit(&mut world.queue, &job(1, "ann")).unwrap();
    assert_eq!(started(&world.pass(60_000)), [(0, 1)], "for as long as its lease is renewed");
    let first = world.record(1);
    assert_eq!((first.state, first.attempt, first.worker.as_deref()), (JobState::Running, 1, Some("w0")));
    let dead = world.workers.remove(0);
    assert_eq!(started(&world.pass(LEASE_MS - 6000)), [], "it may still measure");
    assert_eq!(started(&world.pass(20_000)), [(0, 1)]);
    let second = world.record(1);
    assert!((second.attempt, second.worker.as_deref()) == (2, Some("w1")) && second.fence > first.fence, "{second:?}");
    // The first wakes up, and is told nothing but that it has lost the bench.
    world.workers.push(dead);
    let actions: Vec<Action> = world.step(1).into_iter().map(|(_, action)| action).collect();
    assert_eq!(actions, [Action::Stop(second.job.id.clone()), Action::Kill(second.job.id.clone())]);
    world.workers[1].ended(&second.job.id, CampaignEnd::Done { failed_trials: 0 });
    world.pass(1000);
    assert_eq!(world.record(1).state, JobState::Running, "it settles nothing any more");
    world.workers[0].ended(&second.job.id, CampaignEnd::Done { failed_trials: 1 });
    world.pass(1000);
    let done = world.record(1);
    assert_eq!((done.state, done.failed_trials), (JobState::Done, Some(1)));
    assert!(leases(&mut world.queue).unwrap().is_empty() && world.queue.unsettled() == 0);
}

#[test]
fn two_users_have_equal_shares_of_a_bench_and_of_a_thousand_jobs() {
    let mut world = World::new("", 1);
    // Ann queues all of hers first, each three times as long as one of Ben's.
    (0..250).for_each(|number| submit(&mut world.queue, &job(number, "ann")).unwrap());
    (250..1000).for_each(|number| submit(&mut world.queue, &job(number, "ben")).unwrap());
    let (mut had, mut left) = ([0, 0], [250, 750]);
    let mut next = started(&world.pass(1000));
    while left[0] > 0 && left[1] > 0 {
        let (_, number) = next.pop().expect("one is begun as soon as another has ended");
        let user = usize::from(number >= 250);
        let began = world.queue.now_ms;
        world.pass([60_000, 20_000][user]);
        world.workers[0].ended(&job(number, "").id, CampaignEnd::Done { failed_trials: 0 });
        next = started(&world.pass(1000));
        had[user] += world.queue.now_ms - began;
        left[user] -= 1;
    }
    let ratio = had[0] as f64 / had[1] as f64;
    println!("Ann had {} s, Ben {} s: {ratio:.3}", had[0] / 1000, had[1] / 1000);
    assert!((0.9..=1.1).contains(&ratio), "{had:?}");
}

#[test]
fn a_queue_that_is_silent_ends_campaigns_in_time() {
    let mut world = World::new("", 1);
    submit(&mut world.queue, &job(1, "ann")).unwrap();
    world.pass(1000);
    let id = job(1, "ann").id;
    world.queue.is_down = true;
    let actions = world.pass(18_000);
    assert!(!has(&actions, &Action::Stop(id.clone())) && !has(&actions, &Action::Renewed(id.clone())), "{actions:?}");
    assert!(has(&world.pass(2000), &Action::Stop(id.clone())));
    assert!(has(&world.pass(5000), &Action::Kill(id.clone())), "before the lease can be another's");
    assert!(world.queue.now_ms < LEASE_MS);
    world.workers[0].ended(&id, CampaignEnd::Stopped);
    world.queue.is_down = false;
    let actions = world.pass(40_000);
    assert_eq!(started(&actions), [(0, 1)], "and it is begun again");
}

#[test]
fn who_breaks_off_has_another_attempt_and_then_is_dead() {
    let mut world = World::new("", 1);
    submit(&mut world.queue, &job(1, "ann")).unwrap();
    let id = job(1, "ann").id;
    for attempt in 1..=2 {
        assert_eq!(started(&world.pass(20_000)), [(0, 1)]);
        assert_eq!(world.record(1).attempt, attempt);
        world.workers[0].ended(&id, CampaignEnd::Failed("no route".to_owned()));
        world.pass(1000);
    }
    let dead = world.record(1);
    assert_eq!((dead.state, dead.why.as_deref()), (JobState::Dead, Some("no route")));
    assert_eq!((started(&world.pass(100_000)), world.queue.unsettled()), (vec![], 0));
    // Workers that die with it use attempts, too.
    submit(&mut world.queue, &job(2, "ann")).unwrap();
    for _ in 0..2 {
        world.pass(60_000);
        let timing = Timing { lease_ms: LEASE_MS };
        let bench = Bench::parse("name='b'\ntarget='local'").unwrap();
        world.workers = vec![Worker::new(&format!("w{}", world.queue.now_ms), "0", vec![bench], 1, timing)];
    }
    world.pass(60_000);
    let dead = world.record(2);
    assert!(dead.state == JobState::Dead && dead.why.unwrap().contains("begun 2 times"));
}

#[test]
fn what_is_no_fault_of_the_job_s_uses_no_attempt() {
    let mut world = World::new("", 1);
    submit(&mut world.queue, &job(1, "ann")).unwrap();
    let id = job(1, "ann").id;
    for _ in 0..5 {
        assert_eq!(started(&world.pass(20_000)), [(0, 1)]);
        world.workers[0].ended(&id, CampaignEnd::HandedBack("the store cannot be reached".to_owned()));
        world.pass(1000);
        let record = world.record(1);
        assert!(record.state == JobState::Waiting && record.why.is_some(), "{record:?}");
    }
}

#[test]
fn a_job_is_taken_back_before_it_begins_and_while_it_runs() {
    let mut world = World::new("", 1);
    for number in 1..=2 {
        submit(&mut world.queue, &job(number, "ann")).unwrap();
    }
    assert_eq!(started(&world.pass(1000)), [(0, 1)]);
    assert_eq!(cancel(&mut world.queue, &job(2, "ann").id, "ben"), Ok(Cancelled::BeforeItBegan));
    assert_eq!(cancel(&mut world.queue, &job(1, "ann").id, "ben"), Ok(Cancelled::WhileItRuns));
    let actions = world.pass(6000);
    assert!(has(&actions, &Action::Stop(job(1, "ann").id)), "{actions:?}");
    world.workers[0].ended(&job(1, "ann").id, CampaignEnd::Stopped);
    assert_eq!(started(&world.pass(60_000)), []);
    for number in 1..=2 {
        let record = world.record(number);
        assert_eq!((record.state, record.cancelled_by.as_deref()), (JobState::Cancelled, Some("ben")));
    }
    let late = cancel(&mut world.queue, &job(1, "ann").id, "ben");
    assert_eq!(late, Ok(Cancelled::TooLate(JobState::Cancelled)));
    assert!(cancel(&mut world.queue, "nothing", "ben").is_err());
    // Taken back when its worker had died with it.
    submit(&mut world.queue, &job(3, "ann")).unwrap();
    assert_eq!(started(&world.pass(6000)), [(0, 3)]);
    assert_eq!(cancel(&mut world.queue, &job(3, "ann").id, "ben"), Ok(Cancelled::WhileItRuns));
    world.workers = World::new("", 2).workers.split_off(1);
    assert_eq!(started(&world.pass(60_000)), []);
    assert_eq!((world.record(3).state, world.queue.unsettled()), (JobState::Cancelled, 0));
}

#[test]
fn a_bench_says_who_when_and_whether_at_all() {
    let mut world = World::new("users = ['ann']\nhours = ['tue 10:00-11:00']", 1);
    for (number, user) in [(1, "ann"), (2, "eve")] {
        submit(&mut world.queue, &job(number, user)).unwrap();
    }
    submit(&mut world.queue, &Job { not_before_s: Some((EPOCH_MS / 1000) as u64 + 9000), ..job(3, "ann") }).unwrap();
    // 08:00 to 10:00.
    assert_eq!(started(&world.pass(7_199_000)), []);
    let why = Maintenance { by: "ann".to_owned(), reason: "new board".to_owned() };
    maintain(&mut world.queue, "b", Some(why.clone())).unwrap();
    assert_eq!(started(&world.pass(60_000)), []);
    maintain(&mut world.queue, "b", None).unwrap();
    assert!(maintain(&mut world.queue, "other", Some(why)).is_err());
    assert_eq!(started(&world.pass(6000)), [(0, 1)]);
    world.workers[0].ended(&job(1, "ann").id, CampaignEnd::Done { failed_trials: 0 });
    // Not before half past ten, and Eve's never.
    assert_eq!(started(&world.pass(1_700_000)), []);
    assert_eq!(started(&world.pass(60_000)), [(0, 3)]);
    let refused = world.record(2);
    assert!(refused.state == JobState::Refused && refused.why.unwrap().contains("does not take jobs of eve"));
}

#[test]
fn what_is_no_job_goes_away() {
    let mut world = World::new("", 1);
    let ticket = job(1, "ann").ticket();
    world.queue.queue(&ticket, b"\xff{").unwrap();
    // In the name of somebody else than its place in the queue says, and of a job that is somebody else's: that stays as it is.
    let later = Job { not_before_s: Some(4_000_000_000), ..job(2, "ann") };
    let waits = |job: &Job| serde_json::to_vec(&JobRecord::waiting(job.clone())).unwrap();
    // Its message is not there: a queue takes no second one of a name that it has.
    world.queue.put(Bucket::Jobs, &later.id, &waits(&later), 0).unwrap();
    for (place, forged) in [
        (job(2, "ben"), job(2, "ann")),
        (job(2, "ben"), job(2, "ben")),
        (job(2, "ben"), later.clone()),
        (job(4, "ben"), later.clone()),
    ] {
        // Also where it has been begun as often as it may be: it is not buried in somebody else's name.
        for attempts in [0, place.attempts] {
            let ticket = place.ticket();
            world.queue.queue(&ticket, &serde_json::to_vec(&forged).unwrap()).unwrap();
            for _ in 0..attempts {
                assert!(matches!(world.queue.claim(&ticket), Ok(ClaimResult::Yes(_))));
                world.queue.now_ms += LEASE_MS;
            }
            assert_eq!((started(&world.pass(60_000)), world.queue.unsettled()), (vec![], 0), "{forged:?}");
            assert_eq!(world.record(2), JobRecord::waiting(later.clone()));
        }
    }
    assert_eq!(jobs(&mut world.queue).unwrap().len(), 1);
    // One's own that this version cannot read is refused, with the reason.
    let unread = job(5, "ann");
    world.queue.put(Bucket::Jobs, &unread.id, &waits(&unread), 0).unwrap();
    world.queue.queue(&unread.ticket(), b"{\"priority\":\"urgent\"}").unwrap();
    assert_eq!(started(&world.pass(60_000)), []);
    let record = world.record(5);
    assert!(record.state == JobState::Refused && record.why.unwrap().contains("the same version of linerate"));
    // Values that somebody else wrote are as if they were not there.
    world.queue.put(Bucket::Leases, "b", b"?", 0).unwrap();
    let entry = world.queue.get(Bucket::Benches, "b").unwrap().unwrap();
    world.queue.put(Bucket::Benches, "b", b"[]", entry.revision).unwrap();
    submit(&mut world.queue, &job(3, "ann")).unwrap();
    assert_eq!(started(&world.pass(60_000)), [(0, 3)]);
}

/// One that was asked to end, and does not though its lease is renewed all the time.
#[test]
fn a_campaign_that_hangs_is_killed() {
    let mut world = World::new("", 1);
    submit(&mut world.queue, &job(1, "ann")).unwrap();
    assert_eq!(started(&world.pass(1000)), [(0, 1)]);
    cancel(&mut world.queue, &job(1, "ann").id, "ann").unwrap();
    let actions = world.pass(LEASE_MS / 2);
    assert!(
        has(&actions, &Action::Stop(job(1, "ann").id)) && !has(&actions, &Action::Kill(job(1, "ann").id)),
        "{actions:?}"
    );
    let killed =
        |actions: &[(usize, Action)]| actions.iter().filter(|(_, action)| matches!(action, Action::Kill(_))).count();
    assert_eq!(killed(&world.pass(3 * LEASE_MS)), 1);
    world.workers[0].ended(&job(1, "ann").id, CampaignEnd::Stopped);
    world.pass(1000);
    assert_eq!(world.record(1).state, JobState::Cancelled);
}

/// A queue that has lost what it had is told of the benches again; and who leaves is on no list any more.
#[test]
fn a_worker_says_again_what_the_queue_forgot() {
    let mut world = World::new("", 1);
    world.pass(1000);
    for (bucket, key) in [(Bucket::Benches, "b"), (Bucket::Workers, "w0")] {
        let entry = world.queue.get(bucket, key).unwrap().unwrap();
        world.queue.delete(bucket, key, entry.revision).unwrap();
    }
    world.pass(LEASE_MS);
    assert!(world.queue.get(Bucket::Benches, "b").unwrap().is_some());
    assert!(world.queue.get(Bucket::Workers, "w0").unwrap().is_some());
    world.workers[0].leave(&mut world.queue).unwrap();
    assert!(world.queue.get(Bucket::Workers, "w0").unwrap().is_none());
}

#[test]
fn a_worker_that_closes_hands_back() {
    let mut world = World::new("", 2);
    submit(&mut world.queue, &job(1, "ann")).unwrap();
    assert_eq!(started(&world.pass(1000)), [(0, 1)]);
    world.workers[0].close();
    assert!(has(&world.pass(1000), &Action::Stop(job(1, "ann").id)));
    world.workers[0].ended(&job(1, "ann").id, CampaignEnd::Stopped);
    assert_eq!(started(&world.pass(6000)), [(1, 1)], "and another has it at once");
    assert!(world.workers[0].is_idle());
}
