//! What a person can get wrong: each gets one clear sentence, exit status 2, and no stack trace.
//! Knows no traffic: nothing here reaches a second machine.

mod machines;

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use linerate_machine::end::Direction;
use linerate_results::store::{Campaign, Store};
use linerate_results::{id, sample};
use machines::kept::keep;
use machines::{Bench, Ran, Running};

/// Nothing here has to wait for anything.
const SOON: Duration = Duration::from_secs(10);

/// Runs the program, and sees that it refuses in one line with these parts.
#[track_caller]
fn check(bench: &Bench, arguments: &[&str], parts: &[&str]) {
    let ran = Running::start(bench.linerate(arguments)).wait(SOON);
    check_refusal(&ran, arguments, parts);
    bench.check_nothing_runs(Duration::from_millis(100));
}

#[track_caller]
fn check_refusal(ran: &Ran, arguments: &[&str], parts: &[&str]) {
    let told = format!("linerate {}\n{}", arguments.join(" "), ran.stderr);
    assert_eq!(ran.status.code(), Some(2), "{told}");
    assert_eq!(ran.stdout, "", "{told}");
    assert_eq!(ran.stderr.lines().count(), 1, "one line: {told}");
    assert!(ran.stderr.starts_with("linerate: ") && !ran.stderr.contains("panicked"), "{told}");
    for part in parts {
        assert!(ran.stderr.contains(part), "'{part}' is missing: {told}");
    }
}

/// `linerate run PLAN --target local --set OPTION…` is refused.
#[track_caller]
fn check_set(bench: &Bench, plan: &str, set: &[&str], parts: &[&str]) {
    let mut arguments = vec!["run", plan, "--target", "local"];
    set.iter().for_each(|option| arguments.extend(["--set", option]));
    check(bench, &arguments, parts);
    assert!(bench.records().is_empty(), "nothing was measured: {set:?}");
}

#[test]
fn options_that_cannot_be() {
    let bench = Bench::bare("options");
    check_set(&bench, "udp-stream", &["rate=fast"], &["rate", "fast", "100M"]);
    check_set(&bench, "udp-stream", &["rate=0"], &["rate", "0"]);
    check_set(&bench, "udp-stream", &["rate=-1M"], &["rate", "-1M"]);
    check_set(&bench, "udp-stream", &["rate=nan"], &["rate", "nan"]);
    check_set(&bench, "udp-stream", &["rate=1e999"], &["rate"]);
    check_set(&bench, "udp-stream", &["rate=99999999999999999999G"], &["rate"]);
    check_set(&bench, "udp-stream", &["rate="], &["rate"]);
    check_set(&bench, "udp-stream", &["rate=1G..50M:50M"], &["rate"]);
    check_set(&bench, "udp-stream", &["rate=50M..1G:0"], &["rate"]);
    check_set(&bench, "udp-stream", &["rate=1..1000000000000:1"], &["rate"]);
    check_set(&bench, "udp-stream", &["message_size=64K"], &["message_size", "65507"]);
    check_set(&bench, "udp-stream", &["message_size=1"], &["message_size"]);
    check_set(&bench, "udp-stream", &["message_size=0"], &["message_size"]);
    check_set(&bench, "tcp-stream", &["duration=0"], &["duration"]);
    check_set(&bench, "tcp-stream", &["duration=0s"], &["duration"]);
    check_set(&bench, "tcp-stream", &["duration=-5s"], &["duration", "-5s"]);
    check_set(&bench, "tcp-stream", &["duration=soon"], &["duration", "soon"]);
    check_set(&bench, "tcp-stream", &["duration=999999999999h"], &["duration"]);
    check_set(&bench, "tcp-stream", &["bytes=0"], &["bytes"]);
    check_set(&bench, "tcp-stream", &["interval=1ns"], &["interval"]);
    check_set(&bench, "tcp-stream", &["streams=0"], &["streams", "128"]);
    check_set(&bench, "tcp-stream", &["streams=1000000"], &["streams", "128"]);
    check_set(&bench, "tcp-stream", &["streams=-1"], &["streams", "128"]);
    check_set(&bench, "tcp-stream", &["mss=-1"], &["mss", "-1"]);
    check_set(&bench, "tcp-stream", &["mss=1"], &["mss"]);
    check_set(&bench, "tcp-stream", &["mss=70000"], &["mss"]);
    check_set(&bench, "tcp-stream", &["dscp=64"], &["dscp", "63"]);
    check_set(&bench, "tcp-stream", &["direction=up"], &["direction", "tx | rx | both"]);
    check_set(&bench, "tcp-stream", &["ip=5"], &["ip", "4 | 6"]);
    check_set(&bench, "tcp-stream", &["alignment=3"], &["alignment"]);
    check_set(&bench, "tcp-stream", &["workload=ping"], &["workload"]);
    check_set(&bench, "tcp-stream", &["target.mtu=-1"], &["target.mtu"]);
    check_set(&bench, "tcp-stream", &["mtu=9000"], &["mtu"]);
    check_set(&bench, "tcp-stream", &["durration=5s"], &["durration", "did you mean 'duration'?"]);
    check_set(&bench, "tcp-stream", &["duration=5s", "bytes=1M", "repeat=0"], &["repeat"]);
    check_set(&bench, "tcp-rr", &["outstanding=0"], &["outstanding", "256"]);
    check_set(&bench, "tcp-rr", &["request_size=0"], &["request_size"]);
}

