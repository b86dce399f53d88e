//! What LAVA reads of `--lava`: lava-dispatcher's own parser, its test shell's `lava-test-case`, and the two roles of a MultiNode
//! job with its own `lava-send`, `lava-wait` and `lava-sync`.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use linerate_machine::end::End;

use crate::installed;
use crate::machines::sshd::Helper;
use crate::machines::{Bench, Running, case_forms};

const LONG: Duration = Duration::from_secs(60);

/// Where lava-dispatcher's files are in Debian's package.
const DISPATCHER: &str = "usr/lib/python3/dist-packages/lava_dispatcher";

/// Prints what the dispatcher makes of each signal of a console: the shell action's pattern, its parser, its match.
const READ: &str = "import re, sys, json\n\
    from lava_dispatcher.actions.test.shell import handle_testcase\n\
    from lava_dispatcher.connection import SignalMatch\n\
    for name, words in re.findall(r'<LAVA_SIGNAL_(\\S+) ([^>]+)>', sys.stdin.read()):\n\
    \x20   assert name == 'TESTCASE', name\n\
    \x20   print(json.dumps(SignalMatch().match(handle_testcase(words.split()))))\n";

/// Debian's lava-dispatcher, unpacked.
fn dispatcher() -> Option<PathBuf> {
    let package = installed("lava-dispatcher", "readers", "readers/debian")?;
    package.join(DISPATCHER).is_dir().then_some(package)
}

const PLAN: &str = "format = 'linerate.plan/1'\nworkload = 'udp-stream'\nexpect = ['throughput > 1M', 'throughput > 1G with \
                    rate=20M', 'loss < 90%']\n[options]\nduration = '100ms'\nwarmup = '0s'\n[factors]\nrate = '10M,20M'\n";

#[test]
fn signals_are_read_by_the_dispatcher() {
    let Some(bench) = Bench::new("lava") else { return };
    let Some(package) = dispatcher() else { return };
    let plan = bench.folder.path("bring-up.toml");
    fs::write(&plan, PLAN).unwrap();
    let ran = bench.run(&plan, &["--lava"], LONG);
    assert_eq!(ran.status.code(), Some(1), "an expectation is not met");
    let console = format!("{}{}", ran.stdout, ran.stderr);
    fs::write(bench.folder.path("console"), &console).unwrap();
    let python = package.join("../bin/python3");
    let script = format!("'{}' -c \"$1\" < console", python.display());
    let mut command = Command::new("/bin/sh");
    command.args(["-c", &script, "sh", READ]).current_dir(&bench.folder.0);
    command.env("PYTHONPATH", package.join("usr/lib/python3/dist-packages"));
    let read = Running::start(command).wait(LONG);
    read.check_done();
    let results = read.json();
    let ours = case_forms::lava(&console);
    assert_eq!(results.len(), ours.len(), "{console}");
    assert!(results.len() >= 5, "{results:#?}");
    for (theirs, ours) in results.iter().zip(&ours) {
        assert_eq!(
            (&theirs["test_case_id"], &theirs["result"]),
            (&ours.id.as_str().into(), &ours.result.as_str().into())
        );
        let measurement = ours.measurement.as_ref().map(|(number, _)| number.parse::<f64>().unwrap());
        assert_eq!(theirs["measurement"].as_f64(), measurement);
    }
    let count = |result: &str| results.iter().filter(|one| one["result"] == result).count();
    assert_eq!(count("fail"), 1, "{results:#?}");
}

/// The results on a console, whoever wrote them: identifier, result, measurement.
fn results(console: &str) -> Vec<(String, String, Option<String>)> {
    let signal = |line: &str| {
        let words = line.strip_prefix("<LAVA_SIGNAL_TESTCASE ")?.strip_suffix('>')?;
        let fields: BTreeMap<&str, &str> = words.split(' ').map(|word| word.split_once('=').unwrap()).collect();
        let field = |name: &str| fields.get(name).map(|value| (*value).to_owned());
        Some((field("TEST_CASE_ID").unwrap(), field("RESULT").unwrap(), field("MEASUREMENT")))
    };
    console.lines().filter_map(signal).collect()
}

