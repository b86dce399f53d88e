//! A team's queue with the real programs: jobs submitted, carried out by workers between two machines made of namespaces, and
//! workers, campaigns, broker, database and cable that fail in the middle.
//! Servers are Debian's, started in a folder of their own and not as root.

mod machines;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use linerate_control::message::{FencingToken, Holder};
use linerate_control::{Lease, Psk};
use linerate_host::sys::local;
use linerate_lab::Shape;
use linerate_lab::services::{Nats, Postgres};
use linerate_results::record::Record;
use linerate_results::select::Filter;
use linerate_results::store::Store;
use linerate_work::{Access, JobRecord, JobState, jobs, leases};
use machines::chance::Chance;
use machines::relay::Relay;
use machines::{Bench, Ran, Running, number, signal};

const IN_TIME: Duration = Duration::from_secs(15);
const LONG: Duration = Duration::from_secs(90);
/// Short, so that what a death costs is over soon.
const LEASE: Duration = Duration::from_secs(6);

/// Trials of some milliseconds that change settings.
const PLAN: &str = r#"
format = "linerate.plan/1"
workload = "tcp-rr"
repeat = 6
[options]
duration = "30ms"
warmup = "0s"
interval = "10ms"
[factors]
target.mtu = [1400, 9000]
target.sysctl.net.ipv4.tcp_sack = [0, 1]
"#;

/// Two machines, a queue, and a bench's file.
struct Team {
    bench: Bench,
    nats: Nats,
    store: PathBuf,
    plan: String,
}

impl Team {
    /// `None`, said by name, where something is missing.
    fn new(name: &str, limits: &str) -> Option<Team> {
        if !Nats::is_installed() {
            println!("SKIPPED {name}: nats-server is not installed (cargo xtask setup servers)");
            return None;
        }
        let bench = Bench::of(name, &Shape { tx_rate_bps: None, rx_rate_bps: None, ..Shape::modest_board() })?;
        let nats = Nats::start(&bench.folder.0.join("nats")).unwrap();
        let file = format!(
            "name = \"b\"\ntarget = \"{}\"\nhost = \"{}\"\ntags = {{ board = \"two\" }}\n[limits]\n{limits}\n",
            bench.target(),
            bench.host()
        );
        fs::write(bench.folder.path("b.toml"), file).unwrap();
        let plan = bench.folder.path("restless.toml");
        fs::write(&plan, PLAN).unwrap();
        let store = bench.store_path();
        fs::create_dir_all(store.parent().unwrap()).unwrap();
        Some(Team { bench, nats, store, plan })
    }

    fn worker(&self) -> Running {
        Running::start(self.worker_command())
    }

    /// One that keeps its plans there.
    fn worker_in(&self, run: &str) -> Running {
        let mut command = self.worker_command();
        command.env("XDG_RUNTIME_DIR", run);
        Running::start(command)
    }

    fn worker_command(&self) -> std::process::Command {
        let (file, url, store) = (self.bench.folder.path("b.toml"), self.nats.url(), self.store.display().to_string());
        let lease = format!("{}s", LEASE.as_secs());
        let words = ["worker", "--bench", &file, "--queue", &url, "--store", &store, "--lease", &lease];
        self.bench.linerate(&words)
    }

    fn told(&self, words: &[&str]) -> Ran {
        let url = self.nats.url();
        Running::start(self.bench.linerate(&[words, &["--queue", &url]].concat())).wait(IN_TIME)
    }

    fn submit(&self, more: &[&str]) -> Ran {
        let words = [&["submit", self.plan.as_str(), "--on", "board=two"], more].concat();
        self.told(&words)
    }

    fn queue(&self) -> linerate_work::Nats {
        linerate_work::Nats::visit(&Access::new(&self.nats.url(), None, None).unwrap()).unwrap()
    }

    /// What the campaigns change.
    fn state(&self) -> Vec<String> {
        let read = || {
            let sack = fs::read_to_string("/proc/sys/net/ipv4/tcp_sack")?;
            let mtu = fs::read_to_string("/proc/sys/net/ipv6/conf/eth0/mtu")?;
            Ok(format!("sack {} mtu {}", sack.trim(), mtu.trim()))
        };
        vec![self.bench.lab().target.run(read).unwrap(), self.bench.lab().host.run(read).unwrap()]
    }