#[test]
fn plans_and_endpoints_that_are_not_there() {
    let bench = Bench::bare("endpoints");
    let run = |plan: &str, target: &str, parts: &[&str]| check(&bench, &["run", plan, "--target", target], parts);
    run("tpc", "local", &["there is no plan 'tpc'", "tcp"]);
    run("./nowhere.toml", "local", &["nowhere.toml"]);
    run("/", "local", &["plan file /: it is a folder"]);
    run("tcp", "netns:nowhere", &["the target (netns:nowhere)", "cannot be reached", "ip netns list"]);
    run("tcp", "netns:/dev/null", &["the target (netns:/dev/null)", "cannot be reached"]);
    run("tcp", "tcp:127.0.0.1:1", &["the target (tcp:127.0.0.1:1)", "key", "--psk-file"]);
    run("tcp", "exec:true", &["the target (exec:true)", "its agent ended"]);
    run("tcp", "exec:cat", &["the target (exec:cat)"]);
    run("tcp", "exec:echo hello", &["the target (exec:echo hello)"]);
    run("tcp", "exec:/nowhere/agent", &["the target (exec:/nowhere/agent)", "status 127"]);
    run("tcp", "exec:kill -9 $$", &["the target (exec:kill -9 $$)", "SIGKILL"]);
    if Command::new("ssh").arg("-V").stderr(Stdio::null()).status().is_ok() {
        run("tcp", "ssh:127.0.0.1:1", &["the target (ssh:127.0.0.1:1)", "cannot be reached", "Connection refused"]);
    } else {
        eprintln!("SKIPPED an unreachable machine over ssh: there is no ssh here");
    }
}

/// The command line's own refusals are clap's: they may take several lines.
#[track_caller]
fn check_usage(arguments: &[&str], parts: &[&str]) {
    let bench = Bench::bare("usage");
    let ran = Running::start(bench.linerate(arguments)).wait(SOON);
    assert_eq!(ran.status.code(), Some(2), "{ran:#?}");
    for part in parts {
        assert!(ran.stderr.contains(part), "'{part}' is missing: {ran:#?}");
    }
    assert!(!ran.stderr.contains("panicked"), "{ran:#?}");
}

