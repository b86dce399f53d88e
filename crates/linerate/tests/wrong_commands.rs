//! Wrong commands, and what they are told: the snapshot is to be read aloud. Cause and next step stand in each.
//! Knows no traffic: each is refused before a machine is reached.

mod machines;

use std::fmt::Write;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Duration;

use linerate_results::store::Store;
use machines::{Bench, Running};

/// Nothing here has to wait for anything.
const SOON: Duration = Duration::from_secs(10);

/// A slip of the finger each, as an engineer makes them; `$FOLDER` has the plan files of [`PLANS`].
const COMMANDS: &[&str] = &[
    // Of `run`: what is measured, and between whom.
    "run",
    "run tcp",
    "run --target local",
    "runn tcp --target local",
    "run tcp-steam --target local",
    "run tcp-stream tcp-rr --target local",
    "run ./nowhere.toml --target local",
    "run tcp --target",
    "run tcp --taget local",
    "run tcp --target iperf:10.0.0.1",
    "run tcp --target shh:root@board",
    "run tcp --target serial:/dev/ttyUSB0",
    "run tcp --target netns:",
    "run tcp --target ssh:",
    "run tcp --target tcp:board",
    "run tcp --target board:22x",
    "run tcp --target fe80::1",
    "run tcp --target netns:nowhere",
    "run tcp --target board:imx9",
    "run tcp --target tcp:127.0.0.1:1",
    "run tcp --target local --target-address 999.1.1.1",
    "run tcp --target local --host iperf3:10.0.0.1",
    "run tcp --target local --psk-file /nowhere/key",
    // Options and settings.
    "run tcp-stream --target local --set trget.mtu=9000",
    "run tcp-stream --target local --set hsot.grro=off",
    "run tcp-stream --target local --set mtu=9000",
    "run tcp-stream --target local --set target.mtuu=9000",
    "run tcp-stream --target local --set target.coalesce=8",
    "run tcp-stream --target local --set target.gro=maybe",
    "run tcp-stream --target local --set target.sysctl.kernel.hostname=x",
    "run tcp-stream --target local --set durration=5s",
    "run tcp-stream --target local --set duration=0",
    "run tcp-stream --target local --set duration=soon",
    "run tcp-stream --target local --set direction=up",
    "run tcp-stream --target local --set streams=1000",
    "run tcp-stream --target local --set mss=1",
    "run tcp-stream --target local --set congestion_control=",
    "run tcp-stream --target local --set sender_api=sendmmsg",
    "run tcp-stream --target local --set duration=5s --set bytes=1M",
    "run tcp-stream --target local --set rate=10kpps",
    "run tcp-stream --target local --set message_size=64 --set request_size=64",
    "run tcp-stream --target local --set rate=10M --set rate=20M",
    "run tcp-stream --target local --set rate",
    "run tcp-stream --target local --set =10M",
    "run udp-stream --target local --set rate=100",
    "run udp-stream --target local --set rate=100MB",
    "run udp-stream --target local --set rate=0",
    "run udp-stream --target local --set rate=1G..50M:50M",
    "run udp-stream --target local --set rate=50M..1G",
    "run udp-stream --target local --set rate=5M..10M:3M",
    "run udp-stream --target local --set burst=4",
    "run udp-stream --target local --set first_time=5s",
    "run tcp-stream --target local --set dscp=eff",
    "run tcp-stream --target local --set target.mtu=70000",
    "run udp-stream --target local --set rate=50M,50M",
    "run udp-stream --target local --set message_size=64K",
    "run tcp-rr --target local --set rate=100M",
    "run tcp --target local --set workload=udp-stream",
    "run tcp --target local --repeat 0",
    "run tcp --target local --repeat often",
    "run tcp --target local --repeat -1",
    "run tcp --target local --precision much",
    "run tcp --target local --repeat 40 --precision 1%",
    "run tcp --target local --json --csv",
    "run tcp --target local --jsn",
    "run tcp --target local --duration 1",
    "run tcp --target local --message-size=1400",
    "run tcp --target local -t 5",
    "run tcp --target local -P4",
    "run tcp --target local -R",
    "run tcp --target local -u",
    "run tcp --target local --dry-run --resume",
    "run tcp --target local --username me",
    "run tcp --target local --counters ssh:board",
    "run tcp --target local --allow-unanswered 10M",
    "run tcp --target netperf:10.0.0.1 --set target.mtu=9000",
    // What is expected.
    "run tcp-stream --target local --expect thruput>900M",
    "run tcp-stream --target local --expect throughput",
    "run tcp-stream --target local --expect throughput>fast",
    "run tcp-stream --target local --expect throughput>200",
    "run tcp-stream --target local --expect loss<1%",
    "run tcp-stream --target local --expect tx_throughput>900M",
    "run udp-sweep --target local --expect loss<1%+with+rate=7M",
    "run udp-sweep --target local --expect loss<1%+with+rats=7M",
    // Plan files.
    "run $FOLDER/key.toml --target local",
    "run $FOLDER/value.toml --target local",
    "run $FOLDER/toml.toml --target local",
    "run $FOLDER/format.toml --target local",
    "plans nowhere",
    "plans tcp udp",
    // Records.
    "records",
    "records lst",
    "records show nonsense",
    "records show",
    "records export",
    "records list --workload ping",
    "records list --since soon",
    "explain nonsense",
    "explain --finding qdisc-drop",
    "compare",
    "compare last",
    "compare last last~1",
    "compare a b --metric thruput",
    "compare a b --margin much",
    "compare a b --fail-if throughput",
    "history",
    "history thruput",
    "cost nonsense",
    "--quiet plans",
    "--store x lab list",
    // One machine.
    "target",
    "target local",
    "target local inf",
    "target local gte",
    "target local xyzzy",
    "--target local run tcp",
    "lab --target local",
    "target local get mtuu",
    "target local set mtu",
    "target local set mtu=big",
    "target local set mtu=1500 mtu=9000",
    "target local set target.gro=off gro=on",
    "target local watch --interval 0",
    "target iperf3:10.0.0.1 info",
    // Serving, boards, agents.
    "serve",
    "serve iperf",
    "serve iperf2 ttcp",
    "serve iperf3 netperf --port 7000",
    "serve iperf3 --port 99999",
    "serve iperf3 --bind 192.0.2.77",
    "serve iperf3 --allow-unproven-udp 10M",
    "lab",
    "lab up",
    "lab up sabre",
    "lab up brigde",
    "lab up bridge --capacity 10kpps",
    "lab down bridge",
    "lab shell sabrelite",
    "lab down sabrelite",
    "agent",
    "agent --listen 127.0.0.1:0",
    "completions fishh",
    "help nowhere",
];

