//! The journals of changed settings: shared by all network namespaces, and trusted by the next agent.
//! Knows no figures.

mod machines;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use linerate_lab::Shape;
use machines::chance::Chance;
use machines::{Bench, Ran, Running, number, signal};
use serde_json::{Value, json};

const IN_TIME: Duration = Duration::from_secs(10);
const LONG: Duration = Duration::from_secs(60);

/// Trials of a few milliseconds, each set otherwise. `custom.word` is a file, which no namespace owns.
const RESTLESS: &str = r#"
format = "linerate.plan/1"
workload = "tcp-rr"
repeat = REPEAT
[options]
duration = "3ms"
warmup = "0s"
interval = "10ms"
[factors]
FACTORS
[custom.word]
get = ["cat", "WORD"]
set = ["sh", "-c", "test ! -e WORD.broken -o \"$1\" != zero && printf %s \"$1\" > WORD", "sh", "{value}"]
"#;

fn bench(name: &str) -> Option<Bench> {
    let bench = Bench::of(name, &Shape { tx_rate_bps: None, rx_rate_bps: None, ..Shape::modest_board() })?;
    fs::write(bench.folder.path("word"), "zero").unwrap();
    Some(bench)
}

/// A plan with these factors; `zero` is the original of `custom.word`.
fn plan(bench: &Bench, repeat: u32, factors: &[&str]) -> String {
    let (path, word) = (bench.folder.path("restless.toml"), bench.folder.path("word"));
    let text = RESTLESS.replace("REPEAT", &repeat.to_string()).replace("FACTORS", &factors.join("\n"));
    fs::write(&path, text.replace("WORD", &word)).unwrap();
    path
}

const TARGET_WORD: &str = r#"target.custom.word = ["one", "two"]"#;
const HOST_WORD: &str = r#"host.custom.word = ["three", "four"]"#;
const TARGET_MTU: &str = "target.mtu = [1400, 9000]";
const HOST_MTU: &str = "host.mtu = [1400, 9000]";

fn word(bench: &Bench) -> String {
    fs::read_to_string(bench.folder.path("word")).unwrap_or_default()
}

/// What the plans change, on both machines.
fn state(bench: &Bench) -> [String; 3] {
    let mtu = || fs::read_to_string("/proc/sys/net/ipv6/conf/eth0/mtu");
    [bench.lab().target.run(mtu).unwrap(), bench.lab().host.run(mtu).unwrap(), word(bench)]
}

/// A new agent.
#[track_caller]
fn ask(bench: &Bench, endpoint: &str, words: &[&str]) -> Ran {
    let mut all = vec!["target", endpoint];
    all.extend(words);
    Running::start(bench.linerate(&all)).wait(LONG)
}

/// Kills all at once, watchdogs first: an agent's death is what they wait for.
fn kill_everything(bench: &Bench) {
    let mut all = bench.processes();
    all.sort_by_key(|(_, command)| !command.starts_with("linerate-watchdog"));
    let list: Vec<String> = all.iter().map(|(id, _)| id.to_string()).collect();
    let _ = Command::new("/bin/sh").args(["-c", &format!("kill -9 {} 2>/dev/null", list.join(" "))]).status();
}

/// Starts a campaign and kills all that has to do with it when the word and both MTUs are changed.
#[track_caller]
fn die(bench: &Bench, before: &[String; 3]) {
    let path = plan(bench, 100, &[TARGET_WORD, TARGET_MTU, HOST_MTU]);
    let running = Running::start(bench.run_command(&path, &["--quiet"]));
    loop {
        bench.wait_until("settings are changed", IN_TIME, || {
            let now = state(bench);
            now.iter().zip(before).all(|(now, before)| now != before)
        });
        // Between two trials nothing is put back, but a value is read while it is written.
        for (number, _) in bench.processes() {
            signal(number, "STOP");
        }
        if state(bench).iter().zip(before).all(|(now, before)| now != before) && !word(bench).is_empty() {
            break;
        }
        for (number, _) in bench.processes() {
            signal(number, "CONT");
        }
    }
    kill_everything(bench);
    running.wait(IN_TIME);
    bench.check_nothing_runs(IN_TIME);
    assert!(state(bench).iter().zip(before).all(|(now, before)| now != before), "nobody was left to put them back");
}

