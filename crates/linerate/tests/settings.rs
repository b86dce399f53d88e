//! Settings are put back, whoever dies and when; with two machines made of namespaces, and the real programs.
//! Knows no figures.

mod machines;

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use linerate_lab::{Shape, TARGET_IPV4};
use linerate_trial::doubt::DoubtKind;
use machines::chance::Chance;
use machines::{Bench, Ran, Running, parent, signal};

const IN_TIME: Duration = Duration::from_secs(10);
const LONG: Duration = Duration::from_secs(30);
/// An agent bears so long a silence of its controller.
const SILENCE: Duration = Duration::from_secs(10);

/// A campaign that changes settings all the time: trials of a few milliseconds, each set otherwise.
const RESTLESS: &str = r#"
format = "linerate.plan/1"
workload = "tcp-rr"
repeat = 100
[options]
duration = "3ms"
warmup = "0s"
interval = "10ms"
host.mtu = "as target.mtu"
host.sysctl.net.ipv4.tcp_sack = "as target.sysctl.net.ipv4.tcp_sack"
[factors]
target.mtu = [1400, 9000]
target.gro = ["on", "off"]
target.sysctl.net.ipv4.tcp_sack = [0, 1]
target.custom.word = ["one", "two"]
"#;

/// Two machines joined by nothing but a cable, which takes any MTU at once.
fn bench(name: &str) -> Option<Bench> {
    Bench::of(name, &Shape { tx_rate_bps: None, rx_rate_bps: None, ..Shape::modest_board() })
}

/// The plan, with a file of this test as one of the settings.
fn plan(bench: &Bench) -> String {
    let (path, word) = (bench.folder.path("restless.toml"), bench.folder.path("word"));
    fs::write(&word, "zero\n").unwrap();
    fs::write(&path, format!("{RESTLESS}\n[custom.word]\nfile = \"{word}\"\n")).unwrap();
    path
}

/// What the campaign changes, as it is now on both machines.
fn state(bench: &Bench) -> Vec<String> {
    let read = || {
        let sack = fs::read_to_string("/proc/sys/net/ipv4/tcp_sack")?;
        let mtu = fs::read_to_string("/proc/sys/net/ipv6/conf/eth0/mtu")?;
        Ok(format!("sack {} mtu {}", sack.trim(), mtu.trim()))
    };
    let word = fs::read_to_string(bench.folder.path("word")).unwrap_or_default();
    vec![bench.lab().target.run(read).unwrap(), bench.lab().host.run(read).unwrap(), word.trim().to_owned()]
}

/// What the target's agent says of its settings; a new agent, after all else has ended.
#[track_caller]
fn told(bench: &Bench, names: &[&str]) -> Ran {
    let (target, mut words) = (bench.target(), vec!["target"]);
    words.extend([target.as_str(), "get"]);
    words.extend(names);
    Running::start(bench.linerate(&words)).wait(IN_TIME)
}

/// Who is killed.
#[derive(Clone, Copy, Debug)]
enum Victim {
    Controller,
    TargetAgent,
    HostAgent,
    /// The agents with their watchdogs: the next agents must put things back.
    AgentsAndWatchdogs,
    Everything,
}

impl Victim {
    const ALL: [Victim; 5] =
        [Victim::Controller, Victim::TargetAgent, Victim::HostAgent, Victim::AgentsAndWatchdogs, Victim::Everything];

    fn processes(self, bench: &Bench, controller: u32) -> Vec<u32> {
        let all = bench.processes();
        let agent = |netns: &std::path::Path| {
            let netns = netns.display().to_string();
            let found = all.iter().filter(move |(_, command)| command.contains(" agent ") && command.contains(&netns));
            // A watchdog that is just being started still has its agent's command line, and another parent.
            found.map(|(id, _)| *id).filter(|id| parent(*id) == Some(controller)).collect::<Vec<u32>>()
        };
        let is_watchdog = |command: &str| command.starts_with("linerate-watchdog");
        match self {
            Victim::Controller => vec![controller],
            Victim::TargetAgent => agent(&bench.lab().target.path()),
            Victim::HostAgent => agent(&bench.lab().host.path()),
            // The watchdogs first: an agent's death is what they wait for.
            Victim::AgentsAndWatchdogs => {
                let mut found: Vec<u32> = all.iter().filter(|(_, c)| is_watchdog(c)).map(|(id, _)| *id).collect();
                found.extend(agent(&bench.lab().target.path()));
                found.extend(agent(&bench.lab().host.path()));
                found
            }
            Victim::Everything => {
                let mut found: Vec<u32> = all.iter().map(|(id, _)| *id).collect();
                found.sort_by_key(|id| !all.iter().any(|(other, c)| other == id && is_watchdog(c)));
                found
            }
        }
    }
}