#[test]
fn command_lines_that_make_no_sense() {
    check_usage(&["predict", "--machine", "any", "--set", "rat=1M"], &["no axis 'rat'", "rate and message_size"]);
    #[cfg(feature = "web")]
    check_usage(&["web", "--listen", "localhost:4780"], &["--listen", "an IP address and a port, like 127.0.0.1:4780"]);
    check_usage(&["run", "tcp"], &["--target"]);
    check_usage(&["run", "tcp", "--target", "board:../imx6"], &["no name of a board"]);
    check_usage(&["run", "tcp", "--target", "a b"], &["not an endpoint", "netns:NAME"]);
    check_usage(&["run", "tcp", "--target", "local", "--set", "rate"], &["is not NAME=VALUE", "write it like"]);
    check_usage(&["run", "tcp", "--target", "local", "--json", "--csv"], &["--json", "--csv"]);
    check_usage(&["run", "tcp", "--target", "local", "--repeat", "often"], &["often"]);
    check_usage(&["run", "tcp", "--target", "local", "--target-address", "here"], &["here"]);
    check_usage(&["compare"], &["<BASELINE>"]);
    check_usage(&["compare", "a", "b", "--json", "--csv"], &["--json", "--csv"]);
    check_usage(&["levitate"], &["levitate"]);
    check_usage(&["target", "local", "set"], &["NAME=VALUE"]);
    check_usage(&["target", "local", "set", "mtu"], &["is not NAME=VALUE", "write it like"]);
    check_usage(&["run", "tcp", "--target", "local", "--dry-run", "--resume"], &["--dry-run", "--resume"]);
    check_usage(&["agent"], &["give one of"]);
    check_usage(&["agent", "--listen", "127.0.0.1:0"], &["demands a key"]);
}

#[test]
fn plan_files_with_a_mistake() {
    let bench = Bench::bare("plan-files");
    let file = |text: &str, parts: &[&str]| {
        let path = bench.folder.path("mine.toml");
        fs::write(&path, text).unwrap();
        check(&bench, &["run", &path, "--target", "local"], parts);
        check(&bench, &["plans", &path], parts);
    };
    let head = "format = \"linerate.plan/1\"\nname = \"mine\"\nabout = \"a\"\nwhy = \"b\"\n";
    file(&format!("{head}colour = \"red\"\n"), &["mine.toml:5", "colour"]);
    file(
        &format!("{head}[[part]]\nworkload = \"tcp-stream\"\n[part.options]\nduration = \"soon\"\n"),
        &["mine.toml:8", "duration", "soon"],
    );
    file(&format!("{head}[[part]]\nworkload = \"ping\"\n"), &["mine.toml:6", "ping"]);
    file(&format!("{head}[[part\n"), &["mine.toml:5"]);
    file("", &["mine.toml"]);
    let path = bench.folder.path("noise.toml");
    fs::write(&path, [0xff, 0xfe, 0, 1]).unwrap();
    check(&bench, &["run", &path, "--target", "local"], &["noise.toml"]);
}

#[test]
fn stores_that_cannot_be_used() {
    let bench = Bench::bare("stores");
    let store = |path: &str, parts: &[&str]| {
        check(&bench, &["run", "tcp-stream", "--target", "local", "--store", path], parts);
        check(&bench, &["records", "list", "--store", path], parts);
    };
    store("/proc/linerate.sqlite", &["/proc/linerate.sqlite", "--store"]);
    store("/nowhere/at/all.sqlite", &["/nowhere/at", "--store"]);
    store("/", &["it is a folder"]);
    let text = bench.folder.path("letter");
    fs::write(&text, "dear diary, ".repeat(500)).unwrap();
    store(&text, &["is not a linerate store, and was left as it is"]);
    assert_eq!(fs::read(&text).unwrap().len(), 6000);
    // As after a copy that was broken off.
    let cut = bench.folder.path("cut.sqlite");
    sample::fill(cut.as_ref(), 1, 2, 3).unwrap();
    let whole = fs::read(&cut).unwrap();
    fs::write(&cut, &whole[..whole.len() / 2]).unwrap();
    let words = ["records", "list", "--store", &cut];
    let ran = Running::start(bench.linerate(&words)).wait(SOON);
    check_refusal(&ran, &words, &["malformed; check the disk, and that the file is whole"]);
    assert_eq!(ran.stderr.matches("malformed").count(), 1, "it is said once: {}", ran.stderr);

    let run = ["run", "tcp-stream", "--target", "local"];
    let mut command = bench.linerate(&run);
    command.env("XDG_DATA_HOME", "/proc");
    check_refusal(&Running::start(command).wait(SOON), &run, &["cannot make the folder /proc/linerate", "--store"]);
    let mut command = bench.linerate(&["records", "list"]);
    command.env_remove("XDG_DATA_HOME").env_remove("HOME");
    check_refusal(&Running::start(command).wait(SOON), &["records", "list"], &["no home folder", "--store"]);
}