const HEAD: &str = "format = 'linerate.plan/1'\nname = 'mine'\nabout = 'a'\nwhy = 'b'\n";

/// Plan files with a mistake each.
const PLANS: &[(&str, &str)] = &[
    ("key.toml", "[[part]]\nworkload = 'tcp-stream'\nrepat = 3\n"),
    ("value.toml", "[[part]]\nworkload = 'tcp-stream'\n[part.options]\nduration = 'soon'\n"),
    ("toml.toml", "[[part\n"),
    ("format.toml", "format = 'linerate.plan/2'\n"),
];

#[test]
fn wrong_commands_get_a_cause_and_a_next_step() {
    let bench = Bench::bare("wrong-commands");
    for (name, text) in PLANS {
        let text = if text.starts_with("format") { (*text).to_owned() } else { format!("{HEAD}{text}") };
        fs::write(bench.folder.path(name), text).unwrap();
    }
    // A store that has nothing: without one all that asks it would say so, and no more.
    fs::create_dir_all(bench.store_path().parent().unwrap()).unwrap();
    drop(Store::open(&bench.store_path()).unwrap());
    let folder = bench.folder.path("");
    let folder = folder.trim_end_matches('/');
    let (mut heard, mut accepted) = (String::new(), Vec::new());
    for command in COMMANDS {
        // What is one word for a shell has its blanks written so.
        let word = |word: &str| word.replace("$FOLDER", folder).replace('+', " ");
        let words: Vec<String> = command.split(' ').map(word).collect();
        let arguments: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut command_line = bench.linerate(&arguments);
        // Boards that run on this machine are no part of this.
        command_line.env("XDG_RUNTIME_DIR", folder);
        let ran = Running::start(command_line).wait(SOON);
        if ran.status.code() != Some(2) || ran.stderr.contains("panicked") {
            accepted.push(format!("linerate {command}: {ran:#?}"));
        }
        let said = ran.stderr.replace(folder, "$FOLDER");
        writeln!(heard, "$ linerate {command}\n{}\n", said.trim_end()).unwrap();
    }
    // Without servers the list of `lab` is a line shorter; all else is the same.
    match cfg!(any(feature = "nats", feature = "postgres")) {
        true => insta::assert_snapshot!(heard),
        false => println!("SKIPPED the words of wrong commands: they are of a linerate with PostgreSQL or NATS"),
    }
    assert!(accepted.is_empty(), "{accepted:#?}");
    assert!(bench.records().is_empty(), "nothing was measured");
}

#[test]
fn a_board_that_is_starting_is_said_to_be() {
    let bench = Bench::bare("starting");
    let board = bench.folder.path("linerate/boards/sabrelite");
    fs::create_dir_all(&board).unwrap();
    for part in ["linerate", "linerate/boards", "linerate/boards/sabrelite"] {
        fs::set_permissions(bench.folder.path(part), fs::Permissions::from_mode(0o700)).unwrap();
    }
    let lock = File::create(format!("{board}/lock")).unwrap();
    lock.lock().unwrap();
    let mut command = bench.linerate(&["run", "tcp", "--target", "board:sabrelite"]);
    command.env("XDG_RUNTIME_DIR", bench.folder.path(""));
    let ran = Running::start(command).wait(SOON);
    ran.check_sentence(&["board:sabrelite", "it is starting", "try again", "linerate lab list"]);
}

#[test]
fn what_only_a_machine_knows_is_said_with_what_it_has() {
    let Some(bench) = Bench::new("machine-knows") else { return };
    let ran = bench.run("tcp-stream", &["--set", "congestion_control=bbbr", "--set", "duration=1s"], SOON);
    assert_eq!(ran.status.code(), Some(2), "{ran:#?}");
    let has = "this kernel has no congestion control 'bbbr'; choose one of ";
    assert!(ran.stdout.contains(has) || ran.stderr.contains(has), "{ran:#?}");
    let down = || Command::new("ip").args(["link", "set", "eth0", "down"]).status();
    assert!(bench.lab().host.run(down).unwrap().success());
    let ran = bench.run("tcp-stream", &["--set", "duration=1s"], SOON);
    assert_eq!(ran.status.code(), Some(2), "{ran:#?}");
    assert!(ran.stderr.contains("bring the host's eth0 up there: ip link set eth0 up"), "{ran:#?}");
}