fn journals(bench: &Bench) -> Vec<PathBuf> {
    let entries = fs::read_dir(bench.folder.path("journals")).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|end| end == "journal")).collect()
}

#[test]
fn what_both_ends_of_one_machine_change_is_refused_or_put_back() {
    let Some(bench) = bench("both-ends") else { return };
    let path = plan(&bench, 1, &[TARGET_WORD, HOST_WORD, HOST_MTU]);
    let before = state(&bench);
    for round in 0..6 {
        let ran = bench.run(&path, &["--quiet"], LONG);
        assert_eq!(state(&bench), before, "round {round}: {ran:#?}");
        ran.check_sentence_of_many(&[
            "custom.word is changed by another agent on this machine (process ",
            "one end only",
        ]);
    }
    // At one end it is as ever.
    let path = plan(&bench, 1, &[HOST_WORD, TARGET_MTU]);
    bench.run(&path, &["--quiet"], LONG).check_done();
    assert_eq!(state(&bench), before);
}

#[test]
fn what_died_in_one_namespace_is_put_back_from_another() {
    let Some(bench) = bench("other-namespace") else { return };
    let before = state(&bench);
    die(&bench, &before);
    let ran = ask(&bench, &bench.host(), &["get", "mtu"]);
    assert_eq!(state(&bench), before, "{ran:#?}");
    for part in ["custom.word is zero again", "mtu of eth0 is 1500 again"] {
        assert!(ran.check_done().stderr.contains(part), "{ran:#?}");
    }
    assert_eq!(ask(&bench, &bench.target(), &["get", "mtu"]).check_done().stderr, "", "it is said once");
    assert_eq!(journals(&bench), Vec::<PathBuf>::new());
}

/// The agent is dead and its watchdog is slow: the next agent does not take what is about to go for the original.
#[test]
fn a_watchdog_at_work_is_waited_for() {
    let (Some(dies), Some(next)) = (bench("slow-watchdog"), bench("next")) else { return };
    let path = plan(&dies, 1, &[TARGET_WORD]);
    let slow = fs::read_to_string(&path).unwrap().replace("-c\", \"test", "-c\", \"test $1 = two || sleep 0.7; test");
    fs::write(&path, slow).unwrap();
    for round in 0..3 {
        let running = Running::start(dies.run_command(&path, &["--quiet"]));
        dies.wait_until("the word is changed", IN_TIME, || !matches!(&*word(&dies), "zero" | ""));
        // Not the watchdog.
        let is_agent = |command: &str| command.contains(" agent ") && !command.starts_with("linerate-watchdog");
        for (number, _) in dies.processes().into_iter().filter(|(_, command)| is_agent(command)) {
            signal(number, "KILL");
        }
        std::thread::sleep(Duration::from_millis(round * 250));
        let mut command = next.run_command(&path, &["--json"]);
        command.env("LINERATE_JOURNALS", dies.folder.path("journals"));
        let ran = Running::start(command).wait(LONG);
        let records = ran.check_done().json();
        let originals: Vec<_> = records.iter().map(|record| &record["target"]["settings"][0]["original"]).collect();
        assert_eq!(originals, ["zero", "zero"], "round {round}: {ran:#?}");
        running.wait(LONG);
        dies.check_nothing_runs(IN_TIME);
        assert_eq!(word(&dies), "zero", "round {round}");
    }
}