#[test]
fn records_that_are_not_there() {
    let bench = Bench::bare("records");
    let path = bench.store_path();
    for words in [
        &["records", "list"][..],
        &["records", "campaigns"],
        &["records", "show"],
        &["records", "profile"],
        &["records", "export", "--json"],
        &["explain"],
        &["explain", "--try"],
        &["compare", "last", "last~1"],
        &["history", "throughput"],
        &["cost"],
    ] {
        let sentence =
            format!("there are no records at {} yet: linerate run … makes some; --store says", path.display());
        check(&bench, words, &[&sentence]);
        assert!(!path.parent().unwrap().exists(), "{words:?} has made a folder");
    }
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, "").unwrap();
    check(&bench, &["records", "list"], &["there are no records at"]);
    assert_eq!(fs::read(&path).unwrap(), [0; 0], "an empty file stays as it is");
    drop(Store::open(&path).unwrap());
    check(&bench, &["records", "show", "01ARZ3"], &["no campaign, record or plan '01ARZ3'", "linerate records list"]);
    check(&bench, &["records", "show"], &["there are no records", "linerate run"]);
    check(&bench, &["records", "export"], &["--json, --csv, --markdown or --kcidb"]);
    check(&bench, &["records", "list", "--since", "soon"], &["'soon' is not a time"]);
    check(&bench, &["records", "list", "--workload", "ping"], &["there is no workload 'ping'", "tcp-rr"]);
    check(&bench, &["run", "tcp", "--target", "local", "--resume"], &["no unfinished campaign", "leave --resume out"]);
    let ran = Running::start(bench.linerate(&["records", "list"])).wait(SOON);
    ran.check_done();
    assert!(ran.stdout.contains("No such records"), "an empty store is no mistake: {ran:?}");
}

/// Whoever mistypes a machine's name finds nothing on the disk that was not there before.
#[test]
fn what_measures_nothing_leaves_no_store() {
    let bench = Bench::bare("no-store");
    let usual = bench.store_path().parent().unwrap().to_owned();
    let named = bench.folder.path("mine.sqlite");
    let nowhere = ["--target", "netns:nothere", "--host", "local"];
    for words in
        [&["run", "tcp"][..], &["run", "udp-sweep", "--resume"], &["search", "udp-sweep"], &["explain", "--try"]]
    {
        let machines = if words[0] == "explain" { &[][..] } else { &nowhere };
        for more in [&[][..], &["--store", &named]] {
            let ran = Running::start(bench.linerate(&[words, machines, more].concat())).wait(SOON);
            assert_eq!(ran.status.code(), Some(2), "{words:?}: {ran:#?}");
            assert!(!usual.exists() && !Path::new(&named).exists(), "{words:?} {more:?}: {ran:#?}");
        }
    }
    // A place where none can be made is known before a machine is reached.
    let wrong = bench.folder.path("nowhere/mine.sqlite");
    check(&bench, &[&["run", "tcp", "--store", &wrong], &nowhere[..]].concat(), &["there is no folder"]);
}

