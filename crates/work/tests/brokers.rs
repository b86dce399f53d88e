//! A queue on a NATS server and one in memory answer alike; and what only a server can do: crash, forget, be away.
//! The server is Debian's, started in a folder of its own.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use linerate_lab::services;
use linerate_work::{
    Access, Action, Bench, Broker, Bucket, CampaignEnd, Cancelled, Claim, ClaimResult, Job, JobState, Maintenance,
    Memory, Nats, Overview, Priority, RequestError, Times, Timing, Worker, benches, cancel, jobs, leases, maintain,
    submit, workers,
};

const LEASE: Duration = Duration::from_secs(3);

struct Server {
    nats: services::Nats,
    folder: PathBuf,
}

impl Server {
    /// `None`, said by name, where nats-server is not installed.
    fn new(name: &str) -> Option<Server> {
        if !services::Nats::is_installed() {
            println!("SKIPPED {name}: nats-server is not installed (cargo xtask setup servers)");
            return None;
        }
        let folder = std::env::temp_dir().join(format!("linerate-brokers-{name}-{}", std::process::id()));
        let nats = services::Nats::start(&folder).unwrap();
        Some(Server { nats, folder })
    }

    fn open(&self) -> Nats {
        let access = Access::new(&self.nats.url(), None, None).unwrap();
        // Whoever only asks makes nothing.
        let _ = Nats::visit(&access);
        Nats::open(&access, Some(LEASE)).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// What docs/teams.md says that somebody needs, as a server's configuration has it.
fn rights(who: &str) -> String {
    let page = include_str!("../../../docs/teams.md");
    let row = page.lines().find(|line| line.starts_with(&format!("| {who}"))).expect("a row of the table");
    let cells: Vec<&str> = row.split('|').map(str::trim).collect();
    let subjects = |cell: &str| cell.replace('`', "\"");
    format!("{{ publish: [{}], subscribe: [{}] }}", subjects(cells[2]), subjects(cells[3])).replace("NAME", "ann")
}

#[test]
fn who_may_publish_what_the_page_says_can_do_it_and_hears_at_once_what_not() {
    let Some(mut server) = Server::new("rights") else { return };
    server.nats.kill().unwrap();
    let user = |name: &str, who: &str| format!("{{ user: {name}, password: secret, permissions: {} }}", rights(who));
    let mut users = vec![
        user("worker", "a worker"),
        user("ann", "who submits"),
        user("lame", "who submits").replace("jobs.>", "x"),
    ];
    // May do anything but read what is in the buckets.
    let all_but = "publish: { allow: \">\", deny: \"$JS.API.CONSUMER.MSG.NEXT.>\" }";
    users.push(format!("{{ user: blind, password: secret, permissions: {{ {all_but} }} }}"));
    server.nats.restrict(&format!("authorization {{ users: [{}] }}", users.join(", "))).unwrap();
    server.nats.again().unwrap();
    let access = |name: &str| {
        let file = server.folder.join(name);
        std::fs::write(&file, format!("{name}:secret")).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        Access::new(&server.nats.url(), Some(&file), None).unwrap()
    };
    let mut nats = Nats::open(&access("worker"), Some(LEASE)).unwrap();
    let bench = Bench::parse("name = \"b\"\ntarget = \"local\"\nhost = \"local\"\n").unwrap();
    let mut worker = Worker::new("w", "0", vec![bench], 4, Timing { lease_ms: LEASE.as_millis() as u64 });
    worker.step(&mut nats, Times { mono_ms: 1, unix_ms: 1_795_500_000_000 });
    assert_eq!(benches(&mut nats).unwrap().len(), 1, "the worker's bench is announced");

    let mut ann = Nats::visit(&access("ann")).unwrap();
    submit(&mut ann, &job("b", "ann", 1, 1)).unwrap();
    assert_eq!(jobs(&mut ann).unwrap().len(), 1);
    let began = Instant::now();
    let refused = submit(&mut ann, &job("b", "bob", 2, 1)).unwrap_err().to_string();
    assert!(refused.contains("does not let this user publish to linerate.job.b.bob."), "{refused}");
    assert!(began.elapsed() < Duration::from_millis(400), "the server says so at once");
    assert_eq!(jobs(&mut nats).unwrap().len(), 1, "nothing of it is there");
    cancel(&mut ann, &job("b", "ann", 1, 1).id, "ann").unwrap();
    assert_eq!(jobs(&mut nats).unwrap()[0].state, JobState::Cancelled);
    let mut blind = Nats::visit(&access("blind")).unwrap();
    let refused = benches(&mut blind).unwrap_err().to_string();
    assert!(refused.contains("publish to $JS.API.CONSUMER.MSG.NEXT.KV_linerate-benches."), "{refused}");
    let mut lame = Nats::visit(&access("lame")).unwrap();
    let refused = submit(&mut lame, &job("b", "ann", 3, 1)).unwrap_err().to_string();
    assert!(refused.contains("publish to $KV.linerate-jobs."), "{refused}");
    assert_eq!(nats.tickets(None).unwrap(), [], "nothing waits that nobody sees");
}

#[test]
fn what_a_server_refuses_is_said_with_what_to_do() {
    let Some(mut server) = Server::new("refusals") else { return };
    server.nats.kill().unwrap();
    server.nats.restrict("jetstream { max_file_store: 1MB }\nmax_payload: 64KB").unwrap();
    server.nats.again().unwrap();
    let access = Access::new(&server.nats.url(), None, None).unwrap();
    let mut nats = Nats::open(&access, Some(LEASE)).unwrap();
    let long = |number: u32, octets: usize| Job { source: "#".repeat(octets), ..job("b", "ann", number, 1) };
    let too_long = submit(&mut nats, &long(1, 80_000)).unwrap_err().to_string();
    assert!(too_long.contains("refuses") && too_long.contains("max_payload"), "{too_long}");
    let full = (2..40).find_map(|number| Some((number, submit(&mut nats, &long(number, 50_000)).err()?))).unwrap();
    assert!(full.1.to_string().contains("no room") && full.1.to_string().contains("max_file_store"), "{}", full.1);
    // What waits can be taken back all the same.
    let waiting = long(2, 0).id;
    let came = cancel(&mut nats, &waiting, "ann").map_err(|error| error.to_string());
    assert!(came.as_ref().is_ok_and(|came| *came == Cancelled::BeforeItBegan), "{came:?}");
    assert!(nats.tickets(None).unwrap().iter().all(|ticket| ticket.id != waiting));
    drop(nats);

    server.nats.kill().unwrap();
    server.nats.restrict("authorization { user: ann, password: secret }").unwrap();
    server.nats.again().unwrap();
    let said = |access: &Access| Nats::open(access, None).map(drop).unwrap_err().to_string();
    let nobody = said(&access);
    assert!(nobody.contains("--queue-credentials") && !nobody.contains("JetStream"), "{nobody}");
    let file = server.folder.join("wrong");
    std::fs::write(&file, "ann:wrong").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let wrong = said(&Access::new(&server.nats.url(), Some(&file), None).unwrap());
    assert!(wrong.contains("does not let this user in"), "{wrong}");
    let plain = said(&Access::new(&server.nats.url().replace("nats://", "tls://"), None, None).unwrap());
    assert!(plain.contains("?tls=off"), "{plain}");
    assert!(said(&Access::new("nats://127.0.0.1:99999", None, None).unwrap()).contains("write nats://"));
}

fn job(bench: &str, user: &str, number: u32, attempts: u32) -> Job {
    Job {
        id: format!("{number:026}"),
        group: "0".repeat(26),
        bench: bench.to_owned(),
        user: user.to_owned(),
        plan: "tcp".to_owned(),
        source: "format = \"linerate.plan/1\" # ü \u{202e}".to_owned(),
        sets: Vec::new(),
        seed: None,
        repeat: None,
        priority: Priority::Normal,
        not_before_s: None,
        attempts,
        submitted_ms: 1,
    }
}

fn claimed(what: ClaimResult) -> Claim {
    match what {
        ClaimResult::Yes(claim) => *claim,
        other => panic!("{other:?}"),
    }
}

/// What both must answer; `pass` lets so much time pass.
fn answers<B: Broker>(broker: &mut B, pass: impl Fn(&mut B, Duration)) {
    for bucket in Bucket::ALL {
        assert_eq!(broker.get(bucket, "a").unwrap(), None);
        let first = broker.put(bucket, "a", b"one", 0).unwrap().expect("nobody has written");
        assert_eq!(broker.put(bucket, "a", b"two", 0).unwrap(), None, "it is there");
        let second = broker.put(bucket, "a", b"two", first).unwrap().expect("as it was read");
        assert_eq!(broker.put(bucket, "a", b"three", first).unwrap(), None, "somebody has written since");
        assert!(second > first);
        broker.delete(bucket, "a", first).unwrap();
        let entry = broker.get(bucket, "a").unwrap().expect("of another revision, so it stays");
        assert_eq!((entry.revision, entry.value.as_slice()), (second, b"two".as_slice()));
        broker.delete(bucket, "a", second).unwrap();
        assert_eq!(broker.get(bucket, "a").unwrap(), None);
        let mark = broker.mark(bucket).unwrap();
        assert_eq!(broker.mark(bucket).unwrap(), mark, "nobody has written");
        let third = broker.put(bucket, "a", b"again", 0).unwrap().expect("it was deleted");
        assert!(third > second && broker.mark(bucket).unwrap() != mark);
        for at in 0..300 {
            broker.put(bucket, &format!("k{at}"), format!("{at}").as_bytes(), 0).unwrap().expect("new");
        }
        let all = broker.all(bucket).unwrap();
        let keys: BTreeSet<&str> = all.iter().map(|entry| entry.key.as_str()).collect();
        assert_eq!((all.len(), keys.len()), (301, 301), "{bucket:?}");
        assert!(all.iter().any(|entry| entry.key == "k17" && entry.value == b"17"));
    }
    let of = |number, attempts| {
        let job = job("b", "ann", number, attempts);
        (job.ticket(), serde_json::to_vec(&job).unwrap())
    };
    let [(one, text), (two, _), (three, _)] = [of(1, 2), of(2, 3), of(3, 3)];
    for (ticket, payload) in [of(1, 2), of(2, 3), of(3, 3), of(1, 2)] {
        broker.queue(&ticket, &payload).unwrap();
    }
    let tickets = |broker: &mut B, benches: &[&str]| {
        let benches: BTreeSet<String> = benches.iter().map(|name| (*name).to_owned()).collect();
        let mut all = broker.tickets(Some(&benches)).unwrap();
        all.sort();
        all
    };
    assert_eq!(tickets(broker, &["b"]).len(), 3, "one was queued twice");
    assert_eq!(tickets(broker, &["b", "c"]).len(), 3);
    assert_eq!(tickets(broker, &["c"]), []);
    assert_eq!(tickets(broker, &[]), []);
    let claim = claimed(broker.claim(&one).unwrap());
    assert_eq!((claim.attempt, &claim.payload), (1, &text));
    assert_eq!(broker.claim(&one).unwrap(), ClaimResult::Held);
    assert_eq!(tickets(broker, &["b"]).len(), 3, "held ones are among them");
    // Extended, it is held for longer than its time.
    for _ in 0..4 {
        pass(broker, LEASE / 2);
        broker.extend(&claim).unwrap();
    }
    assert_eq!(broker.claim(&one).unwrap(), ClaimResult::Held);
    pass(broker, LEASE + LEASE / 3);
    for bucket in Bucket::ALL {
        assert_eq!(broker.all(bucket).unwrap().is_empty(), bucket.vanishes(), "{bucket:?}");
    }
    let claim = claimed(broker.claim(&one).unwrap());
    assert_eq!(claim.attempt, 2, "nobody extended it");
    pass(broker, LEASE + LEASE / 3);
    assert_eq!(broker.claim(&one).unwrap(), ClaimResult::Exhausted(text), "its holder died twice");
    broker.remove(&one).unwrap();
    assert_eq!(broker.claim(&one).unwrap(), ClaimResult::Gone);
    // Handed back: counted, and not counted.
    let claim = claimed(broker.claim(&two).unwrap());
    broker.again(&claim, 1000, true).unwrap();
    assert_eq!(broker.claim(&two).unwrap(), ClaimResult::Held, "not yet");
    pass(broker, Duration::from_millis(1300));
    let claim = claimed(broker.claim(&two).unwrap());
    assert_eq!(claim.attempt, 2);
    broker.again(&claim, 0, false).unwrap();
    let claim = claimed(broker.claim(&two).unwrap());
    assert_eq!(claim.attempt, 1, "it is as if it had not been begun");
    broker.settle(&claim).unwrap();
    broker.settle(&claim).unwrap();
    assert_eq!(broker.claim(&two).unwrap(), ClaimResult::Gone);
    broker.remove(&three).unwrap();
    assert_eq!(tickets(broker, &["b"]), []);
}

#[test]
fn both_answer_alike() {
    answers(&mut Memory::new(LEASE.as_millis() as u64), |memory, time| memory.now_ms += time.as_millis() as u64);
    let Some(server) = Server::new("alike") else { return };
    answers(&mut server.open(), |_, time| thread::sleep(time));
}

#[test]
fn a_server_that_crashed_goes_on() {
    let Some(mut server) = Server::new("crash") else { return };
    let mut queue = server.open();
    let job = job("b", "ann", 1, 3);
    submit(&mut queue, &job).unwrap();
    let revision = queue.put(Bucket::Benches, "x", b"kept", 0).unwrap().unwrap();
    server.nats.kill().unwrap();
    let began = Instant::now();
    assert!(queue.get(Bucket::Benches, "x").is_err());
    assert!(began.elapsed() < Duration::from_secs(6), "nobody waits for ever: {:?}", began.elapsed());
    server.nats.again().unwrap();
    let found = retry(|| queue.get(Bucket::Benches, "x").ok()).expect("it was written").revision;
    assert_eq!(found, revision);
    assert_eq!(jobs(&mut queue).unwrap().len(), 1);
    let ticket = queue.tickets(None).unwrap().remove(0);
    assert_eq!(*ticket, job.ticket());
    let claim = claimed(queue.claim(&ticket).unwrap());
    queue.settle(&claim).unwrap();
}

/// A server that has lost all it had is made ready anew, by whoever asks first.
#[test]
fn a_server_that_forgot_everything_goes_on() {
    let Some(mut server) = Server::new("forgot") else { return };
    let mut queue = server.open();
    queue.put(Bucket::Benches, "x", b"kept", 0).unwrap();
    server.nats.kill().unwrap();
    std::fs::remove_dir_all(server.folder.join("data")).unwrap();
    server.nats.again().unwrap();
    let found = retry(|| queue.get(Bucket::Benches, "x").ok());
    assert_eq!(found, None);
    submit(&mut queue, &job("b", "ann", 1, 3)).unwrap();
    assert_eq!(queue.tickets(None).unwrap().len(), 1);
}

/// What is told of campaigns is heard, of all and of one; an overview reads jobs anew where one has changed.
#[test]
fn what_happens_is_heard() {
    let Some(server) = Server::new("heard") else { return };
    let (mut queue, other) = (server.open(), server.open());
    let teller = other.teller();
    let (all, one) = (queue.hear(None), queue.hear(Some("B")));
    assert_eq!(queue.connections(), (1, true));
    let heard = retry(|| {
        teller.tell("A", b"{}");
        all.next(Duration::from_millis(100)).unwrap()
    });
    assert_eq!(heard, ("A".to_owned(), b"{}".to_vec()));
    assert_eq!(one.next(Duration::from_millis(100)).unwrap(), None, "that was of another");
    teller.tell("B", b"[]");
    assert_eq!(one.next(Duration::from_secs(5)).unwrap(), Some(("B".to_owned(), b"[]".to_vec())));
    let mut overview = Overview::default();
    overview.refresh(&mut queue).unwrap();
    assert!(overview.jobs.is_empty());
    submit(&mut queue, &job("b", "ann", 1, 3)).unwrap();
    overview.refresh(&mut queue).unwrap();
    assert_eq!((overview.jobs.len(), overview.waiting["b"]), (1, 1));
    for odd in ["*", ">", "a b", "x\r\nPUB y 0", ""] {
        assert!(matches!(cancel(&mut queue, odd, "ann"), Err(RequestError::Unknown { .. })), "{odd:?}");
    }
    cancel(&mut queue, &overview.jobs[0].job.id.clone(), "ann").unwrap();
    overview.refresh(&mut queue).unwrap();
    assert_eq!((overview.jobs[0].state, overview.waiting.len()), (JobState::Cancelled, 0));
}

/// Queues something under any name, as a program of somebody's may.
fn publish(server: &Server, subject: &str) {
    let mut stream = TcpStream::connect(("127.0.0.1", server.nats.port())).unwrap();
    let said = format!("CONNECT {{\"verbose\":false}}\r\nPUB {subject} 2\r\n{{}}\r\nPING\r\n");
    stream.write_all(said.as_bytes()).unwrap();
    let heard = BufReader::new(stream).lines().map_while(Result::ok).any(|line| line == "PONG");
    assert!(heard, "{subject}");
}

#[test]
fn what_no_worker_can_read_is_told_once_and_taken_away() {
    let Some(server) = Server::new("unreadable") else { return };
    let mut queue = server.open();
    let names = ["linerate.job.nonsense", "linerate.job.b.ann.1.0.0.X", "linerate.job.b.ann.1.0.3.X.Y"];
    names.iter().for_each(|name| publish(&server, name));
    // Nobody's, and no pattern by which others' jobs are taken.
    publish(&server, "linerate.job.*");
    submit(&mut queue, &job("c", "ann", 1, 3)).unwrap();
    let bench = Bench::parse("name = 'b'\ntarget = 'local'").unwrap();
    let mut worker = Worker::new("w", "0", vec![bench], 1, Timing { lease_ms: LEASE.as_millis() as u64 });
    let mut refused = |mono_ms: u64| {
        let actions = worker.step(&mut queue, Times { mono_ms, unix_ms: 1_795_500_000_000 });
        assert_eq!(worker.trouble(), None);
        let of = |action| if let Action::Refused(name) = action { Some(name) } else { None };
        actions.into_iter().filter_map(of).collect::<BTreeSet<_>>()
    };
    assert_eq!(refused(1), BTreeSet::from(names.map(str::to_owned)));
    assert_eq!(refused(5000), BTreeSet::new());
    assert_eq!(queue.tickets(None).unwrap().len(), 1);
}

fn retry<T>(mut what: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(value) = what() {
            return value;
        }
        assert!(began.elapsed() < Duration::from_secs(20), "it does not come back");
        thread::sleep(Duration::from_millis(100));
    }
}

/// The core over a server: two users, a job taken back, and who is there.
#[test]
fn a_worker_over_a_server() {
    let Some(server) = Server::new("worker") else { return };
    let (mut queue, mut client) = (server.open(), server.open());
    let bench = Bench::parse("name = 'b'\ntarget = 'local'\n[limits]\nusers = ['ann', 'ben']").unwrap();
    let timing = Timing { lease_ms: queue.lease().as_millis() as u64 };
    let mut worker = Worker::new("w1", "0", vec![bench], 4, timing);
    for (user, numbers) in [("ann", 0..4), ("ben", 4..6), ("eve", 6..7)] {
        numbers.for_each(|number| submit(&mut client, &job("b", user, number, 3)).unwrap());
    }
    cancel(&mut client, &format!("{:026}", 3), "ann").unwrap();
    let began = Instant::now();
    let mut order = Vec::new();
    while order.len() < 5 {
        assert!(began.elapsed() < Duration::from_secs(20), "{order:?}");
        let mono_ms = began.elapsed().as_millis() as u64;
        for action in worker.step(&mut queue, Times { mono_ms, unix_ms: 1_795_500_000_000 + mono_ms as i64 }) {
            if let Action::Start(start) = action {
                assert_eq!(leases(&mut client).unwrap()["b"].worker, "w1");
                order.push(start.job.user.clone());
                thread::sleep(Duration::from_millis(20));
                worker.ended(&start.job.id, CampaignEnd::Done { failed_trials: 0 });
            }
        }
    }
    assert_eq!(order[..4].iter().filter(|user| *user == "ben").count(), 2, "by turns: {order:?}");
    let mono_ms = began.elapsed().as_millis() as u64;
    worker.step(&mut queue, Times { mono_ms, unix_ms: 1_795_500_000_000 + mono_ms as i64 });
    let ended: Vec<JobState> = jobs(&mut client).unwrap().iter().map(|one| one.state).collect();
    let count = |state| ended.iter().filter(|one| **one == state).count();
    assert_eq!((count(JobState::Done), count(JobState::Cancelled), count(JobState::Refused)), (5, 1, 1), "{ended:?}");
    assert_eq!(client.tickets(None).unwrap(), []);
    assert!(leases(&mut client).unwrap().is_empty() && workers(&mut client).unwrap().len() == 1);
    let known = benches(&mut client).unwrap();
    assert!(known[0].fence > 1_795_500_000_000, "{known:?}");
    // No name is a pattern.
    let why = || Some(Maintenance { by: "ann".to_owned(), reason: "new board".to_owned() });
    for pattern in ["*", ">", "b.*", ""] {
        assert!(matches!(maintain(&mut client, pattern, why()), Err(RequestError::Unknown { .. })), "{pattern}");
    }
    assert_eq!(benches(&mut client).unwrap(), known);
    maintain(&mut client, "b", why()).unwrap();
    assert_eq!(benches(&mut client).unwrap()[0].maintenance, why());
    worker.leave(&mut queue).unwrap();
    assert_eq!(workers(&mut client).unwrap(), []);
}