    fn records(&self) -> Vec<Record> {
        Store::open(&self.store).and_then(|store| store.select(&Filter::default())).unwrap()
    }

    /// Every finished trial of every job is in the store, and once.
    fn check_records(&self, jobs: &[JobRecord]) {
        let mut by_job: BTreeMap<String, Vec<u32>> = BTreeMap::new();
        for record in self.records().into_iter().filter(|record| record.error.is_none()) {
            by_job.entry(record.campaign).or_default().push(record.trial.index);
        }
        let ids: BTreeSet<&String> = jobs.iter().map(|one| &one.job.id).collect();
        assert!(by_job.keys().all(|id| ids.contains(id)), "campaigns are jobs: {:?} {ids:?}", by_job.keys());
        for one in jobs {
            let mut trials = by_job.remove(&one.job.id).unwrap_or_default();
            trials.sort_unstable();
            let once: BTreeSet<u32> = trials.iter().copied().collect();
            assert_eq!(once.len(), trials.len(), "stored twice: {trials:?} of {one:?}");
            if one.state == JobState::Done && one.failed_trials == Some(0) {
                assert_eq!(trials, (0..24).collect::<Vec<u32>>(), "{one:?}");
            }
        }
    }

    /// By the agents' own log no two controllers had the bench at a time, not even one of its machines each; how many there were.
    fn check_fences(&self) -> usize {
        let log = fs::read_to_string(self.fences()).unwrap();
        let (mut there, mut fences, mut last) = (BTreeMap::new(), BTreeSet::new(), 0);
        for line in log.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let [what, fence, process, _, machine] = words[..] else { panic!("{line}") };
            let fence: u64 = fence.parse().unwrap();
            if what == "taken" {
                assert!(there.values().all(|other| *other == fence), "two controllers at a time: {line}\n{log}");
                assert!(fence >= last, "an old one came in: {line}\n{log}");
                (last, _) = (fence, fences.insert(fence));
                there.insert((process, machine), fence);
            } else {
                there.remove(&(process, machine)).expect("it was taken");
            }
        }
        fences.len()
    }

    fn fences(&self) -> PathBuf {
        self.bench.folder.0.join("journals/fence-b")
    }
}