#[test]
fn comparisons_of_what_is_not_there() {
    let bench = Bench::bare("comparisons");
    fs::create_dir_all(bench.store_path().parent().unwrap()).unwrap();
    let mut store = Store::open(&bench.store_path()).unwrap();
    for (campaign, plan) in [(1, "tcp"), (2, "mine")] {
        let mut records: Vec<_> = (0..6).map(|repeat| sample::tcp(repeat, Direction::Rx, 900.0, false)).collect();
        for (at, record) in (0_u32..).zip(&mut records) {
            record.id = id::id(campaign * 1_000_000 + u64::from(at), [1; 10]);
            (record.campaign, record.trial.repeat) = (id::id(campaign * 1_000_000, [2; 10]), at);
            store.insert(record).unwrap();
        }
        let record = &records[0];
        store.campaign_begin(&Campaign { plan: plan.to_owned(), ..sample::campaign_of(record, 6) }).unwrap();
    }
    drop(store);
    check(&bench, &["history", "loss"], &["no record has the figure loss"]);
    // Words that pick nothing are a mistake, in a list as everywhere; a filter beside them may leave nothing.
    for words in ["last:since=2100-01-01", ":until=1970-01-01", "last:direction=tx"] {
        check(&bench, &["records", "list", words], &[words, "picks no records"]);
        check(&bench, &["records", "export", "--json", words], &[words, "picks no records"]);
    }
    for filter in [["--since", "2100-01-01"], ["--plan", "nothing"], ["--workload", "frames"]] {
        let ran = Running::start(bench.linerate(&[&["records", "list", "last"], &filter[..]].concat())).wait(SOON);
        assert!(ran.check_done().stdout.contains("No such records"), "{ran:?}");
    }
    let refused = |arguments: &[&str], parts: &[&str]| {
        let arguments = [&["compare"], arguments].concat();
        check(&bench, &arguments, parts);
    };
    refused(&["nowhere", "last"], &["no campaign, record or plan 'nowhere'"]);
    refused(&["00000", "last"], &["2 campaigns begin with '00000': 000000 (tcp), 000001 (mine); give more of it"]);
    refused(&["last~7", "last"], &["there is no last~7: there are 2 campaigns"]);
    refused(&["last~x", "last"], &["'last~x' picks nothing", "last~1"]);
    refused(&["last:ip=auto,direction=rx,mtu=9", "last"], &["none has a mtu"]);
    refused(&["last", "last"], &["6 records are on both sides", "--null last"]);
    let (newest, first) = (id::id(2_000_000, [1; 10]), id::id(1_000_000, [1; 10]));
    refused(&[&newest, &newest], &["one record is on both sides"]);
    refused(&["--null", &newest], &["one trial of a configuration at most", "--repeat"]);
    refused(&["tcp", "mine", "--on", "target.krenel"], &["--on target.krenel", "no record of either side"]);
    refused(&["last:direction=tx", "last"], &["none has direction=tx; choose from rx"]);
    refused(&["last:mtu=9000", "last"], &["none has a mtu; their factors are direction"]);
    refused(&["last:direction", "last"], &["'direction'", "NAME=VALUE"]);
    refused(&["last:ip=4,ip=6", "last"], &["ip twice"]);
    refused(&["", "last"], &["picks nothing"]);
    refused(&[":since=soon", "last"], &["'soon' is not a time"]);
    refused(&["tcp", "mine", "--metric", "thruput"], &["there is no metric 'thruput'", "did you mean 'throughput'"]);
    refused(&["tcp", "mine", "--metric", "loss"], &["none of the metrics in common"]);
    refused(&["tcp", "mine", "--metric", "THROUGHPUT"], &["did you mean 'throughput'"]);
    refused(&["tcp", "mine", "--margin", "much"], &["--margin", "'much'"]);
    refused(&["tcp", "mine", "--margin", "200%"], &["--margin", "at most 100"]);
    refused(&["tcp", "mine", "--fail-if", "throughput"], &["--fail-if", "METRIC worse 3%"]);
    refused(&["tcp", "mine", "--fail-if", "host_cpu_busy worse"], &["--metric"]);
    refused(&["tcp", "mine", "--fail-if", "loss worse", "--metric", "throughput"], &["add --metric loss"]);
    check(&bench, &["history", "speed"], &["there is no metric 'speed'", "throughput"]);
    check(&bench, &["history", "throughput", "last:streams=7"], &["none has streams=7; choose from 1"]);
    check(&bench, &["history", "loss", "tcp"], &["none of what 'tcp' picks has the figure loss", ":plan=NAME"]);
    for list in ["list", "campaigns"] {
        check_usage(&["records", list, "--limit", "0"], &["--limit", "write a whole number, 1 or more"]);
    }
    let ran = Running::start(bench.linerate(&["records", "export", "--kcidb"])).wait(SOON);
    assert!(ran.stderr.contains("--origin <NAME>") && !ran.stderr.contains("boards"), "{ran:?}");
    check_usage(&["compare", "last"], &["<CANDIDATE>"]);
    check_usage(&["history", "throughput", "--last", "0"], &["--last"]);

    let ends = |arguments: &[&str], status: i32, part: &str| {
        let ran = Running::start(bench.linerate(&[&["compare"], arguments].concat())).wait(SOON);
        assert_eq!(ran.status.code(), Some(status), "{arguments:?}: {ran:?}");
        assert!(ran.stdout.contains(part), "{arguments:?}: {ran:?}");
    };
    ends(&["tcp", "mine"], 0, "the same within 0 %");
    ends(&["tcp", "mine", "--on", "target.kernel"], 0, "the same within 0 %");
    // Repeats are measured in turns by the campaign that has them; another campaign is no advice to who compares within one.
    ends(&["tcp", "mine"], 0, "A campaign with both as levels");
    let within = format!("{first} {}", id::id(1_000_001, [1; 10]));
    let within: Vec<&str> = within.split(' ').collect();
    ends(&within, 0, "Repeats of the campaign are measured in turns.");
    ends(&["tcp", "mine", "--fail-if", "throughput worse 3%"], 0, "passed");
    ends(&["tcp", "mine", "--bisect"], 0, "the same");
    ends(&["tcp", "mine", "--null"], 0, "the same");
    ends(&["--null", "mine", "--json"], 0, "linerate.comparison/1");
    let ran = Running::start(bench.linerate(&["history", "throughput", "--csv"])).wait(SOON);
    assert_eq!(ran.stdout.lines().count(), 3, "{ran:?}");

    // What could not be read when the figures were made is in no comparison, which says so.
    let lose = |records: &str| {
        let lost = format!(
            "DROP TRIGGER IF EXISTS records_are_never_changed; UPDATE records SET packed = x'0011' WHERE id {records};
             DELETE FROM figures WHERE record {records}"
        );
        rusqlite::Connection::open(bench.store_path()).unwrap().execute_batch(&lost).unwrap();
    };
    lose(&format!("= '{first}'"));
    ends(&["tcp", "mine"], 0, "Left out: one record of 'tcp' cannot be read");
    ends(&["--null", "tcp"], 0, "Left out: one record of 'tcp' cannot be read");
    let ran = Running::start(bench.linerate(&["history", "throughput", "tcp"])).wait(SOON);
    assert!(ran.check_done().stderr.contains("left out: one record of 'tcp' cannot be read"), "{ran:?}");
    lose(&format!("< '{newest}'"));
    refused(&["tcp", "mine"], &["6 records of 'tcp' cannot be read", &first]);
}