/// A test shell's folder of programs: the dispatcher's scripts, each with the interpreter that it adds.
fn test_shell(bench: &Bench, package: &Path) -> String {
    let bin = bench.folder.0.join("lava-bin");
    fs::create_dir(&bin).unwrap();
    let scripts = package.join(DISPATCHER).join("lava_test_shell");
    for folder in [scripts.clone(), scripts.join("multi_node")] {
        for file in fs::read_dir(folder).unwrap().flatten().filter(|entry| entry.path().is_file()) {
            let text = fs::read_to_string(file.path()).unwrap_or_default();
            let to = bin.join(file.file_name());
            fs::write(&to, format!("#!/bin/sh\n{text}")).unwrap();
            fs::set_permissions(&to, fs::Permissions::from_mode(0o755)).unwrap();
        }
    }
    let program = Path::new(env!("CARGO_BIN_EXE_linerate")).parent().unwrap();
    format!("{}:{}:/usr/sbin:/usr/bin:/sbin:/bin", bin.display(), program.display())
}

#[test]
fn a_test_shell_tells_its_results_itself() {
    let Some(bench) = Bench::new("lava-shell") else { return };
    let Some(package) = dispatcher() else { return };
    let path = test_shell(&bench, &package);
    let plan = bench.folder.path("bring-up.toml");
    fs::write(&plan, PLAN).unwrap();
    let run = |path: &str| {
        let mut command = bench.run_command(&plan, &["--lava"]);
        command.env("PATH", path).env("LAVA_RESULT_DIR", bench.folder.path("results"));
        Running::start(command).wait(LONG)
    };
    let by_shell = run(&path);
    assert_eq!(by_shell.status.code(), Some(1), "{by_shell:#?}");
    let told = results(&by_shell.stdout);
    assert!(told.iter().any(|(_, _, measurement)| measurement.is_some()), "{by_shell:#?}");
    // It also keeps them in files, for the job's end.
    for (id, result, measurement) in &told {
        let kept = |name: &str| fs::read_to_string(bench.folder.0.join("results/results").join(id).join(name)).ok();
        assert_eq!(kept("result").as_deref().map(str::trim), Some(result.as_str()));
        assert_eq!(kept("measurement").as_deref().map(str::trim), measurement.as_deref());
    }
    let ids = |text: &str| results(text).into_iter().map(|(id, result, _)| (id, result)).collect::<Vec<_>>();
    assert_eq!(ids(&by_shell.stdout), ids(&run("/usr/sbin:/usr/bin:/sbin:/bin").stdout));

    // One that fails loses nothing.
    fs::write(bench.folder.0.join("lava-bin/lava-test-case"), "#!/bin/sh\nexit 1\n").unwrap();
    assert_eq!(ids(&run(&path).stdout), ids(&by_shell.stdout));
}

/// The steps of a test definition, as LAVA puts them into one script.
fn steps(definition: &str) -> String {
    let (params, run) = definition.split_once("run:\n  steps:\n").unwrap();
    let params = params.split_once("params:\n").map_or("", |(_, params)| params);
    let params = params.lines().filter_map(|line| line.trim().split_once(": "));
    let params = params.map(|(name, value)| format!("{name}='{}'\n", value.trim_matches('"')));
    let steps = run.lines().map(|line| line.trim().strip_prefix("- ").unwrap_or_else(|| panic!("{line}")));
    params.chain(steps.map(|step| format!("{step}\n"))).collect()
}

/// As LAVA calls the job of a role.
fn job(end: End) -> &'static str {
    if end == End::Target { "4711.0" } else { "4711.1" }
}

/// A device of a MultiNode job: its console.
struct Device {
    _child: Helper,
    input: ChildStdin,
}

/// Passes messages between consoles, as LAVA's coordinator does: what was sent stays, and whoever waits gets it.
#[derive(Default)]
struct Coordinator {
    /// By message: who sent it, with which data.
    sent: BTreeMap<String, Vec<(End, Vec<String>)>>,
    waiting: Vec<(End, String, bool)>,
}

impl Coordinator {
    /// A line of a console.
    fn hear(&mut self, end: End, line: &str) {
        let Some(message) = line.strip_prefix("<LAVA_MULTI_NODE> <").and_then(|rest| rest.strip_suffix('>')) else {
            return;
        };
        let words: Vec<&str> = message.split_whitespace().collect();
        let data = words[2..].iter().map(|word| (*word).to_owned()).collect();
        let mut send = |data| self.sent.entry(words[1].to_owned()).or_default().push((end, data));
        match words[0] {
            "LAVA_SEND" => send(data),
            "LAVA_WAIT" => self.waiting.push((end, words[1].to_owned(), false)),
            "LAVA_SYNC" => {
                send(data);
                self.waiting.push((end, words[1].to_owned(), true));
            }
            other => panic!("{other}"),
        }
    }