#[test]
fn jobs_are_carried_out_where_and_as_their_bench_allows() {
    let Some(team) = Team::new("jobs", "settings = [\"target.*\"]\nusers = [\"ann\", \"ben\"]") else { return };
    let before = team.state();
    assert!(team.submit(&["--user", "ann"]).stderr.contains("the queue has no benches yet"));
    let worker = team.worker();
    team.bench.wait_until("the worker is there", IN_TIME, || team.told(&["jobs", "benches"]).stdout.contains("free"));
    // What the bench's file does not allow is said before it is queued.
    for (words, part) in [
        (vec!["--user", "eve"], "b does not take jobs of eve"),
        (vec!["--user", "ann", "--set", "host.mtu=1400"], "it changes host.mtu; settings = [\"host.mtu\"]"),
        (vec!["--user", "a b"], "is not a user"),
    ] {
        let ran = team.submit(&words);
        assert!(ran.status.code() == Some(2) && ran.stderr.contains(part), "{ran:#?}");
    }
    let ran = team.told(&["submit", &team.plan, "--on", "board=three"]);
    assert!(ran.stderr.contains("no bench is board=three; there are b"), "{ran:#?}");
    // One that is taken back while nothing is begun, then one for each user.
    team.told(&["jobs", "maintenance", "b", "on", "--reason", "new board"]).check_done();
    assert!(team.told(&["jobs", "benches"]).stdout.contains("maintenance: new board"));
    let first = team.submit(&["--user", "ann", "--json"]).check_done().json()[0]["id"].as_str().unwrap().to_owned();
    assert!(team.told(&["jobs"]).stdout.contains("waiting"));
    assert!(team.told(&["jobs", "cancel", &first[..22]]).check_done().stdout.contains("taken out of the queue"));
    team.submit(&["--user", "ben", "--repeat", "6"]).check_done();
    team.submit(&["--user", "ann"]).check_done();
    team.told(&["jobs", "maintenance", "b", "off"]).check_done();
    let mut queue = team.queue();
    team.bench.wait_until("all are done", LONG, || jobs(&mut queue).unwrap().iter().all(|one| one.state.has_ended()));
    let all = jobs(&mut queue).unwrap();
    let states: Vec<JobState> = all.iter().map(|one| one.state).collect();
    assert_eq!(states, [JobState::Cancelled, JobState::Done, JobState::Done], "{all:#?}");
    team.check_records(&all);
    assert_eq!(team.check_fences(), 2);
    assert_eq!(team.state(), before);
    // Who ran what where with which options, from the job and from the record.
    let done = &all[1];
    let told = team.told(&["jobs", "show", &done.job.id]).check_done().stdout.clone();
    for part in ["of ben: restless on b, done.", "6 repeats", "At most 3 times begun", ", fence ", "records list"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert!(leases(&mut queue).unwrap().is_empty());
    // What was queued past the front desk is judged by the worker, too.
    let mut smuggled = done.job.clone();
    let (kept, last) = done.job.id.split_at(25);
    smuggled.id = format!("{kept}{}", if last == "X" { "Y" } else { "X" });
    smuggled.sets = vec![("host.mtu".to_owned(), "1400".to_owned())];
    linerate_work::submit(&mut queue, &smuggled).unwrap();
    let of = |queue: &mut linerate_work::Nats, id: &str| jobs(queue).unwrap().into_iter().find(|one| one.job.id == id);
    team.bench.wait_until("it is refused", LONG, || {
        of(&mut queue, &smuggled.id).is_some_and(|one| one.state == JobState::Refused)
    });
    assert!(of(&mut queue, &smuggled.id).unwrap().why.unwrap().contains("it changes host.mtu"));
    // Ctrl-C hands back what runs.
    team.submit(&["--user", "ann", "--repeat", "200", "--set", "duration=100ms"]).check_done();
    team.bench
        .wait_until("it runs", LONG, || jobs(&mut queue).unwrap().iter().any(|one| one.state == JobState::Running));
    team.bench.wait_for_traffic(100);
    worker.signal("INT");
    worker.wait(IN_TIME).check_done();
    team.bench.check_nothing_runs_but(&["/usr/sbin/nats-server"], Duration::from_secs(2));
    let last = jobs(&mut queue).unwrap().pop().unwrap();
    assert!(last.state == JobState::Waiting && last.why.is_some_and(|why| why.contains("handed it back")));
    assert!(leases(&mut queue).unwrap().is_empty());
    assert_eq!(team.state(), before);
}

/// An agent of the last controller is left on one machine, where it has not noticed yet that it is alone: the next controller waits, and has
/// the other machine no sooner than both.
#[test]
fn a_bench_is_taken_whole_or_not_at_all() {
    let Some(team) = Team::new("job-whole", "settings = [\"target.*\"]") else { return };
    let fence = Some(FencingToken { bench: "b".to_owned(), number: 1 });
    let last = Holder { controller: "last".to_owned(), name: "the last one".to_owned(), fence };
    let lab = team.bench.lab();
    let (over, is_over) = mpsc::channel::<()>();
    let _worker = thread::scope(|scope| {
        let held = move || {
            let _lease = Lease::take(&last, local::connect).map_err(std::io::Error::other)?;
            Ok(is_over.recv())
        };
        scope.spawn(move || lab.host.run(held));
        let _over = over;
        let worker = team.worker();
        let is_there = || team.told(&["jobs", "benches"]).stdout.contains("free");
        team.bench.wait_until("the worker is there", IN_TIME, is_there);
        team.submit(&["--user", "ann"]).check_done();
        let agents = || {
            let netns = [lab.target.path(), lab.host.path()].map(|netns| format!("--netns {}", netns.display()));
            let running = team.bench.processes();
            netns
                .iter()
                .all(|netns| running.iter().any(|(_, command)| command.contains(" agent ") && command.contains(netns)))
        };
        team.bench.wait_until("both agents are there", IN_TIME, agents);
        thread::sleep(Duration::from_secs(3));
        assert!(agents() && !team.fences().exists(), "{:?}", fs::read_to_string(team.fences()));
        worker
    });
    let mut queue = team.queue();
    team.bench.wait_until("it is done", LONG, || jobs(&mut queue).unwrap().iter().all(|one| one.state.has_ended()));
    let done = jobs(&mut queue).unwrap().remove(0);
    assert!(done.state == JobState::Done && done.attempt == 1, "{done:?}");
    assert_eq!(team.check_fences(), 1);
}

/// Somebody measures by hand with the board for longer than a job has attempts.
#[test]
fn a_board_that_somebody_measures_with_keeps_its_jobs() {
    let Some(team) = Team::new("job-busy", "settings = [\"target.*\"]") else { return };
    let (target, host, store) = (team.bench.target(), team.bench.host(), team.bench.folder.path("by-hand.sqlite"));
    let run =
        ["run", "tcp-rr", "--set", "duration=14s", "--quiet", "--target", &target, "--host", &host, "--store", &store];
    let by_hand = Running::start(team.bench.linerate(&run));
    let is_held = || !team.bench.processes().iter().all(|(_, command)| !command.contains(" agent "));
    team.bench.wait_until("somebody measures", IN_TIME, is_held);
    thread::sleep(Duration::from_secs(1));
    let _worker = team.worker();
    team.bench.wait_until("the worker is there", IN_TIME, || team.told(&["jobs", "benches"]).stdout.contains("free"));
    // A second one at the same time is told so by its status.
    let second = Running::start(team.bench.linerate(&run)).wait(IN_TIME);
    assert_eq!(second.status.code(), Some(75), "{second:?}");
    team.submit(&["--user", "ann", "--attempts", "1"]).check_done();
    let says_why = || team.told(&["jobs"]).stdout.contains("is busy");
    team.bench.wait_until("the list says why it waits", IN_TIME, says_why);
    by_hand.wait(LONG).check_done();
    let mut queue = team.queue();
    team.bench.wait_until("it is done", LONG, || jobs(&mut queue).unwrap().iter().all(|one| one.state.has_ended()));
    let done = jobs(&mut queue).unwrap().remove(0);
    assert!(done.state == JobState::Done, "{done:?}");
}

/// A certificate for the loopback, its key, and the authority that signed it; another authority, which signed nothing. `None`: there is
/// no openssl.
fn certificates(folder: &std::path::Path) -> Option<[String; 4]> {
    let script = "for ca in ca other; do
            openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=$ca -keyout $ca.key -out $ca.pem
        done
        openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=localhost -keyout key.pem -out request.pem
        printf 'subjectAltName=DNS:localhost,IP:127.0.0.1\nbasicConstraints=CA:FALSE\n' > names
        openssl x509 -req -in request.pem -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names -out cert.pem";
    let mut command = std::process::Command::new("/bin/sh");
    command.args(["-ec", script]).current_dir(folder).stderr(std::process::Stdio::null());
    let is_made = command.status().is_ok_and(|status| status.success());
    is_made.then(|| ["cert.pem", "key.pem", "ca.pem", "other.pem"].map(|name| folder.join(name).display().to_string()))
}

/// Queue and store by TLS, with servers whose authority is the team's own: a job is carried out, and whoever trusts another
/// authority, or the system's alone, is told that nobody is to be trusted there.
#[test]
fn both_servers_by_tls() {
    let name = "both_servers_by_tls";
    if !Nats::is_installed() || !Postgres::is_installed() {
        println!("SKIPPED {name}: nats-server or PostgreSQL is not installed (cargo xtask setup servers)");
        return;
    }
    let bench = Bench::bare("jobs-tls");
    let Some([cert, key, ours, other]) = certificates(&bench.folder.0) else {
        println!("SKIPPED {name}: it needs openssl");
        return;
    };
    let [cert, key] = [&cert, &key].map(PathBuf::from);
    let nats = Nats::encrypted(&bench.folder.0.join("nats"), &cert, &key).unwrap();
    let postgres = Postgres::encrypted(&bench.folder.0.join("postgres"), &cert, &key).unwrap();
    let (queue, store) = (nats.url(), postgres.url());
    assert!(queue.starts_with("tls://") && store.contains("@localhost:"), "{queue} {store}");
    let file = bench.folder.path("b.toml");
    fs::write(&file, "name = \"b\"\ntarget = \"local\"\n").unwrap();
    let started = |words: &[&str], [of_queue, of_store]: [Option<&str>; 2]| {
        let mut command = bench.linerate(words);
        command.env("LINERATE_QUEUE", &queue).env("LINERATE_STORE", &store);
        command.envs(of_queue.map(|file| ("LINERATE_QUEUE_AUTHORITIES", file)));
        command.envs(of_store.map(|file| ("PGSSLROOTCERT", file)));
        Running::start(command)
    };
    let ours = Some(ours.as_str());
    // The store makes its tables first.
    started(&["records", "list"], [ours, ours]).wait(LONG);
    let worker = started(&["worker", "--bench", &file, "--lease", "6s"], [ours, ours]);
    bench.wait_until("the worker is there", IN_TIME, || {
        started(&["jobs", "benches"], [ours, ours]).wait(IN_TIME).stdout.contains("free")
    });
    let sets = ["--set", "duration=200ms", "--set", "rate=10M", "--set", "direction=rx"];
    started(&[&["submit", "udp-stream", "--on", "bench=b"], &sets[..]].concat(), [ours, ours])
        .wait(IN_TIME)
        .check_done();
    bench.wait_until("the job is done", LONG, || {
        started(&["jobs", "list", "--all"], [ours, ours]).wait(IN_TIME).stdout.contains("done")
    });
    let listed = started(&["records", "list", "--csv"], [ours, ours]).wait(IN_TIME);
    assert_eq!(listed.check_done().stdout.lines().count(), 2, "{listed:#?}");
    for (words, trusted) in [
        (["jobs", "list"], [None, ours]),
        (["jobs", "list"], [Some(other.as_str()), ours]),
        (["records", "list"], [ours, None]),
        (["records", "list"], [ours, Some(other.as_str())]),
    ] {
        let ran = started(&words, trusted).wait(IN_TIME);
        assert_eq!(ran.status.code(), Some(2), "{words:?} {trusted:?}: {ran:#?}");
        assert!(ran.stderr.to_lowercase().contains("certificate"), "{words:?} {trusted:?}: {ran:#?}");
    }
    // In the clear neither is to be had.
    let mut command = bench.linerate(&["jobs", "--queue", &queue.replace("tls://", "nats://")]);
    command.env_remove("LINERATE_QUEUE");
    assert_eq!(Running::start(command).wait(IN_TIME).status.code(), Some(2));
    let clear = store.replace("sslmode=require", "sslmode=disable");
    let ran = Running::start(bench.linerate(&["records", "list", "--store", &clear])).wait(IN_TIME);
    assert_eq!(ran.status.code(), Some(2), "{ran:#?}");
    worker.signal("INT");
    worker.wait(IN_TIME).check_done();
}

/// 200 benches with an agent each, and 1,000 campaigns that wait for them: what worker and agents take of a CPU meanwhile, in the build that
/// is tested.
#[test]
fn a_worker_that_waits_takes_little() {
    const BENCHES: usize = 200;
    let name = "idle";
    if !Nats::is_installed() {
        println!("SKIPPED {name}: nats-server is not installed (cargo xtask setup servers)");
        return;
    }
    let bench = Bench::bare(name);
    let nats = Nats::start(&bench.folder.0.join("nats")).unwrap();
    let mut queue =
        linerate_work::Nats::open(&Access::new(&nats.url(), None, None).unwrap(), Some(Duration::from_secs(30)))
            .unwrap();
    let key = bench.folder.path("key");
    Psk::generate_to(key.as_ref()).unwrap();
    // Of 127.0.0.0/8, addresses that no other test has.
    let [.., second, third] = std::process::id().to_be_bytes();
    let mut agents = Vec::new();
    let mut words = vec!["worker".to_owned(), "--queue".to_owned(), nats.url(), "--quiet".to_owned()];
    for at in 0..BENCHES {
        let address = format!("127.{second}.{third}.{}:7799", at + 1);
        agents.push(Running::start(bench.linerate(&["agent", "--listen", &address, "--psk-file", &key])));
        let file = bench.folder.path(&format!("b{at}.toml"));
        // Closed all week, but for a minute.
        let closed = "hours = [\"sun 03:00-03:01\"]";
        fs::write(&file, format!("name = \"b{at}\"\ntarget = \"tcp:{address}\"\n[limits]\n{closed}\n")).unwrap();
        words.extend(["--bench".to_owned(), file]);
    }
    for number in 0..5 * BENCHES {
        let job = linerate_work::Job {
            id: format!("{number:026}"),
            group: "0".repeat(26),
            bench: format!("b{}", number % BENCHES),
            user: "ann".to_owned(),
            plan: "restless".to_owned(),
            source: PLAN.to_owned(),
            sets: Vec::new(),
            seed: None,
            repeat: None,
            priority: linerate_work::Priority::Normal,
            not_before_s: None,
            attempts: 3,
            submitted_ms: 1,
        };
        linerate_work::submit(&mut queue, &job).unwrap();
    }
    let worker = Running::start(bench.linerate(&words.iter().map(String::as_str).collect::<Vec<_>>()));
    bench.wait_until("its benches are there", IN_TIME, || linerate_work::benches(&mut queue).unwrap().len() == BENCHES);
    let address = format!("127.{second}.{third}.{BENCHES}:7799");
    bench.wait_until("the last agent listens", IN_TIME, || std::net::TcpStream::connect(&address).is_ok());
    thread::sleep(Duration::from_secs(1));
    let watched = Duration::from_secs(number("LINERATE_IDLE_SECONDS").unwrap_or(6));
    let taken = || [cpu(worker.id()), agents.iter().map(|agent| cpu(agent.id())).sum()];
    let before = taken();
    thread::sleep(watched);
    let after = taken();
    let [of_worker, of_agents] =
        [0, 1].map(|at| (after[at] - before[at]).as_secs_f64() / watched.as_secs_f64() * 100.0);
    println!(
        "a worker with {BENCHES} benches and {} jobs that wait: {of_worker:.2} % of a core over {watched:?}, its agents {of_agents:.2} %",
        5 * BENCHES
    );
    assert!(agents.iter_mut().all(|agent| !agent.has_ended()));
    assert!(of_worker + of_agents <= 2.0, "{of_worker} % and {of_agents} %");
    worker.signal("INT");
    worker.wait(IN_TIME).check_done();
}

/// What the threads of a process have taken: the first field of schedstat, in nanoseconds (sched-stats.rst).
fn cpu(process: u32) -> Duration {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).unwrap().flatten();
    let taken = tasks.map(|task| fs::read_to_string(task.path().join("schedstat")).unwrap_or_default());
    Duration::from_nanos(taken.filter_map(|text| text.split(' ').next()?.parse::<u64>().ok()).sum())
}