/// What tried a suggestion, and what never measured anything, ran no plan.
#[test]
fn the_last_plan_is_one_that_measured() {
    let bench = Bench::bare("last-plan");
    fs::create_dir_all(bench.store_path().parent().unwrap()).unwrap();
    let mut store = Store::open(&bench.store_path()).unwrap();
    for (number, plan, mbit) in [(1, "tcp", Some(900.0)), (2, "explain --try", Some(700.0)), (3, "rr", None)] {
        let mut record = sample::tcp(0, Direction::Rx, mbit.unwrap_or_default(), false);
        (record.id, record.campaign) = (id::id(number * 1_000_000 + 1, [1; 10]), id::id(number * 1_000_000, [2; 10]));
        record.plan = plan.to_owned();
        store.campaign_begin(&sample::campaign_of(&record, 1)).unwrap();
        if mbit.is_some() {
            store.insert(&record).unwrap();
        }
    }
    drop(store);
    let ran = Running::start(bench.linerate(&["history", "throughput"])).wait(SOON);
    let told = &ran.check_done().stdout;
    assert!(told.contains("900.0") && !told.contains("700.0"), "{told}");
}

/// A history is of the last plan that ran; what only another one has is not denied.
#[test]
fn a_metric_of_another_plan() {
    let bench = Bench::bare("another-plan");
    fs::create_dir_all(bench.store_path().parent().unwrap()).unwrap();
    let mut store = Store::open(&bench.store_path()).unwrap();
    let mut older = sample::rr(0, "64");
    older.plan = "asked".to_owned();
    keep(&mut store, 1, &mut [older]);
    keep(&mut store, 2, &mut [sample::tcp(0, Direction::Rx, 900.0, false)]);
    drop(store);
    check(&bench, &["history", "latency_p99"], &["the last plan that ran has the figure latency_p99", ":plan=asked"]);
    check(&bench, &["history", "loss"], &["no record has the figure loss"]);
}