/// Kills somebody at a random moment of a campaign, again and again. `LINERATE_KILLS` says how often (CI: 200), and
/// `LINERATE_SEED` repeats what was seen.
#[test]
fn whoever_is_killed_and_when_the_settings_are_what_they_were() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let kills = number("LINERATE_KILLS").unwrap_or(20);
    let seed = number("LINERATE_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    println!("LINERATE_KILLS={kills} LINERATE_SEED={seed}");
    let Some(bench) = bench("kills") else { return };
    let path = plan(&bench);
    let before = state(&bench);
    let gro = told(&bench, &["gro"]).stdout;
    let mut chance = Chance(seed);
    let mut changed = 0;
    for kill in 0..kills {
        let victim = Victim::ALL[chance.below(Victim::ALL.len() as u64) as usize];
        // Mostly in the midst of the changes; sometimes while nobody has changed anything, or just begins to.
        let from_start = chance.below(4) == 0;
        let after = Duration::from_micros(chance.below(150_000));
        let what = format!("kill {kill} of seed {seed}: {victim:?} after {after:?}, from the start: {from_start}");
        let mut running = Running::start(bench.run_command(&path, &["--quiet"]));
        if !from_start {
            let mut ended = false;
            bench.wait_until(&what, LONG, || {
                ended = running.has_ended();
                ended || state(&bench) != before
            });
            if ended {
                panic!("{what}: it ended by itself: {:#?}", running.wait(IN_TIME));
            }
        }
        std::thread::sleep(after);
        let victims = victim.processes(&bench, running.id());
        changed += u64::from(state(&bench) != before);
        let list: Vec<String> = victims.iter().map(u32::to_string).collect();
        let _ =
            Command::new("/bin/sh").args(["-c", &format!("kill -9 {}", list.join(" "))]).stderr(Stdio::null()).status();
        if victims.is_empty() {
            // Nobody was there yet; the controller always is.
            running.signal("KILL");
        }
        let ran = running.wait(LONG);
        assert!(!ran.stderr.contains("panicked"), "{what}: {ran:#?}");
        bench.check_nothing_runs(SILENCE + IN_TIME);
        if matches!(victim, Victim::AgentsAndWatchdogs | Victim::Everything) {
            // Nobody was left: the next agents of both machines see to it.
            for endpoint in [bench.target(), bench.host()] {
                let ran = Running::start(bench.linerate(&["target", &endpoint, "get", "mtu"])).wait(IN_TIME);
                ran.check_done();
            }
        }
        assert_eq!(state(&bench), before, "{what}");
        assert_eq!(told(&bench, &["gro"]).stdout, gro, "{what}");
    }
    println!("{kills} kills, {changed} of them while settings were changed; all were put back");
    assert!(changed * 2 >= kills, "{changed} of {kills}: too few of them meant anything");
}

/// Starts the restless campaign, and waits until settings are changed.
#[track_caller]
fn begin(bench: &Bench) -> (Running, Vec<String>) {
    let path = plan(bench);
    let before = state(bench);
    let running = Running::start(bench.run_command(&path, &["--quiet"]));
    bench.wait_until("settings are changed", IN_TIME, || {
        let now = state(bench);
        now.iter().zip(&before).all(|(now, before)| now != before)
    });
    (running, before)
}

#[test]
fn an_interrupt_puts_settings_back() {
    let Some(bench) = bench("interrupt") else { return };
    let (running, before) = begin(&bench);
    running.signal("INT");
    let ran = running.wait(IN_TIME);
    ran.check_interrupted(&["interrupted"]);
    assert_eq!(state(&bench), before);
    bench.check_nothing_runs(Duration::from_millis(500));
}

#[test]
fn a_controller_that_is_silent_is_not_waited_for() {
    let Some(bench) = bench("mute") else { return };
    let (running, before) = begin(&bench);
    running.signal("STOP");
    let began = Instant::now();
    bench.wait_until("settings are put back", SILENCE + IN_TIME, || state(&bench) == before);
    assert!(began.elapsed() > SILENCE / 2, "{:?}: too early to be the end of the lease", began.elapsed());
    running.signal("KILL");
    running.signal("CONT");
    running.wait(IN_TIME);
    bench.check_nothing_runs(IN_TIME);
    assert_eq!(state(&bench), before);
}

