//! A machine that is rebooted between trials, with a machine made of namespaces that only looks as if it were.
//! Knows no figures.
//!
//! The board is a folder: `boot_id`, `flags` and `srcversion` are what its agent will find, and while `down` is there,
//! nobody is reached. Its agent runs in a mount namespace of its own, where `boot_id` lies over the kernel's.

mod machines;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Duration;

use linerate_lab::Shape;
use linerate_results::record::Record;
use machines::{Bench, Ran, Running};

const LIMIT: Duration = Duration::from_secs(60);

/// How the board's agent is started: `agent.sh NETNS`. `setarch --uname-2.6` has uname(2) tell another kernel.
const AGENT: &str = r#"#!/bin/sh
cd "$(dirname "$0")" || exit 1
if [ -e down ]; then echo "no route to the board" >&2; exit 1; fi
echo $$ > agent.pid
export NETNS="$1"
exec unshare --mount /bin/sh -c '
    mount --bind boot_id /proc/sys/kernel/random/boot_id || exit 1
    mount -t tmpfs none /sys/module && mkdir /sys/module/fec && cp srcversion /sys/module/fec/srcversion
    exec setarch $(cat flags) LINERATE agent --stdio --netns "$NETNS"'
"#;

/// How it is booted: `boot.sh SECONDS FLAGS SRCVERSION`. With `never` it goes down for good.
const BOOT: &str = r#"#!/bin/sh
cd "$(dirname "$0")" || exit 1
echo "$LINERATE_BOOT $LINERATE_MACHINE" >> boots
touch down
kill -9 $(cat agent.pid)
[ "$1" = never ] && exit 0
/bin/sh -c "sleep $1; cat /proc/sys/kernel/random/uuid > boot_id; echo '$2' > flags; echo $3 > srcversion; rm down" \
    < /dev/null > /dev/null 2>&1 &
# As ssh ends when the machine goes down under it.
exit 255
"#;