#[test]
fn gates_end_with_their_status() {
    let bench = Bench::bare("gates");
    fs::create_dir_all(bench.store_path().parent().unwrap()).unwrap();
    let mut store = Store::open(&bench.store_path()).unwrap();
    for repeat in 0..8_u32 {
        // Of 1 stream; of 2, a tenth less; of 4, anything.
        let noise = f64::from(repeat * 3 % 8);
        let wild = [300.0, 900.0, 1200.0, 600.0, 1000.0, 800.0, 1100.0, 1300.0][repeat as usize];
        for (at, streams, mbit) in [(0, "1", 900.0 + noise), (1, "2", 810.0 + noise), (2, "4", wild)] {
            let mut record = sample::tcp(3 * repeat + at, Direction::Rx, mbit, false);
            record.trial.repeat = repeat;
            record.trial.factors.insert("streams".to_owned(), streams.to_owned());
            record.asked.insert("streams".to_owned(), streams.to_owned());
            store.insert(&record).unwrap();
        }
    }
    drop(store);
    let ends = |levels: [&str; 2], more: &[&str], status: i32| {
        let sides = levels.map(|level| format!(":streams={level}"));
        let arguments = [&["compare", &sides[0], &sides[1], "--metric", "throughput"], more].concat();
        let ran = Running::start(bench.linerate(&arguments)).wait(SOON);
        assert_eq!(ran.status.code(), Some(status), "{arguments:?}: {ran:?}");
    };
    let gate = ["--fail-if", "throughput worse 3%"];
    ends(["1", "2"], &[], 0);
    ends(["1", "2"], &gate, 1);
    ends(["1", "2"], &["--fail-if", "throughput worse 20%"], 0);
    ends(["2", "1"], &gate, 0);
    ends(["1", "4"], &gate, 0);
    ends(["1", "2"], &["--bisect"], 1);
    ends(["2", "1"], &["--bisect"], 0);
    ends(["1", "4"], &["--bisect"], 125);
    ends(["1", "4"], &[&gate[..], &["--bisect"]].concat(), 125);
}