#[test]
fn an_agent_that_finds_settings_changed_says_so() {
    let Some(bench) = bench("recover") else { return };
    let (running, before) = begin(&bench);
    let victims = Victim::Everything.processes(&bench, running.id());
    let list: Vec<String> = victims.iter().map(u32::to_string).collect();
    let _ = Command::new("/bin/sh").args(["-c", &format!("kill -9 {}", list.join(" "))]).status();
    running.wait(IN_TIME);
    bench.check_nothing_runs(IN_TIME);
    assert_ne!(state(&bench), before, "nobody was left to put them back");
    let ran = told(&bench, &["mtu", "gro"]);
    ran.check_done();
    assert!(ran.stderr.contains("had left changed were put back") && ran.stderr.contains("mtu of eth0"), "{ran:#?}");
    assert_eq!(told(&bench, &["mtu"]).stderr, "", "it is told once");
    Running::start(bench.linerate(&["target", &bench.host(), "get", "mtu"])).wait(IN_TIME).check_done();
    assert_eq!(state(&bench), before);
}

#[test]
fn a_setting_made_by_hand_stays_until_it_is_restored() {
    let Some(bench) = bench("by-hand") else { return };
    let before = state(&bench);
    let target = bench.target();
    let run = |words: &[&str]| {
        let mut all = vec!["target", target.as_str()];
        all.extend(words);
        Running::start(bench.linerate(&all)).wait(IN_TIME)
    };
    let ran = run(&["set", "mtu=4000", "sysctl.net.ipv4.tcp_sack=0"]);
    ran.check_done();
    assert!(ran.stdout.contains("This stays until `linerate target netns:"), "{ran:#?}");
    assert!(ran.stdout.contains("restore"), "{ran:#?}");
    bench.check_nothing_runs(Duration::from_millis(500));
    let ran = run(&["get", "mtu", "target.gro"]);
    assert!(ran.check_done().stdout.contains("(was 1500; restore puts that back)"), "{ran:#?}");
    // Once more, and a campaign in between, which puts back to what it found.
    run(&["set", "mtu=5000"]).check_done();
    let path = plan(&bench);
    bench.run(&path, &["--repeat", "1"], LONG).check_done();
    let ran = run(&["get", "mtu", "--json"]);
    assert_eq!(ran.check_done().json()[0]["settings"]["mtu"], "5000");
    let ran = run(&["restore"]);
    assert!(ran.check_done().stdout.contains("mtu of eth0 is 1500 again"), "{ran:#?}");
    assert_eq!(state(&bench)[..2], before[..2]);
    assert!(run(&["restore"]).check_done().stdout.contains("nothing to put back"));
}

#[test]
fn a_setting_made_by_hand_is_told_of_its_own_interface() {
    let Some(bench) = bench("by-hand-elsewhere") else { return };
    let run = |words: &[&str]| {
        let target = bench.target();
        let mut all = vec!["target", target.as_str()];
        all.extend(words);
        Running::start(bench.linerate(&all)).wait(IN_TIME)
    };
    let pair = || Command::new("ip").args("link add p0 mtu 1450 type veth peer name p1".split(' ')).status();
    assert!(bench.lab().target.run(pair).unwrap().success());
    run(&["set", "mtu=4000"]).check_done();
    let promised = "restore puts that back";
    assert!(run(&["get", "mtu"]).check_done().stdout.contains(promised));
    let ran = run(&["get", "mtu", "--interface", "p0"]);
    assert!(ran.check_done().stdout.contains("1450") && !ran.stdout.contains(promised), "{ran:#?}");
    run(&["restore"]).check_done();
}