/// A namespace that no longer exists: what was its own is gone, and what is the machine's is put back.
#[test]
fn what_no_namespace_owns_outlives_the_namespace() {
    let Some(stays) = bench("stays") else { return };
    // The agent that is killed last may have heard before that the others are gone, and have put all back.
    let gone = (0..4).find_map(|_| {
        let mut gone = bench("gone")?;
        let path = plan(&gone, 100, &[TARGET_WORD, TARGET_MTU]);
        let text = fs::read_to_string(&path).unwrap();
        let (plan, _) = text.split_once("get = ").unwrap();
        // What a command does may depend on its namespace; a file is the same everywhere.
        fs::write(&path, format!("{plan}file = \"{}\"\n", gone.folder.path("word"))).unwrap();
        let running = Running::start(gone.run_command(&path, &["--quiet"]));
        gone.wait_until("the word is changed", IN_TIME, || !matches!(&*word(&gone), "zero" | ""));
        kill_everything(&gone);
        running.wait(IN_TIME);
        gone.check_nothing_runs(IN_TIME);
        gone.lab = None;
        (word(&gone) != "zero").then_some(gone)
    });
    let gone = gone.expect("a word that is left changed");
    let mut command = stays.linerate(&["target", &stays.target(), "get", "mtu"]);
    command.env("LINERATE_JOURNALS", gone.folder.path("journals"));
    let ran = Running::start(command).wait(LONG);
    assert_eq!(word(&gone), "zero", "{ran:#?}");
    assert!(ran.check_done().stderr.contains("custom.word is zero again"), "{ran:#?}");
}