/// Who fails.
#[derive(Clone, Copy, Debug)]
enum Victim {
    Worker,
    Campaign,
    Broker,
    Database,
    Cable,
    /// A worker's machine stands still for a while, and goes on.
    Frozen,
}

/// A disk that is full, a server that crashes and a worker without room: nobody's job has an attempt less, or dies of it in a night.
#[test]
fn what_has_no_room_uses_no_attempt() {
    if !Postgres::is_installed() {
        println!("SKIPPED what_has_no_room_uses_no_attempt: PostgreSQL is not installed (cargo xtask setup servers)");
        return;
    }
    let Some(mut team) = Team::new("no-room", "settings = [\"target.*\"]") else { return };
    let folder = team.bench.folder.0.join("postgres");
    let mut postgres = Postgres::start(&folder).unwrap();
    team.store = PathBuf::from(postgres.url());
    let run = team.bench.folder.path("run");
    fs::create_dir(&run).unwrap();
    let worker = team.worker_in(&run);
    team.bench.wait_until("the worker is there", IN_TIME, || team.told(&["jobs", "benches"]).stdout.contains("free"));
    let psql = |sql: &str| {
        let mut psql = std::process::Command::new("psql");
        psql.arg("-h").arg(&folder).args(["-U", "linerate", "postgres", "-v", "ON_ERROR_STOP=1", "-Atqc", sql]);
        assert!(psql.status().unwrap().success(), "{sql}");
    };
    let queue = RefCell::new(team.queue());
    let job = || jobs(&mut *queue.borrow_mut()).unwrap().pop().unwrap();
    let wait_for = |why: &str| {
        team.bench.wait_until(why, LONG, || {
            let job = job();
            assert!(!job.state.has_ended(), "{job:#?}");
            job.why.is_some_and(|said| said.contains(why))
        });
    };

    let full = "RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full'";
    psql(&format!("CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {full}; END $$"));
    psql(
        "CREATE TRIGGER full_disk BEFORE INSERT ON records FOR EACH ROW WHEN (NEW.trial_index > 3) EXECUTE FUNCTION full_disk()",
    );
    team.submit(&["--attempts", "1"]).check_done();
    wait_for("is full; 4 finished trials of this campaign are kept");
    psql("DROP TRIGGER full_disk ON records");

    // In the midst of the same campaign, and there again before anybody asks.
    let stored = team.records().len();
    team.bench.wait_until("it goes on", LONG, || team.records().len() > stored);
    postgres.crash().unwrap();
    let is_done = || {
        let job = job();
        assert!(matches!(job.state, JobState::Waiting | JobState::Running | JobState::Done), "{job:#?}");
        job.state == JobState::Done
    };
    team.bench.wait_until("it is done", LONG, is_done);

    // Where plans are written is no folder.
    let own = PathBuf::from(&run).join(format!("linerate-worker-{}", worker.id()));
    fs::remove_dir_all(&own).unwrap();
    fs::write(&own, "").unwrap();
    team.submit(&["--attempts", "1"]).check_done();
    wait_for("cannot make the folder");
    fs::remove_file(&own).unwrap();
    team.bench.wait_until("it is done", LONG, is_done);
    team.check_records(&jobs(&mut *queue.borrow_mut()).unwrap());
    worker.signal("INT");
    worker.wait(IN_TIME).check_done();
}