    /// What is answered by now.
    fn answers(&mut self) -> Vec<(End, String)> {
        let mut answers = Vec::new();
        let sent = &self.sent;
        self.waiting.retain(|(end, message, of_all)| {
            let Some(by) = sent.get(message).filter(|by| !of_all || by.len() == 2) else { return true };
            let data: Vec<String> = by
                .iter()
                .flat_map(|(from, data)| data.iter().map(move |one| format!(" {}:{one}", job(*from))))
                .collect();
            let api = if *of_all { "LAVA_SYNC" } else { "LAVA_WAIT" };
            answers.push((*end, format!("<{api}_COMPLETE{}>\n", data.concat())));
            false
        });
        answers
    }
}

#[test]
fn two_devices_of_a_job_meet() {
    let Some(bench) = Bench::new("lava-multinode") else { return };
    let Some(package) = dispatcher() else { return };
    let path = test_shell(&bench, &package);
    let bin = bench.folder.0.join("lava-bin");
    // An image has linerate-agent too; this test has linerate alone, which is one when it is told so.
    fs::write(bin.join("linerate-agent"), "#!/bin/sh\nexec linerate agent \"$@\"\n").unwrap();
    fs::set_permissions(bin.join("linerate-agent"), fs::Permissions::from_mode(0o755)).unwrap();
    let (heard_sent, heard) = mpsc::channel::<(End, Option<String>)>();
    let start = |end: End| {
        let definition = match end {
            End::Target => include_str!("../../../../packaging/lava/multinode-target.yaml"),
            End::Host => include_str!("../../../../packaging/lava/multinode-host.yaml"),
        };
        let home = bench.folder.0.join(end.name());
        fs::create_dir(&home).unwrap();
        fs::write(home.join("bring-up.toml"), PLAN).unwrap();
        let cache = home.join("cache.txt").display().to_string();
        let interface = bench.lab().target.run(interface).unwrap();
        let script = steps(definition)
            .replace("/tmp/lava_multi_node_cache.txt", &cache)
            .replace("INTERFACE='eth0'", &format!("INTERFACE='{interface}'"));
        let mut command = Command::new("/bin/sh");
        bench.dress(&mut command);
        command.args(["-c", &script]).current_dir(&home).env("PATH", &path).env("LAVA_TEST_BIN", &bin);
        command.env("LAVA_MULTI_NODE_CACHE", &cache).env("LAVA_RESULT_DIR", &home);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let spawn = || command.spawn();
        let mut child = match end {
            End::Target => bench.lab().target.run(spawn),
            End::Host => bench.lab().host.run(spawn),
        }
        .unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let heard = heard_sent.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let _ = heard.send((end, Some(line)));
            }
            let _ = heard.send((end, None));
        });
        Device { _child: Helper(child), input }
    };
    let mut devices = BTreeMap::from([(End::Target.name(), start(End::Target)), (End::Host.name(), start(End::Host))]);
    let mut coordinator = Coordinator::default();
    let mut consoles: BTreeMap<&str, String> = BTreeMap::new();
    let until = Instant::now() + LONG;
    let mut over = 0;
    while over < 2 {
        let left = until.saturating_duration_since(Instant::now());
        let (end, line) = heard.recv_timeout(left).unwrap_or_else(|_| panic!("still waiting: {consoles:#?}"));
        let Some(line) = line else {
            over += 1;
            continue;
        };
        *consoles.entry(end.name()).or_default() += &format!("{line}\n");
        coordinator.hear(end, &line);
        for (end, answer) in coordinator.answers() {
            devices.get_mut(end.name()).unwrap().input.write_all(answer.as_bytes()).unwrap();
        }
    }
    let results = results(&consoles["host"]);
    let count = |result: &str| results.iter().filter(|one| one.1 == result).count();
    assert_eq!((count("pass"), count("fail")), (4, 1), "{consoles:#?}");
    drop(devices);
    bench.check_nothing_runs(Duration::from_secs(5));
    for end in End::BOTH {
        assert!(!bench.folder.0.join(end.name()).join("linerate.key").exists(), "{end}: the key is gone");
    }
}

/// The name of this namespace's first interface that is no loopback.
fn interface() -> std::io::Result<String> {
    let table = fs::read_to_string("/proc/thread-self/net/dev")?;
    let mut names =
        table.lines().skip(2).filter_map(|line| line.split_once(':')).map(|(name, _)| name.trim().to_owned());
    names.find(|name| name != "lo").ok_or_else(|| std::io::Error::other("there is none"))
}