#[test]
fn what_was_changed_stands_in_the_record() {
    let Some(bench) = bench("recorded") else { return };
    let path = plan(&bench);
    let ran = bench.run(&path, &["--repeat", "2", "--json"], LONG);
    let records = ran.check_done().json();
    assert_eq!(records.len(), 32);
    for record in &records {
        let settings = record["target"]["settings"].as_array().unwrap();
        let of = |name: &str| settings.iter().find(|one| one["name"] == name).expect(name);
        let mtu = &record["trial"]["factors"]["target.mtu"];
        let told = of("mtu");
        assert_eq!([&told["asked"], &told["set"], &told["read_back"]], [mtu; 3], "{settings:#?}");
        assert_eq!((&told["original"], &of("custom.word")["original"]), (&"1500".into(), &"zero".into()));
        // Which of several stands first depends on which trial came first.
        let of_host = record["host"]["settings"].as_array().unwrap();
        let told = of_host.iter().find(|one| one["name"] == "mtu").expect("the host's MTU");
        assert_eq!(&told["read_back"], mtu, "{of_host:#?}");
        assert_eq!(record["target"]["environment"]["nic"]["mtu"].to_string(), mtu.as_str().unwrap());
        assert!(record["doubts"].as_array().unwrap().iter().all(|doubt| doubt["kind"] != "setting-not-taken"));
    }
}

/// What another program does meanwhile is undone with the rest, and somebody may look for it for long.
#[test]
fn what_somebody_else_changes_in_mid_trial_is_told() {
    let Some(bench) = bench("overridden") else { return };
    let before = state(&bench);
    let sets = [
        "--set",
        "target.mtu=1400",
        "--set",
        "target.sysctl.net.ipv4.tcp_sack=0",
        "--set",
        "target.sysctl.net.ipv4.tcp_dsack=0",
        "--set",
        "duration=2s",
    ];
    let store = bench.folder.path("own.sqlite");
    let running = Running::start(bench.run_command("tcp-rr", &[&sets[..], &["--store", &store]].concat()));
    bench.wait_for_traffic(100);
    // The second is what it was before the campaign.
    in_target(&bench, "ip link set eth0 mtu 1450; echo 1 > /proc/sys/net/ipv4/tcp_dsack");
    let ran = running.wait(LONG);
    let told = ran.check_done().stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(told.contains("another program made target.mtu 1450 in mid-trial, which was set to 1400"), "{ran:#?}");
    assert_eq!(state(&bench), before);
    let record = &machines::records_in(std::path::Path::new(&store))[0];
    let doubts: Vec<String> = record
        .doubts
        .iter()
        .filter(|doubt| doubt.kind() == DoubtKind::SettingOverridden)
        .map(|doubt| serde_json::to_string(doubt).unwrap())
        .collect();
    let want = [
        r#"{"kind":"setting-overridden","setting":"target.mtu","asked":"1400","read_back":"1450"}"#,
        r#"{"kind":"setting-overridden","setting":"target.sysctl.net.ipv4.tcp_dsack","asked":"0","read_back":"1"}"#,
    ];
    assert_eq!(doubts, want, "what stayed as it was set is none");
    // Nothing is left of it, and nothing is said of the trial after.
    let ran = bench.run("tcp-rr", &[&sets[..4], &["--set", "duration=300ms"]].concat(), LONG);
    assert!(!ran.check_done().stdout.contains("another program"), "{ran:#?}");
}

#[test]
fn a_level_that_the_machine_refuses_fails_its_trials_only() {
    let Some(bench) = bench("refused") else { return };
    let before = state(&bench);
    let more = ["--set", "duration=20ms", "--set", "warmup=0s", "--set", "interval=10ms"];
    let refused: Vec<&str> = more.iter().copied().chain(["--set", "target.speed=100,1000"]).collect();
    let ran = bench.run("tcp-rr", &[&refused[..], &["--dry-run"]].concat(), LONG);
    let text = &ran.check_done().stdout;
    assert_eq!(text.matches("skipped: the target: speed is not there on eth0").count(), 2, "{text}");
    assert!(bench.records().is_empty(), "nothing is measured");
    bench.run("tcp-rr", &refused, LONG).check_sentence_of_many(&["speed is not there", "2 trials failed"]);
    let records = bench.records();
    assert!(records.iter().all(|record| record.error.as_ref().is_some_and(|error| error.contains("speed"))));
    // A value that is refused, between two that are not.
    let some: Vec<&str> = more.iter().copied().chain(["--set", "target.mtu=1400,40,1300"]).collect();
    bench.run("tcp-rr", &some, LONG);
    let errors: Vec<bool> = bench.records()[2..].iter().map(|record| record.error.is_some()).collect();
    assert_eq!(
        errors,
        [false, true, false],
        "{:#?}",
        bench.records()[2..].iter().map(|r| &r.error).collect::<Vec<_>>()
    );
    assert_eq!(state(&bench)[..2], before[..2]);
}