/// As of a server whose processes stand still: it lets everybody in, and says nothing after that.
#[test]
fn a_store_that_says_nothing_holds_no_worker_up() {
    if !Postgres::is_installed() {
        println!("SKIPPED a_store_that_says_nothing: PostgreSQL is not installed (cargo xtask setup servers)");
        return;
    }
    let Some(mut team) = Team::new("silent-store", "settings = [\"target.*\"]") else { return };
    let folder = team.bench.folder.0.join("postgres");
    let _postgres = Postgres::start(&folder).unwrap();
    let relay = Relay::start(&folder, &team.bench.folder.0.join("relay")).unwrap();
    team.store = PathBuf::from(relay.url());
    let worker = team.worker();
    team.bench.wait_until("the worker is there", IN_TIME, || team.told(&["jobs", "benches"]).stdout.contains("free"));
    team.submit(&["--attempts", "3"]).check_done();
    team.bench.wait_until("a trial is stored", LONG, || !team.records().is_empty());

    relay.be_silent(true);
    let mut queue = team.queue();
    let mut job = || jobs(&mut queue).unwrap().remove(0);
    // Whoever waits for the store renews no lease meanwhile.
    team.bench.wait_until("the job is handed back", IN_TIME, || {
        let why = job().why.unwrap_or_default();
        why.contains("the store cannot be reached") && why.contains("no answer within 1 s")
    });
    let listed = Running::start(team.bench.linerate(&["records", "list", "--store", &relay.url()])).wait(IN_TIME);
    listed.check_sentence(&["the store", "no answer within 10 s"]);

    relay.be_silent(false);
    team.bench.wait_until("the job is done", LONG, || job().state.has_ended());
    let job = job();
    assert_eq!((job.state, job.failed_trials), (JobState::Done, Some(0)), "{job:#?}");
    team.check_records(&[job]);
    worker.signal("INT");
    worker.wait(IN_TIME).check_done();
}