#[test]
fn keys_that_are_none() {
    let bench = Bench::bare("keys");
    let key = |path: &str, parts: &[&str]| {
        let arguments = ["run", "tcp", "--target", "tcp:127.0.0.1:1", "--psk-file", path];
        check(&bench, &arguments, parts);
    };
    key("/nowhere/key", &["/nowhere/key", "No such file"]);
    let path = bench.folder.path("key");
    fs::write(&path, "swordfish").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    key(&path, &["can be read by others", "chmod 600"]);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    key(&path, &["is not a key file", "64 hexadecimal digits", "--new-psk"]);
    fs::write(&path, "0123456789abcdef".repeat(4)).unwrap();
    key(&path, &["the target (tcp:127.0.0.1:1) cannot be reached", "Connection refused", "--listen"]);
}

#[test]
fn files_without_an_end_are_not_waited_for() {
    let bench = Bench::bare("endless");
    let pipe = bench.folder.path("pipe.toml");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for file in [pipe.as_str(), "/dev/zero"] {
        for words in [
            &["predict", "--table", file][..],
            &["predict", "--machine", file],
            &["run", file, "--target", "local"],
            &["plans", file],
            &["run", "tcp", "--target", "tcp:127.0.0.1:1", "--psk-file", file],
            &["report", "verify", file],
            &["target", "local", "registers", "--definitions", file],
        ] {
            check(&bench, words, &[file, "regular file"]);
        }
        check(&bench, &["records", "list", "--store", file], &[file]);
    }
    // What a shell hands over has an end, or is the user's to end.
    let mut command = bench.linerate(&["plans", "/dev/stdin"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"format = 'linerate.plan/1'\nworkload = 'tcp-rr'\n").unwrap();
    assert!(child.wait_with_output().unwrap().status.success());
}

#[test]
fn a_look_at_what_is_not_there() {
    let bench = Bench::bare("look");
    for look in ["info", "counters"] {
        let arguments = ["target", "local", look, "--interface", "nonsense0"];
        check(&bench, &arguments, &["the target (local)", "no interface nonsense0", "lo"]);
    }
    let target = |words: &[&str], parts: &[&str]| check(&bench, &[&["target", "local"], words].concat(), parts);
    target(&["get", "mtuu"], &["there is no setting 'mtuu'", "did you mean 'mtu'?"]);
    target(
        &["get", "coalesce.rx_usecs", "--interface", "lo"],
        &["the target (local)", "coalesce.rx_usecs is not there"],
    );
    target(&["set", "mtu=big"], &["mtu: 'big' is not allowed", "bytes like 1500"]);
    target(&["set", "mtu=1500", "target.mtu=9000"], &["mtu is set twice"]);
    target(&["set", "custom.x=1"], &["custom.x is for a plan to define"]);
    let watch = |interval: &str| check(&bench, &["target", "local", "watch", "--interval", interval], &["--interval"]);
    watch("0");
    watch("soon");
}

#[test]
fn nobody_reads_what_is_printed() {
    let bench = Bench::bare("pipe");
    fs::create_dir_all(bench.store_path().parent().unwrap()).unwrap();
    drop(Store::open(&bench.store_path()).unwrap());
    for arguments in [&["plans"][..], &["plans", "canned"], &["--help"], &["completions", "bash"], &["records", "list"]]
    {
        let mut command = bench.linerate(arguments);
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        command.stdout(writer).stderr(Stdio::piped());
        let output = command.spawn().unwrap().wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!stderr.contains("panicked"), "{arguments:?}: {stderr}");
        assert!(stderr.is_empty(), "{arguments:?}: {stderr}");
    }
}

#[test]
fn what_is_printed_finds_no_room() {
    let bench = Bench::bare("no-room");
    let mut command = bench.linerate(&["plans"]);
    command.stdout(fs::File::options().write(true).open("/dev/full").unwrap()).stderr(Stdio::piped());
    let output = command.spawn().unwrap().wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.starts_with("linerate: standard output cannot be written: No space left"), "{stderr}");
}