/// An agent in the target that listens on the very link that is to be cut.
struct Listening(Child, String, String);

impl Drop for Listening {
    fn drop(&mut self) {
        signal(self.0.id(), "KILL");
        let _ = self.0.wait();
    }
}

fn listening(bench: &Bench) -> Listening {
    let key = bench.folder.path("key");
    Running::start(bench.linerate(&["agent", "--new-psk", &key])).wait(IN_TIME).check_done();
    let netns = bench.lab().target.path().display().to_string();
    let address = format!("{TARGET_IPV4}:0");
    let mut command = bench.linerate(&["agent", "--listen", &address, "--psk-file", &key, "--netns", &netns]);
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.rsplit(' ').next().unwrap().trim().to_owned();
    Listening(child, format!("tcp:{address}"), key)
}

#[test]
fn a_change_that_cuts_the_conversation_is_taken_back() {
    let Some(bench) = bench("cut") else { return };
    let agent = listening(&bench);
    let set = |value: &str| {
        let words = ["target", &agent.1, "set", value, "--psk-file", &agent.2, "--interface", "eth0"];
        let command = bench.linerate(&words);
        bench.lab().host.run(|| Ok(Running::start(command))).unwrap()
    };
    let qdisc = || {
        let ran = told(&bench, &["qdisc"]);
        ran.check_done().stdout.split_whitespace().skip(1).map(str::to_owned).collect::<Vec<_>>().join(" ")
    };
    let before = qdisc();
    // No packet fits the bucket: nothing that the target says arrives any more.
    let began = Instant::now();
    let ran = set("qdisc=tbf rate 1M burst 20 limit 2000").wait(LONG);
    ran.check_sentence(&["could not be reached for 5 s after qdisc=tbf", "took that back"]);
    assert!(began.elapsed() > Duration::from_secs(4), "{:?}", began.elapsed());
    assert_eq!(qdisc(), before);
    // One that it bears stays.
    set("mtu=1400").wait(LONG).check_done();
    assert_eq!(state(&bench)[0].matches("mtu 1400").count(), 1, "{:?}", state(&bench));
    let target = bench.target();
    Running::start(bench.linerate(&["target", &target, "restore"])).wait(IN_TIME).check_done();
    assert_eq!(state(&bench)[0].matches("mtu 1500").count(), 1, "{:?}", state(&bench));
}

#[test]
fn a_key_alone_runs_no_commands() {
    let Some(bench) = bench("commands") else { return };
    let agent = listening(&bench);
    let path = plan(&bench);
    let words =
        ["run", &path, "--target", &agent.1, "--psk-file", &agent.2, "--repeat", "1", "--set", "target.mtu=1500"];
    let mut command = bench.linerate(&words);
    command.args(["--set", "target.gro=off", "--set", "target.sysctl.net.ipv4.tcp_sack=1"]);
    let before = state(&bench);
    let ran = bench.lab().host.run(|| Ok(Running::start(command))).unwrap().wait(LONG);
    assert!(ran.status.code() == Some(2) && ran.stderr.contains("--allow-commands"), "{ran:#?}");
    assert_eq!(state(&bench), before);
}

/// Class and priority of each thread of a process: fields 41 and 40 of proc_pid_stat(5).
fn scheduling(process: u32) -> Vec<(String, String)> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let fields = tasks.filter_map(|task| {
        let stat = fs::read_to_string(task.path().join("stat")).ok()?;
        let fields: Vec<String> = stat.rsplit_once(')')?.1.split_whitespace().map(str::to_owned).collect();
        Some((fields.get(38)?.clone(), fields.get(37)?.clone()))
    });
    fields.collect()
}