/// Two machines, of which the target is a board that boots; `None`, and a line that says so, where that cannot be.
fn board(name: &str) -> Option<Bench> {
    let bench = Bench::of(name, &Shape { tx_rate_bps: None, rx_rate_bps: None, ..Shape::modest_board() })?;
    let works = Command::new("unshare").args(["--mount", "setarch", "--uname-2.6", "true"]).status();
    if !works.is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED {name}: it needs unshare(1) and setarch(1) of util-linux");
        return None;
    }
    let write = |name: &str, text: &str| {
        let path = bench.folder.path(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    write("agent.sh", &AGENT.replace("LINERATE", env!("CARGO_BIN_EXE_linerate")));
    write("boot.sh", BOOT);
    write("boot_id", "11111111-1111-1111-1111-111111111111\n");
    write("flags", "--uname-2.6\n");
    write("srcversion", "FACE\n");
    Some(bench)
}

/// `linerate run PLAN` between the board and the other machine, with these arguments.
fn run_command(bench: &Bench, plan: &str, more: &[&str]) -> Command {
    let path = bench.folder.path("boot.toml");
    fs::write(&path, plan.replace("FOLDER", &bench.folder.0.display().to_string())).unwrap();
    let netns = bench.lab().target.path();
    let target = format!("exec:{} {}", bench.folder.path("agent.sh"), netns.display());
    let mut command = bench.linerate(&["run", &path, "--target", &target, "--host", &bench.host()]);
    command.args(more);
    command
}

fn run(bench: &Bench, plan: &str, more: &[&str]) -> Ran {
    Running::start(run_command(bench, plan, more)).wait(LIMIT)
}

fn boots(bench: &Bench) -> Vec<String> {
    let text = fs::read_to_string(bench.folder.path("boots")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn mtu(bench: &Bench) -> String {
    bench.lab().target.run(|| fs::read_to_string("/proc/sys/net/ipv6/conf/eth0/mtu")).unwrap()
}

#[track_caller]
fn level(record: &Record) -> &str {
    &record.trial.factors["target.boot"]
}

/// Two kernels, two settings, two repeats.
const TWO: &str = r#"
format = "linerate.plan/1"
workload = "tcp-rr"
repeat = 2
[options]
duration = "50ms"
[factors]
target.mtu = [1400, 1300]
target.boot = ["old", "new"]
[boot.old]
command = "FOLDER/boot.sh 0.3 --uname-2.6 FACE"
kernel = "2.6*"
wait = "20s"
[boot.new]
command = ["FOLDER/boot.sh", "0.3", "--3gb", "BEEF"]
srcversion = { fec = "beef" }
wait = "20s"
"#;

#[test]
fn a_campaign_over_two_kernels_that_is_stopped_and_resumed() {
    let Some(bench) = board("two-kernels") else { return };
    let before = mtu(&bench);
    let running = Running::start(run_command(&bench, TWO, &["--quiet"]));
    bench.wait_until("the second kernel is booted", LIMIT, || boots(&bench).len() == 2 && bench.finished() > 4);
    running.signal("INT");
    running.wait(LIMIT).check_sentence_of_many(&["interrupted"]);
    assert_eq!(mtu(&bench), before);

    let ran = run(&bench, TWO, &["--resume"]);
    ran.check_done();
    assert!(ran.stderr.contains("the target stays booted as new"), "{ran:#?}");
    assert_eq!(boots(&bench), ["old target", "new target", "new target"], "nobody knows what runs at a resumption");
    assert_eq!(mtu(&bench), before);
    let records = bench.records();
    assert_eq!(records.len(), 8);
    let mut starts = Vec::new();
    for record in &records {
        let target = &record.target.environment;
        assert_eq!(target.kernel.as_deref().unwrap().starts_with("2.6"), level(record) == "old");
        let srcversion = target.modules.get("fec").map(String::as_str);
        assert_eq!(srcversion, (level(record) == "new").then_some("BEEF"));
        let told: Vec<_> = record.target.settings.iter().map(|one| (one.name.as_str(), &one.read_back)).collect();
        assert_eq!(told[0], ("boot", &Some(level(record).to_owned())));
        assert_eq!(told[1], ("mtu", &Some(record.trial.factors["target.mtu"].clone())));
        assert!(record.doubts.iter().all(|doubt| !doubt.kind().name().starts_with("boot")), "{:?}", record.doubts);
        starts.push((level(record), target.boot_id.clone().unwrap()));
    }
    starts.sort();
    starts.dedup();
    assert_eq!(starts.len(), 3, "each boot has its own boot_id: {starts:?}");
}

/// Levels that fail, each in its own way, and two that do not.
const FAILING: &str = r#"
format = "linerate.plan/1"
workload = "tcp-rr"
repeat = 2
[options]
duration = "50ms"
[factors]
target.boot = ["wrong", "same", "dead", "refused", "unloaded", "alive", "trusted"]
[boot.wrong]
command = "FOLDER/boot.sh 0.2 --uname-2.6 FACE"
kernel = "6.6*"
wait = "10s"
[boot.same]
command = "true"
wait = "1s"
[boot.dead]
command = "FOLDER/boot.sh never"
wait = "1s"
[boot.refused]
command = "echo the relay is stuck >&2; exit 3"
[boot.unloaded]
command = "FOLDER/boot.sh 0.2 --uname-2.6 FACE"
srcversion = { dwmac_generic = "FACE" }
wait = "3s"
[boot.alive]
command = "FOLDER/boot.sh 0.2 --uname-2.6 FACE"
kernel = "2.6*"
build = '#*'
wait = "10s"
srcversion = { fec = "FACE" }
[boot.trusted]
command = "FOLDER/boot.sh 0.2 --uname-2.6 FACE"
"#;

#[test]
fn a_boot_that_fails_is_a_record_and_the_campaign_goes_on() {
    let Some(bench) = board("failing-boots") else { return };
    let ran = run(&bench, FAILING, &[]);
    ran.check_sentence_of_many(&["10 trials failed"]);
    let records = bench.records();
    let check = |name: &str, contains: &str| {
        let of: Vec<_> = records.iter().filter(|record| level(record) == name).collect();
        assert_eq!(of.len(), 2, "{name}");
        for record in of {
            let error = record.error.as_deref().unwrap_or_else(|| panic!("{name} has no error"));
            assert!(error.contains(contains), "{name}: {error}");
            assert_eq!(record.target.settings[0].read_back, None, "{name}");
        }
    };
    check("wrong", "came back from boot.wrong as another: its kernel is 2.6");
    check("same", "has not rebooted within 1s of boot.same");
    check("dead", "was not back within 1s of boot.dead");
    check("refused", "the command of boot.refused failed (exit status: 3): the relay is stuck");
    check("unloaded", "as nobody knows what: it tells no srcversion of dwmac_generic");
    for record in records.iter().filter(|record| record.error.is_none()) {
        let doubted = record.doubts.iter().any(|doubt| doubt.kind().name() == "boot-unchecked");
        assert_eq!(doubted, level(record) == "trusted", "{:?}", record.doubts);
    }
    // Each was tried once, whatever the number of its trials.
    assert_eq!(boots(&bench).len(), 5);
}

#[test]
fn an_interrupt_does_not_wait_for_a_boot() {
    let Some(bench) = board("interrupted-boot") else { return };
    let running = Running::start(run_command(&bench, &TWO.replace("boot.sh 0.3", "boot.sh never"), &["--quiet"]));
    bench.wait_until("the board is being booted", LIMIT, || !boots(&bench).is_empty());
    running.signal("INT");
    let ran = running.wait(Duration::from_secs(15));
    ran.check_interrupted(&["interrupted"]);
    assert!(bench.records().is_empty());
}

#[test]
fn a_dry_run_tells_of_boots_and_boots_nothing() {
    let Some(bench) = board("dry-boots") else { return };
    let ran = run(&bench, TWO, &["--dry-run"]);
    ran.check_done();
    for part in ["2 boots beside it, each at most 20s", "it must come back with kernel 2.6*", "target.boot=new"] {
        assert!(ran.stdout.contains(part), "{part}: {ran:#?}");
    }
    assert!(boots(&bench).is_empty());
}