#[test]
fn an_interface_is_known_whatever_it_is_called() {
    let Some(bench) = bench("renamed") else { return };
    let ip = |arguments: &str| {
        let words: Vec<String> = arguments.split(' ').map(str::to_owned).collect();
        let output = bench.lab().target.run(|| Command::new("ip").args(words).output()).unwrap();
        assert!(output.status.success(), "{arguments}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let read = |interface: &str| {
        let files = [format!("ipv4/conf/{interface}/rp_filter"), format!("ipv4/neigh/{interface}/ucast_solicit")];
        let sysctls = move || Ok(files.map(|file| fs::read_to_string(format!("/proc/sys/net/{file}")).unwrap()));
        let link = ip(&format!("-o link show {interface}"));
        let mtu = link.split(" mtu ").nth(1).unwrap().split(' ').next().unwrap().to_owned();
        (mtu, bench.lab().target.run(sysctls).unwrap())
    };
    let set = |interface: &str| {
        let [filter, solicit] = [
            format!("sysctl.net.ipv4.conf.{interface}.rp_filter=2"),
            format!("sysctl.net.ipv4.neigh.{interface}.ucast_solicit=7"),
        ];
        ask(&bench, &bench.target(), &["set", "mtu=4000", &filter, &solicit, "--interface", interface]).check_done();
    };
    let restore = || ask(&bench, &bench.target(), &["restore"]);
    ip("link add one type veth peer name peer");
    ip("link set one mtu 1400");
    let before = read("one");
    set("one");
    assert_ne!(read("one"), before);
    // As one does that becomes a port of a bond.
    ip("link set one address 02:00:00:00:00:77");
    restore().check_done();
    assert_eq!(read("one"), before);
    set("one");
    ip("link set one name other.5");
    // Another one of the old name, which has what this one is changed to.
    ip("link add one mtu 4000 type veth peer name peer2");
    let of_another = read("one");
    restore().check_done();
    assert_eq!((read("other.5"), read("one")), (before, of_another));
    // One that is gone, and another in its place.
    set("one");
    ip("link del one");
    ip("link add one mtu 4000 type veth peer name peer3");
    let of_another = read("one");
    let ran = restore();
    assert!(ran.status.code() == Some(2) && ran.stderr.contains("mtu of one could not be put back"), "{ran:#?}");
    assert!(ran.stderr.contains("one is gone, and its settings with it"), "{ran:#?}");
    assert_eq!(read("one"), of_another);
    assert!(restore().check_done().stdout.contains("nothing to put back"), "it is said once");
}

#[test]
fn an_interface_that_is_made_meanwhile_begins_as_it_would_have() {
    let Some(bench) = bench("made-meanwhile") else { return };
    let in_target = |commands: &str| {
        let sh = || Command::new("sh").args(["-ec", commands]).output();
        let output = bench.lab().target.run(sh).unwrap();
        assert!(output.status.success(), "{commands}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let make = |name: &str| in_target(&format!("ip link add {name} type veth peer name {name}p"));
    let read = |name: &str| {
        let files = [("ipv4", "rp_filter"), ("ipv4", "arp_ignore"), ("ipv6", "accept_ra")];
        let files = files.map(|(family, key)| format!("/proc/sys/net/{family}/conf/{name}/{key}"));
        in_target(&format!("cat {}", files.join(" ")))
    };
    let before = read("default");
    for everybody_dies in [false, true] {
        let mut agent = Agent::start(&bench);
        let mut set = |values: [u32; 3]| {
            let names = ["ipv4.conf.default.rp_filter", "ipv4.conf.default.arp_ignore", "ipv6.conf.default.accept_ra"];
            let change = |(name, value)| json!({"name": format!("sysctl.net.{name}"), "value": format!("{value}")});
            let changes: Vec<Value> = names.into_iter().zip(values).map(change).collect();
            agent.ask(&json!({"set": {"changes": changes}})).unwrap();
        };
        set([2, 1, 0]);
        make("first");
        set([1, 2, 2]);
        make("second");
        assert_eq!(read("second"), "1\n2\n2\n");
        // Somebody has chosen it.
        make("own");
        in_target("sysctl -qw net.ipv4.conf.own.rp_filter=2");
        if everybody_dies {
            kill_everything(&bench);
        }
        drop(agent);
        bench.check_nothing_runs(IN_TIME);
        if everybody_dies {
            ask(&bench, &bench.target(), &["get", "mtu"]).check_done();
        }
        for name in ["default", "first", "second"] {
            assert_eq!(read(name), before, "{name}; everybody dies: {everybody_dies}");
        }
        assert_eq!(read("own"), before.replacen(&before[..1], "2", 1));
        in_target("for name in first second own; do ip link del $name; done");
    }
}

#[test]
fn what_could_not_be_put_back_is_tried_again_and_keeps_its_original() {
    let Some(bench) = bench("tried-again") else { return };
    let before = state(&bench);
    let target = bench.target();
    let broken = bench.folder.path("word.broken");
    die(&bench, &before);
    fs::write(&broken, "").unwrap();
    for _ in 0..2 {
        let ran = ask(&bench, &target, &["get", "mtu"]);
        assert!(ran.check_done().stderr.contains("custom.word could not be put back to zero"), "{ran:#?}");
        assert!(ran.stderr.contains("the next agent tries again, until you delete "), "{ran:#?}");
        assert_eq!(journals(&bench).len(), 1, "the rest is put back");
    }
    assert_eq!(state(&bench)[..2], before[..2]);
    // A campaign that changes it has the true original.
    let text = fs::read_to_string(bench.folder.path("restless.toml")).unwrap();
    let path = bench.folder.path("once.toml");
    fs::write(&path, text.replace("repeat = 100", "repeat = 1").replace("target.mtu = [1400, 9000]", "")).unwrap();
    let ran = bench.run(&path, &["--json"], LONG);
    assert!(ran.stderr.contains("custom.word could not be put back to zero"), "{ran:#?}");
    let records = ran.json();
    assert!(records.len() >= 4 && records.iter().all(|record| record["target"]["settings"][0]["original"] == "zero"));
    fs::remove_file(&broken).unwrap();
    let ran = ask(&bench, &bench.host(), &["get", "mtu"]);
    assert!(ran.check_done().stderr.contains("custom.word is zero again"), "{ran:#?}");
    assert_eq!(state(&bench), before);
    assert_eq!(ask(&bench, &target, &["get", "mtu"]).check_done().stderr, "");
}

#[test]
fn a_line_that_cannot_be_read_is_said_and_the_others_are_put_back() {
    let Some(bench) = bench("unreadable") else { return };
    let target = bench.target();
    let before = state(&bench);
    die(&bench, &before);
    for path in journals(&bench) {
        let text = fs::read_to_string(&path).unwrap();
        let (first, rest) = text.split_once('\n').unwrap();
        fs::write(&path, format!("{first}\n{{\"change\":{{\"name\":\"mt\n{rest}{{\"change\":")).unwrap();
    }
    let ran = ask(&bench, &target, &["get", "mtu"]);
    assert_eq!(state(&bench), before, "{ran:#?}");
    assert_eq!(ran.check_done().stderr.matches("cannot be read, so a setting may have stayed changed").count(), 2);
    assert_eq!(ask(&bench, &target, &["get", "mtu"]).check_done().stderr, "");
}

/// The folder of the journals fills up while settings are changed: in the middle of a line, most times.
#[test]
fn a_full_disk_loses_no_setting() {
    let Some(bench) = bench("full-disk") else { return };
    let seed = number("LINERATE_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    println!("LINERATE_SEED={seed}");
    let mut chance = Chance(seed);
    let folder = bench.folder.path("journals");
    let mounted = Mounted::small(&folder);
    // So many that what they were does not fit a page.
    let files: Vec<String> = (0..60).map(|number| bench.folder.path(&format!("file{number}"))).collect();
    let path = bench.folder.path("many.toml");
    let mut text = RESTLESS.replace("REPEAT", "1").replace("FACTORS", HOST_MTU);
    text.truncate(text.find("[custom.word]").unwrap());
    let set: Vec<String> = (0..files.len()).map(|number| format!("target.custom.c{number} = \"one\"")).collect();
    text = text.replace("[options]", &format!("[options]\n{}", set.join("\n")));
    for (number, file) in files.iter().enumerate() {
        fs::write(file, "zero").unwrap();
        text.push_str(&format!("[custom.c{number}]\nfile = \"{file}\"\n"));
    }
    fs::write(&path, text).unwrap();
    let changed = || files.iter().filter(|file| fs::read_to_string(file).unwrap() != "zero").count();
    let before = state(&bench);
    let mut refused = 0;
    for round in 0..8 {
        // All of them fit one page less than is there, or do not by one page and more.
        let left = 1 + chance.below(5);
        let filler = format!("{folder}/filler");
        fs::write(&filler, vec![0; ((16 - left) * 4096) as usize]).unwrap();
        let kill_after = (chance.below(2) == 0).then(|| Duration::from_micros(chance.below(1_500_000)));
        let what = format!("round {round} of seed {seed}: {left} pages, killed after {kill_after:?}");
        let running = Running::start(bench.run_command(&path, &["--quiet"]));
        if let Some(after) = kill_after {
            std::thread::sleep(after);
            kill_everything(&bench);
        }
        let ran = running.wait(LONG);
        refused += u64::from(ran.stderr.contains("its journal cannot be written"));
        bench.check_nothing_runs(IN_TIME);
        let next = ask(&bench, &bench.host(), &["get", "mtu"]);
        assert_eq!((changed(), state(&bench)), (0, before.clone()), "{what}: {ran:#?}, then {next:#?}");
        assert!(!next.stderr.contains("cannot be read"), "{what}: {next:#?}");
        fs::remove_file(&filler).unwrap();
    }
    println!("{refused} of 8 were refused a change");
    assert!(refused > 0, "the disk was never full");
    drop(mounted);
}

/// An agent that is spoken to without a controller, one request at a time.
struct Agent {
    child: Child,
    said: BufReader<ChildStdout>,
    number: u32,
}

impl Agent {
    fn start(bench: &Bench) -> Agent {
        Agent::start_sharing(bench, bench)
    }

    /// With the journals of another test's folder.
    fn start_sharing(bench: &Bench, folder: &Bench) -> Agent {
        let netns = bench.lab().target.path().display().to_string();
        let mut command = bench.linerate(&["agent", "--stdio", "--netns", &netns]);
        command.env("LINERATE_JOURNALS", folder.folder.path("journals"));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        writeln!(child.stdin.as_mut().unwrap(), r#"{{"linerate":2,"program":"a test","capabilities":[]}}"#).unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        let mut agent = Agent { child, said, number: 0 };
        let holder = json!({"lease": {"holder": {"controller": "a test", "name": "ann"}}});
        agent.ask(&holder).expect("the lease");
        agent
    }

    /// What it answers, or why it refuses.
    fn ask(&mut self, request: &Value) -> Result<Value, String> {
        self.number += 1;
        let line = json!({"id": self.number, "request": request});
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
        loop {
            let mut line = String::new();
            assert_ne!(self.said.read_line(&mut line).unwrap(), 0, "it has gone");
            let said: Value = serde_json::from_str(&line).unwrap();
            if said["reply"]["re"] == self.number {
                return Ok(said["reply"]["reply"].clone());
            }
            if said["refusal"]["re"] == self.number {
                return Err(said["refusal"]["message"].as_str().unwrap().to_owned());
            }
        }
    }

    /// Gives the file, a setting of its own, the value `one`.
    fn set(&mut self, number: usize, file: &str) -> Result<Value, String> {
        let custom = json!({"get": file, "set": file});
        let change = json!({"name": format!("custom.c{number}"), "value": "one", "custom": custom});
        self.ask(&json!({"set": {"changes": [change]}}))
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A line that did not fit leaves nothing behind that the next one would join.
#[test]
fn what_is_changed_after_the_disk_was_full_is_put_back_too() {
    let Some(bench) = bench("was-full") else { return };
    let folder = bench.folder.path("journals");
    let mounted = Mounted::small(&folder);
    let filler = format!("{folder}/filler");
    fs::write(&filler, vec![0; 15 * 4096]).unwrap();
    let files: Vec<String> = (0..80).map(|number| bench.folder.path(&format!("file{number}"))).collect();
    for file in &files {
        fs::write(file, "zero").unwrap();
    }
    let value = |file: &String| fs::read_to_string(file).unwrap();
    let mut agent = Agent::start(&bench);
    let full = (0..).find_map(|number| agent.set(number, &files[number]).err().map(|refused| (number, refused)));
    let (refused, sentence) = full.unwrap();
    assert!(sentence.contains("its journal cannot be written") && sentence.contains("No space left"), "{sentence}");
    let changed = || files.iter().map(value).filter(|value| value == "one").count();
    assert!(refused > 5 && changed() == refused, "{refused} {}", changed());
    // There is room again.
    fs::remove_file(&filler).unwrap();
    for (number, file) in files.iter().enumerate().skip(refused + 1).take(3) {
        agent.set(number, file).unwrap();
    }
    assert_eq!(changed(), refused + 3);
    kill_everything(&bench);
    drop(agent);
    bench.check_nothing_runs(IN_TIME);
    assert_eq!(changed(), refused + 3, "nobody was left to put them back");
    let ran = ask(&bench, &bench.host(), &["get", "mtu"]);
    assert_eq!(changed(), 0, "{ran:#?}");
    assert!(!ran.check_done().stderr.contains("cannot be read"), "{ran:#?}");
    drop(mounted);
}

#[test]
fn a_watchdog_loses_no_line_of_its_journal() {
    let Some(bench) = bench("watchdog-journal") else { return };
    let files = ["one", "another"].map(|name| bench.folder.path(name));
    files.iter().for_each(|file| fs::write(file, "zero").unwrap());
    let killed_after = |what: &dyn Fn(&PathBuf)| {
        let mut agent = Agent::start(&bench);
        files.iter().enumerate().for_each(|(number, file)| drop(agent.set(number, file).unwrap()));
        what(&journals(&bench)[0]);
        drop(agent);
        bench.check_nothing_runs(IN_TIME);
        files.each_ref().map(|file| fs::read_to_string(file).unwrap())
    };
    let copies = bench.folder.path("journals.copy");
    let all = |journal: &PathBuf| [journal.clone(), PathBuf::from(&copies).join(journal.file_name().unwrap())];
    let tidied_up = killed_after(&|journal| all(journal).iter().for_each(|file| fs::remove_file(file).unwrap()));
    assert_eq!(tidied_up, ["zero", "zero"]);
    let damaged = killed_after(&|journal| {
        for file in all(journal) {
            let text = fs::read_to_string(&file).unwrap();
            fs::write(file, text.replace(r#""custom.c1""#, "custom.c1")).unwrap();
        }
    });
    assert_eq!(damaged, ["zero", "one"]);
    let ran = ask(&bench, &bench.host(), &["get", "mtu"]);
    assert!(ran.stderr.contains("one line of the journal of an agent of ann cannot be read"), "{ran:#?}");
    assert_eq!(journals(&bench).len(), 0);
}

/// The folder is tidied up, and then nobody is left who has it open.
#[test]
fn a_journal_that_is_deleted_has_a_copy() {
    let Some(bench) = bench("copy") else { return };
    let file = bench.folder.path("word");
    let folder = bench.folder.path("journals");
    let tidy_ups: [&dyn Fn(); 3] =
        [&|| fs::remove_file(&journals(&bench)[0]).unwrap(), &|| fs::remove_dir_all(&folder).unwrap(), &|| {
            fs::write(&journals(&bench)[0], "").unwrap()
        }];
    for tidy_up in tidy_ups {
        let mut agent = Agent::start(&bench);
        agent.set(0, &file).unwrap();
        tidy_up();
        let mut other = Agent::start(&bench);
        let refused = other.set(1, &file).unwrap_err();
        assert!(refused.contains("is changed by another agent on this machine"), "{refused}");
        drop(other);
        kill_everything(&bench);
        drop(agent);
        bench.check_nothing_runs(IN_TIME);
        assert_eq!(word(&bench), "one", "nobody was left to put it back");
        let ran = ask(&bench, &bench.host(), &["get", "mtu"]);
        assert_eq!(word(&bench), "zero", "{ran:#?}");
        assert!(ran.check_done().stderr.contains("custom.c0 is zero again"), "{ran:#?}");
        assert_eq!(journals(&bench).len(), 0);
        assert_eq!(fs::read_dir(bench.folder.path("journals.copy")).unwrap().count(), 0);
    }
}

/// Two agents that change the same in the same moment, again and again: one of them is refused it, and what it was is
/// what it was.
#[test]
fn of_two_agents_at_the_same_moment_one_has_it() {
    let (Some(one), Some(two)) = (bench("moment-1"), bench("moment-2")) else { return };
    let file = one.folder.path("word");
    let mut refused = 0;
    for round in 0..20 {
        let mut agents = [Agent::start(&one), Agent::start_sharing(&two, &one)];
        let results: Vec<Result<Value, String>> = std::thread::scope(|scope| {
            let both = agents.each_mut().map(|agent| scope.spawn(|| agent.set(0, &file)));
            both.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let originals = results.iter().flatten().map(|reply| &reply["changed"]["settings"][0]["original"]);
        assert!(originals.into_iter().all(|original| original == "zero"), "round {round}: {results:?}");
        for sentence in results.iter().filter_map(|result| result.as_ref().err()) {
            assert!(sentence.contains("is changed by another agent on this machine"), "{sentence}");
            refused += 1;
        }
        drop(agents);
        for bench in [&one, &two] {
            bench.check_nothing_runs(IN_TIME);
        }
        assert_eq!(word(&one), "zero", "round {round}: {results:?}");
    }
    assert_eq!(refused, 20, "one of each two");
}

/// A file system of sixteen pages, which goes away with the test.
struct Mounted(String);

impl Mounted {
    fn small(folder: &str) -> Mounted {
        fs::create_dir(folder).unwrap();
        let mut mount = Command::new("mount");
        let status = mount.args(["-t", "tmpfs", "-o", "size=64k,mode=700", "tmpfs", folder]).status().unwrap();
        assert!(status.success());
        Mounted(folder.to_owned())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").args(["-l", &self.0]).status();
    }
}

/// Two campaigns on one machine, in four namespaces, at the same time and killed at any moment, both of which change
/// what no namespace owns. `LINERATE_KILLS` says how often, and `LINERATE_SEED` repeats what was seen.
#[test]
fn campaigns_at_the_same_time_leave_nothing_changed() {
    let kills = number("LINERATE_KILLS").unwrap_or(12);
    let seed = number("LINERATE_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    println!("LINERATE_KILLS={kills} LINERATE_SEED={seed}");
    let (Some(one), Some(two)) = (bench("at-once-1"), bench("at-once-2")) else { return };
    let shared = one.folder.path("journals");
    let shares = |mut command: Command| {
        command.env("LINERATE_JOURNALS", &shared);
        command
    };
    // Both change the word of the first.
    let path = plan(&one, 2, &[TARGET_WORD, HOST_MTU]);
    let before = [state(&one), state(&two)];
    let mut chance = Chance(seed);
    let (mut done, mut refused) = (0, 0);
    for round in 0..kills {
        let mut running = Vec::new();
        for bench in [&one, &two] {
            running.push(Running::start(shares(bench.run_command(&path, &["--quiet"]))));
            std::thread::sleep(Duration::from_micros(chance.below(300_000)));
        }
        let victim = [None, Some(&one), Some(&two)][chance.below(3) as usize];
        if let Some(victim) = victim {
            std::thread::sleep(Duration::from_micros(chance.below(1_000_000)));
            kill_everything(victim);
        }
        for running in running {
            let ran = running.wait(LONG);
            done += u64::from(ran.status.code() == Some(0));
            refused += u64::from(ran.stderr.contains("is changed by another agent"));
            assert!(!ran.stderr.contains("panicked"), "{ran:#?}");
        }
        for bench in [&one, &two] {
            bench.check_nothing_runs(IN_TIME);
        }
        let next = if chance.below(2) == 0 { &one } else { &two };
        let words = ["target", &next.host(), "get", "mtu"];
        let ran = Running::start(shares(next.linerate(&words))).wait(LONG);
        let what = format!("round {round} of seed {seed}: {:?} killed", victim.map(|one| one.host()));
        assert_eq!([state(&one), state(&two)], before, "{what}, then {ran:#?}");
        assert_eq!(journals(&one), Vec::<PathBuf>::new(), "{what}");
    }
    println!("{kills} rounds: {done} campaigns done, {refused} refused what the other held");
}

/// What keeps a port silent while frames are counted goes like any other setting: nobody is left to put it back but the watchdog.
#[test]
fn a_port_speaks_again_when_its_agent_is_killed() {
    const SOLICITS: &str = "/proc/sys/net/ipv4/neigh/eth0/mcast_solicit";
    let Some(bench) = bench("silent") else { return };
    let solicits = || {
        let read = || fs::read_to_string(SOLICITS);
        [bench.lab().target.run(read).unwrap(), bench.lab().host.run(read).unwrap()].map(|text| text.trim().to_owned())
    };
    let before = solicits();
    assert_ne!(before, ["0", "0"]);
    let running =
        Running::start(bench.run_command("frames", &["--set", "rate=1kpps", "--set", "duration=30s", "--quiet"]));
    bench.wait_until("both ports are silent", IN_TIME, || solicits() == ["0", "0"]);
    for netns in [bench.lab().target.path(), bench.lab().host.path()] {
        signal(bench.agent_of(&netns), "KILL");
    }
    running.wait(LONG);
    bench.check_nothing_runs(IN_TIME);
    assert_eq!(solicits(), before);
}