#[test]
fn receiving_threads_are_scheduled_as_asked() {
    let Some(bench) = bench("scheduling") else { return };
    if let Err(why) = linerate_host::scheduling::try_out("fifo:10".parse().unwrap()) {
        eprintln!("SKIPPED scheduling: {why}");
        return;
    }
    let plan = bench.folder.path("starved.toml");
    let text = "format = \"linerate.plan/1\"\nworkload = \"udp-stream\"\n[options]\nrate = \"5M\"\nduration = \"300ms\"\n\
                [factors]\ntarget.receiver_scheduling = [\"fifo:10\", \"nice:-3\", \"other\"]\n";
    fs::write(&plan, text).unwrap();
    let running = Running::start(bench.run_command(&plan, &["--quiet"]));
    // SCHED_FIFO is 1 (linux/sched.h). The sender, on the other machine, is as ever.
    let fifo = ("1".to_owned(), "10".to_owned());
    bench.wait_until("a thread is real-time", IN_TIME, || {
        let agents = Victim::TargetAgent.processes(&bench, running.id());
        agents.iter().any(|agent| scheduling(*agent).iter().filter(|one| **one == fifo).count() == 1)
    });
    let of_host = Victim::HostAgent.processes(&bench, running.id());
    assert!(of_host.iter().all(|agent| !scheduling(*agent).contains(&fifo)));
    running.wait(IN_TIME).check_done();
    let records = bench.records();
    assert_eq!(records.len(), 3);
    for record in records {
        let level = &record.trial.factors["target.receiver_scheduling"];
        let [told] = &record.target.settings[..] else { panic!("{:?}", record.target.settings) };
        assert_eq!((&told.asked, told.set.as_ref(), told.read_back.as_ref()), (level, Some(level), Some(level)));
        assert_eq!(told.original.as_deref(), Some("other"));
    }
    let ran = Running::start(bench.linerate(&["target", &bench.target(), "set", "receiver_scheduling=fifo:10"]));
    ran.wait(IN_TIME).check_sentence(&["ends with them; give it to a run"]);
    let ran = told(&bench, &["receiver_scheduling"]);
    assert!(ran.stdout.contains("other"), "{ran:#?}");
    bench.check_nothing_runs(IN_TIME);
}

/// In the target: a port with four queues, and a macvlan on it.
const PORT: &str = "
    echo 0 > /proc/sys/net/ipv6/conf/default/accept_dad
    ip link add port0 numtxqueues 4 numrxqueues 4 type veth peer name port1 numtxqueues 4 numrxqueues 4
    ip addr add 10.96.0.1/24 dev port0; ip link set port0 mtu 9000 up; ip link set port1 mtu 9000 up
    ip link add mac0 link port0 mtu 4000 type macvlan mode bridge; ip link set mac0 up
    echo 3000 > /proc/sys/net/ipv6/conf/mac0/mtu; echo 8000 > /proc/sys/net/ipv6/conf/port0/mtu
    cd /sys/class/net/port0/queues; echo 1 > rx-0/rps_cpus; echo 2 > rx-3/rps_cpus; echo 2 > tx-3/xps_cpus";