/// Fails somebody at a random moment, again and again. `LINERATE_JOB_KILLS` says how often, `LINERATE_SEED` repeats what was seen.
#[test]
fn whoever_dies_no_trial_is_lost_or_stored_twice() {
    let kills = number("LINERATE_JOB_KILLS").unwrap_or(4);
    let seed = number("LINERATE_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    println!("LINERATE_JOB_KILLS={kills} LINERATE_SEED={seed}");
    let Some(mut team) = Team::new("job-kills", "settings = [\"target.*\"]") else { return };
    // A server takes seconds to make; few kills have a file instead.
    let mut database = None;
    if kills > 10 && Postgres::is_installed() {
        let postgres = Postgres::start(&team.bench.folder.0.join("postgres")).unwrap();
        team.store = PathBuf::from(postgres.url());
        database = Some(postgres);
    }
    let before = team.state();
    let mut chance = Chance(seed);
    let mut workers = vec![team.worker(), team.worker()];
    team.bench.wait_until("a bench is there", IN_TIME, || team.told(&["jobs", "benches"]).stdout.contains("free"));
    let mut queue = team.queue();
    let (mut longest, mut of_holders) = (Duration::ZERO, 0);
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    let mut submitted = 0;
    for kill in 0..kills {
        let open = jobs(&mut queue).unwrap().iter().filter(|one| !one.state.has_ended()).count();
        if open < 2 {
            submitted += 1;
            team.submit(&["--user", ["ann", "ben"][submitted % 2], "--attempts", "20"]).check_done();
        }
        let victims = [
            Victim::Worker,
            Victim::Worker,
            Victim::Campaign,
            Victim::Broker,
            if database.is_some() { Victim::Database } else { Victim::Broker },
            Victim::Cable,
            Victim::Frozen,
        ];
        let victim = *chance.of(&victims);
        let (after, long) = (chance.below(1500), chance.below(3000));
        println!("kill {kill}: {victim:?} after {after} ms, for {long} ms");
        *counts.entry(format!("{victim:?}")).or_default() += 1;
        // In the midst of a campaign, mostly.
        if chance.below(5) > 0 {
            team.bench.wait_until("one runs", LONG, || !leases(&mut queue).unwrap_or_default().is_empty());
        }
        thread::sleep(Duration::from_millis(after));
        let long = Duration::from_millis(long);
        match victim {
            Victim::Worker => {
                let at = chance.below(workers.len() as u64) as usize;
                let dead = workers.remove(at);
                let holder = leases(&mut queue).unwrap().get("b").map(|lease| lease.worker.clone());
                dead.signal("KILL");
                let died = Instant::now();
                let said = dead.wait(IN_TIME).stderr;
                workers.push(team.worker());
                // If it was the holder, and not the other one, it is no longer within the lease's time and a little.
                let name = said.split("linerate: worker ").nth(1).and_then(|rest| rest.split(' ').next());
                if name.is_none() || name != holder.as_deref() {
                    continue;
                }
                team.bench.wait_until("the bench is free", Duration::from_secs(60), || {
                    leases(&mut queue).unwrap().get("b").map(|lease| lease.worker.clone()) != holder
                });
                of_holders += 1;
                longest = longest.max(died.elapsed());
            }
            Victim::Campaign => campaigns(&team.bench).iter().for_each(|one| signal(*one, "KILL")),
            Victim::Broker => {
                team.nats.kill().unwrap();
                thread::sleep(long);
                team.nats.again().unwrap();
                team.bench.wait_until("the queue answers", IN_TIME, || jobs(&mut queue).is_ok());
            }
            Victim::Database => database.as_mut().unwrap().crash().unwrap(),
            Victim::Cable => {
                team.bench.lab_mut().set_carrier(false).unwrap();
                thread::sleep(long);
                team.bench.lab_mut().set_carrier(true).unwrap();
            }
            Victim::Frozen => {
                let at = chance.below(workers.len() as u64) as usize;
                // With its campaign, past the lease's end.
                let mut all = campaigns(&team.bench);
                all.push(workers[at].id());
                all.iter().for_each(|one| signal(*one, "STOP"));
                thread::sleep(LEASE + long * 2);
                all.iter().for_each(|one| signal(*one, "CONT"));
            }
        }
    }
    team.bench.wait_until("all are settled", LONG, || {
        jobs(&mut queue).is_ok_and(|all| all.iter().all(|one| one.state.has_ended()))
    });
    let all = jobs(&mut queue).unwrap();
    team.check_records(&all);
    let controllers = team.check_fences();
    assert!(all.iter().all(|one| one.state == JobState::Done), "{all:#?}");
    for worker in workers {
        worker.signal("INT");
        worker.wait(IN_TIME).check_done();
    }
    team.bench.wait_until("settings are put back", Duration::from_secs(20), || team.state() == before);
    assert!(leases(&mut queue).unwrap().is_empty());
    println!(
        "{kills} failures ({counts:?}) of seed {seed}: {} jobs, {controllers} controllers, one at a time; after {of_holders} deaths \
         of its holder the bench was held {:.1} s at most, with leases of {} s",
        all.len(),
        longest.as_secs_f64(),
        LEASE.as_secs()
    );
    assert!(longest < LEASE * 2, "{longest:?}");
}

/// The processes of campaigns.
fn campaigns(bench: &Bench) -> Vec<u32> {
    let is_one = |command: &str| command.contains(" run ") && command.contains("--campaign=");
    bench.processes().into_iter().filter(|(_, command)| is_one(command)).map(|(process, _)| process).collect()
}