/// What a shell's commands print in the target.
#[track_caller]
fn in_target(bench: &Bench, commands: &str) -> String {
    let netns = format!("--net={}", bench.lab().target.path().display());
    // /sys shows the namespace in which it was mounted (sysfs(5)).
    let commands = format!("mount -t sysfs sysfs /sys; {commands}");
    let ran = Command::new("nsenter").args([&netns, "unshare", "--mount", "sh", "-ec", &commands]).output().unwrap();
    assert!(ran.status.success(), "{commands}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8_lossy(&ran.stdout).trim().to_owned()
}

/// The port as other programs see it.
fn port(bench: &Bench) -> Vec<String> {
    let settings =
        Running::start(bench.linerate(&["target", &bench.target(), "get", "--interface", "port0", "--json"]));
    let settings = settings.wait(IN_TIME).check_done().json()[0]["settings"].clone();
    let mtus = in_target(bench, "ip -o link show | cut -d ' ' -f 2-5; cd /proc/sys/net/ipv6/conf; grep . */mtu");
    let mut seen: Vec<String> = mtus.lines().map(str::to_owned).collect();
    seen.extend(settings.as_object().unwrap().iter().map(|(name, value)| format!("{name}={value}")));
    seen
}

#[track_caller]
fn check_port(bench: &Bench, before: &[String], what: &str) {
    let after = port(bench);
    let differs = |of: &[String], other: &[String]| -> Vec<String> {
        of.iter().filter(|one| !other.contains(one)).cloned().collect()
    };
    let (gone, new) = (differs(before, &after), differs(&after, before));
    assert!(gone.is_empty() && new.is_empty(), "after {what}: {gone:?} became {new:?}");
}

/// Set and restored by hand, and left by an agent that is killed with its watchdog.
#[test]
fn what_changes_with_a_setting_is_put_back_with_it() {
    let Some(bench) = bench("dependants") else { return };
    in_target(&bench, PORT);
    let before = port(&bench);
    let target = bench.target();
    let run = |words: &[&str]| {
        let mut all = vec!["target", target.as_str()];
        all.extend(words);
        Running::start(bench.linerate(&all)).wait(LONG)
    };
    for changes in [
        &["mtu=1500"][..],
        &["channels.rx=1", "channels.tx=1"],
        &["rps.all=0", "channels.rx=2", "rps.0=none"],
        &["queue_length=7", "qdisc=pfifo", "mtu=2000"],
    ] {
        let overlap = changes.contains(&"rps.all=0");
        let ran = run(&[&["set"], changes, &["--interface", "port0"]].concat());
        if overlap {
            assert_eq!(ran.status.code(), Some(2), "{ran:#?}");
            assert!(ran.stderr.contains("rps.all and rps.0 set the same thing; leave one of them out"), "{ran:#?}");
        } else {
            ran.check_done();
            assert_ne!(port(&bench), before, "{changes:?}");
        }
        let ran = run(&["restore"]);
        // What nobody asked for is no news.
        assert!(!ran.check_done().stdout.contains("xps") && !ran.stdout.contains("sysctl"), "{ran:#?}");
        check_port(&bench, &before, &format!("{changes:?}"));
    }
    // One that is refused leaves what it touched as it was, too.
    let ran = run(&["set", "mtu=1500", "channels.rx=9", "--interface", "port0"]);
    assert!(ran.stderr.contains("channels.rx cannot be 9 on port0"), "{ran:#?}");
    check_port(&bench, &before, "a refusal");
    let ran = run(&["set", "channels.rx=0", "channels.tx=1", "--interface", "port0"]);
    assert!(ran.stderr.contains("channels.rx=0 channels.tx=1 cannot be set together on port0"), "{ran:#?}");
    check_port(&bench, &before, "a request that is refused");
}

/// An agent by hand: a line for each request, and what it answers.
struct Agent {
    child: Child,
    answers: std::io::Lines<BufReader<std::process::ChildStdout>>,
    asked: u32,
}

impl Agent {
    fn start(bench: &Bench) -> Agent {
        let netns = bench.lab().target.path().display().to_string();
        let mut command = bench.linerate(&["agent", "--stdio", "--netns", &netns]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut agent = Agent { child, answers, asked: 0 };
        agent.say(r#"{"linerate":2,"program":"by hand"}"#);
        agent.ask(r#"{"lease":{"holder":{"controller":"by-hand","name":"by hand"}}}"#);
        agent
    }

    fn say(&mut self, line: &str) {
        use std::io::Write;
        let stdin = self.child.stdin.as_mut().unwrap();
        stdin.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    #[track_caller]
    fn ask(&mut self, request: &str) -> String {
        self.asked += 1;
        self.say(&format!(r#"{{"id":{},"request":{request}}}"#, self.asked));
        let re = format!(r#""re":{},"#, self.asked);
        let mut answers = self.answers.by_ref().map_while(Result::ok);
        answers.find(|line| line.contains(&re)).unwrap_or_else(|| panic!("no answer to {request}"))
    }

    #[track_caller]
    fn set(&mut self, changes: &[(&str, &str)]) -> String {
        let changes: Vec<String> =
            changes.iter().map(|(name, value)| format!(r#"{{"name":"{name}","value":"{value}"}}"#)).collect();
        self.ask(&format!(r#"{{"set":{{"interface":"port0","changes":[{}]}}}}"#, changes.join(",")))
    }
}

/// Whatever a controller asks for, in whatever order.
#[test]
fn an_agent_refuses_two_names_of_one_thing_and_tells_what_is_set() {
    let Some(bench) = bench("overlap") else { return };
    in_target(&bench, PORT);
    let before = port(&bench);
    let mut agent = Agent::start(&bench);
    let refusal = agent.set(&[("gro", "on"), ("rps.all", "0"), ("rps.1", "1")]);
    assert!(refusal.contains("rps.all and rps.1 set the same thing"), "{refusal}");
    let refusal = agent.set(&[("tso", "off"), ("feature.tx-tcp-segmentation", "on")]);
    assert!(refusal.contains("tso and feature.tx-tcp-segmentation set the same thing"), "{refusal}");
    check_port(&bench, &before, "refusals");
    // One that the machine refuses is not set, and no name of a thing that is.
    assert!(agent.set(&[("rps.9", "1")]).contains("refusal"));
    assert!(agent.set(&[("rps.all", "0")]).contains("changed"));
    let refusal = agent.set(&[("rps.1", "1")]);
    assert!(refusal.contains("rps.1 and rps.all set the same thing"), "{refusal}");
    // What a later change undoes is set again.
    let told = agent.set(&[("sysctl.net.ipv6.conf.port0.mtu", "1400"), ("mtu", "7000")]);
    assert!(told.contains(r#""asked":"1400","set":"1400","read_back":"1400","original":"8000""#), "{told}");
    assert_eq!(in_target(&bench, "cat /sys/class/net/port0/mtu /proc/sys/net/ipv6/conf/port0/mtu"), "7000\n1400");
    // Of two that have dependants in common, one is put back, then the other.
    assert!(
        agent.set(&[("channels.rx", "2")]).contains("changed")
            && agent.set(&[("channels.tx", "2")]).contains("changed")
    );
    for name in ["channels.rx", "mtu", "channels.tx", "rps.all", "sysctl.net.ipv6.conf.port0.mtu"] {
        let told = agent.ask(&format!(r#"{{"restore":{{"names":["{name}"],"kept":false}}}}"#));
        assert!(told.contains(r#""error":null"#), "{name}: {told}");
    }
    drop(agent.child.stdin.take());
    agent.child.wait().unwrap();
    check_port(&bench, &before, "a conversation");
}

/// A change of a trial may undo an earlier one: then that is made once more, and the record says what was so.
#[test]
fn what_a_later_change_undoes_is_set_again() {
    let Some(bench) = bench("undone") else { return };
    let before = state(&bench);
    let path = bench.folder.path("undone.toml");
    let plan = r#"
        format = "linerate.plan/1"
        workload = "tcp-rr"
        [options]
        duration = "700ms"
        warmup = "0s"
        target.sysctl.net.ipv6.conf.eth0.mtu = 1400
        [factors]
        target.mtu = [8000, 7000]"#;
    fs::write(&path, plan).unwrap();
    let mut running = Running::start(bench.run_command(&path, &["--json"]));
    let mut ended = false;
    for mtu in ["8000", "7000"] {
        bench.wait_until(&format!("an MTU of {mtu}, and 1400 of IPv6"), LONG, || {
            let of = in_target(&bench, "cat /sys/class/net/eth0/mtu /proc/sys/net/ipv6/conf/eth0/mtu");
            ended = running.has_ended();
            ended || of == format!("{mtu}\n1400")
        });
    }
    let ran = running.wait(LONG);
    assert!(!ended, "both were never seen: {ran:#?}");
    for record in ran.check_done().json() {
        let settings = record["target"]["settings"].as_array().unwrap();
        let told = settings.iter().find(|one| one["name"] == "sysctl.net.ipv6.conf.eth0.mtu").unwrap();
        assert_eq!((&told["asked"], &told["read_back"]), (&"1400".into(), &"1400".into()), "{settings:#?}");
    }
    assert_eq!(state(&bench), before);
}

#[test]
fn two_names_of_one_thing_are_refused_before_anything_is_changed() {
    let Some(bench) = bench("names") else { return };
    let before = state(&bench);
    let run = |options: &[&str]| {
        let options: Vec<&str> = options.iter().flat_map(|option| ["--set", option]).collect();
        bench.run("tcp-rr", &options, LONG)
    };
    for (options, sentence) in [
        (
            &["target.mtu=4000", "target.rps.all=0", "target.rps.0=none"][..],
            "on the target, rps.all and rps.0 set the same",
        ),
        (
            &["host.tso=off", "host.feature.tx-tcp-segmentation=on"],
            "on the host, tso and feature.tx-tcp-segmentation set",
        ),
        (&["target.speed=100", "target.duplex=full"], "write both in one, as 'forced 100 full'"),
    ] {
        let ran = run(options);
        assert_eq!((ran.status.code(), bench.records().len()), (Some(2), 0), "{ran:#?}");
        assert!(ran.stderr.contains(sentence), "{ran:#?}");
    }
    assert_eq!(state(&bench), before);
    // Both ends in one namespace use one interface.
    let target = bench.target();
    let both = ["--set", "target.rps.all=0", "--set", "host.rps.0=none", "--dry-run"];
    let command = [&["run", "tcp-rr", "--target", &target, "--host", &target][..], &both].concat();
    let ran = Running::start(bench.linerate(&command)).wait(LONG);
    let said = "target.rps.all and host.rps.0 set the same thing, for both ends are one machine and use lo";
    assert!(ran.stdout.contains(said), "{ran:#?}");
}
